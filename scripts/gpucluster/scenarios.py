"""The scenarios: jobs through sbatch on this machine's GPU, what was measured of them, and what that shows.

Each function takes a `Stage` and returns facts as plain values; ``checks`` among them says what had to hold and
whether it did. Touches the cluster only through Slurm's commands, its users' folders and NVML.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.demo_data import resnet50
from scripts.devcluster import ClusterError
from scripts.devcluster.interpreter import for_everybody
from scripts.gpucluster.machine import CHECKOUT, GRACE_S, Machine
from slurm_hooks.node import mps
from slurm_hooks.records import Record, decode

Facts = dict[str, Any]
ALONE_S = 7
ALICE, BOB = "alice", "bob"
MIXED = (("cnn", 16), ("transformer", 8), ("mlp", 256), ("infer", 8))
LEARN_S = 7.0  # [radd] learn_s, and a little
RESTART_S = 2.0  # RestartSec of the units in etc/systemd


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

    def submit(self, name: str, rad: str, work: str, user: str = ALICE, extra: Sequence[str] = ()) -> int:
        """Submit a job.

        Args:
            name: of the job, its script and its log.
            rad: what follows `#RAD`.
            work: arguments of the payload after the name.
            user: whose job it is.
            extra: further lines of the script's head.
        """
        packages = f"export PYTHONPATH={self.python.packages}" if self.python.packages else ""
        lines = ["#!/bin/bash", f"#SBATCH --job-name={name}", "#SBATCH --gres=gpu:1", f"#SBATCH --output={name}.out"]
        lines += ["#SBATCH --open-mode=append", *extra, f"#RAD {rad}", packages, "export OMP_NUM_THREADS=1"]
        lines += [f"{self.python.python} {self.payload} {name} {work}", ""]
        self.log(name, user).unlink(missing_ok=True)
        return self.cluster.submit("\n".join(lines), user=user).job_id

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

    def record(self, job: int, deadline_s: float = 20) -> Record:
        """A job's record once slurmdbd has how its last run ended."""
        known: list[Record] = []

        def there() -> bool:
            rows = self.cluster.sacct(job, "AdminComment", duplicates=True)
            for row in rows:
                record = decode(row["AdminComment"])
                if record is not None and any(run.outcome == "completed" for run in record.runs):
                    known.append(record)
            return bool(known)

        self.cluster.wait_for(f"slurmdbd has the outcome of job {job}", there, deadline_s)
        return known[-1]

    def explain(self, job: int, user: str = ALICE) -> str:
        """What `radctl explain` says."""
        return self.cluster.run(["radctl", "explain", str(job)], user=user).out

    def energy_j(self) -> float | None:
        """What the GPU has used since it was started, in joules, or None where nobody counts."""
        if not self.machine.real:
            return None
        import pynvml  # noqa: PLC0415

        pynvml.nvmlInit()
        try:
            return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0))) / 1e3
        except pynvml.NVMLError:
            return None

    def restarts(self, job: int) -> int:
        """How often a job was requeued."""
        return int(self.cluster.job(job).get("Restarts", "0"))

    def drained(self) -> list[str]:
        """Nodes that take no jobs."""
        shown = self.cluster.run(["sinfo", "-h", "-N", "-o", "%N %T"]).out.splitlines()
        return [line for line in shown if re.search("drain|down|fail", line)]


def daemons() -> list[int]:
    """MPS control daemons that run on this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words and os.path.basename(words[0]) == b"nvidia-cuda-mps-control":  # noqa: PTH119 - bytes
                found.append(int(entry.name))
    return found


def collocated(stage: Stage) -> Facts:
    """Three trainings and an inference job: one after another on the whole GPU, then together."""
    work = {"cnn": ("cnn", 32), "transformer": ("transformer", 8), "mlp": ("mlp", 512), "infer": ("infer", 8)}

    def together(kind: str, rad: str, amount: Callable[[str], str]) -> Facts:
        energy, begin = stage.energy_j(), time.time()
        jobs = {
            f"{name}-{kind}": stage.submit(f"{name}-{kind}", rad, f"{model} --batch {batch} {amount(name)}")
            for name, (model, batch) in work.items()
        }
        states = stage.ended(jobs, 110)
        end, after = time.time(), stage.energy_j()
        results = {name: stage.result(f"{name}-{kind}") for name in work}
        return {
            "makespan_s": end - begin,
            "stepping_s": max(r["end"] for r in results.values()) - min(r["begin"] for r in results.values()),
            "energy_j": None if energy is None or after is None else after - energy,
            "states": states,
            "results": results,
        }

    alone = together("alone", "policy=exclusive", lambda name: f"--seconds {ALONE_S}")
    shared = together("shared", "memory=6G", lambda name: f"--steps {alone['results'][name]['steps']}")
    rows = [
        {
            "job": name,
            "steps": alone["results"][name]["steps"],
            "alone_s": alone["results"][name]["seconds"],
            "shared_s": shared["results"][name]["seconds"],
            "slowdown": shared["results"][name]["seconds"] / alone["results"][name]["seconds"],
        }
        for name in work
    ]
    return {
        "alone": alone,
        "shared": shared,
        "table": rows,
        "checks": {
            "all eight jobs completed": {*alone["states"].values(), *shared["states"].values()} == {"COMPLETED"},
            "together they end sooner than one after another": shared["makespan_s"] < alone["makespan_s"],
        },
    }


def under_declared(stage: Stage) -> Facts:
    """A job that declares half of what it needs, beside one that does not."""
    neighbour = stage.submit("neighbour", "memory=6G", "cnn --batch 32 --seconds 32")
    stage.started("neighbour")
    submitted = time.time()
    greedy = stage.submit("greedy", "memory=4G", "mlp --batch 256 --hold 7 --seconds 2")
    states = stage.ended({"greedy": greedy}, 60)
    done = time.time()
    states |= stage.ended({"neighbour": neighbour}, 40)
    record, beside = stage.record(greedy), stage.result("neighbour")
    text = stage.text("greedy")
    return {
        "states": states,
        "greedy_s": done - submitted,
        "neighbour": beside,
        "greedy": stage.result("greedy"),
        "runs": [
            {
                "share": r.share,
                "cap_mib": r.cap_mib,
                "peak_mib": r.peak_mib,
                "outcome": r.outcome,
                "evidence": r.evidence,
            }
            for r in record.runs
        ],
        "explain": stage.explain(greedy),
        "log": text[-3000:],
        "checks": {
            "it died of torch.OutOfMemoryError at its cap": "OutOfMemoryError" in record.runs[0].evidence,
            "it was requeued once, with a larger share": stage.restarts(greedy) == 1
            and [r.outcome for r in record.runs] == ["oom_requeued", "completed"]
            and (record.runs[1].share or 0) > (record.runs[0].share or 0),
            "it finished": states["greedy"] == "COMPLETED",
            "the neighbour finished in its first run": states["neighbour"] == "COMPLETED"
            and stage.restarts(neighbour) == 0,
            "no step of the neighbour took over a second": beside["longest_step_ms"] < 1000,
        },
    }


def learned(stage: Stage) -> Facts:
    """The same model twice: the second submission is decided from what was measured of the first."""
    (stage.cluster.home(ALICE) / "resnet50.txt").write_text(resnet50(), encoding="utf-8")
    rad, work = "model=resnet50.txt batch_size=32 optimizer=adam", "resnet50 --batch 32 --seconds"
    first = stage.submit("first", rad, f"{work} 10")
    states = stage.ended({"first": first}, 50)
    before = stage.record(first)
    time.sleep(LEARN_S)
    second = stage.submit("second", rad, f"{work} 4")
    states |= stage.ended({"second": second}, 40)
    after = stage.record(second)
    peak = max((run.peak_mib or 0 for run in before.runs), default=0)
    return {
        "states": states,
        "first": _estimate(before),
        "second": _estimate(after),
        "explain_first": stage.explain(first),
        "explain_second": stage.explain(second),
        "checks": {
            "the first run's peak was measured": peak > 0,
            "the second was decided from it": after.method == "history" and after.expected_mib == peak,
            "radctl explain says so": "measured in earlier runs" in stage.explain(second),
            "both completed": set(states.values()) == {"COMPLETED"},
        },
    }


def _estimate(record: Record) -> Facts:
    run = record.runs[-1]
    return {
        "method": record.method,
        "expected_mib": record.expected_mib,
        "upper_mib": record.upper_mib,
        "share": record.share,
        "cap_mib": record.cap_mib,
        "peak_mib": run.peak_mib,
        "smact_mean": run.smact_mean,
        "smocc_mean": run.smocc_mean,
        "dram_mean": run.dram_mean,
        "energy_j": run.energy_j,
        "reasons": list(record.reasons),
    }


def burst(stage: Stage, count: int = 50) -> Facts:
    """Many short jobs at once, two of which claim too little."""
    begin = time.time()
    jobs = {}
    for index in range(count):
        model, batch = MIXED[index % len(MIXED)]
        greedy = index in (7, 15)
        claim = "memory=2G" if greedy else f"memory={2 + index % 4}G"
        name = f"greedy-{index}" if greedy else f"burst-{index}"
        jobs[name] = stage.submit(name, claim, f"{model} --batch {batch} --seconds 3{' --hold 3' if greedy else ''}")
    states = stage.ended(jobs, 150)
    makespan = time.time() - begin
    restarts = {name: stage.restarts(number) for name, number in jobs.items()}
    most = GRACE_S + 15.0
    left = daemons()
    end = time.monotonic() + most
    while left and time.monotonic() < end:
        time.sleep(0.2)
        left = daemons()
    return {
        "jobs": count,
        "makespan_s": makespan,
        "states": states,
        "restarts": restarts,
        "daemons_left": len(left),
        "drained": stage.drained(),
        "table": [
            {"job": name, "state": states[name], "requeued": restarts[name], "request": _tres(stage, jobs[name])}
            for name in jobs
        ],
        "checks": {
            "all completed": set(states.values()) == {"COMPLETED"},
            "none but those that claimed too little was requeued": not any(
                restarts[name] for name in jobs if name.startswith("burst")
            ),
            "no node was drained": not stage.drained(),
            f"no MPS daemon was left {most:g} s later": not left,
        },
    }


def _tres(stage: Stage, job: int) -> str:
    return stage.cluster.job(job).get("TresPerNode", "")


def two_users(stage: Stage, seconds: float = 6) -> Facts:
    """Jobs of two users on one GPU at the same time."""
    shared = stage.machine.settings().mps.users == "multi"
    users = (ALICE, BOB)
    jobs = {
        user: stage.submit(f"of-{user}", "memory=6G", f"cnn --batch 32 --seconds {seconds}", user) for user in users
    }
    for user in users:
        stage.started(f"of-{user}", user)
    slots = [slot.name for slot in mps.slots(stage.machine.settings().mps)]
    running = len(daemons())
    states = stage.ended(jobs, 40)
    results = {user: stage.result(f"of-{user}", user) for user in users}
    overlap = min(r["end"] for r in results.values()) - max(r["begin"] for r in results.values())
    return {
        "states": states,
        "results": results,
        "overlap_s": overlap,
        "slots": slots,
        "daemons": running,
        "checks": {
            "both completed": set(states.values()) == {"COMPLETED"},
            "both stepped at the same time": overlap > 1,
            f"they had {'one daemon' if shared else 'a daemon each'}": not stage.machine.real
            or running == len(slots) == (1 if shared else 2),
        },
    }


def daemon_killed(stage: Stage) -> Facts:
    """`kill -9` of the MPS control daemon under a running job; then another job."""
    before = stage.submit("before", "memory=6G", "cnn --batch 32 --seconds 14")
    stage.started("before")
    killed = daemons()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    at = time.time()
    after = stage.submit("after", "memory=6G", "cnn --batch 32 --seconds 3")
    stage.started("after", deadline_s=45)
    begin = float(re.findall(r"first step at ([\d.]+)", stage.text("after"))[-1])
    running = daemons()
    states = stage.ended({"before": before, "after": after}, 60)
    return {
        "states": states,
        "killed": len(killed),
        "daemons_after": len(running),
        "first_step_of_next_after_s": begin - at,
        "restarts": {"before": stage.restarts(before), "after": stage.restarts(after)},
        "log_before": stage.text("before")[-2500:],
        "explain_before": stage.explain(before),
        "checks": {
            "a daemon was killed": not stage.machine.real or len(killed) == 1,
            "the next job completed": states["after"] == "COMPLETED",
            "the job under it completed, in this run or the next": states["before"] == "COMPLETED",
            "no node was drained": not stage.drained(),
        },
    }


def services_killed(stage: Stage, seconds: float = 14) -> Facts:
    """`kill -9` of radd, rad-monitor and slurmd in turn, each under a running job; then another job."""
    cluster = stage.cluster
    rows: list[Facts] = []
    running: dict[str, int] = {}
    for name in cluster.daemons():
        if name not in ("radd", "rad-monitor") and not name.startswith("slurmd-"):
            continue
        under, after = f"under-{name}", f"after-{name}"
        running[under] = stage.submit(under, "memory=6G", f"cnn --batch 32 --seconds {seconds}")
        stage.started(under)
        cluster.signal(name, signal.SIGKILL)
        at = time.time()
        cluster.wait_for(f"{name} is gone", lambda name=name: not cluster.is_up(name), 10)  # type: ignore[misc]
        time.sleep(RESTART_S)
        cluster.start(name)
        back = time.time()
        running[after] = stage.submit(after, "memory=6G", "cnn --batch 32 --seconds 2")
        stage.started(after, deadline_s=45)
        first = float(re.findall(r"first step at ([\d.]+)", stage.text(after))[-1])
        rows.append({"killed": name, "back_s": back - at, "first_step_of_next_s": first - at})
    states = stage.ended(running, 90)
    records = {name: stage.record(job, deadline_s=60) for name, job in running.items()}
    for row in rows:
        name = f"under-{row['killed']}"
        row |= {"state_of_the_job_under_it": states[name], "requeued": stage.restarts(running[name])}
    return {
        "table": rows,
        "states": states,
        "checks": {
            "every job completed in its first run": set(states.values()) == {"COMPLETED"}
            and not any(stage.restarts(job) for job in running.values()),
            "every job shared its GPU": {record.action for record in records.values()} == {"share"},
            "every record has its outcome": all(record.runs for record in records.values()),
            "no node was drained": not stage.drained(),
        },
    }


def monitored(stage: Stage, rounds: int = 3, seconds: float = 4) -> Facts:
    """A training's steps a second with rad-monitor and without it, in turn."""
    speeds: dict[str, list[float]] = {"with": [], "without": []}
    states: dict[str, str] = {}
    for number in range(rounds):
        for kind in ("without", "with") if number % 2 else ("with", "without"):
            if kind == "with":
                stage.cluster.start("rad-monitor")
            else:
                stage.cluster.stop("rad-monitor")
            name = f"{kind}-{number}"
            states |= stage.ended({name: stage.submit(name, "memory=6G", f"mlp --batch 64 --seconds {seconds}")}, 60)
            result = stage.result(name)
            speeds[kind].append(result["steps"] / result["seconds"])
    stage.cluster.start("rad-monitor")
    middle = {kind: sorted(values)[len(values) // 2] for kind, values in speeds.items()}
    spread = max(max(values) - min(values) for values in speeds.values()) / middle["without"]
    change = middle["with"] / middle["without"] - 1
    return {
        "speeds": speeds,
        "median_with": middle["with"],
        "median_without": middle["without"],
        "change": change,
        "spread": spread,
        "states": states,
        "checks": {
            "all completed": set(states.values()) == {"COMPLETED"},
            "the change is within the noise between repeats": abs(change) <= spread,
        },
    }


SCENARIOS: Mapping[str, Callable[[Stage], Facts]] = {
    "collocated": collocated,
    "under-declared": under_declared,
    "learned": learned,
    "burst": burst,
    "two-users": two_users,
    "daemon-killed": daemon_killed,
    "services-killed": services_killed,
    "monitored": monitored,
}
