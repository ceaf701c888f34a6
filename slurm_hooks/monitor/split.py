"""Dividing what a GPU did among the jobs on it. Pure.

The hardware counts for the GPU as a whole. Where one job has processes there, all of it is that job's. Where several
have, each gets the part that NVML's samples of its processes' SM utilization make of the sum; where NVML has no such
samples (it has none of MPS clients, and none of GPUs in MIG mode), all get the same part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def parts(residents: Mapping[int | None, Sequence[int]], activity: Mapping[int, float]) -> dict[int | None, float]:
    """Each job's part; together they are 1.

    Args:
        residents: processes of each job, under None those of no job.
        activity: how busy each process kept the GPU, in any unit.
    """
    weights = {job: sum(activity.get(pid, 0.0) for pid in pids) for job, pids in residents.items()}
    total = sum(weights.values())
    if total <= 0:
        return {job: 1 / len(residents) for job in residents}
    return {job: weight / total for job, weight in weights.items()}
