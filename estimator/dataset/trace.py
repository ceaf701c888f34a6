"""Traces a torch model: runs it twice with hooks and notes modules, calls and shapes. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from estimator.dataset.tree import Call, Module, Recorder, Trace, grow, parents_of

Inputs = tuple[tuple[Any, ...], Mapping[str, Any]]
"""Positional and keyword arguments of a model."""


def modules_of(model: nn.Module) -> Module:
    """Return the tree of a model's modules, as ``print(model)`` shows it."""
    return _tree(model, "", set())


def _tree(model: nn.Module, name: str, seen: set[int]) -> Module:
    again = id(model) in seen
    seen.add(id(model))
    kind = type(model)
    owned = [p for p in model._parameters.values() if p is not None]
    own, frozen = sum(p.numel() for p in owned), sum(p.numel() for p in owned if not p.requires_grad)
    children = tuple(_tree(child, key, seen) for key, child in model._modules.items() if child is not None)
    base = next((made.__name__ for made in (nn.Sequential, nn.ModuleList) if issubclass(kind, made)), "Module")
    prints = kind.__repr__ in (nn.Module.__repr__, nn.ModuleList.__repr__, nn.ParameterList.__repr__)
    named = [getattr(model, name, None) for name in ("weight", "bias")]
    counted = sum(p.numel() for p in named if isinstance(p, nn.Parameter))
    text = "" if prints else repr(model)
    return Module(name, kind.__name__, model.extra_repr(), own, children, base, text, counted, frozen, again)


def trace(model: nn.Module, inputs: Callable[[int], Inputs], batches: tuple[int, int] = (2, 3)) -> Trace:
    """Trace a model.

    Args:
        model: the model, on its device; it is put into evaluation mode and back.
        inputs: makes the arguments for a batch size.
        batches: the two batch sizes whose shapes are compared to find what grows with the batch.

    Returns:
        The trace. Where the two runs differ in their calls, shapes of the first are kept as they are.
    """
    root = modules_of(model)
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            one, other = (calls_of(model, root, inputs(batch), [])[0] for batch in batches)
    finally:
        model.train(training)
    if len(one) == len(other):
        one = tuple(
            Call(a.module, a.depth, _grown(a, b, "input_shape", batches), _grown(a, b, "output_shape", batches))
            for a, b in zip(one, other, strict=True)
        )
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    frozen = sum(size for size, trained in sizes if not trained)
    return Trace(root, one, sum(size for size, _ in sizes), frozen)


def _grown(a: Call, b: Call, which: str, batches: tuple[int, int]) -> Any:
    one, other = getattr(a, which), getattr(b, which)
    return one if one is None or other is None else grow(one, other, *batches)


def calls_of(model: nn.Module, root: Module, arguments: Inputs, running: list[int]) -> tuple[tuple[Call, ...], Any]:
    """Run the model once.

    Args:
        model: the model.
        root: its modules.
        arguments: what it is called with.
        running: filled while it runs: indices of the calls that have begun and not ended.

    Returns:
        Its calls and its output.
    """
    recorder = Recorder(parents_of(root))
    handles = []
    hooked: set[int] = set()
    for index, module in enumerate(_depth_first(model)):
        if id(module) in hooked:  # one module under two names: its calls belong to the first
            continue
        hooked.add(id(module))

        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], index: int = index) -> None:
            running.append(recorder.enter(index, _shape((args, kwargs))))

        def after(_: nn.Module, args: tuple[Any, ...], out: Any) -> None:
            recorder.leave(running.pop(), _shape(out))

        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after))
    try:
        args, kwargs = arguments
        out = model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return recorder.calls(), out


def _depth_first(model: nn.Module) -> list[nn.Module]:
    """Return a model's modules in the order of ``modules_of``."""
    found: list[nn.Module] = []

    def visit(module: nn.Module) -> None:
        found.append(module)
        for child in module._modules.values():
            if child is not None:
                visit(child)

    visit(model)
    return found


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of the first tensor inside a value that is no scalar (a loss is one), or None."""
    if isinstance(value, torch.Tensor):
        return tuple(int(d) for d in value.shape) or None
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            found = _shape(item)
            if found is not None:
                return found
    return None
