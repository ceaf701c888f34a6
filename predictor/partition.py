"""MPS thread percentages: predict what both sides of a pair reach under a partition, and choose one. Pure.

A job that may use a part f of the threads, and fills a part d of the SMs while its kernels run, stretches its time on
the GPU by about d / f where that is over 1. Between partitions contention is a part of what it is without them. How
much the host hides of it is the same as everywhere (:func:`predictor.contention.slacken`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from predictor.artifact import Colocation
from predictor.contention import slacken
from predictor.measurements import Run, family
from predictor.training import fit_rad
from predictor.types import Floats, Predictor, Profile

SHARPNESS = 4.0
DEMANDS = tuple(np.linspace(0.4, 1.6, 13))
REMAINS = tuple(np.linspace(0.0, 1.0, 11))
ALL = 100


def demand(profile: Profile) -> float:
    """Part of the SMs that a job fills while its kernels run, 0..1."""
    busy = profile.smact if np.isnan(profile.busy) else profile.busy
    return float(min(profile.smact / busy, 1.0)) if busy > 0.0 else 0.0


@dataclass(frozen=True)
class Partitioned:
    """One pair under several partitions.

    Attributes:
        default: the pair without any partition.
        shares: thread percentages of both sides, one entry a partition.
        progress: progress of both sides, shape (partitions, 2), at most 1.
    """

    default: Colocation
    shares: tuple[tuple[int, int], ...]
    progress: Floats

    @property
    def families(self) -> frozenset[str]:
        """Model families of the sides."""
        return frozenset(family(side.workload) for side in self.default.sides)

    @property
    def default_progress(self) -> Floats:
        """Progress of both sides without a partition, shape (2,), at most 1."""
        return np.array([min(side.progress, 1.0) for side in self.default.sides])


@dataclass(frozen=True)
class TwoWays:
    """One pair under MPS and under time slicing: sums of progress and the slower side's."""

    names: tuple[str, str]
    mps_sum: float
    mps_least: float
    sliced_sum: float
    sliced_least: float


class Model(Protocol):
    """Something that predicts progress under partitions."""

    def fit(self, groups: Sequence[Partitioned], predictor: Predictor) -> Model:
        """Fit to measured partitions; ``predictor`` says what happens without any."""

    def predict(self, pair: Sequence[Profile], shares: Sequence[tuple[int, int]]) -> Floats:
        """Progress of both sides, shape (partitions, 2)."""


class PartitionModel:
    """Two numbers on top of a predictor: the scale of a job's demand for SMs, and how much contention remains."""

    def fit(self, groups: Sequence[Partitioned], predictor: Predictor) -> PartitionModel:
        """Choose both numbers by the least mean absolute error."""
        self.predictor = predictor

        def error(candidate: tuple[float, float]) -> float:
            self.scale, self.remains = candidate
            errors = [
                np.abs(self.predict([side.profile for side in group.default.sides], group.shares) - group.progress)
                for group in groups
            ]
            return float(np.concatenate(errors).mean())

        self.scale, self.remains = min(itertools.product(DEMANDS, REMAINS), key=error)
        return self

    def predict(self, pair: Sequence[Profile], shares: Sequence[tuple[int, int]]) -> Floats:
        """Progress of both sides, shape (partitions, 2)."""
        found = self.predictor.predict(pair[0], pair[1:])
        without = np.array([found.candidate, *found.residents])
        part = np.array(shares, dtype=np.float64) / ALL
        need = self.scale * np.array([demand(profile) for profile in pair])
        stretch = (1.0 + (need / part) ** SHARPNESS) ** (1.0 / SHARPNESS)
        busy = np.array([profile.smact if np.isnan(profile.busy) else profile.busy for profile in pair])
        own = np.exp(-slacken(stretch - 1.0, np.broadcast_to(busy, stretch.shape), SHARPNESS)[0])
        progress: Floats = own * without**self.remains
        return progress


def partitioned_pairs(runs: Sequence[Run]) -> tuple[Partitioned, ...]:
    """The pairs that were measured under partitions, with what they reached without in the same session."""
    plain = {
        (run.session, *(side.workload for side in run.colocation.sides)): run.colocation
        for run in runs
        if run.method == "mps" and set(run.threads) == {ALL} and not run.repeat
    }
    found: dict[tuple[int, str, str], list[Run]] = {}
    for run in runs:
        if run.method == "mps" and len(run.threads) == 2 and set(run.threads) != {ALL}:
            one, two = (side.workload for side in run.colocation.sides)
            found.setdefault((run.session, one, two), []).append(run)
    groups = []
    for (session, one, two), listed in found.items():
        default = plain.get((session, one, two)) or _turned(plain.get((session, two, one)))
        if default is not None:
            shares = tuple((run.threads[0], run.threads[1]) for run in listed)
            progress = [[min(side.progress, 1.0) for side in run.colocation.sides] for run in listed]
            groups.append(Partitioned(default, shares, np.array(progress)))
    return tuple(groups)


def _turned(colocation: Colocation | None) -> Colocation | None:
    return None if colocation is None else Colocation(colocation.sides[::-1])


def sliced_pairs(runs: Sequence[Run]) -> tuple[TwoWays, ...]:
    """The pairs that were measured under time slicing too, in the same session."""
    plain = {
        (run.session, frozenset(side.workload for side in run.colocation.sides)): run.colocation
        for run in runs
        if run.method == "mps" and set(run.threads) == {ALL} and len(run.threads) == 2 and not run.repeat
    }
    found = []
    for run in runs:
        both = plain.get((run.session, frozenset(side.workload for side in run.colocation.sides)))
        if run.method == "slicing" and len(run.threads) == 2 and both is not None:
            one, two = ([min(side.progress, 1.0) for side in row.sides] for row in (both, run.colocation))
            names = (run.colocation.sides[0].workload, run.colocation.sides[1].workload)
            found.append(TwoWays(names, sum(one), min(one), sum(two), min(two)))
    return tuple(found)


@dataclass(frozen=True)
class Comparison:
    """What choosing a partition is worth.

    Attributes:
        choices: for each way to choose, the mean measured sum of progress and the mean of the slower side's.
        mean_abs: mean absolute error of a side's predicted progress.
    """

    choices: dict[str, tuple[float, float]]
    mean_abs: float


def compare(
    groups: Sequence[Partitioned],
    pairs: Sequence[Colocation],
    make: Callable[[], Model] = PartitionModel,
    train: Callable[[Sequence[Colocation]], Predictor] = fit_rad,
) -> Comparison:
    """Choose for every pair from a model that never saw either side's family, and judge by what was measured."""
    taken: dict[str, list[Floats]] = {}
    errors = []
    trained: dict[frozenset[str], Predictor] = {}
    for group in groups:
        strangers = [other for other in groups if not (other.families & group.families)]
        if group.families not in trained:
            kept = [row for row in pairs if not any(family(side.workload) in group.families for side in row.sides)]
            trained[group.families] = train(kept)
        model = make().fit(strangers, trained[group.families])
        predicted = model.predict([side.profile for side in group.default.sides], group.shares)
        errors.append(np.abs(predicted - group.progress))
        measured = group.progress
        chosen = {
            "no partition": group.default_progress,
            "half each": measured[group.shares.index((50, 50))] if (50, 50) in group.shares else measured[0],
            "predicted, by sum": measured[int(np.argmax(predicted.sum(axis=1)))],
            "predicted, by max-min": measured[int(np.argmax(predicted.min(axis=1)))],
            "best measured, by sum": measured[int(np.argmax(measured.sum(axis=1)))],
            "best measured, by max-min": measured[int(np.argmax(measured.min(axis=1)))],
        }
        for name, value in chosen.items():
            taken.setdefault(name, []).append(value)
    means = {
        name: (float(np.mean([value.sum() for value in values])), float(np.mean([value.min() for value in values])))
        for name, values in taken.items()
    }
    return Comparison(means, float(np.concatenate(errors).mean()))
