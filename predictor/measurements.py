"""Our own measurements: raw JSON lines of the collector to the CSV files that the project keeps, and back.

Two files: ``workloads.csv`` (exclusive metrics, one row a workload) and ``colocations.csv`` (what workloads reached
together, under which sharing). Touches only the folder it is given.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from estimator import files
from predictor.artifact import ArtifactError, Colocation, Side, number, profile_of, rate, read_rows, word
from predictor.types import KernelMetrics, Profile

WORKLOADS_FILE = "workloads.csv"
COLOCATIONS_FILE = "colocations.csv"
FRESH_FOLDER = "fresh"
CONTEXT_MIB = 744.0
"""A CUDA context of PyTorch with its libraries, measured on the same kind of machine."""
SIDES = 3
NEAR = 0.7
"""Part of a pair's meeting that counts for either side."""
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
    "blocking_us",
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
    "session",
    "method",
    "repeat",
    *(f"workload{side}" for side in range(1, SIDES + 1)),
    *(f"threads{side}" for side in range(1, SIDES + 1)),
    *(f"throughput{side}" for side in range(1, SIDES + 1)),
    *(f"alone{side}" for side in range(1, SIDES + 1)),
)


@dataclass(frozen=True)
class Run:
    """One measurement of workloads together.

    Attributes:
        method: ``mps`` or ``slicing``.
        repeat: 0 for the first time in its session, 1 for the second.
        threads: MPS active thread percentage of each side, 100 where none was set.
        colocation: the sides, their profiles as measured alone under MPS, and what they reached.
        session: which sitting at the GPU, the earliest is 0.
    """

    method: str
    repeat: int
    threads: tuple[int, ...]
    colocation: Colocation
    session: int = 0


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


def load_profiles(folder: Path) -> dict[str, Profile]:
    """Exclusive profiles by workload.

    Raises:
        ArtifactError: the file is missing or a row cannot be used.
    """
    path = folder / WORKLOADS_FILE
    profiles = {}
    for line, row in read_rows(path):
        where = f"{path}: line {line}"
        name = word(row, "workload", where)
        if name in profiles:
            raise ArtifactError(f"{where}: {name!r} stands in an earlier line, too: keep one")
        values: dict[str, Any] = {key: number(row, key, where, math.nan) for key in WORKLOAD_COLUMNS[1:]}
        del values["throughput_spread"], values["repeats"]
        values["throughput"] = rate(row, "throughput", where)
        kernel = KernelMetrics(**{key: values.pop(key) for key in KERNEL})
        profiles[name] = profile_of(where, **values, kernel=kernel, name=name)
    return profiles


def load_spreads(folder: Path) -> dict[str, float]:
    """How far each workload's exclusive throughput varied between repeats, relative to its mean.

    Raises:
        ArtifactError: the file is missing or a row cannot be used.
    """
    path = folder / WORKLOADS_FILE
    return {
        word(row, "workload", where): number(row, "throughput_spread", where, math.nan)
        for where, row in ((f"{path}: line {line}", row) for line, row in read_rows(path))
    }


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
        sides = tuple(_side(name, profiles[name], row, place, where) for name, place in zip(names, places, strict=True))
        threads = tuple(_percentage(row, f"threads{place}", where) for place in places)
        repeat, session = int(number(row, "repeat", where)), int(number(row, "session", where, 0.0))
        runs.append(Run(word(row, "method", where), repeat, threads, Colocation(sides), session))
    return tuple(runs)


def _percentage(row: Mapping[str, str], column: str, where: str) -> int:
    value = number(row, column, where)
    if value not in range(1, 101):
        raise ArtifactError(f"{where}: column {column!r}: {value:g}, it must be a whole percentage from 1 to 100")
    return int(value)


def at_pace(profile: Profile, throughput: float) -> Profile:
    """A workload's profile as it is when its host lets it reach another throughput alone.

    How fast a host launches differs from one moment to the next. An iteration takes as much of the GPU either way: a
    host that is slower leaves the GPU idle for longer.
    """
    pace = throughput / profile.throughput
    activity = {key: min(getattr(profile, key) * pace, 1.0) for key in FRACTIONS}
    kernel = replace(profile.kernel, launches_per_s=profile.kernel.launches_per_s * pace)
    return replace(profile, throughput=throughput, kernel=kernel, **activity)


def _side(name: str, profile: Profile, row: Mapping[str, str], place: int, where: str) -> Side:
    """A side with its profile as it was at that time."""
    alone = rate(row, f"alone{place}", where, profile.throughput)
    return Side(name, at_pace(profile, alone), rate(row, f"throughput{place}", where))


def shared(runs: Iterable[Run], sides: int, repeat: int = 0) -> tuple[Colocation, ...]:
    """Colocations of so many sides under MPS without thread percentages, measured for the first or second time.

    Each as the last session measured it that did so.
    """
    plain = [
        run for run in runs if run.method == "mps" and len(run.colocation.sides) == sides and set(run.threads) == {100}
    ]
    latest: dict[tuple[str, ...], int] = {}
    for run in plain:
        names = _names(run)
        latest[names] = max(latest.get(names, 0), run.session)
    return tuple(run.colocation for run in plain if run.repeat == repeat and run.session == latest[_names(run)])


def _names(run: Run) -> tuple[str, ...]:
    return tuple(sorted(side.workload for side in run.colocation.sides))


def family(workload: str) -> str:
    """The model family of one of our workloads: ``bert_batch4-train`` -> ``bert``."""
    return workload.partition("_batch")[0]
