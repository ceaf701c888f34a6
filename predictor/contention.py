r"""RAD's model of contention: what jobs on one GPU reach beside each other. Pure: numpy alone.

Jobs on one GPU take turns on what they share. A side's slowdown grows with how much of the time both sides
want the GPU (their activity) and with how long the neighbour's turns are beside its own (the size of their
kernels): a job of tiny kernels waits long behind huge ones, the other way round it is hardly felt, and a
launch-bound job, seldom active, hardly notices and hardly disturbs. With k neighbours

    slowdown_i = slack(1 + sum_j exp(z_ij), busy_i),   z_ij = b + A_i + A_j + T_j - T_i + P_j + O_i

where A is a workload's activity, T the length of its turns, P how it presses on others and O how it suffers beyond
that, all linear in logarithms of exclusive metrics. With slack, a job whose GPU is busy a part of the time only
hides as much of the contention behind its host: slack(s, busy) is a smooth max(1, busy s). Progress is 1/slowdown.
Weights of A, T and P never turn negative (:mod:`predictor.fitting`), so a busier neighbour, or one with longer turns,
never helps. A workload that was in the training data also has small effects of its own: on A, on T, and on its
exclusive throughput, which pairs can contradict (a job cannot run faster beside others than alone). They are found
again by name, or, where names say nothing, by profile (:mod:`predictor.known`).

An example, with weights chosen by hand (1 for the logarithm of busy in A, 1/2 for that of the kernels' duration in T,
b = 0). One job keeps the GPU busy half of the time with kernels of 10 us, the other all the time with kernels of 1 ms.
The first has z = log 0.5 + log 1 + 1/2 log(1000 / 10) = log 5: it takes 1 + 5 times as long as alone. The second has
z = log 0.5 + log 1 - 1/2 log(1000 / 10) = log 0.05: it takes 1.05 times as long. With slack, half of what the first one
waits passes while its host prepares the next kernels anyway: it takes 0.5 x 6 times as long.

    >>> from predictor.types import KernelMetrics
    >>> def job(busy, mean_us):
    ...     return Profile(busy, 0, 0, 0, 0, memory_mib=0, throughput=1, kernel=KernelMetrics(mean_us=mean_us))
    >>> def progress(slack):
    ...     settings = Settings(activity=("busy",), turns=("mean_us",), slack=slack)
    ...     fit = Fit(settings, np.zeros(5), np.zeros((2, 3)), np.array([0, 1, 0.5]), np.zeros((3, 3)))
    ...     return fit.sides([job(0.5, 10), job(1, 1000)], offsets_of([2]))[0].round(3).tolist()
    >>> progress(slack=0), [round(1 / 6, 3), round(1 / 1.05, 3)]
    ([0.167, 0.952], [0.167, 0.952])
    >>> progress(slack=16)[0], round(1 / (0.5 * 6), 3)
    (0.333, 0.333)
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
from predictor.types import Floats, Profile, offsets_of

ACTIVITY_FLOOR = 0.005
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
        place: npt.NDArray[np.intp] | slice = slice(None),
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
        busy = np.exp(logs[:, KNOWN_ALWAYS.index("busy")])
        values, suffer, lucky, press, spread, busy = (
            part[place] for part in (values, suffer, lucky, np.exp(press), spread, busy)
        )
        return self._share(values, suffer, lucky, press, spread, busy, offsets)

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
