"""Autocast on the CPU's tensors, which hold no data here, does what CUDA's does."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from estimator.rehearsals import autocast
from estimator.rehearsals.as_on_a_gpu import as_on_a_gpu
from estimator.rehearsals.autocast import autocasting

HALF, WHOLE = torch.float16, torch.float32


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (lambda x: functional.linear(x, x), HALF),
        (lambda x: torch.einsum("ij,kj->ik", x, x), HALF),
        (lambda x: functional.conv1d(x[None], x[..., None]), HALF),
        (lambda x: functional.layer_norm(x.half(), (4,)), WHOLE),
        (lambda x: functional.group_norm(x.half()[None], 2), WHOLE),
        (lambda x: functional.softmax(x.half(), -1), WHOLE),
        (lambda x: functional.softmax(x.bfloat16(), -1), WHOLE),
        (lambda x: functional.log_softmax(x.half(), -1), WHOLE),
        (lambda x: functional.log_softmax(x.bfloat16(), -1), WHOLE),
        (lambda x: torch.exp(x.half()), WHOLE),
        (lambda x: x.half().pow(2), WHOLE),
        (lambda x: x.half().sum(-1), WHOLE),
        (lambda x: x.half().sum(-1, dtype=HALF), HALF),
        (lambda x: torch.cumsum(x.half(), 0), WHOLE),
        (lambda x: torch.tensordot(x.half(), x, 1), WHOLE),
        (lambda x: functional.relu(x.half()), HALF),
        (lambda x: x.half() + x.half(), HALF),
        (lambda x: torch.stack([x.half(), x.half()]), HALF),
        (lambda x: functional.pad(x.half()[None], (1, 1), mode="reflect"), HALF),
        (lambda x: functional.mse_loss(x.half(), x.half()), WHOLE),
        (lambda x: functional.cross_entropy(x.half(), torch.zeros(4, dtype=torch.long)), WHOLE),
    ],
)
def test_operations_work_in_the_precision_of_cuda(
    run: Callable[[torch.Tensor], torch.Tensor], kind: torch.dtype
) -> None:
    with FakeTensorMode(), as_on_a_gpu(), autocasting():
        assert run(torch.ones(4, 4)).dtype == kind


def test_gradients_come_in_the_precision_of_the_weights_and_the_copy_is_made_once() -> None:
    with FakeTensorMode(), as_on_a_gpu():
        weight = torch.ones(4, 4, requires_grad=True)
        with autocasting():
            first, second = (functional.linear(torch.ones(4, 4), weight) for _ in range(2))
            loss = functional.softmax(first + second, -1).sum()
        loss.backward()
    cast, again = (found.grad_fn.next_functions[-1][0].next_functions[0][0] for found in (first, second))
    assert cast is again
    assert weight.grad is not None
    assert weight.grad.dtype == WHOLE


def test_a_softmax_reads_half_precision_without_a_copy_of_its_input() -> None:
    with FakeTensorMode(), as_on_a_gpu(), autocasting():
        x = torch.ones(4, 4, dtype=HALF, requires_grad=True)
        y = functional.softmax(x, -1)
    assert y.grad_fn.name() == "SoftmaxBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"


def test_the_cpus_own_autocast_is_as_before() -> None:
    def kinds() -> list[torch.dtype]:
        x = torch.ones(2, 4, 4, dtype=torch.bfloat16)
        with torch.autocast("cpu", torch.bfloat16):
            return [
                functional.layer_norm(x, (4,)).dtype,
                x.sum().dtype,
                functional.pad(x, (1, 1), mode="reflect").dtype,
            ]

    before = kinds()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none of them is the user's business
        with as_on_a_gpu(), autocasting():
            pass
    assert kinds() == before


def test_a_weight_is_cast_once_where_only_cudas_autocast_casts_it() -> None:
    with FakeTensorMode(), as_on_a_gpu():
        x, weight = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
        with autocasting():
            first, second = (torch.einsum("ij,kj->ik", x, weight) for _ in range(2))
            made = weight * 1.0
            fourth, fifth = (torch.einsum("ij,kj->ik", x, made) for _ in range(2))
        with autocasting():
            third = torch.einsum("ij,kj->ik", x, weight)

    def casts(found: torch.Tensor) -> set[object]:
        todo, seen = [found.grad_fn], set()
        while todo:
            node = todo.pop()
            if node is None:
                continue
            if node.name() == "ToCopyBackward0":
                seen.add(node)
            todo += [one for one, _ in node.next_functions]
        return seen

    assert len(casts(first)) == 1
    assert casts(first) == casts(second) != casts(third)
    assert casts(fourth) != casts(fifth)  # what is no parameter is cast anew


def test_a_checkpoint_leaves_no_cast_behind() -> None:
    with FakeTensorMode(), as_on_a_gpu():
        x, weight = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
        with autocasting():
            out = checkpoint(lambda z: torch.einsum("bi,oi->bo", z, weight), x, use_reentrant=False)
        out.sum().backward()
    assert weight.grad is not None
    assert autocast._CASTS == []


@pytest.mark.parametrize("off", [torch.autocast, lambda _, enabled: torch.cuda.amp.autocast(enabled=enabled)])
def test_what_code_says_of_a_gpus_autocast_is_done_here(off: Callable[..., Any]) -> None:
    usual = torch.autocast.__init__
    with FakeTensorMode(), as_on_a_gpu():
        x = torch.ones(4, 4)
        with autocasting():
            with off("cuda", enabled=False):
                whole = functional.linear(x, x).dtype, torch.einsum("ij,kj->ik", x, x).dtype
            half = functional.linear(x, x).dtype
        with torch.autocast("cuda"):
            own = functional.linear(x, x).dtype, torch.einsum("ij,kj->ik", x, x).dtype
        with torch.autocast("cuda", torch.bfloat16):
            other = functional.linear(x, x).dtype, torch.einsum("ij,kj->ik", x, x).dtype
        after = functional.linear(x, x).dtype
    assert (whole, half, after) == ((WHOLE, WHOLE), HALF, WHOLE)
    assert (own, other) == ((HALF, HALF), (torch.bfloat16, torch.bfloat16))
    assert torch.autocast.__init__ is usual


def test_autocast_is_on_for_what_asks_for_a_gpus() -> None:
    with as_on_a_gpu():
        with autocasting():
            assert torch.is_autocast_enabled()
            assert torch.get_autocast_dtype("cuda") == HALF
        assert not torch.is_autocast_enabled()
