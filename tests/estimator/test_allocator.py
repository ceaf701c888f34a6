"""PyTorch's caching allocator is followed by its rules; `scripts.check_allocator` compares it with the real one."""

from __future__ import annotations

import random
from itertools import pairwise

from estimator.rehearsals.allocator import Allocator, Block, NewProcess, anywhere

MIB = 2**20


def held(*sizes: int) -> int:
    allocator = Allocator()
    for size in sizes:
        allocator.take(size)
    return allocator.held


def test_segments_are_of_three_kinds() -> None:
    assert held(1) == held(MIB) == 2 * MIB
    assert held(MIB + 1) == held(10 * MIB - 512) == 20 * MIB
    assert held(10 * MIB) == 10 * MIB
    assert held(10 * MIB + 1) == held(12 * MIB) == 12 * MIB
    assert held(0) == 0


def test_requests_are_rounded_and_share_a_segment() -> None:
    allocator = Allocator()
    for _ in range(4096):
        allocator.take(1)
    assert (allocator.used, allocator.held) == (4096 * 512, 2 * MIB)
    allocator.take(1)
    assert allocator.held == 4 * MIB
    assert held(6 * MIB, 6 * MIB, 6 * MIB) == 20 * MIB
    assert held(6 * MIB, 6 * MIB, 6 * MIB, 6 * MIB) == 40 * MIB


def test_what_is_left_of_a_large_block_is_split_off_above_a_mib() -> None:
    allocator = Allocator()
    large = allocator.take(20 * MIB)
    allocator.give(large)
    allocator.take(19 * MIB)  # the MiB that is left goes with it
    assert allocator.used == 20 * MIB
    allocator.take(MIB + 512)
    assert allocator.held == 40 * MIB
    other = Allocator()
    other.give(other.take(20 * MIB))
    other.take(19 * MIB - 512)
    other.take(MIB + 512)
    assert other.used == other.held == 20 * MIB


def test_the_smallest_block_that_fits_is_taken_and_neighbours_are_joined() -> None:
    allocator = Allocator()
    blocks = [allocator.take(size * MIB) for size in (30, 20, 40)]
    for block in blocks:
        allocator.give(block)
    taken = allocator.take(19 * MIB)
    assert taken is blocks[1]
    parts = [allocator.take(10 * MIB) for _ in range(3)]  # of the segment of 30
    assert (allocator.held, allocator.used) == (90 * MIB, 50 * MIB)
    for part in (parts[0], parts[2], parts[1]):
        allocator.give(part)
    allocator.take(30 * MIB)
    assert (allocator.held, allocator.most_used) == (90 * MIB, 90 * MIB)


def test_small_and_large_requests_do_not_mix() -> None:
    allocator = Allocator()
    allocator.give(allocator.take(20 * MIB))
    allocator.take(1000)
    assert allocator.held == 22 * MIB


def test_blocks_never_overlap_and_all_comes_back() -> None:
    rng = random.Random(3)
    allocator = Allocator()
    there: list[Block] = []
    for _ in range(3000):
        if there and rng.random() < 0.5:
            allocator.give(there.pop(rng.randrange(len(there))))
        else:
            size = int(2 ** rng.uniform(0, 26))
            block = allocator.take(size)
            assert block is not None
            assert block.size >= size
            there.append(block)
        assert allocator.used == sum(block.size for block in there) <= allocator.most_used <= allocator.held
    ends = sorted((block.place, block.place + block.size) for block in there)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
    for block in there:
        allocator.give(block)
    before = allocator.held
    assert allocator.used == 0
    segments = [block for pool in allocator._free.values() for _, _, block in pool]
    assert sum(block.size for block in segments) == before
    assert all(block.before is None and block.after is None for block in segments)


def test_a_new_process_gets_lower_and_lower_addresses_in_ranges_of_32_mib() -> None:
    """As CUDA's driver gave them to new processes on an H200."""
    places = NewProcess()
    found = [places(size * MIB) // MIB for size in (20, 40, 12, 20, 2, 32, 32)]
    # 12 MiB lie in what is left of the range at the lowest address; the next 20 fit nowhere.
    assert found == [-32, -96, -56, -128, -108, -160, -192]


def test_of_two_blocks_of_one_size_the_one_at_the_lower_address_is_taken() -> None:
    def taken(allocator: Allocator) -> int:
        segments = [allocator.take(32 * MIB) for _ in range(2)]
        for segment in segments:
            allocator.give(segment)
        return segments.index(allocator.take(32 * MIB))

    rising = iter((0, 10**9))
    assert taken(Allocator(lambda _: next(rising))) == 0
    assert taken(Allocator()) == 1
    assert {taken(Allocator(anywhere(seed))) for seed in range(9)} == {0, 1}


def test_segments_anywhere_lie_apart() -> None:
    places, same = anywhere(5), anywhere(5)
    found = [places(32 * MIB) for _ in range(2000)]
    assert found == [same(32 * MIB) for _ in range(2000)]
    assert min(after - before for before, after in pairwise(sorted(found))) > 2**39
