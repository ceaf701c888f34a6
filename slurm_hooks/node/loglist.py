"""Which files are a job's logs, as far as slurmd and slurmctld tell. Pure, but that it knows this machine's name."""

from __future__ import annotations

import os
import posixpath
from dataclasses import replace

from slurm_hooks.node import logname
from slurm_hooks.node.commands import ShownJob
from slurm_hooks.node.job import NodeJob

HOST = os.uname().nodename.partition(".")[0]
"""This machine's own name, where it is not the one that Slurm knows the node by."""


def before_start(job: NodeJob, shown: ShownJob | None) -> list[str] | None:
    """Logs that may hold something older than this run, or None where slurmctld must be asked for them.

    slurmd does not tell a Prolog the job's name or its place in an array. Where a log's name depends on them,
    only a restarted job, or one whose log is named after nothing of its own, is worth a question.

    Args:
        job: the job that starts.
        shown: what slurmctld told of it, if it was asked.
    """
    if shown is not None:
        return of_job(job, shown)
    names = _names(job)
    patterns = list(dict.fromkeys((job.stdout, job.stderr or job.stdout)))
    paths = [logname.expand(pattern, names, job.work_dir) for pattern in patterns]
    own = all(logname.names_job(pattern) for pattern in patterns)
    if job.restart > 0 or (not own and None in paths):
        return None
    return [path for path in paths if path]


def of_job(job: NodeJob, shown: ShownJob) -> list[str]:
    """Standard output and, where it is another file, standard error of a job."""
    names = replace(_names(job), name=shown.name, array_job=shown.array_job, array_task=shown.array_task)
    # Slurm before 22.05 does not tell hooks the names; what squeue shows then may be the default.
    default = not shown.stdout or posixpath.basename(shown.stdout).startswith("slurm-")
    out = logname.expand(job.stdout or ("" if default else shown.stdout), names, job.work_dir)
    err = logname.expand(job.stderr, names, job.work_dir) if job.stderr else out
    return [path for path in dict.fromkeys((out, err)) if path]


def _names(job: NodeJob) -> logname.LogNames:
    """What the patterns stand for, as far as slurmd tells.

    Since 25.11, where runs have a SLUID, slurmctld names the logs, after the node; before, slurmd, after its machine.
    """
    node = job.node if job.sluid else HOST
    return logname.LogNames(job.id, user=job.user, node=node, restart=job.restart, sluid=job.sluid)
