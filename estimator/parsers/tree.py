"""Rows of a table to a tree of layers: the batch dimension and the depth. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Set
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.kept import keep
from estimator.layer import STEPS_FIRST, Layer

_TWO: Final = 2
_OF_CLASSES: Final = 2  # axes of what is given out for each class
_PICTURES: Final = 4
# Axes of what is given out for each step of a series.
_OF_SERIES: Final = 3
# Rows of one shape that may have the first dimension of the model's own by chance, as a detector's boxes have.
_CHANCE: Final = 2
# Tables of positions have an axis of one place before fewer rows.
_TABLE: Final = (1, 4096)
_BOX: Final = (4,)
_PAIRED: Final = "Transformer"

RawShape = tuple[int | None, ...]
# What one sample has of shapes whose batch is open.
_SAMPLES: Final[dict[RawShape, tuple[int, ...]]] = {}


def batch_of(
    shapes: Iterable[tuple[RawShape | None, int]], root: RawShape | None, types: Set[str] = frozenset()
) -> int | None:
    """Find the batch size that the summary was printed with.

    Args:
        shapes: shapes of the rows, None where a row shows none, each with how many rows show it.
        root: shape of the model's own row, which is the best witness, or None.
        types: of the layers, some of which may take the steps of series first.

    Returns:
        The batch size, or None where the summary leaves it open (``-1``, ``None``) or shows no shapes.
    """
    firsts: Counter[int | None] = Counter()
    pictures: Counter[int | None] = Counter()
    sides: set[int | None] = set()
    squares: set[int | None] = set()
    apart: set[int | None] = set()  # of those that do not have the model's own behind them, as a sequence does
    begins: int | None = None  # as the first layer does
    seconds: set[int | None] = set()  # of series; None where there is something else
    behind_one: set[int | None] = set()  # second axes, where the first is one
    for number, (shape, count) in enumerate(shapes):
        if not number & OFTEN:
            breathe()
        if shape and len(shape) > 1:
            if not begins and shape is not root:
                begins = shape[0]
            firsts[shape[0]] += count
            behind_one.update(shape[1:2] if shape[0] == 1 else ())
            seconds.add(shape[1] if len(shape) == _OF_SERIES else None)
            if not root or shape[1] != root[0]:
                apart.add(shape[0])
            if len(shape) == _PICTURES:
                pictures[shape[0]] += count
                sides.update(shape[1:] if shape is not root or count > 1 else ())
                if shape[2] == shape[3]:
                    squares.add(shape[2])
    if root and len(root) > 1:
        alone = pictures[root[0]] <= (len(root) == _PICTURES)  # but for itself
        # Columns of a picture may be the sequence; what is as wide as high may be an attention's matrix.
        columns = len(root) == _OF_SERIES and len(pictures) == 1 and root[0] not in squares
        # A batch of one that gives out a film has its pictures second.
        ordered = root[0] != 1 and root[1] in pictures and alone and (columns or root[0] not in sides)
        # What gives out classes may have as many of them as pieces of pictures inside, of each sample several.
        samples = root[0] or 0
        pieces = len(root) == _OF_CLASSES and samples > 0 and all(first and first % samples == 0 for first in firsts)
        seen = firsts[root[0]]
        voices = root[1] == begins == 1 and firsts[1] > seen  # of one sample
        if (
            (ordered and not pieces)
            or voices
            or (seconds == {root[1]} != {None} and _of_lengths(root[0], firsts, types))
        ):
            return root[1]  # its answers, to pictures or to another series, are in order of a sequence
        of_one = root[0] != 1 and next(iter(pictures), None) == 1  # a picture, behind which each box has a mask
        boxes = root[1:] == _BOX and bool(pictures) and (of_one or root[0] not in pictures)
        if (seen > 1 and not boxes and _fits(root[0], pictures.keys(), sides, seen)) or len(firsts) <= 1:
            return root[0]
        of_begin = sum([count for first, count in firsts.items() if first and begins and first % begins == 0])
        behind = begins and begins > 1 and begins in root[1:2] and of_begin * 2 > firsts.total()
        alike = all(first and root[0] and (first % root[0] == 0 or first == 1) for first in apart)
        heads = root[0] != 1 and len(root) >= _OF_SERIES and root[1] in behind_one  # or codebooks, of one sample
        several = alike and (root[0] == 1 or root[0] not in sides) and root[1:] != _BOX and not heads
        if several and not (behind and root[0] != 1 and len(root) > _OF_SERIES):
            return root[0]  # inside, each sample is several: patches, channels, the pictures of an episode
        if behind:
            return begins  # its answers stand in order of something else, and inside, each sample is several
        # else it gives out something else than an answer for each sample: boxes
    return max(firsts, key=firsts.__getitem__) if firsts else None


def _of_lengths(steps: int | None, firsts: Iterable[int | None], types: Set[str]) -> bool:
    """Tell whether first axes are those of series of several lengths, and not of several for each sample.

    One may be a multiple of the other in a transformer of two series, which takes as many of both.
    """
    if types.isdisjoint(STEPS_FIRST):
        return False
    paired = _PAIRED in types
    return any(first and first > 1 and steps and (first % steps or (paired and first > steps)) for first in firsts)


def _fits(batch: int | None, pictures: Set[int | None], sides: set[int | None], seen: int) -> bool:
    """Tell whether pictures are as many as the batch, or some for each sample; or are no pictures."""
    if not pictures or not batch or batch in pictures or batch in sides:
        return batch != 0
    return seen > _CHANCE and any(count is not None and count % batch == 0 for count in pictures)


def per_sample(shape: RawShape | None, batch: int | None, unknown: int = 1) -> tuple[int, ...] | None:
    """Take the batch out of a shape, and put ``unknown`` for other sizes that it leaves open.

    A first dimension that is a multiple of the batch (windows of a Swin) keeps the factor; a batch that is not the
    first dimension (sequence first) is taken out where it stands. So is one that stands there as a multiple. Rows of
    one feature have no batch of one behind them.

    Returns:
        The shape of one sample, or None where it is unknown.
    """
    if not shape:
        return None
    first = shape[0]
    if first is None or first == batch or batch is None:
        rest = shape[1:]
    elif (
        batch > 0 and first and first % batch == 0 and (batch not in shape[1:2] or (batch == 1 and len(shape) == _TWO))
    ):
        rest = (first // batch, *shape[1:])
    elif batch in shape:
        where = shape.index(batch)
        rest = shape[:where] + shape[where + 1 :]
    elif batch > 1 and len(shape) > _TWO and (second := shape[1]) and not second % batch and (first, second) > _TABLE:
        rest = (first, second // batch, *shape[2:])
    else:
        rest = shape
    return tuple([unknown if size is None else size for size in rest])


def open_sample(shape: RawShape | None) -> tuple[int, ...] | None:
    """Take the batch out of a shape that leaves it open; equal ones are one object, which later steps see sooner."""
    if not shape:
        return None
    sample = _SAMPLES.get(shape)
    if sample is None:
        sample = keep(_SAMPLES, shape, tuple([1 if size is None else size for size in shape[1:]]))
    return sample


def nest(rows: list[tuple[int, Layer]]) -> list[Layer]:
    """Turn rows in order of a depth-first walk into trees.

    Args:
        rows: depth (0 is outermost) and layer without children, in the order printed.

    Returns:
        The outermost layers in order.
    """
    stack: list[Layer] = []  # those that wait for a parent, the last row first
    depths: list[int] = []  # of these, which never fall
    last = 0
    known: dict[tuple[int, ...], Layer] = {}  # equal ones are one object, as equal rows are
    for number, (depth, layer) in enumerate(reversed(rows)):
        if not number & OFTEN:
            breathe()
        made = layer
        if depth < last:
            first = bisect_right(depths, depth)
            children = stack[first:]
            children.reverse()
            del stack[first:], depths[first:]
            key = (id(layer), *map(id, children))
            made = known.get(key) or known.setdefault(key, layer.but(children=tuple(children)))
        stack.append(made)
        depths.append(depth)
        last = depth
    stack.reverse()
    return stack


def root_of(layers: list[Layer]) -> Layer:
    """Make one root: the only outermost layer, or a ``Model`` around several."""
    if len(layers) == 1:
        return layers[0]
    return Layer("Model", 0, children=tuple(layers))
