"""Workspaces of convolutions as they were measured, and the file that holds them.

The file is CSV turned on its side, compressed: each line is a column, its name in front, because columns compress
better than rows. Workspaces stand in blocks of 512 bytes, the least that PyTorch's allocator gives out.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Final, NamedTuple, cast

from estimator.methods.rad.convolutions import outputs
from estimator.methods.rad.program import Conv, Extents, Three
from estimator.methods.rad.workspace import DIRECTIONS
from estimator.types import Precision

_BLOCK: Final = 512
_FILTERS: Final = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]


class Measured(NamedTuple):
    """One convolution.

    Attributes:
        groups, stride, dilation: of the convolution, along each of its axes.
        kernel_depth, kernel_height, kernel_width: of the kernel; 1 along axes that it has not.
        padded: whether it is padded by half of its kernel; otherwise it is not padded.
        last: whether the channels of its tensors lie together, ``torch.channels_last``.
        precision: of its tensors.
        depth, height, width: of the input; a series has a width alone, a picture no depth.
        channels_in, channels_out, batch: sizes.
        forward, input, weight: bytes of workspace of the forward pass and of both gradients.
    """

    groups: int
    kernel_depth: int
    kernel_height: int
    kernel_width: int
    stride: int
    dilation: int
    padded: int
    last: int
    precision: Precision
    depth: int
    height: int
    width: int
    channels_in: int
    channels_out: int
    batch: int
    forward: int
    input: int
    weight: int

    @property
    def kernel(self) -> Three:
        """Extents of the kernel."""
        return self.kernel_depth, self.kernel_height, self.kernel_width

    @property
    def sides(self) -> Three:
        """Extents of the input."""
        return self.depth, self.height, self.width

    @property
    def conv(self) -> Conv:
        """Its sizes as the estimator describes them."""
        kernel, sides = self.kernel, self.sides
        extents = Extents(kernel, sides, self.dilation, bool(self.padded), bool(self.last))
        out = prod(outputs(extents, self.stride))
        return Conv(
            self.channels_in,
            self.channels_out,
            prod(kernel),
            self.stride,
            self.groups,
            prod(sides),
            out,
            extents=extents,
        )


def write(path: Path, measured: Iterable[Measured]) -> None:
    """Write convolutions, in an order that compresses well.

    Raises:
        ValueError: a workspace is no whole number of blocks.
    """
    items = sorted(measured)
    if any(size % _BLOCK for item in items for size in (item.forward, item.input, item.weight)):
        raise ValueError(f"a workspace is no multiple of {_BLOCK} bytes")
    lines = []
    for name in Measured._fields:
        values = [getattr(item, name) for item in items]
        lines.append(",".join([name, *(str(value // _BLOCK if name in DIRECTIONS else value) for value in values)]))
    path.write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), filters=_FILTERS))


def read(path: Path) -> list[Measured]:
    """Read what `write` wrote.

    Raises:
        ValueError: the columns are others.
    """
    lines = [line.split(",") for line in lzma.decompress(path.read_bytes()).decode().splitlines()]
    if tuple(line[0] for line in lines) != Measured._fields:
        raise ValueError(f"{path} has no columns of measured convolutions")
    columns: list[list[int] | list[Precision]] = []
    for name, *values in lines:
        if name == "precision":
            columns.append(cast("list[Precision]", values))
        else:
            size = _BLOCK if name in DIRECTIONS else 1
            columns.append([int(value) * size for value in values])
    return [Measured(*cast("tuple[int, ...]", values)) for values in zip(*columns, strict=True)]  # type: ignore[arg-type]
