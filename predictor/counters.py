"""Exclusive counters of one GPU through NVML: GPM metrics, power, memory.

On GPUs without GPM (before Hopper) the counters say so instead of guessing.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from predictor.nvml import MIB, Gpm, NvmlMissingError, load, quiet
from predictor.types import ProfileError

MPS_SERVER = b"nvidia-cuda-mps-server"
PCIE_BYTES_PER_LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


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
        self.nvml = nvml if nvml is not None else _import_nvml()
        try:
            self.nvml.nvmlInit()
            self.device = self.nvml.nvmlDeviceGetHandleByIndex(index)
        except self.nvml.NVMLError as error:
            raise ProfileError(f"GPU {index}: {error}; is an NVIDIA driver loaded on this machine?") from error
        self._gpm = Gpm(self.nvml, self.device)
        self._energy = math.nan
        self._begun = 0.0

    def close(self) -> None:
        """Give NVML's memory back."""
        self._gpm.close()
        self.nvml.nvmlShutdown()

    def _quiet(self, function: str, *arguments: Any) -> Any:
        return quiet(self.nvml, function, *arguments)

    def _link_bytes(self) -> float:
        generation = self._quiet("nvmlDeviceGetMaxPcieLinkGeneration", self.device)
        width = self._quiet("nvmlDeviceGetMaxPcieLinkWidth", self.device)
        return 2.0 * PCIE_BYTES_PER_LANE.get(generation or 0, math.nan) * (width or 0)

    def _millijoules(self) -> float:
        value = self._quiet("nvmlDeviceGetTotalEnergyConsumption", self.device)
        return math.nan if value is None else float(value)

    def processes(self) -> int:
        """Compute processes on the GPU now, MPS clients included; an MPS server works for others and does not count."""
        found: dict[int, Any] = {}
        for function in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"):
            found.update({process.pid: process for process in self._quiet(function, self.device) or []})
        return sum(not self._is_server(pid) for pid in found)

    def _is_server(self, pid: int) -> bool:
        name = self._quiet("nvmlSystemGetProcessName", pid) or b""
        return MPS_SERVER in (name if isinstance(name, bytes) else name.encode())

    def used_mib(self) -> float:
        """GPU memory in use now, all processes together."""
        memory = self._quiet("nvmlDeviceGetMemoryInfo", self.device)
        return math.nan if memory is None else float(memory.used) / MIB

    def start(self) -> None:
        """Begin a window."""
        if self._gpm.supported:
            self._gpm.begin()
        self._energy = self._millijoules()
        self._begun = time.monotonic()

    def stop(self) -> Counters:
        """End the window and say what happened in it."""
        elapsed = max(time.monotonic() - self._begun, 1e-6)
        power = (self._millijoules() - self._energy) / 1e3 / elapsed
        values = self._gpm.read()
        link = self._link_bytes()
        moved = (values.get("pcie_tx", math.nan) + values.get("pcie_rx", math.nan)) * MIB
        fractions = {key: values[key] for key in ("busy", "smact", "smocc", "tensor", "dram") if key in values}
        pcie = min(moved / link, 1.0) if link > 0 else math.nan
        return Counters(**fractions, pcie=pcie, power_w=power, used_mib=self.used_mib())


def _import_nvml() -> Any:
    try:
        return load()
    except NvmlMissingError as error:
        raise ProfileError(str(error)) from error


@contextlib.contextmanager
def nvml_counters(index: int = 0) -> Iterator[NvmlCounters]:
    """Counters of a GPU, closed at the end."""
    counters = NvmlCounters(index)
    try:
        yield counters
    finally:
        counters.close()
