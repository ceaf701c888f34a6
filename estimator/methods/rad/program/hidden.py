"""What layers keep whose insides a summary hides."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from estimator import blocks
from estimator.methods.rad.kinds import Kind, attends, kind_of
from estimator.methods.rad.program.flow import Flow
from estimator.methods.rad.program.steps import PICTURE, End, Shape
from estimator.types import ModelSummary

_KEEPS_OUTPUT: Final = Kind.KEEPS_OUTPUT
# Kept inside a hidden block, in outputs of the block: where nothing is printed, and for each element printed.
_USUAL: Final = 8.0
# Of a block that looks up words: what torchinfo counts beside its output, in outputs (words, types, positions), and
# what it keeps: what goes into its norm, and the mask of its dropout, of one byte for each.
_WORDS_COUNTED: Final = 2.5
_WORDS_KEPT: Final = 1.25


def open_hidden(flow: Flow, summary: ModelSummary, types: Set[str], ends: Sequence[End]) -> float:
    """Give layers whose insides are hidden what they keep inside.

    torchinfo prints the outputs of all layers that own parameters, also of hidden ones: what the visible ones do not
    explain is inside, in proportion to the sizes of the outputs. Without that line, as much as usual blocks keep is
    taken.

    Returns:
        Elements that are printed of one sample inside hidden blocks; 0 where nothing is.
    """
    tensors = flow.tensors
    opaque = sum(tensors[op.y] for op in flow.ops if op.kind is Kind.OPAQUE)
    factor, inside = _USUAL, 0.0
    if summary.pass_mb is not None:
        kinds = {kind_of(type_) for type_ in types}
        pictures = "Conv2d" in types or any(_is_picture(flow.shapes[op.y]) for op in flow.ops if op.kind is Kind.OPAQUE)
        tokens = not pictures or any(map(_works_on_tokens, types))
        printed = summary.pass_mb * 1e6 / 8 / max(summary.batch_size or 1, 1)
        inside = max(printed - _visible(flow, ends), 0.0)
        factor = inside / max(opaque, 1)
        factor *= blocks.kept_inside(
            types, keeps_input=Kind.KEEPS_INPUT in kinds, keeps_output=_KEEPS_OUTPUT in kinds, tokens=tokens
        )
    for op in flow.ops:
        if op.kind is Kind.OPAQUE:
            op.extra = round(factor * tensors[op.y])
    return inside


def _visible(flow: Flow, ends: Sequence[End]) -> int:
    """Count what torchinfo counts of layers that are shown: outputs of those with parameters and nothing inside.

    A block that looks up words is taken for one layer: it holds several, and keeps something of them.
    """
    visible = 0
    for layer, start, at, _ in ends:
        if layer.params and not layer.children and at > start and not blocks.holds_activation(layer.type):
            op = flow.ops[at - 1]
            if not op.params or op.kind is Kind.OPAQUE:
                continue
            visible += flow.tensors[op.y]
            if op.kind is Kind.EMBEDDING and blocks.norms_words(layer.type):
                visible += round(_WORDS_COUNTED * flow.tensors[op.y])
                op.extra = round(_WORDS_KEPT * flow.tensors[op.y])
    return visible


def _is_picture(shape: Shape) -> bool:
    return len(shape) == PICTURE and shape[1] == shape[2] > 1


def _works_on_tokens(type_: str) -> bool:
    return attends(type_) or "Mlp" in type_ or "LayerNorm" in type_
