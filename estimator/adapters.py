"""Takes peft's adapters out of a summary: what is left is the model that they adapt, with notes of them. Pure.

A model with LoRA is known by the model that it was, whose layers it leaves as they are: each is frozen, and noted is
what the adapter beside it works with (https://github.com/huggingface/peft, ``tuners/lora/layer.py``, ``dora.py``).
Other adapters work with copies of weights and outputs: their models stay as they are printed, and count as if all were
trained.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from estimator.layer import Layer
from estimator.types import ModelSummary
from estimator.walk import Rewrite, layers

# Arguments of a layer that are none of its print's: no line of one holds a line's end.
TRAINABLE: Final = "\ntrainable"
"""``False`` where its parameters are frozen."""
RANK: Final = "\nrank"
"""The width between the two matrices of LoRA beside it; 0 where that is not shown."""
DROPS: Final = "\ndrops"
"""Whether dropout comes before these."""
NORMS: Final = "\nnorms"
"""Whether the norm of weights and matrices scales what the layer gives, as DoRA has it."""

FROZEN: Final = (TRAINABLE, "False")
BASE: Final = "base_layer"
"""Name under which a layer of peft holds the one that it adapts."""
_SAVED: Final = "ModulesToSaveWrapper"
_TOKENS: Final = "TrainableTokens"
_ORIGINAL: Final = "original_module"
_PEFT: Final = "Peft"
_TUNER: Final = "Model"  # of peft, between its own and the model
_LORA_MODEL: Final = "LoraModel"
_LORA: Final = "lora."
_ADAPTED: Final = ("Linear", "Embedding", "Conv1d", "Conv2d", "Conv3d")
_EMBEDDING: Final = "Embedding"
_DICTS: Final = ("ModuleDict", "ParameterDict")
_DROPOUT: Final = ("Dropout", "Identity")
# What scales a linear layer's rows, in a print and in a table.
_NORMED: Final = "DoraLinearLayer"
_LONGEST: Final = 9


def without_adapters(summary: ModelSummary) -> ModelSummary:
    """Give the summary of the model that LoRA adapts; of one with other adapters, one in which nothing is frozen."""
    if not summary.frozen_params:
        return summary
    root = summary.root
    wrapped: list[str] = []
    while root.type.startswith(_PEFT) or (wrapped and root.type.endswith(_TUNER) and len(root.children) == 1):
        wrapped.append(root.type)
        if not root.children:
            return summary
        root = root.children[0]
    adapted = [layer for layer in layers(root) if _is_adapted(layer)]
    others = any(not type_.startswith((_PEFT, _LORA_MODEL)) for type_ in wrapped)
    if others or not all(_is_lora(layer) for layer in {id(layer): layer for layer in adapted}.values()):
        return replace(summary, root=Rewrite(_unmarked).through(summary.root))
    return replace(summary, root=Rewrite(_without).through(root).but(name="")) if adapted else summary


def _is_adapted(layer: Layer) -> bool:
    """Tell whether this is a layer of peft around another.

    A print tells by the type, or the inner one's name; in a table no layer of these types has others inside.
    """
    if not layer.children:
        return False
    if layer.type in _ADAPTED or layer.type.startswith(_TOKENS):
        return True
    return names_its_base(layer)


def names_its_base(layer: Layer) -> bool:
    """Tell whether a print shows that this is a layer of peft around another: ``lora.Linear``, a Linear in a Linear."""
    return any(part.name == BASE and ("." in layer.type or part.type == layer.type) for part in layer.children)


def _is_lora(layer: Layer) -> bool:
    """Tell whether it is LoRA, or DoRA of a linear layer: two matrices for each adapter, and dropout."""
    base = _base(layer)
    beside = [part for part in layer.children if part is not base]
    if base.type == _EMBEDDING:  # its matrices are bare parameters
        normed = any("Dora" in inner.type for part in beside for inner in layers(part))
        return not normed and (layer.type in (_EMBEDDING, _LORA + _EMBEDDING) or layer.type.startswith(_TOKENS))
    if layer.params or not layer.type.startswith((_LORA, *_ADAPTED)):
        return False
    inside = [inner for part in beside for inner in layers(part) if inner.type not in _DICTS]
    rest = [inner for inner in inside if not inner.type.endswith(_NORMED)]
    matrices = [inner for inner in rest if inner.params]
    plain = all(inner.type in _ADAPTED for inner in matrices) and len(matrices) % 2 == 0 < len(matrices)
    others = _DROPOUT if len(rest) == len(inside) else (*_DROPOUT, *_ADAPTED)  # DoRA calls each matrix twice
    return plain and all(inner.params or inner.type in others for inner in rest)


def _base(layer: Layer) -> Layer:
    """Give the layer that is adapted: a print names it, in a table it is the first."""
    named = next((part for part in layer.children if part.name in (BASE, _ORIGINAL)), layer.children[0])
    return _base(named) if named.type.startswith(_TOKENS) and named.children else named


def _unmarked(walk: Rewrite, layer: Layer) -> Layer:
    """Take away what says that a layer is frozen."""
    return walk.inside(layer, tuple([pair for pair in layer.args if pair != FROZEN]))


def _without(walk: Rewrite, layer: Layer) -> Layer:
    """Take away adapters, and note them; freeze all that is not saved with them."""
    if layer.type == _SAVED:  # trained is a copy of this, which stands in its place
        original = next((part for part in layer.children if part.name == _ORIGINAL), None)
        return layer if original is None else original.but(name=layer.name)
    frozen = layer.args if layer.said(TRAINABLE) else (*layer.args, FROZEN)
    if not _is_adapted(layer):
        return walk.inside(layer, frozen if layer.params else layer.args)
    base = _base(layer)
    kept = base.args if base.said(TRAINABLE) else (*base.args, FROZEN)
    return base.but(name=layer.name, args=(*kept, *_told(layer, base)))


def _told(layer: Layer, base: Layer) -> tuple[tuple[str, str], ...]:
    """Say what is known of the adapters beside a layer; of several the largest counts, as one works at a time."""
    matrices: list[int] = []
    drops = norms = False
    for part in layer.children if base.type != _EMBEDDING else ():
        leaves = [] if part is base else [inner for inner in layers(part) if inner.type not in _DICTS]
        norms |= any(inner.type.endswith(_NORMED) for inner in leaves)
        widths = [_width(inner) for inner in leaves if inner.params and not inner.type.endswith(_NORMED)]
        matrices += [max(widths)] if widths else []
        drops |= any(inner.type == _DROPOUT[0] for inner in leaves)
    return ((RANK, str(matrices[0] if matrices else 0)), (DROPS, str(drops)), (NORMS, str(norms)))


def _width(layer: Layer) -> int:
    """Tell how wide what a matrix of an adapter gives out is; 0 where nothing says it."""
    for key in ("out_features", "1"):
        said = layer.said(key)
        if said.isdecimal() and len(said) < _LONGEST:
            return int(said)
    return max(layer.output_shape[-1], 0) if layer.output_shape else 0
