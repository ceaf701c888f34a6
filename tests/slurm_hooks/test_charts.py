"""Charts of the report's page: what is drawn, where, and in which words."""

from __future__ import annotations

import math
import xml.etree.ElementTree as Tree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks import charts
from slurm_hooks.charts import Point, Series

HOSTILE = "</title><script>alert(1)</script>\"'&"
LEFT, RIGHT = 52.0, charts.NARROW - 18.0
FLOOR, CEILING = charts.HEIGHT - 30.0, 14.0


def _drawn(text: str) -> Tree.Element:
    """A chart's elements; not one may be left open, and no text stands outside of one."""
    drawn = Tree.fromstring(f"<div>{text}</div>")
    assert [drawn.text, *(element.tail for element in drawn.iter())] == [None] * (1 + sum(1 for _ in drawn.iter()))
    return drawn


def _places(element: Tree.Element, *names: str) -> list[float]:
    return [float(element.attrib[name]) for name in names]


def _below(drawn: Tree.Element) -> tuple[list[float], list[str | None]]:
    """Labels of the horizontal axis: their places from 0 to 1, and their texts."""
    labels = [label for label in drawn.iter("text") if label.get("y") == f"{FLOOR + 18:.0f}"]
    places = [(float(label.attrib["x"]) - LEFT) / (RIGHT - LEFT) for label in labels]
    return places, [label.text for label in labels]


def _legend(drawn: Tree.Element) -> list[tuple[str | None, str | None]]:
    legend = drawn.find("./ul[@class='legend']")
    assert legend is not None and legend.text is None
    return [(item.text, item.get("style")) for item in legend]


def _height(value: float, top: float) -> float:
    return FLOOR - (FLOOR - CEILING) * value / top


def test_bars_stand_on_each_other() -> None:
    rows = [Series("first", "held", [1, 0, 2]), Series(HOSTILE, "asked", [3, 1.5, 2])]
    drawn = _drawn(charts.bars(rows, ["a", HOSTILE, "c"], "<h>", "hours"))
    wide, gap = (RIGHT - LEFT) / 3, 6.0
    expected = [
        (0, "held", 0, 1, "a: first 1 <h>"),
        (0, "asked", 1, 4, f"a: {HOSTILE} 3 <h>"),
        (1, "asked", 0, 1.5, f"{HOSTILE}: {HOSTILE} 1.5 <h>"),
        (2, "held", 0, 2, "c: first 2 <h>"),
        (2, "asked", 2, 4, f"c: {HOSTILE} 2 <h>"),
    ]
    seen = list(drawn.iter("rect"))
    assert [(bar.get("style"), bar.findtext("title")) for bar in seen] == [
        (f"--c:var(--{colour})", title) for _, colour, _, _, title in expected
    ]
    for bar, (n, _, begin, end, _) in zip(seen, expected, strict=True):
        assert _places(bar, "x", "width") == pytest.approx([LEFT + n * wide + gap / 2, wide - gap], abs=0.06)
        top, tall = _height(end, 4), _height(begin, 4) - _height(end, 4)
        assert _places(bar, "y", "height") == pytest.approx([top, tall], abs=0.11)
    places, texts = _below(drawn)
    assert places == pytest.approx([1 / 6, 1 / 2, 5 / 6], abs=1e-3)
    assert texts == ["a", HOSTILE, "c"]
    assert _legend(drawn) == [("first", "--c:var(--held)"), (HOSTILE, "--c:var(--asked)")]


@pytest.mark.parametrize(("count", "shown"), [(7, range(7)), (8, range(0, 8, 2)), (20, range(0, 20, 3))])
def test_labels_that_have_room_stand_below_bars(count: int, shown: range) -> None:
    drawn = _drawn(charts.bars([Series("a", "held", [1] * count)], [str(n) for n in range(count)], "h", "hours"))
    assert _below(drawn)[1] == [str(n) for n in shown]
    assert len(list(drawn.iter("rect"))) == count


def test_many_bars_are_a_quarter_apart() -> None:
    drawn = _drawn(charts.bars([Series("a", "held", [1] * 49)], [""] * 49, "h", "hours"))
    first, second = (_places(bar, "x", "width") for bar, _ in zip(drawn.iter("rect"), range(2), strict=False))
    assert [first[0], *second] == pytest.approx([LEFT + 1.25, LEFT + 11.25, 7.5], abs=0.06)


@pytest.mark.parametrize(
    ("point", "top"),
    [
        (Point(7.5, 3.0, 4.0, "bad", HOSTILE), 8),
        (Point(3.0, 7.5, 7.5, "bad", "x"), 8),
        (Point(3.0, 4.0, 7.5, "held", "x"), 8),
        (Point(3.0, 7.5, 1.0, "held", "x"), 8),
    ],
)
def test_a_point_stands_where_its_numbers_say(point: Point, top: float) -> None:
    drawn = _drawn(charts.scatter([Point(1.0, 1.0, 1.0, "asked", "y"), point], "<GiB>", [(HOSTILE, "bad")], "memory"))
    group = drawn.findall("./svg/g")[-1]
    whisker, dot = group
    across = LEFT + (RIGHT - LEFT) * point.x / top
    assert group.get("style") == f"--c:var(--{point.colour})"
    assert (dot.tag, dot.findtext("title")) == ("circle", point.title)
    assert _places(dot, "cx", "cy") == pytest.approx([across, _height(point.y, top)], abs=0.06)
    assert _places(whisker, "x1", "x2") == pytest.approx([across, across], abs=0.06)
    assert _places(whisker, "y1", "y2") == pytest.approx([_height(point.y, top), _height(point.upper, top)], abs=0.06)
    diagonal = drawn.find("./svg/line[@class='diagonal']")
    assert diagonal is not None
    assert _places(diagonal, "x1", "y1", "x2", "y2") == [LEFT, FLOOR, RIGHT, CEILING]
    places, texts = _below(drawn)
    assert places == pytest.approx([0, 0.25, 0.5, 0.75, 1], abs=1e-3)
    assert texts == ["0", "2", "4", "6", "8"]
    assert _legend(drawn) == [(HOSTILE, "--c:var(--bad)")]


def test_ranks() -> None:
    drawn = _drawn(charts.ranks([("a", 4.0), (HOSTILE, 1.0), ("c", 0.0)], "<kWh>", "asked"))
    rows = [[cell.text for cell in row if cell.get("class") != "track"] for row in drawn.iter("tr")]
    assert rows == [["a", "4.00 <kWh>"], [HOSTILE, "1.00 <kWh>"], ["c", "0.00 <kWh>"]]
    assert [name.get("title") for name in drawn.iterfind(".//td[@class='l']")] == ["a", HOSTILE, "c"]
    lengths = [bar.get("style") for bar in drawn.iter("i")]
    assert lengths == [f"--c:var(--asked);width:{length}%" for length in ("100.0", "25.0", "0.0")]
    nothing = _drawn(charts.ranks([("a", 0.0)], "kWh", "asked"))
    assert [bar.get("style") for bar in nothing.iter("i")] == ["--c:var(--asked);width:0.0%"]
    assert charts.ranks([], "kWh", "asked") == '<table class="ranks"></table>'


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=5))
def test_any_numbers_make_charts(values: list[float]) -> None:
    rows = [Series("a", "held", values, filled=True), Series("b", "asked", values)]
    labels = [str(n) for n in range(len(values))]
    points = [Point(value, value / 2, value * 2, "bad", "x") for value in values]
    for chart in (
        charts.over_time(rows, [(0.0, "a"), (1.0, "b")], "u", "t"),
        charts.bars(rows, labels, "u", "t"),
        charts.scatter(points, "u", [("n", "bad")], "t"),
        charts.ranks(list(zip(labels, values, strict=True)), "u", "held"),
    ):
        names = {"x", "y", "cx", "cy", "x1", "x2", "y1", "y2", "width", "height"}
        for element in _drawn(chart).iter():
            assert all(-1 <= float(element.attrib[name]) <= charts.WIDE for name in names & set(element.keys()))


@given(st.floats(0, 1e12))
def test_any_number_has_ticks(largest: float) -> None:
    ticks = charts._ticks(largest)
    assert 3 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert ticks[-1] >= largest * (1 - 1e-9)


@pytest.mark.parametrize(
    ("largest", "step", "count"),
    [
        (0.0, 0.2, 5),  # as for 1
        (0.3, 0.1, 3),
        (1.0, 0.2, 5),
        (3.5, 1, 4),
        (5.0, 1, 5),
        (7.0, 2, 4),
        (12.0, 2.5, 5),
        (20.0, 5, 4),
        (1e299, 2.5e298, 4),
        (math.inf, 0.2, 5),
        (math.nan, 0.2, 5),
    ],
)
def test_ticks_are_round(largest: float, step: float, count: int) -> None:
    assert charts._ticks(largest) == pytest.approx([n * step for n in range(count + 1)])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1234, "0.123"),
        (0.00123, "0.0012"),
        (0.00001, "0"),
        (12.5, "12.5"),
        (12.0, "12"),
        (99.96, "100"),
        (100, "100"),
        (123.4, "123"),
        (1234.4, "1,234"),
        (math.inf, "0"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert charts.number(value) == text


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([12.34, 1234.5, 0.04], ["12.3", "1,234.5", "0.0"]),
        ([10, 0.5], ["10.0", "0.5"]),
        ([9.99, 0.5], ["9.99", "0.50"]),
        ([1.234, 0.5], ["1.23", "0.50"]),
        ([1, 0.5], ["1.00", "0.50"]),
        ([0.1234, 0], ["0.123", "0.000"]),
        ([math.nan, 2], ["-", "2.00"]),
        ([math.nan], ["-"]),
        ([], []),
    ],
)
def test_numbers_below_each_other(values: list[float], texts: list[str]) -> None:
    assert charts.column(values) == texts
