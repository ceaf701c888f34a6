"""Charts for the report's page: areas over time, stacked bars, a scatter plot, ranks. Pure: numbers in, text out.

Colours are CSS variables of the page, so that it can be light or dark. Every text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

NARROW, WIDE, HEIGHT = 560, 1140, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 18, 14, 30
_LABEL_EVERY = 70


@dataclass(frozen=True)
class Series:
    """One named row of numbers.

    Attributes:
        name: shown in the legend.
        colour: name of a CSS variable of the page, for example ``held``.
        values: one for each position of the axis.
        filled: draw an area instead of a line.
    """

    name: str
    colour: str
    values: Sequence[float]
    filled: bool = False


@dataclass(frozen=True)
class Point:
    """One point of a scatter plot, with an upper end that a thin line leads to, and what hovering shows."""

    x: float
    y: float
    upper: float
    colour: str
    title: str


@dataclass(frozen=True)
class _Frame:
    """Where values lie on a chart `width` wide whose vertical axis ends at `top`."""

    width: int
    top: float

    @property
    def inner(self) -> int:
        return self.width - _LEFT - _RIGHT

    @property
    def labels(self) -> int:
        """How many labels have room below."""
        return self.inner // _LABEL_EVERY

    def x(self, fraction: float) -> float:
        return _LEFT + fraction * self.inner

    def y(self, value: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - value / self.top)

    def grid(self, unit: str) -> list[str]:
        """Lines and labels of the vertical axis."""
        middle = _TOP + (HEIGHT - _TOP - _BOTTOM) / 2
        unit_text = (
            f'<text class="tick" text-anchor="middle" transform="rotate(-90 12 {middle})" x="12" y="{middle}">'
            f"{escape(unit)}</text>"
        )
        return [
            unit_text,
            *(
                f'<line class="grid" x1="{_LEFT}" x2="{self.width - _RIGHT}" y1="{self.y(tick):.1f}" '
                f'y2="{self.y(tick):.1f}"/><text class="tick" text-anchor="end" x="{_LEFT - 6}" '
                f'y="{self.y(tick) + 4:.1f}">{number(tick)}</text>'
                for tick in _ticks(self.top)
            ),
        ]

    def below(self, fraction: float, text: str) -> str:
        """A label of the horizontal axis."""
        return (
            f'<text class="tick" text-anchor="middle" x="{self.x(fraction):.1f}" y="{HEIGHT - _BOTTOM + 18}">'
            f"{escape(text)}</text>"
        )

    def svg(self, title: str, parts: Sequence[str]) -> str:
        """The chart."""
        return (
            f'<svg viewBox="0 0 {self.width} {HEIGHT}" role="img" aria-label="{escape(title)}">'
            f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
        )


def _framed(values: Sequence[float], width: int) -> _Frame:
    return _Frame(width, _ticks(max(values, default=0.0))[-1])


def over_time(series: Sequence[Series], ticks: Sequence[tuple[float, str]], unit: str, title: str) -> str:
    """Steps of equal length over time.

    Args:
        series: rows of equal length; the first is drawn first.
        ticks: labels of the horizontal axis, each with its place from 0 to 1.
        unit: of the vertical axis.
        title: what the chart shows, for readers that do not see it.
    """
    frame = _framed([value for row in series for value in row.values], WIDE)
    parts = frame.grid(unit)
    for row in series:
        points, count = [], len(row.values)
        for n, value in enumerate(row.values):
            y = frame.y(value)
            points += [f"{frame.x(n / count):.1f},{y:.1f}", f"{frame.x((n + 1) / count):.1f},{y:.1f}"]
        if row.filled:
            ends = [f"{frame.x(0):.1f},{frame.y(0):.1f}", *points, f"{frame.x(1):.1f},{frame.y(0):.1f}"]
            parts.append(f'<polygon class="area" style="--c:var(--{row.colour})" points="{" ".join(ends)}"/>')
        parts.append(f'<polyline class="line" style="--c:var(--{row.colour})" points="{" ".join(points)}"/>')
    parts += [frame.below(place, label) for place, label in ticks]
    return frame.svg(title, parts) + _legend([(row.name, row.colour) for row in series])


def bars(series: Sequence[Series], labels: Sequence[str], unit: str, title: str) -> str:
    """Stacked bars, one for each label.

    Args:
        series: rows of equal length; the first is at the bottom.
        labels: one for each bar; a few of them are shown.
        unit: of the vertical axis.
        title: what the chart shows, for readers that do not see it.
    """
    sums = [sum(row.values[n] for row in series) for n in range(len(labels))]
    frame = _framed(sums, NARROW)
    parts = frame.grid(unit)
    count = max(1, len(labels))
    gap = min(6.0, 0.25 * frame.inner / count)
    every = math.ceil(count / frame.labels)
    for n, label in enumerate(labels):
        below = 0.0
        for row in series:
            value = row.values[n]
            if value <= 0:
                continue
            y = frame.y(below + value)
            parts.append(
                f'<rect style="--c:var(--{row.colour})" class="bar" x="{frame.x(n / count) + gap / 2:.1f}" y="{y:.1f}" '
                f'width="{frame.inner / count - gap:.1f}" height="{frame.y(below) - y:.1f}">'
                f"<title>{escape(label)}: {escape(row.name)} {number(value)} {escape(unit)}</title></rect>"
            )
            below += value
        if n % every == 0:
            parts.append(frame.below((n + 0.5) / count, label))
    return frame.svg(title, parts) + _legend([(row.name, row.colour) for row in series])


def scatter(points: Sequence[Point], unit: str, legend: Sequence[tuple[str, str]], title: str) -> str:
    """Points against the diagonal; both axes have the same unit and range.

    Args:
        points: what is drawn.
        unit: of both axes.
        legend: names and colours.
        title: what the chart shows, for readers that do not see it.
    """
    frame = _framed([value for p in points for value in (p.x, p.y, p.upper)], NARROW)
    top, parts = frame.top, frame.grid(unit)
    parts.append(f'<line class="diagonal" x1="{frame.x(0)}" y1="{frame.y(0)}" x2="{frame.x(1)}" y2="{frame.y(top)}"/>')
    for p in points:
        x = f"{frame.x(p.x / top):.1f}"
        parts.append(
            f'<g style="--c:var(--{p.colour})"><line class="whisker" x1="{x}" x2="{x}" y1="{frame.y(p.y):.1f}" '
            f'y2="{frame.y(p.upper):.1f}"/><circle class="dot" cx="{x}" cy="{frame.y(p.y):.1f}" r="4">'
            f"<title>{escape(p.title)}</title></circle></g>"
        )
    parts += [frame.below(tick / top, number(tick)) for tick in _ticks(top)]
    return frame.svg(title, parts) + _legend(legend)


def ranks(entries: Sequence[tuple[str, float]], unit: str, colour: str) -> str:
    """Names, each with a bar as long as its number.

    Args:
        entries: names and numbers; the order stays.
        unit: of the numbers.
        colour: name of a CSS variable of the page.
    """
    largest = max((value for _, value in entries), default=0.0)
    texts = column([value for _, value in entries])
    rows = (
        f'<tr><td class="l" title="{escape(name)}">{escape(name)}</td><td class="track"><i style="--c:var(--{colour});'
        f'width:{100 * value / largest if largest > 0 else 0:.1f}%"></i></td><td>{text} {escape(unit)}</td></tr>'
        for (name, value), text in zip(entries, texts, strict=True)
    )
    return f'<table class="ranks">{"".join(rows)}</table>'


def column(values: Sequence[float]) -> list[str]:
    """Numbers as they stand below each other: all with as many decimals as give the largest three digits."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    decimals = 1 if largest >= 10 else 2 if largest >= 1 else 3
    return [f"{value:,.{decimals}f}" if math.isfinite(value) else "-" for value in values]


def number(value: float) -> str:
    """A number as people read it: three significant digits, no more decimals than needed."""
    if value == 0 or not math.isfinite(value):
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(decimals, 4)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _ticks(largest: float) -> list[float]:
    """Round numbers from 0 to at least `largest`, four to six of them."""
    if not 1e-9 < largest < 1e300:
        largest = 1.0
    step = 10.0 ** math.floor(math.log10(largest / 4))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if largest / (step * factor) <= 5)
    return [n * step for n in range(math.ceil(largest / step - 1e-9) + 1)]


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    items = (f'<li style="--c:var(--{colour})">{escape(name)}</li>' for name, colour in entries)
    return f'<ul class="legend">{"".join(items)}</ul>'
