from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from predictor.counters import Counters, NoCounters, NvmlCounters, nvml_counters
from predictor.nvml import GPM_METRICS, Gpm, NvmlMissingError, load
from predictor.types import ProfileError


class FakeNvml:
    """NVML of a GPU that can be told what it has."""

    class NVMLError(Exception):
        pass

    NVML_SUCCESS = 0
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, gpm: bool = True, absent: tuple[str, ...] = ()) -> None:
        self.gpm, self.absent = gpm, absent
        self.values = {"busy": 90.0, "smact": 50.0, "smocc": 25.0, "tensor": 10.0, "dram": 130.0}
        self.values |= {"pcie_tx": 6000.0, "pcie_rx": 60000.0}
        self.energy = [1_000_000.0, 1_050_000.0]
        self.freed = 0
        self.shut = False
        for place, (_, constant) in enumerate(GPM_METRICS):
            setattr(self, constant, place)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "absent"):
            raise FakeNvml.NVMLError(f"{name}: not supported")
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None: ...  # noqa: N802
    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut = True

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        if index:
            raise FakeNvml.NVMLError("Invalid Argument")
        return "gpu"

    def nvmlGpmQueryDeviceSupport(self, _device: str) -> Any:  # noqa: N802
        return SimpleNamespace(isSupportedDevice=int(self.gpm))

    def nvmlDeviceGetMaxPcieLinkGeneration(self, _device: str) -> int:  # noqa: N802
        return 5

    def nvmlDeviceGetMaxPcieLinkWidth(self, _device: str) -> int:  # noqa: N802
        return 16

    def nvmlDeviceGetTotalEnergyConsumption(self, _device: str) -> float:  # noqa: N802
        return self.energy.pop(0)

    def nvmlDeviceGetMemoryInfo(self, _device: str) -> Any:  # noqa: N802
        return SimpleNamespace(used=3 * 2**30)

    def nvmlDeviceGetComputeRunningProcesses(self, _device: str) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=1), SimpleNamespace(pid=9)]

    def nvmlDeviceGetMPSComputeRunningProcesses(self, _device: str) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=2), SimpleNamespace(pid=3)]

    def nvmlSystemGetProcessName(self, pid: int) -> Any:  # noqa: N802
        if pid == 3:
            raise FakeNvml.NVMLError("it ended")
        return {9: b"/usr/bin/nvidia-cuda-mps-server"}.get(pid, "python")

    def nvmlGpmSampleAlloc(self) -> object:  # noqa: N802
        return object()

    def nvmlGpmSampleFree(self, _sample: object) -> None:  # noqa: N802
        self.freed += 1

    def nvmlGpmSampleGet(self, _device: str, _sample: object) -> None: ...  # noqa: N802

    def c_nvmlGpmMetricsGet_t(self) -> Any:  # noqa: N802
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=9, value=math.nan) for _ in range(20)]
        return SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)

    def nvmlGpmMetricsGet(self, request: Any) -> None:  # noqa: N802
        assert request.version == 1 and request.sample1 is not request.sample2
        for place in range(request.numMetrics):
            key = GPM_METRICS[request.metrics[place].metricId][0]
            if key in self.values:
                request.metrics[place].nvmlReturn = 0
                request.metrics[place].value = self.values[key]


def window(nvml: FakeNvml) -> Counters:
    counters = NvmlCounters(0, nvml)
    counters.start()
    return counters.stop()


def test_gpm_counts_what_dcgm_counts() -> None:
    found = window(FakeNvml())
    assert (found.busy, found.smact, found.smocc, found.tensor) == (0.9, 0.5, 0.25, 0.1)
    assert found.dram == 1.0, "a rate over the peak is the peak"
    assert found.pcie == pytest.approx(66000 * 2**20 / (2 * 16 * 3.938e9))
    assert found.power_w > 0
    assert found.used_mib == 3072


def test_a_metric_that_is_not_counted_is_unknown() -> None:
    nvml = FakeNvml()
    del nvml.values["tensor"]
    found = window(nvml)
    assert math.isnan(found.tensor) and found.smact == 0.5


def test_a_gpu_without_gpm_power_or_link_says_so() -> None:
    old = window(FakeNvml(gpm=False))
    assert math.isnan(old.smact) and old.power_w > 0 and old.used_mib == 3072
    absent = (
        "nvmlGpmQueryDeviceSupport",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMaxPcieLinkWidth",
        "nvmlDeviceGetMaxPcieLinkGeneration",
    )
    bare = window(FakeNvml(absent=absent))
    assert all(math.isnan(value) for value in (bare.smact, bare.power_w, bare.used_mib, bare.pcie))


def test_processes_of_both_kinds_are_seen_but_for_servers_of_mps() -> None:
    assert NvmlCounters(0, FakeNvml()).processes() == 3
    quiet = FakeNvml(absent=("nvmlDeviceGetMPSComputeRunningProcesses",))
    assert NvmlCounters(0, quiet).processes() == 1


def test_close_frees_the_samples() -> None:
    nvml = FakeNvml()
    counters = NvmlCounters(0, nvml)
    counters.start()
    counters.close()
    assert nvml.freed == 2 and nvml.shut


def test_no_such_gpu() -> None:
    with pytest.raises(ProfileError, match="GPU 1: Invalid Argument"):
        NvmlCounters(1, FakeNvml())


def test_a_machine_without_a_driver() -> None:
    with pytest.raises(ProfileError, match="NVIDIA driver"), nvml_counters():
        pass


def test_no_counters_know_nothing() -> None:
    counters = NoCounters()
    counters.start()
    assert math.isnan(counters.stop().smact)


def test_each_look_takes_the_place_of_the_last() -> None:
    seen: list[tuple[object, object]] = []

    class Watched(FakeNvml):
        def nvmlGpmMetricsGet(self, request: Any) -> None:  # noqa: N802
            seen.append((request.sample1, request.sample2))
            super().nvmlGpmMetricsGet(request)

    gpm = Gpm(Watched(), "gpu")
    assert gpm.read() == {}, "there was no first look"
    gpm.begin()
    assert gpm.read()["smact"] == 0.5 and gpm.read()["pcie_tx"] == 6000.0
    assert seen[0] == seen[1][::-1]


def test_a_package_of_the_same_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", ModuleType("pynvml"))
    with pytest.raises(NvmlMissingError, match="pip uninstall pynvml nvidia-ml-py3"):
        load()


def test_no_binding_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ProfileError, match="pip install nvidia-ml-py"):
        NvmlCounters()
