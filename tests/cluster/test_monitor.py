"""What the monitor measures of a job's real processes, with stand-in GPUs, reaches the job's record in slurmdbd."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bench.standin_nvml import Device, StandInNvml
from scripts.devcluster import Cluster
from slurm_hooks.config import Monitor, load
from slurm_hooks.monitor.guard import act
from slurm_hooks.monitor.nvml import NvmlBackend
from slurm_hooks.monitor.sampler import Sampler
from slurm_hooks.records import Record, decode
from tests.cluster.conftest import UNTIL_TOLD, tell

LOOK_S = 0.1
# The process that stands for training waits until the test has seen it measured.
TRAIN = f"""#!/bin/bash
#SBATCH --gres=gpu:1 --open-mode=append
#RAD memory=20G
{UNTIL_TOLD}"""
# Greedy in its first run only.
GREEDY = """#!/bin/bash
#SBATCH --gres=gpu:1 --open-mode=append
#RAD memory=20G
set -e
[ -n "$SLURM_RESTART_COUNT" ] && [ "$SLURM_RESTART_COUNT" -gt 0 ] || exec sleep 300
"""
USED_MIB = {"train": 5000.0, "greedy": 50_000.0}


class Node(threading.Thread):
    """The monitor of a node whose GPU holds every `sleep` of the jobs."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        config = load(cluster.layout.rad_toml)
        self.device = Device("GPU-a", 0, percent={"smact": 60.0, "smocc": 30.0, "dram": 20.0})
        monitor = Monitor(over_allotment="end", interval_s=LOOK_S, write_s=1.0)
        self.sampler = Sampler(replace(config, monitor=monitor), NvmlBackend(gpm=True, nvml=StandInNvml(self.device)))
        self.jobs: dict[int, float] = {}
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(LOOK_S):
            self.device.clients = {pid: self.jobs[job] for pid, job in sleeping(set(self.jobs))}
            self.device.energy_mj = (self.device.energy_mj or 0.0) + 500_000 * LOOK_S
            for notice in self.sampler.look(time.monotonic()):
                act(notice, self.sampler.processes.job, lambda job, pid: False, "true")


def sleeping(jobs: set[int]) -> Iterator[tuple[int, int]]:
    """Processes that run `sleep` for one of the jobs."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text() == "sleep\n":
                words = (folder / "environ").read_bytes().split(b"\0")
                for job in jobs:
                    if b"SLURM_JOB_ID=%d" % job in words:
                        yield int(folder.name), job


@pytest.fixture
def node(cluster: Cluster) -> Iterator[Node]:
    made = Node(cluster)
    made.start()
    yield made
    made.stopped.set()
    made.join(10)


def record_with_end(cluster: Cluster, job: int) -> Record | None:
    rows = cluster.sacct(job, "AdminComment")
    record = decode(rows[-1]["AdminComment"]) if rows else None
    ended = record is not None and record.runs and record.runs[-1].outcome == "completed"
    return record if ended else None


def test_measurements_reach_the_record_and_a_greedy_job_comes_back_larger(cluster: Cluster, node: Node) -> None:
    train = cluster.submit(TRAIN).job_id
    greedy = cluster.submit(GREEDY).job_id
    node.jobs = {train: USED_MIB["train"], greedy: USED_MIB["greedy"]}

    def measured() -> bool:
        return any(view.job == train and view.seconds > 1.0 for view in node.sampler.view().jobs)

    cluster.wait_for("the job has been measured", measured, 120)
    tell(cluster, train)
    assert cluster.wait_state(train) == "COMPLETED"
    assert cluster.wait_state(greedy, deadline_s=120) == "COMPLETED"
    cluster.wait_for("slurmdbd has the measurements", lambda: record_with_end(cluster, train) is not None, 120)

    record = record_with_end(cluster, train)
    assert record is not None
    run = record.runs[-1]
    assert run.peak_mib == USED_MIB["train"]
    assert run.smact_mean is not None and 0.3 <= run.smact_mean <= 0.6, "alone, or half of the GPU's"
    assert run.energy_j is not None and run.energy_j > 0
    assert run.neighbours in ((), (greedy,))

    # What Epilog wrote into the requeued job; that outcomes reach slurmdbd is for test_recovery.
    record = decode(cluster.job(greedy)["AdminComment"])
    assert record is not None
    first = record.runs[0]
    assert (first.outcome, record.retries) == ("oom_requeued", 1)
    assert first.peak_mib == USED_MIB["greedy"] and "was ended" in first.evidence
    assert first.share is not None and record.share is not None and record.share > first.share
