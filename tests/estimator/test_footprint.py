"""What a method costs a process: measured in one, and what cannot be measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from estimator import footprint
from estimator.gpumemnet import GpuMemNet
from estimator.gpumemnet.with_torch import GpuMemNetWithTorch
from estimator.parsers import parse_summary
from estimator.types import Workload

PRINT = "Net(\n  (fc): Linear(in_features=64, out_features=64, bias=True)\n)\n"


def test_a_method_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    said = footprint.measure("rad", PRINT, 5, tmp_path)
    assert said is not None
    assert said.method == "rad"
    assert said.load_s > 0
    assert 5 < said.memory_mib < 100
    assert 0 < said.p50_us <= said.p99_us


def test_what_goes_wrong_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"horus could not be measured: .*no model summary starts here"):
        footprint.measure("horus", "nothing", 1, tmp_path)


def test_without_torch_nothing_is_measured_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "find_spec", lambda name: None)
    assert footprint.measure(footprint.WITH_TORCH, PRINT, 1, tmp_path) is None


def test_torch_and_numpy_run_the_same_networks(tmp_path: Path) -> None:
    summary = parse_summary(PRINT)
    plain, torch = GpuMemNet.load(tmp_path), GpuMemNetWithTorch.load(tmp_path)
    for batch in (1, 64, 100_000):
        assert torch.predict(summary, Workload(batch)) == plain.predict(summary, Workload(batch))
    for family in ("mlp", "cnn", "transformer"):
        classifier = plain._classifiers[family]
        width = classifier.arrays["mean"].shape[0]
        features = np.linspace(0, 20, width, dtype=np.float32)[None]
        expected = plain._ensemble(classifier, features)
        assert np.allclose(torch._ensemble(classifier, features), expected, atol=1e-5)
        assert np.allclose(torch._ensemble(classifier, features), expected, atol=1e-5)  # the networks are kept
