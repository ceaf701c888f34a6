"""A run's counters: means, 95th percentiles and peaks as they grow, and the file in which they wait for Epilog.

One file for each job, ``JOB.counters.json`` in [node].state_dir, for root alone, written whole or not at all. It holds
all that the monitor needs to go on after a restart. Imports little: Epilog reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slurm_hooks.node import state
from slurm_hooks.records import Counters

BINS = 100
SERIES = ("smact", "smocc", "dram")
MAX_NEIGHBOURS = 12
_MAX_EVIDENCE = 200
_LARGEST = 2**53


@dataclass(frozen=True)
class JobCounters(Counters):
    """What was measured of one run.

    Attributes:
        restart: number of the run, from 0.
        seconds: how long the job was seen on a GPU.
        evidence: what the monitor did about a process over the job's allotment, or the empty string.
    """

    restart: int = 0
    seconds: float = 0.0
    evidence: str = ""


@dataclass
class Series:
    """Values between 0 and 1, each weighted by how long it held; the percentile is right to half a bin (0.005)."""

    seconds: float = 0.0
    total: float = 0.0
    bins: list[float] = field(default_factory=lambda: [0.0] * BINS)

    def add(self, value: float, seconds: float) -> None:
        """Take a value in that held for some seconds."""
        value = 0.0 if value < 0.0 else value
        place = int(value * BINS)
        if place >= BINS:
            value, place = min(value, 1.0), BINS - 1
        self.seconds += seconds
        self.total += value * seconds
        self.bins[place] += seconds

    @property
    def mean(self) -> float | None:
        """Mean over time, or None where nothing was taken in."""
        return self.total / self.seconds if self.seconds > 0 else None

    @property
    def p95(self) -> float | None:
        """What was not passed in 95 % of the time: the middle of its bin; None where nothing was taken in."""
        if self.seconds <= 0:
            return None
        passed = 0.0
        place = -1
        while passed < 0.95 * self.seconds - 1e-9 and place < BINS - 1:
            place += 1
            passed += self.bins[place]
        return (place + 0.5) / BINS

    def to_json(self) -> dict[str, Any]:
        """As it lies in the file; empty bins are left out."""
        bins = {str(place): round(weight, 3) for place, weight in enumerate(self.bins) if weight}
        return {"seconds": round(self.seconds, 3), "total": round(self.total, 6), "bins": bins}

    @classmethod
    def from_json(cls, data: Any) -> Series:
        """Read what `to_json` gave.

        Raises:
            ValueError: if it is something else.
        """
        made = cls(_number(_of(data, "seconds")), _number(_of(data, "total")))
        bins = _of(data, "bins")
        if not isinstance(bins, dict):
            raise ValueError("no bins")
        for place, weight in bins.items():
            if not place.isdigit() or int(place) >= BINS:
                raise ValueError("no such bin")
            made.bins[int(place)] = _number(weight)
        return made


@dataclass
class Account:
    """A run's counters while it runs."""

    restart: int = 0
    seconds: float = 0.0
    peak_mib: float | None = None
    energy_j: float | None = None
    neighbours: list[int] = field(default_factory=list)
    evidence: str = ""
    series: dict[str, Series] = field(default_factory=lambda: {key: Series() for key in SERIES})

    def meet(self, job: int) -> None:
        """Note a neighbour; the first ones are kept."""
        if job not in self.neighbours and len(self.neighbours) < MAX_NEIGHBOURS:
            self.neighbours.append(job)

    def counters(self) -> JobCounters:
        """What there is so far."""
        values = {
            f"{key}_{what}": getattr(series, what) for key, series in self.series.items() for what in ("mean", "p95")
        }
        return JobCounters(
            restart=self.restart,
            seconds=self.seconds,
            peak_mib=None if self.peak_mib is None else math.ceil(self.peak_mib),
            energy_j=self.energy_j,
            neighbours=tuple(self.neighbours),
            evidence=self.evidence,
            **values,
        )

    def to_json(self) -> dict[str, Any]:
        """As it lies in the file."""
        return {
            "restart": self.restart,
            "seconds": round(self.seconds, 3),
            "peak_mib": self.peak_mib,
            "energy_j": self.energy_j,
            "neighbours": self.neighbours,
            "evidence": self.evidence,
            "series": {key: series.to_json() for key, series in self.series.items()},
        }

    @classmethod
    def from_json(cls, data: Any) -> Account:
        """Read what `to_json` gave.

        Raises:
            ValueError: if it is something else.
        """
        neighbours, evidence = _of(data, "neighbours"), _of(data, "evidence")
        if not isinstance(neighbours, list) or not all(type(job) is int for job in neighbours):
            raise ValueError("no neighbours")
        if not isinstance(evidence, str):
            raise ValueError("no evidence")
        restart, stored = _of(data, "restart"), _of(data, "series")
        if type(restart) is not int:
            raise ValueError("no restart")
        return cls(
            restart=restart,
            seconds=_number(_of(data, "seconds")),
            peak_mib=_optional(_of(data, "peak_mib")),
            energy_j=_optional(_of(data, "energy_j")),
            neighbours=neighbours[:MAX_NEIGHBOURS],
            evidence=evidence[:_MAX_EVIDENCE],
            series={key: Series.from_json(_of(stored, key)) for key in SERIES},
        )


def path(state_dir: str, job: int) -> str:
    """Where a job's counters lie."""
    return f"{state_dir}/{job}.counters.json"


def load(state_dir: str, job: int, restart: int) -> Account | None:
    """The counters of a run, or None where there are none that can be read, or those of another run."""
    try:
        account = Account.from_json(state.read(path(state_dir, job)))
    except ValueError:
        return None
    return account if account.restart == restart else None


def read(state_dir: str, job: int, restart: int) -> JobCounters | None:
    """What the monitor measured of a run, for Epilog; None where it measured nothing."""
    account = load(state_dir, job, restart)
    return None if account is None else account.counters()


def write(state_dir: str, job: int, account: Account) -> None:
    """Keep a run's counters.

    Raises:
        StateError, OSError: if the folder cannot be used.
    """
    try:
        state.write(path(state_dir, job), account.to_json())
    except FileNotFoundError:
        state.write(path(state.folder(state_dir), job), account.to_json())


def _of(data: Any, key: str) -> Any:
    if not isinstance(data, Mapping) or key not in data:
        raise ValueError(f"no {key}")
    return data[key]


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= _LARGEST:
        raise ValueError(f"{value!r} is no amount")
    return float(value)


def _optional(value: Any) -> float | None:
    return None if value is None else _number(value)
