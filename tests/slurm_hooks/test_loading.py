"""Models by configuration: what is loaded, what is only said, and versions that come later."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from estimator.store import Store, store_for
from slurm_hooks.config import Config, parse
from slurm_hooks.loading import ModelWatch, load_service


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


def test_a_damaged_predictor_is_only_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "predictors"
    folder.mkdir()
    (folder / "rad.json").write_text("{")
    load_service(config(tmp_path, predictor="rad"))
    assert "no interference is predicted" in caplog.text


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
