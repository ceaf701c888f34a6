"""Whose a process is: Slurm's cgroups of both versions, the environment, and users who lie."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_hooks.monitor import processes as module
from slurm_hooks.monitor.processes import Processes, job_of_cgroup, job_of_environment

V1 = "9:name=systemd:/\n4:memory:/slurm/uid_1001/job_42/step_0/task_0\n0::/\n"
V2 = "0::/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0\n"


@pytest.mark.parametrize(
    ("text", "job"),
    [
        (V1, 42),
        (V2, 42),
        ("4:memory:/slurm_node0/uid_1001/job_43/step_batch\n", 43),
        ("0::/system.slice/node0_slurmstepd.scope/job_44\n", 44),
        ("0::/system.slice/slurmd.service\n", None),
        ("0::/user.slice/user-1001.slice/user@1001.service/slurmstepd.scope/job_42/step_0\n", None),
        ("0::/user.slice/x/system.slice/slurmstepd.scope/job_42\n", None),
        ("4:memory:/user/me/slurm/uid_1001/job_42/step_0\n", None),
        ("0::/system.slice/slurmstepd.scope/job_42x/step_0\n", None),
        ("0::/system.slice/slurmstepd.scope/job_99999999999/step_0\n", None),
        ("", None),
    ],
)
def test_cgroups(text: str, job: int | None) -> None:
    assert job_of_cgroup(text) == job


@pytest.mark.parametrize(
    ("data", "job"),
    [
        (b"A=1\0SLURM_JOB_ID=42\0B=2\0", 42),
        (b"SLURM_JOB_ID=42", 42),
        (b"MY_SLURM_JOB_ID=42\0", None),
        (b"SLURM_JOB_ID=42x\0", None),
        (b"SLURM_JOB_ID=\0", None),
        (b"\xff\xfe\0", None),
        (b"", None),
    ],
)
def test_environments(data: bytes, job: int | None) -> None:
    assert job_of_environment(data) == job


class FakeProc:
    """A folder that looks like /proc."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, pid: int, cgroup: str = "0::/\n", environ: bytes = b"", exe: str = "/usr/bin/python3") -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cgroup").write_text(cgroup)
        (folder / "environ").write_bytes(environ)
        (folder / "exe").unlink(missing_ok=True)
        (folder / "exe").symlink_to(exe)


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_the_cgroup_has_the_last_word(proc: FakeProc) -> None:
    proc.add(1, V2, b"SLURM_JOB_ID=7\0")
    proc.add(2, "0::/\n", b"SLURM_JOB_ID=7\0")
    asked: list[tuple[int, int]] = []

    def trusted(job: int, uid: int) -> bool:
        asked.append((job, uid))
        return job == 7

    processes = Processes(trusted, str(proc.root))
    assert processes.jobs([1, 2, 3]) == {1: 42, 2: 7}, "one that has ended since it was listed is no stranger"
    assert asked == [(7, os.geteuid())]


def test_an_environment_that_names_another_users_job_does_not_count(proc: FakeProc) -> None:
    proc.add(2, environ=b"SLURM_JOB_ID=7\0")
    assert Processes(lambda job, uid: False, str(proc.root)).jobs([2]) == {2: None}


def test_servers_of_mps_are_left_out_but_not_everything_that_is_called_so(proc: FakeProc, tmp_path: Path) -> None:
    server = tmp_path / "bin" / "nvidia-cuda-mps-server"
    server.parent.mkdir()
    server.write_text("")
    proc.add(1, exe=str(server))
    proc.add(2, V1, exe=str(server))
    processes = Processes(lambda job, uid: True, str(proc.root))
    assert processes.jobs([1, 2]) == {2: 42}
    os.chown(server, 40001, 40001)
    assert Processes(lambda job, uid: True, str(proc.root)).jobs([1]) == {1: None}


def test_answers_are_kept_for_a_while_and_nobodys_for_a_shorter_one(proc: FakeProc) -> None:
    proc.add(1, V1)
    proc.add(2)
    processes = Processes(lambda job, uid: True, str(proc.root))
    seen = []
    for look in range(40):
        if look == 1:
            proc.add(1, V1.replace("42", "43"))
            proc.add(2, V2)
        seen.append(processes.jobs([1, 2]))
    assert seen[1] == {1: 42, 2: None}
    assert seen[3] == {1: 42, 2: 42}
    assert seen[39] == {1: 43, 2: 42}
    assert processes.job(1) == 43
    processes.jobs([])
    proc.add(1, V2)
    assert processes.jobs([1]) == {1: 42}, "a number that was gone is looked at anew"


def test_many_that_hang_take_no_longer_than_one(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ENVIRONMENT_S", 0.5)
    for pid in range(1, 101):
        proc.add(pid)
        (proc.root / str(pid) / "environ").unlink()
        os.mkfifo(proc.root / str(pid) / "environ")
    proc.add(101, environ=b"SLURM_JOB_ID=7\0")
    processes = Processes(lambda job, uid: True, str(proc.root))
    begin = time.monotonic()
    assert processes.jobs(range(1, 102))[101] is None
    assert time.monotonic() - begin < 20
    assert len(processes._readers) == 1
    assert [processes.jobs([101])[101] for _ in range(3)][-1] == 7, "its turn comes"
    (proc.root / "1" / "environ").write_bytes(b"")  # it goes on


def test_a_process_that_hangs_holds_nobody_up(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_ENVIRONMENT_S", 0.05)
    proc.add(1)
    proc.add(2, V1)
    hanging = proc.root / "1" / "environ"
    hanging.unlink()
    os.mkfifo(hanging)  # who reads it waits for a writer
    processes = Processes(lambda job, uid: True, str(proc.root))
    seen: list[dict[int, int | None]] = []
    looks = threading.Thread(target=lambda: seen.extend(processes.jobs([1, 2]) for _ in range(9)), daemon=True)
    looks.start()
    looks.join(20)
    assert seen == [{1: None, 2: 42}] * 9
    assert caplog.text.count("process 1 hangs") == 1
    hanging.write_bytes(b"SLURM_JOB_ID=7\0")  # it goes on
    processes._readers[1].join(20)
    hanging.unlink()
    proc.add(1, environ=b"SLURM_JOB_ID=7\0")
    assert processes.jobs([1]) == {1: 7}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], env={"SLURM_JOB_ID": "4711"})
    yield process
    process.kill()
    process.wait()


def test_a_real_process(sleeper: subprocess.Popen[bytes]) -> None:
    processes = Processes(lambda job, uid: (job, uid) == (4711, os.geteuid()))
    # Between fork and exec the environment is still ours.
    while processes.job(sleeper.pid) != 4711:
        assert sleeper.poll() is None
    assert processes.jobs([sleeper.pid, 2**22 + 1]) == {sleeper.pid: 4711}
