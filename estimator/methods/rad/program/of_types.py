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
from estimator.kept import keep
from estimator.methods.rad.familiar import named, owner, plain_names
from estimator.methods.rad.kinds import ACTIVATIONS, Kind, sort_of

_TOKEN_NORMS: Final = frozenset((Kind.LAYER_NORM, Kind.RMS_NORM))
_NORMS: Final = _TOKEN_NORMS | {Kind.BATCH_NORM}
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
_ENCODERS: Final = ("Encoder", "T5Stack")
# What types tell, a bit each.
_ATTENDS: Final = 1
_COSINE: Final = 2
_MIXES: Final = 4
_CONVOLVES: Final = 8
_DENSE: Final = 16
_ENCODES: Final = 32
_CACHES: Final = 64
_BIASED: Final = 128
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
        leaks: whether they keep what they take as well as what they give out, as leaky ReLU does in what makes sounds.
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
        "leaks",
        "named",
        "names",
        "owner",
        "unsaid",
        "words",
    )

    def __init__(self, types: frozenset[str]) -> None:
        breathe()
        each = [_alone(type_) for type_ in types]
        breathe()
        kinds = {alone.kind for alone in each}
        marks = 0
        for alone in each:
            marks |= alone.marks
        breathe()
        self.family = family_of_types(types)
        self.owner = owner([alone.owner for alone in each])
        self.names = plain_names(self.owner, types)
        breathe()
        self.words = "Embedding" in types
        self.cosine = marks & _COSINE > 0
        self.unsaid = not marks & _ATTENDS
        self.bare = kinds.isdisjoint(ACTIVATIONS)
        self.bends = self.bare and not kinds.isdisjoint(_TOKEN_NORMS)
        sounds = "ConvTranspose1d" in types and "Conv1d" in types
        self.leaks = self.bare and sounds and kinds.isdisjoint(_NORMS) and not self.owner
        # In the libraries' defaults dropout drops in models that read words and in front of classifiers, and not in
        # vision transformers and their kin.
        self.drops = self.words or not marks & (_MIXES | _ATTENDS) or not marks & _CONVOLVES
        self.dense = marks & _DENSE > 0
        self.encodes = marks & _ENCODES > 0
        # What sees or hears is an encoder, too: its model has no decoder of that name.
        self.decodes = self.encodes and any(
            type_.endswith("Stack") or f"{type_.removesuffix('Encoder')}Decoder" in types
            for type_ in types
            if type_.endswith(_ENCODERS)
        )
        counts = Counter([alone.begins for alone in each])
        self.named = any(
            count > _TWO and name not in ("", "Transformer") and name not in types for name, count in counts.items()
        )
        self.caches = marks & _CACHES > 0
        self.biased = marks & _BIASED > 0


@lru_cache(maxsize=16)  # names come from users, and a set of them may be large: few are kept
def of_types(types: frozenset[str]) -> OfTypes:
    """Tell what a set of types tells."""
    return OfTypes(types)


class _Alone:
    """What one type tells, whichever others there are.

    Attributes:
        kind: what a layer of this type keeps.
        owner: the model's own name, as far as this tells.
        begins: what stands before the name of a part: ``OPT`` of OPTAttention, OPTDecoderLayer, OPTDecoder.
        marks: the rest, a bit each.
    """

    __slots__ = ("begins", "kind", "marks", "owner")

    def __init__(self, type_: str) -> None:
        sort = sort_of(type_)
        self.kind = sort.kind
        self.owner = named(type_)
        self.begins = min([type_.partition(part)[0] for part in _PARTS], key=len)
        self.marks = (
            (_ATTENDS if sort.attends else 0)
            | (_COSINE if blocks.normalizes_queries(type_) else 0)
            | (_MIXES if "Mlp" in type_ or "MLP" in type_ else 0)
            | (_CONVOLVES if "Conv2d" in type_ else 0)
            | (_DENSE if type_.endswith(_DENSE_HEADS) else 0)
            | (_ENCODES if type_.endswith(_ENCODERS) else 0)
            | (_CACHES if type_.startswith(_DECODERS) else 0)
            | (_BIASED if type_.startswith(_BIASED_LOGITS) else 0)
        )


_KNOWN: Final[dict[str, _Alone]] = {}


def _alone(type_: str) -> _Alone:
    found = _KNOWN.get(type_)
    if found is None:
        breathe()
        found = keep(_KNOWN, type_, _Alone(type_))
    return found
