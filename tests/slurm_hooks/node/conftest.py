"""What the tests of the node's hooks share."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.node import commands
from slurm_hooks.node.job import NodeJob
from tests.slurm_hooks.node import standins

UID = 40001  # a user that needs no account
OTHER_UID = 40002
JOB = NodeJob(
    id=4711,
    restart=0,
    uid=UID,
    gid=UID,
    user="",
    partition="gpu",
    node="node0",
    gpus=(2,),
    share=30,
    work_dir="/",
    stdout="",
    stderr="",
    sluid="",
    exit_status=None,
    exit_signal=None,
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can enter (pytest's own temporary folders only root can)."""
    path = Path(tempfile.mkdtemp(prefix="rad-node-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def home(place: Path) -> Path:
    """A folder of the job's user."""
    path = place / "home"
    path.mkdir()
    os.chown(path, UID, UID)
    return path


@pytest.fixture
def job(home: Path) -> NodeJob:
    """A job whose working directory is `home`."""
    return replace(JOB, work_dir=str(home))


class FakeSlurm:
    """Slurm's commands, as stand-ins that answer what a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def job(self, number: int, text: str) -> None:
        """What squeue says of a job, in the columns of `commands.show_job`."""
        (self.folder / f"job-{number}").write_bytes(f"{text}\n".encode(errors="surrogateescape"))

    def config(self, text: str) -> None:
        """What `scontrol show config` says."""
        (self.folder / "job-config").write_text(text)

    def rows(self, *rows: str) -> None:
        """What sacct says."""
        (self.folder / "answer-sacct").write_text("".join(f"{row}\n" for row in rows))

    def on_node(self, *jobs: int) -> None:
        """What squeue says."""
        (self.folder / "answer-squeue").write_text("".join(f"{job}    \n" for job in jobs))

    def comment(self, row: int = -1) -> str:
        """AdminComment of a row."""
        return (self.folder / "answer-sacct").read_text().splitlines()[row].split("|", 5)[5]

    def trouble(self, verb: str, code: Any = 1, text: str = "") -> None:
        """Let a command fail, or hang."""
        (self.folder / f"trouble-{verb}").write_text(f"{code}\n{text}")

    def well(self, verb: str) -> None:
        """Let it work again."""
        (self.folder / f"trouble-{verb}").unlink()

    def small_letters(self) -> None:
        """Be Slurm 22.05, whose sacctmgr knows no capitals."""
        (self.folder / "small-letters").touch()

    def calls(self, name: str = "") -> list[list[str]]:
        """How the commands were called."""
        file = self.folder / "calls"
        words = iter(os.fsdecode(file.read_bytes()).split("\0") if file.exists() else ())
        calls = [list(islice(words, int(count))) for count in words if count]
        return [call for call in calls if not name or name in call[:2]]


@pytest.fixture
def programs(place: Path) -> Path:
    """Folder of the stand-in programs."""
    folder = place / "bin"
    folder.mkdir()
    return standins.install(folder)


@pytest.fixture
def slurm(place: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Slurm's commands on PATH."""
    folder = place / "slurm"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("RAD_STANDIN", str(folder))
    return FakeSlurm(folder)


def shown(number: int, **fields: str) -> str:
    """A row of squeue's in the columns that are asked for; fields by the names that `scontrol show job` has."""
    values = {
        "ArrayJobId": str(number),
        "ArrayTaskId": "N/A",
        "Requeue": "1",
        "BatchFlag": "1",
        "Restarts": "0",
        "JobState": "COMPLETING",
        "Reason": "NonZeroExitCode",
        "ExitCode": "1:0",
        "TresPerNode": "gres:mps:g1:30",
        "AdminComment": "(null)",
        "StdOut": f"/home/alice/slurm-{number}.out",
        "JobName": "train.sh",
        **fields,
    }
    return _row(zip((str(number), *values.values(), values["JobName"]), commands._COLUMNS, strict=True))


def log_row(job: int, end: str, stdout: str, stderr: str = "", **cells: str) -> str:
    """A row of squeue's in the columns in which `commands.other_logs` asks for logs."""
    values = {"JobID": str(job), "ArrayJobID": str(job), "ArrayTaskID": "N/A", "EndTime": end, "WorkDir": "/home/alice"}
    values |= {"STDOUT": stdout, "STDERR": stderr, "Name": "n", **cells}
    return _row((values[column[0].lstrip(".")], column) for column in commands._LOG_COLUMNS)


def _row(cells: Iterable[tuple[str, tuple[str, int]]]) -> str:
    """Texts in columns as squeue prints them."""
    cut = ((text.encode(errors="surrogateescape")[:width], column, width) for text, (column, width) in cells)
    filled = (text.rjust(width) if column.startswith(".") else text.ljust(width) for text, column, width in cut)
    return b"".join(filled).decode(errors="surrogateescape")


def end_row(job: int, end: str, **cells: str) -> str:
    """The same job's row in the columns in which it asks first, when jobs ended."""
    return log_row(job, end, "", **cells)[: sum(width for _, width in commands._END_COLUMNS)]


def processes_with(text: str) -> list[int]:
    """Processes whose environment holds `text`."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and text.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def kill_all(text: str) -> None:
    """End what a test has left behind: processes whose environment holds `text`."""
    deadline = time.monotonic() + 10
    while pids := [pid for pid in processes_with(text) if pid != os.getpid()]:
        assert time.monotonic() < deadline
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
