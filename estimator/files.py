"""Reading files that a user names: regular ones only, up to a limit, and never a wait for a pipe's other end.

And putting files in place, so that readers see them whole.
"""

from __future__ import annotations

import codecs
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Protocol

MIB = 1024 * 1024
MAX_SCRIPT_BYTES = 4 * MIB  # Slurm's own limit (max_script_size)
MAX_SUMMARY_BYTES = 16 * MIB
MAX_DATA_BYTES = 1024 * MIB  # of what was measured
# Without O_NONBLOCK, opening a FIFO waits for a writer.
_TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Stream(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; fewer where it ends."""


class FileRefusedError(ValueError):
    """A file that is not read; the message names it and says why."""


def read(path: Path, limit: int) -> bytes:
    """What a regular file holds.

    Raises:
        FileRefusedError: if it is something else, or longer than `limit` bytes.
        OSError: if it cannot be opened.
    """
    descriptor = os.open(path, _TO_READ)
    try:
        return _held(descriptor, limit, str(path))
    finally:
        os.close(descriptor)


def _held(descriptor: int, limit: int, name: str) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise FileRefusedError(f"{name}: not a regular file")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return _up_to(file, limit, name)


def read_text(path: Path, limit: int) -> str:
    """A regular text file; bytes that are not UTF-8 come as surrogates, so that they can be written back as they were.

    Raises:
        FileRefusedError: if it is no regular file, longer than `limit` bytes, or binary.
        OSError: if it cannot be opened.
    """
    return _text(read(path, limit), str(path))


def text_of(stream: Stream, limit: int, name: str) -> str:
    """What a stream holds that is read to its end, such as standard input, as `read_text` gives it.

    Raises:
        FileRefusedError: if it is longer than `limit` bytes, or binary; `name` stands for it in the message.
        OSError: if it cannot be read.
    """
    return _text(_up_to(stream, limit, name), name)


def _up_to(file: Stream, limit: int, name: str) -> bytes:
    data = file.read(limit + 1)
    if len(data) > limit:
        raise FileRefusedError(f"{name}: longer than {limit // 1024} KiB")
    return data


def _text(data: bytes, name: str) -> str:
    if b"\0" in data:
        wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        raise FileRefusedError(f"{name}: {'UTF-16: save it as UTF-8' if wide else 'binary: it holds NUL bytes'}")
    return data.decode(errors="surrogateescape")


@contextmanager
def for_all_to_read() -> Iterator[None]:
    """What is made meanwhile everybody may read: radd and users read the models that root fits."""
    before = os.umask(0o022)  # root's may be stricter
    try:
        yield
    finally:
        os.umask(before)


def make_room(folder: Path) -> None:
    """Make a folder that everybody may read, and find out whether something can be put there.

    Raises:
        OSError: it cannot.
    """
    with for_all_to_read():
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-"):
        pass


def replace(path: Path, old: str, new: str) -> None:
    """Write a file anew, with its owner and mode; whoever reads meanwhile sees the old or the new, whole.

    It has to hold what was read of it: else who may put a link in its place, or in that of its folder, has root write
    elsewhere.

    Args:
        path: the file.
        old: what was read of it.
        new: what it is to hold.

    Raises:
        FileRefusedError: if it holds something else by now.
        OSError: if nothing can be written in its folder, or it is gone.
    """
    target = path.resolve()
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        about = _unchanged(folder, target, old.encode(errors="surrogateescape"))
        _put(folder, target, new.encode(errors="surrogateescape"), about)
    finally:
        os.close(folder)


def _unchanged(folder: int, target: Path, old: bytes) -> os.stat_result:
    descriptor = os.open(target.name, _TO_READ | os.O_NOFOLLOW, dir_fd=folder)
    try:
        if _held(descriptor, len(old), str(target)) == old:
            return os.fstat(descriptor)
    except FileRefusedError:  # longer
        pass
    finally:
        os.close(descriptor)
    raise FileRefusedError(f"{target}: somebody has changed it meanwhile: run this again")


def _put(folder: int, target: Path, data: bytes, about: os.stat_result) -> None:
    beside = f".{target.name}.{token_hex(4)}"
    try:  # never through a link that somebody else has put there
        made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{target.parent} (a new file is put there)") from error
    try:
        with os.fdopen(made, "wb") as file:
            file.write(data)
            with suppress(PermissionError):  # who is not root writes a file that is another's as one of his own
                os.fchown(made, about.st_uid, about.st_gid)
            os.fchmod(made, stat.S_IMODE(about.st_mode))
        os.rename(beside, target.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
