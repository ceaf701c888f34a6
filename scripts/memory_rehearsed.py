"""How good RAD is on new families whose models were rehearsed, and on the same tables without that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from estimator.dataset import printers
from estimator.dataset.store import Dataset, Row
from estimator.methods.rad import Rad
from estimator.methods.rad.fit.judge import Held
from estimator.parsers import parse_summary
from estimator.types import Estimate, SummaryError


def rehearsed(dataset: Dataset, method: Rad) -> dict[str, Held]:
    """Judge RAD on the fresh part's models that were rehearsed, by the table that `radctl summarize` prints.

    Returns:
        ``shown``: what it says of the tables alone; ``rehearsed``: with what stands below them. Empty without any.
    """
    found: dict[str, list[tuple[Row, Estimate]]] = {"shown": [], "rehearsed": []}
    for row in dataset.rows:
        lines = dataset.rehearsed.get(row.spec.model_id)
        if row.split != "fresh" or row.memory_mib is None or lines is None:
            continue
        text = printers.torchinfo_text(dataset.trace(row.spec), row.spec.batch_size, depth=printers.ALL_LAYERS)
        try:
            summary = parse_summary(text)
            pairs = {
                "shown": method.predict(summary, row.workload),
                "rehearsed": method.predict(replace(summary, rehearsals=lines), row.workload),
            }
        except SummaryError:
            continue
        for name, estimate in pairs.items():
            found[name].append((row, estimate))
    return {name: _held(said) for name, said in found.items() if said}


def _held(said: Sequence[tuple[Row, Estimate]]) -> Held:
    pairs = [(row.memory_mib or 0.0, estimate) for row, estimate in said]
    return Held(
        len(pairs),
        fmean(estimate.upper_mib < measured for measured, estimate in pairs),
        median(abs(estimate.expected_mib - measured) / measured for measured, estimate in pairs),
        fmean(max(estimate.upper_mib - measured, 0.0) / measured for measured, estimate in pairs),
    )
