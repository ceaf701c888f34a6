"""Parameters that two layers share are counted once, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.parsers import parse_summary


def lm(root: str, head: str = "Linear(in_features=16, out_features=1000, bias=False)", extra: str = "") -> str:
    return f"""{root}(
  (transformer): Body(
    (wte): Embedding(1000, 16)
    (wpe): Embedding(64, 16)
    (fc): Linear(in_features=16, out_features=64, bias=False)
{extra}  )
  (lm_head): {head}
)
"""


BODY = 16_000 + 64 * 16 + 16 * 64


@pytest.mark.parametrize(
    "root",
    [
        "GPT2LMHeadModel",
        "BertForMaskedLM",
        "T5ForConditionalGeneration",
        "MT5ForConditionalGeneration",
        "Gemma3ForCausalLM",
    ],
)
def test_heads_of_language_models_are_tied(root: str) -> None:
    summary = parse_summary(lm(root))
    assert summary.total_params == BODY
    assert any("lm_head" in reason for reason in summary.inferred)


@pytest.mark.parametrize(
    "root",
    [
        "LlamaForCausalLM",
        "GPTNeoXForCausalLM",
        "ApertusForCausalLM",
        "Mamba2ForCausalLM",
        "EuroBertForMaskedLM",
        "MyOwnNet",
        "BertForSequenceClassification",
    ],
)
def test_heads_of_other_models_are_not(root: str) -> None:
    assert parse_summary(lm(root)).total_params == BODY + 16_000


@pytest.mark.parametrize(
    ("kin", "other"), [("MambaForCausalLM", "Mamba2ForCausalLM"), ("GPTNeoXJapaneseForCausalLM", "GPTNeoXForCausalLM")]
)
def test_the_longest_name_that_fits_tells(kin: str, other: str) -> None:
    assert parse_summary(lm(kin)).total_params == parse_summary(lm(other)).total_params - 16_000


def test_a_wrapper_does_not_hide_the_model() -> None:
    text = f"DataParallel(\n  (module): {lm('GPT2LMHeadModel')})\n"
    assert parse_summary(text).total_params == BODY


def test_a_head_keeps_its_bias() -> None:
    head = "Linear(in_features=16, out_features=1000, bias=True)"
    assert parse_summary(lm("BertForMaskedLM", head)).total_params == BODY + 1000


def test_a_head_of_another_size_is_its_own() -> None:
    head = "Linear(in_features=16, out_features=999, bias=False)"
    assert parse_summary(lm("BertForMaskedLM", head)).total_params == BODY + 16 * 999


def test_embeddings_printed_several_times_are_one() -> None:
    extra = "    (embed_tokens): Embedding(1000, 16)\n    (decoder_embed): Embedding(1000, 16)\n"
    assert parse_summary(lm("T5ForConditionalGeneration", extra=extra)).total_params == BODY


def test_a_total_that_counts_once_stays() -> None:
    text = """GPT2LMHeadModel(
  (wte): Embedding(1000, 16), 16,000 params
  (lm_head): Linear(in_features=16, out_features=1000, bias=False), 16,000 params
), 16,000 params
"""
    summary = parse_summary(text)
    assert (summary.total_params, summary.inferred) == (16_000, ())


def test_torchinfo_rows_without_names() -> None:
    text = """\
Layer (type:depth-idx)                   Output Shape              Param #
==========
GPT2LMHeadModel                          [4, 8, 1000]              --
├─Embedding: 1-1                         [4, 8, 16]                16,000
├─Embedding: 1-2                         [8, 16]                   256
├─Linear: 1-3                            [4, 8, 16]                256
├─Linear: 1-4                            [4, 8, 1000]              16,000
==========
"""
    assert parse_summary(text).total_params == 16_512


def test_without_embeddings_nothing_is_shared() -> None:
    text = "OddForCausalLM(\n  (fc): Linear(in_features=16, out_features=1000, bias=False)\n  (e): Embedding()\n)\n"
    assert parse_summary(text).total_params == 16_000


def test_xlnet_projections_are_added() -> None:
    text = """XLNetLMHeadModel(
  (rel_attn): XLNetRelativeAttention(
    (layer_norm): LayerNorm((16,), eps=1e-12, elementwise_affine=True)
    (dropout): Dropout(p=0.1, inplace=False)
  )
  (other): XLNetRelativeAttention(
    (dropout): Dropout(p=0.1, inplace=False)
  )
)
"""
    assert parse_summary(text).total_params == 32 + 5 * 16 * 17


def test_a_table_without_the_models_name_ties_by_its_parts() -> None:
    rows = "\n".join(
        (
            "Embedding-1 [-1, 8, 64] 64,000",
            "GPT2Block-2 [-1, 8, 64] 0",
            "Linear-3 [-1, 8, 1000] 64,000",
        )
    )
    text = f"        Layer (type)               Output Shape         Param #\n=====\n{rows}\n=====\n"
    assert parse_summary(text).total_params == 64_000
    assert parse_summary(text.replace("GPT2Block", "Gemma3DecoderLayer")).total_params == 64_000
    for other in ("MyBlock", "LlamaDecoderLayer", "Mamba2Block"):
        assert parse_summary(text.replace("GPT2Block", other)).total_params == 128_000


def test_a_table_shows_an_embedding_for_each_stack_that_calls_it() -> None:
    rows = "\n".join(
        (
            "Embedding-1 [-1, 8, 64] 64,000",
            "T5Block-2 [-1, 8, 64] 0",
            "Embedding-3 [-1, 8, 64] 64,000",
            "T5Block-4 [-1, 8, 64] 0",
            "Linear-5 [-1, 8, 1000] 64,000",
        )
    )
    text = f"        Layer (type)               Output Shape         Param #\n=====\n{rows}\n=====\n"
    assert parse_summary(text).total_params == 64_000


NET = """Net(
  (body): Sequential(
    (0): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
    (1): ReLU()
  )
  (pool): AdaptiveAvgPool2d(output_size=1)
  (fc): Linear(in_features=8, out_features=10, bias=True)
)
"""


def held(model: str, name: str = "model", beside: str = "") -> str:
    """Write the print of a class that holds a model."""
    return f"LitClassifier(\n  ({name}): {model.rstrip()}\n{beside})\n"


MEASURES = """  (criterion): CrossEntropyLoss()
  (metrics): ModuleDict(
    (train): MetricCollection(
      (MulticlassAccuracy): MulticlassAccuracy()
      (MulticlassF1Score): MulticlassF1Score(),
      prefix=train_
    )
  )
  (perplexity): Perplexity()
"""


@pytest.mark.parametrize(
    ("name", "beside"), [("model", ""), ("net", ""), ("model", MEASURES), ("resnet", "  (loss): FocalLoss()\n")]
)
def test_a_class_that_trains_a_model_is_that_model(name: str, beside: str) -> None:
    summary = parse_summary(held(NET, name, beside))
    assert summary.root == parse_summary(NET).root.but(name=name)


@pytest.mark.parametrize("beside", ["", MEASURES])
def test_heads_inside_of_a_class_that_trains_a_model_are_tied(beside: str) -> None:
    assert parse_summary(held(lm("GPT2LMHeadModel"), "model", beside)).total_params == BODY


def test_a_table_that_names_no_attributes_shows_whole_models_of_transformers_by_their_class() -> None:
    table = """Layer (type:depth-idx)   Output Shape   Param #
=====
Lit   [2, 7, 10]   --
├─GPT2LMHeadModel: 1-1   [2, 7, 10]   --
│    └─Embedding: 2-1   [2, 7, 4]   40
│    └─Linear: 2-2   [2, 7, 10]   40
├─CrossEntropyLoss: 1-2   --   --
=====
Total params: 80
"""
    alone = table.replace("├─CrossEntropyLoss: 1-2   --   --\n", "")
    assert [parse_summary(text).total_params for text in (table, alone)] == [40, 40]


@pytest.mark.parametrize(
    ("text", "root"),
    [
        (held(NET, "stem"), "LitClassifier"),  # its only part by chance
        (held(NET, "model", "  (act): Sigmoid()\n"), "LitClassifier"),
        (held(NET, "model", "  (loss): PerceptualLoss(\n    (0): Linear(in_features=2, out_features=2)\n  )\n"), ""),
        (held(NET.replace("Net(", "Sequential(", 1)), "LitClassifier"),
        (held(NET.replace("Net(", "FSMTModel(", 1)).replace("LitClassifier", "FSMTForX"), "FSMTForX"),
        ("Net(\n  (model): Linear(in_features=2, out_features=2)\n  (loss): MSELoss()\n)\n", "Net"),
        (held(NET).replace("LitClassifier", "YOLO"), "YOLO"),  # which tells how large pictures are
        (held(NET).replace("LitClassifier", "SiameseNet"), "SiameseNet"),  # several calls, one beside the other
        (held(NET, "net", "  (loss): TripletMarginLoss()\n"), "LitClassifier"),
    ],
)
def test_what_does_more_than_to_train_a_model_stays(text: str, root: str) -> None:
    assert parse_summary(text).root.type == (root or "LitClassifier")


def test_what_a_class_makes_of_what_its_model_gives_counts() -> None:
    table = """Layer (type (var_name):depth-idx)   Output Shape   Param #
=====
LitSegmenter (LitSegmenter)   {}   --
├─Net (model): 1-1   [2, 4, 8, 8]   --
│    └─Conv2d (last): 2-1   [2, 4, 8, 8]   40
=====
Total params: 40
"""
    resized, scored = (parse_summary(table.format(shape)).root for shape in ("[2, 4, 32, 32]", "[2, 4]"))
    assert (resized.type, resized.output_shape) == ("Net", (4, 32, 32))
    assert (scored.type, scored.output_shape) == ("Net", (4, 8, 8))


@pytest.mark.parametrize("wrapper", ["OptimizedModule", "CheckpointWrapper", "FullyShardedDataParallel"])
def test_what_pytorch_puts_around_blocks_is_taken_off(wrapper: str) -> None:
    block = "{}Block(\n(fc): Linear(in_features=8, out_features=8)\n)\n"
    text = "Net(\n(first): {0}(0-2): 3 x {0}(last): {1})\n"
    bare = parse_summary(text.format(block.format(""), block.format("")))
    wrapped = parse_summary(text.format(f"{wrapper}(\n{block.format('(module): ')})\n", block.format("")))
    assert replace(wrapped, parallel="") == bare
