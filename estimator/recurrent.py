"""Recurrent layers and cells with what CUDA's kernels take for them. Needs torch.

What cuDNN keeps for the backward pass is known; what it works with depends on the algorithm that it chooses: here
stands what explained measurements of random layers on an H100 best, which vary around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import torch

from estimator.autocast import low

_MIB: Final = 2**20


class _Works(NamedTuple):
    """What cuDNN works with: so many times the numbers of these, and MiB for each direction.

    Attributes:
        outputs: of the last layer.
        layers: outputs of each layer.
        inputs: for each direction.
        weights: of all layers.
        mib: for each direction.
    """

    outputs: float
    layers: float
    inputs: float
    weights: float
    mib: float


class _Layer(NamedTuple):
    """What cuDNN keeps and works with.

    Attributes:
        kept: gates, states between steps, and what goes to the next layer, of each layer, in outputs.
        trains, infers: what it works with.
    """

    kept: int
    trains: _Works
    infers: _Works


_LSTM: Final = _Layer(6, _Works(3.9, 1.5, 4.1, 1.2, 13.0), _Works(3.6, 1.8, 1.9, 1.4, 16.0))
_GRU: Final = _Layer(7, _Works(3.0, 1.4, 4.3, 1.1, 12.0), _Works(3.0, 1.7, 1.9, 1.4, 14.0))
_RNN: Final = _Layer(2, _Works(3.9, 1.2, 4.7, 1.3, 14.0), _Works(1.9, 1.1, 1.9, 1.5, 15.0))
# What the kernels of cells keep, in states.
_LSTM_GATES: Final = 4
_GRU_GATES: Final = 5


class _Call(NamedTuple):
    """How all layers are run.

    Attributes:
        kind: of the layers.
        layers, directions: how many.
        first: whether the batch is the first axis.
        apart: whether the weights must be copied into one piece.
        keeps: whether a backward pass follows.
    """

    kind: _Layer
    layers: int
    directions: int
    first: bool
    apart: bool
    keeps: bool


class _Cudnn(torch.autograd.Function):  # type: ignore[misc] # torch is not followed by mypy
    """All layers and directions at once: keeps what comes in and out, and gates and states in one piece."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *given: Any) -> Any:
        kind, count = call.kind, 2 if call.kind is _LSTM else 1
        x, states, weights = given[0], given[1 : 1 + count], given[1 + count :]
        copy = _in_order(x, first=call.first)
        y = _made(x, states[0].shape[-1] * call.directions, first=call.first)
        ends = [torch.empty_like(state) for state in states]
        whole = sum(weight.numel() for weight in weights)
        piece = x.new_empty(whole if call.apart else 0)
        inside = y.numel() // states[0].shape[-1] * states[-1].shape[-1]  # an LSTM may give out less than it works with
        works = kind.trains if call.keeps else kind.infers
        numbers = (works.outputs + works.layers * call.layers) * inside + works.weights * whole
        numbers += works.inputs * call.directions * x.numel()
        ctx.work = int(numbers + works.mib * call.directions * _MIB / x.element_size())
        work = x.new_empty(ctx.work)
        if call.keeps:
            kept = x.new_empty((kind.kept * call.layers - 1) * inside)  # what the last layer gives out is its output
            ctx.save_for_backward(x, y, piece, kept, *states, *weights)
            ctx.call = call
        del work, copy
        return (y, *ends)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        count, first = len(gradients) - 1, ctx.call.first
        x, _, _, _, *others = ctx.saved_tensors
        copies = [_in_order(x, first=first), _in_order(gradients[0], first=first)]
        found = [_made(x, x.shape[-1], first=first), *(torch.empty_like(state) for state in others[:count])]
        x.new_empty(ctx.work)
        copies.clear()
        copy = _in_order(x, first=first)
        flat = flattened(others[count:])
        x.new_empty(ctx.work)
        del copy
        return (None, *found, *flat)


class _Flattened(torch.autograd.Function):  # type: ignore[misc]
    """Weights in half precision, in one piece, as autocast makes them."""

    @staticmethod
    def forward(ctx: Any, *weights: Any) -> Any:
        ctx.types = [weight.dtype for weight in weights]
        return tuple(flattened(weights, low()))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return tuple(one.to(kind) for one, kind in zip(gradients, ctx.types, strict=True))


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


class _Cell(torch.autograd.Function):  # type: ignore[misc]
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


def _layer(kind: _Layer) -> Callable[..., Any]:
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
            x, *states = (tensor.to(low()) for tensor in (x, *states))
        # Weights lie in one piece, and autocast puts them in one; but those in bf16 are copied into one.
        apart = not casts and x.dtype == torch.bfloat16
        call = _Call(kind, num_layers, 2 if bidirectional else 1, batch_first, apart, torch.is_grad_enabled())
        return _Cudnn.apply(call, x, *states, *params)

    return run


def _lstm_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    given, before = torch.nn.functional.linear(x, w_ih), torch.nn.functional.linear(hx[0], w_hh)
    return _Cell.apply(_LSTM_GATES, given, before, hx[1], b_ih, b_hh)


def _gru_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    given, before = torch.nn.functional.linear(x, w_ih), torch.nn.functional.linear(hx, w_hh)
    return _Cell.apply(_GRU_GATES, given, before, hx, b_ih, b_hh)[1]


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    "gru.input": _layer(_GRU),
    "gru_cell": _gru_cell,
    "lstm.input": _layer(_LSTM),
    "lstm_cell": _lstm_cell,
    "rnn_relu.input": _layer(_RNN),
    "rnn_tanh.input": _layer(_RNN),
}
"""What stands for PyTorch's operations."""
