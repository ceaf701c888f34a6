"""The values that pass between the estimator and its users. Pure data: touches nothing outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from estimator.layer import Layer

Optimizer = Literal["adam", "adamw", "sgd", "sgd_momentum", "rmsprop"]
Precision = Literal["fp32", "amp", "bf16", "fp16"]
Kind = Literal["train", "infer"]
Family = Literal["mlp", "cnn", "transformer"]
Parallel = Literal[
    "",
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "FullyShardedDataParallel of blocks",
    "fully_shard",
    "fully_shard of blocks",
]
"""What PyTorch trains on several GPUs with; nothing where the summary shows none of these."""
Libraries = Literal["none", "cublas", "cudnn", "both"]
"""Which of CUDA's libraries a model loads: the CUDA context of a process depends on it."""

OPTIMIZERS: tuple[Optimizer, ...] = ("adam", "adamw", "sgd", "sgd_momentum", "rmsprop")
PRECISIONS: tuple[Precision, ...] = ("fp32", "amp", "bf16", "fp16")
KINDS: tuple[Kind, ...] = ("train", "infer")
LIBRARIES: tuple[Libraries, ...] = ("none", "cublas", "cudnn", "both")


def libraries(products: bool, convolutions: bool) -> Libraries:
    """Tell which libraries a model loads that multiplies matrices, or convolves; recurrent layers do both."""
    if products:
        return "both" if convolutions else "cublas"
    return "cudnn" if convolutions else "none"


def together(one: Libraries, other: Libraries) -> Libraries:
    """Tell which libraries are loaded where both are."""
    if other in (one, "none"):
        return one
    return other if one == "none" else "both"


class SummaryError(ValueError):
    """A summary that cannot be understood; the message quotes the line and says the cure."""


class Point(NamedTuple):
    """What one batch size took in a rehearsal.

    Attributes:
        batch: samples.
        used_mib: the most that tensors and workspaces took at once.
        held_mib: the most that PyTorch's allocator took from the GPU for them, in a new process.
        most_mib: the most of that in other processes: with other addresses and workspaces.
    """

    batch: int
    used_mib: float
    held_mib: float
    most_mib: float


@dataclass(frozen=True)
class Rehearsal:
    """What steps of the model's own code take that ran on tensors without data (`estimator.rehearsals.lines`).

    Attributes:
        kind, precision: of the steps.
        optimizer: of a training; None for an inference. AdamW takes what Adam takes.
        points: for each batch size that was rehearsed, the smallest first; one at least.
    """

    kind: Kind
    precision: Precision
    optimizer: Optimizer | None
    points: tuple[Point, ...]


class Packed(NamedTuple):
    """How many weights of a model are packed.

    Attributes:
        four, eight: into so many bits each.
    """

    four: int = 0
    eight: int = 0


@dataclass(frozen=True)
class ModelSummary:
    """What a summary says, whichever tool printed it.

    Attributes:
        format: ``torchsummary``, ``torchinfo``, ``module`` or ``keras``.
        root: the tree of layers.
        batch_size: batch size that the summary was printed with, or None if it does not show one.
        total_params: parameters of the whole model, shared ones counted once.
        inferred: one sentence for each thing the summary did not say and had to be derived.
        pass_mb: the printed "Forward/backward pass size (MB)" for ``batch_size`` samples (1 where it is
            None): twice the outputs of the layers, also of those that the printed depth hides; in fp32.
        frozen_params: parameters that are not trained, as the summary says.
        input_mb: the printed "Input size (MB)" for ``batch_size`` samples (1 where it is None), in 10^6 bytes.
        guessed: layers whose input nothing that the summary shows would fit; it had to be guessed.
        note: see `Estimate`.
        unused: the part of it that does not come from shapes that had to be derived.
        rehearsals: what the model's own code took on tensors without data, where `radctl summarize` wrote it down.
        loads: which of CUDA's libraries that code was seen to load.
        beside_mib: what the job holds on the GPU beside the model and its training, as was said to
            `radctl summarize`; rehearsals hold it, too.
        steps: of each series if the first axis of the table, which was taken for the batch, holds them; 0 where that
            is no question, or takes less.
        apart: whether the model's own row begins with something else than ``batch_size``.
        packed: how many of its weights are packed.
        parallel: what stands around the model.
        made_anew: parameters of layers whose weights are made anew at each call; a training keeps what is made.
    """

    format: str
    root: Layer
    batch_size: int | None
    total_params: int
    inferred: tuple[str, ...] = ()
    pass_mb: float | None = None
    frozen_params: int = 0
    guessed: int = 0
    input_mb: float | None = None
    note: str = ""
    unused: str = ""
    rehearsals: tuple[Rehearsal, ...] = ()
    loads: Libraries = "none"
    beside_mib: float = 0.0
    steps: int = 0
    apart: bool = False
    packed: Packed = Packed()
    parallel: Parallel = ""
    made_anew: int = 0


@dataclass(frozen=True)
class Workload:
    """How a model is run: what a user says beside the summary.

    Attributes:
        gpu: the GPU's name.
        gpu_memory_mib: its memory where that is known better than by the name, in MiB; else 0.
        input_size: shape of one sample as the user says it (`estimator.input_size`), or None. Where the summary shows
            shapes, these count.
    """

    batch_size: int
    seq_len: int | None = None
    optimizer: Optimizer = "adam"
    precision: Precision = "fp32"
    kind: Kind = "train"
    gpu: str = "h200"
    gpu_memory_mib: int = 0
    input_size: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Estimate:
    """GPU memory of one job on one GPU, CUDA context included.

    Attributes:
        expected_mib: best guess of the peak, in MiB.
        upper_mib: the bound that is reserved, in MiB; never under ``expected_mib``, and else
            never above the GPU's memory where that is known.
        method: name (and version, where it is learned) of the method that made it.
        family: family the model was taken for.
        fingerprint: equal for two requests exactly when what decides their memory is (`estimator.fingerprint`).
        reasons: sentences that tell how the estimate came about.
        note: a short clause for whoever submits the job: what of the input was taken because nothing told it, as the
            directive that would say it, or what of the directives did not count. Mostly empty.
    """

    expected_mib: int
    upper_mib: int
    method: str
    family: Family
    fingerprint: str
    reasons: tuple[str, ...] = field(default=())
    note: str = ""


class Method(Protocol):
    """A way to estimate memory from a summary."""

    @property
    def name(self) -> str:
        """Name under which commands and configuration know the method."""

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        """Estimate the peak GPU memory of ``summary`` run as ``workload``."""
