"""Kernel metrics out of a PyTorch profiler trace (Chrome's JSON). Reads only the file it is given."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from estimator import files
from predictor.types import MAX_SHAPES, ProfileError, Shape

LONG_US = 1000.0
MAX_TRACE_BYTES = 1 << 30
REGISTER_UNIT = 8
# Blocks that an SM runs at once, by compute capability: CUDA C++ Programming Guide, "Compute Capabilities".
_BLOCKS: Final[Mapping[tuple[int, int], int]] = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24}

Kernels = list[tuple[float, dict[str, Any]]]


@dataclass(frozen=True)
class Gpu:
    """How many blocks of a launch a GPU runs at once. The defaults are an H100's and an H200's.

    Attributes:
        sms: streaming multiprocessors (SMs).
        registers: of an SM.
        threads: that an SM runs at once.
        blocks: that an SM runs at once.
        shared_bytes: shared memory of an SM.
        reserved_bytes: shared memory that the system takes of each block.
    """

    sms: int = 132
    registers: int = 65536
    threads: int = 2048
    blocks: int = 32
    shared_bytes: int = 228 * 1024
    reserved_bytes: int = 1024

    def waves(self, blocks: float, threads: float, registers: float, shared_bytes: float) -> float:
        """How many times over a launch fills the SMs: 1 is once, all at the same time.

        Args:
            blocks: of the launch.
            threads: of a block.
            registers: of a thread.
            shared_bytes: shared memory of a block; NaN counts as none.
        """
        wanted = math.ceil(registers / REGISTER_UNIT) * REGISTER_UNIT * threads
        shared = (0.0 if math.isnan(shared_bytes) else shared_bytes) + self.reserved_bytes
        by_shared = self.shared_bytes / shared if shared else math.inf
        at_once = min(self.registers / wanted, self.threads / threads, by_shared, self.blocks)
        return blocks / (self.sms * max(math.floor(at_once), 1))


@dataclass(frozen=True)
class Trace:
    """What a trace tells.

    Attributes:
        kernels: duration in microseconds and arguments of every kernel launch.
        gpu: that launched the first of them.
    """

    kernels: Kernels
    gpu: Gpu


def _volume(value: Any) -> float:
    return float(math.prod(value)) if isinstance(value, list) and value else math.nan


def read_trace(path: Path) -> Trace:
    """Read a trace; where it does not tell what GPU it is of, an H100 or H200 is assumed.

    Raises:
        ProfileError: the file is no trace.
    """
    try:
        content = json.loads(files.read(path, MAX_TRACE_BYTES))
        events = content["traceEvents"]
        found = [event for event in events if isinstance(event, dict) and event.get("cat") == "kernel"]
        kernels = [(float(event["dur"]), dict(event["args"])) for event in found]
    except files.FileRefusedError as error:
        raise ProfileError(f"{error}: profile fewer iterations") from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProfileError(f"{path}: not a profiler trace ({type(error).__name__})") from error
    return Trace(kernels, _gpu(content.get("deviceProperties"), kernels))


def _gpu(properties: Any, kernels: Kernels) -> Gpu:
    """The GPU of the first kernel, by the properties of devices that PyTorch's profiler writes into a trace."""
    device = kernels[0][1].get("device") if kernels else None
    try:
        of = next(each for each in properties if each["id"] == device)
        capability = int(of["computeMajor"]), int(of["computeMinor"])
        gpu = Gpu(
            sms=int(of["numSms"]),
            registers=int(of["regsPerMultiprocessor"]),
            threads=int(of["maxThreadsPerMultiprocessor"]),
            blocks=_BLOCKS.get(capability, Gpu.blocks),
            shared_bytes=int(of["sharedMemPerMultiprocessor"]),
            reserved_bytes=Gpu.reserved_bytes if capability >= (8, 0) else 0,
        )
    except (TypeError, KeyError, ValueError, OverflowError, StopIteration):
        return Gpu()
    return gpu if gpu.sms > 0 else Gpu()


def _blocking_us(gpu: Gpu, duration: float, args: Mapping[str, Any]) -> float:
    blocks, threads = _volume(args.get("grid")), _volume(args.get("block"))
    registers = float(args.get("registers per thread", math.nan))
    if math.isnan(blocks + threads + registers) or min(blocks, threads, registers) <= 0.0:
        return math.nan
    filled = gpu.waves(blocks, threads, registers, float(args.get("shared memory", math.nan)))
    return duration * filled / (1.0 + filled)


def kernel_shapes(rows: Kernels) -> tuple[Shape, ...]:
    """Launches of one shape together, the shape that takes most time first, no more than :data:`MAX_SHAPES`."""
    found: dict[tuple[float, float, float, float], list[float]] = {}
    for duration, args in rows:
        shape = (
            _volume(args.get("grid")),
            _volume(args.get("block")),
            float(args.get("registers per thread", math.nan)),
            float(args.get("shared memory", math.nan)),
        )
        found.setdefault(shape, []).append(duration)
    shapes = [Shape(*shape, float(len(each)), round(sum(each) / len(each), 2)) for shape, each in found.items()]
    return tuple(sorted(shapes, key=lambda shape: -shape.launches * shape.mean_us)[:MAX_SHAPES])


def kernel_metrics(trace: Trace) -> dict[str, float]:
    """Metrics of all kernel launches, weighted by duration where that has a meaning.

    Returns:
        ``launches``, ``busy_us`` (sum of durations), ``mean_us``, ``long_ratio`` (launches over a millisecond
        per shorter one), ``turn_us`` (mean duration as one who arrives at any moment finds it), ``blocking_us`` (mean
        duration, as far as launches fill the GPU: see :class:`predictor.types.KernelMetrics`) and, weighted by
        duration, ``threads`` and ``registers`` of a launch and ``static_shared_bytes`` of a block. Without any
        kernel, only ``launches`` = 0 and ``busy_us`` = 0.
    """
    rows = trace.kernels
    busy = sum(duration for duration, _ in rows)
    if not rows or busy <= 0:
        return {"launches": 0.0, "busy_us": 0.0}
    long = sum(1 for duration, _ in rows if duration > LONG_US)

    def weighted(values: list[float]) -> float:
        known = [(d, v) for (d, _), v in zip(rows, values, strict=True) if not math.isnan(v)]
        total = sum(d for d, _ in known)
        return sum(d * v for d, v in known) / total if total > 0 else math.nan

    threads = [_volume(args.get("grid")) * _volume(args.get("block")) for _, args in rows]
    registers = [
        count * float(args.get("registers per thread", math.nan))
        for count, (_, args) in zip(threads, rows, strict=True)
    ]
    blocking = [each for each in (_blocking_us(trace.gpu, *row) for row in rows) if not math.isnan(each)]
    shared = [float(args.get("shared memory", math.nan)) for _, args in rows]
    return {
        "launches": float(len(rows)),
        "busy_us": busy,
        "mean_us": busy / len(rows),
        "turn_us": sum(duration**2 for duration, _ in rows) / busy,
        "blocking_us": sum(blocking) / len(blocking) if blocking else math.nan,
        "long_ratio": long / max(len(rows) - long, 1),
        "threads": weighted(threads),
        "registers": weighted(registers),
        "static_shared_bytes": weighted(shared),
    }
