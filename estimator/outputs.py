"""What a layer gives out that says its sizes: convolutions, pooling, padding, upsampling, moved axes. Pure.

Shapes have no batch. Every function takes the shape that goes in and returns the one that comes out; what is printed
otherwise than PyTorch prints it is a KeyError or a ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from estimator import sizes

Shape = tuple[int, ...]
Args = Mapping[str, str]

GROWS: Final[tuple[str, ...]] = ("Upsampl", "Interpolat")
# All that may make pictures larger.
LARGER: Final[tuple[str, ...]] = (*GROWS, "ConvTranspose", "PixelShuffle", "MaxUnpool")
# Layers that make squares of pixels of channels, and the other way round.
SHUFFLES: Final[tuple[str, ...]] = ("PixelShuffle", "PixelUnshuffle")
_MOST_AXES: Final = 12
_DEEP: Final = 3
_PICTURE: Final = 3  # its axes


def convolved(type_: str, args: Args, shape: Shape) -> Shape:
    """Follow a convolution."""
    space = shape[1:]
    outputs = sizes.number(args, "1")
    kernel = _spread(args["kernel_size"] if "kernel_size" in args else args["2"], len(space))
    stride = _spread(args.get("stride", args.get("3", "1")), len(space))
    padding = args.get("padding", "0")
    if "Transpose" in type_:
        cut, more = _spread(padding, len(space)), _spread(args.get("output_padding", "0"), len(space))
        return (
            outputs,
            *(
                (size - 1) * s + k - 2 * p + m
                for size, k, s, p, m in zip(space, kernel, stride, cut, more, strict=True)
            ),
        )
    if padding.strip("'\"") == "same" or "Same" in type_:
        return (outputs, *(-(-size // max(step, 1)) for size, step in zip(space, stride, strict=True)))
    pad = (0,) * len(space) if padding.strip("'\"") == "valid" else _spread(padding, len(space))
    dilation = _spread(args.get("dilation", "1"), len(space))
    if (
        len(space) == _DEEP
        and not pad[0]
        and kernel[0] > 1
        and all(2 * p == k - 1 for p, k in zip(pad[1:], kernel[1:], strict=True))
    ):
        pad = ((kernel[0] - 1) // 2, *pad[1:])  # code pads what came before, in time alone
    return (
        outputs,
        *(
            (size + 2 * p - d * (k - 1) - 1) // max(s, 1) + 1
            for size, k, s, p, d in zip(space, kernel, stride, pad, dilation, strict=True)
        ),
    )


def resized(type_: str, args: Args, shape: Shape, *, first: bool = False) -> Shape:
    """Follow a layer that only changes a picture's places: pooling, padding, upsampling; all others change nothing.

    Args:
        type_: of the layer.
        args: what is printed of it.
        shape: of its input.
        first: whether channels are on the first axis in any case; else two equal sizes are a square's sides.
    """
    if type_.startswith("MaxUnpool"):
        return _unpooled(args, shape)
    if "Pool" in type_:
        return pooled(type_, args, shape, first=first)
    if type_ in SHUFFLES:
        return shuffled(type_, args, shape)
    if "Pad" in type_ and ("0" in args or "padding" in args):
        return _padded(args["0"] if "0" in args else args["padding"], shape)
    return _grown(args, shape if first else _turned(shape)) if type_.startswith(GROWS) else shape


def _padded(text: str, shape: Shape) -> Shape:
    """Add what a padding layer adds: the same at both ends of all axes, or two numbers an axis, the last axis first."""
    added = sizes.numbers(text)
    axes = len(shape) - 1
    pairs = (added[:1] * 2) * axes if len(added) == 1 else added
    space = list(shape[1:])
    for at in range(min(len(pairs) // 2, axes)):
        space[-1 - at] += pairs[2 * at] + pairs[2 * at + 1]
    return (shape[0], *space)


def _turned(shape: Shape) -> Shape:
    """Put the channels of a square picture first where they are last."""
    return (shape[2], *shape[:2]) if len(shape) == 3 and shape[0] == shape[1] != shape[2] else shape


def pooled(type_: str, args: Args, shape: Shape, *, first: bool = False) -> Shape:
    """Follow a pooling; one that undoes a pooling makes the picture as much larger. For arguments see `resized`."""
    shape = shape if first else _turned(shape)
    space = shape[1:]
    if not space:
        return shape
    if "Adaptive" in type_ or "output_size" in args:
        target = args.get("output_size", args.get("0", "1")).replace("None", "0")
        sides = _spread(target, len(space))
        return (shape[0], *(side or size for side, size in zip(sides, space, strict=True)))
    if "kernel_size" not in args and "0" not in args:
        if "Blur" in type_:
            return (shape[0], *(-(-size // 2) for size in space))
        return (shape[0],) if "Select" in type_ or "Global" in type_ else shape
    kernel = _spread(args["kernel_size"] if "kernel_size" in args else args["0"], len(space))
    stride = _spread(args["stride"], len(space)) if args.get("stride", "None") != "None" else kernel
    pad = _spread(args.get("padding", "0"), len(space))
    up = args.get("ceil_mode") == "True"
    return (
        shape[0],
        *(
            (size + 2 * p - k + (s - 1 if up else 0)) // max(s, 1) + 1
            for size, k, s, p in zip(space, kernel, stride, pad, strict=True)
        ),
    )


def gated(args: Args, shape: Shape) -> Shape:
    """Follow PyTorch's GLU, which multiplies one half of an axis by the other.

    Raises:
        KeyError: the print does not say which axis, as one of another's class.
        IndexError: there is no such axis.
        ValueError: it has no halves.
    """
    axis = sizes.number(args, "dim")
    at = axis - 1 if axis > 0 else len(shape) + axis
    half, rest = divmod(shape[at], 2)
    if rest or at < 0:
        raise ValueError("no halves")
    return (*shape[:at], half, *shape[at + 1 :])


def shuffled(type_: str, args: Args, shape: Shape) -> Shape:
    """Follow PixelShuffle(r), which makes a square of r x r pixels of as many channels, or what undoes it.

    Raises:
        ValueError: it has no such factor, or not as many channels or pixels.
    """
    factor = sizes.number(args, "upscale_factor", "downscale_factor")
    area = factor * factor
    if len(shape) != _PICTURE or factor < 1:
        raise ValueError("no picture")
    channels, rows, columns = shape
    if type_ == "PixelUnshuffle":
        return (channels * area, max(rows // factor, 1), max(columns // factor, 1))
    if channels % area:
        raise ValueError("not as many channels")
    return (channels // area, rows * factor, columns * factor)


def _unpooled(args: Args, shape: Shape) -> Shape:
    """Follow what undoes a pooling."""
    space = shape[1:]
    kernel, stride = _spread(args["kernel_size"], len(space)), _spread(args["stride"], len(space))
    pad = _spread(args.get("padding", "0"), len(space))
    return (
        shape[0],
        *((size - 1) * s + k - 2 * p for size, k, s, p in zip(space, kernel, stride, pad, strict=True)),
    )


def _grown(args: Args, shape: Shape) -> Shape:
    """Follow what makes pictures larger, or smaller by the factor that is said where it says so, or gives a size."""
    told = next((args[name] for name in ("size", "out_size") if args.get(name, "None") != "None"), "")
    if told:
        sides = _spread(told, len(shape) - 1)
        return (shape[0], *sides)
    if args.get("scale_factor", "None") == "None":
        return shape
    factors = [float(part) for part in args["scale_factor"].strip("()[] ").split(",") if part.strip()]
    if args.get("up") == "False":
        factors = [1 / factor for factor in factors]
    spread = factors if len(factors) == len(shape) - 1 else factors[:1] * (len(shape) - 1)
    return (shape[0], *(int(size * factor) for size, factor in zip(shape[1:], spread, strict=True)))


def unfolded(args: Args, shape: Shape) -> Shape:
    """Follow PyTorch's Unfold: a row for each place of the kernel, as wide as what lies under it."""
    kernel, stride = _spread(args["kernel_size"], 2), _spread(args.get("stride", "1"), 2)
    pad, dilation = _spread(args.get("padding", "0"), 2), _spread(args.get("dilation", "1"), 2)
    places = prod(
        (size + 2 * p - d * (k - 1) - 1) // max(s, 1) + 1
        for size, k, s, p, d in zip(shape[1:], kernel, stride, pad, dilation, strict=True)
    )
    return (shape[0] * prod(kernel), places)


def rearranged(args: Args, shape: Shape) -> Shape:
    """Follow the pattern of einops' layers, such as ``b c (h p1) (w p2) -> b (h w) (p1 p2 c)`` with ``p1=16, p2=16``.

    The first axis is the batch, which ``shape`` does not have. Axes that the pattern drops are reduced; windows that it
    puts beside the batch are an axis of their own here.

    Raises:
        ValueError: the pattern does not fit the shape.
    """
    before, arrow, after = args["0"].strip("'\" ").partition("->")
    taken, given = _axes(before), _axes(after)
    if not arrow or not taken or len(taken[0]) != 1:
        raise ValueError("a pattern of another kind")
    batch = taken[0][0]
    sides = {name: sizes.number(args, name) for axis in (*taken, *given) for name in axis if name in args}
    more = len(shape) - (len(taken) - 1)
    rest: Shape = ()
    at = 0
    for axis in taken[1:]:
        if axis == ["..."]:
            rest = shape[at : at + more + 1]
            at += more + 1
            continue
        size, unknown = shape[at], [name for name in axis if name not in sides]
        known = prod(sides[name] for name in axis if name in sides)
        if len(unknown) > 1 or known < 1 or size % known or (not unknown and size != known):
            raise ValueError("the pattern does not fit")
        sides.update(dict.fromkeys(unknown, size // known))
        at += 1
    if at != len(shape):
        raise ValueError("the pattern has another number of axes")
    sides[batch] = 1
    made: list[int] = []
    for axis in given:
        if axis == ["..."]:
            made += rest
        elif axis == [batch] or (batch in axis and prod(sides[name] for name in axis) == 1):
            continue
        else:
            made.append(prod(sides[name] for name in axis))
    return tuple(made)


def _axes(text: str) -> list[list[str]]:
    """Split one side of a pattern into axes, each the names that are joined in it; ``1`` and ``()`` have none."""
    axes: list[list[str]] = []
    joined: list[str] | None = None
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            joined = []
        elif word == ")":
            axes.append(joined or [])
            joined = None
        elif joined is not None:
            joined.append(word)
        else:
            axes.append([] if word == "1" else [word])
    if len(axes) > _MOST_AXES:
        raise ValueError("a pattern of too many axes")
    return axes


def _spread(text: str, count: int) -> tuple[int, ...]:
    values = sizes.numbers(text)
    return values if len(values) == count else values[:1] * count
