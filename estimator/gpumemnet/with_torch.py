"""GPUMemNet's ensemble run by torch, as the original runs it: only to measure what that takes. Needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.gpumemnet.method import Classifier, GpuMemNet


class GpuMemNetWithTorch(GpuMemNet):
    """The same networks with the same weights."""

    def __init__(self, classifiers: Mapping[str, Classifier], version: int | None = None) -> None:
        """Take trained classifiers; the networks are made when they are first used."""
        super().__init__(classifiers, version)
        self._made: dict[int, list[Any]] = {}

    def _ensemble(self, classifier: Classifier, features: NDArray[np.float32]) -> NDArray[Any]:
        import torch  # noqa: PLC0415

        members = self._members(classifier)
        with torch.inference_mode():
            mean, std = (torch.from_numpy(classifier.arrays[name]) for name in ("mean", "std"))
            inputs = (torch.from_numpy(features) - mean) / std
            chances = torch.stack([member(inputs).softmax(-1) for member in members]).mean(0)
        made: NDArray[Any] = chances.numpy()
        return made

    def _members(self, classifier: Classifier) -> list[Any]:
        """The networks of a classifier, made once."""
        made = self._made.get(id(classifier))
        if made is None:
            made = self._made[id(classifier)] = list(_networks(classifier.arrays))
        return made


def _networks(arrays: dict[str, NDArray[Any]]) -> Iterator[Any]:
    from torch import from_numpy, nn  # noqa: PLC0415

    member = 0
    while f"m{member}.w0" in arrays:
        steps: list[Any] = []
        while (weight := arrays.get(f"m{member}.w{len(steps) // 2}")) is not None:
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.weight = nn.Parameter(from_numpy(weight))
            linear.bias = nn.Parameter(from_numpy(arrays[f"m{member}.b{len(steps) // 2}"]))
            steps += [linear, nn.ReLU()]
        yield nn.Sequential(*steps[:-1])
        member += 1
