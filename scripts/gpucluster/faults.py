"""Scenarios of things that go wrong: hung daemons, a client's fault, more memory than allotted, jobs at once.

Like those in `scenarios`, each takes a `Stage` and returns facts with ``checks``. Signals processes of MPS.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Sequence

from scripts.devcluster import ClusterError
from scripts.gpucluster.machine import GRACE_S
from scripts.gpucluster.stage import (
    ALICE,
    BOB,
    CONTROL,
    SERVER,
    Facts,
    Life,
    Stage,
    Watcher,
    alive,
    left_after,
    running,
)
from slurm_hooks.records import Run

PATIENCE_S = 15.0  # beyond the grace time, until the last daemon must have gone
START_S = 90.0  # until a job must have made its first step: a Prolog that replaces a daemon, PyTorch's start


def daemon_hung(stage: Stage) -> Facts:
    """SIGSTOP of the MPS control daemon, of its server, of both: idle and under a job; then another job."""
    rows: list[Facts] = []
    states: dict[str, str] = {}
    for number, (programs, under) in enumerate((((CONTROL,), False), ((CONTROL,), True), ((SERVER,), True))):
        before, after = f"before-hang-{number}", f"after-hang-{number}"
        seconds = 9 if under else 1
        first = stage.submit(before, "memory=6G", f"cnn --batch 32 --seconds {seconds}", extra=stage.on_first())
        if under:
            stage.started(before)
        else:
            states |= stage.ended({before: first}, 60)
        stopped = [process.pid for program in programs for process in running(program)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        at = time.time()
        second = stage.submit(after, "memory=6G", "cnn --batch 32 --seconds 2", extra=stage.on_first())
        stage.started(after, deadline_s=START_S)
        states |= stage.ended({after: second}, 40)
        states |= stage.ended({before: first}, 90)
        result = stage.result(after)
        rows.append(
            {
                "stopped": " and ".join("daemon" if program == CONTROL else "server" for program in programs),
                "a job under it": "yes" if under else "no",
                "processes": len(stopped),
                "next_job_began_s": result["process_begin"] - at,
                "first_step_of_next_s": result["begin"] - at,
                "requeued": stage.restarts(first),
                "next_requeued": stage.restarts(second),
                "left_stopped": sum(alive(pid) for pid in stopped),
            }
        )
    left = left_after(GRACE_S + PATIENCE_S)
    return {
        "table": rows,
        "states": states,
        "explain_under": stage.explain(first),
        "left": len(left),
        "checks": {
            "something was stopped each time": not stage.machine.real or all(row["processes"] for row in rows),
            "every job completed, in this run or the next": set(states.values()) == {"COMPLETED"},
            "the next job was not requeued": not any(row["next_requeued"] for row in rows),
            "no stopped process was left": not any(row["left_stopped"] for row in rows),
            f"no daemon or server was left after {GRACE_S + PATIENCE_S:g} s": not left,
            "no node was drained": not stage.drained(),
        },
    }


def client_fault(stage: Stage) -> Facts:
    """A job's kernel writes to memory that is not there, beside a job of its user and one of another user."""
    beside = stage.submit("beside-fault", "memory=6G", "cnn --batch 32 --seconds 18", extra=stage.on_first())
    other = stage.submit("other-user", "memory=6G", "cnn --batch 32 --seconds 18", user=BOB, extra=stage.on_first())
    asserting = stage.submit(
        "asserting", "memory=6G", "mlp --batch 64 --seconds 1 --fault assert", extra=stage.on_first()
    )
    culprit = stage.submit("culprit", "memory=6G", "mlp --batch 64 --seconds 8 --fault address", extra=stage.on_first())
    stage.started("beside-fault")
    stage.started("other-user", BOB)
    states = stage.ended({"asserting": asserting}, 60)
    early = "FAULT" not in stage.text("culprit")
    unharmed = "Error" not in stage.text("beside-fault") + stage.text("culprit")
    stage.cluster.wait_for("the fault", lambda: "FAULT" in stage.text("culprit"), START_S)
    at = time.time()
    after = stage.submit("after-fault", "memory=6G", "cnn --batch 32 --seconds 2", extra=stage.on_first())
    jobs = {"culprit": culprit, "after-fault": after, "beside-fault": beside, "other-user": other}
    states |= stage.ended(jobs, 200)
    names = {**jobs, "asserting": asserting}
    runs = {name: _runs(stage, number) for name, number in names.items()}
    broken = ["mps_suspect"] if stage.machine.real else []
    shared = stage.machine.settings().mps.users == "multi"
    return {
        "states": states,
        "first_step_of_next_s": stage.first_step("after-fault") - at,
        "one_server": shared,
        "table": [
            {
                "job": name,
                "state": states[name],
                "requeued": stage.restarts(number),
                "runs": ", ".join(run["outcome"] for run in runs[name]),
                "evidence": next((run["evidence"] for run in runs[name] if run["evidence"]), ""),
            }
            for name, number in names.items()
        ],
        "explain_beside": stage.explain(beside),
        "explain_culprit": stage.explain(culprit),
        "log_beside": stage.text("beside-fault")[-2500:],
        "log_culprit": stage.text("culprit")[-2500:],
        "checks": {
            "a device-side assert broke its own job alone, which failed": early
            and unharmed
            and states["asserting"] == "FAILED",
            "whoever shared the server was requeued, had the GPU alone and completed": states["beside-fault"]
            == "COMPLETED"
            and [run["outcome"] for run in runs["beside-fault"]] == [*broken, "completed"],
            "whoever made the fault had the GPU alone too, and failed there": states["culprit"] == "FAILED"
            and [run["outcome"] for run in runs["culprit"]] == [*broken, "failed"],
            (
                "the other user's job, which shared the server too, was requeued, had the GPU alone and completed"
                if shared
                else "the other user's job made all its steps in one run, none of which took over a second"
            ): states["other-user"] == "COMPLETED"
            and (
                [run["outcome"] for run in runs["other-user"]] == [*broken, "completed"]
                if shared
                else stage.restarts(other) == 0 and stage.result("other-user", BOB)["longest_step_ms"] < 1000
            ),
            "the next job completed": states["after-fault"] == "COMPLETED",
            "no node was drained": not stage.drained(),
        },
    }


def cancelled(stage: Stage) -> Facts:
    """`scancel` of a job in the middle of its kernels, beside a job of its user and one of another user."""
    work = "cnn --batch 32 --seconds 16"
    beside = stage.submit("beside-cancelled", "memory=6G", work, extra=stage.on_first())
    other = stage.submit("of-another-user", "memory=6G", work, user=BOB, extra=stage.on_first())
    job = stage.submit("cancelled", "memory=6G", "matmul --seconds 300", extra=stage.on_first())
    for name, user in (("beside-cancelled", ALICE), ("of-another-user", BOB), ("cancelled", ALICE)):
        stage.started(name, user, deadline_s=START_S)
    stage.cluster.run(["scancel", str(job)])
    states = stage.ended({"cancelled": job, "beside-cancelled": beside, "of-another-user": other}, 200)
    names = {"beside-cancelled": beside, "of-another-user": other}
    runs = {name: _runs(stage, number) for name, number in names.items()}
    outcomes = {name: [run["outcome"] for run in runs[name]] for name in names}
    spared = {"of-another-user"} if stage.machine.settings().mps.users == "single" else set()
    return {
        "states": states,
        "table": [
            {
                "job": name,
                "state": states[name],
                "runs": ", ".join(outcomes[name]),
                "evidence": next((run["evidence"] for run in runs[name] if run["evidence"]), ""),
            }
            for name in names
        ],
        "explain_beside": stage.explain(beside),
        "log_beside": stage.text("beside-cancelled")[-2500:],
        "checks": {
            "it was cancelled": states["cancelled"].startswith("CANCELLED"),
            "whom its end broke was requeued as it was, and all completed": all(
                states[name] == "COMPLETED" and outcomes[name] in (["completed"], ["mps_victim", "completed"])
                for name in names
            ),
            "who did not share its server went on": all(outcomes[name] == ["completed"] for name in spared),
            "no node was drained": not stage.drained(),
        },
    }


def _runs(stage: Stage, job: int) -> list[Facts]:
    """Outcome and evidence of each run that a job's record holds, once the last one's stands there."""
    for outcome in ("completed", "failed", "mps_told"):
        with contextlib.suppress(ClusterError):
            record = stage.record(job, deadline_s=10, outcome=outcome)
            return [{"outcome": run.outcome, "evidence": run.evidence} for run in record.runs]
    return []


def over_allotment(stage: Stage) -> Facts:
    """A job unsets the variable with its cap and takes more than its allotment: alone, and beside a larger one."""
    bare = ["unset CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]
    alone = stage.submit(
        "over-alone", "memory=3G", "mlp --batch 64 --hold 6 --seconds 2", before=bare, extra=stage.on_first()
    )
    stage.ended({"over-alone": alone}, 90)
    runs = stage.record(alone, deadline_s=40).runs
    rows = [_over("alone on the GPU", run) for run in runs]
    held = [run.outcome for run in runs] == ["oom_requeued", "completed"] and "OutOfMemory" in runs[0].evidence
    checks = {"alone: MPS held it to its cap all the same, and it came back larger": not stage.machine.real or held}
    explain = {}
    for policy in ("warn", "end"):
        with stage.configured(monitor={"over_allotment": policy}):
            beside, over = f"beside-{policy}", f"over-{policy}"
            neighbour = stage.submit(beside, "memory=12G", "cnn --batch 32 --seconds 24", extra=stage.on_first())
            stage.started(beside)
            job = stage.submit(
                over, "memory=3G", "mlp --batch 64 --hold 6 --seconds 7", before=bare, extra=stage.on_first()
            )
            states = stage.ended({over: job, beside: neighbour}, 120)
            runs = stage.record(job, deadline_s=40).runs
            explain[policy] = stage.explain(job)
        told, near = "MiB allotted" in stage.text(over), stage.result(beside)
        rows += [_over(policy, run) for run in runs]
        above = any((run.peak_mib or 0) > (run.cap_mib or 0) + 1024 for run in runs)
        ended = [run.outcome for run in runs]
        checks |= {
            f"{policy}: the record shows the peak over the cap": not stage.machine.real or above,
            f"{policy}: the user was told": not stage.machine.real or told,
            f"{policy}: the neighbour finished in its first run": states[beside] == "COMPLETED"
            and stage.restarts(neighbour) == 0,
            f"{policy}: no step of the neighbour took over a second": near["longest_step_ms"] < 1000,
        }
        if policy == "warn":
            checks["warn: the job went on to its end"] = ended == ["completed"]
        else:
            by_monitor = runs[0].evidence.startswith("rad-monitor:") and ended == ["oom_requeued", "completed"]
            checks["end: its process was ended, and it came back larger and finished"] = (
                not stage.machine.real or by_monitor
            )
    return {"table": rows, "explain_end": explain["end"], "checks": checks}


def _over(what: str, run: Run) -> Facts:
    return {
        "over_allotment": what,
        "shares": run.share,
        "cap_mib": run.cap_mib,
        "peak_mib": run.peak_mib,
        "outcome": run.outcome,
        "evidence": run.evidence,
    }


def races(stage: Stage, count: int = 10, rounds: Sequence[float] = (0, 0, 0, 1, 1), cuda: bool = True) -> Facts:
    """Jobs that start and end at once, some rounds: exactly one daemon while any runs, none after."""
    rows: list[Facts] = []
    states: dict[str, str] = {}
    gap_s = 0.0
    kinds = [(grace, False) for grace in rounds] + ([(0, True)] if cuda else [])
    for number, (grace, real) in enumerate(kinds):
        with stage.configured(mps={"grace_s": grace}), Watcher() as watcher:
            left = left_after(PATIENCE_S)
            jobs = {}
            for index in range(count):
                name = f"race-{number}-{index}"
                if real:
                    jobs[name] = stage.submit(name, "memory=2G", "mlp --batch 64 --seconds 1", extra=stage.on_first())
                else:
                    jobs[name] = stage.script(
                        name, "memory=2G", ["date +FROM=%s.%N", "sleep 0.3", "date +TO=%s.%N"], extra=stage.on_first()
                    )
            states |= stage.ended(jobs, 120)
            left = left_after(grace + PATIENCE_S)
        lives, gap_s = watcher.lives(), max(gap_s, watcher.longest_gap_s)
        spans = {name: _span(stage, name) for name in jobs}
        rows.append(
            {
                "grace_s": grace,
                "jobs": "PyTorch" if real else "sleeping",
                "looks": watcher.looks,
                "daemons_in_turn": len(lives),
                "at_once": most_at_once(lives),
                "jobs_without": sum(not covered(span, lives, watcher.longest_gap_s) for span in spans.values()),
                "requeued": sum(stage.restarts(job) for job in jobs.values()),
                "left": len(left),
            }
        )
    checks = {
        "all completed, none requeued": set(states.values()) == {"COMPLETED"} and not any(r["requeued"] for r in rows),
        "never two daemons at once": all(row["at_once"] <= 1 for row in rows),
        "each job had one daemon from its begin to its end": not stage.machine.mps
        or not any(row["jobs_without"] for row in rows),
        "none was left after a round": not any(row["left"] for row in rows),
        "no node was drained": not stage.drained(),
    }
    return {"table": rows, "longest_gap_s": gap_s, "checks": checks}


def _span(stage: Stage, name: str) -> tuple[float, float]:
    """When a job ran, as it wrote itself."""
    text = stage.text(name)
    times = [float(found) for found in re.findall(r"^(?:FROM|TO)=([\d.]+)$", text, re.MULTILINE)]
    if len(times) == 2:
        return times[0], times[1]
    result = stage.result(name)
    return result["process_begin"], result["end"]


def most_at_once(lives: Sequence[Life]) -> int:
    """How many daemons of one slot lived at the same time, at most. Pure."""
    return max(
        (
            sum(other.process.pipe == life.process.pipe and other.first <= life.first < other.last for other in lives)
            for life in lives
        ),
        default=0,
    )


def covered(span: tuple[float, float], lives: Sequence[Life], gap_s: float) -> bool:
    """Whether one and the same daemon was there in every look of some time. Pure.

    Args:
        span: begin and end of that time.
        lives: daemons as they were seen.
        gap_s: the longest time between two looks.
    """
    return any(life.first <= span[0] + gap_s and life.last >= span[1] - gap_s for life in lives)
