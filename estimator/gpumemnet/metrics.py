"""Accuracy, precision, recall and F1 of a classifier, weighted by class as the dissertation's tables are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Scores:
    """What tables 5.3, 5.5 and 5.7 give, each between 0 and 1."""

    accuracy: float
    precision: float
    recall: float
    f1: float


def scores(truth: Sequence[int], predicted: Sequence[int]) -> Scores:
    """Score predicted classes.

    Args:
        truth: true classes.
        predicted: predicted classes, as many.

    Returns:
        Accuracy, and precision, recall and F1 as means over classes weighted by how often each is true.

    Raises:
        ValueError: there is nothing to score, or the lengths differ.
    """
    if not truth or len(truth) != len(predicted):
        raise ValueError(f"{len(truth)} true classes and {len(predicted)} predicted ones cannot be compared")
    pairs = list(zip(truth, predicted, strict=True))
    precision = f1 = recall = 0.0
    for kind in sorted(set(truth)):
        right = sum(t == p == kind for t, p in pairs)
        true, said = sum(t == kind for t, _ in pairs), sum(p == kind for _, p in pairs)
        this_precision = right / said if said else 0.0
        this_recall = right / true
        both = this_precision + this_recall
        weight = true / len(pairs)
        precision += weight * this_precision
        recall += weight * this_recall
        f1 += weight * (2 * this_precision * this_recall / both if both else 0.0)
    return Scores(sum(t == p for t, p in pairs) / len(pairs), precision, recall, f1)
