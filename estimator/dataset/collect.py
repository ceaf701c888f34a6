"""Hands configurations to worker processes and keeps what they measure. Starts processes; `raw` writes the files.

Several workers share one GPU: each says how much memory it is about to use, and waits in line until
there is room. Rows are kept one by one, so that a collection that is broken off goes on where it was. Imports no torch
itself.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from estimator.dataset.raw import FAILURES, ROWS, TRACES, CollectError, RawFiles, done_ids
from estimator.dataset.specs import Spec

_LOG = logging.getLogger(__name__)
_SILENCE_SECONDS = 90.0
_GRACE_SECONDS = 20.0
# What takes longest to import: a process of its own for each configuration begins with these.
_PRELOADED = ["estimator.dataset.worker", "torchvision", "timm", "transformers", "pynvml"]


@dataclass(frozen=True)
class Options:
    """How to collect.

    Attributes:
        workers: processes at a time.
        capacity_mib: GPU memory that all of them may claim together.
        device: ``cuda``, or ``cpu`` to rehearse.
        minutes: hand out nothing new after this time.
        seconds: time for counters and speed with each configuration; give one worker then.
        isolated: a new process for every configuration, to check the long-lived ones against.
    """

    workers: int
    capacity_mib: float
    device: str = "cuda"
    minutes: float = 60.0
    seconds: float = 0.0
    isolated: bool = False


@dataclass
class Ledger:
    """Who has claimed how much GPU memory.

    Small claims may pass a large one that waits for room, but not for longer than ``patience`` seconds.
    """

    capacity: float
    patience: float = 6.0
    held: dict[int, float] = field(default_factory=dict)
    waiting: list[tuple[int, float, float]] = field(default_factory=list)

    def ask(self, worker: int, mib: float, now: float) -> None:
        """Put a claim at the end of the line; what the worker held before is given back."""
        self.held.pop(worker, None)
        self.waiting.append((worker, min(mib, self.capacity), now))

    def leave(self, worker: int) -> None:
        """Take a worker out of the line; what it holds stays held."""
        self.waiting = [claim for claim in self.waiting if claim[0] != worker]

    def drop(self, worker: int) -> None:
        """Forget a worker."""
        self.held.pop(worker, None)
        self.leave(worker)

    def waits(self, worker: int) -> bool:
        """Say whether a worker waits for room."""
        return any(claim[0] == worker for claim in self.waiting)

    def grant(self, now: float) -> list[int]:
        """Grant what there is room for, first come first served; returns the workers."""
        granted, left = [], []
        closed = False
        for worker, mib, since in self.waiting:
            if not closed and sum(self.held.values()) + mib <= self.capacity:
                self.held[worker] = mib
                granted.append(worker)
            else:
                left.append((worker, mib, since))
                closed = closed or now - since > self.patience
        self.waiting = left
        return granted


def bundles(specs: Iterable[Spec]) -> list[list[Spec]]:
    """Put configurations of one real model together, so that it is built once; synthetic ones stand alone."""
    found: dict[str, list[Spec]] = {}
    for spec in specs:
        key = spec.id if spec.source == "synthetic" else json.dumps([spec.source, spec.name, spec.arch], sort_keys=True)
        found.setdefault(key, []).append(spec)
    return list(found.values())


@dataclass
class _Child:
    process: Any
    pipe: Connection
    heard: float
    said: bool = False
    spec: str = ""
    todo: set[str] = field(default_factory=set)


class Collector:
    """One collection."""

    def __init__(
        self, specs: list[Spec], folder: Path, options: Options, target: Callable[..., None] | None = None
    ) -> None:
        """Prepare.

        Args:
            specs: what to measure; what the folder already holds is left out.
            folder: where raw results are.
            options: how to collect.
            target: what a worker process runs; default ``worker.main``, which needs torch.
        """
        self._target = target
        done = done_ids(folder)
        left = [spec for spec in specs if spec.id not in done]
        self._queue = [[spec] for spec in left] if options.isolated else bundles(left)
        self.total = sum(len(b) for b in self._queue)
        self.done = self.failed = self.replaced = 0
        self._options = options
        self._files = RawFiles(folder)
        self._children: dict[int, _Child] = {}
        self._ending: dict[int, Any] = {}
        self._ledger = Ledger(options.capacity_mib)
        self._next = 0
        self._stillborn = 0
        self._end = time.monotonic() + 60 * options.minutes

    def run(self, progress: Callable[[str], None]) -> None:
        """Collect until everything is measured or time is up.

        Args:
            progress: is told now and then how far things are.
        """
        self._queue.reverse()
        begin = told = time.monotonic()
        try:
            for _ in range(min(self._options.workers, len(self._queue))):
                self._start()
            while self._children:
                self._turn()
                now = time.monotonic()
                if now - told > 10:
                    told = now
                    progress(f"{self.done} of {self.total} measured, {self.failed} failed, {now - begin:.0f} s")
                if now > self._end + _GRACE_SECONDS:
                    break
        finally:
            for key in list(self._children):
                self._end_child(key)  # what it was measuring is measured when the collection goes on
            for process in self._ending.values():
                process.join(5)
            self._files.close()
        progress(f"{self.done} of {self.total} measured, {self.failed} failed, {time.monotonic() - begin:.0f} s")

    def _start(self) -> None:
        target = self._target
        if target is None:
            from estimator.dataset.worker import main as target  # noqa: PLC0415 - needs torch

        spawned = multiprocessing.get_context("spawn")
        forked = multiprocessing.get_context("forkserver")  # of a process that has imported all, and has no CUDA yet
        forked.set_forkserver_preload(_PRELOADED)
        context = forked if self._options.isolated else spawned
        ours, theirs = context.Pipe()
        arguments = (theirs, self._options.device, self._options.seconds, not self._options.isolated)
        process = context.Process(target=target, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self._children[self._next] = _Child(process, ours, time.monotonic())
        self._next += 1

    def _replace(self) -> None:
        """Start a worker in place of one that ended, unless workers end before they say a word."""
        if self._stillborn > 2 * self._options.workers:
            raise CollectError(f"{self._stillborn} workers ended before they began; see their messages above")
        if self._queue and time.monotonic() < self._end:
            self._start()

    def _turn(self) -> None:
        """Handle what has come in, or wait a moment for it."""
        ready = wait([child.pipe for child in self._children.values()], timeout=0.2)
        for key, child in list(self._children.items()):
            if child.pipe in ready:
                child.heard = time.monotonic()
                try:
                    self._handle(key, child, child.pipe.recv())
                except (EOFError, ConnectionResetError):
                    self._lose(key, "the process ended")
                    self._replace()
            elif time.monotonic() - child.heard > _SILENCE_SECONDS and not self._ledger.waits(key):
                self._lose(key, f"silent for {_SILENCE_SECONDS:.0f} s")
                self._replace()
        for key, process in list(self._ending.items()):
            if not process.is_alive():
                del self._ending[key]
                self._ledger.drop(key)
        for key in self._ledger.grant(time.monotonic()):
            self._children[key].heard = time.monotonic()
            self._send(key, "granted")

    def _send(self, key: int, message: Any) -> None:
        try:
            self._children[key].pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._lose(key, "the process ended")

    def _handle(self, key: int, child: _Child, message: tuple[Any, ...]) -> None:
        kind, *rest = message
        child.said = True
        self._stillborn = 0
        if kind == "next":
            self._ledger.drop(key)
            child.todo = set()
            if rest[0]:
                self.replaced += 1
                _LOG.warning("a worker that cannot give back %.0f MiB after %s is replaced", rest[0], child.spec)
            used = rest[0] or (self._options.isolated and child.spec)
            if used or not self._queue or time.monotonic() > self._end:
                self._send(key, None)
            else:
                bundle = self._queue.pop()
                child.todo = {spec.id for spec in bundle}
                self._send(key, [spec.to_json() for spec in bundle])
        elif kind == "claim":
            child.spec = rest[0]
            self._ledger.ask(key, rest[1], time.monotonic())
        elif kind == "row":
            self.done += 1
            self._files.write(ROWS, rest[0])
        elif kind == "trace":
            self._files.write(TRACES, {"model": rest[0], "trace": rest[1]})
        elif kind == "failed":
            self._fail(rest[0], rest[1])

    def _fail(self, spec: str, why: str) -> None:
        self.failed += 1
        _LOG.warning("configuration %s: %s", spec, why)
        self._files.write(FAILURES, {"id": spec, "why": why})

    def _lose(self, key: int, why: str) -> None:
        """End a process that its configuration brought down."""
        child = self._children[key]
        self._stillborn += not child.said
        self._end_child(key)
        if child.todo and time.monotonic() < self._end:
            self._fail(child.spec, why)

    def _end_child(self, key: int) -> None:
        child = self._children.pop(key)
        self._ledger.leave(key)
        child.process.terminate()
        self._ending[key] = child.process  # what it holds of the GPU is free when it is gone
        child.pipe.close()
