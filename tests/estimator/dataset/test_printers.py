"""The texts of traces are what the tools print, and our parsers read them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from estimator.adapters import TRAINABLE
from estimator.dataset.plans import plan_of, trace_of
from estimator.dataset.printers import module_text, torchinfo_text, torchsummary_text
from estimator.dataset.trace import trace as traced
from estimator.dataset.tree import Call, Module, Trace
from estimator.parsers import parse_summary

TRANSFORMER = {
    "shape": "decoder",
    "vocab": 1000,
    "width": 64,
    "depth": 3,
    "heads": 4,
    "ff": 128,
    "seq": 16,
    "classes": 2,
    "drop": 0.1,
    "act": "GELU",
    "gated": False,
    "prenorm": True,
    "eager": True,
    "lm": True,
}
MLP = {
    "shape": "uniform",
    "inp": 10,
    "width": 8,
    "out": 3,
    "depth": 2,
    "act": "ReLU",
    "bn": True,
    "drop": 0.2,
    "softmax": False,
}


@pytest.fixture(scope="module")
def mlp() -> Trace:
    return trace_of(*plan_of("mlp", MLP))


@pytest.fixture(scope="module")
def transformer() -> Trace:
    return trace_of(*plan_of("transformer", TRANSFORMER))


def test_torchsummary_has_its_layout(mlp: Trace) -> None:
    lines = torchsummary_text(mlp, 32).splitlines()
    assert lines[0] == "-" * 64
    assert lines[1] == "        Layer (type)               Output Shape         Param #"
    assert lines[3] == "            Linear-1                    [32, 8]              88"
    assert lines[4] == "       BatchNorm1d-2                    [32, 8]              16"
    assert "Total params: 219" in lines
    assert not any("Sequential" in line for line in lines)


def test_torchsummary_skips_what_is_made_from_lists_and_counts_weights_and_biases_only() -> None:
    conv = Module("0", "Conv2d", "3, 8", 24, ())
    attention = Module("attn", "WindowAttention", "", 507, (Module("proj", "Linear", "8, 8", 72, ()),))
    norm = Module("norm", "BatchNormAct2d", "", 16, (Module("act", "ReLU", "", 0, ()),))
    mixed = Module("mixed", "MixedConv2d", "", 0, (conv,))
    parts = (Module("block", "Conv2dNormActivation", "", 0, (conv,)), mixed, attention, norm)
    shape = ("B", 8)
    calls = tuple(Call(index, depth, shape, shape) for index, depth in enumerate((0, 1, 2, 1, 2, 1, 2, 1, 2)))
    rows = torchsummary_text(Trace(Module("", "Net", "", 0, parts), calls, 643)).splitlines()[3:]
    assert [(row.split("-")[0].strip(), row.split()[-1]) for row in rows[: rows.index("=" * 64)]] == [
        ("Conv2d", "24"),
        ("Conv2d", "24"),
        ("MixedConv2d", "0"),
        ("Linear", "72"),
        ("WindowAttention", "0"),
        ("ReLU", "0"),
        ("BatchNormAct2d", "16"),
    ]


def test_torchsummary_without_a_batch_prints_minus_one(mlp: Trace) -> None:
    assert "[-1, 8]" in torchsummary_text(mlp)


def test_torchinfo_has_its_layout(transformer: Trace) -> None:
    text = torchinfo_text(transformer, 4, columns=("input_size", "output_size", "num_params"))
    lines = text.splitlines()
    assert lines[1].split() == ["Layer", "(type:depth-idx)", "Input", "Shape", "Output", "Shape", "Param", "#"]
    assert any(line.startswith("├─ModuleList: 1-2 ") for line in lines)
    assert any(line.startswith("│    └─TransformerBlock: 2-7 ") for line in lines)
    assert "[4, 16, 1000]" in lines[3]
    assert f"Total params: {transformer.total_params:,}" in lines


def test_torchinfo_adds_up_what_its_depth_hides(transformer: Trace) -> None:
    top = torchinfo_text(transformer, 4, depth=1)
    blocks = next(line for line in top.splitlines() if "ModuleList" in line)
    assert blocks.split()[-1].replace(",", "").isdigit()
    assert "TransformerBlock:" not in top


def test_torchinfo_names_variables(transformer: Trace) -> None:
    assert "├─Embeddings (embeddings): 1-1" in torchinfo_text(transformer, 4, var_names=True)


def test_print_collapses_equal_entries_of_a_list(transformer: Trace) -> None:
    text = module_text(transformer)
    assert "(0-2): 3 x TransformerBlock(" in text
    assert "    (tokens): Embedding(1000, 64)" in text
    assert "(2): TransformerBlock(" in module_text(transformer, collapse=False)


def test_print_with_parameters_ends_modules_with_their_sums(mlp: Trace) -> None:
    text = module_text(mlp, with_params=True)
    assert "(0): Linear(in_features=10, out_features=8, bias=True), 88 params" in text
    assert text.endswith("), 219 params")


@pytest.mark.parametrize("collapse", [True, False])
def test_our_parsers_read_every_text(transformer: Trace, mlp: Trace, collapse: bool) -> None:
    for trace in (transformer, mlp):
        texts = [
            torchsummary_text(trace, 4),
            torchsummary_text(trace),
            torchinfo_text(trace, 4, depth=9),
            torchinfo_text(trace, 4, depth=9, columns=("input_size", "output_size", "num_params")),
            module_text(trace, collapse=collapse),
            module_text(trace, collapse=collapse, with_params=True),
        ]
        for text in texts:
            assert parse_summary(text).total_params == trace.total_params, text[:300]


def test_torchinfo_puts_what_is_frozen_into_parentheses() -> None:
    layers = (Module("a", "Linear", "", 72, frozen=72), Module("b", "Linear", "", 36))
    block = Module("", "Net", "", 24, layers, frozen=24)
    calls = [Call(at, int(at > 0), ("B", 8), ("B", 8)) for at in range(3)]
    text = torchinfo_text(Trace(block, tuple(calls), 132, 96), 4)
    lines = [line.split() for line in text.splitlines()]
    assert [line[-1] for line in lines if line and line[-1].strip("()").isdecimal()] == [
        "(24)",
        "(72)",
        "36",
        "132",
        "36",
        "96",
    ]
    summary = parse_summary(text)
    assert (summary.total_params, summary.frozen_params) == (132, 96)
    assert [layer.said(TRAINABLE) for layer in summary.root.children] == ["False", ""]


def test_parameters_of_a_module_with_several_names_are_in_the_row_of_its_first_call() -> None:
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    model = nn.Sequential(first, nn.ReLU(), first, nn.Sequential(first, second), first)
    table = torchinfo_text(traced(model, lambda batch: ((torch.zeros(batch, 8),), {})), 2)
    rows = [(line[:25].strip(" ├─└│"), line.split()[-1]) for line in table.splitlines() if "[2, 8]" in line]
    assert rows == [
        ("Sequential", "--"),
        ("Linear: 1-1", "72"),
        ("ReLU: 1-2", "--"),
        ("Linear: 1-3", "(recursive)"),
        ("Sequential: 1-4", "--"),
        ("Linear: 2-1", "(recursive)"),
        ("Linear: 2-2", "72"),
        ("Linear: 1-5", "(recursive)"),
    ]
    assert "Total params: 144\n" in table
