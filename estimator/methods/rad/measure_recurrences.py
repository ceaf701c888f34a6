"""Measure what random recurrent layers work with on this machine's GPU: the rules of `recurrences` were found in it.

Needs torch and a CUDA GPU. Run as ``python -m estimator.methods.rad.measure_recurrences OUT.csv.xz SECONDS SEED``;
several seeds may run at once. ``join`` instead of seconds, and files behind it, puts what several runs measured into
one file. Writes the file that it is given.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from estimator.methods.rad.measured_recurrences import Measured, read, write
from estimator.methods.rad.measuring import measure_for
from estimator.methods.rad.recurrences import GATES, Recurrence
from estimator.types import Precision

BATCHES: Final = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 200, 256, 384, 512, 1000, 1024, 2048, 4096, 16384)
STEPS: Final = (1, 4, 8, 10, 16, 20, 24, 32, 48, 50, 64, 75, 96, 100, 128, 168, 200, 220, 256, 300, 400, 500, 750, 1000)
INPUTS: Final = (1, 2, 4, 7, 8, 12, 16, 24, 32, 40, 48, 64, 80, 96, 100, 128, 160, 200, 256, 300, 384, 512, 640, 768)
MORE_INPUTS: Final = (1024, 1280, 2048)
WIDTHS: Final = (8, 16, 20, 24, 32, 48, 50, 64, 80, 96, 100, 128, 150, 160, 192, 200, 256, 300, 320, 384, 400, 512)
MORE_WIDTHS: Final = (600, 640, 650, 768, 800, 1024, 1500, 2048)
LAYERS: Final = (1, 1, 1, 2, 2, 2, 3, 4)
_MOST_NUMBERS: Final = 3e8
_MOST_STATES: Final = 1.5e9
_BLOCK: Final = 512
_WARM: Final = 4  # what comes first loads libraries


def draw(rng: random.Random) -> Recurrence | None:
    """Draw layers that train; None where they would take too much."""
    one = Recurrence(
        rng.choice(tuple(GATES)),
        rng.choice(LAYERS),
        rng.choice((1, 2)),
        rng.choice(BATCHES),
        rng.choice(STEPS),
        rng.choice(INPUTS + MORE_INPUTS),
        rng.choice(WIDTHS + MORE_WIDTHS),
        rng.choice(("fp32", "fp16", "bf16")),
        rng.random() < 0.7,
        False,
        True,
    )
    one = one._replace(drops=one.layers > 1 and rng.random() < 0.4)
    numbers = one.batch * one.steps * max(one.inputs, one.directions * one.width)
    states = numbers * one.layers * (GATES[one.type] + 3)
    return one if numbers <= _MOST_NUMBERS and states <= _MOST_STATES else None


def measure(one: Recurrence) -> list[Measured]:
    """Measure an inference and a training step; none where they cannot run."""
    import torch  # noqa: PLC0415 - the rest of the module needs no torch

    precisions: dict[Precision, Any] = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    kind = precisions[one.precision]
    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[one.type]
    found = []
    try:
        network = layer(
            one.inputs,
            one.width,
            one.layers,
            batch_first=one.first,
            dropout=0.2 if one.drops else 0.0,
            bidirectional=one.directions > 1,
        ).to("cuda", kind)
        axes = (one.batch, one.steps) if one.first else (one.steps, one.batch)
        x = torch.zeros(*axes, one.inputs, device="cuda", dtype=kind)
        apart = whole(one.weights) if one.precision == "bf16" else 0  # weights copied into one piece
        copied = whole(one.read) if one.first and min(one.batch, one.steps) > 1 else 0
        for trains in (False, True):
            network.train(trains)
            torch.cuda.reset_peak_memory_stats()
            with torch.set_grad_enabled(trains):
                out = network(x)
            stays = torch.cuda.memory_allocated()
            beside = copied + (0 if trains else apart)  # the pieces stay for the backward pass
            run = one._replace(trains=trains, drops=one.drops and trains)
            found.append(Measured(run, torch.cuda.max_memory_allocated() - stays - beside))
            del out
    except RuntimeError:  # out of memory, or cuDNN has no kernel for it
        return []
    return [item for item in found if item.bytes > 0]


def whole(size: int) -> int:
    """Round to the allocator's blocks."""
    return -(-size // _BLOCK) * _BLOCK


def main(path: Path, seconds: float, seed: int) -> None:
    """Measure for a while and write what was found."""
    rng = random.Random(seed)  # noqa: S311 - a seeded draw of sizes, no secret
    drawn = (one for one in iter(lambda: draw(rng), object()) if one is not None)
    for one in islice(drawn, _WARM):
        measure(one)
    measure_for(seconds, lambda: measure(next(drawn)), partial(write, path))


if __name__ == "__main__":
    out, order, *others = sys.argv[1:]
    if order == "join":
        write(Path(out), {item for name in others for item in read(Path(name))})
    else:
        main(Path(out), float(order), int(others[0]))
