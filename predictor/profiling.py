"""Runs a workload alone for a bounded time and makes its profile.

Starts the command that the user gives, in a process group of its own, reads the GPU's counters while it runs and
ends the group when the time is over. Writes nothing but a trace in a temporary folder.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal, Protocol

from predictor import ncu
from predictor.counters import Counters, Source
from predictor.hook import MARKER, MARKER_VARIABLE, TRACE_ITERATIONS, TRACE_VARIABLE
from predictor.trace import kernel_metrics, kernel_shapes, read_trace
from predictor.types import KernelMetrics, Profile, ProfileError

Kernels = Literal["none", "torch", "ncu"]
GRACE_S = 5.0
MAX_LINE = 4096
LEAST_SMACT = 5e-4
"""What an idle GPU's counters may show."""
SETTLE_S = 2.0
"""From the first iterations to the measured window: until the host runs as far ahead of the GPU as it will."""
NCU_S = 300.0


@dataclass(frozen=True)
class Request:
    """What to profile and how.

    Attributes:
        command: program and arguments.
        seconds: length of the measured window.
        warm_up_s: longest wait for the first iteration (or, without markers, the wait) before the window.
        marker: regular expression; each line of output in which it is found is one iteration.
        kernels: who looks at kernels: nobody, the PyTorch profiler through :mod:`predictor.hook`, or Nsight Compute
            in a second run.
        name: what the profile is called.
    """

    command: tuple[str, ...]
    seconds: float = 20.0
    warm_up_s: float = 30.0
    marker: str = re.escape(MARKER)
    kernels: Kernels = "none"
    name: str = ""

    def with_marker(self, marker: str | None) -> Request:
        """The same with another marker, unless it is None."""
        return self if marker is None else replace(self, marker=marker)


class Exclusive(Source, Protocol):
    """Counters of a GPU that can also say whether somebody else uses it."""

    def processes(self) -> int:
        """Compute processes on the GPU now."""

    def used_mib(self) -> float:
        """GPU memory in use now."""


@dataclass
class _Watched:
    """The output of a running command: iterations counted, last lines kept for messages."""

    pattern: re.Pattern[str]
    iterations: list[float] = field(default_factory=list)
    last: deque[str] = field(default_factory=lambda: deque(maxlen=8))
    rest: str = ""

    def feed(self, text: str) -> None:
        """Take more output; what comes at once, as from a program that fills a buffer first, has one moment."""
        now = time.monotonic()
        *lines, self.rest = (self.rest + text).split("\n")
        self.rest = self.rest[-MAX_LINE:]
        for line in lines:
            if self.pattern.search(line[:MAX_LINE]):
                self.iterations.append(now)
            elif line.strip():
                self.last.append(line.strip()[:200])


def profile_command(request: Request, counters: Exclusive, say: Callable[[str], None] = lambda _text: None) -> Profile:
    """Run the command alone and return its profile.

    Raises:
        ProfileError: another process uses the GPU, the command fails or ends too early, or it used no GPU.
    """
    pattern = _compile(request.marker)
    if counters.processes():
        raise ProfileError("another process uses the GPU; a profile is of a workload alone: wait until it is idle")
    with tempfile.TemporaryDirectory(prefix="rad-profile-") as folder:
        trace = Path(folder) / "trace.json"
        # What a GPU without any process has in use is no part of the workload's memory.
        idle_mib = counters.used_mib()
        environment = {**os.environ, MARKER_VARIABLE: "1", "PYTHONUNBUFFERED": "1"}
        if request.kernels == "torch":
            _run_until(request, environment | {TRACE_VARIABLE: str(trace)}, pattern, trace, say)
        measured, rate = _window(request, environment, pattern, counters, say)
        kernel = KernelMetrics()
        if request.kernels == "torch":
            kernel = _from_trace(trace, rate)
        elif request.kernels == "ncu":
            say("running again under Nsight Compute")
            kernel = ncu.kernel_metrics(_under_ncu(request, environment, Path(folder) / "ncu.csv", say))
    used_mib = max(measured.used_mib - idle_mib, 0.0) if math.isfinite(idle_mib) else measured.used_mib
    return _profile(request, replace(measured, used_mib=used_mib), rate, kernel)


def _compile(marker: str) -> re.Pattern[str]:
    try:
        return re.compile(marker)
    except re.error as error:
        raise ProfileError(f"marker {marker!r} is no regular expression: {error}") from error


def _profile(request: Request, counters: Counters, rate: float, kernel: KernelMetrics) -> Profile:
    missing = [key for key in ("smact", "dram") if math.isnan(getattr(counters, key))]
    if missing:
        raise ProfileError(
            f"this GPU does not count {', '.join(missing)} by NVML (GPM needs Hopper or later): profile on a node "
            "with DCGM and take the job's record instead"
        )
    if counters.smact < LEAST_SMACT:
        raise ProfileError("the command ran but used no GPU in the measured time: is it the right device?")

    def known(value: float) -> float:
        return 0.0 if math.isnan(value) else value

    return Profile(
        smact=counters.smact,
        smocc=known(counters.smocc),
        tensor=known(counters.tensor),
        dram=counters.dram,
        pcie=known(counters.pcie),
        memory_mib=known(counters.used_mib),
        throughput=rate,
        busy=counters.busy,
        power_w=counters.power_w,
        kernel=kernel,
        name=request.name or Path(request.command[0]).name,
    )


@contextlib.contextmanager
def _started(request: Request, environment: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """The command in a process group of its own; the whole group is gone afterwards."""
    try:
        process = subprocess.Popen(
            request.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise ProfileError(f"{request.command[0]}: cannot be started: {error.strerror}") from error
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
        process.stdout.close()


def _read(stream: IO[bytes], watched: _Watched, until: float) -> bool:
    """Feed output until a moment; false once the stream has ended."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if selector.select(left):
                data = os.read(stream.fileno(), 65536)
                if not data:
                    return False
                watched.feed(data.decode(errors="replace"))
                return True
    return True


def _failure(request: Request, process: subprocess.Popen[bytes], watched: _Watched, when: str) -> ProfileError:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    said = " | ".join(watched.last) or "nothing"
    cure = " (it must run until it is stopped: give it more to do)" if process.returncode == 0 else ""
    return ProfileError(
        f"{' '.join(request.command)[:200]}: ended with code {process.returncode} {when}{cure}; no profile. "
        f"It said: {said}"
    )


def _window(
    request: Request,
    environment: Mapping[str, str],
    pattern: re.Pattern[str],
    counters: Source,
    say: Callable[[str], None],
) -> tuple[Counters, float]:
    watched = _Watched(pattern)
    with _started(request, environment) as (process, output):
        say(f"warming up, at most {request.warm_up_s:.0f} s")
        limit = time.monotonic() + request.warm_up_s
        while time.monotonic() < limit:
            settled = watched.iterations[2] + SETTLE_S if len(watched.iterations) > 2 else limit
            if time.monotonic() >= settled:
                break
            if not _read(output, watched, min(limit, settled)):
                raise _failure(request, process, watched, "while warming up")
        counters.start()
        begun = time.monotonic()
        end = begun + request.seconds
        told = begun
        while time.monotonic() < end:
            if not _read(output, watched, min(end, time.monotonic() + 0.5)):
                raise _failure(request, process, watched, f"after {time.monotonic() - begun:.1f} s of measuring")
            if time.monotonic() - told > 2.0:
                told = time.monotonic()
                say(f"{told - begun:.0f} of {request.seconds:.0f} s, {len(watched.iterations)} iterations")
        found = counters.stop()
        inside = [moment for moment in watched.iterations if moment >= begun]
        rate = _rate(inside)
        if rate is None:
            raise ProfileError(
                f"{len(inside)} iterations in {request.seconds:.0f} s, told at {len(set(inside))} moments: call "
                "predictor.hook.iteration() once an iteration, give --marker for a line that the workload prints and "
                "flushes (stdbuf -oL), or measure longer"
            )
        return found, rate


def _rate(moments: Sequence[float]) -> float | None:
    """Iterations a second from the first moment, before which those that it tells of were done, to the last.

    None where there is one moment at most.
    """
    if not moments or moments[-1] <= moments[0]:
        return None
    return sum(moment > moments[0] for moment in moments) / (moments[-1] - moments[0])


def _run_until(
    request: Request,
    environment: Mapping[str, str],
    pattern: re.Pattern[str],
    trace: Path,
    say: Callable[[str], None],
) -> None:
    """Run the command until its hook has written a trace: a traced process is not the one that is measured."""
    say("tracing kernels")
    watched = _Watched(pattern)
    with _started(request, environment) as (process, output):
        limit = time.monotonic() + request.warm_up_s + request.seconds
        size = -1
        while time.monotonic() < limit:
            if not _read(output, watched, min(limit, time.monotonic() + 0.2)):
                if trace.exists():
                    return
                raise _failure(request, process, watched, "while its kernels were traced")
            now = trace.stat().st_size if trace.exists() else -1
            if now > 0 and now == size and len(watched.iterations) > 0:
                return
            size = now
    raise ProfileError("no trace: the workload must call predictor.hook.iteration() once an iteration")


def _from_trace(path: Path, rate: float) -> KernelMetrics:
    trace = read_trace(path)
    found = kernel_metrics(trace)
    if not found["launches"]:
        raise ProfileError("the traced iterations launched no kernel on a GPU")
    per_iteration = found["launches"] / TRACE_ITERATIONS
    names = ("threads", "registers", "static_shared_bytes", "mean_us", "turn_us", "blocking_us", "long_ratio")
    numbers = {name: found[name] for name in names}
    return KernelMetrics(**numbers, launches_per_s=per_iteration * rate, shapes=kernel_shapes(trace.kernels))


def _under_ncu(request: Request, environment: Mapping[str, str], log: Path, say: Callable[[str], None]) -> str:
    """Run the command under Nsight Compute, which ends it after some hundred launches, and return its raw page."""
    if shutil.which("ncu") is None:
        raise ProfileError("ncu is not installed: use --kernels torch, or install Nsight Compute")
    limit = request.warm_up_s + request.seconds + NCU_S
    begun = told = time.monotonic()
    watched = _Watched(_compile(request.marker))
    with _started(replace(request, command=ncu.command(request.command, log)), environment) as (_process, output):
        while _read(output, watched, min(begun + limit, time.monotonic() + 0.5)):
            now = time.monotonic()
            if now - begun > limit:
                raise ProfileError(f"Nsight Compute took over {limit:.0f} s: use --kernels torch")
            if now - told > 5.0:
                told = now
                say(f"Nsight Compute at work for {now - begun:.0f} s")
    return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
