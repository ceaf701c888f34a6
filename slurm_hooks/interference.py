"""What jobs on one GPU are predicted to do to each other, and whether a colocation is worth it. Pure.

Between the predictor, which knows profiles, and the decision, which knows GPUs and residents.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from predictor.threads import ALL, Goal, choose
from predictor.types import KernelMetrics, Prediction, Predictor, Profile, ProfileError
from slurm_hooks.cluster import Gpu, Resident

# A profile as a record keeps it, in this order; -1 stands for what was not measured.
_RATES = ("smact", "smocc", "tensor", "dram", "pcie", "throughput", "busy")
_KERNEL = ("threads", "turn_us", "mean_us", "blocking_us")
_UNKNOWN = -1.0
_TYPICAL_PACE = 10.0  # steps a second: predictors guess from the pace what else they do not know
_DIGITS = 4


def pack(profile: Profile) -> tuple[float, ...]:
    """The numbers of a profile that predictors use, for a record."""
    values = [getattr(profile, name) for name in _RATES] + [getattr(profile.kernel, name) for name in _KERNEL]
    return tuple(float(f"{v:.{_DIGITS}g}") if math.isfinite(v) else _UNKNOWN for v in values)


# Residents stay for many decisions, and there are thousands.
@functools.lru_cache(maxsize=8192)
def unpack(values: tuple[float, ...], memory_mib: int | None) -> Profile | None:
    """The profile that `pack` made, or None where the numbers are none."""
    if len(values) != len(_RATES) + len(_KERNEL):
        return None
    known = [math.nan if v == _UNKNOWN else float(v) for v in values]
    smact, smocc, tensor, dram, pcie, throughput, busy, threads, turn_us, mean_us, blocking_us = known
    kernel = KernelMetrics(threads=threads, turn_us=turn_us, mean_us=mean_us, blocking_us=blocking_us)
    memory = float(memory_mib or 0)
    try:
        return Profile(smact, smocc, tensor, dram, pcie, memory, throughput, busy, kernel=kernel, origin="estimated")
    except ProfileError:
        return None


def typical(smact: float) -> Profile:
    """A job of which only the compute demand is known or assumed."""
    return Profile(smact, smact / 3, 0.0, smact / 2, 0.0, 0.0, _TYPICAL_PACE, origin="estimated")


def profile_of(resident: Resident, default_smact: float) -> Profile:
    """The profile of a resident, as far as its record tells."""
    known = unpack(resident.activity, resident.memory_mib)
    return known or typical(default_smact if resident.smact is None else min(1.0, max(0.0, resident.smact)))


@dataclass(frozen=True)
class Outlook:
    """What is predicted for a job on one GPU, and whether the colocation gains enough and slows nobody too much."""

    gpu: Gpu
    prediction: Prediction
    worth_it: bool


@dataclass(frozen=True)
class Interference:
    """A predictor and what a colocation must promise.

    Attributes:
        min_gain: least sum of relative progress; 1.0 is what one job alone gives.
        min_progress: least progress of each job, relative to running alone.
    """

    predictor: Predictor
    min_gain: float
    min_progress: float

    def best(self, job: Profile, gpus: Sequence[Gpu], default_smact: float) -> Outlook | None:
        """The GPU with the highest predicted throughput sum, of those that are worth it if there are any.

        One call of the predictor for all; None where it says nothing that is a number.
        """
        groups = [[profile_of(resident, default_smact) for resident in gpu.residents] for gpu in gpus]
        said = self.predictor.predict_many(job, groups)
        finite = np.isfinite(said.throughput_sum)
        least = np.minimum(said.candidate, said.worst_resident)
        worth = finite & (said.throughput_sum >= self.min_gain) & (least >= self.min_progress)
        among = worth if worth.any() else finite
        if not among.any():
            return None
        index = int(np.argmax(np.where(among, said.throughput_sum, -np.inf)))
        return Outlook(gpus[index], said[index], bool(worth[index]))

    def limit(
        self, job: Profile, gpu: Gpu, default_smact: float, said: Prediction, goal: Goal
    ) -> tuple[int, Prediction]:
        """The thread percentage of a job that comes to a GPU's residents, and what is predicted with it.

        Args:
            job: its profile.
            gpu: where it goes.
            default_smact: of residents of which nothing is known.
            said: what is predicted where each may use all threads.
            goal: see :func:`predictor.threads.choose`.
        """
        law = self.predictor.threads
        if law is None or not np.isfinite(said.throughput_sum):
            return ALL, said
        jobs = [job, *(profile_of(resident, default_smact) for resident in gpu.residents)]
        return choose(law, jobs, said, [min(max(r.threads, 1), ALL) for r in gpu.residents], goal)

    def beside(self, job: Profile, gpu: Gpu, default_smact: float) -> Prediction:
        """What is predicted for a job on one GPU."""
        return self.predictor.predict(job, [profile_of(resident, default_smact) for resident in gpu.residents])
