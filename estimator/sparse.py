"""Embeddings whose gradients hold only the rows that were looked up (``sparse=True`` in a print). Pure.

What PyTorch 2.13 does with such gradients: SGD works; its momentum adds the rows of each step to a buffer, which grows
from step to step; Adam, AdamW and RMSprop refuse them. SparseAdam takes them, with two states as large as the weights,
as Adam has.
"""

from __future__ import annotations

from typing import Final

from estimator.adapters import FROZEN
from estimator.types import ModelSummary, Optimizer, SummaryError, Workload
from estimator.walk import layers

_WORDS: Final = "Embedding"
_INSTEAD: Final[tuple[Optimizer, ...]] = ("adam", "adamw")
_WRONG: Final[dict[Optimizer, str]] = {
    "sgd_momentum": "SGD's momentum keeps the rows of every step, which grows until the GPU's memory is full",
    "rmsprop": "RMSprop refuses such gradients",
}
_CURE: Final = (
    "train without sparse=True or with another optimizer (`optimizer=sgd`; `optimizer=adam` stands for SparseAdam), "
    "or claim `#RAD memory=12G`"
)


def sparse(summary: ModelSummary, workload: Workload) -> tuple[str, ...]:
    """Say how gradients of a print's embeddings are counted that are sparse; nothing where there are none.

    Embeddings are taken to be frozen where as many parameters are.

    Raises:
        SummaryError: the job's optimizer does not work with them, or takes more memory with each step.
    """
    if summary.format != "module" or workload.kind != "train":
        return ()
    found = [
        layer
        for layer in layers(summary.root)
        if _WORDS in layer.type and layer.said("sparse") == "True" and FROZEN not in layer.args
    ]
    if not found or sum([layer.params for layer in found]) <= summary.frozen_params:
        return ()
    optimizer = workload.optimizer
    if optimizer in _WRONG:
        raise SummaryError(f"this print has {found[0].type}(.., sparse=True): {_WRONG[optimizer]}: {_CURE}")
    said = "sparse gradients of embeddings are counted as if they had all rows"
    return (f"{said}; SparseAdam is taken for these, as {optimizer} refuses them" if optimizer in _INSTEAD else said,)
