"""Which GPU is best for a job: the site's policy over the view of the cluster. Pure.

Policies as in section 6.2.2 of the RAD-RM dissertation, on shares instead of momentary readings: what is
available is what is not reserved, so that the answer holds for as long as the residents stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from slurm_hooks.cluster import ALL_MEMORY, ClusterView, Floating, Gpu, Node, floating_in
from slurm_hooks.shares import SHARES_PER_GPU


class Need(NamedTuple):
    """What a job needs of a GPU and of its node.

    Attributes:
        share: shares of one GPU.
        memory_per_cpu_mib: what of `memory_mib` goes with each processor; Slurm gives whole cores, and it for each.
        smact_default: SMACT of a resident that declares none.
        usable_mib: memory of one GPU that may be given away.
        nodes: names of the only nodes that will do; empty for any.
        excluded: names of nodes that will not do.
        features: node features that are all needed.
        gpu_type: the only device type that will do; empty for any.
        until: Unix time at which the job may still run; infinity where nothing limits it.
        user: whose jobs may share an MPS server with it; empty for everybody's.
        owner: whose job it is.
        by_user: whether its node may run no other user's jobs.
    """

    share: int
    partition: str
    cpus: int = 1
    memory_mib: int = 0
    memory_per_cpu_mib: int = 0
    usable_mib: int = 0
    smact_default: float = 0.0
    nodes: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    gpu_type: str = ""
    until: float = float("inf")
    user: str = ""
    owner: str = ""
    by_user: bool = False


def candidates(view: ClusterView, need: Need) -> list[Gpu]:
    """GPUs on which the job could start now for sure, in the order of nodes and devices.

    Where users have MPS servers of their own, jobs of other users would take turns with it instead of running beside
    it: GPUs that hold such jobs do not count.
    """
    floating = floating_in(view, need.partition)
    fitting = [
        gpu
        for node in view.nodes
        if _node_fits(node, need, floating)
        for gpu in node.gpus
        if gpu.free_shares >= need.share + floating.shares and need.gpu_type in ("", gpu.type)
    ]
    return [gpu for gpu in fitting if not holds_others(gpu, need.user)] if need.user else fitting


def holds_others(gpu: Gpu, user: str) -> bool:
    """Whether a GPU holds jobs of other users, or has promised shares to jobs that may be theirs."""
    shares = 0
    for resident in gpu.residents:
        if resident.user != user:
            return True
        shares += resident.share
    return gpu.used_shares > shares


def _node_fits(node: Node, need: Need, floating: Floating) -> bool:
    return (
        node.available
        and node.shares
        and need.until <= node.reserved_from
        and need.partition in node.partitions
        and (not need.nodes or node.name in need.nodes)
        and node.name not in need.excluded
        and need.features <= node.features
        and _has_room(node, need, floating)
        and _takes(node, need)
    )


def _has_room(node: Node, need: Need, floating: Floating) -> bool:
    """Whether processors and memory of a node are left for a job."""
    cpus = -(-need.cpus // node.threads) * node.threads
    memory_mib = need.memory_mib + (cpus - need.cpus) * need.memory_per_cpu_mib
    if memory_mib >= ALL_MEMORY:
        memory_mib = node.memory_mib
    return node.free_cpus - floating.cpus >= cpus and node.free_memory_mib - floating.memory_mib >= memory_mib


def _takes(node: Node, need: Need) -> bool:
    """Whether a node takes jobs of this user now, whatever it has left."""
    if node.owner:
        return node.owner == need.owner
    if not need.by_user:
        return True
    return node.idle and all(resident.user == need.owner for gpu in node.gpus for resident in gpu.residents)


def free_memory_mib(gpu: Gpu, usable_mib: int) -> float:
    """Memory of `gpu` that no resident has reserved, in MiB."""
    known = shares = 0.0
    for resident in gpu.residents:
        memory = resident.memory_mib
        known += usable_mib * resident.share / SHARES_PER_GPU if memory is None else memory
        shares += resident.share
    unknown = gpu.used_shares - shares
    return usable_mib - known - (unknown * usable_mib / SHARES_PER_GPU if unknown > 0 else 0.0)


def smact(gpu: Gpu, default: float) -> float:
    """Sum of the residents' SMACT; shares held by jobs that are not known count as one resident."""
    total = shares = 0.0
    for resident in gpu.residents:
        total += default if resident.smact is None else resident.smact
        shares += resident.share
    return total + default if gpu.used_shares > shares else total


Ranking = Callable[[Gpu, Need], tuple[float, ...]]


def _magm(gpu: Gpu, need: Need) -> tuple[float, ...]:
    return (-free_memory_mib(gpu, need.usable_mib), smact(gpu, need.smact_default))


def _lug(gpu: Gpu, need: Need) -> tuple[float, ...]:
    return (smact(gpu, need.smact_default), -free_memory_mib(gpu, need.usable_mib))


def _mug(gpu: Gpu, need: Need) -> tuple[float, ...]:
    return (-smact(gpu, need.smact_default), free_memory_mib(gpu, need.usable_mib))


RANKINGS: Final[dict[str, Ranking]] = {"magm": _magm, "lug": _lug, "mug": _mug, "kace": _magm}


def choose(view: ClusterView, need: Need, policy: str, last: tuple[str, str] | None = None) -> Gpu | None:
    """The best GPU for a job, or None where it must wait.

    Args:
        view: the cluster as it is, with the decisions that Slurm does not show yet.
        need: what the job needs.
        policy: ``magm`` most available memory, ``lug`` least SMACT, ``mug`` most utilised, ``rr`` round robin,
            ``exclusive`` an idle GPU, ``kace`` (where no predictor is installed) as ``magm``.
        last: node and type of the GPU that round robin chose last.
    """
    fitting = candidates(view, need)
    if policy == "exclusive":
        fitting = [gpu for gpu in fitting if gpu.free_shares == SHARES_PER_GPU]
    if not fitting:
        return None
    if policy == "rr":
        return _after(fitting, last)
    ranking = RANKINGS.get(policy)
    if ranking is None:
        return fitting[0]
    empty: dict[int, tuple[float, ...]] = {}  # GPUs without known residents differ in their shares only

    def rank(gpu: Gpu) -> tuple[float, ...]:
        if gpu.residents:
            return ranking(gpu, need)
        known = empty.get(gpu.used_shares)
        if known is None:
            known = empty[gpu.used_shares] = ranking(gpu, need)
        return known

    return min(fitting, key=rank)


def _after(gpus: Sequence[Gpu], last: tuple[str, str] | None) -> Gpu:
    if last is None:
        return gpus[0]
    return next((gpu for gpu in gpus if (gpu.node, gpu.type) > last), gpus[0])
