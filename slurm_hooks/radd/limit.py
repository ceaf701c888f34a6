"""A time limit for work in the main thread. Touches SIGALRM and the process's real-time timer, nothing else.

What users hand in may take long to read however it is bounded. slurmctld's hook waits 50 ms, and three answers that
come late open its circuit breaker for everybody: so radd gives up in time, and says so.
"""

from __future__ import annotations

import dis
import signal
from types import FrameType

from estimator.compiled import is_compiled

_AGAIN_S = 0.0005
# Where Python looks for signals between steps of its own: where a function begins (3.10 has no word for that) and where
# a loop goes on.
_STEPS = [dis.opmap[name] for name in ("RESUME", "JUMP_BACKWARD") if name in dis.opmap]


class OutOfTime(BaseException):
    """The work was given up. No `Exception`, so that nothing on the way takes it for a fault of its own."""


class at_most:  # noqa: N801  (read as a phrase: with at_most(0.03))
    """Give up what is inside after `seconds` on the clock: OutOfTime is raised there. Main thread only; not nested.

    The first use takes SIGALRM for as long as the process lives: to set a handler each time takes longer than the
    rest of this.

    Compiled code does not bear an exception anywhere: what is raised while it multiplies large numbers it takes for a
    lack of memory, and ends the process. There the alarm comes again until Python is between steps of its own.
    """

    _running = False
    _ready = False
    _anywhere = True

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if not at_most._ready:
            signal.signal(signal.SIGALRM, _expire)
            at_most._ready, at_most._anywhere = True, not is_compiled()
        at_most._running = True
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        at_most._running = False
        signal.setitimer(signal.ITIMER_REAL, 0)


def _expire(_number: int, frame: FrameType | None) -> None:
    if not at_most._running:
        return
    if at_most._anywhere or _between_steps(frame):
        at_most._running = False
        raise OutOfTime
    # At the very end: an alarm that came earlier would find this function between steps of Python.
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


def _between_steps(frame: FrameType | None) -> bool:
    return frame is not None and (frame.f_lasti < 0 or frame.f_code.co_code[frame.f_lasti] in _STEPS)
