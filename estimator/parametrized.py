"""Reads layers whose weights are made anew at each call, by PyTorch's own norms, as the layers that they are. Pure.

``torch.nn.utils.parametrizations`` puts what makes them into the layer, which a print and a table then show as a block
without the layer itself. Others' parametrizations, and normed convolutions of sounds, were measured as they are shown,
and so were tables that hide most of a model: what these say of its pass lacks what such layers give out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from estimator.layer import Layer
from estimator.sizes import knows
from estimator.types import ModelSummary
from estimator.walk import Rewrite, layers

BEFORE: Final = "Parametrized"
"""What PyTorch puts before the names of such layers' classes."""
LIST: Final = "ParametrizationList"
"""Type of what makes a weight."""
_NORMED: Final = "_WeightNorm"
_OWN: Final = ("_SpectralNorm", "_Orthogonal", _NORMED)
_MEASURED: Final = ("Conv1d", "ConvTranspose1d")
_CONVOLUTIONS: Final = ("Conv2d", "Conv3d", "ConvTranspose2d", "ConvTranspose3d", *_MEASURED)
_LAYERS: Final = ("Linear", "Bilinear", "Embedding", *_CONVOLUTIONS)


def as_layers(summary: ModelSummary) -> ModelSummary:
    """Give the summary with layers in the place of such blocks; it says how many parameters are made anew."""
    made = sum([_params(layer) for layer in layers(summary.root) if _is_made(layer)])
    if not made:
        return summary
    root = Rewrite(_as_layer).through(summary.root)
    hidden = sum([layer.params for layer in layers(root) if not (layer.children or knows(layer.type))])
    return replace(summary, root=root, made_anew=made) if 2 * hidden <= summary.total_params else summary


def _is_made(layer: Layer) -> bool:
    if not layer.type.startswith(BEFORE):
        return False
    type_ = layer.type.removeprefix(BEFORE)
    makers = [part.type for list_ in layers(layer) if list_.type == LIST for part in list_.children]
    if type_ in _MEASURED:
        return bool(makers) and all(maker in _OWN and maker != _NORMED for maker in makers)
    return type_ in _LAYERS and all(maker in _OWN for maker in makers)  # a table that was cut shows none


def _params(layer: Layer) -> int:
    return sum([part.params for part in layers(layer)])


def _as_layer(walk: Rewrite, layer: Layer) -> Layer:
    if not _is_made(layer):
        return walk.inside(layer, layer.args)
    return layer.but(type=layer.type.removeprefix(BEFORE), params=_params(layer), children=())
