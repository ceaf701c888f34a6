"""Workspaces of recurrent layers: the sum that they are, and measured ones."""

from __future__ import annotations

import lzma
import random
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from estimator.methods.rad.measure_recurrences import draw, whole
from estimator.methods.rad.measured_recurrences import MEASURED, Measured, read, write
from estimator.methods.rad.measuring import measure_for
from estimator.methods.rad.recurrences import Recurrence, workspace_bytes

MIB = 2**20
BLOCK = 512
ONE = Recurrence("gru", 2, 1, 32, 100, 48, 64, "fp32", first=True, drops=False, trains=True)


def test_weights_and_series_are_counted_in_bytes() -> None:
    for one in (ONE, ONE._replace(type="lstm", directions=2, layers=3), ONE._replace(type="rnn", layers=1)):
        kind = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[one.type]
        layer = kind(one.inputs, one.width, one.layers, bidirectional=one.directions > 1)
        assert one.weights == 4 * sum(weight.numel() for weight in layer.parameters())
        assert (one.read, one.given) == (32 * 100 * 48 * 4, 32 * 100 * 64 * 4 * one.directions)
    half = ONE._replace(precision="fp16")
    assert (half.weights, half.read, half.given) == (ONE.weights / 2, ONE.read / 2, ONE.given / 2)


def test_what_was_measured_is_mostly_met_to_a_block() -> None:
    measured = read(MEASURED)
    off = [item.bytes - whole(workspace_bytes(item.one)) for item in measured]
    assert min(off) >= 0
    assert sum(some <= BLOCK for some in off) > 0.94 * len(measured)
    assert sum(some <= 0.01 * item.bytes for some, item in zip(off, measured, strict=True)) > 0.985 * len(measured)
    assert all(some < 0.08 * item.bytes for some, item in zip(off, measured, strict=True))
    types = {(one.type, one.directions, one.precision, one.trains) for one, _ in measured}
    assert len(types) == 3 * 2 * 3 * 2


@pytest.mark.parametrize(
    ("change", "forward", "backward"),
    [
        ({"type": "lstm", "width": 150}, "on the chip", "apart"),
        ({"type": "gru", "width": 192}, "on the chip", "apart"),
        ({"type": "lstm", "width": 192}, "on the chip", "apart"),
        ({"type": "lstm", "width": 129}, "on the chip", "apart"),
        ({"type": "lstm", "width": 128}, "on the chip", "on the chip"),
        ({"type": "gru", "width": 129}, "on the chip", "apart"),
        ({"type": "gru", "width": 128}, "on the chip", "on the chip"),
        ({"type": "rnn", "width": 384}, "on the chip", "apart"),
        ({"type": "rnn", "width": 257}, "on the chip", "apart"),
        ({"type": "rnn", "width": 300}, "on the chip", "apart"),
        ({"type": "rnn", "width": 256}, "on the chip", "on the chip"),
        ({"type": "lstm", "width": 193}, "apart", "apart"),
        ({"type": "gru", "width": 193}, "apart", "apart"),
        ({"type": "rnn", "width": 385}, "apart", "apart"),
        ({"type": "lstm", "width": 64, "precision": "bf16"}, "apart", "apart"),
        # What PyTorch's own rules say of one layer in fp16.
        ({"layers": 1, "type": "lstm", "width": 512, "inputs": 128, "precision": "fp16"}, "on the chip", "on the chip"),
        ({"layers": 1, "type": "lstm", "width": 512, "inputs": 128, "precision": "fp32"}, "apart", "apart"),
        ({"layers": 1, "type": "gru", "width": 512, "inputs": 128, "precision": "fp16"}, "apart", "apart"),
        ({"layers": 2, "type": "lstm", "width": 512, "inputs": 128, "precision": "fp16"}, "apart", "apart"),
        ({"layers": 1, "type": "lstm", "width": 500, "inputs": 128, "precision": "fp16"}, "apart", "apart"),
        ({"layers": 1, "type": "lstm", "width": 512, "inputs": 100, "precision": "fp16"}, "apart", "apart"),
        ({"layers": 1, "type": "lstm", "width": 2048, "inputs": 128, "precision": "fp16"}, "apart", "apart"),
        ({"layers": 1, "type": "rnn", "width": 1024, "inputs": 128, "precision": "fp16"}, "on the chip", "on the chip"),
        (
            {"layers": 1, "type": "rnn", "width": 1024, "inputs": 128, "precision": "fp16", "batch": 96},
            "apart",
            "apart",
        ),
        (
            {"layers": 1, "type": "rnn", "width": 896, "inputs": 128, "precision": "fp16", "batch": 96},
            "apart",
            "apart",
        ),
        (
            {"layers": 1, "type": "rnn", "width": 768, "inputs": 128, "precision": "fp16", "batch": 96},
            "on the chip",
            "on the chip",
        ),
        (
            {"layers": 1, "type": "lstm", "width": 1024, "inputs": 128, "precision": "fp16", "batch": 96},
            "on the chip",
            "on the chip",
        ),
        (
            {"layers": 1, "type": "lstm", "width": 512, "inputs": 128, "precision": "fp16", "batch": 136},
            "apart",
            "apart",
        ),
        (
            {"layers": 1, "type": "lstm", "width": 512, "inputs": 128, "precision": "fp16", "batch": 20},
            "apart",
            "apart",
        ),
        (
            {"layers": 1, "directions": 2, "type": "lstm", "width": 512, "inputs": 128, "precision": "fp16"},
            "apart",
            "apart",
        ),
    ],
)
def test_what_stays_on_the_chip_is_worked_with_otherwise(
    change: dict[str, Any], forward: str, backward: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ONE._replace(**change)
    said = {way: workspace_bytes(one, backward=way == "backward") for way in ("forward", "backward")}
    sizes = {}
    for name, stays in (("on the chip", True), ("apart", False)):
        monkeypatch.setattr("estimator.methods.rad.recurrences._stays", lambda *_, stays=stays: stays)
        sizes[name] = workspace_bytes(one)
    assert sizes["on the chip"] != sizes["apart"]
    assert said == {"forward": sizes[forward], "backward": sizes[backward]}


@pytest.mark.parametrize(
    ("steps", "batch", "turn"),
    [
        (128, 256, 8),
        (127, 256, 2),
        (127, 128, 2),
        (127, 127, 4),
        (32, 17, 4),
        (32, 16, 8),
        (31, 16, 4),
    ],
)
def test_layers_take_turns(steps: int, batch: int, turn: int) -> None:
    """Each layer more works with weights, a state and as many steps more as lie between two turns."""
    two, three = (
        ONE._replace(steps=steps, batch=batch, width=512, layers=layers, inputs=512, precision="bf16")
        for layers in (2, 3)
    )
    more = workspace_bytes(three) - workspace_bytes(two) - 8 * MIB - (three.weights - two.weights)
    more += three.biases - two.biases
    assert more == (turn + 5) * batch * 512 * two.size


def test_what_is_drawn_is_written_and_read(tmp_path: Path) -> None:
    rng = random.Random(0)
    drawn = [one for one in (draw(rng) for _ in range(400)) if one is not None]
    path = tmp_path / "measured.csv.xz"
    measured = [Measured(one, workspace_bytes(one)) for one in drawn]
    write(path, measured)
    assert read(path) == sorted(measured)


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
