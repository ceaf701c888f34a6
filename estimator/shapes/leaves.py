"""What layers without layers inside give out."""

from __future__ import annotations

from collections.abc import Set
from math import prod
from typing import Final

from estimator import outputs, sizes
from estimator.layer import Layer
from estimator.shapes.widths import (
    DEEP,
    HEADS,
    RECURRENT,
    TOKENS,
    conv1d_width,
    oblong,
)
from estimator.types import Family, Workload
from estimator.walk import elements

Shape = tuple[int, ...]

_POOLED: Final[tuple[str, ...]] = ("pooler", "classifier", "pre_classifier", "seq_relationship", "heads", "head")
# Layers that only move axes.
MOVES: Final[tuple[str, ...]] = ("Rearrange", "Reduce", "Unfold")
_DIGITS: Final = 9
_VIEWS: Final = frozenset(("Flatten", "Unflatten", "PixelUnshuffle"))


class Leaves:
    """Tells what layers without layers inside give out."""

    def __init__(
        self, found: list[Layer], types: Set[str], workload: Workload, start: Shape, family: Family, points: bool
    ) -> None:
        self._start = start
        self._oblong = oblong(start)
        self._family = family
        self._points = points
        self._args: dict[int, dict[str, str]] = {}
        self._words = start[0] if len(start) == 1 else workload.seq_len or TOKENS
        # How many words there are: as many answers are of each token, whatever the layer is called that gives them.
        words = ""
        if "Embedding" in types:
            words = next((layer.said("0") for layer in found if layer.type == "Embedding"), "")
        self._many = int(words) if words.isdecimal() and len(words) < _DIGITS else 0
        deep = {type_ for type_ in types if "3d" in type_}
        # Where only the first layer knows of time, blocks take all places of all moments alike.
        self._flat_in_time = deep == {"Conv3d"} and family == "transformer"
        # Axes of pictures that a norm over channels turns; windows over time and place keep the axis of time.
        self._turned = (2, 3) if self._flat_in_time else (2, 3, DEEP)

    def given(self, layer: Layer, shape: Shape) -> Shape:
        """Give what comes out of a layer; where it does not say, what goes in."""
        args = self._args.get(id(layer.args))
        if args is None:
            args = self._args[id(layer.args)] = dict(layer.args)
        type_ = layer.type
        try:
            if type_ == "EmbeddingBag" and "1" in args:
                return (sizes.number(args, "1"),)  # of all words of a text
            if "Embedding" in type_ and "0" in args and "1" in args:
                if len(shape) == len(self._start) > 2 and shape[0] == sizes.number(args, "1"):
                    return shape  # the nearest of its rows for each place of a picture
                return shape if "position" in layer.name and len(shape) > 1 else (self._words, sizes.number(args, "1"))
            if type_ == "Conv1D":
                return (*shape[:-1], conv1d_width(layer, args, shape))
            if "Conv" in type_ and ("kernel_size" in args or "2" in args):
                out = outputs.convolved(type_, args, shape)
                tubes = self._flat_in_time and len(out) == DEEP and args.get("stride") == args.get("kernel_size")
                return (out[0], out[1] * out[2], out[3]) if tubes else out  # moments side by side
            if "Linear" in type_ and "in_features" in args:
                return self._linear(layer, args, shape)
            if type_ in RECURRENT:
                sides = 2 if sizes.flag(args, "bidirectional", default=False) else 1
                return (*shape[:-1], sizes.number(args, "proj_size", "1") * sides)
            if type_ == "GLU":
                return outputs.gated(args, shape)
            if type_ in _VIEWS or type_ in MOVES:
                return self._moved(layer, args, shape)
            if type_.endswith("Norm") and "0" in args and args["0"].startswith("("):
                return self._normed(sizes.numbers(args["0"]), shape)
            return outputs.resized(type_, args, shape, first=self._oblong)
        except (KeyError, ValueError, IndexError, OverflowError):
            return shape

    def _linear(self, layer: Layer, args: dict[str, str], shape: Shape) -> Shape:
        inputs, outputs = sizes.number(args, "in_features"), sizes.number(args, "out_features")
        if len(shape) >= 3 and shape[-1] != inputs:
            if elements(shape) == inputs or layer.name in HEADS:
                return (outputs,)
            if shape[0] == inputs:  # each pixel by itself
                return (*shape[1:], outputs)
            if elements(shape[1:]) == inputs:  # each channel by itself
                return (shape[0], outputs)
            return (outputs,) if self._family == "cnn" else (*shape[:-1], outputs)
        if len(shape) == 2 and shape[0] != inputs != shape[-1] and elements(shape) == inputs:
            return (outputs,)  # all tokens, or fields, side by side
        if len(shape) == 2 and shape[-1] != inputs == shape[0]:
            if self._points:
                return (outputs,)  # of all points
            return (shape[1], outputs)
        if len(shape) >= 2 and layer.name in _POOLED and not self._tags_tokens() and outputs != self._many:
            return (outputs,)
        if len(shape) == 1 and shape == self._start and self._family == "transformer" and shape[0] != inputs:
            return (shape[0], outputs)
        return (*shape[:-1], outputs)

    def _moved(self, layer: Layer, args: dict[str, str], shape: Shape) -> Shape:
        """Follow what only moves axes, joins or splits them."""
        type_ = layer.type
        if type_ == "Flatten":
            return _flattened(args, shape)
        if type_ == "Unflatten":
            return self._unflattened(args, shape)
        if type_ == "PixelUnshuffle":  # what goes in is what the first convolution takes
            return shape if shape == self._start else outputs.shuffled(type_, args, shape)
        if not layer.name.isdecimal():
            return shape  # a block's code calls it, who knows where
        return (outputs.unfolded if type_ == "Unfold" else outputs.rearranged)(args, shape)

    def _unflattened(self, args: dict[str, str], shape: Shape) -> Shape:
        """Give an axis that became several; of them one at most is not said.

        Raises:
            ValueError: they are not as many.
        """
        sides = sizes.numbers(args["unflattened_size"].removeprefix("torch.Size"))
        axis = sizes.number(args, "dim")
        at = axis - 1 if axis > 0 else len(shape) + axis
        if not 0 <= at < len(shape):
            raise ValueError("no such axis")
        known = prod([side for side in sides if side > 0])
        size, rest = divmod(shape[at], known)
        if rest or (size != 1 and min(sides) > 0):
            raise ValueError("another number of elements")
        return (*shape[:at], *(side if side > 0 else size for side in sides), *shape[at + 1 :])

    def _tags_tokens(self) -> bool:
        return len(self._start) == 2

    def _normed(self, size: Shape, shape: Shape) -> Shape:
        if len(shape) in self._turned and len(size) == 1 and shape[0] == size[0] != shape[-1]:
            return (*shape[1:], size[0])
        if shape[-len(size) :] != size:
            return (*shape[: len(shape) - len(size)], *size)
        return shape


def _flattened(args: dict[str, str], shape: Shape) -> Shape:
    """Give axes that became one: all of them, or some, as where places of a picture become tokens."""
    first = sizes.number(args, "start_dim") if "start_dim" in args else 1
    last = sizes.number(args, "end_dim") if "end_dim" in args else -1
    first = max(first - 1 if first >= 0 else len(shape) + first, 0)
    last = last - 1 if last >= 0 else len(shape) + last
    if not first <= last < len(shape):
        return (elements(shape),)
    return (*shape[:first], elements(shape[first : last + 1]), *shape[last + 1 :])
