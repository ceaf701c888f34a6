"""Exclusive counters of one GPU through NVML: GPM metrics, power, memory. The only module here that talks to NVML.

GPM (Hopper and later) gives what DCGM's profiling fields 1001 to 1010 give. On GPUs without it the counters say so
instead of guessing.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from predictor.types import ProfileError

MIB = 2**20
PCIE_BYTES_PER_LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
GPM_METRICS = (
    ("busy", "NVML_GPM_METRIC_GRAPHICS_UTIL"),
    ("smact", "NVML_GPM_METRIC_SM_UTIL"),
    ("smocc", "NVML_GPM_METRIC_SM_OCCUPANCY"),
    ("tensor", "NVML_GPM_METRIC_ANY_TENSOR_UTIL"),
    ("dram", "NVML_GPM_METRIC_DRAM_BW_UTIL"),
    ("pcie_tx", "NVML_GPM_METRIC_PCIE_TX_PER_SEC"),
    ("pcie_rx", "NVML_GPM_METRIC_PCIE_RX_PER_SEC"),
)


@dataclass(frozen=True)
class Counters:
    """Mean counters over a window; fractions are 0..1, NaN where the GPU does not count it.

    Attributes:
        busy: fraction of time any kernel ran (DCGM 1001).
        smact: SM activity (DCGM 1002).
        smocc: SM occupancy (DCGM 1003).
        tensor: tensor pipe activity (DCGM 1004).
        dram: DRAM activity (DCGM 1005).
        pcie: PCIe traffic of both directions over what the link moves in both.
        power_w: mean board power.
        used_mib: GPU memory in use at the end of the window, all processes together.
    """

    busy: float = math.nan
    smact: float = math.nan
    smocc: float = math.nan
    tensor: float = math.nan
    dram: float = math.nan
    pcie: float = math.nan
    power_w: float = math.nan
    used_mib: float = math.nan


class Source(Protocol):
    """Something that counts what a GPU does."""

    def start(self) -> None:
        """Begin a window."""

    def stop(self) -> Counters:
        """End the window and say what happened in it."""


class NoCounters:
    """A machine without a GPU: everything is unknown."""

    def start(self) -> None:
        """Nothing to begin."""

    def stop(self) -> Counters:
        """Nothing was counted."""
        return Counters()


class NvmlCounters:
    """Counters of one GPU by NVML.

    Args:
        index: NVML index of the GPU.
        nvml: the ``pynvml`` module, or a stand-in with its functions.

    Raises:
        ProfileError: NVML is not there, or has no such GPU.
    """

    def __init__(self, index: int = 0, nvml: Any = None) -> None:
        self._nvml = nvml if nvml is not None else _import_nvml()
        try:
            self._nvml.nvmlInit()
            self._device = self._nvml.nvmlDeviceGetHandleByIndex(index)
        except self._nvml.NVMLError as error:
            raise ProfileError(f"GPU {index}: {error}; is an NVIDIA driver loaded on this machine?") from error
        self._gpm = self._supports_gpm()
        self._samples: list[Any] = []
        self._energy = math.nan
        self._begun = 0.0

    def close(self) -> None:
        """Give NVML's memory back."""
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)
        self._samples = []
        self._nvml.nvmlShutdown()

    def _quiet(self, function: str, *arguments: Any) -> Any:
        """The result of an NVML call, or None where this GPU or driver does not have it."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def _supports_gpm(self) -> bool:
        support = self._quiet("nvmlGpmQueryDeviceSupport", self._device)
        return bool(support is not None and support.isSupportedDevice)

    def _link_bytes(self) -> float:
        generation = self._quiet("nvmlDeviceGetMaxPcieLinkGeneration", self._device)
        width = self._quiet("nvmlDeviceGetMaxPcieLinkWidth", self._device)
        return 2.0 * PCIE_BYTES_PER_LANE.get(generation or 0, math.nan) * (width or 0)

    def _millijoules(self) -> float:
        value = self._quiet("nvmlDeviceGetTotalEnergyConsumption", self._device)
        return math.nan if value is None else float(value)

    def processes(self) -> int:
        """Compute processes on the GPU now, MPS clients and servers included."""
        found: list[Any] = []
        for function in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"):
            found.extend(self._quiet(function, self._device) or [])
        return len(found)

    def start(self) -> None:
        """Begin a window."""
        if self._gpm:
            if not self._samples:
                self._samples = [self._nvml.nvmlGpmSampleAlloc() for _ in range(2)]
            self._nvml.nvmlGpmSampleGet(self._device, self._samples[0])
        self._energy = self._millijoules()
        self._begun = time.monotonic()

    def stop(self) -> Counters:
        """End the window and say what happened in it."""
        elapsed = max(time.monotonic() - self._begun, 1e-6)
        power = (self._millijoules() - self._energy) / 1e3 / elapsed
        memory = self._quiet("nvmlDeviceGetMemoryInfo", self._device)
        used = math.nan if memory is None else memory.used / MIB
        values = self._gpm_values() if self._gpm and self._samples else {}
        link = self._link_bytes()
        moved = (values.get("pcie_tx", math.nan) + values.get("pcie_rx", math.nan)) * MIB
        fractions = {
            key: min(max(values[key] / 100.0, 0.0), 1.0)
            for key in ("busy", "smact", "smocc", "tensor", "dram")
            if key in values
        }
        pcie = min(moved / link, 1.0) if link > 0 else math.nan
        return Counters(**fractions, pcie=pcie, power_w=power, used_mib=used)

    def _gpm_values(self) -> Mapping[str, float]:
        nvml = self._nvml
        nvml.nvmlGpmSampleGet(self._device, self._samples[1])
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(GPM_METRICS)
        request.sample1, request.sample2 = self._samples
        for place, (_, constant) in enumerate(GPM_METRICS):
            request.metrics[place].metricId = getattr(nvml, constant)
        nvml.nvmlGpmMetricsGet(request)
        found = {}
        for place, (key, _) in enumerate(GPM_METRICS):
            metric = request.metrics[place]
            if metric.nvmlReturn == nvml.NVML_SUCCESS and math.isfinite(metric.value):
                found[key] = float(metric.value)
        return found


def _import_nvml() -> Any:
    try:
        import pynvml  # noqa: PLC0415 - absent machines must still import this module
    except ImportError as error:
        raise ProfileError("NVML's Python binding is missing: pip install nvidia-ml-py") from error
    return pynvml


@contextlib.contextmanager
def nvml_counters(index: int = 0) -> Iterator[NvmlCounters]:
    """Counters of a GPU, closed at the end."""
    counters = NvmlCounters(index)
    try:
        yield counters
    finally:
        counters.close()
