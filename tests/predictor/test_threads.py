"""What thread percentages do to progress, and which a job that comes gets."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictor.threads import CHOICES, Goal, Law, choose, demand
from predictor.types import Prediction, Profile
from tests.predictor.synthetic import profile

LAW = Law(scale=1.2, remains=0.1)
WIDE = dataclasses.replace(profile("wide", busy=0.95), busy=0.98, smact=0.9)
THIN = dataclasses.replace(profile("thin", busy=0.3), busy=0.9, smact=0.2)
PERCENT = st.integers(1, 100)
PART = st.floats(0.01, 1.0)


def progress(jobs: list[Profile], without: list[float], *shares: tuple[int, ...]) -> list[list[float]]:
    found: list[list[float]] = LAW.progress(jobs, np.array(without), shares).tolist()
    return found


@pytest.mark.parametrize(
    ("smact", "busy", "part"), [(0.2, 0.8, 0.25), (0.6, 0.5, 1.0), (0.2, np.nan, 1.0), (0.0, 0.0, 0.0)]
)
def test_the_part_of_the_sms_that_a_jobs_kernels_fill(smact: float, busy: float, part: float) -> None:
    assert demand(dataclasses.replace(WIDE, smact=smact, busy=busy)) == pytest.approx(part)


def test_all_threads_are_no_limit() -> None:
    assert progress([WIDE, THIN], [0.4, 0.7], (100, 100))[0] == pytest.approx([0.4, 0.7])


@given(PERCENT, PERCENT, PERCENT, PART, PART)
def test_progress_stays_in_range_and_more_threads_never_cost_a_job_beside_one_that_has_all(
    one: int, two: int, other: int, mine: float, theirs: float
) -> None:
    few, many = sorted((one, two))
    rows = progress([WIDE, THIN], [mine, theirs], (few, 100), (many, 100), (few, other))
    assert all(0.0 < value <= 1.0 for row in rows for value in row)
    assert rows[0][0] <= rows[1][0] + 1e-12
    assert rows[0][1] >= rows[1][1] - 1e-12, "the more the newcomer may use, the more its neighbour feels it"


def test_jobs_that_share_no_sm_feel_little_of_each_other() -> None:
    together, apart = progress([THIN, THIN], [0.5, 0.5], (100, 100), (50, 50))
    assert apart[0] > 0.85 > together[0]


def test_several_residents_each_with_its_own_percentage() -> None:
    rows = progress([WIDE, THIN, THIN], [0.3, 0.6, 0.6], (100, 100, 100), (50, 100, 50))
    assert rows[0] == pytest.approx([0.3, 0.6, 0.6])
    assert rows[1][1] > 0.6, "the newcomer's limit helps"


def chosen(jobs: list[Profile], said: tuple[float, ...], goal: Goal, *residents: int) -> tuple[int, Prediction]:
    return choose(LAW, jobs, Prediction(said[0], said[1:], 0.1), residents or (100,) * (len(said) - 1), goal)


def test_a_limit_is_chosen_where_it_is_worth_it() -> None:
    percentage, said = chosen([WIDE, THIN], (0.9, 0.2), "max-min", 100)
    assert percentage < 100
    assert len(said.residents) == 1
    assert said.worst_resident > 0.2 + 0.05 and said.candidate < 0.9 and said.uncertainty == 0.1
    assert chosen([THIN, WIDE], (0.2, 0.9), "max-min")[0] == 100, "the newcomer is the one that suffers"
    percentage, said = chosen([WIDE, THIN], (0.97, 0.95), "sum")
    assert percentage == 100 and said.candidate == pytest.approx(0.97), "nothing to gain"


@given(PART, PART, PERCENT, st.sampled_from(["sum", "max-min"]))
def test_what_is_chosen_is_one_of_the_choices_and_no_worse_than_no_limit(
    mine: float, theirs: float, resident: int, goal: Goal
) -> None:
    percentage, said = chosen([WIDE, THIN], (mine, theirs), goal, resident)
    free = progress([WIDE, THIN], [mine, theirs], (100, resident))[0]
    assert percentage in CHOICES
    reached = said.throughput_sum if goal == "sum" else min(said.candidate, said.worst_resident)
    least = sum(free) if goal == "sum" else min(free)
    assert reached >= least + (0.05 if percentage < 100 else 0.0) - 1e-12
