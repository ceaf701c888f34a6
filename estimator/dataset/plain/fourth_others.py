"""Models of users, of the fourth collection: those that take words, sounds, series, tables and graphs. Needs torch."""

from __future__ import annotations

import itertools
import math

import torch
from torch import nn
from torch.nn import functional as f

from estimator.dataset.plain.model import Plain


class WordModel(nn.Module):
    """An LSTM that says the next word; its last layer is the table of words."""

    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.encoder = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, layers, dropout=0.5, batch_first=True)
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say the next words."""
        return self.decoder(self.drop(self.rnn(self.drop(self.encoder(x)))[0]))


class Attended(nn.Module):
    """GRUs that translate, word by word, with additive attention."""

    def __init__(self, words: int, width: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.enc_embedding, self.dec_embedding = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * width, width)
        self.attn_w, self.attn_u, self.attn_v = (
            nn.Linear(width, width),
            nn.Linear(2 * width, width),
            nn.Linear(width, 1),
        )
        self.decoder = nn.GRUCell(3 * width, width)
        self.out = nn.Linear(4 * width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Translate, taught by the same words."""
        seen, last = self.encoder(self.enc_embedding(x))
        state = torch.tanh(self.bridge(last.transpose(0, 1).flatten(1)))
        keys = self.attn_u(seen)
        found = []
        for t in range(min(self.steps, x.shape[1])):
            word = self.dec_embedding(x[:, t])
            weights = self.attn_v(torch.tanh(self.attn_w(state)[:, None] + keys)).softmax(1)
            context = (weights * seen).sum(1)
            state = self.decoder(torch.cat([word, context], 1), state)
            found.append(self.out(torch.cat([state, context, word], 1)))
        return torch.stack(found, 1)


class Heads(nn.Module):
    """Attention written out: products, mask, softmax."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(0.1)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """Attend."""
        n = q.shape[0]
        q, k, v = (
            layer(t).view(n, -1, self.heads, t.shape[-1] // self.heads).transpose(1, 2)
            for layer, t in zip(self.linears, (q, k, v), strict=False)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        x = self.dropout(scores.softmax(-1)) @ v
        return self.linears[3](x.transpose(1, 2).flatten(2))


class Feed(nn.Module):
    """Two linear layers."""

    def __init__(self, width: int, hidden: int, act: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        self.w_1, self.act, self.dropout, self.w_2 = (
            nn.Linear(width, hidden),
            act(),
            nn.Dropout(0.1),
            nn.Linear(hidden, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers."""
        return self.w_2(self.dropout(self.act(self.w_1(x))))


class Half(nn.Module):
    """A layer of an encoder, or of a decoder that also reads the encoder's words."""

    def __init__(self, width: int, heads: int, hidden: int, cross: bool) -> None:
        super().__init__()
        self.self_attn = Heads(width, heads)
        self.src_attn = Heads(width, heads) if cross else None
        self.feed_forward = Feed(width, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """Run the layer."""
        y = self.norms[0](x)
        mask = None
        if self.src_attn is not None:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        x = x + self.dropout(self.self_attn(y, y, y, mask))
        if self.src_attn is not None:
            x = x + self.dropout(self.src_attn(self.norms[1](x), memory, memory, None))
        return x + self.dropout(self.feed_forward(self.norms[-1](x)))


def _places(length: int, width: int, like: torch.Tensor) -> torch.Tensor:
    angles = torch.arange(length, device=like.device)[:, None] * torch.exp(
        torch.arange(0, width, 2, device=like.device) * (-math.log(10000.0) / width)
    )
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(like.dtype)


class Annotated(nn.Module):
    """The translating transformer, every part of it written by hand."""

    def __init__(self, words: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.src_embed, self.tgt_embed = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.ModuleList(Half(width, heads, 4 * width, False) for _ in range(depth))
        self.decoder = nn.ModuleList(Half(width, heads, 4 * width, True) for _ in range(depth))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.generator = nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Translate, taught by the same words."""
        src, tgt = self.src_embed(x), self.tgt_embed(x)
        places = _places(x.shape[1], src.shape[-1], src)
        src, tgt = src + places, tgt + places
        for layer in self.encoder:
            src = layer(src)
        memory = self.norm1(src)
        for layer in self.decoder:
            tgt = layer(tgt, memory)
        return f.log_softmax(self.generator(self.norm2(tgt)), -1)


class Relative(nn.Module):
    """A layer that attends by content and by distance, over a memory as long as its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.r, self.o = (nn.Linear(width, n, bias=False) for n in (3 * width, width, width))
        self.u, self.v = (nn.Parameter(torch.zeros(heads, width // heads)) for _ in range(2))
        self.norm1, self.norm2, self.ff = nn.LayerNorm(width), nn.LayerNorm(width), Feed(width, 4 * width)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        n, length, width = x.shape
        whole = torch.cat([memory, x], 1)
        q, k, v = (t.view(n, 2 * length, self.heads, -1) for t in self.qkv(whole).chunk(3, -1))
        q = q[:, -length:]
        r = self.r(_places(2 * length, width, x)).view(2 * length, self.heads, -1)
        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        place = torch.einsum("bihd,jhd->bhij", q + self.v, r)
        place = f.pad(place, (1, 0)).view(n, self.heads, 2 * length + 1, length)[:, :, 1:].reshape_as(place)
        scores = (content + place) * (width // self.heads) ** -0.5
        mask = torch.ones(length, 2 * length, dtype=torch.bool, device=x.device).triu(1 + length)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        x = self.norm1(x + self.o(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2)))
        return self.norm2(x + self.ff(x))


class LongReader(nn.Module):
    """Layers that remember the segment before."""

    def __init__(self, words: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.word_emb = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Relative(width, heads) for _ in range(depth))
        self.out_layer = nn.Linear(width, words)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say the next words."""
        h = self.word_emb(x)
        for layer in self.layers:
            h = layer(h, h.detach())
        return self.out_layer(h)


class NextItem(nn.Module):
    """Says which item comes next of those that a user took: both ways, or forward only."""

    def __init__(self, items: int, width: int, depth: int, heads: int, length: int, both: bool) -> None:
        super().__init__()
        self.item_emb, self.pos_emb = nn.Embedding(items, width, padding_idx=0), nn.Embedding(length, width)
        self.emb_dropout = nn.Dropout(0.2)
        self.attention_layers = nn.ModuleList(
            nn.MultiheadAttention(width, heads, 0.2, batch_first=True) for _ in range(depth)
        )
        self.forward_layers = nn.ModuleList(Feed(width, 4 * width, nn.GELU) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        self.both = both
        self.out = nn.Linear(width, items) if both else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rate all items at each place."""
        h = self.item_emb(x) + self.pos_emb(torch.arange(x.shape[1], device=x.device))
        h = self.emb_dropout(h)
        mask = None if self.both else torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        for i, (attend, feed) in enumerate(zip(self.attention_layers, self.forward_layers, strict=True)):
            y = self.norms[2 * i](h)
            h = h + attend(y, y, y, attn_mask=mask, need_weights=False)[0]
            h = h + feed(self.norms[2 * i + 1](h))
        h = self.norms[-1](h)
        return self.out(h) if self.out is not None else h @ self.item_emb.weight.t()


class Towers(nn.Module):
    """Users by one tower and items by another; everybody's items are the others' wrong answers."""

    def __init__(self, words: int, width: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.user_embedding, self.item_embedding = nn.Embedding(words, width), nn.Embedding(words, width)
        self.user_tower, self.item_tower = (self._tower(10 * width, hidden) for _ in range(2))

    @staticmethod
    def _tower(width: int, hidden: tuple[int, ...]) -> nn.Sequential:
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise((width, *hidden)):
            layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compare all users with all items."""
        user = f.normalize(self.user_tower(self.user_embedding(x[:, :10]).flatten(1)), dim=1)
        item = f.normalize(self.item_tower(self.item_embedding(x[:, 10:]).flatten(1)), dim=1)
        return user @ item.t() / 0.05


class Collaborate(nn.Module):
    """Products of users and items beside layers over both."""

    def __init__(self, users: int, width: int) -> None:
        super().__init__()
        self.embed_user_gmf, self.embed_item_gmf = nn.Embedding(users, width), nn.Embedding(users, width)
        self.embed_user_mlp, self.embed_item_mlp = nn.Embedding(users, 4 * width), nn.Embedding(users, 4 * width)
        self.mlp_layers = nn.Sequential(
            *(
                m
                for i in range(3)
                for m in (nn.Dropout(0.1), nn.Linear(8 * width // 2**i, 4 * width // 2**i), nn.ReLU())
            )
        )
        self.predict_layer = nn.Linear(2 * width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rate pairs."""
        user, item = x[:, 0], x[:, 1]
        product = self.embed_user_gmf(user) * self.embed_item_gmf(item)
        deep = self.mlp_layers(torch.cat([self.embed_user_mlp(user), self.embed_item_mlp(item)], 1))
        return torch.sigmoid(self.predict_layer(torch.cat([product, deep], 1)))


class Crossed(nn.Module):
    """Features multiplied with each other layer by layer, beside a deep network."""

    def __init__(self, fields: int, words: int, width: int, crosses: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        n = fields * width
        self.crosses = nn.ModuleList(nn.Linear(n, n) for _ in range(crosses))
        self.deep = nn.Sequential(
            nn.Linear(n, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Dropout(0.2), nn.Linear(1024, 512), nn.ReLU()
        )
        self.out = nn.Linear(n + 512, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rate examples."""
        first = h = self.embedding(x).flatten(1)
        for cross in self.crosses:
            h = first * cross(h) + h
        return self.out(torch.cat([h, self.deep(first)], 1))


class WideDeep(nn.Module):
    """A weight for each word beside a deep network."""

    def __init__(self, fields: int, words: int, width: int) -> None:
        super().__init__()
        self.wide = nn.Embedding(words, 1)
        self.embeddings = nn.ModuleList(nn.Embedding(words // fields, width) for _ in range(fields))
        sizes = (fields * width, 1024, 512, 256)
        self.deep = nn.Sequential(
            *(m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.3))),
            nn.Linear(256, 1),
        )
        self.each = words // fields

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rate examples."""
        deep = torch.cat([table(x[:, i] % self.each) for i, table in enumerate(self.embeddings)], 1)
        return self.wide(x).sum(1) + self.deep(deep)


class FastText(nn.Module):
    """The mean of words, then a linear layer."""

    def __init__(self, words: int, width: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, width, mode="mean")
        self.fc = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify texts."""
        return self.fc(self.embedding(x))


class Hierarchy(nn.Module):
    """GRUs over words, then over sentences, each with attention."""

    def __init__(self, words: int, width: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.word_rnn = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.word_fc, self.word_context = nn.Linear(2 * hidden, 2 * hidden), nn.Linear(2 * hidden, 1, bias=False)
        self.sent_rnn = nn.GRU(2 * hidden, hidden, batch_first=True, bidirectional=True)
        self.sent_fc, self.sent_context = nn.Linear(2 * hidden, 2 * hidden), nn.Linear(2 * hidden, 1, bias=False)
        self.fc = nn.Linear(2 * hidden, 10)

    @staticmethod
    def _sum(h: torch.Tensor, fc: nn.Module, context: nn.Module) -> torch.Tensor:
        return (context(torch.tanh(fc(h))).softmax(1) * h).sum(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify documents of sentences."""
        n, sentences, _ = x.shape
        h = self._sum(self.word_rnn(self.embedding(x.flatten(0, 1)))[0], self.word_fc, self.word_context)
        return self.fc(self._sum(self.sent_rnn(h.view(n, sentences, -1))[0], self.sent_fc, self.sent_context))


class Selective(nn.Module):
    """A state space whose steps depend on the input, step by step."""

    def __init__(self, width: int, state: int = 16) -> None:
        super().__init__()
        inner, rank = 2 * width, width // 16
        self.norm = nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj, self.dt_proj = nn.Linear(inner, rank + 2 * state, bias=False), nn.Linear(rank, inner)
        self.A_log, self.D = nn.Parameter(torch.zeros(inner, state)), nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, width, bias=False)
        self.sizes = [rank, state, state]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        length = x.shape[1]
        u, gate = self.in_proj(self.norm(x)).chunk(2, -1)
        u = f.silu(self.conv1d(u.transpose(1, 2))[..., :length].transpose(1, 2))
        dt, b, c = self.x_proj(u).split(self.sizes, -1)
        dt = f.softplus(self.dt_proj(dt))
        decay = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.A_log))
        given = dt.unsqueeze(-1) * b.unsqueeze(2) * u.unsqueeze(-1)
        state = torch.zeros_like(given[:, 0])
        found = []
        for t in range(length):
            state = decay[:, t] * state + given[:, t]
            found.append((state * c[:, t, None]).sum(-1))
        y = torch.stack(found, 1) + u * self.D
        return x + self.out_proj(y * f.silu(gate))


class OwnMamba(nn.Module):
    """Selective blocks over words."""

    def __init__(self, words: int, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Selective(width) for _ in range(depth))
        self.norm_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say the next words."""
        h = self.embedding(x)
        for layer in self.layers:
            h = layer(h)
        return self.lm_head(self.norm_f(h))


class Retain(nn.Module):
    """Retention of words that fades with distance, and a gated layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(width, width, bias=False) for _ in range(5))
        self.group_norm = nn.GroupNorm(heads, width)
        self.norm1, self.norm2, self.ffn = nn.LayerNorm(width), nn.LayerNorm(width), Feed(width, 2 * width, nn.GELU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        n, length, width = x.shape
        y = self.norm1(x)
        q, k, v = (p(y).view(n, length, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        places = torch.arange(length, device=x.device)
        fade = 1 - 2.0 ** (-5 - torch.arange(self.heads, device=x.device))
        distance = (places[:, None] - places[None]).clamp(min=0)
        mask = (fade[:, None, None] ** distance).tril().to(x.dtype)
        kept = ((q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5) * mask) @ v
        kept = self.group_norm(kept.transpose(1, 2).reshape(n * length, width)).view(n, length, width)
        x = x + self.o(f.silu(self.g(y)) * kept)
        return x + self.ffn(self.norm2(x))


class RetNet(nn.Module):
    """Retention blocks over words."""

    def __init__(self, words: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.Sequential(*(Retain(width, heads) for _ in range(depth)))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say the next words."""
        return self.head(self.layers(self.embed(x)))


class Speak(nn.Module):
    """Letters into spectra: convolutions, LSTMs, attention that knows where it was, a net behind."""

    def __init__(self, letters: int, width: int, frames: int, mels: int = 80) -> None:
        super().__init__()
        self.frames, self.mels = frames, mels
        self.embedding = nn.Embedding(letters, width)
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.5))
            for _ in range(3)
        )
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.prenet = nn.Sequential(nn.Linear(mels, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 256), nn.ReLU())
        self.attention_rnn = nn.LSTMCell(256 + width, 1024)
        self.query, self.memory, self.score = (
            nn.Linear(1024, 128, bias=False),
            nn.Linear(width, 128, bias=False),
            nn.Linear(128, 1),
        )
        self.location_conv, self.location_dense = (
            nn.Conv1d(2, 32, 31, padding=15, bias=False),
            nn.Linear(32, 128, bias=False),
        )
        self.decoder_rnn, self.projection = nn.LSTMCell(1024 + width, 1024), nn.Linear(1024 + width, mels)
        sizes = (mels, 512, 512, 512, 512, mels)
        self.postnet = nn.Sequential(
            *(
                m
                for a, b in itertools.pairwise(sizes)
                for m in (nn.Conv1d(a, b, 5, padding=2), nn.BatchNorm1d(b), nn.Tanh(), nn.Dropout(0.5))
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Draw a spectrum."""
        h = self.embedding(x).transpose(1, 2)
        for conv in self.convs:
            h = conv(h)
        memory = self.lstm(h.transpose(1, 2))[0]
        keys = self.memory(memory)
        n = x.shape[0]
        one = two = (memory.new_zeros(n, 1024), memory.new_zeros(n, 1024))
        context, frame = memory.new_zeros(n, memory.shape[2]), memory.new_zeros(n, self.mels)
        weights = total = memory.new_zeros(n, x.shape[1])
        found = []
        for _ in range(self.frames):
            one = self.attention_rnn(torch.cat([self.prenet(frame), context], 1), one)
            where = self.location_dense(self.location_conv(torch.stack([weights, total], 1)).transpose(1, 2))
            weights = self.score(torch.tanh(self.query(one[0])[:, None] + keys + where)).squeeze(2).softmax(1)
            total = total + weights
            context = (weights.unsqueeze(1) @ memory).squeeze(1)
            two = self.decoder_rnn(torch.cat([one[0], context], 1), two)
            frame = self.projection(torch.cat([two[0], context], 1))
            found.append(frame)
        out = torch.stack(found, 2)
        return out + self.postnet(out)


class Vocoder(nn.Module):
    """Spectra into sound: doublings, and dilated residual stacks of several widths summed."""

    def __init__(self, width: int, rates: tuple[int, ...]) -> None:
        super().__init__()
        self.conv_pre = nn.Conv1d(80, width, 7, padding=3)
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for i, rate in enumerate(rates):
            a, b = width // 2**i, width // 2 ** (i + 1)
            self.ups.append(nn.ConvTranspose1d(a, b, 2 * rate, rate, rate // 2))
            for kernel in (3, 7, 11):
                self.resblocks.append(
                    nn.ModuleList(
                        nn.Conv1d(b, b, kernel, padding=d * (kernel - 1) // 2, dilation=d) for d in (1, 1, 3, 1, 5, 1)
                    )
                )
        self.conv_post = nn.Conv1d(width // 2 ** len(rates), 1, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Make a sound."""
        x = self.conv_pre(x)
        for i, up in enumerate(self.ups):
            x = up(f.leaky_relu(x, 0.1))
            found = []
            for convs in self.resblocks[3 * i : 3 * i + 3]:
                y = x
                for one, two in zip(convs[::2], convs[1::2], strict=True):
                    y = y + two(f.leaky_relu(one(f.leaky_relu(y, 0.1)), 0.1))
                found.append(y)
            x = torch.stack(found).mean(0)
        return torch.tanh(self.conv_post(f.leaky_relu(x)))


class Separate(nn.Module):
    """Parts voices: an encoder, masks of dilated separable blocks, a decoder."""

    def __init__(self, filters: int, width: int, hidden: int, blocks: int, repeats: int) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, filters, 16, 8, bias=False)
        self.norm, self.bottleneck = nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1)
        self.tcn = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, hidden, 1),
                nn.PReLU(),
                nn.GroupNorm(1, hidden),
                nn.Conv1d(hidden, hidden, 3, padding=2**i, dilation=2**i, groups=hidden),
                nn.PReLU(),
                nn.GroupNorm(1, hidden),
                nn.Conv1d(hidden, width, 1),
            )
            for _ in range(repeats)
            for i in range(blocks)
        )
        self.mask = nn.Conv1d(width, 2 * filters, 1)
        self.decoder = nn.ConvTranspose1d(filters, 1, 16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Part two voices."""
        w = f.relu(self.encoder(x))
        y = self.bottleneck(self.norm(w))
        for block in self.tcn:
            y = y + block(y)
        masks = torch.sigmoid(self.mask(y)).view(x.shape[0], 2, w.shape[1], -1)
        return self.decoder((w.unsqueeze(1) * masks).flatten(0, 1)).view(x.shape[0], 2, -1)


class Convoluted(nn.Module):
    """A layer of attention and convolution between two half feed-forward layers."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.ff1, self.ff2 = (nn.Sequential(nn.LayerNorm(width), Feed(width, 4 * width, nn.SiLU)) for _ in range(2))
        self.norm_attn, self.attn = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, 0.1, batch_first=True)
        self.norm_conv, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.conv = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1),
            nn.GLU(1),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
            nn.Dropout(0.1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        x = x + 0.5 * self.ff1(x)
        y = self.norm_attn(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        x = x + self.conv(self.norm_conv(x).transpose(1, 2)).transpose(1, 2)
        return self.norm(x + 0.5 * self.ff2(x))


class OwnConformer(nn.Module):
    """Reads speech from spectra."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.subsample = nn.Sequential(nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU())
        self.linear = nn.Linear(width * 19, width)
        self.layers = nn.ModuleList(Convoluted(width, heads, 31) for _ in range(depth))
        self.fc = nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say which letters are spoken."""
        x = self.subsample(x.unsqueeze(1))
        x = self.linear(x.transpose(1, 2).flatten(2))
        for layer in self.layers:
            x = layer(x)
        return f.log_softmax(self.fc(x), -1)


class ScaleBlock(nn.Module):
    """A convolution in eight parts, each of the part before too, and a gate."""

    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        part = width // 8
        pad = dilation * (kernel - 1) // 2
        self.conv1, self.bn1 = nn.Conv1d(width, width, 1), nn.BatchNorm1d(width)
        self.convs = nn.ModuleList(nn.Conv1d(part, part, kernel, padding=pad, dilation=dilation) for _ in range(7))
        self.bns = nn.ModuleList(nn.BatchNorm1d(part) for _ in range(7))
        self.conv3, self.bn3 = nn.Conv1d(width, width, 1), nn.BatchNorm1d(width)
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool1d(1), nn.Conv1d(width, 128, 1), nn.ReLU(), nn.Conv1d(128, width, 1), nn.Sigmoid()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        parts = list(self.bn1(f.relu(self.conv1(x))).chunk(8, 1))
        for i, (conv, bn) in enumerate(zip(self.convs, self.bns, strict=True)):
            here = parts[i] if i == 0 else parts[i] + parts[i - 1]
            parts[i] = bn(f.relu(conv(here)))
        y = self.bn3(f.relu(self.conv3(torch.cat(parts, 1))))
        return x + y * self.se(y)


class Voices(nn.Module):
    """Says who speaks: blocks of several scales, statistics weighed by attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(80, width, 5, padding=2), nn.BatchNorm1d(width)
        self.layer1, self.layer2, self.layer3 = (ScaleBlock(width, 3, d) for d in (2, 3, 4))
        self.layer4 = nn.Conv1d(3 * width, 1536, 1)
        self.attention = nn.Sequential(
            nn.Conv1d(4608, 256, 1), nn.ReLU(), nn.BatchNorm1d(256), nn.Tanh(), nn.Conv1d(256, 1536, 1), nn.Softmax(2)
        )
        self.bn5, self.fc6, self.bn6 = nn.BatchNorm1d(3072), nn.Linear(3072, 192), nn.BatchNorm1d(192)
        self.out = nn.Linear(192, 5994)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Name the speaker."""
        x = self.bn1(f.relu(self.conv1(x)))
        one = self.layer1(x)
        two = self.layer2(x + one)
        three = self.layer3(x + one + two)
        x = f.relu(self.layer4(torch.cat([one, two, three], 1)))
        mean, spread = x.mean(2, keepdim=True).expand_as(x), x.std(2, keepdim=True).expand_as(x)
        w = self.attention(torch.cat([x, mean, spread], 1))
        mu = (x * w).sum(2)
        sigma = ((x**2 * w).sum(2) - mu**2).clamp(min=1e-4).sqrt()
        return self.out(self.bn6(self.fc6(self.bn5(torch.cat([mu, sigma], 1)))))


class TimeInception(nn.Module):
    """Kernels of three lengths beside a pool, over series."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.bottleneck = nn.Conv1d(before, width, 1, bias=False)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, k, padding=k // 2, bias=False) for k in (39, 19, 9))
        self.pool, self.conv_pool = nn.MaxPool1d(3, 1, 1), nn.Conv1d(before, width, 1, bias=False)
        self.bn = nn.BatchNorm1d(4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        y = self.bottleneck(x)
        return f.relu(self.bn(torch.cat([*(conv(y) for conv in self.convs), self.conv_pool(self.pool(x))], 1)))


class InceptionTime(nn.Module):
    """Six blocks and two shortcuts, over series."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        w = 4 * width
        self.blocks = nn.ModuleList(TimeInception(channels if i == 0 else w, width) for i in range(6))
        self.shortcuts = nn.ModuleList(nn.Sequential(nn.Conv1d(a, w, 1), nn.BatchNorm1d(w)) for a in (channels, w))
        self.fc = nn.Linear(w, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify series."""
        kept = x
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i % 3 == 2:
                kept = x = f.relu(x + self.shortcuts[i // 3](kept))
        return self.fc(x.mean(2))


class Inverse(nn.Module):
    """A transformer whose tokens are whole series."""

    def __init__(self, past: int, future: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(past, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.projector = nn.Linear(width, future)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forecast."""
        mean, spread = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        y = self.projector(self.encoder(self.embedding(((x - mean) / spread).transpose(1, 2))))
        return y.transpose(1, 2) * spread + mean


class Decomposed(nn.Module):
    """Trend and season, each with a linear layer for each channel."""

    def __init__(self, past: int, future: int, channels: int) -> None:
        super().__init__()
        self.average = nn.AvgPool1d(25, 1)
        self.seasonal = nn.ModuleList(nn.Linear(past, future) for _ in range(channels))
        self.trend = nn.ModuleList(nn.Linear(past, future) for _ in range(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Forecast."""
        x = x.transpose(1, 2)
        trend = self.average(f.pad(x, (12, 12), mode="replicate"))
        season = x - trend
        found = [
            s(season[:, i]) + t(trend[:, i]) for i, (s, t) in enumerate(zip(self.seasonal, self.trend, strict=True))
        ]
        return torch.stack(found, 2)


class Memory1d(nn.Module):
    """Rebuilds series by LSTMs, to find what is odd."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.enc1 = nn.LSTM(channels, hidden, batch_first=True)
        self.enc2 = nn.LSTM(hidden, hidden // 2, batch_first=True)
        self.dec1 = nn.LSTM(hidden // 2, hidden // 2, batch_first=True)
        self.dec2 = nn.LSTM(hidden // 2, hidden, batch_first=True)
        self.output = nn.Linear(hidden, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rebuild series."""
        _, (h, _) = self.enc2(self.enc1(x)[0])
        y = h[-1].unsqueeze(1).repeat(1, x.shape[1], 1)
        return self.output(self.dec2(self.dec1(y)[0])[0])


class WaveUnet(nn.Module):
    """The network with skips over sound."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        w = [width * (i + 1) for i in range(depth)]
        self.downs = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a, b, 15, padding=7), nn.BatchNorm1d(b), nn.LeakyReLU(0.1))
            for a, b in zip([1, *w], w, strict=False)
        )
        self.middle = nn.Sequential(nn.Conv1d(w[-1], w[-1], 15, padding=7), nn.BatchNorm1d(w[-1]), nn.LeakyReLU(0.1))
        before = [w[-1], *w[:0:-1]]
        self.ups = nn.ModuleList(
            nn.Sequential(nn.Conv1d(a + b, b, 5, padding=2), nn.BatchNorm1d(b), nn.LeakyReLU(0.1))
            for a, b in zip(before, w[::-1], strict=True)
        )
        self.out = nn.Sequential(nn.Conv1d(width + 1, 1, 1), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Clean sound."""
        kept, y = [], x
        for down in self.downs:
            kept.append(down(y))
            y = kept[-1][:, :, ::2]
        y = self.middle(y)
        for up in self.ups:
            y = f.interpolate(y, scale_factor=2, mode="linear", align_corners=True)
            y = up(torch.cat([y, kept.pop()], 1))
        return self.out(torch.cat([y, x], 1))


class Graphs(nn.Module):
    """Attention along the edges of small graphs, all heads written out."""

    def __init__(self, features: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.heads = heads
        widths = [features, *[width * heads] * depth]
        self.w = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(widths))
        self.a1 = nn.ParameterList(torch.randn(heads, width) for _ in range(depth))
        self.a2 = nn.ParameterList(torch.randn(heads, width) for _ in range(depth))
        self.dropout, self.out = nn.Dropout(0.6), nn.Linear(width * heads, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify nodes."""
        n, nodes, _ = x.shape
        linked = (torch.rand(nodes, nodes, device=x.device) < 0.05) | torch.eye(
            nodes, dtype=torch.bool, device=x.device
        )
        for w, one, two in zip(self.w, self.a1, self.a2, strict=True):
            h = w(self.dropout(x)).view(n, nodes, self.heads, -1)
            e = (h * one).sum(-1)[:, :, None] + (h * two).sum(-1)[:, None]
            e = f.leaky_relu(e, 0.2).masked_fill(~linked[None, :, :, None], float("-inf"))
            weights = self.dropout(e.softmax(2))
            x = f.elu(torch.einsum("bijh,bjhd->bihd", weights, h).flatten(2))
        return self.out(x)


class Triangles(nn.Module):
    """Pairs of residues updated by products and attention along triangles."""

    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2, self.norm3, self.norm_mid = (nn.LayerNorm(n) for n in (width, width, width, hidden))
        self.left, self.right, self.left_gate, self.right_gate = (nn.Linear(width, hidden) for _ in range(4))
        self.gate, self.out = nn.Linear(width, width), nn.Linear(hidden, width)
        self.qkv, self.bias, self.attn_out = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, heads),
            nn.Linear(width, width),
        )
        self.transition = Feed(width, 4 * width)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        y = self.norm1(z)
        a = self.left(y) * torch.sigmoid(self.left_gate(y))
        b = self.right(y) * torch.sigmoid(self.right_gate(y))
        y = self.out(self.norm_mid(torch.einsum("bikd,bjkd->bijd", a, b))) * torch.sigmoid(self.gate(y))
        z = z + y
        y = self.norm2(z)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(2, 3) for t in self.qkv(y).chunk(3, -1))
        bias = self.bias(y).permute(0, 3, 1, 2)[:, None]
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + bias).softmax(-1)
        z = z + self.attn_out((weights @ v).transpose(2, 3).flatten(3))
        return z + self.transition(self.norm3(z))


class Folded(nn.Module):
    """Says how far residues are from each other."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.left, self.right = nn.Embedding(22, width), nn.Embedding(22, width)
        self.blocks = nn.ModuleList(Triangles(width, width, 4) for _ in range(depth))
        self.head = nn.Linear(width, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say distances."""
        z = self.left(x)[:, :, None] + self.right(x)[:, None]
        for block in self.blocks:
            z = block(z)
        return self.head(z)


class Continuous(nn.Module):
    """Filters made of distances, over atoms."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, width)
        self.filters = nn.ModuleList(
            nn.Sequential(nn.Linear(50, width), nn.Softplus(), nn.Linear(width, width)) for _ in range(depth)
        )
        self.into = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        self.out = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.Softplus(), nn.Linear(width, width)) for _ in range(depth)
        )
        self.last = nn.Sequential(nn.Linear(width, width // 2), nn.Softplus(), nn.Linear(width // 2, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say energies of molecules: three places and a kind each atom."""
        h = self.embedding((x[:, :, 3].abs() * 10).long().clamp(max=99))
        places = x[:, :, :3]
        distance = ((places[:, :, None] - places[:, None]) ** 2).sum(-1, keepdim=True).add(1e-6).sqrt()
        spread = torch.exp(-10 * (distance - torch.linspace(0, 5, 50, device=x.device, dtype=x.dtype)) ** 2)
        for make, into, out in zip(self.filters, self.into, self.out, strict=True):
            h = h + out((make(spread) * into(h)[:, None]).sum(2))
        return self.last(h).sum(1)


class Physics(nn.Module):
    """Solves an equation: layers of tanh, or of sines."""

    def __init__(self, inp: int, width: int, depth: int, sines: bool) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(a, width) for a in (inp, *[width] * (depth - 1)))
        self.last = nn.Linear(width, 1)
        self.sines = sines

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say what the field is at points."""
        for linear in self.linears:
            x = torch.sin(30 * linear(x)) if self.sines else torch.tanh(linear(x))
        return self.last(x)


class Agent(nn.Module):
    """An actor and two critics over what robots feel."""

    def __init__(self, seen: int, acts: int, width: int) -> None:
        super().__init__()
        self.actor = self._net(seen, width, 2 * acts)
        self.critic1, self.critic2 = self._net(seen + acts, width, 1), self._net(seen + acts, width, 1)

    @staticmethod
    def _net(inp: int, width: int, out: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(inp, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Judge what the actor would do."""
        mean, spread = self.actor(x).chunk(2, -1)
        act = torch.tanh(mean + torch.randn_like(mean) * spread.clamp(-20, 2).exp())
        both = torch.cat([x, act], -1)
        return torch.min(self.critic1(both), self.critic2(both))


class Vggish(nn.Module):
    """Convolutions over spectra, and wide linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 1
        for after, repeats in ((width, 1), (2 * width, 1), (4 * width, 2), (8 * width, 2)):
            for _ in range(repeats):
                layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)]
                before = after
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.embeddings = nn.Sequential(
            nn.Linear(before * 24, 4096), nn.ReLU(True), nn.Linear(4096, 4096), nn.ReLU(True), nn.Linear(4096, 128)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Describe sounds."""
        return self.embeddings(self.features(x).permute(0, 2, 3, 1).flatten(1))


MODELS: dict[str, Plain] = {
    "word_lm": Plain(lambda: WordModel(33278, 650, 2), None, 33278),
    "word_lm_wide": Plain(lambda: WordModel(50000, 1500, 2), None, 50000),
    "attention_seq2seq": Plain(lambda: Attended(16000, 512, 50), None, 16000, target="mean"),
    "annotated_transformer": Plain(lambda: Annotated(16000, 512, 6, 8), None, 16000),
    "own_xl": Plain(lambda: LongReader(30000, 512, 8, 8), None, 30000),
    "bert4rec": Plain(lambda: NextItem(20000, 256, 4, 4, 200, both=True), (200,), 20000),
    "sasrec": Plain(lambda: NextItem(60000, 128, 2, 2, 100, both=False), (100,), 60000),
    "two_tower": Plain(lambda: Towers(500_000, 64, (512, 256, 128)), (20,), 500_000),
    "ncf": Plain(lambda: Collaborate(200_000, 32), (2,), 200_000, target="mean"),
    "ncf_wide": Plain(lambda: Collaborate(1_000_000, 64), (2,), 1_000_000, target="mean"),
    "dcn": Plain(lambda: Crossed(39, 300_000, 16, 3), (39,), 300_000, target="mean"),
    "wide_deep": Plain(lambda: WideDeep(26, 1_300_000, 32), (26,), 1_300_000, target="mean"),
    "fast_text": Plain(lambda: FastText(200_000, 128, 20), None, 200_000),
    "han": Plain(lambda: Hierarchy(50000, 200, 100), (15, 40), 50000),
    "own_mamba": Plain(lambda: OwnMamba(16000, 256, 6), None, 16000),
    "retnet": Plain(lambda: RetNet(30000, 512, 8, 8), None, 30000),
    "tacotron": Plain(lambda: Speak(148, 512, 120), (80,), 148, target="mean"),
    "hifigan": Plain(lambda: Vocoder(512, (8, 8, 2, 2)), (80, 32), target="mean"),
    "hifigan_small": Plain(lambda: Vocoder(256, (8, 8, 4)), (80, 64), target="mean"),
    "conv_tasnet": Plain(lambda: Separate(512, 128, 512, 8, 3), (1, 16000), target="mean"),
    "own_conformer": Plain(lambda: OwnConformer(256, 8, 4), (400, 80)),
    "own_conformer_wide": Plain(lambda: OwnConformer(512, 12, 8), (800, 80)),
    "ecapa": Plain(lambda: Voices(512), (80, 300)),
    "ecapa_wide": Plain(lambda: Voices(1024), (80, 200)),
    "inception_time": Plain(lambda: InceptionTime(9, 32), (9, 512)),
    "itransformer": Plain(lambda: Inverse(96, 96, 512, 4, 8), (96, 321), target="mean"),
    "dlinear": Plain(lambda: Decomposed(336, 96, 21), (336, 21), target="mean"),
    "lstm_autoencoder": Plain(lambda: Memory1d(38, 256), (100, 38), target="mean"),
    "wave_unet": Plain(lambda: WaveUnet(24, 8), (1, 16384), target="mean"),
    "dense_gat": Plain(lambda: Graphs(256, 64, 4, 2), (256, 256)),
    "evoformer": Plain(lambda: Folded(128, 4), (96,), 22, target="mean"),
    "schnet": Plain(lambda: Continuous(128, 6), (48, 4), target="mean"),
    "pinn": Plain(lambda: Physics(3, 128, 8, sines=False), (2048, 3), target="mean"),
    "siren": Plain(lambda: Physics(2, 256, 5, sines=True), (4096, 2), target="mean"),
    "actor_critic": Plain(lambda: Agent(376, 17, 256), (376,), target="mean"),
    "actor_critic_wide": Plain(lambda: Agent(376, 17, 1024), (376,), target="mean"),
    "vggish": Plain(lambda: Vggish(64), (1, 96, 64), target="mean"),
}
