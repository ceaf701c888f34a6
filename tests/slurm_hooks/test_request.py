"""Requests: what is understood, and why the rest is left alone."""

from __future__ import annotations

import pytest

from slurm_hooks.cluster import PerGpu, SlurmPartition
from slurm_hooks.reading import submission_from
from slurm_hooks.request import GpuRequest, LeftAlone, steps_ask, understand, with_defaults


def asked(**fields: str) -> GpuRequest | LeftAlone:
    return understand(submission_from({"min_nodes": "1", "num_tasks": "1", **fields}))


@pytest.mark.parametrize(
    ("fields", "text", "kind", "field"),
    [
        ({"tres_per_node": "gres:gpu:1"}, "gpu:1", "", "tres_per_node"),
        ({"tres_per_node": "gres:gpu"}, "gpu", "", "tres_per_node"),
        ({"tres_per_node": "gres/gpu:h200:1"}, "gpu:h200:1", "h200", "tres_per_node"),
        ({"tres_per_node": "gres:gpu:a100-40gb"}, "gpu:a100-40gb", "a100-40gb", "tres_per_node"),
        ({"tres_per_job": "gres:gpu:1"}, "gpu:1", "", "tres_per_job"),
        ({"tres_per_task": "gres/gpu=1"}, "gpu:1", "", "tres_per_task"),
        ({"tres_per_task": "cpu=2,gres/gpu:g1=1"}, "gpu:g1:1", "g1", "tres_per_task"),
        ({"tres_per_node": "gres:gpu:1", "num_tasks": "4", "max_nodes": "1"}, "gpu:1", "", "tres_per_node"),
        ({"tres_per_node": "gres:gpu:1", "min_nodes": "4294967294"}, "gpu:1", "", "tres_per_node"),
        ({"tres_per_node": "gres:gpu:1", "spread_job": "1", "max_nodes": "1"}, "gpu:1", "", "tres_per_node"),
        ({"tres_per_node": "gres:gpu:1", "features": "h200*2", "max_nodes": "1"}, "gpu:1", "", "tres_per_node"),
        ({"tres_per_node": "gres:gpu:1", "features": "h200*1"}, "gpu:1", "", "tres_per_node"),
        ({"tres_per_node": "gres:gpu:1", "ntasks_per_tres": "65534", "shared": "65534"}, "gpu:1", "", "tres_per_node"),
    ],
)
def test_understood(fields: dict[str, str], text: str, kind: str, field: str) -> None:
    found = asked(**fields)
    assert isinstance(found, GpuRequest)
    assert (found.text, found.type, found.field) == (text, kind, field)


@pytest.mark.parametrize(("tasks", "cpus"), [(None, 3), (1, 3), (2, 4), (3, 3)])
def test_each_task_gets_as_many_processors_of_those_for_a_gpu(tasks: int | None, cpus: int) -> None:
    submission = submission_from({"min_nodes": "1"})._replace(num_tasks=tasks)
    assert with_defaults(submission, SlurmPartition(per_gpu=PerGpu(cpus=3))).cpus_per_gpu == cpus


@pytest.mark.parametrize(
    ("script", "asks"),
    [
        ("srun --gres=gpu:1 python a.py\n", True),
        ("srun -n1 \\\n  --cpus-per-gpu=2 a\n", True),
        ("srun python a.py\n", False),
        ("# srun --gres=gpu:1 a\nsrun a # --gpus=1\npython --gpus 1\n", False),
    ],
)
def test_which_scripts_have_a_step_that_asks_by_gpu(script: str, asks: bool) -> None:
    assert steps_ask(script) is asks


def test_processors_of_each_task_stay_beside_its_gpu() -> None:
    found = asked(tres_per_task="cpu=2,gres/gpu=1")
    assert isinstance(found, GpuRequest)
    assert found.others == ("cpu=2",)
    assert asked(tres_per_task="cpu=2") == LeftAlone("", "the job asks for no GPU")


def test_other_resources_are_kept() -> None:
    found = asked(tres_per_node="gres:nvme:2,gres:gpu:1")
    assert isinstance(found, GpuRequest)
    assert found.others == ("gres:nvme:2",)
    # Of what is counted in bytes Slurm takes as many as 64 bits can tell.
    for amount in ("10G", "10737418240", "18446744073709551615"):
        found = asked(tres_per_node=f"gres:gpu:1,gres:tmpdisk:{amount}")
        assert isinstance(found, GpuRequest)
        assert found.others == (f"gres:tmpdisk:{amount}",)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no GPU"),
        ({"tres_per_node": "gres:nvme:2"}, "no GPU"),
        ({"tres_per_node": "gres:gpu:2"}, "more than one GPU"),
        ({"tres_per_node": "gres:gpu:0"}, "no GPU"),
        ({"tres_per_node": "gres:gpu:1", "tres_per_job": "gres:gpu:1"}, "more than one way: keep one"),
        ({"tres_per_node": "gres:mps:30"}, "already names mps"),
        ({"tres_per_node": "gres:shard:2"}, "already names shard"),
        ({"tres_per_socket": "gres:gpu:1"}, "per socket"),
        ({"tres_per_node": "gres:gpu:1", "min_nodes": "2"}, "asks for several nodes"),
        ({"tres_per_node": "gres:gpu:1", "min_nodes": "1", "max_nodes": "2"}, "may take several nodes"),
        ({"tres_per_node": "gres:gpu:1", "features": "h200*2"}, "several nodes by the numbers in --constraint"),
        ({"tres_per_node": "gres:gpu:1", "features": "[big*1&h200*1]"}, "by the numbers in --constraint"),
        ({"tres_per_job": "gres:gpu:1", "spread_job": "1"}, "--spread-job"),
        ({"tres_per_node": "gres:gpu:1", "shared": "0"}, "exclusively"),
        ({"tres_per_node": "gres/gpu:1", "shared": "3"}, "exclusively"),
        ({"tres_per_node": "gres/gpu:1", "shared": "4"}, "exclusively"),
        ({"tres_per_node": "gres:gpu:1", "het_job_offset": "0"}, "heterogeneous"),
        ({"tres_per_task": "gres:gpu:1", "num_tasks": "2", "max_nodes": "1"}, "each of several tasks"),
        ({"tres_per_node": "gres:gpu:1", "num_tasks": "2"}, "--nodes=1"),
        ({"tres_per_node": "gres:gpu:1", "tres_bind": "gpu:closest"}, "uses --gpu-bind: leave that out"),
        ({"tres_per_job": "gres:gpu:1", "ntasks_per_tres": "1"}, "--ntasks-per-gpu: leave that out and write --ntasks"),
        (
            {"tres_per_node": "gres:gpu:1", "cpus_per_tres": "gres:gpu:4", "num_tasks": "2", "max_nodes": "1"},
            "write --cpus-per-task",
        ),
        ({"tres_per_node": "gres:gpu:\x00"}, "not understood"),
        ({"tres_per_node": "gres:gpu:1" + ",x:y:z:w"}, "not understood"),
    ],
)
def test_left_alone(fields: dict[str, str], words: str) -> None:
    found = asked(**fields)
    assert isinstance(found, LeftAlone)
    assert words in found.reason


def test_what_is_left_alone_is_told_in_a_users_words() -> None:
    assert asked(tres_per_task="cpu=2,gres/gpu:h200=2") == LeftAlone("gpu:h200:2", "the job asks for more than one GPU")
