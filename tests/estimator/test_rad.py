"""RAD's estimate: the program, the account of a step, workspaces, trees, and the whole method."""

from __future__ import annotations

import contextlib
import gc
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from estimator import blocks
from estimator.gpus import lookup
from estimator.methods import load_method
from estimator.methods.rad import Rad, damped, size_of
from estimator.methods.rad.familiar import plain_names, unfamiliar
from estimator.methods.rad.features import FEATURES, features
from estimator.methods.rad.kinds import Kind, attends, attends_eagerly, attends_with_bias, kind_of
from estimator.methods.rad.known import KNOWLEDGE, LEVELS, run_of, shifted, tabulate
from estimator.methods.rad.liveness import Memory, measure
from estimator.methods.rad.program import Conv, Op, Program, Scores, compile_program
from estimator.methods.rad.trees import Trees
from estimator.methods.rad.workspace import Workspaces, total_bytes
from estimator.methods.rad.workspace import features as conv_features
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.store import ModelError, store_for
from estimator.types import Layer, ModelSummary, SummaryError, Workload
from estimator.walk import layers
from scripts.demo_data.summaries import bert_base
from slurm_hooks.bench import transformer

MIB = 2**20
NOTHING: dict[str, Any] = {"start": 0.0, "trees": []}
NO_WORKSPACE = {"forward": NOTHING, "input": NOTHING, "weight": NOTHING}


def plain(**changes: Any) -> dict[str, Any]:
    model = {
        "features": [*FEATURES, *KNOWLEDGE],
        "workspaces": NO_WORKSPACE,
        "correction": NOTHING,
        "spread": {"start": 1.0, "trees": []},
        "bounds": dict.fromkeys(LEVELS, 0.1),
        "gpu": "h200",
        "context_mib": 750,
        "known": [],
        "measured": {},
        "own": {},
    }
    return {**model, **changes}


def account(text: str, **workload: Any) -> tuple[ModelSummary, Program, Memory]:
    run = Workload(**{"batch_size": 2, **workload})
    shaped = with_shapes(parse_summary(text), run)
    program = compile_program(shaped)
    return shaped, program, measure(program, shaped, run, Workspaces(NO_WORKSPACE))


def table(*rows: str) -> str:
    body = "\n".join(f"{i}".join(row.split("#")) for i, row in enumerate(rows, 1))
    return f"        Layer (type)               Output Shape         Param #\n======\n{body}\n======\n"


VGG = table(
    "Conv2d-# [-1, 64, 32, 32] 1,792",
    "ReLU-# [-1, 64, 32, 32] 0",
    "MaxPool2d-# [-1, 64, 16, 16] 0",
    "Linear-# [-1, 10] 163,850",
)


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


LM = """GPT2LMHeadModel(
  (transformer): GPT2Model(
    (wte): Embedding(1000, 64)
    (h): ModuleList(
      (0-1): 2 x GPT2Block(
        (ln_1): LayerNorm((64,), eps=1e-05, elementwise_affine=True)
        (attn): GPT2Attention(
          (c_attn): Conv1D(nf=192, nx=64)
          (c_proj): Conv1D(nf=64, nx=64)
        )
        (mlp): GatedMLP(
          (gate_proj): Linear(in_features=64, out_features=256, bias=False)
          (up_proj): Linear(in_features=64, out_features=256, bias=False)
          (down_proj): Linear(in_features=256, out_features=64, bias=False)
          (act_fn): SiLU()
        )
      )
    )
  )
  (lm_head): Linear(in_features=64, out_features=1000, bias=False)
)
"""


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
    causal = account(LM, seq_len=16, precision="bf16", batch_size=512)[2]
    masked = account(LM.replace("GPT2LMHeadModel", "MyEncoder"), seq_len=16, precision="bf16", batch_size=512)[2]
    assert causal.loss - masked.loss == pytest.approx((4.1 - 2.5) * 512 * 16 * 1000 * 4, rel=2e-2)


def test_eager_attention_keeps_its_matrix() -> None:
    text = LM.replace("GPT2Attention", "{}")
    eager = account(text.replace("{}", "BloomAttention"), seq_len=64)[1]
    fused = account(text.replace("{}", "GPT2SdpaAttention"), seq_len=64)[1]
    assert [op.matrix for op in eager.ops if op.kind is Kind.ATTENTION] == [64 * 64] * 2
    assert not any(op.matrix for op in fused.ops)


INFO = """Layer (type:depth-idx)                   Output Shape              Param #
==========
ViT                                      [2, 10]                   --
├─Conv2d: 1-1                            [2, 96, 4, 4]             4,704
├─EncoderBlock: 1-2                      [2, 16, 96]               --
│    └─LayerNorm: 2-1                    [2, 16, 96]               192
│    └─MultiheadAttention: 2-2           [2, 16, 96]               37,248
│    └─SelfAttention: 2-3                [2, 16, 96]               --
│    │    └─Linear: 3-1                  [2, 16, 96]               9,312
│    │    └─Linear: 3-2                  [2, 16, 96]               9,312
│    │    └─Linear: 3-3                  [2, 16, 96]               9,312
│    │    └─Dropout: 3-4                 [2, 4, 16, 16]            --
│    │    └─Linear: 3-5                  [2, 16, 96]               9,312
├─Stage: 1-3                             [2, 16, 96]               50,000
├─ModuleList: 1-4                        --                        70,000
├─Linear: 1-5                            [2, 10]                   970
==========
Forward/backward pass size (MB): 1.00
"""


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


def test_rms_norms_gelus_dropouts_and_recurrence() -> None:
    base = "Net(\n  (e): Embedding(10, 64)\n  (x): {}\n  (l): Linear(in_features=64, out_features=64, bias=True)\n)\n"

    def kept(layer: str, **workload: Any) -> float:
        return account(base.format(layer), seq_len=8, **workload)[2].kept

    nothing = kept("Identity()")
    tensor = 2 * 8 * 64
    assert kept("Dropout(p=0.0, inplace=False)") == nothing
    assert kept("Dropout(p=0.5, inplace=False)") == nothing + tensor
    assert kept("GELU(approximate='none')") == nothing + 4 * tensor
    assert kept("NewGELUActivation()") == nothing + 16 * tensor
    assert kept("LlamaRMSNorm((64,), eps=1e-06)") == nothing + 8 * tensor
    half = kept("Identity()", precision="bf16")
    assert kept("LlamaRMSNorm((64,), eps=1e-06)", precision="bf16") == half + (4 + 2) * tensor
    amp = kept("Identity()", precision="amp")
    assert kept("LayerNorm((64,), eps=1e-06)", precision="amp") == amp + 4 * tensor
    assert kept("QuickGELUActivation()") == nothing + 4 * tensor  # its sigmoid; its output goes on
    assert kept("LSTM(64, 64, num_layers=2)") == nothing + 4 * 12 * tensor


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("Conv2d", Kind.CONV),
        ("StdConv2dSame", Kind.CONV),
        ("Conv2D", Kind.CONV),
        ("ConvTranspose2d", Kind.CONV),
        ("Conv2dNormActivation", Kind.VIEW),
        ("BasicConv2d", Kind.CONV),
        ("Conv1D", Kind.LINEAR),
        ("FrozenBatchNorm2d", Kind.BATCH_NORM),
        ("LayerNorm2d", Kind.LAYER_NORM),
        ("Hardswish", Kind.KEEPS_INPUT),
        ("ReLU6", Kind.KEEPS_INPUT),
        ("Bottleneck", Kind.VIEW),
    ],
)
def test_kinds(type_: str, kind: Kind) -> None:
    assert kind_of(type_) is kind


def test_attentions_are_told_by_name() -> None:
    assert attends("BertSdpaSelfAttention")
    assert not attends("AttentionPool2d")
    assert not attends("CvtSelfAttentionProjection")
    assert attends("GPSA")
    assert attends_eagerly("BloomAttention")
    assert attends_with_bias("T5Attention")
    assert not attends_eagerly("GPT2SdpaAttention")


TREE = {
    "feature": [0, -1, 1, -1, -1],
    "value": [1.5, 10.0, 0.5, 20.0, 30.0],
    "left": [1, -1, 3, -1, -1],
    "right": [2, -1, 4, -1, -1],
}


def apart(layer: Layer) -> Layer:
    """The same layer, none of whose parts is an object that stands elsewhere too."""
    return layer._replace(children=tuple([apart(child) for child in layer.children]))


def said_of(program: Program) -> tuple[object, ...]:
    steps = [tuple(getattr(op, name) for name in Op.__slots__) for op in program.ops]
    return (*program._replace(ops=[], ends=()), steps, [tuple(end) for end in program.ends])


@pytest.mark.parametrize("text", [bert_base(8), transformer(100)], ids=["print", "torchinfo"])
def test_equal_blocks_are_copied_as_they_would_be_followed(text: str) -> None:
    shaped = with_shapes(parse_summary(text), Workload(2, 64))
    containers = [layer for layer in layers(shaped.root) if layer.children]
    assert len({id(layer) for layer in containers}) < len(containers)
    assert said_of(compile_program(shaped)) == said_of(compile_program(replace(shaped, root=apart(shaped.root))))


def test_trees_add_their_leaves() -> None:
    trees = Trees({"start": 1.0, "trees": [TREE, TREE]})
    assert trees.predict([1.0, 0.0]) == 21.0
    assert trees.predict([2.0, 0.5]) == 41.0
    assert trees.predict([2.0, 0.6]) == 61.0


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {**TREE, "left": [0, -1, 3, -1, -1]},
        {**TREE, "right": [9, -1, 4, -1, -1]},
        {**TREE, "value": [1.0]},
        {**TREE, "feature": ["x"] * 5},
        {"feature": [], "value": [], "left": [], "right": []},
        {"feature": [0, 0, -1], "value": [1.0] * 3, "left": [1, 2, -1], "right": [1, 2, -1]},
        {**TREE, "feature": [255, -1, 1, -1, -1]},
        {**TREE, "feature": [7, -1, 1, -1, -1]},
        {**TREE, "feature": [math.inf, -1, 1, -1, -1]},
        {**TREE, "value": [1.5, math.nan, 0.5, 20.0, 30.0]},
        {**TREE, "value": [10**400, 10.0, 0.5, 20.0, 30.0]},
    ],
)
def test_damaged_trees_are_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="damaged"):
        Trees({"start": 0.0, "trees": [tree]}, 7)
    with pytest.raises(ModelError, match="damaged"):
        Trees({"start": math.inf, "trees": []})


def test_workspaces_are_ratios_of_the_tensors() -> None:
    conv = Conv(16, 32, 9, 1, 1, 1024, 1024)
    half = {"start": 0.5, "trees": []}
    spaces = Workspaces({"forward": half, "input": {"start": 2.0, "trees": []}, "weight": NOTHING})
    total = total_bytes(conv, 4, "fp32")
    assert total == 4 * (4 * (16 + 32) * 1024 + 16 * 32 * 9)
    assert spaces.of(conv, 4, "fp32") == (0.5 * total, 2.0 * total)
    assert spaces.of(conv._replace(transposed=True), 4, "fp32") == (2.0 * total, 0.5 * total)
    assert len(conv_features(conv, 4, "bf16")) == 19
    with pytest.raises(ModelError, match="damaged"):
        Workspaces({"forward": half})


def test_the_estimate_is_account_context_correction_and_bound() -> None:
    summary = parse_summary(VGG)
    run = Workload(64)
    method = Rad(plain(correction={"start": math.log(1.5), "trees": []}), version=3)
    memory = account(VGG, batch_size=64)[2]
    estimate = method.predict(summary, run)
    assert estimate.expected_mib == round((memory.peak / MIB + 750) * 1.5)
    # the bound is 0.1 times the size of an error, which this spread says is 1 where all of the memory may be wrong
    fixed = (memory.weights + memory.gradients + memory.states) / MIB + 750
    _, share = shifted(estimate.expected_mib, fixed, 0.0)
    size = size_of(1.0, share)
    assert estimate.upper_mib == pytest.approx(estimate.expected_mib * math.exp(0.1 * size), rel=1e-3)
    assert (estimate.method, estimate.family, len(estimate.fingerprint)) == ("rad 3", "cnn", 32)
    assert any("750 MiB of CUDA context (h200)" in reason for reason in estimate.reasons)


def test_errors_of_small_activations_weigh_less_but_never_nothing() -> None:
    assert damped(1.0) == 1.0
    assert damped(0.25) == 0.5
    assert 0 < damped(0.0) == damped(0.01) < 0.2
    assert size_of(0.5, 0.25) - size_of(0.0, 0.25) == pytest.approx((0.5 - 0.02) / 2)
    assert size_of(-1.0, 0.0) > 0.04


def test_other_gpus_have_their_context_and_a_wider_bound() -> None:
    method = Rad(plain())
    summary = parse_summary(VGG)
    own, other, unknown = (method.predict(summary, Workload(64, gpu=gpu)) for gpu in ("h200", "a100", "mystery"))
    assert own.expected_mib - other.expected_mib == 750 - lookup("a100").context_mib
    assert other.upper_mib / other.expected_mib > own.upper_mib / own.expected_mib
    assert unknown.upper_mib / unknown.expected_mib > other.upper_mib / other.expected_mib
    assert any("wider bound" in reason for reason in other.reasons)


def test_a_bound_ends_with_the_gpu_but_what_is_expected_does_not() -> None:
    method = Rad(plain(bounds=dict.fromkeys(LEVELS, 100.0)))
    summary = parse_summary(VGG)
    free, small, named = (
        method.predict(summary, Workload(64, gpu=gpu, gpu_memory_mib=memory))
        for gpu, memory in (("mystery", 0), ("mystery", 12_000), ("t4", 0))
    )
    assert free.upper_mib > 15_360 > small.expected_mib == free.expected_mib
    assert (small.upper_mib, named.upper_mib) == (12_000, 15_360)
    assert named.reasons[0].endswith("was cut to the GPU's memory of 15360 MiB")
    beyond = method.predict(summary, Workload(40_960, gpu="t4"))
    assert beyond.upper_mib == beyond.expected_mib > 15_360


def test_hidden_insides_and_keras_are_said() -> None:
    method = Rad(plain())
    assert any("greater depth" in reason for reason in method.predict(parse_summary(INFO), Workload(2)).reasons)
    keras = "Layer (type)      Output Shape         Param #\n=====\nd (Dense)         (None, 10)           110\n=====\n"
    assert any("TensorFlow" in reason for reason in method.predict(parse_summary(keras), Workload(2)).reasons)


@pytest.mark.parametrize(
    "change",
    [
        {"features": ["other"]},
        {"bounds": None},
        {"context_mib": "x"},
        {"context_mib": math.nan},
        {"context_mib": 10**400},
        {"bounds": dict.fromkeys(LEVELS, math.inf)},
        {"spread": {"start": 0.0, "trees": [{**TREE, "feature": [len(FEATURES) + len(KNOWLEDGE), -1, 1, -1, -1]}]}},
        {"correction": {}},
        {"workspaces": {}},
        {"gpu": None, "features": None},
    ],
)
def test_damaged_models_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        Rad(plain(**change))


@pytest.mark.parametrize("collects", [False, True])
def test_to_read_a_model_leaves_the_collector_of_garbage_as_it_was(collects: bool, tmp_path: Path) -> None:
    (tmp_path / "rad").mkdir()
    (tmp_path / "rad" / "current").write_text("7\n")
    try:
        if not collects:
            gc.disable()
        Rad.load()
        assert gc.isenabled() is collects
        with pytest.raises(ModelError):
            Rad.load(tmp_path)
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_features_have_names() -> None:
    shaped, program, memory = account(LM, seq_len=16)
    assert len(features(memory, program, shaped, Workload(2, 16), "transformer")) == len(FEATURES)


def test_what_was_measured_of_an_architecture_corrects_its_account_and_narrows_its_bound() -> None:
    unknown = Rad(plain())
    summary, workload = parse_summary(VGG), Workload(2000)
    shaped, program, _, _ = unknown.account(summary, workload)
    bounds = {**dict.fromkeys(map(str, LEVELS), 10.0), "measured": 0.5}
    table = tabulate([(run_of(program, shaped, workload), 0.5)])
    before = Rad(plain(bounds=bounds)).predict(summary, workload)
    after = Rad(plain(bounds=bounds, measured=table)).predict(summary, workload)
    other = Rad(plain(bounds=bounds, measured=table)).predict(parse_summary(VGG.replace("ReLU", "GELU")), workload)
    assert after.expected_mib > 1.2 * before.expected_mib
    assert after.upper_mib / after.expected_mib < before.upper_mib / before.expected_mib
    assert "this architecture was measured" in after.reasons[0]
    assert "nothing like this model was measured" in before.reasons[0]
    assert "nothing like this model was measured" in other.reasons[0]


def test_a_damaged_table_of_measured_runs_is_an_error() -> None:
    damaged: list[Any] = [[], {"a": [[1, 2]]}, {"a": [[1, 2, 3, [1, 2, 3, 4]]]}, {"a": [["x", 2, 3, []]]}]
    damaged += [{"a": [[1, 2, 3, [value, 2, 3]]]} for value in (math.nan, 1.5, "1", 10**400)]
    for table in damaged:
        with pytest.raises(ModelError, match="damaged"):
            Rad(plain(measured=table))


def test_the_shipped_model_answers() -> None:
    method = load_method("rad")
    number = store_for("rad", None).current
    estimate = method.predict(parse_summary(VGG), Workload(64))
    assert estimate.method == f"rad {number}"
    assert 700 < estimate.expected_mib <= estimate.upper_mib < 2000


def test_inference_imports_neither_torch_nor_numpy_nor_sklearn() -> None:
    code = (
        "import sys; from estimator.methods import load_method; from estimator.parsers import parse_summary;"
        "from estimator.types import Workload;"
        f"load_method('rad').predict(parse_summary({VGG!r}), Workload(8)); load_method('horus');"
        "print([name for name in ('torch', 'numpy', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "text", ["Net(\n  (a): PReLU(num_parameters=1)\n)\n", "Net(\n  (a): Conv2d(3, 8, kernel_size=(3, 3))\n)\n"]
)
@pytest.mark.parametrize("batch", [1, 10**9])
def test_extremes_are_answered(text: str, batch: int) -> None:
    estimate = Rad(plain()).predict(parse_summary(text), Workload(batch))
    assert 0 < estimate.expected_mib <= estimate.upper_mib <= 10**12


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


def test_windows_that_torchsummary_drops_are_put_back() -> None:
    rows = table(
        "Conv2d-# [-1, 96, 56, 56] 4,704",
        "LayerNorm-# [-1, 56, 56, 96] 192",
        "Linear-# [-1, 49, 288] 27,936",
        "Softmax-# [-1, 3, 49, 49] 0",
        "Linear-# [-1, 49, 96] 9,312",
        "WindowAttention-# [-1, 49, 96] 0",
        "LayerNorm-# [-1, 3136, 96] 192",
    )
    shapes = [layer.output_shape for layer in account(rows)[0].root.children]
    assert shapes[2:6] == [(64, 49, 288), (64, 3, 49, 49), (64, 49, 96), (64, 49, 96)]
    assert shapes[6] == (3136, 96)


def test_windows_of_a_volume_that_was_filled_up_are_put_back() -> None:
    rows = table(
        "Conv3d-# [-1, 24, 32, 32, 32] 216",
        "LayerNorm-# [-1, 32, 32, 32, 24] 48",
        "Linear-# [-1, 343, 72] 1,800",
        "Linear-# [-1, 343, 24] 600",
        "WindowAttention-# [-1, 343, 24] 0",
    )
    shapes = [layer.output_shape for layer in account(rows)[0].root.children]
    assert shapes[2:] == [(125, 343, 72), (125, 343, 24), (125, 343, 24)]


def test_a_matrix_of_weights_is_no_picture_cut_into_windows() -> None:
    def kept(tokens: int, width: int) -> tuple[list[tuple[int, int]], float]:
        rows = table(
            f"Embedding-# [-1, {tokens}, {width}] {50_000 * width:,}",
            *(f"Linear-# [-1, {tokens}, {width}] {width * width:,}",) * 3,
            f"Dropout-# [-1, 16, {tokens}, {tokens}] 0",
            f"Linear-# [-1, {tokens}, {width}] {width * width:,}",
            f"GPTJAttention-# [-1, {tokens}, {width}] 0",
            f"Linear-# [-1, {tokens}, {4 * width}] {4 * width * width + 4 * width:,}",
        )
        _, program, memory = account(rows)
        sizes = [(program.tensors[op.x], program.tensors[op.y]) for op in program.ops if op.kind is Kind.LINEAR]
        return sizes, memory.kept

    same, kept_same = kept(256, 256)
    other, kept_other = kept(256, 264)
    assert same[3] == (256 * 256, 256 * 256)
    assert other[3] == (256 * 264, 256 * 264)
    assert kept_same == pytest.approx(kept_other, rel=0.05)


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
    program = account(text, seq_len=16)[1]
    assert (program.causal, program.biased) == (False, True)
    assert program.cache > 0


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


def test_inference_of_language_models_holds_caches_and_computes_a_loss() -> None:
    logits = 4 * 2 * 512 * 1000
    run = {"seq_len": 512, "kind": "infer"}
    causal = account(LM, **run)[2]
    cache = 2 * 2 * 4 * 2 * 2 * 512 * 64
    # of two calls: the logits and what is cached; and once more the logarithm of these logits
    assert causal.loss - causal.weights == pytest.approx(cache + 3 * logits + 32.5 * MIB, rel=0.01)
    half = account(LM, precision="bf16", **run)[2]
    assert half.loss - half.weights == pytest.approx(cache / 2 + logits + 2 * logits + 32.5 * MIB, rel=0.01)
    masked = account(LM.replace("GPT2LMHeadModel", "MyEncoder").replace("GPT2", "My"), precision="bf16", **run)[2]
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


def test_projections_to_one_number_are_no_crash() -> None:
    rows = "".join(f"│    └─Linear: 2-{number}   [2]   110\n" for number in range(1, 5))
    head = "====\nLayer (type:depth-idx)   Output Shape   Param #\n====\nNet  [2, 10]  --\n"
    text = f"{head}├─SelfAttention: 1-1  [2, 10]  --\n{rows}====\n"
    found = load_method("rad").predict(parse_summary(text), Workload(2))
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


def test_a_models_own_name_does_not_make_its_layers_strange() -> None:
    llama = plain_names(frozenset(("LlamaForCausalLM", "LlamaModel", "LlamaMLP", "Linear")))
    qwen = plain_names(frozenset(("Qwen3ForCausalLM", "Qwen3Model", "Qwen3MLP", "Qwen3Router", "Linear")))
    assert unfamiliar(llama, qwen) == 0
    assert unfamiliar(qwen, llama) == 1 / 5
    assert plain_names(frozenset(("ResNet", "Bottleneck"))) == {"ResNet", "Bottleneck"}
    assert unfamiliar(frozenset(), frozenset()) == 0


@pytest.mark.parametrize(
    "layer",
    [
        "Conv2d(0, 64, kernel_size=(3, 3), stride=(1, 1))",
        "Conv1d(-1, 8, kernel_size=(3,), stride=(1,))",
        "LSTM(-7, 9)",
        "ConvTranspose2d(0, 0, kernel_size=(0, 0), stride=(0, 0), groups=0)",
        "Linear(in_features=-5, out_features=-7, bias=True)",
    ],
)
def test_sizes_that_no_layer_has_are_an_estimate_or_a_summarys_error(layer: str) -> None:
    text = f"Net(\n  (a): BatchNorm2d(3)\n  (b): {layer}\n  (c): Conv2d(3, 0, kernel_size=(0, 0), groups=0)\n)\n"
    with contextlib.suppress(SummaryError):
        found = load_method("rad").predict(parse_summary(text), Workload(8))
        assert 0 < found.expected_mib <= found.upper_mib


def tree(*rows: str) -> str:
    body = "\n".join(rows)
    return f"Layer (type:depth-idx)  Output Shape  Param #\n=====\n{body}\n=====\n"


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


def test_attention_of_no_known_name_keeps_queries_keys_and_values() -> None:
    block = ("│    └─LayerNorm: 2-1 [2, 64, 96] 192", "│    └─Linear: 2-2 [2, 64, 288] 27,936")
    out = "│    └─Linear: 2-4 [2, 64, 96] 9,312"
    _, program, _ = account(tree("Own [2, 64, 96] --", "├─Mixer: 1-1 [2, 64, 96] --", *block, out))
    wide, last = program.ops[1], program.ops[2]
    assert wide.y in program.kept
    assert last.x not in (program.ops[0].y, wide.y)
    assert program.tensors[last.x] == 64 * 96
    dropped = "│    └─Dropout: 2-3 [2, 3, 64, 64] --"
    _, eager, _ = account(tree("Own [2, 64, 96] --", "├─Mixer: 1-1 [2, 64, 96] --", *block, dropped, out))
    scores = next(op for op in eager.ops if op.kind is Kind.DROPOUT)
    assert {scores.x, scores.y} <= eager.kept
    assert eager.tensors[scores.x] == 3 * 64 * 64
    assert eager.tensors[eager.ops[-1].x] == 64 * 96


def test_what_widens_and_narrows_again_has_a_function_between() -> None:
    rows = ("├─LayerNorm: 1-1 [2, 64, 96] 192", "├─Linear: 1-2 [2, 64, 384] 37,248", "├─Linear: 1-3 [2, 64, 96] 36,960")
    _, program, _ = account(tree("Own [2, 64, 96] --", *rows))
    assert program.ops[1].y in program.kept
    assert program.ops[2].x != program.ops[1].y
    shown = (*rows[:2], "├─ReLU: 1-4 [2, 64, 384] --", rows[2])
    _, program, _ = account(tree("Own [2, 64, 96] --", *shown))
    assert program.ops[3].x == program.ops[2].y


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


def test_recurrent_networks_work_on_as_much_as_they_kept() -> None:
    small = tree("Own [2, 8] --", "├─Embedding: 1-1 [2, 500, 64] 6,400", "├─LSTM: 1-2 [2, 500, 64] 33,280")
    _, program, memory = account(small, batch_size=64)
    recurrent = program.ops[1]
    assert memory.peak > memory.kept + recurrent.extra * 64 * 4


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


def test_a_block_may_call_itself_linear() -> None:
    assert kind_of("LinearBottleneck") is kind_of("LinearBlock") is Kind.VIEW
    assert kind_of("LinearBf16") is kind_of("MyLinear") is Kind.LINEAR
