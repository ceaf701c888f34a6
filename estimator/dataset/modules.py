"""The torch modules of synthetic plans. Needs torch; used only where models are measured or traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from estimator.dataset.plans import Op


class ResidualBlock(nn.Module):
    """``act(body(x) + shortcut(x))``; the shortcut is the input itself where shapes agree."""

    def __init__(self, body: nn.Module, act: nn.Module, shortcut: nn.Module | None = None) -> None:
        super().__init__()
        self.body = body
        if shortcut is not None:
            self.shortcut = shortcut
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = self.body(x)
        way = self.shortcut(x) if hasattr(self, "shortcut") else x
        return self.act(out + way)


class DenseLayer(nn.Module):
    """The input and what ``body`` makes of it, one after the other in the channels."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        return torch.cat([x, self.body(x)], 1)


class Embeddings(nn.Module):
    """Token and position embeddings, added, normed, dropped out."""

    def __init__(self, tokens: nn.Module, positions: nn.Module, norm: nn.Module, dropout: nn.Module) -> None:
        super().__init__()
        self.tokens, self.positions = tokens, positions
        self.norm, self.dropout = norm, dropout

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Embed token ids of shape (batch, tokens)."""
        tokens = self.tokens(ids)
        places = self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.dropout(self.norm(tokens + places))


class SelfAttention(nn.Module):
    """Multi-head attention with one projection for queries, keys and values."""

    def __init__(
        self, qkv: nn.Module, dropout: nn.Module, out: nn.Module, *, heads: int, eager: bool, causal: bool
    ) -> None:
        super().__init__()
        self.qkv, self.dropout, self.out = qkv, dropout, out
        self.heads, self.eager, self.causal = heads, eager, causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend over a tensor of shape (batch, tokens, width)."""
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        if self.eager:
            scores = query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5
            mixed = self.dropout(scores.softmax(-1)) @ value
        else:
            rate = float(self.dropout.p) if self.training else 0.0
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class GatedFeedForward(nn.Module):
    """``down(act(gate(x)) * up(x))``, the feed-forward part of Llama and its kin."""

    def __init__(self, gate: nn.Module, up: nn.Module, act: nn.Module, down: nn.Module) -> None:
        super().__init__()
        self.gate, self.up, self.act, self.down = gate, up, act, down

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        return self.down(self.act(self.gate(x)) * self.up(x))


class TransformerBlock(nn.Module):
    """Attention and feed-forward with residuals, normed before (``prenorm``) or after each."""

    def __init__(self, prenorm: bool, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)
        self.prenorm = prenorm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        if self.prenorm:
            x = x + self.dropout1(self.attention(self.norm1(x)))
            return x + self.dropout2(self.feed_forward(self.norm2(x)))
        x = self.norm1(x + self.dropout1(self.attention(x)))
        return self.norm2(x + self.dropout2(self.feed_forward(x)))


class TransformerModel(nn.Module):
    """Embeddings, blocks, and a head: on every token (``lm``) or on the mean of all."""

    def __init__(
        self, embeddings: nn.Module, layers: nn.ModuleList, norm: nn.Module, head: nn.Module, lm: bool
    ) -> None:
        super().__init__()
        self.embeddings, self.layers, self.norm, self.head = embeddings, layers, norm, head
        self.lm = lm

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits for token ids of shape (batch, tokens)."""
        x = self.embeddings(ids)
        for block in self.layers:
            x = block(x)
        x = self.norm(x)
        return self.head(x if self.lm else x.mean(1))


_LEAVES: dict[str, Callable[[Op], nn.Module]] = {
    "Linear": lambda o: nn.Linear(o.args["inp"], o.args["out"], bias=o.args["bias"]),
    "Conv2d": lambda o: nn.Conv2d(
        o.args["inp"],
        o.args["out"],
        o.args["k"],
        stride=o.args["stride"],
        padding=o.args["k"] // 2,
        groups=o.args["groups"],
        bias=o.args["bias"],
    ),
    "BatchNorm1d": lambda o: nn.BatchNorm1d(o.args["n"]),
    "BatchNorm2d": lambda o: nn.BatchNorm2d(o.args["n"]),
    "LayerNorm": lambda o: nn.LayerNorm(o.args["n"]),
    "Dropout": lambda o: nn.Dropout(o.args["p"]),
    "ReLU": lambda o: nn.ReLU(inplace=o.args["inplace"]),
    "MaxPool2d": lambda o: nn.MaxPool2d(2),
    "AdaptiveAvgPool2d": lambda o: nn.AdaptiveAvgPool2d((1, 1)),
    "Flatten": lambda o: nn.Flatten(),
    "Embedding": lambda o: nn.Embedding(o.args["n"], o.args["width"]),
    "Softmax": lambda o: nn.Softmax(dim=1),
}

_COMPOSITES: dict[str, Callable[..., nn.Module]] = {
    "ResidualBlock": ResidualBlock,
    "DenseLayer": DenseLayer,
    "Embeddings": Embeddings,
    "SelfAttention": SelfAttention,
    "GatedFeedForward": GatedFeedForward,
    "TransformerBlock": TransformerBlock,
    "TransformerModel": TransformerModel,
}


def build(plan: Op) -> nn.Module:
    """Build the torch module of a plan on torch's default device."""
    children: dict[str, nn.Module] = {name: build(child) for name, child in plan.children.items()}
    if plan.kind == "Sequential":
        return nn.Sequential(*children.values())
    if plan.kind == "ModuleList":
        return nn.ModuleList(children.values())
    if plan.kind in _COMPOSITES:
        arguments: dict[str, Any] = {**children, **plan.args}
        return _COMPOSITES[plan.kind](**arguments)
    if plan.kind in _LEAVES:
        return _LEAVES[plan.kind](plan)
    module: nn.Module = getattr(nn, plan.kind)()
    return module
