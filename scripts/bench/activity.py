"""One kernel, growing numbers of blocks and threads: GRACT, SMACT and SMOCC side by side.

`python -m scripts.bench.activity [--gpu 0] [--seconds 1.0] [--json]` on a machine whose GPU runs nothing else. It shows
that our counters mean what DCGM's do (figure 3.1 of the RAD-RM dissertation): a kernel of one block keeps the graphics
engine busy all the time and all but one SM idle; SMACT grows with blocks until every SM has one; SMOCC grows with the
warps on them. Beside what was measured stands what follows from the launch.

Talks to the CUDA driver (a kernel of its own, in PTX, that waits) and to NVML (GPM).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from predictor.counters import Source, nvml_counters
from predictor.types import ProfileError

WARP = 32
SETTLE_S = 0.3  # from the launch to the window, and from the window to the kernel's end
# Each thread waits until its time is over; the driver compiles this for the GPU that it finds.
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 duration)
{
    .reg .u64 %t<4>;
    .reg .pred %p<1>;
    ld.param.u64 %t0, [duration];
    mov.u64 %t1, %globaltimer;
again:
    mov.u64 %t2, %globaltimer;
    sub.u64 %t3, %t2, %t1;
    setp.lt.u64 %p0, %t3, %t0;
    @%p0 bra again;
    ret;
}
"""
_SM_COUNT, _THREADS_PER_SM, _THREADS_PER_BLOCK = 16, 39, 1


class CudaError(RuntimeError):
    """The CUDA driver refused something; the message says what."""


@dataclass(frozen=True)
class Shape:
    """What a GPU can hold at once."""

    sms: int
    threads_per_sm: int
    threads_per_block: int


@dataclass(frozen=True)
class Row:
    """One launch: what follows from it, and what was measured (0 to 1)."""

    blocks: int
    threads: int
    smact_expected: float
    smocc_expected: float
    gract: float
    smact: float
    smocc: float


class Gpu(Protocol):
    """A GPU that can be kept busy."""

    shape: Shape

    def spin(self, blocks: int, threads: int, seconds: float) -> None:
        """Start a kernel that runs for some seconds, and return at once."""

    def wait(self) -> None:
        """Wait for its end."""


class CudaGpu:
    """A GPU through the CUDA driver.

    Args:
        index: its number, in the order of the bus.

    Raises:
        CudaError: if there is no driver or no such GPU.
    """

    def __init__(self, index: int) -> None:
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError("libcuda.so.1 is not there: is an NVIDIA driver installed?") from error
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._function = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), index)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
        self._call("cuModuleGetFunction", ctypes.byref(self._function), module, ctypes.c_char_p(b"spin"))
        self.shape = Shape(
            *(self._attribute(device, which) for which in (_SM_COUNT, _THREADS_PER_SM, _THREADS_PER_BLOCK))
        )

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._cuda, name)(*arguments)
        if code != 0:
            raise CudaError(f"{name}: CUDA error {code}")

    def _attribute(self, device: ctypes.c_int, which: int) -> int:
        value = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def spin(self, blocks: int, threads: int, seconds: float) -> None:
        """Start a kernel that runs for some seconds, and return at once."""
        duration = ctypes.c_uint64(int(seconds * 1e9))
        arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(duration), ctypes.c_void_p))
        self._call("cuLaunchKernel", self._function, blocks, 1, 1, threads, 1, 1, 0, None, arguments, None)

    def wait(self) -> None:
        """Wait for its end."""
        self._call("cuCtxSynchronize")


def launches(shape: Shape) -> list[tuple[int, int]]:
    """Blocks and threads of each launch: blocks grow up to one for each SM, then threads, then both to the full."""
    few = sorted({1, shape.sms // 8, shape.sms // 4, shape.sms // 2, 3 * shape.sms // 4, shape.sms} - {0})
    threads = [n for n in (WARP, 128, 256, 512, 1024) if n <= shape.threads_per_block]
    made = [(blocks, WARP) for blocks in few] + [(shape.sms, n) for n in threads[1:]]
    full = shape.threads_per_sm // threads[-1] * shape.sms
    return made + ([(full, threads[-1])] if full > shape.sms else [])


def expected(shape: Shape, blocks: int, threads: int) -> tuple[float, float]:
    """SMACT and SMOCC that follow from a launch whose blocks all run at once, spread over the SMs."""
    warps = blocks * -(-threads // WARP)
    return min(1.0, blocks / shape.sms), min(1.0, warps / (shape.sms * shape.threads_per_sm // WARP))


def measure(gpu: Gpu, counters: Source, seconds: float, pause: Callable[[float], None] = time.sleep) -> list[Row]:
    """Run all launches, each with a window of some seconds in its middle."""
    rows = []
    for blocks, threads in launches(gpu.shape):
        gpu.spin(blocks, threads, seconds + 2 * SETTLE_S)
        pause(SETTLE_S)
        counters.start()
        pause(seconds)
        found = counters.stop()
        gpu.wait()
        smact, smocc = expected(gpu.shape, blocks, threads)
        rows.append(Row(blocks, threads, smact, smocc, found.busy, found.smact, found.smocc))
    return rows


def show(rows: Sequence[Row]) -> str:
    """The rows as a table, activities in percent."""
    heads = ("blocks", "threads", "GRACT", "SMACT", "follows", "SMOCC", "follows")
    lines = ["".join(f"{head:>9}" for head in heads)]
    for row in rows:
        values = (row.gract, row.smact, row.smact_expected, row.smocc, row.smocc_expected)
        lines.append(f"{row.blocks:>9}{row.threads:>9}" + "".join(f"{100 * value:>9.1f}" for value in values))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="GRACT, SMACT and SMOCC of one kernel of growing size")
    parser.add_argument("--gpu", type=int, default=0, help="number of the GPU, in the order of the bus")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each window")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    try:
        with nvml_counters(options.gpu) as counters:
            rows = measure(CudaGpu(options.gpu), counters, options.seconds)
    except (CudaError, ProfileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps([asdict(row) for row in rows]) if options.json else show(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
