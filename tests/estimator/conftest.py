"""What all tests of the estimator share."""

from __future__ import annotations

import pytest

from estimator.methods.rad.fit import processes


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit in this process, where coverage sees it; a test that wants more says so."""
    monkeypatch.setattr(processes, "cores", lambda: 1)
