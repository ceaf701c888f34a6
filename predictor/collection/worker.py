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
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class Workloads:
    """What a worker holds, by name.

    Args:
        device: ``cuda`` or ``cpu``.
        tiny: stand-ins instead of the real workloads.
    """

    def __init__(self, device: str, tiny: bool) -> None:
        self.device, self.tiny = device, tiny
        self.runners: dict[str, Runner] = {}

    def load(self, names: Iterable[str]) -> dict[str, Any]:
        """Build workloads; the answer says what memory each took from the device."""
        found = {}
        for name in names:
            self.runners[name] = Runner(name, self.device, self.tiny)
            found[name] = self.runners[name].reserved_mib
        return {"ready": found}

    def drop(self, name: str) -> dict[str, Any]:
        """Give a workload's memory back."""
        del self.runners[name]
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()
        return {"dropped": name}

    def obey(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a command says; returns the answer."""
        what, name = command["do"], command["name"]
        if what == "window":
            pin(command["cores"])
            return self.runners[name].window(command["begin"], command["end"])
        if what == "kernels":
            return self.runners[name].kernels(command["iterations"])
        return self.load([name]) if what == "load" else self.drop(name)


def serve(
    names: Sequence[str], held: Workloads, commands: Iterable[str], answer: Callable[[dict[str, Any]], None]
) -> None:
    """Build the workloads named, then obey commands until told to stop or they end; an error is the last answer."""
    try:
        answer(held.load(names))
        for line in commands:
            command = json.loads(line)
            if command["do"] == "stop":
                return
            answer(held.obey(command))
    except (RuntimeError, ImportError, ProfileError) as error:
        answer({"error": f"{type(error).__name__}: {error}"[:500]})


def main(arguments: Sequence[str]) -> None:
    """Serve on stdin and stdout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    # Libraries print to stdout now and then; answers keep a channel of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    held = Workloads(options.device, options.tiny)
    serve(options.names, held, sys.stdin, lambda content: print(json.dumps(content), file=answers))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(sys.argv[1:])
