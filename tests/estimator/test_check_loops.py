"""What is told of trainings in the loops that users write."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
import torch


def test_what_ran_before_is_told_without_the_models_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchvision", "transformers", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "scripts.check_loops", raising=False)
    check = importlib.import_module("scripts.check_loops")

    def row(model: str, loop: str, *, capped: bool, fits: bool = True, retries: int = 0, held: float = 0) -> Any:
        said = {"model": model, "loop": loop, "precision": "fp32", "capped": capped}
        return {**said, "upper": 3000, "fits": fits, "retries": retries, "reserved": held}

    rows = [
        row("bert", "plain", capped=True),
        row("t5", "plain", capped=True),
        row("bert", "late", capped=True, fits=False, retries=2),
        row("t5", "late", capped=True, retries=1),
        row("bert", "plain", capped=False, held=1000),
        row("bert", "late", capped=False, held=1100),
        {"model": "t5", "loop": "late", "precision": "fp32", "capped": False, "error": "RuntimeError: no"},
        {"name": "Task(...)", "error": "its process died"},
    ]
    assert list(check.told(rows))[2:] == [
        "| as the data set's: `zero_grad()` after the step | fp32 | 2 | 2 | 0 | +0.0% |",
        "| `zero_grad()` after the forward pass | fp32 | 2 | 1 | 2 | +10.0% |",
        "bert, late, fp32: out of memory under 3000 MiB",
        "t5, late, fp32: RuntimeError: no",
        "Task(...), , : its process died",
    ]


def test_a_model_is_given_what_its_loops_need() -> None:
    check = importlib.import_module("scripts.check_loops")
    for name, of in check.MODELS.items():
        batch = of.batch(2)
        assert len(batch["labels"]) == 2, name
        assert set(batch) == {"pixel_values" if of.seq_len is None else "input_ids", "labels"}
    each = check.MODELS["roberta_words"].batch(2)
    assert each["labels"].shape == each["input_ids"].shape
    words = check.MODELS["gpt2"].batch(2)
    assert torch.equal(words["labels"], words["input_ids"])
    assert check.MODELS["resnet18_32"].workload("amp", "h100").input_size == (3, 32, 32)
