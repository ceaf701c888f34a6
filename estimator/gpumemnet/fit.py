"""Fits GPUMemNet's estimators to the published data and to ours, and says how well they do. Needs torch.

Writes nothing: the caller prints the scores and installs the classifiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from estimator.dataset.store import Dataset
from estimator.gpumemnet.described import from_trace
from estimator.gpumemnet.method import Classifier
from estimator.gpumemnet.metrics import Scores
from estimator.gpumemnet.train import Example, Trained, batch_of, split, split_by_group, train
from estimator.types import Family

WIDTHS_MIB: dict[Family, tuple[int, ...]] = {"mlp": (1024, 2048), "cnn": (8192,), "transformer": (8192,)}
"""Widths of the classes for each family, as in tables 5.3, 5.5 and 5.7."""

ESTIMATORS = ("mlp", "transformer")


@dataclass(frozen=True)
class Result:
    """One line of tables 5.3, 5.5 or 5.7.

    Attributes:
        data: where the rows come from, as the caller names it.
        family: family of the networks in the data.
        estimator: ``mlp`` for the ensemble of 13, ``transformer``.
        width_mib: width of a class.
        classes: number of classes.
        sizes: rows for training, validation and test.
        scores: on the test rows.
        validation: accuracy on the validation rows.
        majority: accuracy on the test rows of always naming the most frequent class of the training rows.
    """

    data: str
    family: Family
    estimator: str
    width_mib: int
    classes: int
    sizes: tuple[int, int, int]
    scores: Scores
    validation: float
    majority: float


def own_examples(dataset: Dataset, family: Family) -> tuple[list[Example], list[str]]:
    """Return our measured trainings in fp32 of one synthetic family, and each one's architecture.

    The published data is of fp32 trainings too, and the features name neither precision nor kind. A run out
    of memory counts as the data set's limit.
    """
    examples, groups = [], []
    for row in dataset.rows:
        spec = row.spec
        if spec.source == "synthetic" and spec.family == family and spec.precision == "fp32" and spec.kind == "train":
            memory = row.memory_mib if row.memory_mib is not None else float(dataset.meta["limit_mib"])
            examples.append(Example(from_trace(dataset.trace(spec)), spec.batch_size, memory))
            groups.append(spec.group)
    return examples, groups


def fit(
    data: str,
    family: Family,
    examples: Sequence[Example],
    groups: Sequence[str] | None,
    *,
    epochs: dict[str, int],
    seed: int = 0,
    estimators: Iterable[str] = ESTIMATORS,
) -> list[tuple[Result, Classifier]]:
    """Fit both estimators for every width of a family's classes.

    Args:
        data: name of the data, for the result.
        family: the family.
        examples: the runs.
        groups: architectures that must not be divided between the parts; None splits by row, as was published.
        epochs: passes over the training rows for each estimator.
        seed: of the split and the training.
        estimators: which ones to fit.
    """
    made = []
    parts = split(len(examples), seed) if groups is None else split_by_group(groups, seed)
    for width in WIDTHS_MIB[family]:
        count = max(-int(-example.memory_mib // width) for example in examples)
        batch = batch_of(examples, width, count)
        classes = [batch.classes[list(rows)].tolist() for rows in (parts[0], parts[2])]
        common = max(set(classes[0]), key=classes[0].count)
        majority = classes[1].count(common) / len(classes[1])
        for estimator in estimators:
            trained: Trained = train(estimator, batch, parts, epochs=epochs[estimator], seed=seed)
            validation = trained.validation.accuracy
            facts = (data, family, estimator, width, count, trained.sizes, trained.test, validation, majority)
            made.append((Result(*facts), Classifier(estimator, width, trained.arrays)))
    return made
