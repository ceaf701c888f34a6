r"""RAD's model of contention: fit and evaluation, with numpy alone. Pure: touches nothing outside.

Jobs on one GPU take turns on what they share. A side's slowdown grows with how much of the time both sides
want the GPU (their activity) and with how long the neighbour's turns are beside its own (the size of their
kernels): a job of tiny kernels waits long behind huge ones, the other way round it is hardly felt, and a
launch-bound job, seldom active, hardly notices and hardly disturbs. With k neighbours

    slowdown_i = slack(1 + sum_j exp(z_ij), busy_i),   z_ij = b + A_i + A_j + T_j - T_i + P_j + O_i

where A is a workload's activity, T the length of its turns, P how it presses on others and O how it suffers beyond
that, all linear in logarithms of exclusive metrics. With slack, a job whose GPU is busy a part of the time only
hides as much of the contention behind its host: slack(s, busy) is a smooth max(1, busy s). Progress is 1/slowdown.
The prior knows the physics (weights in natural units, drawn to the values that turn-taking suggests), data
correct it. Weights of A, T and P never turn negative, so a busier neighbour, or one with longer turns, never
helps. A workload that was in the training data also has small effects of its own: on A, on T, and on its exclusive
throughput, which pairs can contradict (a job cannot run faster beside others than alone). They are found again by
name, or, where names say nothing, by profile (:mod:`predictor.known`).

The fit is a maximum a posteriori estimate by Levenberg-Marquardt on log-progress with Student-t weights; its
curvature gives the uncertainty (Laplace's approximation).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from predictor.artifact import Colocation
from predictor.known import Known, nobody
from predictor.types import Floats, Profile

ACTIVITY_FLOOR = 0.005
MAX_STEPS = 100
GUESS_RIDGE = 0.3
MAX_DAMPING = 1e9
MAX_CONTENTION = 1e12

METRICS: Mapping[str, tuple[str, float, float]] = {
    "busy": ("busy", ACTIVITY_FLOOR, 0.0),
    "smact": ("smact", ACTIVITY_FLOOR, 0.0),
    "smocc": ("smocc", ACTIVITY_FLOOR, 0.0),
    "tensor": ("tensor", ACTIVITY_FLOOR, 0.0),
    "dram": ("dram", ACTIVITY_FLOOR, 0.0),
    "pcie": ("pcie", ACTIVITY_FLOOR, 0.0),
    "threads": ("kernel.threads", 1.0, 0.0),
    "registers": ("kernel.registers", 1.0, 0.0),
    "mean_us": ("kernel.mean_us", 0.5, 0.0),
    "turn_us": ("kernel.turn_us", 0.5, 0.0),
    "turn_us+10": ("kernel.turn_us", 0.5, 10.0),
    "blocking_us+10": ("kernel.blocking_us", 0.01, 10.0),
    "throughput": ("throughput", 1e-3, 0.0),
}
"""Metrics that a fit may use (their logarithm counts): where they stand in a profile, the least value that counts, and
what is added. With some microseconds added to the duration of a kernel, the shortest ones do not differ: what a
launch costs anyway outweighs them."""
KNOWN_ALWAYS = ("throughput", "busy", "smact")
"""What every profile has: the rest is guessed from these where it is missing."""


def log_metrics(profiles: Sequence[Profile], names: tuple[str, ...]) -> Floats:
    """Logarithms of exclusive metrics, shape (profiles, names); NaN where a profile lacks one."""
    if not profiles:
        return np.zeros((0, len(names)))
    paths = [METRICS[name][0] for name in names]
    asked = list(dict.fromkeys([*paths, "smact", "throughput"]))  # one may serve several features
    found: Floats = np.fromiter(itertools.chain.from_iterable(map(attrgetter(*asked), profiles)), np.float64)
    found = found.reshape(len(profiles), len(asked))
    if "busy" in asked:
        # SMACT stands in where nothing counted the time that any kernel ran.
        busy, smact = asked.index("busy"), asked.index("smact")
        found[:, busy] = np.where(np.isnan(found[:, busy]), found[:, smact], found[:, busy])
    values = found[:, [asked.index(path) for path in paths]]
    floors, added = (np.array([METRICS[name][place] for name in names]) for place in (1, 2))
    logs: Floats = np.log(np.maximum(values, floors) + added)
    return logs


@dataclass(frozen=True)
class Settings:
    """What a fit assumes. Chosen within the training data by :func:`predictor.rad.choose_settings`.

    Attributes:
        activity: features of A, all of which also weigh on the neighbour.
        turns: features of T.
        press: features of P.
        own: features of O, whose weights may have either sign.
        slack: sharpness of the smooth maximum that hides contention behind the host; 0 for none.
        activity_prior: value that the physics suggests for the weights of ``activity``.
        turns_prior: value that the physics suggests for the first weight of ``turns``; 0 for all others.
        weight_sd: how far weights may move from these values.
        effect_sd: size of a known workload's own effects on A and T.
        alone_sd: scale of the log-error of an exclusive throughput (heavy-tailed).
        noise: log-noise of one measured throughput.
        additive: noise of one measured progress beside that: what the window's length and the host add. It keeps
            sides that hardly move from ruling the fit.
    """

    activity: tuple[str, ...] = ("busy", "dram")
    turns: tuple[str, ...] = ("threads",)
    press: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    slack: float = 0.0
    activity_prior: float = 0.0
    turns_prior: float = 0.5
    weight_sd: float = 0.5
    effect_sd: float = 0.4
    alone_sd: float = 0.3
    noise: float = 0.08
    additive: float = 0.0

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every feature, in the order of the weights."""
        return self.activity + self.turns + self.press + self.own

    @property
    def as_own(self) -> Floats:
        """Shape (features,): sign with which a workload's own features enter z."""
        signs = [1.0] * len(self.activity) + [-1.0] * len(self.turns) + [0.0] * len(self.press)
        return np.array(signs + [1.0] * len(self.own))

    @property
    def as_neighbour(self) -> Floats:
        """Shape (features,): sign with which a neighbour's features enter z."""
        signs = [1.0] * (len(self.activity) + len(self.turns) + len(self.press))
        return np.array(signs + [0.0] * len(self.own))


@dataclass(frozen=True)
class Effects:
    """What is known of a workload beyond its profile.

    Attributes:
        suffer: added to z of its own slowdown.
        press: added to z of its neighbours'.
        alone: added to the logarithm of its exclusive throughput.
        variance: posterior variance of either of the first two.
    """

    suffer: float
    press: float
    alone: float
    variance: float


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes:
        settings: what it was fitted with.
        centre: shape (3 + features,), mean over the training workloads of the logarithms of what is always known and
            of each feature.
        guess: shape (features, 3), what a missing feature is taken to be for each unit of what is always known over
            the mean: of a job whose kernels nobody traced only counters and the duration of an iteration are known.
        theta: shape (1 + features,): b, then the weights of A, T, P and O.
        covariance: shape (1 + features, 1 + features), posterior covariance of ``theta``.
        effects: the training workloads' own effects, by name.
        known: the same by profile, for jobs whose name says nothing.
    """

    settings: Settings
    centre: Floats
    guess: Floats
    theta: Floats
    covariance: Floats
    effects: Mapping[str, Effects] = field(default_factory=dict)
    known: Known = field(default_factory=nobody)

    def sides(
        self,
        profiles: Sequence[Profile],
        offsets: npt.NDArray[np.intp],
        workloads: Sequence[str] | None = None,
        place: npt.NDArray[np.intp] | None = None,
    ) -> tuple[Floats, Floats]:
        """Progress of workloads that share GPUs, and its standard deviation.

        Args:
            profiles: the sides of all groups, group after group.
            offsets: shape (groups + 1,), where each group starts; no group is empty.
            workloads: their names, if effects of their own should be found by name and not by profile.
            place: where in ``profiles`` each side's profile stands, if one stands there once for many sides.

        Returns:
            Progress in (0, 1] and its standard deviation, both of shape (sides,).
        """
        logs = log_metrics(profiles, (*KNOWN_ALWAYS, *self.settings.metrics))
        values = encode(logs, self.centre, self.guess)
        weights = self.theta[1:] * self.settings.as_neighbour
        suffer = values @ (self.theta[1:] * self.settings.as_own)
        stranger = 2.0 * self.settings.effect_sd**2
        lucky = np.zeros(len(values))
        if workloads is None:
            own, lucky, spread = self.known.alike(values, stranger)
            suffer += own
            press = self.known.pressure(values, weights)
        else:
            press, spread = values @ weights, np.full(len(values), stranger)
            for index, name in enumerate(workloads):
                effect = self.effects.get(name)
                if effect is not None:
                    suffer[index] += effect.suffer
                    press[index] += effect.press
                    spread[index] = effect.variance
        parts = (values, suffer, lucky, np.exp(press), spread, np.exp(logs[:, KNOWN_ALWAYS.index("busy")]))
        if place is not None:
            parts = tuple(part[place] for part in parts)  # type: ignore[assignment]
        return self._share(*parts, offsets)

    def _share(
        self,
        values: Floats,
        suffer: Floats,
        lucky: Floats,
        press: Floats,
        spread: Floats,
        busy: Floats,
        offsets: npt.NDArray[np.intp],
    ) -> tuple[Floats, Floats]:
        sizes = np.diff(offsets)
        group = np.repeat(np.arange(len(sizes)), sizes)

        def others(amount: Floats) -> Floats:
            """Sum over each side's neighbours."""
            total: Floats = np.add.reduceat(amount, offsets[:-1], axis=0)[group] - amount
            return total

        pressure = np.maximum(others(press), 0.0)
        alone = sizes[group] == 1
        contention = np.where(alone, 0.0, np.exp(self.theta[0] + suffer) * pressure)
        contention = np.minimum(contention, MAX_CONTENTION)
        weight = 1.0 / np.where(alone, 1.0, np.maximum(pressure, 1e-300))
        unknown = spread + others(press * spread) * weight
        met = others(press[:, None] * values) * weight[:, None]
        rows = np.hstack([np.ones((len(values), 1)), values * self.settings.as_own + met * self.settings.as_neighbour])
        variance = np.sum((rows @ self.covariance) * rows, axis=1) + unknown
        # The median of what may be: what profiles do not tell widens the deviation only. Were it in the middle too, a
        # neighbour so busy that nothing like it was measured could look better than a less busy one.
        stretch, felt = slacken(contention, busy, self.settings.slack)
        progress = np.where(alone, 1.0, np.exp(np.minimum(lucky - stretch, 0.0)))
        slope = progress * felt
        measured = (self.settings.noise * progress) ** 2 + self.settings.additive**2
        deviation = np.sqrt(slope**2 * variance + measured)
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


def slacken(contention: Floats, busy: Floats, sharpness: float) -> tuple[Floats, Floats]:
    """Log-slowdown under contention, and its derivative by the logarithm of the contention.

    Args:
        contention: shape (sides,), by how much the time on the GPU stretches: 0 alone, 1 for twice as long.
        busy: shape (sides,), part of the time that each side's GPU is busy when it runs alone.
        sharpness: of the smooth maximum of 1 and busy (1 + contention); 0 for no slack at all.
    """
    derivative = contention / (1.0 + contention)
    if sharpness <= 0.0:
        return np.log1p(contention), derivative
    hidden = busy**sharpness
    stretched = (busy * (1.0 + contention)) ** sharpness
    return np.log((1.0 + stretched) / (1.0 + hidden)) / sharpness, derivative * stretched / (1.0 + stretched)


def encode(logs: Floats, centre: Floats, guess: Floats) -> Floats:
    """Centred features, shape (profiles, features); a missing metric is guessed from what is always known.

    Args:
        logs: shape (profiles, 3 + features), logarithms of what is always known and of each feature's metric.
        centre: shape (3 + features,), their means.
        guess: shape (features, 3), see :class:`Fit`.
    """
    always = len(KNOWN_ALWAYS)
    shifted = logs - centre
    known: Floats = shifted[:, always:]
    return np.where(np.isnan(known), shifted[:, :always] @ guess.T, known)


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
