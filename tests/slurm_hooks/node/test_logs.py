"""Files are looked at as the job's user: the tests make them as root and other users."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import pytest

from slurm_hooks.node import logs
from slurm_hooks.node.asuser import as_user
from slurm_hooks.node.job import NodeJob
from slurm_hooks.node.logs import LogMark, append, mark, mark_from, written
from tests.slurm_hooks.node.conftest import OTHER_UID, UID


def _log(path: Path, text: str, uid: int = UID, mode: int = 0o600) -> str:
    path.write_text(text)
    os.chown(path, uid, uid)
    path.chmod(mode)
    return str(path)


def test_work_is_done_as_the_user() -> None:
    def who() -> bytes:
        return f"{os.getuid()} {os.geteuid()} {os.getgid()} {os.getgroups()}".encode()

    before = os.getgroups()
    os.setgroups([0])  # as slurmd's may be
    assert as_user("", UID, UID, who, 5) == f"{UID} {UID} {UID} []".encode()
    assert as_user("nobody", 65534, 65534, who, 5) == b"65534 65534 65534 [65534]"
    os.setgroups(before)
    assert os.geteuid() == 0


@pytest.mark.parametrize(("uid", "answer"), [(UID, b"done"), (OTHER_UID, b"not done")])
def test_who_is_not_root_works_as_nobody_else(uid: int, answer: bytes) -> None:
    assert as_user("", UID, UID, lambda: as_user("", uid, uid, lambda: b"done", 5) or b"not done", 5) == answer


def test_work_that_hangs_for_ever_does_not_hold_the_hooks_output_open() -> None:
    def outputs() -> bytes:
        return " ".join(str(Path(f"/proc/self/fd/{file}").readlink()) for file in (0, 1, 2)).encode()

    assert as_user("", UID, UID, outputs, 5) == b"/dev/null /dev/null /dev/null"


def test_work_that_fails_or_hangs_or_says_too_much() -> None:
    def fails() -> bytes:
        raise OSError

    def hangs() -> bytes:
        time.sleep(60)
        return b""

    assert as_user("", UID, UID, fails, 5) is None
    begin = time.monotonic()
    assert as_user("", UID, UID, hangs, 0.2) is None
    assert time.monotonic() - begin < 30
    assert as_user("", UID, UID, lambda: b"x" * (34 << 20), 20) is None
    assert as_user("no-such-user-here", UID, UID, lambda: b"x", 5) == b"x"
    assert len(as_user("", UID, UID, lambda: b"x" * (9 << 20), 20) or b"") == 9 << 20


def test_the_longest_ends_of_both_logs(job: NodeJob, home: Path) -> None:
    limit = 16384 * 1024  # the most that log_tail_kib allows
    marks = [LogMark(_log(home / name, "x" * (limit + 1))) for name in ("out", "err")]
    assert len(written(job, marks, limit)) == 2 * limit + 1


def test_only_what_the_run_wrote(job: NodeJob, home: Path) -> None:
    path = _log(home / "log", "old run\n" * 100)
    marks = mark(job, [path])
    assert marks[0].size == 800
    with Path(path).open("a") as file:
        file.write("new\n")
    assert written(job, marks, 1 << 20) == b"new\n"
    assert mark_from(dataclasses.asdict(marks[0])) == marks[0]


def test_nothing_written(job: NodeJob, home: Path) -> None:
    marks = mark(job, [_log(home / "log", "old OOM\n")])
    assert written(job, marks, 1 << 20) == b""


def test_a_log_that_was_not_there(job: NodeJob, home: Path) -> None:
    marks = mark(job, [str(home / "log")])
    assert marks == (LogMark(str(home / "log")),)
    _log(home / "log", "all new\n")
    assert written(job, marks, 1 << 20) == b"all new\n"


@pytest.mark.parametrize("text", ["x", "same size\n"[::-1], "same size\n", "longer than before, and other text " * 10])
def test_a_log_that_was_written_anew(job: NodeJob, home: Path, text: str) -> None:
    path = _log(home / "log", "same size\n")
    marks = mark(job, [path])
    os.utime(path, ns=(0, 1))  # the old writing lies long ago
    marks = mark(job, [path])
    Path(path).write_text(text)
    assert written(job, marks, 1 << 20) == text.encode()


def test_a_log_whose_disk_takes_no_more(job: NodeJob, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _log(home / "log", "an earlier run's\n")
    marks = mark(job, [path])
    full = os.statvfs_result((4096, 4096, 9, 0, 0, 9, 9, 9, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda _: full)
    os.utime(path, ns=(0, 0))  # as a write does that is refused
    assert written(job, marks, 1 << 20) == b""


def test_a_log_that_was_replaced(job: NodeJob, home: Path) -> None:
    path = _log(home / "log", "old\n")
    marks = mark(job, [path])
    Path(path).rename(home / "older")
    _log(home / "log", "old\nnew\n")
    assert written(job, marks, 1 << 20) == b"old\nnew\n"


def test_the_end_of_a_long_log(job: NodeJob, home: Path) -> None:
    marks = (LogMark(_log(home / "out", "a" * 5000 + "end")), LogMark(_log(home / "err", "b" * 5000 + "fin")))
    assert written(job, marks, 10) == b"aaaaaaaend\nbbbbbbbfin"


def test_a_log_that_comes_in_pieces_and_is_cut_short_while_it_is_read(
    job: NodeJob, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: through(file, min(size, 3), at) if at < 6 else b"")
    assert written(job, [LogMark(_log(home / "log", "abcdefghi"))], 1 << 20) == b"abcdef"


def test_what_takes_a_logs_place_while_it_is_looked_at(
    job: NodeJob, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = str(home / "log"), Path(_log(home / "before", "text")).lstat()
    os.mkfifo(path)
    os.chown(path, UID, UID)
    monkeypatch.setattr(os, "lstat", lambda _: before)
    assert mark(job, [path]) == (LogMark(path),)
    assert not append(job, path, "rad: hello")


@pytest.mark.parametrize(
    "kind", ["link", "fifo", "folder", "device", "socket", "root's", "another's", "nowhere", "nul"]
)
def test_what_is_no_log_of_the_user(job: NodeJob, home: Path, kind: str) -> None:
    path = home / "log"
    secret = _log(home / "secret", "torch.OutOfMemoryError: CUDA out of memory", 0)
    if kind == "link":
        path.symlink_to(_log(home / "mine", "text"))
    elif kind == "fifo":
        os.mkfifo(path)
        os.chown(path, UID, UID)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        os.mknod(path, 0o20666, os.makedev(1, 3))
    elif kind == "socket":
        os.mknod(path, 0o140666)
    elif kind == "root's":
        path = Path(secret)
    elif kind == "another's":
        _log(path, "text", OTHER_UID)
    elif kind == "nowhere":
        path = home / "no" / "log"
    else:
        path = home / "a\0b"
    begin = time.monotonic()
    good = _log(home / "good", "text")
    assert [(made.path, made.size) for made in mark(job, [str(path), good])] == [(str(path), 0), (good, 4)]
    assert written(job, [LogMark(str(path)), LogMark(good)], 1 << 20) == b"\ntext"
    assert not append(job, str(path), "rad: hello")
    assert time.monotonic() - begin < 30
    assert Path(secret).read_text() == "torch.OutOfMemoryError: CUDA out of memory"


def test_a_link_to_the_shadow_file(job: NodeJob, home: Path) -> None:
    (home / "log").symlink_to("/etc/shadow")
    before = Path("/etc/shadow").read_bytes()
    assert written(job, [LogMark(str(home / "log")), LogMark("/etc/shadow")], 1 << 20).strip() == b""
    assert not append(job, str(home / "log"), "rad: hello")
    assert Path("/etc/shadow").read_bytes() == before


@pytest.mark.parametrize(("before", "after"), [("", ""), ("text\n", "text\n"), ("20%|##", "20%|##\n")])
def test_a_line_for_the_user(job: NodeJob, home: Path, before: str, after: str) -> None:
    path = _log(home / "log", before)
    assert append(job, path, "rad: hello")
    assert Path(path).read_text() == after + "rad: hello\n"


def test_no_log_is_made_for_it(job: NodeJob, home: Path) -> None:
    assert not append(job, str(home / "log"), "rad: hello")
    assert not (home / "log").exists()


def test_a_user_that_cannot_be_become(job: NodeJob, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "as_user", lambda *_: None)
    assert mark(job, ["/a", "/b"]) == (LogMark("/a", known=False), LogMark("/b", known=False))
    assert written(job, [LogMark("/a")], 10) == b""


@pytest.mark.parametrize(
    "data",
    [None, 3, {}, {"path": 3}, {"path": "/a", "size": "x"}, {"path": "/a", "more": 1}, {"path": "/a", "known": 1}],
)
def test_marks_from_elsewhere(data: object) -> None:
    assert mark_from(data) is None
