"""Whether a job's log holds what another job wrote: an error there may be the other's.

Prolog notes which jobs of a user have the same log on this node, as long as both run; Epilog asks slurmctld for those
on other nodes. Touches the state folder and, through `commands`, the controller. What neither knows: a job of another
node that ended longer ago than slurmctld remembers (MinJobAge).
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from typing import Any

from slurm_hooks.node import commands, loglist, notes, state
from slurm_hooks.node.context import Context
from slurm_hooks.node.loglist import Log
from slurm_hooks.node.logs import mark_from


def note(scene: Context, logs: Sequence[Log]) -> None:
    """Note with whom a job that starts shares a log: for it and for them. The job's own note must be written.

    Of two that start at once at least one sees the other's note.
    """
    state.remove(_path(scene, scene.job.id))  # of an earlier run
    mine = {posixpath.normpath(log.path) for log in logs if not log.own}
    if not mine:
        return
    for name in os.listdir(scene.config.node.state_dir):  # noqa: PTH208 - pathlib starts slowly
        job, _, rest = name.partition(".")
        if rest != "json" or not job.isdigit() or int(job) == scene.job.id:
            continue
        other = state.read(notes.of_job(scene.config.node.state_dir, int(job))) or {}
        if other.get("uid") == scene.job.uid and mine & _paths(other):
            state.write(_path(scene, int(job)), {"with": scene.job.id})
            state.write(_path(scene, scene.job.id), {"with": int(job)})


def others(scene: Context, logs: Sequence[Log], since: int) -> str:
    """Who else wrote to the logs of a job that has ended, as part of a sentence; empty: nobody is known to have.

    Args:
        scene: the job.
        logs: its logs.
        since: when its run began, as Unix time in seconds.
    """
    mine = [posixpath.normpath(log.path) for log in logs if not log.own]
    if not mine:
        return ""
    noted = (state.read(_path(scene, scene.job.id)) or {}).get("with")
    if isinstance(noted, int):
        return f"job {_called(scene, noted)}"
    found, problem = commands.other_logs(scene.job.id, scene.job.uid, since, scene.config.node.command_timeout_s)
    if found is None:
        scene.say(f"who else writes to its logs is not known: {problem}")
        return "perhaps another job"
    writers = loglist.of_others(scene.job, found)
    return next((f"job {writers[path]}" for path in mine if path in writers), "")


def _called(scene: Context, job: int) -> str:
    """What its user calls a job; its number where slurmctld does not tell, as Prolog knows of no arrays."""
    shown, _ = commands.show_job(job, scene.config.node.command_timeout_s)
    return str(job) if shown is None else commands.called(job, shown.array_job, shown.array_task)


def forget(scene: Context) -> None:
    """Take the note of a job that has ended away."""
    state.remove(_path(scene, scene.job.id))


def _paths(noted: dict[str, Any]) -> set[str]:
    return {posixpath.normpath(mark.path) for mark in map(mark_from, noted.get("logs", [])) if mark}


def _path(scene: Context, job: int) -> str:
    return notes.of_logs(scene.config.node.state_dir, job)
