"""For a workload's own code: call :func:`iteration` once an iteration while `radctl profile` watches.

    from predictor.hook import iteration
    for batch in loader:
        train(batch)
        iteration()

Prints the marker that `radctl profile` counts and, when kernels were asked for, records some iterations with the
PyTorch profiler. Outside `radctl profile` it does nothing at all.
"""

from __future__ import annotations

import os
import sys
from typing import Any

MARKER = "rad: iteration"
MARKER_VARIABLE = "RAD_PROFILE_MARKER"
TRACE_VARIABLE = "RAD_PROFILE_TRACE"
TRACE_SKIP = 5
TRACE_ITERATIONS = 5


class _State:
    """Where the recording stands; one for the process."""

    def __init__(self) -> None:
        self.count = 0
        self.profiler: Any = None


_state = _State()


def iteration() -> None:
    """Say that one iteration is done."""
    if not os.environ.get(MARKER_VARIABLE):
        return
    sys.stdout.write(MARKER + "\n")
    sys.stdout.flush()
    trace = os.environ.get(TRACE_VARIABLE)
    if trace:
        _record(_state, trace)


def _record(state: _State, trace: str) -> None:
    state.count += 1
    if state.count == TRACE_SKIP:
        import torch  # noqa: PLC0415 - a workload without PyTorch must be able to call the hook

        torch.cuda.synchronize() if torch.cuda.is_available() else None
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities = [torch.profiler.ProfilerActivity.CUDA]
        state.profiler = torch.profiler.profile(activities=activities)
        state.profiler.__enter__()
    elif state.profiler is not None and state.count == TRACE_SKIP + TRACE_ITERATIONS:
        state.profiler.__exit__(None, None, None)
        state.profiler.export_chrome_trace(trace)
        state.profiler = None
