"""Workspaces of recurrent layers: how they are described, measured ones, and what is learned from these."""

from __future__ import annotations

import lzma
import random
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from estimator.methods.rad import Rad
from estimator.methods.rad.fit.recurrences import fit_recurrences
from estimator.methods.rad.measure_recurrences import draw
from estimator.methods.rad.measured_recurrences import Measured, read, write
from estimator.methods.rad.measuring import measure_for
from estimator.methods.rad.recurrences import WIDTH, Recurrence, Recurrences, base_bytes, described
from estimator.store import ModelError

MIB = 2**20
ONE = Recurrence("gru", 2, 1, 32, 100, 48, 64, "fp32", first=True, drops=False, trains=True)


def test_weights_and_series_are_counted_in_bytes() -> None:
    for one in (ONE, ONE._replace(type="lstm", directions=2, layers=3), ONE._replace(type="rnn", layers=1)):
        kind = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[one.type]
        layer = kind(one.inputs, one.width, one.layers, bidirectional=one.directions > 1)
        assert one.weights == 4 * sum(weight.numel() for weight in layer.parameters())
        assert (one.read, one.given) == (32 * 100 * 48 * 4, 32 * 100 * 64 * 4 * one.directions)
    half = ONE._replace(precision="fp16")
    assert (half.weights, half.read, half.given) == (ONE.weights / 2, ONE.read / 2, ONE.given / 2)


def test_a_description_tells_all_that_a_rehearsal_knows() -> None:
    plain = described(ONE)
    assert len(plain) == WIDTH
    changes: dict[str, Any] = {
        "type": "lstm",
        "layers": 3,
        "directions": 2,
        "batch": 33,
        "steps": 101,
        "inputs": 49,
        "width": 65,
        "precision": "bf16",
        "first": False,
        "drops": True,
        "trains": False,
    }
    assert changes.keys() == set(Recurrence._fields)
    for name, value in changes.items():
        assert described(ONE._replace(**{name: value})) != plain
    assert len(described(ONE._replace(batch=0))) == WIDTH  # cuDNN refuses it, not RAD


def test_trees_say_by_how_much_the_sum_is_off() -> None:
    for start, times in ((0.5, 2.718281828**0.5), (100.0, 2.718281828**3)):  # no more is believed
        known = Recurrences({"recurrent": {"start": start, "trees": []}})
        assert known.of(ONE) == pytest.approx(times * base_bytes(ONE))
    for damaged in ({}, {"recurrent": None}, {"recurrent": {"start": 0.0}}):
        with pytest.raises(ModelError, match="damaged"):
            Recurrences(damaged)


def test_it_is_learned_from_what_was_measured(tmp_path: Path) -> None:
    rng = random.Random(0)
    drawn = [one for one in (draw(rng) for _ in range(400)) if one is not None]
    path = tmp_path / "measured.csv.xz"
    measured = [Measured(one, int((3.0 if one.type == "lstm" else 0.5) * base_bytes(one))) for one in drawn]
    write(path, measured)
    assert read(path) == sorted(measured)
    known = Recurrences({"recurrent": fit_recurrences(path)})
    assert known.of(ONE) == pytest.approx(0.5 * base_bytes(ONE), rel=0.05)
    assert known.of(ONE._replace(type="lstm")) == pytest.approx(3.0 * base_bytes(ONE._replace(type="lstm")), rel=0.05)


@pytest.mark.parametrize(
    "change", [("type,", "kind,"), ("\ngru,", "\nbiru,"), (",fp32,", ",fp33,"), (",32,", ",many,")]
)
def test_a_file_of_something_else_is_told(tmp_path: Path, change: tuple[str, str]) -> None:
    path = tmp_path / "measured.csv.xz"
    write(path, [Measured(ONE, MIB)])
    text = lzma.decompress(path.read_bytes()).decode()
    assert change[0] in text
    path.write_bytes(lzma.compress(text.replace(*change).encode()))
    with pytest.raises(ValueError, match=r"columns|recurrent|many"):
        read(path)


@pytest.mark.parametrize(
    ("one", "mib"),
    [
        (ONE._replace(type="rnn", layers=1, batch=384, steps=128, inputs=160, width=24), 152.2),
        (ONE._replace(directions=2, batch=96, steps=8, inputs=100, width=256, precision="bf16"), 41.4),
        (ONE._replace(type="lstm", batch=96, steps=16, inputs=96, width=50, first=False, drops=True), 23.5),
        (ONE._replace(layers=1, batch=1024, steps=16, inputs=160, width=20, precision="fp16", trains=False), 23.2),
    ],
)
def test_the_shipped_model_knows_what_was_measured(one: Recurrence, mib: float) -> None:
    assert Rad.load().works.recurrence(one) == pytest.approx(mib * MIB, rel=0.1)


def test_what_was_measured_is_written_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 4))  # seconds, each time that it is looked at
    monkeypatch.setattr("estimator.methods.rad.measuring.time.monotonic", lambda: next(clock))
    written: list[int] = []
    measured: list[int] = []

    def once() -> list[int]:
        measured.append(1)
        return [1, 1]

    measure_for(60, once, lambda found: written.append(len(found)))
    assert 4 <= len(measured) <= 8  # in sixty seconds, each of which looks at the clock twice
    assert len(written) > 2
    assert written == sorted(written)
    assert written[-1] == 2 * len(measured)
