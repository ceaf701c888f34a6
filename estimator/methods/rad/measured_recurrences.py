"""Workspaces of recurrent layers as they were measured, and the file that holds them: compressed CSV."""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from estimator.methods.rad.recurrences import GATES, Recurrence
from estimator.types import PRECISIONS

MEASURED: Final = Path(__file__).parent / "data" / "workspaces_recurrent.csv.xz"
"""What random ones worked with on an H100."""
_BYTES: Final = "bytes"
_TRUE: Final = "1"


class Measured(NamedTuple):
    """Recurrent layers, and the bytes that cuDNN worked with."""

    one: Recurrence
    bytes: int


def write(path: Path, measured: Iterable[Measured]) -> None:
    """Write a line for each, in order."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*Recurrence._fields, _BYTES))
    for item in sorted(measured):
        table.writerow([*(int(value) if isinstance(value, bool) else value for value in item.one), item.bytes])
    path.write_bytes(lzma.compress(text.getvalue().encode(), preset=9 | lzma.PRESET_EXTREME))


def read(path: Path) -> list[Measured]:
    """Read what `write` wrote.

    Raises:
        ValueError: the columns are others, or a value is none.
    """
    head, *lines = csv.reader(io.StringIO(lzma.decompress(path.read_bytes()).decode()))
    if tuple(head) != (*Recurrence._fields, _BYTES):
        raise ValueError(f"{path} has no columns of measured recurrent layers")
    return [Measured(_one(values), int(last)) for *values, last in lines]


def _one(values: list[str]) -> Recurrence:
    kind, layers, directions, batch, steps, inputs, width, precision, first, drops, trains = values
    if kind not in GATES or precision not in PRECISIONS:
        raise ValueError(f"no recurrent layer: {kind} in {precision}")
    sizes = int(layers), int(directions), int(batch), int(steps), int(inputs), int(width)
    flags = first == _TRUE, drops == _TRUE, trains == _TRUE
    return Recurrence(kind, *sizes, precision, *flags)
