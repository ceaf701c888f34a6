"""Lets operations on the CPU's tensors take what CUDA's kernels for them take. Needs torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

from estimator.rehearsals import autocast, recurrent
from estimator.rehearsals.attention import attention
from estimator.rehearsals.encoder import encoder_layer, self_attention


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Put stand-ins for CUDA's kernels in place: for dropout, classes, attention, norms, recurrence and autocast."""
    stand_ins = {
        **recurrent.KERNELS,
        "_native_multi_head_attention": self_attention,
        "_transformer_encoder_layer_fwd": encoder_layer,
        "batch_norm": _batch_norm,
        "dropout": _dropout,
        "group_norm": _group_norm,
        "one_hot": _one_hot,
        "rms_norm": _rms_norm,
        "scaled_dot_product_attention": attention,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are replaced
        library = torch.library.Library("aten", "IMPL")
        usual = torch.autocast.__init__
        torch.autocast.__init__ = _on_the_cpu(usual)
        inference = torch.inference_mode.__enter__, torch.inference_mode.__exit__
        torch.inference_mode.__enter__, torch.inference_mode.__exit__ = _without_gradients(*inference)
        try:
            for name, kernel in stand_ins.items():
                library.impl(name, kernel, "AutogradCPU")
            for name, kernel in autocast.kernels().items():
                library.impl(name, kernel, "AutocastCPU")
            yield
        finally:
            library._destroy()
            torch.autocast.__init__ = usual
            torch.inference_mode.__enter__, torch.inference_mode.__exit__ = inference


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


def _one_hot(x: Any, num_classes: int = -1) -> Any:
    """Write ones into zeros; tensors without data would compare each number with all classes."""
    classes = num_classes if num_classes >= 0 else int(x.max()) + 1
    return x.new_zeros(*x.shape, classes)


def _batch_norm(x: Any, weight: Any, *how: Any) -> Any:
    """Work on what lies in one piece, and give out what does, as cuDNN; it takes no bf16, and weights in fp32."""
    if x.dtype != torch.bfloat16 and weight is not None and weight.dtype == torch.float32:
        x = x.contiguous(memory_format=suggest_memory_format(x))
    return torch._batch_norm_impl_index(x, weight, *how)[0]


def _group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn: bool = True
) -> Any:
    """Work on what lies channel by channel, and give out what does."""
    batch, channels, *places = x.shape
    return torch.native_group_norm(x.contiguous(), weight, bias, batch, channels, prod(places), groups, eps)[0]


def _without_gradients(enter: Callable[..., None], leave: Callable[..., None]) -> tuple[Callable[..., None], ...]:
    """Let ``torch.inference_mode`` be ``torch.no_grad``: in the former no stand-in is asked."""

    def entered(self: Any) -> None:
        if not self.mode:
            enter(self)
            return
        self.before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def left(self: Any, *raised: object) -> None:
        if not self.mode:
            leave(self, *raised)
            return
        torch._C._set_grad_enabled(self.before)

    return entered, left


class _RMSNorm(torch.autograd.Function):
    """Keeps what comes in, and a number for each row."""

    @staticmethod
    def forward(ctx: Any, x: Any, axes: int, weight: Any) -> Any:
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-axes], dtype=torch.float32))
        return torch.empty_like(x, memory_format=suggest_memory_format(x))

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, weight, _ = ctx.saved_tensors
        as_given = suggest_memory_format(x) != torch.contiguous_format  # channels lie together
        layout = torch.preserve_format if as_given else torch.contiguous_format
        found = torch.empty_like(gradient, memory_format=layout)
        return found, None, None if weight is None else torch.empty_like(weight)


def _rms_norm(x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """One kernel where all is of one type, several steps else."""
    axes = len(normalized_shape)
    if weight is None or weight.dtype == x.dtype:
        return _RMSNorm.apply(x, axes, weight)
    inside = list(range(-axes, 0))
    whole = x.float()
    return (whole * torch.rsqrt(whole.pow(2).mean(inside, keepdim=True) + (eps or 0.0)) * weight).to(x.dtype)
