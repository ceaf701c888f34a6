"""Which measured models have almost the same types of layers as a request's. Pure.

A variant of a measured model has a block more, or another one in its place: what its relatives leave says more of it
than nothing does.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from estimator.breath import breathe

# How types are written: their places in a list.
_PACKED: Final = struct.Struct("<H")
# Models are looked for by types that so small a share of all have, or so few: those of a library's own blocks.
_RARE: Final = 0.02
_FEW: Final = 3
# So many that have the most of them are compared, and so many are given at most.
_COMPARED: Final = 8
_GIVEN: Final = 4
# The share of common types among all of both, from which on models resemble each other.
_LEAST: Final = 0.6


class Resembling:
    """Types of layers of measured models, to be looked for."""

    def __init__(self, types: Sequence[str], sets: Mapping[str, Sequence[Sequence[str]]]) -> None:
        """Read what `written` made.

        Args:
            types: names of all types.
            sets: for each format what stands for the types of a model's layers, and which they are.

        Raises:
            ValueError, TypeError, IndexError, AttributeError: it is damaged.
        """
        self._types: list[str] = [str(type_) for type_ in types]
        self._sets: dict[str, list[tuple[str, bytes]]] = {}
        self._having: dict[str, dict[str, list[int]]] = {}
        for format_, blocks in sets.items():
            packed = [(str(key), b64decode(places, validate=True)) for key, places in blocks]
            if any(len(places) % _PACKED.size for _, places in packed):
                raise ValueError("types of layers are damaged")
            having: dict[int, list[int]] = {}
            for number, (_, places) in enumerate(packed):
                breathe()
                for place in _places(places):
                    having.setdefault(place, []).append(number)
            most = max(_RARE * len(packed), _FEW)
            self._sets[format_] = packed
            self._having[format_] = {
                self._types[place]: numbers for place, numbers in having.items() if len(numbers) <= most
            }

    @property
    def blocks(self) -> frozenset[str]:
        """What stands for the types of each model's layers."""
        return frozenset(key for packed in self._sets.values() for key, _ in packed)

    def to(self, format_: str, names: frozenset[str], blocks: str) -> list[tuple[str, float]]:
        """Find what resembles a model.

        Args:
            format_: its summary's format.
            names: types of its layers.
            blocks: what stands for them, which is not looked for.

        Returns:
            What stands for the types of others' layers, and how much they resemble: 1 if all types are the same; the
            most alike first.
        """
        having, sets = self._having.get(format_), self._sets.get(format_)
        if not having or not sets:
            return []
        common: dict[int, int] = {}
        for type_ in names:
            breathe()
            for number in having.get(type_, ()):
                common[number] = common.get(number, 0) + 1
        found: list[tuple[float, str]] = []
        for number in sorted(common, key=lambda number: (-common[number], number))[:_COMPARED]:
            other, places = sets[number]
            types = {self._types[place] for place in _places(places)}
            both = len(names & types)
            alike = both / (len(names) + len(types) - both)
            if alike > _LEAST and other != blocks:
                found.append((-alike, other))
        return [(other, -less) for less, other in sorted(found)[:_GIVEN]]


def written(sets: Iterable[tuple[str, str, frozenset[str]]]) -> dict[str, Any]:
    """Write types of layers as `Resembling` reads them.

    Args:
        sets: format, what stands for the types, and these, of each model.
    """
    models = sorted({(format_, blocks): names for format_, blocks, names in sets}.items())
    types = sorted(frozenset[str]().union(*(names for _, names in models)))
    at = {type_: place for place, type_ in enumerate(types)}
    by_format: dict[str, list[list[str]]] = {}
    for (format_, blocks), names in models:
        packed = b"".join(_PACKED.pack(place) for place in sorted(at[type_] for type_ in names))
        by_format.setdefault(format_, []).append([blocks, b64encode(packed).decode()])
    return {"types": types, "sets": by_format}


def _places(packed: bytes) -> list[int]:
    return [place for (place,) in _PACKED.iter_unpack(packed)]
