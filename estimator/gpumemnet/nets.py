"""The trained networks of GPUMemNet, run with numpy. Pure functions of arrays; imports no torch.

``train`` writes the arrays that these functions read; a test holds both sides together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Arrays = Mapping[str, NDArray[Any]]

HEADS = 4
"""Attention heads of the Transformer estimator."""


def softmax(x: Array) -> Array:
    """Return the softmax over the last axis."""
    shifted = np.exp(x - x.max(-1, keepdims=True))
    result: Array = shifted / shifted.sum(-1, keepdims=True)
    return result


def ensemble(arrays: Arrays, features: Array) -> Array:
    """Return the mean class probabilities of the ensemble.

    Args:
        arrays: ``mean``, ``std`` of the features, and for member m, layer i ``m{m}.w{i}`` (out, in), ``m{m}.b{i}``.
        features: shape (n, features).

    Returns:
        Probabilities, shape (n, classes).
    """
    x: Array = (features - arrays["mean"]) / arrays["std"]
    members: list[Array] = []
    while f"m{len(members)}.w0" in arrays:
        members.append(softmax(_mlp(arrays, f"m{len(members)}.", x)))
    mean: Array = np.mean(members, axis=0)
    return mean


def _mlp(arrays: Arrays, prefix: str, x: Array) -> Array:
    place = 0
    while True:
        x = x @ arrays[f"{prefix}w{place}"].T + arrays[f"{prefix}b{place}"]
        place += 1
        if f"{prefix}w{place}" not in arrays:
            return x
        x = np.maximum(x, 0)


def transformer(
    arrays: Arrays, features: Array, codes: NDArray[np.int64], sizes: Array, mask: NDArray[np.bool_]
) -> Array:
    """Return the class probabilities of the Transformer estimator.

    Args:
        arrays: as ``train`` names them.
        features: totals, shape (n, features).
        codes: layer types, shape (n, layers).
        sizes: log activations and log parameters, shape (n, layers, 2).
        mask: true where there is a layer, shape (n, layers).

    Returns:
        Probabilities, shape (n, classes).
    """
    scaled = (sizes - arrays["size_mean"]) / arrays["size_std"]
    x: Array = arrays["types"][codes] + scaled @ arrays["sizes.w"].T + arrays["sizes.b"]
    x = x + arrays["places"][: x.shape[1]]
    block = 0
    while f"b{block}.qkv.w" in arrays:
        x = _block(arrays, f"b{block}.", x, mask)
        block += 1
    weights = mask[..., None].astype(np.float32)
    pooled = (x * weights).sum(1) / np.maximum(weights.sum(1), 1)
    totals = (features - arrays["mean"]) / arrays["std"]
    return softmax(_mlp(arrays, "head.", np.concatenate([pooled, totals], -1)))


def _block(arrays: Arrays, name: str, x: Array, mask: NDArray[np.bool_]) -> Array:
    n, layers, width = x.shape
    normed = _norm(arrays, f"{name}n1.", x)
    qkv = (normed @ arrays[f"{name}qkv.w"].T + arrays[f"{name}qkv.b"]).reshape(n, layers, 3, HEADS, width // HEADS)
    query, key, value = (qkv[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
    scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(width // HEADS).astype(np.float32)
    scores = np.where(mask[:, None, None, :], scores, np.float32(-1e9))
    mixed = (softmax(scores) @ value).transpose(0, 2, 1, 3).reshape(n, layers, width)
    x = x + mixed @ arrays[f"{name}out.w"].T + arrays[f"{name}out.b"]
    hidden = np.maximum(_norm(arrays, f"{name}n2.", x) @ arrays[f"{name}up.w"].T + arrays[f"{name}up.b"], 0)
    result: Array = x + hidden @ arrays[f"{name}down.w"].T + arrays[f"{name}down.b"]
    return result


def _norm(arrays: Arrays, name: str, x: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    spread = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    result: Array = (x - mean) / spread * arrays[f"{name}w"] + arrays[f"{name}b"]
    return result
