"""What a model's summary tells of a job: its estimate, and the profile that it suggests. Pure, but it remembers.

Sweeps submit the same summary over and over. What is remembered is bounded in length and number: whoever submits fills
this memory.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import replace
from typing import Final, NamedTuple, cast

from estimator.parsers import parse_summary
from estimator.types import Estimate, Kind, Method, ModelSummary, Optimizer, Precision, SummaryError, Workload
from predictor.profiles import estimate_profile
from predictor.types import Profile, ProfileError
from slurm_hooks.interference import pack

_SHORT_SUMMARY: Final = 65_536
_ANY_SUMMARY: Final = """Net(
  (conv): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
  (norm): BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  (fc): Linear(in_features=8, out_features=4, bias=True)
)
"""


class Known(NamedTuple):
    """What a summary tells of a job; `activity` is its profile as records keep it."""

    estimate: Estimate
    profile: Profile | None
    activity: tuple[float, ...]


class Asked(NamedTuple):
    """What the directives say of how a model is run; None where they say nothing."""

    batch_size: int | None
    input_size: tuple[int, ...] | None = None
    seq_len: int | None = None
    optimizer: Optimizer | None = None
    precision: Precision | None = None
    kind: Kind | None = None


def know(method: Method, text: str, asked: Asked, gpu: str, memory_mib: int) -> Known:
    """Estimate and profile of a summary run as `asked`, on a GPU of which the configuration says model and memory.

    Raises:
        SummaryError: if there is no estimate.
    """
    if len(text) > _SHORT_SUMMARY:
        return _known(method, parse_summary(text), asked, gpu, memory_mib)
    return _remembered(cast("Hashable", method), text, asked, gpu, memory_mib)


def warm_up(method: Method) -> None:
    """Estimate a model once, so that the first job does not wait for what is loaded when it is first used."""
    _known(method, parse_summary(_ANY_SUMMARY), Asked(8), "unknown", 0)


@functools.lru_cache(maxsize=64)
def _remembered(method: Method, text: str, asked: Asked, gpu: str, memory_mib: int) -> Known:
    return _known(method, _layers(text), asked, gpu, memory_mib)


@functools.lru_cache(maxsize=16)
def _layers(text: str) -> ModelSummary:
    """The layers of a summary, which batch size, precision and optimizer do not change."""
    return parse_summary(text)


def _known(method: Method, summary: ModelSummary, asked: Asked, gpu: str, memory_mib: int) -> Known:
    batch_size = asked.batch_size or summary.batch_size
    if batch_size is None:
        raise SummaryError("neither the script nor the summary tells the batch size: add #RAD batch_size=64, say")
    workload = Workload(
        batch_size,
        asked.seq_len,
        asked.optimizer or "adam",
        asked.precision or "fp32",
        asked.kind or "train",
        gpu,
        memory_mib,
        asked.input_size,
    )
    estimate = method.predict(summary, workload)
    if asked.batch_size is None:
        taken = f"batch_size={batch_size} of the summary was taken"
        estimate = replace(estimate, note=f"{taken}; {estimate.note}" if estimate.note else taken)
    profile = _profile(summary, workload, estimate)
    return Known(estimate, profile, pack(profile) if profile else ())


def _profile(summary: ModelSummary, workload: Workload, estimate: Estimate) -> Profile | None:
    """The profile that the summary suggests, or None for a GPU of which nothing is known."""
    try:
        return estimate_profile(summary, workload, workload.gpu, memory_mib=estimate.upper_mib)
    except ProfileError:
        return None
