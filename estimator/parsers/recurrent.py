"""Weights of recurrent layers in a table of torchsummary, which counts none of them. Pure.

They follow from how wide a layer's input and output are: for each gate and direction a matrix for either, and two
biases. How many layers lie one behind the other in one row, it does not show: one is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import prod
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.layer import Layer

Shape = tuple[int, ...]

GATES: Final[Mapping[str, int]] = {"LSTM": 4, "GRU": 3, "RNN": 1}
_BIASES: Final = 2
_SERIES: Final = 2  # its axes
_DIRECTIONS: Final = 2


def weighed(rows: Sequence[Layer], states: Mapping[int, int], floats: int, again: Set[int]) -> tuple[list[Layer], int]:
    """Give rows whose recurrent layers have weights where none are counted.

    Args:
        rows: the layers in order of use, with shapes of one sample.
        states: by place, how wide the state is that a recurrent layer gives out beside its output, where it is shown.
        floats: elements of one sample's input; 0 where that is not known.
        again: places of layers that are called again, whose weights count once.

    Returns:
        The rows, and how many parameters were added.
    """
    made: list[Layer] = []
    series = [row.output_shape or () for row in rows if row.type in GATES]
    lengths = {shape[0] for shape in series if len(shape) == _SERIES}
    added = 0
    before: Shape = ()
    for number, row in enumerate(rows):
        if not number & OFTEN:
            breathe()
        shape = row.output_shape
        gates = GATES.get(row.type, 0)
        if gates and shape and not row.params and number not in again:
            outputs = shape[-1]
            if before:
                inputs = _width(before, prod(shape[:-1]), lengths)
            else:  # of packed series nothing says how many steps they have
                inputs = floats // max(prod(shape[:-1]), 1) if len(shape) >= _SERIES else 0
            hidden = states.get(number, outputs)
            directions = outputs // hidden if hidden and outputs == _DIRECTIONS * hidden else 1
            params = (
                directions * gates * (outputs // directions) * ((inputs or outputs) + outputs // directions + _BIASES)
            )
            added += params
            row = row.but(params=params)  # noqa: PLW2901
        before = shape or before
        made.append(row)
    return made, added


def _width(before: Shape, steps: int, lengths: Set[int]) -> int:
    """Tell how wide a series of so many steps is that is made of what came before.

    Args:
        before: shape of one sample of that.
        steps: of the series.
        lengths: of all series in the table.
    """
    if len(before) < _SERIES:
        return before[0]
    if len(before) == _SERIES:
        if steps not in before:  # cut into pieces
            return min(before)
        return before[0] if before[0] != steps else before[1]
    channels, height, *rest = before  # a picture: steps are columns of all channels and heights, rows, or places
    if height != prod(rest) and lengths >= {height, prod(rest)}:
        return channels  # rows are series, and columns are
    width = prod(before) // max(steps, 1)
    return width if steps > 1 and width in (channels, channels * prod(rest)) else channels * height
