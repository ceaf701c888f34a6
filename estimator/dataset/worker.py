"""The process that measures one configuration after another. Needs torch; talks to its parent over a pipe.

Messages to the parent: ``("next", mib)`` asks for models, or to be replaced if that much could not be given back;
``("claim", id, mib)`` asks for GPU memory and waits for ``"granted"``, ``("row", dict)``, ``("trace", model_id, dict)``
and ``("failed", id, why)`` report. Messages from the parent: a list of configurations of one model, ``"granted"``, or
None to end.
"""

from __future__ import annotations

import gc
import itertools
import os
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from estimator.dataset.counters import Window, process_mib
from estimator.dataset.feeds import feed
from estimator.dataset.measure import MIB, Cpu, Cuda, Device, Measured, measure
from estimator.dataset.models import build_model
from estimator.dataset.specs import LIMIT_MIB, Spec, claim_mib, claim_of, costs, spec_from_json
from estimator.dataset.trace import trace
from estimator.dataset.tree import to_json

_FIRST_CLAIM_MIB = 8 * 1024.0
_WHOLE_MIB = LIMIT_MIB + 2048.0
_EVERYTHING_MIB = 1e9
_TOO_LONG_SECONDS = 2.5
# A process of its own goes on for as many steps, as a job would, where a long-lived one sees that peaks stand still.
_OWN_STEPS = 12
# A library that caches a small tensor keeps the whole segment around it: what is measured next would contain it.
_LEFT_MIB = 64.0


class Pipe(Protocol):
    """The end of a pipe, as ``multiprocessing`` has it."""

    def send(self, obj: Any, /) -> None:
        """Send one message."""

    def recv(self) -> Any:
        """Wait for one message."""


def ask(pipe: Pipe, left_mib: float = 0.0) -> list[Spec] | None:
    """Ask the parent for configurations of one model; None where it is over.

    Args:
        pipe: the way to the parent.
        left_mib: GPU memory that could not be given back: the parent replaces a process that holds any.
    """
    pipe.send(("next", left_mib))
    specs = pipe.recv()
    return None if specs is None else [spec_from_json(spec) for spec in specs]


class Worker:
    """Measures the configurations that its parent hands it."""

    def __init__(self, pipe: Pipe, device: Device, *, seconds: float = 0.0, traces: bool = True) -> None:
        """Start.

        Args:
            pipe: the way to the parent.
            device: where models run.
            seconds: time for counters and speed after each measurement, 0 for none; needs a quiet GPU.
            traces: also trace each real model.
        """
        self._pipe, self._device = pipe, device
        self._seconds, self._traces = seconds, traces
        self._window = Window() if seconds else None
        self._traced: set[str] = set()
        self._before = (0.0, 0.0)

    def run(self) -> None:
        """Measure until the parent says that it is over."""
        while True:
            # What lives between two models is the libraries: collecting garbage must not walk over them.
            gc.freeze()
            left = self._device.left()
            specs = ask(self._pipe, left if left > _LEFT_MIB else 0.0)
            if specs is None:
                return
            self._bundle(specs)

    def _claim(self, spec: Spec, mib: float) -> None:
        self._pipe.send(("claim", spec.id, mib))
        self._pipe.recv()

    def _bundle(self, specs: list[Spec]) -> None:
        """Measure configurations of one model; a neighbour may take its memory once, then it gets all."""
        todo = {spec.id: spec for spec in specs}
        first = specs[0]
        guess = claim_mib(first) if first.source == "synthetic" else _FIRST_CLAIM_MIB
        for claim in (guess, _EVERYTHING_MIB):
            self._claim(first, claim)
            failure = self._attempt(todo)
            if failure is None or not failure.startswith("OutOfMemoryError"):
                break
        for spec in todo.values():
            self._pipe.send(("failed", spec.id, failure or "left out: would take too long or too much"))
        if failure is not None and ("CUDA error" in failure or "AcceleratorError" in failure):
            os._exit(3)  # the context is lost: the parent starts another process

    def _attempt(self, todo: dict[str, Spec]) -> str | None:
        """Build the model and run what is left to do; returns why it had to stop, or None."""
        model: nn.Module | None = None
        try:
            with self._device.context():
                self._device.clean(collect=False)
                model = self._build(next(iter(todo.values())))
                self._run(todo, model)
        except Exception as error:  # a library's model may raise anything; it must not end the collection
            return describe(error)
        finally:
            del model
            with suppress(RuntimeError):
                self._device.clean()
        return None

    def _build(self, spec: Spec) -> nn.Module:
        """Build a model; on the GPU, where initialising takes no time, unless its code cannot."""
        try:
            with torch.device(self._device.name):
                return build_model(spec)
        except (TypeError, RuntimeError):
            if spec.source == "synthetic":
                raise
        return build_model(spec)

    def _run(self, todo: dict[str, Spec], model: nn.Module) -> None:
        """Measure what is to do, one precision after the other, and strike it off."""
        done: list[tuple[Spec, Measured]] = []
        specs = list(todo.values())
        known = specs[0].source == "synthetic"
        params = sum(p.numel() for p in model.parameters())
        numbers: dict[str, int] = {}
        for precision, group in itertools.groupby(specs, key=lambda s: s.precision):
            self._place(model, precision, fresh=known)
            for spec in group:
                guess = claim_mib(spec) if known else 0.0
                if not known:
                    if spec.model_id not in numbers:
                        numbers[spec.model_id] = self._trace(spec, model)
                    guess = extrapolate(spec, done) or claim_of(spec, numbers[spec.model_id], params)
                    if guess > 1.5 * LIMIT_MIB or too_slow(spec, done):
                        continue
                    self._claim(spec, min(guess, _WHOLE_MIB))
                measured = self._tried(todo, spec, model, guess)
                if measured is not None:
                    done.append((spec, measured))
                    self._report(spec, measured)

    def _tried(self, todo: dict[str, Spec], spec: Spec, model: nn.Module, guess: float) -> Measured | None:
        """Measure a configuration and strike it off; None where its precision or size is not for this model.

        Raises:
            RuntimeError: the device cannot go on, or what failed is still held, which later rows would contain.
        """
        before = self._device.allocated()
        try:
            measured = self._measure(spec, model, guess)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, ValueError) as error:
            if "CUDA error" in str(error):
                raise
            failure = describe(error)
        else:
            del todo[spec.id]
            return measured
        del todo[spec.id]
        self._pipe.send(("failed", spec.id, failure))
        self._device.clean()
        if self._device.allocated() > before + _LEFT_MIB:
            raise RuntimeError("left out: what failed before is still held, rows would contain it")
        return None

    def _trace(self, spec: Spec, model: nn.Module) -> int:
        """Trace a real model; returns how many numbers its layers put out for one example."""
        found = trace(model, feed(spec, model).inputs)
        if self._traces and spec.model_id not in self._traced:
            self._traced.add(spec.model_id)
            self._pipe.send(("trace", spec.model_id, to_json(found)))
        return costs(found).numbers

    def _place(self, model: nn.Module, precision: str, *, fresh: bool) -> None:
        """Bring the parameters to the device in order of definition, as ``model.to`` does in a new process."""
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        if not fresh:
            model.to("cpu")
            self._device.clean()
        model.to(self._device.name, dtype)

    def _measure(self, spec: Spec, model: nn.Module, claimed: float) -> Measured:
        """Measure; out of memory counts only if neighbours on the GPU had no part in it."""
        measured = self._once(spec, model)
        for claim in (_WHOLE_MIB, _EVERYTHING_MIB):
            if measured.status == "ok" or claimed >= claim:
                break
            self._device.clean()
            self._claim(spec, claim)
            measured = self._once(spec, model)
            if claim == _WHOLE_MIB and torch.cuda.is_available() and torch.cuda.mem_get_info()[0] > 4096 * MIB:
                break
        return measured

    def _once(self, spec: Spec, model: nn.Module) -> Measured:
        self._device.clean(collect=spec.source != "synthetic")
        self._before = (self._device.allocated(), self._device.left())
        least = 2 if self._traces else _OWN_STEPS
        return measure(spec, feed(spec, model), self._device, least=least, seconds=self._seconds, window=self._window)

    def _report(self, spec: Spec, measured: Measured) -> None:
        row: dict[str, Any] = {"spec": spec.to_json(), **asdict(measured), "device": self._device.name}
        row["before_allocated_mib"], row["before_reserved_mib"] = self._before  # the model's weights, and nothing else
        if self._device.name == "cuda" and not self._traces:
            row["nvml_mib"] = process_mib(os.getpid())
            row["reserved_mib"] = torch.cuda.memory_reserved() / MIB
        if self._window is not None and self._window.activity is not None and measured.status == "ok":
            row["activity"] = asdict(self._window.activity)
        self._pipe.send(("row", row))


def describe(error: Exception) -> str:
    """Return type, first line and place of an error in one line."""
    first = (str(error).splitlines() or [""])[0]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {first[:300]}{where}"


def extrapolate(spec: Spec, done: Iterable[tuple[Spec, Measured]]) -> float:
    """Guess a real model's memory from smaller batches that were measured, for scheduling only.

    Args:
        spec: the configuration to come.
        done: configurations of the same model that were measured.

    Returns:
        MiB to claim; twice the limit where a smaller batch of the same kind already ran out of memory, 0
        where nothing like it was measured.
    """
    best = 0.0
    for other, measured in done:
        ratio = spec.tokens / other.tokens
        if spec.kind != other.kind or spec.precision != other.precision:
            continue
        if measured.status == "oom":
            if ratio >= 1:
                return 2.0 * LIMIT_MIB
            continue
        longer = max(1.0, (spec.seq_len or 1) / (other.seq_len or 1))  # attention matrices grow with the square
        best = measured.peak_reserved_mib * max(1.0, ratio) * longer * 1.2 + 500.0
    return best


def too_slow(spec: Spec, done: Iterable[tuple[Spec, Measured]]) -> bool:
    """Say whether a step would take too long to be worth its row."""
    return any(
        other.kind == spec.kind
        and other.precision == spec.precision
        and measured.status == "ok"
        and spec.tokens > other.tokens
        and measured.step_seconds * (spec.tokens / other.tokens) > _TOO_LONG_SECONDS
        for other, measured in done
    )


def main(pipe: Pipe, device: str, seconds: float, traces: bool) -> None:
    """Run a worker in this process; the target that the collector starts."""
    torch.set_num_threads(1)
    chosen: Device = Cuda() if device == "cuda" else Cpu()
    with suppress(EOFError, BrokenPipeError):
        Worker(pipe, chosen, seconds=seconds, traces=traces).run()
