"""PyTorch's caching allocator, followed from one request to the next: what it takes from the GPU for them. Pure.

It hands out blocks of segments, the smallest free one that fits, splits what is left of it off, and joins neighbours
that are free again. Nothing goes back to the GPU. So what it holds depends on sizes and their order, and exceeds what
tensors take. Sizes and rules are those of its native backend with default settings
(`c10/cuda/CUDACachingAllocator.cpp` of PyTorch 2.11).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

_UNIT: Final = 512
_SMALL: Final = 2**20
_SMALL_SEGMENT: Final = 2 * 2**20
_LARGE_SEGMENT: Final = 20 * 2**20
_LARGE: Final = 10 * 2**20
_ROUND: Final = 2 * 2**20


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


class Allocator:
    """What one process's allocator holds of one GPU.

    Attributes:
        used, most_used: bytes of blocks that were handed out, now and at most.
        held: bytes taken from the GPU; never less than before.
    """

    def __init__(self) -> None:
        """Hold nothing."""
        self.used = self.most_used = self.held = 0
        # By whether they are small: size, place and block of what is free, in that order.
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}
        self._next = 0

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
        block = Block(size, self._next, small=small)
        self._next += size
        self.held += size
        return block

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
