"""What CUDA's kernels take from PyTorch's allocator while they work, beside what they give out. Needs torch.

Measured on an H100, operation by operation, beside steps of the data set's models; convolutions and recurrent layers
are in `estimator.recorder` and `estimator.recurrent`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from estimator.reduction import buffer

_ATEN: Final = torch.ops.aten
# These copy what does not lie in one piece.
_IN_ONE_PIECE: Final = frozenset(
    (
        _ATEN._log_softmax.default,
        _ATEN._log_softmax_backward_data.default,
        _ATEN._softmax.default,
        _ATEN._softmax_backward_data.default,
        _ATEN.im2col.default,
        _ATEN.native_layer_norm.default,
        _ATEN.native_layer_norm_backward.default,
    )
)
# Embeddings of more words sort them; each tenth sorted word is summed up apart.
_UNSORTED: Final = 3072
_SUMMED: Final = 10
_SORTING: Final = 24
_PARTIAL: Final = 4  # bytes of a part of a sum, and of one of integers
_WHOLE: Final = 8
# What attention works with, in inputs of the layer; where the weights of its hidden layer stand.
_ATTENDING: Final = 4
_HIDDEN: Final = 14


def temporary(func: Any, args: tuple[Any, ...], out: Any) -> int:
    """Count the bytes that an operation takes and gives back.

    Args:
        func: the operation, as dispatched.
        args: what it was given, by place.
        out: what it gave out.
    """
    if func in _IN_ONE_PIECE:
        return sum(_bytes(item) for item in args if isinstance(item, torch.Tensor) and not item.is_contiguous())
    known = _KNOWN.get(func)
    return known(args, out) if known else 0


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _summed(args: tuple[Any, ...], axes: Any) -> int:
    x = args[0]
    partial = max(_PARTIAL, x.element_size()) if x.is_floating_point() else max(_WHOLE, x.element_size())
    return buffer(x.shape, x.stride(), axes or (), partial=partial)


def _sum(args: tuple[Any, ...], _: Any) -> int:
    return _summed(args, args[1] if len(args) > 1 else None)


def _norm(args: tuple[Any, ...], _: Any) -> int:
    return _summed(args, args[2] if len(args) > 2 else None)


def _pool(args: tuple[Any, ...], _: Any) -> int:
    """Copy what lies neither by channels nor by pictures."""
    x = args[0]
    return 0 if x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last) else _bytes(x)


def _safe_softmax(_: tuple[Any, ...], out: Any) -> int:
    """Notes a byte for each number: whether a row is masked as a whole."""
    return int(out.numel())


def _embedding(args: tuple[Any, ...], _: Any) -> int:
    gradient, words, count, *_ = args
    if words.numel() <= _UNSORTED:
        return 0
    parts = words.numel() // _SUMMED + min(words.numel(), count)
    copy = 0 if gradient.is_contiguous() else _bytes(gradient)
    return int(copy + parts * gradient.shape[-1] * _PARTIAL + _SORTING * words.numel())


def _encoder_layer(args: tuple[Any, ...], out: Any) -> int:
    """A whole layer in inference: the projections of attention, or the hidden layer of what follows."""
    return int(_bytes(out) * max(_ATTENDING, 1 + args[_HIDDEN].shape[0] // args[1]))


def _attention(args: tuple[Any, ...], out: Any) -> int:
    query, key, heads = args[0], args[1], args[4]
    matrix = query.shape[0] * heads * query.shape[1] * key.shape[1] * query.element_size()
    return int(matrix + 2 * _bytes(out[0] if isinstance(out, tuple) else out))


def _transformed(args: tuple[Any, ...], out: Any) -> int:
    """Copy what is transformed, as complex numbers."""
    return max(_bytes(args[0]), 0 if out.is_floating_point() else _bytes(out))


_KNOWN: Final[dict[Any, Callable[[tuple[Any, ...], Any], int]]] = {
    _ATEN._fft_c2r.default: _transformed,
    _ATEN._fft_r2c.default: _transformed,
    _ATEN._native_multi_head_attention.default: _attention,
    _ATEN._safe_softmax.default: _safe_softmax,
    _ATEN._transformer_encoder_layer_fwd.default: _encoder_layer,
    _ATEN.embedding_dense_backward.default: _embedding,
    _ATEN.linalg_vector_norm.default: _norm,
    _ATEN.max_pool2d_with_indices.default: _pool,
    _ATEN.mean.dim: _sum,
    _ATEN.sum.default: _sum,
    _ATEN.sum.dim_IntList: _sum,
}
