"""The scenarios: jobs through sbatch on this machine's GPU, what was measured of them, and what that shows.

Each function takes a `Stage` and returns facts as plain values; ``checks`` among them says what had to hold and
whether it did. Touches the cluster only through Slurm's commands, its users' folders and NVML.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from scripts.demo_data import resnet50
from scripts.gpucluster.faults import cancelled, client_fault, daemon_hung, over_allotment, races
from scripts.gpucluster.machine import GRACE_S
from scripts.gpucluster.sharing import partitioned, spread, streams, users_apart
from scripts.gpucluster.stage import ALICE, BOB, Facts, Stage, daemons, left_after
from slurm_hooks.node import mps_slots
from slurm_hooks.records import Record

ALONE_S = 7
MIXED = (("cnn", 16), ("transformer", 8), ("mlp", 256), ("infer", 8))
LEARN_S = 7.0  # [radd] learn_s, and a little
RESTART_S = 2.0  # RestartSec of the units in etc/systemd
TOP_S = 2.0  # rad-monitor has looked at the last job's processes by then
MONITOR_CHANGE_S = 1.0  # rad-monitor is up or gone by then


def collocated(stage: Stage) -> Facts:
    """Three trainings and an inference job: one after another on the whole GPU, then together."""
    work = {"cnn": ("cnn", 32), "transformer": ("transformer", 8), "mlp": ("mlp", 512), "infer": ("infer", 8)}

    def together(kind: str, rad: str, amount: Callable[[str], str]) -> Facts:
        energy, begin = stage.energy_j(), time.time()
        jobs = {
            f"{name}-{kind}": stage.submit(f"{name}-{kind}", rad, f"{model} --batch {batch} {amount(name)}")
            for name, (model, batch) in work.items()
        }
        top = _top(stage, list(jobs)) if kind == "shared" else ""
        states = stage.ended(jobs, 110)
        end, after = time.time(), stage.energy_j()
        results = {name: stage.result(f"{name}-{kind}") for name in work}
        return {
            "makespan_s": end - begin,
            "stepping_s": max(r["end"] for r in results.values()) - min(r["begin"] for r in results.values()),
            "energy_j": None if energy is None or after is None else after - energy,
            "states": states,
            "results": results,
            "top": top,
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


def _top(stage: Stage, names: Sequence[str]) -> str:
    """What `radctl top` shows while these jobs step, once rad-monitor has seen them."""
    for name in names:
        stage.started(name)
    time.sleep(TOP_S)
    return stage.cluster.run(["radctl", "top", "--once"]).out


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
    left = left_after(most)
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
            f"no MPS daemon or server was left {most:g} s later": not left,
        },
    }


def _tres(stage: Stage, job: int) -> str:
    return stage.cluster.job(job).get("TresPerNode", "")


def two_users(stage: Stage, seconds: float = 6) -> Facts:
    """Jobs of two users on one GPU at the same time."""
    shared = stage.machine.settings().mps.users == "multi"
    users = (ALICE, BOB)
    jobs = {
        user: stage.submit(
            f"of-{user}", "memory=6G", f"cnn --batch 32 --seconds {seconds}", user, extra=stage.on_first()
        )
        for user in users
    }
    for user in users:
        stage.started(f"of-{user}", user)
    slots = [slot.name for slot in mps_slots.slots(stage.machine.settings().mps)]
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
    before = stage.submit("before", "memory=6G", "cnn --batch 32 --seconds 14", extra=stage.on_first())
    stage.started("before")
    killed = daemons()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    at = time.time()
    after = stage.submit("after", "memory=6G", "cnn --batch 32 --seconds 3", extra=stage.on_first())
    stage.started("after", deadline_s=45)
    begin = stage.first_step("after")
    running = daemons()
    states = stage.ended({"before": before, "after": after}, 60)
    outcomes = [run.outcome for run in stage.record(before, deadline_s=40).runs]
    return {
        "states": states,
        "outcomes": outcomes,
        "killed": len(killed),
        "daemons_after": len(running),
        "first_step_of_next_after_s": begin - at,
        "restarts": {"before": stage.restarts(before), "after": stage.restarts(after)},
        "log_before": stage.text("before")[-2500:],
        "explain_before": stage.explain(before),
        "checks": {
            "a daemon was killed": not stage.machine.real or len(killed) == 1,
            "the next job completed": states["after"] == "COMPLETED",
            "the job under it was requeued as a victim, without blame, and completed": states["before"] == "COMPLETED"
            and outcomes == [*(["mps_victim"] if stage.machine.real else []), "completed"],
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
        stage.ended(running, 90)  # a job whose Epilog dies with slurmd ends minutes later
        under, after = f"under-{name}", f"after-{name}"
        running[under] = stage.submit(under, "memory=6G", f"cnn --batch 32 --seconds {seconds}")
        stage.started(under)
        cluster.signal(name, signal.SIGKILL)
        at = time.time()
        cluster.wait_for(f"{name} is gone", lambda name=name: not cluster.is_up(name), 10)  # type: ignore[misc]
        time.sleep(RESTART_S)
        cluster.start(name)
        back = time.time()
        if name == "radd":
            cluster.wait_until_radd_sees()  # before, it may not know yet that nodes have shares
        running[after] = stage.submit(after, "memory=6G", "cnn --batch 32 --seconds 2")
        stage.started(after, deadline_s=120)  # a launch that meets no slurmd is tried again late
        rows.append({"killed": name, "back_s": back - at, "first_step_of_next_s": stage.first_step(after) - at})
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


def monitored(stage: Stage, rounds: int = 8, seconds: float = 2.5) -> Facts:
    """A training's steps a second with rad-monitor and without it, in turn, within one process.

    Each round has both, so what drifts slowly falls out of their difference.
    """
    begun: list[tuple[str, float]] = []
    long = 2 * rounds * (seconds + 2 * MONITOR_CHANGE_S) + 5
    job = stage.submit("paced", "memory=6G", f"mlp --batch 64 --seconds {long:g}")
    stage.started("paced")
    for number in range(rounds):
        for kind in ("without", "with") if number % 2 else ("with", "without"):
            if kind == "with":
                stage.cluster.start("rad-monitor")
            else:
                stage.cluster.stop("rad-monitor")
            time.sleep(MONITOR_CHANGE_S)
            begun.append((kind, time.time()))
            time.sleep(seconds)
    stage.cluster.start("rad-monitor")
    states = stage.ended({"paced": job}, 60)
    result = stage.result("paced")
    speeds: dict[str, list[float]] = {"with": [], "without": []}
    for kind, at in begun:
        first = math.ceil((at - result["begin"]) / result["slice_s"])
        steps = result["steps_by_slice"][first : first + int(seconds / result["slice_s"])]
        speeds[kind].append(sum(steps) / (len(steps) * result["slice_s"]))
    alone = statistics.mean(speeds["without"])
    differences = [(w - wo) / alone for w, wo in zip(speeds["with"], speeds["without"], strict=True)]
    change, error = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(rounds)
    return {
        "speeds": speeds,
        "change": change,
        "standard_error": error,
        "states": states,
        "checks": {
            "the training completed": set(states.values()) == {"COMPLETED"},
            "it is slower by less than two standard errors, or than 1 %": change >= -max(2 * error, 0.01),
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
    "daemon-hung": daemon_hung,
    "client-fault": client_fault,
    "cancelled": cancelled,
    "over-allotment": over_allotment,
    "races": races,
    "streams": streams,
    "spread": spread,
    "users-apart": users_apart,
    "partitioned": partitioned,
}
