"""The workloads that are measured together: built from code alone, without downloads. Needs PyTorch.

Each is a step function that queues one iteration on the device. ``tiny`` makes stand-ins that a processor
can run, to rehearse the whole measurement without a GPU.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everyone knows

from predictor.collection.specs import Spec

Step = Callable[[], None]


class Block(nn.Module):
    """A transformer block with fused attention."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Output for a batch."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal and cache is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Language(nn.Module):
    """BERT-like (not causal) and GPT-like (causal) language models."""

    def __init__(self, words: int, width: int, depth: int, causal: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, max(width // 64, 1), causal) for _ in range(depth))
        self.head = nn.Linear(width, words)

    def forward(self, ids: Tensor, caches: list[tuple[Tensor, Tensor]] | None = None) -> Tensor:
        """Output for a batch."""
        x = self.embed(ids)
        for index, block in enumerate(self.blocks):
            x = block(x, caches[index] if caches else None)
        return self.head(x)


class Speech(nn.Module):
    """A Whisper-like encoder: two convolutions over the spectrogram, then a transformer."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(80, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        self.blocks = nn.ModuleList(Block(width, max(width // 64, 1)) for _ in range(depth))

    def forward(self, sound: Tensor) -> Tensor:
        """Output for a batch."""
        x = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return x


class Vision(nn.Module):
    """A vision transformer."""

    def __init__(self, size: int, width: int, depth: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.place = nn.Parameter(torch.zeros(1, (size // 16) ** 2, width))
        self.blocks = nn.ModuleList(Block(width, max(width // 64, 1)) for _ in range(depth))
        self.head = nn.Linear(width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        """Output for a batch."""
        x = self.patch(images).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Recommender(nn.Module):
    """A DLRM-like model: embedding tables, a bottom and a top MLP."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear((tables + 1) * width, 1024), nn.ReLU(), nn.Linear(1024, 1))

    def forward(self, packed: Tensor) -> Tensor:
        """Output for a batch."""
        dense, sparse = packed[:, :13], packed[:, 13:].long()
        found = [table(sparse[:, index : index + 1]) for index, table in enumerate(self.tables)]
        return self.top(torch.cat([self.bottom(dense), *found], 1))


class Recurrent(nn.Module):
    """A recurrent network over speech frames."""

    def __init__(self, cells: nn.RNNBase) -> None:
        super().__init__()
        self.cells = cells
        self.head = nn.Linear(cells.hidden_size, 64)

    def forward(self, frames: Tensor) -> Tensor:
        """Output for a batch."""
        return self.head(self.cells(frames)[0])


class Graph(nn.Module):
    """Message passing over the edges of a random graph; a batch is one whole graph."""

    def __init__(self, nodes: int, edges: int, width: int, depth: int) -> None:
        super().__init__()
        chance = torch.Generator().manual_seed(0)
        self.register_buffer("ends", torch.randint(nodes, (2, edges), generator=chance))
        self.layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))

    def forward(self, graphs: Tensor) -> Tensor:
        """Output for a batch."""
        x = graphs.flatten(0, 1)
        for layer in self.layers:
            heard = torch.zeros_like(x).index_add(0, self.ends[1], x[self.ends[0]])
            x = F.relu(layer(torch.cat([x, heard], 1)))
        return x


class Unet(nn.Module):
    """A small U-Net for segmentation."""

    def __init__(self, width: int) -> None:
        super().__init__()

        def double(inputs: int, outputs: int) -> nn.Module:
            first = [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
            return nn.Sequential(*first, nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU())

        sizes = [width * 2**level for level in range(4)]
        self.down = nn.ModuleList(double(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in itertools.pairwise(sizes))
        self.merge = nn.ModuleList(double(2 * a, a) for a in sizes[:-1])
        self.head = nn.Conv2d(width, 8, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Output for a batch."""
        kept = []
        x = images
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for level in reversed(range(len(self.up))):
            x = self.merge[level](torch.cat([kept[level], self.up[level](x)], 1))
        return self.head(x)


TORCHVISION = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "vgg16": "vgg16",
    "mobilenet": "mobilenet_v2",
    "densenet": "densenet121",
    "swin": "swin_t",
    "convnext": "convnext_tiny",
}
"""Families whose model torchvision builds, and its name there."""


def _torchvision(name: str) -> nn.Module:
    from torchvision import models  # noqa: PLC0415 - only the GPU machine has it

    built: nn.Module = attrgetter(name)(models)(weights=None)
    return built


def _mlp(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers)


def build_model(spec: Spec, tiny: bool = False) -> tuple[nn.Module, tuple[int, ...], str]:
    """The model of a workload, the shape of its input without the batch, and what it is made of.

    Returns:
        Model, shape, and ``float``, ``ids`` (token numbers) or ``packed`` (dense values, then row numbers).
    """
    if spec.family in (*TORCHVISION, "r3d", "unet", "vit"):
        return *_build_vision(spec, tiny), "float"
    width, depth = (64, 2) if tiny else (768, 12)
    frames = (20 if tiny else 200, 80)
    if spec.family == "bert":
        return Language(500 if tiny else 30000, width, depth, causal=False), (16 if tiny else 128,), "ids"
    if spec.family == "gpt":
        length = 1 if spec.kind == "infer" else (16 if tiny else 512)
        return Language(500 if tiny else 50000, width if tiny else 1024, depth, causal=True), (length,), "ids"
    if spec.family == "dlrm":
        tables, rows = (3, 100) if tiny else (26, 100_000)
        return Recommender(tables, rows, 16 if tiny else 64), (13 + tables,), "packed"
    if spec.family == "whisper":
        return Speech(width, depth), (80, 60 if tiny else 3000), "float"
    if spec.family == "lstm":
        return Recurrent(nn.LSTM(80, 32 if tiny else 1024, 2 if tiny else 4, batch_first=True)), frames, "float"
    if spec.family == "gru":
        return Recurrent(nn.GRU(80, 32 if tiny else 512, 2 if tiny else 3, batch_first=True)), frames, "float"
    if spec.family == "gnn":
        nodes, edges = (50, 100) if tiny else (30_000, 400_000)
        return Graph(nodes, edges, 8 if tiny else 128, 2 if tiny else 4), (nodes, 8 if tiny else 128), "float"
    if spec.family == "mlp":
        return _mlp(64 if tiny else 4096, 2 if tiny else 8), (64 if tiny else 4096,), "float"
    raise ValueError(f"no workload of family {spec.family!r}")


def _build_vision(spec: Spec, tiny: bool) -> tuple[nn.Module, tuple[int, ...]]:
    size = 32 if tiny else 224
    image = (3, size, size)
    if spec.family == "unet":
        return Unet(4 if tiny else 48), image
    if spec.family == "vit":
        return Vision(size, 64 if tiny else 768, 2 if tiny else 12), image
    if spec.family == "r3d":
        if tiny:
            return nn.Sequential(nn.Conv3d(3, 4, 3), nn.ReLU(), nn.Flatten()), (3, 4, 16, 16)
        return _torchvision("video.r3d_18"), (3, 16, 112, 112)
    if tiny:
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 9)
        ), image
    return _torchvision(TORCHVISION[spec.family]), image


def _inputs(batch: int, shape: tuple[int, ...], content: str, rows: int) -> Tensor:
    if content == "ids":
        return torch.randint(rows, (batch, *shape))
    values = torch.randn(batch, *shape)
    if content == "packed":
        values[:, 13:] = torch.randint(rows, (batch, shape[0] - 13)).float()
    return values


def build(spec: Spec, device: str, tiny: bool = False) -> Step:
    """The step function of a workload, its model and data already on ``device``."""
    torch.manual_seed(0)
    model, shape, content = build_model(spec, tiny)
    batch = min(spec.batch, 4) if tiny else spec.batch
    host = _inputs(batch, shape, content, 100 if tiny else 10_000)
    model.to(device)
    if spec.copies and device == "cuda":
        host = host.pin_memory()
    there = host.to(device)

    def data() -> Tensor:
        if spec.host_ms:
            time.sleep(spec.host_ms / 1e3)
        return host.to(device, non_blocking=True) if spec.copies else there

    def precision() -> AbstractContextManager[Any]:
        return torch.autocast(device, dtype=torch.bfloat16) if spec.amp else nullcontext()

    if spec.kind == "train":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)

        def train() -> None:
            optimizer.zero_grad(set_to_none=True)
            with precision():
                loss = model(data()).float().square().mean()
            loss.backward()
            optimizer.step()

        return train

    model.eval()
    extra: tuple[Any, ...] = ()
    if spec.family == "gpt":
        assert isinstance(model, Language)
        first = model.blocks[0]
        assert isinstance(first, Block)
        past = 16 if tiny else 512
        size = (batch, first.heads, past, model.head.in_features // first.heads)
        kind = torch.bfloat16 if spec.amp else torch.float32
        extra = ([(torch.zeros(size, device=device, dtype=kind),) * 2 for _ in model.blocks],)

    def infer() -> None:
        with torch.inference_mode(), precision():
            model(data(), *extra)

    return infer
