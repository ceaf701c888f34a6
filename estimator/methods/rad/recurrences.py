"""What cuDNN's recurrent layers work with, as a rehearsal knows it.

It depends on the algorithm that cuDNN chooses. A sum of what a layer reads, gives out and weighs comes near; boosted
trees, fitted to measurements on a GPU, say by how much it is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log2
from typing import Any, Final, Literal, NamedTuple

from estimator.methods.rad.trees import Trees
from estimator.store import ModelError
from estimator.types import Precision

Type = Literal["lstm", "gru", "rnn"]
GATES: Final[dict[Type, int]] = {"lstm": 4, "gru": 3, "rnn": 1}
_TYPES: Final = tuple(GATES)
WIDTH: Final = 26
"""Numbers that `described` gives."""
_OUTPUTS, _LAYERS, _INPUTS, _WEIGHTS, _MIB = 3.5, 1.5, 4.0, 1.2, 14.0  # near to all kinds
_MOST_LOG: Final = 3.0


class Recurrence(NamedTuple):
    """All layers of a recurrent network, run at once.

    Attributes:
        type: of the layers.
        layers, directions: how many.
        batch, steps: sequences, and steps of each.
        inputs, width: numbers that a step reads, and those of its state.
        precision: of its tensors.
        first: whether the batch is the first axis.
        drops: whether dropout lies between layers.
        trains: whether a backward pass follows.
    """

    type: Type
    layers: int
    directions: int
    batch: int
    steps: int
    inputs: int
    width: int
    precision: Precision
    first: bool
    drops: bool
    trains: bool

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 4 if self.precision == "fp32" else 2

    @property
    def read(self) -> int:
        """Bytes of what comes in."""
        return self.batch * self.steps * self.inputs * self.size

    @property
    def given(self) -> int:
        """Bytes of what a layer gives out."""
        return self.batch * self.steps * self.width * self.directions * self.size

    @property
    def weights(self) -> int:
        """Bytes of all weights and biases."""
        first, others = self.inputs, self.directions * self.width * (self.layers - 1)
        rows = self.directions * GATES[self.type] * self.width
        return rows * (first + others + self.layers * (self.width + 2)) * self.size


def base_bytes(one: Recurrence) -> float:
    """Add up what comes near to its workspace, in bytes."""
    outputs = (_OUTPUTS + _LAYERS * one.layers) * one.given
    return outputs + _WEIGHTS * one.weights + one.directions * (_INPUTS * one.read + _MIB * 2**20)


def described(one: Recurrence) -> list[float]:
    """Describe recurrent layers as the trees want it."""
    state, step = one.batch * one.width * one.size, one.batch * one.inputs * one.size
    sizes = (
        *(one.batch, one.steps, one.inputs, one.width, one.given, one.read, one.weights, state, step),
        *(one.layers * one.given, one.width**2 * one.size, one.inputs * one.width * one.size),
        one.batch * one.steps,
    )
    return [
        *map(float, (_TYPES.index(one.type), one.size == 2, one.precision == "bf16", one.layers, one.directions)),
        *map(float, (one.first, one.drops, one.trains)),
        *(log2(max(size, 1)) for size in sizes),
        *(float(number % whole == 0) for number, whole in ((one.width, 8), (one.width, 32), (one.width, 64))),
        *(float(number % 8 == 0) for number in (one.inputs, one.batch)),
    ]


class Recurrences:
    """Says how much workspace recurrent layers take."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Take what `estimator.methods.rad.fit.recurrences` made.

        Raises:
            ModelError: it is damaged.
        """
        try:
            self._off = Trees(model["recurrent"], WIDTH)
        except (KeyError, TypeError) as error:
            raise ModelError(f"the recurrent layers of this model are damaged ({error!r}): roll back") from None

    def of(self, one: Recurrence) -> float:
        """Give the bytes of workspace."""
        return base_bytes(one) * exp(min(self._off.predict(described(one)), _MOST_LOG))
