"""Which workloads are measured together. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from predictor.types import ProfileError


@dataclass(frozen=True)
class Spec:
    """One workload.

    Attributes:
        name: its name in every file; family, batch size and kind are in it.
        family: workloads of one family share a model.
        kind: ``train`` or ``infer``.
        batch: samples of an iteration.
        amp: whether matrix work runs in bfloat16.
        copies: whether each iteration's input comes from pinned host memory.
        host_ms: time that the host needs between iterations (loading, preprocessing).
    """

    name: str
    family: str
    kind: str
    batch: int
    amp: bool = False
    copies: bool = False
    host_ms: float = 0.0


def _spec(family: str, batch: int, kind: str, **more: Any) -> Spec:
    return Spec(f"{family}_batch{batch}-{kind}", family, kind, batch, **more)


SPECS: tuple[Spec, ...] = (
    _spec("resnet18", 8, "train"),
    _spec("resnet50", 32, "train", amp=True, copies=True),
    _spec("resnet50", 64, "train", amp=True, copies=True),
    _spec("resnet50", 16, "infer", copies=True),
    _spec("vgg16", 16, "train"),
    _spec("mobilenet", 16, "train"),
    _spec("mobilenet", 256, "infer"),
    _spec("unet", 4, "train"),
    _spec("bert", 4, "train"),
    _spec("bert", 32, "train", amp=True),
    _spec("bert", 1, "infer"),
    _spec("bert", 64, "infer"),
    _spec("gpt", 4, "train", amp=True),
    _spec("gpt", 1, "infer", amp=True),
    _spec("gpt", 64, "infer", amp=True),
    _spec("vit", 16, "train"),
    _spec("vit", 8, "infer", copies=True, host_ms=8.0),
    _spec("dlrm", 512, "train"),
    _spec("dlrm", 16384, "train", copies=True),
    _spec("dlrm", 4096, "infer"),
    _spec("whisper", 2, "infer"),
    _spec("whisper", 4, "train", amp=True),
    _spec("lstm", 16, "train"),
    _spec("mlp", 64, "train"),
    _spec("mlp", 8192, "train"),
    _spec("mlp", 256, "infer", copies=True),
)

FRESH: tuple[Spec, ...] = (
    _spec("densenet", 32, "train"),
    _spec("swin", 32, "train", amp=True),
    _spec("swin", 1, "infer"),
    _spec("convnext", 64, "infer", copies=True),
    _spec("convnext", 8, "train", amp=True),
    _spec("r3d", 4, "train"),
    _spec("gru", 64, "train"),
    _spec("gnn", 1, "train"),
)
"""Workloads of families that no model is ever fitted to: a finished model is judged by them."""

BESIDE_FRESH: tuple[str, ...] = (
    "resnet50_batch64-train",
    "bert_batch1-infer",
    "gpt_batch64-infer",
    "mobilenet_batch256-infer",
    "dlrm_batch512-train",
    "mlp_batch64-train",
)
"""Workloads of :data:`SPECS` that the fresh ones are measured beside."""

PARTITIONED: tuple[str, ...] = (
    "resnet50_batch64-train",
    "resnet50_batch16-infer",
    "mobilenet_batch256-infer",
    "bert_batch4-train",
    "bert_batch64-infer",
    "gpt_batch1-infer",
    "dlrm_batch16384-train",
    "whisper_batch4-train",
    "mlp_batch64-train",
)
"""Workloads measured again under thread percentages and under plain time slicing."""


def spec_of(name: str) -> Spec:
    """The workload of a name.

    Raises:
        ProfileError: there is none.
    """
    for spec in (*SPECS, *FRESH):
        if spec.name == name:
            return spec
    raise ProfileError(f"no workload is called {name!r}")
