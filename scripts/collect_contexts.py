"""Measures runs of the data set again on a lent GPU, with a process of its own for each, and packs them.

A long-lived process sees what its allocator reserves, but not what the GPU holds beside that for one configuration:
CUDA's context, and the libraries and kernels that this one loads. Starts processes (torch, torchvision, timm and
transformers; nothing is downloaded). Every half minute the results are copied, compressed, to the folder named;
``--pack`` adds them to the data set.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from estimator.dataset.collect import Collector, Options
from estimator.dataset.packing import add_checks
from estimator.dataset.raw import ROWS
from estimator.dataset.specs import Source, Spec
from estimator.dataset.store import DEFAULT, Row, load
from scripts import collecting
from scripts.parts import SEED

SOURCES = get_args(Source)
_MOST_MIB = 16 * 1024.0
# So many of inference to one of training, where less differs.
_RATES = {"infer": 3, "train": 1}


def wanted(rows: Iterable[Row], checked: Iterable[str], sources: Iterable[str]) -> list[Spec]:
    """Choose what is measured again, in an order drawn at random: first what was drawn as users ask.

    Args:
        rows: the data set's; models of libraries that are not installed, and what takes much, are left out.
        checked: ids of configurations that were measured so before.
        sources: whose models, as in a configuration's ``source``.
    """
    known, asked = set(checked), set(sources)
    found = [
        row
        for row in rows
        if row.status == "ok" and row.spec.source in asked and row.spec.id not in known and _small(row)
    ]
    there = {package: find_spec(package) is not None for package in {_package(row.spec) for row in found}}
    found = [row for row in found if there[_package(row.spec)]]
    random.Random(SEED).shuffle(found)  # noqa: S311 - an order, no secret
    placed: list[tuple[float, Spec]] = []
    for kind, rate in _RATES.items():
        part = sorted((row for row in found if row.spec.kind == kind), key=lambda row: not row.drawn)
        placed += [(number / rate, row.spec) for number, row in enumerate(part)]
    return [spec for _, spec in sorted(placed, key=lambda item: item[0])]


def _package(spec: Spec) -> str:
    """The top-level package that a configuration's model comes from."""
    if spec.source == "library":
        return spec.name.partition("/")[0]
    return "torch" if spec.source in ("synthetic", "plain") else spec.source


def _small(row: Row) -> bool:
    return row.memory_mib is not None and row.memory_mib < _MOST_MIB


def main() -> None:
    """Run the command."""
    parser = collecting.parser(__doc__, minutes=8.0, capacity_gib=110.0)
    parser.add_argument("--sources", nargs="+", default=SOURCES, choices=SOURCES)
    options = parser.parse_args()
    if options.pack:
        print(add_checks(options.out / f"isolated-{ROWS}.xz", DEFAULT))
        return
    raw = Path(tempfile.mkdtemp(prefix="rad-contexts-"))
    dataset = load()
    specs = wanted(dataset.rows, (check.spec.id for check in dataset.checks), options.sources)
    print(f"{len(specs)} runs", flush=True)
    many = Options(options.workers, options.capacity_gib * 1024, options.device, minutes=options.minutes, isolated=True)
    with collecting.copied(raw, options.out):
        Collector(specs, raw / "isolated", many).run(lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
