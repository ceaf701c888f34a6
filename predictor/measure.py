"""The measure of KACE: how much of the oracle's throughput sum a way to choose neighbours reaches. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from predictor.types import Floats


class Measured(Protocol):
    """A measured colocation, whatever else is known of it."""

    @property
    def workloads(self) -> tuple[str, ...]:
        """Names of the workloads that took part, each once."""

    @property
    def throughput_sum(self) -> float:
        """Sum of the throughputs that they reached together."""


M = TypeVar("M", bound=Measured)
Chooser = Callable[[str, Sequence[M]], int]


@dataclass(frozen=True)
class Score:
    """How well a model chooses.

    Attributes:
        n_targets: workloads that were a target once each.
        oracle_fraction: mean over targets of the chosen colocation's measured sum over the best one's.
        r2: coefficient of determination of the predicted sums, or NaN for a policy that predicts none.
    """

    n_targets: int
    oracle_fraction: float
    r2: float


def targets_of(colocations: Sequence[Measured]) -> dict[str, list[int]]:
    """For every workload, the colocations it takes part in: its candidates."""
    found: dict[str, list[int]] = {}
    for index, colocation in enumerate(colocations):
        for workload in colocation.workloads:
            found.setdefault(workload, []).append(index)
    return dict(sorted(found.items()))


def fractions(colocations: Sequence[M], choose: Chooser[M]) -> dict[str, float]:
    """Fraction of the oracle's sum for every target, by what ``choose`` picks among its candidates."""
    result = {}
    for target, indices in targets_of(colocations).items():
        candidates = [colocations[index] for index in indices]
        sums = [candidate.throughput_sum for candidate in candidates]
        result[target] = sums[choose(target, candidates)] / max(sums)
    return result


def random_fractions(colocations: Sequence[Measured]) -> dict[str, float]:
    """The policy "random": the mean over all candidates, for every target."""
    result = {}
    for target, indices in targets_of(colocations).items():
        sums = np.array([colocations[index].throughput_sum for index in indices])
        result[target] = float(sums.mean() / sums.max())
    return result


def r2(actual: Floats, predicted: Floats) -> float:
    """Coefficient of determination; 0 is as good as the mean."""
    spread = float(np.sum((actual - actual.mean()) ** 2))
    error = float(np.sum((actual - predicted) ** 2))
    return 1.0 - error / spread if spread > 0 else float("nan")


def choices(colocations: Sequence[Measured], predicted: Floats) -> dict[str, float]:
    """Fraction of the oracle's sum for every target, by the largest predicted sum."""
    order = {id(colocation): index for index, colocation in enumerate(colocations)}

    def choose(_target: str, candidates: Sequence[Measured]) -> int:
        return int(np.argmax([predicted[order[id(candidate)]] for candidate in candidates]))

    return fractions(colocations, choose)


def score(colocations: Sequence[Measured], predicted: Floats) -> Score:
    """Score of predicted throughput sums, one for each colocation."""
    each = choices(colocations, predicted)
    actual = np.array([colocation.throughput_sum for colocation in colocations])
    return Score(len(each), float(np.mean(list(each.values()))), r2(actual, predicted))
