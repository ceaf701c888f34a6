"""Our own measurements, as the project keeps them; :mod:`predictor.collection.sessions` writes them.

Two files: ``workloads.csv`` (exclusive metrics, one row a workload) and ``colocations.csv`` (what workloads reached
together, under which sharing). Reads only the folder it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from predictor.artifact import ArtifactError, Colocation, Side, number, profile_of, rate, read_rows, word
from predictor.types import KernelMetrics, Profile

WORKLOADS_FILE = "workloads.csv"
COLOCATIONS_FILE = "colocations.csv"
FRESH_FOLDER = "fresh"
SIDES = 3
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
