"""Workspaces of convolutions of which everything is known, as a rehearsal knows them.

cuDNN mostly works with copies of what a convolution reads and writes: of its input, its output or its weights, of
several of them, with weights for each sample, or with what becomes of them in Winograd's and Fourier's transforms.
Decision trees, fitted to measurements on GPUs, say with which, how much lies beside these, and how large a workspace is
that is none of them. A little beside them counts: it does not fit where a tensor of their size lay. What else was
measured of convolutions that a tree does not tell apart is what it may be in another process: the choice is cuDNN's,
and one that looks alike may need many times as much.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import exp, log2
from typing import Any, Final, NamedTuple

from estimator.kept import keep
from estimator.methods.rad.program import Conv, Extents, Three
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
    "padded xw",
    "padded xww",
    "padded yww",
    "w of each sample",
    "w of each sample in fp32",
    "winograd",
    "fourier",
    "fourier in tiles",
    "fourier of y",
)
"""With copies of what a convolution works: input ``x``, output ``y``, weights ``w``."""
BASE: Final = COPIES.index("padded xy")
MORE: Final = len(COPIES)
"""Stands for a workspace that is a little more than the copies of `BASE`: parts of sums lie beside them."""
OTHER: Final = MORE + 1
"""Stands for a workspace that is none of these."""
WIDTH: Final = 19 + 14
"""Numbers that `described` gives."""
DRAWS: Final = 4
"""How many others than the likeliest are given."""
_BESIDE: Final = 256  # bytes beside copies: they take a block more than what is copied
_MOST_LOG: Final = 6.0  # what is none of the copies is not believed to be more than 400 times what is read and written
_LESS, _MORE = 0.98, 1.03  # so much may another be of what is said
# Winograd's transform makes 6 by 6 numbers of each 4 by 4 of a kernel's 3 by 3; Fourier's complex ones of squares, the
# sides of which are powers of two up to that of the largest that was measured, or of such squares of one size, in so
# many bytes that no more were measured.
_TILE, _TRANSFORMED = 4, 6
_COMPLEX: Final = 8
_LARGEST: Final = 256
_SQUARE: Final = 32
_MOST_TILES: Final = 4.5 * 2**30
IMPOSSIBLE: Final = -1.0
"""Bytes of transforms that there are not."""

Sizes = tuple[float, ...]
"""Bytes: the likeliest, and `DRAWS` others that it may be in another process, mostly smaller ones first."""


class Workspace(NamedTuple):
    """What a convolution works with in its forward pass, and for the gradients of its input and weights."""

    forward: Sizes
    input: Sizes
    weight: Sizes


Convolves = Callable[[Conv, int, Precision], Workspace]
"""Says how much workspace a convolution takes, of so many samples."""


def outputs(extents: Extents, stride: int) -> Three:
    """Tell the extents of what a convolution gives out."""
    made = []
    for kernel, side in zip(extents.kernel, extents.sides, strict=True):
        span = extents.dilation * (kernel - 1) + 1
        pad = extents.dilation * (kernel - 1) // 2 if extents.padded else 0
        made.append((side + 2 * pad - span) // (stride if side > 1 else 1) + 1)
    depth, height, width = made
    return depth, height, width


def copies(conv: Conv, batch: int, precision: Precision) -> list[float]:
    """Count the bytes of each of `COPIES`, or `IMPOSSIBLE`; padded are channels to whole 16 bytes."""
    size = 4 if precision == "fp32" else 2
    whole = 16 // size
    x, y, w = _parts(conv, batch, size)
    padded = conv._replace(
        channels_in=-(-conv.channels_in // whole) * whole, channels_out=-(-conv.channels_out // whole) * whole
    )
    px, py, pw = _parts(padded, batch, size)
    made = {"x": x, "y": y, "w": w}
    plain = [sum(made[part] for part in name) for name in COPIES[:BASE]]
    laid_out = [px + py, px + py + pw, px + pw, px + 2 * pw, py + 2 * pw]
    copied = [size + _BESIDE if size else size for size in (*plain, *laid_out)]
    return [*copied, batch * w, batch * w * 4 / size, *_transforms(conv, batch, y)]


def _transforms(conv: Conv, batch: int, y: float) -> tuple[float, float, float, float]:
    """Count the bytes of Winograd's transforms, and of Fourier's, of the whole, in tiles and of what is given out."""
    extents = conv.extents
    if extents is None or conv.groups > 1 or conv.stride > 1 or extents.dilation > 1:
        return (IMPOSSIBLE,) * 4
    if extents.kernel[0] > 1 or extents.sides[0] > 1:
        return (IMPOSSIBLE,) * 4
    both, weights = batch * (conv.channels_in + conv.channels_out), conv.channels_in * conv.channels_out
    (_, *kernel), (_, *sides), (_, *out) = extents.kernel, extents.sides, outputs(extents, conv.stride)
    winograd = fourier = tiles = of_y = IMPOSSIBLE
    if kernel == [3, 3]:
        winograd = 4 * _TRANSFORMED**2 * (both * -(-out[0] // _TILE) * -(-out[1] // _TILE) + weights)
    padded = [side + extents.padded * (each - 1) // 2 * 2 for side, each in zip(sides, kernel, strict=True)]
    whole = 1 << (max(padded) - 1).bit_length()
    if whole <= _LARGEST:
        fourier = 2 * _cells(whole) * max(both, weights) + y
        of_y = 2 * _cells(whole) * batch * conv.channels_out
    if max(kernel) < _SQUARE:
        each = -(-out[0] // (_SQUARE - kernel[0] + 1)) * -(-out[1] // (_SQUARE - kernel[1] + 1))
        tiles = _cells(_SQUARE) * (both * each + weights)
    if tiles > _MOST_TILES:
        tiles = IMPOSSIBLE
    return winograd, fourier, tiles, of_y


def _cells(side: int) -> int:
    """Count the bytes of a square's transform, half of which tells the other."""
    return _COMPLEX * side * (side // 2 + 1)


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
            self._said = [_Direction(model[name]) for name in DIRECTIONS]
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(error) from None
        self._known: dict[tuple[Conv, int, str], Workspace] = {}

    def of(self, conv: Conv, batch: int, precision: Precision) -> Workspace:
        """Give the workspace of a convolution whose extents are known.

        A transposed convolution is given as the one whose gradient it is: with its output as the input.
        """
        key = (conv, batch, precision)
        known = self._known.get(key)
        if known is None:
            assert conv.extents is not None, "a rehearsal knows them"
            row = described(conv, conv.extents, batch, precision)
            sizes = copies(conv, batch, precision)
            total = total_bytes(conv, batch, precision)
            # The same are drawn each time that the same is asked.
            rng = random.Random(str(key))  # noqa: S311 - a draw of sizes, no secret
            forward, into, weight = (said.of(row, sizes, total, rng) for said in self._said)
            workspace = Workspace(into, forward, weight) if conv.transposed else Workspace(forward, into, weight)
            known = keep(self._known, key, workspace)
        return known


def read_convolutions(text: str) -> Convolves:
    """Read what a model holds for rehearsals: JSON, which takes no memory of those who only estimate.

    Raises:
        ModelError: it is damaged.
    """
    try:
        model = json.loads(text)
    except (TypeError, ValueError) as error:
        raise _damaged(error) from None
    return Convolutions(model).of


def _damaged(error: Exception) -> ModelError:
    return ModelError(f"the convolutions of this model are damaged ({error!r}): roll back")


class _Direction:
    """Says how much one direction takes."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Read trees, the leaves of the first of which are places in a list of mixes: of what, and how often that."""
        self._mix, self._more, self._other = (Trees(model[part], WIDTH) for part in ("mix", "more", "other"))
        self._mixes = [_read_mix(mix) for mix in model["mixes"]]
        if not self._mixes:
            raise ValueError("no mix")

    def of(self, row: list[float], sizes: Sequence[float], total: float, rng: random.Random) -> Sizes:
        """Give the sizes of a convolution with such copies that reads and writes so many bytes in all."""

        def size_of(kind: int) -> float:
            if kind < MORE:
                return sizes[kind]
            if kind == MORE:
                return sizes[BASE] * (1.0 + exp(min(self._more.predict(row), 0.0)))
            return exp(min(self._other.predict(row), _MOST_LOG)) * total

        mix = self._mixes[min(max(round(self._mix.predict(row)), 0), len(self._mixes) - 1)]
        sized = [(size_of(kind), share) for kind, share in mix]
        made = [(size, share) for size, share in sized if size != IMPOSSIBLE] or [(size_of(OTHER), 1.0)]
        by_size = sorted(made)
        ends = list(accumulate(share for _, share in by_size))
        drawn = []
        for draw in range(DRAWS):
            place = (draw + rng.random()) / DRAWS * ends[-1]
            size = next(size for (size, _), end in zip(by_size, ends, strict=True) if place <= end)
            drawn.append(size * rng.uniform(_LESS, _MORE))
        return made[0][0], *drawn


def _read_mix(mix: Any) -> list[tuple[int, float]]:
    """Read what a leaf holds: kinds and how often they were measured, the most frequent first."""
    made = [(int(kind), float(share)) for kind, share in mix]
    if not made or any(not 0 <= kind <= OTHER or not 0.0 < share <= 1.0 for kind, share in made):
        raise ValueError("a mix of nothing known")
    return made
