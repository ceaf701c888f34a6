"""Which configurations of which models each part of the collections measures: equal seeds draw equal ones.

Some are drawn where little was measured, or nothing, by what the data set holds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from estimator.dataset.catalogues import (
    catalogue,
    eleventh,
    fifth,
    first,
    fourth,
    ninth,
    second,
    seventh,
    sixth,
    sized,
    tenth,
    third,
    twelfth,
    usual,
)
from estimator.dataset.catalogues.draws import generate_real
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.catalogues.fresh import (
    ELEVENTH,
    FIFTH,
    FOURTH,
    NINTH,
    SECOND,
    SEVENTH,
    SIXTH,
    TENTH,
    THIRD,
    TWELFTH,
)
from estimator.dataset.catalogues.gaps import few, fill
from estimator.dataset.collect import bundles
from estimator.dataset.specs import FITTED, Source, Spec, place_of
from estimator.dataset.store import committed

SEED = 11
# Of models that were there, these families' are measured more often: most jobs train such.
_POPULAR = (
    "bert clip convnext deeplab densenet distilbert efficientnet gpt2 llama mobilenet resnet swin t5 unet vgg vit "
    "wav2vec2 whisper"
)


@dataclass(frozen=True)
class Part:
    """A part of a collection.

    Attributes:
        entries: yields the models of the collection.
        chosen: says whether a model belongs to the part.
        workloads: how many configurations of each.
        infer: share of configurations that only infer.
        judges: its rows judge, though families of theirs are fitted to.
        drawn: its rows say for good that they are configurations drawn at random for a measured model.
        gaps: its configurations are drawn where little was measured of a model that is fitted to.
        few: its configurations are of precisions and kinds of which at most so many runs of a model are fitted to.
        beside: the part, drawn with the same seed, none of whose configurations it holds.
        grid: its configurations are those in which these widely used models are usually run, not drawn.
        own: all of its configurations are measured by a process of their own too.
        sides: its pictures' sides are drawn from these, of models that take any.
    """

    entries: Callable[[], Iterable[Entry]]
    chosen: Callable[[Entry], bool]
    workloads: int
    infer: float = 0.2
    judges: bool = False
    drawn: bool = False
    gaps: bool = False
    few: int | None = None
    beside: str = ""
    grid: usual.Usual | None = None
    own: bool = False
    sides: tuple[int, ...] = ()


# Tokens from which on they are many, and the longest sound.
_LONG, _MOST_SECONDS = 1024, 30


def _first(number: int) -> Callable[[], Iterator[Entry]]:
    """Yield the models of the first collections."""
    return lambda: (entry for entries in catalogue.COLLECTIONS[:number] for entry in entries())


def _by_name(salt: str, parts: int, place: int = 0) -> Callable[[Entry], bool]:
    """Choose one of so many equal parts of all models, by their names."""
    return lambda entry: place_of(f"rad-{salt}:{entry.source}:{entry.name}", parts) == place


# Models of the eleventh and of the nineteenth collection that nothing is fitted to.
_apart, _third = _by_name("apart", 5), _by_name("third", 3)


def _popular(entry: Entry) -> bool:
    return entry.group in _POPULAR.split()


def _again(draw: int, popular: int = 75, others: int = 17) -> Callable[[Entry], bool]:
    """Draw models that are measured again by their names: so many percent of popular families, and of others."""

    def chosen(entry: Entry) -> bool:
        place = place_of(f"rad-known-{draw}:{entry.source}:{entry.name}", 100)
        return not entry.attention and place < (popular if _popular(entry) else others)

    return chosen


def _half(number: int) -> Callable[[Entry], bool]:
    """Choose every other model by its name, of families that are fitted to."""
    half = _by_name("half", 2, number)
    return lambda entry: not entry.attention and entry.group not in FIFTH and half(entry)


def _twelve(entry: Entry) -> bool:
    """Choose measured models that the eleventh collection did not draw: 350 of those of which no library is needed."""
    return _again(12, 20, 20)(entry) and not _again(11, 20, 20)(entry)


def _less_used(entry: Entry) -> bool:
    """Choose models of the widely used libraries that no grid of usual configurations holds."""
    return entry.source in _WIDELY[:3] and not usual.FIRST.has(entry) and not usual.SECOND.has(entry)


def _longer() -> Iterator[Entry]:
    """Yield models that listen, which take more seconds than they are mostly measured with."""
    return (replace(entry, longest=_MOST_SECONDS) for entry in _first(11)() if entry.feed == "audio")


_BEFORE = {e.group for e in (*first.entries(), *second.entries())}


PARTS = {
    "fresh2": Part(second.entries, lambda e: e.group in SECOND, 6),
    "more2": Part(second.entries, lambda e: e.group not in SECOND, 5),
    "infer1": Part(first.entries, lambda e: not e.attention, 2, 0.6),
    "fresh3": Part(third.entries, lambda e: e.group in THIRD, 6),
    "new3": Part(third.entries, lambda e: e.group not in THIRD | _BEFORE, 6),
    "more3": Part(third.entries, lambda e: e.group in _BEFORE, 4),
    "again1": Part(first.entries, lambda e: not e.attention, 2),
    "again2": Part(second.entries, lambda e: True, 3),
    "again3": Part(_first(4), _half(0), 3),
    "again4": Part(_first(4), _half(1), 3),
    "again5": Part(_first(5), lambda e: not e.attention and _popular(e), 5, 0.35),
    "again6": Part(_first(5), lambda e: not e.attention and not _popular(e), 2, 0.6),
    "again7": Part(_first(5), lambda e: not e.attention and _popular(e), 12, 0.2, gaps=True),
    "again8": Part(_first(5), lambda e: not e.attention and not _popular(e), 9, 0.2, gaps=True),
    "again9": Part(sixth.entries, lambda e: not e.attention, 12, 0.2, gaps=True),
    "fresh4": Part(fourth.entries, lambda e: e.group in FOURTH, 6),
    "kin4": Part(fourth.entries, lambda e: e.group not in FOURTH, 3),
    "known4": Part(_first(3), _again(4), 2, drawn=True),
    "fresh5": Part(_first(5), lambda e: e.group in FIFTH, 6),
    "kin5": Part(fifth.entries, lambda e: e.group not in FIFTH, 3),
    "known5": Part(_first(4), lambda e: e.group not in FIFTH and _again(5)(e), 2, drawn=True),
    "fresh6": Part(_first(6), lambda e: e.group in SIXTH, 6),
    "kin6": Part(sixth.entries, lambda e: e.group not in SIXTH, 3),
    "known6": Part(_first(5), lambda e: e.group not in SIXTH and _again(6)(e), 1, drawn=True),
    "fresh7": Part(seventh.entries, lambda e: e.group in SEVENTH, 9),
    "kin7": Part(seventh.entries, lambda e: e.group not in SEVENTH, 6),
    "known7": Part(_first(6), lambda e: e.group not in SEVENTH and _again(7)(e), 2, drawn=True),
    "known8": Part(_first(6), lambda e: e.group not in SEVENTH and _again(8, 60, 60)(e), 1, drawn=True),
    "again10": Part(_first(6), lambda e: not e.attention, 1, few=1, beside="known8"),
    "fresh9": Part(ninth.entries, lambda e: e.group in NINTH, 8),
    "kin9": Part(ninth.entries, lambda e: e.group not in NINTH, 4),
    "known9": Part(_first(7), _again(9, 28, 28), 1, drawn=True),
    "again11": Part(seventh.entries, lambda e: not e.attention, 12, 0.2, gaps=True),
    "fresh10": Part(tenth.entries, lambda e: e.group in TENTH, 8),
    "kin10": Part(tenth.entries, lambda e: e.group not in TENTH, 4),
    "known10": Part(_first(8), _again(10, 20, 20), 1, drawn=True),
    "again12": Part(ninth.entries, lambda e: not e.attention, 12, 0.2, gaps=True),
    "fresh11": Part(eleventh.entries, lambda e: e.group in ELEVENTH, 6),
    "kin11": Part(eleventh.entries, lambda e: e.group not in ELEVENTH and _apart(e), 4, judges=True),
    "more11": Part(eleventh.entries, lambda e: e.group not in ELEVENTH and not _apart(e), 6),
    "known11": Part(
        _first(9),
        lambda e: e.source != "library" and e.group not in TENTH and _again(11, 20, 20)(e),
        1,
        judges=True,
        drawn=True,
    ),
    "fresh12": Part(twelfth.entries, lambda e: e.group in TWELFTH, 3),
    "kin12": Part(twelfth.entries, lambda e: e.group not in TWELFTH, 2, judges=True),
    "known12": Part(_first(10), lambda e: e.source != "library" and _twelve(e), 1, judges=True, drawn=True),
    "usual13": Part(_first(11), usual.FIRST.has, 0, grid=usual.FIRST),
    "known13": Part(_first(11), usual.FIRST.has, 2, judges=True, drawn=True, own=True),
    "usual14": Part(_first(11), usual.SECOND.has, 0, grid=usual.SECOND),
    "known14": Part(_first(10), lambda e: e.source != "library" and _again(14, 20, 20)(e), 1, judges=True, drawn=True),
    "usual15": Part(_first(11), lambda e: usual.FIRST.has(e) and usual.goes_elsewhere(e), 0, grid=usual.ELSEWHERE),
    "known15": Part(
        _first(11),
        lambda e: (usual.FIRST.has(e) or usual.SECOND.has(e)) and e.flexible,
        2,
        judges=True,
        drawn=True,
        sides=(32, 48, 64, 96, 128, 320, 384, 448, 512),
    ),
    "dense16": Part(_first(11), lambda e: usual.DENSE.has(e) and e.feed == "dense_image", 0, grid=usual.DENSE),
    "heard16": Part(_longer, usual.HEARD.has, 0, grid=usual.HEARD),
    "long16": Part(
        _first(11),
        lambda e: usual.LONG.has(e) and e.feed == "tokens" and e.longest >= _LONG,
        0,
        grid=usual.LONG,
    ),
    "small16": Part(_first(11), lambda e: usual.SMALL.has(e) and e.flexible, 0, grid=usual.SMALL),
    "again17": Part(_first(11), lambda e: not e.attention and _less_used(e), 3, 0.2, gaps=True),
    "known18": Part(_first(11), usual.FIRST.has, 2, judges=True, drawn=True, own=True),
    "all18": Part(_first(10), lambda e: e.source != "library" and _again(18, 20, 20)(e), 1, judges=True, drawn=True),
    "sized19": Part(sized.entries, lambda e: not _third(e), 4),
    "kin19": Part(sized.entries, _third, 4, judges=True),
    "more12": Part(eleventh.entries, lambda e: e.group not in ELEVENTH and _apart(e) and not _twelve(e), 3),
}
"""Parts by name and collection: fresh families, other new ones, more of families that were there, these once more."""


# Of models that little was measured of, those of widely used libraries come first.
_WIDELY: tuple[Source, ...] = ("torchvision", "timm", "transformers", "plain", "library")


def there() -> set[str]:
    """Ids of all that the data set holds."""
    return {row.spec.id for row in committed().rows}


def _measured() -> tuple[Spec, ...]:
    """Configurations that are fitted to, with the libraries' own choice of attention."""
    return tuple(row.spec for row in committed().rows if row.split in FITTED and not row.spec.arch.get("attention"))


def specs(part: str, seed: int = SEED) -> list[Spec]:
    """Draw one part."""
    about = PARTS[part]
    entries = list(about.entries())
    random.Random(SEED).shuffle(entries)  # noqa: S311 - an order, no secret
    chosen = [e for e in entries if about.chosen(e)]
    if about.grid is not None:
        return list(about.grid.specs(chosen))
    if about.gaps:
        return list(fill(chosen, _measured(), about.workloads, seed, about.infer))
    if about.few is not None:
        chosen.sort(key=lambda entry: _WIDELY.index(entry.source))
        taken = there() | {spec.id for spec in specs(about.beside, seed)}
        return list(few(chosen, _measured(), about.few, seed, taken))
    return list(generate_real(about.workloads, seed, chosen, infer=about.infer, sides=about.sides))


def mixed(parts: Sequence[str], seed: int = SEED) -> list[Spec]:
    """Draw parts and mix them model by model, each in proportion, so that a run that is cut off has some of all."""
    placed = [
        (place / len(found), number, bundle)
        for number, found in enumerate(bundles(specs(part, seed)) for part in parts)
        for place, bundle in enumerate(found)
    ]
    placed.sort(key=lambda item: item[:2])
    return [spec for _, _, bundle in placed for spec in bundle]
