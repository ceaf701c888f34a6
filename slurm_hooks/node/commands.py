"""Slurm's commands as the node side uses them, each under a time limit. The only module here that starts them.

Everything that a user can put into a job (its name, its comment) may come back in their output, line ends too, so a
job is read from columns of fixed widths and a run from a table whose free text stands last. `--local`: in a federation
other clusters' jobs may stand there too, and one that is down would be waited for.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from slurm_hooks.node.job import exit_pair
from slurm_hooks.slurm import squeue
from slurm_hooks.slurm.squeue import Columns

_LAST_WAIT_S = 1.0
_CREDENTIAL_S = 120
_NAME_SPACES = re.compile(r"^(?:JobContainerType|NamespaceType)[ \t]*=[ \t]*(?!\(null\)|\S*/none\b)\S", re.MULTILINE)


@dataclass(frozen=True)
class Done:
    """How a command ended; `code` is None where it could not be started or took too long."""

    code: int | None
    out: str
    err: str

    @property
    def ok(self) -> bool:
        """Whether it did what it was asked to."""
        return self.code == 0

    @property
    def problem(self) -> str:
        """One line that says what went wrong."""
        if self.code is None:
            return self.err
        last = (self.err.strip() or self.out.strip()).splitlines()[-1:] or [""]
        return f"exit status {self.code}: {last[0]}".encode(errors="replace").decode()


def run(argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """Run a command; at the time limit it and what it started are killed."""
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            start_new_session=True,
        )
    except OSError as error:
        return Done(None, "", f"{argv[0]}: {error.strerror}")
    try:
        out, err = process.communicate(stdin.encode(), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in a driver cannot even be killed
            process.wait(_LAST_WAIT_S)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        return Done(None, "", f"{argv[0]}: no answer within {timeout_s:g} s")
    # What is no UTF-8 goes back as it came (a log's name, another tool's comment). So does a carriage return: read as
    # a line's end it would change, or vanish, and the columns behind it would stand elsewhere.
    return Done(process.returncode, *(text.decode(errors="surrogateescape") for text in (out, err)))


@dataclass(frozen=True)
class ShownJob:
    """What the controller knows of a job.

    Attributes:
        target: how commands name this job and no other: of an array's last task, whose number is the array's too,
            only ``array_task`` does.
        array_job, array_task: of a task of an array.
        name: the job's name.
        requeue: whether Slurm may requeue it.
        batch: whether it has a batch script.
        restarts: how often it was requeued.
        state, reason: Slurm's words; `state` hides behind COMPLETING while an Epilog runs.
        exit_status, exit_signal: how it ended.
        tres_per_node: its request, for example ``gres:mps:g2:30``.
        admin_comment: as stored, without blanks at its end; empty too where it is too long to be read.
        stdout: path of the log as Slurm shows it.
    """

    target: str
    array_job: int | None
    array_task: int | None
    name: str
    requeue: bool
    batch: bool
    restarts: int
    state: str
    reason: str
    exit_status: int
    exit_signal: int
    tres_per_node: str
    admin_comment: str
    stdout: str


# Twice, as blanks fill the column: the one tells of blanks before the name, the other of those behind it.
_NAME = (("Name", 1_088), (".Name", 1_088))
# What squeue is asked of a job.
_COLUMNS = (
    ("JobID", 20), ("ArrayJobID", 20), ("ArrayTaskID", 20), ("Requeue", 4), ("BatchFlag", 4), ("RestartCnt", 12),
    ("State", 32), ("Reason", 128), ("exit_code", 16), ("tres-per-node", 512), ("admin_comment", 16_384),
    ("STDOUT", 4_224), *_NAME,
)  # fmt: skip


def show_job(job: int, timeout_s: float) -> tuple[ShownJob | None, str]:
    """A job as slurmctld knows it, or None and why not."""
    done = run(["squeue", "--local", "-h", "-a", "-t", "all", "-O", squeue.wanted(_COLUMNS), "-j", str(job)], timeout_s)
    if not done.ok:
        return None, done.problem
    shown = parse_job(done.out, job)
    return shown, "" if shown else f"job {job} is not in what squeue shows"


def parse_job(text: str, job: int) -> ShownJob | None:
    """The job in squeue's rows; of an array's last task, whose number is the array's too, they hold all tasks."""
    return next((_shown(cells, job) for cells in _cells(text, _COLUMNS) if cells["JobID"] == str(job)), None)


def _cells(text: str, of: Columns) -> Iterator[dict[str, str]]:
    """The rows of `squeue -O`; a value as long as its column is cut, and counts as unknown. Each job has a name."""
    for row in squeue.rows(text, of):
        yield {
            name: row[name].decode(errors="surrogateescape")
            if len(row[name]) < width and (row[name] != b"(null)" or (name, width) in _NAME)
            else ""
            for name, width in of
        }


def _shown(cells: Mapping[str, str], job: int) -> ShownJob:
    array_job, task = cells["ArrayJobID"], _task(cells)
    status, signal_ = exit_pair(cells["exit_code"])
    return ShownJob(
        target=f"{job}_{task}" if task is not None and array_job == str(job) else str(job),
        array_job=int(array_job) if task is not None else None,
        array_task=task,
        name=_name(cells),
        requeue=cells["Requeue"] == "1",
        batch=cells["BatchFlag"] not in ("", "0"),
        restarts=int(cells["RestartCnt"]) if cells["RestartCnt"].isdecimal() else 0,
        state=cells["State"],
        reason=cells["Reason"],
        exit_status=status or 0,
        exit_signal=signal_ or 0,
        tres_per_node=cells["tres-per-node"],
        admin_comment=cells["admin_comment"],
        stdout=cells["STDOUT"],
    )


def _name(cells: Mapping[str, str]) -> str:
    """A job's name with the blanks around it; one of blanks alone is empty."""
    before, behind = cells["Name"], cells[".Name"]
    return before + behind[len(behind.rstrip(" ")) :] if before else ""


def _task(cells: Mapping[str, str]) -> int | None:
    array_job, array_task = cells["ArrayJobID"], cells["ArrayTaskID"]
    return int(array_task) if array_task.isdecimal() and array_job.isdecimal() else None


class OtherLogs(NamedTuple):
    """What the logs of another job of the user's are called.

    Attributes:
        job: its number.
        array_job, array_task: of a task of an array.
        work_dir, name: the job's.
        stdout, stderr: names as Slurm shows them, patterns unexpanded before 24.11.
    """

    job: int
    array_job: int | None
    array_task: int | None
    work_dir: str
    name: str
    stdout: str
    stderr: str


_LOG_COLUMNS = (
    ("JobID", 20), ("ArrayJobID", 20), ("ArrayTaskID", 20), ("EndTime", 24), ("WorkDir", 4_160),
    ("STDOUT", 4_224), ("STDERR", 4_224), *_NAME,
)  # fmt: skip
_END_COLUMNS = _LOG_COLUMNS[:4]
_ENDED = ("CD", "F", "TO", "CA", "NF", "PR", "OOM")
# Of so many jobs the names are asked for, which take 15 KB a job.
_MOST_OTHERS = 500


def other_logs(job: int, uid: int, since: int, timeout_s: float) -> tuple[list[OtherLogs] | None, str]:
    """Logs of a user's other jobs that run or have ended since a time, or None and why they are not known.

    Of jobs that have ended slurmctld knows the latest minutes (MinJobAge); of very many the latest are told.
    """
    done = _squeue(_END_COLUMNS, ["-u", str(uid)], timeout_s)
    jobs = parse_ends(done.out, job, since)[-_MOST_OTHERS:] if done.ok else []
    if jobs:
        done = _squeue(_LOG_COLUMNS, ["-j", ",".join(jobs)], timeout_s)
    if not done.ok:
        return None, done.problem
    return parse_logs(done.out, job, since) if jobs else [], ""


def _squeue(of: Columns, which: Sequence[str], timeout_s: float) -> Done:
    """What slurmctld knows of jobs that run or have ended."""
    states = ",".join((*squeue.HOLDING, *_ENDED))
    argv = ["squeue", "--local", "-h", "-a", "-t", states, "-O", squeue.wanted(of), *which]
    return run(argv, timeout_s, env={**os.environ, "SLURM_TIME_FORMAT": "%s"})


def parse_ends(text: str, job: int, since: int) -> list[str]:
    """The jobs in squeue's rows, the latest last, but `job` and jobs that ended before `since`."""
    found = [(number, called(number, *_array(cells))) for number, cells in _others(text, _END_COLUMNS, job, since)]
    return [name for _, name in sorted(found)]


def parse_logs(text: str, job: int, since: int) -> list[OtherLogs]:
    """The logs in squeue's rows, but those of `job` and of jobs that ended before `since`."""
    return [
        OtherLogs(number, *_array(cells), cells["WorkDir"], _name(cells), cells["STDOUT"], cells["STDERR"])
        for number, cells in _others(text, _LOG_COLUMNS, job, since)
    ]


def called(job: int, array_job: int | None, array_task: int | None) -> str:
    """What a user calls a job: ``4711``, or ``4711_3`` for a task of an array."""
    return str(job) if array_task is None else f"{array_job}_{array_task}"


def _others(text: str, of: Columns, job: int, since: int) -> Iterator[tuple[int, dict[str, str]]]:
    for cells in _cells(text, of):
        end = _time(cells["EndTime"])
        if cells["JobID"].isdecimal() and int(cells["JobID"]) != job and (end is None or end >= since):
            yield int(cells["JobID"]), cells


def _array(cells: Mapping[str, str]) -> tuple[int | None, int | None]:
    """The array and the task of a row; None twice where it is no task."""
    task = _task(cells)
    return (None, None) if task is None else (int(cells["ArrayJobID"]), task)


@dataclass(frozen=True)
class Row:
    """One run of a job in slurmdbd.

    Attributes:
        id: as a command names it: ``12``, ``12_3`` or ``12+0``.
        state: first word of Slurm's state.
        start, end: Unix times in seconds; None where it has not started or ended.
        admin_comment: as stored.
    """

    id: str
    state: str
    start: int | None
    end: int | None
    admin_comment: str


def rows(jobs: Sequence[int], timeout_s: float) -> tuple[dict[int, list[Row]] | None, str]:
    """The runs of jobs as slurmdbd has them, oldest first; None and why where it does not answer."""
    argv = ["sacct", "--local", "-n", "-P", "-X", "-D", "-j", ",".join(map(str, jobs))]
    argv += ["-o", "JobIDRaw,JobID,State,Start,End,AdminComment"]
    done = run(argv, timeout_s, env={**os.environ, "SLURM_TIME_FORMAT": "%s"})
    return (parse_rows(done.out, jobs), "") if done.ok else (None, done.problem)


def parse_rows(text: str, jobs: Sequence[int]) -> dict[int, list[Row]]:
    """The rows of `sacct -P`; a comment may hold any sign, so it stands last."""
    found: dict[int, list[Row]] = {job: [] for job in jobs}
    pattern = r"^(\d+)\|([\d_+]+)\|([A-Z_]+)[^|\n]*\|([^|\n]*)\|([^|\n]*)\|"
    starts = list(re.finditer(pattern, text, re.MULTILINE))
    for start, after in itertools.zip_longest(starts, starts[1:]):
        job = int(start.group(1))
        comment = text[start.end() : after.start() if after else len(text)].removesuffix("\n")
        if job in found:
            found[job].append(
                Row(start.group(2), start.group(3), _time(start.group(4)), _time(start.group(5)), comment)
            )
    for runs in found.values():
        runs.sort(key=_moment)
    return found


def _moment(row: Row) -> tuple[bool, int]:
    """Orders the runs of a job. Of a short run that was requeued slurmdbd may lose the start, never the end."""
    known = row.end if row.start is None else row.start
    return known is None, known or 0


def _time(text: str) -> int | None:
    return int(text) if text.isdigit() and int(text) > 0 else None


def store_comment(row: str, admin_comment: str, timeout_s: float) -> Done:
    """Write a finished run's AdminComment into slurmdbd."""
    argv = ["sacctmgr", "-i", "modify", "job", "where", f"jobid={row}", "set", f"AdminComment={admin_comment}"]
    return run(argv, timeout_s)


def version(timeout_s: float) -> tuple[int, int]:
    """Slurm's major version, for example (22, 5); (0, 0) where it is not known."""
    found = re.search(r"(\d+)\.(\d+)", run(["sacctmgr", "--version"], timeout_s).out)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def requeue(target: str, timeout_s: float) -> Done:
    """Requeue a job. While its Epilog runs it cannot start again, and takes another request meanwhile."""
    return run(["scontrol", "requeue", target], timeout_s)


def credential_s(timeout_s: float) -> int:
    """How long slurmd remembers a job that has ended, in seconds; Slurm's default where that is not known."""
    found = re.search(
        r"^AuthInfo\s*=.*\bcred_expire=(\d{1,6})", run(["scontrol", "show", "config"], timeout_s).out, re.M
    )
    return int(found.group(1)) if found else _CREDENTIAL_S


def jobs_have_name_spaces(timeout_s: float) -> bool:
    """Whether jobs get name spaces of their own for files, perhaps before Prolog; True where Slurm does not tell."""
    done = run(["scontrol", "show", "config"], timeout_s)
    return not done.ok or _NAME_SPACES.search(done.out) is not None


def update(target: str, gres: str | None, admin_comment: str, timeout_s: float, delay_s: int = 0) -> Done:
    """Change a waiting job's request and record in one message, and when it may start."""
    changes = ([f"gres={gres}"] if gres else []) + [f"admincomment={admin_comment}"]
    changes += [f"starttime=now+{delay_s}"] if delay_s else []
    return run(["scontrol", "update", f"jobid={target}", *changes], timeout_s)


def jobs_on(node: str, timeout_s: float) -> set[int] | None:
    """Numbers of the jobs that Slurm has on a node, or None where it does not answer."""
    states = ",".join(squeue.HOLDING)
    done = run(["squeue", "--local", "-h", "-a", "-w", node, "-t", states, "-O", "JobID:32"], timeout_s)
    return {int(word) for word in done.out.split() if word.isdigit()} if done.ok else None
