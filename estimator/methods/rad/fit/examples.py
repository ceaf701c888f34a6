"""Measured runs as examples: each summary of each run, accounted for. Reads no file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from estimator.dataset import printers
from estimator.dataset.specs import Spec
from estimator.dataset.store import Dataset, Row
from estimator.dataset.tree import Trace
from estimator.evaluate import Case
from estimator.gpus import lookup
from estimator.methods.rad import Rad
from estimator.methods.rad.familiar import unfamiliar
from estimator.methods.rad.features import MIB, UNFAMILIAR, features, fixed_share
from estimator.methods.rad.fit.blocks import Blocks
from estimator.methods.rad.fit.processes import forked
from estimator.methods.rad.known import Run, run_of
from estimator.methods.rad.own_code import OwnCode
from estimator.parsers import parse_summary
from estimator.types import SummaryError, Workload

# There are a hundred synthetic models for each architecture family of real ones, which are what users run.
_REAL_WEIGHT = 100.0
# Depths at which users print with torchinfo, beside 3 and all.
_DEPTHS = (2, 4, 5)
# Rows for a process at a time.
_CHUNK = 200
_LEAST_MIB = 1.0
# How transformers' models name what stands on their trunk: ``bert-base-MaskedLM``.
_HEAD = re.compile(r"-[A-Z]\w*$")


@dataclass(frozen=True)
class Example:
    """One summary of one measured run.

    Attributes:
        row: its features.
        accounted: the explicit account in MiB, without the context.
        measured: the label in MiB.
        group: architecture family; never divided between folds.
        weight: how much it counts.
        real: whether the model is one of a library, not a synthetic one.
        names: types of its layers.
        allocated: the most that the allocator had handed out, in MiB; 0 where it is not known.
        run: the request, as it is compared with measured runs.
        model: name of the model, the same for all its heads and sizes of input.
        id: stands for the run, the same in all formats.
        drawn: whether its configuration was drawn at random from all that a measured model can run, as users would ask.
        alone: ``row`` and ``accounted`` as they were if nothing was known of the own code of its family's blocks.
        context: the CUDA context in MiB, as far as the summary shows what is loaded.
        longer: how much more a loop takes that frees gradients late, in MiB.
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
    drawn: bool = False
    alone: tuple[list[float], float] | None = None
    context: float = 0.0
    longer: float = 0.0

    @property
    def as_new(self) -> Example:
        """The same as one of a family whose blocks' own code was never seen."""
        if self.alone is None:
            return self
        row, accounted = self.alone
        return replace(self, row=row, accounted=accounted, alone=None)

    @property
    def fixed(self) -> float:
        """What of the account is certain, context included, in MiB."""
        return self.accounted * fixed_share(self.row) + self.context

    def seen_by(self, known: Set[str]) -> list[float]:
        """Return the features for a model that knows some types of layers."""
        row = list(self.row)
        row[UNFAMILIAR] = unfamiliar(self.names, known)
        return row


def whole(trace: Trace, row: Row) -> Iterable[tuple[str, float]]:
    """Print a model with torchinfo so that all layers are shown."""
    yield printers.torchinfo_text(trace, row.spec.batch_size, depth=20), 1.0


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


def examples_of(
    dataset: Dataset,
    account: Rad,
    splits: Sequence[str],
    blocks: Blocks | None = None,
    prints: Callable[[Trace, Row], Iterable[tuple[str, float]]] = texts,
) -> list[Example]:
    """Account for every measured row of some splits, in every format.

    Args:
        dataset: the rows.
        account: a model that corrects nothing.
        splits: parts of the data set.
        blocks: what was noted of blocks' own code, to tell what was not known without each family.
        prints: gives the summaries of a run, each with its weight.

    Rows whose attention was asked to be ``eager`` are left out: no summary shows which implementation runs, and it is
    not the libraries' default. So are prints of models that ran on pictures of another size than the one that is taken
    where a print shows none: the estimate says which size it is for.
    """
    rows = sorted(dataset.rows, key=lambda row: row.spec.group)  # what is known without a family is made once for it
    parts = [dataset.of(rows[at : at + _CHUNK]) for at in range(0, len(rows), _CHUNK)]
    made = forked([partial(_examples_of, part, account, splits, blocks, prints) for part in parts])
    return [item for some in made for item in some]


def _examples_of(
    dataset: Dataset,
    account: Rad,
    splits: Sequence[str],
    blocks: Blocks | None,
    prints: Callable[[Trace, Row], Iterable[tuple[str, float]]],
) -> list[Example]:
    found = []
    for run in dataset.rows:
        spec = run.spec
        if run.memory_mib is None or run.split not in splits or spec.arch.get("attention") == "eager":
            continue
        if spec.source == "synthetic" and spec.arch.get("eager"):
            continue
        trace = dataset.trace(spec)
        real = spec.source != "synthetic"
        for text, weight in prints(trace, run):
            other = blocks.without(spec.group) if blocks is not None and real else None
            made = example(account, text, run.workload, run.memory_mib, trace.sample(), other=other)
            if made is not None:
                counts = weight * (_REAL_WEIGHT if real else 1.0)
                made = replace(made, group=spec.group, model=_model_of(spec), id=spec.id, drawn=run.drawn)
                found.append(replace(made, weight=counts, real=real, allocated=run.peak_allocated_mib))
    return found


def _model_of(spec: Spec) -> str:
    """Name the model without its head: BertForMaskedLM of one size is measured where another head of it was."""
    return f"{spec.source}:{_HEAD.sub('', spec.name)}"


def examples_of_cases(cases: Iterable[Case], account: Rad) -> list[Example]:
    """Account for a site's own measured cases, as they would be on the GPU that the rest was measured on.

    Those whose summary cannot be read, or reckoned with, are left out.
    """
    made = (_of_case(case, account) for case in cases)
    return [item for item in made if item is not None]


def _of_case(case: Case, account: Rad) -> Example | None:
    try:
        return example(account, case.text, case.workload, _as_on_ours(case, account), name=f"site:{case.file}")
    except (ArithmeticError, ValueError):  # sizes that `Rad.predict` refuses
        return None


def _as_on_ours(case: Case, account: Rad) -> float:
    """Give the label with our GPU's context; an estimate for the other GPU has the other's again."""
    return max(case.memory_mib - account.other_context(lookup(case.workload.gpu)), _LEAST_MIB)


def example(
    account: Rad,
    text: str,
    workload: Workload,
    measured: float,
    sample: tuple[int, ...] = (),
    name: str = "",
    other: OwnCode | None = None,
) -> Example | None:
    """Account for one summary.

    Args:
        account: a model that corrects nothing.
        text: the summary.
        workload: how it was run.
        measured: the label in MiB.
        sample: shape of one sample that went in, where that is known.
        name: stands for the run, its model and its architecture family.
        other: what would be known of blocks' own code without its family.

    Returns:
        An example; None where the summary cannot be read, or is a print of a model that ran on pictures of another size
        than the one taken for it.
    """
    try:
        shaped, program, memory = account.account(parse_summary(text), workload)
    except SummaryError:
        return None
    if printers.of_another_size(shaped, sample):
        return None
    row = features(memory, program, shaped, workload)
    alone = None
    if other is not None:
        less = account.memory(shaped, program, workload, other)
        alone = features(less, program, shaped, workload), less.peak / MIB
    run = run_of(program, shaped, workload)
    names = program.names
    return Example(
        row,
        memory.peak / MIB,
        measured,
        name,
        _REAL_WEIGHT,
        True,
        names,
        run=run,
        model=name,
        id=name,
        alone=alone,
        context=account.context(program, workload),
        longer=memory.longer / MIB,
    )
