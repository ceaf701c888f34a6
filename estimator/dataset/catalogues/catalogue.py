"""All real models of the data set, collection by collection, and which of them a configuration is of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from estimator.dataset.catalogues import (
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
)
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.specs import Spec

COLLECTIONS: tuple[Callable[[], Iterator[Entry]], ...] = tuple(
    module.entries
    for module in (first, second, third, fourth, fifth, sixth, seventh, ninth, tenth, eleventh, twelfth, sized)
)
"""What yields the models of each collection that brought new ones, the first one first."""


def entry_of(spec: Spec) -> Entry:
    """Return the entry that a configuration of a real model was drawn from.

    Raises:
        KeyError: no such model is in the catalogue.
    """
    key = (spec.source, spec.name, str(spec.arch.get("attention", "")))
    try:
        return _index()[key]
    except KeyError:
        raise KeyError(f"{spec.source} model {spec.name!r} is not in the data set's catalogue") from None


@cache
def _index() -> dict[tuple[str, str, str], Entry]:
    return {(e.source, e.name, e.attention): e for entries in COLLECTIONS for e in entries()}
