"""What tables leave out of shapes."""

from __future__ import annotations

import pytest

from estimator.methods.rad.kinds import Kind
from tests.estimator.accounts import account, table


def test_windows_that_torchsummary_drops_are_put_back() -> None:
    rows = table(
        "Conv2d-# [-1, 96, 56, 56] 4,704",
        "LayerNorm-# [-1, 56, 56, 96] 192",
        "Linear-# [-1, 49, 288] 27,936",
        "Softmax-# [-1, 3, 49, 49] 0",
        "Linear-# [-1, 49, 96] 9,312",
        "WindowAttention-# [-1, 49, 96] 0",
        "LayerNorm-# [-1, 3136, 96] 192",
    )
    shapes = [layer.output_shape for layer in account(rows)[0].root.children]
    assert shapes[2:6] == [(64, 49, 288), (64, 3, 49, 49), (64, 49, 96), (64, 49, 96)]
    assert shapes[6] == (3136, 96)


def test_windows_of_a_volume_that_was_filled_up_are_put_back() -> None:
    rows = table(
        "Conv3d-# [-1, 24, 32, 32, 32] 216",
        "LayerNorm-# [-1, 32, 32, 32, 24] 48",
        "Linear-# [-1, 343, 72] 1,800",
        "Linear-# [-1, 343, 24] 600",
        "WindowAttention-# [-1, 343, 24] 0",
    )
    shapes = [layer.output_shape for layer in account(rows)[0].root.children]
    assert shapes[2:] == [(125, 343, 72), (125, 343, 24), (125, 343, 24)]


def test_a_matrix_of_weights_is_no_picture_cut_into_windows() -> None:
    def kept(tokens: int, width: int) -> tuple[list[tuple[int, int]], float]:
        rows = table(
            f"Embedding-# [-1, {tokens}, {width}] {50_000 * width:,}",
            *(f"Linear-# [-1, {tokens}, {width}] {width * width:,}",) * 3,
            f"Dropout-# [-1, 16, {tokens}, {tokens}] 0",
            f"Linear-# [-1, {tokens}, {width}] {width * width:,}",
            f"GPTJAttention-# [-1, {tokens}, {width}] 0",
            f"Linear-# [-1, {tokens}, {4 * width}] {4 * width * width + 4 * width:,}",
        )
        _, program, memory = account(rows)
        sizes = [(program.tensors[op.x], program.tensors[op.y]) for op in program.ops if op.kind is Kind.LINEAR]
        return sizes, memory.kept

    same, kept_same = kept(256, 256)
    other, kept_other = kept(256, 264)
    assert same[3] == (256 * 256, 256 * 256)
    assert other[3] == (256 * 264, 256 * 264)
    assert kept_same == pytest.approx(kept_other, rel=0.05)
