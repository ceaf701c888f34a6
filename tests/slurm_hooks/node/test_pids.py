"""Processes are found and killed against real ones, in spite of what their users do."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.node import pids
from slurm_hooks.node.asuser import aside
from tests.slurm_hooks.node.conftest import OTHER_UID, UID

PROGRAM = "a-program-with-a-long-name"
VARIABLE = "PIPES=/somewhere/g2"


def _start(folder: Path, uid: int, env: dict[str, str]) -> subprocess.Popen[bytes]:
    path = folder / PROGRAM
    if not path.exists():
        path.write_text("#!/bin/sh\necho there\nread _\n")
        path.chmod(0o755)
    pipe = subprocess.PIPE
    started = subprocess.Popen([str(path)], env=env, user=uid, group=uid, stdin=pipe, stdout=pipe)
    assert started.stdout is not None
    assert started.stdout.readline() == b"there\n"
    return started


@pytest.fixture
def process(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    with _start(place, UID, {"PIPES": "/somewhere/g2"}) as started:
        yield started
        started.kill()


def test_who_runs_a_program_with_a_variable(process: subprocess.Popen[bytes], place: Path) -> None:
    with _start(place, UID, {"PIPES": "/somewhere/g22"}) as other, _start(place, OTHER_UID, {}) as anothers:
        assert pids.running({0, UID}, PROGRAM, VARIABLE) == [process.pid]
        assert pids.running({0, UID}, PROGRAM[:15], VARIABLE) == []
        assert pids.running({0, OTHER_UID}, PROGRAM, VARIABLE) == []
        pids.kill({0, UID, OTHER_UID}, PROGRAM, VARIABLE)
        assert process.wait(10) == -signal.SIGKILL
        assert [other.poll(), anothers.poll()] == [None, None]
        other.kill()
        anothers.kill()


def test_memory_of_other_processes_is_not_read(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, through = list[tuple[str, str]](), pids._read

    def spy(pid: int | str, name: str, size: int) -> bytes:
        read.append((str(pid), name))
        return through(pid, name, size)

    monkeypatch.setattr(pids, "_read", spy)
    assert pids.running({os.geteuid()}, PROGRAM, VARIABLE) == []
    assert (str(os.getpid()), "comm") in read
    assert {name for _, name in read} == {"comm"}


def test_of_those_that_hang_in_their_memory_none_is_waited_for_long(
    process: subprocess.Popen[bytes], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def hangs(work: object, timeout_s: float) -> bytes | None:
        asked.append(timeout_s)
        return aside(lambda: bytes(time.sleep(60) or 0), timeout_s)  # type: ignore[func-returns-value]

    monkeypatch.setattr("slurm_hooks.node.pids.aside", hangs)
    monkeypatch.setattr(pids, "_WAIT_S", 0.2)
    with _start(place, UID, {}) as other:
        assert pids.running({UID}, PROGRAM, VARIABLE) == []
        other.kill()
    assert len(asked) == 1


@pytest.mark.parametrize("handles", [True, False])
def test_a_number_that_is_anothers_by_now_is_left_alone(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, handles: bool
) -> None:
    def old(_: int) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    if not handles:
        monkeypatch.setattr(os, "pidfd_open", old)
    with monkeypatch.context() as patched:
        for pid, held in pids._found({UID}, PROGRAM, VARIABLE):
            assert pid == process.pid
            process.kill()
            process.wait()
            patched.setattr(pids, "_found", lambda *_, of=(pid, held): [of])
            if handles:
                patched.setattr(os, "kill", lambda *_: pytest.fail("it may be another's"))
            pids.kill({UID}, PROGRAM, VARIABLE)
    assert process.poll() is not None


def test_handles_are_closed(process: subprocess.Popen[bytes]) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert pids.running({UID}, PROGRAM, VARIABLE) == [process.pid]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_who_works_aside_has_no_file_of_ours_open(place: Path) -> None:
    def mine() -> bytes:
        return b"\n".join(bytes(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists())

    with (place / "lock").open("w"):
        shown = aside(mine, 20)
    assert shown is not None
    assert b"/dev/null" in shown
    assert bytes(place) not in shown
