"""Kernel metrics out of a PyTorch profiler trace (Chrome's JSON). Reads only the file it is given."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator import files
from predictor.types import MAX_SHAPES, ProfileError, Shape

LONG_US = 1000.0
MAX_TRACE_BYTES = 1 << 30
# An SM of an H100 or H200 (compute capability 9.0), and how many there are.
SMS = 132
SM_REGISTERS = 65536
SM_THREADS = 2048
SM_BLOCKS = 32
SM_SHARED_BYTES = 228 * 1024
SM_SHARED_RESERVED = 1024
REGISTER_UNIT = 8


def _volume(value: Any) -> float:
    return float(math.prod(value)) if isinstance(value, list) and value else math.nan


def read_kernels(path: Path) -> list[tuple[float, dict[str, Any]]]:
    """Duration in microseconds and arguments of every kernel launch in a trace.

    Raises:
        ProfileError: the file is no trace.
    """
    try:
        data = files.read(path, MAX_TRACE_BYTES)
        content = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        events = content["traceEvents"]
        kernels = [event for event in events if isinstance(event, dict) and event.get("cat") == "kernel"]
        return [(float(event["dur"]), dict(event["args"])) for event in kernels]
    except files.FileRefusedError as error:
        raise ProfileError(f"{error}: profile fewer iterations") from error
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        if isinstance(error, ProfileError):
            raise
        raise ProfileError(f"{path}: not a profiler trace ({type(error).__name__})") from error


def waves(blocks: float, threads: float, registers: float, shared_bytes: float) -> float:
    """How many times over a launch fills the SMs of an H100 or H200: 1 is once, all at the same time.

    Args:
        blocks: of the launch.
        threads: of a block.
        registers: of a thread.
        shared_bytes: shared memory of a block; NaN counts as none.
    """
    wanted = math.ceil(registers / REGISTER_UNIT) * REGISTER_UNIT * threads
    shared = (0.0 if math.isnan(shared_bytes) else shared_bytes) + SM_SHARED_RESERVED
    at_once = min(SM_REGISTERS / wanted, SM_THREADS / threads, SM_SHARED_BYTES / shared, SM_BLOCKS)
    return blocks / (SMS * max(math.floor(at_once), 1))


def _blocking_us(duration: float, args: Mapping[str, Any]) -> float:
    blocks, threads = _volume(args.get("grid")), _volume(args.get("block"))
    registers = float(args.get("registers per thread", math.nan))
    if math.isnan(blocks + threads + registers) or min(blocks, threads, registers) <= 0.0:
        return math.nan
    filled = waves(blocks, threads, registers, float(args.get("shared memory", math.nan)))
    return duration * filled / (1.0 + filled)


def kernel_shapes(rows: list[tuple[float, dict[str, Any]]]) -> tuple[Shape, ...]:
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


def kernel_metrics(rows: list[tuple[float, dict[str, Any]]]) -> dict[str, float]:
    """Metrics of all kernel launches, weighted by duration where that has a meaning.

    Returns:
        ``launches``, ``busy_us`` (sum of durations), ``mean_us``, ``long_ratio`` (launches over a millisecond
        per shorter one), ``turn_us`` (mean duration as one who arrives at any moment finds it), ``blocking_us`` (mean
        duration, as far as launches fill the GPU: see :class:`predictor.types.KernelMetrics`) and, weighted by
        duration, ``threads`` and ``registers`` of a launch and ``static_shared_bytes`` of a block. Without any
        kernel, only ``launches`` = 0 and ``busy_us`` = 0.
    """
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
    blocking = [each for each in (_blocking_us(*row) for row in rows) if not math.isnan(each)]
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
