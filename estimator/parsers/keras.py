"""Read the table of Keras' ``model.summary()``, version 2 (rules and blanks) and 3 (box characters). Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.kept import keep
from estimator.layer import OPEN, Layer
from estimator.parsers import keras_series
from estimator.parsers import text as t
from estimator.parsers.tree import RawShape, batch_of, per_sample
from estimator.types import ModelSummary

_BARS: Final = "│┃|"
_OTHER_BARS: Final = ("┃", "|")
_CELLS: Final = "│┃"  # no rule begins with these
_BEFORE: Final = "└├─ │┃|"
_MAX_WRAPPED: Final = 32
_MOST_CELLS: Final = 16
_TWO: Final = 2


_MODELS: Final[tuple[str, ...]] = ("Functional", "Sequential", "Model")
_BACKBONE: Final = "Backbone"  # of KerasHub
# Other layers that hold whole models: TensorFlow Hub's, transformers' and those behind its ``TF``.
_HOLDS: Final = ("KerasLayer", "KerasLayerV1V2", "MainLayer")
_TRANSFORMERS: Final = ("TF", "Model")
_CLOSED: Final = "nothing tells what is inside, and Keras opens no such layer: claim `#RAD memory=12G`"
_NOT_OPENED: Final = "nothing tells what is inside: print it with expand_nested=True, or claim `#RAD memory=12G`"
# Part of the names of transformers' outputs, which stand where a shape would.
_OUTPUT: Final = "ModelOutput"
# Share of the parameters in models that are not opened.
_FEW: Final = 0.1
# Of the stated total, how much the rows may lack.
_LACKING: Final = 0.01
_MISSING: Final = (
    "paste the whole table with all lines below it; where no row shows weights of the model's own, claim "
    "`#RAD memory=12G`"
)
_NESTED: Final = "|"
_BRANCH: Final = "└"  # Keras 3 draws no frame
# What stands in a cell of a row that a frame is drawn around, which moves it out of its column by a few places.
_PIECE: Final = re.compile(r"\S+(?: \S+)*")
_MOVED: Final = 4
# A shape with a number behind it, before which somebody took blanks out.
_BEHIND_SHAPE: Final = re.compile(r"([^)\]]*[)\]]+) +([0-9][0-9,]*)")
# What goes on with a number behind a blank.
_THOUSAND: Final = re.compile(r"\d{3}\b")
# Which call of a layer another takes, in the last column: ``enc[1][0]``.
_CONNECTED: Final = "Connected"
_CALL: Final = re.compile(r"([\w./-]{1,100})\[(\d{1,4})\]\[\d")
_AGAIN: Final = (("recursive", "True"),)
# What calls what it holds for each step of a series.
_EACH: Final = "TimeDistributed"
# Channels of pictures.
_COLOURS: Final[tuple[int, ...]] = (1, 3)
_PICTURE: Final = 4  # axes of a batch of pictures
# Type, name, shape and parameters of a row.
_Read = tuple[str, str, RawShape | None, int]
# Cells and line number of a row; no cells where the line is not divided yet, and is the whole row.
_Row = tuple[list[str], int]
_UNDIVIDED: Final[list[str]] = []
# Shapes and parameters by what is written of them, with a bar between; what is longer is not kept.
_VALUES: Final[dict[str, tuple[RawShape | None, int]]] = {}
_MOST_KEPT: Final = 100
# What one sample has of each shape.
_Samples = dict[RawShape | None, tuple[int, ...] | None]
_SEPARABLE: Final = "SeparableConv2D"
# Sides of a kernel, usual ones first.
_SIDES: Final[tuple[int, ...]] = (3, 5, 7, 1, 2, 4, 9, 11)
# What Keras 3 puts behind the parameters of a layer that it has not made yet, and the names of such as will have some.
_UNBUILT: Final = "(unb"
_WEIGHTS: Final = ("Dense", "Conv", "LSTM", "GRU", "RNN", "Embedding", "Normalization", "Attention", "Bidirectional")
_BUILD: Final = "build the model, with `model.build(input_shape)` or a call, before its summary"
# Outside of a terminal Keras 3 takes 80 columns, and cuts off what is behind them whatever line_length says.
_WIDER: Final = "print it without line_length and with COLUMNS=120 in the environment of its program"
# Keras 3 cuts what is too wide for its column: ``(BatchNormalizatio…``.
_CUT: Final = "…"
_LONG_NAMES: Final[tuple[str, ...]] = (
    "BatchNormalization",
    "LayerNormalization",
    "GroupNormalization",
    "UnitNormalization",
    "SpectralNormalization",
    "RMSNormalization",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalAveragePooling3D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "GlobalMaxPooling3D",
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    "SeparableConv1D",
    "SeparableConv2D",
    "Conv1DTranspose",
    "Conv2DTranspose",
    "Conv3DTranspose",
    "MultiHeadAttention",
    "GroupQueryAttention",
    "ZeroPadding2D",
    "UpSampling2D",
    "Bidirectional",
    "TimeDistributed",
    "TokenAndPositionEmbedding",
    "PositionEmbedding",
    "TransformerEncoder",
    "TransformerDecoder",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "GaussianDropout",
    "TextVectorization",
    "Concatenate",
    "Functional",
    "Sequential",
    "Activation",
    "LeakyReLU",
    "InputLayer",
    "Rescaling",
    "Normalization",
    "Embedding",
    "Multiply",
)


def parse(lines: list[str], start: int) -> tuple[ModelSummary, int]:
    """Parse the table whose header is ``lines[start]``.

    Returns:
        The model, and the index of the line behind it.

    Raises:
        SummaryError: a row cannot be read, or there is none.
    """
    titles = "".join(lines[max(start - 1, 0) : start + 2])  # of narrow columns in two lines
    if "Param" not in titles and any(bar in lines[start] for bar in _BARS[:2]):
        raise t.fail(start + 1, lines[start], f"the right of this table is cut off: {_WIDER}")
    rows, at = _rows(lines, start)
    if len(rows) > t.MAX_LAYERS:
        raise t.fail(at, lines[at - 1], f"more than {t.MAX_LAYERS:,} layers")
    if not rows:
        raise t.fail(start + 1, lines[start], "no layer follows this header: paste the whole table")
    t.check_end(lines, start, at)
    return _summary(lines, at, rows, _calls(lines[start + 1 : at]) if _CONNECTED in titles else {}), at


def _calls(lines: list[str]) -> dict[str, int]:
    """Tell of layers that are called more than once how often they are, by name.

    The last column shows which of a layer's calls another takes: ``enc[0][0]``, ``enc[1][0]``.
    """
    calls: dict[str, set[str]] = {}
    for number, line in enumerate(lines):
        if not number & OFTEN:
            breathe()
        if "][" in line:
            for name, call in _CALL.findall(line):
                calls.setdefault(name, set()).add(call)
    return {name: len(numbers) for name, numbers in calls.items() if len(numbers) > 1}


def _rows(lines: list[str], start: int) -> tuple[list[_Row], int]:
    """Read the cells and the line number of each row, and the index of the line behind the rows."""
    boxed = any(bar in lines[start] for bar in _BARS[:2])
    bounds = [] if boxed else _bounds(lines[start])
    rows: list[_Row] = []
    rule = ""  # the last one between rows, which mostly are all alike
    fresh = True
    at = start + 1
    while at < len(lines) and len(rows) <= t.MAX_LAYERS:
        line = lines[at]
        at += 1
        if not at & OFTEN:
            breathe()
        stripped = line.strip()
        if not stripped or line == rule:
            fresh = True
            continue
        if "params" in stripped and stripped.lstrip("│┃ ").startswith(("Total params", "Trainable params")):
            return rows, at - 1
        if stripped[0] not in _CELLS and t.is_rule(stripped):
            fresh = True
            if stripped[0] not in "=└╘":
                rule = line
            elif rows:
                break
            continue
        if fresh and boxed and rows and "(" in stripped and "|" not in stripped and "┃" not in stripped:
            rows.append((_UNDIVIDED, at))
            fresh = False
            continue
        cells = _boxed(stripped) if boxed else _sliced(line, bounds)
        if not any(cells):
            fresh = True
        elif rows and _continues(cells, fresh and boxed):
            bare = boxed and not any(bar in stripped for bar in _BARS)
            whole = cells[0] and _is_whole(rows[-1][0] or _boxed(lines[rows[-1][1] - 1].strip()))
            if not t.is_cut(line) and (bare or whole):
                _check_behind(lines, at - 1, bounds)
                return rows, at
            rows[-1] = _longer(rows[-1], cells, at, lines)
            fresh = False
        elif rows or len(cells) < 2 or cells[0].endswith(")") or "param" not in line.lower():
            rows.append((cells, at))  # and not the second line of a wrapped header
            fresh = False
    return rows, at


def _bounds(header: str) -> list[int]:
    """Find where the columns of a Keras 2 table start."""
    titles = (t.HEADER, "Output Shape", "Param", "Connected to", "Trainable")
    return sorted(header.find(title) for title in titles if title in header)


def _boxed(text: str) -> list[str]:
    for bar in _OTHER_BARS:
        if bar in text:
            text = text.replace(bar, "│")
    return [cell.strip() for cell in text.strip("│").split("│", _MOST_CELLS)]


def _divided(line: str) -> tuple[str, str]:
    """Divide a row into its first cell and what is behind."""
    first, _, values = line.strip().strip("│").partition("│")
    return first.strip(), values


def _sliced(line: str, bounds: list[int]) -> list[str]:
    """Cut a row at the columns; a cell may reach over its column when it is one word too long."""
    cells = []
    if line.lstrip().startswith(_NESTED):
        cells = [""] * len(bounds)
        for piece in _PIECE.finditer(line.replace(_NESTED, " ")):
            column = sum([begin <= piece.start() + _MOVED for begin in bounds]) - 1
            cells[max(column, 0)] = piece[0]
        return cells
    for index, begin in enumerate(bounds):
        end = bounds[index + 1] if index + 1 < len(bounds) else len(line)
        cells.append(line[begin if index else 0 : end].strip(" |"))
    if len(cells) > _TWO and cells[1][-1:] not in ")]" and (moved := _BEHIND_SHAPE.fullmatch(cells[1])):
        cells[1:3] = moved[1], moved[2] + cells[2]
    return cells


def _continues(cells: list[str], fresh: bool) -> bool:
    """Tell whether this line goes on with the row before: it brings no number of parameters of its own."""
    if fresh:
        return False
    return len(cells) < 3 or not cells[2]


def _is_whole(cells: list[str]) -> bool:
    """Tell whether name, type and shape of a row are complete: only where it is connected to may still come."""
    return "(" in cells[0] and all(cell.count("(") == cell.count(")") for cell in cells[:_TWO])


def _check_behind(lines: list[str], at: int, bounds: list[int]) -> None:
    """Refuse text between rows; it may stand behind a table that was not closed, from line index ``at`` on.

    Raises:
        SummaryError: rows follow it.
    """
    for number in range(at, len(lines)):
        if not number & OFTEN:
            breathe()
        line = lines[number]
        if t.HEADER in line:
            return
        cells = _sliced(line, bounds) if bounds else _boxed(line.strip())
        if len(cells) > _TWO and "(" in cells[0] and t.read_count(cells[2].partition(" ")[0]) is not None:
            raise t.fail(at + 1, lines[at], "this is no row of the table that goes on behind it: paste the table alone")


def _longer(row: _Row, more: list[str], at: int, lines: list[str]) -> _Row:
    """Join a line, behind which is index ``at``, to the row before.

    Raises:
        SummaryError: the row has no end, or the line says that others were left out.
    """
    before, number = row
    if at - number > _MAX_WRAPPED:
        raise t.fail(number, lines[number - 1], "this row has no end: paste the whole table")
    if t.is_cut(lines[at - 1]):
        raise t.fail(at, lines[at - 1], t.CUT)
    return _joined(before or _boxed(lines[number - 1].strip()), more), number


def _joined(cells: list[str], more: list[str]) -> list[str]:
    breathe()
    size = max(len(cells), len(more))
    left = cells + [""] * (size - len(cells))
    right = more + [""] * (size - len(more))
    # A wrapped shape needs its blank back, but where a number was cut; a name was cut inside a word or before its type.
    return [
        (f"{one} {two}" if (index == 1 and not _is_one(one, two)) or two.startswith("(") else one + two).strip()
        for index, (one, two) in enumerate(zip(left, right, strict=True))
    ]


def _is_one(one: str, two: str) -> bool:
    """Tell whether a number, or ``None``, ends on one line and goes on on the next."""
    return one[-1:].isalnum() and two[:1].isalnum()


def _cells(lines: list[str], rows: list[_Row]) -> list[_Read]:
    """Read the cells of all rows.

    Raises:
        SummaryError: one of them cannot be read.
    """
    read: list[_Read] = []
    types: dict[str, str] = {}
    shapes = t.Shapes()
    for at_row, (cells, number) in enumerate(rows):
        if not at_row & OFTEN:
            breathe()
        first, values = (cells[0], "│".join(cells[1:3])) if cells else _divided(lines[number - 1])
        name, open_, said = first.lstrip(_BEFORE).partition("(")
        type_ = types.get(said)
        if type_ is None:
            type_ = said.rstrip(") ").strip().replace(" ", "")
            if t.is_name(type_.removesuffix(_CUT)):
                types[said] = type_
            else:
                open_ = ""
        value = _VALUES.get(values) if open_ and len(cells) != _TWO else None
        if value is None:
            row = cells or _boxed(lines[number - 1].strip())
            if not open_ or len(row) <= _TWO:
                why = (
                    t.CUT
                    if t.is_cut(first)
                    else "expected `name (Type)  (output shape)  parameters`: paste the whole table"
                )
                raise t.fail(number, lines[number - 1], why)
            value = _value(shapes, row[1], row[2], lines, number)
            if len(values) <= _MOST_KEPT:
                keep(_VALUES, values, value)
        shape, params = value
        if not params and _UNBUILT in values and any(mark in type_ for mark in _WEIGHTS):
            raise t.fail(number, lines[number - 1], f"this layer has no parameters yet: {_BUILD}")
        if type_[-1] == _CUT:
            type_ = _whole_name(type_[:-1], shape)
        read.append((type_, name.strip(), shape, params))
    return read


def _whole_name(start: str, shape: RawShape | None) -> str:
    """Give the type whose name is cut behind ``start``: of those that differ by their axes the one with this shape."""
    names = [name for name in _LONG_NAMES if name.startswith(start)]
    axes = f"{len(shape or ()) - _TWO}D"
    return next((name for name in names if axes in name), names[0] if names else start)


def _summary(lines: list[str], at: int, rows: list[_Row], calls: dict[str, int]) -> ModelSummary:
    read = _cells(lines, rows)
    breathe()
    counts = Counter([shape for _, _, shape, _ in read])
    firsts = {shape[0] for shape in counts if shape and len(shape) > 1}
    batch = batch_of(counts.items(), None) if len(firsts) > 1 else next(iter(firsts), None)
    samples = _samples(read, counts, batch, OPEN if _is_open(read, counts, rows, lines) else 1)
    counted = sum([params for _, _, _, params in read])
    totals = t.read_totals(lines, at)
    depths = _depths(rows, lines)
    inside = _inside(read, depths)
    stated = t.stated_params(totals, counted - sum(inside.values()))
    optimizer = t.read_count(totals.get("optimizer params", "").partition(" ")[0])
    if stated is not None and optimizer and t.total_params(totals) is not None:
        stated -= optimizer  # Keras 3 counts a compiled optimizer's state into the total
    _check_rows(read, depths, inside, stated, rows, lines)
    read = _opened(read, inside, counted - (counted if stated is None else stated))
    calling, again = _called(read, depths, calls, rows, lines)
    children = _layers(calling, again, samples)
    counted = sum([params for _, _, _, params in read])
    if not counted and not stated:
        number = rows[0][1]
        raise t.fail(
            number,
            lines[number - 1],
            f"no layer has parameters yet: {_BUILD}",
        )
    why = t.too_many(counted, stated)
    if why:
        raise t.fail(*t.total_line(lines, at), why)
    _check_opened(read, depths, rows, lines)
    inferred: tuple[str, ...] = ()
    if stated is not None and stated != counted:
        inferred = (f"the rows add up to {counted:,} parameters; the stated total of {stated:,} was taken",)
    return ModelSummary(
        format="keras",
        root=Layer("Model", 0, None, children),
        batch_size=batch,
        total_params=counted if stated is None else stated,
        inferred=inferred,
        frozen_params=t.frozen_params(totals),
    )


def _samples(read: list[_Read], shapes: Iterable[RawShape | None], batch: int | None, unknown: int) -> _Samples:
    samples: _Samples = {}
    for shape in shapes:
        if not len(samples) & OFTEN:
            breathe()
        samples[shape] = per_sample(shape, batch, unknown)
    if _channels_last(read, samples):
        breathe()
        return {shape: _channels_first(sample) for shape, sample in samples.items()}
    return samples


def _is_open(read: list[_Read], shapes: Iterable[RawShape | None], rows: list[_Row], lines: list[str]) -> bool:
    """Tell whether layers with many of the parameters work on series of a length that the table leaves open.

    Raises:
        SummaryError: it leaves more than that open: the sides of pictures.
    """
    if not any(shape and None in shape[1:] for shape in shapes):
        return False
    open_ = [at for at, (_, _, shape, params) in enumerate(read) if params and shape and None in shape[1:]]
    if sum([read[at][3] for at in open_]) <= sum([params for _, _, _, params in read]) * _FEW:
        return False
    for at in open_:
        if (read[at][2] or ())[1:].count(None) > 1:
            number = rows[at][1]
            why = "the sizes are left open: build the model for one, as with `Input(shape=(224, 224, 3))`, and print it"
            raise t.fail(number, lines[number - 1], f"{why}, or claim `#RAD memory=12G`")
    return True


def _called(
    read: list[_Read], depths: list[int], calls: dict[str, int], rows: list[_Row], lines: list[str]
) -> tuple[list[_Read], list[bool]]:
    """Put rows of layers that are called again there as often, with what is shown inside; tell which are such.

    Args:
        read: the rows.
        depths: see `_depths`.
        calls: see `_calls`.
        rows: as printed.
        lines: of the text.

    Raises:
        SummaryError: there are too many.
    """
    if not calls:
        return read, [False] * len(read)
    made: list[_Read] = []
    again: list[bool] = []
    at = 0
    while at < len(read):
        breathe()
        end = at + 1
        times = calls.get(read[at][1], 1)
        while times > 1 and depths[end] > depths[at]:
            end += 1
        if len(made) + (end - at) * times > t.MAX_LAYERS:
            number = rows[at][1]
            raise t.fail(number, lines[number - 1], f"more than {t.MAX_LAYERS:,} layers")
        made += read[at:end] * times
        again += [False] * (end - at) + [True] * (end - at) * (times - 1)
        at = end
    return made, again


def _layers(read: list[_Read], again: list[bool], samples: _Samples) -> tuple[Layer, ...]:
    breathe()
    layers = [
        Layer(type_, params, samples[shape], (), _AGAIN if once_more else (), name)
        for (type_, name, shape, params), once_more in zip(read, again, strict=True)
    ]
    types = {type_ for type_, _, _, _ in read}
    if _SEPARABLE in types:
        layers = [part for layer in layers for part in _separated(layer)]
    if keras_series.recurs(types):
        layers = keras_series.unrolled(layers)
    return tuple([layer.but(params=0) if layer.args else layer for layer in layers] if any(again) else layers)


def _separated(layer: Layer) -> tuple[Layer, ...]:
    """Divide a separable convolution into its two: what the first gives is kept for the second, and not shown."""
    shape = layer.output_shape
    if layer.type == _SEPARABLE and shape and len(shape) > 2:
        breathe()
        for side in _SIDES:
            for weights in (layer.params - shape[0], layer.params):  # with and without a bias
                channels, rest = divmod(weights, side * side + shape[0])
                if channels > 0 and not rest:
                    first = channels * side * side
                    deep = Layer("DepthwiseConv2D", first, (channels, *shape[1:]), name=layer.name)
                    return deep, layer.but(type="Conv2D", params=layer.params - first)
    return (layer,)


def _channels_last(read: list[_Read], samples: _Samples) -> bool:
    """Tell whether channels are the last dimension of pictures, as is usual: weights come in as many for each."""
    first = last = 0
    for number, (_, _, printed, params) in enumerate(read):
        if not number & OFTEN:
            breathe()
        shape = samples[printed]
        if shape and len(shape) > 2 and params and shape[0] and shape[-1]:
            first += not params % shape[0]
            last += not params % shape[-1]
    return last >= first


def _channels_first(shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Write a picture's shape as PyTorch does, which all that follows expects."""
    return (shape[-1], *shape[:-1]) if shape and len(shape) > 2 else shape


def _depths(rows: list[_Row], lines: list[str]) -> list[int]:
    """Tell how deep each row is inside of models that are opened, and 0 behind the last."""
    depths: list[int] = []
    for at, (_, number) in enumerate(rows):
        if not at & OFTEN:
            breathe()
        line = lines[number - 1].lstrip()
        depths.append(line.find(_BRANCH) + 1 or len(line) - len(line.lstrip(_NESTED)))
    return [*depths, 0]


def _inside(read: list[_Read], depths: list[int]) -> dict[int, int]:
    """Add up the parameters of the rows inside of each inner model that is opened, by the model's place."""
    inside: dict[int, int] = {}
    around: list[tuple[int, int]] = []  # the models that a row stands in: their places, and how deep their rows are
    for at, (depth, deeper) in enumerate(pairwise(depths)):
        if not at & OFTEN:
            breathe()
        while around and depth < around[-1][1]:
            around.pop()
        if around and depth == around[-1][1]:
            inside[around[-1][0]] += read[at][3]
        if deeper > depth:
            around.append((at, deeper))
            inside[at] = 0
    return inside


def _check_rows(
    read: list[_Read],
    depths: list[int],
    inside: dict[int, int],
    stated: int | None,
    rows: list[_Row],
    lines: list[str],
) -> None:
    """Refuse a table of which rows are missing: those of the model, or of an inner one that is opened.

    Raises:
        SummaryError: the rows lack more parameters than few weights that no row shows.
    """
    breathe()
    outer = min(depths[:-1])
    shown = sum([row[3] for row, depth in zip(read, depths, strict=False) if depth == outer])
    may_lack = _LACKING * (shown if stated is None else stated)
    if stated is not None and stated - shown > may_lack:
        number = rows[-1][1]
        why = f"the rows up to this one add up to {shown:,} parameters, and {stated:,} are stated: {_MISSING}"
        raise t.fail(number, lines[number - 1], why)
    for at, params in inside.items():
        if read[at][3] - params > may_lack:
            number = rows[at][1]
            why = f"the rows inside of this one add up to {params:,} parameters: {_MISSING}"
            raise t.fail(number, lines[number - 1], why)


def _opened(read: list[_Read], inside: dict[int, int], twice: int) -> list[_Read]:
    """Leave to the layers of inner models, where those are shown too, the parameters that are counted twice.

    Args:
        read: the rows.
        inside: see `_inside`.
        twice: so many more parameters the rows have than the table's total says; 0 where there is none.
    """
    breathe()
    if inside:
        return [(*row[:3], max(row[3] - inside[at], 0)) if at in inside else row for at, row in enumerate(read)]
    models = [type_ in _MODELS for type_, _, _, _ in read]  # what draws them may be lost
    if twice and sum([row[3] for row, is_model in zip(read, models, strict=True) if is_model]) == twice:
        return [(*row[:3], 0 if is_model else row[3]) for row, is_model in zip(read, models, strict=True)]
    return read


def _check_opened(read: list[_Read], depths: list[int], rows: list[_Row], lines: list[str]) -> None:
    """Refuse a table that hides most of a model inside another.

    Raises:
        SummaryError: inner models that are not opened hold many of the parameters.
    """
    breathe()
    pictures = [row[2] is not None and len(row[2]) > _TWO for row in read]
    hiding = [at for at, row in enumerate(read) if row[3] and (_hides(row[0]) or _hides_steps(read, at))]
    hiding = [at for at in hiding if depths[at + 1] <= depths[at]]
    # Most weights may be in products behind a model that holds nearly all of what is kept, as it works on pictures.
    large = {at for at in hiding if pictures[at] or (at and pictures[at - 1])}
    shown = sum([row[3] for at, row in enumerate(read) if pictures[at] and at not in large])
    inside, hidden = sum([read[at][3] for at in large]), sum([read[at][3] for at in hiding])
    if hidden > sum([row[3] for row in read]) * _FEW or inside > (shown + inside) * _FEW:
        number = rows[hiding[0]][1]
        opens = not _holds(read[hiding[0]][0]) and read[hiding[0]][0] != _EACH
        raise t.fail(number, lines[number - 1], _NOT_OPENED if opens else _CLOSED)


def _hides_steps(read: list[_Read], at: int) -> bool:
    """Tell whether a row calls a whole model for each step of a series: no one layer has so many parameters."""
    type_, _, shape, params = read[at]
    if type_ != _EACH or not shape:
        return False
    before = read[at - 1][2] if at else None
    gives = shape[-1] or 1
    takes = _COLOURS if before is None else (before[-1] or 1,) if len(before) == len(shape) else ()
    weights = [params - gives, params]  # with and without a bias
    if before is not None and (
        params in (2 * gives, 4 * gives) or any(weight in (gives * each, 0) for each in takes for weight in weights)
    ):
        return False  # a norm, or a product
    if len(shape) <= _PICTURE:
        return True
    return not any(weight == side * side * each * gives for side in _SIDES for each in takes for weight in weights)


def _hides(type_: str) -> bool:
    return type_ in _MODELS or type_.endswith(_BACKBONE) or _holds(type_)


def _holds(type_: str) -> bool:
    """Tell whether a layer of another library holds a whole model, which Keras cannot open."""
    return type_.endswith(_HOLDS) or (type_.startswith(_TRANSFORMERS[0]) and _TRANSFORMERS[1] in type_)


def _value(
    shapes: t.Shapes, shape_text: str, count_text: str, lines: list[str], number: int
) -> tuple[RawShape | None, int]:
    """Read the cells of output shape and parameters.

    Raises:
        SummaryError: one of them cannot be read.
    """
    shape = shapes.read(shape_text)
    if shape is None and shape_text not in ("multiple", "?", "-", "", "unknown", "[]", "()"):
        why = _CLOSED if _OUTPUT in shape_text else f"{t.short(shape_text)} is not an output shape"
        raise t.fail(number, lines[number - 1], why)
    count, _, more = count_text.partition(" ")
    params = 0 if count in ("-", "?", "") else t.read_count(count)
    if _THOUSAND.match(more):
        params = None
    if params is None:
        cure = f": {_WIDER}" if count.endswith(_CUT) else ""
        raise t.fail(number, lines[number - 1], f"{t.short(count_text)} is not a number of parameters{cure}")
    return shape, params
