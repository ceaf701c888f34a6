"""What the correction looks at: shares of the explicit estimate, sizes, and how the summary was printed. Pure."""

from __future__ import annotations

from collections.abc import Set
from math import log2
from typing import Final

from estimator.methods.rad.familiar import unfamiliar
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.liveness import Memory
from estimator.methods.rad.program import Program
from estimator.types import ModelSummary, Workload

MIB: Final = 2.0**20

FEATURES: tuple[str, ...] = (
    "log_peak",
    "weights",
    "gradients",
    "states",
    "kept",
    "forward",
    "loss",
    "backward",
    "step",
    "workspace",
    "at_peak",
    "widest",
    "logits",
    "hidden",
    "log_batch",
    "log_steps",
    "log_params",
    "log_tokens",
    "fp32",
    "amp",
    "bf16",
    "training",
    "adam",
    "rmsprop",
    "momentum",
    "cnn",
    "transformer",
    "torchsummary",
    "torchinfo",
    "module",
    "log_widest_mib",
    "convs",
    "linears",
    "batch_norms",
    "layer_norms",
    "rms_norms",
    "keeps_output",
    "keeps_input",
    "many_steps",
    "dropouts",
    "pools",
    "attentions",
    "matrices",
    "grouped",
    "inferred",
    "pass_share",
    "words",
    "workspaces",
    "unseen",
    "guessed",
    "unfamiliar",
    "recurrent",
    "noted",
)
UNFAMILIAR: Final = FEATURES.index("unfamiliar")
_FIXED: Final = tuple(FEATURES.index(name) for name in ("weights", "gradients", "states"))


def fixed_share(row: list[float]) -> float:
    """Tell which share of an account's peak is weights, gradients and optimizer state."""
    weights, gradients, states = _FIXED
    return row[weights] + row[gradients] + row[states]


def features(
    memory: Memory,
    program: Program,
    summary: ModelSummary,
    workload: Workload,
    known: Set[str] = frozenset(),
) -> list[float]:
    """Describe one request, for a model that knows some types of layers; the order is `FEATURES`."""
    peak = max(memory.peak, 1.0)
    kinds: list[int] = [0] * len(Kind)
    matrix = grouped = 0
    for op in program.ops:
        kind: int = op.kind  # as a number, which compiled code counts with
        kinds[kind] += 1
        matrix += op.matrix
        if op.conv is not None and op.conv.groups > 1:
            grouped += 1
    steps = max(len(program.ops), 1)
    matrices = matrix * workload.batch_size * 4.0
    printed = (summary.pass_mb or 0.0) * 1e6 / 2 * workload.batch_size / max(summary.batch_size or 1, 1)
    return [
        log2(peak / MIB + 1),
        memory.weights / peak,
        memory.gradients / peak,
        memory.states / peak,
        memory.kept / peak,
        memory.forward / peak,
        memory.loss / peak,
        memory.backward / peak,
        memory.step / peak,
        memory.workspace / peak,
        memory.at_peak / peak,
        memory.widest / peak,
        memory.logits / peak,
        memory.hidden / max(summary.total_params, 1),
        log2(max(workload.batch_size, 1)),
        log2(steps),
        log2(max(summary.total_params, 1)),
        log2(max(program.tokens, 1)),
        float(workload.precision == "fp32"),
        float(workload.precision == "amp"),
        float(workload.precision in ("bf16", "fp16")),
        float(workload.kind == "train"),
        float(workload.optimizer in ("adam", "adamw")),
        float(workload.optimizer == "rmsprop"),
        float(workload.optimizer == "sgd_momentum"),
        float(program.family == "cnn"),
        float(program.family == "transformer"),
        float(summary.format == "torchsummary"),
        float(summary.format == "torchinfo"),
        float(summary.format == "module"),
        log2(memory.widest / MIB + 1),
        kinds[Kind.CONV] / steps,
        kinds[Kind.LINEAR] / steps,
        kinds[Kind.BATCH_NORM] / steps,
        kinds[Kind.LAYER_NORM] / steps,
        kinds[Kind.RMS_NORM] / steps,
        kinds[Kind.KEEPS_OUTPUT] / steps,
        kinds[Kind.KEEPS_INPUT] / steps,
        kinds[Kind.MANY_STEPS] / steps,
        kinds[Kind.DROPOUT] / steps,
        (kinds[Kind.MAX_POOL] + kinds[Kind.AVG_POOL]) / steps,
        kinds[Kind.ATTENTION] / steps,
        matrices / peak,
        grouped / steps,
        float(len(summary.inferred)),
        printed / peak,
        float(kinds[Kind.EMBEDDING] > 0),
        memory.workspaces / peak,
        max(len(program.tensors) - len(program.ops), 0) / steps,
        summary.guessed / steps,
        unfamiliar(program.names, known),
        float(kinds[Kind.RECURRENT] > 0),
        memory.noted,
    ]
