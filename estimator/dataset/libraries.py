"""Builds and feeds models of libraries that share no way of their own to be built. Needs torch.

What goes in is written as items divided by spaces, each without the batch: ``3x64x64`` numbers, ``1000:64`` ids below
1000 (``1000:`` one for each example, ``L`` the configuration's length), ``#1000:26`` such ids as numbers, ``=512``
that length for each example, ``graph``: one of 512 nodes and eight edges for each node.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from estimator.dataset.entries import Entry
from estimator.dataset.plain import Plain, loss_of

_NODES, _FEATURES, _EDGES = 512, 128, 8


def build(entry: Entry) -> nn.Module:
    """Build a library's model.

    Raises:
        ImportError: the library is not installed.
        Exception: whatever it raises for a name or an argument that it does not know.
    """
    model: nn.Module = _made({"class": entry.head, **entry.config})
    return model


def _made(value: Any) -> Any:
    """Make what a table describes: a mapping with ``class`` is a call, made from the inside out."""
    if isinstance(value, list):
        return [_made(item) for item in value]
    if not isinstance(value, Mapping) or "class" not in value:
        return value
    module, _, name = value["class"].rpartition(".")
    arguments = {key: _made(item) for key, item in value.items() if key != "class"}
    return getattr(importlib.import_module(module), name)(**arguments)


def inputs(
    text: str, batch: int, length: int, numbers: Callable[..., torch.Tensor], labels: Callable[..., torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Make a model's arguments.

    Args:
        text: what goes in, as the module says.
        batch: examples.
        length: what ``L`` stands for.
        numbers: makes random numbers of a shape.
        labels: makes random ids below a number, of a shape.
    """
    made: list[torch.Tensor] = []
    for item in text.split():
        below, _, shape = item.rpartition(":")
        if item == "graph":
            nodes = batch * _NODES
            made += [numbers(nodes, _FEATURES), labels(nodes, 2, nodes * _EDGES)]
        elif item.startswith("="):
            made.append(torch.full_like(labels(1, batch), int(item[1:])))
        else:
            sizes = [length if size == "L" else int(size) for size in shape.split("x") if size]
            ids = below.startswith("#")
            made.append(labels(int(below.lstrip("#")), batch, *sizes) if below else numbers(batch, *sizes))
            if ids:
                made[-1] = made[-1].to(numbers(1).dtype)
    return tuple(made)


def loss(entry: Entry, out: Any, labels: Callable[..., torch.Tensor]) -> torch.Tensor:
    """Make the loss: of all numbers that come out, each as the entry's target says; one alone is a loss itself."""
    found = [item for item in _tensors(out) if item.is_floating_point()]
    if entry.target == "own":
        return found[0].mean()
    about = Plain(nn.Identity, None, target=entry.target)
    return torch.stack([loss_of(about, item, labels) if item.dim() else item for item in found]).sum()


def _tensors(out: Any) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    items = out.values() if isinstance(out, Mapping) else out if isinstance(out, (list, tuple)) else ()
    return [tensor for item in items for tensor in _tensors(item)]
