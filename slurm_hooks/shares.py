"""The rules of shares: from memory and compute demand to shares, and from shares to caps. Pure, no heavy imports.

Controller and nodes both take them from here.
"""

from __future__ import annotations

import math
from typing import Final

from slurm_hooks.config import Partition

SHARES_PER_GPU: Final = 100
WHOLE_GPU: Final = SHARES_PER_GPU
FULL_THREADS: Final = 100


def share_of(upper_mib: int, smact: float, usable: int, partition: Partition) -> int:
    """Shares out of 100: the dominant fraction of memory and of compute, rounded up.

    Args:
        upper_mib: memory to reserve, in MiB.
        smact: compute demand, 0 to 1.
        usable: memory of one GPU that may be given away, in MiB; 0 where it is not known.
        partition: settings of the partition.
    """
    if usable <= 0:
        return WHOLE_GPU
    # A hair of tolerance: 0.3 / 0.1 must not round up for the sake of binary fractions.
    share = math.ceil(SHARES_PER_GPU * max(upper_mib / usable, smact / partition.smact_cap) - 1e-9)
    return WHOLE_GPU if share > partition.share_limit else max(1, share)


def cap_of(share: int, usable: int) -> int | None:
    """Memory cap in MiB of a job that holds `share`: its part of the usable memory; None for a whole GPU.

    Caps follow from shares alone, so the caps of whatever Slurm puts together fit in the GPU's memory, also
    after a requeue or an update has changed the share.
    """
    if share >= WHOLE_GPU or usable <= 0:
        return None
    return share * usable // SHARES_PER_GPU
