"""What a model of a user is, and the loss that it is trained with. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as f

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Plain:
    """A model of a user.

    Attributes:
        make: builds it.
        shape: shape of one example without the batch; of token ids where ``words`` is not 0. None: its length is the
            configuration's.
        words: size of the vocabulary, 0 where inputs are numbers.
        target: ``class`` (cross entropy over the last axis or, of ``pixels``, the channels) or ``mean`` (squares).
    """

    make: Callable[[], nn.Module]
    shape: Shape | None
    words: int = 0
    target: str = "class"


def loss_of(model: Plain, out: torch.Tensor, labels: Callable[..., Any]) -> torch.Tensor:
    """Make the loss that such a model is trained with.

    Args:
        model: the model.
        out: what it gave out.
        labels: makes random labels of a number of classes and a shape.
    """
    if model.target == "mean":
        return f.mse_loss(out, torch.zeros_like(out))
    if model.target == "pixels":
        return f.cross_entropy(out, labels(out.shape[1], out.shape[0], *out.shape[2:]))
    flat = out.reshape(-1, out.shape[-1])
    return f.cross_entropy(flat, labels(out.shape[-1], flat.shape[0]))
