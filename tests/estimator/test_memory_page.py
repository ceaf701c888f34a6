"""The results page: scores, which cases are drawn, what is written."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import asdict, replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimator.dataset.specs import FITTED, generate_synthetic
from estimator.dataset.store import Check, Dataset, Row, committed
from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit.bounds import learned
from estimator.methods.rad.fit.examples import Example
from estimator.methods.rad.fit.holdout import WAYS, held_out
from estimator.methods.rad.fit.judge import Held
from estimator.methods.rad.fit.reached import ALL, DRAWN, FORMATS, MISSES, LeftOut, Reached, left_out, reached
from estimator.methods.rad.known import Run
from estimator.store import store_for
from scripts import memory_asked, memory_figures, memory_limits, memory_page, memory_real
from scripts.memory_asked import Asked
from scripts.parts import specs as module_specs

_FOUND = Reached(50, 0.05, 0.01, 0.6, 0.4)
_TIGHT = Reached(50, 0.02, 0.011, 0.2, 0.1)
_TIMES = [f"{times:g}" for times in MISSES]
_LEFT = LeftOut(
    {way: {ALL: _FOUND, "kin": _TIGHT} for way in WAYS},
    {way: dict.fromkeys(FORMATS, _FOUND) for way in WAYS},
    {way: dict.fromkeys(_TIMES, _TIGHT if way == "run" else _FOUND) for way in (*WAYS, DRAWN)},
)
_ALLOCATOR = LeftOut(
    {WAYS[0]: {ALL: replace(_FOUND, n=40)}}, {}, {way: dict.fromkeys(_TIMES, _TIGHT) for way in (*WAYS, DRAWN)}
)


def _case(name: str, actual: float, rad: tuple[float, float] | None, **changes: Any) -> dict[str, Any]:
    answers: dict[str, Any] = {"rad": rad and {"expected": rad[0], "upper": rad[1]}, "horus": None}
    base = {
        "id": name,
        "name": name,
        "source": "timm",
        "group": name,
        "family": "cnn",
        "format": "module",
        "batch_size": 8,
        "seq_len": None,
        "optimizer": "adam",
        "precision": "fp32",
        "kind": "train",
        "not shown": "nothing",
        "actual": actual,
        "error": "",
        "answers": answers,
    }
    return {**base, **changes}


def test_scores_are_of_answered_cases() -> None:
    cases = [_case("a", 1000, (900, 1100)), _case("b", 2000, (2600, 1900)), _case("c", 500, None)]
    found = memory_page.score(cases, "rad")
    assert found is not None
    row = ["rad", "2", "20.0 %", "30.0 %", "50.0 %", "0.05 GiB", "5.0 %", "5.0 %", "0 GiB"]
    assert memory_page.score_row("rad", found) == row
    assert found.mean_over_mib == pytest.approx(50)
    assert memory_page.score(cases, "horus") is None
    assert memory_page.score_row("horus", None)[1] == "0"


def test_figures_show_the_largest_fp32_training_of_each_model() -> None:
    cases = [
        _case("a", 1000, None, id="1"),
        _case("a", 3000, None, id="2"),
        _case("a", 9000, None, id="3", precision="amp"),
        _case("a", 9000, None, id="4", kind="infer"),
        _case("b", 9000, None, family="transformer"),
    ]
    assert [case["id"] for case in memory_figures.shown(cases, lambda family: family == "cnn")] == ["2"]


def test_the_page_its_figures_and_its_cases_are_written(tmp_path: Path) -> None:
    specs = list(generate_synthetic("mlp", 4, 0))
    rows = tuple(Row(s, "ok", 900.0 + i, 1.0, 2.0) for i, s in enumerate(specs))
    checks = (Check(specs[0], 900.0, 905.0, 742.0, "cublas"), Check(specs[1], 901.0, 901.0, 742.0, "cublas"))
    data = Dataset(rows, {}, {"gpu": "X", "torch": "2", "driver": "1", "limit_mib": 81920}, checks)
    scores = {"accuracy": 0.9, "precision": 0.8, "recall": 0.9, "f1": 0.85}
    result = {"data": "ours", "family": "cnn", "estimator": "mlp", "width_mib": 8192, "sizes": [7, 2, 1]}
    cases = [_case("a", 1000, (900, 1100)), _case("b", 2000, (2600, 2700), family="transformer", seq_len=128)]
    cases[0]["answers"][memory_real.SAID] = {"expected": 990, "upper": 995}
    looks = {"kin": Held(9, 0.25, 0.03, 0.4), "all18": Held(7, 0.0, 0.01, 0.1), "known": Held(8, 0.0, 0.02, 0.2)}
    families = {"odd": Held(4, 0.5, 0.3, 1.0), "fine": Held(6, 0.0, 0.02, 0.4), "rare": Held(50, 0.02, 0.04, 0.4)}
    said = Asked(20, 15, 6, 4, (("a long-lived process", "not fitted to", "repeated", Held(8, 0.125, 0.01, 0.06)),))
    read = LeftOut.of_json(json.loads(json.dumps(asdict(_LEFT), sort_keys=True)))  # as a manifest keeps it
    memory_page.write_page(
        data,
        [{**result, "scores": scores, "majority": 0.5}],
        cases,
        looks,
        families,
        said,
        (read, _ALLOCATOR),
        tmp_path,
    )
    text = (tmp_path / "memory.md").read_text("utf-8")
    assert "| 5.5 | ours, H200 | 13 MLPs, 8 GiB | 7/2/1 | 0.900 (0.882) |" in text
    assert "| a | 8 | adam | 1.0 | - | - | - | 0.9 | 1.1 |" in text
    assert "| b | 8 x 128 |" in text
    assert "largest | 0.6 %" in text
    assert "of measured families, in other libraries or sizes | 9 | 3.0 % | 25.0 % | 40.0 % |" in text
    assert "families that were not measured |" not in text
    lines = text.splitlines()
    assert lines.index("| of one in five of all models | 7 | 1.0 % | 0.0 % | 10.0 % |") == 1 + lines.index(
        "| measured models in other configurations | 8 | 2.0 % | 0.0 % | 20.0 % |"
    )
    assert "Of 3 families that were not measured, 2 have" in text
    assert "| odd | 4 | 30.0 % | 50 % |" in text
    assert "| rare |" not in text
    assert "15 of these were measured, 6 by a process of their own" in text.replace("\n", " ")
    assert "| a long-lived process | not fitted to | repeated | 8 | 1.0 % | 12.5 % | 6.0 % |" in text
    assert "0 of the 2 summaries in the tables above are refused" in text.replace("\n", " ")
    assert "They are of 40 summaries: of each run the one that shows all layers" in text.replace("\n", " ")
    assert "| its run | kin | 50 | 2.0 % | 1.1 % | 20.0 % | 10.0 % |" in text
    assert f"| its model |{' 1.0 % / 60 % |' * 3}" in text
    assert f"| 0.5 | 1.1 % / 20 % |{' 1.0 % / 60 % |' * 3}{' 1.1 % / 20 % |' * 4}" in text
    assert "| rad where the script says input_size, the same prints | 1 | 1.0 % | 1.0 % | 100.0 % |" in text
    with (tmp_path / "memory_cases.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [(row["name"], row["rad_upper_mib"], row["horus_upper_mib"]) for row in written] == [
        ("a", "1100", ""),
        ("b", "2700", ""),
    ]
    for name in ("memory_scatter.svg", "memory_cnn.svg", "memory_transformer.svg", "memory_coverage.png"):
        assert (tmp_path / name).stat().st_size > 1000


def test_bounds_are_judged_by_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "TREES", 5)
    rng = random.Random(3)
    examples = []
    for index in range(300):
        row = [0.0] * len(FEATURES)
        row[FEATURES.index(("torchsummary", "torchinfo", "module")[index % 3])] = 1.0
        model, run = f"m{index // 3}", Run(f"b{index // 3}", 20.0, 20.0, 5.0, float(index % 3))
        allocated = rng.uniform(1000.0, 9000.0)
        measured = (allocated + 700.0) * exp(abs(rng.gauss(0.0, 0.05)))
        account = allocated * exp(rng.gauss(0.0, 0.2))
        about = Example(
            row, account, measured, f"g{index // 6}", 1.0, index % 30 > 2, allocated=allocated, context=700.0
        )
        examples.append(replace(about, run=run, model=model, id=f"r{index}"))
    _, held = held_out(examples, 5)
    found = left_out(held, learned(held, 5)[1])
    assert LeftOut.of_json(json.loads(json.dumps(asdict(found)))) == found
    allocator = memory_limits.allocator(examples)
    assert set(found.ways["run"]) == {ALL, "measured"}
    assert set(found.ways["family"]) == {ALL, "new"}
    for way in WAYS:
        assert found.ways[way][ALL].n == sum(item.real for item in examples)
        assert found.ways[way][ALL] == found.misses[way]["1"]
        assert found.misses[way]["0.5"].over > found.misses[way]["10"].over > 0
        assert found.misses[way]["0.5"].under <= found.misses[way]["10"].under < 0.3
        assert allocator.misses[way]["1"].over < found.misses[way]["1"].over
        assert len(found.formats[way]) == 3


def test_a_bound_is_judged_by_how_much_it_is_off() -> None:
    found = reached(np.log([1.0, 2.0, 0.5]), np.log([1.5, 1.5, 1.0]))
    assert found.n == 3
    assert found.under == pytest.approx(1 / 3)
    assert found.error == pytest.approx(0.5)
    assert found.over == pytest.approx((0.5 + 0.0 + 1.0) / 3)
    assert found.half == pytest.approx(0.5)


def test_largest_trainings_come_first() -> None:
    specs = [s for s in generate_synthetic("mlp", 40, 0) if s.kind == "train"][:3]
    rows = [Row(s, "ok", memory, 1.0, 1.0) for s, memory in zip(specs, (5.0, 9.0, 7.0), strict=True)]
    same = [
        type(r)(type(s)(**{**s.to_json(), "name": "net"}), "ok", r.memory_mib, 1.0, 1.0)
        for r, s in zip(rows, specs, strict=True)
    ]
    assert [row.memory_mib for row in memory_real._largest_first(same)] == [9.0, 5.0, 7.0]


def test_widely_used_models_are_judged_by_both_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    data = committed()
    drawn = module_specs("known18", 163)
    checked = {check.spec.id for check in data.checks}
    rows = {row.spec.id: row for row in data.rows}
    there = [spec for spec in drawn if spec.id in rows]
    fitted = [spec for spec in there if rows[spec.id].split in FITTED]
    chosen = [next(s for s in fitted if s.id in checked), next(s for s in there if rows[s.id].split == "known")]
    monkeypatch.setattr(memory_asked, "specs", lambda part, seed: chosen)
    found = memory_asked.asked(data, store_for("rad", None).load())
    assert (found.drawn, found.there, found.fitted) == (2, 2, 1)
    assert found.own == sum(spec.id in checked for spec in chosen)
    whole = {line[:3]: line[3].n for line in found.lines}
    assert whole["a long-lived process", "all", "all"] > whole["a long-lived process", "not fitted to", "all"] > 0
    assert whole["a process of its own", "all", "repeated"] > 0
