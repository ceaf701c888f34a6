"""Compares estimates of trainings of a part of a model with what a GPU shows, each in a process of its own.

Needs torch, torchvision, timm, transformers, peft, torchinfo and a CUDA GPU. Models are drawn from those of the data
set; of each is trained only its last layer (``head``), the second half of its layers (``half``), or, of transformers
that read, adapters that peft puts beside some layers (``lora``, ``dora``) or beside all (``lora_all``, ``dora_all``).
The estimate is made of what torchinfo prints of the model, and of its print, behind which the trained parameters stand
as torchinfo tells them. A bound holds where it is no less than what the allocator held and the CUDA context.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from estimator.dataset.catalogues.catalogue import COLLECTIONS
from estimator.dataset.catalogues.draws import generate_real
from estimator.dataset.feeds import Fed, feed
from estimator.dataset.measure import Cuda, measure
from estimator.dataset.models import build_model
from estimator.dataset.specs import Spec, spec_from_json
from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.types import Workload
from scripts.comparisons import figures, read, told

_STEPS: Final = 3
_MOST_MIB: Final = 40 * 1024
_PICTURES, _TEXTS = 32, 8
_SOURCES: Final = ("torchvision", "timm", "transformers")
_READ: Final = ("tokens", "seq2seq")
_DEPTH: Final = 20
FORMATS: Final = ("table", "print")
_PACKED: Final = ("nf4", "int8")
_DORA: Final = ("dora", "dora_all")


class Task(NamedTuple):
    """One training: of a model, the part that is trained, and where that is adapters, their rank and dropout."""

    spec: Spec
    part: str
    rank: int
    dropout: float


def tasks(models: int, seed: int, parts: Sequence[str] = ()) -> Iterator[Task]:
    """Draw trainings of so many models; of parts that are named, in models that read, packed ones also inferences."""
    rng = random.Random(seed)  # noqa: S311
    found = {
        (entry.source, entry.name): entry
        for entries in COLLECTIONS[:-1]  # the last ones are in drawn sizes
        for entry in entries()
        if entry.source in _SOURCES and entry.feed in (_READ if parts else ("image", *_READ)) and not entry.attention
    }
    for key in rng.sample(sorted(found), models):
        entry = found[key]
        reads = entry.feed in _READ
        chosen = parts
        if not parts:
            chosen = ("lora", "lora_all", rng.choice(("head", "half"))) if reads else ("head", "half")
        infer = 0.3 if parts == _PACKED else 0.0
        specs = list(generate_real(2 * len(chosen), rng.randrange(10**6), [entry], infer=infer))
        for part, spec in zip(chosen, rng.sample(specs, min(len(chosen), len(specs))), strict=False):
            batch = min(spec.batch_size, _TEXTS if reads else _PICTURES)
            yield Task(replace(spec, batch_size=batch), part, rng.choice((8, 16, 64)), rng.choice((0.0, 0.05, 0.1)))


def compared(task: Task) -> dict[str, Any]:
    """Run a training, and estimate it."""
    spec = task.spec
    row: dict[str, Any] = {"part": task.part, "rank": task.rank, "dropout": task.dropout, "spec": spec.to_json()}
    try:
        model = _model(task)
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        fed = replace(feed(spec, inner), model=model)
        texts = _texts(model, fed, spec, packed=task.part in _PACKED)
        device = Cuda(_MOST_MIB)
        model.cpu()
        device.clean()
        model.cuda()  # with nothing of the table's in the allocator
        fed = replace(feed(spec, inner), model=model)
        measured = measure(spec, fed, device, least=_STEPS)
        row |= {"status": measured.status, "allocated": measured.peak_allocated_mib, "texts": texts}
        row |= {"reserved": measured.peak_reserved_mib, "gpu": torch.cuda.get_device_name()}
        row |= estimated(texts, spec, row["gpu"])
    except Exception as error:  # anybody's code may raise anything
        row["error"] = f"{type(error).__name__}: {error}"[:200]
    return row


def _model(task: Task) -> Any:
    torch.manual_seed(0)
    try:
        with torch.device("cuda"):
            model = build_model(task.spec)
    except (TypeError, RuntimeError):
        model = build_model(task.spec).cuda()
    if task.spec.precision == "bf16":
        model.to(torch.bfloat16)
    if task.part in _PACKED:
        _pack(model, task)
        model.cuda()
        if task.spec.kind == "infer":
            return model
    if task.part not in ("head", "half"):
        return _adapted(model, task)
    owners = [module for module in model.modules() if any(True for _ in module.parameters(recurse=False))]
    trained = owners[-1:] if task.part == "head" else owners[len(owners) // 2 :]
    model.requires_grad_(False)
    for module in trained:
        for parameter in module.parameters(recurse=False):
            parameter.requires_grad_(True)
    return model


def _pack(model: Any, task: Task) -> None:
    """Put layers of bitsandbytes in the place of linear ones, as transformers does; moved to a GPU they are packed."""
    import bitsandbytes  # noqa: PLC0415

    made = bitsandbytes.nn
    dtype = {"fp32": torch.float32, "amp": torch.float16}.get(task.spec.precision, torch.bfloat16)
    head = model.get_output_embeddings()
    linear = [(name, layer) for name, layer in model.named_modules() if type(layer) is torch.nn.Linear]
    for name, layer in linear:
        if layer is head:
            continue
        sizes = layer.in_features, layer.out_features, layer.bias is not None
        weight = layer.weight.data.cpu()
        if task.part == "nf4":
            packed = made.Linear4bit(*sizes, compute_dtype=dtype, quant_type="nf4")
            packed.weight = made.Params4bit(weight, requires_grad=False, quant_type="nf4")
        else:
            packed = made.Linear8bitLt(*sizes, has_fp16_weights=False)
            packed.weight = made.Int8Params(weight, requires_grad=False, has_fp16_weights=False)
        packed.bias = layer.bias
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, packed)


def _adapted(model: Any, task: Task) -> Any:
    from peft import LoraConfig, get_peft_model  # noqa: PLC0415
    from peft.utils import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as USUAL  # noqa: PLC0415

    some = task.part in ("lora", "dora")
    targets = USUAL.get(model.config.model_type, "all-linear") if some else "all-linear"
    made = LoraConfig(
        r=task.rank, lora_alpha=32, lora_dropout=task.dropout, target_modules=targets, use_dora=task.part in _DORA
    )
    return get_peft_model(model, made)


def _texts(model: Any, fed: Fed, spec: Spec, *, packed: bool) -> dict[str, str]:
    """Print a model as users do."""
    import torchinfo  # noqa: PLC0415

    total = sum(parameter.numel() for parameter in model.parameters())
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    said = f"Trainable params: {trained:,}\nNon-trainable params: {total - trained:,}\n"
    if packed:
        said = ""
        if hasattr(model, "get_nb_trainable_parameters"):  # what print_trainable_parameters() writes
            trained, total = model.get_nb_trainable_parameters()
            said = (
                f"trainable params: {trained:,d} || all params: {total:,d} || trainable%: {100 * trained / total:.4f}\n"
            )
    args, kwargs = fed.inputs(spec.batch_size)
    given = dict(kwargs) if kwargs else list(args)
    with torch.autocast("cuda", torch.float16, enabled=spec.precision == "amp"):
        table = torchinfo.summary(model, input_data=given, depth=_DEPTH, verbose=0, mode="train")
    return {"table": f"{table}\n", "print": f"{model}\n{said}"}


def estimated(texts: dict[str, str], spec: Spec, gpu: str) -> dict[str, Any]:
    """Estimate a training from each text."""
    rad = Rad.load()
    workload = Workload(spec.batch_size, spec.seq_len, spec.optimizer, spec.precision, spec.kind, gpu)
    found: dict[str, Any] = {}
    side = spec.arch.get("size")
    for format_ in FORMATS:
        if format_ == "print" and side:  # as its user says
            workload = replace(workload, input_size=(3, side, side))
        try:
            summary = parse_summary(texts[format_])
            _, program, _ = rad.account(summary, workload)
            estimate = rad.predict(summary, workload)
        except ValueError as error:
            found[f"{format_}_error"] = str(error)[:200]
            continue
        found["context"] = rad.context(program, workload)
        found[f"{format_}_expected"], found[f"{format_}_upper"] = estimate.expected_mib, estimate.upper_mib
        found[f"{format_}_said"] = estimate.reasons[0]
    return found


def said_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Sum up trainings that ran."""
    lines = []
    for format_ in FORMATS:
        told = [row for row in rows if f"{format_}_expected" in row]
        parts = sorted({row["part"] for row in told})
        for part in (*parts, "all"):
            chosen = [row for row in told if part in ("all", row["part"])]
            labels = [row["reserved"] + row["context"] for row in chosen]
            pairs = [
                (row[f"{format_}_expected"] / label, row[f"{format_}_upper"] / label)
                for row, label in zip(chosen, labels, strict=True)
            ]
            if pairs:
                lines.append(f"{format_}, {part}: {len(pairs)}, {figures(pairs)}")
    return lines


def _told(row: dict[str, Any]) -> str:
    if "spec" not in row:  # its process died
        return f"{row['name']}: {row['error']}"
    spec = row["spec"]
    name = f"{spec['name']} {row['part']} {spec['precision']} {spec['batch_size']} {spec['seq_len'] or ''}"
    if row.get("status") != "ok":
        return f"{name}: {row.get('error', 'out of memory')}"
    each = [f"{format_} {row.get(f'{format_}_expected')} to {row.get(f'{format_}_upper')}" for format_ in FORMATS]
    took = f"took {row['reserved'] + row['context']:.0f}" if "context" in row else f"held {row['reserved']:.0f}"
    return f"{name}: {took}, {', '.join(each)}"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="gets a line of JSON for each training")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--packed", action="store_const", const=_PACKED, help="only weights packed into 4 and 8 bits")
    only.add_argument("--dora", action="store_const", const=_DORA, help="only adapters that are DoRA")
    parser.add_argument("--workers", type=int, default=4, help="processes on the GPU")
    parser.add_argument("--again", action="store_true", help="estimate what ran before, in OUT; needs no GPU")
    options = parser.parse_args()
    if options.again:
        sum_up([_again(row) for row in read(options.out)])
        return
    todo = list(tasks(options.models, options.seed, options.packed or options.dora or ()))
    sum_up(told(compared, todo, options.workers, options.out, _told))


def sum_up(rows: Sequence[dict[str, Any]]) -> None:
    """Print how far estimates were off."""
    ran = [row for row in rows if row.get("status") == "ok"]
    print(f"{len(ran)} of {len(rows)} trainings ran on {', '.join({row['gpu'] for row in ran})}")
    print("\n".join(said_of(ran)))


def _again(row: dict[str, Any]) -> dict[str, Any]:
    if row.get("status") != "ok":
        return row
    told = {key: value for key, value in row.items() if not key.startswith(FORMATS)}
    return told | estimated(row["texts"], spec_from_json(row["spec"]), row["gpu"])


if __name__ == "__main__":
    main()
