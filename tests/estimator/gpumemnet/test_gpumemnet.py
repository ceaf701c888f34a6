"""GPUMemNet: what it sees, how it is scored, both estimators in torch and numpy, the method and its stored weights."""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimator.dataset.plans import plan_of, trace_of
from estimator.dataset.printers import torchinfo_text
from estimator.dataset.specs import generate_synthetic
from estimator.dataset.store import Dataset, Row
from estimator.gpumemnet import GpuMemNet, fit, nets, train
from estimator.gpumemnet.described import (
    LAYER_TYPES,
    Described,
    activation_angle,
    from_published,
    from_summary,
    from_trace,
    layer_type,
    sequence,
    totals,
)
from estimator.gpumemnet.method import Classifier, classifiers_from_json, classifiers_to_json
from estimator.gpumemnet.metrics import scores
from estimator.gpumemnet.published import read
from estimator.gpumemnet.train import Example
from estimator.parsers import parse_summary
from estimator.store import ModelError, Store
from estimator.types import Workload

ROW = {
    "Filename": "run.out",
    "Activations-Params": "[('linear', 8, 88), ('batch_normalization', 8, 16), ('ReLU', 8, 0), ('dropout', 8, 0)]",
    "Total Activations": "32",
    "Total Parameters": "104",
    "Activation Function": "ReLU",
    "Batch Size": "4",
    "Max GPU Memory (MiB)": "1500",
    "Status": "SUCCESSFUL",
}


def test_a_published_row_is_described() -> None:
    model = from_published(ROW)
    assert [model.kinds()[kind] for kind in ("linear", "norm", "dropout", "activation", "conv")] == [1, 1, 1, 1, 0]
    assert (model.activations, model.params, model.activation) == (32, 104, "ReLU")
    with pytest.raises(ValueError, match=r"Activations-Params of run\.out"):
        from_published({**ROW, "Activations-Params": "[('linear', 8)]"})
    with pytest.raises(ValueError, match="Activations-Params"):
        from_published({**ROW, "Activations-Params": "__import__('os')"})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Conv1D", "linear"),
        ("NonDynamicallyQuantizableLinear", "linear"),
        ("Conv2d", "conv"),
        ("LlamaRMSNorm", "norm"),
        ("Dropout2d", "dropout"),
        ("adaptive_avg_pool2d", "pool"),
        ("Embedding", "embedding"),
        ("Softmax", "softmax"),
        ("SiLU", "activation"),
        ("Flatten", "other"),
    ],
)
def test_layers_have_kinds(name: str, kind: str) -> None:
    assert layer_type(name) == kind


def test_activation_functions_lie_on_a_circle() -> None:
    angles = {activation_angle(name) for name in ("ReLU", "GELU", "ELU", "Tanh")}
    assert len(angles) == 4
    assert all(math.isclose(c * c + s * s, 1) for c, s in angles)
    assert activation_angle("unheard of") == activation_angle("Identity")


def _arch(**changes: Any) -> dict[str, Any]:
    base = {"shape": "uniform", "inp": 10, "width": 8, "out": 3, "depth": 2, "act": "ReLU", "bn": True, "drop": 0.2}
    return {**base, "softmax": True, **changes}


def test_a_summary_and_its_trace_are_described_alike() -> None:
    trace = trace_of(*plan_of("mlp", _arch()))
    one, other = from_trace(trace), from_summary(parse_summary(torchinfo_text(trace, 4, depth=9)))
    assert one == other
    assert one.params == trace.total_params
    assert one.activations == 2 * 4 * 8 + 2 * 3


def test_features_are_counts_and_logarithms() -> None:
    model = from_published(ROW)
    features = totals(model, 4)
    assert len(features) == 1 + len(LAYER_TYPES) + 4 + 2
    assert features[0] == 1
    assert features[1 + len(LAYER_TYPES)] == pytest.approx(math.log1p(4))
    assert features[-3] == pytest.approx(math.log1p(128))


def test_long_models_are_thinned_out() -> None:
    model = Described(tuple(("linear", i, i) for i in range(1000)), 1, 1, "ReLU")
    assert len(sequence(model, 160)) == 160
    assert len(sequence(model, 2000)) == 1000


def test_scores_weigh_classes_by_how_often_they_are_true() -> None:
    found = scores([0, 0, 0, 1], [0, 0, 1, 1])
    assert found.accuracy == found.recall == 0.75
    assert found.precision == pytest.approx(0.75 * 1 + 0.25 * 0.5)
    assert found.f1 == pytest.approx(0.75 * 0.8 + 0.25 * (2 / 3))
    assert scores([0, 1], [0, 0]).precision == pytest.approx(0.25)
    with pytest.raises(ValueError, match="cannot be compared"):
        scores([], [])


def _csv(rows: list[dict[str, str]]) -> bytes:
    head = list(ROW)
    lines = [",".join(head), *(",".join(f'"{row[k]}"' for k in head) for row in rows)]
    return "\n".join(lines).encode()


def test_published_files_are_read(tmp_path: Path) -> None:
    rows = [
        ROW,
        {**ROW, "Status": "OOM_CRASH"},
        {**ROW, "Max GPU Memory (MiB)": "0"},
        {**ROW, "Activations-Params": "[]"},
    ]
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(_csv(rows)))
    limit = csv.field_size_limit()
    assert len(read(path)) == 2
    assert csv.field_size_limit() == limit
    assert len(read(path, with_oom=False)) == 1
    plain = tmp_path / "x.csv"
    plain.write_bytes(_csv([ROW]))
    assert read(plain)[0].memory_mib == 1500
    plain.write_bytes(_csv([ROW, {**ROW, "Batch Size": "many"}]))
    with pytest.raises(ValueError, match=r"x\.csv:3: .*published GPUMemNet data"):
        read(plain)


def test_classes_are_named_by_their_upper_edge() -> None:
    assert [train.class_of(m, 1024, 4) for m in (1, 1024, 1025, 4096, 9999)] == [0, 0, 1, 3, 3]


def test_splits_have_their_shares_and_keep_groups_together() -> None:
    parts = train.split(1000, 0)
    assert [len(p) for p in parts] == [700, 200, 100]
    assert sorted([*parts[0], *parts[1], *parts[2]]) == list(range(1000))
    groups = [f"g{i // 3}" for i in range(300)]
    kinds = [{groups[i] for i in part} for part in train.split_by_group(groups, 0)]
    assert not kinds[0] & kinds[1] and not kinds[0] & kinds[2] and not kinds[1] & kinds[2]


def _examples(count: int) -> list[Example]:
    """Models whose memory is a simple function of what GPUMemNet sees."""
    rng = random.Random(0)
    made = []
    for _ in range(count):
        width = rng.choice([8, 2000])
        layers = tuple(("linear", width, width * width) for _ in range(rng.randint(1, 4)))
        model = Described(layers, width * len(layers), width * width * len(layers), "ReLU")
        made.append(Example(model, rng.choice([4, 8]), 500.0 if width == 8 else 1500.0))
    return made


@pytest.mark.parametrize("estimator", ["mlp", "transformer"])
def test_estimators_learn_and_numpy_agrees_with_torch(estimator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "HIDDEN", train.HIDDEN[:2])
    ((result, classifier), _) = fit.fit(
        "ours", "mlp", _examples(120), None, epochs={"mlp": 6, "transformer": 6}, estimators=(estimator,)
    )
    assert result.scores.accuracy == 1.0
    assert result.sizes == (84, 24, 12)
    assert result.majority < 0.9
    assert classifier.estimator == estimator
    batch = train.batch_of(_examples(9), 1024, 2)
    chances = train.probabilities(estimator, classifier.arrays, batch)
    assert chances.shape == (9, 2)
    assert np.allclose(chances.sum(-1), 1, atol=1e-5)
    assert (chances.argmax(-1) == batch.classes).all()


def test_the_ensemble_has_13_members_of_1_to_7_hidden_layers() -> None:
    assert len(train.HIDDEN) == 13
    assert {len(hidden) for hidden in train.HIDDEN} == set(range(1, 8))
    assert len(set(train.HIDDEN)) == 13


def test_the_numpy_transformer_does_what_torch_does() -> None:
    import torch  # noqa: PLC0415

    torch.manual_seed(0)
    width, n = 16, 5
    arrays: dict[str, Any] = {}
    block = {
        name: torch.nn.Linear(a, b)
        for name, a, b in (("qkv", 16, 48), ("out", 16, 16), ("up", 16, 32), ("down", 32, 16))
    }
    norms = {name: torch.nn.LayerNorm(width) for name in ("n1", "n2")}
    for name, part in {**block, **norms}.items():
        arrays[f"b0.{name}.w"], arrays[f"b0.{name}.b"] = part.weight.detach().numpy(), part.bias.detach().numpy()
    x, mask = torch.randn(2, n, width), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    with torch.no_grad():
        qkv = block["qkv"](norms["n1"](x)).view(2, n, 3, nets.HEADS, width // nets.HEADS).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*qkv, attn_mask=mask[:, None, None, :])
        y = x + block["out"](mixed.transpose(1, 2).reshape(2, n, width))
        y = y + block["down"](block["up"](norms["n2"](y)).relu())
    ours = nets._block(arrays, "b0.", x.numpy(), mask.numpy())
    assert np.allclose(ours, y.numpy(), atol=1e-5)


def _classifier(estimator: str = "mlp") -> Classifier:
    """Return a classifier that always names class 1 of 3."""
    features = len(totals(from_published(ROW), 1))
    arrays: dict[str, Any] = {"mean": np.zeros(features), "std": np.ones(features)}
    bias = np.array([0.0, 5.0, 0.0])
    if estimator == "mlp":
        arrays |= {"m0.w0": np.zeros((3, features)), "m0.b0": bias}
    else:
        arrays |= {
            "types": np.zeros((len(LAYER_TYPES), 4)),
            "places": np.zeros((160, 4)),
            "sizes.w": np.zeros((4, 2)),
            "sizes.b": np.zeros(4),
            "size_mean": np.zeros(2),
            "size_std": np.ones(2),
            "head.w0": np.zeros((3, 4 + features)),
            "head.b0": bias,
        }
    return Classifier(estimator, 1024, arrays)


@pytest.mark.parametrize("estimator", ["mlp", "transformer"])
def test_the_method_answers_with_the_upper_edge(estimator: str, tmp_path: Path) -> None:
    Store(tmp_path, "gpumemnet").install(classifiers_to_json({"mlp": _classifier(estimator)}), {})
    method = GpuMemNet.load(tmp_path)
    summary = parse_summary(torchinfo_text(trace_of(*plan_of("mlp", _arch())), 4, depth=9))
    found = method.predict(summary, Workload(4))
    assert (found.expected_mib, found.upper_mib, found.method, found.family) == (2048, 2048, "gpumemnet 1", "mlp")
    assert found.reasons[0].startswith("class 1 to 2 GiB, ")
    assert method.name == "gpumemnet"
    with pytest.raises(ModelError, match="no classifier for the family mlp"):
        GpuMemNet({}).predict(summary, Workload(4))


def test_stored_weights_come_back_in_half_precision() -> None:
    text = json.dumps(classifiers_to_json({"cnn": _classifier()}))
    back = classifiers_from_json(json.loads(text))["cnn"]
    assert (back.estimator, back.width_mib) == ("mlp", 1024)
    assert np.allclose(back.arrays["m0.b0"], [0, 5, 0])
    with pytest.raises(ModelError, match="damaged"):
        classifiers_from_json({"classifiers": {"cnn": {"estimator": "mlp"}}})


def test_our_examples_are_fp32_trainings_and_oom_counts_as_the_limit() -> None:
    specs = [s for s in generate_synthetic("mlp", 60, 0) if s.kind == "train"][:20]
    rows = tuple(Row(s, "oom" if i == 0 else "ok", None if i == 0 else 900.0, 1, 1) for i, s in enumerate(specs))
    data = Dataset(rows, {}, {"limit_mib": 81920})
    examples, groups = fit.own_examples(data, "mlp")
    wanted = [s for s in specs if s.precision == "fp32"]
    assert len(examples) == len(groups) == len(wanted)
    assert {e.memory_mib for e in examples} <= {900.0, 81920.0}


def test_the_shipped_classifiers_answer_without_torch() -> None:
    code = (
        "import sys; from estimator.gpumemnet import GpuMemNet; from estimator.parsers import parse_summary;"
        "from estimator.types import Workload; m = GpuMemNet.load();"
        "s = parse_summary('Linear(in_features=64, out_features=64, bias=True)');"
        "assert m.predict(s, Workload(8)).expected_mib <= 4096; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
