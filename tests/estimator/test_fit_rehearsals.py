"""What a job takes beside what its rehearsal says is learned family by family."""

from __future__ import annotations

import random
from dataclasses import replace
from math import log
from statistics import median

import pytest

from estimator.dataset.specs import FITTED
from estimator.dataset.store import committed
from estimator.methods.rad import NAME
from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit.blocks import Blocks
from estimator.methods.rad.fit.rehearsals import MISS, Example, examples_of, fit
from estimator.methods.rad.rehearsed import REHEARSED, Account, Rehearsed
from estimator.methods.rad.retrain import accounting
from estimator.store import store_for

_WIDTH = len(FEATURES) + len(REHEARSED)


def examples(families: int, each: int) -> list[Example]:
    """Runs that take a quarter more than was rehearsed, some a little more; one feature says of which that is."""
    rng = random.Random(7)
    found = []
    for family in range(families):
        for _ in range(each):
            wild = rng.random() < 0.5
            row = [0.0] * _WIDTH
            row[0] = float(wild)
            more = 1.25 * (1 + rng.random() * (0.5 if wild else 0.02))
            found.append(Example(Account(1000.0, 100.0, row), 500.0, 1500.0 * more, f"family{family}"))
    return found


def test_bounds_hold_for_families_that_were_left_out_and_are_narrow_where_runs_agree() -> None:
    made = fit(examples(40, 25))
    assert made is not None
    assert made.reached.n == 1000
    assert made.reached.under <= 2 * MISS
    model = Rehearsed(made.model)
    wild, tame = ([float(flag), *[0.0] * (_WIDTH - 1)] for flag in (1, 0))
    (some, most), (other, least) = (model.of(Account(1000.0, 100.0, row), 500.0) for row in (wild, tame))
    assert 1500 * 1.25 < other < 1500 * 1.28
    assert some > 1.1 * other
    assert 1500 * 1.27 < least < 1.15 * other
    assert most / some > least / other
    assert most == pytest.approx(1500 * 1.25 * 1.5, rel=0.1)


def test_runs_are_examples_with_their_batch_size_and_without() -> None:
    dataset = committed()
    rows = [row for row in dataset.rows if row.spec.name == "text_cnn" and row.spec.model_id in dataset.rehearsed]
    found = examples_of(
        replace(dataset, rows=tuple(rows)), accounting(store_for(NAME, None).load()), FITTED, Blocks(())
    )
    apart = [item.account.row[-1] for item in found]
    assert apart.count(0) > len(rows) / 4
    assert len(apart) > apart.count(0) > 0
    assert any(apart.count(far) for far in (log(2), log(4)))
    named = [item for item in found if not item.account.row[-1]]
    assert median(abs(item.measured / (item.account.mib + item.context) - 1) for item in named) < 0.1


def test_too_few_runs_teach_nothing() -> None:
    assert fit(examples(40, 10)) is None
    assert fit(examples(4, 200)) is None
