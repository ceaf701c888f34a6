"""What goes into a model, where a summary says that in its first layer only. Pure."""

from __future__ import annotations

from math import prod
from typing import Final

from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind, kind_of
from estimator.methods.rad.program.steps import DEEP, PICTURE, Shape
from estimator.methods.rad.program.weights import (
    each_of,
    inputs_of,
    recurrent_sizes,
    solve,
    solve_along,
    solve_deep,
)

_TUBES: Final[tuple[int, ...]] = (8, 32, 98, 512)
_STEM: Final = 49
# By how much a guessed picture's sides may be wrong.
_LEAST_SIDE: Final = 0.2
# Printed with an error of less than one such part.
_SURE: Final = 8
_MOST_SIDE: Final = 3.0
# Axes of a series, and of how many channels one is looked for.
_SERIES: Final = 2
_MOST_CHANNELS: Final = 64


def input_of(layer: Layer, said: tuple[float, float] | None) -> Shape:
    """Give what goes into a model: as shown, or as its first layer and the printed size of the input say.

    Args:
        layer: the model.
        said: elements of one sample's input, and by how many they may be wrong; None where the summary does not say.
    """
    shape = layer.input_shape or _first_input(layer)
    if said is not None and len(shape) == _SERIES and not layer.input_shape:
        return _series(layer, said) or shape
    if said is None or len(shape) < PICTURE or layer.input_shape:
        return shape
    more, picture = shape[:-PICTURE], shape[-PICTURE:]
    floats, error = (value / max(prod(more), 1) for value in said)
    side = (floats / max(picture[0] * picture[1] * picture[2], 1)) ** 0.5
    grown = (picture[0], round(picture[1] * side), round(picture[2] * side))
    fits = abs(prod(grown) - floats) <= error and abs(prod(picture) - floats) > error
    sure = error * _SURE < floats
    return (*more, *grown) if fits and sure and _LEAST_SIDE <= side <= _MOST_SIDE else shape


def _series(layer: Layer, said: tuple[float, float]) -> Shape:
    """Give the series of the printed size that a first convolution makes its output of; () where none is known to be.

    Its kernel looks along one axis: it may be of any length that steps as far.
    """
    while layer.children:
        layer = layer.children[0]
    shape, (floats, error) = layer.output_shape or (), said
    if kind_of(layer.type) is not Kind.CONV or len(shape) != _SERIES or error * _SURE >= floats or layer.args:
        return ()
    found: set[Shape] = set()
    for each in each_of((layer.params - shape[0], layer.params), shape[0]):
        for channels in range(1, min(each, _MOST_CHANNELS) + 1):
            length = max(round(floats / channels / shape[1]), 1) * shape[1]
            if abs(length * channels - floats) > error:
                length = round(floats / channels)
            if each % channels or abs(length * channels - floats) > error:
                continue
            area, groups = solve_along([each], (channels, length), shape)
            if area and groups == 1 and length == shape[1]:
                return channels, length  # most first kernels keep the places
            if area and groups == 1:
                found.add((channels, length))
    return found.pop() if len(found) == 1 else ()


def _first_input(layer: Layer) -> Shape:
    """Guess what goes into the first layer: as much as comes out, of as many channels as its weights take."""
    while layer.children:
        layer = layer.children[0]
    if layer.input_shape:
        return layer.input_shape
    shape = layer.output_shape or (1,)
    kind = kind_of(layer.type)
    if kind is Kind.LINEAR:
        return (*shape[:-1], max(inputs_of(layer, shape), 1))
    if kind is Kind.RECURRENT:
        return (*shape[:-1], min((wide for _, wide in recurrent_sizes(layer, shape[-1])), default=shape[-1]))
    if kind is Kind.CONV and len(shape) >= 2:
        for channels in (3, 1, 4, 2, 6, 12):
            weights = (layer.params - shape[0], layer.params)
            if len(shape) == DEEP and "2d" in layer.type:
                return (shape[0], *_first_input(layer.but(output_shape=shape[1:])))
            if len(shape) == DEEP:
                area, _ = solve_deep(weights, channels, shape[0])
                if area:
                    return (channels, *_before_deep(area, shape[1:]))
                continue
            area, _ = solve(weights, channels, shape[0])
            if area:
                # Stems halve the picture from 5x5 on, patches are cut without overlap.
                side = round(area**0.5)
                step = side if side % 2 == 0 or side > 11 else (2 if side >= 5 else 1)
                return (channels, *(size * step for size in shape[1:]))
        return (3, *shape[1:])
    if kind is Kind.EMBEDDING:
        return (shape[0], 2) if len(shape) > 1 else (2,)
    return shape


def _before_deep(area: int, shape: Shape) -> Shape:
    """Guess the film that a first convolution over time and place took: stems halve each picture."""
    frames, height, width = shape
    if area in _TUBES:
        step = round((area // 2) ** 0.5)
        return (2 * frames, step * height, step * width)
    step = 2 if area >= _STEM else 1
    return (frames, step * height, step * width)
