"""What is around a model, and parameters that two layers of it share, so that they are counted once. Pure.

transformers ties the head of most language models to their word embedding. No summary says so: torchinfo and the prints
with counts count both, and a print without counts shows both sizes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

from estimator import walk
from estimator.breath import breathe
from estimator.layer import Layer
from estimator.parallel import DEEPSPEED
from estimator.types import ModelSummary

_TIED_ENDINGS: Final = (
    "ForMaskedLM",
    "ForCausalLM",
    "LMHeadModel",
    "DoubleHeadsModel",
    "ForPreTraining",
    "ForConditionalGeneration",
    "ForQuestionAnswering",
    "MTModel",
    "GenerationDecoder",
)
# Names of architectures whose configurations tie the head unless told otherwise (transformers' defaults), by how they
# begin; the longest that fits counts. All others that predict the next token do not.
_TIED: Final = (
    "Albert",
    "Bart",
    "Bert",
    "BigBird",
    "BioGpt",
    "Blenderbot",
    "Blip",
    "Bloom",
    "CTRL",
    "Camembert",
    "Cohere",
    "ConvBert",
    "Data2VecText",
    "Deberta",
    "DistilBert",
    "Electra",
    "Ernie",
    "Esm",
    "FNet",
    "Falcon",
    "Flaubert",
    "Florence2",
    "Funnel",
    "GPT2",
    "GPTBigCode",
    "GPTNeo",
    "GPTNeoXJapanese",
    "Gemma",
    "GraniteSWA",
    "IBert",
    "JetMoe",
    "Jina",
    "Kosmos2",
    "LED",
    "LayoutLM",
    "Lfm2",
    "LongT5",
    "Longformer",
    "Luke",
    "Lxmert",
    "M2M100",
    "MBart",
    "MPNet",
    "MT5",
    "Mamba",
    "Marian",
    "MegatronBert",
    "MiniCPM3",
    "MobileBert",
    "ModernBert",
    "Moonshine",
    "Mpt",
    "Mvp",
    "NllbMoe",
    "NomicBert",
    "Nystromformer",
    "OPT",
    "OpenAIGPT",
    "PLBart",
    "Pegasus",
    "ProphetNet",
    "RecurrentGemma",
    "RoCBert",
    "RoFormer",
    "Roberta",
    "SmolLM3",
    "Speech2Text",
    "SqueezeBert",
    "Starcoder2",
    "SwitchTransformers",
    "T5",
    "TrOCR",
    "UMT5",
    "VaultGemma",
    "Whisper",
    "XGLM",
    "XLM",
    "XLNet",
    "Xmod",
    "Yoso",
    "Youtu",
    "Zamba",
    "Zaya",
)
_UNTIED: Final = (
    "Aria",
    "BridgeTower",
    "Chameleon",
    "ChatGLM",
    "CodeGen",
    "DeepSeek",
    "Deepseek",
    "Emu3",
    "EuroBert",
    "Exaone",
    "FSMT",
    "FalconH1",
    "FastVlm",
    "Fuyu",
    "GPTJ",
    "GPTNeoX",
    "Glm",
    "Granite",
    "Idefics",
    "Kyutai",
    "Llama",
    "Llava",
    "Mamba2",
    "Mistral",
    "Mixtral",
    "Mllama",
    "ModernVBert",
    "MoonshineStreaming",
    "Moshi",
    "Musicgen",
    "Nemotron",
    "Olmo",
    "Persimmon",
    "Phi",
    "Pix2Struct",
    "Qwen",
    "Reformer",
    "RemBert",
    "Rwkv",
    "SmolVLM",
    "StableLm",
    "VideoLlama",
    "VideoLlava",
    "VipLlava",
)
_CAUSAL: Final = "ForCausalLM"
# Of rows and columns together.
_MOST_DIGITS: Final = 30
WRAPPERS: Final = (
    DEEPSPEED,
    "DataParallel",
    "OptimizedModule",
    "CheckpointWrapper",
)
"""What is put around a model, or around blocks of it, beside what `parallel` takes off."""
# What a class that trains a model, as one of Lightning's, calls it; and what it holds beside: losses and metrics.
_HELD: Final = ("model", "net", "network", "module")
_MEASURES: Final = (
    "Loss",
    "Criterion",
    "Accuracy",
    "Score",
    "Precision",
    "Recall",
    "Specificity",
    "AUROC",
    "Error",
    "Metric",
    "MetricCollection",
    "Matrix",
    "JaccardIndex",
    "IndexMeasure",
    "NoiseRatio",
    "CorrCoef",
    "Perplexity",
    "ErrorRate",
)
_LISTS: Final = ("Sequential", "ModuleList", "ModuleDict")
SAYS_SIZE: Final = ("Yolo", "YOLO")
"""What in a model's own name tells the usual size of its pictures."""
# What in the names of a class, or of its loss, tells that it calls a model more than once in a step.
_COMPARES: Final = (
    "Siam",
    "SimCLR",
    "Triplet",
    "Contrastive",
    "CosineEmbedding",
    "MarginRanking",
    "NTXent",
    "InfoNCE",
    "BarlowTwins",
    "VICReg",
)
# How transformers calls whole models, and what they hold: ``BertForMaskedLM`` a ``BertModel``.
_WHOLE: Final = re.compile(r".For[A-Z]|LMHeadModel")
_INNER: Final = "Model"


def unwrap(summary: ModelSummary) -> ModelSummary:
    """Take what compiles a model, trains it or runs it on several GPUs from around it: it is the same model."""
    root, inferred = summary.root, summary.inferred
    while (held := _held(root)) is not None:
        if root.type == DEEPSPEED:
            inferred = (*inferred, "what DeepSpeed holds beside the model is not counted")
        made = root.output_shape  # by the class itself, as a picture that is resized
        root = held.but(output_shape=made) if walk.elements(made) > walk.elements(held.output_shape) else held
    return summary if root is summary.root else replace(summary, root=root, inferred=inferred)


def _held(root: Layer) -> Layer | None:
    """Give the model that a class holds which does nothing but run it; None if it holds something else."""
    if root.type in WRAPPERS and len(root.children) == 1:
        return root.children[0]
    model: Layer | None = None
    for part in root.children:
        if not _measures(part):
            if model is not None:
                return None
            model = part
    if model is None or root.params or root.type in _LISTS or not model.children or model.type in _LISTS:
        return None
    if _says(root, SAYS_SIZE) and not _says(model, SAYS_SIZE):
        return None
    if any(_says(part, _COMPARES) for part in (root, *root.children) if part is not model):
        return None
    if len(root.children) == 1:
        inner = model.type.endswith(_INNER) and root.type.startswith(model.type.removesuffix(_INNER))
        whole = model.name in _HELD and not inner
        return model if whole or _WHOLE.search(model.type) else None
    return model


def _says(part: Layer, marks: tuple[str, ...]) -> bool:
    return any(mark in part.type for mark in marks)


def _measures(part: Layer, named: bool = False) -> bool:
    """Tell whether a part is a loss or a metric, or holds nothing else, and no layer that the model calls.

    Args:
        part: a part of a class.
        named: whether it is inside of one.
    """
    breathe()
    named = named or part.type.endswith(_MEASURES)
    if part.params or part.output_shape or not (named or part.children):
        return False
    return all(_measures(inner, named) for inner in part.children)


def share(summary: ModelSummary) -> ModelSummary:
    """Take parameters that are surely counted twice out of the total.

    Returns:
        The summary with ``total_params`` counting shared parameters once and a sentence for what was shared.
    """
    root = summary.root
    if summary.format != "torchsummary" and not _ties(root.type):
        return summary
    layers = walk.layers(root)
    if summary.format == "torchsummary":  # it does not name the model itself
        types = {layer.type for layer in layers}
        leanings = set(map(_leaning, types))
        if -1 in leanings or 1 not in leanings:
            return summary
    elif sum(layer.params for layer in layers) > summary.total_params:
        return summary  # the total was printed by something that counts shared parameters once
    tables = [layer for layer in layers if "Embedding" in layer.type]
    sizes = {id(layer): size for layer in tables if (size := _embedding_size(layer)) is not None}
    if not sizes:
        return summary
    words = max(sizes.values())
    saved = 0
    said: list[str] = []
    copies = [layer for layer in tables if sizes.get(id(layer)) == words]
    for layer in copies[1:]:
        saved += layer.params
        said.append(f"{layer.name or layer.type} is the same embedding as before: counted once")
    linear = {id(layer): layer for layer in layers if layer.type == "Linear"}
    heads = [layer for layer in linear.values() if _is_head(layer, *words)]
    if heads:
        saved += words[0] * words[1]
        said.append(f"{root.type} ties {heads[-1].name or heads[-1].type} to its word embedding: counted once")
    if saved == 0 or saved >= summary.total_params:
        return summary
    total = summary.total_params - saved
    trained = summary.total_params - summary.frozen_params  # what is frozen was counted twice, too
    frozen = max(total - trained, 0) if summary.frozen_params else 0
    inferred = (*summary.inferred, *dict.fromkeys(said))
    return replace(summary, total_params=total, frozen_params=frozen, inferred=inferred)


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def _ties(root: str) -> bool:
    """Tell whether a model of this name ties its head to its word embedding by default."""
    if not root.endswith(_TIED_ENDINGS):
        return False
    return _leaning(root) > 0 if root.endswith(_CAUSAL) else _leaning(root) >= 0


@lru_cache(maxsize=4096)
def _leaning(type_: str) -> int:
    """Tell whether a part of this name is of an architecture that ties its head by default: 1, -1, or 0 if unknown."""
    tied, untied = _begins(type_, _TIED), _begins(type_, _UNTIED)
    return (tied > untied) - (tied < untied)


def _begins(type_: str, names: tuple[str, ...]) -> int:
    """Give the length of the longest of the names that the type begins with; 0 where none fits."""
    if not type_.startswith(names):
        return 0
    return max(len(name) for name in names if type_.startswith(name))


def _embedding_size(layer: Layer) -> tuple[int, int] | None:
    """Give rows and width of a word embedding."""
    if "Embedding" not in layer.type or layer.children or not layer.params:
        return None
    if "osition" in layer.type or "osition" in layer.name or "per_layer" in layer.name:
        return None
    breathe()
    args = dict(layer.args)
    rows, columns = args.get("0", ""), args.get("1", "")
    if rows.isdecimal() and columns.isdecimal() and len(rows) + len(columns) <= _MOST_DIGITS:
        return int(rows), int(columns)
    if layer.output_shape:
        width = layer.output_shape[-1]
        if width and layer.params % width == 0:
            return layer.params // width, width
    return None


def _is_head(layer: Layer, rows: int, width: int) -> bool:
    """Tell whether the layer maps ``width`` features to ``rows`` words."""
    if layer.type != "Linear":
        return False
    breathe()
    args = dict(layer.args)
    if "in_features" in args and "out_features" in args:
        return args["out_features"] == str(rows) and args["in_features"] == str(width)
    return (layer.output_shape or ())[-1:] == (rows,) and layer.params in (rows * width, rows * width + rows)
