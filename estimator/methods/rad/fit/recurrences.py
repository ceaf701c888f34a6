"""Fits the trees that say what recurrent layers work with, see `estimator.methods.rad.recurrences`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from estimator.methods.rad.fit.boosting import Boosted
from estimator.methods.rad.fit.learners import WORKSPACES
from estimator.methods.rad.measured_recurrences import read
from estimator.methods.rad.recurrences import base_bytes, described

MEASURED: Final = WORKSPACES.with_name("workspaces_recurrent.csv.xz")
_TREES: Final = 800
_LEAST: Final = 5


def fit_recurrences(path: Path = MEASURED) -> dict[str, Any]:
    """Fit the trees.

    Args:
        path: what `estimator.methods.rad.measure_recurrences` wrote.
    """
    measured = read(path)
    rows = np.array([described(item.one) for item in measured])
    off = np.log([item.bytes / base_bytes(item.one) for item in measured])
    return Boosted(_TREES, _LEAST, loss="squared_error", learning_rate=0.1).fit(rows, off).written()
