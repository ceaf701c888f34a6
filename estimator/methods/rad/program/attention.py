"""The products of an attention, which no layer shows, behind the projections that layers do."""

from __future__ import annotations

from typing import Final

from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind, attends_eagerly, attends_with_bias
from estimator.methods.rad.program.flow import BACK, Attention, Flow
from estimator.methods.rad.program.steps import PICTURE, Scores, Shape
from estimator.walk import elements

_MOST_KEYS: Final = 4096
# Products of an attention: queries, keys, values, and what comes behind.
_PROJECTIONS: Final = 4
_HEAD_WIDTH: Final = 64
_HEAD_WIDTHS: Final = (16, 256)
_WINDOW: Final = 49
_WINDOW_FRAMES: Final = 8
# Usual windows' sides, and a head's features at least.
_SIDES: Final = (7, 8, 16, 12, 14, 24, 32, 4)
_LEAST_HEAD: Final = 8
_WINDOW_HEAD_WIDTH: Final = 32
# PyTorch's own, which gives out its weights unless `need_weights=False` is said, and then keeps their matrix.
_WEIGHS: Final = "MultiheadAttention"
# What is said to it in these blocks.
FUSES: Final = frozenset(
    (
        "TransformerEncoderLayer",
        "TransformerDecoderLayer",
        "EncoderBlock",
        "ResidualAttentionBlock",
        "CustomResidualAttentionBlock",
    )
)
# What its users mostly take, and PyTorch's transformers where nothing is said.
_USUAL_HEADS: Final = 8


# In rows of a table whose first axis is the windows.
_SHOWN: Final = "Swinv2"
# Of these a print shows no window.
_IN_WINDOWS: Final = ("ShiftedWindow", _SHOWN)


def attend(flow: Flow, shape: Shape | None, own: int) -> None:
    """Add the products of an attention behind its projections."""
    attention = flow.attention
    if attention is None or attention.done:
        if shape is not None:
            flow.behind(shape)
        return
    attention.done = True
    entry = flow.shapes[attention.entry]
    extra = 0
    if attention.projections:
        flow.kept.update(attention.projections)
        first = flow.shapes[attention.projections[0]]
        width = first[-1]
        if len(attention.projections) == 1:
            width = _queries(flow, width, entry[-1] if entry else 0)
        out = (*first[:-1], width)
        if not flow.encoders:
            flow.cached[len(flow.ops)] = _cached(attention.projections, flow.tensors)
    else:
        out = shape or entry
        extra = 3 * elements(out)
    if not out:
        return
    matrix, scores, more = _scores(flow, attention, out)
    extra += more
    if flow.cosine:
        matrix *= 2
        extra += 2 * elements(out)
    layer = Layer(attention.type, own) if own else None
    flow.emit(Kind.ATTENTION, attention.entry, out, layer, extra=extra, matrix=matrix, scores=scores)
    if shape is not None and elements(shape) != elements(out):
        flow.behind(shape)


def _scores(flow: Flow, attention: Attention, out: Shape) -> tuple[int, Scores, int]:
    """Give the elements of an attention's matrix, how it is made, and what is kept beside it."""
    if attention.matrix or attention.before:
        return attention.matrix + attention.before, Scores.DROPPED if attention.dropped else Scores.PLAIN, 0
    plain = Scores.DROPPED if flow.drops else Scores.PLAIN
    tokens = elements(out[:-1]) if len(out) > 1 else 1
    if attention.type.startswith(_IN_WINDOWS):
        window = _WINDOW * min(out[0], _WINDOW_FRAMES) if attention.type.endswith("3d") else _WINDOW
        if attention.type.startswith(_SHOWN) and flow.ordered and len(out) == PICTURE:
            window = out[1]
        return max(out[-1] // _WINDOW_HEAD_WIDTH, 1) * tokens * window, plain, 0
    projections = attention.projections
    keys = _keys(flow, projections, out) or out
    shown = attention.head_width if _HEAD_WIDTHS[0] <= attention.head_width <= _HEAD_WIDTHS[1] else 0
    heads = max(out[-1] // (shown or _HEAD_WIDTH), 1)
    heads, window = _window(attention.own, out[-1]) or (heads, _MOST_KEYS)
    square = heads * tokens * min(max(elements(keys[:-1]), 1), window)
    if attention.multiplies:
        return square, Scores.DROPPED if attention.dropped else Scores.PLAIN, 0
    if attends_eagerly(attention.type):
        return square, plain, 0
    if attends_with_bias(attention.type):
        return square, Scores.BIAS, 0
    keys_each = _fewer_keys(flow, projections, out)
    if keys_each:
        return square, Scores.SHARED_KEYS, 2 * (elements(out) - keys_each)
    if attention.type == _WEIGHS and not flow.fuses:
        flow.weighs = True
        if flow.weighed:
            return _weights(flow, attention, out)
    return 0, Scores.PLAIN, 0


def _weights(flow: Flow, attention: Attention, out: Shape) -> tuple[int, Scores, int]:
    """Give the matrix of an attention that gives out its weights, as `_scores` does, and their mean over all heads.

    Where another series came before, its places are the keys. A print leaves a picture as it was, whose places code
    makes a series of.
    """
    entry = flow.shapes[attention.entry]
    if len(out) == PICTURE and not flow.ordered:
        width = out[0] if attention.own in (3 * out[0] * (out[0] + 1), 3 * out[0] * out[0]) else out[-1]
        entry = out = (elements(out) // width, width)
    width = out[-1]
    heads = max(width // _HEAD_WIDTH, _USUAL_HEADS if width % _USUAL_HEADS == 0 else 1)
    keys = (entry if len(entry) == len(out) else out)[-2:-1]
    pairs = elements(out[:-1]) * elements(keys)
    return heads * pairs, Scores.DROPPED, pairs


def _window(own: int, width: int) -> tuple[int, int] | None:
    """Give heads and tokens of a window, of which a table has a number for each head and each way between two of them.

    Args:
        own: parameters that the attention owns beside its layers.
        width: of what it gives out.
    """
    for side in _SIDES:
        heads, rest = divmod(own, (2 * side - 1) ** 2)
        if heads and not rest and not width % heads and width // heads >= _LEAST_HEAD:
            return heads, side * side
    return None


def _keys(flow: Flow, projections: list[int], out: Shape) -> Shape:
    """Give the keys: a projection of another length than the queries, where one is, else the second; or nothing."""
    if not projections and flow.flat:
        rows = [flow.shapes[op.y] for op in flow.ops[-BACK:] if op.kind is Kind.LINEAR][-_PROJECTIONS:]
        widths = [shape[-1] for shape in rows if shape[:-1] == out[:-1]]
        return next((shape for shape in rows if shape[:-1] != out[:-1] and _beside(shape, out, widths)), ())
    shapes = [flow.shapes[index] for index in projections]
    other = next((shape for shape in shapes[1:] if shape[:-1] != shapes[0][:-1]), None)
    return other or next(iter(shapes[1:]), ())


def _beside(shape: Shape, out: Shape, widths: list[int]) -> bool:
    """Tell whether these may be keys, or keys and values in one, of queries that are as wide."""
    return len(shape) == len(out) and shape[0] > 1 and (shape[-1] in widths or shape[-1] // 2 in widths)


def _queries(flow: Flow, width: int, entry: int) -> int:
    """Tell how wide the queries are that one projection gives out beside keys and values."""
    if flow.words and entry < width < 3 * entry and not (width - entry) % 2 and not 2 * entry % (width - entry):
        return entry
    return width // 3 if width % 3 == 0 and (not entry or width > 2 * entry) else width


def _fewer_keys(flow: Flow, projections: list[int], out: Shape) -> int:
    """Count the elements of the keys where several queries share one, else 0."""
    if not projections:
        return 0
    query = flow.shapes[projections[0]]
    if len(projections) == 1:
        beside = flow.tensors[projections[0]] - elements(out)
        return beside // 2 if flow.words and 0 < beside < 2 * elements(out) else 0
    if len(projections) < 3:
        return 0
    key = flow.shapes[projections[1]]
    fewer = query[:-1] == key[:-1] and query[-1] > key[-1] and query[-1] % key[-1] == 0
    return flow.tensors[projections[1]] if fewer else 0


def _cached(projections: list[int], tensors: list[int]) -> int:
    """Count keys and values: all projections but the first, or two thirds of a single one."""
    if len(projections) == 1:
        return tensors[projections[0]] * 2 // 3
    return sum(tensors[index] for index in projections[1:])
