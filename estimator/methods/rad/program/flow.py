"""What has been read of a model so far: its tensors, its steps, and which tensor is at hand."""

from __future__ import annotations

from typing import Final

from estimator.adapters import DROPS, NORMS, RANK, TRAINABLE
from estimator.layer import Layer
from estimator.methods.rad.kinds import SAVES_RESULT, Kind
from estimator.methods.rad.program.steps import Adapter, Conv, Op, Scores, Shape
from estimator.methods.rad.program.weights import Solvable
from estimator.packed import BITS
from estimator.walk import elements

# Tensors among which the input of a layer is looked for.
BACK: Final = 14
_CONV: Final = Kind.CONV
_KEEPS_OUTPUT: Final = Kind.KEEPS_OUTPUT
_KEEPS_INPUT: Final = Kind.KEEPS_INPUT


class Attention:
    """What is known of the attention that is being read.

    Attributes:
        type: its class.
        entry: the tensor that came in.
        projections: queries, keys and values, or one tensor of all.
        matrix: elements of its matrix of weights, where a layer shows it.
        before: elements of the matrices of heads that are blocks, read so far.
        multiplies: whether its print shows a softmax and no projections: it does nothing but make its matrix.
        dropped: whether a layer drops some of these.
        done: whether its products are steps already.
        single: whether one layer makes queries, keys and values.
        head_width: features of one head, where a norm of queries or keys shows it; 0 else.
        own: parameters that it owns beside its layers.
    """

    def __init__(self, type_: str, entry: int, own: int) -> None:
        self.type = type_
        self.entry = entry
        self.projections: list[int] = []
        self.matrix = 0
        self.before = 0
        self.multiplies = False
        self.dropped = False
        self.done = False
        self.single = False
        self.head_width = 0
        self.own = own


class Looked:
    """How far the tensors have been looked through for one that some kernels take.

    Attributes:
        axes: that it must have, channels included.
        until: tensors before this one have been.
        last: the last of these whose channels they take; -1 for none.
    """

    __slots__ = ("axes", "last", "until")

    def __init__(self, axes: int) -> None:
        self.axes = axes
        self.until = 0
        self.last = -1


class Flow:
    """The tensors and steps so far, and what is at hand.

    Attributes:
        flat: whether the summary shows no tree.
        owned: whether its blocks begin with its name, as those of transformers, whose attention is known.
        drops: whether layers of dropout drop where they do not say their share.
        cosine: whether attention compares queries and keys by their angle.
        words: whether the model reads words.
        unsaid: whether no layer is called an attention.
        above: how many more levels of blocks the table shows below the layer that is read; 0 where that is not known.
        bare: whether no layer is an activation: functions are.
        pools: whether pictures are pooled by a function before the first linear layer, and so between convolutions.
        ordered: whether the summary shows layers in the order of their use.
        alone: norms of groups in blocks of a print that list no activation.
        bends: whether these functions keep what they take, as GELU does.
        leaks: whether they keep that and what they give out, before a convolution.
        tensors: elements of each tensor, for one sample.
        shapes: of each tensor.
        ops: the steps.
        skips: by step, elements that wait meanwhile.
        kept: tensors that are kept although no single step says so.
        joined: tensors that code joined for a convolution: no layer gave them out.
        asked: tensors that code made for a convolution, of what nobody knows.
        normed: what a norm of groups gave out, which a function activates before a kernel takes it; 0 for none.
        hidden: parameters of layers whose insides are not shown.
        cached: by step, elements of its keys and values that are needed for the next token.
        encoders: how many blocks are open whose keys and values are not.
        encoder: stands for a block that is one although its type does not say so; 0 for none.
        current: the tensor at hand.
        by_activation: whether an activation gave it out.
        activated: tensors before or behind an activation.
        gate: the first factor of a gated product whose other factor is awaited; -1 for none.
        attention: the one that is being read.
        blocks: what came into the blocks that are open; 0 for one that counts already.
        waiting: elements of these.
        mark: where the last block of a table without a tree ended; 0 for nowhere.
        lists: how many lists of layers lie below the depth of the table, and show no numbers of their own.
        opens: whether these are what keeps what the visible layers do not explain.
        far: whether a step was found by what lies further back than the last tensors.
        weighs: whether an attention of PyTorch's own may give out its weights, and so keeps their matrix.
        weighed: whether these are taken to do so.
        fuses: how many blocks are open that are known to ask for no weights.
        rows: how wide what linear layers gave out was, where it was one row for a sample.
        looked: by kernels, where they were looked for without groups, and with several.
        marks: by layer, whether it works in place, whether it is not trained, the adapter beside it, and its bits.
    """

    __slots__ = (
        "above",
        "activated",
        "alone",
        "asked",
        "attention",
        "bare",
        "bends",
        "blocks",
        "by_activation",
        "cached",
        "cosine",
        "current",
        "drops",
        "encoder",
        "encoders",
        "far",
        "flat",
        "fuses",
        "gate",
        "hidden",
        "joined",
        "kept",
        "leaks",
        "lists",
        "looked",
        "mark",
        "marks",
        "normed",
        "opens",
        "ops",
        "ordered",
        "owned",
        "pools",
        "rows",
        "shapes",
        "skips",
        "tensors",
        "unsaid",
        "waiting",
        "weighed",
        "weighs",
        "words",
    )

    def __init__(self, flat: bool, drops: bool) -> None:
        self.flat = flat
        self.owned = False
        self.drops = drops
        self.cosine = False
        self.words = False
        self.unsaid = False
        self.above = 0
        self.bare = False
        self.pools = False
        self.ordered = False
        self.alone: set[int] = set()
        self.bends = False
        self.leaks = False
        self.tensors: list[int] = []
        self.shapes: list[Shape] = []
        self.ops: list[Op] = []
        self.skips: dict[int, int] = {}
        self.kept: set[int] = set()
        self.joined: set[int] = set()
        self.asked: set[int] = set()
        self.normed = 0
        self.hidden = 0
        self.cached: dict[int, int] = {}
        self.encoders = 0
        self.encoder = 0
        self.current = 0
        self.by_activation = False
        self.activated: set[int] = set()
        self.gate = -1
        self.attention: Attention | None = None
        self.blocks: list[int] = []
        self.waiting = 0
        self.mark = 0
        self.lists = 0
        self.opens = False
        self.far = False
        self.weighs = False
        self.weighed = False
        self.fuses = 0
        self.rows: set[int] = set()
        self.looked: dict[Solvable, tuple[Looked, Looked]] = {}
        self.marks: dict[int, tuple[bool, bool, Adapter | None, int]] = {}

    def elements(self, shape: Shape | None) -> int:
        """Count the elements of a shape, which mostly is that of the tensor at hand; 0 for None."""
        if self.shapes[self.current] is shape:
            return self.tensors[self.current]
        return elements(shape)

    def tensor(self, shape: Shape) -> int:
        """Add a tensor."""
        shapes, tensors = self.shapes, self.tensors
        tensors.append(tensors[-1] if shapes and shapes[-1] is shape else elements(shape))
        shapes.append(shape)
        return len(shapes) - 1

    def emit(
        self,
        kind: Kind,
        x: int,
        shape: Shape,
        layer: Layer | None,
        conv: Conv | None = None,
        extra: int = 0,
        matrix: int = 0,
        scores: Scores = Scores.PLAIN,
    ) -> None:
        """Add a step behind which what it gives out is at hand.

        Args:
            kind: what it keeps.
            x: the tensor that goes in.
            shape: what comes out.
            layer: that does it; None for what code does.
            conv: sizes of a convolution.
            extra: elements kept beside input and output.
            matrix: elements of an attention's matrix.
            scores: how that is made.
        """
        params, inplace, frozen = 0, False, False
        adapter: Adapter | None = None
        bits = 0
        if layer is not None:
            params = layer.params
            if layer.args:
                marks = self.marks.get(id(layer))
                if marks is None:
                    frozen = layer.said(TRAINABLE) == "False"
                    beside, packed = (_adapter(layer), int(layer.said(BITS) or 0)) if frozen else (None, 0)
                    marks = layer.said("inplace") == "True", frozen, beside, packed
                    self.marks[id(layer)] = marks
                inplace, frozen, adapter, bits = marks
        if inplace and kind is _KEEPS_INPUT and layer is not None and layer.type in SAVES_RESULT:
            kind = _KEEPS_OUTPUT
        if inplace and kind is _KEEPS_OUTPUT:
            y = x
        else:  # as `tensor` does, but for a call
            shapes, tensors = self.shapes, self.tensors
            y = len(shapes)
            tensors.append(tensors[-1] if shapes[-1] is shape else elements(shape))
            shapes.append(shape)
        waiting = self.waiting
        if waiting and x in self.blocks:
            waiting -= self.tensors[x] if x else 0
        elif self.flat and self.mark and self.mark != x:  # a table shows where blocks end only
            waiting = self.tensors[self.mark]
        if waiting:
            self.skips[len(self.ops)] = waiting
        self.ops.append(Op(kind, x, y, params, conv, extra, matrix, inplace, frozen, scores, adapter, bits))
        self.current = y

    def behind(self, shape: Shape) -> None:
        """Go on with what a block gives out; where that is nothing seen so far, it was made in its own code."""
        if self.elements(shape) != self.tensors[self.current]:
            found = self.search(shape)
            # A gate of one pixel a channel was multiplied with the picture before it.
            if found >= 0 and self.tensors[self.current] * 4 <= self.tensors[found]:
                self.kept.add(found)
            self.current = self.tensor(shape)

    def search(self, shape: Shape) -> int:
        """Find the last tensor of this shape."""
        for index in range(len(self.shapes) - 1, max(len(self.shapes) - BACK, 0) - 1, -1):
            if self.shapes[index] == shape:
                return index
        return -1

    def join(self, shape: Shape) -> int:
        """Add a tensor that code makes; note where it is of what is at hand and more of the same places."""
        current = self.shapes[self.current]
        if current and shape[1:] == current[1:] and shape[0] > current[0]:
            self.joined.add(len(self.shapes))
        return self.tensor(shape)

    def left(self, index: int) -> bool:
        """Tell whether a tensor was joined before what came into the block at hand, which takes it no more."""
        if index not in self.joined:
            return False
        return index < next((entry for entry in reversed(self.blocks) if entry), 0)

    def same(self, shape: Shape) -> int:
        """Find the input of a layer that keeps the shape; what is not there was made in the block's own code."""
        if self.tensors[self.current] == self.elements(shape):
            return self.current
        found = self.search(shape)
        return found if found >= 0 and found not in self.activated else self.tensor(shape)

    def keep_branches(self, width: int) -> None:
        """Keep what kernels of several sizes made of one tensor whose channels, joined, are a vector of this width.

        Functions activated each and took the largest of all places, as networks that look at words do.
        """
        if not self.ops or self.ops[-1].kind is not _CONV:
            return
        found: list[int] = []
        areas: set[int] = set()
        channels, entry = 0, -1
        for op in reversed(self.ops[-BACK:]):
            area = op.params if op.conv is None else op.conv.area
            if op.kind is not _CONV or area in areas or entry not in (-1, op.x):
                break
            entry = op.x
            areas.add(area)
            shape = self.shapes[op.y]
            channels += shape[0]
            found.append(op.y)
            if channels >= width:
                break
        if channels == width and len(found) > 1:
            self.far = True
            self.kept.update(found)

    def pool(self, shape: Shape) -> int:
        """Add the pooling that a function does behind a convolution, and its activation."""
        x = self.current
        self.emit(Kind.MAX_POOL, x, shape, None)
        return self.current


def _adapter(layer: Layer) -> Adapter | None:
    """Read what LoRA put beside a layer; None for nothing."""
    rank = layer.said(RANK)
    return Adapter(int(rank), layer.said(DROPS) == "True", layer.said(NORMS) == "True") if rank else None
