"""rad.toml breaks, changes and goes: what nodes and radd go by meanwhile. The MPS daemons are stand-ins."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from scripts.devcluster import Cluster
from slurm_hooks.node.kept import Kept
from tests.cluster.conftest import UNTIL_TOLD, need_record, new_directory, output, tell
from tests.slurm_hooks.node import standins

SHOW = "env | grep -E '^CUDA_MPS_(PIPE|PINNED)' | sort\n"
JOB = f"#!/bin/bash\n#SBATCH --gres=gpu:1\n#RAD memory=48G\n{SHOW}"
SLOW = f'{JOB}{UNTIL_TOLD}srun sh -c "{SHOW.strip()}"\n'


@pytest.fixture
def with_mps(cluster: Cluster) -> Iterator[Cluster]:
    """Nodes on which (stand-ins of) MPS daemons are started."""
    programs, rad_toml = standins.install(new_directory()), cluster.layout.rad_toml
    was, since = rad_toml.read_text(), rad_toml.stat()
    changed = was.replace("[mps]\n", f'[mps]\ncontrol = "{programs / standins.CONTROL}"\nlog_mib = 0\ngrace_s = 0\n')
    rad_toml.write_text(changed)
    yield cluster
    rad_toml.write_text(was)
    os.utime(rad_toml, ns=(since.st_atime_ns, since.st_mtime_ns))  # radctl doctor knows by it what radd has not read
    cluster.cancel_all()
    shutil.rmtree(programs)


def _ran(cluster: Cluster, script: str = JOB) -> list[str]:
    job = cluster.submit(script).job_id
    assert cluster.wait_state(job) == "COMPLETED"
    assert need_record(cluster, job).action == "share"
    return output(cluster, job).splitlines()


def _said(cluster: Cluster) -> str:
    log = cluster.layout.logs / "node.log"
    return log.read_text() if log.exists() else ""


def _is_capped(lines: list[str]) -> bool:
    return [line.partition("=")[0] for line in lines] == [
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_PIPE_DIRECTORY",
    ]


def test_a_configuration_that_cannot_be_used_takes_nothing_from_jobs(with_mps: Cluster) -> None:
    cluster, rad_toml = with_mps, with_mps.layout.rad_toml
    assert _is_capped(_ran(cluster))
    good, told = rad_toml.read_text(), len(_said(cluster))
    rad_toml.write_text(good + "[partition.gpu]\n")
    assert _is_capped(_ran(cluster)) and _is_capped(_ran(cluster))
    # Other jobs' Epilogs may still be at work behind them, and write there too.
    [said] = [line for line in _said(cluster)[told:].splitlines() if "goes on with" in line]
    assert f"this node goes on with {Kept(str(cluster.layout.kept)).copy} of " in said
    assert "[partition]: no such section: did you mean 'partitions'?" in said
    assert cluster.is_up("radd"), "which goes by what it read when it started"
    doctor = cluster.run(["radctl", "doctor", "node"])
    assert (
        doctor.code == 1
        and f"missing  rad.toml                 this node goes on with {cluster.layout.kept}" in doctor.out
    )
    rad_toml.unlink()
    assert _ran(cluster) == [], "RAD is switched off on the nodes"
    rad_toml.write_text(good)
    assert _is_capped(_ran(cluster))


def test_a_job_keeps_what_its_prolog_gave_it_though_rad_toml_changes(with_mps: Cluster) -> None:
    cluster, rad_toml = with_mps, with_mps.layout.rad_toml
    job = cluster.submit(SLOW).job_id
    log = cluster.home("alice") / f"slurm-{job}.out"
    cluster.wait_for("the job runs", lambda: log.exists() and len(log.read_text().splitlines()) == 2)
    note = cluster.layout.run / "jobs" / f"{job}.json"
    assert note.exists()
    good = rad_toml.read_text()
    rad_toml.write_text(good.replace("/run/jobs", "/run/jobs2").replace("/run/mps", "/run/mps2"))
    assert good != rad_toml.read_text()
    other = _ran(cluster)
    tell(cluster, job)
    assert cluster.wait_state(job) == "COMPLETED"
    batch, step = (lines := output(cluster, job).splitlines())[:2], lines[2:]
    assert batch == step and _is_capped(step)
    assert "/run/mps2/" in other[1] and "/run/mps/" in step[1]
    cluster.wait_for("its Epilog has found its note", lambda: not note.exists())
    assert not list(cluster.layout.kept.glob("[0-9]*"))
