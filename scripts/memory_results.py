"""Makes docs/results/memory.md and its figures: every number there is computed here.

Reads the committed data set, the published GPUMemNet data where it is named, and the shipped models; writes
the page, its figures, and with --install GPUMemNet's classifiers. Finished steps are kept in a work folder, so
that a run that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from estimator.dataset import store
from estimator.dataset.specs import FITTED, Split
from estimator.dataset.store import Dataset
from estimator.gpumemnet.method import NAME, Classifier, classifiers_from_json, classifiers_to_json
from estimator.methods.rad import NAME as RAD
from estimator.methods.rad import Rad
from estimator.methods.rad.fit.examples import Example, examples_of
from estimator.methods.rad.fit.judge import Held, judge
from estimator.methods.rad.fit.reached import LeftOut
from estimator.methods.rad.retrain import accounting
from estimator.store import Store, store_for
from estimator.types import Family
from scripts import memory_asked
from scripts.memory_limits import of_dataset
from scripts.memory_page import write_page
from scripts.memory_real import faketensor_rows, real_cases
from scripts.memory_rehearsed import rehearsed
from scripts.parts import specs

_LOG = logging.getLogger("results_memory")
EPOCHS = {"mlp": 30, "transformer": 14}
SEED = 0
SOURCES = ("published", "finished", "ours")
"""``finished``: the published data without the runs that ran out of memory."""
DRAWS = {memory_asked.PART: ("known", memory_asked.SEED), "all18": ("known", memory_asked.SEED), "kin19": ("kin", 191)}
"""Parts of the collections that are shown apart: the part of the data set that they judge in, and their seeds."""


def kept(work: Path, name: str, make: Callable[[], Any]) -> Any:
    """Return a step's result, from the work folder if it is there."""
    path = work / f"{name}.json"
    if not path.exists():
        _LOG.info("computing %s", name)
        value = make()
        path.write_text(json.dumps(value), "utf-8")
    return json.loads(path.read_text("utf-8"))


def classification(dataset: Dataset, published: Path | None, work: Path) -> list[dict[str, Any]]:
    """Fit both estimators of GPUMemNet to the published data and to ours (tables 5.3, 5.5, 5.7).

    Args:
        dataset: ours.
        published: folder with mlp_a100.csv.gz and cnn_a100.csv.gz; None leaves the published data out.
        work: where results and classifiers are kept.
    """
    from estimator.gpumemnet import fit  # noqa: PLC0415 - needs torch
    from estimator.gpumemnet.published import read  # noqa: PLC0415

    found: list[dict[str, Any]] = []
    families: tuple[Family, ...] = ("mlp", "cnn", "transformer")
    for source in SOURCES:
        for family in families:
            for estimator in fit.ESTIMATORS:
                if source == "finished" and (family, estimator) != ("cnn", "mlp"):
                    continue  # one line shows what leaving out the runs that died does

                def make(source: str = source, family: Family = family, estimator: str = estimator) -> Any:
                    groups: list[str] | None = None
                    if source == "ours":
                        examples, groups = fit.own_examples(dataset, family)
                    else:
                        path = (published or Path()) / f"{family}_a100.csv.gz"
                        examples = read(path, with_oom=source == "published")
                    fitted = fit.fit(
                        source, family, examples, groups, epochs=EPOCHS, seed=SEED, estimators=(estimator,)
                    )
                    return [
                        {**asdict(result), "weights": classifiers_to_json({family: classifier})}
                        for result, classifier in fitted
                    ]

                if source == "ours" or (published is not None and (published / f"{family}_a100.csv.gz").exists()):
                    found += kept(work, f"gpumemnet-{source}-{family}-{estimator}", make)
    return found


def install(results: list[dict[str, Any]], folder: Path) -> None:
    """Install for each family the classifier fitted to our data with the best validation accuracy."""
    chosen: dict[str, Classifier] = {}
    about: dict[str, Any] = {"data": "estimator/dataset/h200, synthetic fp32 trainings", "seed": SEED}
    for family in ("mlp", "cnn", "transformer"):
        ours = [r for r in results if r["data"] == "ours" and r["family"] == family]
        best = max(ours, key=lambda r: (r["validation"], -r["width_mib"]))
        chosen.update(classifiers_from_json(best["weights"]))
        about[family] = {key: best[key] for key in ("estimator", "width_mib", "validation")}
    number = Store(folder, NAME).install(classifiers_to_json(chosen), about)
    _LOG.info("installed gpumemnet %d in %s", number, folder)


def looked_at(model: dict[str, Any], apart: Mapping[str, Sequence[Example]]) -> dict[str, Held]:
    """Judge a model on each part of the data set that it is not fitted to, and on the draws that are shown apart."""
    chosen: dict[str, Sequence[Example]] = {**apart}
    for part, (split, seed) in DRAWS.items():
        drawn = {spec.id for spec in specs(part, seed)}
        chosen[part] = [item for item in apart[split] if item.id in drawn]
    return {part: judge(model, found) for part, found in chosen.items() if found}


def by_family(model: dict[str, Any], examples: Iterable[Example]) -> dict[str, Held]:
    """Judge a model on each architecture family."""
    families: dict[str, list[Example]] = {}
    for item in examples:
        families.setdefault(item.group, []).append(item)
    return {group: judge(model, families[group]) for group in sorted(families)}


def main() -> None:
    """Run the command."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=Path, help="folder with the published GPUMemNet data")
    parser.add_argument("--data", type=Path, default=store.DEFAULT, help="folder of our packed data set")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder of the page and its figures")
    parser.add_argument("--work", type=Path, required=True, help="folder for finished steps")
    parser.add_argument("--install", type=Path, help="folder of models to install GPUMemNet's classifiers into")
    parser.add_argument(
        "--faketensor",
        action="store_true",
        help="run FakeTensor on what memory_faketensor.csv lacks (models' libraries)",
    )
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    dataset = store.load(options.data)
    results = classification(dataset, options.published, options.work)
    if options.install:
        install(results, options.install)
    fake = options.out / "memory_faketensor.csv"
    if options.faketensor:
        faketensor_rows(dataset, fake)
    cases = real_cases(dataset, fake, options.install)
    rad = store_for(RAD, options.install)
    model, about = rad.load(), next(version.about for version in rad.versions() if version.current)
    account = accounting(model)
    apart: dict[str, list[Example]] = {
        split: examples_of(dataset, account, (split,)) for split in get_args(Split) if split not in FITTED
    }
    looks = {**looked_at(model, apart), **rehearsed(dataset, Rad(model))}
    families = by_family(model, apart["fresh"])
    allocator = kept(options.work, "limits", lambda: asdict(of_dataset(dataset)))
    limits = LeftOut.of_json(about["left_out"]), LeftOut.of_json(allocator)
    write_page(dataset, results, cases, looks, families, memory_asked.asked(dataset, model), limits, options.out)


if __name__ == "__main__":
    main()
