"""Texts as torchsummary and `print(model)` would give them, without torch: a table of layers and a tree of modules.

Pure. ResNet-50 follows He et al., "Deep Residual Learning for Image Recognition", table 1; BERT base follows Devlin
et al., "BERT: Pre-training of Deep Bidirectional Transformers", section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

MIB = 1024.0 * 1024.0
FLOAT_BYTES = 4
RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
EXPANSION = 4


@dataclass
class Table:
    """Rows of a torchsummary table; convolutions and poolings keep the running shape."""

    batch: int
    shape: tuple[int, ...] = (3, 224, 224)
    rows: list[tuple[str, tuple[int, ...], int]] = field(default_factory=list)

    def add(self, kind: str, shape: tuple[int, ...], params: int = 0) -> None:
        """One layer."""
        self.shape = shape
        self.rows.append((f"{kind}-{len(self.rows) + 1}", shape, params))

    def conv(self, channels: int, kernel: int, stride: int = 1, *, relu: bool = True) -> None:
        """A convolution without bias, its batch normalisation and, mostly, a ReLU."""
        before, height, width = self.shape
        shape = (channels, -(-height // stride), -(-width // stride))
        self.add("Conv2d", shape, before * channels * kernel * kernel)
        self.add("BatchNorm2d", shape, 2 * channels)
        if relu:
            self.add("ReLU", shape)

    def text(self, input_shape: tuple[int, ...]) -> str:
        """The table as torchsummary prints it."""
        rule, bar = "-" * 64, "=" * 64
        lines = [rule, f"{'Layer (type)':>20}  {'Output Shape':>25} {'Param #':>15}", bar]
        for name, shape, params in self.rows:
            lines.append(f"{name:>20}  {[self.batch, *shape]!s:>25} {params:>15,}")
        total = sum(params for _, _, params in self.rows)
        inputs = self.batch * prod(input_shape) * FLOAT_BYTES / MIB
        passes = 2.0 * self.batch * sum(prod(shape) for _, shape, _ in self.rows) * FLOAT_BYTES / MIB
        weights = total * FLOAT_BYTES / MIB
        lines += [
            bar,
            f"Total params: {total:,}",
            f"Trainable params: {total:,}",
            "Non-trainable params: 0",
            rule,
            f"Input size (MB): {inputs:.2f}",
            f"Forward/backward pass size (MB): {passes:.2f}",
            f"Params size (MB): {weights:.2f}",
            f"Estimated Total Size (MB): {inputs + passes + weights:.2f}",
            rule,
        ]
        return "\n".join(lines) + "\n"


def resnet50(batch: int = 64) -> str:
    """ResNet-50 on 224 x 224 images, as torchsummary prints it."""
    table = Table(batch)
    table.conv(64, 7, 2)
    table.add("MaxPool2d", (64, 56, 56))
    for stage, (width, blocks) in enumerate(RESNET50_STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            entry = table.shape
            table.conv(width, 1)
            table.conv(width, 3, stride)
            table.conv(width * EXPANSION, 1, relu=False)
            if not block:
                out = table.shape
                table.shape = entry
                table.conv(width * EXPANSION, 1, stride, relu=False)
                table.shape = out
            table.add("ReLU", table.shape)
            table.add("Bottleneck", table.shape)
    channels = table.shape[0]
    table.add("AdaptiveAvgPool2d", (channels, 1, 1))
    table.add("Linear", (1000,), channels * 1000 + 1000)
    return table.text((3, 224, 224))


def cnn(layers: int, width: int = 32, batch: int = 32) -> str:
    """A plain convolutional network of at least `layers` rows on 224 x 224 images, as torchsummary prints it."""
    table = Table(batch)
    while len(table.rows) < layers - 2:
        halved = table.rows and len(table.rows) % 15 == 0 and table.shape[1] > 7
        table.conv(width + len(table.rows), 3, 2 if halved or not table.rows else 1)
    channels = table.shape[0]
    table.add("AdaptiveAvgPool2d", (channels, 1, 1))
    table.add("Linear", (1000,), channels * 1000 + 1000)
    return table.text((3, 224, 224))


def mlp(layers: int, width: int = 64, batch: int = 32) -> str:
    """A stack of linear layers, as torchsummary prints it."""
    table = Table(batch, (width,))
    for _ in range(layers):
        table.add("Linear", (width,), width * width + width)
    return table.text((width,))


def bert_base(layers: int = 12, width: int = 768, vocabulary: int = 30522) -> str:
    """BERT base for masked language modelling, as `print(model)` shows it."""
    inner = 4 * width
    norm = f"LayerNorm(({width},), eps=1e-12, elementwise_affine=True)"
    dropout = "(dropout): Dropout(p=0.1, inplace=False)"

    def linear(before: int, after: int) -> str:
        return f"Linear(in_features={before}, out_features={after}, bias=True)"

    lines = [
        "BertForMaskedLM(",
        "  (bert): BertModel(",
        "    (embeddings): BertEmbeddings(",
        f"      (word_embeddings): Embedding({vocabulary}, {width}, padding_idx=0)",
        f"      (position_embeddings): Embedding(512, {width})",
        f"      (token_type_embeddings): Embedding(2, {width})",
        f"      (LayerNorm): {norm}",
        f"      {dropout}",
        "    )",
        "    (encoder): BertEncoder(",
        "      (layer): ModuleList(",
    ]
    for layer in range(layers):
        lines += [
            f"        ({layer}): BertLayer(",
            "          (attention): BertAttention(",
            "            (self): BertSelfAttention(",
            f"              (query): {linear(width, width)}",
            f"              (key): {linear(width, width)}",
            f"              (value): {linear(width, width)}",
            f"              {dropout}",
            "            )",
            "            (output): BertSelfOutput(",
            f"              (dense): {linear(width, width)}",
            f"              (LayerNorm): {norm}",
            f"              {dropout}",
            "            )",
            "          )",
            "          (intermediate): BertIntermediate(",
            f"            (dense): {linear(width, inner)}",
            "            (intermediate_act_fn): GELUActivation()",
            "          )",
            "          (output): BertOutput(",
            f"            (dense): {linear(inner, width)}",
            f"            (LayerNorm): {norm}",
            f"            {dropout}",
            "          )",
            "        )",
        ]
    lines += [
        "      )",
        "    )",
        "  )",
        "  (cls): BertOnlyMLMHead(",
        "    (predictions): BertLMPredictionHead(",
        "      (transform): BertPredictionHeadTransform(",
        f"        (dense): {linear(width, width)}",
        "        (transform_act_fn): GELUActivation()",
        f"        (LayerNorm): {norm}",
        "      )",
        f"      (decoder): {linear(width, vocabulary)}",
        "    )",
        "  )",
        ")",
    ]
    return "\n".join(lines) + "\n"
