"""What a model reaches on families that it was not fitted to, and the rule for installing it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from estimator.evaluate import Errors
from estimator.gpus import most_memory_mib
from estimator.methods.rad import Rad, within
from estimator.methods.rad.fit.examples import Example

_ALLOWED = 1.0
"""Percent of bounds that may be too low."""


@dataclass(frozen=True)
class Held:
    """What a model reaches on held-out examples.

    Attributes:
        n: examples.
        under_rate: share whose upper bound is too low.
        median_abs_rel_error: of the expectation.
        mean_over_fraction: mean over-estimate of the bound.
    """

    n: int
    under_rate: float
    median_abs_rel_error: float
    mean_over_fraction: float

    @classmethod
    def of(cls, answers: Sequence[tuple[float, float, float]]) -> Held:
        """Sum up what was expected, its bound and what was measured, of one example or more, in MiB."""
        found = Errors.of(answers)
        return cls(found.n, found.under_rate, found.median_abs_rel_error, found.mean_over_fraction)


def judge(model: dict[str, Any], examples: Iterable[Example]) -> Held:
    """Judge a model on real examples of families that it was not fitted to."""
    method, known = Rad(model), frozenset(model["known"])
    memory_mib = most_memory_mib(model["gpu"])
    answers = []
    for item in examples:
        if item.real:
            row = item.seen_by(known)
            expected, upper, _ = method.from_account(row, item.accounted, item.context, item.run, item.longer)
            answers.append((expected, within(upper, expected, memory_mib), item.measured))
    if not answers:
        raise ValueError("there is no held-out example to judge the model on")
    return Held.of(answers)


def no_worse(new: Held, old: Held) -> bool:
    """Tell whether a new model may replace the old one, by what is printed of both: to a tenth of a percent."""
    return _told(new.median_abs_rel_error) <= _told(old.median_abs_rel_error) and _told(new.under_rate) <= max(
        _told(old.under_rate), _ALLOWED
    )


def _told(share: float) -> float:
    return round(100 * share, 1)
