"""Autocast to fp16 as CUDA does it, on the CPU's tensors: which operations work in which precision. Needs torch.

torch knows which operations CUDA's autocast changes, also where it was built without CUDA. What becomes of them does
not stand there: it follows PyTorch's page on automatic mixed precision. What both autocasts cast to fp16 is left to the
one of the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves, tree_map

LOW: Final = torch.float16
_HALVES: Final = (torch.float16, torch.bfloat16)
_FLOATS: Final = (*_HALVES, torch.float32)
_CASTS: Final[
    list[dict[tuple[int, torch.dtype], tuple[torch.Tensor, torch.Tensor]]]
] = []  # of each autocast that is on
_OFF: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
# Cast to fp16.
_LOWER: Final = frozenset(
    (
        "_convolution",
        "_scaled_dot_product_flash_attention",
        "_thnn_fused_gru_cell",
        "_thnn_fused_lstm_cell",
        "addbmm",
        "addmm",
        "addmv",
        "addr",
        "baddbmm",
        "bmm",
        "chain_matmul",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_tbc",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "convolution",
        "cudnn_convolution",
        "cudnn_convolution_transpose",
        "einsum",
        "gru_cell",
        "linalg_multi_dot",
        "linalg_vecdot",
        "linear",
        "lstm_cell",
        "matmul",
        "mm",
        "mv",
        "prelu",
        "rnn_relu_cell",
        "rnn_tanh_cell",
        "scaled_dot_product_attention",
    )
)
# Cast to the widest of what comes in.
_PROMOTED: Final = frozenset(
    (
        "addcdiv",
        "addcmul",
        "atan2",
        "bilinear",
        "cross",
        "dot",
        "grid_sampler",
        "index_put",
        "scatter_add",
        "tensordot",
        "vdot",
    )
)
# These read fp16 and write fp32; all others have their input cast to fp32.
_WRITE_WIDE: Final = frozenset(("cumprod", "cumsum", "linalg_vector_norm", "log_softmax", "prod", "softmax", "sum"))
_WHOLE_KERNELS: Final = {"softmax": torch.ops.aten._softmax, "log_softmax": torch.ops.aten._log_softmax}


@contextmanager
def autocasting() -> Iterator[None]:
    """Run what is inside under autocast to fp16; `kernels` must be in place."""
    usual = torch.is_autocast_enabled("cuda")
    _CASTS.append({})
    torch.set_autocast_enabled("cuda", True)  # what asks whether autocast is on means a GPU's
    try:
        with torch.autocast("cpu", LOW):
            yield
    finally:
        torch.set_autocast_enabled("cuda", usual)
        _CASTS.pop()


def low() -> torch.dtype:
    """Tell to what autocast casts where it is on: a model's own code may ask for bf16."""
    kind: torch.dtype = torch.get_autocast_dtype("cpu")
    return kind


@cache  # to ask for each of PyTorch's operations takes longer than many a step
def kernels() -> Mapping[str, Callable[..., Any]]:
    """Make what stands for PyTorch's operations under the CPU's autocast, by their names."""
    cuda, cpu = _changed("AutocastCUDA"), _changed("AutocastCPU")
    return {
        name: _kernel(name) if name in cuda else torch.library.fallthrough_kernel
        for name in sorted(cuda | cpu)
        if name.partition(".")[0] not in _LOWER or name not in cpu
    }


def _changed(key: str) -> set[str]:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = torch._C._dispatch_get_all_op_names()
    return {name.removeprefix("aten::") for name in names if name.startswith("aten::") and has(name, key)}


def _kernel(name: str) -> Callable[..., Any]:
    """Make what stands for an operation."""
    base, _, overload = name.partition(".")
    operation = getattr(getattr(torch.ops.aten, base), overload or "default")
    place = next((at for at, each in enumerate(operation._schema.arguments) if each.name == "dtype"), None)

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_OFF):
            return operation(*args, **kwargs)

    def lower(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _cast((args, kwargs), low())
        return run(*args, **kwargs)

    def wide(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _cast((args, kwargs), torch.float32)
        return run(*args, **kwargs)

    def promoted(*args: Any, **kwargs: Any) -> Any:
        given = {leaf.dtype for leaf in tree_leaves((args, kwargs)) if _is_float(leaf)}
        args, kwargs = _cast((args, kwargs), torch.float32 if torch.float32 in given else low())
        return run(*args, **kwargs)

    def writes_wide(*args: Any, **kwargs: Any) -> Any:
        said = kwargs.get("dtype") if place is None or len(args) <= place else args[place]
        if said is None and args[0].dtype in _HALVES:
            if base in _WHOLE_KERNELS:
                # On the CPU some versions of PyTorch read fp16 alone like that: bf16 is cast below.
                with torch._C._ExcludeDispatchKeyGuard(_OFF), suppress(AssertionError):
                    return _WHOLE_KERNELS[base](args[0], args[1] if len(args) > 1 else kwargs["dim"], True)
            args, kwargs = args[:place], {**kwargs, "dtype": torch.float32}
        return run(*args, **kwargs)

    if base in _LOWER:
        return lower
    if base in _PROMOTED:
        return promoted
    return writes_wide if base in _WRITE_WIDE and place is not None else wide


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dtype in _FLOATS


def _cast(given: Any, kind: torch.dtype) -> Any:
    return tree_map(lambda leaf: _as(leaf, kind) if _is_float(leaf) else leaf, given)


def _as(tensor: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    """Cast a tensor; a parameter once for as long as autocast is on."""
    parameter = tensor.requires_grad and tensor.is_leaf and tensor.dtype == torch.float32
    if kind == torch.float32 or not parameter or not _CASTS:  # a checkpoint's second forward pass has none that is ours
        return tensor.to(kind)
    casts = _CASTS[-1]
    key = id(tensor), kind
    if key not in casts:
        casts[key] = tensor, tensor.to(kind)
    return casts[key][1]
