"""Compare a method with measured cases. Reads the folder of cases that it is given and nothing else."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import cast, get_args

from estimator import files
from estimator.input_size import InputSizeError, read
from estimator.parsers import parse_summary
from estimator.types import Kind, Method, Optimizer, Precision, Workload

LABELS = "labels.csv"
COLUMNS = ("file", "batch_size", "optimizer", "precision", "seq_len", "kind", "gpu", "gpu_memory_mib")
_MOST_MIB = 512 * 1024  # more than any GPU has, and fewer than the KiB of any process on one


class CasesError(ValueError):
    """Cases that cannot be read; the message names the file, the line and the cure."""


@dataclass(frozen=True)
class Case:
    """One measured run.

    Attributes:
        file: name of the summary in the folder.
        text: the summary.
        workload: how it was run.
        memory_mib: peak GPU memory that was measured.
    """

    file: str
    text: str
    workload: Workload
    memory_mib: float


@dataclass(frozen=True)
class Outcome:
    """What a method said of a case.

    Attributes:
        case: the case.
        expected_mib: best guess, or None where the method could not say.
        upper_mib: bound, or None.
        family: family the model was taken for.
        error: why it could not say, else "".
    """

    case: Case
    expected_mib: int | None
    upper_mib: int | None
    family: str = ""
    error: str = ""


@dataclass(frozen=True)
class Errors:
    """How far answers are off.

    Attributes:
        n: answers.
        under_rate: share of them whose bound is below the measurement.
        median_abs_rel_error: median of |expected - measured| / measured.
        p90_abs_rel_error: 90th percentile of the same.
        mean_over_mib: mean of bound - measured where that is positive, else 0.
        mean_over_fraction: the same, divided by the measurement.
        median_over_fraction: its median.
    """

    n: int
    under_rate: float
    median_abs_rel_error: float
    p90_abs_rel_error: float
    mean_over_mib: float
    mean_over_fraction: float
    median_over_fraction: float

    @classmethod
    def of(cls, answers: Sequence[tuple[float, float, float]]) -> Errors:
        """Sum up what was expected, its bound and what was measured, of one answer or more, in MiB."""
        n = len(answers)
        off = sorted(abs(expected - measured) / measured for expected, _, measured in answers)
        over = [max(upper - measured, 0.0) for _, upper, measured in answers]
        shares = [more / measured for more, (_, _, measured) in zip(over, answers, strict=True)]
        under = sum(upper < measured for _, upper, measured in answers) / n
        p90 = off[min(int(0.9 * n), n - 1)]
        return cls(n, under, median(off), p90, fmean(over), fmean(shares), median(shares))


@dataclass(frozen=True)
class Score:
    """How good a method was.

    Attributes:
        errors: of the cases that it could answer.
        failed: how many it could not.
        outcomes: every case.
    """

    errors: Errors
    failed: int
    outcomes: tuple[Outcome, ...]


def read_cases(folder: Path) -> list[Case]:
    """Read ``labels.csv`` and the summaries beside it.

    Raises:
        CasesError: a file is missing or a line cannot be understood.
        FileRefusedError: a summary is no text, or longer than any.
    """
    path = folder / LABELS
    cases = []
    for line, row in _labels(path):
        try:
            cases.append(_case(folder, row))
        except files.FileRefusedError:
            raise
        except ValueError as error:
            raise CasesError(f"{path}: line {line}: {error}") from None
    if not cases:
        raise CasesError(f"{path} has no line under its header")
    return cases


def _labels(path: Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield the lines of a file of labels, with their numbers.

    Raises:
        CasesError: it is missing, is no CSV, or lacks a column.
    """
    try:
        text = files.read_text(path, files.MAX_DATA_BYTES).removeprefix("\ufeff")
    except FileNotFoundError:
        raise CasesError(f"{path} is missing: a folder of cases holds {LABELS} with {','.join(COLUMNS)}") from None
    reader = csv.DictReader(text.splitlines())
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise CasesError(f"{path}: line {reader.line_num + 1}: {error}") from None
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise CasesError(f"{path}: line 1 lacks {', '.join(missing)}: the header is {','.join(COLUMNS)}")
    for line, row in rows:
        if None in row:  # as of 1,500 for a number, which would count as 1
            raise CasesError(f"{path}: line {line} has more fields than the header: put what holds a comma in quotes")
        yield line, row


def _case(folder: Path, row: Mapping[str, str | None]) -> Case:
    """Read what one line names.

    Raises:
        ValueError: it names no file of the folder, or a value is not allowed.
    """
    name = row["file"] or ""
    # Whoever made the folder may read less than who evaluates it: no link leads out of it.
    if not name or ".." in Path(name).parts or not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name or 'it names nothing'}: not a regular file of this folder")
    try:
        summary = files.read_text(folder / name, files.MAX_SUMMARY_BYTES)
    except FileNotFoundError:
        raise ValueError(f"{name} is not there") from None
    return Case(name, summary, workload_of(row), _measured(row["gpu_memory_mib"]))


def _measured(text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"gpu_memory_mib is {text or ''!r}: expected MiB, above 0")
    if value > _MOST_MIB:
        raise ValueError(f"gpu_memory_mib is {text or ''!r}: more than any GPU has; expected MiB, not KiB or bytes")
    return value


def workload_of(row: Mapping[str, str | None]) -> Workload:
    """Read the workload's columns of one line, and ``input_size`` where it is there; empty ones take their defaults.

    Raises:
        ValueError: a value is not allowed; the message names the column.
    """

    def one_of(column: str, allowed: tuple[str, ...], default: str) -> str:
        value = (row.get(column) or default).strip()
        if value not in allowed:
            raise ValueError(f"{column} is {value!r}: choose one of {', '.join(allowed)}")
        return value

    def whole(column: str) -> int | None:
        value = (row.get(column) or "").strip()
        if not value:
            return None
        if not value.isdecimal() or not 0 < int(value) < 10**9:
            raise ValueError(f"{column} is {value!r}: expected a positive whole number")
        return int(value)

    def size() -> tuple[int, ...] | None:
        value = (row.get("input_size") or "").strip()
        try:
            return read(value) if value else None
        except InputSizeError as error:
            raise ValueError(f"input_size is {value!r}: {error}") from None

    batch = whole("batch_size")
    if batch is None:
        raise ValueError("batch_size is empty")
    return Workload(
        batch_size=batch,
        seq_len=whole("seq_len"),
        optimizer=cast("Optimizer", one_of("optimizer", get_args(Optimizer), "adam")),
        precision=cast("Precision", one_of("precision", get_args(Precision), "fp32")),
        kind=cast("Kind", one_of("kind", get_args(Kind), "train")),
        gpu=(row.get("gpu") or "h200").strip(),
        input_size=size(),
    )


def ask(method: Method, case: Case) -> Outcome:
    """Ask a method about one case; a summary that cannot be read, or a method that needs more, is an outcome too."""
    try:
        estimate = method.predict(parse_summary(case.text), case.workload)
    except (ValueError, ImportError) as error:
        return Outcome(case, None, None, error=str(error))
    return Outcome(case, estimate.expected_mib, estimate.upper_mib, estimate.family)


def evaluate(cases: list[Case], method: Method) -> Score:
    """Ask a method about all cases and say how good it was.

    Raises:
        CasesError: it could answer none of them.
    """
    outcomes = tuple(ask(method, case) for case in cases)
    answers = [
        (outcome.expected_mib, outcome.upper_mib, outcome.case.memory_mib)
        for outcome in outcomes
        if outcome.expected_mib is not None and outcome.upper_mib is not None
    ]
    if not answers:
        raise CasesError(f"the method {method.name} answered none of {len(cases)} cases: {outcomes[0].error}")
    return Score(Errors.of(answers), len(outcomes) - len(answers), outcomes)
