"""A profile for a job that was never profiled: from its summary and the chip's rates. Pure but for its weights.

Each layer's work (floating-point operations, bytes moved, kernels launched) is set against what the chip can do;
the host launches one kernel after another, and an iteration lasts as long as the slower of the two. That gives a
raw profile; a correction fitted to our measured workloads (``scripts/results_interference``) makes it a prediction.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from math import prod
from typing import Final, NamedTuple

from estimator.breath import OFTEN, breathe
from estimator.gpus import canonical
from estimator.layer import Layer
from estimator.types import ModelSummary, Workload
from predictor.types import KernelMetrics, Profile, ProfileError


@dataclass(frozen=True)
class Chip:
    """What a GPU model can do, from its vendor's data sheet.

    Attributes:
        fp32_flops: floating-point operations a second outside the tensor cores.
        tensor_flops: the same in them, at 16 bit; where there are none, outside them.
        bytes_per_s: bandwidth of its memory.
        threads: threads that all SMs hold at once.
    """

    fp32_flops: float
    tensor_flops: float
    bytes_per_s: float
    threads: float


CHIPS: Final[Mapping[str, Chip]] = {
    "h200": Chip(67e12, 990e12, 4.8e12, 132 * 2048),
    "h100-80gb": Chip(67e12, 990e12, 3.35e12, 132 * 2048),
    "h100-96gb": Chip(60e12, 835e12, 3.9e12, 132 * 2048),
    "h20-96gb": Chip(44e12, 148e12, 4.0e12, 78 * 2048),
    "gh200-96gb": Chip(67e12, 990e12, 4.0e12, 132 * 2048),
    "b200": Chip(75e12, 2250e12, 7.7e12, 148 * 2048),
    "a100-40gb": Chip(19.5e12, 312e12, 1.56e12, 108 * 2048),
    "a100-80gb": Chip(19.5e12, 312e12, 2.04e12, 108 * 2048),
    "a800-80gb": Chip(19.5e12, 312e12, 2.04e12, 108 * 2048),
    "a40": Chip(37.4e12, 150e12, 0.696e12, 84 * 1536),
    "a30": Chip(10.3e12, 165e12, 0.933e12, 56 * 2048),
    "a10": Chip(31.2e12, 125e12, 0.6e12, 72 * 1536),
    "a2": Chip(4.5e12, 18e12, 0.2e12, 10 * 1536),
    "l40s": Chip(91.6e12, 362e12, 0.864e12, 142 * 1536),
    "l40": Chip(90.5e12, 181e12, 0.864e12, 142 * 1536),
    "l4": Chip(30.3e12, 121e12, 0.3e12, 58 * 1536),
    "rtx-a6000": Chip(38.7e12, 155e12, 0.768e12, 84 * 1536),
    "rtx-6000-ada": Chip(91.1e12, 364e12, 0.96e12, 142 * 1536),
    "rtx-pro-6000": Chip(120e12, 480e12, 1.597e12, 188 * 1536),
    "rtx-5000-ada": Chip(65.3e12, 261e12, 0.576e12, 100 * 1536),
    "rtx-a5000": Chip(27.8e12, 111e12, 0.768e12, 64 * 1536),
    "rtx-a4000": Chip(19.2e12, 77e12, 0.448e12, 48 * 1536),
    "rtx-5090": Chip(105e12, 210e12, 1.792e12, 170 * 1536),
    "rtx-4090": Chip(82.6e12, 165e12, 1.008e12, 128 * 1536),
    "rtx-4080": Chip(48.7e12, 97.5e12, 0.717e12, 76 * 1536),
    "rtx-3090": Chip(35.6e12, 71e12, 0.936e12, 82 * 1536),
    "rtx-3080": Chip(29.8e12, 59.5e12, 0.76e12, 68 * 1536),
    "rtx-2080-ti": Chip(13.4e12, 53.8e12, 0.616e12, 68 * 1024),
    "titan-rtx": Chip(16.3e12, 130e12, 0.672e12, 72 * 1024),
    "v100-16gb": Chip(15.7e12, 125e12, 0.9e12, 80 * 2048),
    "v100-32gb": Chip(15.7e12, 125e12, 0.9e12, 80 * 2048),
    "t4": Chip(8.1e12, 65e12, 0.32e12, 40 * 1024),
    "p100-16gb": Chip(9.3e12, 18.7e12, 0.732e12, 56 * 2048),
}
"""By canonical name: each GPU whose memory is known."""
REACHED: Final = 0.5
"""Part of a rate that a kernel of a framework reaches."""
LAUNCH_S: Final = 9e-6
"""Time that the host needs for one operation of an eager framework."""
KERNEL_S: Final = 2.5e-6
"""Least duration of a kernel."""
UNKNOWN_POSITIONS: Final = 784.0
"""Positions of a convolution whose output the summary does not show: 28 x 28."""
ELEMENTS_PER_THREAD: Final = 8.0
CONVOLUTIONS: Final = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose")
TABLES: Final = ("Embedding",)
OPTIMIZER_BYTES: Final[Mapping[str, float]] = {"adam": 28, "adamw": 28, "rmsprop": 20, "sgd_momentum": 20, "sgd": 12}
"""Bytes that an optimizer's step moves for each parameter."""


class Work(NamedTuple):
    """Work of one layer in one iteration.

    Attributes:
        flops: floating-point operations.
        moved: bytes to and from memory.
        kernels: launches.
        elements: output elements of one launch.
        dense: whether it is matrix work.
    """

    flops: float
    moved: float
    kernels: float
    elements: float
    dense: bool


def leaves(root: Layer) -> list[Layer]:
    """The layers that compute: those without children, and those with parameters of their own; in order of use."""
    found: list[Layer] = []
    stack = [root]
    while stack:
        if not len(found) & OFTEN:
            breathe()
        layer = stack.pop()
        if not layer.children:
            found.append(layer)
            continue
        if layer.params:
            found.append(Layer(layer.type, layer.params, layer.output_shape, (), layer.args))
        stack.extend(reversed(layer.children))
    return found


# Whether a layer convolves, looks up rows of a table, normalizes.
_Sort = tuple[bool, bool, bool]


def _sort(type_: str) -> _Sort:
    return type_.startswith(CONVOLUTIONS), type_.startswith(TABLES), "Norm" in type_


class Worker:
    """Counts the work of layers of one workload: what they have in common is worked out once."""

    def __init__(self, workload: Workload) -> None:
        self.sequence = float(workload.seq_len or 1)
        self.batch = float(workload.batch_size)
        half = workload.precision != "fp32"
        self.passes = 3.0 if workload.kind == "train" else 1.0
        self.samples = self.passes * self.batch
        self.width = 2.0 if half else 4.0
        self.both = 2.0 * self.width * self.batch
        self.dense_kernels = self.passes + (2.0 if half else 0.0)
        self.kernels = float(math.ceil(self.passes / 2.0))
        self._sorts: dict[str, _Sort] = {}

    def of(self, type_: str, params: int, shape: tuple[int, ...] | None) -> tuple[float, float, float, float, bool]:
        """Give the numbers of `Work` for one layer, forward and (in training) backward, over the whole batch."""
        sort = self._sorts.get(type_)
        if sort is None:
            sort = self._sorts[type_] = _sort(type_)
        convolution, table, norm = sort
        # Positions at which the layer's weights are used for one sample, and its output elements.
        if shape:
            count = prod(shape)
            features = shape[0] if convolution else shape[-1]
            used = count // features if features else 0
            elements = float(count) if count > 1 else 1.0
            positions = float(used) if used > 1 else 1.0
        else:
            positions = UNKNOWN_POSITIONS if convolution else self.sequence
            elements = positions * max(math.sqrt(params), 64.0)
        dense = params > 0 and not table and not norm
        return (
            self.samples * (2.0 * params * positions if dense else 4.0 * elements),
            self.passes * (self.both * elements + (0.0 if table else self.width * params)),
            self.dense_kernels if dense else self.kernels,
            self.batch * elements,
            dense,
        )


@dataclass(frozen=True)
class Raw:
    """A profile by the chip's rates alone.

    Attributes:
        busy: part of an iteration in which a kernel runs.
        smact: the same, weighted with how far kernels fill the SMs.
        dram: part of the memory bandwidth in use.
        tensor: part of the tensor rate in use.
        seconds: duration of an iteration.
        threads: threads of a launch, weighted by duration.
        turn_us: duration of a launch, weighted by duration.
        mean_us: mean duration of a launch.
        blocking_us: the same, times the part of the chip that launches fill.
        launches: launches of an iteration.
    """

    busy: float
    smact: float
    dram: float
    tensor: float
    seconds: float
    threads: float
    turn_us: float
    mean_us: float
    blocking_us: float
    launches: float


def chip_of(gpu: str) -> Chip:
    """A chip by any of its names, as `estimator.gpus` has them.

    Raises:
        ProfileError: the name is not known.
    """
    try:
        return CHIPS[canonical(gpu)]
    except KeyError:
        raise ProfileError(f"GPU {gpu!r} is not known; known are {', '.join(CHIPS)}") from None


def raw_profile(summary: ModelSummary, workload: Workload, gpu: str) -> Raw:
    """Set the work of every layer against the rates of a chip.

    Raises:
        ProfileError: the GPU is not known.
    """
    chip = chip_of(gpu)
    half = workload.precision != "fp32"
    worker = Worker(workload)
    plain_rate = REACHED * chip.fp32_flops
    dense_rate = REACHED * chip.tensor_flops if half else plain_rate
    byte_rate = REACHED * chip.bytes_per_s
    busy_s = moved_bytes = launches = dense_flops = square = threads = filled = 0.0
    found = leaves(summary.root)
    for at in range(len(found) + 1):
        if not at & OFTEN:
            breathe()
        if at < len(found):
            layer = found[at]
            flops, moved, kernels, elements, dense = worker.of(layer.type, layer.params, layer.output_shape)
        elif workload.kind == "train":  # the optimizer's step, the last of all
            parameters = float(summary.total_params)
            kernels = 12.0 + sum([1 for layer in found if layer.params]) / 4.0
            flops, moved, dense = 10.0 * parameters, OPTIMIZER_BYTES[workload.optimizer] * parameters, False
            elements = parameters / kernels
        else:
            break
        each = flops / (dense_rate if dense else plain_rate)
        by_bytes = moved / byte_rate
        each = (each if each >= by_bytes else by_bytes) / kernels
        each = each if each >= KERNEL_S else KERNEL_S
        spent = each * kernels
        count = elements / ELEMENTS_PER_THREAD
        count = count if count >= 32.0 else 32.0
        full = count / chip.threads
        busy_s += spent
        moved_bytes += moved
        launches += kernels
        dense_flops += flops if dense else 0.0
        square += spent * each
        threads += spent * count
        filled += spent * full if full < 1.0 else spent
    busy_s = max(busy_s, KERNEL_S)
    launches = max(launches, 1.0)
    seconds = max(busy_s, launches * LAUNCH_S)
    return Raw(
        busy=busy_s / seconds,
        smact=max(filled, 1e-9) / seconds,
        dram=min(moved_bytes / chip.bytes_per_s / seconds, 1.0),
        tensor=min(dense_flops / chip.tensor_flops / seconds, 1.0) if half else 0.0,
        seconds=seconds,
        threads=max(threads / busy_s, 32.0),
        turn_us=1e6 * max(square / busy_s, KERNEL_S),
        mean_us=1e6 * busy_s / launches,
        blocking_us=1e6 * max(filled, 1e-9) / launches,
        launches=launches,
    )


CORRECTED: Final = ("busy", "smact", "dram", "seconds", "threads", "turn_us", "mean_us", "blocking_us")


@lru_cache(maxsize=1)
def _correction() -> Mapping[str, tuple[float, float]]:
    """Slope and offset on logarithms, for each corrected metric."""
    text = resources.files("predictor").joinpath("data", "estimate.json").read_text(encoding="utf-8")
    content: dict[str, list[float]] = json.loads(text)["correction"]
    return {key: (float(slope), float(offset)) for key, (slope, offset) in content.items()}


def corrected(raw: Raw, correction: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Raw metrics after the correction; one without a correction stays as it is."""
    found = {}
    for key in CORRECTED:
        slope, offset = correction.get(key, (1.0, 0.0))
        found[key] = math.exp(slope * math.log(max(getattr(raw, key), 1e-9)) + offset)
    return found


def estimate_profile(
    summary: ModelSummary,
    workload: Workload,
    gpu: str,
    *,
    memory_mib: float = 0.0,
    correction: Mapping[str, tuple[float, float]] | None = None,
) -> Profile:
    """A profile from a summary, where no run was ever measured.

    Args:
        summary: the model.
        workload: how it is run.
        gpu: model of the GPU, for example ``h200``.
        memory_mib: estimate of the GPU memory, if there is one.
        correction: slopes and offsets on logarithms by metric; the fitted ones by default.

    Returns:
        A profile with origin ``estimated``.

    Raises:
        ProfileError: the GPU is not known.
    """
    raw = raw_profile(summary, workload, gpu)
    found = corrected(raw, _correction() if correction is None else correction)
    busy = min(found["busy"], 1.0)
    return Profile(
        smact=min(found["smact"], 1.0),
        smocc=min(found["smact"], 1.0) / 3.0,
        tensor=raw.tensor,
        dram=min(found["dram"], 1.0),
        pcie=0.0,
        memory_mib=float(memory_mib),
        throughput=1.0 / found["seconds"],
        busy=busy,
        kernel=KernelMetrics(
            threads=found["threads"],
            mean_us=found["mean_us"],
            turn_us=found["turn_us"],
            blocking_us=min(found["blocking_us"], found["mean_us"]),
            launches_per_s=raw.launches / found["seconds"],
        ),
        origin="estimated",
        name="estimated from its summary",
    )
