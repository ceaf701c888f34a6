"""Reads layers whose weights are packed into 4 or 8 bits as the linear layers that they stand for. Pure.

bitsandbytes' layers multiply with weights that were unpacked for it, so that a model with them is known by the model
that it was (https://github.com/bitsandbytes-foundation/bitsandbytes, ``nn/modules.py``). Packed weights are not
trained. A print shows how large they were, a table how many bytes hold them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from estimator.adapters import FROZEN
from estimator.layer import Layer
from estimator.sizes import number, parameters
from estimator.types import ModelSummary, Packed
from estimator.walk import Rewrite, layers

BITS: Final = "\nbits"
"""Argument of a layer that is none of its print's: into how many bits each weight is packed."""
PACKED: Final = ("Linear4bit", "Linear8bitLt")
"""Types of such layers."""
FOUR: Final = 4
EIGHT: Final = 8
_BITS: Final = dict(zip(PACKED, (FOUR, EIGHT), strict=True))
_LINEAR: Final = "Linear"
_UNREHEARSED: Final = "weights are packed: what the rehearsal took does not count"
_EVEN: Final = 8


def unpacked(summary: ModelSummary) -> ModelSummary:
    """Give the summary of the model that was packed, which says what is packed."""
    found = [layer for layer in layers(summary.root) if layer.type in _BITS and not layer.children]
    sizes = [_sizes(layer) for layer in found]
    weights = [0, 0]
    for layer, (weight, _) in zip(found, sizes, strict=True):
        weights[layer.type == PACKED[1]] += weight
    shown = sum([layer.params for layer in found])
    more = sum([weight + bias for weight, bias in sizes]) - shown
    return replace(
        summary,
        root=Rewrite(_unpacked).through(summary.root),
        total_params=max(summary.total_params + more, sum(weights)),  # whatever total somebody wrote behind a print
        frozen_params=max(summary.frozen_params + more, sum(weights)),
        packed=Packed(*weights),
        rehearsals=(),  # on a CPU such weights are unpacked otherwise
        inferred=(*summary.inferred, *((_UNREHEARSED,) if summary.rehearsals else ())),
    )


def packed_away(root: Layer) -> int:
    """Count the parameters that PyTorch does not count, as each number that it holds is two weights."""
    return sum([_sizes(layer)[0] // 2 for layer in layers(root) if layer.type == PACKED[0] and not layer.children])


def _unpacked(walk: Rewrite, layer: Layer) -> Layer:
    bits = _BITS.get(layer.type)
    if bits is None:
        return walk.inside(layer, layer.args)
    if layer.children:  # a table's row of a layer with adapters
        return walk.inside(layer.but(type=_LINEAR), layer.args)
    args = tuple([pair for pair in layer.args if pair != FROZEN])
    return layer.but(type=_LINEAR, params=sum(_sizes(layer)), args=(*args, FROZEN, (BITS, str(bits))))


def _sizes(layer: Layer) -> tuple[int, int]:
    """Count a layer's weights, and its bias.

    Where only how many numbers hold them and the width of the output are shown, inputs that come in eights tell whether
    there is a bias.
    """
    args = dict(layer.args)
    said = parameters(_LINEAR, args)
    if said:
        bias = 0 if args.get("bias") == "False" else number(args, "1", "out_features")
        return said - bias, bias
    each = 2 if layer.type == PACKED[0] else 1
    width = layer.output_shape[-1] if layer.output_shape else 0
    if width > 0 and _inputs(each * layer.params, width) % _EVEN:
        weights = each * (layer.params - width)
        if weights > 0 and not _inputs(weights, width) % _EVEN:
            return weights, width
    return each * layer.params, 0


def _inputs(weights: int, width: int) -> int:
    """Say how many inputs so many weights have; an odd number where they are no matrix."""
    return 1 if weights % width else weights // width
