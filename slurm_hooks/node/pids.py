"""Processes of a program, found and ended while their users do what they like. Touches /proc and these processes.

Whoever reads a command or an environment waits for a process that hangs in its memory, as ps does: a user brings that
about with a file system of their own. Owner and short name the kernel tells at once. What a user's process has beside
these is read in a child, under a time limit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterator

from slurm_hooks.node.asuser import aside

_WAIT_S = 1.0  # for all processes together: users choose how many hang
_SHORT = 15  # so much of a program's name the kernel keeps
_COMMAND = 3  # words of a command in which the program may stand, where an interpreter runs it
_MAX_COMMAND = 4096
_MAX_ENVIRONMENT = 1 << 20


def running(owners: Collection[int], program: str, variable: str) -> list[int]:
    """Processes of some users that run a program and were started with a variable, written ``NAME=value``."""
    return [pid for pid, _ in _found(owners, program, variable)]


def kill(owners: Collection[int], program: str, variable: str) -> None:
    """Kill these processes, and no other that has got the number of one of them since."""
    for pid, held in _found(owners, program, variable):
        with contextlib.suppress(ProcessLookupError):
            if held is None:
                os.kill(pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(held, signal.SIGKILL)


def handle(pid: int) -> int | None:
    """What stays this process's even if its number goes to another; to be closed.

    None where there is none: before Linux 5.3, or where a filter of system calls, as of an older container, forbids it.

    Raises:
        ProcessLookupError: if it is gone.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # AttributeError: a Python that was built for an older Linux
        return None


def _found(owners: Collection[int], program: str, variable: str) -> Iterator[tuple[int, int | None]]:
    """Numbers and handles; a handle is closed when the next one is asked for."""
    deadline = time.monotonic() + _WAIT_S
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib starts slowly
        if not name.isdigit():
            continue
        held = None
        try:
            owner = os.stat(f"/proc/{name}").st_uid  # noqa: PTH116
            if owner not in owners or _read(name, "comm", _SHORT + 1).rstrip(b"\n") != program.encode()[:_SHORT]:
                continue
            held = handle(int(name))
            if _is_meant(int(name), owner, program, variable, deadline):
                yield int(name), held
        except OSError:  # it has gone
            continue
        finally:
            if held is not None:
                os.close(held)


def _is_meant(pid: int, owner: int, program: str, variable: str, deadline: float) -> bool:
    if owner == os.geteuid():
        return _runs(pid, program, variable)
    left_s = deadline - time.monotonic()
    return left_s > 0 and aside(lambda: b"yes" if _runs(pid, program, variable) else b"", left_s) == b"yes"


def _runs(pid: int, program: str, variable: str) -> bool:
    words = _read(pid, "cmdline", _MAX_COMMAND).split(b"\0")[:_COMMAND]
    if not any(os.path.basename(word) == program.encode() for word in words):  # noqa: PTH119
        return False
    return variable.encode() in _read(pid, "environ", _MAX_ENVIRONMENT).split(b"\0")


def _read(pid: int | str, name: str, size: int) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123
        return file.read(size)
