"""What a training step and inference hold."""

from __future__ import annotations

from typing import cast

import pytest

from estimator import types
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.liveness import measure, moved_by
from estimator.methods.rad.program import Conv, Scores
from estimator.methods.rad.workspace import Workspaces
from estimator.types import Precision, Workload
from tests.estimator.accounts import LM, MIB, NO_WORKSPACE, VGG, account, table, tree


def test_a_chain_keeps_what_its_derivatives_need() -> None:
    _, program, memory = account(VGG)
    assert [op.kind for op in program.ops] == [Kind.CONV, Kind.KEEPS_OUTPUT, Kind.MAX_POOL, Kind.LINEAR]
    assert program.ops[0].conv == Conv(3, 64, 9, 1, 1, 1024, 1024)
    picture, wide, pooled = 3 * 1024, 64 * 1024, 64 * 256
    # input, ReLU's output (also what pooling keeps), indices, what goes into the linear layer; two samples in fp32
    assert memory.kept == 2 * (4 * (picture + wide + pooled) + 8 * pooled)


def test_weights_gradients_and_states_are_exact() -> None:
    _, _, adam = account(VGG, optimizer="adam")
    _, _, momentum = account(VGG, optimizer="sgd_momentum")
    _, _, sgd = account(VGG, optimizer="sgd")
    _, _, half = account(VGG, precision="bf16")
    params = 165_642
    assert (adam.weights, adam.gradients, adam.states) == (4 * params, 4 * params, 8 * params)
    assert (momentum.states, sgd.states) == (4 * params, 0)
    assert (half.weights, half.states) == (2 * params, 4 * params)


def test_inference_keeps_nothing() -> None:
    _, _, memory = account(VGG, kind="infer")
    assert (memory.gradients, memory.states, memory.kept) == (0, 0, 0)
    assert memory.peak < account(VGG)[2].peak


def test_gradients_of_the_step_before_count_where_its_optimizer_is_not_the_peak() -> None:
    text = table("Linear-# [-1, 1000] 1,001,000", "ReLU-# [-1, 1000] 0", "Linear-# [-1, 1000] 1,001,000")
    large = account(text, batch_size=16_384, optimizer="sgd")[2]
    assert large.peak == large.loss > large.backward
    assert large.longer == pytest.approx(large.gradients)
    small = account(text, batch_size=1, optimizer="adam")[2]
    assert small.peak == small.step
    assert small.longer == 0
    assert account(text, batch_size=16_384, kind="infer")[2].longer == 0


def test_gradients_that_are_added_up_are_there_beside_the_one_that_is_made() -> None:
    wide = table("Conv2d-# [-1, 64, 32, 32] 1,792", "ReLU-# [-1, 64, 32, 32] 0", "Linear-# [-1, 1000] 65,537,000")
    memory = account(wide, batch_size=64, optimizer="sgd")[2]
    assert memory.peak == memory.backward
    assert memory.gradients * 0.9 < memory.longer < memory.gradients


@pytest.mark.parametrize("precision", ["fp32", "amp", "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["train", "infer"])
def test_memory_grows_with_the_batch(precision: str, kind: str) -> None:
    small = account(VGG, precision=precision, kind=kind, batch_size=8)[2].peak
    large = account(VGG, precision=precision, kind=kind, batch_size=64)[2].peak
    assert large > small > 0


def test_an_inplace_relu_takes_no_tensor_of_its_own() -> None:
    text = """Net(
  (c): Conv2d(3, 8, kernel_size=(3, 3), padding=(1, 1))
  (r): ReLU(inplace=True)
  (d): Conv2d(8, 8, kernel_size=(3, 3), padding=(1, 1))
)
"""
    _, program, inplace = account(text)
    _, other, separate = account(text.replace("inplace=True", ""))
    assert len(other.tensors) == len(program.tensors) + 1
    assert inplace.kept == separate.kept


def test_a_language_model_keeps_projections_factors_and_logits() -> None:
    _, program, memory = account(LM, seq_len=16)
    assert [op.kind for op in program.ops[:9]] == [
        Kind.EMBEDDING,
        Kind.LAYER_NORM,
        Kind.LINEAR,
        Kind.ATTENTION,
        Kind.LINEAR,
        Kind.LINEAR,
        Kind.KEEPS_INPUT,
        Kind.LINEAR,
        Kind.LINEAR,
    ]
    assert program.ops[4].x == program.ops[3].y
    act, up, down = program.ops[6:9]
    assert {act.y, up.y} <= program.kept
    assert program.tensors[down.x] == 16 * 256
    assert down.x not in (act.y, up.y)
    assert (program.classes, program.tokens, program.causal) == (1000, 16, True)
    assert program.cache == 2 * 2 * 16 * 64
    assert memory.loss > memory.forward


def test_half_precision_losses_of_causal_models_are_computed_in_fp32() -> None:
    _, program, causal = account(LM, seq_len=16, precision="bf16", batch_size=512)
    masked = account(LM.replace("GPT2LMHeadModel", "MyEncoder"), seq_len=16, precision="bf16", batch_size=512)[2]
    cache = program.cache * 512 * 2
    assert causal.loss - masked.loss - cache == pytest.approx((4.1 - 2.5) * 512 * 16 * 1000 * 4, rel=2e-2)


def test_only_models_that_are_given_labels_compute_a_loss_in_inference() -> None:
    own = LM.replace("GPT2LMHeadModel", "Chat")
    for text, loses in ((LM, True), (own, False), (LM.replace("GPT2LMHeadModel", "OPTForCausalLM"), True)):
        memory = account(text, seq_len=64, batch_size=64, kind="infer")[2]
        assert (memory.loss > memory.forward) is loses
        assert (memory.loss > 0) is loses


STACK = """    (block): ModuleList(
      (0): T5Block(
        (attn): MyAttention(
          (q): Linear(in_features=64, out_features=64, bias=False)
          (k): Linear(in_features=64, out_features=64, bias=False)
          (v): Linear(in_features=64, out_features=64, bias=False)
          (o): Linear(in_features=64, out_features=64, bias=False)
        )
      )
    )
  )
"""
TWO_STACKS = f"""T5ForConditionalGeneration(
  (shared): Embedding(1000, 64)
  (one): T5Stack(
{STACK}  (two): T5Stack(
{STACK}  (lm_head): Linear(in_features=64, out_features=1000, bias=False)
)
"""


def test_keys_and_values_of_an_encoder_are_not_given_out() -> None:
    once = 2 * 16 * 64
    assert account(TWO_STACKS, seq_len=16)[1].cache == once
    for first, times in (("MyVisionTower", 1), ("MyTextEncoder", 1), ("MyDecoder", 2)):
        assert account(TWO_STACKS.replace("(one): T5Stack", f"(one): {first}"), seq_len=16)[1].cache == times * once


@pytest.mark.parametrize(
    ("projections", "cached"),
    [
        (["Linear-# [-1, 16, 64] 4,096"] * 3, 2 * 64),
        (["Linear-# [-1, 16, 64] 4,096", *["Linear-# [-1, 16, 16] 1,024"] * 2], 2 * 16),
        (["LayerNorm-# [-1, 16, 64] 128", "Conv1D-# [-1, 16, 192] 12,480"], 2 * 64),
    ],
)
def test_tables_show_keys_and_values_before_their_attention(projections: list[str], cached: int) -> None:
    layer = (
        *projections,
        "Linear-# [-1, 16, 64] 4,096",
        "{}Attention-# [-1, 16, 64] 0",
        "Linear-# [-1, 16, 256] 16,384",
        "Linear-# [-1, 16, 64] 16,384",
        "{}DecoderLayer-# [-1, 16, 64] 0",
    )
    rows = "\n".join(("Embedding-# [-1, 16, 64] 64,000", *layer, *layer, "{}Decoder-# [-1, 16, 64] 0"))
    head = "Linear-# [-1, 16, 9000] 576,000"
    for name, caches in (("OPT", True), ("Foo", True), ("", False), ("Transformer", False)):
        program = account(table(*rows.replace("{}", name).split("\n"), head))[1]
        assert program.cache == (2 * 16 * cached if caches else 0)
        assert (program.causal, program.labelled, program.caches) == (caches, caches, caches)


def test_tables_show_that_several_queries_share_a_key() -> None:
    rows = ("Embedding-# [-1, 128, 256] 64,000", "Linear-# [-1, 128, 256] 65,536")
    end = ("Linear-# [-1, 128, 256] 65,536", "FooAttention-# [-1, 128, 256] 0")
    for width, found in ((128, [(Scores.SHARED_KEYS, 4 * 128 * 128)]), (256, [(Scores.PLAIN, 0)])):
        key = f"Linear-# [-1, 128, {width}] {256 * width:,}"
        ops = account(table(*rows, key, key, *end))[1].ops
        assert [(op.scores, op.matrix) for op in ops if op.kind is Kind.ATTENTION] == found


def test_eager_attention_works_in_fp32() -> None:
    text = LM.replace("GPT2Attention", "BloomAttention")
    nameless = text.replace("GPT2LMHeadModel", "Net").replace("GPT2Model", "Rest")
    for each, times in ((LM, 0), (text, 4), (nameless, 2)):
        program = account(each, seq_len=512)[1]
        at = next(at for at, op in enumerate(program.ops) if op.kind is Kind.ATTENTION)
        more = moved_by(program, "bf16")[at] - moved_by(account(LM, seq_len=512)[1], "bf16")[at]
        assert more == pytest.approx(times * 512 * 512, abs=100_000)


def test_eager_attention_keeps_its_matrix() -> None:
    text = LM.replace("GPT2Attention", "{}")
    eager = account(text.replace("{}", "BloomAttention"), seq_len=64)[1]
    fused = account(text.replace("{}", "GPT2SdpaAttention"), seq_len=64)[1]
    assert [op.matrix for op in eager.ops if op.kind is Kind.ATTENTION] == [64 * 64] * 2
    assert not any(op.matrix for op in fused.ops)


BLOCK = """        (0-1): 2 x LlamaDecoderLayer(
          (self_attn): LlamaAttention(
            (q_proj): Linear(in_features=256, out_features=256, bias=False)
            (k_proj): Linear(in_features=256, out_features=128, bias=False)
            (v_proj): Linear(in_features=256, out_features=128, bias=False)
            (o_proj): Linear(in_features=256, out_features=256, bias=False)
          )
        )
"""


LLAMA = f"""LlamaForCausalLM(
  (model): LlamaModel(
    (embed_tokens): Embedding(1000, 256)
    (layers): ModuleList(
{BLOCK}    )
  )
  (lm_head): Linear(in_features=256, out_features=1000, bias=False)
)
"""


def test_shared_keys_keep_a_matrix_in_fp32_alone() -> None:
    _, program, fp32 = account(LLAMA, seq_len=128)
    attentions = [op for op in program.ops if op.kind is Kind.ATTENTION]
    assert [(op.scores, op.matrix, op.extra) for op in attentions] == [
        (Scores.SHARED_KEYS, 4 * 128 * 128, 2 * 128 * 128)
    ] * 2
    normed = LLAMA.replace(
        "            (k_proj)", "            (k_norm): LlamaRMSNorm((128,), eps=1e-06)\n            (k_proj)"
    )
    assert [op.matrix for op in account(normed, seq_len=128)[1].ops if op.kind is Kind.ATTENTION] == [2 * 128 * 128] * 2
    equal = account(LLAMA.replace("out_features=128", "out_features=256"), seq_len=128)[2]
    # expanded keys and values make up for the narrower ones; what is more is the matrix
    assert fp32.kept - equal.kept == 2 * 2 * 4 * 4 * 128 * 128
    half = account(LLAMA, seq_len=128, precision="bf16")[2]
    assert half.kept < fp32.kept / 2


def test_autocast_copies_what_a_norm_gives_out_for_each_product() -> None:
    one = "(q): Linear(in_features=64, out_features=64, bias=True)"
    text = "Net(\n  (e): Embedding(10, 64)\n  (n): LayerNorm((64,), eps=1e-05)\n  (b): ModuleDict(\n    {}\n  )\n)\n"
    single = account(text.format(one), seq_len=8, precision="amp")[2].kept
    norm, copy = 4 * 2 * 8 * 64, 2 * 2 * 8 * 64
    assert single == norm + copy


def test_a_tied_embeddings_gradient_is_there_twice() -> None:
    text = LM.replace("Embedding(1000, 64)", "Embedding(100000, 64)").replace(
        "out_features=1000", "out_features=100000"
    )
    tied = account(text, seq_len=1, batch_size=1, optimizer="sgd")[2]
    program = account(text, seq_len=1)[1]
    assert program.shared == 6_400_000
    assert tied.backward > tied.weights + tied.gradients + 2 * 4 * program.shared


def test_models_with_an_encoder_compute_their_loss_in_the_logits_precision() -> None:
    text = LM.replace("GPT2LMHeadModel", "BartForConditionalGeneration").replace("GPT2Model", "BartEncoder")
    program = account(text.replace("GPT2Block", "BartDecoder"), seq_len=16)[1]
    assert (program.causal, program.biased) == (False, True)
    assert account(text, seq_len=16)[1].causal  # what encodes may be pictures, which a model without one goes on from
    assert not account(text.replace("BartEncoder", "T5Stack"), seq_len=16)[1].causal
    assert program.cache == 0


def test_inference_of_language_models_holds_caches_and_computes_a_loss() -> None:
    logits = 4 * 2 * 512 * 1000
    run = {"seq_len": 512, "kind": "infer"}
    causal = account(LM, **run)[2]
    cache = 2 * 2 * 4 * 2 * 2 * 512 * 64
    # of two calls: the logits and what is cached; and once more the logarithm of these logits
    assert causal.loss - causal.weights == pytest.approx(cache + 3 * logits + 32.5 * MIB, rel=0.01)
    half = account(LM, precision="bf16", **run)[2]
    assert half.loss - half.weights == pytest.approx(cache / 2 + logits + 2 * logits + 32.5 * MIB, rel=0.01)
    text = LM.replace("GPT2LMHeadModel", "MyForMaskedLM").replace("GPT2Model", "MyEncoder").replace("GPT2", "My")
    masked = account(text, precision="bf16", **run)[2]
    assert masked.loss - masked.weights == pytest.approx(logits + logits / 2 + 32.5 * MIB, rel=0.01)
    one = account(VGG, kind="infer")[2]
    assert one.loss == 0


def test_inference_holds_queries_keys_and_values() -> None:
    text = LLAMA.replace("out_features=128", "out_features=256")
    fused = account(text, seq_len=128, kind="infer", batch_size=64)[2]
    eager = account(text.replace("LlamaAttention", "BloomAttention"), seq_len=128, kind="infer", batch_size=64)[2]
    tensor = 4 * 64 * 128 * 256
    assert fused.forward - fused.weights >= (2 + 3) * tensor
    assert eager.forward - fused.forward == pytest.approx(2 * tensor + 2 * 4 * 64 * 4 * 128 * 128, rel=0.01)


def test_callers_hold_what_goes_into_blocks() -> None:
    # conv, relu and conv in a block: while the relu runs, the block's input waits, too.
    text = """Net(
  (stem): Conv2d(3, 16, kernel_size=(3, 3), padding=(1, 1))
  (block): Block(
    (a): Conv2d(16, 64, kernel_size=(1, 1))
    (act): ReLU()
    (b): Conv2d(64, 16, kernel_size=(1, 1))
  )
)
"""
    _, program, memory = account(text, kind="infer")
    picture = 224 * 224
    assert dict(program.skips) == {2: 16 * picture, 3: 16 * picture}
    held = memory.forward - memory.weights
    assert held == pytest.approx(4 * 2 * picture * (3 + 2 * 64 + 16), rel=0.15)


def test_recurrent_networks_work_on_as_much_as_they_kept() -> None:
    small = tree("Own [2, 8] --", "├─Embedding: 1-1 [2, 500, 64] 6,400", "├─LSTM: 1-2 [2, 500, 64] 33,280")
    _, program, memory = account(small, batch_size=64)
    recurrent = program.ops[1]
    assert memory.peak > memory.kept + recurrent.extra * 64 * 4


def test_copies_that_autocast_made_are_free_once_their_layer_is_done() -> None:
    """The gradient of the first layer comes last, when the copies of all others are gone."""
    rows = table(*["Linear-# [-1, 2048] 4,196,352"] * 3)
    _, program, memory = account(rows, batch_size=1, precision="amp", optimizer="sgd")
    assert sum(op.params for op in program.ops) == 3 * 4_196_352
    largest = memory.weights + memory.gradients + 2 * 4_196_352
    assert memory.backward == pytest.approx(largest + 65 * MIB, rel=0.01)


def test_inference_under_autocast_casts_what_is_multiplied_alone() -> None:
    text = LM.replace("1000, 64", "100000, 64")
    fp32, amp = (account(text, kind="infer", precision=precision, seq_len=8)[2] for precision in ("fp32", "amp"))
    assert amp.weights == fp32.weights
    assert amp.forward - fp32.forward < fp32.weights / 4


@pytest.mark.parametrize("kind", ["train", "infer"])
@pytest.mark.parametrize(("precision", "there"), [("fp32", True), ("amp", False), ("bf16", False)])
def test_a_fused_kernel_makes_no_matrix_where_queries_share_keys(kind: str, precision: str, there: bool) -> None:
    shaped, program, _ = account(LM, seq_len=8)
    run = Workload(2, 8, precision=cast("Precision", precision), kind=cast("types.Kind", kind))
    peaks = []
    for matrix in (0, 10**6):
        for op in program.ops:
            if op.kind is Kind.ATTENTION:
                op.matrix, op.scores = matrix, Scores.SHARED_KEYS
        peaks.append(measure(program, shaped, run, Workspaces(NO_WORKSPACE)).peak)
    assert (peaks[1] - peaks[0] > 10**6) == there


@pytest.mark.parametrize("kind", ["train", "infer"])
def test_recurrent_layers_work_one_after_the_other(kind: str) -> None:
    text = "Net(\n  (words): Embedding(100, 64)\n  (rnn): LSTM(64, 64, num_layers={})\n)\n"
    once, two, many = (account(text.format(n), kind=kind, batch_size=256, seq_len=128) for n in (1, 2, 16))
    out = 4 * 256 * 128 * 64
    layer = (many[2].weights - two[2].weights) / 14
    if kind == "infer":  # with a copy of the weights, in one piece
        assert two[2].forward - once[2].forward == pytest.approx(3 * out + 2 * layer)
        assert many[2].forward - two[2].forward == pytest.approx(14 * 2 * layer)
    else:
        assert many[2].kept - two[2].kept == 6 * 14 * out
        at_work = [memory.backward - memory.kept - memory.states - 2 * memory.weights for _, _, memory in (two, many)]
        assert at_work[0] == pytest.approx(at_work[1], rel=0.01)


def test_a_hidden_block_that_gives_out_one_row_works_with_a_part_of_what_is_printed_inside() -> None:
    rows = ["Net  [2, 10]  --", "├─Trunk: 1-1  [2, 64]  500,000", "├─Linear: 1-2  [2, 10]  650"]
    small, large = (tree(*rows) + f"Forward/backward pass size (MB): {size}\n" for size in ("8.00", "80.00"))
    less, more = (account(text, kind="infer", batch_size=64)[2].peak for text in (small, large))
    inside = 4 * 80e6 / 8 / 2 * 64  # bytes of a batch
    assert 0.25 * inside < more < inside
    assert more > 5 * less
    pixel = large.replace("[2, 64]", "[2, 64, 1, 1]")
    assert account(pixel, kind="infer", batch_size=64)[2].peak == more
    tokens = large.replace("[2, 64]", "[2, 8, 64]")  # what it gives out says how large they are
    assert account(tokens, kind="infer", batch_size=64)[2].peak < 0.1 * inside


def test_a_hidden_block_that_takes_much_more_than_it_gives_out_works_with_what_it_takes() -> None:
    rows = [
        "Net  [2, 10]  --",
        "├─Conv2d: 1-1  [2, 8, 128, 128]  224",
        "├─Trunk: 1-2  [2, 64, 4, 4]  500,000",
        "├─Linear: 1-3  [2, 10]  10,250",
    ]
    text = tree(*rows) + "Forward/backward pass size (MB): 80.00\n"
    picture = 4 * 8 * 128 * 128 * 64
    assert account(text, kind="infer", batch_size=64)[2].peak > 10 * picture
