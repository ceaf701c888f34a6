"""Which axis of a table's series is the batch: PyTorch's own layers take the steps first unless told otherwise. Pure.

A table of torchinfo shows both axes and not which is which: ``[64, 2, 800]`` is two steps of 64 samples, or 64 of two.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.layer import STEPS_FIRST, Layer
from estimator.shapes.tables import sequence_first
from estimator.types import ModelSummary, Workload
from estimator.walk import elements

_WORDS: Final = "Embedding"
# Axes of a series of one sample.
_SERIES: Final = 2
# Nobody reads texts of so many words.
_FEW_WORDS: Final = 2


def with_steps(summary: ModelSummary, found: Sequence[Layer], types: Set[str], workload: Workload) -> ModelSummary:
    """Turn a summary whose first axis was taken for the batch and holds the steps; where nobody knows, say so.

    Args:
        summary: the model, with shapes of one sample by that reading.
        found: its layers.
        types: of these.
        workload: its batch size, or its length, says which axis is which.

    Returns:
        The summary; turned, or with a note and `ModelSummary.steps` where the other reading may be the true one and
        takes more.
    """
    first = summary.batch_size or 0
    if summary.batch_size is not None and first == workload.seq_len != workload.batch_size:
        return sequence_first(summary, first)
    if summary.format != "torchinfo" or first < _SERIES or types.isdisjoint(STEPS_FIRST):
        return summary
    second = _second(found)
    if not second or workload.seq_len == second:
        return summary
    words = any(layer.type == _WORDS and len(layer.output_shape or ()) == _SERIES for layer in found)
    if workload.batch_size == first and not (words and second == 1):
        return summary
    few = second <= _FEW_WORDS if words else second == 1
    if few or workload.batch_size == second < first:
        return _turned(summary, found, first)
    if second >= first:
        return summary  # which is the reading that takes more, or the same
    note = (
        f"the first axis of [{first}, {second}] was taken for the batch; where it holds the steps, say seq_len={first} "
        f"(else seq_len={second}): the bound holds for both"
    )
    said = f"{summary.unused}; {note}" if summary.unused else note
    return replace(summary, note=said, unused=said, steps=first)


def _second(found: Sequence[Layer]) -> int:
    """Give the axis behind the first, which all rows share; 0 where a row tells that the first is the batch."""
    second = 0
    series = False
    for number, layer in enumerate(found[1:]):
        if not number & OFTEN:
            breathe()
        shape = layer.output_shape
        if shape is None or (len(shape) == 1 and layer.type == _WORDS):  # one for each place
            continue
        if len(shape) != _SERIES or (second and shape[0] != second):
            return 0
        second = shape[0]
        series = series or layer.type in STEPS_FIRST
    own = found[0].output_shape
    if not series or (own and len(own) == 1 and elements(own) != elements(found[-1].output_shape)):
        return 0
    return second


def _turned(summary: ModelSummary, found: Sequence[Layer], steps: int) -> ModelSummary:
    """Take the first axis for the steps; what the model gives out may be all of them in one row."""
    turned = sequence_first(summary, steps)
    own, last = turned.root.output_shape, found[-1].output_shape
    if own and len(own) == 1 and last and last[-1] == own[0]:
        turned = replace(turned, root=turned.root.but(output_shape=(steps, *own)))
    return turned
