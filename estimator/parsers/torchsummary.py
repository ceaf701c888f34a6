"""Read the table of ``torchsummary.summary(model, size)``. Pure.

Rows stand in order of execution and end in ``[-1, 64, 7, 7]  9,408``; a container's row follows its children and the
tree cannot be told, so all rows become children of one root. Only ``weight`` and ``bias`` are counted by the tool.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from estimator.compiled import breathe
from estimator.parsers import text as t
from estimator.parsers.tree import RawShape, batch_of, per_sample
from estimator.types import Layer, ModelSummary, SummaryError

_ROW = re.compile(r" *([^ \[]+)-\d+ *(\[[^\[\]]*\]|\[\[.*\]|--) +([\d,_]+) *")
_MAX_WRAPPED = 8
_SHORT = 64
_OFTEN = 63
# torchvision's Swin calls the attention's projections as functions, so that torchsummary never sees these layers.
_HIDING = ("ShiftedWindowAttention", "ShiftedWindowAttentionV2")


# Type, and what stands behind the bracket that opens the shape: equal rows have both in common.
_Cells = tuple[str, str]


def parse(lines: list[str], start: int) -> ModelSummary:
    """Parse the table whose header is ``lines[start]``.

    Raises:
        SummaryError: a row cannot be read, or there is none.
    """
    rows: list[_Cells] = []
    read = _Read()
    values, types = read.values, read.types
    at = start + 1
    count = len(lines)
    while at < count and len(rows) <= t.MAX_LAYERS:
        # Most rows are simple; the pattern for all of them takes longer than these steps together.
        head, _, tail = lines[at].partition("[")
        at += 1
        if not at & _OFTEN:
            breathe()
        type_, _, index = head.strip(" ").rpartition("-")
        if index.isdecimal() and (type_ in types or read.is_type(type_)) and (tail in values or read.is_plain(tail)):
            rows.append((type_, tail))
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
        found = _ROW.fullmatch(lines[at - 1])
        if found is None:
            found, at = _whole(lines, at, line)
        rows.append(read.other(found.groups(), number, lines))
    if len(rows) > t.MAX_LAYERS:
        raise t.fail(at, lines[at - 1], f"more than {t.MAX_LAYERS:,} layers: print the model with a smaller depth")
    if not rows:
        raise t.fail(start + 1, lines[start], "no layer follows this header: paste the whole table")
    return _summary(lines, at, rows, values)


def _whole(lines: list[str], at: int, line: str) -> tuple[re.Match[str], int]:
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
            return found, at
    raise _unread(number, line)


def _unread(number: int, line: str) -> SummaryError:
    return t.fail(
        number, line, "expected `Type-N  [output shape]  parameters`: paste the table as torchsummary prints it"
    )


class _Read:
    """What the cells of rows mean; equal cells are read once.

    Attributes:
        values: shape and parameters by what stands behind the bracket that opens the shape.
        types: types of layers so far.
    """

    def __init__(self) -> None:
        self.values: dict[str, tuple[RawShape | None, int]] = {}
        self.types: set[str] = set()

    def is_type(self, text: str) -> bool:
        """Tell whether this is a type of layer."""
        if not t.is_name(text):
            return False
        self.types.add(text)
        return True

    def is_plain(self, tail: str) -> bool:
        """Read ``-1, 64, 7, 7]  9,408``; False if this is anything else."""
        read = _plain(tail) if len(tail) <= _SHORT else _plain.__wrapped__(tail)
        if read is None:
            return False
        self.values[tail] = read
        return True

    def other(self, cells: tuple[str, ...], number: int, lines: list[str]) -> _Cells:
        """Read the cells of a row that is not as simple as most: type, shape and parameters as written.

        Raises:
            SummaryError: one cannot be read.
        """
        type_, shape, count = cells
        params = t.read_count(count)
        balanced = shape[1:2] != "[" or shape.count("[") == shape.count("]")
        if params is None or not balanced or not t.is_name(type_):
            raise _unread(number, lines[number - 1])
        read = None if shape == "--" else t.read_shape(shape)
        if read is None and shape != "--":
            raise t.fail(number, lines[number - 1], f"{t.short(shape)} is not an output shape")
        key = f"{shape}|{count}"
        self.values[key] = read, params
        return type_, key


# Most rows are those of widely used models. What comes from users is bounded in length and number.
@lru_cache(maxsize=8192)
def _plain(tail: str) -> tuple[RawShape, int] | None:
    """Read ``-1, 64, 7, 7]  9,408``; None if this is anything else."""
    dims, closed, count = tail.partition("]")
    if not closed or count[:1] != " " or "[" in dims:
        return None
    params = t.read_count(count.strip(" "))
    shape = t.read_shape(f"[{dims}]")
    return None if params is None or shape is None else (shape, params)


def _summary(
    lines: list[str], at: int, rows: list[_Cells], values: dict[str, tuple[RawShape | None, int]]
) -> ModelSummary:
    shapes = {shape for shape, _ in values.values()}
    firsts = {shape[0] for shape in shapes if shape and len(shape) > 1}
    if len(firsts) > 1:
        batch = batch_of([(values[tail][0], count) for (_, tail), count in Counter(rows).items()], None)
    else:
        batch = next(iter(firsts), None)
    samples = {shape: per_sample(shape, batch) for shape in shapes}
    layers: dict[_Cells, Layer] = {}
    for cells in rows:
        if cells not in layers:
            shape, params = values[cells[1]]
            # As Layer(...) does, which takes twice as long.
            layers[cells] = tuple.__new__(Layer, (cells[0], params, samples[shape], (), (), "", None))
    children = tuple([layers[cells] for cells in rows])
    totals = t.read_totals(lines, at)
    counted = sum([layer.params for layer in children])
    stated = t.total_params(totals)
    inferred: list[str] = []
    if stated is not None and stated != counted:
        inferred.append(f"the rows add up to {counted:,} parameters; the stated total of {stated:,} was taken")
    hidden = sum(
        4 * shape[-1] * (shape[-1] + 1) for layer in children if layer.type in _HIDING and (shape := layer.output_shape)
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
