"""Notes on a lent GPU what autograd keeps inside of the data set's real models, and packs it.

Starts worker processes (torch, torchvision, timm and transformers; nothing is downloaded). One forward pass at two
batch sizes of each model and precision of which the data set says nothing; no memory is measured. Every half minute the
results are copied, compressed, to the folder named; ``--pack`` adds them to the data set.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from estimator.dataset.collect import FAILURES, ROWS, Collector, Options, read_jsonl
from estimator.dataset.saved import main as worker
from estimator.dataset.specs import Spec, spec_from_json
from estimator.dataset.store import DEFAULT, add_saved, load
from estimator.types import Precision
from scripts.collect_later import SEED, Copier

_PRECISIONS: tuple[Precision, ...] = ("fp32", "amp", "bf16")


def specs(measured: Iterable[Spec]) -> list[Spec]:
    """Choose one run of each real model for each precision, in an order that mixes all families."""
    chosen: dict[tuple[str, str], Spec] = {}
    for spec in measured:
        if spec.source != "synthetic" and spec.arch.get("attention") != "eager":
            chosen.setdefault((spec.source, spec.name), spec)
    models = list(chosen.values())
    random.Random(SEED).shuffle(models)  # noqa: S311 - an order, no secret
    return [
        replace(spec, batch_size=2, optimizer="sgd", precision=precision, kind="train")
        for spec in models
        for precision in _PRECISIONS
    ]


def shared(wanted: Iterable[Spec], share: int, shares: int) -> list[Spec]:
    """Choose the runs of a share of the models, by their names: the same whatever else is wanted."""

    def place(spec: Spec) -> int:
        return int(hashlib.sha256(f"{spec.source}:{spec.name}".encode()).hexdigest(), 16) % shares

    return [spec for spec in wanted if place(spec) == share]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of compressed results")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--names", nargs="*", help="just models of these names, noted or not")
    parser.add_argument(
        "--raw", type=Path, nargs="*", default=(), help="folders of raw rows, whose models are noted too"
    )
    parser.add_argument("--share", default="0/1", metavar="K/N", help="an Nth of the models: one for each GPU")
    parser.add_argument("--pack", action="store_true", help="run nothing: add what OUT holds to RAD's data set")
    options = parser.parse_args()
    if options.pack:
        print(add_saved(options.out / f"main-{ROWS}.xz", DEFAULT))
        return
    raw = Path(tempfile.mkdtemp(prefix="rad-saved-"))
    options.out.mkdir(parents=True, exist_ok=True)
    copier = Copier(raw, options.out, 30.0)
    copier.start()
    dataset = load()
    measured = [row.spec for row in dataset.rows]
    measured += [spec_from_json(row["spec"]) for folder in options.raw for row in read_jsonl(folder / ROWS)]
    share, shares = map(int, options.share.split("/"))
    wanted = [
        spec
        for spec in shared(specs(measured), share, shares)
        if (spec.name in options.names if options.names else (spec.model_id, spec.precision) not in dataset.saved)
    ]
    print(f"{len(wanted)} runs", flush=True)
    many = Options(options.workers, 1.0, options.device, minutes=options.minutes)
    Collector(wanted, raw / "main", many, worker).run(lambda text: print(text, flush=True))
    copier.end()
    for why, count in Counter(item["why"][:150] for item in read_jsonl(raw / "main" / FAILURES)).most_common(30):
        print(f"{count:4} x {why}", flush=True)


if __name__ == "__main__":
    main()
