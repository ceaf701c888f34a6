"""Trains the two estimators of GPUMemNet. Needs torch; writes nothing, returns arrays for ``nets``.

Adam and cross-entropy, as in the dissertation; of all epochs the one with the best validation loss counts.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.gpumemnet.described import LAYER_TYPES, LONGEST, Described, sequence, totals
from estimator.gpumemnet.metrics import Scores, scores
from estimator.gpumemnet.nets import HEADS, ensemble, transformer

HIDDEN: tuple[tuple[int, ...], ...] = (
    (128,),
    (256,),
    (128, 64),
    (256, 128),
    (128, 128, 64),
    (256, 128, 64),
    (128, 128, 64, 64),
    (256, 128, 64, 32),
    (128, 128, 64, 64, 32),
    (256, 128, 128, 64, 32),
    (128, 128, 128, 64, 64, 32),
    (256, 256, 128, 128, 64, 32),
    (128, 128, 128, 64, 64, 32, 32),
)
"""Hidden layers of the 13 members: 1 to 7, of different widths."""

WIDTH = 64
BLOCKS = 2


@dataclass(frozen=True)
class Example:
    """One run: the model, its batch size and the measured memory in MiB."""

    model: Described
    batch_size: int
    memory_mib: float


@dataclass(frozen=True)
class Trained:
    """Arrays of a trained estimator, and how it does on examples that it has not seen."""

    arrays: dict[str, NDArray[Any]]
    test: Scores
    validation: Scores
    sizes: tuple[int, int, int]


@dataclass(frozen=True)
class Batch:
    """Examples as arrays; shapes as ``nets`` wants them, and the classes."""

    features: NDArray[np.float32]
    codes: NDArray[np.int64]
    sizes: NDArray[np.float32]
    mask: NDArray[np.bool_]
    classes: NDArray[np.int64]

    def part(self, rows: Sequence[int]) -> Batch:
        """Return some of the examples."""
        at = np.asarray(rows, dtype=np.int64)
        return Batch(self.features[at], self.codes[at], self.sizes[at], self.mask[at], self.classes[at])


def class_of(memory_mib: float, width_mib: int, count: int) -> int:
    """Return the class of an amount of memory: upper edges are ``width``, 2 x ``width``, ..."""
    return min(count - 1, max(0, -int(-memory_mib // width_mib) - 1))


def batch_of(examples: Sequence[Example], width_mib: int, count: int) -> Batch:
    """Turn examples into arrays.

    Args:
        examples: the runs.
        width_mib: width of a class.
        count: number of classes; larger amounts belong to the last.
    """
    rows = [sequence(example.model, LONGEST) for example in examples]
    longest = max(len(row) for row in rows)
    codes = np.zeros((len(rows), longest), np.int64)
    sizes = np.zeros((len(rows), longest, 2), np.float32)
    mask = np.zeros((len(rows), longest), np.bool_)
    for place, row in enumerate(rows):
        codes[place, : len(row)] = [code for code, _, _ in row]
        sizes[place, : len(row)] = [(a, b) for _, a, b in row]
        mask[place, : len(row)] = True
    features = np.array([totals(e.model, e.batch_size) for e in examples], np.float32)
    classes = np.array([class_of(e.memory_mib, width_mib, count) for e in examples], np.int64)
    return Batch(features, codes, sizes, mask, classes)


def split(count: int, seed: int) -> tuple[list[int], list[int], list[int]]:
    """Return 70 % of the rows for training, 20 % for validation and 10 % for the test, drawn with a seed."""
    order = list(range(count))
    random.Random(seed).shuffle(order)  # noqa: S311 - a seeded split, no secret
    first, second = round(0.7 * count), round(0.9 * count)
    return order[:first], order[first:second], order[second:]


def split_by_group(groups: Sequence[str], seed: int) -> tuple[list[int], list[int], list[int]]:
    """Split as ``split`` does, but never divide a group."""
    names = sorted(set(groups))
    parts = split(len(names), seed)
    kinds = [{names[place] for place in part} for part in parts]
    first, second, third = ([i for i, g in enumerate(groups) if g in kind] for kind in kinds)
    return first, second, third


def train(
    kind: str,
    data: Batch,
    parts: tuple[Sequence[int], Sequence[int], Sequence[int]],
    *,
    epochs: int,
    seed: int = 0,
) -> Trained:
    """Train one estimator.

    Args:
        kind: ``mlp`` for the ensemble, ``transformer``.
        data: all examples.
        parts: rows for training, validation and test.
        epochs: passes over the training rows.
        seed: equal seeds give equal networks on one machine.

    Returns:
        The arrays and the scores on validation and test rows, computed with numpy as users will.
    """
    import torch  # noqa: PLC0415

    torch.manual_seed(seed)
    learn, check, test = (data.part(rows) for rows in parts)
    classes = int(np.max(data.classes)) + 1
    arrays: dict[str, NDArray[Any]] = {"mean": learn.features.mean(0), "std": _spread(learn.features)}
    if kind == "mlp":
        for place, hidden in enumerate(HIDDEN):
            found = _train_member(hidden, classes, arrays, learn, check, epochs)
            arrays.update({f"m{place}.{name}": value for name, value in found.items()})
    else:
        real = learn.sizes[learn.mask]
        arrays.update(size_mean=real.mean(0), size_std=_spread(real))
        arrays.update(_train_transformer(classes, arrays, learn, check, epochs))
    return Trained(arrays, _score(kind, arrays, test), _score(kind, arrays, check), _lengths(parts))


def _spread(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return standard deviations to divide by; 1 for what never changed in training."""
    std = values.std(0)
    return np.where(std < 1e-3, np.float32(1), std).astype(np.float32)


def _lengths(parts: tuple[Sequence[int], Sequence[int], Sequence[int]]) -> tuple[int, int, int]:
    return len(parts[0]), len(parts[1]), len(parts[2])


def probabilities(kind: str, arrays: dict[str, NDArray[Any]], data: Batch) -> NDArray[np.float32]:
    """Return class probabilities of examples, shape (n, classes)."""
    if kind == "mlp":
        return ensemble(arrays, data.features)
    pieces = [
        transformer(arrays, p.features, p.codes, p.sizes, p.mask)
        for start in range(0, len(data.classes), 64)
        for p in [data.part(range(start, min(start + 64, len(data.classes))))]
    ]
    return np.concatenate(pieces)


def _score(kind: str, arrays: dict[str, NDArray[Any]], data: Batch) -> Scores:
    said = probabilities(kind, arrays, data).argmax(-1)
    return scores(data.classes.tolist(), said.tolist())


def _fit(model: Any, forward: Any, learn: Batch, check: Batch, epochs: int) -> None:
    """Run Adam and leave the model at the epoch with the least validation loss."""
    import torch  # noqa: PLC0415
    from torch.nn.functional import cross_entropy  # noqa: PLC0415

    tensors = [[torch.as_tensor(a) for a in _columns(part)] for part in (learn, check)]
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    best, kept = float("inf"), {k: v.clone() for k, v in model.state_dict().items()}
    rows = len(learn.classes)
    for _ in range(epochs):
        model.train()
        for at in torch.randperm(rows).split(128):
            optimizer.zero_grad()
            picked = [t[at] for t in tensors[0]]
            cross_entropy(forward(model, picked), picked[-1]).backward()
            optimizer.step()
        schedule.step()
        model.eval()
        with torch.no_grad():
            pieces = [[t[s : s + 512] for t in tensors[1]] for s in range(0, len(check.classes), 512)]
            loss = sum(float(cross_entropy(forward(model, p), p[-1], reduction="sum")) for p in pieces)
        if loss < best:
            best, kept = loss, {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(kept)


def _columns(data: Batch) -> tuple[NDArray[Any], ...]:
    return data.features, data.codes, data.sizes, data.mask, data.classes


def _train_member(
    hidden: tuple[int, ...], classes: int, arrays: dict[str, NDArray[Any]], learn: Batch, check: Batch, epochs: int
) -> dict[str, NDArray[Any]]:
    import torch  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    widths = [learn.features.shape[1], *hidden]
    steps: list[Any] = []
    for inp, out in itertools.pairwise(widths):
        steps += [nn.Linear(inp, out), nn.ReLU(), nn.Dropout(0.1)]
    model = nn.Sequential(*steps, nn.Linear(widths[-1], classes))
    mean, std = (torch.as_tensor(arrays[k]) for k in ("mean", "std"))
    _fit(model, lambda m, p: m((p[0] - mean) / std), learn, check, epochs)
    linears = [m for m in model if isinstance(m, nn.Linear)]
    return {f"{n}{i}": _numpy(t) for i, m in enumerate(linears) for n, t in (("w", m.weight), ("b", m.bias))}


def _numpy(tensor: Any) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().cpu().numpy()
    return array


def _train_transformer(
    classes: int, arrays: dict[str, NDArray[Any]], learn: Batch, check: Batch, epochs: int
) -> dict[str, NDArray[Any]]:
    import torch  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415

    width, features = WIDTH, learn.features.shape[1]
    parts: dict[str, Any] = {"sizes": nn.Linear(2, width)}
    for block in range(BLOCKS):
        parts[f"b{block}n1"], parts[f"b{block}n2"] = nn.LayerNorm(width), nn.LayerNorm(width)
        parts[f"b{block}qkv"], parts[f"b{block}out"] = nn.Linear(width, 3 * width), nn.Linear(width, width)
        parts[f"b{block}up"], parts[f"b{block}down"] = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
    parts["head0"], parts["head1"] = nn.Linear(width + features, 128), nn.Linear(128, classes)
    parts["types"], parts["places"] = nn.Embedding(len(LAYER_TYPES), width), nn.Embedding(LONGEST, width)
    model = nn.ModuleDict(parts)
    nn.init.normal_(model["places"].weight, std=0.02)
    fixed = {k: torch.as_tensor(v) for k, v in arrays.items()}

    def forward(m: Any, p: list[Any]) -> Any:
        totals, codes, sizes, mask = p[:4]
        x = m["types"](codes) + m["sizes"]((sizes - fixed["size_mean"]) / fixed["size_std"])
        x = x + m["places"].weight[: x.shape[1]]
        n, layers, _ = x.shape
        for b in range(BLOCKS):
            qkv = m[f"b{b}qkv"](m[f"b{b}n1"](x)).view(n, layers, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], attn_mask=mask[:, None, None, :])
            x = x + m[f"b{b}out"](mixed.transpose(1, 2).reshape(n, layers, width))
            x = x + m[f"b{b}down"](m[f"b{b}up"](m[f"b{b}n2"](x)).relu())
        weights = mask[..., None].float()
        pooled = (x * weights).sum(1) / weights.sum(1).clamp(min=1)
        joined = torch.cat([pooled, (totals - fixed["mean"]) / fixed["std"]], -1)
        return m["head1"](nn.functional.dropout(m["head0"](joined).relu(), 0.1, m.training))

    _fit(model, forward, learn, check, epochs)
    found: dict[str, NDArray[Any]] = {"types": _numpy(model["types"].weight), "places": _numpy(model["places"].weight)}
    names = {"sizes": "sizes.", "head0": "head.", "head1": "head."}
    for name, part in parts.items():
        if name in ("types", "places"):
            continue
        if name.startswith("head"):
            found[f"head.w{name[-1]}"], found[f"head.b{name[-1]}"] = _numpy(part.weight), _numpy(part.bias)
            continue
        prefix = names.get(name) or f"{name[:2]}.{name[2:]}."
        found[f"{prefix}w"], found[f"{prefix}b"] = _numpy(part.weight), _numpy(part.bias)
    return found
