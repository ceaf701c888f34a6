"""The story of a job: every way that it can go."""

from __future__ import annotations

import dataclasses

import pytest

from slurm_hooks.amounts import duration
from slurm_hooks.explain import explain
from slurm_hooks.records import Record, Run, encode
from slurm_hooks.report import put_together
from slurm_hooks.slurm.accounting import JobRun
from tests.slurm_hooks.jobs import HOUR, NOON, job_run

RECORD = Record(
    action="share",
    asked="gpu:1",
    model="resnet50.txt",
    batch_size=128,
    optimizer="adam",
    precision="fp32",
    expected_mib=13414,
    upper_mib=14950,
    method="rad 3",
    share=38,
    pin="g2",
    node="node07",
    cap_mib=15360,
    reasons=("38 shares for 14950 of 40000 MiB", "magm chose g2 of node07"),
)


def _story(*runs: JobRun, now: int = NOON + HOUR) -> list[str]:
    (job,) = put_together(runs)
    return explain(job, {}, now).splitlines()


def _with(**changes: object) -> Record:
    return dataclasses.replace(RECORD, **changes)  # type: ignore[arg-type]


def test_a_job_that_ran() -> None:
    ended = Run(share=38, end=NOON + HOUR, outcome="completed", peak_mib=13210, cap_mib=15360)
    assert _story(job_run(_with(runs=(ended,)))) == [
        "job 1 train.sh, alice, partition gpu",
        "  asked    gpu:1, policy collocation, resnet50.txt, batch 128, adam, fp32",
        "  estimate 13.1 GiB expected, 14.6 GiB upper (rad 3; no earlier run of this model)",
        "  decision mps:g2:38 on node07, alone there when it was placed; capped at 15.0 GiB",
        "  why      38 shares for 14950 of 40000 MiB; magm chose g2 of node07",
        "  ran      1 h on node07 with mps:g2:40; peak 12.9 GiB of a cap of 15.0 GiB; completed",
    ]


def test_what_was_measured() -> None:
    ended = Run(end=NOON + HOUR, outcome="completed", smact_mean=0.64, energy_j=1_476_000, neighbours=(4698, 4699))
    story = _story(job_run(_with(runs=(ended,), progress=0.83, residents_progress=(0.88,))))
    assert story[3].endswith("when it was placed; predicted progress 0.83 / 0.88 of running alone; capped at 15.0 GiB")
    assert story[-1].endswith("mps:g2:40; SMACT 64%, 0.41 kWh, beside 4698, 4699; completed")


def test_processes_of_no_job_were_neighbours_too() -> None:
    ended = Run(end=NOON + HOUR, outcome="completed", smact_mean=0.3, neighbours=(4698, 0))
    assert _story(job_run(_with(runs=(ended,))))[-1].endswith("SMACT 30%, beside 4698, processes of no job; completed")


def test_a_limit_of_threads() -> None:
    assert _story(job_run(_with(thread_percentage=70)))[3].endswith("capped at 15.0 GiB; 70 % of the GPU's threads")
    assert _story(job_run(_with(thread_percentage=100)))[3].endswith("capped at 15.0 GiB")


def test_a_short_run_has_used_joules() -> None:
    ended = Run(end=NOON + HOUR, outcome="completed", energy_j=4910.0)
    assert _story(job_run(_with(runs=(ended,))))[-1].endswith("mps:g2:40; 4.9 kJ; completed")


def test_neighbours() -> None:
    (job,) = put_together([job_run(_with(residents=(4698, 4699, 4700)))])
    (bert,) = put_together([job_run(_with(model="bert", share=41), job_id=4698)])
    (plain,) = put_together([job_run(None, job_id=4700)])
    assert "beside 4698 (bert, 41 shares), 4699, 4700; capped" in explain(job, {4698: bert, 4700: plain}, NOON)
    (claim,) = put_together([job_run(_with(model="", method="claim", share=20), job_id=4699, name="tune.sh")])
    (whole,) = put_together([job_run(_with(share=None), job_id=4700)])
    told = explain(job, {4699: claim, 4700: whole}, NOON)
    assert "beside 4698, 4699 (tune.sh, 20 shares), 4700 (resnet50.txt); capped" in told


@pytest.mark.parametrize(
    ("record", "decision"),
    [
        (_with(pin="", node="", cap_mib=None), "mps:38"),
        (_with(share=100, pin="", node="", cap_mib=None, action="exclusive"), "the whole GPU (mps:100)"),
        (_with(share=None, pin="", node="", cap_mib=None, action="exclusive"), "the whole GPU (mps:100)"),
        (_with(action="advised", pin="", node="", cap_mib=None), "advice only, the request stayed as written: mps:38"),
        (_with(action="shadowed", pin="", node="", cap_mib=None),
         "recorded only, the request stayed as written: mps:38"),
        (_with(action="left_alone", reasons=("the job asks for several nodes",)),
         "left as written: the job asks for several nodes"),
        (_with(share=15, profile="1g.18gb", pin="", node="", cap_mib=None), "MIG instance 1g.18gb"),
        (_with(share=100, profile="7g.141gb", first_share=15, first_profile="1g.18gb", pin="", node=""),
         "MIG instance 1g.18gb"),
    ],
)  # fmt: skip
def test_decisions(record: Record, decision: str) -> None:
    assert f"  decision {decision}" in _story(job_run(record))


def test_an_estimate_without_an_upper_bound() -> None:
    record = _with(upper_mib=None, method="", seq_len=512, kind="infer", batch_size=None)
    story = _story(job_run(record))
    assert "  estimate 13.1 GiB expected" in story
    assert story[1].endswith("resnet50.txt, length 512, adam, fp32, inference")


def test_the_input_that_was_said_or_taken() -> None:
    story = _story(job_run(_with(input_size="3x512x512")))
    assert story[1].endswith("resnet50.txt, batch 128, input 3x512x512, adam, fp32")
    story = _story(job_run(_with(note="input_size=3x224x224 was taken")))
    assert story[2].endswith("; input_size=3x224x224 was taken")


@pytest.mark.parametrize(
    ("method", "words"),
    [("history", "measured in earlier runs of this model"), ("claim", "as the script claims")],
)
def test_where_an_estimate_comes_from(method: str, words: str) -> None:
    assert _story(job_run(_with(method=method)))[2].endswith(f"upper ({words})")


def test_the_loop_closes() -> None:
    ended = Run(start=NOON, end=NOON + HOUR, outcome="completed", peak_mib=13_722)
    story = _story(job_run(_with(fingerprint="abc", runs=(ended,))))
    assert story[-1] == "  next     this model's next run is estimated from what this job used: 13.4 GiB"


def test_the_most_that_a_job_used_counts() -> None:
    failed = Run(start=NOON, end=NOON + HOUR, outcome="failed", peak_mib=13_722)
    completed = Run(start=NOON + HOUR, end=NOON + 2 * HOUR, outcome="completed", peak_mib=9_000)
    assert _story(job_run(_with(fingerprint="abc", runs=(failed, completed))))[-1].endswith("used: 13.4 GiB")


def test_nothing_known_of_the_memory() -> None:
    story = _story(job_run(Record(action="exclusive", asked="gpu:1", share=100)))
    assert [line.split()[0] for line in story] == ["job", "asked", "decision", "ran"]


def test_a_job_that_rad_did_not_see() -> None:
    story = _story(job_run(None, allocated={"gres/gpu": 1}))
    assert story[1].startswith("  record   RAD did nothing with this job: ")
    assert story[2] == "  ran      1 h on node07 with gpu:1; completed"
    part = dataclasses.replace(job_run(None, allocated={"gres/gpu": 1}), shown_id="4711+1")
    assert _story(part)[1] == "  record   RAD leaves heterogeneous jobs as written"


@pytest.mark.parametrize("comment", ["RAD1:AAAA", "JS1:x rad1:eyjhy3", f"RAD1:{'A' * 40_000}"])
def test_a_record_that_cannot_be_read_is_no_sign_that_rad_did_nothing(comment: str) -> None:
    words = "  record   RAD's record of this job is damaged: what was decided is not known"
    assert _story(dataclasses.replace(job_run(), admin_comment=comment))[1] == words


def test_a_job_that_came_back_with_more() -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory"
    runs = (
        Run(share=38, end=NOON + 2, outcome="oom_requeued", evidence=error, peak_mib=15000),
        Run(share=57, end=NOON + 132, outcome="oom_exclusive", evidence=error),
        Run(share=100, end=NOON + HOUR - 1, outcome="completed"),
    )
    first = job_run(None, state="REQUEUED", end=NOON + 2, elapsed_s=2)
    second = job_run(
        None, state="REQUEUED", start=NOON + 130, end=NOON + 132, elapsed_s=2, allocated={"gres/mps:g2": 57}
    )
    record = _with(share=100, cap_mib=None, first_share=38, first_cap_mib=15360, retries=2, runs=runs)
    third = job_run(record, submit=NOON + 2, start=NOON + 260, allocated={"gres/mps": 100, "cpu": 1})
    story = _story(first, second, third)
    assert story[3:5] == [
        "  decision mps:g2:38 on node07, alone there when it was placed; capped at 15.0 GiB",
        "  why      38 shares for 14950 of 40000 MiB; magm chose g2 of node07",
    ]
    assert story[-3:] == [
        "  run 1    2 s on node07 with mps:g2:40; peak 14.6 GiB; ran out of GPU memory and was queued again with "
        f"57 shares; its log says: {error}",
        "  run 2    2 s on node07 with mps:g2:57; ran out of GPU memory and was queued again with the whole GPU; "
        f"its log says: {error}",
        "  run 3    1 h on node07 with mps:100; completed",
    ]


def test_a_job_that_came_back_with_a_larger_instance() -> None:
    ended = Run(end=NOON + HOUR, outcome="oom_requeued")
    story = _story(job_run(_with(share=15, profile="2g.35gb", runs=(ended, Run(share=100, end=NOON + 2 * HOUR)))))
    assert story[-1].endswith("ran out of GPU memory and was queued again with a larger MIG instance")


def test_a_job_that_waits_to_run_again() -> None:
    record = _with(share=57, cap_mib=23000, first_share=38, runs=(Run(share=38, end=NOON + 2, outcome="oom_requeued"),))
    first = job_run(None, state="REQUEUED", end=NOON + 2, elapsed_s=2)
    waits = job_run(record, state="PENDING", submit=NOON + 2, start=None, end=None, reason="Resources", nodes="")
    story = _story(first, waits)
    assert [line for line in _story(first, dataclasses.replace(waits, admin_comment="")) if "pinned" in line] == []
    assert story[3] == "  decision mps:g2:38 on node07, alone there when it was placed"
    assert story[-2].endswith("queued again with 57 shares")
    assert story[-1].startswith("  now      waits (Resources)")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("oom_exclusive", "queued again with the whole GPU"),
        ("oom_final", "not tried again"),
        ("oom_told", "may not be queued again: ask for more with #RAD memory="),
        ("mps_victim", "lost what it had on its GPU through no fault of its own and was queued again as it was"),
        ("mps_told", "lost what it had on its GPU through no fault of its own and was not queued again"),
        ("mps_suspect", "by one process's fault and was queued again with the whole GPU"),
    ],
)
def test_other_ends_that_rad_tells_of(outcome: str, words: str) -> None:
    assert words in _story(job_run(_with(share=100, runs=(Run(end=NOON + HOUR, outcome=outcome),))))[-1]


def test_runs_that_ended_close_to_each_other() -> None:
    runs = (
        Run(start=NOON, end=NOON + 2, outcome="oom_requeued"),
        Run(start=NOON + 8, end=NOON + 11, outcome="completed"),
    )
    first = job_run(None, state="REQUEUED", start=NOON, end=NOON + 2, elapsed_s=2)
    second = job_run(_with(share=None, runs=runs), submit=NOON + 2, start=NOON + 8, end=NOON + 11, elapsed_s=3)
    assert [line.rpartition("; ")[2] for line in _story(first, second)[-2:]] == [
        "ran out of GPU memory and was queued again with a larger share",
        "completed",
    ]
    not_yet = dataclasses.replace(second, admin_comment=encode(_with(runs=runs[:1])), state="FAILED")
    assert _story(first, not_yet)[-1].endswith("; failed")
    told = _with(share=None, runs=(runs[0], dataclasses.replace(runs[1], outcome="failed")))
    failed = dataclasses.replace(second, admin_comment=encode(told), state="FAILED", exit_code=3)
    assert _story(first, failed)[-1].endswith("; failed, exit status 3")


def test_what_befell_a_runs_server_is_told_by_its_log() -> None:
    """It went, or another process that ended broke the server's clients: the record does not tell these apart."""
    evidence = "CUDA error: an illegal memory access was encountered"
    kept = Run(start=NOON, end=NOON + HOUR, outcome="mps_victim", evidence=evidence)
    assert _story(job_run(_with(runs=(kept,)), state="REQUEUED"))[-1].endswith(
        "; lost what it had on its GPU through no fault of its own and was queued again as it was; its log says: "
        + evidence
    )


def test_a_run_that_the_record_misses() -> None:
    kept = Run(end=NOON + 9 * HOUR, outcome="oom_final", peak_mib=1)
    story = _story(job_run(_with(runs=(kept, Run(outcome="failed"))), state="FAILED", exit_code=3))
    assert story[-1] == "  ran      1 h on node07 with mps:g2:40; failed, exit status 3"


def test_a_job_that_was_killed() -> None:
    assert _story(job_run(RECORD, state="TIMEOUT", signal=15))[-1].endswith("; timeout, signal 15")


def test_a_job_that_waits() -> None:
    waits = job_run(RECORD, state="PENDING", start=None, end=None, reason="Resources", allocated={}, nodes="")
    assert _story(waits)[-1] == "  now      waits (Resources), for 1 h 1 m"
    unknown = dataclasses.replace(waits, reason="", submit=None)
    assert _story(unknown)[-1] == "  now      waits"


def test_a_job_that_waits_for_the_gpu_that_rad_chose() -> None:
    requested = {"cpu": 1, f"gres/mps:{RECORD.pin}": 38}
    waits = job_run(RECORD, state="PENDING", start=None, end=None, reason="Resources", nodes="", requested=requested)
    assert _story(waits)[-1].startswith(f"  pinned   it waits for a GPU {RECORD.pin}, chosen at submit; Slurm before")
    asked = dataclasses.replace(RECORD, asked=f"gpu:{RECORD.pin}:1", asked_nodes="node07")
    own = dataclasses.replace(waits, admin_comment=encode(asked))
    assert "pinned" not in "".join(_story(own))
    assert f"asked    gpu:{RECORD.pin}:1 on node07, policy" in "".join(_story(own))
    moved = dataclasses.replace(waits, requested={"cpu": 1, "gres/mps": 38})
    assert "pinned" not in "".join(_story(moved))
    for reason in ("Nodes required for job are DOWN, DRAINED or reserved for jobs in", "Priority", "ReqNodeNotAvail"):
        assert "pinned" in "".join(_story(dataclasses.replace(waits, reason=reason)))
    later = dataclasses.replace(waits, reason="BeginTime")
    assert "pinned" not in "".join(_story(later))


def test_a_job_that_runs() -> None:
    assert (
        _story(job_run(RECORD, state="RUNNING", end=None))[-1] == "  now      running on node07 with mps:g2:40, for 1 h"
    )


def test_a_job_that_was_cancelled_before_it_ran() -> None:
    assert _story(job_run(RECORD, state="CANCELLED", start=None, nodes=""))[-1] == "  ran      never: cancelled"


def test_a_short_run_whose_start_slurmdbd_lost_has_run() -> None:
    """As 22.05 does where the job was queued again within seconds; what was cancelled before it ran has no node."""
    first = Run(share=40, start=NOON - 34, end=NOON - 30, outcome="oom_requeued", evidence="no memory", restart=0)
    record = _with(runs=(first, Run(share=60, start=NOON, end=NOON + HOUR, outcome="completed", restart=1)))
    lost = job_run(state="REQUEUED", start=None, end=NOON - 33, elapsed_s=0)
    told = _story(lost, job_run(record))
    assert told[-2].startswith("  run 1    4 s on node07 with mps:g2:40; ran out of GPU memory and was queued again")
    assert told[-1].startswith("  run 2    1 h on node07")
    cancelled = job_run(_with(runs=(first,)), state="CANCELLED", start=None, end=NOON - 20, elapsed_s=0, nodes="")
    assert _story(lost, cancelled)[-1] == "  run 2    never: cancelled"
    assert _story(lost)[-1] == "  ran      0 s on node07 with mps:g2:40; requeued"
    nobody_knows = _with(runs=(dataclasses.replace(first, start=None),))
    assert _story(dataclasses.replace(lost, admin_comment=encode(nobody_knows)))[-1].startswith("  ran      0 s on")


def test_what_its_user_changed() -> None:
    assert "  changed  after that: gres=mps:50" in _story(job_run(_with(user_changes=("gres=mps:50",))))


def test_names_that_a_terminal_would_obey() -> None:
    assert _story(job_run(RECORD, name="a\x1b[2J\nb"))[0] == "job 1 a?[2J?b, alice, partition gpu"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 m"), (4320, "1 h 12 m"), (3601, "1 h"), (90061, "1 d 1 h"), (86400, "1 d")],
)
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text
