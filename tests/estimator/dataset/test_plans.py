"""Plans of synthetic models print and flow exactly as their torch modules do."""

from __future__ import annotations

import pytest
import torch

from estimator.dataset import trace as traces
from estimator.dataset.modules import build
from estimator.dataset.plans import activation, module_of, op, params_of, plan_of, trace_of, widths
from estimator.dataset.specs import generate_synthetic
from estimator.dataset.trace import Inputs
from estimator.dataset.tree import Trace
from estimator.types import Family


def _as_in_torch_211(trace: Trace) -> str:
    # torch 2.12 began to print norms' bias; the data set was printed with 2.11.
    parts = [(m.name, m.type, m.repr.replace(", bias=True, track", ", track"), m.params) for m in trace.modules()]
    return str([(n, t, r.removesuffix(", bias=True") if t == "LayerNorm" else r, p) for n, t, r, p in parts])


@pytest.mark.parametrize(("family", "draws", "kinds"), [("mlp", 12, 4), ("cnn", 230, 18), ("transformer", 38, 4)])
def test_plan_and_torch_module_agree(family: Family, draws: int, kinds: int) -> None:
    shapes = set()
    for spec in generate_synthetic(family, draws, 3):
        plan, shape = plan_of(family, spec.arch)
        small = params_of(plan) < 4e6 and (family != "cnn" or shape[1] <= 64)
        key = (spec.name, spec.arch.get("separable"), spec.arch.get("strided"), spec.arch.get("gated"))
        if not small and family != "transformer":
            continue
        if family == "transformer":
            arch = {**spec.arch, "vocab": 50, "width": 32, "ff": 64, "heads": 2, "depth": 2, "seq": 16}
            plan, shape = plan_of(family, arch)
        if key in shapes:
            continue
        shapes.add(key)

        def inputs(batch: int, shape: tuple[int, ...] = shape) -> Inputs:
            kind = torch.long if family == "transformer" else torch.float32
            return (torch.zeros(batch, *shape, dtype=kind),), {}

        with torch.device("meta"):  # shapes alone
            found, planned = traces.trace(build(plan), inputs), trace_of(plan, shape)
        assert found.calls == planned.calls, spec
        assert found.total_params == planned.total_params
        assert _as_in_torch_211(found) == _as_in_torch_211(planned)
    assert len(shapes) == kinds
    assert {key[0] for key in shapes} >= {"cnn": {"residual", "dense", "hourglass"}, "mlp": {"pyramid"}}.get(
        family, set()
    )


def test_patterns_have_their_shapes() -> None:
    assert widths("uniform", 100, 10, 3) == [100, 100, 100]
    assert widths("pyramid", 100, 10, 5) == [50, 25, 12, 10, 10]
    assert widths("gradual", 100, 20, 3) == [80, 60, 40]
    assert widths("bottleneck", 100, 60, 4) == [100, 12, 100, 12]
    down_up = widths("hourglass", 64, 64, 5)
    assert down_up[0] == down_up[-1] == 64
    assert min(down_up) == down_up[2] == 8


def test_a_plan_may_use_one_part_twice() -> None:
    part = op("Linear", inp=4, out=4, bias=False)
    trace = trace_of(op("Sequential", {"0": part, "1": part}), (4,))
    assert [c.module for c in trace.calls] == [0, 1, 2]
    assert trace.total_params == 32


def test_an_activation_says_whether_it_works_in_place() -> None:
    assert module_of(activation("ReLU", inplace=True)).repr == "inplace=True"
    assert module_of(activation("ReLU")).repr == ""


def test_a_dimension_that_hangs_on_the_batch_is_refused_where_a_number_is_needed() -> None:
    with pytest.raises(ValueError, match="depends on the batch"):
        trace_of(op("MaxPool2d"), ("B", "B", 4))  # type: ignore[arg-type]
