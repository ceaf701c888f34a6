"""Pooling that the code of a small network does between its layers, where a print shows it not at all, or once. Pure.

Tutorials pool by a function, or by one layer that is called behind every convolution. How often tells the first linear
layer, which takes the flattened picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import Final

from estimator.breath import breathe
from estimator.inputs import flattened_side, number
from estimator.layer import Layer
from estimator.walk import layers

_MOST_LAYERS: Final = 64
_HALVES: Final[tuple[tuple[str, str], ...]] = (("kernel_size", "2"), ("stride", "2"))
_LEAST_STAGES: Final = 3
_LEAST_AREA: Final = 4


def repeated(root: Layer, said: tuple[int, ...] = ()) -> Layer:
    """Put pooling where it must be for the first linear layer to take a picture of a usual size.

    Args:
        root: a model whose layers lie side by side; others are given back as they are.
        said: rows and columns of the pictures, where they are known.
    """
    parts = root.children
    convs = [at for at, part in enumerate(parts) if part.type == "Conv2d"]
    first = next((at for at, part in enumerate(parts) if part.type == "Linear"), 0)
    if not convs or first < convs[-1] or len(parts) > _MOST_LAYERS or any(part.children for part in parts):
        return root
    pools = [part for part in parts if "Pool" in part.type]
    area = _last_area(parts[convs[-1]], parts[first])
    if area < _LEAST_AREA or len(pools) > 1 or any("Adaptive" in pool.type for pool in pools):
        return root
    if not said and isqrt(area) ** 2 != area:
        return root
    if flattened_side(parts[:first], area, said):
        return root  # as it is written
    pool = pools[0] if pools else Layer("MaxPool2d", 0, None, (), _HALVES, "pool")
    bare = [part for part in parts if part not in pools]
    found: dict[int, list[Layer]] = {}
    for places in _places(len(convs)):
        chain = list(_inserted(bare, pool, places))
        made = flattened_side(chain[: chain.index(parts[first])], area, said)
        if made:
            found.setdefault(made, chain)
    # Two answers: pictures of this kind are rather small.
    return root.but(children=tuple(found[min(found)])) if found else root


def between(root: Layer, found: Sequence[Layer]) -> Layer:
    """Put pooling between the stages of a U-Net's first half, whose code pools by a function.

    That is one list of blocks, each wider than the one before, where no layer makes pictures smaller and as many make
    them larger as there are steps between the stages.

    Args:
        root: a model.
        found: all its layers.
    """
    if not any(part.type == "ModuleList" and len(part.children) >= _LEAST_STAGES for part in root.children):
        return root
    grows = 0
    for layer in found:
        if layer.children:
            continue
        if layer.type.startswith(("ConvTranspose", "Upsample")):
            grows += 1
        elif ("Conv" in layer.type and _strides(layer)) or ("Pool" in layer.type and "Adaptive" not in layer.type):
            return root
    if grows < _LEAST_STAGES - 1:
        return root
    for at, part in enumerate(root.children):
        steps = len(part.children) - 1
        if part.type == "ModuleList" and steps in (grows, grows - 1) and (conv := _widening(part)):
            pool = Layer(f"MaxPool{conv[-2:]}", 0, None, (), _HALVES, "0")
            stages = [item for stage in part.children for item in (stage, pool)]
            stages = stages if steps < grows else stages[:-1]
            halved = part.but(children=tuple(stages))
            return root.but(children=(*root.children[:at], halved, *root.children[at + 1 :]))
    return root


def _strides(conv: Layer) -> bool:
    breathe()
    return (conv.said("stride") or "1").strip("() ").replace(",", "").replace("1", "").strip() != ""


def _widening(stages: Layer) -> str:
    """Give the type of the convolutions of stages of which each takes what the one before gives, and gives more."""
    width = 0
    type_ = ""
    for stage in stages.children:
        convs = [layer for layer in layers(stage) if layer.type in ("Conv2d", "Conv3d")]
        if not convs or (width and number(convs[0], "0") != width) or number(convs[-1], "1") <= width:
            return ""
        width, type_ = number(convs[-1], "1"), convs[0].type
    return type_


def _last_area(conv: Layer, linear: Layer) -> int:
    area, rest = divmod(number(linear, "in_features"), max(number(conv, "1"), 1))
    return 0 if rest else area


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
