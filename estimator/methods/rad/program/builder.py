"""Reads a model layer by layer: blocks are opened and closed, what is in them is read in order."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from estimator import blocks
from estimator.breath import OFTEN, breathe
from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind, attends_eagerly, kind_of, sort_of
from estimator.methods.rad.program.attention import FUSES, attend
from estimator.methods.rad.program.convolutions import convolve, doubles
from estimator.methods.rad.program.flow import BACK, Attention, Flow
from estimator.methods.rad.program.leaves import keep, leaf, wave
from estimator.methods.rad.program.steps import PICTURE, End, Shape
from estimator.walk import elements

_CONV: Final = Kind.CONV
_KEEPS_OUTPUT: Final = Kind.KEEPS_OUTPUT
_LINEAR: Final = Kind.LINEAR
_SIGMOID_GATE: Final = Kind.SIGMOID_GATE
_RMS_NORM: Final = Kind.RMS_NORM
_SOFTMAX: Final = Kind.SOFTMAX
_NORMS: Final = frozenset((Kind.BATCH_NORM, Kind.LAYER_NORM))
_UNCALLED: Final[tuple[str, ...]] = ("ModuleList", "ModuleDict")
_TWO: Final = 2
# Of a cell of an LSTM.
_GATES: Final = 4
# Layers of a small block.
_FEW: Final = 4


class _Span(NamedTuple):
    """What a block has added, to be added again where an equal one comes upon the like.

    Attributes:
        tensors, steps, ends: where its own begin, and end before.
        kept: those of its tensors, or of the ones before, that are kept.
        activated: those before or behind an activation.
        joined: those of its own that code joined.
        hidden: parameters that it has added.
        current, by_activation, gate, normed: how it ends.
    """

    tensors: tuple[int, int]
    steps: tuple[int, int]
    ends: tuple[int, int]
    kept: frozenset[int]
    activated: frozenset[int]
    joined: frozenset[int]
    hidden: int
    current: int
    by_activation: bool
    gate: int
    normed: int


class Builder:
    """Reads all layers of a model into a flow.

    Attributes:
        flow: what is read.
        ends: the layers in the order in which they are done: children before the block around them.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.ends: list[End] = []
        self._outer: list[Attention | None] = []
        self._repeated: set[int] = set()
        self._spans: dict[tuple[object, ...], _Span] = {}
        # In which situation the block just before was copied; and its span, if that left things as they were.
        self._last: tuple[object, ...] = ()
        self._again: _Span | None = None

    def read(self, found: list[Layer]) -> None:
        """Read all layers, the model first: blocks that are the same object again are copied, unless they are small."""
        if not self.flow.flat:
            blocks_ = {id(layer): layer for layer in found if layer.children}
            counts = Counter([id(layer) for layer in found if layer.children])
            self._repeated = {key for key, count in counts.items() if count > 1 and not _is_small(blocks_[key])}
        self._run(found[0])

    def _run(self, layer: Layer) -> None:
        """Read a layer and all in it, children in order."""
        flow = self.flow
        situation = self._situation(layer) if id(layer) in self._repeated else None
        if situation is None:
            self._follow(layer)
            self._last, self._again = (), None
            return
        span = self._spans.get(situation)
        if span is not None:
            self._again = span if situation == self._last else None
            self._last = situation
            self._copy(span)
            return
        kept, flow.kept = flow.kept, set()
        far, flow.far = flow.far, False
        tensors, steps, ends, hidden = len(flow.tensors), len(flow.ops), len(self.ends), flow.hidden
        self._follow(layer)
        if not flow.far:
            self._spans[situation] = _Span(
                (tensors, len(flow.tensors)),
                (steps, len(flow.ops)),
                (ends, len(self.ends)),
                frozenset(flow.kept),
                frozenset([index for index in range(tensors - BACK, len(flow.tensors)) if index in flow.activated]),
                frozenset([index for index in range(tensors, len(flow.tensors)) if index in flow.joined]),
                flow.hidden - hidden,
                flow.current,
                flow.by_activation,
                flow.gate,
                flow.normed if flow.normed >= tensors else 0,
            )
        self._last, self._again = (), None
        kept |= flow.kept
        flow.kept = kept
        flow.far |= far

    def _situation(self, layer: Layer) -> tuple[object, ...] | None:
        """Give what a block's steps follow from, counted from where it begins; None where that is too much to say."""
        flow = self.flow
        start, current = len(flow.tensors), flow.current
        first = start - BACK
        if flow.attention is not None or flow.gate >= 0 or first <= 0 or current < first:
            return None
        marks = 2 * (current in flow.blocks) + (current in flow.activated)  # two bits for each tensor
        joined = 0
        outer: list[Shape] = []
        for index in flow.blocks:
            if index >= first:
                marks |= 8 << 2 * (index - first)
            elif index:
                outer.append(flow.shapes[index])
        recent = range(first, start)
        for index in flow.activated.intersection(recent):
            marks |= 4 << 2 * (index - first)
        for index in flow.joined.intersection(recent) if flow.joined else ():
            joined |= 1 << index - first
        last = flow.ops[-1]
        products = flow.bends or flow.unsaid  # matter to the next one
        matters = (products and last.kind is _LINEAR) or doubles(last)
        made = start - last.x if matters and last.y == current else 0
        normed = current == flow.normed
        at_hand = start - current, flow.shapes[current], flow.by_activation, normed, made, not flow.encoders
        return id(layer), at_hand, tuple(flow.shapes[-BACK:]), tuple(outer), flow.waiting, marks, joined

    def _copy(self, span: _Span) -> None:
        """Add once more what a block has added."""
        breathe()
        flow = self.flow
        first, last = span.tensors
        by = len(flow.tensors) - first
        flow.tensors += flow.tensors[first:last]
        flow.shapes += flow.shapes[first:last]
        first, last = span.steps
        later = len(flow.ops) - first
        flow.ops += [op.moved(by) for op in flow.ops[first:last]]
        for noted in (flow.skips, flow.cached):
            for step in range(first, last) if noted else ():
                if step in noted:
                    noted[step + later] = noted[step]
        first, last = span.ends
        self.ends += [(layer, start + later, end + later, size) for layer, start, end, size in self.ends[first:last]]
        for all_, own in ((flow.kept, span.kept), (flow.activated, span.activated), (flow.joined, span.joined)):
            if own:
                all_.update([index + by for index in own])
        flow.hidden += span.hidden
        flow.current = span.current + by
        flow.by_activation = span.by_activation
        flow.gate = span.gate + by if span.gate >= 0 else -1
        flow.normed = span.normed + by if span.normed else 0

    def _follow(self, layer: Layer) -> None:
        flow = self.flow
        if not layer.children:
            self._leaf(layer)
            return
        self._open(layer)
        entry, start = flow.current, len(flow.ops)
        fork = None if flow.flat else blocks.Fork(layer)
        if fork is not None and not fork.possible:
            fork = None
        before = layer
        flow.above -= 1
        for number, child in enumerate(layer.children):
            if not number & OFTEN:
                breathe()
            if fork is not None and fork.begins(child):
                flow.current = entry
                before = layer
            if child is before and self._again is not None:
                self._copy(self._again)  # equal blocks in a row: one more changes nothing for the next
            elif child.children:
                if child is not before:
                    self._last = ()
                self._run(child)
                before = child
            else:  # one call fewer for each layer: most are leaves
                at_hand, step = flow.current, len(flow.ops)
                leaf(flow, child)
                self._end(child, at_hand, step)
                before = layer
        flow.above += 1
        self._close(layer)
        self._end(layer, entry, start)

    def _leaf(self, layer: Layer) -> None:
        flow = self.flow
        entry, start = flow.current, len(flow.ops)
        leaf(flow, layer)
        self._end(layer, entry, start)

    def _end(self, layer: Layer, entry: int, start: int) -> None:
        """Note a layer that is done, with the larger of what it took and gave out."""
        flow = self.flow
        shape, size = layer.output_shape, flow.tensors[flow.current]
        if shape is not None and flow.shapes[flow.current] is not shape:
            size = elements(shape) or size
        if not flow.flat and flow.tensors[entry] > size:
            size = flow.tensors[entry]
        self.ends.append((layer, start, len(flow.ops), size))

    def _open(self, layer: Layer) -> None:
        flow = self.flow
        entry = flow.current if layer.type not in _UNCALLED else 0
        if entry and entry not in flow.blocks:
            flow.waiting += flow.tensors[entry]
            flow.blocks.append(entry)
        else:
            flow.blocks.append(0)
        flow.fuses += layer.type in FUSES
        sort = sort_of(layer.type)
        if sort.encodes or id(layer) == flow.encoder:
            flow.encoders += 1
        if sort.attends:
            self._outer.append(flow.attention)
            flow.attention = Attention(layer.type, flow.current, layer.params)
            products = 0
            for child in layer.children:
                kind = kind_of(child.type)
                if kind is _LINEAR:
                    products += 1
                elif kind is _RMS_NORM:  # of each head's queries or keys
                    flow.attention.head_width = child.params
                elif child.type in _UNCALLED:
                    products += _products_in(child)
            flow.attention.single = products <= _TWO and flow.words
            if not flow.ordered and not products and not attends_eagerly(layer.type):
                flow.attention.multiplies = any(kind_of(child.type) is _SOFTMAX for child in layer.children)
        if layer.params and sort.kind in _NORMS:  # with its activation inside
            keep(flow, layer, sort.kind, layer.output_shape or flow.shapes[flow.current])

    def _close(self, layer: Layer) -> None:
        flow = self.flow
        flow.waiting -= flow.tensors[entry] if (entry := flow.blocks.pop()) else 0
        flow.fuses -= layer.type in FUSES
        sort = sort_of(layer.type)
        if sort.encodes or id(layer) == flow.encoder:
            flow.encoders -= 1
        if sort.kind is _SIGMOID_GATE:  # what it does beside its inner activation
            shape = flow.shapes[flow.current]
            flow.emit(Kind.KEEPS_OUTPUT, flow.current, shape, None, extra=elements(shape))
        if sort.attends:
            attend(flow, layer.output_shape, layer.params)
            flow.attention = self._outer.pop()
            if flow.attention is not None:
                flow.attention.done = True  # it is only the block around this one
        elif layer.output_shape is not None:
            attention = flow.attention
            if attention is not None and attention.matrix and _products_in(layer) >= _TWO:
                attention.before += attention.matrix  # a head's; others have matrices of their own
                attention.matrix = 0
            if layer.params and sort.kind is _CONV and not sort.encloses and len(layer.output_shape) > 1:
                convolve(flow, layer.but(input_shape=None), layer.output_shape)  # behind its padding
            if _remembers(flow, layer, layer.output_shape):
                x = flow.current
                flow.emit(_KEEPS_OUTPUT, x, flow.shapes[x], None, extra=flow.tensors[x] // _TWO)
            elif sort.waves:
                wave(flow, layer.output_shape)
            flow.behind(layer.output_shape)


def _remembers(flow: Flow, block: Layer, shape: Shape) -> bool:
    """Tell whether a block is a cell of recurrent convolutions: one makes the four gates of what the block gives out.

    Beside what activates these, the state is kept, and what it gives out of it.
    """
    if len(block.children) != 1 or len(shape) != PICTURE or kind_of(block.children[0].type) is not _CONV:
        return False
    return flow.shapes[flow.current] == (_GATES * shape[0], *shape[1:])


def _products_in(block: Layer) -> int:
    """Count the linear layers in a list."""
    count = 0
    for child in block.children:
        if kind_of(child.type) is _LINEAR:
            count += 1
    return count


def _is_small(block: Layer) -> bool:
    """Tell whether a block is read as soon as it is told whether it can be copied."""
    if len(block.children) > _FEW:
        return False
    for child in block.children:  # noqa: SIM110
        if child.children:
            return False
    return True
