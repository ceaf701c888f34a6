"""Measure the workspaces of random convolutions on this machine's GPU: the data that `fit_workspaces` is fitted to.

Needs torch and a CUDA GPU. Run as ``python -m estimator.methods.rad.measure_workspaces OUT.csv.xz SECONDS SEED``;
several seeds may run at once. ``small`` behind that draws the sides of what is left of small pictures in a network's
last layers, ``other`` what is no square kernel on a square picture whose channels lie apart, ``films`` of that only
films and volumes, ``any`` pictures of any side in batches of any size, ``first`` what reads pictures of few channels,
``series`` series of any length in batches of any size, ``models`` what the data set's models convolve, those that judge
left out, and half of it in other sizes. ``join`` instead of seconds, and files behind it, puts what several runs
measured into one file. Writes the file that it is given.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

from estimator.dataset.convolutions import Seen, convolutions_of
from estimator.dataset.store import Dataset, committed
from estimator.methods.rad.convolutions import outputs
from estimator.methods.rad.measured_convolutions import Measured, read, write
from estimator.methods.rad.measuring import measure_for
from estimator.methods.rad.program import Extents
from estimator.types import Precision

SIDES = (7, 8, 10, 12, 14, 16, 19, 24, 28, 32, 35, 48, 56, 64, 73, 80, 96, 112, 128, 149, 160, 192, 224, 299)
SMALL_SIDES = (1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8)
CHANNELS = (8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 112, 120, 128, 160, 192, 224, 240, 256, 320, 384, 480, 512, 576)
DEEP = (672, 768, 960, 1024, 1152, 1280, 1536, 2048)
LENGTHS = (
    4,
    8,
    12,
    16,
    24,
    32,
    50,
    64,
    96,
    100,
    128,
    200,
    256,
    300,
    400,
    512,
    750,
    1000,
    1500,
    2048,
    4000,
    8000,
    16000,
)
STRIDES = (1, 1, 1, 2)
FEW = (1, 1, 2, 3, 4)
PADDED, LAST, FIRST_LAST = 0.75, 0.3, 0.1  # shares of the others
VARIED = 0.5  # a share of the models' own
SQUARE = 0.75
SELDOM = (1, 2, 3, 4, 6, 8, 10, 12, 18, 20, 24, 30, 36, 40, 72, 80, 96, 100, 144, 160, 192, 320, 384)
NARROW = (*SELDOM, 16, 16, 32, 32, 32, 48, 48, 64, 64, 64, 128, 128, 256, 256, 512, 512)
PICTURES = 64  # of a sample, at most
WIDER = (0.25, 0.5, 0.5, 0.75, 0.8, 1.0, 1.25, 1.5, 2.0, 2.0, 3.0)
BATCHES = (1, 2, 4, 8, 16, 16, 32, 32, 64, 64, 96, 128, 128, 200, 256, 512)
_MOST_BYTES = 3e9
_MOST_WORK = 3e12
_MOST_WEIGHTS = 1.5e8

_Sort = Callable[[random.Random], tuple[int, Extents]]


class Drawn(NamedTuple):
    """A convolution to measure, as `Measured` describes it."""

    batch: int
    inputs: int
    outputs: int
    stride: int
    groups: int
    extents: Extents


def draw(rng: random.Random, sides: Sequence[int] = SIDES) -> Drawn | None:
    """Draw a convolution of square pictures; None where it would take too much.

    Args:
        rng: where the draw comes from.
        sides: sides of pictures; where the kernel is larger than such a side, its padding still covers it.
    """
    kernel = rng.choice((1, 1, 3, 3, 3, 3, 5, 7, 11))
    stride = rng.choice((1, 1, 1, 2)) if kernel < 7 else rng.choice((1, 2, 4))
    side = rng.choice(sides)
    if sides is SMALL_SIDES and kernel >= 7 and rng.random() < 0.7:
        return None  # nearly all of the kernel lies in the padding, as in few networks
    if (side < kernel and sides is SIDES) or (kernel == 1 and side > 149):
        return None
    inputs, outputs = rng.choice(CHANNELS + DEEP), rng.choice(CHANNELS + DEEP)
    groups, luck = 1, rng.random()
    if side >= 112 and rng.random() < 0.3:
        inputs = rng.choice((1, 3, 3))
    elif luck < 0.15 and kernel < 11:
        outputs = groups = inputs
    elif luck < 0.22:
        groups = rng.choice((2, 4, 8, 16, 32))
    extents = Extents((1, kernel, kernel), (1, side, side), 1, padded=True, last=False)
    return _possible(Drawn(rng.choice(BATCHES), inputs, outputs, stride, groups, extents))


def draw_other(rng: random.Random, only: _Sort | None = None) -> Drawn | None:
    """Draw what is no square kernel on a square picture whose channels lie apart; None where it would take too much."""
    sort = only or rng.choices(_SORTS, (10, 22, 18, 15, 10, 7, 7, 11))[0]
    stride, extents = sort(rng)
    inputs, channels = rng.choice(CHANNELS + DEEP), rng.choice(CHANNELS + DEEP)
    groups, luck = 1, rng.random()
    if luck < 0.12 or sort is _rows:
        inputs = rng.choice(FEW)
    elif luck < 0.16:
        channels = rng.choice(FEW)
    elif luck < 0.3:
        groups = inputs
        channels = inputs * rng.choice((1, 1, 1, 2, 4))
    elif luck < 0.45:
        groups = rng.choice((2, 4, 8, 16, 32))
    return _possible(Drawn(rng.choice(BATCHES), inputs, channels, stride, groups, extents))


def _together(rng: random.Random) -> tuple[int, Extents]:
    """Square ones whose channels lie together."""
    kernel, side = rng.choice((1, 3, 3, 5, 7)), rng.choice(SIDES)
    return rng.choice(STRIDES), Extents((1, kernel, kernel), (1, side, side), 1, padded=True, last=True)


def _series(rng: random.Random) -> tuple[int, Extents]:
    width = rng.choice((1, 3, 3, 3, 4, 5, 5, 7, 8, 9, 10, 11, 15, 16, 25, 31, 41, 64))
    stride = rng.choice((1, 1, 1, 1, 2, 2, 4, 5, 8)) if width > 1 else 1
    dilation = 2 ** rng.randrange(1, 9) if stride == 1 < width and rng.random() < 0.3 else 1
    sides = (1, 1, rng.choice(LENGTHS))
    return stride, Extents((1, 1, width), sides, dilation, padded=rng.random() < PADDED, last=False)


def _kernels(rng: random.Random) -> tuple[int, Extents]:
    """Kernels of unlike sides."""
    few, many = rng.choice((1, 1, 1, 2, 3, 5)), rng.choice((2, 3, 5, 7, 9, 11, 16, 31, 64))
    kernel = (1, few, many) if rng.random() < 0.5 else (1, many, few)
    sides = (1, rng.choice((2, 4, 8, 16, 22, 32, 40, 64, 80, 128, 256)), rng.choice(LENGTHS[:-6]))
    return rng.choice(STRIDES), Extents(kernel, sides, 1, padded=rng.random() < PADDED, last=rng.random() < LAST)


def _rows(rng: random.Random) -> tuple[int, Extents]:
    """Words, and other rows that a kernel takes as a whole."""
    width = rng.choice((16, 32, 50, 64, 100, 128, 200, 256, 300, 321, 512, 768))
    kernel, sides = (1, rng.choice((1, 2, 3, 3, 4, 5, 6, 7)), width), (1, rng.choice(LENGTHS[:-4]), width)
    return rng.choice(STRIDES), Extents(kernel, sides, 1, padded=False, last=rng.random() < LAST)


def _unlike(rng: random.Random) -> tuple[int, Extents]:
    """Square kernels on pictures of unlike sides."""
    kernel = rng.choice((1, 2, 3, 3, 3, 3, 5, 7))
    sides = (1, rng.choice((4, 8, 13, 16, 20, 32, 40, 64, 80, 128, 256)), rng.choice(LENGTHS[:-6]))
    padded, last = rng.random() < PADDED, rng.random() < LAST
    return rng.choice(STRIDES), Extents((1, kernel, kernel), sides, 1, padded, last)


def _dilated(rng: random.Random) -> tuple[int, Extents]:
    kernel, side = rng.choice((3, 3, 5, 7)), rng.choice(SIDES[:20])
    dilation = rng.choice((2, 2, 3, 4, 4, 6, 8, 12, 16))
    padded, last = rng.random() < PADDED, rng.random() < LAST
    return 1, Extents((1, kernel, kernel), (1, side, side), dilation, padded, last)


def _patches(rng: random.Random) -> tuple[int, Extents]:
    """Patches, and other kernels of an even side."""
    kernel = rng.choice((2, 2, 4, 4, 7, 8, 14, 16, 16, 32))
    side = rng.choice((8, 14, 16, 28, 32, 56, 64, 112, 128, 224, 256, 384, 512))
    stride = rng.choice((kernel, kernel, kernel, max(kernel // 2, 1), 1 if kernel < 5 else kernel))
    return stride, Extents((1, kernel, kernel), (1, side, side), 1, padded=False, last=rng.random() < LAST)


def _films(rng: random.Random) -> tuple[int, Extents]:
    """Films and volumes."""
    more = ((1, 1, 1), (1, 3, 3), (3, 1, 1), (5, 5, 5), (1, 7, 7), (3, 7, 7), (2, 2, 2))
    kernel = rng.choice(((3, 3, 3),) * 4 + more)
    side = rng.choice((1, 2, 4, 6, 7, 8, 12, 14, 16, 24, 28, 32, 48, 56, 64, 96, 112, 128, 160))
    sides = (rng.choice((1, 2, 4, 8, 8, 16, 16, 32, side, side, side)), side, side)
    padded, last = rng.random() < PADDED, rng.random() < LAST and max(sides[:2]) > 1
    return 2 if kernel == (2, 2, 2) else rng.choice(STRIDES), Extents(kernel, sides, 1, padded, last)


_SORTS = (_together, _series, _kernels, _rows, _unlike, _dilated, _patches, _films)


def draw_any(rng: random.Random) -> Drawn | None:
    """Draw pictures of any side and batches of any size, as of agents' frames; None where it would take too much."""
    kernel, side = rng.choice((1, 3, 3, 3, 3, 3, 4, 5, 7)), round(2 ** rng.uniform(2, 8.3))
    other = side if rng.random() < SQUARE else round(2 ** rng.uniform(2, 8.3))
    inputs, channels = rng.choice(NARROW), rng.choice(NARROW)
    groups = 1
    if rng.random() < 0.1:
        channels = groups = inputs
    stride, padded = rng.choice((1, 1, 1, 1, 2)), rng.random() < 0.9
    extents = Extents((1, kernel, kernel), (1, side, other), 1, padded, last=rng.random() < 0.1)
    return _possible(Drawn(round(2 ** rng.uniform(0, 11)), inputs, channels, stride, groups, extents))


def draw_series(rng: random.Random) -> Drawn | None:
    """Draw series of any length and batches of any size, as of sounds and of words' letters; None where it is much."""
    width = rng.choice(
        (1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 7, 7, 8, 9, 10, 11, 15, 16, 25, 31, 32, 41, 64, 80, 128, 251, 401)
    )
    length = round(2 ** rng.uniform(2, 17))
    inputs, channels, groups = rng.choice(NARROW), rng.choice(NARROW), 1
    luck = rng.random()
    if luck < 0.15:
        inputs = rng.choice(FEW)
    elif luck < 0.3:
        channels = groups = inputs
    stride = rng.choice((1, 1, 1, 1, 2, 4, max(width // 2, 1)))
    dilation = 2 ** rng.randrange(1, 9) if stride == 1 < width and rng.random() < 0.2 else 1
    extents = Extents((1, 1, width), (1, 1, length), dilation, padded=rng.random() < PADDED, last=False)
    return _possible(Drawn(round(2 ** rng.uniform(0, 16)), inputs, channels, stride, groups, extents))


def draw_first(rng: random.Random) -> Drawn | None:
    """Draw first layers, which read pictures of few channels, with kernels of any side; None where it is much."""
    kernel, stride = rng.choice((3, 3, 4, 5, 5, 5, 7, 7, 7, 9, 11)), rng.choice((1, 1, 1, 1, 1, 2))
    side = rng.choice(
        (28, 32, 32, 48, 64, 64, 84, 96, 128, 128, 160, 192, 224, 224, 256, round(2 ** rng.uniform(4, 9)))
    )
    channels = rng.choice((4, 6, 8, 12, 16, 16, 20, 24, 32, 32, 32, 48, 64, 64, 64, 96, 128, 192, 256))
    extents = Extents((1, kernel, kernel), (1, side, side), 1, rng.random() < PADDED, last=rng.random() < FIRST_LAST)
    return _possible(
        Drawn(round(2 ** rng.uniform(0, 10)), rng.choice((1, 1, 2, 3, 3, 3, 3, 4, 6)), channels, stride, 1, extents)
    )


def draw_near(rng: random.Random, seen: Sequence[Seen]) -> Drawn | None:
    """Draw one of these convolutions, or one of other sizes; None where it would take too much."""
    each, inputs, channels, stride, groups, extents = rng.choice(seen)
    extents = extents._replace(last=rng.random() < LAST and max(extents.sides[:2]) > 1)
    if rng.random() < VARIED:
        wider, larger = rng.choice(WIDER), rng.choice(WIDER)
        if groups == 1:
            inputs, channels = (max(round(size * wider), 1) if size > max(FEW) else size for size in (inputs, channels))
        depth, height, width = (max(round(side * larger), 1) if side > 1 else 1 for side in extents.sides)
        extents = extents._replace(sides=(depth, height, width))
    return _possible(
        Drawn(max(rng.choice(BATCHES) * min(each, PICTURES), 1), inputs, channels, stride, groups, extents)
    )


def _possible(drawn: Drawn) -> Drawn | None:
    """Give back what can be measured in reasonable memory and time."""
    batch, inputs, channels, _, groups, extents = drawn
    beside = (
        extents.dilation * (kernel - 1) > 2 * side for kernel, side in zip(extents.kernel, extents.sides, strict=True)
    )
    if min(outputs(extents, drawn.stride)) < 1 or (extents.dilation > 1 and any(beside)):
        return None
    out = prod(outputs(extents, drawn.stride))
    weights = inputs * channels // groups * prod(extents.kernel)
    largest = 4 * batch * max(inputs * prod(extents.sides), channels * out)
    if inputs % groups or channels % groups or largest > _MOST_BYTES or weights > _MOST_WEIGHTS:
        return None
    return None if batch * out * weights > _MOST_WORK else drawn


def measure(drawn: Drawn, precision: Precision) -> tuple[int, int, int] | None:
    """Measure the workspaces of the forward pass and of both gradients, in bytes; None where it cannot run."""
    import torch  # noqa: PLC0415 - the rest of the module needs no torch

    batch, inputs, channels, stride, groups, (kernel, sides, dilation, padded, last) = drawn
    kind = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
    axes = next((3 - at for at in range(2) if max(kernel[at], sides[at]) > 1), 1)
    kernel_, sides_ = kernel[-axes:], sides[-axes:]
    steps = [stride if side > 1 else 1 for side in sides_]
    pads = [dilation * (extent - 1) // 2 if padded else 0 for extent in kernel_]

    def workspace(run: Callable[[], Any]) -> tuple[Any, int]:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = run()
        return result, torch.cuda.max_memory_allocated() - max(before, torch.cuda.memory_allocated())

    try:
        x = torch.empty(batch, inputs, *sides_, device="cuda", dtype=kind).normal_()
        if last:
            x = x.contiguous(memory_format=torch.channels_last if axes == 2 else torch.channels_last_3d)
        weight = torch.empty(channels, inputs // groups, *kernel_, device="cuda", dtype=kind).normal_()
        sizes = (steps, pads, [dilation] * axes, False, [0] * axes, groups)
        y, forward = workspace(lambda: torch.ops.aten.convolution(x, weight, None, *sizes))
        gradient = torch.empty_like(y).normal_()

        def backward(mask: list[bool]) -> Any:
            return torch.ops.aten.convolution_backward(gradient, x, weight, None, *sizes, mask)

        _, into = workspace(lambda: backward([True, False, False]))
        _, weights = workspace(lambda: backward([False, True, False]))
    except RuntimeError:  # out of memory, or cuDNN has no kernel for it
        return None
    return forward, into, weights


@cache
def _seen() -> list[Seen]:
    return seen_of(committed())


def seen_of(dataset: Dataset) -> list[Seen]:
    """List the convolutions of a data set's models, without those that judge."""
    specs = {row.spec.model_id: row.spec for row in dataset.rows if row.split == "train"}
    return convolutions_of(dataset.trace(spec) for spec in specs.values() if spec.source != "synthetic")


def main(path: Path, seconds: float, seed: int, draws: Callable[[random.Random], Drawn | None]) -> None:
    """Measure for a while and write what was found."""
    rng = random.Random(seed)  # noqa: S311 - a seeded draw of sizes, no secret

    def once() -> list[Measured]:
        drawn = draws(rng)
        if drawn is None:
            return []
        batch, inputs, channels, stride, groups, (kernel, sides, dilation, padded, last) = drawn
        measured = []
        for precision in cast("set[Precision]", {"fp32", rng.choice(("fp16", "bf16"))}):
            found = measure(drawn, precision)
            if found is not None:
                shape = (groups, *kernel, stride, dilation, int(padded), int(last), precision, *sides)
                measured.append(Measured(*shape, inputs, channels, batch, *found))
        return measured

    measure_for(seconds, once, partial(write, path))


if __name__ == "__main__":
    out, order, *others = sys.argv[1:]
    if order == "join":
        write(Path(out), {item for name in others for item in read(Path(name))})
    else:
        kinds: dict[str, Callable[[random.Random], Drawn | None]] = {
            "": draw,
            "small": partial(draw, sides=SMALL_SIDES),
            "other": draw_other,
            "any": draw_any,
            "first": draw_first,
            "films": partial(draw_other, only=_films),
            "series": draw_series,
            "models": lambda rng: draw_near(rng, _seen()),
        }
        main(Path(out), float(order), int(others[0]), kinds["".join(others[1:])])
