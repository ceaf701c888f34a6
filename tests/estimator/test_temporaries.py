"""What operations work with beside what they give out: as measured on an H100, or by the same rule at other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from estimator.temporaries import temporary

MIB = 2**20


class Temporaries(TorchDispatchMode):  # type: ignore[misc] # torch is not followed by mypy
    """Notes the most that any operation takes and gives back."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.most = max(self.most, temporary(func, args, out))
        return out


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype, requires_grad=dtype.is_floating_point)


def embedded(shape: tuple[int, ...], words: int, width: int, *, turned: bool = False) -> torch.Tensor:
    found = functional.embedding(ones(*shape, dtype=torch.long), ones(words, width))
    return (found.transpose(0, 1) * ones(shape[1], shape[0], width)).sum() if turned else found


def attends(width: int, heads: int) -> torch.nn.Module:
    return torch.nn.MultiheadAttention(width, heads, batch_first=True).eval().requires_grad_(False)


def encoder(width: int, hidden: int) -> torch.nn.Module:
    return torch.nn.TransformerEncoderLayer(width, 8, hidden, batch_first=True).eval().requires_grad_(False)


@pytest.mark.parametrize(
    ("run", "mib"),
    [
        (lambda: torch.sum(functional.linear(ones(32768, 8), ones(256, 8), ones(256)) * ones(32768, 256)), 64.0),
        (lambda: ones(16, 64, 64, 192).mean((1, 2)), 96.0),
        (lambda: torch.linalg.vector_norm(ones(32768, 256), dim=0), 64.0),
        (lambda: functional.layer_norm(ones(8, 64, 4096).transpose(1, 2), (64,)).sum(), 16.0),
        (lambda: functional.layer_norm(ones(8, 4096, 64), (64,)), 0.0),
        (lambda: functional.softmax(ones(8, 64, 4096).transpose(1, 2), -1), 8.0),
        (lambda: torch.ops.aten._safe_softmax(ones(16, 16, 256, 256), -1), 16.0),
        (lambda: functional.max_pool2d(ones(32, 64, 64, 64), 2), 0.0),
        (lambda: functional.max_pool2d(ones(32, 64, 64, 64).to(memory_format=torch.channels_last), 2), 0.0),
        (lambda: functional.max_pool2d(ones(32, 64, 64, 64).transpose(2, 3), 2), 32.0),
        (lambda: torch.sum(ones(32768, 256, dtype=torch.float64), 0), 128.0),
        (lambda: torch.fft.rfft2(ones(4, 64, 128, 128)), 16.25),
        (lambda: embedded((64, 256), 50000, 300).expand(64, 256, 300).mul(ones(64, 256, 300)).sum(), 21.0),
        (lambda: embedded((960, 40), 50000, 200, turned=True), 62.4),
        (lambda: embedded((4, 64), 50000, 300).sum(), 0.0),
        (lambda: torch.fft.irfft2(ones(4, 64, 128, 65, dtype=torch.complex64)), 16.25),
        (lambda: torch.sum(ones(32768, 256, dtype=torch.bool), 0), 128.0),
        (lambda: torch.sum(ones(2**24)), 2112 / MIB),
        (lambda: attends(64, 4)(*[torch.ones(8, 256, 64)] * 3)[0], 9.0),
        (lambda: encoder(384, 1536)(torch.ones(256, 128, 384)), 240.0),
        (lambda: encoder(128, 256)(torch.ones(538, 41, 128)), 43.1),
    ],
)
def test_it_is_what_kernels_take(run: Callable[[], torch.Tensor], mib: float) -> None:
    mode = Temporaries()
    with FakeTensorMode(), mode:
        out = run()
        if out.requires_grad and not out.dim():
            out.backward()
    assert mode.most / MIB == pytest.approx(mib, rel=0.03, abs=0.0001)
