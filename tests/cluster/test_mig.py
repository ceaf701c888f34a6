"""A partition that is shared by MIG, with Slurm's own device types; the instances are stand-ins."""

from __future__ import annotations

import pytest

from scripts.devcluster import Cluster
from tests.cluster.conftest import can_retype, need_record, output

OOM = """#!/bin/bash
#SBATCH --open-mode=append
#RAD memory=14G
if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then
    echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    exit 1
fi
env | grep -E '^(CUDA_MPS|CUDA_VISIBLE|RAD_)' || true
"""
JOB = "#!/bin/bash\n#RAD memory=%s\nenv | grep -cE '^(CUDA_MPS|RAD_SHARE)'\nexit 0\n"


@pytest.mark.parametrize(
    ("memory", "arguments", "profile"),
    [
        ("14G", ["--gres=gpu:1"], "1g.18gb"),
        ("14G", ["--gpus=1"], "1g.18gb"),
        ("20G", ["--gpus-per-task=1", "--ntasks=1"], "2g.35gb"),
        ("20G", ["--gpus-per-node=h200:1"], "2g.35gb"),
        ("90G", ["--gres=gpu"], "3g.71gb"),
    ],
)
def test_a_job_gets_the_smallest_instance(
    mig_cluster: Cluster, memory: str, arguments: list[str], profile: str
) -> None:
    said = mig_cluster.submit(JOB % memory, "--partition=mig", *arguments)
    assert f"MIG instance {profile}" in said.err
    assert mig_cluster.wait_state(said.job_id) == "COMPLETED"
    shown = mig_cluster.job(said.job_id)
    assert f"gres/gpu:{profile}=1" in shown["TRES"]
    assert "gres/mps" not in shown["TRES"]
    assert output(mig_cluster, said.job_id) == "0\n"  # nothing of MPS in its environment
    assert need_record(mig_cluster, said.job_id).profile == profile


def test_an_instance_that_the_user_names_is_left_as_written(mig_cluster: Cluster) -> None:
    said = mig_cluster.submit(JOB % "1G", "--partition=mig", "--gres=gpu:2g.35gb:1")
    assert "the request names a MIG profile" in said.err
    assert mig_cluster.wait_state(said.job_id) == "COMPLETED"
    assert "gres/gpu:2g.35gb=1" in mig_cluster.job(said.job_id)["TRES"]


def test_out_of_memory(mig_cluster: Cluster) -> None:
    """A Slurm that can give a pending job another device type gives it a larger instance; else the user is told."""
    job = mig_cluster.submit(OOM, "--partition=mig", "--gres=gpu:1").job_id
    larger = can_retype(mig_cluster)
    assert mig_cluster.wait_state(job) == ("COMPLETED" if larger else "FAILED")

    def told() -> bool:
        words = "requeued with 2g.35gb" if larger else "may not be requeued; ask for more: #RAD memory=24G"
        return words in output(mig_cluster, job)

    mig_cluster.wait_for("the user is told", told)
    assert "CUDA_MPS" not in output(mig_cluster, job)
    if larger:
        assert "gres/gpu:2g.35gb=1" in mig_cluster.job(job)["TRES"]
        assert "gres/gpu:1g.18gb" not in mig_cluster.job(job)["TRES"]
