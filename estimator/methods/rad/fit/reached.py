"""What bounds reach on real models whose runs were left out: too low against over-estimate. Pure.

Each run is judged by models that were fitted without it: without this run alone, without its model, or without its
whole architecture family; and by bounds that were set without its family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimator.methods.rad.errors import LEAST_BOUND, MOST_BOUND
from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit.bounds import calibrating, multiple
from estimator.methods.rad.fit.holdout import WAYS, Floats, HeldOut
from estimator.methods.rad.known import LEVELS

MISSES = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Multiples of the shares of misses that bounds are set to."""
ALL = "all"
REHEARSED = "family, rehearsed"
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
class LeftOut:
    """What is reached on real models, by what was left out: the run, its model, its architecture family.

    Attributes:
        ways: all that was left out in one way, then what of it each model took for measured, for kin, for new, and what
            of it are configurations of measured models that were drawn at random; and families whose models were
            rehearsed.
        formats: the same for each of ``FORMATS``.
        misses: for each of ``MISSES``, by what was left out; then without their run what was drawn at random.
    """

    ways: Parts
    formats: Parts
    misses: Parts

    @classmethod
    def of_json(cls, said: Mapping[str, Any]) -> LeftOut:
        """Read what `dataclasses.asdict` made of one.

        Raises:
            KeyError, TypeError, AttributeError: it is something else.
        """

        def parts(name: str) -> Parts:
            return {key: {inner: Reached(**found) for inner, found in each.items()} for key, each in said[name].items()}

        return cls(parts("ways"), parts("formats"), parts("misses"))


def left_out(held: HeldOut, sizes: Floats, rehearsed: Reached | None = None) -> LeftOut:
    """Judge bounds.

    Args:
        held: all examples.
        sizes: what is said of each of their errors.
        rehearsed: what bounds of rehearsed models reach on families that were left out.
    """
    bounds = _bounds(held, sizes)
    ways, formats = _ways(held, bounds[1.0])
    if rehearsed is not None:
        ways[REHEARSED] = {ALL: rehearsed}
    return LeftOut(ways, formats, _by_misses(held, bounds))


def _ways(held: HeldOut, bound: Floats) -> tuple[Parts, Parts]:
    """Judge by what was left out, then by what was known, and by format."""
    shown = {name: held.rows[:, FEATURES.index(name)] > 0 for name in FORMATS}
    ways: Parts = {}
    formats: Parts = {}
    for way in WAYS:
        chosen = held.real & held.without(way)
        parts = {ALL: chosen, DRAWN: chosen & held.drawn}
        parts.update((level, chosen & held.at(level)) for level in LEVELS)
        ways[way] = {name: reached(held.residual[of], bound[of]) for name, of in parts.items() if of.any()}
        asked = {name: chosen & of for name, of in shown.items()}
        formats[way] = {name: reached(held.residual[of], bound[of]) for name, of in asked.items() if of.any()}
    return ways, formats


def _by_misses(held: HeldOut, bounds: dict[float, Floats]) -> Parts:
    found: Parts = {}
    parts = {way: held.real & held.without(way) for way in WAYS}
    parts[DRAWN] = parts["run"] & held.drawn
    for name, chosen in parts.items():
        if chosen.any():
            each = {f"{times:g}": reached(held.residual[chosen], bound[chosen]) for times, bound in bounds.items()}
            found[name] = each
    return found


def reached(residual: Floats, bound: Floats) -> Reached:
    """Judge bounds; both are logarithms of a ratio to what was expected."""
    over = np.maximum(np.exp(bound - residual) - 1, 0.0)
    error = np.abs(np.exp(-residual) - 1)
    under = float((residual > bound).mean())
    return Reached(len(residual), float(np.median(error)), under, float(over.mean()), float(np.median(over)))


def _bounds(held: HeldOut, sizes: Floats) -> dict[float, Floats]:
    """Set bounds for each fold by the others, for each of `MISSES`."""
    made = {}
    for times in MISSES:
        bound = np.zeros(len(sizes))
        for level, setting in calibrating(held).items():
            for fold in sorted(set(held.folds)):
                inside = setting & (held.folds != fold)
                here = held.at(level) & (held.folds == fold)
                bound[here] = multiple(held, sizes, level, inside, times) * sizes[here] if inside.any() else 0.0
        made[times] = np.clip(bound, LEAST_BOUND, MOST_BOUND)
    return made
