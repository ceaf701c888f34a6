"""How wide a bound has to be: its share of too low against its over-estimate, on runs left out. Reads nothing.

Each run is judged by models that were fitted without it: without this run alone, without its model, or without its
whole architecture family. Two accounts are compared: RAD's, from each summary, and one that no summary gives: what
torch's allocator really handed out, as it was measured. What the second leaves is the allocator's own choice of how
much it reserves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit import (
    MISS,
    TREES,
    WAYS,
    Example,
    HeldOut,
    conformal,
    counting,
    held_out,
    left_out,
    spreading,
)
from estimator.methods.rad.known import LEVELS

MISSES = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Multiples of the shares of misses that bounds are set to."""
ALL = "all"
FORMATS = ("torchsummary", "torchinfo", "module")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reached:
    """What bounds reach on runs that were left out.

    Attributes:
        n: summaries.
        error: median of |expected - measured| / measured.
        under: share that exceeds the bound.
        over: mean over-estimate of the bound, as a share of the measurement.
        half: median of the same.
    """

    n: int
    error: float
    under: float
    over: float
    half: float


@dataclass(frozen=True)
class Limits:
    """What is reached on real models, by what was left out: the run, its model, its architecture family.

    Attributes:
        ways: all that was left out in one way, then what of it each model took for measured, for kin, for new.
        formats: the same for each of ``FORMATS``.
        misses: for each of ``MISSES``.
        allocator: the same where the allocator's own peak is known.
    """

    ways: dict[str, dict[str, Reached]]
    formats: dict[str, dict[str, Reached]]
    misses: dict[str, dict[float, Reached]]
    allocator: dict[str, dict[float, Reached]]


def limits(examples: Sequence[Example], context: float) -> Limits:
    """Judge bounds, each set without the families that it is judged by.

    Args:
        examples: measured runs.
        context: the CUDA context in MiB.
    """
    held = held_out(list(examples), context, TREES)
    handed_out = [replace(item, accounted=item.allocated or item.accounted, alone=None) for item in examples]
    known = held_out(handed_out, context, TREES)
    bounds = _bounds(held)
    levels = np.array(held.levels)
    shown = {name: held.rows[:, FEATURES.index(name)] > 0 for name in FORMATS}
    ways: dict[str, dict[str, Reached]] = {}
    formats: dict[str, dict[str, Reached]] = {}
    for way in WAYS:
        chosen = _left_out(held, way)
        parts: dict[str, NDArray[np.bool_]] = {ALL: chosen, **{level: chosen & (levels == level) for level in LEVELS}}
        ways[way] = {name: reached(held.residual[of], bounds[1.0][of]) for name, of in parts.items() if of.any()}
        formats[way] = {
            name: reached(held.residual[chosen & of], bounds[1.0][chosen & of]) for name, of in shown.items()
        }
    return Limits(ways, formats, _by_misses(held, bounds), _by_misses(known, _bounds(known)))


def _left_out(held: HeldOut, way: str) -> NDArray[np.bool_]:
    return np.array([item.real and left == way for item, left in zip(held.items, held.ways, strict=True)])


def _by_misses(held: HeldOut, bounds: dict[float, Floats]) -> dict[str, dict[float, Reached]]:
    found = {}
    for way in WAYS:
        chosen = _left_out(held, way)
        found[way] = {times: reached(held.residual[chosen], bound[chosen]) for times, bound in bounds.items()}
    return found


def reached(residual: Floats, bound: Floats) -> Reached:
    """Judge bounds; both are logarithms of a ratio to what was expected."""
    over = np.maximum(np.exp(bound - residual) - 1, 0.0)
    error = np.abs(np.exp(-residual) - 1)
    under = float((residual > bound).mean())
    return Reached(len(residual), float(np.median(error)), under, float(over.mean()), float(np.median(over)))


def _bounds(held: HeldOut) -> dict[float, Floats]:
    """Set bounds for each fold by the others."""
    sizes = held.scale(left_out(partial(spreading, TREES), held.rows, held.sizes, held.shares, held.folds))
    scores, groups, levels = held.residual / sizes, held.groups, np.array(held.levels)
    real = np.array([item.real for item in held.items])
    made = {}
    for times in MISSES:
        bound = np.zeros(len(scores))
        for level, calibrating in held.calibrating.items():
            for fold in sorted(set(held.folds)):
                inside = calibrating & real & (held.folds != fold)
                here = (levels == level) & (held.folds == fold)
                weights, miss = counting(level, groups[inside]), times * MISS[level]
                bound[here] = conformal(scores[inside], weights, miss) * sizes[here] if inside.any() else 0.0
        made[times] = np.clip(bound, 0.03, 3.0)
    return made
