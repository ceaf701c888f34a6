"""Pooling that the code of a small network does between its layers, where a print shows it not at all, or once. Pure.

Tutorials pool by a function, or by one layer that is called behind every convolution. How often tells the first linear
layer, which takes the flattened picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt

from estimator.inputs import flattened_side, number
from estimator.types import Layer

_MOST_LAYERS = 64
_HALVES = (("kernel_size", "2"), ("stride", "2"))


def repeated(root: Layer) -> Layer:
    """Put pooling where it must be for the first linear layer to take a picture of a usual size.

    Args:
        root: a model whose layers lie side by side; others are given back as they are.
    """
    parts = root.children
    convs = [at for at, part in enumerate(parts) if part.type == "Conv2d"]
    first = next((at for at, part in enumerate(parts) if part.type == "Linear"), 0)
    if not convs or first < convs[-1] or len(parts) > _MOST_LAYERS or any(part.children for part in parts):
        return root
    pools = [part for part in parts if "Pool" in part.type]
    side = _last_side(parts[convs[-1]], parts[first])
    if side < 2 or len(pools) > 1 or any("Adaptive" in pool.type for pool in pools):
        return root
    if flattened_side(parts[:first], side):
        return root  # as it is written
    pool = pools[0] if pools else Layer("MaxPool2d", 0, None, (), _HALVES, "pool")
    bare = [part for part in parts if part not in pools]
    found: dict[int, list[Layer]] = {}
    for places in _places(len(convs)):
        chain = list(_inserted(bare, pool, places))
        made = flattened_side(chain[: chain.index(parts[first])], side)
        if made:
            found.setdefault(made, chain)
    # Two answers: pictures of this kind are rather small.
    return root._replace(children=tuple(found[min(found)])) if found else root


def _last_side(conv: Layer, linear: Layer) -> int:
    area, rest = divmod(number(linear, "in_features"), max(number(conv, "1"), 1))
    last = isqrt(area)
    return 0 if rest or last * last != area else last


def _places(count: int) -> Iterator[range]:
    """Yield behind which convolutions there may be pooling: all, the last ones, the first ones."""
    yield range(count)
    for few in range(1, count):
        yield range(count - few, count)
        yield range(few)


def _inserted(parts: Sequence[Layer], pool: Layer, places: range) -> Iterator[Layer]:
    """Yield layers with pooling behind some convolutions and the norms and activations that follow these."""
    seen = -1
    due = False
    for part in parts:
        if due and ("Conv" in part.type or "Linear" in part.type or "Dropout" in part.type):
            yield pool
            due = False
        if part.type == "Conv2d":
            seen += 1
            due = seen in places
        yield part
