"""Parameters of a layer from what its ``print`` says. Pure: knows PyTorch's and transformers' layers, needs neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from estimator.walk import elements

Args = Mapping[str, str]

_MAX: Final = 10**15
_SHORT: Final = 32
# Twelve numbers of fifteen digits.
_LONG: Final = 12 * 17


def parameters(type_: str, args: Args) -> int | None:
    """Count the parameters that a layer owns itself.

    Args:
        type_: class name as printed.
        args: printed arguments by name, positional ones as ``"0"``, ``"1"``, ...

    Returns:
        The number of parameters, or None if this class is not known or its arguments do not say.
    """
    rule = _rule(type_)
    if rule is None:
        return None
    try:
        count = rule(args)
    except (KeyError, ValueError):
        return None
    return count if 0 <= count <= _MAX else None


def knows(type_: str) -> bool:
    """Tell whether a class is a single layer whose parameters are known."""
    return _rule(type_) is not None


def number(args: Args, *names: str) -> int:
    """Read the first integer argument that is there.

    Raises:
        KeyError: none is there.
        ValueError: it is no integer of sensible size.
    """
    for name in names:
        if name in args:
            return integer(args[name])
    raise KeyError(names[0])


def integer(text: str) -> int:
    """Read ``3`` or ``(3,)``.

    Raises:
        ValueError: it is no integer of sensible size.
    """
    text = text.strip("() ,")
    if len(text) > 15:
        raise ValueError(text[:20])
    return int(text)


def numbers(text: str) -> tuple[int, ...]:
    """Read ``(3, 3)``, ``3`` or ``(768,)``.

    Raises:
        ValueError: a part is no integer, or too long for one, or there are too many.
    """
    if len(text) > _LONG:
        raise ValueError(text[:20])
    return _numbers(text) if len(text) <= _SHORT else _numbers.__wrapped__(text)


@lru_cache(maxsize=1024)  # kernels, strides and paddings are few; what comes from users is bounded in length and number
def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.strip("()[] ").split(",") if part.strip()]
    if len(parts) > 12 or any(len(part) > 15 for part in parts):
        raise ValueError(text[:20])
    return tuple(map(int, parts))


def flag(args: Args, name: str, default: bool = True) -> bool:
    """Read ``bias=False`` and the like."""
    text = args.get(name)
    return default if text is None else text not in ("False", "None", "0")


def _conv(args: Args) -> int:
    inputs, outputs = number(args, "0", "in_channels"), number(args, "1", "out_channels")
    groups = number(args, "groups") if "groups" in args else 1
    kernel = elements(numbers(args["kernel_size"] if "kernel_size" in args else args["2"]))
    return inputs * outputs // max(groups, 1) * kernel + (outputs if flag(args, "bias") else 0)


def _linear(args: Args) -> int:
    inputs, outputs = number(args, "in_features", "input_size", "0"), number(args, "out_features", "output_size", "1")
    return inputs * outputs + (outputs if flag(args, "bias") else 0)


def _conv1d(args: Args) -> int:
    inputs, outputs = number(args, "nx"), number(args, "nf")
    return inputs * outputs + outputs


def _bilinear(args: Args) -> int:
    outputs = number(args, "out_features")
    return number(args, "in1_features") * number(args, "in2_features") * outputs + (
        outputs if flag(args, "bias") else 0
    )


def _norm(args: Args) -> int:
    return 2 * number(args, "0", "num_features") if flag(args, "affine") else 0


def _instance_norm(args: Args) -> int:
    return 2 * number(args, "0", "num_features") if flag(args, "affine", default=False) else 0


def _group_norm(args: Args) -> int:
    return 2 * number(args, "1", "num_channels") if flag(args, "affine") else 0


def _layer_norm(args: Args) -> int:
    size = elements(numbers(args["0"] if "0" in args else args["normalized_shape"]))
    if not flag(args, "elementwise_affine"):
        return 0
    return size * (2 if flag(args, "bias") else 1)


def _rms_norm(args: Args) -> int:
    shape = args.get("0") or args.get("normalized_shape") or args["hidden_size"]
    size = elements(numbers(shape))
    return size if flag(args, "elementwise_affine") else 0


def _embedding(args: Args) -> int:
    return number(args, "0", "num_embeddings") * number(args, "1", "embedding_dim")


def _bare(args: Args) -> int:
    """Count what ``ParameterDict(  (default): Parameter containing: [torch.FloatTensor of size 6x64])`` holds."""
    size = args["0"].partition(" of size ")[2].partition("]")[0].partition(" (")[0]
    return elements(numbers(size.replace("x", ",")))


def _prelu(args: Args) -> int:
    return number(args, "num_parameters", "0")


def _recurrent(gates: int) -> Callable[[Args], int]:
    def count(args: Args) -> int:
        inputs, hidden = number(args, "0", "input_size"), number(args, "1", "hidden_size")
        layers = number(args, "num_layers") if "num_layers" in args else 1
        sides = 2 if flag(args, "bidirectional", default=False) else 1
        bias = 2 * gates * hidden if flag(args, "bias") else 0
        projected = number(args, "proj_size") if "proj_size" in args else 0
        out = projected or hidden
        if not 0 < layers <= 1024:
            raise ValueError(layers)
        first = gates * hidden * (inputs + out) + bias + hidden * projected
        later = gates * hidden * (out * sides + out) + bias + hidden * projected
        return sides * (first + (layers - 1) * later)

    return count


_EXACT: Final[dict[str, Callable[[Args], int]]] = {
    "Linear": _linear,
    "NonDynamicallyQuantizableLinear": _linear,
    "LinearBf16": _linear,
    "Linear4bit": _linear,
    "Linear8bitLt": _linear,
    "Conv1D": _conv1d,
    "Bilinear": _bilinear,
    "GroupNorm": _group_norm,
    "GroupNormAct": _group_norm,
    "GroupNorm1": _group_norm,
    "LayerNorm": _layer_norm,
    "LayerNorm2d": _layer_norm,
    "FusedLayerNorm": _layer_norm,
    "PReLU": _prelu,
    "ParameterDict": _bare,
    "ParameterList": _bare,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "LSTMCell": _recurrent(4),
    "GRUCell": _recurrent(3),
    "RNNCell": _recurrent(1),
    "FrozenBatchNorm2d": lambda _args: 0,
}


def _rule(type_: str) -> Callable[[Args], int] | None:
    exact = _EXACT.get(type_)
    if exact is not None:
        return exact
    if "RMSNorm" in type_ or type_ in ("T5LayerNorm", "MT5LayerNorm"):
        return _rms_norm
    if "BatchNorm" in type_:
        return _norm
    if type_.startswith("InstanceNorm"):
        return _instance_norm
    if "LayerNorm" in type_:
        return _layer_norm
    if "Embedding" in type_ or type_ == "ParallelLMHead":
        return _embedding
    if "Conv" in type_:
        return _conv
    if type_.endswith(("Linear", "LinearWithBias")):  # the latter was in PyTorch's attention up to version 1.8
        return _linear
    return None
