"""Recurrent layers: what they read of pictures, and what tables leave out of them."""

from __future__ import annotations

import pytest

from estimator.methods.rad.kinds import Kind
from estimator.parsers import parse_summary
from estimator.types import SummaryError
from tests.estimator.accounts import account, table
from tests.estimator.test_prints import block, conv, shapes

POOL = "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"


def crnn(width: int, **more: str) -> str:
    cnn = block("Sequential", _0=conv(3, 32), _1="ReLU()", _2=POOL, _3=conv(32, 64), _4="ReLU()", _5=POOL)
    rnn = f"LSTM({width}, 128, num_layers=2, batch_first=True, bidirectional=True)"
    return block("Net", cnn=cnn, **more, rnn=rnn, fc="Linear(in_features=256, out_features=80, bias=True)")


@pytest.mark.parametrize(
    ("width", "steps"),
    [(64 * 8, 32), (64 * 32, 8), (64, 32), (8 * 32, 64)],
    ids=["columns", "rows", "the mean of each column", "channels"],
)
def test_a_recurrent_layer_reads_a_picture_step_by_step(width: int, steps: int) -> None:
    text = crnn(width)
    assert shapes(text, "LSTM", input_size=(3, 32, 128)) == [(steps, 256)]
    assert shapes(text, "Linear", input_size=(3, 32, 128)) == [(steps, 80)]


def test_what_a_linear_layer_makes_of_the_columns_is_a_series() -> None:
    text = crnn(96, map="Linear(in_features=512, out_features=96, bias=True)")
    assert shapes(text, "LSTM", input_size=(3, 32, 128)) == [(32, 256)]


def test_a_flattened_picture_is_one_step_or_several() -> None:
    text = crnn(512, flat="Flatten(start_dim=1, end_dim=-1)")
    assert shapes(text, "LSTM", input_size=(3, 32, 128)) == [(32, 256)]
    pooled = crnn(64, pool="AdaptiveAvgPool2d(output_size=(1, 1))")
    assert shapes(pooled, "LSTM") == [(256,)]


def test_channels_that_are_last_are_read_as_they_are() -> None:
    text = block("Net", stem=conv(3, 64, kernel=7, step=7), norm="LayerNorm((64,), eps=1e-05)", rnn="LSTM(64, 16)")
    assert shapes(text, "LSTM") == [(32, 32, 16)]
    both = block("Both", down="LSTM(64, 24)", along="LSTM(64, 16)")
    text = block("Net", stem=conv(3, 64, kernel=7, step=7), norm="LayerNorm((64,), eps=1e-05)", both=both)
    assert shapes(text, "LSTM") == [(32, 32, 24), (32, 32, 16)]


@pytest.mark.parametrize("text", [crnn(512), crnn(777), crnn(96, map="Linear(512, 96)")])
def test_pictures_of_no_known_size_are_no_series_of_a_known_length(text: str) -> None:
    with pytest.raises(SummaryError, match=r"column by column.*input_size"):
        account(text)


def test_a_picture_that_fits_no_series_is_read_in_steps_of_as_many_features() -> None:
    assert shapes(crnn(128), "LSTM", input_size=(3, 32, 128)) == [(128, 256)]
    assert shapes(crnn(777), "LSTM", input_size=(3, 32, 128)) == [(64, 8, 256)]


def test_a_table_of_a_network_that_reads_columns_has_the_pictures_batch() -> None:
    text = """Layer (type:depth-idx)                   Output Shape              Param #
==========
CRNN                                     [26, 2, 37]               --
├─Conv2d: 1-1                            [2, 64, 1, 26]            640
├─LSTM: 1-2                              [26, 2, 512]              657,408
├─Linear: 1-3                            [52, 37]                  18,981
==========
"""
    summary, program, _ = account(text)
    assert summary.batch_size == 2
    assert [layer.output_shape for layer in summary.root.children] == [(64, 1, 26), (26, 512), (26, 37)]
    assert [op.kind for op in program.ops] == [Kind.CONV, Kind.RECURRENT, Kind.LINEAR]


def rows_of(*rows: str, size: str = "0.00") -> str:
    return f"{table(*rows)}Total params: 900\nInput size (MB): {size}\n"


@pytest.mark.parametrize(
    ("rows", "size", "params"),
    [
        (("Embedding-# [-1, 32, 24] 816", "LSTM-# [-1, 32, 16] 0"), "0.00", 4 * 16 * (24 + 16 + 2)),
        (("Embedding-# [-1, 32, 24] 816", "GRU-# [[-1, 32, 16], [-1, 2, 8]] 0"), "0.00", 2 * 3 * 8 * (24 + 8 + 2)),
        (("Embedding-# [-1, 32, 24] 816", "RNN-# [[-1, 32, 16], [-1, 2, 16]] 0"), "0.00", 16 * (24 + 16 + 2)),
        (("GRU-# [-1, 512, 64] 0",), "0.25", 3 * 64 * (128 + 64 + 2)),
        (("GRU-# [-1, 512, 64] 0",), "0.05", 3 * 64 * (64 + 64 + 2)),
        (("Conv1d-# [-1, 8, 40] 100", "LSTM-# [-1, 40, 16] 0"), "0.00", 4 * 16 * (8 + 16 + 2)),
        (("Conv2d-# [-1, 8, 4, 40] 100", "LSTM-# [-1, 40, 16] 0"), "0.00", 4 * 16 * (32 + 16 + 2)),
        (("Conv2d-# [-1, 8, 40, 1] 100", "LSTM-# [-1, 40, 16] 0"), "0.00", 4 * 16 * (8 + 16 + 2)),
        (("Conv2d-# [-1, 8, 40, 5] 100", "LSTM-# [-1, 40, 16] 0"), "0.00", 4 * 16 * (40 + 16 + 2)),
        (("Conv2d-# [-1, 8, 1, 26] 100", "LSTM-# [-1, 2, 16] 0"), "0.00", 4 * 16 * (8 + 16 + 2)),
        (("Linear-# [-1, 24] 100", "LSTM-# [-1, 1, 16] 0"), "0.00", 4 * 16 * (24 + 16 + 2)),
        (("LSTM-# [-1, 40] 0",), "0.25", 4 * 40 * (40 + 40 + 2)),  # packed
        (("Conv1d-# [-1, 8, 999] 100", "LSTM-# [-1, 40, 16] 0"), "0.00", 4 * 16 * (8 + 16 + 2)),  # cut into pieces
        (
            (
                "Conv2d-# [-1, 8, 20, 6] 100",
                "LSTM-# [-1, 20, 16] 77",
                "GroupNorm-# [-1, 8, 20, 6] 16",
                "LSTM-# [-1, 6, 16] 0",
            ),
            "0.00",
            4 * 16 * (8 + 16 + 2),  # one reads columns, one rows
        ),
        (("Embedding-# [-1, 32, 24] 816", "LSTM-# [-1, 32, 16] 77"), "0.00", 77),
    ],
)
def test_torchsummary_counts_no_recurrent_layers(rows: tuple[str, ...], size: str, params: int) -> None:
    summary = parse_summary(rows_of(*rows, size=size))
    assert summary.root.children[-1].params == params
    assert summary.total_params == 900 + params * (params != 77)
    assert any(f"{params:,} parameters were added" in said for said in summary.inferred) == (params != 77)


def test_a_row_behind_a_recurrent_one_reads_what_that_gives_out() -> None:
    text = rows_of("GRU-# [-1, 32, 16] 0", "GRU-# [-1, 32, 16] 0", "Linear-# [-1, 9] 153")
    first, second, _ = parse_summary(text).root.children
    assert first.params == second.params == 3 * 16 * (16 + 16 + 2)
    assert account(text)[2].weights == 4 * (900 + 2 * first.params)
