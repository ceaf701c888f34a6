"""Shapes derived for module prints, layer by layer, and what was assumed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from estimator import pools
from estimator.layer import Layer
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import ModelSummary, SummaryError, Workload
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
    with pytest.raises(SummaryError, match=r"'\(c\): Conv1d\(4, 8, kernel_size=\(3,\), .*say `seq_len=N`"):
        shaped(text)
    with pytest.raises(SummaryError, match=r"'LSTM\(32, 64\)' works on series"):
        shaped("LSTM(32, 64)")


def test_a_plain_network_takes_the_length_that_is_said() -> None:
    text = "Net(\n  (fc): Linear(in_features=256, out_features=8, bias=True)\n)\n"
    assert out(shaped(text), "fc") == (8,)
    assert out(shaped(text, seq_len=50), "fc") == (50, 8)
    assert out(shaped(text, seq_len=64), "fc") == (8,)  # four features at each moment, flattened


def test_fields_that_are_looked_up_stand_side_by_side() -> None:
    text = (
        "Net(\n  (embedding): Embedding(26000, 16)\n  (deep): Linear(in_features=416, out_features=512, bias=True)\n"
        "  (out): Linear(in_features=512, out_features=1, bias=True)\n)\n"
    )
    assert out(shaped(text, 26), "deep") == (512,)
    assert out(shaped(text, 27), "deep") == (27, 512)


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


def only_inputs(*rows: str) -> list[tuple[int, ...] | None]:
    """Outputs of a table's rows, each a type with its input and parameters."""
    lines = [f"├─{row.split()[0]}: 1-{at}    {row.partition(' ')[2]}" for at, row in enumerate(rows, 1)]
    header = "Layer (type:depth-idx)    Input Shape      Param #\n==========\nNet    [4, 7]    --\n"
    return [layer.output_shape for layer in shaped(header + "\n".join(lines) + "\n==========\n").root.children]


@pytest.mark.parametrize(
    ("rows", "outputs"),
    [
        (("Linear [4, 7, 16]  --", "Linear [4, 7, 16]  1,700"), [(7, 16), (7, 100)]),
        (("Linear [4, 7, 16]  1,600",), [(7, 100)]),
        (("Linear [4, 7, 16]  816", "Dropout [4, 7, 16]  --"), [(7, 48), (7, 16)]),  # queries, keys and values
        (("Conv2d [4, 8, 9, 9]  730",), [(10, 9, 9)]),
        (("Conv1d [4, 8, 9]  90", "BatchNorm1d [4, 10, 9]  20", "Linear [4, 10]  11"), [(10, 9), (10, 9), (1,)]),
        (("Conv1d [4, 8, 9]  90", "Linear [4, 10]  11"), [(10, 9), (1,)]),
        (("Conv2d [4, 3, 8, 8]  392", "LayerNorm [4, 4, 8]  16"), [(4, 8), (4, 8)]),  # patches
        (("Embedding [4, 7]  600", "Embedding [7]  42", "Dropout [4, 7, 6]  --"), [(7, 6), (7, 6), (7, 6)]),
        (("LSTM [4, 7, 16]  3,328", "Linear [4, 16]  17"), [(7, 16), (1,)]),
    ],
)
def test_where_the_next_input_is_no_output_parameters_tell(
    rows: tuple[str, ...], outputs: list[tuple[int, ...]]
) -> None:
    assert only_inputs(*rows) == outputs


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
        "Net(\n  (c): Conv2d(3, 8, kernel_size=(x, 3)), 9 params\n)\n",
        "Net(\n  (c): Conv2d(3, 8, kernel_size=(3, 3), stride=(0, 0))\n)\n",
        "Net(\n  (u): Upsample(scale_factor=nan)\n  (c): Conv2d(3, 8, kernel_size=(3, 3))\n)\n",
        "Net(\n  (u): Conv2d(3, 8, kernel_size=(3, 3))\n  (v): Upsample(scale_factor=1e400)\n)\n",
        "Net(\n  (l): Linear(in_features=999999999999, out_features=999999999999, bias=True), 9 params\n)\n",
        "Net(\n  (e): Embedding(5, 999999999999999), 9 params\n)\n",
        "Net(\n  (p): MaxPool2d(kernel_size=0, stride=0)\n  (l): LayerNorm((), eps=1)\n)\n",
        "Net(\n  (d): Dropout(p=0.1)\n)\n",
    ],
)
def test_nonsense_sizes_do_no_harm(text: str) -> None:
    summary = shaped(text.removesuffix(")\n") + "  (y): PReLU(num_parameters=1)\n)\n")
    assert all(size >= 1 for layer in layers(summary.root) for size in layer.output_shape or ())


def shapes_of(text: str, **workload: Any) -> dict[str, tuple[int, ...] | None]:
    """Output shapes by the name of the layer."""
    summary = with_shapes(parse_summary(text), Workload(**{"batch_size": 2, **workload}))
    return {layer.name: layer.output_shape for layer in layers(summary.root) if layer.name}


def test_stages_listed_side_by_side_take_the_picture_of_their_width() -> None:
    found = shapes_of("""Net(
  (embed1): Conv2d(3, 64, kernel_size=(4, 4), stride=(4, 4))
  (embed2): Conv2d(64, 128, kernel_size=(2, 2), stride=(2, 2))
  (norm1): LayerNorm((64,), eps=1e-05)
  (fc1): Linear(in_features=64, out_features=256, bias=True)
  (norm2): LayerNorm((128,), eps=1e-05)
)
""")
    assert found["norm1"] == (56, 56, 64)
    assert found["fc1"] == (56, 56, 256)
    assert found["norm2"] == (28, 28, 128)


@pytest.mark.parametrize(("dims", "kernel"), [(1, "(1,)"), (2, "(1, 1)"), (3, "(1, 1, 1)")])
def test_a_gate_gives_back_series_pictures_and_volumes(dims: int, kernel: str) -> None:
    """The layer behind it takes what the gate is multiplied with, not the one place that the gate gives out."""
    size = (3, *(16,) * dims)
    text = f"""Net(
  (first): Conv{dims}d(3, 8, kernel_size={kernel}, stride={kernel})
  (gate): Sequential(
    (0): AdaptiveAvgPool{dims}d(output_size=1)
    (1): Conv{dims}d(8, 2, kernel_size={kernel}, stride={kernel})
    (2): ReLU()
    (3): Conv{dims}d(2, 8, kernel_size={kernel}, stride={kernel})
    (4): Sigmoid()
  )
  (last): Conv{dims}d(8, 4, kernel_size={kernel}, stride={kernel})
)
"""
    summary = with_shapes(parse_summary(text), Workload(8, input_size=size))
    assert out(summary, "3") == (8, *(1,) * dims)
    assert out(summary, "last") == (4, *size[1:])


def test_gates_work_on_one_pixel_and_give_back_the_picture() -> None:
    found = shapes_of("""Net(
  (conv): Conv2d(3, 64, kernel_size=(4, 4), stride=(4, 4))
  (se): SqueezeExcite(
    (conv_reduce): Conv2d(64, 16, kernel_size=(1, 1), stride=(1, 1))
    (act): ReLU(inplace=True)
    (conv_expand): Conv2d(16, 64, kernel_size=(1, 1), stride=(1, 1))
  )
  (last): Conv2d(64, 8, kernel_size=(1, 1), stride=(1, 1))
)
""")
    assert (found["conv_reduce"], found["conv_expand"]) == ((16, 1, 1), (64, 1, 1))
    assert (found["se"], found["last"]) == ((64, 56, 56), (8, 56, 56))


def test_branches_begin_together_and_are_joined() -> None:
    found = shapes_of("""Net(
  (conv): Conv2d(3, 8, kernel_size=(8, 8), stride=(8, 8))
  (block): InceptionD(
    (branch1): Conv2d(8, 4, kernel_size=(1, 1), stride=(2, 2))
    (branch3x3_1): Conv2d(8, 6, kernel_size=(1, 1), stride=(1, 1))
    (branch3x3_2): Conv2d(6, 10, kernel_size=(1, 1), stride=(2, 2))
  )
  (pool): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
)
""")
    assert (found["branch1"], found["branch3x3_2"]) == ((4, 14, 14), (10, 14, 14))
    assert (found["block"], found["pool"]) == ((14, 14, 14), (14, 7, 7))


def test_lists_of_convolutions_split_the_channels() -> None:
    found = shapes_of("""Net(
  (conv): Conv2d(3, 8, kernel_size=(8, 8), stride=(8, 8))
  (convs): ModuleList(
    (0): Conv2d(4, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
    (1): Conv2d(4, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
  )
)
""")
    assert found["1"] == (4, 14, 14)


def test_a_print_whose_layers_do_not_fit_says_how_many_were_guessed() -> None:
    text = "Net(\n  (a): Conv2d(3, 8, kernel_size=(1, 1))\n  (b): Conv2d(24, 8, kernel_size=(1, 1))\n)\n"
    assert with_shapes(parse_summary(text), Workload(2)).guessed == 1
    assert with_shapes(parse_summary(text.replace("24", "8")), Workload(2)).guessed == 0


def test_spatial_reduction_makes_the_keys_fewer_but_not_the_output() -> None:
    found = shapes_of("""Net(
  (conv): Conv2d(3, 64, kernel_size=(4, 4), stride=(4, 4))
  (attn): EfficientAttention(
    (q): Linear(in_features=64, out_features=64, bias=True)
    (kv): Linear(in_features=64, out_features=128, bias=True)
    (proj): Linear(in_features=64, out_features=64, bias=True)
    (sr): Conv2d(64, 64, kernel_size=(8, 8), stride=(8, 8))
    (norm): LayerNorm((64,), eps=1e-05)
  )
)
""")
    assert (found["q"], found["kv"], found["attn"]) == ((56, 56, 64), (7, 7, 128), (56, 56, 64))


def test_the_only_layers_of_an_albert_are_used_again_and_again() -> None:
    text = """AlbertModel(
  (embeddings): Embedding(100, {})
  (encoder): AlbertTransformer(
    (albert_layer_groups): ModuleList(
      (0): Linear(in_features={}, out_features={}, bias=True)
    )
  )
)
"""
    for width, times in ((768, 12), (1024, 24)):
        summary = with_shapes(parse_summary(text.format(width, width, width)), Workload(2, 8))
        found = [layer for layer in layers(summary.root) if layer.type == "Linear"]
        assert len(found) == times
        assert sum(layer.params for layer in found) == width * (width + 1)


def test_what_a_model_hears_is_in_seconds_and_a_second_tower_looks() -> None:
    text = "Wav2Vec2Model(\n  (conv): Conv1d(1, 8, kernel_size=(10,), stride=(5,))\n  (a): Attention()\n)\n"
    assert shapes_of(text, seq_len=2)["conv"] == (8, (32_000 - 10) // 5 + 1)
    towers = """CLIPModel(
  (text_model): Embedding(100, 64)
  (attention): Attention()
  (vision_model): Conv2d(3, 64, kernel_size=(32, 32), stride=(32, 32))
)
"""
    assert shapes_of(towers, seq_len=7)["vision_model"] == (64, 7, 7)


def test_a_head_that_is_defined_first_is_used_last() -> None:
    text = """XForMaskedLM(
  (lm_head): Linear(in_features=8, out_features=100, bias=True)
  (body): Embedding(100, 8)
)
"""
    summary = with_shapes(parse_summary(text), Workload(2, 5))
    assert [layer.name for layer in summary.root.children] == ["body", "lm_head"]
    assert summary.root.children[1].output_shape == (5, 100)


@pytest.mark.parametrize(
    ("type_", "side"), [("Inception3", 299), ("NASNetALarge", 331), ("MNASNet", 224), ("XceptionAligned", 299)]
)
def test_published_sizes_of_pictures(type_: str, side: int) -> None:
    assert shapes_of(f"{type_}(\n  (c): Conv2d(3, 8, kernel_size=(1, 1))\n)\n")["c"] == (8, side, side)


@pytest.mark.parametrize(
    ("attention", "after"),
    [
        ("(qkv): Linear(in_features=64, out_features=192, bias=True)", (56, 56, 64)),
        ("(qkv): Linear(in_features=64, out_features=384, bias=True)", (28, 28, 128)),
    ],
)
def test_attention_that_pools_its_queries_gives_out_a_quarter(attention: str, after: tuple[int, ...]) -> None:
    width = after[-1]
    text = f"""Net(
  (conv): Conv2d(3, 64, kernel_size=(4, 4), stride=(4, 4))
  (norm): LayerNorm((64,), eps=1e-05)
  (attn): MaskUnitAttention(
    {attention}
    (proj): Linear(in_features={width}, out_features={width}, bias=True)
  )
  (last): Linear(in_features={width}, out_features=8, bias=True)
)
"""
    found = shapes_of(text)
    assert (found["attn"], found["last"]) == (after, (*after[:2], 8))


def test_squares_of_neighbours_become_one() -> None:
    found = shapes_of("""Net(
  (conv): Conv2d(3, 24, kernel_size=(4, 4), stride=(4, 4))
  (norm): LayerNorm((384,), eps=1e-05)
  (fc): Linear(in_features=384, out_features=96, bias=True)
)
""")
    assert (found["norm"], found["fc"]) == ((196, 384), (196, 96))


STEM = "  (stem): Conv2d(3, 64, kernel_size=(4, 4), stride=(4, 4))\n"


def block_of(type_: str, *parts: str) -> dict[str, tuple[int, ...] | None]:
    inside = "".join(f"    {part}\n" for part in parts)
    return shapes_of(f"Net(\n{STEM}  (block): {type_}(\n{inside}  )\n)\n")


def test_a_way_around_a_block_is_no_input_of_what_follows() -> None:
    found = block_of(
        "NormFreeBlock",
        "(downsample): DownsampleAvg(\n      (pool): AvgPool2d(kernel_size=2, stride=2, padding=0)\n    )",
        "(conv1): Conv2d(64, 32, kernel_size=(1, 1), stride=(1, 1))",
        "(conv2): Conv2d(32, 64, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))",
    )
    assert (found["downsample"], found["conv1"], found["conv2"]) == ((64, 28, 28), (32, 56, 56), (64, 28, 28))


def test_scales_are_joined_again_at_the_size_they_have() -> None:
    convs = "".join(
        f"      ({i}): Conv2d(32, 32, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))\n" for i in range(2)
    )
    found = block_of(
        "Bottle2neck",
        "(conv1): Conv2d(64, 64, kernel_size=(1, 1), stride=(1, 1))",
        f"(convs): ModuleList(\n{convs}    )",
        "(pool): AvgPool2d(kernel_size=3, stride=2, padding=1)",
        "(conv3): Conv2d(64, 128, kernel_size=(1, 1), stride=(1, 1))",
    )
    assert found["conv3"] == (128, 28, 28)


def test_norms_of_parallel_convolutions_follow_them() -> None:
    found = block_of(
        "TextNetRepConvLayer",
        "(main_conv): Conv2d(64, 64, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))",
        "(main_batch_norm): BatchNorm2d(64, eps=1e-05)",
        "(vertical_conv): Conv2d(64, 64, kernel_size=(3, 1), stride=(2, 2), padding=(1, 0))",
        "(vertical_batch_norm): BatchNorm2d(64, eps=1e-05)",
    )
    assert found["vertical_conv"] == found["main_batch_norm"] == found["block"] == (64, 28, 28)


def test_weights_of_channels_from_a_convolution_give_the_picture_back() -> None:
    found = block_of("EcaModule", "(conv): Conv1d(1, 1, kernel_size=(5,), stride=(1,), padding=(2,), bias=False)")
    assert found["block"] == (64, 56, 56)


def test_padding_counts_unless_the_convolution_behind_pads_itself() -> None:
    pad = "(pad): ZeroPad2d((0, 1, 0, 1))"
    strided = "(conv): Conv2d(64, 64, kernel_size=(3, 3), stride=(2, 2))"
    found = block_of("Sequential", pad, strided)
    assert (found["pad"], found["conv"]) == ((64, 57, 57), (64, 28, 28))
    assert block_of("Sequential", "(pad): ReflectionPad2d(3)", strided)["pad"] == (64, 62, 62)
    found = block_of("Depthwise", pad, "(conv): Conv2d(64, 64, kernel_size=(3, 3), stride=(1, 1), padding=same)")
    assert found["conv"] == (64, 56, 56)


@pytest.mark.parametrize(
    ("name", "width", "after"),
    [("mid_block", 128, (128, 28, 28)), ("more", 128, (128, 56, 56)), ("mid_block", 96, (96, 56, 56))],
)
def test_a_middle_that_is_listed_behind_the_second_half_goes_before_it(
    name: str, width: int, after: tuple[int, ...]
) -> None:
    found = shapes_of(
        f"Net(\n{STEM}  (downs): ModuleList(\n"
        "    (0): Conv2d(64, 128, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))\n  )\n  (ups): ModuleList(\n"
        "    (0): ConvTranspose2d(128, 64, kernel_size=(2, 2), stride=(2, 2))\n  )\n"
        f"  ({name}): Block(\n    (c): Conv2d({width}, {width}, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
        "  )\n  (last): Conv2d(64, 64, kernel_size=(1, 1), stride=(1, 1))\n)\n"
    )
    assert (found["c"], found["last"]) == (after, (64, 56, 56))


def test_what_makes_a_picture_smaller_goes_between_the_blocks_it_is_listed_behind() -> None:
    def block(name: str, before: int, after: int) -> str:
        conv = f"(c{name}): Conv2d({before}, {after}, kernel_size=(1, 1), stride=(1, 1))"
        return f"    ({name}): Double(\n      {conv}\n    )\n"

    found = shapes_of(
        "Net(\n  (down): ModuleList(\n"
        + block("0", 3, 8)
        + block("1", 8, 16)
        + "  )\n  (shrink): ModuleList(\n"
        + "    (0): Conv2d(8, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))\n  )\n"
        + "  (mid): Conv2d(16, 16, kernel_size=(1, 1), stride=(1, 1))\n  (grow): ModuleList(\n"
        + "    (0): ConvTranspose2d(16, 8, kernel_size=(2, 2), stride=(2, 2))\n  )\n  (up): ModuleList(\n"
        + block("9", 16, 8)
        + "  )\n)\n"
    )
    assert (found["c0"], found["c1"], found["mid"], found["c9"]) == (
        (8, 224, 224),
        (16, 112, 112),
        (16, 112, 112),
        (8, 224, 224),
    )


def test_stages_with_numbers_go_one_after_the_other() -> None:
    found = shapes_of("""Net(
  (patch_embed1): Conv2d(3, 64, kernel_size=(4, 4), stride=(4, 4))
  (patch_embed2): Conv2d(64, 128, kernel_size=(2, 2), stride=(2, 2))
  (block1): Conv2d(64, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
  (block2): Conv2d(128, 128, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
)
""")
    assert (found["block1"], found["block2"]) == ((64, 56, 56), (128, 28, 28))


def test_blocks_that_a_stage_makes_smaller_before_them() -> None:
    found = block_of(
        "Stage",
        "(blocks): Sequential(\n      (mlp): Conv2d(128, 128, kernel_size=(1, 1), stride=(1, 1))\n    )",
        "(downsample): Shrink(\n      (c): Conv2d(64, 128, kernel_size=(2, 2), stride=(2, 2))\n    )",
    )
    assert found["mlp"] == (128, 28, 28)


def test_experts_share_the_tokens() -> None:
    one = "        (w): Linear(in_features=64, out_features=32, bias=False)\n"
    experts = "".join(f"      ({i}): Mlp(\n{one}      )\n" for i in range(4))
    text = (
        "Net(\n  (tok): Embedding(1000, 64)\n  (moe): Moe(\n    (experts): ModuleList(\n"
        f"{experts}    )\n  )\n  (lm_head): Linear(in_features=64, out_features=1000, bias=False)\n)\n"
    )
    found = shaped(text, 16)
    assert (out(found, "w"), out(found, "lm_head")) == ((8, 32), (16, 1000))


def test_series_keep_their_length_behind_dilated_convolutions() -> None:
    text = """Net(
  (a): Conv1d(1, 8, kernel_size=(2,), stride=(1,), padding=(4,), dilation=(4,))
  (b): Conv1d(8, 8, kernel_size=(2,), stride=(1,), padding=(8,), dilation=(8,))
)
"""
    found = shapes_of(text, seq_len=512)
    assert (found["a"], found["b"]) == ((8, 516), (8, 520))


def test_heads_that_are_mixed_have_a_matrix_each() -> None:
    found = block_of(
        "TalkingHeadAttn",
        "(qkv): Linear(in_features=64, out_features=192, bias=True)",
        "(proj_l): Linear(in_features=4, out_features=4, bias=True)",
        "(proj): Linear(in_features=64, out_features=64, bias=True)",
    )
    assert (found["proj_l"], found["proj"]) == ((3136, 3136, 4), (56, 56, 64))


@pytest.mark.parametrize(
    ("pool", "side", "flat", "first", "second"),
    [
        ("", 28, 40 * 25, (20, 26, 26), (40, 11, 11)),  # behind both convolutions
        ("", 28, 40 * 144, (20, 26, 26), (40, 24, 24)),  # behind the last
        (
            "  (pool): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)\n",
            28,
            1000,
            None,
            None,
        ),
    ],
)
def test_small_networks_pool_in_their_code(
    pool: str, side: int, flat: int, first: tuple[int, ...] | None, second: tuple[int, ...] | None
) -> None:
    found = shaped(
        "Net(\n  (conv1): Conv2d(1, 20, kernel_size=(3, 3), stride=(1, 1))\n"
        f"{pool}  (conv2): Conv2d(20, 40, kernel_size=(3, 3), stride=(1, 1))\n"
        f"  (fc1): Linear(in_features={flat}, out_features=500, bias=True)\n)\n"
    )
    assert found.root.input_shape == (1, side, side)
    assert out(found, "conv1") == (first or (20, 26, 26))
    assert out(found, "conv2") == (second or (40, 11, 11))
    assert out(found, "fc1") == (500,)
    assert found.guessed == 0


@pytest.mark.parametrize("pool", ["", "    (pool): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1)\n"])
@pytest.mark.parametrize("around", ["{convs}{pool}{linear}", "    (body): Body(\n{convs}{pool}    )\n{linear}"])
@pytest.mark.parametrize("listed", [True, False])
def test_small_networks_that_are_parts_of_a_model_pool_in_their_code(pool: str, around: str, listed: bool) -> None:
    convs = "".join(
        f"    ({at}): Conv2d({8 * at or 3}, {8 * at + 8}, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
        for at in range(3)
    )
    convs = f"    (convs): ModuleList(\n{convs}    )\n" if listed else convs
    linear = "    (fc1): Linear(in_features=384, out_features=50, bias=True)\n"
    parts = around.format(convs=convs, pool=pool, linear=linear)
    found = shaped(f"Twins(\n  (tower): Tower(\n{parts}  )\n  (fc): Linear(in_features=50, out_features=1)\n)\n")
    made = [layer.output_shape for layer in layers(found.root) if layer.type == "Conv2d"]
    assert made == [(8, 32, 32), (16, 16, 16), (24, 8, 8)]
    assert (out(found, "fc1"), found.guessed) == ((50,), 0)


@pytest.mark.parametrize(
    ("dims", "said", "flat", "last"),
    [
        (1, (3, 64), 16 * 16, (16, 32)),
        (1, (64,), 16 * 16, (16, 32)),
        (3, (3, 8, 16, 16), 16 * 2 * 4 * 4, (16, 4, 8, 8)),
        (3, (3, 8, 16, 16), 16 * 7, (16, 8, 16, 16)),  # no pooling explains that
        (1, (5, 64), 16 * 16, None),
    ],
)
def test_networks_on_series_and_volumes_pool_in_their_code_where_their_size_is_said(
    dims: int, said: tuple[int, ...], flat: int, last: tuple[int, ...] | None
) -> None:
    convs = "".join(
        f"  (c{at}): Conv{dims}d({taken}, {given}, kernel_size=3, stride=1, padding=1)\n"
        for at, (taken, given) in enumerate(((3, 8), (8, 16)))
    )
    summary = parse_summary(f"Net(\n{convs}  (fc): Linear(in_features={flat}, out_features=10, bias=True)\n)\n")
    if last is None:
        with pytest.raises(SummaryError, match="is no series"):
            with_shapes(summary, Workload(8, input_size=said))
    else:
        assert out(with_shapes(summary, Workload(8, input_size=said)), "c1") == last


@pytest.mark.parametrize(
    ("flat", "said", "first", "inner", "last"),
    [
        (16 * 64, None, (8, 32, 32), (8, 16, 16), (16, 8, 8)),  # 32x32 is usual
        (16 * 96, (3, 32, 48), (8, 32, 48), (8, 16, 24), (16, 8, 12)),
        (16 * 100, (3, 32, 48), (8, 32, 48), (8, 32, 48), (16, 32, 48)),  # pooling in both does not explain that
        (16 * 32 * 48, (3, 32, 48), (8, 32, 48), (8, 32, 48), (16, 32, 48)),  # there is none
    ],
)
def test_equal_blocks_pool_in_their_code_where_a_flattened_picture_tells(
    flat: int, said: tuple[int, ...] | None, first: tuple[int, ...], inner: tuple[int, ...], last: tuple[int, ...]
) -> None:
    conv = "Conv2d({}, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
    text = (
        f"Net(\n  (net): Sequential(\n    (0): Block(\n      (conv): {conv.format('3, 8')}\n"
        f"      (more): Inner(\n        (c): {conv.format('8, 8')}\n      )\n    )\n"
        f"    (1): Block(\n      (conv): {conv.format('8, 16')}\n    )\n  )\n"
        f"  (fc): Linear(in_features={flat}, out_features=10, bias=True)\n)\n"
    )
    found = with_shapes(parse_summary(text), Workload(8, input_size=said))
    convs = [layer for layer in layers(found.root) if layer.type == "Conv2d"]
    assert [conv.output_shape for conv in convs[:2]] == [first, inner]
    assert found.root.children[0].output_shape == last
    assert out(found, "fc") == (10,)


@pytest.mark.parametrize(
    ("layer", "after"),
    [
        ("MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)", (96, 48, 64)),
        ("Upsample(scale_factor=2.0, mode='nearest')", (96, 192, 256)),
    ],
)
def test_as_many_channels_as_rows_of_a_picture_stay_channels(layer: str, after: tuple[int, ...]) -> None:
    text = f"""Net(
  (conv): Conv2d(3, 96, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
  (other): {layer}
  (next): Conv2d(96, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
  (far): Conv2d(128, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
)
"""
    found = shapes_of(text, input_size=(3, 96, 128))
    assert (found["other"], found["next"], found["far"]) == (after, (64, *after[1:]), (32, *after[1:]))


def test_convolutions_that_hold_their_padding_give_out_what_they_do_behind_it() -> None:
    inside = """(conv): Conv2dStaticSamePadding(
      64, 96, kernel_size=(3, 3), stride=(2, 2), bias=False
      (static_padding): ZeroPad2d((0, 1, 0, 1))
    )"""
    found = block_of("MBConv", inside, "(norm): BatchNorm2d(96, eps=1e-05)")
    assert (found["static_padding"], found["conv"], found["norm"]) == ((64, 57, 57), (96, 28, 28), (96, 28, 28))


def test_a_second_branch_that_makes_the_picture_smaller_too_takes_what_came_in() -> None:
    conv = "({}): Conv2d({}, {}, kernel_size=({}), stride=({}), padding=({}), groups={})"
    sizes = [("3, 3", "2, 2", "1, 1", 64), ("1, 1", "1, 1", "0, 0", 1), ("1, 1", "1, 1", "0, 0", 1)]
    parts = [conv.format(f"c{at}", 64, 64, *size) for at, size in enumerate([*sizes, *sizes[:2]])]
    found = block_of("Down", *parts)
    assert [found[f"c{at}"] for at in range(5)] == [(64, side, side) for side in (28, 28, 56, 28, 28)]
    whole = [part.replace("groups=64", "groups=1") for part in parts]
    assert block_of("Down", *whole)["c4"] == (64, 14, 14)  # one behind the other


def test_volumes_keep_their_channels_first() -> None:
    text = (
        "Net(\n  (a): Conv3d(1, 64, kernel_size=(3, 3, 3), stride=(2, 2, 2), padding=(1, 1, 1))\n"
        "  (joined): Conv3d(96, 8, kernel_size=(1, 1, 1), stride=(1, 1, 1))\n"
        "  (norm): LayerNorm((8,), eps=1e-05, elementwise_affine=True)\n)\n"
    )
    found = shapes_of(text)
    assert (found["a"], found["joined"]) == ((64, 48, 48, 48), (8, 48, 48, 48))
    assert found["norm"] == (48, 48, 48, 8)


@pytest.mark.parametrize("listed", ["Concurrent", "Branches", "Kernels"])
def test_branches_take_what_came_in(listed: str) -> None:
    name, type_ = ("branches", "Parts") if listed == "Branches" else ("convs", listed)
    strided = "stride=(2, 2), padding=({0}, {0})"
    first = f"      (0): Conv2d(64, 64, kernel_size=(3, 3), {strided.format(1)})\n"
    other = f"      (1): Conv2d(64, 64, kernel_size=(5, 5), {strided.format(2)})\n"
    found = block_of("Mix", f"({name}): {type_}(\n{first}{other}    )", "(norm): BatchNorm2d(128, eps=1e-05)")
    assert found["1"] == (64, 28, 28)
    assert found["norm"] == (128, 28, 28)


def test_pooling_may_take_the_picture_that_the_convolutions_before_it_took() -> None:
    conv = "(conv): Conv2d(64, 16, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))"
    pool = "(pool): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    norm = "(norm): BatchNorm2d(80, eps=1e-05)"
    for parts in ((conv, pool, norm), (pool, conv, norm)):
        found = block_of("Down", *parts)
        assert (found["conv"], found["pool"], found["norm"]) == ((16, 28, 28), (64, 28, 28), (80, 28, 28))
    found = block_of("Down", conv, pool, "(norm): BatchNorm2d(16, eps=1e-05)")  # one after the other
    assert (found["pool"], found["norm"]) == ((16, 14, 14), (16, 14, 14))


def test_a_way_around_a_block_tells_what_the_block_gives_out() -> None:
    lost = "(body): Gate(\n      (pool): AdaptiveAvgPool2d(output_size=1)\n    )"
    first = "(identity_conv1): Conv2d(64, 96, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))"
    then = "(identity_conv2): Conv2d(96, 96, kernel_size=(1, 1), stride=(1, 1))"
    found = block_of("Unit", lost, first, then, "(activ): ReLU(inplace=True)")
    assert found["identity_conv2"] == found["activ"] == found["block"] == (96, 28, 28)
    filled = "(body): Conv2d(64, 128, kernel_size=(1, 1), stride=(1, 1))"
    assert block_of("Unit", filled, "(identity_pool): AvgPool2d(kernel_size=1, stride=1)")["block"] == (128, 56, 56)


def test_a_second_half_in_code_goes_back_to_the_sizes_of_the_first() -> None:
    def conv(name: str, before: int, after: int, stride: int = 1) -> str:
        sizes = f"kernel_size=(3, 3), stride=({stride}, {stride}), padding=(1, 1)"
        return f"  ({name}): Conv2d({before}, {after}, {sizes})\n"

    halves = conv("a", 3, 64, 2) + conv("b", 64, 128, 2) + conv("c", 128, 256, 2)
    found = shapes_of(f"Net(\n{halves}{conv('decode1', 384, 128)}{conv('decode2', 192, 64)})\n")
    assert (found["decode1"], found["decode2"]) == ((128, 56, 56), (64, 112, 112))
    found = shapes_of(f"Net(\n{halves}{conv('dense1', 384, 128)})\n")  # nothing says that it has a second half
    assert found["dense1"] == (128, 28, 28)
    # Its own kernels work at each size, too, and joined may be as much as is at hand, or more.
    second = conv("decode1", 256, 128) + conv("decode2", 256, 64) + conv("decode3", 64, 32) + conv("decode4", 96, 8)
    found = shapes_of(f"Net(\n{halves}{second})\n")
    sides = [(found[f"decode{at}"] or (0,))[-1] for at in range(1, 5)]
    assert sides == [28, 56, 56, 112]
    # Where the first half had as many channels at the size at hand, these are joined.
    same = conv("a", 3, 64, 2) + conv("b", 64, 64, 2) + conv("c", 64, 64, 2)
    found = shapes_of(f"Net(\n{same}{conv('decode1', 128, 64)})\n")
    assert found["decode1"] == (64, 28, 28)


def test_a_block_named_after_resizing_does_so_by_a_function_before_its_kernel() -> None:
    kernel = "(conv): Conv2d(64, 64, kernel_size=(3, 3), stride=({}), padding=(1, 1))"
    assert block_of("Upsample", kernel.format("1, 1"))["conv"] == (64, 112, 112)
    assert block_of("Upsample", kernel.format("2, 2"))["conv"] == (64, 28, 28)
    assert block_of("Upward", kernel.format("1, 1"))["conv"] == (64, 56, 56)
    bare = kernel.format("2, 2").replace(", padding=(1, 1)", "")
    assert block_of("Downsample", bare)["conv"] == (64, 28, 28)  # it pads one side
    assert block_of("Down", bare)["conv"] == (64, 27, 27)


def test_padding_before_a_kernel_takes_what_that_takes() -> None:
    pad, kernel = "(pad): ReflectionPad2d((1, 1, 1, 1))", "(conv): Conv2d(96, 64, kernel_size=(3, 3), stride=(1, 1))"
    found = block_of("Conv3x3", pad, kernel)
    assert (found["pad"], found["conv"]) == ((96, 58, 58), (64, 56, 56))


def test_no_picture_grows_beyond_the_one_that_came_in_where_it_was_made_smaller() -> None:
    down = "  (a): Conv2d(3, 64, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))\n"
    ups = "".join(f"  (up{i}): ConvTranspose2d(64, 64, kernel_size=(2, 2), stride=(2, 2))\n" for i in range(3))
    assert shapes_of(f"Net(\n{down}{ups})\n")["up2"] == (64, 224, 224)
    assert shapes_of(f"Net(\n  (a): Conv2d(3, 64, kernel_size=(1, 1), stride=(1, 1))\n{ups})\n")["up2"] == (
        64,
        1792,
        1792,
    )


def test_time_steps_go_past_the_pictures() -> None:
    linear = "(1): Linear(in_features=256, out_features=64, bias=True)"
    time = f"(time_mlp): Sequential(\n      (0): SiLU()\n      {linear}\n    )"
    found = block_of("ResBlock", time, "(conv): Conv2d(64, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))")
    assert (found["1"], found["conv"]) == ((64,), (32, 56, 56))


@pytest.mark.parametrize(("made", "after"), [(32, (32,)), (64, (64,)), (48, (56, 56, 48))])
def test_what_is_added_to_all_channels_of_a_block_goes_past_its_pictures(made: int, after: tuple[int, ...]) -> None:
    linear = f"(1): Linear(in_features=256, out_features={made}, bias=True)"
    row = f"(emb): Sequential(\n      (0): SiLU()\n      {linear}\n    )"
    first = "(conv): Conv2d(64, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
    found = block_of("ResBlock", first, row, "(last): Conv2d(32, 32, kernel_size=(1, 1), stride=(1, 1))")
    assert found["1"] == after
    assert found["last"] == (32, 56, 56)


@pytest.mark.parametrize(
    ("tables", "beside", "rows"),
    [
        (("user", "item"), "ReLU()", 1),
        (("user", "wpe"), "ReLU()", 1000),
        (("user", "item"), "LayerNorm((32,), eps=1e-05, elementwise_affine=True)", 512),
        (("item",), "ReLU()", 512),
        (("down", "up"), "Rearrange('b n d -> n b d')", 512),  # tables of experts
    ],
)
def test_each_of_several_tables_looks_up_one_row_where_nothing_works_on_a_series(
    tables: tuple[str, ...], beside: str, rows: int
) -> None:
    text = "".join(f"  ({table}): Embedding(1000, 16)\n" for table in tables)
    text = f"Net(\n{text}  (fc): Linear(in_features=32, out_features=32, bias=True)\n  (last): {beside}\n)\n"
    assert out(shaped(text), tables[0]) == (rows, 16)
    assert out(shaped(text, 20), tables[0]) == (20, 16)
    padded = text.replace("(1000, 16)", "(1000, 16, padding_idx=0)")
    assert out(shaped(padded), tables[0]) == (max(rows, 512), 16)


@pytest.mark.parametrize(
    ("tables", "last", "after"),
    [
        (("Embedding(1000, 16)",), "Linear(in_features=16, out_features=4, bias=True)", (4,)),
        (("Embedding(1000, 8)",) * 2, "Linear(in_features=16, out_features=4, bias=True)", (4,)),
        (("Embedding(1000, 16)",), "Linear(in_features=16, out_features=1000, bias=True)", (20, 1000)),  # words again
        (("Embedding(1000, 16)",), "Head(\n    (0): Linear(in_features=16, out_features=4, bias=True)\n  )", (20, 4)),
        (("EmbeddingBag(1000, 16, mode='mean')",), "Linear(in_features=16, out_features=4, bias=True)", (4,)),
    ],
)
def test_words_of_one_table_are_averaged_before_plain_layers(
    tables: tuple[str, ...], last: str, after: tuple[int, ...]
) -> None:
    text = "".join(f"  (t{at}): {table}\n" for at, table in enumerate(tables))
    found = shaped(f"Net(\n{text}  (drop): Dropout(p=0.5, inplace=False)\n  (fc): {last}\n)\n", 20)
    linear = next(layer for layer in layers(found.root) if layer.type == "Linear")
    assert linear.output_shape == after


def test_what_listed_stages_are_resized_by_goes_between_them_in_any_order() -> None:
    def stage(at: int, width: int) -> str:
        return f"    ({at}): Stage(\n      (c): Conv2d({width}, {width}, kernel_size=(1, 1), stride=(1, 1))\n    )\n"

    def up(at: int, before: int, after: int) -> str:
        conv = f"      (0): Conv2d({before}, {after}, kernel_size=(1, 1), stride=(1, 1))\n"
        return f"    ({at}): Up(\n{conv}      (1): Upsample(scale_factor=2.0, mode='nearest')\n    )\n"

    stages = f"  (layers): ModuleList(\n{stage(0, 32)}{stage(1, 16)}  )\n"
    ups = f"  (ups): ModuleList(\n{up(0, 64, 32)}{up(1, 32, 16)}  )\n"
    summary = shaped(f"Net(\n{STEM}{stages}{ups})\n")
    convs = [layer.output_shape for layer in layers(summary.root) if layer.name == "c"]
    assert convs == [(32, 112, 112), (16, 224, 224)]


def test_lists_of_the_second_half_are_resized_by_what_is_as_wide() -> None:
    def listed(name: str, *parts: str) -> str:
        return (
            f"  ({name}): ModuleList(\n" + "".join(f"    ({at}): {part}\n" for at, part in enumerate(parts)) + "  )\n"
        )

    def conv(taken: int, given: int, sizes: str = "kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)") -> str:
        return f"Conv2d({taken}, {given}, {sizes})"

    def stage(taken: int, given: int, step: int = 1) -> str:
        sizes = f"kernel_size=(3, 3), stride=({step}, {step}), padding=(1, 1)"
        return f"Stage(\n      (c): {conv(taken, given, sizes)}\n    )"

    def grows(taken: int, given: int) -> str:
        return conv(taken, given, "kernel_size=(2, 2), stride=(2, 2)").replace("Conv2d", "ConvTranspose2d")

    first = listed("encoder", stage(3, 8), stage(8, 16, 2), stage(16, 32, 2))
    ups = listed("ups", grows(32, 16), grows(16, 8))
    second = listed("decoder", stage(32, 16), stage(16, 8))
    found = [layer.output_shape for layer in layers(shaped(f"Net(\n{first}{ups}{second})\n").root) if layer.name == "c"]
    assert found == [(8, 224, 224), (16, 112, 112), (32, 56, 56), (16, 112, 112), (8, 224, 224)]
    # Pixels that become channels, and a kernel of one place that narrows what is joined before each stage.
    stages = listed("encoder", stage(3, 8), stage(16, 16), stage(32, 32))
    downs = listed(
        "downs",
        *(
            f"Sequential(\n      (0): {conv(at, at // 2)}\n      (1): PixelUnshuffle(downscale_factor=2)\n    )"
            for at in (8, 16)
        ),
    )
    larger = listed(
        "ups",
        *(
            f"Sequential(\n      (0): {conv(at, at * 2)}\n      (1): PixelShuffle(upscale_factor=2)\n    )"
            for at in (32, 16)
        ),
    )
    narrows = listed("reduces", *(conv(2 * at, at, "kernel_size=(1, 1), stride=(1, 1)") for at in (16, 8)))
    rest = listed("decoders", stage(16, 16), stage(8, 8))
    root = shaped(f"Net(\n{stages}{downs}{larger}{narrows}{rest})\n").root
    found = [layer.output_shape for layer in layers(root) if layer.name == "c"]
    assert found == [(8, 224, 224), (16, 112, 112), (32, 56, 56), (16, 112, 112), (8, 224, 224)]
    made = [
        layer.input_shape for layer in layers(root) if layer.type == "Conv2d" and "(1, 1)" in layer.said("kernel_size")
    ]
    assert made == [(32, 112, 112), (16, 224, 224)]


@pytest.mark.parametrize("widths", [(32, 64, 96, 128), (8, 16, 24, 40, 64), (8, 16, 32, 64)])
def test_what_makes_pictures_larger_is_called_once_where_widths_add_up(widths: tuple[int, ...]) -> None:
    """A stage and the one above it give as many channels as another takes."""

    def convs(name: str, taken: int, given: int) -> str:
        return f"  ({name}): Conv2d({taken}, {given}, kernel_size=(3, 3), padding=(1, 1))\n"

    pairs = list(pairwise(widths))[::-1]
    ups = "".join(
        f"  (u{at}): ConvTranspose2d({below}, {width}, kernel_size=(2, 2), stride=(2, 2))\n"
        for at, (width, below) in enumerate(pairs)
    )
    first = "".join(convs(f"d{at}", *pair) for at, pair in enumerate(pairwise((3, *widths))))
    second = "".join(convs(f"s{at}", 2 * width, width) for at, (width, _) in enumerate(pairs))
    root = shaped(f"Net(\n{first}{ups}{second})\n").root
    found = [layer.output_shape for layer in layers(root) if layer.name.startswith("s")]
    assert found == [(width, 224 >> at, 224 >> at) for at, width in enumerate(widths[:-1])][::-1]


def test_a_u_net_of_more_stages_than_there_are_is_not_followed() -> None:
    """Each is looked for among all."""

    def net(stages: int) -> str:
        widths = list(range(3, 4 + stages))
        pairs = list(pairwise(widths))
        first = "".join(f"  (d{a}): Conv2d({a}, {b}, kernel_size=(3, 3), padding=(1, 1))\n" for a, b in pairs)
        ups = "".join(f"  (u{a}): ConvTranspose2d({b}, {a}, (2, 2), stride=(2, 2))\n" for a, b in pairs[:0:-1])
        second = "".join(
            f"  (s{a}): Conv2d({2 * a}, {a}, kernel_size=(3, 3), padding=(1, 1))\n" for a, _ in pairs[:0:-1]
        )
        return f"Net(\n{first}{ups}{second})\n"

    few, many = (parse_summary(net(stages)).root for stages in (65, 66))
    made = [pools.called_again(root, layers(root), {"Conv2d"}) for root in (few, many)]
    assert made[0] is not few
    assert made[1] is many


def test_what_no_layer_gives_out_is_said_and_not_reckoned_with() -> None:
    text = "Net(\n  (u): Conv2d(3, 8, kernel_size=(3, 3))\n  (v): Upsample(scale_factor=1e300)\n)\n"
    with pytest.raises(SummaryError, match=r"'\(v\): Upsample\(scale_factor=1e300\)' would give out .*torchinfo"):
        shaped(text)
    assert shapes_of(text.replace("1e300", "16"))["v"] == (8, 3552, 3552)


def test_fields_are_looked_up_one_by_one() -> None:
    tables = "".join(f"    (f{i}): Embedding(100, 8)\n" for i in range(3))
    linear = "  (dnn): Linear(in_features=24, out_features=16, bias=True)\n"
    text = f"Net(\n  (fields): ModuleDict(\n{tables}  )\n{linear})\n"
    summary = shaped(text)
    assert summary.root.input_shape == (3,)
    assert [out(summary, name) for name in ("f0", "fields", "dnn")] == [(1, 8), (24,), (16,)]


@pytest.mark.parametrize(("beside", "fields"), [("", True), ("  (norm): LayerNorm((8,), eps=1e-05)\n", False)])
def test_tables_in_a_list_are_of_fields_where_nothing_works_on_a_series(beside: str, fields: bool) -> None:
    tables = "".join(f"    ({i}): Embedding({i + 5}, 8)\n" for i in range(3))
    linear = "  (deep): Linear(in_features=34, out_features=16, bias=True)\n"  # ten numbers beside
    summary = shaped(f"Net(\n  (embeds): ModuleList(\n{tables}  )\n{beside}{linear})\n")
    assert (summary.root.input_shape == (3,)) is fields
    assert (out(summary, "deep") == (16,)) is fields


@pytest.mark.parametrize(("kernel", "strides", "side"), [(8, 2, 32), (7, 2, 28), (7, 5, 224), (8, 3, 224)])
def test_pooling_of_all_that_is_left_tells_how_large_pictures_are(kernel: int, strides: int, side: int) -> None:
    convs = "".join(
        f"  (c{i}): Conv2d({3 if not i else 8 * i}, {8 * i + 8}, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))\n"
        for i in range(strides)
    )
    around = f"  (identity_pool): AvgPool2d(kernel_size=2, stride=2, padding=0)\n{convs}"
    pool = f"  (final_pool): AvgPool2d(kernel_size={kernel}, stride=1, padding=0)\n"
    answer = f"  (fc): Linear(in_features={8 * strides}, out_features=10, bias=True)\n"
    assert shaped(f"Net(\n{around}{pool}{answer})\n").root.input_shape == (3, side, side)


def test_padding_listed_behind_its_convolution_goes_before_it() -> None:
    pad = "(_conv_padding): ConstantPad2d(padding=(0, 1, 0, 1), value=0.0)"
    found = block_of("MBConv", "(_conv): Conv2d(64, 32, kernel_size=(3, 3), stride=(2, 2))", pad)
    assert (found["_conv_padding"], found["_conv"]) == ((64, 57, 57), (32, 28, 28))


GRAPHS = """=================================================
Layer (type:depth-idx)   Output Shape     Param #
=================================================
Net                      [1024, 40]       --
├─SAGEConv: 1-1          [1024, 40]       --
│    └─MeanAggregation: 2-1  [1024, 16]   --
│    └─Linear: 2-2       [1024, 40]       680
=================================================
Total params: 680
Forward/backward pass size (MB): 0.33
=================================================
"""


def test_edges_and_some_of_the_nodes_are_rows_of_the_whole_batch() -> None:
    text = """\
================================================
Layer (type:depth-idx)     Output Shape Param #
================================================
Net                        [1024, 40] --
├─FeaStConv: 1-1           [1024, 16] 20
│    └─Linear: 2-1         [9208, 64] 2,112
│    └─MeanAggregation: 2-2 [1024, 16] --
├─MFConv: 1-2              [1024, 16] --
│    └─SumAggregation: 2-3 [1024, 16] --
│    └─Linear: 2-4         [145, 16] 272
├─GATConv: 1-3             [1024, 4, 16] 272
================================================
"""
    shaped = with_shapes(parse_summary(text), Workload(batch_size=8))
    assert [layer.output_shape for layer in layers(shaped.root)] == [
        (128, 40), (128, 16), (1151, 64), (128, 16), (128, 16), (128, 16), (19, 16), (128, 4, 16),
    ]  # fmt: skip


def test_nodes_are_divided_among_the_graphs_of_a_batch() -> None:
    summary = with_shapes(parse_summary(GRAPHS), Workload(8))
    assert [layer.output_shape for layer in layers(summary.root)] == [(128, 40), (128, 40), (128, 16), (128, 40)]
    assert summary.batch_size == 8
    assert summary.inferred == ("the table is of nodes; it is taken to be of 8 graphs of 128 nodes with 8 edges each",)
    # Graphs are seldom of one size: those of a batch have so many nodes on average.
    for batch_size, shape in ((7, (147, 40)), (600, (2, 40)), (1024, (40,))):
        assert with_shapes(parse_summary(GRAPHS), Workload(batch_size)).root.output_shape == shape
    table = "\n".join(
        (
            "        Layer (type)               Output Shape         Param #",
            "======",
            "   MeanAggregation-1                   [-1, 16]               0",
            "            Linear-2                   [-1, 40]             680",
            "======\n",
        )
    )
    printed = "Net(\n  (conv): Conv(\n    (aggr): SumAggregation()\n    (lin): Linear(8, 4, bias=True)\n  )\n)\n"
    with pytest.raises(SummaryError, match="'SumAggregation' works on nodes, and a print does not show how many"):
        with_shapes(parse_summary(printed), Workload(8))
    with pytest.raises(SummaryError, match="'MeanAggregation' works on nodes"):
        with_shapes(parse_summary(table), Workload(8))
