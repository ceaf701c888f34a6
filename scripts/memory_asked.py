"""How good RAD is where widely used models are asked for as users do: drawn configurations, measured as jobs run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, get_args

from estimator.dataset.specs import FITTED, Split
from estimator.dataset.store import Dataset
from estimator.methods.rad import Rad
from estimator.methods.rad.fit.examples import Example, examples_of
from estimator.methods.rad.fit.judge import Held, judge
from estimator.methods.rad.known import LEVELS
from estimator.methods.rad.retrain import accounting
from scripts.parts import specs

PART, SEED = "known18", 163
"""The draw, and the seed that it was measured with."""


@dataclass(frozen=True)
class Asked:
    """What RAD reaches on drawn configurations.

    Attributes:
        drawn: how many were drawn.
        there: how many of them a long-lived process measured.
        own: how many of these a process of their own measured too, as a job runs.
        fitted: how many of ``there`` are among what RAD is fitted to.
        lines: by who measured, whether it was fitted to, and what RAD took them for.
    """

    drawn: int
    there: int
    own: int
    fitted: int
    lines: tuple[tuple[str, str, str, Held], ...]


def asked(dataset: Dataset, model: dict[str, Any]) -> Asked:
    """Judge a model on the draw, in every format that users have.

    Args:
        dataset: ours.
        model: RAD's.
    """
    drawn = {spec.id for spec in specs(PART, SEED)}
    rows = {row.spec.id: row for row in dataset.rows if row.spec.id in drawn and row.memory_mib is not None}
    own = {check.spec.id: check.own_mib for check in dataset.checks if check.spec.id in rows}
    fitted = {key for key, row in rows.items() if row.split in FITTED}
    some = replace(dataset, rows=tuple(rows.values()))
    items = examples_of(some, accounting(model), get_args(Split))
    alone = [replace(item, measured=own[item.id]) for item in items if item.id in own]
    lines: list[tuple[str, str, str, Held]] = []
    for by, measured in (("a process of its own", alone), ("a long-lived process", items)):
        judging = [item for item in measured if item.id not in fitted]
        for sort, chosen in (("all", measured), ("not fitted to", judging)):
            lines += [(by, sort, level, judge(model, found)) for level, found in _by_level(model, chosen)]
    return Asked(len(drawn), len(rows), len(own), len(fitted), tuple(lines))


def _by_level(model: dict[str, Any], items: list[Example]) -> Iterable[tuple[str, list[Example]]]:
    """Yield all examples, and then those of each level."""
    method, known = Rad(model), frozenset(model["known"])
    levels = [method.from_account(item.seen_by(known), item.accounted, item.context, item.run)[2] for item in items]
    yield "all", items
    for level in LEVELS:
        found = [item for item, said in zip(items, levels, strict=True) if said == level]
        if found:
            yield level, found
