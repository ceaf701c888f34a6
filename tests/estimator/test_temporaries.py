"""What operations work with beside what they give out: as measured on a GPU, or by the same rule at other sizes."""

# ruff: noqa: PLW0108 - they are to run inside of the mode

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from estimator.rehearsals.temporaries import temporary

MIB = 2**20


class Temporaries(TorchDispatchMode):
    """Notes the most that any operation takes and gives back."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        now = 0
        for piece in itertools.chain(*temporary(func, args, out)):
            if isinstance(piece, int):
                now += piece
            self.most = max(self.most, now + (sum(piece) if isinstance(piece, tuple) else 0))
        return out


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype, requires_grad=dtype.is_floating_point)


def half(*shape: int) -> torch.Tensor:
    return ones(*shape, dtype=torch.bfloat16)


def together(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


def words(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.long)


def averaged(x: torch.Tensor) -> torch.Tensor:
    return (functional.avg_pool1d(x, 25, 1, 12) * half(*x.shape)).sum()


def added(rows: int, count: int, width: int) -> torch.Tensor:
    return torch.ones(rows, width).index_put_((words(count),), torch.ones(count, width), accumulate=True)


def bags(count: int, bags: int, rows: int, width: int, *, sparse: bool = False) -> torch.Tensor:
    """Look up half-precision rows in bags of equal size, and add up what they give."""
    found = functional.embedding_bag(words(count).view(bags, -1), half(rows, width), sparse=sparse)
    return (found * half(bags, width)).sum()


def embedded(shape: tuple[int, ...], words: int, width: int, *, turned: bool = False) -> torch.Tensor:
    found = functional.embedding(ones(*shape, dtype=torch.long), ones(words, width))
    return (found.transpose(0, 1) * ones(shape[1], shape[0], width)).sum() if turned else found


@pytest.mark.parametrize(
    ("run", "mib"),
    [
        (lambda: torch.sum(functional.linear(ones(32768, 8), ones(256, 8), ones(256)) * ones(32768, 256)), 64.0),
        (lambda: ones(16, 64, 64, 192).mean((1, 2)), 96.0),
        # More than two GiB are summed up in two halves: of 32768 numbers in 20000 columns both took 156.25 MiB.
        (lambda: torch.ones(32768, 20000, device="meta").sum(0), 156.25),
        (lambda: torch.linalg.vector_norm(ones(32768, 256), dim=0), 64.0),
        (lambda: functional.layer_norm(ones(8, 64, 4096).transpose(1, 2), (64,)).sum(), 16.0),
        (lambda: functional.layer_norm(ones(8, 4096, 64), (64,)), 0.0),
        (lambda: functional.softmax(ones(8, 64, 4096).transpose(1, 2), -1), 8.0),
        (lambda: torch.ops.aten._safe_softmax(ones(16, 16, 256, 256), -1), 16.0),
        (lambda: functional.max_pool2d(ones(32, 64, 64, 64), 2), 0.0),
        (lambda: functional.max_pool2d(ones(32, 64, 64, 64).to(memory_format=torch.channels_last), 2), 0.0),
        (lambda: functional.max_pool2d(ones(32, 64, 64, 64).transpose(2, 3), 2), 32.0),
        (lambda: torch.sum(ones(32768, 256, dtype=torch.float64), 0), 128.0),
        (lambda: torch.fft.rfft2(ones(4, 64, 128, 128)), 0.0),
        (lambda: embedded((64, 256), 50000, 300).expand(64, 256, 300).mul(ones(64, 256, 300)).sum(), 21.0),
        (lambda: embedded((960, 40), 50000, 200, turned=True), 62.4),
        (lambda: embedded((4, 64), 50000, 300).sum(), 0.29297),
        (lambda: torch.fft.irfft2(ones(4, 64, 128, 65, dtype=torch.complex64)), 16.25),
        (lambda: torch.sum(ones(2**24, dtype=torch.bool)), 128.0),
        (lambda: torch.sum(ones(64, 1000, 512, dtype=torch.int32), 1), 250.0),
        (lambda: torch.sum(ones(64, 1000, 512, dtype=torch.bfloat16), 1, dtype=torch.float32), 0.0),
        (lambda: ones(64, 1000, 512, dtype=torch.bool).cumsum(1), 250.0),
        (lambda: ones(64, 1000, 512).logsumexp(1).detach(), 125.0),
        (lambda: ones(64, 512, 1000).topk(20, -1)[0].detach(), 48.9),
        (lambda: ones(16, 200000).topk(1000, -1)[0].detach(), 0.0),
        (lambda: ones(5000, 20000).topk(10, -1)[0].detach(), 9.9),  # two blocks for each row
        (lambda: (ones(100000, 256, dtype=torch.bfloat16)[words(400000)] * half(400000, 256)).sum(), 18.4),
        (lambda: ones(2048, 4096)[words(2000000), words(2000000)].sum(), 99.6),
        (lambda: functional.interpolate(ones(16, 64, 64, 64), scale_factor=2, mode="bilinear").sum(), 64.0),
        (lambda: functional.interpolate(ones(16, 64, 64, 64), scale_factor=2, mode="bicubic").sum(), 64.0),
        (lambda: functional.interpolate(ones(16, 64, 64, 64), scale_factor=2).sum(), 64.0),
        (lambda: functional.interpolate(ones(16, 64, 4096), scale_factor=2).sum(), 32.0),
        (lambda: functional.interpolate(ones(16, 64, 4096), scale_factor=2, mode="linear").sum(), 32.0),
        (lambda: functional.interpolate(ones(4, 16, 16, 64, 64), scale_factor=2).sum(), 128.0),
        (lambda: functional.interpolate(ones(4, 16, 16, 64, 64), scale_factor=2, mode="trilinear").sum(), 128.0),
        (lambda: functional.pad(ones(16, 64, 4096), (3, 3), mode="reflect").sum(), 16.0),
        (lambda: functional.pad(ones(16, 64, 64, 64), (3, 3, 3, 3), mode="reflect").sum(), 19.1),
        (lambda: functional.pad(ones(16, 64, 64, 64), (3, 3, 3, 3), mode="replicate").sum(), 2112 / MIB),
        (lambda: functional.max_pool3d(ones(4, 32, 32, 64, 64), 2).sum(), 8.0),
        (lambda: functional.log_softmax(ones(8, 64, 4096).transpose(1, 2), -1).detach(), 8.0),
        (lambda: functional.log_softmax(ones(8, 21, 256, 256), 1).sum(), 42.0),
        (lambda: functional.layer_norm(ones(8, 64, 4096).transpose(1, 2), (64,)).detach(), 8.0),
        (lambda: ones(100000, 256).detach().index_put((words(400000),), torch.ones(400000, 256)), 0.0),
        (lambda: added(100000, 400000, 256), 18.4),
        (lambda: functional.unfold(ones(16, 64, 64, 64), 3, padding=1).detach(), 16.0),
        (lambda: functional.unfold(ones(16, 64, 64, 64), 3, padding=1).sum(), 144.0),
        (lambda: functional.avg_pool2d(ones(16, 64, 64, 64).transpose(2, 3), 2).detach(), 16.0),
        (lambda: functional.avg_pool2d(ones(16, 64, 64, 64).transpose(2, 3), 2).sum(), 20.0),
        (lambda: averaged(half(16, 4096, 64).transpose(1, 2)), 8.0),
        (lambda: (functional.max_pool1d(half(16, 4096, 64).transpose(1, 2), 2) * half(16, 64, 2048)).sum(), 4.0),
        (lambda: torch.roll(ones(16, 64, 64, 64), (4, 4), (1, 2)).detach(), 16.0),
        (lambda: torch.roll(ones(16, 64, 64, 64), 4, 1).detach(), 0.0),
        (lambda: (ones(65536, 256)[:, ::2] @ ones(128, 128)).detach(), 32.0),
        (lambda: (ones(65536, 256)[:, :128] @ ones(128, 128)).detach(), 0.0),
        (lambda: torch.bmm(ones(64, 512, 64).transpose(1, 2), ones(64, 512, 64)).detach(), 0.0),
        (lambda: torch.bmm(ones(256, 64, 512), torch.ones(1).expand(256, 512, 512)).detach(), 256.0),
        (lambda: (half(64, 1000, 512).softmax(1) * half(64, 1000, 512)).sum(), 62.5),
        (lambda: torch.addmm(ones(128), ones(65536, 256)[:, ::2], ones(128, 128)).detach(), 32.0),
        (lambda: torch.baddbmm(ones(1, 1, 1), ones(64, 512, 128)[:, :, ::2], ones(64, 64, 512)).detach(), 8.0),
        (lambda: functional.mse_loss(ones(64, 1000, 512), ones(64, 1000, 512)).detach(), 125.0),
        (lambda: functional.mse_loss(ones(64, 1000, 512), ones(64, 1000, 512), reduction="none").detach(), 0.0),
        (lambda: functional.huber_loss(ones(64, 1000, 512), ones(64, 1000, 512)).detach(), 125.0),
        (lambda: functional.smooth_l1_loss(ones(64, 1000, 512), ones(64, 1000, 512)).detach(), 125.0),
        (lambda: functional.binary_cross_entropy_with_logits(ones(64, 1000, 512), torch.ones(64, 1000, 512)), 250.0),
        (lambda: torch.fft.rfft(ones(64, 1000, 512), dim=1).detach(), 125.25),
        (lambda: torch.fft.rfft(ones(64, 501, 512)).detach(), 0.0),
        (lambda: torch.fft.fft(ones(64, 1000, 512, dtype=torch.complex64), dim=1), 250.0),
        (lambda: torch.fft.fft2(ones(64, 1000, 512, dtype=torch.complex64)), 0.0),
        (lambda: ones(64, 501, 512, dtype=torch.complex64).abs(), 125.25),
        (lambda: torch.fft.rfft(ones(131, 32000)).detach(), 16.0),
        (lambda: torch.fft.irfft(ones(131, 16001, dtype=torch.complex64)), 32.0),
        (lambda: torch.fft.irfft(ones(512, 4097, dtype=torch.complex64)), 16.0),
        (lambda: torch.fft.fft(ones(131, 32000, dtype=torch.complex64)), 32.0),
        (lambda: torch.fft.fft(ones(838, 5000, dtype=torch.complex64)), 0.0),
        (lambda: torch.fft.fft(ones(64, 65536, dtype=torch.complex64)), 32.0),
        (lambda: torch.fft.rfft(ones(419, 10007)).detach(), 80.0),
        (lambda: torch.fft.fft(ones(419, 10007, dtype=torch.complex64)), 128.0),
        (lambda: embedded((65536,), 10, 256).mul(ones(65536, 256)).sum(), 2.5),
        (lambda: embedded((65536,), 400, 1024).mul(ones(65536, 1024)).sum(), 2.5),
        (lambda: embedded((65536,), 700, 1024).mul(ones(65536, 1024)).sum(), 29.9),
        (lambda: (functional.embedding(words(16000), half(400, 1024)) * half(16000, 1024)).sum(), 1.97),
        (lambda: embedded((65536,), 1000, 32).mul(ones(65536, 32)).sum(), 2.5),
        (lambda: bags(163840, 8192, 50000, 128), 37.4),
        (lambda: bags(163840, 8192, 50000, 128, sparse=True), 512 / MIB),
        (lambda: torch.ops.aten._fft_c2c(ones(64, 96, dtype=torch.complex64), [], 0, True), 0.0),
        (lambda: torch.sum(ones(2**24)), 2112 / MIB),
        (lambda: ones(16, 1000, 512).transpose(1, 2).cumsum(1).detach(), 31.25),
        (lambda: (ones(8, 64, 4096).transpose(1, 2).softmax(-1).transpose(1, 2) * ones(8, 64, 4096)).sum(), 16.0),
        (
            lambda: (functional.batch_norm(ones(8, 64, 4096), None, None, training=True).mT * ones(8, 4096, 64)).sum(),
            8.0,
        ),
        (
            lambda: (functional.batch_norm(half(8, 64, 4096), None, None, training=True).mT * half(8, 4096, 64)).sum(),
            4.0,
        ),
        # Mean and variance of what lies neither way, in fp32: as a trace of an H100 shows it, 12.5 and 100 MiB.
        (lambda: functional.batch_norm(half(64, 200, 256).mT, None, None, training=True).detach(), 112.5),
        (lambda: functional.batch_norm(ones(64, 200, 256).mT, None, None, training=True).detach(), 0.0),
        (lambda: functional.batch_norm(half(64, 256, 200), None, None, training=True).detach(), 0.0),
        (lambda: functional.batch_norm(half(64, 200, 256).mT, words(256).half(), words(256).half()).detach(), 0.0),
        (lambda: functional.batch_norm(together(half(8, 64, 32, 32)), None, None, training=True).detach(), 0.0),
        (
            lambda: (
                functional.batch_norm(together(ones(8, 64, 32, 32)), None, None, training=True)
                * together(ones(8, 64, 32, 32))
            ).sum(),
            256 / MIB,
        ),
        # Copies on an H100: of what real numbers are made of, and of what does not follow at equal distances.
        (lambda: torch.fft.irfft2(ones(16, 24, 25, 384, dtype=torch.complex64), dim=(1, 2)), 56.25),
        (lambda: torch.fft.irfft(ones(16, 24, 25, 384, dtype=torch.complex64), dim=2), 56.25),
        (lambda: torch.fft.rfft2(ones(16, 24, 48, 384), dim=(1, 2)).detach(), 27.0),
        (lambda: torch.fft.rfft2(ones(16, 48, 24, 384).transpose(1, 2), dim=(1, 3)).detach(), 0.0),
        (lambda: torch.fft.rfft(ones(1000, 2000), dim=0).detach(), 0.0),
        (lambda: torch.fft.rfft(ones(16, 48, 24, 384).transpose(1, 2), dim=3).detach(), 0.0),
        (lambda: torch.fft.rfft(ones(64, 1000, 1).transpose(1, 2)).detach(), 0.0),
        (lambda: torch.fft.irfft(ones(25, 160, 384, dtype=torch.complex64).transpose(0, 1), dim=1), 23.4375),
        # Lengths on an H100: products of larger prime numbers, and those themselves.
        (lambda: torch.fft.rfft(ones(16384, 137)).detach(), 17.125),
        (lambda: torch.fft.fft(ones(16384, 137, dtype=torch.complex64)), 0.0),
        (lambda: torch.fft.irfft2(ones(16, 137, 69, dtype=torch.complex64), s=(137, 137)), 3.445),
        (lambda: torch.fft.rfft2(ones(580, 85, 85)).detach(), 31.97),
        (lambda: torch.fft.rfft2(ones(770, 85, 64)).detach(), 16.48),
        (lambda: torch.fft.fft2(ones(474, 94, 94, dtype=torch.complex64)), 31.95),
        (lambda: torch.fft.rfft2(ones(244, 131, 131)).detach(), 31.95),
        (lambda: torch.fft.fft2(ones(244, 131, 131, dtype=torch.complex64)), 0.0),
    ],
)
def test_it_is_what_kernels_take(run: Callable[[], torch.Tensor], mib: float) -> None:
    mode = Temporaries()
    with FakeTensorMode(), mode:
        out = run()
        if out.requires_grad and not out.dim():
            out.backward()
    assert mode.most / MIB == pytest.approx(mib, rel=0.03, abs=0.0001)
