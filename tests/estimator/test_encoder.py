"""PyTorch's fused attention and encoder layer take what the profiler shows on an H100, one piece after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from estimator.faketensor import cast
from estimator.methods.rad.convolutions import Workspace
from estimator.rehearsals.as_on_a_gpu import as_on_a_gpu
from estimator.rehearsals.recorder import GONE, Recorder

MIB = 2**20
CUBLAS = 32.0
LEAST = 0.3


def taken(make: Callable[[], nn.Module], shape: tuple[int, ...], dtype: Any = torch.float32, **how: Any) -> list[float]:
    """Sizes in MiB as they come, and negative as they go, the largest first of those that go between two others.

    Small ones and cuBLAS' own are left out.
    """
    fake = FakeTensorMode()
    with fake:
        module, x = make(), torch.zeros(shape, dtype=dtype)
        cast(module, dtype)
        given = {name: torch.zeros(size, dtype=torch.bool) for name, size in how.items()}
    with fake, Recorder(lambda *_: Workspace((0.0,), (0.0,), (0.0,))) as recorder:
        for tensor in (*module.parameters(), x, *given.values()):
            recorder.watch(tensor)
        recorder.begin()
        with as_on_a_gpu(), torch.no_grad():
            kept = module(x, **given)
        part = list(recorder.part)
        del kept
    sizes = {number: size / MIB for number, size in part if size != GONE}
    said = [-sizes[number] if size == GONE else sizes[number] for number, size in part]
    return in_order([round(size, 2) for size in said if abs(size) >= LEAST and size != CUBLAS])


def in_order(sizes: Iterable[float]) -> list[float]:
    return [size for goes, some in groupby(sizes, lambda size: size < 0) for size in (sorted(some) if goes else some)]


class Itself(nn.Module):
    """Looks at its own series."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.attention, self.weights = nn.MultiheadAttention(256, 8, batch_first=True), weights

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=self.weights)[0]


def layer(width: int, heads: int, **how: Any) -> nn.Module:
    return nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, **how).eval()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(
    ("norm_first", "steps"),
    [
        (True, [24, 72, 24, 24, -24, -72, -24, 24, 96, 24, -96, -24, -24]),
        (False, [72, 24, 24, -24, -72, 24, -24, 96, 24, -96, 24, -24, -24]),
    ],
)
def test_a_layer_with_fused_attention(activation: str, norm_first: bool, steps: list[float]) -> None:
    def make() -> nn.Module:
        return layer(768, 8, activation=activation, norm_first=norm_first)

    assert taken(make, (32, 256, 768)) == in_order(steps)
    assert taken(make, (32, 256, 768), torch.bfloat16) == in_order(size / 2 for size in steps)


def test_heads_of_odd_widths_have_their_matrix() -> None:
    steps = [0.94, 2.81, 2.81, -2.81, 4.0, -4.0, 0.94, 0.94, -0.94, -2.81, -0.94, 0.94, 3.75, 0.94, -3.75, -0.94, -0.94]
    assert taken(lambda: layer(120, 4, norm_first=True), (16, 128, 120)) == in_order(steps)


def test_a_mask_gives_a_second_matrix() -> None:
    attends = [4.69, 4.69, -4.69, 4.88, 4.88, -4.88, -4.88, 1.56, 1.56, -1.56, -4.69]
    steps = [*attends, 1.56, -1.56, 6.25, 1.56, -6.25, 1.56, -1.56, -1.56]
    assert taken(lambda: layer(256, 8), (16, 100, 256), src_key_padding_mask=(16, 100)) == in_order(steps)


@pytest.mark.parametrize(
    ("weights", "steps"),
    [
        (True, [4.69, 4.69, -4.69, 4.88, 1.56, 1.56, -1.56, 0.61, -4.88, -4.69, -0.61]),
        (False, [4.69, 1.56, 1.56, -1.56, -4.69]),
    ],
)
def test_attention_alone(weights: bool, steps: list[float]) -> None:
    assert taken(lambda: Itself(weights).eval(), (16, 100, 256)) == in_order(steps)


def test_what_they_give_out_has_the_shape_of_pytorchs() -> None:
    attention, x = nn.MultiheadAttention(64, 4, batch_first=True).eval(), torch.zeros(2, 10, 64)
    with FakeTensorMode(allow_non_fake_inputs=True), as_on_a_gpu(), torch.no_grad():
        for average, shape in ((True, (2, 10, 10)), (False, (2, 4, 10, 10))):
            out, weights = attention(x, x, x, average_attn_weights=average)
            assert (out.shape, weights.shape) == (x.shape, shape)
        assert attention(x, x, x, need_weights=False)[1] is None
        assert layer(64, 4)(x).shape == x.shape
