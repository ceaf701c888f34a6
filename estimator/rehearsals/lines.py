"""What steps of a model's own code take on tensors without data, as `radctl summarize` writes it below a table. Pure.

A rehearsal knows what no summary shows: what functions between the layers keep, and in which order it comes and goes,
which decides what PyTorch's allocator holds. `estimator.rehearsals.rehearse` makes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from math import log
from typing import Final, NamedTuple

from estimator.types import LIBRARIES, Libraries, Optimizer, Point, Precision, Rehearsal, SummaryError, Workload

PRECISIONS: Final[tuple[Precision, ...]] = ("fp32", "amp", "bf16")
"""Those that are rehearsed; fp16 takes what bf16 does."""
OPTIMIZERS: Final[tuple[Optimizer, ...]] = ("sgd", "sgd_momentum", "rmsprop", "adam")
"""Those that are rehearsed; AdamW takes what Adam does."""
_SIZE: Final = re.compile(r"([0-9.]{1,20}) in ([0-9.]{1,20})(?: to ([0-9.]{1,20}))? MiB")
_BATCH: Final = re.compile(r"[0-9]{1,9}")
_LEAST_MIB: Final = 1.0
_MOST_MIB: Final = 1e9
_BEGINS: Final = "rehearsed "
_LOADS: Final = "rehearsed libraries"
_BESIDE: Final = "rehearsed beside size"
_MIB: Final = re.compile(r"([0-9.]{1,20}) MiB")
# Names of the lines, as `estimator.parsers.text.read_totals` gives them.
_LABELS: Final[Mapping[str, tuple[Precision, Optimizer | None]]] = {
    f"rehearsed {optimizer or 'inference'} {precision} size": (precision, optimizer)
    for precision in PRECISIONS
    for optimizer in (*OPTIMIZERS, None)
}


class Found(NamedTuple):
    """What a rehearsal says of a workload.

    Attributes:
        used_mib, held_mib, most_mib: as in `estimator.types.Point`.
        apart: the logarithm of how far the batch size is from the nearest that was rehearsed.
    """

    used_mib: float
    held_mib: float
    most_mib: float
    apart: float


def like(optimizer: Optimizer) -> Optimizer:
    """Give the optimizer of `OPTIMIZERS` that takes as much."""
    return "adam" if optimizer == "adamw" else optimizer


def line_of(found: Rehearsal) -> str:
    """Write one rehearsal as a line below a table."""
    batches = ", ".join(str(point.batch) for point in found.points)
    sizes = ", ".join(map(_size, found.points))
    return f"Rehearsed {found.optimizer or 'inference'} {found.precision} size (batch {batches}): {sizes}"


def line_of_libraries(seen: Libraries) -> str:
    """Write which of CUDA's libraries the model's code loads as one line below a table."""
    return f"Rehearsed libraries: {seen}"


def line_of_beside(mib: float) -> str:
    """Write what the job holds beside the model as one line below a table."""
    return f"Rehearsed beside size: {mib:.1f} MiB"


def _size(point: Point) -> str:
    held, most = f"{point.held_mib:.0f}", f"{point.most_mib:.0f}"
    return f"{point.used_mib:.1f} in {held if held == most else f'{held} to {most}'} MiB"


def read(totals: Mapping[str, str]) -> tuple[Rehearsal, ...]:
    """Read the rehearsals among the lines below a table.

    Raises:
        SummaryError: a line that begins like one holds no sizes, or names nothing that is rehearsed.
    """
    for name, said in totals.items():
        if name.startswith(_BEGINS) and name not in _LABELS and name not in (_LOADS, _BESIDE):
            raise _damaged(f"{name}: {said}")
    return tuple(
        [
            Rehearsal("train" if optimizer else "infer", precision, optimizer, _points(totals[name]))
            for name, (precision, optimizer) in _LABELS.items()
            if name in totals
        ]
    )


def loads(totals: Mapping[str, str]) -> Libraries:
    """Read which of CUDA's libraries the model's code loads; ``none`` where nothing says so.

    Raises:
        SummaryError: the line that says so names none of them.
    """
    said = totals.get(_LOADS, LIBRARIES[0])
    found = next((name for name in LIBRARIES if name == said), None)
    if found is None:
        raise SummaryError(f"{_LOADS}: {said[:60]!r} are none: let radctl summarize print the table anew")
    return found


def beside_mib(totals: Mapping[str, str]) -> float:
    """Read what the job holds beside the model, in MiB; 0 where nothing says so.

    Raises:
        SummaryError: the line that says so holds no size.
    """
    said = totals.get(_BESIDE)
    if said is None:
        return 0.0
    match = _MIB.fullmatch(said)
    with suppress(ValueError):  # several points in one number
        if match is not None and float(match[1]) <= _MOST_MIB:
            return float(match[1])
    raise _damaged(f"{_BESIDE}: {said}")


def _points(said: str) -> tuple[Point, ...]:
    sizes, _, batches = said.partition(" batch ")
    found = []
    for size, batch in zip(sizes.split(", "), batches.split(", "), strict=False):
        match = _SIZE.fullmatch(size)
        if match is not None and _BATCH.fullmatch(batch):
            with suppress(ValueError):  # several points in one number
                used, held, most = (float(match[place] or match[2]) for place in (1, 2, 3))
                found.append(Point(int(batch), used, held, most))
    rising = all(one.batch < other.batch for one, other in pairwise(found))
    rising = rising and all(point.used_mib <= point.held_mib + 1 <= point.most_mib + 1 for point in found)  # rounded
    if len(found) != sizes.count(",") + 1 or len(found) != batches.count(",") + 1 or not rising:
        found = []
    if not found or not found[0].batch > 0 or any(max(point[1:]) > _MOST_MIB for point in found):
        raise _damaged(said)
    return tuple(found)


def _damaged(said: str) -> SummaryError:
    return SummaryError(f"{said[:60]!r} are no sizes of a rehearsal: let radctl summarize print the table anew")


def of_workload(rehearsals: Iterable[Rehearsal], workload: Workload) -> Found | None:
    """Tell what a rehearsal says of a workload; None where that was not rehearsed.

    What is used at another batch size lies on a line: between those that were rehearsed through those on both sides,
    beyond them through the last two. Of what is held, which comes in large pieces, the share that is used is that of
    the nearest.
    """
    precision: Precision = "bf16" if workload.precision == "fp16" else workload.precision
    optimizer = like(workload.optimizer) if workload.kind == "train" else None
    for found in rehearsals:
        if (found.kind, found.precision, found.optimizer) == (workload.kind, precision, optimizer):
            return _at(found.points, workload.batch_size)
    return None


def _at(points: Iterable[Point], batch: int) -> Found | None:
    near, *others = sorted(points, key=lambda point: abs(log(batch / point.batch)))
    if near.batch == batch:
        return Found(*near[1:], 0.0)
    if not others:
        return None
    beyond = [point for point in others if (point.batch > batch) != (near.batch > batch)]
    other = (beyond or others)[0]
    share = (batch - near.batch) / (other.batch - near.batch)
    used = max(near.used_mib + (other.used_mib - near.used_mib) * share, 0.0)
    times = used / max(near.used_mib, _LEAST_MIB)
    return Found(used, times * near.held_mib, times * near.most_mib, abs(log(batch / near.batch)))
