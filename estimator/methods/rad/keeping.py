"""What the steps of a program keep for the backward pass: what their derivatives need, each tensor once. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from estimator.breath import breathe
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program import Op, Program, Scores
from estimator.types import PRECISIONS, Precision

WHOLE: Final = 4
"""Bytes of a number in fp32."""
_INDEX: Final = 8
NO_NOTES: Final[Mapping[int, float]] = MappingProxyType({})
# Python looks up a member of an enumeration as slowly as it calls a function, and each step is compared with several.
_LINEAR: Final = Kind.LINEAR
_FROZEN_LINEAR: Final = Kind.FROZEN_LINEAR
_ATTENTION: Final = Kind.ATTENTION
_DROPOUT: Final = Kind.DROPOUT
_OPAQUE: Final = Kind.OPAQUE
_SHARED_KEYS: Final = Scores.SHARED_KEYS
# Bytes kept for each element of an attention's matrix.
SCORES: Final = {
    "fp32": {Scores.PLAIN: 4, Scores.DROPPED: 9, Scores.BIAS: 4, Scores.SHARED_KEYS: 4},
    "amp": {Scores.PLAIN: 6, Scores.DROPPED: 7, Scores.BIAS: 2, Scores.SHARED_KEYS: 0},
    "bf16": {Scores.PLAIN: 2, Scores.DROPPED: 5, Scores.BIAS: 2, Scores.SHARED_KEYS: 0},
    "fp16": {Scores.PLAIN: 2, Scores.DROPPED: 5, Scores.BIAS: 2, Scores.SHARED_KEYS: 0},
}
# Bytes that a step keeps of each element of its input, where that is not the input itself: these work in fp32, and
# under autocast their input mostly is in fp32 already (the sum of a residual block).
_OWN: Final = {
    Kind.LAYER_NORM: {"amp": 4},
    Kind.RMS_NORM: {"fp32": 8, "amp": 8, "bf16": 6, "fp16": 6},
    Kind.FROZEN_RMS_NORM: {"fp32": 4, "amp": 4, "bf16": 4, "fp16": 4},
    Kind.MANY_STEPS: {"fp32": 16, "amp": 14, "bf16": 8, "fp16": 8},
}
# What these give out is in fp32 under autocast.
_WIDE: Final = frozenset((Kind.LAYER_NORM, Kind.RMS_NORM, Kind.FROZEN_RMS_NORM, Kind.MANY_STEPS, Kind.SOFTMAX))
_CAST: Final = frozenset((Kind.CONV, Kind.LINEAR, Kind.ATTENTION, Kind.OPAQUE))
_ELEMENTWISE: Final = frozenset((Kind.KEEPS_OUTPUT, Kind.KEEPS_INPUT, Kind.DROPOUT, Kind.SIGMOID_GATE))
_KEEP_INPUT: Final = frozenset(
    (
        Kind.CONV,
        Kind.LINEAR,
        Kind.KEEPS_INPUT,
        Kind.BATCH_NORM,
        Kind.AVG_POOL,
        Kind.ATTENTION,
        Kind.OPAQUE,
        Kind.LAYER_NORM,
        Kind.MAX_POOL,
        Kind.SIGMOID_GATE,
    )
)
_KEEP_OUTPUT: Final = frozenset((Kind.KEEPS_OUTPUT, Kind.SOFTMAX, Kind.ATTENTION, Kind.SIGMOID_GATE))


_Rule = tuple[int, bool, bool, bool, int, bool, bool]
"""What steps of one kind keep at one precision. A plain tuple, which Python takes apart three times as fast.

Bytes of each element of the input, where that is not the input itself; whether the input is cast anew where it is in
fp32; whether the input is kept; whether the output is; bytes of each element of the output, beside it; whether the
output is in fp32 under autocast; whether it is where the input is.
"""

_BESIDE: Final = {Kind.DROPOUT: 1, Kind.MAX_POOL: _INDEX}
# By precision, then by kind: these count up from 0.
RULES: Final[dict[Precision, tuple[_Rule, ...]]] = {
    precision: tuple(
        (
            _OWN.get(kind, {}).get(precision, 0),
            kind in _CAST,
            kind in _KEEP_INPUT,
            kind in _KEEP_OUTPUT,
            _BESIDE.get(kind, 0),
            precision == "amp" and kind in _WIDE,
            precision == "amp" and kind in _ELEMENTWISE,
        )
        for kind in Kind
    )
    for precision in PRECISIONS
}


def marks_of(
    program: Program,
    first: int,
    batch: int,
    precision: Precision,
    beside: list[float],
    inside: Mapping[int, float],
) -> list[float]:
    """Tell how many bytes are kept after each step: what its derivative needs, each tensor counted once.

    Args:
        program: the steps.
        first: the step before which nothing is kept.
        batch: samples.
        precision: decides what is kept of a step, and in how many bytes.
        beside: by step, bytes for one sample that blocks keep in their own code; empty for none.
        inside: by step, bytes for one sample that a hidden block keeps, its input included.
    """
    tensors, always = program.tensors, program.kept
    size = WHOLE if precision == "fp32" else 2
    rules, scores = RULES[precision], SCORES[precision]
    count, noting, adding = len(tensors), len(beside), len(always)
    # By tensor: whether it is kept already, whether it is in fp32 under autocast, whether a product gave it out.
    seen, wide, products = [False] * count, [False] * count, [False] * count
    marks: list[float] = [0.0] * first
    kept = 0.0
    breathe()
    for op in program.ops[first:] if first else program.ops:
        kind, x, y = op.kind, op.x, op.y
        number: int = kind  # which compiled code finds sooner
        own, casts, input_, output, index, widens, follows = rules[number]
        noted = inside.get(len(marks)) if kind is _OPAQUE else None
        if noted is not None:
            kept += noted * batch
            seen[x] = True
        elif own:
            kept += tensors[x] * batch * own
        elif kind is _ATTENTION and (op.scores is _SHARED_KEYS or not op.extra or products[x]):
            pass  # its projections are steps of their own
        elif casts and wide[x]:
            kept += tensors[x] * batch * size  # each product casts its input anew
        elif input_ and not seen[x]:
            # Also where the step overwrites its input: autograd then keeps a copy.
            seen[x] = True
            kept += tensors[x] * batch * (WHOLE if wide[x] else size)
        if widens or (follows and wide[x]):
            wide[y] = True
        if kind is _LINEAR or kind is _FROZEN_LINEAR or (kind is _DROPOUT and products[x]):
            products[y] = True
        if output and not seen[y]:
            seen[y] = True
            kept += tensors[y] * batch * (WHOLE if wide[y] else size)
        if index or op.extra or op.matrix:  # of a few steps only
            extra = op.extra if noted is None and (op.scores is not _SHARED_KEYS or size == WHOLE) else 0
            kept = kept + tensors[y] * batch * index + extra * batch * size + op.matrix * batch * scores[op.scores]
        if adding and y in always and not seen[y]:
            seen[y] = True
            kept += tensors[y] * batch * (WHOLE if wide[y] else size)
        if noting:
            kept += beside[len(marks)] * batch
            kept = kept if kept > 0 else 0.0
        marks.append(kept)
    return marks


def kept_by(program: Program, precision: Precision, inside: Mapping[int, float] = NO_NOTES) -> list[float]:
    """Tell how many bytes of one sample are kept after each step, without what blocks keep in their own code.

    Args:
        program: the steps.
        precision: of the activations.
        inside: by step, what hidden blocks keep.
    """
    return marks_of(program, 0, 1, precision, [], inside)


def matrix_kept(op: Op, precision: Precision) -> int:
    """Count the bytes of one sample that a step keeps of an attention's matrix."""
    return op.matrix * SCORES[precision][op.scores]
