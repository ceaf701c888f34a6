"""What goes into a model: as the user says it, as its layers tell, or what is usual. Pure."""

from __future__ import annotations

from math import isqrt
from typing import Final

from estimator import input_size, inputs, sizes
from estimator.breath import breathe
from estimator.layer import Layer
from estimator.shapes.widths import (
    COLOURS,
    IMAGE,
    MOST_COLOURS,
    MOST_DIM,
    RECURRENT,
    TOKENS,
    fields_of,
    line_of,
    of_fields,
    of_ids,
    takes_pictures,
)
from estimator.sharing import SAYS_SIZE
from estimator.types import Family, SummaryError, Workload
from estimator.walk import elements

Shape = tuple[int, ...]

_TWO: Final = 2
_SMALL_IMAGE: Final = 28
_VOLUME: Final = 128
_AXES: Final = 3  # of a volume
_GREY_VOLUME: Final = 96
# Models that listen: a short sequence is meant in seconds.
_SOUND: Final = 16_000
_SECONDS: Final = 600
_USUAL_SECONDS: Final = 5
# Digits of the number of words.
_LONG_NUMBER: Final = 5
# Published with larger pictures.
_SIDES: Final[tuple[tuple[str, int], ...]] = (
    ("Inception3", 299),
    ("InceptionV", 299),
    ("InceptionResnetV2", 299),
    ("Xception", 299),
    ("NASNet", 331),
    ("PNASNet", 331),
    ("CrossViT", 240),
    ("CrossVit", 240),
    ("SwinTransformerV2Block", 256),
    ("SwinTransformerBlockV2", 256),
    ("MobileVitBlock", 256),
    ("MobileVitV2Block", 256),
    ("SegformerForSemantic", 512),
    ("UperNetFor", 512),
    ("MobileViTForSemantic", 512),
    ("MobileViTV2ForSemantic", 512),
    ("MaskFormerFor", 512),
    ("Mask2FormerFor", 512),
    ("GLPNFor", 480),
    ("DeformableDetrFor", 800),
    ("RTDetr", 640),
    ("DFine", 640),
    ("Swin2SR", 64),
    ("RAFT", 512),
)
# Detectors of one look at the picture, whoever wrote them.
_YOLO_SIDE = 640
# Pictures that an autoencoder made small.
_LATENTS: Final = (4, 8, 16)
_LATENT_SIDE: Final = 64
_LATENT_FRAMES: Final = 4
TAKEN: Final = "was taken"
# Blocks that tell nothing of what their layers take; others may work on a series, on nodes or on pairs.
_PLAIN: Final = frozenset(("Sequential", "ModuleList", "ModuleDict"))
_UNSHUFFLES: Final[tuple[str, ...]] = ("SpaceToDepth", "PixelUnshuffle")


class Start:
    """What goes into a model that a print does not show.

    Attributes:
        shape: of one sample.
        inferred: a sentence for each assumption.
        note: what was taken for the input, as a directive would have said it; "" where that was told or follows.
        listed: whether tables in a list without names are those of fields.
    """

    def __init__(self, found: list[Layer], workload: Workload, family: Family) -> None:
        self.inferred: list[str] = []
        self.note = ""
        self._family = family
        breathe()
        self.listed = of_fields(found)
        fields = 0 if workload.seq_len else max([fields_of(layer, self.listed) for layer in found])
        self.shape: Shape = (fields,) if fields else self._input(found, workload)

    def _input(self, found: list[Layer], workload: Workload) -> Shape:
        looks = False
        for layer in found:
            breathe()
            try:
                if "Embedding" in layer.type and layer.params and not layer.children:
                    return self._tokens(found, workload)
                if channels := _channels(layer):
                    return self._picture(layer, sizes.integer(channels), found, workload)
                if layer.type.endswith("Linear") and (features := layer.said("in_features")):
                    looks = looks or _looks(found)
                    if looks:
                        continue
                    width = sizes.integer(features)
                    if workload.input_size and (said := self._features(layer, width, workload.input_size)):
                        return said
                    if self._family == "transformer":
                        return (workload.seq_len or self._patches(layer, found), width)
                    if workload.seq_len and width % workload.seq_len:  # else the series may be flattened
                        return (workload.seq_len, width)
                    if not workload.seq_len and any(layer.children and layer.type not in _PLAIN for layer in found[1:]):
                        self.inferred.append(
                            f"the print shows no input; one row of {width} numbers was taken: of several a sample, as "
                            f"points of a ray, `input_size=ROWSx{width}` says so"
                        )
                        self.note = self.note or f"input_size={width} was taken"
                    return (width,)
                if layer.type in RECURRENT:
                    width = sizes.integer(layer.said("0"))
                    return (self._told(layer, width, workload), width)
            except SummaryError:
                raise
            except ValueError:
                continue
        return self._tokens(found, workload) if self._family == "transformer" else (1,)

    def _features(self, layer: Layer, width: int, said: Shape) -> Shape:
        """Give the input of a model that begins with a linear layer, as the user says it; none where that is none.

        Raises:
            SummaryError: it is more than the layer takes, so that code makes something of it first.
        """
        square = square_of(said, COLOURS)
        patches = inputs.patches(layer, *square) if square and (len(said) > 1 or self._family == "transformer") else 0
        if len(said) > _TWO and said[-1] == width:
            shape: Shape = said  # of each place
        elif len(said) == 2 and width in said:
            shape = (input_size.length(said, width), width)
        elif patches:
            shape = (min(patches, MOST_DIM), width)
        elif elements(said) == width:
            shape = (width,)
        elif self._family == "transformer" and len(said) == 1:
            shape = (said[0], width)
        elif self._family != "transformer" and len(said) > 1 and elements(said) > width:
            raise SummaryError(
                f"input_size={input_size.written(said)} cannot go into the first layer, which takes {width} features: "
                f"say the shape of what does (input_size=ROWSx{width}), or paste what torchinfo prints"
            )
        else:
            self._unused(said, f"the first layer takes {width} features")
            return ()
        self._understood(said, shape)
        return shape

    def _understood(self, said: Shape, shape: Shape) -> None:
        self.inferred.append(
            f"input_size={input_size.written(said)}: the first layer takes {input_size.written(shape)}"
        )

    def _unused(self, said: Shape, why: str) -> None:
        self.note = f"input_size={input_size.written(said)} does not count: {why}"
        self.inferred.append(self.note)

    def _tokens(self, found: list[Layer], workload: Workload) -> Shape:
        if workload.input_size and not any(takes_pictures(layer) for layer in found):
            self._unused(workload.input_size, "the first layer takes tokens, seq_len says how many")
        if workload.seq_len:
            return (workload.seq_len,)
        longest = TOKENS
        if of_ids(found):
            self.inferred.append("no seq_len was given; one row of each table was taken: say `seq_len=N`")
            self.note = self.note or "seq_len=1 was taken"
            return (1,)
        for layer in found:
            if "osition" in layer.name or layer.name == "wpe" or "osition" in layer.type:
                rows = layer.said("0")
                if rows.isdecimal() and len(rows) < 7:
                    longest = min(int(rows), 1024)
                    break
        self.inferred.append(f"no seq_len was given; {longest} tokens were taken: say `seq_len=N`")
        self.note = self.note or f"seq_len={longest} was taken"
        return (longest,)

    def _patches(self, layer: Layer, found: list[Layer]) -> int:
        """Count the tokens of a model that takes features, where no length is given."""
        told, cut = inputs.tokens(found[0], layer), inputs.patches(layer, IMAGE, IMAGE)
        count = min(told or cut or TOKENS, MOST_DIM)
        ground = "follow from its table of positions" if told else "were taken"
        of = f", patches of a picture of {IMAGE}x{IMAGE}" if cut and not told else ""
        self.inferred.append(f"no seq_len was given; {count} tokens {ground}{of}: say `seq_len=N`")
        if not told:
            self.note = self.note or f"seq_len={count} was taken"
        return count

    def _picture(self, layer: Layer, channels: int, found: list[Layer], workload: Workload) -> Shape:
        if "Conv1d" in layer.type:
            return (channels, self._length(layer, channels, found, workload))
        if workload.input_size:
            return self._as_said(layer, channels, found, workload.input_size)
        folded = _folded(found, channels)
        points = channels > COLOURS and _one_by_one(found)
        if (
            (points and "2d" in layer.type)
            or (inputs.along(found)[0] >= 0 and "2d" in layer.type)
            or (channels > MOST_COLOURS and folded == 1 and layer.type == "Conv2d" and not inputs.noisy(found))
        ):
            raise SummaryError(
                f"'{line_of(layer)}' takes no picture of a usual size, and a print does not show what it takes: "
                "say `input_size=..`, the shape of one sample, or paste what torchinfo prints"
            )
        small = channels == 1 and _reads_digits(found, layer)
        side = _SMALL_IMAGE if small else IMAGE
        if channels > 1:
            types = {layer.type for layer in found}
            side = next((size for mark, size in _SIDES if any(type_.startswith(mark) for type_ in types)), side)
            if any(mark in found[0].type for mark in SAYS_SIZE):
                side = _YOLO_SIDE
        if channels in _LATENTS and self._family == "transformer":
            side = _LATENT_SIDE
        if channels == 1 and found[0].type.startswith("AST"):
            return (1, 128, 1024)  # mel bins and frames
        if "3d" in layer.type and channels > COLOURS and self._family == "transformer":
            shape = (channels, _LATENT_FRAMES, _LATENT_SIDE, _LATENT_SIDE)
            self._assume(shape, TAKEN)
            return shape
        if "3d" in layer.type and channels != COLOURS:
            shape = (channels, *(_GREY_VOLUME if channels == 1 else min(side, _VOLUME),) * 3)
            self._assume(shape, TAKEN)
            return shape
        if "ConvTranspose2d" in layer.type:  # a generator: it grows pictures of one pixel
            self._assume((channels, 1, 1), TAKEN)
            return (channels, 1, 1)
        if folded > 1:  # squares of pixels became channels before it
            self._assume((COLOURS, side, side), TAKEN)
            return (channels, side // folded, side // folded)
        reads = any(layer.type in RECURRENT for layer in found)  # then linear layers take what that gives out
        seen = inputs.picture(found[0], layer, side, flattens=self._family == "cnn" and not reads)
        ground = f"follows from {seen.why}" if seen.why else TAKEN
        frames = (seen.frames,) if "3d" in layer.type or seen.frames > 1 else ()
        self._assume((channels, *frames, seen.side, seen.side), ground)
        if "3d" in layer.type:
            return (channels, seen.frames, seen.side, seen.side)
        return (channels, seen.frames * seen.side, seen.side)  # of a film, frames side by side

    def _length(self, layer: Layer, channels: int, found: list[Layer], workload: Workload) -> int:
        """Tell how long the series is that a model takes."""
        if workload.input_size:
            return self._told(layer, channels, workload)
        if found[0].type.startswith("Whisper"):
            length = 3000  # frames of 30 s
        elif channels == 1 and self._family == "transformer":
            told = workload.seq_len or 0
            seconds = told if 0 < told <= _SECONDS and not any(map(_speaks, found)) else _USUAL_SECONDS
            length = seconds * _SOUND
            if seconds != workload.seq_len:
                self.note = f"input_size=1x{length} was taken"
        else:
            length = self._told(layer, channels, workload)
        self.inferred.append(f"the print shows no input; a length of {length} was taken")
        return length

    def _told(self, layer: Layer, width: int, workload: Workload) -> int:
        """Take the length of a series of so many features from the workload.

        Raises:
            SummaryError: no length is told, and none is so usual that it could be taken; or it is no such series.
        """
        if workload.input_size:
            length = input_size.length(workload.input_size, width)
            if length:
                self._understood(workload.input_size, (length, width) if "Conv" not in layer.type else (width, length))
                return length
            raise SummaryError(
                f"input_size={input_size.written(workload.input_size)} is no series of {width} features, as the first "
                f"layer takes: write input_size={width}xLENGTH"
            )
        if workload.seq_len:
            return workload.seq_len
        raise SummaryError(
            f"'{line_of(layer)}' works on series, and a print does not show how long they are: "
            "say `seq_len=N`, or paste what torchinfo prints"
        )

    def _as_said(self, layer: Layer, channels: int, found: list[Layer], said: Shape) -> Shape:
        """Give the input of a model that begins with a convolution over pictures, films or volumes."""
        axes = 3 if "3d" in layer.type else 2
        if said == (channels,) and "ConvTranspose" in layer.type:  # a latent, of which it makes a picture
            return (channels, *(1,) * axes)
        rest = input_size.sides(said, channels, axes)
        if axes == 2 and len(said) == 2 and (axis := inputs.along(found))[0] >= 0:
            rest = _side_by_side(said, channels, *axis)
        if axes == 3 and len(rest) == 1 and channels != COLOURS:
            rest = rest * 3
        if axes == 3 and len(rest) < 3:  # films, or volumes without their depth
            deep = _GREY_VOLUME if channels == 1 else _VOLUME
            if channels == COLOURS:
                deep = inputs.picture(found[0], layer, rest[-1], flattens=False).frames
            rest = (deep, rest[0], rest[-1])
            self.note = f"input_size={input_size.written((channels, *rest))} was taken"
        rows, columns = rest[-2:] if len(rest) > 1 else (rest[0], rest[0])
        least, most = inputs.resizing(found[0])
        if least:
            rows, columns = input_size.resized((rows, columns), least, most)
        folded = input_size.folded(said, channels)
        rows, columns = max(rows // folded, 1), max(columns // folded, 1)
        shape = (channels, *rest[:-2], rows, columns)
        self._understood(said, shape)
        if len(said) > axes and channels not in said and folded == 1:
            self.note = f"the first layer takes {channels} channels: {input_size.written(shape)}"
        if axes == 3 or len(shape) == 3:
            return shape
        self.note = f"input_size has {rest[0]} pictures a sample"
        return (channels, rest[0] * rows, columns)  # one beside the other

    def _assume(self, shape: Shape, ground: str) -> None:
        size = input_size.written(shape)
        self.inferred.append(f"the print shows no input; {size} {ground}: `input_size` says another")
        if ground == TAKEN:
            self.note = f"input_size={size} was taken"


def _channels(layer: Layer) -> str:
    """Read how many channels a convolution takes; "" of anything else.

    Raises:
        SummaryError: it shows no kernel, so that it is none over pictures or series.
    """
    if "Conv" not in layer.type:
        return ""
    if layer.said("1") and not (layer.said("2") or layer.said("kernel_size")):
        raise SummaryError(
            f"'{line_of(layer)}' shows no kernel, and a print does not show what such a layer takes: "
            "paste what torchinfo prints"
        )
    return layer.said("0")


def _looks(found: list[Layer]) -> bool:
    """Tell whether a network that has linear layers first takes pictures, and makes none of a vector.

    Then the first convolution over pictures has few channels; else that takes what was made of the vector.
    """
    first = next((layer for layer in found if layer.type in ("Conv2d", "ConvTranspose2d")), None)
    if first is not None and inputs.number(first, "0") > MOST_COLOURS:
        return False
    return any(map(takes_pictures, found))


def _speaks(layer: Layer) -> bool:
    """Tell whether a layer looks up words, whose number is what ``seq_len`` says where a model listens, too."""
    rows = layer.said("0")
    return layer.type.endswith("Embedding") and rows.isdecimal() and len(rows) >= _LONG_NUMBER


def _one_by_one(found: list[Layer]) -> bool:
    """Tell whether each of several kernels looks at one place alone: these are points, and no picture."""
    flat = [layer for layer in found if layer.type.startswith("Conv") and layer.type.endswith("2d")]
    return len(flat) > 1 and all(inputs.side_of(layer) == 1 for layer in flat)


def _folded(found: list[Layer], channels: int) -> int:
    """Tell how many rows of a picture's pixels were made channels of before the first convolution; 1 for none."""
    rows = isqrt(channels // COLOURS)
    if rows < 2 or channels != COLOURS * rows * rows:
        return 1
    cuts = any(layer.type == "Rearrange" and str(rows) in dict(layer.args).values() for layer in found)
    cuts |= any(layer.type in _UNSHUFFLES for layer in found) or channels > MOST_COLOURS
    return rows if cuts else 1


def _reads_digits(found: list[Layer], stem: Layer) -> bool:
    """Tell whether a network that takes grey pictures may take small ones, by what it makes of them."""
    kernel = inputs.side_of(stem)
    return inputs.reduces(found) * 2 <= _SMALL_IMAGE and kernel * 2 <= _SMALL_IMAGE


def _side_by_side(said: Shape, channels: int, axis: int, kernel: int) -> Shape:
    """Give rows and columns of series that lie side by side, along one of which the first kernel looks.

    Args:
        said: how many series, and how long, in any order.
        channels: of the first layer: as many as there are series, or one.
        axis: along which the kernel looks.
        kernel: over how many places.
    """
    if channels in said and channels > 1:
        beside, long = 1, said[1 - said.index(channels)]
    else:
        long = kernel if kernel in said else max(said)
        beside = said[1 - said.index(long)]
    return (beside, long) if axis else (long, beside)


def sides_said(found: list[Layer], workload: Workload) -> Shape:
    """Give the sides of what the first convolution takes, which is not resized, where the user says them."""
    stem = next((layer for layer in found if "Conv" in layer.type), None)
    if not workload.input_size or stem is None:
        return ()
    channels = inputs.number(stem, "0")
    if stem.type == "Conv1d":
        length = input_size.length(workload.input_size, channels)
        return (length,) if length else ()
    if stem.type == "Conv3d":
        rest = input_size.sides(workload.input_size, channels, _AXES)
        return rest if len(rest) == _AXES else ()
    return square_of(workload.input_size, channels) if stem.type == "Conv2d" else ()


def square_of(said: Shape, channels: int) -> Shape:
    """Give rows and columns of a picture where the user says them; nothing where he says something else."""
    rest = input_size.sides(said, channels, 2)
    return (rest[0], rest[-1]) if 0 < len(rest) <= 2 else ()
