"""Records on their way to slurmdbd, as they lie on disk: written by Epilog, read by what sends them (`sending`).

A run's outcome waits as ``JOB-RESTART.json`` until slurmdbd shows that the job has ended for good: before that
slurmctld's own messages would write over it. When it was sent it lies there for a while as ``JOB-RESTART.json.sent``,
and is sent once more, as a slurmctld that starts soon after a job's end writes what it holds of the job over that. A
requeue that was begun waits as ``JOB-RESTART.requeue.json`` until the job has its new request.

Where the spool folder takes nothing (a full disk), both wait in memory, in a folder below [node].state_dir, which
outlives everything but a boot.

Touches these two folders.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slurm_hooks.config import Node
from slurm_hooks.node import state
from slurm_hooks.record_text import MAX_ITEMS
from slurm_hooks.records import Run, run_from

_OUTCOME = re.compile(r"(\d+)-(\d+)\.json")
_REQUEUE = re.compile(r"\d+-\d+\.requeue\.json")
MAX_DAYS = 60  # a job that slurmdbd has not known for so long was never there or is purged
HOOK_S = 60.0  # no hook runs for longer, and slurmdbd is not behind for longer: what is older is not news
_SENT = "sent"  # behind the name of an outcome that is to be sent once more
_AGAIN_S = 900.0  # by then slurmctld has mostly forgotten the job (MinJobAge), and writes over its record no more


@dataclass(frozen=True)
class Item:
    """One outcome that waits.

    Attributes:
        path: its file.
        job, restart: whose outcome it is.
        run: the outcome.
        at: when it was written, Unix time in seconds.
    """

    path: str
    job: int
    restart: int
    run: Run
    at: float

    @property
    def is_young(self) -> bool:
        """Whether its Epilog may still be at work; set back, a clock must not make it young for years."""
        return abs(time.time() - self.at) < HOOK_S


@dataclass(frozen=True)
class Requeue:
    """A requeue that was begun.

    Attributes:
        job, restart: the run that ended.
        target: how commands name the job.
        gres: its new request.
        admin_comment: its new record.
    """

    job: int
    restart: int
    target: str
    gres: str
    admin_comment: str


def put(settings: Node, job: int, restart: int, run: Run) -> str:
    """Keep an outcome for sending; why it is not on disk, or the empty string.

    Raises:
        StateError, OSError: if it can be kept nowhere.
    """
    return _keep(settings, f"{job}-{restart}.json", {"at": time.time(), "run": dataclasses.asdict(run)})[1]


def begin(settings: Node, requeue: Requeue) -> str:
    """Note a requeue before it is begun; returns the path of the note.

    Raises:
        StateError, OSError: if it can be kept nowhere.
    """
    return _keep(settings, f"{requeue.job}-{requeue.restart}.requeue.json", dataclasses.asdict(requeue))[0]


def _keep(settings: Node, name: str, data: dict[str, Any]) -> tuple[str, str]:
    """Write a file to disk, or into memory where that cannot be; its path, and why it is not on disk."""
    try:
        path = f"{state.folder(settings.spool_dir, 0o700)}/{name}"
        state.write(path, data, durable=True)
    except (state.StateError, OSError) as error:
        state.folder(settings.state_dir)
        path = f"{state.folder(_in_memory(settings), 0o700)}/{name}"
        state.write(path, data)
        return path, f"{error}: {path} waits in memory, until it is sent or the node boots"
    return path, ""


def items(settings: Node) -> list[Item]:
    """All outcomes that wait; a file that is broken is put aside, under another name."""
    found = []
    for path, name in _names(settings):
        outcome = _OUTCOME.fullmatch(name)
        if outcome is None:
            continue
        data = state.read(path) or {}
        run, at = run_from(data.get("run")), data.get("at")
        if run is None or not isinstance(at, (int, float)):
            put_aside(path, "broken")
            continue
        found.append(Item(path, int(outcome[1]), int(outcome[2]), run, at))
    return found


def latest(waiting: list[Item]) -> list[Item]:
    """Those for which the records have room; others go, as a user may queue a job again for ever."""
    of_job: dict[int, list[Item]] = {}
    for item in sorted(waiting, key=lambda item: item.restart, reverse=True):
        of_job.setdefault(item.job, []).append(item)
    for item in itertools.chain.from_iterable(several[MAX_ITEMS:] for several in of_job.values()):
        let_go(item.path)
    return [item for job in sorted(of_job) for item in of_job[job][:MAX_ITEMS]]


def requeues(settings: Node) -> list[str]:
    """Notes of requeues that were begun."""
    return [path for path, name in _names(settings) if _REQUEUE.fullmatch(name)]


def mark_sent(item: Item) -> None:
    """Let go of an outcome that slurmdbd has, but of a young one keep what is to be sent once more."""
    if abs(time.time() - item.at) < _AGAIN_S:
        put_aside(item.path, _SENT)
    else:
        let_go(item.path)


def wait_again(settings: Node) -> None:
    """Let outcomes wait again that were sent a while ago."""
    for path, name in _names(settings):
        if name.endswith(f".{_SENT}"):
            with contextlib.suppress(OSError):
                if state.age_s(path) >= _AGAIN_S:
                    os.rename(path, path.removesuffix(f".{_SENT}"))  # noqa: PTH104


def sweep(settings: Node, say: Callable[[str], None]) -> None:
    """Let go of what lies in the folder under other names: after a killed writer soon, after MAX_DAYS in any case."""
    for path, name in _names(settings):
        with contextlib.suppress(OSError):  # it has gone, or lies on a disk that is broken
            age_s = state.age_s(path)
            if name.endswith(".new") and age_s > HOOK_S:
                let_go(path)
            elif name.endswith((".kept", ".broken")) and age_s > MAX_DAYS * 86400:
                let_go(path)
                say(f"{path}: kept for {MAX_DAYS} days, and now let go")


def stamp(settings: Node) -> int:
    """Changes when a file comes into one of the two folders, or goes."""
    times = 0
    for folder in _folders(settings):
        with contextlib.suppress(OSError):  # not there yet, or on a disk that is broken
            times += os.stat(folder).st_mtime_ns  # noqa: PTH116
    return times


def let_go(path: str) -> None:
    """Take a file away; where its disk takes no changes any more it stays, and keeps nothing else from being sent."""
    with contextlib.suppress(OSError):
        state.remove(path)


def put_aside(path: str, why: str) -> None:
    """Give a file another name, under which it is not read; where that cannot be it stays as it is."""
    with contextlib.suppress(OSError):
        os.rename(path, f"{path}.{why}")  # noqa: PTH104


def _in_memory(settings: Node) -> str:
    return f"{settings.state_dir}/.spool"


def _folders(settings: Node) -> tuple[str, str]:
    return settings.spool_dir, _in_memory(settings)


def _names(settings: Node) -> list[tuple[str, str]]:
    """Paths and names of all files in the two folders; what others could put into one does not count."""
    found = []
    for folder in _folders(settings):
        with contextlib.suppress(OSError):  # a disk that is broken keeps nothing in memory from being sent
            names = sorted(os.listdir(folder)) if state.is_ours(folder) else []  # noqa: PTH208
            found += [(f"{folder}/{name}", name) for name in names]
    return found
