"""What goes into convolutions, where a table shows only what comes out."""

from __future__ import annotations

from itertools import pairwise

import pytest

from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program import Conv
from tests.estimator.accounts import account, table, tree


def convs(text: str) -> list[Conv]:
    return [op.conv for op in account(text)[1].ops if op.conv is not None]


def test_a_kernel_along_one_axis_is_as_long_as_its_weights_say() -> None:
    text = table(
        "Conv2d-# [-1, 40, 22, 976] 1,040",
        "Conv2d-# [-1, 40, 1, 976] 35,240",  # over all 22 rows
        "BatchNorm2d-# [-1, 40, 1, 976] 80",
        "Conv2d-# [-1, 80, 1, 934] 3,520",  # 43 columns of each channel by itself, and a bias
    )
    found = convs(text)
    assert found[1][:3] == (40, 40, 22)
    assert found[2] == Conv(40, 80, 43, 1, 40, 976, 934)


def test_a_kernel_along_one_axis_may_take_what_came_into_the_branch_before() -> None:
    text = table(
        "Conv2d-# [-1, 8, 22, 1000] 272",
        "BatchNorm2d-# [-1, 8, 22, 1000] 16",
        "Conv2d-# [-1, 8, 22, 900] 2,432",  # 101 columns of three channels, not of the eight at hand
    )
    assert convs(text)[1] == Conv(3, 8, 101, 1, 1, 22000, 22 * 900)


def test_equal_kernels_find_the_last_tensor_that_fits_each_time() -> None:
    text = table(
        "Conv2d-# [-1, 16, 32, 32] 448",
        "Conv2d-# [-1, 100, 32, 32] 14,500",
        "Conv2d-# [-1, 64, 32, 32] 9,280",  # 16 channels, as the two that follow
        "Conv2d-# [-1, 128, 32, 32] 18,560",
        "Conv2d-# [-1, 16, 32, 32] 18,448",  # of these 128; 16 channels anew
        "Conv2d-# [-1, 40, 32, 32] 5,800",
        "Conv2d-# [-1, 50, 32, 32] 7,250",
        "Conv2d-# [-1, 16, 8, 8] 7,216",  # too small for what follows
        "Conv2d-# [-1, 30, 8, 8] 4,350",
        "Conv2d-# [-1, 56, 32, 32] 8,120",
        "Conv2d-# [-1, 60, 32, 32] 8,700",
        "Conv2d-# [-1, 64, 8, 8] 9,280",
    )
    steps = [(op.x, op.conv.channels_in) for op in account(text)[1].ops if op.conv is not None]
    assert steps[:5] == [(0, 3), (1, 16), (1, 16), (1, 16), (4, 128)]
    assert steps[5:] == [(5, 16), (5, 16), (7, 50), (8, 16), (5, 16), (5, 16), (8, 16)]


def test_weights_ask_for_joined_tensors_of_one_size() -> None:
    text = tree(
        "Net [2, 16, 32, 32, 32] --",
        "├─Conv3d: 1-1 [2, 16, 32, 32, 32] 1,312",
        "├─Conv3d: 1-2 [2, 16, 32, 32, 32] 6,928",
        "├─Conv3d: 1-3 [2, 16, 32, 32, 32] 13,840",  # 32 channels and 27 places
    )
    assert convs(text)[2].channels_in == 32
    series = table(
        "Conv1d-# [-1, 32, 64] 2,592",
        "Conv1d-# [-1, 32, 64] 5,152",
        "Conv1d-# [-1, 32, 64] 10,272",  # 64 channels and 5 places, not 107 and 3
    )
    assert convs(series)[2].channels_in == 64


def test_a_convolution_turns_what_has_its_channels_last() -> None:
    text = table(
        "Conv2d-# [-1, 96, 32, 32] 73,824",
        "LayerNorm-# [-1, 32, 32, 96] 192",
        "Conv2d-# [-1, 24, 32, 32] 2,304",
    )
    _, program, _ = account(text)
    assert program.tensors[program.ops[-1].x] == 96 * 1024


def test_a_map_of_features_becomes_a_picture_of_one_channel() -> None:
    text = table("Conv1d-# [-1, 512, 100] 5,632", "ReLU-# [-1, 512, 100] 0", "Conv2d-# [-1, 2, 512, 100] 1,028")
    _, program, _ = account(text)
    assert program.tensors[program.ops[-1].x] == 51200


@pytest.mark.parametrize(("type_", "shape"), [("Conv1d", "12, 24, 50"), ("Conv2d", "12, 24, 5, 5")])
def test_a_batch_with_an_axis_beside_it_is_no_channel(type_: str, shape: str) -> None:
    text = tree(
        "Net [4, 24] --",
        f"├─{type_}: 1-1 [{shape}] 1,752",
        f"├─ReLU: 1-2 [{shape}] --",
        f"├─{type_}: 1-3 [{shape}] 600",
        "├─Linear: 1-4 [4, 24] 600",
    )
    _, program, _ = account(text, batch_size=4)
    assert {program.tensors[op.y] for op in program.ops[1:3]} == {3 * 24 * (50 if type_ == "Conv1d" else 25)}
    assert program.tensors[program.ops[2].x] == program.tensors[program.ops[1].y]


def test_an_attention_around_an_attention_is_the_same() -> None:
    inner = ("├─Around: 1-1 [2, 16, 64] --", "│    └─MultiheadAttention: 2-1 [2, 16, 64] 16,640")
    alone, around = (
        account(tree("Net [2, 16, 64] --", row, inner[1]))[2].kept
        for row in (inner[0], inner[0].replace("Around", "SelfAttention"))
    )
    assert alone == around


def test_batches_that_stand_second_are_taken_out() -> None:
    text = tree(
        "Net [8, 96, 32] --",
        "├─Linear: 1-1 [256, 4, 64] 2,112",
        "├─MultiheadAttention: 1-2 [5, 256, 64] 16,640",
        "├─Linear: 1-3 [1, 8192, 24] 1,560",
    )
    root = account(text, batch_size=8)[0].root
    assert [layer.output_shape for layer in root.children] == [(32, 4, 64), (5, 32, 64), (1, 1024, 24)]


def test_rows_in_order_of_a_sequence_are_no_witness_against_the_batch() -> None:
    text = tree(
        "OpenUnmix [{0}, 2, 2049, 255] --",
        "├─Linear: 1-1 [{1}, 512] 1,522,688",
        "├─BatchNorm1d: 1-2 [{1}, 512] 1,024",
        "├─LSTM: 1-3 [255, {0}, 512] 4,730,880",
    )
    for batch_size in (8, 2):  # two is what its channels are, too
        root = account(text.format(batch_size, 255 * batch_size), batch_size=batch_size)[0].root
        assert [layer.output_shape for layer in root.children] == [(255, 512)] * 3


def test_answers_in_another_order_are_no_witness_of_the_batch() -> None:
    rows: list[Layer] = list(
        account(
            tree(
                "Net [2, 8, 256, 2000] --",
                "├─GroupNorm: 1-1 [8, 256, 250, 18] 512",
                "├─LayerNorm: 1-2 [144, 250, 256] 512",
                "├─Conv2d: 1-3 [8, 512, 250, 18] 131,584",
            ),
            batch_size=8,
        )[0].root.children
    )
    assert [row.output_shape for row in rows] == [(256, 250, 18), (18, 250, 256), (512, 250, 18)]
    assert all(before is not after for before, after in pairwise(rows))


def test_a_convolution_skips_no_places() -> None:
    text = table(
        "Conv2d-# [-1, 32, 384, 384] 896",
        "Conv2d-# [-1, 16, 384, 384] 4,624",
        "Conv2d-# [-1, 384, 6, 6] 172,416",
    )
    _, program, _ = account(text)
    assert program.shapes[program.ops[-1].x] == (448, 6, 6)


def test_a_second_projection_as_wide_as_the_first_is_no_output() -> None:
    text = tree(
        "Net [2, 3060, 64] --",
        "├─LayerNorm: 1-1 [2, 3060, 64] 128",
        "├─LayerNorm: 1-2 [2, 16, 64] 128",
        "├─BiMultiHeadAttention: 1-3 [2, 3060, 64] --",
        "│    └─Linear: 2-1 [2, 3060, 256] 16,640",
        "│    └─Linear: 2-2 [2, 16, 256] 16,640",
        "│    └─Linear: 2-3 [2, 3060, 256] 16,640",
        "│    └─Linear: 2-4 [2, 16, 256] 16,640",
        "│    └─Linear: 2-5 [2, 3060, 64] 16,448",
    )
    _, program, _ = account(text.replace("BiMulti", "GroundingDinoBiMulti"))
    found = [op for op in program.ops if op.kind is Kind.ATTENTION]
    assert [(program.shapes[op.y], op.matrix) for op in found] == [((3060, 256), 4 * 3060 * 16)]


def test_halves_that_a_convolution_made_are_multiplied_unless_a_way_leads_around_them() -> None:
    rows = "Conv1d-# [-1, 32, 100] 64", "Conv1d-# [-1, 64, 100] 6,208", "Conv1d-# [-1, {0}, 100] {1}"

    def taken(outputs: int) -> tuple[bool, int]:
        _, program, _ = account(table(*rows).format(outputs, 33 * outputs))
        _, doubled, last = program.ops
        return doubled.y in program.kept, last.x - doubled.y

    assert taken(32) == (True, 1)  # the product
    assert taken(64) == (False, -1)
    text = (
        "Net(\n  (start): Conv1d(1, 32, kernel_size=(1,), stride=(1,))\n"
        "  (dilated): Conv1d(32, 64, kernel_size=(3,), stride=(1,), padding=(2,), dilation=(2,))\n"
        "  (res): Conv1d(32, 32, kernel_size=(1,), stride=(1,))\n)\n"
    )
    _, program, _ = account(text, seq_len=100)
    assert program.tensors[program.ops[-1].x] == 32 * 100
    assert program.ops[1].y in program.kept


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_of_what_kernels_of_each_channel_gave_out_are_multiplied_before_a_kernel_of_one_place(parts: int) -> None:
    text = table(
        "Conv2d-# [-1, 24, 32, 32] 648",
        f"Conv2d-# [-1, {24 * parts}, 32, 32] {24 * 24 * parts}",
        f"Conv2d-# [-1, {24 * parts}, 32, 32] {9 * 24 * parts}",
        "Conv2d-# [-1, 24, 32, 32] 576",
    )
    _, program, _ = account(text)
    whole, last = program.ops[2].y, program.ops[3]
    assert last.conv == Conv(24, 24, 1, 1, 1, 1024, 1024)
    assert last.x not in (program.ops[0].y, whole)  # a product
    kept = [program.shapes[index][0] for index in program.kept]
    assert sorted(kept) == [24 * (parts - 1), 24 * parts]
    # Where all is taken, nothing is multiplied.
    _, program, _ = account(text.replace(" 576", f" {576 * parts}"))
    assert (program.ops[3].x, program.kept) == (program.ops[2].y, set())


def test_a_convolution_that_is_called_again_takes_what_code_joins_anew() -> None:
    again = "├─Conv2d: 1-{} [2, 16, 8, 8] (recursive)"
    text = tree(
        "Net [2, 16, 8, 8] --",
        "├─Conv2d: 1-1 [2, 8, 8, 8] 224",
        "├─Conv2d: 1-2 [2, 16, 8, 8] 2,896",  # of 20 channels
        again.format(3),
        again.format(4),
    )
    _, program, _ = account(text)
    takes = [op.x for op in program.ops[1:]]
    assert [program.shapes[index] for index in takes] == [(20, 8, 8)] * 3
    assert len(set(takes)) == 3


@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ((64, 96, 128), [64, 96, 128]),  # each takes what all before it gave out
        ((64, 64, 64), [64, 64, 64]),  # all take what came into the list
    ],
)
def test_a_list_of_convolutions_in_a_table_may_be_a_dense_block(taken: tuple[int, ...], found: list[int]) -> None:
    rows = [f"│    └─Conv2d: 2-{at} [2, 32, 32, 32] {32 * (9 * width + 1):,}" for at, width in enumerate(taken, 1)]
    _, program, _ = account(
        tree("Net [2, 3, 32, 32] --", "├─Conv2d: 1-1 [2, 64, 32, 32] 1,792", "├─ModuleList: 1-2 -- --", *rows)
    )
    convs = [op.conv for op in program.ops if op.conv is not None]
    assert [conv.channels_in for conv in convs[1:]] == found


def test_kernels_of_several_sizes_in_a_table_are_no_dense_block() -> None:
    rows = [f"│    └─Conv2d: 2-{at} [2, 16, 32, 32] {params:,}" for at, params in enumerate((1_040, 9_233, 25_616), 1)]
    _, program, _ = account(
        tree("Net [2, 3, 32, 32] --", "├─Conv2d: 1-1 [2, 64, 32, 32] 1,792", "├─ModuleList: 1-2 -- --", *rows)
    )
    assert len(program.ops) == 4


@pytest.mark.parametrize("last", ["Conv2d: 1-2 [8, 2, 32, 32] 130", "Conv2d: 1-2 [8, 2, 16, 16] 130"])
def test_as_many_channels_as_the_job_has_samples_are_no_batch(last: str) -> None:
    text = tree("Net [8, 2, 32, 32] --", "├─Conv2d: 1-1 [8, 64, 32, 32] 1,792", f"├─{last}")
    small, large = (account(text, batch_size=size)[1] for size in (2, 3))
    assert small.shapes == large.shapes
