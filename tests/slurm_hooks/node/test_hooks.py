"""Prolog, TaskProlog and Epilog as slurmd starts them: the shell scripts in etc/, with stand-ins for Slurm and MPS."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from scripts.devcluster.interpreter import closed, for_everybody
from slurm_hooks.config import Config, Node
from slurm_hooks.doctor.look import hooks as doctor_of_hooks
from slurm_hooks.monitor import counters
from slurm_hooks.monitor.counters import Account
from slurm_hooks.node import (
    background,
    commands,
    context,
    evidence,
    logs,
    main,
    mps,
    mps_daemon,
    mps_slots,
    sending,
    spool,
    state,
    task_prolog,
)
from slurm_hooks.node.asuser import as_user
from slurm_hooks.node.kept import Kept
from slurm_hooks.records import Record, Run, decode, merge
from tests.slurm_hooks.node import standins
from tests.slurm_hooks.node.conftest import OTHER_UID, UID, FakeSlurm, end_row, kill_all, log_row, processes_with, shown

ROOT = Path(__file__).parents[3]
OOM = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)
FAULT = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
LOST = "RuntimeError: CUDA error: MPS server is not ready to accept new MPS client requests\n"
RECORD = Record(action="share", asked="gpu:1", share=30, upper_mib=23000)


class Site:
    """A node with hooks, on which a job of a user is to run."""

    def __init__(self, place: Path, home: Path, programs: Path, slurm: FakeSlurm, code: Path) -> None:
        self.place, self.home, self.slurm, self.python = place, home, slurm, for_everybody(Path(sys.executable)).python
        self.etc = place / "etc"
        self.etc.mkdir()
        for name in ("prolog.sh", "task_prolog.sh", "epilog.sh"):
            (self.etc / name).write_text(f"#!/bin/sh\n{self._exports(programs)}exec {code}/etc/{name}\n")
            (self.etc / name).chmod(0o755)
        self.settings: dict[str, dict[str, Any]] = {
            "mps": {
                "run_dir": f"{place}/mps",
                "control": "/nowhere/mps",
                "nvidia_smi": "/nowhere/smi",
                "grace_s": 0.0,
                "log_mib": 0,
            },
            "node": {
                "state_dir": f"{place}/jobs",
                "spool_dir": f"{place}/spool",
                "log": f"{place}/log/node.log",
                "send_for_s": 0.0,
            },
            "partitions.gpu": {"gpu_memory_mib": 81920},
        }
        self.write()

    def _exports(self, programs: Path) -> str:
        said = " ".join(f"{name}={value}" for name, value in self.rad_env.items())
        return f"export {said} RAD_PYTHON={self.python} RAD_PATH={programs}:/usr/bin:/bin\n"

    @property
    def rad_env(self) -> dict[str, str]:
        """Where the hooks find the configuration, and what the node keeps of it."""
        return {"RAD_CONFIG": f"{self.place}/rad.toml", "RAD_KEPT": f"{self.place}/kept"}

    def write(self) -> None:
        """Write rad.toml."""
        lines: list[str] = []
        for section, values in self.settings.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        (self.place / "rad.toml").write_text("\n".join(lines) + "\n")

    def env(self, **more: str) -> dict[str, str]:
        """What slurmd puts into a hook's environment."""
        return {
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_UID": str(UID),
            "SLURM_JOB_GID": str(UID),
            "SLURM_JOB_USER": "",
            "SLURM_JOB_PARTITION": "gpu",
            "SLURMD_NODENAME": "node0",
            "SLURM_JOB_GPUS": "2",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
            "SLURM_JOB_WORK_DIR": str(self.home),
            "SLURM_JOB_RESTART_COUNT": "0",
            "RAD_STANDIN": str(self.slurm.folder),
            **more,
        }

    def run(self, hook: str, **more: str) -> None:
        """Run a hook within this process."""
        module: Any = importlib.import_module(f"slurm_hooks.node.{hook}")
        module.hook({**self.env(**more), **self.rad_env})

    def start(self, hook: str, **more: str) -> str:
        """Start a hook as slurmd does; what it printed."""
        done = subprocess.run(
            [str(self.etc / f"{hook}.sh")], env=self.env(**more), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0
        assert done.stderr == ""
        return done.stdout

    def task(self, more: Mapping[str, str] = MappingProxyType({}), uid: int = UID) -> list[str]:
        """Start a TaskProlog, as a user; the lines that it printed."""
        done = subprocess.run(
            [str(self.etc / "task_prolog.sh")],
            env=self.env(**more),
            capture_output=True,
            text=True,
            check=False,
            user=uid,
            group=uid,
            extra_groups=[],
            cwd="/",
        )
        assert done.returncode == 0
        return done.stdout.splitlines()

    @property
    def said(self) -> str:
        """The node's log."""
        log = self.place / "log" / "node.log"
        return log.read_text() if log.exists() else ""

    def waiting(self) -> dict[str, Run]:
        """Outcomes that wait for slurmdbd."""
        config = context.load("test", self.rad_env)
        return {Path(item.path).name: item.run for item in spool.items(config.node)}

    def notes(self) -> list[str]:
        """Notes of jobs."""
        return sorted(path.name for path in (self.place / "jobs").glob("[0-9]*"))

    def log(self, text: str, name: str = "slurm-7.out") -> Path:
        """Let the job write to a log."""
        path = self.home / name
        new = not path.exists()
        with path.open("a") as file:
            file.write(text)
        if new:
            os.chown(path, UID, UID)
        return path


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    """The code, where users can read it: TaskProlog runs as one."""
    if closed(ROOT) is None:
        yield ROOT
        return
    folder = Path(tempfile.mkdtemp(prefix="rad-code-"))
    folder.chmod(0o755)
    for name in ("slurm_hooks", "estimator", "etc"):
        shutil.copytree(ROOT / name, folder / name)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def site(
    place: Path, home: Path, programs: Path, slurm: FakeSlurm, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    # A hook within this process leaves nothing behind; those that are started do.
    monkeypatch.setattr(background, "detach", lambda _: None)
    made = Site(place, home, programs, slurm, checkout)
    for name, value in made.rad_env.items():
        monkeypatch.setenv(name, value)
    yield made
    kill_all(str(place))


@pytest.fixture
def mps_site(site: Site, programs: Path) -> Site:
    """A node with (stand-ins of) NVIDIA's tools."""
    smi = programs / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '2, GPU-11111111-2222-3333-4444-555555555555, 143771'\n")
    smi.chmod(0o755)
    site.settings["mps"].update(control=str(programs / standins.CONTROL), nvidia_smi=str(smi))
    site.write()
    return site


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _oom_job(site: Site, **told: str) -> None:
    values = {"AdminComment": merge("JS1:H4sI", RECORD), "TresPerNode": "gres:mps:g2:30", **told}
    site.slurm.job(7, shown(7, **values))


# A node without NVIDIA's tools


def test_a_node_without_nvidia_says_so_once(site: Site) -> None:
    for job in ("7", "8"):
        site.start("prolog", SLURM_JOB_ID=job)
    [said] = site.said.splitlines()
    assert "/nowhere/mps is not on this node" in said
    assert site.task() == []
    assert site.notes() == ["7.json", "7.task.json", "8.json", "8.task.json"]
    assert not (site.place / "mps").exists()


def test_a_run_that_ended_well_costs_the_controller_nothing(site: Site) -> None:
    site.run("prolog")
    site.run("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    [(name, run)] = site.waiting().items()
    assert name == "7-0.json"
    assert (run.outcome, run.exit_code, run.share, run.node, run.restart) == ("completed", 0, 30, "node0", 0)
    assert run.start is not None
    assert run.end is not None
    assert site.notes() == []
    assert site.slurm.calls() == []


def test_the_record_goes_to_slurmdbd_behind_the_epilogs_back(site: Site) -> None:
    site.settings["node"]["send_for_s"] = 30.0
    site.write()
    site.start("prolog")
    site.slurm.rows(f"7|7|RUNNING|{int(time.time()) - 1}|Unknown|{merge('', RECORD)}")
    begin = time.monotonic()
    site.start("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    assert time.monotonic() - begin < 10
    _wait(lambda: bool(site.slurm.calls("sacct")))
    site.slurm.rows(f"7|7|COMPLETED|{int(time.time()) - 1}|{int(time.time())}|{merge('', RECORD)}")
    _wait(lambda: not site.waiting())
    record = decode(site.slurm.comment())
    assert record is not None
    assert [run.outcome for run in record.runs] == ["completed"]


@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_JOB_GPUS": ""},
        {"SLURM_JOB_PARTITION": "plain", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": ""},
        {"SLURM_JOB_ID": "x"},
    ],
)
def test_jobs_that_are_none_of_our_business(site: Site, changes: dict[str, str]) -> None:
    for hook in ("prolog", "epilog"):
        site.start(hook, **changes)
    assert not (site.place / "jobs").exists()
    assert not (site.place / "spool").exists()
    assert site.slurm.calls() == []


def test_steps_start_though_users_cannot_read_the_configuration(site: Site) -> None:
    (site.place / "rad.toml").chmod(0o600)
    lines = site.task({"RAD_SHARE": "30", "SLURM_GPUS_PER_TASK": "1"})
    assert "unset SLURM_GPUS_PER_TASK" in lines


# Recovery


def test_a_job_out_of_memory_is_requeued_with_more(site: Site) -> None:
    log = site.log("an older job: " + OOM)
    site.start("prolog")
    site.log(OOM)
    _oom_job(site)
    site.start("epilog", SLURM_JOB_EXIT_CODE2="1:0", SLURM_JOB_STDOUT="slurm-%j.out")
    [_, update] = [call for call in site.slurm.calls("scontrol") if call[1] in ("requeue", "update")]
    assert update[2:4] == ["jobid=7", "gres=mps:g2:45"]
    record = decode(update[4])
    assert record is not None
    assert update[4].startswith("admincomment=JS1:H4sI RAD1:")
    assert (record.share, record.retries, [run.outcome for run in record.runs]) == (45, 1, ["oom_requeued"])
    assert record.runs[0].evidence.startswith("torch.OutOfMemoryError: CUDA out of memory")
    order = [call[1] for call in site.slurm.calls("scontrol")]
    assert order == ["requeue", "show", "update"]  # never held: nobody would release it if this node died now
    assert log.read_text().splitlines()[-1] == (
        "rad: job 7 ran out of GPU memory (30 of 100 shares); requeued with 45 shares, 35942 MiB"
    )
    assert site.waiting()["7-0.json"].outcome == "oom_requeued"
    assert not list((site.place / "spool").glob("*.requeue.json"))


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("nothing\n", "1:0", {}),
        (OOM, "0:0", {}),  # printed it and ended well
        (OOM, "0:9", {"ExitCode": "0:9"}),
        (OOM, "0:9", {"ExitCode": "1:0"}),  # what Slurm tells Epilog counts
        (OOM, "0:0", {"ExitCode": "1:0"}),
        (OOM, "", {"ExitCode": "0:0"}),  # where it tells Epilog nothing, what it shows
        (OOM, "", {"ExitCode": "0:9"}),
        (OOM, "1:0", {"Reason": "TimeLimit"}),
        (OOM, "1:0", {"AdminComment": ""}),
        (OOM, "1:0", {"AdminComment": merge("", dataclasses.replace(RECORD, action="left_alone"))}),
        (OOM, "1:0", {"AdminComment": "", "JobName": "x AdminComment=" + merge("", RECORD)}),
        (OOM, "1:0", {"Restarts": "1"}),  # somebody else requeues it
    ],
)
def test_other_failures_are_never_requeued(site: Site, text: str, code: str, told: dict[str, str]) -> None:
    site.run("prolog")
    log = site.log(text)
    _oom_job(site, **told)
    site.run("epilog", SLURM_JOB_EXIT_CODE2=code)
    assert site.slurm.calls("requeue") == []
    assert log.read_text() == text
    assert "not recovered" not in site.said
    assert site.waiting()["7-0.json"].outcome == ("completed" if (code or told["ExitCode"]) == "0:0" else "failed")


def test_an_old_error_in_the_log_is_not_this_runs(site: Site) -> None:
    site.log(OOM)
    _oom_job(site, Restarts="1")
    site.run("prolog", SLURM_JOB_RESTART_COUNT="1")
    site.log("KeyError\n")
    site.run("epilog", SLURM_JOB_RESTART_COUNT="1", SLURM_JOB_EXIT_CODE2="1:0")
    assert site.slurm.calls("requeue") == []


def test_an_old_error_in_a_log_that_could_not_be_looked_at_in_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"SLURM_JOB_STDOUT": "train.log"}
    site.log(OOM, "train.log")  # of an earlier job: sbatch adds to it with JobFileAppend=1
    _oom_job(site)
    with monkeypatch.context() as patch:
        patch.setattr(logs, "as_user", lambda *_: None)  # as where a home folder takes seconds to be mounted
        site.run("prolog", **names)
    site.log("Segmentation fault\n", "train.log")
    site.run("epilog", SLURM_JOB_EXIT_CODE2="139:0", **names)
    assert site.slurm.calls("requeue") == []
    assert site.waiting()["7-0.json"].evidence == ""
    assert "how its logs end is not known" in site.said


def test_whatever_slurmds_umask_only_root_writes_to_the_log(place: Path) -> None:
    before = os.umask(0)
    try:
        context.speaker(Config(node=Node(log=f"{place}/log/node.log")), "prolog")("there")
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (place / "log", place / "log" / "node.log")]
    assert modes == [0o755, 0o644]


def test_few_looks_hang_in_a_users_file_system(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, left = list[int](), site.home / "left"

    def work() -> bytes:
        if child := os.fork():  # which stays, as one in a file system that does not answer
            left.write_text(str(child))
        time.sleep(60)
        return b""

    def hangs(user: str, uid: int, gid: int, *_: Any) -> bytes | None:
        looks.append(uid)
        return as_user(user, uid, gid, work, 3) if uid == UID else None

    monkeypatch.setattr(logs, "as_user", hangs)
    monkeypatch.setattr(context, "_OTHERS_LOOK_S", 0.1)
    _oom_job(site)
    try:
        site.run("prolog")
        site.run("prolog", SLURM_JOB_ID="23")
        site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
        site.run("prolog", SLURM_JOB_UID=str(OTHER_UID))
    finally:
        _ended(int(left.read_text()))
    assert looks == [UID, OTHER_UID]
    assert "its user's files are not looked at: " in site.said
    assert site.waiting()["7-0.json"].outcome == "failed"
    site.run("prolog")
    assert looks == [UID, OTHER_UID, UID]
    _ended(int(left.read_text()))


def test_no_room_for_a_lock_costs_a_run_only_what_its_logs_say(site: Site) -> None:
    (site.place / "jobs" / f".user-{UID}-7").mkdir(parents=True)  # no file can be made there
    _oom_job(site)
    site.run("prolog")
    assert site.notes() == ["7.json", "7.task.json"]
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert site.waiting()["7-0.json"].outcome == "failed"
    assert site.notes() == []
    assert site.said.count("its user's files are not looked at: ") == 2


def _ended(process: int) -> None:
    """End a process that is no child of ours, and wait until it has given back what it held."""
    stat = Path(f"/proc/{process}/stat")
    os.kill(process, signal.SIGKILL)
    while True:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.01)


@pytest.mark.parametrize(("log", "requeues"), [("slurm-7.out", 1), ("slurm-4_2.out", 0)])
def test_a_restarted_run_whose_log_was_not_known_for_sure(site: Site, log: str, requeues: int) -> None:
    site.slurm.trouble("show", 1, "Unable to contact slurm controller\n")
    site.run("prolog", SLURM_JOB_RESTART_COUNT="1")
    assert "its logs are not known for sure: exit status 1: Unable to contact" in site.said
    assert site.notes() == ["7.json", "7.task.json"]
    site.slurm.well("show")
    site.log(OOM, log)
    _oom_job(site, Restarts="1", **({} if requeues else {"ArrayJobId": "4", "ArrayTaskId": "2"}))
    site.run("epilog", SLURM_JOB_RESTART_COUNT="1", SLURM_JOB_EXIT_CODE2="1:0")
    assert len(site.slurm.calls("requeue")) == requeues
    assert site.waiting()["7-1.json"].outcome == ("oom_requeued" if requeues else "failed")


def test_the_log_of_a_job_with_a_name(site: Site) -> None:
    _oom_job(site, JobName="my job")
    names = {"SLURM_JOB_STDOUT": "%x.out", "SLURM_JOB_STDERR": "%x.err"}
    site.log("old: " + OOM, "my job.err")
    site.run("prolog", **names)
    out = site.log("epoch 1\n", "my job.out")
    site.log(OOM, "my job.err")
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0", **names)
    assert len(site.slurm.calls("requeue")) == 1
    assert out.read_text().splitlines()[-1].startswith("rad: job 7 ran out")


COMMON = {"SLURM_JOB_STDOUT": "train.log"}


def _end(site: Site, job: str, **more: str) -> None:
    """Let a job that shares fail while an error stands in its log; RAD requeued it if it is believed."""
    values = {"AdminComment": merge("", RECORD), "TresPerNode": "gres:mps:g2:30"}
    site.slurm.job(int(job), shown(int(job), **values))
    site.run("epilog", SLURM_JOB_ID=job, SLURM_JOB_EXIT_CODE2="1:0", **{**COMMON, **more})


def test_an_error_in_a_log_that_only_this_job_writes_to(site: Site) -> None:
    site.run("prolog", SLURM_JOB_ID="8", SLURM_JOB_UID=str(OTHER_UID), **COMMON)
    site.run("prolog", SLURM_JOB_ID="9", SLURM_JOB_STDOUT="other.log")
    (site.place / "jobs" / "6.json").touch()  # as one that goes while it is read
    (site.place / "jobs" / "7.shared.json").write_text('{"with": 9}')  # of an earlier run whose Epilog never came
    site.run("prolog", **COMMON)
    assert "Error" not in site.said
    site.log(OOM, "train.log")
    _end(site, "7")
    assert len(site.slurm.calls("requeue")) == 1


@pytest.mark.parametrize(
    ("jobs", "text"), [(("7", "8"), OOM), (("8", "7"), OOM), (("7", "8"), LOST), (("7", "8"), FAULT)]
)
def test_an_error_in_a_log_that_another_job_of_the_node_wrote_to(site: Site, jobs: tuple[str, ...], text: str) -> None:
    for job in jobs:
        site.run("prolog", SLURM_JOB_ID=job, SLURM_JOB_STDOUT="./train.log" if job == "8" else "train.log")
    site.run("epilog", SLURM_JOB_ID="8", SLURM_JOB_EXIT_CODE2="0:0")
    log = site.log(text, "train.log")
    _end(site, "7")
    assert site.slurm.calls("requeue") == []
    assert "rad: job 7 failed and is not tried again: job 8 wrote to its log too" in log.read_text()
    assert site.notes() == []
    run = site.waiting()["7-0.json"]
    assert (run.outcome, run.evidence) == ("failed", "")


def test_a_log_without_such_an_error_is_nobodys_doubt(site: Site) -> None:
    site.run("prolog", **COMMON)
    site.run("prolog", SLURM_JOB_ID="8", **COMMON)
    log = site.log("KeyError: 'x'\n", "train.log")
    _end(site, "7")
    assert log.read_text() == "KeyError: 'x'\n"
    assert site.waiting()["7-0.json"].outcome == "failed"


def test_the_other_job_is_called_as_its_user_calls_it(site: Site) -> None:
    site.slurm.job(8, shown(8, ArrayJobId="6", ArrayTaskId="2"))
    site.run("prolog", SLURM_JOB_ID="8", **COMMON)
    site.run("prolog", **COMMON)
    log = site.log(OOM, "train.log")
    _end(site, "7")
    assert "rad: job 7 failed and is not tried again: job 6_2 wrote to its log too" in log.read_text()


def test_jobs_that_wrote_to_a_log_one_after_another(site: Site) -> None:
    site.run("prolog", SLURM_JOB_ID="8", **COMMON)
    site.run("epilog", SLURM_JOB_ID="8", SLURM_JOB_EXIT_CODE2="0:0")
    site.run("prolog", **COMMON)
    site.log(OOM, "train.log")
    _end(site, "7")
    assert len(site.slurm.calls("requeue")) == 1


@pytest.mark.parametrize(("end", "requeues"), [("2000000000", 0), ("N/A", 0), ("1000", 1)])
def test_an_error_in_a_log_that_a_job_of_another_node_writes_to(site: Site, end: str, requeues: int) -> None:
    site.run("prolog", **COMMON)
    site.log(OOM, "train.log")
    (site.slurm.folder / "answer-squeue").write_text(f"{end_row(12, end)}\n")
    (site.slurm.folder / "job-12").write_text(f"{log_row(12, end, f'{site.home}/train.log')}\n")
    _end(site, "7")
    assert len(site.slurm.calls("requeue")) == requeues


def test_who_writes_to_a_log_is_not_known(site: Site) -> None:
    site.run("prolog", **COMMON)
    log = site.log(OOM, "train.log")
    site.slurm.trouble("squeue", 1, "Unable to contact slurm controller\n")
    _end(site, "7")
    assert site.slurm.calls("requeue") == []
    assert "perhaps another job wrote to its log too" in log.read_text()
    assert "who else writes to its logs is not known: exit status 1: Unable to contact" in site.said


def test_nobody_is_asked_who_writes_to_logs_of_its_own(site: Site) -> None:
    site.run("prolog")
    site.log(OOM)
    _end(site, "7", SLURM_JOB_STDOUT="")
    assert len(site.slurm.calls("requeue")) == 1
    assert [call for call in site.slurm.calls("squeue") if "-j" not in call] == []


def test_an_error_in_a_log_of_its_own_beside_a_common_one(site: Site) -> None:
    names = {"SLURM_JOB_STDOUT": "%j.out", "SLURM_JOB_STDERR": "train.log"}
    site.run("prolog", **names)
    site.run("prolog", SLURM_JOB_ID="8", **COMMON)
    site.log(OOM, "7.out")
    site.log(OOM, "train.log")
    _end(site, "7", **names)
    assert len(site.slurm.calls("requeue")) == 1


def test_the_last_task_of_an_array_is_requeued_alone(site: Site) -> None:
    _oom_job(site, ArrayJobId="7", ArrayTaskId="3")
    site.run("prolog")
    log = site.log(OOM, "slurm-7_3.out")
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert site.slurm.calls("requeue") == [["scontrol", "requeue", "7_3"]]
    assert "rad: job 7_3 ran out" in log.read_text()


def test_a_job_that_lost_its_mps_server_is_requeued_as_it_was(site: Site) -> None:
    _oom_job(site)
    site.run("prolog")
    log = site.log(LOST)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    [update] = site.slurm.calls("update")
    assert update[3] == "gres=mps:g2:30"
    record = decode(update[4])
    assert record is not None
    assert (record.retries, [run.outcome for run in record.runs]) == (0, ["mps_victim"])
    assert record.runs[0].evidence == LOST.strip()
    assert "through no fault of its own; requeued as it was" in log.read_text()


@pytest.mark.parametrize(
    ("broken", "beside"),
    [
        (2, "there"),
        (2, "left"),
        (2, "left as it came"),
        (2, "left before"),
        (2, "nobody"),
        (2, "before this run"),
        (1, "there"),
    ],
)
def test_a_job_broken_together_with_others_gets_the_gpu_alone(mps_site: Site, broken: int, beside: str) -> None:
    _oom_job(mps_site)
    settings = _config(mps_site).mps
    if beside != "nobody":
        mps.join(settings, 2, UID, 8, "2")
    mps_site.run("prolog")
    two_days = 172_800 if beside == "before this run" else 0
    # before the other leaves, whatever the second
    now = int(time.time()) - two_days
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    if beside.startswith("left"):
        mps.leave(settings, 8)
    if beside in ("left as it came", "left before"):
        state.write(
            mps_slots.slot_of(settings, 2, UID).left, {"8": float(now if beside == "left as it came" else now - 30)}
        )
    log = mps_site.log(FAULT)
    lines = ["Server is handling a fatal GPU error.", "The following client process have a sticky error set:"]
    lines += [str(472 + n) for n in range(broken)]
    [server_log] = mps_site.place.glob("mps/g2/*/log/server.log")
    server_log.write_text("".join(f"[{at}.237 Server   513] {line}\n" for line in lines))
    mps_site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    updates = mps_site.slurm.calls("update")
    if broken == 1 or beside not in ("there", "left", "left as it came"):  # nobody else's can have been the fault
        assert (updates, "not recovered" in mps_site.said) == ([], False)
        assert mps_site.waiting()["7-0.json"].outcome == "failed"
        return
    [update] = updates
    assert update[3] == "gres=mps:g2:100"
    record = decode(update[4])
    assert record is not None
    assert (record.retries, record.first_share, [run.outcome for run in record.runs]) == (0, 30, ["mps_suspect"])
    assert "illegal memory access" in record.runs[0].evidence
    assert "requeued with the whole GPU" in log.read_text()


@pytest.mark.parametrize(
    ("beside", "noted", "code", "told"),
    [
        (True, True, "1:0", {}),
        (True, True, "0:6", {"ExitCode": "6", "Reason": "RaisedSignal:6(Aborted)"}),  # as a C++ program ends
        (True, True, "", {"ExitCode": "256"}),  # Slurm does not tell Epilog
        (True, False, "1:0", {}),  # when it began is not known
        (False, True, "1:0", {}),
    ],
)
def test_a_job_broken_as_a_cancelled_one_left_its_kernels_runs_again_as_it_was(
    mps_site: Site, beside: bool, noted: bool, code: str, told: dict[str, str]
) -> None:
    _oom_job(mps_site, **told)
    settings = _config(mps_site).mps
    if beside:
        mps.join(settings, 2, UID, 8, "2")
    mps_site.run("prolog")
    if not noted:
        (mps_site.place / "jobs" / "7.json").unlink()
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
    log = mps_site.log(FAULT)
    lines = ["Client {PID: 470, Context ID: 1} exiting. Number of active client contexts is 1."]
    lines += ["Server is handling a fatal GPU error.", "The following client process have a sticky error set:", "472"]
    [server_log] = mps_site.place.glob("mps/g2/*/log/server.log")
    server_log.write_text("".join(f"[{at}.237 Server   513] {line}\n" for line in lines))
    mps.leave(settings, 8)
    mps_site.run("epilog", SLURM_JOB_EXIT_CODE2=code)
    if not beside:  # it was a process of its own that ended
        assert mps_site.waiting()["7-0.json"].outcome == "failed"
        return
    [update] = mps_site.slurm.calls("update")
    assert update[3] == "gres=mps:g2:30"
    record = decode(update[4])
    assert record is not None
    assert [run.outcome for run in record.runs] == ["mps_victim"]
    assert "ended with kernels running, through no fault of its own; requeued as it was" in log.read_text()


@pytest.mark.parametrize(("version", "gres"), [("slurm 23.11.4", "gpu:2g.35gb:1"), ("slurm-wlm 23.02.7", None)])
def test_a_job_out_of_its_instances_memory_moves_to_a_larger_one_where_slurm_can(
    site: Site, version: str, gres: str | None
) -> None:
    record = Record(action="share", asked="gpu:1", profile="1g.18gb", larger=("2g.35gb", "7g.141gb"))
    _oom_job(site, AdminComment=merge("", record), TresPerNode="gres:gpu:1g.18gb:1")
    (site.slurm.folder / "answer-sacctmgr").write_text(f"{version}\n")
    whole = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": ""}
    site.run("prolog", **whole)
    log = site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0", **whole)
    assert [call[3] for call in site.slurm.calls("update")] == ([f"gres={gres}"] if gres else [])
    assert ("requeued with 2g.35gb" if gres else "may not be requeued; ask for more") in log.read_text()
    assert site.waiting()["7-0.json"].outcome == ("oom_requeued" if gres else "oom_told")


def test_whether_slurm_can_move_a_job_is_asked_only_where_it_is_to_be_moved(site: Site) -> None:
    record = Record(action="share", asked="gpu:1", profile="1g.18gb", larger=("2g.35gb", "7g.141gb"))
    _oom_job(site, AdminComment=merge("", record), TresPerNode="gres:gpu:1g.18gb:1")
    site.run("prolog")
    site.log("KeyError: 'x'\n")
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert site.waiting()["7-0.json"].outcome == "failed"
    assert site.slurm.calls("sacctmgr") == []


def test_a_larger_share_is_one_of_the_memory_that_the_node_has(mps_site: Site) -> None:
    mps_site.settings["partitions.gpu"] = {"gpu_memory_mib": 0}
    mps_site.write()
    _oom_job(mps_site)
    mps_site.run("prolog")
    log = mps_site.log(OOM)
    mps_site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert "requeued with 45 shares, 63775 MiB" in log.read_text()
    assert log.read_text().splitlines()[-1] in mps_site.said  # the admin is told too


@pytest.mark.parametrize("gres", ["gres:gpu:1", "gres:gpu:h200:1", "gres:mps:30"])
def test_a_request_that_names_no_instance_any_more_is_not_changed(site: Site, gres: str) -> None:
    record = Record(action="share", asked="gpu:1", profile="1g.18gb", larger=("2g.35gb", "7g.141gb"))
    _oom_job(site, AdminComment=merge("", record), TresPerNode=gres)
    (site.slurm.folder / "answer-sacctmgr").write_text("slurm 23.11.4\n")
    site.run("prolog")
    log = site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert site.slurm.calls("requeue") == []
    assert "may not be requeued; ask for more: #RAD memory=" in log.read_text()
    assert site.waiting()["7-0.json"].outcome == "oom_told"


@pytest.mark.parametrize("told", [{"Requeue": "0"}, {"BatchFlag": "0"}])
def test_no_requeue_is_told_what_to_ask_for(site: Site, told: dict[str, str]) -> None:
    _oom_job(site, **told)
    site.run("prolog")
    log = site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert site.slurm.calls("requeue") == []
    assert "may not be requeued; ask for more: #RAD memory=36G" in log.read_text()
    assert site.waiting()["7-0.json"].outcome == "oom_told"


def test_a_request_without_shares_is_not_changed(site: Site) -> None:
    _oom_job(site, TresPerNode="gres:gpu:1")
    site.run("prolog")
    log = site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert site.slurm.calls("requeue") == []
    assert "it had a whole GPU and is not tried again" in log.read_text()
    assert site.waiting()["7-0.json"].outcome == "oom_final"


def test_slurm_refuses_to_requeue(site: Site) -> None:
    site.slurm.trouble("requeue", 1, "Requested operation is presently disabled\n")
    _oom_job(site)
    site.run("prolog")
    log = site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert log.read_text().splitlines()[-1] == (
        "rad: job 7 ran out of GPU memory (30 of 100 shares); Slurm refused to requeue it: "
        "exit status 1: Requested operation is presently disabled"
    )
    assert site.slurm.calls("update") == []
    assert not list((site.place / "spool").glob("*.requeue.json"))


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("requeue", "whether it was requeued is looked at later: "),
        ("update", "it is requeued, and gets its new request later: "),
    ],
)
def test_a_controller_that_hangs_leaves_the_rest_for_later(site: Site, verb: str, words: str) -> None:
    site.settings["node"]["command_timeout_s"] = 1.0
    site.write()
    site.slurm.trouble(verb, "hang")
    _oom_job(site)
    site.start("prolog")
    site.log(OOM)
    begin = time.monotonic()
    site.start("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert time.monotonic() - begin < 10
    assert f"{words}scontrol: no answer within 1 s" in site.said
    assert [path.name for path in (site.place / "spool").glob("*.requeue.json")] == ["7-0.requeue.json"]


@pytest.mark.parametrize("refusals", [0, 1])
def test_a_controller_that_is_busy_for_a_while(site: Site, monkeypatch: pytest.MonkeyPatch, refusals: int) -> None:
    _oom_job(site)
    site.run("prolog")
    site.log(OOM)
    asked: list[float] = []
    through = commands.show_job

    def busy(job: int, timeout_s: float) -> tuple[commands.ShownJob | None, str]:
        asked.append(timeout_s)
        return through(job, timeout_s) if len(asked) > refusals else (None, "squeue: no answer within 3 s")

    monkeypatch.setattr(commands, "show_job", busy)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert asked == [_config(site).node.command_timeout_s, 12][: refusals + 1]
    assert len(site.slurm.calls("requeue")) == 1


@pytest.mark.parametrize(("told", "code"), [("1:0", 1), ("0:9", 137), ("", None)])
def test_a_controller_that_is_away(site: Site, told: str, code: int | None) -> None:
    site.slurm.trouble("show", 1, "Unable to contact slurm controller\n")
    site.run("prolog")
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2=told)
    assert "not recovered: exit status 1: Unable to contact" in site.said
    run = site.waiting()["7-0.json"]
    assert (run.outcome, run.exit_code) == ("failed", code)


def test_slurm_that_does_not_tell_the_exit_code(site: Site) -> None:
    _oom_job(site)
    site.run("prolog")
    site.log(OOM)
    site.run("epilog")
    assert len(site.slurm.calls("requeue")) == 1
    assert site.waiting()["7-0.json"].exit_code == 1


def test_the_exit_code_that_slurm_tells_epilog_counts(site: Site) -> None:
    _oom_job(site, ExitCode="0:0")
    site.run("prolog")
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="3:0")
    assert len(site.slurm.calls("requeue")) == 1
    assert site.waiting()["7-0.json"].exit_code == 3


def test_a_program_that_aborts_is_requeued_too(site: Site) -> None:
    _oom_job(site, ExitCode="6", Reason="RaisedSignal:6(Aborted)")
    site.run("prolog")
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="0:6")
    assert len(site.slurm.calls("requeue")) == 1
    run = site.waiting()["7-0.json"]
    assert (run.outcome, run.exit_code) == ("oom_requeued", 134)


def test_a_peak_that_was_measured_before_the_last_allocations_does_not_contradict(site: Site) -> None:
    _oom_job(site)
    site.run("prolog")
    (site.place / "jobs" / "7.task.json").write_text('{"cap_mib": 23961}')
    counters.write(f"{site.place}/jobs", 7, Account(peak_mib=700))
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert len(site.slurm.calls("requeue")) == 1
    run = site.waiting()["7-0.json"]
    assert (run.outcome, run.peak_mib, run.cap_mib) == ("oom_requeued", 700, 23961)


def test_an_outcome_is_kept_whatever_its_log_made_of_the_hook(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> str:
        raise RecursionError("too deep")

    monkeypatch.setattr(evidence, "of_memory", broken)
    _oom_job(site)
    site.run("prolog")
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert "not recovered: RecursionError: too deep" in site.said
    assert (site.waiting()["7-0.json"].outcome, site.notes()) == ("failed", [])


def test_what_the_monitor_measured_goes_into_the_record(site: Site) -> None:
    site.run("prolog")
    note = json.loads((site.place / "jobs" / "7.json").read_text())
    assert (note["uid"], note["allotment_mib"]) == (UID, 23961)
    account = Account(peak_mib=700.4, energy_j=1234.5)
    account.series["smact"].add(0.5, 9.0)
    account.meet(8)
    counters.write(f"{site.place}/jobs", 7, account)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    run = site.waiting()["7-0.json"]
    assert (run.peak_mib, run.smact_mean, run.smact_p95, run.smocc_mean) == (701, 0.5, 0.505, None)
    assert (run.energy_j, run.neighbours) == (1234.5, (8,))
    assert not (site.place / "jobs" / "7.counters.json").exists()


def test_counters_of_an_earlier_run_are_not_this_ones(site: Site) -> None:
    site.run("prolog")
    counters.write(f"{site.place}/jobs", 7, Account(restart=1, peak_mib=700))
    site.run("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    assert site.waiting()["7-0.json"].peak_mib is None


def test_a_run_that_its_user_queues_again_is_the_one_that_prolog_noted(site: Site) -> None:
    site.run("prolog")
    counters.write(f"{site.place}/jobs", 7, Account(restart=0, peak_mib=700))
    site.run("epilog", SLURM_JOB_RESTART_COUNT="1", SLURM_JOB_EXIT_CODE2="0:0")  # as slurmctld counts by then
    [(name, run)] = site.waiting().items()
    assert (name, run.restart, run.peak_mib) == ("7-0.json", 0, 700)
    assert run.start is not None
    assert site.notes() == []
    site.run("prolog")
    site.run("prolog", SLURM_JOB_RESTART_COUNT="1")  # the Epilog between never came
    site.run("epilog", SLURM_JOB_RESTART_COUNT="1", SLURM_JOB_EXIT_CODE2="0:0")
    assert site.waiting()["7-1.json"].restart == 1


@pytest.mark.parametrize("noted", [None, "3"])
def test_a_run_that_prolog_did_not_note_is_kept_all_the_same(site: Site, noted: str | None) -> None:
    if noted is not None:  # an earlier job's, whose number this one got
        site.run("prolog", SLURM_JOB_RESTART_COUNT=noted)
    site.run("epilog", SLURM_JOB_RESTART_COUNT="1", SLURM_JOB_EXIT_CODE2="0:0")
    [(name, run)] = site.waiting().items()
    assert (name, run.restart, run.start, run.outcome) == ("7-1.json", 1, None, "completed")


def test_notes_that_say_something_else_cost_the_record_what_they_say(site: Site) -> None:
    site.run("prolog")
    (site.place / "jobs" / "7.json").write_text('{"restart": 0, "start": "noon"}')
    (site.place / "jobs" / "7.task.json").write_text('{"cap_mib": true}')
    site.run("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    [(name, run)] = site.waiting().items()
    assert (name, run.outcome, run.start, run.cap_mib) == ("7-0.json", "completed", None, None)
    site.run("prolog", SLURM_JOB_ID="8")
    (site.place / "jobs" / "8.json").write_text('{"restart": "0"}')
    site.run("epilog", SLURM_JOB_ID="8", SLURM_JOB_EXIT_CODE2="0:0")
    assert site.waiting()["8-0.json"].outcome == "completed"


def test_a_note_of_logs_that_says_nothing_costs_no_recovery(site: Site) -> None:
    _oom_job(site)
    site.run("prolog")
    (site.place / "jobs" / "7.json").write_text('{"restart": 0, "logs": [17, {"path": 3}]}')
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert len(site.slurm.calls("requeue")) == 1, site.said


def test_a_run_whose_prolog_was_killed_before_its_last_note_is_kept(site: Site) -> None:
    site.run("prolog")
    (site.place / "jobs" / "7.task.json").unlink()
    site.run("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    [run] = site.waiting().values()
    assert (run.outcome, run.cap_mib, run.start is None) == ("completed", None, False)


def test_a_run_that_prolog_did_not_note_is_recovered_by_a_log_of_its_own(site: Site) -> None:
    site.log(OOM, "7.out")
    (site.slurm.folder / "answer-squeue").write_text(f"{end_row(12, '1000')}\n")  # one that may have written there
    (site.slurm.folder / "job-12").write_text(f"{log_row(12, '1000', f'{site.home}/train.log')}\n")
    _end(site, "7", SLURM_JOB_STDOUT="%j.out", SLURM_JOB_STDERR="train.log")
    assert len(site.slurm.calls("requeue")) == 1, site.said


def test_a_job_of_whose_gpu_slurm_does_not_tell_epilog_is_recovered(site: Site) -> None:
    """So Slurm 22.05 just after a start of slurmctld."""
    untold = {"SLURM_JOB_GPUS": "", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": ""}
    site.start("prolog")
    site.log(OOM)
    _oom_job(site)
    site.start("epilog", SLURM_JOB_EXIT_CODE2="1:0", SLURM_JOB_UID="1", **untold)  # not the one that was noted
    assert site.waiting() == {}
    site.start("epilog", SLURM_JOB_EXIT_CODE2="1:0", SLURM_JOB_STDOUT="slurm-%j.out", **untold)
    assert len(site.slurm.calls("requeue")) == 1, site.said
    run = site.waiting()["7-0.json"]
    assert (run.outcome, run.share) == ("oom_requeued", 30)


def test_a_prolog_that_fails_leaves_no_notes_of_an_earlier_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """By them tasks would find the daemon of a GPU that is not this run's."""
    site.run("prolog")
    monkeypatch.setattr(logs, "mark", lambda *_: 1 / 0)
    site.run("prolog", SLURM_JOB_RESTART_COUNT="1")
    assert site.said.endswith("ZeroDivisionError: division by zero\n")
    assert site.notes() == []


@pytest.mark.parametrize(("code", "reason"), [("143:0", "NonZeroExitCode"), ("0:15", "RaisedSignal:15(Terminated)")])
def test_a_process_that_the_monitor_ended_is_evidence(site: Site, code: str, reason: str) -> None:
    _oom_job(site, Reason=reason)
    site.run("prolog")
    site.log("RuntimeError: CUDA error: MPS client has been terminated\n")  # the monitor took it off its server
    counters.write(f"{site.place}/jobs", 7, Account(peak_mib=30000, evidence="rad-monitor: process 9 was ended"))
    site.run("epilog", SLURM_JOB_EXIT_CODE2=code)
    assert len(site.slurm.calls("requeue")) == 1
    run = site.waiting()["7-0.json"]
    assert (run.outcome, run.evidence) == ("oom_requeued", "rad-monitor: process 9 was ended")


def test_a_job_without_logs_is_recovered_by_what_the_monitor_saw(site: Site) -> None:
    _oom_job(site)
    nowhere = {"SLURM_JOB_STDOUT": "/dev/null", "SLURM_JOB_STDERR": "/dev/null"}
    site.run("prolog", **nowhere)
    counters.write(f"{site.place}/jobs", 7, Account(peak_mib=30000, evidence="rad-monitor: process 9 was ended"))
    site.run("epilog", SLURM_JOB_EXIT_CODE2="143:0", **nowhere)
    assert len(site.slurm.calls("update")) == 1
    assert site.said.endswith("requeued with 45 shares, 35942 MiB\n")


# MPS


def test_the_way_of_a_job_under_mps(mps_site: Site) -> None:
    mps_site.start("prolog")
    pipe = f"{mps_site.place}/mps/g2/u{UID}/pipe"
    assert len(processes_with(f"CUDA_MPS_PIPE_DIRECTORY={pipe}")) == 1
    exports = [
        f"export CUDA_MPS_PIPE_DIRECTORY={pipe}",
        "export CUDA_VISIBLE_DEVICES=GPU-11111111-2222-3333-4444-555555555555",
        "export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=23961M",
    ]
    assert mps_site.task({"RAD_SHARE": "30"}) == [*exports, "export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100"]
    assert mps_site.task() == exports  # a job that asked for shares itself keeps its ceiling
    assert mps_site.task(uid=OTHER_UID) == exports
    mps_site.start("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    _wait(lambda: not processes_with(f"CUDA_MPS_PIPE_DIRECTORY={pipe}"))
    assert mps_site.waiting()["7-0.json"].cap_mib == 23961


@pytest.mark.parametrize(
    ("record", "restarts", "percentage"),
    [
        (RECORD, "0", "100"),
        (dataclasses.replace(RECORD, thread_percentage=50, pin="g2", node="node0"), "0", "50"),
        (dataclasses.replace(RECORD, thread_percentage=50, pin="g2", node="node0"), "1", "100"),
        (dataclasses.replace(RECORD, action="left_alone"), "0", None),
    ],
)
def test_a_step_that_is_attached_from_outside_the_job(
    mps_site: Site, capsys: pytest.CaptureFixture[str], record: Record, restarts: str, percentage: str | None
) -> None:
    mps_site.run("prolog")
    mps_site.slurm.job(7, shown(7, AdminComment=merge("", record), Restarts=restarts))
    mps_site.run("task_prolog")
    lines = capsys.readouterr().out.splitlines()
    assert "export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=23961M" in lines
    said = [line for line in lines if "THREAD_PERCENTAGE" in line or "RAD_SHARE" in line]
    if percentage is None:
        assert said == []
    else:
        assert said[0] == "export RAD_SHARE=30"
        assert said[-1] == f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={percentage}"


def test_a_step_that_no_script_starts_is_known_by_its_own_gpus(mps_site: Site) -> None:
    """As Slurm 22.05 starts those of srun and salloc, and such as are attached: they are not told of the job's GPUs."""
    mps_site.run("prolog")
    lines = mps_site.task({"SLURM_JOB_GPUS": "", "SLURM_STEP_GPUS": "2"})
    assert f"export CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe" in lines
    assert "export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=23961M" in lines
    assert mps_site.task({"SLURM_JOB_GPUS": ""}) == []


def test_steps_of_a_job_that_asked_for_shares_itself_cost_the_controller_nothing(
    mps_site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    mps_site.run("prolog")
    mps_site.run("task_prolog")  # of the batch script
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "CUDA_MPS_PIPE_DIRECTORY" in line)
    before = mps_site.slurm.calls()
    assert [call[0] for call in before] == ["squeue"]
    mps_site.run("task_prolog", CUDA_MPS_PIPE_DIRECTORY=line.partition("=")[2])
    assert line in capsys.readouterr().out.splitlines()
    assert mps_site.slurm.calls() == before


@pytest.mark.parametrize("partition", ["other", "off"])
def test_a_job_that_its_user_moves_to_a_partition_without_rad_shares_all_the_same(
    mps_site: Site, partition: str
) -> None:
    mps_site.settings["partitions.off"] = {"method": "off"}
    mps_site.write()
    mps_site.slurm.job(7, shown(7, AdminComment=merge("", RECORD), TresPerNode="gres:mps:g2:30"))
    mps_site.run("prolog", SLURM_JOB_PARTITION=partition)
    assert f"export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={(143771 - 2048) * 30 // 100}M" in mps_site.task()
    mps_site.run("epilog", SLURM_JOB_PARTITION=partition, SLURM_JOB_EXIT_CODE2="0:0")
    assert mps_site.waiting()["7-0.json"].outcome == "completed"
    assert mps_site.notes() == []


def test_other_jobs_of_a_partition_without_rad_are_left_alone(mps_site: Site) -> None:
    mps_site.slurm.job(7, shown(7, AdminComment="", TresPerNode="gres:mps:g2:30"))
    mps_site.run("prolog", SLURM_JOB_PARTITION="other")
    assert mps_site.notes() == []
    asked = len(mps_site.slurm.calls())
    mps_site.run("epilog", SLURM_JOB_PARTITION="other", SLURM_JOB_EXIT_CODE2="1:0")
    mps_site.run("prolog", SLURM_JOB_PARTITION="other", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="")
    assert len(mps_site.slurm.calls()) == asked
    assert mps_site.waiting() == {}


def test_the_cap_follows_the_share_that_the_job_holds_now(mps_site: Site) -> None:
    mps_site.run("prolog", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="57")
    assert "export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=45527M" in mps_site.task({"RAD_SHARE": "30"})
    assert mps_site.said == ""


@pytest.mark.parametrize(
    ("partition", "cap"),
    [
        ({"gpu_model": "h200"}, (143771 - 2048) * 30 // 100),
        ({"gpu_model": "", "margin_mib": 1000}, (143771 - 1000) * 30 // 100),  # as nvidia-smi says
        ({"gpu_memory_mib": 40960, "gpu_model": "h200"}, (40960 - 2048) * 30 // 100),
    ],
)
def test_where_the_memory_is_known_from(mps_site: Site, partition: dict[str, Any], cap: int) -> None:
    mps_site.settings["partitions.gpu"] = partition
    mps_site.write()
    mps_site.run("prolog")
    assert f"export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={cap}M" in mps_site.task()


def test_logs_that_have_no_file_system_of_their_own(mps_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    mps_site.settings["mps"]["log_mib"] = 8
    mps_site.write()
    monkeypatch.setattr(mps_daemon, "_PATH", {"PATH": "/nowhere"})
    for job in ("7", "8"):
        mps_site.run("prolog", SLURM_JOB_ID=job)
    assert mps_site.said.count("no tmpfs is mounted there") == 1


def test_a_gpu_with_less_memory_than_its_partitions(mps_site: Site, programs: Path) -> None:
    """Caps of the jobs that share it must not add up to more than it has."""
    smi = programs / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '2, GPU-11111111-2222-3333-4444-555555555555, 40960'\n")
    for job in ("7", "8", "9"):
        mps_site.run("prolog", SLURM_JOB_ID=job)
        assert f"export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={30 * (40960 - 2048) // 100}M" in mps_site.task()
    assert json.loads((mps_site.place / "jobs" / "9.json").read_text())["allotment_mib"] == 11673
    assert mps_site.said.count("a GPU here has 40960 MiB, less than rad.toml says of partition gpu") == 1


def test_memory_that_nobody_knows(mps_site: Site) -> None:
    mps_site.settings["partitions.gpu"] = {"gpu_model": ""}
    mps_site.settings["mps"]["nvidia_smi"] = "/nowhere/smi"
    mps_site.write()
    for job in ("7", "8"):
        mps_site.run("prolog", SLURM_JOB_ID=job)
    assert mps_site.said.count("the GPU's memory is not known") == 1
    assert mps_site.task()[1:] == ["export CUDA_VISIBLE_DEVICES=0", "unset CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]


@pytest.mark.parametrize(
    ("method", "share", "gpus"),
    [("mps", "100", "2"), ("streams", "30", "2"), ("off", "30", "2"), ("mps", "30", "2,3"), ("mps", "", "2")],
)
def test_jobs_that_get_no_daemon(mps_site: Site, method: str, share: str, gpus: str) -> None:
    mps_site.settings["partitions.gpu"]["method"] = method
    mps_site.write()
    more = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": share, "SLURM_JOB_GPUS": gpus}
    mps_site.run("prolog", **more)
    assert mps_site.notes() == ["7.json", "7.task.json"]
    assert processes_with(f"CUDA_MPS_PIPE_DIRECTORY={mps_site.place}") == []
    assert mps_site.task({"RAD_SHARE": share, **more}) == ["unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]


def test_a_daemon_that_does_not_start_costs_the_job_only_its_cap(mps_site: Site) -> None:
    broken = Path(mps_site.settings["mps"]["control"]).parent / "broken"
    broken.write_text("#!/bin/sh\necho no device >&2\nexit 1\n")
    broken.chmod(0o755)
    mps_site.settings["mps"]["control"] = str(broken)
    mps_site.write()
    mps_site.run("prolog")
    assert "no MPS: GPU 2: exit status 1: no device" in mps_site.said
    assert mps_site.task({"RAD_SHARE": "30"}) == ["unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]


@pytest.mark.parametrize("how", ["full", "time is up"])
def test_what_keeps_a_job_from_mps_costs_it_only_its_cap(
    mps_site: Site, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its steps are told of its shares, and with whom it writes to one log is noted."""
    mps_site.run("prolog", SLURM_JOB_ID="8", **COMMON)
    [daemon] = processes_with(f"CUDA_MPS_PIPE_DIRECTORY={mps_site.place}")
    os.kill(daemon, signal.SIGKILL)
    if how == "full":
        _fill(f"{mps_site.place}/mps/", monkeypatch)
    else:
        monkeypatch.setattr(mps_daemon, "_start", lambda *_: signal.raise_signal(signal.SIGTERM))
    for name, value in mps_site.env(**COMMON).items():
        monkeypatch.setenv(name, value)
    assert main.main(["main.py", "prolog"]) == 0
    full = f"[Errno 28] No space left on device: '{mps_site.place}/mps/g2/u{UID}/jobs/7'"
    assert f"no MPS: {full if how == 'full' else 'its time is up'}" in mps_site.said
    assert mps_site.task({"RAD_SHARE": "20"})[0] == "export RAD_SHARE=30"
    assert {"7.shared.json", "8.shared.json"} < set(mps_site.notes())
    assert [slot.residents() for slot in mps_slots.slots(_config(mps_site).mps)] == [{8: UID}]


# TaskProlog's lines


@pytest.mark.parametrize(
    ("env", "lines"),
    [
        ({}, []),
        ({"RAD_SHARE": "100"}, ["unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]),
        *(  # the user's own
            ({"CUDA_MPS_PIPE_DIRECTORY": path}, [])
            for path in ("/tmp/nvidia-mps", "pipe", "/home/me/g2/me/mps", "/home/me/h2/me/pipe", "/home/me/gpu/me/pipe")
        ),
        (
            {"CUDA_MPS_PIPE_DIRECTORY": "/run/rad/mps/g2/u1003/pipe"},
            ["unset CUDA_MPS_PIPE_DIRECTORY", "unset CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"],
        ),
    ],
)
@pytest.mark.parametrize("task", [None, {"share": 100}])
def test_what_a_task_without_a_daemon_gets(task: Any, env: Mapping[str, str], lines: list[str]) -> None:
    assert task_prolog.task_lines(task, env) == lines


@pytest.mark.parametrize(
    ("env", "lines"),
    [
        ({"SLURM_GPUS": "h200:1", "SLURM_GPUS_PER_NODE": "1"}, ["unset SLURM_GPUS", "unset SLURM_GPUS_PER_NODE"]),
        ({"SLURM_GPUS_PER_TASK": "1"}, ["unset SLURM_GPUS_PER_TASK"]),
        ({"SLURM_MEM_PER_GPU": "4"}, ["unset SLURM_MEM_PER_GPU"]),
        ({"SLURM_CPUS_PER_GPU": "4"}, ["unset SLURM_CPUS_PER_GPU", "export SRUN_CPUS_PER_TASK=4"]),
        ({"SLURM_CPUS_PER_GPU": "4", "SRUN_CPUS_PER_TASK": "2"}, ["unset SLURM_CPUS_PER_GPU"]),
        ({"SLURM_CPUS_PER_GPU": "4\nexport X=1"}, ["unset SLURM_CPUS_PER_GPU"]),
        ({"SLURM_TRES_PER_TASK": "gres/gpu=1"}, ["unset SLURM_TRES_PER_TASK"]),
        ({"SLURM_TRES_PER_TASK": "cpu=4,gres/gpu:h200=1"}, ["export SLURM_TRES_PER_TASK=cpu=4"]),
        ({"SLURM_TRES_PER_TASK": "cpu=4", "SLURM_NTASKS": "1"}, []),
        ({"SLURM_EXPORT_ENV": "NONE"}, ["export SLURM_EXPORT_ENV=RAD_SHARE,RAD_THREAD_PERCENTAGE"]),
        ({"SLURM_EXPORT_ENV": "nil"}, ["export SLURM_EXPORT_ENV=RAD_SHARE,RAD_THREAD_PERCENTAGE"]),
        ({"SLURM_EXPORT_ENV": "ALL"}, []),
    ],
)
def test_steps_of_a_job_that_shares_do_not_ask_for_gpus(env: Mapping[str, str], lines: list[str]) -> None:
    assert task_prolog.task_lines(None, {"RAD_SHARE": "30", **env}) == [
        *lines,
        "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    ]
    assert task_prolog.task_lines(None, env) == []


def test_steps_are_told_of_the_shares_that_the_job_holds_now() -> None:
    """It was queued again with more, or its user asked for others: a step that asks for the GPU asks for all."""
    lines = task_prolog.task_lines({"share": 60}, {"RAD_SHARE": "30"})
    assert lines == ["export RAD_SHARE=60", "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]
    assert task_prolog.task_lines({"share": 30}, {"RAD_SHARE": "30"}) == lines[1:]
    assert task_prolog.task_lines({"share": 60}, {}) == []


def test_steps_of_a_job_whose_shares_became_a_gpu_again_ask_for_the_gpu() -> None:
    env = {"RAD_SHARE": "30", "RAD_THREAD_PERCENTAGE": "100", "SLURM_GPUS": "1"}
    assert task_prolog.task_lines({"share": None}, env) == ["unset RAD_SHARE", "unset RAD_THREAD_PERCENTAGE"]
    for task, more in (({"share": None}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30"}), ({}, {}), (None, {})):
        lines = task_prolog.task_lines(task, {**env, **more})
        assert lines == ["unset SLURM_GPUS", "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]


def test_what_was_hidden_from_srun_is_given_back_to_tasks() -> None:
    hidden = "SLURM_GPUS=1 SLURM_CPUS_PER_GPU=4 SLURM_GPUS_PER_TASK=h200:1 PATH=/x SLURM_MEM_PER_GPU=1\nexport"
    assert task_prolog.task_lines(None, {"RAD_SHARE": "30", "RAD_COUNTED": hidden}) == [
        "unset RAD_COUNTED",
        "export SLURM_GPUS=1",
        "export SLURM_CPUS_PER_GPU=4",
        "export SLURM_GPUS_PER_TASK=h200:1",
        "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    ]


def test_a_step_that_asks_for_the_gpu_counts_one_where_slurm_writes_what_is_left_of_that() -> None:
    env = {"RAD_SHARE": "30", "SLURM_GPUS_PER_NODE": ""}
    last = "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
    counts = ("SLURM_GPUS", "SLURM_GPUS_PER_NODE")
    assert task_prolog.task_lines(None, env, kept=counts) == ["export SLURM_GPUS_PER_NODE=1", last]
    lines = task_prolog.task_lines(None, {**env, "RAD_COUNTED": "SLURM_GPUS_PER_NODE=h200:1"}, kept=counts)
    assert lines[-2:] == ["export SLURM_GPUS_PER_NODE=h200:1", last]


def test_what_srun_was_given_for_one_step_is_taken_from_its_tasks() -> None:
    """A job that they submit would inherit it, and its steps ask for as many processors."""
    env = {"RAD_SHARE": "30", "RAD_COUNTED": "SLURM_CPUS_PER_GPU=4 SRUN_CPUS_PER_TASK ", "SRUN_CPUS_PER_TASK": "4"}
    lines = task_prolog.task_lines(None, env)
    assert "unset SRUN_CPUS_PER_TASK" in lines
    assert "export SLURM_CPUS_PER_GPU=4" in lines
    lines = task_prolog.task_lines(None, {**env, "RAD_COUNTED": "SLURM_CPUS_PER_GPU=4 "})  # its user's own
    assert "unset SRUN_CPUS_PER_TASK" not in lines


def test_what_scripts_count_by_stays_where_srun_is_filtered(tmp_path: Path) -> None:
    env = {"RAD_SHARE": "30", "SLURM_GPUS": "1", "SLURM_GPUS_PER_NODE": "1", "SLURM_GPUS_PER_TASK": "1"}
    env |= {"SLURM_CPUS_PER_GPU": "4", "SLURM_GPU_BIND": "none"}
    (tmp_path / "cli_filter.lua").write_text('require("rad").wrap()\n')
    (tmp_path / "slurm.conf").write_text("CliFilterPlugins=lua\n")
    assert task_prolog.task_lines(None, env, kept=task_prolog.kept_counts(tmp_path, [tmp_path])) == [
        "unset SLURM_GPUS_PER_TASK",
        "unset SLURM_CPUS_PER_GPU",
        "unset SLURM_GPU_BIND",
        "export SRUN_CPUS_PER_TASK=4",
        "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    ]
    (tmp_path / "5.3" / "posix").mkdir(parents=True)
    (tmp_path / "5.3" / "posix" / "init.lua").touch()
    kept = task_prolog.kept_counts(tmp_path, [tmp_path / "none", tmp_path])
    lines = task_prolog.task_lines(None, env, kept=kept)
    assert lines == ["unset SLURM_GPU_BIND", "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]
    (tmp_path / "slurm.conf").unlink()
    assert task_prolog.kept_counts(tmp_path, [tmp_path]) == ()


def test_memory_of_the_gpu_stands_alone_as_no_srun_takes_it_beside_that_of_the_node() -> None:
    env = {"RAD_SHARE": "30", "SLURM_MEM_PER_NODE": "64"}
    last = "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
    assert task_prolog.task_lines(None, env) == [last]
    env["SLURM_MEM_PER_GPU"] = "64"
    assert task_prolog.task_lines(None, env) == ["unset SLURM_MEM_PER_GPU", last]
    assert task_prolog.task_lines(None, env, kept=["SLURM_MEM_PER_GPU"]) == ["unset SLURM_MEM_PER_NODE", last]
    del env["SLURM_MEM_PER_GPU"]
    lines = task_prolog.task_lines(None, {**env, "RAD_COUNTED": "SLURM_MEM_PER_GPU=64 "})
    assert lines == ["unset RAD_COUNTED", "export SLURM_MEM_PER_GPU=64", "unset SLURM_MEM_PER_NODE", last]


def test_srun_is_filtered_where_slurm_conf_says_so_and_the_script_loads_rad(tmp_path: Path) -> None:
    assert not task_prolog.filters_steps(tmp_path)
    (tmp_path / "cli_filter.lua").write_text("return slurm.SUCCESS\n")
    assert not task_prolog.filters_steps(tmp_path)
    (tmp_path / "cli_filter.lua").write_text('local ok, rad = pcall(require, "rad"); if ok then rad.wrap() end\n')
    assert not task_prolog.filters_steps(tmp_path)
    for text, told in (
        ("ClusterName=c\n#CliFilterPlugins=lua\n", False),
        ("CliFilterPlugins=cli_filter/user_defaults # lua\n", False),
        ("ClusterName=c\nclifilterplugins = cli_filter/user_defaults,cli_filter/lua\n", True),
        ("include /etc/slurm/more.conf\n", True),
    ):
        (tmp_path / "slurm.conf").write_text(text)
        assert task_prolog.filters_steps(tmp_path) is told


@pytest.mark.parametrize(("by_slurm", "visible"), [("0", "0"), ("2", "GPU-11"), ("GPU-22", "GPU-11"), (None, "GPU-11")])
def test_a_gpu_is_a_number_where_slurm_s_number_means_it_with_and_without_the_daemon(
    by_slurm: str | None, visible: str
) -> None:
    """Of the daemon's GPUs it is the first; vLLM and DeepSpeed's launcher take no UUID."""
    task = {"pipe": "/p", "visible": "GPU-11", "cap_mib": None}
    env = {"RAD_SHARE": "30", **({"CUDA_VISIBLE_DEVICES": by_slurm} if by_slurm else {})}
    assert f"export CUDA_VISIBLE_DEVICES={visible}" in task_prolog.task_lines(task, env)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("40", 40),
        ("1", 1),
        ("0", 100),
        ("101", 100),
        ("040", 40),
        ("0" * 5000 + "40", 100),
        ("x", 100),
        ("²", 100),
        ("", 100),
    ],
)
def test_thread_percentage(asked: str, given: int) -> None:
    task = {"pipe": "/p", "visible": "0", "cap_mib": None}
    lines = task_prolog.task_lines(task, {"RAD_SHARE": "30", "RAD_THREAD_PERCENTAGE": asked})
    assert lines[-1] == f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={given}"


@pytest.mark.parametrize(
    ("asked", "env", "given"),
    [
        ("70@n1:g2", {}, 70),
        ("70@n1:g1", {}, 100),
        ("70@n2:g2", {}, 100),
        ("70@n1:g2", {"SLURM_RESTART_COUNT": "1"}, 100),
        ("70@n1:g2", {"SLURM_RESTART_COUNT": "0"}, 70),
        ("x@n1:g2", {}, 100),
        ("70@", {}, 100),
        ("70@n1:g2\nexport LD_PRELOAD=/tmp/x", {}, 100),
    ],
)
def test_a_limit_of_threads_holds_where_it_was_chosen(asked: str, env: Mapping[str, str], given: int) -> None:
    task = {"pipe": "/run/rad/mps/g2/u1003/pipe", "visible": "0", "cap_mib": None}
    base = {"RAD_SHARE": "30", "RAD_THREAD_PERCENTAGE": asked, "SLURMD_NODENAME": "n1"}
    lines = task_prolog.task_lines(task, {**base, **env})
    assert lines[-1] == f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={given}"
    assert len(lines) == 4


def test_a_task_outside_any_job(site: Site) -> None:
    assert site.task({"SLURM_JOB_ID": ""}) == []


# Trouble


@pytest.mark.parametrize("config", ["[nothing", "[node]\nstate_dir = 3\n", None])
def test_a_configuration_of_which_none_was_ever_read(
    site: Site, config: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.place / "rad.toml").unlink() if config is None else (site.place / "rad.toml").write_text(config)
    assert site.task() == []
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(context, "_log", lambda path, line: said.append((path, line)))
    for name, value in site.env().items():
        monkeypatch.setenv(name, value)
    for hook in ("prolog", "epilog", "flush"):
        assert main.main(["main.py", hook]) == 0
        path, line = said.pop()
        assert path == Config().node.log
        kind = "ConfigAbsentError" if config is None else "ConfigError"
        assert line.startswith(f"{hook}: {kind}: RAD does nothing on this node")
        assert f": {site.place}/rad.toml: " in line


def _broken(site: Site, how: str) -> None:
    """Make rad.toml one that cannot be used."""
    rad_toml = site.place / "rad.toml"
    if how == "a folder":
        rad_toml.unlink()
        rad_toml.mkdir()
    elif how == "a link to nowhere":
        rad_toml.unlink()
        rad_toml.symlink_to("/nowhere/rad.toml")
    else:
        rad_toml.write_bytes({"no TOML": b"[mps", "a wrong key": b"[mps]\nuser = 'multi'\n"}.get(how, b"#" * 2**20 * 2))


@pytest.mark.parametrize("how", ["no TOML", "a wrong key", "a folder", "a link to nowhere", "too long"])
def test_a_node_goes_on_with_the_last_configuration_that_it_could_use(mps_site: Site, how: str) -> None:
    mps_site.start("prolog", SLURM_JOB_ID="6")
    before = [line.replace("/6.", "/7.") for line in mps_site.task({"SLURM_JOB_ID": "6"})]
    _broken(mps_site, how)
    mps_site.start("epilog", SLURM_JOB_ID="6", SLURM_JOB_EXIT_CODE2="0:0")
    mps_site.start("prolog")
    assert mps_site.task() == before
    assert f"export CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe" in before
    assert "export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=23961M" in before
    mps_site.start("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    [said] = mps_site.said.splitlines()  # once, not for each job
    goes_on = f"this node goes on with {mps_site.place}/kept/rad.toml of 2"
    assert f"epilog: {goes_on}" in said
    assert f", as rad.toml cannot be used (see radctl config check): {mps_site.place}/rad.toml: " in said
    assert mps_site.notes() == []
    assert [path.name for path in (mps_site.place / "kept").iterdir()] == ["rad.toml"]


def test_what_is_wrong_with_the_configuration_is_told_once_until_it_is_another_or_has_gone(site: Site) -> None:
    context.load("prolog", site.rad_env)
    good, rad_toml = (site.place / "rad.toml").read_text(), site.place / "rad.toml"
    told = []
    for text in ("[a]\n", "[a]\n", "[b]\n", "[b]\n", good, "[b]\n"):
        before = site.said
        rad_toml.write_text(text)
        context.load("prolog", site.rad_env)
        told.append(site.said[len(before) :].count("\n"))
    assert told == [1, 0, 1, 0, 0, 1]
    (site.place / "jobs").chmod(0o777)  # where others write nothing is noted
    before = site.said
    context.load("prolog", site.rad_env)
    context.load("prolog", site.rad_env)
    assert site.said[len(before) :].count("\n") == 2


def test_what_a_jobs_prolog_went_by_holds_for_its_tasks_and_its_epilog(mps_site: Site) -> None:
    mps_site.start("prolog")
    before = mps_site.task()
    mps_site.settings["mps"]["run_dir"] = f"{mps_site.place}/mps2"
    mps_site.settings["node"]["state_dir"] = f"{mps_site.place}/jobs2"
    mps_site.write()
    mps_site.start("prolog", SLURM_JOB_ID="8")
    assert mps_site.task() == before
    assert f"export CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe" in before
    later = f"export CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps2/g2/u{UID}/pipe"
    assert later in mps_site.task({"SLURM_JOB_ID": "8"})
    mps_site.start("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    assert mps_site.notes() == []
    _wait(lambda: not processes_with(f"CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe"))
    assert processes_with(f"CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps2/g2/u{UID}/pipe")
    assert mps_site.said == ""


def test_tasks_are_given_mps_though_users_cannot_read_the_configuration(mps_site: Site) -> None:
    (mps_site.place / "rad.toml").chmod(0o600)
    mps_site.start("prolog")
    assert f"export CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe" in mps_site.task()
    assert (mps_site.place / "kept" / "rad.toml").stat().st_mode & 0o077 == 0  # nor the copy of it
    folder = (mps_site.place / "kept").stat()
    assert (folder.st_uid, folder.st_mode & 0o777) == (os.geteuid(), 0o755)


def test_no_configuration_switches_rad_off_and_what_it_has_begun_is_ended(mps_site: Site) -> None:
    mps_site.start("prolog")
    (mps_site.place / "rad.toml").unlink()
    mps_site.start("prolog", SLURM_JOB_ID="8")
    assert mps_site.notes() == ["7.json", "7.task.json"]
    assert mps_site.task({"SLURM_JOB_ID": "8"}) == []
    assert f"export CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe" in mps_site.task()
    mps_site.start("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    assert mps_site.notes() == []
    _wait(lambda: not processes_with(f"{mps_site.place}/mps/g2/u{UID}/pipe"))
    [kept] = spool.items(Kept(f"{mps_site.place}/kept").last().node)  # type: ignore[union-attr]
    assert kept.run.outcome == "completed"


def test_a_node_that_can_keep_nothing_serves_its_jobs_and_says_so(mps_site: Site) -> None:
    (mps_site.place / "kept").touch()
    for job in ("7", "8"):
        mps_site.start("prolog", SLURM_JOB_ID=job)
        pipe = f"{mps_site.place}/mps/g2/u{UID}/pipe"
        assert f"export CUDA_MPS_PIPE_DIRECTORY={pipe}" in mps_site.task({"SLURM_JOB_ID": job})
        mps_site.start("epilog", SLURM_JOB_ID=job, SLURM_JOB_EXIT_CODE2="0:0")
    assert mps_site.said.count(f"no copy of rad.toml is kept in {mps_site.place}/kept (RAD_KEPT in rad.env") == 1
    assert mps_site.said.count("would take MPS away from running jobs") == 1
    assert mps_site.notes() == []


def test_not_even_the_log(site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(context, "load", broken)
    monkeypatch.setattr(context, "speaker", broken)
    assert main.main(["main.py", "flush"]) == 0
    assert capsys.readouterr().err == "rad: flush: RuntimeError: no room\n"


@pytest.mark.parametrize(("module", "name"), [(commands, "show_job"), (logs, "written")])
def test_an_epilog_whose_time_is_up_keeps_the_outcome_and_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    _oom_job(site)
    site.run("prolog")
    site.log(OOM)

    def put(*args: Any) -> str:
        signal.raise_signal(signal.SIGTERM)  # systemd ends the script too, which ends the hook once more
        return kept(*args)

    kept = spool.put
    monkeypatch.setattr(spool, "put", put)
    monkeypatch.setattr(module, name, lambda *_: signal.raise_signal(signal.SIGTERM))
    for key, value in site.env(SLURM_JOB_EXIT_CODE2="1:0").items():
        monkeypatch.setenv(key, value)
    before = signal.getsignal(signal.SIGTERM)
    assert main.main(["main.py", "epilog"]) == 0
    assert signal.getsignal(signal.SIGTERM) == before
    assert site.said.endswith("epilog: job 7: not recovered: TimeUpError: its time is up\n")
    assert [(run.outcome, run.exit_code) for run in site.waiting().values()] == [("failed", 1)]
    assert site.notes() == []


@pytest.mark.parametrize(
    ("does", "code", "outcome"),
    [("leave", "0:0", "completed"), ("beside", "1:0", "failed"), ("server_log", "1:0", "failed")],
)
def test_an_epilog_whose_time_a_daemon_has_taken_keeps_the_outcome(
    site: Site, monkeypatch: pytest.MonkeyPatch, does: str, code: str, outcome: str
) -> None:
    site.run("prolog")
    monkeypatch.setattr(mps, does, lambda *_: signal.raise_signal(signal.SIGTERM))
    for key, value in site.env(SLURM_JOB_EXIT_CODE2=code).items():
        monkeypatch.setenv(key, value)
    assert main.main(["main.py", "epilog"]) == 0
    assert "its use of MPS stays noted until rad-spool.timer looks: its time is up\n" in site.said
    assert [run.outcome for run in site.waiting().values()] == [outcome]
    assert site.notes() == ["7.json"]


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_folders_that_cannot_be_used(site: Site, hook: str) -> None:
    (site.place / "jobs").mkdir()
    (site.place / "jobs").chmod(0o777)
    (site.place / "spool").touch()
    site.start(hook, SLURM_JOB_EXIT_CODE2="0:0")
    assert "StateError" in site.said


@pytest.mark.parametrize("how", ["a file", "full"])
def test_a_job_is_recovered_where_the_spool_takes_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "a file":
        (site.place / "spool").touch()
    else:
        _fill(f"{site.place}/spool/", monkeypatch)
    _oom_job(site)
    site.run("prolog")
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert [call[1] for call in site.slurm.calls("scontrol")] == ["requeue", "show", "update"], site.said
    [item] = spool.items(_config(site).node)
    assert (item.path, item.run.outcome) == (f"{site.place}/jobs/.spool/7-0.json", "oom_requeued")
    assert f"{item.path} waits in memory" in site.said


def _fill(below: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be written below a folder."""
    through = state.write_bytes

    def write_bytes(path: str, data: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
        if path.startswith(below):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        through(path, data, mode, durable=durable)

    monkeypatch.setattr(state, "write_bytes", write_bytes)


def test_no_text_of_a_users_moves_the_admins_terminal(site: Site) -> None:
    context.speaker(_config(site), "epilog")("OSError: /home/\x1b[2J\udcff\nx")
    assert site.said.endswith("OSError: /home/?[2J?; x\n")


def test_no_log_to_write_to(site: Site) -> None:
    site.settings["node"]["log"] = "/proc/nowhere/node.log"
    site.write()
    done = subprocess.run([site.etc / "prolog.sh"], env=site.env(), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "/nowhere/mps is not on this node" in done.stderr


def test_neither_a_log_nor_a_standard_error(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.settings["node"]["log"] = "/dev/full"
    site.write()
    monkeypatch.setattr(sys, "stderr", None)
    context.speaker(_config(site), "epilog")("there is no one to hear it")


def test_a_log_on_a_full_disk_keeps_nothing_from_being_done(site: Site) -> None:
    (site.place / "spool").touch()  # outcomes lie on that disk, too
    site.settings["node"]["log"] = "/dev/full"
    site.write()
    _oom_job(site)
    site.run("prolog")
    site.log(OOM)
    site.run("epilog", SLURM_JOB_EXIT_CODE2="1:0")
    assert [call[1] for call in site.slurm.calls("scontrol")] == ["requeue", "show", "update"]
    assert site.notes() == []


@pytest.mark.parametrize("hook", ["prolog", "epilog", "task_prolog"])
def test_no_python(site: Site, hook: str, tmp_path: Path) -> None:
    script, said = tmp_path / f"{hook}.sh", tmp_path / "said"
    shutil.copy(ROOT / "etc" / f"{hook}.sh", script)
    (tmp_path / "logger").write_text(f'#!/bin/sh\necho "$@" >{said}\n')
    (tmp_path / "logger").chmod(0o755)
    (tmp_path / "rad.env").write_text(f"RAD_PYTHON=/nowhere/python\nRAD_PATH={tmp_path}:/usr/bin:/bin\n")
    done = subprocess.run([str(script)], env=site.env(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    if hook == "task_prolog":  # a user's: Prolog has told it before
        assert not said.exists()
    else:  # RAD's own log is Python's to write
        assert said.read_text().startswith(f"-p daemon.err -t rad {hook}: /nowhere/python ended with 127: ")
        said.unlink()
    (tmp_path / "python").write_text("#!/bin/sh\nexit 124\n")  # as where its time was up, of which it tells itself
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "rad.env").write_text(f"RAD_PYTHON={tmp_path}/python\nRAD_PATH={tmp_path}:/usr/bin:/bin\n")
    assert subprocess.run([str(script)], env=site.env(), check=False).returncode == 0
    assert not said.exists()


@pytest.mark.parametrize(
    ("granted", "prolog", "epilog"),
    [
        ("", "25", "45"),
        ("PrologEpilogTimeout=60\n", "25", "45"),
        ("#PrologEpilogTimeout=9\nPrologEpilogTimeout=0\n", "25", "45"),
        ("  prologepilogtimeout = 010 # s\nMessageTimeout=5\n", "6", "6"),
        ("EpilogTimeout=9\nPrologTimeout=4\nPrologEpilogTimeout=20\n", "1", "5"),
    ],
)
def test_it_ends_before_slurm_ends_it(granted: str, prolog: str, epilog: str, site: Site, tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(granted)
    python = tmp_path / "python"  # tells what it was started by: timeout -k 1 SECONDS
    python.write_text(f"#!/bin/sh\ntr '\\0' ' ' </proc/$PPID/cmdline >{tmp_path}/limit\n")
    python.chmod(0o755)
    (tmp_path / "rad.env").write_text(f"RAD_PYTHON={python}\n")
    for hook, limit in (("prolog", prolog), ("epilog", epilog)):
        script = shutil.copy(ROOT / "etc" / f"{hook}.sh", tmp_path)
        subprocess.run([str(script)], env=site.env(SLURM_CONF=f"{tmp_path}/slurm.conf"), check=True)
        assert (tmp_path / "limit").read_text().split()[1:4] == ["-k", "1", limit]


@pytest.mark.parametrize("hook", ["prolog", "epilog", "task_prolog"])
@pytest.mark.parametrize("line", ['RAD_PATH="/opt/slurm/bin', "RAD_PATH=$(", "exit 3", "set -e; false"])
def test_a_rad_env_that_ends_the_shell(site: Site, hook: str, line: str, tmp_path: Path) -> None:
    script = tmp_path / f"{hook}.sh"
    shutil.copy(ROOT / "etc" / f"{hook}.sh", script)
    (tmp_path / "rad.env").write_text(f"{line}\n")
    done = subprocess.run([str(script)], env=site.env(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")  # else Slurm drains the node, and ends the job's tasks


def test_what_doctor_learns_of_a_task_prolog(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    script = site.etc / "task_prolog.sh"
    monkeypatch.setattr(doctor_of_hooks, "__file__", str(script))  # this checkout may be in root's home
    assert doctor_of_hooks.task_prolog(str(script)) == ""
    own = site.etc / "own.sh"
    own.write_text(f"#!/bin/sh\necho export OURS=1\n{script}\n")
    own.chmod(0o755)
    assert doctor_of_hooks.task_prolog(str(own)) == ""
    for text, found in (
        ("echo export OURS=1\n", "RAD does not answer"),
        (script.read_text().partition("\n")[2].replace("RAD_PYTHON=", "RAD_PYTHON=/nowhere"), "RAD does not answer"),
        ("X='\n", "own.sh"),
        ("echo >&2; echo no disk >&2; exit 1\n", "no disk"),
    ):
        own.write_text(f"#!/bin/sh\n{text}")
        assert found in doctor_of_hooks.task_prolog(str(own))
    own.write_text("#!/bin/sh\n[ $(cut -d' ' -f6 /proc/$$/stat) = $$ ] && echo a session of its own >&2\n")
    assert doctor_of_hooks.task_prolog(str(own)) == "a session of its own"  # which has no terminal of root's
    site.etc.chmod(0o700)
    assert doctor_of_hooks.task_prolog(str(script)) == f"{site.etc}: not for everybody to use"
    monkeypatch.setattr(doctor_of_hooks, "_TASK_PROLOG_S", 0.01)
    site.etc.chmod(0o755)
    own.write_text("#!/bin/sh\nexec sleep 60\n")
    assert "timed out after 0.01 seconds" in doctor_of_hooks.task_prolog(str(own))


def test_modules_of_the_users_folder_are_not_loaded(site: Site) -> None:
    for name in ("json", "os", "slurm_hooks", "pathlib"):
        (site.home / f"{name}.py").write_text("print('export EVIL=1')\n")
    env = {**site.env(), "PYTHONPATH": str(site.home), "PYTHONSTARTUP": str(site.home / "os.py")}
    done = subprocess.run(
        [site.etc / "task_prolog.sh"], env=env, cwd=site.home, capture_output=True, text=True, check=False
    )
    assert "EVIL" not in done.stdout


@pytest.mark.parametrize("argv", [["main.py"], ["main.py", "nothing"], ["main.py", "prolog", "more"]])
def test_a_wrong_command_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(argv) == 2
    assert capsys.readouterr().err == "usage: main.py prolog|task-prolog|epilog|flush\n"


# What goes on after an Epilog


def _config(site: Site) -> Any:
    return context.load("test", site.rad_env)


def test_jobs_that_went_without_an_epilog(mps_site: Site) -> None:
    for job in ("7", "8", "9"):
        mps_site.run("prolog", SLURM_JOB_ID=job)
    for job in ("7", "8"):
        old = time.time() - 1000
        os.utime(mps_site.place / "jobs" / f"{job}.json", (old, old))
    config = _config(mps_site)
    said: list[str] = []
    mps_site.slurm.trouble("squeue")
    background.tidy(config, said.append)
    assert said == []  # not known is not gone
    mps_site.slurm.well("squeue")
    mps_site.slurm.on_node(8)
    background.tidy(config, said.append)
    assert said == ["job 7 has gone without an Epilog"]
    assert mps_site.notes() == ["8.json", "8.task.json", "9.json", "9.task.json"]
    jobs = mps_site.place / "mps" / "g2" / f"u{UID}" / "jobs"
    assert sorted(path.name for path in jobs.iterdir()) == ["8", "9"]


def test_a_gpu_that_was_busy_when_a_job_left_is_tidied_later(mps_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mps, "LOCK_TIMEOUT_S", 0.1)
    for job, gpu in (("7", "2"), ("8", "3")):
        mps_site.run("prolog", SLURM_JOB_ID=job, SLURM_JOB_GPUS=gpu)
    config, said = _config(mps_site), list[str]()
    with state.locked(f"{config.mps.run_dir}/g2.lock", 1):
        mps_site.run("epilog", SLURM_JOB_EXIT_CODE2="0:0")
        assert "its use of MPS stays noted until rad-spool.timer looks" in mps_site.said
        assert mps_site.notes() == ["7.json", "8.json", "8.task.json"]
        for job in ("7", "8"):
            os.utime(mps_site.place / "jobs" / f"{job}.json", (0, 0))
        background.tidy(config, said.append)
    assert said[0].startswith("job 7 has gone, and its use of MPS stays noted: ")
    assert said[1:] == ["job 8 has gone without an Epilog"]
    background.tidy(config, said.append)
    assert mps_site.notes() == []
    assert [slot.residents() for slot in mps_slots.slots(config.mps)] in ([], [{}], [{}, {}])


def test_what_jobs_and_killed_hooks_left_behind_is_tidied(site: Site) -> None:
    site.run("prolog")
    left = ["7.counters.json", "7.json.99.new", "8.counters.json", "8.task.json", "8.counters.json.99.new"]
    for name in (*left, ".said-no-mps", "9.counters.json"):
        (site.place / "jobs" / name).write_text("{}")
        if name != "9.counters.json":
            os.utime(site.place / "jobs" / name, (0, 0))
    background.tidy(_config(site), pytest.fail)
    assert sorted(path.name for path in (site.place / "jobs").iterdir()) == [
        ".said-no-mps", f".user-{UID}-7", "7.counters.json", "7.json", "7.task.json", "9.counters.json",
    ]  # fmt: skip


def test_a_clock_that_was_set_back_keeps_no_note(mps_site: Site) -> None:
    mps_site.run("prolog")
    os.utime(mps_site.place / "jobs" / "7.json", (2**32, 2**32))
    (mps_site.place / "jobs" / "8.json").symlink_to("/nowhere")  # as one that goes while it is looked at
    (mps_site.place / "jobs" / "9.json").touch()  # or while it is read
    os.utime(mps_site.place / "jobs" / "9.json", (0, 0))
    background.tidy(_config(mps_site), list[str]().append)
    assert mps_site.notes() == ["8.json", "9.json"]


def test_the_timer_starts_dead_daemons_anew(mps_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    mps_site.run("prolog")
    pipe = f"CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe"
    [daemon] = processes_with(pipe)
    os.kill(daemon, signal.SIGKILL)
    main.main(["main.py", "flush"])
    assert "flush: job 7: its MPS daemon was gone and is started anew" in mps_site.said
    [now] = processes_with(pipe)
    assert now != daemon
    os.kill(now, signal.SIGKILL)
    mps_site.settings["mps"]["control"] = "/nowhere/mps"
    mps_site.write()
    main.main(["main.py", "flush"])
    assert "flush: GPU 2: /nowhere/mps: No such file" in mps_site.said


def test_what_the_timer_cannot_do_keeps_it_from_nothing_else(mps_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    mps_site.run("prolog")
    pipe = f"CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe"
    [daemon] = processes_with(pipe)
    os.kill(daemon, signal.SIGKILL)

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "/nowhere")

    monkeypatch.setattr(background, "tidy", broken)
    main.main(["main.py", "flush"])
    assert "Input/output error: '/nowhere'" in mps_site.said
    assert processes_with(pipe)


def test_the_timer_waits_neither_for_slurmdbd_nor_for_who_does(mps_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it waits, it looks after no daemon."""
    mps_site.settings["node"]["send_for_s"] = 300.0
    mps_site.write()
    config = _config(mps_site)
    mps_site.run("prolog")
    spool.put(config.node, 7, 0, Run(outcome="completed"))
    mps_site.slurm.trouble("sacct", 1, "slurmdbd is down\n")
    monkeypatch.setattr(sending, "_pause", lambda *_: pytest.fail("it waits"))
    main.main(["main.py", "flush"])
    assert "flush: exit status 1: slurmdbd is down" in mps_site.said
    monkeypatch.setattr(sending, "send_all", lambda *_: pytest.fail("another sends"))
    with state.locked(f"{config.node.state_dir}/.now", 1):
        main.main(["main.py", "flush"])


def test_nothing_to_tidy(site: Site) -> None:
    background.tidy(_config(site), pytest.fail)


def test_the_timer_ends_what_was_begun_before_rad_was_switched_off(mps_site: Site) -> None:
    mps_site.run("prolog")
    for path in (mps_site.place / "jobs" / "7.json", mps_site.place / "kept" / "7.json"):
        os.utime(path, (0, 0))
    (mps_site.place / "rad.toml").unlink()
    assert main.main(["main.py", "flush"]) == 0
    assert "flush: job 7 has gone without an Epilog" in mps_site.said
    assert mps_site.notes() == []
    assert not (mps_site.place / "kept" / "7.json").exists()
    assert not processes_with(f"CUDA_MPS_PIPE_DIRECTORY={mps_site.place}/mps/g2/u{UID}/pipe")


def test_the_timer_sends_what_was_left_over(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.run("prolog")
    site.slurm.trouble("sacct", 1, "slurmdbd is down\n")
    site.start("epilog", SLURM_JOB_EXIT_CODE2="0:0")
    _wait(lambda: "slurmdbd is down" in site.said)
    site.slurm.well("sacct")
    left = [
        site.place / name for name in ("jobs/8.counters.json", "spool/8-0.json.99.new")
    ]  # by hooks that were killed
    for path in left:
        path.touch()
        os.utime(path, (0, 0))
    site.slurm.rows(f"7|7|COMPLETED|{int(time.time()) - 1}|{int(time.time())}|{merge('', RECORD)}")
    assert main.main(["main.py", "flush"]) == 0
    assert site.waiting() == {}
    assert not any(path.exists() for path in left)
    assert decode(site.slurm.comment()) != RECORD


_SECOND = """
import pathlib
import sys
from slurm_hooks import config
from slurm_hooks.node import background, sending
sending.send_all = lambda *_: open(sys.argv[2], "w").close()
background.background(config.load(pathlib.Path(sys.argv[1])), print)
"""


def test_one_at_a_time_and_one_that_waits(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    config, done = _config(site), site.place / "done"
    seconds: list[subprocess.Popen[bytes]] = []

    def at_work(*_: Any) -> None:
        # While the first is at work a second comes and waits; a third finds it waiting, and goes.
        assert not _locked(f"{config.node.state_dir}/.next")
        argv = [sys.executable, "-c", _SECOND, f"{site.place}/rad.toml", str(done)]
        seconds.append(subprocess.Popen(argv, cwd=ROOT))
        _wait(lambda: _locked(f"{config.node.state_dir}/.next"))
        background.background(config, pytest.fail)
        assert not done.exists()

    monkeypatch.setattr(sending, "send_all", at_work)
    background.background(config, pytest.fail)
    assert len(seconds) == 1
    assert seconds[0].wait(20) == 0
    assert done.exists()


def _locked(path: str) -> bool:
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def test_the_last_words_of_the_background(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(sending, "send_all", broken)
    said: list[str] = []
    background.background(_config(site), said.append)
    assert said == ["RuntimeError: no room"]


def test_work_that_outlives_the_hook(place: Path) -> None:
    def work() -> None:
        by_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        (place / "session").write_text(f"{os.getsid(0)} {Path('/proc/self/fd/1').readlink()} {by_default}")

    before = signal.signal(signal.SIGTERM, lambda *_: None)  # as a hook's, whose time may be up
    background.detach(work)
    signal.signal(signal.SIGTERM, before)
    _wait(lambda: (place / "session").exists() and (place / "session").read_text() != "")
    session, out, by_default = (place / "session").read_text().split()
    assert int(session) != os.getsid(0)
    assert (out, by_default) == (os.devnull, "True")


def test_no_commands_are_started_through_a_shell() -> None:
    assert commands.run(["echo", "$(id)"], 5).out == "$(id)\n"


@pytest.mark.parametrize("hook", ["prolog", "task_prolog", "epilog"])
def test_a_hook_starts_without_what_the_controller_needs(hook: str) -> None:
    """Slurm waits for it before and after each job."""
    heavy = ("asyncio", "click", "numpy", "slurm_hooks.cluster", "slurm_hooks.request")
    code = f"import sys, slurm_hooks.node.{hook}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
