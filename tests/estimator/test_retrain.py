"""Fitting again on a small part of the measured data, and the rule by which a version is installed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from estimator.dataset.specs import Split
from estimator.dataset.store import Dataset, committed
from estimator.evaluate import CasesError
from estimator.gpus import lookup
from estimator.methods.rad import NAME, Rad
from estimator.methods.rad import retrain as module
from estimator.methods.rad.fit import Fitted, blank, fit, processes
from estimator.methods.rad.fit import examples as fit_examples
from estimator.methods.rad.fit.examples import examples_of
from estimator.methods.rad.fit.judge import Held
from estimator.methods.rad.workspace import DIRECTIONS
from estimator.parsers import parse_summary
from estimator.store import Store
from estimator.types import Workload
from tests.estimator.accounts import CONTEXTS, NO_WORKSPACE

JUDGES: tuple[Split, ...] = ("fresh", "kin", "known")


@pytest.fixture(scope="module")
def small() -> Dataset:
    whole = committed()
    drawn = [row for row in whole.rows if row.spec.source == "synthetic" and row.spec.family == "mlp"]
    known = [row for row in drawn if row.spec.split != "test"][:30]
    real = [row for row in whole.rows if row.spec.source == "torchvision" and row.memory_mib is not None]
    some = [row for row in real if row.spec.split == "train"][:4] + [row for row in real if row.spec.split == "test"][
        :3
    ]
    return replace(whole, rows=(*known, *some))


@pytest.fixture
def quick(small: Dataset, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    asked: list[Any] = []

    def give(folder: Path | None = None) -> Dataset:
        asked.append(folder)
        return small

    monkeypatch.setattr(module, "load", give)
    monkeypatch.setattr(module, "fit_workspaces", lambda: NO_WORKSPACE)
    none = {"start": 0.0, "trees": []}
    whole = {name: {"mixes": [[[0, 1.0]]], "mix": none, "more": none, "other": none} for name in DIRECTIONS}
    monkeypatch.setattr(module, "fit_convolutions", lambda: whole)
    monkeypatch.setattr(module, "fit", partial(fit, trees=3))
    return asked


def test_what_nothing_is_fitted_to_judges_and_else_the_test_part(small: Dataset) -> None:
    fresh, kin, known = (replace(small.rows[0], apart=split) for split in JUDGES)
    assert module.judging(replace(small, rows=(known, *small.rows, kin, fresh))) == JUDGES
    assert module.judging(replace(small, rows=(*small.rows, kin))) == ("kin",)
    assert module.judging(small) == ("test",)


def test_the_first_version_is_installed_where_the_old_cannot_be_read(
    tmp_path: Path, quick: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("estimator.store.SHIPPED", tmp_path / "nothing")
    said: list[str] = []
    done = module.retrain(tmp_path, tmp_path / "models", said.append)
    assert said[-1] == (
        f"{tmp_path}/nothing/rad holds no model: run `radctl retrain --data DIR`; there is nothing to compare with"
    )
    assert quick == [tmp_path]
    assert (done.version, done.old) == (1, None)
    assert done.examples > 30
    store = Store(tmp_path / "models", NAME)
    assert Rad(store.load(), 1).version == 1
    assert callable(Rad(store.load(), 1).convolves)
    assert store.versions()[0].about["held_out"]["n"] == done.new.n


def test_equal_is_installed_and_worse_is_not(tmp_path: Path, quick: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    models = tmp_path / "models"
    monkeypatch.setattr("estimator.store.SHIPPED", tmp_path / "nothing")
    module.retrain(tmp_path, models)
    again = module.retrain(tmp_path, models)
    assert again.version == 2
    assert again.old == again.new

    def worse(examples: Any, base: dict[str, Any], rehearsed: Any) -> Fitted:
        made = fit(examples, base, trees=3)
        return replace(made, model={**made.model, "correction": {"start": 2.0, "trees": []}})

    monkeypatch.setattr(module, "fit", worse)
    refused = module.retrain(tmp_path, models)
    assert refused.version is None
    assert refused.old is not None
    assert refused.new.median_abs_rel_error > refused.old.median_abs_rel_error
    assert Store(models, NAME).current == 2


@pytest.mark.usefixtures("quick")
def test_a_better_one_that_is_installed_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, NAME)
    held = Held(9, 0.1, 0.1, 0.1)
    asked: list[str] = []

    def judged(model: dict[str, Any], *_: object) -> Held:
        asked.append(model.get("whose", "new"))
        if asked == ["new", "first"]:  # while they are compared
            store.install({"whose": "other"}, {})
        return held if asked[-1] != "other" else replace(held, median_abs_rel_error=0.05)

    store.install({"whose": "first"}, {})
    monkeypatch.setattr(module, "judged", judged)
    said: list[str] = []
    assert module.retrain(tmp_path, tmp_path, said.append).version is None
    assert asked == ["new", "first", "other"]
    assert said[-1] == "another version was installed meanwhile: comparing with that one"
    assert store.load()["whose"] == "other"


@pytest.mark.usefixtures("quick")
def test_a_folder_that_takes_no_model_is_told_before_anything_is_fitted(tmp_path: Path) -> None:
    (tmp_path / "models").touch()
    said: list[str] = []
    with pytest.raises(NotADirectoryError, match="models/rad"):
        module.retrain(tmp_path, tmp_path / "models", said.append)
    assert not said


def test_a_folder_that_holds_nothing_to_fit_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(
        CasesError, match=r"data holds neither labels\.csv .* nor a whole data set: .*meta\.json is missing"
    ):
        module.retrain(tmp_path / "data", tmp_path / "models")


def test_a_sites_own_cases_are_added_to_the_data(
    tmp_path: Path, quick: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("estimator.store.SHIPPED", tmp_path / "nothing")
    before = module.retrain(tmp_path, tmp_path / "models").examples
    text = "Net(\n  (fc): Linear(in_features=100, out_features=100, bias=True)\n)\n"
    (tmp_path / "net.txt").write_text(text)
    (tmp_path / "labels.csv").write_text(
        "file,batch_size,optimizer,precision,seq_len,kind,gpu,gpu_memory_mib\nnet.txt,64,adam,fp32,,train,h200,800\n"
    )
    assert module.retrain(tmp_path, tmp_path / "own").examples == before + 1
    assert quick == [tmp_path, None]
    without, own = (Rad(Store(tmp_path / name, NAME).load()) for name in ("models", "own"))
    asked = parse_summary(text), Workload(32)
    assert "nothing like this model was measured" in without.predict(*asked).reasons[0]
    assert "this architecture was measured (runs: 1)" in own.predict(*asked).reasons[0]


def test_cases_that_cannot_be_used_are_said(tmp_path: Path, quick: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("estimator.store.SHIPPED", tmp_path / "nothing")
    no_steps = "(c): Conv2d(3, 0, kernel_size=(3, 3), stride=(0, 0))"
    (tmp_path / "zero.txt").write_text(f"Net(\n  {no_steps}\n  (d): Conv2d(0, 3, kernel_size=(0, 3), groups=0)\n)\n")
    (tmp_path / "bad.txt").write_text("no summary\n")
    (tmp_path / "net.txt").write_text("Net(\n  (fc): Linear(in_features=100, out_features=100, bias=True)\n)\n")
    header = "file,batch_size,optimizer,precision,seq_len,kind,gpu,gpu_memory_mib\n"
    zero, bad, net = (f"{name}.txt,64,,,,,,800\n" for name in ("zero", "bad", "net"))
    (tmp_path / "labels.csv").write_text(header + zero + bad + net)
    said: list[str] = []
    module.retrain(tmp_path, tmp_path / "own", said.append)
    why = f"cannot be used: `radctl evaluate memory --cases {tmp_path}` says why"
    assert said[0] == "fitting the workspaces of convolutions"  # which takes minutes
    assert f"2 of the 3 cases in {tmp_path} {why}" in said
    (tmp_path / "labels.csv").write_text(header + zero + bad)
    with pytest.raises(CasesError, match=r"the cases in .* cannot be used"):
        module.retrain(tmp_path, tmp_path / "own")


def test_a_case_of_another_gpu_is_estimated_there_as_it_was_measured(
    tmp_path: Path, quick: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("estimator.store.SHIPPED", tmp_path / "nothing")
    text = "Net(\n  (fc): Linear(in_features=100, out_features=100, bias=True)\n)\n"
    (tmp_path / "net.txt").write_text(text)
    (tmp_path / "labels.csv").write_text(
        "file,batch_size,optimizer,precision,seq_len,kind,gpu,gpu_memory_mib\nnet.txt,64,adam,fp32,,train,A100,1500\n"
    )
    module.retrain(tmp_path, tmp_path / "own")
    own, summary = Rad(Store(tmp_path / "own", NAME).load()), parse_summary(text)
    said = [own.predict(summary, Workload(64, gpu=gpu)).expected_mib for gpu in ("a100", "h200")]
    assert said == [1500, 1500 - (lookup("a100").context_mib - lookup("h200").context_mib)]


def test_rows_that_ran_out_of_memory_and_eager_attention_are_left_out(small: Dataset) -> None:
    account = Rad(blank(NO_WORKSPACE, CONTEXTS, "h200"))
    row = next(row for row in small.rows if row.spec.source == "synthetic")
    oom = replace(row, memory_mib=None)
    eager = replace(row, spec=replace(row.spec, arch={**row.spec.arch, "eager": True}))
    asked = replace(row, spec=replace(row.spec, arch={**row.spec.arch, "attention": "eager"}))
    assert examples_of(replace(small, rows=(oom, eager, asked)), account, ("train", "val", "test")) == []
    assert examples_of(replace(small, rows=(row,)), account, ("train", "val", "test"))


def test_several_processes_account_for_the_same_in_the_same_order(
    small: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, splits = Rad(blank(NO_WORKSPACE, CONTEXTS, "h200")), ("train", "val", "test")
    alone = examples_of(small, account, splits)
    monkeypatch.setattr(fit_examples, "_CHUNK", 10)
    monkeypatch.setattr(processes, "cores", lambda: 2)
    assert {item.real for item in alone} == {True, False}
    assert examples_of(small, account, splits) == alone
