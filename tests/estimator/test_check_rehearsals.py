"""Rehearsals beside what a GPU showed: each piece of work has a process of its own, and all is summed up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from scripts.check_rehearsals import said_of
from scripts.comparisons import read, told


def row(used: float, allocated: float, held: float, expected: float, upper: float) -> dict[str, Any]:
    sizes = {"used": used, "allocated": allocated, "held": held, "expected": expected, "upper": upper}
    return {**sizes, "table_expected": 1200.0, "table_upper": 1800.0, "reserved": 1000.0, "context": 500.0}


def test_configurations_are_summed_up() -> None:
    rows = [
        row(900, 900, 1000, expected=1500, upper=1650),
        row(880, 900, 990, expected=1530, upper=1500),
        row(600, 900, 500, expected=1200, upper=1350),
    ]
    assert said_of(rows) == [
        "used: half within 2.2%, 67% within 3%",
        "held: half within 1.0%, 67% within 3%",
        "with the rehearsal: median error 2.0%, 33.3% too low, 3.3% over",
        "of the table alone: median error 20.0%, 0.0% too low, 20.0% over",
    ]


def works(item: int) -> dict[str, Any]:
    if item == 2:
        os._exit(139)
    return {"item": item, "process": os.getpid()}


def test_a_process_that_dies_costs_its_own_work_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(works, range(5), 2, tmp_path / "rows", lambda row: str(row.get("item", row.get("error"))))
    assert read(tmp_path / "rows") == rows
    said = [line.split(" ", 1) for line in capsys.readouterr().out.splitlines()]
    assert [count for count, _ in said] == ["1/5", "2/5", "3/5", "4/5", "5/5"]
    assert sorted(what for _, what in said) == ["0", "1", "3", "4", "its process died"]
    assert sorted(row["item"] for row in rows if "item" in row) == [0, 1, 3, 4]
    assert len({row["process"] for row in rows if "item" in row} | {os.getpid()}) == 5
    assert [row for row in rows if "item" not in row] == [{"name": "2", "error": "its process died"}]
