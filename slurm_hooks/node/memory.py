"""Memory of this node's GPUs that may be given away: from the configuration, else as the node measured it."""

from __future__ import annotations

from estimator.gpus import lookup
from slurm_hooks.config import Partition
from slurm_hooks.shares import usable_mib


def usable(partition: Partition, measured_mib: int) -> int:
    """Memory of one GPU that may be given away, in MiB; 0 where nobody says how much it has.

    Args:
        partition: settings of the job's partition.
        measured_mib: what the driver says, in MiB; 0 where it says nothing.
    """
    total = partition.gpu_memory_mib or lookup(partition.gpu_model).memory_mib or measured_mib
    return usable_mib(total, partition)
