"""radctl's commands around the estimator, as a user types them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit.judge import Held
from estimator.methods.rad.fit.reached import LeftOut, Reached
from estimator.methods.rad.known import KNOWLEDGE, LEVELS, tabulate
from estimator.methods.rad.retrain import Retrained
from estimator.store import SHIPPED, Store
from estimator.types import KINDS, LIBRARIES
from slurm_hooks.radctl.main import cli

SUMMARY = "Net(\n  (fc): Linear(in_features=1000, out_features=1000, bias=True)\n  (act): ReLU()\n)\n"
NOTHING = {"start": 0.0, "trees": []}
MODEL = {
    "features": [*FEATURES, *KNOWLEDGE],
    "workspaces": dict.fromkeys(("forward", "input", "weight", "copies"), NOTHING),
    "correction": NOTHING,
    "spread": {level: {"start": 1.0, "trees": []} for level in LEVELS},
    "bounds": dict.fromkeys(LEVELS, 0.2),
    "gpu": "h200",
    "context_mib": {kind: dict.fromkeys(LIBRARIES, 750) for kind in KINDS},
    "known": [],
    "measured": tabulate(()),
    "own": {},
}


def run(*args: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args], input=text)


@pytest.fixture
def summary(tmp_path: Path) -> str:
    path = tmp_path / "net.txt"
    path.write_text(SUMMARY)
    return str(path)


def test_estimate_as_json(summary: str) -> None:
    done = run("estimate", summary, "--batch-size", "64", "--optimizer", "sgd", "--precision", "amp", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    assert set(answer) == {"expected_mib", "upper_mib", "method", "family", "fingerprint", "reasons"}
    assert 700 < answer["expected_mib"] <= answer["upper_mib"]
    assert answer["family"] == "mlp"


def test_the_batch_size_that_a_table_shows_may_be_left_out() -> None:
    table = (
        "Layer (type:depth-idx)  Output Shape  Param #\n===\nNet  [32, 10]  --\n├─Linear: 1-1  [32, 10]  1,010\n===\n"
    )
    left_out, given = (run("estimate", "-", *args, text=table) for args in ((), ("--batch-size", "32")))
    assert left_out.exit_code == 0
    assert left_out.stdout == given.stdout
    assert run("estimate", "-", "--batch-size", "64", "--optimizer", "SGD", text=table).exit_code == 0


def test_estimate_for_a_size_of_pictures() -> None:
    print_ = "Net(\n  (stem): Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3))\n)\n"
    small, large = (
        json.loads(run("estimate", "-", "--batch-size", "64", "--json", "--input-size", size, text=print_).output)
        for size in ("64", "3x512x512")
    )
    assert large["expected_mib"] > 1.5 * small["expected_mib"]
    assert "input_size=64: the first layer takes 3x64x64" in small["reasons"]
    wrong = run("estimate", "-", "--batch-size", "64", "--input-size", "3,64,64", text=print_)
    assert wrong.exit_code == 2
    assert "write --input-size 3x64x64" in wrong.output


def test_estimate_reads_stdin_and_speaks_plainly() -> None:
    done = run("estimate", "-", "--batch-size", "64", "--method", "horus", "--gpu", "a100", text=SUMMARY)
    assert done.exit_code == 0, done.output
    assert "GiB expected" in done.output
    assert "(horus, mlp)" in done.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--batch-size", "0"), "batch-size"),
        ((), "batch-size"),
        (("--batch-size", "1", "--optimizer", "lion"), "lion"),
        (("--batch-size", "1", "--method", "magic"), "magic"),
    ],
)
def test_wrong_options_are_named(summary: str, args: tuple[str, ...], message: str) -> None:
    done = run("estimate", summary, *args)
    assert done.exit_code == 2
    assert message in done.output


def test_a_text_that_is_no_summary_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xff\xfehello there")
    done = run("estimate", str(path), "--batch-size", "1")
    assert done.exit_code == 2
    assert "hello there" in done.output


def cases(path: Path) -> Path:
    (path / "net.txt").write_text(SUMMARY)
    (path / "bad.txt").write_text("nothing\n")
    (path / "labels.csv").write_text(
        "file,batch_size,optimizer,precision,seq_len,kind,gpu,gpu_memory_mib\n"
        "net.txt,64,adam,fp32,,train,h200,800\nbad.txt,64,adam,fp32,,train,h200,800\n"
    )
    return path


def test_evaluate_memory(tmp_path: Path) -> None:
    done = run("evaluate", "memory", "--cases", str(cases(tmp_path)), "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.output)
    assert (answer["n"], answer["failed"], answer["method"]) == (1, 1, "rad")
    assert {"under_rate", "median_abs_rel_error", "mean_over_mib", "mean_over_fraction"} <= set(answer)
    assert answer["cases"][0]["file"] == "net.txt"
    plain = run("evaluate", "memory", "--cases", str(tmp_path), "--method", "horus")
    assert "net.txt, batch 64: measured 800" in plain.output
    assert "bad.txt: summary line 1" in plain.output
    assert "horus: 1 cases, 1 not answered" in plain.output
    for name in ("net", "bad"):
        (tmp_path / f"{name}.txt").rename(tmp_path / f"{name}\x1b[31m.txt")
    labels = tmp_path / "labels.csv"
    labels.write_text(labels.read_text().replace(".txt", "\x1b[31m.txt"))
    shown = CliRunner().invoke(cli, ["evaluate", "memory", "--cases", str(tmp_path)], color=True).output
    assert "net?[31m.txt" in shown
    assert "bad?[31m.txt" in shown
    assert shown.replace("\n", "").isprintable()


def test_models_are_listed_and_rolled_back(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    store.install(MODEL, {"note": "one"})
    store.install(MODEL, {"note": "two"})
    rows = json.loads(run("models", "list", "--models-dir", str(tmp_path), "--json").output)["models"]
    assert [(row["version"], row["current"]) for row in rows if row["folder"] == str(tmp_path)] == [
        (1, False),
        (2, True),
    ]
    assert [row["folder"] for row in rows if row["current"] and row["method"] == "rad"] == [str(tmp_path)]
    assert "* rad 2  two" in run("models", "list", "--models-dir", str(tmp_path)).output
    assert "version 1 is current" in run("models", "rollback", "--models-dir", str(tmp_path)).output
    last = run("models", "rollback", "--models-dir", str(tmp_path))
    assert last.output == "rad: the version that comes with RAD is current\n"
    assert run("models", "list", "--models-dir", str(tmp_path)).output.startswith("* rad 1  fitted")
    refused = run("models", "rollback", "rad", "--models-dir", str(tmp_path))
    assert refused.exit_code == 2
    assert "nothing to go back to" in refused.output


@pytest.mark.parametrize(("name", "marked"), [("manifest.json", False), ("model.json.gz", True)])
def test_the_list_says_that_the_version_in_use_is_damaged(tmp_path: Path, name: str, marked: bool) -> None:
    Store(tmp_path, "rad").install(MODEL, {"note": "ours"})
    assert run("models", "list", "--models-dir", str(tmp_path)).stderr == ""
    path = tmp_path / "rad" / "1" / name
    path.unlink()
    listed = run("models", "list", "--models-dir", str(tmp_path))
    assert listed.stderr.startswith(f"radctl: rad cannot be used: {path} is missing")
    assert ("* rad 1  ours" in listed.stdout) is marked
    assert "* gpumemnet" in listed.stdout
    assert json.loads(run("models", "list", "--models-dir", str(tmp_path), "--json").stdout)["models"]


def test_a_sites_own_models_lie_where_its_configuration_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models, seen = tmp_path / "models", []
    site = tmp_path / "rad.toml"
    site.write_text(f'[estimator]\nmodels_dir = "{models}"\n')
    monkeypatch.setenv("RAD_CONFIG", str(site))

    def fake(data: Path, models_dir: Path, say: Callable[[str], None]) -> Retrained:
        seen.append(models_dir)
        return Retrained(10, Held(5, 0.0, 0.04, 0.1), None, 4, LeftOut({}, {}, {}))

    monkeypatch.setattr("estimator.methods.rad.retrain.retrain", fake)
    for words in (("retrain",), ("retrain", "memory")):
        assert run(*words, "--data", str(tmp_path)).exit_code == 0
    assert seen == [models, models]
    Store(models, "rad").install(MODEL, {"note": "own"})
    assert f"* rad 1  own  ({models})" in run("models", "list").output
    folder = cases(tmp_path)
    for asked in (
        ("estimate", str(folder / "net.txt"), "--batch-size", "64"),
        ("evaluate", "memory", "--cases", folder),
    ):
        said, own, shipped = (
            run(*asked, "--json", *more).stdout for more in ((), ("--models-dir", models), ("--models-dir", SHIPPED))
        )
        assert said == own != shipped
        (models / "rad" / "current").write_text("x")  # damaged: as radd does, it takes what comes with RAD
        done = run(*asked, "--json")
        assert (done.exit_code, done.stdout) == (0, shipped)
        assert "; the model that comes with RAD answers instead" in done.stderr
        assert run(*asked, "--models-dir", str(models)).exit_code == 2
        (models / "rad" / "current").write_text("1")
    assert run("models", "rollback").exit_code == 0
    assert Store(models, "rad").current is None


def test_estimates_come_from_the_sites_model(tmp_path: Path, summary: str) -> None:
    Store(tmp_path / "models", "rad").install(MODEL, {})
    done = run("estimate", summary, "--batch-size", "64", "--models-dir", str(tmp_path / "models"), "--json")
    assert json.loads(done.output)["method"] == "rad 1"


@pytest.mark.parametrize("words", [("retrain",), ("retrain", "memory")])
@pytest.mark.parametrize("version", [None, 4])
def test_retrain_says_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], version: int | None
) -> None:
    seen: list[Any] = []

    def fake(data: Path, models_dir: Path, say: Callable[[str], None]) -> Retrained:
        say("fitting")
        seen.append((data, models_dir))
        left_out = LeftOut({"run": {"all": Reached(90, 0.02, 0.01, 0.16, 0.1)}}, {}, {})
        return Retrained(10, Held(5, 0.0, 0.04, 0.1), None if version else Held(5, 0.0, 0.03, 0.1), version, left_out)

    monkeypatch.setattr("estimator.methods.rad.retrain.retrain", fake)
    done = run(*words, "--data", str(tmp_path), "--models-dir", str(tmp_path / "m"))
    assert done.exit_code == 0, done.output
    assert ("installed version 4" if version else "kept the installed one") in done.stdout
    assert "without a run, all: median error 2.0%, upper too low in 1.0%, too high by 16% on average" in done.stdout
    assert done.stderr == "radctl: fitting\n"
    answer = json.loads(run(*words, "--data", str(tmp_path), "--models-dir", str(tmp_path / "m"), "--json").stdout)
    assert answer["installed"] is (version is not None)
    assert seen == [(tmp_path, tmp_path / "m")] * 2


def test_retrain_wants_data_and_options_behind_the_subcommand(tmp_path: Path) -> None:
    assert "missing --data" in run("retrain").output
    assert "after the subcommand" in run("retrain", "--data", str(tmp_path), "memory").output


def test_summarize_prints_what_estimate_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.py").write_text(
        "class P:\n    requires_grad = True; numel = lambda self: 7\n"
        "class Leaf:\n    def parameters(self): return [P()]\n    def extra_repr(self): return 'size=7'\n"
        "    _modules = {}; named_children = None\n"
        "class Net:\n    def __init__(self): self.leaf = Leaf(); self.own = P(); self._modules = {'leaf': self.leaf}\n"
        "    def parameters(self): return [*self.leaf.parameters(), self.own]\n"
        "    def extra_repr(self): return 'a=1\\nb=2'\n    named_children = None\n"
    )
    monkeypatch.chdir(tmp_path)
    done = run("summarize", "toy:Net")
    assert done.exit_code == 0, done.output
    assert "  (leaf): Leaf(size=7), 7 params\n" in done.output
    assert "), 14 params" in done.output
    assert "Trainable" not in done.output
    (tmp_path / "half.py").write_text("import toy\nhalf = toy.Net()\nhalf.own.requires_grad = False\n")
    assert run("summarize", "half:half").output.endswith("Trainable params: 7\nNon-trainable params: 7\n")
    for wrong in ("toy", "toy:Nothing", "nowhere:Net", ":x"):
        assert run("summarize", wrong).exit_code == 2
    assert run("summarize", "os:getcwd").stderr == "radctl: os:getcwd returns no torch.nn.Module, but a str\n"
    said = run("summarize", "nowhere:Net").stderr
    assert said.startswith(
        "radctl: nowhere:Net cannot be loaded: No module named 'nowhere'; no nowhere.py lies in this"
    )
    assert f"radctl runs in {sys.executable}: install that there" in said
    (tmp_path / "wants.py").write_text("import nowhere\n")
    said = run("summarize", "wants:Net").stderr
    assert f"wants:Net cannot be loaded: No module named 'nowhere'; radctl runs in {sys.executable}" in said


@pytest.mark.parametrize("said", ["Net(\n  3 to 4,\n  rates=(1, 2))", "Net(like='relu(')"])
def test_what_a_class_writes_of_itself_in_a_way_of_its_own_is_left_out(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"wordy{len(said)}"  # a module is imported once
    (tmp_path / f"{name}.py").write_text(
        "class P:\n    requires_grad = True; numel = lambda self: 7\n"
        "class Net:\n    def parameters(self): return [P()]\n    def extra_repr(self): return ''\n"
        f"    _modules = {{}}; named_children = None\n    def __repr__(self): return {said!r}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert run("summarize", f"{name}:Net").stdout == "Net(), 7 params\n"


def test_what_the_users_code_prints_by_others_and_reads_of_the_command_line_is_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script.py").write_text(
        "import argparse, subprocess, sys\n"
        "argparse.ArgumentParser().parse_args()\n"
        "subprocess.run([sys.executable, '-c', 'print(\"by another program\")'], check=True)\n"
        "sys.__stdout__.write('around what stands for it\\n')\n"
        "class P:\n    requires_grad = True; numel = lambda self: 7\n"
        "class Net:\n    def parameters(self): return [P()]\n    def extra_repr(self): return ''\n"
        "    _modules = {}; named_children = None\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["radctl", "summarize", "script:Net"])
    done = run("summarize", "script:Net")
    assert done.stdout == "Net(), 7 params\n"
    assert capfd.readouterr() == ("", "by another program\naround what stands for it\n")


def test_summarize_says_in_one_line_what_failed_in_the_users_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(
        "class P:\n    requires_grad = True; numel = lambda self: 7\n"
        "class Net:\n    def parameters(self): return [P()]\n    def extra_repr(self): return ''\n"
        "    _modules = {}; named_children = None\nnet = Net()\nsize = 3\n"
        "def sized(width):\n    return net\ndef broken():\n    print(net)\n    raise LookupError('no data\\nat all')\n"
        "class None_(Net):\n    def parameters(self): return []\n"
        "def loud():\n    print('Net(), 9 params')\n    return net\nprint('imported')\n"
    )
    (tmp_path / "starts.py").write_text("import sys\nsys.exit('usage: starts.py --data DIR')\n")
    (tmp_path / "typo.py").write_text("def (\n")
    monkeypatch.chdir(tmp_path)
    assert run("summarize", "mine:net").stdout == "Net(), 7 params\n"
    loud = run("summarize", "mine:loud")
    assert loud.stdout == "Net(), 7 params\n"  # what the code prints itself is no summary
    assert "Net(), 9 params" in loud.stderr
    assert run("summarize", "mine:None_").stderr.endswith("without parameters: there is nothing to train\n")
    cure = "name a function without arguments that returns the model, in a module that does nothing when imported\n"
    for place, why in (
        ("mine:broken", "LookupError: no data (mine.py, line 13)"),
        ("mine:sized", "TypeError: sized() missing 1 required positional argument: 'width'; "),
        ("starts:net", "SystemExit: usage: starts.py --data DIR (starts.py, line 2)"),
        ("typo:net", "SyntaxError: invalid syntax (typo.py, line 1); "),
    ):
        done = run("summarize", place)
        assert done.exit_code == 2
        assert f"radctl: {place} failed with {why}" in done.stderr, done.stderr
        assert done.stderr.endswith(cure)
    assert "mine:size is no function" in run("summarize", "mine:size").stderr
    for path, cure in (("mine.py:net", "mine:net"), ("./lib/mine.py:net", "lib.mine:net"), ("mi ne:x", "torchvision")):
        assert f"expected MODULE:FACTORY as in an import, for example {cure}" in run("summarize", path).stderr
    (tmp_path / "estimator.py").write_text("from mine import net\n")
    assert "has a module estimator of its own; give your file" in run("summarize", "estimator:net").stderr
    (tmp_path / "predictor").mkdir()
    assert "has a module predictor of its own; give your file" in run("summarize", "predictor.mine:net").stderr
    (tmp_path / "inside.py").write_text("from .mine import net\n")
    assert run("summarize", "inside:net").stderr.endswith("from the folder that holds that: package.module:factory\n")
    (tmp_path / "gpu.py").write_text("def net():\n    raise AssertionError('Torch not compiled with CUDA enabled')\n")
    assert "(gpu.py, line 2); radctl runs this code without a GPU: " in run("summarize", "gpu:net").stderr
    both = run("summarize", "mine:net", "--seq-len", "8", "--input-size", "8")
    assert both.exit_code == 2
    assert "each says all that goes in" in both.stderr
