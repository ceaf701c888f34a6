"""Starting daemons, waiting for them, and leaving none behind.

Every daemon carries the cluster's folder in its environment, so that `down` finds it, and what it started, also after
a crash; processes without that mark are never touched. Touches processes and log files only.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.devcluster.layout import MARKER, ClusterError

FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.2  # most waits are short; to look often costs what is waited for its time
LONGER = 1.2
TAIL_LINES = 25


@dataclass(frozen=True)
class Daemon:
    """A program that stays in the foreground.

    Attributes:
        name: also the name of its pid and log files.
        argv: command.
        user: whom it runs as, or None for the caller.
        env: added to the environment.
        groups: supplementary groups of `user`.
        nice: how it stands back behind others, -20 to 19; below 0 where it goes first, if that is allowed here.
    """

    name: str
    argv: Sequence[str]
    user: str | None = None
    env: Mapping[str, str] | None = None
    groups: Sequence[str] = ()
    nice: int = 0


def wait_for(what: str, condition: Callable[[], bool], deadline_s: float, log: Path | None = None) -> None:
    """Wait until `condition` holds.

    Raises:
        ClusterError: if it does not within `deadline_s` seconds.
    """
    end = time.monotonic() + deadline_s
    pause = FIRST_PAUSE_S
    while not condition():
        if time.monotonic() > end:
            raise ClusterError(f"{what}: not within {deadline_s:g} s{tail(log)}")
        time.sleep(pause)
        pause = min(pause * LONGER, LAST_PAUSE_S)


def tail(log: Path | None) -> str:
    """The last lines of a log, as an appendix to a message."""
    if log is None:
        return ""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    except OSError as error:
        return f"\n{log}: {error.strerror}"
    return f"\nend of {log}:\n  " + "\n  ".join(lines)


def start(daemon: Daemon, directory: Path) -> int:
    """Start a daemon with its output in log/NAME.log and its pid in run/NAME.pid below `directory`; returns the pid."""
    env = {**os.environ, **(daemon.env or {}), MARKER: str(directory)}
    with (directory / "log" / f"{daemon.name}.log").open("ab") as log:
        process = subprocess.Popen(
            list(daemon.argv),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=directory,
            user=daemon.user,
            group=None if daemon.user is None else pwd.getpwnam(daemon.user).pw_gid,
            extra_groups=None if daemon.user is None else list(daemon.groups),
        )
    if daemon.nice:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, daemon.nice)
            # Where the kernel groups processes by session, as most do without systemd, that of the session counts.
            Path(f"/proc/{process.pid}/autogroup").write_text(f"{daemon.nice}", encoding="ascii")
    pid_file(directory, daemon.name).write_text(f"{process.pid}\n", encoding="utf-8")
    for ended in list(_children):  # those that nobody asked for since they were killed
        alive(ended)
    _children[process.pid] = process
    return process.pid


_children: dict[int, subprocess.Popen[bytes]] = {}  # kept, so that ended children can be reaped


def pid_file(directory: Path, name: str) -> Path:
    """Where `start` notes a daemon's pid."""
    return directory / "run" / f"{name}.pid"


def running(directory: Path, name: str) -> int | None:
    """The pid of a daemon of this cluster, or None where it does not run (any more)."""
    try:
        pid = int(pid_file(directory, name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    # An own child that has not ended is surely that daemon; its environment cannot be read yet while it starts.
    return pid if alive(pid) and (pid in _children or _marked(pid, directory)) else None


def stop(directory: Path, pids: Sequence[int], deadline_s: float = 10.0) -> None:
    """End processes of this cluster: first politely, then by force; returns when they are gone."""
    for sign, patience in ((signal.SIGTERM, deadline_s), (signal.SIGKILL, deadline_s)):
        left = [pid for pid in pids if alive(pid)]
        for pid in left:
            try:
                os.kill(pid, sign)
                if sign == signal.SIGTERM:
                    os.kill(pid, signal.SIGCONT)  # a stopped process would not see it
            except ProcessLookupError:
                continue
        end = time.monotonic() + patience
        while any(alive(pid) for pid in left) and time.monotonic() < end:
            time.sleep(FIRST_PAUSE_S)
    left = [pid for pid in pids if alive(pid)]
    if left:
        raise ClusterError(f"processes {left} of {directory} cannot be ended")


def members(directory: Path) -> list[int]:
    """Every process of the cluster: daemons, job steps, and what those started."""
    parents = {}
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        pid = int(entry.name)
        parent = _parent(pid)
        if parent is None:
            continue
        parents[pid] = parent
        if _marked(pid, directory) or _is_step(pid, directory):
            found.add(pid)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found and pid not in found}
        if not more:
            return sorted(found)
        found |= more


def _marked(pid: int, directory: Path) -> bool:
    """Whether the environment that a process was started with names this cluster as its own."""
    try:
        block = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    if f"{MARKER}={directory}".encode() in block:
        return True
    job_of_ours = f"SLURM_CONF={directory}/etc/slurm.conf".encode() in block
    return job_of_ours and any(entry.startswith(b"SLURM_JOB_ID=") for entry in block)


def _is_step(pid: int, directory: Path) -> bool:
    """Whether a process is a slurmstepd of this cluster.

    It writes its title over its environment, and newer ones are no children of slurmd, but all stay in its folder.
    """
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
        return name == "slurmstepd" and Path(f"/proc/{pid}/cwd").readlink() == directory
    except OSError:
        return False


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name before it may hold spaces


def _parent(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]  # reaped: the number may be given to another process from now on
        return False
    fields = _stat(pid)
    return fields is not None and fields[0] not in "ZX"
