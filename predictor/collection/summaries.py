"""Summaries of our measured workloads, taken from their modules without computing anything. Needs PyTorch.

They let :func:`predictor.profiles.raw_profile` be compared with what was measured.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from estimator.layer import Layer
from estimator.types import ModelSummary, Workload
from predictor.collection.specs import Spec
from predictor.collection.workloads import build_model


def summary_of(spec: Spec) -> ModelSummary | None:
    """Summary of a workload with the output shape of every layer; None where torchvision is needed and missing."""
    try:
        with torch.device("meta"):
            model, shape, content = build_model(spec)
            inputs = torch.zeros(1, *shape, dtype=torch.long if content == "ids" else torch.float32)
    except ImportError:
        return None
    shapes: dict[nn.Module, tuple[int, ...]] = {}

    def note(module: nn.Module, _inputs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        shapes[module] = tuple(int(size) for size in first.shape[1:])

    hooks = [module.register_forward_hook(note) for module in model.modules()]
    with torch.no_grad():
        model(inputs)
    for hook in hooks:
        hook.remove()
    total = sum(parameter.numel() for parameter in model.parameters())
    return ModelSummary("torchinfo", _layer(model, shapes), 1, total)


def _layer(module: nn.Module, shapes: dict[nn.Module, tuple[int, ...]]) -> Layer:
    own = sum(parameter.numel() for parameter in module.parameters(recurse=False))
    children = tuple(_layer(child, shapes) for child in module.children())
    return Layer(type(module).__name__, own, shapes.get(module), children)


def workload_of(spec: Spec) -> Workload:
    """How a measured workload was run."""
    return Workload(
        batch_size=spec.batch,
        optimizer="adam",
        precision="bf16" if spec.amp else "fp32",
        kind="train" if spec.kind == "train" else "infer",
        gpu="h200",
    )
