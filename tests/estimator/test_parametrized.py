"""Layers whose weights PyTorch's own norms make anew at each call. What they take follows from what autograd keeps."""

from __future__ import annotations

import pytest

from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.types import Workload

PARAMS_MIB = 64


def block(type_: str, said: str, maker: str) -> str:
    return (
        f"  (fc): Parametrized{type_}(\n    {said}\n    (parametrizations): ModuleDict(\n"
        f"      (weight): ParametrizationList(\n        (0): {maker}()\n      )\n    )\n  )\n"
    )


LINEAR = "in_features=4096, out_features=4096, bias=False"


def net(layer: str) -> str:
    return f"Net(\n{layer}  (act): ReLU()\n)\n"


PLAIN = net(f"  (fc): Linear({LINEAR})\n")


@pytest.mark.parametrize("maker", ["_WeightNorm", "_SpectralNorm", "_Orthogonal"])
def test_a_print_is_read_as_the_layer(maker: str) -> None:
    made, plain = parse_summary(net(block("Linear", LINEAR, maker))), parse_summary(PLAIN)
    assert (made.root, made.total_params) == (plain.root, plain.total_params)
    assert made.made_anew == plain.total_params
    assert plain.made_anew == 0


@pytest.mark.parametrize(
    ("type_", "said", "maker"),
    [
        ("Linear", LINEAR, "MaxNormParametrize"),  # of others
        ("Head", LINEAR, "_WeightNorm"),
    ],
)
def test_others_stay_as_they_are_shown(type_: str, said: str, maker: str) -> None:
    summary = parse_summary(net(block(type_, said, maker) + f"  (last): Linear({LINEAR})\n"))
    assert summary.root.children[0].type == f"Parametrized{type_}"
    assert summary.made_anew == 0


SERIES = "8, 8, kernel_size=(3,), stride=(1,), padding=(1,)"


@pytest.mark.parametrize(("plain", "type_"), [(1, "Conv1d"), (2, "ParametrizedConv1d")])
def test_a_normed_convolution_of_series_among_more_that_are_not_stays_as_it_was_measured(
    plain: int, type_: str
) -> None:
    others = "".join(f"  ({at}): Conv1d({SERIES})\n" for at in range(plain))
    summary = parse_summary(net(block("Conv1d", SERIES, "_WeightNorm") + others))
    assert summary.root.children[0].type == type_
    assert summary.made_anew == (200 if type_ == "Conv1d" else 0)


def table(*rows: tuple[str, str, str], total: int) -> str:
    rule = "=" * 90
    body = "\n".join(f"{name:<45} {shape:<25} {params:<15}" for name, shape, params in rows)
    head = f"{'Layer (type:depth-idx)':<45} {'Output Shape':<25} {'Param #':<15}"
    return f"{rule}\n{head}\n{rule}\n{body}\n{rule}\nTotal params: {total:,}\n{rule}\n"


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_table_is_read_as_the_layer(depth: int) -> None:
    """Those of greater depth are hidden: their parameters stand in the last row above them."""
    inside = [
        ("├─ParametrizedLinear: 1-1", "[4, 8]", "8"),
        ("│    └─ModuleDict: 2-1", "--", "--"),
        ("│    │    └─ParametrizationList: 3-1", "[8, 16]", "128"),
        ("│    │    │    └─_SpectralNorm: 4-1", "[8, 16]", "--"),
    ][:depth]
    if depth < 3:
        inside[-1] = (*inside[-1][:2], "136" if depth == 1 else "128")
    summary = parse_summary(table(("Net", "[4, 8]", "--"), *inside, ("├─ReLU: 1-2", "[4, 8]", "--"), total=136))
    assert [(layer.type, layer.params, layer.output_shape) for layer in summary.root.children] == [
        ("Linear", 136, (8,)),
        ("ReLU", 0, (8,)),
    ]
    assert summary.made_anew == 136


def test_what_torchinfo_prints_of_the_pass_is_without_them() -> None:
    rows = [("Net", "[4, 8]", "--"), ("├─ParametrizedLinear: 1-1", "[4, 1000]", "136")]
    text = table(*rows, ("├─Block: 1-2", "[4, 8]", "100"), total=236)
    passed = "Forward/backward pass size (MB): {}\n"
    assert parse_summary(text + passed.format(0.5)).pass_mb == pytest.approx(0.5 + 4 * 1000 * 8e-6)
    plain = text.replace("ParametrizedLinear", "NormedLinear")
    assert parse_summary(plain + passed.format(0.5)).pass_mb == 0.5


@pytest.mark.parametrize(("hidden", "type_"), [(136, "Linear"), (137, "ParametrizedLinear")])
def test_a_table_that_hides_most_is_read_as_it_is_shown(hidden: int, type_: str) -> None:
    rows = [("Net", "[4, 8]", "--"), ("├─ParametrizedLinear: 1-1", "[4, 8]", "136")]
    summary = parse_summary(table(*rows, ("├─Block: 1-2", "[4, 8]", str(hidden)), total=136 + hidden))
    assert summary.root.children[0].type == type_
    assert summary.made_anew == (136 if type_ == "Linear" else 0)


@pytest.mark.parametrize(("precision", "each"), [("fp32", 4), ("amp", 4), ("bf16", 2)])
def test_what_is_made_is_kept_until_its_gradient_is_there(precision: str, each: int, rad: Rad) -> None:
    workload = Workload(65536, precision=precision)  # type: ignore[arg-type]
    made, plain = (
        rad.account(parse_summary(text), workload)[2] for text in (net(block("Linear", LINEAR, "_WeightNorm")), PLAIN)
    )
    assert made.loss - plain.loss == made.backward - plain.backward == 4096 * 4096 * each
    assert made.step == plain.step


def test_an_inference_keeps_nothing_of_it(rad: Rad) -> None:
    workload = Workload(64, kind="infer")
    made, plain = (
        rad.account(parse_summary(text), workload)[2] for text in (net(block("Linear", LINEAR, "_WeightNorm")), PLAIN)
    )
    assert made.peak == plain.peak
