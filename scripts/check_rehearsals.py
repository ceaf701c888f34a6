"""Compares what rehearsals say with what a GPU shows, each configuration in a process of its own.

Needs torch and a CUDA GPU. Each FILE is Python with a dictionary ``MODELS`` of names; each stands for a factory that
takes no arguments, a function that makes what goes in of a batch size, as ``radctl summarize --inputs`` takes it, what
a job's script says besides (``{"seq_len": 512}``, or nothing) and a batch size. Their code is run. What tensors take
(`used`) and what PyTorch's allocator holds for them (`held`) is printed beside what they are on the GPU, then how far
estimates were off, those of a table of all layers that were given the rehearsal, and those of the table alone: a bound
holds where it is no less than what the allocator held and the CUDA context.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any, Final, NamedTuple

import torch
from torch.nn import functional
from torch.utils._pytree import tree_leaves, tree_map

from estimator.dataset import printers
from estimator.dataset.feeds import Fed
from estimator.dataset.measure import Cuda, measure
from estimator.dataset.specs import Spec
from estimator.dataset.trace import trace
from estimator.faketensor import cast, fake_mode, fake_model, own_inputs, unseen_values
from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.rehearsals.lines import like
from estimator.rehearsals.rehearse import Subject, points_of
from estimator.types import Kind, Optimizer, Precision, Rehearsal, Workload
from scripts.comparisons import figures, told

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
_STEPS: Final = 3
_CLASSES: Final = 1000
_NEAR: Final = 0.03
_PAIRS: Final = (("used", "allocated"), ("held", "reserved"))
# What an estimate was given, and what its keys begin with.
_GIVEN: Final = {"with the rehearsal": "", "of the table alone": "table_"}


class Way(NamedTuple):
    """How a model is run: as many times its batch size, and the rest."""

    batches: float
    optimizer: Optimizer
    precision: Precision
    kind: Kind


WAYS: Final = (
    Way(1, "adamw", "fp32", "train"),
    Way(1, "adam", "amp", "train"),
    Way(1, "adam", "bf16", "train"),
    Way(0.5, "sgd_momentum", "fp32", "train"),
    Way(1, "sgd", "fp32", "infer"),
)


class Task(NamedTuple):
    """One configuration: of the model of that name in a file, and the GPU that it runs on."""

    path: str
    name: str
    way: Way
    gpu: int


def models_of(path: str) -> dict[str, tuple[Callable[[], Any], Callable[[int], Any], dict[str, Any], int]]:
    """Import a file and give its models."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[Path(path).stem] = module
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.MODELS
    return found


def compared(task: Task) -> dict[str, Any]:
    """Rehearse a configuration, and run it on a GPU."""
    row = {"file": task.path, "name": task.name, **task.way._asdict()}
    try:
        factory, inputs, said, batch = models_of(task.path)[task.name]
        size = max(int(batch * task.way.batches), 2)
        row |= {"batch": size} | _rehearsed(factory, inputs, said.get("seq_len"), size, task.way)
        row |= _run(factory, inputs, size, task.way, task.gpu)
    except Exception as error:  # anybody's code may raise anything
        row["error"] = f"{type(error).__name__}: {error}"[:200]
    return row


@unseen_values()
def _rehearsed(
    factory: Callable[[], Any], inputs: Callable[[int], Any], seq_len: int | None, batch: int, way: Way
) -> dict[str, Any]:
    torch.set_num_threads(1)
    rad = Rad.load()
    fake = fake_mode()
    model = fake_model(factory, fake)

    give = own_inputs(inputs)
    with fake:
        traced = trace(model, lambda count: give(model, count))
    optimizer = like(way.optimizer) if way.kind == "train" else None
    if way.precision == "bf16":
        with fake:
            cast(model, torch.bfloat16)
    subject = Subject(model, fake, give, rad.convolves)
    point = points_of(subject, way.kind, way.precision, batch, (like(way.optimizer),))[optimizer]
    workload = Workload(batch, seq_len, way.optimizer, way.precision, way.kind)
    summary = parse_summary(printers.torchinfo_text(traced, batch, depth=printers.ALL_LAYERS))
    _, program, _ = rad.account(summary, workload)
    rehearsal = Rehearsal(way.kind, way.precision, optimizer, (point,))
    rehearsed = rad.predict(replace(summary, rehearsals=(rehearsal,)), workload)
    alone = rad.predict(summary, workload)
    return {
        "used": point.used_mib,
        "held": point.held_mib,
        "context": rad.context(program, workload),
        "expected": rehearsed.expected_mib,
        "upper": rehearsed.upper_mib,
        "table_expected": alone.expected_mib,
        "table_upper": alone.upper_mib,
    }


def _run(factory: Callable[[], Any], inputs: Callable[[int], Any], batch: int, way: Way, gpu: int) -> dict[str, Any]:
    torch.cuda.set_device(gpu)
    model = factory()
    if way.precision == "bf16":
        model.to(torch.bfloat16)
    device = Cuda()
    device.clean()
    model.cuda()

    def give(count: int) -> Arguments:
        moved: Arguments = tree_map(
            partial(_moved, to=next(model.parameters()).device), own_inputs(inputs)(model, count)
        )
        return moved

    spec = Spec("plain", "cnn", "", "", {}, batch, None, way.optimizer, way.precision, way.kind)
    measured = measure(spec, Fed(model, give, _loss), device, least=_STEPS)
    return {
        "status": measured.status,
        "allocated": measured.peak_allocated_mib,
        "reserved": measured.peak_reserved_mib,
    }


def _moved(item: Any, to: torch.device) -> Any:
    return item.to(to) if isinstance(item, torch.Tensor) else item


def _loss(out: Any, _: int) -> Any:
    """Take the model's own; else classes for what has two axes, or many numbers along the last, and compare numbers."""
    own = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad:
        return own
    leaves = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    return sum(_part(torch.view_as_real(leaf) if leaf.is_complex() else leaf) for leaf in leaves)


def _part(leaf: Any) -> Any:
    if not leaf.dim():
        return leaf
    if leaf.dim() == 2 or leaf.shape[-1] >= _CLASSES:
        rows = leaf.reshape(-1, leaf.shape[-1])
        return functional.cross_entropy(rows, rows.new_zeros(rows.shape[0], dtype=torch.long))
    return functional.mse_loss(leaf, torch.zeros_like(leaf))


def said_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Sum up configurations that were rehearsed and ran."""
    lines = []
    for one, other in _PAIRS:
        off = [abs(row[one] / row[other] - 1) for row in rows]
        near = mean([item <= _NEAR for item in off])
        lines.append(f"{one}: half within {median(off):.1%}, {near:.0%} within {_NEAR:.0%}")
    labels = [row["reserved"] + row["context"] for row in rows]
    for given, prefix in _GIVEN.items():
        ratios = [
            (row[f"{prefix}expected"] / label, row[f"{prefix}upper"] / label)
            for row, label in zip(rows, labels, strict=True)
        ]
        lines.append(f"{given}: {figures(ratios)}")
    return lines


def _told(row: dict[str, Any]) -> str:
    if row.get("status") != "ok":
        return f"{row['name']}: {row.get('error', 'out of memory')}"
    name = f"{Path(row['file']).stem}:{row['name']} {row['kind']} {row['precision']} {row['batch']}"
    return (
        f"{name}: used {row['used']:.0f}, was {row['allocated']:.0f}; held {row['held']:.0f}, was {row['reserved']:.0f}"
    )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--out", type=Path, required=True, help="gets a line of JSON for each configuration")
    parser.add_argument("--workers", type=int, default=4, help="processes on each GPU")
    parser.add_argument("--gpus", type=int, default=1)
    options = parser.parse_args()
    models = [(path, name) for path in options.files for name in models_of(path)]
    runs = [(path, name, way) for path, name in models for way in WAYS]
    tasks = [Task(*run, gpu=at % options.gpus) for at, run in enumerate(runs)]
    rows = told(compared, tasks, options.workers * options.gpus, options.out, _told)
    ran = [row for row in rows if row.get("status") == "ok"]
    print(f"{len(ran)} of {len(rows)} configurations ran on {options.gpus} GPUs, torch {torch.__version__}")
    if ran:
        print("\n".join(said_of(ran)))


if __name__ == "__main__":
    main()
