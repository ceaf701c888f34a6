"""Counters: what NVML says, and "not available" wherever it says nothing."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from estimator.dataset import counters


class FakeNvml(types.ModuleType):
    """nvidia-ml-py with one GPU that has GPM."""

    NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_SM_OCCUPANCY, NVML_GPM_METRIC_DRAM_BW_UTIL = 2, 3, 10
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_SUCCESS = 0

    class NVMLError(Exception):
        """The library's error."""

    def __init__(self, supported: bool = True) -> None:
        super().__init__("pynvml")
        self.supported = supported
        self.samples: list[object] = []
        self.broken = False

    def nvmlInit(self) -> None:  # noqa: N802 - the library's names
        if self.broken:
            raise self.NVMLError("driver not loaded")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"gpu{index}"

    def nvmlGpmQueryDeviceSupport(self, device: str) -> Any:  # noqa: N802
        return types.SimpleNamespace(isSupportedDevice=self.supported)

    def nvmlGpmSampleAlloc(self) -> object:  # noqa: N802
        return object()

    def nvmlGpmSampleGet(self, device: str, sample: object) -> None:  # noqa: N802
        self.samples.append(sample)

    def c_nvmlGpmMetricsGet_t(self) -> Any:  # noqa: N802
        return types.SimpleNamespace(metrics=[types.SimpleNamespace(value=0.0, nvmlReturn=0) for _ in range(3)])

    def nvmlGpmMetricsGet(self, request: Any) -> None:  # noqa: N802
        values = {2: (51.234, 0), 3: (20.0, 0), 10: (9.0, 5)}  # the last one is not available
        for metric in request.metrics:
            metric.value, metric.nvmlReturn = values[metric.metricId]

    def nvmlDeviceGetComputeRunningProcesses(self, device: str) -> list[Any]:  # noqa: N802
        return [
            types.SimpleNamespace(pid=7, usedGpuMemory=3 * 2**20),
            types.SimpleNamespace(pid=8, usedGpuMemory=None),
        ]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_a_window_reads_activity_and_speed(nvml: FakeNvml) -> None:
    window = counters.Window()
    window.start()
    window.stop(5)
    assert window.activity is not None
    assert (window.activity.smact, window.activity.smocc, window.activity.dram) == (0.5123, 0.2, None)
    assert window.activity.steps_per_s > 0
    assert len(set(map(id, nvml.samples))) == 2


def test_a_gpu_without_gpm_gives_speed_only(nvml: FakeNvml) -> None:
    nvml.supported = False
    window = counters.Window()
    window.start()
    window.stop(1)
    assert window.activity is not None
    assert window.activity.smact is None
    assert nvml.samples == []


def test_no_driver_is_not_available(nvml: FakeNvml) -> None:
    nvml.broken = True
    window = counters.Window()
    window.start()
    window.stop(1)
    assert window.activity is not None
    assert window.activity.smact is None
    assert counters.process_mib(7) is None


def test_no_library_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    window = counters.Window()
    window.start()
    window.stop(1)
    assert window.activity is not None
    assert window.activity.dram is None
    assert counters.process_mib(7) is None


def test_memory_of_one_process(nvml: FakeNvml) -> None:
    assert counters.process_mib(7) == 3.0
    assert counters.process_mib(8) is None
    assert counters.process_mib(9) is None
