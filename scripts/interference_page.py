"""What both parts of the results page of interference are made of: paragraphs, tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from predictor.types import Floats
from scripts.markdown import table


@dataclass
class Page:
    """The page as it grows.

    Attributes:
        folder: where figures go, or None for none.
        lines: Markdown so far.
    """

    folder: Path | None
    lines: list[str] = field(default_factory=list)

    def text(self, *lines: str) -> None:
        """Add a paragraph."""
        self.lines += [*lines, ""]

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table."""
        self.lines += table(head, rows).split("\n")

    def bars(self, name: str, title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
        """Add a figure of grouped bars."""
        if self.folder is None:
            return
        figure, axes = _canvas()
        width = 0.8 / len(series)
        places = np.arange(len(labels))
        for index, (label, values) in enumerate(series.items()):
            axes.bar(places + index * width, values, width, label=label)
        axes.set_xticks(places + 0.4 - width / 2, labels, rotation=60 if len(labels) > 10 else 0, fontsize=7)
        axes.set_title(title, fontsize=9)
        if len(series) > 1:
            axes.legend(fontsize=7, loc="lower right")
        self._save(figure, name, title)

    def points(self, name: str, title: str, axis: Sequence[str], series: Mapping[str, tuple[object, object]]) -> None:
        """Add a figure of points."""
        if self.folder is None:
            return
        figure, axes = _canvas()
        for label, (x, y) in series.items():
            axes.plot(x, y, ".", label=label, markersize=3)
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
        axes.set_xlabel(axis[0], fontsize=8)
        axes.set_ylabel(axis[1], fontsize=8)
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7)
        self._save(figure, name, title)

    def _save(self, figure: Any, name: str, title: str) -> None:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        figure.tight_layout()
        figure.savefig(self.folder / f"{name}.png", dpi=110, metadata={"Software": None})
        self.text(f"![{title}]({self.folder.name}/{name}.png)")


def _canvas() -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415 - figures are an extra

    figure = Figure(figsize=(7.2, 3.2))
    return figure, figure.subplots()


def mean(values: Iterable[float]) -> float:
    """Their mean."""
    return float(np.mean(list(values)))


def weight_rows(
    activity: Sequence[str],
    turns: Sequence[str],
    press: Sequence[str],
    own: Sequence[str],
    theta: Floats,
    covariance: Floats,
) -> list[list[str]]:
    """Rows of a table of what a fitted model weighs."""
    kinds = [("activity of both", name) for name in activity]
    kinds += [("length of the neighbour's turns over one's own", name) for name in turns]
    kinds += [("pressure on the neighbours", name) for name in press]
    kinds += [("how a job itself suffers", name) for name in own]
    return [
        [name, kind, f"{theta[index]:.2f}", f"{covariance[index, index] ** 0.5:.2f}"]
        for index, (kind, name) in enumerate(kinds, 1)
    ]
