"""Compares how what operations give out lies on a GPU with how it lies in rehearsals. Needs torch and a CUDA GPU.

Each operation takes tensors whose axes lie in memory in several orders, in fp32, bf16 and fp16, and so does its
gradient. What lies otherwise is printed: strides of what came out, and of the gradient of what came in.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Final, NamedTuple

import torch
from torch.nn import functional

from estimator.faketensor import fake_mode
from estimator.methods.rad.convolutions import Workspace
from estimator.rehearsals.as_on_a_gpu import as_on_a_gpu
from estimator.rehearsals.recorder import Recorder

Order = tuple[int, ...]
Strides = tuple[tuple[int, ...], tuple[int, ...]]
_NO_WORK: Final = Workspace((0.0,), (0.0,), (0.0,))
_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
_SHAPES: Final[Mapping[int, tuple[int, ...]]] = {3: (4, 8, 16), 4: (4, 8, 16, 32), 5: (2, 8, 4, 16, 32)}
# As they come, with channels last, and with two axes in each other's place.
ORDERS: Final[Mapping[int, tuple[Order, ...]]] = {
    3: ((0, 1, 2), (0, 2, 1), (1, 0, 2)),
    4: ((0, 1, 2, 3), (0, 3, 1, 2), (0, 2, 1, 3)),
    5: ((0, 1, 2, 3, 4), (0, 4, 1, 2, 3)),
}


class Operation(NamedTuple):
    """What is compared.

    Attributes:
        run: the operation, of one tensor.
        axes: how many that may have.
    """

    run: Callable[[Any], Any]
    axes: tuple[int, ...] = (3,)


def _channels(x: Any) -> tuple[Any, Any, Any, Any]:
    ones = x.new_ones(x.shape[1])
    return ones.clone(), ones.clone(), ones.clone(), ones


def _weights(x: Any, *kernel: int, groups: int = 1, out: int = 6) -> Any:
    return x.new_ones(out, x.shape[1] // groups, *kernel)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "adaptive_avg_pool2d": Operation(lambda x: functional.adaptive_avg_pool2d(x, 2), (4,)),
    "adaptive_max_pool2d": Operation(lambda x: functional.adaptive_max_pool2d(x, 2), (4,)),
    "amax": Operation(lambda x: x.amax(1), (3, 4)),
    "avg_pool1d": Operation(lambda x: functional.avg_pool1d(x, 2)),
    "avg_pool2d": Operation(lambda x: functional.avg_pool2d(x, 2), (4,)),
    "avg_pool3d": Operation(lambda x: functional.avg_pool3d(x, 2), (5,)),
    "batch_norm": Operation(lambda x: functional.batch_norm(x, *_channels(x), training=True), (3, 4, 5)),
    "batch_norm, infers": Operation(lambda x: functional.batch_norm(x, *_channels(x)), (3, 4, 5)),
    "broadcast": Operation(lambda x: x * x.new_ones(1, x.shape[1], *[1] * (x.dim() - 2)), (3, 4)),
    "cat": Operation(lambda x: torch.cat([x, x], 1), (3, 4)),
    "clone": Operation(torch.clone, (3, 4)),
    "conv1d": Operation(lambda x: functional.conv1d(x, _weights(x, 3))),
    "conv2d": Operation(lambda x: functional.conv2d(x, _weights(x, 3, 3)), (4,)),
    "conv2d of groups": Operation(
        lambda x: functional.conv2d(x, _weights(x, 3, 3, groups=x.shape[1], out=x.shape[1]), groups=x.shape[1]), (4,)
    ),
    "conv3d": Operation(lambda x: functional.conv3d(x, _weights(x, 3, 3, 3)), (5,)),
    "conv_transpose2d": Operation(
        lambda x: functional.conv_transpose2d(x, x.new_ones(x.shape[1], 6, 2, 2), stride=2), (4,)
    ),
    "cumsum": Operation(lambda x: x.cumsum(1)),
    "dropout": Operation(lambda x: functional.dropout(x, 0.2), (3, 4)),
    "elu": Operation(functional.elu, (3, 4)),
    "gather": Operation(lambda x: x.gather(1, torch.zeros(x.shape, dtype=torch.long, device=x.device))),
    "gelu": Operation(functional.gelu, (3, 4)),
    "glu": Operation(functional.glu, (3, 4)),
    "grid_sample": Operation(
        lambda x: functional.grid_sample(x, x.new_zeros(len(x), 4, 4, 2), align_corners=False), (4,)
    ),
    "group_norm": Operation(lambda x: functional.group_norm(x, 2, *_channels(x)[:2]), (3, 4, 5)),
    "hardswish": Operation(functional.hardswish, (3, 4)),
    "index": Operation(lambda x: x[:, torch.zeros(3, dtype=torch.long, device=x.device)]),
    "instance_norm": Operation(functional.instance_norm, (3, 4, 5)),
    "interpolate, bicubic": Operation(lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"), (4,)),
    "interpolate, bilinear": Operation(lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), (4,)),
    "interpolate, nearest": Operation(lambda x: functional.interpolate(x, scale_factor=2), (3, 4, 5)),
    "interpolate, trilinear": Operation(lambda x: functional.interpolate(x, scale_factor=2, mode="trilinear"), (5,)),
    "layer_norm": Operation(lambda x: functional.layer_norm(x, x.shape[-1:], x.new_ones(x.shape[-1])), (3, 4)),
    "leaky_relu": Operation(functional.leaky_relu, (3, 4)),
    "linear": Operation(lambda x: functional.linear(x, x.new_ones(6, x.shape[-1]), x.new_ones(6)), (3, 4)),
    "log_softmax": Operation(lambda x: functional.log_softmax(x, -1), (3, 4)),
    "matmul": Operation(lambda x: x @ x.new_ones(x.shape[-1], 6), (3, 4)),
    "max_pool1d": Operation(lambda x: functional.max_pool1d(x, 2)),
    "max_pool2d": Operation(lambda x: functional.max_pool2d(x, 2), (4,)),
    "max_pool3d": Operation(lambda x: functional.max_pool3d(x, 2), (5,)),
    "mish": Operation(functional.mish, (3, 4)),
    "mse_loss": Operation(lambda x: functional.mse_loss(x, x.new_zeros(x.shape), reduction="none")),
    "normalize": Operation(lambda x: functional.normalize(x, dim=-1), (3, 4)),
    "pad": Operation(lambda x: functional.pad(x, (1, 1)), (3, 4)),
    "pad, reflected": Operation(lambda x: functional.pad(x, (1, 1) * (x.dim() - 2), mode="reflect"), (3, 4)),
    "pixel_shuffle": Operation(lambda x: functional.pixel_shuffle(x, 2), (4,)),
    "pixel_unshuffle": Operation(lambda x: functional.pixel_unshuffle(x, 2), (4,)),
    "prelu": Operation(lambda x: functional.prelu(x, x.new_ones(x.shape[1])), (4,)),
    "relu": Operation(functional.relu, (3, 4)),
    "rms_norm": Operation(lambda x: functional.rms_norm(x, x.shape[-1:], x.new_ones(x.shape[-1])), (3, 4)),
    "roll": Operation(lambda x: torch.roll(x, (1, 1), (1, 2)), (4,)),
    "scaled_dot_product_attention": Operation(lambda x: functional.scaled_dot_product_attention(x, x, x), (4,)),
    "sigmoid": Operation(torch.sigmoid, (3, 4)),
    "silu": Operation(functional.silu, (3, 4)),
    "smooth_l1_loss": Operation(lambda x: functional.smooth_l1_loss(x, x.new_zeros(x.shape), reduction="none")),
    "softmax": Operation(lambda x: functional.softmax(x, -1), (3, 4)),
    "softplus": Operation(functional.softplus, (3, 4)),
    "sum": Operation(lambda x: x.sum(1), (3, 4)),
    "tanh": Operation(torch.tanh, (3, 4)),
    "unfold": Operation(lambda x: functional.unfold(x, 3), (4,)),
    "where": Operation(lambda x: torch.where(x > 0, x, x * 2)),
}


def lying(shape: tuple[int, ...], order: Order, kind: torch.dtype, device: str) -> Any:
    """Make ones of a shape, whose axes lie in memory as those of a tensor that ``permute`` gave that order to."""
    sizes = [shape[order.index(axis)] for axis in range(len(shape))]
    return torch.ones(sizes, dtype=kind, device=device).permute(*order)


def strides(run: Callable[[Any], Any], order: Order, at: int, kind: torch.dtype, device: str) -> Strides:
    """Give strides of what comes out, and of the gradient of what comes in.

    Args:
        run: the operation.
        order: how axes of what it takes lie.
        at: which of the orders of its axes the gradient of what comes out has.
        kind: type of the numbers.
        device: where they lie.
    """
    x = lying(_SHAPES[len(order)], order, kind, device).requires_grad_() * 1
    y = run(x)
    orders = ORDERS.get(y.dim())
    gradient = lying(y.shape, orders[min(at, len(orders) - 1)], kind, device) if orders else torch.ones_like(y)
    return y.stride(), torch.autograd.grad(y, x, gradient)[0].stride()


def rehearsed(run: Callable[[Any], Any], order: Order, at: int, kind: torch.dtype) -> Strides:
    """Give the same in a rehearsal."""
    with fake_mode(), Recorder(lambda *_: _NO_WORK), as_on_a_gpu():
        return strides(run, order, at, kind, "cpu")


def compared() -> Iterator[tuple[str, Strides, Strides]]:
    """Give each case: what it is, strides on the GPU, and in a rehearsal."""
    for (name, operation), kind in product(OPERATIONS.items(), _TYPES):
        for axes in operation.axes:
            for order, at in product(ORDERS[axes], range(len(ORDERS[axes]))):
                shown = strides(operation.run, order, at, kind, "cuda")
                yield f"{name} {kind} {order} gradient {at}", shown, rehearsed(operation.run, order, at, kind)


def main() -> None:
    """Run the command."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    count = otherwise = 0
    for case, shown, said in compared():
        count += 1
        if shown != said:
            otherwise += 1
            print(f"{case}: {shown}, in rehearsals {said}", flush=True)
    print(f"{otherwise} of {count} cases of {len(OPERATIONS)} operations lie otherwise, torch {torch.__version__}")


if __name__ == "__main__":
    main()
