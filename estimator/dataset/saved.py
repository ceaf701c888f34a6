"""Tells which calls of a model make autograd keep how much: hooks on modules and on what is saved. Needs torch.

Nothing of the allocator is measured: each storage that autograd saves counts once, for the innermost call that was
running when it was first saved. Parameters, and copies of them in another precision, do not count, nor does what does
not grow with the batch.
"""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch
from torch import nn

from estimator.dataset.feeds import feed
from estimator.dataset.models import build_model
from estimator.dataset.specs import Spec
from estimator.dataset.trace import Inputs, calls_of, modules_of
from estimator.dataset.tree import Call
from estimator.dataset.worker import Pipe, ask, describe

BATCHES = (2, 4)
_HALF = (torch.float16, torch.bfloat16)


def saved_by_calls(
    model: nn.Module, inputs: Inputs, context: AbstractContextManager[Any]
) -> tuple[tuple[Call, ...], list[int]]:
    """Run one forward pass of a model in training and note what autograd keeps of it.

    Args:
        model: the model, on its device, in training mode.
        inputs: positional and keyword arguments.
        context: in which the model runs: autocast, or nothing.

    Returns:
        The calls in pre-order, and for each call the bytes that were first saved while it was the innermost one.
    """
    shapes = _shapes(model)
    places = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    saved: dict[int, int] = {}
    running: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        place = storage.data_ptr()
        if place not in places and running and not (tensor.dtype in _HALF and tuple(tensor.shape) in shapes):
            places.add(place)
            saved[running[-1]] = saved.get(running[-1], 0) + storage.nbytes()
        # Detached: an output that its own step keeps would never be freed. It keeps its place from being used again.
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), context:
        calls, out = calls_of(model, modules_of(model), inputs, running)
    del out
    return calls, [saved.get(index, 0) for index in range(len(calls))]


def _shapes(model: nn.Module) -> set[tuple[int, ...]]:
    """Return the shapes of parameters that a matrix product or a convolution takes, transposed ones too."""
    found = set()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            found.add(tuple(parameter.shape))
            found.add(tuple(reversed(parameter.shape)))
    return found


def saved_for_each(spec: Spec, model: nn.Module, device: str) -> tuple[tuple[Call, ...], list[int]]:
    """Tell what autograd keeps for each sample.

    Args:
        spec: how the model is run; its batch size does not matter.
        model: the model, on its device and in its precision.
        device: type of the device.

    Returns:
        The calls, and for each the bytes by which one sample more makes it keep more.

    Raises:
        ValueError: the calls are others for another batch size.
    """
    fed = feed(spec, model)
    model.train()
    runs = []
    for batch in BATCHES:
        torch.manual_seed(0)
        cast = torch.autocast(device, torch.float16) if spec.precision == "amp" and device == "cuda" else nullcontext()
        runs.append(saved_by_calls(model, fed.inputs(batch), cast))
    (calls, few), (other, many) = runs
    if [(call.module, call.depth) for call in calls] != [(call.module, call.depth) for call in other]:
        raise ValueError("it calls other modules for another batch size")
    less, more = BATCHES
    return calls, [round((b - a) / (more - less)) for a, b in zip(few, many, strict=True)]


def main(pipe: Pipe, device: str, seconds: float, traces: bool) -> None:
    """Work for a `Collector`: rows hold what was saved; ``seconds`` and ``traces`` mean nothing here."""
    del seconds, traces
    torch.set_num_threads(1)
    with suppress(EOFError, BrokenPipeError):
        while (specs := ask(pipe)) is not None:
            _bundle(pipe, device, specs)
            gc.collect()
            if device == "cuda":
                torch.cuda.empty_cache()


def _bundle(pipe: Pipe, device: str, specs: list[Spec]) -> None:
    model: nn.Module | None = None
    for spec in specs:
        try:
            if model is None:
                with torch.device(device):
                    model = build_model(spec)
            model.to(device, torch.bfloat16 if spec.precision == "bf16" else torch.float32)
            calls, saved = saved_for_each(spec, model, device)
        except Exception as error:  # a library's model may raise anything
            pipe.send(("failed", spec.id, describe(error)))
            continue
        steps = [[call.module, call.depth] for call in calls]
        pipe.send(("row", {"spec": spec.to_json(), "calls": steps, "saved": saved}))
