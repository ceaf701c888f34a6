"""Placement: each policy on a small cluster, and what makes a GPU no candidate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_hooks.cluster import ClusterView, Gpu, Node, Resident
from slurm_hooks.columns import columns_in
from slurm_hooks.placement import Need, candidates, choose

NEED = Need(share=30, partition="gpu", cpus=4, memory_mib=1000, usable_mib=1000, smact_default=0.25)


def gpu(number: int, *residents: Resident, used: int | None = None, node: str = "n1") -> Gpu:
    total = sum(r.share for r in residents)
    return Gpu(node, f"g{number}", total if used is None else used, residents)


def node(*gpus: Gpu, **changes: object) -> Node:
    base = Node(gpus[0].node, True, frozenset({"gpu"}), frozenset({"h200"}), 16, 64_000, gpus)
    return replace(base, **changes)  # type: ignore[arg-type]


def resident(share: int, memory_mib: int | None = None, load: float | None = None) -> Resident:
    return Resident(1, "alice", share, memory_mib, load)


VIEW = ClusterView(
    nodes=(
        node(
            gpu(0, resident(40, 300, 0.5)),
            gpu(1, resident(60, 600, 0.1)),
            gpu(2, resident(50, 200, 0.3)),
            gpu(3, resident(100)),
        ),
    )
)


@pytest.mark.parametrize(("policy", "chosen"), [("magm", "g2"), ("lug", "g1"), ("mug", "g0")])
def test_policies(policy: str, chosen: str) -> None:
    found = choose(VIEW, NEED, policy)
    assert found is not None
    assert found.type == chosen


def test_round_robin_goes_round() -> None:
    last: tuple[str, str] | None = None
    seen = []
    for _ in range(4):
        found = choose(VIEW, NEED, "rr", last)
        assert found is not None
        last = (found.node, found.type)
        seen.append(found.type)
    assert seen == ["g0", "g1", "g2", "g0"]


@pytest.mark.parametrize(
    ("changes", "cpus", "per_cpu_mib", "fits"),
    [
        ({"free_cpus": 3, "threads": 1}, 3, 0, True),
        ({"free_cpus": 3, "threads": 2}, 3, 0, False),
        ({"free_cpus": 4, "threads": 2}, 3, 0, True),
        ({"free_memory_mib": 1999, "threads": 2}, 1, 1000, False),
        ({"free_memory_mib": 2000, "threads": 2}, 1, 1000, True),
        ({"free_memory_mib": 1999, "threads": 1}, 1, 1000, True),
    ],
)
def test_a_job_takes_whole_cores(changes: dict[str, object], cpus: int, per_cpu_mib: int, fits: bool) -> None:
    need = NEED._replace(cpus=cpus, memory_mib=cpus * per_cpu_mib, memory_per_cpu_mib=per_cpu_mib)
    assert bool(candidates(ClusterView(nodes=(node(gpu(0), **changes),)), need)) == fits


def test_exclusive_takes_an_idle_gpu_or_none() -> None:
    assert choose(VIEW, NEED, "exclusive") is None
    idle = ClusterView(nodes=(node(gpu(0, resident(10)), gpu(1)),))
    found = choose(idle, NEED._replace(share=100), "exclusive")
    assert found is not None
    assert found.type == "g1"


def test_no_room() -> None:
    assert choose(VIEW, NEED._replace(share=61), "magm") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"available": False},
        {"partitions": frozenset({"cpu"})},
        {"free_cpus": 3},
        {"free_memory_mib": 999},
    ],
)
def test_nodes_that_will_not_do(changes: dict[str, object]) -> None:
    assert candidates(ClusterView(nodes=(node(gpu(0), **changes),)), NEED) == []


@pytest.mark.parametrize(
    "need",
    [
        NEED._replace(nodes=frozenset({"n2"})),
        NEED._replace(excluded=frozenset({"n1"})),
        NEED._replace(features=frozenset({"a100"})),
        NEED._replace(gpu_type="g7"),
    ],
)
def test_needs_that_the_node_does_not_meet(need: Need) -> None:
    assert candidates(VIEW, need) == []


def test_a_resident_of_which_nothing_is_known_counts_by_its_share() -> None:
    def known(only: Gpu) -> list[float]:
        made = columns_in(ClusterView(nodes=(node(only),))).of_gpus
        return [float(column[0]) for column in (made.memory, made.untold_memory, made.smact, made.untold_smact)]

    assert known(gpu(0, resident(40))) == [0, 40, 0, 1]
    assert known(gpu(0, resident(40, 100), used=60)) == [100, 20, 0, 2]
    assert known(gpu(0, resident(40, load=0.375))) == [0, 40, 0.375, 0]
    # 400 MiB are free beside the one, 350 beside the other; SMACT 0.25 and 0.375 count.
    view = ClusterView(nodes=(node(gpu(0, resident(60)), gpu(1, resident(40, 650, 0.375))),))
    assert [found.type for policy in ("magm", "lug", "mug") if (found := choose(view, NEED, policy))] == [
        "g0",
        "g0",
        "g1",
    ]


def test_users_with_servers_of_their_own_keep_to_themselves() -> None:
    bob = replace(resident(10, 100, 0.1), user="bob")
    view = ClusterView(nodes=(node(gpu(0, bob), gpu(1, resident(60, 600, 0.1)), gpu(2, resident(40), bob)),))
    assert [g.type for g in candidates(view, NEED)] == ["g0", "g1", "g2"]
    assert [g.type for g in candidates(view, NEED._replace(user="alice"))] == ["g1"]
    assert [g.type for g in candidates(view, NEED._replace(user="bob"))] == ["g0"]
    assert candidates(view, NEED._replace(user="carol")) == []
    empty = ClusterView(nodes=(node(gpu(0, bob), gpu(1)),))
    assert [g.type for g in candidates(empty, NEED._replace(user="carol"))] == ["g1"]
