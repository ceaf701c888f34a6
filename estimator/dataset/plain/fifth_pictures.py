"""Models of users, of the fifth collection: those that see pictures and films. Needs torch."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional as f

from estimator.dataset.plain.model import Plain


def _unit(before: int, after: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution, norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
    )


class Fire(nn.Module):
    """Squeezes, then expands with two kernels that are joined."""

    def __init__(self, before: int, squeezed: int, after: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(before, squeezed, 1)
        self.expand1 = nn.Conv2d(squeezed, after, 1)
        self.expand3 = nn.Conv2d(squeezed, after, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        x = f.relu(self.squeeze(x))
        return torch.cat([f.relu(self.expand1(x)), f.relu(self.expand3(x))], 1)


class OwnSqueeze(nn.Module):
    """Fire blocks with pools between them."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 96, 7, 2, 2)
        widths = ((96, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128), (256, 48, 192), (384, 64, 256))
        self.fires = nn.ModuleList(Fire(*w) for w in widths)
        self.dropout = nn.Dropout(0.5)
        self.conv10 = nn.Conv2d(512, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = f.max_pool2d(f.relu(self.conv1(x)), 3, 2)
        for i, fire in enumerate(self.fires):
            x = fire(x)
            if i in (2, 4):
                x = f.max_pool2d(x, 3, 2)
        return f.adaptive_avg_pool2d(f.relu(self.conv10(self.dropout(x))), 1).flatten(1)


class NextBlock(nn.Module):
    """A wide depthwise convolution and two linear layers, scaled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.pwconv2 = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.gamma * self.pwconv2(f.gelu(self.pwconv1(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


class OwnConvnext(nn.Module):
    """Four stages of such blocks."""

    def __init__(self, widths: tuple[int, ...], depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        before = (3, *widths[:-1])
        self.downsample = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(1, b) if i else nn.Identity(), nn.Conv2d(b, w, 2 if i else 4, 2 if i else 4))
            for i, (b, w) in enumerate(zip(before, widths, strict=True))
        )
        self.stages = nn.ModuleList(
            nn.Sequential(*(NextBlock(w) for _ in range(d))) for w, d in zip(widths, depths, strict=True)
        )
        self.norm, self.head = nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        for down, stage in zip(self.downsample, self.stages, strict=True):
            x = stage(down(x))
        return self.head(self.norm(x.mean((2, 3))))


class Separable(nn.Module):
    """A depthwise convolution, a pointwise one and a norm."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(before, before, 3, padding=1, groups=before, bias=False)
        self.pointwise = nn.Conv2d(before, after, 1, bias=False)
        self.bn = nn.BatchNorm2d(after)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the layers."""
        return self.bn(self.pointwise(self.depthwise(x)))


class OwnXception(nn.Module):
    """Separable convolutions beside shortcuts."""

    def __init__(self, middle: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_unit(3, 32, 3, 2), _unit(32, 64))
        widths = (64, 128, 256, 728)
        pairs = list(itertools.pairwise(widths))
        self.entry = nn.ModuleList(nn.Sequential(Separable(a, b), nn.ReLU(), Separable(b, b)) for a, b in pairs)
        self.skips = nn.ModuleList(nn.Conv2d(a, b, 1, 2, bias=False) for a, b in pairs)
        self.middle = nn.ModuleList(
            nn.Sequential(*(nn.Sequential(nn.ReLU(), Separable(728, 728)) for _ in range(3))) for _ in range(middle)
        )
        self.exit = nn.Sequential(Separable(728, 1024), nn.ReLU(), Separable(1024, 1536), nn.ReLU())
        self.fc = nn.Linear(1536, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = self.stem(x)
        for block, skip in zip(self.entry, self.skips, strict=True):
            x = f.max_pool2d(block(x), 3, 2, 1) + skip(x)
        for block in self.middle:
            x = x + block(x)
        return self.fc(f.adaptive_avg_pool2d(self.exit(x), 1).flatten(1))


class Cbam(nn.Module):
    """Weighs channels, then places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, width // 16), nn.ReLU(), nn.Linear(width // 16, width))
        self.spatial = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Weigh."""
        gate = torch.sigmoid(self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3))))
        x = x * gate[:, :, None, None]
        seen = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * torch.sigmoid(self.spatial(seen))


class CbamBlock(nn.Module):
    """A residual block that ends in weights."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.cbam = Cbam(after)
        self.downsample = (
            nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
            if stride > 1 or before != after
            else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        y = self.cbam(self.bn2(self.conv2(f.relu(self.bn1(self.conv1(x))))))
        return f.relu(y + (x if self.downsample is None else self.downsample(x)))


class OwnCbam(nn.Module):
    """A residual network of such blocks."""

    def __init__(self, depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        layers: list[nn.Module] = []
        before = 64
        for i, depth in enumerate(depths):
            for n in range(depth):
                layers.append(CbamBlock(before, 64 << i, 2 if i and not n else 1))
                before = 64 << i
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(before, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        return self.fc(self.layers(self.stem(x)).mean((2, 3)))


def _nin(before: int, after: int, kernel: int, stride: int, padding: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride, padding),
        nn.ReLU(),
        nn.Conv2d(after, after, 1),
        nn.ReLU(),
        nn.Conv2d(after, after, 1),
        nn.ReLU(),
    )


def _network_in_network(classes: int) -> nn.Module:
    return nn.Sequential(
        _nin(3, 96, 11, 4, 0),
        nn.MaxPool2d(3, 2),
        _nin(96, 256, 5, 1, 2),
        nn.MaxPool2d(3, 2),
        _nin(256, 384, 3, 1, 1),
        nn.MaxPool2d(3, 2),
        nn.Dropout(0.5),
        _nin(384, classes, 3, 1, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


class PreAct(nn.Module):
    """Pre-activated residual blocks without bottlenecks, and a head of two pools."""

    def __init__(self, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.blocks = nn.ModuleList()
        before = width
        for stage in range(3):
            for n in range(depth):
                after, stride = width << stage, 2 if stage and not n else 1
                self.blocks.append(
                    nn.ModuleDict(
                        {
                            "bn1": nn.BatchNorm2d(before),
                            "conv1": nn.Conv2d(before, after, 3, stride, 1, bias=False),
                            "bn2": nn.BatchNorm2d(after),
                            "conv2": nn.Conv2d(after, after, 3, 1, 1, bias=False),
                            "short": nn.Conv2d(before, after, 1, stride, bias=False)
                            if before != after
                            else nn.Identity(),
                        }
                    )
                )
                before = after
        self.bn, self.fc = nn.BatchNorm2d(before), nn.Linear(2 * before, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = self.conv(x)
        for block in self.blocks:
            y = f.relu(block["bn1"](x))
            x = block["short"](x) + block["conv2"](f.relu(block["bn2"](block["conv1"](y))))
        x = f.relu(self.bn(x))
        return self.fc(torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1))


class HybridVit(nn.Module):
    """A convolutional stem in front of torch's encoder; the mean of the tokens is classified."""

    def __init__(self, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _unit(3, 64, 3, 2), _unit(64, 128, 3, 2), _unit(128, 256, 3, 2), _unit(256, width, 3, 2)
        )
        self.pos = nn.Parameter(torch.zeros(1, 196, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.fc = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = self.stem(x).flatten(2).transpose(1, 2) + self.pos
        return self.fc(self.encoder(x).mean(1))


class Reduced(nn.Module):
    """Attention whose keys and values come from a smaller picture."""

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.heads, self.ratio = heads, ratio
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.kv, self.proj = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.sr = nn.Conv2d(width, width, ratio, ratio) if ratio > 1 else None
        self.norm = nn.LayerNorm(width) if ratio > 1 else None
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dw = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)

    def forward(self, x: torch.Tensor, side: int) -> torch.Tensor:
        """Run the layer."""
        n, length, width = x.shape
        y = self.norm1(x)
        q = self.q(y).view(n, length, self.heads, -1).transpose(1, 2)
        if self.sr is not None and self.norm is not None:
            y = self.sr(y.transpose(1, 2).reshape(n, width, side, side)).flatten(2).transpose(1, 2)
            y = self.norm(y)
        k, v = self.kv(y).view(n, -1, 2, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(n, length, width))
        y = self.fc1(self.norm2(x))
        y = self.dw(y.transpose(1, 2).reshape(n, -1, side, side)).flatten(2).transpose(1, 2)
        return x + self.fc2(f.gelu(y))


class OwnSegformer(nn.Module):
    """Four such stages, whose pictures are joined to label each place."""

    def __init__(self, widths: tuple[int, ...], depth: int, classes: int) -> None:
        super().__init__()
        before = (3, *widths[:-1])
        self.embeds = nn.ModuleList(
            nn.Conv2d(b, w, 3 if i else 7, 2 if i else 4, 1 if i else 3)
            for i, (b, w) in enumerate(zip(before, widths, strict=True))
        )
        self.stages = nn.ModuleList(
            nn.ModuleList(Reduced(w, max(1, w // 32), 8 >> i) for _ in range(depth)) for i, w in enumerate(widths)
        )
        self.linears = nn.ModuleList(nn.Conv2d(w, 256, 1) for w in widths)
        self.fuse, self.classify = _unit(1024, 256, 1), nn.Conv2d(256, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label each place."""
        found = []
        size = x.shape[-1]
        for embed, stage in zip(self.embeds, self.stages, strict=True):
            x = embed(x)
            side = x.shape[-1]
            y = x.flatten(2).transpose(1, 2)
            for layer in stage:
                y = layer(y, side)
            x = y.transpose(1, 2).reshape(x.shape)
            found.append(x)
        side = found[0].shape[-1]
        maps = [
            f.interpolate(linear(y), size=(side, side), mode="bilinear", align_corners=False)
            for linear, y in zip(self.linears, found, strict=True)
        ]
        return f.interpolate(self.classify(self.fuse(torch.cat(maps, 1))), size=(size, size), mode="bilinear")


class Backbone(nn.Module):
    """A small residual network that gives out its four stages."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_unit(3, width, 7, 2), nn.MaxPool2d(3, 2, 1))
        widths = [width << i for i in range(4)]
        self.first = nn.ModuleList(
            _unit(a, b, 3, 2 if i else 1) for i, (a, b) in enumerate(zip([width, *widths[:-1]], widths, strict=True))
        )
        self.second = nn.ModuleList(nn.Sequential(_unit(w, w), nn.Conv2d(w, w, 3, padding=1)) for w in widths)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Look at pictures."""
        x, found = self.stem(x), []
        for first, second in zip(self.first, self.second, strict=True):
            x = first(x)
            x = f.relu(x + second(x))
            found.append(x)
        return found


class PyramidPool(nn.Module):
    """Pools to four sizes, joined again, to label each place."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.backbone = Backbone(width)
        last = 8 * width
        self.pools = nn.ModuleList(
            nn.Sequential(nn.AdaptiveAvgPool2d(n), nn.Conv2d(last, last // 4, 1), nn.ReLU()) for n in (1, 2, 3, 6)
        )
        self.head = nn.Sequential(_unit(2 * last, 512), nn.Dropout2d(0.1), nn.Conv2d(512, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label each place."""
        y = self.backbone(x)[-1]
        pooled = [f.interpolate(p(y), size=y.shape[2:], mode="bilinear", align_corners=False) for p in self.pools]
        return f.interpolate(self.head(torch.cat([y, *pooled], 1)), size=x.shape[2:], mode="bilinear")


class LinkUp(nn.Module):
    """Narrows, doubles the picture, widens."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv1 = _unit(before, before // 4, 1)
        self.up = nn.ConvTranspose2d(before // 4, before // 4, 3, 2, 1, output_padding=1)
        self.conv2 = _unit(before // 4, after, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return self.conv2(f.relu(self.up(self.conv1(x))))


class OwnLink(nn.Module):
    """Adds what the encoder saw to what the decoder makes."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.encoder = Backbone(width)
        self.decoders = nn.ModuleList(LinkUp(width << i, width << max(i - 1, 0)) for i in (3, 2, 1))
        self.final = nn.Sequential(
            nn.ConvTranspose2d(width, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, classes, 4, 2, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label each place."""
        *skips, x = self.encoder(x)
        for decoder, skip in zip(self.decoders, reversed(skips), strict=True):
            x = decoder(x) + skip
        return self.final(x)


class Inner(nn.Module):
    """A small U-Net as one residual block."""

    def __init__(self, before: int, mid: int, after: int, depth: int) -> None:
        super().__init__()
        self.begin = _unit(before, after)
        self.downs = nn.ModuleList(_unit(after if not i else mid, mid) for i in range(depth))
        self.bottom = _unit(mid, mid)
        self.ups = nn.ModuleList(_unit(2 * mid, mid if i < depth - 1 else after) for i in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        x = begin = self.begin(x)
        kept = []
        for down in self.downs:
            x = down(x)
            kept.append(x)
            x = f.max_pool2d(x, 2, ceil_mode=True)
        x = self.bottom(x)
        for up in self.ups:
            skip = kept.pop()
            x = up(torch.cat([f.interpolate(x, size=skip.shape[2:], mode="bilinear"), skip], 1))
        return x + begin


class NestedU(nn.Module):
    """A U-Net of U-Nets."""

    def __init__(self, mid: int) -> None:
        super().__init__()
        self.stages = nn.ModuleList(
            [Inner(3, mid, 64, 5), Inner(64, mid, 128, 4), Inner(128, 2 * mid, 256, 3), Inner(256, 4 * mid, 256, 2)]
        )
        self.back = nn.ModuleList([Inner(512, 2 * mid, 128, 3), Inner(256, mid, 64, 4), Inner(128, mid, 64, 5)])
        self.sides = nn.ModuleList(nn.Conv2d(w, 1, 3, padding=1) for w in (128, 64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Cut out what stands in front."""
        size = x.shape[2:]
        kept: list[torch.Tensor] = []
        for stage in self.stages:
            x = stage(f.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        kept.pop()
        out = []
        for back, side in zip(self.back, self.sides, strict=True):
            skip = kept.pop()
            x = back(torch.cat([f.interpolate(x, size=skip.shape[2:], mode="bilinear"), skip], 1))
            out.append(f.interpolate(side(x), size=size, mode="bilinear"))
        return torch.sigmoid(torch.cat(out, 1))


class TransUnet(nn.Module):
    """Convolutions, torch's encoder at the bottom, and the way up with skips."""

    def __init__(self, width: int, depth: int, side: int, classes: int) -> None:
        super().__init__()
        widths = [width << i for i in range(4)]
        self.downs = nn.ModuleList(
            nn.Sequential(_unit(a, b), _unit(b, b)) for a, b in zip([3, *widths[:-1]], widths, strict=True)
        )
        last = widths[-1]
        self.pos = nn.Parameter(torch.zeros(1, (side // 16) ** 2, last))
        layer = nn.TransformerEncoderLayer(last, 8, 4 * last, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.ups = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 2, 2) for a, b in zip([last, *widths[:0:-1]], widths[::-1], strict=True)
        )
        self.joins = nn.ModuleList(nn.Sequential(_unit(2 * w, w), _unit(w, w)) for w in widths[::-1])
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label each place."""
        kept = []
        for down in self.downs:
            x = down(x)
            kept.append(x)
            x = f.max_pool2d(x, 2)
        tokens = x.flatten(2).transpose(1, 2) + self.pos
        x = self.encoder(tokens).transpose(1, 2).reshape(x.shape)
        for up, join in zip(self.ups, self.joins, strict=True):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.out(x)


def _espcn(width: int, factor: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(width, width // 2, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(width // 2, 3 * factor * factor, 3, padding=1),
        nn.PixelShuffle(factor),
    )


class Vdsr(nn.Module):
    """Twenty convolutions that say what is to be added to a blurred picture."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.input = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.residual = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.ReLU(inplace=True))
                for _ in range(depth)
            )
        )
        self.output = nn.Conv2d(width, 3, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sharpen pictures."""
        return x + self.output(self.residual(f.relu(self.input(x))))


class NafBlock(nn.Module):
    """Restores without activations: halves are multiplied."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(1, width), nn.GroupNorm(1, width)
        self.conv1 = nn.Conv2d(width, 2 * width, 1)
        self.conv2 = nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width)
        self.sca = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width, 1))
        self.conv3, self.conv4 = nn.Conv2d(width, width, 1), nn.Conv2d(width, 2 * width, 1)
        self.conv5 = nn.Conv2d(width, width, 1)
        self.beta, self.gamma = (nn.Parameter(torch.zeros(1, width, 1, 1)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        a, b = self.conv2(self.conv1(self.norm1(x))).chunk(2, 1)
        y = a * b
        x = x + self.conv3(y * self.sca(y)) * self.beta
        a, b = self.conv4(self.norm2(x)).chunk(2, 1)
        return x + self.conv5(a * b) * self.gamma


class Naf(nn.Module):
    """A U-Net of such blocks."""

    def __init__(self, width: int, depths: tuple[int, ...]) -> None:
        super().__init__()
        self.intro, self.ending = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        levels = range(len(depths))
        self.encoders = nn.ModuleList(
            nn.Sequential(*(NafBlock(width << i) for _ in range(d))) for i, d in enumerate(depths)
        )
        self.downs = nn.ModuleList(nn.Conv2d(width << i, width << (i + 1), 2, 2) for i in levels)
        self.middle = NafBlock(width << len(depths))
        self.ups = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width << (i + 1), width << (i + 2), 1, bias=False), nn.PixelShuffle(2))
            for i in reversed(levels)
        )
        self.decoders = nn.ModuleList(NafBlock(width << i) for i in reversed(levels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Restore pictures."""
        y, kept = self.intro(x), []
        for encoder, down in zip(self.encoders, self.downs, strict=True):
            y = encoder(y)
            kept.append(y)
            y = down(y)
        y = self.middle(y)
        for up, decoder in zip(self.ups, self.decoders, strict=True):
            y = decoder(up(y) + kept.pop())
        return x + self.ending(y)


class OwnSsd(nn.Module):
    """Boxes and classes of several sizes of pictures."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512):
            layers += (
                [nn.MaxPool2d(2, ceil_mode=True)]
                if not width
                else [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(True)]
            )
            before = width or before
        self.features = nn.Sequential(*layers)
        self.extras = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, 256, 1), nn.ReLU(True), nn.Conv2d(256, 512, 3, 2, 1), nn.ReLU(True))
            for a in (512, 512, 512)
        )
        self.loc = nn.ModuleList(nn.Conv2d(512, 6 * 4, 3, padding=1) for _ in range(4))
        self.conf = nn.ModuleList(nn.Conv2d(512, 6 * classes, 3, padding=1) for _ in range(4))
        self.classes = classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Find things."""
        x = self.features(x)
        levels = [x]
        for extra in self.extras:
            x = extra(x)
            levels.append(x)
        n = x.shape[0]
        boxes = [loc(y).permute(0, 2, 3, 1).reshape(n, -1, 4) for loc, y in zip(self.loc, levels, strict=True)]
        kinds = [c(y).permute(0, 2, 3, 1).reshape(n, -1, self.classes) for c, y in zip(self.conf, levels, strict=True)]
        return torch.cat([torch.cat(boxes, 1), torch.cat(kinds, 1)], -1)


class Deconvolved(nn.Module):
    """A residual network and transposed convolutions, with one head or several."""

    def __init__(self, width: int, heads: tuple[int, ...]) -> None:
        super().__init__()
        self.backbone = Backbone(width)
        ups: list[nn.Module] = []
        for before in (8 * width, 256, 256):
            ups += [nn.ConvTranspose2d(before, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU(inplace=True)]
        self.deconv = nn.Sequential(*ups)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(256, 64, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(64, n, 1))
            if len(heads) > 1
            else nn.Conv2d(256, n, 1)
            for n in heads
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Draw maps of where things are."""
        y = self.deconv(self.backbone(x)[-1])
        return torch.cat([head(y) for head in self.heads], 1)


class FramesLstm(nn.Module):
    """Looks at each picture of a film, then reads what it saw with an LSTM."""

    def __init__(self, width: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.cnn = Backbone(width)
        self.lstm = nn.LSTM(8 * width, hidden, 2, batch_first=True, dropout=0.3)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify films."""
        n, frames = x.shape[:2]
        seen = self.cnn(x.flatten(0, 1))[-1].mean((2, 3)).view(n, frames, -1)
        return self.fc(self.lstm(seen)[0][:, -1])


class SlowFast(nn.Module):
    """A wide way for few pictures, a narrow one for all."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()

        def way(before: int, w: int, deep: int) -> nn.ModuleList:
            stages = nn.ModuleList()
            for i in range(4):
                after = w << i
                stages.append(
                    nn.Sequential(
                        nn.Conv3d(before, after, (deep, 3, 3), (1, 2, 2), (deep // 2, 1, 1), bias=False),
                        nn.BatchNorm3d(after),
                        nn.ReLU(inplace=True),
                        nn.Conv3d(after, after, (1, 3, 3), padding=(0, 1, 1), bias=False),
                        nn.BatchNorm3d(after),
                        nn.ReLU(inplace=True),
                    )
                )
                before = after
            return stages

        self.slow, self.fast = way(3, width, 1), way(3, width // 8, 3)
        self.lateral = nn.ModuleList(
            nn.Conv3d((width // 8) << i, width << i, (5, 1, 1), (4, 1, 1), (2, 0, 0)) for i in range(4)
        )
        self.fc = nn.Linear(9 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify films."""
        slow, fast = x[:, :, ::4], x
        for a, b, lateral in zip(self.slow, self.fast, self.lateral, strict=True):
            slow, fast = a(slow), b(fast)
            slow = slow + lateral(fast)
        return self.fc(torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1))


class Tubes(nn.Module):
    """A transformer on tubes of a film."""

    def __init__(self, width: int, depth: int, tokens: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Conv3d(3, width, (2, 16, 16), (2, 16, 16))
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.pos = nn.Parameter(torch.zeros(1, tokens + 1, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, activation="gelu", batch_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify films."""
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


class SelfGan(nn.Module):
    """Makes pictures with attention between places."""

    def __init__(self, noise: int, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.ConvTranspose2d(noise, 8 * width, 4), nn.BatchNorm2d(8 * width), nn.ReLU())
        self.ups = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(a * width, b * width, 4, 2, 1), nn.BatchNorm2d(b * width), nn.ReLU())
            for a, b in ((8, 4), (4, 2), (2, 1))
        )
        self.query, self.key, self.value = (nn.Conv2d(2 * width, n, 1) for n in (width // 4, width // 4, 2 * width))
        self.gamma = nn.Parameter(torch.zeros(1))
        self.last = nn.ConvTranspose2d(width, 3, 4, 2, 1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Make pictures."""
        x = self.ups[1](self.ups[0](self.first(z[:, :, None, None])))
        q, k, v = self.query(x).flatten(2), self.key(x).flatten(2), self.value(x).flatten(2)
        weights = torch.bmm(q.transpose(1, 2), k).softmax(-1)
        x = x + self.gamma * torch.bmm(v, weights.transpose(1, 2)).view_as(x)
        return torch.tanh(self.last(self.ups[2](x)))


class Show(nn.Module):
    """Looks at a picture and says a sentence with an LSTM; words are given by a table of its own."""

    def __init__(self, width: int, words: int, hidden: int, length: int) -> None:
        super().__init__()
        self.encoder = Backbone(width)
        self.embed_picture = nn.Linear(8 * width, hidden)
        self.embed = nn.Embedding(words, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.linear = nn.Linear(hidden, words)
        self.length = length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Describe pictures, taught by some sentence."""
        seen = self.embed_picture(self.encoder(x)[-1].mean((2, 3)))
        words = torch.zeros(x.shape[0], self.length, dtype=torch.long, device=x.device)
        return self.linear(self.lstm(torch.cat([seen[:, None], self.embed(words)], 1))[0])


class Prototypes(nn.Module):
    """Says which mean of a few pictures the others are near to."""

    def __init__(self, width: int, shots: int, ways: int) -> None:
        super().__init__()
        self.shots, self.ways = shots, ways
        self.encoder = nn.Sequential(
            *(nn.Sequential(_unit(3 if not i else width, width), nn.MaxPool2d(2)) for i in range(4)), nn.Flatten()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compare the pictures of each episode."""
        n = x.shape[0]
        z = self.encoder(x.flatten(0, 1)).view(n, x.shape[1], -1)
        near = self.shots * self.ways
        means = z[:, :near].view(n, self.ways, self.shots, -1).mean(2)
        return -(z[:, near:, None] - means[:, None]).square().sum(-1)


class Voxels(nn.Module):
    """Three-dimensional convolutions over what space is filled."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv3d(1, width, 5, 2), nn.Conv3d(width, width, 3)
        self.fc1, self.fc2 = nn.Linear(width * 6**3, 128), nn.Linear(128, classes)
        self.drop = nn.Dropout(0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify shapes."""
        x = f.leaky_relu(self.conv1(x), 0.1)
        x = f.max_pool3d(f.leaky_relu(self.conv2(x), 0.1), 2)
        return self.fc2(self.drop(f.relu(self.fc1(x.flatten(1)))))


class Contrast(nn.Module):
    """Two views of each picture, pulled together against all others."""

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.encoder = Backbone(width)
        self.projection = nn.Sequential(
            nn.Linear(8 * width, 8 * width), nn.ReLU(), nn.Linear(8 * width, size, bias=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say how alike all views are."""
        views = x.transpose(0, 1).flatten(0, 1)
        z = f.normalize(self.projection(self.encoder(views)[-1].mean((2, 3))), dim=-1)
        return z @ z.t() / 0.5


class Impala(nn.Module):
    """A residual network that plays."""

    def __init__(self, widths: tuple[int, ...], actions: int) -> None:
        super().__init__()
        before = (4, *widths[:-1])
        self.convs = nn.ModuleList(nn.Conv2d(b, w, 3, padding=1) for b, w in zip(before, widths, strict=True))
        self.res = nn.ModuleList(
            nn.ModuleList(
                nn.Sequential(nn.ReLU(), nn.Conv2d(w, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1))
                for _ in range(2)
            )
            for w in widths
        )
        self.fc, self.policy, self.value = (
            nn.Linear(widths[-1] * 121, 256),
            nn.Linear(256, actions),
            nn.Linear(256, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say what to do, and what it is worth."""
        for conv, blocks in zip(self.convs, self.res, strict=True):
            x = f.max_pool2d(conv(x), 3, 2, 1)
            for block in blocks:
                x = x + block(x)
        x = f.relu(self.fc(f.relu(x).flatten(1)))
        return torch.cat([self.policy(x), self.value(x)], 1)


MODELS: dict[str, Plain] = {
    "own_squeezenet": Plain(lambda: OwnSqueeze(1000), (3, 224, 224)),
    "own_squeezenet_small": Plain(lambda: OwnSqueeze(10), (3, 96, 96)),
    "own_convnext": Plain(lambda: OwnConvnext((96, 192, 384, 768), (3, 3, 9, 3), 1000), (3, 224, 224)),
    "own_convnext_small": Plain(lambda: OwnConvnext((48, 96, 192, 384), (2, 2, 4, 2), 100), (3, 128, 128)),
    "own_xception": Plain(lambda: OwnXception(8, 1000), (3, 299, 299)),
    "own_xception_small": Plain(lambda: OwnXception(3, 10), (3, 128, 128)),
    "own_cbam": Plain(lambda: OwnCbam((2, 2, 2, 2), 1000), (3, 224, 224)),
    "own_nin": Plain(lambda: _network_in_network(10), (3, 224, 224)),
    "own_preact": Plain(lambda: PreAct(64, 3, 100), (3, 32, 32)),
    "hybrid_vit": Plain(lambda: HybridVit(384, 6, 6, 1000), (3, 224, 224)),
    "hybrid_vit_small": Plain(lambda: HybridVit(192, 4, 4, 10), (3, 224, 224)),
    "own_segformer": Plain(lambda: OwnSegformer((32, 64, 160, 256), 2, 19), (3, 256, 256), target="pixels"),
    "own_pspnet": Plain(lambda: PyramidPool(64, 21), (3, 256, 256), target="pixels"),
    "own_linknet": Plain(lambda: OwnLink(64, 2), (3, 256, 256), target="pixels"),
    "u2net": Plain(lambda: NestedU(16), (3, 288, 288), target="mean"),
    "trans_unet": Plain(lambda: TransUnet(64, 4, 224, 9), (3, 224, 224), target="pixels"),
    "espcn": Plain(lambda: _espcn(64, 3), (3, 96, 96), target="mean"),
    "vdsr": Plain(lambda: Vdsr(64, 18), (3, 128, 128), target="mean"),
    "nafnet": Plain(lambda: Naf(32, (1, 1, 2, 4)), (3, 128, 128), target="mean"),
    "own_ssd": Plain(lambda: OwnSsd(21), (3, 300, 300), target="mean"),
    "pose_resnet": Plain(lambda: Deconvolved(64, (17,)), (3, 256, 192), target="mean"),
    "centernet": Plain(lambda: Deconvolved(64, (80, 2, 2)), (3, 384, 384), target="mean"),
    "cnn_lstm": Plain(lambda: FramesLstm(32, 256, 101), (16, 3, 112, 112)),
    "cnn_lstm_wide": Plain(lambda: FramesLstm(64, 512, 101), (8, 3, 224, 224)),
    "slowfast": Plain(lambda: SlowFast(64, 101), (3, 32, 112, 112)),
    "tube_vit": Plain(lambda: Tubes(384, 6, 8 * 49, 101), (3, 16, 112, 112)),
    "sagan": Plain(lambda: SelfGan(128, 64), (128,), target="mean"),
    "show_and_tell": Plain(lambda: Show(64, 10000, 512, 20), (3, 224, 224)),
    "prototypes": Plain(lambda: Prototypes(64, 5, 5), (100, 3, 84, 84)),
    "voxnet": Plain(lambda: Voxels(32, 40), (1, 32, 32, 32)),
    "simclr": Plain(lambda: Contrast(64, 128), (2, 3, 96, 96)),
    "simclr_small": Plain(lambda: Contrast(32, 64), (2, 3, 32, 32)),
    "impala": Plain(lambda: Impala((16, 32, 32), 15), (4, 84, 84), target="mean"),
}
