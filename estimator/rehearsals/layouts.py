"""How what CUDA's kernels give out lies, where tensors without data say what the CPU's do. Needs torch.

It decides which of the next kernels copy what they take. `scripts.check_layouts` compares both, on a GPU: sixty
operations and their gradients, in fp32 and both halves, with what they take lying in three ways.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._prims_common import suggest_memory_format

_ATEN: Final = torch.ops.aten
_IN_ONE_PIECE: Final = frozenset(
    (
        _ATEN._log_softmax_backward_data.default,
        _ATEN.glu_backward.default,
        _ATEN.mse_loss_backward.default,
        _ATEN.native_layer_norm_backward.default,
        _ATEN.pixel_shuffle.default,
        _ATEN.pixel_unshuffle.default,
        _ATEN.smooth_l1_loss_backward.default,
    )
)
_AS_GRADIENT: Final = frozenset(
    (_ATEN.elu_backward.default, _ATEN.hardswish_backward.default, _ATEN.softplus_backward.default)
)
_TRAINS: Final = 7  # place of whether a batch norm does


def laid(func: Any, args: tuple[Any, ...], out: Any) -> Any:
    """Give what an operation gave out as it lies on a GPU: the first of several, or what is alone.

    Args:
        func: the operation, as dispatched.
        args: what it was given, by place.
        out: what it gave out.
    """
    if func in _IN_ONE_PIECE:
        layout, like = torch.contiguous_format, None
    elif func in _AS_GRADIENT:
        layout, like = torch.preserve_format, args[0]
    elif func is _ATEN.native_batch_norm_backward.default:
        layout, like = suggest_memory_format(args[1]) if args[_TRAINS] else torch.contiguous_format, None
    else:
        return out
    first, *others = out if isinstance(out, tuple) else (out,)
    if first is not None:
        first = torch.empty_like(first if like is None else like, memory_format=layout)
    return (first, *others) if isinstance(out, tuple) else first
