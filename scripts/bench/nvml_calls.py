"""What rad-monitor's calls of NVML cost: `python -m scripts.bench.nvml_calls [--rounds 100] [--json]`.

Opens the machine's GPUs as the monitor does, looks at them for some rounds, and prints for each function of NVML how
often a look calls it, how long a call takes, and how much processor time of that is ours. A look is spaced by the
given pause, because a driver may answer from what it noted a moment ago.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from predictor.nvml import load
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
                backend.activity(reading.index)
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What rad-monitor's calls of NVML cost")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two looks")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(load(), options.rounds, options.pause)
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
