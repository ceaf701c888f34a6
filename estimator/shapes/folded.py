"""Films, and bags of pictures, that code folds into the batch: torchsummary writes the batch in their place. Pure.

What the table says of the input's size tells how many pictures a sample has, where the first convolution takes one of
them; rows that show that number say the same.
"""

from __future__ import annotations

from math import ceil, floor, isqrt, prod
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.layer import Layer
from estimator.types import ModelSummary

Shape = tuple[int, ...]

_MIB: Final = 2**20
# The printed size is rounded to so many bytes.
_ROUNDED: Final = 0.005 * _MIB
_SURE: Final = 0.05
_MORE: Final = 0.01
_CHANNELS: Final[tuple[int, ...]] = (3, 1, 4, 2, 8, 16, 12, 6)
_AREAS: Final[tuple[int, ...]] = (9, 1, 49, 25, 4, 16, 64, 196, 256)
# Of these, those that cut patches.
_CUTS: Final[tuple[int, ...]] = (16, 64, 196, 256)
# Kernels that no stem moves by one pixel: it would be taken for more pictures where it moves by four.
_LARGE: Final = 49
_MOST_PICTURES: Final = 512
_FLOAT: Final = 4
_PICTURE: Final = 3
_FILM: Final = 4


def unfolded(summary: ModelSummary) -> tuple[Layer, ...]:
    """Put back how many pictures a sample has, in all rows that work on each by itself.

    Args:
        summary: a table of torchsummary.
    """
    rows = summary.root.children
    stem = next((row for row in rows if row.params and len(row.output_shape or ()) > 1), None)
    if stem is None or stem.type != "Conv2d" or summary.input_mb is None or len(stem.output_shape or ()) != _PICTURE:
        return rows
    count = _pictures(stem, summary.input_mb * 1e6 / max(summary.batch_size or 1, 1), rows)
    return _with_pictures(rows, count) if count > 1 else rows


def _pictures(stem: Layer, size: float, rows: tuple[Layer, ...]) -> int:
    """Tell how many pictures a sample of so many bytes has; 1 where it may be one, or where no row shows so many."""
    outputs, *places = stem.output_shape or (1,)
    found: list[int] = []
    for channels in _CHANNELS:
        for area in _AREAS:
            if stem.params not in (outputs * channels * area, outputs * (channels * area + 1)):
                continue
            side = isqrt(area) if area in _CUTS else 1
            for step in (1, 2, side) if side > 1 else (1, 2) if area < _LARGE else (2,):
                one = channels * prod(places) * step * step * _FLOAT
                times, error = size / one, _ROUNDED / one
                if abs(times - 1) <= error + _SURE:
                    return 1
                if error < _SURE * times:
                    found += range(ceil(times - error - _MORE), floor(times + error + _MORE) + 1)
    if not found:
        return 1
    shown = set(map(_shown, rows))
    return max([count for count in found if 1 < count <= _MOST_PICTURES and count in shown], default=1)


def _shown(row: Layer) -> int:
    """Tell how many pictures of a sample a row may show on an axis of their own; 0 for none."""
    shape = row.output_shape or ()
    return shape[0] if len(shape) == 2 else shape[1] if len(shape) == _FILM else 0


def _with_pictures(rows: tuple[Layer, ...], count: int) -> tuple[Layer, ...]:
    made: list[Layer] = []
    picture: Shape = ()
    for number, row in enumerate(rows):
        if not number & OFTEN:
            breathe()
        shape = row.output_shape or ()
        places = prod(picture[1:])
        if len(shape) == _PICTURE:
            if "Conv" in row.type or "Pool" in row.type:  # else perhaps an attention's matrices
                picture = shape
            row = row.but(output_shape=(count, *shape))  # noqa: PLW2901
        elif len(shape) == _FILM and count not in shape[:2]:
            row = row.but(output_shape=(count, *shape))  # noqa: PLW2901
        elif picture and len(shape) == 2 and shape[0] == count:  # all pictures of each place
            row = row.but(output_shape=(places, *shape))  # noqa: PLW2901
        elif picture and _of_one(shape, places, picture[0]):
            row = row.but(output_shape=(count, *shape))  # noqa: PLW2901
        made.append(row)
    return tuple(made)


def _of_one(shape: Shape, places: int, channels: int) -> bool:
    """Tell whether these are a picture's places, a class token before them perhaps, or its channels."""
    return shape in ((places,), (channels,)) or (len(shape) == 2 and shape[0] in (places, places + 1))
