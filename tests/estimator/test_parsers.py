"""The readers of every summary format, on small summaries written in the tools' exact layouts."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress

import pytest

from estimator import walk
from estimator.adapters import FROZEN
from estimator.layer import Layer
from estimator.parsers import module, parse_summary
from estimator.parsers import text as parts
from estimator.parsers.tree import RawShape, batch_of, per_sample
from estimator.types import ModelSummary, SummaryError
from slurm_hooks.bench import transformer

TORCHSUMMARY = """\
----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Conv2d-1         [-1, 16, 32, 32]             448
              ReLU-2         [-1, 16, 32, 32]               0
MultiheadAttention-3    [[-1, 10, 16], [-1, 10, 10]]               0
            Linear-4                   [-1, 10]         163,850
================================================================
Total params: 164,298
Trainable params: 164,298
Non-trainable params: 0
----------------------------------------------------------------
Input size (MB): 0.01
Forward/backward pass size (MB): 0.25
Params size (MB): 0.63
Estimated Total Size (MB): 0.89
----------------------------------------------------------------
"""

TORCHINFO = """\
==========================================================================================
Layer (type:depth-idx)                   Output Shape              Param #
==========================================================================================
TinyNet                                  [8, 10]                   64
├─Sequential: 1-1                        [8, 16, 16, 16]           --
│    └─Conv2d: 2-1                       [8, 16, 16, 16]           448
│    └─BatchNorm2d: 2-2                  [8, 16, 16, 16]           (32)
├─Sequential: 1-2                        [8, 16, 16, 16]           2,352
├─Linear: 1-3                            [8, 10]                   170
├─Linear: 1-4                            [8, 10]                   (recursive)
==========================================================================================
Total params: 3,066
Trainable params: 3,034
Non-trainable params: 32
Total mult-adds (Units.MEGABYTES): 1.23
==========================================================================================
Input size (MB): 0.10
Forward/backward pass size (MB): 0.52
Params size (MB): 0.01
Estimated Total Size (MB): 0.63
==========================================================================================
"""

PRINT = """\
Tiny(
  (stem): Sequential(
    (0): Conv2d(3, 16, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
    (1): BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  )
  (act): ReLU(inplace=True)
  (blocks): ModuleList(
    (0-2): 3 x Block(
      (fc): Linear(in_features=16, out_features=16, bias=True)
      (conv): Conv1D(nf=32, nx=16)
    )
  )
  (attn): MultiheadAttention(
    (out_proj): NonDynamicallyQuantizableLinear(in_features=16, out_features=16, bias=True)
  )
  (norm): BatchNormAct2d(
    16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True
    (act): SiLU(inplace=True)
  )
  (extra): ParameterList(
      (0): Parameter containing: [torch.float32 of size 4x5]
  )
)
"""
PRINT_TOTAL = 432 + 32 + 3 * (272 + 544) + (272 + 3 * 16 * 17) + 32 + 20

COUNTED = """\
Tiny(
  (embed): Embedding(100, 16), 1,600 params
  (body): Block(
    (fc): Linear(in_features=16, out_features=16, bias=True), 272 params
    (fused): Conv1D(), 544 params
  ), 820 params
), 2,420 params
=======================================================================
Total params: 9,999,999
"""

KERAS2 = """\
Model: "model"
__________________________________________________________________________________________________
 Layer (type)                   Output Shape         Param #     Connected to
==================================================================================================
 input_1 (InputLayer)           [(None, 32, 32, 3)]  0           []

 conv_with_a_long_name (Conv2D  (None, 32, 32, 16)   448         ['input_1[0][0]']
 )

 add (Add)                      (None, 32, 32, 16)   0           ['conv_with_a_long_name[0][0]',
                                                                  'input_1[0][0]']

 dense (Dense)                  (None, 10)           163850      ['add[0][0]']

==================================================================================================
Total params: 164,298
Trainable params: 164,298
Non-trainable params: 0
__________________________________________________________________________________________________
"""

KERAS3 = """\
Model: "sequential"
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┓
┃ Layer (type)                    ┃ Output Shape           ┃       Param # ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━┩
│ conv2d (Conv2D)                 │ (None, 26, 26, 32)     │           320 │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ max_pooling2d_with_a_long_name  │ (None, 13, 13,         │             0 │
│ (MaxPooling2D)                  │ 32)                    │               │
├─────────────────────────────────┼────────────────────────┼───────────────┤
│ dense (Dense)                   │ (None, 10)             │        54,090 │
└─────────────────────────────────┴────────────────────────┴───────────────┘
 Total params: 54,410 (212.54 KB)
 Trainable params: 54,410 (212.54 KB)
 Non-trainable params: 0 (0.00 B)
"""

ALL = {
    "torchsummary": TORCHSUMMARY,
    "torchinfo": TORCHINFO,
    "print": PRINT,
    "counted": COUNTED,
    "keras2": KERAS2,
    "keras3": KERAS3,
}


def flat(summary: ModelSummary) -> list[Layer]:
    found: list[Layer] = []
    stack = [summary.root]
    while stack:
        layer = stack.pop()
        found.append(layer)
        stack.extend(reversed(layer.children))
    return found


def leaf(summary: ModelSummary, type_: str) -> Layer:
    return next(layer for layer in flat(summary) if layer.type == type_)


# What torchsummary does not count of the attention in its table: it calls no layer for its projections.
UNSEEN = 4 * 16 * 17


def test_torchsummary_rows_become_layers_in_order() -> None:
    summary = parse_summary(TORCHSUMMARY)
    assert summary.format == "torchsummary"
    assert summary.batch_size is None
    assert summary.total_params == 164_298 + UNSEEN
    assert summary.pass_mb == 0.25
    assert [layer.type for layer in summary.root.children] == ["Conv2d", "ReLU", "MultiheadAttention", "Linear"]
    assert [layer.output_shape for layer in summary.root.children] == [(16, 32, 32), (16, 32, 32), (10, 16), (10,)]
    assert summary.root.children[3].params == 163_850


def test_torchsummary_takes_the_printed_batch_out_of_the_shapes() -> None:
    summary = parse_summary(TORCHSUMMARY.replace("-1,", "64,"))
    assert summary.batch_size == 64
    assert summary.root.children[0].output_shape == (16, 32, 32)


def test_torchsummary_rows_that_begin_with_something_else_than_the_batch() -> None:
    """Two rows of the second layer are one sample's; those of the third have no batch."""
    text = torchsummary_of("Conv2d-1 [8, 4, 6, 6] 112", "Linear-2 [16, 5] 365", "Linear-3 [5, 8] 30", "ReLU-4 [8, 5] 0")
    shapes = [layer.output_shape for layer in parse_summary(text).root.children]
    assert shapes == [(4, 6, 6), (2, 5), (5,), (5,)]


def test_torchsummary_row_wrapped_by_a_terminal() -> None:
    wrapped = TORCHSUMMARY.replace("[-1, 16, 32, 32]             448", "[-1, 16,\n32, 32]\n      448")
    assert parse_summary(wrapped).root == parse_summary(TORCHSUMMARY).root


def test_torchsummary_without_totals_adds_up() -> None:
    summary = parse_summary(TORCHSUMMARY.partition("=\nTotal")[0])
    assert summary.total_params == 164_298 + UNSEEN
    assert summary.pass_mb is None


def test_torchsummary_total_that_differs_is_taken_and_said() -> None:
    summary = parse_summary(TORCHSUMMARY.replace("Total params: 164,298", "Total params: 164,300"))
    assert summary.total_params == 164_300 + UNSEEN
    assert any("164,298" in reason for reason in summary.inferred)


def test_torchsummary_adds_the_projections_that_it_never_sees() -> None:
    table = TORCHSUMMARY.replace(
        "MultiheadAttention-3    [[-1, 10, 16], [-1, 10, 10]]", "ShiftedWindowAttention-3 [-1, 8, 8, 16]"
    )
    assert parse_summary(table).total_params == 164_298 + UNSEEN


def torchsummary_of(*rows: str) -> str:
    return "Layer (type)               Output Shape         Param #\n=====\n" + "\n".join(rows) + "\n=====\n"


@pytest.mark.parametrize(("packed", "more"), [(False, 3 * 64 * 64), (True, 0)])
def test_torchsummary_adds_queries_keys_and_values_that_are_made_by_a_function(packed: bool, more: int) -> None:
    rows = ["LayerNorm-1 [-1, 50, 64] 128", "Linear-2 [-1, 50, 192] 12,480"] if packed else []
    rows += ["Linear-3 [-1, 50, 64] 4,160", "Attention-4 [-1, 50, 64] 0", "Linear-5 [-1, 50, 64] 4,160"]
    rows += ["Mlp-6 [-1, 50, 64] 0", "Linear-7 [-1, 50, 64] 4,160", "XCA-8 [-1, 50, 64] 0"]
    shown = sum(int(row.rpartition(" ")[2].replace(",", "")) for row in rows)
    numbered = [re.sub(r"-\d+", f"-{at}", row, count=1) for at, row in enumerate(rows, 1)]
    assert parse_summary(torchsummary_of(*numbered)).total_params == shown + more


def test_torchsummary_counts_the_layers_of_a_loop_once() -> None:
    step = ["Linear [-1, 8] 72", "GRUCell [-1, 8] 432", "Linear [-1, 100] 900"]
    rows = ["Embedding [-1, 5, 8] 800", *step * 9]
    text = torchsummary_of(*(row.replace(" ", f"-{at} ", 1) for at, row in enumerate(rows, 1)))
    assert parse_summary(text).total_params == 800 + 72 + 432 + 900


def test_torchsummary_keeps_cells_that_are_no_loop() -> None:
    rows = ["GRUCell-1 [-1, 8] 432", "Linear-2 [-1, 8] 72", "GRUCell-3 [-1, 8] 432", "GRUCell-4 [-1, 8] 432"]
    assert parse_summary(torchsummary_of(*rows)).total_params == 3 * 432 + 72


def test_torchinfo_tree_recursive_frozen_and_hidden_children() -> None:
    summary = parse_summary(TORCHINFO)
    root = summary.root
    assert (summary.format, summary.batch_size, summary.total_params) == ("torchinfo", 8, 3_066)
    assert (summary.frozen_params, summary.pass_mb) == (32, 0.52)
    assert (root.type, root.params, root.output_shape) == ("TinyNet", 64, (10,))
    assert [child.type for child in root.children] == ["Sequential", "Sequential", "Linear", "Linear"]
    assert [child.type for child in root.children[0].children] == ["Conv2d", "BatchNorm2d"]
    assert root.children[0].children[1].params == 32
    assert FROZEN in root.children[0].children[1].args
    assert (root.children[1].params, root.children[1].children) == (2_352, ())
    assert (root.children[3].params, root.children[3].args) == (0, (("recursive", "True"),))
    assert summary.inferred == ()


ALL_COLUMNS = """\
=======================================================================================================
Layer (type (var_name):depth-idx)  Kernel Shape Groups Input Shape Output Shape Param # Param % Mult-Adds Trainable
=======================================================================================================
Net (Net)                     --      --  [7, 1, 28, 28]  [7, 10]          --           --  --         True
+ Conv2d (conv1): 1-1         [5, 5]  1   [7, 1, 28, 28]  [7, 10, 24, 24]  260       1.19%  1,048,320  True
+ ModuleDict (branches): 1-2  --      --  --              --               --           --  --         True
|    + Linear (fc): 2-1       --      --  [7, 320]        [7, 50]          16,050   73.49%  112,350    True
=======================================================================================================
Total params: 16,310
"""


def test_torchinfo_all_columns_ascii_and_variable_names() -> None:
    summary = parse_summary(ALL_COLUMNS)
    conv = leaf(summary, "Conv2d")
    assert (conv.name, conv.params, conv.input_shape, conv.output_shape) == ("conv1", 260, (1, 28, 28), (10, 24, 24))
    assert dict(conv.args) == {"kernel": "[5, 5]", "groups": "1"}
    assert summary.root.children[1].children[0].name == "fc"
    assert summary.total_params == 16_310


def test_torchinfo_columns_in_another_order_and_wide_cells() -> None:
    table = """\
============================
Layer (type (var_name))                  Param #    Output Shape
============================
Net (Net)                                --    [2, 1000, 1000, 1000, 1000, 100]
├─Linear (head)                          1,010 [2, 10]
│    └─weight                            1,000
│    └─0.fc.bias                            10
├─Softmax (0)                            -- [2, 10]
============================
"""
    summary = parse_summary(table)
    assert [(child.type, child.name, child.params) for child in summary.root.children] == [
        ("Linear", "head", 1_010),
        ("Softmax", "0", 0),
    ]
    assert summary.root.output_shape == (1000, 1000, 1000, 1000, 100)


def test_torchinfo_parameters_follow_from_mult_adds() -> None:
    table = """\
Layer (type:depth-idx)                   Output Shape              Mult-Adds
==========
Net                                      [4, 10]                   --
├─Conv2d: 1-1                            [4, 8, 16, 16]            229,376
├─ReLU: 1-2                              [4, 8, 16, 16]            --
├─Linear: 1-3                            [4, 10]                   81,960
├─GRU: 1-4                               [4, 35, 650]              710,892,000
==========
Total params: 5,098,514
"""
    summary = parse_summary(table)
    assert [child.params for child in summary.root.children] == [224, 0, 20_490, 5_077_800]
    assert any("no column of parameters" in reason for reason in summary.inferred)
    # Of blocks in lists they tell nothing, of other blocks that are hidden too much.
    for total in ("Total params: 5,700,000", "Total params: 4,600,000", ""):
        with pytest.raises(SummaryError, match=r"line 3: .*no column of this table tells the parameters"):
            parse_summary(table.replace("Total params: 5,098,514", total))


@pytest.mark.parametrize("columns", ["Output Shape", "Input Shape  Output Shape", "Output Shape  Param %"])
def test_a_torchinfo_that_tells_no_parameters_is_no_smaller_model(columns: str) -> None:
    """Its blocks would be read as layers that have none; a table that is cut at its right looks the same."""
    cells = "  ".join(["[2, 8]"] * (columns.count("  ") + 1))
    rows = f"Net  {cells}\n├─Block: 1-1  {cells}\n├─Linear: 1-2  {cells}\n"
    table = f"====\nLayer (type:depth-idx)  {columns}\n====\n{rows}====\nTotal params: 1,000,000\n"
    with pytest.raises(SummaryError, match=r"line 2: .*no column of this table tells the parameters"):
        parse_summary(table)
    known = table.replace(columns, f"{columns}  Mult-Adds").replace(cells, f"{cells}  9,216")
    known = known.replace(f"Net  {cells}  9,216", f"Net  {cells}  --").replace("1,000,000", "9,216")
    assert [layer.params for layer in parse_summary(known).root.children] == [4608, 4608]


@pytest.mark.parametrize("table", [TORCHINFO, ALL_COLUMNS])
@pytest.mark.parametrize("behind", ["\n", ""])
def test_rows_of_torchinfo_behind_a_header_without_a_rule_are_no_header(table: str, behind: str) -> None:
    lines = table.splitlines()
    bare = [line for line in lines if line.strip("=")]
    assert len(bare) < len(lines) - 2
    assert parse_summary("\n".join(bare)) == parse_summary(table)
    header = next(at for at, line in enumerate(lines) if "Layer (type" in line)
    lines[header : header + 2] = [behind.join(lines[header : header + 2])]
    assert parse_summary("\n".join(lines)) == parse_summary(table)


def test_torchinfo_wrapped_at_the_terminal() -> None:
    table = """\
Layer (type:depth-idx)                   Input Shape               Output
Shape              Param #
==========
Net                                      [4, 3]                    [4,
10]                   --
├─Linear: 1-1                            [4, 3]                    [4, 10]
                40
==========
"""
    summary = parse_summary(table)
    assert summary.root.children[0].params == 40
    assert summary.root.output_shape == (10,)


DETECTOR = """\
==========================================================================================
Layer (type:depth-idx)                   Output Shape              Param #
==========================================================================================
Detector                                 {root}          --
├─Conv2d: 1-1                            [8, 16, 32, 32]           448
├─MaxPool2d: 1-2                         [8, 16, 16, 16]           --
├─Conv2d: 1-3                            [8, 32, 16, 16]           4,640
{last}
==========================================================================================
"""


def test_boxes_for_one_sample_are_not_the_batch() -> None:
    for boxes in ("[100, 4]", "[0, 4]", "[2, 4]"):
        last = f"├─RoIHeads: 1-4  {boxes}  --\n├─AnchorGenerator: 1-5  [1024, 4]  --"
        summary = parse_summary(DETECTOR.format(root=boxes, last=last))
        assert summary.batch_size == 8
        assert summary.root.children[0].output_shape == (16, 32, 32)


ANSWERS = (20, 8, 5)


@pytest.mark.parametrize(
    ("rows", "root", "batch"),
    [
        ([], None, None),
        ([(None, 3)], None, None),
        ([((64, 32), 4), ((16, 5), 1)], None, 64),
        ([((8, 30), 2), ((8, 10), 1)], (8, 10), 8),
        ([((8, 30), 2), ((10,), 1)], (10,), 8),
        # Boxes are not one for each sample, unless there are no pictures that they could be in, or as many.
        ([((2, 64, 50, 50), 5), ((300, 256), 2), ((300, 4), 1)], (300, 4), 2),
        ([((1, 64, 50, 50), 5), ((100, 4), 1)], (100, 4), 1),
        ([((4800, 10), 9), ((300, 10), 1), ((300, 4), 1)], (300, 4), 300),
        ([((2, 64, 5, 5), 1), ((98, 64), 9), ((2, 4), 1)], (2, 4), 2),
        # Answers in order of a sequence, which may be a picture's columns, but not an attention's matrix.
        ([((8, 64, 16, 50), 2), ((8, 512, 1, 25), 2), ((25, 8, 512), 2), ((25, 8, 37), 1)], (25, 8, 37), 8),
        ([((8, 64, 25, 25), 1), ((25, 32), 5), ((25, 8, 37), 1)], (25, 8, 37), 25),
        ([((8, 3, 32, 32), 2), ((5, 8, 32, 32), 1)], (5, 8, 32, 32), 8),
        ([((8, 3, 32, 32), 2), ((5, 8, 32, 32), 2)], (5, 8, 32, 32), 5),
        # One sample is no order: what follows are the pictures of a film, or microphones.
        ([((8, 64, 16, 16), 5), ((8, 512), 1), ((1, 8, 512), 1)], (1, 8, 512), 1),
        ([((8, 64, 16, 16), 5), ((8, 64, 1, 1), 1), ((8, 512), 1), ((1, 8, 512), 1)], (1, 8, 512), 1),
        ([((8, 64, 16, 16), 5), ((1, 256), 3), ((1, 8, 4, 32, 32), 1)], (1, 8, 4, 32, 32), 1),
        ([((2, 64, 50, 23), 5), ((46, 50, 64), 9), ((1, 2, 16000), 1)], (1, 2, 16000), 1),
        # Nor are voices, heads or codebooks of one sample a batch.
        ([((1, 9, 50, 23), 8), ((2, 9, 400), 3), ((1, 2, 9, 400), 1), ((2, 1, 9, 400), 1)], (2, 1, 9, 400), 1),
        ([((8, 9, 50, 23), 8), ((16, 9, 400), 3), ((8, 2, 9, 400), 1), ((2, 8, 9, 400), 1)], (2, 8, 9, 400), 8),
        ([((2, 1, 64, 64), 1), ((2, 9, 50, 23), 8)], (2, 1, 64, 64), 2),
        ([((32, 256, 99), 9), ((32, 1, 800), 2), ((2, 32, 1, 800), 1)], (2, 32, 1, 800), 32),
        ([((96, 512), 9), ((3, 96, 32), 1)], (3, 96, 32), 3),
        ([((1, 512, 64), 9), ((4, 512, 100), 1)], (4, 512, 100), 1),
        ([((8, 512, 64), 9), ((32, 512, 100), 1)], (32, 512, 100), 8),
        # Nor is what the model gives out itself a witness of how large pictures are.
        ([((8, 8, 99, 55), 1), ((440, 512), 5), ((55, 8, 64), 1)], (8, 8, 99, 55), 8),
        # Pictures may be several for each sample, where that is no chance.
        ([((32, 3, 8, 8), 5), ((31, 7), 1), ((4, 16), 2), ((4, 10), 1)], (4, 10), 4),
        ([((32, 3, 8, 8), 5), ((31, 7), 1), ((4, 16), 1), ((4, 10), 1)], (4, 10), 32),
        ([((None, 3, 8, 8), 5), ((4, 16), 2), ((4, 10), 1)], (4, 10), None),
        ([((30, 3, 8, 8), 5), ((4, 16), 2), ((4, 10), 1)], (4, 10), 30),
        # As many classes as pieces of pictures, of each sample so many.
        ([((32, 12, 10, 10), 8), ((400, 12, 8, 8), 8), ((4, 801, 76), 1), ((4, 400), 1)], (4, 400), 4),
        # Inside, each sample is several, or one row is of all; what has the batch behind its steps does not count.
        ([((64, 32), 4), ((16, 5), 1)], (16, 5), 16),
        ([((64, 32), 4), ((24, 5), 1)], (24, 5), 64),
        ([((1, 32), 4), ((16, 5), 1)], (16, 5), 16),
        ([((50, 16, 32), 4), ((16, 5), 1)], (16, 5), 16),
        ([((None, 32), 4), ((16, 5), 1)], (16, 5), None),
        # Where its answers are in another order, the first layer tells, if most of the others go with it.
        ([(ANSWERS, 1), ((8, 3, 32), 1), ((64, 32), 5), ((None, 7), 1)], ANSWERS, 8),
        ([((8, 3, 32), 1), ((63, 32), 5), (ANSWERS, 1)], ANSWERS, 63),
        ([((8, 3, 32), 3), ((64, 32), 5), ((20, 9, 8), 1)], (20, 9, 8), 64),
        ([((1, 3, 32), 1), ((64, 32), 5), ((20, 1, 5), 1)], (20, 1, 5), 64),
    ],
)
def test_which_size_is_the_batch(
    rows: list[tuple[RawShape | None, int]], root: RawShape | None, batch: int | None
) -> None:
    assert batch_of(rows, root) == batch


@pytest.mark.parametrize(
    ("shape", "batch", "sample"),
    [
        ((), 8, None),
        ((8, 3), 8, (3,)),
        ((None, 3), 8, (3,)),
        ((8, 3), None, (3,)),
        ((None, None, 3), None, (1, 3)),
        ((16, 7, 5), 8, (2, 7, 5)),  # two for each sample
        ((16, 8, 5), 8, (16, 5)),  # steps first
        ((49, 8, 5), 8, (49, 5)),
        ((20, 16, 5), 8, (20, 2, 5)),
        ((20, 16), 8, (20, 16)),
        ((20, 15, 5), 8, (20, 15, 5)),
        ((20, 16, 5), 1, (20, 16, 5)),
        ((20, 1, 5), 1, (20, 5)),
        ((20, 1), 1, (20, 1)),  # one feature
        ((20, 8), 8, (20,)),
        ((1, 16, 5), 8, (1, 16, 5)),  # a table of positions
        ((1, 8192, 5), 8, (1, 1024, 5)),
        ((0, 3), 8, (0, 3)),
        ((16, 7, 5), 0, (16, 7, 5)),
    ],
)
def test_what_is_left_of_a_shape_without_the_batch(
    shape: RawShape, batch: int | None, sample: tuple[int, ...] | None
) -> None:
    assert per_sample(shape, batch) == sample


def test_answers_of_a_sequence_to_pictures() -> None:
    last = "├─Linear: 1-4  [100, 8, 92]  3,036\n├─Linear: 1-5  [100, 8, 4]  132"
    summary = parse_summary(DETECTOR.format(root="[100, 8, 92]", last=last))
    assert summary.batch_size == 8
    assert [layer.output_shape for layer in summary.root.children][2:] == [(32, 16, 16), (100, 92), (100, 4)]


def test_older_torch_summary_without_a_root_row() -> None:
    table = """\
Layer (type:depth-idx)                   Output Shape              Param #
==========
├─Conv2d: 1-1                            [-1, 10, 24, 24]          260
|    └─ReLU: 2-1                         [-1, 10, 24, 24]          --
├─Linear: 1-2                            [-1, 10]                  510
==========
Total params: 770
"""
    summary = parse_summary(table)
    assert summary.batch_size is None
    assert summary.root.type == "Model"
    assert summary.root.children[0].children[0].output_shape == (10, 24, 24)


def test_window_batches_and_sequence_first_shapes_become_per_sample() -> None:
    table = """\
Layer (type:depth-idx)                   Output Shape              Param #
==========
Swin                                     [4, 10]                   --
├─Attention: 1-1                         [256, 49, 96]             10
├─Encoder: 1-2                           [128, 4, 96]              10
├─Position: 1-3                          [1, 128, 96]              10
==========
"""
    shapes = [child.output_shape for child in parse_summary(table).root.children]
    assert shapes == [(64, 49, 96), (128, 96), (1, 128, 96)]


def test_torchinfo_totals_in_units() -> None:
    table = TORCHINFO.replace("Total params: 3,066", "Total params (K): 3.07").replace(
        "size (MB): 0.52", "size (GB): 0.52"
    )
    summary = parse_summary(table)
    assert summary.total_params == 3_070
    assert summary.pass_mb == pytest.approx(520)


def test_print_without_counts_derives_them_from_the_sizes() -> None:
    summary = parse_summary(PRINT)
    assert summary.format == "module"
    assert summary.total_params == PRINT_TOTAL
    blocks = summary.root.children[2]
    assert len(blocks.children) == 3
    assert blocks.children[0] is blocks.children[2]
    assert dict(leaf(summary, "Conv2d").args)["kernel_size"] == "(3, 3)"
    assert leaf(summary, "MultiheadAttention").params == 3 * 16 * 17
    assert leaf(summary, "BatchNormAct2d").params == 32
    assert leaf(summary, "Parameter").params == 20
    assert any("sizes" in reason for reason in summary.inferred)
    assert any("MultiheadAttention" in reason for reason in summary.inferred)


def test_repeats_equal_the_same_layers_written_out() -> None:
    block = "Block(\n (fc): Linear(in_features=16, out_features=16, bias=True)\n)"
    short = f"Net(\n (b): ModuleList(\n (0-2): 3 x {block}\n )\n)"
    long = "Net(\n (b): ModuleList(\n" + "".join(f"({i}): {block}\n" for i in range(3)) + ")\n)"
    assert parse_summary(short).total_params == parse_summary(long).total_params == 3 * 272


BLOCK = "Block(\n  (fc): Linear(in_features=4, out_features=4, bias=True)\n  (act): ReLU(){}\n)"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lines of prints that are read and are no leaves, of blocks that are known only the first."""
    numbers: list[int] = []
    take = module._Reader.take

    def noted(reader: module._Reader, line: module._Line, number: int, at: int, lines: list[str]) -> int:
        numbers.append(number)
        return take(reader, line, number, at, lines)

    monkeypatch.setattr(module._Reader, "take", noted)
    return numbers


@pytest.mark.parametrize("counts", ["", ", 0 params"])
def test_a_block_with_the_lines_of_the_last_of_its_type_is_that(
    monkeypatch: pytest.MonkeyPatch, taken: list[int], counts: str
) -> None:
    other = BLOCK.replace("ReLU", "GELU")
    blocks = [BLOCK, BLOCK, other, BLOCK, BLOCK, f"3 x {BLOCK}", BLOCK]
    row = "\n".join(["Sequential(", *[f"({number}): {block}" for number, block in enumerate(blocks)], ")"])
    text = f"Net(\n(a): {row}\n(b): {row}\n)".replace("{}", counts)
    read = parse_summary(text)
    # Of the 34 these: all that open, but in the second row; the ends of the first block, the other, the one behind it,
    # the first row, the model.
    assert len(taken) == 10 + 5
    assert [layer.name for layer in read.root.children[1].children] == ["0", "1", "2", "3", "4", *["5"] * 3, "6"]
    monkeypatch.setattr(module, "_MOST_COMPARED", 0)
    assert parse_summary(text) == read
    assert len(taken) == 15 + 34


def test_long_blocks_are_compared_with_none(taken: list[int]) -> None:
    long = BLOCK.format("") + "\n" * module._MOST_COMPARED
    parse_summary("\n".join(["Net(", *[f"({name}): Own(\n(b): {long}\n)" for name in "ac"], ")"]))
    assert len(taken) == 2 + 4 + 4 - 1  # what is in them is


def test_what_tells_its_size_by_its_place_is_read_anew() -> None:
    block = "): Block(\n(mlp): Mlp(\n(c_fc): Conv1D()\n)\n)"
    text = f"Net(\n(a): LayerNorm((8,))\n(c{block}\n(b): LayerNorm((16,))\n(d{block}\n)"
    assert [layer.params for layer in walk.layers(parse_summary(text).root) if layer.type == "Conv1D"] == [288, 1_088]


def test_rows_are_alike_whatever_blanks_fill_up_their_index() -> None:
    blocks = parse_summary(transformer(100)).root.children  # as torchinfo does, so that all columns begin where they do
    whole = [block for block in blocks if len(block.children) == len(blocks[0].children)]
    assert len(whole) == 12
    assert len({id(block) for block in whole}) == 1


def test_print_with_counts_gives_containers_their_own_parameters() -> None:
    summary = parse_summary(COUNTED)
    assert summary.total_params == 2_420
    assert leaf(summary, "Block").params == 4
    assert leaf(summary, "Conv1D").params == 544
    assert summary.inferred == ()


@pytest.mark.parametrize("width", [40, 61])
@pytest.mark.parametrize(
    "text",
    [
        PRINT.replace("    16, eps", "    1, eps").replace(
            "(norm): BatchNormAct2d(\n    1, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True\n",
            "(norm): Act(\n",
        ),
        COUNTED,
    ],
    ids=["print", "counted"],
)
def test_print_wrapped_anywhere_reads_the_same(text: str, width: int) -> None:
    wrapped = "\n".join(
        line[start : start + width] for line in text.splitlines() for start in range(0, max(len(line), 1), width)
    )
    assert wrapped != text
    assert parse_summary(wrapped) == parse_summary(text)


@pytest.mark.parametrize("width", [*range(39, 56), *range(57, 65)])
def test_print_with_counts_wrapped_anywhere_reads_the_same(width: int) -> None:
    layer = "  (fc): Linear(in_features=2, out_features=3, bias=True), 9 params"
    text = f"Net(\n{layer[:width]}\n{layer[width:]}\n), 9 params\n"
    assert parse_summary(text) == parse_summary(f"Net(\n{layer}\n), 9 params\n")


@pytest.mark.parametrize("place", [-8, -10, -14])
def test_a_count_that_is_wrapped_behind_its_comma(place: int) -> None:
    layer = "  (fc): Linear(in_features=2000, out_features=3000), 6,003,000 params"
    text = f"Net(\n{layer}\n)\n"
    assert parse_summary(text.replace(layer, f"{layer[:place]}\n{layer[place:]}")) == parse_summary(text)


@pytest.mark.parametrize("label", ["Total params", "Total parameters", "Total number of parameters"])
def test_print_stated_total_behind_an_uncounted_print_is_taken(label: str) -> None:
    summary = parse_summary(
        f"Net(\n  (fc): Linear(in_features=2, out_features=2, bias=True)\n  (own): Secret()\n)\n{label}: 106\n"
    )
    assert summary.total_params == 106
    assert any("stated total" in reason for reason in summary.inferred)


def test_print_of_a_norm_with_an_activation_inside() -> None:
    text = """Net(
  (norm1): LayerNormAct2d(
    (32,), eps=1e-06, elementwise_affine=True
    (drop): Identity()
    (act): GELU()
  )
  (conv2): Conv2d(32, 64, kernel_size=(3, 3), stride=(1, 1))
)
"""
    summary = parse_summary(text)
    assert summary.total_params == 2 * 32 + 32 * 64 * 9 + 64
    assert [layer.type for layer in summary.root.children] == ["LayerNormAct2d", "Conv2d"]


def test_print_of_a_name_that_begins_small_with_a_configuration_inside() -> None:
    text = """Traceback of nothing (
xLSTMForCausalLM(
  (embeddings): Embedding(100, 8), 800 params
  (backend): xLSTMBackend(xLSTMConfig {
    "chunk_size": 64,
    "mode": "train"
  }
  ), 0 params
  (head): Linear(in_features=8, out_features=100, bias=False), 800 params
), 1,600 params
"""
    summary = parse_summary(text)
    assert [layer.type for layer in summary.root.children] == ["Embedding", "xLSTMBackend", "Linear"]
    assert summary.total_params == 1600


EXPERTS = """OlmoeForCausalLM(
  (embed_tokens): Embedding(100, 8)
  (mlp): OlmoeSparseMoeBlock(
    (experts): OlmoeExperts(
      (act_fn): SiLU()
    )
  )
)
"""


@pytest.mark.parametrize("experts", ["", "ParallelExperts()"])
def test_print_that_does_not_show_its_experts_is_an_error_with_a_cure(experts: str) -> None:
    text = re.sub(r"OlmoeExperts\(.*?\n    \)", experts, EXPERTS, flags=re.DOTALL) if experts else EXPERTS
    with pytest.raises(SummaryError, match=r"Experts.*torchinfo"):
        parse_summary(text)
    assert parse_summary(f"{text}\nTotal params: 5,000\n").total_params == 5_000


def test_print_of_experts_with_sizes() -> None:
    text = EXPERTS.replace("(act_fn): SiLU()", "(up): Linear(in_features=8, out_features=16, bias=False)")
    assert parse_summary(text).total_params == 800 + 128
    counted = EXPERTS.replace("    )\n  )\n)", "    ), 512 params\n  ), 512 params\n), 1,312 params")
    assert parse_summary(counted).total_params == 1_312


@pytest.mark.parametrize(
    ("first", "last", "total"),
    [
        ("EqConv()", "Linear(in_features=8, out_features=1)", ""),
        ("EqConv2d()", "Linear(8, 1)", 5000),
        ("Own()", "", 50),
    ],
)
def test_print_that_does_not_show_the_sizes_of_the_users_own_layers_is_refused(
    first: str, last: str, total: str
) -> None:
    text = f"Net(\n  (a): {first}\n  (b): {last or first}\n)\n" + (f"Total params: {total}\n" if total else "")
    with pytest.raises(SummaryError, match=r"does not show how large .* are: give what torchinfo"):
        parse_summary(text)
    counted = text.partition("Total")[0].rstrip().replace("()", "(), 5 params") + ", 19 params\n"
    assert parse_summary(counted).total_params == 19


def test_old_projections_without_sizes_before_the_first_norm_take_the_embeddings_width() -> None:
    text = """OpenAIGPTModel(
  (tokens_embed): Embedding(100, 8)
  (h): ModuleList(
    (0-1): 2 x Block(
      (attn): Attention(
        (c_attn): Conv1D()
        (c_proj): Conv1D()
      )
      (ln_1): LayerNorm((8,), eps=1e-05, elementwise_affine=True)
    )
  )
)
"""
    assert parse_summary(text).total_params == 800 + 2 * (8 * 24 + 24 + 8 * 8 + 8 + 16)


def test_single_layer_print() -> None:
    layer = "Linear(in_features=10, out_features=5, bias=True)"
    assert parse_summary(layer).total_params == 55
    assert parse_summary(f"using cuda\n{layer}, 55 params\n").total_params == 55  # of `radctl summarize`
    assert parse_summary(">>> print(net)\nLSTM(10, 20)\n").total_params == 2_560
    assert parse_summary("LSTM(10, 20), 2,560 params").total_params == 2_560
    for text in ("GCN(128, 40, num_layers=3), 109,096 params", "net = [\n  LSTM(10, 20)\n]", "Shape(10, 20)"):
        with pytest.raises(SummaryError, match="no model summary starts here"):
            parse_summary(text)  # nothing of what is inside, code, and something else


@pytest.mark.parametrize(
    ("layer", "params"),
    [
        ("Conv2d(8, 16, kernel_size=(3, 3), groups=4)", 16 * 2 * 9 + 16),
        ("ConvTranspose2d(8, 16, kernel_size=(2, 2), stride=(2, 2), bias=False)", 8 * 16 * 4),
        ("LayerNorm((768,), eps=1e-05, elementwise_affine=True)", 1536),
        ("LayerNorm((768,), eps=1e-05, elementwise_affine=False)", 0),
        ("LlamaRMSNorm((4096,), eps=1e-06)", 4096),
        ("GroupNorm(32, 256, eps=1e-05, affine=True)", 512),
        ("InstanceNorm2d(64, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False)", 0),
        ("BatchNorm2d(64, eps=1e-05, affine=False)", 0),
        ("LSTM(10, 20, num_layers=2, batch_first=True, bidirectional=True)", 2 * 2_560 + 2 * 4_960),
        ("GRU(10, 20)", 3 * 20 * 30 + 120),
        ("PReLU(num_parameters=4)", 4),
        ("EmbeddingBag(50, 4, mode='sum')", 200),
        ("ParameterList(  (0): Parameter containing: [torch.float32 of size 4x5])", 20),
        ("ParameterDict(  (depth): Parameter containing: [torch.FloatTensor of size ])", 1),
        ("Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)", 28),
        ("FrozenBatchNorm2d(64, eps=1e-05)", 0),
        ("Unknown(3, 4, x=5)", 0),
    ],
)
def test_sizes_of_layers(layer: str, params: int) -> None:
    assert parse_summary(f"Net(\n  (x): {layer}\n  (y): PReLU(num_parameters=1)\n)").total_params == params + 1


@pytest.mark.parametrize("name", ["torchsummary", "torchinfo", "keras2", "keras3"])
@pytest.mark.parametrize("total", ["0.16", "5", "305"])
def test_a_total_that_is_not_the_rows_own_is_not_taken(name: str, total: str) -> None:
    """As one in millions, or cut off at its comma: the weights of the model would count as none."""
    text = re.sub("Total params: .*", f"Total params: {total}", ALL[name])
    with pytest.raises(SummaryError, match=r"the rows add up to [\d,]+ parameters, and \d+ are stated"):
        parse_summary(text)


@pytest.mark.parametrize("name", ["torchsummary", "torchinfo", "keras2", "keras3"])
def test_a_total_that_lost_its_first_digits_is_not_taken(name: str) -> None:
    """Its end is that of what the rows add up to: half of the weights, or all but a tenth of them, would be missing."""
    whole = parse_summary(ALL[name]).total_params
    text = re.sub("Total params: .*", f"Total params: {whole % 10 ** (len(str(whole)) - 1):,}", ALL[name])
    with pytest.raises(SummaryError, match=r"line \d+: '.?Total params: [\d,]+.*': the rows add up to [\d,]+ "):
        parse_summary(text)


@pytest.mark.parametrize("total", ["3,06", "3,0666", ",066", "30,66", "3,066,"])
def test_a_total_whose_commas_are_not_at_its_thousands_lost_a_digit(total: str) -> None:
    assert parse_summary(TORCHINFO.replace("Total params: 3,066", f"Total params: {total}")).total_params == 3_066
    assert parse_summary(TORCHINFO.replace("params: 3,066", f"params (K): {total}")).total_params == 3_066
    with pytest.raises(SummaryError, match="is not a number of parameters"):
        parse_summary(TORCHINFO.replace("2,352", total))


def test_a_total_is_less_than_the_rows_by_what_is_called_again() -> None:
    """Another tool than torchsummary may count a layer once that is called often; not one that no other is like."""
    rows = [("Linear", 4_160)] * 3 + [("Linear", 8_320), ("LayerNorm", 128)]
    body = "".join(f"{type_}-{at}    [-1, 64]    {params:,}\n" for at, (type_, params) in enumerate(rows, 1))
    text = f"Layer (type)    Output Shape    Param #\n=====\n{body}=====\nTotal params: {{:,}}\n"
    assert parse_summary(text.format(20_928)).inferred == ()
    assert parse_summary(text.format(12_608)).total_params == 12_608
    with pytest.raises(SummaryError, match="line 9: 'Total params: 8,448'"):
        parse_summary(text.format(8_448))


def test_a_print_whose_lines_became_one_is_no_smaller_model() -> None:
    lines = PRINT.rstrip().split("\n")
    for at in range(len(lines) - 1):
        joined = "\n".join([*lines[:at], lines[at] + lines[at + 1], *lines[at + 2 :]])
        with suppress(SummaryError):
            assert parse_summary(joined).total_params == PRINT_TOTAL


@pytest.mark.parametrize("name", ["torchsummary", "torchinfo"])
@pytest.mark.parametrize("rule", ["---", "=" * 60, "____\n"])
def test_a_rule_between_rows_ends_no_table(name: str, rule: str) -> None:
    lines = ALL[name].split("\n")
    whole = parse_summary(ALL[name])
    for at in range(4, 4 + len(whole.root.children)):
        summary = parse_summary("\n".join([*lines[:at], rule, *lines[at:]]))
        assert (summary.root, summary.total_params) == (whole.root, whole.total_params)


@pytest.mark.parametrize("name", ["torchsummary", "torchinfo"])
def test_blank_lines_between_rows_are_read_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    first_line = parts.first_line

    def counted(lines: list[str], start: int = 0) -> int:
        looks.append(start)
        return first_line(lines, start)

    monkeypatch.setattr(parts, "first_line", counted)
    whole = parse_summary(ALL[name])
    before = len(looks)
    head, rows = ALL[name].split("\n")[:4], ALL[name].split("\n")[4:]
    assert parse_summary("\n".join([*head, *[""] * 50, *rows])).root == whole.root
    assert len(looks) == 2 * before


@pytest.mark.parametrize("times", ["(0-11): 0 x", "(0-11): 11 x", "(0-11): 13 x", "(3): 0 x"])
@pytest.mark.parametrize(
    "layer", ["Linear(in_features=8, out_features=8)", "Block(\n(fc): Linear(in_features=8, out_features=8)\n)"]
)
def test_a_layer_of_a_print_that_comes_more_or_less_often_than_it_has_places_is_refused(times: str, layer: str) -> None:
    text = f"Net(\n  (head): Linear(in_features=8, out_features=2)\n  {{}} {layer}\n)\n"
    assert parse_summary(text.format("(0-11): 12 x")).total_params == 18 + 12 * 72
    with pytest.raises(SummaryError, match=rf"line 3: .*`{times[-4:].strip()}` does not fit its places"):
        parse_summary(text.format(times))


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        ("Linear(in_features=99999999999999999999, out_features=5, bias=True)", "sizes cannot be read"),
        ("Linear(in_features=4,096, out_features=4,096, bias=True)", "sizes cannot be read"),
        ("Embedding(1000000000000, 1000000000)", "sizes cannot be read"),
        ("Conv2d(3, 8, kernel_size=(x, 3))", "sizes cannot be read"),
        ("LSTM(8, hidden, num_layers=2)", "sizes cannot be read"),
        ("LazyLinear(in_features=0, out_features=4096, bias=True)", "has no sizes yet"),
        ("LazyConv2d(0, 64, kernel_size=(3, 3), stride=(1, 1))", "has no sizes yet"),
    ],
)
def test_a_layer_whose_size_is_not_told_is_not_left_out(layer: str, why: str) -> None:
    text = "Net(\n  (x): {}\n  (y): PReLU(num_parameters=1)\n)"
    with pytest.raises(SummaryError, match=f"summary line 2: .*{why}"):
        parse_summary(text.format(layer))
    assert parse_summary(text.format(f"{layer}, 9 params")).total_params == 10


def test_a_layer_of_ones_own_that_is_called_lazy_has_its_sizes() -> None:
    assert parse_summary("Net(\n  (x): LazyCache()\n  (y): PReLU(num_parameters=1)\n)").total_params == 1


def test_keras_2_with_wrapped_cells_and_connections() -> None:
    summary = parse_summary(KERAS2)
    assert (summary.format, summary.total_params) == ("keras", 164_298)
    assert [(layer.type, layer.params) for layer in summary.root.children] == [
        ("InputLayer", 0),
        ("Conv2D", 448),
        ("Add", 0),
        ("Dense", 163_850),
    ]
    assert summary.root.children[1].output_shape == (16, 32, 32)


def test_keras_3_with_wrapped_cells() -> None:
    summary = parse_summary(KERAS3)
    assert summary.total_params == 54_410
    assert [layer.type for layer in summary.root.children] == ["Conv2D", "MaxPooling2D", "Dense"]
    assert summary.root.children[1].output_shape == (32, 13, 13)


def _keras(*rows: tuple[str, str, int]) -> str:
    lines = [f"{f'x{at} ({type_})':31}{shape:27}{params}" for at, (type_, shape, params) in enumerate(rows)]
    rule = "=" * 70
    total = sum(params for _, _, params in rows)
    head = [f"{'Layer (type)':31}{'Output Shape':27}Param #", rule]
    return "\n".join([*head, *lines, rule, f"Total params: {total:,}"])


def test_a_picture_of_keras_has_its_channels_in_front_as_pytorch_has_them() -> None:
    last = _keras(("Conv2D", "(None, 30, 30, 16)", 448), ("BatchNormalization", "(None, 30, 30, 16)", 64))
    first = _keras(("Conv2D", "(None, 16, 30, 30)", 448), ("BatchNormalization", "(None, 16, 30, 30)", 64))
    for text in (last, first):
        assert {layer.output_shape for layer in parse_summary(text).root.children} == {(16, 30, 30)}
    words = _keras(("Embedding", "(None, 128, 64)", 6400), ("LSTM", "(None, 128, 32)", 12416))
    assert [layer.output_shape for layer in parse_summary(words).root.children] == [(128, 64), (128, 32)]


@pytest.mark.parametrize(
    ("params", "parts"),
    [
        (64 * 9 + 64 * 128, [("DepthwiseConv2D", 576, 64), ("Conv2D", 8192, 128)]),
        (64 * 25 + 64 * 128 + 128, [("DepthwiseConv2D", 1600, 64), ("Conv2D", 8320, 128)]),
        (131, [("SeparableConv2D", 131, 128)]),
    ],
)
def test_a_separable_convolution_of_keras_is_two(params: int, parts: list[tuple[str, int, int]]) -> None:
    summary = parse_summary(_keras(("SeparableConv2D", "(None, 14, 14, 128)", params)))
    assert [(layer.type, layer.params) for layer in summary.root.children] == [part[:2] for part in parts]
    assert [layer.output_shape for layer in summary.root.children] == [(part[2], 14, 14) for part in parts]
    assert summary.total_params == params


def test_keras_optimizer_state_is_no_parameter_of_the_model() -> None:
    table = KERAS3.replace("Total params: 54,410", "Total params: 163,232") + " Optimizer params: 108,822 (425 KB)\n"
    assert parse_summary(table).total_params == 54_410


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: "\x1b[1m" + text.replace("\n", "\x1b[0m\n\x1b[38;5;34m"),
        lambda text: "\x1b]0;title\a" + text,
        lambda text: text.replace("  ", "\u00a0\u00a0"),
        lambda text: text.replace("(", "(\0"),
        lambda text: (
            "INFO starting\n>>> model\n" + text + "\n\nepoch 1 loss 0.3 (fast)\nactivations per sample: 5,768\n"
        ),
        lambda text: "\n".join("        " + line for line in text.splitlines()),
    ],
    ids=["crlf", "bom", "ansi", "osc", "nbsp", "nul", "around", "indented"],
)
def test_what_surrounds_a_summary_changes_nothing(text: str, change: object) -> None:
    assert callable(change)
    assert parse_summary(change(text)) == parse_summary(text)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        ("hello\nworld\n", "'hello'"),
        (TORCHSUMMARY.replace("[-1, 16, 32, 32]             448", "[-1, sixteen]   448"), "'[-1, sixteen]'"),
        (TORCHSUMMARY.replace("448", "many"), "many"),
        (TORCHINFO.replace("448", "44a8"), "'44a8'"),
        (TORCHINFO.replace("[8, 16, 16, 16]           448", "[8, x]           448"), "'[8, x]'"),
        (TORCHINFO.replace("2-1 ", "999-1 "), "999-1"),
        (PRINT.rstrip()[:-1], "Tiny("),
        (PRINT.replace("(act): ReLU(inplace=True)", "(act) ReLU"), "(act) ReLU"),
        (COUNTED.replace("820 params", "lots of params"), "lots of params"),
        (KERAS2.replace("(Dense)", "Dense"), "dense Dense"),
        (KERAS3.replace("54,090", "5x"), "'5x'"),
        (KERAS3.replace("(None, 10)", "(None, ten)"), "'(None, ten)'"),
        ("Layer (type)   Output Shape   Param #\n=====\n=====\n", "Layer (type)"),
        ("Layer (type:depth-idx)   Output Shape   Param #\n=====\n", "Layer (type:depth-idx)"),
        ("Layer (type:depth-idx)   Nothing\n=====\n", "Nothing"),
        ("┃ Layer (type) ┃ Output Shape ┃ Param # ┃\n", "Layer (type)"),
    ],
)
def test_what_cannot_be_understood_is_quoted(text: str, quoted: str) -> None:
    with pytest.raises(SummaryError) as error:
        parse_summary(text)
    assert quoted in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "\0" * 100_000,
        "x" * 50_000_000,
        "Net(" * 500_000,
        "Net(\n" * 200_000,
        ")\n" * 100_000,
        "Net(\n" + "(a): B(\n" * 100_000,
        "Net(\n" + "(a): Linear(in_features=1, out_features=1, bias=True)\n" * 100_000 + ")",
        "Net(\n" + "(0-9999999): 9999999 x ReLU()\n" * 9 + ")",
        "Net(\n" + "(0-999): 1000 x A(\n" * 8 + "(a): ReLU()\n" + ")\n" * 9,
        "Net(\n" + "(a): Linear(" + "(" * 8_000 + "\n)",
        "Net(\n" + ("(a): Linear(" + "(" * 4_000 + "\n") * 500,
        "Net(\n (a): Linear(in_features=" + "9" * 5_000 + ", out_features=1)\n)",
        "Net(\n (a): ReLU(), " + "9" * 5_000 + " params\n)",
        TORCHSUMMARY.splitlines()[1] + "\n" + "Conv2d-1 [-1, 16, 32, 32] 448\n" * 100_000,
        TORCHSUMMARY.splitlines()[1] + "\n" + "Conv2d-1 [-1, 16\n" * 100_000,
        TORCHSUMMARY.splitlines()[1] + "\nConv2d-1 " + "[" * 8_000 + "\n",
        "Layer (type:depth-idx) Output Shape Param #\n==\n" + "├─A: 1-1  [1, 2]  3\n" * 100_000,
        "Layer (type:depth-idx) Output Shape Param #\n==\n" + "│    " * 1_000 + "└─A: 1000-1  [1, 2]  3\n",
        "Layer (type:depth-idx) Output Shape Param #\n==\nA [" + "1, " * 2_000 + "]  3\n",
        "Layer (type:depth-idx) Output Shape Param #\n==\nA (" * 50_000,
        "┃ Layer (type) ┃ Output Shape ┃ Param # ┃\n" + "│ a (A) │ (None, 2) │ 3 │\n" * 100_000,
        "┃ Layer (type) ┃ Output Shape ┃ Param # ┃\n" + "│ a (A) │ (None, 2) │\n" * 100_000,
        "\x1b[" * 1_000_000,
        "\x1b]" * 1_000_000,
        "\t" * 4_000_000,
        "(" * 4_000_000,
        "\n" * 4_000_000 + "a",
    ],
    ids=range(27),
)
def test_hostile_text_ends_soon_with_a_result_or_a_summary_error(text: str) -> None:
    begin = time.perf_counter()
    try:
        summary = parse_summary(text)
    except SummaryError as error:
        assert len(str(error)) < 600
    else:
        assert summary.total_params >= 0
    assert time.perf_counter() - begin < 60.0  # what is not bounded takes minutes


def test_600_layers() -> None:
    # As in real models, shapes and sizes repeat from block to block.
    lines = TORCHSUMMARY.splitlines()
    rows = [f"{f'Conv2d-{i}':>20} {f'[-1, {i // 12}, 16, 16]':>25} {i // 6 * 9:>15,}" for i in range(1, 601)]
    table = "\n".join([*lines[:3], *rows, "=" * 64])
    layers = [f"  ({i}): Linear(in_features={i // 6}, out_features=7, bias=True)" for i in range(600)]
    printed = "\n".join(["Net(", *layers, ")"])
    cells = [f"├─Linear: 1-{i}                    [8, {i // 6}]                   {i // 6}" for i in range(600)]
    info = "\n".join(["Layer (type:depth-idx)    Output Shape     Param #", "=" * 50, "Net   [8, 7]   --", *cells])
    for text in (table, printed, info):
        assert len(parse_summary(text).root.children) == 600


def test_a_pool_that_prints_itself_is_the_same_however_it_is_shown() -> None:
    conv = "  (conv): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))\n"
    itself = "  (pool): SelectAdaptivePool2d(pool_type=avg, flatten=Flatten(start_dim=1, end_dim=-1))\n"
    shown = (
        "  (pool): SelectAdaptivePool2d(\n    (pool): AdaptiveAvgPool2d(output_size=1)\n"
        "    (flatten): Flatten(start_dim=1, end_dim=-1)\n  )\n"
    )
    one, other = (parse_summary(f"Net(\n{conv}{pool})\n").root for pool in (itself, shown))
    assert [(layer.type, layer.children) for layer in one.children] == [
        (layer.type, layer.children) for layer in other.children
    ]
    nothing = parse_summary(f"Net(\n{conv}{shown.replace('AdaptiveAvgPool2d(output_size=1)', 'Identity()')})\n")
    assert len(nothing.root.children[1].children) == 2


NETWORK = "Net(\n  (fc): Linear(in_features=7, out_features=5, bias=True)\n)\n"


@pytest.mark.parametrize(
    "before",
    ["Namespace(lr=0.1, epochs=3)\n", "CrossEntropyLoss()\n", "Compose(\n    ToTensor()\n    Normalize(3)\n)\n"],
)
def test_what_prints_itself_like_a_module_and_has_no_parameters_is_no_model(before: str) -> None:
    assert parse_summary(before + NETWORK) == parse_summary(NETWORK)
    assert parse_summary(before + TORCHINFO).total_params == 3_066
    with pytest.raises(SummaryError, match=r"line 1: .*nothing in this print has parameters"):
        parse_summary(before)


def test_many_prints_without_parameters_are_not_all_read() -> None:
    with pytest.raises(SummaryError, match="nothing in this print has parameters"):
        parse_summary("Net()\n" * 20 + NETWORK)


@pytest.mark.parametrize("wrapper", ["DataParallel", "DistributedDataParallel", "OptimizedModule"])
def test_a_wrapped_model_is_the_model(wrapper: str) -> None:
    body = NETWORK.replace("\n", "\n  ").rstrip(" ")
    assert parse_summary(f"{wrapper}(\n  (module): {body})\n").root == parse_summary(NETWORK).root.but(name="module")


def test_a_loop_may_hold_several_equal_cells() -> None:
    loop = ("GRUCell-# [-1, 16] 1,632", "GRUCell-# [-1, 16] 1,632", "Linear-# [-1, 4] 68")
    rows = ("Embedding-# [-1, 5, 16] 160", *loop * 5)
    body = "\n".join(f"{i}".join(row.split("#")) for i, row in enumerate(rows, 1))
    total = 160 + 5 * (2 * 1632 + 68)
    text = f"Layer (type)   Output Shape   Param #\n======\n{body}\n======\nTotal params: {total:,}\n"
    assert parse_summary(text).total_params == 160 + 2 * 1632 + 68


@pytest.mark.parametrize(("turns", "steps"), [(9, 1), (4, 4), (9, 9)])
def test_a_loop_calls_a_recurrent_layer_for_one_step(turns: int, steps: int) -> None:
    length = 3 if turns == steps > 4 else 1  # of a series, no loop
    loop = (f"Embedding-# [-1, {length}, 8] 800", f"GRU-# [-1, {length}, 16] 0", "Linear-# [-1, 100] 1,700")
    body = "\n".join(f"{i}".join(row.split("#")) for i, row in enumerate(loop * turns, 1))
    text = f"Layer (type)   Output Shape   Param #\n======\n{body}\n======\nTotal params: {turns * 2500:,}\n"
    assert parse_summary(text).total_params == steps * (800 + 3 * 16 * (8 + 16 + 2) + 1700)


def test_a_batch_whose_samples_are_several_is_the_models_own() -> None:
    rows = "".join(f"├─Linear: 1-{i}  [84, 41, 128]  2,176\n" for i in range(1, 4))
    text = f"Layer (type:depth-idx)  Output Shape  Param #\n===\nPatched  [4, 96, 21]  --\n{rows}===\n"
    summary = parse_summary(text)
    assert summary.batch_size == 4
    assert summary.root.children[0].output_shape == (21, 41, 128)


def test_geometric_prints_are_refused_with_what_helps() -> None:
    text = "Sequential(\n  (0) - GCNConv(16, 64): x, edge_index -> x\n  (1) - ReLU(inplace=True): x -> x\n)\n"
    with pytest.raises(
        SummaryError, match=r"line 2: '\(0\) - GCNConv\(16, 64\): x, edge_index -> x': .*torchinfo's table"
    ):
        parse_summary(text)
    with pytest.raises(SummaryError, match=r"torchinfo \(of graph networks with a graph\).*#RAD memory=12G"):
        parse_summary("GraphSAGE(128, 40, num_layers=3)\n")


def test_a_network_as_deep_as_it_is_wide_is_no_loop() -> None:
    rows = [f"Linear-{at} [-1, 100] 10,100" for at in range(1, 101)]
    assert parse_summary(torchsummary_of(*rows)).total_params == 100 * 10_100


def test_rows_that_a_loop_repeats_for_each_place_of_a_series_count_once() -> None:
    def total(turns: int) -> int:
        body = ("Linear", "[-1, 64]", 2_048), ("ReLU", "[-1, 32]", 0)
        rows = [("Linear", "[-1, 100, 64]", 640), *body * turns, ("Linear", "[-1, 10]", 330)]
        lines = [
            f"{f'{type_}-{at}':>20} {shape:>25} {params:>15,}" for at, (type_, shape, params) in enumerate(rows, 1)
        ]
        return parse_summary("        Layer (type)  Output Shape  Param #\n======\n" + "\n".join(lines)).total_params

    assert total(100) == 640 + 2_048 + 330
    assert total(99) == 640 + 99 * 2_048 + 330  # as often as nothing is long: so many layers
    assert total(32) == 640 + 32 * 2_048 + 330


@pytest.mark.parametrize(("column", "cell"), [("", ""), ("Output Shape  ", "--  "), ("Input Shape  ", "--  ")])
def test_a_table_without_sizes_is_refused(column: str, cell: str) -> None:
    rows = f"Net  {cell}--\n├─Conv2d: 1-1  {cell}1,792\n├─Linear: 1-2  {cell}650\n"
    with pytest.raises(SummaryError, match=r"line 1: .*shows no sizes.*give summary\(\) an input_size"):
        parse_summary(f"Layer (type:depth-idx)  {column}Param #\n===\n{rows}===\nTotal params: 2,442\n")


@pytest.mark.parametrize(
    "dots", ["...", "  ...", "…", " ⋮", "[...]", "... (3 more)", "# ... the same again", "  .\n  .\n  ."]
)
@pytest.mark.parametrize(
    ("text", "before"),
    [
        (TORCHSUMMARY, "            Linear-4"),
        (TORCHINFO, "├─Linear: 1-3"),
        (ALL_COLUMNS, "|    + Linear (fc)"),
        (PRINT, "  (norm): BatchNormAct2d("),
        (COUNTED, "  (body): Block("),
        (KERAS2, " dense (Dense)"),
        (KERAS3, "│ dense (Dense)"),
    ],
    ids=["torchsummary", "torchinfo", "all columns", "print", "counted", "keras2", "keras3"],
)
def test_a_summary_of_which_lines_were_left_out_is_refused(text: str, before: str, dots: str) -> None:
    assert text.count(before) == 1
    with pytest.raises(SummaryError) as error:
        parse_summary(text.replace(before, f"{dots}\n{before}"))
    assert "left out" in str(error.value)
    assert repr(dots.splitlines()[0].strip()) in str(error.value)


@pytest.mark.parametrize("layer", ["Sequential(...)", "Conv2d(3, 64, ...)", "Block(…)", "3 x Block(...)"])
def test_a_print_of_which_arguments_were_left_out_is_refused(layer: str) -> None:
    with pytest.raises(SummaryError, match=r"line 2: '\(body\): .*left out"):
        parse_summary(f"Net(\n  (body): {layer}\n  (fc): Linear(in_features=7, out_features=5, bias=True)\n)\n")


def test_dots_in_a_layers_own_settings_are_no_lines_left_out() -> None:
    turned = "  (turn): Rearrange('... (h d) -> ... h d', d=7)\n"
    assert parse_summary(NETWORK.replace("Net(\n", f"Net(\n{turned}")).total_params == 40


def test_a_torchsummary_whose_numbers_show_that_rows_are_missing_is_refused() -> None:
    with pytest.raises(SummaryError, match=r"its last row has the number 4, and there are 3 rows"):
        parse_summary(TORCHSUMMARY.replace(TORCHSUMMARY.splitlines()[4] + "\n", ""))
    with pytest.raises(SummaryError, match=r"its last row has the number 3, and there are 1 rows"):
        parse_summary(torchsummary_of("MultiheadAttention-3 [[-1, 10, 16], [-1, 10, 10]] 0"))
    line = TORCHSUMMARY.splitlines(keepends=True)[4]
    with pytest.raises(SummaryError, match=r"its last row has the number 4, and there are 5 rows: paste .* once"):
        parse_summary(TORCHSUMMARY.replace(line, line * 2))


def test_a_torchsummary_that_lost_its_end_is_refused_whichever_of_its_totals_are_left() -> None:
    short = TORCHSUMMARY.replace(TORCHSUMMARY.splitlines()[6] + "\n", "")
    for kept in ("Total params", "Trainable", "Input size"):
        totals = kept + short.rpartition(kept)[2]
        with pytest.raises(SummaryError, match=r"up to this one add up to 448 parameters, and 1[56]\d,\d{3} are"):
            parse_summary(short.partition("Total")[0] + totals)


def test_rows_of_weights_take_no_layer_with_them() -> None:
    rows = (
        "Embedding: 1-1                [300, 20]     [-1, 100, 20]   6,000\n"
        "GRU: 1-2                      --            [-1, 100, 8]    720\n"
        "  weight_ih_l0                [24, 20]\n"
        "  weight_hh_l0                [24, 8]\n"
        "Linear: 1-3                   [8, 5]        [-1, 100, 5]    45\n"
    )
    text = f"Layer (type:depth-idx)  Kernel Shape  Output Shape  Param #\n====\n{rows}====\nTotal params: 6,765\n"
    summary = parse_summary(text)
    assert [layer.type for layer in summary.root.children] == ["Embedding", "GRU", "Linear"]
    assert summary.inferred == ()


def test_sizes_without_a_unit_are_bytes() -> None:
    summary = parse_summary(TORCHINFO.replace("size (MB): 0.52", "size: 520"))
    assert summary.pass_mb == pytest.approx(0.00052)


@pytest.mark.parametrize("prefix", ["## ", "INFO:root:", "12:00:01 - model - INFO - "])
def test_a_prefix_before_box_characters(prefix: str) -> None:
    assert parse_summary("".join(f"{prefix}{line}\n" for line in KERAS3.splitlines())) == parse_summary(KERAS3)


def test_a_part_of_a_print_is_no_model() -> None:
    part = "(head): Head(\n  (fc): Linear(in_features=7, out_features=5, bias=True)\n)\n"
    for text in (part, f"(0-1): 2 x {part[8:]}"):
        with pytest.raises(SummaryError, match="no model summary starts here"):
            parse_summary(text)


def test_what_a_method_prints_that_was_not_called() -> None:
    text = f"<bound method Module.eval of {NETWORK.rstrip()}>\n"
    assert parse_summary(text).root == parse_summary(NETWORK).root


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_a_notebooks_json_is_read(text: str) -> None:
    lines = ",\n".join(f"      {json.dumps(line)}" for line in text.splitlines(keepends=True))
    notebook = f'  {{\n   "outputs": [\n    {{\n     "text": [\n{lines}\n     ]\n    }}\n   ]\n  }}\n'
    assert parse_summary(notebook) == parse_summary(text)


def test_a_notebooks_html_is_read() -> None:
    lines = [
        line.replace("Layer (type)", '<span style="font-weight: bold">Layer (type)</span>')
        for line in KERAS3.splitlines()
    ]
    cell = [f'<pre style="white-space:pre">{lines[0]}\n', *(f"{line}\n" for line in lines[1:]), "</pre>\n"]
    assert parse_summary(json.dumps(cell, indent=1)) == parse_summary(KERAS3)


def test_a_notebook_that_shows_no_model_is_refused() -> None:
    with pytest.raises(SummaryError, match="no model summary starts here"):
        parse_summary('{\n "source": [\n  "hello\\n",\n  "wor"ld\\n"\n ]\n}\n')


@pytest.mark.parametrize(
    "layer",
    [
        "Linear4bit()",
        "Linear8bitLt(in_features=8.5, out_features=8)",
        "WQLinear_GEMM(in_features=8, out_features=8, bias=True, w_bit=4, group_size=128)",
        "QuantLinear()",
        "DynamicQuantizedLSTM(8, 16, batch_first=True)",
    ],
)
def test_a_print_does_not_show_how_large_quantised_layers_are(layer: str) -> None:
    text = f"Net(\n  (words): Embedding(100, 8)\n  (proj): {layer}\n)\n"
    type_ = layer.partition("(")[0]
    with pytest.raises(SummaryError, match=rf"how large '{type_}' are.*#RAD memory=12G"):
        parse_summary(text)
    assert parse_summary(f"{text}Total params: 5,000\n").total_params == 5_000


KERAS_MOVED = """\
Model: "tiny"
____________________________________________________________________________
 Layer (type)                Output Shape              Param #   Trainable
============================================================================
 turned (Turned)             [(None, 16, 16, 3)]       0         Y

 features (Features)         multiple                  480       Y
|¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯|
| parts (Sequential)        (None, 16, 16, 16)        480       Y          |
||¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯||
|| conv (Conv2D)           (None, 16, 16, 16)        448       Y          ||
||                                                                        ||
|| normalised_by_the_batch (B  (None, 16, 16, 16)    32        Y          ||
|| atchNormalization)                                                     ||
|¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯|
¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯
 dense (Dense)               (None, 10)                40970     Y

============================================================================
Total params: 41,450
"""


def test_inner_models_of_keras_whose_frames_move_the_columns() -> None:
    summary = parse_summary(KERAS_MOVED)
    assert [(layer.type, layer.params) for layer in summary.root.children] == [
        ("Turned", 0),
        ("Features", 0),
        ("Sequential", 0),
        ("Conv2D", 448),
        ("BatchNormalization", 32),
        ("Dense", 40_970),
    ]
    assert leaf(summary, "BatchNormalization").output_shape == (16, 16, 16)
    assert (summary.total_params, summary.inferred) == (41_450, ())


@pytest.mark.parametrize("total", ["Total params: 41,450", "Total params: 124,350\n Optimizer params: 82,900", ""])
def test_inner_models_of_keras_3_are_counted_once(total: str) -> None:
    rows = (
        "parts (Sequential) │ (None, 8, 8, 16) │ 480",
        "   └ conv (Conv2D) │ (None, 8, 8, 16) │ 448",
        "   └ norm (BatchNormalization) │ (None, 8, 8, 16) │ 32",
        "dense (Dense) │ (None, 10) │ 40,970",
    )
    body = "├────┼────┼────┤\n".join(f"│ {row} │\n" for row in rows)
    summary = parse_summary(f"┃ Layer (type) ┃ Output Shape ┃ Param # ┃\n┡━━╇━━╇━━┩\n{body}└──┴──┴──┘\n {total}\n")
    assert [layer.params for layer in summary.root.children] == [0, 448, 32, 40_970]
    assert summary.total_params == 41_450


@pytest.mark.parametrize(
    ("hidden", "cure"),
    [
        ("Functional", "expand_nested=True"),
        ("Sequential", "expand_nested=True"),
        ("TFTinyMainLayer", "Keras opens no such layer"),
        ("TFTinyModel", "Keras opens no such layer"),
        ("TinyBackbone", "expand_nested=True"),
        ("KerasLayer", "Keras opens no such layer"),
    ],
)
def test_a_keras_table_that_hides_most_of_a_model_is_refused(hidden: str, cure: str) -> None:
    shape = "(None, 8, 8, 16)"
    with pytest.raises(SummaryError, match=rf"line 4: '.*{hidden}.*{cure}.*#RAD memory=12G"):
        parse_summary(_keras(("InputLayer", "(None, 8, 8, 3)", 0), (hidden, shape, 900), ("Dense", "(None, 10)", 170)))
    few = _keras(("InputLayer", "(None, 3)", 0), (hidden, "(None, 16)", 100), ("Dense", "(None, 10)", 10_250))
    assert parse_summary(few).total_params == 10_350


@pytest.mark.parametrize("gives", ["(None, 8, 8, 16)", "(None, 16)"])
def test_a_keras_table_that_hides_what_works_on_pictures_is_refused(gives: str) -> None:
    image = ("InputLayer", "(None, 8, 8, 3)", 0)
    head = ("Dense", "(None, 10)", 10_250)  # most weights, and nothing of what is kept
    with pytest.raises(SummaryError, match=r"line 4: '.*Functional.*expand_nested=True"):
        parse_summary(_keras(image, ("Functional", gives, 100), head))
    shown = _keras(image, ("Conv2D", "(None, 8, 8, 16)", 9_000), ("Functional", gives, 100), head)
    assert parse_summary(shown).total_params == 19_350


FILM = ("InputLayer", "(None, 4, 8, 8, 3)", 0)
SERIES = ("InputLayer", "(None, 4, 8)", 0)


@pytest.mark.parametrize(
    ("before", "shape", "params", "line"),
    [
        (FILM, "(None, 4, 16)", 448, 4),  # a model that ends with a pool
        (FILM, "(None, 4, 2, 2, 16)", 2_768, 4),  # two convolutions
        (None, "(None, 4, 16)", 448, 3),
        (None, "(None, 4, 2, 2, 16)", 2_768, 3),
        (SERIES, "(None, 4, 16)", 416, 4),  # two products
    ],
)
def test_a_model_that_keras_calls_for_each_step_is_refused(
    before: tuple[str, str, int] | None, shape: str, params: int, line: int
) -> None:
    rows = (*([before] if before else []), ("TimeDistributed", shape, params), ("Dense", "(None, 16)", 2_112))
    with pytest.raises(SummaryError, match=rf"line {line}: '.*TimeDistributed.*Keras opens no such layer"):
        parse_summary(_keras(*rows))


@pytest.mark.parametrize(
    ("before", "shape", "params"),
    [
        (FILM, "(None, 4, 8, 8, 16)", 448),
        (FILM, "(None, 4, 8, 8, 16)", 432),
        (FILM, "(None, 4, 8, 8, 3)", 12),
        (SERIES, "(None, 4, 16)", 144),
        (SERIES, "(None, 4, 16)", 128),
        (None, "(None, 4, 8, 8, 16)", 160),
        (FILM, "(None, 4, 192)", 0),
    ],
)
def test_a_layer_that_keras_calls_for_each_step_is_read(
    before: tuple[str, str, int] | None, shape: str, params: int
) -> None:
    rows = (*([before] if before else []), ("TimeDistributed", shape, params), ("Dense", "(None, 16)", 2_112))
    assert parse_summary(_keras(*rows)).total_params == params + 2_112


def test_the_projection_of_older_attention_is_counted() -> None:
    text = "MultiheadAttention(\n  (out_proj): _LinearWithBias(in_features=16, out_features=16, bias=True)\n)\n"
    assert parse_summary(text).total_params == 4 * 16 * 17
