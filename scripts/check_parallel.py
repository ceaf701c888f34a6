"""Measures what PyTorch's ways to train on several GPUs take beside the model on each: trainings in a group of one.

Needs torch, torchvision, transformers and a CUDA GPU that nothing else uses. Prints for each training what the
allocator held, what the process took beside that (CUDA's context, and NCCL's), and how often the parameters are in what
it held more than the same training without; then how far estimates were off that are made of the model's print, which
shows what stands around it. A bound holds where it is no less than all that the process took.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DataParallel, DistributedDataParallel

from estimator.gpus import lookup
from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.types import Workload
from scripts import comparisons
from scripts.comparisons import figures

_STEPS: Final = 6
_MIB: Final = 2**20
_WORDS: Final = 30_000
_SIDE: Final = 224
_WIDTH: Final = 1024


class Model(NamedTuple):
    """A model: what makes it, its blocks' class, samples in a batch, and their length where they are texts."""

    make: Callable[[], nn.Module]
    block: str
    batch_size: int
    seq_len: int | None = None

    def batch(self) -> Tensor:
        """Make a batch on the GPU."""
        if self.seq_len:
            return torch.randint(0, _WORDS, (self.batch_size, self.seq_len), device="cuda")
        size = (_WIDTH,) if self.block == "Linear" else (3, _SIDE, _SIDE)
        return torch.randn(self.batch_size, *size, device="cuda")


class Task(NamedTuple):
    """A training: of a model, in one way."""

    model: str
    way: str


def _mlp() -> nn.Module:
    wide = [layer for _ in range(2) for layer in (nn.Linear(8192, 8192), nn.ReLU())]
    return nn.Sequential(nn.Linear(_WIDTH, 8192), nn.ReLU(), *wide, nn.Linear(8192, 10))


def _vision(name: str) -> nn.Module:
    import torchvision  # noqa: PLC0415 - what ran before is told without the models' libraries

    model: nn.Module = getattr(torchvision.models, name)()
    return model


def _bert() -> nn.Module:
    import transformers  # noqa: PLC0415

    return transformers.BertForSequenceClassification(transformers.BertConfig())


def _gpt2_medium() -> nn.Module:
    import transformers  # noqa: PLC0415

    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=1024, n_layer=24, n_head=16))


MODELS: Final = {
    "resnet50": Model(partial(_vision, "resnet50"), "Bottleneck", 16),
    "vit_b_16": Model(partial(_vision, "vit_b_16"), "EncoderBlock", 8),
    "vgg16": Model(partial(_vision, "vgg16"), "Sequential", 4),
    "bert": Model(_bert, "BertLayer", 8, 128),
    "gpt2_medium": Model(_gpt2_medium, "GPT2Block", 2, 256),
    "mlp": Model(_mlp, "Linear", 64),
}
_ALONE: Final = "alone"


def _parts(model: nn.Module, block: str) -> list[nn.Module]:
    return [part for part in model.modules() if type(part).__name__ == block]


def _fully_sharded(model: nn.Module, parts: Sequence[nn.Module]) -> nn.Module:
    for part in parts:
        fully_shard(part)
    fully_shard(model)
    return model


WAYS: Final[dict[str, Callable[[nn.Module, str], Any]]] = {
    _ALONE: lambda model, _: model,
    "torch.compile": lambda model, _: torch.compile(model),
    "DataParallel": lambda model, _: DataParallel(model),
    "DDP": lambda model, _: DistributedDataParallel(model),
    "DDP, gloo": lambda model, _: DistributedDataParallel(model),
    "DDP, gradient_as_bucket_view": lambda model, _: DistributedDataParallel(model, gradient_as_bucket_view=True),
    "FSDP": lambda model, _: FullyShardedDataParallel(model, device_id=0),
    "FSDP, each block": lambda model, block: FullyShardedDataParallel(
        model, device_id=0, auto_wrap_policy=ModuleWrapPolicy({*map(type, _parts(model, block))})
    ),
    "fully_shard": lambda model, _: _fully_sharded(model, ()),
    "fully_shard, each block": lambda model, block: _fully_sharded(model, _parts(model, block)),
}


def trained(task: Task) -> dict[str, Any]:
    """Run a training."""
    row: dict[str, Any] = task._asdict()
    try:
        row |= _trained(task)
    except Exception as error:  # versions of PyTorch differ in what they can
        row["error"] = f"{type(error).__name__}: {error}"[:200]
    return row


def _trained(task: Task) -> dict[str, Any]:
    made = MODELS[task.model]
    model: Any = made.make().cuda().train()
    if task.way.startswith(("DDP", "FSDP", "fully_shard")):
        port = str(20_000 + os.getpid() % 10_000)
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "1"}
        distributed.init_process_group("gloo" if task.way.endswith("gloo") else "nccl")
    params = sum(parameter.numel() for parameter in model.parameters())
    model = WAYS[task.way](model, made.block)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = made.batch()
    for _ in range(_STEPS):
        optimizer.zero_grad()
        out = model(batch)
        (out if isinstance(out, Tensor) else out.logits).float().square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    free, all_ = torch.cuda.mem_get_info()
    held = torch.cuda.memory_reserved() / _MIB  # the allocator gives nothing back
    return {
        "gpu": torch.cuda.get_device_name(),
        "params_mib": params * 4 / _MIB,
        "held": held,
        "beside": (all_ - free) / _MIB - held,
        "text": str(model),
    }


def told(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Say what trainings took, beside the same without anything around the model."""
    ran = [row for row in rows if "way" in row]
    yield from (f"{row['name']}: {row['error']}" for row in rows if "way" not in row)  # whose process died
    alone = {row["model"]: row for row in ran if row["way"] == _ALONE and "error" not in row}
    rad = Rad.load()
    for way in WAYS:
        ratios = []
        for row in (row for row in ran if row["way"] == way):
            base = alone.get(row["model"])
            if "error" in row or base is None:
                yield f"{way}: {row['model']}: {row.get('error', 'not compared')}"
                continue
            model = MODELS[row["model"]]
            workload = Workload(model.batch_size, model.seq_len, "adamw", "fp32", "train", row["gpu"])
            summary = parse_summary(row["text"])
            _, program, _ = rad.account(summary, workload)
            estimate = rad.predict(summary, workload)
            context = row["beside"] - base["beside"]  # in both is what the driver itself takes
            again = (row["held"] - base["held"]) / row["params_mib"]
            took = row["held"] + rad.context(program, workload) + rad.other_context(lookup(row["gpu"])) + context
            ratios.append((estimate.expected_mib / took, estimate.upper_mib / took))
            yield (
                f"{way}: {row['model']}: held {row['held']:.0f} MiB, context {context:+.0f} MiB, parameters "
                f"{again:+.2f} times; estimated {estimate.expected_mib} to {estimate.upper_mib}"
            )
        if ratios:
            yield f"{way}: {len(ratios)}, {figures(ratios)}"


def _done(row: dict[str, Any]) -> str:
    return f"{row.get('name') or Task(row['model'], row['way'])}: {row.get('error', 'done')}"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="gets a line of JSON for each training")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--again", action="store_true", help="say again what ran before, in OUT; needs no GPU")
    options = parser.parse_args()
    if options.again:
        rows = comparisons.read(options.out)
    else:
        tasks = [Task(model, way) for way in options.ways for model in MODELS]
        rows = comparisons.told(trained, tasks, 1, options.out, _done)
    print("\n".join(told(rows)))


if __name__ == "__main__":
    main()
