"""Makes the page that compares another GPU with the data set's: the same runs, measured on both.

Reads what `scripts.collect_pairs` wrote, the data set and the shipped model; writes one page.
``python -m scripts.memory_other docs/results/memory_h100.csv h100-80gb docs/results/memory-h100.md``
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

from estimator.dataset.printers import of_another_size
from estimator.dataset.specs import FITTED
from estimator.dataset.store import DEFAULT, Dataset, Row, load
from estimator.gpus import canonical, lookup
from estimator.methods import load_method
from estimator.methods.rad.fit.examples import texts
from estimator.methods.rad.fit.judge import Held
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import Method, ModelSummary, SummaryError
from scripts.markdown import table
from scripts.memory_page import held_cells

_SORTS = {
    "known": "measured models in other configurations",
    "kin": "models that were not measured, of measured families, in other sizes",
    "fitted": "runs that judged until a later fit, which knows what they took here",
}
_PAGE = """# GPU memory on another GPU: {other}

Made by `python -m scripts.memory_other {file} {other} {page}`
from what `python -m scripts.collect_pairs` measured there: runs of the data set that nothing was fitted to then, of
torchvision, timm, transformers and as users write them, once more, on the same versions of PyTorch and CUDA as on the
{gpu}.

{n} runs ended on both. In {same:.0f} % of them PyTorch's allocator reserved the same to the MiB.

{difference}
CUDA contexts in MiB, medians of runs in processes of their own (RAD takes {more} MiB more there than here; runs of
other libraries are given what they have here):

{contexts}
## What RAD says of these runs

Each run as it is on either GPU, by RAD's answer for that GPU, in every format that users have; prints of models that
ran on another size of picture than the one taken are left out.

{reached}"""


@dataclass(frozen=True)
class Pair:
    """A run that ended on both GPUs.

    Attributes:
        row: what the data set says of it.
        here_mib: what it took on the data set's GPU, CUDA context included.
        there_mib: the same on the other one.
        same: whether the allocator reserved the same.
    """

    row: Row
    here_mib: float
    there_mib: float
    same: bool

    @property
    def ratio(self) -> float:
        """By which part of the run's memory the other GPU's differs."""
        return (self.there_mib - self.here_mib) / self.here_mib


def read(path: Path, rows: Mapping[str, Row]) -> tuple[list[Pair], dict[tuple[str, str], float]]:
    """Read the pairs, and the CUDA context in MiB by kind and libraries: the median of runs in processes of their own.

    A run whose libraries none of these loaded is given the context that it has here.
    """
    with path.open(encoding="utf-8", newline="") as file:
        items = [item for item in csv.DictReader(file) if item["status"] == "ok"]
    alone: dict[tuple[str, str], list[float]] = {}
    for item in items:
        if item["context_mib"]:
            alone.setdefault((item["kind"], rows[item["id"]].libraries), []).append(float(item["context_mib"]))
    contexts = {part: median(found) for part, found in alone.items()}
    pairs = []
    for item in items:
        row, reserved = rows[item["id"]], float(item["reserved_mib"])
        if row.memory_mib is not None and not item["context_mib"]:
            here = row.memory_mib - row.peak_reserved_mib
            there = reserved + contexts.get((row.spec.kind, row.libraries), here)
            pairs.append(Pair(row, row.memory_mib, there, reserved == row.peak_reserved_mib))
    return pairs, contexts


def reached(dataset: Dataset, pairs: Sequence[Pair], method: Method, gpu: str) -> Iterator[list[str]]:
    """Judge RAD's bounds for the runs as they are on each GPU, and yield lines of a table.

    Args:
        dataset: for the models' summaries.
        pairs: the runs.
        method: the estimator.
        gpu: name of the other GPU.
    """
    here = str(dataset.meta["gpu"])
    for sort, said in _SORTS.items():
        some = [pair for pair in pairs if ("fitted" if pair.row.split in FITTED else pair.row.split) == sort]
        asked = [(pair, summary) for pair in some for summary in _summaries(dataset, pair.row)]
        for name in (gpu, here) if asked else ():
            answers = []
            for pair, summary in asked:
                found = method.predict(summary, replace(pair.row.workload, gpu=name))
                answers.append((found.expected_mib, found.upper_mib, pair.there_mib if name == gpu else pair.here_mib))
            yield [said, name, *held_cells(Held.of(answers))]


def _summaries(dataset: Dataset, row: Row) -> Iterator[ModelSummary]:
    trace = dataset.trace(row.spec)
    for text, _ in texts(trace, row):
        try:
            summary = parse_summary(text)
            other = of_another_size(with_shapes(summary, row.workload), trace.sample())
        except SummaryError:
            continue
        if not other:
            yield summary


def page(dataset: Dataset, file: Path, gpu: str, out: Path) -> str:
    """Make the page."""
    pairs, contexts = read(file, {row.spec.id: row for row in dataset.rows})
    here = dataset.meta["context_mib"]
    ratios = sorted(pair.ratio for pair in pairs)
    places = {"least": 0.0, "5 %": 0.05, "median": 0.5, "95 %": 0.95, "most": 1.0}
    cells = [f"{100 * ratios[round(place * (len(ratios) - 1))]:+.1f} %" for place in places.values()]
    return _PAGE.format(
        other=gpu,
        file=file,
        page=out,
        gpu=dataset.meta["gpu"],
        n=len(pairs),
        same=100 * fmean(pair.same for pair in pairs),
        difference=table([f"difference, {name}" for name in places], [cells]),
        more=lookup(gpu).context_mib - lookup(canonical(str(dataset.meta["gpu"]))).context_mib,
        contexts=table(
            ("kind", "libraries", "there", "here"),
            [[*part, f"{context:.0f}", f"{here[part[0]][part[1]]:.0f}"] for part, context in sorted(contexts.items())],
        ),
        reached=table(
            ("runs", "GPU", "summaries", "median error", "bounds too low", "mean over-estimate of the bound"),
            reached(dataset, pairs, load_method("rad", None), gpu),
        ),
    )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="what scripts.collect_pairs wrote")
    parser.add_argument("gpu", help="the GPU's name, as in estimator/gpus.py")
    parser.add_argument("page", type=Path, help="page to write")
    options = parser.parse_args()
    options.page.write_text(page(load(DEFAULT), options.file, options.gpu, options.page), "utf-8")


if __name__ == "__main__":
    main()
