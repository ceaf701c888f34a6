"""Our own measurements: raw JSON lines of the collector to the CSV files that the project keeps, and back.

Two files: ``workloads.csv`` (exclusive metrics, one row a workload) and ``colocations.csv`` (what workloads reached
together, under which sharing). Touches only the folder it is given.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from predictor.artifact import ArtifactError, Colocation, Side, number, read_rows
from predictor.types import KernelMetrics, Profile

WORKLOADS_FILE = "workloads.csv"
COLOCATIONS_FILE = "colocations.csv"
CONTEXT_MIB = 744.0
"""A CUDA context of PyTorch with its libraries, measured on the same kind of machine."""
SIDES = 3
WINDOW_S = 0.6
"""Window of measurements that do not name theirs."""
FRACTIONS = ("smact", "smocc", "tensor", "dram", "pcie", "busy")
KERNEL = (
    "threads",
    "registers",
    "static_shared_bytes",
    "launches_per_s",
    "mean_us",
    "turn_us",
    "long_ratio",
)
WORKLOAD_COLUMNS = (
    "workload",
    "throughput",
    "throughput_spread",
    "repeats",
    *FRACTIONS,
    "power_w",
    "memory_mib",
    *KERNEL,
)
COLOCATION_COLUMNS = (
    "method",
    "repeat",
    *(f"workload{side}" for side in range(1, SIDES + 1)),
    *(f"threads{side}" for side in range(1, SIDES + 1)),
    *(f"throughput{side}" for side in range(1, SIDES + 1)),
)


@dataclass(frozen=True)
class Run:
    """One measurement of workloads together.

    Attributes:
        method: ``mps`` or ``slicing``.
        repeat: 0 for the first time, 1 for the second.
        threads: MPS active thread percentage of each side, 100 where none was set.
        colocation: the sides, their profiles as measured alone under MPS, and what they reached.
    """

    method: str
    repeat: int
    threads: tuple[int, ...]
    colocation: Colocation


def _text(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _json_lines(path: Path) -> Iterable[Mapping[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error
    for count, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            yield {**row, "kind": row["kind"]}
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path}: line {count}: not a measurement ({error})") from error


def finish(raw: Sequence[Path], folder: Path) -> tuple[int, int]:
    """Write both CSV files from raw measurements; returns how many workloads and colocations they hold.

    Raises:
        ArtifactError: a raw file is no such file.
    """
    alone: dict[str, dict[str, float]] = {}
    rates: dict[str, list[float]] = {}
    runs: list[Mapping[str, Any]] = []
    kernels: dict[str, Mapping[str, float]] = {}
    for row in (row for path in raw for row in _json_lines(path)):
        names = row.get("workloads", [])
        if row["kind"] == "alone" and row.get("method") == "mps" and "share" not in row:
            found = alone.setdefault(names[0], {})
            rates.setdefault(names[0], []).append(row["rates"][0])
            if not row.get("repeat"):
                found.update(row["counters"], memory_mib=row["reserved_mib"] + CONTEXT_MIB)
        elif row["kind"] == "kernels":
            kernels[names[0]] = row["metrics"]
        elif row["kind"] in ("pair", "triple", "alone"):
            runs.append(row)
    for name, measured in rates.items():
        mean = sum(measured) / len(measured)
        spread = math.sqrt(sum((rate - mean) ** 2 for rate in measured) / len(measured))
        alone[name] |= {"throughput": mean, "throughput_spread": spread / mean, "repeats": float(len(measured))}
    for name, metrics in kernels.items():
        if name in alone and metrics["launches"]:
            per_iteration = metrics["launches"] / metrics["iterations"]
            alone[name].update({key: metrics[key] for key in KERNEL if key in metrics})
            alone[name]["launches_per_s"] = per_iteration * alone[name]["throughput"]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / WORKLOADS_FILE).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(WORKLOAD_COLUMNS)
        for name, values in sorted(alone.items()):
            writer.writerow([name, *(_text(values.get(key, math.nan)) for key in WORKLOAD_COLUMNS[1:])])
    count = 0
    with (folder / COLOCATIONS_FILE).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLOCATION_COLUMNS)
        for row in runs:
            names = row["workloads"]
            if all(name in alone for name in names):
                writer.writerow(_colocation_cells(row))
                count += 1
    return len(alone), count


def _colocation_cells(row: Mapping[str, Any]) -> list[str]:
    def padded(values: Sequence[Any]) -> list[str]:
        return [str(value) for value in values] + [""] * (SIDES - len(values))

    names, rates = row["workloads"], row["rates"]
    shares = row.get("shares") or [row.get("share", 100)] * len(names)
    # A side so slow that no iteration ended in the window is taken to have done half of one.
    least = 0.5 / row.get("window_s", WINDOW_S)
    head = [row["method"], str(row.get("repeat", 0))]
    return [*head, *padded(names), *padded(shares), *padded([_text(max(rate, least)) for rate in rates])]


def load_profiles(folder: Path) -> dict[str, Profile]:
    """Exclusive profiles by workload.

    Raises:
        ArtifactError: the file is missing or a row cannot be used.
    """
    path = folder / WORKLOADS_FILE
    profiles = {}
    for line, row in read_rows(path):
        where = f"{path}: line {line}"
        values: dict[str, Any] = {key: number(row, key, where, math.nan) for key in WORKLOAD_COLUMNS[1:]}
        del values["throughput_spread"], values["repeats"]
        kernel = KernelMetrics(**{key: values.pop(key) for key in KERNEL})
        profiles[row["workload"]] = Profile(**values, kernel=kernel, name=row["workload"])
    return {name: _with_launches(profile, profiles) for name, profile in profiles.items()}


def load_spreads(folder: Path) -> dict[str, float]:
    """How far each workload's exclusive throughput varied between repeats, relative to its mean.

    Raises:
        ArtifactError: the file is missing or a row cannot be used.
    """
    path = folder / WORKLOADS_FILE
    return {
        row["workload"]: number(row, "throughput_spread", f"{path}: line {line}", math.nan)
        for line, row in read_rows(path)
    }


def _with_launches(profile: Profile, profiles: Mapping[str, Profile]) -> Profile:
    """A workload whose kernels nobody traced launches as many an iteration as its model does at another batch size.

    How long they last then follows from the time that the GPU was busy; where nothing like it was traced it stays
    unknown.
    """
    if not math.isnan(profile.kernel.mean_us):
        return profile
    alike = [
        other.kernel.launches_per_s / other.throughput
        for name, other in profiles.items()
        if family(name) == family(profile.name)
        and name.rpartition("-")[2] == profile.name.rpartition("-")[2]
        and not math.isnan(other.kernel.launches_per_s)
    ]
    if not alike:
        return profile
    launches_per_s = sum(alike) / len(alike) * profile.throughput
    kernel = replace(profile.kernel, launches_per_s=launches_per_s, mean_us=1e6 * profile.busy / launches_per_s)
    return replace(profile, kernel=kernel)


def load_runs(folder: Path) -> tuple[Run, ...]:
    """Everything measured together (and alone under a thread percentage or time slicing).

    Raises:
        ArtifactError: a file is missing or a row cannot be used.
    """
    profiles = load_profiles(folder)
    path = folder / COLOCATIONS_FILE
    runs = []
    for line, row in read_rows(path):
        where = f"{path}: line {line}"
        names = [row[f"workload{side}"] for side in range(1, SIDES + 1) if row.get(f"workload{side}")]
        unknown = sorted(set(names) - set(profiles))
        if unknown or not names:
            raise ArtifactError(f"{where}: {unknown or 'no workload'} not in {WORKLOADS_FILE}")
        places = range(1, len(names) + 1)
        sides = tuple(
            Side(name, profiles[name], number(row, f"throughput{place}", where))
            for name, place in zip(names, places, strict=True)
        )
        threads = tuple(int(number(row, f"threads{place}", where)) for place in places)
        runs.append(Run(row["method"], int(number(row, "repeat", where)), threads, Colocation(sides)))
    return tuple(runs)


def shared(runs: Iterable[Run], sides: int, repeat: int = 0) -> tuple[Colocation, ...]:
    """Colocations of so many sides under MPS without thread percentages, measured for the first or second time."""
    return tuple(
        run.colocation
        for run in runs
        if run.method == "mps"
        and run.repeat == repeat
        and len(run.colocation.sides) == sides
        and set(run.threads) == {100}
    )


def family(workload: str) -> str:
    """The model family of one of our workloads: ``bert_batch4-train`` -> ``bert``."""
    return workload.partition("_batch")[0]
