"""Measured runs as models say them that know less: without the run, without its model, without its family."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.methods.rad.errors import damped, size_of
from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit.boosting import Boosted
from estimator.methods.rad.fit.examples import Example
from estimator.methods.rad.fit.learners import boosted
from estimator.methods.rad.fit.processes import forked
from estimator.methods.rad.known import KNOWLEDGE, Known, Level, Run, shift_of, shifted, tabulate

FOLDS = 5
# The correction is fitted without a fold, for that takes a minute. What measured runs leave for others is written down
# in no time, so that it lacks only one of so many parts of the fold: whoever asks lacks one run, model or family.
_TABLES = 10
WAYS = ("run", "model", "family")
"""What is left out of the models that say an example: its run, its model (all heads, all inputs), its family."""

# Accounts that are further off than this are of models that were not understood. Nothing is to be learned from by how
# much, and a bound wide enough for them would be of no use for all others (logarithms of measured / accounted, and of
# what the correction leaves, where all of the memory may be wrong).
_UNDERSTOOD = (-0.3, 0.9)
LEFT = (-0.4, 1.3)
_SHARE = len(FEATURES) + KNOWLEDGE.index("share")

Floats = NDArray[np.float64]
Chosen = NDArray[np.bool_]
Folds = NDArray[np.int64]


@dataclass(frozen=True)
class HeldOut:
    """Examples as models say them that were fitted without some of the runs; one entry for each and each way.

    Attributes:
        items: the examples.
        ways: what was left out of the model that is asked: one of `WAYS`.
        levels: what that model knew.
        rows: what the size of the error is told from.
        residual: logarithms of measured / expected.
        sound: whether the account was understood.
        weights: how much each counts.
        folds: places of architecture families, which no fit of sizes or bounds divides.
    """

    items: list[Example]
    ways: list[str]
    levels: list[Level]
    rows: Floats
    residual: Floats
    sound: Chosen
    weights: Floats
    folds: Folds

    @property
    def sizes(self) -> Floats:
        """What the trees of sizes are fitted to: errors, with a bound to them, where all of the memory may be wrong."""
        weights = np.array([damped(share) for share in self.activations])
        sizes: Floats = np.clip(self.residual / weights, *LEFT)
        return sizes

    @property
    def activations(self) -> Floats:
        """Shares of the expected memory that may be wrong."""
        shares: Floats = self.rows[:, _SHARE]
        return shares

    def scale(self, said: Floats) -> Floats:
        """Turn what the trees say into the sizes of errors."""
        return np.array([size_of(size, share) for size, share in zip(said, self.activations, strict=True)])

    @property
    def shares(self) -> Floats:
        """By how much each counts for the sizes: runs of one architecture family resemble one another."""
        return self.weights * by_family(self.groups)

    @property
    def groups(self) -> NDArray[Any]:
        """Architecture families."""
        return np.array([item.group for item in self.items])

    @property
    def real(self) -> Chosen:
        """Which are of a library's models."""
        return np.array([item.real for item in self.items])

    @property
    def drawn(self) -> Chosen:
        """Which are of configurations that were drawn at random."""
        return np.array([item.drawn for item in self.items])

    @property
    def mistaken(self) -> Chosen:
        """Which another model says as well, that looks the same: without their own model they are repeated, too."""
        keys = [(item.id, item.run.blocks) for item in self.items]
        without = self.without("model") & self.at("repeated")
        others = {key for key, found in zip(keys, without, strict=True) if found}
        return np.array([key in others for key in keys])

    def without(self, way: str) -> Chosen:
        """Tell which were asked about without that: one of `WAYS`."""
        return np.array([left == way for left in self.ways])

    def at(self, *levels: Level) -> Chosen:
        """Tell of which as much was known."""
        return np.isin(self.levels, levels)


@dataclass(frozen=True)
class Answers:
    """What a model that knows less says of the examples that were left out.

    Attributes:
        way: what was left out.
        places: of the examples.
        levels, rows, residual: as in `HeldOut`.
    """

    way: str
    places: NDArray[np.int64]
    levels: list[Level]
    rows: Floats
    residual: Floats


def held_out(examples: list[Example], trees: int) -> tuple[Boosted, HeldOut]:
    """Fit the correction, and ask others that were fitted without an example's run, model or family about the example.

    Synthetic models are asked about in the last way only: each was measured once, and none has kin.

    Args:
        examples: measured runs.
        trees: size of the correction.
    """
    described = _described(examples)
    whole = partial(_correction, described, trees, np.ones(len(examples), dtype=np.bool_))
    work: list[Callable[[], Any]] = [whole, *_questions(examples, described, trees)]
    correction, *answers = forked(work)
    return correction, _joined(examples, answers)


def _questions(examples: list[Example], described: Described, trees: int) -> list[Callable[[], Answers]]:
    keys: dict[str, list[Any]] = {
        "run": [item.id for item in examples],
        "model": [item.model for item in examples],
        "family": _families(examples),
    }
    parts = {way: divided(of, FOLDS * _TABLES) for way, of in keys.items()}

    def ask(way: str, fold: int) -> Answers:
        inside = parts[way] % FOLDS != fold
        model = _correction(described, trees, inside)
        types = types_of(examples[at] for at in np.flatnonzero(inside))
        shifts = _shifts(examples, model, types)
        places, of = _asked(examples, way, ~inside), parts[way]
        places = places[np.argsort(of[places], kind="stable")]
        items = [_left(examples[at], way) for at in places]
        seen = [item.seen_by(types) for item in items]
        found = []
        for part in np.unique(of[places]):
            known = Known(tabulate(shift for shift, other in zip(shifts, of, strict=True) if shift and other != part))
            found += [known.about(item.run) for item, other in zip(items, of[places], strict=True) if other == part]
        rows, residual = [], []
        for item, row, said, knowledge in zip(items, seen, model.predict(np.array(seen)), found, strict=True):
            corrected = (item.accounted + item.context) * exp(float(said))
            expected, share = shifted(corrected, item.fixed, knowledge.shift)
            rows.append([*row, *knowledge.features(share)])
            residual.append(log(item.measured / expected))
        levels = [knowledge.level for knowledge in found]
        return Answers(way, places, levels, np.array(rows), np.array(residual))

    outside = {(way, fold): parts[way] % FOLDS == fold for way in WAYS for fold in range(FOLDS)}
    return [
        partial(ask, way, fold)
        for (way, fold), left in outside.items()
        if len(_asked(examples, way, left)) and not left.all()
    ]


def _asked(examples: list[Example], way: str, outside: Chosen) -> NDArray[np.int64]:
    return np.array([at for at in np.flatnonzero(outside) if way == "family" or examples[at].real], dtype=np.int64)


def _left(item: Example, way: str) -> Example:
    """Give an example as it is without what is left out."""
    return item.as_new if way == "family" else item


def _joined(examples: list[Example], parts: Sequence[Answers]) -> HeldOut:
    places = np.concatenate([part.places for part in parts])
    ways = [part.way for part in parts for _ in part.places]
    items = [_left(examples[at], way) for at, way in zip(places, ways, strict=True)]
    target = np.array([log(item.measured / (item.accounted + item.context)) for item in items])
    return HeldOut(
        items,
        ways,
        [level for part in parts for level in part.levels],
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.residual for part in parts]),
        target == understood(target),
        np.array([item.weight for item in items]),
        folds_of(examples)[places],
    )


@dataclass(frozen=True)
class Described:
    """What the correction is fitted to: each example, and again as one whose blocks' own code was never seen.

    Attributes:
        rows: features.
        target: logarithms of measured / accounted.
        weights: how much each counts.
        of: place of its example.
    """

    rows: Floats
    target: Floats
    weights: Floats
    of: NDArray[np.int64]


def _described(examples: list[Example]) -> Described:
    folds = folds_of(examples)
    places = [*range(len(examples)), *(at for at, item in enumerate(examples) if item.alone is not None)]
    items = [*examples, *(item.as_new for item in examples if item.alone is not None)]
    return Described(
        np.array(as_if_new(items, folds[places]), dtype=np.float64),
        np.array([log(item.measured / (item.accounted + item.context)) for item in items]),
        np.array(
            [item.weight * (1.0 if examples[at].alone is None else 0.5) for at, item in zip(places, items, strict=True)]
        ),
        np.array(places),
    )


def _correction(described: Described, trees: int, inside: Chosen) -> Boosted:
    chosen = inside[described.of]
    rows, target = described.rows[chosen], understood(described.target[chosen])
    return boosted(trees).fit(rows, target, described.weights[chosen])


def types_of(examples: Iterable[Example]) -> frozenset[str]:
    """Return the types of all their layers."""
    return frozenset[str]().union(*(item.names for item in examples))


def table_of(examples: Sequence[Example], correction: Boosted, types: Set[str]) -> dict[str, Any]:
    """Write down what the real models among the examples leave for others, beyond what the correction says of them."""
    return tabulate(shift for shift in _shifts(examples, correction, types) if shift)


def _shifts(examples: Sequence[Example], correction: Boosted, types: Set[str]) -> list[tuple[Run, float] | None]:
    """Tell what each example leaves for others; None of those that are synthetic."""
    times = np.exp(correction.predict(np.array([item.seen_by(types) for item in examples])))
    return [
        (item.run, shift_of(item.measured, float((item.accounted + item.context) * by), item.fixed))
        if item.real
        else None
        for item, by in zip(examples, times, strict=True)
    ]


def as_if_new(examples: list[Example], folds: Folds) -> list[list[float]]:
    """Describe each example for a model that was fitted to the other folds."""
    by_fold = [
        frozenset[str]().union(*(item.names for item, place in zip(examples, folds, strict=True) if place != fold))
        for fold in range(FOLDS)
    ]
    return [item.seen_by(by_fold[int(fold)]) for item, fold in zip(examples, folds, strict=True)]


def folds_of(examples: list[Example]) -> Folds:
    """Divide architecture families into folds, real ones evenly."""
    return divided(_families(examples), FOLDS)


def _families(examples: list[Example]) -> list[tuple[bool, str]]:
    return [(item.real, item.group) for item in examples]


def divided(keys: Iterable[Any], parts: int) -> Folds:
    """Divide what has equal keys into so many parts."""
    part_of = {key: index % parts for index, key in enumerate(sorted(set(keys)))}
    return np.array([part_of[key] for key in keys])


def understood(target: Floats) -> Floats:
    """Bound logarithms of measured / accounted to what accounts that were understood differ by."""
    return np.clip(target, *_UNDERSTOOD)


def by_family(groups: NDArray[Any]) -> Floats:
    """Give weights with which an architecture family of four times as many examples counts twice as much."""
    _, which, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights: Floats = 1 / np.sqrt(counts[which])
    return weights
