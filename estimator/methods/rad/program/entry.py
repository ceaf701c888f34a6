"""What goes into a model, where a summary says that in its first layer only. Pure."""

from __future__ import annotations

from math import prod
from typing import Final

from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind, kind_of
from estimator.methods.rad.program.steps import DEEP, PICTURE, Shape
from estimator.methods.rad.program.weights import inputs_of, recurrent_sizes, solve, solve_deep

_TUBES: Final[tuple[int, ...]] = (8, 32, 98, 512)
_STEM: Final = 49
# By how much a guessed picture's sides may be wrong.
_LEAST_SIDE: Final = 0.2
# Printed with an error of less than one such part.
_SURE: Final = 8
_MOST_SIDE: Final = 3.0


def input_of(layer: Layer, said: tuple[float, float] | None) -> Shape:
    """Give what goes into a model: as shown, or as its first layer and the printed size of the input say.

    Args:
        layer: the model.
        said: elements of one sample's input, and by how many they may be wrong; None where the summary does not say.
    """
    shape = layer.input_shape or _first_input(layer)
    if said is None or len(shape) < PICTURE or layer.input_shape:
        return shape
    more, picture = shape[:-PICTURE], shape[-PICTURE:]
    floats, error = (value / max(prod(more), 1) for value in said)
    side = (floats / max(picture[0] * picture[1] * picture[2], 1)) ** 0.5
    grown = (picture[0], round(picture[1] * side), round(picture[2] * side))
    fits = abs(prod(grown) - floats) <= error and abs(prod(picture) - floats) > error
    sure = error * _SURE < floats
    return (*more, *grown) if fits and sure and _LEAST_SIDE <= side <= _MOST_SIDE else shape


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
