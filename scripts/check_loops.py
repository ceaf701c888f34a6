"""Runs trainings in the loops that users write, each under the tightest cap that RAD may give it.

Needs torch, torchvision, transformers with accelerate, pytorch-lightning, and a CUDA GPU under an MPS daemon
(``nvidia-cuda-mps-control -d``). Each training is a process of its own, whose cap is the bound of the estimate that is
made of the model's print: a share, which is rounded up, never gives less. Prints for each loop how many trainings came
through twelve steps; in how many PyTorch's allocator met the cap, gave back what it kept free, and asked again; and how
much more than in the data set's loop it holds where there is neither cap nor MPS.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.types import Precision, Workload
from scripts import comparisons

_STEPS: Final = 12
_MIB: Final = 2**20
_WORDS: Final = 20_000
_CLASSES: Final = 10
_SIDE: Final = 224
_ACCUMULATED: Final = 4
_PRECISIONS: Final[tuple[Precision, ...]] = ("fp32", "amp")
_LIMIT: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
Batch = dict[str, Tensor]


class Model(NamedTuple):
    """A model: what makes it, samples in a batch, and the length of texts or the side of pictures."""

    make: Callable[[], Any]
    batch_size: int
    seq_len: int | None = None
    side: int = _SIDE
    labels: str = "class"  # class, word (one for each), text (the words themselves)

    def batch(self, count: int) -> Batch:
        """Make samples on the CPU, named as the model's arguments, with labels."""
        classes = torch.randint(0, 2, (count,))
        if self.seq_len is None:
            return {"pixel_values": torch.randn(count, 3, self.side, self.side), "labels": classes}
        words = torch.randint(5, _WORDS, (count, self.seq_len))
        labels = {"class": classes, "word": torch.randint(0, _CLASSES, words.shape), "text": words.clone()}
        return {"input_ids": words, "labels": labels[self.labels]}

    def workload(self, precision: Precision, gpu: str) -> Workload:
        """Give what a job's script says of its training."""
        size = (3, self.side, self.side) if self.seq_len is None else None
        return Workload(self.batch_size, self.seq_len, "adamw", precision, "train", gpu, input_size=size)


class Task(NamedTuple):
    """A training in one loop; without a cap, or under the bound of its estimate."""

    model: str
    loop: str
    precision: Precision
    gpu: str
    capped: bool


class Labelled(nn.Module):
    """Torchvision's model, called as one of transformers' is."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Give the loss and what the model says."""
        logits = self.model(pixel_values)
        return {"loss": functional.cross_entropy(logits, labels), "logits": logits}


def _vision(name: str, **settings: Any) -> nn.Module:
    import torchvision  # noqa: PLC0415 - imported once, before processes are forked

    return Labelled(getattr(torchvision.models, name)(**settings))


def _text(name: str, config: str, **settings: Any) -> nn.Module:
    import transformers  # noqa: PLC0415

    model: nn.Module = getattr(transformers, name)(getattr(transformers, config)(**settings))
    return model


_LLAMA: Final = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}
MODELS: Final = {
    "resnet50": Model(partial(_vision, "resnet50"), 64),
    "resnet18_32": Model(partial(_vision, "resnet18", num_classes=_CLASSES), 128, side=32),
    "efficientnet_b0": Model(partial(_vision, "efficientnet_b0"), 64),
    "mobilenet_v3_large": Model(partial(_vision, "mobilenet_v3_large"), 64),
    "convnext_tiny": Model(partial(_vision, "convnext_tiny"), 32),
    "vit_b_16": Model(partial(_vision, "vit_b_16"), 32),
    "bert": Model(partial(_text, "BertForSequenceClassification", "BertConfig"), 32, seq_len=128),
    "distilbert": Model(partial(_text, "DistilBertForSequenceClassification", "DistilBertConfig"), 32, seq_len=128),
    "roberta_words": Model(
        partial(_text, "RobertaForTokenClassification", "RobertaConfig", num_labels=_CLASSES),
        16,
        seq_len=256,
        labels="word",
    ),
    "electra": Model(partial(_text, "ElectraForMaskedLM", "ElectraConfig"), 16, seq_len=128, labels="text"),
    "gpt2": Model(partial(_text, "GPT2LMHeadModel", "GPT2Config"), 8, seq_len=512, labels="text"),
    "llama_12": Model(partial(_text, "LlamaForCausalLM", "LlamaConfig", **_LLAMA), 4, seq_len=512, labels="text"),
    "t5": Model(
        partial(_text, "T5ForConditionalGeneration", "T5Config", decoder_start_token_id=0),
        16,
        seq_len=128,
        labels="text",
    ),
}


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 1e-5)


def _cast(precision: Precision) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", torch.bfloat16) if precision == "amp" else nullcontext()


def _own(model: nn.Module, of: Model, precision: Precision, variant: str = "") -> None:
    """Train in a loop of one's own."""
    model.cuda().train()
    torch.backends.cudnn.benchmark = variant == "benchmark"
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn()) if variant == "average" else None
    run = torch.compile(model) if variant == "compile" else model
    optimizer = _optimizer(model)
    scaler = torch.amp.GradScaler("cuda", enabled=variant == "clip")
    batch = of.batch(of.batch_size)
    for step in range(1, _STEPS * (_ACCUMULATED if variant == "accumulate" else 1) + 1):
        given = {name: value.to("cuda") for name, value in batch.items()}
        with _cast(precision):
            loss = run(**given)["loss"]
        if variant == "late":
            optimizer.zero_grad()
        scaler.scale(loss).backward()
        if variant == "accumulate" and step % _ACCUMULATED:
            continue
        if variant == "clip":
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if variant != "late":
            optimizer.zero_grad(set_to_none=variant != "zeros")
        if averaged is not None:
            averaged.update_parameters(model)
        if variant == "validate" and step % (_STEPS // 3) == 0:
            _validate(model, of.batch(2 * of.batch_size), precision)


def _validate(model: nn.Module, batch: Batch, precision: Precision) -> None:
    model.eval()
    with torch.no_grad(), _cast(precision):
        for _ in range(2):
            model(**{name: value.to("cuda") for name, value in batch.items()})
    model.train()


class Samples(torch.utils.data.Dataset):  # as is torch
    """As many samples as one asks for, of which few differ."""

    def __init__(self, of: Model, count: int) -> None:
        self.batch, self.count = of.batch(of.batch_size), count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> Batch:
        return {name: value[at % len(value)] for name, value in self.batch.items()}


def _trainer(model: nn.Module, of: Model, precision: Precision, **settings: Any) -> None:
    """Train by transformers' Trainer, as its defaults have it."""
    import transformers  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=of.batch_size,
            per_device_eval_batch_size=of.batch_size,
            max_steps=_STEPS,
            bf16=precision == "amp",
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            **settings,
        )
        samples = Samples(of, of.batch_size * _STEPS * _ACCUMULATED)
        validation = Samples(of, of.batch_size * 2)
        transformers.Trainer(model=model, args=arguments, train_dataset=samples, eval_dataset=validation).train()


def _lightning(model: nn.Module, of: Model, precision: Precision) -> None:
    """Train by Lightning, with validation."""
    import pytorch_lightning as lightning  # noqa: PLC0415

    class Module(lightning.LightningModule):  # as is torch
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Batch, _: int) -> Tensor:
            loss: Tensor = self.model(**batch)["loss"]
            return loss

        def validation_step(self, batch: Batch, _: int) -> None:
            self.log("loss", self.model(**batch)["loss"])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return _optimizer(self)

    def loader(batches: int) -> Any:
        return torch.utils.data.DataLoader(Samples(of, of.batch_size * batches), batch_size=of.batch_size)

    with tempfile.TemporaryDirectory() as folder:
        lightning.Trainer(
            max_steps=_STEPS,
            precision="bf16-mixed" if precision == "amp" else "32-true",
            val_check_interval=_STEPS // 2,
            limit_val_batches=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        ).fit(Module(), loader(_STEPS * 2), loader(2))


class Loop(NamedTuple):
    """A loop: in words, and what trains a model in it."""

    says: str
    train: Callable[[nn.Module, Model, Precision], None]


LOOPS: Final = {
    "plain": Loop("as the data set's: `zero_grad()` after the step", _own),
    "late": Loop("`zero_grad()` after the forward pass", partial(_own, variant="late")),
    "zeros": Loop("`zero_grad(set_to_none=False)`", partial(_own, variant="zeros")),
    "accumulate": Loop("gradients of 4 batches added up", partial(_own, variant="accumulate")),
    "clip": Loop("`GradScaler`, gradients clipped", partial(_own, variant="clip")),
    "average": Loop("a moving average of the weights", partial(_own, variant="average")),
    "validate": Loop("validation of twice the batch", partial(_own, variant="validate")),
    "benchmark": Loop("`cudnn.benchmark`", partial(_own, variant="benchmark")),
    "compile": Loop("`torch.compile`", partial(_own, variant="compile")),
    "trainer": Loop("transformers' `Trainer`", _trainer),
    "trainer-accumulate": Loop("the same, gradients of 2 batches", partial(_trainer, gradient_accumulation_steps=2)),
    "trainer-evaluate": Loop(
        "the same, with evaluation", partial(_trainer, eval_strategy="steps", eval_steps=_STEPS // 2)
    ),
    "lightning": Loop("Lightning, with validation", _lightning),
}


def trained(task: Task) -> dict[str, Any]:
    """Run a training."""
    row: dict[str, Any] = task._asdict()
    try:
        row |= _trained(task)
    except Exception as error:  # libraries differ in what they can
        row["error"] = f"{type(error).__name__}: {error}"[:300]
    return row


def _trained(task: Task) -> dict[str, Any]:
    of = MODELS[task.model]
    torch.manual_seed(0)
    model = of.make()
    inner = model.model if isinstance(model, Labelled) else model
    params = sum(parameter.numel() for parameter in model.parameters())
    summary = parse_summary(f"{inner}\nTotal params: {params}\n")
    estimate = Rad.load().predict(summary, of.workload(task.precision, task.gpu))
    if task.capped:
        os.environ[_LIMIT] = f"0={estimate.upper_mib}M"
        free, _ = torch.cuda.mem_get_info()
        if free > estimate.upper_mib * _MIB:
            raise RuntimeError(f"the cap does not hold: {free // _MIB} MiB are free; is an MPS daemon running?")
    else:
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.devnull  # no daemon's
    fits = True
    try:
        LOOPS[task.loop].train(model, of, task.precision)
    except torch.OutOfMemoryError:
        fits = False
    torch.cuda.synchronize()  # a client of MPS that ends while its kernels run may break the others
    counts = torch.cuda.memory_stats()
    return {
        "expected": estimate.expected_mib,
        "upper": estimate.upper_mib,
        "fits": fits,
        "retries": counts["num_alloc_retries"],
        "allocated": counts["allocated_bytes.all.peak"] / _MIB,
        "reserved": counts["reserved_bytes.all.peak"] / _MIB,
    }


def told(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say how each loop fared, as a table."""
    ran = [row for row in rows if "error" not in row]
    free = {_name(row): row for row in ran if not row["capped"]}
    yield "| loop | precision | trainings | came through | met the cap | held without a cap |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for loop, precision in product(LOOPS, _PRECISIONS):
        capped = [row for row in ran if row["capped"] and (row["loop"], row["precision"]) == (loop, precision)]
        if not capped:
            continue
        usual = [(free.get(_name(row)), free.get((row["model"], "plain", precision))) for row in capped]
        more = [row["reserved"] / base["reserved"] - 1 for row, base in usual if row and base]
        yield (
            f"| {LOOPS[loop].says} | {precision} | {len(capped)} | {sum(row['fits'] for row in capped)} "
            f"| {sum(row['retries'] > 0 for row in capped)} | {f'{mean(more):+.1%}' if more else '-'} |"
        )
    for row in rows:
        if "error" in row:  # also that its process died
            yield f"{', '.join(_name(row))}: {row['error']}"
        elif not row["fits"]:
            under = f" under {row['upper']} MiB" if row["capped"] else ""
            yield f"{', '.join(_name(row))}: out of memory{under}"


def _done(row: Mapping[str, Any]) -> str:
    said = {key: row[key] for key in ("capped", "fits", "retries", "upper", "reserved", "error") if key in row}
    return f"{', '.join(_name(row))}: {said}"


def _name(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row.get("model", row.get("name")), row.get("loop", ""), row.get("precision", "")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="gets a line of JSON for each training")
    parser.add_argument("--models", nargs="+", choices=MODELS, metavar="MODEL", default=list(MODELS))
    parser.add_argument("--loops", nargs="+", choices=LOOPS, metavar="LOOP", default=list(LOOPS))
    parser.add_argument("--workers", type=int, default=10, help="trainings at a time")
    parser.add_argument("--again", action="store_true", help="say again what ran before, in OUT; needs no GPU")
    options = parser.parse_args()
    if options.again:
        rows = comparisons.read(options.out)
    else:
        import pytorch_lightning  # noqa: F401, PLC0415 - imported here, no process has to
        import torchvision  # noqa: F401, PLC0415
        import transformers  # noqa: F401, PLC0415

        gpu = subprocess.check_output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], text=True).strip()
        tasks = [
            Task(model, loop, precision, gpu, capped)
            for capped, loop, model, precision in product((True, False), options.loops, options.models, _PRECISIONS)
        ]
        rows = comparisons.told(trained, tasks, options.workers, options.out, _done)
    print("\n".join(told(rows)))


if __name__ == "__main__":
    main()
