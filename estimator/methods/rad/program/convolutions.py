"""What a convolution takes, and its sizes, which decide about its workspace."""

from __future__ import annotations

from math import prod
from typing import Final

from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program.flow import BACK, Flow, Looked
from estimator.methods.rad.program.steps import DEEP, PICTURE, Conv, Op, Shape
from estimator.methods.rad.program.weights import (
    Solvable,
    asked_for,
    cannot_step,
    each_of,
    halved,
    kernel_of,
    may_be_along,
    printed_kernel,
    solvable,
    solve,
    solve_along,
    solve_each,
    stride_between,
    weight_counts,
)
from estimator.shapes.grown import picture_of
from estimator.walk import elements

_CONV: Final = Kind.CONV
_TWO: Final = 2
_NO_ARGS: Final[dict[str, str]] = {}
# Kernels of one place take one of so many.
_SKIPPED: Final = 16
# Kernels that take what code made of a vector, and by how much they make it larger along a side at most.
_OF_GENERATORS: Final[tuple[int, ...]] = (9, 16, 25, 4, 36, 49, 1)
_LARGER: Final = 8
# Of what one layer gives out, code makes a product of two halves, or queries, keys and values.
_PARTS: Final[tuple[int, ...]] = (2, 3)
# Areas of the usual kernel, and of those that hardly any convolution has which keeps the places of a picture.
_NINE: Final = 9
_UNLIKELY: Final = frozenset((16, 27, 36, 64))
# Steps among which a layer that is called again is looked for.
_LOOP: Final = 256
# Among which what the first half of a U-Net gave its second half is.
_FAR: Final = 512


def convolve(flow: Flow, layer: Layer, shape: Shape) -> None:
    """Add a convolution that gives out this shape."""
    type_, params, said, taken = layer.type, layer.params, layer.args, layer.input_shape
    if "2d" in type_ if len(shape) == DEEP else len(shape) == PICTURE and "1d" in type_:
        # Each head, or each of several pictures, stands beside the batch.
        before = flow.shapes[flow.current]
        fits = len(before) == len(shape) and before[0] == shape[0] and elements(before[2:]) >= elements(shape[2:])
        may_be = (params - shape[1], params)
        fits = fits and solve(may_be, before[1], shape[1])[0] > 0
        flow.emit(_CONV, flow.current if fits else flow.same(shape), shape, layer)
        return
    outputs, size_out = shape[0], prod(shape[1:])
    transposed = "Transpose" in type_
    least = 0 if transposed else size_out
    x, area, groups = flow.current, 0, 1
    if params and not said and taken is None:
        area, groups = _usual(flow, params, shape, least)
    if not area:
        args = dict(said) if said else _NO_ARGS
        weights = weight_counts(params, outputs, args)
        area, groups = printed_kernel(args) if args else (0, 1)
        again = None if params or taken else _called(flow, outputs, len(shape))
        if again is not None:  # a layer that is called again, whose parameters are said once
            area, groups = again.area, again.groups
            x = _with_channels(flow, again.channels_in, shape, least)
        elif len(flow.shapes[x]) == _TWO and not taken and _reads(flow, weights, shape):
            flow.emit(_CONV, x, shape, layer)  # words as a picture of one channel
            return
        else:
            x, area, groups = _conv_input(flow, taken, shape, least, weights, area, groups)
    inner = flow.shapes[x]
    if 0 < x == flow.normed and area > 1 and not transposed:
        flow.kept.add(x)
        x = flow.tensor(inner)
    behind = x == flow.current and area > 1 and not transposed and not taken
    if behind and ((flow.bare and cannot_step(inner, shape, area)) or (flow.pools and halved(inner, shape, area))):
        x = flow.pool((inner[0], inner[1] // 2, inner[2] // 2))
        inner = flow.shapes[x]
    half = taken is not None and _is_half(taken, inner)
    if taken and (half or len(inner) != len(shape)):  # flattened before, and a picture again
        inner = taken
    channels = inner[0] if inner else 1
    parts = channels * _TWO if half else channels
    size_in = flow.tensors[x] // parts if parts > 1 else flow.tensors[x]
    size_in = size_in if size_in > 0 else 1
    stride = 1 if size_in == size_out else stride_between(size_in, size_out, len(shape) - 1)
    conv = tuple.__new__(Conv, (channels, outputs, area, stride, groups, size_in, size_out, transposed, None))
    alone = groups > 1 and len(shape) == DEEP  # by kernels without a workspace, and not among the measured ones
    if flow.leaks and flow.ops:
        flow.kept.add(x)
        x = flow.tensor(flow.shapes[x])
    flow.emit(_CONV, x, shape, layer, None if alone else conv)
    flow.by_activation = False


def _usual(flow: Flow, params: int, shape: Shape, least: int) -> tuple[int, int]:
    """Find area and groups where a convolution takes what is at hand, as most do; (0, 1) where more is to be looked at.

    Args:
        flow: what has been read so far.
        params: the convolution's; nothing else is said of its kernel.
        shape: the output.
        least: elements of one channel that the input has at least.
    """
    before, axes = flow.shapes[flow.current], len(shape)
    if len(before) != axes or axes == DEEP or flow.tensors[flow.current] < least * before[0]:
        return 0, 1
    area, groups = kernel_of(params, shape[0], before[0])
    return (0, 1) if area in _UNLIKELY and before[1:] == shape[1:] else (area, groups)


def _called(flow: Flow, outputs: int, axes: int) -> Conv | None:
    """Find the last convolution that gave out so many channels; a layer that is called again is like it."""
    flow.far = True
    for op in reversed(flow.ops[-_LOOP:]):
        shape = flow.shapes[op.y]
        if op.conv is not None and len(shape) == axes and shape[0] == outputs:
            return op.conv
    return None


def _with_channels(flow: Flow, channels: int, shape: Shape, least: int) -> int:
    """Find the last tensor of so many channels; what is not there was made in code, of the size of the output."""
    recent: list[int] = [flow.current, *range(len(flow.shapes) - 1, max(len(flow.shapes) - BACK, 0) - 1, -1)]
    for index in recent:
        found = flow.shapes[index]
        if len(found) == len(shape) and found[0] == channels and prod(found[1:]) >= least:
            if index and index in flow.asked:
                break  # code joined it for the call before
            return index
    flow.asked.add(len(flow.shapes))
    return flow.tensor((channels, *shape[1:]))


def _reads(flow: Flow, weights: tuple[int, ...], shape: Shape) -> bool:
    """Tell whether a convolution's kernel is as wide as the features of words."""
    words = flow.shapes[flow.current]
    if len(shape) != PICTURE or shape[-1] != 1 or not words[-1]:
        return False
    return shape[1] > 1 and any(size > 0 and size % (shape[0] * words[-1]) == 0 for size in weights)


def _conv_input(
    flow: Flow, known: Shape | None, shape: Shape, least: int, weights: tuple[int, ...], area: int, groups: int
) -> tuple[int, int, int]:
    """Find a convolution's input tensor, the area of its kernel and its groups.

    Args:
        flow: what has been read so far.
        known: the input, where the summary shows it.
        shape: the output.
        least: elements of one channel that the input has at least.
        weights: how many weights there may be.
        area: the kernel's, where it is printed; 0 else.
        groups: of channels, where the area is printed.
    """
    if known is not None and len(known) == len(shape):
        x = flow.current if flow.tensors[flow.current] == elements(known) else _half_of(flow, known)
        if x < 0:
            x = flow.search(known)
            if x < 0 and len(known) == _TWO:
                x = flow.search((known[1], known[0]))  # the same, turned
            x = _halved(flow, x, shape[0]) if x >= 0 else x
        if x < 0 or flow.left(x):
            x = flow.join(known)
        if not area:
            area, groups = solve(weights, known[0], shape[0], axes=len(shape))
        if not area:
            area, groups = solvable(each_of(weights, shape[0])).grouped(known[0])
        return x, area or 1, groups
    if len(shape) == PICTURE and len(flow.shapes[flow.current]) == 1:
        made = _unflattened(flow, weights, shape, area, groups)
        if made is not None:
            return made
    if not area and shape[0] > 0 and weights[0] % shape[0]:  # they differ by multiples of the outputs
        return _asked(flow, weights, shape, area, groups)  # no kernel has so many: a search would be in vain
    return _searched(flow, shape, least, weights, area, groups)


def _is_half(known: Shape, picture: Shape) -> bool:
    """Tell whether a picture has twice as many channels as what is known, at the same places."""
    return len(known) == len(picture) == PICTURE and _TWO * known[0] == picture[0] and known[1:] == picture[1:]


def _half_of(flow: Flow, known: Shape) -> int:
    """Give what is at hand where a convolution takes one half of its channels, which nothing copies; -1 where not.

    What came into a block around it has not as many: that would be what it takes.
    """
    if not _is_half(known, flow.shapes[flow.current]):
        return -1
    for index in flow.blocks:
        if index and flow.shapes[index] == known:
            return -1
    return flow.current


def _unflattened(
    flow: Flow, weights: tuple[int, ...], shape: Shape, area: int, groups: int
) -> tuple[int, int, int] | None:
    """Find the same where code made a picture of the vector at hand, which is not smaller behind the convolution."""
    for kernel in (area,) if area else _OF_GENERATORS:
        for each in each_of(weights, shape[0]):
            channels, rest = divmod(each * groups, kernel)
            picture = () if rest else picture_of(flow.tensors[flow.current], channels)
            if picture and picture[1] <= shape[1] <= _LARGER * picture[1]:
                flow.shapes[flow.current] = picture
                return flow.current, kernel, groups
    return None


def _searched(
    flow: Flow, shape: Shape, least: int, weights: tuple[int, ...], area: int, groups: int
) -> tuple[int, int, int]:
    """Find the same among what is at hand and what came before."""
    outputs, axes, at = shape[0], len(shape), flow.current
    current = flow.shapes[at]
    fits = len(current) == axes and _places(flow, at) >= least
    part = _part(flow, weights, shape, area) if fits and axes == PICTURE else 0
    if part:
        return _of_parts(flow, part), 1, 1
    shown = area > 0 or axes == DEEP
    each_output = [] if area else each_of(weights, outputs)
    if fits:
        if shown:
            solved = solve(weights, current[0], outputs, area, groups, axes)
        else:
            solved = solve_each(each_output, current[0], outputs)
        if solved[0]:
            made = None
            if solved[0] in _UNLIKELY and not shown and current[1:] == shape[1:]:
                recent = _recent(flow)
                made = _whole(flow, each_output, shape, recent) or _joined(flow, solvable(each_output), shape, recent)
            return made if made is not None and made[1] > 1 else (at, solved[0], solved[1])
    if shown:
        for index in range(len(flow.shapes) - 1, max(len(flow.shapes) - BACK, 0) - 1, -1):
            before = flow.shapes[index]
            if len(before) == axes and _places(flow, index) >= least and not flow.left(index):
                solved = solve(weights, before[0], outputs, area, groups, axes)
                if solved[0]:
                    return _gated(flow, index, before, outputs), solved[0], solved[1]
        if area:
            return _asked(flow, weights, shape, area, groups)
    kernels = solvable(each_output)
    made = None if shown else _solved(flow, kernels, shape, least, fits)
    if made is not None:
        return made
    recent = _recent(flow)
    made = _joined(flow, kernels, shape, recent) or _along(flow, weights, shape, least, recent)
    return made or _turned(flow, weights, kernels, shape) or _asked(flow, weights, shape, area, groups)


def _part(flow: Flow, weights: tuple[int, ...], shape: Shape, area: int) -> int:
    """Tell of how many parts code makes what a kernel of one place takes: 2 of a gate, 3 of an attention; 0 for none.

    That is where kernels of each channel alone made twice or three times as many channels just now.
    """
    last = flow.ops[-1] if flow.ops else None
    if last is None or last.y != flow.current or last.conv is None or area > 1:
        return 0
    channels = last.conv.channels_out
    if last.conv.groups != channels or last.conv.channels_in != channels or flow.shapes[flow.current][1:] != shape[1:]:
        return 0
    for parts in _PARTS:
        if not channels % parts and any(each * parts == channels for each in each_of(weights, shape[0])):
            return parts
    return 0


def _of_parts(flow: Flow, parts: int) -> int:
    """Add what code makes of the parts of a picture: a product of two, or an attention over channels.

    A gate keeps its halves, and what a function makes of one; an attention normalises queries and keys.
    """
    whole = flow.current
    shape = flow.shapes[whole]
    channels = shape[0] // parts
    flow.kept.add(whole)
    flow.kept.add(flow.tensor((channels * (parts - 1), *shape[1:])))
    return flow.tensor((channels, *shape[1:]))


def _solved(flow: Flow, kernels: Solvable, shape: Shape, least: int, fits: bool) -> tuple[int, int, int] | None:
    """Find the same among the last tensors of so many axes: without groups, then with several.

    Args:
        flow: what has been read so far.
        kernels: what the weights may be of.
        shape: the output.
        least: elements of one channel that the input has at least.
        fits: whether what is at hand is of the kind.
    """
    axes, looked = len(shape), flow.looked.get(kernels)
    if looked is None or looked[0].axes != axes:
        looked = flow.looked[kernels] = Looked(axes), Looked(axes)
    joined, grouped = looked
    made = _last(flow, Looked(axes) if kernels.alone else joined, kernels, shape, least, False)
    if made is not None:
        return made
    if fits:
        area, groups = kernels.grouped(flow.shapes[flow.current][0])
        if area:
            return flow.current, area, groups
    return _last(flow, grouped, kernels, shape, least, True)


def _last(
    flow: Flow, looked: Looked, kernels: Solvable, shape: Shape, least: int, grouped: bool
) -> tuple[int, int, int] | None:
    """Find the last tensor that kernels take, with groups or without; whom they took before is not asked again."""
    shapes, outputs, axes = flow.shapes, shape[0], len(shape)
    first, newest = max(len(shapes) - BACK, 0), looked.last
    for index in range(len(shapes) - 1, max(looked.until, first) - 1, -1):
        before = shapes[index]
        if len(before) == axes and kernels.of(before[0], outputs, grouped)[0]:
            newest = index
            break
    looked.until, looked.last = len(shapes), newest
    for index in range(newest, first - 1, -1):
        before = shapes[index]
        if len(before) == axes:
            area, groups = kernels.of(before[0], outputs, grouped)
            if area and _places(flow, index) >= least and not flow.left(index):
                return _gated(flow, index, before, outputs), area, groups
    return None


def _places(flow: Flow, at: int) -> int:
    """Count the elements of one channel of a tensor."""
    shape = flow.shapes[at]
    return flow.tensors[at] // shape[0] if shape[0] else prod(shape[1:])


def _asked(flow: Flow, weights: tuple[int, ...], shape: Shape, area: int, groups: int) -> tuple[int, int, int]:
    """Give what a convolution takes where it is nothing seen: as many channels as it asks for, at the size before."""
    outputs, axes = shape[0], len(shape)
    last = flow.shapes[flow.current]
    asked, area = asked_for(weights, outputs, area, groups, axes)
    channels = min(asked, 4 * max(last[0] if last else 1, outputs))
    near = len(last) == axes and prod(shape[1:]) <= prod(last[1:]) <= _most(shape, area)
    space = last[1:] if near else shape[1:]
    flow.asked.add(len(flow.shapes))
    return flow.tensor((channels, *space)), area, groups


def _most(shape: Shape, area: int) -> int:
    """Count the places that a convolution's input has at most: kernels of several places skip none of them."""
    return max(area, _SKIPPED) * prod([size + 1 for size in shape[1:]])


def _along(
    flow: Flow, weights: tuple[int, ...], shape: Shape, least: int, recent: list[int]
) -> tuple[int, int, int] | None:
    """Find what a convolution takes whose kernel looks along one axis: its tensor, area and groups."""
    each_output = each_of(weights[:2], shape[0])  # who gives weights a gain uses usual kernels
    for index in recent:
        before = flow.shapes[index]
        fits = len(before) == len(shape) and may_be_along(each_output, before[0], shape[0])
        if fits and _places(flow, index) >= least:
            area, groups = solve_along(each_output, before, shape)
            if area:
                flow.far |= index < len(flow.shapes) - BACK
                return index, area, groups
    return None


def _turned(flow: Flow, weights: tuple[int, ...], kernels: Solvable, shape: Shape) -> tuple[int, int, int] | None:
    """Give what a convolution takes where code turned what is at hand, whose channels are last, or are the only one."""
    before = flow.shapes[flow.current]
    if len(before) == len(shape):
        for channels, area in kernels.asked(len(shape)):
            if channels == before[-1] > 1 and prod(before[:-1]) >= prod(shape[1:]):
                return flow.tensor((channels, *before[:-1])), area, 1
    if len(before) == len(shape) - 1 and before == shape[1:]:
        area, groups = solve_along(each_of(weights[:2], shape[0]), (1, *before), shape)
        if area:
            return flow.current, area, groups
    return None


def _joined(flow: Flow, kernels: Solvable, shape: Shape, recent: list[int]) -> tuple[int, int, int] | None:
    """Give what a convolution takes whose weights ask for what is at hand and a tensor of the same places beside.

    A series at hand may have fewer places than comes out: code made it larger then.
    """
    before, axes = flow.shapes[flow.current], len(shape)
    if len(before) != axes:
        return None
    if _places(flow, flow.current) < prod(shape[1:]):
        return _grown(flow, kernels, shape) if axes == _TWO else None
    asked = kernels.asked(axes)
    wanted = {channels - before[0] for channels, _ in asked}
    beside: set[int] = set()
    for index in recent:
        other = flow.shapes[index]
        if len(other) == axes and other[0] in wanted and other[1:] == before[1:]:
            beside.add(other[0])
    for channels, area in asked if beside else ():
        if channels - before[0] in beside:
            return flow.join((channels, *before[1:])), area, 1
    return None


def _grown(flow: Flow, kernels: Solvable, shape: Shape) -> tuple[int, int, int] | None:
    """Give the same where code made what is at hand as large as what comes out, beside a tensor from far before."""
    before = flow.shapes[flow.current]
    if any(size >= larger or larger % size for size, larger in zip(before[1:], shape[1:], strict=True)):
        return None
    flow.far = True
    asked = kernels.asked(len(shape))
    wanted = {(channels - before[0], *shape[1:]): (channels, area) for channels, area in reversed(asked)}
    for index in range(len(flow.shapes) - 1, max(len(flow.shapes) - _FAR, 0) - 1, -1):
        found = wanted.get(flow.shapes[index])
        if found is not None:
            return flow.join((found[0], *shape[1:])), found[1], 1
    return None


def _whole(flow: Flow, each_output: list[int], shape: Shape, recent: list[int]) -> tuple[int, int, int] | None:
    """Give what a kernel of three by three takes that keeps places, where a tensor has all the channels it asks for."""
    wanted = [(each // _NINE, *shape[1:]) for each in each_output if not each % _NINE]
    for index in recent:
        if flow.shapes[index] in wanted and not flow.left(index):
            flow.far |= index < len(flow.shapes) - BACK
            return index, _NINE, 1
    return None


def _recent(flow: Flow) -> list[int]:
    """List the tensors that a layer may take: what is at hand, those before, what came into open blocks, the input."""
    last = len(flow.shapes) - 1
    blocks = [index for index in reversed(flow.blocks) if index]
    return [flow.current, *range(last, max(last + 1 - BACK, 0) - 1, -1), *blocks, 0]


def _gated(flow: Flow, at: int, candidate: Shape, outputs: int) -> int:
    """Give a convolution's input; behind a gate of one pixel a channel it is the product with what was gated."""
    if at == flow.current:
        return at
    before = flow.shapes[flow.current]
    small = flow.tensors[flow.current] * 4 <= flow.tensors[at]
    if not small or len(before) != len(candidate) or before[0] != candidate[0]:
        return _halved(flow, at, outputs)
    flow.kept.add(at)
    return flow.tensor(candidate)


def _halved(flow: Flow, at: int, outputs: int) -> int:
    """Give a convolution's input where the last one made twice the channels of that: code multiplies their halves.

    A way around a block gives out as many channels as are at hand, to which it is added.
    """
    before = flow.shapes[flow.current]
    if not flow.ops or flow.ops[-1].y != flow.current or flow.ops[-1].x != at or outputs == before[0]:
        return at
    if not doubles(flow.ops[-1]):
        return at
    flow.kept.add(flow.current)
    return flow.tensor((before[0] // _TWO, *before[1:]))


def doubles(op: Op) -> bool:
    """Tell whether a step is a convolution that gives out twice the channels that it takes."""
    return op.conv is not None and not op.conv.transposed and op.conv.channels_out == _TWO * op.conv.channels_in
