"""Fit RAD's estimate to measurements. Needs scikit-learn; reads the folders that it is given.

What is fitted: decision trees for the workspaces of convolutions, a correction of the explicit account (boosted trees
on the logarithm of measured / accounted), what measured runs leave for requests like them (`known.py`), the size of
what is still missing (boosted trees of a high quantile), and for what was known the multiple of that size that almost
no measurement exceeds. Sizes and multiples are taken from runs as models say them that know less (`held_out`): without
the run, without its model, without its whole architecture family (normalised conformal prediction).
"""

from __future__ import annotations

import csv
import lzma
import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from math import exp, log
from pathlib import Path
from typing import Any, cast

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from estimator.dataset import printers
from estimator.dataset.specs import Spec
from estimator.dataset.store import Dataset, Row
from estimator.dataset.tree import Trace, resolve
from estimator.evaluate import Case
from estimator.gpus import most_memory_mib
from estimator.methods.rad import Rad, damped, size_of, within
from estimator.methods.rad.familiar import unfamiliar
from estimator.methods.rad.features import FEATURES, MIB, UNFAMILIAR, features, fixed_share
from estimator.methods.rad.fit_own import Blocks
from estimator.methods.rad.known import KNOWLEDGE, LEVELS, Known, Level, Run, run_of, shift_of, shifted, tabulate
from estimator.methods.rad.own_code import OwnCode
from estimator.methods.rad.program import Conv
from estimator.methods.rad.workspace import features as conv_features
from estimator.methods.rad.workspace import total_bytes
from estimator.parsers import parse_summary
from estimator.types import Precision, SummaryError, Workload

WORKSPACES = Path(__file__).parent / "data" / "workspaces_h200.csv.xz"
FOLDS = 5
MISS: dict[Level, float] = {"measured": 0.01, "kin": 0.01, "new": 0.005}
"""Share of the left-out runs that may exceed a level's bound; of ``new`` ones those with understood accounts: with the
others, which widen no bound, about one in a hundred does."""
TREES = 150
# The share of errors that are smaller than what the spread's trees say. Chosen by leaving families out.
_QUANTILE = 0.98
# There are a hundred drawn models for each architecture family of real ones, which are what users run.
_REAL_WEIGHT = 100.0
# Accounts that are further off than this are of models that were not understood. Nothing is to be learned from by how
# much, and a bound wide enough for them would be of no use for all others (logarithms of measured / accounted, and of
# what the correction leaves, where all of the memory may be wrong).
_UNDERSTOOD = (-0.3, 0.9)
_LEFT = (-0.4, 1.3)

# Depths at which users print with torchinfo, beside 3 and all.
_DEPTHS = (2, 4, 5)
# Fewer real models than this calibrate nothing: drawn ones are taken with them.
_ENOUGH = 60
# Fewer examples than this set no bound: the widest one stands for it.
_LEAST = 20
_UNKNOWN = 10.0

# Rows that a process of its own accounts for at a time, so many that starting it does not count.
_CHUNK = 1000

_PICTURE = 3
_SHARE = len(FEATURES) + KNOWLEDGE.index("share")
# How transformers' models name what stands on their trunk: ``bert-base-MaskedLM``.
_HEAD = re.compile(r"-[A-Z]\w*$")

WAYS = ("run", "model", "family")
"""What is left out of the models that say an example: its run, its model (all heads, all inputs), its family."""

Floats = NDArray[np.float64]
Folds = NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """One summary of one measured run.

    Attributes:
        row: its features.
        accounted: the explicit account in MiB, without the context.
        measured: the label in MiB.
        group: architecture family; never divided between folds.
        weight: how much it counts.
        real: whether the model is one of a library, not a drawn one.
        names: types of its layers.
        allocated: the most that the allocator had handed out, in MiB; 0 where it is not known.
        run: the request, as it is compared with measured runs.
        model: name of the model, the same for all its heads and sizes of input.
        id: stands for the run, the same in all formats.
        alone: ``row`` and ``accounted`` as they were if nothing was known of the own code of its family's blocks.
    """

    row: list[float]
    accounted: float
    measured: float
    group: str
    weight: float
    real: bool
    names: frozenset[str] = frozenset()
    allocated: float = 0.0
    run: Run = Run()
    model: str = ""
    id: str = ""
    alone: tuple[list[float], float] | None = None

    @property
    def as_new(self) -> Example:
        """The same as one of a family whose blocks' own code was never seen."""
        if self.alone is None:
            return self
        row, accounted = self.alone
        return replace(self, row=row, accounted=accounted, alone=None)

    def fixed(self, context: float) -> float:
        """Return what of the account is certain, context included, in MiB."""
        return self.accounted * fixed_share(self.row) + context

    def seen_by(self, known: Set[str]) -> list[float]:
        """Return the features for a model that knows some types of layers."""
        row = list(self.row)
        row[UNFAMILIAR] = unfamiliar(self.names, known)
        return row


def blank(workspaces: dict[str, Any], context_mib: float, gpu: str) -> dict[str, Any]:
    """Make a model that corrects nothing."""
    nothing = {"start": 0.0, "trees": []}
    return {
        "features": [*FEATURES, *KNOWLEDGE],
        "workspaces": workspaces,
        "correction": nothing,
        "spread": nothing,
        "bounds": dict.fromkeys(LEVELS, _UNKNOWN),
        "known": [],
        "measured": {},
        "own": {},
        "gpu": gpu,
        "context_mib": context_mib,
    }


def fit_workspaces(path: Path = WORKSPACES) -> dict[str, Any]:
    """Fit the trees for workspaces to measured convolutions.

    Args:
        path: what `estimator.methods.rad.measure_workspaces` wrote.
    """
    rows = list(csv.DictReader(StringIO(lzma.decompress(path.read_bytes()).decode())))
    convs = []
    for row in rows:
        kernel, stride, side = int(row["kernel"]), int(row["stride"]), int(row["side"])
        out = (side + 2 * (kernel // 2) - kernel) // stride + 1
        convs.append(
            Conv(
                int(row["channels_in"]),
                int(row["channels_out"]),
                kernel * kernel,
                stride,
                int(row["groups"]),
                side * side,
                out * out,
            )
        )
    described = [
        (conv_features(conv, batch, precision), total_bytes(conv, batch, precision))
        for conv, batch, precision in (
            (conv, int(row["batch"]), cast("Precision", row["precision"]))
            for conv, row in zip(convs, rows, strict=True)
        )
    ]
    inputs = np.array([item[0] for item in described], dtype=np.float64)
    totals = np.array([item[1] for item in described], dtype=np.float64)
    weights = np.sqrt(totals / MIB)
    made = {}
    for name in ("forward", "input", "weight"):
        ratio = np.minimum(np.array([float(row[name]) for row in rows]) / totals, 8.0)
        tree = DecisionTreeRegressor(max_depth=12, min_samples_leaf=6, max_leaf_nodes=400, random_state=0)
        tree.fit(inputs, ratio, weights)
        made[name] = {"start": 0.0, "trees": [_tree(tree.tree_, 1.0)]}
    return made


def texts(trace: Trace, row: Row) -> Iterable[tuple[str, float]]:
    """Print a model in every format, each with its weight; torchinfo at its usual depth and, real ones, at others."""
    batch = row.spec.batch_size
    whole, usual = printers.torchinfo_text(trace, batch, depth=20), printers.torchinfo_text(trace, batch)
    yield whole, 1.0
    yield usual, 0.5
    if row.spec.source != "synthetic":
        others = {printers.torchinfo_text(trace, batch, depth=depth): None for depth in _DEPTHS}
        yield from ((text, 0.25) for text in others if text not in (whole, usual))
    if row.spec.family != "mlp":
        yield printers.torchsummary_text(trace), 1.0
        yield printers.module_text(trace, with_params=True), 1.0


def examples_of(dataset: Dataset, account: Rad, splits: Sequence[str], blocks: Blocks | None = None) -> list[Example]:
    """Account for every measured row of some splits, in every format.

    Args:
        dataset: the rows.
        account: a model that corrects nothing.
        splits: parts of the data set.
        blocks: what was noted of blocks' own code, to tell what was not known without each family.

    Rows whose attention was asked to be ``eager`` are left out: no summary shows which implementation runs, and it is
    not the libraries' default. So are prints of models that ran on pictures of another size than the one that is taken
    where a print shows none: the estimate says which size it is for.
    """
    parts = [dataset.of(dataset.rows[at : at + _CHUNK]) for at in range(0, len(dataset.rows), _CHUNK)]
    work = (delayed(_examples_of)(part, account, splits, blocks) for part in parts)
    return [item for made in Parallel(n_jobs=-1 if len(parts) > 1 else 1)(work) for item in made]


def _examples_of(dataset: Dataset, account: Rad, splits: Sequence[str], blocks: Blocks | None) -> list[Example]:
    found = []
    for run in dataset.rows:
        spec = run.spec
        if run.memory_mib is None or run.split not in splits or spec.arch.get("attention") == "eager":
            continue
        if spec.source == "synthetic" and spec.arch.get("eager"):
            continue
        trace = dataset.trace(spec)
        real = spec.source != "synthetic"
        seen = resolve(trace.calls[0].input_shape or (), 1)[1:]
        for text, weight in texts(trace, run):
            other = blocks.without(spec.group) if blocks is not None and real else None
            made = example(account, text, run.workload, run.memory_mib, seen, other=other)
            if made is not None:
                counts = weight * (_REAL_WEIGHT if real else 1.0)
                made = replace(made, group=spec.group, model=_model_of(spec), id=spec.id)
                found.append(replace(made, weight=counts, real=real, allocated=run.peak_allocated_mib))
    return found


def _model_of(spec: Spec) -> str:
    """Name the model without its head: BertForMaskedLM of one size is measured where another head of it was."""
    return f"{spec.source}:{_HEAD.sub('', spec.name)}"


def examples_of_cases(cases: Iterable[Case], account: Rad) -> list[Example]:
    """Account for a site's own measured cases."""
    made = (example(account, case.text, case.workload, case.memory_mib, name=f"site:{case.file}") for case in cases)
    return [item for item in made if item is not None]


def example(
    account: Rad,
    text: str,
    workload: Workload,
    measured: float,
    picture: tuple[int, ...] = (),
    name: str = "",
    other: OwnCode | None = None,
) -> Example | None:
    """Account for one summary.

    Args:
        account: a model that corrects nothing.
        text: the summary.
        workload: how it was run.
        measured: the label in MiB.
        picture: shape of one sample, where that is a picture or a film.
        name: stands for the run, its model and its architecture family.
        other: what would be known of blocks' own code without its family.

    Returns:
        An example; None where the summary cannot be read, or is a print of a model that ran on pictures of another size
        than the one taken for it.
    """
    try:
        summary = parse_summary(text)
        shaped, program, memory, family = account.account(summary, workload)
    except SummaryError:
        return None
    if summary.format == "module" and len(picture) >= _PICTURE and shaped.root.input_shape != picture:
        return None
    row = features(memory, program, shaped, workload, family)
    alone = None
    if other is not None:
        less = account.memory(shaped, program, workload, other)
        alone = features(less, program, shaped, workload, family), less.peak / MIB
    run = run_of(program, shaped, workload)
    names = program.names
    return Example(row, memory.peak / MIB, measured, name, _REAL_WEIGHT, True, names, 0.0, run, name, name, alone)


def fit(examples: list[Example], base: dict[str, Any], *, trees: int = TREES) -> dict[str, Any]:
    """Fit correction, what is known of measured runs, spread and bounds.

    Args:
        examples: measured runs; families that the model is judged on must not be among them.
        base: what `blank` makes.
        trees: size of the correction; the spread takes two thirds of it.

    Returns:
        The whole model, as `Rad` takes it.
    """
    context = float(base["context_mib"])
    held = held_out(examples, context, trees)
    spread = left_out(partial(spreading, trees), held.rows, held.sizes, held.shares, held.folds)
    correction = _correction(_described(examples, context), trees)
    types = _types(examples)
    return {
        **base,
        "correction": _trees(correction),
        "spread": _trees(spreading(trees).fit(held.rows, held.sizes, held.shares)),
        "bounds": _bounds(held, held.residual / held.scale(spread)),
        "known": sorted(types),
        "measured": _table(examples, correction, types, context),
    }


@dataclass(frozen=True)
class HeldOut:
    """Examples as models say them that were fitted without some of the runs; one entry for each and each way.

    Attributes:
        items: the examples.
        ways: what was left out of the model that is asked: one of `WAYS`.
        levels: what that model knew.
        rows: what the size of the error is told from.
        residual: logarithms of measured / expected.
        sound: whether the account was understood.
        weights: how much each counts.
        folds: places of architecture families, which no fit of sizes or bounds divides.
    """

    items: list[Example]
    ways: list[str]
    levels: list[Level]
    rows: Floats
    residual: Floats
    sound: NDArray[np.bool_]
    weights: Floats
    folds: Folds

    @property
    def sizes(self) -> Floats:
        """What the spread's trees are fitted to: errors, with a bound to them, where all of the memory may be wrong."""
        weights = np.array([damped(share) for share in self.activations])
        sizes: Floats = np.clip(self.residual / weights, *_LEFT)
        return sizes

    @property
    def activations(self) -> Floats:
        """Shares of the expected memory that may be wrong."""
        shares: Floats = self.rows[:, _SHARE]
        return shares

    def scale(self, spread: Floats) -> Floats:
        """Turn what the spread's trees say into the sizes of errors."""
        return np.array([size_of(said, share) for said, share in zip(spread, self.activations, strict=True)])

    @property
    def shares(self) -> Floats:
        """By how much each counts for the spread: runs of one architecture family resemble one another."""
        return self.weights * by_family(self.groups)

    @property
    def groups(self) -> NDArray[Any]:
        """Architecture families."""
        return np.array([item.group for item in self.items])

    @property
    def calibrating(self) -> dict[Level, NDArray[np.bool_]]:
        """What sets the bound of each level: all of it; where nothing was known, the accounts that were understood."""
        of = {level: np.array([known == level for known in self.levels]) for level in LEVELS}
        return {level: chosen & self.sound if level == "new" else chosen for level, chosen in of.items()}


def held_out(examples: list[Example], context: float, trees: int) -> HeldOut:
    """Ask models that were fitted without an example's run, its model or its architecture family about the example.

    Drawn models are asked about in the last way only: each was measured once, and none has kin.

    Args:
        examples: measured runs.
        context: the CUDA context in MiB.
        trees: size of the correction.
    """
    described = _described(examples, context)
    families = folds_of(examples)
    folds = {
        "run": _folds([item.id for item in examples]),
        "model": _folds([item.model for item in examples]),
        "family": families,
    }

    def left(way: str, fold: int) -> list[tuple[Example, int, str, Level, list[float], float]]:
        inside = folds[way] != fold
        asked = [int(at) for at in np.flatnonzero(~inside) if way == "family" or examples[at].real]
        if not asked or not inside.any():
            return []
        taken = [examples[at] for at in np.flatnonzero(inside)]
        model = _correction(described, trees, inside)
        types = _types(taken)
        known = Known(_table(taken, model, types, context))
        items = [examples[at].as_new if way == "family" else examples[at] for at in asked]
        seen = [item.seen_by(types) for item in items]
        found = []
        for at, item, row, said in zip(asked, items, seen, model.predict(np.array(seen)), strict=True):
            knowledge = known.about(item.run)
            corrected = (item.accounted + context) * exp(float(said))
            expected, share = shifted(corrected, item.fixed(context), knowledge.shift)
            row = [*row, *knowledge.features(share)]  # noqa: PLW2901
            found.append((item, at, way, knowledge.level, row, log(item.measured / expected)))
        return found

    work = (delayed(left)(way, fold) for way in WAYS for fold in range(FOLDS))
    found = [entry for part in _threads()(work) for entry in part]
    target = np.array([log(item.measured / (item.accounted + context)) for item, *_ in found])
    return HeldOut(
        [item for item, *_ in found],
        [way for _, _, way, *_ in found],
        [level for _, _, _, level, *_ in found],
        np.array([row for *_, row, _ in found], dtype=np.float64),
        np.array([residual for *_, residual in found]),
        target == understood(target),
        np.array([item.weight for item, *_ in found]),
        families[[at for _, at, *_ in found]],
    )


@dataclass(frozen=True)
class Described:
    """What the correction is fitted to: each example, and again as one whose blocks' own code was never seen.

    Attributes:
        rows: features.
        target: logarithms of measured / accounted.
        weights: how much each counts.
        of: place of its example.
    """

    rows: Floats
    target: Floats
    weights: Floats
    of: NDArray[np.int64]


def _described(examples: list[Example], context: float) -> Described:
    folds = folds_of(examples)
    places = [*range(len(examples)), *(at for at, item in enumerate(examples) if item.alone is not None)]
    items = [*examples, *(item.as_new for item in examples if item.alone is not None)]
    return Described(
        np.array(as_if_new(items, folds[places]), dtype=np.float64),
        np.array([log(item.measured / (item.accounted + context)) for item in items]),
        np.array(
            [item.weight * (1.0 if examples[at].alone is None else 0.5) for at, item in zip(places, items, strict=True)]
        ),
        np.array(places),
    )


def _correction(described: Described, trees: int, inside: NDArray[np.bool_] | None = None) -> GradientBoostingRegressor:
    """Fit the correction to all examples, or to some."""
    chosen = np.ones(len(described.of), dtype=np.bool_) if inside is None else inside[described.of]
    rows, target = described.rows[chosen], understood(described.target[chosen])
    return boosted(trees).fit(rows, target, described.weights[chosen])


def _types(examples: Iterable[Example]) -> frozenset[str]:
    return frozenset[str]().union(*(item.names for item in examples))


def _table(
    examples: Iterable[Example], correction: GradientBoostingRegressor, types: Set[str], context: float
) -> dict[str, Any]:
    """Write down what the real models among the examples leave for others, beyond what the correction says of them."""
    real = [item for item in examples if item.real]
    if not real:
        return {}
    said = np.exp(correction.predict(np.array([item.seen_by(types) for item in real])))
    return tabulate(
        (item.run, shift_of(item.measured, float((item.accounted + context) * times), item.fixed(context)))
        for item, times in zip(real, said, strict=True)
    )


def as_if_new(examples: list[Example], folds: Folds) -> list[list[float]]:
    """Describe each example for a model that was fitted to the other folds."""
    by_fold = [
        frozenset[str]().union(*(item.names for item, place in zip(examples, folds, strict=True) if place != fold))
        for fold in range(FOLDS)
    ]
    return [item.seen_by(by_fold[int(fold)]) for item, fold in zip(examples, folds, strict=True)]


def folds_of(examples: list[Example]) -> Folds:
    """Divide architecture families into folds, real ones evenly."""
    return _folds([(item.real, item.group) for item in examples])


def _folds(keys: Sequence[Any]) -> Folds:
    """Divide what has equal keys into folds."""
    fold_of = {key: index % FOLDS for index, key in enumerate(sorted(set(keys)))}
    return np.array([fold_of[key] for key in keys])


def understood(target: Floats) -> Floats:
    """Bound logarithms of measured / accounted to what accounts that were understood differ by."""
    return np.clip(target, *_UNDERSTOOD)


def by_family(groups: NDArray[Any]) -> Floats:
    """Give weights with which an architecture family of four times as many examples counts twice as much."""
    _, which, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights: Floats = 1 / np.sqrt(counts[which])
    return weights


def _bounds(held: HeldOut, scores: Floats) -> dict[str, float]:
    """Find for each level how many times the size of an error almost no error exceeds."""
    groups, real = held.groups, np.array([item.real for item in held.items])
    bounds: dict[str, float] = {}
    for level, chosen in held.calibrating.items():
        if (chosen & real).sum() >= _ENOUGH:
            chosen = chosen & real  # noqa: PLW2901
        if chosen.sum() >= _LEAST:
            bounds[level] = conformal(scores[chosen], counting(level, groups[chosen]), MISS[level])
    widest = max(bounds.values(), default=_UNKNOWN)
    return {level: bounds.get(level, widest) for level in LEVELS}


def counting(level: Level, groups: NDArray[Any]) -> Floats:
    """Give the weights with which a level's runs set its bound.

    What was measured is asked about again as often as it is run; what is new is of a family of its own.
    """
    return np.ones(len(groups)) if level == "measured" else by_family(groups)


def left_out(
    make: Callable[[], GradientBoostingRegressor],
    rows: Floats,
    target: Floats,
    weights: Floats,
    folds: Folds,
) -> Floats:
    """Predict each example by a model that has not seen its architecture family."""
    predicted = np.zeros(len(target))

    def predict(fold: int) -> None:
        inside = folds != fold
        if inside.any() and not inside.all():
            predicted[~inside] = make().fit(rows[inside], target[inside], weights[inside]).predict(rows[~inside])

    _threads()(delayed(predict)(fold) for fold in range(FOLDS))
    return predicted


def _threads() -> Parallel:
    """Fit on every core that the process may use: scikit-learn lets go of the interpreter while it grows a tree."""
    return Parallel(n_jobs=-1, prefer="threads")


def boosted(trees: int) -> GradientBoostingRegressor:
    """Make what learns the correction."""
    return GradientBoostingRegressor(
        loss="absolute_error",
        n_estimators=trees,
        max_depth=4,
        learning_rate=0.1,
        subsample=0.5,
        max_features=0.4,
        min_samples_leaf=20,
        random_state=0,
    )


def spreading(trees: int) -> GradientBoostingRegressor:
    """Make what learns the size of errors: almost none is larger."""
    return GradientBoostingRegressor(
        loss="quantile",
        alpha=_QUANTILE,
        n_estimators=max(2 * trees // 3, 1),
        max_depth=3,
        learning_rate=0.08,
        subsample=0.5,
        max_features=0.3,
        min_samples_leaf=60,
        random_state=0,
    )


def conformal(scores: Floats, weights: Floats, miss: float) -> float:
    """Give the score that a new one exceeds with a chance of at most ``miss``, each score counting by its weight."""
    order = np.argsort(scores)
    share = np.cumsum(weights[order]) / weights.sum()
    place = min(int(np.searchsorted(share, 1 - miss)), len(order) - 1)
    return max(float(scores[order][place]), 0.0)


def _trees(model: GradientBoostingRegressor) -> dict[str, Any]:
    start = float(np.ravel(model.init_.predict(np.zeros((1, model.n_features_in_))))[0])
    return {
        "start": start,
        "trees": [_tree(tree[0].tree_, model.learning_rate) for tree in model.estimators_],
    }


def _tree(tree: Any, rate: float) -> dict[str, list[Any]]:
    """Write one of scikit-learn's trees as columns, see `estimator.methods.rad.trees`."""
    leaf = tree.feature < 0
    values = np.where(leaf, tree.value[:, 0, 0] * rate, tree.threshold)
    return {
        "feature": [int(max(item, -1)) for item in tree.feature],
        "value": [float(f"{item:.6g}") for item in values],
        "left": [int(item) for item in tree.children_left],
        "right": [int(item) for item in tree.children_right],
    }


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


def judge(model: dict[str, Any], examples: Iterable[Example], *, real: bool = True) -> Held:
    """Judge a model on examples of families that it was not fitted to."""
    method, known = Rad(model), frozenset(model["known"])
    memory_mib = most_memory_mib(model["gpu"])
    errors, over, under = [], [], 0
    for item in examples:
        if item.real != real:
            continue
        expected, upper, _ = method.from_account(item.seen_by(known), item.accounted, item.run)
        upper = within(upper, expected, memory_mib)
        errors.append(abs(expected - item.measured) / item.measured)
        over.append(max(upper - item.measured, 0.0) / item.measured)
        under += upper < item.measured
    n = len(errors)
    if not n:
        raise ValueError("there is no held-out example to judge the model on")
    return Held(n, under / n, float(np.median(errors)), float(np.mean(over)))


def no_worse(new: Held, old: Held) -> bool:
    """Tell whether a new model may replace the old one."""
    return new.median_abs_rel_error <= old.median_abs_rel_error and new.under_rate <= max(old.under_rate, 0.01)
