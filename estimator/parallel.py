"""What PyTorch's own ways to train on several GPUs take beside the model on each of them. Pure.

A summary that was printed after they were put around the model names them. How much they take was measured on an H100,
each in a process group of one (`scripts/check_parallel.py`, docs/trainings.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from estimator.layer import Layer
from estimator.types import ModelSummary, Parallel, Workload
from estimator.walk import Rewrite, layers

DEEPSPEED: Final = "DeepSpeedEngine"
"""What DeepSpeed puts around a model; how much it takes depends on its own configuration."""

SYNCED: Final = "SyncBatchNorm"
"""Type of what stands for norms of batches of any number of axes; in a group of one it does what they do."""

_MIB: Final = 2**20
_SHARDED: Final = "FSDP"  # what ``fully_shard`` puts before the names of classes
_NORMS: Final = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")


class _Taken(NamedTuple):
    """What one of them takes.

    Attributes:
        context_mib: what NCCL adds to the CUDA context; a group of one exchanges nothing with ``fully_shard``.
        again, most: how often what is trained is held once more, as expected and at most: in DDP's buckets of
            gradients, which it makes anew after the first step; in FSDP's flat copies, and in what the allocator cannot
            use where the model's own lay. Copies of blocks come and go one after the other.
    """

    context_mib: float
    again: float
    most: float


_TAKEN: Final[dict[Parallel, _Taken]] = {
    "DistributedDataParallel": _Taken(560.0, 1.0, 2.0),
    "FullyShardedDataParallel": _Taken(560.0, 2.5, 3.5),
    "FullyShardedDataParallel of blocks": _Taken(560.0, 1.2, 2.5),
    "fully_shard": _Taken(70.0, 2.5, 3.5),
    "fully_shard of blocks": _Taken(70.0, 1.2, 2.5),
}
AROUND: Final[dict[str, Parallel]] = {name: name for name in ("DistributedDataParallel", "FullyShardedDataParallel")}
"""Those that are modules around the model, by the names of their classes."""
_OF_BLOCKS: Final[dict[Parallel, Parallel]] = {
    "FullyShardedDataParallel": "FullyShardedDataParallel of blocks",
    "fully_shard": "fully_shard of blocks",
}
"""Those that may be around blocks, too."""
MARKS: Final = (_SHARDED, *AROUND)
"""What a text has in it that shows one of them."""


class Beside(NamedTuple):
    """Memory beside a model.

    Attributes:
        expected_mib: best guess.
        upper_mib: at most.
        reasons: a sentence on it.
    """

    expected_mib: float = 0.0
    upper_mib: float = 0.0
    reasons: tuple[str, ...] = ()


def alone(summary: ModelSummary) -> ModelSummary:
    """Give the summary of the model without what stands around it or parts of it; it says what does."""
    found: list[Parallel] = []
    for layer in layers(summary.root):
        if layer.type in AROUND:
            found.append(AROUND[layer.type])
        elif _is_sharded(layer):
            found.append("fully_shard")
    if not found:
        return summary
    parallel = _OF_BLOCKS.get(found[-1], found[-1]) if found.count(found[-1]) > 1 else found[-1]
    return replace(summary, root=Rewrite(_alone).through(summary.root), parallel=parallel)


def _is_sharded(layer: Layer) -> bool:
    """Tell whether ``fully_shard`` gave the layer's class another name."""
    return layer.type.startswith(_SHARDED) and layer.type[len(_SHARDED) : len(_SHARDED) + 1].isupper()


def _alone(walk: Rewrite, layer: Layer) -> Layer:
    if layer.type in AROUND and len(layer.children) == 1 and not layer.params:
        inner = walk.through(layer.children[0])
        return inner.but(name=layer.name or inner.name)
    inside = walk.inside(layer, layer.args)
    return inside.but(type=layer.type.removeprefix(_SHARDED)) if _is_sharded(layer) else inside


def unsynced(summary: ModelSummary) -> ModelSummary:
    """Give the summary with the norms that the model had: of as many axes as are shown, or as its convolutions have."""
    types = {layer.type for layer in layers(summary.root)}
    axes = next((axes for axes in (2, 3, 1) if f"Conv{axes}d" in types), 1)

    def norm(walk: Rewrite, layer: Layer) -> Layer:
        if layer.type != SYNCED:
            return walk.inside(layer, layer.args)
        shown = len(layer.output_shape) - 1 if layer.output_shape else axes
        return layer.but(type=_NORMS[min(max(shown, 1), len(_NORMS)) - 1])

    return replace(summary, root=Rewrite(norm).through(summary.root))


def beside(summary: ModelSummary, workload: Workload) -> Beside:
    """Say what is held beside the model: NCCL's part of the context, and in trainings copies of what is trained."""
    if not summary.parallel:
        return Beside()
    trained = max(summary.total_params - summary.frozen_params, 0) if workload.kind == "train" else 0
    each = trained * (4 if workload.precision in ("fp32", "amp") else 2) / _MIB
    taken = _TAKEN[summary.parallel]
    expected, upper = (taken.context_mib + times * each for times in (taken.again, taken.most))
    return Beside(expected, upper, (f"{expected:.0f} to {upper:.0f} MiB for {summary.parallel} around the model",))
