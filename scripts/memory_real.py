"""What every method says of the real models that no one trained on. Reads the data set and the shipped models."""

from __future__ import annotations

import csv
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from estimator.dataset import printers
from estimator.dataset.store import Dataset, Row
from estimator.family import family_of
from estimator.methods import load_method
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import Estimate, Method, ModelSummary, SummaryError, Workload
from estimator.walk import layers

_LOG = logging.getLogger("results_memory")
METHODS = ("horus", "gpumemnet", "rad")
SAID = "rad where the script says input_size"
OTHER_SIZE = "a print of a model for another size of picture than the one that is taken"
FORMATS = ("torchsummary", "torchinfo", "module")
COLUMNS = ("id", "name", "batch_size", "seq_len", "mib", "why_not")


def fresh_rows(dataset: Dataset) -> list[Row]:
    """Return the measured rows of real models whose families are in no other part of the data set."""
    return [r for r in dataset.rows if r.spec.source != "synthetic" and r.split == "fresh" and r.memory_mib is not None]


def text_of(dataset: Dataset, row: Row) -> tuple[str, str]:
    """Return the summary that a user of this row might paste, and its format; the format follows from the row's id."""
    trace, batch = dataset.trace(row.spec), row.spec.batch_size
    kind = FORMATS[int(row.spec.id, 16) % len(FORMATS)]
    if kind == "torchsummary":
        return printers.torchsummary_text(trace, batch), kind
    if kind == "torchinfo":
        columns = ("input_size", "output_size", "num_params")
        return printers.torchinfo_text(trace, batch, depth=10, columns=columns), kind
    return printers.module_text(trace, with_params=True, collapse=False), kind


def real_cases(dataset: Dataset, faketensor: Path, models: Path | None) -> list[dict[str, Any]]:
    """Ask every method about every row of the test part.

    Args:
        dataset: the data set.
        faketensor: CSV that ``faketensor_rows`` wrote.
        models: folder of learned models; None takes those that come with the package.
    """
    methods = {name: load_method(name, models) for name in METHODS}
    fake = _read(faketensor)
    return [_case(dataset, row, methods, fake) for row in fresh_rows(dataset)]


def _case(dataset: Dataset, row: Row, methods: dict[str, Method], fake: dict[str, float]) -> dict[str, Any]:
    spec = row.spec
    text, kind = text_of(dataset, row)
    answers: dict[str, dict[str, float] | None] = {}
    family, error = "", ""
    summary: ModelSummary | None = None
    try:
        summary = parse_summary(text)
        family = family_of(layers(summary.root))
        for name, method in methods.items():
            answers[name] = _ask(method, summary, row.workload, spec.name)
    except SummaryError as problem:
        error = str(problem).splitlines()[0][:200]
    not_shown = _not_shown(dataset, row, summary) if summary else "the summary cannot be read"
    if not_shown == OTHER_SIZE and summary:
        workload = replace(row.workload, input_size=dataset.trace(row.spec).sample())
        answers[SAID] = _ask(methods["rad"], summary, workload, spec.name)
    value = fake.get(spec.id)
    answers["faketensor"] = None if value is None else {"expected": value, "upper": value}
    return {
        "id": spec.id,
        "name": spec.name,
        "source": spec.source,
        "group": spec.group,
        "family": family or spec.family,
        "format": kind,
        "batch_size": spec.batch_size,
        "seq_len": spec.seq_len,
        "optimizer": spec.optimizer,
        "precision": spec.precision,
        "kind": spec.kind,
        "not shown": not_shown,
        "actual": row.memory_mib,
        "error": error,
        "answers": answers,
    }


def _not_shown(dataset: Dataset, row: Row, summary: ModelSummary) -> str:
    """Name what decides about the memory of a run and stands in no summary of it."""
    if row.spec.arch.get("attention"):
        return "eager attention was asked for"
    seen = dataset.trace(row.spec).sample()
    try:
        taken = with_shapes(summary, row.workload).root.input_shape
    except SummaryError:
        return "nothing"
    if summary.format == "module" and len(seen) > 1 and taken != seen:
        return OTHER_SIZE
    return "nothing"


def _ask(method: Method, summary: ModelSummary, workload: Workload, name: str) -> dict[str, float] | None:
    try:
        found: Estimate = method.predict(summary, workload)
    except ValueError as problem:  # a summary or a family that the method cannot take
        _LOG.info("%s on %s: %s", method.name, name, problem)
        return None
    return {"expected": found.expected_mib, "upper": found.upper_mib}


def _read(path: Path) -> dict[str, float]:
    with path.open(encoding="utf-8", newline="") as file:
        return {row["id"]: float(row["mib"]) for row in csv.DictReader(file) if row["mib"]}


def faketensor_rows(dataset: Dataset, path: Path) -> None:
    """Run FakeTensor over the test part's fp32 rows; needs torch and the models' libraries.

    Autocast acts on the GPU's own kernels and cannot be followed without one, so amp rows are left out.

    Args:
        dataset: the data set.
        path: CSV that rows are appended to; what it holds is not run again.
    """
    done: set[str] = set()
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            done = {row["id"] for row in csv.DictReader(file)}
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for row in _largest_first([r for r in fresh_rows(dataset) if r.spec.precision == "fp32"]):
            if row.spec.id not in done:
                writer.writerow(_fake(row))
                file.flush()


def _largest_first(rows: list[Row]) -> list[Row]:
    """Put the training of each model that needs most first: those are in the figures."""
    largest: dict[str, float] = {}
    for row in rows:
        if row.spec.kind == "train":
            largest[row.spec.name] = max(largest.get(row.spec.name, 0.0), row.memory_mib or 0.0)
    return sorted(rows, key=lambda row: row.memory_mib != largest.get(row.spec.name))


def _fake(row: Row) -> dict[str, Any]:
    from estimator.dataset.feeds import Fed, feed  # noqa: PLC0415 - needs torch
    from estimator.dataset.models import build_model  # noqa: PLC0415 - needs torch
    from estimator.faketensor import peak_mib  # noqa: PLC0415

    spec = row.spec
    fed: list[Fed] = []

    def inputs(model: Any, batch: int) -> Any:
        fed.append(feed(spec, model))
        return fed[-1].inputs(batch)

    result: dict[str, Any] = {
        "id": spec.id,
        "name": spec.name,
        "batch_size": spec.batch_size,
        "seq_len": spec.seq_len,
        "mib": "",
        "why_not": "",
    }
    try:
        mib = peak_mib(lambda: build_model(spec), inputs, lambda out: fed[-1].loss(out, spec.batch_size), row.workload)
        result["mib"] = round(mib)
    except Exception as error:  # a model's code may raise anything under fake tensors: that is a finding too
        result["why_not"] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:160]
    _LOG.info("faketensor %s batch %d: %s", spec.name, spec.batch_size, result["mib"] or result["why_not"])
    return result
