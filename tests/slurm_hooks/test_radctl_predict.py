from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from predictor.profile_files import load
from predictor.training import weights_text
from predictor.types import Profile
from slurm_hooks.radctl import predict
from slurm_hooks.radctl.main import cli
from tests.predictor.synthetic import every_pair, profile, workloads, write_csv

PAIRS = every_pair(workloads(9), noise=0.02)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_evaluate_keeps_its_contract(tmp_path: Path) -> None:
    train, test = write_csv(tmp_path / "a.csv", PAIRS[::2]), write_csv(tmp_path / "b.csv", PAIRS[1::2])
    common = ("evaluate", "interference", "--train", str(train), "--test", str(test))
    found = json.loads(run(*common, "--json"))
    assert set(found) == {"model", "n_targets", "oracle_fraction", "r2"}
    assert found["model"] == "rad" and found["n_targets"] == 9
    assert found["oracle_fraction"] > 0.9 and found["r2"] > 0.8
    assert json.loads(run(*common, "--model", "random", "--json"))["r2"] is None
    assert "of the oracle over 9 targets, R2" in run(*common, "--model", "kace")
    assert "predicts no sums" in run(*common, "--model", "memcap")


def test_errors_are_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "a.csv"
    broken.write_text("workload1\nx\n", encoding="utf-8")
    result = CliRunner().invoke(cli, ["evaluate", "interference", "--train", str(broken), "--test", str(broken)])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"radctl: {broken}: line 2") or "line 2" in result.stderr
    assert result.stderr.count("\n") == 1


def test_retrain_installs_what_is_no_worse(tmp_path: Path) -> None:
    data, models = write_csv(tmp_path / "pairs.csv", PAIRS), tmp_path / "models"
    common = ("retrain", "interference", "--data", str(data), "--model", "kace", "--models-dir", str(models))
    first = json.loads(run(*common, "--json"))
    assert first["replaced"] and first["colocations"] == len(PAIRS)
    assert first["new"]["mean_abs"] <= first["installed"]["mean_abs"], "the bundled one never saw such jobs"
    assert first["new"]["count"] == first["installed"]["count"], "both are judged by the same sides, as often"
    before = (models / "kace.json").read_bytes()
    second = json.loads(run(*common, "--json"))
    # The installed one has seen these very pairs: on families left out the new one cannot beat it.
    assert not second["replaced"] and (models / "kace.json").read_bytes() == before
    assert "kept the installed one" in run(*common)


def test_better_weights_that_are_installed_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, models = write_csv(tmp_path / "pairs.csv", PAIRS), tmp_path / "models"
    common = ("retrain", "interference", "--data", str(data), "--model", "kace", "--models-dir", str(models))

    def fit(*of: Any) -> str:
        made = weights_text(*of)
        models.mkdir(exist_ok=True)
        (models / "kace.json").write_text(made)  # another's, who has seen these very pairs
        return made

    monkeypatch.setattr(predict, "weights_text", fit)
    result = CliRunner().invoke(cli, list(common))
    assert "radctl: other weights were installed meanwhile: comparing with those" in result.stderr
    assert "kept the installed one" in result.stdout


def test_a_handful_of_colocations_replaces_no_weights(tmp_path: Path) -> None:
    models = tmp_path / "models"
    for count, exit_code in ((predict.LEAST_COLOCATIONS - 1, 2), (predict.LEAST_COLOCATIONS, 0)):
        data = write_csv(tmp_path / "pairs.csv", PAIRS[:count])
        words = ["retrain", "interference", "--data", str(data), "--model", "kace", "--models-dir", str(models)]
        result = CliRunner().invoke(cli, words)
        assert (result.exit_code, (models / "kace.json").exists()) == (exit_code, exit_code == 0)
        if exit_code:
            assert result.stderr == f"radctl: {data}: 29 colocations are too few to compare by: measure 30 or more\n"


def test_a_full_disk_is_named_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fchmod", full)
    data, models = write_csv(tmp_path / "pairs.csv", PAIRS), tmp_path / "models"
    arguments = ["retrain", "interference", "--data", str(data), "--model", "kace", "--models-dir", str(models)]
    result = CliRunner().invoke(cli, arguments)
    assert (result.exit_code, result.stderr) == (2, f"radctl: {models / 'kace.json'}: No space left on device\n")
    assert not list(models.iterdir())


def test_retrain_installs_where_radd_looks(tmp_path: Path) -> None:
    data, toml = write_csv(tmp_path / "pairs.csv", PAIRS), tmp_path / "rad.toml"
    toml.write_text(f'[predictor]\nmodels_dir = "{tmp_path}/site"\n', encoding="utf-8")
    found = run("--config", str(toml), "retrain", "interference", "--data", str(data), "--model", "kace", "--json")
    assert json.loads(found)["replaced"] and (tmp_path / "site/kace.json").is_file()


def test_whoever_retrains_all_may_read_the_weights(tmp_path: Path) -> None:
    data, models = write_csv(tmp_path / "pairs.csv", PAIRS), tmp_path / "models"
    before = os.umask(0o077)  # as root's is on many a controller
    try:
        run("retrain", "interference", "--data", str(data), "--model", "kace", "--models-dir", str(models))
    finally:
        os.umask(before)
    assert models.stat().st_mode & 0o777 == 0o755
    assert (models / "kace.json").stat().st_mode & 0o777 == 0o644


def test_a_folder_that_takes_no_weights_is_told_before_anything_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "families_left_out", None)
    data = write_csv(tmp_path / "pairs.csv", PAIRS)
    words = ["retrain", "interference", "--data", str(data), "--models-dir", str(data / "models")]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert result.stderr == f"radctl: {data / 'models'}: Not a directory\n"


def test_retrain_over_broken_weights(tmp_path: Path) -> None:
    data, models = write_csv(tmp_path / "pairs.csv", PAIRS), tmp_path / "models"
    models.mkdir()
    (models / "kace.json").write_text("broken", encoding="utf-8")
    result = CliRunner().invoke(
        cli, ["retrain", "interference", "--data", str(data), "--model", "kace", "--models-dir", str(models)]
    )
    assert result.exit_code == 0 and "nothing to compare with" in result.stderr
    assert "(installed: none): installed the new one" in result.stdout


def test_profile_writes_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def fake(request: object, counters: object, say: object) -> Profile:
        asked.append(request)
        return profile("bert")

    @contextmanager
    def nothing(index: int) -> Iterator[None]:
        yield None

    monkeypatch.setattr(predict, "profile_command", fake)
    monkeypatch.setattr(predict, "nvml_counters", nothing)
    path = tmp_path / "bert.json"
    out = run(
        "profile", "--output", str(path), "--seconds", "3", "--marker", "^it", "--", "python", "x.py", "--lr", "1"
    )
    assert out == "" and load(path).name == "bert"
    assert asked[0].command == ("python", "x.py", "--lr", "1")  # type: ignore[attr-defined]
    assert asked[0].marker == "^it" and asked[0].seconds == 3.0  # type: ignore[attr-defined]
    assert json.loads(run("profile", "--", "true"))["name"] == "bert"


def test_profile_without_a_gpu_says_so(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    result = CliRunner().invoke(cli, ["profile", "--output", str(path), "--", "true"])
    assert result.exit_code == 2 and "NVIDIA driver" in result.stderr and not path.exists()
