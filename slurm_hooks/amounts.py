"""Amounts as people read them. Pure."""

from __future__ import annotations

from typing import Final

MIB_PER_GIB: Final = 1024


def gib(mib: float | None) -> str:
    """MiB in GiB, without the unit: ``13.1``; ``-`` where they are not known."""
    return "-" if mib is None else f"{mib / MIB_PER_GIB:.1f}"


def many(count: int, one: str) -> str:
    """So many of what one is called: ``1 job``, ``3 jobs``."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def duration(seconds: int) -> str:
    """A time in its two largest units: ``1 h 12 m``."""
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    for index, (size, name) in enumerate(units):
        if seconds >= size:
            text = f"{seconds // size} {name}"
            rest = seconds % size
            if index + 1 < len(units) and rest >= units[index + 1][0]:
                text += f" {rest // units[index + 1][0]} {units[index + 1][1]}"
            return text
    return "0 s"
