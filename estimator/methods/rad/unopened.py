"""What blocks hold that torchinfo does not open, and how a program's are found among those that were noted. Pure.

It was noted what they keep and work with in all, and how much torchinfo counts of them: where what it prints in sum is
more, or less, the model's blocks are so much larger, or smaller, than the noted ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Final, NamedTuple

from estimator.breath import OFTEN, breathe
from estimator.layer import Layer
from estimator.methods.rad.familiar import without
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.known import finite
from estimator.methods.rad.program import End, Program
from estimator.walk import elements

Values = tuple[float, float, float]
"""Bytes for each element of the larger of a block's input and output, in fp32, amp and bf16."""


class Hidden(NamedTuple):
    """What hidden blocks of one type hold for each element of the larger of their input and output.

    Attributes:
        counted: elements that torchinfo counts.
        kept: bytes that autograd keeps for each of these, by precision as in `Values`; where none is counted, for each
            element of input or output.
        work: elements that are there at once beside input and output, where nothing is kept: usually, under autocast.
        kept_more, work_more: of both what grows with the tokens of a sample, as matrices of attention do: so much for
            each `TOKENS` of them.
        cached: elements of keys and values that are given out for the next token, where a model does that.
    """

    counted: float
    kept: Values
    work: tuple[float, float]
    kept_more: Values = (0.0, 0.0, 0.0)
    work_more: tuple[float, float] = (0.0, 0.0)
    cached: float = 0.0


Models = Mapping[str, Hidden]
"""What is noted of blocks of one type, by models; under "" in all of them."""

INSIDE: Final = ":"
"""Behind it stands how much is counted inside the hidden blocks of a model."""
TOKENS: Final = 512
# Lists of blocks, which are known by the block that they are in.
LISTS: Final = frozenset(("ModuleList", "Sequential"))
_OPAQUE: Final = Kind.OPAQUE
_BYTES: Final = (4, 2, 2)  # of a number, by precision as in `Values`
_TOKEN_AXES: Final = 2
_STEPS: Final = 8  # for each doubling of what is counted inside
_SEVERAL: Final = 2
# By how much what is counted may differ, as a share: torchinfo rounds it.
_EQUAL: Final = 0.0005
# By how much the most that blocks keep may be more than the least for them to be alike.
_AGREE: Final = 1.1


def hidden_blocks(program: Program) -> list[tuple[int, int]]:
    """Give the blocks of a program that are not opened: their places among the ends, and their steps."""
    breathe()
    ops = program.ops
    return [
        (number, start)
        for number, (layer, start, at, _) in enumerate(program.ends)
        if at == start + 1 and not layer.children and ops[start].kind is _OPAQUE
    ]


def tokens_of(program: Program, at: int) -> int:
    """Count the tokens of a sample behind a step; 0 where it gives out none."""
    shape = program.shapes[program.ops[at].y]
    return shape[0] if len(shape) == _TOKEN_AXES else 0


def insides(program: Program, blocks: Sequence[tuple[int, int]], names: str) -> list[str]:
    """Give the names of a model by how much torchinfo counts inside its hidden blocks, for each element of their size.

    Blocks of one type may have a layer more in one model than in another of the same family, which is hidden. The
    first name is the model's own, the others are of those that differ from it least.
    """
    size = sum([program.ends[number][3] for number, _ in blocks])
    if not size or program.inside <= 0:
        return []
    step = round(_STEPS * log2(program.inside / size))
    return [f"{names}{INSIDE}{step + by}" for by in (0, 1, -1)]


def around(ends: Sequence[End]) -> dict[int, End]:
    """Give the block that each layer is in, by the layer's id; not the whole model, which is the last."""
    found: dict[int, End] = {}
    for step, end in enumerate(ends[:-1]):
        if not step & OFTEN:
            breathe()
        for child in end[0].children:
            found.setdefault(id(child), end)
    return found


def as_large(outer: End | None, size: int) -> str:
    """Give the type of a block; "" where there is none, or it takes or gives more or less than this."""
    if outer is None or not outer[3] == size == elements(outer[0].output_shape):
        return ""
    return outer[0].type


def of_type(tables: Mapping[str, Models], program: Program, layer: Layer) -> Models | None:
    """Look up what is noted of hidden blocks of a layer's type, by models."""
    return tables.get(layer.type) or tables.get(without(program.owner, layer.type) + "~")


def like(tables: Mapping[str, Models], program: Program, blocks: Sequence[tuple[int, int]]) -> str:
    """Name a model in whose blocks as much is counted; "" where there is none, or one of these is of no known type.

    Somebody who takes a library's model apart (without its head, only its stages) keeps its blocks, but his model has
    other types of layers than any that was noted. Lists hold what each model puts into them: one alone may count as
    much by chance.

    Args:
        tables: what is noted, by type and by models.
        program: the model's.
        blocks: `hidden_blocks` of it.
    """
    ends = [program.ends[number] for number, _ in blocks]
    known = [(types, end[3]) for end in ends if (types := of_type(tables, program, end[0])) is not None]
    several = _SEVERAL if any(end[0].type in LISTS for end in ends) else 1
    return _as_counted(known, program.inside, several) if len(known) == len(ends) else ""


def _as_counted(blocks: Sequence[tuple[Models, int]], inside: float, several: int) -> str:
    """Name a model in whose blocks as much would be counted as in a program's; "" where none is, or these differ.

    Args:
        blocks: what is noted of each hidden block's type, by models (under "" of all), and its size in elements.
        inside: elements that torchinfo counts in all of them.
        several: how many models must agree.

    Returns:
        The one whose blocks keep neither more nor less than most.
    """
    sizes: dict[int, int] = {}
    tables: dict[int, Models] = {}
    for types, size in blocks:
        tables[id(types)] = types
        sizes[id(types)] = sizes.get(id(types), 0) + size
    found: list[tuple[float, str]] = []
    for key in tables[max(sizes, key=lambda each: sizes[each])] if sizes and inside > 0 else ():
        breathe()
        counted = kept = 0.0
        for at, types in tables.items():
            noted = types.get(key) or types.get("")
            if noted is None:
                break
            here = sizes[at] * noted.counted
            counted += here
            kept += here * (noted.kept[0] + noted.kept_more[0])
        else:
            if key and abs(counted - inside) <= _EQUAL * inside:
                found.append((kept, key))
    found.sort()
    # A few may count the same by chance.
    least, middle, most = (found[len(found) * quarter // 4] for quarter in (1, 2, 3)) if found else ((0.0, ""),) * 3
    return middle[1] if len(found) >= several and most[0] <= _AGREE * least[0] else ""


def left(
    program: Program, blocks: Sequence[int], unknown: Sequence[int], counted: float, place: int
) -> dict[int, float]:
    """Give unknown hidden blocks what known ones leave of what is printed: bytes of one sample, by step.

    Args:
        program: the model's.
        blocks: steps of all hidden blocks, which were taken to have a share by their size.
        unknown: of those that are not known.
        counted: elements that torchinfo counts in the known ones; where none is, or all, nothing is told.
        place: of the precision in `Values`.
    """
    ops, tensors = program.ops, program.tensors
    every, own = (sum([ops[at].extra for at in some]) for some in (blocks, unknown))
    if not own or not 0 < counted < program.inside:
        return {}
    times = (1 - counted / program.inside) * every / own
    return {at: (tensors[ops[at].x] + ops[at].extra * times) * _BYTES[place] for at in unknown}


def alike(found: Models) -> Hidden | None:
    """Give what blocks of one type hold in several models, where these agree; None where they do not, or are one."""
    each = sorted([(noted.kept[0] + noted.kept_more[0], at) for at, noted in enumerate(found.values())])
    if len(each) < _SEVERAL or each[-1][0] > _AGREE * each[0][0]:
        return None
    return list(found.values())[each[len(each) // 2][1]]


def read_hidden(each: Sequence[float]) -> Hidden:
    """Read what is noted of hidden blocks of one type in one model, as `fit.blocks` writes it."""
    counted, fp32, amp, bf16, usual, autocast, *more = each
    values = read_values((fp32, amp, bf16)), (finite(usual), finite(autocast))
    if not more:
        return Hidden(finite(counted), *values)
    fp32, amp, bf16, usual, autocast, cached = more
    longer = read_values((fp32, amp, bf16)), (finite(usual), finite(autocast))
    return Hidden(finite(counted), *values, *longer, finite(cached))


def read_values(each: Sequence[float]) -> Values:
    """Read three numbers, none of them infinite."""
    breathe()
    fp32, amp, bf16 = each
    return finite(fp32), finite(amp), finite(bf16)
