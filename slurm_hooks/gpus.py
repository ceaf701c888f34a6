"""A partition's GPUs by its settings: what is known of them, and what a user's GPU type means there. Pure."""

from __future__ import annotations

from typing import Final

from estimator.gpus import is_named, lookup
from slurm_hooks import mig
from slurm_hooks.cluster import ClusterView
from slurm_hooks.columns import columns_in
from slurm_hooks.config import Partition
from slurm_hooks.memory import memory_of
from slurm_hooks.request import GpuRequest

_NEVER: Final = ClusterView().taken


def unknown_gpu(partition: Partition) -> str:
    """What follows for a partition of whose GPUs nothing but their memory is known, or the empty string."""
    if partition.method not in ("mps", "streams") or not memory_of(partition) or lookup(partition.gpu_model).memory_mib:
        return ""
    name = f"gpu_model {partition.gpu_model!r} is not known" if partition.gpu_model else "gpu_model is not set"
    return f"{name}: bounds are 20 % wider, and jobs are predicted to slow each other down as typical ones would"


def types_of(request: GpuRequest, partition: Partition, view: ClusterView) -> tuple[str, str]:
    """Device type and node feature that a user's GPU type means: one of the two, or neither."""
    if not request.type:
        return "", ""
    columns = columns_in(view)
    if request.type in columns.types or mig.instance(request.type):
        return request.type, ""
    of_partition = _is_model(request.type, partition)
    names: tuple[str, ...] = (request.type,)
    if of_partition:
        names = (partition.feature,) if partition.feature else (request.type, partition.gpu_model)
    feature = next((name for name in names if columns.has_feature(name)), "")
    may_be = not feature and (of_partition or not partition.gpu_model)
    if may_be and any(request.type in node.several for node in view.nodes):
        return request.type, ""
    return "", feature or names[0]


def unknown_type(request: GpuRequest, partition: Partition, view: ClusterView) -> str:
    """Why a request for a GPU type cannot be rewritten, or the empty string.

    Slurm would refuse it, or the job would run on another GPU than it asks for. Where nobody has looked at the cluster
    yet, only what the configuration says of types is known.
    """
    feature = types_of(request, partition, view)[1]
    of_partition, unseen = _is_model(request.type, partition), view.taken == _NEVER
    if not feature or (of_partition and partition.feature and unseen):
        return ""
    if unseen:
        return f"GPU type {request.type} is not known: nobody has looked at Slurm's nodes yet"
    if partition.gpu_model and not of_partition:
        return f"GPU type {request.type} is not the partition's: its GPUs are {partition.gpu_model}"
    if columns_in(view).has_feature(feature):
        return ""
    return f"GPU type {request.type} is not known: no node has it as device type, none has the feature {feature}"


def _is_model(type_: str, partition: Partition) -> bool:
    """Whether a user's GPU type is the model of the partition's GPUs, or the feature that stands for it."""
    return type_ == partition.feature or is_named(partition.gpu_model, type_)
