"""Convolutions of the data set's models, as their traces show them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import prod
from typing import Final, NamedTuple

from estimator.dataset.tree import Trace, resolve
from estimator.methods.rad.program import Extents, three

_CONVOLUTION: Final = re.compile(r"([0-9]+), ([0-9]+), kernel_size=\(([0-9, ]+)\), stride=\(([0-9]+)")
_GROUPS: Final = re.compile(r"groups=([0-9]+)")
_DILATION: Final = re.compile(r"dilation=\(([0-9]+)")
_AXES: Final = 3


class Seen(NamedTuple):
    """A convolution of a model.

    Attributes:
        each: pictures of a sample.
        inputs, outputs: channels.
        stride, groups: as the layer has them, the stride along its first axis.
        extents: of kernel and input.
    """

    each: int
    inputs: int
    outputs: int
    stride: int
    groups: int
    extents: Extents


def convolutions_of(traces: Iterable[Trace]) -> list[Seen]:
    """List the convolutions of models, each once, in an order that does not depend on theirs.

    A transposed convolution is listed as the one whose gradient it is.
    """
    return sorted({seen for trace in traces for seen in _of(trace)})


def _of(trace: Trace) -> Iterator[Seen]:
    modules = trace.modules()
    for call in trace.calls:
        module = modules[call.module]
        found = _CONVOLUTION.match(module.repr)
        transposed = "Transpose" in module.type
        shape = call.output_shape if transposed else call.input_shape
        if found is None or shape is None:
            continue
        batch, channels, *sides = resolve(shape, 1)
        inputs, outputs = (int(found[1]), int(found[2]))[:: -1 if transposed else 1]
        kernel = tuple(int(extent) for extent in found[3].split(",") if extent.strip())
        if channels != inputs or not len(kernel) == len(sides) <= _AXES or prod(sides) < 1:
            continue
        groups, dilation = (_number(part, module.repr) for part in (_GROUPS, _DILATION))
        padded = "padding=(" in module.repr or "padding=same" in module.repr
        extents = Extents(three(kernel), three(sides), dilation, padded, last=False)
        yield Seen(max(batch, 1), inputs, outputs, int(found[4]), groups, extents)


def _number(part: re.Pattern[str], said: str) -> int:
    found = part.search(said)
    return int(found[1]) if found else 1
