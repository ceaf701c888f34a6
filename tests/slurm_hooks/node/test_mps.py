"""MPS daemons' lives, against a stand-in control program that starts real processes."""

from __future__ import annotations

import configparser
import errno
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from slurm_hooks.config import Mps, Node
from slurm_hooks.node import commands, mps, mps_daemon, mps_slots, pids, state
from slurm_hooks.node.mps_slots import Slot
from tests.slurm_hooks.node import standins
from tests.slurm_hooks.node.conftest import OTHER_UID, UID, kill_all, processes_with

ROOT = Path(__file__).parents[3]
UUID = "GPU-11111111-2222-3333-4444-555555555555"


@pytest.fixture
def settings(place: Path, programs: Path) -> Iterator[Mps]:
    run_dir = place / "mps"
    control = str(programs / standins.CONTROL)
    yield Mps(run_dir=str(run_dir), control=control, grace_s=0, command_timeout_s=1, log_mib=0)
    kill_all(str(run_dir))


def _daemons(settings: Mps) -> list[int]:
    return sorted(processes_with(f"CUDA_MPS_PIPE_DIRECTORY={settings.run_dir}"))


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _can_enter(slot: Slot, uid: int) -> bool:
    code = f"import os; os.setgroups([]); os.setgid({uid}); os.setuid({uid}); os.stat({slot.pipe!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_the_first_starts_it_and_the_last_ends_it(settings: Mps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps_daemon, "STOP_TIMEOUT_S", 60)
    slot = mps.join(settings, 2, UID, 11, UUID)
    first = _daemons(settings)
    assert len(first) == 1
    assert json.loads((Path(slot.pipe) / "facts").read_text()) == [["-d"], UUID]
    assert mps.join(settings, 2, UID, 12, UUID) == slot
    assert _daemons(settings) == first
    assert slot.residents() == {11: UID, 12: UID}
    mps.leave(settings, 11)
    assert mps.reap(settings, time.time()) is None
    assert _daemons(settings) == first
    mps.leave(settings, 12)
    mps.leave(settings, 12)  # once more changes nothing
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: pytest.fail("it was told to quit"))
    assert mps.reap(settings, time.time() + 1) is None
    assert _daemons(settings) == []
    assert mps_slots.slots(settings) == []


def test_a_daemon_outlives_its_last_job_by_the_grace_time(settings: Mps) -> None:
    settings = replace(settings, grace_s=30)
    mps.join(settings, 2, UID, 11, UUID)
    mps.leave(settings, 11)
    now = time.time()
    wait = mps.reap(settings, now)
    assert wait is not None
    assert 20 < wait <= 30
    first = _daemons(settings)
    slot = mps.join(settings, 2, UID, 12, UUID)
    assert mps.reap(settings, now + 40) is None
    assert _daemons(settings) == first
    mps.leave(settings, 12)
    Path(slot.jobs, "13.4711.new").touch()  # as of a Prolog that was killed while it noted its job
    assert mps.reap(settings, time.time() + 31) is None
    assert _daemons(settings) == []


def test_each_user_has_a_daemon_that_others_cannot_reach(settings: Mps) -> None:
    mine = mps.join(settings, 2, UID, 11, UUID)
    theirs = mps.join(settings, 2, OTHER_UID, 12, UUID)
    assert mine.pipe != theirs.pipe
    assert len(_daemons(settings)) == 2
    assert [_can_enter(slot, uid) for slot in (mine, theirs) for uid in (UID, OTHER_UID)] == [True, False, False, True]
    assert Path(mine.path).stat().st_uid == 0


def test_users_may_share_a_server(settings: Mps) -> None:
    settings = replace(settings, users="multi")
    slot = mps.join(settings, 2, UID, 11, UUID)
    assert not _can_enter(slot, OTHER_UID)
    assert mps.join(settings, 2, OTHER_UID, 12, UUID) == slot
    assert json.loads((Path(slot.pipe) / "facts").read_text())[0] == ["-d", "-multiuser-server"]
    assert len(_daemons(settings)) == 1
    assert _can_enter(slot, OTHER_UID)
    mps.leave(settings, 11)
    assert not _can_enter(slot, UID)


def test_another_users_idle_daemon_gives_way(settings: Mps) -> None:
    settings = replace(settings, grace_s=600)
    old = mps.join(settings, 2, UID, 11, UUID)
    elsewhere = mps.join(settings, 3, UID, 12, UUID)
    mps.leave(settings, 11)
    mps.leave(settings, 12)
    mps.join(settings, 2, OTHER_UID, 13, UUID)
    assert len(_daemons(settings)) == 2  # the one of GPU 3 goes on
    assert not Path(old.path).exists()
    assert Path(elsewhere.path).exists()


def test_a_folder_that_stays_keeps_nobody_from_a_daemon(settings: Mps, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where what is mounted there cannot be unmounted."""

    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    mps.join(settings, 2, UID, 11, UUID)
    mps.leave(settings, 11)
    monkeypatch.setattr(os, "rmdir", busy)
    slot = mps.join(settings, 2, OTHER_UID, 12, UUID)
    assert mps_daemon.control(settings, slot, "get_server_list").ok
    assert len(_daemons(settings)) == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_daemon_that_died_or_hangs_is_replaced(settings: Mps, how: signal.Signals) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID)
    mps.join(settings, 3, UID, 12, UUID)
    [broken] = processes_with(f"CUDA_MPS_PIPE_DIRECTORY={slot.pipe}")
    [other] = set(_daemons(settings)) - {broken}
    os.kill(broken, how)
    mps.join(settings, 2, UID, 13, UUID)
    now = _daemons(settings)
    assert len(now) == 2
    assert broken not in now
    assert other in now
    assert mps_daemon.control(settings, slot, "get_server_list").ok


def test_a_daemon_that_is_slow_for_once_keeps_its_jobs(settings: Mps, monkeypatch: pytest.MonkeyPatch) -> None:
    mps.join(settings, 2, UID, 11, UUID)
    first, asked, through = _daemons(settings), list[str](), mps_daemon.control

    def slow(settings: Mps, slot: Slot, command: str) -> commands.Done:
        asked.append(command)
        return through(settings, slot, command) if len(asked) > 1 else commands.Done(None, "", "no answer within 1 s")

    monkeypatch.setattr(mps_daemon, "control", slow)
    mps.join(settings, 2, UID, 12, UUID)
    assert _daemons(settings) == first


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_daemon_of_jobs_that_run_is_started_anew(settings: Mps, how: signal.Signals) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID)
    mps.join(settings, 3, UID, 12, UUID)
    mps.revive(settings, pytest.fail)
    [broken] = processes_with(f"CUDA_MPS_PIPE_DIRECTORY={slot.pipe}")
    os.kill(broken, how)
    said: list[str] = []
    mps.revive(settings, said.append)
    assert said == ["job 11: its MPS daemon was gone and is started anew"]
    assert mps_daemon.control(settings, slot, "get_server_list").ok
    assert json.loads((Path(slot.pipe) / "facts").read_text())[1] == UUID
    assert broken not in _daemons(settings)
    assert len(_daemons(settings)) == 2


def test_idle_daemons_are_not_revived(settings: Mps) -> None:
    mps.join(settings, 2, UID, 11, UUID)
    mps.leave(settings, 11)
    os.kill(_daemons(settings)[0], signal.SIGKILL)
    _wait(lambda: not _daemons(settings))
    mps.revive(settings, pytest.fail)
    assert _daemons(settings) == []


def test_a_daemon_of_which_nothing_was_noted_is_left_to_prolog(settings: Mps) -> None:
    """As where Prolog was ended before it had one started: on which GPU it belongs is not known."""
    for gpu in (2, 3):
        mps.join(settings, gpu, UID, 10 + gpu, UUID)
    for daemon in _daemons(settings):
        os.kill(daemon, signal.SIGKILL)
    Path(mps_slots.slot_of(settings, 2, UID).facts).unlink()
    said: list[str] = []
    mps.revive(settings, said.append)
    assert said == ["job 13: its MPS daemon was gone and is started anew"]


def test_one_gpu_in_trouble_does_not_keep_another_from_its_daemon(
    settings: Mps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mps, "LOCK_TIMEOUT_S", 0.1)
    for gpu in (1, 2, 3, 4):
        mps.join(settings, gpu, UID, 10 + gpu, UUID)
    for daemon in _daemons(settings):
        os.kill(daemon, signal.SIGKILL)
    state.write(mps_slots.slot_of(settings, 3, UID).facts, {"visible": "broken"})
    through = state.write

    def write(path: str, data: object) -> None:
        if path.startswith(f"{settings.run_dir}/g1/"):
            raise OSError(errno.ENOSPC, "No space left on device")
        through(path, data)

    monkeypatch.setattr(state, "write", write)
    said: list[str] = []
    with state.locked(f"{settings.run_dir}/g4.lock", 1):
        mps.revive(settings, said.append)
    told = ["GPU 3: exit status 1: no such device", "locked by another process", "job 12: its MPS daemon was gone"]
    told.append("No space left on device")
    assert len(said) == len(told)
    assert all(any(text in line for line in said) for text in told)


def test_a_busy_gpu_does_not_keep_another_ones_idle_daemon(settings: Mps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps, "LOCK_TIMEOUT_S", 0.1)
    for gpu in (2, 3):
        mps.join(settings, gpu, UID, 11, UUID)
    mps.leave(settings, 11)
    for busy in (2, 3):
        with state.locked(f"{settings.run_dir}/g{busy}.lock", 1):
            mps.reap(settings, time.time() + 1)
        assert len(_daemons(settings)) == 3 - busy


def test_a_clock_that_was_set_back(settings: Mps) -> None:
    settings = replace(settings, grace_s=30)
    slot = mps.join(settings, 2, UID, 11, UUID)
    mps.leave(settings, 11)
    os.utime(slot.jobs, (2**32, 2**32))
    assert mps.reap(settings, time.time()) == 30


def test_who_waits_is_told_when_the_first_of_idle_daemons_is_due(settings: Mps) -> None:
    settings, now = replace(settings, grace_s=30), int(time.time())
    for gpu in (2, 3, 4):
        slot = mps.join(settings, gpu, UID, 11, UUID)
        mps.leave(settings, 11)
        os.utime(slot.jobs, (now - 5 * gpu, now - 5 * gpu))
    assert mps.reap(settings, now) == 10


def test_what_a_strict_umask_must_not_spoil(settings: Mps) -> None:
    before = os.umask(0o077)
    try:
        slot = mps.join(settings, 2, UID, 11, UUID)
    finally:
        assert os.umask(before) == 0o077
    assert Path(f"{slot.pipe}/facts").stat().st_mode & 0o777 == 0o644
    log = Path(f"{slot.log}/server.log").stat()
    assert (log.st_uid, log.st_mode & 0o777) == (UID, 0o600)


def _server(settings: Mps, slot: Slot, uid: int = UID) -> subprocess.Popen[bytes]:
    """A process that looks like a daemon's server; it runs as the slot's user."""
    path = Path(settings.control).parent / "nvidia-cuda-mps-server"
    if not path.exists():  # another server may be about to read it
        path.write_text("#!/bin/sh\nread _\n")
        path.chmod(0o755)
    env = {"CUDA_MPS_PIPE_DIRECTORY": slot.pipe}
    return subprocess.Popen([str(path)], env=env, user=uid, group=uid, stdin=subprocess.PIPE)


@pytest.mark.parametrize("others", [True, False])
def test_servers_go_with_their_daemon(settings: Mps, others: bool) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID)
    [daemon] = _daemons(settings)
    if not others:
        mps.leave(settings, 11)
    with _server(settings, slot) as server, _server(settings, slot, OTHER_UID) as anothers:
        _wait(lambda: len(_daemons(settings)) == 3)
        os.kill(daemon, signal.SIGKILL)
        mps.join(settings, 2, UID, 12, UUID)
        assert server.wait(10) == -signal.SIGKILL
        assert anothers.poll() is None


def test_another_users_server_that_hangs_in_its_memory_holds_nobody_up(
    settings: Mps, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID)
    mps.leave(settings, 11)
    with _server(settings, slot) as server:
        _wait(lambda: len(_daemons(settings)) == 2)
        read = pids._read

        def hangs(pid: int | str, name: str, size: int) -> bytes:
            if str(pid) == str(server.pid) and name != "comm":
                time.sleep(60)
            return read(pid, name, size)

        monkeypatch.setattr(pids, "_read", hangs)
        begin = time.monotonic()
        mps.join(settings, 2, OTHER_UID, 12, UUID)
        assert time.monotonic() - begin < 30
        assert server.poll() is None
        server.kill()


def _tell(slot: Slot, **servers: str) -> None:
    """Have the stand-in say that it has servers, with their status."""
    text = "".join(f"{pid.removeprefix('p')} {status}\n" for pid, status in servers.items())
    (Path(slot.pipe) / "servers").write_text(text)


def _asked(slot: Slot, verb: str) -> list[str]:
    return [line for line in (Path(slot.pipe) / "asked").read_text().splitlines() if verb in line]


def test_a_process_is_taken_off_the_gpu_of_its_job(settings: Mps) -> None:
    mine, other = mps.join(settings, 2, UID, 11, UUID), mps.join(settings, 3, UID, 12, UUID)
    _tell(mine, **{"901": "ACTIVE", "902": "ACTIVE"})
    _tell(other, **{"903": "ACTIVE"})
    assert mps.disconnect(settings, 11, 4711)
    assert not mps.disconnect(settings, 13, 4712)
    assert _asked(mine, "terminate_client") == ["terminate_client 901 4711", "terminate_client 902 4711"]
    assert _asked(other, "terminate_client") == []


@pytest.mark.parametrize("stuck", ["stopped", "FAULT"])
def test_a_server_that_takes_no_clients_is_replaced(settings: Mps, stuck: str) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID)
    with _server(settings, slot) as server:
        _wait(lambda: len(_daemons(settings)) == 2)
        _tell(slot, **{f"p{server.pid}": "ACTIVE", "words": "FAULT"})
        before = _daemons(settings)
        mps.join(settings, 2, UID, 12, UUID)
        mps.revive(settings, pytest.fail)
        assert _daemons(settings) == before
        if stuck == "stopped":
            server.send_signal(signal.SIGSTOP)
            _wait(lambda: ") T " in Path(f"/proc/{server.pid}/stat").read_text())
        else:
            _tell(slot, **{f"p{server.pid}": "FAULT"})
        mps.join(settings, 2, UID, 13, UUID)
        assert server.wait(10) == -signal.SIGKILL
        assert len(_daemons(settings)) == 1
        assert not set(_daemons(settings)) & set(before)
        assert slot.residents() == {11: UID, 12: UID, 13: UID}


def test_no_client_gets_more_than_the_largest_cap(settings: Mps) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID, 4000)
    _tell(slot, p4194000="ACTIVE")
    mps.join(settings, 2, UID, 12, UUID, 3000)
    mps.join(settings, 2, UID, 13, UUID, 9000)
    mps.leave(settings, 13)
    defaults, servers = _asked(slot, "set_default_device"), _asked(slot, "set_device")
    assert defaults == [f"set_default_device_pinned_mem_limit 0 {cap}M" for cap in (4000, 9000, 4000)]
    assert servers == [f"set_device_pinned_mem_limit 4194000 0 {cap}M" for cap in (9000, 4000)]
    mps.join(settings, 2, UID, 14, UUID)  # how much memory the GPU has was not known: it has no cap
    assert slot.notes() == {11: (UID, 4000), 12: (UID, 3000), 14: (UID, None)}
    assert _asked(slot, "set_default_device")[3:] == [f"set_default_device_pinned_mem_limit 0 {1 << 20}M"]
    mps.leave(settings, 14)
    mps.leave(settings, 11)
    before = _asked(slot, "set_")
    mps.leave(settings, 12)  # nobody is left to be bound
    assert _asked(slot, "set_") == before
    assert _asked(slot, "set_default_device")[-1].endswith(" 3000M")


@pytest.fixture
def mounts(settings: Mps, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for mount and umount, which note in a file how they were called; what is mounted has a mark."""
    folder, asked, marks = place / "sbin", place / "mounts", place / "marks"
    folder.mkdir()
    for name, command in (("mount", "mkdir -p"), ("umount", "rmdir")):
        lines = ("for last; do :; done", f'echo "{name} $*" >>{asked}', f'{command} "{marks}/$last"')
        (folder / name).write_text("\n".join(("#!/bin/sh", *lines, "")))
        (folder / name).chmod(0o755)
    monkeypatch.setattr(mps_daemon, "_PATH", {"PATH": f"{folder}:/usr/bin:/bin"})
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(f"{marks}/{path}").exists())
    return asked


def test_pipes_and_logs_fill_file_systems_of_their_own(settings: Mps, mounts: Path) -> None:
    settings = replace(settings, log_mib=4)
    slot = mps.join(settings, 2, UID, 11, UUID)
    assert mps_daemon.is_bounded(slot)
    large, small = Path(slot.server_log), Path(slot.log) / "control.log"
    large.write_bytes(b"x" * (1 << 21))
    small.write_text("small")
    mps.join(settings, 2, UID, 12, UUID)
    assert large.stat().st_size == 1 << 21
    os.kill(_daemons(settings)[0], signal.SIGKILL)
    mps.revive(settings, lambda _: None)
    assert (large.stat().st_size, small.read_text()) == (0, "small")
    options = "size=4m,nr_inodes=64,mode=0755,nosuid,nodev,noexec"
    os.kill(_daemons(settings)[0], signal.SIGKILL)
    mps.join(settings, 2, UID, 12, UUID)
    asked = [f"mount -t tmpfs -o {options} rad-mps {folder}" for folder in (slot.pipe, slot.log)]
    assert mounts.read_text().splitlines() == asked  # once, whatever became of the daemon
    for job in (11, 12):
        mps.leave(settings, job)
    mps.reap(settings, time.time() + 1)
    asked += [f"umount --lazy {folder}" for folder in (slot.pipe, slot.log)]
    assert mounts.read_text().splitlines() == asked
    assert not Path(slot.path).exists()


def test_a_daemon_whose_pipes_are_mounted_elsewhere_is_left_to_prolog(settings: Mps, mounts: Path) -> None:
    settings = replace(settings, log_mib=4)
    slot = mps.join(settings, 2, UID, 11, UUID)
    (mounts.parent / "marks" / slot.pipe.lstrip("/")).rmdir()  # as seen from another name space: an empty folder
    first = _daemons(settings)
    (Path(slot.pipe) / "control").unlink()
    mps.revive(settings, lambda _: None)
    assert _daemons(settings) == first


def test_a_job_that_would_not_see_the_mount_finds_the_pipes(settings: Mps, mounts: Path) -> None:
    slot = mps.join(replace(settings, log_mib=4), 2, UID, 11, UUID, hidden=lambda: True)
    assert [line.split()[-1] for line in mounts.read_text().splitlines()] == [slot.log]
    assert not mps_daemon.is_bounded(slot)
    assert mps_daemon.control(settings, slot, "get_server_list").ok


def test_where_nothing_can_be_mounted(settings: Mps, mounts: Path) -> None:
    (mounts.parent / "sbin" / "mount").write_text("#!/bin/sh\nexit 1\n")
    slot = mps.join(replace(settings, log_mib=4), 2, UID, 11, UUID)
    assert not mps_daemon.is_bounded(slot)
    assert mps_daemon.control(settings, slot, "get_server_list").ok


def test_what_epilog_reads_outlives_a_daemon_without_a_file_system_for_logs(settings: Mps) -> None:
    log = Path(mps.join(settings, 2, UID, 11, UUID).server_log)
    for size, left in (((1 << 18) + 1, 0), (1 << 18, 1 << 18)):
        log.write_bytes(b"x" * size)
        os.kill(_daemons(settings)[0], signal.SIGKILL)
        mps.revive(settings, lambda _: None)
        assert log.stat().st_size == left


def test_nobody_waits_for_a_user_who_holds_a_lease_on_the_log(settings: Mps) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID)
    log = Path(slot.server_log)
    log.write_bytes(b"x" * (1 << 20))
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # how the holder is asked to let go
    with log.open("rb") as held:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        with pytest.raises(BlockingIOError):
            os.open(log, os.O_WRONLY | os.O_NONBLOCK)
        os.kill(_daemons(settings)[0], signal.SIGKILL)
        mps.revive(settings, lambda _: None)
        assert os.fstat(held.fileno()).st_nlink == 0
    assert (log.stat().st_size, log.stat().st_uid) == (0, UID)
    with log.open("r+b") as held:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        held.write(b"x")
        held.flush()
        assert mps.server_log(settings, 11) == b""
    signal.signal(signal.SIGIO, before)
    assert mps.server_log(settings, 11) == b"x"
    assert mps_daemon.control(settings, slot, "get_server_list").ok


def test_a_new_daemon_is_told_the_cap_again(settings: Mps) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID, 4000)
    for _ in range(2):
        [daemon] = _daemons(settings)
        os.kill(daemon, signal.SIGKILL)
        mps.revive(settings, lambda _: None)
    assert _asked(slot, "set_default_device") == ["set_default_device_pinned_mem_limit 0 4000M"]


def test_whose_else_a_jobs_server_was(settings: Mps) -> None:
    assert mps.beside(settings, 11) == {}
    slot = mps.join(settings, 2, UID, 11, UUID)
    assert mps.beside(settings, 11) == {}
    for job in (12, 13):
        mps.join(settings, 2, UID, job, UUID)
    begin = time.time()
    mps.leave(settings, 12)
    found = mps.beside(settings, 11)
    assert begin <= found[12] <= time.time() and found[13] == math.inf and len(found) == 2
    # It comes again, under the same number.
    mps.join(settings, 2, UID, 12, UUID)
    assert mps.beside(settings, 11)[12] == math.inf
    mps.join(settings, 3, UID, 21, UUID)
    assert mps.beside(settings, 21) == {}
    lately = {str(job): time.time() - job for job in range(100, 180)}
    state.write(slot.left, {"14": time.time() - 700, "15": time.time() + 9e9, "x": 1.0, "16": "y", **lately})
    assert not {16, 21} & set(mps.beside(settings, 11))
    mps.leave(settings, 13)
    assert list(state.read(slot.left) or {}) == [*map(str, range(117, 180)), "13"]


def test_what_a_jobs_server_wrote(settings: Mps) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID)
    assert mps.server_log(settings, 11) == b""
    Path(slot.server_log).write_bytes(b"all")
    assert mps.server_log(settings, 11) == b"all"
    Path(slot.server_log).write_bytes(b"x" * (1 << 19) + b"end")
    assert mps.server_log(settings, 11)[-4:] == b"xend"
    assert len(mps.server_log(settings, 11)) == 1 << 18
    assert mps.server_log(settings, 12) == b""
    Path(slot.server_log).unlink()
    assert mps.server_log(settings, 11) == b""


def test_a_daemon_that_ignores_quit_is_killed(settings: Mps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps_daemon, "STOP_TIMEOUT_S", 0.2)
    mps.join(settings, 2, UID, 11, UUID)
    mps.leave(settings, 11)
    os.kill(_daemons(settings)[0], signal.SIGSTOP)
    mps.reap(settings, time.time() + 1)
    assert _daemons(settings) == []


def test_a_daemon_that_does_not_start(settings: Mps) -> None:
    with pytest.raises(mps_daemon.MpsError, match="GPU 2: exit status 1: no such device"):
        mps.join(settings, 2, UID, 11, "broken")
    assert mps_slots.slot_of(settings, 2, UID).residents() == {}


def test_a_daemon_that_starts_and_does_not_answer(settings: Mps, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps_daemon, "START_TIMEOUT_S", 0.2)
    (place / "mute").mkdir()
    os.mkfifo(place / "never")
    mute = place / "mute" / standins.CONTROL
    lines = (f"[ '$1' != stay ] || read _ <{place}/never", "[ '$1' = -d ] || exit 1", "'$0' stay >/dev/null 2>&1 &")
    mute.write_text("\n".join(("#!/bin/sh", *lines, "")).replace("'", '"'))
    mute.chmod(0o755)
    with pytest.raises(mps_daemon.MpsError, match="was started and does not answer"):
        mps.join(replace(settings, control=str(mute)), 2, UID, 11, UUID)
    assert _daemons(settings) == []


def test_no_control_program(settings: Mps) -> None:
    assert mps.available(settings)
    assert not mps.available(replace(settings, control="/nowhere/nvidia-cuda-mps-control"))


def test_a_busy_gpu_does_not_hold_up_another(settings: Mps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps, "LOCK_TIMEOUT_S", 0.1)
    mps.join(settings, 2, UID, 11, UUID)
    with state.locked(f"{settings.run_dir}/g2.lock", 1):
        with pytest.raises(state.StateError, match=r"g2\.lock: locked by another process"):
            mps.join(settings, 2, UID, 12, UUID)
        mps.join(settings, 3, UID, 13, UUID)


def test_what_else_lies_in_the_folder(settings: Mps) -> None:
    slot = mps.join(settings, 2, UID, 11, UUID)
    (Path(settings.run_dir) / "gpus.json").write_text("{}")
    for name in ("gx", "h3"):
        (Path(settings.run_dir) / name / "u1").mkdir(parents=True)
    (Path(slot.jobs) / "note").write_text("x")
    (Path(slot.jobs) / "12").write_text("x")
    assert mps_slots.slots(settings) == [slot]
    assert slot.residents() == {11: UID}
    half = Path(settings.run_dir) / "g5" / "u1"
    half.mkdir(parents=True)
    (half.parent / "a-file").touch()
    (half.parent / "another").touch()
    mps.reap(settings, time.time() + 1)  # a slot whose making was cut short
    assert not half.exists()
    assert (half.parent / "a-file").exists()


@pytest.mark.parametrize("part", [".", "g2", f"g2/u{UID}", f"g2/u{UID}/pipe", f"g2/u{UID}/log", f"g2/u{UID}/jobs"])
def test_a_folder_that_others_could_change_is_not_used(settings: Mps, part: str) -> None:
    path = Path(settings.run_dir) / part
    path.mkdir(parents=True)
    path.chmod(0o777)
    with pytest.raises(state.StateError, match="others can change it"):
        mps.join(settings, 2, UID, 11, UUID)
    assert _daemons(settings) == []


def test_a_file_system_without_access_lists(settings: Mps, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    slot = mps.join(settings, 2, UID, 11, UUID)
    assert _can_enter(slot, UID)


_RACE = """
import sys, time
from slurm_hooks.config import Mps
from slurm_hooks.node import mps, mps_daemon
settings = Mps(run_dir=sys.argv[1], control=sys.argv[2], grace_s=0, command_timeout_s=5, log_mib=0)
job = int(sys.argv[3])
sys.stdin.readline()
for _ in range(3):
    slot = mps.join(settings, 2, int(sys.argv[4]), job, "GPU-1")
    assert mps_daemon.control(settings, slot, "get_server_list").ok, "no daemon"
    assert job in slot.residents()
    mps.leave(settings, job)
    mps.reap(settings, time.time())
if sys.argv[5] == "stay":
    mps.join(settings, 2, int(sys.argv[4]), job, "GPU-1")
print("done")
"""


@pytest.mark.parametrize(("end", "left"), [("stay", 1), ("leave", 0)])
def test_ten_jobs_that_start_and_end_at_once(settings: Mps, end: str, left: int) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACE, settings.run_dir, settings.control, str(job), str(UID), end],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for job in range(10)
    ]
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=60)[0] for racer in racers]
    assert said == ["done\n"] * 10
    mps.reap(settings, time.time() + 1)
    assert len(_daemons(settings)) == left


def test_the_timers_unit_ends_no_daemon_that_it_started_anew_and_is_not_ended_early() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(ROOT / "etc" / "systemd" / "rad-spool.service")
    most = {field.name: field.metadata["high"] for part in (Node, Mps) for field in fields(part)}
    assert unit["Service"]["KillMode"] == "process"
    assert 60 * int(unit["Service"]["TimeoutStartSec"].removesuffix("min")) > most["send_for_s"] + most["grace_s"]
