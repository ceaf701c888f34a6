"""Nodes and their GPUs as columns of numbers, so that of thousands those that fit are found at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from slurm_hooks.cluster import ClusterView, Gpu, Node

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

NOBODY: Final = -1  # holds a GPU
SEVERAL: Final = -2  # hold it, or nobody knows who


class OfNodes(NamedTuple):
    """Columns of nodes: what is free, processors below 0 where one takes no jobs for shares, and what it has."""

    free_cpus: Floats
    free_memory: Floats
    memory: Floats
    threads: Floats
    reserved_from: Floats


class OfGpus(NamedTuple):
    """Columns of GPUs.

    Free shares, memory in MiB and SMACT of residents that tell, shares and number of those that do not; by their
    numbers, the only user whose jobs one holds and its device type.
    """

    free: Floats
    memory: Floats
    untold_memory: Floats
    smact: Floats
    untold_smact: Floats
    holder: Floats
    type: Floats


_OF_NODES: Final = len(OfNodes._fields)
_OF_GPUS: Final = len(OfGpus._fields)


class Numbers(dict[Any, int]):
    """Numbers for names and the like, in the order in which they come."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self)
        return number


@dataclass(frozen=True, eq=False)
class Columns:
    """What decides whether a job can start on a GPU now.

    Attributes:
        nodes: of which these are the columns.
        gpus: those of the nodes, in the order of nodes and devices.
        begins: where the GPUs of each node begin, and where the last one's end.
        node_of: of each GPU, its node's place.
        kinds: numbers of what partitions and features nodes have; kind_of: of each node.
        users, types: numbers of all who hold GPUs, of whatever kind, and of device types.
        owned: whether some node takes jobs of one user only; threaded: whether cores of some have several threads;
            untold: whether some resident does not tell its memory or SMACT.
    """

    nodes: tuple[Node, ...]
    gpus: list[Gpu]
    begins: list[int]
    of_nodes: OfNodes
    of_gpus: OfGpus
    node_of: Places
    kind_of: Places
    kinds: Numbers
    users: Numbers
    types: Numbers
    owned: bool
    threaded: bool
    untold: bool

    def has_feature(self, name: str) -> bool:
        """Whether some node has a feature."""
        return any(name in features for _, features in list(self.kinds))


def columns_in(view: ClusterView) -> Columns:
    """The columns of a view, made now where `with_columns` has not made them before."""
    made = view.columns
    if made is not None and made.nodes is view.nodes:
        return made
    changed = None if made is None else _changed(view.nodes, made)
    return changed or _columns_of(view.nodes)


def with_columns(view: ClusterView) -> ClusterView:
    """`view` with its columns, so that no decision has to make them."""
    made = columns_in(view)
    return view if made is view.columns else replace(view, columns=made)


def _columns_of(nodes: tuple[Node, ...]) -> Columns:
    kinds, types = Numbers(), Numbers()
    of_whole = {resident.user for node in nodes for gpu in node.whole for resident in gpu.residents}
    users = Numbers((user, number) for number, user in enumerate(of_whole))
    sizes = [len(node.gpus) for node in nodes]
    of_gpus = OfGpus(*_turned([_gpu_row(gpu, users, types) for node in nodes for gpu in node.gpus], _OF_GPUS))
    return Columns(
        nodes,
        [gpu for node in nodes for gpu in node.gpus],
        np.cumsum([0, *sizes]).tolist(),
        OfNodes(*_turned([_node_row(node) for node in nodes], _OF_NODES)),
        of_gpus,
        np.repeat(np.arange(len(nodes)), sizes),
        np.array([kinds[node.partitions, node.features] for node in nodes], dtype=np.intp),
        kinds,
        users,
        types,
        any(node.owner for node in nodes),
        any(node.threads > 1 for node in nodes),
        _untold(of_gpus),
    )


def _changed(nodes: tuple[Node, ...], before: Columns) -> Columns | None:
    """The columns of `nodes`, by those of what they were before; None where they are other nodes."""
    changed = [place for place, (old, new) in enumerate(zip(before.nodes, nodes, strict=False)) if old is not new]
    if len(nodes) != len(before.nodes) or any(len(nodes[n].gpus) != len(before.nodes[n].gpus) for n in changed):
        return None
    gpus, of_nodes, rows = before.gpus.copy(), np.array(before.of_nodes), np.array(before.of_gpus)
    kind_of, owned, threaded = before.kind_of.copy(), before.owned, before.threaded
    for place in changed:
        node, here = nodes[place], slice(*before.begins[place : place + 2])
        gpus[here] = node.gpus
        of_nodes[:, place] = _node_row(node)
        rows[:, here] = _turned([_gpu_row(gpu, before.users, before.types) for gpu in node.gpus], _OF_GPUS)
        kind_of[place] = before.kinds[node.partitions, node.features]
        owned, threaded = owned or bool(node.owner), threaded or node.threads > 1
    of_gpus = OfGpus(*rows)
    return replace(
        before,
        nodes=nodes,
        gpus=gpus,
        of_nodes=OfNodes(*of_nodes),
        of_gpus=of_gpus,
        kind_of=kind_of,
        owned=owned,
        threaded=threaded,
        untold=_untold(of_gpus),
    )


def _untold(of_gpus: OfGpus) -> bool:
    return bool(of_gpus.untold_memory.any() or of_gpus.untold_smact.any())


def _turned(rows: Sequence[tuple[float, ...]], width: int) -> Floats:
    return np.array(rows, dtype=np.float64).reshape(-1, width).T.copy()


def _node_row(node: Node) -> tuple[float, ...]:
    return (
        node.free_cpus if node.available and node.shares else -1,
        node.free_memory_mib,
        node.memory_mib,
        node.threads,
        node.reserved_from,
    )


def _gpu_row(gpu: Gpu, users: Numbers, types: Numbers) -> tuple[float, ...]:
    """Shares that are spoken for, but held by nobody who is known, count as one resident that tells nothing."""
    memory = untold_memory = smact = shares = untold_smact = 0.0
    holders = {users[resident.user] for resident in gpu.residents}
    for resident in gpu.residents:
        shares += resident.share
        if resident.memory_mib is None:
            untold_memory += resident.share
        else:
            memory += resident.memory_mib
        if resident.smact is None:
            untold_smact += 1
        else:
            smact += resident.smact
    holder = holders.pop() if len(holders) == 1 else SEVERAL if holders else NOBODY
    if gpu.used_shares > shares:
        untold_memory += gpu.used_shares - shares
        untold_smact += 1
        holder = SEVERAL
    return gpu.free_shares, memory, untold_memory, smact, untold_smact, holder, types[gpu.type]
