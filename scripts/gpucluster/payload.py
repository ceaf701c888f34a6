"""What the scenarios' jobs run: small trainings and an inference loop on a GPU, each step timed.

Usage: payload.py NAME MODEL (--seconds S | --steps N | --until FILE) [--hold GIB] [--batch N]
[--fault KIND]. MODEL is cnn, transformer, mlp, resnet50, infer (the transformer without training), or matmul (large
matrix products, many of them in a step). Prints one line ``RESULT {json}`` at its end. Without a GPU or
PyTorch it waits instead, says so, and the job named greedy fails in its first run with PyTorch's words: that is for
rehearsing on a machine without GPUs, and its results say `stand_in`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GIB = 1024**3
DRIVER = Path("/dev/nvidiactl")
WARM_STEPS = 10
STAND_IN_STEP_S = 0.01
MATMULS = 20  # so many that a signal comes in the middle of them
SLICE_S = 0.25
FAULTS = {"assert": "device-side assert triggered", "address": "an illegal memory access was encountered"}
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. (stand-in without a GPU)"


def main() -> int:
    """Run the payload; returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("model", choices=("cnn", "transformer", "mlp", "resnet50", "infer", "matmul"))
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--until", default="", metavar="FILE", help="step until there is such a file")
    parser.add_argument("--hold", type=float, default=0.0, metavar="GIB")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--fault", choices=tuple(FAULTS), help="what the GPU is made to stumble over at the end")
    args = parser.parse_args()
    run = os.environ.get("SLURM_RESTART_COUNT", "0")
    shown = {key: value for key, value in sorted(os.environ.items()) if key.startswith(("CUDA_", "RAD_"))}
    print(f"{args.name}: run {run}, {json.dumps(shown)}", flush=True)
    begin = time.time()
    ready = DRIVER.exists()  # without it PyTorch need not be loaded, which takes seconds
    if ready:
        try:
            import torch  # noqa: PLC0415

            ready = torch.cuda.is_available()
        except ImportError:
            ready = False
    if not ready:
        print("no GPU with PyTorch here: this payload waits and trains nothing", flush=True)
        step: Callable[[], None] = lambda: time.sleep(STAND_IN_STEP_S)  # noqa: E731
        if args.name == "greedy" and run == "0":
            time.sleep(1)
            print(OUT_OF_MEMORY, flush=True)
            return 1
    else:
        torch.manual_seed(0)
        step = _step(torch, args.model, args.batch)
    result = _loop(step, _going_on(args), lambda: _hold(torch, args.hold) if ready else None)
    result |= {"name": args.name, "model": args.model, "run": int(run), "process_begin": begin, "stand_in": not ready}
    if ready:
        result["allocated_mib"] = torch.cuda.max_memory_allocated() / 2**20
        result["reserved_mib"] = torch.cuda.max_memory_reserved() / 2**20
        result["multiprocessors"] = torch.cuda.get_device_properties(0).multi_processor_count
    print(f"RESULT {json.dumps(result)}", flush=True)
    if args.fault:
        print(f"FAULT at {time.time():.3f}", flush=True)
        if not ready:
            print(f"torch.AcceleratorError: CUDA error: {FAULTS[args.fault]} (stand-in without a GPU)", flush=True)
            return 1
        _fault(torch, args.fault)
    return 0


def _fault(torch: Any, kind: str) -> None:
    """Make a kernel of this process fail: by an assertion of its own, or at an address that is nobody's."""
    if kind == "assert":
        torch.zeros(4, device="cuda")[torch.tensor([1 << 20], device="cuda")].cpu()
    else:
        import cupy  # noqa: PLC0415

        kernel = cupy.RawKernel('extern "C" __global__ void f(long long p) { *(volatile int*)p = 1; }', "f")
        kernel((1,), (1,), (16,))
    torch.cuda.synchronize()


def _hold(torch: Any, gib: float) -> list[Any]:
    """Take memory a GiB at a time, as a training that grows would."""
    held = []
    while gib > 0:
        held.append(torch.zeros(int(min(gib, 1.0) * GIB) // 4, device="cuda"))
        torch.cuda.synchronize()
        gib -= 1.0
    return held


def _going_on(args: argparse.Namespace) -> Callable[[int, float], bool]:
    """Whether to take another step after so many steps and seconds."""
    if args.until:
        stop = Path(args.until)
        return lambda _steps, _seconds: not stop.exists()
    if args.steps:
        return lambda steps, _seconds: bool(steps < args.steps)
    return lambda _steps, seconds: bool(seconds < args.seconds)


def _loop(step: Callable[[], None], going_on: Callable[[int, float], bool], hold: Callable[[], Any]) -> dict[str, Any]:
    for _ in range(WARM_STEPS):
        step()
    held = hold()
    begin = last = time.time()
    print(f"first step at {begin:.3f}", flush=True)
    gaps: list[float] = []
    longest, longest_at = 0.0, begin
    while going_on(len(gaps), last - begin):
        step()
        now = time.time()
        gaps.append(now - last)
        if gaps[-1] > longest:
            longest, longest_at = gaps[-1], now
        last = now
    ordered = sorted(gaps)
    del held
    by_slice = [0] * (int((last - begin) / SLICE_S) + 1)
    at = 0.0
    for gap in gaps:
        at += gap
        by_slice[min(int(at / SLICE_S), len(by_slice) - 1)] += 1
    return {
        "slice_s": SLICE_S,
        "steps_by_slice": by_slice[:-1],
        "begin": begin,
        "end": last,
        "seconds": last - begin,
        "steps": len(gaps),
        "median_step_ms": 1e3 * ordered[len(ordered) // 2],
        "longest_step_ms": 1e3 * ordered[-1],
        "longest_step_at": longest_at,
    }


def _step(torch: Any, kind: str, batch: int) -> Callable[[], None]:
    """One step of a workload, ended when the GPU has done it."""
    if kind == "matmul":
        square = torch.randn(8192, 8192, device="cuda")

        def multiply() -> None:
            for _ in range(MATMULS):
                square @ square
            torch.cuda.synchronize()

        return multiply
    nn = torch.nn
    if kind == "cnn":
        layers: list[Any] = []
        for before, after in ((3, 32), (32, 64), (64, 128), (128, 128)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100))
        data = torch.randn(batch, 3, 64, 64, device="cuda")
    elif kind == "mlp":
        model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
        data = torch.randn(batch, 1024, device="cuda")
    elif kind == "resnet50":
        from torchvision.models import resnet50  # noqa: PLC0415

        model = resnet50()
        data = torch.randn(batch, 3, 224, 224, device="cuda")
    else:
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
        model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        data = torch.randn(batch, 128, 512, device="cuda")
    model = model.cuda()
    if kind == "infer":
        model.eval()

        def infer() -> None:
            with torch.inference_mode():
                model(data)
            torch.cuda.synchronize()

        return infer
    optimizer = torch.optim.Adam(model.parameters())

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(data).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()

    return train


if __name__ == "__main__":
    sys.exit(main())
