"""How good RAD is on new families whose models were rehearsed, and on the same tables without that."""

from __future__ import annotations

from dataclasses import replace

from estimator.dataset import printers
from estimator.dataset.store import Dataset
from estimator.methods.rad import Rad
from estimator.methods.rad.fit.judge import Held
from estimator.parsers import parse_summary
from estimator.types import SummaryError


def rehearsed(dataset: Dataset, method: Rad) -> dict[str, Held]:
    """Judge RAD on the fresh part's models that were rehearsed, by the table that `radctl summarize` prints.

    Returns:
        ``shown``: what it says of the tables alone; ``rehearsed``: with what stands below them. Empty without any.
    """
    found: dict[str, list[tuple[float, float, float]]] = {"shown": [], "rehearsed": []}
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
            found[name].append((estimate.expected_mib, estimate.upper_mib, row.memory_mib))
    return {name: Held.of(answers) for name, answers in found.items() if answers}
