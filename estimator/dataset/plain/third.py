"""Models of users, of the third collection: designs that the second lacks. Needs torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as f

from estimator.dataset.plain.model import Plain


class Basic(nn.Module):
    """Two convolutions and a shortcut, as networks for small pictures have them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = self.bn2(self.conv2(f.relu(self.bn1(self.conv1(x)))))
        return f.relu(out + self.shortcut(x))


class CifarResnet(nn.Module):
    """ResNet for pictures of 32 pixels."""

    def __init__(self, blocks: tuple[int, ...], width: int = 64) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        layers: list[nn.Module] = []
        before = width
        for stage, count in enumerate(blocks):
            after = width * 2**stage
            for i in range(count):
                layers.append(Basic(before, after, 2 if stage and not i else 1))
                before = after
        self.layers = nn.Sequential(*layers)
        self.linear = nn.Linear(before, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        out = self.layers(f.relu(self.bn1(self.conv1(x))))
        return self.linear(f.adaptive_avg_pool2d(out, 1).flatten(1))


def cifar_vgg(plan: str) -> nn.Module:
    """Make a VGG for small pictures of its widths and pools."""
    layers: list[nn.Module] = []
    before = 3
    for item in plan.split():
        if item == "M":
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(before, int(item), 3, padding=1), nn.BatchNorm2d(int(item)), nn.ReLU(inplace=True)]
        before = int(item)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before, 10))


class Head(nn.Module):
    """Attention over tokens with its matrix written out, rotary or not."""

    def __init__(self, width: int, heads: int, groups: int, rotary: bool, fused: bool, causal: bool) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.rotary, self.fused, self.causal = rotary, fused, causal
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, groups * self.size, bias=False)
        self.wv = nn.Linear(width, groups * self.size, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def _turn(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.shape[2], device=x.device)[:, None]
        rate = 10000 ** (-torch.arange(0, self.size, 2, device=x.device) / self.size)
        sin, cos = (steps * rate).sin().to(x.dtype), (steps * rate).cos().to(x.dtype)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix tokens."""
        b, t, c = x.shape
        q = self.wq(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k = self.wk(x).view(b, t, self.groups, self.size).transpose(1, 2)
        v = self.wv(x).view(b, t, self.groups, self.size).transpose(1, 2)
        if self.rotary:
            q, k = self._turn(q), self._turn(k)
        k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        if self.fused:
            out = f.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.size)
            if self.causal:
                scores = scores.masked_fill(torch.ones(t, t, device=x.device).triu(1).bool(), float("-inf"))
            out = scores.softmax(-1) @ v
        return self.wo(out.transpose(1, 2).reshape(b, t, c))


class Norm(nn.Module):
    """Root mean square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale tokens."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Gated(nn.Module):
    """Feed-forward layer with a gate."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Change each token."""
        return self.w2(f.silu(self.w1(x)) * self.w3(x))


class Experts(nn.Module):
    """Every token goes to its best two of several feed-forward layers."""

    def __init__(self, width: int, hidden: int, count: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(Gated(width, hidden) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Change each token."""
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(flat).softmax(-1).topk(2, -1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            rows, place = (chosen == i).nonzero(as_tuple=True)
            out = out.index_add(0, rows, expert(flat[rows]) * weights[rows, place, None].to(flat.dtype))
        return out.view_as(x)


class Layer(nn.Module):
    """Attention and feed-forward layer, norms first."""

    def __init__(self, attention: nn.Module, change: nn.Module, norms: tuple[nn.Module, nn.Module]) -> None:
        super().__init__()
        self.attention, self.feed_forward = attention, change
        self.norm1, self.norm2 = norms

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    """A language model in the manner of Llama, with or without experts."""

    def __init__(self, width: int, depth: int, heads: int, groups: int, words: int, experts: int = 0) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, width)
        hidden = width * 8 // 3 // 64 * 64
        self.layers = nn.ModuleList(
            Layer(
                Head(width, heads, groups, True, True, True),
                Experts(width, hidden // 2, experts) if experts else Gated(width, hidden),
                (Norm(width), Norm(width)),
            )
            for _ in range(depth)
        )
        self.norm = Norm(width)
        self.output = nn.Linear(width, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Predict the next token."""
        x = self.tok_embeddings(x)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


class Bert(nn.Module):
    """An encoder from a tutorial: attention written out, learned positions."""

    def __init__(self, width: int, depth: int, heads: int, words: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(
            Layer(
                Head(width, heads, heads, False, False, False),
                nn.Sequential(
                    nn.Linear(width, 4 * width),
                    nn.GELU(),
                    nn.Dropout(0.1),
                    nn.Linear(4 * width, width),
                    nn.Dropout(0.1),
                ),
                (nn.LayerNorm(width), nn.LayerNorm(width)),
            )
            for _ in range(depth)
        )
        self.mask_lm = nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Name the hidden words."""
        x = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.mask_lm(x)


class Mixer(nn.Module):
    """MLP-Mixer's block."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, width // 2), nn.GELU(), nn.Linear(width // 2, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix tokens, then channels."""
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class PatchNet(nn.Module):
    """Patches, blocks, mean, classes."""

    def __init__(self, width: int, patch: int, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, patch, patch)
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


class Modulated(nn.Module):
    """A block of a diffusion transformer: norms without weights, shifted and scaled by the step."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        a, b, g, d, e, h = self.adaLN_modulation(c)[:, None].chunk(6, -1)
        y = self.norm1(x) * (1 + b) + a
        x = x + g * self.attn(y, y, y, need_weights=False)[0]
        return x + h * self.mlp(self.norm2(x) * (1 + e) + d)


class Dit(nn.Module):
    """A diffusion transformer on latent pictures."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.x_embedder = nn.Conv2d(4, width, 2, 2)
        self.t_embedder = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(Modulated(width, heads) for _ in range(depth))
        self.final_layer = nn.Linear(width, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Predict the noise."""
        b = x.shape[0]
        steps = torch.rand(b, 256, device=x.device, dtype=x.dtype)
        x, c = self.x_embedder(x).flatten(2).transpose(1, 2), self.t_embedder(steps)
        for block in self.blocks:
            x = block(x, c)
        return self.final_layer(x)


class Cycle(nn.Module):
    """CycleGAN's generator: down, residual blocks with instance norm, up."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        norm = nn.InstanceNorm2d

        def unit(a: int, b: int, k: int, s: int) -> list[nn.Module]:
            return [nn.Conv2d(a, b, k, s, 0 if k == 7 else 1), norm(b), nn.ReLU(inplace=True)]

        self.head = nn.Sequential(nn.ReflectionPad2d(3), *unit(3, width, 7, 1))
        self.down = nn.Sequential(*unit(width, 2 * width, 3, 2), *unit(2 * width, 4 * width, 3, 2))
        self.body = nn.ModuleList(
            nn.Sequential(*unit(4 * width, 4 * width, 3, 1), nn.Conv2d(4 * width, 4 * width, 3, 1, 1), norm(4 * width))
            for _ in range(blocks)
        )
        up: list[nn.Module] = []
        for a in (4 * width, 2 * width):
            up += [nn.ConvTranspose2d(a, a // 2, 3, 2, 1, 1), norm(a // 2), nn.ReLU(inplace=True)]
        self.up = nn.Sequential(*up, nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Change pictures."""
        x = self.down(self.head(x))
        for block in self.body:
            x = x + block(x)
        return self.up(x)


class Segnet(nn.Module):
    """Encoder and decoder joined by the places of the largest."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [3, width, 2 * width, 4 * width, 8 * width]
        self.enc = nn.ModuleList(self._unit(a, b) for a, b in itertools.pairwise(widths))
        self.dec = nn.ModuleList(
            self._unit(b, a if a > 3 else width) for a, b in reversed(list(itertools.pairwise(widths)))
        )
        self.out = nn.Conv2d(width, 12, 3, padding=1)

    @staticmethod
    def _unit(a: int, b: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label pixels."""
        places = []
        for unit in self.enc:
            x, where = f.max_pool2d(unit(x), 2, return_indices=True)
            places.append(where)
        for unit in self.dec:
            x = unit(f.max_unpool2d(x, places.pop(), 2))
        return self.out(x)


class Fcn(nn.Module):
    """A fully convolutional network with bilinear upsampling."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        before = 3
        for i in range(4):
            after = width * 2**i
            self.stages.append(
                nn.Sequential(
                    nn.Conv2d(before, after, 3, padding=1),
                    nn.ReLU(),
                    nn.Conv2d(after, after, 3, padding=1),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                )
            )
            before = after
        self.scores = nn.ModuleList(nn.Conv2d(width * 2**i, 21, 1) for i in (1, 2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label pixels."""
        size = x.shape[-2:]
        total: torch.Tensor | None = None
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i:
                score = f.interpolate(self.scores[i - 1](x), size=size, mode="bilinear", align_corners=False)
                total = score if total is None else total + score
        assert total is not None
        return total


class Darknet(nn.Module):
    """A detector's trunk and its grid of boxes."""

    def __init__(self, width: int, repeats: tuple[int, ...]) -> None:
        super().__init__()
        layers = [self._unit(3, width, 3, 1)]
        for i, count in enumerate(repeats):
            a = width * 2**i
            layers.append(self._unit(a, 2 * a, 3, 2))
            layers += [nn.Sequential(self._unit(2 * a, a, 1, 1), self._unit(a, 2 * a, 3, 1)) for _ in range(count)]
        self.layers = nn.ModuleList(layers)
        self.detect = nn.Conv2d(width * 2 ** len(repeats), 255, 1)

    @staticmethod
    def _unit(a: int, b: int, k: int, s: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Find boxes."""
        for layer in self.layers:
            y = layer(x)
            x = x + y if y.shape == x.shape else y
        return self.detect(x)


class Wave(nn.Module):
    """WaveNet: gates of dilated convolutions, skips added up."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, width, 1)
        self.filters = nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2 ** (i % 10)) for i in range(layers))
        self.gates = nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2 ** (i % 10)) for i in range(layers))
        self.residuals = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(width, 4 * width, 1) for _ in range(layers))
        self.end1, self.end2 = nn.Conv1d(4 * width, 4 * width, 1), nn.Conv1d(4 * width, 256, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Predict the next sample."""
        x = self.start(x)
        total: torch.Tensor | int = 0
        for filt, gate, residual, skip in zip(self.filters, self.gates, self.residuals, self.skips, strict=True):
            padded = f.pad(x, (filt.dilation[0], 0))
            y = torch.tanh(filt(padded)) * torch.sigmoid(gate(padded))
            total = total + skip(y)
            x = x + residual(y)
        return self.end2(f.relu(self.end1(f.relu(total))))


class Sound(nn.Module):
    """M5 and deeper: one-dimensional convolutions on raw sound."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(1, width, 80, 16), nn.BatchNorm1d(width)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(depth))
        self.fc = nn.Linear(width, 35)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Name the word."""
        x = f.relu(self.bn1(self.conv1(x)))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = f.max_pool1d(f.relu(norm(conv(x))), 2)
        return self.fc(x.mean(-1))


class Ecg(nn.Module):
    """A residual network of one dimension."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv1d(12, width, 15, 2, 7)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm1d(width),
                nn.ReLU(),
                nn.Conv1d(width, width, 15, padding=7),
                nn.BatchNorm1d(width),
                nn.ReLU(),
                nn.Dropout(0.2),
                nn.Conv1d(width, width, 15, padding=7),
            )
            for _ in range(depth)
        )
        self.fc = nn.Linear(width, 9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify heartbeats."""
        x = self.stem(x)
        for i, block in enumerate(self.blocks):
            x = x + block(x)
            if i % 2:
                x = f.max_pool1d(x, 2)
        return self.fc(x.mean(-1))


class Eeg(nn.Module):
    """EEGNet: temporal, spatial and separable convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.temporal = nn.Sequential(nn.Conv2d(1, width, (1, 64), padding="same", bias=False), nn.BatchNorm2d(width))
        self.spatial = nn.Sequential(
            nn.Conv2d(width, 2 * width, (64, 1), groups=width, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ELU(),
            nn.AvgPool2d((1, 4)),
            nn.Dropout(0.5),
        )
        self.separable = nn.Sequential(
            nn.Conv2d(2 * width, 2 * width, (1, 16), padding="same", groups=2 * width, bias=False),
            nn.Conv2d(2 * width, 2 * width, 1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ELU(),
            nn.AvgPool2d((1, 8)),
            nn.Dropout(0.5),
        )
        self.classify = nn.Linear(2 * width * 16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify what was thought of."""
        return self.classify(self.separable(self.spatial(self.temporal(x))).flatten(1))


class Nerf(nn.Module):
    """A field of colours: sines of places into a deep perceptron."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(60 if i == 0 else width + 60 * (i == 4), width) for i in range(depth))
        self.rgb, self.sigma = nn.Linear(width, 3), nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return colour and density."""
        rates = 2 ** torch.arange(10, device=x.device, dtype=x.dtype)
        turned = (x[..., None] * rates).flatten(-2)
        embedded = torch.cat([turned.sin(), turned.cos()], -1)
        y = embedded
        for i, layer in enumerate(self.layers):
            y = f.relu(layer(torch.cat([y, embedded], -1) if i == 4 else y))
        return torch.cat([self.rgb(y).sigmoid(), f.relu(self.sigma(y))], -1)


class Tabular(nn.Module):
    """A residual perceptron for tables."""

    def __init__(self, features: int, width: int, depth: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm1d(width),
                nn.Linear(width, 2 * width),
                nn.ReLU(),
                nn.Dropout(0.2),
                nn.Linear(2 * width, width),
            )
            for _ in range(depth)
        )
        self.last = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify rows."""
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(f.relu(x))


class FeatureTokens(nn.Module):
    """A transformer over the columns of a table."""

    def __init__(self, columns: int, width: int, depth: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns, width))
        self.bias = nn.Parameter(torch.zeros(columns, width))
        layer = nn.TransformerEncoderLayer(width, 8, 2 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify rows."""
        return self.head(self.encoder(x[..., None] * self.weight + self.bias).mean(1))


class DeepFm(nn.Module):
    """Factorization machine and perceptron on the same embedded fields."""

    def __init__(self, fields: int, words: int, width: int) -> None:
        super().__init__()
        self.fields, self.words = fields, words
        self.linear = nn.Embedding(words, 1)
        self.embedding = nn.Embedding(words, width)
        sizes = [fields * width, 400, 400, 400]
        self.mlp = nn.Sequential(
            *(
                m
                for a, b in itertools.pairwise(sizes)
                for m in (nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(0.2))
            )
        )
        self.out = nn.Linear(400, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Guess a click."""
        vectors = self.embedding(x)
        pairs = 0.5 * (vectors.sum(1).pow(2) - vectors.pow(2).sum(1)).sum(1, keepdim=True)
        return self.linear(x).sum(1) + pairs + self.out(self.mlp(vectors.flatten(1)))


class TextCnn(nn.Module):
    """Convolutions of several lengths over words."""

    def __init__(self, words: int, width: int, filters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.convs = nn.ModuleList(nn.Conv2d(1, filters, (k, width)) for k in (3, 4, 5))
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(3 * filters, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify a text."""
        x = self.embedding(x).unsqueeze(1)
        found = [f.relu(conv(x)).squeeze(3) for conv in self.convs]
        return self.fc(self.dropout(torch.cat([f.max_pool1d(y, y.size(2)).squeeze(2) for y in found], 1)))


class Speech(nn.Module):
    """Convolutions over a spectrogram, recurrent layers, characters."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5)),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
        )
        self.rnn = nn.GRU(32 * 32, width, depth, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * width, 29)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Spell what was said."""
        x = self.conv(x).flatten(1, 2).transpose(1, 2)
        return self.fc(self.rnn(x)[0])


class Beats(nn.Module):
    """N-BEATS: stacked perceptrons, each explains what is left."""

    def __init__(self, past: int, future: int, width: int, blocks: int) -> None:
        super().__init__()
        self.future = future
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(past, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, past + future)
            )
            for _ in range(blocks)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Continue a series."""
        total = x.new_zeros(x.shape[0], self.future)
        for block in self.blocks:
            out = block(x)
            x = x - out[:, : -self.future]
            total = total + out[:, -self.future :]
        return total


class Quantizer(nn.Module):
    """A VQ-VAE: pictures to the nearest of learned vectors and back."""

    def __init__(self, width: int, codes: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width // 2, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width // 2, width, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width, 64, 1),
        )
        self.codebook = nn.Embedding(codes, 64)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(64, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rebuild pictures."""
        z = self.encoder(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 64)
        far = (
            flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.codebook.weight.t() + self.codebook.weight.pow(2).sum(1)
        )
        near = self.codebook(far.argmin(1)).view(z.shape[0], *z.shape[2:], 64).permute(0, 3, 1, 2)
        return self.decoder(z + (near - z).detach())


class Actor(nn.Module):
    """An agent's network for games: convolutions, then values of actions."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2)
        self.conv3 = nn.Conv2d(64, 64, 3, 1)
        self.fc1, self.fc2 = nn.Linear(3136, hidden), nn.Linear(hidden, 18)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rate actions."""
        x = f.relu(self.conv3(f.relu(self.conv2(f.relu(self.conv1(x))))))
        return self.fc2(f.relu(self.fc1(x.flatten(1))))


class Vnet(nn.Module):
    """A U-Net of three dimensions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.encoders = nn.ModuleList(self._unit(a, b) for a, b in itertools.pairwise([1, *widths]))
        self.ups = nn.ModuleList(nn.ConvTranspose3d(2 * a, a, 2, 2) for a in widths[-2::-1])
        self.decoders = nn.ModuleList(self._unit(2 * a, a) for a in widths[-2::-1])
        self.final = nn.Conv3d(width, 3, 1)

    @staticmethod
    def _unit(a: int, b: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv3d(a, b, 3, padding=1),
            nn.GroupNorm(4, b),
            nn.ReLU(),
            nn.Conv3d(b, b, 3, padding=1),
            nn.GroupNorm(4, b),
            nn.ReLU(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label voxels."""
        kept: list[torch.Tensor] = []
        for i, unit in enumerate(self.encoders):
            x = unit(f.max_pool3d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for up, unit in zip(self.ups, self.decoders, strict=True):
            x = unit(torch.cat([kept.pop(), up(x)], 1))
        return self.final(x)


class AttentionGate(nn.Module):
    """Weighs what a skip brings by what comes from below."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.w_g = nn.Sequential(nn.Conv2d(width, width // 2, 1), nn.BatchNorm2d(width // 2))
        self.w_x = nn.Sequential(nn.Conv2d(width, width // 2, 1), nn.BatchNorm2d(width // 2))
        self.psi = nn.Sequential(nn.Conv2d(width // 2, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

    def forward(self, g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Weigh the skip."""
        return x * self.psi(f.relu(self.w_g(g) + self.w_x(x)))


class AttentionUnet(nn.Module):
    """A U-Net whose skips are weighed; it grows by upsampling."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(4)]
        self.downs = nn.ModuleList(self._unit(a, b) for a, b in itertools.pairwise([3, *widths]))
        self.grow = nn.ModuleList(
            nn.Sequential(
                nn.Upsample(scale_factor=2), nn.Conv2d(2 * a, a, 3, padding=1), nn.BatchNorm2d(a), nn.ReLU(inplace=True)
            )
            for a in widths[-2::-1]
        )
        self.gates = nn.ModuleList(AttentionGate(a) for a in widths[-2::-1])
        self.ups = nn.ModuleList(self._unit(2 * a, a) for a in widths[-2::-1])
        self.final = nn.Conv2d(width, 1, 1)

    @staticmethod
    def _unit(a: int, b: int) -> nn.Module:
        steps: list[nn.Module] = []
        for before in (a, b):
            steps += [nn.Conv2d(before, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        return nn.Sequential(*steps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mark an organ."""
        kept: list[torch.Tensor] = []
        for i, unit in enumerate(self.downs):
            x = unit(f.max_pool2d(x, 2) if i else x)
            kept.append(x)
        kept.pop()
        for grow, gate, unit in zip(self.grow, self.gates, self.ups, strict=True):
            x = grow(x)
            x = unit(torch.cat([gate(x, kept.pop()), x], 1))
        return self.final(x)


class LongMemory(nn.Module):
    """Words in, words out: recurrent encoder and decoder with attention between them."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embed_in, self.embed_out = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.LSTM(width, width, 2, batch_first=True, dropout=0.1)
        self.decoder = nn.LSTM(width, width, 2, batch_first=True, dropout=0.1)
        self.attend = nn.Linear(width, width, bias=False)
        self.join, self.out = nn.Linear(2 * width, width), nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Translate."""
        known, state = self.encoder(self.embed_in(x))
        asked, _ = self.decoder(self.embed_out(x.flip(1)), state)
        weights = (self.attend(asked) @ known.transpose(1, 2)).softmax(-1)
        return self.out(torch.tanh(self.join(torch.cat([weights @ known, asked], -1))))


class Gnn(nn.Module):
    """Graph convolutions over a dense adjacency that is learned from the nodes."""

    def __init__(self, features: int, width: int, depth: int) -> None:
        super().__init__()
        sizes = [features, *[width] * depth]
        self.lins = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.out = nn.Linear(width, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify nodes."""
        near = f.normalize(x, dim=-1)
        adjacency = (near @ near.transpose(1, 2)).softmax(-1)
        for lin in self.lins:
            x = f.dropout(f.relu(adjacency @ lin(x)), 0.5, self.training)
        return self.out(x)


class Denoiser(nn.Module):
    """DnCNN: the noise is what a deep plain network finds."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.dncnn = nn.Sequential(*layers, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take the noise away."""
        return x - self.dncnn(x)


class Squeeze(nn.Module):
    """Channel attention of a super-resolution network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(width, width // 16, 1),
            nn.ReLU(),
            nn.Conv2d(width // 16, width, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        y = self.body(x)
        return x + y * self.gate(y)


def _rcan(width: int, depth: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        *(Squeeze(width) for _ in range(depth)),
        nn.Conv2d(width, 12, 3, padding=1),
        nn.PixelShuffle(2),
    )


class Dense(nn.Module):
    """DenseNet for small pictures."""

    def __init__(self, growth: int, blocks: tuple[int, ...]) -> None:
        super().__init__()
        width = 2 * growth
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.blocks, self.transitions = nn.ModuleList(), nn.ModuleList()
        for count in blocks:
            layers = nn.ModuleList()
            for _ in range(count):
                layers.append(
                    nn.Sequential(
                        nn.BatchNorm2d(width),
                        nn.ReLU(),
                        nn.Conv2d(width, 4 * growth, 1, bias=False),
                        nn.BatchNorm2d(4 * growth),
                        nn.ReLU(),
                        nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
                    )
                )
                width += growth
            self.blocks.append(layers)
            self.transitions.append(nn.Conv2d(width, width // 2, 1, bias=False))
            width //= 2
        self.linear = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = self.conv1(x)
        for layers, shrink in zip(self.blocks, self.transitions, strict=True):
            for layer in layers:
                x = torch.cat([x, layer(x)], 1)
            x = f.avg_pool2d(shrink(x), 2)
        return self.linear(x.mean((2, 3)))


def perceptron(sizes: tuple[int, ...], act: Callable[[], nn.Module]) -> nn.Module:
    """Make linear layers of these sizes."""
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def _convmixer(width: int, depth: int, kernel: int, patch: int) -> nn.Module:
    class Residual(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + x

    def after() -> list[nn.Module]:
        return [nn.GELU(), nn.BatchNorm2d(width)]

    blocks = (
        nn.Sequential(
            Residual(nn.Conv2d(width, width, kernel, groups=width, padding="same"), *after()),
            nn.Conv2d(width, width, 1),
            *after(),
        )
        for _ in range(depth)
    )
    stem = nn.Conv2d(3, width, patch, patch)
    return nn.Sequential(stem, *after(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 100))


MODELS: dict[str, Plain] = {
    "cifar_resnet18": Plain(lambda: CifarResnet((2, 2, 2, 2)), (3, 32, 32)),
    "cifar_resnet56": Plain(lambda: CifarResnet((9, 9, 9), 16), (3, 32, 32)),
    "cifar_vgg11": Plain(lambda: cifar_vgg("64 M 128 M 256 256 M 512 512 M 512 512 M"), (3, 32, 32)),
    "cifar_vgg16": Plain(lambda: cifar_vgg("64 64 M 128 128 M 256 256 256 M 512 512 512 M 512 512 512 M"), (3, 32, 32)),
    "cifar_dense": Plain(lambda: Dense(12, (6, 12, 24, 16)), (3, 32, 32)),
    "tiny_llama": Plain(lambda: Decoder(512, 8, 8, 4, 32000), None, 32000),
    "tiny_llama_wide": Plain(lambda: Decoder(1024, 12, 16, 4, 32000), None, 32000),
    "moe_gpt": Plain(lambda: Decoder(512, 8, 8, 8, 32000, 8), None, 32000),
    "own_bert": Plain(lambda: Bert(512, 8, 8, 30000), None, 30000),
    "own_bert_base": Plain(lambda: Bert(768, 12, 12, 30522), None, 30522),
    "own_mixer": Plain(lambda: PatchNet(512, 16, [Mixer(196, 512) for _ in range(8)]), (3, 224, 224)),
    "dit_s": Plain(lambda: Dit(384, 12, 6), (4, 32, 32), target="mean"),
    "dit_b": Plain(lambda: Dit(768, 12, 12), (4, 32, 32), target="mean"),
    "cyclegan_6": Plain(lambda: Cycle(64, 6), (3, 128, 128), target="mean"),
    "cyclegan_9": Plain(lambda: Cycle(64, 9), (3, 256, 256), target="mean"),
    "segnet": Plain(lambda: Segnet(64), (3, 256, 256), target="pixels"),
    "own_fcn": Plain(lambda: Fcn(64), (3, 256, 256), target="pixels"),
    "darknet_small": Plain(lambda: Darknet(32, (1, 2, 2, 2, 1)), (3, 256, 256), target="mean"),
    "darknet53": Plain(lambda: Darknet(32, (1, 2, 8, 8, 4)), (3, 416, 416), target="mean"),
    "wavenet": Plain(lambda: Wave(64, 20), (1, 8000), target="pixels"),
    "m5": Plain(lambda: Sound(128, 4), (1, 16000)),
    "m11": Plain(lambda: Sound(256, 8), (1, 16000)),
    "ecg_resnet": Plain(lambda: Ecg(64, 8), (12, 4096)),
    "eegnet": Plain(lambda: Eeg(16), (1, 64, 512)),
    "nerf": Plain(lambda: Nerf(256, 8), (64, 3), target="mean"),
    "tab_resnet": Plain(lambda: Tabular(100, 512, 6), (100,)),
    "ft_transformer": Plain(lambda: FeatureTokens(100, 192, 4), (100,)),
    "deepfm": Plain(lambda: DeepFm(39, 500_000, 16), (39,), 500_000, target="mean"),
    "text_cnn": Plain(lambda: TextCnn(30000, 300, 100), None, 30000),
    "deep_speech": Plain(lambda: Speech(512, 5), (1, 128, 400)),
    "nbeats": Plain(lambda: Beats(336, 96, 512, 12), (336,), target="mean"),
    "vqvae": Plain(lambda: Quantizer(128, 512), (3, 128, 128), target="mean"),
    "atari_dqn": Plain(lambda: Actor(512), (4, 84, 84), target="mean"),
    "unet3d": Plain(lambda: Vnet(16), (1, 64, 64, 64), target="pixels"),
    "attention_unet": Plain(lambda: AttentionUnet(32), (3, 256, 256), target="mean"),
    "seq2seq_lstm": Plain(lambda: LongMemory(20000, 512), None, 20000),
    "dense_gcn": Plain(lambda: Gnn(128, 256, 3), (512, 128)),
    "dncnn": Plain(lambda: Denoiser(64, 15), (3, 128, 128), target="mean"),
    "rcan": Plain(lambda: _rcan(64, 20), (3, 96, 96), target="mean"),
    "own_convmixer": Plain(lambda: _convmixer(256, 8, 9, 4), (3, 128, 128)),
    "mnist_mlp": Plain(lambda: perceptron((784, 512, 256, 10), nn.ReLU), (784,)),
    "mlp_autoencoder": Plain(lambda: perceptron((784, 1024, 256, 32, 256, 1024, 784), nn.ReLU), (784,), target="mean"),
    "mlp_wide": Plain(lambda: perceptron((1024, 8192, 8192, 8192, 1000), nn.GELU), (1024,)),
}
