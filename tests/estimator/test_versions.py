"""Prints of older versions of the libraries are read as today's: the same tree, the same sizes."""

from __future__ import annotations

import pytest

from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.types import ModelSummary, SummaryError, Workload
from estimator.walk import layers

LLAMA_4_40 = """LlamaForCausalLM(
  (model): LlamaModel(
    (embed_tokens): Embedding(1000, 64)
    (layers): ModuleList(
      (0-3): 4 x LlamaDecoderLayer(
        (self_attn): LlamaSdpaAttention(
          (q_proj): Linear(in_features=64, out_features=64, bias=False)
          (k_proj): Linear(in_features=64, out_features=32, bias=False)
          (v_proj): Linear(in_features=64, out_features=32, bias=False)
          (o_proj): Linear(in_features=64, out_features=64, bias=False)
          (rotary_emb): LlamaRotaryEmbedding()
        )
        (mlp): LlamaMLP(
          (gate_proj): Linear(in_features=64, out_features=128, bias=False)
          (up_proj): Linear(in_features=64, out_features=128, bias=False)
          (down_proj): Linear(in_features=128, out_features=64, bias=False)
          (act_fn): SiLU()
        )
        (input_layernorm): LlamaRMSNorm()
        (post_attention_layernorm): LlamaRMSNorm()
      )
    )
    (norm): LlamaRMSNorm()
  )
  (lm_head): Linear(in_features=64, out_features=1000, bias=False)
)
"""
LLAMA_4_46 = LLAMA_4_40.replace("LlamaRMSNorm()", "LlamaRMSNorm((64,), eps=1e-06)")
LLAMA_5 = """LlamaForCausalLM(
  (model): LlamaModel(
    (embed_tokens): Embedding(1000, 64)
    (layers): ModuleList(
      (0-3): 4 x LlamaDecoderLayer(
        (self_attn): LlamaAttention(
          (q_proj): Linear(in_features=64, out_features=64, bias=False)
          (k_proj): Linear(in_features=64, out_features=32, bias=False)
          (v_proj): Linear(in_features=64, out_features=32, bias=False)
          (o_proj): Linear(in_features=64, out_features=64, bias=False)
        )
        (mlp): LlamaMLP(
          (gate_proj): Linear(in_features=64, out_features=128, bias=False)
          (up_proj): Linear(in_features=64, out_features=128, bias=False)
          (down_proj): Linear(in_features=128, out_features=64, bias=False)
          (act_fn): SiLUActivation()
        )
        (input_layernorm): LlamaRMSNorm((64,), eps=1e-06)
        (post_attention_layernorm): LlamaRMSNorm((64,), eps=1e-06)
      )
    )
    (norm): LlamaRMSNorm((64,), eps=1e-06)
    (rotary_emb): LlamaRotaryEmbedding()
  )
  (lm_head): Linear(in_features=64, out_features=1000, bias=False)
)
"""
VIT_4_46 = """ViTForImageClassification(
  (vit): ViTModel(
    (embeddings): ViTEmbeddings(
      (patch_embeddings): ViTPatchEmbeddings(
        (projection): Conv2d(3, 768, kernel_size=(16, 16), stride=(16, 16))
      )
      (dropout): Dropout(p=0.0, inplace=False)
    )
    (encoder): ViTEncoder(
      (layer): ModuleList(
        (0-1): 2 x ViTLayer(
          (attention): ViTSdpaAttention(
            (attention): ViTSdpaSelfAttention(
              (query): Linear(in_features=768, out_features=768, bias=True)
              (key): Linear(in_features=768, out_features=768, bias=True)
              (value): Linear(in_features=768, out_features=768, bias=True)
              (dropout): Dropout(p=0.0, inplace=False)
            )
            (output): ViTSelfOutput(
              (dense): Linear(in_features=768, out_features=768, bias=True)
              (dropout): Dropout(p=0.0, inplace=False)
            )
          )
          (intermediate): ViTIntermediate(
            (dense): Linear(in_features=768, out_features=3072, bias=True)
            (intermediate_act_fn): GELUActivation()
          )
          (output): ViTOutput(
            (dense): Linear(in_features=3072, out_features=768, bias=True)
            (dropout): Dropout(p=0.0, inplace=False)
          )
          (layernorm_before): LayerNorm((768,), eps=1e-12, elementwise_affine=True)
          (layernorm_after): LayerNorm((768,), eps=1e-12, elementwise_affine=True)
        )
      )
    )
    (layernorm): LayerNorm((768,), eps=1e-12, elementwise_affine=True)
  )
  (classifier): Linear(in_features=768, out_features=2, bias=True)
)
"""
VIT_5 = """ViTForImageClassification(
  (vit): ViTModel(
    (embeddings): ViTEmbeddings(
      (patch_embeddings): ViTPatchEmbeddings(
        (projection): Conv2d(3, 768, kernel_size=(16, 16), stride=(16, 16))
      )
      (dropout): Dropout(p=0.0, inplace=False)
    )
    (layers): ModuleList(
      (0-1): 2 x ViTLayer(
        (attention): ViTAttention(
          (q_proj): Linear(in_features=768, out_features=768, bias=True)
          (k_proj): Linear(in_features=768, out_features=768, bias=True)
          (v_proj): Linear(in_features=768, out_features=768, bias=True)
          (o_proj): Linear(in_features=768, out_features=768, bias=True)
        )
        (layernorm_before): LayerNorm((768,), eps=1e-12, elementwise_affine=True)
        (layernorm_after): LayerNorm((768,), eps=1e-12, elementwise_affine=True)
        (mlp): ViTMLP(
          (activation_fn): GELUActivation()
          (fc1): Linear(in_features=768, out_features=3072, bias=True)
          (fc2): Linear(in_features=3072, out_features=768, bias=True)
        )
        (dropout): Dropout(p=0.0, inplace=False)
      )
    )
    (layernorm): LayerNorm((768,), eps=1e-12, elementwise_affine=True)
  )
  (classifier): Linear(in_features=768, out_features=2, bias=True)
)
"""
MOBILENET = """MobileNetV2(
  (features): Sequential(
    (0): {block}(
      (0): Conv2d(3, 32, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False)
      (1): BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
      (2): ReLU6(inplace=True)
    )
  )
  (classifier): Sequential(
    (0): Dropout(p=0.2, inplace=False)
    (1): Linear(in_features=32, out_features=1000, bias=True)
  )
)
"""
TIMM_0_6 = """ResNet(
  (conv1): Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False)
  (bn1): BatchNorm2d(64, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  (act1): ReLU(inplace=True)
  (global_pool): SelectAdaptivePool2d (pool_type=avg, flatten=Flatten(start_dim=1, end_dim=-1))
  (fc): Linear(in_features=64, out_features=1000, bias=True)
)
"""
EFFICIENTNET_0_4 = """EfficientNet(
  (conv_stem): Conv2d(3, 32, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False)
  (bn1): BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  (act1): SiLU(inplace=True)
  (blocks): Sequential(
    (0): DepthwiseSeparableConv(
      (conv_dw): Conv2d(32, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=32, bias=False)
      (bn1): BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
      (act1): SiLU(inplace=True)
      (conv_pw): Conv2d(32, 16, kernel_size=(1, 1), stride=(1, 1), bias=False)
      (bn2): BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
      (act2): Identity()
    )
  )
  (classifier): Linear(in_features=16, out_features=1000, bias=True)
)
"""
EFFICIENTNET_1_0 = """EfficientNet(
  (conv_stem): Conv2d(3, 32, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False)
  (bn1): BatchNormAct2d(
    32, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True
    (drop): Identity()
    (act): SiLU(inplace=True)
  )
  (blocks): Sequential(
    (0): DepthwiseSeparableConv(
      (conv_dw): Conv2d(32, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=32, bias=False)
      (bn1): BatchNormAct2d(
        32, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True
        (drop): Identity()
        (act): SiLU(inplace=True)
      )
      (conv_pw): Conv2d(32, 16, kernel_size=(1, 1), stride=(1, 1), bias=False)
      (bn2): BatchNormAct2d(
        16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True
        (drop): Identity()
        (act): Identity()
      )
      (drop_path): Identity()
    )
  )
  (classifier): Linear(in_features=16, out_features=1000, bias=True)
)
"""


DINO = """Dinov2Model(
  (embeddings): Dinov2Embeddings(
    (patch_embeddings): Dinov2PatchEmbeddings(
      (projection): Conv2d(3, 64, kernel_size=(14, 14), stride=(14, 14))
    )
    (dropout): Dropout(p=0.0, inplace=False)
  )
  (encoder): Dinov2Encoder(
    (layer): ModuleList(
      (0-3): 4 x Dinov2Layer(
        (norm1): LayerNorm((64,), eps=1e-06, elementwise_affine=True)
        (attention): Dinov2Attention({attention}
        )
        (layer_scale1): Dinov2LayerScale()
        (drop_path): Identity()
        (norm2): LayerNorm((64,), eps=1e-06, elementwise_affine=True)
        (mlp): Dinov2MLP({mlp}
        )
        (layer_scale2): Dinov2LayerScale()
      )
    )
  )
  (layernorm): LayerNorm((64,), eps=1e-06, elementwise_affine=True)
)
"""
PROJECTION = "Linear(in_features=64, out_features=64, bias=True)"
DINO_5_17 = DINO.format(
    attention=f"""
          (attention): Dinov2SelfAttention(
            (query): {PROJECTION}
            (key): {PROJECTION}
            (value): {PROJECTION}
          )
          (output): Dinov2SelfOutput(
            (dense): {PROJECTION}
            (dropout): Dropout(p=0.0, inplace=False)
          )""",
    mlp="""
          (fc1): Linear(in_features=64, out_features=256, bias=True)
          (activation): GELUActivation()
          (fc2): Linear(in_features=256, out_features=64, bias=True)""",
)
DINO_5_24 = DINO.format(
    attention=f"""
          (q_proj): {PROJECTION}
          (k_proj): {PROJECTION}
          (v_proj): {PROJECTION}
          (o_proj): {PROJECTION}""",
    mlp="""
          (activation_fn): GELUActivation()
          (fc1): Linear(in_features=64, out_features=256, bias=True)
          (fc2): Linear(in_features=256, out_features=64, bias=True)""",
)
GPTJ_5_17 = """GPTJModel(
  (wte): Embedding(1000, 64)
  (ln_f): LayerNorm((64,), eps=1e-05, elementwise_affine=True)
)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (DINO_5_24, DINO_5_17),
        (GPTJ_5_17.replace("=True)\n)", "=True)\n  (rotary_emb): GPTJRotaryEmbedding()\n)"), GPTJ_5_17),
        (EFFICIENTNET_0_4, EFFICIENTNET_1_0),
        (LLAMA_4_46, LLAMA_5),
        (LLAMA_4_46.replace("LlamaSdpaAttention", "LlamaFlashAttention2"), LLAMA_5),
        (VIT_4_46, VIT_5),
        (MOBILENET.format(block="ConvBNReLU"), MOBILENET.format(block="Conv2dNormActivation")),
        (MOBILENET.format(block="ConvNormActivation"), MOBILENET.format(block="Conv2dNormActivation")),
        (TIMM_0_6, TIMM_0_6.replace("2d (pool", "2d(pool")),
    ],
)
def test_other_names_of_the_same_layers_are_read_as_todays(rad: Rad, old: str, new: str) -> None:
    read, now = parse_summary(old), parse_summary(new)
    steps = Workload(batch_size=8, seq_len=64)
    assert read.total_params == now.total_params
    assert types(read) == types(now)
    said = rad.predict(read, steps).expected_mib
    assert said == pytest.approx(rad.predict(now, steps).expected_mib, abs=2)  # an old print may hold some layers more


def types(summary: ModelSummary) -> list[str]:
    """Types of all layers, in order, those that hold no parameters and do nothing left out."""
    return [layer.type for layer in layers(summary.root) if not layer.type.endswith("RotaryEmbedding")]


def test_a_norm_without_a_size_is_as_wide_as_the_words() -> None:
    old, new = parse_summary(LLAMA_4_40), parse_summary(LLAMA_5)
    assert old.total_params == new.total_params
    assert {layer.type for layer in layers(old.root)} == {layer.type for layer in layers(new.root)}


def test_attention_that_multiplied_by_itself_keeps_its_matrix(rad: Rad) -> None:
    workload = Workload(batch_size=8, seq_len=1024)
    eager = parse_summary(LLAMA_4_40.replace("LlamaSdpaAttention", "LlamaAttention"))
    more = rad.account(eager, workload)[2].kept - rad.account(parse_summary(LLAMA_4_40), workload)[2].kept
    # Four layers, 8 samples, at least one head: what softmax gives out is kept in four bytes.
    assert more >= 4 * 8 * 1024 * 1024 * 4


def test_blocks_that_own_models_call_alike_stay_as_they_are() -> None:
    text = TIMM_0_6.replace("ResNet", "Net").replace("Linear", "MultiHeadSelfAttention")
    assert any(layer.type == "MultiHeadSelfAttention" for layer in layers(parse_summary(text).root))


@pytest.mark.parametrize(
    "prefix",
    [
        "> ",
        ">",
        "INFO:root:",
        "[rank0]: ",
        "{0:4d}  ",
        "{0}: ",
        "{0:3d} | ",
        "2026-01-02 10:11:{0:02d},123 - INFO - ",
        "# ",
    ],
)
def test_what_logs_and_quotations_put_before_each_line_is_taken_away(prefix: str) -> None:
    lines = TIMM_0_6.splitlines()
    text = "\n".join(prefix.format(number) + line for number, line in enumerate(lines, start=1))
    assert parse_summary(text) == parse_summary(TIMM_0_6)
    alone = prefix.format(1) + TIMM_0_6
    assert parse_summary(alone) == parse_summary(TIMM_0_6)


def test_a_line_behind_a_prefix_that_cannot_be_read_is_quoted() -> None:
    text = "\n".join("INFO:root:" + line for line in TIMM_0_6.replace("(act1): ReLU(", "(act1 ReLU(").splitlines())
    with pytest.raises(SummaryError, match="line 4"):
        parse_summary(text)


TORCH_SUMMARY = """===============================================================================================
Layer (type:depth-idx)                        Output Shape              Param #
===============================================================================================
├─Sequential: 1-1                             [-1, 1280, 7, 7]          --
|    └─Conv2dNormActivation: 2-1              [-1, 32, 112, 112]        --
|    |    └─Conv2d: 3-1                       [-1, 32, 112, 112]        864
|    |    └─BatchNorm2d: 3-2                  [-1, 32, 112, 112]        64
|    |    └─SiLU: 3-3                         [-1, 32, 112, 112]        --
|    └─Sequential: 2-2                        [-1, 16, 112, 112]        --
|    |    └─MBConv: 3-4                       [-1, 16, 112, 112]        1,448
===============================================================================================
Total params: 2,376
Trainable params: 2,376
Non-trainable params: 0
===============================================================================================
Input size (MB): 0.57
Forward/backward pass size (MB): 7.09
Params size (MB): 0.01
===============================================================================================
"""


def test_what_torch_summary_hides_without_counting_it_is_refused() -> None:
    with pytest.raises(SummaryError, match=r"MBConv.*depth=20"):
        parse_summary(TORCH_SUMMARY)
    open_ = TORCH_SUMMARY.replace("MBConv: 3-4 ", "Conv2d: 3-4 ")
    assert parse_summary(open_).total_params == 2_376


KERAS_3 = """Model: "resnet50"
┏━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)        ┃ Output Shape      ┃    Param # ┃ Connected to      ┃
┡━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│ input_layer_3       │ (None, 224, 224,  │          0 │ -                 │
│ (InputLayer)        │ 3)                │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ conv1_conv (Conv2D) │ (None, 112, 112,  │      9,472 │ conv1_pad[0][0]   │
│                     │ 64)               │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ conv1_bn            │ (None, 112, 112,  │        256 │ conv1_conv[0][0]  │
│ (BatchNormalizatio… │ 64)               │            │                   │
├─────────────────────┼───────────────────┼────────────┼───────────────────┤
│ own (MyLongNamedLa… │ (None, 64)        │          0 │ conv1_bn[0][0]    │
└─────────────────────┴───────────────────┴────────────┴───────────────────┘
 Total params: 9,728 (38.00 KB)
 Trainable params: 9,600 (37.50 KB)
 Non-trainable params: 128 (512.00 B)
"""


def test_types_that_keras_3_cuts_are_read() -> None:
    summary = parse_summary(KERAS_3)
    assert [layer.type for layer in summary.root.children] == [
        "InputLayer",
        "Conv2D",
        "BatchNormalization",
        "MyLongNamedLa",
    ]
    assert (summary.total_params, summary.inferred) == (9_728, ())


def test_a_model_of_keras_that_is_not_built_is_refused() -> None:
    text = KERAS_3.replace("9,472", "    0").replace("  256", "    0").replace("9,728", "0").replace("9,600", "0")
    with pytest.raises(SummaryError, match="build the model"):
        parse_summary(text)


KERAS_2_NESTED = """Model: "model"
_________________________________________________________________
 Layer (type)                Output Shape              Param #
=================================================================
 input_1 (InputLayer)        [(None, 32, 32, 3)]       0

 mobilenetv2_1.00_32 (Funct  (None, 1, 1, 1280)        992
 ional)
|¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯|
| input_2 (InputLayer)       [(None, 32, 32, 3)]       0        |
|                                                               |
| Conv1 (Conv2D)             (None, 16, 16, 32)        864      |
|                                                               |
| expanded_conv_depthwise_B  (None, 16, 16, 32)        128      |
| N (BatchNormalization)                                        |
¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯¯
 dense (Dense)               (None, 10)                12810
=================================================================
Total params: 13802 (53.91 KB)
Trainable params: 13738 (53.66 KB)
Non-trainable params: 64 (256.00 Byte)
_________________________________________________________________
"""


def test_inner_models_of_keras_are_counted_once() -> None:
    summary = parse_summary(KERAS_2_NESTED)
    assert [(layer.type, layer.params) for layer in summary.root.children] == [
        ("InputLayer", 0),
        ("Functional", 0),
        ("InputLayer", 0),
        ("Conv2D", 864),
        ("BatchNormalization", 128),
        ("Dense", 12_810),
    ]
    assert (summary.total_params, summary.inferred) == (13_802, ())


def test_blocks_whose_insides_are_hidden_are_not_lost() -> None:
    table = """==========================================================================================
Layer (type:depth-idx)                   Output Shape              Param #
==========================================================================================
ViTForImageClassification                [2, 2]                    --
├─ViTModel: 1-1                          [2, 197, 192]             --
│    └─ViTLayer: 2-1                     [2, 197, 192]             --
│    │    └─ViTAttention: 3-1            [2, 197, 192]             148,224
│    │    └─ViTIntermediate: 3-2         [2, 197, 768]             148,224
│    │    └─ViTOutput: 3-3               [2, 197, 192]             147,648
├─Linear: 1-2                            [2, 2]                    386
==========================================================================================
Total params: 444,482
"""
    summary = parse_summary(table)
    assert sum(layer.params for layer in layers(summary.root)) == summary.total_params
    deberta = """DebertaForMaskedLM(
  (cls): DebertaOnlyMLMHead()
  (x): StableDropout()
  (fc): Linear(in_features=2, out_features=2, bias=True)
)
"""
    assert parse_summary(deberta).total_params == 6
    swin = """SwinTransformer(
  (layers): Sequential(
    (0): BasicLayer()
    (1): BasicLayer(
      (downsample): PatchMerging(
        (reduction): Linear(in_features=4, out_features=2, bias=False)
      )
    )
  )
  (pos_drop): Dropout(p=0.0, inplace=False)
)
"""
    assert parse_summary(swin).total_params == 8


@pytest.mark.parametrize("inner", ["", "│    └─NonDynamicallyQuantizableLinear: 2-1 --                        272\n"])
def test_projections_that_torchinfo_did_not_count_are_added(inner: str) -> None:
    shown = 272 if inner else 0
    table = f"""==========================================================================================
Layer (type:depth-idx)                   Output Shape              Param #
==========================================================================================
Net                                      --                        --
├─MultiheadAttention: 1-1                [2, 10, 16]               --
{inner}├─Linear: 1-2                            [2, 10, 2]                34
==========================================================================================
Total params: {34 + shown}
"""
    summary = parse_summary(table)
    assert summary.total_params == 34 + 4 * 16 * 17
    assert sum(layer.params for layer in layers(summary.root)) == summary.total_params
    today = table.replace(
        "Net                                      -- ", "Net                                      [2, 10, 2]"
    )
    assert parse_summary(today).total_params == 34 + shown


ATTENTION_5_24 = """Layer (type:depth-idx)                   Output Shape              Param #
==========
Dinov2Attention                          [2, 9, 8]                 --
├─Linear: 1-1                            [2, 9, 8]                 72
├─Linear: 1-2                            [2, 9, 8]                 72
├─Linear: 1-3                            [2, 9, 8]                 72
├─Linear: 1-4                            [2, 9, 8]                 72
==========
Total params: 288
"""


def test_a_tables_attention_of_one_block_is_divided_as_it_was_measured() -> None:
    read = parse_summary(ATTENTION_5_24)
    inner, outer = read.root.children
    assert (inner.type, len(inner.children), inner.output_shape) == ("Dinov2SelfAttention", 3, (9, 8))
    assert (outer.type, types(read)[-2:], outer.output_shape) == ("Dinov2SelfOutput", ["Linear", "Dropout"], (9, 8))
    own = parse_summary(ATTENTION_5_24.replace("Dinov2", "Own"))
    assert [layer.type for layer in own.root.children] == ["Linear"] * 4


@pytest.mark.parametrize(("row", "type_"), [("3,072", "Linear"), ("--", "JambaTopKRouter")])
def test_a_router_that_holds_weights_is_linear(row: str, type_: str) -> None:
    text = ATTENTION_5_24.replace(
        "Linear: 1-4                            [2, 9, 8]                 72",
        f"JambaTopKRouter: 1-4                   [18, 4]                   {row}",
    )
    text = text.replace("Total params: 288", "")
    assert parse_summary(text.replace("Dinov2", "Own")).root.children[-1].type == type_


def test_ligers_layers_are_the_models() -> None:
    liger = LLAMA_5.replace(
        "LlamaRMSNorm((64,), eps=1e-06)", "LigerRMSNorm((64,), eps=1e-06, offset=0.0, in_place=True)"
    )
    read = parse_summary(liger.replace("LlamaMLP", "LigerSwiGLUMLP"))
    types = [layer.type for layer in layers(read.root)]
    assert types == [layer.type.replace("LlamaRMSNorm", "RMSNorm") for layer in layers(parse_summary(LLAMA_5).root)]
    assert read.total_params == parse_summary(LLAMA_5).total_params


@pytest.mark.parametrize("type_", ["Float8Linear", "FP8Linear", "HQQLinear"])
def test_linear_layers_of_other_libraries_keep_as_much(type_: str, rad: Rad) -> None:
    workload = Workload(4, 128)
    other, plain = (
        rad.account(parse_summary(text), workload)[2] for text in (LLAMA_5.replace("Linear", type_), LLAMA_5)
    )
    assert other == plain


def test_linear_layers_without_sizes_are_refused() -> None:
    text = LLAMA_5.replace("Linear(in_features=64, out_features=128, bias=False)", "Linear()")
    with pytest.raises(SummaryError, match="does not show how large 'Linear' are"):
        parse_summary(text)
    assert parse_summary(f"{text}Total params: 500,000\n").total_params == 500_000
