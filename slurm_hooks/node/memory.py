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
    said = _configured(partition)
    return usable_mib(measured_mib if not said or is_smaller(partition, measured_mib) else said, partition)


def is_smaller(partition: Partition, measured_mib: int) -> bool:
    """Whether a GPU cannot hold what is given away of one as the configuration has it: it is of another model.

    Caps of the jobs that share it would add up to more than it has.
    """
    return 0 < measured_mib < usable_mib(_configured(partition), partition)


def _configured(partition: Partition) -> int:
    return partition.gpu_memory_mib or lookup(partition.gpu_model).memory_mib
