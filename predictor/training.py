"""Fits the predictors that decisions use to measured colocations, and says how well they do on what they never saw.

Pure but for reading the measurements that it is pointed at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from predictor import kace, rad
from predictor.artifact import ArtifactError, Colocation, load_colocations
from predictor.contention import Settings, log_metrics
from predictor.evaluation import leave_out
from predictor.fitting import fit
from predictor.measurements import family, load_runs, shared
from predictor.partition import Partitioned, PartitionModel, newcomers, partitioned_pairs
from predictor.rad import RadPredictor, choose_settings
from predictor.types import Floats, Predictor

FOLDS = 4
COUNTER_SETTINGS: tuple[Settings, ...] = tuple(
    Settings(
        activity=(),
        turns=(),
        press=("smact", "blocking_us+10", "smocc"),
        own=("blocking_us+10", "turn_us+10"),
        slack=slack,
        weight_sd=1.0,
        effect_sd=0.35,
        alone_sd=0.02,
        noise=0.01,
        additive=0.05,
    )
    for slack in (8.0, 16.0)
)
"""What is tried on measurements with hardware counters; the choice is made inside the training data."""


@dataclass(frozen=True)
class SideErrors:
    """How far predicted progress of single sides was off.

    Attributes:
        mean_abs: mean absolute error.
        bias: mean of predicted minus measured.
        covered: part of the errors within two of the stated standard deviations.
        count: sides.
    """

    mean_abs: float
    bias: float
    covered: float
    count: int


def load_measured(path: Path) -> tuple[Colocation, ...]:
    """Colocations of a folder of our measurements (pairs and triples under MPS) or of a CSV in the artifact's columns.

    Raises:
        ArtifactError: nothing usable there.
    """
    if path.is_dir():
        runs = load_runs(path)
        return (*shared(runs, 2), *shared(runs, 3))
    return load_colocations(path)


def clipped(colocations: Sequence[Colocation]) -> tuple[Colocation, ...]:
    """The same, no side faster than alone: on a shared host that is noise."""
    return tuple(
        replace(
            row,
            sides=tuple(replace(side, throughput=min(side.throughput, side.profile.throughput)) for side in row.sides),
        )
        for row in colocations
    )


def fit_rad(colocations: Sequence[Colocation]) -> RadPredictor:
    """``rad`` for decisions, its settings chosen by leaving whole families out inside ``colocations``.

    Measurements without kernel durations (KACE's artifact) are fitted with what they have.
    """
    rows = clipped(colocations)
    usable = [settings for settings in COUNTER_SETTINGS if _measured(rows, settings)]
    if not usable:
        return RadPredictor(fit(rows, choose_settings(rows)))
    return RadPredictor(fit(rows, min(usable, key=lambda settings: _family_error(rows, settings))))


def _measured(colocations: Sequence[Colocation], settings: Settings) -> bool:
    """Whether most profiles have the metrics that the settings use."""
    profiles = [side.profile for row in colocations for side in row.sides]
    known = ~np.isnan(log_metrics(profiles, settings.metrics))
    return bool((known.mean(axis=0) > 0.5).all())


def _family_error(colocations: Sequence[Colocation], settings: Settings) -> float:
    """Mean absolute error on families that were left out, a quarter of them at a time."""
    names = sorted({family(side.workload) for row in colocations for side in row.sides})
    fold_of = {name: str(index % FOLDS) for index, name in enumerate(names)}
    errors: list[Floats] = []
    for train, test in leave_out(colocations, lambda workload: fold_of[family(workload)]).values():
        if train:
            errors.append(np.abs(errors_of(RadPredictor(fit(train, settings)), test)[0]))
    return float(np.concatenate(errors).mean()) if errors else 0.0


def errors_of(predictor: Predictor, colocations: Sequence[Colocation]) -> tuple[Floats, Floats]:
    """Predicted minus measured progress of every side, and the stated standard deviations.

    Measured progress over 1 is noise and counts as 1.
    """
    errors: list[float] = []
    stated: list[float] = []
    for row in colocations:
        found = predictor.predict(row.profiles[0], row.profiles[1:])
        for predicted, measured in zip(found.sides, row.progress, strict=True):
            errors.append(predicted - measured)
            stated.append(found.uncertainty)
    return np.array(errors), np.array(stated)


def summarise(errors: Floats, stated: Floats) -> SideErrors:
    """Errors in a few numbers."""
    return SideErrors(
        mean_abs=float(np.abs(errors).mean()),
        bias=float(errors.mean()),
        covered=float((np.abs(errors) <= 2.0 * stated).mean()),
        count=len(errors),
    )


def families_left_out(
    colocations: Sequence[Colocation], train: Callable[[Sequence[Colocation]], Predictor]
) -> tuple[SideErrors, Mapping[str, SideErrors]]:
    """Errors on colocations with a family that the training never saw: of all, and for each family.

    Raises:
        ArtifactError: there are too few families to leave one out.
    """
    each: dict[str, SideErrors] = {}
    every: list[tuple[Floats, Floats]] = []
    for name, (kept, test) in leave_out(colocations, family).items():
        if not kept:
            continue
        found = errors_of(train(kept), test)
        each[name] = summarise(*found)
        every.append(found)
    if not every:
        raise ArtifactError("too few model families: leaving one out must leave a colocation to learn from")
    errors, stated = (np.concatenate([pair[part] for pair in every]) for part in (0, 1))
    return summarise(errors, stated), each


TRAINERS: Mapping[str, Callable[[Sequence[Colocation]], Predictor]] = {
    "rad": fit_rad,
    "kace": kace.fit_predictor,
}


def load_groups(path: Path) -> tuple[Partitioned, ...]:
    """Pairs measured under thread percentages, if ``path`` is a folder of our measurements that holds any.

    Raises:
        ArtifactError: the folder cannot be used.
    """
    runs = load_runs(path) if path.is_dir() else ()
    return (*partitioned_pairs(runs), *newcomers(runs))


def weights_text(name: str, colocations: Sequence[Colocation], note: str, groups: Sequence[Partitioned] = ()) -> str:
    """Weights of a predictor fitted to all of ``colocations``, and to what was measured under thread percentages."""
    if name == "rad":
        fitted = fit_rad(colocations)
        return rad.to_json(fitted.model, note, PartitionModel().fit(groups, fitted).law if groups else None)
    return kace.to_json(kace.fit_predictor(colocations), note)


def fit_correction(
    raws: Sequence[Mapping[str, float]], measured: Sequence[Mapping[str, float]]
) -> dict[str, list[float]]:
    """Slope and offset on logarithms that carry raw estimates to measured metrics, one pair a metric.

    Slopes are drawn to 1 and offsets to 0: a few dozen workloads must not overrule the chip's rates.
    """
    found = {}
    for key in raws[0]:
        rows = [
            (math.log(max(raw[key], 1e-9)), math.log(max(real[key], 1e-9)))
            for raw, real in zip(raws, measured, strict=True)
            if math.isfinite(real[key])
        ]
        x, y = (np.array([row[part] for row in rows]) for part in (0, 1))
        design = np.column_stack([x, np.ones(len(x))])
        ridge = np.diag([5.0, 0.1])
        slope, offset = np.linalg.solve(design.T @ design + ridge, design.T @ (y - x))
        found[key] = [max(1.0 + float(slope), 0.0), float(offset)]
    return found
