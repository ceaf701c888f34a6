"""What is left to keep of a model of which only a part is trained. Pure.

Before the first step that is trained nothing needs a gradient, and nothing is kept. Behind it a frozen product of
matrices keeps its weights alone, a frozen norm in several steps what its weights are multiplied with no more. A
convolution keeps its input all the same, and so do the other norms. Beside a layer that LoRA adapts, the adapter keeps
a copy of the input in its own precision, the mask of its dropout, and what is between its matrices.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program.steps import Op, Program
from estimator.types import Precision

# One parameter in so many may be one that no layer has.
_ELSEWHERE: Final = 50
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
    adapted = any(op.adapter for op in ops)
    if not any(op.frozen for op in ops):
        first = _with_its_table(program, _before(ops, trained, 0))
        return Part(program, first, False, not first)
    first = next((at for at, op in enumerate(ops) if op.adapter or (op.params and not op.frozen)), 0)
    if not adapted and sum(op.params for op in ops if not op.frozen) > trained + program.shared:
        # A table does not say it of what a block owns beside its layers.
        first = _with_its_table(program, max(first, _before(ops, trained, trained // _ELSEWHERE)))
    kept = [*ops[:first], *[_kept(program, op, precision) for op in ops[first:]]]
    same = not first and all(new is op for new, op in zip(kept, ops, strict=True))
    return Part(program._replace(ops=kept), first, adapted, same)


def _with_its_table(program: Program, first: int) -> int:
    """Begin with the word embedding where it is one with the head, and that is trained."""
    if not program.shared or not first or not any(op.params == program.shared for op in program.ops[first:]):
        return first
    return next((at for at, op in enumerate(program.ops[:first]) if op.params == program.shared), first)


def _before(ops: list[Op], trained: int, but: int) -> int:
    """Count the steps before the last ones that are not said to be frozen and have so many parameters; 0 for none.

    Args:
        ops: the steps.
        trained: parameters.
        but: so many of these may be elsewhere.
    """
    left, first = trained, 0
    for at in range(len(ops) - 1, -1, -1):
        params = 0 if ops[at].frozen else ops[at].params
        if params > left:
            break
        left -= params
        first = at if params else first
    return first if left <= but else 0


def _kept(program: Program, op: Op, precision: Precision) -> Op:
    if not op.frozen:
        return op
    kind, extra = _FROZEN.get(op.kind, op.kind), op.extra
    if op.adapter is not None and op.adapter.rank and op.kind in (Kind.LINEAR, Kind.CONV):
        taken, kept = program.tensors[op.x], _KEPT[precision]
        width = max(program.shapes[op.x][-1], 1) if op.kind is Kind.LINEAR else max(program.shapes[op.x][0], 1)
        between = taken // width * op.adapter.rank
        mask = taken if op.adapter.drops else 0
        extra += ((taken + between) * kept + mask) // _SIZE[precision]
    return op if kind is op.kind and extra == op.extra else op.keeping(kind, extra)
