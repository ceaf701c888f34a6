"""Where work on users' texts can be given up. Never compiled; touches nothing outside.

An exception that a signal's handler raises strikes anywhere: while another module holds a lock that it then never gives
back, or in the middle of compiled code, which does not bear it; and Python does not notice a signal that the kernel
hands to a thread of a library's. So the loops over users' layers, which call `breathe` now and then, look at the clock
themselves, and end the work at a place of their own.

Compiled code keeps other threads waiting from its first line to its last; as this is none, they run at each breath. So
the loops that read a model, beside a thread that answers users, breathe too.
"""

from __future__ import annotations

from threading import get_ident
from time import monotonic
from typing import Final

OFTEN: Final = 63
"""Loops over layers breathe where the number of the layer has none of these bits: a breath costs as much as a step."""
_ends: list[tuple[int, float, type[BaseException]]] = []


def breathe() -> None:
    """Go on, or raise what `give_up` was told, from then on."""
    for thread, at, end in _ends:  # which another thread may empty at any moment
        if thread == get_ident() and monotonic() >= at:
            raise end


def give_up(at: float, end: type[BaseException]) -> None:
    """Let every breath of this thread raise an `end` until `go_on`, from a moment of `time.monotonic` on.

    A new one each time: one that is kept would keep, through its traceback, all that was worked on.
    """
    _ends.append((get_ident(), at, end))


def go_on() -> None:
    """Let breaths pass again."""
    _ends.clear()
