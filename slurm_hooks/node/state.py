"""Files that the hooks keep: written whole or not at all, readable by root alone unless said otherwise.

Touches only the folders it is given, and refuses one that another user could change.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from typing import Any


class StateError(RuntimeError):
    """A folder or lock that cannot be used; the message names it and the cure."""


def folder(path: str, mode: int = 0o755) -> str:
    """Make a folder where it is missing, and check that only we can write there.

    Raises:
        StateError: if it is a link, another user's, or writable by others.
    """
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120 - pathlib starts slowly
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, mode)  # noqa: PTH102
            os.chmod(path, mode)  # noqa: PTH101 - whatever the umask
        about = os.lstat(path)
    except OSError as error:
        raise StateError(f"{path}: cannot be made: {error.strerror}: see [node] and [mps] in rad.toml") from error
    if stat.S_ISLNK(about.st_mode):
        raise StateError(f"{path}: is a link: name the folder that it leads to in rad.toml")
    if not stat.S_ISDIR(about.st_mode):
        raise StateError(f"{path}: is no folder: remove it")
    if _others_can_change(about):
        raise StateError(f"{path}: others can change it: chown root and chmod go-w it")
    return path


def is_ours(path: str) -> bool:
    """Whether a folder is there into which only we can write."""
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and not _others_can_change(about)


def _others_can_change(about: os.stat_result) -> bool:
    return about.st_uid != os.geteuid() or about.st_mode & 0o022 != 0


def write(path: str, data: Any, mode: int = 0o600, *, durable: bool = False) -> None:
    """Put `data`, which JSON can hold, into a file as `write_bytes` does."""
    write_bytes(path, json.dumps(data).encode(), mode, durable=durable)  # several times as fast as dump()


def write_bytes(path: str, data: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
    """Put `data` into a file: whoever reads it meets the old text or the new.

    Args:
        path: the file.
        data: all that it is to hold.
        mode: its permissions.
        durable: wait until the disk has it, so that it outlives a crash of the machine. What is only of use until
            the next boot need not.
    """
    aside = f"{path}.{os.getpid()}.new"
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(file, "wb") as out:
            os.fchmod(out.fileno(), mode)
            out.write(data)
            out.flush()
            if durable:
                os.fsync(out.fileno())
        os.rename(aside, path)  # noqa: PTH104
        if durable:
            _sync_folder(os.path.dirname(path))  # noqa: PTH120
    except OSError as error:
        error.filename = error.filename or path  # of a disk that is full nobody says which it is
        remove(aside)
        raise


def _sync_folder(path: str) -> None:
    """Wait until the disk has a folder's names too: a file's fsync does not wait for its new name."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system that cannot: the file is there all the same
            os.fsync(folder)
    finally:
        os.close(folder)


def read(path: str) -> dict[str, Any] | None:
    """What a file holds, or None where it is missing or broken."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not hold us up
        with os.fdopen(file, encoding="utf-8") as text:
            data = json.load(text)
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def age_s(path: str) -> float:
    """How long ago a file was written, in seconds; a clock that was set back since makes none young for years.

    Raises:
        FileNotFoundError: if it is gone.
    """
    return abs(time.time() - os.stat(path).st_mtime)  # noqa: PTH116


def remove(path: str) -> None:
    """Take a file away; it may be gone already. A folder in its place stays: we make none there."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(path)  # noqa: PTH108


@contextlib.contextmanager
def locked(path: str, timeout_s: float) -> Iterator[None]:
    """Hold a lock file; the kernel frees it if we die.

    Raises:
        StateError: if others hold it for longer than `timeout_s`.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        while not _try_lock(file):
            if time.monotonic() >= deadline:
                raise StateError(f"{path}: locked by another process for {timeout_s:g} s")
            time.sleep(0.01)
        yield
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
