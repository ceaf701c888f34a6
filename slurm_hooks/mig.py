"""MIG: instances of a GPU by their profiles, as Slurm's device types name them. Pure.

Slurm's AutoDetect=nvml names the device type of an instance after its profile (``1g.18gb``, or with the GPU before it:
``nvidia_h200_1g.18gb``), and an admin who writes gres.conf by hand does the same. The profile's name tells what the
instance has: slices of compute out of seven, and memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_hooks.shares import SHARES_PER_GPU

SLICES = 7
# A profile's name gives rounded gigabytes; an H200's driver says between 0.954 and 1.066 times as much
# (tests/slurm_hooks/recorded/nvml_mig_profiles_h200.json). `radctl doctor` compares on each node.
_SURE = 0.95
# Users' requests are held against it: nothing in it may match one text in many ways.
_NAME = re.compile(r"(?:.*[_-])?(\d)g\.(\d{1,4})gb(?:[.+_-][\w.+-]*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Instance:
    """A kind of MIG instance: what those of one profile have.

    Attributes:
        type: Slurm's device type.
        slices: compute slices, 1 to 7.
        memory_mib: memory that it has at least, in MiB.
    """

    type: str
    slices: int
    memory_mib: int

    @property
    def share(self) -> int:
        """Its part of a GPU's compute, in hundredths: what reports count it as."""
        return min(SHARES_PER_GPU, math.ceil(SHARES_PER_GPU * self.slices / SLICES))


def instance(device_type: str) -> Instance | None:
    """The kind of instance that a device type names, or None where it names none."""
    found = _NAME.fullmatch(device_type)
    if found is None:
        return None
    slices, gigabytes = int(found.group(1)), int(found.group(2))
    if not (1 <= slices <= SLICES and gigabytes):
        return None
    return Instance(device_type, slices, int(_SURE * gigabytes * 10**9 / 2**20))


def instances(device_types: Iterable[str]) -> list[Instance]:
    """The kinds of instances among device types, smallest first: by memory, then by compute."""
    found = filter(None, map(instance, sorted(set(device_types))))
    return sorted(found, key=lambda p: (p.memory_mib, p.slices))


def smallest(found: Sequence[Instance], memory_mib: int, compute: float = 0.0) -> Instance | None:
    """The first of `instances` with `memory_mib` and `compute` (0 to 1) of a GPU's, or None where none has both."""
    return next((p for p in found if p.memory_mib >= memory_mib and p.slices >= SLICES * compute), None)
