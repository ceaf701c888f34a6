"""Makes a program of a summary, and tells what only the whole of it says. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Final

from estimator import blocks
from estimator.breath import breathe
from estimator.methods.rad.familiar import owner, plain_names
from estimator.methods.rad.kinds import Kind, attends, kind_of
from estimator.methods.rad.program.builder import Builder
from estimator.methods.rad.program.entry import input_of
from estimator.methods.rad.program.flow import Flow
from estimator.methods.rad.program.hidden import open_hidden
from estimator.methods.rad.program.steps import Op, Program, Shape
from estimator.types import Layer, ModelSummary
from estimator.walk import elements, layers

_LINEAR: Final = Kind.LINEAR
_EMBEDDING: Final = Kind.EMBEDDING
_ACTIVATIONS: Final = frozenset((Kind.KEEPS_INPUT, Kind.KEEPS_OUTPUT, Kind.MANY_STEPS, Kind.SIGMOID_GATE))
_MULTIPLIES: Final = frozenset((Kind.LINEAR, Kind.ATTENTION))
_TOKEN_NORMS: Final = frozenset((Kind.LAYER_NORM, Kind.RMS_NORM))
_CAUSAL: Final[tuple[str, ...]] = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "MTModel")
# Models of transformers with a head whose types do not say what they are for.
_HEADED: Final[tuple[str, ...]] = ("HeadModel", "HeadsModel", "MTModel", "EncoderDecoderModel")
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
# Formats that show no tree.
_FLAT: Final = ("torchsummary", "keras")
# What follows a model's name in the types of its blocks.
_PARTS: Final = ("Attention", "Decoder", "Encoder", "Block", "Layer", "Stack", "Self")
_TWO: Final = 2
_MANY_WORDS: Final = 8_000
# Their final_logits_bias is no parameter.
_BIASED_LOGITS: Final[tuple[str, ...]] = (
    "Bart",
    "BigBirdPegasus",
    "Blenderbot",
    "LED",
    "MBart",
    "Marian",
    "Mvp",
    "PLBart",
    "PegasusEncoder",
    "PegasusFor",
)
_DENSE_HEADS: Final[tuple[str, ...]] = (
    "FCNHead",
    "DeepLabHead",
    "LRASPPHead",
    "LRASPP",
    "DecodeHead",
    "UperNetHead",
    "ForSemanticSegmentation",
)
# MB by which a printed size is rounded.
_ROUNDED: Final = 0.0055


def compile_program(summary: ModelSummary) -> Program:
    """Follow a summary whose layers all have shapes (see `estimator.shapes`)."""
    breathe()
    found = layers(summary.root)
    types = {layer.type for layer in found}
    flow = Flow(summary.format in _FLAT, _drops(types))
    flow.words = "Embedding" in types
    flow.cosine = any(map(blocks.normalizes_queries, types))
    seen = {kind_of(type_) for type_ in types}
    said: tuple[float, float] | None = None
    if summary.input_mb is not None:
        printed = max(summary.batch_size or 1, 1)
        said = summary.input_mb * 1e6 / 4 / printed, _ROUNDED * 1e6 / 4 / printed
    flow.unsaid = not any(map(attends, types))
    flow.bare = seen.isdisjoint(_ACTIVATIONS)
    flow.bends = flow.bare and not seen.isdisjoint(_TOKEN_NORMS)
    flow.current = flow.tensor(input_of(found[0], said))
    flow.encoder = _first_stack(summary)
    if summary.format == "torchinfo":
        flow.above = _levels(found[0])
    builder = Builder(flow)
    builder.read(found)
    breathe()
    last = flow.shapes[flow.current] if flow.shapes else (1,)
    last = _dense(types, flow, last)
    classes, tokens = (last[-1] if last else 1), (elements(last[:-1]) if len(last) > 1 else 1)
    hides = flow.hidden and summary.format == "torchinfo"
    inside = open_hidden(flow, summary, types, builder.ends) if hides else 0.0
    ops = flow.ops
    breathe()
    kinds = {op.kind for op in ops}
    own = owner(frozenset(types))
    labelled = _labelled(summary, types, own)
    causal = _causal(summary, types, labelled, classes, tokens)
    caches = causal or _caches(summary) or any(type_.startswith(_DECODERS) for type_ in types)
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
        not kinds.isdisjoint(_MULTIPLIES),
        _shared(ops, summary.total_params) if _EMBEDDING in kinds else 0,
        not causal and any(type_.startswith(_BIASED_LOGITS) for type_ in types),
        flow.skips,
        plain_names(frozenset(types)),
        builder.ends,
        flow.flat,
        own,
        inside,
        labelled,
        caches,
        flow.shapes,
    )


def _levels(layer: Layer) -> int:
    """Count the levels of layers below one."""
    return 1 + max(map(_levels, layer.children)) if layer.children else 0


def _dense(types: set[str], flow: Flow, last: Shape) -> Shape:
    """Add what models that label each pixel do last, in no layer: their answer grows to the size of the picture."""
    if len(last) != 3 or not any(type_.endswith(_DENSE_HEADS) for type_ in types):
        return last
    picture = flow.shapes[0]
    if len(picture) != 3 or elements(picture[1:]) <= elements(last[1:]):
        return last
    grown = (last[0], *picture[1:])
    flow.ops.append(Op(Kind.NEW, flow.current, flow.tensor(grown)))
    return grown


def _drops(types: set[str]) -> bool:
    """Tell whether layers of dropout drop anything where the summary does not show their share.

    In the libraries' defaults they do in models that read words and in front of classifiers, and not in vision
    transformers and their kin.
    """
    blocks = any("Mlp" in type_ or "MLP" in type_ or attends(type_) for type_ in types)
    return "Embedding" in types or not blocks or not any("Conv2d" in type_ for type_ in types)


def _causal(summary: ModelSummary, types: set[str], labelled: bool, classes: int, tokens: int) -> bool:
    """Tell whether a model predicts the next token, with a loss in fp32.

    Those that decode what their encoder read compute theirs in the precision of the logits.
    """
    encoders = [type_ for type_ in types if type_.endswith(("Encoder", "T5Stack"))]
    if summary.format in _FLAT:
        return not encoders and labelled and "Embedding" in types and classes >= _MANY_WORDS and tokens > 1
    # What sees or hears is an encoder, too: its model has no decoder of that name.
    decodes = any(type_.endswith("Stack") or f"{type_.removesuffix('Encoder')}Decoder" in types for type_ in encoders)
    return not decodes and _caches(summary)


def _caches(summary: ModelSummary) -> bool:
    """Tell whether a model gives out its keys and values for the next token."""
    return any(layer.type.endswith(_CAUSAL) for layer in (summary.root, *summary.root.children[:1]))


def _labelled(summary: ModelSummary, types: set[str], own: str) -> bool:
    """Tell whether a model computes its loss itself, as those of transformers with a head do; others give out logits.

    Args:
        summary: the model; a table does not show its type.
        types: of all layers.
        own: the model's name, which transformers puts before the types of its layers.
    """
    type_ = summary.root.type
    if summary.format in _FLAT:
        return bool(own) or _share_a_name(types)
    return type_.endswith(_HEADED) or type_.partition("For")[2][:1].isupper()


def _share_a_name(types: set[str]) -> bool:
    """Tell whether blocks begin with one name, as in transformers: OPTAttention, OPTDecoderLayer, OPTDecoder."""
    breathe()
    names = Counter(min([type_.partition(part)[0] for part in _PARTS], key=len) for type_ in types)
    return any(count > _TWO and name not in ("", "Transformer") and name not in types for name, count in names.items())


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
