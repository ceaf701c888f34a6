"""Which GPU is best for a job: the site's policy over the view of the cluster. Pure.

Policies as in section 6.2.2 of the RAD-RM dissertation, on shares instead of momentary readings: what is
available is what is not reserved, so that the answer holds for as long as the residents stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slurm_hooks.cluster import ALL_MEMORY, ClusterView, Floating, Gpu, Node, floating_in
from slurm_hooks.columns import NOBODY, SEVERAL, Columns, Floats, Places, columns_in
from slurm_hooks.shares import SHARES_PER_GPU

Truths = npt.NDArray[np.bool_]


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
    columns = columns_in(view)
    return [columns.gpus[place] for place in _fitting(columns, view, need).tolist()]


def choose(view: ClusterView, need: Need, policy: str, last: tuple[str, str] | None = None) -> Gpu | None:
    """The best GPU for a job, or None where it must wait.

    Args:
        view: the cluster as it is, with the decisions that Slurm does not show yet.
        need: what the job needs.
        policy: ``magm`` most available memory, ``lug`` least SMACT, ``mug`` most utilised, ``rr`` round robin,
            ``exclusive`` an idle GPU, ``kace`` (where no predictor is installed) as ``magm``.
        last: node and type of the GPU that round robin chose last.
    """
    columns = columns_in(view)
    places = _fitting(columns, view, need)
    if policy == "exclusive":
        places = places[columns.of_gpus.free[places] == SHARES_PER_GPU]
    if not places.size:
        return None
    if policy == "rr":
        return _after([columns.gpus[place] for place in places.tolist()], last)
    return columns.gpus[int(places[0]) if policy == "exclusive" else _best(columns, places, policy, need)]


def _fitting(columns: Columns, view: ClusterView, need: Need) -> Places:
    """Where the candidates stand among the GPUs."""
    floating = floating_in(view, need.partition)
    takes = _with_room(columns, need, floating)
    fitting = [
        need.partition in partitions and need.features <= features for partitions, features in list(columns.kinds)
    ]
    if not all(fitting):
        takes &= np.array(fitting, dtype=np.bool_)[columns.kind_of]
    if need.nodes or need.excluded or need.by_user or columns.owned:
        takes &= np.array([_takes(node, need) for node in columns.nodes], dtype=np.bool_)
    fits = takes[columns.node_of] & (columns.of_gpus.free >= need.share + floating.shares)
    if need.gpu_type:
        fits &= columns.of_gpus.type == columns.types.get(need.gpu_type, SEVERAL)
    if need.user:
        holder = columns.of_gpus.holder
        fits &= (holder == NOBODY) | (holder == columns.users.get(need.user, NOBODY))
    return fits.nonzero()[0]


def _with_room(columns: Columns, need: Need, floating: Floating) -> Truths:
    """Which nodes start jobs for as long as this one may run, and have processors and memory left for it."""
    of_nodes = columns.of_nodes
    cpus: Floats | float = need.cpus
    wanted: Floats | float = need.memory_mib
    if columns.threaded:
        threads = of_nodes.threads
        cpus = np.ceil(need.cpus / threads) * threads
        wanted = need.memory_mib + (cpus - need.cpus) * need.memory_per_cpu_mib
    if need.memory_mib >= ALL_MEMORY:
        wanted = of_nodes.memory
    room: Truths = of_nodes.free_cpus >= cpus + floating.cpus
    room &= of_nodes.free_memory >= wanted + floating.memory_mib
    room &= of_nodes.reserved_from >= need.until
    return room


def _takes(node: Node, need: Need) -> bool:
    """Whether a node is one of those that will do, and takes jobs of this user now, whatever it has left."""
    if (need.nodes and node.name not in need.nodes) or node.name in need.excluded:
        return False
    if node.owner:
        return node.owner == need.owner
    if not need.by_user:
        return True
    return node.idle and all(resident.user == need.owner for gpu in node.gpus for resident in gpu.residents)


def _best(columns: Columns, places: Places, policy: str, need: Need) -> int:
    """The first of `places` that ranks highest by a policy: by one thing, where several are alike by another."""
    if places.size == 1:
        return int(places[0])
    of_gpus = columns.of_gpus
    free_memory, load = need.usable_mib - of_gpus.memory[places], of_gpus.smact[places]
    if columns.untold:
        free_memory -= of_gpus.untold_memory[places] * need.usable_mib / SHARES_PER_GPU
        load += of_gpus.untold_smact[places] * need.smact_default
    if policy == "lug":
        first, second = -load, free_memory
    elif policy == "mug":
        first, second = load, -free_memory
    else:
        first, second = free_memory, -load
    best = (first == first[first.argmax()]).nonzero()[0]
    return int(places[best[second[best].argmax()]])


def _after(gpus: Sequence[Gpu], last: tuple[str, str] | None) -> Gpu:
    if last is None:
        return gpus[0]
    return next((gpu for gpu in gpus if (gpu.node, gpu.type) > last), gpus[0])
