"""The steps of a layer that has no layers inside, by its kind."""

from __future__ import annotations

from typing import Final

from estimator.layer import Layer
from estimator.methods.rad.kinds import ACTIVATIONS, POWERS, Kind, sort_of
from estimator.methods.rad.program.attention import attend
from estimator.methods.rad.program.convolutions import convolve
from estimator.methods.rad.program.flow import BACK, Attention, Flow
from estimator.methods.rad.program.products import project
from estimator.methods.rad.program.steps import PICTURE, Shape
from estimator.methods.rad.program.weights import recurrent_depth
from estimator.shapes.tables import EDGES
from estimator.walk import elements

# Python looks up a member of an enumeration as slowly as it calls a function, and each layer is compared with many.
_VIEW: Final = Kind.VIEW
_CONV: Final = Kind.CONV
_LINEAR: Final = Kind.LINEAR
_EMBEDDING: Final = Kind.EMBEDDING
_RECURRENT: Final = Kind.RECURRENT
_DROPOUT: Final = Kind.DROPOUT
_LAYER_NORM: Final = Kind.LAYER_NORM
_SOFTMAX: Final = Kind.SOFTMAX
_POOLS: Final = frozenset((Kind.MAX_POOL, Kind.AVG_POOL, Kind.SHRINK))
_BARE: Final[tuple[str, ...]] = ("Parameter", "ParameterList", "ParameterDict")
_NO_BLOCKS: Final[tuple[str, ...]] = ("Identity", "Flatten", "Parameter")
_UNFLATTENS: Final = frozenset(("Unflatten", "Reshape"))
_LISTS: Final = frozenset(("ModuleList", "ModuleDict", "Sequential"))
# These call no layers for their projections, so that no summary but a print shows them.
_FUSED: Final[tuple[str, ...]] = (
    "MultiheadAttention",
    "ShiftedWindowAttention",
    "ShiftedWindowAttentionV2",
    "ShiftedWindowAttention3d",
)
_NORMS: Final = ("LayerNorm", "LayerNormalization")
# Elements that each layer of a recurrent network keeps for each of its output: gates and states.
RECURRENT_KEEPS: Final = 6
# Tensors that a pooling of powers keeps beside the powers.
_POWERS: Final = 4
_TWO: Final = 2
_LONG: Final = 8  # digits of a width that no layer has
_PROJECTIONS: Final = 4  # of an attention: queries, keys, values, and what comes behind


def leaf(flow: Flow, layer: Layer) -> None:
    """Add what a layer without layers inside does, by its kind."""
    type_, params, shape = layer.type, layer.params, layer.output_shape
    sort = sort_of(type_)
    kind = sort.kind
    if sort.plain and shape and flow.shapes[flow.current] is shape and len(shape) > 1 and flow.tensors[flow.current]:
        _behind(flow, layer, kind, flow.current, shape, sort.more)  # as `keep` does, where there is nothing to look for
        return
    if shape is None:
        if flow.above <= 0 and type_ in _LISTS and layer.said("recursive"):
            _shown_again(flow)
            return
        if not params or type_ in _BARE:
            return
        shape, kind = flow.shapes[flow.current], Kind.VIEW  # a list of layers that is not opened
    shape = shape or (1,)  # one number for each sample
    if sort.gathers:
        _gather(flow, layer, shape)
    elif params and (type_ in _LISTS or (sort.attends and _hides(flow, type_))):
        flow.hidden += params
        flow.emit(Kind.OPAQUE, flow.current, shape, layer)
    elif sort.attends:
        _attends(flow, layer, shape)
    elif kind is _CONV and len(shape) >= 2 and not (params and sort.encloses):
        convolve(flow, layer, shape)
    elif kind is _LINEAR:
        project(flow, layer, shape)
    elif kind is _EMBEDDING:
        _embed(flow, layer, shape)
    elif kind is _VIEW or kind is _CONV:
        _view(flow, layer, kind, shape)
    else:
        keep(flow, layer, kind, shape)


def _shown_again(flow: Flow) -> None:
    """Add a list below the depth of its table whose layers are not called in one go: no row of it has numbers."""
    flow.lists += 1
    last = flow.ops[-1] if flow.ops else None
    if last is not None and last.kind is Kind.OPAQUE and last.y == flow.current != flow.blocks[-1]:
        return  # one of several in its block
    if flow.opens:
        flow.emit(Kind.OPAQUE, flow.current, flow.shapes[flow.current], None)


def _gather(flow: Flow, layer: Layer, shape: Shape) -> None:
    """Add what gathers the messages of a graph's neighbours, one for each edge, which mostly no layer has made.

    They are sums with weights that need no gradient; heads attend, and a softmax does, which keeps what is weighed.
    """
    before = flow.shapes[flow.current]
    if flow.tensors[flow.current] < _TWO * elements(shape):
        edges = (EDGES, *shape)
        flow.emit(Kind.NEW, flow.current, edges, None)
        heads = len(shape) > _TWO and shape[-_TWO] > 1 and before[-1:] == (shape[-1] * shape[-_TWO],)
        if heads or "Softmax" in layer.type:
            flow.emit(Kind.KEEPS_INPUT, flow.current, edges, None, extra=_TWO * elements(edges))
        else:
            flow.emit(Kind.NEW, flow.current, edges, None)
    flow.emit(Kind.NEW, flow.current, shape, layer)


def _multiplies(flow: Flow, layer: Layer) -> bool:
    """Add a product with a bare matrix of a list in a print, if what is at hand is as wide; tell whether it is."""
    rows, cross, columns = layer.said("size").partition("x")
    before = flow.shapes[flow.current]
    if flow.ordered or not cross or not 1 <= len(before) <= _TWO or before[-1] <= 1 or rows != str(before[-1]):
        return False
    if not columns.isdecimal() or len(columns) >= _LONG:
        return False
    flow.emit(_LINEAR, flow.current, (*before[:-1], int(columns)), layer)
    return True


def _view(flow: Flow, layer: Layer, kind: Kind, shape: Shape) -> None:
    """Add what is a block, or no layer that is known."""
    if layer.type == "Parameter" and _multiplies(flow, layer):
        return
    if layer.params and layer.type not in _BARE:
        if flow.above > 0:  # the table would show what is inside: there is nothing
            same = flow.tensors[flow.current] == elements(shape)
            flow.emit(Kind.KEEPS_INPUT, flow.current, shape, layer, extra=_TWO * elements(shape) if same else 0)
            return
        flow.hidden += layer.params
        flow.emit(Kind.OPAQUE, flow.current, shape, layer)
        return
    if _halves(flow, shape):
        flow.kept.add(flow.current)  # one half times the other
    if flow.flat and sort_of(layer.type).waves:
        wave(flow, shape)
    flow.behind(shape)
    if layer.type in _UNFLATTENS and flow.tensors[flow.current] == elements(shape):
        flow.shapes[flow.current] = shape  # the same tensor with other axes
    if flow.flat and kind is _VIEW and layer.type not in _NO_BLOCKS:
        flow.mark = flow.current


def wave(flow: Flow, shape: Shape) -> None:
    """Add the sines of what a linear layer gave out just now, in a block that is named after them."""
    if flow.ops and flow.ops[-1].kind is _LINEAR and flow.ops[-1].y == flow.current:
        flow.emit(Kind.KEEPS_INPUT, flow.current, shape, None)


def _halves(flow: Flow, shape: Shape) -> bool:
    """Tell whether a layer of no known type gives out half of its features."""
    before = flow.shapes[flow.current]
    if len(before) != len(shape) or flow.tensors[flow.current] != _TWO * elements(shape):
        return False
    return before[0] == _TWO * shape[0] or before[-1] == _TWO * shape[-1]


def _attends(flow: Flow, layer: Layer, shape: Shape) -> None:
    """Add an attention that is one row."""
    if flow.flat and _within(flow):
        flow.behind(shape)
        return
    outer, flow.attention = flow.attention, Attention(layer.type, flow.current, layer.params)
    if flow.flat and flow.words:
        flow.attention.projections = _shared_keys(flow)
    attend(flow, shape, layer.params)
    if outer is not None and not outer.projections:
        outer.done = True  # it is only the block around this one
    flow.attention = outer


def _shared_keys(flow: Flow) -> list[int]:
    """Find queries, keys and values before an attention's row, where several queries share a key; else nothing."""
    products = [op.y for op in flow.ops[-BACK:] if op.kind is _LINEAR][-_PROJECTIONS:]
    if len(products) < _PROJECTIONS:
        return []
    query, key, value = [flow.shapes[index] for index in products[:-1]]
    shared = key == value and query[:-1] == key[:-1] and query[-1] > key[-1] and query[-1] % key[-1] == 0
    return products[:-1] if shared else []


def _hides(flow: Flow, type_: str) -> bool:
    """Tell whether an attention's projections are not to be seen; in tables without a tree they stand before it."""
    if type_ in _FUSED:
        return False
    return not flow.flat or not any(op.kind is _LINEAR for op in flow.ops[-BACK:])


def _within(flow: Flow) -> bool:
    """Tell whether the attention whose row comes now is only the block around the one before."""
    products = 0
    for op in reversed(flow.ops):
        if op.kind is Kind.ATTENTION:
            return products < 2
        products += op.kind in (_LINEAR, _CONV)
    return False


def keep(flow: Flow, layer: Layer, kind: Kind, shape: Shape) -> None:
    """Add a layer that keeps its places, or pools them: norms, activations, dropout, recurrent networks, pooling."""
    attention = flow.attention
    if attention is not None and len(shape) >= 3 and shape[-1] == shape[-2] and kind in (_DROPOUT, _SOFTMAX):
        attention.matrix = max(attention.matrix, elements(shape))
        attention.dropped |= kind is _DROPOUT and _dropping(flow, layer)
        return
    if attention is not None and attention.multiplies and kind in (_DROPOUT, _SOFTMAX):
        attention.dropped |= kind is _DROPOUT and _dropping(flow, layer)
        return
    if kind in _POOLS:
        powers = flow.tensors[flow.current] + _POWERS * elements(shape) if layer.type.startswith(POWERS) else 0
        flow.emit(kind, flow.current, shape, layer, extra=powers)
        return
    if kind is _DROPOUT and not _dropping(flow, layer):
        return
    if kind is _RECURRENT:
        before = flow.shapes[flow.current]
        depth, wide = recurrent_depth(layer, before, shape)
        steps = elements(shape[:-1])
        taken = flow.tensors[flow.current]
        x = flow.current if not wide or taken == wide * steps else flow.tensor((*shape[:-1], wide))
        flow.emit(kind, x, shape, layer, extra=RECURRENT_KEEPS * depth * elements(shape))
        return
    activates, at_hand = kind in ACTIVATIONS, flow.tensors[flow.current]
    size = at_hand if flow.shapes[flow.current] is shape else elements(shape)
    if activates and at_hand == _TWO * size:
        # Half of a product is gated by the other half.
        flow.emit(kind, flow.current, shape, layer)
        flow.kept.add(flow.current)
        flow.current = flow.tensor(shape)
        return
    if (kind is _DROPOUT or kind is _SOFTMAX) and _is_made(flow, kind, shape, layer):
        return
    if len(shape) == 1:
        flow.keep_branches(shape[0])
    if kind is _LAYER_NORM and flow.bends and _splits(flow, shape):
        _norm_half(flow, layer, shape)
        return
    x = flow.current if flow.tensors[flow.current] == size else flow.same(shape)
    if kind is _DROPOUT and x == flow.normed > 0:
        flow.kept.add(x)
        x = flow.tensor(shape)
    _behind(flow, layer, kind, x, shape, sort_of(layer.type).more + int(kind is _SOFTMAX and flow.cosine))


def _behind(flow: Flow, layer: Layer, kind: Kind, x: int, shape: Shape, times: int = 0) -> None:
    """Add a layer that keeps the places of a tensor, and so many outputs beside it."""
    if flow.words and not flow.ordered and not layer.args:
        kind, times = _step_by_step(layer.type, kind, times)
    flow.emit(kind, x, shape, layer, None, times * elements(shape) if times else 0)
    flow.by_activation = kind in ACTIVATIONS
    if flow.by_activation:
        flow.activated.update((x, flow.current))
    elif kind is _LAYER_NORM:
        attention = flow.attention
        if attention is not None and x == attention.entry and not attention.projections:
            attention.entry = flow.current  # all projections take what it gives out
    if layer.type == "GroupNorm" and (flow.ordered or id(layer) in flow.alone):
        flow.normed = flow.current


def _splits(flow: Flow, shape: Shape) -> bool:
    """Tell whether a norm takes one half of the features that a linear layer gave out just now."""
    if flow.attention is not None or len(shape) < _TWO or not flow.ops:
        return False
    last = flow.ops[-1]
    return last.kind is _LINEAR and last.y == flow.current and flow.shapes[last.y] == (*shape[:-1], _TWO * shape[-1])


def _norm_half(flow: Flow, layer: Layer, shape: Shape) -> None:
    """Add a norm of one half of a product, by which code multiplies the other half before the next linear layer.

    A function activates both before, and keeps what it takes.
    """
    flow.kept.add(flow.current)
    whole = flow.tensor(flow.shapes[flow.current])
    flow.emit(_LAYER_NORM, whole, shape, layer)
    flow.gate = whole


def _step_by_step(type_: str, kind: Kind, times: int) -> tuple[Kind, int]:
    """Tell what a layer of a print that says no arguments keeps, and how many outputs beside that.

    PyTorch's own norms and GELU say some: this is a class of the model's, which computes the same step by step.
    """
    if kind is Kind.LAYER_NORM and type_.endswith(_NORMS):
        return kind, _TWO  # what is centred, and what is scaled
    return (Kind.MANY_STEPS, times) if type_ == "GELU" else (kind, times)


def _is_made(flow: Flow, kind: Kind, shape: Shape, layer: Layer) -> bool:
    """Add what functions did before a dropout or softmax, and tell whether that was all."""
    entry = flow.current
    if len(shape) < _TWO or flow.tensors[entry] == flow.elements(shape):
        return False
    if shape[-1] != shape[-2] or shape[-1] == 1 or _shrunk(flow, shape):
        if kind is _DROPOUT and _shrunk(flow, shape):
            flow.pool(shape)
        return False
    # An attention's matrix of weights that code makes and multiplies: no layer gave it, and none takes it.
    again = flow.shapes[-1] == shape
    x = len(flow.shapes) - 1 if again else flow.tensor(shape)
    made = (
        kind is _DROPOUT and not again and not (flow.flat and flow.owned)
    )  # by a softmax, which keeps what it gives out
    more = made or (flow.cosine and kind is _SOFTMAX)
    flow.emit(kind, x, shape, layer, extra=elements(shape) if more else 0)
    if made or (again and kind is _DROPOUT):
        flow.kept.add(flow.current)
    flow.current = entry
    return True


def _shrunk(flow: Flow, shape: Shape) -> bool:
    """Tell whether a picture of this shape is the one at hand, pooled by a function."""
    before = flow.shapes[flow.current]
    if len(shape) != PICTURE or len(before) != PICTURE or shape[0] != before[0]:
        return False
    return 1 < shape[1] <= before[1] // 2 and 1 < shape[2] <= before[2] // 2


def _dropping(flow: Flow, layer: Layer) -> bool:
    """Tell whether a dropout drops anything."""
    share = next((value for key, value in layer.args if key == "p"), None)
    return flow.drops if share is None else share not in ("0.0", "0")


def _embed(flow: Flow, layer: Layer, shape: Shape) -> None:
    if flow.attention is not None or "pos" in layer.name.lower() or "osition" in layer.type:
        return  # positions are small and have no batch
    x = flow.current if not flow.ops else flow.tensor((1,))
    flow.emit(Kind.EMBEDDING, x, shape, layer)
