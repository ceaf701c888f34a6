"""Workspaces of convolutions of which everything is known: with copies of what they work."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import pytest

from estimator.methods.rad import Rad
from estimator.methods.rad.convolutions import (
    COPIES,
    DRAWS,
    IMPOSSIBLE,
    MORE,
    OTHER,
    WIDTH,
    Convolutions,
    Workspace,
    copies,
    described,
)
from estimator.methods.rad.fit.convolutions import fit_convolutions
from estimator.methods.rad.measure_recurrences import whole
from estimator.methods.rad.measured_convolutions import Measured, write
from estimator.methods.rad.program import Conv, Extents
from estimator.methods.rad.workspace import total_bytes
from estimator.store import SHIPPED, ModelError, Store
from estimator.types import Precision

MIB = 2**20


def conv(inputs: int, outputs: int, kernel: int, length: int, **more: Any) -> Conv:
    extents = Extents((1, 1, kernel), (1, 1, length), 1, padded=True, last=False)
    return Conv(inputs, outputs, kernel, 1, 1, length, length, extents=extents)._replace(**more)


def named(name: str, item: Conv, batch: int, precision: Precision) -> float:
    return copies(item, batch, precision)[COPIES.index(name)]


def test_copies_are_of_what_is_read_and_written() -> None:
    item = conv(30, 64, 5, 1000)
    x, y, w = 8 * 30 * 1000 * 4, 8 * 64 * 1000 * 4, 30 * 64 * 5 * 4
    found = dict(zip(COPIES, copies(item, 8, "fp32"), strict=True))
    more = 256  # so that copies take a block more than what is copied, as nearly all that was measured do
    assert (found[""], found["x"], found["y"], found["w"]) == (0, x + more, y + more, w + more)
    assert found["xyw"] == x + y + w + more
    assert (found["xww"], found["xxyyw"]) == (x + 2 * w + more, 2 * x + 2 * y + w + more)
    assert found["padded xy"] == x * 32 / 30 + y + more
    padded = w * 32 / 30
    assert (found["padded xw"], found["padded yww"]) == (x * 32 / 30 + padded + more, y + 2 * padded + more)
    assert found["padded xww"] == x * 32 / 30 + 2 * padded + more
    assert found["w of each sample"] == found["w of each sample in fp32"] == 8 * w
    assert named("padded xy", item, 8, "bf16") == x / 2 * 32 / 30 + y / 2 + more
    assert named("w of each sample in fp32", item, 8, "bf16") == 2 * named("w of each sample", item, 8, "bf16") == 8 * w
    assert named("w", item._replace(groups=30, channels_out=30), 8, "fp32") == 30 * 5 * 4 + more


def picture(inputs: int, outputs: int, kernel: int, side: int, **more: Any) -> Conv:
    extents = Extents((1, kernel, kernel), (1, side, side), 1, padded=True, last=False)
    return Conv(inputs, outputs, kernel**2, 1, 1, side**2, side**2, extents=extents)._replace(**more)


def test_transforms_are_as_measured() -> None:
    """On an H100, of gradients of weights and of a film's input, in MiB."""
    assert named("winograd", picture(96, 1152, 3, 48), 4, "fp32") == 113.90625 * MIB
    assert named("fourier", picture(96, 64, 3, 29), 396, "fp32") == pytest.approx(607.25 * MIB, rel=0.001)
    assert named("fourier", picture(66, 69, 3, 96), 32, "fp32") == pytest.approx(655.77 * MIB, rel=0.001)
    series = Extents((1, 1, 5), (1, 1, 24), 1, padded=False, last=False)
    assert named("fourier", Conv(1536, 32, 5, 1, 1, 24, 20, extents=series), 128, "fp32") == 1666.3125 * MIB
    film = Extents((1, 3, 3), (1, 41, 5), 1, padded=True, last=False)
    tiles = Conv(32, 18, 9, 1, 1, 205, 205, extents=film)
    assert named("fourier in tiles", tiles, 2004, "fp32") == pytest.approx(834.129 * MIB, rel=0.0001)
    assert named("fourier of y", picture(3, 32, 5, 128), 384, "fp16") == pytest.approx(6192.0 * MIB, rel=0.0001)
    assert named("fourier of y", picture(3, 200, 7, 64), 128, "fp32") == pytest.approx(3250.1 * MIB, rel=0.0001)


def test_first_layers_that_are_transformed_are_known(rad: Rad) -> None:
    """A discriminator's, of three times 128 pictures, as an H200 was seen to take it: 67 times what it reads."""
    assert rad.convolves(picture(3, 32, 5, 128), 384, "fp16").forward[0] == pytest.approx(6192.0 * MIB, rel=0.001)
    assert rad.convolves(picture(3, 32, 5, 128), 384, "bf16").forward[0] < 1000 * MIB


DEEP = Extents((1, 3, 3), (8, 48, 48), 1, padded=True, last=False)


@pytest.mark.parametrize(
    "item",
    [
        picture(96, 96, 3, 48, groups=2),
        picture(96, 96, 3, 48, stride=2),
        picture(96, 96, 3, 48, extents=None),
        picture(96, 96, 3, 48, extents=DEEP._replace(sides=(1, 48, 48), dilation=2)),
        picture(96, 96, 3, 48, extents=DEEP),
        picture(96, 96, 3, 48, extents=DEEP._replace(kernel=(3, 3, 3), sides=(1, 48, 48))),
    ],
)
def test_other_convolutions_are_not_transformed(item: Conv) -> None:
    assert copies(item, 4, "fp32")[-4:] == [IMPOSSIBLE] * 4


def test_a_kernel_of_another_side_is_not_winograds() -> None:
    assert named("winograd", picture(96, 96, 5, 48), 4, "fp32") == IMPOSSIBLE
    assert named("fourier in tiles", picture(96, 96, 33, 48), 4, "fp32") == IMPOSSIBLE
    assert named("fourier", picture(96, 96, 33, 48), 4, "fp32") > 0


def test_no_more_tiles_than_were_measured_are_believed() -> None:
    """The letters of 25,600 words, as of a tagger of 256 sentences."""
    letters = conv(50, 64, 3, 16)
    assert named("fourier in tiles", letters, 6400, "fp16") > 3000 * MIB
    assert named("fourier in tiles", letters, 25600, "fp16") == IMPOSSIBLE


def test_what_is_impossible_is_not_said() -> None:
    """Nothing larger than 256 was measured: there the next of the mix counts, else what is none of the copies."""
    assert named("fourier", picture(8, 8, 3, 254), 4, "fp32") > 0
    large = picture(8, 8, 3, 255)
    assert named("fourier", large, 4, "fp32") == IMPOSSIBLE
    often = (COPIES.index("fourier"), 0.9)
    model = {
        "forward": mixed(often, (COPIES.index("x"), 0.1)),
        "input": mixed(often, other=0.5),
        "weight": mixed(often),
    }
    found = Convolutions(model).of(large, 4, "fp32")
    assert found.forward[0] == named("x", large, 4, "fp32")
    assert all(0.98 * found.forward[0] <= size <= 1.03 * found.forward[0] for size in found.forward)
    assert found.input[0] == pytest.approx(total_bytes(large, 4, "fp32") * 2.718281828**0.5)


def mixed(*mix: tuple[int, float], other: float = 0.0, more: float = 0.0) -> dict[str, Any]:
    starts = {"mix": 0.0, "more": more, "other": other}
    return {"mixes": [list(mix)], **{name: {"start": start, "trees": []} for name, start in starts.items()}}


def test_trees_choose_the_copies_or_say_how_much_else() -> None:
    model = {
        "forward": mixed((COPIES.index("xy"), 1.0)),
        "input": mixed((OTHER, 1.0), other=0.5),
        "weight": mixed((OTHER, 1.0), other=100.0),
    }
    item = conv(32, 64, 5, 1000)
    found = Convolutions(model).of(item, 8, "fp32")
    total = total_bytes(item, 8, "fp32")
    assert found.forward[0] == named("xy", item, 8, "fp32")
    assert found.input[0] == pytest.approx(total * 2.718281828**0.5)
    assert found.weight[0] == pytest.approx(total * 2.718281828**6)  # no more is believed
    beside = Convolutions({**model, "weight": mixed((MORE, 1.0), more=log(0.02))}).of(item, 8, "fp32").weight[0]
    assert beside == pytest.approx(1.02 * named("padded xy", item, 8, "fp32"))
    most = Convolutions({**model, "weight": mixed((MORE, 1.0), more=100.0)}).of(item, 8, "fp32").weight[0]
    assert most == 2 * named("padded xy", item, 8, "fp32")  # no more is believed here either
    turned = Convolutions(model).of(item._replace(transposed=True), 8, "fp32")
    assert (turned.forward[0], turned.input[0], turned.weight[0]) == (found.input[0], found.forward[0], found.weight[0])


@pytest.mark.parametrize(
    "damage",
    [
        {"weight": None},
        {"weight": {}},
        {"weight": {**mixed((OTHER, 1.0)), "mixes": []}},
        {"weight": {**mixed((OTHER, 1.0)), "mixes": [[]]}},
        {"weight": mixed((OTHER + 1, 1.0))},
        {"weight": mixed((-1, 1.0))},
        {"weight": mixed((0, 0.0))},
        {"weight": mixed((0, 1.5))},
        {"weight": mixed((0, float("nan")))},
        {"weight": {**mixed((0, 1.0)), "mixes": [5]}},
    ],
)
def test_a_damaged_model_is_told(damage: dict[str, Any]) -> None:
    whole = {name: mixed((0, 1.0)) for name in ("forward", "input", "weight")}
    assert Convolutions(whole).of(conv(32, 64, 5, 1000), 8, "fp32").weight[0] == 0
    with pytest.raises(ModelError, match="damaged"):
        Convolutions({**whole, **damage})


def test_what_else_was_measured_of_the_like_is_drawn() -> None:
    seldom = {name: mixed((COPIES.index("x"), 0.9), (COPIES.index("fourier"), 0.1)) for name in ("forward", "input")}
    known = Convolutions({**seldom, "weight": mixed((COPIES.index("fourier"), 0.6), (0, 0.4))})
    asked = [(picture(16, width, 3, 24), batch) for width in range(8, 40) for batch in (8, 64)]
    highest = 0
    for item, batch in asked:
        likeliest, *drawn = known.of(item, batch, "fp32").forward
        small, large = (named(name, item, batch, "fp32") for name in ("x", "fourier"))
        assert likeliest == small
        assert len(drawn) == DRAWS
        for size in drawn[:-1]:  # what is seldom and large is for the last
            assert 0.98 * small <= size <= 1.03 * small
            assert size != small
        assert 0.98 * small <= drawn[-1] <= 1.03 * small or 0.98 * large <= drawn[-1] <= 1.03 * large
        highest += drawn[-1] > 2 * small
        first, *others = known.of(item, batch, "fp32").weight
        assert first == large
        assert others[0] == 0  # what is smaller comes first, however frequent
        assert others[-1] >= 0.98 * large
    assert 0.25 < highest / len(asked) < 0.55  # .1 of all, a fourth of which are the last
    item, batch = asked[0]
    assert (
        Convolutions({**seldom, "weight": mixed((0, 1.0))}).of(item, batch, "fp32").forward
        == known.of(item, batch, "fp32").forward
    )  # the same each time


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
    assert found.forward[0] == named("xyw", five, 100, "fp32")
    assert found.input[0] == pytest.approx(1.05 * named("padded xy", five, 100, "fp32"), rel=0.001)
    assert found.weight[0] == pytest.approx(3.3 * total_bytes(five, 100, "fp32"), rel=0.01)
    nothing = (0,) * (1 + DRAWS)
    assert known.of(one, 100, "fp32") == Workspace(nothing, nothing, nothing)


def test_a_mix_is_learned_of_what_trees_do_not_tell_apart(tmp_path: Path) -> None:
    """One in eight works with copies of all, whatever it is; and a single one in a hundred does not count."""
    measured = []
    for at in range(400):
        item = Measured(1, 1, 1, 5, 1, 1, 1, 0, "fp32", 1, 1, 64, 512, 512, 64, 0, 0, 0)
        size = dict(zip(COPIES, copies(item.conv, item.batch, "fp32"), strict=True))
        measured.append(
            item._replace(
                forward=whole(int(size["xyw"])) * (at % 8 == 0),
                input=whole(int(size["x"])) * (at % 100 == 0),
                weight=whole(int(size["x"])) * (at % 8 > 0),
            )
        )
    path = tmp_path / "w.csv.xz"
    write(path, measured)
    made = fit_convolutions([path])
    assert made["forward"]["mixes"] == [[(0, 0.88), (COPIES.index("xyw"), 0.12)]]
    assert made["input"]["mixes"] == [[(0, 0.99)]]
    assert made["weight"]["mixes"] == [[(COPIES.index("x"), 0.88), (0, 0.12)]]  # the most frequent first


def test_a_description_tells_all_that_a_rehearsal_knows() -> None:
    item = conv(32, 64, 5, 1000)
    assert item.extents is not None
    plain = described(item, item.extents, 8, "fp32")
    assert len(plain) == WIDTH
    for change in ({"dilation": 2}, {"padded": False}, {"last": True}, {"kernel": (1, 5, 1)}, {"sides": (1, 10, 100)}):
        assert described(item, item.extents._replace(**change), 8, "fp32") != plain


def test_the_shipped_model_knows_what_was_measured_of_series(rad: Rad) -> None:
    known = rad.convolves
    item = conv(512, 512, 3, 15999, size_out=7999, stride=2)
    found = known(item, 32, "fp32")
    assert 1400 * MIB < found.forward[0] < 2600 * MIB  # 2503 MiB on an H100
    together = Extents((1, 3, 3), (1, 96, 96), 1, padded=True, last=True)
    apart = together._replace(last=False)
    item = picture(256, 256, 3, 96, extents=together)
    total = total_bytes(item, 16, "fp32")
    assert known(item, 16, "fp32").forward[0] < 0.1 * total
    assert known(item._replace(extents=apart), 16, "fp32").forward[0] > 0.1 * total


def test_a_model_without_them_rehearses_nothing() -> None:
    model = Store(SHIPPED, "rad").load()
    workspaces = {name: tree for name, tree in model["workspaces"].items() if name != "whole"}
    method = Rad({**model, "workspaces": workspaces})
    with pytest.raises(ModelError, match="radctl retrain"):
        _ = method.convolves


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", 5, {"forward": {}}])
def test_damaged_ones_are_told_where_they_are_asked_for(damage: Any) -> None:
    model = Store(SHIPPED, "rad").load()
    assert isinstance(model["workspaces"]["whole"], str)  # no lists in the memory of those who only estimate
    method = Rad({**model, "workspaces": {**model["workspaces"], "whole": damage}})
    with pytest.raises(ModelError, match="damaged"):
        _ = method.convolves
