"""Parameters that two layers of a model share, so that they are counted once. Pure.

transformers ties the head of most language models to their word embedding. No summary says so: torchinfo and the prints
with counts count both, and a print without counts shows both sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from estimator import walk
from estimator.types import Layer, ModelSummary

_TIED_ENDINGS: Final = (
    "ForMaskedLM",
    "ForCausalLM",
    "LMHeadModel",
    "DoubleHeadsModel",
    "ForPreTraining",
    "ForConditionalGeneration",
    "ForQuestionAnswering",
    "MTModel",
)
# Parts of models that tie them by default, where a table of rows does not name the model.
_TIED_PARTS: Final = (
    "LMPredictionHead",
    "RobertaLMHead",
    "MLMHead",
    "GPT2Block",
    "OPTDecoderLayer",
    "BloomBlock",
    "GPTNeoBlock",
    "GemmaDecoderLayer",
    "BartDecoderLayer",
    "MarianDecoderLayer",
    "PegasusDecoderLayer",
    "BlenderbotSmallDecoderLayer",
)
# Configurations of these do not tie the head unless told to (transformers' defaults).
_UNTIED_STARTS: Final = (
    "Llama",
    "Mistral",
    "Mixtral",
    "Qwen",
    "GPTNeoX",
    "GPTJ",
    "CodeGen",
    "Phi",
    "StableLm",
    "Olmo",
    "Rwkv",
    "Persimmon",
    "DeepSeek",
    "MT5",
    "Glm",
    "ChatGLM",
    "Nemotron",
)
_WRAPPERS: Final = ("DataParallel", "DistributedDataParallel", "OptimizedModule", "FullyShardedDataParallel")


def share(summary: ModelSummary) -> ModelSummary:
    """Take parameters that are surely counted twice out of the total.

    Returns:
        The summary with ``total_params`` counting shared parameters once and a sentence for what was shared.
    """
    root = summary.root
    while root.type in _WRAPPERS and len(root.children) == 1:
        root = root.children[0]
    layers = walk.layers(root)
    if summary.format == "torchsummary":  # it does not name the model itself
        if not any(type_.endswith(_TIED_PARTS) for type_ in {layer.type for layer in layers}):
            return summary
    elif not root.type.endswith(_TIED_ENDINGS) or root.type.startswith(_UNTIED_STARTS):
        return summary
    if sum(layer.params for layer in layers) > summary.total_params:
        return summary  # the total was printed by something that counts shared parameters once
    sizes = {id(layer): size for layer in layers if (size := _embedding_size(layer)) is not None}
    if not sizes:
        return summary
    words = max(sizes.values())
    saved = 0
    said: list[str] = []
    copies = [layer for layer in layers if sizes.get(id(layer)) == words]
    for layer in copies[1:]:
        saved += layer.params
        said.append(f"{layer.name or layer.type} is the same embedding as before: counted once")
    heads = [layer for layer in layers if _is_head(layer, *words)]
    if heads:
        saved += words[0] * words[1]
        said.append(f"{root.type} ties {heads[-1].name or heads[-1].type} to its word embedding: counted once")
    if saved == 0 or saved >= summary.total_params:
        return summary
    return replace(
        summary, total_params=summary.total_params - saved, inferred=(*summary.inferred, *dict.fromkeys(said))
    )


def _embedding_size(layer: Layer) -> tuple[int, int] | None:
    """Give rows and width of a word embedding."""
    if "Embedding" not in layer.type or layer.children or not layer.params:
        return None
    if "osition" in layer.type or "osition" in layer.name:
        return None
    args = dict(layer.args)
    if "0" in args and "1" in args and args["0"].isdecimal() and args["1"].isdecimal():
        return int(args["0"]), int(args["1"])
    if layer.output_shape:
        width = layer.output_shape[-1]
        if width and layer.params % width == 0:
            return layer.params // width, width
    return None


def _is_head(layer: Layer, rows: int, width: int) -> bool:
    """Tell whether the layer maps ``width`` features to ``rows`` words."""
    if layer.type != "Linear":
        return False
    args = dict(layer.args)
    if "in_features" in args and "out_features" in args:
        return args["out_features"] == str(rows) and args["in_features"] == str(width)
    return (layer.output_shape or ())[-1:] == (rows,) and layer.params in (rows * width, rows * width + rows)
