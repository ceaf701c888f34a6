"""What is remembered between summaries: bounded dictionaries that start anew when they are full.

Keys and values are short, and a value follows from its key alone: what was kept before never changes an answer.
"""

from __future__ import annotations

from typing import Final, TypeVar

MOST: Final = 2048
"""So many entries each dictionary has at most."""

K = TypeVar("K")
V = TypeVar("V")


def keep(kept: dict[K, V], key: K, value: V) -> V:
    """Keep a value under its key, and give it back."""
    if len(kept) >= MOST:
        kept.clear()
    kept[key] = value
    return value
