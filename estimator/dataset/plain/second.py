"""Models of users, of the second collection. Needs torch."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional as f

from estimator.dataset.plain.model import Plain


class SmallCnn(nn.Module):
    """Two convolutions and two linear layers, activations in ``forward``."""

    def __init__(self, channels: int, side: int, width: int, hidden: int, pooled: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.pooled = pooled
        last = ((side - 2) // 2 - 2) // 2 if pooled else (side - 4) // 2
        self.fc1 = nn.Linear(2 * width * last * last, hidden)
        self.fc2 = nn.Linear(hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = f.relu(self.conv1(x))
        x = f.max_pool2d(x, 2) if self.pooled else x
        x = f.max_pool2d(f.relu(self.conv2(x)), 2)
        x = torch.flatten(self.dropout1(x), 1)
        x = self.dropout2(f.relu(self.fc1(x)))
        return f.log_softmax(self.fc2(x), dim=1)


class DoubleConv(nn.Module):
    """Twice a convolution, a norm and ReLU."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return self.double_conv(x)


class Unet(nn.Module):
    """The segmentation network with skips between its two halves."""

    def __init__(self, width: int, classes: int = 4) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(5)]
        self.inc = DoubleConv(3, width)
        self.downs = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), DoubleConv(a, b)) for a, b in itertools.pairwise(widths)
        )
        self.ups = nn.ModuleList(nn.ConvTranspose2d(2 * a, a, 2, stride=2) for a in widths[-2::-1])
        self.convs = nn.ModuleList(DoubleConv(2 * a, a) for a in widths[-2::-1])
        self.outc = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label pixels."""
        kept = [self.inc(x)]
        for down in self.downs:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up, conv in zip(self.ups, self.convs, strict=True):
            x = conv(torch.cat([kept.pop(), up(x)], 1))
        return self.outc(x)


def _generator(width: int = 64) -> nn.Module:
    layers: list[nn.Module] = []
    widths = [100, width * 8, width * 4, width * 2, width]
    for i, (a, b) in enumerate(itertools.pairwise(widths)):
        layers += [
            nn.ConvTranspose2d(a, b, 4, 2 if i else 1, 1 if i else 0, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(True),
        ]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


def _discriminator(width: int = 64) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for i in range(3):
        a = width * 2**i
        layers += [nn.Conv2d(a, 2 * a, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * a), nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, 1, 0, bias=False), nn.Sigmoid())


class Vae(nn.Module):
    """A convolutional autoencoder; with ``latent`` a variational one."""

    def __init__(self, width: int, latent: int = 0) -> None:
        super().__init__()
        w = width
        self.encoder = nn.Sequential(
            *(m for a, b in ((3, w), (w, 2 * w), (2 * w, 4 * w)) for m in (nn.Conv2d(a, b, 4, 2, 1), nn.ReLU()))
        )
        self.side, self.width = 8, 4 * w
        flat = self.width * self.side**2
        if latent:
            self.mu, self.logvar = nn.Linear(flat, latent), nn.Linear(flat, latent)
            self.grow = nn.Linear(latent, flat)
        self.decoder = nn.Sequential(
            *(m for a, b in ((4 * w, 2 * w), (2 * w, w)) for m in (nn.ConvTranspose2d(a, b, 4, 2, 1), nn.ReLU())),
            nn.ConvTranspose2d(w, 3, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rebuild pictures."""
        x = self.encoder(x)
        if hasattr(self, "grow"):
            flat = x.flatten(1)
            mu, logvar = self.mu(flat), self.logvar(flat)
            z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
            x = self.grow(z).view(-1, self.width, self.side, self.side)
        return self.decoder(x)


class ResBlock(nn.Module):
    """Two convolutions and a sum, of networks that sharpen pictures."""

    def __init__(self, width: int, norm: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(width) if norm else nn.Identity()
        self.act = nn.PReLU() if norm else nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(width) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return x + self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))


class Sharpen(nn.Module):
    """Blocks of one width, then twice as many pixels a side, twice."""

    def __init__(self, width: int, depth: int, norm: bool) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(*(ResBlock(width, norm) for _ in range(depth)))
        self.tail = nn.Sequential(
            nn.Conv2d(width, 4 * width, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(width, 4 * width, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sharpen pictures."""
        x = self.head(x)
        return self.tail(x + self.body(x))


class WideBlock(nn.Module):
    """A residual block with its norms before its convolutions."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(before), nn.BatchNorm2d(after)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.dropout = nn.Dropout(0.3)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        if stride != 1 or before != after:
            self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = f.relu(self.bn1(x))
        way = self.shortcut(out) if hasattr(self, "shortcut") else x
        return way + self.conv2(self.dropout(f.relu(self.bn2(self.conv1(out)))))


class WideResNet(nn.Module):
    """Three groups of wide blocks for pictures of 32 pixels."""

    def __init__(self, depth: int, times: int) -> None:
        super().__init__()
        widths = [16, 16 * times, 32 * times, 64 * times]
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        blocks = []
        for i in range(3):
            for j in range((depth - 4) // 6):
                blocks.append(WideBlock(widths[i] if j == 0 else widths[i + 1], widths[i + 1], 1 + (i > 0 and j == 0)))
        self.blocks = nn.Sequential(*blocks)
        self.bn = nn.BatchNorm2d(widths[-1])
        self.fc = nn.Linear(widths[-1], 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = f.relu(self.bn(self.blocks(self.conv1(x))))
        return self.fc(f.adaptive_avg_pool2d(x, 1).flatten(1))


class PointNet(nn.Module):
    """Every point by itself, then the largest of each number."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(3, width, 1), nn.BatchNorm1d(width)
        self.conv2, self.bn2 = nn.Conv1d(width, 2 * width, 1), nn.BatchNorm1d(2 * width)
        self.conv3, self.bn3 = nn.Conv1d(2 * width, 16 * width, 1), nn.BatchNorm1d(16 * width)
        self.fc1, self.fc2 = nn.Linear(16 * width, 256), nn.Linear(256, 40)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify clouds of points."""
        x = f.relu(self.bn1(self.conv1(x)))
        x = f.relu(self.bn2(self.conv2(x)))
        x = torch.max(self.bn3(self.conv3(x)), 2)[0]
        return self.fc2(self.dropout(f.relu(self.fc1(x))))


class TemporalBlock(nn.Module):
    """Two dilated convolutions that look back only."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.conv1 = nn.Conv1d(width, width, 3, padding=self.pad, dilation=dilation)
        self.relu1, self.dropout1 = nn.ReLU(), nn.Dropout(0.2)
        self.conv2 = nn.Conv1d(width, width, 3, padding=self.pad, dilation=dilation)
        self.relu2, self.dropout2 = nn.ReLU(), nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = self.dropout1(self.relu1(self.conv1(x)[..., : -self.pad].contiguous()))
        out = self.dropout2(self.relu2(self.conv2(out)[..., : -self.pad].contiguous()))
        return f.relu(x + out)


class Tcn(nn.Module):
    """Temporal blocks over embedded words."""

    def __init__(self, depth: int, width: int, words: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.network = nn.Sequential(*(TemporalBlock(width, 2**i) for i in range(depth)))
        self.linear = nn.Linear(width, words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Predict the next words."""
        return self.linear(self.network(self.embed(ids).transpose(1, 2)).transpose(1, 2))


def _conv3d(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = []
    before = 1
    for i in range(depth):
        after = width * 2**i
        layers += [nn.Conv3d(before, after, 3, padding=1), nn.BatchNorm3d(after), nn.ReLU(), nn.MaxPool3d(2)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(before, 2))


class Crnn(nn.Module):
    """Convolutions over a line of text, then LSTMs along it."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        widths = [1, 64, 128, 256, 256, 512, 512]
        pools = [(2, 2), (2, 2), None, (2, 1), None, (2, 1)]
        layers: list[nn.Module] = []
        for a, b, pool in zip(widths, widths[1:], pools, strict=False):
            layers += [nn.Conv2d(a, b, 3, 1, 1), nn.BatchNorm2d(b), nn.ReLU(True)]
            if pool:
                layers.append(nn.MaxPool2d(pool, pool))
        self.cnn = nn.Sequential(*layers, nn.Conv2d(512, 512, (2, 1)), nn.ReLU(True))
        self.rnn = nn.LSTM(512, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read lines."""
        x = self.cnn(x).squeeze(2).transpose(1, 2)
        return self.fc(self.rnn(x)[0])


class Recurrent(nn.Module):
    """LSTM or GRU over words or over numbers; answers for each step, or for the last."""

    def __init__(
        self, kind: type[nn.Module], words: int, inp: int, hidden: int, depth: int, both: bool, out: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, inp) if words else None
        self.rnn = kind(inp, hidden, num_layers=depth, batch_first=True, bidirectional=both, dropout=0.2)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(hidden * (2 if both else 1), out)
        self.each = both

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read sequences."""
        if self.embedding is not None:
            x = self.embedding(x)
        out = self.rnn(x)[0]
        return self.fc(self.dropout(out if self.each else out[:, -1]))


class Dlrm(nn.Module):
    """Tables of embeddings and numbers, multiplied pair by pair, for recommendations."""

    def __init__(self, tables: int, rows: int, width: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(
            nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width)
        )
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(width + pairs, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 2)
        )
        self.rows = rows

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rate examples of 13 numbers."""
        dense = f.relu(self.bottom(x))
        ids = (x[:, :1].float().abs() * 1e4).long() % self.rows
        vectors = torch.stack([dense, *(table(ids) for table in self.embeddings)], 1)
        products = vectors @ vectors.transpose(1, 2)
        i, j = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1, device=x.device)
        return self.top(torch.cat([dense, products[:, i, j]], 1))


class TorchTransformer(nn.Module):
    """torch's own encoder layers, or its whole Transformer, over embedded words."""

    def __init__(self, width: int, depth: int, heads: int, words: int, *, whole: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Embedding(1024, width)
        if whole:
            self.transformer = nn.Transformer(width, heads, depth, depth, 4 * width, batch_first=True)
        else:
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, depth)
        self.fc = nn.Linear(width, words if whole else 20)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Classify texts, or translate them."""
        x = self.embedding(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        if hasattr(self, "transformer"):
            return self.fc(self.transformer(x, x))
        return self.fc(self.encoder(x).mean(1))


class CausalBlock(nn.Module):
    """A block of a GPT as tutorials write it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        batch, tokens, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in parts)
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.ln_2(x))


class NanoGpt(nn.Module):
    """A small GPT whose head is its word embedding."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(50304, width), nn.Embedding(1024, width)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(CausalBlock(width, heads) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, 50304, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Predict the next words."""
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class PlainAttention(nn.Module):
    """Attention that multiplies by itself and keeps its matrix."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.attend, self.dropout = nn.Softmax(dim=-1), nn.Dropout(0.1)
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.to_out = nn.Sequential(nn.Linear(width, width), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend."""
        batch, tokens, width = x.shape
        parts = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in parts)
        weights = self.dropout(self.attend(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5))
        return self.to_out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class FeedForward(nn.Module):
    """A norm and two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return self.net(x)


class PlainVit(nn.Module):
    """A vision transformer as tutorials write it."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.patch = nn.Linear(3 * 16 * 16, width)
        self.pos_embedding = nn.Parameter(torch.zeros(1, 196, width))
        self.layers = nn.ModuleList(
            nn.ModuleList([PlainAttention(width, heads), FeedForward(width)]) for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = f.unfold(x, 16, stride=16).transpose(1, 2)
        x = self.patch(x) + self.pos_embedding
        for attention, feed_forward in self.layers:
            x = x + attention(x)
            x = x + feed_forward(x)
        return self.head(self.norm(x.mean(1)))


class TimeBlock(nn.Module):
    """Two convolutions behind norms of groups of channels, a residual, and perhaps attention over the pixels."""

    def __init__(self, before: int, after: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, before), nn.GroupNorm(8, after)
        self.conv1, self.conv2 = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.act = nn.SiLU()
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()
        if heads:
            self.attn_norm = nn.GroupNorm(8, after)
            self.attention = nn.MultiheadAttention(after, heads, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = self.conv1(self.act(self.norm1(x)))
        x = self.skip(x) + self.conv2(self.act(self.norm2(out)))
        if hasattr(self, "attention"):
            flat = self.attn_norm(x).flatten(2).transpose(1, 2)
            x = x + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(x.shape)
        return x


class DiffusionUnet(nn.Module):
    """The network that takes noise from pictures."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.conv_in = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList(
            TimeBlock(a, b, 4 * (b > width)) for a, b in zip([width, *widths], widths, strict=False)
        )
        self.shrink = nn.ModuleList(nn.Conv2d(w, w, 3, 2, 1) for w in widths[:-1])
        self.mid = TimeBlock(widths[-1], widths[-1], 4)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(w, w, 2, 2) for w in widths[:0:-1])
        self.up = nn.ModuleList(TimeBlock(3 * w, w, 4 * (w > width)) for w in widths[-2::-1])
        self.out_norm, self.conv_out = nn.GroupNorm(8, width), nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Guess the noise."""
        x = self.conv_in(x)
        kept = []
        for i, block in enumerate(self.down):
            x = block(x)
            if i < len(self.shrink):
                kept.append(x)
                x = self.shrink[i](x)
        x = self.mid(x)
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([grow(x), kept.pop()], 1))
        return self.conv_out(f.silu(self.out_norm(x)))


MODELS: dict[str, Plain] = {
    "mnist_cnn": Plain(lambda: SmallCnn(1, 28, 32, 128, pooled=False), (1, 28, 28)),
    "lenet5": Plain(lambda: SmallCnn(1, 28, 20, 500, pooled=True), (1, 28, 28)),
    "cifar_cnn": Plain(lambda: SmallCnn(3, 32, 64, 512, pooled=False), (3, 32, 32)),
    "unet32": Plain(lambda: Unet(32), (3, 256, 256), target="pixels"),
    "unet64": Plain(lambda: Unet(64), (3, 256, 256), target="pixels"),
    "dcgan_generator": Plain(_generator, (100, 1, 1), target="mean"),
    "dcgan_discriminator": Plain(_discriminator, (3, 64, 64), target="mean"),
    "conv_autoencoder": Plain(lambda: Vae(32), (3, 64, 64), target="mean"),
    "vae64": Plain(lambda: Vae(64, 128), (3, 64, 64), target="mean"),
    "edsr16": Plain(lambda: Sharpen(64, 16, norm=False), (3, 48, 48), target="mean"),
    "srresnet": Plain(lambda: Sharpen(64, 16, norm=True), (3, 64, 64), target="mean"),
    "wrn28_4": Plain(lambda: WideResNet(28, 4), (3, 32, 32)),
    "wrn28_10": Plain(lambda: WideResNet(28, 10), (3, 32, 32)),
    "pointnet": Plain(lambda: PointNet(64), (3, 1024)),
    "pointnet_wide": Plain(lambda: PointNet(128), (3, 2048)),
    "tcn8": Plain(lambda: Tcn(8, 256, 10000), None, 10000),
    "tcn8_wide": Plain(lambda: Tcn(8, 512, 30000), None, 30000),
    "conv3d_small": Plain(lambda: _conv3d(16, 4), (1, 64, 64, 64)),
    "conv3d_large": Plain(lambda: _conv3d(32, 5), (1, 96, 96, 96)),
    "crnn256": Plain(lambda: Crnn(256), (1, 32, 256)),
    "crnn512": Plain(lambda: Crnn(512), (1, 32, 512)),
    "lstm_classifier": Plain(lambda: Recurrent(nn.LSTM, 30000, 300, 512, 2, False, 5), None, 30000),
    "bilstm_tagger": Plain(lambda: Recurrent(nn.LSTM, 20000, 256, 512, 3, True, 50), None, 20000),
    "gru_forecast": Plain(lambda: Recurrent(nn.GRU, 0, 32, 256, 2, False, 24), (96, 32)),
    "gru_words": Plain(lambda: Recurrent(nn.GRU, 30000, 512, 1024, 2, True, 30000), None, 30000),
    "dlrm_small": Plain(lambda: Dlrm(26, 100_000, 64), (13,)),
    "dlrm_large": Plain(lambda: Dlrm(26, 400_000, 128), (13,)),
    "torch_encoder": Plain(lambda: TorchTransformer(512, 6, 8, 30000), None, 30000),
    "torch_encoder_deep": Plain(lambda: TorchTransformer(768, 12, 12, 50000), None, 50000),
    "torch_seq2seq": Plain(lambda: TorchTransformer(512, 6, 8, 32000, whole=True), None, 32000),
    "nanogpt_small": Plain(lambda: NanoGpt(384, 6, 6), None, 50304),
    "nanogpt_base": Plain(lambda: NanoGpt(768, 12, 12), None, 50304),
    "plain_vit_small": Plain(lambda: PlainVit(384, 12, 6), (3, 224, 224)),
    "plain_vit_base": Plain(lambda: PlainVit(768, 12, 12), (3, 224, 224)),
    "diffusion_unet": Plain(lambda: DiffusionUnet(64), (3, 32, 32), target="mean"),
    "diffusion_unet_wide": Plain(lambda: DiffusionUnet(128), (3, 64, 64), target="mean"),
}
