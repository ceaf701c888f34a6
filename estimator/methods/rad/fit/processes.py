"""Work for every core. Processes are forked: they see all that was read, and only what they make is sent back."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

T = TypeVar("T")

_work: Sequence[Callable[[], Any]] = ()


class ProcessDiedError(RuntimeError):
    """A process that did a part of the work was ended from outside; the message says the cure."""


def forked(work: Sequence[Callable[[], T]]) -> list[T]:
    """Do independent pieces of work, one process for each core that this one may use.

    Args:
        work: those that take longest first; none of them calls this function.

    Returns:
        What each made, in order.

    Raises:
        ProcessDiedError: a process died, for want of memory perhaps.
        Exception: what a piece of work raised.
    """
    processes = min(len(work), cores())
    if processes < 2:
        return [one() for one in work]
    gc.freeze()  # what is there is not looked through again, by which each process would have a copy of its own
    try:
        context = get_context("fork")
        with ProcessPoolExecutor(processes, context, initializer=_take, initargs=(work,)) as pool:
            return list(pool.map(_do, range(len(work))))
    except BrokenProcessPool:
        cure = "fewer cores (taskset -c 0,1 radctl ...) are fewer processes, which need less memory together"
        raise ProcessDiedError(f"one of {processes} processes died, for want of memory perhaps: {cure}") from None
    finally:
        gc.unfreeze()


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _take(work: Sequence[Callable[[], Any]]) -> None:
    global _work  # noqa: PLW0603
    _work = work
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End where the command was killed: nobody takes what is made, and the pool would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(number: int) -> Any:
    with threadpool_limits(1):  # threads of OpenMP's that the parent began are not there in a process forked from it
        return _work[number]()
