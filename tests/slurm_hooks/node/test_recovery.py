from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from slurm_hooks.config import Partition, Recovery
from slurm_hooks.node.recovery import Ended, Site, died_of_memory, grown, judge, requeued, with_run
from slurm_hooks.records import Record, Run, decode, encode

PARTITION = Partition(gpu_memory_mib=81920)
SITE = Site(PARTITION, 81920 - 2048, Recovery(), can_retype=False)
RECORD = Record(action="share", share=30, upper_mib=23000)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
ENDED = Ended(
    job="4711",
    restart=0,
    exit_status=1,
    exit_signal=0,
    reason="NonZeroExitCode",
    share=30,
    cap_mib=23961,
    evidence=OOM,
    by_monitor=False,
    lost_mps="",
    fault="",
    left_kernels=False,
    doubt="",
    may_requeue=True,
)


def _ended(**changes: Any) -> Ended:
    return dataclasses.replace(ENDED, **changes)


def test_an_error_that_may_be_anothers() -> None:
    verdict = judge(RECORD, _ended(evidence="", doubt="job 4712"), SITE)
    assert (verdict.outcome, verdict.share) == ("failed", None)
    assert verdict.message == (
        "rad: job 4711 failed and is not tried again: job 4712 wrote to its log too, so the error there may be the "
        "other's; a log of its own (--output=%j.log) tells them apart"
    )
    assert judge(RECORD, _ended(evidence="", doubt="job 4712", share=100), SITE) == verdict
    assert judge(RECORD, _ended(evidence="", doubt="job 4712", reason="TimeLimit"), SITE).message == ""
    assert judge(RECORD, _ended(doubt="job 4712"), SITE).outcome == "oom_requeued"  # a log of its own holds it too
    assert judge(RECORD, _ended(evidence=""), SITE).message == ""  # nobody else wrote there


def test_first_a_larger_share() -> None:
    verdict = judge(RECORD, ENDED, SITE)
    assert (verdict.outcome, verdict.share) == ("oom_requeued", 45)
    assert verdict.message == (
        "rad: job 4711 ran out of GPU memory (30 of 100 shares, 23961 MiB); requeued with 45 shares, 35942 MiB"
    )


def test_then_the_whole_gpu_then_never_again() -> None:
    record, restart, outcomes, told = dataclasses.replace(RECORD, cap_mib=23961), 0, [], []
    share: int | None = 30
    while share is not None:
        held, run = share, Run(share=share, restart=restart)
        verdict = judge(record, _ended(share=held, restart=restart), SITE)
        outcomes.append(verdict.outcome)
        told.append(verdict.message.partition("; ")[2])
        share = verdict.share
        if share is not None:
            run = dataclasses.replace(run, outcome=verdict.outcome)
            record, restart = requeued(record, run, share, SITE), restart + 1
            assert (record.share, record.cap_mib) == ((45, 35942) if restart == 1 else (100, None))
    assert told == ["requeued with 45 shares, 35942 MiB", "requeued with the whole GPU", ""]
    assert outcomes == ["oom_requeued", "oom_exclusive", "oom_final"]
    assert (record.retries, record.share, record.cap_mib) == (2, 100, None)
    assert (record.first_share, record.first_cap_mib) == (30, 23961)
    assert [(run.restart, run.share) for run in record.runs] == [(0, 30), (1, 45)]
    assert record.user_changes == ()
    assert decode(encode(record)) == record


def test_a_job_that_had_the_whole_gpu_is_told_so() -> None:
    verdict = judge(Record(action="exclusive", share=100), _ended(share=100), SITE)
    assert (verdict.outcome, verdict.share) == ("oom_final", None)
    assert verdict.message.endswith("it had a whole GPU and is not tried again")


def test_a_user_who_takes_the_share_back_gains_no_try() -> None:
    verdict = judge(dataclasses.replace(RECORD, retries=2), _ended(share=10, restart=2, cap_mib=None), SITE)
    assert (verdict.outcome, verdict.share) == ("oom_final", None)
    assert verdict.message.endswith("(10 of 100 shares): it was tried 3 times; ask for more: #RAD memory=13G")


def test_restarts_bound_what_the_record_does_not() -> None:
    assert judge(RECORD, _ended(restart=10), SITE).outcome == "oom_final"
    assert judge(RECORD, _ended(restart=9), SITE).outcome == "oom_requeued"


@pytest.mark.parametrize(
    ("share", "larger"),
    [
        (5, 12),  # by 5 GiB
        (30, 45),  # by half
        (59, 89),
        (60, 100),  # over the partition's limit
        (95, 100),
    ],
)
def test_growth(share: int, larger: int) -> None:
    assert grown(share, RECORD, SITE)[1] == larger


@pytest.mark.parametrize(("needed", "ask"), [(5120, "5G"), (5121, "6G")])
def test_what_is_asked_for_holds_what_is_needed(needed: int, ask: str) -> None:
    record = dataclasses.replace(RECORD, upper_mib=needed - 5120)
    verdict = judge(record, _ended(may_requeue=False), dataclasses.replace(SITE, usable=0))
    assert verdict.message == (
        "rad: job 4711 ran out of GPU memory (30 of 100 shares, 23961 MiB) and may not be requeued; "
        f"ask for more: #RAD memory={ask}"
    )


def test_a_share_grows_however_little_its_memory_does() -> None:
    assert grown(30, RECORD, dataclasses.replace(SITE, settings=Recovery(step_mib=1, factor=1.0))) == (23962, 31)


def test_growth_where_the_memory_is_not_known() -> None:
    site = dataclasses.replace(SITE, usable=0)
    assert grown(30, RECORD, site) == (34500, 100)
    assert grown(30, dataclasses.replace(RECORD, upper_mib=None), site) == (5120, 100)
    assert judge(RECORD, ENDED, site).outcome == "oom_exclusive"


@pytest.mark.parametrize(
    ("changes", "settings", "outcome"),
    [
        ({"may_requeue": False}, Recovery(), "oom_told"),
        ({}, Recovery(enabled=False), "oom_told"),
        ({"share": 100}, Recovery(), "oom_final"),
    ],
)
def test_what_is_told_and_not_requeued(changes: dict[str, Any], settings: Recovery, outcome: str) -> None:
    verdict = judge(RECORD, _ended(**changes), dataclasses.replace(SITE, settings=settings))
    assert (verdict.outcome, verdict.share) == (outcome, None)
    assert verdict.message.startswith("rad: job 4711 ran out of GPU memory")
    assert ("#RAD memory=36G" in verdict.message) == (outcome == "oom_told")


def test_the_share_of_the_record_where_slurm_tells_none() -> None:
    assert judge(RECORD, _ended(share=None), SITE).share == 45
    assert judge(dataclasses.replace(RECORD, share=None), _ended(share=None), SITE).outcome == "oom_final"


def test_a_run_that_ended_well_is_completed_whatever_it_printed() -> None:
    assert judge(RECORD, _ended(exit_status=0), SITE).outcome == "completed"


@pytest.mark.parametrize("record", [None, *(Record(action=a, share=30) for a in ("left_alone", "advised", "shadowed"))])
def test_jobs_that_are_not_ours_to_requeue(record: Record | None) -> None:
    verdict = judge(record, ENDED, SITE)
    assert (verdict.outcome, verdict.message) == ("failed", "")


@pytest.mark.parametrize(
    ("changes", "believed"),
    [
        ({}, True),
        ({"exit_status": 0, "exit_signal": 6, "reason": "RaisedSignal:6(Aborted)"}, True),
        ({"exit_status": 0, "exit_signal": 6, "reason": "JobLaunchFailure"}, True),
        ({"exit_status": 0, "exit_signal": 9}, False),  # killed
        ({"exit_status": 0, "exit_signal": 9, "by_monitor": True}, True),
        ({"by_monitor": True, "reason": "None"}, False),
        ({"evidence": ""}, False),
        ({"reason": "TimeLimit"}, False),
        ({"reason": "Preempted"}, False),
        ({"reason": "None"}, False),  # cancelled
    ],
)
def test_evidence(changes: dict[str, Any], believed: bool) -> None:
    assert died_of_memory(_ended(**changes)) is believed
    assert (judge(RECORD, _ended(**changes), SITE).outcome == "failed") is not believed


FAULT = {"evidence": "", "fault": "CUDA error: an illegal memory access was encountered"}
LOST = {"evidence": "", "lost_mps": "CUDA error: MPS server is not ready to accept new MPS client requests"}


def test_a_job_that_lost_its_server_comes_back_without_blame() -> None:
    verdict = judge(RECORD, _ended(**LOST), SITE)
    assert (verdict.outcome, verdict.share) == ("mps_victim", 30)
    assert verdict.message == (
        "rad: job 4711 lost its GPU's MPS server, through no fault of its own; requeued as it was"
    )
    after = requeued(RECORD, Run(share=30, restart=0, outcome="mps_victim"), 30, SITE)
    assert (after.retries, after.share, after.first_share, len(after.runs)) == (0, 30, None, 1)


def test_a_victim_is_requeued_three_times_at_most() -> None:
    runs = tuple(Run(share=30, restart=n, outcome="mps_victim") for n in range(3))
    record = dataclasses.replace(RECORD, runs=runs[:2])
    assert judge(record, _ended(**LOST, restart=2), SITE).outcome == "mps_victim"
    verdict = judge(dataclasses.replace(RECORD, runs=runs), _ended(**LOST, restart=3), SITE)
    assert (verdict.outcome, verdict.share) == ("mps_told", None)
    assert verdict.message == (
        "rad: job 4711 lost its GPU's MPS server, through no fault of its own; it may not be requeued (again): submit "
        "it anew"
    )
    unwanted = dataclasses.replace(SITE, settings=Recovery(enabled=False))
    assert judge(RECORD, _ended(**LOST), unwanted).outcome == "mps_told"
    assert judge(RECORD, _ended(**FAULT), unwanted).outcome == "failed"


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"exit_status": 0}, "completed"),
        ({"share": 100}, "failed"),  # it had no server
        ({"share": None}, "failed"),
        ({"reason": "TimeLimit"}, "failed"),
        ({"may_requeue": False}, "mps_told"),
        ({"restart": 10}, "mps_told"),
        ({"evidence": OOM}, "oom_requeued"),
    ],
)
def test_who_is_no_victim(changes: dict[str, Any], outcome: str) -> None:
    assert judge(RECORD, _ended(**{**LOST, **changes}), SITE).outcome == outcome


def test_a_run_is_told_once() -> None:
    run = Run(share=30, restart=0, start=5, outcome="failed")
    once = with_run(RECORD, run)
    assert with_run(once, run) == once
    later = with_run(once, dataclasses.replace(run, outcome="timeout"))
    assert [r.outcome for r in later.runs] == ["timeout"]


def test_runs_stand_in_their_order() -> None:
    both = with_run(with_run(RECORD, Run(restart=0, share=50)), Run(restart=1, share=70))
    assert with_run(both, Run(restart=0, share=50)) == both
    assert both.user_changes == ("mps:50", "mps:70")
    assert with_run(both, Run(restart=2, share=70)).user_changes == ("mps:50", "mps:70")
    assert with_run(with_run(RECORD, Run(restart=0, share=50)), Run(restart=1, share=50)).user_changes == ("mps:50",)
    record = RECORD
    for restart, start in [(2, None), (None, None), (1, 30), (0, 20), (1, 10), (1, None)]:
        record = with_run(record, Run(restart=restart, start=start))
    runs = [(run.restart, run.start) for run in record.runs]
    assert runs == [(None, None), (0, 20), (1, None), (1, 10), (1, 30), (2, None)]


@pytest.mark.parametrize(
    ("action", "share", "changes"),
    [
        ("share", 30, ()),
        ("share", 55, ("mps:55",)),
        ("exclusive", 55, ("mps:55",)),
        ("left_alone", 55, ()),
        ("share", None, ()),
    ],
)
def test_a_request_that_the_user_changed_is_recorded(action: Any, share: int | None, changes: tuple[str, ...]) -> None:
    record = with_run(Record(action=action, share=30), Run(share=share, restart=0))
    assert record.user_changes == changes
    assert with_run(record, Run(share=share, restart=0)).user_changes == changes


def test_what_was_not_decided_was_not_changed() -> None:
    assert with_run(Record(action="share"), Run(share=30, restart=0)).user_changes == ()


def test_our_own_regrowth_is_no_change_of_the_user() -> None:
    record = requeued(RECORD, Run(share=30, restart=0, outcome="oom_requeued"), 45, SITE)
    assert with_run(record, Run(share=30, restart=0, outcome="oom_requeued")).user_changes == ()
    assert with_run(record, Run(share=45, restart=1)).user_changes == ()
    assert with_run(record, Run(share=50, restart=1)).user_changes == ("mps:50",)
    # Of a run that another node tells of late, the share was decided before what the record holds now.
    late = [
        dataclasses.replace(record, runs=(Run(restart=1, outcome=outcome),)) for outcome in ("oom_requeued", "failed")
    ]
    assert [with_run(r, Run(share=30, restart=0)).user_changes for r in late] == [(), ("mps:30",)]
    assert with_run(late[0], Run(share=30)).user_changes == ()
    assert with_run(late[0], Run(share=30, restart=2)).user_changes == ("mps:30",)
    assert with_run(late[0], Run(share=30, restart=1, start=5)).user_changes == ()
    unnumbered = dataclasses.replace(record, runs=(Run(outcome="oom_requeued"),))
    assert with_run(unnumbered, Run(share=30, start=5)).user_changes == ()


def test_who_may_have_broken_the_gpu_for_all_runs_alone_once() -> None:
    verdict = judge(RECORD, _ended(**FAULT), SITE)
    assert (verdict.outcome, verdict.share) == ("mps_suspect", 100)
    broken = "rad: job 4711 was broken together with others on its GPU by one process's fatal fault"
    assert verdict.message == f"{broken}; requeued with the whole GPU"
    after = requeued(RECORD, Run(share=30, restart=0, outcome="mps_suspect"), 100, SITE)
    assert (after.retries, after.share, after.cap_mib, after.first_share) == (0, 100, None, 30)
    assert judge(after, _ended(**FAULT, restart=1, share=100), SITE).outcome == "failed"
    again = judge(after, _ended(**FAULT, restart=1), SITE)  # its user took the whole GPU from it again
    assert (again.outcome, again.message) == ("failed", f"{broken}; if it was not its own, submit it anew")
    assert with_run(after, Run(share=100, restart=1)).user_changes == ()
    assert judge(after, _ended(restart=1), SITE).outcome == "oom_requeued"  # its tries for memory are its own


def test_whom_the_kernels_of_an_ended_process_broke_runs_once_more_as_it_was() -> None:
    struck = _ended(**FAULT, left_kernels=True)
    verdict = judge(RECORD, struck, SITE)
    assert (verdict.outcome, verdict.share) == ("mps_victim", 30)
    assert verdict.message == (
        "rad: job 4711 was broken as another process on its GPU ended with kernels running, through no fault of its "
        "own; requeued as it was"
    )
    again = with_run(RECORD, Run(share=30, restart=0, outcome="mps_victim"))
    assert judge(again, dataclasses.replace(struck, restart=1), SITE).outcome == "mps_suspect"
    assert judge(RECORD, dataclasses.replace(struck, may_requeue=False), SITE).outcome == "mps_told"
    assert judge(RECORD, dataclasses.replace(struck, share=100), SITE).outcome == "failed"
    assert judge(RECORD, dataclasses.replace(struck, exit_status=0), SITE).outcome == "completed"


@pytest.mark.parametrize(
    "changes", [{"may_requeue": False}, {"restart": 10}, {"reason": "TimeLimit"}, {"share": 100}, {"share": None}]
)
def test_whom_a_fault_does_not_requeue(changes: dict[str, Any]) -> None:
    assert judge(RECORD, _ended(**FAULT, **changes), SITE).outcome == "failed"
