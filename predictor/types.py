"""The values that pass between the predictor and its users. Pure data: touches nothing outside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from predictor.threads import Law

Origin = Literal["measured", "estimated"]
Floats = npt.NDArray[np.float64]
MAX_SHAPES = 150


class ProfileError(ValueError):
    """A profile that cannot be read or made; the message names the file or field and says the cure."""


class WeightsError(ValueError):
    """A file of weights that cannot be used; the message names the file and says the cure."""


class Shape(NamedTuple):
    """Launches of one shape.

    Attributes:
        grid: blocks of a launch.
        block: threads of a block.
        registers: of a thread.
        shared_bytes: shared memory of a block.
        launches: how many were seen.
        mean_us: mean duration in microseconds.
    """

    grid: float
    block: float
    registers: float
    shared_bytes: float
    launches: float
    mean_us: float


@dataclass(frozen=True)
class KernelMetrics:
    """What the kernels of a workload look like, averaged over launches and weighted by duration.

    A metric that was not measured is NaN: predictors that need it say so, ``rad`` does without.

    Attributes:
        threads: threads of a launch (grid times block).
        registers: registers of a launch (threads times registers per thread).
        static_shared_bytes: shared memory of a block, in bytes (Nsight Compute's static part in KACE's
            artifact; static and dynamic together from the PyTorch profiler).
        sm_throughput: Nsight Compute's "Compute (SM) Throughput", 0..1.
        dram_throughput: Nsight Compute's "DRAM Throughput", 0..1.
        memory_throughput: Nsight Compute's "Memory Throughput", 0..1.
        launches_per_s: kernel launches a second, running alone.
        mean_us: mean duration of a launch, in microseconds.
        turn_us: mean duration weighted by duration: how long the kernel lasts that a neighbour finds running.
        blocking_us: mean time for which a launch keeps others out: its duration, times waves / (1 + waves). A launch
            that fills the SMs many times over (waves) lets nobody in before it is nearly done; beside one that leaves
            most of them free others run at once.
        long_ratio: launches longer than a millisecond over the shorter ones.
        shapes: the launches that all this was averaged over, by shape, the shape that takes most time first; the first
            :data:`MAX_SHAPES` of them. No prediction depends on it.
    """

    threads: float = math.nan
    registers: float = math.nan
    static_shared_bytes: float = math.nan
    sm_throughput: float = math.nan
    dram_throughput: float = math.nan
    memory_throughput: float = math.nan
    launches_per_s: float = math.nan
    mean_us: float = math.nan
    turn_us: float = math.nan
    blocking_us: float = math.nan
    long_ratio: float = math.nan
    shapes: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class Profile:
    """A workload's exclusive metrics: how it uses one GPU that it has to itself.

    Attributes:
        smact: SM activity (DCGM 1002), 0..1: fraction of time a warp is resident, averaged over the SMs.
        smocc: SM occupancy (DCGM 1003), 0..1.
        tensor: tensor pipe activity (DCGM 1004), 0..1.
        dram: DRAM activity (DCGM 1005), 0..1.
        pcie: PCIe traffic in both directions over what the link moves in both, 0..1.
        memory_mib: GPU memory in MiB, CUDA context included.
        throughput: iterations per second, running alone.
        busy: fraction of time at least one kernel runs (nvidia-smi's GPU utilization), 0..1, or NaN.
        power_w: mean power of the board in watts, or NaN.
        kernel: kernel metrics.
        origin: ``measured`` from counters, or ``estimated`` from a summary.
        name: what the workload is called in messages and figures; no prediction depends on it.
    """

    smact: float
    smocc: float
    tensor: float
    dram: float
    pcie: float
    memory_mib: float
    throughput: float
    busy: float = math.nan
    power_w: float = math.nan
    kernel: KernelMetrics = field(default_factory=KernelMetrics)
    origin: Origin = "measured"
    name: str = ""

    def __post_init__(self) -> None:
        for key in ("smact", "smocc", "tensor", "dram", "pcie"):
            value = getattr(self, key)
            if not 0.0 <= value <= 1.0:
                raise ProfileError(f"profile {self.name!r}: {key} is {value}, it must lie between 0 and 1")
        if self.busy < 0.0 or self.busy > 1.0:
            raise ProfileError(f"profile {self.name!r}: busy is {self.busy}, it must lie between 0 and 1, or be NaN")
        for key in ("memory_mib", "throughput"):
            value = getattr(self, key)
            if not (math.isfinite(value) and value >= 0.0):
                raise ProfileError(f"profile {self.name!r}: {key} is {value}, it must be finite and not negative")


@dataclass(frozen=True)
class Prediction:
    """What a predictor says of jobs on one GPU.

    Attributes:
        candidate: progress of the candidate relative to running alone, 0..1.
        residents: progress of each resident, in the order given, 0..1.
        uncertainty: standard deviation of one side's progress, as the predictor knows it.
    """

    candidate: float
    residents: tuple[float, ...]
    uncertainty: float

    @property
    def sides(self) -> tuple[float, ...]:
        """Progress of the candidate and of every resident."""
        return (self.candidate, *self.residents)

    @property
    def throughput_sum(self) -> float:
        """Sum of all sides' progress; 1.0 for a job alone."""
        return self.candidate + sum(self.residents)

    @property
    def worst_resident(self) -> float:
        """Progress of the resident that suffers most, 1.0 if there is none."""
        return min(self.residents, default=1.0)


@dataclass(frozen=True)
class Predictions:
    """Predictions of one candidate on many GPUs, as arrays: one entry a group, in the order given.

    Attributes:
        candidate: shape (groups,), progress of the candidate.
        throughput_sum: shape (groups,), sum of all sides' progress.
        worst_resident: shape (groups,), least progress of a resident, 1.0 in an empty group.
        uncertainty: shape (groups,), standard deviation of one side's progress.
        residents: shape (sum of group sizes,), progress of all residents, group after group.
        offsets: shape (groups + 1,), where each group's residents start in ``residents``.
    """

    candidate: Floats
    throughput_sum: Floats
    worst_resident: Floats
    uncertainty: Floats
    residents: Floats
    offsets: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.candidate)

    def __getitem__(self, index: int) -> Prediction:
        if index < 0:
            index += len(self)
        start, stop = self.offsets[index], self.offsets[index + 1]
        return Prediction(
            candidate=float(self.candidate[index]),
            residents=tuple(float(value) for value in self.residents[start:stop]),
            uncertainty=float(self.uncertainty[index]),
        )


def nowhere() -> Predictions:
    """Predictions of a candidate that has no GPU to go to."""
    none = np.zeros(0)
    return Predictions(none, none, none, none, none, offsets_of([]))


def offsets_of(sizes: Sequence[int]) -> npt.NDArray[np.intp]:
    """Where groups of these sizes start, and where the last one ends: shape (groups + 1,)."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


class Predictor(Protocol):
    """Says how fast jobs run together on one GPU."""

    @property
    def name(self) -> str:
        """Name under which commands and configuration know the predictor."""

    @property
    def version(self) -> str:
        """Version of the installed weights, for records."""

    @property
    def threads(self) -> Law | None:
        """What MPS thread percentages do to progress, or None where the predictor does not know."""

    def predict(self, candidate: Profile, residents: Sequence[Profile]) -> Prediction:
        """Predict the progress of ``candidate`` beside ``residents``, and theirs."""

    def predict_many(self, candidate: Profile, groups: Sequence[Sequence[Profile]]) -> Predictions:
        """Predict ``candidate`` on each group of residents: one call for all GPUs of a cluster."""
