"""Recurrent layers in a table of Keras, which shows neither what works in both directions nor how many steps. Pure.

A recurrent layer that gives out its last state alone works on all steps all the same: they stand where what it takes
comes from, which is known by its width, as that follows from the number of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.layer import OPEN, Layer

_PLAIN: Final = {"LSTM": "LSTM", "CuDNNLSTM": "LSTM", "GRU": "GRU", "CuDNNGRU": "GRU", "SimpleRNN": "RNN"}
_BOTH: Final = "Bidirectional"
# Gates, and biases of each: GRU has two since Keras 2.3, one before; so have layers that are named after cuDNN.
_BIASES: Final[dict[str, tuple[int, tuple[int, ...]]]] = {"LSTM": (4, (1, 2)), "GRU": (3, (2, 1)), "RNN": (1, (1,))}
_SERIES: Final = 2  # axes of one
_LAST: Final = "Lambda"


def recurs(types: set[str]) -> bool:
    """Tell whether layers of these types are, or may be, such."""
    return not types.isdisjoint(_PLAIN) or _BOTH in types


def unrolled(layers: Sequence[Layer]) -> list[Layer]:
    """Give layers in which each recurrent one is of a type that PyTorch has too and gives out all steps.

    Behind one that gives out its last state alone stands a layer without parameters that takes that from the steps.

    Args:
        layers: of a table in order, with shapes of one sample.
    """
    made: list[Layer] = []
    series: dict[int, tuple[int, int]] = {}  # by width: place and steps of the last so far
    for number, layer in enumerate(layers):
        if not number & OFTEN:
            breathe()
        shape = layer.output_shape
        found = _recurrent(layer, series)
        if found is not None and shape:
            type_, steps = found
            made.append(layer.but(type=type_, output_shape=(steps, shape[-1])))
            if len(shape) < _SERIES:
                made.append(Layer(_LAST, 0, shape))
        else:
            made.append(layer)
        if shape and len(shape) == _SERIES:
            series[shape[1]] = number, shape[0]
    return made


def _recurrent(layer: Layer, series: Mapping[int, tuple[int, int]]) -> tuple[str, int] | None:
    """Tell which recurrent layer this is, by PyTorch's name, and how many steps it takes; None if it is none.

    Args:
        layer: of the table.
        series: by their width, place and steps of the last series before it.
    """
    shape = layer.output_shape
    plain = _PLAIN.get(layer.type)
    if (plain is None and layer.type != _BOTH) or not shape or len(shape) > _SERIES:
        return None
    takes = [
        (type_, width)
        for type_ in ([plain] if plain else _BIASES)
        for width in _widths(type_, layer.params, shape[-1], both=plain is None)
    ]
    known = [(*series[width], type_) for type_, width in takes if width in series]
    if known:
        _, steps, type_ = max(known, key=lambda one: one[0])
        return type_, steps if len(shape) < _SERIES else shape[0]
    if plain is None and not takes:
        return None  # it holds something else
    return plain or takes[0][0], OPEN if len(shape) < _SERIES else shape[0]


def _widths(type_: str, params: int, given: int, *, both: bool) -> list[int]:
    """Tell how wide the series may be that a layer of a type takes which has so many parameters and gives out so much.

    Both directions are joined, or added up.
    """
    gates, biases = _BIASES[type_]
    made: list[int] = []
    for directions, states in ((2, given // 2), (2, given)) if both else ((1, given),):
        each, rest = divmod(params, max(directions * gates * states, 1))
        made += [each - states - bias for bias in biases if not rest and each - states - bias > 0]
    return made
