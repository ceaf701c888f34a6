"""In which order blocks use their layers, where that is not the order in which they define them. Pure."""

from __future__ import annotations

from typing import Final

from estimator.breath import breathe
from estimator.inputs import axes, number
from estimator.layer import Layer
from estimator.shapes.widths import first_of_width, first_width, input_width, last_width
from estimator.walk import layers

_ACTIVATIONS: Final[tuple[str, ...]] = (
    "ReLU",
    "GELU",
    "SiLU",
    "Tanh",
    "Sigmoid",
    "Activation",
    "Swish",
    "Mish",
    "ELU",
    "Softplus",
)
_FEWER: Final = frozenset(("sr", "sequence_reduction", "spatial_reduction"))
_REDUCTIONS: Final = _FEWER | {"layer_norm", "norm", "act", "pool"}
_PADDING: Final = "_padding"
_LISTS: Final[tuple[str, ...]] = ("ModuleList", "Sequential")
_PART: Final = 2
_POOLS: Final[tuple[str, ...]] = ("AdaptiveAvgPool2d", "AdaptiveMaxPool2d")
_ONE_PIXEL: Final = frozenset(("1", "1, 1"))
# Names of a network's second half, and of what is between the halves.
_SECOND: Final[tuple[str, ...]] = ("up", "decode")
_MIDDLE: Final[tuple[str, ...]] = ("mid", "bottleneck")
# Patches of numbered stages, often listed before all blocks.
_STAGES: Final[tuple[str, ...]] = ("patch_embed",)


def in_order_of_use(children: tuple[Layer, ...]) -> list[Layer]:
    """Put layers where blocks use them, which is not always where they define them.

    An activation goes behind the first of several projections; what makes the keys fewer goes before them; stages whose
    parts are numbered (``patch_embed1``, ``block1``, ..) go one after the other.
    """
    breathe()
    if sum(child.name.startswith(_STAGES) and child.name[-1:].isdecimal() for child in children) > 1:
        children = _by_stages(children)
    if any(child.name.startswith(_MIDDLE) for child in children):
        children = _middle_between(children)
    if _shrinks_first(children):
        children = (children[-1], *children[:-1])
    if children[0].type.startswith(_POOLS) and len(children) > _PART:
        children = _pooled_last(children)
    if children[-1].type.startswith(_POOLS) and len(children) > _PART:
        children = _pooled_first(children)
    if len(children) > _PART and children[-1].type in _LISTS and _joins_halves(children):
        children = (*children[:-2], children[-1], children[-2])
    if any(child.name.endswith(_PADDING) for child in children):
        children = _padded_first(children)
    if any(child.name in _FEWER for child in children):
        fewer = [child for child in children if child.name in _REDUCTIONS]
        fewer.sort(key=lambda child: child.name != "pool")
        rest = [child for child in children if child.name not in _REDUCTIONS]
        at = next((i for i, child in enumerate(rest) if child.name in ("kv", "k", "key")), len(rest))
        return [*rest[:at], *fewer, *rest[at:]]
    linear = [index for index, child in enumerate(children) if child.type in ("Linear", "Conv1D")]
    if len(linear) == _PART + 1:
        children = _gated_first(children, linear)
    order = sorted(children, key=lambda child: child.name == "lm_head")
    children = tuple(order)
    if len(linear) < 2:
        return order
    for index, child in enumerate(children):
        if not child.children and _is_activation(child) and not linear[0] < index < linear[-1]:
            order.remove(child)
            order.insert(order.index(children[linear[0]]) + 1, child)
            break
    return order


def _middle_between(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put the middle of a network that is listed behind its second half before that, as wide as the first half ends."""
    first = next(at for at, child in enumerate(children) if child.name.startswith(_MIDDLE))
    if first < _PART or not children[first - 1].name.startswith(_SECOND):
        return children
    takes = next((number(inner, "0") for inner in layers(children[first]) if "Conv" in inner.type), 0)
    if not takes or last_width(children[first - _PART]) != takes:
        return children
    end = first + 1
    while end < len(children) and children[end].name.startswith(_MIDDLE):
        breathe()
        end += 1
    return (*children[: first - 1], *children[first:end], children[first - 1], *children[end:])


def _gated_first(children: tuple[Layer, ...], linear: list[int]) -> tuple[Layer, ...]:
    """Put what narrows again behind both layers that widen, where it is listed between them: one gates the other."""
    gate, narrows, widens = (children[at] for at in linear)
    width, inner = input_width(gate), input_width(narrows)
    if not width or not inner or width == inner or input_width(widens) != width:
        return children
    outs = [number(part, "out_features") for part in (gate, narrows, widens)]
    if outs != [inner, width, inner]:
        return children
    rest = [child for child in children if child is not narrows]
    at = rest.index(widens) + 1
    return (*rest[:at], narrows, *rest[at:])


def _pooled_last(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put pooling to one pixel that is listed first before the classifier, where layers between look at pictures."""
    pool, *rest = children
    first, last = first_of_width(rest[0]), first_of_width(rest[-1])
    if pool.said("output_size").strip("() ") not in _ONE_PIXEL or first is None or last is None:
        return children
    looks = "Conv2d" in first.type and max(axes(first, "kernel_size"), default=1) > 1
    return (*rest[:-1], pool, rest[-1]) if looks and last.type == "Linear" else children


def _pooled_first(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put a gate's pooling to one pixel that is listed behind its sigmoid before its layers, of one place each."""
    *rest, pool = children
    if pool.said("output_size").strip("() ") not in _ONE_PIXEL or not rest[-1].type.lower().endswith("sigmoid"):
        return children
    at = len(rest)
    while at and not rest[at - 1].children and set(axes(rest[at - 1], "kernel_size")) <= {1}:
        breathe()
        at -= 1
    return (*rest[:at], pool, *rest[at:])


def _padded_first(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put padding that is named after the convolution behind which it is listed before that."""
    order = list(children)
    for at, child in enumerate(children[1:], 1):
        if child.name.endswith(_PADDING) and children[at - 1].name == child.name.removesuffix(_PADDING):
            order[at - 1], order[at] = child, children[at - 1]
    return tuple(order)


def _shrinks_first(children: tuple[Layer, ...]) -> bool:
    """Tell whether what makes a stage's picture smaller is listed behind the blocks that take what it gives out."""
    last = children[-1]
    if len(children) != 2 or last.name != "downsample" or not children[0].children:
        return False
    blocks_take = next((width for inner in layers(children[0]) if (width := input_width(inner))), None)
    makes = next((inner.said("1") for inner in layers(last) if "Conv2d" in inner.type), None)
    return blocks_take is not None and str(blocks_take) == makes


def _joins_halves(children: tuple[Layer, ...]) -> bool:
    """Tell whether what joins all that was made of a picture's halves is listed before the blocks that work on one.

    Of the halves of what the part before gives out, one goes through the blocks; then both are joined with what the
    blocks of a list give out, each, or with what a row of them does (C2f, C2PSA of YOLO).
    """
    before, joins, listed = children[-3:]
    width = first_width(listed)
    count = len(listed.children) + 1 if listed.type == "ModuleList" else 1
    return width > 0 and first_width(joins) == width * (count + 1) and last_width(before) == _PART * width


def _by_stages(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Order parts with a number at the end of their names by that number."""
    numbered = [child for child in children if child.name[-1:].isdecimal()]
    places = iter(sorted(numbered, key=lambda child: child.name[-1]))
    return tuple(next(places) if child.name[-1:].isdecimal() else child for child in children)


def _is_activation(layer: Layer) -> bool:
    return not layer.params and any(mark in layer.type for mark in _ACTIVATIONS)


def repeated(layer: Layer) -> Layer:
    """Repeat the only group of layers of an Albert as often as its published sizes do; parameters count once."""
    widths = [width for inner in layers(layer) if (width := input_width(inner))]
    times = 24 if min(widths, default=0) in (1024, 2048) else 12
    children = tuple(
        child.but(children=(*child.children, *(_bare(inner) for inner in child.children * (times - 1))))
        if child.type == "ModuleList" and len(child.children) == 1
        else child
        for child in layer.children
    )
    return layer.but(children=children)


def _bare(layer: Layer) -> Layer:
    breathe()
    return layer.but(params=0, children=tuple(map(_bare, layer.children)))
