"""What rad-monitor costs: `python -m scripts.bench.monitor [--gpus 8] [--processes 64] [--seconds 60] [--json]`.

Starts the monitor's own loop and page in a process of its own, at the default pace, reads the page
once every five seconds as Prometheus would, and prints processor time over wall time and the peak of resident memory.
Some questions are asked once a minute, so 60 seconds or a multiple of it are measured; the jobs are an hour old.
With several numbers of GPUs (`--gpus 1,2,4`) as many monitors run side by side, each over the first ones: what one more
GPU costs follows, and what eight would.

By default the GPUs are a stand-in whose answers are made up: that leaves out the driver's own part. Processes are
real ones that sleep, so /proc is read in earnest. With --backend auto, gpm, nvml or dcgm the machine's GPUs are looked
at instead, and with --load the processes are on them, each with a context of CUDA's, memory and a little work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from predictor.nvml import load
from scripts.bench.nvml_calls import measure as measure_calls
from scripts.bench.standin_nvml import Device, StandInNvml
from slurm_hooks.config import Config, Monitor, MonitorBackend, Node
from slurm_hooks.monitor import counters, prometheus
from slurm_hooks.monitor.choose import choose
from slurm_hooks.monitor.counters import Account
from slurm_hooks.monitor.main import Daemon
from slurm_hooks.monitor.metrics import Backend
from slurm_hooks.monitor.nvml import NvmlBackend
from slurm_hooks.monitor.server import Page
from slurm_hooks.node import state

STAND_IN = "stand-in"
READ_EVERY_S = 5.0
CALLS_LOOKS = 15
# Young jobs are looked at in each look: a minute of every job's life, and no part of what the monitor costs for long.
JOB_AGE_S = 3600.0
# Between the starts of monitors that run side by side, so that they do not look at the same moment.
APART_S = 0.23
GPUS_OF_THE_TARGET = 8
LOAD_DEADLINE_S = 180.0
# By the driver's library alone: a framework's start would take longer than the measurement.
LOAD = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
def do(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code:
        sys.exit(f"{name}: error {code}")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
size = ctypes.c_size_t(256 << 20)
do("cuInit", 0)
do("cuDeviceGet", ctypes.byref(device), int(sys.argv[1]))
do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
do("cuCtxSetCurrent", context)
do("cuMemAlloc_v2", ctypes.byref(memory), size)
print("ready", flush=True)
while True:
    do("cuMemsetD8_v2", memory, ctypes.c_ubyte(1), size)
    do("cuCtxSynchronize")
    time.sleep(0.2)
"""
_PERCENT = {"busy": 95.0, "smact": 60.0, "smocc": 30.0, "tensor": 10.0, "dram": 40.0}


def stand_in(gpus: int, pids: list[int]) -> Backend:
    """GPUs that hold the processes in turn."""
    devices = [Device(f"GPU-{i:08d}", i, percent=dict(_PERCENT)) for i in range(gpus)]
    for place, pid in enumerate(pids):
        devices[place % gpus].clients[pid] = 5000.0
    return NvmlBackend(gpm=True, nvml=StandInNvml(*devices))


class FirstGpus:
    """NVML with a part of its GPUs.

    Args:
        nvml: the ``pynvml`` module, or a stand-in with its functions.
        count: how many it shows.
    """

    def __init__(self, nvml: Any, count: int) -> None:
        self._nvml = nvml
        self._count = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nvml, name)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        """How many GPUs there are to see."""
        return min(self._count, int(self._nvml.nvmlDeviceGetCount()))


@dataclass(frozen=True)
class Task:
    """What one monitor is to look at.

    Attributes:
        backend: `STAND_IN`, or a name of [monitor] backend.
        gpus: how many of the GPUs, or None for all.
        pids: processes that the stand-in shows, and how many jobs there are.
        delay_s: time to wait before the start.
    """

    backend: str
    gpus: int | None
    pids: tuple[int, ...]
    settle_s: float
    seconds: float
    delay_s: float = 0.0


def look_on(task: Task) -> dict[str, Any]:
    """Run one monitor; for a process of its own."""
    time.sleep(task.delay_s)
    # In memory, as /run is.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        settings = Monitor(port=0, backend=_backend(task.backend))  # port 0: any that is free
        config = Config(monitor=settings, node=Node(state_dir=f"{folder}/jobs"))
        note_jobs(config, len(task.pids))
        if task.backend == STAND_IN:
            backend = stand_in(task.gpus or GPUS_OF_THE_TARGET, list(task.pids))
        else:
            backend = choose(settings, None if task.gpus is None else FirstGpus(load(), task.gpus))
        name = STAND_IN if task.backend == STAND_IN else backend.name
        return {"backend": name, **asyncio.run(measure(config, backend, task.settle_s, task.seconds))}


def _backend(name: str) -> MonitorBackend:
    return next((known for known in get_args(MonitorBackend) if known == name), "auto")


def side_by_side(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """Run monitors at the same time, each in a process of its own that has loaded nothing else."""
    with ProcessPoolExecutor(len(tasks), multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(look_on, tasks))


def extrapolated(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A straight line through what the monitors cost, and what it gives for the target's number of GPUs."""
    xs, ys = [result["gpus"] for result in results], [result["core_percent"] for result in results]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    at = mean_y + slope * (GPUS_OF_THE_TARGET - mean_x)
    return {"core_percent_a_gpu": round(slope, 4), f"core_percent_at_{GPUS_OF_THE_TARGET}_gpus": round(at, 3)}


def peak_mib() -> float:
    """This process's peak of resident memory."""
    line = next(each for each in Path("/proc/self/status").read_text("ascii").splitlines() if each.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def scrape(port: int) -> None:
    """Read the page as cheaply as can be: what the reader does with it is not the monitor's cost."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    await reader.read()
    writer.close()


def start_load(gpus: int, count: int) -> list[subprocess.Popen[str]]:
    """Processes on the machine's GPUs in turn, each of a job of its own; returns when all have memory there.

    Raises:
        RuntimeError: if one does not come so far.
    """
    started = [
        subprocess.Popen(
            [sys.executable, "-c", LOAD, str(place % gpus)],
            env={**os.environ, "SLURM_JOB_ID": str(1000 + place)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in range(count)
    ]
    end = time.monotonic() + LOAD_DEADLINE_S
    for process in started:
        said = process.stdout.readline() if process.stdout and time.monotonic() < end else ""
        if said.strip() != "ready":
            why = process.stderr.read() if process.stderr and process.poll() is not None else "no answer"
            end_all(started)
            raise RuntimeError(f"a process on a GPU does not start: {why.strip()}")
    return started


def end_all(started: list[subprocess.Popen[str]]) -> None:
    """End processes."""
    for process in started:
        process.kill()
    for process in started:
        process.communicate()


async def measure(config: Config, backend: Backend, settle_s: float, seconds: float) -> dict[str, Any]:
    """Run the monitor for some seconds, after it has run for `settle_s`: what is new is looked at more closely."""
    daemon = Daemon(config, lambda: backend)
    server = await Page(config.monitor, lambda: prometheus.render(daemon.sampler.view(), "bench")).start()
    port = server.sockets[0].getsockname()[1]
    looking = asyncio.create_task(daemon.run())
    await asyncio.sleep(settle_s)
    begin, used = time.monotonic(), time.process_time()
    while time.monotonic() < begin + seconds:
        await asyncio.sleep(min(READ_EVERY_S, begin + seconds - time.monotonic()))
        await scrape(port)
    used, wall = time.process_time() - used, time.monotonic() - begin
    looking.cancel()
    server.close()
    view = daemon.sampler.view()
    return {
        "gpus": len(view.gpus),
        "jobs": len(view.jobs),
        "processes": sum(part.processes for job in view.jobs for part in job.gpus),
        "looks": view.looks,
        "seconds": round(wall, 1),
        "core_percent": round(100 * used / wall, 3),
        "peak_mib": round(peak_mib(), 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What rad-monitor costs")
    parser.add_argument("--gpus", type=_numbers, default=(), help="how many GPUs, by default 8 of the stand-in or all")
    parser.add_argument("--processes", type=int, default=64, help="processes, each of a job of its own")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=20.0, help="seconds to run before measuring")
    parser.add_argument("--backend", choices=(STAND_IN, *get_args(MonitorBackend)), default=STAND_IN)
    parser.add_argument("--load", action="store_true", help="start the processes on the machine's GPUs")
    parser.add_argument("--calls", action="store_true", help="then count NVML's calls too, for 15 looks")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    stands_in = options.backend == STAND_IN
    if (options.load or options.calls) and stands_in:
        parser.error("--load and --calls need the machine's GPUs: name a --backend")
    if options.gpus and options.backend == "dcgm":
        parser.error("--gpus: DCGM always looks at all")
    started: list[subprocess.Popen[str]] = []
    calls: dict[str, Any] = {}
    try:
        if stands_in:
            for place in range(options.processes):
                job = {"SLURM_JOB_ID": str(1000 + place)}
                started.append(subprocess.Popen(["sleep", "3600"], env=job, text=True))
        elif options.load:
            nvml = load()
            nvml.nvmlInit()
            count = int(nvml.nvmlDeviceGetCount())
            nvml.nvmlShutdown()
            started = start_load(min(count, max(options.gpus, default=count)), options.processes)
        pids = tuple(process.pid for process in started)
        most = max(options.gpus, default=None)
        results = side_by_side(
            [
                Task(
                    options.backend,
                    gpus,
                    # So that the stand-in's GPUs hold as many processes each, whatever their number.
                    pids[: len(pids) * (gpus or 1) // (most or 1)] if stands_in else pids,
                    options.settle,
                    options.seconds,
                    APART_S * place,
                )
                for place, gpus in enumerate(options.gpus or (None,))
            ]
        )
        if options.calls:
            calls = {"nvml": measure_calls(load(), CALLS_LOOKS, Monitor().interval_s)}
    finally:
        end_all(started)
    result = dict(max(results, key=lambda each: int(each["gpus"])))
    if len(results) > 1:
        result |= {**extrapolated(results), "monitors": results}
    if options.json:
        print(json.dumps(result | calls))
    else:
        print("\n".join(f"{key:<24}{value}" for key, value in (result | calls).items()))


def _numbers(text: str) -> tuple[int, ...]:
    """Numbers of GPUs, by commas.

    Raises:
        argparse.ArgumentTypeError: if one is none, or stands there twice.
    """
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts) or len({int(part) for part in parts}) < len(parts):
        raise argparse.ArgumentTypeError(f"{text!r}: numbers of GPUs such as 1,2,4")
    return tuple(int(part) for part in parts)


def note_jobs(config: Config, count: int) -> None:
    """What Prolog would have noted, so that the processes' environments count, and what was counted of them so far."""
    folder = state.folder(config.node.state_dir)
    for place in range(count):
        job = 1000 + place
        state.write(f"{folder}/{job}.json", {"uid": os.geteuid(), "restart": 0})
        counters.write(folder, job, Account(seconds=JOB_AGE_S))


if __name__ == "__main__":
    main()
