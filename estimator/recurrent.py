"""Recurrent layers with what cuDNN takes for them: on the CPU's tensors they would be many small steps. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from estimator.autocast import LOW
from estimator.methods.rad.liveness import RECURRENT_WORKS
from estimator.methods.rad.program.leaves import RECURRENT_KEEPS

_NAMES: Final = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class _Cudnn(torch.autograd.Function):  # type: ignore[misc] # torch is not followed by mypy
    """All layers and directions at once: keeps what comes in and out, and gates and states in one piece."""

    @staticmethod
    def forward(ctx: Any, wide: int, layers: int, keeps: bool, count: int, x: Any, *others: Any) -> Any:
        y = x.new_empty(*x.shape[:-1], wide)
        ends = [torch.empty_like(state) for state in others[:count]]
        ctx.work = min(RECURRENT_KEEPS * layers, RECURRENT_WORKS) * y.numel()
        if keeps:
            ctx.save_for_backward(x, y, x.new_empty(RECURRENT_KEEPS * layers * y.numel()), *others)
        else:
            x.new_empty(sum(weight.numel() for weight in others[count:]))  # it takes the weights in one piece
        x.new_empty(ctx.work)
        return (y, *ends)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, _, _, *others = ctx.saved_tensors
        x.new_empty(ctx.work)
        return (None, None, None, None, *(torch.empty_like(tensor) for tensor in (x, *others)))


@contextmanager
def recurrent_as_on_a_gpu() -> Iterator[None]:
    """Let recurrent layers take what they take on a GPU."""
    for name in _NAMES:
        setattr(torch._VF, name, _instead(name))
    try:
        yield
    finally:
        for name in _NAMES:
            delattr(torch._VF, name)  # which hides torch's own


def _instead(name: str) -> Callable[..., Any]:
    def run(x: Any, *args: Any) -> Any:
        hx, weights, _, layers, _, _, both, _ = args  # packed sequences cannot be rehearsed: their length is data
        states = tuple(hx) if name == "lstm" else (hx,)
        given = (x, *states, *weights)
        if torch.is_autocast_enabled("cpu"):
            given = tuple(tensor.to(LOW) for tensor in given)
        wide = states[0].shape[-1] * (2 if both else 1)
        return _Cudnn.apply(wide, layers, torch.is_grad_enabled(), len(states), *given)

    return run
