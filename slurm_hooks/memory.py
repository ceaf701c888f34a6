"""Memory of a partition's GPUs that may be given away: as rad.toml has it, or as a node measured it. Pure.

Controller and nodes both take it from here.
"""

from __future__ import annotations

from estimator.gpus import lookup
from slurm_hooks.config import Partition


def usable_mib(gpu_memory_mib: int, partition: Partition) -> int:
    """Memory of one GPU that may be given away, in MiB; 0 where the GPU's memory (0) is not known."""
    return max(0, gpu_memory_mib - partition.margin_mib)


def memory_of(partition: Partition) -> int:
    """Memory of one GPU of a partition that may be given away, in MiB; 0 where no one says how much it has."""
    return usable_mib(_said_mib(partition), partition)


def without_memory(partition: Partition) -> str:
    """Why nothing of a GPU can be given away in a partition of which `memory_of` is 0, and the cure in rad.toml."""
    if total := _said_mib(partition):
        return f"margin_mib = {partition.margin_mib} leaves nothing of a GPU's {total} MiB: lower it"
    if partition.gpu_model:
        return f"gpu_model {partition.gpu_model!r} is not known: set gpu_memory_mib too"
    return "memory of its GPUs is not told: set gpu_model or gpu_memory_mib"


def memory_here(partition: Partition, measured_mib: int) -> int:
    """Memory of one GPU of this node that may be given away, in MiB; 0 where nobody says how much it has.

    Args:
        partition: settings of the job's partition.
        measured_mib: what the driver says, in MiB; 0 where it says nothing.
    """
    said = _said_mib(partition)
    return usable_mib(measured_mib if not said or is_smaller(partition, measured_mib) else said, partition)


def is_smaller(partition: Partition, measured_mib: int) -> bool:
    """Whether a GPU cannot hold what is given away of one as the configuration has it: it is of another model.

    Caps of the jobs that share it would add up to more than it has.
    """
    return 0 < measured_mib < memory_of(partition)


def _said_mib(partition: Partition) -> int:
    return partition.gpu_memory_mib or lookup(partition.gpu_model).memory_mib
