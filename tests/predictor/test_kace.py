from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from predictor.artifact import Colocation, Side
from predictor.kace import FEATURE_NAMES, Kace, features_of, fit_linear, pair_features
from predictor.types import KernelMetrics, ProfileError
from tests.predictor.synthetic import every_pair, profile, workloads

PAIRS = every_pair(workloads())


def test_absolute_metrics_are_summed_and_percentages_averaged() -> None:
    one, two = profile("a", busy=0.2, threads=1e4), profile("b", busy=0.6, threads=3e4)
    found = dict(zip(FEATURE_NAMES, pair_features([one, two]), strict=True))
    assert found["threads"] == 4e4
    assert found["throughput"] == 200.0
    assert found["busy"] == pytest.approx(0.4)
    assert found["sm_throughput"] == pytest.approx((one.kernel.sm_throughput + two.kernel.sm_throughput) / 2)


def test_order_of_sides_does_not_matter() -> None:
    one, two = profile("a", busy=0.2), profile("b", busy=0.6, threads=3e4)
    assert np.array_equal(pair_features([one, two]), pair_features([two, one]))


def test_recovers_a_linear_law() -> None:
    chance = random.Random(1)
    weights = np.array([chance.uniform(0.1, 1.0) for _ in FEATURE_NAMES])
    scale = features_of(PAIRS).std(axis=0)
    lawful = []
    for row in PAIRS:
        total = float(pair_features([side.profile for side in row.sides]) / scale @ weights)
        sides = tuple(Side(side.workload, side.profile, total / 2) for side in row.sides)
        lawful.append(Colocation(sides))
    model = Kace().fit(lawful[::2])
    assert model.predict(lawful[1::2]) == pytest.approx([row.throughput_sum for row in lawful[1::2]])


def test_a_constant_feature_does_no_harm() -> None:
    features = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]])
    fitted = fit_linear(features, np.array([2.0, 4.0, 6.0]))
    assert fitted.predict(np.array([[4.0, 5.0]])) == pytest.approx([8.0])
    assert fitted.weights[1] == 0.0


def test_a_profile_without_kernel_metrics_is_refused_with_a_cure() -> None:
    bare = dataclasses.replace(profile("bare"), kernel=KernelMetrics())
    with pytest.raises(ProfileError, match=r"'bare' has no threads.*radctl profile"):
        pair_features([profile("a"), bare])


def test_misuse() -> None:
    with pytest.raises(RuntimeError, match="not fitted"):
        Kace().predict(PAIRS)
