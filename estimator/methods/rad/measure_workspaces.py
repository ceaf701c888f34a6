"""Measure the workspaces of random convolutions on this machine's GPU: the data that `fit_workspaces` is fitted to.

Needs torch and a CUDA GPU. Run as ``python -m estimator.methods.rad.measure_workspaces OUT.csv.xz SECONDS SEED``;
several seeds may run at once. ``small`` behind that draws the sides of what is left of small pictures in a network's
last layers. ``join`` instead of seconds, and files behind it, puts what several runs measured into one file. Writes the
file that it is given.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from estimator.methods.rad.measured_convolutions import Measured, read, write
from estimator.types import Precision

SIDES = (7, 8, 10, 12, 14, 16, 19, 24, 28, 32, 35, 48, 56, 64, 73, 80, 96, 112, 128, 149, 160, 192, 224, 299)
SMALL_SIDES = (1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8)
CHANNELS = (8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 112, 120, 128, 160, 192, 224, 240, 256, 320, 384, 480, 512, 576)
DEEP = (672, 768, 960, 1024, 1152, 1280, 1536, 2048)
BATCHES = (1, 2, 4, 8, 16, 16, 32, 32, 64, 64, 96, 128, 128, 200, 256, 512)
_MOST_BYTES = 3e9
_MOST_WORK = 3e12
_MOST_WEIGHTS = 1.5e8


def draw(rng: random.Random, sides: Sequence[int] = SIDES) -> tuple[int, int, int, int, int, int, int] | None:
    """Draw batch, channels in and out, kernel, stride, groups and side; None where they would take too much.

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
    batch = rng.choice(BATCHES)
    out = (side + 2 * (kernel // 2) - kernel) // stride + 1
    weights = inputs * outputs // groups * kernel * kernel
    largest = 4 * batch * max(inputs * side * side, outputs * out * out)
    if inputs % groups or outputs % groups or largest > _MOST_BYTES or weights > _MOST_WEIGHTS:
        return None
    if batch * out * out * weights > _MOST_WORK:
        return None
    return batch, inputs, outputs, kernel, stride, groups, side


def measure(drawn: tuple[int, int, int, int, int, int, int], precision: Precision) -> tuple[int, int, int] | None:
    """Measure the workspaces of the forward pass and of both gradients, in bytes; None where it cannot run."""
    import torch  # noqa: PLC0415 - the rest of the module needs no torch

    batch, inputs, outputs, kernel, stride, groups, side = drawn
    kind = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]

    def workspace(run: Callable[[], Any]) -> tuple[Any, int]:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = run()
        return result, torch.cuda.max_memory_allocated() - max(before, torch.cuda.memory_allocated())

    try:
        x = torch.empty(batch, inputs, side, side, device="cuda", dtype=kind).normal_()
        weight = torch.empty(outputs, inputs // groups, kernel, kernel, device="cuda", dtype=kind).normal_()
        pad = kernel // 2
        y, forward = workspace(lambda: torch.nn.functional.conv2d(x, weight, None, stride, pad, 1, groups))
        gradient = torch.empty_like(y).normal_()

        def backward(mask: list[bool]) -> Any:
            return torch.ops.aten.convolution_backward(
                gradient, x, weight, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], groups, mask
            )

        _, into = workspace(lambda: backward([True, False, False]))
        _, weights = workspace(lambda: backward([False, True, False]))
    except torch.OutOfMemoryError:
        return None
    return forward, into, weights


def main(path: Path, seconds: float, seed: int, sides: Sequence[int] = SIDES) -> None:
    """Measure for a while and write what was found."""
    rng = random.Random(seed)  # noqa: S311 - a seeded draw of sizes, no secret
    measured = []
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        drawn = draw(rng, sides)
        if drawn is None:
            continue
        batch, inputs, outputs, kernel, stride, groups, side = drawn
        for precision in cast("set[Precision]", {"fp32", rng.choice(("fp16", "bf16"))}):
            found = measure(drawn, precision)
            if found is not None:
                measured.append(Measured(groups, kernel, stride, precision, side, inputs, outputs, batch, *found))
    write(path, measured)


if __name__ == "__main__":
    out, order, *others = sys.argv[1:]
    if order == "join":
        write(Path(out), {item for name in others for item in read(Path(name))})
    else:
        main(Path(out), float(order), int(others[0]), SMALL_SIDES if others[1:] == ["small"] else SIDES)
