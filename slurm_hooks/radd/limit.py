"""A time limit for work on what users hand in. Touches the clock, nothing else.

That may take long to read however it is bounded. slurmctld's hook waits 50 ms, and three answers that come late open
its circuit breaker for everybody: so radd gives up in time, and says so.
"""

from __future__ import annotations

import time

from estimator.breath import give_up, go_on


class OutOfTime(BaseException):
    """The work was given up. No `Exception`, so that nothing on the way takes it for a fault of its own."""


class at_most:  # noqa: N801  (read as a phrase: with at_most(0.03))
    """Give up what is inside after `seconds` on the clock: its next `breathe` raises OutOfTime. Not nested."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        give_up(time.monotonic() + self._seconds, OutOfTime)

    def __exit__(self, *_: object) -> None:
        go_on()
