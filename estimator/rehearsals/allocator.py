"""PyTorch's caching allocator, followed from one request to the next: what it takes from the GPU for them. Pure.

It hands out blocks of segments, the smallest free one that fits, splits what is left of it off, and joins neighbours
that are free again. Nothing goes back to the GPU. So what it holds depends on sizes and their order, and exceeds what
tensors take. Of two free blocks of one size it takes the one at the lower address, so that what it holds also depends
on where CUDA's driver puts segments. Sizes and rules are those of its native backend with default settings
(`c10/cuda/CUDACachingAllocator.cpp` of PyTorch 2.11).
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable
from itertools import count
from typing import Final

Places = Callable[[int], int]
"""Gives the address of a new segment of so many bytes; called once for each."""

_UNIT: Final = 512
_SMALL: Final = 2**20
_SMALL_SEGMENT: Final = 2 * 2**20
_LARGE_SEGMENT: Final = 20 * 2**20
_LARGE: Final = 10 * 2**20
_ROUND: Final = 2 * 2**20
_RANGE: Final = 32 * 2**20
_BITS: Final = 40
_FAR: Final = 2**40  # further than a GPU's memory is large


class Block:
    """A piece of a segment, or all of it.

    Attributes:
        size: bytes.
        place: where it lies; of two free blocks of one size, the one before is taken.
        small: whether its segment is one of those for small requests.
        free: whether nobody has it.
        before, after: its neighbours in the segment.
    """

    __slots__ = ("after", "before", "free", "place", "size", "small")

    def __init__(self, size: int, place: int, *, small: bool) -> None:
        """Begin as a segment of its own."""
        self.size, self.place, self.small = size, place, small
        self.free = False
        self.before: Block | None = None
        self.after: Block | None = None


class NewProcess:
    """Places segments as CUDA's driver was seen to do in a new process."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._lowest = 0
        # Address and size of what segments left of the driver's ranges, by address.
        self._left: list[tuple[int, int]] = []

    def __call__(self, size: int) -> int:
        """Place a segment in what is left of a range, else in a new one below all others."""
        for at, (place, left) in enumerate(self._left):
            if left >= size:
                self._left[at : at + 1] = [(place + size, left - size)] if left > size else []
                return place
        whole = -(-size // _RANGE) * _RANGE
        self._lowest -= whole
        if whole > size:
            self._left.insert(0, (self._lowest + size, whole - size))
        return self._lowest


def anywhere(seed: int) -> Places:
    """Place segments in any order, as where others were given back before."""
    rng, numbers = random.Random(seed), count()  # noqa: S311 - an order, no secret

    def place(_: int) -> int:
        return rng.getrandbits(_BITS) * _FAR + next(numbers)

    return place


class Allocator:
    """What one process's allocator holds of one GPU.

    Attributes:
        used, most_used: bytes of blocks that were handed out, now and at most.
        held: bytes taken from the GPU; never less than before.
    """

    def __init__(self, places: Places | None = None) -> None:
        """Hold nothing.

        Args:
            places: says where segments lie; by default that of a new process.
        """
        self.used = self.most_used = self.held = 0
        # By whether they are small: size, place and block of what is free, in that order.
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}
        self._places = places or NewProcess()

    def take(self, size: int) -> Block | None:
        """Hand out a block for a request of so many bytes; None for a tensor without numbers, which takes none."""
        if size <= 0:
            return None
        size = -(-size // _UNIT) * _UNIT
        small = size <= _SMALL
        free = self._free[small]
        at = bisect_left(free, (size,))
        block = free.pop(at)[2] if at < len(free) else self._segment(size, small=small)
        left = block.size - size
        if left >= _UNIT if small else left > _SMALL:
            rest = Block(left, block.place + size, small=small)
            rest.before, rest.after = block, block.after
            if block.after is not None:
                block.after.before = rest
            block.after, block.size = rest, size
            self._put(rest)
        block.free = False
        self.used += block.size
        self.most_used = max(self.most_used, self.used)
        return block

    def give(self, block: Block | None) -> None:
        """Take back what `take` handed out."""
        if block is None:
            return
        self.used -= block.size
        if block.before is not None and block.before.free:
            self._drop(block.before)
            block = _joined(block.before, block)
        if block.after is not None and block.after.free:
            self._drop(block.after)
            block = _joined(block, block.after)
        self._put(block)

    def _segment(self, size: int, *, small: bool) -> Block:
        large = _LARGE_SEGMENT if size < _LARGE else -(-size // _ROUND) * _ROUND
        size = _SMALL_SEGMENT if small else large
        self.held += size
        return Block(size, self._places(size), small=small)

    def _put(self, block: Block) -> None:
        block.free = True
        insort(self._free[block.small], (block.size, block.place, block))

    def _drop(self, block: Block) -> None:
        free = self._free[block.small]
        free.pop(bisect_left(free, (block.size, block.place)))


def _joined(block: Block, after: Block) -> Block:
    block.size += after.size
    block.after = after.after
    if after.after is not None:
        after.after.before = block
    return block
