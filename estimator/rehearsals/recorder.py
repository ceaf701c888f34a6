"""Writes down which tensors come and go while a model's code runs on tensors without data. Needs torch.

With them stand what a GPU's kernels and libraries take from PyTorch's allocator: workspaces of cuDNN's convolutions and
of other operations, which are gone when these are done, and cuBLAS' own, which stays.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from itertools import count
from math import prod
from typing import Any, Final

import torch
from torch._prims_common import suggest_memory_format
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from estimator.methods.rad.convolutions import Convolves, Sizes, Workspace
from estimator.methods.rad.program import Conv, Extents, three
from estimator.rehearsals.layouts import laid
from estimator.rehearsals.temporaries import Pieces, room, temporary
from estimator.types import Libraries, Precision, libraries

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
# What a backward pass does in place but on tensors without data: it adds gradients up, and puts them into zeros.
_ADDED_IN_PLACE: Final = frozenset(
    (
        _ATEN.add.Tensor,
        _ATEN.index_add.default,
        _ATEN.index_put.default,
        _ATEN.scatter.src,
        _ATEN.scatter_add.default,
    )
)
_OTHERS: Final[dict[torch.dtype, Precision]] = {torch.bfloat16: "bf16", torch.float16: "fp16"}
_LAYOUTS: Final = {4: torch.channels_last, 5: torch.channels_last_3d}
_DEVICE: Final = torch.ops.prim.device.default  # optimizers ask it more often than all else
_COUNTER: Final = 8
_CUBLAS: Final = 32 * 2**20  # as the allocator's trace shows it; half a MiB less than what was fitted to whole runs


class Recorder(TorchDispatchMode):
    """Writes while it is the mode.

    Attributes:
        part: where it writes.
        others: what may be taken in place of some tensors, by their numbers: bytes, in as many processes.
        convolved: whether anything was.
        backward: whether the backward pass runs, whose thread has a workspace of cuBLAS' of its own.
        steps: whether an optimizer does, which counts its steps on the CPU.
    """

    def __init__(self, convolution: Convolves, numbers: Iterator[int] | None = None) -> None:
        """Begin with nothing.

        Args:
            convolution: says how much workspace convolutions take.
            numbers: gives tensors their numbers, from 1 on by default.
        """
        super().__init__()
        self.part: Part = []
        self.others: dict[int, tuple[int, ...]] = {}
        self.backward = self.steps = self.convolved = False
        self._multiplied: set[bool] = set()
        self._convolution = convolution
        self._known: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        # What was added last: storages of the first and of the sum, where that came, and where the part ended then.
        self._added: tuple[int, int, int, int] | None = None
        self._product = 0
        self._next = numbers or count(1)

    @property
    def libraries(self) -> Libraries:
        """Tell which of CUDA's libraries the code loaded so far."""
        return libraries(bool(self._multiplied), self.convolved)

    def begin(self) -> Part:
        """Write to a new part from here on, and return it."""
        self.part = []
        return self.part

    def watch(self, tensor: torch.Tensor, room: int = 0) -> None:
        """Note a tensor whose storage is new, and later that it went.

        Args:
            tensor: what came.
            room: bytes of its storage on a GPU, where it is larger there.
        """
        if tensor.layout == torch.sparse_coo:  # as gradients of embeddings may be
            self.watch(tensor._indices())
            self.watch(tensor._values())
            return
        storage = tensor.untyped_storage()
        key, size = storage._cdata, max(storage.nbytes(), room)
        if key in self._known or (self.steps and size <= _COUNTER):
            return
        self._numbers[key] = self._came(size)

        def forget(_: Any, key: int = key) -> None:
            if self._known.pop(key, None) is not None:
                self._went(key)

        self._known[key] = weakref.ref(storage, forget)

    def gather(self, tensors: Sequence[torch.Tensor]) -> None:
        """Note that tensors which stay moved into one piece."""
        storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
        piece = self._came(sum(storages.values()))
        self.part += [(self._numbers[key], GONE) for key in storages]
        self._numbers.update(dict.fromkeys(storages, piece))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation; note what it made, and what it worked with."""
        if func is _DEVICE:
            return func(*args)
        out = laid(func, args, func(*args, **(kwargs or {})))
        if func is _ATEN.convolution_backward.default:
            self._convolved_back(args, out)
            return out
        before, after = temporary(func, args, out)
        sized: Sizes = (0.0,)
        if func is _ATEN.convolution.default:
            x, weight, _, *sizes = args
            before, sized = _apart(x, weight, x), self._asked(x, weight, out, sizes).forward
            self.convolved = True
        copies = self._take(before)
        leaves, at = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)], len(self.part)
        for leaf in reversed(leaves) if func is _ATEN.native_dropout.default else leaves:
            self.watch(leaf, room(func, args))
        if func in _PRODUCTS and self.backward not in self._multiplied:
            self._multiplied.add(self.backward)
            self._came(_CUBLAS)
        self._worked(sized)
        self._give(self._take(after))
        self._give(copies)
        if func in _PRODUCTS:
            self._product = leaves[0].untyped_storage()._cdata
        if func in _ADDED_IN_PLACE:
            self._add(args[0], args[1], out, at)
        return out

    def _add(self, one: torch.Tensor, other: Any, out: torch.Tensor, at: int) -> None:
        """Note what may be added in its place on a GPU: gradients, and what linear layers add to their products."""
        if out.layout != torch.strided or one.layout != torch.strided:
            return
        before, after = one.untyped_storage(), out.untyped_storage()
        bias = isinstance(other, torch.Tensor) and other.dim() == 1 and before._cdata == self._product
        # A view holds what it looks at, and PyTorch asks whether anybody does.
        if ((self.backward and not one._is_view()) or bias) and before.nbytes() == after.nbytes():
            self._added = before._cdata, after._cdata, at, len(self.part)

    def _convolved_back(self, args: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Note one gradient after the other, each with what it is worked out with."""
        gradient, x, weight, _, *sizes, _ = args
        asked = self._asked(x, weight, gradient, sizes)
        copies = self._take((*_apart(x, weight, gradient), *_apart(x, weight, x)))
        for found, sized in zip(out, (asked.input, asked.weight, (0.0,)), strict=True):
            if found is not None:
                self.watch(found)
                self._worked(sized)
        self._give(copies)

    def _take(self, pieces: Pieces) -> list[int]:
        """Note what an operation takes, and what of it goes at once; give the numbers of what stays."""
        taken = []
        for piece in pieces:
            if isinstance(piece, tuple):
                self._give(self._take(piece))
            elif piece:
                taken.append(self._came(piece))
        return taken

    def _give(self, taken: Sequence[int]) -> None:
        self.part += [(number, GONE) for number in reversed(taken)]

    def _worked(self, sizes: Sizes) -> None:
        """Note a workspace that is gone at once."""
        likeliest, *others = map(int, sizes)
        if likeliest or any(others):
            number = self._came(likeliest)
            if others:
                self.others[number] = tuple(others)
            self.part.append((number, GONE))

    def _went(self, key: int) -> None:
        """Note that a storage went; gradients are added up in the place of the first where it goes with that."""
        number, added, self._added = self._numbers.pop(key), self._added, None
        if added is not None:
            before, after, came, end = added
            if (key, len(self.part)) == (before, end):
                del self.part[came]
                self._numbers[after] = number
                return
        self.part.append((number, GONE))

    def _came(self, size: int) -> int:
        number = next(self._next)
        self.part.append((number, size))
        return number

    def _asked(self, x: torch.Tensor, weight: torch.Tensor, y: torch.Tensor, sizes: list[Any]) -> Workspace:
        stride, padding, dilation, transposed, _, groups = sizes
        if transposed:
            x, y = y, x
        extents = Extents(
            three(weight.shape[2:]), three(x.shape[2:]), dilation[-1], any(padding), _last(x) or _last(weight)
        )
        measures = (prod(weight.shape[2:]), stride[-1], groups, prod(x.shape[2:]), prod(y.shape[2:]))
        conv = Conv(x.shape[1], y.shape[1], *measures, transposed, extents)
        return self._convolution(conv, x.shape[0], _OTHERS.get(x.dtype, "fp32"))


def _last(tensor: torch.Tensor) -> bool:
    """Tell whether channels lie together."""
    layout = _LAYOUTS.get(tensor.dim())
    return layout is not None and tensor.is_contiguous(memory_format=layout) and not tensor.is_contiguous()


def _apart(x: torch.Tensor, weight: torch.Tensor, given: torch.Tensor) -> tuple[int, ...]:
    """Count the bytes of the copy of what is given to a convolution and does not lie as that wants it."""
    together = suggest_memory_format(x) != torch.contiguous_format or _last(weight)
    layout = _LAYOUTS.get(x.dim(), torch.contiguous_format) if together else torch.contiguous_format
    return () if given.is_contiguous(memory_format=layout) else (int(given.numel() * given.element_size()),)
