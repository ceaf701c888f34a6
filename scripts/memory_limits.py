"""How wide a bound has to be: its share of too low against its over-estimate, with families left out. Reads nothing.

Two accounts are compared: RAD's, from each summary, and one that no summary gives: what torch's allocator really handed
out, as it was measured. What the second leaves is the allocator's own choice of how much it reserves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from estimator.methods.rad.features import FEATURES, pool_of
from estimator.methods.rad.fit import (
    MISS,
    TREES,
    Example,
    as_if_new,
    boosted,
    conformal,
    folds_of,
    left_out,
    scale,
    size_of,
    spreading,
    understood,
)

LEVELS = (MISS, 0.01, 0.02, 0.05, 0.1)
FORMATS = ("torchsummary", "torchinfo", "module")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Limit:
    """What bounds of one level reach on families that were left out.

    Attributes:
        level: share of the understood models that the bounds were set to miss.
        under: share of all that exceed them.
        over: mean over-estimate, as a share of the measurement.
        by_format: both, for each of ``FORMATS``.
    """

    level: float
    under: float
    over: float
    by_format: tuple[tuple[float, float], ...]


def limits(examples: Sequence[Example], context: float) -> tuple[list[Limit], list[Limit]]:
    """Judge bounds of several levels, each set without the families that it is judged by.

    Args:
        examples: measured runs; those of real models are taken.
        context: the CUDA context in MiB.

    Returns:
        With RAD's account, and with the allocator's own.
    """
    found = [item for item in examples if item.real]
    folds = folds_of(found)
    rows = np.array(as_if_new(found, folds))
    measured = np.array([item.measured for item in found])
    made = []
    for account in (np.array([item.accounted for item in found]), np.array([item.allocated for item in found])):
        target = np.log(measured / (account + context))
        made.append(_levels(found, rows, target, folds))
    return made[0], made[1]


def _levels(examples: list[Example], rows: Floats, target: Floats, folds: Floats) -> list[Limit]:
    weights = np.array([item.weight for item in examples])
    known = understood(target)
    residual = target - left_out(partial(boosted, TREES), rows, known, weights, folds)
    sizes = scale(left_out(partial(spreading, TREES), rows, size_of(residual), weights, folds))
    pools = np.array([pool_of(list(row), item.family) for row, item in zip(rows, examples, strict=True)])
    groups = np.array([item.group for item in examples])
    formats = [rows[:, FEATURES.index(name)] > 0 for name in FORMATS]
    made = []
    for level in LEVELS:
        bound = np.zeros(len(examples))
        for pool in sorted(set(pools)):
            for fold in sorted(set(folds)):
                inside = (pools == pool) & (folds != fold) & (target == known)
                times = conformal((residual / sizes)[inside], groups[inside], level) if inside.any() else 0.0
                here = (pools == pool) & (folds == fold)
                bound[here] = np.clip(times * sizes[here], 0.0, 3.0)
        under, over = residual > bound, np.maximum(np.exp(bound - residual) - 1, 0.0)
        shares = tuple((float(under[of].mean()), float(over[of].mean())) for of in formats)
        made.append(Limit(level, float(under.mean()), float(over.mean()), shares))
    return made
