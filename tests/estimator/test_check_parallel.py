"""What is told of trainings in PyTorch's ways to train on several GPUs."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch


def test_what_ran_before_is_told_without_the_models_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchvision", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "scripts.check_parallel", raising=False)
    check = importlib.import_module("scripts.check_parallel")
    with torch.device("meta"):
        model = check.MODELS["mlp"].make()
    assert len(check._parts(model, check.MODELS["mlp"].block)) == 4
    row = {"model": "mlp", "gpu": "NVIDIA H100", "params_mib": 500.0, "beside": 500.0, "text": str(model)}
    rows = [
        {**row, "way": "alone", "held": 2000.0},
        {**row, "way": "DDP", "held": 2500.0, "beside": 600.0},
        {"model": "mlp", "way": "FSDP", "error": "RuntimeError: no"},
        {"name": "Task(model='mlp', way='fully_shard')", "error": "its process died"},
    ]
    died, *said = check.told(rows)
    assert died == "Task(model='mlp', way='fully_shard'): its process died"
    assert said[0].startswith("alone: mlp: held 2000 MiB, context +0 MiB, parameters +0.00 times; estimated ")
    assert said[1].startswith("alone: 1, median error ")
    assert said[2].startswith("DDP: mlp: held 2500 MiB, context +100 MiB, parameters +1.00 times; estimated ")
    assert said[4:] == ["FSDP: mlp: RuntimeError: no"]
