"""Reads layers whose weights are made anew at each call, by PyTorch's own norms, as the layers that they are. Pure.

``torch.nn.utils.parametrizations`` puts what makes them into the layer, which a print and a table then show as a block
without the layer itself. Others' parametrizations were measured as they are shown, and so were a normed convolution
of series among more that are not (wav2vec's places) and tables that hide most of a model: what torchinfo says of its
pass lacks what such layers give out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from estimator.layer import Layer
from estimator.sizes import knows
from estimator.types import ModelSummary
from estimator.walk import Rewrite, elements, layers

BEFORE: Final = "Parametrized"
"""What PyTorch puts before the names of such layers' classes."""
LIST: Final = "ParametrizationList"
"""Type of what makes a weight."""
_NORMED: Final = "_WeightNorm"
_OWN: Final = ("_SpectralNorm", "_Orthogonal", _NORMED)
_OF_SERIES: Final = ("Conv1d", "ConvTranspose1d")
_CONVOLUTIONS: Final = ("Conv2d", "Conv3d", "ConvTranspose2d", "ConvTranspose3d", *_OF_SERIES)
_LAYERS: Final = ("Linear", "Bilinear", "Embedding", *_CONVOLUTIONS)
# Of each number that a layer gives out, in what torchinfo prints of the pass.
_EACH_MB: Final = 8e-6


def as_layers(summary: ModelSummary) -> ModelSummary:
    """Give the summary with layers in the place of such blocks; it says how many parameters are made anew."""
    is_made = partial(_is_made, few=_few_normed(summary.root))
    found = [layer for layer in layers(summary.root) if is_made(layer)]
    if not found:
        return summary
    root = Rewrite(partial(_as_layer, is_made)).through(summary.root)
    hidden = sum([layer.params for layer in layers(root) if not (layer.children or knows(layer.type))])
    if 2 * hidden > summary.total_params:
        return summary
    pass_mb = summary.pass_mb
    if pass_mb is not None and summary.format == "torchinfo":
        pass_mb += sum([elements(layer.output_shape) for layer in found]) * (summary.batch_size or 1) * _EACH_MB
    return replace(summary, root=root, made_anew=sum(map(_params, found)), pass_mb=pass_mb)


def _few_normed(root: Layer) -> bool:
    """Tell whether most convolutions of series are as they are."""
    types = Counter([layer.type for layer in layers(root)])
    return sum([types[type_] - types[BEFORE + type_] for type_ in _OF_SERIES]) > 0


def _is_made(layer: Layer, *, few: bool) -> bool:
    if not layer.type.startswith(BEFORE):
        return False
    type_ = layer.type.removeprefix(BEFORE)
    makers = [part.type for list_ in layers(layer) if list_.type == LIST for part in list_.children]
    if few and type_ in _OF_SERIES:
        return bool(makers) and all(maker in _OWN and maker != _NORMED for maker in makers)
    return type_ in _LAYERS and all(maker in _OWN for maker in makers)  # a table that was cut shows none


def _params(layer: Layer) -> int:
    return sum([part.params for part in layers(layer)])


def _as_layer(is_made: Callable[[Layer], bool], walk: Rewrite, layer: Layer) -> Layer:
    if not is_made(layer):
        return walk.inside(layer, layer.args)
    return layer.but(type=layer.type.removeprefix(BEFORE), params=_params(layer), children=())
