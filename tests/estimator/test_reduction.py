"""Sums over many rows take a buffer: what an H100 took for them."""

from __future__ import annotations

import pytest

from estimator.rehearsals.reduction import buffer

MIB = 2**20


@pytest.mark.parametrize(
    ("shape", "axes", "mib"),
    [
        ((32768, 256), (0,), 64.0),
        ((1024, 20000), (0,), 136.72),
        ((131072, 128), (0,), 128.0),
        ((1024, 10000), (0,), 78.13),
        ((448, 63, 512), (0, 1), 110.25),
        ((10960, 1536), (0,), 129.75),
        ((8192, 256), (0,), 16.0),
        ((2048, 256), (0,), 4.0),
        ((16, 512, 512), (0, 1), 32.0),
        ((128, 512), (0,), 0.0),
        ((64, 1024), (1,), 0.0),
        ((4, 1), (0,), 0.0),
        ((0, 512), (0,), 0.0),
    ],
)
def test_a_sum_over_rows_takes_what_was_measured(shape: tuple[int, ...], axes: tuple[int, ...], mib: float) -> None:
    assert buffer(shape, strides(shape), axes) / MIB == pytest.approx(mib, rel=0.01, abs=0.001)


def strides(shape: tuple[int, ...]) -> list[int]:
    found = [1]
    for size in reversed(shape[1:]):
        found.insert(0, found[0] * size)
    return found


def test_a_sum_of_all_is_spread_over_blocks_that_each_leave_one_number() -> None:
    assert buffer((2**24,), (1,), ()) == 4 * 132 * 4  # an H100 has room for four blocks on each of its processors
    assert buffer((2**24,), (1,), (0,)) == buffer((2**12, 2**12), (2**12, 1), ())


def test_axes_count_from_the_end_and_integers_take_more() -> None:
    assert buffer((32768, 256), (256, 1), (-2,)) == buffer((32768, 256), (256, 1), (0,))
    assert buffer((32768, 256), (256, 1), (0,), partial=8) == 2 * buffer((32768, 256), (256, 1), (0,))


def test_what_lies_across_is_summed_up_like_rows() -> None:
    assert buffer((256, 32768), (1, 256), (1,)) == buffer((32768, 256), (256, 1), (0,))


def test_a_number_alone_is_its_own_sum() -> None:
    assert buffer((), (), ()) == buffer((), (), (0,)) == buffer((1,), (1,), (0,)) == 0
