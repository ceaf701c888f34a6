"""Layers that a block lists kind by kind, and uses in turn: convolutions first, their norms behind them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.inputs import number
from estimator.layer import Layer
from estimator.shapes.widths import first_of_width, input_width

_NORMS: Final[tuple[str, ...]] = ("BatchNorm", "InstanceNorm", "GroupNorm")
_FEWEST: Final = 2
_LIST: Final = "ModuleList"


def in_turn(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put norms behind what they normalise, and lists that go together into one, where all of them are listed apart.

    Args:
        children: of a block, as it defines them.
    """
    lists = [at for at, child in enumerate(children) if child.type == _LIST and child.children]
    if len(lists) >= _FEWEST:
        children = _zipped(children)
    norms = [at for at, child in enumerate(children) if child.type.startswith(_NORMS) and not child.children]
    if len(norms) < _FEWEST:
        return children
    first = norms[0]
    if any(gives(child) for child in children[first : norms[-1]]):
        return children
    places = [at for at, child in enumerate(children[:first]) if gives(child)]
    behind = _behind(children, places, norms)
    if len(places) < _FEWEST or len(behind) < len(norms):
        return children
    made: list[Layer] = []
    moved = set(norms)
    for at, child in enumerate(children):
        if not at & OFTEN:
            breathe()
        if at not in moved:
            made.append(child)
            if at in behind:
                made.append(children[behind[at]])
    return tuple(made)


def gives(layer: Layer) -> int:
    """Read how many channels or features a layer without others inside gives out that multiplies; 0 for others."""
    if layer.children:
        return 0
    if "Linear" in layer.type:
        return number(layer, "out_features")
    return number(layer, "1") if "Conv" in layer.type else 0


def _behind(children: Sequence[Layer], places: Sequence[int], norms: Sequence[int]) -> dict[int, int]:
    """Tell by the place of a product that of the norm which takes what it gives out; each comes in its turn."""
    found: dict[int, int] = {}
    rest = iter(places)
    for norm in norms:
        width = input_width(children[norm])
        at = next((at for at in rest if gives(children[at]) == width), None)
        if at is None:
            break
        found[at] = norm
    return found


def _zipped(children: Sequence[Layer]) -> tuple[Layer, ...]:
    """Join lists of which each one's parts take, one by one, what those of the list before give out."""
    made: list[Layer] = []
    length = 0  # of the lists that the last one made is of; 0 where it is none to be joined
    for at, child in enumerate(children):
        if not at & OFTEN:
            breathe()
        count = len(child.children)
        if length and child.type == _LIST and count in (length, length - 1) and _follow(made[-1], child, length):
            each = len(made[-1].children) // length
            parts: list[Layer] = []
            for part in range(length):
                parts += made[-1].children[part * each : (part + 1) * each]
                parts += child.children[part : part + 1]
            made[-1] = made[-1].but(children=tuple(parts))
            length = length if count == length else 0  # else its turns are no longer alike
            continue
        if length and child.type == _LIST and _in_stages(made[-1].children, child.children):
            times = count // length
            parts = []
            for part, product in enumerate(made[-1].children):
                parts += [product, *child.children[part * times : (part + 1) * times]]
            made[-1] = made[-1].but(children=tuple(parts))
            length = 0
            continue
        length = count if child.type == _LIST and _chained(child.children) else 0
        made.append(child)
    return tuple(made)


def _in_stages(products: Sequence[Layer], listed: Sequence[Layer]) -> bool:
    """Tell whether so many blocks of a list work on what each of some products gives out, all of them another width."""
    times, rest = divmod(len(listed), len(products))
    widths = [*map(gives, products)]
    if rest or len(set(widths)) < len(widths):
        return False
    for at, part in enumerate(listed):
        first = first_of_width(part) if part.children else None
        if first is None or not gives(first) or input_width(first) != widths[at // times]:
            return False
    return True


def _chained(parts: Sequence[Layer]) -> bool:
    """Tell whether each of several products takes what the one before gives out."""
    if len(parts) < _FEWEST or not all(map(gives, parts)):
        return False
    return all(input_width(after) == gives(part) for part, after in pairwise(parts))


def _follow(made: Layer, listed: Layer, length: int) -> bool:
    """Tell whether the parts of a list are norms of what the parts before give out, or pooling."""
    each = len(made.children) // length
    for at, part in enumerate(listed.children):
        if part.children:
            return False
        if part.type.startswith(_NORMS):
            if input_width(part) != gives(made.children[at * each]):
                return False
        elif "Pool" not in part.type or "Adaptive" in part.type:
            return False
    return True
