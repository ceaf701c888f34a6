"""Workspaces of convolutions of which everything is known: with copies of what they work."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest

from estimator.methods.rad import Rad
from estimator.methods.rad.convolutions import COPIES, MORE, OTHER, WIDTH, Convolutions, Workspace, copies, described
from estimator.methods.rad.fit.convolutions import fit_convolutions
from estimator.methods.rad.measured_convolutions import Measured, write
from estimator.methods.rad.program import Conv, Extents
from estimator.methods.rad.workspace import total_bytes
from estimator.store import SHIPPED, ModelError, Store
from estimator.types import Precision

MIB = 2**20
NONE = {"start": 0.0, "trees": []}


def conv(inputs: int, outputs: int, kernel: int, length: int, **more: Any) -> Conv:
    extents = Extents((1, 1, kernel), (1, 1, length), 1, padded=True, last=False)
    return Conv(inputs, outputs, kernel, 1, 1, length, length, extents=extents)._replace(**more)


def named(name: str, item: Conv, batch: int, precision: Precision) -> float:
    return copies(item, batch, precision)[COPIES.index(name)]


def test_copies_are_of_what_is_read_and_written() -> None:
    item = conv(30, 64, 5, 1000)
    x, y, w = 8 * 30 * 1000 * 4, 8 * 64 * 1000 * 4, 30 * 64 * 5 * 4
    found = dict(zip(COPIES, copies(item, 8, "fp32"), strict=True))
    assert (found[""], found["x"], found["y"], found["w"]) == (0, x, y, w)
    assert (found["xyw"], found["xww"], found["xxyyw"]) == (x + y + w, x + 2 * w, 2 * x + 2 * y + w)
    assert found["padded xy"] == x * 32 / 30 + y
    assert found["w of each sample"] == found["w of each sample in fp32"] == 8 * w
    assert named("padded xy", item, 8, "bf16") == x / 2 * 32 / 30 + y / 2
    assert named("w of each sample in fp32", item, 8, "bf16") == 2 * named("w of each sample", item, 8, "bf16") == 8 * w
    assert named("w", item._replace(groups=30, channels_out=30), 8, "fp32") == 30 * 5 * 4


def test_trees_choose_the_copies_or_say_how_much_else() -> None:
    def chooses(kind: int, other: float = 0.0, more: float = 0.0) -> dict[str, Any]:
        starts = {"copies": float(kind), "more": more, "other": other}
        return {name: {"start": start, "trees": []} for name, start in starts.items()}

    model = {"forward": chooses(COPIES.index("xy")), "input": chooses(OTHER, 0.5), "weight": chooses(OTHER, 100.0)}
    item = conv(32, 64, 5, 1000)
    found = Convolutions(model).of(item, 8, "fp32")
    total = total_bytes(item, 8, "fp32")
    assert found.forward == named("xy", item, 8, "fp32")
    assert found.input == pytest.approx(total * 2.718281828**0.5)
    assert found.weight == pytest.approx(total * 2.718281828**6)  # no more is believed
    beside = Convolutions({**model, "weight": chooses(MORE, more=log(0.02))}).of(item, 8, "fp32").weight
    assert beside == pytest.approx(1.02 * named("padded xy", item, 8, "fp32"))
    most = Convolutions({**model, "weight": chooses(MORE, more=100.0)}).of(item, 8, "fp32").weight
    assert most == 2 * named("padded xy", item, 8, "fp32")  # no more is believed here either
    turned = Convolutions(model).of(item._replace(transposed=True), 8, "fp32")
    assert (turned.forward, turned.input, turned.weight) == (found.input, found.forward, found.weight)
    for damaged in ({}, {**model, "input": {}}, {**model, "weight": None}, {**model, "forward": {"copies": NONE}}):
        with pytest.raises(ModelError, match="damaged"):
            Convolutions(damaged)


def test_copies_are_learned_from_what_was_measured(tmp_path: Path) -> None:
    measured = []
    for batch in range(8, 328, 8):
        for kernel in (1, 5):
            item = Measured(1, 1, 1, kernel, 1, 1, 1, 0, "fp32", 1, 1, 64, 512, 512, batch, 0, 0, 0)
            size = dict(zip(COPIES, copies(item.conv, batch, "fp32"), strict=True))
            forward = int(size["xyw" if kernel == 5 else ""]) // 512 * 512
            odd = int(3.3 * total_bytes(item.conv, batch, "fp32")) // 512 * 512
            beside = int(1.05 * size["padded xy"]) // 512 * 512 if kernel == 5 else 0
            measured.append(item._replace(forward=forward, input=beside, weight=odd if kernel == 5 else 0))
    path = tmp_path / "w.csv.xz"
    write(path, measured)
    known = Convolutions(fit_convolutions([path]))
    five, one = conv(512, 512, 5, 64), conv(512, 512, 1, 64)
    found = known.of(five, 100, "fp32")
    assert found.forward == named("xyw", five, 100, "fp32")
    assert found.input == pytest.approx(1.05 * named("padded xy", five, 100, "fp32"), rel=0.001)
    assert found.weight == pytest.approx(3.3 * total_bytes(five, 100, "fp32"), rel=0.01)
    assert known.of(one, 100, "fp32") == Workspace(0, 0, 0)


def test_a_description_tells_all_that_a_rehearsal_knows() -> None:
    item = conv(32, 64, 5, 1000)
    assert item.extents is not None
    plain = described(item, item.extents, 8, "fp32")
    assert len(plain) == WIDTH
    for change in ({"dilation": 2}, {"padded": False}, {"last": True}, {"kernel": (1, 5, 1)}, {"sides": (1, 10, 100)}):
        assert described(item, item.extents._replace(**change), 8, "fp32") != plain


def test_the_shipped_model_knows_what_was_measured_of_series() -> None:
    known = Rad.load().works.convolution
    item = conv(512, 512, 3, 15999, size_out=7999, stride=2)
    found = known(item, 32, "fp32")
    assert 1400 * MIB < found.forward < 2600 * MIB  # 2503 MiB on an H100
    together = Extents((1, 3, 3), (1, 96, 96), 1, padded=True, last=True)
    apart = together._replace(last=False)
    picture = Conv(256, 256, 9, 1, 1, 96 * 96, 96 * 96, extents=together)
    total = total_bytes(picture, 16, "fp32")
    assert known(picture, 16, "fp32").forward < 0.1 * total
    assert known(picture._replace(extents=apart), 16, "fp32").forward > 0.1 * total


def test_a_model_without_them_rehearses_nothing() -> None:
    model = Store(SHIPPED, "rad").load()
    workspaces = {name: tree for name, tree in model["workspaces"].items() if name != "whole"}
    method = Rad({**model, "workspaces": workspaces})
    with pytest.raises(ModelError, match="radctl retrain"):
        _ = method.works


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", 5, {"forward": {}}])
def test_damaged_ones_are_told_where_they_are_asked_for(damage: Any) -> None:
    model = Store(SHIPPED, "rad").load()
    assert isinstance(model["workspaces"]["whole"], str)  # no lists in the memory of those who only estimate
    method = Rad({**model, "workspaces": {**model["workspaces"], "whole": damage}})
    with pytest.raises(ModelError, match="damaged"):
        _ = method.works
