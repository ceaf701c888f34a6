from __future__ import annotations

from pathlib import Path

import pytest

from predictor import hook
from predictor.trace import kernel_metrics, read_trace


def test_outside_a_profile_it_does_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(hook.MARKER_VARIABLE, raising=False)
    hook.iteration()
    assert capsys.readouterr().out == ""


def test_it_prints_the_marker(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv(hook.MARKER_VARIABLE, "1")
    monkeypatch.delenv(hook.TRACE_VARIABLE, raising=False)
    hook.iteration()
    assert capsys.readouterr().out == f"{hook.MARKER}\n"


def test_it_traces_some_iterations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    monkeypatch.setenv(hook.MARKER_VARIABLE, "1")
    monkeypatch.setenv(hook.TRACE_VARIABLE, str(trace))
    monkeypatch.setattr(hook, "_state", hook._State())
    for count in range(1, 15):
        hook.iteration()
        assert trace.exists() == (count >= hook.TRACE_SKIP + hook.TRACE_ITERATIONS)
    assert kernel_metrics(read_trace(trace))["launches"] == 0
