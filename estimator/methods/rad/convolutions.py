"""Workspaces of convolutions of which everything is known, as a rehearsal knows them.

cuDNN mostly works with copies of what a convolution reads and writes: of its input, its output or its weights, of
several of them, or with weights for each sample. Decision trees, fitted to measurements on GPUs, say with which, how
much lies beside these, and how large a workspace is that is none of them. A little beside them counts: it does not fit
where a tensor of their size lay.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log2
from typing import Any, Final, NamedTuple

from estimator.kept import keep
from estimator.methods.rad.program import Conv, Extents
from estimator.methods.rad.trees import Trees
from estimator.methods.rad.workspace import DIRECTIONS, features, total_bytes
from estimator.store import ModelError
from estimator.types import Precision

COPIES: Final = (
    "",
    "x",
    "y",
    "w",
    "xy",
    "xw",
    "yw",
    "xyw",
    "xww",
    "yww",
    "xyww",
    "ww",
    "xxyyw",
    "padded xy",
    "padded xyw",
    "w of each sample",
    "w of each sample in fp32",
)
"""With copies of what a convolution works: input ``x``, output ``y``, weights ``w``."""
BASE: Final = COPIES.index("padded xy")
MORE: Final = len(COPIES)
"""Stands for a workspace that is a little more than the copies of `BASE`: parts of sums lie beside them."""
OTHER: Final = MORE + 1
"""Stands for a workspace that is none of these."""
WIDTH: Final = 19 + 14
"""Numbers that `described` gives."""
_MOST_LOG: Final = 6.0  # measured ones reach 400 times of what is read and written


class Workspace(NamedTuple):
    """Bytes that a convolution works with in its forward pass, and for the gradients of its input and weights."""

    forward: float
    input: float
    weight: float


def copies(conv: Conv, batch: int, precision: Precision) -> list[float]:
    """Count the bytes of each of `COPIES`; padded are channels to whole 16 bytes."""
    size = 4 if precision == "fp32" else 2
    whole = 16 // size
    x, y, w = _parts(conv, batch, size)
    padded = conv._replace(
        channels_in=-(-conv.channels_in // whole) * whole, channels_out=-(-conv.channels_out // whole) * whole
    )
    px, py, pw = _parts(padded, batch, size)
    made = {"x": x, "y": y, "w": w}
    plain = [sum(made[part] for part in name) for name in COPIES[:-4]]
    return [*plain, px + py, px + py + pw, batch * w, batch * w * 4 / size]


def _parts(conv: Conv, batch: int, size: int) -> tuple[float, float, float]:
    weights = max(conv.channels_in // conv.groups, 1) * conv.channels_out * conv.area
    inputs, outputs = conv.channels_in * conv.size_in, conv.channels_out * conv.size_out
    return float(size * batch * inputs), float(size * batch * outputs), float(size * weights)


def described(conv: Conv, extents: Extents, batch: int, precision: Precision) -> list[float]:
    """Describe a convolution as the trees want it."""
    total = total_bytes(conv, batch, precision)
    shares = [part / total for part in _parts(conv, batch, 4 if precision == "fp32" else 2)]
    axes = sum(side > 1 for side in extents.sides)
    deep = extents.kernel[0] > 1 or extents.sides[0] > 1
    sides = [log2(max(side, 1)) for side in extents.sides]
    more = [
        *extents.kernel,
        *sides,
        extents.dilation,
        float(extents.padded),
        float(extents.last),
        axes,
        float(deep),
        *shares,
    ]
    return [*features(conv, batch, precision), *more]


class Convolutions:
    """Says how much workspace a convolution takes."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Take what `estimator.methods.rad.fit.convolutions` made.

        Raises:
            ModelError: it is damaged.
        """
        try:
            self._trees = [
                tuple(Trees(model[name][part], WIDTH) for part in ("copies", "more", "other")) for name in DIRECTIONS
            ]
        except (KeyError, TypeError) as error:
            raise ModelError(f"the convolutions of this model are damaged ({error!r}): roll back") from None
        self._known: dict[tuple[Conv, int, str], Workspace] = {}

    def of(self, conv: Conv, batch: int, precision: Precision) -> Workspace:
        """Give the bytes of workspace of a convolution whose extents are known.

        A transposed convolution is given as the one whose gradient it is: with its output as the input.
        """
        key = (conv, batch, precision)
        known = self._known.get(key)
        if known is None:
            assert conv.extents is not None, "a rehearsal knows them"
            row = described(conv, conv.extents, batch, precision)
            sizes = copies(conv, batch, precision)
            total = total_bytes(conv, batch, precision)
            found = []
            for which, more, other in self._trees:
                kind = round(which.predict(row))
                if 0 <= kind < MORE:
                    found.append(sizes[kind])
                elif kind == MORE:
                    found.append(sizes[BASE] * (1.0 + exp(min(more.predict(row), 0.0))))
                else:
                    found.append(exp(min(other.predict(row), _MOST_LOG)) * total)
            forward, into, weight = found
            workspace = Workspace(into, forward, weight) if conv.transposed else Workspace(*found)
            known = keep(self._known, key, workspace)
        return known
