"""Blocks of timm's versions before 0.9, and of Swin's own code, as today's timm has them. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from typing import Final

from estimator.breath import breathe
from estimator.layer import Layer

Layers = tuple[Layer, ...]

# Models whose norms have held their activations since.
_HOLDING: Final[tuple[str, ...]] = ("EfficientNet", "MobileNetV3")
# Models whose convolutions with a norm had another name.
_NAMED_SO: Final[tuple[str, ...]] = ("RegNet", "DPN", "CspNet", "ReXNetV1", "ByobNet")
_MOBILE: Final = frozenset(("DepthwiseSeparableConv", "InvertedResidual", "EdgeResidual", "ConvBnAct", *_HOLDING))
_RESIDUAL: Final = frozenset(("DepthwiseSeparableConv", "InvertedResidual", "EdgeResidual"))
_INCEPTIONS: Final[tuple[str, ...]] = ("InceptionV3", "InceptionV4")
_ACTS: Final = frozenset(("ReLU", "ReLU6", "SiLU", "Swish", "Hardswish", "HardSwish", "HardSwishMe", "SwishMe"))
_HOLDS: Final = "BatchNormAct2d"
_OLD: Final = frozenset(("ReXNetV1", "BasicLayer", "ConvBnAct", "ClassifierHead", "BasicConv2d"))
_HEAD_PARTS: Final = ("global_pool", "fc", "flatten")


def maybe_old(model: str, types: Set[str]) -> bool:
    """Tell whether a model has to be looked through."""
    if not _OLD.isdisjoint(types):
        return True
    return _apart(model, types)


def _apart(model: str, types: Set[str]) -> bool:
    """Tell whether norms and activations stand apart that are one layer today; torchvision has models named alike."""
    if model not in _HOLDING or _HOLDS in types or "BatchNorm2d" not in types:
        return False
    return not any(type_.endswith("Activation") for type_ in types)


class Renewal:
    """What is renewed in one model."""

    def __init__(self, model: str, types: Set[str]) -> None:
        self._model = model
        self._apart = _apart(model, types)
        self._layers = "BasicLayer" in types and model == "SwinTransformer"
        self._inception = model in _INCEPTIONS

    def renamed(self, layer: Layer) -> str:
        """Give the type that a layer has today."""
        type_ = layer.type
        if type_ == "ConvBnAct" and self._model in _NAMED_SO and any(child.type == _HOLDS for child in layer.children):
            return "ConvNormAct"
        if self._inception and type_ == "BasicConv2d":
            return "ConvNormAct"
        if self._layers and type_ == "BasicLayer":
            return "SwinTransformerStage"
        if type_ == "ReXNetV1":
            return "RexNet"
        return type_

    def inside(self, type_: str, children: Layers) -> Layers:
        """Give what is in a block of this type, as it was named before."""
        if self._apart and type_ in _MOBILE:
            children = _holding(children)
            idle = any(child.type == "Identity" for child in children)
            return children if idle or type_ not in _RESIDUAL else (*children, Layer("Identity", 0, name="drop_path"))
        if self._inception and type_ == "BasicConv2d":
            return _holding(children, always=True)
        if type_ == "ClassifierHead" and tuple(child.name for child in children) == _HEAD_PARTS:
            return (children[0], _dropout(), *children[1:])
        if type_ == _HOLDS and len(children) == 1:
            return (Layer("Identity", 0, name="drop"), *children)
        if self._layers:
            return self._of_swin(type_, children)
        if type_ == self._model and self._inception and children[-1].name in ("fc", "last_linear"):
            return (*children[:-1], _dropout("head_drop"), children[-1])
        return children

    def _of_swin(self, type_: str, children: Layers) -> Layers:
        if type_ == "BasicLayer":
            return tuple(c.but(type="Sequential") if c.type == "ModuleList" else c for c in children)
        if type_ == "PatchMerging":
            return children[::-1]
        if type_ != self._model:
            return _stages(children) if any(c.type == "SwinTransformerStage" for c in children) else children
        kept = [c for c in children if c.name not in ("pos_drop", "avgpool")]
        if kept and kept[-1].type == "Linear":
            pool = Layer("SelectAdaptivePool2d", 0, None, (), (("pool_type", "avg"), ("flatten", "Identity()")))
            parts = (
                pool.but(name="global_pool"),
                _dropout(),
                kept[-1].but(name="fc"),
                Layer("Identity", 0, name="flatten"),
            )
            kept[-1] = Layer("ClassifierHead", 0, kept[-1].output_shape, parts, (), "head")
        return tuple(c.but(type="Sequential") if c.name == "layers" else c for c in kept)


def _dropout(name: str = "drop") -> Layer:
    return Layer("Dropout", 0, None, (), (("p", "0.0"), ("inplace", "False")), name)


def _holding(children: Layers, always: bool = False) -> Layers:
    """Put activations into the norms that stand before them."""
    made: list[Layer] = []
    rest = deque(children)
    while rest:
        breathe()
        part = rest.popleft()
        if part.type == "BatchNorm2d" and not part.children:
            act = Layer("ReLU" if always else "Identity", 0, part.output_shape, (), (), "act", part.input_shape)
            if (
                rest
                and (rest[0].type in _ACTS or rest[0].type == "Identity")
                and rest[0].name[:3] in ("", "act", "rel")
            ):
                act = rest.popleft().but(name="act")
            drop = Layer("Identity", 0, part.output_shape, (), (), "drop", part.input_shape)
            made.append(part.but(type=_HOLDS, children=(drop, act)))
        else:
            made.append(part)
    return tuple(made)


def _stages(stages: Layers) -> Layers:
    """Move what makes pictures smaller from the end of a stage to the beginning of the next."""
    made: list[Layer] = []
    before = Layer("Identity", 0, name="downsample")
    for stage in stages:
        if not stage.children:  # hidden
            made.append(stage)
            continue
        last = stage.children[-1]
        moves = last.type == "PatchMerging"
        blocks = stage.children[:-1] if moves else stage.children
        made.append(stage.but(children=(before, *blocks)))
        before = last if moves else before
    return tuple(made)
