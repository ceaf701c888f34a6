"""What is left to keep of a model of which only a part is trained. Pure.

Before the first step that is trained nothing needs a gradient, and nothing is kept. Behind it a frozen product of
matrices keeps its weights alone, a frozen norm in several steps what its weights are multiplied with no more. A
convolution keeps its input all the same, and so do the other norms. Beside a layer that LoRA adapts, the adapter keeps
a copy of the input in its own precision, the mask of its dropout, and what is between its matrices.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from estimator.adapters import TRAINABLE
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program.steps import Op, Program
from estimator.packed import EIGHT
from estimator.types import Precision

_FROZEN: Final = {Kind.LINEAR: Kind.FROZEN_LINEAR, Kind.RMS_NORM: Kind.FROZEN_RMS_NORM}
# Bytes of an element: adapters are in fp32 beside weights in half precision too, and autocast casts what they multiply.
_KEPT: Final = {"fp32": 4, "amp": 2, "bf16": 4, "fp16": 4}
_SIZE: Final = {"fp32": 4, "amp": 2, "bf16": 2, "fp16": 2}


class Part(NamedTuple):
    """A program of which a part is trained.

    Attributes:
        program: what its steps keep.
        first: how many steps there are before the first that is trained.
        adapted: whether adapters are.
        whole: whether its steps keep what they keep in a training of all of it.
    """

    program: Program
    first: int
    adapted: bool
    whole: bool


def part_of(program: Program, trained: int, precision: Precision) -> Part:
    """Find what is trained.

    Args:
        program: the whole model.
        trained: how many parameters are. Where no layer says that it is frozen, these are the last ones, if that comes
            out even; else nobody knows which, and each counts as if it were trained.
        precision: of the activations.
    """
    ops = program.ops
    if not any(op.frozen for op in ops):
        first = _with_its_table(program, _last(program, trained))
        return Part(program, first, False, not first)
    adapted = [at for at, op in enumerate(ops) if op.adapter is not None]
    first = _shown(program, trained, adapted)
    kept = [*ops[:first], *[_kept(program, op, precision) for op in ops[first:]]]
    same = not first and all(new is op for new, op in zip(kept, ops, strict=True))
    return Part(program._replace(ops=kept), first, bool(adapted), same)


def _shown(program: Program, trained: int, adapted: list[int]) -> int:
    """Give the first step that is trained where layers show that they are frozen.

    A table does not show it of what a block owns beside its layers: where the layers are not all that is trained, it is
    what the last blocks own, if that comes out even, or else anything.
    """
    begins, own, layers = adapted[:1], list[tuple[int, int]](), 0
    for layer, start, _, _ in program.ends:
        if not layer.params or layer.said(TRAINABLE):
            continue
        if layer.children:
            own.append((start, layer.params))
        else:
            begins.append(start)
            layers += layer.params
    left = trained - layers
    if adapted or not left:
        return min(begins, default=0)
    for start, params in sorted(own, reverse=True):
        begins.append(start)
        left -= params
        if not left:
            return min(begins)
    return min(begins, default=0) if trained < layers else 0


def _last(program: Program, trained: int) -> int:
    """Give the first of the last steps that have so many parameters; 0 where none have, or others may be meant."""
    ops = program.ops
    left = trained
    for at in range(len(ops) - 1, 0, -1):
        left -= ops[at].params
        if left < 0:
            return 0
        if not left and ops[at].params:
            return at if _goes_on(program, at) and not _is_repeated(ops, at) else 0
    return 0


def _goes_on(program: Program, at: int) -> bool:
    """Tell whether a step takes what the one before gives out: a print shows layers as they are held, not as they run.

    A prompt, or what makes a picture of an input, may stand behind the model that reads it.
    """
    if program.flat:
        return True
    op, before = program.ops[at], program.ops[at - 1].y
    if op.kind in (Kind.EMBEDDING, Kind.OPAQUE):
        return False
    given, taken = program.shapes[before], program.shapes[op.x]
    if op.conv is not None:
        return op.conv.channels_in in given
    return op.x == before or (bool(taken) and taken[-1] in given)


def _is_repeated(ops: list[Op], at: int) -> bool:
    """Tell whether all steps from one on are like others before: either may be those that are trained."""
    sizes = [op.params for op in ops if op.params]
    last = [op.params for op in ops[at:] if op.params]
    count = len(last)
    return any(sizes[start : start + count] == last for start in range(len(sizes) - 2 * count + 1))


def _with_its_table(program: Program, first: int) -> int:
    """Begin with the word embedding where it is one with the head, and that is trained."""
    if not program.shared or not first or not any(op.params == program.shared for op in program.ops[first:]):
        return first
    return next((at for at, op in enumerate(program.ops[:first]) if op.params == program.shared), first)


def _kept(program: Program, op: Op, precision: Precision) -> Op:
    if not op.frozen:
        return op
    # A product with weights in 8 bits keeps its input all the same.
    kind, extra = op.kind if op.bits == EIGHT else _FROZEN.get(op.kind, op.kind), op.extra
    if op.adapter is not None and op.kind in (Kind.LINEAR, Kind.CONV):
        taken, kept = program.tensors[op.x], _KEPT[precision]
        width = max(program.shapes[op.x][-1], 1) if op.kind is Kind.LINEAR else max(program.shapes[op.x][0], 1)
        between = taken // width * op.adapter.rank
        mask = taken if op.adapter.drops else 0
        beside = (taken + between) * kept + mask
        if op.adapter.norms:  # both products, and the layer's own is made anew of what dropout leaves
            beside += program.tensors[op.y] * (kept + (kept if op.adapter.drops else _SIZE[precision]))
        extra += beside // _SIZE[precision]
    return op if kind is op.kind and extra == op.extra else op.keeping(kind, extra)
