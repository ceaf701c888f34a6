"""RAD's predictor: choice of settings within the training data, evaluation, weights on disk, fast ranking.

Pure: weights are read and written as text, files are the concern of :mod:`predictor.weights`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from predictor.artifact import Colocation
from predictor.contention import KNOWN_ALWAYS, METRICS, Fit, Settings
from predictor.fitting import fit
from predictor.known import Known
from predictor.threads import Law
from predictor.types import Floats, Prediction, Predictions, Profile, WeightsError, nowhere, offsets_of

FORMAT = "rad-contention-2"
KNOWN = ("places", "suffer", "press", "alone", "variance")
FOLDS = 6
LOG_ERROR_CAP = 1.0
MAX_SCALE = 100.0
CANDIDATES = tuple(
    Settings(effect_sd=effect, noise=noise) for effect, noise in itertools.product((0.25, 0.4, 0.6), (0.05, 0.1))
)
"""What is tried on measurements without hardware counters: how much workloads differ beyond profiles, and noise."""


def held_out_error(colocations: Sequence[Colocation], settings: Settings, folds: int = FOLDS) -> float:
    """Mean squared log-error of a side's throughput on colocations that were left out, each once."""
    errors: list[float] = []
    for fold in range(min(folds, len(colocations))):
        kept = [row for index, row in enumerate(colocations) if index % folds != fold]
        held = [row for index, row in enumerate(colocations) if index % folds == fold]
        if not kept:
            continue
        model = fit(kept, settings)
        sides = [side for row in held for side in row.sides]
        offsets = offsets_of([len(row.sides) for row in held])
        progress, _ = model.sides([side.profile for side in sides], offsets, [side.workload for side in sides])
        factor = np.array([model.alone_factor(side.workload) for side in sides])
        actual = np.array([side.progress for side in sides])
        errors.extend(np.minimum(np.log(factor * progress / actual) ** 2, LOG_ERROR_CAP))
    return float(np.mean(errors)) if errors else 0.0


def choose_settings(colocations: Sequence[Colocation], candidates: Sequence[Settings] = CANDIDATES) -> Settings:
    """The candidate with the least error in cross-validation within ``colocations``; nothing else is looked at."""
    return min(candidates, key=lambda settings: held_out_error(colocations, settings))


class Rad:
    """The model as it is evaluated on measured colocations: predicts the sum of raw throughputs."""

    def fit(self, colocations: Sequence[Colocation]) -> Rad:
        """Choose settings within ``colocations`` and fit to them."""
        self.model = fit(colocations, choose_settings(colocations))
        return self

    def predict(self, colocations: Sequence[Colocation]) -> Floats:
        """Predicted throughput sums, shape (colocations,)."""
        return self.model.throughput_sums(colocations)


class RadPredictor:
    """The predictor that decisions use: profiles in, progress out. Holds nothing but numbers.

    Args:
        model: a fit; a prediction depends on profiles alone, those of measured workloads are known again.
        version: what the service's log names.
        threads: what MPS thread percentages do to progress, or None where nobody measured it.
    """

    name = "rad"

    def __init__(self, model: Fit, version: str = "unversioned", threads: Law | None = None) -> None:
        self.model = model
        self.version = version
        self.threads = threads

    def predict(self, candidate: Profile, residents: Sequence[Profile]) -> Prediction:
        """Predict the progress of ``candidate`` beside ``residents``, and theirs."""
        return self.predict_many(candidate, [residents])[0]

    def predict_many(self, candidate: Profile, groups: Sequence[Sequence[Profile]]) -> Predictions:
        """Predict ``candidate`` on each group of residents: one call for all GPUs of a cluster."""
        if not groups:
            return nowhere()
        offsets = offsets_of([1 + len(group) for group in groups])
        first = offsets[:-1]
        resident = np.ones(offsets[-1], dtype=bool)
        resident[first] = False
        # The candidate is encoded once, however many GPUs it is tried on.
        place = np.where(resident, np.cumsum(resident), 0)
        profiles = [candidate, *itertools.chain.from_iterable(groups)]
        progress, deviation = self.model.sides(profiles, offsets, place=place)
        worst = np.where(resident, progress, 1.0)
        return Predictions(
            candidate=progress[first],
            throughput_sum=np.add.reduceat(progress, first),
            worst_resident=np.minimum.reduceat(worst, first),
            uncertainty=np.maximum.reduceat(deviation, first),
            residents=progress[resident],
            offsets=(offsets - np.arange(len(offsets))).astype(np.intp),
        )


def to_json(model: Fit, note: str, threads: Law | None = None) -> str:
    """The weights as JSON text: settings and numbers, no code; ``note`` says what they were fitted to."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "note": note,
        "settings": asdict(model.settings),
        "centre": _rounded(model.centre, 6),
        "guess": _rounded(model.guess, 6),
        "theta": _rounded(model.theta, 6),
        "covariance": _rounded(model.covariance, 8),
        "known": {key: _rounded(getattr(model.known, key), 6) for key in KNOWN},
    }
    if threads is not None:
        content["threads"] = {key: round(value, 6) for key, value in asdict(threads).items()}
    return json.dumps(content, indent=1) + "\n"


def _rounded(values: Floats, digits: int) -> Any:
    return np.round(values, digits).tolist()


def from_json(text: str, where: str, version: str = "unversioned") -> RadPredictor:
    """The predictor back from JSON.

    Raises:
        WeightsError: the text is no such JSON, or its shapes do not fit together.
    """
    try:
        content: Any = json.loads(text)
        if content["format"] != FORMAT:
            raise WeightsError(f"{where}: format {content['format']!r}, expected {FORMAT!r}: retrain it")
        fields = dict(content["settings"])
        named: dict[str, Any] = {key: tuple(fields.pop(key)) for key in ("activity", "turns", "press", "own")}
        numbers: dict[str, Any] = {key: float(value) for key, value in fields.items()}
        settings = Settings(**named, **numbers)
        unknown = sorted(set(settings.metrics) - set(METRICS))
        if unknown:
            raise WeightsError(f"{where}: unknown metrics {', '.join(map(str, unknown))}: retrain it")
        centre, guess, theta, covariance = (
            np.array(content[key], dtype=np.float64) for key in ("centre", "guess", "theta", "covariance")
        )
        known = Known(*(np.array(content["known"][key], dtype=np.float64) for key in KNOWN))
        law = content.get("threads")
        threads = None if law is None else Law(float(law["scale"]), float(law["remains"]))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, WeightsError):
            raise
        raise WeightsError(f"{where}: not a file of weights ({error}): run `radctl retrain interference`") from error
    width = len(settings.metrics)
    always, count = len(KNOWN_ALWAYS), known.suffer.size
    parts = (
        (centre, (always + width,)),
        (guess, (width, always)),
        (theta, (1 + width,)),
        (covariance, (1 + width, 1 + width)),
        (known.places, (count, width)),
        *((part, (count,)) for part in (known.suffer, known.press, known.alone, known.variance)),
        (np.array([*numbers.values()]), (len(numbers),)),
    )
    if any(part.shape != shape or not np.isfinite(part).all() for part, shape in parts):
        raise WeightsError(f"{where}: weights of the wrong shape or not finite: run `radctl retrain interference`")
    if threads is not None and not (0.0 <= threads.scale <= MAX_SCALE and 0.0 <= threads.remains <= 1.0):
        raise WeightsError(f"{where}: no law of thread percentages: {threads}: run `radctl retrain interference`")
    return RadPredictor(Fit(settings, centre, guess, theta, covariance, known=known), version, threads)
