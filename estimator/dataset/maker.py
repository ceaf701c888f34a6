"""Makes random tensors as inputs and labels. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Maker:
    """Makes random tensors of one device and dtype."""

    device: torch.device
    dtype: torch.dtype

    def numbers(self, *shape: int) -> torch.Tensor:
        """Make random numbers of a shape."""
        return torch.randn(*shape, device=self.device, dtype=self.dtype)

    def labels(self, classes: int, *shape: int) -> torch.Tensor:
        """Make random whole numbers below ``classes`` of a shape."""
        return torch.randint(0, classes, shape, device=self.device)
