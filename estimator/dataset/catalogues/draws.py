"""Draws configurations of real models: batch size, optimizer, precision, training or inference. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.specs import PRECISIONS, Spec
from estimator.types import Optimizer

_OPTIMIZERS: Mapping[Optimizer, float] = {"adam": 0.3, "adamw": 0.25, "sgd_momentum": 0.2, "sgd": 0.13, "rmsprop": 0.12}
_PRECISION_WEIGHTS = (0.6, 0.25, 0.15)
_PICTURE_BATCHES = (1, 2, 4, 8, 16, 16, 24, 32, 32, 32, 48, 64, 64, 64, 96, 128, 128, 192, 256, 320, 512)
_TOKEN_BATCHES = (1, 2, 4, 4, 8, 8, 8, 12, 16, 16, 24, 32, 32, 48, 64, 128)
_VIDEO_BATCHES = (1, 1, 2, 2, 4, 4, 8, 8, 12, 16, 24)
_PLAIN_BATCHES = (1, 4, 8, 16, 32, 32, 64, 64, 64, 128, 128, 256, 512)
_LENGTHS = (64, 128, 128, 256, 384, 512, 512, 1024, 2048)
MOST_TOKENS = 65536
"""A batch of more takes minutes a step."""
# Of pictures, where they are not as large as the model's own.
_SIDES = (128, 160, 192, 256, 288)


def generate_real(
    workloads: int,
    seed: int,
    chosen: Iterable[Entry],
    *,
    infer: float = 0.13,
    sides: Sequence[int] = (),
    most_tokens: float = MOST_TOKENS,
) -> Iterator[Spec]:
    """Draw configurations of real models.

    Args:
        workloads: how many of each model.
        seed: equal seeds give equal configurations.
        chosen: which models.
        infer: share of configurations that only infer.
        sides: sides of the pictures of models that take any; without them these are mostly the model's own.
        most_tokens: batches of more tokens, or of more samples that hold none, are left out.

    Yields:
        The configurations of one model after another; small batches come first, so that a collector can
        tell from them what larger ones will need.
    """
    for entry in chosen:
        rng = random.Random(f"{entry.source}:{entry.name}:{entry.attention}:{seed}")  # noqa: S311
        arch = _arch(entry, sides, rng)
        lengths = _lengths(entry)
        lengths = sorted({rng.choice(lengths), rng.choice(lengths)})
        model = Spec(entry.source, entry.family, entry.name, entry.group, arch, 1, None, "adam", "fp32", "train")
        drawn = (_run(model, entry, rng, infer, lengths if entry.longest else ()) for _ in range(workloads))
        different = {spec.id: spec for spec in drawn if spec.tokens <= most_tokens}
        yield from sorted(different.values(), key=lambda spec: (PRECISIONS.index(spec.precision), spec.tokens))


def drawn_workload(spec: Spec, entry: Entry, rng: random.Random, infer: float) -> Spec | None:
    """Draw another batch size, optimizer, precision and kind for a configuration of a model.

    Args:
        spec: the configuration.
        entry: its model.
        rng: where the draw comes from.
        infer: share of configurations that only infer.

    Returns:
        The other configuration; None where a batch of so many tokens would take too long.
    """
    drawn = _run(spec, entry, rng, infer)
    return drawn if drawn.tokens <= MOST_TOKENS else None


def _run(spec: Spec, entry: Entry, rng: random.Random, infer: float, lengths: Sequence[int] = ()) -> Spec:
    """Draw how a model is run, and how long its sequences are where there is a choice."""
    return replace(
        spec,
        kind="infer" if rng.random() < infer else "train",
        batch_size=rng.choice(_batches(entry)),
        seq_len=rng.choice(lengths) if lengths else spec.seq_len,
        optimizer=rng.choices(*zip(*_OPTIMIZERS.items(), strict=True))[0],
        precision=rng.choices(PRECISIONS, _PRECISION_WEIGHTS)[0],
    )


def _arch(entry: Entry, sides: Sequence[int], rng: random.Random) -> dict[str, Any]:
    """Draw the side of pictures and the number of classes."""
    arch: dict[str, Any] = {}
    if entry.size:
        arch["size"] = entry.size
        if entry.flexible and (sides or rng.random() < 0.3):
            arch["size"] = rng.choice(sides or _SIDES)
    arch["classes"] = 2 if entry.feed == "tokens" else rng.choice([1000, 1000, 1000, 1000, 100, 10])
    if entry.attention:
        arch["attention"] = entry.attention
    return arch


def _lengths(entry: Entry) -> list[int]:
    """List the lengths that sequences are drawn of; that of a series is part of the model."""
    if entry.feed in ("series", "timed_series"):
        return [entry.longest]
    return [length for length in _LENGTHS if length <= entry.longest] or [entry.longest]


def _batches(entry: Entry) -> tuple[int, ...]:
    if entry.feed in ("video", "clip_video", "films", "volume"):
        return _VIDEO_BATCHES
    if entry.feed in ("plain", "given", "series", "timed_series"):
        return _PLAIN_BATCHES
    return _PICTURE_BATCHES if entry.size else _TOKEN_BATCHES
