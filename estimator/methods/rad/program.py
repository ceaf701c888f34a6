"""A summary as a program: the tensors that a forward pass makes and what each layer keeps of them. Pure.

A summary lists layers, not what connects them. Branches, skip connections, gates and the products inside an attention
are recognised by sizes that do not fit; see `docs/estimator.md` for the rules and where they are wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import Final, NamedTuple

from estimator import blocks, sizes
from estimator.compiled import breathe
from estimator.methods.rad.familiar import owner, plain_names
from estimator.methods.rad.kinds import Kind, attends, attends_eagerly, attends_with_bias, kind_of, sort_of
from estimator.types import Layer, ModelSummary
from estimator.walk import elements, layers

Shape = tuple[int, ...]

End = tuple[Layer, int, int, int]
"""A layer, how many steps there are before it and when it is done, elements of the larger of its input and output."""

_BACK: Final = 14
_OFTEN: Final = 63
# Python looks up a member of an enumeration as slowly as it calls a function, and each layer is compared with many.
_VIEW: Final = Kind.VIEW
_CONV: Final = Kind.CONV
_LINEAR: Final = Kind.LINEAR
_EMBEDDING: Final = Kind.EMBEDDING
_RECURRENT: Final = Kind.RECURRENT
_DROPOUT: Final = Kind.DROPOUT
_SOFTMAX: Final = Kind.SOFTMAX
_KEEPS_OUTPUT: Final = Kind.KEEPS_OUTPUT
_SIGMOID_GATE: Final = Kind.SIGMOID_GATE
_ACTIVATIONS: Final = frozenset((Kind.KEEPS_INPUT, Kind.KEEPS_OUTPUT, Kind.MANY_STEPS, Kind.SIGMOID_GATE))
_POOLS: Final = frozenset((Kind.MAX_POOL, Kind.AVG_POOL, Kind.SHRINK))
_MULTIPLIES: Final = frozenset((Kind.LINEAR, Kind.ATTENTION))
_NORMS: Final = frozenset((Kind.BATCH_NORM, Kind.LAYER_NORM))
_TOKEN_NORMS: Final = frozenset((Kind.LAYER_NORM, Kind.RMS_NORM))
_BARE: Final[tuple[str, ...]] = ("Parameter", "ParameterList", "ParameterDict")
_UNCALLED: Final[tuple[str, ...]] = ("ModuleList", "ModuleDict")
_NO_BLOCKS: Final[tuple[str, ...]] = ("Identity", "Flatten", "Parameter")
_LISTS: Final[tuple[str, ...]] = ("ModuleList", "ModuleDict", "Sequential")
# Kept inside a hidden block, in outputs of the block: where nothing is printed, and for each element printed.
_USUAL: Final = 8.0
_PICTURE: Final = 3
_CAUSAL: Final[tuple[str, ...]] = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "MTModel")
# These give out their keys and values for the next token whatever their head is.
_DECODERS: Final[tuple[str, ...]] = (
    "OPT",
    "GPT2",
    "GPTNeo",
    "GPTJ",
    "GPTBigCode",
    "Llama",
    "Mistral",
    "Mixtral",
    "Qwen2",
    "Qwen3",
    "Gemma",
    "Phi",
    "Bloom",
    "Falcon",
    "Mpt",
    "StableLm",
    "Starcoder",
    "Olmo",
    "Granite",
    "Nemotron",
    "Persimmon",
    "Cohere",
    "CodeGen",
    "XGLM",
    "BioGpt",
    "CTRL",
)
# These call no layers for their projections, so that no summary but a print shows them.
_FUSED: Final[tuple[str, ...]] = (
    "MultiheadAttention",
    "ShiftedWindowAttention",
    "ShiftedWindowAttentionV2",
    "ShiftedWindowAttention3d",
)
_MANY_WORDS: Final = 8_000
# Elements that each layer of a recurrent network keeps for each of its output: gates and states.
_RECURRENT_KEEPS: Final = 6
_MOST_DEPTH: Final = 100
_FEW_LAYERS: Final = 16
_DIGITS: Final = 4
_TWO: Final = 2
_MOST_KEYS: Final = 4096
_MOST_HEADS: Final = 32
# Their final_logits_bias is no parameter.
_BIASED_LOGITS: Final[tuple[str, ...]] = ("Bart", "MBart", "Marian", "Pegasus", "Blenderbot", "Plbart", "M2M100")
_DENSE_HEADS: Final[tuple[str, ...]] = (
    "FCNHead",
    "DeepLabHead",
    "LRASPPHead",
    "LRASPP",
    "DecodeHead",
    "UperNetHead",
    "ForSemanticSegmentation",
)
_HEAD_WIDTH: Final = 64
_WINDOW: Final = 49
_WINDOW_FRAMES: Final = 8
_WINDOW_HEAD_WIDTH: Final = 32
_OUT_NAMES: Final = frozenset(
    ("o", "o_proj", "out_proj", "c_proj", "dense", "proj", "out", "out_lin", "to_out", "wo", "out_proj")
)
# MB by which a printed size is rounded.
_ROUNDED: Final = 0.0055
_SQUARES: Final = {
    1,
    3,
    4,
    5,
    7,
    9,
    15,
    16,
    21,
    25,
    27,
    35,
    36,
    49,
    64,
    81,
    121,
    169,
    196,
    225,
    256,
    289,
    441,
    961,
    1024,
}
# Of kernels over time and place.
_CUBES: Final = {1, 3, 5, 7, 8, 9, 27, 32, 49, 75, 98, 125, 147, 343, 512}
_TUBES: Final[tuple[int, ...]] = (8, 32, 98, 512)
_STEM: Final = 49
_NO_ARGS: Final[dict[str, str]] = {}
_DEEP: Final = 4
# Steps among which a layer that is called again is looked for.
_LOOP: Final = 256
# By how much a guessed picture's sides may be wrong.
_LEAST_SIDE: Final = 0.2
# Printed with an error of less than one such part.
_SURE: Final = 8
_MOST_SIDE: Final = 3.0
# Behind one product: queries, keys and values; a gate and what it gates.
_IN_ONE: Final[tuple[int, ...]] = (2, 3)
_FEW_GROUPS: Final = 8
_DEPTHWISE: Final = {1, 3, 5, 7, 9, 11, 21, 25, 49, 81, 121}


class Conv(NamedTuple):
    """Sizes of a convolution that decide about its workspace; one sample.

    Attributes:
        channels_in: channels of the input.
        channels_out: channels of the output.
        area: elements of the kernel (9 for 3x3).
        stride: step along one side.
        groups: groups of channels.
        size_in: elements of one channel at the input.
        size_out: elements of one channel at the output.
        transposed: whether it is a transposed convolution.
    """

    channels_in: int
    channels_out: int
    area: int
    stride: int
    groups: int
    size_in: int
    size_out: int
    transposed: bool = False


class Scores(IntEnum):
    """How an attention multiplies, which decides about the copies of its matrix that are kept."""

    PLAIN = 0
    """One by one, without dropout: what softmax gives out."""
    DROPPED = 1
    """One by one, with dropout: before it, behind it, and its mask."""
    BIAS = 2
    """Fused, with a learned number for each pair of tokens."""
    SHARED_KEYS = 3
    """Fused, with fewer keys than queries: in fp32 no fused kernel takes that, and the matrix is kept."""


class Op:
    """One step of the forward pass.

    No named tuple: there are hundreds, each is asked many times, and this the compiled build makes ten times faster.

    Attributes:
        kind: what it keeps.
        x: index of the tensor that goes in.
        y: index of the tensor that comes out.
        params: parameters that it owns.
        conv: sizes of a convolution, else None.
        extra: elements kept beside input and output: queries, keys and values of an attention, gates.
        matrix: elements of an attention's matrix of weights, 0 where it is never stored.
        inplace: whether the output takes the input's place.
        frozen: whether its parameters are not trained.
        scores: how the attention's matrix is made.
    """

    __slots__ = ("conv", "extra", "frozen", "inplace", "kind", "matrix", "params", "scores", "x", "y")

    def __init__(
        self,
        kind: Kind,
        x: int,
        y: int,
        params: int = 0,
        conv: Conv | None = None,
        extra: int = 0,
        matrix: int = 0,
        inplace: bool = False,
        frozen: bool = False,
        scores: Scores = Scores.DROPPED,
    ) -> None:
        self.kind = kind
        self.x = x
        self.y = y
        self.params = params
        self.conv = conv
        self.extra = extra
        self.matrix = matrix
        self.inplace = inplace
        self.frozen = frozen
        self.scores = scores

    def moved(self, by: int) -> Op:
        """Give the same step on tensors that come later."""
        return Op(
            self.kind,
            self.x + by,
            self.y + by,
            self.params,
            self.conv,
            self.extra,
            self.matrix,
            self.inplace,
            self.frozen,
            self.scores,
        )


class Program(NamedTuple):
    """What a forward pass does.

    Attributes:
        tensors: elements of each tensor, for one sample.
        ops: the steps in order.
        kept: tensors that are kept for the backward pass although no single step says so (factors of products).
        hidden_params: parameters of layers whose insides the summary does not show.
        classes: width of the last output, for the loss.
        tokens: tokens of a sample at the last output; 1 where there are none.
        causal: whether it is a language model that predicts the next token, with a loss in fp32.
        cache: elements of all keys and values, where it gives them out for the next token.
        multiplies: whether anything multiplies matrices.
        shared: parameters of a word embedding that is also the head.
        biased: whether numbers in fp32 are added to the logits.
        skips: by step, elements that wait meanwhile: what went into the blocks around it, which the callers hold.
        names: types of all layers, without the model's own name.
        ends: the layers in the order in which they are done: children before the block around them.
        flat: whether the summary shows no tree: a block's row follows those of its layers.
        owner: the model's own name, which transformers puts before the types of its layers, or "".
    """

    tensors: list[int]
    ops: list[Op]
    kept: set[int]
    hidden_params: int
    classes: int
    tokens: int
    causal: bool = False
    cache: int = 0
    multiplies: bool = False
    shared: int = 0
    biased: bool = False
    skips: Mapping[int, int] = MappingProxyType({})
    names: frozenset[str] = frozenset()
    ends: Sequence[End] = ()
    flat: bool = False
    owner: str = ""


def compile_program(summary: ModelSummary) -> Program:
    """Follow a summary whose layers all have shapes (see `estimator.shapes`)."""
    found = layers(summary.root)
    types = {layer.type for layer in found}
    builder = _Builder(summary.format in ("torchsummary", "keras"), _drops(types))
    builder.words = "Embedding" in types
    builder.cosine = any(map(blocks.normalizes_queries, types))
    seen = {kind_of(type_) for type_ in types}
    if summary.input_mb is not None:
        printed = max(summary.batch_size or 1, 1)
        builder.said = summary.input_mb * 1e6 / 4 / printed, _ROUNDED * 1e6 / 4 / printed
    builder.unsaid = not any(map(attends, types))
    builder.bare = seen.isdisjoint(_ACTIVATIONS)
    builder.bends = builder.bare and not seen.isdisjoint(_TOKEN_NORMS)
    builder.read(found)
    last = builder.shapes[builder.current] if builder.shapes else (1,)
    last = _dense(types, builder, last)
    classes, tokens = (last[-1] if last else 1), (elements(last[:-1]) if len(last) > 1 else 1)
    if builder.hidden and summary.format == "torchinfo":
        _open_hidden(builder, summary, types)
    ops = builder.ops
    kinds = {op.kind for op in ops}
    causal = _causal(summary, types, builder.flat, classes, tokens)
    return Program(
        builder.tensors,
        ops,
        builder.kept,
        builder.hidden,
        classes,
        tokens,
        causal,
        builder.cache if causal or _caches(summary) or any(type_.startswith(_DECODERS) for type_ in types) else 0,
        not kinds.isdisjoint(_MULTIPLIES),
        _shared(ops, summary.total_params) if _EMBEDDING in kinds else 0,
        summary.root.type.startswith(_BIASED_LOGITS),
        builder.skips,
        plain_names(frozenset(types)),
        builder.ends,
        builder.flat,
        owner(frozenset(types)),
    )


def _dense(types: set[str], builder: _Builder, last: Shape) -> Shape:
    """Add what models that label each pixel do last, in no layer: their answer grows to the size of the picture."""
    if len(last) != 3 or not any(type_.endswith(_DENSE_HEADS) for type_ in types):
        return last
    picture = builder.shapes[0]
    if len(picture) != 3 or elements(picture[1:]) <= elements(last[1:]):
        return last
    grown = (last[0], *picture[1:])
    builder.ops.append(Op(Kind.NEW, builder.current, builder.tensor(grown)))
    return grown


def _drops(types: set[str]) -> bool:
    """Tell whether layers of dropout drop anything where the summary does not show their share.

    In the libraries' defaults they do in models that read words and in front of classifiers, and not in vision
    transformers and their kin.
    """
    blocks = any("Mlp" in type_ or "MLP" in type_ or attends(type_) for type_ in types)
    return "Embedding" in types or not blocks or not any("Conv2d" in type_ for type_ in types)


def _causal(summary: ModelSummary, types: set[str], flat: bool, classes: int, tokens: int) -> bool:
    """Tell whether a model predicts the next token, with a loss in fp32.

    Models with an encoder compute theirs in the precision of the logits.
    """
    if any(type_.endswith(("Encoder", "T5Stack")) for type_ in types):
        return False
    if flat:
        return "Embedding" in types and classes >= _MANY_WORDS and tokens > 1
    return _caches(summary)


def _caches(summary: ModelSummary) -> bool:
    """Tell whether a model gives out its keys and values for the next token."""
    return any(layer.type.endswith(_CAUSAL) for layer in (summary.root, *summary.root.children[:1]))


def _shared(ops: list[Op], total_params: int) -> int:
    """Count the parameters of a word embedding that is the head, too: the total counts them once."""
    words = max((op.params for op in ops if op.kind is _EMBEDDING), default=0)
    if not words or sum(op.params for op in ops) < total_params + words * 0.9:
        return 0
    twice = sum(words <= op.params <= words * 1.02 for op in ops if op.kind in (_EMBEDDING, _LINEAR))
    return words if twice > 1 else 0


def _open_hidden(builder: _Builder, summary: ModelSummary, types: set[str]) -> None:
    """Give layers whose insides are hidden what they keep inside.

    torchinfo prints the outputs of all layers that own parameters, also of hidden ones: what the visible ones do not
    explain is inside, in proportion to the sizes of the outputs. Without that line, as much as usual blocks keep is
    taken.
    """
    tensors = builder.tensors
    opaque = sum(tensors[op.y] for op in builder.ops if op.kind is Kind.OPAQUE)
    factor = _USUAL
    if summary.pass_mb is not None:
        kinds = {kind_of(type_) for type_ in types}
        pictures = "Conv2d" in types or any(
            _is_picture(builder.shapes[op.y]) for op in builder.ops if op.kind is Kind.OPAQUE
        )
        tokens = not pictures or any(map(_works_on_tokens, types))
        printed = summary.pass_mb * 1e6 / 8 / max(summary.batch_size or 1, 1)
        visible = sum(tensors[op.y] for op in builder.ops if op.params and op.kind is not Kind.OPAQUE)
        factor = max(printed - visible, 0.0) / max(opaque, 1)
        factor *= blocks.kept_inside(
            types, keeps_input=Kind.KEEPS_INPUT in kinds, keeps_output=_KEEPS_OUTPUT in kinds, tokens=tokens
        )
    for op in builder.ops:
        if op.kind is Kind.OPAQUE:
            op.extra = round(factor * tensors[op.y])


def _is_picture(shape: Shape) -> bool:
    return len(shape) == _PICTURE and shape[1] == shape[2] > 1


def _works_on_tokens(type_: str) -> bool:
    return attends(type_) or "Mlp" in type_ or "LayerNorm" in type_


class _Attention:
    """What is known of the attention that is being read."""

    def __init__(self, type_: str, entry: int) -> None:
        self.type = type_
        self.entry = entry
        self.projections: list[int] = []
        self.matrix = 0
        self.dropped = False
        self.done = False
        self.single = False
        """Whether one layer makes queries, keys and values."""


class _Span(NamedTuple):
    """What a block has added, to be added again where an equal one comes upon the like.

    Attributes:
        tensors, steps, ends: where its own begin, and end before.
        kept: those of its tensors, or of the ones before, that are kept.
        activated: those before or behind an activation.
        hidden, cache: parameters and elements that it has added.
        current, by_activation, gate: how it ends.
    """

    tensors: tuple[int, int]
    steps: tuple[int, int]
    ends: tuple[int, int]
    kept: frozenset[int]
    activated: frozenset[int]
    hidden: int
    cache: int
    current: int
    by_activation: bool
    gate: int


class _Builder:
    def __init__(self, flat: bool, drops: bool) -> None:
        self.flat = flat
        self.drops = drops
        self.cosine = self.words = False
        self.said: tuple[float, float] | None = None
        """Elements of one sample's input, and by how many they may be wrong."""
        self.unsaid = False
        """Whether no layer is called an attention."""
        self.bare = False
        """Whether no layer is an activation: functions are."""
        self.bends = False
        """Whether these functions keep what they take, as GELU does."""
        self.tensors: list[int] = []
        self.shapes: list[Shape] = []
        self.ops: list[Op] = []
        self.skips: dict[int, int] = {}
        self.kept: set[int] = set()
        self.hidden = 0
        self.cache = 0
        self.current = 0
        self._by_activation = False
        self._activated: set[int] = set()
        self._gate = -1
        self._attention: _Attention | None = None
        self._outer: list[_Attention | None] = []
        self._blocks: list[int] = []
        self._waiting = 0
        self._mark = 0
        self._marks: dict[int, tuple[bool, bool]] = {}
        self._entries: list[tuple[int, int]] = []
        self.ends: list[End] = []
        self._repeated: set[int] = set()
        self._spans: dict[tuple[object, ...], _Span] = {}

    def read(self, found: list[Layer]) -> None:
        """Read all layers, the model first: blocks that are the same object again are copied."""
        if not self.flat:
            counts = Counter([id(layer) for layer in found if layer.children])
            self._repeated = {block for block, count in counts.items() if count > 1}
        self._run(found[0])

    def _run(self, layer: Layer) -> None:
        """Read a layer and all in it, children in order."""
        situation = self._situation(layer) if id(layer) in self._repeated else None
        if situation is None:
            self._follow(layer)
            return
        span = self._spans.get(situation)
        if span is not None:
            self._copy(span)
            return
        kept, self.kept = self.kept, set()
        activated = set(self._activated)
        tensors, steps, ends, hidden, cache = len(self.tensors), len(self.ops), len(self.ends), self.hidden, self.cache
        self._follow(layer)
        self._spans[situation] = _Span(
            (tensors, len(self.tensors)),
            (steps, len(self.ops)),
            (ends, len(self.ends)),
            frozenset(self.kept),
            frozenset(self._activated - activated),
            self.hidden - hidden,
            self.cache - cache,
            self.current,
            self._by_activation,
            self._gate,
        )
        self.kept |= kept

    def _situation(self, layer: Layer) -> tuple[object, ...] | None:
        """Give what a block's steps follow from, counted from where it begins; None where that is too much to say."""
        start, current = len(self.tensors), self.current
        if self._attention is not None or self._gate >= 0 or start <= _BACK or not current:
            return None
        seen = (current, *range(start - _BACK, start))
        return (
            id(layer),
            start - current,
            self._waiting,
            self._by_activation,
            self.shapes[current],
            *self.shapes[-_BACK:],
            *[index in self._blocks for index in seen],
            *[index in self._activated for index in seen],
        )

    def _copy(self, span: _Span) -> None:
        """Add once more what a block has added."""
        first, last = span.tensors
        by = len(self.tensors) - first
        self.tensors += self.tensors[first:last]
        self.shapes += self.shapes[first:last]
        first, last = span.steps
        later = len(self.ops) - first
        self.ops += [op.moved(by) for op in self.ops[first:last]]
        for step in range(first, last):
            if step in self.skips:
                self.skips[step + later] = self.skips[step]
        first, last = span.ends
        self.ends += [(layer, start + later, end + later, size) for layer, start, end, size in self.ends[first:last]]
        self.kept.update([index + by for index in span.kept])
        self._activated.update([index + by for index in span.activated])
        self.hidden += span.hidden
        self.cache += span.cache
        self.current = span.current + by
        self._by_activation = span.by_activation
        self._gate = span.gate + by if span.gate >= 0 else -1

    def _follow(self, layer: Layer) -> None:
        if layer.children:
            self._open(layer)
            entry, start = self.current, len(self.ops)
            for number, child in enumerate(layer.children):
                if not number & _OFTEN:
                    breathe()
                if not self.flat and blocks.begins(layer, child):
                    self.current = entry
                self._run(child)
            self._close(layer)
        else:
            entry, start = self.current, len(self.ops)
            self._leaf(layer)
        # It is done: with the larger of what it took and gave out.
        size = self._elements(layer.output_shape) or self.tensors[self.current]
        if not self.flat and self.tensors[entry] > size:
            size = self.tensors[entry]
        self.ends.append((layer, start, len(self.ops), size))

    def _elements(self, shape: Shape | None) -> int:
        """Count the elements of a shape, which mostly is that of the tensor at hand; 0 for None."""
        if self.shapes[self.current] is shape:
            return self.tensors[self.current]
        return 0 if shape is None else prod(shape)

    def _input(self, layer: Layer) -> Shape:
        """Give what goes into the model: as shown, or as its first layer and the printed size of the input say."""
        shape = layer.input_shape or _first_input(layer)
        if self.said is None or len(shape) < _PICTURE or layer.input_shape:
            return shape
        more, picture = shape[:-_PICTURE], shape[-_PICTURE:]
        floats, error = (value / max(prod(more), 1) for value in self.said)
        side = (floats / max(picture[0] * picture[1] * picture[2], 1)) ** 0.5
        grown = (picture[0], round(picture[1] * side), round(picture[2] * side))
        fits = abs(prod(grown) - floats) <= error and abs(prod(picture) - floats) > error
        sure = error * _SURE < floats
        return (*more, *grown) if fits and sure and _LEAST_SIDE <= side <= _MOST_SIDE else shape

    def tensor(self, shape: Shape) -> int:
        """Add a tensor."""
        shapes, tensors = self.shapes, self.tensors
        tensors.append(tensors[-1] if shapes and shapes[-1] is shape else prod(shape))
        shapes.append(shape)
        return len(shapes) - 1

    def _open(self, layer: Layer) -> None:
        if not self.tensors:
            self.current = self.tensor(self._input(layer))
        entry = self.current if layer.type not in _UNCALLED else 0
        if entry and entry not in self._blocks:
            self._waiting += self.tensors[entry]
            self._blocks.append(entry)
        else:
            self._blocks.append(0)
        sort = sort_of(layer.type)
        if sort.attends:
            self._outer.append(self._attention)
            self._attention = _Attention(layer.type, self.current)
            products = sum(kind_of(child.type) is _LINEAR for child in layer.children)
            self._attention.single = products <= _TWO and self.words
        if layer.params and sort.kind in _NORMS:  # with its activation inside
            self._keep(layer, sort.kind, layer.output_shape or self.shapes[self.current])

    def _close(self, layer: Layer) -> None:
        self._waiting -= self.tensors[entry] if (entry := self._blocks.pop()) else 0
        sort = sort_of(layer.type)
        if sort.kind is _SIGMOID_GATE:  # what it does beside its inner activation
            shape = self.shapes[self.current]
            self._emit(Kind.KEEPS_OUTPUT, self.current, shape, None, extra=elements(shape))
        if sort.attends:
            self._attend(layer.output_shape, layer.params)
            self._attention = self._outer.pop()
            if self._attention is not None:
                self._attention.done = True  # it is only the block around this one
        elif layer.output_shape is not None:
            if layer.params and sort.kind is _CONV and not sort.encloses and len(layer.output_shape) > 1:
                self._convolve(layer._replace(input_shape=None), layer.output_shape)  # behind its padding
            self._behind(layer.output_shape)

    def _behind(self, shape: Shape) -> None:
        """Go on with what a block gives out; where that is nothing seen so far, it was made in its own code."""
        if self._elements(shape) != self.tensors[self.current]:
            found = self._search(shape)
            # A gate of one pixel a channel was multiplied with the picture before it.
            if found >= 0 and self.tensors[self.current] * 4 <= self.tensors[found]:
                self.kept.add(found)
            self.current = self.tensor(shape)

    def _search(self, shape: Shape) -> int:
        """Find the last tensor of this shape."""
        for index in range(len(self.shapes) - 1, max(len(self.shapes) - _BACK, 0) - 1, -1):
            if self.shapes[index] == shape:
                return index
        return -1

    def _leaf(self, layer: Layer) -> None:
        type_, params, shape, _, _, _, _ = layer
        sort = sort_of(type_)
        kind = sort.kind
        if not self.tensors:
            self.current = self.tensor(self._input(layer))
        if shape is None:
            if not params or type_ in _BARE:
                return
            shape, kind = self.shapes[self.current], Kind.VIEW  # a list of layers that is not opened
        if not shape:
            shape = (1,)  # one number for each sample
        if params and (type_ in _LISTS or (sort.attends and self._hides(type_))):
            self.hidden += params
            self._emit(Kind.OPAQUE, self.current, shape, layer)
        elif sort.attends:
            self._attends(layer, shape)
        elif kind is _CONV and len(shape) >= 2 and not (params and sort.encloses):
            self._convolve(layer, shape)
        elif kind is _LINEAR:
            self._project(layer, shape)
        elif kind is _EMBEDDING:
            self._embed(layer, shape)
        elif kind is _VIEW or kind is _CONV:
            self._view(layer, kind, shape)
        else:
            self._keep(layer, kind, shape)

    def _view(self, layer: Layer, kind: Kind, shape: Shape) -> None:
        """Add what is a block, or no layer that is known."""
        if layer.params and layer.type not in _BARE:
            self.hidden += layer.params
            self._emit(Kind.OPAQUE, self.current, shape, layer)
            return
        if self._halves(shape):
            self.kept.add(self.current)  # one half times the other
        self._behind(shape)
        if self.flat and kind is _VIEW and layer.type not in _NO_BLOCKS:
            self._mark = self.current

    def _halves(self, shape: Shape) -> bool:
        """Tell whether a layer of no known type gives out half of its features."""
        before = self.shapes[self.current]
        if len(before) != len(shape) or self.tensors[self.current] != _TWO * elements(shape):
            return False
        return before[0] == _TWO * shape[0] or before[-1] == _TWO * shape[-1]

    def _attends(self, layer: Layer, shape: Shape) -> None:
        """Add an attention that is one row."""
        if self.flat and self._within():
            self._behind(shape)
            return
        outer, self._attention = self._attention, _Attention(layer.type, self.current)
        self._attend(shape, layer.params)
        self._attention = outer

    def _hides(self, type_: str) -> bool:
        """Tell whether an attention's projections are not to be seen; in tables without a tree they stand before it."""
        if type_ in _FUSED:
            return False
        return not self.flat or not any(op.kind is _LINEAR for op in self.ops[-_BACK:])

    def _within(self) -> bool:
        """Tell whether the attention whose row comes now is only the block around the one before."""
        products = 0
        for op in reversed(self.ops):
            if op.kind is Kind.ATTENTION:
                return products < 2
            products += op.kind in (_LINEAR, _CONV)
        return False

    def _emit(
        self,
        kind: Kind,
        x: int,
        shape: Shape,
        layer: Layer | None,
        conv: Conv | None = None,
        extra: int = 0,
        matrix: int = 0,
        scores: Scores = Scores.PLAIN,
    ) -> None:
        params, inplace, frozen = 0, False, False
        if layer is not None:
            params = layer.params
            if layer.args:
                marks = self._marks.get(id(layer))
                if marks is None:
                    marks = ("inplace", "True") in layer.args, ("trainable", "False") in layer.args
                    self._marks[id(layer)] = marks
                inplace, frozen = marks
        y = x if inplace and kind is _KEEPS_OUTPUT else self.tensor(shape)
        waiting = self._waiting
        if waiting and x in self._blocks:
            waiting -= self.tensors[x] if x else 0
        elif self.flat and self._mark and self._mark != x:  # a table shows where blocks end only
            waiting = self.tensors[self._mark]
        if waiting:
            self.skips[len(self.ops)] = waiting
        self.ops.append(Op(kind, x, y, params, conv, extra, matrix, inplace, frozen, scores))
        self.current = y

    def _same(self, shape: Shape) -> int:
        """Find the input of a layer that keeps the shape; what is not there was made in the block's own code."""
        if self.tensors[self.current] == self._elements(shape):
            return self.current
        found = self._search(shape)
        return found if found >= 0 and found not in self._activated else self.tensor(shape)

    def _keep(self, layer: Layer, kind: Kind, shape: Shape) -> None:
        attention = self._attention
        if attention is not None and len(shape) >= 3 and shape[-1] == shape[-2] and kind in (_DROPOUT, _SOFTMAX):
            attention.matrix = max(attention.matrix, elements(shape))
            attention.dropped |= kind is _DROPOUT and self._dropping(layer)
            return
        if kind in _POOLS:
            self._emit(kind, self.current, shape, layer)
            return
        if kind is _DROPOUT and not self._dropping(layer):
            return
        if kind is _RECURRENT:
            before = self.shapes[self.current]
            depth, wide = _deep(layer, before, shape)
            steps = elements(shape[:-1])
            taken = self.tensors[self.current]
            x = self.current if not wide or taken == wide * steps else self.tensor((*shape[:-1], wide))
            self._emit(kind, x, shape, layer, extra=_RECURRENT_KEEPS * depth * elements(shape))
            return
        activates = kind in _ACTIVATIONS
        if activates and self.tensors[self.current] == 2 * self._elements(shape):
            # Half of a product is gated by the other half.
            self._emit(kind, self.current, shape, layer)
            self.kept.add(self.current)
            self.current = self.tensor(shape)
            return
        if (kind is _DROPOUT or kind is _SOFTMAX) and self._is_made(kind, shape, layer):
            return
        x = self._same(shape)
        more = (self.cosine and kind is _SOFTMAX) or layer.type == "StarReLU"
        self._emit(kind, x, shape, layer, extra=elements(shape) if more else 0)
        self._by_activation = activates
        if activates:
            self._activated.update((x, self.current))

    def _is_made(self, kind: Kind, shape: Shape, layer: Layer) -> bool:
        """Add what functions did before a dropout or softmax, and tell whether that was all."""
        entry = self.current
        if len(shape) < _TWO or self.tensors[entry] == self._elements(shape):
            return False
        if shape[-1] != shape[-2] or shape[-1] == 1 or self._shrunk(shape):
            if kind is _DROPOUT and self._shrunk(shape):
                self._pool(shape)
            return False
        # An attention's matrix of weights that code makes and multiplies: no layer gave it, and none takes it.
        again = self.shapes[-1] == shape
        x = len(self.shapes) - 1 if again else self.tensor(shape)
        self._emit(kind, x, shape, layer, extra=elements(shape) if self.cosine and kind is _SOFTMAX else 0)
        if kind is _DROPOUT and not self.flat and not again:
            self.kept.update((x, self.current))
        self.current = entry
        return True

    def _shrunk(self, shape: Shape) -> bool:
        """Tell whether a picture of this shape is the one at hand, pooled by a function."""
        before = self.shapes[self.current]
        if len(shape) != _PICTURE or len(before) != _PICTURE or shape[0] != before[0]:
            return False
        return 1 < shape[1] <= before[1] // 2 and 1 < shape[2] <= before[2] // 2

    def _dropping(self, layer: Layer) -> bool:
        """Tell whether a dropout drops anything."""
        share = next((value for key, value in layer.args if key == "p"), None)
        return self.drops if share is None else share not in ("0.0", "0")

    def _embed(self, layer: Layer, shape: Shape) -> None:
        if self._attention is not None or "pos" in layer.name.lower() or "osition" in layer.type:
            return  # positions are small and have no batch
        x = self.current if not self.ops else self.tensor((1,))
        self._emit(Kind.EMBEDDING, x, shape, layer)

    # -- linear layers and attention

    def _project(self, layer: Layer, shape: Shape) -> None:
        inputs = _features(layer, shape)
        attention = self._attention
        if len(shape) == 3 and shape[0] == shape[1] > shape[2] and 0 < inputs <= shape[2] <= _MOST_HEADS:
            # Heads that talk to each other: a product over heads of the matrix of weights, before or behind softmax.
            self.ops.append(
                Op(Kind.LINEAR, self.tensor(shape), self.tensor(shape), layer.params, extra=elements(shape))
            )
            return
        if attention is not None and not attention.done:
            entry = attention.entry
            width = self.shapes[entry][-1] if self.shapes[entry] else 0
            fused = bool(attention.projections) and (
                attention.single or self.tensors[attention.projections[0]] > 2.5 * self.tensors[entry]
            )
            if attention.projections and (
                layer.name in _OUT_NAMES or (not layer.name and (fused or len(attention.projections) >= 3))
            ):
                self._attend(None, 0)
            elif inputs in (0, width):
                self._emit(_LINEAR, entry, shape, layer)
                if not (attention.single and layer.name in _OUT_NAMES):  # defined before what it comes behind
                    attention.projections.append(self.current)
                return
        x = self.current
        if self._gate >= 0:  # the other factor has come: the product goes into this layer
            self.kept.update((self._gate, x))
            x = self.tensor(self.shapes[x])
            self._gate = -1
        x = self._factor(x, inputs, shape)
        self._emit(_LINEAR, x, shape, layer)
        self._by_activation = False

    def _factor(self, x: int, inputs: int, shape: Shape) -> int:
        """Find what a linear layer takes: what is at hand, what a function made of it, or what came before."""
        before = self.shapes[x]
        if not inputs or not before:
            return x
        if before[-1] == inputs or self.tensors[x] == inputs:
            if not self.bends or not self._made_by_product(x) or before[-1] < _TWO * max(shape[-1], 1):
                return x
            self.kept.add(x)  # what widens and narrows again has a function between
            return self.tensor(before)
        pooled = self._pooled(inputs, shape)
        if pooled >= 0:
            return pooled
        times, rest = divmod(before[-1], inputs)
        made = self.unsaid and self._made_by_product(x)
        if made and not rest and times in _IN_ONE and len(before) == len(shape):
            self.kept.add(x)  # queries, keys and values, or a gate and what it gates: code makes one of them
            return self.tensor((*before[:-1], inputs))
        found = self._with_width(inputs)
        if found < 0:
            return x
        if self._by_activation and self.tensors[x] == elements(shape):
            self._gate = x
        elif made and self.ops[-1].x == found and len(shape) > 1:
            self.kept.update((x, len(self.shapes)))  # two of one tensor: code multiplies them
        return found

    def _made_by_product(self, x: int) -> bool:
        """Tell whether a tensor is what a linear layer gave out just now."""
        return bool(self.ops) and self.ops[-1].kind is _LINEAR and self.ops[-1].y == x

    def _pooled(self, inputs: int, shape: Shape) -> int:
        """Find what a linear layer takes behind a picture that is larger: a function pooled it; -1 for none."""
        picture = self.shapes[self.current]
        if len(picture) != _PICTURE or len(shape) != 1 or inputs >= self.tensors[self.current]:
            return -1
        places, rest = divmod(inputs, max(picture[0], 1))
        if rest or places <= 1:
            return -1
        return self._pool((picture[0], places, 1))

    def _pool(self, shape: Shape) -> int:
        """Add the pooling that a function does behind a convolution, and its activation."""
        x = self.current
        self._emit(Kind.MAX_POOL, x, shape, None)
        return self.current

    def _with_width(self, width: int) -> int:
        for index in range(len(self.shapes) - 1, max(len(self.shapes) - _BACK, 0) - 1, -1):
            shape = self.shapes[index]
            if shape and shape[-1] == width:
                return index
        for index in reversed(self._blocks):
            if index and self.shapes[index] and self.shapes[index][-1] == width:
                return index
        return -1

    def _attend(self, shape: Shape | None, own: int) -> None:
        """Add the products of an attention behind its projections."""
        attention = self._attention
        if attention is None or attention.done:
            if shape is not None:
                self._behind(shape)
            return
        attention.done = True
        entry = self.shapes[attention.entry]
        extra = 0
        if attention.projections:
            self.kept.update(attention.projections)
            first = self.shapes[attention.projections[0]]
            width = first[-1]
            if len(attention.projections) == 1:
                width = self._queries(width, entry[-1] if entry else 0)
            out = (*first[:-1], width)
            self.cache += _cached(attention.projections, self.tensors)
        else:
            out = shape or entry
            extra = 3 * elements(out)
        if not out:
            return
        matrix, scores, more = self._scores(attention, out)
        extra += more
        if self.cosine:
            matrix *= 2
            extra += 2 * elements(out)
        layer = Layer(attention.type, own) if own else None
        self._emit(Kind.ATTENTION, attention.entry, out, layer, extra=extra, matrix=matrix, scores=scores)
        if shape is not None and elements(shape) != elements(out):
            self._behind(shape)

    def _scores(self, attention: _Attention, out: Shape) -> tuple[int, Scores, int]:
        """Give the elements of an attention's matrix, how it is made, and what is kept beside it."""
        if attention.matrix:
            return attention.matrix, Scores.DROPPED if attention.dropped else Scores.PLAIN, 0
        plain = Scores.DROPPED if self.drops else Scores.PLAIN
        tokens = elements(out[:-1]) if len(out) > 1 else 1
        if attention.type.startswith("ShiftedWindow"):
            window = _WINDOW * min(out[0], _WINDOW_FRAMES) if attention.type.endswith("3d") else _WINDOW
            return max(out[-1] // _WINDOW_HEAD_WIDTH, 1) * tokens * window, plain, 0
        projections = attention.projections
        keys = self.shapes[projections[1]] if len(projections) > 1 else out
        square = max(out[-1] // _HEAD_WIDTH, 1) * tokens * min(max(elements(keys[:-1]), 1), _MOST_KEYS)
        if attends_eagerly(attention.type):
            return square, plain, 0
        if attends_with_bias(attention.type):
            return square, Scores.BIAS, 0
        keys_each = self._fewer_keys(projections, out)
        if keys_each:
            return square, Scores.SHARED_KEYS, 2 * (elements(out) - keys_each)
        return 0, Scores.PLAIN, 0

    def _queries(self, width: int, entry: int) -> int:
        """Tell how wide the queries are that one projection gives out beside keys and values."""
        if self.words and entry < width < 3 * entry and not (width - entry) % 2 and not 2 * entry % (width - entry):
            return entry
        return width // 3 if width % 3 == 0 and (not entry or width > 2 * entry) else width

    def _fewer_keys(self, projections: list[int], out: Shape) -> int:
        """Count the elements of the keys where several queries share one, else 0."""
        if not projections:
            return 0
        query = self.shapes[projections[0]]
        if len(projections) == 1:
            beside = self.tensors[projections[0]] - elements(out)
            return beside // 2 if self.words and 0 < beside < 2 * elements(out) else 0
        if len(projections) < 3:
            return 0
        key = self.shapes[projections[1]]
        fewer = query[:-1] == key[:-1] and query[-1] > key[-1] and query[-1] % key[-1] == 0
        return self.tensors[projections[1]] if fewer else 0

    # -- convolutions

    def _convolve(self, layer: Layer, shape: Shape) -> None:
        if len(shape) == 4 and "2d" in layer.type:  # each head, or each of several pictures, stands beside the batch
            before = self.shapes[self.current]
            fits = len(before) == len(shape) and before[0] == shape[0] and elements(before[2:]) >= elements(shape[2:])
            may_be = (layer.params - shape[1], layer.params)
            fits = fits and _solved(may_be, before[1], shape[1])[0] > 0
            self._emit(_CONV, self.current if fits else self._same(shape), shape, layer)
            return
        outputs, size_out = shape[0], prod(shape[1:])
        transposed = "Transpose" in layer.type
        args = dict(layer.args) if layer.args else _NO_ARGS
        weights, (area, groups) = _weights(layer.params, outputs, args), _kernel(args) if args else (0, 1)
        least = 0 if transposed else size_out
        again = None if layer.params or layer.input_shape else self._called(outputs, len(shape))
        if again is not None:  # a layer that is called again, whose parameters are said once
            area, groups = again.area, again.groups
            x = self._with_channels(again.channels_in, shape, least)
        elif len(self.shapes[self.current]) == _TWO and not layer.input_shape and self._reads(weights, shape):
            self._emit(_CONV, self.current, shape, layer)  # words as a picture of one channel
            return
        else:
            x, area, groups = self._conv_input(layer.input_shape, shape, least, weights, area, groups)
        inner = self.shapes[x]
        if self.bare and area > 1 and x == self.current and not transposed and _cannot_step(inner, shape, area):
            x = self._pool((inner[0], inner[1] // 2, inner[2] // 2))
            inner = self.shapes[x]
        if layer.input_shape and len(inner) != len(shape):  # flattened before, and a picture again
            inner = layer.input_shape
        channels = inner[0] if inner else 1
        size_in = max(self.tensors[x] // max(channels, 1), 1)
        stride = 1 if size_in == size_out else _stride(size_in, size_out, len(shape) - 1)
        conv = tuple.__new__(Conv, (channels, outputs, area, stride, groups, size_in, size_out, transposed))
        alone = groups > 1 and len(shape) == _DEEP  # by kernels without a workspace, and not among the measured ones
        self._emit(_CONV, x, shape, layer, conv=None if alone else conv)
        self._by_activation = False

    def _called(self, outputs: int, axes: int) -> Conv | None:
        """Find the last convolution that gave out so many channels; a layer that is called again is like it."""
        for op in reversed(self.ops[-_LOOP:]):
            shape = self.shapes[op.y]
            if op.conv is not None and len(shape) == axes and shape[0] == outputs:
                return op.conv
        return None

    def _with_channels(self, channels: int, shape: Shape, least: int) -> int:
        """Find the last tensor of so many channels; what is not there was made in code, of the size of the output."""
        recent: list[int] = [self.current, *range(len(self.shapes) - 1, max(len(self.shapes) - _BACK, 0) - 1, -1)]
        for index in recent:
            found = self.shapes[index]
            if len(found) == len(shape) and found[0] == channels and prod(found[1:]) >= least:
                return index
        return self.tensor((channels, *shape[1:]))

    def _reads(self, weights: tuple[int, ...], shape: Shape) -> bool:
        """Tell whether a convolution's kernel is as wide as the features of words."""
        words = self.shapes[self.current]
        if len(shape) != _PICTURE or shape[-1] != 1 or not words[-1]:
            return False
        return shape[1] > 1 and any(size > 0 and size % (shape[0] * words[-1]) == 0 for size in weights)

    def _conv_input(
        self, known: Shape | None, shape: Shape, least: int, weights: tuple[int, ...], area: int, groups: int
    ) -> tuple[int, int, int]:
        """Find a convolution's input tensor, the area of its kernel and its groups.

        Args:
            known: the input, where the summary shows it.
            shape: the output.
            least: elements of one channel that the input has at least.
            weights: how many weights there may be.
            area: the kernel's, where it is printed; 0 else.
            groups: of channels, where the area is printed.
        """
        if known is not None and len(known) == len(shape):
            x = self.current if self.tensors[self.current] == elements(known) else self._search(known)
            if x < 0:
                x = self.tensor(known)
            if not area:
                area, groups = _solved(weights, known[0], shape[0], axes=len(shape))
            if not area:
                area, groups = _solved(weights, known[0], shape[0], grouped=True)
            return x, area or 1, groups
        outputs, axes = shape[0], len(shape)
        current = self.shapes[self.current]
        fits = len(current) == axes and prod(current[1:]) >= least
        recent: frozenset[int] | None = None
        for grouped in (False, True) if not area else (False,):
            if fits:
                solved = _solved(weights, current[0], outputs, area, groups, grouped, axes)
                if solved[0]:
                    return self.current, *solved
            if recent is None:
                tried = current[0] if fits else -1
                recent = frozenset(
                    [shape[0] for shape in self.shapes[-_BACK:] if len(shape) == axes and shape[0] != tried]
                )
            by_channels = _searched(weights, recent, outputs, area, groups, grouped, axes)
            if not by_channels:  # a search would be in vain
                continue
            for at in range(len(self.shapes) - 1, max(len(self.shapes) - _BACK, 0) - 1, -1):
                candidate = self.shapes[at]
                if len(candidate) == axes and candidate[0] in by_channels and prod(candidate[1:]) >= least:
                    return self._gated(at, candidate), *by_channels[candidate[0]]
        # Joined branches: the channels that the weights ask for, at the size before.
        last = self.shapes[self.current]
        asked, area = _asked(weights, outputs, area, groups)
        channels = min(asked, 4 * max(last[0] if last else 1, outputs))
        space = last[1:] if len(last) == axes and prod(last[1:]) >= prod(shape[1:]) else shape[1:]
        return self.tensor((channels, *space)), area, groups

    def _gated(self, at: int, candidate: Shape) -> int:
        """Give a convolution's input; behind a gate of one pixel a channel it is the product with what was gated."""
        if at == self.current:
            return at
        before = self.shapes[self.current]
        small = self.tensors[self.current] * 4 <= self.tensors[at]
        if not small or len(before) != len(candidate) or before[0] != candidate[0]:
            return at
        self.kept.add(at)
        return self.tensor(candidate)


def _stride(size_in: int, size_out: int, sides: int) -> int:
    """Tell the step along each side."""
    step: float = (size_in / max(size_out, 1)) ** (1 / max(sides, 1))
    return max(round(step), 1)


def _cannot_step(before: Shape, after: Shape, area: int) -> bool:
    """Tell whether no step of a square kernel makes one picture of the other, but one does behind pooling."""
    side = round(area**0.5)
    if len(before) != _PICTURE or len(after) != _PICTURE or side * side != area or before[1] // 2 < after[1]:
        return False
    pads = range(side // 2 + 1)
    steps = any((before[1] + 2 * pad - side) // step + 1 == after[1] for step in (1, 2, 4) for pad in pads)
    return not steps and any(before[1] // 2 + 2 * pad - side + 1 == after[1] for pad in pads)


def _deep(layer: Layer, before: Shape, shape: Shape) -> tuple[int, int]:
    """Tell how many layers a recurrent network has, as it says, or solve its parameters for them.

    Args:
        layer: the network.
        before: what came before it.
        shape: what it gives out.

    Returns:
        The number, and the features that it takes; 0 of them where it is not known.
    """
    inputs, outputs = before[-1] if before else 1, shape[-1]
    taken, steps = elements(before), elements(shape[:-1])
    count = next((value for key, value in layer.args if key == "num_layers"), "")
    if count.isdecimal() and len(count) < _DIGITS:
        return int(count), 0
    gates = 4 if "LSTM" in layer.type else 3 if "GRU" in layer.type else 1
    for directions in (1, 2):
        hidden = outputs // directions
        each = directions * gates * hidden
        more, rest = divmod(layer.params - each * (inputs + hidden + 2), max(each * (outputs + hidden + 2), 1))
        if not rest and 0 <= more < _MOST_DEPTH:
            return more + 1, inputs
    if layer.args:  # a print says how many there are, where there are several
        return 1, 0
    found = _recurrent(layer, outputs)
    for more, wide in found:
        if wide * steps == taken:  # turned or flattened on its way
            return more + 1, wide
    # Joined with others of its kind, or with something narrower; or pooled.
    joined = [(wide % inputs > 0, wide, more) for more, wide in found if wide >= inputs]
    if joined:
        _, wide, more = min(joined)
        return more + 1, wide
    return (found[0][0] + 1, found[0][1]) if found else (1, 0)


def _recurrent(layer: Layer, outputs: int) -> list[tuple[int, int]]:
    """Solve a recurrent network's parameters for its layers but the first and the features that it takes.

    Returns:
        All that fit: one direction or two, a layer more or wider inputs; those of few layers first.
    """
    gates = 4 if "LSTM" in layer.type else 3 if "GRU" in layer.type else 1
    found: list[tuple[int, int]] = []
    rows, rest = divmod(layer.params, max(gates * outputs, 1))
    for directions in (1, 2):
        hidden, odd = divmod(outputs, directions)
        inputs = rows - hidden - 2
        if not rest and not odd:
            found += [
                (more, wide) for more in range(_FEW_LAYERS) if (wide := inputs - more * (outputs + hidden + 2)) > 0
            ]
    return sorted(found)


def _cached(projections: list[int], tensors: list[int]) -> int:
    """Count keys and values: all projections but the first, or two thirds of a single one."""
    if len(projections) == 1:
        return tensors[projections[0]] * 2 // 3
    return sum(tensors[index] for index in projections[1:])


def _first_input(layer: Layer) -> Shape:
    """Guess what goes into the first layer: as much as comes out, of as many channels as its weights take."""
    while layer.children:
        layer = layer.children[0]
    if layer.input_shape:
        return layer.input_shape
    shape = layer.output_shape or (1,)
    kind = kind_of(layer.type)
    if kind is Kind.LINEAR:
        return (*shape[:-1], max(_features(layer, shape), 1))
    if kind is Kind.RECURRENT:
        return (*shape[:-1], min((wide for _, wide in _recurrent(layer, shape[-1])), default=shape[-1]))
    if kind is Kind.CONV and len(shape) >= 2:
        for channels in (3, 1, 4, 2, 6, 12):
            weights = (layer.params - shape[0], layer.params)
            if len(shape) == _DEEP and "2d" in layer.type:
                return (shape[0], *_first_input(layer._replace(output_shape=shape[1:])))
            if len(shape) == _DEEP:
                area, _ = _solved_deep(weights, channels, shape[0])
                if area:
                    return (channels, *_before_deep(area, shape[1:]))
                continue
            area, _ = _solved(weights, channels, shape[0])
            if area:
                # Stems halve the picture from 5x5 on, patches are cut without overlap.
                side = round(area**0.5)
                step = side if side % 2 == 0 or side > 11 else (2 if side >= 5 else 1)
                return (channels, *(size * step for size in shape[1:]))
        return (3, *shape[1:])
    if kind is Kind.EMBEDDING:
        return (shape[0], 2) if len(shape) > 1 else (2,)
    return shape


def _before_deep(area: int, shape: Shape) -> Shape:
    """Guess the film that a first convolution over time and place took: stems halve each picture."""
    frames, height, width = shape
    if area in _TUBES:
        step = round((area // 2) ** 0.5)
        return (2 * frames, step * height, step * width)
    step = 2 if area >= _STEM else 1
    return (frames, step * height, step * width)


def _features(layer: Layer, shape: Shape) -> int:
    """Read or solve the inputs of a linear layer; 0 where neither works."""
    for key, value in layer.args:
        if key in ("in_features", "nx") and value.isdecimal() and len(value) < 12:
            return int(value)
    outputs = shape[-1] if shape else 0
    if not outputs or not layer.params:
        return 0
    inputs, rest = divmod(layer.params, outputs)
    if rest:
        return 0
    # With a bias the quotient is one too large; an even width is the likelier one.
    return inputs - 1 if inputs % 2 and inputs > 1 else inputs


def _weights(params: int, outputs: int, args: dict[str, str]) -> tuple[int, ...]:
    """List how many of a convolution's parameters may be weights: with a bias first, where nothing says."""
    if args.get("bias") == "False":
        return (params,)
    if "kernel_size" in args:
        return (params - outputs,)
    # Last with a bias and a gain for each channel, as weights have that are normalised.
    return (params - outputs, params, params - 2 * outputs)


def _asked(weights: tuple[int, ...], outputs: int, area: int, groups: int) -> tuple[int, int]:
    """Tell how many channels the weights ask for, and the kernel's area, where no tensor so far has that many."""
    each = 1
    for size in weights:
        if size % outputs == 0:
            each = size // outputs
            break
    if not area:
        area = 9 if each % 9 == 0 else 25 if each % 25 == 0 else 49 if each % 49 == 0 else 1
    return max(each * groups // area, 1), area


def _solved(
    weights: tuple[int, ...],
    inputs: int,
    outputs: int,
    area: int = 0,
    groups: int = 1,
    grouped: bool = False,
    axes: int = 3,
) -> tuple[int, int]:
    """Find area and groups for the first number of weights that has a solution; (0, 1) where none has.

    Args:
        weights: how many there may be.
        inputs: channels that go in.
        outputs: channels that come out.
        area: the kernel's, where it is printed; 0 else.
        groups: of channels, where the area is printed.
        grouped: whether to look for several groups.
        axes: of what comes out, channels included: 4 over time and place.
    """
    if area:
        return (area, groups) if inputs * outputs * area // groups in weights else (0, 1)
    if axes == _DEEP:
        return _solved_deep(weights, inputs, outputs)
    for size in weights:
        solved = _solve_grouped(size, inputs, outputs) if grouped else _solve(size, inputs, outputs)
        if solved[0]:
            return solved
    return 0, 1


@lru_cache(maxsize=1024)  # sizes come from users: a bounded cache
def _searched(
    weights: tuple[int, ...], recent: frozenset[int], outputs: int, area: int, groups: int, grouped: bool, axes: int
) -> Mapping[int, tuple[int, int]]:
    """Find the same by the channels that came before, for those that have a solution."""
    found: dict[int, tuple[int, int]] = {}
    for inputs in recent:
        solved = _solved(weights, inputs, outputs, area, groups, grouped, axes)
        if solved[0]:
            found[inputs] = solved
    return found


def _solved_deep(weights: tuple[int, ...], inputs: int, outputs: int) -> tuple[int, int]:
    """Solve a convolution over time and place; groups are of one channel, or there are none."""
    for size in weights:
        area, rest = divmod(size, max(inputs * outputs, 1))
        if not rest and area in _CUBES:
            return area, 1
        area, rest = divmod(size, max(outputs, 1))
        if not rest and area in _CUBES and inputs and outputs % inputs == 0:
            return area, inputs
    return 0, 1


def _kernel(args: dict[str, str]) -> tuple[int, int]:
    """Read the kernel's area and the groups from what is printed; (0, 1) where nothing is."""
    text = args.get("kernel_size") or args.get("kernel") or args.get("2")
    if text is None:
        return 0, 1
    try:
        values = sizes.numbers(text)
        groups = sizes.number(args, "groups") if "groups" in args else 1
    except ValueError:
        return 0, 1
    if "kernel" in args and len(values) > 3:
        values = values[2:]  # older torchinfo prints channels too
    area = 1
    for value in values if len(values) > 1 else values * 2:
        area *= value
    if not 0 < area < 10**6:
        return 0, 1
    if "groups" in args or "kernel_size" in args:
        return area, max(groups, 1)
    return 0, 1  # torchinfo's column of kernels says nothing of groups; the weights do


def _solve(weights: int, inputs: int, outputs: int) -> tuple[int, int]:
    """Find the kernel's area that makes so many weights of so many channels, all joined or each by itself.

    Returns:
        Area and groups; (0, 1) if there is none.
    """
    if weights <= 0 or inputs <= 0 or outputs <= 0:
        return 0, 1
    area, rest = divmod(weights, inputs * outputs)
    if not rest and area in _SQUARES:
        return area, 1
    if weights % outputs == 0 and outputs % inputs == 0 and weights // outputs in _DEPTHWISE:
        return weights // outputs, inputs
    return 0, 1


def _solve_grouped(weights: int, inputs: int, outputs: int) -> tuple[int, int]:
    """Find the same for several groups of channels."""
    if weights <= 0 or inputs <= 0 or outputs <= 0 or weights % outputs:
        return 0, 1
    each = weights // outputs
    for area in (9, 25, 49, 1):
        deep, rest = divmod(each, area)
        if not rest and deep and inputs % deep == 0 and deep < inputs and (area > 1 or inputs // deep <= _FEW_GROUPS):
            return area, inputs // deep
    return 0, 1
