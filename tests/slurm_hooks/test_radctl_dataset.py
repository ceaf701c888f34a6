"""radctl dataset: generate, status, pack, and what is refused."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from estimator.dataset import store
from estimator.dataset.collect import Options
from estimator.dataset.raw import ROWS
from estimator.dataset.specs import spec_from_json
from slurm_hooks.radctl import dataset as commands
from slurm_hooks.radctl.estimate import estimate


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(commands.dataset, [str(argument) for argument in arguments])


def test_generate_writes_configurations(tmp_path: Path) -> None:
    file = tmp_path / "specs.jsonl"
    result = run("generate", file, "--mlp", 3, "--cnn", 2, "--transformer", 1, "--real", 1, "--seed", 4)
    assert result.exit_code == 0, result.output
    specs = [spec_from_json(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    assert sum(s.source == "synthetic" for s in specs) == 6
    assert f"{len(specs)} configurations" in result.output
    again = tmp_path / "again.jsonl"
    run("generate", again, "--mlp", 3, "--cnn", 2, "--transformer", 1, "--real", 1, "--seed", 4)
    assert again.read_bytes() == file.read_bytes()


def test_collect_hands_everything_to_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Collector:
        def __init__(self, specs: list[Any], folder: Path, options: Options) -> None:
            seen.extend([len(specs), folder, options])

        def run(self, progress: Any) -> None:
            progress("1 of 1 measured")

    monkeypatch.setattr(commands, "Collector", Collector)
    file = tmp_path / "specs.jsonl"
    run("generate", file, "--mlp", 1, "--cnn", 0, "--transformer", 0, "--real", 0)
    result = run("collect", file, "--into", tmp_path / "raw", "--workers", 2, "--device", "cpu", "--minutes", 3)
    assert result.exit_code == 0, result.output
    assert "1 of 1 measured" in result.output
    assert seen == [1, tmp_path / "raw", Options(2, 120 * 1024, "cpu", 3.0, 0.0, False)]


def test_counters_want_one_worker_and_configurations_must_be_some(tmp_path: Path) -> None:
    file = tmp_path / "specs.jsonl"
    file.write_text('{"source": "synthetic"}\n', "utf-8")
    result = run("collect", file, "--into", tmp_path, "--seconds", 1)
    assert result.exit_code == 2
    assert "give --workers 1" in result.output
    result = run("collect", file, "--into", tmp_path)
    assert result.exit_code == 1
    assert "specs.jsonl:1: not a configuration" in result.output


def test_collect_wants_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    file = tmp_path / "specs.jsonl"
    run("generate", file, "--mlp", 1, "--cnn", 0, "--transformer", 0, "--real", 0)
    result = run("collect", file, "--into", tmp_path / "raw")
    assert result.exit_code == 1
    assert "torch sees no GPU on this machine; --device cpu" in result.output
    assert not (tmp_path / "raw").exists()


def test_status_shows_the_committed_data_as_text_and_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "load", cache(store.load))  # once is enough
    assert "transformers" in run("status").output
    table = json.loads(run("status", "--json").output)
    assert table["real"]["rows"] >= 400


def test_status_of_a_running_collection_and_its_plot(tmp_path: Path) -> None:
    file = tmp_path / "specs.jsonl"
    run("generate", file, "--mlp", 2, "--cnn", 0, "--transformer", 0, "--real", 0)
    specs = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    measured = {"status": "ok", "peak_allocated_mib": 1.0, "peak_reserved_mib": 2.0}
    (tmp_path / ROWS).write_text("".join(json.dumps({"spec": s, **measured}) + "\n" for s in specs), "utf-8")
    result = run("status", "--raw", tmp_path, "--plot", tmp_path / "plot.svg")
    assert result.exit_code == 0, result.output
    assert "mlp" in result.output
    assert (tmp_path / "plot.svg").stat().st_size > 1000
    other = run("status", "--raw", tmp_path, "--plot", tmp_path / "plot.doc")
    assert other.exit_code == 1
    assert "plot.doc: Format 'doc' is not supported" in other.stderr
    assert not other.stdout
    (tmp_path / ROWS).write_text("", "utf-8")  # it has just begun
    assert run("status", "--raw", tmp_path, "--plot", tmp_path / "none.svg").exit_code == 0
    (tmp_path / ROWS).unlink()
    wrong = run("status", "--raw", tmp_path)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert f"holds no {ROWS}: name the folder" in wrong.stderr
    both = run("status", "--raw", tmp_path, "--data", tmp_path)
    assert both.exit_code == 2
    assert "--raw and --data exclude each other" in both.output


def test_pack_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    meta = tmp_path / "meta.json"
    meta.write_text("[1]", "utf-8")
    result = run("pack", tmp_path, "--into", tmp_path / "packed", "--meta", meta)
    assert result.exit_code == 1
    assert "holds no JSON object" in result.output
    meta.write_text("gpu: h200", "utf-8")
    result = run("pack", tmp_path, "--into", tmp_path / "packed", "--meta", meta)
    assert f"{meta} holds no JSON: Expecting value" in result.stderr
    meta.write_text("{}", "utf-8")
    result = run("pack", tmp_path, "--into", tmp_path / "packed", "--meta", meta)
    assert result.exit_code == 1
    assert "--isolated" in result.output


def test_estimate_runs_a_models_code_with_faketensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wide_net.py").write_text(
        "from torch import nn\n\ndef make():\n    return nn.Linear(2048, 2048)\n", "utf-8"
    )
    (tmp_path / "net.txt").write_text("Linear(in_features=2048, out_features=2048, bias=True)\n", "utf-8")
    arguments = ["net.txt", "--batch-size", "4", "--method", "faketensor", "--json", "--model"]
    made = [*arguments, "wide_net:make"]
    result = CliRunner().invoke(estimate, [*made, "--input-size", "2048"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["expected_mib"] >= 4 * 16
    missing = CliRunner().invoke(estimate, made)
    assert missing.exit_code == 2
    assert "add --input-size" in missing.output
    (tmp_path / "loud_net.py").write_text(
        "import wide_net\nnet = wide_net.make()\n\ndef make():\n    print('made')\n    return net\n\n"
        "def broken():\n    raise LookupError('no data')\n",
        "utf-8",
    )
    for place in ("loud_net:make", "loud_net:net"):
        loud = CliRunner().invoke(estimate, [*arguments, place, "--input-size", "2048"])
        assert json.loads(loud.stdout) == json.loads(result.stdout)  # what the code prints itself is no answer
    broken = CliRunner().invoke(estimate, [*arguments, "loud_net:broken", "--input-size", "2048"])
    assert broken.exit_code == 1
    assert "loud_net:broken failed with LookupError: no data (loud_net.py, line 9)" in broken.output
    wrong = CliRunner().invoke(estimate, [*made, "--input-size", "2048xx"])
    assert wrong.exit_code == 2
    assert "3x224x224" in wrong.output
    unread = CliRunner().invoke(estimate, ["net.txt", "--batch-size", "4", "--model", "wide_net:make"])
    assert unread.exit_code == 2
    assert "--method faketensor" in unread.output
