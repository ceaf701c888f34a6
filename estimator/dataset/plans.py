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

    def arg(self, name: str) -> Any:
        """Return one constructor argument."""
        return self.args[name]

    def child(self, name: str) -> Op:
        """Return one child."""
        return self.children[name]


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
    text = f"{o.arg('inp')}, {o.arg('out')}, kernel_size={_pair(o.arg('k'))}, stride={_pair(o.arg('stride'))}"
    if o.arg("k") > 1:
        text += f", padding={_pair(o.arg('k') // 2)}"
    if o.arg("groups") > 1:
        text += f", groups={o.arg('groups')}"
    return text if o.arg("bias") else text + ", bias=False"


_REPR: dict[str, Callable[[Op], str]] = {
    "Linear": lambda o: f"in_features={o.arg('inp')}, out_features={o.arg('out')}, bias={o.arg('bias')}",
    "Conv2d": _conv_repr,
    "BatchNorm1d": lambda o: f"{o.arg('n')}, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    "BatchNorm2d": lambda o: f"{o.arg('n')}, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
    "LayerNorm": lambda o: f"({o.arg('n')},), eps=1e-05, elementwise_affine=True",
    "Dropout": lambda o: f"p={o.arg('p')}, inplace=False",
    "ReLU": lambda o: "inplace=True" if o.arg("inplace") else "",
    "GELU": lambda o: "approximate='none'",
    "ELU": lambda o: "alpha=1.0",
    "LeakyReLU": lambda o: "negative_slope=0.01",
    "PReLU": lambda o: "num_parameters=1",
    "Softplus": lambda o: "beta=1.0, threshold=20.0",
    "MaxPool2d": lambda o: "kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False",
    "AdaptiveAvgPool2d": lambda o: "output_size=(1, 1)",
    "Flatten": lambda o: "start_dim=1, end_dim=-1",
    "Embedding": lambda o: f"{o.arg('n')}, {o.arg('width')}",
    "Softmax": lambda o: "dim=1",
}

_PARAMS: dict[str, Callable[[Op], int]] = {
    "Linear": lambda o: o.arg("inp") * o.arg("out") + (o.arg("out") if o.arg("bias") else 0),
    "Conv2d": lambda o: (
        o.arg("inp") // o.arg("groups") * o.arg("out") * o.arg("k") ** 2 + (o.arg("out") if o.arg("bias") else 0)
    ),
    "BatchNorm1d": lambda o: 2 * o.arg("n"),
    "BatchNorm2d": lambda o: 2 * o.arg("n"),
    "LayerNorm": lambda o: 2 * o.arg("n"),
    "PReLU": lambda o: 1,
    "Embedding": lambda o: o.arg("n") * o.arg("width"),
}


def _conv_shape(o: Op, s: Shape) -> Shape:
    side = [(_int(d) + 2 * (o.arg("k") // 2) - o.arg("k")) // o.arg("stride") + 1 for d in s[2:]]
    return (s[0], o.arg("out"), *side)


_SHAPE: dict[str, Callable[[Op, Shape], Shape]] = {
    "Linear": lambda o, s: (*s[:-1], o.arg("out")),
    "Conv2d": _conv_shape,
    "MaxPool2d": lambda o, s: (*s[:2], *(_int(d) // 2 for d in s[2:])),
    "AdaptiveAvgPool2d": lambda o, s: (*s[:2], 1, 1),
    "Flatten": lambda o, s: (s[0], prod(_int(d) for d in s[1:])),
    "Embedding": lambda o, s: (*s, o.arg("width")),
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
    out = call(item.child("body"), shape)
    if "shortcut" in item.children:
        call(item.child("shortcut"), shape)
    return call(item.child("act"), out)


def _run_dense(item: Op, shape: Shape, call: _Call) -> Shape:
    out = call(item.child("body"), shape)
    return (shape[0], _int(shape[1]) + _int(out[1]), *shape[2:])


def _run_embeddings(item: Op, shape: Shape, call: _Call) -> Shape:
    out = call(item.child("tokens"), shape)
    call(item.child("positions"), shape[1:])
    return call(item.child("dropout"), call(item.child("norm"), out))


def _run_attention(item: Op, shape: Shape, call: _Call) -> Shape:
    call(item.child("qkv"), shape)
    if item.arg("eager"):
        call(item.child("dropout"), (shape[0], item.arg("heads"), shape[1], shape[1]))
    return call(item.child("out"), shape)


def _run_block(item: Op, shape: Shape, call: _Call) -> Shape:
    if item.arg("prenorm"):
        call(item.child("norm1"), shape)
        call(item.child("attention"), shape)
        call(item.child("dropout1"), shape)
        call(item.child("norm2"), shape)
        call(item.child("feed_forward"), shape)
        return call(item.child("dropout2"), shape)
    call(item.child("attention"), shape)
    call(item.child("dropout1"), shape)
    call(item.child("norm1"), shape)
    call(item.child("feed_forward"), shape)
    call(item.child("dropout2"), shape)
    return call(item.child("norm2"), shape)


def _run_gated(item: Op, shape: Shape, call: _Call) -> Shape:
    hidden = call(item.child("gate"), shape)
    call(item.child("act"), hidden)
    return call(item.child("down"), call(item.child("up"), shape))


def _run_transformer(item: Op, shape: Shape, call: _Call) -> Shape:
    hidden = call(item.child("embeddings"), shape)
    for block in item.child("layers").children.values():
        hidden = call(block, hidden)
    hidden = call(item.child("norm"), hidden)
    return call(item.child("head"), hidden if item.arg("lm") else (hidden[0], hidden[2]))


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
    if shape == "uniform":
        return [first] * depth
    if shape == "pyramid":
        return [max(last, first >> (i + 1)) for i in range(depth)]
    if shape == "gradual":
        return [round(first + (last - first) * (i + 1) / (depth + 1)) or 1 for i in range(depth)]
    middle = max(1, min(first, last, max(first, last) // 8))
    if shape == "bottleneck":
        return [middle if i % 2 else first for i in range(depth)]
    # hourglass: down to the middle layer, then up again
    half = max(1, (depth - 1) / 2)
    return [max(1, round(first - (first - middle) * (1 - abs(i - half) / half))) for i in range(depth)]


def _mlp(arch: Arch) -> tuple[Op, tuple[int, ...]]:
    steps: list[Op] = []
    width = arch["inp"]
    for out in widths(arch["shape"], arch["width"], arch["out"], arch["depth"]):
        steps.append(op("Linear", inp=width, out=out, bias=True))
        if arch["bn"]:
            steps.append(op("BatchNorm1d", n=out))
        steps.append(activation(arch["act"]))
        if arch["drop"]:
            steps.append(op("Dropout", p=arch["drop"]))
        width = out
    steps.append(op("Linear", inp=width, out=arch["out"], bias=True))
    if arch["softmax"]:
        steps.append(op("Softmax"))
    return sequential(*steps), (arch["inp"],)


def _conv_unit(arch: Arch, inp: int, out: int, stride: int = 1, *, last_act: bool = True) -> list[Op]:
    k, groups = arch["k"], inp if arch["separable"] and inp > 3 else 1
    bias = not arch["bn"]
    steps: list[Op] = []
    if groups > 1:
        steps.append(op("Conv2d", inp=inp, out=inp, k=k, stride=stride, groups=groups, bias=bias))
        steps.append(op("Conv2d", inp=inp, out=out, k=1, stride=1, groups=1, bias=bias))
    else:
        steps.append(op("Conv2d", inp=inp, out=out, k=k, stride=stride, groups=1, bias=bias))
    if arch["bn"]:
        steps.append(op("BatchNorm2d", n=out))
    if last_act:
        steps.append(activation(arch["act"], inplace=arch["inplace"]))
    if arch["drop"]:
        steps.append(op("Dropout", p=arch["drop"]))
    return steps


def _cnn(arch: Arch) -> tuple[Op, tuple[int, ...]]:
    shape, depth, base = arch["shape"], arch["depth"], arch["base"]
    steps: list[Op] = []
    channels = arch["chans"]
    side = arch["size"]
    plan = _cnn_widths(shape, base, depth, arch["cap"])
    for i, out in enumerate(plan):
        shrink = bool(arch["every"]) and i % arch["every"] == arch["every"] - 1 and side >= 4
        stride = 2 if shrink and arch["strided"] else 1
        if shape == "residual" and i:
            children = {"body": sequential(*_conv_unit(arch, channels, out, stride, last_act=False))}
            if stride > 1 or channels != out:
                children["shortcut"] = op("Conv2d", inp=channels, out=out, k=1, stride=stride, groups=1, bias=False)
            children["act"] = activation(arch["act"], inplace=arch["inplace"])
            steps.append(op("ResidualBlock", children))
            channels = out
        elif shape == "dense" and i:
            steps.append(op("DenseLayer", {"body": sequential(*_conv_unit(arch, channels, out))}))
            channels += out
            if stride > 1:
                steps.append(op("MaxPool2d"))
        else:
            steps += _conv_unit(arch, channels, out, stride)
            channels = out
        if shrink and not arch["strided"]:
            steps.append(op("MaxPool2d"))
        if shrink:
            side = (side + 1) // 2 if arch["strided"] and shape != "dense" else side // 2
    steps += [op("AdaptiveAvgPool2d"), op("Flatten")]
    steps.append(op("Linear", inp=channels, out=arch["classes"], bias=True))
    return sequential(*steps), (arch["chans"], arch["size"], arch["size"])


def _cnn_widths(shape: str, base: int, depth: int, cap: int) -> list[int]:
    if shape == "pyramid":
        return [min(cap, round(base * 1.36**i)) for i in range(depth)]
    if shape == "gradual":
        return [min(cap, base + round(base * i / 4)) for i in range(depth)]
    if shape == "hourglass":
        return widths("hourglass", base, base, depth)
    if shape == "bottleneck":
        return [max(4, base // 4) if i % 3 == 1 else base for i in range(depth)]
    if shape == "dense":
        return [base if i == 0 else max(4, base // 4) for i in range(depth)]
    if shape == "residual":
        return [min(cap, base * 2 ** (i // 4)) for i in range(depth)]
    return [base] * depth


def _transformer(arch: Arch) -> tuple[Op, tuple[int, ...]]:
    width, hidden, p = arch["width"], arch["ff"], arch["drop"]
    blocks = {}
    for i in range(arch["depth"]):
        if arch["gated"]:
            feed_forward = op(
                "GatedFeedForward",
                {
                    "gate": op("Linear", inp=width, out=hidden, bias=False),
                    "up": op("Linear", inp=width, out=hidden, bias=False),
                    "act": activation(arch["act"]),
                    "down": op("Linear", inp=hidden, out=width, bias=False),
                },
            )
        else:
            feed_forward = sequential(
                op("Linear", inp=width, out=hidden, bias=True),
                activation(arch["act"]),
                op("Dropout", p=p),
                op("Linear", inp=hidden, out=width, bias=True),
            )
        attention = op(
            "SelfAttention",
            {
                "qkv": op("Linear", inp=width, out=3 * width, bias=True),
                "dropout": op("Dropout", p=p),
                "out": op("Linear", inp=width, out=width, bias=True),
            },
            heads=arch["heads"],
            eager=arch["eager"],
            causal=arch["lm"],
        )
        blocks[str(i)] = op(
            "TransformerBlock",
            {
                "norm1": op("LayerNorm", n=width),
                "attention": attention,
                "dropout1": op("Dropout", p=p),
                "norm2": op("LayerNorm", n=width),
                "feed_forward": feed_forward,
                "dropout2": op("Dropout", p=p),
            },
            prenorm=arch["prenorm"],
        )
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
    model = op(
        "TransformerModel",
        {
            "embeddings": embeddings,
            "layers": op("ModuleList", blocks),
            "norm": op("LayerNorm", n=width),
            "head": op("Linear", inp=width, out=out, bias=not arch["lm"]),
        },
        lm=arch["lm"],
    )
    return model, (arch["seq"],)
