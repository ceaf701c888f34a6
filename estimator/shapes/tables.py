"""What tables leave out of shapes, or write in their place: windows, outputs, the batch. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from math import prod
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.layer import OPEN, Layer
from estimator.types import ModelSummary, SummaryError
from estimator.walk import elements, layers

Shape = tuple[int, ...]
# What the first convolution gives out of one sample, and how many axes a picture or series has in it; nothing and 0
# where there is none.
_Convolved = tuple[Shape, int]

# In the names of attentions.
ATTENDS: Final = "Att"
# What gathers the messages of neighbours.
GATHERS: Final = "Aggregation"

# Edges for each node of a graph, which no summary shows.
EDGES: Final = 8

_WITHOUT_NODES: Final = {"torchsummary": "torchsummary", "module": "a print"}
_LEAST_WINDOWS: Final = 4
_LONGEST_LINE: Final = 160
# How types of graph networks' convolutions end.
_ON_GRAPHS: Final = "Conv"
_TWO: Final = 2
_OF_SERIES: Final = 2  # axes
# Models that give out one row of all samples' tokens.
_SIDE_BY_SIDE: Final = ("PixtralVisionModel",)
_FEWEST_NODES: Final = 2
# Heads or towers that a convolution of graphs has at most.
_MOST_HEADS: Final = 16
_FEWEST_SAMPLES: Final = 2
# Places that a convolution's kernel mostly has.
_KERNELS: Final[tuple[int, ...]] = (1, 9, 3, 25, 5, 49, 7, 27)
# Types of layers that give out as much as they take.
_KEEP: Final[tuple[str, ...]] = ("Dropout", "ReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softmax")
# Layers behind a table of words among which one takes what it gives out.
_NEAR: Final = 16
# Pictures that are cut into patches before they come to a model have at least so many.
_FEWEST_PATCHES: Final = 16
# Axes of what convolutions give out of one sample.
_AXES: Final = {"Conv1d": 2, "Conv2d": 3, "Conv3d": 4}


def with_length(summary: ModelSummary, length: int | None) -> ModelSummary:
    """Put the length of series where a table of Keras leaves it open.

    Raises:
        SummaryError: nothing says how long they are.
    """
    if summary.format != "keras" or not any(OPEN in (row.output_shape or ()) for row in summary.root.children):
        return summary
    if length is None:
        raise SummaryError(
            "the table leaves open how long its series are: say `seq_len=N`, or build the model for one length, as "
            "with `Input(shape=(512,))`, and print it"
        )
    rows = []
    for number, row in enumerate(summary.root.children):
        if not number & OFTEN:
            breathe()
        shape = row.output_shape
        rows.append(row.but(output_shape=tuple([size or length for size in shape])) if shape else row)
    return replace(summary, root=summary.root.but(children=tuple(rows)))


def windows(rows: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Put back how many windows a sample has.

    torchsummary writes the batch for the first dimension, whatever it is: attention in windows of 49 of 3136 tokens
    looks like 49 tokens. Where a product takes in every feature of fewer tokens than came before, the rest are windows,
    until the attention ends.
    """
    made: list[Layer] = []
    before: Shape = ()
    windows = 1
    for number, row in enumerate(rows):
        if not number & OFTEN:
            breathe()
        shape = row.output_shape
        if shape is None:
            made.append(row)
            continue
        beside = bool(made) and made[-1].type == "Linear"  # keys of an attention may be fewer than queries
        if windows == 1 and row.type == "Linear" and len(shape) == 2 and len(before) > 1 and not beside:
            windows = _fewer_tokens(row, shape, before)
        if windows > 1:
            if "Conv" in row.type or elements(shape) * _LEAST_WINDOWS > elements(before):
                windows = 1  # the whole again
            else:
                row = row.but(output_shape=(windows, *shape))  # noqa: PLW2901
        if ATTENDS in row.type:
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


def from_inputs(root: Layer) -> Layer:
    """Take the input of the next layer for an output that is not shown (torchinfo without that column).

    Where that cannot be it, as behind a head, the parameters tell.
    """
    after = root.output_shape
    later: list[tuple[int, ...]] = []

    def filled(layer: Layer) -> Layer:
        nonlocal after
        breathe()
        children = [filled(child) for child in reversed(layer.children)]
        shape = layer.output_shape or (None if layer.children else _given(layer, after, later))
        after = layer.input_shape or after
        if layer.input_shape and later[-1:] != [layer.input_shape]:
            later.append(layer.input_shape)
        return layer.but(output_shape=shape, children=tuple(reversed(children)))

    return filled(root)


def _given(layer: Layer, after: Shape | None, later: Sequence[Shape]) -> Shape | None:
    """Tell what a layer gives out by its input, the input of the layer behind it, and its parameters.

    Args:
        layer: one that shows its input at most.
        after: input of the next layer; None behind the last.
        later: inputs of all layers behind it, the next one last.
    """
    into = layer.input_shape
    if into and (layer.type.endswith(_KEEP) or "Norm" in layer.type):
        return into
    if not into or not layer.params:
        return after or into
    if layer.type.endswith("Linear"):
        made = _widths(layer.params, into[-1])
        return after if not made or (after and after[-1] in made) else (*into[:-1], made[0])
    if "Conv" in layer.type and len(after or ()) < _TWO:
        made = [width for places in _KERNELS for width in _widths(layer.params, into[0] * places)]
        if not after:
            return (made[0], *into[1:]) if made else into
        return (*after, *into[1:]) if after[0] in made else after  # of which the mean goes on
    if layer.type == "Embedding":
        near = reversed(later[-_NEAR:])
        return next((shape for shape in near if shape[:-1] == into and not layer.params % (shape[-1] or 1)), after)
    if layer.type in ("LSTM", "GRU", "RNN") and len(into) > 1 and after and len(after) == 1:
        return (*into[:-1], *after)  # of which only the last step goes on
    return after or into


def _widths(params: int, taken: int) -> list[int]:
    """Tell how many features a product may give out that has so many parameters, with a bias or without one."""
    return [params // each for each in (taken + 1, taken) if each and params % each == 0]


def sequence_first(summary: ModelSummary, seq_len: int) -> ModelSummary:
    """Undo a reading that took the sequence for the batch, as in XLNet, which works on (sequence, batch, width)."""
    printed = next(
        (layer.output_shape[0] for layer in layers(summary.root) if layer.output_shape and len(layer.output_shape) > 1),
        None,
    )

    def turned(layer: Layer) -> Layer:
        breathe()
        shape = layer.output_shape
        if shape and len(shape) > 1 and shape[0] == printed:
            shape = (seq_len, *shape[1:])
        return layer.but(output_shape=shape, children=tuple(turned(child) for child in layer.children))

    return replace(
        summary,
        root=turned(summary.root),
        batch_size=printed,
        inferred=(*summary.inferred, "the first dimension was taken for the sequence, the second for the batch"),
    )


def batch_found(summary: ModelSummary, found: list[Layer], batch_size: int) -> ModelSummary:
    """Find the job's batch in a table whose first dimensions do not say which of them it is.

    Code may put all tokens of a batch into one row: then the model gives out one, and the first layer still has as many
    as the job. Or each sample is several pictures in all rows but the model's own. Or a sound is cut into pieces for
    the convolutions, and all tokens that are made of them stand in one row. Or pictures come in patches.
    """
    printed, own = summary.batch_size or 0, summary.root.output_shape or ()
    convolved = _convolved(found)
    patches = _patches(found, convolved)
    if patches:
        return _of_patches(summary, patches, batch_size)
    if printed == 1 and (samples := _in_one_row(summary, convolved, batch_size)):
        return rebatched(
            summary,
            samples,
            lambda shape: (
                shape[1:] if shape[0] == samples else shape if shape[0] % samples else (shape[0] // samples, *shape[1:])
            ),
        )
    times, rest = divmod(printed, batch_size)
    if batch_size < _FEWEST_SAMPLES or not own:
        return summary
    if len(own) < _FEWEST_SAMPLES:
        pieces = _pieces(convolved) if times > 1 and not rest else 0
        if not batch_size < pieces < printed or pieces % batch_size:
            return summary
        cut = pieces // batch_size  # of each sample, before all that was made of them stands in one row
        return rebatched(
            summary, batch_size, lambda shape: (cut, *shape[1:]) if shape[0] == pieces else (times, *shape)
        )
    if summary.apart and times > 1 and not rest and own[0] == batch_size and summary.root.children:
        ordered = times, batch_size  # in order of a sequence
        return rebatched(summary, batch_size, lambda shape: (times, *(shape[2:] if shape[:2] == ordered else shape)))
    return summary


def _in_one_row(summary: ModelSummary, convolved: _Convolved, batch_size: int) -> int:
    """Tell how many samples stand side by side behind a first axis of one: the job's, or those of a model known for it.

    Patches that were cut out, tiles, or pictures of a film may be as many as the job's samples by chance.

    Returns:
        0 where it is one sample.
    """
    own, pieces, places = summary.root.output_shape or (), _pieces(convolved), _places(convolved)
    samples = pieces if summary.root.type in _SIDE_BY_SIDE else batch_size
    if samples < _FEWEST_SAMPLES or len(own) < _TWO or pieces != samples or not places:
        return 0
    return samples if own[0] == (samples if convolved[1] == _OF_SERIES else samples * places) else 0


def _convolved(found: list[Layer]) -> _Convolved:
    """Find the first convolution that shows what it gives out."""
    for number, layer in enumerate(found[1:]):
        if not number & OFTEN:
            breathe()
        if layer.output_shape and "Conv" in layer.type:
            axes = next((axes for mark, axes in _AXES.items() if mark in layer.type), 0)
            if axes:
                return layer.output_shape, axes
    return (), 0


def _pieces(convolved: _Convolved) -> int:
    """Tell how many pictures or series the first convolution takes, where the table's batch is not that; else 0."""
    shape, axes = convolved
    return shape[0] if len(shape) > axes else 0


def _places(convolved: _Convolved) -> int:
    """Tell how many places the first convolution gives out of each; 0 where it is one, of patches that were cut out."""
    shape, axes = convolved
    places = prod(shape[1 - axes :])
    return places if places > 1 else 0


def _patches(found: list[Layer], convolved: _Convolved) -> int:
    """Tell how many patches stand in rows for each that the model gives out; 0 where its pictures are not cut so.

    Each patch goes through a convolution by itself, and attention works on all of them in one row.
    """
    shape, axes = convolved
    if axes <= _TWO or _places(convolved) or len(shape) > axes + 1 or len(found[0].output_shape or ()) != 1:
        return 0
    each = shape[:-axes]
    for number, layer in enumerate(found):
        if not number & OFTEN:
            breathe()
        if ATTENDS in layer.type and layer.output_shape:
            return prod(each) if layer.output_shape[:-1] == each else 0
    return 0


def _of_patches(summary: ModelSummary, patches: int, batch_size: int) -> ModelSummary:
    """Divide the patches of all pictures, for which a table has one dimension, among those of the job's batch.

    Where they are too few for that, the table is of one picture.
    """
    given = summary.batch_size or 0
    samples = batch_size if not given % batch_size and given * patches >= batch_size * _FEWEST_PATCHES else 1

    def of_one(shape: Shape) -> Shape:
        if patches > 1 and shape[0] == patches:
            return (given * patches // samples, *shape[1:])
        return (given // samples, *shape)

    said = f"the table is of patches; it is taken to be of {samples} samples of {given * patches // samples} each"
    return replace(
        summary, root=_reshaped(summary.root, of_one), batch_size=samples, inferred=(*summary.inferred, said)
    )


def _reshaped(layer: Layer, one: Callable[[Shape], Shape]) -> Layer:
    """Give a layer, and all inside of it, with other shapes of one sample."""
    breathe()
    output, before = (None if shape is None else one(shape) for shape in (layer.output_shape, layer.input_shape))
    children = tuple([_reshaped(child, one) for child in layer.children])
    return layer.but(output_shape=output, input_shape=before, children=children)


def rebatched(summary: ModelSummary, batch_size: int, one: Callable[[Shape], Shape]) -> ModelSummary:
    """Give a table with another batch, and shapes of one sample of it; the model's own begins with it."""
    root, said = summary.root, f"the table is taken to be of {batch_size} samples"
    own = root.output_shape or ()
    shape = own[1:] if own[0] == batch_size else one(own)
    children = tuple([_reshaped(child, lambda of: of and one(of)) for child in root.children])
    root = root.but(output_shape=shape, children=children, input_shape=root.input_shape and one(root.input_shape))
    return replace(summary, root=root, batch_size=batch_size, inferred=(*summary.inferred, said))


def hidden_graphs(summary: ModelSummary, found: list[Layer], types: Set[str]) -> bool:
    """Tell whether a summary that hides what gathers messages is of a graph network.

    Of a table, convolutions know no places; in a print they show no kernel.
    """
    if summary.format not in ("torchinfo", "module") or not any(type_.endswith(_ON_GRAPHS) for type_ in types):
        return False
    breathe()
    if summary.format == "module":
        return any(map(_on_graph, found))
    shapes = [layer.output_shape or () for layer in found]
    return all(len(shape) < _TWO or shape[0] == 1 for shape in shapes)


def _on_graph(layer: Layer) -> bool:
    """Tell whether a print's layer is a convolution that has no kernel, as those of graphs are: ``GCNConv(7, 64)``."""
    return layer.type.endswith(_ON_GRAPHS) and not layer.children and bool(layer.args) and not layer.said("kernel_size")


def nodes_of(summary: ModelSummary, found: list[Layer], batch_size: int) -> ModelSummary:
    """Divide the nodes of a graph network, for which its table has one dimension, among the graphs of a batch.

    Raises:
        SummaryError: torchsummary leaves that dimension out, and a print shows none.
    """
    if summary.format in _WITHOUT_NODES:
        gathers = next(layer for layer in found if layer.type.endswith(GATHERS) or _on_graph(layer))
        raise SummaryError(
            f"'{gathers.type[:_LONGEST_LINE]}' works on nodes, and {_WITHOUT_NODES[summary.format]} does not show how "
            "many a graph has: paste what torchinfo prints for the job's batch"
        )
    nodes = -(-(summary.batch_size or 0) // max(batch_size, 1))  # on average, and no less
    if nodes < _FEWEST_NODES:
        return summary

    def of_one(shape: Shape) -> Shape:
        if len(shape) == _TWO and shape[0] > _MOST_HEADS:  # edges, or some of the nodes: rows of the whole batch
            return (-(-shape[0] // batch_size), shape[1])
        return (nodes, *shape)

    said = f"the table is of nodes; it is taken to be of {batch_size} graphs of {nodes} nodes with {EDGES} edges each"
    return replace(
        summary, root=_reshaped(summary.root, of_one), batch_size=batch_size, inferred=(*summary.inferred, said)
    )
