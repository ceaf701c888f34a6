"""The report's numbers, its forms, and the command."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from dataclasses import replace
from datetime import timedelta, timezone

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks import report
from slurm_hooks.radctl import jobs as command
from slurm_hooks.radctl import times
from slurm_hooks.radctl.main import cli
from slurm_hooks.records import Record, Run, encode
from slurm_hooks.slurm.accounting import AccountingError, JobRun
from slurm_hooks.slurm.commands import SlurmError
from tests.slurm_hooks.jobs import DAY, HOUR, NOON, job_run

UTC = timezone.utc
SHARED = Record(action="share", asked="gpu:1", share=40, expected_mib=10_000, upper_mib=12_000)


def _row(*runs: JobRun, since: int = DAY[0], until: int = DAY[1]) -> report.Row:
    return report.make(report.jobs_of(runs), since, until, "user", UTC).total


def _with_runs(*runs: Run) -> Record:
    return Record(action="share", asked="gpu:1", share=40, expected_mib=10_000, upper_mib=12_000, runs=runs)


def test_a_shared_job() -> None:
    row = _row(job_run(SHARED))
    assert (row.jobs, row.shared, row.exclusive, row.left_alone, row.unseen) == (1, 1, 0, 0, 0)
    assert (row.gpu_hours_asked, row.gpu_hours_held, row.gpu_hours_saved) == (1.0, 0.4, 0.6)
    assert (row.measured, row.estimated_mib, row.used_mib, row.ooms) == (0, None, None, 0)


@pytest.mark.parametrize(
    ("action", "allocated", "counts", "held"),
    [
        ("exclusive", {"gres/mps": 100}, (0, 1, 0, 0), 1.0),
        ("left_alone", {"gres/gpu": 1}, (0, 0, 1, 0), 1.0),
        ("advised", {"gres/gpu": 1}, (0, 0, 1, 0), 1.0),
        ("shadowed", {"gres/gpu": 1}, (0, 0, 1, 0), 1.0),
        ("share", {}, (1, 0, 0, 0), 0.4),  # a site that does not account for shares
        ("advised", {}, (0, 0, 1, 0), 1.0),
        ("shadowed", {}, (0, 0, 1, 0), 1.0),
    ],
)
def test_what_was_done(action: str, allocated: dict[str, int], counts: tuple[int, ...], held: float) -> None:
    record = Record(action=action, asked="gpu:h200:1", share=40)  # type: ignore[arg-type]
    row = _row(job_run(record, allocated=allocated))
    assert (row.shared, row.exclusive, row.left_alone, row.unseen) == counts
    assert (row.gpu_hours_asked, row.gpu_hours_held) == (1.0, held)


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [("gpu", 1), ("gpu:2", 2), ("gpu:h200:4", 4), ("tmpfs:1,gpu:4090ti", 1), ("mps:30", 0.4), ("", 0.4)],
)
def test_gpus_asked(asked: str, gpus: float) -> None:
    for record in (Record(action="left_alone", asked=asked), Record(action="share", asked=asked)):
        assert _row(job_run(record, allocated={})).gpu_hours_asked == gpus


@pytest.mark.parametrize(
    ("allocated", "held"),
    [
        ({"gres/gpu": 2}, 2.0),  # one on each of two nodes, for each of two tasks, or all of a node with --exclusive
        ({"gres/gpu": 1, "gres/gpu:1g.18gb": 1}, 0.15),
        ({"gres/mps": 30}, 0.3),
    ],
)
def test_nothing_is_saved_where_rad_changed_nothing(allocated: dict[str, int], held: float) -> None:
    for record in (Record("left_alone", asked="gpu:1"), Record("shadowed", asked="gpu:1", share=40), None):
        row = _row(job_run(record, requested={"gres/gpu": 1}, allocated=allocated))
        assert (row.gpu_hours_asked, row.gpu_hours_held, row.gpu_hours_saved) == (held, held, 0)


def test_each_run_held_its_own_share_where_slurm_does_not_account_for_them() -> None:
    runs = (Run(outcome="oom_requeued", share=40, end=NOON + HOUR), Run(share=60, end=NOON + 2 * HOUR))
    record = replace(_with_runs(*runs), share=60)
    first = job_run(record, state="REQUEUED", allocated={})
    second = job_run(record, submit=NOON + HOUR, start=NOON + HOUR, end=NOON + 2 * HOUR, allocated={})
    assert _row(first, second).gpu_hours_held == 1.0
    live = replace(second, end=None, state="RUNNING")
    assert _row(first, live, until=NOON + 2 * HOUR).gpu_hours_held == 1.0


def test_what_the_record_says_of_runs_that_were_short() -> None:
    record = _with_runs(Run(share=40, end=NOON + 50), Run(share=60, end=NOON + 80))
    first = job_run(record, state="REQUEUED", end=NOON + 48)
    second = job_run(record, submit=NOON + 49, start=NOON + 49, end=NOON + 81)
    (job,) = report.jobs_of((first, second))
    assert [kept and kept.share for kept in map(job.kept, job.runs)] == [40, 60]
    (job,) = report.jobs_of((first, replace(second, nodes="", state="CANCELLED")))  # as it waited
    assert [kept and kept.share for kept in map(job.kept, job.runs)] == [40, None]


@pytest.mark.parametrize(
    ("kept", "same"),
    [
        (Run(end=NOON + HOUR - 60), True),
        (Run(end=NOON + HOUR - 61), False),
        (Run(end=NOON + HOUR + 60), True),
        (Run(end=NOON + HOUR + 61), False),
        (Run(start=NOON + HOUR + 1, end=NOON + HOUR + 30), False),  # it began when Slurm's had ended
    ],
)
def test_the_ends_of_a_run_may_differ_by_a_minute(kept: Run, same: bool) -> None:
    (job,) = report.jobs_of([job_run(_with_runs(kept))])
    assert (job.kept(job.last) is not None) is same


def test_means_are_of_the_jobs_of_which_estimate_and_use_are_known() -> None:
    used = Run(outcome="completed", peak_mib=11_000)
    guessed = replace(_with_runs(replace(used, peak_mib=14_000)), expected_mib=13_000, upper_mib=None)
    unknown = replace(_with_runs(used), expected_mib=None, upper_mib=None)
    jobs = enumerate((_with_runs(used), guessed, unknown, SHARED), start=1)
    row = _row(*(job_run(record, job_id=number) for number, record in jobs))
    assert (row.jobs, row.measured, row.over_upper) == (4, 2, 1)
    assert (row.estimated_mib, row.upper_mib, row.used_mib) == (11_500, 12_500, 12_500)


def test_jobs_without_a_record() -> None:
    whole = job_run(job_id=1, requested={"gres/gpu": 2}, allocated={"gres/gpu": 2})
    mps = job_run(job_id=2)
    none = job_run(job_id=3, requested={"cpu": 1}, allocated={"cpu": 1})
    told = job_run(Record("left_alone", reasons=("the job asks for no GPU",)), job_id=4, requested={}, allocated={})
    row = _row(whole, mps, none, told)
    assert (row.jobs, row.unseen, row.gpu_hours_asked, row.gpu_hours_saved) == (2, 2, 2.4, 0.0)


def test_hours_count_within_the_time() -> None:
    assert _row(job_run(SHARED), since=NOON + HOUR // 2).gpu_hours_asked == 0.5
    assert _row(job_run(SHARED), until=NOON + HOUR // 4).gpu_hours_asked == 0.25
    assert _row(job_run(SHARED), since=NOON + 2 * HOUR).gpu_hours_asked == 0
    live = job_run(SHARED, end=None, state="RUNNING", elapsed_s=3 * HOUR)
    assert _row(live, until=NOON + 3 * HOUR).gpu_hours_asked == 3
    assert _row(live, until=NOON + 2 * HOUR).gpu_hours_asked == 2
    assert _row(replace(live, state="SUSPENDED", elapsed_s=HOUR), until=NOON + 3 * HOUR).gpu_hours_asked == 1
    assert _row(job_run(SHARED, start=None, end=None, state="PENDING")).jobs == 0
    assert _row(job_run(SHARED, end=NOON, elapsed_s=0, nodes="", state="FAILED")).jobs == 0  # sbatch was refused
    assert _row(job_run(SHARED, elapsed_s=HOUR // 2)).gpu_hours_asked == 0.5  # suspended half of the time


def test_all_runs_of_a_job_count_but_the_job_once() -> None:
    record = _with_runs(Run(outcome="oom_requeued", peak_mib=11_000), Run(outcome="completed", peak_mib=15_000))
    first = job_run(None, state="REQUEUED", end=NOON + HOUR)
    second = job_run(record, submit=NOON + HOUR, start=NOON + HOUR, end=NOON + 2 * HOUR, allocated={"gres/mps": 60})
    row = _row(second, first)
    assert _row(second, replace(first, user="")) == row  # slurmdbd may know a short run's user later
    assert (row.jobs, row.gpu_hours_asked, row.gpu_hours_held) == (1, 2.0, 1.0)
    assert (row.measured, row.estimated_mib, row.upper_mib, row.used_mib) == (1, 10_000, 12_000, 15_000)
    assert (row.over_upper, row.ooms, row.oom_finished, row.oom_failed, row.oom_open) == (1, 1, 1, 0, 0)


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"])
def test_a_number_that_its_user_gets_again_is_another_job(state: str) -> None:
    first = job_run(SHARED, state=state)
    again = job_run(None, submit=NOON + HOUR, start=NOON + HOUR, end=NOON + 2 * HOUR)
    assert [job.record for job in report.jobs_of((first, again))] == [SHARED, None]


def test_a_number_that_was_given_away_again_is_another_job(slurm: type[_Slurm]) -> None:
    before = job_run(SHARED, user="bob", name="old")
    first = job_run(SHARED, state="NODE_FAIL", submit=NOON + 3 * HOUR, start=NOON + 3 * HOUR, end=NOON + 4 * HOUR)
    second = job_run(SHARED, submit=NOON + 4 * HOUR, start=NOON + 4 * HOUR, end=NOON + 5 * HOUR)
    made = report.make(report.jobs_of((second, first, before)), *DAY, "user", UTC)
    assert [(row.group, row.jobs, row.gpu_hours_asked) for row in made.rows] == [("alice", 1, 2.0), ("bob", 1, 1.0)]
    slurm.known = (before, first, second)
    told = _radctl("explain", "1").output
    assert told.startswith("job 1 train.sh, alice")
    assert told.count("  run ") == 2
    slurm.known += (job_run(SHARED, job_id=2, shown_id="1_0"),)  # of an array that had the number
    assert _radctl("explain", "1").output == told


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "REQUEUED"])
def test_a_number_that_another_user_got_later_is_another_job_however_the_first_ended(state: str) -> None:
    first = job_run(SHARED, state=state)
    later = job_run(None, user="bob", submit=NOON + HOUR, start=NOON + HOUR, end=NOON + 2 * HOUR)
    jobs = report.jobs_of((first, later))
    assert [(job.last.user, job.record) for job in jobs] == [("alice", SHARED), ("bob", None)]
    assert len(report.jobs_of((first, replace(later, user="")))) == 1  # slurmdbd has not heard whose it is


def test_a_run_that_ended_before_its_job_was_queued_again_is_that_jobs_where_slurm_says_so(slurm: type[_Slurm]) -> None:
    """As of Slurm 26.05, which keeps how the run ended."""
    record = _with_runs(Run(outcome="oom_requeued", end=NOON + HOUR), Run(outcome="completed", end=NOON + 2 * HOUR))
    first = job_run(None, state="FAILED")
    second = job_run(record, submit=NOON + HOUR, start=NOON + HOUR, end=NOON + 2 * HOUR, restarts=1)
    row = _row(first, second)
    assert (row.jobs, row.ooms, row.oom_finished, row.gpu_hours_asked) == (1, 1, 1, 1.0)
    assert _row(first, replace(second, restarts=0)).jobs == 2
    assert _row(first, replace(second, user="bob")).jobs == 2
    slurm.known = (first, second)
    told = _radctl("explain", "1").output
    assert told.count("  run ") == 2
    assert "ran out of GPU memory and was queued again" in told


def test_what_the_row_of_an_earlier_run_holds_alone_counts(slurm: type[_Slurm]) -> None:
    """A preempted run's outcome may reach slurmdbd before its job starts again."""
    late, told_late = (
        NOON + 2 * HOUR,
        Run(peak_mib=20_000, start=NOON, end=NOON + HOUR, outcome="oom_requeued", restart=0),
    )
    early = replace(_with_runs(replace(told_late, outcome="oom_told")), user_changes=("mps:50", "mps:40"))
    newer = Run(peak_mib=15_000, start=late, end=late + HOUR, outcome="completed", restart=1)
    first = job_run(early, state="PREEMPTED")
    second = job_run(replace(_with_runs(newer), user_changes=("mps:40",)), start=late, end=late + HOUR)
    row = _row(first, second)
    assert (row.jobs, row.used_mib, row.ooms, row.oom_finished) == (1, 20_000, 1, 1)
    slurm.known = (first, second)
    told = _radctl("explain", "1").output
    assert "peak 19.5 GiB" in told
    assert "peak 14.6 GiB" in told
    assert re.findall("after that: (.*)", told) == ["mps:50", "mps:40"]
    # A row that has no record yet takes nothing away.
    assert _row(first, second, replace(second, state="PENDING", start=None, end=None, admin_comment="")) == row
    # Of one run told twice the newest word counts.
    slurm.known = (first, replace(second, admin_comment=encode(_with_runs(newer, told_late))))
    assert "was queued again with" in _radctl("explain", "1").output


def test_activity_and_energy() -> None:
    measured = Run(end=NOON + HOUR - 3, smact_mean=0.3, energy_j=1_800_000)
    row = _row(job_run(_with_runs(measured)), job_run(SHARED, job_id=2))
    assert (row.gpu_hours_idle, row.energy_kwh) == (0.1, 0.5)
    half = _row(job_run(_with_runs(measured)), until=NOON + HOUR // 2)
    assert (half.gpu_hours_idle, half.energy_kwh) == (0.05, 0.25)
    busy = _row(job_run(_with_runs(Run(end=NOON + HOUR, smact_mean=0.9))))
    assert (busy.gpu_hours_idle, busy.energy_kwh) == (0.0, None)
    two = {"gres/gpu": 2}
    several = _row(job_run(_with_runs(Run(end=NOON + HOUR, smact_mean=0.75)), allocated=two, requested=two))
    assert several.gpu_hours_idle == 0.5
    unseen = _row(job_run(_with_runs(Run(end=NOON + 2 * HOUR, smact_mean=0.9))))
    assert unseen.gpu_hours_idle is None


@pytest.mark.parametrize(
    ("outcome", "allocated", "asked"),
    [
        ("oom_requeued", {"gres/mps": 40}, 0.0),
        ("oom_told", {"gres/mps": 40}, 0.0),
        ("mps_victim", {"gres/mps": 40}, 0.0),
        ("mps_suspect", {}, 0.0),  # a site that does not account for shares
        ("oom_requeued", {"gres/gpu": 1, "gres/gpu:1g.18gb": 1}, 0.0),
        ("oom_final", {"gres/mps": 100}, 1.0),  # it had a whole GPU
        ("failed", {"gres/mps": 40}, 1.0),
        ("preempted", {"gres/mps": 40}, 1.0),
    ],
)
def test_runs_that_were_lost_to_sharing_save_nothing(outcome: str, allocated: dict[str, int], asked: float) -> None:
    row = _row(job_run(_with_runs(Run(outcome=outcome, end=NOON + HOUR)), state="FAILED", allocated=allocated))
    assert row.gpu_hours_asked == asked
    assert row.gpu_hours_held > 0
    assert row.gpu_hours_saved == pytest.approx(asked - row.gpu_hours_held)


def test_what_a_run_did_counts_in_the_time_in_which_it_did_it() -> None:
    """Two reports of two times, one after the other, tell of it once."""
    first, second = NOON + HOUR, NOON + 4 * HOUR
    record = _with_runs(
        Run(outcome="oom_requeued", end=first, energy_j=3_600_000),
        Run(outcome="completed", end=second, energy_j=7_200_000),
    )
    runs = (
        job_run(SHARED, state="REQUEUED"),
        job_run(record, submit=first, start=first + HOUR, end=second, elapsed_s=2 * HOUR),
    )
    between = NOON + 3 * HOUR  # in the middle of the second run
    before, after = _row(*runs, until=between), _row(*runs, since=between)
    assert (before.ooms, before.oom_finished, before.energy_kwh) == (1, 1, 2.0)
    assert (after.ooms, after.oom_finished, after.energy_kwh) == (0, 0, 1.0)
    assert [_row(*runs, until=first).ooms, _row(*runs, since=first).ooms] == [0, 1]
    assert _row(*runs, until=first).energy_kwh == 1.0
    assert _row(*runs, since=second).energy_kwh is None
    # slurmdbd lost the start of a short run.
    lost = _row(replace(runs[0], start=None, elapsed_s=0), runs[1], until=between)
    assert (lost.ooms, lost.energy_kwh) == (1, 2.0)


@pytest.mark.parametrize(
    ("state", "end", "ended"),
    [
        ("COMPLETED", NOON + HOUR, (1, 0, 0)),
        ("FAILED", NOON + HOUR, (0, 1, 0)),
        ("CANCELLED", NOON + HOUR, (0, 1, 0)),
        ("REQUEUED", NOON + HOUR, (0, 0, 1)),
        ("RUNNING", None, (0, 0, 1)),
    ],
)
def test_how_oom_ended(state: str, end: int | None, ended: tuple[int, int, int]) -> None:
    row = _row(job_run(_with_runs(Run(outcome="oom_requeued")), state=state, end=end))
    assert row.ooms == 1
    assert (row.oom_finished, row.oom_failed, row.oom_open) == ended


def test_groups() -> None:
    runs = [
        job_run(SHARED, job_id=1, user="bob"),
        job_run(SHARED, job_id=2, account="teaching"),
        job_run(SHARED, job_id=3, partition="big", start=NOON + 20 * HOUR),
        job_run(SHARED, job_id=4, start=NOON + 20 * HOUR),
    ]
    jobs = report.jobs_of(runs)

    def groups(by: report.By, hours: int = 0) -> dict[str, int]:
        made = report.make(jobs, *DAY, by, timezone(timedelta(hours=hours)))
        assert sum(row.jobs for row in made.rows) == made.total.jobs
        return {row.group: row.jobs for row in made.rows}

    assert groups("user") == {"alice": 3, "bob": 1}
    assert groups("account") == {"research": 3, "teaching": 1}
    assert groups("partition") == {"big": 1, "gpu": 3}
    assert groups("time") == {"2026-01-01": 2, "2026-01-02": 2}
    assert groups("time", -10) == {"2026-01-01": 4}
    assert groups("time", 14) == {"2026-01-02": 4}


@pytest.mark.parametrize("start", [NOON, None])
def test_a_job_counts_on_the_day_of_its_first_start(start: int | None) -> None:
    first = job_run(SHARED, state="REQUEUED", start=start)
    later = [NOON + hours * HOUR for hours in (13, 40)]
    runs = [job_run(SHARED, submit=at, start=at, end=at + HOUR, state="REQUEUED") for at in later]
    made = report.make(report.jobs_of([first, *runs]), DAY[0], NOON + 48 * HOUR, "time", UTC)
    assert [(row.group, row.jobs) for row in made.rows] == [("2026-01-01" if start else "2026-01-02", 1)]


@given(
    st.lists(
        st.tuples(st.integers(0, 4 * HOUR), st.integers(0, 4 * HOUR), st.integers(1, 100), st.booleans()), max_size=8
    )
)
def test_nothing_is_lost_between_groups(given_runs: list[tuple[int, int, int, bool]]) -> None:
    runs = [
        job_run(SHARED, job_id=n, user=f"u{n % 3}", start=NOON + a, end=None if open_ else NOON + a + b, elapsed_s=b,
                allocated={"gres/mps": share})
        for n, (a, b, share, open_) in enumerate(given_runs)
    ]  # fmt: skip
    made = report.make(report.jobs_of(runs), *DAY, "user", UTC)
    assert sum(row.gpu_hours_held for row in made.rows) == pytest.approx(made.total.gpu_hours_held, abs=1e-3)
    assert made.total.gpu_hours_saved >= 0


def test_csv_has_the_same_numbers_and_no_formulas() -> None:
    jobs = report.jobs_of([job_run(SHARED, user="=cmd()"), job_run(SHARED, job_id=2, user='a"b,c')])
    rows = list(csv.DictReader(io.StringIO(report.as_csv(report.make(jobs, *DAY, "user")))))
    assert [row["group"] for row in rows] == ["'=cmd()", 'a"b,c']
    assert rows[0]["gpu_hours_held"] == "0.4"
    assert rows[0]["estimated_mib"] == ""
    assert [report.harmless(f"{sign}x") for sign in "=+-@\t\r"] == [f"'{sign}x" for sign in "=+-@\t\r"]
    assert report.harmless(-1) == -1


class _Slurm:
    """Stands where Slurm's accounting stands."""

    known: tuple[JobRun, ...] = ()

    def runs(self, since: int, until: int, user: str = "", *, live: bool = False, later: bool = False) -> list[JobRun]:
        assert live and later
        return [run for run in self.known if user in ("", run.user)]

    def runs_of(self, job: str) -> list[JobRun]:
        if job in ("0", "9"):
            raise SlurmError("sacct: Bad job/step specified")
        if job.startswith("-"):
            raise AccountingError(f"{job!r} is no job id")
        return [run for run in self.known if job in (run.shown_id, str(run.job_id), run.shown_id.partition("_")[0])]


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> type[_Slurm]:
    monkeypatch.setattr(command, "SlurmAccounting", _Slurm)
    monkeypatch.setattr(_Slurm, "known", ())
    return _Slurm


def _radctl(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def test_table(slurm: type[_Slurm]) -> None:
    slurm.known = (
        job_run(SHARED),
        job_run(_with_runs(Run(outcome="oom_final", peak_mib=2048)), job_id=2, user="[red]"),
    )
    shown = _radctl("report", "--since", "2026-01-01", "--until", "2026-01-03")
    assert shown.exit_code == 0
    lines = [line.split() for line in shown.output.splitlines()]
    assert ["alice", "1", "1", "0", "0", "1.00", "0.40", "0.60", "-", "-", "0", "-"] in lines
    assert ["[red]", "1", "1", "0", "0", "1.00", "0.40", "0.60", "9.8", "2.0", "1", "1/1"] in lines
    assert lines[-2][0] == "total" or lines[-1][0] == "total"
    assert max(map(len, shown.output.splitlines())) <= 80


def test_a_long_name_cuts_no_number(slurm: type[_Slurm]) -> None:
    name = "department-of-computational-biology-group-a"
    begin = NOON - 2000 * HOUR
    slurm.known = (
        job_run(SHARED, user=name, submit=begin, start=begin, elapsed_s=2001 * HOUR),
        job_run(SHARED, job_id=2),
    )
    shown = _radctl("report", "--since", "2025-01-01", "--until", "2026-01-03").output
    assert "2001.00 800.40 1200.60" in shown
    assert name in "".join(line.split(" ")[1] for line in shown.splitlines() if line.startswith(" "))
    assert max(map(len, shown.splitlines())) <= 80


def test_a_narrow_terminal_cuts_no_number_and_no_short_name(slurm: type[_Slurm]) -> None:
    many = {"gres/gpu": 123_456}
    slurm.known = (job_run(None, allocated=many, requested=many, user="elisabeth"),)
    shown = CliRunner().invoke(cli, ["report", "--since", "2026-01-01", "--until", "2026-01-03"], env={"COLUMNS": "30"})
    cells = ["1", "0", "0", "1", "123456.00", "123456.00", "0.00", "-", "-", "0", "-"]
    lines = [line.split() for line in shown.output.splitlines()]
    assert ["elisabeth", *cells] in lines and ["total", *cells] in lines


def test_a_terminal_that_lacks_a_names_letters(slurm: type[_Slurm]) -> None:
    slurm.known = (job_run(SHARED, user="zoë"),)
    words = ["report", "--since", "2026-01-01", "--until", "2026-01-03"]
    assert "zo?" in CliRunner(charset="ascii").invoke(cli, words).output


def test_json_csv_and_user(slurm: type[_Slurm]) -> None:
    slurm.known = (job_run(SHARED), job_run(SHARED, job_id=2, user="bob"))
    made = json.loads(_radctl("report", "--json", "--user", "bob", "--by", "account", "--since", "2026-01-01").output)
    assert [row["jobs"] for row in made["rows"]] == [1]
    assert made["by"] == "account"
    assert made["total"]["gpu_hours_saved"] == 0.6
    assert _radctl("report", "--csv", "--since", "2026-01-01").output.count("\n") == 3


@pytest.mark.parametrize("words", [("report",), ("evaluate", "placement")])
def test_one_form_at_a_time(slurm: type[_Slurm], words: tuple[str, ...]) -> None:
    result = _radctl(*words, "--csv", "--json")
    assert result.exit_code == 2
    assert "--json and --csv exclude each other" in result.stderr


@pytest.mark.parametrize(
    ("since", "until", "counts"),
    [
        ("11:00", "11:59", False),  # it waits
        ("11:00", "12:01", True),
        ("12:20", "12:30", True),
        ("12:59", "14:00", True),
        ("13:00", "14:00", False),  # it has ended, and waited meanwhile to run again
        ("15:00", "15:01", True),  # its second run
        ("15:02", "16:00", False),
    ],
)
def test_jobs_count_while_they_ran_and_not_while_they_waited(
    slurm: type[_Slurm], since: str, until: str, counts: bool
) -> None:
    """Slurm tells of jobs that waited in that time, too."""
    again = NOON + 3 * HOUR
    slurm.known = (
        job_run(SHARED, state="REQUEUED"),
        job_run(SHARED, submit=NOON + HOUR, start=again, end=again, elapsed_s=0),
    )
    words = [f"--{name}=2026-01-01T{at}:00+00:00" for name, at in (("since", since), ("until", until))]
    assert json.loads(_radctl("report", "--json", *words).output)["total"]["jobs"] == counts


def test_a_run_whose_start_slurmdbd_lost_counts_at_its_end_and_one_that_was_cancelled_as_it_waited_nowhere() -> None:
    lost = job_run(SHARED, state="REQUEUED", start=None, elapsed_s=0)
    cancelled = job_run(SHARED, state="CANCELLED", start=NOON + 3 * HOUR, end=NOON + 3 * HOUR, elapsed_s=0, nodes="")
    jobs = report.put_together([lost, replace(cancelled, submit=NOON + HOUR)])
    assert report.within(jobs, NOON, NOON + HOUR + 1) == jobs
    assert report.within(jobs, NOON, NOON + HOUR) == []
    assert report.within(jobs, NOON + 2 * HOUR, NOON + 4 * HOUR) == []


def test_a_job_that_runs_counts_until_now(slurm: type[_Slurm]) -> None:
    slurm.known = (job_run(SHARED, state="RUNNING", end=None),)
    assert json.loads(_radctl("report", "--json", "--since", "1h").output)["total"]["jobs"] == 1


def test_nothing_to_report(slurm: type[_Slurm]) -> None:
    assert "no job asked for a GPU in that time" in _radctl("report").output


@pytest.mark.parametrize(("text", "at"), [("now", 1000), ("10m", 400), ("1d", 0), ("1970-01-01T00:10:00+00:00", 600)])
def test_moments(text: str, at: int) -> None:
    assert times.moment(text, 1000) == at


@pytest.mark.parametrize("text", ["", "yesterday", "7", "7y", "2026-13-01", "9999999999d"])
def test_what_is_no_moment(slurm: type[_Slurm], text: str) -> None:
    result = _radctl("report", "--since", text)
    assert result.exit_code == 2
    assert "is no time: write" in result.stderr


def test_a_time_that_ends_before_it_begins(slurm: type[_Slurm]) -> None:
    result = _radctl("report", "--since", "1d", "--until", "2d")
    assert result.stderr == "radctl: --since 1d is not before --until 2d\n"


def test_no_hours_of_a_time_that_is_still_to_come(slurm: type[_Slurm]) -> None:
    now = int(time.time())
    slurm.known = (job_run(SHARED, start=now - HOUR, end=None, state="RUNNING"),)
    made = json.loads(_radctl("report", "--json", "--until", "9000-01-01").output)
    assert now <= made["until"] < now + HOUR
    assert 1.0 <= made["total"]["gpu_hours_asked"] < 2.0
    result = _radctl("report", "--since", "8999-01-01", "--until", "9000-01-01")
    assert result.stderr == "radctl: --since 8999-01-01 is still to come\n"


def test_explain(slurm: type[_Slurm]) -> None:
    record = Record(action="share", asked="gpu:1", share=40, pin="g2", residents=(7, 8, 0, 9))
    slurm.known = (job_run(record), job_run(SHARED, job_id=7, name="bert"))
    shown = _radctl("explain", "1")
    assert shown.exit_code == 0
    assert "beside 7 (bert, 40 shares), 8, 9, a job submitted just before" in shown.output
    slurm.known = (job_run(replace(record, residents=(-1,))),)
    assert "beside -1" in _radctl("explain", "1").output
    slurm.known = (job_run(replace(record, residents=(0, 0, 0))),)
    assert "beside 3 jobs submitted just before" in _radctl("explain", "1").output


def test_explain_an_array(slurm: type[_Slurm]) -> None:
    slurm.known = tuple(job_run(SHARED, job_id=n, shown_id=f"4711_{n}") for n in range(3))
    assert "name one of them: 4711_0, 4711_1, 4711_2\n" in _radctl("explain", "4711").stderr
    assert _radctl("explain", "4711_2").output.startswith("job 4711_2 train.sh, alice, partition gpu\n")


def test_explain_an_array_of_which_some_tasks_wait(slurm: type[_Slurm]) -> None:
    slurm.known = tuple(
        job_run(SHARED, job_id=4711 + n, shown_id=name) for n, name in enumerate(("4711_[3-9%2]", "4711_1"))
    )
    assert "name one of them: 4711_1, 4711_3\n" in _radctl("explain", "4711").stderr


def test_explain_an_unknown_job(slurm: type[_Slurm]) -> None:
    result = _radctl("explain", "12")
    assert (result.exit_code, result.stderr) == (2, "radctl: job 12: neither slurmdbd nor slurmctld knows it\n")


def test_a_requeued_run_whose_start_slurmdbd_lost_is_not_the_last() -> None:
    lost = job_run(state="REQUEUED", start=None, end=NOON - 30, elapsed_s=0)
    (job,) = report.put_together([job_run(), lost])
    assert [run.state for run in job.runs] == ["REQUEUED", "COMPLETED"]
