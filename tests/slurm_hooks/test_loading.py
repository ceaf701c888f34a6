"""Models by configuration: what is loaded, what is only said, and versions that come later."""

from __future__ import annotations

import gc
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from estimator.store import Store, store_for
from predictor import load_predictor
from predictor.types import Predictor
from predictor.weights import BUNDLED
from slurm_hooks.cluster import ClusterView
from slurm_hooks.config import Config, parse
from slurm_hooks.loading import ModelWatch, load_service
from slurm_hooks.radd.poller import Poller
from slurm_hooks.records import Record


def config(tmp_path: Path, method: str = "horus", predictor: str = "off") -> Config:
    return parse(
        {
            "estimator": {"method": method, "models_dir": str(tmp_path / "models")},
            "predictor": {"model": predictor, "models_dir": str(tmp_path / "predictors")},
            "partitions": {"gpu": {}},
        },
        "test",
    )


def test_the_method_by_name(tmp_path: Path) -> None:
    assert load_service(config(tmp_path)).method.name == "horus"
    assert load_service(config(tmp_path, "rad")).method.name == "rad"


def test_a_model_of_another_rad_is_only_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It stays where `radctl retrain` put it when RAD is installed anew, and radd has to start."""
    shipped = store_for("rad", None).load()
    Store(tmp_path / "models", "rad").install({**shipped, "features": ["older"]}, {})
    settings = config(tmp_path, "rad")
    assert load_service(settings).method.name == "rad"
    assert "fitted to other features" in caplog.text
    assert f"the model that comes with RAD serves instead of {tmp_path}/models" in caplog.text
    watch = ModelWatch(settings)
    assert watch.fresh() is None
    Store(tmp_path / "models", "rad").install(shipped, {})
    assert watch.fresh() is not None


def test_a_damaged_predictor_is_only_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "predictors"
    folder.mkdir()
    (folder / "rad.json").write_text("{")
    load_service(config(tmp_path, predictor="rad"))
    assert "no interference is predicted" in caplog.text


def test_a_folder_of_predictors_that_lets_nobody_look_is_only_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = parse({"predictor": {"models_dir": str(tmp_path / ("x" * 300))}}, "test")  # root may look anywhere
    load_service(settings)
    assert "no interference is predicted" in caplog.text and "File name too long" in caplog.text


def test_a_new_version_is_noticed_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watch = ModelWatch(config(tmp_path, "rad"))
    assert watch.fresh() is None
    store = Store(tmp_path / "models", "rad")
    store.install(store_for("rad", None).load(), {})
    method = watch.fresh()
    assert method is not None
    assert method.name == "rad"
    assert watch.fresh() is None


def test_a_damaged_version_leaves_the_old_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = ModelWatch(config(tmp_path, "rad"))
    Store(tmp_path / "models", "rad").install({"not": "a model"}, {})
    assert watch.fresh() is None
    assert "the old one stays" in caplog.text


def test_a_version_whose_model_comes_late_is_taken_when_it_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a copy from another controller makes it, whose order nobody knows."""
    watch = ModelWatch(config(tmp_path, "rad"))
    Store(tmp_path / "models", "rad").install(store_for("rad", None).load(), {})
    path = tmp_path / "models" / "rad" / "1" / "model.json.gz"
    late = path.rename(tmp_path / "late")
    assert watch.fresh() is None
    assert "the old one stays" in caplog.text
    assert watch.fresh() is None
    late.rename(path)
    assert watch.fresh() is not None
    assert watch.fresh() is None


def test_new_weights_of_the_predictor_are_noticed_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watch = ModelWatch(config(tmp_path, predictor="rad"))
    assert watch.fresh_predictor() is None
    folder = tmp_path / "predictors"
    folder.mkdir()
    text = (BUNDLED / "rad.json").read_text()
    (folder / "rad.json").write_text(text.replace('"note": "', '"note": "ours, '))
    found = watch.fresh_predictor()
    assert found is not None
    assert found.version != load_predictor("rad").version
    assert f"weights {found.version}" in caplog.text
    assert watch.fresh_predictor() is None
    (folder / "rad.json").write_text("{")
    assert watch.fresh_predictor() is None
    assert "the old one stays" in caplog.text
    (folder / "rad.json").unlink()
    shipped = watch.fresh_predictor()
    assert shipped is not None
    assert shipped.version == load_predictor("rad").version


def test_weights_that_users_may_read_from_now_on_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "predictors").mkdir()
    shutil.copy(BUNDLED / "rad.json", tmp_path / "predictors")
    watch = ModelWatch(config(tmp_path, predictor="rad"))
    path = tmp_path / "predictors" / "rad.json"
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:  # the clock of a file system goes in steps
        path.chmod(0o600)
    assert watch.fresh_predictor() is not None


def test_radd_takes_them_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(tmp_path, predictor="rad")
    service = load_service(settings)
    watch = ModelWatch(settings)
    taken: list[Predictor | None] = []
    monkeypatch.setattr(service, "predict_with", taken.append)
    poller = Poller(settings, service, Slurm(), watch)
    poller.once()
    assert not taken
    (tmp_path / "predictors").mkdir()
    shutil.copy(BUNDLED / "rad.json", tmp_path / "predictors")
    poller.once()
    poller.once()
    assert [predictor.name for predictor in taken if predictor] == ["rad"]


def test_a_model_that_radd_takes_is_none_of_what_is_collected(tmp_path: Path) -> None:
    settings = config(tmp_path, "rad")
    service = load_service(settings)
    poller = Poller(settings, service, Slurm(), ModelWatch(settings))
    before = gc.get_freeze_count()
    poller.once()
    assert gc.get_freeze_count() == before
    Store(tmp_path / "models", "rad").install(store_for("rad", None).load(), {})
    first = service.method
    try:
        poller.once()
        assert service.method is not first
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()


class Slurm:
    """An empty cluster."""

    def look(self, partitions: Sequence[str]) -> ClusterView:
        return ClusterView(0.0)

    def record(self, job_id: int) -> Record | None:
        return None

    def unpin(self, job_id: int, share: int | None, *, node: bool) -> None:
        raise AssertionError("nothing is pinned")

    def release(self, job_id: int) -> None:
        raise AssertionError("nothing is held")
