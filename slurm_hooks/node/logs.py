"""A job's logs: where they end when a run starts, what the run wrote, and one line for the user at their end.

Touches only files that the job's user names, and only as that user (`asuser`): regular files, no links.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slurm_hooks.node.asuser import as_user
from slurm_hooks.node.job import NodeJob

TIMEOUT_S = 4.0
_SAMPLE = 64  # bytes before the mark that tell whether a log was added to or written anew
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True)
class LogMark:
    """The state of a log when a run started; all zero for a log that was not there.

    Attributes:
        path: absolute path.
        size: bytes.
        dev, ino: which file it was.
        mtime_ns: when it was last written.
        sample: the last bytes before `size`, in hexadecimal.
        known: whether the log could be looked at in time; else all else but the path is of no meaning.
    """

    path: str
    size: int = 0
    dev: int = 0
    ino: int = 0
    mtime_ns: int = 0
    sample: str = ""
    known: bool = True


def mark_from(data: Any) -> LogMark | None:
    """The mark that a state file holds, or None where it holds something else."""
    try:
        made = LogMark(**data)
    except TypeError:
        return None
    numbers = (made.size, made.dev, made.ino, made.mtime_ns)
    texts = isinstance(made.path, str) and isinstance(made.sample, str)
    return made if texts and isinstance(made.known, bool) and all(isinstance(n, int) for n in numbers) else None


def mark(job: NodeJob, paths: Sequence[str]) -> tuple[LogMark, ...]:
    """How the logs are now; a log that the user cannot read or that is no regular file counts as empty."""

    def work() -> bytes:
        return json.dumps([asdict(_mark(path)) for path in paths]).encode()

    answer = as_user(job.user, job.uid, job.gid, work, TIMEOUT_S)
    return unknown(paths) if answer is None else tuple(LogMark(**data) for data in json.loads(answer))


def unknown(paths: Sequence[str]) -> tuple[LogMark, ...]:
    """Marks of logs that could not be looked at."""
    return tuple(LogMark(path, known=False) for path in paths)


def written(job: NodeJob, marks: Sequence[LogMark], limit: int) -> bytes:
    """What was written to the logs since the marks, of each at most the last `limit` bytes, one after another."""

    def work() -> bytes:
        return b"\n".join(_written(mark, limit) for mark in marks)

    return as_user(job.user, job.uid, job.gid, work, TIMEOUT_S) or b""


def append(job: NodeJob, path: str, line: str) -> bool:
    """Add a line to a log that is there; whether it was done."""

    def work() -> bytes:
        file = _open(path, os.O_RDWR | os.O_APPEND)
        try:
            size = os.fstat(file).st_size
            fresh = size == 0 or os.pread(file, 1, size - 1) == b"\n"
            os.write(file, (("" if fresh else "\n") + line + "\n").encode())
        finally:
            os.close(file)
        return b"done"

    return as_user(job.user, job.uid, job.gid, work, TIMEOUT_S) == b"done"


def _open(path: str, flags: int) -> int:
    """Open a regular file; looked at before, for opening some devices does something."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    file = os.open(path, flags | _FLAGS)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return file


def _mark(path: str) -> LogMark:
    try:
        file = _open(path, os.O_RDONLY)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return LogMark(path)
    try:
        about = os.fstat(file)
        sample = os.pread(file, _SAMPLE, max(0, about.st_size - _SAMPLE))
    finally:
        os.close(file)
    return LogMark(path, about.st_size, about.st_dev, about.st_ino, about.st_mtime_ns, sample.hex())


def _written(mark: LogMark, limit: int) -> bytes:
    try:
        file = _open(mark.path, os.O_RDONLY)
    except (OSError, ValueError):
        return b""
    try:
        about = os.fstat(file)
        start = mark.size if _added_to(file, about, mark) else 0
        start = max(start, about.st_size - limit)
        return _read(file, start, about.st_size - start)
    finally:
        os.close(file)


def _added_to(file: int, about: os.stat_result, mark: LogMark) -> bool:
    """Whether the log is the one that was marked and still holds what it held; else the run wrote all of it."""
    if (about.st_dev, about.st_ino) != (mark.dev, mark.ino):
        return False
    if about.st_size == mark.size:  # a write that a full disk refuses changes the time, too
        return about.st_mtime_ns == mark.mtime_ns or os.fstatvfs(file).f_bavail == 0
    sample = bytes.fromhex(mark.sample)
    return os.pread(file, len(sample), mark.size - len(sample)) == sample


def _read(file: int, start: int, size: int) -> bytes:
    parts = []
    while size > 0:
        part = os.pread(file, size, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        size -= len(part)
    return b"".join(parts)
