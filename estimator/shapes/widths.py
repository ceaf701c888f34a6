"""What a printed layer says of its input, and how a shape fits that. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Final

from estimator import sizes
from estimator.breath import breathe
from estimator.inputs import axes, number
from estimator.layer import Layer
from estimator.shapes.tables import ATTENDS
from estimator.walk import elements

Shape = tuple[int, ...]

COLOURS: Final = 3
# Layers that read a series step by step.
RECURRENT: Final = frozenset(("LSTM", "GRU", "RNN"))
# Axes of a film or volume, channels included.
DEEP: Final = 4
# What is usual.
IMAGE: Final = 224
TOKENS: Final = 512
MOST_DIM: Final = 10_000_000
# Of a whole picture or text.
HEADS: Final[tuple[str, ...]] = (
    "fc",
    "head",
    "classifier",
    "heads",
    "last_linear",
    "output",
    "logits",
    "score",
    "pooler",
    "qa_outputs",
)

# Pictures have so many channels at most; a linear layer that stands before them takes a time step.
MOST_COLOURS: Final = 16
_LONGEST_LINE: Final = 160
_POOLED_CONVS: Final[tuple[str, ...]] = ("conv_reduce", "conv_expand", "fc_reduce", "fc_select")
_ACTIVATIONS: Final = frozenset(("SiLU", "GELU", "ReLU", "Mish", "Swish", "LeakyReLU"))
_ANSWERS: Final = frozenset(("Tanh", "Sigmoid", "Softmax", "LogSoftmax"))
# Features of one head of an attention, where nothing says how many.
_HEAD: Final = 64
_ROW: Final = 2
_MOST_PARTS: Final = 16
_BY_CHANNELS: Final[tuple[str, ...]] = ("2d", "3d", "Conv", "BatchNorm", "GroupNorm")
# Layers that work on series, or are in blocks that do.
_OF_SERIES: Final[tuple[str, ...]] = (
    "Conv",
    "Attention",
    "Attn",
    "Transformer",
    "LSTM",
    "GRU",
    "RNN",
    "LayerNorm",
    "RMS",
)
# Layers that work on each row by itself, and words.
_PLAIN: Final = frozenset(("Embedding", "Linear", "BatchNorm1d", "Dropout", "Sequential")) | _ACTIVATIONS | _ANSWERS
_ROWS: Final = _PLAIN | {"EmbeddingBag", "ELU", "Identity", "PReLU"}
# Parts of denoisers that work on the time step.
OF_TIME: Final[tuple[str, ...]] = ("time", "temb", "t_emb", "emb_layers")


def input_width(layer: Layer) -> int | None:
    """Read the features or channels that a layer needs at its input."""
    breathe()
    type_ = layer.type
    try:
        if type_ == "Conv1D":
            return sizes.integer(layer.said("nx"))
        if "Linear" in type_:
            return sizes.integer(layer.said("in_features"))
        if "Conv" in type_ or "BatchNorm" in type_ or "InstanceNorm" in type_:
            return sizes.integer(layer.said("0"))
        if type_ == "GroupNorm":
            return sizes.integer(layer.said("1"))
        if "LayerNorm" in type_:
            return sizes.numbers(layer.said("0"))[-1]
    except (ValueError, IndexError):
        return None
    return None


def first_width(layer: Layer) -> int:
    """Read what the first layer of known width takes; 0 where there is none."""
    width = input_width(layer)
    if width:
        return width
    for child in layer.children:
        if width := first_width(child):
            return width
    return 0


def last_width(layer: Layer) -> int:
    """Read how many channels the last convolution of a part gives out; 0 where there is none."""
    if not layer.children:
        return number(layer, "1") if "Conv" in layer.type else 0
    for child in reversed(layer.children):
        if width := last_width(child):
            return width
    return 0


def first_of_width(layer: Layer) -> Layer | None:
    """Find the first layer without others inside that says what it takes."""
    if not layer.children:
        return layer if input_width(layer) else None
    for child in layer.children:
        if (found := first_of_width(child)) is not None:
            return found
    return None


def conv1d_width(layer: Layer, args: dict[str, str], shape: Shape) -> int:
    """Read how wide a product of transformers' Conv1D is, or solve its parameters, which older prints show alone."""
    if "nf" in args:
        return sizes.number(args, "nf")
    # params = inputs x outputs + outputs; behind a joined projection of queries, keys and values a third goes in.
    for width in (shape[-1], shape[-1] // 3, shape[-1] * 4, shape[-1] * 3, shape[-1] * 2):
        outputs, rest = divmod(layer.params, width + 1)
        if rest == 0 and outputs:
            return outputs
    return shape[-1]


def fits(layer: Layer, shape: Shape, width: int) -> bool:
    """Tell whether a shape has as many features, or channels, as a layer needs."""
    if "BatchNorm1d" in layer.type and len(shape) == 2:
        return width in shape
    if ("Conv" in layer.type and layer.type != "Conv1D") or "BatchNorm" in layer.type or "InstanceNorm" in layer.type:
        return bool(shape) and shape[0] == width
    if "Norm" in layer.type:
        return bool(shape) and width in (shape[0], shape[-1])
    return bool(shape) and (shape[-1] == width or elements(shape) == width)


def by_channels(layer: Layer) -> bool:
    """Tell whether a layer takes channels on the first axis."""
    return any(mark in layer.type for mark in _BY_CHANNELS)


def takes_pictures(layer: Layer) -> bool:
    """Tell whether a layer is a convolution of pictures, by the number of its channels."""
    if layer.type != "Conv2d":
        return False
    breathe()
    channels = layer.said("0")
    return channels.isdecimal() and len(channels) <= 2 and int(channels) <= MOST_COLOURS


def of_a_gate(layer: Layer, width: int) -> bool:
    """Tell whether a convolution works on one pixel a channel, as those of squeeze and excitation do."""
    if "Conv2d" not in layer.type or layer.said("kernel_size") != "(1, 1)":
        return False
    outputs = layer.said("1")
    more = outputs.isdecimal() and len(outputs) < 9 and int(outputs) > width
    return layer.name in _POOLED_CONVS or layer.name == ("fc2" if more else "fc1")


def of_points(found: Sequence[Layer]) -> bool:
    """Tell whether a network looks at each place of a series alone: these are points, of which it takes the largest."""
    convs = [layer for layer in found if layer.type == "Conv1d"]
    return len(convs) > 1 and all(axes(layer, "kernel_size") == (1,) for layer in convs)


def of_time(part: Layer) -> int:
    """Read the features of the time step that a part of a denoiser takes, whose pictures go past it; 0 for others."""
    if not part.name.startswith(OF_TIME):
        return 0
    first = first_of_width(part)
    return (input_width(first) or 0) if first is not None and first.type == "Linear" else 0


def beside_pictures(block: Layer, part: Layer) -> int:
    """Read the features that a block of convolutions makes one number for each of its channels of, or two; else 0.

    Such a row begins with an activation, as its features are those of all blocks: a time step, or what is asked for.
    """
    row = part.children
    if part.type != "Sequential" or not _ROW <= len(row) <= COLOURS or len(block.children) > _MOST_PARTS:
        return 0
    if row[0].params or row[0].type not in _ACTIVATIONS or row[1].type != "Linear":
        return 0
    made = number(row[1], "out_features")
    widths = [last_width(other) for other in block.children if other is not part]
    return number(row[1], "in_features") if made and any(made in (width, 2 * width) for width in widths) else 0


def fields_of(block: Layer, listed: bool = False) -> int:
    """Count the fields that are looked up each in a table of its own; 0 where a block is no list of such tables.

    Args:
        block: of tables.
        listed: whether a list without names may be one, too.
    """
    parts = block.children
    if len(parts) < 2 or not (block.type == "ModuleDict" or (listed and block.type == "ModuleList")):
        return 0
    return len(parts) if all(part.type in ("Embedding", "EmbeddingBag") for part in parts) else 0


def of_fields(found: Sequence[Layer]) -> bool:
    """Tell whether a network has no layer that works on a series, so that tables in a list are those of fields."""
    breathe()
    types = {layer.type for layer in found}
    return not any(mark in type_ for type_ in types for mark in _OF_SERIES)


def of_ids(found: Sequence[Layer]) -> bool:
    """Tell whether each of several tables looks up one row of a sample, as of its user and of what is sold.

    Nothing works on a series then, no table is one of positions, and none has a row for what pads a text.
    """
    tables = [layer for layer in found if layer.type == "Embedding"]
    if len(tables) < _ROW or not of_fields(found) or not {layer.type for layer in found if not layer.children} <= _ROWS:
        return False
    return not any("pos" in table.name or table.name == "wpe" or table.said("padding_idx") for table in tables)


def averages(found: Sequence[Layer]) -> bool:
    """Tell whether code averages the words of a text before the first linear layer.

    These are looked up in one table, or in several whose rows code joins, and all other layers are plain; the last
    gives out no word again.
    """
    tables = [layer for layer in found if layer.type == "Embedding"]
    linear = [layer for layer in found if layer.type == "Linear"]
    if not tables or not linear or not {layer.type for layer in found[1:]} <= _PLAIN:
        return False
    first, last = number(linear[0], "in_features"), number(linear[-1], "out_features")
    return first == sum([number(table, "1") for table in tables]) and last != number(tables[0], "0")


def side_by_side(block: Layer) -> int:
    """Count the channels that kernels of several sizes in a list make of the same words; 0 for another block."""
    parts = block.children
    if block.type != "ModuleList" or len(parts) < 2:
        return 0
    breathe()
    kernels = {part.said("kernel_size") for part in parts if part.type in ("Conv1d", "Conv2d")}
    alike = len(kernels) == len(parts) and len({part.said("0") for part in parts}) == 1
    return min(sum([number(part, "1") for part in parts]), MOST_DIM) if alike else 0


def of_matrix(block: Layer, shape: Shape) -> tuple[frozenset[str], Shape]:
    """Tell which parts of an attention work on its matrix, not on the tokens that come in, and how large that is.

    These are a softmax, a dropout right behind it, and every dropout of a head by itself, which has no layer behind
    its queries, keys and values.

    Args:
        block: a block of a print.
        shape: of tokens.

    Returns:
        Names of the parts, and the matrix of each head; no names where nothing shows it.
    """
    parts = block.children
    rest = [part for part in parts if part.type in ("Dropout", "Softmax")]
    if not rest:
        return frozenset(), ()
    softmax = next((at for at, part in enumerate(parts[:_MOST_PARTS]) if part.type == "Softmax"), -1)
    linear = [part for part in parts[:_MOST_PARTS] if part.type == "Linear"]
    widths = {(number(part, "in_features"), number(part, "out_features")) for part in linear}
    if len(linear) == COLOURS and len(widths) == 1 and len(rest) + COLOURS == len(parts):
        taken, made = widths.pop()
        if 0 < made < taken:
            return frozenset([part.name for part in rest]), (1, shape[0], shape[0])
    if softmax < 0 or not linear or ATTENDS not in block.type or number(linear[0], "in_features") != shape[-1]:
        return frozenset(), ()
    width = number(linear[0], "out_features")
    if len(linear) < COLOURS:
        if width <= shape[-1]:
            return frozenset(), ()  # no queries, keys and values: it weighs features
        width = width if width % COLOURS else width // COLOURS
    behind = parts[softmax + 1 : softmax + 2]
    dropped = [part.name for part in behind if part.type == "Dropout"]
    return frozenset((parts[softmax].name, *dropped)), (max(width // _HEAD, 1), shape[0], shape[0])


def columns_of(table: Layer) -> int:
    """Read how wide a table of features is; 1 where it does not say."""
    return max(min(number(table, "1"), MOST_DIM), 1)


def shrinks(layer: Layer) -> bool:
    """Tell whether a layer makes pictures smaller."""
    if "Pool" in layer.type:
        return "Adaptive" not in layer.type and "Unpool" not in layer.type
    if "Conv" not in layer.type or "Transpose" in layer.type:
        return False
    breathe()
    return any(step > 1 for step in axes(layer, "stride"))


def oblong(start: Shape) -> bool:
    """Tell whether pictures that go in are no squares: two equal sizes of one behind a layer are so by chance."""
    return len(start) == COLOURS and start[1] != start[2]


def grid(shape: Shape, *, first: bool = False) -> Shape:
    """Give the places of a picture or film, whichever axis its channels are on.

    Args:
        shape: of one sample.
        first: whether its channels are on the first axis in any case.
    """
    if len(shape) in (3, DEEP) and first:
        return shape[1:]
    if len(shape) in (3, DEEP) and (shape[-2] == shape[-1] or shape[-3] != shape[-2]):
        return shape[1:]
    return shape[:-1]


def places_of(places: Shape) -> Shape:
    """Give height and width of so many places; a class token is left out."""
    if len(places) != 1:
        return places
    side = isqrt(places[0])
    return (side, side) if places[0] - side * side < 2 else places


def line_of(layer: Layer) -> str:
    """Quote a layer as it is printed."""
    args = ", ".join(value if key.isdecimal() else f"{key}={value}" for key, value in layer.args)
    name = f"({layer.name}): " if layer.name else ""
    return f"{name}{layer.type}({args})"[:_LONGEST_LINE]
