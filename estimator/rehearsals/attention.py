"""Which of PyTorch's kernels a GPU takes for attention, and what stands for it on tensors without data. Needs torch.

Follows ``sdp_utils.cpp`` of PyTorch 2.11 for an H100: one of cuDNN's, the flash or the memory-efficient kernel, which
keep no matrix, or plain products, which do.
"""

from __future__ import annotations

from typing import Any, Final

import torch

_AXES: Final = 4
_WIDEST: Final = 256
# Fused kernels load so many numbers of a head at once.
_ALIGNED: Final = {torch.float32: 4}
_HALF: Final = 8
_BLOCK: Final = 64
_COUNTERS: Final = 4  # numbers of a block
_BESIDE: Final = 64  # numbers; traces show 256 bytes more than whole ones
_HALVES: Final = (torch.float16, torch.bfloat16)
_MATH: Final = torch.ops.aten._scaled_dot_product_attention_math


class _Fused(torch.autograd.Function):
    """Keeps queries, keys, values, mask and what comes out, and a number for each query."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
        if query.dtype in _HALVES and query.shape[-1] == value.shape[-1]:
            out = torch.empty_like(query)  # cuDNN's lays it out as the queries
        else:
            batch, heads, length, _ = query.shape
            out = query.new_empty(batch, length, heads, value.shape[-1]).transpose(1, 2)
        ctx.save_for_backward(query, key, value, mask, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        query, key, value, mask, _, _ = ctx.saved_tensors
        if query.dtype == torch.float32:  # heads of a token lie together; it sums up block by block, in whole ones
            found = [_token_by_token(tensor) for tensor in (query, key, value)]
            products = query.new_empty(query.shape)
            rows = query.new_empty(query.shape[:-1])
            del products
            length, width = (-(-size // _BLOCK) for size in query.shape[-2:])
            work = query.new_empty(*query.shape[:2], length, width, _BLOCK * _BLOCK + _COUNTERS)
            del rows, work
        else:  # it sums up in fp32, with a number for each query, and for each head where several share one
            found = [torch.empty_like(tensor) for tensor in (query, key, value)]
            query.new_empty(query.numel() + query.numel() // query.shape[-1] + _BESIDE, dtype=torch.float32)
            if key.shape[1] != query.shape[1]:
                shared = [tensor.new_empty(*query.shape[:2], *tensor.shape[2:]) for tensor in (key, value)]
                del shared
        return (*found, torch.empty_like(mask) if ctx.needs_input_grad[3] else None)


def _token_by_token(tensor: Any) -> Any:
    """Make what lies as a layer for all heads gives it."""
    return torch.empty_like(tensor.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)


def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Stand for ``torch.nn.functional.scaled_dot_product_attention``."""
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        nothing = torch.zeros((), dtype=query.dtype, device=query.device)
        attn_mask = torch.where(attn_mask, nothing, nothing)
    if not _fuses(query, key, value, attn_mask, causal=is_causal, shared=enable_gqa):
        return _MATH(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]
    if attn_mask is not None:
        odd = -attn_mask.shape[-1] % _HALF
        if odd:
            attn_mask = torch.nn.functional.pad(attn_mask, (0, odd))[..., :-odd]
        attn_mask = attn_mask.expand(*query.shape[:-1], key.shape[-2])
    margin = -query.shape[-1] % _ALIGNED.get(query.dtype, _HALF)
    if not margin:
        return _Fused.apply(query, key, value, attn_mask)
    # The flash kernel, which alone takes these, takes copies with a margin.
    padded = (torch.nn.functional.pad(tensor, (0, margin)) for tensor in (query, key, value))
    return _Fused.apply(*padded, attn_mask)[..., :-margin]


def _fuses(query: Any, key: Any, value: Any, mask: Any, *, causal: bool, shared: bool) -> bool:
    """Tell whether one of the kernels that keep no matrix takes this."""
    given = [query, key, value] if mask is None else [query, key, value, mask]
    if query.dim() != _AXES or any(tensor.stride(-1) != 1 or not tensor.numel() for tensor in given):
        return False
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        return False
    half = query.dtype in _HALVES
    if not half and query.dtype != torch.float32:
        return False
    widths = {tensor.shape[-1] for tensor in (query, key, value)}
    whole = query.shape[1] == key.shape[1] == value.shape[1]
    aligned = all(width % _ALIGNED.get(query.dtype, _HALF) == 0 for width in widths)
    if whole and aligned and query.shape[-1] == key.shape[-1] and torch.backends.cuda.mem_efficient_sdp_enabled():
        return True
    if not half or not (whole or shared) or max(widths) > _WIDEST:
        return False
    if aligned and not (mask is not None and mask.requires_grad) and torch.backends.cuda.cudnn_sdp_enabled():
        return True
    square = not causal or query.shape[-2] == key.shape[-2]
    return mask is None and len(widths) == 1 and square and torch.backends.cuda.flash_sdp_enabled()
