"""Which family of networks a model belongs to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import lru_cache
from typing import Final

from estimator.layer import Layer
from estimator.types import Family

_ATTENTION: Final = ("Attention", "Attn", "Transformer", "Mixer", "FNetBasicFourier", "GPSA", "XCA")
_BLOCKS: Final = (
    "Bert",
    "GPT",
    "Llama",
    "Mistral",
    "T5",
    "XLNet",
    "OPT",
    "Bloom",
    "ViT",
    "Cvt",
    "Wav2Vec2",
    "Hubert",
    "WavLM",
)


def family_of(layers: Iterable[Layer]) -> Family:
    """Tell the family from the types of a model's layers.

    Args:
        layers: all layers, containers too.

    Returns:
        ``transformer`` where something attends, else ``cnn`` where something convolves, else ``mlp``.
    """
    return family_of_types({layer.type for layer in layers})


def family_of_types(types: Set[str]) -> Family:
    """Tell the family from the types of a model's layers."""
    hints = set(map(_hint, types))
    return next((family for hint, family in _FAMILIES if hint in hints), "mlp")


_FAMILIES: Final[tuple[tuple[str, Family], ...]] = (
    ("attends", "transformer"),
    ("convolves", "cnn"),
    ("embeds", "transformer"),
)


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def _hint(type_: str) -> str:
    """What one type tells of its model's family."""
    if type_.startswith(_BLOCKS) or any(mark in type_ for mark in _ATTENTION):
        return "attends"
    if type_ == "Conv1D" or ("Embedding" in type_ and "Bag" not in type_ and "Conv" not in type_):
        return "embeds"
    return "convolves" if "Conv" in type_ else ""
