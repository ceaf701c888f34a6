"""Read the table of ``torchsummary.summary(model, size)``. Pure.

Rows stand in order of execution and end in ``[-1, 64, 7, 7]  9,408``; a container's row follows its children and the
tree cannot be told, so all rows become children of one root. Only ``weight`` and ``bias`` are counted by the tool.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from estimator.parsers import text as t
from estimator.parsers.tree import RawShape, batch_of, per_sample
from estimator.types import Layer, ModelSummary

# torchvision's Swin calls the attention's projections as functions, so that torchsummary never sees these layers.
_HIDING = ("ShiftedWindowAttention", "ShiftedWindowAttentionV2")


class _Row(NamedTuple):
    type: str
    shape: str
    params: int


def parse(lines: list[str], start: int) -> ModelSummary:
    """Parse the table whose header is ``lines[start]``.

    Raises:
        SummaryError: a row cannot be read, or there is none.
    """
    shapes: dict[str, RawShape | None] = {}
    rows: list[_Row] = []
    # Rows that differ in their number only are read once: by type and by what stands behind the number.
    known: dict[tuple[str, str], _Row] = {}
    at = start + 1
    count = len(lines)
    while at < count and len(rows) <= t.MAX_LAYERS:
        line = lines[at].strip()
        at += 1
        label, _, rest = line.partition(" ")
        type_, _, index = label.rpartition("-")
        same = known.get((type_, rest))
        if same is not None and index.isdecimal():
            rows.append(same)
            continue
        if not line or (line[0] in "=-_" and t.is_rule(line)):
            if rows and line:
                break
            continue
        if ":" in line and line.startswith(("Total params", "Trainable params", "Input size")):
            at -= 1
            break
        number = at
        row, at = _whole(lines, at, line)
        if row.shape not in shapes:
            shape = t.read_shape(row.shape)
            if shape is None and row.shape not in ("[]", "--"):
                raise t.fail(number, line, f"{t.short(row.shape)} is not an output shape")
            shapes[row.shape] = shape
        rows.append(row)
        if at == number and row.type == type_:
            known[type_, rest] = row
    if len(rows) > t.MAX_LAYERS:
        raise t.fail(at, lines[at - 1], f"more than {t.MAX_LAYERS:,} layers: print the model with a smaller depth")
    if not rows:
        raise t.fail(start + 1, lines[start], "no layer follows this header: paste the whole table")
    return _summary(lines, at, rows, shapes)


def _summary(lines: list[str], at: int, rows: list[_Row], shapes: dict[str, RawShape | None]) -> ModelSummary:
    counts = Counter(rows)
    batch = batch_of(((shapes[row.shape], count) for row, count in counts.items()), None)
    samples = {text: per_sample(shape, batch) for text, shape in shapes.items()}
    layers = {row: Layer(row.type, row.params, samples[row.shape]) for row in counts}
    children = tuple(map(layers.__getitem__, rows))
    totals = t.read_totals(lines, at)
    counted = sum(row.params * count for row, count in counts.items())
    stated = t.total_params(totals)
    inferred: list[str] = []
    if stated is not None and stated != counted:
        inferred.append(f"the rows add up to {counted:,} parameters; the stated total of {stated:,} was taken")
    hidden = sum(
        4 * shape[-1] * (shape[-1] + 1) * count
        for row, count in counts.items()
        if row.type in _HIDING and (shape := samples[row.shape])
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


def _whole(lines: list[str], at: int, line: str) -> tuple[_Row, int]:
    """Read one row, joined with the following lines as long as it was wrapped, and the index of the line behind it."""
    number = at
    # A terminal or a mail program may have wrapped the row: it ends with the count of parameters.
    while (row := _row(line)) is None and at < len(lines) and at - number < 8:
        more = lines[at].strip()
        if not more or t.is_rule(more):
            break
        line = f"{line} {more}"
        at += 1
    if row is None:
        raise t.fail(
            number, line, "expected `Type-N  [output shape]  parameters`: paste the table as torchsummary prints it"
        )
    return row, at


def _row(line: str) -> _Row | None:
    """Read ``Conv2d-1 [-1, 64, 7, 7] 9,408`` as type, shape text and parameters; None if the line is not whole."""
    head, _, tail = line.rpartition(" ")
    params = t.read_count(tail)
    if params is None:
        return None
    head = head.strip()
    open_at = head.find("[")
    if open_at < 0:
        label, _, shape = head.rpartition(" ")
        if shape != "--":
            return None
    else:
        label, shape = head[:open_at], head[open_at:]
        opened = shape.count("[")
        if shape[-1] != "]" or opened != shape.count("]") or (opened > 1 and shape[1] != "["):
            return None
    type_, dash, index = label.rstrip().rpartition("-")
    if not dash or not index.isdecimal() or not t.is_name(type_):
        return None
    return _Row(type_, shape, params)
