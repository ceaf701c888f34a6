"""GPUs through NVML, with GPM where the GPU has it. Touches the driver and nothing else.

Some of NVML's answers cost milliseconds of processor time (`python -m scripts.bench.nvml_calls`; on an H200 the lists
of processes, their samples, the energy counter and GPM's engine activity), all others together a fraction of one.
Those are asked for seldom.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from predictor.nvml import MIB, Gpm, NvmlMissingError, load, quiet
from slurm_hooks.monitor.metrics import BackendError, ProcessUse, Reading

log = logging.getLogger("rad.monitor")

# NVML's codes for a driver that is gone: nothing will answer until it is loaded again.
_DRIVER_GONE = (1, 9, 18)  # uninitialized, driver not loaded, library and driver of different versions
# A GPU that has fallen off the bus, or must be reset; what NVML calls unknown may be anything.
_LOST = (15, 16)
_UNKNOWN = 999
_LOOKS_BEFORE_RETRY = 60
# Between two readings of the energy counter it grows by power times time; GPUs of one node take turns.
_ENERGY_S = 120.0
_PAUSE_S = 5.0  # over a longer pause between two looks, power is not known
# Samples of processes are asked for this often, seldom where there are none, and soon after others have come.
_SAMPLES_S = 60.0
_NO_SAMPLES_S = 120.0
_NEW_PROCESSES_S = 2.0
_MAX_PERCENT = 100
_GRACT_S = 60.0
# Lists of processes are asked for when the GPU's memory in use has changed, which nearly all that happens to them does.
_LISTS_S = 60.0
_LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses")


@dataclass
class _Device:
    handle: Any
    position: int
    index: int
    uuid: str
    name: str
    gpm: Gpm | None
    begun: bool = False
    gpm_failed: bool = False
    gract: float | None = None
    gract_due: float = float("-inf")
    processes: tuple[ProcessUse, ...] | None = None
    listed_at_mib: float | None = None
    lists_due: float = float("-inf")
    has_lists: set[str] = field(default_factory=set)
    lost_for: int = 0
    looked: float = float("-inf")
    energy_mj: float | None = None
    counted_mj: float = 0.0
    drawn_mj: float = 0.0
    forgotten_mj: float = 0.0  # by a counter that began anew
    energy_due: float = float("-inf")
    seen_us: int = 0
    asked: float = float("-inf")
    asked_of: frozenset[int] = frozenset()
    busy: dict[int, float] = field(default_factory=dict)


class NvmlBackend:
    """All GPUs that NVML shows.

    Args:
        gpm: whether to ask for GPM's metrics where a GPU has them.
        nvml: the ``pynvml`` module, or a stand-in with its functions.
        clock: monotonic seconds.
        wall: Unix time in seconds, as NVML stamps samples of processes.

    Raises:
        BackendError: if there is no NVML, no driver or no GPU.
    """

    def __init__(
        self,
        *,
        gpm: bool,
        nvml: Any = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock, self._wall = clock, wall
        try:
            self._nvml = load() if nvml is None else nvml
        except NvmlMissingError as error:
            raise BackendError(str(error)) from error
        nvml = self._nvml
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            raise BackendError(f"NVML: {error}: is an NVIDIA driver loaded on this machine?") from error
        self._gpm, self._waited = gpm, 0
        self._devices: list[_Device] = []
        self._unopened: dict[int, str] = dict.fromkeys(range(count), "")
        self._open_all()
        self.has_gpm = any(device.gpm for device in self._devices)
        self.name = "gpm" if self.has_gpm else "nvml"
        if not self._devices:
            nvml.nvmlShutdown()
            raise BackendError("NVML shows no GPU that answers")

    def _open_all(self) -> None:
        """Open the GPUs that are not open yet; why one cannot be is said once."""
        for position, said in list(self._unopened.items()):
            try:
                self._devices.append(self._open(position))
                del self._unopened[position]
            except self._nvml.NVMLError as error:
                if str(error) != said:
                    log.warning("GPU %d cannot be opened: %s", position, error)
                self._unopened[position] = str(error)

    def _open(self, position: int) -> _Device:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(position)
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        minor = quiet(nvml, "nvmlDeviceGetMinorNumber", handle)
        counting = Gpm(nvml, handle) if self._gpm else None
        return _Device(
            handle=handle,
            position=position,
            index=position if minor is None else int(minor),
            uuid=uuid,
            name=_text(quiet(nvml, "nvmlDeviceGetName", handle) or ""),
            gpm=counting if counting and counting.supported else None,
        )

    def close(self) -> None:
        """Give NVML's memory back."""
        for device in self._devices:
            if device.gpm:
                device.gpm.close()
        quiet(self._nvml, "nvmlShutdown")

    def read(self, *, anew: bool = False) -> list[Reading]:
        """All GPUs; one that is lost says so, and the others go on.

        Args:
            anew: no list of processes may be older than this look.

        Raises:
            BackendError: if the driver is gone.
        """
        self._waited += bool(self._unopened)
        if self._waited > _LOOKS_BEFORE_RETRY:
            self._waited = 0
            self._open_all()
        return [self._reading(device, anew) for device in self._devices]

    def _reading(self, device: _Device, anew: bool) -> Reading:
        if device.lost_for and not self._found_again(device):
            return Reading(device.index, device.uuid, device.name, lost=True)
        try:
            memory = self._memory(device)
            values = {} if memory is None else {"used_mib": memory}
            values |= self._counted(device)
        except self._nvml.NVMLError as error:
            if _code(error) in _DRIVER_GONE:
                raise BackendError(f"NVML: {error}: the driver is gone") from error
            log.warning("GPU %d (%s) does not answer: %s", device.index, device.uuid, error)
            device.lost_for = 1
            return Reading(device.index, device.uuid, device.name, lost=True)
        values |= self._drawn(device)
        return Reading(device.index, device.uuid, device.name, values, self._processes(device, memory, anew))

    def _memory(self, device: _Device) -> float | None:
        """Memory in use in MiB; this question also finds out whether the GPU still answers."""
        try:
            return float(self._nvml.nvmlDeviceGetMemoryInfo(device.handle).used) / MIB
        except self._nvml.NVMLError as error:
            if _code(error) in (*_LOST, *_DRIVER_GONE, _UNKNOWN):
                raise
            return None

    def _found_again(self, device: _Device) -> bool:
        """Whether a lost GPU answers again, tried once in a while."""
        device.lost_for += 1
        if device.lost_for <= _LOOKS_BEFORE_RETRY:
            return False
        device.lost_for = 1
        handle = quiet(self._nvml, "nvmlDeviceGetHandleByIndex", device.position)
        if handle is None or _text(quiet(self._nvml, "nvmlDeviceGetUUID", handle) or "") != device.uuid:
            return False
        device.handle, device.begun, device.lost_for = handle, False, 0
        device.energy_due = device.gract_due = device.lists_due = float("-inf")
        if device.gpm:
            device.gpm.close()
            device.gpm = Gpm(self._nvml, handle)
        log.info("GPU %d answers again", device.index)
        return True

    def _counted(self, device: _Device) -> dict[str, float]:
        if device.gpm is None:
            return {}
        try:
            if not device.begun:
                device.gpm.begin()
                device.begun = True
                return {}
            wanted = self._clock() >= device.gract_due
            found = device.gpm.read(busy=wanted)
            if wanted:
                device.gract, device.gract_due = found.pop("busy", None), self._clock() + _GRACT_S
        except self._nvml.NVMLError as error:
            if _code(error) in (*_LOST, *_DRIVER_GONE):
                raise
            if not device.gpm_failed:
                log.warning("GPU %d: GPM gives nothing (%s); the rest is measured", device.index, error)
            device.gpm_failed, device.begun = True, False
            return {}
        if device.gract is not None:
            found["gract"] = device.gract
        for key in ("pcie_tx", "pcie_rx"):
            if key in found:
                found[key] *= MIB
        return found

    def _drawn(self, device: _Device) -> dict[str, float]:
        nvml, found = self._nvml, {}
        power = quiet(nvml, "nvmlDeviceGetPowerUsage", device.handle)
        rates = quiet(nvml, "nvmlDeviceGetUtilizationRates", device.handle)
        if power is not None:
            found["power_w"] = power / 1e3
        energy = self._energy_mj(device, power)
        if energy is not None:
            found["energy_mj"] = energy
        if rates is not None:
            found["util"] = float(rates.gpu)
        return found

    def _energy_mj(self, device: _Device, power_mw: float | None) -> float | None:
        """The energy counter as it was read last, and what has been drawn since; it never goes back.

        Where power that reads too high has taken it beyond the counter, it waits for the counter.
        """
        now = self._clock()
        since, device.looked = now - device.looked, now
        known = device.energy_mj
        if known is not None and power_mw is not None and since <= _PAUSE_S and now < device.energy_due:
            device.drawn_mj += power_mw * since
            device.energy_mj = max(known, device.counted_mj + device.drawn_mj)
            return device.energy_mj
        turn = (device.position + 1) / max(1, len(self._devices)) if device.energy_mj is None else 1.0
        device.energy_due = now + _ENERGY_S * turn
        counted = quiet(self._nvml, "nvmlDeviceGetTotalEnergyConsumption", device.handle)
        if counted is None:
            return None
        ahead = 0.0 if known is None else known - counted - device.forgotten_mj
        if ahead > device.drawn_mj:  # more than was added since the counter was read last: it began anew
            device.forgotten_mj += ahead
        device.counted_mj = counted + device.forgotten_mj
        device.drawn_mj = 0.0
        device.energy_mj = max(device.counted_mj, known or 0.0)
        return device.energy_mj

    def _processes(self, device: _Device, used_mib: float | None, anew: bool) -> tuple[ProcessUse, ...] | None:
        """Processes that compute, those under MPS too; one that stands in both lists counts once."""
        now = self._clock()
        if not anew and used_mib is not None and used_mib == device.listed_at_mib and now < device.lists_due:
            return device.processes
        lists = {name: quiet(self._nvml, name, device.handle) for name in _LISTS}
        found = {name for name, running in lists.items() if running is not None}
        # A list that fails now, and did not before, is asked for again in the next look.
        complete, device.has_lists = device.has_lists <= found, device.has_lists | found
        device.processes = _uses(p for running in lists.values() for p in running or ()) if found else None
        device.listed_at_mib, device.lists_due = used_mib, now + _LISTS_S if complete else now
        return device.processes

    def activity(self, index: int, pids: Collection[int]) -> Mapping[int, float]:
        """NVML's samples of each process's SM utilization, added up over the time between two questions."""
        device, now = next(device for device in self._devices if device.index == index), self._clock()
        since = now - device.asked
        due = _SAMPLES_S if device.busy else _NO_SAMPLES_S
        if since < due and (since < _NEW_PROCESSES_S or device.asked_of.issuperset(pids)):
            return device.busy
        # The clock may have been set back since.
        newest = seen_us = min(device.seen_us, int(self._wall() * 1e6))
        samples = quiet(self._nvml, "nvmlDeviceGetProcessUtilization", device.handle, seen_us) or ()
        found: dict[int, float] = {}
        for sample in samples:
            # Beside processes that hang, drivers were seen to give numbers that are none.
            if sample.timeStamp > seen_us and sample.smUtil <= _MAX_PERCENT:
                found[sample.pid] = found.get(sample.pid, 0.0) + sample.smUtil
                newest = max(newest, sample.timeStamp)
        device.seen_us, device.asked, device.asked_of, device.busy = newest, now, frozenset(pids), found
        return found


def _uses(running: Iterable[Any]) -> tuple[ProcessUse, ...]:
    uses: dict[int, float | None] = {}
    for process in running:
        used = process.usedGpuMemory
        mib = None if used is None else used / MIB
        known = uses.get(process.pid)
        uses[process.pid] = mib if known is None or (mib is not None and mib > known) else known
    return tuple(ProcessUse(pid, mib) for pid, mib in uses.items())


def _code(error: Exception) -> int | None:
    return getattr(error, "value", None)


def _text(value: Any) -> str:
    """Older bindings give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
