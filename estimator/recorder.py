"""Writes down which tensors come and go while a model's code runs on tensors without data. Needs torch.

With them stand what a GPU's kernels and libraries take from PyTorch's allocator: workspaces of cuDNN's convolutions and
of other operations, which are gone when these are done, and cuBLAS' own, which stays.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from estimator.methods.rad.convolutions import Workspace
from estimator.methods.rad.liveness import CUBLAS
from estimator.methods.rad.program import Conv, Extents, Three
from estimator.temporaries import temporary
from estimator.types import Precision

Works = Callable[[Conv, int, Precision], Workspace]
"""Says how much workspace a convolution takes."""
Part = list[tuple[int, int]]
"""Numbers of tensors in the order in which they came, with their bytes, or went, with `GONE`."""
GONE: Final = -1

_ATEN: Final = torch.ops.aten
_PRODUCTS: Final = frozenset(
    (
        _ATEN._native_multi_head_attention.default,
        _ATEN._transformer_encoder_layer_fwd.default,
        _ATEN.addbmm.default,
        _ATEN.addmm.default,
        _ATEN.addmv.default,
        _ATEN.baddbmm.default,
        _ATEN.bmm.default,
        _ATEN.mm.default,
        _ATEN.mv.default,
    )
)
_OTHERS: Final[dict[torch.dtype, Precision]] = {torch.bfloat16: "bf16", torch.float16: "fp16"}
_COUNTER: Final = 8


class Recorder(TorchDispatchMode):  # type: ignore[misc] # torch is not followed by mypy
    """Writes while it is the mode.

    Attributes:
        part: where it writes.
        backward: whether the backward pass runs, whose thread has a workspace of cuBLAS' of its own.
        steps: whether an optimizer does, which counts its steps on the CPU.
    """

    def __init__(self, works: Works) -> None:
        """Begin with nothing."""
        super().__init__()
        self.part: Part = []
        self.backward = self.steps = False
        self._multiplied: set[bool] = set()
        self._works = works
        self._known: dict[int, Any] = {}
        self._last = 0

    def begin(self) -> Part:
        """Write to a new part from here on, and return it."""
        self.part = []
        return self.part

    def watch(self, tensor: torch.Tensor) -> None:
        """Note a tensor whose storage is new, and later that it went."""
        if tensor.layout == torch.sparse_coo:  # as gradients of embeddings may be
            self.watch(tensor._indices())
            self.watch(tensor._values())
            return
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._known or (self.steps and size <= _COUNTER):
            return
        number = self._came(size)

        def forget(_: Any, key: int = key, number: int = number) -> None:
            if self._known.pop(key, None) is not None:
                self.part.append((number, GONE))

        self._known[key] = weakref.ref(storage, forget)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation; note what it made, and what it worked with."""
        if func in _PRODUCTS and self.backward not in self._multiplied:
            self._multiplied.add(self.backward)
            self._came(int(CUBLAS))
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.watch(leaf)
        workspace: float = temporary(func, args, out)
        if func is _ATEN.convolution.default:
            x, weight, _, *sizes = args
            workspace = self._asked(x, weight, out, sizes).forward
        elif func is _ATEN.convolution_backward.default:
            gradient, x, weight, _, *sizes, wanted = args
            asked = self._asked(x, weight, gradient, sizes)
            workspace = max(asked.input if wanted[0] else 0.0, asked.weight if wanted[1] else 0.0)
        if workspace:
            self.part.append((self._came(int(workspace)), GONE))
        return out

    def _came(self, size: int) -> int:
        self._last += 1
        self.part.append((self._last, size))
        return self._last

    def _asked(self, x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, sizes: list[Any]) -> Workspace:
        stride, padding, dilation, transposed, _, groups = sizes
        if transposed:
            x, y = y, x
        extents = Extents(
            _three(weight.shape[2:]), _three(x.shape[2:]), dilation[-1], any(padding), _last(x) or _last(weight)
        )
        measures = (prod(weight.shape[2:]), stride[-1], groups, prod(x.shape[2:]), prod(y.shape[2:]))
        conv = Conv(x.shape[1], y.shape[1], *measures, transposed, extents)
        return self._works(conv, x.shape[0], _OTHERS.get(x.dtype, "fp32"))


def _last(tensor: torch.Tensor) -> bool:
    """Tell whether channels lie together."""
    layout = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return layout is not None and tensor.is_contiguous(memory_format=layout) and not tensor.is_contiguous()


def _three(extents: Sequence[int]) -> Three:
    """Give depth, height and width; 1 for axes that are not there."""
    depth, height, width = (1,) * (3 - len(extents)) + tuple(extents)
    return depth, height, width
