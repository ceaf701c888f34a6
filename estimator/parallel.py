"""What PyTorch's own ways to train on several GPUs take beside the model on each of them. Pure.

A summary that was printed after they were put around the model names them. How much they take was measured on an H100,
each in a process group of one (`scripts/check_parallel.py`, docs/estimator.md).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from estimator.types import ModelSummary, Parallel, Workload

SHARDED: Final = "FSDP"
"""What ``fully_shard`` puts before the names of classes."""

_MIB: Final = 2**20


class _Taken(NamedTuple):
    """What one of them takes.

    Attributes:
        context_mib: what NCCL adds to the CUDA context; a group of one exchanges nothing with ``fully_shard``.
        again, most: how often what is trained is held once more, as expected and at most: in DDP's buckets of
            gradients, which it makes anew after the first step; in FSDP's flat copies, and in what the allocator cannot
            use where the model's own lay.
    """

    context_mib: float
    again: float
    most: float


_TAKEN: Final[dict[Parallel, _Taken]] = {
    "DistributedDataParallel": _Taken(560.0, 1.0, 2.0),
    "FullyShardedDataParallel": _Taken(560.0, 2.5, 3.5),
    "fully_shard": _Taken(70.0, 2.5, 3.5),
}
AROUND: Final[dict[str, Parallel]] = {name: name for name in _TAKEN if name != "fully_shard"}
"""Those that are modules around the model, by the names of their classes."""


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


def beside(summary: ModelSummary, workload: Workload) -> Beside:
    """Say what is held beside the model: NCCL's part of the context, and in trainings copies of what is trained."""
    if not summary.parallel:
        return Beside()
    trained = max(summary.total_params - summary.frozen_params, 0) if workload.kind == "train" else 0
    each = trained * (4 if workload.precision in ("fp32", "amp") else 2) / _MIB
    taken = _TAKEN[summary.parallel]
    expected, upper = (taken.context_mib + times * each for times in (taken.again, taken.most))
    return Beside(expected, upper, (f"{expected:.0f} to {upper:.0f} MiB for {summary.parallel} around the model",))
