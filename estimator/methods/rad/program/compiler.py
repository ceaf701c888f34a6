"""Makes a program of a summary, and tells what only the whole of it says. Pure."""

from __future__ import annotations

from collections.abc import Set
from math import prod
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.layer import Layer
from estimator.methods.rad.kinds import ACTIVATIONS, Kind, kind_of
from estimator.methods.rad.program.attention import FUSES
from estimator.methods.rad.program.builder import Builder
from estimator.methods.rad.program.entry import input_of
from estimator.methods.rad.program.flow import Flow
from estimator.methods.rad.program.hidden import open_hidden
from estimator.methods.rad.program.of_types import OfTypes, of_types
from estimator.methods.rad.program.steps import PICTURE, Op, Program, Shape
from estimator.methods.rad.program.weights import inputs_of
from estimator.types import Family, Libraries, ModelSummary, libraries, together
from estimator.walk import elements, layers

_LINEAR: Final = Kind.LINEAR
_EMBEDDING: Final = Kind.EMBEDDING
_MULTIPLIES: Final = frozenset((Kind.LINEAR, Kind.ATTENTION))
_RECURRENT: Final = Kind.RECURRENT
_CONV: Final = Kind.CONV
_GROUPS: Final = "GroupNorm"
# A model shows little of what it does that hides so much of its parameters.
_MOST: Final = 0.5
_CAUSAL: Final[tuple[str, ...]] = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "MTModel")
# Models of transformers with a head whose types do not say what they are for.
_HEADED: Final[tuple[str, ...]] = ("HeadModel", "HeadsModel", "MTModel", "EncoderDecoderModel")
# Formats that show no tree.
_FLAT: Final = ("torchsummary", "keras")
_MANY_WORDS: Final = 8_000
# MB by which a printed size is rounded.
_ROUNDED: Final = 0.0055


def compile_program(summary: ModelSummary, *, weighed: bool = False) -> Program:
    """Follow a summary whose layers all have shapes (see `estimator.shapes`).

    Args:
        summary: the model.
        weighed: whether attentions of PyTorch's own that may give out their weights are taken to do so.
    """
    breathe()
    found = layers(summary.root)
    types = frozenset([layer.type for layer in found])
    told = of_types(types)
    builder = _read(summary, found, types, opens=False, weighed=weighed)
    if builder.flow.lists and not builder.flow.hidden:  # nothing else is there that hides something
        builder = _read(summary, found, types, opens=True, weighed=weighed)
    flow = builder.flow
    breathe()
    last = flow.shapes[flow.current] if flow.shapes else (1,)
    if told.dense:
        last = _dense(flow, last)
    classes, tokens = (last[-1] if last else 1), (elements(last[:-1]) if len(last) > 1 else 1)
    ops = flow.ops
    breathe()
    kinds = {op.kind for op in ops}
    if flow.opens:
        flow.hidden = max(summary.total_params - sum([op.params for op in ops]), 0)
    hides = flow.hidden and summary.format == "torchinfo"
    inside = open_hidden(flow, summary, types, builder.ends) if hides else 0.0
    multiplies = not kinds.isdisjoint(_MULTIPLIES)
    labelled = _labelled(summary, told)
    causal = _causal(summary, told, labelled, classes, tokens)
    caches = causal or _caches(summary) or told.caches
    if caches and flow.flat:
        _cache_rows(flow)
    return Program(
        flow.tensors,
        ops,
        flow.kept,
        flow.hidden,
        classes,
        tokens,
        causal,
        flow.cached if caches else {},
        multiplies,
        together(_libraries(multiplies, kinds, flow.hidden, summary.total_params, told.family), summary.loads),
        _shared(ops, summary.total_params) if _EMBEDDING in kinds else 0,
        not causal and told.biased,
        flow.skips,
        told.names,
        builder.ends,
        flow.flat,
        told.owner,
        inside,
        labelled,
        caches,
        flow.shapes,
        told.family,
        flow.weighs,
    )


def _read(summary: ModelSummary, found: list[Layer], types: frozenset[str], *, opens: bool, weighed: bool) -> Builder:
    """Read all layers into a flow.

    Args:
        summary: all layers have shapes.
        found: its layers.
        types: of these.
        opens: whether lists that show no numbers are taken for blocks that hide something.
        weighed: see `compile_program`.
    """
    told = of_types(types)
    flow = Flow(summary.format in _FLAT, told.drops)
    flow.words, flow.cosine, flow.unsaid = told.words, told.cosine, told.unsaid
    flow.bare, flow.bends, flow.leaks, flow.opens = told.bare, told.bends, told.leaks, opens
    flow.weighed = weighed
    if flow.flat:  # a block's row comes behind its layers
        flow.fuses = not types.isdisjoint(FUSES)
    flow.owned = bool(told.owner) or told.named
    flow.ordered = summary.format != "module"
    flow.pools = flow.ordered and _pools(found, types)
    if not flow.ordered and _GROUPS in types:
        flow.alone = _without_activations(found)
    said: tuple[float, float] | None = None
    if summary.input_mb is not None:
        printed = max(summary.batch_size or 1, 1)
        said = summary.input_mb * 1e6 / 4 / printed, _ROUNDED * 1e6 / 4 / printed
    flow.current = flow.tensor(input_of(found[0], said))
    flow.encoder = _first_stack(summary)
    if summary.format == "torchinfo":
        flow.above = _levels(found[0])
    builder = Builder(flow)
    builder.read(found)
    return builder


def _without_activations(found: list[Layer]) -> set[int]:
    """Give the norms of groups, by their ids, in whose blocks a print lists no activation: functions activate."""
    alone: set[int] = set()
    for number, layer in enumerate(found):
        if not number & OFTEN:
            breathe()
        norms = [id(child) for child in layer.children if child.type == _GROUPS]
        if norms and not any(kind_of(child.type) in ACTIVATIONS for child in layer.children):
            alone.update(norms)
    return alone


def _libraries(multiplies: bool, kinds: Set[Kind], hidden: int, params: int, family: Family) -> Libraries:
    """Tell which of CUDA's libraries a model loads; hidden blocks do what those of its family do."""
    recurrent = _RECURRENT in kinds
    most = hidden > params * _MOST
    multiplies = multiplies or recurrent or (most and family != "cnn")
    convolves = _CONV in kinds or recurrent or (hidden > 0 if family == "cnn" else most and family == "mlp")
    return libraries(multiplies, convolves)


def _pools(found: list[Layer], types: Set[str]) -> bool:
    """Tell whether the first linear layer takes a picture half as large along each side as the one before it."""
    linear = {type_ for type_ in types if kind_of(type_) is _LINEAR}
    if not linear:
        return False
    picture: Shape = ()
    for number, layer in enumerate(found):
        if not number & OFTEN:
            breathe()
        shape = layer.output_shape
        if not shape or layer.children:
            continue
        if layer.type in linear:
            inputs = inputs_of(layer, shape)
            halves = prod([size // 2 for size in picture[1:]])
            return len(picture) == PICTURE and halves > 1 and inputs == picture[0] * halves
        if len(shape) == PICTURE:
            picture = shape
        elif layer.params:
            return False
    return False


def _levels(layer: Layer) -> int:
    """Count the levels of layers below one."""
    below = 0
    for child in {id(child): child for child in layer.children if child.children}.values():  # equal ones are one
        below = max(below, _levels(child))
    return 1 + below if layer.children else 0


def _dense(flow: Flow, last: Shape) -> Shape:
    """Add what models that label each pixel do last, in no layer: their answer grows to the size of the picture."""
    picture = flow.shapes[0]
    if len(last) != PICTURE or len(picture) != PICTURE or elements(picture[1:]) <= elements(last[1:]):
        return last
    grown = (last[0], *picture[1:])
    flow.ops.append(Op(Kind.NEW, flow.current, flow.tensor(grown)))
    return grown


def _causal(summary: ModelSummary, told: OfTypes, labelled: bool, classes: int, tokens: int) -> bool:
    """Tell whether a model predicts the next token, with a loss in fp32.

    Those that decode what their encoder read compute theirs in the precision of the logits.
    """
    if summary.format in _FLAT:
        return not told.encodes and labelled and told.words and classes >= _MANY_WORDS and tokens > 1
    return not told.decodes and _caches(summary)


def _caches(summary: ModelSummary) -> bool:
    """Tell whether a model gives out its keys and values for the next token."""
    return any(layer.type.endswith(_CAUSAL) for layer in (summary.root, *summary.root.children[:1]))


def _labelled(summary: ModelSummary, told: OfTypes) -> bool:
    """Tell whether a model computes its loss itself, as those of transformers with a head do; others give out logits.

    A table does not show the model's type.
    """
    type_ = summary.root.type
    if summary.format in _FLAT:
        return bool(told.owner) or told.named
    return type_.endswith(_HEADED) or type_.partition("For")[2][:1].isupper()


def _cache_rows(flow: Flow) -> None:
    """Note what the attentions of a table keep for the next token: their projections are the rows before them."""
    reads = next((flow.shapes[op.y] for op in flow.ops if op.kind is _EMBEDDING), (0,))
    products: list[int] = []
    for at, op in enumerate(flow.ops):
        if op.kind is _LINEAR:
            products.append(flow.tensors[op.y])
        elif op.kind is Kind.ATTENTION and len(products) > 1 and flow.shapes[op.y][:1] == reads[:1]:
            *before, values, out = products
            flow.cached[at] = values - out if values > out else values + sum(before[-1:])
            products = []


def _first_stack(summary: ModelSummary) -> int:
    """Find the encoder of a model whose encoder and decoder have one type: it comes first; 0 for none."""
    stacks = [layer for layer in summary.root.children if layer.type.endswith("Stack")]
    return id(stacks[0]) if len(stacks) > 1 and stacks[0].type == stacks[1].type else 0


def _shared(ops: list[Op], total_params: int) -> int:
    """Count the parameters of a word embedding that is the head, too: the total counts them once."""
    words = max((op.params for op in ops if op.kind is _EMBEDDING), default=0)
    if not words or sum(op.params for op in ops) < total_params + words * 0.9:
        return 0
    twice = sum(words <= op.params <= words * 1.02 for op in ops if op.kind in (_EMBEDDING, _LINEAR))
    return words if twice > 1 else 0
