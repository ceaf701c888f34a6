"""RAD's method: the corrected account, its bound, and models that are damaged."""

from __future__ import annotations

import contextlib
import gc
import math
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from estimator.gpus import lookup
from estimator.methods import load_method
from estimator.methods.rad import Rad
from estimator.methods.rad.errors import damped, size_of
from estimator.methods.rad.familiar import unfamiliar
from estimator.methods.rad.features import FEATURES, features
from estimator.methods.rad.known import KNOWLEDGE, LEVELS, Run, run_of, shifted, tabulate
from estimator.methods.rad.program.of_types import of_types
from estimator.parsers import parse_summary
from estimator.store import ModelError, store_for
from estimator.types import KINDS, LIBRARIES, PRECISIONS, Kind, SummaryError, Workload
from tests.estimator.accounts import INFO, LM, MIB, NOTHING, TREE, VGG, account, plain, table, tree

_TOO_MANY = [len(FEATURES) + len(KNOWLEDGE), -1, 1, -1, -1]


_OF_PEAK = (
    *("weights", "gradients", "states", "kept", "forward", "loss", "backward", "step", "workspace", "at_peak"),
    *("widest", "logits", "workspaces"),
)
_IN_BYTES = ("matrices", "pass_share")


@pytest.mark.parametrize(
    ("text", "workload", "said"),
    [
        (
            VGG,
            {"batch_size": 4, "optimizer": "adamw"},
            {"log_steps": 2, "log_batch": 2, "fp32": 1, "training": 1, "adam": 1, "cnn": 1, "torchsummary": 1}
            | {"convs": 1 / 4, "linears": 1 / 4, "keeps_output": 1 / 4, "pools": 1 / 4, "unseen": 1 / 4},
        ),
        (
            LM,
            {"batch_size": 8, "optimizer": "rmsprop", "precision": "amp", "seq_len": 16},
            {"log_steps": math.log2(18), "log_batch": 3, "log_tokens": 4, "amp": 1, "training": 1, "rmsprop": 1}
            | {"transformer": 1, "module": 1, "inferred": 2, "words": 1, "linears": 11 / 18, "layer_norms": 2 / 18}
            | {"keeps_input": 2 / 18, "attentions": 2 / 18, "unseen": 3 / 18},
        ),
        (
            INFO,
            {"batch_size": 6, "optimizer": "sgd_momentum", "precision": "fp16", "kind": "infer"},
            {
                "log_steps": math.log2(11),
                "log_batch": math.log2(6),
                "bf16": 1,
                "momentum": 1,
                "transformer": 1,
                "torchinfo": 1,
            }
            | {"hidden": 120_000 / 200_362, "convs": 1 / 11, "linears": 5 / 11, "layer_norms": 1 / 11}
            | {"attentions": 2 / 11, "unseen": 1 / 11, "matrices": 6 * 4 * 4 * 16 * 16, "pass_share": 1e6 / 2 * 6 / 2},
        ),
    ],
)
def test_a_learned_model_sees_what_it_saw_when_it_was_fitted(
    text: str, workload: dict[str, Any], said: dict[str, float]
) -> None:
    shaped, program, memory = account(text, **workload)
    row = dict(zip(FEATURES, features(memory, program, shaped, Workload(**workload)), strict=True))
    bytes_ = {name: getattr(memory, name) for name in _OF_PEAK} | {n: said[n] for n in _IN_BYTES if n in said}
    shares = {name: value / memory.peak for name, value in bytes_.items()}
    sizes = {"log_peak": math.log2(memory.peak / MIB + 1), "log_widest_mib": math.log2(memory.widest / MIB + 1)}
    sizes |= {"log_params": math.log2(shaped.total_params), "unfamiliar": 1}
    assert row == pytest.approx({**dict.fromkeys(FEATURES, 0.0), **said, **shares, **sizes})


def test_the_estimate_is_account_context_correction_and_bound() -> None:
    summary = parse_summary(VGG)
    run = Workload(64)
    method = Rad(plain(correction={"start": math.log(1.5), "trees": []}), version=3)
    memory = account(VGG, batch_size=64)[2]
    estimate = method.predict(summary, run)
    assert estimate.expected_mib == round((memory.peak / MIB + 750) * 1.5)
    # the bound is 0.1 times the size of an error, which these trees say is 1 where all of the memory may be wrong
    fixed = (memory.weights + memory.gradients + memory.states) / MIB + 750
    _, share = shifted(estimate.expected_mib, fixed, 0.0)
    size = size_of(1.0, share)
    assert estimate.upper_mib == pytest.approx(estimate.expected_mib * math.exp(0.1 * size), rel=1e-3)
    assert (estimate.method, estimate.family, len(estimate.fingerprint)) == ("rad 3", "cnn", 32)
    assert any("750 MiB of CUDA context (h200)" in reason for reason in estimate.reasons)


def test_a_narrow_bound_has_room_for_gradients_that_are_freed_late() -> None:
    layers = table("Conv2d-# [-1, 64, 32, 32] 1,792", "ReLU-# [-1, 64, 32, 32] 0", "Linear-# [-1, 1000] 65,537,000")
    longer = account(layers, batch_size=64, optimizer="sgd")[2].longer / MIB
    said = {}
    for bound in (0.01, 1.0):
        method = Rad(plain(bounds=dict.fromkeys(LEVELS, bound)))
        said[bound] = method.predict(parse_summary(layers), Workload(64, optimizer="sgd"))
    narrow, wide = said[0.01], said[1.0]
    assert longer > 200
    assert narrow.upper_mib == pytest.approx(narrow.expected_mib + longer, abs=1)
    assert wide.upper_mib > narrow.upper_mib
    assert [any("gradients that stay" in reason for reason in each.reasons) for each in (narrow, wide)] == [True, False]


def test_errors_of_small_activations_weigh_less_but_never_nothing() -> None:
    assert damped(1.0) == 1.0
    assert damped(0.25) == 0.5
    assert 0 < damped(0.0) == damped(0.01) < 0.2
    assert size_of(0.5, 0.25) - size_of(0.0, 0.25) == pytest.approx((0.5 - 0.02) / 2)
    assert size_of(-1.0, 0.0) > 0.04


@pytest.mark.parametrize(
    ("layers", "context"),
    [
        (("Conv2d-# [-1, 64, 32, 32] 1,792", "Linear-# [-1, 10] 163,850"), 4),
        (("Conv2d-# [-1, 64, 32, 32] 1,792", "ReLU-# [-1, 64, 32, 32] 0"), 3),
        (("Linear-# [-1, 100] 1,100", "Linear-# [-1, 10] 1,010"), 2),
        (("Embedding-# [-1, 16, 8] 80", "Dropout-# [-1, 16, 8] 0"), 1),
        (("Embedding-# [-1, 16, 8] 80", "LSTM-# [-1, 16, 8] 576"), 4),
    ],
)
@pytest.mark.parametrize(("kind", "more"), [("train", 1000.0), ("infer", 2000.0)])
def test_the_context_is_that_of_the_libraries_that_a_model_loads(
    layers: tuple[str, ...], context: int, kind: Kind, more: float
) -> None:
    contexts = {
        name: {loaded: base + place for place, loaded in enumerate(LIBRARIES, 1)}
        for name, base in (("train", 1000.0), ("infer", 2000.0))
    }
    method, run = Rad(plain(context_mib=contexts)), Workload(2, kind=kind)
    _, program, memory = method.account(parse_summary(table(*layers)), run)
    assert method.context(program, run) == more + context
    estimate = method.predict(parse_summary(table(*layers)), run)
    assert estimate.expected_mib == round(memory.peak / MIB + more + context)


@pytest.mark.parametrize(
    ("rows", "family", "loaded"),
    [
        (("Conv2d: 1-1  [2, 64, 32, 32]  1,792", "Stage: 1-2  [2, 64, 32, 32]  73,984"), "cnn", "cudnn"),
        (("ConvBlock: 1-1  [2, 64, 8, 8]  7,392", "Linear: 1-2  [2, 10]  40,970"), "cnn", "both"),
        (("Embedding: 1-1  [2, 16, 64]  6,400", "Encoder: 1-2  [2, 16, 64]  73,984"), "transformer", "cublas"),
        (("Embedding: 1-1  [2, 16, 64]  6,400", "Encoder: 1-2  [2, 16, 64]  3,984"), "transformer", "none"),
        (("Linear: 1-1  [2, 64]  6,400", "Cell: 1-2  [2, 64]  73,984"), "mlp", "both"),
        (("Linear: 1-1  [2, 64]  6,400", "Cell: 1-2  [2, 64]  84"), "mlp", "cublas"),
    ],
)
def test_hidden_blocks_load_what_those_of_their_family_do(rows: tuple[str, ...], family: str, loaded: str) -> None:
    program = account(tree("Net  [2, 10]  --", *(f"├─{row}" for row in rows)))[1]
    assert program.hidden_params > 0
    assert (program.family, program.libraries) == (family, loaded)


def test_other_gpus_have_their_context_and_a_wider_bound() -> None:
    method = Rad(plain())
    summary = parse_summary(VGG)
    own, other, unknown = (method.predict(summary, Workload(64, gpu=gpu)) for gpu in ("h200", "a100", "mystery"))
    assert own.expected_mib - other.expected_mib == lookup("h200").context_mib - lookup("a100").context_mib
    assert other.upper_mib / other.expected_mib > own.upper_mib / own.expected_mib
    assert unknown.upper_mib / unknown.expected_mib > other.upper_mib / other.expected_mib
    assert any("wider bound" in reason for reason in other.reasons)


def test_a_gpu_on_which_runs_took_the_same_has_the_same_bound() -> None:
    summary = parse_summary(VGG)
    own, h100 = (Rad(plain()).predict(summary, Workload(64, gpu=gpu)) for gpu in ("h200", "h100"))
    assert (h100.upper_mib, h100.expected_mib) == (own.upper_mib, own.expected_mib)
    assert not any("wider bound" in reason for reason in h100.reasons)
    elsewhere = Rad({**plain(), "gpu": "a100-40gb"})  # what a site fitted elsewhere says nothing of an H100
    assert any("wider bound" in reason for reason in elsewhere.predict(summary, Workload(64, gpu="h100")).reasons)


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
    assert beyond.reasons[0] == "more than the GPU's memory of 15360 MiB is expected"


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
        {"context_mib": {"train": {"both": 750}}},
        {"context_mib": {kind: dict.fromkeys(LIBRARIES, math.nan) for kind in KINDS}},
        {"context_mib": {kind: dict.fromkeys(LIBRARIES, 10**400) for kind in KINDS}},
        {"bounds": dict.fromkeys(LEVELS, math.inf)},
        {"spread": {level: {"start": 0.0, "trees": [{**TREE, "feature": _TOO_MANY}]} for level in LEVELS}},
        {"spread": dict.fromkeys(LEVELS[1:], NOTHING)},
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
    assert len(features(memory, program, shaped, Workload(2, 16))) == len(FEATURES)


def test_what_was_measured_of_an_architecture_corrects_its_account_and_narrows_its_bound() -> None:
    unknown = Rad(plain())
    summary, workload = parse_summary(VGG), Workload(2000)
    shaped, program, _ = unknown.account(summary, workload)
    bounds = {**dict.fromkeys(map(str, LEVELS), 10.0), "measured": 0.5}
    table = tabulate([(run_of(program, shaped, Workload(1900)), 0.5)])
    before = Rad(plain(bounds=bounds)).predict(summary, workload)
    after = Rad(plain(bounds=bounds, measured=table)).predict(summary, workload)
    known = Rad(plain(bounds=bounds, measured=table))
    itself = known.predict(summary, Workload(1900))
    other = known.predict(parse_summary(VGG.replace("ReLU", "GELU")), workload)
    another = known.predict(parse_summary(LM), Workload(8, 16))
    assert after.expected_mib > 1.2 * before.expected_mib
    assert after.upper_mib / after.expected_mib < before.upper_mib / before.expected_mib
    assert "this architecture was measured" in after.reasons[0]
    assert "nothing like this model was measured" in before.reasons[0]
    assert "models of almost the same blocks were measured" in other.reasons[0]
    assert "nothing like this model was measured" in another.reasons[0]
    assert "this configuration was measured" in itself.reasons[0]


def test_a_damaged_table_of_measured_runs_is_an_error() -> None:
    whole = tabulate([(Run("a", around=("module", frozenset({"Net", "Own"}), "")), 0.5)])
    sizes, runs = whole["runs"]["a"]
    values: list[Any] = ["A", "é", "AAAA AAAA", 7, None, [], b64encode(bytes(4)).decode(), sizes[:-4], ""]
    unknown_way = b64encode(bytes([0, 0, 8 * len(PRECISIONS), 0, 0])).decode()
    pairs = [*((value, runs) for value in values), *((sizes, value) for value in [*values, unknown_way])]
    damaged: list[Any] = [[], {"a": []}, {"a": [sizes, runs, runs]}, *({"a": pair} for pair in pairs)]
    places = whole["sets"]["module"][0][1]
    sets: list[Any] = [[], {"module": [["a"]]}, {"module": [["a", places[:-4]]]}, {"module": [["a", 7]]}]
    sets += [{"module": [["b", places]]}, {"module": [["a", b64encode(bytes([2, 0])).decode()]]}, {"module": None}]
    tables: list[Any] = [{**whole, "runs": runs} for runs in damaged]
    tables += [{**whole, "sets": other} for other in sets] + [{**whole, "types": None}, {}, []]
    Rad(plain(measured=whole))
    for damaged in tables:
        with pytest.raises(ModelError, match="damaged"):
            Rad(plain(measured=damaged))


def test_the_shipped_model_answers() -> None:
    method = load_method("rad")
    number = store_for("rad", None).current
    estimate = method.predict(parse_summary(VGG), Workload(64))
    assert estimate.method == f"rad {number}"
    assert 700 < estimate.expected_mib <= estimate.upper_mib < 3000


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


def test_a_models_own_name_does_not_make_its_layers_strange() -> None:
    llama = of_types(frozenset(("LlamaForCausalLM", "LlamaModel", "LlamaMLP", "Linear"))).names
    qwen = of_types(frozenset(("Qwen3ForCausalLM", "Qwen3Model", "Qwen3MLP", "Qwen3Router", "Linear"))).names
    assert unfamiliar(llama, qwen) == 0
    assert unfamiliar(qwen, llama) == 1 / 5
    assert of_types(frozenset(("ResNet", "Bottleneck"))).names == {"ResNet", "Bottleneck"}
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
def test_sizes_that_no_layer_has_are_an_estimate_or_a_summarys_error(rad: Rad, layer: str) -> None:
    text = f"Net(\n  (a): BatchNorm2d(3)\n  (b): {layer}\n  (c): Conv2d(3, 0, kernel_size=(0, 0), groups=0)\n)\n"
    with contextlib.suppress(SummaryError):
        found = rad.predict(parse_summary(text), Workload(8))
        assert 0 < found.expected_mib <= found.upper_mib


def test_a_table_whose_blocks_own_most_of_the_parameters_has_a_wider_bound() -> None:
    rows = "Net  [2, 10]  {}", "├─Block: 1-1  [2, 64]  {}", "│    └─Linear: 2-1  [2, 64]  4,160"
    totals = "Total params: {}\nTrainable params: {}\n"
    method = Rad(plain())
    usual, bare, parametrized = (
        method.predict(parse_summary(tree(*rows).format(own, inner) + totals.format(total, total)), Workload(64))
        for own, inner, total in (("64", "--", "4,224"), ("9,000", "--", "13,160"), ("64", "9,000", "13,224"))
    )
    for wide in (bare, parametrized):
        assert (
            wide.reasons[1]
            .partition(" ")[2]
            .startswith("% of the parameters are in no layer of the table: a wider bound")
        )
        assert wide.upper_mib / wide.expected_mib > 1.4 * usual.upper_mib / usual.expected_mib
    assert not any("in no layer" in reason for reason in usual.reasons)
    text = tree(*rows).format("64", "9,000") + totals.format("13,224", "13,224")
    weight = method.predict(parse_summary(text.replace("Block", "ParametrizationList")), Workload(64))
    assert weight.upper_mib / weight.expected_mib == pytest.approx(usual.upper_mib / usual.expected_mib, rel=0.01)


def test_a_print_that_begins_with_layers_of_no_size_is_refused_where_they_are_most() -> None:
    own, known = "Lin(), 9,000 params", "Linear(in_features=64, out_features=64, bias=True), 4,160 params"
    method = Rad(plain())
    for first, second, refused in ((own, known, True), (known, own, False), (own.replace("9,", ""), known, False)):
        total = 4_160 + (9_000 if own in (first, second) else 0)
        summary = parse_summary(f"Net(\n  (a): {first}\n  (b): {second}\n), {total:,} params\n")
        with pytest.raises(SummaryError, match="shows no sizes") if refused else contextlib.nullcontext():
            method.predict(summary, Workload(8))
