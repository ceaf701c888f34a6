"""A stand-in for NVML: GPUs that answer what they are told to, in the shapes of nvidia-ml-py. No GPU is touched.

For tests and for measuring the monitor's own cost where there is no GPU; what it answers is made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from predictor.nvml import GPM_METRICS, MIB

GPU_IS_LOST = 15
NOT_SUPPORTED = 3
UNINITIALIZED = 1


class NvmlCallError(Exception):
    """NVML's error with its code."""

    def __init__(self, value: int) -> None:
        super().__init__({GPU_IS_LOST: "GPU is lost", NOT_SUPPORTED: "Not Supported"}.get(value, "Uninitialized"))
        self.value = value


@dataclass
class Device:
    """One GPU.

    Attributes:
        percent: GPM's metrics by our name: activities in percent, PCIe traffic in MiB/s.
        clients: memory in MiB by pid, of processes under MPS; None where NVML does not tell.
        direct: the same of other processes.
        used_mib: memory in MiB that none of these uses.
        samples: SM utilization samples of processes: pid, time stamp in us, percent.
        error: code of the error with which every call ends, or 0.
    """

    uuid: str
    minor: int
    gpm: bool = True
    percent: dict[str, float] = field(default_factory=dict)
    direct: dict[int, float | None] = field(default_factory=dict)
    clients: dict[int, float | None] = field(default_factory=dict)
    samples: list[tuple[int, int, int]] = field(default_factory=list)
    used_mib: float = 1000.0
    power_w: float = 500.0
    energy_mj: float | None = 0.0
    error: int = 0


class StandInNvml:
    """The functions of ``pynvml`` that RAD calls.

    Args:
        devices: the GPUs, in NVML's order.
        missing: functions that this driver does not support.
    """

    NVMLError = NvmlCallError
    NVML_SUCCESS = 0
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, *devices: Device, missing: tuple[str, ...] = ()) -> None:
        self.devices = list(devices)
        self.missing = missing
        self.no_driver = False
        self.open = 0
        self.calls: dict[str, int] = {}
        for place, (_, constant) in enumerate(GPM_METRICS):
            setattr(self, constant, place)

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml"):
            self.calls[name] = self.calls.get(name, 0) + 1
            if self.no_driver:
                raise NvmlCallError(UNINITIALIZED)
            if name in self.missing:
                raise NvmlCallError(NOT_SUPPORTED)
        return super().__getattribute__(name)

    def _alive(self, device: Device) -> Device:
        if device.error:
            raise NvmlCallError(device.error)
        return device

    def nvmlInit(self) -> None:  # noqa: D102, N802
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: D102, N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: D102, N802
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Device:  # noqa: D102, N802
        return self._alive(self.devices[index])

    def nvmlDeviceGetUUID(self, device: Device) -> bytes:  # noqa: D102, N802
        return self._alive(device).uuid.encode()

    def nvmlDeviceGetName(self, device: Device) -> str:  # noqa: D102, N802
        return f"Stand-in {self._alive(device).minor}"

    def nvmlDeviceGetMinorNumber(self, device: Device) -> int:  # noqa: D102, N802
        return self._alive(device).minor

    def nvmlDeviceGetMemoryInfo(self, device: Device) -> Any:  # noqa: D102, N802
        processes = [*self._alive(device).direct.values(), *device.clients.values()]
        return SimpleNamespace(used=int((device.used_mib + sum(mib or 0.0 for mib in processes)) * MIB))

    def nvmlDeviceGetPowerUsage(self, device: Device) -> int:  # noqa: D102, N802
        return int(self._alive(device).power_w * 1000)

    def nvmlDeviceGetTotalEnergyConsumption(self, device: Device) -> int:  # noqa: D102, N802
        if self._alive(device).energy_mj is None:
            raise NvmlCallError(NOT_SUPPORTED)
        return int(device.energy_mj or 0)

    def nvmlDeviceGetUtilizationRates(self, device: Device) -> Any:  # noqa: D102, N802
        return SimpleNamespace(gpu=97, memory=30, device=self._alive(device).minor)

    def nvmlDeviceGetComputeRunningProcesses(self, device: Device) -> list[Any]:  # noqa: D102, N802
        return _processes(self._alive(device).direct)

    def nvmlDeviceGetMPSComputeRunningProcesses(self, device: Device) -> list[Any]:  # noqa: D102, N802
        return _processes(self._alive(device).clients)

    def nvmlDeviceGetProcessUtilization(self, device: Device, since: int) -> list[Any]:  # noqa: D102, N802
        found = [s for s in self._alive(device).samples if s[1] >= since]
        if not found:
            raise NvmlCallError(NOT_SUPPORTED)
        return [SimpleNamespace(pid=pid, timeStamp=at, smUtil=percent) for pid, at, percent in found]

    def nvmlGpmQueryDeviceSupport(self, device: Device) -> Any:  # noqa: D102, N802
        return SimpleNamespace(isSupportedDevice=int(self._alive(device).gpm))

    def nvmlGpmSampleAlloc(self) -> Any:  # noqa: D102, N802
        return SimpleNamespace(device=None)

    def nvmlGpmSampleFree(self, sample: Any) -> None:  # noqa: D102, N802
        sample.device = None

    def nvmlGpmSampleGet(self, device: Device, sample: Any) -> None:  # noqa: D102, N802
        sample.device = self._alive(device)

    def c_nvmlGpmMetricsGet_t(self) -> Any:  # noqa: D102, N802
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in GPM_METRICS]
        return SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)

    def nvmlGpmMetricsGet(self, request: Any) -> None:  # noqa: D102, N802
        values = request.sample2.device.percent
        for metric in request.metrics[: request.numMetrics]:
            key = GPM_METRICS[metric.metricId][0]
            metric.nvmlReturn = 0 if key in values else NOT_SUPPORTED
            metric.value = values.get(key, 0.0)


def _processes(memory: dict[int, float | None]) -> list[Any]:
    return [
        SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else int(mib * MIB)) for pid, mib in memory.items()
    ]
