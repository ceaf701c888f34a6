"""Whose a process is: its job by its cgroup, else by its environment. Reads /proc.

A cgroup cannot be chosen by a user, so its word is final. Slurm's two forms are ``/slurm/uid_1001/job_42/step_0`` (v1)
and ``/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0`` (v2); both are looked for at the root only, for
a user may be lord of a tree of his own below. The environment is what the user says: it counts where the job is
known to be that user's.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

log = logging.getLogger("rad.monitor")

_V1 = re.compile(r"^\d+:[^:]*:/slurm[\w.-]*/uid_\d+/job_(\d{1,10})(?:/|$)", re.MULTILINE)
_V2 = re.compile(r"^0::/system\.slice/[\w.-]*slurmstepd\.scope/job_(\d{1,10})(?:/|$)", re.MULTILINE)
_JOB_ID = re.compile(rb"(?:^|\0)SLURM_JOB_ID=(\d{1,10})(?:\0|$)")
_MAX_ENVIRONMENT = 1 << 20
_ENVIRONMENT_S = 1.0
_MPS_SERVER = "nvidia-cuda-mps-server"
# Questions for which an answer is kept. That no job was found may be too early: a process is moved after its start.
_LOOKS = 12
_LOOKS_OF_NOBODY = 3


def job_of_cgroup(text: str) -> int | None:
    """The job in what /proc/PID/cgroup holds."""
    found = _V2.search(text) or _V1.search(text)
    return int(found.group(1)) if found else None


def job_of_environment(data: bytes) -> int | None:
    """The job in what /proc/PID/environ holds."""
    found = _JOB_ID.search(data)
    return int(found.group(1)) if found else None


@dataclass
class _Known:
    job: int | None
    nobody: bool
    looks: int


class Processes:
    """Jobs of processes, remembered for a few questions.

    Args:
        trusted: whether a job is a user's (uid): then what that user's processes say of themselves counts.
        proc: where /proc is.
    """

    def __init__(self, trusted: Callable[[int, int], bool], proc: str = "/proc") -> None:
        self._trusted = trusted
        self._proc = proc
        self._known: dict[int, _Known] = {}
        self._readers: dict[int, threading.Thread] = {}

    def jobs(self, pids: Iterable[int]) -> dict[int, int | None]:
        """Jobs by pid, None for a process of no job; MPS servers, which work for others, and the gone are left out."""
        kept: dict[int, _Known] = {}
        until = time.monotonic() + _ENVIRONMENT_S  # for all together: a user may have many that hang
        for pid in pids:
            known = self._known.get(pid)
            if known is None or known.looks <= 0:
                known = self._look(pid, until)
            known.looks -= 1
            kept[pid] = known
        self._known = kept
        return {pid: known.job for pid, known in kept.items() if not known.nobody}

    def job(self, pid: int) -> int | None:
        """The job of a process as it is now."""
        return self._look(pid, time.monotonic() + _ENVIRONMENT_S).job

    def _look(self, pid: int, until: float) -> _Known:
        job = job_of_cgroup(self._read(pid, "cgroup").decode(errors="replace"))
        nobody = job is None and (self._is_server(pid) or not os.path.exists(f"{self._proc}/{pid}"))  # noqa: PTH110
        if job is None and not nobody:
            job = self._by_environment(pid, until)
        return _Known(job, nobody, _LOOKS_OF_NOBODY if job is None else _LOOKS)

    def _by_environment(self, pid: int, until: float) -> int | None:
        job = job_of_environment(self._environment(pid, until))
        try:
            uid = os.stat(f"{self._proc}/{pid}").st_uid  # noqa: PTH116
        except OSError:
            return None
        return job if job is not None and self._trusted(job, uid) else None

    def _environment(self, pid: int, until: float) -> bytes:
        """A process's environment, or nothing where that cannot be read in time, by a reading of the monotonic clock.

        Of a process that hangs in its memory the reader waits as long as that does, so it is a thread that may.
        """
        reader, left_s = self._readers.get(pid), until - time.monotonic()
        if left_s <= 0 or (reader is not None and reader.is_alive()):
            return b""
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(self._read(pid, "environ")), daemon=True)
        reader.start()
        reader.join(left_s)
        if reader.is_alive():
            self._readers[pid] = reader
            log.warning("process %d hangs: whose it is cannot be read", pid)
        else:
            self._readers.pop(pid, None)
        return found[0] if found else b""

    def _is_server(self, pid: int) -> bool:
        """Whether it runs the driver's program, which lies where only root can put it."""
        try:
            path = f"{self._proc}/{pid}/exe"
            return os.path.basename(os.readlink(path)) == _MPS_SERVER and os.stat(path).st_uid == 0  # noqa: PTH115, PTH116, PTH119
        except OSError:
            return False

    def _read(self, pid: int, name: str) -> bytes:
        try:
            with open(f"{self._proc}/{pid}/{name}", "rb") as file:  # noqa: PTH123
                return file.read(_MAX_ENVIRONMENT)
        except OSError:
            return b""
