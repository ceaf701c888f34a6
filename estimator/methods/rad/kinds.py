"""What a layer's type means for memory: which tensors autograd keeps of it. Pure tables.

The rules follow PyTorch's derivatives: a convolution or a linear layer keeps its input, ReLU its output, a norm its
input and two statistics a row, dropout a mask of one byte an element, max pooling the indices of its maxima.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Final

from estimator.breath import breathe
from estimator.kept import keep
from estimator.shapes.tables import GATHERS


class Kind(IntEnum):
    """Groups of layer types that keep the same tensors."""

    __hash__ = int.__hash__  # an enumeration's own is a function in Python, and layers are looked up by the hundred

    VIEW = 0
    CONV = 1
    LINEAR = 2
    BATCH_NORM = 3
    LAYER_NORM = 4
    RMS_NORM = 5
    KEEPS_OUTPUT = 6
    KEEPS_INPUT = 7
    MANY_STEPS = 8
    DROPOUT = 9
    MAX_POOL = 10
    AVG_POOL = 11
    SHRINK = 12
    EMBEDDING = 13
    SOFTMAX = 14
    RECURRENT = 15
    NEW = 16
    ATTENTION = 17
    OPAQUE = 18
    SIGMOID_GATE = 19
    FROZEN_LINEAR = 20
    FROZEN_RMS_NORM = 21


ACTIVATIONS: Final = frozenset((Kind.KEEPS_INPUT, Kind.KEEPS_OUTPUT, Kind.MANY_STEPS, Kind.SIGMOID_GATE))
# Types that no part of their name tells (`_MARKS`), or that it would tell wrong.
_EXACT: Final = {
    "Conv1D": Kind.LINEAR,
    "Dense": Kind.LINEAR,
    "Bilinear": Kind.LINEAR,
    "Sine": Kind.KEEPS_INPUT,
    "NewGELU": Kind.MANY_STEPS,
    "NewGELUActivation": Kind.MANY_STEPS,
    "FastGELUActivation": Kind.MANY_STEPS,
    "AccurateGELUActivation": Kind.MANY_STEPS,
    "QuickGELUActivation": Kind.SIGMOID_GATE,
    "QuickGELU": Kind.SIGMOID_GATE,
    "QuickGelu": Kind.SIGMOID_GATE,
    "StarReLU": Kind.SIGMOID_GATE,
    "RReLU": Kind.KEEPS_INPUT,
    "LogSigmoid": Kind.KEEPS_INPUT,  # on a GPU nothing else: its buffer is the CPU's
    "Softshrink": Kind.KEEPS_INPUT,
    "Hardshrink": Kind.KEEPS_INPUT,
    "Threshold": Kind.KEEPS_INPUT,
    "Activation": Kind.KEEPS_OUTPUT,
    "MultiHeadAttention": Kind.ATTENTION,
    "RNN": Kind.RECURRENT,
    "Add": Kind.NEW,
    "Multiply": Kind.NEW,
    "Concatenate": Kind.NEW,
    "ZeroPadding2D": Kind.NEW,
    "ZeroPad2d": Kind.NEW,
    "ConstantPad2d": Kind.NEW,
    "PixelShuffle": Kind.NEW,
    "PixelUnshuffle": Kind.NEW,
    "StochasticDepth": Kind.NEW,
    "DropPath": Kind.NEW,
    "LayerScale": Kind.KEEPS_INPUT,
    "Permute": Kind.NEW,
}
# Activations whose derivative follows from what they give out as well: where they work in place, PyTorch keeps that.
SAVES_RESULT: Final = frozenset(("LeakyReLU", "RReLU", "ELU", "CELU", "SELU"))
# What keeps more tensors as large as what it gives out: what its code takes in between, or what it drew.
_MORE: Final = {"StarReLU": 1, "RReLU": 1, "Softsign": 1, "Tanhshrink": 1, "LocalResponseNorm": 3, "CrossMapLRN2d": 1}
POWERS: Final = "LPPool"
"""How poolings of powers begin: they keep the powers, and four tensors more as large as what they give out."""
_MARKS: Final[tuple[tuple[str, Kind], ...]] = (
    ("RMSNorm", Kind.RMS_NORM),
    ("T5LayerNorm", Kind.RMS_NORM),
    ("BatchNorm", Kind.BATCH_NORM),
    ("InstanceNorm", Kind.BATCH_NORM),
    ("GroupNorm", Kind.LAYER_NORM),
    ("LayerNorm", Kind.LAYER_NORM),
    ("NoNorm", Kind.KEEPS_INPUT),
    ("Embedding", Kind.EMBEDDING),
    ("LocalResponseNorm", Kind.KEEPS_INPUT),
    ("CrossMapLRN", Kind.KEEPS_INPUT),
    ("ReflectionPad", Kind.AVG_POOL),  # it keeps its input, too
    ("ReplicationPad", Kind.AVG_POOL),
    ("AdaptiveAvgPool", Kind.SHRINK),
    ("GlobalAveragePool", Kind.SHRINK),
    ("SelectAdaptivePool", Kind.SHRINK),
    ("MaxPool", Kind.MAX_POOL),
    (POWERS, Kind.AVG_POOL),
    ("AvgPool", Kind.AVG_POOL),
    ("AveragePool", Kind.AVG_POOL),
    ("Upsample", Kind.NEW),
    ("UpSampling", Kind.NEW),
    ("Linear", Kind.LINEAR),
    ("Dropout", Kind.DROPOUT),
    ("Softmax", Kind.SOFTMAX),
    ("ReLU6", Kind.KEEPS_INPUT),
    ("LeakyReLU", Kind.KEEPS_INPUT),
    ("PReLU", Kind.KEEPS_INPUT),
    ("ReLU", Kind.KEEPS_OUTPUT),
    ("GELU", Kind.KEEPS_INPUT),
    ("GeLU", Kind.KEEPS_INPUT),
    ("Gelu", Kind.KEEPS_INPUT),
    ("SiLU", Kind.KEEPS_INPUT),
    ("Swish", Kind.KEEPS_INPUT),
    ("swish", Kind.KEEPS_INPUT),
    ("Mish", Kind.KEEPS_INPUT),
    ("Snake", Kind.MANY_STEPS),
    ("ELU", Kind.KEEPS_INPUT),
    ("Softplus", Kind.KEEPS_INPUT),
    ("Softsign", Kind.KEEPS_INPUT),
    ("Hardtanh", Kind.KEEPS_INPUT),
    ("Hardsigmoid", Kind.KEEPS_INPUT),
    ("HardSigmoid", Kind.KEEPS_INPUT),
    ("Tanh", Kind.KEEPS_OUTPUT),
    ("Sigmoid", Kind.KEEPS_OUTPUT),
    ("LSTM", Kind.RECURRENT),
    ("GRU", Kind.RECURRENT),
)
_CONV_ENDS: Final = ("1d", "2d", "3d", "1D", "2D", "3D", "Same", "SamePadding", "Transpose")

# A name that says "linear" of what is a block, as MobileNet's LinearBottleneck.
_BLOCKS: Final = ("Bottleneck", "Block")

_PLAIN: Final = frozenset(
    (Kind.BATCH_NORM, Kind.LAYER_NORM, Kind.RMS_NORM, Kind.KEEPS_OUTPUT, Kind.KEEPS_INPUT, Kind.MANY_STEPS)
)

# In names of blocks that have a convolution and more inside of them.
_ENCLOSING: Final = ("Norm", "Bn", "BN", "Act", "Basic", "Separable")

_WAVES: Final[tuple[str, ...]] = ("Sine", "Siren")

# Attention of transformers 5 that multiplies queries and keys itself and so keeps the matrix of weights; of everything
# else PyTorch's fused attention is the default.
_EAGER: Final = (
    "Eager",  # of older versions (`estimator.versions`)
    "Deberta",
    "Disentangled",
    "XLNet",
    "MPNet",
    "RoFormer",
    "ConvBert",
    "SqueezeBert",
    "BigBird",
    "Funnel",
    "Longformer",
    "ShiftedWindow",
    "GPTNeoSelf",
    "CodeGen",
    "GPTJ",
    "Reformer",
    "Bloom",
    "XGLM",
    "MptAttention",
    "RemBert",
    "LayoutLMv",
    "Splinter",
    "Luke",
    "Megatron",
    "Nystromformer",
    "ProphetNet",
    "OpenAI",
    "Lxmert",
    "VisualBert",
    "Vilt",
    "LongT5",
    "SwitchTransformers",
    "Speech2Text",
    "Perceiver",
    "Pvt",
    "PVT",
    "Cvt",
    "Swinv2",
)
# The same, by whole names: others that begin or end like these are fused.
_EAGER_TYPES: Final = frozenset(
    (
        "AlignTextSelfAttention",
        "BarkSelfAttention",
        "BlipAttention",
        "BlipTextSelfAttention",
        "BridgeTowerCrossAttention",
        "BridgeTowerSelfAttention",
        "BrosSelfAttention",
        "ClapTextSelfAttention",
        "ClvpSelfAttention",
        "CpmAntAttention",
        "DabDetrAttention",
        "Data2VecVisionSelfAttention",
        "DecisionTransformerGPT2Attention",
        "DeepseekV4Attention",
        "FastSpeech2ConformerAttention",
        "FlavaSelfAttention",
        "GPTNeoXJapaneseAttention",
        "GitSelfAttention",
        "GitVisionAttention",
        "GptOssAttention",
        "GraniteMoeSWAAttention",
        "GraniteSWAAttention",
        "GroundingDinoBiMultiHeadAttention",
        "GroundingDinoMultiheadAttention",
        "GroupViTAttention",
        "HYV4Attention",
        "IBertSelfAttention",
        "ImageGPTAttention",
        "InformerAttention",
        "LEDDecoderAttention",
        "LayoutLMSelfAttention",
        "LiltSelfAttention",
        "MMGroundingDinoBiMultiHeadAttention",
        "MMGroundingDinoMultiheadAttention",
        "MarkupLMSelfAttention",
        "Mask2FormerAttention",
        "MgpstrAttention",
        "MiMoV2FlashAttention",
        "MvpAttention",
        "NllbMoeAttention",
        "OmDetTurboMultiheadAttention",
        "OneFormerAttention",
        "PatchTSMixerAttention",
        "PegasusXAttention",
        "SegGptAttention",
        "SpeechT5Attention",
        "SuperGlueSelfAttention",
        "TableTransformerAttention",
        "TapasSelfAttention",
        "TimeSeriesTransformerAttention",
        "TrOCRAttention",
        "TvpAttention",
        "VitsAttention",
        "ZoeDepthMultiheadAttention",
    )
)
# Fused attention with a learned bias on every pair of tokens: the bias is kept, a matrix too.
_BIASED: Final = ("T5", "MT5", "UMT5")


def kind_of(type_: str) -> Kind:
    """Give the group of a layer type; types that are not known keep nothing."""
    return sort_of(type_).kind


def attends(type_: str) -> bool:
    """Tell whether a container of this type is one attention."""
    return sort_of(type_).attends


def _kind(type_: str) -> Kind:
    exact = _EXACT.get(type_)
    if exact is not None:
        return exact
    for mark, kind in _MARKS:
        if mark in type_:
            return Kind.VIEW if kind is Kind.LINEAR and any(block in type_ for block in _BLOCKS) else kind
    if "Conv" in type_ and type_.endswith(_CONV_ENDS):
        return Kind.CONV
    return Kind.VIEW


def _attends(type_: str) -> bool:
    return (
        type_ in ("GPSA", "XCA", "MHSA", "MSA", "MHA") or "Attention" in type_ or type_.endswith("Attn")
    ) and not any(mark in type_ for mark in ("Pool", "Projection", "Output"))


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def attends_eagerly(type_: str) -> bool:
    """Tell whether this attention is known to keep its matrix of weights."""
    if type_ in _EAGER_TYPES or type_ == "MultiHeadAttention":  # of XLM and Flaubert, and of Keras
        return True
    return "Sdpa" not in type_ and "Flash" not in type_ and any(mark in type_ for mark in _EAGER)


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def attends_with_bias(type_: str) -> bool:
    """Tell whether this attention keeps one learned number for every pair of tokens."""
    return type_.startswith(_BIASED)


class Sort:
    """What a layer's type says. No named tuple: it is asked for each layer, which compiled is faster so.

    Attributes:
        kind: what it keeps.
        attends: whether it is an attention.
        encloses: whether a convolution by this name is a block with more inside of it.
        waves: whether a block by this name gives out sines of what its layer does.
        encodes: whether it is what a decoder reads from, whose own keys and values nobody needs again.
        gathers: whether it gathers the messages of a graph's neighbours.
        plain: whether it is a norm or an activation and nothing else, which mostly gives out what it takes.
        more: how many tensors it keeps beside that, as large as what it gives out.
    """

    __slots__ = ("attends", "encloses", "encodes", "gathers", "kind", "more", "plain", "waves")

    def __init__(self, type_: str) -> None:
        self.kind = _kind(type_)
        self.attends = _attends(type_)
        self.encloses = any(mark in type_ for mark in _ENCLOSING)
        self.waves = type_.startswith(_WAVES)
        self.encodes = type_.endswith("Encoder") or "Vision" in type_ or "Visual" in type_
        self.gathers = type_.endswith(GATHERS)
        self.plain = self.kind in _PLAIN and not self.attends and not self.gathers
        self.more = _MORE.get(type_, 0)


_SORTS: Final[dict[str, Sort]] = {}


def sort_of(type_: str) -> Sort:
    """Tell what a type says."""
    found = _SORTS.get(type_)
    if found is None:
        breathe()
        found = keep(_SORTS, type_, Sort(type_))
    return found
