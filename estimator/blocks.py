"""What the code of widely used blocks does that no summary shows. Pure tables of class names."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from functools import lru_cache
from itertools import pairwise
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.layer import Layer

# Areas of the kernels of dense blocks, and what is left over.
_DENSE: Final = frozenset(((9, 0), (25, 0), (1, 0)))
# Blocks whose parts all take what came in: branches that are added, joined, or one of several paths.
_TOGETHER: Final[tuple[str, ...]] = (
    "MobileOneBlock",
    "RepVggBlock",
    "RepVGGBlock",
    "RepVggDw",
    "MixedConv",
    "RepConv",
    "Mixed3a",
    "Mixed5a",
)
# Parts that work beside the others, on what came into their block, where they are defined before its end.
_ENTRIES: Final = frozenset(("downsample", "shortcut", "skip", "identity"))
# A block's class ends so, and a part's name is this: what it gives out is no input of the part after it.
_ASIDE: Final = {
    "fc": ("Pooling",),  # PiT's class token
    "pool": ("ottle2neck",),  # the last of Res2Net's scales
    "global_block": ("GlobalContextVitStage",),
    "proj": ("MBConv", "HieraLayer", "ResBottleneckBlock"),
}
_ALWAYS: Final[tuple[str, ...]] = ("fc", "proj")
_SCALES: Final = "ottle2neck"
# Of attention that pools queries, keys and values, each by itself.
_POOLED: Final[tuple[str, ...]] = ("pool_q", "pool_k", "pool_v")
# Lists of what cuts a stage's picture into patches, listed before the stages.
_PATCHES: Final = frozenset(("patch_embeddings", "patch_embeds"))
# More kernels no block mixes.
_MOST_KERNELS: Final = 16
# Parts of a block in which what comes behind a padding is looked for: each look goes through all of them.
_MOST_PADDED: Final = 256
_BRANCHES: Final = "branches"
_IN_TURN: Final[tuple[str, ...]] = ("Sequential", "Parallel")
_STRIDED: Final[tuple[str, ...]] = ("(2, 2)", "2")
_STEPS: Final[tuple[str, ...]] = (*_STRIDED, "(4, 4)", "4")
_TWO: Final = 2
_LONG: Final = 3
_FEW: Final = 4
_DIGITS: Final = 10
# What blocks keep inside for each element that torchinfo counts, which are the outputs of layers with parameters and
# nothing inside: convolutions and norms, unless the norm has its activation inside. An activation such as ReLU keeps
# its output, which is the next layer's input; others keep their input, too.
_NORM_WITH_ACTIVATION: Final[tuple[str, ...]] = ("NormAct", "BnAct", "ConvBNAct")
# torchvision's convolutions with a norm and an activation, each a layer of its own.
_NORM_AND_ACTIVATION: Final = "dNormActivation"
_KEPT_BY_CONVS = (2.0, 3.0)
_KEPT_BY_TOKENS: Final = 1.45
# Of 16 tensors that a block keeps, in widths of a token, torchinfo counts 7 where no layers are called for attention.
_KEPT_BY_FUNCTIONS: Final = 2.3
_KEPT_BY_RMS: Final = 2.3
_KEPT_BY_RELU: Final = 1.15
_KEPT_BY_MANY_STEPS: Final = 2.8
_MANY_STEPS: Final[tuple[str, ...]] = (
    "GPT2",
    "GPTNeoB",
    "GPTNeoM",
    "GPTNeoF",
    "GPTJ",
    "CodeGen",
    "Albert",
    "BigBird",
    "FNet",
    "GPTBigCode",
)
_IN_FUNCTIONS: Final = frozenset(
    ("TransformerEncoderLayer", "TransformerDecoderLayer", "SwinTransformerBlock", "SwinTransformerBlockV2")
)
_VISION_TRANSFORMER: Final = frozenset(("VisionTransformer", "EncoderBlock"))
_TRANSFORMER: Final = frozenset(("Transformer", "TransformerEncoder", "TransformerDecoder"))
_RELU: Final[tuple[str, ...]] = ("OPT", "M2M100", "Pegasus", "MobileBert", "FSMT")
_COSINE: Final[tuple[str, ...]] = (
    "SwinTransformerV2Block",
    "SwinTransformerBlockV2",
    "Swinv2Layer",
    "SwinTransformerV2CrBlock",
)


# Tables of words, their types and positions in one block, with a norm and dropout behind.
_NORMED_WORDS: Final = frozenset(
    (
        "AlbertEmbeddings",
        "BertEmbeddings",
        "BigBirdEmbeddings",
        "CamembertEmbeddings",
        "ConvBertEmbeddings",
        "Data2VecTextEmbeddings",
        "DebertaEmbeddings",
        "DebertaV2Embeddings",
        "ElectraEmbeddings",
        "Embeddings",
        "ErnieEmbeddings",
        "FNetEmbeddings",
        "IBertEmbeddings",
        "LongformerEmbeddings",
        "MPNetEmbeddings",
        "MraEmbeddings",
        "NystromformerEmbeddings",
        "RemBertEmbeddings",
        "RobertaEmbeddings",
        "RobertaPreLayerNormEmbeddings",
        "SplinterEmbeddings",
        "SqueezeBertEmbeddings",
        "XLMRobertaEmbeddings",
        "XLMRobertaXLEmbeddings",
        "XmodEmbeddings",
        "YosoEmbeddings",
    )
)


def norms_words(type_: str) -> bool:
    """Tell whether a block of transformers looks up words and positions, adds and normalises them (as BERT's)."""
    return type_ in _NORMED_WORDS


def together(layer: Layer) -> bool:
    """Tell whether the parts of a block all take what came in: known blocks, and lists of convolutions."""
    if layer.type == "ModuleList":
        breathe()
        convolve = all("Conv2d" in child.type and not child.children for child in layer.children)
        return layer.name == "paths" or (convolve and not _chained(layer.children))
    return _known(layer.type)


def _chained(parts: tuple[Layer, ...]) -> bool:
    """Tell whether each convolution of several takes what those before it give out, and not what the first takes."""
    if all(part.params and part.output_shape and not part.args for part in parts):
        return _dense(parts)
    sizes: list[tuple[str | None, str | None]] = []
    for number, part in enumerate(parts):
        if not number & OFTEN:
            breathe()
        args = dict(part.args)
        sizes.append((args.get("0"), args.get("1")))
    return len({taken for taken, _ in sizes}) > 1 and all(one[1] == other[0] for one, other in pairwise(sizes))


def _dense(parts: tuple[Layer, ...]) -> bool:
    """Tell by parameters whether each of several kernels of one size takes what the first does, and all before it."""
    taken: list[int] = []  # weights for each channel that is given out, and a bias
    grown: list[int] = []
    for part in parts:
        breathe()
        outputs = (part.output_shape or (0,))[0]
        each, rest = divmod(part.params, max(outputs, 1))
        if rest:
            return False
        taken.append(each)
        grown.append(outputs)
    steps = [after - before for before, after in pairwise(taken)]
    areas = {divmod(step, max(outputs, 1)) for step, outputs in zip(steps, grown, strict=False)}
    return len(areas) == 1 and next(iter(areas)) in _DENSE


def beside(block: Layer) -> bool:
    """Tell whether all parts of a block take what came in, by its name or type, or as convolutions of several sizes."""
    if block.name == _BRANCHES or ("Concurrent" in block.type and not block.type.startswith(_IN_TURN)):
        return True
    if block.type in ("Sequential", "ModuleList") or not 1 < len(block.children) <= _MOST_KERNELS:
        return False
    if block.children[0].type != "Conv2d" or not block.children[0].name.isdecimal():
        return False
    kernels = {part.said("kernel_size") for part in block.children if part.type == "Conv2d"}
    return len(kernels) == len(block.children) and all(part.name.isdecimal() for part in block.children)


def pyramid(block: Layer) -> bool:
    """Tell whether a list's parts each pool a picture to a size of their own, to be as large as it again (PSPNet)."""
    if block.type != "ModuleList" or not 1 < len(block.children) <= _MOST_KERNELS:
        return False
    sizes: set[str] = set()
    for part in block.children:
        if not part.children or not part.children[0].type.startswith("AdaptiveAvgPool"):
            return False
        sizes.add(part.children[0].said("output_size"))
    return len(sizes) == len(block.children)


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def _known(type_: str) -> bool:
    return any(mark in type_ for mark in _TOGETHER)


def normalizes_queries(type_: str) -> bool:
    """Tell whether a block's attention compares queries and keys by their angle (Swin v2), which keeps copies."""
    return type_.startswith(_COSINE)


class Fork:
    """Tells which parts of a block take what came into it; what the whole block says is looked up once for them all.

    Attributes:
        beside: whether all do, as `beside` says.
        possible: whether any may: parts have names, or the block's may stand together.
    """

    __slots__ = ("_mixes", "_second", "_together", "beside", "possible")

    def __init__(self, block: Layer) -> None:
        self.beside = beside(block)
        self._together = together(block)
        self._mixes = block.type.startswith("Mixed")  # of Inception v4
        self.possible = self.beside or self._together or any(part.name for part in block.children)
        self._second = _second(block) if self.possible else None

    def begins(self, part: Layer) -> bool:
        """Tell whether a part takes what came into the block, and not what the part before it gave out.

        Branches are numbered by torchvision and timm: ``branch1``, and ``branch3x3_1`` followed by ``branch3x3_2``.
        """
        name = part.name
        if self.beside or part is self._second or name.startswith("comb"):  # of NASNet's cells
            return True
        if not part.children and name.startswith("pool_") and name.startswith(_POOLED):
            return True
        if name.startswith("branch") and name != _BRANCHES:
            step = name.rpartition("_")[2]
            return not (step[:1].isdecimal() and len(step) < _LONG and step[:1] != "1")
        if self._mixes and name == "maxpool":
            return True
        if not self._together or not (part.children or part.params):
            return False
        follows = "Norm" in part.type and not part.children and "identity" not in name  # its convolution
        return not follows


def _second(block: Layer) -> Layer | None:
    """Find where the second of two branches begins whose layers lie side by side in a block (ShuffleNet v2).

    Both make the picture smaller, channel by channel; the first ends with the kernel behind that, which mixes these.
    """
    if not _FEW < len(block.children) <= _MOST_KERNELS:
        return None
    breathe()
    convs = [part for part in block.children if part.type == "Conv2d"]
    steps = [at for at, conv in enumerate(convs) if _strides(conv)]
    if len(steps) != _TWO or steps[0] or steps[1] < _TWO or convs[_TWO].said("0") != convs[0].said("0"):
        return None
    alone = all(convs[at].said("groups") == convs[at].said("0") for at in steps)
    return convs[_TWO] if alone else None


def aside(block: Layer, part: Layer) -> bool:
    """Tell whether what a part gives out is for nothing inside of the block, but to be added at its end."""
    if block.type.endswith(_ASIDE.get(part.name, ())) and (part is not block.children[-1] or part.name in _ALWAYS):
        return True
    breathe()
    if "Pad" in part.type and len(block.children) <= _MOST_PADDED:
        # Of a convolution that needs none, for its kind has some with strides.
        after = block.children[block.children.index(part) + 1 :]
        return bool(after) and after[0].said("padding") == "same"
    if block.type == "DualPathBlock" and part.name.startswith("c1x1_w"):
        return True
    if part.name not in _ENTRIES or part is block.children[-1]:
        return False
    return any("Conv2d" in other.type and not other.children for other in block.children)


def gathers(block: Layer, part: Layer) -> bool:
    """Tell whether a part takes what several layers before it gave out, joined (Res2Net's scales)."""
    return part.name == "conv3" and block.type.endswith(_SCALES)


def joins(block: Layer) -> bool:
    """Tell whether a block joins its branches' channels."""
    return block.type.startswith(("Inception", "SepInception", "Fire", "Mixed", "Reduction"))


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def branch(name: str) -> str:
    """Name the branch that a part of this name is the end of so far; empty for parts of none."""
    if name.startswith(("expand1x1", "expand3x3")):
        return name.removesuffix("_activation")
    if name in ("conv", "maxpool"):  # of Inception v4's first joins
        return name
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
        if _attends_in_functions(types):
            return _KEPT_BY_FUNCTIONS
        return _KEPT_BY_RMS if any("RMSNorm" in type_ or "T5LayerNorm" in type_ for type_ in types) else _KEPT_BY_TOKENS
    counted = 1.0 if any(map(holds_activation, types)) else 2.0
    fewest, most = _KEPT_BY_CONVS
    kept = most if keeps_input else fewest
    if keeps_input and keeps_output:
        kept = (fewest + most) / 2
    return kept / counted


def holds_activation(type_: str) -> bool:
    """Tell whether a norm has an activation inside, so that torchinfo counts one output for both."""
    return not type_.endswith(_NORM_AND_ACTIVATION) and any(mark in type_ for mark in _NORM_WITH_ACTIVATION)


def _attends_in_functions(types: Set[str]) -> bool:
    """Tell whether the projections of hidden attention are no layers: PyTorch's own blocks, and torchvision's."""
    if "SwinTransformerStage" in types:  # timm's has blocks of the same name
        return False
    if types >= _TRANSFORMER:
        return "Conv2d" not in types  # else most of what is hidden are convolutions
    return not types.isdisjoint(_IN_FUNCTIONS) or types >= _VISION_TRANSFORMER


def pools_queries(attention: Layer) -> bool:
    """Tell whether an attention gives out a quarter of its tokens (MViT and Hiera, where a stage begins)."""
    for part in attention.children:
        breathe()
        args = dict(part.args)
        if part.name == "pool_q" and args.get("stride") == "(2, 2)":
            return True
        if part.name == "q_pool" and "Pool" in part.type:
            return True
        if attention.type.endswith("MaskUnitAttention") and part.name == "qkv":
            return args.get("out_features") != str(3 * _number(args.get("in_features", "")))
    return False


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < _DIGITS else 0


def experts(block: Layer) -> int:
    """Count the layers among which a list of experts divides its tokens; 0 where it is none."""
    return len(block.children) if block.name == "experts" and len(block.children) > 1 else 0


def interleaved(parts: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put lists of blocks and of what resizes pictures between these into the order in which a network uses them.

    Networks with two halves often keep the blocks of a half in one list, and what makes pictures smaller or larger in
    another of the same length, or one shorter.
    """
    made: list[Layer] = []
    rest = deque(parts)
    while rest:
        if not len(rest) & OFTEN:
            breathe()
        part = rest.popleft()
        after = rest[0] if rest else None
        if len(rest) > 1 and (three := _joined_between(part, rest[0], rest[1])):
            made.append(three)
            rest.popleft()
            rest.popleft()
            continue
        joined = after and (
            _joined(after, part, "up")
            or _joined(part, after, "up")
            or _joined(part, after, "down")
            or (part.name in _PATCHES and _joined(after, part))
            or _joined_behind(part, after)
        )
        made.append(joined or part)
        if joined:
            rest.popleft()
    return tuple(made)


def _joined_between(resizes: Layer, narrows: Layer, stages: Layer) -> Layer | None:
    """Join what makes pictures larger, the kernels that then narrow what was joined, and the stages (Restormer)."""
    if narrows.type != "ModuleList" or len(narrows.children) != len(resizes.children) != 0:
        return None
    if any(part.children or "Conv" not in part.type or _resizes(part) for part in narrows.children):
        return None
    joined = _joined(stages, resizes, "up")
    if joined is None or len(joined.children) != 2 * len(resizes.children):
        return None
    order: list[Layer] = []
    for at, narrow in enumerate(narrows.children):
        order += [joined.children[2 * at], narrow, joined.children[2 * at + 1]]
    return joined.but(children=tuple(order), params=joined.params + narrows.params)


def _joined_behind(resizes: Layer, stages: Layer) -> Layer | None:
    """Join what makes pictures smaller before each stage with the stages, listed behind it (ConvNeXt)."""
    count = len(stages.children)
    if resizes.type != "ModuleList" or stages.type != "ModuleList" or not 1 < count == len(resizes.children):
        return None
    if any(not part.children or _resizes(part) for part in stages.children):
        return None
    order: list[Layer] = []
    for resize, stage in zip(resizes.children, stages.children, strict=True):
        if not 0 < len(resize.children) <= _FEW or not any(map(_strides, resize.children)):
            return None
        order += [resize, stage]
    return stages.but(children=tuple(order), params=stages.params + resizes.params)


def _joined(stages: Layer, resizes: Layer, how: str = "") -> Layer | None:
    count = len(resizes.children)
    if stages.type != "ModuleList" or resizes.type != "ModuleList" or not count:
        return None
    if count not in (len(stages.children) - 1, len(stages.children)):
        return None
    if {_resizes(part) for part in resizes.children} != {how} or not all(part.children for part in stages.children):
        return None
    if any(map(_resizes, stages.children)):
        return None
    if how == "up" and any(_gives(a) > _takes(b) > 0 for a, b in zip(resizes.children, stages.children, strict=False)):
        return None  # they are of the other half
    order: list[Layer] = []
    for at, stage in enumerate(stages.children):
        pair = [stage, *resizes.children[at : at + 1]]
        order += pair if how == "down" else pair[::-1]
    return stages.but(children=tuple(order), params=stages.params + resizes.params)


def _takes(part: Layer) -> int:
    """Read how many channels the first convolution of a part takes; 0 where there is none."""
    breathe()
    if not part.children:
        return _number(part.said("0")) if "Conv" in part.type else 0
    return next(filter(None, map(_takes, part.children)), 0)


def _gives(part: Layer) -> int:
    """Read how many channels the last convolution of a part gives out; 0 where there is none or others follow it."""
    last = part.children[-1] if part.children else part
    if last.children:
        return _gives(last)
    return _number(last.said("1")) if "Conv" in last.type else 0


def _strides(layer: Layer) -> bool:
    """Tell whether a layer is a convolution that makes pictures half or a quarter as large."""
    return layer.type.startswith("Conv") and "Transpose" not in layer.type and layer.said("stride") in _STEPS


def _resizes(part: Layer) -> str:
    """Tell whether a layer makes pictures larger (``up``), smaller (``down``) or neither."""
    breathe()
    if part.children:
        ways = {_resizes(inner) for inner in part.children} - {""}
        return ways.pop() if len(ways) == 1 and len(part.children) <= _FEW else ""
    if "ConvTranspose" in part.type or part.type.lower().startswith("upsampl") or part.type == "PixelShuffle":
        return "up"
    if part.type == "PixelUnshuffle":
        return "down"
    args = dict(part.args)
    strided = args.get("stride") in _STRIDED or "MaxPool" in part.type
    return "down" if strided and ("Conv" in part.type or "Pool" in part.type) else ""
