"""One MPS control daemon and its servers: started, asked, held to caps, replaced and ended.

Touches the slot's folder, the control program and the processes that it started; whoever calls holds the GPU's lock
(`mps`), but to ask.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from slurm_hooks.config import Mps
from slurm_hooks.node import commands, pids, state
from slurm_hooks.node.mps_slots import SHARED, Slot, names

START_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 3.0
POLL_S = 0.02
_SERVER = "nvidia-cuda-mps-server"
_MOUNT_TIMEOUT_S = 2.0
_UNBOUND_MIB = 1 << 20  # a limit that is none
_TO_WRITE = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # never waits, whatever users do to their file
_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class MpsError(RuntimeError):
    """MPS cannot be used on a GPU; the message says why."""


def control(settings: Mps, slot: Slot, command: str) -> commands.Done:
    """Ask a slot's daemon something."""
    return commands.run([settings.control], settings.command_timeout_s, _environment(slot), f"{command}\n")


def _environment(slot: Slot) -> dict[str, str]:
    return {
        **_PATH,
        "CUDA_MPS_PIPE_DIRECTORY": slot.pipe,
        "CUDA_MPS_LOG_DIRECTORY": slot.log,
    }


def servers(settings: Mps, slot: Slot) -> list[int]:
    """Process numbers of a daemon's servers; empty where it does not answer."""
    return _numbers(control(settings, slot, "get_server_list").out)


def answers(settings: Mps, slot: Slot) -> bool:
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


def bound(settings: Mps, slot: Slot) -> None:
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
    for server in servers(settings, slot) if done.ok else ():
        control(settings, slot, f"set_device_pinned_mem_limit {server} {limit}")
    if done.ok:
        state.write(slot.facts, {**known, "limit_mib": largest})


def replace(settings: Mps, slot: Slot, visible: str) -> None:
    """Put a new daemon into a slot, in the place of whatever was there.

    Its servers go too: they end with their daemon, and one that hangs would stay, and its clients with it.
    """
    _kill(settings, slot)
    state.write(slot.facts, {"visible": visible, "mounted": os.path.ismount(slot.pipe)})
    _shorten_logs(settings, slot)
    if slot.name != SHARED:  # the server runs as the user, in a folder where only we make files
        _hand_over(slot.server_log, int(slot.name[1:]))
    _start(settings, slot, visible)


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
    while not answers(settings, slot):
        if time.monotonic() >= deadline:
            _kill(settings, slot)
            raise MpsError(f"GPU {slot.gpu}: the control daemon was started and does not answer: see {slot.log}")
        time.sleep(POLL_S)


def stop(settings: Mps, slot: Slot) -> None:
    """End a slot's daemon and take its folder away."""
    if names(slot.pipe):
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
        for name in names(slot.pipe):
            state.remove(f"{slot.pipe}/{name}")


def mount(settings: Mps, slot: Slot, hidden: Callable[[], bool]) -> None:
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


def are_seen(slot: Slot, known: Mapping[str, Any]) -> bool:
    """Whether a daemon's pipes are here what they are to Prolog, whose slurmd may have a name space of its own."""
    return not known.get("mounted") or os.path.ismount(slot.pipe)


def _shorten_logs(settings: Mps, slot: Slot) -> None:
    """Let a new daemon begin with room for its logs."""
    largest = max(1, settings.log_mib) << 18  # what Epilog reads of it stays
    for name in names(slot.log):  # what earlier daemons wrote may have filled it
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


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdecimal()]


def _read(path: str, size: int) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(size)
