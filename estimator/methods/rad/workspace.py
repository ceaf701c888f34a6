"""Workspaces of convolutions, from a table learned on measured ones. Reads only the dictionary it is given.

cuDNN mostly works on channels-last copies, so that a workspace is either nothing or input, output and weights once
more; which, depends on sizes, precision and direction. Small decision trees, fitted to measurements, say it. Most
fp32 convolutions of one pixel get the gradient of their weights apart for each sample: that copy of the weights for
each is their workspace, and a tree of its own says which do.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Any, Final

from estimator.breath import breathe
from estimator.kept import keep
from estimator.methods.rad.program import Conv
from estimator.methods.rad.trees import Trees
from estimator.store import ModelError
from estimator.types import Precision

FEATURES: Final = (
    "half",
    "bf16",
    "area",
    "stride",
    "in_per_group",
    "out_per_group",
    "groups",
    "depthwise",
    "side_in",
    "side_out",
    "log_batch",
    "log_x",
    "log_y",
    "log_w",
    "log_rows",
    "log_work",
    "in_mod_8",
    "out_mod_8",
    "log_fan_in",
)
DIRECTIONS: Final = ("forward", "input", "weight")
MOST: Final = 8.0


def features(conv: Conv, batch: int, precision: Precision) -> list[float]:
    """Describe a convolution as the trees want it; the order is `FEATURES`."""
    channels_in, channels_out, area, stride, groups, size_in, size_out, _ = conv[:8]
    half = precision != "fp32"
    size = 2 if half else 4
    each_in = channels_in // groups
    rows = batch * size_out
    fan_in = max(each_in, 1) * area
    return [
        float(half),
        float(precision == "bf16"),
        area,
        stride,
        each_in,
        channels_out // groups,
        groups,
        float(groups == channels_in),
        size_in**0.5,
        size_out**0.5,
        log2(max(batch, 1)),
        log2(batch * channels_in * size_in * size or 1),
        log2(channels_out * rows * size or 1),
        log2(each_in * channels_out * area * size or 1),
        log2(rows or 1),
        log2(rows * channels_out * fan_in or 1),
        channels_in % 8,
        channels_out % 8,
        log2(fan_in),
    ]


def copies_bytes(conv: Conv, batch: int, precision: Precision) -> float:
    """Count the bytes of the weights once for each sample; 0 for convolutions that never work with such copies."""
    one_by_one = precision == "fp32" and conv.area == conv.stride == conv.groups == 1
    return 4.0 * batch * conv.channels_in * conv.channels_out if one_by_one else 0.0


def total_bytes(conv: Conv, batch: int, precision: Precision) -> float:
    """Count the bytes of input, output and weights, which the trees' values multiply."""
    channels_in, channels_out, area, _, groups, size_in, size_out, _ = conv[:8]
    weights = channels_in // groups * channels_out * area
    activations = channels_in * size_in + channels_out * size_out
    return float((4 if precision == "fp32" else 2) * (batch * activations + weights))


class Workspaces:
    """Says how much workspace a convolution takes."""

    def __init__(self, trees: Mapping[str, Any]) -> None:
        """Take a tree for each of `DIRECTIONS`, and ``copies``, as `estimator.methods.rad.fit.learners` writes them."""
        try:
            self._trees = [Trees(trees[name], len(FEATURES)) for name in DIRECTIONS]
            self._copies = Trees(trees["copies"], len(FEATURES))
        except KeyError as error:
            raise ModelError(f"the workspaces of this model are damaged ({error!r}): roll back") from None
        self._known: dict[tuple[Conv, int, str], tuple[float, float]] = {}

    def of(self, conv: Conv, batch: int, precision: Precision) -> tuple[float, float]:
        """Give the bytes of workspace of the forward and of the backward pass."""
        key = (conv, batch, precision)
        known = self._known.get(key)
        if known is None:
            breathe()
            row = features(conv, batch, precision)
            total = total_bytes(conv, batch, precision)
            forward, into, weight = [min(max(tree.predict(row), 0.0), MOST) * total for tree in self._trees]
            copies = copies_bytes(conv, batch, precision)
            if copies and self._copies.predict(row) > 0.5:
                weight = copies
            if conv.transposed:  # its forward pass is a convolution's backward pass
                forward, into = into, forward
            known = keep(self._known, key, (forward, max(into, weight)))
        return known
