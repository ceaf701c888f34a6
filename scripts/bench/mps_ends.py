"""What the end of a client in the middle of its kernels does to its neighbours: `python -m scripts.bench.mps_ends`.

Jobs that share a GPU end while others run: by themselves, by a fault of their own, by `scancel`, at their time limit.
Here a few clients of an MPS server work and end, one after another, beside two others that are watched: for each way to
end it counts how many ends broke these. A broken server is replaced. No Slurm and no RAD take part. Whoever runs it
needs PyTorch, MPS and a GPU that nobody else uses; each way takes `--seconds`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.mps import SERVER, Daemon, Facts, Process

AFTER_S = 0.5  # how long the watched clients are looked at after each end
READY_S = 60.0
LOOK_S = 0.01
# What a client does: a training of a small convolutional network, or kernels alone, which take no PyTorch and a tenth
# of the time to begin. `begin` gives two functions: one queues some milliseconds of kernels, one waits for them.
WORK = {
    "training": r"""
import torch
def begin():
    net = torch.nn.Sequential(*[part for _ in range(4) for part in (
        torch.nn.LazyConv2d(128, 3, padding=1), torch.nn.LazyBatchNorm2d(), torch.nn.ReLU())]).to("cuda")
    x = torch.randn(64, 3, 64, 64, device="cuda")
    net(x)
    adam = torch.optim.Adam(net.parameters())
    def launch():
        adam.zero_grad()
        net(x).square().mean().backward()
        adam.step()
    return launch, torch.cuda.synchronize
""",
    "kernels": r"""
import ctypes
PTX = b'''
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 data, .param .u32 rounds)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [data];
    ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %d2, %r5, 4;
    add.s64 %d1, %d1, %d2;
AGAIN:
    ld.volatile.global.u32 %r2, [%d1];
    add.u32 %r2, %r2, 1;
    st.volatile.global.u32 [%d1], %r2;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p, %r1, 0;
    @%p bra AGAIN;
    ret;
}'''
BLOCKS, THREADS, ROUNDS = 1 << 16, 256, 64
def begin():
    cuda = ctypes.CDLL("libcuda.so.1")
    def call(name, *values):
        if status := getattr(cuda, name)(*values):
            raise RuntimeError(f"{name}: CUDA error {status}")
    device, context, module, add = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    data, rounds = ctypes.c_uint64(), ctypes.c_uint32(ROUNDS)
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(add), module, b"add")
    call("cuMemAlloc_v2", ctypes.byref(data), ctypes.c_size_t(4 * BLOCKS * THREADS))
    values = (ctypes.c_void_p * 2)(ctypes.addressof(data), ctypes.addressof(rounds))
    def launch(kept=(data, rounds)):
        call("cuLaunchKernel", add, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, values, None)
    return launch, lambda: call("cuCtxSynchronize")
""",
}
# A client that waits for each of its steps and tells of them.
WATCHED = r"""
import json, sys, time
def say(**facts): print(json.dumps({"t": time.time(), **facts}), flush=True)
exec(sys.argv[1])
try:
    launch, wait = begin()
    while True:
        launch()
        wait()
        say(step=True)
        time.sleep(0.02)
except Exception as error:
    say(error=str(error).splitlines()[0])
    sys.exit(1)
"""
# Starts clients one after another, each when the one before has ended, and tells of them. It forks before CUDA is
# touched, so that Python and PyTorch are loaded once.
BREEDER = r"""
import json, os, signal, sys
way = sys.argv[1]
exec(sys.argv[2])
told = []

def work(ready):
    signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
    launch, wait = begin()
    for _ in range(3):
        launch()
    wait()
    os.write(ready, b"r")
    turn = 0
    while not told:
        launch()
        turn += 1
        if turn % 32 == 0:  # or it would take most of a minute to wait for all
            wait()
    if way == "waits":
        wait()
    if way == "fails":
        raise RuntimeError("a fault in the user's code")

while True:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        work(write)
        sys.exit()
    os.close(write)
    if os.read(read, 1):
        print(json.dumps({"ready": child}), flush=True)
    os.close(read)
    print(json.dumps({"ended": child, "status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}), flush=True)
"""


class Scene:
    """A daemon, the watched clients, and those that end."""

    def __init__(self, way: str, work: str, clients: int, *, served: bool) -> None:
        self.daemon = Daemon("ends", start=served)
        self.watched = [self._process(f"watched-{n}", WATCHED, WORK["kernels"]) for n in range(2)]
        self._wait(lambda: all("step" in str(each.lines()[-1:]) for each in self.watched))
        self.breeders = [self._process(f"breeder-{n}", BREEDER, way, WORK[work]) for n in range(clients)]

    def _process(self, name: str, *arguments: str) -> Process:
        return Process(self.daemon.folder, name, arguments)

    def _wait(self, true: Callable[[], object], seconds: float = READY_S) -> bool:
        end = time.monotonic() + seconds
        while not (held := bool(true())) and time.monotonic() < end:
            time.sleep(LOOK_S)
        return held

    def ready(self, breeder: Process) -> int | None:
        """Wait for a client that works; its number, or None where none came."""
        return breeder.lines()[-1]["ready"] if self._wait(lambda: "ready" in str(breeder.lines()[-1:])) else None

    def ended(self, breeder: Process, client: int) -> bool:
        """Wait for a client's end."""
        return self._wait(lambda: any(line.get("ended") == client for line in breeder.lines()))

    def broken(self) -> list[str]:
        """What the watched clients met by now."""
        return [str(line["error"]) for each in self.watched for line in each.lines() if "error" in line]

    def stepping(self, since: float) -> bool:
        """Whether both watched clients have stepped since a moment in Unix seconds."""
        return all(line.get("step") and line["t"] > since for each in self.watched for line in each.lines()[-1:])

    def survives(self) -> bool:
        """Whether the watched clients go on, some time after an end."""
        at = time.time()
        return not self._wait(self.broken, AFTER_S) and self._wait(lambda: self.stepping(at), READY_S)

    def close(self) -> None:
        """End all of it."""
        for process in (*self.breeders, *self.watched):
            process.kill()
        self.daemon.close()


def _told(number: int) -> Callable[[Scene, int], None]:
    return lambda _, client: os.kill(client, number)


def _taken_off(seconds: float) -> Callable[[Scene, int], None]:
    """The order that NVIDIA asks for: the server gives the client up, and then, or some time later, it is killed."""

    def tell(scene: Scene, client: int) -> None:
        for server in scene.daemon.pids(SERVER):
            scene.daemon.ask(f"terminate_client {server} {client}")
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(client, signal.SIGKILL)

    return tell


# How a client ends: what it does when it is told, how it is told, and whether it is one of an MPS server.
WAYS: dict[str, tuple[str, Callable[[Scene, int], None], bool]] = {
    "waits for its kernels and exits": ("waits", _told(signal.SIGUSR1), True),
    "exits with kernels queued": ("exits", _told(signal.SIGUSR1), True),
    "fails with kernels queued": ("fails", _told(signal.SIGUSR1), True),
    "SIGTERM": ("exits", _told(signal.SIGTERM), True),
    "SIGKILL": ("exits", _told(signal.SIGKILL), True),
    "terminate_client, then SIGKILL": ("exits", _taken_off(0), True),
    "terminate_client, SIGKILL 1 s later": ("exits", _taken_off(1), True),
    "SIGKILL, without MPS": ("exits", _told(signal.SIGKILL), False),
}


@contextlib.contextmanager
def _scene(way: str, work: str, clients: int, *, served: bool) -> Iterator[Scene]:
    scene = Scene(way, work, clients, served=served)
    try:
        yield scene
    finally:
        scene.close()


def measure(name: str, work: str, clients: int, seconds: float) -> Facts:
    """End clients in one way, one after another, for so long.

    Returns:
        ends, how many of them broke the watched ones, what these met, and what the last broken server wrote.
    """
    way, tell, served = WAYS[name]
    until, ends, broke = time.monotonic() + seconds, 0, 0
    met: list[str] = []
    log, chance = "", random.Random(0)  # noqa: S311 - no secret
    while time.monotonic() < until:
        with _scene(way, work, clients, served=served) as scene:
            turn, survived = 0, True
            while survived and time.monotonic() < until:
                breeder = scene.breeders[turn % clients]
                turn += 1
                client = scene.ready(breeder)
                if client is None:
                    met.append("a client did not begin")
                    break
                time.sleep(chance.uniform(0, 0.1))
                tell(scene, client)
                survived = scene.ended(breeder, client) and scene.survives()
                ends += 1
                broke += not survived
                if not survived:
                    met += scene.broken() or ["it stood still"]
                    log = scene.daemon.logs().get("server.log", "")
    return {"ends": ends, "broke": broke, "met": sorted(set(met)), "log": log}


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="What a client's end does to its neighbours under MPS")
    parser.add_argument("--seconds", type=float, default=20, help="for each way to end (%(default)s)")
    parser.add_argument("--clients", type=int, default=4, help="that work at the same time (%(default)s)")
    parser.add_argument("--work", choices=tuple(WORK), action="append", help="of these clients; all where not given")
    parser.add_argument("--only", default="", help="only the ways whose names hold this")
    parser.add_argument("--json", type=Path, help="write all of it there")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    print(f"{'work':<10}{'a client':<37}ends  that broke its neighbours")
    for work in options.work or tuple(WORK):
        for name in WAYS:
            if options.only not in name:
                continue
            row = found.setdefault(work, {})[name] = measure(name, work, options.clients, options.seconds)
            print(f"{work:<10}{name:<37}{row['ends']:>4}  {row['broke']}  {'; '.join(row['met'])}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
