from __future__ import annotations

import pytest

from slurm_hooks.node.job import from_environment

ENV = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_UID": "1003",
    "SLURM_JOB_GID": "1004",
    "SLURM_JOB_USER": "alice",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURMD_NODENAME": "node0",
    "SLURM_JOB_GPUS": "2",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
    "SLURM_JOB_WORK_DIR": "/home/alice",
    "SLURM_JOB_RESTART_COUNT": "1",
    "SLURM_JOB_STDOUT": "/home/alice/%j.out",
}


def test_a_job_of_slurm_22() -> None:
    job = from_environment({**ENV, "SLURM_JOB_EXIT_CODE2": "3:0", "SLURM_JOB_EXIT_CODE": "768"})
    assert job is not None
    assert (job.id, job.uid, job.gid, job.user, job.restart) == (17, 1003, 1004, "alice", 1)
    assert (job.gpus, job.share, job.gpu) == ((2,), 30, 2)
    assert (job.exit_status, job.exit_signal) == (3, 0)
    assert (job.work_dir, job.stdout, job.stderr) == ("/home/alice", "/home/alice/%j.out", "")


@pytest.mark.parametrize(
    ("wait", "ended"),
    [("768", (3, 0)), ("6", (0, 6)), ("0", (0, 0)), ("", (None, None)), ("x", (None, None)), ("3:x", (None, None))],
)
def test_wait_status_where_slurm_says_no_more(wait: str, ended: tuple[int | None, int | None]) -> None:
    job = from_environment({**ENV, "SLURM_JOB_EXIT_CODE": wait})
    assert job is not None
    assert (job.exit_status, job.exit_signal) == ended


@pytest.mark.parametrize(
    ("gpus", "share", "gpu"),
    [
        ("2", "30", 2),
        ("2", "1", 2),
        ("2", "100", 2),
        ("0,1", "30", None),
        ("2", "", None),
        ("2", "0", None),
        ("2", "101", None),
        ("", "30", None),
    ],
)
def test_shares_of_one_gpu(gpus: str, share: str, gpu: int | None) -> None:
    job = from_environment({**ENV, "SLURM_JOB_GPUS": gpus, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": share})
    assert job is not None
    assert job.gpu == gpu


@pytest.mark.parametrize(
    ("told", "restart"),
    [
        ({"SLURM_RESTART_COUNT": "2"}, 2),
        ({"SLURM_JOB_RESTART_COUNT": "1", "SLURM_RESTART_COUNT": "2"}, 1),
        ({"SLURM_RESTART_COUNT": "9" * 5000}, 0),
        ({}, 0),
    ],
)
def test_restarts_by_either_name(told: dict[str, str], restart: int) -> None:
    job = from_environment({**{key: value for key, value in ENV.items() if "RESTART" not in key}, **told})
    assert job is not None
    assert job.restart == restart


@pytest.mark.parametrize(("uid", "gid"), [("0", 0), ("4000000000", 65534)])
def test_the_group_where_slurm_does_not_tell(uid: str, gid: int) -> None:
    env = {key: value for key, value in ENV.items() if key != "SLURM_JOB_GID"}
    job = from_environment({**env, "SLURM_JOB_UID": uid})
    assert job is not None
    assert job.gid == gid


@pytest.mark.parametrize(
    "env", [{}, {"SLURM_JOB_ID": "17"}, {**ENV, "SLURM_JOB_ID": "x"}, {**ENV, "SLURM_JOB_ID": "²"}]
)
def test_no_job(env: dict[str, str]) -> None:
    assert from_environment(env) is None
