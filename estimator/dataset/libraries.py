"""Builds and feeds models of libraries that share no way of their own to be built. Needs torch.

What goes in is written as items divided by spaces, each without the batch: ``3x64x64`` numbers, ``1000:64`` ids below
1000 (``1000:`` one for each example, ``L`` the configuration's length), ``#1000:26`` such ids as numbers, ``=512``
that length for each example (``=1:77``: 77 of it), ``!256x3`` numbers that all examples share, ``~8`` the number alone
(``~`` nothing), ``=9:64|1000:L`` one behind the other, ``graph``: one of 512 nodes and eight edges for each node.
``name@`` before an item gives it by name, ``.name@`` in a mapping that comes first.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.plain.model import Plain, loss_of

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
    """Make what a table describes: ``class`` is called, made from the inside out, ``named`` is not."""
    if isinstance(value, list | tuple):
        return type(value)(_made(item) for item in value)
    if not isinstance(value, Mapping) or not ("class" in value or "named" in value):
        return value
    module, _, name = (value.get("class") or value["named"]).rpartition(".")
    with torch.device("cpu"):  # a library may make models of its own when it is imported
        found = getattr(importlib.import_module(module), name)
    if "named" in value:
        return found
    return found(**{key: _made(item) for key, item in value.items() if key != "class"})


def inputs(
    text: str, batch: int, length: int, numbers: Callable[..., torch.Tensor], labels: Callable[..., torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Make a model's arguments.

    Args:
        text: what goes in, as the module says.
        batch: examples.
        length: what ``L`` stands for.
        numbers: makes random numbers of a shape.
        labels: makes random ids below a number, of a shape.

    Returns:
        Arguments by place and by name.
    """
    made: list[Any] = []
    named: dict[str, Any] = {}
    mapping: dict[str, Any] = {}
    for item in text.split():
        name, _, what = item.rpartition("@")
        if what == "graph":
            nodes = batch * _NODES
            made += [numbers(nodes, _FEATURES), labels(nodes, 2, nodes * _EDGES)]
            continue
        parts = [_value(part, batch, length, numbers, labels) for part in what.split("|")]
        value = torch.cat(parts, 1) if len(parts) > 1 else parts[0]
        if name.startswith("."):
            mapping[name[1:]] = value
        elif name:
            named[name] = value
        else:
            made.append(value)
    return (*([mapping] if mapping else []), *made), named


def _value(
    item: str, batch: int, length: int, numbers: Callable[..., torch.Tensor], labels: Callable[..., torch.Tensor]
) -> Any:
    """Make one argument."""
    if item.startswith("~"):
        return int(item[1:]) if item[1:] else None
    below, _, shape = item.lstrip("=!").rpartition(":")
    if item.startswith("=") and not below:
        below, shape = shape, ""
    sizes = [length if size == "L" else int(size) for size in shape.split("x") if size]
    if not item.startswith("!"):
        sizes.insert(0, batch)
    if item.startswith("="):
        return torch.full_like(labels(1, *sizes), int(below))
    if not below:
        return numbers(*sizes)
    ids = labels(int(below.lstrip("#")), *sizes)
    return ids.to(numbers(1).dtype) if below.startswith("#") else ids


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
