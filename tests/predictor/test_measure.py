from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from predictor.measure import choices, r2, random_fractions, score, targets_of


@dataclass(frozen=True)
class Row:
    workloads: tuple[str, ...]
    throughput_sum: float


ROWS = [Row(("a", "b"), 10.0), Row(("a", "c"), 20.0), Row(("b", "c"), 5.0), Row(("a",), 8.0)]


def test_every_workload_is_a_target_with_all_its_rows() -> None:
    assert targets_of(ROWS) == {"a": [0, 1, 3], "b": [0, 2], "c": [1, 2]}


def test_oracle_scores_one() -> None:
    found = score(ROWS, np.array([row.throughput_sum for row in ROWS]))
    assert (found.n_targets, found.oracle_fraction, found.r2) == (3, 1.0, 1.0)


def test_choice_is_by_prediction_and_judged_by_measurement() -> None:
    predicted = np.array([9.0, 1.0, 2.0, 3.0])
    assert choices(ROWS, predicted) == {"a": 0.5, "b": 1.0, "c": 0.25}


def test_random_is_the_mean_over_candidates() -> None:
    found = random_fractions(ROWS)
    assert found["a"] == pytest.approx((10 + 20 + 8) / 3 / 20)
    assert found["b"] == pytest.approx(0.75)


def test_r2() -> None:
    actual = np.array([1.0, 2.0, 3.0])
    assert r2(actual, np.full(3, 2.0)) == 0.0
    assert r2(actual, actual + 1.0) == pytest.approx(1 - 3 / 2)
    assert np.isnan(r2(np.ones(3), actual))
