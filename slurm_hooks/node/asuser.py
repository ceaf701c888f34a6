"""Work that users may hold up, done in a forked child under a time limit. Touches what the work touches.

A hook runs as root: it must never open a file because a user named it. The child gives up root before it looks,
so that links, other users' files and root-squashed file systems are the kernel's business.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable

_FILES = 256  # a hook opens no more
MAX_ANSWER = 33 * 1024 * 1024  # two logs, of each the most that log_tail_kib allows


def as_user(user: str, uid: int, gid: int, work: Callable[[], bytes], timeout_s: float) -> bytes | None:
    """What `work` returns, done as the user; None where it failed or took too long.

    Locks that we hold the child holds too, for as long as it is there.

    Args:
        user: name, for the supplementary groups; without one the user has none.
        uid: the user's number.
        gid: the number of its group.
        work: runs in the child; an exception ends the child.
        timeout_s: then the child is killed; one that hangs in the kernel is left behind.
    """

    def as_them() -> bytes:
        if os.geteuid() == 0:
            if user:
                os.initgroups(user, gid)
            else:
                os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
        elif os.geteuid() != uid:
            raise PermissionError("not root")
        os.chdir("/")
        return work()

    return _in_child(as_them, timeout_s, keeps=True)


def aside(work: Callable[[], bytes], timeout_s: float) -> bytes | None:
    """What `work` returns, done in a child that holds no lock of ours; arguments and answer as of `as_user`."""
    return _in_child(work, timeout_s, keeps=False)


def _in_child(work: Callable[[], bytes], timeout_s: float, *, keeps: bool) -> bytes | None:
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        _child(send, work, keeps=keeps)
    os.close(send)
    try:
        return _answer(receive, child, time.monotonic() + timeout_s)
    finally:
        os.close(receive)


def _child(send: int, work: Callable[[], bytes], *, keeps: bool) -> None:
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in (0, 1, 2):  # slurmd reads a hook's output to its end: one left behind must not hold it open
            os.dup2(nothing, file)
        if not keeps:  # a lock is held for as long as anybody has its file open
            os.closerange(3, send)
            os.closerange(send + 1, _FILES)
        data = memoryview(work())
        while data:
            data = data[os.write(send, data) :]
        status = 0
    finally:
        os._exit(status)  # not even an exception may bring the child back into its parent's code


def _answer(receive: int, child: int, deadline: float) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while size <= MAX_ANSWER:
        ready, _, _ = select.select([receive], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        part = os.read(receive, 65536)
        if not part:
            _, status = os.waitpid(child, 0)
            return b"".join(parts) if status == 0 else None
        parts.append(part)
        size += len(part)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, os.WNOHANG)
    return None
