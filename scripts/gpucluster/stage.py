"""Where scenarios play: jobs through sbatch on this machine's GPUs, and what became of them.

Touches the cluster only through Slurm's commands, its users' folders, RAD's configuration, NVML and /proc.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.devcluster import ClusterError, settings
from scripts.devcluster.interpreter import for_everybody
from scripts.gpucluster.machine import CHECKOUT, Machine
from slurm_hooks.records import Record, decode

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Facts = dict[str, Any]
ALICE, BOB = "alice", "bob"
CONTROL, SERVER = "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"
_WORDS = 3  # of a command, in which the program may stand where an interpreter runs it
SAMPLE_S = 0.05


class Stage:
    """Submits jobs and reads back what became of them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.cluster = machine.cluster
        self.payload = self.cluster.layout.directory / "payload.py"
        self.payload.write_text((CHECKOUT / "scripts/gpucluster/payload.py").read_text("utf-8"), encoding="utf-8")
        rad = self.cluster.rad
        if rad is None:
            raise ClusterError("RAD takes no part in this cluster")
        self.python = for_everybody(rad.python)

    def submit(
        self, name: str, rad: str, work: str, user: str = ALICE, extra: Sequence[str] = (), before: Sequence[str] = ()
    ) -> int:
        """Submit a job that runs the payload.

        Args:
            name: of the job, its script and its log.
            rad: what follows `#RAD`.
            work: arguments of the payload after the name.
            user: whose job it is.
            extra: further lines of the script's head.
            before: commands of the script before the payload.
        """
        packages = [f"export PYTHONPATH={self.python.packages}"] if self.python.packages else []
        run = f"{self.python.python} {self.payload} {name} {work}"
        return self.script(name, rad, [*packages, "export OMP_NUM_THREADS=1", *before, run], user, extra)

    def script(self, name: str, rad: str, commands: Sequence[str], user: str = ALICE, extra: Sequence[str] = ()) -> int:
        """Submit a job of some commands; it asks for a GPU unless `extra` asks for others."""
        gres = () if any("--gres=" in line for line in extra) else ("#SBATCH --gres=gpu:1",)
        lines = ["#!/bin/bash", f"#SBATCH --job-name={name}", f"#SBATCH --output={name}.out"]
        lines += ["#SBATCH --open-mode=append", *gres, *extra, f"#RAD {rad}", *commands, ""]
        self.log(name, user).unlink(missing_ok=True)
        return self.cluster.submit("\n".join(lines), user=user).job_id

    def on_first(self) -> tuple[str, ...]:
        """What a job's head says so that it shares the first GPU with others that say so."""
        return ("#SBATCH --gres=gpu:g0:1",) if self.cluster.layout.gpus > 1 else ()

    @contextlib.contextmanager
    def configured(self, **sections: Mapping[str, Any]) -> Iterator[None]:
        """Other values in RAD's configuration for a while; hooks read it each time, daemons are started anew."""
        path = self.cluster.layout.rad_toml
        was = path.read_text("utf-8")
        data = tomllib.loads(was)
        changed = data | {name: {**data.get(name, {}), **values} for name, values in sections.items()}
        try:
            path.write_text(settings.toml(changed), encoding="utf-8")
            self._daemons_anew(sections)
            yield
        finally:
            path.write_text(was, encoding="utf-8")
            self._daemons_anew(sections)

    def _daemons_anew(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        concerned = {"rad-monitor": "monitor" in sections, "radd": "meet" in sections.get("mps", ())}
        for name in self.cluster.daemons():
            if concerned.get(name):
                self.cluster.stop(name)
                self.cluster.start(name)

    def log(self, name: str, user: str = ALICE) -> Path:
        """Where a job writes."""
        return self.cluster.home(user) / f"{name}.out"

    def text(self, name: str, user: str = ALICE) -> str:
        """What a job has written."""
        try:
            return self.log(name, user).read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def result(self, name: str, user: str = ALICE) -> Facts:
        """What a job's payload said at its end.

        Raises:
            ClusterError: if it has not come so far.
        """
        found = re.findall(r"^RESULT (\{.*\})$", self.text(name, user), re.MULTILINE)
        if not found:
            raise ClusterError(f"{name} said no result:\n{self.text(name, user)[-1500:]}")
        read: Facts = json.loads(found[-1])
        return read

    def started(self, name: str, user: str = ALICE, deadline_s: float = 40) -> None:
        """Wait for a job's first step."""
        self.cluster.wait_for(f"{name} steps", lambda: "first step at" in self.text(name, user), deadline_s)

    def ended(self, jobs: Mapping[str, int], deadline_s: float) -> dict[str, str]:
        """Wait for the end of jobs; their states by name."""
        end = time.monotonic() + deadline_s
        return {
            name: self.cluster.wait_state(number, deadline_s=max(1.0, end - time.monotonic()))
            for name, number in jobs.items()
        }

    def record(self, job: int, deadline_s: float = 20, outcome: str = "completed") -> Record:
        """A job's record once slurmdbd has a run of it that ended so."""
        known: list[Record] = []

        def there() -> bool:
            rows = self.cluster.sacct(job, "AdminComment", duplicates=True)
            for row in rows:
                record = decode(row["AdminComment"])
                if record is not None and any(run.outcome == outcome for run in record.runs):
                    known.append(record)
            return bool(known)

        self.cluster.wait_for(f"slurmdbd has the outcome of job {job}", there, deadline_s)
        return known[-1]

    def explain(self, job: int, user: str = ALICE) -> str:
        """What `radctl explain` says."""
        return self.cluster.run(["radctl", "explain", str(job)], user=user).out

    def energy_j(self, gpu: int = 0) -> float | None:
        """What a GPU has used since it was started, in joules, or None where nobody counts."""
        if not self.machine.real:
            return None
        import pynvml  # noqa: PLC0415

        pynvml.nvmlInit()
        try:
            return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(gpu))) / 1e3
        except pynvml.NVMLError:
            return None

    def gpu(self, job: int) -> str:
        """Types of the GPUs that a job holds, such as ``g0``, as Slurm allocated them."""
        found = re.findall(r"gres/(?:mps|gpu):(g\d+)=", self.cluster.job(job).get("TRES", ""))
        return ",".join(sorted(set(found)))

    def first_step(self, name: str, user: str = ALICE) -> float:
        """When a job's last run made its first step, in Unix seconds."""
        return float(re.findall(r"first step at ([\d.]+)", self.text(name, user))[-1])

    def restarts(self, job: int) -> int:
        """How often a job was requeued."""
        return int(self.cluster.job(job).get("Restarts", "0"))

    def drained(self) -> list[str]:
        """Nodes that take no jobs."""
        shown = self.cluster.run(["sinfo", "-h", "-N", "-o", "%N %T"]).out.splitlines()
        return [line for line in shown if re.search("drain|down|fail", line)]


@dataclasses.dataclass(frozen=True)
class Process:
    """A daemon or server of MPS: its number, and the pipe directory with which it was started."""

    pid: int
    pipe: str


def running(program: str) -> list[Process]:
    """MPS control daemons or servers on this machine; the control program as it asks a daemon something is none."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if not any(os.path.basename(word) == program.encode() for word in words[:_WORDS]):  # noqa: PTH119 - bytes
                continue
            if program == CONTROL and b"-d" not in words:
                continue
            env = dict(line.partition(b"=")[::2] for line in (entry / "environ").read_bytes().split(b"\0"))
        except OSError:
            continue
        found.append(Process(int(entry.name), env.get(b"CUDA_MPS_PIPE_DIRECTORY", b"").decode(errors="replace")))
    return found


def daemons() -> list[int]:
    """Numbers of the MPS control daemons that run on this machine."""
    return [process.pid for process in running(CONTROL)]


def left_after(seconds: float) -> list[int]:
    """Daemons and servers of MPS that still run after so many seconds; looks no longer than there are any."""
    end = time.monotonic() + seconds
    while (left := [process.pid for name in (CONTROL, SERVER) for process in running(name)]) and time.monotonic() < end:
        time.sleep(0.2)
    return left


def alive(pid: int) -> bool:
    """Whether a process runs, stopped or not."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


@dataclasses.dataclass(frozen=True)
class Life:
    """A control daemon as it was seen: first and last time, in Unix seconds."""

    process: Process
    first: float
    last: float


class Watcher:
    """Looks for control daemons every now and then, from a thread, as a context."""

    def __init__(self) -> None:
        self._lives: dict[Process, tuple[float, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.looks = 0
        self.longest_gap_s = SAMPLE_S

    def _watch(self) -> None:
        before = time.time()
        while not self._stop.wait(SAMPLE_S):
            now = time.time()
            self.longest_gap_s, before = max(self.longest_gap_s, now - before), now
            for process in running(CONTROL):
                self._lives[process] = (self._lives.get(process, (now, now))[0], now)
            self.looks += 1

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def lives(self, at_least_s: float = 4 * SAMPLE_S) -> list[Life]:
        """Daemons that were seen for some time: the one that starts another is there for a moment only."""
        found = [Life(process, first, last) for process, (first, last) in self._lives.items()]
        return sorted((life for life in found if life.last - life.first >= at_least_s), key=lambda life: life.first)
