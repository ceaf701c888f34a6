"""Judges a model on measured colocations: fits on one file, scores on another. Reads only the files given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from predictor.artifact import Colocation, load_colocations
from predictor.baselines import RULES, AutoMl, NeuralNetwork, RandomForest, Xu, load_xu
from predictor.kace import Kace
from predictor.measure import Score, choices, fractions, random_fractions, score
from predictor.rad import Rad
from predictor.types import Floats


class SumModel(Protocol):
    """A model of the throughput sum of a colocation."""

    def fit(self, colocations: Sequence[Colocation]) -> SumModel:
        """Fit to measured colocations and return itself."""

    def predict(self, colocations: Sequence[Colocation]) -> Floats:
        """Predicted throughput sums, shape (colocations,)."""


MODELS: Mapping[str, Callable[[], SumModel]] = {
    "rad": Rad,
    "kace": Kace,
    "random_forest": RandomForest,
    "neural_network": NeuralNetwork,
    "automl": AutoMl,
}
XU = "xu"
RANDOM = "random"
NAMES = (*MODELS, XU, *RULES, RANDOM)
"""Everything that can choose a neighbour: models, Xu et al., rules of thumb, and chance."""


def evaluate(train: Path, test: Path, model: str) -> Score:
    """Fit ``model`` on the colocations of ``train`` and score its choices on those of ``test``.

    Raises:
        ArtifactError: a file cannot be used.
        KeyError: no such model.
    """
    if model == XU:
        xu_test = load_xu(test)
        return score(xu_test, Xu().fit(load_xu(train)).predict(xu_test))
    return evaluate_colocations(load_colocations(train), load_colocations(test), model)


def evaluate_colocations(train: Sequence[Colocation], test: Sequence[Colocation], model: str) -> Score:
    """The same, on colocations already read; rules and chance look at nothing of ``train``."""
    if model == RANDOM:
        return _policy(random_fractions(test))
    if model in RULES:
        return _policy(fractions(test, RULES[model]))
    return score(test, MODELS[model]().fit(train).predict(test))


def _policy(each: Mapping[str, float]) -> Score:
    return Score(len(each), float(np.mean(list(each.values()))), float("nan"))


def leave_out(
    colocations: Sequence[Colocation], group: Callable[[str], str]
) -> Mapping[str, tuple[tuple[Colocation, ...], tuple[Colocation, ...]]]:
    """For every group of workloads: the colocations without any of it, and those with one of it."""
    names = sorted({group(side.workload) for row in colocations for side in row.sides})
    result = {}
    for name in names:
        touched = [any(group(side.workload) == name for side in row.sides) for row in colocations]
        train = tuple(row for row, hit in zip(colocations, touched, strict=True) if not hit)
        test = tuple(row for row, hit in zip(colocations, touched, strict=True) if hit)
        result[name] = (train, test)
    return result


def without_batch(workload: str) -> str:
    """The artifact's workload without its batch size: ``vit_h_14_batch8-train`` -> ``vit_h_14-train``."""
    model, _, rest = workload.partition("_batch")
    return f"{model}-{rest.partition('-')[2]}"


def unseen_fractions(colocations: Sequence[Colocation], model: str) -> dict[str, float]:
    """Fraction of the oracle for every workload, all its batch sizes left out of training.

    Candidates are the workloads that the training has seen: a pair of two unseen ones is no candidate.
    """
    result: dict[str, float] = {}
    for name, (train, test) in leave_out(colocations, without_batch).items():
        candidates = [row for row in test if any(without_batch(side.workload) != name for side in row.sides)]
        each: Mapping[str, float]
        if model == RANDOM:
            each = random_fractions(candidates)
        elif model in RULES:
            each = fractions(candidates, RULES[model])
        else:
            predicted = MODELS[model]().fit(train).predict(candidates)
            each = choices(candidates, predicted)
        result.update({target: value for target, value in each.items() if without_batch(target) == name})
    return dict(sorted(result.items()))
