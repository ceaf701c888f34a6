"""Fit RAD's estimate again and install it if it is no worse on models that neither fit has seen. Needs scikit-learn.

Reads the folder of measurements; writes only through the store that it is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from estimator import files
from estimator.dataset.specs import FITTED, Split
from estimator.dataset.store import Dataset, load
from estimator.evaluate import LABELS, Case, CasesError, read_cases
from estimator.gpus import canonical
from estimator.methods.rad import NAME, Rad
from estimator.methods.rad.fit import blank, fit, rehearsals
from estimator.methods.rad.fit.blocks import Blocks
from estimator.methods.rad.fit.convolutions import fit_convolutions
from estimator.methods.rad.fit.examples import Example, examples_of, examples_of_cases
from estimator.methods.rad.fit.judge import Held, judge, no_worse
from estimator.methods.rad.fit.learners import fit_workspaces
from estimator.methods.rad.fit.own import noted
from estimator.methods.rad.fit.reached import LeftOut
from estimator.store import ModelError, OvertakenError, Store, store_for


@dataclass(frozen=True)
class Retrained:
    """What came of fitting again.

    Attributes:
        examples: summaries of measured runs that were fitted to.
        new: what the new model reaches on held-out models.
        old: what the installed one reaches, or None where none could be read.
        version: number of the new version, or None if it was not installed.
        left_out: what models like the new one reach on runs, models and families that they do not know.
    """

    examples: int
    new: Held
    old: Held | None
    version: int | None
    left_out: LeftOut


def retrain(data: Path, models_dir: Path, say: Callable[[str], None] = lambda _: None) -> Retrained:
    """Fit, judge and perhaps install.

    Args:
        data: a packed data set, or a folder of a site's own cases with ``labels.csv``, which are added to the data set
            that comes with RAD.
        models_dir: folder of models; the new version goes there.
        say: is told what is being done.

    Raises:
        ValueError: the folder holds neither, or its content cannot be read.
        OSError: nothing can be put into the folder of models.
    """
    own = read_cases(data) if (data / LABELS).exists() else []
    try:
        dataset = load() if own else load(data)
    except FileNotFoundError as error:
        wanted = f"neither {LABELS} with runs of your own nor a whole data set"
        raise CasesError(f"{data} holds {wanted}: {error.filename} is missing") from None
    store = Store(models_dir, NAME)
    files.make_room(store.folder)  # all that follows takes minutes
    gpu = canonical(str(dataset.meta["gpu"]))
    say("fitting the workspaces of convolutions")
    # As text: what only rehearsals read takes no memory of those who load the model to estimate.
    workspaces = {**fit_workspaces(), "whole": json.dumps(fit_convolutions())}
    base = blank(workspaces, dataset.meta["context_mib"], gpu)
    held_out = judging(dataset)
    fitted = [split for split in FITTED if split not in held_out]
    say("noting what blocks keep in their own code")
    blocks = Blocks(noted(dataset, Rad(base), fitted))
    base["own"] = blocks.tables
    account = Rad(base)
    say(f"accounting for {len(dataset.rows)} measured runs")
    known = examples_of(dataset, account, fitted, blocks)
    rehearsed = rehearsals.fit(rehearsals.examples_of(dataset, account, fitted, blocks))
    if own:
        known += _usable(data, own, account, say)
    say(f"fitting to {len(known)} summaries of them, and again without some to see what bounds have to be")
    made = fit(known, base, rehearsed)
    say(f"judging by what was left out: {', '.join(held_out)}")
    new = judged(made.model, dataset, held_out)
    about: dict[str, Any] = {
        "note": f"fitted to {len(known)} summaries of measured runs on {gpu}",
        "held_out": asdict(new),
        "left_out": asdict(made.left_out),
        "torch": dataset.meta.get("torch", ""),
    }
    while True:
        seen = store.seen()
        old = _installed(models_dir, dataset, held_out, say)
        if old is not None and not no_worse(new, old):
            return Retrained(len(known), new, old, None, made.left_out)
        try:
            return Retrained(len(known), new, old, store.install(made.model, about, seen), made.left_out)
        except OvertakenError:
            say("another version was installed meanwhile: comparing with that one")


def _usable(data: Path, own: list[Case], account: Rad, say: Callable[[str], None]) -> list[Example]:
    """Account for a site's own cases, and say how many of them cannot be used.

    Raises:
        CasesError: none can.
    """
    made = examples_of_cases(own, account)
    why = f"cannot be used: `radctl evaluate memory --cases {data}` says why"
    if not made:
        raise CasesError(f"the cases in {data} {why}")
    if len(made) < len(own):
        say(f"{len(own) - len(made)} of the {len(own)} cases in {data} {why}")
    return made


def accounting(model: dict[str, Any]) -> Rad:
    """Give the account of a model, corrected by nothing."""
    return Rad({**blank(model["workspaces"], model["context_mib"], model["gpu"]), "own": model["own"]})


def judging(dataset: Dataset) -> tuple[Split, ...]:
    """Tell which parts of a data set judge: all that is fitted to never; where there is no such, its test part.

    These are new families, new models of measured families, and measured models in other configurations: what users
    bring. A model that knows more of one sort is not refused for what chance makes of another.
    """
    there = {row.split for row in dataset.rows}
    return tuple(split for split in get_args(Split) if split in there and split not in FITTED) or ("test",)


def judged(model: dict[str, Any], dataset: Dataset, splits: Sequence[Split]) -> Held:
    """Judge a model on parts of the data set."""
    return judge(model, examples_of(dataset, accounting(model), splits))


def _installed(models_dir: Path, dataset: Dataset, splits: Sequence[Split], say: Callable[[str], None]) -> Held | None:
    try:
        return judged(store_for(NAME, models_dir).load(), dataset, splits)
    except ModelError as error:
        say(f"{error}; there is nothing to compare with")
        return None
