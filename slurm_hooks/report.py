"""What sharing did over a time: jobs, GPU-hours, memory and out-of-memory errors by group. Pure.

Hours count within the time asked for; a job counts on the day on which it first started. Jobs that ask for no GPU
and jobs that have not run yet are left out.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Literal, NamedTuple

from slurm_hooks.gres import DEVICE_TYPE
from slurm_hooks.records import Record, Run, decode, with_earlier
from slurm_hooks.shares import SHARES_PER_GPU
from slurm_hooks.slurm.accounting import JobRun

By = Literal["user", "account", "partition", "time"]
ENDED_WELL = "COMPLETED"
JOULES_PER_KWH = 3_600_000
# Of a job that is queued again, even after its end, slurmdbd shows the run before as requeued, preempted or the like,
# or as it ended, and then counts how often it was queued again.
_LAST_STATES = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"})
_CLOCKS_DIFFER_S = 60  # an Epilog's clock and slurmctld's
_ASKED = re.compile(rf"(?:^|,)gpu(?::{DEVICE_TYPE})?(?::(\d{{1,4}}))?(?=,|$)")


@dataclass(frozen=True)
class Job:
    """One job: its runs, oldest first, and its record.

    Attributes:
        runs: as Slurm counts them.
        record: RAD's record, or None for a job that RAD did not see.
    """

    runs: tuple[JobRun, ...]
    record: Record | None

    @property
    def last(self) -> JobRun:
        """The newest run, which tells the job's state."""
        return self.runs[-1]

    @property
    def is_shared(self) -> bool:
        """Whether RAD turned the request into shares of a GPU."""
        return self.record is not None and self.record.action == "share"

    @property
    def is_changed(self) -> bool:
        """Whether RAD changed the request."""
        return self.record is not None and self.record.is_rewritten

    @property
    def asks(self) -> bool:
        """Whether the user asked for a GPU or a part of one."""
        return bool(self._requested)

    @property
    def _requested(self) -> float:
        if self.record is not None and (found := _ASKED.search(self.record.asked)):
            return float(found.group(1) or 1)
        requested = self.last.requested
        return (
            float(requested["gres/gpu"]) if "gres/gpu" in requested else requested.get("gres/mps", 0) / SHARES_PER_GPU
        )

    def gpus_asked(self, run: JobRun) -> float:
        """GPUs that the user asked for in a run.

        Where RAD changed nothing this is what the run was given: on each of several nodes, for each task, with
        --exclusive, as a MIG instance. So whatever is saved RAD has saved. A run that was lost to sharing counts as
        asked for by nobody: what it held is lost.
        """
        if not self.is_changed:
            return run.gpus or self._requested
        return 0.0 if self._is_lost(run) else self._requested

    def _is_lost(self, run: JobRun) -> bool:
        """Whether a run ended for want of memory in a part of a GPU, or because of its MPS server."""
        kept = self.kept(run)
        ended_so = kept is not None and kept.outcome.startswith(("oom_", "mps_"))
        return ended_so and self.gpus_held(run) < self._requested

    def gpus_held(self, run: JobRun) -> float:
        """GPUs that a run held; where Slurm does not account for them the record's share, or what was asked for."""
        if run.gpus:
            return run.gpus
        if self.record is None or not self.is_changed:
            return self._requested
        kept = self.kept(run)
        share = self.record.share if kept is None or kept.share is None else kept.share
        return (share or 0) / SHARES_PER_GPU

    def kept(self, run: JobRun) -> Run | None:
        """What the record says of one of Slurm's runs: one that RAD did not see end is missing there."""
        if self.record is None:
            return None
        near = [(distance, n) for n, k in enumerate(self.record.runs) if (distance := _distance(run, k)) is not None]
        return self.record.runs[min(near)[1]] if near else None

    def ooms(self, since: int, until: int) -> int:
        """Runs that ended between two Unix times because GPU memory ran out."""
        runs = self.record.runs if self.record else ()
        return sum(run.outcome.startswith("oom") and (run.end is None or since <= run.end < until) for run in runs)

    @property
    def peak_mib(self) -> int | None:
        """Largest GPU memory that was measured, in MiB."""
        peaks = [run.peak_mib for run in self.record.runs if run.peak_mib is not None] if self.record else []
        return max(peaks, default=None)


@dataclass(frozen=True)
class Row:
    """One group's numbers.

    Attributes:
        group: whose they are.
        jobs: jobs that asked for a GPU.
        shared: of these, jobs that RAD gave shares of a GPU.
        exclusive: jobs that RAD gave a whole GPU.
        left_alone: jobs with `#RAD` lines that RAD did not change, by their kind or by the partition's mode.
        unseen: jobs without a record of RAD's.
        gpu_hours_asked: GPUs asked for times the time they ran, without runs that were lost to sharing.
        gpu_hours_held: shares held, as parts of a GPU, times the time they ran.
        gpu_hours_saved: the difference.
        gpu_hours_idle: of the hours held in runs whose SMACT was measured, those in which no warp was resident; None
            if it was measured in none.
        energy_kwh: energy of the runs of which it was measured, of the time in which they ran, or None.
        measured: jobs of which both the estimate and the use of memory are known.
        estimated_mib, upper_mib, used_mib: means over those jobs, in MiB, or None if there are none.
        over_upper: of those jobs, how many used more than the estimate's upper bound.
        ooms: runs that ended because GPU memory ran out, in this time.
        oom_finished: jobs that did so and completed in a later run.
        oom_failed: jobs that did so and ended otherwise.
        oom_open: jobs that did so and wait or run again.
    """

    group: str
    jobs: int
    shared: int
    exclusive: int
    left_alone: int
    unseen: int
    gpu_hours_asked: float
    gpu_hours_held: float
    gpu_hours_saved: float
    gpu_hours_idle: float | None
    energy_kwh: float | None
    measured: int
    estimated_mib: int | None
    upper_mib: int | None
    used_mib: int | None
    over_upper: int
    ooms: int
    oom_finished: int
    oom_failed: int
    oom_open: int


@dataclass(frozen=True)
class Report:
    """The report of a time.

    Attributes:
        since, until: Unix times in seconds.
        by: what the rows group by.
        rows: one for each group, sorted by name.
        total: all groups together.
    """

    since: int
    until: int
    by: By
    rows: tuple[Row, ...]
    total: Row


def _distance(run: JobRun, kept: Run) -> int | None:
    """Seconds between the ends of a run as Slurm and as the record has it; None where it is another run.

    Of a short run that was requeued slurmdbd may lose the start; what never ran has no node either.
    """
    if run.end is None or not run.nodes or kept.end is None or abs(kept.end - run.end) > _CLOCKS_DIFFER_S:
        return None
    if kept.start is not None and (kept.start > run.end or (run.start is not None and kept.end < run.start)):
        return None
    return abs(kept.end - run.end)


def put_together(runs: Iterable[JobRun]) -> list[Job]:
    """Jobs from their runs, oldest first where several had one number, as after a slurmctld that lost its state."""
    by_id: dict[int, list[JobRun]] = {}
    for run in runs:
        by_id.setdefault(run.job_id, []).append(run)
    jobs = []
    for several in by_id.values():
        # Of a short run that was requeued slurmdbd may lose the start, never the end.
        several.sort(key=lambda run: (run.submit or 0, run.start or run.end or math.inf))
        first = 0
        for stop, run in enumerate(several, start=1):
            if stop == len(several) or not _goes_on(run, several[stop]):
                jobs.append(_job(several[first:stop]))
                first = stop
    return jobs


def _goes_on(run: JobRun, later: JobRun) -> bool:
    """Whether a later run that has the number of this one is of the same job."""
    # Of a short run slurmdbd may not know the user yet.
    if run.user and later.user and run.user != later.user:
        return False
    return run.state not in _LAST_STATES or (later.restarts > run.restarts and later.user == run.user)


def _job(runs: Sequence[JobRun]) -> Job:
    record: Record | None = None
    for run in runs:
        newer = decode(run.admin_comment)
        if newer is not None:
            record = newer if record is None else with_earlier(newer, record)
    return Job(tuple(runs), record)


def within(jobs: Iterable[Job], since: int, until: int) -> list[Job]:
    """Those of `jobs` that ran at some time between two Unix times; others only waited then."""

    def overlaps(run: JobRun) -> bool:
        start = run.end if run.start is None else run.start  # of a short run slurmdbd may lose the start
        ended_before = run.end is not None and run.end <= since
        ran = start is not None and start < until and (start >= since or not ended_before)
        return ran and (run.nodes != "" or run.elapsed_s > 0)

    return [job for job in jobs if any(map(overlaps, job.runs))]


def jobs_of(runs: Iterable[JobRun]) -> list[Job]:
    """Jobs that a report counts: those that have run and asked for a GPU, whatever Slurm accounts for."""

    def ran(run: JobRun) -> bool:  # what sbatch was refused has a start too, that of its end
        return run.start is not None and (run.nodes != "" or run.elapsed_s > 0)

    started = (job for job in put_together(runs) if any(map(ran, job.runs)))
    return [job for job in started if job.is_changed or job.asks]


def make(jobs: Sequence[Job], since: int, until: int, by: By, zone: tzinfo | None = None) -> Report:
    """The report of `jobs` between two Unix times.

    Args:
        jobs: as `jobs_of` puts them together.
        since: hours before this do not count; Unix time in seconds.
        until: hours after this do not count; Unix time in seconds.
        by: what the rows group by.
        zone: where days begin at midnight; None for this machine's.
    """
    key = _keys(zone)[by]
    counted = [_count(job, since, until) for job in jobs]
    groups: dict[str, list[_Counted]] = {}
    for one in counted:
        groups.setdefault(key(one.job), []).append(one)
    rows = tuple(_row(name, groups[name]) for name in sorted(groups))
    return Report(since, until, by, rows, _row("total", counted))


def _keys(zone: tzinfo | None) -> Mapping[By, Callable[[Job], str]]:
    def day(job: Job) -> str:
        first = min(run.start for run in job.runs if run.start is not None)
        return datetime.fromtimestamp(first, zone).date().isoformat()

    return {
        "user": lambda job: job.last.user,
        "account": lambda job: job.last.account,
        "partition": lambda job: job.last.partition,
        "time": day,
    }


def seconds_within(run: JobRun, since: int, until: int) -> int:
    """Seconds that a run ran between two Unix times; one that has not ended runs until the later of them.

    Slurm's count leaves out suspended time: its ratio is kept, also while the run is suspended.
    """
    if run.start is None:
        return 0
    end = run.end if run.end is not None else until
    whole = max(0, end - run.start)
    part = max(0, min(end, until) - max(run.start, since))
    return round(part * min(1.0, run.elapsed_s / whole)) if whole else part


def part_within(run: JobRun, since: int, until: int) -> float:
    """The part, 0 to 1, of a run that has ended that lies between two Unix times."""
    end = run.end or 0
    whole = seconds_within(run, 0, end)
    return seconds_within(run, since, until) / whole if whole else float(since <= end < until)


class _Counted(NamedTuple):
    """What a job adds to its group and to the total; the numbers are those of `Row`, None where nothing was measured.

    Attributes:
        memory: what was expected, its upper bound and the peak, in MiB, where all are known.
    """

    job: Job
    hours_asked: float
    hours_held: float
    hours_idle: float | None
    energy_kwh: float | None
    memory: tuple[int, int, int] | None
    ooms: int


def _count(job: Job, since: int, until: int) -> _Counted:
    asked, held = 0.0, 0.0
    idle, energy = list[float](), list[float]()
    for run in job.runs:
        hours, gpus, kept = seconds_within(run, since, until) / 3600, job.gpus_held(run), job.kept(run)
        asked += job.gpus_asked(run) * hours
        held += gpus * hours
        if kept is not None and kept.smact_mean is not None and hours:
            idle.append(_idle(gpus, kept.smact_mean) * hours)
        if kept is not None and kept.energy_j is not None and (part := part_within(run, since, until)):
            energy.append(kept.energy_j / JOULES_PER_KWH * part)
    return _Counted(job, asked, held, _sum(idle), _sum(energy), _memory(job), job.ooms(since, until))


def _memory(job: Job) -> tuple[int, int, int] | None:
    expected, peak = (None, None) if job.record is None else (job.record.expected_mib, job.peak_mib)
    if job.record is None or expected is None or peak is None:
        return None
    return expected, job.record.upper_mib or expected, peak


def _row(name: str, counted: Sequence[_Counted]) -> Row:
    jobs = [one.job for one in counted]
    hours_asked = sum(one.hours_asked for one in counted)
    hours_held = sum(one.hours_held for one in counted)
    idle = _sum([one.hours_idle for one in counted if one.hours_idle is not None])
    energy = _sum([one.energy_kwh for one in counted if one.energy_kwh is not None])
    actions = [job.record.action if job.record else "" for job in jobs]
    known = [one.memory for one in counted if one.memory is not None]
    died = [one.job for one in counted if one.ooms]
    finished = sum(job.last.state == ENDED_WELL for job in died)
    failed = sum(job.last.end is not None and job.last.state not in (ENDED_WELL, "REQUEUED") for job in died)
    return Row(
        group=name,
        jobs=len(jobs),
        shared=actions.count("share"),
        exclusive=actions.count("exclusive"),
        left_alone=sum(action in ("left_alone", "advised", "shadowed") for action in actions),
        unseen=actions.count(""),
        gpu_hours_asked=round(hours_asked, 4),
        gpu_hours_held=round(hours_held, 4),
        gpu_hours_saved=round(hours_asked - hours_held, 4),
        gpu_hours_idle=None if idle is None else round(idle, 4),
        energy_kwh=None if energy is None else round(energy, 4),
        measured=len(known),
        estimated_mib=_mean([expected for expected, _, _ in known]),
        upper_mib=_mean([upper for _, upper, _ in known]),
        used_mib=_mean([used for _, _, used in known]),
        over_upper=sum(used > upper for _, upper, used in known),
        ooms=sum(one.ooms for one in counted),
        oom_finished=finished,
        oom_failed=failed,
        oom_open=len(died) - finished - failed,
    )


def _sum(values: Sequence[float]) -> float | None:
    return sum(values) if values else None


def _idle(held: float, smact: float) -> float:
    """GPUs of those held in which no warp was resident; of several GPUs SMACT is the mean."""
    return max(0.0, held - smact * max(1.0, held))


def _mean(values: Sequence[int]) -> int | None:
    return round(sum(values) / len(values)) if values else None


def as_csv(report: Report) -> str:
    """The rows as CSV."""
    return table(Row, report.rows)


def table(kind: type[Any], rows: Iterable[Any]) -> str:
    """Dataclasses of one kind as CSV, one line of names first; what a spreadsheet would run gains a quote."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(f.name for f in dataclasses.fields(kind))
    writer.writerows(map(harmless, dataclasses.astuple(row)) for row in rows)
    return out.getvalue()


def harmless(value: object) -> object:
    """A cell of a table; text that a spreadsheet would run as a formula gains a quote."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
