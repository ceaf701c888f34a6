"""What operations give out lies as on a GPU: what an H100 showed where tensors without data say otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from estimator.as_on_a_gpu import as_on_a_gpu
from estimator.methods.rad.convolutions import Workspace
from estimator.recorder import Recorder

NO_WORK = Workspace((0.0,), (0.0,), (0.0,))
Run = Callable[[torch.Tensor], Any]
LAST = (0, 3, 1, 2)
HEADS = (0, 2, 1, 3)
TURNED = (0, 2, 1)


def lying(shape: tuple[int, ...], order: tuple[int, ...]) -> torch.Tensor:
    """Make ones of a shape, whose axes lie in memory as those of a tensor that `permute` gave that order to."""
    return torch.ones([shape[order.index(axis)] for axis in range(len(shape))]).permute(*order)


def strides(run: Run, order: tuple[int, ...], of_gradient: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give strides of what comes out, and of the gradient of what comes in."""
    shape = (4, 8, 16, 32)[: len(order)]
    with FakeTensorMode(), Recorder(lambda *_: NO_WORK), as_on_a_gpu():
        x = lying(shape, order).requires_grad_() * 1.0
        y = run(x)
        gradient = torch.autograd.grad(y, x, lying(tuple(y.shape), of_gradient))[0]
        return y.stride(), gradient.stride()


def norm(x: torch.Tensor, *, training: bool = True) -> torch.Tensor:
    state = [torch.ones(x.shape[1]) for _ in range(4)]
    return functional.batch_norm(x, state[0], state[1], state[2], state[3], training)


@pytest.mark.parametrize(
    ("run", "order", "of_gradient", "out", "back"),
    [
        (norm, (0, 1, 2), TURNED, (128, 16, 1), (128, 16, 1)),
        (norm, LAST, (0, 1, 2, 3), (4096, 1, 256, 8), (4096, 1, 256, 8)),
        (lambda x: norm(x, training=False), LAST, LAST, (4096, 1, 256, 8), (4096, 512, 32, 1)),
        (lambda x: functional.layer_norm(x, (16,)), (0, 1, 2), TURNED, (128, 16, 1), (128, 16, 1)),
        (lambda x: functional.rms_norm(x, (16,), torch.ones(16)), TURNED, (0, 1, 2), (128, 16, 1), (128, 16, 1)),
        (
            lambda x: functional.rms_norm(x, (32,), torch.ones(32)),
            LAST,
            (0, 1, 2, 3),
            (4096, 1, 256, 8),
            (4096, 512, 32, 1),
        ),
        (lambda x: functional.log_softmax(x, -1), (0, 1, 2), TURNED, (128, 16, 1), (128, 16, 1)),
        (functional.elu, (0, 1, 2, 3), LAST, (4096, 512, 32, 1), (4096, 1, 256, 8)),
        (functional.hardswish, (0, 1, 2, 3), LAST, (4096, 512, 32, 1), (4096, 1, 256, 8)),
        (functional.softplus, (0, 1, 2), TURNED, (128, 16, 1), (128, 1, 8)),
        (functional.glu, LAST, (0, 1, 2, 3), (2048, 1, 128, 8), (4096, 512, 32, 1)),
        (lambda x: functional.pixel_shuffle(x, 2), LAST, LAST, (4096, 2048, 64, 1), (4096, 512, 32, 1)),
        (lambda x: functional.pixel_unshuffle(x, 2), LAST, LAST, (4096, 128, 16, 1), (4096, 512, 32, 1)),
        (
            lambda x: functional.mse_loss(x, torch.zeros(x.shape), reduction="none"),
            TURNED,
            (0, 1, 2),
            (128, 1, 8),
            (128, 16, 1),
        ),
        (
            lambda x: functional.scaled_dot_product_attention(x, x, x),
            (0, 1, 2, 3),
            (0, 1, 2, 3),
            (4096, 32, 256, 1),
            (4096, 32, 256, 1),
        ),
        (
            lambda x: functional.scaled_dot_product_attention(x, x, x),
            HEADS,
            HEADS,
            (4096, 32, 256, 1),
            (4096, 32, 256, 1),
        ),
    ],
)
def test_what_comes_out_and_its_gradient_lie_as_on_a_gpu(
    run: Run, order: tuple[int, ...], of_gradient: tuple[int, ...], out: tuple[int, ...], back: tuple[int, ...]
) -> None:
    assert strides(run, order, of_gradient) == (out, back)
