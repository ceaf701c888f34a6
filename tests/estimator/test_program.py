"""Programs: which tensors a forward pass makes, and what goes into each step."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from estimator import blocks
from estimator.layer import Layer
from estimator.methods.rad import Rad
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program import Conv, Op, Program, Scores, compile_program
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import ModelSummary, Workload
from estimator.walk import layers
from scripts.demo_data.summaries import bert_base
from slurm_hooks.bench import transformer
from tests.estimator.accounts import INFO, account, table, tree

BRANCHED = table(
    "Conv2d-# [-1, 64, 8, 8] 1,728",
    "Conv2d-# [-1, 256, 8, 8] 16,384",
    "BatchNorm2d-# [-1, 256, 8, 8] 512",
    "Conv2d-# [-1, 128, 8, 8] 8,192",
    "Conv2d-# [-1, 128, 4, 4] 1,152",
    "Conv2d-# [-1, 96, 4, 4] 20,256",
    "Conv2d-# [-1, 8, 4, 4] 2,056",
)


def test_the_inputs_of_convolutions_follow_from_their_weights() -> None:
    _, program, _ = account(BRANCHED)
    convs = [op.conv for op in program.ops if op.conv is not None]
    assert convs[0] == Conv(3, 64, 9, 1, 1, 64, 64)
    assert convs[1] == Conv(64, 256, 1, 1, 1, 64, 64)
    assert convs[2] == Conv(64, 128, 1, 1, 1, 64, 64)  # 256 channels do not divide: it branches off before
    assert convs[3] == Conv(128, 128, 9, 2, 128, 64, 16)  # depthwise
    assert convs[4] == Conv(210, 96, 1, 1, 1, 16, 16)  # 210 channels of nothing seen: joined branches
    assert convs[5] is not None
    assert (convs[5].channels_in, convs[5].channels_out) == (256, 8)


def test_a_gate_keeps_both_factors() -> None:
    text = table(
        "Conv2d-# [-1, 32, 16, 16] 864",
        "SiLU-# [-1, 32, 16, 16] 0",
        "AdaptiveAvgPool2d-# [-1, 32, 1, 1] 0",
        "Conv2d-# [-1, 32, 1, 1] 1,056",
        "Sigmoid-# [-1, 32, 1, 1] 0",
        "SqueezeExcitation-# [-1, 32, 16, 16] 0",
        "Conv2d-# [-1, 16, 16, 16] 512",
    )
    _, program, _ = account(text)
    silu = program.ops[1].y
    assert silu in program.kept
    assert program.ops[-1].x not in (silu, program.ops[4].y)
    assert program.tensors[program.ops[-1].x] == 32 * 256


def test_torchinfo_shows_matrices_and_hides_blocks() -> None:
    _, program, memory = account(INFO)
    attentions = [op for op in program.ops if op.kind is Kind.ATTENTION]
    assert [op.extra for op in attentions] == [3 * 16 * 96, 0]
    assert [op.matrix for op in attentions] == [0, 4 * 16 * 16]
    hidden = [op for op in program.ops if op.kind is Kind.OPAQUE]
    assert program.hidden_params == 120_000
    assert len(hidden) == 2
    visible = sum(program.tensors[op.y] for op in program.ops if op.params and op.kind is not Kind.OPAQUE)
    assert sum(op.extra for op in hidden) == pytest.approx((1e6 / 8 / 2 - visible) * 1.45, rel=0.01)
    without = account(INFO.partition("Forward")[0])[2]
    assert without.kept != memory.kept


def test_a_layer_above_the_depth_of_its_table_hides_nothing() -> None:
    text = tree(
        "Net [2, 16, 96] --",
        "├─Scaled: 1-1 [2, 16, 96] 192",
        "├─Body: 1-2 [2, 16, 96] --",
        "│    └─Stage: 2-1 [2, 16, 96] 50,000",
    )
    _, program, _ = account(text)
    assert [op.kind for op in program.ops] == [Kind.KEEPS_INPUT, Kind.OPAQUE]
    assert program.ops[0].extra == 2 * 16 * 96
    assert program.hidden_params == 50_000


@pytest.mark.parametrize(
    ("shape", "kept"),
    [("[2, 768]", 1.45), ("[2, 512, 1, 1]", 1.45), ("[2, 512, 7, 7]", 1.0)],  # answers of a whole model; pictures
)
def test_what_is_counted_in_hidden_blocks_is_kept_however_small_their_output(shape: str, kept: float) -> None:
    text = (
        "Layer (type:depth-idx)   Output Shape   Param #\n======\nNet   [2, 9]   --\n"
        f"├─Body: 1-1   {shape}   109,482,240\n"
        "======\nForward/backward pass size (MB): 213.14\n"
    )
    (hidden,) = (op for op in account(text)[1].ops if op.kind is Kind.OPAQUE)
    assert hidden.extra == pytest.approx(213.14e6 / 8 / 2 * kept, rel=1e-3)


def test_lists_below_the_depth_that_show_no_numbers_keep_what_is_counted_of_them() -> None:
    block = "├─ResBlock: 1-# [2, 64, 512] --", *["│    └─ModuleList: 2-# -- (recursive)"] * 4
    rows = "Net [2, 64, 512] --", "├─Conv1d: 1-1 [2, 64, 512] 256", *block, *block
    text = tree(*rows) + "Total params: 98,944\nForward/backward pass size (MB): 9.961\n"
    _, program, memory = account(text)
    hidden = [op for op in program.ops if op.kind is Kind.OPAQUE]
    assert len(hidden) == 2  # one in each block
    assert sum(op.extra for op in hidden) == pytest.approx((9.961e6 / 8 / 2 - 64 * 512) * 1.45, rel=0.01)
    assert program.hidden_params == 98_944 - 256
    assert memory.kept > 9.961e6 / 2
    _, beside, _ = account(text.replace("-- (recursive)", "-- 98,688", 1))
    assert [op.params for op in beside.ops if op.kind is Kind.OPAQUE] == [98_688]  # that is what hides something


def test_rms_norms_gelus_dropouts_and_recurrence() -> None:
    base = "Net(\n  (e): Embedding(64, 64)\n  (x): {}\n  (l): Linear(in_features=64, out_features=64, bias=True)\n)\n"

    def kept(layer: str, **workload: Any) -> float:
        return account(base.format(layer), seq_len=8, **workload)[2].kept

    nothing = kept("Identity()")
    tensor = 2 * 8 * 64
    assert kept("Dropout(p=0.0, inplace=False)") == nothing
    assert kept("Dropout(p=0.5, inplace=False)") == nothing + tensor
    assert kept("GELU(approximate='none')") == nothing + 4 * tensor
    assert kept("NewGELUActivation()") == nothing + 16 * tensor
    assert kept("NewGELU()") == nothing + 16 * tensor
    assert kept("LlamaRMSNorm((64,), eps=1e-06)") == nothing + 8 * tensor
    half = kept("Identity()", precision="bf16")
    assert kept("LlamaRMSNorm((64,), eps=1e-06)", precision="bf16") == half + (4 + 2) * tensor
    amp = kept("Identity()", precision="amp")
    assert kept("LayerNorm((64,), eps=1e-06)", precision="amp") == amp + 4 * tensor
    assert kept("QuickGELUActivation()") == nothing + 4 * tensor  # its sigmoid; its output goes on
    assert kept("LSTM(64, 64, num_layers=2)") == nothing + 4 * 12 * tensor


PADS = [("ReflectionPad2d", True), ("ReplicationPad2d", True), ("ZeroPad2d", False)]


@pytest.mark.parametrize(("pad", "keeps"), PADS)
def test_padding_that_copies_places_keeps_what_it_pads(pad: str, keeps: bool) -> None:
    rows = ("Conv2d-# [-1, 8, 16, 16] 224", f"{pad}-# [-1, 8, 18, 18] 0", "Conv2d-# [-1, 4, 16, 16] 292")
    _, program, _ = account(table(*rows))
    first, *_, last = program.ops
    assert program.tensors[last.x] == 8 * 18 * 18
    kept = [op for op in program.ops if op.kind is Kind.AVG_POOL]
    assert [(op.x, op.y) for op in kept] == ([(first.y, last.x)] if keeps else [])


def apart(layer: Layer) -> Layer:
    """The same layer, none of whose parts is an object that stands elsewhere too."""
    return layer.but(children=tuple([apart(child) for child in layer.children]))


def said_of(program: Program) -> tuple[object, ...]:
    steps = [tuple(getattr(op, name) for name in Op.__slots__) for op in program.ops]
    return (*program._replace(ops=[], ends=()), steps, [tuple(end) for end in program.ends])


@pytest.mark.parametrize("text", [bert_base(8), transformer(100)], ids=["print", "torchinfo"])
def test_equal_blocks_are_copied_as_they_would_be_followed(text: str) -> None:
    shaped = with_shapes(parse_summary(text), Workload(2, 64))
    containers = [layer for layer in layers(shaped.root) if layer.children]
    assert len({id(layer) for layer in containers}) < len(containers)
    assert said_of(compile_program(shaped)) == said_of(compile_program(replace(shaped, root=apart(shaped.root))))


def test_blocks_in_a_row_are_copied_wherever_the_row_stands() -> None:
    shape = (16, 64)
    gelu, norm, relu = Layer("GELU", 0, shape), Layer("LayerNorm", 128, shape), Layer("ReLU", 0, (16, 96))
    wide, widest = Layer("Linear", 64 * 96, (16, 96)), Layer("Linear", 64 * 128, (16, 128))
    narrow, narrowest = Layer("Linear", 96 * 64, shape), Layer("Linear", 128 * 64, shape)
    parts = (
        (norm, wide, gelu, narrowest, narrow),
        (narrow, norm, gelu, gelu, gelu),
        (narrow, widest, wide, relu, relu),
    )
    made = [Layer(f"Block{number}", 0, None, part) for number, part in enumerate(parts)]
    for order in product(made, repeat=3):
        rows = tuple([block for block in order for _ in range(4)])
        root = Layer("Net", 0, shape, (norm, *rows, Layer("Stage", 0, None, rows[2:8]), *rows[4:10]))
        summary = ModelSummary("torchinfo", root, 2, 10**6)
        assert said_of(compile_program(summary)) == said_of(compile_program(replace(summary, root=apart(root))))


STACK = """T5Stack(
    (block): ModuleList(
      (0-3): 4 x T5Block(
        (0): T5LayerSelfAttention(
          (SelfAttention): T5Attention(
            (q): Linear(in_features=64, out_features=64, bias=False)
            (k): Linear(in_features=64, out_features=64, bias=False)
            (v): Linear(in_features=64, out_features=64, bias=False)
            (o): Linear(in_features=64, out_features=64, bias=False)
          )
          (layer_norm): T5LayerNorm()
          (dropout): Dropout(p=0.1, inplace=False)
        )
        (1): T5LayerFF(
          (wi): Linear(in_features=64, out_features=256, bias=False)
          (wo): Linear(in_features=256, out_features=64, bias=False)
          (act): ReLU()
        )
      )
    )
  )"""
PAIR = f"""T5ForConditionalGeneration(
  (shared): Embedding(100, 64)
  (encoder): {STACK}
  (decoder): {STACK}
  (lm_head): Linear(in_features=64, out_features=100, bias=False)
)"""


def test_blocks_of_an_encoder_keep_no_keys_for_a_decoder_that_has_the_same() -> None:
    shaped = with_shapes(parse_summary(PAIR), Workload(2, 64))
    encoder, decoder = (part for part in layers(shaped.root) if part.type == "T5Stack")
    assert encoder.children == decoder.children
    followed = said_of(compile_program(replace(shaped, root=apart(shaped.root))))
    assert said_of(compile_program(shaped)) == followed


BEFORE = (
    "├─Conv2d: 1-1 -- [2, 8, 16, 16] {}",
    *["├─ReLU: 1-1 -- [2, 8, 16, 16] --"] * 20,
    "├─Block: 1-1 -- [2, 8, 16, 16] --",
    "│    └─ReLU: 2-1 -- [2, 8, 16, 16] --",
)
HEAD = ("Layer (type:depth-idx)  Input Shape  Output Shape  Param #", "=====", "Own [2, 12, 16, 16] [2, 8, 16, 16] --")


@pytest.mark.parametrize("last", ["Conv2d: 2-1 -- [2, 8, 16, 16] (recursive)", "Conv2d: 2-1 -- [2, 8, 16, 16] 872"])
def test_blocks_that_look_far_back_are_followed_each_time(last: str) -> None:
    # A layer that is called again is as the last of so many channels; one of 872 parameters takes what the model takes.
    rows = [*BEFORE, f"│    └─{last}"]
    text = "\n".join([*HEAD, *rows, *rows, "=====", ""]).format("104", "584")
    shaped = with_shapes(parse_summary(text), Workload(2))
    first, second = [layer for layer in shaped.root.children if layer.children]
    assert first is second
    assert said_of(compile_program(shaped)) == said_of(compile_program(replace(shaped, root=apart(shaped.root))))


def test_dropout_in_vision_transformers_drops_nothing_unless_it_is_said() -> None:
    rows = (
        "Conv2d-# [-1, 64, 4, 4] 49,216",
        "LayerNorm-# [-1, 16, 64] 128",
        "Dropout-# [-1, 16, 64] 0",
        "Attention-# [-1, 16, 64] 0",
    )
    assert Kind.DROPOUT not in [op.kind for op in account(table(*rows))[1].ops]
    assert Kind.DROPOUT in [op.kind for op in account(table(*rows[:3]))[1].ops]
    said = "ViT(\n  (c): Conv2d(3, 64, kernel_size=(4, 4), stride=(4, 4))\n  {}\n  (a): Attention()\n)\n"
    for share, there in (("0.1", True), ("0.0", False)):
        ops = account(said.format(f"(d): Dropout(p={share}, inplace=False)"))[1].ops
        assert (Kind.DROPOUT in [op.kind for op in ops]) is there


def test_an_attention_around_another_is_not_counted_again() -> None:
    inner = "BigBirdSelfAttention(\n{}      )".format(
        "".join(f"        ({n}): Linear(in_features=64, out_features=64, bias=True)\n" for n in "qkv")
    )
    text = f"""Net(
  (e): Embedding(100, 64)
  (layer): Layer(
    (attention): BigBirdAttention(
      (self): {inner}
      (output): Linear(in_features=64, out_features=64, bias=True)
    )
  )
)
"""
    ops = account(text, seq_len=32)[1].ops
    assert sum(op.kind is Kind.ATTENTION for op in ops) == 1
    flat = table(
        "Embedding-# [-1, 8, 64] 6,400",
        "Linear-# [-1, 8, 64] 4,160",
        "Linear-# [-1, 8, 64] 4,160",
        "BertSelfAttention-# [-1, 8, 64] 0",
        "Linear-# [-1, 8, 64] 4,160",
        "BertAttention-# [-1, 8, 64] 0",
    )
    assert sum(op.kind is Kind.ATTENTION for op in account(flat)[1].ops) == 1


def test_models_that_label_pixels_answer_for_each() -> None:
    text = """FCN(
  (backbone): Conv2d(3, 8, kernel_size=(8, 8), stride=(8, 8))
  (classifier): FCNHead(
    (0): Conv2d(8, 21, kernel_size=(1, 1))
  )
)
"""
    program = account(text)[1]
    assert program.classes * program.tokens == 21 * 224 * 224
    assert program.ops[-1].kind is Kind.NEW


def test_gated_halves_keep_the_whole() -> None:
    text = """        Layer (type)               Output Shape         Param #
======
Embedding-1 [-1, 8, 64] 6,400
Linear-2 [-1, 8, 256] 16,640
GELU-3 [-1, 8, 128] 0
Linear-4 [-1, 8, 64] 8,256
======
"""
    program = account(text)[1]
    wide, act, out = program.ops[1:4]
    assert act.x == wide.y
    assert act.y in program.kept
    assert out.x not in (wide.y, act.y)


def test_parts_that_work_together_take_what_came_in() -> None:
    row = "├─{}: 1-{}    [2, 8, 4, 4]    {}\n"
    inner = "│    └─{}: 2-{}    [2, 8, 4, 4]    {}\n"
    text = (
        "Layer (type:depth-idx)    Output Shape    Param #\n=====\nNet    [2, 8, 4, 4]    --\n"
        + row.format("Conv2d", 1, "216")
        + row.format("RepVggBlock", 2, "--")
        + inner.format("Conv2d", 1, "64")
        + inner.format("Conv2d", 2, "576")
        + "=====\n"
    )
    ops = account(text)[1].ops
    assert ops[1].x == ops[2].x == ops[0].y


def test_heads_that_talk_keep_their_matrices() -> None:
    rows = table(
        "Conv2d-# [-1, 64, 4, 4] 49,216",
        "LayerNorm-# [-1, 16, 64] 128",
        "Linear-# [-1, 16, 192] 12,480",
        "Linear-# [-1, 16, 16, 8] 72",
        "Linear-# [-1, 16, 64] 4,160",
        "TalkingHeadAttn-# [-1, 16, 64] 0",
    )
    ops = account(rows)[1].ops
    talking = next(op for op in ops if op.params == 72)
    assert (talking.kind, talking.extra) == (Kind.LINEAR, 16 * 16 * 8)
    assert sum(op.kind is Kind.ATTENTION for op in ops) == 1


def test_a_matrix_of_weights_is_kept_before_and_behind_its_dropout() -> None:
    text = tree(
        "Net [2, 16, 96] --",
        "├─Head: 1-1 [2, 16, 32] --",
        "│    └─Linear: 2-1 [2, 16, 32] 3,072",
        "│    └─Dropout: 2-2 [2, 16, 16] --",
        "├─Linear: 1-2 [2, 16, 96] 3,168",
    )
    with_matrix, without = (account(each)[2].kept for each in (text, text.replace("[2, 16, 16]", "[2, 16, 32]")))
    assert with_matrix - without == 2 * (16 * 16 * (4 + 4 + 1) - 16 * 32)


def test_a_print_shows_by_a_softmax_or_by_heads_that_matrices_are_kept() -> None:
    own = "Net(\n  (e): Embedding(1000, 128)\n  (a): SelfAttention(\n{}  )\n)\n"
    norm, drop = "    (norm): LayerNorm((128,), eps=1e-05, elementwise_affine=True)\n", "Dropout(p=0.1, inplace=False)"
    product = "    (qkv): Linear(in_features=128, out_features=384, bias=False)\n"
    weighed = f"{norm}    (attend): Softmax(dim=-1)\n    (dropout): {drop}\n{product}    (drop): {drop}\n"

    def matrices(parts: str, text: str = own) -> list[tuple[int, Scores]]:
        _, program, _ = account(text.format(parts), seq_len=32)
        return [(op.matrix, op.scores) for op in program.ops if op.kind is Kind.ATTENTION]

    assert matrices(weighed) == [(2 * 32 * 32, Scores.DROPPED)]
    assert matrices(weighed.replace(f"    (dropout): {drop}\n", "")) == [(2 * 32 * 32, Scores.PLAIN)]
    assert matrices(f"{norm}{product}    (drop): {drop}\n") == [(0, Scores.PLAIN)]
    assert matrices(weighed.replace("384", "128")) == [(0, Scores.PLAIN)]  # features are weighed
    each = "".join(
        f"        ({name}): Linear(in_features=128, out_features=32, bias=False)\n"
        for name in ("key", "query", "value")
    )
    heads = f"    (heads): ModuleList(\n      (0-3): 4 x Head(\n{each}        (dropout): {drop}\n      )\n    )\n"
    heads += f"    (proj): Linear(in_features=128, out_features=128, bias=True)\n    (dropout): {drop}\n"
    assert matrices(heads) == [(4 * 32 * 32, Scores.DROPPED)]
    assert matrices(heads.replace(f"        (dropout): {drop}\n", "")) == [(0, Scores.PLAIN)]
    # As wide as what comes in: these may be parts of another block.
    assert matrices(heads.replace("out_features=32", "out_features=128")) == [(0, Scores.PLAIN)]


def test_projections_of_an_attention_may_stand_in_a_list() -> None:
    text = tree(
        "Net [2, 16, 96] --",
        "├─Embedding: 1-1 [2, 16, 96] 96,000",
        "├─SelfAttention: 1-2 [2, 16, 96] --",
        "│    └─ModuleList: 2-1 -- --",
        "│    │    └─Linear: 3-1 [2, 16, 96] 9,312",
        "│    │    └─Linear: 3-2 [2, 16, 96] 9,312",
        "│    │    └─Linear: 3-3 [2, 16, 96] 9,312",
        "│    └─Dropout: 2-2 [2, 4, 16, 16] --",
        "│    └─ModuleList: 2-3 -- --",
        "│    │    └─Linear: 3-4 [2, 16, 96] 9,312",
    )
    _, program, _ = account(text)
    queries, keys, values, attention, last = program.ops[-5:]
    assert {queries.x, keys.x, values.x} == {attention.x}
    assert attention.matrix == 4 * 16 * 16
    assert last.x == attention.y


def test_attention_by_angle_keeps_more() -> None:
    rows = (
        "Conv2d-# [-1, 64, 4, 4] 49,216",
        "Attention-# [-1, 16, 64] 0",
        "Softmax-# [-1, 4, 16, 16] 0",
        "{}-# [-1, 16, 64] 0",
    )
    plain = account(table(*(row.format("Block") for row in rows)))[1].ops
    cosine = account(table(*(row.format("SwinTransformerV2Block") for row in rows)))[1].ops
    more = [op.extra - other.extra for op, other in zip(cosine, plain, strict=True)]
    assert [item for item in more if item] == [2 * 16 * 64, 4 * 16 * 16]


def test_a_scaled_square_of_an_activation_keeps_three_tensors() -> None:
    text = """Net(
  (conv): Conv2d(3, 8, kernel_size=(8, 8), stride=(8, 8))
  (act): StarReLU(
    (relu): ReLU()
  ){}
  (next): Conv2d(8, 8, kernel_size=(1, 1))
)
"""
    program = account(text.format(""))[1]
    size = 8 * 28 * 28
    relu, square = program.ops[1:3]
    assert (relu.kind, square.kind, square.extra) == (Kind.KEEPS_OUTPUT, Kind.KEEPS_OUTPUT, size)
    assert program.ops[3].x == square.y


def test_heads_beside_the_batch_are_no_channels() -> None:
    text = """Layer (type:depth-idx)    Output Shape    Param #
=====
Net    [5, 8, 4, 4]    --
├─Conv2d: 1-1    [5, 8, 4, 4]    216
├─Conv2d: 1-2    [20, 2, 4, 4]    18
=====
"""
    pooled = account(text)[1].ops[1]
    assert (pooled.kind, pooled.conv, pooled.x) == (Kind.CONV, None, 1)


def test_a_block_with_a_norm_inside_is_no_convolution() -> None:
    text = """Layer (type:depth-idx)    Output Shape    Param #
=====
Net    [2, 8, 4, 4]    --
├─Conv2d: 1-1    [2, 8, 4, 4]    216
├─BnActConv2d: 1-2    [2, 8, 4, 4]    592
=====
"""
    program = account(text)[1]
    assert program.ops[1].kind is Kind.OPAQUE
    assert program.hidden_params == 592


def test_tables_show_where_blocks_end() -> None:
    rows = table(
        "Conv2d-# [-1, 16, 32, 32] 448",
        "Block-# [-1, 16, 32, 32] 0",
        "Conv2d-# [-1, 64, 32, 32] 1,088",
        "ReLU-# [-1, 64, 32, 32] 0",
        "Conv2d-# [-1, 16, 32, 32] 1,040",
        "Block-# [-1, 16, 32, 32] 0",
    )
    assert dict(account(rows)[1].skips) == {2: 16 * 1024, 3: 16 * 1024}


@pytest.mark.parametrize(
    ("layer", "depth"),
    [
        ("LSTM(300, 512, num_layers=3)", 3),
        ("LSTM(300, 512)", 1),
        ("GRU(64, 32, num_layers=2, bidirectional=True)", 2),
    ],
)
def test_depth_of_recurrent_networks_is_solved(layer: str, depth: int) -> None:
    gates, inputs, hidden = (4, 300, 512) if "LSTM" in layer else (3, 64, 32)
    ways = 2 if "bidirectional" in layer else 1
    params = ways * gates * hidden * (inputs + hidden + 2)
    params += (depth - 1) * ways * gates * hidden * (ways * hidden + hidden + 2)
    text = (
        "====\nLayer (type:depth-idx)     Input Shape    Output Shape       Param #\n====\n"
        f"Net                        [2, 8, {inputs}]     [2, 8, {ways * hidden}]     --\n"
        f"├─{layer.partition('(')[0]}: 1-1          [2, 8, {inputs}]     [2, 8, {ways * hidden}]   {params:,}\n====\n"
    )
    op = next(op for op in account(text)[1].ops if op.kind is Kind.RECURRENT)
    assert op.extra == 6 * depth * 8 * ways * hidden


@pytest.mark.parametrize(
    ("before", "row", "depth"),
    [
        ("", "GRU: 1-1        [2, 96, 256]      617,472", 2),  # of 32 features: the input is not shown
        ("", "LSTM: 1-1       [2, 100, 512]     2,170,880", 2),  # both ways, of 32 features
        ("├─Conv2d: 1-1     [2, 512, 1, 33]   4,608\n", "LSTM: 1-2    [2, 33, 512]   3,153,920", 2),  # turned
        ("├─Conv2d: 1-1     [2, 512, 1, 33]   4,608\n", "LSTM: 1-2    [2, 33, 512]   1,576,960", 1),
        ("├─Conv2d: 1-1     [2, 5, 7, 33]     90\n", "LSTM: 1-2    [2, 33, 512]   1,576,960", 1),  # from elsewhere
    ],
)
def test_depth_of_recurrent_networks_is_solved_where_their_input_is_not_shown(
    before: str, row: str, depth: int
) -> None:
    head = "====\nLayer (type:depth-idx)     Output Shape       Param #\n====\nNet    [2, 9]     --\n"
    program = account(f"{head}{before}├─{row}\n====\n")[1]
    op = next(op for op in program.ops if op.kind is Kind.RECURRENT)
    assert op.extra == 6 * depth * program.tensors[op.y]
    if not before:
        assert program.tensors[0] == 32 * program.tensors[op.y] // (512 if "LSTM" in row else 256)


def test_projections_to_one_number_are_no_crash(rad: Rad) -> None:
    rows = "".join(f"│    └─Linear: 2-{number}   [2]   110\n" for number in range(1, 5))
    head = "====\nLayer (type:depth-idx)   Output Shape   Param #\n====\nNet  [2, 10]  --\n"
    text = f"{head}├─SelfAttention: 1-1  [2, 10]  --\n{rows}====\n"
    found = rad.predict(parse_summary(text), Workload(2))
    assert 0 < found.expected_mib <= found.upper_mib


def test_one_projection_may_hold_fewer_keys_than_queries() -> None:
    text = """PhiForCausalLM(
  (embed): Embedding(9000, 128)
  (attn): PhiAttention(
    (o_proj): Linear(in_features=128, out_features=128, bias=False)
    (qkv_proj): Linear(in_features=128, out_features=256, bias=False)
  )
  (lm_head): Linear(in_features=128, out_features=9000, bias=False)
)
"""
    attention = next(op for op in account(text, seq_len=32)[1].ops if op.kind is Kind.ATTENTION)
    assert attention.scores is Scores.SHARED_KEYS
    assert attention.matrix == 2 * 32 * 32
    assert attention.extra == 2 * 32 * (128 - 64)
    whole = account(text.replace("out_features=256", "out_features=384"), seq_len=32)[1]
    assert next(op for op in whole.ops if op.kind is Kind.ATTENTION).matrix == 0


def test_films_are_convolved_over_time() -> None:
    text = (
        "====\nLayer (type:depth-idx)      Output Shape       Param #\n====\n"
        "Net                        [2, 5]     --\n"
        "├─Conv3d: 1-1          [2, 64, 16, 56, 56]     28,288\n"
        "├─BatchNorm3d: 1-2          [2, 64, 16, 56, 56]     128\n"
        "├─Conv3d: 1-3          [2, 64, 8, 28, 28]     1,728\n====\n"
    )
    _, program, _ = account(text)
    first, _, alone = program.ops
    assert program.tensors[first.x] == 3 * 16 * 112 * 112
    assert first.conv is not None and first.conv.area == 147
    assert program.tensors[alone.x] == 64 * 16 * 56 * 56
    assert alone.conv is None
    patches = text.replace("64, 16, 56, 56]     28,288", "96, 8, 56, 56]     9,312")
    assert account(patches)[1].tensors[0] == 3 * 16 * 224 * 224


@pytest.mark.parametrize(
    ("types", "keeps", "tokens", "kept"),
    [
        ({"Conv2d", "BatchNorm2d"}, (False, True), False, 1.0),
        ({"Conv2d", "BatchNorm2d"}, (True, False), False, 1.5),
        ({"Conv2d", "BatchNormAct2d"}, (True, True), False, 2.5),
        ({"GPT2Block"}, (False, False), True, 2.8),
        ({"OPTDecoderLayer"}, (False, False), True, 1.15),
        ({"LlamaRMSNorm"}, (False, False), True, 2.3),
        ({"Block"}, (False, False), True, 1.45),
        ({"Conv2dNormActivation", "BatchNorm2d"}, (False, True), False, 1.0),  # its norm and activation are two layers
        ({"TransformerEncoderLayer", "LayerNorm"}, (False, False), True, 2.3),
        ({"VisionTransformer", "EncoderBlock"}, (False, False), True, 2.3),
        ({"VisionTransformer", "Block"}, (False, False), True, 1.45),
        ({"Transformer", "TransformerEncoder", "TransformerDecoder"}, (False, False), True, 2.3),
        ({"Transformer", "TransformerEncoder", "TransformerDecoder", "Conv2d"}, (False, False), True, 1.45),
        ({"SwinTransformerBlock", "SwinTransformer"}, (False, False), True, 2.3),
        ({"SwinTransformerBlock", "SwinTransformerStage"}, (False, False), True, 1.45),
    ],
)
def test_hidden_blocks_keep_by_their_kind(types: set[str], keeps: tuple[bool, bool], tokens: bool, kept: float) -> None:
    assert blocks.kept_inside(types, keeps_input=keeps[0], keeps_output=keeps[1], tokens=tokens) == kept


def test_pools_that_are_functions_are_seen_by_sizes_that_do_not_fit() -> None:
    rows = ("Conv2d-# [-1, 32, 26, 26] 320", "Conv2d-# [-1, 64, 24, 24] 18,496")
    tail = ("Dropout-# [-1, 64, 12, 12] 0", "Linear-# [-1, 128] 1,179,776", "Linear-# [-1, 10] 1,290")
    _, before, _ = account(table(*rows, tail[0], *tail[1:]))
    _, flat, _ = account(table(*rows, *tail[1:]))
    for program in (before, flat):
        pool = next(op for op in program.ops if op.kind is Kind.MAX_POOL)
        assert (program.tensors[pool.x], program.tensors[pool.y]) == (64 * 24 * 24, 64 * 12 * 12)
    assert [op.kind for op in flat.ops] == [Kind.CONV, Kind.CONV, Kind.MAX_POOL, Kind.LINEAR, Kind.LINEAR]


def test_a_kernel_that_no_step_explains_works_behind_a_pool() -> None:
    _, program, _ = account(table("Conv2d-# [-1, 6, 28, 28] 456", "Conv2d-# [-1, 16, 10, 10] 2,416"))
    assert [op.kind for op in program.ops] == [Kind.CONV, Kind.MAX_POOL, Kind.CONV]
    assert program.tensors[program.ops[2].x] == 6 * 14 * 14
    _, shown, _ = account(
        table("Conv2d-# [-1, 6, 28, 28] 456", "ReLU-# [-1, 6, 28, 28] 0", "Conv2d-# [-1, 16, 10, 10] 2,416")
    )
    assert Kind.MAX_POOL not in [op.kind for op in shown.ops]


def test_what_is_pooled_before_the_first_linear_layer_is_pooled_between_convolutions() -> None:
    rows = ("Conv2d-# [-1, 8, 32, 32] 224", "BatchNorm2d-# [-1, 8, 32, 32] 16", "Conv2d-# [-1, 16, 16, 16] 1,168")
    kinds = [Kind.CONV, Kind.BATCH_NORM, Kind.MAX_POOL, Kind.CONV, Kind.MAX_POOL, Kind.LINEAR]
    _, program, _ = account(table(*rows, "Linear-# [-1, 10] 10,250"))
    assert [op.kind for op in program.ops] == kinds
    assert program.tensors[program.ops[3].x] == 8 * 16 * 16
    # As large as it is: the second convolution has steps.
    _, program, _ = account(table(*rows, "Linear-# [-1, 10] 40,970"))
    assert [op.kind for op in program.ops] == [Kind.CONV, Kind.BATCH_NORM, Kind.CONV, Kind.LINEAR]
    # One pixel of each channel is a mean, which says nothing of pooling.
    _, program, _ = account(table(*rows, "Linear-# [-1, 10] 170"))
    assert Kind.MAX_POOL not in [op.kind for op in program.ops]


def test_what_code_joined_in_a_block_is_not_what_the_next_block_takes() -> None:
    rows = ("│    └─Conv2d: 2-1 [2, 12, 32, 32] 3,468", "│    └─Conv2d: 2-2 [2, 12, 32, 32] 4,764")
    block = ("├─Dense: 1-2 [2, 32, 32, 32] --", *rows, "│    └─Conv2d: 2-3 [2, 32, 32, 32] 16,160")
    stem = "├─Conv2d: 1-1 [2, 32, 32, 32] 896"
    _, program, _ = account(tree("Net [2, 32, 32, 32] --", stem, *block, *block, *block))
    convs = [op for op in program.ops if op.kind is Kind.CONV]
    assert [program.shapes[op.x][0] for op in convs] == [3, *(32, 44, 56) * 3]
    assert len({op.x for op in convs}) == len(convs)


def test_a_kernel_of_usual_size_takes_what_is_joined_rather_than_an_unusual_one_what_is_at_hand() -> None:
    rows = ("Conv2d-# [-1, 32, 24, 24] 896", "Conv2d-# [-1, 16, 24, 24] 4,624", "Conv2d-# [-1, 16, 24, 24] 6,928")
    _, program, _ = account(table(*rows, "Conv2d-# [-1, 32, 24, 24] 18,464"))
    assert [program.shapes[op.x][0] for op in program.ops] == [3, 32, 48, 64]
    assert {op.conv.area for op in program.ops if op.conv} == {9}
    # What is there already is not joined once more.
    skip = ("BatchNorm2d-# [-1, 48, 24, 24] 96", "Conv2d-# [-1, 16, 24, 24] 6,928", "Conv2d-# [-1, 16, 24, 24] 6,928")
    _, program, _ = account(table(*rows[:2], *skip))
    assert program.ops[-1].x in (program.ops[2].x, program.ops[2].y)


def test_attention_of_no_known_name_keeps_queries_keys_and_values() -> None:
    block = ("│    └─LayerNorm: 2-1 [2, 64, 96] 192", "│    └─Linear: 2-2 [2, 64, 288] 27,936")
    out = "│    └─Linear: 2-4 [2, 64, 96] 9,312"
    rows = (*block, out.replace("2-4", "2-3"))
    _, program, _ = account(tree("Own [2, 64, 96] --", "├─Mixer: 1-1 [2, 64, 96] --", *rows))
    wide, last = program.ops[1], program.ops[2]
    assert wide.y in program.kept
    assert last.x not in (program.ops[0].y, wide.y)
    assert program.tensors[last.x] == 64 * 96
    dropped = "│    └─Dropout: 2-3 [2, 3, 64, 64] --"
    _, eager, _ = account(tree("Own [2, 64, 96] --", "├─Mixer: 1-1 [2, 64, 96] --", *block, dropped, out))
    scores = next(op for op in eager.ops if op.kind is Kind.DROPOUT)
    assert scores.y in eager.kept
    assert eager.tensors[scores.x] == scores.extra == 3 * 64 * 64
    assert eager.tensors[eager.ops[-1].x] == 64 * 96


def test_a_linear_layer_of_a_table_keeps_what_code_joined_for_it() -> None:
    text = table(
        "Embedding-# [-1, 16] 16,000",
        "Embedding-# [-1, 16] 16,000",
        "Linear-# [-1, 512] 20,992",
        "Linear-# [-1, 63] 32,319",
        "Linear-# [-1, 64] 4,096",
        "Linear-# [-1, 3, 9] 819",
    )
    _, program, _ = account(text)
    taken = [program.tensors[op.x] for op in program.ops if op.kind is Kind.LINEAR]
    assert taken == [40, 512, 63, 64]  # tables and eight numbers; a bias is no more than one; not of other rows


def test_words_are_averaged_before_a_layer_that_gives_out_one_row() -> None:
    rows = ("Embedding-# [-1, 20, 16] 16,000", "Dropout-# [-1, 20, 16] 0")
    for words in (rows, rows[:1]):
        _, program, _ = account(table(*words, "Linear-# [-1, 4] 68"))
        assert program.tensors[program.ops[-1].x] == 16
    _, program, _ = account(table(*rows, "Linear-# [-1, 20, 4] 68"))
    assert program.ops[-1].x == program.ops[-2].y
    _, program, _ = account(table(*rows, "LayerNorm-# [-1, 20, 16] 32", "Linear-# [-1, 4] 68"))
    assert program.ops[-1].x == program.ops[-2].y  # the first of what a layer has made


def test_a_row_of_a_print_is_joined_for_a_wider_layer() -> None:
    text = "".join(f"  ({name}): Embedding(1000, 16)\n" for name in ("user", "item"))
    _, program, _ = account(f"Net(\n{text}  (fc): Linear(in_features=32, out_features=8, bias=True)\n)\n", seq_len=None)
    assert program.tensors[program.ops[-1].x] == 32


@pytest.mark.parametrize(("row", "taken"), [("[-1, 16] 16,400", 1024), ("[-1] 16,400", 16)])
def test_a_picture_that_was_flattened_is_not_made_again_and_what_shows_no_size_takes_nothing(
    row: str, taken: int
) -> None:
    text = table("Conv2d-# [-1, 64, 4, 4] 640", "Linear-# [-1, 16] 16,400", "Linear-# [-1, 16] 272", f"Linear-# {row}")
    _, program, _ = account(text)
    first, *_, last = [op for op in program.ops if op.kind is Kind.LINEAR]
    assert program.tensors[last.x] == taken
    assert (last.x == first.x) is (taken == 1024)


def test_what_widens_and_narrows_again_has_a_function_between() -> None:
    rows = ("├─LayerNorm: 1-1 [2, 64, 96] 192", "├─Linear: 1-2 [2, 64, 384] 37,248", "├─Linear: 1-3 [2, 64, 96] 36,960")
    _, program, _ = account(tree("Own [2, 64, 96] --", *rows))
    assert program.ops[1].y in program.kept
    assert program.ops[2].x != program.ops[1].y
    shown = (*rows[:2], "├─ReLU: 1-4 [2, 64, 384] --", rows[2])
    _, program, _ = account(tree("Own [2, 64, 96] --", *shown))
    assert program.ops[3].x == program.ops[2].y


def test_a_dropout_of_a_matrix_in_a_table_keeps_what_softmax_made_unless_the_attention_is_known() -> None:
    rows = ("Embedding-# [-1, 16, 64] 6,400", "Linear-# [-1, 16, 64] 4,160", "Dropout-# [-1, 2, 16, 16] 0")
    end = "Linear-# [-1, 16, 64] 4,160"
    kept = [account(table(*rows[:at], end))[2].kept for at in (2, 3)]
    assert kept[1] - kept[0] == 2 * 9 * 2 * 16 * 16
    known = [account(table(*rows[:at], end, "BertModel-# [-1, 16, 64] 0"))[2].kept for at in (2, 3)]
    assert known[1] - known[0] == 2 * 2 * 16 * 16


def test_each_sample_may_be_several_pictures() -> None:
    rows = (
        "├─Conv2d: 1-1 [80, 12, 28, 28] 324",
        "├─Conv2d: 1-2 [80, 16, 14, 14] 1,728",
        "├─LSTM: 1-3 [8, 10, 24] 5,568",
    )
    _, program, _ = account(tree("Films [8, 3] --", *rows, "├─Linear: 1-4 [8, 3] 75"), batch_size=8)
    assert program.tensors[0] == 10 * 3 * 28 * 28
    first, second, recurrent, _ = program.ops
    assert second.x == first.y
    assert program.tensors[recurrent.x] == 10 * 32  # pooled in code: as many features as the weights take


def test_a_convolution_that_is_called_again_takes_as_many_channels() -> None:
    rows = ("├─Conv2d: 1-1 [2, 8, 28, 28] 216", "├─Conv2d: 1-2 [2, 8, 28, 28] 576")
    again = "├─Conv2d: 1-2 [2, 8, 28, 28] (recursive)"
    _, program, _ = account(tree("Own [2, 8, 28, 28] --", *rows, again, again))
    assert [op.x for op in program.ops[1:]] == [op.y for op in program.ops[:-1]]


def test_kernels_as_wide_as_words_read_the_embedding() -> None:
    rows = ("├─Embedding: 1-1 [2, 64, 50] 5,000", "├─Conv2d: 1-2 [2, 100, 62, 1] 15,100")
    _, program, _ = account(tree("Words [2, 100] --", *rows))
    assert program.ops[1].x == program.ops[0].y


@pytest.mark.parametrize("conv", ["Conv1d(128, 100, kernel_size=({},)", "Conv2d(1, 100, kernel_size=({}, 128)"])
def test_kernels_of_several_sizes_look_at_the_same_words(conv: str) -> None:
    kernels = "".join(f"    ({i}): {conv.format(3 + i)}, stride=(1,))\n" for i in range(3)).replace("1,))", "1, 1))")
    text = (
        f"Net(\n  (embedding): Embedding(2000, 128)\n  (convs): ModuleList(\n{kernels}  )\n  (drop): Dropout(p=0.5)\n"
        "  (fc): Linear(in_features=300, out_features=2, bias=True)\n)\n"
    )
    _, program, memory = account(text, seq_len=50)
    convs = [op for op in program.ops if op.kind is Kind.CONV]
    assert [program.tensors[op.y] for op in convs] == [100 * 48, 100 * 47, 100 * 46]
    assert {op.x for op in convs} == {1}
    assert memory.kept == 2 * (4 * (50 * 128 + 100 * (48 + 47 + 46) + 300) + 300)
    type_, end = conv[:6], "" if "1d" in conv else ", 1"
    rows = f"│    └─{type_}: 2-1 [2, 100, 48{end}] 38,500", f"│    └─{type_}: 2-2 [2, 100, 47{end}] 51,300"
    before = "Net [2, 2] --", "├─Embedding: 1-1 [2, 50, 128] 256,000", "├─ModuleList: 1-2 -- --"
    flat = account(tree(*before, *rows, "├─Linear: 1-3 [2, 2] 402"))[1]
    branches = {op.y for op in flat.ops if op.kind is Kind.CONV}
    assert len(branches) == 2
    assert branches <= flat.kept


def test_a_layer_of_no_known_type_that_halves_its_features_is_a_gate() -> None:
    rows = ("├─Conv2d: 1-1 [2, 16, 28, 28] 432", "├─Halves: 1-2 [2, 8, 28, 28] --", "├─Conv2d: 1-3 [2, 8, 28, 28] 64")
    _, program, _ = account(tree("Own [2, 8, 28, 28] --", *rows))
    assert program.ops[0].y in program.kept
    assert program.tensors[program.ops[1].x] == 8 * 28 * 28


def test_the_printed_size_of_the_input_says_how_large_a_picture_is() -> None:
    rows = table("Conv2d-# [-1, 32, 20, 20] 8,224", "Linear-# [-1, 6] 76,806")
    _, guessed, _ = account(rows)
    _, said, _ = account(rows + "Input size (MB): 0.11\n")
    assert guessed.tensors[0] == 4 * 160 * 160
    assert abs(said.tensors[0] - 4 * 84 * 84) < 700
    _, exact, _ = account(rows.replace("-1,", "64,") + "Input size (MB): 6.89\n")
    assert exact.tensors[0] == 4 * 84 * 84
    for nonsense in ("0.00", "9999999.00", "-3"):
        _, program, _ = account(rows + f"Input size (MB): {nonsense}\n")
        assert program.tensors[0] == guessed.tensors[0]
    pictures = tree("Own [16, 8] --", "├─Conv2d: 1-1 [160, 8, 20, 20] 2,048", "├─LSTM: 1-2 [16, 10, 8] 576")
    _, films, _ = account(pictures + f"Input size (MB): {16 * 10 * 4 * 84 * 84 * 4 / 1e6:.2f}\n", batch_size=16)
    assert films.tensors[0] == 10 * 4 * 84 * 84


def test_convolutions_may_have_a_gain_beside_their_bias() -> None:
    _, program, _ = account(
        table("Conv2d-# [-1, 16, 32, 32] 448", "ReLU-# [-1, 16, 32, 32] 0", "Conv2d-# [-1, 32, 32, 32] 4,672")
    )
    assert program.ops[2].x == program.ops[1].y


def test_a_convolution_that_holds_its_padding_keeps_what_comes_out_of_it() -> None:
    text = """Net(
  (stem): Conv2d(3, 8, kernel_size=(1, 1), stride=(1, 1), bias=False)
  (conv): Conv2dStaticSamePadding(
    8, 16, kernel_size=(3, 3), stride=(2, 2), bias=False
    (static_padding): ZeroPad2d((0, 1, 0, 1))
  )
)
"""
    _, program, _ = account(text)
    assert [op.kind for op in program.ops] == [Kind.CONV, Kind.NEW, Kind.CONV]
    assert (program.tensors[program.ops[2].x], program.ops[2].params) == (8 * 225 * 225, 8 * 16 * 9)
    assert program.ops[2].conv == Conv(8, 16, 9, 2, 1, 225 * 225, 112 * 112)


def test_a_picture_that_was_flattened_in_between_has_its_own_channels() -> None:
    text = """Vae(
  (conv): Conv2d(3, 64, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1))
  (fc): Linear(in_features=802816, out_features=802816, bias=True)
  (decode): Sequential(
    (0): ConvTranspose2d(64, 32, kernel_size=(2, 2), stride=(2, 2))
  )
)
"""
    _, program, _ = account(text)
    assert program.ops[-1].conv == Conv(64, 32, 4, 1, 1, 112 * 112, 224 * 224, transposed=True)


@pytest.mark.parametrize("activation", ["LeakyReLU(negative_slope=0.2", "ELU(alpha=1.0", "CELU(alpha=1.0", "SELU("])
def test_activations_in_place_keep_what_they_give_out_once(activation: str) -> None:
    text = """Net(
  (0): Conv2d(3, 8, kernel_size=(1, 1), stride=(1, 1))
  (1): {})
  (2): Conv2d(8, 8, kernel_size=(1, 1), stride=(1, 1))
)
"""
    places = 2 * 4 * 224 * 224  # bytes of one channel
    inside = f"{activation}, inplace=True".replace("(, ", "(")
    assert account(text.format(inside))[2].kept == places * (3 + 8)
    beside = account(text.format(activation))[2].kept
    assert beside == account(text.format("SiLU(inplace=True"))[2].kept == places * (3 + 8 + 8)


def test_a_norm_of_half_a_product_is_of_a_gate_that_waits_for_the_other_half() -> None:
    rows = [
        "Net [2, 16, 32] --",
        "├─LayerNorm: 1-1 [2, 16, 32] 64",
        "├─Linear: 1-2 [2, 16, 128] 4,224",
        "├─Gate: 1-3 [2, 16, 64] --",
        "│    └─LayerNorm: 2-1 [2, 16, 64] 128",
        "│    └─Conv1d: 2-2 [2, 16, 64] 272",
        "├─Linear: 1-4 [2, 16, 32] 2,080",
    ]
    _, program, _ = account(tree(*rows))
    norm, last = program.ops[2], program.ops[-1]
    assert program.shapes[norm.x] == (16, 128)
    product, activated = program.ops[1].y, norm.x
    assert {product, activated} < program.kept  # before and behind the function
    assert last.x not in (norm.y, program.ops[3].y)
    # Another width is no half of it.
    other = tree(*[row.replace("128] 4,224", "192] 6,336") for row in rows])
    assert account(other)[1].shapes[account(other)[1].ops[2].x] == (16, 64)


def test_a_function_activates_what_a_norm_of_groups_gives_to_a_kernel() -> None:
    rows = (
        "Conv2d-# [-1, 32, 8, 8] 896",
        "GroupNorm-# [-1, 32, 8, 8] 64",
        "Dropout-# [-1, 32, 8, 8] 0",
        "Conv2d-# [-1, 32, 8, 8] 9,248",
        "GroupNorm-# [-1, 32, 8, 8] 64",
        "Conv2d-# [-1, 32, 8, 8] 9,248",
        "GroupNorm-# [-1, 32, 8, 8] 64",
        "Conv2d-# [-1, 32, 8, 8] 1,056",
    )
    _, program, _ = account(table(*rows))
    norms = [op.y for op in program.ops if op.kind is Kind.LAYER_NORM]
    assert program.kept == set(norms[:2])
    convs = [op.x for op in program.ops if op.kind is Kind.CONV]
    assert norms[1] not in convs
    assert norms[2] == convs[-1]  # as an attention takes it
    _, program, _ = account(table(*[row.replace("GroupNorm", "BatchNorm2d") for row in rows]))
    assert not program.kept


@pytest.mark.parametrize(("listed", "kept"), [("", 1), ("    (act): ReLU()\n", 0)])
def test_a_print_tells_by_what_a_block_lists_whether_a_function_activates(listed: str, kept: int) -> None:
    norm = "    (norm): GroupNorm(4, 8, eps=1e-05, affine=True)\n"
    conv = "    (conv): Conv2d(8, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
    stem = "  (stem): Conv2d(3, 8, kernel_size=(1, 1), stride=(1, 1))\n"
    _, program, _ = account(f"Net(\n{stem}  (block): Block(\n{norm}{conv}{listed}  )\n)\n")
    assert [program.shapes[index] for index in program.kept] == [(8, 224, 224)] * kept


def test_a_linear_layer_as_wide_as_a_time_step_pools_no_picture() -> None:
    rows = (
        "Linear-# [-1, 128] 4,224",
        "Conv2d-# [-1, 32, 8, 8] 896",
        "Linear-# [-1, 32] 4,128",  # of 128 features, not of 4 places of 32 channels
        "Conv2d-# [-1, 32, 8, 8] 9,248",
    )
    _, program, _ = account(table(*rows))
    assert Kind.MAX_POOL not in {op.kind for op in program.ops}
    assert program.shapes[program.ops[2].x] == (128,)


def test_features_of_a_square_are_no_matrix_of_heads() -> None:
    text = "Net(\n  (p): Linear(in_features=12, out_features=32, bias=True)\n)\n"
    _, program, _ = account(text, input_size=(64, 64, 12))
    assert [(program.shapes[op.x], op.extra) for op in program.ops] == [((64, 64, 12), 0)]


def test_a_cell_of_recurrent_convolutions_keeps_its_gates_and_state() -> None:
    rows = ("Net [2, 16, 8, 8] --", "├─Cell: 1-1 [2, 16, 8, 8] --", "│    └─Conv2d: 2-1 [2, 64, 8, 8] 10,432")
    _, program, memory = account(tree(*rows))
    assert [op.kind for op in program.ops] == [Kind.CONV, Kind.KEEPS_OUTPUT]
    assert program.ops[1].extra == 2 * 16 * 64
    assert memory.kept == 2 * 4 * (program.tensors[program.ops[0].x] + (64 + 32) * 64)
    _, program, _ = account(tree(rows[0], rows[1].replace("16", "32"), rows[2]))
    assert [op.kind for op in program.ops] == [Kind.CONV]


def test_projections_take_what_a_norm_inside_their_attention_gives_out() -> None:
    rows = (
        "Net [2, 16, 32] --",
        "├─Linear: 1-1 [2, 16, 32] 1,056",
        "├─Attention: 1-2 [2, 16, 32] --",
        "│    └─LayerNorm: 2-1 [2, 16, 32] 64",
        "│    └─Linear: 2-2 [2, 16, 96] 3,072",
        "│    └─Linear: 2-3 [2, 16, 32] 1,056",
    )
    _, program, _ = account(tree(*rows))
    norm, projection = program.ops[1:3]
    assert norm.kind is Kind.LAYER_NORM
    assert projection.x == norm.y


def test_a_matrix_of_weights_in_a_table_without_a_tree_is_kept_behind_its_dropout_too() -> None:
    rows = (
        "Embedding-# [-1, 16, 32] 3,200",
        "Linear-# [-1, 16, 96] 3,072",
        "Softmax-# [-1, 4, 16, 16] 0",
        "Dropout-# [-1, 4, 16, 16] 0",
        "Linear-# [-1, 16, 32] 1,056",
    )
    _, program, _ = account(table(*rows))
    assert program.ops[3].kind is Kind.DROPOUT
    assert program.ops[3].y in program.kept
    _, program, _ = account(table(*rows[:3], rows[4]))
    assert (4, 16, 16) not in [program.shapes[index] for index in program.kept]


@pytest.mark.parametrize(("type_", "kinds"), [("SineLayer", [Kind.LINEAR, Kind.KEEPS_INPUT]), ("Layer", [Kind.LINEAR])])
def test_a_layer_of_sines_keeps_what_goes_into_them(type_: str, kinds: list[Kind]) -> None:
    rows = ("Net [2, 100, 64] --", f"├─{type_}: 1-1 [2, 100, 64] --", "│    └─Linear: 2-1 [2, 100, 64] 192")
    assert [op.kind for op in account(tree(*rows))[1].ops] == kinds
    flat = table("Linear-# [-1, 100, 64] 192", f"{type_}-# [-1, 100, 64] 0")
    assert [op.kind for op in account(flat)[1].ops] == kinds


def test_a_kernel_of_one_place_takes_parts_of_what_kernels_of_each_channel_made() -> None:
    """Restormer: queries, keys and values of channels, then a gate: no row shows what code makes of them."""
    rows = (
        (48, 1_344),
        (144, 48 * 144),
        (144, 144 * 9),
        (48, 48 * 48),
        (192, 48 * 192),
        (192, 192 * 9),
        (48, 96 * 48),
    )
    lines = [
        f"{f'Conv2d-{at}':>20} {f'[-1, {width}, 64, 64]':>26} {params:>15,}"
        for at, (width, params) in enumerate(rows, 1)
    ]
    text = "\n".join(["        Layer (type)               Output Shape         Param #", "=" * 64, *lines, "=" * 64])
    program = compile_program(parse_summary(text))
    taken = [program.shapes[op.x][0] for op in program.ops]
    assert taken == [3, 48, 144, 48, 48, 192, 96]
    assert sorted(program.shapes[index][0] for index in program.kept) == [96, 96, 144, 192]
