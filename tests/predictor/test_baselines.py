from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest

from predictor import baselines
from predictor.artifact import ArtifactError, Colocation, Side
from predictor.baselines import RULES, XU_FEATURES, AutoMl, NeuralNetwork, RandomForest, Xu, load_xu
from predictor.evaluation import (
    NAMES,
    SumModel,
    evaluate,
    evaluate_colocations,
    leave_out,
    unseen_fractions,
    without_batch,
)
from predictor.measure import score
from predictor.types import ProfileError
from tests.predictor.synthetic import every_pair, profile, workloads, write_csv

PAIRS = every_pair(workloads(8))


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole grid is searched where forests are what is tested."""
    monkeypatch.setattr(baselines, "FOREST_GRID", {"n_estimators": (10, 20)})


def _pair(neighbour: str, **metrics: float) -> Colocation:
    me, other = profile("me"), profile(neighbour, **metrics)
    return Colocation((Side("me", me, 1.0), Side(neighbour, other, 1.0)))


def test_rules_pick_the_neighbour_they_name() -> None:
    rows = [
        _pair("small", memory_mib=100.0, busy=0.5, dram=0.5),
        _pair("busy", memory_mib=900.0, busy=0.9, dram=0.9),
        _pair("calm", memory_mib=800.0, busy=0.2, dram=0.1),
    ]
    assert RULES["memcap"]("me", rows) == 0
    assert RULES["sm"]("me", rows) == 1
    assert RULES["mem"]("me", rows) == 2


def test_a_workload_beside_itself_is_its_own_neighbour() -> None:
    me = profile("me", memory_mib=10.0)
    twin = Colocation((Side("me", me, 1.0), Side("me", me, 1.0)))
    assert RULES["memcap"]("me", [_pair("other", memory_mib=500.0), twin]) == 1


@pytest.mark.parametrize("kind", [RandomForest, NeuralNetwork])
def test_other_regressions_learn(kind: type[RandomForest | NeuralNetwork]) -> None:
    model: SumModel = kind()
    found = score(PAIRS[1::2], model.fit(PAIRS[::2]).predict(PAIRS[1::2]))
    assert found.r2 > 0.5


def test_automl_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flaml.automl", None)
    with pytest.raises(ProfileError, match=r"\.\[automl\]"):
        AutoMl().fit(PAIRS)

    class Fake:
        def fit(self, features: np.ndarray, target: np.ndarray, **how: object) -> None:
            assert features.shape == (len(PAIRS), 10) and how["time_budget"] == 3.0
            self.mean = target.mean()

        def predict(self, features: np.ndarray) -> list[float]:
            return [self.mean] * len(features)

    module = types.ModuleType("flaml.automl")
    module.AutoML = Fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flaml", types.ModuleType("flaml"))
    monkeypatch.setitem(sys.modules, "flaml.automl", module)
    assert score(PAIRS, AutoMl(3.0).fit(PAIRS).predict(PAIRS)).r2 == pytest.approx(0.0)


def _write_xu(path: Path, rows: list[Colocation]) -> Path:
    header = [f"w{side}_{name}" for side in (1, 2) for name in XU_FEATURES]
    header += ["workload1", "workload2", "w1throughput", "w2throughput"]
    lines = [",".join(header)]
    for row in rows:
        cells = []
        for side in row.sides:
            size = side.profile.kernel.threads**0.5
            cells += [f"{value:.4f}" for value in (1.0, 2.0, size * 3, size, size / 1e3, size**2)]
        cells += [side.workload for side in row.sides]
        lines.append(",".join([*cells, *(f"{side.throughput:.4f}" for side in row.sides)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.usefixtures("few_trees")
def test_xu_reads_its_own_columns(tmp_path: Path) -> None:
    path = _write_xu(tmp_path / "xu.csv", PAIRS)
    rows = load_xu(path)
    assert [row.throughput_sum for row in rows] == pytest.approx([row.throughput_sum for row in PAIRS], abs=1e-3)
    assert {len(row.features) for row in rows} == {12}
    assert Xu().fit(rows).predict(rows).shape == (len(rows),)
    assert evaluate(path, path, "xu").oracle_fraction > 0.8
    text, first = path.read_text(encoding="utf-8"), f",{PAIRS[0].sides[0].throughput:.4f},"
    broken = {
        "line 2: a pair needs the columns workload1": text.replace("model0_batch1-train", ""),
        "line 2: column 'w1throughput': 0, it must be above 0": text.replace(first, ",0,", 1),
        "holds no pair": text.splitlines(keepends=True)[0],
    }
    for says, content in broken.items():
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ArtifactError, match=says):
            load_xu(path)


def test_a_forest_of_one_colocation_is_refused() -> None:
    with pytest.raises(ArtifactError, match="train on two at least"):
        RandomForest().fit(PAIRS[:1])


@pytest.mark.usefixtures("few_trees")
def test_every_model_by_name(tmp_path: Path) -> None:
    train, test = write_csv(tmp_path / "a.csv", PAIRS[::2]), write_csv(tmp_path / "b.csv", PAIRS[1::2])
    found = {name: evaluate(train, test, name) for name in NAMES if name not in {"xu", "automl"}}
    assert all(0.0 < one.oracle_fraction <= 1.0 and one.n_targets == 8 for one in found.values())
    assert found["rad"].oracle_fraction > found["random"].oracle_fraction
    assert np.isnan(found["random"].r2) and np.isnan(found["memcap"].r2)
    with pytest.raises(KeyError):
        evaluate_colocations(PAIRS, PAIRS, "oracle")


def test_a_group_left_out_is_in_no_training_row() -> None:
    for name, (train, test) in leave_out(PAIRS, without_batch).items():
        assert len(train) + len(test) == len(PAIRS)
        assert all(without_batch(side.workload) != name for row in train for side in row.sides)
        assert all(any(without_batch(side.workload) == name for side in row.sides) for row in test)


def test_unseen_workloads_each_count_once() -> None:
    assert without_batch("vit_h_14_batch8-train") == "vit_h_14-train"
    for model in ("rad", "kace", "memcap", "random"):
        found = unseen_fractions(PAIRS, model)
        assert sorted(found) == sorted(workloads(8))
        assert all(0.0 < value <= 1.0 for value in found.values())
    assert np.mean(list(unseen_fractions(PAIRS, "rad").values())) > 0.9
