"""Reads measured colocations in the CSV layout of KACE's artifact. Touches only the files it is given.

A row is one measurement of two or more workloads on one GPU: each side's exclusive metrics, its exclusive
throughput and what it reached beside the others (columns ``w1_Threads``, ``w1sm%``, ``w1throughput``, ...).
Our own measurements are written in the same columns plus our counters, so one reader serves both.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, TextIO

from estimator import files
from predictor.types import KernelMetrics, Profile, ProfileError

MAX_SIDES = 8
LARGEST = 1e15
"""No metric of a workload comes near it, and no throughput its reciprocal; squares of larger numbers would leave
floating point's range."""
MIB_PER_GB = 1e9 / 2**20


class ArtifactError(ValueError):
    """A file of measurements that cannot be used; the message names file, line and column."""


@dataclass(frozen=True)
class Side:
    """One workload in a colocation.

    Attributes:
        workload: the workload's name; equal names are the same workload.
        profile: its exclusive metrics.
        throughput: what it reached in this colocation, in the unit of ``profile.throughput``.
    """

    workload: str
    profile: Profile
    throughput: float

    @property
    def progress(self) -> float:
        """Throughput relative to the exclusive one, as measured: noise can carry it over 1."""
        return self.throughput / self.profile.throughput


@dataclass(frozen=True)
class Colocation:
    """Workloads measured together on one GPU."""

    sides: tuple[Side, ...]

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """Every side's exclusive metrics."""
        return tuple(side.profile for side in self.sides)

    @property
    def progress(self) -> tuple[float, ...]:
        """Every side's progress, at most 1: what is over it is noise."""
        return tuple(min(side.progress, 1.0) for side in self.sides)

    @property
    def throughput_sum(self) -> float:
        """Sum of the sides' throughputs in their own units: what KACE maximises."""
        return sum(side.throughput for side in self.sides)

    @property
    def workloads(self) -> tuple[str, ...]:
        """Names of the sides' workloads, each once, in order."""
        return tuple(dict.fromkeys(side.workload for side in self.sides))


def _open(path: Path) -> TextIO:
    data = files.read(path, files.MAX_DATA_BYTES)
    if path.suffix == ".gz":
        with gzip.open(BytesIO(data)) as packed:
            text = files.text_of(packed, files.MAX_DATA_BYTES, str(path))
    else:
        text = data.decode()
    return StringIO(text.removeprefix("\ufeff"), newline="")


def read_rows(path: Path) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Rows of a CSV file (gzipped if it ends in ``.gz``) with their line numbers.

    Raises:
        ArtifactError: the file is missing, is no text, or a row is shorter or longer than the header.
    """
    try:
        with _open(path) as stream:
            reader = csv.DictReader(stream)
            if not reader.fieldnames:
                raise ArtifactError(f"{path}: empty file; it must start with a header line")
            for row in reader:
                if None in row or None in row.values():
                    raise ArtifactError(f"{path}: line {reader.line_num}: not as many fields as the header has")
                yield reader.line_num, row
    except files.FileRefusedError as error:
        raise ArtifactError(str(error)) from error
    except (OSError, UnicodeDecodeError, csv.Error, EOFError, zlib.error) as error:
        raise ArtifactError(f"{path}: cannot be read: {error}") from error


def number(row: Mapping[str, str], column: str, where: str, default: float | None = None) -> float:
    """The number in ``column``, from 0 to :data:`LARGEST`; ``default`` where the column is missing or empty.

    Raises:
        ArtifactError: the value is missing without a default, no number, or out of range.
    """
    text = row.get(column, "")
    if text == "":
        if default is None:
            raise ArtifactError(f"{where}: column {column!r} is missing or empty")
        return default
    try:
        value = float(text)
    except ValueError:
        raise ArtifactError(f"{where}: column {column!r}: {text[:40]!r} is not a number") from None
    if not 0.0 <= value <= LARGEST:
        raise ArtifactError(f"{where}: column {column!r}: {text[:40]!r} is not between 0 and {LARGEST:g}")
    return value


def word(row: Mapping[str, str], column: str, where: str) -> str:
    """The text in ``column``.

    Raises:
        ArtifactError: there is none.
    """
    if not (text := row.get(column, "")):
        raise ArtifactError(f"{where}: column {column!r} is missing or empty")
    return text


def rate(row: Mapping[str, str], column: str, where: str, default: float | None = None) -> float:
    """The number in ``column``, which is above 0: throughputs are divided by.

    Raises:
        ArtifactError: it is none, or not above 0.
    """
    value = number(row, column, where, default)
    if value < 1.0 / LARGEST:
        raise ArtifactError(f"{where}: column {column!r}: {value:g}, it must be above 0")
    return value


def profile_of(where: str, **values: Any) -> Profile:
    """The profile that a row tells of.

    Raises:
        ArtifactError: a value is out of range.
    """
    try:
        return Profile(**values)
    except ProfileError as error:
        raise ArtifactError(f"{where}: {error}") from error


def _fraction(row: Mapping[str, str], column: str, where: str, default: float | None = None) -> float:
    percent = number(row, column, where, default)
    if math.isnan(percent):
        return percent
    if not 0.0 <= percent <= 100.0:
        raise ArtifactError(f"{where}: column {column!r}: {percent} is not a percentage")
    return percent / 100.0


def _side(row: Mapping[str, str], index: int, where: str) -> Side:
    key = f"w{index}"
    busy = _fraction(row, f"{key}sm%", where)
    # The artifact has nvidia-smi's two utilizations where newer GPUs give SMACT and DRAM activity.
    exclusive = rate(row, f"{key}exclusive_throughput", where)
    throughput = rate(row, f"{key}throughput", where)
    name = row[f"workload{index}"]
    profile = profile_of(
        where,
        smact=_fraction(row, f"{key}smact%", where, 100 * busy),
        smocc=_fraction(row, f"{key}smocc%", where, 0.0),
        tensor=_fraction(row, f"{key}tensor%", where, 0.0),
        dram=_fraction(row, f"{key}mem%", where),
        pcie=_fraction(row, f"{key}pcie%", where, 0.0),
        memory_mib=number(row, f"{key}memcap", where) * MIB_PER_GB,
        throughput=exclusive,
        busy=busy,
        kernel=KernelMetrics(
            threads=number(row, f"{key}_Threads", where, math.nan),
            registers=number(row, f"{key}_Registers", where, math.nan),
            static_shared_bytes=number(row, f"{key}_Static Shared Memory", where, math.nan),
            sm_throughput=_fraction(row, f"{key}_Compute (SM) Throughput", where, math.nan),
            dram_throughput=_fraction(row, f"{key}_DRAM Throughput", where, math.nan),
            memory_throughput=_fraction(row, f"{key}_Memory Throughput", where, math.nan),
            launches_per_s=number(row, f"{key}_Launches", where, math.nan),
            mean_us=number(row, f"{key}_Mean us", where, math.nan),
            long_ratio=number(row, f"{key}_Long ratio", where, math.nan),
        ),
        name=name,
    )
    return Side(workload=name, profile=profile, throughput=throughput)


def load_colocations(path: Path) -> tuple[Colocation, ...]:
    """Measured colocations of a file in the artifact's columns, two or more sides a row.

    Raises:
        ArtifactError: the file or a row cannot be used.
    """
    colocations = []
    for line, row in read_rows(path):
        where = f"{path}: line {line}"
        places = [index for index in range(1, MAX_SIDES + 1) if row.get(f"workload{index}")]
        if len(places) < 2:
            raise ArtifactError(f"{where}: a colocation needs the columns workload1 and workload2")
        colocations.append(Colocation(tuple(_side(row, index, where) for index in places)))
    if not colocations:
        raise ArtifactError(f"{path}: holds no colocation")
    return tuple(colocations)


def workloads_of(colocations: Iterable[Colocation]) -> dict[str, Profile]:
    """Every workload's profile, in order of name."""
    found = {side.workload: side.profile for pair in colocations for side in pair.sides}
    return dict(sorted(found.items()))
