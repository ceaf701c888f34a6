"""Decides who runs when: starts resident workers, lets them run alone, in pairs and triples, and writes what came out.

Starts processes (workers, and the MPS daemon of a folder of its own), reads the GPU's counters, appends JSON
lines to one file, so that whatever was measured before a cut is kept.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from predictor.collection.specs import BESIDE_FRESH, PARTITIONED, SPECS, spec_of
from predictor.counters import Source
from predictor.measurements import Course
from predictor.types import ProfileError

PARTITIONS = ((10, 90), (30, 70), (50, 50), (70, 30), (90, 10))
NEWCOMERS = (30, 50, 70)
"""Percentages of a job that comes to one that has all threads."""
ALL = 100
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
CORES_A_SIDE = 4
MAX_SIDES = 3


def cores_of(side: int) -> list[int]:
    """Processor cores for one side of a colocation; none on a machine of few, where nothing is bound."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < MAX_SIDES * CORES_A_SIDE:
        return []
    return cores[side * CORES_A_SIDE : (side + 1) * CORES_A_SIDE]


class Worker:
    """A resident process and its pipe."""

    def __init__(self, names: Sequence[str], device: str, tiny: bool, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "predictor.collection.worker", *names, "--device", device]
        self.names = tuple(names)
        self.reserved_mib: dict[str, float] = {}
        self.failure = ""
        self.process = subprocess.Popen(
            [*command, *(["--tiny"] if tiny else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **environment},
        )

    def send(self, **command: Any) -> None:
        """Send a command.

        Raises:
            ProfileError: the worker is gone.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._fail(f"it is gone ({error.strerror})") from error

    def require(self) -> None:
        """Do nothing if the worker can take commands.

        Raises:
            ProfileError: it failed before.
        """
        if self.failure:
            raise ProfileError(self.failure)

    def _fail(self, why: str) -> ProfileError:
        self.failure = f"worker {' '.join(self.names)}: {why}"
        self.process.kill()
        return ProfileError(self.failure)

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The next answer.

        Raises:
            ProfileError: the worker died, did not answer in time, or answers with an error; it is of no more use.
        """
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise self._fail("it ended" if ready else f"no answer within {timeout_s:.0f} s")
        content: dict[str, Any] = json.loads(line)
        if "error" in content:
            raise self._fail(content["error"])
        return content

    def dismiss(self) -> None:
        """Tell the process to end, without waiting for it."""
        with suppress(ProfileError, ValueError):
            self.send(do="stop")

    def close(self) -> None:
        """Wait for the end of the process, and force it if it does not come."""
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def stolen_s() -> float:
    """Seconds that other machines of the same host took of this one's processors, 0 where nothing says."""
    with suppress(OSError, ValueError, IndexError):
        first = STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
        return int(first[8]) / os.sysconf("SC_CLK_TCK")
    return 0.0


@contextmanager
def workers(
    groups: Iterable[Sequence[str]],
    device: str,
    tiny: bool = False,
    environments: Iterable[Mapping[str, str]] | None = None,
    timeout_s: float = 180.0,
) -> Iterator[list[Worker]]:
    """Resident workers, one for each group of workload names, all started before any is waited for."""
    listed = [tuple(group) for group in groups]
    given = list(environments) if environments is not None else [{}] * len(listed)
    started: list[Worker] = []
    try:
        for names, environment in zip(listed, given, strict=True):
            started.append(Worker(names, device, tiny, environment))
        deadline = time.monotonic() + timeout_s
        for worker in started:
            # One that fails to build its workload fails alone: whoever asks it to run is told so.
            with suppress(ProfileError):
                worker.reserved_mib = worker.receive(max(1.0, deadline - time.monotonic()))["ready"]
        yield started
    finally:
        for worker in started:
            worker.dismiss()
        for worker in started:
            worker.close()


@contextmanager
def mps(folder: Path) -> Iterator[dict[str, str]]:
    """An MPS daemon of our own; yields the environment that its clients need."""
    pipes, logs = folder / "pipe", folder / "log"
    for each in (pipes, logs):
        each.mkdir(parents=True, exist_ok=True)
    client = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}
    environment = {**os.environ, **client, "CUDA_MPS_LOG_DIRECTORY": str(logs)}
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True, timeout=30)
    try:
        yield client
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], env=environment, input="quit\n", text=True, check=False, timeout=60)


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
            jobs = self.colocations()
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

    def colocations(self) -> list[tuple[str, tuple[str, ...], int]]:
        """Kind (``self``, ``pair``, ``triple``), workloads and repeat of every colocation.

        Those that come first by the plan come first, the fresh ones too; within that in any order, so that a cut
        leaves a fair part of everything, and either workload of a pair may be its first side.
        """
        plan = self.plan
        chance = random.Random(plan.seed)  # noqa: S311 - a choice of measurements, no secret
        pairs = list(itertools.combinations(plan.names, 2))
        again = chance.sample(pairs, min(plan.repeats, len(pairs)))
        every = list(itertools.combinations(plan.names, 3))
        triples = chance.sample(every, min(plan.triples, len(every)))
        beside = [name for name in plan.beside_fresh if name in plan.names]
        pairs += [*itertools.combinations(plan.fresh, 2), *itertools.product(plan.fresh, beside)]
        jobs: list[tuple[str, tuple[str, ...], int]] = [("pair", pair, 0) for pair in pairs]
        jobs += [("pair", pair, 1) for pair in again]
        jobs += [("triple", triple, 0) for triple in triples]
        jobs += [("self", (name,), 0) for name in plan.every]
        jobs = [(kind, tuple(chance.sample(group, len(group))), repeat) for kind, group, repeat in jobs]
        chance.shuffle(jobs)
        first = {*plan.first, *plan.fresh}
        # A twin must be loaded first: those come last.
        return sorted(jobs, key=lambda job: (job[0] == "self", not first.intersection(job[1])))

    def beside_itself(self, worker: Worker, twin: Worker, name: str) -> None:
        """Measure a workload beside another of the same."""
        twin.require()
        twin.send(do="load", name=name)
        twin.receive(self.timeout_s)
        self.crossed([(worker, name), (twin, name)], method="mps", repeat=0)
        twin.send(do="drop", name=name)
        twin.receive(self.timeout_s)

    def chosen_pairs(self) -> list[tuple[str, str]]:
        """The pairs measured again under partitions and time slicing."""
        pairs = list(itertools.combinations(self.plan.partitioned, 2))
        chance = random.Random(self.plan.seed)  # noqa: S311 - a choice of measurements, no secret
        return chance.sample(pairs, min(self.plan.pairs_again, len(pairs)))

    def sliced(self) -> None:
        """The chosen pairs under plain time slicing."""
        with workers([(name,) for name in self.plan.partitioned], self.device, self.tiny) as resident:
            self.say(f"{len(resident)} workers ready, no MPS")
            by_name = dict(zip(self.plan.partitioned, resident, strict=True))
            for name in self.plan.partitioned:
                self._safely(self.alone, name, by_name[name], name, method="slicing")
            for pair in self.chosen_pairs():
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
            for pair in self.chosen_pairs():
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
