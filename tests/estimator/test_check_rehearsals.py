"""What rehearsals say is summed up beside what a GPU showed."""

from __future__ import annotations

from typing import Any

from scripts.check_rehearsals import said_of


def row(used: float, allocated: float, held: float, expected: float, upper: float) -> dict[str, Any]:
    reserved, context = 1000.0, 500.0
    return locals()


def test_configurations_are_summed_up() -> None:
    rows = [
        row(900, 900, 1000, expected=1500, upper=1650),
        row(880, 900, 990, expected=1530, upper=1500),
        row(600, 900, 500, expected=1200, upper=1350),
    ]
    assert said_of(rows) == [
        "used: half within 2.2%, 67% within 3%",
        "held: half within 1.0%, 67% within 3%",
        "estimates: median error 2.0%, 33.3% too low, 3.3% over",
    ]
