"""A time limit for work in the main thread. Touches SIGALRM and the process's real-time timer, nothing else.

What users hand in may take long to read however it is bounded. slurmctld's hook waits 50 ms, and three answers that
come late open its circuit breaker for everybody: so radd gives up in time, and says so.
"""

from __future__ import annotations

import signal
from types import FrameType

from estimator.breath import give_up, go_on


class OutOfTime(BaseException):
    """The work was given up. No `Exception`, so that nothing on the way takes it for a fault of its own."""


class at_most:  # noqa: N801  (read as a phrase: with at_most(0.03))
    """Give up what is inside after `seconds` on the clock: its next `breathe` raises OutOfTime. Not nested.

    Main thread only. The first use takes SIGALRM for as long as the process lives: to set a handler each time takes
    longer than the rest of this.
    """

    _running = False
    _ready = False

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if not at_most._ready:
            signal.signal(signal.SIGALRM, _expire)
            at_most._ready = True
        at_most._running = True
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        at_most._running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        go_on()


def _expire(_number: int, _frame: FrameType | None) -> None:
    if at_most._running:
        give_up(OutOfTime())
