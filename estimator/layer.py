"""One row of a summary, of which a model is a tree. Pure data."""

from __future__ import annotations

from typing import Final

OPEN: Final = 0
"""In a shape: a length that the summary leaves open."""

STEPS_FIRST: Final = frozenset(
    (
        "LSTM",
        "GRU",
        "RNN",
        "MultiheadAttention",
        "Transformer",
        "TransformerEncoder",
        "TransformerDecoder",
        "TransformerEncoderLayer",
        "TransformerDecoderLayer",
    )
)
"""PyTorch's layers over series, whose ``batch_first`` is False unless somebody says so."""

_AS_IT_IS: Final[tuple[int, ...]] = (-1,)


class Layer:
    """One row of a summary. Equal rows may be one object: what depends on a layer's place must not be kept by its id.

    No named tuple, nor a dataclass: a summary has hundreds, and this the compiled build makes five times faster.
    Nothing of it changes but its text, which follows from all else.

    Attributes:
        type: class name as printed, for example ``Conv2d``.
        params: parameters of this layer itself, without its children's.
        output_shape: shape of the output without the batch dimension, or None where the summary
            does not show it and it could not be derived.
        children: layers inside this one, in order of use.
        args: what the summary says of the layer, as written: ``kernel_size=(3, 3)`` is
            ``("kernel_size", "(3, 3)")``; positional ones are numbered ``"0"``, ``"1"``, ...
        name: attribute under which the parent holds the layer (``conv1``), or "" where it is not shown.
        input_shape: shape of the input without the batch dimension, where the summary shows it.
        text: what a fingerprint is made of; "" until one was (`estimator.fingerprint`).
    """

    __slots__ = ("args", "children", "input_shape", "name", "output_shape", "params", "text", "type")

    def __init__(
        self,
        type: str,  # noqa: A002
        params: int,
        output_shape: tuple[int, ...] | None = None,
        children: tuple[Layer, ...] = (),
        args: tuple[tuple[str, str], ...] = (),
        name: str = "",
        input_shape: tuple[int, ...] | None = None,
    ) -> None:
        self.type = type
        self.params = params
        self.output_shape = output_shape
        self.children = children
        self.args = args
        self.name = name
        self.input_shape = input_shape
        self.text = ""

    def said(self, name: str) -> str:
        """Read what the summary says of an argument; "" where it says nothing."""
        for key, value in self.args:  # a handful: to make a dictionary of them takes longer
            if key == name:
                return value
        return ""

    def but(
        self,
        *,
        type: str | None = None,  # noqa: A002
        params: int | None = None,
        output_shape: tuple[int, ...] | None = _AS_IT_IS,
        children: tuple[Layer, ...] | None = None,
        args: tuple[tuple[str, str], ...] | None = None,
        name: str | None = None,
        input_shape: tuple[int, ...] | None = _AS_IT_IS,
    ) -> Layer:
        """Give the same layer but for what is said."""
        return Layer(
            self.type if type is None else type,
            self.params if params is None else params,
            self.output_shape if output_shape is _AS_IT_IS else output_shape,
            self.children if children is None else children,
            self.args if args is None else args,
            self.name if name is None else name,
            self.input_shape if input_shape is _AS_IT_IS else input_shape,
        )

    def __eq__(self, other: object) -> bool:
        """Tell whether all is the same."""
        return (
            isinstance(other, Layer)
            and self.type == other.type
            and self.params == other.params
            and self.output_shape == other.output_shape
            and self.args == other.args
            and self.name == other.name
            and self.input_shape == other.input_shape
            and self.children == other.children
        )

    def __repr__(self) -> str:
        """Write all of it."""
        return (
            f"Layer(type={self.type!r}, params={self.params!r}, output_shape={self.output_shape!r}, "
            f"children={self.children!r}, args={self.args!r}, name={self.name!r}, input_shape={self.input_shape!r})"
        )

    def __hash__(self) -> int:
        """Summaries can be keys, as they are frozen."""
        return hash((self.type, self.params, self.output_shape, self.name))
