"""How wide a bound has to be: its share of too low against its over-estimate, on runs left out. Reads nothing.

Each run is judged by models that were fitted without it: without this run alone, without its model, or without its
whole architecture family. Two accounts are compared: RAD's, from each summary, and one that no summary gives: what
torch's allocator really handed out, as it was measured. What the second leaves is the allocator's own choice of how
much it reserves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit.bounds import calibrating, multiple, sizes_of
from estimator.methods.rad.fit.examples import Example
from estimator.methods.rad.fit.holdout import WAYS, Floats, HeldOut, held_out
from estimator.methods.rad.fit.learners import TREES
from estimator.methods.rad.known import LEVELS

MISSES = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Multiples of the shares of misses that bounds are set to."""
ALL = "all"
DRAWN = "drawn at random"
FORMATS = ("torchsummary", "torchinfo", "module")


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


Parts = dict[str, dict[str, Reached]]


@dataclass(frozen=True)
class Limits:
    """What is reached on real models, by what was left out: the run, its model, its architecture family.

    Attributes:
        ways: all that was left out in one way, then what of it each model took for measured, for kin, for new, and what
            of it are configurations of measured models that were drawn at random.
        formats: the same for each of ``FORMATS``.
        misses: for each of ``MISSES``, by what was left out; then without their run what was drawn at random.
        allocator: the same where the allocator's own peak is known.
    """

    ways: Parts
    formats: Parts
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
    ways, formats = _ways(held, bounds)
    return Limits(ways, formats, _by_misses(held, bounds), _by_misses(known, _bounds(known)))


def _ways(held: HeldOut, bounds: dict[float, Floats]) -> tuple[Parts, Parts]:
    """Judge by what was left out, then by what was known, and by format."""
    shown = {name: held.rows[:, FEATURES.index(name)] > 0 for name in FORMATS}
    ways: Parts = {}
    formats: Parts = {}
    for way in WAYS:
        chosen = held.real & held.without(way)
        parts = {ALL: chosen, DRAWN: chosen & held.drawn}
        parts.update((level, chosen & held.at(level)) for level in LEVELS)
        ways[way] = {name: reached(held.residual[of], bounds[1.0][of]) for name, of in parts.items() if of.any()}
        formats[way] = {
            name: reached(held.residual[chosen & of], bounds[1.0][chosen & of]) for name, of in shown.items()
        }
    return ways, formats


def _by_misses(held: HeldOut, bounds: dict[float, Floats]) -> dict[str, dict[float, Reached]]:
    found = {}
    parts = {way: held.real & held.without(way) for way in WAYS}
    parts[DRAWN] = parts["run"] & held.drawn
    for name, chosen in parts.items():
        if chosen.any():
            found[name] = {times: reached(held.residual[chosen], bound[chosen]) for times, bound in bounds.items()}
    return found


def reached(residual: Floats, bound: Floats) -> Reached:
    """Judge bounds; both are logarithms of a ratio to what was expected."""
    over = np.maximum(np.exp(bound - residual) - 1, 0.0)
    error = np.abs(np.exp(-residual) - 1)
    under = float((residual > bound).mean())
    return Reached(len(residual), float(np.median(error)), under, float(over.mean()), float(np.median(over)))


def _bounds(held: HeldOut) -> dict[float, Floats]:
    """Set bounds for each fold by the others."""
    sizes = sizes_of(held, TREES)
    made = {}
    for times in MISSES:
        bound = np.zeros(len(sizes))
        for level, setting in calibrating(held).items():
            for fold in sorted(set(held.folds)):
                inside = setting & (held.folds != fold)
                here = held.at(level) & (held.folds == fold)
                bound[here] = multiple(held, sizes, level, inside, times) * sizes[here] if inside.any() else 0.0
        made[times] = np.clip(bound, 0.03, 3.0)
    return made
