"""SMACT, SMOCC and DRAM activity of the GPU between two moments, through NVML's GPM. Needs nvidia-ml-py.

A GPU that has no GPM (before Hopper), or a machine without NVML, gives "not available": None.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Activity:
    """Counters of one window, each between 0 and 1, and steps a second; None where not available."""

    smact: float | None
    smocc: float | None
    dram: float | None
    steps_per_s: float


class Window:
    """Reads the counters of the first GPU around some steps; the GPU must run nothing else."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._device: Any = None
        self._samples: list[Any] = []
        self._begin = 0.0
        self.activity: Activity | None = None
        found = _first_gpu()
        if found is None:
            return
        self._nvml, self._device = found
        with suppress(AttributeError, self._nvml.NVMLError):  # it knows no GPM
            if self._nvml.nvmlGpmQueryDeviceSupport(self._device).isSupportedDevice:
                self._samples = [self._nvml.nvmlGpmSampleAlloc(), self._nvml.nvmlGpmSampleAlloc()]

    def start(self) -> None:
        """Begin the window."""
        self.activity = None
        self._sample(0)
        self._begin = time.perf_counter()

    def stop(self, steps: int) -> None:
        """End the window.

        Args:
            steps: steps that were run in it.
        """
        elapsed = time.perf_counter() - self._begin
        self._sample(1)
        smact, smocc, dram = self._read() if self._samples else (None, None, None)
        self.activity = Activity(smact, smocc, dram, steps / elapsed)

    def _sample(self, which: int) -> None:
        if self._samples:
            self._nvml.nvmlGpmSampleGet(self._device, self._samples[which])

    def _read(self) -> tuple[float | None, ...]:
        nvml = self._nvml
        wanted = (nvml.NVML_GPM_METRIC_SM_UTIL, nvml.NVML_GPM_METRIC_SM_OCCUPANCY, nvml.NVML_GPM_METRIC_DRAM_BW_UTIL)
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(wanted)
        request.sample1, request.sample2 = self._samples
        for place, metric in enumerate(wanted):
            request.metrics[place].metricId = metric
        nvml.nvmlGpmMetricsGet(request)
        values = [request.metrics[place] for place in range(len(wanted))]
        return tuple(round(v.value / 100, 4) if v.nvmlReturn == nvml.NVML_SUCCESS else None for v in values)


def process_mib(pid: int) -> float | None:
    """Return NVML's used memory of one process on the first GPU in MiB, or None where not available."""
    found = _first_gpu()
    if found is None:
        return None
    nvml, device = found
    with suppress(nvml.NVMLError):
        for process in nvml.nvmlDeviceGetComputeRunningProcesses(device):
            if process.pid == pid and process.usedGpuMemory is not None:
                return float(process.usedGpuMemory) / 2**20
    return None


def _first_gpu() -> tuple[Any, Any] | None:
    """Return NVML and the first GPU; None where there is no NVML, or no GPU."""
    try:
        import pynvml  # noqa: PLC0415
    except ImportError:
        return None
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
    return None
