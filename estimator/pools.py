"""Pooling that the code of a small network does between its layers, where a print shows it not at all, or once. Pure.

Tutorials pool by a function, or by one layer that is called behind every convolution. How often tells the first linear
layer, which takes the flattened picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import pairwise
from math import isqrt
from typing import Final, NamedTuple

from estimator.breath import breathe
from estimator.inputs import axes, flattened_side, number
from estimator.layer import STEPS_FIRST, Layer
from estimator.outputs import LARGER
from estimator.walk import layers

_MOST_LAYERS: Final = 64
_HALVES: Final[tuple[tuple[str, str], ...]] = (("kernel_size", "2"), ("stride", "2"))
_LEAST_STAGES: Final = 3
_MOST_STAGES: Final = 8
_LEAST_AREA: Final = 4
_TWICE: Final = 2
_CONVS: Final = ("Conv1d", "Conv2d", "Conv3d")
_LIST: Final = "ModuleList"
_TRANSITION: Final = "Transition"


def repeated(root: Layer, said: tuple[int, ...] = ()) -> Layer:
    """Put pooling where it must be for the first linear layer to take a picture of a usual size.

    Args:
        root: a model, or one of parts; one of few layers whose convolutions follow one another.
        said: sides of the pictures, films or series, where they are known.
    """
    made = _repeated(root, said)
    if made is not root or not any(part.children for part in root.children):
        return made
    channels = 0
    inner = []
    for part in root.children:
        channels = channels or _takes(part)
        takes = part.children and channels and _takes(part) == channels
        inner.append(_repeated(part, said) if takes else part)
    return _but(root, inner)


def _repeated(root: Layer, said: tuple[int, ...]) -> Layer:
    found = layers(root)
    parts = [layer for layer in found if not layer.children]
    convs = [at for at, part in enumerate(parts) if part.type in _CONVS]
    first = next((at for at, part in enumerate(parts) if part.type == "Linear"), 0)
    if not convs or first < convs[-1] or len(parts) > _MOST_LAYERS or any(part.type in STEPS_FIRST for part in found):
        return root
    inside = len(parts) > len(root.children) or any(part.children for part in root.children)
    if inside and any(_gives(parts[at]) != _takes(parts[after]) for at, after in pairwise(convs)):
        return root
    pools = [part for part in parts if "Pool" in part.type]
    area = _last_area(parts[convs[-1]], parts[first])
    if area < _LEAST_AREA or len(pools) > 1 or any("Adaptive" in pool.type for pool in pools):
        return root
    kind = parts[convs[0]].type[-2:]
    if not said and (isqrt(area) ** 2 != area or kind != "2d"):
        return root
    if flattened_side(parts[:first], area, said):
        return root  # as it is written
    pool = pools[0] if pools else Layer(f"MaxPool{kind}", 0, None, (), _HALVES, "pool")
    sides: dict[int, list[tuple[Layer, ...]]] = {}
    for places in _places(len(convs)):
        chain = list(_inserted(parts, pool, places))
        before = [layer for turn in chain[: first + 1] for layer in turn][:-1]
        made = flattened_side(before, area, said)
        if made:
            sides.setdefault(made, chain)
    # Two answers: pictures of this kind are rather small.
    return _poured(root, iter(sides[min(sides)])) if sides else root


def _poured(block: Layer, turns: Iterator[tuple[Layer, ...]]) -> Layer:
    """Give a block with other layers in the place of each that holds none."""
    made: list[Layer] = []
    for part in block.children:
        breathe()
        made += (_poured(part, turns),) if part.children else next(turns)
    return block.but(children=tuple(made))


def in_stages(root: Layer, found: Sequence[Layer], said: tuple[int, ...] = ()) -> Layer:
    """Put pooling into each of the blocks side by side whose code does it, where the first linear layer tells so.

    It pools before the blocks inside of such a block, behind its convolution, or else at its end.

    Args:
        root: a model.
        found: all its layers.
        said: rows and columns of the pictures, where they are known.
    """
    breathe()
    if any("Pool" in layer.type or layer.type.startswith(LARGER) for layer in found):
        return root
    first = next((at for at, layer in enumerate(found) if layer.type == "Linear"), 0)
    for at, row in ((-1, root), *enumerate(root.children)):
        stages = [number for number, part in enumerate(row.children) if _convolves(part)]
        if len(stages) < _TWICE or stages[-1] - stages[0] >= len(stages) or not _chained(row.children, stages):
            continue
        area, rest = divmod(number(found[first], "in_features"), max(_gives(row.children[stages[-1]]), 1))
        if rest or area < _LEAST_AREA or flattened_side(found[:first], area, said):
            return root
        pool = Layer("MaxPool2d", 0, None, (), _HALVES, "pool")
        before, end = stages[0], stages[-1] + 1
        parts = [_with(part, pool) for part in row.children[before:end]]
        made = row.but(children=(*row.children[:before], *parts, *row.children[end:]))
        made = made if at < 0 else root.but(children=(*root.children[:at], made, *root.children[at + 1 :]))
        chain = [layer for layer in layers(made) if not layer.children]
        chain = chain[: next((last for last, layer in enumerate(chain) if layer.type == "Linear"), 0)]
        return made if flattened_side(chain, area, said) else root
    return root


def _convolves(part: Layer) -> bool:
    breathe()
    return bool(part.children) and any(layer.type == "Conv2d" for layer in layers(part))


def _chained(parts: Sequence[Layer], stages: Sequence[int]) -> bool:
    """Tell whether each of some parts takes as many channels as the one before gives out."""
    return all(_gives(parts[at - 1]) == _takes(parts[at]) for at in stages[1:])


def _with(stage: Layer, pool: Layer) -> Layer:
    """Put pooling before the first block inside of a stage, behind what convolves; at the end where there is none."""
    parts = stage.children
    inner = next((at for at, part in enumerate(parts) if part.children), 0) or len(parts)
    return stage.but(children=(*parts[:inner], pool, *parts[inner:]))


def behind_transitions(root: Layer, types: Set[str]) -> Layer:
    """Put pooling at the end of what lies between the stages of a DenseNet, where code pools by a function.

    Such a block is called a transition, normalises, and gives out fewer channels by one kernel of one place.

    Args:
        root: a model.
        types: of all its layers.
    """
    return _pooled(root) if any(_TRANSITION in type_ for type_ in types) else root


def _pooled(block: Layer) -> Layer:
    breathe()
    if not block.children:
        return block
    if _TRANSITION in block.type and _narrows(block):
        pool = Layer(f"AvgPool{_convs(block)[0].type[-2:]}", 0, None, (), _HALVES, "pool")
        return block.but(children=(*block.children, pool))
    return _but(block, [*map(_pooled, block.children)])


def _but(block: Layer, parts: Sequence[Layer]) -> Layer:
    """Give a block of other parts; where none is another, the same object: equal ones are followed once."""
    for new, old in zip(parts, block.children, strict=True):
        if new is not old:
            return block.but(children=tuple(parts))
    return block


def _narrows(block: Layer) -> bool:
    """Tell whether a block has a norm and one convolution alone, which makes fewer channels and no smaller picture."""
    convs = _convs(block)
    if len(convs) != 1 or set(axes(convs[0], "kernel_size")) != {1} or _strides(convs[0]):
        return False
    inside = [layer.type for layer in layers(block)[1:]]
    if not any("Norm" in type_ for type_ in inside) or any("Pool" in type_ or "Blur" in type_ for type_ in inside):
        return False
    return 0 < number(convs[0], "1") < number(convs[0], "0")


def _convs(block: Layer) -> list[Layer]:
    return [layer for layer in layers(block) if "Conv" in layer.type and layer.args]


def called_again(root: Layer, found: Sequence[Layer], types: Set[str]) -> Layer:
    """Put pooling where the code of a U-Net does it, the model or a part of it: between the stages of its first half.

    It is a function, or one layer that is called again and again. The stages are in lists, or lie side by side, in the
    model or in a block of it; each is wider than the one before, and as many layers make pictures larger as there are
    steps between them, or a function, or one layer, before each stage of the second half. A second half that is listed
    first goes behind what it takes.

    Args:
        root: a model.
        found: all its layers.
        types: of these.
    """
    if types.isdisjoint(_CONVS):
        return root
    made = _called_again(root, found)
    if made is not root:
        return made
    return _but(root, [_called_again(part, layers(part)) if part.children else part for part in root.children])


def _called_again(root: Layer, found: Sequence[Layer]) -> Layer:
    breathe()
    shrinks = [layer for layer in found if not layer.children and _shrinks(layer)]
    pool = shrinks[0] if shrinks else None
    if len(shrinks) > 1 or (pool is not None and not _halves(pool)):
        return root
    grows = [layer for layer in found if not layer.children and layer.type.startswith(LARGER)]
    beside = len(grows) == 1 and any(part is grows[0] for part in root.children)
    if pool is not None and beside and any(part is pool for part in root.children):
        rest = [part for part in root.children if part is not pool and part is not grows[0]]
        if order := _unpooled(rest, pool, grows[0]) or _nested(rest, pool):
            return root.but(children=order)
    if (len(grows) == 1 and not beside) or len(grows) > _MOST_LAYERS:
        return root
    gone = [*shrinks, *(grows if beside else ())]
    for within in (False, True):
        parts = [part for part in _opened(root, within=within) if not _among(part, gone)]
        if len(grows) > 1:
            lists = [part.children for part in root.children if part.type == _LIST]
            if stages := _before_larger(lists, parts, pool, len(grows)):
                made = _put(root, _Places([], _pooling(stages[: len(grows)], pool)), gone, within=within)
                return made.but(children=_second_in_turn(made.children, stages, grows))
        elif places := _both_again(parts, pool, grows[0] if grows else None):
            return _put(root, places, gone, within=within)
    return root


class _Places(NamedTuple):
    """Where layers go.

    Attributes:
        before: parts of a model, and what goes before each.
        behind: the same of what goes behind.
    """

    before: list[tuple[Layer, Layer]]
    behind: list[tuple[Layer, Layer]]


def _halves(pool: Layer) -> bool:
    return pool.type.startswith("MaxPool") and {*axes(pool, "kernel_size"), *axes(pool, "stride")} == {_TWICE}


def _is_open(part: Layer, *, within: bool) -> bool:
    """Tell whether a part holds stages: a list, or where that is asked for a block with one."""
    return part.type == _LIST or (within and any(inner.type == _LIST for inner in part.children))


def _opened(block: Layer, *, within: bool) -> Iterator[Layer]:
    """Yield what lies side by side in a model and its lists; a list in a list is a stage."""
    for part in block.children:
        breathe()
        if block.type != _LIST and _is_open(part, within=within):
            yield from _opened(part, within=within)
        else:
            yield part


def _put(block: Layer, places: _Places, gone: Sequence[Layer], *, within: bool) -> Layer:
    """Put layers between what `_opened` yields, and take others away."""
    made: list[Layer] = []
    for part in block.children:
        breathe()
        if _among(part, gone):
            continue
        made += [layer for at, layer in places.before if at is part]
        inside = block.type != _LIST and _is_open(part, within=within)
        made.append(_put(part, places, gone, within=within) if inside else part)
        made += [layer for at, layer in places.behind if at is part]
    return block.but(children=tuple(made))


def _among(part: Layer, some: Sequence[Layer]) -> bool:
    return any(part is other for other in some)


def _pooling(stages: Sequence[Layer], pool: Layer | None) -> list[tuple[Layer, Layer]]:
    """Put one pooling layer, or a function that pools, behind some stages."""
    kind = next(layer.type for layer in layers(stages[0]) if layer.type in _CONVS)
    pool = pool or Layer(f"MaxPool{kind[-2:]}", 0, None, (), _HALVES, "0")
    return [(stage, pool) for stage in stages]


def _before_larger(
    lists: Iterable[Sequence[Layer]], parts: Sequence[Layer], pool: Layer | None, grows: int
) -> Sequence[Layer]:
    """Find the stages of a U-Net's first half, with the one between the halves if it is wider; none in another model.

    They are those of a list where these are one more than there are steps. Where no layer pools, its second half has to
    take what the first half gives out, joined.

    Args:
        lists: what lists of the model hold.
        parts: of the model.
        pool: the layer that pools.
        grows: how many layers make pictures larger.
    """
    wider = (stages for stages in lists if len(stages) == grows + 1 and _wider(stages) == len(stages))
    stages = next(wider, None) or _chain(parts)[: grows + 1]
    if len(stages) < max(_LEAST_STAGES, grows):
        return ()
    widths = [_gives(stage) for stage in stages]
    behind = [layer for part in parts if not _among(part, stages) for layer in layers(part)]
    taken = {number(layer, "0") for layer in behind if layer.type in _CONVS}
    if pool is None and any({2 * width, width + below}.isdisjoint(taken) for width, below in pairwise(widths)):
        return ()
    return stages


def _chain(parts: Sequence[Layer]) -> list[Layer]:
    """Find parts of which each takes what the one before gives, and gives more; the first has the fewest channels.

    A second half may be listed between them.
    """
    first = min([(channels, at) for at, part in enumerate(parts) if (channels := _takes(part))], default=(0, 0))[1]
    found: list[Layer] = []
    for part in parts[first:]:
        breathe()
        if _wider([*found[-1:], part]) > len(found[-1:]):
            found.append(part)
    return found


def grown_again(root: Layer, types: Set[str]) -> Layer:
    """Put the one layer by which a detector's neck makes pictures larger before each part that takes it, joined.

    The neck makes them smaller again by as many kernels with steps (PANet).

    Args:
        root: a model.
        types: of all its layers.
    """
    return _grown_again(root) if "Upsample" in types else root


def _grown_again(block: Layer) -> Layer:
    breathe()
    parts = block.children
    if not parts:
        return block
    ups = [at for at, part in enumerate(parts) if part.type == "Upsample"]
    if len(ups) == 1 and (order := _neck(parts, ups[0])):
        return block.but(children=order)
    return _but(block, [*map(_grown_again, parts)])


def _neck(parts: Sequence[Layer], at: int) -> tuple[Layer, ...]:
    """Give the parts of a neck in order of use, which makes pictures larger at one place; nothing for another block."""
    behind = parts[at + 1 : at + 1 + _MOST_STAGES * 2]
    steps = [place for place, part in enumerate(behind) if any(map(_shrinks, _convs(part)))]
    if len(steps) < _TWICE or any(part.type.startswith(LARGER) for inner in behind for part in layers(inner)):
        return ()
    width, joins = _widest(parts[at - 1]) if at else 0, []
    for place, part in enumerate(behind[: steps[0]]):
        if width and _takes(part) > width:
            joins.append(place)
        width = _widest(part)
    if not at and len(joins) == len(steps) - 1:
        joins.insert(0, 0)  # where it is listed
    if len(joins) != len(steps):
        return ()
    order = list(parts[:at])
    for place, part in enumerate(behind):
        order += [parts[at], part] if place in joins else [part]
    return (*order, *parts[at + 1 + len(behind) :])


def _widest(part: Layer) -> int:
    """Read how many channels a part gives out whose last layer may be listed before others of its block."""
    return max([number(conv, "1") for conv in _convs(part)], default=0)


def _unpooled(parts: Sequence[Layer], pool: Layer, grows: Layer) -> tuple[Layer, ...]:
    """Put one pooling layer behind each stage of a first half, and what undoes it before each of the second (SegNet).

    Returns:
        The parts of the model, whose last may be a head; nothing where they are no such halves.
    """
    half = len(parts) // _TWICE
    if not grows.type.startswith("MaxUnpool") or half < _TWICE or not all(map(_takes, parts)):
        return ()
    if not _chained(parts, range(len(parts))):
        return ()
    again = [item for stage in parts[half : 2 * half] for item in (grows, stage)]
    return (*[item for stage in parts[:half] for item in (stage, pool)], *again, *parts[2 * half :])


def _both_again(parts: Sequence[Layer], pool: Layer | None, grows: Layer | None) -> _Places | None:
    """Tell where pictures are made smaller and larger in a U-Net that shows at most one layer for each.

    Returns:
        The places; None where these are no two halves.
    """
    first = _wider(parts)
    second = parts[first : 2 * first - 1]
    if not _LEAST_STAGES <= first <= _MOST_LAYERS or len(second) < first - 1:
        return None
    width = _gives(parts[first - 1])
    for stage, beside in zip(second, reversed(parts[: first - 1]), strict=True):
        if _takes(stage) != width + _gives(beside):
            return None
        width = _gives(stage)
    grows = grows or _resized(1)
    return _Places([(stage, grows) for stage in second], _pooling(parts[: first - 1], pool))


def _nested(parts: Sequence[Layer], pool: Layer) -> tuple[Layer, ...]:
    """Put a nested U-Net's inner blocks behind the stages that they are made of, and what resizes pictures between.

    Each takes what its stage gave out so far, joined, and what the one below did, made larger (U-Net++).

    Returns:
        The parts of the model; nothing where these are no such blocks.
    """
    first = _wider(parts)
    inner = parts[first : first + first * (first - 1) // 2]
    if not _LEAST_STAGES <= first <= _MOST_STAGES or 2 * len(inner) != first * (first - 1):
        return ()
    widths = [_gives(part) for part in parts[:first]]
    rest = iter(inner)
    nested: dict[tuple[int, int], Layer] = {}
    for beside in range(1, first):
        for stage in range(first - beside):
            part = nested[stage, beside] = next(rest)
            if (_takes(part), _gives(part)) != (beside * widths[stage] + widths[stage + 1], widths[stage]):
                return ()
    made = [parts[0]]
    for stage in range(1, first):
        made += [*([] if stage == 1 else [_resized(1 - stage)]), pool, parts[stage]]
        for beside in range(1, stage + 1):
            made += [_resized(1), nested[stage - beside, beside]]
    return (*made, *parts[first + len(inner) :])


def _resized(steps: int) -> Layer:
    return Layer("Upsample", 0, None, (), (("scale_factor", str(2.0**steps)),), "up")


def _second_in_turn(parts: tuple[Layer, ...], first: Sequence[Layer], grows: Sequence[Layer]) -> tuple[Layer, ...]:
    """Put a second half, which makes pictures larger, in order of use.

    One that is a single part goes behind what gives as many channels as it takes. Of several, what makes pictures
    larger goes before the stage that joins them with what the first half gave out.

    Args:
        parts: of the model.
        first: the stages of its first half, and maybe the one behind it.
        grows: what makes pictures larger.
    """
    larger = [part for part in parts if any(_among(layer, grows) for layer in layers(part))]
    if len(larger) == 1:
        rest = [part for part in parts if part is not larger[0]]
        behind = next((at for at, part in enumerate(rest, 1) if _gives(part) == _takes(larger[0])), 0)
        return (*rest[:behind], larger[0], *rest[behind:]) if behind > parts.index(larger[0]) else parts
    used: list[Layer] = []
    width = max(map(_gives, parts))
    for beside in reversed(first[: len(grows)]):
        joined = _gives(beside)
        rest = [part for part in larger if not _among(part, used)]
        grown = next((part for part in rest if _takes(part) in (width, width + joined)), None)
        if grown is None:
            return parts
        width = _gives(grown)
        taken = (*larger, *first, *used)
        joins = [part for part in parts if not _among(part, taken) and _takes(part) == width + joined]
        used += [grown, *joins[:1]]
        width = _gives(used[-1])
    places = [at for at, part in enumerate(parts) if _among(part, used)]
    if [parts[at] for at in places] == used:
        return parts
    turns = dict(zip(places, used, strict=True))
    return tuple([turns.get(at, part) for at, part in enumerate(parts)])


def _takes(part: Layer) -> int:
    """Read how many channels the first convolution of a part takes; 0 where it has none."""
    return next((number(layer, "0") for layer in layers(part) if "Conv" in layer.type and layer.args), 0)


def _gives(part: Layer) -> int:
    """Read how many channels the last convolution of a part gives out; 0 where it has none."""
    return next((number(layer, "1") for layer in reversed(layers(part)) if "Conv" in layer.type and layer.args), 0)


def _shrinks(layer: Layer) -> bool:
    if "Pool" in layer.type:
        return "Adaptive" not in layer.type
    return "Conv" in layer.type and "Transpose" not in layer.type and _strides(layer)


def _strides(conv: Layer) -> bool:
    breathe()
    return (conv.said("stride") or "1").strip("() ").replace(",", "").replace("1", "").strip() != ""


def _wider(stages: Sequence[Layer]) -> int:
    """Count the first stages of which each takes what the one before gives, and gives more."""
    width = 0
    for count, stage in enumerate(stages):
        convs = [layer for layer in layers(stage) if layer.type in _CONVS]
        if not convs or (width and number(convs[0], "0") != width) or number(convs[-1], "1") <= width:
            return count
        width = number(convs[-1], "1")
    return len(stages)


def _last_area(conv: Layer, linear: Layer) -> int:
    area, rest = divmod(number(linear, "in_features"), max(number(conv, "1"), 1))
    return 0 if rest else area


def _places(count: int) -> Iterator[range]:
    """Yield behind which convolutions there may be pooling: all, the last ones, the first ones."""
    yield range(count)
    for few in range(1, count):
        yield range(count - few, count)
        yield range(few)


def _inserted(parts: Sequence[Layer], pool: Layer, places: range) -> Iterator[tuple[Layer, ...]]:
    """Yield what comes in the place of each layer: pooling goes behind some convolutions and what follows these."""
    seen = -1
    due = False
    for part in parts:
        if "Pool" in part.type:
            yield ()
            continue
        pooled = due and ("Conv" in part.type or "Linear" in part.type or "Dropout" in part.type)
        due &= not pooled
        if part.type in _CONVS:
            seen += 1
            due = seen in places
        yield (pool, part) if pooled else (part,)
