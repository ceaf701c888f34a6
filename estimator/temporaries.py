"""What CUDA's kernels take from PyTorch's allocator while they work, beside what they give out. Needs torch.

Measured on an H100 and an H200, operation by operation, in steps of the data set's models and alone; convolutions and
recurrent layers are in `estimator.recorder` and `estimator.recurrent`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final, NamedTuple

import torch

from estimator.reduction import buffer

_ATEN: Final = torch.ops.aten
# These copy what does not lie in one piece.
_IN_ONE_PIECE: Final = frozenset(
    (
        _ATEN._log_softmax.default,
        _ATEN._log_softmax_backward_data.default,
        _ATEN._softmax.default,
        _ATEN.col2im.default,
        _ATEN.max_pool3d_with_indices_backward.default,
        _ATEN.native_layer_norm.default,
        _ATEN.native_layer_norm_backward.default,
        _ATEN.reflection_pad1d_backward.default,
        _ATEN.reflection_pad2d_backward.default,
        _ATEN.upsample_linear1d_backward.default,
        _ATEN.upsample_nearest1d_backward.default,
        _ATEN.upsample_nearest3d_backward.default,
        _ATEN.upsample_trilinear3d_backward.default,
    )
)
# These do so before they take what they give out, and embeddings copy what they add up.
_COPIES_FIRST: Final = frozenset((_ATEN.native_layer_norm.default, _ATEN.native_layer_norm_backward.default))
_ADDS_UP: Final = frozenset((_ATEN.embedding_dense_backward.default, _ATEN._embedding_bag_backward.default))
_HALVES: Final = (torch.float16, torch.bfloat16)
# Embeddings of more words sort them: bytes for each word while that is done, and for each word and row when it is. Of
# more rows than a few, each tenth sorted word and each row are summed up apart.
_UNSORTED: Final = 3072
_SUMMED: Final = 10
_FEW_ROWS: Final = 512
_SORTING: Final = 40
_SORTED: Final = 24
# What is added to places that indices name is sorted by them: bytes for each.
_INDEXING: Final = 48
# What is summed up is halved until so many bytes are reached with 32 bits.
_INDEXED: Final = 2**31 - 1
_PARTIAL: Final = 4  # bytes of a part of a sum, and of one of integers
_WHOLE: Final = 8
# What attention works with, in inputs of the layer; where the weights of its hidden layer stand.
_ATTENDING: Final = 4
_HIDDEN: Final = 14
# Lengths that cuFFT transforms at once; how much of them it works with where a factor is a larger prime number.
_SHORT_POWER: Final = 32768
_SHORT_REAL: Final = 1024
_SHORT_COMPLEX: Final = 16384
_PRIME: Final = 127
_AROUND_REAL: Final = 5
_AROUND_COMPLEX: Final = 4
# Several blocks of threads look for the largest numbers of so many rows that are so long; what they count of each, and
# each of the blocks, which take so many numbers.
_ROWS: Final = 4000
_LONG: Final = 400
_COUNTED: Final = 1052
_COUNTS: Final = 512
_EACH: Final = 16384


class Temporary(NamedTuple):
    """Bytes that an operation takes and gives back.

    Attributes:
        before: of each piece that it takes before it takes what it gives out.
        after: of what it takes after that.
    """

    before: tuple[int, ...]
    after: int


def temporary(func: Any, args: tuple[Any, ...], out: Any) -> Temporary:
    """Count the bytes that an operation takes and gives back.

    Args:
        func: the operation, as dispatched.
        args: what it was given, by place.
        out: what it gave out.
    """
    if func in _IN_ONE_PIECE:
        copies = tuple(_bytes(item) for item in args if isinstance(item, torch.Tensor) and not item.is_contiguous())
        return Temporary(copies, 0) if func in _COPIES_FIRST else Temporary((), sum(copies))
    known = _KNOWN.get(func)
    copy = (_bytes(args[0]),) if func in _ADDS_UP and _is_apart(args[0]) else ()
    return Temporary(copy, known(args, out) if known else 0)


def _is_apart(tensor: Any) -> bool:
    return tensor.layout == torch.strided and not tensor.is_contiguous()


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _cast(args: tuple[Any, ...], out: Any) -> int:
    """Copy what is summed up in another type, but for half precision in fp32."""
    x = args[0]
    if x.dtype == out.dtype or (x.dtype in _HALVES and out.dtype == torch.float32):
        return 0
    return int(x.numel() * out.element_size())


def _summed(args: tuple[Any, ...], axes: Any) -> int:
    x = args[0]
    partial = max(_PARTIAL, x.element_size()) if x.is_floating_point() else max(_WHOLE, x.element_size())
    shape = list(x.shape)
    while sum((size - 1) * step for size, step in zip(shape, x.stride(), strict=True)) * x.element_size() >= _INDEXED:
        longest = max(range(len(shape)), key=lambda axis: (shape[axis] - 1) * x.stride(axis))
        shape[longest] = -(-shape[longest] // 2)
    return buffer(shape, x.stride(), axes or (), partial=partial)


def _sum(args: tuple[Any, ...], out: Any) -> int:
    return _cast(args, out) + _summed(args, args[1] if len(args) > 1 else None)


def _norm(args: tuple[Any, ...], _: Any) -> int:
    return _summed(args, args[2] if len(args) > 2 else None)


def _pool(args: tuple[Any, ...], _: Any) -> int:
    """Copy what lies neither by channels nor by pictures."""
    x = args[0]
    return 0 if x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last) else _bytes(x)


def _pool_backward(args: tuple[Any, ...], beside: torch.Tensor) -> int:
    """Copy what does not lie as the input does."""
    gradient, x = args[:2]
    last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    laid = torch.channels_last if last else torch.contiguous_format
    return sum(_bytes(item) for item in (gradient, beside) if not item.is_contiguous(memory_format=laid))


def _average_backward(args: tuple[Any, ...], _: Any) -> int:
    return _pool_backward(args, args[1])


def _largest_backward(args: tuple[Any, ...], _: Any) -> int:
    return _pool_backward(args, args[-1])


def _unfolded(args: tuple[Any, ...], _: Any) -> int:
    return _bytes(args[0]) * (1 if args[0].is_contiguous() else 2)


def _product(first: int) -> Callable[[tuple[Any, ...], Any], int]:
    """Copy factors of which neither rows nor columns lie together; they stand from that place on."""

    def copied(args: tuple[Any, ...], _: Any) -> int:
        return sum(_bytes(item) for item in args[first : first + 2] if not _lies_together(item))

    return copied


def _lies_together(matrix: torch.Tensor) -> bool:
    rows, columns = matrix.shape[-2:]
    down, across = matrix.stride()[-2:]
    return bool(min(rows, columns) <= 1 or (across == 1 and down >= columns) or (down == 1 and across >= rows))


def _copy(args: tuple[Any, ...], _: Any) -> int:
    return _bytes(args[0])


def _loss(args: tuple[Any, ...], out: Any) -> int:
    """What each number adds to a loss, before the mean of them."""
    return 0 if out.dim() else _bytes(args[0])


def _logits_loss(args: tuple[Any, ...], out: Any) -> int:
    return 2 * _loss(args, out)


def _complex(args: tuple[Any, ...], _: Any) -> int:
    return _bytes(args[0]) if args[0].is_complex() else 0


def _rolled(args: tuple[Any, ...], out: Any) -> int:
    """Roll along one axis after the other."""
    return _bytes(out) if len(args[1]) > 1 else 0


def _indexed(args: tuple[Any, ...], _: Any) -> int:
    """Sort what is added by where it goes."""
    _, indices, values, *accumulate = args
    if not any(accumulate[:1]):
        return 0
    shape = torch.broadcast_shapes(*(index.shape for index in indices if index is not None))
    return int(_INDEXING * prod(shape)) + (0 if values.is_contiguous() else _bytes(values))


def _topmost(args: tuple[Any, ...], _: Any) -> int:
    x = args[0]
    along = int(x.shape[args[2] if len(args) > 2 else -1] if x.dim() else 1)
    rows = x.numel() // max(along, 1)
    return int(rows * (_COUNTED + _COUNTS * -(-along // _EACH)) if rows > _ROWS and along >= _LONG else 0)


def _safe_softmax(_: tuple[Any, ...], out: Any) -> int:
    """Notes a byte for each number: whether a row is masked as a whole."""
    return int(out.numel())


def _embedding(args: tuple[Any, ...], _: Any) -> int:
    return _looked_up(*args[:3])


def _bag(args: tuple[Any, ...], out: Any) -> int:
    return _looked_up(args[0], args[1], args[6]) if out.layout == torch.strided else 0


def _looked_up(gradient: Any, words: Any, count: int) -> int:
    if words.numel() <= _UNSORTED:
        return 0
    several, rows = words.numel(), min(words.numel(), count)
    apart = several // _SUMMED + rows if count > _FEW_ROWS else rows if gradient.dtype in _HALVES else 0
    parts = apart * gradient.shape[-1] * _PARTIAL
    return int(max(_SORTING * several, _SORTED * (several + rows) + parts))


def _encoder_layer(args: tuple[Any, ...], out: Any) -> int:
    """A whole layer in inference: the projections of attention, or the hidden layer of what follows."""
    return int(_bytes(out) * max(_ATTENDING, 1 + args[_HIDDEN].shape[0] // args[1]))


def _attention(args: tuple[Any, ...], out: Any) -> int:
    query, key, heads = args[0], args[1], args[4]
    matrix = query.shape[0] * heads * query.shape[1] * key.shape[1] * query.element_size()
    return int(matrix + 2 * _bytes(out[0] if isinstance(out, tuple) else out))


def _transformed(args: tuple[Any, ...], out: Any) -> int:
    """Copy what is transformed, as complex numbers, unless its numbers lie behind one another as they are."""
    x, axes = args[:2]
    last = sorted(axis % x.dim() for axis in axes) == list(range(x.dim() - len(axes), x.dim()))
    real = out if out.is_floating_point() else x
    work = max(_plan(real.shape[axis], real) for axis in axes)
    if last and x.is_contiguous() and (x.is_complex() or len(axes) == 1) and not out.is_floating_point():
        return work
    return max(_bytes(x), 0 if out.is_floating_point() else _bytes(out)) + work


def _plan(length: int, whole: torch.Tensor) -> int:
    """Count what cuFFT works with, as measured: nothing for short powers of two."""
    real = whole.is_floating_point()
    if _largest_factor(length) > _PRIME:
        return _bytes(whole) * (_AROUND_REAL if real else _AROUND_COMPLEX)
    if length & (length - 1) == 0:
        return _bytes(whole) if length > _SHORT_POWER else 0
    return _bytes(whole) if length > (_SHORT_REAL if real else _SHORT_COMPLEX) else 0


def _largest_factor(number: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            number //= factor
            largest = factor
        factor += 1
    return max(largest, number)


_KNOWN: Final[dict[Any, Callable[[tuple[Any, ...], Any], int]]] = {
    _ATEN._embedding_bag_backward.default: _bag,
    _ATEN._fft_c2c.default: _transformed,
    _ATEN._fft_c2r.default: _transformed,
    _ATEN._fft_r2c.default: _transformed,
    _ATEN._native_multi_head_attention.default: _attention,
    _ATEN._safe_softmax.default: _safe_softmax,
    _ATEN._softmax_backward_data.default: _copy,
    _ATEN._transformer_encoder_layer_fwd.default: _encoder_layer,
    _ATEN.abs.default: _complex,
    _ATEN.addmm.default: _product(1),
    _ATEN.avg_pool2d.default: _pool,
    _ATEN.avg_pool2d_backward.default: _average_backward,
    _ATEN.baddbmm.default: _product(1),
    _ATEN.binary_cross_entropy_with_logits.default: _logits_loss,
    _ATEN.bmm.default: _product(0),
    _ATEN.cumsum.default: _cast,
    _ATEN.embedding_dense_backward.default: _embedding,
    _ATEN.huber_loss.default: _loss,
    _ATEN.im2col.default: _unfolded,
    _ATEN.index_put.default: _indexed,
    _ATEN.index_put_.default: _indexed,
    _ATEN.linalg_vector_norm.default: _norm,
    _ATEN.logsumexp.default: _copy,
    _ATEN.max_pool2d_with_indices.default: _pool,
    _ATEN.max_pool2d_with_indices_backward.default: _largest_backward,
    _ATEN.mean.dim: _sum,
    _ATEN.mm.default: _product(0),
    _ATEN.mse_loss.default: _loss,
    _ATEN.roll.default: _rolled,
    _ATEN.smooth_l1_loss.default: _loss,
    _ATEN.sum.default: _sum,
    _ATEN.sum.dim_IntList: _sum,
    _ATEN.topk.default: _topmost,
    _ATEN.upsample_bicubic2d_backward.default: _pool,
    _ATEN.upsample_bilinear2d_backward.default: _pool,
    _ATEN.upsample_nearest2d_backward.default: _pool,
}
