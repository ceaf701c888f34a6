"""Nsight Compute: the command that makes it count kernels, and the metrics in what it writes. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from predictor.trace import LONG_US, kernel_shapes
from predictor.types import KernelMetrics, ProfileError

LAUNCHES = 500
"""Of the workload, that are skipped, and then counted."""
METRICS: Mapping[str, str] = {
    "gpu__time_duration.sum": "ns",
    "launch__grid_size": "grid",
    "launch__block_size": "block",
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block_static": "shared",
    "launch__waves_per_multiprocessor": "waves",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "dram",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory",
}
"""What it counts, and the short names of here."""


def command(workload: Sequence[str], log: Path) -> tuple[str, ...]:
    """The command that runs a workload under Nsight Compute, which ends it once it has counted enough kernels."""
    options = {
        "--page": "raw",
        "--log-file": str(log),
        "--clock-control": "none",
        "--target-processes": "all",
        "--launch-skip": str(LAUNCHES),
        "--launch-count": str(LAUNCHES),
        "--kill": "yes",
        "--metrics": ",".join(METRICS),
    }
    return ("ncu", "--csv", *(word for option in options.items() for word in option), *workload)


def kernel_metrics(text: str) -> KernelMetrics:
    """Kernel metrics from Nsight Compute's raw CSV page, weighted by duration.

    Raises:
        ProfileError: the text holds no profiled kernel.
    """
    start = text.find('"ID"')
    rows = list(csv.DictReader(io.StringIO(text[start:]))) if start >= 0 else []
    table = []
    for row in rows[1:]:  # the first row holds units
        try:
            table.append({short: float(str(row[name]).replace(",", "")) for name, short in METRICS.items()})
        except (KeyError, ValueError):
            continue
    total = sum(row["ns"] for row in table)
    if not table or total <= 0:
        raise ProfileError(
            "Nsight Compute profiled no kernel: does the workload launch any, and may you read counters?"
        )

    def weighted(value: Callable[[dict[str, float]], float]) -> float:
        return sum(row["ns"] * value(row) for row in table) / total

    long = sum(1 for row in table if row["ns"] > 1e3 * LONG_US)
    return KernelMetrics(
        threads=weighted(lambda row: row["grid"] * row["block"]),
        registers=weighted(lambda row: row["grid"] * row["block"] * row["registers"]),
        static_shared_bytes=weighted(lambda row: row["shared"]),
        sm_throughput=weighted(lambda row: row["sm"]) / 100.0,
        dram_throughput=weighted(lambda row: row["dram"]) / 100.0,
        memory_throughput=weighted(lambda row: row["memory"]) / 100.0,
        mean_us=total / len(table) / 1e3,
        turn_us=weighted(lambda row: row["ns"]) / 1e3,
        blocking_us=sum(row["ns"] * row["waves"] / (1.0 + row["waves"]) for row in table) / len(table) / 1e3,
        long_ratio=long / max(len(table) - long, 1),
        shapes=kernel_shapes([(row["ns"] / 1e3, _as_traced(row)) for row in table]),
    )


def _as_traced(row: Mapping[str, float]) -> dict[str, Any]:
    """A row of Nsight Compute in the words of a profiler's trace."""
    return {
        "grid": [row["grid"]],
        "block": [row["block"]],
        "registers per thread": row["registers"],
        "shared memory": row["shared"],
    }
