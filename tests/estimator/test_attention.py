"""Attention on tensors without data goes to the kernel that a GPU would take."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from estimator.rehearsals.as_on_a_gpu import as_on_a_gpu

HALF, WHOLE = torch.bfloat16, torch.float32
MASK = torch.zeros(1, 1, 16, 16)


def heads(count: int, width: int = 32, length: int = 16, dtype: torch.dtype = WHOLE) -> torch.Tensor:
    return torch.zeros(2, length, count, width, dtype=dtype, requires_grad=True).transpose(1, 2)


def kernel(query: Any, key: Any, value: Any, **more: Any) -> str:
    with FakeTensorMode(allow_non_fake_inputs=True), as_on_a_gpu():
        out = functional.scaled_dot_product_attention(query, key, value, **more)
    node = out.grad_fn
    if node.name() == "SliceBackward0":  # a margin is cut off
        node = node.next_functions[0][0]
    return "fused" if node.name() == "_FusedBackward" else "products"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "fused"),
        ({"is_causal": True, "dropout_p": 0.1}, "fused"),
        ({"attn_mask": MASK}, "fused"),
        ({"attn_mask": MASK.bool()}, "fused"),
        ({"attn_mask": MASK.clone().requires_grad_()}, "fused"),
        # as relative positions are, that come from an embedding: the last axis is not the one that lies together
        ({"attn_mask": torch.zeros(16, 16, 2).permute(2, 0, 1)[None]}, "products"),
    ],
    ids=["plain", "causal", "mask", "which", "learned", "positions"],
)
def test_masks_decide(more: dict[str, Any], said: str) -> None:
    x = heads(2)
    assert kernel(x, x, x, **more) == said


def test_heads_and_widths_decide() -> None:
    assert kernel(heads(2, 30), heads(2, 30), heads(2, 30)) == "products"  # no four numbers at once
    assert kernel(heads(2, 30, dtype=HALF), heads(2, 30, dtype=HALF), heads(2, 30, dtype=HALF)) == "fused"
    assert kernel(heads(2, 64), heads(2, 64), heads(2, 32)) == "fused"
    assert kernel(heads(2, 64), heads(2, 32).repeat(1, 1, 1, 2), heads(2, 30)) == "products"
    for dtype, said in ((WHOLE, "products"), (HALF, "fused")):
        few, many = heads(2, dtype=dtype), heads(4, dtype=dtype)
        assert kernel(many, few, few, enable_gqa=True) == said
    few, many = heads(2, 30, dtype=HALF), heads(4, 30, length=8, dtype=HALF)  # a width that flash attention alone takes
    assert kernel(many, few, few, enable_gqa=True) == "fused"
    assert kernel(many, few, few, enable_gqa=True, is_causal=True) == "products"
    few, many = heads(2, dtype=HALF), heads(4, dtype=HALF)
    mask = MASK.to(HALF)
    assert kernel(many, few, few, attn_mask=mask, enable_gqa=True) == "fused"  # cuDNN's
    assert kernel(many, few, few, attn_mask=mask.clone().requires_grad_(), enable_gqa=True) == "products"
    wide = heads(2, 512, dtype=HALF)
    assert kernel(wide, wide, wide) == "fused"  # the memory-efficient kernel
    assert kernel(heads(4, 512, dtype=HALF), wide, wide, enable_gqa=True) == "products"
    double = heads(2, dtype=torch.float64)
    assert kernel(double, double, double) == "products"
    flat = torch.zeros(2, 16, 32, requires_grad=True)
    assert kernel(flat, flat, flat) == "products"
    turned = heads(2, 16).transpose(2, 3)
    assert kernel(turned, turned, turned) == "products"
    one = heads(2)[:1].expand(2, -1, -1, -1)
    assert kernel(heads(2), one, one) == "fused"
    assert kernel(heads(2), heads(2)[:1], heads(2)[:1]) == "products"


def test_a_kernel_that_the_code_switched_off_is_not_taken() -> None:
    for dtype in (WHOLE, HALF):
        x = heads(2, dtype=dtype)
        with sdpa_kernel(SDPBackend.MATH):
            assert kernel(x, x, x) == "products"
        assert kernel(x, x, x) == "fused"
    few, many = heads(2, dtype=HALF), heads(4, dtype=HALF)
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel([backend, SDPBackend.MATH]):
            assert kernel(many, few, few, enable_gqa=True) == "fused"
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        assert kernel(many, few, few, enable_gqa=True) == "products"


def test_what_comes_out_and_back_lies_as_a_gpus() -> None:
    with FakeTensorMode(), as_on_a_gpu():
        query, key = heads(4, 48), heads(4, 48, length=24)
        bias = torch.zeros(4, 16, 24, requires_grad=True)
        came: list[torch.Tensor] = []
        query.register_hook(came.append)
        out = functional.scaled_dot_product_attention(query, key, key[..., :32], bias)
        assert out.shape == (2, 4, 16, 32)
        assert out.transpose(1, 2).is_contiguous()  # so that heads are put together without a copy
        out.sum().backward()
    assert bias.grad is not None
    assert bias.grad.shape == bias.shape
    assert [(gradient.shape, gradient.stride()) for gradient in came] == [(query.shape, query.stride())]


@pytest.mark.parametrize(("dtype", "like"), [(WHOLE, False), (HALF, True)])
def test_cudnn_lays_out_what_comes_as_the_queries(dtype: torch.dtype, like: bool) -> None:
    """On an H100, behind `torch.nn.MultiheadAttention`, whose series come first: half precision is not copied then."""
    with FakeTensorMode(), as_on_a_gpu():
        query = torch.zeros(16, 2 * 4, 32, dtype=dtype).transpose(0, 1).view(2, 4, 16, 32)
        out = functional.scaled_dot_product_attention(query, query, query)
    assert out.permute(2, 0, 1, 3).is_contiguous() == like


def test_a_mask_of_an_odd_width_is_copied_with_a_margin() -> None:
    with FakeTensorMode(), as_on_a_gpu():
        x = heads(2, length=19)
        mask = torch.zeros(1, 1, 19, 19)
        out = functional.scaled_dot_product_attention(x, x, x, mask)
        (kept,) = {tensor.stride() for tensor in out.grad_fn.saved_tensors if tensor.shape[-2:] == (19, 19)}
    assert kept[-2:] == (24, 1)


def test_a_mask_of_yes_and_no_is_kept_as_numbers() -> None:
    with FakeTensorMode(), as_on_a_gpu():
        x = heads(2, dtype=HALF)
        out = functional.scaled_dot_product_attention(x, x, x, torch.ones(1, 1, 16, 16, dtype=torch.bool))
        kinds = {tensor.dtype for tensor in out.grad_fn.saved_tensors if tensor.shape[-2:] == (16, 16)}
    assert kinds == {HALF}


def test_kernels_sum_up_on_the_way_back() -> None:
    made: list[tuple[torch.dtype, tuple[int, ...]]] = []

    class Watches(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if func is torch.ops.aten.new_empty.default:
                made.append((out.dtype, tuple(out.shape)))
            return out

    def back(query: torch.Tensor, key: torch.Tensor) -> list[tuple[torch.dtype, tuple[int, ...]]]:
        out = functional.scaled_dot_product_attention(query, key, key, enable_gqa=True)
        made.clear()
        with Watches():
            out.sum().backward()
        return list(made)

    with FakeTensorMode(), as_on_a_gpu():
        # Products, a number for each query, and the sums of blocks of 64 by 64, each with four counters.
        block = 64 * 64 + 4
        assert back(heads(2), heads(2)) == [
            (WHOLE, (2, 2, 16, 32)),
            (WHOLE, (2, 2, 16)),
            (WHOLE, (2, 2, 1, 1, block)),
        ]
        assert back(heads(2, 72, length=129), heads(2, 72, length=20))[-1] == (WHOLE, (2, 2, 3, 2, block))
        beside = 64
        halves = back(heads(2, dtype=HALF), heads(2, dtype=HALF))
        assert halves == [(WHOLE, (2 * 2 * 16 * 33 + beside,))]  # and a number each
        shared = back(heads(4, dtype=HALF), heads(2, dtype=HALF))
        assert shared == [(WHOLE, (2 * 4 * 16 * 33 + beside,)), (HALF, (2, 4, 16, 32)), (HALF, (2, 4, 16, 32))]


def test_products_drop_out_as_dropout_does() -> None:
    with FakeTensorMode(), as_on_a_gpu():
        x = torch.zeros(2, 16, 32, requires_grad=True)
        out = functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
        todo, names = [out.grad_fn], set()
        while todo:
            node = todo.pop()
            if node is not None:
                names.add(node.name())
                todo += [one for one, _ in node.next_functions]
    assert "NativeDropoutBackward0" in names


def test_flash_attention_takes_copies_with_a_margin() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True), as_on_a_gpu():
        x = heads(2, 30, dtype=HALF)
        out = functional.scaled_dot_product_attention(x, x, x)
    assert out.shape == x.shape
    assert out.untyped_storage().nbytes() == 2 * 2 * 16 * 32 * 2
    assert [saved.shape[-1] for saved in out.grad_fn.next_functions[0][0].saved_tensors[:3]] == [32, 32, 32]
