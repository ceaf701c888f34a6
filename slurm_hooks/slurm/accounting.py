"""Jobs as Slurm's accounting and its controller know them: `sacct` and `squeue` behind one small interface.

Starts these two commands and nothing else; what they print is parsed by pure functions.

Text, not ``--json``: on 22.05 ``sacct --json`` gives exit code 0 for a job that failed with 3, and no user for one
without an association, where the text is right; and every version prints the same text. Free text (a job's name, an
AdminComment) may hold whatever its user likes, line ends too: so `sacct`'s delimiter is a fresh random word, and
`squeue`'s columns have fixed widths, the name last. 22.05 tells no number of restarts: ``-D`` shows every run.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Protocol

from slurm_hooks import mig
from slurm_hooks.shares import SHARES_PER_GPU
from slurm_hooks.slurm import squeue
from slurm_hooks.slurm.commands import Runner, SlurmError, run

log = logging.getLogger("rad.slurm")

SACCT_FIELDS = (
    "JobIDRaw", "JobID", "User", "Account", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw", "AllocTRES",
    "ReqTRES", "ExitCode", "NodeList", "JobName", "AdminComment",
)  # fmt: skip
# Of a job that is queued again after its run has ended, 26.05 shows that run as it ended, where older ones show it as
# requeued: this tells the runs of one job from jobs that had one number. 22.05 refuses it.
RESTARTS = "Restarts"
SQUEUE_COLUMNS = (
    ("JobID", 20), ("JobArrayID", 64), ("UserName", 64), ("Account", 64), ("Partition", 128), ("State", 20),
    ("SubmitTime", 20), ("StartTime", 20), ("EndTime", 20), ("TimeUsed", 20), ("tres-alloc", 512),
    ("Reason", 128), ("NodeList", 128), ("admin_comment", 16_384), ("Name", 256),
)  # fmt: skip
JOB_ID = re.compile(r"[1-9]\d{0,17}([_+]\d{1,18})?")  # of job 0 sacct tells all jobs
# A job whose newest run slurmdbd shows so may wait to run again.
_QUEUED_AGAIN = frozenset({"REQUEUED", "PREEMPTED", "NODE_FAIL"})
_WAITS_AGAIN = _QUEUED_AGAIN | {"PENDING"}
_EARLIEST_S = 1_000_000  # Slurm takes no time before it
_UNKNOWN = "Invalid job id"  # says squeue of a job that slurmctld does not know, or no more
_JOBS_AT_ONCE = 1_000  # in one question to slurmctld
_NAMED = 5  # of many jobs
_CLOCK = re.compile(r"(?:(?:(\d{1,6})-)?(\d{1,6}):)?(\d{1,6}):(\d{1,6})")


class AccountingError(ValueError):
    """A question that Slurm's accounting cannot answer; the message says why."""


@dataclass(frozen=True)
class JobRun:
    """One run of a job; a requeued job has several.

    Attributes:
        job_id: Slurm's own number of the job, of array tasks too.
        shown_id: what users write: ``4711``, ``4711_3`` for an array task, ``4711+1`` for a part of a het job.
        user: in small letters, as slurmdbd keeps names; slurmctld knows those of the system, which may have capitals.
        account, partition, name, nodes: as Slurm shows them.
        state: one word, for example ``COMPLETED`` or ``CANCELLED``.
        submit, start, end: Unix times in seconds, or None where Slurm knows none.
        elapsed_s: how long it ran, in seconds, as Slurm counts it.
        allocated, requested: resources by name, for example ``{"gres/mps:g2": 38}``.
        exit_code, signal: how it ended.
        reason: why it waits, or the empty string.
        admin_comment: text of RAD and other tools.
        restarts: how often the job had been queued again before, 0 where Slurm does not tell; where this run was, too,
            24.11 counts that as well.
    """

    job_id: int
    shown_id: str
    user: str
    account: str
    partition: str
    state: str
    submit: int | None
    start: int | None
    end: int | None
    elapsed_s: int
    allocated: Mapping[str, int]
    requested: Mapping[str, int]
    exit_code: int
    signal: int
    nodes: str
    name: str
    admin_comment: str
    reason: str = ""
    restarts: int = 0

    @property
    def gpus(self) -> float:
        """GPUs held: whole ones, shares as hundredths of one, and MIG instances as their parts of one."""
        if "gres/gpu" in self.allocated:
            held = float(self.allocated["gres/gpu"])
            for name, count in self.allocated.items():
                instance = mig.instance(name.removeprefix("gres/gpu:")) if name.startswith("gres/gpu:") else None
                if instance is not None:
                    held -= count * (1 - instance.share / SHARES_PER_GPU)
            return held
        return self.allocated.get("gres/mps", 0) / SHARES_PER_GPU


class Accounting(Protocol):
    """Where jobs are looked up."""

    def runs(self, since: int, until: int, user: str = "") -> list[JobRun]:
        """All runs of jobs that were there at some time between two Unix times."""

    def runs_of(self, job: str) -> list[JobRun]:
        """All runs of a job, of an array or a task of it, or a part of a het job; empty if none is known."""


class SlurmAccounting:
    """`sacct` for what slurmdbd keeps, `squeue` for what has not got there yet."""

    def __init__(self, timeout_s: float = 60.0, runner: Runner = run) -> None:
        self._timeout_s = timeout_s
        self._run = runner
        self._fields: Sequence[str] = (*SACCT_FIELDS, RESTARTS)

    def runs(self, since: int, until: int, user: str = "", *, live: bool = False, later: bool = False) -> list[JobRun]:
        """All runs of jobs that were there at some time between two Unix times.

        Args:
            since: Unix time in seconds.
            until: Unix time in seconds.
            user: only this user's; the empty string for everybody's.
            live: ask slurmctld too for the comments of jobs that run or wait to run again, which Slurm 22.05 sends to
                slurmdbd at the end, and whether those that were preempted wait: slurmdbd hears of that later.
            later: tell of the later runs of jobs that were queued again, too: the last one holds the record.

        Raises:
            SlurmError: if `sacct` fails.
        """
        who = ["-u", user] if user else ["-a"]
        # By state: else sacct looks at when a job was eligible, which a job never was that was held while it ran.
        kept = self._sacct([*who, "-s", "PD,R", "-S", f"uts{max(_EARLIEST_S, since)}", "-E", f"uts{until}"])
        if later:
            kept += self._later(kept)
        if not live:
            return kept
        asked, error = self._try(lambda: self._live(kept))
        if error is not None:
            log.warning(
                "%s; what RAD decided of jobs that have not ended is not known: they count as without RAD", error
            )
        elif lost := self._lost(kept, asked):
            log.warning(
                "slurmdbd says that %d jobs run which slurmctld does not show (%s): they count until now, perhaps as "
                "without RAD; where PrivateData does not hide them from you, their end was lost, and `sacctmgr show "
                "runawayjobs` ends them",
                len(lost),
                ", ".join([*map(str, lost[:_NAMED]), *(["..."] if len(lost) > _NAMED else [])]),
            )
        found = {run.job_id: run for run in asked}
        open_ = {run.job_id for run in kept if run.end is None and _is_told(run, found)}
        with_comments = [
            replace(run, admin_comment=found[run.job_id].admin_comment)
            if run.end is None and not run.admin_comment and _is_told(run, found)
            else run
            for run in kept
        ]
        return with_comments + [run for run in found.values() if run.state == "PENDING" and run.job_id not in open_]

    def _later(self, kept: Sequence[JobRun]) -> list[JobRun]:
        """Runs that began after those of `kept` which were queued again."""
        newest = _newest_of(kept)
        again = [job for job in sorted(newest) if newest[job].state in _QUEUED_AGAIN]
        found: list[JobRun] = []
        for first in range(0, len(again), _JOBS_AT_ONCE):
            asked = again[first : first + _JOBS_AT_ONCE]
            # Asked for the last task of an array, whose number is the array's too, sacct tells of all its tasks.
            told = (run for run in self._sacct(["-j", ",".join(map(str, asked))]) if run.job_id in asked)
            found += [run for run in told if (run.submit or 0) > (newest[run.job_id].submit or 0)]
        return found

    def _live(self, kept: Sequence[JobRun]) -> list[JobRun]:
        """Jobs as slurmctld knows them that run, and those of `kept` that ran and wait; of all that wait, too many.

        Raises:
            SlurmError: if it does not answer.
        """
        running: list[JobRun] = []
        if any(run.end is None for run in kept):
            running = self._squeue(["-t", ",".join(squeue.HOLDING)])
        ran = {run.job_id for run in kept if run.end is not None}
        newest = _newest_of(kept)
        again = [job for job in sorted(ran) if newest[job].state in _WAITS_AGAIN]
        for first in range(0, len(again), _JOBS_AT_ONCE):
            jobs = ",".join(map(str, again[first : first + _JOBS_AT_ONCE]))
            waiting, error = self._try(partial(self._squeue, ["-t", "PD", "-j", jobs]))
            if error is not None and _UNKNOWN not in str(error):
                raise error
            running += waiting
        return running

    def _lost(self, kept: Sequence[JobRun], running: Sequence[JobRun]) -> list[int]:
        """Jobs of `kept` that run, but not in slurmctld: slurmdbd was not told of their end, and they run for ever."""
        open_ = _untold((run for run in kept if run.start is not None and run.end is None), running)
        asked = sorted({run.job_id for run in open_})
        for first in range(0, len(asked), _JOBS_AT_ONCE):
            # One that has ended since slurmdbd was asked is known for some minutes.
            jobs = ",".join(map(str, asked[first : first + _JOBS_AT_ONCE]))
            told, error = self._try(partial(self._squeue, ["-t", "all", "-j", jobs]))
            if error is not None and _UNKNOWN not in str(error):
                return []
            open_ = _untold(open_, told)
        return sorted({run.job_id for run in open_})

    def runs_of(self, job: str) -> list[JobRun]:
        """All runs of one job, oldest first.

        The controller has the last word on a job that has not ended: its record reaches slurmdbd later.

        Raises:
            AccountingError: if `job` is no job id.
            SlurmError: if neither `sacct` nor `squeue` answers, or the latter does not, or does not show the job, and
                alone may know the record.
        """
        if JOB_ID.fullmatch(job) is None:
            forms = "4711, 4711_3 for a task of an array, or 4711+1 for a part of a heterogeneous job"
            raise AccountingError(f"{job!r} is no job id: write {forms}")
        # -r: one row for each task, so that a task that waits is found by its own number.
        tasks = ["-r"] if "_" in job else []
        kept, sacct_error = self._try(lambda: self._sacct(["-j", job]))
        queued, squeue_error = self._try(lambda: self._squeue(["-t", "all", *tasks, "-j", job]))
        if sacct_error is not None and not queued:
            raise sacct_error
        told = bool(kept) and all(run.end is not None or run.admin_comment for run in kept)
        if squeue_error is not None and _UNKNOWN not in str(squeue_error) and not told:
            raise squeue_error
        if hidden := _hidden(kept, queued):
            raise SlurmError(
                f"slurmdbd says that job {hidden[0].shown_id} has not ended, slurmctld does not show it: where "
                "PrivateData does not hide it from you, its end was lost (`sacctmgr show runawayjobs`)"
            )
        found = _newest(kept, queued)
        # Asked for a part, squeue tells of the whole job.
        return [run for run in found if run.shown_id == job] if "+" in job else found

    def _try(self, ask: Callable[[], list[JobRun]]) -> tuple[list[JobRun], SlurmError | None]:
        try:
            return ask(), None
        except SlurmError as error:
            return [], error

    def _sacct(self, which: Sequence[str]) -> list[JobRun]:
        delimiter = f"<{secrets.token_hex(8)}>"
        fields = ",".join(self._fields)
        command = ["sacct", "-n", "-X", "-D", "-p", f"--delimiter={delimiter}", "-o", fields, *which]
        try:
            return parse_sacct(self._run(command, self._timeout_s), delimiter, self._fields)
        except SlurmError as error:
            if RESTARTS not in self._fields or "Invalid field" not in str(error):
                raise
        self._fields = SACCT_FIELDS
        return self._sacct(which)

    def _squeue(self, which: Sequence[str]) -> list[JobRun]:
        wide = squeue.wanted(SQUEUE_COLUMNS)
        return parse_squeue(self._run(["squeue", "-h", "-a", *which, "-O", wide], self._timeout_s))


def parse_sacct(text: str, delimiter: str, fields: Sequence[str] = SACCT_FIELDS) -> list[JobRun]:
    """What ``sacct -p`` printed of `fields`, whatever line ends a job's name holds."""
    words = _words(text, delimiter)
    size = len(fields)
    # The last row ends with a delimiter too; what follows it is a line end.
    rows = [words[at : at + size] for at in range(0, len(words) - size + 1, size)]
    made = (_from_sacct(dict(zip(fields, (row[0].lstrip("\n"), *row[1:]), strict=True))) for row in rows)
    return [run for run in made if run is not None]


def _words(text: str, delimiter: str) -> list[str]:
    """`text` split at a delimiter, piece by piece."""
    words: list[str] = []
    start = 0
    while (stop := text.find(delimiter, start + squeue.PIECE)) >= 0:
        words += text[start:stop].split(delimiter)
        start = stop + len(delimiter)
    return words + text[start:].split(delimiter)


def parse_squeue(text: str) -> list[JobRun]:
    """What ``squeue -O`` printed of SQUEUE_COLUMNS."""
    return [
        _from_squeue({name: cell.decode(errors="replace").replace("(null)", "") for name, cell in row.items()})
        for row in squeue.rows(text, SQUEUE_COLUMNS)
    ]


def _from_sacct(row: Mapping[str, str]) -> JobRun | None:
    if not row["JobIDRaw"].isdigit():
        return None
    code, _, signal = row["ExitCode"].partition(":")
    submit, start, elapsed_s = _number(row["Submit"]), _number(row["Start"]), _number(row["ElapsedRaw"]) or 0
    if submit is not None and start is not None and start < submit:
        # A job that changed its size has a row for each, submitted when that began and started with the job.
        start, elapsed_s = submit, max(0, elapsed_s - (submit - start))
    return JobRun(
        job_id=int(row["JobIDRaw"]),
        shown_id=row["JobID"],
        user=row["User"].lower(),
        account=row["Account"],
        partition=row["Partition"],
        state=row["State"].partition(" ")[0],
        submit=submit,
        start=start,
        end=_number(row["End"]),
        elapsed_s=elapsed_s,
        allocated=_tres(row["AllocTRES"]),
        requested=_tres(row["ReqTRES"]),
        exit_code=_number(code) or 0,
        signal=_number(signal) or 0,
        nodes=row["NodeList"] if row["NodeList"] != "None assigned" else "",
        name=row["JobName"],
        admin_comment=row["AdminComment"],
        restarts=_number(row.get(RESTARTS, "")) or 0,
    )


def _from_squeue(row: Mapping[str, str]) -> JobRun:
    state = "PENDING" if row["State"] in squeue.HELD else row["State"]
    ended = state not in squeue.LIVE
    started = state != "PENDING"
    start = _number(row["StartTime"]) if started else None
    tres = _tres(row["tres-alloc"])
    return JobRun(
        job_id=int(row["JobID"]),
        shown_id=row["JobArrayID"],
        user=row["UserName"].lower(),
        account=row["Account"],
        partition=row["Partition"],
        state=state,
        submit=_number(row["SubmitTime"]),
        start=start,
        end=_number(row["EndTime"]) if ended else None,  # of a running job this is its time limit
        elapsed_s=_clock(row["TimeUsed"]),
        allocated=tres if started else {},
        requested=tres,
        exit_code=0,
        signal=0,
        nodes=row["NodeList"],
        name=row["Name"],
        admin_comment=row["admin_comment"],
        reason=row["Reason"] if row["Reason"] != "None" else "",
    )


def _newest(kept: Sequence[JobRun], queued: Sequence[JobRun]) -> list[JobRun]:
    """Rows of slurmdbd, with the controller's in place of those that have not ended or are not there yet.

    Of a job that has just ended slurmdbd may know the start alone, and nothing of its record.
    """
    unended = {run.job_id for run in kept if run.end is None}
    live = {run.job_id for run in queued if run.state in squeue.LIVE or run.job_id in unended}
    known = {run.job_id for run in kept}
    names = {run.job_id: run for run in queued}
    stay = [_named(run, names.get(run.job_id)) for run in kept if run.job_id not in live or run.end is not None]
    restarts = {run.job_id: run.restarts for run in kept if run.end is None}
    fresh = [
        replace(run, restarts=restarts.get(run.job_id, 0))
        for run in queued
        if run.job_id in live or run.job_id not in known
    ]
    return [*stay, *fresh]


def _newest_of(runs: Iterable[JobRun]) -> dict[int, JobRun]:
    """The newest run of each job."""
    return {run.job_id: run for run in sorted(runs, key=lambda run: run.submit or 0)}


def _is_told(run: JobRun, found: Mapping[int, JobRun]) -> bool:
    """Whether slurmctld tells of a run's job, and not of a later one that got its number.

    Names of one user may differ: where the host knows none squeue says nobody.
    """
    told = found.get(run.job_id)
    return told is not None and (told.user == run.user or (told.submit or 0) <= (run.submit or 0))


def _untold(runs: Iterable[JobRun], told: Iterable[JobRun]) -> list[JobRun]:
    """Those of `runs` of whose jobs slurmctld does not tell."""
    found = {run.job_id: run for run in told}
    return [run for run in runs if not _is_told(run, found)]


def _hidden(kept: Sequence[JobRun], queued: Sequence[JobRun]) -> list[JobRun]:
    """Those of `kept` that have not ended, of whose jobs neither slurmctld nor another run tells what RAD decided."""
    known = {run.job_id for run in kept if run.admin_comment}
    return [run for run in _untold((run for run in kept if run.end is None), queued) if run.job_id not in known]


def _named(run: JobRun, queued: JobRun | None) -> JobRun:
    """A row of slurmdbd, which may hear of a short job's end before it hears what the job was."""
    if run.partition or queued is None:
        return run
    what = {key: getattr(queued, key) for key in ("shown_id", "name", "account", "partition", "user")}
    return replace(run, **what)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _clock(text: str) -> int:
    """Seconds of Slurm's ``[days-][hours:]minutes:seconds``; 0 where it says something else."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return 0
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@lru_cache(maxsize=1024)  # many jobs ask for the same
def _tres(text: str) -> Mapping[str, int]:
    """Resources that are counted, ``gres/mps:g2=38`` for example; amounts of memory are left out."""
    pairs = (item.partition("=") for item in text.split(","))
    return {name: number for name, _, value in pairs if (number := _number(value)) is not None}
