"""A resident process that holds workloads on the GPU and runs one when told to.

Speaks JSON lines: commands on stdin, answers on stdout. Idle it only waits for a line, so that dozens of them
can share a GPU and only those under test use it. Started as ``python -m predictor.collection.worker NAME...``.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from predictor.collection.specs import spec_of
from predictor.collection.workloads import Step, build
from predictor.trace import kernel_metrics, kernel_shapes, read_trace
from predictor.types import ProfileError

AHEAD = 2
WARM_UP = 6
TRACE_WATCH_S = 30.0


def pin(cores: Sequence[int]) -> None:
    """Keep every thread of this process on some cores, as a scheduler that binds jobs does; no cores change nothing.

    Two processes that each need the host then never share a core, and one does not wander while it is measured.
    """
    for thread in Path("/proc/self/task").iterdir() if cores else ():
        with suppress(OSError):  # a thread that ended meanwhile
            os.sched_setaffinity(int(thread.name), cores)


class Runner:
    """One workload on a device."""

    def __init__(self, name: str, device: str, tiny: bool) -> None:
        spec = spec_of(name)
        self.cuda = device == "cuda"
        before = torch.cuda.memory_reserved() if self.cuda else 0
        self.step: Step = build(spec, device, tiny)
        for _ in range(WARM_UP):
            self.step()
        self.finish()
        self.reserved_mib = (torch.cuda.memory_reserved() - before) / 2**20 if self.cuda else 0.0

    def finish(self) -> None:
        """Wait until the device has done everything."""
        if self.cuda:
            torch.cuda.synchronize()

    def _queue(self) -> Callable[[], None]:
        """Queue one iteration; the returned function waits for it."""
        self.step()
        if not self.cuda:
            return lambda: None
        event = torch.cuda.Event()
        event.record()
        return event.synchronize  # type: ignore[no-any-return]

    def window(self, begin: float, end: float) -> dict[str, Any]:
        """Iterate from ``begin`` to ``end`` (monotonic seconds).

        As a training loop does, the host runs a few iterations ahead of the device and no further.

        Returns:
            ``begun``, ``moments``: when each iteration was done on the device, those still queued at the end too.
        """
        waiting: deque[Callable[[], None]] = deque()
        done: list[float] = []

        def oldest() -> None:
            waiting.popleft()()
            done.append(time.monotonic())

        time.sleep(max(0.0, begin - time.monotonic()))
        begun = time.monotonic()
        while time.monotonic() < end:
            waiting.append(self._queue())
            if len(waiting) > AHEAD:
                oldest()
        while waiting:
            oldest()
        self.finish()
        return {"begun": begun, "moments": done}

    def kernels(self, iterations: int) -> dict[str, Any]:
        """Kernel metrics by the PyTorch profiler. Tracing may slow a process down for good: do it last."""
        # One that hangs (its conductor waits no longer than this) should leave word of where.
        faulthandler.dump_traceback_later(TRACE_WATCH_S, exit=False)
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.cuda:
            activities = [torch.profiler.ProfilerActivity.CUDA]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            with torch.profiler.profile(activities=activities, acc_events=True) as profiler:
                begin = time.monotonic()
                for _ in range(iterations):
                    self.step()
                self.finish()
                elapsed = time.monotonic() - begin
            profiler.export_chrome_trace(str(path))
            trace = read_trace(path)
        faulthandler.cancel_dump_traceback_later()
        shapes = kernel_shapes(trace.kernels)
        return {**kernel_metrics(trace), "iterations": iterations, "elapsed_s": elapsed, "shapes": shapes}


def main(arguments: Sequence[str]) -> None:
    """Build the workloads named, then obey commands until told to stop or stdin ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    # Libraries print to stdout now and then; answers keep a channel of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**content: Any) -> None:
        answers.write(json.dumps(content) + "\n")

    torch.set_num_threads(1)
    runners: dict[str, Runner] = {}

    def load(name: str) -> float:
        runners[name] = Runner(name, options.device, options.tiny)
        return runners[name].reserved_mib

    def drop(name: str) -> None:
        del runners[name]
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()

    try:
        answer(ready={name: load(name) for name in options.names})
        for line in sys.stdin:
            command = json.loads(line)
            name = command.get("name", "")
            if command["do"] == "stop":
                return
            if command["do"] == "window":
                pin(command["cores"])
                answer(**runners[name].window(command["begin"], command["end"]))
            elif command["do"] == "kernels":
                answer(**runners[name].kernels(command["iterations"]))
            elif command["do"] == "load":
                answer(ready={name: load(name)})
            else:
                drop(name)
                answer(dropped=name)
    except (RuntimeError, ImportError, ProfileError) as error:
        answer(error=f"{type(error).__name__}: {error}"[:500])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1:])
