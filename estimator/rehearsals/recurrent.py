"""Recurrent layers and cells with what CUDA's kernels take for them. Needs torch.

What cuDNN works with `estimator.methods.rad.recurrences` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch

from estimator.methods.rad.recurrences import Recurrence, Type, workspace_bytes
from estimator.rehearsals.autocast import low
from estimator.types import Precision

# What cuDNN keeps of each layer, in outputs: gates, states between steps, and what goes to the next layer.
_KEPT: Final[dict[Type, int]] = {"lstm": 6, "gru": 7, "rnn": 2}
_BITS: Final = 8
_BESIDE: Final = 16  # bytes; a trace shows a block more than whole ones
_PRECISIONS: Final[dict[torch.dtype, Precision]] = {torch.bfloat16: "bf16", torch.float16: "fp16"}
# What the kernels of cells keep, in states.
_LSTM_GATES: Final = 4
_GRU_GATES: Final = 5


class _Call(NamedTuple):
    """How all layers are run.

    Attributes:
        one: what is run.
        apart: whether the weights must be copied into one piece.
        work, back: bytes that cuDNN works with, in the forward pass and in the backward pass.
    """

    one: Recurrence
    apart: bool
    work: int
    back: int


class _Cudnn(torch.autograd.Function):
    """All layers and directions at once: keeps what comes in and out, and gates and states in one piece."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *given: Any) -> Any:
        one, count = call.one, 2 if call.one.type == "lstm" else 1
        x, states, weights = given[0], given[1 : 1 + count], given[1 + count :]
        copy = _in_order(x, first=one.first)
        y = _made(x, states[0].shape[-1] * one.directions, first=one.first)
        ends = [torch.empty_like(state) for state in states]
        piece = x.new_empty(sum(weight.numel() for weight in weights) if call.apart else 0)
        work = x.new_empty(call.work, dtype=torch.uint8)
        if one.trains:
            # What the last layer gives out is its output; what is dropped between layers, a bit for each number.
            dropped = (one.layers - 1) * one.directions * one.given // one.size // _BITS if one.drops else 0
            kept = x.new_empty((_KEPT[one.type] * one.layers - 1) * one.given + dropped + _BESIDE, dtype=torch.uint8)
            ctx.save_for_backward(x, y, piece, kept, *states, *weights)
            ctx.call = call
        del work, copy
        return (y, *ends)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        count, first = len(gradients) - 1, ctx.call.one.first
        x, _, _, _, *others = ctx.saved_tensors
        copies = [_in_order(x, first=first), _in_order(gradients[0], first=first)]
        found = [_made(x, x.shape[-1], first=first), *(torch.empty_like(state) for state in others[:count])]
        x.new_empty(ctx.call.back, dtype=torch.uint8)
        copies.clear()
        copy = _in_order(x, first=first)
        flat = flattened(others[count:])
        x.new_empty(ctx.call.back, dtype=torch.uint8)
        del copy
        return (None, *found, *flat)


class _Flattened(torch.autograd.Function):
    """Weights in half precision, in one piece, as autocast makes them."""

    @staticmethod
    def forward(ctx: Any, *weights: Any) -> Any:
        ctx.types = [weight.dtype for weight in weights]
        return tuple(flattened(weights, low()))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        last_first = [one.to(kind) for one, kind in zip(reversed(gradients), reversed(ctx.types), strict=True)]
        return tuple(reversed(last_first))


def flattened(weights: Sequence[Any], kind: Any = None) -> list[Any]:
    """Make tensors of these shapes that lie in one piece."""
    piece = weights[0].new_empty(sum(weight.numel() for weight in weights), dtype=kind)
    return [
        part.view(weight.shape) for part, weight in zip(piece.split([w.numel() for w in weights]), weights, strict=True)
    ]


def _in_order(x: Any, *, first: bool) -> Any:
    """Copy what does not lie step by step."""
    steps = x.transpose(0, 1) if first else x
    return None if steps.is_contiguous() else torch.empty_like(steps, memory_format=torch.contiguous_format)


def _made(x: Any, width: int, *, first: bool) -> Any:
    """Make what lies step by step."""
    if first:
        return x.new_empty(x.shape[1], x.shape[0], width).transpose(0, 1)
    return x.new_empty(*x.shape[:-1], width)


class _Cell(torch.autograd.Function):
    """One step after its products: keeps them, gates, and states before and after."""

    @staticmethod
    def forward(ctx: Any, kept: int, given: Any, before: Any, state: Any, *biases: Any) -> Any:
        new = torch.empty_like(state)
        work = state.new_empty(state.shape[0], kept * state.shape[1])
        ctx.save_for_backward(work, state, given, before, *([new] if kept == _LSTM_GATES else []))
        ctx.two = kept == _GRU_GATES  # a GRU's products have gradients of their own
        ctx.biases = [bias.shape for bias in biases if bias is not None]
        return torch.empty_like(state), new

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        work, state, given, *_ = ctx.saved_tensors
        gates = torch.empty_like(given)
        others = torch.empty_like(given) if ctx.two else gates
        biases = [work.new_empty(shape) for shape in ctx.biases] or [None, None]
        return None, gates, others, torch.empty_like(state), *biases


def _layer(kind: Type) -> Callable[..., Any]:
    def run(
        x: Any,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        casts = torch.is_autocast_enabled("cpu")
        if casts:
            params = _Flattened.apply(*params)
            *states, x = (tensor.to(low()) for tensor in (*states, x))
        # Weights lie in one piece, and autocast puts them in one; but those in bf16 are copied into one.
        apart = not casts and x.dtype == torch.bfloat16
        batch, steps = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
        one = Recurrence(
            type=kind,
            layers=num_layers,
            directions=2 if bidirectional else 1,
            batch=batch,
            steps=steps,
            inputs=x.shape[-1],
            width=states[-1].shape[-1],  # an LSTM may give out less than it works with
            precision=_PRECISIONS.get(x.dtype, "fp32"),
            first=batch_first,
            drops=train and dropout > 0 and num_layers > 1,
            trains=torch.is_grad_enabled(),
        )
        return _Cudnn.apply(
            _Call(one, apart, workspace_bytes(one), workspace_bytes(one, backward=True)), x, *states, *params
        )

    return run


def _lstm_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    given, before = torch.nn.functional.linear(x, w_ih), torch.nn.functional.linear(hx[0], w_hh)
    return _Cell.apply(_LSTM_GATES, given, before, hx[1], b_ih, b_hh)


def _gru_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    given, before = torch.nn.functional.linear(x, w_ih), torch.nn.functional.linear(hx, w_hh)
    return _Cell.apply(_GRU_GATES, given, before, hx, b_ih, b_hh)[1]


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "gru.input": _layer("gru"),
    "gru_cell": _gru_cell,
    "lstm.input": _layer("lstm"),
    "lstm_cell": _lstm_cell,
    "rnn_relu.input": _layer("rnn"),
    "rnn_tanh.input": _layer("rnn"),
}
"""What stands for PyTorch's operations."""
