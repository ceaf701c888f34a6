"""Notes what autograd keeps inside of the data set's real models, or rehearses them, and packs it.

Starts worker processes (torch, torchvision, timm and transformers; nothing is downloaded). One forward pass on a GPU at
two batch sizes of each model and precision of which the data set says nothing; no memory is measured. ``--rehearse``
runs steps of each model on tensors without data instead, on the CPU. Every half minute the results are copied,
compressed, to the folder named; ``--pack`` adds them to the data set.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from estimator.dataset.collect import Collector, Options
from estimator.dataset.packing import add_rehearsed, add_saved
from estimator.dataset.raw import ROWS, read_jsonl
from estimator.dataset.rehearsed import main as rehearsing
from estimator.dataset.saved import main as saving
from estimator.dataset.specs import Spec, place_of, spec_from_json
from estimator.dataset.store import DEFAULT, load
from estimator.rehearsals.lines import like
from estimator.types import Precision
from scripts import collecting
from scripts.parts import SEED

_PRECISIONS: tuple[Precision, ...] = ("fp32", "amp", "bf16")
_RUNS = 5
_BATCHES = (16, 32)


def specs(measured: Iterable[Spec], precisions: Sequence[Precision] = _PRECISIONS) -> list[Spec]:
    """Choose one run of each real model for each precision; one model of each family comes first, then another."""
    chosen: dict[tuple[str, str], Spec] = {}
    for spec in measured:
        if _followed(spec):
            chosen.setdefault((spec.source, spec.name), spec)
    return [
        replace(spec, batch_size=2, optimizer="sgd", precision=precision, kind="train")
        for spec in in_turn(chosen.values())
        for precision in precisions
    ]


def runs(measured: Iterable[Spec]) -> list[Spec]:
    """Choose runs of each real model, in the order of `specs`; and of each model's first run other batch sizes too."""
    models: dict[str, list[Spec]] = {}
    for spec in measured:
        if _followed(spec):
            optimizer = like(spec.optimizer) if spec.kind == "train" else "sgd"
            models.setdefault(spec.model_id, []).append(replace(spec, optimizer=optimizer))
    chosen: dict[str, Spec] = {}
    for first in in_turn(some[0] for some in models.values()):
        some = models[first.model_id]
        random.Random(first.model_id).shuffle(some)  # noqa: S311 - an order, no secret
        for spec in (*some[:_RUNS], *(replace(some[0], batch_size=batch) for batch in _BATCHES)):
            chosen.setdefault(spec.id, spec)
    return list(chosen.values())


def in_turn(models: Iterable[Spec]) -> list[Spec]:
    """Put a model of each family first, then another of each."""
    mixed = list(models)
    random.Random(SEED).shuffle(mixed)  # noqa: S311 - an order, no secret
    before: Counter[str] = Counter()
    turns: list[tuple[int, Spec]] = []
    for spec in mixed:
        turns.append((before[spec.group], spec))
        before[spec.group] += 1
    return [spec for _, spec in sorted(turns, key=lambda turn: turn[0])]


def _followed(spec: Spec) -> bool:
    return spec.source != "synthetic" and spec.arch.get("attention") != "eager"


def shared(wanted: Iterable[Spec], share: int, shares: int) -> list[Spec]:
    """Choose the runs of a share of the models, by their names: the same whatever else is wanted."""
    return [spec for spec in wanted if place_of(f"{spec.source}:{spec.name}", shares) == share]


def main() -> None:
    """Run the command."""
    parser = collecting.parser(__doc__, minutes=4.0)
    parser.add_argument("--names", nargs="*", help="just models of these names, noted or not")
    parser.add_argument(
        "--raw", type=Path, nargs="*", default=(), help="folders of raw rows, whose models are noted too"
    )
    collecting.add_share(parser, "an Nth of the models: one for each GPU")
    parser.add_argument("--rehearse", action="store_true", help="rehearse each model instead")
    options = parser.parse_args()
    if options.pack:
        print((add_rehearsed if options.rehearse else add_saved)(options.out / f"main-{ROWS}.xz", DEFAULT))
        return
    raw = Path(tempfile.mkdtemp(prefix="rad-saved-"))
    dataset = load()
    measured = [row.spec for row in dataset.rows if row.memory_mib]
    measured += [spec_from_json(row["spec"]) for folder in options.raw for row in read_jsonl(folder / ROWS)]
    measured = [spec for spec in measured if not options.names or spec.name in options.names]
    if options.rehearse:
        wanted = [spec for spec in runs(measured) if options.names or spec.model_id not in dataset.rehearsed]
    else:
        noted = () if options.names else dataset.saved.keys()
        wanted = [spec for spec in specs(measured) if (spec.model_id, spec.precision) not in noted]
    wanted = shared(wanted, *options.share)
    print(f"{len(wanted)} runs", flush=True)
    many = Options(options.workers, 1.0, options.device, minutes=options.minutes)
    worker = rehearsing if options.rehearse else saving
    with collecting.copied(raw, options.out):
        Collector(wanted, raw / "main", many, worker).run(lambda text: print(text, flush=True))
    collecting.tell_failures(raw / "main")


if __name__ == "__main__":
    main()
