from __future__ import annotations

from pathlib import Path

import pytest

from slurm_hooks.config import Partition
from slurm_hooks.memory import memory_here
from slurm_hooks.node import gpus, state
from slurm_hooks.node.gpus import NodeGpu

# nvidia-smi --query-gpu=index,uuid,memory.total --format=csv,noheader,nounits
SMI = """\
0, GPU-11111111-2222-3333-4444-555555555555, 143771
1, GPU-66666666-7777-8888-9999-aaaaaaaaaaaa, 81559
[N/A], GPU-1, 5
2, GPU-bbbbbbbb-7777-8888-9999-aaaaaaaaaaaa, [N/A]
"""
FIRST = NodeGpu("GPU-11111111-2222-3333-4444-555555555555", 143771)
SECOND = NodeGpu("GPU-66666666-7777-8888-9999-aaaaaaaaaaaa", 81559)


@pytest.fixture
def smi(place: Path) -> str:
    """Answers once; then it is gone, so that a second question is noticed."""
    path = place / "nvidia-smi"
    path.write_text(f"#!/bin/sh\nrm {path}\ncat <<'end'\n{SMI}end\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def driver(place: Path) -> str:
    """The driver's folder, where the device files are numbered the other way round."""
    for name, uuid, minor in (("a", FIRST.uuid, 1), ("b", SECOND.uuid, 0)):
        folder = place / "driver" / name
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")
    (place / "driver" / "empty").mkdir()
    (place / "driver" / "odd").mkdir()
    (place / "driver" / "odd" / "information").write_text("GPU UUID: ????\n")
    return str(place / "driver")


def test_gpus_by_the_number_of_their_device(place: Path, smi: str, driver: str) -> None:
    cache = str(place / "gpus.json")
    assert gpus.gpu(0, smi, cache, driver) == SECOND
    assert gpus.gpu(1, smi, cache, driver) == FIRST  # from the file: nvidia-smi is gone
    assert gpus.gpu(2, smi, cache, driver) is None
    assert gpus.least_memory_mib(cache) == 81559


def test_where_the_driver_does_not_number_them(place: Path, smi: str) -> None:
    assert gpus.gpu(0, smi, str(place / "gpus.json"), str(place / "nowhere")) == FIRST


def test_after_a_boot_they_are_asked_for_again(place: Path, smi: str, driver: str) -> None:
    cache = str(place / "gpus.json")
    state.write(cache, {"boot": "before", "gpus": {"0": {"uuid": "GPU-old", "memory_mib": 1}}})
    assert gpus.least_memory_mib(cache) == 0
    assert gpus.gpu(0, smi, cache, driver) == SECOND


def test_one_that_was_not_there_is_asked_for_again(place: Path, smi: str, driver: str) -> None:
    cache = str(place / "gpus.json")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    state.write(cache, {"boot": boot, "gpus": {"1": {"uuid": FIRST.uuid, "memory_mib": 1}}})
    assert gpus.gpu(1, smi, cache, driver) == NodeGpu(FIRST.uuid, 1)  # from the file
    assert gpus.gpu(0, smi, cache, driver) == SECOND
    assert gpus.gpu(1, smi, cache, driver) == FIRST


def test_where_nvidia_smi_does_not_answer_the_driver_tells_which_gpu_it_is(place: Path, driver: str) -> None:
    cache = str(place / "gpus.json")
    assert gpus.gpu(1, str(place / "nvidia-smi"), cache, driver) == NodeGpu(FIRST.uuid, 0)
    assert gpus.gpu(2, str(place / "nvidia-smi"), cache, driver) is None
    assert not Path(cache).exists()  # nvidia-smi is asked again


def test_one_lost_gpu_hides_no_other(place: Path, smi: str, driver: str) -> None:
    Path(smi).write_text(Path(smi).read_text() + "exit 15\n")
    assert gpus.gpu(0, smi, str(place / "gpus.json"), driver) == SECOND


def test_no_driver(place: Path) -> None:
    cache = str(place / "gpus.json")
    assert gpus.gpu(0, str(place / "nvidia-smi"), cache, str(place)) is None
    assert not Path(cache).exists()
    assert gpus.least_memory_mib(cache) == 0


@pytest.mark.parametrize(
    ("partition", "measured", "mib"),
    [
        (Partition(gpu_memory_mib=10_000, gpu_model="h200"), 0, 10_000 - 2048),
        (Partition(gpu_memory_mib=10_000, gpu_model="h200"), 143_771, 10_000 - 2048),
        (Partition(gpu_model="h200", margin_mib=0), 0, 143_771),
        (Partition(gpu_model="a100-40gb"), 40_960 - 2048, 40_960 - 2048),  # the margin is less
        (Partition(gpu_model="a100-40gb"), 40_960 - 2049, 40_960 - 2049 - 2048),  # caps would not fit
        (Partition(gpu_model="h200"), 40_960, 40_960 - 2048),
        (Partition(gpu_model="our-own"), 9000, 9000 - 2048),
        (Partition(), 0, 0),
    ],
)
def test_memory_to_give_away(partition: Partition, measured: int, mib: int) -> None:
    assert memory_here(partition, measured) == mib
