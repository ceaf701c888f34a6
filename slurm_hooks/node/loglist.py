"""Which files are a job's logs, as far as slurmd and slurmctld tell. Pure, but that it knows this machine's name."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from slurm_hooks.node import logname
from slurm_hooks.node.commands import OtherLogs, ShownJob, called
from slurm_hooks.node.job import NodeJob

HOST = os.uname().nodename.partition(".")[0]
"""This machine's own name, where it is not the one that Slurm knows the node by."""


_CUT = 1023  # slurmctld shows no more bytes of a path


class Log(NamedTuple):
    """A job's log.

    Attributes:
        path: absolute path.
        own: whether its name is the job's alone; to another one other jobs may write too.
    """

    path: str
    own: bool


def before_start(job: NodeJob) -> list[Log] | None:
    """Logs that may hold something older than this run, or None where slurmctld must be asked for them.

    slurmd does not tell a Prolog the job's name or its place in an array. Where a log's name depends on them, as the
    default does, only a restarted job, or one whose log is named after nothing of its own, is worth a question.
    """
    patterns, logs = _patterns(job), of_no_task(job)
    own = all(map(logname.names_job, patterns))
    known = len(logs) == len(patterns) and not any(map(logname.names_array, patterns))
    return logs if (known and all(patterns)) or (job.restart == 0 and (known or own)) else None


def of_no_task(job: NodeJob) -> list[Log]:
    """Logs as slurmd alone tells of them: right where the job is no task of an array; some may be missing."""
    return _logs(_patterns(job), _names(job), job.work_dir)


def _patterns(job: NodeJob) -> list[str]:
    return list(dict.fromkeys((job.stdout, job.stderr or job.stdout)))


def of_job(job: NodeJob, shown: ShownJob) -> list[Log]:
    """Standard output and, where it is another file, standard error of a job."""
    names = replace(_names(job), name=shown.name, array_job=shown.array_job, array_task=shown.array_task)
    # Slurm before 22.05 does not tell hooks the names; what squeue shows then may be the default, or be cut.
    cut = len(os.fsencode(shown.stdout)) >= _CUT
    default = not shown.stdout or cut or posixpath.basename(shown.stdout).startswith("slurm-")
    out = job.stdout or ("" if default else shown.stdout)
    return _logs((out, job.stderr or out), names, job.work_dir)


def of_others(job: NodeJob, others: Sequence[OtherLogs]) -> dict[str, str]:
    """Which job, as its user calls it, writes to which log; a log whose name is not known is left out.

    Args:
        job: the job that asks; the others are taken to run on its node.
        others: the others, and what their logs are called.
    """
    found = {}
    for other in others:
        names = replace(_names(job), job=other.job, name=other.name)
        names = replace(names, array_job=other.array_job, array_task=other.array_task)
        for log in _logs(filter(None, (other.stdout, other.stderr)), names, other.work_dir):
            found[posixpath.normpath(log.path)] = called(other.job, other.array_job, other.array_task)
    return found


def _logs(patterns: Iterable[str], names: logname.LogNames, work_dir: str) -> list[Log]:
    """The logs that are called so, each once; one whose name is not known is left out."""
    paths = {logname.expand(pattern, names, work_dir): logname.names_job(pattern) for pattern in patterns}
    return [Log(path, own) for path, own in paths.items() if path]


def _names(job: NodeJob) -> logname.LogNames:
    """What the patterns stand for, as far as slurmd tells.

    Since 25.11, where runs have a SLUID, slurmctld names the logs, after the node; before, slurmd, after its machine.
    """
    node = job.node if job.sluid else HOST
    return logname.LogNames(job.id, user=job.user, node=node, restart=job.restart, sluid=job.sluid)
