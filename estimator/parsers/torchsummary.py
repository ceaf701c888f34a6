"""Read the table of ``torchsummary.summary(model, size)``. Pure.

Rows stand in order of execution and end in ``[-1, 64, 7, 7]  9,408``; a container's row follows its children and the
tree cannot be told, so all rows become children of one root. Only ``weight`` and ``bias`` are counted by the tool.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Set
from typing import Final

from estimator import versions
from estimator.breath import OFTEN, breathe
from estimator.kept import keep
from estimator.layer import Layer
from estimator.parsers import text as t
from estimator.parsers.recurrent import GATES, weighed
from estimator.parsers.tree import RawShape, batch_of, open_sample, per_sample
from estimator.types import ModelSummary, SummaryError

_ROW: Final = re.compile(r" *([^ \[]+)-(\d+) *(\[[^\[\]]*\]|\[\[.*\]|--) +([\d,_]+) *")
_MAX_WRAPPED: Final = 8
# Of a row's number; the rows of a table are numbered from 1 on.
_MOST_DIGITS: Final = 9
# These call none of their projections as layers, so that torchsummary never sees them.
_HIDING: Final = (
    "ShiftedWindowAttention",
    "ShiftedWindowAttentionV2",
    "ShiftedWindowAttention3d",
    "MultiheadAttention",
    "WavLMAttention",
)
# Some of these call the projection of queries, keys and values as a function: then the rows show the last one alone.
_PACKING: Final = ("Attention", "WindowAttention", "EvaAttention")
_ATTENDING: Final[tuple[str, ...]] = _HIDING + _PACKING
_FED: Final = ("Mlp", "GluMlp", "SwiGLU", "PatchEmbed", "PatchMerging")
# A step of a loop: rows between two calls of it are the same layers again.
_CELLS: Final = ("LSTMCell", "GRUCell", "RNNCell", "AlbertLayer")

# Cells of the same sizes, one behind the other.
_MOST_CELLS: Final = 8
# How often a loop calls a recurrent layer for one step at least.
_LEAST_STEPS: Final = 8
# Rows of a loop's body that is no cell, and how often it is there at least.
_MOST_BODY: Final = 4
_LEAST_TURNS: Final = 64
# Axes of what a layer of nothing but a width gives out: the batch and that.
_WIDE: Final = 2
# A smaller input is printed with too few digits to say how wide it is.
_SURE_MIB: Final = 0.1
# Megabytes of 10^6 bytes in one of torchsummary's.
_MIB: Final = 2**20 / 1e6

# A row's layer as it is where its first axis is the batch, its shape as printed, and its parameters.
_Row = tuple[Layer, RawShape | None, int]
# Rows by type and by what is written behind it; longer ones are not kept.
_ROWS: Final[dict[tuple[str, str], _Row]] = {}
_TYPES: Final[dict[str, str]] = {}
_MOST_KEPT: Final = 100


def parse(lines: list[str], start: int) -> tuple[ModelSummary, int]:
    """Parse the table whose header is ``lines[start]``.

    Returns:
        The model, and the index of the line behind it.

    Raises:
        SummaryError: a row cannot be read, or there is none.
    """
    rows: list[int] = []
    read = _Read()
    last = ""  # the number of the last row
    at = start + 1
    count, most = len(lines), t.MAX_LAYERS
    while at < count and len(rows) <= most:
        # Most rows are simple; the pattern for all of them takes longer than these steps together.
        head, _, tail = lines[at].partition("[")
        at += 1
        if not at & OFTEN:
            breathe()
        type_, _, index = head.strip().rpartition("-")
        if index.isdecimal():
            row = read.plain(type_, tail)
            if row >= 0:
                rows.append(row)
                last = index
                continue
        breathe()
        line = lines[at - 1].strip()
        if not line or (line[0] in "=-_" and t.is_rule(line)):
            if rows and line and not _goes_on(lines, at):
                break
            continue
        if ":" in line and line.startswith(("Total params", "Trainable params", "Input size")):
            at -= 1
            break
        if t.is_cut(line):
            raise t.fail(at, line, t.CUT)
        number = at
        found = _ROW.fullmatch(lines[at - 1])
        if found is None:
            found, at = _whole(lines, at, line)
        rows.append(read.other(found.groups(), number, lines))
        last = found[2]
    if len(rows) > t.MAX_LAYERS:
        raise t.fail(at, lines[at - 1], f"more than {t.MAX_LAYERS:,} layers: print the model with a smaller depth")
    if not rows:
        raise t.fail(start + 1, lines[start], "no layer follows this header: paste the whole table")
    t.check_end(lines, start, at)
    if len(last) <= _MOST_DIGITS and int(last) != len(rows):
        why = f"its last row has the number {last}, and there are {len(rows)} rows: paste all of them, each once"
        raise t.fail(start + 1, lines[start], why)
    return _summary(lines, at, rows, read), at


def _goes_on(lines: list[str], at: int) -> bool:
    """Tell whether a row follows the rule before line index ``at``: somebody drew it between the rows."""
    behind = t.first_line(lines, at)
    return behind < len(lines) and _ROW.fullmatch(lines[behind]) is not None


def _whole(lines: list[str], at: int, line: str) -> tuple[re.Match[str], int]:
    """Read a row that a terminal or a mail program has wrapped, and the index of the line behind it.

    Raises:
        SummaryError: the lines do not make a row.
    """
    number = at
    while at < len(lines) and at - number < _MAX_WRAPPED and len(line) <= t.MAX_LINE:
        breathe()
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
    """The different rows of a table. Few objects are made for each: memory that is fresh is slow.

    Attributes:
        rows: what they mean.
        states: by place, how wide the state of a recurrent layer is that is shown beside its output.
    """

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self.states: dict[int, int] = {}
        # By type and by what is written behind it.
        self._places: dict[tuple[str, str], int] = {}
        self._shapes = t.Shapes()

    def plain(self, type_: str, tail: str) -> int:
        """Read a row that ends in ``[-1, 64, 7, 7]  9,408``, and give its place; -1 if it is anything else."""
        key = (type_, tail)
        place = self._places.get(key)
        if place is not None:
            return place
        row = _ROWS.get(key)
        if row is None:
            dims, closed, count = tail.partition("]")
            if not closed or not count.startswith(" ") or not t.is_name(type_):
                return -1
            params = t.read_count(count.strip())
            shape = None if params is None else self._shapes.inside(dims)
            if params is None or shape is None:
                return -1
            row = _row(type_, shape, params)
            if len(tail) <= _MOST_KEPT:
                keep(_ROWS, key, row)
        return self._add(key, row)

    def other(self, cells: tuple[str, ...], number: int, lines: list[str]) -> int:
        """Read a row that is not as simple as most, from its type, shape and parameters as written.

        Raises:
            SummaryError: one cannot be read.
        """
        type_, _, shape, count = cells
        params = t.read_count(count)
        balanced = shape[1:2] != "[" or shape.count("[") == shape.count("]")
        if params is None or not balanced or not t.is_name(type_):
            raise _unread(number, lines[number - 1])
        read = None if shape == "--" else self._shapes.read(shape)
        if read is None and shape != "--":
            raise t.fail(number, lines[number - 1], f"{t.short(shape)} is not an output shape")
        key = (type_, f"{shape} {count}")
        place = self._places.get(key)
        if place is not None:
            return place
        if type_ in GATES and "], [" in shape and (state := self._shapes.read(shape[shape.index("], [") + 3 : -1])):
            self.states[len(self.rows)] = state[-1] or 0
        return self._add(key, _row(type_, read, params))

    def _add(self, key: tuple[str, str], row: _Row) -> int:
        rows = self.rows
        place = self._places[key] = len(rows)
        rows.append(row)
        return place


def _row(type_: str, shape: RawShape | None, params: int) -> _Row:
    sample = open_sample(shape)
    # Types that are one text are found sooner (interned ones stay for ever in some versions of Python).
    type_ = _TYPES.get(type_) or keep(_TYPES, type_, type_)
    return Layer(type_, params, sample), shape, params


def _summary(lines: list[str], at: int, rows: list[int], read: _Read) -> ModelSummary:
    different = read.rows
    firsts = {shape[0] for _, shape, _ in different if shape and len(shape) > 1}
    if len(firsts) > 1:
        batch = batch_of([(different[row][1], count) for row, count in Counter(rows).items()], None)
    else:
        batch = next(iter(firsts), None)
    breathe()
    layers = [layer for layer, _, _ in different]
    if batch is not None and not {shape[0] for _, shape, _ in different if shape} <= {None, batch}:
        samples = {shape: per_sample(shape, batch) for _, shape, _ in different}
        breathe()
        layers = [Layer(layer.type, params, samples[shape]) for layer, shape, params in different]
    types = {layer.type for layer in layers}
    children = [layers[row] for row in rows]
    breathe()
    counted = sum([layer.params for layer in children])
    totals = t.read_totals(lines, at)
    size = t.input_mb(totals)
    recurs = not types.isdisjoint(GATES)
    steps = {row for row, layer in enumerate(layers) if _is_step(layer)} if recurs else set()
    again = _counted_again(rows, layers, steps) if steps or not types.isdisjoint(_CELLS) else 0
    weights = 0
    if recurs:
        states = {at: read.states[row] for at, row in enumerate(rows) if row in read.states}
        # Of less than this much of what is printed, rounding is too much.
        floats = round((size or 0.0) * 2**20 / 4 / (batch or 1)) if (size or 0.0) >= _SURE_MIB else 0
        children, weights = weighed(children, states, floats, _turns(rows, steps) if again else set())
    hidden = _unseen(rows, layers) if not types.isdisjoint(_ATTENDING) else 0
    stated = t.stated_params(totals, counted)
    if stated is not None and (counted + hidden) * 2 < stated and not recurs:
        why = f"the rows up to this one add up to {counted:,} parameters, and {stated:,} are stated: paste all of them"
        raise t.fail(at, lines[at - 1], why)
    if stated is not None and stated < counted:  # torchsummary's own total has each call; others' each layer
        least = sum([params for _, params in {(layer.type, layer.params) for layer in layers}])
        if why := t.too_many(counted, stated, least):
            raise t.fail(*t.total_line(lines, at), why)
    inferred: list[str] = []
    if stated is not None and stated != counted:
        inferred.append(f"the rows add up to {counted:,} parameters; the stated total of {stated:,} was taken")
    if hidden:
        inferred.append(f"torchsummary does not count all projections of its attention; {hidden:,} were added")
    if not again and len(rows) > _LEAST_TURNS and len(rows) - len(different) >= _LEAST_TURNS - 1:
        again = _looped(rows, different)
    if weights:
        inferred.append(f"torchsummary does not count recurrent layers; {weights:,} parameters were added")
    if again:
        inferred.append(f"torchsummary counts layers that are called again each time; {again:,} were taken off")
    return ModelSummary(
        format="torchsummary",
        root=versions.today(Layer("Model", 0, None, tuple(children)), types, in_order=True),
        batch_size=batch,
        total_params=max((counted if stated is None else stated) - again, 0) + hidden + weights,
        inferred=tuple(inferred),
        pass_mb=t.pass_mb(totals),
        input_mb=None if size is None else size * _MIB,
        frozen_params=t.frozen_params(totals),
    )


def _unseen(rows: list[int], layers: list[Layer]) -> int:
    """Count the parameters of projections that are called as functions."""
    breathe()
    linear = {row: layer.params for row, layer in enumerate(layers) if layer.type == "Linear"}
    breathe()
    others = {
        row
        for row, layer in enumerate(layers)
        if layer.type.endswith(_FED) or (layer.output_shape and layer.type in _ATTENDING)
    }
    hidden = shown = 0
    for number, row in enumerate(rows):
        if not number & OFTEN:
            breathe()
        if row in linear:
            shown += linear[row]
        elif row in others:
            type_, params, shape = layers[row].type, layers[row].params, layers[row].output_shape
            width = shape[-1] if shape else 0
            if type_ in _HIDING:
                hidden += max(4 * width * (width + 1) - params, 0)
            else:
                if type_ in _PACKING and width**2 <= shown < 2 * width**2:
                    hidden += 3 * width**2
                shown = 0
    return hidden


def _is_step(layer: Layer) -> bool:
    """Tell whether a recurrent layer is called for one step of a series."""
    shape = layer.output_shape
    return layer.type in GATES and shape is not None and len(shape) == _WIDE and shape[0] == 1


def _turns(rows: list[int], steps: Set[int]) -> set[int]:
    """Give the places of a loop's steps but the first of each."""
    seen: set[int] = set()
    turns: set[int] = set()
    for at, row in enumerate(rows):
        if not at & OFTEN:
            breathe()
        if row in seen:
            turns.add(at)
        elif row in steps:
            seen.add(row)
    return turns


def _counted_again(rows: list[int], layers: list[Layer], steps: Set[int]) -> int:
    """Count what the rows of a loop say again: as often as its step is there, all between two of them.

    Args:
        rows: of the table.
        layers: by row.
        steps: rows of recurrent layers that are called for one step; a loop calls them often.
    """
    step = next((row for row in rows if layers[row].type in _CELLS), -1)
    if step < 0:
        step = next((row for row in rows if row in steps), -1)
        if rows.count(step) < _LEAST_STEPS:
            return 0
    between: list[int] = []
    since = 0
    for number, row in enumerate(rows):
        if not number & OFTEN:
            breathe()
        since += layers[row].params
        if row == step:
            between.append(since)
            since = 0
    for cells in range(1, min(_MOST_CELLS, len(between) // 2) + 1):  # in one turn of the loop
        breathe()
        bodies = between[cells:]
        if all(body == between[cells + at % cells] for at, body in enumerate(bodies)):
            return sum(bodies)
    return 0


def _lengths(shapes: Iterable[RawShape | None]) -> set[int | None]:
    """Give the sizes of which one may be how long a series is: a layer's width alone is none."""
    breathe()
    return {size for shape in shapes if shape and len(shape) > _WIDE for size in shape[1:]}


def _looped(rows: list[int], different: list[_Row]) -> int:
    """Count what the rows of a loop say again whose body is a few rows: there as often as a series is long."""
    if max(Counter(rows).values()) < _LEAST_TURNS:
        return 0
    again = 0
    for body in range(1, _MOST_BODY + 1):
        breathe()
        same = 0
        for at in range(body, len(rows) + 1):
            if at < len(rows) and rows[at] == rows[at - body]:
                same += 1
                continue
            turns = same // body + 1
            if turns >= _LEAST_TURNS and turns in _lengths([shape for _, shape, _ in different]):
                again += (turns - 1) * sum([different[row][2] for row in rows[at - body : at]])
            same = 0
        if again:
            break
    return again
