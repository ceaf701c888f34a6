"""GPUMemNet as a method: picks the family's classifier, answers with the upper edge of its class. Imports no torch."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.family import family_of
from estimator.fingerprint import fingerprint
from estimator.gpumemnet import nets
from estimator.gpumemnet.described import LONGEST, from_summary, sequence, totals
from estimator.shapes import reckonable, with_shapes
from estimator.store import ModelError, store_for
from estimator.types import Estimate, ModelSummary, Workload
from estimator.walk import layers

NAME = "gpumemnet"


@dataclass(frozen=True)
class Classifier:
    """One trained estimator of one family.

    Attributes:
        estimator: ``mlp`` for the ensemble of 13, ``transformer``.
        width_mib: width of a class.
        arrays: the weights, as ``nets`` names them.
    """

    estimator: str
    width_mib: int
    arrays: dict[str, NDArray[Any]]


class GpuMemNet:
    """The published method; it knows neither optimizer nor precision, as the original does not."""

    def __init__(self, classifiers: Mapping[str, Classifier], version: int | None = None) -> None:
        """Take trained classifiers.

        Args:
            classifiers: one for each family.
            version: number of the stored model.
        """
        self._classifiers = dict(classifiers)
        self._version = version

    @classmethod
    def load(cls, models_dir: Path | None = None) -> GpuMemNet:
        """Read the classifiers of the current version.

        Raises:
            ModelError: there are none, or a file is not what its manifest says.
        """
        store = store_for(NAME, models_dir)
        return cls(classifiers_from_json(store.load()), store.current)

    @property
    def name(self) -> str:
        """Name under which commands and configuration know the method."""
        return NAME

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        """Estimate as the upper edge of the most likely class; that edge is the bound as well.

        Args:
            summary: the model; shapes that it does not show are derived first.
            workload: of it only the batch size (and the sequence length, for shapes) is looked at.

        Raises:
            ModelError: no classifier was trained for the model's family.
            SummaryError: no shapes can be derived.
        """
        with reckonable():
            shaped = with_shapes(summary, workload)
        family = family_of(layers(shaped.root))
        classifier = self._classifiers.get(family)
        if classifier is None:
            raise ModelError(f"gpumemnet has no classifier for the family {family}: choose method rad or horus")
        model = from_summary(shaped)
        features = np.array([totals(model, workload.batch_size)], np.float32)
        if classifier.estimator == "mlp":
            chances = self._ensemble(classifier, features)
        else:
            rows = sequence(model, LONGEST)
            codes = np.array([[code for code, _, _ in rows]], np.int64)
            sizes = np.array([[(a, b) for _, a, b in rows]], np.float32).reshape(1, len(rows), 2)
            mask = np.ones((1, len(rows)), np.bool_)
            chances = nets.transformer(classifier.arrays, features, codes, sizes, mask)
        place = int(chances[0].argmax())
        edge = (place + 1) * classifier.width_mib
        made = NAME if self._version is None else f"{NAME} {self._version}"
        low = place * classifier.width_mib / 1024
        said = f"class {low:g} to {edge / 1024:g} GiB, {chances[0][place]:.0%} likely ({classifier.estimator})"
        reasons = (said, *shaped.inferred)
        return Estimate(edge, edge, made, family, fingerprint(summary, workload), reasons, shaped.note)

    def _ensemble(self, classifier: Classifier, features: NDArray[np.float32]) -> NDArray[Any]:
        return nets.ensemble(classifier.arrays, features)


def classifiers_to_json(classifiers: Mapping[str, Classifier]) -> dict[str, Any]:
    """Turn classifiers into JSON: weights as half-precision numbers in base64."""
    return {
        "classifiers": {
            family: {
                "estimator": item.estimator,
                "width_mib": item.width_mib,
                "arrays": {
                    name: {"shape": list(array.shape), "f16": base64.b64encode(array.astype("<f2").tobytes()).decode()}
                    for name, array in sorted(item.arrays.items())
                },
            }
            for family, item in sorted(classifiers.items())
        }
    }


def classifiers_from_json(model: Mapping[str, Any]) -> dict[str, Classifier]:
    """Read what ``classifiers_to_json`` wrote.

    Raises:
        ModelError: something is missing or of the wrong size.
    """
    try:
        return {
            family: Classifier(
                str(item["estimator"]),
                int(item["width_mib"]),
                {
                    name: np.frombuffer(base64.b64decode(array["f16"]), "<f2")
                    .astype(np.float32)
                    .reshape(array["shape"])
                    for name, array in item["arrays"].items()
                },
            )
            for family, item in model["classifiers"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"the gpumemnet model is damaged ({error}): install it again, or roll back") from None
