r"""RAD's model of contention: fit and evaluation, with numpy alone. Pure: touches nothing outside.

Jobs on one GPU take turns on what they share. A side's slowdown grows with how much of the time both sides
want the GPU (their activity) and with how long the neighbour's turns are beside its own (the size of their
kernels): a job of tiny kernels waits long behind huge ones, the other way round it is hardly felt, and a
launch-bound job, seldom active, hardly notices and hardly disturbs. With k neighbours

    progress_i = 1 / (1 + sum_j exp(z_ij)),   z_ij = b + A_i + A_j + T_j - T_i

where A is a workload's activity and T the length of its turns, both linear in logarithms of exclusive metrics.
The prior knows the physics (weights in natural units, drawn to the values that turn-taking suggests), data
correct it. Weights never turn negative, so a busier neighbour, or one with longer turns, never helps. A workload
that was in the training data also has small effects of its own: on A, on T, and on its exclusive throughput,
which pairs can contradict (a job cannot run faster beside others than alone).

The fit is a maximum a posteriori estimate by Levenberg-Marquardt on log-progress with Student-t weights; its
curvature gives the uncertainty (Laplace's approximation), over which predictions are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from predictor.artifact import Colocation
from predictor.types import Floats, Profile

ACTIVITY_FLOOR = 0.005
MAX_STEPS = 100
MAX_DAMPING = 1e9
MAX_CONTENTION = 1e12

METRICS: Mapping[str, tuple[str, float]] = {
    "busy": ("busy", ACTIVITY_FLOOR),
    "smact": ("smact", ACTIVITY_FLOOR),
    "smocc": ("smocc", ACTIVITY_FLOOR),
    "tensor": ("tensor", ACTIVITY_FLOOR),
    "dram": ("dram", ACTIVITY_FLOOR),
    "pcie": ("pcie", ACTIVITY_FLOOR),
    "threads": ("kernel.threads", 1.0),
    "registers": ("kernel.registers", 1.0),
    "mean_us": ("kernel.mean_us", 0.5),
    "turn_us": ("kernel.turn_us", 0.5),
}
"""Metrics that a fit may use: where they stand in a profile, and the least value that counts (their logarithm does)."""


def log_metrics(profiles: Sequence[Profile], names: Sequence[str]) -> Floats:
    """Logarithms of exclusive metrics, shape (profiles, names); NaN where a profile lacks one."""
    if not profiles:
        return np.zeros((0, len(names)))
    read = attrgetter(*(METRICS[name][0] for name in names), "smact")
    values = np.array([read(profile) for profile in profiles], dtype=np.float64)
    if "busy" in names:
        # SMACT stands in where nothing counted the time that any kernel ran.
        column = list(names).index("busy")
        values[:, column] = np.where(np.isnan(values[:, column]), values[:, -1], values[:, column])
    floors = np.array([METRICS[name][1] for name in names])
    logs: Floats = np.log(np.maximum(values[:, :-1], floors))
    return logs


@dataclass(frozen=True)
class Settings:
    """What a fit assumes. Chosen within the training data by :func:`predictor.rad.choose_settings`.

    Attributes:
        activity: features of A, all of which also weigh on the neighbour.
        turns: features of T.
        activity_prior: value that the physics suggests for the weights of ``activity``.
        turns_prior: value that the physics suggests for the first weight of ``turns``; 0 for the others.
        weight_sd: how far weights may move from these values.
        effect_sd: size of a known workload's own effects on A and T.
        alone_sd: scale of the log-error of an exclusive throughput (heavy-tailed).
        noise: log-noise of one measured throughput.
    """

    activity: tuple[str, ...] = ("busy", "dram")
    turns: tuple[str, ...] = ("threads",)
    activity_prior: float = 0.0
    turns_prior: float = 0.5
    weight_sd: float = 0.5
    effect_sd: float = 0.4
    alone_sd: float = 0.3
    noise: float = 0.08


@dataclass(frozen=True)
class Effects:
    """What is known of a workload beyond its profile.

    Attributes:
        activity: added to A.
        turn: added to T.
        alone: added to the logarithm of its exclusive throughput.
        variance: posterior variance of the first two together.
    """

    activity: float
    turn: float
    alone: float
    variance: float


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes:
        settings: what it was fitted with.
        centre: shape (features,), mean over the training workloads; stands in for a missing metric.
        theta: shape (1 + features,): b, weights of A, weights of T.
        covariance: shape (1 + features, 1 + features), posterior covariance of ``theta``.
        effects: the training workloads' own effects, by name.
    """

    settings: Settings
    centre: Floats
    theta: Floats
    covariance: Floats
    effects: Mapping[str, Effects] = field(default_factory=dict)

    def sides(
        self, profiles: Sequence[Profile], offsets: npt.NDArray[np.intp], workloads: Sequence[str] | None = None
    ) -> tuple[Floats, Floats]:
        """Progress of workloads that share GPUs, and its standard deviation.

        Args:
            profiles: the sides of all groups, group after group.
            offsets: shape (groups + 1,), where each group starts; no group is empty.
            workloads: their names, if effects of their own should count.

        Returns:
            Expected progress in (0, 1] and its standard deviation, both of shape (profiles,).
        """
        values = encode(self.settings, profiles, self.centre)
        split = len(self.settings.activity)
        activity = values[:, :split] @ self.theta[1 : 1 + split]
        turn = values[:, split:] @ self.theta[1 + split :]
        spread = np.full(len(profiles), 2.0 * self.settings.effect_sd**2)
        for index, name in enumerate(workloads or ()):
            effect = self.effects.get(name)
            if effect is not None:
                activity[index] += effect.activity
                turn[index] += effect.turn
                spread[index] = effect.variance
        return self._share(values, activity, turn, spread, offsets)

    def _share(
        self, values: Floats, activity: Floats, turn: Floats, spread: Floats, offsets: npt.NDArray[np.intp]
    ) -> tuple[Floats, Floats]:
        sizes = np.diff(offsets)
        group = np.repeat(np.arange(len(sizes)), sizes)

        def others(amount: Floats) -> Floats:
            """Sum over each side's neighbours."""
            total: Floats = np.add.reduceat(amount, offsets[:-1], axis=0)[group] - amount
            return total

        press = np.exp(activity + turn)
        pressure = np.maximum(others(press), 0.0)
        alone = sizes[group] == 1
        contention = np.where(alone, 0.0, np.exp(self.theta[0] + activity - turn) * pressure)
        contention = np.minimum(contention, MAX_CONTENTION)
        # The logistic's mean under a normal logit (MacKay 1992): what profiles do not tell of workloads draws a
        # prediction to the middle. The weights' own uncertainty only widens the deviation: were it in the mean,
        # a neighbour so busy that nothing like it was measured could look better than a less busy one.
        weight = 1.0 / np.where(alone, 1.0, np.maximum(pressure, 1e-300))
        unknown = spread + others(press * spread) * weight
        shrink = 1.0 / np.sqrt(1.0 + math.pi / 8.0 * unknown)
        met = others(press[:, None] * values) * weight[:, None]
        split = len(self.settings.activity)
        rows = np.hstack(
            [np.ones((len(values), 1)), values[:, :split] + met[:, :split], met[:, split:] - values[:, split:]]
        )
        variance = np.sum((rows @ self.covariance) * rows, axis=1) + unknown
        progress = np.where(alone, 1.0, 1.0 / (1.0 + contention**shrink))
        slope = progress * (1.0 - progress) * shrink
        deviation = np.sqrt(slope**2 * variance + (self.settings.noise * progress) ** 2)
        return progress, np.where(alone, 0.0, deviation)

    def throughput_sums(self, colocations: Sequence[Colocation]) -> Floats:
        """Expected sums of the sides' throughputs in their own units, shape (colocations,)."""
        sides = [side for row in colocations for side in row.sides]
        offsets = offsets_of([len(row.sides) for row in colocations])
        progress, _ = self.sides([side.profile for side in sides], offsets, [side.workload for side in sides])
        alone = np.array([side.profile.throughput * self.alone_factor(side.workload) for side in sides])
        sums: Floats = np.add.reduceat(alone * progress, offsets[:-1])
        return sums

    def alone_factor(self, workload: str) -> float:
        """What the exclusive throughput of a workload must be multiplied by, 1.0 if nothing is known."""
        effect = self.effects.get(workload)
        return math.exp(effect.alone) if effect else 1.0


def offsets_of(sizes: Sequence[int]) -> npt.NDArray[np.intp]:
    """Where groups of these sizes start, and where the last one ends: shape (groups + 1,)."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def encode(settings: Settings, profiles: Sequence[Profile], centre: Floats) -> Floats:
    """Centred features, shape (profiles, features); a missing metric counts as average."""
    logs = log_metrics(profiles, settings.activity + settings.turns)
    return np.where(np.isnan(logs), 0.0, logs - centre)


@dataclass(frozen=True)
class _Problem:
    """The fit as arrays: ``contacts`` rows say who meets whom, ``sides`` rows what came of it."""

    rows: Floats
    starts: npt.NDArray[np.intp]
    alone: Floats
    target: Floats

    def slow(self, theta: Floats) -> tuple[Floats, Floats]:
        """Log-slowdown of each side (sides,) and its derivative by theta (sides, parameters)."""
        z = self.rows @ theta
        # Floats stay finite: a contention beyond e^30 is as bad as any.
        part = np.exp(np.minimum(z, 30.0))
        total = 1.0 + np.add.reduceat(part, self.starts)
        weight = part / np.repeat(total, np.diff(np.append(self.starts, len(part))))
        return np.log(total), np.add.reduceat(weight[:, None] * self.rows, self.starts, axis=0)


def fit(colocations: Sequence[Colocation], settings: Settings) -> Fit:
    """Fit the model to measured colocations.

    Args:
        colocations: at least one, of two or more sides; both sides' throughputs are used.
        settings: priors and features.
    """
    profiles = {side.workload: side.profile for row in colocations for side in row.sides}
    names = sorted(profiles)
    place = {name: index for index, name in enumerate(names)}
    raw = log_metrics([profiles[name] for name in names], settings.activity + settings.turns)
    known = ~np.isnan(raw)
    centre = np.where(known, raw, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    values = np.where(known, raw - centre, 0.0)
    problem = _problem(colocations, place, values, len(settings.activity))
    count, width = len(names), 1 + raw.shape[1]

    prior = np.zeros(width + 3 * count)
    prior[1 : 1 + len(settings.activity)] = settings.activity_prior
    prior[1 + len(settings.activity)] = settings.turns_prior
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
        effects[name] = Effects(float(theta[on_activity]), float(theta[on_turn]), float(theta[on_alone]), float(unsure))
    return Fit(settings, centre, theta[:width], covariance[:width, :width], effects)


def _problem(colocations: Sequence[Colocation], place: Mapping[str, int], values: Floats, split: int) -> _Problem:
    count, width = len(place), 1 + values.shape[1]
    rows: list[Floats] = []
    alone: list[Floats] = []
    starts: list[int] = []
    target: list[float] = []
    for colocation in colocations:
        for index, side in enumerate(colocation.sides):
            mine = place[side.workload]
            starts.append(len(rows))
            for other in colocation.sides[:index] + colocation.sides[index + 1 :]:
                theirs = place[other.workload]
                row = np.zeros(width + 3 * count)
                row[0] = 1.0
                row[1 : 1 + split] = values[mine, :split] + values[theirs, :split]
                row[1 + split : width] = values[theirs, split:] - values[mine, split:]
                for who, sign in ((mine, -1.0), (theirs, 1.0)):
                    row[width + who] += 1.0
                    row[width + count + who] += sign
                rows.append(row)
            exclusive = np.zeros(width + 3 * count)
            exclusive[width + 2 * count + mine] = 1.0
            alone.append(exclusive)
            target.append(math.log(side.progress))
    return _Problem(np.array(rows), np.array(starts, dtype=np.intp), np.array(alone), np.array(target))


def _solve(problem: _Problem, prior: Floats, spread: Floats, width: int, settings: Settings) -> tuple[Floats, Floats]:
    """Levenberg-Marquardt with weights kept at or above zero; returns the point and its curvature."""
    theta = prior.copy()
    count = (len(prior) - width) // 3
    tail = slice(len(prior) - count, None)
    precision = 1.0 / spread**2
    sigma2 = settings.noise**2
    damping = 1.0

    def objective(point: Floats, trust: Floats) -> float:
        slow, _ = problem.slow(point)
        error = problem.target - (problem.alone @ point - slow)
        return float(trust @ error**2 / sigma2 + precision @ (point - prior) ** 2)

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
        held[1:width] = (theta[1:width] <= 0.0) & (gradient[1:width] < 0.0)
        free = ~held
        now = objective(theta, trust)
        while True:
            system = curvature[np.ix_(free, free)] + damping * np.diag(np.diag(curvature)[free])
            step = np.zeros(len(theta))
            step[free] = np.linalg.solve(system, gradient[free])
            trial = theta + step
            trial[1:width] = np.maximum(trial[1:width], 0.0)
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
