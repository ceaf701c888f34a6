"""The places of MPS daemons on a node, and which jobs use each.

Below [mps].run_dir lies for every GPU a folder gN and in it one for each daemon ("slot"): ``u1003`` for a user,
``all`` where clients of several users share a server. A slot holds the daemon's pipes and logs and, under ``jobs``,
one file for each job that uses it.

Touches run_dir; whoever changes something there holds the GPU's lock (`mps`).
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import struct
from dataclasses import dataclass

from slurm_hooks.config import Mps
from slurm_hooks.node import state

SHARED = "all"
_LATELY_S = 600.0  # longer than an Epilog may take
_MOST_LEFT = 64


@dataclass(frozen=True)
class Slot:
    """The place of one daemon.

    Attributes:
        gpu: index of the GPU.
        name: ``u1003`` or ``all``.
        path: its folder.
    """

    gpu: int
    name: str
    path: str

    @property
    def pipe(self) -> str:
        """What CUDA_MPS_PIPE_DIRECTORY names."""
        return f"{self.path}/pipe"

    @property
    def log(self) -> str:
        """What CUDA_MPS_LOG_DIRECTORY names."""
        return f"{self.path}/log"

    @property
    def server_log(self) -> str:
        """What the daemon's servers write; they run as the slot's user, or as root where users share one."""
        return f"{self.log}/server.log"

    @property
    def jobs(self) -> str:
        """Holds a file for each job that uses the daemon: the user's number and, where there is one, the job's cap."""
        return f"{self.path}/jobs"

    @property
    def left(self) -> str:
        """A file that tells which jobs have left the daemon lately."""
        return f"{self.path}/left.json"

    @property
    def facts(self) -> str:
        """A file that tells how the daemon was started."""
        return f"{self.path}/daemon.json"

    def residents(self) -> dict[int, int]:
        """Users by job."""
        return {job: uid for job, (uid, _) in self.notes().items()}

    def notes(self) -> dict[int, tuple[int, int | None]]:
        """User and, where there is one, cap in MiB by job."""
        found = {}
        for name in names(self.jobs):
            with contextlib.suppress(OSError, ValueError), open(f"{self.jobs}/{name}", encoding="ascii") as file:  # noqa: PTH123
                uid, *cap = map(int, file.read().split())
                found[int(name)] = (uid, cap[0] if cap else None)
        return found


def slot_of(settings: Mps, gpu: int, uid: int) -> Slot:
    """Where the daemon for a user's jobs on a GPU belongs."""
    name = SHARED if settings.users == "multi" else f"u{uid}"
    return Slot(gpu, name, f"{settings.run_dir}/g{gpu}/{name}")


def slots(settings: Mps) -> list[Slot]:
    """All slots that lie in run_dir."""
    found = []
    for folder in names(settings.run_dir):
        if folder[:1] == "g" and folder[1:].isdigit():
            found += [
                Slot(int(folder[1:]), name, f"{settings.run_dir}/{folder}/{name}")
                for name in names(f"{settings.run_dir}/{folder}")
            ]
    return found


def slots_of(settings: Mps, job: int) -> list[Slot]:
    """The slots whose daemons a job uses."""
    return [slot for slot in slots(settings) if os.path.exists(f"{slot.jobs}/{job}")]  # noqa: PTH110


def note(slot: Slot, job: int, uid: int, cap_mib: int | None) -> None:
    """Note a job as user of a daemon, with its cap in MiB where it has one."""
    text = f"{uid}" if cap_mib is None else f"{uid} {cap_mib}"
    state.write_bytes(f"{slot.jobs}/{job}", text.encode())


def forget(slot: Slot, job: int) -> None:
    """Take that note away."""
    state.remove(f"{slot.jobs}/{job}")


def remember(slot: Slot, job: int, now: float) -> None:
    """Note that a job leaves: the Epilog of one that was broken with it may come later."""
    known = (state.read(slot.left) or {}).items()
    lately = {name: at for name, at in known if isinstance(at, float) and 0 <= now - at < _LATELY_S}
    with contextlib.suppress(OSError):
        state.write(slot.left, dict([*lately.items(), (str(job), now)][-_MOST_LEFT:]))


def users_of(slot: Slot) -> dict[int, float]:
    """Jobs that use a daemon, or have lately, by number: infinity, or when one left it, Unix time in seconds."""
    left = (state.read(slot.left) or {}).items()
    found = {int(name): at for name, at in left if name.isdecimal() and isinstance(at, float)}
    return found | dict.fromkeys(slot.residents(), math.inf)


def idle_since(slot: Slot) -> float | None:
    """When the last job left: its going changed the folder. What a killed Prolog left half-written is no job's note."""
    try:
        return None if any(map(str.isdigit, names(slot.jobs))) else os.stat(slot.jobs).st_mtime  # noqa: PTH116
    except FileNotFoundError:
        return 0.0


def admit(slot: Slot) -> None:
    """Let the users of the slot's jobs, and no others, reach its pipes.

    The folder stays ours, so that its users cannot change what lies in it: an access list says who may pass.
    """
    uids = sorted(set(slot.residents().values()))
    entries = [(0x01, 7, 0xFFFFFFFF), *((0x02, 1, uid) for uid in uids), (0x04, 0, 0xFFFFFFFF)]
    entries += [(0x10, 1, 0xFFFFFFFF), (0x20, 0, 0xFFFFFFFF)]
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(slot.path, "system.posix_acl_access", packed)
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EPERM):
            raise
        os.chmod(slot.path, 0o711)  # noqa: PTH101, S103 - a file system without access lists: everybody may pass


def names(path: str) -> list[str]:
    """What lies in a folder; nothing where there is none."""
    try:
        return os.listdir(path)  # noqa: PTH208 - pathlib starts slowly
    except (FileNotFoundError, NotADirectoryError):
        return []
