"""KACE (SoCC'24): linear regression of the throughput sum on exclusive profiles. Pure.

Source: Han, Paul, Liu, Gandhi, "KACE: Kernel-Aware Colocation for Efficient GPU Spatial Sharing". Pair features
are sums of absolute metrics and averages of percentages; they are standardised, without which the fits on a few
dozen pairs are ill-conditioned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from predictor.artifact import Colocation, workloads_of
from predictor.types import (
    Floats,
    Prediction,
    Predictions,
    Profile,
    ProfileError,
    WeightsError,
    nowhere,
    offsets_of,
)

FORMAT = "rad-kace-1"
MIN_PROGRESS = 0.01


def _or(measured: float, counter: float, busy: float) -> float:
    """Nsight Compute's throughput while kernels run or, where it was not asked, what the counters say of that time."""
    if not math.isnan(measured) or math.isnan(busy) or busy <= 0.0:
        return measured
    return min(counter / busy, 1.0)


SUMMED: tuple[tuple[str, Callable[[Profile], float]], ...] = (
    ("threads", lambda p: p.kernel.threads),
    ("registers", lambda p: p.kernel.registers),
    ("static_shared_bytes", lambda p: p.kernel.static_shared_bytes),
    ("memory_mib", lambda p: p.memory_mib),
    ("throughput", lambda p: p.throughput),
)
AVERAGED: tuple[tuple[str, Callable[[Profile], float]], ...] = (
    ("sm_throughput", lambda p: _or(p.kernel.sm_throughput, p.smact, p.busy)),
    ("dram_throughput", lambda p: _or(p.kernel.dram_throughput, p.dram, p.busy)),
    ("memory_throughput", lambda p: _or(p.kernel.memory_throughput, max(p.dram, p.smact / 2.0), p.busy)),
    ("busy", lambda p: p.busy),
    ("dram", lambda p: p.dram),
)
FEATURE_NAMES = tuple(name for name, _ in SUMMED + AVERAGED)


def metrics_of(profiles: Sequence[Profile]) -> Floats:
    """KACE's metrics of each workload, shape (profiles, 10); NaN where a profile lacks one."""
    metrics = [metric for _, metric in SUMMED + AVERAGED]
    return np.array([[metric(profile) for metric in metrics] for profile in profiles], dtype=np.float64)


def pair_features(profiles: Sequence[Profile], fill: Floats | None = None) -> Floats:
    """KACE's features of workloads that share a GPU, shape (10,), in the order of ``FEATURE_NAMES``.

    Args:
        profiles: of the workloads.
        fill: shape (10,), what stands in for metrics that a profile lacks.

    Raises:
        ProfileError: a profile lacks a kernel metric that KACE needs, and nothing stands in for it.
    """
    values = metrics_of(profiles)
    if fill is not None:
        values = np.where(np.isnan(values), fill, values)
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
    return np.array([pair_features(row.profiles) for row in colocations])


@dataclass(frozen=True)
class LinearFit:
    """A standardised linear regression; a feature that never varied has weight 0.

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


def fit_linear(features: Floats, target: Floats) -> LinearFit:
    """Least squares on standardised features, the minimum-norm solution where rows are few.

    Every feature that varies is kept: the artifact can drop those that hardly correlate with the target, but none was
    dropped in what KACE published.
    """
    mean, scale = features.mean(axis=0), features.std(axis=0)
    varies = scale > 0
    scale[~varies] = 1.0
    standard = ((features - mean) / scale)[:, varies]
    weights = np.zeros(features.shape[1])
    weights[varies] = np.linalg.lstsq(standard, target - target.mean(), rcond=None)[0]
    return LinearFit(mean, scale, weights, float(target.mean()))


class Kace:
    """The model as KACE evaluates it: predicts the sum of raw throughputs of a colocation."""

    def __init__(self) -> None:
        self._fit: LinearFit | None = None

    def fit(self, colocations: Sequence[Colocation]) -> Kace:
        """Fit to measured colocations."""
        target = np.array([row.throughput_sum for row in colocations])
        self._fit = fit_linear(features_of(colocations), target)
        return self

    def predict(self, colocations: Sequence[Colocation]) -> Floats:
        """Predicted throughput sums, shape (colocations,)."""
        if self._fit is None:
            raise RuntimeError("kace is not fitted")
        return self._fit.predict(features_of(colocations))


class KacePredictor:
    """KACE behind the seam that decisions use.

    It predicts a sum, here of relative progress, and says nothing of the sides: each gets an equal part. A metric
    that a profile lacks counts as the average of the training workloads.

    Args:
        model: fit of the sum of progress on :func:`pair_features`.
        fill: shape (10,), averages that stand in for missing metrics.
        residual: standard deviation of one side's progress around the equal part.
        version: what the service's log names.
    """

    name = "kace"
    threads = None

    def __init__(self, model: LinearFit, fill: Floats, residual: float, version: str = "unversioned") -> None:
        self.model, self.fill, self.residual, self.version = model, fill, residual, version

    def predict(self, candidate: Profile, residents: Sequence[Profile]) -> Prediction:
        """Predict the progress of ``candidate`` beside ``residents``, and theirs."""
        return self.predict_many(candidate, [residents])[0]

    def predict_many(self, candidate: Profile, groups: Sequence[Sequence[Profile]]) -> Predictions:
        """Predict ``candidate`` on each group of residents: one call for all GPUs of a cluster."""
        if not groups:
            return nowhere()
        offsets = offsets_of([1 + len(group) for group in groups])
        sizes = np.diff(offsets)
        values = metrics_of([profile for group in groups for profile in (candidate, *group)])
        values = np.where(np.isnan(values), self.fill, values)
        features = np.add.reduceat(values, offsets[:-1], axis=0)
        features[:, len(SUMMED) :] /= sizes[:, None]
        part = np.clip(self.model.predict(features) / sizes, MIN_PROGRESS, 1.0)
        part = np.where(sizes == 1, 1.0, part)
        return Predictions(
            candidate=part,
            throughput_sum=part * sizes,
            worst_resident=part.copy(),
            uncertainty=np.where(sizes == 1, 0.0, self.residual),
            residents=np.repeat(part, sizes - 1),
            offsets=(offsets - np.arange(len(offsets))).astype(np.intp),
        )


def fit_predictor(colocations: Sequence[Colocation]) -> KacePredictor:
    """Fit the predictor to measured colocations, its target the sum of relative progress."""
    profiles = list(workloads_of(colocations).values())
    metrics = metrics_of(profiles)
    known = ~np.isnan(metrics)
    fill = np.where(known, metrics, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    features = np.array([pair_features(row.profiles, fill) for row in colocations])
    model = fit_linear(features, np.array([sum(side.progress for side in row.sides) for row in colocations]))
    predictor = KacePredictor(model, fill, 0.0)
    errors: list[float] = []
    for row in colocations:
        found = predictor.predict(row.profiles[0], row.profiles[1:])
        errors.extend(side.progress - found.candidate for side in row.sides)
    return KacePredictor(model, fill, float(np.std(errors)))


def to_json(predictor: KacePredictor, note: str) -> str:
    """Weights as JSON text."""
    model = predictor.model
    arrays = {"mean": model.mean, "scale": model.scale, "weights": model.weights, "fill": predictor.fill}
    content = {"format": FORMAT, "note": note, "bias": model.bias, "residual": predictor.residual}
    return json.dumps(content | {key: [float(v) for v in value] for key, value in arrays.items()}, indent=1) + "\n"


def from_json(text: str, where: str, version: str = "unversioned") -> KacePredictor:
    """Weights back from JSON.

    Raises:
        WeightsError: the text is no such JSON, or its shapes do not fit together.
    """
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise WeightsError(f"{where}: format {content['format']!r}, expected {FORMAT!r}: retrain it")
        mean, scale, weights, fill = (
            np.array(content[key], dtype=np.float64) for key in ("mean", "scale", "weights", "fill")
        )
        bias, residual = float(content["bias"]), float(content["residual"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        if isinstance(error, WeightsError):
            raise
        raise WeightsError(f"{where}: not a file of weights ({error}): run `radctl retrain interference`") from error
    parts = (mean, scale, weights, fill, np.array([bias, residual]))
    if any(part.shape != (len(FEATURE_NAMES),) for part in parts[:4]) or not all(
        np.isfinite(part).all() for part in parts
    ):
        raise WeightsError(f"{where}: weights of the wrong shape or not finite: run `radctl retrain interference`")
    return KacePredictor(LinearFit(mean, scale, weights, bias), fill, residual, version)
