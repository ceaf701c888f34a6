"""Walks over a tree of layers. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from estimator.types import Layer


def layers(root: Layer) -> Iterator[Layer]:
    """Yield every layer, parents before their children, children in order."""
    stack = [root]
    while stack:
        layer = stack.pop()
        yield layer
        if layer.children:
            stack.extend(reversed(layer.children))


def leaves(root: Layer) -> list[Layer]:
    """Return the layers without children, in order of use."""
    return [layer for layer in layers(root) if not layer.children]


def elements(shape: tuple[int, ...] | None) -> int:
    """Count the elements of a shape; 0 for None."""
    return 0 if shape is None else prod(shape)
