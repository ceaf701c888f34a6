"""A program: the tensors that a forward pass makes, its steps, and what is known of the whole. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind
from estimator.types import Family, Libraries

Shape = tuple[int, ...]

# Axes of a picture, and of a film or volume, channels included.
PICTURE: Final = 3
DEEP: Final = 4

End = tuple[Layer, int, int, int]
"""A layer, how many steps there are before it and when it is done, elements of the larger of its input and output."""


Three = tuple[int, int, int]
"""Depth, height and width."""


def three(extents: Sequence[int]) -> Three:
    """Give depth, height and width; 1 for axes that are not there."""
    depth, height, width = (1,) * (3 - len(extents)) + tuple(extents)
    return depth, height, width


class Extents(NamedTuple):
    """What else decides about a convolution's workspace; a summary does not tell it.

    Attributes:
        kernel: extents of the kernel; 1 along axes that it has not.
        sides: extents of the input; a series has a width alone, a picture no depth.
        dilation: between two elements of the kernel.
        padded: whether the input is padded.
        last: whether the channels lie together, ``torch.channels_last``.
    """

    kernel: Three
    sides: Three
    dilation: int
    padded: bool
    last: bool


class Conv(NamedTuple):
    """Sizes of a convolution that decide about its workspace; one sample.

    Attributes:
        channels_in: channels of the input.
        channels_out: channels of the output.
        area: elements of the kernel (9 for 3x3).
        stride: step along one side.
        groups: groups of channels.
        size_in: elements of one channel at the input.
        size_out: elements of one channel at the output.
        transposed: whether it is a transposed convolution.
        extents: None where they are not known.
    """

    channels_in: int
    channels_out: int
    area: int
    stride: int
    groups: int
    size_in: int
    size_out: int
    transposed: bool = False
    extents: Extents | None = None


class Scores(IntEnum):
    """How an attention multiplies, which decides about the copies of its matrix that are kept."""

    PLAIN = 0
    """One by one, without dropout: what softmax gives out."""
    DROPPED = 1
    """One by one, with dropout: before it, behind it, and its mask."""
    BIAS = 2
    """Fused, with a learned number for each pair of tokens."""
    SHARED_KEYS = 3
    """Fused, with fewer keys than queries: in fp32 no fused kernel takes that, and the matrix is kept."""


class Adapter(NamedTuple):
    """What LoRA or DoRA put beside a layer.

    Attributes:
        rank: width between its two matrices; 0 where it is not known.
        drops: whether dropout comes first.
        norms: whether it is DoRA, which scales both products.
    """

    rank: int
    drops: bool
    norms: bool


class Op:
    """One step of the forward pass.

    No named tuple: there are hundreds, each is asked many times, and this the compiled build makes ten times faster.

    Attributes:
        kind: what it keeps.
        x: index of the tensor that goes in.
        y: index of the tensor that comes out.
        params: parameters that it owns.
        conv: sizes of a convolution, else None.
        extra: elements kept beside input and output: queries, keys and values of an attention, gates.
        matrix: elements of an attention's matrix of weights, 0 where it is never stored.
        inplace: whether the output takes the input's place.
        frozen: whether its parameters are not trained.
        scores: how the attention's matrix is made.
        adapter: what is trained beside its own parameters, or None.
        bits: into how many each of its weights is packed; 0 where they are not.
    """

    __slots__ = (
        "adapter",
        "bits",
        "conv",
        "extra",
        "frozen",
        "inplace",
        "kind",
        "matrix",
        "params",
        "scores",
        "x",
        "y",
    )

    def __init__(
        self,
        kind: Kind,
        x: int,
        y: int,
        params: int = 0,
        conv: Conv | None = None,
        extra: int = 0,
        matrix: int = 0,
        inplace: bool = False,
        frozen: bool = False,
        scores: Scores = Scores.DROPPED,
        adapter: Adapter | None = None,
        bits: int = 0,
    ) -> None:
        self.kind = kind
        self.x = x
        self.y = y
        self.params = params
        self.conv = conv
        self.extra = extra
        self.matrix = matrix
        self.inplace = inplace
        self.frozen = frozen
        self.scores = scores
        self.adapter = adapter
        self.bits = bits

    def moved(self, by: int) -> Op:
        """Give the same step on tensors that come later."""
        return Op(
            self.kind,
            self.x + by,
            self.y + by,
            self.params,
            self.conv,
            self.extra,
            self.matrix,
            self.inplace,
            self.frozen,
            self.scores,
            self.adapter,
            self.bits,
        )

    def keeping(self, kind: Kind, extra: int) -> Op:
        """Give the same step, of which something else is kept."""
        return Op(
            kind,
            self.x,
            self.y,
            self.params,
            self.conv,
            extra,
            self.matrix,
            self.inplace,
            self.frozen,
            self.scores,
            self.adapter,
            self.bits,
        )


class Program(NamedTuple):
    """What a forward pass does.

    Attributes:
        tensors: elements of each tensor, for one sample.
        ops: the steps in order.
        kept: tensors that are kept for the backward pass although no single step says so (factors of products).
        hidden_params: parameters of layers whose insides the summary does not show.
        classes: width of the last output, for the loss.
        tokens: tokens of a sample at the last output; 1 where there are none.
        causal: whether it is a language model that predicts the next token, with a loss in fp32.
        cached: by step, elements of keys and values, where it gives them out for the next token.
        multiplies: whether anything multiplies matrices.
        libraries: which of CUDA's libraries it loads, as far as the summary shows.
        shared: parameters of a word embedding that is also the head.
        biased: whether numbers in fp32 are added to the logits.
        skips: by step, elements that wait meanwhile: what went into the blocks around it, which the callers hold.
        names: types of all layers, without the model's own name.
        ends: the layers in the order in which they are done: children before the block around them.
        flat: whether the summary shows no tree: a block's row follows those of its layers.
        owner: the model's own name, which transformers puts before the types of its layers, or "".
        inside: elements of one sample that torchinfo prints of layers inside hidden blocks; 0 where it says nothing.
        labelled: whether the model itself computes a loss, where labels are given to it.
        caches: whether it gives out keys and values for the next token.
        shapes: of each tensor, for one sample.
        family: the family of networks that the model belongs to.
        weighs: whether an attention of PyTorch's own may give out its weights, which no summary tells.
    """

    tensors: list[int]
    ops: list[Op]
    kept: set[int]
    hidden_params: int
    classes: int
    tokens: int
    causal: bool = False
    cached: Mapping[int, int] = MappingProxyType({})
    multiplies: bool = False
    libraries: Libraries = "both"
    shared: int = 0
    biased: bool = False
    skips: Mapping[int, int] = MappingProxyType({})
    names: frozenset[str] = frozenset()
    ends: Sequence[End] = ()
    flat: bool = False
    owner: str = ""
    inside: float = 0.0
    labelled: bool = False
    caches: bool = False
    shapes: Sequence[Shape] = ()
    family: Family = "mlp"
    weighs: bool = False

    @property
    def cache(self) -> int:
        """Elements of all keys and values that are given out for the next token."""
        return sum(self.cached.values())
