"""What rad-monitor costs: `python -m scripts.bench.monitor [--gpus 8] [--processes 64] [--seconds 60] [--json]`.

Starts the monitor's own loop and page in a process of its own, at the default pace, reads the page
once every five seconds as Prometheus would, and prints processor time over wall time and the peak of resident memory.

By default the GPUs are a stand-in whose answers are made up: that leaves out the driver's own part. Processes are
real ones that sleep, so /proc is read in earnest. With --backend auto, gpm, nvml or dcgm the machine's GPUs are looked
at instead, and with --load the processes are on them, each with a context of CUDA's, memory and a little work.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any, get_args

from predictor.nvml import load
from scripts.bench.nvml_calls import measure as measure_calls
from scripts.bench.standin_nvml import Device, StandInNvml
from slurm_hooks.config import Config, Monitor, MonitorBackend, Node
from slurm_hooks.monitor import prometheus
from slurm_hooks.monitor.choose import choose
from slurm_hooks.monitor.main import Daemon
from slurm_hooks.monitor.metrics import Backend
from slurm_hooks.monitor.nvml import NvmlBackend
from slurm_hooks.monitor.server import Page
from slurm_hooks.node import state

STAND_IN = "stand-in"
READ_EVERY_S = 5.0
CALLS_LOOKS = 15
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
    """Run the monitor for some seconds, after it has run for `settle_s`: young jobs are written oftener."""
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
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What rad-monitor costs")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of the stand-in")
    parser.add_argument("--processes", type=int, default=64, help="processes, each of a job of its own")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=60.0, help="seconds to run before measuring")
    parser.add_argument("--backend", choices=(STAND_IN, *get_args(MonitorBackend)), default=STAND_IN)
    parser.add_argument("--load", action="store_true", help="start the processes on the machine's GPUs")
    parser.add_argument("--calls", action="store_true", help="then count NVML's calls too, for 15 looks")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    stands_in = options.backend == STAND_IN
    if (options.load or options.calls) and stands_in:
        parser.error("--load and --calls need the machine's GPUs: name a --backend")
    # In memory, as /run is.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        # Port 0: any that is free.
        settings = Monitor(port=0, backend="auto" if stands_in else options.backend)
        config = Config(monitor=settings, node=Node(state_dir=f"{folder}/jobs"))
        started: list[subprocess.Popen[str]] = []
        calls: dict[str, Any] = {}
        try:
            if stands_in:
                for place in range(options.processes):
                    job = {"SLURM_JOB_ID": str(1000 + place)}
                    started.append(subprocess.Popen(["sleep", "3600"], env=job, text=True))
                backend = stand_in(options.gpus, [process.pid for process in started])
            else:
                backend = choose(settings)
                if options.load:
                    started = start_load(len(backend.read()), options.processes)
            _note_jobs(config, len(started))
            result = {
                "backend": options.backend if stands_in else backend.name,
                **asyncio.run(measure(config, backend, options.settle, options.seconds)),
            }
            if options.calls:
                calls = {"nvml": measure_calls(load(), CALLS_LOOKS, settings.interval_s)}
        finally:
            end_all(started)
    if options.json:
        print(json.dumps(result | calls))
    else:
        print("\n".join(f"{key:<14}{value}" for key, value in (result | calls).items()))


def _note_jobs(config: Config, count: int) -> None:
    """What Prolog would have noted, so that the processes' environments count."""
    folder = state.folder(config.node.state_dir)
    for place in range(count):
        state.write(f"{folder}/{1000 + place}.json", {"uid": os.geteuid(), "restart": 0})


if __name__ == "__main__":
    main()
