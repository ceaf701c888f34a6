"""Walks over a tree of layers. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from estimator.breath import breathe
from estimator.layer import Layer

_MANY: Final = 32


def layers(root: Layer) -> list[Layer]:
    """Return every layer, parents before their children, children in order."""
    breathe()
    found = [root]
    children = root.children
    if len(children) > _MANY and not [layer for layer in children if layer.children]:  # a table without a tree
        found.extend(children)
    else:
        _add(root, found)
    return found


def _add(parent: Layer, found: list[Layer]) -> None:
    for layer in parent.children:
        found.append(layer)
        if layer.children:
            _add(layer, found)


class Marks:
    """What a model's layers are called: questions about any of them are asked of these, which are far fewer.

    Attributes:
        types: of all layers.
        names: of all layers.
    """

    def __init__(self, found: list[Layer]) -> None:
        self.types = {layer.type for layer in found}
        self.names = {layer.name for layer in found}


def elements(shape: tuple[int, ...] | None) -> int:
    """Count the elements of a shape; 0 for None. Compiled, a loop takes a fraction of what `math.prod` takes."""
    if shape is None:
        return 0
    count = 1
    for size in shape:
        count *= size
    return count


Change = Callable[["Rewrite", Layer], Layer]


class Rewrite:
    """Makes another tree of one; equal layers that are one object are one in what it gives, too.

    Args:
        change: gives a layer changed; it goes on with `inside`.
    """

    def __init__(self, change: Change) -> None:
        self._change = change
        self._done: dict[int, Layer] = {}

    def through(self, layer: Layer) -> Layer:
        """Give the layer changed, and all inside."""
        done = self._done.get(id(layer))
        if done is None:
            breathe()
            done = self._done[id(layer)] = self._change(self, layer)
        return done

    def inside(self, layer: Layer, args: tuple[tuple[str, str], ...]) -> Layer:
        """Give the layer with these arguments, and all inside changed."""
        return layer.but(args=args, children=tuple([self.through(part) for part in layer.children]))
