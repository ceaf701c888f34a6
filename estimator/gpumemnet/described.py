"""What GPUMemNet sees of a model: its layers as (type, activations, parameters) and totals. Pure.

The same description is made from a row of the published data and from any parsed summary, so that one
network serves both. Source: dissertation, section 5.4.4 and tables 5.2, 5.4, 5.6.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from estimator.breath import OFTEN, breathe
from estimator.dataset.tree import Trace, resolve
from estimator.layer import Layer
from estimator.types import ModelSummary

LAYER_TYPES = (
    "other",
    "linear",
    "conv",
    "norm",
    "dropout",
    "activation",
    "softmax",
    "pool",
    "embedding",
)
"""Kinds of layers that the sequence distinguishes; the place in this tuple is the code."""

LONGEST = 160
"""Layers that the sequence shows at most."""

ACTIVATION_FUNCTIONS = (
    "ELU",
    "GELU",
    "LeakyReLU",
    "Mish",
    "PReLU",
    "ReLU",
    "SELU",
    "SiLU",
    "Softplus",
    "Tanh",
    "Sigmoid",
    "Identity",
)
"""Activation functions in the order of their angle on the circle (cos/sin encoding)."""


@dataclass(frozen=True)
class Described:
    """A model as GPUMemNet sees it.

    Attributes:
        layers: (type, activations of one example, parameters), in order of use.
        activations: sum over layers; of one example, or as the published data counts it.
        params: parameters of the whole model.
        activation: most frequent activation function, or ``Identity``.
    """

    layers: tuple[tuple[str, int, int], ...]
    activations: int
    params: int
    activation: str

    def kinds(self) -> Counter[str]:
        """Return how many layers are of each kind of ``LAYER_TYPES``."""
        return Counter([layer_type(name) for name, _, _ in self.layers])


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def layer_type(name: str) -> str:
    """Return the kind of a layer from its class name or the published data's name for it."""
    breathe()
    low = name.lower()
    if low in ("linear", "conv1d", "nondynamicallyquantizablelinear", "dense"):
        return "linear"
    if low.startswith("conv") or low.endswith("conv2d"):
        return "conv"
    if "norm" in low or low == "batch_normalization":
        return "norm"
    if "drop" in low:
        return "dropout"
    if "softmax" in low:
        return "softmax"
    if "pool" in low:
        return "pool"
    if "embedding" in low:
        return "embedding"
    return "activation" if low in _ACTIVATIONS else "other"


_ACTIVATIONS = {name.lower() for name in ACTIVATION_FUNCTIONS} | {
    "relu6",
    "hardswish",
    "hardsigmoid",
    "newgeluactivation",
    "geluactivation",
    "quickgelu",
    "swish",
}


def activation_angle(name: str) -> tuple[float, float]:
    """Return cos and sin of an activation function's place on the circle."""
    known = {item.lower(): place for place, item in enumerate(ACTIVATION_FUNCTIONS)}
    turn = 2 * math.pi * known.get(name.lower(), len(known) - 1) / len(known)
    return math.cos(turn), math.sin(turn)


def from_published(row: Mapping[str, str]) -> Described:
    """Describe a row of the published GPUMemNet data.

    Args:
        row: a row of the CSV with columns ``Activations-Params``, ``Total Activations``,
            ``Total Parameters`` and ``Activation Function``.

    Raises:
        ValueError: the list of layers is no list of (name, number, number).
    """
    try:
        parsed = ast.literal_eval(row["Activations-Params"])
        layers = tuple((str(name), int(size), int(params)) for name, size, params in parsed)
    except (SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"column Activations-Params of {row.get('Filename', '?')}: {error}") from None
    return Described(layers, int(row["Total Activations"]), int(row["Total Parameters"]), row["Activation Function"])


def from_summary(summary: ModelSummary) -> Described:
    """Describe a parsed summary: its leaves, in order."""
    layers: list[tuple[str, int, int]] = []
    functions: dict[str, int] = {}
    todo: list[Layer] = [summary.root]
    while todo:
        if not len(layers) & OFTEN:
            breathe()
        layer = todo.pop()
        todo.extend(reversed(layer.children))
        if layer.children and not layer.params:
            continue
        size = 0 if layer.children or layer.output_shape is None else abs(prod(layer.output_shape))
        layers.append((layer.type, size, layer.params))
        if layer_type(layer.type) == "activation":
            functions[layer.type] = functions.get(layer.type, 0) + 1
    function = max(functions, key=lambda name: functions[name]) if functions else "Identity"
    return Described(tuple(layers), sum(size for _, size, _ in layers), summary.total_params, function)


def from_trace(trace: Trace) -> Described:
    """Describe a traced model: its leaves, in order of use; a layer used again brings no parameters again."""
    modules = trace.modules()
    layers: list[tuple[str, int, int]] = []
    functions: dict[str, int] = {}
    seen: set[int] = set()
    for call in trace.calls:
        module = modules[call.module]
        params = 0 if call.module in seen else module.params
        seen.add(call.module)
        if module.children and not params:
            continue
        size = 0 if module.children or call.output_shape is None else prod(resolve(call.output_shape, 1))
        layers.append((module.type, size, params))
        if layer_type(module.type) == "activation":
            functions[module.type] = functions.get(module.type, 0) + 1
    function = max(functions, key=lambda name: functions[name]) if functions else "Identity"
    return Described(tuple(layers), sum(size for _, size, _ in layers), trace.total_params, function)


def totals(model: Described, batch_size: int) -> list[float]:
    """Return the features beside the sequence, large ones as logarithms.

    Returns:
        Depth, counts by kind, batch size, parameters, activations, activations x batch size, cos and sin.
    """
    kinds = model.kinds()
    counts = [float(kinds[kind]) for kind in LAYER_TYPES]
    depth = float(sum(1 for name, _, params in model.layers if params and layer_type(name) in ("linear", "conv")))
    breathe()
    sizes = (batch_size, model.params, model.activations, model.activations * batch_size)
    return [depth, *counts, *(math.log1p(size) for size in sizes), *activation_angle(model.activation)]


def sequence(model: Described, longest: int) -> list[tuple[int, float, float]]:
    """Return the layers as (code, log activations, log parameters); a longer model keeps every n-th layer."""
    layers = model.layers
    if len(layers) > longest:
        step = len(layers) / longest
        layers = tuple(layers[int(place * step)] for place in range(longest))
    return [
        (LAYER_TYPES.index(layer_type(name)), math.log1p(size), math.log1p(params)) for name, size, params in layers
    ]
