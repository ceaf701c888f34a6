"""What the code of widely used blocks does that no summary shows. Pure tables of class names."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache

from estimator.types import Layer

# Blocks whose parts all take what came in: branches that are added, joined, or one of several paths.
_TOGETHER = (
    "MobileOneBlock",
    "RepVggBlock",
    "RepVGGBlock",
    "RepVggDw",
    "MixedConv",
    "RepConv",
)
_LONG = 3
_DIGITS = 10
# What blocks keep inside for each element that torchinfo counts, which are the outputs of layers with parameters and
# nothing inside: convolutions and norms, unless the norm has its activation inside. An activation such as ReLU keeps
# its output, which is the next layer's input; others keep their input, too.
_NORM_WITH_ACTIVATION = ("NormAct", "BnAct", "ConvBNAct")
_KEPT_BY_CONVS = (2.0, 3.0)
_KEPT_BY_TOKENS = 1.45
_KEPT_BY_RMS = 2.3
_KEPT_BY_RELU = 1.15
_KEPT_BY_MANY_STEPS = 2.8
_MANY_STEPS = ("GPT2", "GPTNeoB", "GPTNeoM", "GPTNeoF", "GPTJ", "CodeGen", "Albert", "BigBird", "FNet", "GPTBigCode")
_RELU = ("OPT", "M2M100", "Pegasus", "MobileBert", "FSMT")
_COSINE = ("SwinTransformerV2Block", "SwinTransformerBlockV2", "Swinv2Layer", "SwinTransformerV2CrBlock")


def together(layer: Layer) -> bool:
    """Tell whether the parts of a block all take what came in: known blocks, and lists of convolutions."""
    if layer.type == "ModuleList":
        return layer.name == "paths" or all("Conv2d" in child.type and not child.children for child in layer.children)
    return _known(layer.type)


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def _known(type_: str) -> bool:
    return any(mark in type_ for mark in _TOGETHER)


def normalizes_queries(type_: str) -> bool:
    """Tell whether a block's attention compares queries and keys by their angle (Swin v2), which keeps copies."""
    return type_.startswith(_COSINE)


def begins(block: Layer, part: Layer) -> bool:
    """Tell whether a part of a block takes what came into the block, and not what the part before it gave out.

    Branches are numbered by torchvision and timm: ``branch1``, and ``branch3x3_1`` followed by ``branch3x3_2``.
    """
    if part.name.startswith("comb_iter"):  # of NASNet's cells
        return True
    if part.name.startswith("branch"):
        step = part.name.rpartition("_")[2]
        return not (step[:1].isdecimal() and len(step) < _LONG and step[:1] != "1")
    return bool(part.children or part.params) and together(block)


def aside(block: Layer, part: Layer) -> bool:
    """Tell whether what a part gives out is for nothing inside of the block."""
    return block.type == "Pooling" and part.name == "fc"  # PiT's class token


def joins(block: Layer) -> bool:
    """Tell whether a block joins its branches' channels."""
    return block.type.startswith(("Inception", "SepInception", "Fire"))


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def branch(name: str) -> str:
    """Name the branch that a part of this name is the end of so far; empty for parts of none."""
    if name.startswith(("expand1x1", "expand3x3")):
        return name.removesuffix("_activation")
    if not name.startswith("branch"):
        return ""
    start, _, step = name.rpartition("_")
    return start if start and step.isdecimal() else name


def kept_inside(types: Set[str], *, keeps_input: bool, keeps_output: bool, tokens: bool) -> float:
    """Tell how much hidden blocks keep for each element that torchinfo counts inside of them.

    Args:
        types: types of all layers that are shown.
        keeps_input: whether one of them is an activation that keeps its input.
        keeps_output: whether one is an activation that keeps its output.
        tokens: whether the blocks work on tokens, not on channels of pictures.
    """
    if tokens:
        if any(type_.startswith(_MANY_STEPS) for type_ in types):
            return _KEPT_BY_MANY_STEPS
        if any(type_.startswith(_RELU) for type_ in types):
            return _KEPT_BY_RELU
        return _KEPT_BY_RMS if any("RMSNorm" in type_ or "T5LayerNorm" in type_ for type_ in types) else _KEPT_BY_TOKENS
    counted = 1.0 if any(mark in type_ for type_ in types for mark in _NORM_WITH_ACTIVATION) else 2.0
    fewest, most = _KEPT_BY_CONVS
    kept = most if keeps_input else fewest
    if keeps_input and keeps_output:
        kept = (fewest + most) / 2
    return kept / counted


def pools_queries(attention: Layer) -> bool:
    """Tell whether an attention gives out a quarter of its tokens (MViT and Hiera, where a stage begins)."""
    for part in attention.children:
        args = dict(part.args)
        if part.name == "pool_q" and args.get("stride") == "(2, 2)":
            return True
        if attention.type == "MaskUnitAttention" and part.name == "qkv":
            return args.get("out_features") != str(3 * _number(args.get("in_features", "")))
    return False


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < _DIGITS else 0
