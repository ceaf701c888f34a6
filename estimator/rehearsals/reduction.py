"""What CUDA's kernel for sums takes from PyTorch's allocator where many blocks of threads share a sum. Pure.

Follows ``setReduceConfig`` of PyTorch's ``aten/src/ATen/native/cuda/Reduce.cuh`` (2.11). A bias' gradient is such a
sum: over thousands of rows it takes as much as what it sums up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_THREADS: Final = 512
_WARP: Final = 32
_RESIDENT: Final = 2048
_PROCESSORS: Final = 132  # of an H100 and an H200
_FEW: Final = 16
_MANY: Final = 256
_VECTOR: Final = 4
_LONG: Final = 128


def buffer(shape: Sequence[int], strides: Sequence[int], axes: Sequence[int], *, partial: int = 4) -> int:
    """Count the bytes of the buffer in which blocks leave their parts of a sum.

    Args:
        shape: of what is summed up.
        strides: of that, in elements.
        axes: that are summed up; none for all of them.
        partial: bytes of a part of a sum.
    """
    if not shape:
        return 0
    summed = {axis % len(shape) for axis in axes} or set(range(len(shape)))
    inside = _joined([(shape[at], strides[at]) for at in sorted(summed) if shape[at] > 1])
    kept = _joined([(shape[at], strides[at]) for at in range(len(shape)) if at not in summed and shape[at] > 1])
    inputs, outputs = _product(inside), _product(kept)
    if not inputs or not outputs or not inside:
        return 0
    along = not kept or inside[0][1] < kept[0][1]
    first, second = (inputs, outputs) if along else (outputs, inputs)
    vector = 1
    if (inside if along else kept)[0][1] == 1:
        if along and first > _LONG and len(inside) == 1 and not kept:
            first //= _VECTOR
        elif not along:
            vector = next(size for size in (4, 2, 1) if all(number % size == 0 for number in _numbers(inside, kept)))
            first //= vector
    most = _THREADS // vector
    wide, high = min(_power(first), most), min(_power(second), most)
    width = min(wide, _WARP)
    height = min(high, most // width)
    width = min(wide, most // height)
    values, across = -(-inputs // (width if along else 1)), 1 if along else width
    shared = values >= height * _FEW or values >= _MANY
    if shared:
        values = -(-values // height)
    else:
        across *= height
    grid = -(-(outputs // vector) // across)
    target = _PROCESSORS * (_RESIDENT // (width * height))
    if not shared or values < _MANY or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-values // _FEW)), -(-values // _MANY))
    if blocks <= 1:
        return 0
    return partial * outputs * blocks * (1 if along else width * vector)


def _joined(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Put axes that lie behind one another together, the nearest elements first."""
    found: list[tuple[int, int]] = []
    for size, stride in sorted(axes, key=lambda axis: axis[1]):
        if found and stride == found[-1][0] * found[-1][1]:
            found[-1] = found[-1][0] * size, found[-1][1]
        else:
            found.append((size, stride))
    return found


def _numbers(inside: list[tuple[int, int]], kept: list[tuple[int, int]]) -> list[int]:
    return [kept[0][0], *(stride for _, stride in inside), *(stride for _, stride in kept[1:])]


def _product(axes: list[tuple[int, int]]) -> int:
    made = 1
    for size, _ in axes:
        made *= size
    return made


def _power(number: int) -> int:
    """Give the largest power of two that is no larger."""
    return 1 << (max(number, 1).bit_length() - 1)
