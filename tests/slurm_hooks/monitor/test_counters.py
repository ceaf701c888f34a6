"""A run's counters: right numbers, a file that survives, and nothing believed that is broken."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks.monitor import counters
from slurm_hooks.monitor.counters import Account, JobCounters, Series
from slurm_hooks.monitor.split import parts


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 10)), min_size=1, max_size=60))
def test_mean_and_percentile_of_any_values(entries: list[tuple[float, float]]) -> None:
    series = Series()
    for value, seconds in entries:
        series.add(value, seconds)
    total = sum(seconds for _, seconds in entries)
    assert series.mean == pytest.approx(sum(v * s for v, s in entries) / total)
    passed, expected = 0.0, 0.0
    for expected, seconds in sorted(entries):  # noqa: B007
        passed += seconds
        if passed >= 0.95 * total - 1e-9:
            break
    assert series.p95 == pytest.approx(expected, abs=0.01)


def test_nothing_was_taken_in() -> None:
    assert (Series().mean, Series().p95) == (None, None)
    assert Account().counters() == JobCounters()


def test_values_outside_the_range_are_held_to_it() -> None:
    series = Series()
    series.add(7.0, 1.0)
    series.add(-1.0, 1.0)
    assert (series.mean, series.p95) == (0.5, 0.995)


def full() -> Account:
    account = Account(restart=1, seconds=12.5, peak_mib=700.2, energy_j=99.5, evidence="ended")
    account.series["smact"].add(0.25, 8.0)
    account.series["smact"].add(0.75, 4.0)
    account.series["dram"].add(0.1, 12.0)
    for job in range(20, 40):
        account.meet(job)
        account.meet(20)
    return account


def test_a_file_holds_everything(tmp_path: Path) -> None:
    folder = f"{tmp_path}/jobs"
    counters.write(folder, 7, full())
    path = Path(counters.path(folder, 7))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded = counters.load(folder, 7, 1)
    assert loaded is not None and loaded.to_json() == full().to_json()
    read = counters.read(folder, 7, 1)
    assert read is not None
    assert (read.peak_mib, read.energy_j, read.seconds, read.evidence) == (701, 99.5, 12.5, "ended")
    assert read.smact_mean == pytest.approx(5 / 12)
    assert (read.smact_p95, read.smocc_mean) == (0.755, None)
    assert read.neighbours == tuple(range(20, 32))
    assert counters.read(folder, 7, 0) is None, "another run's"
    assert counters.read(folder, 8, 0) is None


def _change(path: tuple[str, ...], value: Any) -> str:
    data: Any = full().to_json()
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "{" * 5000,
        _change(("restart",), "1"),
        _change(("seconds",), None),
        _change(("seconds",), -1),
        _change(("peak_mib",), "700"),
        _change(("peak_mib",), 1e300),
        _change(("energy_j",), True),
        _change(("neighbours",), [1, "x"]),
        _change(("neighbours",), 5),
        _change(("evidence",), 5),
        _change(("series",), []),
        _change(("series", "smact"), None),
        _change(("series", "smact", "bins"), [1]),
        _change(("series", "smact", "bins"), {"100": 1}),
        _change(("series", "smact", "bins"), {"x": 1}),
        _change(("series", "smact", "bins"), {"3": "x"}),
    ],
)
def test_a_broken_file_is_no_file(tmp_path: Path, text: str) -> None:
    Path(counters.path(str(tmp_path), 7)).write_text(text)
    assert counters.read(str(tmp_path), 7, 1) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    counters.write(str(tmp_path / "other"), 7, full())
    Path(counters.path(str(tmp_path), 7)).symlink_to(counters.path(str(tmp_path / "other"), 7))
    assert counters.read(str(tmp_path), 7, 1) is None


@pytest.mark.parametrize(
    ("residents", "activity", "expected"),
    [
        ({1: [10]}, {}, {1: 1.0}),
        ({1: [10], 2: [20, 21]}, {10: 30.0, 20: 50.0, 21: 20.0}, {1: 0.3, 2: 0.7}),
        ({1: [10], 2: [20], None: [30]}, {10: 50.0, 30: 50.0}, {1: 0.5, 2: 0.0, None: 0.5}),
        ({1: [10], 2: [20]}, {99: 50.0}, {1: 0.5, 2: 0.5}),
        ({}, {}, {}),
    ],
)
def test_parts(
    residents: dict[int | None, list[int]], activity: dict[int, float], expected: dict[int | None, float]
) -> None:
    assert parts(residents, activity) == pytest.approx(expected)
