"""Blocks of other versions of transformers, torchvision and timm, as those have them that were measured. Pure.

What was measured, and what is known of blocks' own code, is found by the types of layers as the versions print them
that the data set was made with: these are called today's here, though later ones are there. Where another version only
names them differently, or divides the same layers into other blocks, the tree is rewritten; no size changes. A type
that tells that the old code multiplies queries and keys itself is given one of its own (`Eager`), for its memory is
another.
"""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from operator import is_
from typing import Final

from estimator import versions_timm
from estimator.breath import breathe
from estimator.layer import Layer
from estimator.parametrized import LIST

# Named otherwise now, wherever they stand.
_NAMES: Final = {
    "ConvBNReLU": "Conv2dNormActivation",
    "ConvBNActivation": "Conv2dNormActivation",
    "ConvNormActivation": "Conv2dNormActivation",
    "ConvNormActAa": "ConvNormAct",
    "ConViT": "ConVit",
    "CrossViT": "CrossVit",
    "XCiT": "Xcit",
    "FactorAtt_ConvRelPosEnc": "FactorAttnConvRelPosEnc",
    "DistilBertSdpaAttention": "DistilBertSelfAttention",
    "DistilBertFlashAttention2": "DistilBertSelfAttention",
    "PytorchGELUTanh": "GELUTanh",
    "T5DenseReluDense": "T5DenseActDense",
    "T5DenseGatedGeluDense": "T5DenseGatedActDense",
    "MT5DenseReluDense": "MT5DenseActDense",
    "MT5DenseGatedGeluDense": "MT5DenseGatedActDense",
    "DebertaLMPredictionHead": "LegacyDebertaLMPredictionHead",
    "DebertaPredictionHeadTransform": "LegacyDebertaPredictionHeadTransform",
    "DebertaV2LMPredictionHead": "LegacyDebertaV2LMPredictionHead",
    "DebertaV2PredictionHeadTransform": "LegacyDebertaV2PredictionHeadTransform",
    "NemotronHRMSNormGated": "Zamba2RMSNormGated",  # after transformers 5.17
    # What other libraries put in the place of layers of the same sizes: theirs keep no more.
    "Float8Linear": "Linear",
    "FP8Linear": "Linear",
    "HQQLinear": "Linear",
    "LigerLayerNorm": "LayerNorm",
    "LigerRMSNorm": "RMSNorm",
    "FusedLayerNorm": "LayerNorm",
    "MixedFusedLayerNorm": "LayerNorm",
    "FusedRMSNorm": "RMSNorm",
}
# Attention of such a name is computed in a fused kernel, as today; "Sdpa" within says so too.
# But these are called so to this day.
_SDPA: Final[tuple[str, ...]] = ("Data2VecVision", "SamVision", "SamHQVision", "DeepseekOcr2SamVision")
_FLASH: Final = "FlashAttention2"
# Models whose blocks had the names of another's.
_LENT: Final = {"XLMRoberta": "Roberta", "Camembert": "Roberta", "MT5": "T5"}
_LENDERS: Final[tuple[str, ...]] = tuple(_LENT)
# Attention and MLP were of four blocks, each with its output apart.
_OF_FOUR: Final[tuple[str, ...]] = ("ViT", "DeiT", "Beit", "AST", "Swin", "IJepa", "ViTMAE", "ViTMSN", "Vivit")
# After transformers 5.17 theirs are of one block, which was of two.
_OF_ONE: Final[tuple[str, ...]] = ("Dinov2", "Dinov2WithRegisters", "RfDetrDinov2", "Radio", "Tipsv2Vision")
_JOINED: Final = frozenset(own + "Attention" for own in _OF_ONE)
_ACTIVATED: Final = frozenset(own + "MLP" for own in _OF_ONE)
_PROJECTIONS: Final = ("Linear",) * 4
# What a router is called that is a linear layer, and models that hold the rotation, since then.
_ROUTER: Final = "JambaTopKRouter"
_ROTATED: Final = ("GPTJModel", "CodeGenModel")
# What Liger calls the MLP that it computes, of whichever model.
_LIGER: Final = ("LigerSwiGLUMLP", "LigerGEGLUMLP", "LigerPhi3SwiGLUMLP")
_DECODES: Final = "DecoderLayer"
_SELF: Final = "SelfAttention"
_PARTS: Final = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "dense": "o_proj"}
_IN_LAYER: Final[tuple[str, ...]] = (
    "attention",
    "layernorm_before",
    "layernorm_after",
    "mlp",
    "dropout",
    "drop_path",
)
# Word embeddings that are a class of their own now.
_SCALED: Final = {
    own + end: own + middle + "ScaledWordEmbedding"
    for own, middle in (
        ("Bart", ""),
        ("MBart", ""),
        ("PLBart", ""),
        ("M2M100", ""),
        ("Blenderbot", ""),
        ("BigBirdPegasus", ""),
        ("XGLM", ""),
        ("BioGpt", ""),
        ("Gemma", "Text"),
        ("Gemma2", "Text"),
    )
    for end in ("Model", "Encoder", "Decoder")
}
# Today's models hold the rotation; attention of theirs that held it multiplied by itself, if it was not called Sdpa.
_ROTATING: Final[tuple[str, ...]] = (
    "Llama",
    "Mistral",
    "Mixtral",
    "Qwen2",
    "Gemma",
    "Phi",
    "StableLm",
    "Olmo",
    "GPTNeoX",
    "Persimmon",
)
_ROTATES: Final = frozenset(own + "Attention" for own in _ROTATING)
_TURNED: Final = frozenset(own + "Model" for own in (*_ROTATING, "ModernBert"))
_ROTATION: Final = "RotaryEmbedding"
# These have had word embeddings of their own since fused kernels could be chosen.
_ENCODING: Final[tuple[str, ...]] = ("Bart", "MBart", "PLBart", "M2M100", "Blenderbot")
_MULTI_HEAD: Final = "MultiHeadSelfAttention"
_FOUR_PARTS: Final = 4
_TWO: Final = 2
_GATED: Final = ("gate_proj", "down_proj", "up_proj")
_FOUR: Final = frozenset(own + end for own in _OF_FOUR for end in (_SELF, "SelfOutput", "Intermediate", "Output"))
_OLD: Final = frozenset(
    (
        *_NAMES,
        *_SCALED,
        *_FOUR,
        *_JOINED,
        _ROUTER,
        *_LIGER,
        "StableDropout",
        _MULTI_HEAD,
        "PatchEmbeddings",
        "CLIPTextTransformer",
        "CLIPVisionTransformer",
        "ConvNextStage",
        "BloomScaledSoftmax",
        "MobileViTConvLayer",
    )
)
# There is a rule for what is in blocks of such names.
_RULED: Final[tuple[str, ...]] = (
    "MLP",
    "Model",
    "Pooler",
    "Layer",
    "Intermediate",
    "Embeddings",
    "Embedding",
    "Stage",
    "BloomAttention",
)
_ENDS: Final[tuple[str, ...]] = (_ROTATION, "PositionalConvEmbedding")


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def maybe_old(type_: str) -> bool:
    """Tell whether a model with a layer of this type has to be looked through: it may be of an older version."""
    return type_ in _OLD or type_.endswith(_ENDS) or _fused(type_) != type_


def _fused(type_: str) -> str:
    """Take from the name of an attention that it is computed in a fused kernel."""
    if type_.endswith(_FLASH):
        return type_[: -len(_FLASH)] + "Attention"
    return type_.replace("Sdpa", "") if type_.endswith("Attention") and not type_.startswith(_SDPA) else type_


def today(root: Layer, types: Set[str], in_order: bool = False) -> Layer:
    """Give a tree as today's versions have it.

    Args:
        root: the model.
        types: those of its layers.
        in_order: whether layers stand as they are called, and not as they are defined.
    """
    if root.type.startswith(_LENDERS) or any(map(maybe_old, types)) or versions_timm.maybe_old(root.type, types):
        return _Renewal(root.type, types, in_order).of(root)
    return root


class _Renewal:
    def __init__(self, model: str, types: Set[str], in_order: bool) -> None:
        self._model = model
        self._timm = versions_timm.Renewal(model, types) if versions_timm.maybe_old(model, types) else None
        self._in_order = in_order
        self._lent = next(((own, other) for own, other in _LENT.items() if model.startswith(own)), ("", ""))
        self._multiplying = {
            own + "Attention"
            for own in _ENCODING
            if own + "Encoder" in types and own + "ScaledWordEmbedding" not in types
        }
        self._rotates = any(type_.endswith(_ROTATION) for type_ in types)
        self._made: dict[int, Layer] = {}

    def of(self, layer: Layer) -> Layer:
        """Give a layer, with what is in it; the same object where nothing changes."""
        made = self._made.get(id(layer))
        if made is None:
            breathe()
            made = self._renamed(layer)
            if layer.children:
                children = tuple([self.of(child) for child in layer.children])
                if self._timm is not None:
                    children = self._timm.inside(layer.type, children)
                if made.type.endswith(_RULED) or made.type in _SCALED:
                    children = self._inside(made.type, children)
                if not _same(children, layer.children):
                    made = made.but(children=children)
                if _of_four(made):
                    made = self._attention(made, layer)
                elif made.type in _JOINED and tuple(child.type for child in children) == _PROJECTIONS:
                    made = _divided(made, made.type.removesuffix("Attention"))
            self._made[id(layer)] = made
        return made

    def _renamed(self, layer: Layer) -> Layer:
        type_ = layer.type
        own, other = self._lent
        name = _NAMES.get(type_) or _fused(type_ if self._timm is None else self._timm.renamed(layer))
        if other and name.startswith(other):
            name = own + name[len(other) :]
        elif name == "StableDropout" and self._model.startswith("Deberta"):
            name = "Dropout"
        elif name == _ROUTER and layer.params:
            name = "Linear"
        elif name in ("DebertaOnlyMLMHead", "DebertaV2OnlyMLMHead") and any("LMPred" in c.type for c in layer.children):
            name = "Legacy" + name
        elif name == type_ and self._multiplies(layer):
            name = _SELF if type_ == _MULTI_HEAD else "Attention"
            name = f"{type_.removesuffix('Attention') if name != _SELF else 'DistilBert'}Eager{name}"
        return layer if name == type_ else layer.but(type=name)

    def _multiplies(self, layer: Layer) -> bool:
        """Tell whether an attention is of code that multiplied by itself, where today's does not."""
        type_, children = layer.type, layer.children
        if type_ in _ROTATES:
            return any(child.type.endswith(_ROTATION) for child in children)
        return (type_ == _MULTI_HEAD and self._model.startswith("DistilBert")) or type_ in self._multiplying

    def _inside(self, type_: str, children: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """Give what is in a block of this type."""
        scaled = _SCALED.get(type_)
        if scaled:
            return tuple(child.but(type=scaled) if child.type == "Embedding" else child for child in children)
        if type_.startswith("Bloom"):
            return tuple(c for c in _last(children, "dense_4h_to_h") if c.type != "BloomScaledSoftmax")
        if type_.endswith("MLP"):
            return self._gated(type_, children)
        if type_ in _ROTATED or (type_ in _TURNED and not self._in_order):
            return self._turned(type_, children)
        if type_ == "ContextPooler" and not self._in_order:  # whose dropout drops nothing
            return tuple(c.but(args=(("p", "0.0"),)) if c.type == "Dropout" and not c.args else c for c in children)
        if type_ in ("MobileViTConvLayer", "MobileViTIntermediate"):
            return tuple(child.but(type="SiLUActivation") if child.type == "SiLU" else child for child in children)
        if type_.endswith("Embeddings"):
            own = type_.removesuffix("Embeddings")
            return tuple(c.but(type=own + c.type) if c.type == "PatchEmbeddings" else c for c in children)
        if type_.endswith("PositionalConvEmbedding"):
            return tuple(_normed(child) if child.type == "Conv1d" else child for child in children)
        if type_ == "CLIPModel":
            return tuple(
                c.but(type=c.type.replace("Transformer", "Model")) if c.type.endswith("Transformer") else c
                for c in children
            )
        if type_ == "ConvNextStage" and not self._in_order:
            return tuple(
                c.but(type="ModuleList") if c.type == "Sequential" or c.name == "downsampling_layer" else c
                for c in children
            )
        if type_.endswith(_DECODES):
            own = type_.removesuffix(_DECODES)
            return tuple(c.but(type=own + "MLP") if c.type in _LIGER else c for c in children)
        if type_.endswith("Layer") and type_.removesuffix("Layer") in _OF_FOUR:
            return self._layer(type_.removesuffix("Layer"), children)
        return _opened(children)

    def _turned(self, model: str, children: tuple[Layer, ...]) -> tuple[Layer, ...]:
        type_ = model.removesuffix("Model") + _ROTATION
        if model in _ROTATED:
            return tuple([child for child in children if child.type != type_])
        if self._rotates and not any(child.type == type_ for child in children):
            return (*children, Layer(type_, 0, name="rotary_emb"))
        return children

    def _gated(self, type_: str, children: tuple[Layer, ...]) -> tuple[Layer, ...]:
        if type_ in _ACTIVATED and not self._in_order and children[0].name == "activation_fn":
            return (*children[1:2], children[0].but(name="activation"), *children[2:])
        if len(children) != _FOUR_PARTS or sum(child.type == "Linear" for child in children) != _FOUR_PARTS - 1:
            return children
        children = tuple(child.but(type="SiLUActivation") if child.type == "SiLU" else child for child in children)
        first, second, third, *rest = children
        return (first, third, second, *rest) if tuple(c.name for c in children[:3]) == _GATED else children

    def _layer(self, own: str, children: tuple[Layer, ...]) -> tuple[Layer, ...]:
        """Join the two blocks of an MLP."""
        inner = next((child for child in children if child.type == own + "Intermediate"), None)
        outer = next((child for child in children if child.type == own + "Output"), None)
        made: list[Layer] = []
        if inner is None or outer is None or len(inner.children) < _TWO or not outer.children:
            return children  # hidden, or of today
        for child in children:
            if child is inner:
                first, act = inner.children[:2]
                parts = [first.but(name="fc1"), act.but(name="activation_fn")]
                parts.append(outer.children[0].but(name="fc2"))
                if not self._in_order:
                    parts = [parts[1], parts[0], parts[2]]
                shape = outer.children[0].output_shape
                made.append(Layer(own + "MLP", inner.params + outer.params, shape, tuple(parts), (), "mlp"))
            elif child is outer:
                made += [part for part in outer.children[1:] if part.type == "Dropout"]
            elif child.type == "DropPath":
                made.append(child.but(type=own + child.type))
            else:
                made.append(child)
        if not self._in_order:
            made.sort(key=lambda part: _IN_LAYER.index(part.name) if part.name in _IN_LAYER else 0)
        return tuple(made)

    def _attention(self, block: Layer, before: Layer) -> Layer:
        """Make one attention of its two blocks."""
        inner, outer = block.children
        own = block.type.removesuffix("Attention")
        parts = [
            part.but(name=_PARTS.get(part.name, part.name))
            for part in (*inner.children, *outer.children)
            if part.type != "Dropout"
        ]
        if own == "Swin" and not self._in_order:
            parts.append(Layer("SwinRelativePositionBias", 0, name="relative_position_bias"))
        fused = _fused(before.children[0].type) != before.children[0].type
        drops = any(part.type == "Dropout" for part in inner.children)
        # That of Swin works in windows, as torchvision's.
        eager = "ShiftedWindowEagerAttention" if own == "Swin" else own + "EagerAttention"
        type_ = eager if drops and not fused else block.type
        return block.but(type=type_, params=block.params + inner.params + outer.params, children=tuple(parts))


def _same(new: tuple[Layer, ...], old: tuple[Layer, ...]) -> bool:
    return len(new) == len(old) and all(map(is_, new, old))


def _of_four(block: Layer) -> bool:
    own = block.type.removesuffix("Attention")
    return own in _OF_FOUR and tuple(child.type for child in block.children) == (own + _SELF, own + "SelfOutput")


def _divided(block: Layer, own: str) -> Layer:
    """Make two blocks of an attention, as it was measured."""
    query, key, value, dense = block.children
    inner = query.but(name="query"), key.but(name="key"), value.but(name="value")
    drops = Layer("Dropout", 0, dense.output_shape, args=(("p", "0.0"), ("inplace", "False")), name="dropout")
    outer = dense.but(name="dense"), drops
    shape = block.output_shape
    return block.but(
        children=(
            Layer(own + _SELF, 0, shape, inner, name="attention"),
            Layer(own + "SelfOutput", 0, shape, outer, name="output"),
        )
    )


def _opened(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Take the list of blocks from the encoder around it, where today it stands in the model."""
    for at, child in enumerate(children):
        own = child.type.removesuffix("Encoder")
        if own != child.type and own in _OF_FOUR and own != "Swin" and len(child.children) == 1:
            return (*children[:at], child.children[0].but(name="layers"), *children[at + 1 :])
    return children


def _normed(conv: Layer) -> Layer:
    """Give a convolution whose weights are normed, which is a layer with more inside now."""
    inner = Layer(LIST, 0, children=(Layer("_WeightNorm", 0, name="0"),), name="weight")
    return conv.but(
        type="ParametrizedConv1d", children=(Layer("ModuleDict", 0, children=(inner,), name="parametrizations"),)
    )


def _last(children: tuple[Layer, ...], name: str) -> tuple[Layer, ...]:
    return tuple(sorted(children, key=lambda child: child.name == name))
