"""A model's own code is rehearsed: what functions keep is counted, as a GPU's kernels keep it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from estimator.faketensor import fake_model, plain_inputs
from estimator.parsers import parse_summary
from estimator.rehearse import rehearse
from estimator.summarize import table_of
from estimator.types import Kind, Precision
from slurm_hooks.radctl.main import cli

MIB = 2**20


class Gate(nn.Module):  # type: ignore[misc] # torch is not followed by mypy
    """Keeps in functions what no layer shows."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.line = nn.Linear(256, 256)
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.line(x)
        for _ in range(self.steps):
            x = x * torch.exp(x)
        return x


def sizes(model: nn.Module, shape: tuple[int, ...], batches: tuple[int, int] = (16, 32)) -> Any:
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    made = fake_model(lambda: model, fake)
    found = rehearse(made, fake, plain_inputs(shape, None), batches)
    return {(run.kind, run.precision): [mib for _, mib in run.points] for run in found}


def test_what_functions_keep_grows_the_training_alone() -> None:
    few, many = (sizes(Gate(steps), (1024, 256)) for steps in (1, 9))
    each = 32 * 1024 * 256 * 4 / MIB
    more = many["train", "fp32"][1] - few["train", "fp32"][1]
    assert 8 * 2 * each == pytest.approx(more, rel=0.1)  # a factor and the exponential of each
    assert many["infer", "fp32"] == few["infer", "fp32"]
    assert many["train", "fp32"][1] == pytest.approx(2 * many["train", "fp32"][0], rel=0.05)
    assert many["train", "bf16"][1] == pytest.approx(many["train", "fp32"][1] / 2, rel=0.15)


def test_attention_and_dropout_keep_what_they_do_on_a_gpu() -> None:
    class Attends(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.line(x).unsqueeze(1)
            x = functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)
            return functional.dropout(x, 0.1, self.training)

    before = functional.dropout, functional.scaled_dot_product_attention
    found = sizes(Attends(), (2048, 64))["train", "fp32"][1]
    matrix = 32 * 2048 * 2048 * 4 / MIB
    assert found < matrix / 2
    masks = 32 * 2048 * 64 / MIB  # a byte for each number
    without = sizes(Attends().eval(), (2048, 64))["infer", "fp32"][1]
    assert without + masks < found
    assert (functional.dropout, functional.scaled_dot_product_attention) == before


def test_dropout_keeps_a_byte_for_each_number() -> None:
    class Drops(nn.Module):  # type: ignore[misc]
        def __init__(self, *, drops: bool) -> None:
            super().__init__()
            self.line = nn.Linear(256, 256)
            self.drops = drops

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.line(x)
            for _ in range(4):
                x = functional.dropout(x, 0.1, self.training) if self.drops else x * 1.0
            return x.sum(1)

    dropping, plain = (sizes(Drops(drops=drops), (1024, 256))["train", "fp32"][1] for drops in (True, False))
    assert dropping - plain == pytest.approx(4 * 32 * 1024 * 256 / MIB, rel=0.05)


def test_code_that_makes_numbers_in_fp32_is_rehearsed_in_fp32_alone() -> None:
    class Mixed(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Conv1d(4, 8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.kernel(x.float() + torch.ones(8))

    assert sizes(Mixed(), (4, 8)).keys() == {("train", "fp32"), ("infer", "fp32")}


def test_a_table_shows_all_layers_with_the_rehearsal_below() -> None:
    text = table_of(lambda: nn.Sequential(Gate(3), nn.Sequential(nn.ReLU())), plain_inputs((7, 256), None), 8)
    summary = parse_summary(text)
    assert summary.batch_size == 8
    assert [layer.type for layer in summary.root.children] == ["Gate", "Sequential"]
    assert summary.root.children[0].children[0].output_shape == (7, 256)
    runs: set[tuple[Kind, Precision]] = {(run.kind, run.precision) for run in summary.rehearsals}
    assert runs == {(kind, precision) for kind in ("train", "infer") for precision in ("fp32", "bf16")}
    assert [batch for batch, _ in summary.rehearsals[0].points] == [4, 8]


def test_a_table_is_made_where_only_a_training_step_cannot_be_rehearsed() -> None:
    class Looks(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.training and x.sum() > 0:
                return x
            return self.line(x)

    text = table_of(Looks, plain_inputs((8,), None), 4)
    assert text.endswith("not rehearsed, as its code needs values or a GPU: DataDependentOutputException")
    assert parse_summary(text).rehearsals == ()


def test_summarize_makes_a_table_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def net(): return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())\n"
        "def words(): return nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 100))\n"
        "class Looks(nn.Linear):\n"
        "    def __init__(self): super().__init__(4, 4)\n"
        "    def forward(self, x): return x if x.sum() > 0 else super().forward(x)\n"
    )
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    done = runner.invoke(cli, ["summarize", "tiny:net", "--input-size", "3x32x32", "--batch-size", "4"])
    assert done.exit_code == 0, done.output
    assert "Conv2d: 1-1                            [4, 8, 30, 30]           224" in done.stdout
    assert "Rehearsed train fp32 size (MiB at batch 2, 4): " in done.stdout
    done = runner.invoke(cli, ["summarize", "tiny:words", "--seq-len", "64"])
    assert "[32, 64, 100]" in done.stdout
    for wrong, why in (
        (["tiny:Looks", "--input-size", "4"], "DataDependentOutputException"),
        (["tiny:net", "--input-size", "5x32x32"], "RuntimeError"),
        (["tiny:net", "--input-size", "3,32"], "write input_size=3x32"),
    ):
        done = runner.invoke(cli, ["summarize", *wrong])
        assert done.exit_code == 2
        assert why in done.stderr
