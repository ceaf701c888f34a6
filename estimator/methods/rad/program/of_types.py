"""What the types of a model's layers tell of the whole, whichever sizes they have. Pure.

Models of one architecture have the same types in all sizes: what follows is worked out once for the last few sets.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Final

from estimator import blocks
from estimator.breath import breathe
from estimator.family import family_of_types
from estimator.methods.rad.familiar import owner, plain_names
from estimator.methods.rad.kinds import Kind, attends, kind_of

_ACTIVATIONS: Final = frozenset((Kind.KEEPS_INPUT, Kind.KEEPS_OUTPUT, Kind.MANY_STEPS, Kind.SIGMOID_GATE))
_TOKEN_NORMS: Final = frozenset((Kind.LAYER_NORM, Kind.RMS_NORM))
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
# What follows a model's name in the types of its blocks.
_PARTS: Final = ("Attention", "Decoder", "Encoder", "Block", "Layer", "Stack", "Self")
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
_TWO: Final = 2


class OfTypes:
    """What a set of types tells.

    Attributes:
        owner: the model's own name, which transformers puts before the types of its layers, or "".
        names: the types without it.
        words: whether the model reads words.
        cosine: whether attention compares queries and keys by their angle.
        unsaid: whether no layer is called an attention.
        bare: whether no layer is an activation: functions are.
        bends: whether these functions keep what they take, as GELU does.
        drops: whether layers of dropout drop where they do not say their share.
        dense: whether it labels each pixel, which its answer grows to.
        encodes: whether there is an encoder.
        decodes: whether a decoder reads what an encoder has read.
        named: whether blocks begin with one name, as in transformers.
        family: the family of networks that it belongs to.
        caches: whether it gives out its keys and values for the next token, whatever its head is.
        biased: whether numbers in fp32 are added to the logits.
    """

    __slots__ = (
        "bare",
        "bends",
        "biased",
        "caches",
        "cosine",
        "decodes",
        "dense",
        "drops",
        "encodes",
        "family",
        "named",
        "names",
        "owner",
        "unsaid",
        "words",
    )

    def __init__(self, types: frozenset[str]) -> None:
        breathe()
        kinds = {kind_of(type_) for type_ in types}
        self.family = family_of_types(types)
        self.owner = owner(types)
        self.names = plain_names(types)
        breathe()
        self.words = "Embedding" in types
        self.cosine = any(map(blocks.normalizes_queries, types))
        self.unsaid = not any(map(attends, types))
        self.bare = kinds.isdisjoint(_ACTIVATIONS)
        self.bends = self.bare and not kinds.isdisjoint(_TOKEN_NORMS)
        breathe()
        self.drops = _drops(types)
        self.dense = any(type_.endswith(_DENSE_HEADS) for type_ in types)
        encoders = [type_ for type_ in types if type_.endswith(("Encoder", "T5Stack"))]
        self.encodes = bool(encoders)
        # What sees or hears is an encoder, too: its model has no decoder of that name.
        self.decodes = any(
            type_.endswith("Stack") or f"{type_.removesuffix('Encoder')}Decoder" in types for type_ in encoders
        )
        self.named = _share_a_name(types)
        breathe()
        self.caches = any(type_.startswith(_DECODERS) for type_ in types)
        self.biased = any(type_.startswith(_BIASED_LOGITS) for type_ in types)


@lru_cache(maxsize=16)  # names come from users, and a set of them may be large: few are kept
def of_types(types: frozenset[str]) -> OfTypes:
    """Tell what a set of types tells."""
    return OfTypes(types)


def _drops(types: frozenset[str]) -> bool:
    """Tell whether layers of dropout drop anything where the summary does not show their share.

    In the libraries' defaults they do in models that read words and in front of classifiers, and not in vision
    transformers and their kin.
    """
    mixes = any("Mlp" in type_ or "MLP" in type_ or attends(type_) for type_ in types)
    return "Embedding" in types or not mixes or not any("Conv2d" in type_ for type_ in types)


def _share_a_name(types: frozenset[str]) -> bool:
    """Tell whether blocks begin with one name, as in transformers: OPTAttention, OPTDecoderLayer, OPTDecoder."""
    breathe()
    names = Counter(min([type_.partition(part)[0] for part in _PARTS], key=len) for type_ in types)
    return any(count > _TWO and name not in ("", "Transformer") and name not in types for name, count in names.items())
