"""What a catalogue says of one real model: where it comes from and how it is fed. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
    "timed_series",
    "listen",
    "features",
    "segment",
    "plain",
    "pixels",
    "detect",
    "masks",
    "depth",
    "caption",
    "read_picture",
    "placed",
    "gridded",
    "films",
    "mel",
    "trajectory",
    "boxes",
    "flow",
    "given",
    "volume",
    "words",
]

MLM, CLS, TOK, QA, CLM, S2S = (
    "MaskedLM",
    "SequenceClassification",
    "TokenClassification",
    "QuestionAnswering",
    "CausalLM",
    "Seq2SeqLM",
)
# What configurations of transformers' models share: the base size, attention with small keys, experts.
BASE: Mapping[str, Any] = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
LATENT: Mapping[str, Any] = {
    "q_lora_rank": 384,
    "kv_lora_rank": 256,
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 64,
    "v_head_dim": 64,
}
ROUTED: Mapping[str, Any] = {"moe_intermediate_size": 512, "num_experts_per_tok": 2}
SHARED: Mapping[str, Any] = {**ROUTED, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 2, "topk_group": 1}


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
        head: transformers: the class that builds it; other libraries: what builds it, with its modules' names.
        config: transformers: what differs from the configuration's defaults; other libraries: what it is built with.
        longest: longest sequence it takes.
        attention: implementation of attention asked for, empty for the library's default.
        given: of other libraries, and of what transformers has in a form of its own: what goes in, see
            `estimator.dataset.libraries`.
        target: of these: its loss, as plain models say it, or ``own``: it gives out its loss.
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
    given: str = ""
    target: str = ""


@dataclass(frozen=True)
class Collection:
    """The real models of one collection, as tables.

    Attributes:
        vision: models of libraries of pictures: library, family and feed, with names by architecture family.
        plain: models that users write themselves: family, names and longest sequence (0: none) of each architecture
            family.
        text: transformers' models of words: name, model type, architecture family, heads, configuration, longest
            sequence.
        pictures: transformers' models of pictures: name, model type, architecture family, family, class, feed,
            configuration.
        audio: transformers' models that listen for five seconds: name, model type, architecture family, configuration.
        others: what fits none of these.
    """

    vision: tuple[tuple[Source, Family, Feed, Mapping[str, str]], ...]
    plain: Mapping[str, tuple[Family, str, int]]
    text: tuple[Text, ...]
    pictures: tuple[Picture, ...]
    audio: tuple[Audio, ...] = ()
    others: tuple[Entry, ...] = ()

    def entries(self) -> Iterator[Entry]:
        """Yield every model."""
        for source, family, feed, groups in self.vision:
            yield from _library(source, family, feed, groups)
        yield from _plain(self.plain)
        yield from _language(self.text)
        yield from _pictures(self.pictures)
        yield from _sounds(self.audio)
        yield from self.others


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


def halves(width: int, hidden: int, layers: int, heads: int) -> dict[str, Any]:
    """Configuration of an encoder and a decoder as transformers' models after BART name it."""
    one = {"layers": layers, "ffn_dim": hidden, "attention_heads": heads}
    return {"d_model": width, **{f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in one.items()}}


def _numbered(names: str, usual: int) -> Iterator[tuple[str, int]]:
    """Read ``name`` or ``name:number``, divided by spaces."""
    for item in names.split():
        name, _, number = item.partition(":")
        yield name, int(number or usual)


def _library(source: Source, family: Family, feed: Feed, groups: Mapping[str, str]) -> Iterator[Entry]:
    """Yield models of a library of pictures; a name may say its pictures' side."""
    for group, names in groups.items():
        for name, size in _numbered(names, 224):
            yield Entry(source, name, group, family, feed, size)


def _plain(groups: Mapping[str, tuple[Family, str, int]]) -> Iterator[Entry]:
    for group, (family, names, longest) in groups.items():
        for name, own in _numbered(names, longest):
            yield Entry("plain", name, group, family, "plain", 0, longest=own)


Text = tuple[str, str, str, tuple[str, ...], dict[str, Any], int]
Picture = tuple[str, str, str, Family, str, Feed, dict[str, Any]]
Audio = tuple[str, str, str, dict[str, Any]]


def _language(rows: Iterable[Text]) -> Iterator[Entry]:
    for name, model_type, group, heads, config, longest in rows:
        for head in heads:
            feed: Feed = "seq2seq" if head == "Seq2SeqLM" else "tokens"
            auto, full = f"AutoModelFor{head}", f"{name}-{head}"
            yield Entry("transformers", full, group, "transformer", feed, 0, False, model_type, auto, config, longest)


def _pictures(rows: Iterable[Picture]) -> Iterator[Entry]:
    for name, model_type, group, family, own, feed, config in rows:
        longest = {"siglip": 64}.get(model_type, 77) if feed == "clip" else 0
        head = own or "AutoModelForImageClassification"
        size = config.get("image_size", 224) if feed == "segment" else 224
        yield Entry("transformers", name, group, family, feed, size, False, model_type, head, config, longest)


def _sounds(rows: Iterable[Audio]) -> Iterator[Entry]:
    for name, model_type, group, config in rows:
        head = "AutoModelForAudioClassification"
        yield Entry("transformers", name, group, "transformer", "audio", 0, False, model_type, head, config, 5)
