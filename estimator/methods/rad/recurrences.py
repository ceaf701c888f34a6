"""What cuDNN's recurrent layers work with, as a rehearsal knows it. Pure.

It is a sum of whole pieces: of what comes in and what goes out, of states, gates and weights. Which of them, and how
often, was found in measurements on an H100 (`estimator.methods.rad.measured_recurrences`), of which it meets 94 of a
hundred to a block of 512 bytes. A training takes what the larger of its passes needs. Layers that are narrow enough to
stay on the chip have an algorithm of their own; which are is PyTorch's choice (`get_algo` in its `cudnn/RNN.cpp`), but
not in bf16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from estimator.types import Precision

Type = Literal["lstm", "gru", "rnn"]
GATES: Final[dict[Type, int]] = {"lstm": 4, "gru": 3, "rnn": 1}
# Widest layers that PyTorch has cuDNN keep on the chip, in the forward pass and in the backward pass; and, in fp16, a
# single one that is a multiple of so much, and no wider.
_NARROW: Final[dict[Type, tuple[int, int]]] = {"lstm": (192, 128), "gru": (192, 128), "rnn": (384, 256)}
_WHOLE: Final = 128
_WIDEST: Final = 1024
_MOST_BATCH, _BATCHES = 128, 8
_WIDE_RNN, _WIDE_RNNS_BATCH = 896, 96
# Bytes for each layer and direction, for each sequence, and for where pieces begin.
_FIXED: Final = 8 * 2**20
_LENGTH: Final = 8
_ALIGNED: Final = 256
# So many steps' gates are worked out at once.
_GATED: Final = 256
# Where several layers of one direction are trained, they follow one another in turns of so many steps: the last of
# these where a batch is at least of such a size, the first where a series is long or a batch small.
_TURNS: Final = (8, 4, 2)
_FIRST: Final = 8
_LONG: Final = 128
_LARGE: Final = 128
_SMALL, _NOT_SHORT = 16, 32


class _Pieces(NamedTuple):
    """How often what a pass works with is there.

    Attributes:
        inputs: what comes in, of all steps.
        outputs: what a direction gives out, of all steps.
        states: one state of each layer.
        more: outputs of all directions between layers, where there are several or dropout lies there; gates; outputs
            of a layer, until the next one takes its turn.
    """

    inputs: int
    outputs: int
    states: int
    more: tuple[Literal["layers", "dropout", "gates", "turns"], ...] = ()


_Table = Mapping[tuple[int, bool], Mapping[Type, tuple[_Pieces, ...]]]
# By directions, and whether layers are narrow.
_INFERS: Final[_Table] = {
    (1, True): {"lstm": (_Pieces(1, 21, 10),), "gru": (_Pieces(1, 16, 5),), "rnn": (_Pieces(1, 6, 5),)},
    (1, False): {
        "lstm": (_Pieces(1, 1, 12, ("gates",)),),
        "gru": (_Pieces(1, 1, 6, ("gates",)),),
        "rnn": (_Pieces(1, 1, 4, ("gates",)),),
    },
    (2, True): {"lstm": (_Pieces(1, 30, 22),), "gru": (_Pieces(1, 24, 12),), "rnn": (_Pieces(1, 12, 12),)},
    (2, False): {"lstm": (_Pieces(1, 14, 28),), "gru": (_Pieces(1, 12, 16),), "rnn": (_Pieces(1, 8, 12),)},
}
_TRAINS: Final[_Table] = {
    (1, True): {
        "lstm": (_Pieces(1, 21, 8, ("dropout",)), _Pieces(3, 15, 12, ("layers",))),
        "gru": (_Pieces(2, 18, 6, ("layers",)), _Pieces(3, 17, 6, ("layers",))),
        "rnn": (_Pieces(2, 13, 6, ("layers",)), _Pieces(3, 12, 6, ("layers",))),
    },
    (1, False): {
        "lstm": (
            _Pieces(1, 1, 10, ("dropout", "gates")),
            _Pieces(2, 3, 11, ("turns",)),
            _Pieces(3, 2, 11, ("turns",)),
        ),
        "gru": (_Pieces(1, 1, 5, ("dropout", "gates")), _Pieces(2, 3, 5, ("turns",)), _Pieces(3, 2, 5, ("turns",))),
        "rnn": (_Pieces(2, 3, 5, ("turns",)), _Pieces(3, 2, 5, ("turns",))),
    },
    (2, True): {
        "lstm": (_Pieces(1, 30, 18), _Pieces(6, 18, 26, ("layers",))),
        "gru": (_Pieces(2, 24, 14, ("layers",)), _Pieces(6, 20, 14, ("layers",))),
        "rnn": (_Pieces(2, 19, 14, ("layers",)), _Pieces(6, 15, 14, ("layers",))),
    },
    (2, False): {
        "lstm": (_Pieces(1, 14, 24), _Pieces(6, 6, 26, ("layers",))),
        "gru": (_Pieces(1, 12, 14), _Pieces(2, 10, 14, ("layers",)), _Pieces(6, 6, 14, ("layers",))),
        "rnn": (_Pieces(2, 10, 14, ("layers",)), _Pieces(6, 6, 14, ("layers",))),
    },
}


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
    def biases(self) -> int:
        """Bytes of all biases."""
        return 2 * self.layers * self._rows * self.size

    @property
    def weights(self) -> int:
        """Bytes of all weights and biases."""
        first, others = self.inputs, self.directions * self.width * (self.layers - 1)
        return self._rows * (first + others + self.layers * self.width) * self.size + self.biases

    @property
    def _rows(self) -> int:
        return self.directions * GATES[self.type] * self.width


def workspace_bytes(one: Recurrence, *, backward: bool = False) -> int:
    """Count the bytes that cuDNN works with in the forward pass, or in the backward pass."""
    key = one.directions, _stays(one, backward)
    passes = (_TRAINS if one.trains else _INFERS)[key][one.type]
    numbers = one.batch * max(_numbers(one, each) for each in passes)
    lengths = _LENGTH * one.batch + _ALIGNED
    return _FIXED * one.layers * one.directions + one.weights - one.biases + one.size * numbers + lengths


def _stays(one: Recurrence, backward: bool) -> bool:
    """Tell whether weights and states stay on the chip."""
    if one.precision == "bf16":
        return False
    return one.width <= _NARROW[one.type][backward] or (one.precision == "fp16" and _persists(one))


def _persists(one: Recurrence) -> bool:
    """Tell whether PyTorch takes the algorithm for wider layers in fp16, which Hopper has for LSTMs and plain ones."""
    if one.layers > 1 or one.directions > 1 or one.type == "gru" or one.width > _WIDEST:
        return False
    if one.width % _WHOLE or one.inputs % _WHOLE or one.batch % _BATCHES or one.batch > _MOST_BATCH:
        return False
    return one.type == "lstm" or one.batch < _WIDE_RNNS_BATCH or one.width < _WIDE_RNN


def _numbers(one: Recurrence, pieces: _Pieces) -> int:
    """Count numbers of each sequence."""
    several = one.layers > 1
    more = {
        "layers": several * one.steps * one.directions,
        "dropout": one.drops * one.steps * one.directions,
        "gates": GATES[one.type] * min(one.steps, _GATED),
        "turns": min(one.steps, _FIRST + _turn(one) * one.layers) if several else one.steps,
    }
    widths = pieces.outputs * one.steps + pieces.states * one.layers + sum(more[name] for name in pieces.more)
    return pieces.inputs * one.steps * one.inputs + widths * one.width


def _turn(one: Recurrence) -> int:
    longest, middle, shortest = _TURNS
    if one.steps >= _LONG or (one.batch <= _SMALL and one.steps >= _NOT_SHORT):
        return longest
    return middle if one.batch < _LARGE else shortest
