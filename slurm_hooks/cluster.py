"""The view of the cluster that decisions are made from: frozen values, no reading of anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slurm_hooks.columns import Columns

from slurm_hooks.shares import SHARES_PER_GPU

# What a job takes that gets all memory of its node, in MiB: more than any has.
ALL_MEMORY: Final = 1 << 50


@dataclass(frozen=True)
class Resident:
    """A job that holds shares of a GPU, or is pinned to it and waits.

    Attributes:
        job_id: Slurm's id, or 0 for a decision whose job Slurm does not show yet.
        share: shares out of 100.
        memory_mib: upper bound of its memory in MiB, or None where nothing is known.
        smact: its SMACT (0 to 1) as measured, else as declared, or None.
        activity: its profile as `interference.pack` makes it, or empty.
        threads: its MPS thread percentage.
    """

    job_id: int
    user: str
    share: int
    memory_mib: int | None = None
    smact: float | None = None
    activity: tuple[float, ...] = ()
    threads: int = 100


@dataclass(frozen=True)
class Gpu:
    """One GPU of a node.

    Attributes:
        type: its device type in Slurm, for example ``g2``.
        used_shares: shares that are spoken for, 100 where the whole GPU is taken; it covers the residents' shares
            and those of jobs of which nothing else is known.
        number: its place among its node's GPUs, from 0: as the monitor counts them.
    """

    node: str
    type: str
    used_shares: int
    residents: tuple[Resident, ...] = ()
    number: int = 0

    @property
    def free_shares(self) -> int:
        """Shares that a job could still get; below 0 where arrivals may take more than there is."""
        return SHARES_PER_GPU - self.used_shares


@dataclass(frozen=True)
class Node:
    """One node: what decides whether a job can start there now.

    Attributes:
        gpus: GPUs whose device types are their own, so that shares of them can be asked for.
        whole: GPUs whose device types are their own, but have no shares beside others that do: nobody is pinned there.
        instances: device types of its MIG instances.
        reserved_from: Unix time from which on a reservation holds it; jobs that may run longer do not start there.
        shares: whether Slurm says that it has shares: since slurmctld started, not before the node has registered.
        memory_mib: memory that it has for jobs in all.
        threads: processors of one of its cores, which Slurm gives away together.
        owner: the only user whose jobs it takes now, or the empty string.
        idle: whether no job holds any of its processors.
        several: device types of its GPUs that cannot be told apart: those of which it has several, and the empty string
            where it has some without a type.
        opaque: whether it runs jobs of which Slurm does not tell which of its GPUs they hold; then it is not available.
    """

    name: str
    available: bool
    partitions: frozenset[str]
    features: frozenset[str]
    free_cpus: int
    free_memory_mib: int
    gpus: tuple[Gpu, ...]
    instances: frozenset[str] = frozenset()
    shares: bool = True
    reserved_from: float = float("inf")
    memory_mib: int = 0
    threads: int = 1
    owner: str = ""
    idle: bool = True
    whole: tuple[Gpu, ...] = ()
    several: frozenset[str] = frozenset()
    opaque: bool = False

    @property
    def has_gpus(self) -> bool:
        """Whether it has GPUs beside its MIG instances."""
        return bool(self.gpus or self.whole or self.several)


@dataclass(frozen=True)
class PinnedJob:
    """A pending job that asks for shares of one device type; `nodes` as Slurm lists those that it names.

    Attributes:
        seen: whether Slurm has looked at it; until then its pin holds nothing up.
    """

    job_id: int
    type: str
    share: int
    nodes: str = ""
    seen: bool = True


@dataclass(frozen=True)
class Arrival:
    """A job that Slurm does not show yet.

    Attributes:
        resident: what it will hold; 100 shares for a whole GPU.
        gpu: where it goes, or None where Slurm chooses.
        partitions: partitions that it may go to.
        cpus, memory_mib: what it takes of its node.
        by_user: whether its node takes no other user's jobs meanwhile.
    """

    resident: Resident
    gpu: Gpu | None
    partitions: frozenset[str]
    cpus: int
    memory_mib: int
    by_user: bool = False


@dataclass(frozen=True)
class Floating:
    """What jobs that Slurm places, and does not show yet, may have taken of any one GPU or node.

    Attributes:
        shares, cpus, memory_mib: of all of them. A GPU that has too little room for one of them now may be left by its
            residents at any moment, so it counts everywhere.
    """

    shares: int = 0
    cpus: int = 0
    memory_mib: int = 0


_NOTHING = Floating()


@dataclass(frozen=True)
class PerGpu:
    """What Slurm gives a job for each of its GPUs where the job says nothing; None where it gives nothing by GPU."""

    cpus: int | None = None
    memory_mib: int | None = None


@dataclass(frozen=True)
class SlurmPartition:
    """What Slurm says of a partition.

    Attributes:
        up: whether jobs of it start.
        by_user: whether its nodes run jobs of one user at a time (ExclusiveUser).
        whole_nodes: whether its jobs get their nodes whole (OverSubscribe=EXCLUSIVE).
        limits_nodes: whether its jobs together get no more than a part of a node (MaxCPUsPerNode).
        per_gpu: what its jobs get for each GPU.
        limit_s: how long a job may run that does not say.
        longest_s: how long a job may run at most.
        counts_memory: whether its jobs hold memory of their nodes.
        memory_per_cpu_mib, memory_per_node_mib: what one holds then that says nothing; all of it where neither is set.
        most_memory_per_cpu_mib: a job that asks for more gets more processors (MaxMemPerCPU), or None for no limit.
        tier: Slurm looks at the jobs of a partition with a higher one first (PriorityTier).
        beside: the other partitions that have nodes with GPUs of it.
    """

    up: bool = True
    by_user: bool = False
    whole_nodes: bool = False
    limits_nodes: bool = False
    per_gpu: PerGpu = PerGpu()
    limit_s: float = float("inf")
    longest_s: float = float("inf")
    counts_memory: bool = False
    memory_per_cpu_mib: int | None = None
    memory_per_node_mib: int | None = None
    most_memory_per_cpu_mib: int | None = None
    tier: int = 0
    beside: frozenset[str] = frozenset()


_ORDINARY = SlurmPartition()


@dataclass(frozen=True)
class ClusterView:
    """What is known of the cluster at one time.

    Attributes:
        taken: clock reading, in seconds, at which the look at Slurm began; minus infinity for never.
        waiting: jobs of each partition that wait for resources or behind such jobs.
        waiting_jobs: all of these, each once, also where it names several partitions.
        pinned: jobs that wait for resources and may run on one device type only.
        lacking: partitions with nodes that have no shares of their GPUs now.
        held: jobs for shares that Slurm holds, as it took none of its nodes to have any.
        floating: by partition, what jobs may have taken that Slurm places and does not show yet.
        can_retype: whether this Slurm can move a pending job to another device type.
        counts_shares: whether slurmctld of this Slurm survives a request for shares of GPUs.
        keeps_shares: whether this Slurm knows from slurmctld's start what shares nodes with jobs have.
        partitions: what Slurm says of its partitions, by name.
        filters_steps: whether srun runs cli_filter.lua, as far as slurmctld knows.
        without_shares: reservations in which this Slurm starts no job for shares.
        at_limit: users with a job that waits for a limit of their association or QOS.
        enforces_limits: whether this Slurm may let a job wait for such a limit.
        columns: what placement goes by, of these nodes or of what they were before, or None where nobody made it.
    """

    taken: float = float("-inf")
    nodes: tuple[Node, ...] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    waiting_jobs: int = 0
    pinned: tuple[PinnedJob, ...] = ()
    lacking: frozenset[str] = frozenset()
    held: tuple[int, ...] = ()
    floating: Mapping[str, Floating] = field(default_factory=dict)
    can_retype: bool = False
    counts_shares: bool = True
    keeps_shares: bool = False
    partitions: Mapping[str, SlurmPartition] = field(default_factory=dict)
    filters_steps: bool = True
    without_shares: frozenset[str] = frozenset()
    at_limit: frozenset[str] = frozenset()
    enforces_limits: bool = False
    columns: Columns | None = field(default=None, compare=False, repr=False)


def with_arrivals(view: ClusterView, arrivals: Iterable[Arrival]) -> ClusterView:
    """`view` as it may be when jobs have started that Slurm does not show yet.

    In a burst there are thousands of them: what one more costs does not grow with those before it.
    """
    unplaced: list[Arrival] = []
    placed: list[tuple[Gpu, Arrival]] = []
    for arrival in arrivals:
        if arrival.gpu is None:
            unplaced.append(arrival)
        else:
            placed.append((arrival.gpu, arrival))
    nodes = _with_residents(view.nodes, placed) if placed else view.nodes
    floating = {**view.floating}
    for partition in {name for arrival in unplaced for name in arrival.partitions}:
        jobs = [arrival for arrival in unplaced if partition in arrival.partitions]
        floating[partition] = _more(view.floating.get(partition, _NOTHING), jobs)
    return replace(view, nodes=nodes, floating=floating)


def floating_in(view: ClusterView, partition: str) -> Floating:
    """What may have been taken of a partition's nodes: what is free beyond that is free for sure."""
    if not view.floating:
        return _NOTHING
    names = (partition, *partition_of(view, partition).beside)
    found = [view.floating[name] for name in names if name in view.floating]
    return Floating(
        sum(each.shares for each in found), sum(each.cpus for each in found), sum(each.memory_mib for each in found)
    )


def partition_of(view: ClusterView, name: str) -> SlurmPartition:
    """What Slurm says of a partition; nothing special where it was not seen."""
    return view.partitions.get(name, _ORDINARY)


def _more(floating: Floating, jobs: Sequence[Arrival]) -> Floating:
    return Floating(
        floating.shares + sum(job.resident.share for job in jobs),
        floating.cpus + sum(job.cpus for job in jobs),
        floating.memory_mib + sum(job.memory_mib for job in jobs),
    )


def _with_residents(nodes: Sequence[Node], placed: Sequence[tuple[Gpu, Arrival]]) -> tuple[Node, ...]:
    """`nodes` with jobs on their GPUs; those of nodes that are not there are left out."""
    made, names = list(nodes), {gpu.node for gpu, _ in placed}
    index = {node.name: number for number, node in enumerate(made) if node.name in names}
    for gpu, arrival in placed:
        number = index.get(gpu.node)
        if number is not None:
            made[number] = _with_resident(made[number], gpu.type, arrival)
    return tuple(made)


def _with_resident(node: Node, device: str, arrival: Arrival) -> Node:
    gpus = tuple(
        replace(gpu, residents=(*gpu.residents, arrival.resident), used_shares=gpu.used_shares + arrival.resident.share)
        if gpu.type == device
        else gpu
        for gpu in node.gpus
    )
    free_memory = node.free_memory_mib - arrival.memory_mib
    owner = arrival.resident.user if arrival.by_user else node.owner
    return replace(node, gpus=gpus, free_cpus=node.free_cpus - arrival.cpus, free_memory_mib=free_memory, owner=owner)


def with_smact(view: ClusterView, measured: Mapping[int, float]) -> ClusterView:
    """`view` with the SMACT of residents that were measured, by job id, in place of what they declared."""
    if not measured:
        return view

    def changed(gpu: Gpu) -> Gpu:
        residents = (replace(r, smact=measured[r.job_id]) if r.job_id in measured else r for r in gpu.residents)
        return replace(gpu, residents=tuple(residents))

    nodes = tuple(replace(node, gpus=tuple(map(changed, node.gpus))) for node in view.nodes)
    return replace(view, nodes=nodes)
