"""What a method costs a process that does nothing else: time to load, memory, time of an estimate.

Run as ``python -m estimator.footprint METHOD REPEAT [MODELS_DIR]``, in a process of its own, with a summary on standard
input; writes JSON to standard output. Touches the folder of models, the clock and ``/proc/self/status``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from estimator.types import Method

WITH_TORCH = "gpumemnet with torch"
_WARM_UP = 3
_BATCH = 64
_TIMEOUT_S = 300


@dataclass(frozen=True)
class Footprint:
    """What a method costs.

    Attributes:
        method: its name.
        load_s: time to import it, to read its model and to make the first estimate, in seconds.
        memory_mib: the most memory of its process, interpreter included, in MiB.
        p50_us, p99_us: time of an estimate from a summary's text, in microseconds.
    """

    method: str
    load_s: float
    memory_mib: float
    p50_us: float
    p99_us: float


def measure(method: str, summary: str, repeat: int, models_dir: Path) -> Footprint | None:
    """Measure a method in a process of its own; None where it needs torch and there is none.

    Raises:
        ValueError: the process failed; the message is its last line.
    """
    if method == WITH_TORCH and find_spec("torch") is None:
        return None
    command = [sys.executable, "-m", "estimator.footprint", method, str(repeat), str(models_dir)]
    done = subprocess.run(command, input=summary, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ValueError(f"{method} could not be measured: {(done.stderr.splitlines() or ['no reason given'])[-1]}")
    return Footprint(**json.loads(done.stdout))


def main(arguments: list[str]) -> int:
    """Load a method, estimate, and tell what that took."""
    name, repeat = arguments[0], int(arguments[1])
    models_dir = Path(arguments[2]) if len(arguments) > 2 else None
    text = sys.stdin.read()
    begin = time.perf_counter()
    method = _load(name, models_dir)
    _estimate(method, text)
    loaded = time.perf_counter() - begin
    times = []
    for _ in range(repeat + _WARM_UP):
        begin_ns = time.perf_counter_ns()
        _estimate(method, text)
        times.append((time.perf_counter_ns() - begin_ns) / 1000)
    times = sorted(times[_WARM_UP:])
    p50, p99 = (round(times[min(int(share * len(times)), len(times) - 1)], 1) for share in (0.5, 0.99))
    sys.stdout.write(json.dumps(asdict(Footprint(name, round(loaded, 3), _peak_mib(), p50, p99))) + "\n")
    return 0


def _load(name: str, models_dir: Path | None) -> Method:
    if name == WITH_TORCH:
        from estimator.gpumemnet.with_torch import GpuMemNetWithTorch  # noqa: PLC0415

        return GpuMemNetWithTorch.load(models_dir)
    from estimator.methods import load_method  # noqa: PLC0415

    return load_method(name, models_dir)


def _estimate(method: Method, text: str) -> None:
    from estimator.parsers import parse_summary  # noqa: PLC0415
    from estimator.types import Workload  # noqa: PLC0415

    method.predict(parse_summary(text), Workload(_BATCH))


def _peak_mib() -> float:
    """The most memory that this process has had in RAM, without what its parent had before it."""
    status = Path("/proc/self/status").read_text("ascii")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return round(kib / 1024, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
