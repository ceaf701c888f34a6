"""Policy kace: the best colocation that is worth it, or a GPU of its own; and what is recorded of predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from estimator.types import Estimate
from predictor import load_predictor
from predictor.threads import Law
from predictor.types import KernelMetrics, Prediction, Predictions, Profile
from slurm_hooks.cluster import ClusterView, Gpu, Node, Resident
from slurm_hooks.config import Mps, MpsUsers, Partition
from slurm_hooks.decision import Decision, Demand, Job, Situation, decide, record_of
from slurm_hooks.directives import Directives
from slurm_hooks.interference import Interference, pack, profile_of, typical, unpack
from slurm_hooks.request import GpuRequest, Submission

REQUEST = GpuRequest("gpu:1", "", "tres_per_node", (), ":")
PROFILE = Profile(0.6, 0.2, 0.0, 0.3, 0.01, 4000.0, 12.5, 0.7, kernel=KernelMetrics(threads=1e5, turn_us=80.0))


class Halves:
    """A predictor by a simple rule: whoever shares progresses by 1 - the neighbours' SMACT."""

    name = "halves"
    version = "1"
    threads = Law(scale=1.0, remains=0.2)

    def predict(self, candidate: Profile, residents: Sequence[Profile]) -> Prediction:
        return self.predict_many(candidate, [residents])[0]

    def predict_many(self, candidate: Profile, groups: Sequence[Sequence[Profile]]) -> Predictions:
        own = np.array([math.nan if 0.123 in [r.smact for r in g] else 1 - sum(r.smact for r in g) for g in groups])
        theirs = [np.full(len(group), 1 - candidate.smact) for group in groups]
        worst = np.array([min([1.0, *side]) for side in theirs])
        offsets = np.cumsum([0, *map(len, groups)]).astype(np.intp)
        flat = np.concatenate(theirs) if theirs else np.zeros(0)
        return Predictions(own, own + np.array([s.sum() for s in theirs]), worst, own * 0, flat, offsets)


def gpu(name: str, *loads: float) -> Gpu:
    residents = tuple(Resident(i + 1, "bob", 30, 20_000, load) for i, load in enumerate(loads))
    return Gpu("n1", name, 30 * len(loads), residents)


def made(
    *gpus: Gpu,
    smact: float | None = 0.2,
    measured: float | None = None,
    predictor: bool = True,
    placement: str = "kace",
    users: MpsUsers = "multi",
    **site: Any,
) -> Decision:
    view = ClusterView(100.0, (Node("n1", True, frozenset({"gpu"}), frozenset(), 64, 64_000, gpus),))
    partition = Partition(gpu_memory_mib=102_048, placement=placement, default_smact=0.1, **site)  # type: ignore[arg-type]
    profile = None if smact is None else replace(PROFILE, smact=smact)
    demand = Demand(Estimate(30_000, 30_000, "m", "cnn", "f"), measured, profile)
    interference = Interference(Halves(), 1.1, 0.5) if predictor else None
    job = Job(Submission("", user="alice", partition="gpu"), REQUEST, Directives(), demand)
    return decide(job, partition, Situation(view, 101.0, 30.0, interference, mps=Mps(users=users)))


def test_the_highest_throughput_sum_is_chosen() -> None:
    decision = made(gpu("g0", 0.4), gpu("g1", 0.1), gpu("g2"), gpu("g3", 0.3))
    assert decision.pin is not None
    assert (decision.pin.type, decision.share) == ("g1", 30)
    assert decision.prediction is not None
    assert decision.prediction.candidate == pytest.approx(0.9)
    assert decision.reasons[-1] == "kace chose g1 of n1: predicted throughput sum 1.70"


@pytest.mark.parametrize(("load", "smact"), [(0.6, 0.2), (0.2, 0.6), (0.48, 0.48)])
def test_a_colocation_that_slows_somebody_too_much_or_gains_too_little(load: float, smact: float) -> None:
    decision = made(gpu("g0", load), gpu("g1"), smact=smact)
    assert decision.share == 100
    assert decision.cap_mib is None
    assert decision.pin is not None
    assert decision.pin.type == "g1"
    said, slowest = 2 - load - smact, 1 - max(load, smact)
    assert decision.reasons[0] == (
        f"the best colocation is predicted to give {said:.2f} with progress {slowest:.2f} of the slowest"
    )
    assert made(gpu("g0", load), smact=smact).pin is None


def test_a_higher_sum_that_slows_somebody_too_much_is_passed_over() -> None:
    decision = made(gpu("g0", 0.3, 0.3), gpu("g1", 0.1))
    assert decision.pin is not None
    assert (decision.pin.type, decision.share) == ("g1", 30)


def test_nobody_to_share_with_yet() -> None:
    decision = made(gpu("g0"), gpu("g1"), smact=0.9)
    assert decision.pin is not None
    assert (decision.share, decision.pin.type, decision.prediction) == (30, "g0", None)


def test_without_a_predictor_kace_is_magm() -> None:
    decision = made(gpu("g0", 0.1), gpu("g1"), predictor=False)
    assert decision.pin is not None
    assert decision.pin.type == "g1"


def test_a_predictor_that_knows_nothing_chooses_nothing() -> None:
    decision = made(gpu("g0", 0.123), gpu("g1"))
    assert decision.pin is not None
    assert (decision.share, decision.pin.type) == (30, "g1")


def test_other_policies_record_what_is_predicted() -> None:
    decision = made(gpu("g0", 0.4), placement="mug")
    assert decision.prediction is not None
    demand = Demand(None, None, PROFILE, pack(PROFILE))
    record = record_of(Job(Submission(""), REQUEST, Directives(), demand), decision, Partition())
    assert (record.progress, record.residents_progress, record.residents) == (0.6, (0.8,), (1,))
    assert repr(unpack(record.activity, 4000)) == repr(replace(PROFILE, origin="estimated"))


@pytest.mark.parametrize(("smact", "measured", "theirs"), [(0.2, 0.4, 0.8), (None, 0.4, 0.6), (None, None, 0.9)])
@pytest.mark.parametrize("placement", ["kace", "mug"])
def test_what_is_known_of_a_job_is_predicted_with(
    placement: str, smact: float | None, measured: float | None, theirs: float
) -> None:
    decision = made(gpu("g0", 0.1), smact=smact, measured=measured, placement=placement)
    assert decision.prediction is not None
    assert decision.prediction.residents == pytest.approx((theirs,))


def test_nothing_is_predicted_for_a_job_alone() -> None:
    assert made(gpu("g0"), placement="mug").prediction is None


def test_profiles_in_records() -> None:
    assert repr(unpack(pack(PROFILE), 4000)) == repr(replace(PROFILE, origin="estimated"))  # unknown values are NaN
    assert math.isnan(unpack(pack(PROFILE), None).kernel.mean_us)  # type: ignore[union-attr]
    for damaged in ((), (0.5,), (7.0, *pack(PROFILE)[1:]), (float("inf"), *pack(PROFILE)[1:])):
        assert unpack(damaged, 1) is None


def test_a_resident_of_which_little_is_known() -> None:
    assert repr(profile_of(Resident(1, "bob", 30), 0.25)) == repr(typical(0.25))
    assert repr(profile_of(Resident(1, "bob", 30, smact=3.0), 0.25)) == repr(typical(1.0))
    assert profile_of(Resident(1, "bob", 30, activity=pack(PROFILE)), 0.25).smact == 0.6


def test_the_shipped_predictor_takes_whatever_residents_are_there() -> None:
    known = replace(PROFILE, busy=math.nan)
    for job in (PROFILE, known, typical(0.3), typical(0.0)):
        said = load_predictor("rad").predict(job, [PROFILE, typical(0.25), typical(1.0)])
        for value in (said.candidate, *said.residents):
            assert 0 < value <= 1
        assert 0 <= said.uncertainty < 1


def test_a_job_gets_all_threads_unless_a_limit_is_asked_for() -> None:
    assert made(gpu("g0", 0.1), smact=0.45).thread_percentage == 100
    for goal in ("sum", "max-min"):
        for method in ("streams", "mig"):
            assert made(gpu("g0", 0.1), smact=0.45, threads=goal, method=method).thread_percentage == 100
        assert made(gpu("g0"), smact=0.45, threads=goal).thread_percentage == 100, "nobody is there"
        assert made(gpu("g0", 0.1), smact=0.45, threads=goal, predictor=False).thread_percentage == 100
    assert made(gpu("g0", 0.1), smact=0.1, threads="max-min").thread_percentage == 100, "nothing to gain"


@pytest.mark.parametrize("placement", ["kace", "mug"])
def test_the_partition_that_the_predictor_chooses(placement: str) -> None:
    free = made(gpu("g0", 0.1), smact=0.45, placement=placement)
    decision = made(gpu("g0", 0.1), smact=0.45, placement=placement, threads="max-min")
    assert decision.thread_percentage in (30, 50, 70)
    assert decision.pin == free.pin
    assert free.prediction is not None and decision.prediction is not None
    assert free.prediction.worst_resident == pytest.approx(0.55)
    assert decision.prediction.worst_resident > 0.6 > 0.5 < decision.prediction.candidate
    assert decision.reasons[:-1] == free.reasons
    said = decision.prediction
    assert decision.reasons[-1] == (
        f"{decision.thread_percentage} % of the threads: predicted progress of the slowest "
        f"{min(said.candidate, said.worst_resident):.2f} instead of 0.55, sum {said.throughput_sum:.2f} instead of 1.45"
    )
    stranger = made(gpu("g0", 0.1), smact=0.45, placement=placement, threads="max-min", users="single")
    assert stranger.thread_percentage == 100, "jobs with MPS servers of their own take turns"


def test_residents_keep_the_percentages_that_they_have() -> None:
    limited = gpu("g0", 0.4)
    limited = replace(limited, residents=(replace(limited.residents[0], threads=50),))
    full = made(gpu("g0", 0.4), smact=0.2, threads="max-min").prediction
    half = made(limited, smact=0.2, threads="max-min").prediction
    assert full is not None and half is not None
    assert half.candidate > full.candidate + 0.1


def test_a_predictor_that_knows_no_law_of_threads_limits_nobody() -> None:
    predictor = load_predictor("kace")
    where = gpu("g0", 0.4)
    said = predictor.predict(PROFILE, [typical(0.4)])
    assert Interference(predictor, 1.1, 0.5).limit(PROFILE, where, 0.1, said, "max-min") == (100, said)
    unknown = Prediction(math.nan, (0.5,), 0.1)
    assert Interference(Halves(), 1.1, 0.5).limit(PROFILE, where, 0.1, unknown, "max-min") == (100, unknown)
