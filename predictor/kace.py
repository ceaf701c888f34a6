"""KACE (SoCC'24): linear regression of the throughput sum on exclusive profiles. Pure.

Source: Han, Paul, Liu, Gandhi, "KACE: Kernel-Aware Colocation for Efficient GPU Spatial Sharing". Pair features
are sums of absolute metrics and averages of percentages; they are standardised, without which the fits on a few
dozen pairs are ill-conditioned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from predictor.artifact import Colocation
from predictor.types import Floats, Profile, ProfileError

SUMMED: tuple[tuple[str, Callable[[Profile], float]], ...] = (
    ("threads", lambda p: p.kernel.threads),
    ("registers", lambda p: p.kernel.registers),
    ("static_shared_bytes", lambda p: p.kernel.static_shared_bytes),
    ("memory_mib", lambda p: p.memory_mib),
    ("throughput", lambda p: p.throughput),
)
AVERAGED: tuple[tuple[str, Callable[[Profile], float]], ...] = (
    ("sm_throughput", lambda p: p.kernel.sm_throughput),
    ("dram_throughput", lambda p: p.kernel.dram_throughput),
    ("memory_throughput", lambda p: p.kernel.memory_throughput),
    ("busy", lambda p: p.busy),
    ("dram", lambda p: p.dram),
)
FEATURE_NAMES = tuple(name for name, _ in SUMMED + AVERAGED)


def pair_features(profiles: Sequence[Profile]) -> Floats:
    """KACE's features of workloads that share a GPU, shape (10,), in the order of ``FEATURE_NAMES``.

    Raises:
        ProfileError: a profile lacks a kernel metric that KACE needs.
    """
    values = np.array([[metric(profile) for _, metric in SUMMED + AVERAGED] for profile in profiles])
    if np.isnan(values).any():
        row, column = (int(index[0]) for index in np.nonzero(np.isnan(values)))
        raise ProfileError(
            f"profile {profiles[row].name!r} has no {FEATURE_NAMES[column]}; kace needs the kernel metrics of "
            "every workload: profile it with `radctl profile`, or use the predictor rad"
        )
    total: Floats = values.sum(axis=0)
    total[len(SUMMED) :] /= len(profiles)
    return total


def features_of(colocations: Sequence[Colocation]) -> Floats:
    """Features of many colocations, shape (colocations, 10)."""
    return np.array([pair_features([side.profile for side in row.sides]) for row in colocations])


@dataclass(frozen=True)
class LinearFit:
    """A standardised linear regression; a feature that was not selected has weight 0.

    Attributes:
        mean: shape (features,), subtracted from the features.
        scale: shape (features,), divides them.
        weights: shape (features,).
        bias: predicted sum at the mean.
    """

    mean: Floats
    scale: Floats
    weights: Floats
    bias: float

    def predict(self, features: Floats) -> Floats:
        """Throughput sums for features of shape (rows, features)."""
        result: Floats = self.bias + ((features - self.mean) / self.scale) @ self.weights
        return result


def select(features: Floats, target: Floats, min_correlation: float) -> list[int]:
    """Features whose absolute correlation with the target is not below ``min_correlation``.

    The artifact's selection; its published runs used 0, which keeps every feature that varies.
    """
    kept = []
    for column in range(features.shape[1]):
        values = features[:, column]
        if values.std() > 0 and abs(float(np.corrcoef(values, target)[0, 1])) >= min_correlation:
            kept.append(column)
    return kept


def fit_linear(features: Floats, target: Floats, min_correlation: float = 0.0) -> LinearFit:
    """Least squares on standardised features, the minimum-norm solution where rows are few."""
    kept = select(features, target, min_correlation)
    mean = features.mean(axis=0)
    scale = features.std(axis=0)
    scale[scale == 0] = 1.0
    standard = ((features - mean) / scale)[:, kept]
    solution, *_ = np.linalg.lstsq(standard, target - target.mean(), rcond=None)
    weights = np.zeros(features.shape[1])
    weights[kept] = solution
    return LinearFit(mean, scale, weights, float(target.mean()))


class Kace:
    """The model as KACE evaluates it: predicts the sum of raw throughputs of a colocation."""

    name = "kace"

    def __init__(self, min_correlation: float = 0.0) -> None:
        if not (math.isfinite(min_correlation) and 0.0 <= min_correlation < 1.0):
            raise ValueError(f"min_correlation is {min_correlation}, it must lie in [0, 1)")
        self.min_correlation = min_correlation
        self._fit: LinearFit | None = None

    def fit(self, colocations: Sequence[Colocation]) -> Kace:
        """Fit to measured colocations."""
        target = np.array([row.throughput_sum for row in colocations])
        self._fit = fit_linear(features_of(colocations), target, self.min_correlation)
        return self

    def predict(self, colocations: Sequence[Colocation]) -> Floats:
        """Predicted throughput sums, shape (colocations,)."""
        if self._fit is None:
            raise RuntimeError("kace is not fitted")
        return self._fit.predict(features_of(colocations))
