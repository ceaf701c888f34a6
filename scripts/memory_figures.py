"""Draws the figures of the results page of GPU memory; needs matplotlib where it draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

METHODS = ("horus", "faketensor", "gpumemnet", "rad")
GIB = 1024.0
"""MiB of one."""


def shown(cases: list[dict[str, Any]], family: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return one training of each real model for the figures: the one in fp32 that needs most memory."""
    best: dict[str, dict[str, Any]] = {}
    for case in cases:
        fits = case["kind"] == "train" and case["precision"] == "fp32" and family(case["family"])
        if fits and case["actual"] > best.get(case["name"], {"actual": 0})["actual"]:
            best[case["name"]] = case
    return sorted(best.values(), key=lambda case: str(case["name"]))


def _pyplot() -> Any:
    """Import what draws, so that it needs no screen and draws the same file each time."""
    import matplotlib as mpl  # noqa: PLC0415 - the figures extra

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "rad"
    from matplotlib import pyplot  # noqa: PLC0415

    return pyplot


def bars(cases: list[dict[str, Any]], title: str, file: Path) -> None:
    """Draw actual memory and what every method expects, a group of bars for each model; needs matplotlib."""
    plt = _pyplot()
    names = ("actual", *METHODS)
    figure, axes = plt.subplots(figsize=(9, 1.5 + 0.42 * len(cases)))
    for place, name in enumerate(names):
        heights = [0.16 * (len(names) / 2 - place) + index for index in range(len(cases))]
        values = [_bar(case, name) for case in cases]
        axes.barh(heights, values, height=0.16, label=name, color=f"C{place}" if place else "black")
    labels = [f"{case['name']} ({case['batch_size']})" for case in cases]
    axes.set_yticks(range(len(cases)), labels, fontsize=7)
    axes.set(xlabel="GiB", title=title, xscale="log")
    axes.invert_yaxis()
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def _bar(case: dict[str, Any], name: str) -> float:
    if name == "actual":
        return float(case["actual"]) / GIB
    answer = case["answers"].get(name)
    return float(answer["expected"]) / GIB if answer else 0.0


def scatter(cases: list[dict[str, Any]], file: Path) -> None:
    """Draw expected against actual memory of all cases, one panel a method; needs matplotlib."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, len(METHODS), figsize=(12, 3.4), sharex=True, sharey=True)
    for place, method in zip(axes, METHODS, strict=True):
        answered = [case for case in cases if case["answers"].get(method)]
        actual = [case["actual"] / GIB for case in answered]
        place.scatter(actual, [case["answers"][method]["expected"] / GIB for case in answered], s=6, alpha=0.6)
        place.plot([0.7, 80], [0.7, 80], color="black", linewidth=0.7)
        place.set(title=f"{method}: {len(answered)} cases", xscale="log", yscale="log", xlabel="actual, GiB")
    axes[0].set_ylabel("expected, GiB")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
