"""Measured workloads are known again by profile, and a busier neighbour never helps for it."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor.artifact import Colocation
from predictor.contention import KNOWN_ALWAYS, Settings
from predictor.fitting import fit
from predictor.known import REACH, STEEP, Known, nobody
from predictor.rad import RadPredictor
from predictor.types import Profile
from tests.predictor.synthetic import every_pair, workloads

FOUND = workloads(12)
# The heaviest: nobody who is busier contradicts what it shows.
ODD = max(FOUND, key=lambda name: FOUND[name].smact * FOUND[name].kernel.mean_us)
LAW = Settings(activity=(), press=("smact", "mean_us"), own=("mean_us",), turns=(), alone_sd=0.005)


def oddly(rows: list[Colocation], suffer: float, press: float) -> list[Colocation]:
    """The same, but one workload suffers and presses more than its profile tells."""
    made = []
    for row in rows:
        sides = []
        for own, other in (row.sides, row.sides[::-1]):
            factor = suffer * (own.workload == ODD) + press * (other.workload == ODD)
            progress = 1.0 / (1.0 + (1.0 / own.progress - 1.0) * np.exp(factor))
            sides.append(dataclasses.replace(own, throughput=own.profile.throughput * progress))
        made.append(dataclasses.replace(row, sides=tuple(sides)))
    return made


MODEL = fit(oddly(every_pair(FOUND, noise=0.005), 0.8, 1.2), LAW)
PREDICTOR = RadPredictor(MODEL)
LISTED = list(FOUND.values())


def moved(one: Profile, factor: float) -> Profile:
    """The same with kernels that last so many times as long."""
    return dataclasses.replace(one, kernel=dataclasses.replace(one.kernel, mean_us=one.kernel.mean_us * factor))


def test_a_measured_workload_is_known_by_its_profile_alone() -> None:
    for one, two in ((ODD, LISTED[0].name), (LISTED[7].name, ODD)):
        sides = [FOUND[one], FOUND[two]]
        offsets = np.array([0, 2])
        named, _ = MODEL.sides(sides, offsets, [one, two])
        found = PREDICTOR.predict(sides[0], sides[1:])
        assert [found.candidate, *found.residents] == pytest.approx(list(named), abs=0.04)


def test_a_stranger_is_not_and_is_less_certain() -> None:
    other = LISTED[0]
    same = PREDICTOR.predict(FOUND[ODD], [other])
    near = PREDICTOR.predict(moved(FOUND[ODD], np.exp(REACH / 4)), [other])
    far = PREDICTOR.predict(moved(FOUND[ODD], np.exp(2 * REACH)), [other])
    forgotten = dataclasses.replace(MODEL.known, suffer=np.zeros(len(LISTED)))
    plain = RadPredictor(dataclasses.replace(MODEL, known=forgotten))
    stranger = plain.predict(moved(FOUND[ODD], np.exp(2 * REACH)), [other])
    assert far.candidate == pytest.approx(stranger.candidate)
    assert same.candidate < near.candidate < far.candidate
    assert same.uncertainty < far.uncertainty


@settings(max_examples=80, deadline=None)
@given(
    place=st.integers(0, len(LISTED) - 1),
    me=st.integers(0, len(LISTED) - 1),
    length=st.floats(-0.3, 0.3),
    busier=st.floats(0.0, 0.3),
    longer=st.floats(0.0, 0.5),
)
def test_a_busier_neighbour_never_helps_near_what_was_measured(
    place: int, me: int, length: float, busier: float, longer: float
) -> None:
    calm = moved(LISTED[place], np.exp(length))
    wild = moved(dataclasses.replace(calm, smact=min(1.0, calm.smact + busier)), np.exp(longer))
    before = PREDICTOR.predict(LISTED[me], [calm, LISTED[3]])
    after = PREDICTOR.predict(LISTED[me], [wild, LISTED[3]])
    assert after.candidate <= before.candidate + 1e-12
    assert after.residents[1] <= before.residents[1] + 1e-12


def test_more_activity_never_suggests_shorter_kernels() -> None:
    # Here the busier a workload is, the shorter its kernels: a guess must not follow that, or being busier would help.
    found = {
        name: dataclasses.replace(one, kernel=dataclasses.replace(one.kernel, mean_us=5.0 / one.busy**3))
        for name, one in FOUND.items()
    }
    model = fit(every_pair(found), LAW)
    activity = [KNOWN_ALWAYS.index(name) for name in ("busy", "smact")]
    assert (model.guess[:, activity] >= 0.0).all()
    assert (MODEL.guess[:, activity] > 0.0).any()


def test_bounds_hold_what_was_shown_and_give_way_to_the_law() -> None:
    weights = np.array([1.0, 0.0, 0.5])
    known = Known(np.array([[0.0, 0.0, 0.0]]), np.zeros(1), np.array([0.4]), np.zeros(1), np.ones(1))
    at = known.pressure(np.array([[0.0, 9.0, 0.0], [0.05, 0.0, 0.0], [-0.1, 0.0, 0.0], [-5.0, 0.0, 0.0]]), weights)
    assert at == pytest.approx([0.4, 0.4, 0.4 - 0.1 * (1.0 + STEEP), -5.0])
    assert known.pressure(np.array([[1.0, 0.0, 0.0]]), weights) == pytest.approx([1.0])
    assert nobody().pressure(np.array([[1.0, 2.0, 2.0]]), weights) == pytest.approx([2.0])


def test_workloads_that_contradict_each_other_meet_halfway() -> None:
    weights = np.array([1.0])
    known = Known(np.array([[0.0], [0.1]]), np.zeros(2), np.array([1.0, -1.0]), np.zeros(2), np.ones(2))
    low, high = known.pressure(known.places, weights)
    # The first pressed 1.0 and the second, who is busier, -0.9: no more than slope times distance may lie between.
    assert low <= high <= low + 0.1 * (1.0 + STEEP) + 1e-12
    assert low == pytest.approx((1.0 + (-0.9)) / 2, abs=0.2)


def test_an_exclusive_throughput_of_a_lucky_moment_is_known_again() -> None:
    lucky = dataclasses.replace(FOUND[ODD], throughput=FOUND[ODD].throughput * 1.25)
    rows = []
    for row in every_pair(FOUND, noise=0.005):
        sides = tuple(dataclasses.replace(side, profile=lucky) if side.workload == ODD else side for side in row.sides)
        rows.append(dataclasses.replace(row, sides=sides))
    predictor = RadPredictor(fit(rows, dataclasses.replace(LAW, alone_sd=0.1)))
    light = dataclasses.replace(LISTED[0], smact=0.01)
    assert predictor.predict(lucky, [light]).candidate == pytest.approx(0.8, abs=0.05)
    assert predictor.predict(moved(lucky, 2.0), [light]).candidate > 0.95
    assert predictor.predict(lucky, []).candidate == 1.0


def test_pressure_is_monotone_whatever_was_measured() -> None:
    chance = random.Random(5)
    points = np.array([[chance.gauss(0, 1) for _ in range(3)] for _ in range(30)])
    known = Known(points, np.zeros(30), np.array([chance.gauss(0, 1) for _ in range(30)]), np.zeros(30), np.ones(30))
    weights = np.array([0.5, 0.1, 1.0])
    less = np.array([[chance.gauss(0, 1) for _ in range(3)] for _ in range(500)])
    more = less + np.array([[max(0.0, chance.gauss(0, 0.3)) for _ in range(3)] for _ in range(500)])
    assert (known.pressure(more, weights) >= known.pressure(less, weights) - 1e-12).all()


def test_whom_several_measured_workloads_are_like_has_of_each_by_its_nearness() -> None:
    places = np.array([[0.0], [REACH / 2]])
    known = Known(places, np.array([2.0, 4.0]), np.zeros(2), np.array([1.0, -2.0]), np.array([0.5, 0.2]))
    between, beyond, far = np.array([[REACH / 4], [1.25 * REACH], [3 * REACH]])
    suffer, alone, variance = known.alike(np.array([between, beyond, far]), 1.0)
    assert suffer == pytest.approx([3.0, 1.0, 0.0])
    assert alone == pytest.approx([-0.5, -0.5, 0.0])
    assert variance == pytest.approx([0.4, 0.8, 1.0])
