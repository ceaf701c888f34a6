"""What Slurm's versions do differently for RAD, each with the first version that does so. Pure."""

from __future__ import annotations

from typing import Final

Version = tuple[int, int]
"""A major version, for example (22, 5)."""

# slurmctld counts shares of devices with types; before, one job that asks for any ends it.
SHARES_COUNTED_SINCE: Final[Version] = (22, 5)
# `scontrol update gres=` moves a pending job to another device type instead of adding one.
RETYPE_SINCE: Final[Version] = (23, 11)
# slurmctld knows from its start what shares nodes with jobs have.
SHARES_KEPT_SINCE: Final[Version] = (23, 11)
# A request names generic resources behind a slash, before it behind a colon: 22.05 writes a colon, 24.11 a slash.
SLASH_SINCE: Final[Version] = (23, 11)
# No job that asks for a GPU starts on one of whose shares a job still holds some.
WHOLE_IS_ALONE_SINCE: Final[Version] = (24, 11)
# No job for shares starts in a reservation of GPUs, nor in one of shares: so seen on 26.05, where 24.11 starts them.
SHARES_NOT_RESERVED_SINCE: Final[Version] = (25, 5)
# All jobs of a GPU are preempted at once for one that asks for it.
PREEMPTS_ALL_SINCE: Final[Version] = (25, 11)
