"""A time limit for work in the main thread. Touches SIGALRM and the process's real-time timer, nothing else.

What users hand in may take long to read however it is bounded. slurmctld's hook waits 50 ms, and three answers that
come late open its circuit breaker for everybody: so radd gives up in time, and says so.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class OutOfTime(BaseException):
    """The work was given up. No `Exception`, so that nothing on the way takes it for a fault of its own."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Give up what is inside after `seconds` on the clock. Main thread only; not nested.

    Raises:
        OutOfTime: from inside, at the limit.
    """
    running = True

    def expire(_number: int, _frame: FrameType | None) -> None:
        if running:
            raise OutOfTime

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
