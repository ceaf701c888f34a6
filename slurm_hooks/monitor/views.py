"""What the monitor shows of GPUs and jobs at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class GpuView:
    """A GPU as others may see it: the last look's values, and the window's means."""

    index: int
    uuid: str
    name: str
    lost: bool
    values: Mapping[str, float]
    means: Mapping[str, float]
    processes: int | None
    jobs: int


@dataclass(frozen=True)
class JobGpuView:
    """A job's part of one GPU."""

    gpu: int
    uuid: str
    means: Mapping[str, float]
    window_s: float
    mib: float | None
    processes: int


@dataclass(frozen=True)
class JobView:
    """A job: its parts of GPUs, and its run so far."""

    job: int
    gpus: tuple[JobGpuView, ...]
    peak_mib: float | None
    cap_mib: float | None
    energy_j: float | None
    seconds: float
    over: int


@dataclass(frozen=True)
class View:
    """Everything at one time."""

    backend: str
    gpus: tuple[GpuView, ...]
    jobs: tuple[JobView, ...]
    looks: int
    taken: float
