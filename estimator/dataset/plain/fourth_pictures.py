"""Models of users, of the fourth collection: those that take pictures, films, volumes and points. Needs torch."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional as f

from estimator.dataset.plain.model import Plain
from estimator.dataset.plain.second import (
    Crnn,
    DiffusionUnet,
    NanoGpt,
    PlainVit,
    Recurrent,
    Sharpen,
    TorchTransformer,
    Unet,
    Vae,
    WideResNet,
)
from estimator.dataset.plain.third import Bert, CifarResnet, Decoder, Denoiser, Dit, cifar_vgg, perceptron


def _unit(before: int, after: int, kernel: int = 3, stride: int = 1, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    pad = kernel // 2
    return nn.Sequential(nn.Conv2d(before, after, kernel, stride, pad, bias=False), nn.BatchNorm2d(after), act())


class OwnAlexnet(nn.Module):
    """Five convolutions and three linear layers, for large pictures or small ones."""

    def __init__(self, side: int, classes: int) -> None:
        super().__init__()
        first = (11, 4, 2) if side > 64 else (3, 2, 1)
        self.features = nn.Sequential(
            nn.Conv2d(3, 96, *first),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(96, 256, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.LocalResponseNorm(5),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(256, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2),
        )
        places = 6 if side > 64 else 3
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(256 * places**2, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, classes),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        return self.classifier(torch.flatten(self.features(x), 1))


class Inverted(nn.Module):
    """Wider, each channel by itself, narrower again; with a gate where asked."""

    def __init__(self, before: int, after: int, stride: int, times: int, gate: bool) -> None:
        super().__init__()
        hidden = before * times
        act: type[nn.Module] = nn.SiLU if gate else nn.ReLU6
        self.expand = _unit(before, hidden, 1, act=act) if times > 1 else nn.Identity()
        self.depthwise = nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False)
        self.bn1, self.act = nn.BatchNorm2d(hidden), act()
        self.se = (
            nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(hidden, max(8, before // 4), 1),
                nn.SiLU(),
                nn.Conv2d(max(8, before // 4), hidden, 1),
                nn.Sigmoid(),
            )
            if gate
            else None
        )
        self.project, self.bn2 = nn.Conv2d(hidden, after, 1, bias=False), nn.BatchNorm2d(after)
        self.same = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = self.act(self.bn1(self.depthwise(self.expand(x))))
        if self.se is not None:
            out = out * self.se(out)
        out = self.bn2(self.project(out))
        return x + out if self.same else out


class OwnMobile(nn.Module):
    """Rows of inverted blocks: repeats, width, stride and expansion of each."""

    def __init__(self, plan: tuple[tuple[int, int, int, int], ...], classes: int, gate: bool = False) -> None:
        super().__init__()
        self.stem = _unit(3, 32, 3, 2, nn.SiLU if gate else nn.ReLU6)
        layers, width = [], 32
        for times, after, repeats, stride in plan:
            for i in range(repeats):
                layers.append(Inverted(width, after, stride if i == 0 else 1, times, gate))
                width = after
        self.layers = nn.Sequential(*layers)
        self.head = _unit(width, 1280, 1, act=nn.SiLU if gate else nn.ReLU6)
        self.dropout, self.fc = nn.Dropout(0.2), nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = self.head(self.layers(self.stem(x)))
        return self.fc(self.dropout(x.mean([2, 3])))


MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
_EFFICIENT = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 40, 2, 2),
    (6, 80, 3, 2),
    (6, 112, 3, 1),
    (6, 192, 4, 2),
    (6, 320, 1, 1),
)


class Branches(nn.Module):
    """Four branches of one picture, joined."""

    def __init__(self, before: int, a: int, b: tuple[int, int], c: tuple[int, int], d: int) -> None:
        super().__init__()
        self.b1 = _unit(before, a, 1)
        self.b2 = nn.Sequential(_unit(before, b[0], 1), _unit(b[0], b[1], 3))
        self.b3 = nn.Sequential(_unit(before, c[0], 1), _unit(c[0], c[1], 5))
        self.b4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), _unit(before, d, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return torch.cat([self.b1(x), self.b2(x), self.b3(x), self.b4(x)], 1)


class OwnInception(nn.Module):
    """Blocks of branches after a stem."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), _unit(64, 192, 3), nn.MaxPool2d(3, 2, 1))
        self.a3 = Branches(192, 64, (96, 128), (16, 32), 32)
        self.b3 = Branches(256, 128, (128, 192), (32, 96), 64)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.a4 = Branches(480, 192, (96, 208), (16, 48), 64)
        self.b4 = Branches(512, 160, (112, 224), (24, 64), 64)
        self.c4 = Branches(512, 256, (160, 320), (32, 128), 128)
        self.a5 = Branches(832, 384, (192, 384), (48, 128), 128)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.linear = nn.Linear(1024, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = self.pool(self.b3(self.a3(self.stem(x))))
        x = self.pool(self.c4(self.b4(self.a4(x))))
        return self.linear(self.avgpool(self.a5(x)).flatten(1))


class Shuffle(nn.Module):
    """Grouped convolutions whose channels are mixed between."""

    def __init__(self, before: int, after: int, stride: int, groups: int) -> None:
        super().__init__()
        self.stride, self.groups = stride, groups
        hidden = after // 4
        out = after - before if stride == 2 else after
        self.conv1, self.bn1 = nn.Conv2d(before, hidden, 1, groups=groups, bias=False), nn.BatchNorm2d(hidden)
        self.conv2 = nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False)
        self.bn2 = nn.BatchNorm2d(hidden)
        self.conv3, self.bn3 = nn.Conv2d(hidden, out, 1, groups=groups, bias=False), nn.BatchNorm2d(out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = f.relu(self.bn1(self.conv1(x)))
        n, c, h, w = out.shape
        out = out.view(n, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(n, c, h, w)
        out = self.bn3(self.conv3(self.bn2(self.conv2(out))))
        if self.stride == 2:
            return f.relu(torch.cat([out, f.avg_pool2d(x, 3, 2, 1)], 1))
        return f.relu(out + x)


class OwnShuffle(nn.Module):
    """Three stages of shuffled blocks."""

    def __init__(self, widths: tuple[int, ...], groups: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24)
        layers, width = [], 24
        for after, repeats in zip(widths, (4, 8, 4), strict=True):
            for i in range(repeats):
                layers.append(Shuffle(width, after, 2 if i == 0 else 1, 1 if width == 24 else groups))
                width = after
        self.stages = nn.Sequential(*layers)
        self.fc = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = f.max_pool2d(f.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(f.adaptive_avg_pool2d(self.stages(x), 1).flatten(1))


class Bottle(nn.Module):
    """A bottleneck of grouped or dilated convolutions, with a squeezed gate where asked."""

    def __init__(self, before: int, width: int, stride: int, groups: int = 1, dilation: int = 1, gate: bool = False):
        super().__init__()
        after = width * 4
        inner = width * (2 if groups > 1 else 1)
        self.conv1, self.bn1 = nn.Conv2d(before, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, dilation, dilation, groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, after, 1, bias=False), nn.BatchNorm2d(after)
        self.fc1 = nn.Linear(after, after // 16) if gate else None
        self.fc2 = nn.Linear(after // 16, after) if gate else None
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        out = f.relu(self.bn1(self.conv1(x)))
        out = f.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.fc1 is not None and self.fc2 is not None:
            gate = torch.sigmoid(self.fc2(f.relu(self.fc1(out.mean((2, 3))))))
            out = out * gate[:, :, None, None]
        return f.relu(out + self.shortcut(x))


def _stages(
    depths: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...], **more: object
) -> nn.Sequential:
    stages, before = [], 64
    for i, (depth, stride, dilation) in enumerate(zip(depths, strides, dilations, strict=True)):
        width = 64 * 2**i
        blocks = []
        for j in range(depth):
            blocks.append(Bottle(before, width, stride if j == 0 else 1, dilation=dilation, **more))  # type: ignore[arg-type]
            before = width * 4
        stages.append(nn.Sequential(*blocks))
    return nn.Sequential(*stages)


class OwnResnext(nn.Module):
    """Grouped bottlenecks, or bottlenecks with gates, for small pictures."""

    def __init__(self, depths: tuple[int, ...], groups: int, gate: bool, classes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        self.layers = _stages(depths, (1, 2, 2, 2), (1, 1, 1, 1), groups=groups, gate=gate)
        self.linear = nn.Linear(2048, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = self.layers(f.relu(self.bn1(self.conv1(x))))
        return self.linear(f.adaptive_avg_pool2d(x, 1).flatten(1))


class Pyramid(nn.Module):
    """A pyramid of features over a residual network, from which pixels are labelled."""

    def __init__(self, depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.stages = _stages(depths, (1, 2, 2, 2), (1, 1, 1, 1))
        self.lateral = nn.ModuleList(nn.Conv2d(256 * 2**i, 256, 1) for i in range(4))
        self.smooth = nn.ModuleList(nn.Conv2d(256, 256, 3, padding=1) for _ in range(4))
        self.semantic = nn.ModuleList(
            nn.Sequential(nn.Conv2d(256, 128, 3, padding=1), nn.GroupNorm(32, 128), nn.ReLU()) for _ in range(4)
        )
        self.predict = nn.Conv2d(128, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label pixels."""
        size = x.shape[2:]
        x = self.stem(x)
        kept = []
        for stage in self.stages:
            x = stage(x)
            kept.append(x)
        levels = [self.lateral[-1](kept[-1])]
        for lateral, item in zip(list(self.lateral)[-2::-1], kept[-2::-1], strict=True):
            levels.append(f.interpolate(levels[-1], item.shape[2:], mode="nearest") + lateral(item))
        outs = [head(conv(p)) for head, conv, p in zip(self.semantic, self.smooth, levels[::-1], strict=True)]
        outs = [outs[0], *(f.interpolate(o, outs[0].shape[2:], mode="bilinear") for o in outs[1:])]
        return f.interpolate(self.predict(torch.stack(outs).sum(0)), size, mode="bilinear")


class Atrous(nn.Module):
    """Dilated branches over a dilated residual network, and a decoder that takes early features."""

    def __init__(self, depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.stages = _stages(depths, (1, 2, 2, 1), (1, 1, 1, 2))
        self.aspp1 = _unit(2048, 256, 1)
        self.aspp = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2048, 256, 3, padding=r, dilation=r, bias=False), nn.BatchNorm2d(256), nn.ReLU())
            for r in (6, 12, 18)
        )
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2048, 256, 1), nn.ReLU())
        self.project = nn.Sequential(_unit(1280, 256, 1), nn.Dropout(0.5))
        self.low = _unit(256, 48, 1)
        self.last = nn.Sequential(_unit(304, 256), _unit(256, 256), nn.Conv2d(256, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label pixels."""
        size = x.shape[2:]
        low = self.stages[0](self.stem(x))
        x = self.stages[3](self.stages[2](self.stages[1](low)))
        mean = f.interpolate(self.pooled(x), x.shape[2:], mode="bilinear", align_corners=False)
        x = self.project(torch.cat([self.aspp1(x), *(branch(x) for branch in self.aspp), mean], 1))
        x = f.interpolate(x, low.shape[2:], mode="bilinear", align_corners=False)
        x = self.last(torch.cat([x, self.low(low)], 1))
        return f.interpolate(x, size, mode="bilinear", align_corners=False)


class Nested(nn.Module):
    """The network of nested skips."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        w = [width * 2**i for i in range(5)]
        self.pool, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.down = nn.ModuleList(self._double(a, b) for a, b in zip([3, *w], w, strict=False))
        self.nodes = nn.ModuleDict(
            {f"x{i}_{j}": self._double(w[i] * j + w[i + 1], w[i]) for j in range(1, 5) for i in range(5 - j)}
        )
        self.final = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _double(a: int, b: int) -> nn.Sequential:
        return nn.Sequential(_unit(a, b), _unit(b, b))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label pixels."""
        rows: list[list[torch.Tensor]] = []
        for i, down in enumerate(self.down):
            rows.append([down(x if i == 0 else self.pool(rows[-1][0]))])
        for j in range(1, 5):
            for i in range(5 - j):
                joined = torch.cat([*rows[i], self.up(rows[i + 1][j - 1])], 1)
                rows[i].append(self.nodes[f"x{i}_{j}"](joined))
        return self.final(rows[0][-1])


class PreUnit(nn.Module):
    """Norm, activation, convolution, twice, and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(before),
            nn.ReLU(),
            nn.Conv2d(before, after, 3, stride, 1),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1),
        )
        self.skip = nn.Conv2d(before, after, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return self.body(x) + self.skip(x)


class ResUnet(nn.Module):
    """The segmentation network made of residual units."""

    def __init__(self, width: int) -> None:
        super().__init__()
        w = [width * 2**i for i in range(4)]
        self.first = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.encoders = nn.ModuleList(PreUnit(a, b, 2) for a, b in itertools.pairwise(w))
        self.bridge = PreUnit(w[3], w[3] * 2, 2)
        self.ups = nn.ModuleList(nn.ConvTranspose2d(2 * a, a, 2, 2) for a in w[::-1])
        self.decoders = nn.ModuleList(PreUnit(2 * a, a, 1) for a in w[::-1])
        self.output = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mark pixels."""
        kept = [self.first(x)]
        for encoder in self.encoders:
            kept.append(encoder(kept[-1]))
        x = self.bridge(kept[-1])
        for up, decoder in zip(self.ups, self.decoders, strict=True):
            x = decoder(torch.cat([up(x), kept.pop()], 1))
        return torch.sigmoid(self.output(x))


class Translate(nn.Module):
    """Eight halvings of a picture and as many doublings, with skips: pictures into pictures."""

    def __init__(self, width: int) -> None:
        super().__init__()
        w = [width * min(8, 2**i) for i in range(8)]
        self.downs = nn.ModuleList(
            nn.Sequential(
                nn.LeakyReLU(0.2),
                nn.Conv2d(a, b, 4, 2, 1, bias=False),
                nn.Identity() if i in (0, 7) else nn.BatchNorm2d(b),
            )
            for i, (a, b) in enumerate(zip([3, *w], w, strict=False))
        )
        backs = [(w[7], w[6]), *((2 * w[i], w[i - 1]) for i in range(6, 0, -1))]
        self.ups = nn.ModuleList(
            nn.Sequential(
                nn.ReLU(),
                nn.ConvTranspose2d(a, b, 4, 2, 1, bias=False),
                nn.BatchNorm2d(b),
                nn.Dropout(0.5) if i < 3 else nn.Identity(),
            )
            for i, (a, b) in enumerate(backs)
        )
        self.last = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(2 * width, 3, 4, 2, 1), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Translate pictures."""
        kept = []
        for down in self.downs:
            x = down(x)
            kept.append(x)
        kept.pop()
        for up in self.ups:
            x = torch.cat([up(x), kept.pop()], 1)
        return self.last(x)


class DensePart(nn.Module):
    """Five convolutions, each of all before it."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(width + i * growth, growth, 3, padding=1) for i in range(4))
        self.conv5 = nn.Conv2d(width + 4 * growth, width, 3, padding=1)
        self.lrelu = nn.LeakyReLU(0.2, inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        kept = [x]
        for conv in self.convs:
            kept.append(self.lrelu(conv(torch.cat(kept, 1))))
        return self.conv5(torch.cat(kept, 1)) * 0.2 + x


class Rrdb(nn.Module):
    """Three dense parts and a sum."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.rdb1, self.rdb2, self.rdb3 = (DensePart(width, growth) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return self.rdb3(self.rdb2(self.rdb1(x))) * 0.2 + x


class Esrgan(nn.Module):
    """Sharpens four times by dense blocks."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.conv_first = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(*(Rrdb(width, width // 2) for _ in range(depth)))
        self.conv_body, self.conv_up1, self.conv_up2, self.conv_hr = (
            nn.Conv2d(width, width, 3, padding=1) for _ in range(4)
        )
        self.conv_last = nn.Conv2d(width, 3, 3, padding=1)
        self.lrelu = nn.LeakyReLU(0.2, inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sharpen pictures."""
        x = self.conv_first(x)
        x = x + self.conv_body(self.body(x))
        x = self.lrelu(self.conv_up1(f.interpolate(x, scale_factor=2, mode="nearest")))
        x = self.lrelu(self.conv_up2(f.interpolate(x, scale_factor=2, mode="nearest")))
        return self.conv_last(self.lrelu(self.conv_hr(x)))


class CrossStage(nn.Module):
    """Splits its channels, runs small blocks over one half and joins all."""

    def __init__(self, before: int, after: int, depth: int, add: bool) -> None:
        super().__init__()
        self.c = after // 2
        self.cv1 = _unit(before, after, 1, act=nn.SiLU)
        self.cv2 = _unit((2 + depth) * self.c, after, 1, act=nn.SiLU)
        self.m = nn.ModuleList(
            nn.Sequential(_unit(self.c, self.c, act=nn.SiLU), _unit(self.c, self.c, act=nn.SiLU)) for _ in range(depth)
        )
        self.add = add

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        kept = list(self.cv1(x).chunk(2, 1))
        for block in self.m:
            kept.append(kept[-1] + block(kept[-1]) if self.add else block(kept[-1]))
        return self.cv2(torch.cat(kept, 1))


class PoolsJoined(nn.Module):
    """One pool three times, all joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = _unit(width, width // 2, 1, act=nn.SiLU), _unit(width * 2, width, 1, act=nn.SiLU)
        self.m = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        kept = [self.cv1(x)]
        for _ in range(3):
            kept.append(self.m(kept[-1]))
        return self.cv2(torch.cat(kept, 1))


class OwnYolo(nn.Module):
    """Finds things at three scales in one pass: backbone, paths up and down, heads without anchors."""

    def __init__(self, width: int, depth: int, classes: int = 80) -> None:
        super().__init__()
        w = [width * 2**i for i in range(5)]

        def down(a: int, b: int) -> nn.Sequential:
            return _unit(a, b, 3, 2, nn.SiLU)

        self.stem = nn.Sequential(down(3, w[0]), down(w[0], w[1]), CrossStage(w[1], w[1], depth, True))
        self.p3 = nn.Sequential(down(w[1], w[2]), CrossStage(w[2], w[2], 2 * depth, True))
        self.p4 = nn.Sequential(down(w[2], w[3]), CrossStage(w[3], w[3], 2 * depth, True))
        self.p5 = nn.Sequential(down(w[3], w[4]), CrossStage(w[4], w[4], depth, True), PoolsJoined(w[4]))
        self.up = nn.Upsample(scale_factor=2)
        self.n4 = CrossStage(w[4] + w[3], w[3], depth, False)
        self.n3 = CrossStage(w[3] + w[2], w[2], depth, False)
        self.down3, self.m4 = down(w[2], w[2]), CrossStage(w[2] + w[3], w[3], depth, False)
        self.down4, self.m5 = down(w[3], w[3]), CrossStage(w[3] + w[4], w[4], depth, False)
        self.box = nn.ModuleList(self._head(c, max(16, w[2] // 4), 64) for c in w[2:])
        self.cls = nn.ModuleList(self._head(c, max(w[2], min(classes, 100)), classes) for c in w[2:])

    @staticmethod
    def _head(width: int, hidden: int, out: int) -> nn.Sequential:
        return nn.Sequential(
            _unit(width, hidden, act=nn.SiLU), _unit(hidden, hidden, act=nn.SiLU), nn.Conv2d(hidden, out, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say where things may be."""
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        p5 = self.p5(p4)
        n4 = self.n4(torch.cat([self.up(p5), p4], 1))
        n3 = self.n3(torch.cat([self.up(n4), p3], 1))
        m4 = self.m4(torch.cat([self.down3(n3), n4], 1))
        m5 = self.m5(torch.cat([self.down4(m4), p5], 1))
        heads = zip(self.box, self.cls, (n3, m4, m5), strict=True)
        return torch.cat([torch.cat([box(p), cls(p)], 1).flatten(2) for box, cls, p in heads], 2)


class OwnDetr(nn.Module):
    """A residual network, then a transformer whose queries each find one thing."""

    def __init__(self, depths: tuple[int, ...], width: int, layers: int, queries: int = 100, classes: int = 92) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            _unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), _stages(depths, (1, 2, 2, 2), (1,) * 4)
        )
        self.conv = nn.Conv2d(2048, width, 1)
        self.transformer = nn.Transformer(width, 8, layers, layers)
        self.linear_class, self.linear_bbox = nn.Linear(width, classes), nn.Linear(width, 4)
        self.query_pos = nn.Parameter(torch.rand(queries, width))
        self.row_embed, self.col_embed = (
            nn.Parameter(torch.rand(50, width // 2)),
            nn.Parameter(torch.rand(50, width // 2)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say what is where."""
        h = self.conv(self.backbone(x))
        high, wide = h.shape[-2:]
        pos = torch.cat(
            [
                self.col_embed[:wide].unsqueeze(0).repeat(high, 1, 1),
                self.row_embed[:high].unsqueeze(1).repeat(1, wide, 1),
            ],
            -1,
        ).flatten(0, 1)
        queries = self.query_pos.unsqueeze(1).repeat(1, x.shape[0], 1)
        h = self.transformer(pos.unsqueeze(1) + h.flatten(2).permute(2, 0, 1), queries)
        return torch.cat([self.linear_class(h), self.linear_bbox(h).sigmoid()], -1)


class Hourglass(nn.Module):
    """Down and up again around itself."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.up1, self.low1, self.low3 = (PreUnit(width, width, 1) for _ in range(3))
        self.pool = nn.MaxPool2d(2, 2)
        self.low2: nn.Module = Hourglass(depth - 1, width) if depth > 1 else PreUnit(width, width, 1)
        self.up2 = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return self.up1(x) + self.up2(self.low3(self.low2(self.low1(self.pool(x)))))


class Pose(nn.Module):
    """Hourglasses one behind the other that look for joints."""

    def __init__(self, stacks: int, width: int, joints: int = 16) -> None:
        super().__init__()
        self.pre = nn.Sequential(_unit(3, 64, 7, 2), PreUnit(64, 128, 1), nn.MaxPool2d(2, 2), PreUnit(128, width, 1))
        self.hgs = nn.ModuleList(Hourglass(4, width) for _ in range(stacks))
        self.features = nn.ModuleList(
            nn.Sequential(PreUnit(width, width, 1), _unit(width, width, 1)) for _ in range(stacks)
        )
        self.outs = nn.ModuleList(nn.Conv2d(width, joints, 1) for _ in range(stacks))
        self.merge = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(stacks - 1))
        self.merge_out = nn.ModuleList(nn.Conv2d(joints, width, 1) for _ in range(stacks - 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Draw where joints may be."""
        x = self.pre(x)
        found = []
        for i, glass in enumerate(self.hgs):
            feature = self.features[i](glass(x))
            found.append(self.outs[i](feature))
            if i < len(self.merge):
                x = x + self.merge[i](feature) + self.merge_out[i](found[-1])
        return torch.stack(found, 1)


class Modulate(nn.Module):
    """A convolution whose weights a style scales for each picture, with noise."""

    def __init__(self, before: int, after: int, style: int, up: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(after, before, 3, 3) * 0.05)
        self.bias, self.noise = nn.Parameter(torch.zeros(after)), nn.Parameter(torch.zeros(1))
        self.style = nn.Linear(style, before)
        self.up = up

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """Run the layer."""
        n, c, _, _ = x.shape
        weight = self.weight[None] * (self.style(w) + 1)[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.square().sum([2, 3, 4], keepdim=True) + 1e-8)
        if self.up:
            x = f.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = f.conv2d(x.reshape(1, n * c, *x.shape[2:]), weight.flatten(0, 1), padding=1, groups=n)
        x = x.view(n, -1, *x.shape[2:])
        x = x + self.noise * torch.randn_like(x[:, :1]) + self.bias[None, :, None, None]
        return f.leaky_relu(x, 0.2)


class Style(nn.Module):
    """Draws pictures from styles: a mapping, then modulated convolutions and a picture a scale."""

    def __init__(self, latent: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(8):
            layers += [nn.Linear(latent, latent), nn.LeakyReLU(0.2)]
        self.mapping = nn.Sequential(*layers)
        self.const = nn.Parameter(torch.randn(1, widths[0], 4, 4))
        pairs = list(itertools.pairwise([widths[0], *widths]))
        self.conv0 = nn.ModuleList(Modulate(a, b, latent, i > 0) for i, (a, b) in enumerate(pairs))
        self.conv1 = nn.ModuleList(Modulate(b, b, latent, False) for _, b in pairs)
        self.to_rgb = nn.ModuleList(nn.Conv2d(b, 3, 1) for _, b in pairs)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Draw pictures."""
        w = self.mapping(f.normalize(z, dim=1))
        x = self.const.expand(z.shape[0], -1, -1, -1)
        picture = None
        for first, second, rgb in zip(self.conv0, self.conv1, self.to_rgb, strict=True):
            x = second(first(x, w), w)
            here = rgb(x)
            picture = here if picture is None else here + f.interpolate(picture, scale_factor=2, mode="bilinear")
        return picture


class CrossRead(nn.Module):
    """Pixels attend to each other, then to words, then a gated feed-forward layer."""

    def __init__(self, width: int, heads: int, words: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(32, width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.q1, self.k1, self.v1, self.o1 = (nn.Linear(width, width, bias=i == 3) for i in range(4))
        self.q2, self.k2, self.v2 = (nn.Linear(n, width, bias=False) for n in (width, words, words))
        self.o2 = nn.Linear(width, width)
        self.ff1, self.ff2 = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        def split(t: torch.Tensor) -> torch.Tensor:
            return t.view(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)

        return f.scaled_dot_product_attention(split(q), split(k), split(v)).transpose(1, 2).flatten(2)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        n, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        a = self.norm1(y)
        y = y + self.o1(self._attend(self.q1(a), self.k1(a), self.v1(a)))
        a = self.norm2(y)
        y = y + self.o2(self._attend(self.q2(a), self.k2(context), self.v2(context)))
        value, gate = self.ff1(self.norm3(y)).chunk(2, -1)
        y = y + self.ff2(value * f.gelu(gate))
        return x + y.transpose(1, 2).reshape(n, c, h, w)


class TimedRes(nn.Module):
    """A residual block that is told the time step."""

    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(32, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(time, after))
        self.out_layers = nn.Sequential(
            nn.GroupNorm(32, after), nn.SiLU(), nn.Dropout(0.0), nn.Conv2d(after, after, 3, padding=1)
        )
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        return self.skip(x) + self.out_layers(self.in_layers(x) + self.emb_layers(t)[:, :, None, None])


class LatentUnet(nn.Module):
    """The denoiser of latent pictures that reads words, 77 of them, at each scale."""

    def __init__(self, width: int, times: tuple[int, ...], words: int) -> None:
        super().__init__()
        self.width = width
        self.time_embed = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.context = nn.Parameter(torch.randn(77, words))
        self.input = nn.Conv2d(4, width, 3, padding=1)
        widths = [width * t for t in times]
        time = 4 * width
        self.downs, self.reads, self.shrink = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        before, kept = width, [width]
        for i, w in enumerate(widths):
            last = i == len(widths) - 1
            self.downs.append(nn.ModuleList([TimedRes(before, w, time), TimedRes(w, w, time)]))
            self.reads.append(nn.ModuleList([CrossRead(w, 8, words), CrossRead(w, 8, words)] if not last else []))
            self.shrink.append(nn.Identity() if last else nn.Conv2d(w, w, 3, 2, 1))
            kept += [w, w] if last else [w, w, w]
            before = w
        self.middle1, self.middle2 = TimedRes(before, before, time), TimedRes(before, before, time)
        self.middle = CrossRead(before, 8, words)
        self.ups, self.up_reads, self.grow = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for i, w in reversed(list(enumerate(widths))):
            row, reads = nn.ModuleList(), nn.ModuleList()
            for _ in range(3):
                row.append(TimedRes(before + kept.pop(), w, time))
                if i < len(widths) - 1:
                    reads.append(CrossRead(w, 8, words))
                before = w
            self.ups.append(row)
            self.up_reads.append(reads)
            self.grow.append(nn.Conv2d(w, w, 3, padding=1) if i else nn.Identity())
        self.out = nn.Sequential(nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(before, 4, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say what noise there is."""
        n = x.shape[0]
        steps = torch.rand(n, 1, device=x.device, dtype=x.dtype) * torch.arange(self.width // 2, device=x.device)
        t = self.time_embed(torch.cat([steps.cos(), steps.sin()], 1).to(x.dtype))
        context = self.context.expand(n, -1, -1)
        x = self.input(x)
        kept = [x]
        for row, reads, shrink in zip(self.downs, self.reads, self.shrink, strict=True):
            for i, block in enumerate(row):
                x = block(x, t)
                x = reads[i](x, context) if len(reads) else x
                kept.append(x)
            if not isinstance(shrink, nn.Identity):
                x = shrink(x)
                kept.append(x)
        x = self.middle2(self.middle(self.middle1(x, t), context), t)
        for row, reads, grow in zip(self.ups, self.up_reads, self.grow, strict=True):
            for i, block in enumerate(row):
                x = block(torch.cat([x, kept.pop()], 1), t)
                x = reads[i](x, context) if len(reads) else x
            if not isinstance(grow, nn.Identity):
                x = grow(f.interpolate(x, scale_factor=2, mode="nearest"))
        return self.out(x)


class Siamese(nn.Module):
    """Two pictures through one network, and how alike they are."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        w = width
        self.conv = nn.Sequential(
            nn.Conv2d(1, w, 10),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(w, 2 * w, 7),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * w, 2 * w, 4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * w, 4 * w, 4),
            nn.ReLU(),
        )
        self.linear = nn.Sequential(nn.Linear(4 * w * 36, hidden), nn.Sigmoid())
        self.out = nn.Linear(hidden, 2)

    def forward_one(self, x: torch.Tensor) -> torch.Tensor:
        """Describe one picture."""
        return self.linear(self.conv(x).flatten(1))

    def forward(self, pair: torch.Tensor) -> torch.Tensor:
        """Compare pairs of pictures."""
        return self.out(torch.abs(self.forward_one(pair[:, 0]) - self.forward_one(pair[:, 1])))


class Capsules(nn.Module):
    """Vectors that vote for vectors, three rounds long, and a decoder."""

    def __init__(self, classes: int = 10, routes: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 256, 9)
        self.primary = nn.Conv2d(256, 32 * 8, 9, 2)
        self.weight = nn.Parameter(0.01 * torch.randn(1, classes, 1152, 16, 8))
        self.decoder = nn.Sequential(
            nn.Linear(16 * classes, 512), nn.ReLU(), nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 784), nn.Sigmoid()
        )
        self.routes = routes

    @staticmethod
    def _squash(x: torch.Tensor) -> torch.Tensor:
        square = (x**2).sum(-1, keepdim=True)
        return square / (1 + square) * x / torch.sqrt(square + 1e-8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rebuild digits."""
        x = f.relu(self.conv1(x))
        u = self._squash(self.primary(x).view(x.shape[0], 8, -1).transpose(1, 2))
        hat = (self.weight @ u[:, None, :, :, None]).squeeze(-1)
        logits = torch.zeros(hat.shape[:3], device=x.device, dtype=hat.dtype)
        for i in range(self.routes):
            votes = (f.softmax(logits, 1).unsqueeze(-1) * hat).sum(2)
            v = self._squash(votes)
            if i < self.routes - 1:
                logits = logits + (hat * v.unsqueeze(2)).sum(-1)
        return self.decoder(v.flatten(1))


class SetLevel(nn.Module):
    """Draws points, takes the nearest of each, and keeps the largest of what they say."""

    def __init__(self, points: int, near: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.points, self.near = points, near
        self.mlp_convs = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in itertools.pairwise(widths))
        self.mlp_bns = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])

    def forward(self, places: torch.Tensor, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return fewer places, and features of each."""
        centres = places[:, torch.randperm(places.shape[1], device=places.device)[: self.points]]
        near = torch.cdist(centres.float(), places.float()).topk(self.near, largest=False).indices
        rows = torch.arange(places.shape[0], device=places.device)[:, None, None]
        around = places[rows, near] - centres[:, :, None]
        x = torch.cat([around, features[rows, near]], -1).permute(0, 3, 2, 1)
        for conv, bn in zip(self.mlp_convs, self.mlp_bns, strict=True):
            x = f.relu(bn(conv(x)))
        return centres, x.max(2)[0].transpose(1, 2)


class PointSets(nn.Module):
    """Clouds of points by levels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        w = width
        self.sa1 = SetLevel(512, 32, (6, w, w, 2 * w))
        self.sa2 = SetLevel(128, 64, (2 * w + 3, 2 * w, 2 * w, 4 * w))
        self.sa3 = SetLevel(1, 128, (4 * w + 3, 4 * w, 8 * w, 16 * w))
        self.fc1, self.bn1, self.drop1 = nn.Linear(16 * w, 512), nn.BatchNorm1d(512), nn.Dropout(0.4)
        self.fc2, self.bn2 = nn.Linear(512, 256), nn.BatchNorm1d(256)
        self.fc3 = nn.Linear(256, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify clouds."""
        x = x.transpose(1, 2)
        places, x = self.sa1(x, x)
        places, x = self.sa2(places, x)
        _, x = self.sa3(places, x)
        x = self.drop1(f.relu(self.bn1(self.fc1(x.flatten(1)))))
        return self.fc3(f.relu(self.bn2(self.fc2(x))))


class EdgeConv(nn.Module):
    """Graphs of nearest points, made anew in each layer."""

    def __init__(self, near: int, width: int) -> None:
        super().__init__()
        self.near = near
        widths = [3, width, width, 2 * width, 4 * width]
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2 * a, b, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))
            for a, b in itertools.pairwise(widths)
        )
        self.conv5 = nn.Sequential(
            nn.Conv1d(sum(widths[1:]), 1024, 1, bias=False), nn.BatchNorm1d(1024), nn.LeakyReLU(0.2)
        )
        self.linear1, self.bn6, self.linear2 = nn.Linear(2048, 512), nn.BatchNorm1d(512), nn.Linear(512, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify clouds."""
        kept = []
        rows = torch.arange(x.shape[0], device=x.device)[:, None, None]
        for conv in self.convs:
            points = x.transpose(1, 2)
            near = torch.cdist(points.float(), points.float()).topk(self.near, largest=False).indices
            around = points[rows, near]
            own = points[:, :, None].expand_as(around)
            x = conv(torch.cat([around - own, own], 3).permute(0, 3, 1, 2)).max(-1)[0]
            kept.append(x)
        x = self.conv5(torch.cat(kept, 1))
        x = torch.cat([f.adaptive_max_pool1d(x, 1).flatten(1), f.adaptive_avg_pool1d(x, 1).flatten(1)], 1)
        return self.linear2(f.leaky_relu(self.bn6(self.linear1(x)), 0.2))


class Window(nn.Module):
    """Attention in windows of seven by seven with learned places, shifted or not."""

    def __init__(self, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.heads, self.shift = heads, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to_qkv, self.to_out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.pos_embedding = nn.Parameter(torch.randn(49, 49))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        n, h, w, c = x.shape
        y = self.norm1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = y.view(n, h // 7, 7, w // 7, 7, c).transpose(2, 3).reshape(-1, 49, c)
        q, k, v = (t.view(t.shape[0], 49, self.heads, -1).transpose(1, 2) for t in self.to_qkv(y).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5 + self.pos_embedding).softmax(-1)
        y = self.to_out((weights @ v).transpose(1, 2).flatten(2))
        y = y.view(n, h // 7, w // 7, 7, 7, c).transpose(2, 3).reshape(n, h, w, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))


class OwnSwin(nn.Module):
    """Windows in four stages, patches merged between."""

    def __init__(self, width: int, depths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.merge, self.stages = nn.ModuleList(), nn.ModuleList()
        before, times = 3, 4
        for i, depth in enumerate(depths):
            after = width * 2**i
            self.merge.append(nn.Linear(before * times**2, after))
            self.stages.append(nn.Sequential(*(Window(after, after // 32, 3 * (j % 2)) for j in range(depth))))
            before, times = after, 2
        self.head = nn.Sequential(nn.LayerNorm(before), nn.Linear(before, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify pictures."""
        x = x.permute(0, 2, 3, 1)
        for i, (merge, stage) in enumerate(zip(self.merge, self.stages, strict=True)):
            t = 2 if i else 4
            n, h, w, c = x.shape
            x = x.reshape(n, h // t, t, w // t, t, c).transpose(2, 3).reshape(n, h // t, w // t, t * t * c)
            x = stage(merge(x))
        return self.head(x.mean((1, 2)))


class ConvMemory(nn.Module):
    """LSTM cells whose products are convolutions, over films; says the next picture."""

    def __init__(self, channels: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.cells = nn.ModuleList(
            nn.Conv2d((channels if i == 0 else hidden) + hidden, 4 * hidden, 5, padding=2) for i in range(layers)
        )
        self.out = nn.Conv2d(hidden, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say the next picture."""
        n, steps, _, h, w = x.shape
        states = [(x.new_zeros(n, self.hidden, h, w), x.new_zeros(n, self.hidden, h, w)) for _ in self.cells]
        for t in range(steps):
            now = x[:, t]
            for i, cell in enumerate(self.cells):
                hidden, memory = states[i]
                a, b, c, d = cell(torch.cat([now, hidden], 1)).chunk(4, 1)
                memory = torch.sigmoid(b) * memory + torch.sigmoid(a) * torch.tanh(d)
                now = torch.sigmoid(c) * torch.tanh(memory)
                states[i] = (now, memory)
        return self.out(now)


class Volumes(nn.Module):
    """Patches of a volume through a transformer, then up to the volume again."""

    def __init__(self, side: int, width: int, depth: int, heads: int, feature: int) -> None:
        super().__init__()
        self.grid = side // 16
        self.patch = nn.Conv3d(1, width, 16, 16)
        self.position = nn.Parameter(torch.zeros(1, self.grid**3, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        widths = [width, 8 * feature, 4 * feature, 2 * feature, feature]
        self.ups = nn.ModuleList(
            nn.Sequential(
                nn.ConvTranspose3d(a, b, 2, 2), nn.Conv3d(b, b, 3, padding=1), nn.InstanceNorm3d(b), nn.LeakyReLU()
            )
            for a, b in itertools.pairwise(widths)
        )
        self.skip = nn.Sequential(nn.Conv3d(1, feature, 3, padding=1), nn.InstanceNorm3d(feature), nn.LeakyReLU())
        self.out = nn.Conv3d(2 * feature, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Label voxels."""
        y = self.patch(x).flatten(2).transpose(1, 2) + self.position
        y = self.encoder(y).transpose(1, 2).reshape(x.shape[0], -1, self.grid, self.grid, self.grid)
        for up in self.ups:
            y = up(y)
        return self.out(torch.cat([y, self.skip(x)], 1))


class Couple(nn.Module):
    """One step of a flow: scale, mix channels, and change one half by what the other says."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(1, width, 1, 1)), nn.Parameter(torch.zeros(1, width, 1, 1))
        self.mix = nn.Conv2d(width, width, 1, bias=False)
        self.net = nn.Sequential(
            nn.Conv2d(width // 2, hidden, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(),
            nn.Conv2d(hidden, width, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the step."""
        a, b = self.mix(x * self.scale + self.shift).chunk(2, 1)
        scale, shift = self.net(a).chunk(2, 1)
        return torch.cat([a, b * torch.sigmoid(scale + 2) + shift], 1)


class Flow(nn.Module):
    """A flow over pictures, four pixels into channels at each level."""

    def __init__(self, hidden: int, steps: int, levels: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(nn.PixelUnshuffle(2), *(Couple(3 * 4 ** (i + 1), hidden) for _ in range(steps)))
            for i in range(levels)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Turn pictures into noise."""
        for level in self.levels:
            x = level(x)
        return x


class Fourier(nn.Module):
    """Multiplies the lowest frequencies of a field."""

    def __init__(self, width: int, modes: int, depth: int) -> None:
        super().__init__()
        self.modes = modes
        self.fc0 = nn.Linear(3, width)
        shape = (width, width, modes, modes, 2)
        self.weights = nn.ParameterList(torch.randn(shape) / width**2 for _ in range(2 * depth))
        self.w = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(depth))
        self.fc1, self.fc2 = nn.Linear(width, 128), nn.Linear(128, 1)

    def _spectral(self, x: torch.Tensor, i: int) -> torch.Tensor:
        m = self.modes
        seen = torch.fft.rfft2(x.float())
        out = torch.zeros_like(seen)
        one, two = (torch.view_as_complex(self.weights[2 * i + j].float()) for j in (0, 1))
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", seen[:, :, :m, :m], one)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", seen[:, :, -m:, :m], two)
        return torch.fft.irfft2(out, s=x.shape[-2:]).to(x.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Say the next state of a field."""
        x = self.fc0(x).permute(0, 3, 1, 2)
        for i, w in enumerate(self.w):
            x = self._spectral(x, i) + w(x)
            x = f.gelu(x) if i < len(self.w) - 1 else x
        return self.fc2(f.gelu(self.fc1(x.permute(0, 2, 3, 1))))


class Board(nn.Module):
    """Judges positions of a board game: residual blocks, a policy and a value."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(17, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2 * depth))
        self.bns = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2 * depth))
        self.policy_conv, self.policy_bn, self.policy_fc = (
            nn.Conv2d(width, 2, 1),
            nn.BatchNorm2d(2),
            nn.Linear(722, 362),
        )
        self.value_conv, self.value_bn = nn.Conv2d(width, 1, 1), nn.BatchNorm2d(1)
        self.value_fc1, self.value_fc2 = nn.Linear(361, 256), nn.Linear(256, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Judge positions."""
        x = f.relu(self.bn(self.conv(x)))
        for i in range(0, len(self.convs), 2):
            y = f.relu(self.bns[i](self.convs[i](x)))
            x = f.relu(x + self.bns[i + 1](self.convs[i + 1](y)))
        policy = self.policy_fc(f.relu(self.policy_bn(self.policy_conv(x))).flatten(1))
        value = f.relu(self.value_fc1(f.relu(self.value_bn(self.value_conv(x))).flatten(1)))
        return torch.cat([policy, torch.tanh(self.value_fc2(value))], 1)


class ResidualGan(nn.Module):
    """Draws pictures by residual blocks that double them."""

    def __init__(self, latent: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.width = widths[0]
        self.linear = nn.Linear(latent, 16 * widths[0])
        pairs = list(itertools.pairwise(widths))
        self.norms1 = nn.ModuleList(nn.BatchNorm2d(a) for a, _ in pairs)
        self.convs1 = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairs)
        self.norms2 = nn.ModuleList(nn.BatchNorm2d(b) for _, b in pairs)
        self.convs2 = nn.ModuleList(nn.Conv2d(b, b, 3, padding=1) for _, b in pairs)
        self.shortcuts = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in pairs)
        self.norm, self.out = nn.BatchNorm2d(widths[-1]), nn.Conv2d(widths[-1], 3, 3, padding=1)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Draw pictures."""
        x = self.linear(z).view(-1, self.width, 4, 4)
        for n1, c1, n2, c2, short in zip(
            self.norms1, self.convs1, self.norms2, self.convs2, self.shortcuts, strict=True
        ):
            y = c1(f.interpolate(f.relu(n1(x)), scale_factor=2))
            x = c2(f.relu(n2(y))) + short(f.interpolate(x, scale_factor=2))
        return torch.tanh(self.out(f.relu(self.norm(x))))


MODELS: dict[str, Plain] = {
    "own_alexnet": Plain(lambda: OwnAlexnet(224, 1000), (3, 224, 224)),
    "own_alexnet_small": Plain(lambda: OwnAlexnet(64, 200), (3, 64, 64)),
    "own_mobilenet": Plain(lambda: OwnMobile(MOBILE, 1000), (3, 224, 224)),
    "own_mobilenet_small": Plain(lambda: OwnMobile(MOBILE[:5], 100), (3, 128, 128)),
    "own_efficientnet": Plain(lambda: OwnMobile(_EFFICIENT, 1000, gate=True), (3, 224, 224)),
    "own_inception": Plain(lambda: OwnInception(100), (3, 224, 224)),
    "own_shufflenet": Plain(lambda: OwnShuffle((240, 480, 960), 3, 1000), (3, 224, 224)),
    "own_resnext": Plain(lambda: OwnResnext((3, 4, 6, 3), 32, gate=False, classes=100), (3, 32, 32)),
    "own_senet": Plain(lambda: OwnResnext((2, 2, 2, 2), 1, gate=True, classes=100), (3, 64, 64)),
    "own_fpn": Plain(lambda: Pyramid((3, 4, 6, 3), 21), (3, 256, 256), target="pixels"),
    "own_deeplab": Plain(lambda: Atrous((3, 4, 6, 3), 21), (3, 321, 321), target="pixels"),
    "own_deeplab_small": Plain(lambda: Atrous((2, 2, 2, 2), 19), (3, 256, 256), target="pixels"),
    "unet_pp": Plain(lambda: Nested(32, 4), (3, 256, 256), target="pixels"),
    "unet_pp_small": Plain(lambda: Nested(16, 2), (3, 128, 128), target="pixels"),
    "res_unet": Plain(lambda: ResUnet(64), (3, 256, 256), target="mean"),
    "pix2pix": Plain(lambda: Translate(64), (3, 256, 256), target="mean"),
    "esrgan": Plain(lambda: Esrgan(64, 23), (3, 32, 32), target="mean"),
    "esrgan_small": Plain(lambda: Esrgan(32, 8), (3, 48, 48), target="mean"),
    "own_yolo_n": Plain(lambda: OwnYolo(16, 1), (3, 640, 640), target="mean"),
    "own_yolo_s": Plain(lambda: OwnYolo(32, 1), (3, 416, 416), target="mean"),
    "own_detr": Plain(lambda: OwnDetr((3, 4, 6, 3), 256, 6), (3, 512, 512), target="mean"),
    "hourglass2": Plain(lambda: Pose(2, 256), (3, 256, 256), target="mean"),
    "hourglass4": Plain(lambda: Pose(4, 128), (3, 256, 256), target="mean"),
    "stylegan_64": Plain(lambda: Style(512, (512, 512, 512, 256, 128)), (512,), target="mean"),
    "stylegan_256": Plain(lambda: Style(512, (512, 512, 512, 256, 128, 64, 32)), (512,), target="mean"),
    "latent_unet": Plain(lambda: LatentUnet(128, (1, 2, 4), 512), (4, 32, 32), target="mean"),
    "latent_unet_wide": Plain(lambda: LatentUnet(192, (1, 2, 4, 4), 768), (4, 64, 64), target="mean"),
    "siamese": Plain(lambda: Siamese(64, 4096), (2, 1, 105, 105)),
    "capsnet": Plain(Capsules, (1, 28, 28), target="mean"),
    "pointnet2": Plain(lambda: PointSets(64), (3, 1024)),
    "dgcnn": Plain(lambda: EdgeConv(20, 64), (3, 1024)),
    "own_swin": Plain(lambda: OwnSwin(96, (2, 2, 6, 2), 1000), (3, 224, 224)),
    "own_swin_small": Plain(lambda: OwnSwin(64, (2, 2, 2, 2), 100), (3, 224, 224)),
    "conv_lstm": Plain(lambda: ConvMemory(1, 64, 2), (10, 1, 64, 64), target="mean"),
    "unetr": Plain(lambda: Volumes(96, 512, 8, 8, 16), (1, 96, 96, 96), target="pixels"),
    "glow": Plain(lambda: Flow(512, 8, 3), (3, 32, 32), target="mean"),
    "fno": Plain(lambda: Fourier(32, 12, 4), (64, 64, 3), target="mean"),
    "fno_wide": Plain(lambda: Fourier(64, 16, 4), (128, 128, 3), target="mean"),
    "alphazero": Plain(lambda: Board(256, 10), (17, 19, 19), target="mean"),
    "resnet_gan": Plain(lambda: ResidualGan(128, (512, 512, 256, 128, 64)), (128,), target="mean"),
    # Of networks that were measured, in other depths and widths.
    "unet48": Plain(lambda: Unet(48), (3, 160, 160), target="pixels"),
    "wrn16_8": Plain(lambda: WideResNet(16, 8), (3, 32, 32)),
    "wrn40_2": Plain(lambda: WideResNet(40, 2), (3, 32, 32)),
    "edsr32": Plain(lambda: Sharpen(96, 32, norm=False), (3, 48, 48), target="mean"),
    "vae32": Plain(lambda: Vae(32, 64), (3, 64, 64), target="mean"),
    "crnn384": Plain(lambda: Crnn(384), (1, 32, 256)),
    "gru_words_small": Plain(lambda: Recurrent(nn.GRU, 20000, 256, 512, 3, True, 20000), None, 20000),
    "lstm_classifier_wide": Plain(lambda: Recurrent(nn.LSTM, 50000, 256, 1024, 1, False, 20), None, 50000),
    "torch_encoder_wide": Plain(lambda: TorchTransformer(1024, 4, 16, 20000), None, 20000),
    "nanogpt_medium": Plain(lambda: NanoGpt(512, 10, 8), None, 50304),
    "plain_vit_tiny": Plain(lambda: PlainVit(192, 12, 3), (3, 224, 224)),
    "diffusion_unet_96": Plain(lambda: DiffusionUnet(96), (3, 32, 32), target="mean"),
    "cifar_resnet34": Plain(lambda: CifarResnet((3, 4, 6, 3)), (3, 32, 32)),
    "cifar_resnet20": Plain(lambda: CifarResnet((3, 3, 3), 32), (3, 32, 32)),
    "cifar_vgg19": Plain(
        lambda: cifar_vgg("64 64 M 128 128 M 256 256 256 256 M 512 512 512 512 M 512 512 512 512 M"), (3, 32, 32)
    ),
    "tiny_llama_deep": Plain(lambda: Decoder(384, 16, 6, 2, 32000), None, 32000),
    "own_bert_small": Plain(lambda: Bert(384, 6, 6, 30522), None, 30522),
    "dit_wide": Plain(lambda: Dit(512, 8, 8), (4, 32, 32), target="mean"),
    "dncnn20": Plain(lambda: Denoiser(96, 20), (3, 96, 96), target="mean"),
    "mlp_deep": Plain(lambda: perceptron((784, *[2048] * 8, 10), nn.ReLU), (784,)),
}
