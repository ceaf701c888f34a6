"""Models of users, of the fifth collection: words, sounds, series, tables, graphs, points and games. Needs torch."""

from __future__ import annotations

import itertools
import math

import torch
from torch import nn
from torch.nn import functional as f

from estimator.dataset.plain.fourth_others import Annotated, Collaborate, WordModel
from estimator.dataset.plain.fourth_pictures import MOBILE, Nested, OwnMobile, OwnResnext, OwnSwin, OwnYolo, Translate
from estimator.dataset.plain.model import Plain
from estimator.dataset.plain.second import (
    DiffusionUnet,
    NanoGpt,
    PlainVit,
    Recurrent,
    Sharpen,
    SmallCnn,
    TorchTransformer,
    Unet,
    WideResNet,
)
from estimator.dataset.plain.third import Bert, CifarResnet, Decoder, Dit, cifar_vgg, perceptron


def _mlp(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), act()]
    return nn.Sequential(*layers[:-1])


class CharRnn(nn.Module):
    """Says the next character with a GRU, step by step."""

    def __init__(self, letters: int, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(letters, width)
        self.cells = nn.ModuleList(nn.GRUCell(width, width) for _ in range(layers))
        self.out = nn.Linear(width, letters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say the next characters."""
        embedded = self.embed(x)
        states = [torch.zeros_like(embedded[:, 0]) for _ in self.cells]
        found = []
        for t in range(x.shape[1]):
            y = embedded[:, t]
            for i, cell in enumerate(self.cells):
                y = states[i] = cell(y, states[i])
            found.append(self.out(y))
        return torch.stack(found, 1)


class LstmCrf(nn.Module):
    """Tags words with an LSTM and a table of transitions."""

    def __init__(self, words: int, width: int, tags: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width // 2, 1, batch_first=True, bidirectional=True)
        self.hidden2tag = nn.Linear(width, tags)
        self.transitions = nn.Parameter(torch.randn(tags, tags))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give the logarithm of the sum over all ways to tag."""
        emissions = self.hidden2tag(self.lstm(self.embedding(x))[0])
        alpha = emissions[:, 0]
        for t in range(1, x.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + self.transitions + emissions[:, t, None], 1)
        return alpha


class PyramidText(nn.Module):
    """Convolutions over words that halve them again and again."""

    def __init__(self, words: int, width: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, 300)
        self.region = nn.Conv2d(1, width, (3, 300), padding=(1, 0))
        self.conv = nn.Conv2d(width, width, (3, 1), padding=(1, 0))
        self.fc = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify texts."""
        x = self.region(self.embed(x)[:, None])
        x = self.conv(f.relu(self.conv(f.relu(x))))
        while x.shape[2] > 2:
            pooled = f.max_pool2d(f.pad(x, (0, 0, 0, 1)), (3, 1), 2)
            x = pooled + self.conv(f.relu(self.conv(f.relu(pooled))))
        return self.fc(x.amax((2, 3)))


class GatedConv(nn.Module):
    """Translates with gated convolutions and attention to the source."""

    def __init__(self, words: int, width: int, depth: int) -> None:
        super().__init__()
        self.src, self.tgt = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.ModuleList(nn.Conv1d(width, 2 * width, 3, padding=1) for _ in range(depth))
        self.decoder = nn.ModuleList(nn.Conv1d(width, 2 * width, 3) for _ in range(depth))
        self.attn = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.fc_out, self.dropout = nn.Linear(width, words), nn.Dropout(0.25)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Translate, taught by the same words."""
        source = self.dropout(self.src(x))
        y = source.transpose(1, 2)
        for conv in self.encoder:
            y = (y + f.glu(conv(self.dropout(y)), 1)) * math.sqrt(0.5)
        keys = y.transpose(1, 2)
        values = keys + source
        z = self.dropout(self.tgt(x)).transpose(1, 2)
        for conv, attn in zip(self.decoder, self.attn, strict=True):
            y = f.glu(conv(f.pad(self.dropout(z), (2, 0))), 1)
            weights = (attn(y.transpose(1, 2)) @ keys.transpose(1, 2)).softmax(-1)
            z = (z + y + (weights @ values).transpose(1, 2)) * math.sqrt(0.5)
        return self.fc_out(z.transpose(1, 2))


class LowRank(nn.Module):
    """A layer whose keys and values are projected to few places."""

    def __init__(self, width: int, heads: int, length: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.proj_k, self.proj_v = (nn.Parameter(torch.randn(length, rank) / math.sqrt(length)) for _ in range(2))
        self.to_out = nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        n, length, width = x.shape
        y = self.norm1(x)
        q = self.to_q(y).view(n, length, self.heads, -1).transpose(1, 2)
        k = torch.einsum("bnd,nk->bkd", self.to_k(y), self.proj_k[:length]).view(n, -1, self.heads, width // self.heads)
        v = torch.einsum("bnd,nk->bkd", self.to_v(y), self.proj_v[:length]).view(n, -1, self.heads, width // self.heads)
        weights = torch.einsum("bhnd,bkhd->bhnk", q, k).mul((width // self.heads) ** -0.5).softmax(-1)
        out = torch.einsum("bhnk,bkhd->bnhd", weights, v).reshape(n, length, width)
        x = x + self.to_out(out)
        return x + self.ff(self.norm2(x))


class Lin(nn.Module):
    """An encoder of such layers, which fills in words."""

    def __init__(self, words: int, width: int, depth: int) -> None:
        super().__init__()
        self.token_emb, self.pos_emb = nn.Embedding(words, width), nn.Embedding(512, width)
        self.layers = nn.ModuleList(LowRank(width, 8, 512, 128) for _ in range(depth))
        self.norm, self.to_logits = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Fill in words."""
        y = self.token_emb(x) + self.pos_emb(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            y = layer(y)
        return self.to_logits(self.norm(y))


class Infer(nn.Module):
    """Compares two sentences word by word, then as wholes."""

    def __init__(self, words: int, width: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, 300)
        self.lstm1 = nn.LSTM(300, width, batch_first=True, bidirectional=True)
        self.lstm2 = nn.LSTM(8 * width, width, batch_first=True, bidirectional=True)
        self.fc = nn.Sequential(
            nn.BatchNorm1d(8 * width), nn.Linear(8 * width, width), nn.ELU(), nn.Dropout(0.5), nn.Linear(width, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say how the second sentence follows from the first."""
        a, b = (self.lstm1(self.embed(x[:, i]))[0] for i in range(2))
        scores = a @ b.transpose(1, 2)
        found = []
        for mine, other in ((a, scores.softmax(2) @ b), (b, scores.transpose(1, 2).softmax(2) @ a)):
            y = self.lstm2(torch.cat([mine, other, mine - other, mine * other], -1))[0]
            found += [y.mean(1), y.amax(1)]
        return self.fc(torch.cat(found, 1))


class Biased(nn.Module):
    """Attention with a bias for each distance, in an encoder or a decoder."""

    def __init__(self, width: int, heads: int, hidden: int, cross: bool) -> None:
        super().__init__()
        self.heads, self.cross = heads, cross
        parts = 2 if cross else 1
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(parts + 1))
        self.qs, self.ks, self.vs, self.os = (
            nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(parts)) for _ in range(4)
        )
        self.wi_0, self.wi_1 = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.wo = nn.Linear(hidden, width, bias=False)

    def _attend(self, i: int, x: torch.Tensor, memory: torch.Tensor, bias: torch.Tensor | float) -> torch.Tensor:
        n = x.shape[0]
        q, k, v = (
            layer(t).view(n, t.shape[1], self.heads, -1).transpose(1, 2)
            for layer, t in ((self.qs[i], x), (self.ks[i], memory), (self.vs[i], memory))
        )
        weights = (q @ k.transpose(-2, -1) + bias).float().softmax(-1).to(q.dtype)
        return self.os[i]((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor, bias: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """Run the layer."""
        y = self.norms[0](x)
        x = x + self._attend(0, y, y, bias)
        if memory is not None:
            x = x + self._attend(1, self.norms[1](x), memory, 0.0)
        y = self.norms[-1](x)
        return x + self.wo(f.gelu(self.wi_0(y)) * self.wi_1(y))


class OwnT5(nn.Module):
    """Encoder and decoder of such layers over one table of words."""

    def __init__(self, words: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.shared = nn.Embedding(words, width)
        self.encoder = nn.ModuleList(Biased(width, heads, 3 * width, False) for _ in range(depth))
        self.decoder = nn.ModuleList(Biased(width, heads, 3 * width, True) for _ in range(depth))
        self.enc_bias, self.dec_bias = nn.Embedding(64, heads), nn.Embedding(64, heads)
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.lm_head = nn.Linear(width, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Translate, taught by the same words."""
        places = torch.arange(x.shape[1], device=x.device)
        far = (places[None] - places[:, None]).clamp(-32, 31) + 32
        bias = self.enc_bias(far).permute(2, 0, 1)
        causal = self.dec_bias(far).permute(2, 0, 1).masked_fill(places[None] > places[:, None], float("-inf"))
        y = self.shared(x)
        for layer in self.encoder:
            y = layer(y, bias)
        memory, z = self.norm1(y), self.shared(x)
        for layer in self.decoder:
            z = layer(z, causal, memory)
        return self.lm_head(self.norm2(z))


class AudioConvs(nn.Module):
    """Double convolutions over spectrograms, pooled between."""

    def __init__(self, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.bn0 = nn.BatchNorm2d(64)
        before = (1, *widths[:-1])
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(b, w, 3, padding=1, bias=False),
                nn.BatchNorm2d(w),
                nn.ReLU(),
                nn.Conv2d(w, w, 3, padding=1, bias=False),
                nn.BatchNorm2d(w),
                nn.ReLU(),
            )
            for b, w in zip(before, widths, strict=True)
        )
        self.fc1, self.fc_audioset = nn.Linear(widths[-1], widths[-1]), nn.Linear(widths[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say what is heard."""
        x = self.bn0(x.transpose(1, 3)).transpose(1, 3)
        for block in self.blocks:
            x = f.dropout(f.avg_pool2d(block(x), 2), 0.2, self.training)
        x = x.mean(3)
        x = x.amax(2) + x.mean(2)
        return torch.sigmoid(self.fc_audioset(f.relu(self.fc1(x))))


class Demucs(nn.Module):
    """A U-Net over waves with an LSTM at the bottom."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        before = 1
        for i in range(depth):
            w = width << i
            self.encoder.append(
                nn.Sequential(nn.Conv1d(before, w, 8, 4, 2), nn.ReLU(), nn.Conv1d(w, 2 * w, 1), nn.GLU(1))
            )
            self.decoder.insert(
                0, nn.Sequential(nn.Conv1d(w, 2 * w, 1), nn.GLU(1), nn.ConvTranspose1d(w, before, 8, 4, 2))
            )
            before = w
        self.lstm = nn.LSTM(before, before, 2, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(2 * before, before)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take noise out of sounds."""
        kept = []
        for layer in self.encoder:
            x = layer(x)
            kept.append(x)
        x = self.linear(self.lstm(x.transpose(1, 2))[0]).transpose(1, 2)
        for i, layer in enumerate(self.decoder):
            x = layer(x + kept.pop())
            x = f.relu(x) if i < len(self.decoder) - 1 else x
        return x


class DualPath(nn.Module):
    """Separates voices with LSTMs along pieces of a sound and across them."""

    def __init__(self, width: int, hidden: int, depth: int, piece: int) -> None:
        super().__init__()
        self.piece = piece
        self.encoder = nn.Conv1d(1, width, 16, 8, bias=False)
        self.rows = nn.ModuleList(
            nn.LSTM(width, hidden, batch_first=True, bidirectional=True) for _ in range(2 * depth)
        )
        self.linears = nn.ModuleList(nn.Linear(2 * hidden, width) for _ in range(2 * depth))
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(2 * depth))
        self.mask, self.decoder = nn.Conv1d(width, 2 * width, 1), nn.ConvTranspose1d(width, 1, 16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Separate two voices."""
        seen = f.relu(self.encoder(x))
        n, width, length = seen.shape
        y = f.pad(seen, (0, -length % self.piece)).view(n, width, -1, self.piece)
        for i, (row, linear, norm) in enumerate(zip(self.rows, self.linears, self.norms, strict=True)):
            t = y.permute(0, 2, 3, 1) if i % 2 == 0 else y.permute(0, 3, 2, 1)
            z = linear(row(t.reshape(-1, t.shape[2], width))[0]).view(t.shape)
            z = z.permute(0, 3, 1, 2) if i % 2 == 0 else z.permute(0, 3, 2, 1)
            y = y + norm(z)
        masks = f.relu(self.mask(y.flatten(2)[:, :, :length])).view(n, 2, width, length)
        return self.decoder((masks * seen[:, None]).flatten(0, 1)).view(n, 2, -1)


class FeedConv(nn.Module):
    """Attention and two convolutions over sounds."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(width, 2, dropout=0.1, batch_first=True)
        self.conv1, self.conv2 = nn.Conv1d(width, hidden, 9, padding=4), nn.Conv1d(hidden, width, 1)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        x = self.norm1(x + self.attn(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.conv2(f.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2))


class FastSpeech(nn.Module):
    """Says all sounds of a text at once; each letter lasts equally long."""

    def __init__(self, letters: int, width: int, depth: int, frames: int) -> None:
        super().__init__()
        self.frames = frames
        self.embed = nn.Embedding(letters, width)
        self.encoder = nn.ModuleList(FeedConv(width, 4 * width) for _ in range(depth))
        self.duration = nn.Sequential(
            nn.Conv1d(width, width, 3, padding=1), nn.ReLU(), nn.Dropout(0.5), nn.Conv1d(width, 1, 3, padding=1)
        )
        self.decoder = nn.ModuleList(FeedConv(width, 4 * width) for _ in range(depth))
        self.mel = nn.Linear(width, 80)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Speak."""
        y = self.embed(x)
        for layer in self.encoder:
            y = layer(y)
        y = y * (1 + torch.sigmoid(self.duration(y.transpose(1, 2)).transpose(1, 2)))
        y = y.repeat_interleave(self.frames, 1)
        for layer in self.decoder:
            y = layer(y)
        return self.mel(y)


class Wav2Letter(nn.Module):
    """Convolutions over spectrograms that say letters."""

    def __init__(self, width: int, letters: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(80, width, 48, 2, 23), nn.ReLU()]
        for _ in range(7):
            layers += [nn.Conv1d(width, width, 7, padding=3), nn.ReLU()]
        layers += [
            nn.Conv1d(width, 8 * width, 32, padding=16),
            nn.ReLU(),
            nn.Conv1d(8 * width, 8 * width, 1),
            nn.ReLU(),
        ]
        self.acoustic = nn.Sequential(*layers, nn.Conv1d(8 * width, letters, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say which letter sounds when."""
        return f.log_softmax(self.acoustic(x), 1).transpose(1, 2)


class Keywords(nn.Module):
    """A narrow residual network for words of command."""

    def __init__(self, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.convs = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=2 ** (i // 3), dilation=2 ** (i // 3), bias=False) for i in range(depth)
        )
        self.bns = nn.ModuleList(nn.BatchNorm2d(width, affine=False) for _ in range(depth))
        self.output = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say which word it was."""
        old = x = f.relu(self.conv0(x))
        for i, (conv, bn) in enumerate(zip(self.convs, self.bns, strict=True)):
            y = f.relu(conv(x))
            if i % 2:
                y = old = y + old
            x = bn(y)
        return self.output(x.flatten(2).mean(2))


class Activity(nn.Module):
    """Convolutions over what sensors say, flattened."""

    def __init__(self, channels: int, length: int, width: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(channels, width, 3), nn.Conv1d(width, width, 3)
        self.drop, self.pool = nn.Dropout(0.5), nn.MaxPool1d(2)
        self.fc1, self.fc2 = nn.Linear(width * ((length - 4) // 2), 100), nn.Linear(100, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify series."""
        x = self.pool(self.drop(f.relu(self.conv2(f.relu(self.conv1(x))))))
        return self.fc2(f.relu(self.fc1(x.flatten(1))))


class Patched(nn.Module):
    """Forecasts each series alone, from patches, with torch's encoder."""

    def __init__(self, patch: int, stride: int, length: int, width: int, depth: int, ahead: int) -> None:
        super().__init__()
        self.patch, self.stride = patch, stride
        count = (length - patch) // stride + 1
        self.embed, self.pos = nn.Linear(patch, width), nn.Parameter(torch.zeros(1, count, width))
        layer = nn.TransformerEncoderLayer(width, 8, 2 * width, 0.2, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(count * width, ahead)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forecast."""
        n, _, channels = x.shape
        x = (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)
        patches = x.transpose(1, 2).flatten(0, 1).unfold(-1, self.patch, self.stride)
        y = self.encoder(self.embed(patches) + self.pos)
        return self.head(y.flatten(1)).view(n, channels, -1).transpose(1, 2)


class LstNet(nn.Module):
    """A convolution, a GRU, one that skips, and a linear way beside."""

    def __init__(self, series: int, window: int, width: int, skip: int) -> None:
        super().__init__()
        self.skip, self.count = skip, (window - 6) // skip
        self.conv = nn.Conv2d(1, width, (6, series))
        self.gru, self.gru_skip = nn.GRU(width, width), nn.GRU(width, 10)
        self.dropout, self.linear = nn.Dropout(0.2), nn.Linear(width + skip * 10, series)
        self.highway = nn.Linear(24, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forecast the next values."""
        n = x.shape[0]
        c = self.dropout(f.relu(self.conv(x[:, None])))[:, :, :, 0]
        last = self.gru(c.permute(2, 0, 1))[1][0]
        s = c[:, :, -self.count * self.skip :].reshape(n, -1, self.count, self.skip)
        s = s.permute(2, 0, 3, 1).reshape(self.count, n * self.skip, -1)
        y = self.linear(torch.cat([self.dropout(last), self.gru_skip(s)[1][0].reshape(n, -1)], 1))
        return y + self.highway(x[:, -24:].transpose(1, 2))[:, :, 0]


class GatedResidual(nn.Module):
    """Two linear layers, a gate and a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2, self.gate = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers."""
        return self.norm(x + f.glu(self.gate(self.dropout(self.fc2(f.elu(self.fc1(x))))), -1))


class Fusion(nn.Module):
    """Chooses among variables, reads them with an LSTM, attends, and says three quantiles."""

    def __init__(self, variables: int, width: int, ahead: int) -> None:
        super().__init__()
        self.ahead = ahead
        self.embeds = nn.ModuleList(nn.Linear(1, width) for _ in range(variables))
        self.grns = nn.ModuleList(GatedResidual(width) for _ in range(variables))
        self.select = nn.Linear(variables * width, variables)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.gate, self.enrich = GatedResidual(width), GatedResidual(width)
        self.attn = nn.MultiheadAttention(width, 4, batch_first=True)
        self.last, self.out = GatedResidual(width), nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forecast."""
        parts = [embed(x[..., i : i + 1]) for i, embed in enumerate(self.embeds)]
        weights = self.select(torch.cat(parts, -1)).softmax(-1)
        chosen = torch.stack([grn(part) for grn, part in zip(self.grns, parts, strict=True)], -1)
        y = (chosen * weights[:, :, None]).sum(-1)
        y = self.enrich(self.gate(self.lstm(y)[0]) + y)
        mask = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool, device=y.device).triu(1)
        y = y + self.attn(y, y, y, attn_mask=mask)[0]
        return self.out(self.last(y[:, -self.ahead :]))


class DeepAr(nn.Module):
    """An LSTM that says a mean and a spread for each step."""

    def __init__(self, features: int, items: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(items, 20)
        self.features = features
        self.lstm = nn.LSTM(features + 20, width, layers, dropout=0.1, batch_first=True)
        self.mu, self.sigma = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forecast."""
        item = self.embedding(x[:, 0, 0].abs().long().clamp(max=self.embedding.num_embeddings - 1))
        y = self.lstm(torch.cat([x, item[:, None].expand(-1, x.shape[1], -1)], -1))[0]
        return torch.cat([self.mu(y), f.softplus(self.sigma(y))], -1)


class Fields(nn.Module):
    """Attention between the fields of a click, without and with crosses."""

    def __init__(self, fields: int, values: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.embedding, self.linear = nn.Embedding(values, width), nn.Embedding(values, 1)
        self.attns = nn.ModuleList(nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(depth))
        self.res = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.fc, self.mlp = nn.Linear(fields * width, 1), _mlp(fields * width, 400, 400, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say how likely a click is."""
        e = y = self.embedding(x)
        for attn, res in zip(self.attns, self.res, strict=True):
            y = f.relu(attn(y, y, y)[0] + res(y))
        flat = e.flatten(1)
        return torch.sigmoid(self.fc(y.flatten(1)) + self.mlp(flat) + self.linear(x).sum(1))


class Interest(nn.Module):
    """Weighs what a user looked at by what is offered."""

    def __init__(self, items: int, width: int) -> None:
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.attention = _mlp(4 * width, 80, 40, 1, act=nn.PReLU)
        self.fc = nn.Sequential(nn.BatchNorm1d(2 * width), _mlp(2 * width, 200, 80, 1, act=nn.PReLU))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say how likely a click is."""
        seen, offered = self.items(x[:, 1:]), self.items(x[:, :1])
        same = offered.expand_as(seen)
        weights = self.attention(torch.cat([same, seen, same - seen, same * seen], -1))
        return self.fc(torch.cat([(weights * seen).sum(1), offered[:, 0]], 1))


class Experts(nn.Module):
    """Experts that several tasks share, each with its own gate."""

    def __init__(self, fields: int, values: int, width: int, experts: int, tasks: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(values, width)
        inp = fields * width
        self.experts = nn.ModuleList(_mlp(inp, 256, 128) for _ in range(experts))
        self.gates = nn.ModuleList(nn.Linear(inp, experts) for _ in range(tasks))
        self.towers = nn.ModuleList(_mlp(128, 64, 1) for _ in range(tasks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say what each task asks for."""
        x = self.embedding(x).flatten(1)
        known = torch.stack([expert(x) for expert in self.experts], 1)
        mixed = [torch.einsum("be,bed->bd", gate(x).softmax(-1), known) for gate in self.gates]
        return torch.cat([tower(y) for tower, y in zip(self.towers, mixed, strict=True)], 1)


class Compressed(nn.Module):
    """Crosses fields with fields and compresses what comes out."""

    def __init__(self, fields: int, values: int, width: int, maps: tuple[int, ...]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(values, width)
        before = (fields, *maps[:-1])
        self.convs = nn.ModuleList(nn.Conv1d(fields * b, m, 1) for b, m in zip(before, maps, strict=True))
        self.fc, self.dnn = nn.Linear(sum(maps), 1), _mlp(fields * width, 400, 400, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say how likely a click is."""
        e = y = self.embedding(x)
        found = []
        for conv in self.convs:
            crossed = torch.einsum("bid,bjd->bijd", e, y).flatten(1, 2)
            y = f.relu(conv(crossed))
            found.append(y.sum(-1))
        return torch.sigmoid(self.fc(torch.cat(found, 1)) + self.dnn(e.flatten(1)))


class Ratings(nn.Module):
    """Fills in the ratings of a user; wide in, wide out."""

    def __init__(self, items: int, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(items, hidden), nn.Tanh(), nn.Dropout(0.5))
        self.mu, self.logvar = nn.Linear(hidden, hidden // 3), nn.Linear(hidden, hidden // 3)
        self.decoder = nn.Sequential(nn.Linear(hidden // 3, hidden), nn.Tanh(), nn.Linear(hidden, items))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Fill in ratings."""
        y = self.encoder(f.normalize(x))
        mu, logvar = self.mu(y), self.logvar(y)
        return self.decoder(mu + torch.randn_like(mu) * (0.5 * logvar).exp())


class Chooser(nn.Module):
    """Looks at some columns of a table, again and again."""

    def __init__(self, columns: int, width: int, steps: int, classes: int) -> None:
        super().__init__()
        self.bn, self.width = nn.BatchNorm1d(columns), width
        self.shared = nn.Linear(columns, 4 * width, bias=False)
        self.first = nn.ModuleList(nn.Sequential(nn.BatchNorm1d(4 * width), nn.GLU()) for _ in range(steps + 1))
        self.second = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * width, 4 * width, bias=False), nn.BatchNorm1d(4 * width), nn.GLU())
            for _ in range(steps + 1)
        )
        self.attentive = nn.ModuleList(
            nn.Sequential(nn.Linear(width, columns, bias=False), nn.BatchNorm1d(columns)) for _ in range(steps)
        )
        self.fc = nn.Linear(width, classes, bias=False)

    def _step(self, i: int, x: torch.Tensor) -> torch.Tensor:
        y = self.first[i](self.shared(x))
        return (y + self.second[i](y)) * math.sqrt(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify rows of a table."""
        x = self.bn(x)
        prior, total = torch.ones_like(x), x.new_zeros(x.shape[0], self.width)
        seen = self._step(0, x)[:, self.width :]
        for i, attentive in enumerate(self.attentive):
            mask = (attentive(seen) * prior).softmax(-1)
            prior = prior * (1.3 - mask)
            y = self._step(i + 1, mask * x)
            total = total + f.relu(y[:, : self.width])
            seen = y[:, self.width :]
        return self.fc(total)


class Columns(nn.Module):
    """Embeds the columns of a table and runs linear layers: the usual network for tables."""

    def __init__(self, sizes: tuple[int, ...], hidden: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(n, min(50, (n + 1) // 2)) for n in sizes)
        widths = (sum(e.embedding_dim for e in self.embeds), *hidden)
        self.emb_drop = nn.Dropout(0.04)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(a, b), nn.ReLU(inplace=True), nn.BatchNorm1d(b), nn.Dropout(0.1))
                for a, b in itertools.pairwise(widths)
            ),
            nn.Linear(widths[-1], classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify rows of a table."""
        parts = [embed(x[:, i] % embed.num_embeddings) for i, embed in enumerate(self.embeds)]
        return self.layers(self.emb_drop(torch.cat(parts, 1)))


class Isomorphic(nn.Module):
    """Adds up neighbours in a dense graph; linear layers between."""

    def __init__(self, features: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.features = features
        widths = [features] + [width] * depth
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(a, width), nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
            for a in widths[:-1]
        )
        self.eps = nn.Parameter(torch.zeros(depth))
        self.fc = nn.Linear(depth * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify graphs; the last columns say who is whose neighbour."""
        y, near = x[..., : self.features], (x[..., self.features :] > 1).to(x.dtype)
        found = []
        for i, mlp in enumerate(self.mlps):
            y = mlp((1 + self.eps[i]) * y + near @ y)
            found.append(y.sum(1))
        return self.fc(torch.cat(found, 1))


class PointLayer(nn.Module):
    """Attends to the nearest points, channel by channel."""

    def __init__(self, width: int, near: int) -> None:
        super().__init__()
        self.near = near
        self.fc1, self.fc2 = nn.Linear(width, width), nn.Linear(width, width)
        self.delta, self.gamma = _mlp(3, width, width), _mlp(width, width, width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        far = (places[:, :, None] - places[:, None]).square().sum(-1)
        index = far.topk(self.near, largest=False)[1]
        pick = torch.arange(x.shape[0], device=x.device)[:, None, None]
        q, k, v = self.qkv(self.fc1(x)).chunk(3, -1)
        offset = self.delta(places[:, :, None] - places[pick, index])
        weights = self.gamma(q[:, :, None] - k[pick, index] + offset).softmax(-2)
        return x + self.fc2((weights * (v[pick, index] + offset)).sum(2))


class PointAttention(nn.Module):
    """Such layers over all points."""

    def __init__(self, width: int, depth: int, near: int, classes: int) -> None:
        super().__init__()
        self.embed = _mlp(3, width, width)
        self.layers = nn.ModuleList(PointLayer(width, near) for _ in range(depth))
        self.head = _mlp(width, 2 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify shapes."""
        y = self.embed(x)
        for layer in self.layers:
            y = layer(y, x)
        return self.head(y.mean(1))


class Soft(nn.Module):
    """An actor and two critics, which is what one step of learning holds."""

    def __init__(self, seen: int, done: int, width: int) -> None:
        super().__init__()
        self.actor = _mlp(seen, width, width, 2 * done)
        self.q1, self.q2 = _mlp(seen + done, width, width, 1), _mlp(seen + done, width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say what to do and what it is worth."""
        mean, spread = self.actor(x).chunk(2, -1)
        action = torch.tanh(mean + torch.randn_like(mean) * spread.clamp(-20, 2).exp())
        both = torch.cat([x, action], -1)
        return torch.cat([self.q1(both), self.q2(both), action], -1)


class MnistGan(nn.Module):
    """Makes small pictures with linear layers and judges them."""

    def __init__(self, noise: int, side: int) -> None:
        super().__init__()
        widths = (noise, 128, 256, 512, 1024)
        blocks: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            blocks += [nn.Linear(a, b), nn.BatchNorm1d(b, 0.8), nn.LeakyReLU(0.2, inplace=True)]
        self.generator = nn.Sequential(*blocks, nn.Linear(1024, side * side), nn.Tanh())
        self.discriminator = nn.Sequential(
            nn.Linear(side * side, 512), nn.LeakyReLU(0.2), nn.Linear(512, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1)
        )

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Make pictures and judge them."""
        return torch.sigmoid(self.discriminator(self.generator(z)))


class LinearVae(nn.Module):
    """The variational autoencoder of the tutorials."""

    def __init__(self, size: int, hidden: int, latent: int) -> None:
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(size, hidden), nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Make pictures again."""
        h = f.relu(self.fc1(x.flatten(1)))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(f.relu(self.fc3(z))))


class Denoise(nn.Module):
    """Residual linear layers that are told the time."""

    def __init__(self, size: int, width: int, depth: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(size, width), nn.Linear(width, size)
        self.time = _mlp(1, width, width, act=nn.SiLU)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
            )
            for _ in range(depth)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say the noise."""
        y, time = self.first(x), self.time(x[:, :1].tanh())
        for block in self.blocks:
            y = y + block(y + time)
        return self.last(y)


class Ode(nn.Module):
    """One small network that is followed through time in steps of the fourth order."""

    def __init__(self, width: int, steps: int, classes: int) -> None:
        super().__init__()
        self.steps = steps
        self.down = nn.Sequential(
            nn.Conv2d(1, width, 3), nn.GroupNorm(8, width), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1)
        )
        self.conv1, self.conv2 = nn.Conv2d(width + 1, width, 3, padding=1), nn.Conv2d(width + 1, width, 3, padding=1)
        self.norm = nn.GroupNorm(8, width)
        self.fc = nn.Linear(width, classes)

    def _change(self, t: float, x: torch.Tensor) -> torch.Tensor:
        now = torch.full_like(x[:, :1], t)
        y = f.relu(self.conv1(torch.cat([now, x], 1)))
        return self.norm(self.conv2(torch.cat([now, y], 1)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x, h = self.down(x), 1.0 / self.steps
        for i in range(self.steps):
            t = i * h
            k1 = self._change(t, x)
            k2 = self._change(t + h / 2, x + h / 2 * k1)
            k3 = self._change(t + h / 2, x + h / 2 * k2)
            k4 = self._change(t + h, x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return self.fc(x.mean((2, 3)))


class Splines(nn.Module):
    """Layers that learn a curve for each edge."""

    def __init__(self, widths: tuple[int, ...], grid: int) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.bases = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        self.curves = nn.ParameterList(torch.randn(b, a, grid) * 0.1 for a, b in pairs)
        self.register_buffer("grid", torch.linspace(-2, 2, grid))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers."""
        for base, curve in zip(self.bases, self.curves, strict=True):
            near = torch.exp(-((x[..., None] - self.grid) * 2).square())
            x = base(f.silu(x)) + torch.einsum("big,oig->bo", near, curve)
        return x


class Both(nn.Module):
    """A picture and a question: a convolutional network, an LSTM, and what they have in common."""

    def __init__(self, words: int, width: int, answers: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for after in (64, 128, 256, 512):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
            before = after
        self.cnn = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, width))
        self.embed, self.lstm = nn.Embedding(words, 300), nn.LSTM(300, width, 2, batch_first=True)
        self.fc1, self.fc2, self.drop = nn.Linear(width, 1000), nn.Linear(1000, answers), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Answer; the last row of each picture stands for the question."""
        question = (x[:, 0, -1, :20].abs() * 100).long().clamp(max=self.embed.num_embeddings - 1)
        seen = f.normalize(self.cnn(x))
        asked = self.lstm(self.embed(question))[0][:, -1]
        return self.fc2(self.drop(torch.tanh(self.fc1(seen * torch.tanh(asked)))))


class OwnClip(nn.Module):
    """Two encoders of words, as those who search write them: pairs of texts, each against all others."""

    def __init__(self, words: int, width: int, depth: int) -> None:
        super().__init__()
        self.embed, self.pos = nn.Embedding(words, width), nn.Embedding(512, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.1, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.proj, self.scale = nn.Linear(width, width), nn.Parameter(torch.ones(()) * 2.66)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say how alike the texts of a batch are."""
        flat = x.flatten(0, 1)
        y = self.embed(flat) + self.pos(torch.arange(flat.shape[1], device=x.device))
        z = f.normalize(self.proj(self.encoder(y).mean(1)), dim=-1).view(x.shape[0], 2, -1)
        return self.scale.exp() * z[:, 0] @ z[:, 1].t()


class Points(nn.Module):
    """Points at one place of its input after another."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Linear(2, width)
        self.encoder, self.cell = nn.LSTM(width, width, batch_first=True), nn.LSTMCell(width, width)
        self.w1, self.w2, self.v = (nn.Linear(width, n, bias=False) for n in (width, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Order points."""
        e = self.embed(x)
        seen, (h, c) = self.encoder(e)
        h, c, keys = h[0], c[0], self.w1(seen)
        y, found = torch.zeros_like(h), []
        for _ in range(x.shape[1]):
            h, c = self.cell(y, (h, c))
            scores = self.v(torch.tanh(keys + self.w2(h)[:, None]))[..., 0]
            y = (scores.softmax(-1)[..., None] * e).sum(1)
            found.append(scores)
        return torch.stack(found, 1)


MODELS: dict[str, Plain] = {
    "char_rnn": Plain(lambda: CharRnn(100, 512, 2), (64,), 100),
    "lstm_crf": Plain(lambda: LstmCrf(30000, 256, 17), (64,), 30000),
    "dpcnn": Plain(lambda: PyramidText(50000, 250, 10), None, 50000),
    "conv_s2s": Plain(lambda: GatedConv(20000, 512, 8), None, 20000),
    "linformer": Plain(lambda: Lin(30000, 512, 6), None, 30000),
    "esim": Plain(lambda: Infer(42000, 300, 3), (2, 48), 42000),
    "own_t5": Plain(lambda: OwnT5(32000, 512, 6, 8), None, 32000),
    "own_t5_small": Plain(lambda: OwnT5(16000, 256, 4, 4), None, 16000),
    "panns": Plain(lambda: AudioConvs((64, 128, 256, 512, 1024), 527), (1, 512, 64), target="mean"),
    "panns_small": Plain(lambda: AudioConvs((32, 64, 128, 256), 50), (1, 256, 64), target="mean"),
    "demucs": Plain(lambda: Demucs(48, 4), (1, 16384), target="mean"),
    "dprnn": Plain(lambda: DualPath(64, 128, 3, 100), (1, 16000), target="mean"),
    "fast_speech": Plain(lambda: FastSpeech(80, 256, 4, 6), (96,), 80, target="mean"),
    "wav2letter": Plain(lambda: Wav2Letter(250, 29), (80, 800)),
    "keywords": Plain(lambda: Keywords(45, 13, 35), (1, 101, 40)),
    "activity": Plain(lambda: Activity(9, 128, 64, 6), (9, 128)),
    "own_patchtst": Plain(lambda: Patched(16, 8, 336, 128, 3, 96), (336, 21), target="mean"),
    "lstnet": Plain(lambda: LstNet(321, 168, 100, 24), (168, 321), target="mean"),
    "fusion": Plain(lambda: Fusion(12, 128, 24), (192, 12), target="mean"),
    "deep_ar": Plain(lambda: DeepAr(8, 370, 128, 3), (192, 8), target="mean"),
    "auto_int": Plain(lambda: Fields(39, 500_000, 16, 2, 3), (39,), 500_000, target="mean"),
    "deep_interest": Plain(lambda: Interest(200_000, 64), (101,), 200_000, target="mean"),
    "mmoe": Plain(lambda: Experts(30, 300_000, 16, 8, 3), (30,), 300_000, target="mean"),
    "xdeepfm": Plain(lambda: Compressed(26, 400_000, 16, (128, 128)), (26,), 400_000, target="mean"),
    "mult_vae": Plain(lambda: Ratings(20000, 600), (20000,)),
    "tabnet": Plain(lambda: Chooser(54, 64, 5, 7), (54,)),
    "table_embeds": Plain(lambda: Columns((1000, 500, 100, 50, 31, 12, 7, 24), (1000, 500), 2), (8,), 1000),
    "gin": Plain(lambda: Isomorphic(64, 256, 5, 2), (128, 192)),
    "point_transformer": Plain(lambda: PointAttention(128, 4, 16, 40), (512, 3)),
    "soft_actor_critic": Plain(lambda: Soft(376, 17, 256), (376,), target="mean"),
    "mnist_gan": Plain(lambda: MnistGan(100, 28), (100,), target="mean"),
    "mnist_vae": Plain(lambda: LinearVae(784, 400, 20), (1, 28, 28), target="mean"),
    "mlp_denoiser": Plain(lambda: Denoise(256, 1024, 6), (256,), target="mean"),
    "neural_ode": Plain(lambda: Ode(64, 6, 10), (1, 28, 28)),
    "kan": Plain(lambda: Splines((784, 128, 64, 10), 8), (784,)),
    "vqa": Plain(lambda: Both(12000, 1024, 1000), (3, 224, 224)),
    "text_pairs": Plain(lambda: OwnClip(30522, 384, 6), (2, 128), 30522),
    "pointer_net": Plain(lambda: Points(256), (50, 2)),
    # Of networks that were measured, in other depths and widths.
    "unet24": Plain(lambda: Unet(24), (3, 192, 192), target="pixels"),
    "wrn22_6": Plain(lambda: WideResNet(22, 6), (3, 32, 32)),
    "mnist_cnn_wide": Plain(lambda: SmallCnn(1, 28, 64, 256, pooled=False), (1, 28, 28)),
    "edsr8": Plain(lambda: Sharpen(48, 8, norm=False), (3, 64, 64), target="mean"),
    "bilstm_tagger_small": Plain(lambda: Recurrent(nn.LSTM, 20000, 128, 256, 2, True, 20), None, 20000),
    "gru_forecast_wide": Plain(lambda: Recurrent(nn.GRU, 0, 32, 512, 3, False, 24), (96, 32)),
    "torch_encoder_small": Plain(lambda: TorchTransformer(256, 4, 4, 20000), None, 20000),
    "torch_seq2seq_small": Plain(lambda: TorchTransformer(256, 4, 4, 16000, whole=True), None, 16000),
    "nanogpt_mini": Plain(lambda: NanoGpt(256, 6, 4), None, 50304),
    "plain_vit_thin": Plain(lambda: PlainVit(256, 8, 4), (3, 224, 224)),
    "diffusion_unet_small": Plain(lambda: DiffusionUnet(32), (3, 32, 32), target="mean"),
    "cifar_resnet26": Plain(lambda: CifarResnet((3, 3, 3, 3)), (3, 32, 32)),
    "cifar_resnet110": Plain(lambda: CifarResnet((18, 18, 18), 16), (3, 32, 32)),
    "cifar_vgg13": Plain(
        lambda: cifar_vgg("64 64 M 128 128 M 256 256 M 512 512 M 512 512 M"),
        (3, 32, 32),
    ),
    "tiny_llama_thin": Plain(lambda: Decoder(256, 8, 4, 2, 32000), None, 32000),
    "own_bert_deep": Plain(lambda: Bert(256, 16, 4, 30000), None, 30000),
    "dit_xs": Plain(lambda: Dit(192, 12, 3), (4, 32, 32), target="mean"),
    "mlp_narrow": Plain(lambda: perceptron((784, 128, 128, 10), nn.ReLU), (784,)),
    "mlp_autoencoder_wide": Plain(
        lambda: perceptron((1024, 2048, 512, 64, 512, 2048, 1024), nn.ReLU), (1024,), target="mean"
    ),
    "unet_pp_24": Plain(lambda: Nested(24, 3), (3, 160, 160), target="pixels"),
    "own_mobilenet_mid": Plain(lambda: OwnMobile(MOBILE[:6], 1000), (3, 192, 192)),
    "own_resnext_64": Plain(lambda: OwnResnext((2, 2, 2, 2), 32, gate=False, classes=200), (3, 64, 64)),
    "own_yolo_m": Plain(lambda: OwnYolo(48, 2), (3, 416, 416), target="mean"),
    "own_swin_deep": Plain(lambda: OwnSwin(64, (2, 2, 8, 2), 100), (3, 224, 224)),
    "word_lm_small": Plain(lambda: WordModel(20000, 400, 2), None, 20000),
    "annotated_small": Plain(lambda: Annotated(10000, 256, 4, 4), None, 10000),
    "ncf_48": Plain(lambda: Collaborate(100_000, 48), (2,), 100_000, target="mean"),
    "pix2pix_small": Plain(lambda: Translate(32), (3, 256, 256), target="mean"),
}
