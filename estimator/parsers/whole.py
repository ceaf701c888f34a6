"""Whether a table of torchinfo is whole: calls that it hides are put back, what somebody cut is refused. Pure.

Each row has its number among all of its depth (``2-8``), so that rows which are missing leave a gap. They are calls of
layers that are shown already where ``hide_recursive_layers`` was asked for, and what somebody cut where parameters are
missing too. How often which layers are called follows from "Forward/backward pass size", which counts hidden calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, product
from math import prod
from typing import Final, NamedTuple

from estimator.breath import OFTEN, breathe
from estimator.parsers.text import MAX_DEPTH, MAX_LAYERS
from estimator.parsers.tree import RawShape

CURE: Final = "paste the whole table, printed without hide_recursive_layers"
HIDDEN: Final = (
    "calls of layers that stand elsewhere are hidden before this row, and nothing tells which: print the model without "
    "hide_recursive_layers"
)
SAID: Final = "the table hides calls of layers that stand elsewhere; they follow from its Forward/backward pass size"
WITHOUT: Final = "the table hides calls of layers that have no parameters, which are not counted"
UNSURE: Final = "the table hides calls of layers, which are not counted: print the model without hide_recursive_layers"
_ATTENTION: Final = "MultiheadAttention"
# PyTorch's layers that hold no others, so that a row of one hides nothing.
_SINGLE: Final = frozenset(
    (
        "Linear",
        "Bilinear",
        "Embedding",
        "LSTM",
        "GRU",
        "RNN",
        "LayerNorm",
        "GroupNorm",
        "PReLU",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
        "BatchNorm1d",
        "BatchNorm2d",
        "BatchNorm3d",
        "InstanceNorm1d",
        "InstanceNorm2d",
        "InstanceNorm3d",
    )
)
# By how much a printed pass may differ from what it counts: it is rounded to 0.01 MB.
_ROUNDED: Final = 0.0055e6 / 8
_NEAR: Final = 0.01
_LEAST: Final = 0.5
# Layers before a gap that may be called again together, and gaps for which that is tried.
_MOST_AGAIN: Final = 8
_MOST_GAPS: Final = 3
# Of a number of a row.
_DIGITS: Final = 6


class Row(NamedTuple):
    """A row, as far as it matters here.

    Attributes:
        depth: its depth.
        type: class of the layer.
        owns: whether it shows parameters, or that they were counted before.
        shape: of what it gives out, batch included.
    """

    depth: int
    type: str
    owns: bool
    shape: RawShape | None


def gaps(depths: Sequence[int], indices: Sequence[str]) -> list[tuple[int, int]]:
    """Find rows before which others of their depth are missing: their places, and how many.

    Of each depth there are as many rows as its highest number where none is missing; lists of layers repeat theirs.

    Args:
        depths: of the rows.
        indices: as printed: ``2-8``; rows whose index is something else, as the model's own, do not matter.
    """
    counts = Counter(depths)
    last = dict(zip(depths, indices, strict=True))  # which is the highest, but where lists of layers stand last
    short = {depth for depth, index in last.items() if _number(index) > counts[depth]}
    found: list[tuple[int, int]] = []
    before = [0] * (MAX_DEPTH + 1)
    for at, index in enumerate(indices if short else ()):
        if not at & OFTEN:
            breathe()
        depth, number = depths[at], _number(index)
        if depth in short and number > before[depth]:
            if number > before[depth] + 1:
                found.append((at, number - before[depth] - 1))
            before[depth] = number
    return found


def surplus(depths: Sequence[int], indices: Sequence[str]) -> bool:
    """Tell whether there are more rows of a depth than its last number says, as lists of layers repeat theirs."""
    counts = Counter(depths)
    last = dict(zip(depths, indices, strict=True))
    return any(0 < _number(index) < counts[depth] for depth, index in last.items())


def twice(depths: Sequence[int], sized: Sequence[bool], indices: Sequence[str]) -> int:
    """Find the first row that stands there before, as where a table was pasted in pieces: its place; 0 if none does.

    Args:
        depths: of the rows.
        sized: whether each shows a size: lists of layers, which may repeat their numbers, show none.
        indices: as printed.
    """
    before = [0] * (MAX_DEPTH + 1)
    for at, depth in enumerate(depths):
        if not at & OFTEN:
            breathe()
        number = _number(indices[at]) if sized[at] else 0
        if number:
            if number <= before[depth]:
                return at
            before[depth] = number
    return 0


def _number(index: str) -> int:
    """Read what stands behind the hyphen of ``2-8``; 0 where that is no number."""
    _, _, number = index.partition("-")
    return int(number) if number.isdecimal() and len(number) <= _DIGITS else 0


def counts(type_: str) -> bool:
    """Tell whether the printed pass counts what a layer of this type gives out, whatever stands below it."""
    return type_ in _SINGLE


def is_open(rows: Sequence[Row]) -> bool:
    """Tell whether no row may hide layers of its own."""
    return _counted(rows) is not None


def called_again(rows: Sequence[Row], missing: Sequence[tuple[int, int]], pass_mb: float) -> list[int] | None:
    """Give the places of all calls in order, those that are hidden too.

    Args:
        rows: those that are shown, the model's own first.
        missing: see `gaps`; may be empty.
        pass_mb: the printed "Forward/backward pass size (MB)".

    Returns:
        Places in ``rows``, some several times; None where nothing tells what is hidden. Where only layers without
        parameters are, which the pass does not count, all stand there once.
    """
    as_shown = list(range(len(rows)))
    sizes = _counted(rows)
    if sizes is None or pass_mb < _LEAST:
        return None
    printed = pass_mb * 1e6 / 8
    visible = sum(sizes)
    near = max(_ROUNDED, printed * _NEAR)
    if abs(printed - visible) <= near or not visible:
        return as_shown
    if not missing:
        times = round(printed / visible)
        whole = abs(printed - times * visible) <= near and rows[0].depth == 0
        fits = times > 1 and times * (len(rows) - 1) < MAX_LAYERS  # however large a pass somebody wrote
        return [0, *as_shown[1:] * times] if whole and fits else None
    upto = [0, *accumulate(sizes)]
    shallow = min(rows[at].depth for at, _ in missing)
    first = [(at, count) for at, count in missing if rows[at].depth == shallow]
    if len(first) > _MOST_GAPS:
        return None
    choices = [[(0, 0), *_before(rows, at, count)] for at, count in first]
    for chosen in product(*choices):
        breathe()
        more = sum((upto[at] - upto[start]) * times for (at, _), (start, times) in zip(first, chosen, strict=True))
        if more and abs(visible + more - printed) <= near:
            return _inserted(len(rows), [(at, *again) for (at, _), again in zip(first, chosen, strict=True)])
    return None


def _counted(rows: Sequence[Row]) -> list[int] | None:
    """Count what each row adds to the pass: what layers with parameters give out; None where one may hide others."""
    sizes: list[int] = []
    for at, row in enumerate(rows):
        if not at & OFTEN:
            breathe()
        inner = at + 1 < len(rows) and rows[at + 1].depth > row.depth
        if inner or not row.owns or row.type == _ATTENTION:  # which holds one that is never called
            sizes.append(0)
            continue
        if row.type not in _SINGLE or row.shape is None or None in row.shape:
            return None
        sizes.append(prod([size or 0 for size in row.shape]))
    return sizes


def _before(rows: Sequence[Row], at: int, count: int) -> list[tuple[int, int]]:
    """Give where the layers before a gap begin that may be called again, and how often: the last, the last two, ..."""
    depth = rows[at].depth
    found: list[tuple[int, int]] = []
    siblings = 0
    for place in range(at - 1, -1, -1):
        if rows[place].depth < depth or siblings >= _MOST_AGAIN:
            break
        if rows[place].depth == depth:
            siblings += 1
            if count % siblings == 0:
                found.append((place, count // siblings))
    return found


def _inserted(count: int, again: Sequence[tuple[int, int, int]]) -> list[int] | None:
    """Give places in order where those from the second up to the first of each three come so many times more."""
    made: list[int] = []
    last = 0
    for at, start, times in again:
        if len(made) + at - last + (at - start) * times > MAX_LAYERS:
            return None
        made += range(last, at)
        made += list(range(start, at)) * times if times else []
        last = at
    made += range(last, count)
    return made
