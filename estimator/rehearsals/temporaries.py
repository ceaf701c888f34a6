"""What CUDA's kernels take from PyTorch's allocator while they work, beside what they give out. Needs torch.

Measured on an H100 and an H200, operation by operation, in steps of the data set's models and alone; convolutions and
recurrent layers are in `estimator.rehearsals.recorder` and `estimator.rehearsals.recurrent`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any, Final, NamedTuple

import torch
from torch._prims_common import suggest_memory_format

from estimator.rehearsals.reduction import buffer

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
# These do so before they take what they give out.
_COPIES_FIRST: Final = frozenset((_ATEN.native_layer_norm.default, _ATEN.native_layer_norm_backward.default))
# These make room for all numbers, and give out one.
_SHRINKS: Final = frozenset((_ATEN.mse_loss.default, _ATEN.smooth_l1_loss.default))
_HALVES: Final = (torch.float16, torch.bfloat16)
# Embeddings of more words sort them. Of more rows than a few, each tenth sorted word and each row are summed up apart.
_UNSORTED: Final = 3072
_SUMMED: Final = 10
_FEW_ROWS: Final = 512
_SPARSE: Final = 9  # place of whether bags have sparse gradients
# What CUB takes to sort so many pairs of 64 bits: two of each, a little for each few of them, and as much besides.
_FEW: Final = 9
_SORTS: Final = 16896
# What is summed up is halved until so many bytes are reached with 32 bits.
_INDEXED: Final = 2**31 - 1
_PARTIAL: Final = 4  # bytes of a part of a sum, of one of integers, and of a mean and what varies around it
_WHOLE: Final = 8
_VARYING: Final = 16
_PICTURES: Final = 4  # axes
# What cuFFT works with, measured with lengths up to 220,500. Powers of two, and others, are transformed at once up to
# such lengths, but not products of a prime number above such a one; larger prime numbers take more, long ones most.
_SHORT_POWER: Final = 32768
_SHORT_REAL: Final = 1024
_SHORT_COMPLEX: Final = 20480
_SMOOTH: Final = 13
_PRIME: Final = 127
_LONG_PRIME: Final = 8192
_AROUND_REAL: Final = 5
_AROUND_COMPLEX: Final = 4
# Several blocks of threads look for the largest numbers of so many rows that are so long: bytes of each row, one piece
# after the other; each block, which takes so many numbers, has one as the fourth.
_ROWS: Final = 4000
_LONG: Final = 400
_COUNTED: Final = (4, 8, 8, 512, 1024, 4, 4)
_EACH: Final = 16384
_OF_BLOCKS: Final = 3

Pieces = tuple[int | tuple[int, ...], ...]
"""Bytes of pieces in the order in which they are taken; those in a tuple are given back before the next is taken."""


class Temporary(NamedTuple):
    """What an operation takes and gives back.

    Attributes:
        before: what it takes before it takes what it gives out.
        after: what it takes after that.
    """

    before: Pieces
    after: Pieces


def temporary(func: Any, args: tuple[Any, ...], out: Any) -> Temporary:
    """Count the bytes that an operation takes and gives back.

    Args:
        func: the operation, as dispatched.
        args: what it was given, by place.
        out: what it gave out.
    """
    if func in _IN_ONE_PIECE:
        copies = _apart(*(item for item in args if isinstance(item, torch.Tensor)))
        return Temporary(copies, ()) if func in _COPIES_FIRST else Temporary((), copies)
    before = _FIRST[func](args) if func in _FIRST else ()
    return Temporary(before, _KNOWN[func](args, out) if func in _KNOWN else ())


def room(func: Any, args: tuple[Any, ...]) -> int:
    """Count the bytes that stay with what an operation gives out, where that is but a part of it; 0 else.

    Losses are made where what each number adds to them would lie.
    """
    return _bytes(args[0]) if func in _SHRINKS else 0


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())


def _apart(*tensors: Any, layout: torch.memory_format = torch.contiguous_format) -> tuple[int, ...]:
    """Copy what does not lie in one piece."""
    strided = (tensor for tensor in tensors if tensor.layout == torch.strided)
    return tuple(_bytes(tensor) for tensor in strided if not tensor.is_contiguous(memory_format=layout))


def _norm_backward(args: tuple[Any, ...]) -> Pieces:
    """Copy a gradient that does not lie as what came in should."""
    gradient, x = args[:2]
    return _apart(gradient, layout=suggest_memory_format(x))


def _cast(args: tuple[Any, ...], out: Any) -> Pieces:
    """Copy what is summed up in another type, but for half precision in fp32."""
    x = args[0]
    if x.dtype == out.dtype or (x.dtype in _HALVES and out.dtype == torch.float32):
        return ()
    return (int(x.numel() * out.element_size()),)


def _back_in_time(args: tuple[Any, ...], out: Any) -> Pieces:
    """Go through CTC's likelihoods from behind, where the forward pass went through them from before."""
    del out
    return (_bytes(args[6]),)


def _summed_up(args: tuple[Any, ...], out: Any) -> Pieces:
    return (*_cast(args, out), *_apart(args[0]))


def _buffer(x: torch.Tensor, axes: Any, partial: int | None = None) -> Pieces:
    if partial is None:
        partial = max(_PARTIAL if x.is_floating_point() else _WHOLE, x.element_size())
    shape = list(x.shape)
    while sum((size - 1) * step for size, step in zip(shape, x.stride(), strict=True)) * x.element_size() >= _INDEXED:
        longest = max(range(len(shape)), key=lambda axis: (shape[axis] - 1) * x.stride(axis))
        shape[longest] = -(-shape[longest] // 2)
    return (buffer(shape, x.stride(), axes or (), partial=partial),)


def _sum(args: tuple[Any, ...], out: Any) -> Pieces:
    return _cast(args, out) + _buffer(args[0], args[1] if len(args) > 1 else None)


def _batch_norm(args: tuple[Any, ...], _: Any) -> Pieces:
    """Take mean and variance of what lies neither by channels nor by samples, which cuDNN is not given, in fp32."""
    x, trains = args[0], args[5]
    together = x.dim() == _PICTURES and x.is_contiguous(memory_format=torch.channels_last)
    if x.dtype != torch.bfloat16 or not trains or x.is_contiguous() or together:
        return ()
    axes = [axis for axis in range(x.dim()) if axis != 1]
    return (int(x.numel() * _PARTIAL), *_buffer(x, axes, _VARYING))


def _norm(args: tuple[Any, ...], _: Any) -> Pieces:
    return _buffer(args[0], args[2] if len(args) > 2 else None)


def _pool(args: tuple[Any, ...], _: Any) -> Pieces:
    """Copy what lies neither by channels nor by pictures."""
    x = args[0]
    return () if x.is_contiguous(memory_format=torch.channels_last) else _apart(x)


def _pool_backward(args: tuple[Any, ...], beside: torch.Tensor) -> Pieces:
    """Copy what does not lie as the input does."""
    gradient, x = args[:2]
    last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return _apart(beside, gradient, layout=torch.channels_last if last else torch.contiguous_format)


def _average_backward(args: tuple[Any, ...], _: Any) -> Pieces:
    return _pool_backward(args, args[1])


def _largest_backward(args: tuple[Any, ...], _: Any) -> Pieces:
    return _pool_backward(args, args[-1])


def _unfolded(args: tuple[Any, ...], _: Any) -> Pieces:
    return (*_apart(args[0]), _bytes(args[0]))


def _product(first: int) -> Callable[[tuple[Any, ...], Any], Pieces]:
    """Copy factors of which neither rows nor columns lie together; they stand from that place on."""

    def copied(args: tuple[Any, ...], _: Any) -> Pieces:
        return tuple(_bytes(item) for item in args[first : first + 2] if not _lies_together(item))

    return copied


def _lies_together(matrix: torch.Tensor) -> bool:
    rows, columns = matrix.shape[-2:]
    down, across = matrix.stride()[-2:]
    return bool(min(rows, columns) <= 1 or (across == 1 and down >= columns) or (down == 1 and across >= rows))


def _copy(args: tuple[Any, ...], _: Any) -> Pieces:
    return (_bytes(args[0]),)


def _softmax_backward(args: tuple[Any, ...], _: Any) -> Pieces:
    """Multiply the gradient by what came out, which lies as the gradient does."""
    return (_bytes(args[0]), *_apart(args[0]))


def _loss(args: tuple[Any, ...], out: Any) -> Pieces:
    """What each number adds to a loss, before the mean of them."""
    return () if out.dim() else _copy(args, out)


def _logits_loss(args: tuple[Any, ...], out: Any) -> Pieces:
    return 2 * _loss(args, out)


def _complex(args: tuple[Any, ...], out: Any) -> Pieces:
    return _copy(args, out) if args[0].is_complex() else ()


def _rolled(args: tuple[Any, ...], out: Any) -> Pieces:
    """Roll along one axis after the other."""
    return (_bytes(out),) if len(args[1]) > 1 else ()


def _sorting(several: int) -> int:
    """Count the bytes that CUB takes to sort so many."""
    return 2 * _WHOLE * several + 2 * several // _FEW + _SORTS


def _indexed(args: tuple[Any, ...], _: Any) -> Pieces:
    """Sort what is added by where it goes."""
    _, indices, values, *accumulate = args
    if not any(accumulate[:1]):
        return ()
    several = prod(torch.broadcast_shapes(*(index.shape for index in indices if index is not None)))
    place = _WHOLE * several
    return (*_apart(values), place, (place,), place, place, place, _sorting(several))


def _topmost(args: tuple[Any, ...], _: Any) -> Pieces:
    x = args[0]
    along = int(x.shape[args[2] if len(args) > 2 else -1] if x.dim() else 1)
    rows = x.numel() // max(along, 1)
    if rows <= _ROWS or along < _LONG:
        return ()
    blocks = -(-along // _EACH)
    return tuple(rows * size * (blocks if at == _OF_BLOCKS else 1) for at, size in enumerate(_COUNTED))


def _safe_softmax(_: tuple[Any, ...], out: Any) -> Pieces:
    """Notes a byte for each number: whether a row is masked as a whole."""
    return (int(out.numel()),)


def _words_sorted(args: tuple[Any, ...]) -> Pieces:
    """Sort words before their gradients are added up."""
    copy, several = _apart(*args[:2]), args[1].numel()
    if several <= _UNSORTED:
        return copy
    place = _WHOLE * several
    return (*copy, place, place, (place, _sorting(several)))


def _bags_sorted(args: tuple[Any, ...]) -> Pieces:
    sparse = args[_SPARSE]
    return _apart(args[0]) if sparse else _words_sorted(args)


def _words(args: tuple[Any, ...]) -> Pieces:
    return _apart(args[1])


def _embedding(args: tuple[Any, ...], _: Any) -> Pieces:
    return _looked_up(*args[:3])


def _bag(args: tuple[Any, ...], out: Any) -> Pieces:
    return _looked_up(args[0], args[1], args[6]) if out.layout == torch.strided else ()


def _looked_up(gradient: Any, words: Any, count: int) -> Pieces:
    several, rows = words.numel(), min(words.numel(), count)
    if several <= _UNSORTED:
        return ()
    place, apart = _WHOLE * several, several // _SUMMED + rows
    if count > _FEW_ROWS:
        parts = apart * gradient.shape[-1] * _PARTIAL
    elif gradient.dtype in _HALVES:
        parts = rows * gradient.shape[-1] * _PARTIAL
    else:
        parts = _WHOLE * apart
    return place, (place,), _WHOLE * rows, _WHOLE * rows, _WHOLE * apart, parts


def _transformed(args: tuple[Any, ...], out: Any) -> Pieces:
    """Copy what real numbers are made of, and what lies apart; work with as much as the axis that needs most."""
    x, axes = args[:2]
    if not axes:
        return ()
    copy: tuple[int, ...] = ()
    if not out.is_complex():
        x, copy = x.contiguous(), (_bytes(x),)
    if not _follow_each_other(x, {axis % x.dim() for axis in axes}):
        copy += (_bytes(x),)
    real = next((each for each in (x, out) if each.is_floating_point()), None)
    whole = out if x.is_floating_point() else x
    *others, ends = ((x if real is None else real).shape[axis] for axis in axes)
    work = [_complex_plan(length, _bytes(whole)) for length in others]
    work.append(_complex_plan(ends, _bytes(whole)) if real is None else _real_plan(ends, _bytes(real)))
    return (*copy, max(work))


def _follow_each_other(x: torch.Tensor, axes: set[int]) -> bool:
    """Tell whether what is transformed along these axes lies one after the other, at equal distances."""
    others = [(x.stride(axis), x.shape[axis]) for axis in range(x.dim()) if axis not in axes and x.shape[axis] > 1]
    others.sort(reverse=True)
    return all(far == near * size for (far, _), (near, size) in pairwise(others))


def _complex_plan(length: int, size: int) -> int:
    """Count what an axis of complex numbers of so many bytes needs."""
    factor = _largest_factor(length)
    if factor > _PRIME:
        return size * _AROUND_COMPLEX if length > _LONG_PRIME else 0
    if length & (length - 1) == 0:
        return size if length > _SHORT_POWER else 0
    return size if length > _SHORT_COMPLEX or _SMOOTH < factor < length else 0


def _real_plan(length: int, size: int) -> int:
    """Count what the axis needs that is halved, of real numbers of so many bytes."""
    factor = _largest_factor(length)
    if factor > _PRIME:
        return size * (_AROUND_REAL if length > _LONG_PRIME else 2)
    if length & (length - 1) == 0:
        return size if length > _SHORT_POWER else 0
    if _SMOOTH < factor < length:
        return 2 * size
    return size if length > _SHORT_REAL else 0


def _largest_factor(number: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            number //= factor
            largest = factor
        factor += 1
    return max(largest, number)


_FIRST: Final[dict[Any, Callable[[tuple[Any, ...]], Pieces]]] = {
    _ATEN._embedding_bag_backward.default: _bags_sorted,
    _ATEN.embedding.default: _words,
    _ATEN.embedding_dense_backward.default: _words_sorted,
    _ATEN.native_batch_norm_backward.default: _norm_backward,
}
_KNOWN: Final[dict[Any, Callable[[tuple[Any, ...], Any], Pieces]]] = {
    _ATEN._ctc_loss_backward.Tensor: _back_in_time,
    _ATEN._ctc_loss_backward.default: _back_in_time,
    _ATEN._embedding_bag_backward.default: _bag,
    _ATEN._fft_c2c.default: _transformed,
    _ATEN._fft_c2r.default: _transformed,
    _ATEN._fft_r2c.default: _transformed,
    _ATEN._safe_softmax.default: _safe_softmax,
    _ATEN._softmax_backward_data.default: _softmax_backward,
    _ATEN.abs.default: _complex,
    _ATEN.addmm.default: _product(1),
    _ATEN.avg_pool2d.default: _pool,
    _ATEN.avg_pool2d_backward.default: _average_backward,
    _ATEN.baddbmm.default: _product(1),
    _ATEN.binary_cross_entropy_with_logits.default: _logits_loss,
    _ATEN.bmm.default: _product(0),
    _ATEN.cumsum.default: _summed_up,
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
    _ATEN.native_batch_norm.default: _batch_norm,
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
