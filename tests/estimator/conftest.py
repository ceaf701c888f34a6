"""What all tests of the estimator share."""

from __future__ import annotations

import pytest

from estimator import summarize
from estimator.methods.rad import Rad
from estimator.methods.rad.fit import processes
from estimator.rehearsals import rehearse


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit in this process, where coverage sees it; a test that wants more says so."""
    monkeypatch.setattr(processes, "cores", lambda: 1)


@pytest.fixture(scope="session")
def rad() -> Rad:
    """The model that comes with the package: to read it takes a second."""
    return Rad.load()


@pytest.fixture
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rehearse below a table in fp32 alone, and at the batch size that it shows: all of it takes nine times as long."""
    monkeypatch.setattr(summarize, "_BATCHES", (1,))
    for module in (summarize, rehearse):
        monkeypatch.setattr(module, "PRECISIONS", ("fp32",))
