"""What the collector wrote at its sittings, raw JSON lines, to the CSV files that the project keeps.

Touches only the files and the folder that it is given.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from estimator import files
from predictor.artifact import ArtifactError
from predictor.measurements import (
    COLOCATION_COLUMNS,
    COLOCATIONS_FILE,
    FRACTIONS,
    FRESH_FOLDER,
    KERNEL,
    SIDES,
    WORKLOAD_COLUMNS,
    WORKLOADS_FILE,
)

CONTEXT_MIB = 744.0
"""A CUDA context of PyTorch with its libraries, measured on the same kind of machine."""
NEAR = 0.7
"""Part of a pair's meeting that counts for either side."""
WINDOW_S = 0.6
"""Window of measurements that do not name theirs."""


def _text(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _json_lines(path: Path) -> Iterable[Mapping[str, Any]]:
    try:
        lines = files.read(path, files.MAX_DATA_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError, files.FileRefusedError) as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error
    for count, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            yield {**row, "kind": row["kind"]}
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{path}: line {count}: not a measurement ({error})") from error


@dataclass(frozen=True)
class Course:
    """What a workload did while it ran.

    Attributes:
        begun: when it started.
        moments: when each iteration was done.
    """

    begun: float
    moments: tuple[float, ...]

    def rate(self, begin: float, end: float) -> float:
        """Iterations in a unit of time between two moments; one that was under way at either counts in part."""
        times = (self.begun, *self.moments)
        first, last = (float(np.interp(moment, times, range(len(times)))) for moment in (begin, end))
        return (last - first) / (end - begin)


def _crossed(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Throughputs of a pair of which the first side ran alone, then both, then the second.

    A host's speed jumps now and then. So what counts is the part of their meeting that is nearest to the time at
    which a side was alone. The second side is alone once what the first had queued is done; if that takes too long,
    what it reaches alone stays unknown.
    """
    one, two = (Course(moments[0], tuple(moments[1:])) for moments in row["moments_ms"])
    begin, end = row["alone_ms"]
    meet, part = row["met_ms"]
    near = NEAR * (part - meet)
    free = max(part, *one.moments) if one.moments else part
    left = row["end_ms"] - free
    second = 1e3 * two.rate(free, row["end_ms"]) if left > (end - begin) / 2 else None
    rates = [1e3 * one.rate(meet, meet + near), 1e3 * two.rate(part - near, part)]
    return {**row, "rates": rates, "alone": [1e3 * one.rate(begin, end), second], "window_s": near / 1e3}


@dataclass
class _Session:
    """What one sitting at a GPU measured.

    Attributes:
        solos: throughputs of each workload running alone under MPS.
        counters: its counters then, each with the throughput that it had.
        memory_mib: its GPU memory.
        kernels: its kernel metrics.
        runs: everything measured together, and alone otherwise than under MPS.
    """

    solos: dict[str, list[float]]
    counters: dict[str, list[tuple[float, Mapping[str, float]]]]
    memory_mib: dict[str, float]
    kernels: dict[str, Mapping[str, float]]
    runs: list[Mapping[str, Any]]

    def alone(self, name: str) -> float:
        """What a workload typically reached alone; NaN if it never ran alone."""
        return float(np.median(self.solos[name])) if name in self.solos else math.nan


def _read_session(paths: Sequence[Path]) -> _Session:
    session = _Session({}, {}, {}, {}, [])
    for row in (row for path in paths for row in _json_lines(path)):
        names = row.get("workloads", [])
        if "moments_ms" in row:
            row = _crossed(row)  # noqa: PLW2901 - the same, as rates
        if row["kind"] == "alone" and row.get("method") == "mps" and "share" not in row:
            session.solos.setdefault(names[0], []).append(row["rates"][0])
            session.counters.setdefault(names[0], []).append((row["rates"][0], row["counters"]))
            session.memory_mib[names[0]] = row["reserved_mib"] + CONTEXT_MIB
        elif row["kind"] == "kernels":
            session.kernels[names[0]] = row["metrics"]
        elif row["kind"] in ("pair", "triple", "alone"):
            session.runs.append(row)
            for name, solo in zip(names, row.get("alone", ()), strict=False):
                if solo:
                    session.solos.setdefault(name, []).append(solo)
    return session


def _workload_values(name: str, sessions: Sequence[_Session]) -> dict[str, float]:
    """Exclusive metrics of a workload: kernels from the last session that traced it, the rest from the last at all."""
    session = next(session for session in reversed(sessions) if name in session.counters)
    throughput = session.alone(name)
    solos = np.array(session.solos[name])
    values = {"throughput": throughput, "repeats": float(len(solos)), "memory_mib": session.memory_mib[name]}
    values["throughput_spread"] = float(solos.std()) / throughput
    for key in (*FRACTIONS, "power_w"):
        # An iteration keeps the GPU busy for as long, however fast the host was at that moment.
        found = [
            counters[key] * (throughput / rate if key in FRACTIONS else 1.0)
            for rate, counters in session.counters[name]
            if rate > 0.0 and key in counters
        ]
        mean = sum(found) / len(found) if found else math.nan
        values[key] = min(mean, 1.0) if key in FRACTIONS else mean
    for kernels in (session.kernels[name] for session in reversed(sessions) if name in session.kernels):
        if kernels["launches"]:
            values |= {key: kernels[key] for key in KERNEL if key in kernels}
            values["launches_per_s"] = kernels["launches"] / kernels["iterations"] * throughput
            break
    return values


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What was measured, however often."""
    return (row["kind"], row["method"], tuple(sorted(row["workloads"])), str(row.get("shares") or row.get("share")))


def finish(sessions: Sequence[Sequence[Path]], folder: Path, fresh: Collection[str] = ()) -> tuple[int, int]:
    """Write both CSV files from raw measurements; returns how many workloads and colocations they hold.

    Args:
        sessions: raw files of each sitting at a GPU, the latest last: profiles are its, as far as it has any.
        folder: where to write.
        fresh: workloads to judge by: with the colocations that they take part in they are written to a folder of
            their own in ``folder``, never beside what models are fitted to.

    Raises:
        ArtifactError: a raw file is no such file.
    """
    read = [_read_session(paths) for paths in sessions]
    values = {name: _workload_values(name, read) for name in sorted({name for each in read for name in each.counters})}
    cells: list[list[str]] = []
    judged: list[list[str]] = []
    for turn, session in enumerate(read):
        times: Counter[tuple[Any, ...]] = Counter()
        for row in session.runs:
            if all(name in values for name in row["workloads"]):
                kept = judged if set(row["workloads"]) & set(fresh) else cells
                # A session that was cut may hold the second time without the first.
                again = {**row, "session": turn, "repeat": times[_place(row)]}
                kept.append(_colocation_cells(again, session, values))
                times[_place(row)] += 1
    _write_tables(folder, {name: each for name, each in values.items() if name not in fresh}, cells)
    if judged:
        _write_tables(folder / FRESH_FOLDER, values, judged)
    return len(values), len(cells) + len(judged)


def _write_tables(folder: Path, values: Mapping[str, Mapping[str, float]], cells: Sequence[Sequence[str]]) -> None:
    workloads = [
        [name, *(_text(each.get(key, math.nan)) for key in WORKLOAD_COLUMNS[1:])] for name, each in values.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for file, columns, rows in (
        (WORKLOADS_FILE, WORKLOAD_COLUMNS, workloads),
        (COLOCATIONS_FILE, COLOCATION_COLUMNS, cells),
    ):
        with (folder / file).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)


def _colocation_cells(
    row: Mapping[str, Any], session: _Session, values: Mapping[str, Mapping[str, float]]
) -> list[str]:
    def padded(each: Sequence[Any]) -> list[str]:
        return [str(value) for value in each] + [""] * (SIDES - len(each))

    names, rates = row["workloads"], row["rates"]
    shares = row.get("shares") or [row.get("share", 100)] * len(names)
    # A side so slow that no iteration ended in the window is taken to have done half of one.
    least = 0.5 / row.get("window_s", WINDOW_S)
    alone = []
    for name, solo in zip(names, row.get("alone") or [None] * len(names), strict=True):
        typical = session.alone(name)
        alone.append(solo or (values[name]["throughput"] if math.isnan(typical) else typical))
    head = [str(row["session"]), row["method"], str(row["repeat"])]
    reached = [_text(rate or least) for rate in rates]
    return [*head, *padded(names), *padded(shares), *padded(reached), *padded([_text(rate) for rate in alone])]
