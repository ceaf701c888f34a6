"""PyTorch's mode of tensors without data, in which whole numbers keep theirs where these are known. Needs torch.

Code looks at masks, labels and lengths: at whether any token is padding, or which of them count. They are made of what
the model's inputs hold and of numbers in its code, and follow from these. What follows from weights is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._pytree import tree_leaves, tree_map

_DEVICE: Final = torch.ops.prim.device.default  # no numbers, and what optimizers ask more often than all else
# Numbers of a tensor that are kept.
_MOST: Final = 2**20
_DRAWS: Final = frozenset(getattr(torch.ops.aten, name) for name in ("rand", "randint", "randn", "randperm"))
_MAKERS: Final = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("arange", "eye", "full", "ones", "scalar_tensor", "tril_indices", "triu_indices", "zeros")
)
_OF_NOTHING: Final = _DRAWS | _MAKERS
_CTC: Final = frozenset((torch.ops.aten._ctc_loss.default, torch.ops.aten._ctc_loss.Tensor))


class Mode(FakeTensorMode):
    """A mode of which a copied model has no copy, that knows whole numbers and single ones.

    Fake tensors hold their mode, `copy.deepcopy` of a layer copies it with them, and with it references that PyTorch
    (2.13) does not count: what it frees twice brings the process down.

    Whole numbers are drawn where code asks for such, and single ones of any kind, for code to decide something by them:
    whether to skip a layer, say, which it does where that is small. They are the same each time, and no small ones.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        if func is _DEVICE:
            return super().__torch_dispatch__(func, types, args, kwargs)
        kwargs = kwargs or {}
        known = _with_values(func, args, kwargs)
        try:
            made = super().__torch_dispatch__(func, types, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            if func in _CTC:
                return _ctc_loss(*args)
            if known is None:
                raise
            return tree_map(self._fake, _computed(func, *known))
        if known is None or func._schema.is_mutable:
            return made
        leaves = tree_leaves(made)
        if leaves and all(_is_kept(leaf) for leaf in leaves):
            for leaf, value in zip(leaves, tree_leaves(_computed(func, *known)), strict=True):
                _keep(leaf, value)
        return made

    def _fake(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        fake = self.fake_tensor_converter.from_real_tensor(self, value)
        if _is_kept(fake):
            _keep(fake, value)
        return fake


def _with_values(func: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """Give what an operation takes with the numbers of its tensors, or None where some are not known."""
    if not isinstance(func, torch._ops.OpOverload):
        return None
    if any(isinstance(arg, torch.Tensor) and _value(arg) is None for arg in args):  # most end here
        return None
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if not tensors:
        return (args, kwargs) if func.overloadpacket in _OF_NOTHING else None
    if any(_value(tensor) is None for tensor in tensors):
        return None
    found: tuple[Any, Any] = tree_map(
        lambda leaf: _value(leaf) if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    return found


def _value(tensor: torch.Tensor) -> torch.Tensor | None:
    """Give the numbers of a tensor, if they are known and nothing was written to it since."""
    if not isinstance(tensor, FakeTensor):
        return tensor if tensor.numel() <= _MOST else None
    value, version = getattr(tensor, "known_value", (tensor.constant, tensor._version))
    is_still = value is not None and version == tensor._version and value.dtype == tensor.dtype
    return value if is_still and not tensor.requires_grad else None


def _is_kept(leaf: Any) -> bool:
    """Tell whether the numbers of a result are kept: whole ones, and a single one of any kind."""
    if not isinstance(leaf, FakeTensor) or leaf.is_sparse or leaf.device.type != "cpu":
        return False
    return leaf.numel() == 1 or (leaf.numel() <= _MOST and not (leaf.is_floating_point() or leaf.is_complex()))


def _keep(fake: Any, value: torch.Tensor) -> None:
    fake.known_value = value, fake._version


def _computed(func: Any, args: Any, kwargs: Any) -> Any:
    if func.overloadpacket not in _DRAWS:
        return func(*args, **kwargs)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        return func(*args, **kwargs)


def _ctc_loss(scores: Any, targets: Any, _: Any, lengths: Any, *__: Any) -> tuple[Any, Any]:
    """Make what the loss of CTC gives out: one for each sample, and the likelihood of each place of its targets.

    Targets in rows are taken for as long as a row is, others for as long as the longest of them.
    """
    if targets.dim() > 1:
        longest = targets.shape[1]
    else:
        longest = max(lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths)
    steps, batch = scores.shape[:2]
    return scores.new_empty(batch), scores.new_empty(batch, steps, 2 * longest + 1)
