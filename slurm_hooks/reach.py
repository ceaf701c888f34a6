"""Which nodes a job may go to, and what it needs there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slurm_hooks.cluster import ClusterView, Node, partition_of
from slurm_hooks.config import Partition
from slurm_hooks.memory import memory_of
from slurm_hooks.placement import Need
from slurm_hooks.request import Submission

_NONE: Final[frozenset[str]] = frozenset()


def need_of(
    submission: Submission, share: int, partition: Partition, gpu_type: str = "", feature: str = "", user: str = ""
) -> Need:
    """What a job that gets `share` needs of a GPU and its node; of `user`, where it is kept apart from others'."""
    of_tasks = (submission.num_tasks or 1) * (submission.cpus_per_task or 1)
    cpus = max(of_tasks, submission.min_cpus or 1, submission.min_cpus_per_node or 1, submission.cpus_per_gpu or 1)
    memory = submission.memory_per_node_mib or submission.memory_per_gpu_mib or 0
    per_cpu = 0 if memory else submission.memory_per_cpu_mib or 0
    return Need(
        share=share,
        partition=submission.partition,
        cpus=cpus,
        memory_mib=memory or per_cpu * cpus,
        memory_per_cpu_mib=per_cpu,
        usable_mib=memory_of(partition),
        smact_default=partition.default_smact,
        nodes=_names(submission.req_nodes),
        excluded=_names(submission.exc_nodes),
        features=frozenset((feature,)) if feature else _NONE,
        gpu_type=gpu_type,
        user=user,
    )


def gives_whole_nodes(submission: Submission, view: ClusterView) -> str:
    """Why no share of a GPU is held in one of a job's partitions, or the empty string."""
    for name in submission.partition.split(","):
        if partition_of(view, name).whole_nodes:
            return f"partition {name} gives each job its node whole (OverSubscribe=EXCLUSIVE)"
    return ""


def instances_for(submission: Submission, feature: str, view: ClusterView) -> frozenset[str]:
    """Device types of the MIG instances that a job may get: Slurm refuses one that is on none of its nodes.

    Where nodes or features are asked for in other ways than by plain names, those that all nodes have.
    """
    here = [
        node
        for node in view.nodes
        if submission.partition in node.partitions and (not feature or feature in node.features)
    ]
    may_go = reachable(submission, here)
    if may_go is None:
        return frozenset.intersection(*(node.instances for node in here)) if here else frozenset()
    return frozenset(kind for node in may_go for kind in node.instances)


def reachable(submission: Submission, nodes: Sequence[Node]) -> list[Node] | None:
    """Those of `nodes` that a job may go to; None where it names them or features other than by plain names."""
    if any(c in submission.req_nodes + submission.exc_nodes + submission.features for c in "[(|*!"):
        return None
    asked, excluded = _names(submission.req_nodes), _names(submission.exc_nodes)
    features = _names(submission.features, "&")
    return [
        node
        for node in nodes
        if (not asked or node.name in asked) and node.name not in excluded and features <= node.features
    ]


def limit_s(submission: Submission, view: ClusterView) -> float:
    """How long a job may run, in seconds."""
    if submission.time_limit_min is not None:
        return submission.time_limit_min * 60.0
    return partition_of(view, submission.partition).limit_s


def _names(text: str, mark: str = ",") -> frozenset[str]:
    return frozenset(filter(None, text.split(mark))) if text else _NONE
