"""Takes peft's adapters out of a summary: what is left is the model that they adapt, with notes of them. Pure.

A model with adapters is known by the model that it was, whose layers they leave as they are: each is frozen, and noted
is what an adapter beside it works with (https://github.com/huggingface/peft, ``tuners/lora/layer.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from estimator.breath import breathe
from estimator.layer import Layer
from estimator.types import ModelSummary
from estimator.walk import layers

TRAINABLE: Final = "trainable"
"""Argument of a layer, as torchinfo names it: ``False`` where its parameters are frozen."""
RANK: Final = "adapter_rank"
"""Argument of a layer that LoRA adapts: the width between the adapter's two matrices; 0 where it is not shown."""
DROPS: Final = "adapter_drops"
"""Argument of a layer that LoRA adapts: whether dropout comes before the adapter."""

_FROZEN: Final = (TRAINABLE, "False")
_BASE: Final = "base_layer"
_SAVED: Final = "ModulesToSaveWrapper"
_ORIGINAL: Final = "original_module"
_PEFT: Final = "Peft"
_WRAPPERS: Final = ("PeftModel", "LoraModel")  # one in the other, and the model in both
_LORA: Final = "lora."
_ADAPTED: Final = ("Linear", "Embedding", "Conv1d", "Conv2d", "Conv3d")
_DICTS: Final = ("ModuleDict", "ParameterDict")
_SCALED: Final = "lora_magnitude_vector"  # of DoRA, which works with copies of the weights


def without_adapters(summary: ModelSummary) -> ModelSummary:
    """Give the summary of the model that peft adapted; the same where it adapted none."""
    if not summary.frozen_params:
        return summary
    root = summary.root
    for _ in _WRAPPERS if root.type.startswith(_PEFT) else ():
        root = root.children[0] if root.children else root
    found = layers(root)
    if not any(_base(layer) is not None for layer in found):
        return summary
    return replace(summary, root=_Taker().take(root).but(name=""))


def _base(layer: Layer) -> Layer | None:
    """Find the layer that this one, of peft, was put around; None if it is none of peft's.

    A print tells by the name. In a table the type of peft's is that of a layer, and no other has layers inside.
    """
    children = layer.children
    if not children:
        return None
    if "." in layer.type:
        return next((part for part in children if part.name == _BASE), None)
    adapted = layer.type in _ADAPTED and len(children) > 1 and all(part.type in _DICTS for part in children[1:])
    return children[0] if adapted else None


class _Taker:
    """Goes through a tree; equal layers that are one object are one in what it gives, too."""

    def __init__(self) -> None:
        self._taken: dict[int, Layer] = {}

    def take(self, layer: Layer) -> Layer:
        """Give a layer without adapters, with notes of them."""
        taken = self._taken.get(id(layer))
        if taken is None:
            breathe()
            taken = self._taken[id(layer)] = self._anew(layer)
        return taken

    def _anew(self, layer: Layer) -> Layer:
        if layer.type == _SAVED:  # trained is a copy of this, which stands in its place
            original = next((part for part in layer.children if part.name == _ORIGINAL), None)
            return layer if original is None else original.but(name=layer.name)
        base = _base(layer)
        if base is not None:
            inner = self.take(base)
            told = _told(layer, base)
            args = (*base.args, *told) if told else base.args
            return base.but(name=layer.name, args=args, children=inner.children)
        args = (*layer.args, _FROZEN) if layer.params and not layer.said(TRAINABLE) else layer.args
        return layer.but(args=args, children=tuple([self.take(part) for part in layer.children]))


def _told(layer: Layer, base: Layer) -> tuple[tuple[str, str], ...]:
    """Say what is known of LoRA beside a layer; nothing of another adapter, whose layer counts as trained."""
    parts = [inner for part in layer.children if part is not base for inner in layers(part)]
    if not (layer.type.startswith(_LORA) or layer.type in _ADAPTED):
        return ()
    if any(part.name == _SCALED and part.children for part in layer.children):
        return ()
    widths = [_width(part) for part in parts if part.params and part.type not in _DICTS]
    drops = any(part.type.startswith("Dropout") for part in parts)
    frozen = () if base.said(TRAINABLE) else (_FROZEN,)
    return (*frozen, (RANK, str(min(widths, default=0))), (DROPS, str(drops)))


def _width(layer: Layer) -> int:
    """Tell how wide what a matrix of an adapter gives out is; 0 where nothing says it."""
    for key in ("out_features", "1"):
        said = layer.said(key)
        if said.isdecimal() and len(said) < 12:
            return int(said)
    return layer.output_shape[-1] if layer.output_shape else 0
