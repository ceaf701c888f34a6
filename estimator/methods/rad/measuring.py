"""What the commands share that measure workspaces on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
_WRITES: Final = 15.0


def measure_for(seconds: float, once: Callable[[], Iterable[T]], write: Callable[[list[T]], None]) -> None:
    """Measure for a while, and write all that was found now and then: some pieces take minutes.

    Args:
        seconds: how long.
        once: measures a piece.
        write: keeps what was found so far.
    """
    measured: list[T] = []
    begin = written = time.monotonic()
    while time.monotonic() - begin < seconds:
        if time.monotonic() - written > _WRITES:
            write(measured)
            written = time.monotonic()
        measured += once()
    write(measured)
