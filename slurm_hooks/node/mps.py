"""MPS on a node: one control daemon for each GPU and, unless users share one, each user on it.

The first job starts the daemon (`mps_daemon`) in its place (`mps_slots`); when the last has left and the grace time is
over, it is ended. All of that happens under a lock for each GPU, so that one GPU's trouble is no other's.

Why a daemon a user: a daemon without -multiuser-server serves one user at a time, and a second user's process
waits inside CUDA until the first user's last process has ended. With a daemon each, both run.

Touches run_dir and, through `mps_daemon`, the control program and the processes that it started.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from slurm_hooks.config import Mps
from slurm_hooks.node import mps_daemon, mps_slots, state
from slurm_hooks.node.mps_slots import Slot

LOCK_TIMEOUT_S = 12.0
_MAX_LOG = 1 << 18


def available(settings: Mps) -> bool:
    """Whether this node has the control program."""
    return os.access(settings.control, os.X_OK)


def join(
    settings: Mps,
    gpu: int,
    uid: int,
    job: int,
    visible: str,
    cap_mib: int | None = None,
    hidden: Callable[[], bool] = lambda: False,
) -> Slot:
    """Note a job as user of a GPU's daemon, and see to it that the daemon runs, answers and takes clients.

    Args:
        settings: [mps].
        gpu: index of the GPU.
        uid: whose job it is.
        job: its number.
        visible: CUDA_VISIBLE_DEVICES of the daemon: the GPU's UUID, or its index.
        cap_mib: the job's cap. No client gets more than the largest cap of the daemon's jobs, whatever its
            environment says.
        hidden: tells whether the job cannot see what is mounted now.

    Raises:
        MpsError: if there is no daemon that answers afterwards.
        StateError: if the folder cannot be used.
        OSError: if nothing can be written there.
        After any of these the job is no user of the daemon.
    """
    slot = mps_slots.slot_of(settings, gpu, uid)
    state.folder(settings.run_dir)
    state.folder(os.path.dirname(slot.path))  # noqa: PTH120
    with _locked(settings, gpu):
        for other in mps_slots.slots(settings):
            if other.gpu == gpu and other != slot and not other.residents():
                mps_daemon.stop(settings, other)
        for path, mode in ((slot.path, 0o700), (slot.pipe, 0o755), (slot.log, 0o755), (slot.jobs, 0o700)):
            state.folder(path, mode)
        try:
            mps_slots.note(slot, job, uid, cap_mib)
            if not mps_daemon.answers(settings, slot):
                mps_daemon.mount(settings, slot, hidden)
                mps_daemon.replace(settings, slot, visible)
            mps_daemon.bound(settings, slot)
            mps_slots.admit(slot)
        except Exception:
            mps_slots.forget(slot, job)
            raise
    return slot


def leave(settings: Mps, job: int) -> None:
    """Forget a job's use of daemons."""
    for slot in mps_slots.slots_of(settings, job):
        with _locked(settings, slot.gpu):
            mps_slots.remember(slot, job, time.time())
            mps_slots.forget(slot, job)
            mps_daemon.bound(settings, slot)
            mps_slots.admit(slot)


def beside(settings: Mps, job: int) -> dict[int, float]:
    """Other jobs of the daemon that a job uses, by number: infinity, or when one left it, Unix time in seconds."""
    for slot in mps_slots.slots_of(settings, job):
        return {other: at for other, at in mps_slots.users_of(slot).items() if other != job}
    return {}


def disconnect(settings: Mps, job: int, pid: int) -> bool:
    """End what a process of a job has on the GPU, so that the process can be killed.

    One that is killed in the middle of its kernels breaks the other clients of its server. What cannot be asked for in
    time is left undone.

    Returns:
        whether a server was asked to give it up, and answered.
    """
    asked = False
    for slot in mps_slots.slots_of(settings, job):
        for server in mps_daemon.servers(settings, slot):
            asked |= mps_daemon.control(settings, slot, f"terminate_client {server} {pid}").ok
    return asked


def server_log(settings: Mps, job: int) -> bytes:
    """The end of what the server wrote that a job uses; empty where it uses none.

    Where users have servers of their own, the user may have written it.
    """
    for slot in mps_slots.slots_of(settings, job):
        with contextlib.suppress(OSError):
            file = os.open(slot.server_log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                size = os.fstat(file).st_size
                return os.pread(file, _MAX_LOG, max(0, size - _MAX_LOG))
            finally:
                os.close(file)
    return b""


def revive(settings: Mps, say: Callable[[str], None]) -> None:
    """Start the daemons anew that died, hang or take no clients while jobs use them.

    What of a job was connected is lost, but its next process, and the next job, find a daemon.

    Args:
        settings: [mps].
        say: takes what was done, and what could not be: one GPU's trouble is no other's.
    """
    for slot in mps_slots.slots(settings):
        try:
            with _locked(settings, slot.gpu):
                residents = slot.residents()
                known = state.read(slot.facts)
                if residents and known and mps_daemon.are_seen(slot, known) and not mps_daemon.answers(settings, slot):
                    mps_daemon.replace(settings, slot, str(known.get("visible")))
                    mps_daemon.bound(settings, slot)
                    for job in sorted(residents):
                        say(f"job {job}: its MPS daemon was gone and is started anew")
        except (mps_daemon.MpsError, state.StateError, OSError) as error:
            say(str(error))


def reap(settings: Mps, now: float) -> float | None:
    """End the daemons that nobody has used for the grace time.

    Args:
        settings: [mps].
        now: Unix time in seconds.

    Returns:
        Seconds until the next one is due, or None where none idles.
    """
    waits = []
    for slot in mps_slots.slots(settings):
        # A GPU that is busy, or in trouble, is looked at later.
        with contextlib.suppress(state.StateError, OSError), _locked(settings, slot.gpu):
            since = mps_slots.idle_since(slot)
            if since is None:
                continue
            wait = min(since, now) + settings.grace_s - now  # the clock may have been set back
            if wait <= 0:
                mps_daemon.stop(settings, slot)
            else:
                waits.append(wait)
    return min(waits, default=None)


@contextlib.contextmanager
def _locked(settings: Mps, gpu: int) -> Iterator[None]:
    with state.locked(f"{settings.run_dir}/g{gpu}.lock", LOCK_TIMEOUT_S):
        yield
