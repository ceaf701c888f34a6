"""From a configuration to a service: loads the models that it names. Reads the folders of models only."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from estimator.methods import load_method
from estimator.store import ModelError, store_for
from estimator.types import Method
from predictor.types import Predictor, WeightsError
from predictor.weights import load_predictor
from slurm_hooks.config import Config
from slurm_hooks.service import Service

log = logging.getLogger("rad.models")


def load_service(config: Config, clock: Callable[[], float] = time.time) -> Service:
    """A service with the estimator and the predictor that `config` names.

    A site's own model that cannot be used, as one that was fitted for an older RAD, is only said: what comes with RAD
    serves.

    Raises:
        ValueError: no such estimator, or the model that comes with RAD is damaged too.
        ImportError: the estimator needs a package that is not installed.
    """
    try:
        method = _method(config)
    except ModelError as error:
        method = load_method(config.estimator.method)
        log.warning("%s: the model that comes with RAD serves instead of %s", error, config.estimator.models_dir)
    return Service(config, method, clock, _predictor(config))


class ModelWatch:
    """Notices that another version of a model became current (`radctl retrain`, `radctl models rollback`)."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._seen = self._current()
        self._weights = self._stamp()

    def fresh(self) -> Method | None:
        """The method with its new version, or None where nothing changed or the new one cannot be used."""
        now = self._current()
        if now == self._seen:
            return None
        self._seen = now
        try:
            method = _method(self._config)
        except (ModelError, OSError, ValueError) as error:
            log.warning(
                "the new version of %s cannot be used, the old one stays: %s", self._config.estimator.method, error
            )
            return None
        log.info("%s now answers with version %s of %s", self._config.estimator.method, now[1][0], now[0])
        return method

    def fresh_predictor(self) -> Predictor | None:
        """The predictor with its new weights, or None where nothing changed or the new ones cannot be used."""
        now = self._stamp()
        if now == self._weights:
            return None
        self._weights = now
        predictor = _predictor(self._config, "the old one stays")
        if predictor is not None:
            log.info("predictor %s now answers with weights %s", predictor.name, predictor.version)
        return predictor

    def _stamp(self) -> tuple[int, int, int]:
        """What changes with the file of weights: `radctl retrain` puts another file in its place."""
        settings = self._config.predictor
        try:
            found = (Path(settings.models_dir) / f"{settings.model}.json").stat()
        except OSError:
            return 0, 0, 0
        return found.st_ino, found.st_ctime_ns, found.st_size  # of a chmod, too

    def _current(self) -> tuple[Path, tuple[int | None, ...]]:
        """Where the current version lies, and what changes with it: its number comes first."""
        try:
            store = store_for(self._config.estimator.method, Path(self._config.estimator.models_dir))
            return store.folder, store.stamp()
        except ModelError:
            return Path(), (None,)


def _method(config: Config) -> Method:
    return load_method(config.estimator.method, Path(config.estimator.models_dir))


def _predictor(config: Config, otherwise: str = "no interference is predicted") -> Predictor | None:
    """The configured predictor; without one jobs are placed all the same, so a damaged one is only said."""
    if config.predictor.model == "off":
        return None
    try:
        return load_predictor(config.predictor.model, Path(config.predictor.models_dir))
    except WeightsError as error:
        log.warning("%s: %s", otherwise, error)
        return None
