"""MPS on a node: one control daemon for each GPU and, unless users share one, each user on it.

Below [mps].run_dir lies for every GPU a folder gN and in it one for each daemon ("slot"): ``u1003`` for a user,
``all`` where clients of several users share a server. A slot holds the daemon's pipes and logs and, under ``jobs``,
one file for each job that uses it. The first job starts the daemon; when the last has left and the grace time is
over, it is ended. All of that happens under a lock for each GPU, so that one GPU's trouble is no other's.

Why a daemon a user: a daemon without -multiuser-server serves one user at a time, and a second user's process
waits inside CUDA until the first user's last process has ended. With a daemon each, both run.

Touches run_dir, the control program and the processes that it started.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_hooks.config import Mps
from slurm_hooks.node import commands, pids, state

LOCK_TIMEOUT_S = 12.0
START_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 3.0
POLL_S = 0.02
_SHARED = "all"
_SERVER = "nvidia-cuda-mps-server"
_LATELY_S = 600.0  # longer than an Epilog may take
_MOST_LEFT = 64
_MAX_LOG = 1 << 18
_MOUNT_TIMEOUT_S = 2.0
_UNBOUND_MIB = 1 << 20  # a limit that is none
_TO_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # never waits, whatever users do to their file


class MpsError(RuntimeError):
    """MPS cannot be used on a GPU; the message says why."""


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
        for name in _names(self.jobs):
            with contextlib.suppress(OSError, ValueError), open(f"{self.jobs}/{name}", encoding="ascii") as file:  # noqa: PTH123
                uid, *cap = map(int, file.read().split())
                found[int(name)] = (uid, cap[0] if cap else None)
        return found


def available(settings: Mps) -> bool:
    """Whether this node has the control program."""
    return os.access(settings.control, os.X_OK)


def slot_of(settings: Mps, gpu: int, uid: int) -> Slot:
    """Where the daemon for a user's jobs on a GPU belongs."""
    name = _SHARED if settings.users == "multi" else f"u{uid}"
    return Slot(gpu, name, f"{settings.run_dir}/g{gpu}/{name}")


def slots(settings: Mps) -> list[Slot]:
    """All slots that lie in run_dir."""
    found = []
    for folder in _names(settings.run_dir):
        if folder[:1] == "g" and folder[1:].isdigit():
            found += [
                Slot(int(folder[1:]), name, f"{settings.run_dir}/{folder}/{name}")
                for name in _names(f"{settings.run_dir}/{folder}")
            ]
    return found


def _slots_of(settings: Mps, job: int) -> list[Slot]:
    """The slots whose daemons a job uses."""
    return [slot for slot in slots(settings) if os.path.exists(f"{slot.jobs}/{job}")]  # noqa: PTH110


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
    slot = slot_of(settings, gpu, uid)
    state.folder(settings.run_dir)
    state.folder(os.path.dirname(slot.path))  # noqa: PTH120
    with _locked(settings, gpu):
        for other in slots(settings):
            if other.gpu == gpu and other != slot and not other.residents():
                _stop(settings, other)
        for path, mode in ((slot.path, 0o700), (slot.pipe, 0o755), (slot.log, 0o755), (slot.jobs, 0o700)):
            state.folder(path, mode)
        try:
            _note(slot, job, uid, cap_mib)
            if not _answers(settings, slot):
                _mount(settings, slot, hidden)
                _replace(settings, slot, visible)
            _bound(settings, slot)
            _admit(slot)
        except Exception:
            _forget(slot, job)
            raise
    return slot


def leave(settings: Mps, job: int) -> bool:
    """Forget a job's use of daemons; whether it had used one."""
    left = _slots_of(settings, job)
    for slot in left:
        with _locked(settings, slot.gpu):
            _remember(slot, job, time.time())
            _forget(slot, job)
            _bound(settings, slot)
            _admit(slot)
    return bool(left)


def _remember(slot: Slot, job: int, now: float) -> None:
    """Note that a job leaves: the Epilog of one that was broken with it may come later."""
    known = (state.read(slot.left) or {}).items()
    lately = {name: at for name, at in known if isinstance(at, float) and 0 <= now - at < _LATELY_S}
    with contextlib.suppress(OSError):
        state.write(slot.left, dict([*lately.items(), (str(job), now)][-_MOST_LEFT:]))


def beside(settings: Mps, job: int) -> dict[int, float]:
    """Other jobs of the daemon that a job uses, by number: infinity, or when one left it, Unix time in seconds."""
    for slot in _slots_of(settings, job):
        here = dict.fromkeys(slot.residents(), math.inf)
        left = (state.read(slot.left) or {}).items()
        found = {int(name): at for name, at in left if name.isdecimal() and isinstance(at, float)} | here
        return {other: at for other, at in found.items() if other != job}
    return {}


def disconnect(settings: Mps, job: int, pid: int) -> bool:
    """End what a process of a job has on the GPU, so that the process can be killed.

    One that is killed in the middle of its kernels breaks the other clients of its server. What cannot be asked for in
    time is left undone.

    Returns:
        whether a server was asked to give it up, and answered.
    """
    asked = False
    for slot in _slots_of(settings, job):
        for server in _numbers(control(settings, slot, "get_server_list").out):
            asked |= control(settings, slot, f"terminate_client {server} {pid}").ok
    return asked


def server_log(settings: Mps, job: int) -> bytes:
    """The end of what the server wrote that a job uses; empty where it uses none.

    Where users have servers of their own, the user may have written it.
    """
    for slot in _slots_of(settings, job):
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
    for slot in slots(settings):
        try:
            with _locked(settings, slot.gpu):
                residents = slot.residents()
                known = state.read(slot.facts)
                if residents and known and _are_seen(slot, known) and not _answers(settings, slot):
                    _replace(settings, slot, str(known.get("visible")))
                    _bound(settings, slot)
                    for job in sorted(residents):
                        say(f"job {job}: its MPS daemon was gone and is started anew")
        except (MpsError, state.StateError, OSError) as error:
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
    for slot in slots(settings):
        # A GPU that is busy, or in trouble, is looked at later.
        with contextlib.suppress(state.StateError, OSError), _locked(settings, slot.gpu):
            since = _idle_since(slot)
            if since is None:
                continue
            wait = min(since, now) + settings.grace_s - now  # the clock may have been set back
            if wait <= 0:
                _stop(settings, slot)
            else:
                waits.append(wait)
    return min(waits, default=None)


def _idle_since(slot: Slot) -> float | None:
    """When the last job left: its going changed the folder."""
    try:
        return None if _names(slot.jobs) else os.stat(slot.jobs).st_mtime  # noqa: PTH116
    except FileNotFoundError:
        return 0.0


def _note(slot: Slot, job: int, uid: int, cap_mib: int | None) -> None:
    with open(f"{slot.jobs}/{job}", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(f"{uid}" if cap_mib is None else f"{uid} {cap_mib}")


def _forget(slot: Slot, job: int) -> None:
    state.remove(f"{slot.jobs}/{job}")


_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def _environment(slot: Slot) -> dict[str, str]:
    return {
        **_PATH,
        "CUDA_MPS_PIPE_DIRECTORY": slot.pipe,
        "CUDA_MPS_LOG_DIRECTORY": slot.log,
    }


def control(settings: Mps, slot: Slot, command: str) -> commands.Done:
    """Ask a slot's daemon something."""
    return commands.run([settings.control], settings.command_timeout_s, _environment(slot), f"{command}\n")


def _answers(settings: Mps, slot: Slot) -> bool:
    """Whether a slot's daemon answers, and none of its servers is one that takes no clients."""
    done = control(settings, slot, "get_server_list")
    if done.code is None:  # a daemon that is only slow for once must not be replaced
        done = control(settings, slot, "get_server_list")
    if not done.ok or "Cannot find" in done.out + done.err:
        return False
    return not any(_is_stuck(settings, slot, server) for server in _numbers(done.out))


def _is_stuck(settings: Mps, slot: Slot, server: int) -> bool:
    """Whether a server takes no clients.

    It may be stopped. Or one client's kernel has made a fatal fault: then all its clients are broken, and it refuses
    new ones until the last of these has ended, which a program that catches the error may never do.
    """
    try:
        stopped = _read(f"/proc/{server}/stat", 512).rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False
    return stopped or "FAULT" in control(settings, slot, f"get_server_status {server}").out


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdecimal()]


def _bound(settings: Mps, slot: Slot) -> None:
    """Hold the clients to the largest cap of the slot's jobs, those too that unset the variable with their own.

    Server and daemon keep it for clients that come; one that is connected keeps what it has.
    """
    caps, known = [cap for _, cap in slot.notes().values()], state.read(slot.facts)
    # A job has no cap where its GPU's memory is not known.
    largest = _UNBOUND_MIB if None in caps else max((cap for cap in caps if cap is not None), default=None)
    if not known or largest in (None, known.get("limit_mib", _UNBOUND_MIB)):
        return
    limit = f"0 {largest}M"
    done = control(settings, slot, f"set_default_device_pinned_mem_limit {limit}")
    for server in _numbers(control(settings, slot, "get_server_list").out) if done.ok else ():
        control(settings, slot, f"set_device_pinned_mem_limit {server} {limit}")
    if done.ok:
        state.write(slot.facts, {**known, "limit_mib": largest})


def _replace(settings: Mps, slot: Slot, visible: str) -> None:
    """Put a new daemon into a slot, in the place of whatever was there.

    Its servers go too: they end with their daemon, and one that hangs would stay, and its clients with it.
    """
    _kill(settings, slot)
    state.write(slot.facts, {"visible": visible, "mounted": os.path.ismount(slot.pipe)})
    _shorten_logs(settings, slot)
    if slot.name != _SHARED:  # the server runs as the user, in a folder where only we make files
        _hand_over(slot.server_log, int(slot.name[1:]))
    _start(settings, slot, visible)


def _mount(settings: Mps, slot: Slot, hidden: Callable[[], bool]) -> None:
    """Give a slot's pipes and its logs file systems of their own: who writes there fills these and no other.

    Of the logs one is its user's, and beside its pipes the daemon leaves a lock and a number that everybody may write.
    Only Prolog mounts: the jobs would not see what rad-spool.service does, in a name space of its own. Nor would a
    job that got its own before Prolog, and without pipes it has no MPS: where that may be, these stay where they are,
    in run_dir's file system, as does what cannot be mounted, see `is_bounded`.
    """
    if not settings.log_mib:
        return
    options = f"size={settings.log_mib}m,nr_inodes=64,mode=0755,nosuid,nodev,noexec"
    for folder in (slot.pipe, slot.log):
        if not os.path.ismount(folder) and (folder == slot.log or not hidden()):
            commands.run(["mount", "-t", "tmpfs", "-o", options, "rad-mps", folder], _MOUNT_TIMEOUT_S, _PATH)


def is_bounded(slot: Slot) -> bool:
    """Whether a slot's pipes and logs lie on file systems of their own."""
    return os.path.ismount(slot.pipe) and os.path.ismount(slot.log)


def _are_seen(slot: Slot, known: Mapping[str, Any]) -> bool:
    """Whether a daemon's pipes are here what they are to Prolog, whose slurmd may have a name space of its own."""
    return not known.get("mounted") or os.path.ismount(slot.pipe)


def _shorten_logs(settings: Mps, slot: Slot) -> None:
    """Let a new daemon begin with room for its logs."""
    largest = max(1, settings.log_mib) << 18  # what Epilog reads of it stays
    for name in _names(slot.log):  # what earlier daemons wrote may have filled it
        with contextlib.suppress(OSError):
            if os.stat(f"{slot.log}/{name}").st_size > largest:  # noqa: PTH116
                os.close(os.open(f"{slot.log}/{name}", _TO_WRITE | os.O_TRUNC))


def _hand_over(path: str, uid: int) -> None:
    """Make a file that a user may write; one that its user makes others wait for, with a lease, is made anew."""
    try:
        file = os.open(path, _TO_WRITE | os.O_CREAT | os.O_APPEND, 0o644)
    except BlockingIOError:
        state.remove(path)
        file = os.open(path, _TO_WRITE | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.fchown(file, uid, -1)
    finally:
        os.close(file)


def _start(settings: Mps, slot: Slot, visible: str) -> None:
    argv = [settings.control, "-d"] + (["-multiuser-server"] if settings.users == "multi" else [])
    before = os.umask(0o022)  # slurmd's may be stricter, and the users must reach the daemon's pipes
    try:
        done = commands.run(argv, START_TIMEOUT_S, {**_environment(slot), "CUDA_VISIBLE_DEVICES": visible})
    finally:
        os.umask(before)
    if not done.ok:
        raise MpsError(f"GPU {slot.gpu}: {done.problem}")
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _answers(settings, slot):
        if time.monotonic() >= deadline:
            _kill(settings, slot)
            raise MpsError(f"GPU {slot.gpu}: the control daemon was started and does not answer: see {slot.log}")
        time.sleep(POLL_S)


def _stop(settings: Mps, slot: Slot) -> None:
    """End a slot's daemon and take its folder away."""
    if _names(slot.pipe):
        control(settings, slot, "quit")
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while _daemons(settings, slot) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    _kill(settings, slot)
    for folder in filter(os.path.ismount, (slot.pipe, slot.log)):
        commands.run(["umount", "--lazy", folder], _MOUNT_TIMEOUT_S, _PATH)
    import shutil  # noqa: PLC0415 - starts slowly, and is seldom needed

    shutil.rmtree(slot.path, ignore_errors=True)


def _kill(settings: Mps, slot: Slot) -> None:
    """Kill what is left of a daemon and of its servers."""
    for whose in (_daemon(settings, slot), _server(slot)):
        pids.kill(*whose)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while _daemons(settings, slot) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    with contextlib.suppress(FileNotFoundError):
        for name in _names(slot.pipe):
            state.remove(f"{slot.pipe}/{name}")


def _daemons(settings: Mps, slot: Slot) -> list[int]:
    """Control daemons of a slot: our own processes that run the control program with the slot's pipes."""
    return pids.running(*_daemon(settings, slot))


def _daemon(settings: Mps, slot: Slot) -> tuple[set[int], str, str]:
    return {os.geteuid()}, os.path.basename(settings.control), _of_slot(slot)  # noqa: PTH119


def _server(slot: Slot) -> tuple[set[int], str, str]:
    """Servers of a slot: its user's processes, or ours."""
    user = slot.name[1:]
    return {os.geteuid(), int(user)} if user.isdigit() else {os.geteuid()}, _SERVER, _of_slot(slot)


def _of_slot(slot: Slot) -> str:
    return f"CUDA_MPS_PIPE_DIRECTORY={slot.pipe}"


def _read(path: str, size: int) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(size)


def _admit(slot: Slot) -> None:
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


@contextlib.contextmanager
def _locked(settings: Mps, gpu: int) -> Iterator[None]:
    with state.locked(f"{settings.run_dir}/g{gpu}.lock", LOCK_TIMEOUT_S):
        yield


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - pathlib starts slowly
    except (FileNotFoundError, NotADirectoryError):
        return []
