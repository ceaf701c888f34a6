"""Compares `estimator.rehearsals.allocator` with PyTorch's own allocator on a GPU: random tensors come and go in both.

Needs torch and a CUDA GPU. Prints, for each kind of sizes, after how many requests both said the same, to the byte, of
what is used and what is held.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from typing import Any, Final

import torch

from estimator.rehearsals.allocator import Allocator

_KIB: Final = 2**10
_MIB: Final = 2**20
SIZES: Final[dict[str, Callable[[random.Random], int]]] = {
    "small": lambda rng: rng.randint(1, 2 * _MIB),
    "large": lambda rng: rng.randint(_MIB, 64 * _MIB),
    "of a training": lambda rng: int(_KIB * 2 ** rng.uniform(-1, 18)),
}


def agreed(size: Callable[[random.Random], int], rng: random.Random, requests: int) -> int:
    """Count the requests after which both say the same."""
    torch.cuda.empty_cache()
    base = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    allocator = Allocator()
    there: list[tuple[Any, Any]] = []
    found = 0
    for _ in range(requests):
        if there and rng.random() < 0.5:
            tensor, block = there.pop(rng.randrange(len(there)))
            del tensor
            allocator.give(block)
        else:
            wanted = size(rng)
            there.append((torch.empty(wanted, dtype=torch.uint8, device="cuda"), allocator.take(wanted)))
        said = torch.cuda.memory_allocated() - base[0], torch.cuda.memory_reserved() - base[1]
        found += said == (allocator.used, allocator.held)
    return found


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311 - sizes, no secret
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    for name, size in SIZES.items():
        print(f"{name}: {agreed(size, rng, options.requests)} of {options.requests} requests agree")


if __name__ == "__main__":
    main()
