"""Scenarios of where jobs go and how they share: several GPUs, and time slicing without MPS.

Like those in `scenarios`, each takes a `Stage` and returns facts with ``checks``, or ``not_shown`` with the reason.
"""

from __future__ import annotations

import math
import os
import re
import signal
import time
import urllib.request

from scripts.demo_data import resnet50
from scripts.gpucluster.machine import GRACE_S, MONITOR_PORT
from scripts.gpucluster.stage import ALICE, BOB, CONTROL, Facts, Stage, left_after, running
from slurm_hooks.memory import memory_of
from slurm_hooks.shares import WHOLE_GPU

STREAMS = "#SBATCH --partition=streams"
LIMITED = "#SBATCH --partition=limited"
GRAIN = 0.07  # MPS gives multiprocessors in groups


def spread(stage: Stage) -> Facts:
    """Several GPUs: a full one sends jobs to the next, and one GPU's trouble is no other's."""
    count = stage.cluster.layout.gpus
    if count < 2:
        return {"not_shown": f"it needs two GPUs, and this machine has {count}", "checks": {}}
    config = stage.machine.settings()
    most = max(memory_of(partition) for partition in config.partitions.values())
    large = f"memory={int(0.55 * most / 1024)}G"  # two of these do not fit on one GPU
    seconds = 26
    energy = [stage.energy_j(gpu) for gpu in range(count)]
    jobs = {"here": stage.submit("here", large, f"cnn --batch 32 --seconds {seconds}")}
    stage.started("here")
    jobs["there"] = stage.submit("there", large, f"cnn --batch 32 --seconds {seconds}")
    stage.started("there")
    places = {name: stage.gpu(job) for name, job in jobs.items()}
    seen = _seen(stage, jobs)
    slots = {process.pid: process.pipe for process in running(CONTROL)}
    wanted = f"/g{places['here'][1:]}/"
    killed = [pid for pid, pipe in slots.items() if wanted in pipe]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    at = time.time()
    small = stage.submit("small", "memory=6G", "mlp --batch 64 --seconds 2")
    states = stage.ended({"small": small}, 60)
    spared = {process.pid for process in running(CONTROL)} & (set(slots) - set(killed))
    states |= stage.ended(jobs, 120)
    there = stage.result("there")
    used = [
        None if before is None or after is None else after - before
        for before, after in zip(energy, (stage.energy_j(gpu) for gpu in range(count)), strict=True)
    ]
    whole = _whole(stage, count)
    records = {name: stage.record(job, deadline_s=40) for name, job in jobs.items()}
    joules = {name: [run.energy_j for run in record.runs] for name, record in records.items()}
    return {
        "gpus": count,
        "places": places,
        "seen_by_monitor": seen,
        "energy_of_gpus_j": used,
        "energy_of_jobs_j": joules,
        "killed": len(killed),
        "there": there,
        "restarts": {name: stage.restarts(job) for name, job in jobs.items()},
        "small_began_s": stage.first_step("small") - at,
        "whole_places": whole["places"],
        "both": whole["both"],
        "states": {**states, **whole["states"]},
        "checks": {
            "the second job went to another GPU": places["here"] != places["there"],
            "rad-monitor saw each job on its own GPU": not stage.machine.real
            or all(seen.get(name) == [place[1:]] for name, place in places.items()),
            "each job's energy was counted, and no more than its GPU used": not stage.machine.real
            or all(0 < sum(e or 0 for e in joules[name]) <= (used[int(places[name][1:])] or 0) for name in jobs),
            "the daemon of the first GPU was killed": not stage.machine.mps or len(killed) == 1,
            "its job completed, in this run or the next": states["here"] == "COMPLETED",
            "the other GPU's daemon stayed": not stage.machine.mps or len(spared) == len(slots) - len(killed),
            "the other GPU's job was not requeued": states["there"] == "COMPLETED"
            and stage.restarts(jobs["there"]) == 0,
            "none of its steps took over a second": there["longest_step_ms"] < 1000,
            **whole["checks"],
        },
    }


def users_apart(stage: Stage) -> Facts:
    """Users who never meet on a GPU (`[mps] meet = "wait"`): one's job waits while the other has all GPUs."""
    if stage.machine.settings().mps.users == "multi":
        return {"not_shown": "users share a server here", "checks": {}}
    most = max(memory_of(partition) for partition in stage.machine.settings().partitions.values())
    large = f"memory={int(0.55 * most / 1024)}G"  # two of these do not fit on one GPU
    stop = stage.cluster.home(ALICE) / "stop"
    stop.unlink(missing_ok=True)
    with stage.configured(mps={"meet": "wait"}):
        stage.cluster.wait_until_radd_sees()
        names = [f"hers-{index}" for index in range(stage.cluster.layout.gpus)]
        jobs = {name: stage.submit(name, large, f"cnn --batch 32 --until {stop}") for name in names}
        for name in names:
            stage.started(name)
        places = {stage.gpu(job): name for name, job in jobs.items()}
        stage.cluster.wait_until_radd_sees()
        his = stage.submit("his", "memory=6G", "cnn --batch 32 --seconds 2", user=BOB)
        stage.cluster.wait_for(
            "Slurm has tried to start it", lambda: stage.cluster.job(his)["Reason"] in ("Resources", "Priority"), 60
        )
        waiting, running = stage.cluster.state(his), {name: stage.cluster.state(job) for name, job in jobs.items()}
        stop.touch()
        stage.cluster.wait_state(his, "RUNNING", deadline_s=60)
        place = stage.gpu(his)
        states = stage.ended({"his": his, **jobs}, 60)
    record, begin = stage.record(his), stage.result("his", BOB)["process_begin"]
    before = stage.result(places[place])["end"] if place in places else math.inf
    return {
        "states": states,
        "seen": {"his": waiting, **running},
        "place": place,
        "began_after_s": begin - before,
        "explain": stage.explain(his, BOB),
        "checks": {
            "each GPU had one of her jobs": len(places) == len(jobs) and "" not in places,
            "his job waited in the queue while hers ran": waiting == "PENDING" and set(running.values()) == {"RUNNING"},
            "it began on a GPU that her job had left": begin >= before,
            "it had that GPU for itself": record.share == WHOLE_GPU,
            "all completed, none requeued": set(states.values()) == {"COMPLETED"}
            and not any(stage.restarts(job) for job in (his, *jobs.values())),
        },
    }


def _whole(stage: Stage, count: int) -> Facts:
    """An exclusive job beside sharing ones, and then one that asks for two GPUs."""
    jobs = {"alone": stage.submit("alone", "policy=exclusive", "cnn --batch 32 --seconds 12")}
    stage.cluster.wait_state(jobs["alone"], "RUNNING")
    for index in range(count):  # one more than there are GPUs left
        name = f"sharing-{index}"
        jobs[name] = stage.submit(name, "memory=6G", "mlp --batch 64 --seconds 4")
    places = dict.fromkeys(jobs, "")

    def placed() -> bool:
        places.update({name: stage.gpu(job) for name, job in jobs.items()})
        return all(stage.cluster.state(job) != "PENDING" for job in jobs.values())

    stage.cluster.wait_for("all of them have begun", placed, 40)
    states = stage.ended(jobs, 90)
    both = stage.submit("both", "memory=6G", "mlp --batch 64 --seconds 2", extra=["#SBATCH --gres=gpu:2"])
    states |= stage.ended({"both": both}, 60)
    shown = re.findall(r'"CUDA_VISIBLE_DEVICES": "([^"]*)"', stage.text("both"))
    record = stage.record(both)
    return {
        "places": places,
        "both": {"gpus": stage.gpu(both), "visible": shown, "action": record.action, "reasons": list(record.reasons)},
        "states": states,
        "checks": {
            "an exclusive job had its GPU for itself": places["alone"]
            not in {place for name, place in places.items() if name != "alone"},
            "the others shared the GPUs that were left": len(set(places.values())) <= count,
            "a job of two GPUs was left as it was written": len(stage.gpu(both).split(",")) == 2
            and "CUDA_MPS_PIPE_DIRECTORY" not in stage.text("both")
            and record.action not in ("share", "exclusive"),
            "all of these completed": set(states.values()) == {"COMPLETED"},
        },
    }


def _seen(stage: Stage, jobs: dict[str, int]) -> dict[str, list[str]]:
    """GPUs on which rad-monitor sees each job."""
    if not stage.machine.real:
        return {}
    found: dict[str, list[str]] = {}

    def all_there() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{MONITOR_PORT}/metrics", timeout=3) as page:
            text = page.read().decode()
        for name, job in jobs.items():
            lines = re.findall(r"^rad_job_processes\{([^}]*)\}", text, re.MULTILINE)
            labels = [dict(re.findall(r'(\w+)="([^"]*)"', line)) for line in lines]
            found[name] = sorted(label["gpu"] for label in labels if label.get("hpc_job") == str(job))
        return all(found.values())

    stage.cluster.wait_for("rad-monitor sees the jobs", all_there, 15)
    return found


def streams(stage: Stage, seconds: float = 6) -> Facts:
    """Two trainings on one GPU by time slicing, without MPS (`method = "streams"`), and the same two under MPS."""
    work = {"cnn": "cnn --batch 32", "mlp": "mlp --batch 256"}
    rows: list[Facts] = []
    states: dict[str, str] = {}
    checks: dict[str, bool] = {}
    left_after(GRACE_S + 15)  # daemons of earlier jobs
    for method, extra in (("streams", [STREAMS, *stage.on_first()]), ("mps", stage.on_first())):
        jobs = {
            name: stage.submit(f"{name}-{method}", "memory=6G", f"{what} --seconds {seconds}", extra=extra)
            for name, what in work.items()
        }
        for name in jobs:
            stage.started(f"{name}-{method}")
        daemons = running(CONTROL)
        places = {stage.gpu(job) for job in jobs.values()}
        states |= {f"{name}-{method}": state for name, state in stage.ended(jobs, 60).items()}
        results = {name: stage.result(f"{name}-{method}") for name in work}
        overlap = min(r["end"] for r in results.values()) - max(r["begin"] for r in results.values())
        rows += [
            {
                "method": method,
                "job": name,
                "steps_a_second": result["steps"] / result["seconds"],
                "longest_step_ms": result["longest_step_ms"],
            }
            for name, result in results.items()
        ]
        texts = [stage.text(f"{name}-{method}") for name in work]
        checks[f"{method}: both on one GPU"] = len(places) == 1 and "" not in places
        checks[f"{method}: both stepped at the same time"] = overlap > 1
        if method == "streams":
            records = [stage.record(job) for job in jobs.values()]
            checks["streams: no daemon was started"] = not daemons
            checks["streams: nothing of MPS in the jobs' environment"] = not any("CUDA_MPS" in text for text in texts)
            checks["streams: they held shares"] = all(
                record.action == "share" and (record.share or 100) < 100 for record in records
            )
    checks["all completed"] = set(states.values()) == {"COMPLETED"}
    return {"table": rows, "states": states, "checks": checks}


def partitioned(stage: Stage, seconds: float = 5) -> Facts:
    """A heavy job comes beside a light one, with all threads and with the percentage that the predictor chooses.

    Both are ResNet-50 trainings, of 128 and of 8 images a step; the light one runs through all of it.
    """
    (stage.cluster.home(ALICE) / "resnet50.txt").write_text(resnet50(), encoding="utf-8")

    def rad(batch: int) -> str:
        return f"model=resnet50.txt batch_size={batch} optimizer=adam"

    stage.cluster.wait_until_radd_sees()  # the nodes, after `up`
    stop = stage.cluster.home(ALICE) / "stop"
    stop.unlink(missing_ok=True)
    work = f"resnet50 --batch 8 --until {stop}"
    jobs = {"resident": stage.submit("resident", rad(8), work, extra=stage.on_first())}
    stage.started("resident", deadline_s=60)
    first = stage.first_step("resident")
    time.sleep(max(0.0, first + seconds - time.time()))
    states: dict[str, str] = {}
    for name, extra in (("free", ()), ("limited", (LIMITED,))):
        work = f"resnet50 --batch 128 --seconds {seconds:g}"
        jobs[name] = stage.submit(name, rad(128), work, extra=[*extra, *stage.on_first()])
        states |= stage.ended({name: jobs[name]}, 60)
        stage.cluster.wait_until_radd_sees()  # that it has gone
    explained = stage.explain(jobs["limited"])
    stop.touch()
    states |= stage.ended({"resident": jobs["resident"]}, 60)
    jobs["alone"] = stage.submit("alone", rad(128), work, extra=stage.on_first())
    states |= stage.ended({"alone": jobs["alone"]}, 40)
    results = {name: stage.result(name) for name in jobs}
    records = {name: stage.record(jobs[name]) for name in ("free", "limited")}
    own = _pace(results["resident"], first, first + seconds)
    alone = results["alone"]["steps"] / results["alone"]["seconds"]
    rows = []
    for name in ("free", "limited"):
        result, record = results[name], records[name]
        beside = _pace(results["resident"], result["begin"], result["end"])
        rows.append(
            {
                "newcomer": name,
                "threads": record.thread_percentage,
                "multiprocessors": result.get("multiprocessors"),
                "newcomer_progress": result["steps"] / result["seconds"] / alone,
                "resident_progress": beside / own,
                "predicted_newcomer": record.progress,
                "predicted_resident": record.residents_progress[0] if record.residents_progress else None,
            }
        )
    percentage = records["limited"].thread_percentage or 0
    every, some = (results[name].get("multiprocessors") or 0 for name in ("free", "limited"))
    overlap = all(results[name]["end"] < results["resident"]["end"] for name in ("free", "limited"))
    return {
        "table": rows,
        "resident_alone": own,
        "newcomer_alone": alone,
        "reasons": list(records["limited"].reasons),
        "explain": explained,
        "states": states,
        "checks": {
            "all completed": set(states.values()) == {"COMPLETED"},
            "both newcomers ran beside the resident": overlap,
            "a job gets all threads by default": records["free"].thread_percentage == 100,
            "the predictor chose a limit": 0 < percentage < 100,
            "radctl explain names it": f"{percentage} % of the GPU's threads" in explained,
            "the job had it in its environment": not stage.machine.mps
            or f'"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "{percentage}"' in stage.text("limited"),
            "the job had that part of the multiprocessors": not stage.machine.real
            or abs(some / max(every, 1) - percentage / 100) < GRAIN,
            "the resident progressed more beside it": not stage.machine.real
            or rows[1]["resident_progress"] > rows[0]["resident_progress"],
        },
    }


def _pace(result: Facts, begin: float, end: float) -> float:
    """Steps a second of a payload between two moments, by its slices."""
    first, last = ((moment - result["begin"]) / result["slice_s"] for moment in (begin, end))
    steps = result["steps_by_slice"][math.ceil(first) : max(int(last), math.ceil(first) + 1)]
    return float(sum(steps) / (max(len(steps), 1) * result["slice_s"]))
