"""Runs a step of a model's own code on tensors without data and counts what is there at once. Needs torch.

As on a GPU, dropout keeps a byte for each number, and attention that PyTorch fuses keeps no matrix; with the CPU's
tensors, which stand for a GPU's, both would be otherwise. The user's loss is not known: a classifier's stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from estimator.faketensor import MIB, cast, live_bytes_mode
from estimator.rehearsal import PRECISIONS
from estimator.types import KINDS, Kind, Rehearsal

Inputs = Callable[[Any, int], tuple[tuple[Any, ...], Mapping[str, Any]]]
"""Makes a model's arguments from the model and a batch size."""


def rehearse(model: Any, fake: Any, inputs: Inputs, batches: tuple[int, int]) -> tuple[Rehearsal, ...]:
    """Rehearse training and inference in fp32, and in bf16 where the code can; the model is left in the last of them.

    Args:
        model: of fake tensors, in fp32.
        fake: the mode that they are of.
        inputs: makes its arguments.
        batches: the two batch sizes, the smaller one first.

    Raises:
        Exception: what torch raises where the model's code needs the values of its tensors, or takes other inputs.
    """
    import torch  # noqa: PLC0415

    few, many = batches
    found: list[Rehearsal] = []
    mode = live_bytes_mode()
    with fake, mode, _as_on_a_gpu():
        for tensor in (*model.parameters(), *model.buffers()):
            mode.watch(tensor)
        for precision in PRECISIONS:
            if precision == "bf16":
                cast(model, torch.bfloat16)
            try:
                peaks = [[_peak_mib(mode, model, inputs, kind, batch) for batch in batches] for kind in KINDS]
            except Exception:
                if not found:
                    raise
                break  # its code makes numbers in fp32, which do not go with weights in bf16
            for kind, (less, more) in zip(KINDS, peaks, strict=True):
                found.append(Rehearsal(kind, precision, ((few, less), (many, more))))
    return tuple(found)


def _peak_mib(mode: Any, model: Any, inputs: Inputs, kind: Kind, batch: int) -> float:
    """Give the peak of the second of two steps, which meets the output that a loop still holds from the first."""
    model.train(kind == "train")
    given = inputs(model, batch)
    kept: list[Any] = []
    for _ in range(2):
        mode.reset()
        kept = [_step(model, given, kind)]
    del kept
    for parameter in model.parameters():
        parameter.grad = None
    return int(mode.peak) / MIB


def _step(model: Any, given: tuple[tuple[Any, ...], Mapping[str, Any]], kind: Kind) -> Any:
    import torch  # noqa: PLC0415

    args, kwargs = given
    if kind == "infer":
        with torch.no_grad():
            return model(*args, **kwargs)
    for parameter in model.parameters():
        parameter.grad = None
    out = model(*args, **kwargs)
    loss = _loss(out)
    loss.backward()
    return out, loss


def _loss(out: Any) -> Any:
    """Make a loss of the first numbers that a model gives out: their logarithms as a classifier's, or its own loss."""
    import torch  # noqa: PLC0415
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    for leaf in out.values() if isinstance(out, Mapping) else tree_leaves(out):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.float().log_softmax(-1).mean() if leaf.dim() else leaf.float()
    raise TypeError(f"the model returned {type(out).__name__} without a floating-point tensor")


@contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    """Let dropout and fused attention keep what they keep on a GPU."""
    import torch  # noqa: PLC0415

    functional = torch.nn.functional
    usual = functional.scaled_dot_product_attention

    class Fused(torch.autograd.Function):  # type: ignore[misc] # torch is not followed by mypy
        """Keeps queries, keys and values, what comes out, and a number for each query."""

        @staticmethod
        def forward(ctx: Any, query: Any, key: Any, value: Any) -> Any:
            out = query.new_empty(*query.shape[:-1], value.shape[-1])
            ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors[:3])

    def dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return torch.native_dropout(x, p, True)[0] if training and p else x

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        if enable_gqa and query.dtype == torch.float32 and query.shape[-3] != key.shape[-3]:  # no kernel fuses that
            return usual(query, key, value, attn_mask, 0.0, is_causal, scale=scale, enable_gqa=True)
        return Fused.apply(query, key, value)

    before = functional.dropout, usual
    functional.dropout, functional.scaled_dot_product_attention = dropout, attention
    try:
        yield
    finally:
        functional.dropout, functional.scaled_dot_product_attention = before
