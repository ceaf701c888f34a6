"""Fits what a job takes beside what its rehearsal says, and how much that may be.

Each family is said by trees, and judged by a bound, that have not seen it, and so is what its blocks keep in their own
code: as a model of a user's own that nothing like was measured, but whose code was rehearsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from estimator.dataset import printers
from estimator.dataset.store import Dataset, Row
from estimator.methods.rad import Rad
from estimator.methods.rad.errors import LEAST_BOUND, MOST_BOUND, damped, size_of
from estimator.methods.rad.features import features
from estimator.methods.rad.fit.blocks import Blocks
from estimator.methods.rad.fit.boosting import Boosted
from estimator.methods.rad.fit.bounds import conformal
from estimator.methods.rad.fit.holdout import FOLDS, LEFT, Floats, by_family, divided, understood
from estimator.methods.rad.fit.learners import boosted, spreading
from estimator.methods.rad.fit.processes import forked
from estimator.methods.rad.fit.reached import Reached, reached
from estimator.methods.rad.rehearsed import APART, Account, account, share_of
from estimator.parsers import parse_summary
from estimator.rehearsals.lines import Found, of_workload
from estimator.types import Rehearsal, SummaryError, Workload

MISS: Final = 0.007
"""Share of the runs that may exceed the bound, each family counting the more the more runs it has. Less than one in a
hundred, as new families exceed bounds more often than families that are left out here. Runs whose own batch size was
not rehearsed have a bound of their own."""
_QUANTILE: Final = 0.9
"""Share of the errors that are smaller than what the trees say. With 0.95 bounds are as wide for families that are left
out, but wider for users' own models that were looked at, and no more of these are too low."""
_TREES: Final = 40
_SPREAD_TREES: Final = 100
# Fewer runs teach nothing.
_LEAST: Final = 500
_CHUNK: Final = 100


@dataclass(frozen=True)
class Example:
    """A measured run of a model that was rehearsed.

    Attributes:
        account: what its rehearsal says.
        context: the CUDA context in MiB.
        measured: the label in MiB.
        group: architecture family.
    """

    account: Account
    context: float
    measured: float
    group: str


def examples_of(dataset: Dataset, method: Rad, splits: Sequence[str], blocks: Blocks) -> list[Example]:
    """Account by their rehearsals for the measured runs of some splits, as if nothing of their families was noted.

    Args:
        dataset: with ``rehearsed``.
        method: a model that corrects nothing.
        splits: parts of the data set.
        blocks: what was noted of blocks' own code.
    """
    rows = [
        row
        for row in dataset.rows
        if row.spec.model_id in dataset.rehearsed
        and row.split in splits
        and row.memory_mib
        and row.spec.arch.get("attention") != "eager"
    ]
    rows.sort(key=lambda row: row.spec.group)
    parts = [rows[at : at + _CHUNK] for at in range(0, len(rows), _CHUNK)]
    made = forked([partial(_examples, dataset, method, part, blocks) for part in parts])
    return [item for some in made for item in some]


def _examples(dataset: Dataset, method: Rad, rows: Sequence[Row], blocks: Blocks) -> list[Example]:
    found = []
    for row in rows:
        text = printers.torchinfo_text(dataset.trace(row.spec), row.spec.batch_size, depth=printers.ALL_LAYERS)
        own = blocks.without(row.spec.group)
        try:
            shaped, program, _ = method.account(parse_summary(text), row.workload)
        except SummaryError:
            continue
        memory = method.memory(shaped, program, row.workload, own)
        # A rehearsed model's types are as good as known: nothing was fitted to how many are not.
        described = features(memory, program, shaped, row.workload, program.names)
        context = method.context(program, row.workload)
        for said in _said(dataset.rehearsed[row.spec.model_id], row.workload):
            found.append(Example(account(said, described, memory), context, row.memory_mib or 0.0, row.spec.group))
    return found


def _said(rehearsals: Sequence[Rehearsal], workload: Workload) -> Iterator[Found]:
    """Say what rehearsals tell of a run, and what they would if its own batch size were not among them."""
    points = [(item, [point for point in item.points if point.batch != workload.batch_size]) for item in rehearsals]
    others = [replace(item, points=tuple(some)) for item, some in points if some]
    for some in (rehearsals, others):
        found = of_workload(some, workload)
        if found is not None and (some is others or not found.apart):
            yield found


@dataclass(frozen=True)
class Fitted:
    """What came of it.

    Attributes:
        model: as `estimator.methods.rad.rehearsed.Rehearsed` reads it.
        reached: what such bounds reach on families that were left out, at batch sizes that were rehearsed.
    """

    model: dict[str, Any]
    reached: Reached


def fit(examples: Sequence[Example]) -> Fitted | None:
    """Fit trees and bound; None where there are too few examples."""
    groups = np.array([item.group for item in examples])
    if len(examples) < _LEAST or len(set(groups)) < FOLDS:
        return None
    rows = np.array([item.account.row for item in examples])
    target = np.array([log(item.measured / (item.account.mib + item.context)) for item in examples])
    weights = by_family(groups)
    folds = divided(groups, FOLDS)
    sides: list[int | None] = [None, *range(FOLDS)]
    corrections = forked([partial(_corrected, rows, target, weights, folds != fold) for fold in sides])
    said = _by_fold(corrections[1:], rows, folds)
    expected = [(item.account.mib + item.context) * np.exp(one) for item, one in zip(examples, said, strict=True)]
    shares = [share_of(item.account, one, item.context) for item, one in zip(examples, expected, strict=True)]
    residual = target - said
    sizes = np.clip(residual / np.array([damped(share) for share in shares]), *LEFT)
    spreads = forked([partial(_spread, rows, sizes, weights, folds != fold) for fold in sides])
    scale = np.array(
        [size_of(size, share) for size, share in zip(_by_fold(spreads[1:], rows, folds), shares, strict=True)]
    )
    scores = residual / scale
    named = np.array([not item.account.row[APART] for item in examples])
    bounds = np.zeros(len(scores))
    for fold, sort in product(range(FOLDS), (named, ~named)):
        bounds[(folds == fold) & sort] = _multiple(scores, weights, folds != fold, sort)
    everything = np.full(len(scores), True)
    model = {
        "correction": corrections[0].written(),
        "spread": spreads[0].written(),
        "bound": _multiple(scores, weights, everything, named),
        "bound_apart": _multiple(scores, weights, everything, ~named),
    }
    bound = np.clip(bounds * scale, LEAST_BOUND, MOST_BOUND)
    return Fitted(model, reached(residual[named], bound[named]))


def _multiple(scores: Floats, weights: Floats, among: NDArray[np.bool_], sort: NDArray[np.bool_]) -> float:
    """Find the multiple for one sort of examples; where there are none of it, for all."""
    chosen = among & sort if (among & sort).any() else among
    return conformal(scores[chosen], weights[chosen], MISS)


def _corrected(rows: Floats, target: Floats, weights: Floats, inside: NDArray[np.bool_]) -> Boosted:
    return boosted(_TREES).fit(rows[inside], understood(target[inside]), weights[inside])


def _spread(rows: Floats, sizes: Floats, weights: Floats, inside: NDArray[np.bool_]) -> Boosted:
    return spreading(_SPREAD_TREES, _QUANTILE).fit(rows[inside], sizes[inside], weights[inside])


def _by_fold(models: Sequence[Boosted], rows: Floats, folds: NDArray[np.int64]) -> Floats:
    """Ask about each row the model that was fitted without its fold."""
    said = np.zeros(len(rows))
    for fold, model in enumerate(models):
        here = folds == fold
        if here.any():
            said[here] = model.predict(rows[here])
    return said
