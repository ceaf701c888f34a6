"""Follows a sample through the layers of a print: blocks are opened, their parts are followed as code connects them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Final

from estimator import blocks, inputs, outputs, sizes
from estimator.breath import OFTEN, breathe
from estimator.family import family_of_types
from estimator.layer import Layer
from estimator.shapes.leaves import MOVES, Leaves
from estimator.shapes.listed import in_turn
from estimator.shapes.order import in_order_of_use, repeated
from estimator.shapes.sources import Sources, step_of
from estimator.shapes.start import TAKEN, Start
from estimator.shapes.tables import ATTENDS
from estimator.shapes.widths import (
    COLOURS,
    DEEP,
    MOST_DIM,
    OF_TIME,
    beside_pictures,
    columns_of,
    fields_of,
    first_of_width,
    first_width,
    fits,
    grid,
    input_width,
    line_of,
    oblong,
    of_matrix,
    of_points,
    of_time,
    places_of,
    shrinks,
    side_by_side,
)
from estimator.types import SummaryError, Workload
from estimator.walk import Marks, elements, layers

Shape = tuple[int, ...]
_Sibling = tuple[str, int, int, int, Shape]
"""Type, parameters, what is printed of it and what is in it (the same objects), and its input."""

# Elements that a layer gives out of one sample, and how often those of the sample: no GPU holds a few such tensors.
_MOST_ELEMENTS: Final = 2**32
_MOST_TIMES: Final = 2048
_DIGITS: Final = 7
# Axes of a text: tokens, and how wide they are.
_OF_TEXT: Final = 2
# Experts that each token goes to, which a print does not show.
_CHOSEN: Final = 2
# Tables that are added to the scores of an attention; what they give out goes nowhere else.
_BESIDE: Final[tuple[str, ...]] = (
    "relative_attention_bias",
    "relative_position",
    "position_bias",
    "rel_pos",
    "cpb_mlp",
    "meta_mlp",
)
# Of an attention that mixes its heads: they work on the matrices.
_OF_HEADS: Final = frozenset(("proj_l", "proj_w"))
# Pairs of coordinates that a small network makes such a table of: windows of seven, both ways.
_PAIRS: Final[tuple[int, ...]] = (13, 13, 2)
# Ways around what is in a block.
_ENTRY_STARTS: Final[tuple[str, ...]] = ("convolution_projection", "skip", "shortcut", "identity")
# Blocks that multiply what a gate gives out with the picture before it.
_GATED: Final[tuple[str, ...]] = ("SelectiveKernel", "SplitAttn")
_PADS: Final[tuple[str, ...]] = ("ReflectionPad", "ReplicationPad", "ZeroPad")
# Names of blocks that resize pictures.
_RESIZES: Final[tuple[str, ...]] = (*outputs.GROWS, "Downsampl")
_ROWS: Final[tuple[str, ...]] = ("Sequential", "ModuleList", "ModuleDict")
_ENTRY_NAMES: Final = frozenset(("downsample", "shortcut", "skip", "proj_drop", "conv_skip", "identity"))


class Follower:
    """Follows one sample through the layers.

    Attributes:
        begins: what goes in, and why.
        sources: of what goes into the layers.
    """

    def __init__(self, found: list[Layer], workload: Workload) -> None:
        marks = Marks(found)
        family = family_of_types(marks.types)
        self.begins = Start(found, workload, family)
        start = self.begins.shape
        taken = self.begins.note.endswith(TAKEN) and "Embedding" not in marks.types  # else it may read words
        self.sources = Sources(found, marks, workload, start, family, taken)
        points = family != "transformer" and "Conv1d" in marks.types and of_points(found)
        self._leaves = Leaves(found, marks.types, workload, start, family, points)
        # Names of ways around what is in a block, and whether parts work on a time step.
        self._entries = {name for name in marks.names if name.startswith(_ENTRY_STARTS)}
        self._timed = self.sources.pictures and any(name.startswith(OF_TIME) for name in marks.names)
        # With the layer, so that no other gets its id: some are made on the way.
        self._known: dict[tuple[int, Shape], tuple[Layer, tuple[Layer, Shape]]] = {}
        self._widths: dict[int, tuple[Layer, dict[int, tuple[int, tuple[int, ...]]]]] = {}
        self._most = max(_MOST_ELEMENTS, _MOST_TIMES * elements(start))
        self._beside = False
        breathe()
        self._shrinks = any(map(shrinks, found))

    def follow(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        """Give the layer with shapes, and the shape behind it."""
        known = self._known.get((id(layer), shape))
        if known is not None and (len(shape) > 1 or not self.sources.vector):  # else what was made of it decides
            return known[1]
        if not len(self._known) & OFTEN:
            breathe()
        result = self._container(layer, shape) if layer.children else self._single(layer, shape)
        self._known[id(layer), shape] = layer, result
        return result

    def _single(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        """Follow a layer that has none inside.

        Raises:
            SummaryError: it would give out more than any layer does.
        """
        entry = self.sources.of(layer, shape)
        out = self._leaves.given(layer, entry)
        self.sources.note(entry, out)
        out = self._bounded(layer, entry, out)
        if min(out, default=1) < 1 or max(out, default=1) > MOST_DIM:
            out = tuple(min(max(size, 1), MOST_DIM) for size in out)
        if self.sources.pictures and prod(out) > self._most:
            raise SummaryError(_lost(layer, out))
        if not self._beside:
            self.sources.remember(layer, out)
        return Layer(layer.type, layer.params, out, (), layer.args, layer.name, entry), _cut(layer, entry, out)

    def _bounded(self, layer: Layer, entry: Shape, out: Shape) -> Shape:
        """Bound what grows: a network that made the picture smaller makes it as large as it came, not larger.

        What begins with one pixel makes pictures of it first: what makes them smaller then is another network.
        """
        start = self.begins.shape
        if not self.sources.pictures or not len(start) == len(entry) == len(out) or prod(start[1:]) <= 1:
            return out
        if not self._shrinks or prod(out[1:]) <= prod(entry[1:]) or not layer.type.startswith(outputs.LARGER):
            return out
        return (out[0], *map(min, out[1:], start[1:]))

    def _container(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        if "PatchMerging" in layer.type and any(child.type == "Linear" for child in layer.children):
            return self._merged(layer, shape)
        if layer.type == "AlbertTransformer":
            layer = repeated(layer)
        convolves = _convolves(layer)
        if "Norm" in layer.type or convolves:  # with its activation inside, or its padding
            shape = self.sources.of(layer, shape)
        elif layer.children[0].type.startswith(_PADS) and self.sources.pictures and len(layer.children) > 1:
            shape = self.sources.of(layer.children[1], shape)  # as many channels as the kernel behind it takes
        elif self.sources.pictures and len(shape) == COLOURS and layer.type.startswith(_RESIZES):
            shape = self._resized(layer, shape)
        self.sources.open.append(shape)
        ordered = "Sequential" in layer.type or all(child.name.isdecimal() for child in layer.children)
        row = layer.children if layer.type == "Sequential" and layer.children[0].name.isdecimal() else ()
        known: dict[_Sibling, tuple[Layer, Shape]] = {}
        branches: dict[str, Shape] = {}
        picture = shape
        gates = False
        if row:
            made, now = self._in_row(row, shape, known)
        else:
            use = layer.children if ordered else in_order_of_use(in_turn(blocks.interleaved(layer.children)))
            made, now, picture = self._parts(layer, use, shape, known, branches)
            gates = use[-1].type.endswith("Sigmoid") and now[:1] == picture[:1]
        self.sources.open.pop()
        joins = blocks.joins(layer) or (blocks.beside(layer) and len({end[1:] for end in branches.values()}) == 1)
        if len(branches) > 1 and joins:
            now = (sum(end[0] for end in branches.values()), *now[1:])
        if now[1:] == (1, 1) and (gates or any(mark in layer.type for mark in _GATED)):
            now = picture
        if convolves:
            now = self._leaves.given(layer, shape if "Same" in layer.type else now)
        if blocks.pyramid(layer):
            now = shape
        now = self._restored(layer, shape, now)
        return Layer(layer.type, layer.params, now, tuple(made), layer.args, layer.name, shape), now

    def _resized(self, block: Layer, shape: Shape) -> Shape:
        """Give what the kernel of a block that is named after resizing takes, where a function does that, or pads."""
        kernels = [layer for layer in layers(block) if not layer.children and layer.params]
        if any(layer.type != "Conv2d" for layer in kernels) or len(kernels) != 1:
            return shape
        step = step_of(kernels[0])
        if block.type.startswith(outputs.GROWS) and step == 1 and len(block.children) == 1:
            rows, columns = (2 * size for size in shape[1:])
            most = self.begins.shape[1:] if self._shrinks else (rows, columns)
            return (shape[0], min(rows, most[0]), min(columns, most[1]))
        alone = step == 2 and not kernels[0].said("padding") and set(inputs.axes(kernels[0], "kernel_size")) == {3}
        return (shape[0], *(size + 1 - size % 2 for size in shape[1:])) if alone else shape

    def _parts(
        self,
        block: Layer,
        parts: Sequence[Layer],
        shape: Shape,
        known: dict[_Sibling, tuple[Layer, Shape]],
        branches: dict[str, Shape],
    ) -> tuple[list[Layer], Shape, Shape]:
        """Follow the parts of a block, which its code may connect as it likes.

        Args:
            block: the block.
            parts: its children in order of use.
            shape: what comes in.
            known: siblings followed so far.
            branches: filled with what its branches give out.

        Returns:
            The parts with shapes, what is at hand behind them, and the last picture of more than one pixel.
        """
        if fields_of(block, self.begins.listed):
            made = [part.but(output_shape=(1, columns_of(part)), input_shape=(1,)) for part in parts]
            return made, (sum(map(columns_of, parts)),), shape
        now = picture = earlier = shape
        way: Shape | None = None
        begun = False
        beside = 0 if self.sources.pictures else side_by_side(block)
        taken: set[int] = set()
        weighs, matrix = of_matrix(block, shape) if len(shape) == _OF_TEXT else (frozenset(), ())
        fork = blocks.Fork(block)
        made = []
        for number, part in enumerate(parts):
            if not number & OFTEN:
                breathe()
            if part.name in weighs:
                made.append(part.but(output_shape=matrix, input_shape=matrix))
                continue
            if steps := self._steps(block, part):
                made.append(self._sibling(part, (steps,), known)[0])
                continue
            if part.name in self._entries:
                begin = way or shape
                fitted, after = self._sibling(part, begin, known)
                way = after if self._takes(part, begin) else now
                if after == begin and not part.params and _never_meet(now, begin):
                    way = now  # it is empty, and not called here
                now = _met(now, way) if part is block.children[-1] else now
            else:
                if way is not None:
                    now, way = _met(now, way) if begun else now, None
                begun = True
                now = earlier = self._past(part, shape if beside else now, earlier)
                fitted, after, now = self._part(block, fork, part, shape, now, known)
                if not self.sources.pictures and (joined := side_by_side(part)):
                    taken = taken or set(map(first_width, block.children))
                    now = (joined,) if joined in taken else now  # the largest of all places
            if len(after) > 2 and (end := part.name if fork.beside else blocks.branch(part.name)):
                branches[end] = after
            if len(after) == len(picture) and after[1:] != (1, 1):
                picture = after
            made.append(fitted)
        return made, now, picture

    def _steps(self, block: Layer, part: Layer) -> int:
        """Read the features of the time step that a part takes, or of what else goes past the pictures; 0 for none."""
        steps = of_time(part) if self._timed else 0
        return beside_pictures(block, part) if not steps and self.sources.pictures else steps

    def _part(
        self,
        block: Layer,
        fork: blocks.Fork,
        part: Layer,
        shape: Shape,
        now: Shape,
        known: dict[_Sibling, tuple[Layer, Shape]],
    ) -> tuple[Layer, Shape, Shape]:
        """Follow a part of a block; give it with shapes, what it gives out, and what is at hand behind it."""
        besides = self._pools_beside(block, part, shape, now)
        begin = shape if besides else self._begin(block, fork, part, shape, now)
        beside = self._beside
        self._beside = beside or part.name == "fuse_layers"
        fitted, after = self._sibling(part, begin, known)
        self._beside = beside
        if "DlaTree" in block.type and part.name in ("downsample", "project"):
            after = shape  # the trees take what came in
        if blocks.aside(block, part):
            after = now
        return fitted, after, now if besides or _goes_nowhere(part.name) else after

    def _past(self, part: Layer, now: Shape, earlier: Shape) -> Shape:
        """Choose between what is at hand and what was before it, where that alone is as wide as a part takes.

        Then what the part before made goes elsewhere: from a time step, what scales and shifts in all blocks.
        """
        if self.sources.pictures or not len(now) == len(earlier) == _OF_TEXT:
            return now
        beside = now[0] == earlier[0] and now[1] != earlier[1]
        return earlier if beside and first_width(part) == earlier[1] else now

    def _in_row(
        self, row: tuple[Layer, ...], now: Shape, known: dict[_Sibling, tuple[Layer, Shape]]
    ) -> tuple[list[Layer], Shape]:
        """Follow layers that come one after the other and nothing else."""
        made: list[Layer] = []
        if row and row[0].type in MOVES:
            now = self._moved(row, now)
        elif len(row) > 1 and row[0].type.startswith("AdaptiveAvgPool2d") and self.sources.pictures:
            now = self._pooled(row, now)
        for number, layer in enumerate(row):
            if not number & OFTEN:
                breathe()
            fitted, now = self._sibling(layer, now, known)
            made.append(fitted)
        return made, now

    def _moved(self, row: tuple[Layer, ...], now: Shape) -> Shape:
        """Choose what a row takes that begins by moving axes: what makes it as wide as the layer behind it wants."""
        width = next((width for layer in row[1:] if (width := first_width(layer))), 0)
        fits = [
            outer
            for outer in (now, *reversed(self.sources.open))
            if width in (made := self._leaves.given(row[0], outer)) and made != outer
        ]
        return fits[0] if fits else now

    def _pooled(self, row: tuple[Layer, ...], now: Shape) -> Shape:
        """Choose what a row takes that begins by pooling: as many channels as the convolution behind it takes."""
        width = input_width(row[1]) if row[1].type == "Conv2d" else None
        if width is None or len(now) != COLOURS or now[0] == width:
            return now
        return next(
            (outer for outer in reversed(self.sources.open) if len(outer) == len(now) and outer[0] == width), now
        )

    def _sibling(self, layer: Layer, shape: Shape, known: dict[_Sibling, tuple[Layer, Shape]]) -> tuple[Layer, Shape]:
        """Follow a layer as `follow` does; one that equals a sibling but for its number is that.

        Pictures are looked for all over, so that each layer counts there. Parts of a block that equals another do not:
        they are the same objects, which `follow` knows.
        """
        if not layer.name.isdecimal() or self.sources.vector or (self.sources.pictures and not _is_block(layer)):
            return self.follow(layer, shape)
        key = (layer.type, layer.params, id(layer.args), id(layer.children), shape)
        found = known.get(key)
        if found is None:
            found = known[key] = self.follow(layer, shape)
        return found

    def _begin(self, block: Layer, fork: blocks.Fork, part: Layer, shape: Shape, now: Shape) -> Shape:
        """Tell what a part of a block takes, which came in as ``shape`` and is ``now`` so far."""
        if part.children and len(now) == COLOURS and _goes_nowhere(part.name):
            return _PAIRS
        if part.name in _OF_HEADS and "TalkingHead" in block.type:
            tokens = elements(grid(shape))
            return (tokens, tokens, input_width(part) or 1)
        if len(shape) == 2 and (experts := blocks.experts(block)):
            return (max(shape[0] * _CHOSEN // experts, 1), shape[1])
        if len(now) > 2 and blocks.gathers(block, part):
            return (input_width(part) or now[0], *now[1:])
        if fork.begins(part):
            return shape
        return shape if part.name in _ENTRY_NAMES and not self._follows(part, shape, now) else now

    def _takes(self, part: Layer, shape: Shape) -> bool:
        """Tell whether a part takes a picture of this shape, as far as its width tells."""
        first = first_of_width(part)
        return first is None or fits(first, shape, input_width(first) or 0)

    def _pools_beside(self, block: Layer, part: Layer, shape: Shape, now: Shape) -> bool:
        """Tell whether a pooling takes what came into its block, to be joined with what convolutions made of that."""
        if "Pool" not in part.type or part.children or "Adaptive" in part.type or len(shape) < 3 or len(now) < 3:
            return False
        if block.type in _ROWS or not self.sources.pictures:
            return False
        place, widths = self._behind(block)[id(part)]
        if now != shape:
            return widths[:1] in ((now[0] + shape[0],), (now[0] + self.begins.shape[0],))
        if len(widths) < 2 or widths[0] != shape[0]:
            return False
        # First the pooling, then a convolution of the same picture.
        after = islice(block.children, place + 1, None)
        made = next((child.said("1") for child in after if "Conv" in child.type), "")
        return made.isdecimal() and len(made) < _DIGITS and widths[1] == int(made) + shape[0]

    def _behind(self, block: Layer) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Tell of each part of a block, by its id, its place and what the next two parts of known width take first."""
        known = self._widths.get(id(block))
        if known is None:
            behind: dict[int, tuple[int, tuple[int, ...]]] = {}
            widths: tuple[int, ...] = ()
            for place in range(len(block.children) - 1, -1, -1):
                part = block.children[place]
                behind[id(part)] = place, widths
                if width := first_width(part):
                    widths = (width, *widths[:1])
            known = self._widths[id(block)] = block, behind
        return known[1]

    def _follows(self, part: Layer, shape: Shape, now: Shape) -> bool:
        """Tell whether a part takes what is at hand by its width, and not what came into its block."""
        first = first_of_width(part)
        if first is None:  # pooling alone: the picture that the whole network takes is not pooled
            return not part.children and shape == self.begins.shape
        width = input_width(first) or 0
        return fits(first, now, width) and not fits(first, shape, width)

    def _merged(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        """Follow a Swin's patch merging: four neighbours become one, with its norm before or behind."""
        space = shape[1:] if len(shape) == 3 and shape[0] > shape[-1] else shape[:-1]
        if len(shape) == DEEP:  # of a volume all three sides, of a film height and width
            space = grid(shape)
            width = next((width for child in layer.children if (width := input_width(child))), 0)
            channels = elements(shape) // max(elements(space), 1)
            halved = (
                max(space[0] // (2 if width == 8 * channels else 1), 1),
                *(max(size // 2, 1) for size in space[1:]),
            )
        elif len(space) == 2:
            halved = tuple(max(size // 2, 1) for size in space)
        else:
            halved = (max(elements(space) // 4, 1),)
        now = halved
        made: list[Layer] = []
        for number, child in enumerate(layer.children):
            if not number & OFTEN:
                breathe()
            args = dict(child.args)
            try:
                if "in_features" in args:
                    now = (*halved, sizes.number(args, "out_features"))
                    out = now
                else:
                    out = (*halved, *sizes.numbers(args.get("0", "")))
            except (KeyError, ValueError):
                out = shape
            made.append(Layer(child.type, child.params, out, child.children, child.args, child.name, out))
        return Layer(layer.type, layer.params, now, tuple(made), layer.args, layer.name, shape), now

    def _restored(self, layer: Layer, before: Shape, after: Shape) -> Shape:
        """Give back the picture behind a gate (squeeze and excitation), whose own output is one pixel."""
        if layer.type == "MultiheadAttention" or (len(before) == 2 and blocks.experts(layer)):
            return before
        if "Pool2d" in layer.type and "kernel_size" in dict(layer.args):  # with its padding inside
            return outputs.pooled(layer.type, dict(layer.args), after, first=oblong(self.begins.shape))
        if ATTENDS in layer.type and len(before) > 1 and "Down" not in layer.type:
            if blocks.pools_queries(layer):
                made = next((part.said("out_features") for part in layer.children if part.name == "proj"), "")
                width = int(made) if made.isdecimal() and len(made) < _DIGITS else after[-1]
                return (*(max(size // 2, 1) for size in places_of(grid(before))), width)
            last = len(before) == len(after) == 3 and before[0] == before[1]  # of tokens in rows
            if before[-1] == after[-1] or (last and before[-1] == after[0]):
                return before
        if len(before) == 3 and before[0] > 1 == after[0] and any("Conv1d" in part.type for part in layer.children):
            return before  # weights of channels, from a convolution over these
        if _weighs_channels(layer, before, after):
            return before
        if len(before) == COLOURS and after == before[:1] and before[1] > 1 and _squeezes(layer, before[0]):
            return before
        return after


def _convolves(block: Layer) -> bool:
    """Tell whether a block is a convolution, with its padding inside."""
    return block.params > 0 and "Conv" in block.type and block.said("kernel_size") != ""


def _weighs_channels(block: Layer, before: Shape, after: Shape) -> bool:
    """Tell whether a block makes one place of all, with as many channels: weights of the channels, a gate."""
    if len(before) != len(after) or before[:1] != after[:1] or "Pool" in block.type:
        return False
    if len(before) < 2 or max(after[1:]) > 1 or max(before[1:]) == 1:
        return False
    return len(before) == COLOURS or any(part.type.startswith(("Conv", "AdaptiveAvgPool")) for part in layers(block))


def _squeezes(block: Layer, channels: int) -> bool:
    """Tell whether a block makes one number of each channel and fewer of these: weights of the channels, a gate."""
    first = first_of_width(block)
    if first is None or first.type != "Linear" or input_width(first) != channels:
        return False
    return 0 < inputs.number(first, "out_features") < channels


def _is_block(layer: Layer) -> bool:
    """Tell whether a layer has others inside and is no norm or convolution itself."""
    return len(layer.children) > 0 and "Norm" not in layer.type and not _convolves(layer)


def _met(now: Shape, way: Shape) -> Shape:
    """Tell what a block gives out whose layers end ``now``, and the way around it ``way``.

    Both are added or joined, so that their places are the same. Where they are not, the way around is right: it is
    shorter. Of channels the fewer are filled up, or those of several layers that were joined.
    """
    return way if way[1:] != now[1:] else max(now, way)


def _never_meet(now: Shape, way: Shape) -> bool:
    """Tell whether a picture is neither added to, nor joined with, another: not of so many channels, nor so large."""
    if len(now) != len(way) or len(now) < COLOURS or max(now[1:]) == 1:
        return False
    return now[0] != way[0] and now[1:] != way[1:]


def _lost(layer: Layer, shape: Shape) -> str:
    """Say that no layer gives out so much: those before it are connected otherwise than they were followed."""
    return (
        f"'{line_of(layer)}' would give out {'x'.join(map(str, shape))} for each sample: a print does not show what "
        "goes into which layer, and it could not be found out: paste what torchinfo prints with depth=20, or "
        "torchsummary"
    )


def _cut(layer: Layer, before: Shape, after: Shape) -> Shape:
    """Give back the length of a series behind a dilated convolution: code cuts what padding added, or pads itself."""
    if layer.type != "Conv1d" or len(after) != 2 or after[1] == before[1]:
        return after
    args = dict(layer.args)
    alone = args.get("groups", "1") == args.get("0") and "padding" not in args
    return (
        (after[0], before[1])
        if ("dilation" in args or alone) and args.get("stride", "").strip("(, )") == "1"
        else after
    )


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def _goes_nowhere(name: str) -> bool:
    return name in _OF_HEADS or any(mark in name for mark in _BESIDE)
