"""What KACE was compared with: other regressions on its features, rules of thumb, and Xu et al. Pure but for CSVs.

Sources: KACE (SoCC'24) for the models and rules; Xu et al. (HotCloud'19) for the random forest on PCIe traffic and
on long and short kernels, made for time slicing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from predictor.artifact import ArtifactError, Colocation, Side, number, rate, read_rows
from predictor.kace import features_of
from predictor.measure import Chooser
from predictor.types import Floats, ProfileError

XU_FEATURES = (
    "PCIe read bandwidth",
    "PCIe write bandwidth",
    "Long_Kernel",
    "ave_Kernel_Length",
    "long/short_Ratio",
    "avg_Thread",
)
FOREST_GRID: Mapping[str, Sequence[int | None]] = {
    "n_estimators": (50, 100),
    "max_depth": (None, 5),
    "min_samples_leaf": (1, 2),
}
SEED = 0
"""Of every search and fit that draws at random."""


def _forest(features: Floats, target: Floats) -> GridSearchCV:
    if len(target) < 2:
        raise ArtifactError("a random forest chooses its size by leaving colocations out: train on two at least")
    folds = KFold(min(3, len(target)), shuffle=True, random_state=SEED)
    search = GridSearchCV(
        RandomForestRegressor(random_state=SEED), {key: list(values) for key, values in FOREST_GRID.items()}, cv=folds
    )
    return search.fit(features, target)


class RandomForest:
    """Random forest with grid search on KACE's features."""

    def fit(self, colocations: Sequence[Colocation]) -> RandomForest:
        """Fit to measured colocations."""
        target = np.array([row.throughput_sum for row in colocations])
        self._model = _forest(features_of(colocations), target)
        return self

    def predict(self, colocations: Sequence[Colocation]) -> Floats:
        """Predicted throughput sums, shape (colocations,)."""
        return np.asarray(self._model.predict(features_of(colocations)), dtype=np.float64)


class NeuralNetwork:
    """A small neural network on KACE's features, standardised on both ends."""

    def fit(self, colocations: Sequence[Colocation]) -> NeuralNetwork:
        """Fit to measured colocations."""
        target = np.array([row.throughput_sum for row in colocations])
        self._mean, self._scale = float(target.mean()), float(target.std()) or 1.0
        network = MLPRegressor(hidden_layer_sizes=(32, 16), solver="lbfgs", alpha=0.1, max_iter=2000, random_state=SEED)
        self._model = make_pipeline(StandardScaler(), network)
        self._model.fit(features_of(colocations), (target - self._mean) / self._scale)
        return self

    def predict(self, colocations: Sequence[Colocation]) -> Floats:
        """Predicted throughput sums, shape (colocations,)."""
        standard = np.asarray(self._model.predict(features_of(colocations)), dtype=np.float64)
        return self._mean + self._scale * standard


class AutoMl:
    """FLAML's AutoML on KACE's features, within a time budget; FLAML must be installed.

    Args:
        budget_s: time to search, in seconds.
    """

    def __init__(self, budget_s: float = 10.0) -> None:
        self.budget_s = budget_s

    def fit(self, colocations: Sequence[Colocation]) -> AutoMl:
        """Fit to measured colocations.

        Raises:
            ProfileError: FLAML is not installed.
        """
        try:
            from flaml.automl import AutoML  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ProfileError(f"automl needs more ({error}): in RAD's checkout: pip install '.[automl]'") from error
        target = np.array([row.throughput_sum for row in colocations])
        self._model = AutoML()
        self._model.fit(
            features_of(colocations),
            target,
            task="regression",
            time_budget=self.budget_s,
            eval_method="cv",
            n_splits=min(3, len(target)),
            n_jobs=1,
            seed=SEED,
            verbose=0,
        )
        return self

    def predict(self, colocations: Sequence[Colocation]) -> Floats:
        """Predicted throughput sums, shape (colocations,)."""
        return np.asarray(self._model.predict(features_of(colocations)), dtype=np.float64)


def _neighbour(target: str, colocation: Colocation) -> Side:
    """The side that shares the GPU with ``target``; beside itself it is its own neighbour."""
    return next((side for side in colocation.sides if side.workload != target), colocation.sides[0])


def _rule(key: Callable[[Side], float]) -> Chooser[Colocation]:
    def choose(target: str, candidates: Sequence[Colocation]) -> int:
        return int(np.argmin([key(_neighbour(target, candidate)) for candidate in candidates]))

    return choose


RULES: Mapping[str, Chooser[Colocation]] = {
    "memcap": _rule(lambda side: side.profile.memory_mib),
    "sm": _rule(lambda side: -side.profile.busy),
    "mem": _rule(lambda side: side.profile.dram),
}
"""KACE's rules: the neighbour with the smallest memory, the busiest SMs, or the least busy memory."""


@dataclass(frozen=True)
class XuRow:
    """One measured pair with the features of Xu et al.

    Attributes:
        workloads: names of the workloads, each once.
        features: shape (12,), the six features of each side.
        throughput_sum: sum of the throughputs reached together.
    """

    workloads: tuple[str, ...]
    features: tuple[float, ...]
    throughput_sum: float


def load_xu(path: Path) -> tuple[XuRow, ...]:
    """Pairs of a ``hotcloud_*`` file.

    Raises:
        ArtifactError: the file or a row cannot be used.
    """
    rows = []
    for line, row in read_rows(path):
        where = f"{path}: line {line}"
        values = tuple(number(row, f"w{side}_{name}", where) for side in (1, 2) for name in XU_FEATURES)
        total = sum(rate(row, f"w{side}throughput", where) for side in (1, 2))
        names = (row.get("workload1"), row.get("workload2"))
        if not names[0] or not names[1]:
            raise ArtifactError(f"{where}: a pair needs the columns workload1 and workload2")
        rows.append(XuRow(tuple(dict.fromkeys((names[0], names[1]))), values, total))
    if not rows:
        raise ArtifactError(f"{path}: holds no pair")
    return tuple(rows)


class Xu:
    """Xu et al.: a random forest on both sides' PCIe traffic and kernel lengths, in either order."""

    def fit(self, rows: Sequence[XuRow]) -> Xu:
        """Fit to measured pairs."""
        features = np.array([row.features for row in rows])
        half = features.shape[1] // 2
        both = np.vstack([features, np.hstack([features[:, half:], features[:, :half]])])
        target = np.array([row.throughput_sum for row in rows])
        self._model = _forest(both, np.concatenate([target, target]))
        return self

    def predict(self, rows: Sequence[XuRow]) -> Floats:
        """Predicted throughput sums, shape (rows,)."""
        return np.asarray(self._model.predict(np.array([row.features for row in rows])), dtype=np.float64)
