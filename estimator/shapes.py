"""Output shapes for summaries that show none: from the layers' sizes, the batch and the sequence length. Pure.

A module's print names layers in the order in which they were defined and says nothing of the input. So shapes are
followed layer by layer; where a layer's input does not fit what came before it (a branch, a skip connection, a gated
projection), the input of an enclosing block that does fit is taken. What had to be assumed is said in ``inferred``.
"""

from __future__ import annotations

from dataclasses import replace

from estimator import sizes
from estimator.family import family_of
from estimator.types import Layer, ModelSummary, Workload
from estimator.walk import elements, layers

Shape = tuple[int, ...]

_IMAGE = 224
_SMALL_IMAGE = 28
_TOKENS = 512
_MOST_DIM = 10**6
_HEADS = ("fc", "head", "classifier", "heads", "last_linear", "output", "logits", "score", "pooler", "qa_outputs")
_POOLED = ("pooler", "classifier", "pre_classifier", "seq_relationship", "heads", "head")
_ACTIVATIONS = ("ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "Activation", "Swish", "Mish", "ELU", "Softplus")
# Tables that are added to the scores of an attention; what they give out goes nowhere else.
_BESIDE = ("relative_attention_bias", "relative_position", "position_bias")
_ENTRY_NAMES = ("downsample", "shortcut", "skip", "proj_drop", "conv_skip", "identity")


def with_shapes(summary: ModelSummary, workload: Workload) -> ModelSummary:
    """Fill in the output shapes that the summary does not show.

    Args:
        summary: the model.
        workload: gives ``seq_len``.

    Returns:
        The same summary where every layer without children shows its shape already, else one with shapes and with a
        sentence for each assumption.
    """
    found = list(layers(summary.root))
    if summary.batch_size is not None and summary.batch_size == workload.seq_len != workload.batch_size:
        summary = _sequence_first(summary, workload.seq_len)
        found = list(layers(summary.root))
    missing = [layer for layer in found if layer.output_shape is None and not layer.children]
    if not missing:
        return summary
    if any(layer.output_shape for layer in found):
        return summary  # what has no shape there is a list of layers, or was never called
    if any(layer.input_shape for layer in found):
        return replace(summary, root=_from_inputs(summary.root))
    follower = _Follower(found, workload)
    root, _ = follower.follow(summary.root, follower.start)
    return replace(summary, root=root, inferred=(*summary.inferred, *follower.inferred))


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


class _Follower:
    """Follows one sample through the layers."""

    def __init__(self, found: list[Layer], workload: Workload) -> None:
        self.family = family_of(found)
        self.inferred: list[str] = []
        self.start = self._input(found, workload)
        self._open: list[Shape] = []
        self._known: dict[tuple[int, Shape], tuple[Layer, Shape]] = {}
        self._args: dict[int, dict[str, str]] = {}
        self._widths: dict[tuple[str, int], int | None] = {}

    def _input(self, found: list[Layer], workload: Workload) -> Shape:
        for layer in found:
            args = dict(layer.args)
            try:
                if "Embedding" in layer.type and layer.params and not layer.children:
                    return self._tokens(found, workload)
                if "Conv" in layer.type and "0" in args:
                    return self._picture(layer, sizes.number(args, "0"), found, workload)
                if layer.type.endswith("Linear") and "in_features" in args:
                    width = sizes.number(args, "in_features")
                    if self.family == "transformer" and workload.seq_len:
                        return (workload.seq_len, width)
                    return (width,)
                if layer.type in ("LSTM", "GRU", "RNN"):
                    return (workload.seq_len or _TOKENS, sizes.number(args, "0"))
            except (KeyError, ValueError):
                continue
        return self._tokens(found, workload) if self.family == "transformer" else (1,)

    def _tokens(self, found: list[Layer], workload: Workload) -> Shape:
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
        return (longest,)

    def _picture(self, layer: Layer, channels: int, found: list[Layer], workload: Workload) -> Shape:
        if "Conv1d" in layer.type:
            length = workload.seq_len or _TOKENS
            self.inferred.append(f"the print shows no input; a length of {length} was taken")
            return (channels, length)
        side = _SMALL_IMAGE if channels == 1 else _IMAGE
        if channels > 1 and found[0].type.startswith("Inception"):
            side = 299
        self.inferred.append(
            f"the print shows no input; {channels}x{side}x{side} was taken: torchsummary or torchinfo say it exactly"
        )
        volume = (side,) * (3 if "3d" in layer.type else 2)
        return (channels, *volume)

    def follow(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        """Give the layer with shapes, and the shape behind it."""
        known = self._known.get((id(layer), shape))
        if known is not None:
            return known
        if layer.children:
            result = self._container(layer, shape)
        else:
            entry = self._fitting(layer, shape)
            out = tuple(min(max(size, 1), _MOST_DIM) for size in self._leaf(layer, entry))
            made = Layer(layer.type, layer.params, out, (), layer.args, layer.name, entry)
            result = made, out
        self._known[id(layer), shape] = result
        return result

    def _container(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        if "PatchMerging" in layer.type:
            return self._merged(layer, shape)
        self._open.append(shape)
        ordered = "Sequential" in layer.type or all(child.name.isdecimal() for child in layer.children)
        now = shape
        made: list[Layer] = []
        for child in layer.children if ordered else _in_order_of_use(layer.children):
            begin = shape if child.name in _ENTRY_NAMES else now
            fitted, after = self.follow(child, begin)
            if not any(mark in child.name for mark in _BESIDE):
                now = after
            made.append(fitted)
        self._open.pop()
        now = self._restored(layer, shape, now)
        return Layer(layer.type, layer.params, now, tuple(made), layer.args, layer.name, shape), now

    def _merged(self, layer: Layer, shape: Shape) -> tuple[Layer, Shape]:
        """Follow a Swin's patch merging: four neighbours become one, with its norm before or behind."""
        space = shape[1:] if len(shape) == 3 and shape[0] > shape[-1] else shape[:-1]
        halved = tuple(max(size // 2, 1) for size in space) if len(space) == 2 else (max(elements(space) // 4, 1),)
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
        if layer.type == "MultiheadAttention":
            return before
        if len(before) == 3 and after == (before[0], 1, 1) and before[1] > 1 and "Pool" not in layer.type:
            return before
        return after

    def _fitting(self, layer: Layer, shape: Shape) -> Shape:
        """Choose the input: what came before, or what came into an enclosing block, whichever has the right width."""
        key = (layer.type, id(layer.args))
        if key not in self._widths:
            self._widths[key] = _input_width(layer)
        width = self._widths[key]
        if width is None or _fits(layer, shape, width):
            return shape
        outers = [
            outer
            for outer in reversed(self._open)
            if len(outer) > 1 or outer != self.start or self.family != "transformer"
        ]
        for outer in outers:
            if _fits(layer, outer, width):
                return outer
        if "Linear" in layer.type:  # on the first axis: each pixel, or each channel, by itself
            for outer in (shape, *outers):
                if outer and outer[0] == width:
                    return outer
        if "Conv" in layer.type or "BatchNorm" in layer.type:
            if len(shape) == 3 and shape[-1] == width:
                return (width, *shape[:-1])  # channels were last
            return (width, *shape[1:]) if len(shape) > 1 else shape
        return shape

    def _leaf(self, layer: Layer, shape: Shape) -> Shape:
        args = self._args.get(id(layer.args))
        if args is None:
            args = self._args[id(layer.args)] = dict(layer.args)
        type_ = layer.type
        try:
            if "Embedding" in type_ and "0" in args and "1" in args:
                return (self.start[0], sizes.number(args, "1"))
            if type_ == "Conv1D":
                return (*shape[:-1], _conv1d_width(layer, args, shape))
            if "Conv" in type_ and ("kernel_size" in args or "2" in args):
                return _convolved(type_, args, shape)
            if "Linear" in type_ and "in_features" in args:
                return self._linear(layer, args, shape)
            if "Pool" in type_:
                return _pooled(type_, args, shape)
            if type_ in ("LSTM", "GRU", "RNN"):
                sides = 2 if sizes.flag(args, "bidirectional", default=False) else 1
                return (*shape[:-1], sizes.number(args, "proj_size", "1") * sides)
            if type_ == "Flatten":
                return (elements(shape),)
            if type_ in ("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d") and "scale_factor" in args:
                factor = float(args["scale_factor"].strip("() ").split(",")[0])
                return (shape[0], *(int(size * factor) for size in shape[1:]))
            if type_.endswith("Norm") and "0" in args and args["0"].startswith("("):
                return self._normed(sizes.numbers(args["0"]), shape)
        except (KeyError, ValueError, IndexError, OverflowError):
            return shape
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
        if len(shape) == 3 and len(size) == 1 and shape[0] == size[0] != shape[-1]:
            return (*shape[1:], size[0])
        if shape[-len(size) :] != size:
            return (*shape[: len(shape) - len(size)], *size)
        return shape


def _in_order_of_use(children: tuple[Layer, ...]) -> list[Layer]:
    """Put an activation behind the first of several projections: blocks define it before or behind all of them."""
    linear = [index for index, child in enumerate(children) if child.type in ("Linear", "Conv1D")]
    order = list(children)
    if len(linear) < 2:
        return order
    for index, child in enumerate(children):
        if not child.children and _is_activation(child) and not linear[0] < index < linear[-1]:
            order.remove(child)
            order.insert(order.index(children[linear[0]]) + 1, child)
            break
    return order


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
        if "Conv" in layer.type or "BatchNorm" in layer.type:
            return sizes.number(args, "0")
    except (KeyError, ValueError):
        return None
    return None


def _fits(layer: Layer, shape: Shape, width: int) -> bool:
    if ("Conv" in layer.type and layer.type != "Conv1D") or "BatchNorm" in layer.type:
        return bool(shape) and shape[0] == width
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


def _spread(text: str, count: int) -> tuple[int, ...]:
    values = sizes.numbers(text)
    return values if len(values) == count else values[:1] * count


def _convolved(type_: str, args: dict[str, str], shape: Shape) -> Shape:
    space = shape[1:]
    outputs = sizes.number(args, "1")
    kernel = _spread(args["kernel_size"] if "kernel_size" in args else args["2"], len(space))
    stride = _spread(args.get("stride", args.get("3", "1")), len(space))
    if "Transpose" in type_:
        return (outputs, *(size * step for size, step in zip(space, stride, strict=True)))
    padding = args.get("padding", "0")
    if padding.strip("'\"") == "same" or "Same" in type_:
        return (outputs, *(-(-size // max(step, 1)) for size, step in zip(space, stride, strict=True)))
    pad = (0,) * len(space) if padding.strip("'\"") == "valid" else _spread(padding, len(space))
    dilation = _spread(args.get("dilation", "1"), len(space))
    return (
        outputs,
        *(
            (size + 2 * p - d * (k - 1) - 1) // max(s, 1) + 1
            for size, k, s, p, d in zip(space, kernel, stride, pad, dilation, strict=True)
        ),
    )


def _pooled(type_: str, args: dict[str, str], shape: Shape) -> Shape:
    space = shape[1:]
    if not space:
        return shape
    if "Adaptive" in type_ or "output_size" in args:
        target = args.get("output_size", args.get("0", "1")).replace("None", "0")
        sides = _spread(target, len(space))
        return (shape[0], *(side or size for side, size in zip(sides, space, strict=True)))
    if "kernel_size" not in args and "0" not in args:
        return (shape[0],) if "Select" in type_ or "Global" in type_ else shape
    kernel = _spread(args["kernel_size"] if "kernel_size" in args else args["0"], len(space))
    stride = _spread(args["stride"], len(space)) if "stride" in args else kernel
    pad = _spread(args.get("padding", "0"), len(space))
    up = args.get("ceil_mode") == "True"
    return (
        shape[0],
        *(
            (size + 2 * p - k + (s - 1 if up else 0)) // max(s, 1) + 1
            for size, k, s, p in zip(space, kernel, stride, pad, strict=True)
        ),
    )
