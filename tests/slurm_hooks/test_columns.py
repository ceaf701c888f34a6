"""Columns of numbers find the GPUs that a look at one after the other finds, also when some have changed."""

from __future__ import annotations

import random
from dataclasses import replace

from slurm_hooks.cluster import ALL_MEMORY, Arrival, ClusterView, Floating, Gpu, Node, Resident, with_arrivals
from slurm_hooks.columns import columns_in, with_columns
from slurm_hooks.placement import Need, candidates, choose

USERS = ("alice", "bob", "g1")


def some_node(rng: random.Random, number: int) -> Node:
    name = f"n{number}"
    gpus = []
    for device in range(rng.randint(0, 4)):
        residents = tuple(
            Resident(
                rng.randint(1, 99),
                rng.choice(USERS),
                rng.choice((10, 25, 50)),
                rng.choice((None, 200, 300)),
                rng.choice((None, 0.25, 0.5)),
            )
            for _ in range(rng.choice((0, 0, 1, 2)))
        )
        held = sum(resident.share for resident in residents)
        gpus.append(Gpu(name, f"g{device}", min(100, held + rng.choice((0, 0, 20))), residents))
    return Node(
        name,
        rng.random() < 0.9,
        frozenset(rng.sample(("gpu", "long"), rng.randint(1, 2))),
        frozenset(rng.sample(("h200", "a100"), rng.randint(0, 2))),
        rng.choice((2, 8, 64)),
        rng.choice((1000, 64_000)),
        tuple(gpus),
        shares=rng.random() < 0.9,
        reserved_from=rng.choice((float("inf"), 500.0)),
        memory_mib=64_000,
        threads=rng.choice((1, 2)),
        owner=rng.choice(("", "", "", "alice")),
        idle=rng.random() < 0.5,
    )


def some_need(rng: random.Random) -> Need:
    need = Need(rng.choice((10, 30, 60, 100)), rng.choice(("gpu", "long", "none")), usable_mib=1000, smact_default=0.3)
    return need._replace(
        cpus=rng.choice((1, 3, 8)),
        memory_mib=rng.choice((0, 1000, 2000, ALL_MEMORY)),
        memory_per_cpu_mib=rng.choice((0, 500)),
        nodes=rng.choice((frozenset(), frozenset({"n1", "n2"}))),
        excluded=rng.choice((frozenset(), frozenset({"n3"}))),
        features=rng.choice((frozenset(), frozenset({"h200"}))),
        gpu_type=rng.choice(("", "", "g1", "g7")),
        until=rng.choice((float("inf"), 100.0)),
        user=rng.choice(("", "alice", "carol")),
        owner=rng.choice(("alice", "carol")),
        by_user=rng.random() < 0.2,
    )


def fits(node: Node, gpu: Gpu, need: Need, floating: Floating) -> bool:
    """What placement asks of a node and a GPU, one thing after the other."""
    cpus = -(-need.cpus // node.threads) * node.threads
    memory = need.memory_mib + (cpus - need.cpus) * need.memory_per_cpu_mib
    memory = node.memory_mib if memory >= ALL_MEMORY else memory
    others = [resident for gpu in node.gpus for resident in gpu.residents if resident.user != need.owner]
    apart = gpu.used_shares <= sum(r.share for r in gpu.residents) and {r.user for r in gpu.residents} <= {need.user}
    return (
        node.available
        and node.shares
        and need.until <= node.reserved_from
        and need.partition in node.partitions
        and (not need.nodes or node.name in need.nodes)
        and node.name not in need.excluded
        and need.features <= node.features
        and node.free_cpus - floating.cpus >= cpus
        and node.free_memory_mib - floating.memory_mib >= memory
        and (node.owner == need.owner if node.owner else not need.by_user or (node.idle and not others))
        and gpu.free_shares >= need.share + floating.shares
        and need.gpu_type in ("", gpu.type)
        and (not need.user or apart)
    )


def rank(gpu: Gpu, need: Need, policy: str) -> tuple[float, float]:
    known = sum(resident.memory_mib or need.usable_mib * resident.share / 100 for resident in gpu.residents)
    load = sum(need.smact_default if resident.smact is None else resident.smact for resident in gpu.residents)
    if (unknown := gpu.used_shares - sum(resident.share for resident in gpu.residents)) > 0:
        known, load = known + unknown * need.usable_mib / 100, load + need.smact_default
    used, load = round(known, 6), round(load, 6)
    return {"magm": (used, load), "lug": (load, used), "mug": (-load, -used)}[policy]


def test_the_same_gpus_as_by_looking_at_each() -> None:
    rng = random.Random(5)
    found = 0
    for _ in range(1000):
        nodes = tuple(some_node(rng, number) for number in range(rng.randint(0, 6)))
        floating = Floating(rng.choice((0, 0, 20)), rng.choice((0, 1)), rng.choice((0, 500)))
        view = ClusterView(nodes=nodes, floating={"gpu": floating})
        need = some_need(rng)
        here = floating if need.partition == "gpu" else Floating()
        expected = [gpu for node in nodes for gpu in node.gpus if fits(node, gpu, need, here)]
        assert candidates(view, need) == candidates(with_columns(view), need) == expected
        for policy in ("magm", "lug", "mug"):
            best = min(expected, key=lambda gpu: rank(gpu, need, policy), default=None)
            assert choose(view, need, policy) == best
        found += len(expected)
    assert found > 50


def test_what_users_ask_for_may_be_larger_than_any_number_of_a_machine() -> None:
    node = replace(some_node(random.Random(1), 0), gpus=(Gpu("n0", "g0", 0),), partitions=frozenset({"gpu"}))
    for huge in (2**64, 2**70):
        view = ClusterView(nodes=(node,), floating={"gpu": Floating(huge, huge, huge)})
        need = Need(huge, "gpu", cpus=huge, memory_mib=huge, memory_per_cpu_mib=huge, usable_mib=huge)
        assert candidates(view, need) == []


def test_what_has_changed_since_is_counted() -> None:
    rng = random.Random(6)
    view = with_columns(ClusterView(nodes=tuple(some_node(rng, number) for number in range(8))))
    for number in range(200):
        node = rng.choice([node for node in view.nodes if node.gpus])
        gpu = rng.choice(node.gpus)
        resident = Resident(0, rng.choice((*USERS, f"user{number}")), rng.choice((5, 10)), 100)
        arrival = Arrival(resident, gpu, frozenset({"gpu"}), 1, 10, by_user=rng.random() < 0.1)
        before, view = view, with_columns(with_arrivals(view, (arrival,)))
        for need in (some_need(rng), Need(1, "gpu", user=resident.user)):
            assert candidates(view, need) == candidates(replace(view, columns=None), need)
        assert before.columns is not None
        assert before.columns.nodes is before.nodes  # who still decides by it is not told of others
        if number % 50 == 0:
            view = with_columns(replace(view, nodes=tuple(some_node(rng, number) for number in range(8))))


def test_what_a_node_did_not_have_before_is_counted() -> None:
    """A resident that tells nothing, and cores of several threads."""
    gpus = (Gpu("n0", "g0", 0), Gpu("n0", "g1", 0))
    plain = replace(some_node(random.Random(1), 0), gpus=gpus, partitions=frozenset({"gpu"}), owner="")
    node = replace(plain, available=True, free_cpus=3, free_memory_mib=1000, memory_mib=1000, threads=1)
    view = with_columns(ClusterView(nodes=(replace(node, reserved_from=float("inf")),)))
    need = Need(10, "gpu", usable_mib=1000, smact_default=0.25)
    assert choose(view, need, "magm") == gpus[0]
    later = Arrival(Resident(0, "alice", 50), gpus[0], frozenset({"gpu"}), 1, 10)
    assert choose(with_columns(with_arrivals(view, (later,))), need, "magm") == gpus[1]
    cores = replace(view, nodes=(replace(view.nodes[0], threads=2),))
    assert candidates(view, need._replace(cpus=3)) == [*gpus]
    assert candidates(with_columns(cores), need._replace(cpus=3)) == []


def test_who_holds_gpus_is_known_whatever_they_are() -> None:
    def held(*users: str, device: str) -> Gpu:
        return Gpu("n0", device, 50, tuple(Resident(1, user, 10) for user in users))

    plain = some_node(random.Random(1), 0)
    node = replace(plain, gpus=(held("alice", "bob", device="g0"),), whole=(held("carol", device="g1"),))
    view = with_columns(ClusterView(nodes=(node,)))
    assert set(columns_in(view).users) == {"alice", "bob", "carol"}
    later = Arrival(Resident(0, "dave", 10), node.gpus[0], frozenset({"gpu"}), 1, 10)
    assert set(columns_in(with_arrivals(view, (later,))).users) == {"alice", "bob", "carol", "dave"}


def test_columns_are_made_once() -> None:
    view = with_columns(ClusterView(nodes=(some_node(random.Random(1), 0),)))
    assert with_columns(view) is view
    assert columns_in(view) is view.columns
    waits = Arrival(Resident(0, "alice", 10), None, frozenset({"gpu"}), 1, 10)
    assert with_columns(with_arrivals(view, (waits,))).columns is view.columns
