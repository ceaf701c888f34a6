"""PyTorch's fused attention and encoder layer, which `torch.nn.TransformerEncoder` takes in inference. Needs torch.

Each is one operation; here it is done in the steps of ``native/transformers/cuda/attention.cu`` and
``native/transformers/transformer.cpp`` of PyTorch 2.11, so that what they take comes and goes as on a GPU.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.nn import functional

_WHOLE: Final = 8


def self_attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Any, Any]:
    """Stand for ``torch._native_multi_head_attention`` of a series with itself."""
    batch, length, _ = query.shape
    width = embed_dim // num_heads
    if mask is None and not need_weights and width % _WHOLE == 0:
        parts = functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
        heads = [part.view(batch, length, num_heads, width).transpose(1, 2) for part in parts]
        out = functional.scaled_dot_product_attention(*heads)
        return functional.linear(out.transpose(1, 2).reshape(batch, length, embed_dim), proj_weight, proj_bias), None
    product = torch.mm(query.reshape(-1, embed_dim), qkv_weight.t())
    heads = list(product.new_empty(3, batch, num_heads, length, width).unbind())
    del product
    flat = [head.view(batch * num_heads, length, width) for head in heads]
    scores = torch.bmm(flat[0], flat[1].transpose(1, 2)).view(batch, num_heads, length, length)
    if mask is not None:
        scores = torch.empty_like(scores)
    if not need_weights:
        del scores
    # What comes of the values is put where the queries were.
    out = heads[0].transpose(1, 2).contiguous().view(-1, embed_dim)
    out = torch.addmm(proj_bias, out, proj_weight.t()).view(batch, length, embed_dim)
    if not need_weights:
        return out, None
    return out, scores.sum(1) if average_attn_weights else scores


def encoder_layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """Stand for ``torch._transformer_encoder_layer_fwd``; its activation is worked out in place."""

    def normed(x: Any, weight: Any, bias: Any) -> Any:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    x = normed(src, norm_weight_1, norm_bias_1) if norm_first else src
    projections = qkv_weight, qkv_bias, proj_weight, proj_bias
    x = self_attention(x, x, x, embed_dim, num_heads, *projections, mask, need_weights=False)[0]
    x.add_(src)
    if not norm_first:
        x = normed(x, norm_weight_1, norm_bias_1)
    before = x
    if norm_first:
        x = normed(x, norm_weight_2, norm_bias_2)
    hidden = torch.addmm(ffn_bias_1, x.view(-1, embed_dim), ffn_weight_1.t())
    x = torch.addmm(ffn_bias_2, hidden, ffn_weight_2.t()).view(src.shape)
    del hidden
    x.add_(before)
    return x if norm_first else normed(x, norm_weight_2, norm_bias_2)
