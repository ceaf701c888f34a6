"""Layers that a block lists kind by kind, and uses in turn."""

from __future__ import annotations

import pytest

from estimator.layer import Layer
from estimator.shapes.listed import in_turn
from estimator.walk import layers
from tests.estimator.accounts import account
from tests.estimator.test_prints import block, conv, shapes


def norm(width: int, axes: int = 2) -> str:
    return f"BatchNorm{axes}d({width}, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)"


def point(taken: int, given: int) -> str:
    return f"Conv1d({taken}, {given}, kernel_size=(1,), stride=(1,))"


def linear(taken: int, given: int) -> str:
    return f"Linear(in_features={taken}, out_features={given}, bias=True)"


def used(text: str, **workload: object) -> list[tuple[str, tuple[int, ...] | None]]:
    root = account(text, **workload)[0].root
    return [(layer.type, layer.output_shape) for layer in layers(root) if not layer.children]


def test_norms_that_are_listed_behind_all_convolutions_are_used_behind_each() -> None:
    text = block("Net", conv1=conv(3, 8), conv2=conv(8, 16, step=2), bn1=norm(8), bn2=norm(16), pool="MaxPool2d(2)")
    assert used(text, input_size=(3, 8, 8))[:-1] == [
        ("Conv2d", (8, 8, 8)),
        ("BatchNorm2d", (8, 8, 8)),
        ("Conv2d", (16, 4, 4)),
        ("BatchNorm2d", (16, 4, 4)),
    ]


def test_of_points_the_largest_go_into_linear_layers() -> None:
    parts = {"conv1": point(3, 64), "conv2": point(64, 128), "fc1": linear(128, 32), "fc2": linear(32, 9)}
    norms = {"bn1": norm(64, 1), "bn2": norm(128, 1), "bn3": norm(32, 1)}
    text = block("TNet", **parts, relu="ReLU()", **norms)
    found = used(text, input_size=(3, 256))
    assert [shape for type_, shape in found if "Norm" in type_] == [(64, 256), (128, 256), (32,)]
    assert [shape for type_, shape in found if type_ == "Linear"] == [(32,), (9,)]
    attends = text.replace("(relu): ReLU()", "(attn): Attention()")
    assert shapes(attends, "Linear", input_size=(3, 256))[0] == (256, 32)
    wider = text.replace("kernel_size=(1,)", "kernel_size=(3,)", 1)
    assert shapes(wider, "Linear", input_size=(3, 256))[0] == (254, 32)


@pytest.mark.parametrize(
    "parts",
    [
        {"conv1": conv(3, 8), "bn1": norm(8), "conv2": conv(8, 8), "bn2": norm(8)},
        {"conv1": conv(3, 8), "conv2": conv(8, 8), "bn1": norm(8), "bn2": norm(16)},
        {"conv1": conv(3, 8), "bn1": norm(8), "bn2": norm(8)},
        {"linear1": linear(8, 32), "linear2": linear(32, 8), "norm1": "LayerNorm((8,))", "norm2": "LayerNorm((8,))"},
    ],
    ids=["in turn already", "of other widths", "one", "of tokens"],
)
def test_other_blocks_are_as_they_are_listed(parts: dict[str, str]) -> None:
    children = read(parts)
    assert in_turn(children) == children


def read(parts: dict[str, str]) -> tuple[Layer, ...]:
    made = []
    for name, text in parts.items():
        type_, _, inside = text.partition("(")
        pairs = [part.partition("=") for part in inside.split(", ")]
        args = tuple((key if said else str(at), value if said else key) for at, (key, said, value) in enumerate(pairs))
        made.append(Layer(type_, 0, args=args, name=name))
    return tuple(made)


def test_lists_of_convolutions_and_norms_and_pooling_go_together() -> None:
    convs = block("ModuleList", _0=conv(1, 8), _1=conv(8, 16), _2=conv(16, 16))
    norms = block("ModuleList", _0=norm(8), _1=norm(16), _2=norm(16))
    pools = block("ModuleList", _0="MaxPool2d(kernel_size=2, stride=2)", _1="MaxPool2d(kernel_size=2, stride=2)")
    text = block("Net", convs=convs, norms=norms, pools=pools, last=conv(16, 4))
    found = used(text, input_size=(1, 16, 16))
    assert [shape for _, shape in found] == [
        *[(8, 16, 16)] * 2,
        (8, 8, 8),
        *[(16, 8, 8)] * 2,
        (16, 4, 4),
        *[(16, 4, 4)] * 2,
        (4, 4, 4),
    ]


def test_lists_that_do_not_go_together() -> None:
    convs = block("ModuleList", _0=conv(3, 8), _1=conv(8, 16))
    for other in (
        block("ModuleList", _0=norm(8), _1=norm(8)),
        block("ModuleList", _0=conv(8, 8), _1=conv(16, 16)),
        block("ModuleList", _0=block("Block", a=norm(8)), _1=block("Block", a=norm(16))),
    ):
        types = [type_ for type_, _ in used(block("Net", convs=convs, other=other), input_size=(3, 8, 8))]
        assert types[:2] == ["Conv2d", "Conv2d"]
    apart = block("ModuleList", _0=conv(3, 8), _1=conv(3, 16))
    norms = block("ModuleList", _0=norm(8), _1=norm(16))
    types = [type_ for type_, _ in used(block("Net", convs=apart, norms=norms), input_size=(3, 8, 8))]
    assert types == ["Conv2d", "Conv2d", "BatchNorm2d", "BatchNorm2d"]
