"""The node's GPUs as NVIDIA's driver tells them: UUID and memory of each. Touches /proc, nvidia-smi and one file.

nvidia-smi is slow, so what it says is kept in a file until the node boots again.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from slurm_hooks.node import commands, state

DRIVER_DIR = "/proc/driver/nvidia/gpus"
TIMEOUT_S = 8.0
_UUID = re.compile(r"GPU-[0-9a-fA-F-]{8,64}")


@dataclass(frozen=True)
class NodeGpu:
    """One GPU.

    Attributes:
        uuid: as CUDA_VISIBLE_DEVICES takes it.
        memory_mib: its memory in MiB; 0 where only nvidia-smi could tell, and did not.
    """

    uuid: str
    memory_mib: int


def gpu(index: int, smi: str, cache: str, driver_dir: str = DRIVER_DIR) -> NodeGpu | None:
    """The GPU whose device file is /dev/nvidia`index`, or None where the driver does not tell."""
    known = _cached(cache)
    if str(index) not in known:
        # One that the driver did not tell of may have come back since, as after a drain.
        known = _ask(smi, driver_dir)
        if known:
            state.write(cache, {"boot": _boot(), "gpus": known})
    entry = known.get(str(index))
    if entry:
        return NodeGpu(entry["uuid"], entry["memory_mib"])
    # Numbers are no substitute: CUDA counts the GPUs that work, so behind one that is lost they mean others.
    uuid = next((uuid for uuid, minor in _minors(driver_dir).items() if minor == index), None)
    return NodeGpu(uuid, 0) if uuid else None


def least_memory_mib(cache: str) -> int:
    """Memory of the node's smallest GPU as the cache has it, in MiB; 0 where it has none."""
    return min((entry["memory_mib"] for entry in _cached(cache).values()), default=0)


def _cached(cache: str) -> dict[str, dict[str, Any]]:
    """What nvidia-smi said since the node has booted."""
    known = state.read(cache) or {}
    return known["gpus"] if known.get("boot") == _boot() else {}


def _ask(smi: str, driver_dir: str) -> dict[str, dict[str, Any]]:
    done = commands.run([smi, "--query-gpu=index,uuid,memory.total", "--format=csv,noheader,nounits"], TIMEOUT_S)
    return parse(done.out, _minors(driver_dir))  # it fails where one GPU is lost, and may tell of the others


def parse(text: str, minors: dict[str, int]) -> dict[str, dict[str, Any]]:
    """UUID and memory by number of the device file.

    Args:
        text: nvidia-smi's ``index, uuid, memory in MiB``, a line for each GPU.
        minors: number of the device file by UUID, where the driver tells; else nvidia-smi's index stands for it.
    """
    found: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and words[0].isdigit() and _UUID.fullmatch(words[1]) and words[2].isdigit():
            minor = minors.get(words[1], int(words[0]))
            found[str(minor)] = {"uuid": words[1], "memory_mib": int(words[2])}
    return found


def _minors(driver_dir: str) -> dict[str, int]:
    """Numbers of the device files by UUID."""
    found: dict[str, int] = {}
    try:
        names = os.listdir(driver_dir)  # noqa: PTH208 - pathlib starts slowly
    except OSError:
        return found
    for name in names:
        try:
            with open(f"{driver_dir}/{name}/information", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                text = file.read()
        except OSError:
            continue
        uuid, minor = _UUID.search(text), re.search(r"Device Minor:\s*(\d+)", text)
        if uuid and minor:
            found[uuid.group()] = int(minor.group(1))
    return found


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return ""
