"""What libraries' kernels work with, for rehearsals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from estimator.methods.rad.convolutions import Convolutions, Workspace
from estimator.methods.rad.program import Conv
from estimator.methods.rad.recurrences import Recurrence, Recurrences
from estimator.store import ModelError
from estimator.types import Precision

Convolves = Callable[[Conv, int, Precision], Workspace]
"""Says how much workspace a convolution takes."""
Recurs = Callable[[Recurrence], float]
"""Says how many bytes of workspace recurrent layers take."""


class Works(NamedTuple):
    """What says it.

    Attributes:
        convolution: of convolutions.
        recurrence: of recurrent layers.
    """

    convolution: Convolves
    recurrence: Recurs


def read_works(text: str) -> Works:
    """Read what a model holds for rehearsals: JSON, which takes no memory of those who only estimate.

    Raises:
        ModelError: it is damaged.
    """
    try:
        model = json.loads(text)
        return Works(Convolutions(model).of, Recurrences(model).of)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the workspaces of this model are damaged ({error!r}): roll back") from None
