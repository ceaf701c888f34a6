"""What is measured of a GPU, in DCGM's words whoever measures it, and the values that a backend gives. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol


@dataclass(frozen=True)
class Metric:
    """One metric of a GPU.

    Attributes:
        key: what the code calls it.
        field_id: DCGM's number.
        column: DCGM's short name, the title of dmon's column.
        name: what dcgm-exporter calls it.
        kind: Prometheus's type.
        about: one line for Prometheus.
    """

    key: str
    field_id: int
    column: str
    name: str
    kind: Literal["gauge", "counter"]
    about: str


METRICS = (
    Metric("gract", 1001, "GRACT", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time an engine was active."),
    Metric("smact", 1002, "SMACT", "DCGM_FI_PROF_SM_ACTIVE", "gauge", "Ratio of time an SM had a warp, mean of SMs."),
    Metric("smocc", 1003, "SMOCC", "DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "Ratio of warps resident on an SM."),
    Metric("tensor", 1004, "TENSO", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of time tensor pipes worked."),
    Metric("dram", 1005, "DRAMA", "DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of time device memory moved data."),
    Metric("fp64", 1006, "FP64A", "DCGM_FI_PROF_PIPE_FP64_ACTIVE", "gauge", "Ratio of time the fp64 pipes worked."),
    Metric("fp32", 1007, "FP32A", "DCGM_FI_PROF_PIPE_FP32_ACTIVE", "gauge", "Ratio of time the fp32 pipes worked."),
    Metric("fp16", 1008, "FP16A", "DCGM_FI_PROF_PIPE_FP16_ACTIVE", "gauge", "Ratio of time the fp16 pipes worked."),
    Metric("pcie_tx", 1009, "PCITX", "DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "Bytes a second sent over PCIe."),
    Metric("pcie_rx", 1010, "PCIRX", "DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "Bytes a second received over PCIe."),
    Metric("power_w", 155, "POWER", "DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw in W."),
    Metric("energy_mj", 156, "TOTEC", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Energy since boot, in mJ."),
    Metric("util", 203, "GPUTL", "DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization in percent."),
    Metric("used_mib", 252, "FBUSD", "DCGM_FI_DEV_FB_USED", "gauge", "Device memory in use, in MiB."),
)
# Parts of a time or of a GPU, from 0 to 1.
RATIOS = frozenset(("gract", "smact", "smocc", "tensor", "dram", "fp64", "fp32", "fp16"))
# Those that are divided among the jobs of a GPU.
ACTIVITIES = ("smact", "smocc", "tensor", "dram")
# Rates that are divided in the same way.
RATES = ("pcie_tx", "pcie_rx")


@dataclass(frozen=True)
class ProcessUse:
    """A process on a GPU and the memory that NVML says it uses, in MiB, or None where NVML does not tell."""

    pid: int
    mib: float | None


@dataclass(frozen=True)
class Reading:
    """One look at one GPU.

    Attributes:
        index: number of its device file, which is how Slurm counts.
        values: metrics by key; one that is not available is left out.
        processes: what runs on it, MPS servers included; None where that is not available.
        lost: whether the GPU did not answer at all.
    """

    index: int
    uuid: str
    name: str
    values: Mapping[str, float] = field(default_factory=dict)
    processes: tuple[ProcessUse, ...] | None = None
    lost: bool = False


class BackendError(RuntimeError):
    """No GPU can be read; the message says why and what to do."""


class Backend(Protocol):
    """Somebody who counts what GPUs do."""

    name: str

    def read(self, *, anew: bool = False) -> list[Reading]:
        """All GPUs; activities and rates are means since the last look.

        Args:
            anew: no list of processes may be older than this look.

        Raises:
            BackendError: if nothing answers any more.
        """

    def activity(self, index: int, pids: Collection[int]) -> Mapping[int, float]:
        """How busy each process kept a GPU lately, by pid, in any unit; empty where not available.

        Args:
            index: of the GPU.
            pids: processes of which that is asked; what is told of others is of no use.
        """

    def close(self) -> None:
        """Give everything back."""
