"""What operations give out lies as on a GPU: what an H100 showed where tensors without data say otherwise."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from estimator.methods.rad.convolutions import Workspace
from estimator.rehearsals.as_on_a_gpu import as_on_a_gpu
from estimator.rehearsals.recorder import Recorder
from scripts.check_layouts import OPERATIONS, ORDERS, Order, rehearsed

COME, LAST, SWAPPED = range(3)
# Strides of (4, 8, 16) and (4, 8, 16, 32) whose axes lie as they come; with channels last; and with two swapped.
THREE = (128, 16, 1), (128, 1, 8)
FOUR = (4096, 512, 32, 1), (4096, 1, 256, 8), (4096, 32, 256, 1)


@pytest.mark.parametrize(
    ("name", "axes", "given", "of_gradient", "out", "back"),
    [
        ("batch_norm", 3, COME, LAST, THREE[COME], THREE[COME]),
        ("batch_norm", 4, LAST, COME, FOUR[LAST], FOUR[LAST]),
        ("batch_norm, infers", 4, LAST, LAST, FOUR[LAST], FOUR[COME]),
        ("elu", 4, COME, LAST, FOUR[COME], FOUR[LAST]),
        ("glu", 4, LAST, COME, (2048, 1, 128, 8), FOUR[COME]),
        ("group_norm", 4, LAST, COME, FOUR[COME], FOUR[COME]),
        ("group_norm", 4, COME, LAST, FOUR[COME], FOUR[COME]),
        ("hardswish", 4, COME, LAST, FOUR[COME], FOUR[LAST]),
        ("layer_norm", 3, COME, LAST, THREE[COME], THREE[COME]),
        ("log_softmax", 3, COME, LAST, THREE[COME], THREE[COME]),
        ("mse_loss", 3, LAST, COME, THREE[LAST], THREE[COME]),
        ("pixel_shuffle", 4, LAST, LAST, (4096, 2048, 64, 1), FOUR[COME]),
        ("pixel_unshuffle", 4, LAST, LAST, (4096, 128, 16, 1), FOUR[COME]),
        ("rms_norm", 3, LAST, COME, THREE[COME], THREE[COME]),
        ("rms_norm", 4, LAST, COME, FOUR[LAST], FOUR[COME]),
        ("rms_norm", 4, LAST, LAST, FOUR[LAST], FOUR[LAST]),
        ("scaled_dot_product_attention", 4, COME, COME, FOUR[SWAPPED], FOUR[SWAPPED]),
        ("smooth_l1_loss", 3, LAST, COME, THREE[LAST], THREE[COME]),
        ("softplus", 3, COME, LAST, THREE[COME], THREE[LAST]),
    ],
)
def test_what_comes_out_and_its_gradient_lie_as_on_a_gpu(
    name: str, axes: int, given: int, of_gradient: int, out: Order, back: Order
) -> None:
    assert rehearsed(OPERATIONS[name].run, ORDERS[axes][given], of_gradient, torch.float32) == (out, back)


def test_a_norm_of_what_needs_no_gradient_gives_its_weights_theirs() -> None:
    with FakeTensorMode(), Recorder(lambda *_: Workspace((0.0,), (0.0,), (0.0,))), as_on_a_gpu():
        weight = torch.ones(16, requires_grad=True)
        functional.layer_norm(torch.ones(4, 8, 16), (16,), weight).sum().backward()
        assert weight.grad.shape == weight.shape
