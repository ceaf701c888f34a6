"""Plans of synthetic models: what they consist of, what they print, which shapes flow. Pure, no torch.

A plan is a tree of ``Op``. ``modules`` builds the torch module of a plan on the machine that measures;
``trace_of`` builds the same model's ``Trace`` anywhere, so that the data set stores only the
architecture's parameters. A test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from estimator.dataset.tree import Dim, Module, Recorder, Shape, Trace, parents_of

Arch = Mapping[str, Any]
"""Parameters of an architecture, as JSON holds them; ``shape`` names the pattern."""

ACTIVATIONS = ("ReLU", "GELU", "ELU", "LeakyReLU", "PReLU", "Softplus", "SiLU", "Mish", "SELU", "Tanh")


@dataclass(frozen=True)
class Op:
    """One module of a plan: its class, constructor arguments and children by attribute name."""

    kind: str
    args: Mapping[str, Any]
    children: Mapping[str, Op]


def op(kind: str, children: Mapping[str, Op] | None = None, **args: Any) -> Op:
    """Write an ``Op`` shortly."""
    return Op(kind, args, children or {})


def sequential(*steps: Op) -> Op:
    """Return a plan that runs ``steps`` one after the other."""
    return op("Sequential", {str(i): step for i, step in enumerate(steps)})


# --- leaves: what they print, their parameters, their output ------------------------------------


def _pair(value: int) -> str:
    return f"({value}, {value})"


def _conv_repr(o: Op) -> str:
    text = f"{o.args['inp']}, {o.args['out']}, kernel_size={_pair(o.args['k'])}, stride={_pair(o.args['stride'])}"
    if o.args["k"] > 1:
        text += f", padding={_pair(o.args['k'] // 2)}"
    if o.args["groups"] > 1:
        text += f", groups={o.args['groups']}"
    return text if o.args["bias"] else text + ", bias=False"


_REPR: dict[str, Callable[[Op], str]] = {
    "Linear": lambda o: f"in_features={o.args['inp']}, out_features={o.args['out']}, bias={o.args['bias']}",
    "Conv2d": _conv_repr,
    "BatchNorm1d": lambda o: f"{o.args['n']}, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    "BatchNorm2d": lambda o: f"{o.args['n']}, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    "LayerNorm": lambda o: f"({o.args['n']},), eps=1e-05, elementwise_affine=True",
    "Dropout": lambda o: f"p={o.args['p']}, inplace=False",
    "ReLU": lambda o: "inplace=True" if o.args["inplace"] else "",
    "GELU": lambda o: "approximate='none'",
    "ELU": lambda o: "alpha=1.0",
    "LeakyReLU": lambda o: "negative_slope=0.01",
    "PReLU": lambda o: "num_parameters=1",
    "Softplus": lambda o: "beta=1.0, threshold=20.0",
    "MaxPool2d": lambda o: "kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False",
    "AdaptiveAvgPool2d": lambda o: "output_size=(1, 1)",
    "Flatten": lambda o: "start_dim=1, end_dim=-1",
    "Embedding": lambda o: f"{o.args['n']}, {o.args['width']}",
    "Softmax": lambda o: "dim=1",
}

_PARAMS: dict[str, Callable[[Op], int]] = {
    "Linear": lambda o: o.args["inp"] * o.args["out"] + (o.args["out"] if o.args["bias"] else 0),
    "Conv2d": lambda o: (
        o.args["inp"] // o.args["groups"] * o.args["out"] * o.args["k"] ** 2 + (o.args["out"] if o.args["bias"] else 0)
    ),
    "BatchNorm1d": lambda o: 2 * o.args["n"],
    "BatchNorm2d": lambda o: 2 * o.args["n"],
    "LayerNorm": lambda o: 2 * o.args["n"],
    "PReLU": lambda o: 1,
    "Embedding": lambda o: o.args["n"] * o.args["width"],
}


def _conv_shape(o: Op, s: Shape) -> Shape:
    side = [(_int(d) + 2 * (o.args["k"] // 2) - o.args["k"]) // o.args["stride"] + 1 for d in s[2:]]
    return (s[0], o.args["out"], *side)


_SHAPE: dict[str, Callable[[Op, Shape], Shape]] = {
    "Linear": lambda o, s: (*s[:-1], o.args["out"]),
    "Conv2d": _conv_shape,
    "MaxPool2d": lambda o, s: (*s[:2], *(_int(d) // 2 for d in s[2:])),
    "AdaptiveAvgPool2d": lambda o, s: (*s[:2], 1, 1),
    "Flatten": lambda o, s: (s[0], prod(_int(d) for d in s[1:])),
    "Embedding": lambda o, s: (*s, o.args["width"]),
}


def _int(dim: Dim) -> int:
    if not isinstance(dim, int):
        raise ValueError(f"dimension {dim} depends on the batch where a number is needed")
    return dim


def params_of(plan: Op) -> int:
    """Return the number of parameters of a whole plan; plans share none."""
    own = _PARAMS.get(plan.kind)
    return (own(plan) if own else 0) + sum(params_of(child) for child in plan.children.values())


# --- running a plan on shapes -------------------------------------------------------------------


def module_of(plan: Op, name: str = "") -> Module:
    """Return the tree of modules that a plan prints."""
    text, own = _REPR.get(plan.kind), _PARAMS.get(plan.kind)
    children = tuple(module_of(child, key) for key, child in plan.children.items())
    return Module(name, plan.kind, text(plan) if text else "", own(plan) if own else 0, children)


def trace_of(plan: Op, input_shape: tuple[int, ...]) -> Trace:
    """Run a plan on shapes only.

    Args:
        plan: the model.
        input_shape: shape of one example, without the batch.

    Returns:
        What ``trace.trace`` finds when it runs the torch module of the plan.
    """
    root = module_of(plan)
    recorder = Recorder(parents_of(root))
    numbers: dict[int, int] = {}

    def number(item: Op) -> None:
        numbers[id(item)] = len(numbers)
        for child in item.children.values():
            number(child)

    # Children are numbered by identity, so a plan must not hold the same object twice.
    plan = _distinct(plan)
    number(plan)

    def call(item: Op, shape: Shape) -> Shape:
        token = recorder.enter(numbers[id(item)], shape)
        out = _RUN[item.kind](item, shape, call) if item.kind in _RUN else _leaf_shape(item, shape)
        recorder.leave(token, out)
        return out

    call(plan, ("B", *input_shape))
    return Trace(root, recorder.calls(), params_of(plan))


def _distinct(item: Op) -> Op:
    return Op(item.kind, item.args, {name: _distinct(child) for name, child in item.children.items()})


def _leaf_shape(item: Op, shape: Shape) -> Shape:
    rule = _SHAPE.get(item.kind)
    return rule(item, shape) if rule else shape


_Call = Callable[[Op, Shape], Shape]


def _run_sequential(item: Op, shape: Shape, call: _Call) -> Shape:
    for child in item.children.values():
        shape = call(child, shape)
    return shape


def _run_residual(item: Op, shape: Shape, call: _Call) -> Shape:
    out = call(item.children["body"], shape)
    if "shortcut" in item.children:
        call(item.children["shortcut"], shape)
    return call(item.children["act"], out)


def _run_dense(item: Op, shape: Shape, call: _Call) -> Shape:
    out = call(item.children["body"], shape)
    return (shape[0], _int(shape[1]) + _int(out[1]), *shape[2:])


def _run_embeddings(item: Op, shape: Shape, call: _Call) -> Shape:
    out = call(item.children["tokens"], shape)
    call(item.children["positions"], shape[1:])
    return call(item.children["dropout"], call(item.children["norm"], out))


def _run_attention(item: Op, shape: Shape, call: _Call) -> Shape:
    call(item.children["qkv"], shape)
    if item.args["eager"]:
        call(item.children["dropout"], (shape[0], item.args["heads"], shape[1], shape[1]))
    return call(item.children["out"], shape)


def _run_block(item: Op, shape: Shape, call: _Call) -> Shape:
    for half, number in (("attention", 1), ("feed_forward", 2)):
        parts = (half, f"dropout{number}")
        for name in (f"norm{number}", *parts) if item.args["prenorm"] else (*parts, f"norm{number}"):
            shape = call(item.children[name], shape)
    return shape


def _run_gated(item: Op, shape: Shape, call: _Call) -> Shape:
    hidden = call(item.children["gate"], shape)
    call(item.children["act"], hidden)
    return call(item.children["down"], call(item.children["up"], shape))


def _run_transformer(item: Op, shape: Shape, call: _Call) -> Shape:
    hidden = call(item.children["embeddings"], shape)
    for block in item.children["layers"].children.values():
        hidden = call(block, hidden)
    hidden = call(item.children["norm"], hidden)
    return call(item.children["head"], hidden if item.args["lm"] else (hidden[0], hidden[2]))


_RUN: dict[str, Callable[[Op, Shape, _Call], Shape]] = {
    "Sequential": _run_sequential,
    "ResidualBlock": _run_residual,
    "DenseLayer": _run_dense,
    "Embeddings": _run_embeddings,
    "SelfAttention": _run_attention,
    "TransformerBlock": _run_block,
    "GatedFeedForward": _run_gated,
    "TransformerModel": _run_transformer,
}


# --- architectures ------------------------------------------------------------------------------


def plan_of(family: str, arch: Arch) -> tuple[Op, tuple[int, ...]]:
    """Return the plan of a synthetic architecture and the shape of one example.

    Args:
        family: ``mlp``, ``cnn`` or ``transformer``.
        arch: its parameters, as ``specs`` draws them.
    """
    return {"mlp": _mlp, "cnn": _cnn, "transformer": _transformer}[family](arch)


def activation(name: str, *, inplace: bool = False) -> Op:
    """Return the plan of one activation function."""
    return op(name, inplace=inplace) if name == "ReLU" else op(name)


def widths(shape: str, first: int, last: int, depth: int) -> list[int]:
    """Return ``depth`` layer widths between ``first`` and ``last`` in one of the dissertation's patterns."""
    middle = max(1, min(first, last, max(first, last) // 8))
    half = max(1, (depth - 1) / 2)
    at: Mapping[str, Callable[[int], int]] = {
        "uniform": lambda i: first,
        "pyramid": lambda i: max(last, first >> (i + 1)),
        "gradual": lambda i: round(first + (last - first) * (i + 1) / (depth + 1)) or 1,
        "bottleneck": lambda i: middle if i % 2 else first,
        # down to the middle layer, then up again
        "hourglass": lambda i: max(1, round(first - (first - middle) * (1 - abs(i - half) / half))),
    }
    return [at[shape](i) for i in range(depth)]


def _mlp(arch: Arch) -> tuple[Op, tuple[int, ...]]:
    steps: list[Op] = []
    width = arch["inp"]
    for out in widths(arch["shape"], arch["width"], arch["out"], arch["depth"]):
        steps.append(_linear(width, out))
        if arch["bn"]:
            steps.append(op("BatchNorm1d", n=out))
        steps.append(activation(arch["act"]))
        if arch["drop"]:
            steps.append(op("Dropout", p=arch["drop"]))
        width = out
    steps.append(_linear(width, arch["out"]))
    if arch["softmax"]:
        steps.append(op("Softmax"))
    return sequential(*steps), (arch["inp"],)


def _conv_unit(arch: Arch, inp: int, out: int, stride: int = 1, *, last_act: bool = True) -> list[Op]:
    k, bias = arch["k"], not arch["bn"]
    if arch["separable"] and inp > 3:
        steps = [_conv(inp, inp, k, stride, inp, bias=bias), _conv(inp, out, bias=bias)]
    else:
        steps = [_conv(inp, out, k, stride, bias=bias)]
    if arch["bn"]:
        steps.append(op("BatchNorm2d", n=out))
    if last_act:
        steps.append(activation(arch["act"], inplace=arch["inplace"]))
    if arch["drop"]:
        steps.append(op("Dropout", p=arch["drop"]))
    return steps


def _cnn(arch: Arch) -> tuple[Op, tuple[int, ...]]:
    shape, every, strided = arch["shape"], arch["every"], arch["strided"]
    steps: list[Op] = []
    channels, side = arch["chans"], arch["size"]
    for i, out in enumerate(_cnn_widths(shape, arch["base"], arch["depth"], arch["cap"])):
        shrinks = bool(every) and i % every == every - 1 and side >= 4
        stride = 2 if shrinks and strided else 1
        if shape == "residual" and i:
            steps.append(_residual(arch, channels, out, stride))
        elif shape == "dense" and i:
            steps.append(op("DenseLayer", {"body": sequential(*_conv_unit(arch, channels, out))}))
            out += channels  # noqa: PLW2901
        else:
            steps += _conv_unit(arch, channels, out, stride)
        channels = out
        if shrinks and not (strided and (shape != "dense" or not i)):
            steps.append(op("MaxPool2d"))
        if shrinks:
            side = (side + 1) // 2 if strided and shape != "dense" else side // 2
    steps += [op("AdaptiveAvgPool2d"), op("Flatten"), _linear(channels, arch["classes"])]
    return sequential(*steps), (arch["chans"], arch["size"], arch["size"])


def _residual(arch: Arch, inp: int, out: int, stride: int) -> Op:
    children = {"body": sequential(*_conv_unit(arch, inp, out, stride, last_act=False))}
    if stride > 1 or inp != out:
        children["shortcut"] = _conv(inp, out, stride=stride)
    children["act"] = activation(arch["act"], inplace=arch["inplace"])
    return op("ResidualBlock", children)


def _cnn_widths(shape: str, base: int, depth: int, cap: int) -> list[int]:
    narrow = max(4, base // 4)
    hourglass = widths("hourglass", base, base, depth)
    at: Mapping[str, Callable[[int], int]] = {
        "uniform": lambda i: base,
        "pyramid": lambda i: min(cap, round(base * 1.36**i)),
        "gradual": lambda i: min(cap, base + round(base * i / 4)),
        "hourglass": lambda i: hourglass[i],
        "bottleneck": lambda i: narrow if i % 3 == 1 else base,
        "dense": lambda i: narrow if i else base,
        "residual": lambda i: min(cap, base * 2 ** (i // 4)),
    }
    return [at[shape](i) for i in range(depth)]


def _transformer(arch: Arch) -> tuple[Op, tuple[int, ...]]:
    width, p = arch["width"], arch["drop"]
    embeddings = op(
        "Embeddings",
        {
            "tokens": op("Embedding", n=arch["vocab"], width=width),
            "positions": op("Embedding", n=max(512, arch["seq"]), width=width),
            "norm": op("LayerNorm", n=width),
            "dropout": op("Dropout", p=p),
        },
    )
    out = arch["vocab"] if arch["lm"] else arch["classes"]
    parts = {
        "embeddings": embeddings,
        "layers": op("ModuleList", {str(i): _block(arch) for i in range(arch["depth"])}),
        "norm": op("LayerNorm", n=width),
        "head": _linear(width, out, bias=not arch["lm"]),
    }
    return op("TransformerModel", parts, lm=arch["lm"]), (arch["seq"],)


def _block(arch: Arch) -> Op:
    width, p = arch["width"], arch["drop"]
    attention = {
        "qkv": _linear(width, 3 * width),
        "dropout": op("Dropout", p=p),
        "out": _linear(width, width),
    }
    parts = {
        "norm1": op("LayerNorm", n=width),
        "attention": op("SelfAttention", attention, heads=arch["heads"], eager=arch["eager"], causal=arch["lm"]),
        "dropout1": op("Dropout", p=p),
        "norm2": op("LayerNorm", n=width),
        "feed_forward": _feed_forward(arch),
        "dropout2": op("Dropout", p=p),
    }
    return op("TransformerBlock", parts, prenorm=arch["prenorm"])


def _feed_forward(arch: Arch) -> Op:
    width, hidden, act = arch["width"], arch["ff"], activation(arch["act"])
    if not arch["gated"]:
        return sequential(_linear(width, hidden), act, op("Dropout", p=arch["drop"]), _linear(hidden, width))
    parts = {
        "gate": _linear(width, hidden, bias=False),
        "up": _linear(width, hidden, bias=False),
        "act": act,
        "down": _linear(hidden, width, bias=False),
    }
    return op("GatedFeedForward", parts)


def _linear(inp: int, out: int, *, bias: bool = True) -> Op:
    return op("Linear", inp=inp, out=out, bias=bias)


def _conv(inp: int, out: int, k: int = 1, stride: int = 1, groups: int = 1, *, bias: bool = False) -> Op:
    return op("Conv2d", inp=inp, out=out, k=k, stride=stride, groups=groups, bias=bias)
