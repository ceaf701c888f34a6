"""Fit RAD's estimate to measurements. Needs scikit-learn; reads the folders that it is given.

What is fitted: decision trees for the workspaces of convolutions, a correction of the explicit account (boosted trees
on the logarithm of measured / accounted), what measured runs leave for requests like them (`known.py`), and how wide
a bound has to be (`bounds`).

| module | |
|---|---|
| `examples` | measured runs, each in every format that users print |
| `holdout` | the same as models say them that know less |
| `bounds` | the size of errors, and multiples of it |
| `own` | what blocks keep in their own code |
| `boosting` | boosted trees |
| `learners` | what is learned with scikit-learn |
| `processes` | work for every core |
| `rehearsals` | models whose own code was rehearsed |
| `reached` | what bounds reach on runs left out |
| `judge` | what a model reaches on families that it was not fitted to |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit import rehearsals
from estimator.methods.rad.fit.bounds import UNKNOWN, bounds_of, learned
from estimator.methods.rad.fit.examples import Example
from estimator.methods.rad.fit.holdout import held_out, table_of, types_of
from estimator.methods.rad.fit.learners import TREES
from estimator.methods.rad.fit.reached import LeftOut, left_out
from estimator.methods.rad.known import KNOWLEDGE, LEVELS, tabulate
from estimator.types import Kind, Libraries


def blank(
    workspaces: dict[str, Any], context_mib: Mapping[Kind, Mapping[Libraries, float]], gpu: str
) -> dict[str, Any]:
    """Make a model that corrects nothing.

    Args:
        workspaces: trees for those of convolutions.
        context_mib: CUDA contexts by kind and libraries.
        gpu: where all was measured.
    """
    nothing = {"start": 0.0, "trees": []}
    return {
        "features": [*FEATURES, *KNOWLEDGE],
        "workspaces": workspaces,
        "correction": nothing,
        "spread": dict.fromkeys(LEVELS, nothing),
        "bounds": dict.fromkeys(LEVELS, UNKNOWN),
        "known": [],
        "measured": tabulate(()),
        "own": {},
        "rehearsed": None,
        "gpu": gpu,
        "context_mib": context_mib,
    }


@dataclass(frozen=True)
class Fitted:
    """What came of a fit.

    Attributes:
        model: the whole model, as `Rad` takes it.
        left_out: what models like it reach on runs, models and families that they do not know.
    """

    model: dict[str, Any]
    left_out: LeftOut


def fit(
    examples: list[Example], base: dict[str, Any], rehearsed: rehearsals.Fitted | None = None, *, trees: int = TREES
) -> Fitted:
    """Fit correction, what is known of measured runs, the size of errors and bounds.

    Args:
        examples: measured runs; families that the model is judged on must not be among them.
        base: what `blank` makes.
        rehearsed: what came of those whose models were rehearsed.
        trees: size of the correction; those for the size of errors are two thirds of it.
    """
    correction, held = held_out(examples, trees)
    spreads, sizes = learned(held, trees)
    types = types_of(examples)
    model = {
        **base,
        "correction": correction.written(),
        "spread": {level: spread.written() for level, spread in spreads.items()},
        "bounds": bounds_of(held, sizes),
        "known": sorted(types),
        "measured": table_of(examples, correction, types),
        "rehearsed": rehearsed.model if rehearsed else None,
    }
    return Fitted(model, left_out(held, sizes, rehearsed.reached if rehearsed else None))
