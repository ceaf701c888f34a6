"""Jobs that use more GPU memory than they were allotted: when something is done about it, and the doing.

`Guard` decides and touches nothing. `act` warns a user through Slurm and ends processes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from slurm_hooks.config import OverAllotment
from slurm_hooks.node import commands, pids

log = logging.getLogger("rad.monitor")

# Looks in a row before something is done: a short spike may be a framework that measures its workspace.
LOOKS = 3
NOTIFY_TIMEOUT_S = 5.0
# How long a process that was taken off its GPU has to end by itself. Of those that are killed at once some break their
# neighbours all the same (docs/results/gpu.md).
LET_GO_S = 1.0


@dataclass(frozen=True)
class Notice:
    """A job over its allotment.

    Attributes:
        job: its number.
        message: what happened, for the log, the user and the record.
        warn: whether to tell the user.
        pid: process to end, or None.
        hard: whether it was asked to end before, and did not.
    """

    job: int
    message: str
    warn: bool = False
    pid: int | None = None
    hard: bool = False


@dataclass
class _Watch:
    looks: int = 0
    told: bool = False
    asked: int | None = None


class Guard:
    """Watches jobs against their allotments.

    Args:
        policy: what is done: ``record``, ``warn`` or ``end``.
        slack_mib: memory over the cap that is let pass, in MiB.
    """

    def __init__(self, policy: OverAllotment, slack_mib: float) -> None:
        self._policy = policy
        self._slack_mib = slack_mib
        self._watched: dict[int, _Watch] = {}

    @property
    def counts(self) -> bool:
        """Whether a job is over its cap and something may have to be done about it in the next looks."""
        return any(watch.looks and (self._policy == "end" or not watch.told) for watch in self._watched.values())

    def look(self, job: int, cap_mib: float | None, processes: Mapping[int, float]) -> Notice | None:
        """Look at one job.

        Args:
            job: its number.
            cap_mib: its allotment, or None where it has none.
            processes: memory of its processes by pid, in MiB.

        Returns:
            What to do now, or None.
        """
        used = sum(processes.values())
        if cap_mib is None or used <= cap_mib + self._slack_mib:
            if watch := self._watched.get(job):
                watch.looks, watch.asked = 0, None
            return None
        watch = self._watched.setdefault(job, _Watch())
        watch.looks += 1
        if watch.looks < LOOKS:
            return None
        over = f"job {job} uses {used:.0f} MiB of GPU memory, {cap_mib:.0f} MiB allotted"
        if self._policy == "end":
            watch.looks = 0
            pid = max(processes, key=lambda each: processes[each])
            hard, watch.asked = watch.asked == pid, pid
            message = f"{over}: process {pid} ({processes[pid]:.0f} MiB) was ended"
            first, watch.told = not watch.told, True
            return Notice(job, message, warn=first, pid=pid, hard=hard)
        if watch.told:
            return None
        watch.told = True
        return Notice(job, over, warn=self._policy == "warn")

    def forget(self, job: int) -> None:
        """A job is gone."""
        self._watched.pop(job, None)


def act(
    notice: Notice,
    job_of: Callable[[int], int | None],
    disconnect: Callable[[int, int], bool],
    scontrol: str = "scontrol",
) -> None:
    """Do what a notice says.

    Args:
        notice: what to do.
        job_of: a process's job as it is now: a number that belongs to another process by now is left alone.
        disconnect: takes a job and a process of it that is about to be ended, and takes it off the GPU; tells whether
            a server was asked to give it up.
        scontrol: Slurm's command.
    """
    log.warning("%s", notice.message)
    if notice.pid is not None:
        _end(notice, notice.pid, job_of, disconnect)
    if notice.warn:
        done = commands.run([scontrol, "notify", str(notice.job), f"rad: {notice.message}"], NOTIFY_TIMEOUT_S)
        if not done.ok:
            log.warning("job %d was not told: %s", notice.job, done.problem)


def _end(notice: Notice, pid: int, job_of: Callable[[int], int | None], disconnect: Callable[[int, int], bool]) -> None:
    number = signal.SIGKILL if notice.hard else signal.SIGTERM
    with contextlib.suppress(ProcessLookupError):
        handle = pids.handle(pid)
        try:
            if job_of(pid) != notice.job:
                return
            try:
                if disconnect(notice.job, pid):
                    _let_go(handle)
            except Exception as error:  # whatever a daemon does, the process is ended
                log.warning("process %d is ended in its kernels: %s: %s", pid, type(error).__name__, error)
            if handle is not None:
                signal.pidfd_send_signal(handle, number)
            elif job_of(pid) == notice.job:  # that took time
                os.kill(pid, number)
        finally:
            if handle is not None:
                os.close(handle)


def _let_go(handle: int | None) -> None:
    if handle is None:
        time.sleep(LET_GO_S)
    else:
        ends = select.poll()
        ends.register(handle, select.POLLIN)
        ends.poll(LET_GO_S * 1000)
