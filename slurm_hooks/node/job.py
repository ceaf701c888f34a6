"""What slurmd tells a Prolog, TaskProlog or Epilog of the job, in its environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm_hooks.shares import SHARES_PER_GPU


@dataclass(frozen=True)
class NodeJob:
    """A job on this node.

    Attributes:
        id: the job's own number; tasks of an array have one each.
        restart: how often Slurm has requeued the job.
        uid, gid, user: whose job it is.
        partition, node: where it runs.
        gpus: indices of its GPUs, as Slurm counts them.
        share: shares of its one GPU that it holds now, or None where it holds none.
        work_dir: its working directory.
        stdout, stderr: names of its logs as the user wrote them, patterns unexpanded; empty for the default.
        sluid: Slurm's identifier of this run; empty before 25.11.
        exit_status, exit_signal: how its batch script ended, or None where slurmd does not tell.
    """

    id: int
    restart: int
    uid: int
    gid: int
    user: str
    partition: str
    node: str
    gpus: tuple[int, ...]
    share: int | None
    work_dir: str
    stdout: str
    stderr: str
    sluid: str
    exit_status: int | None
    exit_signal: int | None

    @property
    def gpu(self) -> int | None:
        """The job's GPU where it holds shares of exactly one."""
        return self.gpus[0] if len(self.gpus) == 1 and self.share is not None else None


def from_environment(env: Mapping[str, str]) -> NodeJob | None:
    """The job that `env` tells of, or None where it is not of a job."""
    job, uid = _number(env.get("SLURM_JOB_ID")), _number(env.get("SLURM_JOB_UID"))
    if job is None or uid is None:
        return None
    share = _number(env.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"))
    status, signal = _exit_code(env)
    return NodeJob(
        id=job,
        restart=_number(env.get("SLURM_JOB_RESTART_COUNT")) or _number(env.get("SLURM_RESTART_COUNT")) or 0,
        uid=uid,
        gid=_gid(env),
        user=env.get("SLURM_JOB_USER", ""),
        partition=env.get("SLURM_JOB_PARTITION", ""),
        node=env.get("SLURMD_NODENAME", ""),
        gpus=tuple(n for n in map(_number, env.get("SLURM_JOB_GPUS", "").split(",")) if n is not None),
        share=share if share is not None and 1 <= share <= SHARES_PER_GPU else None,
        work_dir=env.get("SLURM_JOB_WORK_DIR", ""),
        stdout=env.get("SLURM_JOB_STDOUT", ""),
        stderr=env.get("SLURM_JOB_STDERR", ""),
        sluid=env.get("SLURM_JOB_SLUID", ""),
        exit_status=status,
        exit_signal=signal,
    )


def _gid(env: Mapping[str, str]) -> int:
    gid = _number(env.get("SLURM_JOB_GID"))
    if gid is not None:
        return gid
    import pwd  # noqa: PLC0415 - only where an older Slurm does not tell the group

    try:
        return pwd.getpwuid(int(env["SLURM_JOB_UID"])).pw_gid
    except KeyError:
        return 65534


def _exit_code(env: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Status and signal: from ``SLURM_JOB_EXIT_CODE2=3:0``, else from the wait status ``SLURM_JOB_EXIT_CODE=768``."""
    pair = exit_pair(env.get("SLURM_JOB_EXIT_CODE2", ""))
    return exit_pair(env.get("SLURM_JOB_EXIT_CODE", "")) if None in pair else pair


def exit_pair(text: str) -> tuple[int | None, int | None]:
    """Status and signal from ``3:0``, or from a wait status such as ``768``; None twice where it is neither."""
    first, colon, second = text.partition(":")
    status, signal = _number(first), _number(second)
    if colon:
        return (None, None) if status is None or signal is None else (status, signal)
    return (None, None) if status is None else (status >> 8 & 0xFF, status & 0x7F)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 18 else None
