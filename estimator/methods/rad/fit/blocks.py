"""Tabulates what blocks keep in their own code (`own`), by format, type and what is inside. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_high, median_low
from typing import Final

from estimator.methods.rad.own_code import HIDDEN, NO_CODE, OF_MODEL, OwnCode, of_model
from estimator.methods.rad.unopened import INSIDE

_KEPT: Final = 1  # place of the first of what hidden blocks keep; before it is what torchinfo counts
_NEAR: Final = 0.02
# Bytes for each element by which a model's blocks differ from others of their type, so that they are noted apart.
_APART: Final = 0.5
# Hidden blocks of one name are alike where families differ by this factor at most.
_ALIKE: Final = 2.0
# What hidden blocks hold, without what grows with the tokens.
_FIXED: Final = 6
# More than this for each element is no property of a block: its output is far smaller than what it works on.
_MOST: Final = 200.0


@dataclass(frozen=True)
class Noted:
    """What the blocks of one type keep of their own in one model.

    Attributes:
        format: of the summary.
        type, inside: of the block; nothing is inside one that is hidden.
        names: stands for the types of all layers that the summary shows.
        general: by which types and insides it is known, too: without the name that transformers puts before them.
        group: the model's architecture family.
        bytes: by precision, for each element; None where it was not noted. Of hidden blocks, what `own_code.Hidden`
            says.
    """

    format: str
    type: str
    inside: str
    names: str
    general: tuple[tuple[str, str], ...]
    group: str
    bytes: tuple[float | None, ...]


def tables(items: Iterable[Noted], without_group: str = "") -> dict[str, dict[str, dict[str, list[float]]]]:
    """Tabulate what was noted, by format, type and what is inside.

    Blocks of one name do not always do the same: models in which they keep something else are tabulated apart.

    Args:
        items: what was noted.
        without_group: an architecture family that is left out.
    """
    seen: dict[tuple[str, str, str], dict[str, list[Noted]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.group != without_group:
            seen[item.format, item.type, of_model(item.inside, item.names)][item.group].append(item)
            others = item.general if item.type in NO_CODE else ((item.type, item.inside), *item.general)
            for type_, inner in others:
                seen[item.format, type_, inner][item.group].append(item)
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (format_, type_, inner), groups in sorted(seen.items()):
        hidden = format_ == HIDDEN
        if hidden and OF_MODEL not in inner and not _agree(groups):
            continue
        places = len(next(iter(groups.values()))[0].bytes)
        values = [_middle(groups, place) for place in range(places)]
        first = next((value for value in values[_KEPT if hidden else 0 :] if value is not None), None)
        if first is None:
            continue
        made = [round(first if value is None else value, 3) for value in values]
        known = found.setdefault(format_, {}).setdefault(type_, {})
        usual, apart, _ = inner.partition(OF_MODEL)
        like = known.get(inner.partition(INSIDE)[0]) or known.get(usual)
        if _near(made, like, hidden) if apart else not hidden and max(map(abs, made)) > _MOST:
            continue
        known[inner] = made[:_FIXED] if hidden and not any(made[_FIXED:]) else made
    return found


def _agree(groups: Mapping[str, Sequence[Noted]]) -> bool:
    """Tell whether hidden blocks of one name keep as much in several families: else the name says nothing of others."""
    kept = [median((item.bytes[0] or 1.0) * (item.bytes[_KEPT] or 0.0) for item in items) for items in groups.values()]
    return len(kept) > 1 and max(kept) <= _ALIKE * min(kept)


def _near(made: Sequence[float], usual: Sequence[float] | None, hidden: bool) -> bool:
    """Tell whether a model's blocks do what blocks of their type do anywhere."""
    if usual is None:
        return False
    share, least = (_NEAR, _NEAR) if hidden else (0.0, _APART)
    like = [*usual, *[0.0] * (len(made) - len(usual))]
    return all(abs(one - other) <= least + share * abs(other) for one, other in zip(made, like, strict=True))


def _middle(groups: Mapping[str, list[Noted]], place: int) -> float | None:
    """Take the median over families of the median over models; of two in the middle the smaller one."""
    each = []
    for items in groups.values():
        values = [value for item in items if (value := item.bytes[place]) is not None]
        if values:
            each.append(median(values))
    return min(median_low(each), median_high(each), key=abs) if each else None


class Blocks:
    """What was noted of blocks: all of it, and without what one architecture family adds."""

    def __init__(self, items: Sequence[Noted]) -> None:
        self.tables = tables(items)
        self._by_type: dict[tuple[str, str], list[Noted]] = defaultdict(list)
        self._of_group: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for item in items:
            for type_ in {item.type, *(other for other, _ in item.general)}:
                self._by_type[item.format, type_].append(item)
                self._of_group[item.group].add((item.format, type_))
        self._without: dict[str, OwnCode] = {}

    def without(self, group: str) -> OwnCode:
        """Give the tables as they were if an architecture family had not been noted."""
        if group not in self._without:
            changed = {format_: dict(types) for format_, types in self.tables.items()}
            for format_, type_ in self._of_group.get(group, ()):
                others = tables(self._by_type[format_, type_], group)
                changed[format_][type_] = others.get(format_, {}).get(type_, {})
            self._without[group] = OwnCode(changed)
        return self._without[group]
