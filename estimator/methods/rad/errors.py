"""How large the error of an estimate may be, and the bound that follows from that. Pure."""

from __future__ import annotations

from math import exp, sqrt
from typing import Final

# Nothing is known better than this: the allocator's peak varies by about as much from run to run.
LEAST_BOUND: Final = 0.03
# A bound of twenty times says no more than none.
MOST_BOUND: Final = 3.0
# No error is taken to be smaller, and what is added to every size of an error (logarithms of a ratio).
_SMALLEST_SIZE: Final = 0.02
_ADDED_SIZE: Final = 0.04
# No share of activations in the memory is taken to be smaller.
_SMALLEST_SHARE: Final = 0.02


def damped(share: float) -> float:
    """Tell how much less an error weighs where weights, states and context, which are certain, are most of the memory.

    In proportion to the share of activations it would weigh too little: its parts are in the rest as well.

    Args:
        share: share of the expected memory that may be wrong.
    """
    return sqrt(max(share, _SMALLEST_SHARE))


def size_of(said: float, share: float) -> float:
    """Give the size of an error, as the logarithm of a ratio.

    Args:
        said: what the trees say: the size of errors, divided by `damped` ``share``.
        share: share of the expected memory that may be wrong.
    """
    return max(said, _SMALLEST_SIZE) * damped(share) + _ADDED_SIZE


def bounded(expected: float, size: float) -> float:
    """Give the bound of an estimate.

    Args:
        expected: the best guess, in MiB.
        size: how large its error may be, as the logarithm of a ratio.
    """
    return expected * exp(min(max(size, LEAST_BOUND), MOST_BOUND))
