"""Lets operations on the CPU's tensors take what CUDA's kernels for them take. Needs torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from estimator import autocast, recurrent
from estimator.attention import attention


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Put stand-ins for CUDA's kernels in place: for dropout, attention, recurrent layers and autocast."""
    stand_ins = {**recurrent.KERNELS, "dropout": _dropout, "scaled_dot_product_attention": attention}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are replaced
        library = torch.library.Library("aten", "IMPL")
        usual = torch.autocast.__init__
        torch.autocast.__init__ = _on_the_cpu(usual)
        try:
            for name, kernel in stand_ins.items():
                library.impl(name, kernel, "AutogradCPU")
            for name, kernel in autocast.kernels().items():
                library.impl(name, kernel, "AutocastCPU", allow_override=True)
            yield
        finally:
            library._destroy()
            torch.autocast.__init__ = usual


def _on_the_cpu(usual: Callable[..., None]) -> Callable[..., None]:
    """Let what a model's own code says of a GPU's autocast mean the one of the tensors here."""

    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or autocast.LOW
        usual(self, device_type, dtype, *args, **kwargs)

    return init


def _dropout(x: Any, p: float, train: bool) -> Any:
    """Keep a byte for each number."""
    return torch.native_dropout(x, p, True)[0] if train and p else x
