"""Shares and caps of one GPU. Pure."""

from __future__ import annotations

import math

from slurm_hooks.config import Partition

WHOLE_GPU = 100


def gpu_memory_mib(partition: Partition) -> int:
    """Memory of one GPU of a partition in MiB; 0 where it is not known."""
    return partition.gpu_memory_mib


def usable_mib(partition: Partition) -> int:
    """Memory of one GPU that may be given away, in MiB."""
    return max(0, gpu_memory_mib(partition) - partition.margin_mib)


def share_of(upper_mib: int, smact: float, partition: Partition) -> int:
    """Shares out of 100: the dominant fraction of memory and of compute, rounded up."""
    usable = usable_mib(partition)
    if usable <= 0:
        return WHOLE_GPU
    share = math.ceil(WHOLE_GPU * max(upper_mib / usable, smact / partition.smact_cap) - 1e-9)
    return WHOLE_GPU if share > partition.share_limit else max(1, share)


def cap_of(share: int, partition: Partition) -> int | None:
    """Memory cap in MiB of a job that holds `share`; None for a whole GPU."""
    usable = usable_mib(partition)
    if share >= WHOLE_GPU or usable <= 0:
        return None
    return share * usable // WHOLE_GPU
