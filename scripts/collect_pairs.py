"""Measures runs of the data set again on another GPU, for `scripts.memory_other` to compare.

They are runs that nothing is fitted to: measured models in other configurations, and models of measured families; of
torchvision, timm, transformers and as users write them. Starts worker processes on this machine's GPU; what the CSV
holds already is not measured again.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from estimator.dataset.collect import Collector, Options
from estimator.dataset.raw import ROWS, read_jsonl
from estimator.dataset.specs import Spec, spec_from_json
from estimator.dataset.store import DEFAULT, Row, load

COLUMNS = ("id", "name", "kind", "family", "status", "reserved_mib", "context_mib")
"""``context_mib`` is NVML's used memory of the process less what its allocator holds, of runs in one of their own."""
_SEED = 22
_ALONE_MIB = 4096.0
_EACH = 6


def chosen(rows: tuple[Row, ...], most_mib: float) -> list[Spec]:
    """Choose what is measured again, in an order drawn at random.

    Args:
        rows: the data set's.
        most_mib: what takes more is left out.
    """
    found = [
        row.spec
        for row in rows
        if row.split in ("known", "kin") and row.spec.source != "library" and (row.memory_mib or most_mib) < most_mib
    ]
    random.Random(_SEED).shuffle(found)  # noqa: S311 - an order, no secret
    return found


def small(rows: tuple[Row, ...]) -> list[Spec]:
    """Choose a few small runs of each kind and of each set of libraries, for processes of their own.

    They tell the CUDA context.
    """
    libraries = {row.spec.id: row.libraries for row in rows}
    parts: dict[tuple[str, str], list[Spec]] = {}
    for spec in chosen(rows, _ALONE_MIB):
        parts.setdefault((spec.kind, libraries[spec.id]), []).append(spec)
    return [spec for part in parts.values() for spec in part[:_EACH]]


def measured(specs: list[Spec], options: Options) -> Iterator[dict[str, object]]:
    """Measure, and yield lines of the CSV."""
    with tempfile.TemporaryDirectory(prefix="rad-pairs-") as name:
        folder = Path(name)
        Collector(specs, folder, options).run(lambda text: print(text, flush=True))
        for item in read_jsonl(folder / ROWS):
            spec = spec_from_json(item["spec"])
            own = "nvml_mib" in item and item["status"] == "ok"
            yield {
                "id": spec.id,
                "name": spec.name,
                "kind": spec.kind,
                "family": spec.family,
                "status": item["status"],
                "reserved_mib": round(item["peak_reserved_mib"]),
                "context_mib": round(item["nvml_mib"] - item["reserved_mib"]) if own else "",
            }


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="CSV to write")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--capacity-gib", type=float, default=70.0)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = parser.parse_args()
    there: set[str] = set()
    if options.file.exists():
        with options.file.open(encoding="utf-8", newline="") as known:
            there = {item["id"] for item in csv.DictReader(known)}
    rows = load(DEFAULT).rows
    capacity = options.capacity_gib * 1024
    beside = Options(options.workers, capacity, options.device, minutes=options.minutes)
    alone = Options(options.workers, capacity, options.device, minutes=options.minutes / 3, isolated=True)
    with options.file.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not there:
            writer.writeheader()
        for specs, how in ((small(rows), alone), (chosen(rows, 0.8 * capacity), beside)):
            for line in measured([spec for spec in specs if spec.id not in there], how):
                writer.writerow(line)
                there.add(str(line["id"]))
            file.flush()


if __name__ == "__main__":
    main()
