"""Reading files that a user names: regular ones only, up to a limit, and never a wait for a pipe's other end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_SCRIPT_BYTES = 4 * 1024 * 1024  # Slurm's own limit (max_script_size)


class FileRefusedError(ValueError):
    """A file that is not read; the message names it and says why."""


def read(path: Path, limit: int) -> bytes:
    """What a regular file holds.

    Raises:
        FileRefusedError: if it is something else, longer than `limit` bytes, or binary.
        OSError: if it cannot be opened.
    """
    # Without O_NONBLOCK, opening a FIFO waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileRefusedError(f"{path}: not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise FileRefusedError(f"{path}: longer than {limit // 1024} KiB")
    if b"\0" in data:
        raise FileRefusedError(f"{path}: binary: it holds NUL bytes")
    return data


def read_text(path: Path, limit: int) -> str:
    """A regular text file; bytes that are not UTF-8 come as surrogates, so that they can be written back as they were.

    Raises:
        FileRefusedError: if it is no regular file, longer than `limit` bytes, or binary.
        OSError: if it cannot be opened.
    """
    return read(path, limit).decode(errors="surrogateescape")


def replace(path: Path, text: str) -> None:
    """Write a file anew, with the old one's mode; whoever reads meanwhile sees the old or the new, whole."""
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(text.encode(errors="surrogateescape"))
        beside.chmod(stat.S_IMODE(target.stat().st_mode))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
