"""Which of the shapes so far goes into a layer of a print, where what is at hand does not fit."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from estimator.breath import breathe
from estimator.inputs import number
from estimator.layer import Layer
from estimator.outputs import LARGER
from estimator.shapes.grown import LEARNED, on_pictures, picture_of, widths_behind
from estimator.shapes.series import series_of
from estimator.shapes.start import square_of
from estimator.shapes.widths import (
    COLOURS,
    HEADS,
    IMAGE,
    RECURRENT,
    averages,
    by_channels,
    fits,
    grid,
    input_width,
    oblong,
    of_a_gate,
    places_of,
)
from estimator.types import Family, Workload
from estimator.walk import Marks, elements

Shape = tuple[int, ...]

_SQUARES: Final[tuple[int, ...]] = (4, 16)
# So many containers are open inside of a block: a list, the block, the list of blocks.
_BLOCK: Final = 2
_DIGITS: Final = 4
# Stages of smaller pictures have so many times the channels; others joined several.
_TWICE: Final = 2
# Axes of a series.
_SERIES: Final = 2
# Places of the whole picture for each of the one at hand.
_FAR: Final = 4
# Names of what makes pictures larger in a second half.
_DECODES: Final[tuple[str, ...]] = ("decode", "up")


class Sources:
    """Chooses what goes into a layer: what is at hand, what came into a block around it, or an earlier picture.

    Attributes:
        pictures: whether the model works on pictures, films or volumes.
        open: what came into the containers that are open, the outermost first.
        vector: whether a vector goes in, of which code makes pictures.
        guessed: layers whose input had to be guessed.
    """

    def __init__(
        self, found: list[Layer], marks: Marks, workload: Workload, start: Shape, family: Family, taken: bool
    ) -> None:
        self.pictures = len(start) > 2
        self.open: list[Shape] = []
        # The places of the last picture of each number of channels: stages are often listed side by side.
        self._places: dict[int, Shape] = {}
        # All of them, where code makes pictures larger in a second half, and the most that kernels made by places.
        self._all: set[tuple[int, Shape]] = set()
        self._widest: dict[Shape, int] = {}
        # The same where no pictures go in: what was given out last of each width.
        self._wide: dict[int, Shape] = {}
        # Whether the features of the series at hand are on its last axis, as a linear layer puts them.
        self._turned = False
        # Whether the picture at hand was made larger.
        self._grew = False
        self.guessed = 0
        self._start = start
        # Whether nothing told how large pictures are.
        self._taken = taken
        self._oblong = oblong(start)
        self._family = family
        self._widths: dict[tuple[str, int], int | None] = {}
        # What a second tower looks at, whose first layer the input is none for.
        self._looked = (COLOURS, *(square_of(workload.input_size or (), COLOURS) or (IMAGE, IMAGE)))
        # Whether code makes pictures larger in a second half, as no layer does, and has done so.
        breathe()
        self._decodes = any(name.startswith(_DECODES) for name in marks.names)
        self._decodes &= not any(type_.startswith(LARGER) for type_ in marks.types)
        self._doubled = False
        # By channels, how much smaller strided convolutions make a picture along each side that has so many.
        self._steps = steps_of(found, start[0]) if self.pictures else {}
        # The last picture that was made of a vector, and the channels of what says none.
        self.vector = (
            len(start) == 1 and not any("Embedding" in type_ for type_ in marks.types) and any(map(on_pictures, found))
        )
        self._seen: Shape = ()
        self._behind = widths_behind(found) if self.vector else {}
        # Whether code averages words before the first linear layer.
        self._averages = not self.pictures and averages(found)
        # Whether convolutions work on a series, and norms of its channels' means and deviations, before a linear layer.
        self._convolves = not self.pictures and "Conv1d" in marks.types
        self._statistics = statistics(found) if self._convolves else frozenset()
        self._side_by_side = any("HighResolution" in type_ for type_ in marks.types)

    def note(self, entry: Shape, out: Shape) -> None:
        """Note whether a layer made its picture larger."""
        if self.vector and len(out) == COLOURS:
            self._seen = out
        self._grew = 3 <= len(out) == len(entry) and (out[-1] > entry[-1] or (self._grew and out[1:] == entry[1:]))

    def remember(self, layer: Layer, out: Shape) -> None:
        """Remember what places a picture had behind a layer, or the last series of its width."""
        if not self.pictures and out:
            self._wide[out[-1]] = out
            self._turned = layer.type.endswith("Linear") or (self._turned and not by_channels(layer))
        if self.pictures and layer.params and len(out) > 1 and "Linear" not in layer.type:
            first = len(out) >= 3 and by_channels(layer)
            width, places = (out[0], out[1:]) if first else (out[-1], out[:-1])
            self._places[width] = places
            if self._decodes:
                self._all.add((width, places))
                if "Conv" in layer.type:
                    self._widest[places] = max(width, self._widest.get(places, 0))

    def of(self, layer: Layer, shape: Shape) -> Shape:
        """Choose the input: what came before, or what came into an enclosing block, whichever has the right width."""
        key = (layer.type, id(layer.args))
        if key not in self._widths:
            self._widths[key] = input_width(layer)
        width = self._widths[key]
        if self.pictures and width is not None and of_a_gate(layer, width):
            return (width, 1, 1)  # behind a mean over the picture, which is no layer
        if width == 3 and "Conv2d" in layer.type and len(shape) != 3:
            return self._looked  # a second tower, which looks
        if self.vector and on_pictures(layer):
            return self._grown_of(layer, shape, self._behind.get(id(layer), 0) if width is None else width)
        if width is None:
            if layer.type not in RECURRENT:
                return shape
            if self.pictures:
                return series_of(layer, shape, self.open, self._taken)
            turned = self._convolves and len(shape) == _SERIES and layer.said("0") == str(shape[0])
            return (shape[1], shape[0]) if turned and shape[0] != shape[1] else shape
        if self._averages and layer.type == "Linear" and len(shape) > 1:
            return (width,)
        if fits(layer, shape, width):
            return shape
        return self._picture_of(layer, shape, width) if self.pictures else self._series_of(layer, shape, width)

    def _series_of(self, layer: Layer, shape: Shape, width: int) -> Shape:
        """Find the features that a layer takes where no pictures go into the model."""
        outers = [
            outer
            for outer in reversed(self.open)
            if len(outer) > 1 or outer != self._start or self._family != "transformer"
        ]
        for outer in outers:
            if fits(layer, outer, width):
                return outer
        if "Linear" in layer.type:  # on the first axis: each channel by itself
            for outer in (shape, *outers):
                if outer and outer[0] == width:
                    return outer
            if self._convolves and len(shape) == _SERIES and width == _TWICE * shape[0]:
                return (width,)  # each channel's mean over the series, and its deviation
            if len(shape) == 1:  # a head's answer, which no other head takes
                return self._wide.get(width, shape)
        if width == 1 and layer.type == "Conv2d" and len(shape) == 2:
            return (1, *shape)  # words as a picture
        if ("Conv" in layer.type or "BatchNorm" in layer.type) and len(shape) > 1:
            if id(layer) in self._statistics and len(shape) == _SERIES and width == _TWICE * shape[0]:
                return (width,)
            turned = shape[-1] == width or (self._turned and layer.type.endswith("1d"))
            return (width, *(shape[:-1] if turned else shape[1:]))
        return shape

    def _grown_of(self, layer: Layer, shape: Shape, width: int) -> Shape:
        """Give the picture that a layer takes where a vector goes into the model, which code makes pictures of."""
        if len(shape) == len(self._seen) == COLOURS:
            return shape if width in (0, shape[0]) or not by_channels(layer) else (width, *shape[1:])
        if self._seen:
            return (width, *self._seen[1:]) if by_channels(layer) and width else self._seen
        if len(shape) > 1 or not width:
            return shape
        return picture_of(elements(shape), width) or (width, *LEARNED)

    def _picture_of(self, layer: Layer, shape: Shape, width: int) -> Shape:
        """Find the picture of so many channels, and turn its axes as the layer wants them."""
        outers = list(reversed(self.open))
        first = by_channels(layer)
        before = grid(shape, first=self._oblong)
        channels = shape[-1] if before == shape[:-1] else shape[0]
        split = first and len(shape) >= 3 and channels % width == 0 and not self._side_by_side
        turned = shape[-1] == width and before == shape[:-1]
        joined = width == 2 * channels and self._grew and not self._side_by_side  # with what was kept of this size
        if first and len(shape) >= 3 and (turned or joined):
            return (width, *before)
        if first and (places := self._grown(width, channels, before)):
            return (width, *places)
        for at, outer in enumerate(outers):
            # The picture itself has its channels first: a width that is its side is so by chance.
            if fits(layer, outer, width) and (first or outer != self._start):
                return (width, *before) if self._pooled(layer, outer, before) else outer
            if split and at == _BLOCK:
                self.guessed += 1
                return (width, *before)
        for outer in (shape, *outers):
            if len(outer) >= 3 and outer[0] == width and not first:
                return (*outer[1:], width)
            if len(outer) > 1 and outer[-1] == width and first and (len(outer) == 2 or grid(outer) == outer[:-1]):
                return (width, *places_of(outer[:-1]))
            if len(outer) == 2 and outer[0] == width and "Linear" in layer.type:
                return outer  # each channel by itself
            if "Linear" in layer.type and len(outer) == 3 and width in (outer[0] * outer[1], outer[1] * outer[2]):
                return (elements(outer) // width, width)  # the same, of a picture
            if "Linear" in layer.type and len(outer) == COLOURS and width == outer[0] * outer[2]:
                return (outer[1], width)  # of a spectrum, at each moment all frequencies' channels
        return self._guess(layer, shape, width, channels, before)

    def _pooled(self, layer: Layer, outer: Shape, before: Shape) -> bool:
        """Tell whether code makes the whole picture as small as the one at hand before a layer inside takes it.

        So do blocks that look at the picture again beside what they take; a second branch makes it smaller itself.
        """
        if outer != self._start or len(before) != len(outer) - 1 or self._grew or step_of(layer) > 1:
            return False
        return len(self.open) > _BLOCK and elements(before) * _FAR <= elements(outer[1:])

    def _guess(self, layer: Layer, shape: Shape, width: int, channels: int, before: Shape) -> Shape:
        """Guess the picture that a layer takes where nothing has so many channels."""
        self.guessed += 1
        first = by_channels(layer)
        beside = self._side_by_side or layer.type.startswith("ConvTranspose") or _heads(layer)
        if "Norm" in layer.type and layer.name.isdecimal():  # it keeps channels
            beside |= self._smaller(self._places.get(width, ()), before)
        if width in self._places and (beside if first else len(shape) > 1):
            places = self._places[width]
            return (width, *places_of(places)) if first else (*places, width)
        if len(shape) < 2 or (layer.type.endswith("Linear") and layer.name in HEADS):
            return shape
        if width == _TWICE * channels and self._smaller(places := self._behind_steps(width), before):
            return (width, *places) if first else (*places, width)
        times, rest = divmod(width, channels)
        if not first and not rest and times in _SQUARES and elements(shape) % width == 0:
            return (elements(shape) // width, width)  # a square of neighbours became one
        return (width, *places_of(before)) if first else (*before, width)

    def _behind_steps(self, width: int) -> Shape:
        """Give the places of a picture of so many channels as layers with steps make them, if these are still to come.

        Else there is nothing to be said: a picture was as small already.
        """
        step = self._steps.get(width, 0)
        places = tuple(-(-size // step) for size in self._start[1:]) if step > 1 else ()
        breathe()
        seen = any(elements(each) <= elements(places) for each in self._places.values() if len(each) == len(places))
        return () if seen else places

    def _smaller(self, places: Shape, before: Shape) -> bool:
        """Tell whether an earlier picture has fewer places than the one at hand, which was not made larger."""
        return not self._grew and len(places) == len(before) and elements(places) < elements(before)

    def _grown(self, width: int, channels: int, before: Shape) -> Shape:
        """Find the places of what a picture is joined with that code made larger before; empty where there is none.

        So does the second half of a U-Net: the picture at hand, twice as large, beside one of the first half.
        """
        beside = width - channels
        most = 2 * channels if self._doubled else channels
        if not self._decodes or beside > most:
            return ()
        places = tuple(_TWICE * size for size in before)
        if (beside, places) not in self._all:
            return ()
        if beside == channels >= self._widest.get(before, 0):
            return ()  # the second half has made nothing of it yet: it may be joined with one of the first as it is
        self._doubled = True
        return places


def statistics(found: list[Layer]) -> frozenset[int]:
    """Find, by their ids, the norms behind which the next layer is linear and takes just what they give out."""
    return frozenset(
        [
            id(norm)
            for norm, after in pairwise(found)
            if norm.type == "BatchNorm1d" and after.type == "Linear" and input_width(after) == input_width(norm)
        ]
    )


def steps_of(found: list[Layer], channels: int) -> dict[int, int]:
    """Tell by how much convolutions with steps make pictures smaller along each side, by the channels that they give.

    Args:
        found: all layers.
        channels: of the picture that goes in.
    """
    steps: dict[int, int] = {}
    known = {channels: 1}
    for layer in found:
        if "Conv2d" not in layer.type:
            continue
        breathe()
        taken, made = number(layer, "0"), number(layer, "1")
        if taken not in known or made <= taken or made in steps:
            continue
        step = step_of(layer)
        if step > 1 or not steps:
            steps[made] = known[made] = known[taken] * step
    return steps


def step_of(layer: Layer) -> int:
    """Read the step of a convolution along each side; 1 where it says none."""
    text = layer.said("stride").strip("() ").split(",")[0]
    return int(text) if text.isdecimal() and len(text) < _DIGITS else 1


def _heads(layer: Layer) -> bool:
    """Tell whether a layer may be one of several that each work on a picture of another stage, side by side."""
    kernel = layer.said("kernel_size").strip("()").replace(" ", "")
    return layer.name.isdecimal() and bool(kernel) and set(kernel.split(",")) == {"1"}
