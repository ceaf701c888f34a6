"""Fits RAD's model of contention (:mod:`predictor.contention`) to measured colocations. Pure: numpy alone.

A maximum a posteriori estimate by Levenberg-Marquardt on log-progress with Student-t weights. The prior knows the
physics (weights in natural units, drawn to the values that turn-taking suggests), data correct it; the curvature at the
end gives the uncertainty (Laplace's approximation). Weights of A, T and P are kept at or above zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from predictor.artifact import Colocation
from predictor.contention import KNOWN_ALWAYS, Effects, Fit, Settings, encode, log_metrics, slacken
from predictor.known import Known
from predictor.types import Floats

MAX_STEPS = 100
GUESS_RIDGE = 0.3
MAX_DAMPING = 1e9


def _centre(settings: Settings, logs: Floats) -> tuple[Floats, Floats]:
    """Means of what is always known and of the features, and how each feature goes with the former.

    Args:
        settings: which features.
        logs: shape (workloads, 3 + features), logarithms of their metrics.
    """
    known = ~np.isnan(logs)
    centre = np.where(known, logs, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    shifted = logs - centre
    always = len(KNOWN_ALWAYS)
    guess = np.zeros((len(settings.metrics), always))
    for feature in range(len(settings.metrics)):
        rows = known[:, always + feature]
        guess[feature] = _guess(shifted[rows, :always], shifted[rows, always + feature])
    return centre, guess


def _guess(always: Floats, feature: Floats) -> Floats:
    """Ridge regression in which more activity never means less of the feature: guesses keep what is monotone."""
    kept = list(range(always.shape[1]))
    while True:
        part = always[:, kept]
        found = np.linalg.solve(part.T @ part + GUESS_RIDGE * np.eye(len(kept)), part.T @ feature)
        wrong = [place for place, slope in zip(kept, found, strict=True) if slope < 0.0 and place > 0]
        if not wrong:
            break
        kept = [place for place in kept if place not in wrong]
    slopes = np.zeros(always.shape[1])
    slopes[kept] = found
    return slopes


@dataclass(frozen=True)
class _Problem:
    """The fit as arrays: a row of ``rows`` for each meeting, one of the others for each side.

    Attributes:
        rows: shape (meetings, parameters), derivative of z.
        starts: shape (sides,), where the meetings of each side start.
        alone: shape (sides, parameters), derivative of the logarithm of the exclusive throughput.
        target: shape (sides,), logarithm of measured progress.
        busy: shape (sides,).
        sharpness: of the slack.
    """

    rows: Floats
    starts: npt.NDArray[np.intp]
    alone: Floats
    target: Floats
    busy: Floats
    sharpness: float

    def slow(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log-slowdown of each side (sides,) and its derivative by theta (sides, parameters)."""
        # Numbers stay finite: a contention beyond e^25 is as bad as any.
        part = np.exp(np.minimum(self.rows @ theta, 25.0))
        total = np.add.reduceat(part, self.starts)
        slow, felt = slacken(total, self.busy, self.sharpness)
        weight = part / np.repeat(total, np.diff(np.append(self.starts, len(part))))
        return slow, felt[:, None] * np.add.reduceat(weight[:, None] * self.rows, self.starts, axis=0)


def fit(colocations: Sequence[Colocation], settings: Settings) -> Fit:
    """Fit the model to measured colocations.

    Args:
        colocations: at least one, of two or more sides; both sides' throughputs are used.
        settings: priors and features.
    """
    sides = [side for row in colocations for side in row.sides]
    names = sorted({side.workload for side in sides})
    place = {name: index for index, name in enumerate(names)}
    # A workload's profile may differ between colocations: it is as its host let it be at that time.
    logs = log_metrics([side.profile for side in sides], (*KNOWN_ALWAYS, *settings.metrics))
    typical = np.array([logs[[side.workload == name for side in sides]].mean(axis=0) for name in names])
    centre, guess = _centre(settings, typical)
    problem = _problem(colocations, place, encode(logs, centre, guess), settings)
    places = encode(typical, centre, guess)
    count, width = len(names), 1 + places.shape[1]

    prior = np.zeros(width + 3 * count)
    split = 1 + len(settings.activity)
    prior[1:split] = settings.activity_prior
    prior[split : split + min(1, len(settings.turns))] = settings.turns_prior
    spread = np.concatenate(
        [
            [2.0],
            np.full(width - 1, settings.weight_sd),
            np.full(2 * count, settings.effect_sd),
            np.full(count, settings.alone_sd),
        ]
    )
    theta, curvature = _solve(problem, prior, spread, width, settings)
    covariance: Floats = np.linalg.inv(curvature).astype(np.float64)
    effects = {}
    for name, index in place.items():
        on_activity, on_turn, on_alone = (width + index + block * count for block in range(3))
        unsure = covariance[on_activity, on_activity] + covariance[on_turn, on_turn]
        activity, turn = float(theta[on_activity]), float(theta[on_turn])
        effects[name] = Effects(activity - turn, activity + turn, float(theta[on_alone]), float(unsure))
    each = [effects[name] for name in names]
    own = (np.array([getattr(one, key) for one in each]) for key in ("suffer", "press", "alone", "variance"))
    known = Known(places, *own)
    return Fit(settings, centre, guess, theta[:width], covariance[:width, :width], effects, known)


def _problem(
    colocations: Sequence[Colocation], place: Mapping[str, int], values: Floats, settings: Settings
) -> _Problem:
    count, width = len(place), 1 + values.shape[1]
    rows: list[Floats] = []
    alone: list[Floats] = []
    starts: list[int] = []
    target: list[float] = []
    first = 0
    for colocation in colocations:
        among = range(first, first + len(colocation.sides))
        for index, side in zip(among, colocation.sides, strict=True):
            mine = place[side.workload]
            starts.append(len(rows))
            for other in among:
                if other == index:
                    continue
                theirs = place[colocation.sides[other - first].workload]
                row = np.zeros(width + 3 * count)
                row[0] = 1.0
                row[1:width] = values[index] * settings.as_own + values[other] * settings.as_neighbour
                for who, sign in ((mine, -1.0), (theirs, 1.0)):
                    row[width + who] += 1.0
                    row[width + count + who] += sign
                rows.append(row)
            exclusive = np.zeros(width + 3 * count)
            exclusive[width + 2 * count + mine] = 1.0
            alone.append(exclusive)
            target.append(math.log(side.progress))
        first = among.stop
    sides = [side.profile for colocation in colocations for side in colocation.sides]
    busy = np.exp(log_metrics(sides, ("busy",))[:, 0])
    begin = np.array(starts, dtype=np.intp)
    return _Problem(np.array(rows), begin, np.array(alone), np.array(target), busy, settings.slack)


def _solve(problem: _Problem, prior: Floats, spread: Floats, width: int, settings: Settings) -> tuple[Floats, Floats]:
    """Levenberg-Marquardt with the weights of A, T and P kept at or above zero; returns the point and its curvature."""
    theta = prior.copy()
    count = (len(prior) - width) // 3
    bounded = width - len(settings.own)
    tail = slice(len(prior) - count, None)
    precision = 1.0 / spread**2
    sigma2 = settings.noise**2 + (settings.additive * np.exp(-problem.target)) ** 2
    damping = 1.0

    def objective(point: Floats, trust: Floats) -> float:
        slow, _ = problem.slow(point)
        error = problem.target - (problem.alone @ point - slow)
        return float(trust @ (error**2 / sigma2) + precision @ (point - prior) ** 2)

    curvature = np.diag(precision)
    for _ in range(MAX_STEPS):
        slow, derivative = problem.slow(theta)
        error = problem.target - (problem.alone @ theta - slow)
        # Student-t by reweighting: one odd measurement, or one wrong exclusive throughput, pulls little.
        trust = 1.0 / (1.0 + error**2 / (9.0 * sigma2))
        precision[tail] = 2.0 / (settings.alone_sd**2 + theta[tail] ** 2)
        jacobian = problem.alone - derivative
        curvature = (jacobian.T * (trust / sigma2)) @ jacobian + np.diag(precision)
        gradient = jacobian.T @ (trust * error / sigma2) - precision * (theta - prior)
        held = np.zeros(len(theta), dtype=bool)
        held[1:bounded] = (theta[1:bounded] <= 0.0) & (gradient[1:bounded] < 0.0)
        free = ~held
        now = objective(theta, trust)
        while True:
            system = curvature[np.ix_(free, free)] + damping * np.diag(np.diag(curvature)[free])
            step = np.zeros(len(theta))
            step[free] = np.linalg.solve(system, gradient[free])
            trial = theta + step
            trial[1:bounded] = np.maximum(trial[1:bounded], 0.0)
            if objective(trial, trust) <= now or damping > MAX_DAMPING:
                break
            damping *= 4.0
        moved = float(np.abs(trial - theta).max())
        if damping > MAX_DAMPING:
            break
        theta = trial
        damping = max(damping / 5.0, 1e-7)
        if moved < 1e-5:
            break
    return theta, curvature
