"""Output shapes for summaries that show none: from the layers' sizes, the batch and the sequence length. Pure.

A module's print names layers in the order in which they were defined and says nothing of the input. So shapes are
followed layer by layer; where a layer's input does not fit what came before it (a branch, a skip connection, a gated
projection), the input of an enclosing block that does fit is taken. What had to be assumed is said in ``inferred``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from estimator.shapes.fill import with_shapes
from estimator.types import SummaryError

__all__ = ["reckonable", "with_shapes"]


@contextmanager
def reckonable() -> Iterator[None]:
    """Give what zero or negative sizes do to whatever reckons with them an error of the summary.

    Raises:
        SummaryError: no layer has zero channels, or fewer.
    """
    try:
        yield
    except SummaryError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise SummaryError(
            f"sizes in the summary, zero or negative ones, cannot be reckoned with ({error}): print the model anew"
        ) from error
