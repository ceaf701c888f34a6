"""What a recurrent layer reads of a picture that convolutions made: a series of its columns, or rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from estimator.inputs import number
from estimator.layer import Layer
from estimator.shapes.widths import COLOURS, grid, line_of
from estimator.types import SummaryError
from estimator.walk import elements

Shape = tuple[int, ...]

_SERIES: Final = 2  # its axes


def series_of(layer: Layer, picture: Shape, outers: Sequence[Shape], taken: bool) -> Shape:
    """Give the series that a recurrent layer takes: steps and features.

    Each step is a column, of all channels and heights, or a row. Where there are as many features as channels, code
    took the mean over the shorter side; where there are as many as places, each channel is a step.

    Args:
        layer: recurrent, as printed.
        picture: what came before: channels, height and width, or what was flattened of these.
        outers: what came into the blocks around it, the outermost first.
        taken: whether nothing told how large the pictures are that go into the model.

    Returns:
        The series; the shape as it is where it fits already, or fits nothing.

    Raises:
        SummaryError: nothing told how large the pictures are, and so how long their series is.
    """
    width = number(layer, "0")
    if width < 1 or len(picture) not in (1, _SERIES, COLOURS):
        return picture
    if len(picture) == _SERIES:
        return _told(layer, picture, taken)
    if len(picture) == 1:
        steps, rest = divmod(picture[0], width)
        return picture if rest or steps == 1 else _told(layer, (steps, width), taken)
    if _is_last(width, picture):
        return picture  # each of its rows and columns is a series
    channels, height, columns = picture
    if elements(picture) == width:
        return (width,)
    if channels * height == width:
        series = columns, width
    elif channels * columns == width:
        series = height, width
    elif channels == width:
        series = max(height, columns), width
    elif height * columns == width:
        series = channels, width
    elif beside := next((outer for outer in reversed(outers) if _is_last(width, outer)), ()):
        return beside  # of which another layer reads the columns
    elif width % channels or taken:
        return _told(layer, picture, taken)
    else:
        series = max(elements(picture) // width, 1), width
    return _told(layer, series, taken)


def _is_last(width: int, shape: Shape) -> bool:
    """Tell whether a picture has so many channels, and has them last."""
    return len(shape) == COLOURS and shape[-1] == width and grid(shape) == shape[:-1]


def _told(layer: Layer, series: Shape, taken: bool) -> Shape:
    if taken and series[0] > 1:
        raise SummaryError(
            f"'{line_of(layer)}' reads pictures column by column, and a print does not show how large they are: "
            "say `input_size=CHANNELSxHEIGHTxWIDTH`, or paste what torchinfo prints"
        )
    return series
