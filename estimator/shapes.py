"""Output shapes for summaries that show none: from the layers' sizes, the batch and the sequence length. Pure.

A module's print names layers in the order in which they were defined and says nothing of the input. So shapes are
followed layer by layer; where a layer's input does not fit what came before it (a branch, a skip connection, a gated
projection), the input of an enclosing block that does fit is taken. What had to be assumed is said in ``inferred``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import isqrt, prod
from typing import Final

from estimator import blocks, input_size, inputs, outputs, pools, sizes
from estimator.compiled import breathe
from estimator.family import family_of
from estimator.types import Layer, ModelSummary, SummaryError, Workload
from estimator.walk import elements, layers

Shape = tuple[int, ...]
_Sibling = tuple[str, int, int, int, Shape]
"""Type, parameters, what is printed of it and what is in it (the same objects), and its input."""

_IMAGE: Final = 224
_SMALL_IMAGE: Final = 28
_VOLUME: Final = 128
_GREY_VOLUME: Final = 96
# Models that listen: a short sequence is meant in seconds.
_SOUND: Final = 16_000
_SECONDS: Final = 600
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
_YOLO, _YOLO_SIDE = ("Yolo", "YOLO"), 640
_TOKENS: Final = 512
_DEEP: Final = 4
_COLOURS: Final = 3
# Pictures that an autoencoder made small.
_LATENTS: Final = 4
_LATENT_SIDE: Final = 64
_TAKEN: Final = "was taken"
_UNSHUFFLES: Final[tuple[str, ...]] = ("SpaceToDepth", "PixelUnshuffle")
# Pictures have so many channels at most; a linear layer that stands before them takes a time step.
_MOST_COLOURS: Final = 16
_MOST_DIM: Final = 10_000_000
# Elements that a layer gives out of one sample, and how often those of the sample: no GPU holds a few such tensors.
_MOST_ELEMENTS: Final = 2**32
_MOST_TIMES: Final = 2048
_LEAST_WINDOWS: Final = 4
_DIGITS: Final = 7
_LONGEST_LINE: Final = 160
# Experts that each token goes to, which a print does not show.
_CHOSEN: Final = 2
_SQUARES: Final[tuple[int, ...]] = (4, 16)
# So many containers are open inside of a block: a list, the block, the list of blocks.
_BLOCK: Final = 2
_ATTENDS: Final = "Att"
_OFTEN: Final = 63
_HEADS: Final[tuple[str, ...]] = (
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
_POOLED: Final[tuple[str, ...]] = ("pooler", "classifier", "pre_classifier", "seq_relationship", "heads", "head")
_ACTIVATIONS: Final[tuple[str, ...]] = (
    "ReLU",
    "GELU",
    "SiLU",
    "Tanh",
    "Sigmoid",
    "Activation",
    "Swish",
    "Mish",
    "ELU",
    "Softplus",
)
# Learned arrays that take the input's place.
_LATENT: Final[tuple[str, ...]] = ("PerceiverEmbeddings",)
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
_OF_HEADS: Final[tuple[str, ...]] = ("proj_l", "proj_w")
# Pairs of coordinates that a small network makes such a table of: windows of seven, both ways.
_PAIRS: Final[tuple[int, ...]] = (13, 13, 2)
_ENTRY_STARTS: Final[tuple[str, ...]] = ("convolution_projection", "skip", "shortcut", "identity")
# Blocks that multiply what a gate gives out with the picture before it.
_GATED: Final[tuple[str, ...]] = ("SelectiveKernel", "SplitAttn")
_POOLED_CONVS: Final[tuple[str, ...]] = ("conv_reduce", "conv_expand", "fc_reduce", "fc_select")
_REDUCTIONS: Final[tuple[str, ...]] = (
    "sr",
    "sequence_reduction",
    "spatial_reduction",
    "layer_norm",
    "norm",
    "act",
    "pool",
)
# Patches of numbered stages, often listed before all blocks.
_ROWS: Final[tuple[str, ...]] = ("Sequential", "ModuleList", "ModuleDict")
_MOVES: Final[tuple[str, ...]] = ("Rearrange", "Reduce", "Unfold")
_BY_CHANNELS: Final[tuple[str, ...]] = ("2d", "3d", "Conv", "BatchNorm", "GroupNorm")
# Parts of denoisers that work on the time step.
_TIME: Final[tuple[str, ...]] = ("time", "temb", "t_emb", "emb_layers")
_PADDING: Final = "_padding"
# What gathers the messages of neighbours.
_GATHERS: Final = "Aggregation"
_FEWEST_NODES: Final = 2
_DECODES: Final[tuple[str, ...]] = ("decode", "up")
_LARGER: Final[tuple[str, ...]] = (*outputs.GROWS, "ConvTranspose", "PixelShuffle", "MaxUnpool")
_STAGES: Final[tuple[str, ...]] = ("patch_embed",)
_ENTRY_NAMES: Final[tuple[str, ...]] = ("downsample", "shortcut", "skip", "proj_drop", "conv_skip", "identity")


def with_shapes(summary: ModelSummary, workload: Workload) -> ModelSummary:
    """Fill in the output shapes that the summary does not show.

    Args:
        summary: the model.
        workload: gives ``seq_len`` and ``input_size``.

    Returns:
        The same summary where every layer without children shows its shape already, else one with shapes and with a
        sentence for each assumption. Where the workload's input size is none that the summary was printed for, its
        note says so.

    Raises:
        SummaryError: a print says too little of this kind of model, or the input size is none for it.
    """
    found = layers(summary.root)
    if summary.batch_size is not None and summary.batch_size == workload.seq_len != workload.batch_size:
        summary = _sequence_first(summary, workload.seq_len)
        found = layers(summary.root)
    if any(layer.type.endswith(_GATHERS) for layer in found):
        summary = _nodes_of(summary, found, workload.batch_size)
        found = layers(summary.root)
    if workload.input_size and any(layer.output_shape or layer.input_shape for layer in found):
        note = input_size.contradiction(summary, workload.input_size)
        if note:
            summary = replace(summary, note=note, inferred=(*summary.inferred, note))
    missing = [layer for layer in found if layer.output_shape is None and not layer.children]
    if not missing:
        if summary.format == "torchsummary" and any(_ATTENDS in type_ for type_ in {layer.type for layer in found}):
            return replace(summary, root=summary.root._replace(children=_windows(summary.root.children)))
        return summary
    if any(layer.output_shape for layer in found):
        return summary  # what has no shape there is a list of layers, or was never called
    if any(layer.input_shape for layer in found):
        return replace(summary, root=_from_inputs(summary.root))
    if any(layer.type in _LATENT for layer in found):
        raise SummaryError(
            f"a print of {found[0].type[:80]} shows neither its latent array nor how often its blocks run: "
            "paste what torchinfo prints with depth=20"
        )
    pooled = pools.between(pools.repeated(summary.root, _rows_and_columns(found, workload)), found)
    if pooled is not summary.root:
        found = layers(pooled)
    follower = _Follower(found, workload)
    root, _ = follower.follow(pooled, follower.start)
    inferred = (*summary.inferred, *follower.inferred)
    return replace(summary, root=root, inferred=inferred, guessed=follower.guessed, note=follower.note)


def _windows(rows: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put back how many windows a sample has.

    torchsummary writes the batch for the first dimension, whatever it is: attention in windows of 49 of 3136 tokens
    looks like 49 tokens. Where a product takes in every feature of fewer tokens than came before, the rest are windows,
    until the attention ends.
    """
    made: list[Layer] = []
    before: Shape = ()
    windows = 1
    for row in rows:
        shape = row.output_shape
        if shape is None:
            made.append(row)
            continue
        if windows == 1 and row.type == "Linear" and len(shape) == 2 and len(before) > 1:
            windows = _fewer_tokens(row, shape, before)
        if windows > 1:
            if "Conv" in row.type or elements(shape) * _LEAST_WINDOWS > elements(before):
                windows = 1  # the whole again
            else:
                row = row._replace(output_shape=(windows, *shape))  # noqa: PLW2901
        if _ATTENDS in row.type:
            windows = 1
        made.append(row)
        if not _weighs(row):
            before = row.output_shape or ()
    return tuple(made)


def _weighs(row: Layer) -> bool:
    """Tell whether a row gives out an attention's matrix of weights, one for each head: that holds no features."""
    shape = row.output_shape or ()
    return len(shape) > 2 and shape[-1] == shape[-2] and ("Dropout" in row.type or "Softmax" in row.type)


def _fewer_tokens(row: Layer, shape: Shape, before: Shape) -> int:
    """Tell into how many windows the tokens before a product were cut; 1 where they were not."""
    width = before[-1]
    if row.params not in (shape[1] * width, shape[1] * (width + 1)):
        return 1
    count, rest = divmod(elements(before) // width, shape[0])
    if rest:  # filled up to whole windows, as wide as long
        side = round(shape[0] ** (1 / (len(before) - 1)))
        rest = side ** (len(before) - 1) - shape[0]
        count = prod(-(-size // side) for size in before[:-1])
    return count if not rest and count >= _LEAST_WINDOWS and shape[0] >= _LEAST_WINDOWS else 1


def _from_inputs(root: Layer) -> Layer:
    """Take the input of the next layer for an output that is not shown (torchinfo without that column)."""
    after = root.output_shape

    def filled(layer: Layer) -> Layer:
        nonlocal after
        children = [filled(child) for child in reversed(layer.children)]
        shape = layer.output_shape or (None if layer.children else after or layer.input_shape)
        after = layer.input_shape or after
        return layer._replace(output_shape=shape, children=tuple(reversed(children)))

    return filled(root)


def _sequence_first(summary: ModelSummary, seq_len: int) -> ModelSummary:
    """Undo a reading that took the sequence for the batch, as in XLNet, which works on (sequence, batch, width)."""
    printed = next(
        (layer.output_shape[0] for layer in layers(summary.root) if layer.output_shape and len(layer.output_shape) > 1),
        None,
    )

    def turned(layer: Layer) -> Layer:
        shape = layer.output_shape
        if shape and len(shape) > 1 and shape[0] == printed:
            shape = (seq_len, *shape[1:])
        return layer._replace(output_shape=shape, children=tuple(turned(child) for child in layer.children))

    return replace(
        summary,
        root=turned(summary.root),
        batch_size=printed,
        inferred=(*summary.inferred, "the first dimension was taken for the sequence, the second for the batch"),
    )


def _nodes_of(summary: ModelSummary, found: list[Layer], batch_size: int) -> ModelSummary:
    """Divide the nodes of a graph network, for which its table has one dimension, among the graphs of a batch.

    Raises:
        SummaryError: torchsummary leaves that dimension out.
    """
    if summary.format == "torchsummary":
        gathers = next(layer for layer in found if layer.type.endswith(_GATHERS))
        raise SummaryError(
            f"'{gathers.type[:_LONGEST_LINE]}' works on nodes, and torchsummary does not show how many a graph has: "
            "paste what torchinfo prints for the job's batch"
        )
    nodes, rest = divmod(summary.batch_size or 0, max(batch_size, 1))
    if rest or nodes < _FEWEST_NODES:
        return summary

    def divided(layer: Layer) -> Layer:
        shape = None if layer.output_shape is None else (nodes, *layer.output_shape)
        before = None if layer.input_shape is None else (nodes, *layer.input_shape)
        children = tuple(map(divided, layer.children))
        return layer._replace(output_shape=shape, input_shape=before, children=children)

    said = f"the table is of nodes; it is taken to be of {batch_size} graphs of {nodes} nodes"
    return replace(summary, root=divided(summary.root), batch_size=batch_size, inferred=(*summary.inferred, said))


class _Follower:
    """Follows one sample through the layers."""

    def __init__(self, found: list[Layer], workload: Workload) -> None:
        self.family = family_of(found)
        self.inferred: list[str] = []
        self.note = ""
        # What a second tower looks at, whose first layer the input is none for.
        self._looked = (_COLOURS, *(_square(workload.input_size or (), _COLOURS) or (_IMAGE, _IMAGE)))
        fields = 0 if workload.seq_len else max(map(_fields, found))
        self.start = (fields,) if fields else self._input(found, workload)
        self._open: list[Shape] = []
        self._known: dict[tuple[int, Shape], tuple[Layer, Shape]] = {}
        self._args: dict[int, dict[str, str]] = {}
        self._widths: dict[tuple[str, int], int | None] = {}
        # The places of the last picture of each number of channels: stages are often listed side by side.
        self._places: dict[int, Shape] = {}
        self._pictures = len(self.start) > 2
        self._most = max(_MOST_ELEMENTS, _MOST_TIMES * elements(self.start))
        self._beside = False
        self._grew = False
        # Whether code makes pictures larger in a second half, as no layer does, and has done so.
        self._decodes = any(layer.name.startswith(_DECODES) for layer in found)
        self._decodes &= not any(layer.type.startswith(_LARGER) for layer in found)
        self._doubled = False
        self._shrinks = any(map(_shrinks, found))
        self.guessed = 0
        self._words = self.start[0] if len(self.start) == 1 else workload.seq_len or _TOKENS
        deep = {layer.type for layer in found if "3d" in layer.type}
        # Where only the first layer knows of time, blocks take all places of all moments alike.
        self._flat_in_time = deep == {"Conv3d"} and self.family == "transformer"
        # Axes of pictures that a norm over channels turns; windows over time and place keep the axis of time.
        self._turned = (2, 3) if self._flat_in_time else (2, 3, _DEEP)
        self._side_by_side = any("HighResolution" in layer.type for layer in found)

    def _input(self, found: list[Layer], workload: Workload) -> Shape:
        looks = False
        for layer in found:
            args = dict(layer.args)
            try:
                if "Embedding" in layer.type and layer.params and not layer.children:
                    return self._tokens(found, workload)
                if "Conv" in layer.type and "0" in args:
                    return self._picture(layer, sizes.number(args, "0"), found, workload)
                if layer.type.endswith("Linear") and "in_features" in args:
                    if not looks and any(_takes_pictures(other) for other in found):
                        looks = True
                    if looks:
                        continue
                    width = sizes.number(args, "in_features")
                    if workload.input_size and (said := self._features(layer, width, workload.input_size)):
                        return said
                    if self.family == "transformer":
                        return (workload.seq_len or self._patches(layer, found), width)
                    if workload.seq_len and width % workload.seq_len:  # else the series may be flattened
                        return (workload.seq_len, width)
                    return (width,)
                if layer.type in ("LSTM", "GRU", "RNN"):
                    width = sizes.number(args, "0")
                    return (self._told(layer, width, workload), width)
            except SummaryError:
                raise
            except (KeyError, ValueError):
                continue
        return self._tokens(found, workload) if self.family == "transformer" else (1,)

    def _features(self, layer: Layer, width: int, said: Shape) -> Shape:
        """Give the input of a model that begins with a linear layer, as the user says it; none where that is none."""
        square = _square(said, _COLOURS)
        patches = inputs.patches(layer, *square) if square and (len(said) > 1 or self.family == "transformer") else 0
        if len(said) == 2 and width in said:
            shape: Shape = (input_size.length(said, width), width)
        elif patches:
            shape = (min(patches, _MOST_DIM), width)
        elif elements(said) == width:
            shape = (width,)
        elif self.family == "transformer" and len(said) == 1:
            shape = (said[0], width)
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
        if workload.input_size and not any(_takes_pictures(layer) for layer in found):
            self._unused(workload.input_size, "the first layer takes tokens, seq_len says how many")
        if workload.seq_len:
            return (workload.seq_len,)
        longest = _TOKENS
        for layer in found:
            if "osition" in layer.name or layer.name == "wpe" or "osition" in layer.type:
                rows = dict(layer.args).get("0", "")
                if rows.isdecimal() and len(rows) < 7:
                    longest = min(int(rows), 1024)
                    break
        self.inferred.append(f"no seq_len was given; {longest} tokens were taken: say `seq_len=N`")
        self.note = self.note or f"seq_len={longest} was taken"
        return (longest,)

    def _patches(self, layer: Layer, found: list[Layer]) -> int:
        """Count the tokens of a model that takes features, where no length is given."""
        told, cut = inputs.tokens(found[0], layer), inputs.patches(layer, _IMAGE, _IMAGE)
        count = min(told or cut or _TOKENS, _MOST_DIM)
        ground = "follow from its table of positions" if told else "were taken"
        of = f", patches of a picture of {_IMAGE}x{_IMAGE}" if cut and not told else ""
        self.inferred.append(f"no seq_len was given; {count} tokens {ground}{of}: say `seq_len=N`")
        if not told:
            self.note = self.note or f"seq_len={count} was taken"
        return count

    def _picture(self, layer: Layer, channels: int, found: list[Layer], workload: Workload) -> Shape:
        if "Conv1d" in layer.type:
            return (channels, self._length(layer, channels, found[0], workload))
        if workload.input_size:
            return self._as_said(layer, channels, found, workload.input_size)
        side = _SMALL_IMAGE if channels == 1 else _IMAGE
        if channels > 1:
            types = {layer.type for layer in found}
            side = next((size for mark, size in _SIDES if any(type_.startswith(mark) for type_ in types)), side)
            if any(mark in found[0].type for mark in _YOLO):
                side = _YOLO_SIDE
        if channels == _LATENTS and self.family == "transformer":
            side = _LATENT_SIDE
        if channels == 1 and found[0].type.startswith("AST"):
            return (1, 128, 1024)  # mel bins and frames
        if "3d" in layer.type and channels != _COLOURS:
            shape = (channels, *(_GREY_VOLUME if channels == 1 else min(side, _VOLUME),) * 3)
            self._assume(shape, _TAKEN)
            return shape
        if "ConvTranspose2d" in layer.type:  # a generator: it grows pictures of one pixel
            self._assume((channels, 1, 1), _TAKEN)
            return (channels, 1, 1)
        folded = isqrt(channels // _COLOURS) if any(layer.type in _UNSHUFFLES for layer in found) else 1
        if folded > 1 and channels == _COLOURS * folded * folded:  # squares of pixels became channels before it
            self._assume((_COLOURS, side, side), _TAKEN)
            return (channels, side // folded, side // folded)
        seen = inputs.picture(found[0], layer, side, flattens=self.family == "cnn")
        ground = f"follows from {seen.why}" if seen.why else _TAKEN
        frames = (seen.frames,) if "3d" in layer.type or seen.frames > 1 else ()
        self._assume((channels, *frames, seen.side, seen.side), ground)
        if "3d" in layer.type:
            return (channels, seen.frames, seen.side, seen.side)
        return (channels, seen.frames * seen.side, seen.side)  # of a film, frames side by side

    def _length(self, layer: Layer, channels: int, root: Layer, workload: Workload) -> int:
        """Tell how long the series is that a model takes."""
        if workload.input_size:
            return self._told(layer, channels, workload)
        if root.type.startswith("Whisper"):
            length = 3000  # frames of 30 s
        elif channels == 1 and self.family == "transformer":
            seconds = workload.seq_len if workload.seq_len and workload.seq_len <= _SECONDS else 5
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
            f"'{_line(layer)}' works on series, and a print does not show how long they are: "
            "say `seq_len=N`, or paste what torchinfo prints"
        )

    def _as_said(self, layer: Layer, channels: int, found: list[Layer], said: Shape) -> Shape:
        """Give the input of a model that begins with a convolution over pictures, films or volumes."""
        axes = 3 if "3d" in layer.type else 2
        rest = input_size.sides(said, channels, axes)
        if axes == 3 and len(rest) == 1 and channels != _COLOURS:
            rest = rest * 3
        if axes == 3 and len(rest) < 3:  # films, or volumes without their depth
            deep = _GREY_VOLUME if channels == 1 else _VOLUME
            if channels == _COLOURS:
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
        if ground == _TAKEN:
            self.note = f"input_size={size} was taken"

    def follow(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        """Give the layer with shapes, and the shape behind it."""
        known = self._known.get((id(layer), shape))
        if known is not None:
            return known
        if not len(self._known) & _OFTEN:
            breathe()
        if layer.children:
            result = self._container(layer, shape)
        else:
            entry = self._fitting(layer, shape)
            out = self._leaf(layer, entry)
            self._grew = 3 <= len(out) == len(entry) and (out[-1] > entry[-1] or (self._grew and out[1:] == entry[1:]))
            out = self._bounded(layer, entry, out)
            if min(out, default=1) < 1 or max(out, default=1) > _MOST_DIM:
                out = tuple(min(max(size, 1), _MOST_DIM) for size in out)
            if self._pictures and prod(out) > self._most:
                raise SummaryError(_lost(layer, out))
            if self._pictures and layer.params and len(out) > 1 and not self._beside and "Linear" not in layer.type:
                first = len(out) >= 3 and _by_channels(layer)
                self._places[out[0] if first else out[-1]] = out[1:] if first else out[:-1]
            made = Layer(layer.type, layer.params, out, (), layer.args, layer.name, entry)
            result = made, _cut(layer, entry, out)
        self._known[id(layer), shape] = result
        return result

    def _bounded(self, layer: Layer, entry: Shape, out: Shape) -> Shape:
        """Bound what grows: a network that made the picture smaller makes it as large as it came, not larger."""
        start = self.start
        if not self._pictures or not len(start) == len(entry) == len(out):
            return out
        if not self._shrinks or prod(out[1:]) <= prod(entry[1:]) or not layer.type.startswith(_LARGER):
            return out
        return (out[0], *map(min, out[1:], start[1:]))

    def _container(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        if "PatchMerging" in layer.type and any(child.type == "Linear" for child in layer.children):
            return self._merged(layer, shape)
        if layer.type == "AlbertTransformer":
            layer = _repeated(layer)
        convolves = layer.params > 0 and "Conv" in layer.type and "kernel_size" in dict(layer.args)
        if "Norm" in layer.type or convolves:  # with its activation inside, or its padding
            shape = self._fitting(layer, shape)
        self._open.append(shape)
        ordered = "Sequential" in layer.type or all(child.name.isdecimal() for child in layer.children)
        row = layer.children if layer.type == "Sequential" and layer.children[0].name.isdecimal() else ()
        known: dict[_Sibling, tuple[Layer, Shape]] = {}
        branches: dict[str, Shape] = {}
        picture = shape
        if row:
            made, now = self._in_row(row, shape, known)
        else:
            use = layer.children if ordered else _in_order_of_use(blocks.interleaved(layer.children))
            made, now, picture = self._parts(layer, use, shape, known, branches)
        self._open.pop()
        joins = blocks.joins(layer) or (blocks.beside(layer) and len({end[1:] for end in branches.values()}) == 1)
        if len(branches) > 1 and joins:
            now = (sum(end[0] for end in branches.values()), *now[1:])
        if now[1:] == (1, 1) and any(mark in layer.type for mark in _GATED):
            now = picture
        if convolves:
            now = self._leaf(layer, shape if "Same" in layer.type else now)
        now = self._restored(layer, shape, now)
        return Layer(layer.type, layer.params, now, tuple(made), layer.args, layer.name, shape), now

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
        if _fields(block):
            made = [part._replace(output_shape=(1, _columns(part)), input_shape=(1,)) for part in parts]
            return made, (sum(map(_columns, parts)),), shape
        now = picture = shape
        way: Shape | None = None
        begun = False
        beside = blocks.beside(block)
        made = []
        for part in parts:
            if self._pictures and (steps := _of_time(part)):
                made.append(self._sibling(part, (steps,), known)[0])
                continue
            if part.name.startswith(_ENTRY_STARTS):
                begin = way or shape
                fitted, after = self._sibling(part, begin, known)
                way = after if self._takes(part, begin) else now
                now = _met(now, way) if part is block.children[-1] else now
            else:
                if way is not None:
                    now, way = _met(now, way) if begun else now, None
                begun = True
                fitted, after, now = self._part(block, part, shape, now, known)
            if len(after) > 2 and (end := part.name if beside else blocks.branch(part.name)):
                branches[end] = after
            if len(after) == len(picture) and after[1:] != (1, 1):
                picture = after
            made.append(fitted)
        return made, now, picture

    def _part(
        self, block: Layer, part: Layer, shape: Shape, now: Shape, known: dict[_Sibling, tuple[Layer, Shape]]
    ) -> tuple[Layer, Shape, Shape]:
        """Follow a part of a block; give it with shapes, what it gives out, and what is at hand behind it."""
        besides = self._pools_beside(block, part, shape, now)
        begin = shape if besides else self._begin(block, part, shape, now)
        beside = self._beside
        self._beside = beside or part.name == "fuse_layers"
        fitted, after = self._sibling(part, begin, known)
        self._beside = beside
        if "DlaTree" in block.type and part.name in ("downsample", "project"):
            after = shape  # the trees take what came in
        if blocks.aside(block, part):
            after = now
        return fitted, after, now if besides or _goes_nowhere(part.name) else after

    def _in_row(
        self, row: tuple[Layer, ...], now: Shape, known: dict[_Sibling, tuple[Layer, Shape]]
    ) -> tuple[list[Layer], Shape]:
        """Follow layers that come one after the other and nothing else."""
        made: list[Layer] = []
        if row and row[0].type in _MOVES:
            now = self._moved(row, now)
        for number, layer in enumerate(row):
            if not number & _OFTEN:
                breathe()
            fitted, now = self._sibling(layer, now, known)
            made.append(fitted)
        return made, now

    def _moved(self, row: tuple[Layer, ...], now: Shape) -> Shape:
        """Choose what a row takes that begins by moving axes: what makes it as wide as the layer behind it wants."""
        width = next((width for layer in row[1:] if (width := _first_width(layer))), 0)
        fits = [
            outer
            for outer in (now, *reversed(self._open))
            if width in (made := self._leaf(row[0], outer)) and made != outer
        ]
        return fits[0] if fits else now

    def _sibling(self, layer: Layer, shape: Shape, known: dict[_Sibling, tuple[Layer, Shape]]) -> tuple[Layer, Shape]:
        """Follow a layer as `follow` does; one that equals a sibling but for its number is that.

        Pictures are looked for all over, so that each layer counts there.
        """
        if self._pictures or not layer.name.isdecimal():
            return self.follow(layer, shape)
        key = (layer.type, layer.params, id(layer.args), id(layer.children), shape)
        found = known.get(key)
        if found is None:
            found = known[key] = self.follow(layer, shape)
        return found

    def _begin(self, block: Layer, part: Layer, shape: Shape, now: Shape) -> Shape:
        """Tell what a part of a block takes, which came in as ``shape`` and is ``now`` so far."""
        if part.children and len(now) == _COLOURS and _goes_nowhere(part.name):
            return _PAIRS
        if part.name in _OF_HEADS and "TalkingHead" in block.type:
            tokens = elements(_grid(shape))
            return (tokens, tokens, _input_width(part) or 1)
        if len(shape) == 2 and (experts := blocks.experts(block)):
            return (max(shape[0] * _CHOSEN // experts, 1), shape[1])
        if len(now) > 2 and blocks.gathers(block, part):
            return (_input_width(part) or now[0], *now[1:])
        if blocks.begins(block, part):
            return shape
        return shape if part.name in _ENTRY_NAMES and not self._follows(part, shape, now) else now

    def _takes(self, part: Layer, shape: Shape) -> bool:
        """Tell whether a part takes a picture of this shape, as far as its width tells."""
        first = next((inner for inner in layers(part) if not inner.children and _input_width(inner)), None)
        return first is None or _fits(first, shape, _input_width(first) or 0)

    def _pools_beside(self, block: Layer, part: Layer, shape: Shape, now: Shape) -> bool:
        """Tell whether a pooling takes what came into its block, to be joined with what convolutions made of that."""
        if "Pool" not in part.type or part.children or "Adaptive" in part.type or len(shape) < 3 or len(now) < 3:
            return False
        if block.type in _ROWS or not self._pictures:
            return False
        after = block.children[block.children.index(part) + 1 :]
        widths = [width for child in after if (width := _first_width(child))]
        if now == shape:  # first the pooling, then a convolution of the same picture
            made = next((dict(child.args).get("1", "") for child in after if "Conv" in child.type), "")
            return len(widths) > 1 and made.isdecimal() and widths[:2] == [shape[0], int(made) + shape[0]]
        return widths[:1] in ([now[0] + shape[0]], [now[0] + self.start[0]])

    def _follows(self, part: Layer, shape: Shape, now: Shape) -> bool:
        """Tell whether a part takes what is at hand by its width, and not what came into its block."""
        first = next((inner for inner in layers(part) if not inner.children and _input_width(inner)), None)
        if first is None:  # pooling alone: the picture that the whole network takes is not pooled
            return not part.children and shape == self.start
        width = _input_width(first) or 0
        return _fits(first, now, width) and not _fits(first, shape, width)

    def _merged(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        """Follow a Swin's patch merging: four neighbours become one, with its norm before or behind."""
        space = shape[1:] if len(shape) == 3 and shape[0] > shape[-1] else shape[:-1]
        if len(shape) == _DEEP:  # of a volume all three sides, of a film height and width
            space = _grid(shape)
            width = next((width for child in layer.children if (width := _input_width(child))), 0)
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
        for child in layer.children:
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
            return outputs.pooled(layer.type, dict(layer.args), after)
        if _ATTENDS in layer.type and len(before) > 1 and "Down" not in layer.type:
            if blocks.pools_queries(layer):
                made = next(
                    (dict(part.args).get("out_features", "") for part in layer.children if part.name == "proj"), ""
                )
                width = int(made) if made.isdecimal() and len(made) < _DIGITS else after[-1]
                return (*(max(size // 2, 1) for size in _places(_grid(before))), width)
            last = len(before) == len(after) == 3 and before[0] == before[1]  # of tokens in rows
            if before[-1] == after[-1] or (last and before[-1] == after[0]):
                return before
        if len(before) == 3 and before[0] > 1 == after[0] and any("Conv1d" in part.type for part in layer.children):
            return before  # weights of channels, from a convolution over these
        if len(before) == 3 and after == (before[0], 1, 1) and before[1] > 1 and "Pool" not in layer.type:
            return before
        return after

    def _fitting(self, layer: Layer, shape: Shape) -> Shape:
        """Choose the input: what came before, or what came into an enclosing block, whichever has the right width."""
        key = (layer.type, id(layer.args))
        if key not in self._widths:
            self._widths[key] = _input_width(layer)
        width = self._widths[key]
        if self._pictures and width is not None and _of_a_gate(layer, width):
            return (width, 1, 1)  # behind a mean over the picture, which is no layer
        if width == 3 and "Conv2d" in layer.type and len(shape) != 3:
            return self._looked  # a second tower, which looks
        if width is None or _fits(layer, shape, width):
            return shape
        if self._pictures:
            return self._picture_of(layer, shape, width)
        outers = [
            outer
            for outer in reversed(self._open)
            if len(outer) > 1 or outer != self.start or self.family != "transformer"
        ]
        for outer in outers:
            if _fits(layer, outer, width):
                return outer
        if "Linear" in layer.type:  # on the first axis: each channel by itself
            for outer in (shape, *outers):
                if outer and outer[0] == width:
                    return outer
        if ("Conv" in layer.type or "BatchNorm" in layer.type) and len(shape) > 1:
            return (width, *(shape[:-1] if shape[-1] == width else shape[1:]))
        return shape

    def _picture_of(self, layer: Layer, shape: Shape, width: int) -> Shape:
        """Find the picture of so many channels, and turn its axes as the layer wants them."""
        outers = list(reversed(self._open))
        first = _by_channels(layer)
        before = _grid(shape)
        channels = shape[-1] if before == shape[:-1] else shape[0]
        split = first and len(shape) >= 3 and channels % width == 0 and not self._side_by_side
        turned = shape[-1] == width and before == shape[:-1]
        joined = width == 2 * channels and self._grew and not self._side_by_side  # with what was kept of this size
        if first and len(shape) >= 3 and (turned or joined):
            return (width, *before)
        for at, outer in enumerate(outers):
            # The picture itself has its channels first: a width that is its side is so by chance.
            if _fits(layer, outer, width) and (first or outer != self.start):
                return outer
            if split and at == _BLOCK:
                self.guessed += 1
                return (width, *before)
        for outer in (shape, *outers):
            if len(outer) >= 3 and outer[0] == width and not first:
                return (*outer[1:], width)
            if len(outer) > 1 and outer[-1] == width and first and (len(outer) == 2 or _grid(outer) == outer[:-1]):
                return (width, *_places(outer[:-1]))
            if len(outer) == 2 and outer[0] == width and "Linear" in layer.type:
                return outer  # each channel by itself
            if "Linear" in layer.type and len(outer) == 3 and width in (outer[0] * outer[1], outer[1] * outer[2]):
                return (elements(outer) // width, width)  # the same, of a picture
        if first and (places := self._grown(width, channels, before)):
            return (width, *places)
        return self._guess(layer, shape, width, channels, before)

    def _guess(self, layer: Layer, shape: Shape, width: int, channels: int, before: Shape) -> Shape:
        """Guess the picture that a layer takes where nothing has so many channels."""
        self.guessed += 1
        first = _by_channels(layer)
        beside = self._side_by_side or layer.type.startswith("ConvTranspose")
        if width in self._places and (beside if first else len(shape) > 1):
            places = self._places[width]
            return (width, *_places(places)) if first else (*places, width)
        if len(shape) < 2 or (layer.type.endswith("Linear") and layer.name in _HEADS):
            return shape
        times, rest = divmod(width, channels)
        if not first and not rest and times in _SQUARES and elements(shape) % width == 0:
            return (elements(shape) // width, width)  # a square of neighbours became one
        return (width, *_places(before)) if first else (*before, width)

    def _grown(self, width: int, channels: int, before: Shape) -> Shape:
        """Find the places of what a picture is joined with that code made larger before; empty where there is none.

        So does the second half of a U-Net: the picture at hand, twice as large, beside one of the first half.
        """
        beside = width - channels
        places = self._places.get(beside, ())
        if not self._decodes or len(places) != len(before) or beside > channels - (not self._doubled):
            return ()
        self._doubled |= (fits := all(size == 2 * small for size, small in zip(places, before, strict=True)))
        return places if fits else ()

    def _leaf(self, layer: Layer, shape: Shape) -> Shape:
        args = self._args.get(id(layer.args))
        if args is None:
            args = self._args[id(layer.args)] = dict(layer.args)
        type_ = layer.type
        try:
            if "Embedding" in type_ and "0" in args and "1" in args:
                return shape if "position" in layer.name and len(shape) > 1 else (self._words, sizes.number(args, "1"))
            if type_ == "Conv1D":
                return (*shape[:-1], _conv1d_width(layer, args, shape))
            if "Conv" in type_ and ("kernel_size" in args or "2" in args):
                out = outputs.convolved(type_, args, shape)
                tubes = self._flat_in_time and len(out) == _DEEP and args.get("stride") == args.get("kernel_size")
                return (out[0], out[1] * out[2], out[3]) if tubes else out  # moments side by side
            if "Linear" in type_ and "in_features" in args:
                return self._linear(layer, args, shape)
            if type_ in ("LSTM", "GRU", "RNN"):
                sides = 2 if sizes.flag(args, "bidirectional", default=False) else 1
                return (*shape[:-1], sizes.number(args, "proj_size", "1") * sides)
            if type_ == "Flatten":
                return (elements(shape),)
            if type_ in _MOVES and layer.name.isdecimal():  # else a block's code calls it, who knows where
                return (outputs.unfolded if type_ == "Unfold" else outputs.rearranged)(args, shape)
            if type_.endswith("Norm") and "0" in args and args["0"].startswith("("):
                return self._normed(sizes.numbers(args["0"]), shape)
            return outputs.resized(type_, args, shape)
        except (KeyError, ValueError, IndexError, OverflowError):
            return shape

    def _linear(self, layer: Layer, args: dict[str, str], shape: Shape) -> Shape:
        inputs, outputs = sizes.number(args, "in_features"), sizes.number(args, "out_features")
        if len(shape) >= 3 and shape[-1] != inputs:
            if elements(shape) == inputs or layer.name in _HEADS:
                return (outputs,)
            if shape[0] == inputs:  # each pixel by itself
                return (*shape[1:], outputs)
            if elements(shape[1:]) == inputs:  # each channel by itself
                return (shape[0], outputs)
            return (outputs,) if self.family == "cnn" else (*shape[:-1], outputs)
        if len(shape) == 2 and shape[-1] != inputs == shape[0]:
            return (shape[1], outputs)
        if len(shape) >= 2 and layer.name in _POOLED and not self._tags_tokens():
            return (outputs,)
        if len(shape) == 1 and shape == self.start and self.family == "transformer" and shape[0] != inputs:
            return (shape[0], outputs)
        return (*shape[:-1], outputs)

    def _tags_tokens(self) -> bool:
        return len(self.start) == 2

    def _normed(self, size: Shape, shape: Shape) -> Shape:
        if len(shape) in self._turned and len(size) == 1 and shape[0] == size[0] != shape[-1]:
            return (*shape[1:], size[0])
        if shape[-len(size) :] != size:
            return (*shape[: len(shape) - len(size)], *size)
        return shape


def _takes_pictures(layer: Layer) -> bool:
    channels = dict(layer.args).get("0", "")
    return layer.type == "Conv2d" and channels.isdecimal() and len(channels) <= 2 and int(channels) <= _MOST_COLOURS


def _square(said: Shape, channels: int) -> Shape:
    """Give rows and columns of a picture where the user says them; nothing where he says something else."""
    rest = input_size.sides(said, channels, 2)
    return (rest[0], rest[-1]) if 0 < len(rest) <= 2 else ()


def _rows_and_columns(found: list[Layer], workload: Workload) -> Shape:
    """The same where pictures come first, and are not resized."""
    stem = next((layer for layer in found if "Conv" in layer.type), None)
    if not workload.input_size or stem is None or stem.type != "Conv2d":
        return ()
    return _square(workload.input_size, inputs.number(stem, "0"))


def _line(layer: Layer) -> str:
    """Quote a layer as it is printed."""
    args = ", ".join(value if key.isdecimal() else f"{key}={value}" for key, value in layer.args)
    return f"({layer.name}): {layer.type}({args})"[:_LONGEST_LINE]


def _lost(layer: Layer, shape: Shape) -> str:
    """Say that no layer gives out so much: those before it are connected otherwise than they were followed."""
    return (
        f"'{_line(layer)}' would give out {'x'.join(map(str, shape))} for each sample: a print does not show what goes "
        "into which layer, and it could not be found out: paste what torchinfo prints with depth=20, or torchsummary"
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


def _repeated(layer: Layer) -> Layer:
    """Repeat the only group of layers of an Albert as often as its published sizes do; parameters count once."""
    widths = [width for inner in layers(layer) if (width := _input_width(inner))]
    times = 24 if min(widths, default=0) in (1024, 2048) else 12
    children = tuple(
        child._replace(children=(*child.children, *(_bare(inner) for inner in child.children * (times - 1))))
        if child.type == "ModuleList" and len(child.children) == 1
        else child
        for child in layer.children
    )
    return layer._replace(children=children)


def _bare(layer: Layer) -> Layer:
    return layer._replace(params=0, children=tuple(map(_bare, layer.children)))


@lru_cache(maxsize=4096)  # names come from users: a bounded cache
def _goes_nowhere(name: str) -> bool:
    return name in _OF_HEADS or any(mark in name for mark in _BESIDE)


def _in_order_of_use(children: tuple[Layer, ...]) -> list[Layer]:
    """Put layers where blocks use them, which is not always where they define them.

    An activation goes behind the first of several projections; what makes the keys fewer goes before them; stages whose
    parts are numbered (``patch_embed1``, ``block1``, ..) go one after the other.
    """
    if sum(child.name.startswith(_STAGES) and child.name[-1:].isdecimal() for child in children) > 1:
        children = _by_stages(children)
    if _shrinks_first(children):
        children = (children[-1], *children[:-1])
    if any(child.name.endswith(_PADDING) for child in children):
        children = _padded_first(children)
    if any(child.name in _REDUCTIONS[:3] for child in children):
        fewer = [child for child in children if child.name in _REDUCTIONS]
        fewer.sort(key=lambda child: child.name != "pool")
        rest = [child for child in children if child.name not in _REDUCTIONS]
        at = next((i for i, child in enumerate(rest) if child.name in ("kv", "k", "key")), len(rest))
        return [*rest[:at], *fewer, *rest[at:]]
    linear = [index for index, child in enumerate(children) if child.type in ("Linear", "Conv1D")]
    order = sorted(children, key=lambda child: child.name == "lm_head")
    children = tuple(order)
    if len(linear) < 2:
        return order
    for index, child in enumerate(children):
        if not child.children and _is_activation(child) and not linear[0] < index < linear[-1]:
            order.remove(child)
            order.insert(order.index(children[linear[0]]) + 1, child)
            break
    return order


def _padded_first(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put padding that is named after the convolution behind which it is listed before that."""
    order = list(children)
    for at, child in enumerate(children[1:], 1):
        if child.name.endswith(_PADDING) and children[at - 1].name == child.name.removesuffix(_PADDING):
            order[at - 1], order[at] = child, children[at - 1]
    return tuple(order)


def _shrinks_first(children: tuple[Layer, ...]) -> bool:
    """Tell whether what makes a stage's picture smaller is listed behind the blocks that take what it gives out."""
    last = children[-1]
    if len(children) != 2 or last.name != "downsample" or not children[0].children:
        return False
    blocks_take = next((width for inner in layers(children[0]) if (width := _input_width(inner))), None)
    makes = next((dict(inner.args).get("1") for inner in layers(last) if "Conv2d" in inner.type), None)
    return blocks_take is not None and str(blocks_take) == makes


def _by_stages(children: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Order parts with a number at the end of their names by that number."""
    numbered = [child for child in children if child.name[-1:].isdecimal()]
    places = iter(sorted(numbered, key=lambda child: child.name[-1]))
    return tuple(next(places) if child.name[-1:].isdecimal() else child for child in children)


def _is_activation(layer: Layer) -> bool:
    return not layer.params and any(mark in layer.type for mark in _ACTIVATIONS)


def _input_width(layer: Layer) -> int | None:
    """Read the features or channels that a layer needs at its input."""
    args = dict(layer.args)
    try:
        if layer.type == "Conv1D":
            return sizes.number(args, "nx")
        if "Linear" in layer.type:
            return sizes.number(args, "in_features")
        if "Conv" in layer.type or "BatchNorm" in layer.type or "InstanceNorm" in layer.type:
            return sizes.number(args, "0")
        if layer.type == "GroupNorm":
            return sizes.number(args, "1")
        if "LayerNorm" in layer.type:
            return sizes.numbers(args["0"])[-1]
    except (KeyError, ValueError, IndexError):
        return None
    return None


def _of_time(part: Layer) -> int:
    """Read the features of the time step that a part of a denoiser takes, whose pictures go past it; 0 for others."""
    if not part.name.startswith(_TIME):
        return 0
    first = next((inner for inner in layers(part) if not inner.children and _input_width(inner)), None)
    return (_input_width(first) or 0) if first is not None and first.type == "Linear" else 0


def _fields(block: Layer) -> int:
    """Count the fields that are looked up each in a table of its own; 0 where a block is no list of such tables."""
    parts = block.children
    alike = block.type == "ModuleDict" and len(parts) > 1 and all(part.type == "Embedding" for part in parts)
    return len(parts) if alike else 0


def _columns(table: Layer) -> int:
    """Read how wide a table of features is; 1 where it does not say."""
    return max(_number_or(dict(table.args), "1"), 1)


def _number_or(args: dict[str, str], name: str) -> int:
    try:
        return min(sizes.number(args, name), _MOST_DIM)
    except (KeyError, ValueError):
        return 0


def _met(now: Shape, way: Shape) -> Shape:
    """Tell what a block gives out whose layers end ``now``, and the way around it ``way``.

    Both are added or joined, so that their places are the same. Where they are not, the way around is right: it is
    shorter. Of channels the fewer are filled up, or those of several layers that were joined.
    """
    return way if way[1:] != now[1:] else max(now, way)


def _first_width(layer: Layer) -> int:
    """Read what the first layer of known width takes; 0 where there is none."""
    return next((width for inner in layers(layer) if (width := _input_width(inner))), 0)


def _shrinks(layer: Layer) -> bool:
    """Tell whether a layer makes pictures smaller."""
    if "Pool" in layer.type:
        return "Adaptive" not in layer.type and "Unpool" not in layer.type
    args = dict(layer.args) if "Conv" in layer.type and "Transpose" not in layer.type else {}
    return any(step not in ("", "1") for step in args.get("stride", "").strip("()[] ").replace(" ", "").split(","))


def _of_a_gate(layer: Layer, width: int) -> bool:
    """Tell whether a convolution works on one pixel a channel, as those of squeeze and excitation do."""
    args = dict(layer.args)
    if "Conv2d" not in layer.type or args.get("kernel_size") != "(1, 1)":
        return False
    outputs = args.get("1", "")
    more = outputs.isdecimal() and len(outputs) < 9 and int(outputs) > width
    return layer.name in _POOLED_CONVS or layer.name == ("fc2" if more else "fc1")


def _by_channels(layer: Layer) -> bool:
    """Tell whether a layer takes channels on the first axis."""
    return any(mark in layer.type for mark in _BY_CHANNELS)


def _grid(shape: Shape) -> Shape:
    """Give the places of a picture or film, whichever axis its channels are on."""
    if len(shape) in (3, _DEEP) and (shape[-2] == shape[-1] or shape[-3] != shape[-2]):
        return shape[1:]
    return shape[:-1]


def _places(places: Shape) -> Shape:
    """Give height and width of so many places; a class token is left out."""
    if len(places) != 1:
        return places
    side = isqrt(places[0])
    return (side, side) if places[0] - side * side < 2 else places


def _fits(layer: Layer, shape: Shape, width: int) -> bool:
    if "BatchNorm1d" in layer.type and len(shape) == 2:
        return width in shape
    if ("Conv" in layer.type and layer.type != "Conv1D") or "BatchNorm" in layer.type or "InstanceNorm" in layer.type:
        return bool(shape) and shape[0] == width
    if "Norm" in layer.type:
        return bool(shape) and width in (shape[0], shape[-1])
    return bool(shape) and (shape[-1] == width or elements(shape) == width)


def _conv1d_width(layer: Layer, args: dict[str, str], shape: Shape) -> int:
    if "nf" in args:
        return sizes.number(args, "nf")
    # params = inputs x outputs + outputs; behind a joined projection of queries, keys and values a third goes in.
    for width in (shape[-1], shape[-1] // 3, shape[-1] * 4, shape[-1] * 3, shape[-1] * 2):
        outputs, rest = divmod(layer.params, width + 1)
        if rest == 0 and outputs:
            return outputs
    return shape[-1]
