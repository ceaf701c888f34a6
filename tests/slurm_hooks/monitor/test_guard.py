"""Jobs over their allotments: when something is done, what, and to whom."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.config import OverAllotment
from slurm_hooks.monitor import guard
from slurm_hooks.monitor.guard import LOOKS, Guard, Notice, act

OVER = {10: 3000.0, 11: 6000.0}


def _disconnect(job: int, pid: int) -> bool:
    """Takes no process off a GPU."""
    return False


def looks(guard: Guard, count: int, processes: dict[int, float] | None = None) -> list[Notice | None]:
    return [guard.look(7, 8000.0, OVER if processes is None else processes) for _ in range(count)]


def test_it_is_said_once_and_only_when_it_lasts() -> None:
    guard = Guard("warn", 100.0)
    notice = Notice(7, "job 7 uses 9000 MiB of GPU memory, 8000 MiB allotted", warn=True)
    assert looks(guard, 10) == [None, None, notice, *[None] * 7]  # in the third look, as docs/monitor.md says


def test_a_spike_passes() -> None:
    guard = Guard("warn", 100.0)
    for _ in range(5):
        assert looks(guard, LOOKS - 1) == [None] * (LOOKS - 1)
        assert looks(guard, 1, {10: 8100.0}) == [None]


def test_recording_warns_nobody() -> None:
    (notice,) = filter(None, looks(Guard("record", 0.0), 5))
    assert not notice.warn and notice.pid is None


def test_the_largest_process_is_asked_to_end_and_then_made_to() -> None:
    guard = Guard("end", 0.0)
    first, second = filter(None, looks(guard, 2 * LOOKS))
    assert (first.pid, first.hard, first.warn) == (11, False, True)
    assert first.message.endswith("process 11 (6000 MiB) was ended")
    assert (second.pid, second.hard, second.warn) == (11, True, False)
    (third,) = filter(None, looks(guard, LOOKS, {10: 5000.0, 11: 4000.0}))
    assert (third.pid, third.hard) == (10, False)


def test_a_process_that_gave_memory_back_is_asked_anew() -> None:
    guard = Guard("end", 0.0)
    assert len(list(filter(None, looks(guard, LOOKS)))) == 1
    assert looks(guard, 1, {10: 3000.0, 11: 4000.0}) == [None]
    (later,) = filter(None, looks(guard, LOOKS))
    assert (later.pid, later.hard) == (11, False)


def test_jobs_without_a_cap_are_left_alone() -> None:
    guard = Guard("end", 0.0)
    assert [guard.look(7, None, OVER) for _ in range(5)] == [None] * 5
    assert [guard.look(7, 0.0, {}) for _ in range(5)] == [None] * 5


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        ("record", [True, True, False, False]),
        ("warn", [True, True, False, False]),
        ("end", [True, True, False, True]),  # it may have to be ended the hard way
    ],
)
def test_looks_count_while_something_may_have_to_be_done(policy: OverAllotment, counts: list[bool]) -> None:
    guard = Guard(policy, 100.0)
    assert guard.counts is False
    seen = []
    for _ in counts:
        looks(guard, 1)
        guard.look(8, 8000.0, {20: 100.0})  # one that keeps to its cap changes nothing
        seen.append(guard.counts)
    assert seen == counts
    looks(guard, 1, {10: 100.0})
    assert guard.counts is False
    guard.look(8, 8000.0, {20: 9000.0})
    guard.look(9, 8000.0, {30: 9000.0})
    guard.look(9, 8000.0, {30: 100.0})
    assert guard.counts is True
    guard.forget(8)
    assert guard.counts is False


def test_a_new_run_is_told_again() -> None:
    guard = Guard("warn", 0.0)
    assert len(list(filter(None, looks(guard, 5)))) == 1
    guard.forget(7)
    assert len(list(filter(None, looks(guard, 5)))) == 1


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize(("hard", "number"), [(False, signal.SIGTERM), (True, signal.SIGKILL)])
def test_a_process_is_ended(victim: subprocess.Popen[bytes], hard: bool, number: int) -> None:
    begin = _open_files()
    act(Notice(7, "over", pid=victim.pid, hard=hard), lambda pid: 8, _disconnect)
    act(Notice(7, "over", pid=victim.pid, hard=hard), lambda pid: 7, _disconnect)
    assert _open_files() == begin
    assert victim.wait(10) == -number


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSYS, "no such call"), OSError(errno.EPERM, "a container's filter"), AttributeError("pidfd_open")],
)
def test_a_process_is_ended_where_the_kernel_gives_no_handle(
    victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def old(_: int) -> int:
        raise error

    monkeypatch.setattr(os, "pidfd_open", old)
    act(Notice(7, "over", pid=victim.pid), lambda pid: 8, _disconnect)
    act(Notice(7, "over", pid=victim.pid, hard=True), lambda pid: 7, _disconnect)
    assert victim.wait(10) == -signal.SIGKILL


def test_it_is_taken_off_the_gpu_before_it_is_ended(
    victim: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    taken = []

    def disconnect(job: int, pid: int) -> bool:
        taken.append((job, pid, victim.poll()))
        raise OSError("the daemon hangs")

    act(Notice(7, "over", pid=victim.pid), lambda pid: 8, disconnect)
    assert taken == []
    act(Notice(7, "over", pid=victim.pid), lambda pid: 7, disconnect)
    assert taken == [(7, victim.pid, None)]
    assert victim.wait(10) == -signal.SIGTERM
    assert caplog.messages[-1] == f"process {victim.pid} is ended in its kernels: OSError: the daemon hangs"


def _no_handle(_: int) -> int:
    raise OSError(errno.ENOSYS, "no such call")


@pytest.mark.parametrize("handles", [True, False])
def test_it_has_time_to_end_by_itself_then(
    victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, handles: bool
) -> None:
    monkeypatch.setattr(guard, "LET_GO_S", 0.3)
    if not handles:
        monkeypatch.setattr(os, "pidfd_open", _no_handle)
    begin = time.monotonic()
    act(Notice(7, "over", pid=victim.pid), lambda pid: 7, lambda job, pid: True)
    assert time.monotonic() - begin >= 0.3
    assert victim.wait(10) == -signal.SIGTERM


def test_one_that_ends_by_itself_is_not_waited_for(
    victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def disconnect(job: int, pid: int) -> bool:
        os.kill(pid, signal.SIGHUP)
        return True

    monkeypatch.setattr(guard, "LET_GO_S", 600)
    act(Notice(7, "over", pid=victim.pid), lambda pid: 7, disconnect)
    assert victim.wait(10) == -signal.SIGHUP


def test_a_number_that_is_another_jobs_by_now_is_left_alone(victim: subprocess.Popen[bytes]) -> None:
    act(Notice(7, "over", pid=victim.pid, hard=True), lambda pid: 8, _disconnect)
    act(Notice(7, "over", pid=victim.pid, hard=True), lambda pid: None, _disconnect)
    asked: list[int] = []

    def disconnect(job: int, pid: int) -> bool:
        asked.append(pid)
        return False

    act(Notice(7, "over", pid=2**22 + 1, hard=True), lambda pid: 7, disconnect)
    assert asked == []  # nobody has that number
    with pytest.raises(subprocess.TimeoutExpired):
        victim.wait(0.2)


def test_a_number_that_becomes_another_jobs_meanwhile(
    victim: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a handle it is still the process that was looked at; by its number it is no more."""
    jobs = iter([7, 8])
    with monkeypatch.context() as patched:
        patched.setattr(os, "pidfd_open", _no_handle)
        act(Notice(7, "over", pid=victim.pid), lambda pid: next(jobs), _disconnect)
    with pytest.raises(subprocess.TimeoutExpired):
        victim.wait(0.2)
    jobs = iter([7, 8])
    act(Notice(7, "over", pid=victim.pid), lambda pid: next(jobs), _disconnect)
    assert victim.wait(10) == -signal.SIGTERM


def test_the_user_is_told_through_slurm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/said\n')
    scontrol.chmod(0o755)
    caplog.set_level(logging.WARNING)
    act(Notice(7, "job 7 uses much", warn=True), lambda pid: 7, _disconnect, str(scontrol))
    assert (tmp_path / "said").read_text() == "notify|7|rad: job 7 uses much|"
    (tmp_path / "said").unlink()
    act(Notice(7, "job 7 uses much"), lambda pid: 7, _disconnect, str(scontrol))
    assert not (tmp_path / "said").exists()
    act(Notice(7, "job 7 uses much", warn=True), lambda pid: 7, _disconnect, "/nowhere/scontrol")
    assert [record.message for record in caplog.records] == [
        "job 7 uses much",
        "job 7 uses much",
        "job 7 uses much",
        "job 7 was not told: /nowhere/scontrol: No such file or directory",
    ]
