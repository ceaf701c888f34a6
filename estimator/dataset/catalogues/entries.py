"""What a catalogue says of one real model: where it comes from and how it is fed. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from estimator.dataset.catalogues.heads import S2S
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

_NOTHING: Mapping[str, Any] = {}


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
        others: transformers' models that fit none of these: name, model type, architecture family, family, feed, class,
            configuration, side of pictures, longest sequence.
    """

    vision: tuple[tuple[Source, Family, Feed, Mapping[str, str]], ...]
    text: tuple[Text, ...]
    pictures: tuple[Picture, ...]
    plain: Mapping[str, tuple[Family, str, int]] = field(default_factory=dict)
    audio: tuple[Audio, ...] = ()
    others: tuple[Other, ...] = ()

    def entries(self) -> Iterator[Entry]:
        """Yield every model."""
        for source, family, feed, groups in self.vision:
            for group, name, size in named(groups):
                yield Entry(source, name, group, family, feed, size)
        for group, (family, names, longest) in self.plain.items():
            for _, name, own in named({group: names}, longest):
                yield Entry("plain", name, group, family, "plain", 0, longest=own)
        yield from language(self.text)
        yield from pictures(self.pictures)
        yield from sounds(self.audio)
        yield from others(self.others)


def named(groups: Mapping[str, str], usual: int = 224) -> Iterator[tuple[str, str, int]]:
    """Read tables of names by architecture family: ``name`` or ``name:number``, divided by spaces.

    Yields:
        Family, name and number, which is the side of pictures or the longest sequence; ``usual`` where none is said.
    """
    for group, names in groups.items():
        for item in names.split():
            name, _, number = item.partition(":")
            yield group, name, int(number or usual)


Text = tuple[str, str, str, tuple[str, ...], dict[str, Any], int]
Picture = tuple[str, str, str, Family, str, Feed, dict[str, Any]]
Audio = tuple[str, str, str, dict[str, Any]]
Other = tuple[str, str, str, Family, Feed, str, dict[str, Any], int, int]


def language(rows: Iterable[Text], attentions: Iterable[str] = ("",)) -> Iterator[Entry]:
    """Yield models of words: each with each of its heads, in each implementation of attention."""
    for name, model_type, group, heads, config, longest in rows:
        for head in heads:
            feed: Feed = "seq2seq" if head == S2S else "tokens"
            auto, full = f"AutoModelFor{head}", f"{name}-{head}"
            own = Entry("transformers", full, group, "transformer", feed, 0, False, model_type, auto, config, longest)
            yield from (replace(own, attention=attention) for attention in attentions)


def pictures(rows: Iterable[Picture]) -> Iterator[Entry]:
    """Yield models of pictures; those whose row names no class classify them."""
    for name, model_type, group, family, own, feed, config in rows:
        longest = {"siglip": 64}.get(model_type, 77) if feed == "clip" else 0
        head = own or "AutoModelForImageClassification"
        size = config.get("image_size", 224) if feed == "segment" else 224
        yield Entry("transformers", name, group, family, feed, size, False, model_type, head, config, longest)


def sounds(rows: Iterable[Audio]) -> Iterator[Entry]:
    """Yield models that listen for five seconds and classify what they hear."""
    for name, model_type, group, config in rows:
        head = "AutoModelForAudioClassification"
        yield Entry("transformers", name, group, "transformer", "audio", 0, False, model_type, head, config, 5)


def others(rows: Iterable[Other]) -> Iterator[Entry]:
    """Yield models of any other kind."""
    for name, kind, group, family, feed, head, config, size, longest in rows:
        yield Entry("transformers", name, group, family, feed, size, False, kind, head, config, longest)


def classifier(
    name: str,
    kind: str,
    config: Mapping[str, Any] = _NOTHING,
    *,
    group: str = "",
    family: Family = "transformer",
    head: str = "",
) -> Picture:
    """Make the row of a model that classifies pictures; its architecture family is its type, where none is said."""
    return name, kind, group or kind, family, head, "image", dict(config)


def labeller(
    name: str,
    kind: str,
    config: Mapping[str, Any] = _NOTHING,
    *,
    family: Family = "transformer",
    head: str = "AutoModelForSemanticSegmentation",
) -> Picture:
    """Make the row of a model that labels each pixel of a picture; its architecture family is its type."""
    return name, kind, kind, family, head, "segment", dict(config)


def pair(name: str, kind: str, config: Mapping[str, Any] = _NOTHING, *, group: str = "") -> Picture:
    """Make the row of a model that compares pictures with words; its family is its type, where none is said."""
    return name, kind, group or kind, "transformer", "AutoModel", "clip", dict(config)


def whisper(name: str, config: dict[str, Any]) -> Other:
    """Make the row of a model that writes down what is said in thirty seconds."""
    head = "AutoModelForSpeechSeq2Seq"
    return name, "whisper", "whisper", "transformer", "speech_seq2seq", head, config, 0, 128
