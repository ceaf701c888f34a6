"""Which axis of a table's series is the batch: PyTorch's own layers take the steps first unless told otherwise. Pure.

A table of torchinfo shows both axes and not which is which: ``[64, 2, 800]`` is two steps of 64 samples, or 64 of two.
Or code puts all steps of all samples into one axis, as agents do with their episodes, and what works on series alone
shows both: ``[160, 512]`` is of eight samples where an LSTM gives out ``[8, 20, 256]``, or ``[1, 8, 256]`` 20 times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from math import prod
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.layer import STEPS_FIRST, Layer
from estimator.parsers.tree import per_sample
from estimator.shapes.tables import rebatched, sequence_first
from estimator.types import ModelSummary, Workload
from estimator.walk import elements

_WORDS: Final = "Embedding"
# Axes of a series of one sample.
_SERIES: Final = 2
# Nobody reads texts of so many words.
_FEW_WORDS: Final = 2
_CELLS: Final = frozenset(("LSTMCell", "GRUCell", "RNNCell"))


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
    if summary.format != "torchinfo" or first < _SERIES:
        return summary
    if types.isdisjoint(STEPS_FIRST) and types.isdisjoint(_CELLS):
        return summary
    samples = _samples(found, first, workload.batch_size)
    if samples:
        return _divided(summary, first, samples)
    second = _second(found, workload.batch_size)
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


def _samples(found: Sequence[Layer], together: int, batch_size: int) -> int:
    """Tell of how many samples a table is whose first axis holds all steps of all of them.

    Args:
        found: layers, with shapes of one sample as if each step were one.
        together: what the first axis holds.
        batch_size: the job's: such a table may be of as many steps, each of which counts as a sample there.

    Returns:
        0 where no layer on series shows another axis, or several show others. Of two axes the job's is taken, else the
        shorter one: that is the reading that takes more.
    """
    if batch_size == together:
        return 0
    rows: Counter[tuple[int, ...]] = Counter()
    for number, layer in enumerate(found):
        if not number & OFTEN:
            breathe()
        shape = layer.output_shape or ()
        if len(shape) == _SERIES + 1 and layer.type in STEPS_FIRST:
            rows[shape[:2]] += 1
        elif len(shape) == _SERIES and layer.type in _CELLS:
            rows[1, shape[0]] += 1
    samples = set()
    for axes, count in rows.items():
        if 1 in axes:  # one step after the other, of one layer or of several
            found_of, rest = max(axes), max(axes) * count % together
        else:
            found_of, rest = batch_size if batch_size in axes else min(axes), prod(axes) - together
        if rest or together % found_of or not 1 < found_of < together:
            return 0
        samples.add(found_of)
    return samples.pop() if len(samples) == 1 else 0


def _divided(summary: ModelSummary, together: int, samples: int) -> ModelSummary:
    """Give a table of so many samples, the first axis of which holds their steps too; some rows show both apart."""
    steps = together // samples
    apart = ((samples, steps), (steps, samples), (1, samples), (samples, 1))

    def of_one(shape: tuple[int, ...]) -> tuple[int, ...]:
        if shape[:2] in apart or (len(shape) == _SERIES and shape[0] == samples):
            return per_sample(shape, samples) or ()
        return (steps, *shape)

    return rebatched(summary, samples, of_one)


def _second(found: Sequence[Layer], batch_size: int) -> int:
    """Give the axis behind the first, which all rows share; 0 where a row tells that the first is the batch.

    One of pictures may hold all steps of as many samples as the job's.
    """
    second = 0
    series = False
    for number, layer in enumerate(found[1:]):
        if not number & OFTEN:
            breathe()
        shape = layer.output_shape
        if shape is None or (len(shape) == 1 and layer.type == _WORDS):  # one for each place
            continue
        if (len(shape) != _SERIES and shape[0] != batch_size) or (second and shape[0] != second):
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
