"""Which family of networks a model belongs to. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from estimator.types import Family, Layer

_ATTENTION = ("Attention", "Attn", "TransformerEncoder", "TransformerDecoder", "Mixer", "FNetBasicFourier")
_BLOCKS = ("Bert", "GPT", "Llama", "Mistral", "T5", "XLNet", "OPT", "Bloom", "ViT")


def family_of(layers: Iterable[Layer]) -> Family:
    """Tell the family from the types of a model's layers.

    Args:
        layers: all layers, containers too.

    Returns:
        ``transformer`` where something attends, else ``cnn`` where something convolves, else ``mlp``.
    """
    types = {layer.type for layer in layers}
    if any(mark in type_ for type_ in types for mark in _ATTENTION):
        return "transformer"
    if any(type_.startswith(_BLOCKS) for type_ in types):
        return "transformer"
    if any("Conv" in type_ and type_ != "Conv1D" for type_ in types):
        return "cnn"
    if "Conv1D" in types or any("Embedding" in type_ and "Bag" not in type_ for type_ in types):
        return "transformer"
    return "mlp"
