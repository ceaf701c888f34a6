"""What a catalogue says of one real model: where it comes from and how it is fed. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from estimator.dataset.specs import Source
from estimator.types import Family

Feed = Literal[
    "image",
    "dense_image",
    "tokens",
    "seq2seq",
    "audio",
    "speech_seq2seq",
    "spectrogram",
    "clip",
    "video",
    "clip_video",
    "masked_image",
    "series",
    "plain",
]


@dataclass(frozen=True)
class Entry:
    """One real model.

    Attributes:
        source: its library.
        name: its name there; for transformers ours, with the head.
        group: architecture family.
        family: what the estimator takes it for.
        feed: what its inputs are.
        size: side of its pictures, or 0.
        flexible: it takes pictures of other sides.
        model_type: transformers: the configuration's ``model_type``.
        head: transformers: the class that builds it.
        config: transformers: what differs from the configuration's defaults.
        longest: longest sequence it takes.
        attention: implementation of attention asked for, empty for the library's default.
    """

    source: Source
    name: str
    group: str
    family: Family
    feed: Feed = "image"
    size: int = 224
    flexible: bool = False
    model_type: str = ""
    head: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    longest: int = 0
    attention: str = ""


def decoder(width: int, hidden: int, layers: int, heads: int, groups: int, vocab: int, **more: Any) -> dict[str, Any]:
    """Configuration of a decoder as transformers' configurations of Llama and its kin name it."""
    return {
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "vocab_size": vocab,
        **more,
    }
