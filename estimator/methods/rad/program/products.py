"""What a linear layer takes: what is at hand, what a function made of it, or what came before."""

from __future__ import annotations

from typing import Final

from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program.attention import attend
from estimator.methods.rad.program.flow import BACK, Attention, Flow
from estimator.methods.rad.program.steps import PICTURE, Op, Shape
from estimator.methods.rad.program.weights import inputs_of
from estimator.walk import elements

_LINEAR: Final = Kind.LINEAR
_TWO: Final = 2
_MOST_HEADS: Final = 32
# Axes of rows for each pair of tokens; how many tensors are joined in one, where their product is.
_PAIRS: Final = 3
_WITH_PRODUCT: Final = 3
_OUT_NAMES: Final = frozenset(("o", "o_proj", "out_proj", "c_proj", "dense", "proj", "out", "out_lin", "to_out", "wo"))
# Of a state space model: tensors as large as all states that its loop keeps, others as large as its features; states
# of each feature at most, and how often the numbers for the time steps fit into the features at least.
_STATES_KEPT: Final = 3
_AROUND: Final = 4
_MOST_STATES: Final = 256
_LEAST_WIDER: Final = 4
# Behind one product: queries, keys and values; a gate and what it gates.
_IN_ONE: Final[tuple[int, ...]] = (2, 3)


def project(flow: Flow, layer: Layer, shape: Shape) -> None:
    """Add a linear layer; inside an attention it makes queries, keys or values, or stands behind their products."""
    inputs = inputs_of(layer, shape)
    attention = flow.attention
    if attention is not None and not attention.done and shape[-1:] == (1,) and _adds(flow, attention, inputs):
        attention.done = True
        x = _added(flow, attention, inputs, shape)
        flow.emit(_LINEAR, x, (*flow.shapes[x][:-1], 1), layer)
        flow.by_activation = False
        return
    pairs = len(shape) == 3 and shape[0] == shape[1] > shape[2] and 0 < inputs <= shape[2] <= _MOST_HEADS
    if pairs and flow.shapes[flow.current] != (*shape[:-1], inputs):
        # Heads that talk to each other: a product over heads of the matrix of weights, before or behind softmax.
        flow.ops.append(Op(Kind.LINEAR, flow.tensor(shape), flow.tensor(shape), layer.params, extra=elements(shape)))
        return
    if attention is not None and not attention.done:
        entry = attention.entry
        width = flow.shapes[entry][-1] if flow.shapes[entry] else 0
        fused = bool(attention.projections) and (
            attention.single
            or (
                flow.tensors[attention.projections[0]] > 2.5 * flow.tensors[entry]
                and flow.shapes[attention.projections[0]][-1:] != shape[-1:]  # else one of several that are wider
            )
        )
        if attention.projections and (
            layer.name in _OUT_NAMES or (not layer.name and (fused or len(attention.projections) >= 3))
        ):
            attend(flow, None, 0)
        elif inputs in (0, width):
            flow.emit(_LINEAR, entry, shape, layer)
            if not (attention.single and layer.name in _OUT_NAMES):  # defined before what it comes behind
                attention.projections.append(flow.current)
            return
    x = flow.current
    if flow.gate >= 0:  # the other factor has come: the product goes into this layer
        flow.kept.update((flow.gate, x))
        x = flow.tensor(flow.shapes[x])
        flow.gate = -1
    if len(shape) == 1:
        flow.keep_branches(inputs)
    states = _states(flow, x, inputs, shape) if flow.bare else 0
    x = x if states else _factor(flow, x, inputs, shape)
    if layer.type == "Linear" and layer.output_shape:
        shown = layer.input_shape
        if shown is None or elements(shape) == shape[-1]:
            x = _widened(flow, x, inputs, shape)
        x = _as_shown(flow, x, shown, shape) if shown and flow.ordered else x
    flow.emit(_LINEAR, x, shape, layer)
    if len(shape) == 1:
        flow.rows.add(shape[0])
    flow.by_activation = False
    if states:
        # The states' decays, what is added to them, and they themselves; activations, and the gate behind.
        kept = (_STATES_KEPT * states + _AROUND) * elements(shape)
        flow.emit(Kind.KEEPS_INPUT, flow.current, shape, None, extra=kept)


def _adds(flow: Flow, attention: Attention, inputs: int) -> bool:
    """Tell whether an attention adds queries to keys: of what the layer before gave out, one number is made."""
    last = flow.ops[-1] if flow.ops else None
    return last is not None and last.y > attention.entry and inputs > 1 and flow.shapes[last.y][-1:] == (inputs,)


def _added(flow: Flow, attention: Attention, inputs: int, shape: Shape) -> int:
    """Give the sums of queries and keys behind their function.

    A print shows no loop of a decoder, which compares each of its steps with all that was read: they are taken to be as
    many. Without a layer for the query, or what joins it with the keys, there is no such loop.
    """
    last, rows = flow.ops[-1], shape[:-1]
    if not flow.ordered and len(rows) == 1:
        taken, entry = last.params // inputs, flow.shapes[attention.entry]
        taken -= taken % _TWO  # a bias
        joined = len(entry) == _TWO and taken > entry[-1]
        rows = rows * _TWO if joined or len(attention.projections) == _TWO else rows
        if joined:
            flow.emit(Kind.NEW, attention.entry, (*rows, taken), None)
            flow.kept.add(flow.current)
    elif last.kind is not _LINEAR and flow.shapes[last.y] == (*rows, inputs):
        return last.y  # a layer is the function
    return flow.tensor((*rows, inputs))


def _states(flow: Flow, x: int, inputs: int, shape: Shape) -> int:
    """Count the states of each feature where a linear layer makes time steps of a part of what is at hand; else 0.

    So does a selective state space model: of each token it makes a few numbers for its time steps, and as many numbers
    for what goes into each state as for what is read from it. Code then goes over the series, step by step.
    """
    before = flow.shapes[x]
    if not inputs or len(before) != len(shape) or len(shape) < _TWO or not _made_by_product(flow, x):
        return 0
    wide = flow.shapes[flow.ops[-1].x]
    states, rest = divmod(before[-1] - inputs, _TWO)
    widens = inputs * _LEAST_WIDER <= shape[-1] and shape[-1] in wide and before[:-1] == shape[:-1]
    return states if widens and not rest and 1 < states <= _MOST_STATES else 0


def _factor(flow: Flow, x: int, inputs: int, shape: Shape) -> int:
    """Find what a linear layer takes: what is at hand, what a function made of it, or what came before."""
    before = flow.shapes[x]
    if not inputs or not before:
        return x
    if len(shape) == 1 < len(before) and flow.tensors[x] != inputs and _looked_up(flow, x):
        return flow.tensor((inputs,))
    if before[-1] == inputs or flow.tensors[x] == inputs:
        if not flow.bends or not _made_by_product(flow, x) or before[-1] < _TWO * max(shape[-1], 1):
            return x
        flow.kept.add(x)  # what widens and narrows again has a function between
        if (first := _gates(flow)) >= 0:
            flow.emit(Kind.KEEPS_INPUT, first, before, None)  # the function; the second is multiplied with it
            flow.kept.add(flow.current)
        return flow.tensor(before)
    if inputs in flow.rows and len(shape) == 1:
        return flow.tensor((inputs,))  # of a time step, or of what else goes past the pictures
    pooled = _pooled(flow, inputs, shape)
    if pooled >= 0:
        return pooled
    times, rest = divmod(before[-1], inputs)
    made = flow.unsaid and _made_by_product(flow, x)
    if made and not rest and times in _IN_ONE and len(before) == len(shape):
        flow.kept.add(x)  # queries, keys and values, or a gate and what it gates: code makes one of them
        return flow.tensor((*before[:-1], inputs))
    found = _with_width(flow, inputs)
    if found < 0:
        return x
    if flow.by_activation and flow.tensors[x] == elements(shape):
        flow.gate = x
    elif made and flow.ops[-1].x == found and len(shape) > 1:
        flow.kept.update((x, len(flow.shapes)))  # two of one tensor: code multiplies them
    return found


def _gates(flow: Flow) -> int:
    """Find what the layer before the last product made of the same, as wide: one gates the other; -1 for none."""
    last, first = flow.ops[-1], flow.ops[-2] if len(flow.ops) > 1 else flow.ops[-1]
    same = first is not last and first.kind is _LINEAR and first.x == last.x
    return first.y if same and flow.shapes[first.y] == flow.shapes[last.y] else -1


def _looked_up(flow: Flow, x: int) -> bool:
    """Tell whether a tensor is of words just looked up, of which no layer has dropped more than some features.

    A layer that gives out one row then takes their mean, and what code joined with it.
    """
    last = flow.ops[-1] if flow.ops else None
    if last is not None and last.kind is Kind.DROPOUT and last.y == x and len(flow.ops) > 1:
        x, last = last.x, flow.ops[-2]
    return last is not None and last.kind is Kind.EMBEDDING and last.y == x


def _widened(flow: Flow, x: int, inputs: int, shape: Shape) -> int:
    """Give what a linear layer of a table takes: where it is wider than what was found, code joined it with others."""
    before = flow.shapes[x]
    if _is_of_pairs(before, inputs, shape):
        return flow.tensor((*shape[:-1], inputs))  # code made one of each pair of rows
    if not before or inputs - before[-1] <= 1 or before[:-1] != shape[:-1]:  # a table does not tell of a bias
        return x
    if len(shape) == 1:
        for index in range(len(flow.shapes) - 1, max(len(flow.shapes) - BACK, 0) - 1, -1):
            if flow.tensors[index] == inputs:
                return index  # a picture that was flattened
    return flow.tensor((*before[:-1], inputs))


def _as_shown(flow: Flow, x: int, shown: Shape, shape: Shape) -> int:
    """Give what a linear layer takes whose input a table shows, where what was found is another.

    What has more elements in other rows was pooled, or cut: that is what is kept.
    """
    before = flow.shapes[x]
    if shown[:-1] != shape[:-1] or before == shown:
        return x
    if before[:-1] != shown[:-1] and flow.tensors[x] >= elements(shown):
        return x
    return flow.tensor(shown)


def _is_of_pairs(before: Shape, inputs: int, shape: Shape) -> bool:
    """Tell whether a linear layer takes one row for each pair of those at hand and others, as additive attention.

    Such a row is a sum of both, or both and their product, joined.
    """
    if not len(shape) == _PAIRS == len(before) + 1 or inputs not in (before[-1], _WITH_PRODUCT * before[-1]):
        return False
    return before[:-1] in (shape[:1], shape[1:-1])


def _made_by_product(flow: Flow, x: int) -> bool:
    """Tell whether a tensor is what a linear layer gave out just now."""
    return bool(flow.ops) and flow.ops[-1].kind is _LINEAR and flow.ops[-1].y == x


def _pooled(flow: Flow, inputs: int, shape: Shape) -> int:
    """Find what a linear layer takes behind a picture that is larger: a function pooled it; -1 for none."""
    picture = flow.shapes[flow.current]
    if len(picture) != PICTURE or len(shape) != 1 or inputs >= flow.tensors[flow.current]:
        return -1
    places, rest = divmod(inputs, max(picture[0], 1))
    if rest or places <= 1:
        return -1
    return flow.pool((picture[0], places, 1))


def _with_width(flow: Flow, width: int) -> int:
    """Find the last tensor of this width, or what of it came into a block that is open; -1 for none."""
    for index in range(len(flow.shapes) - 1, max(len(flow.shapes) - BACK, 0) - 1, -1):
        shape = flow.shapes[index]
        if shape and shape[-1] == width:
            return index
    for index in reversed(flow.blocks):
        if index and flow.shapes[index] and flow.shapes[index][-1] == width:
            flow.far = True
            return index
    return -1
