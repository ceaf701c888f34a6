"""Pictures that code makes of a vector: of a latent, or of what a linear layer gives out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Final

from estimator.layer import Layer
from estimator.outputs import GROWS
from estimator.shapes.widths import by_channels, input_width

Shape = tuple[int, ...]

LEARNED: Final = (4, 4)
"""Places of a picture that is learned, which networks begin with where a vector only says how it is to look."""

_PLANES: Final[tuple[str, ...]] = ("2d", "PixelShuffle")


def on_pictures(layer: Layer) -> bool:
    """Tell whether a layer works on pictures alone."""
    return layer.type.endswith(_PLANES) or layer.type.startswith(GROWS)


def widths_behind(found: Sequence[Layer]) -> dict[int, int]:
    """Tell how many channels a picture has that goes into layers which do not say that, by these layers' ids.

    Such layers make it larger; the next one that says its channels takes as many.

    Args:
        found: all layers in the order in which they are defined.
    """
    widths: dict[int, int] = {}
    width = 0
    for layer in reversed(found):
        if layer.children:
            continue
        if layer.type.startswith(GROWS):
            widths[id(layer)] = width
        elif by_channels(layer):
            width = input_width(layer) or width
    return widths


def picture_of(vector: int, channels: int) -> Shape:
    """Give the square picture of so many channels that a vector is; () where it is none.

    Args:
        vector: its elements.
        channels: of the picture.
    """
    area, rest = divmod(vector, max(channels, 1))
    side = isqrt(area)
    return (channels, side, side) if side and not rest and side * side == area else ()
