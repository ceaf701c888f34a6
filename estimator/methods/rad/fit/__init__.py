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
| `learners` | what is learned with scikit-learn |
| `judge` | what a model reaches |
"""

from __future__ import annotations

from typing import Any

from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit.bounds import UNKNOWN, bounds_of, sizes_of, spreads
from estimator.methods.rad.fit.examples import Example
from estimator.methods.rad.fit.holdout import correction_of, held_out, table_of, types_of
from estimator.methods.rad.fit.learners import TREES, trees_of
from estimator.methods.rad.known import KNOWLEDGE, LEVELS


def blank(workspaces: dict[str, Any], context_mib: float, gpu: str) -> dict[str, Any]:
    """Make a model that corrects nothing."""
    nothing = {"start": 0.0, "trees": []}
    return {
        "features": [*FEATURES, *KNOWLEDGE],
        "workspaces": workspaces,
        "correction": nothing,
        "spread": dict.fromkeys(LEVELS, nothing),
        "bounds": dict.fromkeys(LEVELS, UNKNOWN),
        "known": [],
        "measured": {},
        "own": {},
        "gpu": gpu,
        "context_mib": context_mib,
    }


def fit(examples: list[Example], base: dict[str, Any], *, trees: int = TREES) -> dict[str, Any]:
    """Fit correction, what is known of measured runs, the size of errors and bounds.

    Args:
        examples: measured runs; families that the model is judged on must not be among them.
        base: what `blank` makes.
        trees: size of the correction; those for the size of errors are two thirds of it.

    Returns:
        The whole model, as `Rad` takes it.
    """
    context = float(base["context_mib"])
    held = held_out(examples, context, trees)
    correction = correction_of(examples, context, trees)
    types = types_of(examples)
    return {
        **base,
        "correction": trees_of(correction),
        "spread": {level: trees_of(model) for level, model in spreads(held, trees).items()},
        "bounds": bounds_of(held, sizes_of(held, trees)),
        "known": sorted(types),
        "measured": table_of(examples, correction, types, context),
    }
