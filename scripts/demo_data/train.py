"""The payload of the demonstration's jobs: a training on a GPU where there is one, else a stand-in that says so.

Usage: train.py NAME SECONDS GIB. With a GPU and PyTorch, it trains a small network for SECONDS and holds GIB GiB of
GPU memory meanwhile. Without, it waits; where NAME is `greedy` it prints in its first run what PyTorch prints when
memory runs out, and fails as PyTorch would.
"""

from __future__ import annotations

import os
import sys
import time

GIB = 1024**3
FLOATS_PER_GIB = GIB // 4
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. (this is the demonstration's stand-in)"
)


def main() -> int:
    """Run the payload; returns the exit status."""
    name, seconds, gib = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    share = os.environ.get("SLURM_JOB_GPUS", "?")
    print(
        f"{name}: run {os.environ.get('SLURM_RESTART_COUNT', '0')} on GPU {share} of {os.uname().nodename}", flush=True
    )
    try:
        import torch  # noqa: PLC0415  (the demonstration's own environment has none)

        on_gpu = torch.cuda.is_available()
    except ImportError:
        on_gpu = False
    if on_gpu:
        return _train(name, seconds, gib)
    return _stand_in(name, seconds)


def _stand_in(name: str, seconds: float) -> int:
    print("no GPU with PyTorch here: this payload is a stand-in, it trains nothing", flush=True)
    if name == "greedy" and os.environ.get("SLURM_RESTART_COUNT", "0") == "0":
        time.sleep(1)
        print(OUT_OF_MEMORY, flush=True)
        return 1
    time.sleep(seconds)
    print(f"{name}: done", flush=True)
    return 0


def _train(name: str, seconds: float, gib: int) -> int:
    import torch  # noqa: PLC0415

    held = [torch.zeros(FLOATS_PER_GIB, device="cuda") for _ in range(gib)]
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    end, steps = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
    print(f"{name}: {steps} steps with {len(held)} GiB held, loss {loss.item():.3f}: done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
