"""Reads layers whose weights are made anew at each call, by PyTorch's own norms, as the layers that they are. Pure.

``torch.nn.utils.parametrizations`` puts what makes them into the layer, which a print and a table then show as a block
without the layer itself. Others' parametrizations, and normed convolutions of sounds, were measured as they are shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from estimator.layer import Layer
from estimator.types import ModelSummary
from estimator.walk import Rewrite, layers

LIST: Final = "ParametrizationList"
"""Type of what makes a weight."""
_BEFORE: Final = "Parametrized"
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
    return replace(summary, root=Rewrite(_as_layer).through(summary.root), made_anew=made)


def _is_made(layer: Layer) -> bool:
    if not layer.children or not layer.type.startswith(_BEFORE):
        return False
    type_ = layer.type.removeprefix(_BEFORE)
    makers = [part.type for list_ in layers(layer) if list_.type == LIST for part in list_.children]
    own = bool(makers) and all(maker in _OWN for maker in makers)
    return type_ in _LAYERS and own and not (type_ in _MEASURED and _NORMED in makers)


def _params(layer: Layer) -> int:
    return sum([part.params for part in layers(layer)])


def _as_layer(walk: Rewrite, layer: Layer) -> Layer:
    if not _is_made(layer):
        return walk.inside(layer, layer.args)
    return layer.but(type=layer.type.removeprefix(_BEFORE), params=_params(layer), children=())
