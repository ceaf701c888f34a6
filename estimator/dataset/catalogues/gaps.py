"""Draws more configurations of measured models where little of them was measured. Pure.

A measured run tells most of runs of the same kind and precision, of nearly its batch size and of samples of nearly its
size. Of many configurations that might be run those are chosen that bring all of them nearest to a measured one.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache, partial
from math import log2
from typing import get_args

from estimator.dataset.catalogues.draws import drawn_workload
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.specs import PRECISIONS, Spec
from estimator.types import Kind

# How far configurations are apart: for another kind, another precision, each doubling of batch size and sample. As in
# `estimator.methods.rad.known`, but that inference is taken to be nearer to training: most jobs train.
_KIND = 3.0
_PRECISION = 1.5
_BATCH = 0.4
_SAMPLE = 0.6
_CANDIDATES = 40

_Place = tuple[str, str, int, int]  # kind, precision, batch size, size of a sample


def fill(entries: Iterable[Entry], measured: Iterable[Spec], workloads: int, seed: int, infer: float) -> Iterator[Spec]:
    """Draw configurations of measured models, at the sizes and lengths of sample that were measured.

    Args:
        entries: models; those of which nothing was measured are left out.
        measured: what was measured.
        workloads: how many of each model.
        seed: equal seeds give equal configurations, where the same was measured.
        infer: share of the configurations drawn from that only infer.

    Yields:
        The configurations of one model after another, small batches first.
    """
    for entry, before in _with_runs(entries, measured):
        rng = random.Random(f"{entry.source}:{entry.name}:gaps:{seed}")  # noqa: S311 - no secret
        drawn = [drawn_workload(rng.choice(before), entry, rng, infer) for _ in range(_CANDIDATES)]
        yield from sorted(_chosen([spec for spec in drawn if spec], before, workloads), key=_order)


def few(entries: Iterable[Entry], measured: Iterable[Spec], most: int, seed: int, taken: Set[str]) -> Iterator[Spec]:
    """Draw a configuration in each precision and kind that few runs of a model were measured in.

    Args:
        entries: models; those of which nothing was measured are left out.
        measured: what was measured.
        most: how many runs of a precision and kind are few.
        seed: equal seeds give equal configurations, where the same was measured.
        taken: ids of configurations that are not drawn.

    Yields:
        The configurations of one model after another, small batches first. Models that were never run in one of the
        precisions and kinds come before the others.
    """
    found: list[tuple[int, list[Spec]]] = []
    for entry, before in _with_runs(entries, measured):
        rng = random.Random(f"{entry.source}:{entry.name}:few:{seed}")  # noqa: S311 - no secret
        runs = Counter((spec.precision, spec.kind) for spec in before)
        counts = {(precision, kind): runs[precision, kind] for precision in PRECISIONS for kind in get_args(Kind)}
        chosen: list[Spec] = []
        for precision, kind in (key for key, count in counts.items() if count <= most):
            drawn = [drawn_workload(rng.choice(before), entry, rng, 0.0) for _ in range(_CANDIDATES)]
            alike = [replace(spec, precision=precision, kind=kind) for spec in drawn if spec]
            chosen += _chosen([spec for spec in alike if spec.id not in taken], before, 1)
        found.append((min(counts.values()), sorted(chosen, key=_order)))
    for _, specs in sorted(found, key=lambda item: item[0]):
        yield from specs


def _with_runs(entries: Iterable[Entry], measured: Iterable[Spec]) -> Iterator[tuple[Entry, list[Spec]]]:
    """Yield the models of which something was measured, each with that."""
    found: Mapping[tuple[str, str], list[Spec]] = defaultdict(list)
    for spec in measured:
        found[spec.source, spec.name].append(spec)
    for entry in entries:
        before = found.get((entry.source, entry.name))
        if before:
            yield entry, before


def _order(spec: Spec) -> tuple[str, int, int]:
    return str(spec.arch), PRECISIONS.index(spec.precision), spec.tokens


def _chosen(drawn: list[Spec], measured: list[Spec], count: int) -> list[Spec]:
    """Choose, one by one, what brings all that were drawn nearest to something measured or chosen."""
    places, there = [_place(spec) for spec in drawn], {_place(spec) for spec in measured}
    apart = [[_apart(one, other) for other in places] for one in places]
    nearest = [min(map(partial(_apart, place), there)) for place in places]
    ids = {spec.id for spec in measured}
    free = {spec.id: place for place, spec in enumerate(drawn) if spec.id not in ids}
    gains = {key: _gain(nearest, apart[place]) for key, place in free.items()}
    chosen: list[Spec] = []
    while gains and len(chosen) < count:
        # What one gains gets less with each that is chosen, so that it is enough to look at the best again.
        _, best = max(zip(gains.values(), gains, strict=True))
        gain = _gain(nearest, apart[free[best]])
        if gain < gains[best]:
            gains[best] = gain
            continue
        del gains[best]
        nearest = list(map(min, nearest, apart[free[best]]))
        chosen.append(drawn[free[best]])
    return chosen


def _gain(nearest: Sequence[float], apart: Sequence[float]) -> float:
    return sum(near - far for near, far in zip(nearest, apart, strict=True) if far < near)


def _place(spec: Spec) -> _Place:
    return spec.kind, spec.precision, spec.batch_size, (spec.seq_len or 1) * int(spec.arch.get("size", 1)) ** 2


@lru_cache(maxsize=2**16)  # models are run in the same few ways
def _apart(one: _Place, other: _Place) -> float:
    return (
        _KIND * (one[0] != other[0])
        + _PRECISION * (one[1] != other[1])
        + _BATCH * abs(log2(one[2] / other[2]))
        + _SAMPLE * abs(log2(one[3] / other[3]))
    )
