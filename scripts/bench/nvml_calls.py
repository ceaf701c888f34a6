"""What rad-monitor's calls of NVML cost: `python -m scripts.bench.nvml_calls [--rounds 100] [--json]`.

Opens the machine's GPUs as the monitor does, looks at them for some rounds, and prints for each function of NVML how
often a look calls it, how long a call takes, and how much processor time of that is ours. A look is spaced by the
given pause, because a driver may answer from what it noted a moment ago.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from predictor.nvml import GPM_METRICS, NvmlMissingError, load
from slurm_hooks.monitor.metrics import BackendError
from slurm_hooks.monitor.nvml import NvmlBackend


class Clocked:
    """``pynvml`` with a clock around each of its functions.

    Args:
        nvml: the module, or a stand-in with its functions.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self.spent: dict[str, list[float]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._nvml, name)
        return self._clocked(name, found) if name.startswith("nvml") and callable(found) else found

    def _clocked(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        spent = self.spent.setdefault(name, [0.0, 0.0, 0.0])

        def call(*arguments: Any) -> Any:
            wall, used = time.perf_counter(), time.process_time()
            try:
                return function(*arguments)
            finally:
                spent[0] += 1
                spent[1] += time.perf_counter() - wall
                spent[2] += time.process_time() - used

        return call


def measure(nvml: Any, rounds: int, pause_s: float) -> dict[str, Any]:
    """Look at all GPUs some times.

    Args:
        nvml: ``pynvml``, or a stand-in.
        rounds: number of looks.
        pause_s: time between two of them.
    """
    clocked = Clocked(nvml)
    backend = NvmlBackend(gpm=True, nvml=clocked)
    try:
        readings = backend.read()
        clocked.spent.clear()
        for _ in range(rounds):
            time.sleep(pause_s)
            readings = backend.read()
            for reading in readings:
                backend.activity(reading.index, [use.pid for use in reading.processes or ()])
        rows: list[dict[str, Any]] = [
            {
                "function": name,
                "calls_a_look": round(calls / rounds, 2),
                "wall_us": round(1e6 * wall / calls, 1),
                "processor_us": round(1e6 * used / calls, 1),
                "processor_us_a_look": round(1e6 * used / rounds, 1),
            }
            for name, (calls, wall, used) in sorted(clocked.spent.items(), key=lambda item: -item[1][2])
            if calls
        ]
    finally:
        backend.close()
    return {
        "gpus": len(readings),
        "processes": sum(len(reading.processes or ()) for reading in readings),
        "processor_us_a_look": round(sum(row["processor_us_a_look"] for row in rows), 1),
        "calls": rows,
    }


def ways(nvml: Any, rounds: int) -> dict[str, float]:
    """Processor time in us of other ways to ask the first GPU the same things, and of GPM with fewer metrics."""
    nvml.nvmlInit()
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
    nvml.nvmlGpmSampleGet(device, samples[0])
    time.sleep(1.0)
    nvml.nvmlGpmSampleGet(device, samples[1])

    def gpm(names: Sequence[str]) -> Callable[[], Any]:
        request = nvml.c_nvmlGpmMetricsGet_t()
        for place, name in enumerate(names):
            request.metrics[place].metricId = getattr(nvml, name)
        request.version, request.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(names)
        request.sample1, request.sample2 = samples
        return lambda: nvml.nvmlGpmMetricsGet(request)

    def fields(*names: str) -> Callable[[], Any]:
        return lambda: nvml.nvmlDeviceGetFieldValues(device, [getattr(nvml, name) for name in names])

    constants = [constant for _, constant in GPM_METRICS]
    asked: dict[str, Callable[[], Any]] = {
        **{f"GPM, {count} metrics": gpm(constants[:count]) for count in (1, 2, 5, len(constants))},
        **{f"GPM, {constant} alone": gpm([constant]) for constant in constants},
        "energy": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device),
        "energy as a field": fields("NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
        "power as a field, instant": fields("NVML_FI_DEV_POWER_INSTANT"),
        "power as a field, average": fields("NVML_FI_DEV_POWER_AVERAGE"),
        "power": lambda: nvml.nvmlDeviceGetPowerUsage(device),
        "power, energy, both as fields": fields("NVML_FI_DEV_POWER_AVERAGE", "NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
        "utilization of processes": lambda: nvml.nvmlDeviceGetProcessUtilization(device, 0),
        "utilization of processes, newer call": lambda: nvml.nvmlDeviceGetProcessesUtilizationInfo(device, 0),
        "processes in detail": lambda: nvml.nvmlDeviceGetRunningProcessDetailList(device, 1, 0),
        "GPM sample": lambda: nvml.nvmlGpmSampleGet(device, samples[1]),
        "ECC errors (for comparison)": lambda: nvml.nvmlDeviceGetTotalEccErrors(device, 0, 0),
    }
    found = {}
    for name, ask in asked.items():
        used = time.process_time()
        for _ in range(rounds):
            with contextlib.suppress(nvml.NVMLError, AttributeError):
                ask()
        found[name] = round(1e6 * (time.process_time() - used) / rounds, 1)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What rad-monitor's calls of NVML cost")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two looks")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ways", action="store_true", help="compare ways to ask the first GPU instead")
    options = parser.parse_args()
    try:
        nvml = load()
        NvmlBackend(gpm=False, nvml=nvml).close()
    except (NvmlMissingError, BackendError) as error:
        raise SystemExit(f"nvml_calls: {error}") from error
    if options.ways:
        print(json.dumps(ways(nvml, options.rounds), indent=1))
        return
    found = measure(nvml, options.rounds, options.pause)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{found['gpus']} GPUs, {found['processes']} processes: {found['processor_us_a_look']} us a look in NVML")
    for row in found["calls"]:
        print(
            "  ".join(str(value).rjust(12) if key != "function" else str(value).ljust(44) for key, value in row.items())
        )


if __name__ == "__main__":
    main()
