"""Decides who runs when: starts resident workers, lets them run alone, in pairs and triples, and writes what came out.

Starts processes (workers, and the MPS daemon of a folder of its own), reads the GPU's counters, appends JSON
lines to one file, so that whatever was measured before a cut is kept.
"""

from __future__ import annotations

import itertools
import json
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

from predictor.collection.specs import PARTITIONED, SPECS
from predictor.counters import Source
from predictor.types import ProfileError

PARTITIONS = ((10, 90), (30, 70), (50, 50), (70, 30), (90, 10))
HANDSHAKE_S = 0.15


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
        names: the workloads.
        partitioned: those measured under thread percentages and under time slicing.
        triples: number of triples.
        pairs_again: number of pairs measured under partitions and under time slicing.
        repeats: number of pairs measured a second time.
        seed: choice of the triples and of the repeats.
    """

    window_s: float = 0.6
    names: tuple[str, ...] = tuple(spec.name for spec in SPECS)
    partitioned: tuple[str, ...] = PARTITIONED
    triples: int = 60
    pairs_again: int = 30
    repeats: int = 20
    seed: int = 1


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

    def write(self, **row: Any) -> None:
        """Append one measurement."""
        with self.output.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")

    def together(self, sides: Sequence[tuple[Worker, str]], counted: bool = False) -> tuple[list[float], Any]:
        """Run workloads at the same time; their rates, and the counters if asked."""
        for worker, _ in sides:
            worker.require()
        begin = time.monotonic() + HANDSHAKE_S
        end = begin + self.plan.window_s
        for worker, name in sides:
            worker.send(do="window", name=name, begin=begin, end=end)
        counters = None
        if counted:
            time.sleep(max(0.0, begin - time.monotonic()))
            self.counters.start()
            time.sleep(max(0.0, end - time.monotonic()))
            counters = self.counters.stop()
        answers, failures = [], []
        for worker, _ in sides:
            # Every answer is taken off its pipe, also when another side failed.
            try:
                answers.append(worker.receive(self.timeout_s))
            except ProfileError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return [answer["rate"] for answer in answers], counters

    def alone(self, worker: Worker, name: str, **labels: Any) -> None:
        """Measure one workload running alone."""
        (rate,), counters = self.together([(worker, name)], counted=True)
        values = asdict(counters)
        row = {"kind": "alone", "workloads": [name], "rates": [rate], "counters": values, **labels}
        self.write(**row, reserved_mib=worker.reserved_mib[name])
        self.say(f"{name}: {rate:.1f}/s smact {values['smact']:.2f} dram {values['dram']:.2f}")

    def colocated(self, kind: str, sides: Sequence[tuple[Worker, str]], **labels: Any) -> None:
        """Measure workloads together."""
        names = [name for _, name in sides]
        rates, _ = self.together(sides)
        self.write(kind=kind, workloads=names, rates=rates, window_s=self.plan.window_s, **labels)

    def _safely(self, run: Callable[..., None], what: Any, *arguments: Any, **labels: Any) -> None:
        """One failed measurement is reported and left out; the others go on."""
        try:
            run(*arguments, **labels)
        except ProfileError as error:
            self.write(kind="failed", what=what, why=str(error))
            self.say(f"FAILED {what}: {error}")

    def shared(self, environment: Mapping[str, str]) -> None:
        """Exclusive runs, every pair (a workload beside itself too), triples and repeats."""
        names = self.plan.names
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
                if done == len(jobs) // 2:
                    for name in names:
                        self._safely(self.alone, name, at[name], name, method="mps", repeat=1)
                sides = [(at[name], name) for name in group]
                self._safely(self.colocated, group, kind, sides, method="mps", repeat=repeat)
                if done % 50 == 0:
                    self.say(f"{done}/{len(jobs)} colocations")
            for name in names:
                self._safely(self.beside_itself, name, at[name], twin, name)
            for name in names:
                self._safely(self.alone, name, at[name], name, method="mps", repeat=2)

    def colocations(self) -> list[tuple[str, tuple[str, ...], int]]:
        """Kind, workloads and repeat of every colocation of different workloads.

        In any order, so that a cut leaves a fair part of everything.
        """
        names = self.plan.names
        chance = random.Random(self.plan.seed)  # noqa: S311 - a choice of measurements, no secret
        pairs = list(itertools.combinations(names, 2))
        again = chance.sample(pairs, min(self.plan.repeats, len(pairs)))
        every = list(itertools.combinations(names, 3))
        triples = chance.sample(every, min(self.plan.triples, len(every)))
        jobs: list[tuple[str, tuple[str, ...], int]] = [("pair", pair, 0) for pair in pairs]
        jobs += [("pair", pair, 1) for pair in again]
        jobs += [("triple", triple, 0) for triple in triples]
        chance.shuffle(jobs)
        return jobs

    def beside_itself(self, worker: Worker, twin: Worker, name: str) -> None:
        """Measure a workload beside another of the same."""
        twin.require()
        twin.send(do="load", name=name)
        twin.receive(self.timeout_s)
        self.colocated("pair", [(worker, name), (twin, name)], method="mps", repeat=0)
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
        with workers([(name,) for name in self.plan.names], self.device, self.tiny) as resident:
            self.say(f"{len(resident)} workers ready, to be traced")
            for name, worker in zip(self.plan.names, resident, strict=True):
                self._safely(self.kernels, name, worker, name)

    def kernels(self, worker: Worker, name: str) -> None:
        """Kernel metrics of one workload."""
        worker.require()
        worker.send(do="kernels", name=name)
        self.write(kind="kernels", workloads=[name], metrics=worker.receive(self.timeout_s))

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
