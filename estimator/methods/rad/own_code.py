"""What blocks keep in their own code, beside what their layers do: gates, sums, products that no row shows. Pure.

It was noted of the libraries' models what autograd keeps in each call (`estimator/dataset/saved.py`); by how much that
is more, or less, than the account of a block's steps is tabulated by the type of the block and the types of the layers
in it. A block of another library with the same name and the same layers is taken for the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from estimator.methods.rad.familiar import without
from estimator.methods.rad.kinds import Kind, kind_of
from estimator.methods.rad.known import finite
from estimator.methods.rad.program import End, Program
from estimator.types import Layer, Precision

Values = tuple[float, float, float]
"""Bytes for each element of the larger of a block's input and output, in fp32, amp and bf16."""
Table = Mapping[str, Mapping[str, Values]]
"""By type and by `inside`."""

_PLACE: Final[Mapping[Precision, int]] = {"fp32": 0, "amp": 1, "bf16": 2, "fp16": 2}
# These have no code of their own.
_NO_CODE: Final = frozenset(
    ("Sequential", "ModuleList", "ModuleDict", "Identity", "Flatten", "Parameter", "ParameterList")
)
_ROWS: Final = 3
_BARE: Final = ("Identity", "Parameter", "ParameterList")
_VIEW: Final = Kind.VIEW
_NORMS: Final = frozenset((Kind.BATCH_NORM, Kind.LAYER_NORM, Kind.RMS_NORM))
# PyTorch's own norms; others may hold an activation, or work in another order of dimensions.
_PLAIN_NORMS: Final = frozenset(
    ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "LayerNorm", "GroupNorm", "RMSNorm")
)


class Own(NamedTuple):
    """What the blocks of a program keep of their own.

    Attributes:
        steps: by step, bytes for one sample; empty where nothing is known.
        share: share of the blocks, by size, of which it is known; the model itself is one of which it is not.
    """

    steps: list[float]
    share: float


NOTHING: Final = Own([], 0.0)


class OwnCode:
    """The tables, one for each format."""

    def __init__(self, tables: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> None:
        """Take what `estimator.methods.rad.fit_own` makes: tables by format.

        Raises:
            ValueError, TypeError, AttributeError, OverflowError: they are damaged.
        """
        self._tables: dict[str, Table] = {
            format_: {type_: {inner: _values(each) for inner, each in found.items()} for type_, found in table.items()}
            for format_, table in tables.items()
        }

    def of(self, program: Program, format_: str, precision: Precision) -> Own:
        """Look up the blocks of a program."""
        table = self._tables.get(format_)
        if not table or not program.ops:
            return NOTHING
        place, last = _PLACE[precision], len(program.ops)
        steps = [0.0] * last
        known = blocks = 0.0
        for number, (layer, _, at, size) in enumerate(program.ends):
            if not is_block(layer):
                continue
            blocks += size
            values = _found(table, program, number, layer.type) if at else None
            if values is not None:
                known += size
                steps[at - 1] += values[place] * size
        return Own(steps, known / blocks) if known else NOTHING


def _values(each: Sequence[float]) -> Values:
    fp32, amp, bf16 = each
    return finite(fp32), finite(amp), finite(bf16)


def _found(table: Table, program: Program, number: int, type_: str) -> Values | None:
    inner = table.get(type_)
    if inner is not None:
        values = inner.get(inside(program.ends, number, "", program.flat))
        if values is not None:
            return values
    if program.owner:
        inner = table.get(without(program.owner, type_) + "~")
        if inner is not None:
            return inner.get(inside(program.ends, number, program.owner, program.flat))
    return None


def is_block(layer: Layer) -> bool:
    """Tell whether a layer has code of its own: a block, or a layer whose type says nothing."""
    type_ = layer.type
    if type_ in _NO_CODE:
        return False
    if layer.children:
        return True
    kind = kind_of(type_)
    return kind is _VIEW or (kind in _NORMS and type_ not in _PLAIN_NORMS)


def inside(ends: Sequence[End], number: int, owner: str, flat: bool) -> str:
    """Describe what is in a block: the types of its layers, or those of the three rows before where there is no tree.

    Args:
        ends: layers in the order in which they are done.
        number: the block's place.
        owner: what is taken from the types.
        flat: whether there is no tree.
    """
    if flat:
        return ",".join([without(owner, end[0].type) for end in ends[max(number - _ROWS, 0) : number]])
    return ",".join(sorted({_named(owner, child) for child in ends[number][0].children}))


def _named(owner: str, layer: Layer) -> str:
    """Name a layer; one that hides layers with parameters is another than one that shows them."""
    type_ = layer.type
    hides = layer.params and not layer.children and type_ not in _BARE and kind_of(type_) is _VIEW
    return without(owner, type_) + ("*" if hides else "")
