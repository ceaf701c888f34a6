"""Shapes derived for module prints, layer by layer, and what was assumed."""

from __future__ import annotations

import pytest

from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import Layer, ModelSummary, Workload
from estimator.walk import layers


def shaped(text: str, seq_len: int | None = None) -> ModelSummary:
    return with_shapes(parse_summary(text), Workload(8, seq_len))


def by_name(summary: ModelSummary, name: str) -> Layer:
    return next(layer for layer in layers(summary.root) if layer.name == name)


def out(summary: ModelSummary, name: str) -> tuple[int, ...] | None:
    return by_name(summary, name).output_shape


CNN = """Net(
  (stem): Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False)
  (pool): MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)
  (block): Bottleneck(
    (conv1): Conv2d(64, 32, kernel_size=(1, 1), stride=(1, 1), bias=False)
    (conv2): Conv2d(32, 128, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False)
    (downsample): Sequential(
      (0): Conv2d(64, 128, kernel_size=(1, 1), stride=(2, 2), bias=False)
      (1): BatchNorm2d(128, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
    )
  )
  (se): SqueezeExcitation(
    (squeeze): AdaptiveAvgPool2d(output_size=1)
    (fc1): Conv2d(128, 8, kernel_size=(1, 1), stride=(1, 1))
    (fc2): Conv2d(8, 128, kernel_size=(1, 1), stride=(1, 1))
  )
  (joined): Conv2d(256, 16, kernel_size=(3, 3), stride=(1, 1), padding=same)
  (up): ConvTranspose2d(16, 16, kernel_size=(2, 2), stride=(2, 2))
  (twice): Upsample(scale_factor=2.0, mode='bilinear')
  (avg): AdaptiveAvgPool2d(output_size=(1, 1))
  (flat): Flatten(start_dim=1, end_dim=-1)
  (fc): Linear(in_features=16, out_features=10, bias=True)
)
"""


def test_a_cnn_is_followed_through_branches_gates_and_joins() -> None:
    summary = shaped(CNN)
    assert out(summary, "stem") == (64, 112, 112)
    assert out(summary, "pool") == (64, 56, 56)
    assert out(summary, "conv2") == (128, 28, 28)
    assert out(summary, "downsample") == (128, 28, 28)
    assert out(summary, "fc1") == (8, 1, 1)
    assert out(summary, "se") == (128, 28, 28)
    assert out(summary, "joined") == (16, 28, 28)
    assert out(summary, "up") == (16, 56, 56)
    assert out(summary, "twice") == (16, 112, 112)
    assert out(summary, "flat") == (16,)
    assert out(summary, "fc") == (10,)
    assert any("3x224x224" in reason for reason in summary.inferred)


@pytest.mark.parametrize(
    ("root", "channels", "side"),
    [("Net", 1, 28), ("Net", 3, 224), ("Inception3", 3, 299)],
    ids=["mnist", "net", "inception"],
)
def test_the_picture_is_assumed_from_channels_and_model(root: str, channels: int, side: int) -> None:
    text = f"{root}(\n  (c): Conv2d({channels}, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n)\n"
    assert out(shaped(text), "c") == (8, side, side)


BERT = """BertForSequenceClassification(
  (embeddings): BertEmbeddings(
    (word_embeddings): Embedding(1000, 64, padding_idx=0)
    (position_embeddings): Embedding(256, 64)
    (LayerNorm): LayerNorm((64,), eps=1e-12, elementwise_affine=True)
  )
  (self): BertSdpaSelfAttention(
    (query): Linear(in_features=64, out_features=64, bias=True)
    (key): Linear(in_features=64, out_features=32, bias=True)
    (value): Linear(in_features=64, out_features=32, bias=True)
  )
  (output): Linear(in_features=64, out_features=64, bias=True)
  (mlp): LlamaMLP(
    (gate_proj): Linear(in_features=64, out_features=256, bias=False)
    (up_proj): Linear(in_features=64, out_features=256, bias=False)
    (down_proj): Linear(in_features=256, out_features=64, bias=False)
    (act_fn): SiLU()
  )
  (pooler): BertPooler(
    (dense): Linear(in_features=64, out_features=64, bias=True)
  )
  (classifier): Linear(in_features=64, out_features=2, bias=True)
)
"""


def test_a_transformer_is_followed_token_by_token() -> None:
    summary = shaped(BERT, seq_len=128)
    assert out(summary, "word_embeddings") == (128, 64)
    assert out(summary, "key") == (128, 32)
    assert out(summary, "value") == (128, 32)
    assert out(summary, "up_proj") == (128, 256)
    assert out(summary, "down_proj") == (128, 64)
    assert out(summary, "act_fn") == (128, 256)
    assert out(summary, "classifier") == (2,)
    names = [layer.name for layer in layers(summary.root)]
    assert names.index("gate_proj") < names.index("act_fn") < names.index("up_proj")
    assert summary.inferred == parse_summary(BERT).inferred


def test_without_seq_len_the_positions_say_how_long() -> None:
    summary = shaped(BERT)
    assert out(summary, "word_embeddings") == (256, 64)
    assert any("seq_len" in reason for reason in summary.inferred)


def test_old_conv1d_without_sizes_follows_from_its_parameters() -> None:
    text = """GPT2Model(
  (wte): Embedding(1000, 64), 64,000 params
  (ln_1): LayerNorm((64,), eps=1e-05, elementwise_affine=True), 128 params
  (attn): GPT2Attention(
    (c_attn): Conv1D(), 12,480 params
    (c_proj): Conv1D(), 4,160 params
  ), 16,640 params
  (mlp): GPT2MLP(
    (c_fc): Conv1D(), 16,640 params
    (c_proj): Conv1D(), 16,448 params
    (act): NewGELUActivation(), 0 params
  ), 33,088 params
), 113,856 params
"""
    summary = shaped(text, seq_len=16)
    found = {(layer.name, layer.params): layer.output_shape for layer in layers(summary.root) if layer.type == "Conv1D"}
    assert found == {
        ("c_attn", 12_480): (16, 192),
        ("c_proj", 4_160): (16, 64),
        ("c_fc", 16_640): (16, 256),
        ("c_proj", 16_448): (16, 64),
    }
    assert out(summary, "act") == (16, 256)


def test_vision_transformers_turn_pictures_into_tokens() -> None:
    text = """ViT(
  (proj): Conv2d(3, 96, kernel_size=(16, 16), stride=(16, 16))
  (norm): LayerNorm((96,), eps=1e-06, elementwise_affine=True)
  (attn): SelfAttention(
    (qkv): Linear(in_features=96, out_features=288, bias=True)
    (proj_out): Linear(in_features=96, out_features=96, bias=True)
  )
  (merge): PatchMerging(
    (reduction): Linear(in_features=384, out_features=192, bias=False)
    (norm2): LayerNorm((384,), eps=1e-05, elementwise_affine=True)
  )
  (head): Linear(in_features=192, out_features=10, bias=True)
)
"""
    summary = shaped(text)
    assert out(summary, "norm") == (14, 14, 96)
    assert out(summary, "qkv") == (14, 14, 288)
    assert out(summary, "merge") == (7, 7, 192)
    assert out(summary, "head") == (10,)


def test_recurrent_and_plain_models() -> None:
    text = """Net(
  (rnn): LSTM(32, 64, num_layers=2, bidirectional=True)
  (fc): Linear(in_features=128, out_features=5, bias=True)
)
"""
    summary = shaped(text, seq_len=20)
    assert out(summary, "rnn") == (20, 128)
    assert out(summary, "fc") == (20, 5)
    mlp = shaped("Net(\n  (a): Linear(in_features=32, out_features=64, bias=True)\n  (b): ReLU()\n)\n")
    assert out(mlp, "b") == (64,)


def test_mixers_work_on_channels_and_on_tokens() -> None:
    text = """MixerNet(
  (stem): Conv2d(3, 32, kernel_size=(16, 16), stride=(16, 16))
  (block): MixerBlock(
    (mlp_tokens): Mlp(
      (fc1): Linear(in_features=196, out_features=98, bias=True)
      (fc2): Linear(in_features=98, out_features=196, bias=True)
    )
  )
)
"""
    summary = shaped(text)
    assert out(summary, "fc1") == (32, 98)
    assert out(summary, "fc2") == (32, 196)


def test_one_dimensional_convolutions_take_seq_len() -> None:
    text = "Net(\n  (c): Conv1d(4, 8, kernel_size=(3,), stride=(2,), padding=(1,))\n)\n"
    assert out(shaped(text, seq_len=100), "c") == (8, 50)
    assert out(shaped(text), "c") == (8, 256)


def test_summaries_with_shapes_stay_as_they_are() -> None:
    table = """Layer (type:depth-idx)    Output Shape      Param #
==========
Net                       [4, 10]           --
├─ModuleList: 1-1         --                12
├─Linear: 1-2             [4, 10]           40
==========
"""
    summary = parse_summary(table)
    assert with_shapes(summary, Workload(1)) is summary


def test_torchinfo_with_inputs_only_takes_the_next_input_for_an_output() -> None:
    table = """Layer (type:depth-idx)    Input Shape      Param #
==========
Net                       [4, 3]           --
├─Linear: 1-1             [4, 3]           40
├─ReLU: 1-2               [4, 10]          --
==========
"""
    summary = shaped(table)
    assert [layer.output_shape for layer in summary.root.children] == [(10,), (10,)]


def test_sequence_first_tables_are_turned() -> None:
    table = """Layer (type:depth-idx)    Output Shape      Param #
==========
XLNetModel                [64, 2, 16]           --
├─Linear: 1-1             [64, 2, 16]           40
├─Dropout: 1-2            [2, 4, 64, 64]        --
==========
"""
    summary = with_shapes(parse_summary(table), Workload(8, seq_len=64))
    assert [layer.output_shape for layer in summary.root.children] == [(64, 16), (64, 4, 64)]
    assert summary.batch_size == 2


@pytest.mark.parametrize(
    "text",
    [
        "Net(\n  (c): Conv2d(3, 8, kernel_size=(x, 3))\n)\n",
        "Net(\n  (c): Conv2d(3, 8, kernel_size=(3, 3), stride=(0, 0))\n)\n",
        "Net(\n  (u): Upsample(scale_factor=nan)\n  (c): Conv2d(3, 8, kernel_size=(3, 3))\n)\n",
        "Net(\n  (u): Conv2d(3, 8, kernel_size=(3, 3))\n  (v): Upsample(scale_factor=1e300)\n)\n",
        "Net(\n  (l): Linear(in_features=999999999999, out_features=999999999999, bias=True)\n)\n",
        "Net(\n  (e): Embedding(5, 999999999999999)\n)\n",
        "Net(\n  (p): MaxPool2d(kernel_size=0, stride=0)\n  (l): LayerNorm((), eps=1)\n)\n",
        "Net(\n  (d): Dropout(p=0.1)\n)\n",
    ],
)
def test_nonsense_sizes_do_no_harm(text: str) -> None:
    summary = shaped(text)
    assert all(size >= 1 for layer in layers(summary.root) for size in layer.output_shape or ())
