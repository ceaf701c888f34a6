"""What earlier runs of a model needed, by user and fingerprint. Pure: jobs' records in, lookups out.

A user's jobs are estimated from that user's own runs only: a summary is text that anybody can submit beside a program
of another size, and nobody's share may depend on what others claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from slurm_hooks.records import Record, Run, decode
from slurm_hooks.slurm.accounting import JobRun

# Runs of one model, and models of one user, that are kept; the latest count.
KEPT_RUNS = 16
KEPT_MODELS = 256
# A run that failed still shows its peak once it was past its first steps, in seconds.
_SETTLED_S = 300
_UNKNOWN = ("", "nobody")  # as Slurm calls all users whom the system does not know


@dataclass(frozen=True)
class Measured:
    """What was measured of one run.

    Attributes:
        key: job id and end time, so that a run that is looked at twice counts once.
        peak_mib: peak of GPU memory in MiB.
        smact, smocc, dram: mean activity, 0 to 1, or None where it was not measured while the job had the GPU to
            itself.
    """

    key: tuple[int, int]
    peak_mib: float
    smact: float | None = None
    smocc: float | None = None
    dram: float | None = None


Experience = Mapping[tuple[str, str], tuple[Measured, ...]]
"""By user, in small letters as slurmdbd has the name, and fingerprint."""


def runs_of(known: Experience, user: str, fingerprint: str) -> tuple[Measured, ...]:
    """What is known of a user's runs of a model; the name as slurmctld has it, perhaps with capitals."""
    return known.get((user.lower(), fingerprint), ())


def learn(known: Experience, jobs: Iterable[JobRun]) -> dict[tuple[str, str], tuple[Measured, ...]]:
    """`known` with what the records of `jobs` add."""
    learned = dict(known)
    users: set[str] = set()
    for job in jobs:
        record = decode(job.admin_comment)
        if record is None or not record.fingerprint or job.user in _UNKNOWN:
            continue
        where = (job.user, record.fingerprint)
        old = {m.key: m for m in learned.get(where, ())}
        old.update({m.key: m for m in _measured(job.job_id, record)})
        if old:
            latest = sorted(old.values(), key=lambda m: m.key[1])[-KEPT_RUNS:]
            learned[where] = tuple(latest)
            users.add(job.user)
    return _bounded(learned, users)


def _bounded(
    learned: dict[tuple[str, str], tuple[Measured, ...]], users: set[str]
) -> dict[tuple[str, str], tuple[Measured, ...]]:
    """`learned` without the models that some users have not run for longest, where they have very many."""
    models: dict[str, list[tuple[int, tuple[str, str]]]] = {}
    for where, measured in learned.items():
        if where[0] in users:
            models.setdefault(where[0], []).append((measured[-1].key[1], where))
    for mine in models.values():
        for _, where in sorted(mine)[:-KEPT_MODELS]:
            del learned[where]
    return learned


def _measured(job_id: int, record: Record) -> list[Measured]:
    return [
        Measured((job_id, run.end), float(run.peak_mib), *_activity(run))
        for run in record.runs
        if run.peak_mib and run.end is not None and _tells(run)
    ]


def _tells(run: Run) -> bool:
    if run.outcome == "completed":
        return True
    lasted = (run.end or 0) - run.start if run.start else 0
    return run.outcome == "failed" and lasted >= _SETTLED_S


def _activity(run: Run) -> tuple[float | None, ...]:
    """Activity of the GPU is the run's own only where no neighbour was there."""
    measured = (None, None, None) if run.neighbours else (run.smact_mean, run.smocc_mean, run.dram_mean)
    return tuple(None if value is None else min(1.0, max(0.0, value)) for value in measured)
