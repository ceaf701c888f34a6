"""Read the table of ``torchsummary.summary(model, size)``. Pure.

Rows stand in order of execution and end in ``[-1, 64, 7, 7]  9,408``; a container's row follows its children and the
tree cannot be told, so all rows become children of one root. Only ``weight`` and ``bias`` are counted by the tool.
"""

from __future__ import annotations

import re
from collections import Counter

from estimator.parsers import text as t
from estimator.parsers.tree import RawShape, batch_of, per_sample
from estimator.types import Layer, ModelSummary, SummaryError

_ROW = re.compile(r" *([^ \[]+)-\d+ *(\[[^\[\]]*\]|\[\[.*\]|--) +([\d,_]+) *")
_MAX_WRAPPED = 8
# torchvision's Swin calls the attention's projections as functions, so that torchsummary never sees these layers.
_HIDING = ("ShiftedWindowAttention", "ShiftedWindowAttentionV2")


# Type, shape and number of parameters as written: what the row's pattern finds.
_Cells = tuple[str, ...]


def parse(lines: list[str], start: int) -> ModelSummary:
    """Parse the table whose header is ``lines[start]``.

    Raises:
        SummaryError: a row cannot be read, or there is none.
    """
    rows: list[_Cells] = []
    read = _Read()
    at = start + 1
    count = len(lines)
    while at < count and len(rows) <= t.MAX_LAYERS:
        found = _ROW.fullmatch(lines[at])
        at += 1
        if found is not None:
            cells = found.groups()
            if cells not in read.params:
                read.add(cells, at, lines)
            rows.append(cells)
            continue
        line = lines[at - 1].strip()
        if not line or (line[0] in "=-_" and t.is_rule(line)):
            if rows and line:
                break
            continue
        if ":" in line and line.startswith(("Total params", "Trainable params", "Input size")):
            at -= 1
            break
        number = at
        cells, at = _whole(lines, at, line)
        read.add(cells, number, lines)
        rows.append(cells)
    if len(rows) > t.MAX_LAYERS:
        raise t.fail(at, lines[at - 1], f"more than {t.MAX_LAYERS:,} layers: print the model with a smaller depth")
    if not rows:
        raise t.fail(start + 1, lines[start], "no layer follows this header: paste the whole table")
    return _summary(lines, at, rows, read)


def _whole(lines: list[str], at: int, line: str) -> tuple[_Cells, int]:
    """Read a row that a terminal or a mail program has wrapped, and the index of the line behind it.

    Raises:
        SummaryError: the lines do not make a row.
    """
    number = at
    while at < len(lines) and at - number < _MAX_WRAPPED:
        more = lines[at].strip()
        if not more or t.is_rule(more):
            break
        line = f"{line} {more}"
        at += 1
        if (found := _ROW.fullmatch(line)) is not None:
            return found.groups(), at
    raise _unread(number, line)


def _unread(number: int, line: str) -> SummaryError:
    return t.fail(
        number, line, "expected `Type-N  [output shape]  parameters`: paste the table as torchsummary prints it"
    )


class _Read:
    """What the cells of rows mean; equal cells are read once."""

    def __init__(self) -> None:
        self.params: dict[_Cells, int] = {}
        self.shapes: dict[str, RawShape | None] = {"[]": None, "--": None}
        self._types: set[str] = set()

    def add(self, cells: _Cells, number: int, lines: list[str]) -> None:
        """Read the cells of a row.

        Raises:
            SummaryError: one cannot be read.
        """
        type_, shape, count = cells
        params = t.read_count(count)
        balanced = shape[1:2] != "[" or shape.count("[") == shape.count("]")
        if params is None or not balanced or not (type_ in self._types or t.is_name(type_)):
            raise _unread(number, lines[number - 1])
        if shape not in self.shapes:
            self.shapes[shape] = read = t.read_shape(shape)
            if read is None:
                raise t.fail(number, lines[number - 1], f"{t.short(shape)} is not an output shape")
        self._types.add(type_)
        self.params[cells] = params


def _summary(lines: list[str], at: int, rows: list[_Cells], read: _Read) -> ModelSummary:
    counts = Counter(rows)
    batch = batch_of([(read.shapes[cells[1]], count) for cells, count in counts.items()], None)
    samples = {text: per_sample(shape, batch) for text, shape in read.shapes.items()}
    layers = {cells: Layer(cells[0], params, samples[cells[1]]) for cells, params in read.params.items()}
    children = tuple([layers[cells] for cells in rows])
    totals = t.read_totals(lines, at)
    counted = sum([layer.params for layer in children])
    stated = t.total_params(totals)
    inferred: list[str] = []
    if stated is not None and stated != counted:
        inferred.append(f"the rows add up to {counted:,} parameters; the stated total of {stated:,} was taken")
    hidden = sum(
        4 * shape[-1] * (shape[-1] + 1) * count
        for cells, count in counts.items()
        if cells[0] in _HIDING and (shape := samples[cells[1]])
    )
    if hidden:
        inferred.append(f"torchsummary does not count the projections of windowed attention; {hidden:,} were added")
    return ModelSummary(
        format="torchsummary",
        root=Layer("Model", 0, None, children),
        batch_size=batch,
        total_params=(counted if stated is None else stated) + hidden,
        inferred=tuple(inferred),
        pass_mb=t.pass_mb(totals),
        frozen_params=t.frozen_params(totals),
    )
