"""What is measured: which workloads alone, and which of them together, under which thread percentages. Pure."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass

from predictor.collection.specs import BESIDE_FRESH, PARTITIONED, SPECS

PARTITIONS = ((10, 90), (30, 70), (50, 50), (70, 30), (90, 10))
NEWCOMERS = (30, 50, 70)
"""Percentages of a job that comes to one that has all threads."""


@dataclass(frozen=True)
class Plan:
    """How much to measure.

    Attributes:
        window_s: time that counts of each run.
        solo_s: time that each side of a pair runs alone, before or after it runs beside the other.
        names: the workloads.
        first: workloads whose pairs are measured before all others, should time run out.
        fresh: further workloads, for judging: measured beside each other and beside those of ``beside_fresh``.
        beside_fresh: see ``fresh``.
        partitioned: those measured under thread percentages and under time slicing.
        swept: pairs swept under thread percentages: alone, without any, with those of :data:`PARTITIONS`, and, for
            either side, with those of :data:`NEWCOMERS` while the other has all threads.
        newcomers: pairs swept with those of :data:`NEWCOMERS` only.
        triples: number of triples.
        pairs_again: number of pairs measured under partitions and under time slicing.
        repeats: number of pairs measured a second time.
        seed: choice of the triples and of the repeats.
        budget_s: no measurement of colocations begins after so long.
    """

    window_s: float = 0.5
    solo_s: float = 0.2
    names: tuple[str, ...] = tuple(spec.name for spec in SPECS)
    first: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    beside_fresh: tuple[str, ...] = BESIDE_FRESH
    partitioned: tuple[str, ...] = PARTITIONED
    swept: tuple[tuple[str, str], ...] = ()
    newcomers: tuple[tuple[str, str], ...] = ()
    triples: int = 60
    pairs_again: int = 30
    repeats: int = 20
    seed: int = 1
    budget_s: float = math.inf

    @property
    def every(self) -> tuple[str, ...]:
        """All workloads, the fresh ones too."""
        return self.names + self.fresh

    def colocations(self) -> list[tuple[str, tuple[str, ...], int]]:
        """Kind (``self``, ``pair``, ``triple``), workloads and repeat of every colocation.

        Those that come first by the plan come first, the fresh ones too; within that in any order, so that a cut
        leaves a fair part of everything, and either workload of a pair may be its first side.
        """
        chance = random.Random(self.seed)  # noqa: S311 - a choice of measurements, no secret
        pairs = list(itertools.combinations(self.names, 2))
        again = chance.sample(pairs, min(self.repeats, len(pairs)))
        every = list(itertools.combinations(self.names, 3))
        triples = chance.sample(every, min(self.triples, len(every)))
        beside = [name for name in self.beside_fresh if name in self.names]
        pairs += [*itertools.combinations(self.fresh, 2), *itertools.product(self.fresh, beside)]
        jobs: list[tuple[str, tuple[str, ...], int]] = [("pair", pair, 0) for pair in pairs]
        jobs += [("pair", pair, 1) for pair in again]
        jobs += [("triple", triple, 0) for triple in triples]
        jobs += [("self", (name,), 0) for name in self.every]
        jobs = [(kind, tuple(chance.sample(group, len(group))), repeat) for kind, group, repeat in jobs]
        chance.shuffle(jobs)
        first = {*self.first, *self.fresh}
        # A twin must be loaded first: those come last.
        return sorted(jobs, key=lambda job: (job[0] == "self", not first.intersection(job[1])))

    def chosen_pairs(self) -> list[tuple[str, str]]:
        """The pairs measured again under partitions and time slicing."""
        pairs = list(itertools.combinations(self.partitioned, 2))
        chance = random.Random(self.seed)  # noqa: S311 - a choice of measurements, no secret
        return chance.sample(pairs, min(self.pairs_again, len(pairs)))
