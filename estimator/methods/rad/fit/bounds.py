"""How wide bounds are: the size of errors, and for each level the multiple of it that almost no run exceeds.

Both are taken from runs as models say them that know less (`holdout`): normalised conformal prediction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from estimator.methods.rad.fit.boosting import Boosted
from estimator.methods.rad.fit.holdout import FOLDS, Chosen, Floats, HeldOut, by_family
from estimator.methods.rad.fit.learners import spreading
from estimator.methods.rad.fit.processes import forked
from estimator.methods.rad.known import LEVELS, Level


@dataclass(frozen=True)
class Setting:
    """How the bound of a level is set.

    Attributes:
        miss: share of the runs that set it (`calibrating`) which may exceed it.
        quantile: share of the errors that are smaller than what the trees say.
        taught: levels whose runs the trees are fitted to.
    """

    miss: float
    quantile: float
    taught: tuple[Level, ...]


SETTINGS: Final[Mapping[Level, Setting]] = {
    "repeated": Setting(0.01, 0.95, ("repeated",)),
    "measured": Setting(0.008, 0.95, ("measured",)),
    "kin": Setting(0.01, 0.95, ("kin",)),
    "similar": Setting(0.01, 0.95, ("kin", "similar")),
    "new": Setting(0.005, 0.98, LEVELS),
}
"""Errors of what was measured follow from the runs that are near, those of what is new from its layers: trees for both
say less of either. Set so, of the runs that were left out about one in a hundred is too low: of those that were drawn
at random without the run itself, with what is repeated, which is too low a little more often, as a few runs take much
more when they are run again; of kin and of what is similar without their model. Accounts that were not understood widen
no bound; with them about one new model in a hundred is too low. Quantiles were chosen by leaving runs, models and
families out."""
UNKNOWN: Final = 10.0
"""The multiple where nothing was measured."""

# Fewer runs of one sort than this calibrate nothing: others are taken with them.
_ENOUGH: Final = 60
# Fewer runs than this teach nothing and set no bound: the widest one stands for it.
_LEAST: Final = 20


def learned(held: HeldOut, trees: int) -> tuple[dict[Level, Boosted], Floats]:
    """Learn the size of errors for each level, and say the size of each error by trees that have not seen its family.

    Args:
        held: at least one example.
        trees: size of the correction.
    """
    asked = {
        (level, fold): held.at(level) & (held.folds == fold) for level in reversed(LEVELS) for fold in range(FOLDS)
    }
    asked = {key: which for key, which in asked.items() if which.any() and not (held.folds == key[1]).all()}
    fits: list[tuple[Level, int | None]] = [*((level, None) for level in reversed(LEVELS)), *asked]
    models = dict(zip(fits, forked([partial(_taught, held, level, trees, fold) for level, fold in fits]), strict=True))
    said = np.zeros(len(held.residual))
    for key, which in asked.items():
        said[which] = models[key].predict(held.rows[which])
    return {level: models[level, None] for level in LEVELS}, held.scale(said)


def _taught(held: HeldOut, level: Level, trees: int, without: int | None) -> Boosted:
    setting, rest = SETTINGS[level], held.folds != without
    chosen = rest & held.at(*setting.taught)
    if chosen.sum() < _LEAST:
        chosen = rest
    model = spreading(trees, setting.quantile)
    return model.fit(held.rows[chosen], held.sizes[chosen], held.shares[chosen])


def bounds_of(held: HeldOut, sizes: Floats) -> dict[Level, float]:
    """Find for each level how many times the size of an error almost no error exceeds."""
    found: dict[Level, float] = {}
    for level, chosen in calibrating(held).items():
        if chosen.sum() >= _LEAST:
            found[level] = multiple(held, sizes, level, chosen)
    widest = max(found.values(), default=UNKNOWN)
    return {level: found.get(level, widest) for level in LEVELS}


def calibrating(held: HeldOut) -> dict[Level, Chosen]:
    """Choose what sets the bound of each level.

    What is repeated is asked about without that run alone, where another of its model in that configuration is left,
    with another head or an optimizer that takes as much. One that only looks the same says nothing of how runs differ.
    What was measured is asked about as users ask, without that run alone, in configurations that were drawn at random.
    Most others were measured because nothing near them was; without them the models know less than they ever will.
    Of kin and of what is similar other models of the same families were measured: it is asked about without its model.
    What is new is judged by accounts that were understood. Synthetic models count where there are hardly any others.
    """
    relatives = held.real & held.without("model")
    sorts = {
        "repeated": held.real & held.without("run") & ~held.mistaken,
        "measured": held.drawn & held.without("run"),
        "kin": relatives,
        "similar": relatives,
        "new": held.sound,
    }
    found: dict[Level, Chosen] = {}
    for level in LEVELS:
        chosen = held.at(level)
        for sort in (held.real, sorts[level]):
            chosen = chosen & sort if (chosen & sort).sum() >= _ENOUGH else chosen
        found[level] = chosen
    return found


def multiple(held: HeldOut, sizes: Floats, level: Level, chosen: Chosen, times: float = 1.0) -> float:
    """Find how many times the size of an error almost no error exceeds.

    Args:
        held: all examples.
        sizes: what is said of each of their errors.
        level: tells how many may exceed it.
        chosen: those that set it, at least one.
        times: so many times as many may.
    """
    scores, weights = held.residual[chosen] / sizes[chosen], _counting(level, held.groups[chosen])
    return conformal(scores, weights, times * SETTINGS[level].miss)


def _counting(level: Level, groups: NDArray[Any]) -> Floats:
    """Give the weights with which a level's runs set its bound.

    What was measured is asked about again as often as it is run; what is new is of a family of its own.
    """
    return np.ones(len(groups)) if level in ("repeated", "measured") else by_family(groups)


def conformal(scores: Floats, weights: Floats, miss: float) -> float:
    """Give the score that a new one exceeds with a chance of at most ``miss``, each score counting by its weight."""
    order = np.argsort(scores)
    share = np.cumsum(weights[order]) / weights.sum()
    place = min(int(np.searchsorted(share, 1 - miss)), len(order) - 1)
    return max(float(scores[order][place]), 0.0)
