"""Runs a configuration for a few steps and reads the peak of its memory. Needs torch; a GPU to be true.

On the CPU the peak counts live tensors only: enough to rehearse a collection, never stored as a label.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import nn

from estimator.dataset.feeds import Fed
from estimator.dataset.specs import LIMIT_MIB, Spec
from estimator.types import Optimizer, Precision

MIB = 2**20
MAX_STEPS = 6
_LONG_SECONDS = 6.0
Status = Literal["ok", "oom"]


@dataclass(frozen=True)
class Measured:
    """What a few steps of a configuration showed.

    Attributes:
        status: ``oom`` where the process would have needed more than the limit.
        peak_allocated_mib: the most that tensors and workspaces took in the caching allocator.
        peak_reserved_mib: the most that the allocator took from the GPU.
        steps: steps that were run.
        step_seconds: duration of the last step; on a shared GPU an upper bound.
        held_mib: what tensors took between the last step's forward and backward pass; 0 for inference.
    """

    status: Status
    peak_allocated_mib: float
    peak_reserved_mib: float
    steps: int
    step_seconds: float
    held_mib: float = 0.0


class Device(Protocol):
    """Where configurations run."""

    name: str

    def clean(self, *, collect: bool = True) -> None:
        """Give back everything that earlier configurations left in caches.

        Args:
            collect: also look for garbage in cycles first; it takes far longer than the rest.
        """

    def peaks(self) -> tuple[float, float]:
        """Return the peaks of allocated and reserved memory since ``clean``, in MiB."""

    def allocated(self) -> float:
        """Return what tensors take now, in MiB."""

    def left(self) -> float:
        """Return what could not be given back, in MiB, where nothing should be held any more."""

    def finish(self) -> None:
        """Wait until the device has done its work."""

    def context(self) -> AbstractContextManager[Any]:
        """Return the context in which everything runs."""


class Cuda:
    """A CUDA GPU, seen through torch's caching allocator."""

    name = "cuda"

    def __init__(self, limit_mib: int = LIMIT_MIB) -> None:
        """Limit this process.

        Args:
            limit_mib: most memory that its allocator may reserve.
        """
        total = torch.cuda.get_device_properties(0).total_memory / MIB
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_mib / total))

    def clean(self, *, collect: bool = True) -> None:
        """Empty all caches; cuBLAS keeps its workspaces in the allocator until told."""
        if collect:
            gc.collect()
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    def peaks(self) -> tuple[float, float]:
        """Return the allocator's own peaks."""
        return torch.cuda.max_memory_allocated() / MIB, torch.cuda.max_memory_reserved() / MIB

    def allocated(self) -> float:
        """Return what the allocator has handed out."""
        return float(torch.cuda.memory_allocated() / MIB)

    def left(self) -> float:
        """Return what the allocator still holds of the GPU."""
        return float(torch.cuda.memory_reserved() / MIB)

    def finish(self) -> None:
        """Wait for the GPU."""
        torch.cuda.synchronize()

    def context(self) -> AbstractContextManager[Any]:
        """Return a context that does nothing."""
        return nullcontext()


class Cpu:
    """The CPU, for trying a collection without a GPU: counts live tensors."""

    name = "cpu"

    def __init__(self) -> None:
        from estimator.faketensor import live_bytes_mode  # noqa: PLC0415

        self._mode = live_bytes_mode()

    def clean(self, *, collect: bool = True) -> None:
        """Start a new peak."""
        if collect:
            gc.collect()
        self._mode.reset()

    def peaks(self) -> tuple[float, float]:
        """Return the peak of live tensors, for both."""
        return self._mode.peak / MIB, self._mode.peak / MIB

    def allocated(self) -> float:
        """Return the size of live tensors."""
        return float(self._mode.live / MIB)

    def left(self) -> float:
        """Live tensors take what they take: nothing keeps memory around them."""
        return 0.0

    def finish(self) -> None:
        """Nothing runs behind the CPU's back."""

    def context(self) -> AbstractContextManager[Any]:
        """Return the mode that counts."""
        mode: AbstractContextManager[Any] = self._mode
        return mode


def make_optimizer(name: Optimizer, model: nn.Module, *, foreach: bool | None = None) -> torch.optim.Optimizer:
    """Return the optimizer that a workload names, with torch's defaults.

    Args:
        name: of the optimizer.
        model: whose parameters it changes.
        foreach: whether it works on all of them at once; None for torch's choice, which is that on a GPU.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    kinds: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "adam": lambda: torch.optim.Adam(parameters, lr=1e-4, foreach=foreach),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=1e-4, foreach=foreach),
        "sgd": lambda: torch.optim.SGD(parameters, lr=1e-4, foreach=foreach),
        "sgd_momentum": lambda: torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, foreach=foreach),
        "rmsprop": lambda: torch.optim.RMSprop(parameters, lr=1e-4, foreach=foreach),
    }
    return kinds[name]()


def step(
    model: nn.Module,
    inputs: tuple[tuple[Any, ...], Mapping[str, Any]],
    loss: Callable[[Any], torch.Tensor],
    optimizer: torch.optim.Optimizer | None,
    *,
    precision: Precision,
    scaler: Any,
    device: str,
) -> tuple[Any, Any]:
    """Run one step as users write it and return the output and loss, which a user's loop keeps alive.

    Args:
        model: the model.
        inputs: its arguments.
        loss: makes the loss of its output.
        optimizer: None for inference.
        precision: ``amp`` runs forward and loss under autocast to fp16.
        scaler: gradient scaler for ``amp``, or None.
        device: device type for autocast.
    """
    args, kwargs = inputs
    cast = torch.autocast(device, torch.float16) if precision == "amp" else nullcontext()
    if optimizer is None:
        with torch.no_grad(), cast:
            return model(*args, **kwargs), None
    optimizer.zero_grad()
    with cast:
        out = model(*args, **kwargs)
        value = loss(out)
    if scaler is None:
        value.backward()
        optimizer.step()
    else:
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        if not any(optimizer.state.values()):
            # Random weights can overflow fp16 in every step; a real run does not, so its state exists.
            optimizer.step()
    return out, value


@contextmanager
def _released(optimizer: torch.optim.Optimizer | None, model: nn.Module) -> Iterator[None]:
    """Drop gradients and optimizer state at the end, also after an error."""
    try:
        yield
    finally:
        if optimizer is not None:
            optimizer.state.clear()
        for parameter in model.parameters():
            parameter.grad = None


def measure(
    spec: Spec, fed: Fed, device: Device, *, least: int = 2, seconds: float = 0.0, window: Any = None
) -> Measured:
    """Run a configuration until its peak no longer moves.

    Args:
        spec: the configuration.
        fed: its model, on the device and in its precision, and its inputs.
        device: where it runs; ``clean`` was called before the model was placed.
        least: steps that are taken at least.
        seconds: keep stepping for so long after the peak stands still, for counters and speed.
        window: called as ``window.start()`` before those steps and ``window.stop(steps)`` after them.

    Returns:
        The measurement; running out of memory is one too.
    """
    peaks: list[tuple[float, float]] = []
    times: list[float] = []
    held = 0.0

    def loss(out: Any) -> torch.Tensor:
        nonlocal held
        held = device.allocated()
        return fed.loss(out, spec.batch_size)

    training = spec.kind == "train"
    fed.model.train(training)
    status: Status = "ok"
    optimizer = make_optimizer(spec.optimizer, fed.model) if training else None
    with _released(optimizer, fed.model):
        try:
            scaler = (
                torch.amp.GradScaler(device.name, init_scale=256.0) if training and spec.precision == "amp" else None
            )
            again = partial(
                step,
                fed.model,
                fed.inputs(spec.batch_size),
                loss,
                optimizer,
                precision=spec.precision,
                scaler=scaler,
                device=device.name,
            )
            kept: Any = None
            while not _settled(peaks, times, least):
                begin = time.perf_counter()
                kept = again()
                device.finish()
                times.append(time.perf_counter() - begin)
                peaks.append(device.peaks())
            if window is not None:
                window.start()
                begin = time.perf_counter()
                count = 0
                while time.perf_counter() - begin < seconds or not count:
                    kept = again()
                    device.finish()
                    count += 1
                window.stop(count)
            del kept
        except torch.OutOfMemoryError:
            status = "oom"
            peaks.append(device.peaks())
            times.append(0.0)
    allocated, reserved = peaks[-1]
    return Measured(status, allocated, reserved, len(times), times[-1], held)


def _settled(peaks: list[tuple[float, float]], times: list[float], least: int) -> bool:
    """Say whether more steps would tell nothing new: the optimizer's state exists from the second on."""
    if len(peaks) < 2 or (len(peaks) < least and sum(times) < _LONG_SECONDS):
        return False
    return peaks[-1] == peaks[-2] or len(peaks) >= MAX_STEPS or sum(times) > _LONG_SECONDS
