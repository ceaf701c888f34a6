"""MPS thread percentages: what jobs on one GPU reach under them, and which a job that comes should get. Pure.

A job that may use a part f of the threads, and fills a part d of the SMs while its kernels run, stretches its time on
the GPU by about d / f where that is over 1. Where jobs may use different SMs, contention is a part of what it is
without percentages. How much the host hides of it is the same as everywhere (:func:`predictor.contention.slacken`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from predictor.contention import slacken
from predictor.types import Floats, Prediction, Profile

Goal = Literal["sum", "max-min"]
SHARPNESS = 4.0
ALL = 100
CHOICES = (100, 70, 50, 30)
"""Percentages of a job that comes to others; those that our measurements hold."""
WORTH = 0.05
"""By how much the goal must be better for a limit: it stays for as long as the job runs, its neighbours may not."""


def demand(profile: Profile) -> float:
    """Part of the SMs that a job fills while its kernels run, 0..1."""
    busy = _busy(profile)
    return float(min(profile.smact / busy, 1.0)) if busy > 0.0 else 0.0


def _busy(profile: Profile) -> float:
    return profile.smact if np.isnan(profile.busy) else profile.busy


@dataclass(frozen=True)
class Law:
    """What thread percentages do to progress.

    Attributes:
        scale: of a job's demand for SMs.
        remains: part of the contention that is left between jobs whose SMs do not overlap.
    """

    scale: float
    remains: float

    def progress(self, jobs: Sequence[Profile], without: Floats, shares: Sequence[Sequence[int]]) -> Floats:
        """Progress of jobs under thread percentages.

        Args:
            jobs: their exclusive profiles.
            without: shape (jobs,), progress where each may use all threads.
            shares: for each partition the percentage of every job, 1 to 100.

        Returns:
            Shape (partitions, jobs), 0 to 1; where all have 100 it is ``without``.
        """
        return limited(self.scale, jobs, shares) * without ** felt(self.remains, shares)


def _parts(shares: Sequence[Sequence[int]]) -> Floats:
    return np.array(shares, dtype=np.float64) / ALL


def limited(scale: float, jobs: Sequence[Profile], shares: Sequence[Sequence[int]]) -> Floats:
    """What is left of each job's progress by its own percentage, whatever its neighbours do: see `Law`."""
    part = _parts(shares)
    need = scale * np.array([demand(profile) for profile in jobs])
    busy = np.array([_busy(profile) for profile in jobs])

    def slow(some: Floats) -> Floats:
        stretch = (1.0 + (need / some) ** SHARPNESS) ** (1.0 / SHARPNESS)
        return slacken(stretch - 1.0, np.broadcast_to(busy, stretch.shape), SHARPNESS)[0]

    left: Floats = np.exp(slow(np.ones_like(part)) - slow(part))
    return left


def felt(remains: float, shares: Sequence[Sequence[int]]) -> Floats:
    """What part of the contention each job feels where its SMs may be others' too: see `Law`."""
    part = _parts(shares)
    # Of what a job may use, so much a neighbour may use too: shape (partitions, jobs, neighbours).
    overlap = np.clip((part[:, :, None] + part[:, None, :] - 1.0) / part[:, :, None], 0.0, 1.0)
    jobs = part.shape[1]
    shared = np.where(np.eye(jobs, dtype=bool), 0.0, overlap).sum(axis=2) / max(jobs - 1, 1)
    part_felt: Floats = remains + (1.0 - remains) * shared
    return part_felt


def choose(
    law: Law, jobs: Sequence[Profile], said: Prediction, residents: Sequence[int], goal: Goal
) -> tuple[int, Prediction]:
    """The thread percentage of a job that comes to others, and what is predicted with it.

    Args:
        law: what percentages do.
        jobs: exclusive profiles, of the job that comes first, then of the residents.
        said: what is predicted where each may use all threads.
        residents: percentages of the residents, which stay as they are.
        goal: ``sum``: the highest sum of progress; ``max-min``: the highest progress of the slowest.
    """
    shares = [(percentage, *residents) for percentage in CHOICES]
    progress = law.progress(jobs, np.array(said.sides), shares)
    value = progress.sum(axis=1) if goal == "sum" else progress.min(axis=1)
    index = int(np.argmax(value - np.where(np.array(CHOICES) == ALL, 0.0, WORTH)))
    found = progress[index]
    return CHOICES[index], Prediction(float(found[0]), tuple(map(float, found[1:])), said.uncertainty)
