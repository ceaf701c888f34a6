"""The view of the cluster that decisions are made from: frozen values, no reading of anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

SHARES_PER_GPU = 100


@dataclass(frozen=True)
class Resident:
    """A job that holds shares of a GPU, or is pinned to it and waits.

    Attributes:
        job_id: Slurm's id, or 0 for a decision whose job Slurm does not show yet.
        share: shares out of 100.
        memory_mib: upper bound of its memory in MiB, or None where nothing is known.
        smact: its SMACT (0 to 1) as measured, else as declared, or None.
        activity: its profile as `interference.pack` makes it, or empty.
    """

    job_id: int
    user: str
    share: int
    memory_mib: int | None = None
    smact: float | None = None
    activity: tuple[float, ...] = ()


@dataclass(frozen=True)
class Gpu:
    """One GPU of a node.

    Attributes:
        type: its device type in Slurm, for example ``g2``.
        used_shares: shares that are spoken for, 100 where the whole GPU is taken; it covers the residents' shares
            and those of jobs of which nothing else is known.
    """

    node: str
    type: str
    used_shares: int
    residents: tuple[Resident, ...] = ()

    @property
    def free_shares(self) -> int:
        """Shares that a job could still get."""
        return max(0, SHARES_PER_GPU - self.used_shares)


@dataclass(frozen=True)
class Node:
    """One node: what decides whether a job can start there now."""

    name: str
    available: bool
    partitions: frozenset[str]
    features: frozenset[str]
    free_cpus: int
    free_memory_mib: int
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True)
class PinnedJob:
    """A pending job that asks for shares of one device type."""

    job_id: int
    type: str
    share: int


@dataclass(frozen=True)
class ClusterView:
    """What is known of the cluster at one time.

    Attributes:
        taken: clock reading, in seconds, at which the look at Slurm began; minus infinity for never.
        waiting: jobs of each partition that wait for resources or behind such jobs.
        pinned: jobs that wait for resources and may run on one device type only.
        can_retype: whether this Slurm can move a pending job to another device type.
    """

    taken: float = float("-inf")
    nodes: tuple[Node, ...] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    pinned: tuple[PinnedJob, ...] = ()
    can_retype: bool = False


@dataclass(frozen=True)
class Arrival:
    """A job that Slurm does not show yet.

    Attributes:
        resident: what it will hold; 100 shares for a whole GPU.
        gpu: where it goes, or None where Slurm chooses.
        partitions: partitions that it may go to.
        cpus, memory_mib: what it takes of its node.
    """

    resident: Resident
    gpu: Gpu | None
    partitions: frozenset[str]
    cpus: int
    memory_mib: int


def with_arrival(view: ClusterView, arrival: Arrival) -> ClusterView:
    """`view` as it may be when a job has started that Slurm does not show yet.

    A job that goes wherever Slurm likes is counted on every GPU that it fits on: what is free then is free for sure.
    """
    target = arrival.gpu
    if target is not None:
        return _with_resident(view, arrival, lambda node, gpu: (node.name, gpu.type) == (target.node, target.type))

    def may_take(node: Node, gpu: Gpu) -> bool:
        return bool(arrival.partitions & node.partitions) and gpu.free_shares >= arrival.resident.share

    return _with_resident(view, arrival, may_take)


def _with_resident(view: ClusterView, arrival: Arrival, here: Callable[[Node, Gpu], bool]) -> ClusterView:
    def changed(node: Node) -> Node:
        taken = [here(node, gpu) for gpu in node.gpus]
        if not any(taken):
            return node
        gpus = tuple(
            replace(
                gpu,
                residents=(*gpu.residents, arrival.resident),
                used_shares=gpu.used_shares + arrival.resident.share,
            )
            if takes
            else gpu
            for gpu, takes in zip(node.gpus, taken, strict=True)
        )
        free_memory = node.free_memory_mib - arrival.memory_mib
        return replace(node, gpus=gpus, free_cpus=node.free_cpus - arrival.cpus, free_memory_mib=free_memory)

    return replace(view, nodes=tuple(changed(node) for node in view.nodes))


def with_smact(view: ClusterView, measured: Mapping[int, float]) -> ClusterView:
    """`view` with the SMACT of residents that were measured, by job id, in place of what they declared."""
    if not measured:
        return view

    def changed(gpu: Gpu) -> Gpu:
        residents = (replace(r, smact=measured[r.job_id]) if r.job_id in measured else r for r in gpu.residents)
        return replace(gpu, residents=tuple(residents))

    nodes = tuple(replace(node, gpus=tuple(map(changed, node.gpus))) for node in view.nodes)
    return replace(view, nodes=nodes)
