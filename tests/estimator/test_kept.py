"""What is remembered between summaries is bounded, and changes no answer."""

from __future__ import annotations

from typing import Any

import pytest

from estimator import fingerprint
from estimator.kept import MOST, keep
from estimator.methods import load_method
from estimator.methods.rad import kinds, own_code
from estimator.methods.rad.program import weights
from estimator.methods.rad.program.of_types import of_types
from estimator.parsers import keras as keras_table
from estimator.parsers import module, parse_summary, text, torchsummary, tree
from estimator.types import Workload
from slurm_hooks.bench import cnn, keras, mlp, transformer

RAD = load_method("rad")
TEXTS = (
    *(cnn(40), keras(40), mlp(40), transformer(40), keras(40, inputs=17)),
    *(cnn(40).replace("-1, ", "8, "), cnn(80), keras(80), mlp(80)),
)
KEPT: tuple[dict[Any, Any], ...] = (
    torchsummary._ROWS,
    torchsummary._TYPES,
    keras_table._VALUES,
    text._SHAPES,
    tree._SAMPLES,
    fingerprint._SHAPES,
    fingerprint._ARGS,
    module._ARGS,
    kinds._SORTS,
    own_code._CODE,
    weights._SOLVABLE,
    weights._KERNELS,
)


def forget() -> None:
    for kept in KEPT:
        kept.clear()
    of_types.cache_clear()


def said(summary: str) -> str:
    found = parse_summary(summary)
    return f"{found} {RAD.predict(found, Workload(8))}"


def test_a_full_dictionary_starts_anew() -> None:
    kept: dict[int, str] = {}
    for number in range(MOST + 1):
        assert keep(kept, number, "x") == "x"
    assert list(kept) == [MOST]


def test_what_came_before_changes_no_answer() -> None:
    cold = []
    for summary in TEXTS:
        forget()
        cold.append(said(summary))
    assert [said(summary) for summary in reversed(TEXTS)] == cold[::-1]
    assert all(bool(kept) for kept in KEPT)


@pytest.mark.parametrize("blanks", ["  [-1, 8{}]  72\n", "  [-1, 8]{}  72\n"])
def test_long_rows_are_not_kept(blanks: str) -> None:
    forget()
    rows = "Linear-1" + blanks.format(" " * 150) + "Linear-2  [-1, 8]  72\n"
    assert parse_summary("Layer (type) Output Shape Param #\n=====\n" + rows).total_params == 144
    assert len(torchsummary._ROWS) == 1
    assert max(map(len, text._SHAPES)) < 64


def test_many_rows_leave_few() -> None:
    forget()
    rows = "".join(f"Own{n}-{n + 1}  [-1, {n + 8}]  {n}\n" for n in range(3 * MOST // 2))
    parse_summary("Layer (type) Output Shape Param #\n=====\n" + rows)
    assert all(len(kept) <= MOST for kept in KEPT)
    assert torchsummary._ROWS
