"""PyTorch's own attention may give out its weights, which no summary shows: the bound has room for them."""

from __future__ import annotations

import pytest

from estimator.methods.rad import Rad
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program import compile_program
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import Estimate, Workload

_TABLE = """=====
Layer (type:depth-idx)                   Output Shape              Param #
=====
Reader                                   [2, 10]                   --
├─Linear: 1-1                            [2, {0}, {1}]             {2:,}
├─Sequential: 1-2                        [2, {0}, {1}]             --
│    └─{5}: 2-1                          [2, {0}, {1}]             --
│    │    └─LayerNorm: 3-1               [2, {0}, {1}]             {3:,}
│    │    └─MultiheadAttention: 3-2      [2, {0}, {1}]             {4:,}
├─Linear: 1-3                            [2, 10]                   {6:,}
=====
Total params: {7:,}
=====
"""
_PRINT = """Reader(
  (head): Linear(in_features=24, out_features=256, bias=True)
  (block): Own(
    (attn): MultiheadAttention(
      (out_proj): NonDynamicallyQuantizableLinear(in_features=256, out_features=256, bias=True)
    )
    (norm): LayerNorm((256,), eps=1e-05, elementwise_affine=True)
  )
)
"""
_FLAT = """        Layer (type)               Output Shape         Param #
======
            Linear-1           [-1, 512, 256]           6,400
MultiheadAttention-2  [[-1, 512, 256], [-1, 512, 512]]        0
         LayerNorm-3           [-1, 512, 256]             512
{0}======
Total params: 270,080
------
"""


def _table(block: str = "Own", tokens: int = 512, width: int = 256) -> str:
    counts = [25 * width, 2 * width, 4 * width * (width + 1), 10 * (width + 1)]
    sizes = (tokens, width, *counts[:3])
    return _TABLE.format(*sizes, block, counts[3], sum(counts))


def _estimate(rad: Rad, text: str, batch_size: int = 64, seq_len: int | None = 512) -> Estimate:
    return rad.predict(parse_summary(text), Workload(batch_size, seq_len=seq_len))


def _matrix(text: str, *, weighed: bool) -> int:
    shaped = with_shapes(parse_summary(text), Workload(64, seq_len=512))
    program = compile_program(shaped, weighed=weighed)
    return next(op.matrix for op in program.ops if op.kind is Kind.ATTENTION)


@pytest.mark.parametrize("text", [_table(), _PRINT, _FLAT.format("")])
def test_the_bound_has_room_for_weights_that_an_own_block_may_ask_for(text: str, rad: Rad) -> None:
    assert _matrix(text, weighed=False) == 0
    assert _matrix(text, weighed=True) == 8 * 512 * 512
    found = _estimate(rad, text)
    least = 64 * 512 * 512 * 8 * 4 * 2.25 / 2**20  # softmax, what dropout leaves of it, and its mask
    assert found.upper_mib > least > found.expected_mib - 1000
    assert any("need_weights=False" in reason for reason in found.reasons)


@pytest.mark.parametrize("block", ["TransformerEncoderLayer", "TransformerDecoderLayer", "EncoderBlock"])
def test_blocks_that_ask_for_no_weights_keep_none(block: str, rad: Rad) -> None:
    text = _table(block)
    assert _matrix(text, weighed=True) == 0
    assert not any("need_weights" in reason for reason in _estimate(rad, text).reasons)


def test_in_tables_without_a_tree_the_blocks_row_comes_later() -> None:
    assert _matrix(_FLAT.format("EncoderBlock-4 [-1, 512, 256] 0\n"), weighed=True) == 0


def test_more_heads_than_usual_where_it_is_wide_and_those_of_64_where_it_does_not_divide() -> None:
    assert _matrix(_table(width=1024), weighed=True) == 16 * 512 * 512
    assert _matrix(_table(width=250), weighed=True) == 3 * 512 * 512


def test_a_series_before_it_of_another_length_holds_the_keys() -> None:
    text = _table().replace("MultiheadAttention: 3-2      [2, 512,", "MultiheadAttention: 3-2      [2, 32,")
    assert _matrix(text, weighed=True) == 8 * 32 * 512


def test_windows_have_matrices_of_their_own_and_a_picture_is_a_series_of_its_places() -> None:
    windows = _table().replace("[2, 512, 256]", "[2, 4, 128, 256]")
    assert _matrix(windows, weighed=True) == 4 * 8 * 128 * 128
    picture = _PRINT.replace(
        "(head): Linear(in_features=24, out_features=256", "(head): Conv2d(3, 256, kernel_size=(8, 8)"
    )
    picture = picture.replace("kernel_size=(8, 8), bias=True", "kernel_size=(8, 8), stride=(8, 8)")
    shaped = with_shapes(parse_summary(picture), Workload(64, input_size=(3, 64, 64)))
    program = compile_program(shaped, weighed=True)
    assert next(op.matrix for op in program.ops if op.kind is Kind.ATTENTION) == 8 * 64 * 64


def test_a_norm_of_a_print_leaves_a_grid_as_wide_as_its_attention() -> None:
    norm = "    (norm): LayerNorm((256,), eps=1e-05, elementwise_affine=True)\n"
    text = _PRINT.replace(norm, "").replace("    (attn)", f"{norm}    (attn)")
    text = text.replace("(head): Linear(in_features=24, out_features=256", "(head): Conv2d(3, 256, kernel_size=(8, 8)")
    text = text.replace("kernel_size=(8, 8), bias=True", "kernel_size=(8, 8), stride=(8, 8)")
    shaped = with_shapes(parse_summary(text), Workload(64, input_size=(3, 64, 64)))
    program = compile_program(shaped, weighed=True)
    assert program.shapes[1] in ((256, 8, 8), (8, 8, 256))
    assert next(op.matrix for op in program.ops if op.kind is Kind.ATTENTION) == 8 * 64 * 64


def test_short_series_change_no_bound(rad: Rad, monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = parse_summary(_table(tokens=16)), parse_summary(_table(tokens=2048))
    with_room = [rad.predict(each, Workload(64)).upper_mib for each in (short, long)]
    monkeypatch.setattr(Rad, "_otherwise", lambda *_, **__: 0.0)
    without = [rad.predict(each, Workload(64)).upper_mib for each in (short, long)]
    assert with_room[0] == without[0] and with_room[1] > without[1]
