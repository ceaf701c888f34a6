"""Measured thread partitions: fit the law of :mod:`predictor.threads` to them, and judge choices by them. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from predictor.artifact import Colocation
from predictor.measurements import Run, family
from predictor.threads import ALL, WORTH, Law, felt, limited
from predictor.types import Floats, Predictor, Profile

DEMANDS: tuple[float, ...] = tuple(np.linspace(0.4, 1.6, 13))
UNDER_MPS = ("mps", "swept")
"""How pairs are measured under percentages: in a phase of its own, or swept through them one after another."""
REMAINS: tuple[float, ...] = tuple(np.linspace(0.0, 1.0, 11))


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
        return np.array(self.default.progress)


@dataclass(frozen=True)
class TwoWays:
    """One pair under MPS and under time slicing: sums of progress and the slower side's."""

    names: tuple[str, str]
    mps_sum: float
    mps_least: float
    sliced_sum: float
    sliced_least: float


class PartitionModel:
    """Two numbers on top of a predictor: the scale of a job's demand for SMs, and how much contention remains."""

    def fit(self, groups: Sequence[Partitioned], predictor: Predictor) -> PartitionModel:
        """Choose both numbers by the least mean absolute error."""
        self.predictor = predictor
        # What is predicted without partitions does not depend on either number, each factor of the law on one.
        without = [_without(predictor, group.default.profiles) for group in groups]
        alone = {scale: [limited(scale, group.default.profiles, group.shares) for group in groups] for scale in DEMANDS}
        beside = {
            remains: [known ** felt(remains, group.shares) for group, known in zip(groups, without, strict=True)]
            for remains in REMAINS
        }

        def error(candidate: tuple[float, float]) -> float:
            scale, remains = candidate
            errors = [
                np.abs(one * other - group.progress)
                for one, other, group in zip(alone[scale], beside[remains], groups, strict=True)
            ]
            return float(np.concatenate(errors).mean())

        self.law = Law(*min(itertools.product(DEMANDS, REMAINS), key=error))
        return self

    def predict(self, jobs: Sequence[Profile], shares: Sequence[Sequence[int]]) -> Floats:
        """Progress of all sides, shape (partitions, sides)."""
        return self.law.progress(jobs, _without(self.predictor, jobs), shares)


def _without(predictor: Predictor, jobs: Sequence[Profile]) -> Floats:
    return np.array(predictor.predict(jobs[0], jobs[1:]).sides)


def partitioned_pairs(runs: Sequence[Run]) -> tuple[Partitioned, ...]:
    """The pairs that were measured under partitions of all threads, each in the last session that did so.

    With what they reached without any in the same session.
    """
    latest = {frozenset(_names(group)): group for group in _groups(runs, lambda one, two: one + two == ALL)}
    return tuple(latest.values())


def newcomers(runs: Sequence[Run]) -> tuple[Partitioned, ...]:
    """The pairs of which one side had all threads and the other, which counts as the one that came, fewer.

    The one that came is the first side, and the partitions of each hold the one in which it has all threads too.
    """
    found = []
    for group in _groups(runs, lambda one, two: (one == ALL) != (two == ALL)):
        for came in (0, 1):
            kept = [place for place, shares in enumerate(group.shares) if shares[came] != ALL]
            if kept:
                sides = group.default.sides[:: 1 - 2 * came]
                rows = [group.default_progress, *(group.progress[place] for place in kept)]
                shares = ((ALL, ALL), *((group.shares[place][came], ALL) for place in kept))
                found.append(Partitioned(Colocation(sides), shares, np.array(rows)[:, :: 1 - 2 * came]))
    return tuple(found)


def alone(runs: Sequence[Run]) -> dict[int, float]:
    """What jobs reach alone under a thread percentage: mean progress by percentage, at most 1 for each job."""
    found: dict[int, list[float]] = {}
    for run in runs:
        if run.method == "mps" and len(run.threads) == 1:
            found.setdefault(run.threads[0], []).append(run.colocation.progress[0])
    return {percentage: float(np.mean(each)) for percentage, each in found.items()}


def differences(runs: Sequence[Run]) -> list[float]:
    """By how much each side's progress differs between two sessions that measured it under the same partition."""
    found: dict[frozenset[tuple[str, int]], list[dict[tuple[str, int], float]]] = {}
    for group in _groups(runs, lambda one, two: one + two == ALL):
        for shares, progress in zip(group.shares, group.progress, strict=True):
            sides = dict(zip(zip(_names(group), shares, strict=True), map(float, progress), strict=True))
            found.setdefault(frozenset(sides), []).append(sides)
    return [abs(each[0][key] - each[1][key]) for each in found.values() if each[1:] for key in each[0]]


def _names(group: Partitioned) -> tuple[str, str]:
    one, two = (side.workload for side in group.default.sides)
    return one, two


def _groups(runs: Sequence[Run], wanted: Callable[[int, int], bool]) -> list[Partitioned]:
    """The pairs of each session under the wanted percentages, with what they reached without in the same session."""
    under = [run for run in runs if run.method in UNDER_MPS and len(run.threads) == 2 and not run.repeat]
    plain = {_key(run): run.colocation for run in under if set(run.threads) == {ALL}}
    found: dict[tuple[int, str, str, str], list[Run]] = {}
    for run in under:
        if wanted(*run.threads) and set(run.threads) != {ALL}:
            found.setdefault(_key(run), []).append(run)
    groups = []
    for (session, method, one, two), listed in sorted(found.items(), key=lambda item: item[0][0]):
        default = plain.get((session, method, one, two)) or _turned(plain.get((session, method, two, one)))
        if default is not None:
            shares = tuple((run.threads[0], run.threads[1]) for run in listed)
            progress = [run.colocation.progress for run in listed]
            groups.append(Partitioned(default, shares, np.array(progress)))
    return groups


def _key(run: Run) -> tuple[int, str, str, str]:
    one, two = (side.workload for side in run.colocation.sides)
    return run.session, run.method, one, two


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
            one, two = both.progress, run.colocation.progress
            names = (run.colocation.sides[0].workload, run.colocation.sides[1].workload)
            found.append(TwoWays(names, sum(one), min(one), sum(two), min(two)))
    return tuple(found)


@dataclass(frozen=True)
class Comparison:
    """What choosing percentages is worth.

    Attributes:
        choices: for each way to choose, the mean measured sum of progress and the mean of the slower side's.
        mean_abs: mean absolute error of a side's predicted progress.
    """

    choices: dict[str, tuple[float, float]]
    mean_abs: float


def compare(
    groups: Sequence[Partitioned],
    pairs: Sequence[Colocation],
    train: Callable[[Sequence[Colocation]], Predictor],
) -> Comparison:
    """Choose a partition for every pair from a model that never saw either side's family; judge by what was measured.

    The partitions that are chosen among include, for a newcomer, the one without a limit.
    """
    taken: dict[str, list[Floats]] = {}
    errors = []
    trained: dict[frozenset[str], Predictor] = {}
    for group in groups:
        strangers = [other for other in groups if not (other.families & group.families)]
        if group.families not in trained:
            kept = [row for row in pairs if not any(family(side.workload) in group.families for side in row.sides)]
            trained[group.families] = train(kept)
        model = PartitionModel().fit(strangers, trained[group.families])
        predicted = model.predict(group.default.profiles, group.shares)
        errors.append(np.abs(predicted - group.progress))
        for name, value in chosen(group, predicted).items():
            taken.setdefault(name, []).append(value)
    means = {
        name: (float(np.mean([value.sum() for value in values])), float(np.mean([np.min(value) for value in values])))
        for name, values in taken.items()
    }
    return Comparison(means, float(np.concatenate(errors).mean()))


def chosen(group: Partitioned, predicted: Floats) -> dict[str, Floats]:
    """What both sides reached by each way to choose."""
    measured = group.progress

    def best(values: Floats, worth: float) -> list[Floats]:
        """By sum, by max-min; a newcomer is limited only where that gains ``worth``."""
        gain = np.array([0.0 if shares == (ALL, ALL) else worth for shares in group.shares])
        return [measured[int(np.argmax(goal - gain))] for goal in (values.sum(axis=1), values.min(axis=1))]

    by_sum, by_least = best(predicted, WORTH)
    best_sum, best_least = best(measured, 0.0)
    ways = {"no partition": group.default_progress}
    if (50, 50) in group.shares:
        ways["half each"] = measured[group.shares.index((50, 50))]
    return ways | {
        "predicted, by sum": by_sum,
        "predicted, by max-min": by_least,
        "best measured, by sum": best_sum,
        "best measured, by max-min": best_least,
    }
