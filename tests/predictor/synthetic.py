"""Colocations made by a law of our own: turn-taking with noise, so that tests know what the truth is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

from predictor.artifact import Colocation, Side
from predictor.types import KernelMetrics, Profile


def profile(name: str = "w", busy: float = 0.5, threads: float = 1e5, **more: float) -> Profile:
    kernel = KernelMetrics(
        threads=threads,
        registers=40 * threads,
        static_shared_bytes=1000.0 + threads**0.5,
        sm_throughput=0.3 + 0.4 * busy,
        dram_throughput=0.2,
        memory_throughput=0.4,
        turn_us=threads**0.5,
        mean_us=threads**0.5,
        blocking_us=0.7 * threads**0.5,
    )
    values = {"smact": busy, "smocc": busy / 2, "tensor": 0.1, "dram": busy / 3, "pcie": 0.01}
    values |= {"memory_mib": 1000.0 + threads**0.5, "throughput": 100.0, "busy": busy, **more}
    return Profile(**values, kernel=kernel, name=name)  # type: ignore[arg-type]


def truth(own: Profile, others: Sequence[Profile]) -> float:
    """Progress by the law that the tests suppose."""
    contention = 0.0
    for other in others:
        activity = math.log(own.busy) + math.log(other.busy)
        turn = 0.5 * math.log(other.kernel.threads / own.kernel.threads)
        contention += math.exp(0.2 + activity + turn)
    return 1.0 / (1.0 + contention)


def workloads(count: int = 12, seed: int = 3) -> dict[str, Profile]:
    chance = random.Random(seed)
    found = {}
    for index in range(count):
        name = f"model{index // 3}_batch{2 ** (index % 3)}-train"
        found[name] = profile(
            name,
            busy=chance.uniform(0.1, 0.99),
            threads=10 ** chance.uniform(4.5, 6.5),
            throughput=10 ** chance.uniform(0.5, 2.0),
        )
    return found


def colocate(profiles: Sequence[Profile], noise: float = 0.0, chance: random.Random | None = None) -> Colocation:
    sides = []
    for index, own in enumerate(profiles):
        others = [*profiles[:index], *profiles[index + 1 :]]
        factor = math.exp(chance.gauss(0.0, noise)) if chance else 1.0
        sides.append(Side(own.name, own, own.throughput * truth(own, others) * factor))
    return Colocation(tuple(sides))


def every_pair(found: dict[str, Profile], noise: float = 0.03, seed: int = 5) -> list[Colocation]:
    chance = random.Random(seed)
    listed = list(found.values())
    return [colocate([first, second], noise, chance) for index, first in enumerate(listed) for second in listed[index:]]


HEADER = [
    f"w{side}_{name}"
    for side in (1, 2)
    for name in (
        "Threads",
        "Compute (SM) Throughput",
        "DRAM Throughput",
        "Memory Throughput",
        "Registers",
        "Static Shared Memory",
    )
] + [
    "workload1",
    "workload2",
    *(f"w{side}{name}" for name in ("throughput", "exclusive_throughput", "sm%", "mem%", "memcap") for side in (1, 2)),
]


def cells(colocation: Colocation) -> list[str]:
    row: dict[str, str] = {}
    for side, it in enumerate(colocation.sides, 1):
        kernel = it.profile.kernel
        values = {
            f"w{side}_Threads": kernel.threads,
            f"w{side}_Compute (SM) Throughput": 100 * kernel.sm_throughput,
            f"w{side}_DRAM Throughput": 100 * kernel.dram_throughput,
            f"w{side}_Memory Throughput": 100 * kernel.memory_throughput,
            f"w{side}_Registers": kernel.registers,
            f"w{side}_Static Shared Memory": kernel.static_shared_bytes,
            f"w{side}throughput": it.throughput,
            f"w{side}exclusive_throughput": it.profile.throughput,
            f"w{side}sm%": 100 * it.profile.busy,
            f"w{side}mem%": 100 * it.profile.dram,
            f"w{side}memcap": it.profile.memory_mib * 2**20 / 1e9,
        }
        row |= {key: repr(value) for key, value in values.items()}
        row[f"workload{side}"] = it.workload
    return [row[key] for key in HEADER]


def write_csv(path: Path, colocations: Sequence[Colocation]) -> Path:
    lines = [",".join(HEADER), *(",".join(cells(row)) for row in colocations)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
