"""What a data set covers: counts, ranges and a plot. Draws only when asked; matplotlib is the figures extra."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from estimator.dataset.raw import read_each
from estimator.dataset.specs import spec_from_json
from estimator.dataset.store import Row

_COLUMNS = ("rows", "oom", "models", "groups", "least_mib", "median_mib", "most_mib", "with_counters")


def raw_rows(path: Path) -> list[Row]:
    """Read rows of a collection that is not packed; their label is what the allocator took.

    Raises:
        LineError: a line is no such row.
    """
    return list(read_each(path, _raw_row))


def _raw_row(item: dict[str, Any]) -> Row:
    reserved, allocated = float(item["peak_reserved_mib"]), float(item["peak_allocated_mib"])
    memory = reserved if item["status"] == "ok" else None
    return Row(spec_from_json(item["spec"]), item["status"], memory, allocated, reserved)


def kind_of(row: Row) -> str:
    """Return the part of the data set that a row belongs to: a synthetic family, or a library."""
    return row.spec.family if row.spec.source == "synthetic" else row.spec.source


def table(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """Count rows and give ranges, for each part and each split."""
    parts: dict[str, list[tuple[Row, str]]] = {}
    for row in rows:
        known = row, row.spec.model_id
        parts.setdefault(kind_of(row), []).append(known)
        parts.setdefault(f"split {row.split}", []).append(known)
        if row.spec.source != "synthetic":
            parts.setdefault("real", []).append(known)
    return {name: _describe(parts[name]) for name in sorted(parts)}


def _describe(known: list[tuple[Row, str]]) -> dict[str, Any]:
    rows = [row for row, _ in known]
    memory = sorted(row.memory_mib for row in rows if row.memory_mib is not None)
    return {
        "rows": len(rows),
        "oom": sum(row.status == "oom" for row in rows),
        "models": len({model for _, model in known}),
        "groups": len({row.spec.group for row in rows}),
        "least_mib": round(memory[0]) if memory else None,
        "median_mib": round(memory[len(memory) // 2]) if memory else None,
        "most_mib": round(memory[-1]) if memory else None,
        "with_counters": sum(row.smact is not None for row in rows),
    }


def text(found: dict[str, dict[str, Any]]) -> str:
    """Return a table for people."""
    width = max([12, *(len(name) for name in found)])
    lines = [" " * width + "".join(f"{name:>14}" for name in _COLUMNS)]
    for name, facts in found.items():
        cells = ("-" if facts[column] is None else str(facts[column]) for column in _COLUMNS)
        lines.append(name.ljust(width) + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)


def plot(rows: Iterable[Row], file: Path) -> None:
    """Draw batch size against memory, one panel a part of the data set; nothing on the page where no rows are.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the file's name ends like no format that it writes.
    """
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(kind_of(row), []).append(row)
    columns = 3
    height = max(-(-len(parts) // columns), 1)
    figure, axes = plt.subplots(height, columns, figsize=(11, 3.2 * height), squeeze=False)
    for place, (name, found) in zip(axes.flat, sorted(parts.items()), strict=False):
        good = [row for row in found if row.memory_mib is not None]
        place.scatter([r.spec.batch_size for r in good], [(r.memory_mib or 0) / 1024 for r in good], s=3, alpha=0.4)
        for row in found:
            if row.status == "oom":
                place.axvline(row.spec.batch_size, ymin=0.96, color="tab:red", linewidth=0.5)
        place.set(title=f"{name}: {len(found)} rows", xscale="log", yscale="log", xlabel="batch size", ylabel="GiB")
    for place in axes.flat[len(parts) :]:
        place.set_axis_off()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    plt.close(figure)
