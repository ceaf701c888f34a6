"""Shares, caps, pins and their reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.types import Estimate
from slurm_hooks.cluster import (
    ALL_MEMORY,
    Arrival,
    ClusterView,
    Gpu,
    Node,
    Resident,
    SlurmPartition,
    floating_in,
    with_arrivals,
)
from slurm_hooks.config import Mps, MpsMeet, MpsUsers, Partition
from slurm_hooks.decision import (
    Decision,
    Demand,
    Job,
    Situation,
    decide,
)
from slurm_hooks.directives import Directives
from slurm_hooks.gpus import unknown_type
from slurm_hooks.memory import memory_of, usable_mib
from slurm_hooks.reach import gives_whole_nodes, need_of
from slurm_hooks.request import GpuRequest, Submission, with_defaults
from slurm_hooks.shares import cap_of, share_of

PARTITION = Partition(gpu_memory_mib=102_048, default_smact=0.1)
H200 = replace(PARTITION, gpu_model="h200")
SUBMISSION = Submission("", partition="gpu")
NO_DIRECTIVES = Directives()
REQUEST = GpuRequest("gpu:1", "", "tres_per_node", (), ":")
VIEW = ClusterView(
    100.0,
    (
        Node(
            "n1",
            True,
            frozenset({"gpu"}),
            frozenset({"h200"}),
            16,
            64_000,
            (Gpu("n1", "g0", 50, (Resident(7, "bob", 50),)), Gpu("n1", "g1", 0)),
        ),
    ),
)


def made(
    upper_mib: int | None = 38_000,
    *,
    submission: Submission = SUBMISSION,
    request: GpuRequest = REQUEST,
    directives: Directives = NO_DIRECTIVES,
    partition: Partition = PARTITION,
    view: ClusterView = VIEW,
    now: float = 101.0,
    users: MpsUsers = "multi",
    meet: MpsMeet = "turns",
) -> Decision:
    demand = Demand(None if upper_mib is None else Estimate(upper_mib, upper_mib, "horus", "cnn", "f"))
    situation = Situation(view, now, 30.0, mps=Mps(users=users, meet=meet))
    return decide(Job(submission, request, directives, demand), partition, situation)


def test_memory_decides() -> None:
    decision = made()
    assert (decision.share, decision.cap_mib, decision.thread_percentage) == (38, 38_000, 100)
    assert decision.pin is not None
    assert decision.pin.type == "g1"
    assert decision.reasons == ("38 shares for 38000 of 100000 MiB", "magm chose g1 of n1")
    assert [made(upper, partition=replace(PARTITION, default_smact=0.0)).share for upper in (0, 1, 90_000)] == [
        1,
        1,
        90,
    ]


def test_compute_decides() -> None:
    decision = made(1000, partition=replace(PARTITION, default_smact=0.4))
    assert decision.share == 50
    assert decision.reasons[0] == "50 shares for SMACT 0.40 of 0.80"


@pytest.mark.parametrize(
    ("upper_mib", "directives", "partition", "words"),
    [
        (90_001, Directives(), PARTITION, "more than 90 shares"),
        (200_000, Directives(), PARTITION, "195.3 GiB are needed, 97.7 GiB can be given away"),
        (100_000, Directives(), PARTITION, "97.7 GiB are needed, 97.7 GiB can be given away"),
        (10, Directives(policy="exclusive"), PARTITION, "policy exclusive"),
        (10, Directives(), replace(PARTITION, policy="exclusive"), "policy exclusive"),
        (10, Directives(policy="collocation"), replace(PARTITION, placement="exclusive"), "policy exclusive"),
        (None, Directives(), PARTITION, "nothing is known"),
        (10, Directives(), replace(PARTITION, gpu_memory_mib=0), "neither gpu_memory_mib nor a known gpu_model"),
    ],
)
def test_the_whole_gpu(upper_mib: int | None, directives: Directives, partition: Partition, words: str) -> None:
    decision = made(upper_mib, directives=directives, partition=partition)
    assert (decision.share, decision.cap_mib) == (100, None)
    assert words in decision.reasons[0]
    assert decision.pin is not None
    assert decision.pin.type == "g1"
    assert decision.reasons[-1] == "exclusive chose g1 of n1"


def test_a_user_may_ask_to_share_where_exclusive_is_the_default() -> None:
    decision = made(directives=Directives(policy="collocation"), partition=replace(PARTITION, policy="exclusive"))
    assert decision.share == 38


@pytest.mark.parametrize(
    ("submission", "words"),
    [
        (SUBMISSION._replace(array="1-3"), "array"),
        (SUBMISSION._replace(held=True), "is held"),
        (SUBMISSION._replace(dependency="afterok:1"), "waits for others"),
        (SUBMISSION._replace(begin_time=102), "begin later"),
        (SUBMISSION._replace(reservation="r"), "reservation"),
        (SUBMISSION._replace(licenses="matlab:1"), "licenses"),
        (SUBMISSION._replace(req_nodes="n2"), "no GPU has room now"),
        (SUBMISSION._replace(req_nodes="n[1-2]"), "several nodes"),
        (SUBMISSION._replace(exc_nodes="n[1-2]"), "several nodes"),
        (SUBMISSION._replace(features="big"), "features"),
        (SUBMISSION._replace(partition="gpu,other"), "several partitions"),
        (SUBMISSION._replace(node_options=("--tmp", "--threads-per-core")), "will do for --tmp, --threads-per-core"),
        (SUBMISSION._replace(tres={"tres_per_node": "gres:gpu:1", "tres_per_task": "gres:nic:1"}), "other generic"),
        (SUBMISSION._replace(cpus_per_task=17), "no GPU has room now"),
        (SUBMISSION._replace(num_tasks=9, cpus_per_task=2), "no GPU has room now"),
        (SUBMISSION._replace(memory_per_node_mib=64_001), "no GPU has room now"),
        (SUBMISSION._replace(min_cpus_per_node=17), "no GPU has room now"),
    ],
)
def test_unpinned(submission: Submission, words: str) -> None:
    decision = made(submission=submission)
    assert decision.pin is None
    assert decision.reasons[-1].startswith("not pinned: ")
    assert words in decision.reasons[-1]


def test_unpinned_beside_other_generic_resources() -> None:
    beside = SUBMISSION._replace(tres={"tres_per_node": "gres:nic:1,gres:gpu:1"})
    assert "other generic resources" in made(submission=beside).reasons[-1]
    alone = SUBMISSION._replace(tres={"tres_per_node": "gres:gpu:1", "tres_per_task": ""})
    assert made(submission=alone).pin is not None


@pytest.mark.parametrize(
    "tres",
    [{"tres_per_node": "gres/gpu:1", "tres_per_task": "cpu=4"}, {"tres_per_task": "cpu:4,gres/gpu=1"}],
)
def test_processors_of_a_task_are_no_generic_resource_though_slurm_writes_them_beside(tres: dict[str, str]) -> None:
    """24.11 does so of every job with --cpus-per-task."""
    assert made(submission=SUBMISSION._replace(tres=tres)).pin is not None


@pytest.mark.parametrize(
    ("slurm", "minutes", "words"),
    [
        (SlurmPartition(up=False), None, "the partition is not up"),
        (SlurmPartition(limits_nodes=True), None, "may still take"),
        (SlurmPartition(longest_s=3600.0), 61, "for longer than the partition"),
        (SlurmPartition(longest_s=3600.0), 60, ""),
        (SlurmPartition(longest_s=3600.0), None, ""),
        (SlurmPartition(whole_nodes=True), None, ""),
    ],
)
def test_unpinned_for_what_slurm_says_of_the_partition(slurm: SlurmPartition, minutes: int | None, words: str) -> None:
    view = replace(VIEW, partitions={"gpu": slurm, "other": SlurmPartition(up=False)})
    decision = made(submission=SUBMISSION._replace(time_limit_min=minutes), view=view)
    assert words in decision.reasons[-1]
    assert (decision.pin is None) == bool(words)


def test_whole_nodes() -> None:
    view = replace(VIEW, partitions={"gpu": SlurmPartition(), "whole": SlurmPartition(whole_nodes=True)})
    assert gives_whole_nodes(SUBMISSION, view) == gives_whole_nodes(SUBMISSION, VIEW) == ""
    assert "partition whole gives" in gives_whole_nodes(SUBMISSION._replace(partition="gpu,whole"), view)


@pytest.mark.parametrize(
    ("submission", "slurm", "held"),
    [
        (SUBMISSION, SlurmPartition(), 0),
        (SUBMISSION._replace(memory_per_node_mib=0), SlurmPartition(), 0),
        (SUBMISSION, SlurmPartition(counts_memory=True), ALL_MEMORY),
        (SUBMISSION._replace(memory_per_node_mib=0), SlurmPartition(counts_memory=True), ALL_MEMORY),
        (
            SUBMISSION._replace(memory_per_cpu_mib=0),
            SlurmPartition(counts_memory=True, memory_per_node_mib=7),
            ALL_MEMORY,
        ),
        (SUBMISSION._replace(memory_per_gpu_mib=0), SlurmPartition(counts_memory=True), ALL_MEMORY),
        (SUBMISSION._replace(memory_per_node_mib=5), SlurmPartition(counts_memory=True), 5),
        (SUBMISSION._replace(memory_per_gpu_mib=6), SlurmPartition(counts_memory=True), 6),
        (SUBMISSION, SlurmPartition(counts_memory=True, memory_per_node_mib=7), 7),
        (SUBMISSION._replace(cpus_per_task=3), SlurmPartition(counts_memory=True, memory_per_cpu_mib=8), 24),
    ],
)
def test_memory_that_slurm_holds_for_a_job(submission: Submission, slurm: SlurmPartition, held: int) -> None:
    assert need_of(with_defaults(submission, slurm), 10, PARTITION).memory_mib == held


@pytest.mark.parametrize(
    ("submission", "cpus", "memory_mib"),
    [
        (SUBMISSION._replace(memory_per_node_mib=5000), 5, 5000),
        (SUBMISSION._replace(memory_per_node_mib=5001, cpus_per_task=9), 9, 5001),
        (SUBMISSION._replace(memory_per_node_mib=5001, min_cpus_per_node=8), 8, 5001),
        (SUBMISSION._replace(memory_per_gpu_mib=5001), 6, 5001),
        (SUBMISSION._replace(memory_per_cpu_mib=1000, cpus_per_task=2), 2, 2000),
        (SUBMISSION._replace(memory_per_cpu_mib=2500, cpus_per_task=2, num_tasks=2), 12, 12 * 834),
        (SUBMISSION._replace(memory_per_cpu_mib=2500, cpus_per_gpu=2), 6, 6 * 834),
        (SUBMISSION._replace(memory_per_node_mib=0), 1, ALL_MEMORY),
        (SUBMISSION, 7, 7000),
    ],
)
def test_processors_that_slurm_gives_for_memory(submission: Submission, cpus: int, memory_mib: int) -> None:
    slurm = SlurmPartition(counts_memory=True, memory_per_node_mib=7000, most_memory_per_cpu_mib=1000)
    need = need_of(with_defaults(submission, slurm), 10, PARTITION)
    assert (need.cpus, need.memory_mib) == (cpus, memory_mib)
    uncounted = replace(slurm, counts_memory=False)
    assert need_of(with_defaults(SUBMISSION, uncounted), 10, PARTITION).cpus == 1


def test_a_job_that_gets_all_memory_is_pinned_to_a_node_without_jobs() -> None:
    all_of_it = SUBMISSION._replace(memory_per_node_mib=ALL_MEMORY)
    (node,) = VIEW.nodes
    taken = replace(VIEW, nodes=(replace(node, memory_mib=64_001),))
    assert made(submission=all_of_it, view=taken).pin is None
    free = replace(VIEW, nodes=(replace(node, memory_mib=64_000),))
    assert made(submission=all_of_it, view=free).pin is not None
    arrival = Arrival(Resident(0, "bob", 10), node.gpus[1], frozenset({"gpu"}), 1, ALL_MEMORY)
    assert made(submission=SUBMISSION._replace(memory_per_node_mib=1), view=with_arrivals(free, [arrival])).pin is None


@pytest.mark.parametrize(
    ("owner", "idle", "partition", "submission", "pinned"),
    [
        ("", False, SlurmPartition(), SUBMISSION, True),
        ("bob", False, SlurmPartition(), SUBMISSION, False),
        ("alice", False, SlurmPartition(), SUBMISSION, True),
        ("", False, SlurmPartition(by_user=True), SUBMISSION, False),
        ("", True, SlurmPartition(by_user=True), SUBMISSION, True),
        ("alice", False, SlurmPartition(by_user=True), SUBMISSION, True),
        ("", False, SlurmPartition(), SUBMISSION._replace(by_user=True), False),
        ("", True, SlurmPartition(), SUBMISSION._replace(by_user=True), True),
    ],
)
def test_nodes_for_jobs_of_one_user(
    owner: str, idle: bool, partition: SlurmPartition, submission: Submission, pinned: bool
) -> None:
    node = replace(VIEW.nodes[0], owner=owner, idle=idle, gpus=(Gpu("n1", "g1", 0),))
    view = replace(VIEW, nodes=(node,), partitions={"gpu": partition})
    assert (made(submission=submission._replace(user="alice"), view=view).pin is not None) == pinned


def test_jobs_of_one_user_that_slurm_does_not_show_yet() -> None:
    node = replace(VIEW.nodes[0], gpus=(Gpu("n1", "g1", 0),))
    alone = Arrival(Resident(0, "bob", 10), node.gpus[0], frozenset({"gpu"}), 1, 0, by_user=True)
    view = replace(VIEW, nodes=(node,))

    def goes(user: str, view: ClusterView) -> bool:
        return made(submission=SUBMISSION._replace(user=user), view=view).pin is not None

    assert [goes(user, with_arrivals(view, [alone])) for user in ("alice", "bob")] == [False, True]
    view = replace(view, partitions={"gpu": SlurmPartition(by_user=True)})
    arrived = with_arrivals(view, [replace(alone, by_user=False)])
    assert [goes(user, arrived) for user in ("alice", "bob")] == [False, True]


def test_unpinned_for_limits_of_the_user() -> None:
    def why(user: str, **view: bool | frozenset[str] | tuple[Node, ...]) -> str:
        decision = made(submission=SUBMISSION._replace(user=user), view=replace(VIEW, **view))  # type: ignore[arg-type]
        return "" if decision.pin else decision.reasons[-1]

    assert "waits for a limit" in why("alice", at_limit=frozenset({"alice"}), can_retype=True)
    assert why("alice", at_limit=frozenset({"bob"})) == ""
    assert "hold GPUs already" in why("bob", enforces_limits=True)
    assert [why("bob", enforces_limits=True, can_retype=True), why("alice", enforces_limits=True), why("bob")] == [
        ""
    ] * 3
    node = replace(VIEW.nodes[0], whole=(Gpu("node0", "g7", 100, (Resident(9, "alice", 100),)),))
    assert "hold GPUs already" in why("alice", enforces_limits=True, nodes=(node, *VIEW.nodes[1:]))


def test_unpinned_for_the_state_of_the_cluster() -> None:
    assert "stale" in made(now=131.0).reasons[-1]
    assert "2 jobs of the partition wait already" in made(view=replace(VIEW, waiting={"gpu": 2})).reasons[-1]
    assert "a job of the partition waits already" in made(view=replace(VIEW, waiting={"gpu": 1})).reasons[-1]
    assert made(submission=SUBMISSION._replace(begin_time=100)).pin is not None


@pytest.mark.parametrize(("tier", "waits"), [(4, ""), (5, "jobs of partition long"), (6, "jobs of partition long")])
def test_unpinned_for_jobs_of_another_partition_that_has_nodes_of_the_jobs_own(tier: int, waits: str) -> None:
    gpu = SlurmPartition(tier=5, beside=frozenset({"long", "quick"}))
    # Nobody waits in that which goes first of all.
    others = {"long": SlurmPartition(tier=tier), "far": SlurmPartition(tier=9), "quick": SlurmPartition(tier=9)}
    decision = made(view=replace(VIEW, waiting={"long": 3, "far": 1}, partitions={"gpu": gpu, **others}))
    assert (decision.pin is None) == bool(waits)
    assert waits in decision.reasons[-1]


def test_nodes_that_are_reserved_before_a_job_ends() -> None:
    view = replace(VIEW, nodes=tuple(replace(node, reserved_from=101.0 + 3600) for node in VIEW.nodes))

    def pinned(view: ClusterView, minutes: int | None) -> bool:
        return made(submission=SUBMISSION._replace(time_limit_min=minutes), view=view).pin is not None

    assert pinned(VIEW, None)
    assert not pinned(view, None)
    assert pinned(view, 60)
    assert not pinned(view, 61)
    half_an_hour = {"gpu": SlurmPartition(limit_s=1800.0)}
    assert pinned(replace(view, partitions=half_an_hour), None)
    assert not pinned(replace(view, partitions=half_an_hour), 61)


def test_users_with_mps_servers_of_their_own() -> None:
    full = Gpu("n1", "g1", 80, (Resident(8, "alice", 80),))
    view = replace(VIEW, nodes=(replace(VIEW.nodes[0], gpus=(VIEW.nodes[0].gpus[0], full)),))

    def goes(user: str, users: MpsUsers = "single", partition: Partition = PARTITION) -> tuple[str, str]:
        decision = made(5_000, submission=SUBMISSION._replace(user=user), view=view, users=users, partition=partition)
        assert decision.pin is not None
        return decision.pin.type, decision.reasons[-1]

    assert goes("alice") == ("g1", "magm chose g1 of n1")
    assert goes("bob") == ("g0", "magm chose g0 of n1")
    assert goes("alice", "multi") == ("g0", "magm chose g0 of n1")
    assert goes("alice", partition=replace(PARTITION, method="streams")) == ("g0", "magm chose g0 of n1")


def test_where_only_other_users_gpus_have_room() -> None:
    carol = SUBMISSION._replace(user="carol")
    view = replace(VIEW, nodes=(replace(VIEW.nodes[0], gpus=(Gpu("n1", "g1", 80, (Resident(8, "alice", 80),)),)),))
    turns = made(5_000, submission=carol, view=view, users="single")
    assert (turns.pin, turns.share < 20) == (None, True)
    assert turns.reasons[-1] == "not pinned: no GPU without other users' jobs has room now"
    waits = made(5_000, submission=carol, view=view, users="single", meet="wait")
    assert (waits.pin, waits.share) == (None, 100)
    assert waits.reasons[0].startswith("it waits for a whole GPU")
    # The same for a job that cannot be pinned for another reason: Slurm would choose from all GPUs.
    late = made(5_000, submission=carol, users="single", meet="wait", now=1000.0)
    assert (late.pin, late.share) == (None, 100)
    # Whom nothing needs to be kept apart from, and who is kept apart by his pin, shares.
    late = made(5_000, submission=carol, users="multi", meet="wait", now=1000.0)
    assert (late.pin, late.share < 20) == (None, True)
    for users in ("multi", "single"):
        shared = made(5_000, submission=carol, users=users, meet="wait")
        assert (shared.pin is not None, shared.share < 20) == (True, True)
    assert made(5_000, submission=carol, view=view, users="multi", meet="wait").pin is not None


def test_a_user_whose_name_is_not_known_is_kept_apart_from_everybody() -> None:
    view = replace(VIEW, nodes=(replace(VIEW.nodes[0], gpus=(Gpu("n1", "g1", 20, (Resident(8, "alice", 20),)),)),))
    unknown = SUBMISSION._replace(user="")  # the controller's directory of users does not answer
    assert made(5_000, submission=unknown, view=view, users="single").pin is None
    assert made(5_000, submission=unknown, view=view, users="single", meet="wait").share == 100
    assert made(5_000, submission=unknown, users="single").pin is not None


def test_a_gpu_that_is_promised_to_a_job_that_waits_may_be_another_users() -> None:
    promised = Gpu("n1", "g1", 41, (Resident(8, "alice", 40),))
    view = replace(VIEW, nodes=(replace(VIEW.nodes[0], gpus=(promised,)),))
    alice = SUBMISSION._replace(user="alice")
    assert made(5_000, submission=alice, view=view, users="single").pin is None
    assert made(5_000, submission=alice, view=view, users="multi").pin is not None


def test_a_type_is_a_device_or_a_feature() -> None:
    decision = made(request=REQUEST._replace(type="g0"))
    assert decision.pin is not None
    assert (decision.pin.type, decision.feature) == ("g0", "")
    decision = made(request=REQUEST._replace(type="h200"))
    assert (decision.pin is not None, decision.feature) == (True, "h200")
    assert "GPU type h200 became the node feature h200" in decision.reasons
    decision = made(request=REQUEST._replace(type="a100"))
    assert (decision.pin, decision.feature) == (None, "a100")
    decision = made(request=REQUEST._replace(type="h200"), partition=replace(H200, feature="gpu_h200"))
    assert decision.feature == "gpu_h200"


@pytest.mark.parametrize(
    ("model", "feature", "asked", "becomes"),
    [
        ("h200", "", "h200", "h200"),
        ("h200", "", "NVIDIA_H200", "h200"),
        ("h200", "hopper", "h200", "hopper"),
        ("h200", "hopper", "hopper", "hopper"),
        ("a100-80gb", "", "a100", "a100"),
        ("a100-80gb", "big", "a100", "big"),
        ("", "hopper", "fast", "fast"),
    ],
)
def test_a_type_that_names_the_model_becomes_its_feature(model: str, feature: str, asked: str, becomes: str) -> None:
    features = frozenset({"h200", "hopper", "a100", "big", "fast"})
    others = replace(VIEW.nodes[0], name="n2", gpus=(), features=frozenset())
    view = replace(VIEW, nodes=(others, replace(VIEW.nodes[0], features=features)))
    partition = replace(PARTITION, gpu_model=model, feature=feature)
    request = REQUEST._replace(type=asked)
    assert unknown_type(request, partition, view) == ""
    assert made(request=request, partition=partition, view=view).feature == becomes


@pytest.mark.parametrize("feature", ["", "hopper"])
@pytest.mark.parametrize("asked", ["a100", "infiniband", "h2", "h200-big", "nvidia"])
def test_a_type_that_names_other_gpus_is_not_rewritten(asked: str, feature: str) -> None:
    features = frozenset({"h200", "hopper", "a100", "infiniband", "nvidia"})
    view = replace(VIEW, nodes=(replace(VIEW.nodes[0], features=features),))
    why = unknown_type(REQUEST._replace(type=asked), replace(H200, feature=feature), view)
    assert why == f"GPU type {asked} is not the partition's: its GPUs are h200"


def arrival(share: int, gpu: Gpu | None = None, partition: str = "gpu") -> Arrival:
    return Arrival(Resident(0, "alice", share), gpu, frozenset({partition}), 4, 1000)


def test_a_type_that_slurm_would_refuse() -> None:
    def why(name: str, view: ClusterView = VIEW, feature: str = "") -> str:
        partition = replace(H200 if feature else PARTITION, feature=feature)
        return unknown_type(REQUEST._replace(type=name), partition, view)

    assert [why(name) for name in ("", "g1", "h200")] == ["", "", ""]
    assert why("a100") == "GPU type a100 is not known: no node has it as device type, none has the feature a100"
    assert "the feature gpu_h200" in why("h200", feature="gpu_h200")
    # Before the first look at Slurm, g1 may be a device type or none.
    assert why("g1", ClusterView()) == "GPU type g1 is not known: nobody has looked at Slurm's nodes yet"
    assert "nobody has looked" in why("g1", ClusterView(), feature="hopper")
    assert why("h200", ClusterView(), feature="hopper") == ""
    assert "nobody has looked" in unknown_type(REQUEST._replace(type="h200"), H200, ClusterView())


def test_a_type_that_several_gpus_have() -> None:
    view = replace(VIEW, nodes=(replace(VIEW.nodes[0], gpus=(), features=frozenset(), several=frozenset({"h200"})),))
    for partition in (PARTITION, replace(H200, feature=""), replace(H200, feature="gpu_h200")):
        request = REQUEST._replace(type="h200")
        assert unknown_type(request, partition, view) == ""
        assert made(request=request, partition=partition, view=view).feature == ""
    assert "none has the feature a100" in unknown_type(REQUEST._replace(type="a100"), PARTITION, view)
    a100 = replace(PARTITION, gpu_model="a100")
    assert "its GPUs are a100" in unknown_type(REQUEST._replace(type="h200"), a100, view)
    named = replace(view, nodes=(replace(view.nodes[0], features=frozenset({"h200"})),))
    assert made(request=REQUEST._replace(type="h200"), partition=PARTITION, view=named).feature == "h200"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"gpus": (), "several": frozenset({""})}, "no GPU of partition gpu has a Type and shares of its own"),
        ({"shares": False}, "no GPU of partition gpu has a Type and shares of its own"),
        ({"available": False}, "no GPU has room now"),
        (
            {"available": False, "opaque": True},
            "which GPUs of n1 are free is not told: AccountingStorageTRES lacks their Types, or radd may not see jobs",
        ),
    ],
)
@pytest.mark.parametrize("placement", ["magm", "exclusive"])
def test_why_there_is_no_gpu_to_pin_to(changes: dict[str, Any], why: str, placement: Any) -> None:
    view = replace(VIEW, nodes=(replace(VIEW.nodes[0], **changes),))
    decision = made(view=view, partition=replace(PARTITION, placement=placement))
    assert decision.reasons[-1] == f"not pinned: {why}"


def test_a_decision_counts_as_resident() -> None:
    view = with_arrivals(VIEW, [arrival(60, VIEW.nodes[0].gpus[1])])
    (node,) = view.nodes
    assert (node.free_cpus, node.free_memory_mib) == (12, 63_000)
    assert [gpu.free_shares for gpu in node.gpus] == [50, 40]
    decision = made(view=view)
    assert decision.pin is not None
    assert decision.pin.type == "g0"


@pytest.mark.parametrize(
    ("share", "partition", "free"),
    [(30, "gpu", [20, 70]), (60, "gpu", [-10, 40]), (100, "gpu", [-50, 0]), (9, "x", [50, 100])],
)
def test_a_job_that_may_go_anywhere_counts_everywhere(share: int, partition: str, free: list[int]) -> None:
    view = with_arrivals(VIEW, [arrival(share, partition=partition)])
    taken = floating_in(view, "gpu").shares
    assert [gpu.free_shares - taken for gpu in view.nodes[0].gpus] == free


def test_what_may_be_taken_is_not_given_away() -> None:
    view = with_arrivals(VIEW, [arrival(30)])
    decision = made(view=view)
    assert decision.pin is not None
    assert decision.pin.type == "g1"
    assert made(view=with_arrivals(view, [arrival(40)])).pin is None
    assert made(view=view, submission=SUBMISSION._replace(cpus_per_task=13)).pin is None
    assert made(view=view, submission=SUBMISSION._replace(memory_per_node_mib=63_000)).pin is not None
    assert made(view=view, submission=SUBMISSION._replace(memory_per_node_mib=63_001)).pin is None


def test_known_models_need_no_memory_in_the_configuration() -> None:
    assert memory_of(Partition(gpu_model="a100-40gb")) == 40_960 - 2048
    assert memory_of(Partition()) == 0


@given(st.lists(st.integers(1, 120_000), min_size=1, max_size=8), st.integers(4096, 200_000))
def test_caps_cover_the_estimate_and_what_is_put_together_fits(uppers: list[int], memory: int) -> None:
    partition = Partition(share_limit=100)
    usable = usable_mib(memory, partition)
    together, caps = 0, 0
    for upper in uppers:
        share = share_of(upper, 0.0, usable, partition)
        cap = cap_of(share, usable)
        assert 1 <= share <= 100
        assert cap is None or cap >= upper
        if together + share <= 100:
            together += share
            caps += usable if cap is None else cap
    assert caps <= usable


def test_a_binary_fraction_is_not_rounded_up_to_a_share_more() -> None:
    assert 100 * (7 / 100) > 7
    assert share_of(7, 0.0, 100, Partition()) == 7
    assert share_of(8, 0.0, 100, Partition()) == 8


def test_no_cap_follows_from_a_memory_that_nobody_knows() -> None:
    assert cap_of(40, 0) is None


def test_arrivals_count_alike_one_by_one_and_together() -> None:
    device = VIEW.nodes[0].gpus[1]
    jobs = [arrival(30), arrival(20, device), arrival(9, partition="x"), arrival(100), arrival(40)]
    jobs.append(replace(jobs[0], partitions=frozenset({"gpu", "x"})))
    jobs.append(replace(jobs[1], gpu=replace(device, node="gone")))
    one_by_one = VIEW
    for job in jobs:
        one_by_one = with_arrivals(one_by_one, [job])
    together = with_arrivals(VIEW, jobs)
    assert together == one_by_one
    assert floating_in(together, "gpu").shares == 200
    assert floating_in(together, "x").cpus == 2 * jobs[0].cpus
    assert floating_in(together, "nowhere").shares == 0
