"""Decides who runs when: lets resident workers run alone, in pairs and triples, and writes what came out.

Reads the GPU's counters and appends JSON lines to one file, so that whatever was measured before a cut is kept.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from predictor.collection.plan import NEWCOMERS, PARTITIONS, Plan
from predictor.collection.resident import Worker, cores_of, workers
from predictor.collection.sessions import Course
from predictor.collection.specs import spec_of
from predictor.counters import Source
from predictor.threads import ALL
from predictor.types import ProfileError

MAX_CLIENTS = 46
"""Processes at a time: MPS serves 48 of a GPU."""
HANDSHAKE_S = 0.02
LEAD_S = 0.1
"""From the first iteration to the moment that counts."""
SETTLE_S = 0.05
"""The same for a side that comes to one that runs already."""
TRACE_TIMEOUT_S = 45.0
RECURRENT = ("lstm", "gru")
"""Families of thousands of launches an iteration."""
STAT = Path("/proc/stat")


def stolen_s() -> float:
    """Seconds that other machines of the same host took of this one's processors, 0 where nothing says."""
    with suppress(OSError, ValueError, IndexError):
        first = STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
        return int(first[8]) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Collector:
    """Runs a plan and writes one JSON line a measurement.

    Args:
        plan: what to measure.
        device: ``cuda`` or ``cpu``.
        counters: the GPU's counters, read while a workload runs alone.
        output: file to append to.
        tiny: stand-ins instead of the real workloads.
        say: where progress goes.
    """

    def __init__(
        self,
        plan: Plan,
        device: str,
        counters: Source,
        output: Path,
        *,
        tiny: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.plan, self.device, self.tiny = plan, device, tiny
        self.counters, self.output, self.say = counters, output, say
        self.timeout_s = 60.0
        self.begun = time.monotonic()
        self.stolen_s = stolen_s()

    def write(self, **row: Any) -> None:
        """Append one measurement, and the time that other machines took of this one's processors since the last."""
        before, self.stolen_s = self.stolen_s, stolen_s()
        with self.output.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**row, "stolen_s": round(self.stolen_s - before, 3)}) + "\n")

    def late(self) -> bool:
        """Whether the time for colocations is over."""
        return time.monotonic() - self.begun > self.plan.budget_s

    def together(self, sides: Sequence[tuple[Worker, str, float, float]]) -> list[Course]:
        """Run workloads, each from one moment to another, and say what each did."""
        for worker, *_ in sides:
            worker.require()
        for place, (worker, name, begin, end) in enumerate(sides):
            worker.send(do="window", name=name, begin=begin, end=end, cores=cores_of(place))
        answers, failures = [], []
        for worker, *_ in sides:
            # Every answer is taken off its pipe, also when another side failed.
            try:
                answers.append(worker.receive(self.timeout_s))
            except ProfileError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return [Course(answer["begun"], tuple(answer["moments"])) for answer in answers]

    def alone(self, worker: Worker, name: str, **labels: Any) -> None:
        """Measure one workload running alone."""
        worker.require()
        begin = time.monotonic() + HANDSHAKE_S + LEAD_S
        end = begin + self.plan.window_s
        worker.send(do="window", name=name, begin=begin - LEAD_S, end=end, cores=cores_of(0))
        time.sleep(max(0.0, begin - time.monotonic()))
        self.counters.start()
        time.sleep(max(0.0, end - time.monotonic()))
        values = asdict(self.counters.stop())
        answer = worker.receive(self.timeout_s)
        rate = Course(answer["begun"], tuple(answer["moments"])).rate(begin, end)
        row = {"kind": "alone", "workloads": [name], "rates": [rate], "counters": values, **labels}
        self.write(**row, reserved_mib=worker.reserved_mib[name])
        self.say(f"{name}: {rate:.1f}/s smact {values['smact']:.2f} dram {values['dram']:.2f}")

    def rates(self, sides: Sequence[tuple[Worker, str]]) -> list[float]:
        """What workloads reach that run together from beginning to end, each in iterations a second."""
        begin = time.monotonic() + HANDSHAKE_S + LEAD_S
        end = begin + self.plan.window_s
        courses = self.together([(worker, name, begin - LEAD_S, end) for worker, name in sides])
        return [course.rate(begin, end) for course in courses]

    def colocated(self, kind: str, sides: Sequence[tuple[Worker, str]], **labels: Any) -> None:
        """Measure workloads together, all from beginning to end."""
        names = [name for _, name in sides]
        self.write(kind=kind, workloads=names, rates=self.rates(sides), window_s=self.plan.window_s, **labels)

    def crossed(self, sides: Sequence[tuple[Worker, str]], **labels: Any) -> None:
        """Measure a pair: the first side alone, then both, then the second alone.

        How fast a host launches differs from one moment to the next. Each side's progress is reckoned from what it
        did alone in the same run, a moment ago.
        """
        begin = time.monotonic() + HANDSHAKE_S
        meet = begin + LEAD_S + self.plan.solo_s
        part = meet + SETTLE_S + self.plan.window_s
        end = part + self.plan.solo_s
        (one, first), (two, second) = sides
        courses = self.together([(one, first, begin, part), (two, second, meet, end)])
        moments = [[round(1e3 * (moment - begin), 1) for moment in (each.begun, *each.moments)] for each in courses]
        spans = {
            "alone_ms": [1e3 * LEAD_S, 1e3 * (meet - begin)],
            "met_ms": [1e3 * (meet + SETTLE_S - begin), 1e3 * (part - begin)],
            "end_ms": 1e3 * (end - begin),
        }
        self.write(kind="pair", workloads=[first, second], moments_ms=moments, **spans, **labels)

    def _safely(self, run: Callable[..., None], what: Any, *arguments: Any, **labels: Any) -> None:
        """One failed measurement is reported and left out; the others go on."""
        try:
            run(*arguments, **labels)
        except ProfileError as error:
            self.write(kind="failed", what=what, why=str(error))
            self.say(f"FAILED {what}: {error}")

    def shared(self, environment: Mapping[str, str]) -> None:
        """Exclusive runs, every pair (a workload beside itself too), triples and repeats."""
        names = self.plan.every
        # The last worker holds nothing yet: it is the twin of whichever workload runs beside itself.
        groups = [*((name,) for name in names), ()]
        with workers(groups, self.device, self.tiny, [environment] * len(groups)) as resident:
            self.say(f"{len(resident)} workers ready")
            twin = resident[-1]
            at = dict(zip(names, resident, strict=False))
            for name in names:
                self._safely(self.alone, name, at[name], name, method="mps")
            jobs = self.plan.colocations()
            for done, (kind, group, repeat) in enumerate(jobs):
                if self.late():
                    self.say(f"time is over after {done} of {len(jobs)} colocations")
                    break
                if kind == "self":
                    self._safely(self.beside_itself, group[0], at[group[0]], twin, group[0])
                elif kind == "pair":
                    pair = [(at[name], name) for name in group]
                    self._safely(self.crossed, group, pair, method="mps", repeat=repeat)
                else:
                    sides = [(at[name], name) for name in group]
                    self._safely(self.colocated, group, kind, sides, method="mps", repeat=repeat)
                if done % 50 == 0:
                    self.say(f"{done}/{len(jobs)} colocations")
            for name in names:
                self._safely(self.alone, name, at[name], name, method="mps", repeat=1)

    def beside_itself(self, worker: Worker, twin: Worker, name: str) -> None:
        """Measure a workload beside another of the same."""
        twin.require()
        twin.send(do="load", name=name)
        twin.receive(self.timeout_s)
        self.crossed([(worker, name), (twin, name)], method="mps", repeat=0)
        twin.send(do="drop", name=name)
        twin.receive(self.timeout_s)

    def sliced(self) -> None:
        """The chosen pairs under plain time slicing."""
        with workers([(name,) for name in self.plan.partitioned], self.device, self.tiny) as resident:
            self.say(f"{len(resident)} workers ready, no MPS")
            by_name = dict(zip(self.plan.partitioned, resident, strict=True))
            for name in self.plan.partitioned:
                self._safely(self.alone, name, by_name[name], name, method="slicing")
            for pair in self.plan.chosen_pairs():
                sides = [(by_name[name], name) for name in pair]
                self._safely(self.colocated, pair, "pair", sides, method="slicing")

    def traced(self) -> None:
        """Every workload's kernels, in processes of their own: tracing may slow one down for good."""
        # Those with so many launches that a trace takes long come last: they keep no other waiting.
        names = sorted(self.plan.every, key=lambda name: spec_of(name).family in RECURRENT)
        with workers([(name,) for name in names], self.device, self.tiny) as resident:
            self.say(f"{len(resident)} workers ready, to be traced")
            for name, worker in zip(names, resident, strict=True):
                self._safely(self.kernels, name, worker, name)

    def kernels(self, worker: Worker, name: str) -> None:
        """Kernel metrics of one workload."""
        worker.require()
        worker.send(do="kernels", name=name, iterations=1 if spec_of(name).family in RECURRENT else 5)
        metrics = worker.receive(TRACE_TIMEOUT_S)
        self.write(kind="kernels", workloads=[name], metrics=metrics)
        self.say(f"{name}: {metrics['launches']:.0f} launches in {metrics['elapsed_s']:.2f} s")

    def partitioned(self, environment: Mapping[str, str]) -> None:
        """The chosen pairs under each partition: a process for each workload and percentage."""
        percentages = sorted({share for partition in PARTITIONS for share in partition})
        keys = [(name, share) for name in self.plan.partitioned for share in percentages]
        environments = [{**environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share)} for _, share in keys]
        with workers([(name,) for name, _ in keys], self.device, self.tiny, environments) as resident:
            self.say(f"{len(resident)} workers ready, partitioned")
            at = dict(zip(keys, resident, strict=True))
            for name, share in keys:
                self._safely(self.alone, name, at[name, share], name, method="mps", share=share)
            for pair in self.plan.chosen_pairs():
                for shares in PARTITIONS:
                    sides = [(at[name, share], name) for name, share in zip(pair, shares, strict=True)]
                    self._safely(self.colocated, pair, "pair", sides, method="mps", shares=list(shares))

    def swept(self, environment: Mapping[str, str]) -> None:
        """The pairs of the plan under one thread percentage after another, a side's turn alone among them.

        As many pairs at a time as MPS can serve the processes of: one for each workload and percentage.
        """
        some = tuple(sorted({ALL, *NEWCOMERS}))
        every = tuple(sorted({*some, *itertools.chain.from_iterable(PARTITIONS)}))
        rest = [(pair, every) for pair in self.plan.swept] + [(pair, some) for pair in self.plan.newcomers]
        while rest and not self.late():
            keys: set[tuple[str, int]] = set()
            now: list[tuple[str, str]] = []
            for pair, percentages in rest:
                wanted = keys | set(itertools.product(pair, percentages))
                if len(wanted) <= MAX_CLIENTS:
                    keys = wanted
                    now.append(pair)
            rest = [(pair, percentages) for pair, percentages in rest if pair not in now]
            self._sweep(sorted(keys), now, environment)

    def _sweep(
        self, keys: Sequence[tuple[str, int]], pairs: Sequence[tuple[str, str]], environment: Mapping[str, str]
    ) -> None:
        environments = [{**environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share)} for _, share in keys]
        with workers([(name,) for name, _ in keys], self.device, self.tiny, environments) as resident:
            self.say(f"{len(resident)} workers ready, to be swept")
            at = dict(zip(keys, resident, strict=True))
            for done, pair in enumerate(pairs):
                if self.late():
                    self.say(f"time is over after {done} of {len(pairs)} pairs")
                    return
                self._safely(self.sweep, pair, at, pair)
                self.say(f"{done + 1}/{len(pairs)} pairs swept")

    def sweep(self, at: Mapping[tuple[str, int], Worker], pair: tuple[str, str]) -> None:
        """Measure one pair: each side alone, together without a percentage, and with each.

        Progress is relative to what a side does alone in the same sweep, half of it before and half after.
        """
        partitions = [(ALL, ALL), *(PARTITIONS if pair in self.plan.swept else ())]
        for share in NEWCOMERS:
            partitions += [(ALL, share), (share, ALL)]
        solo = [[(at[name, ALL], name)] for name in pair]
        before = [self.rates(side)[0] for side in solo]
        found = []
        for shares in partitions:
            found.append(self.rates([(at[name, share], name) for name, share in zip(pair, shares, strict=True)]))
        alone = [(rate + self.rates(side)[0]) / 2 for rate, side in zip(before, solo, strict=True)]
        for shares, rates in zip(partitions, found, strict=True):
            row = {"kind": "pair", "workloads": list(pair), "rates": rates, "alone": alone, "shares": list(shares)}
            self.write(**row, method="swept", window_s=self.plan.window_s)
