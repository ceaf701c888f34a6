"""FakeTensor: counts what a step keeps alive, allocates nothing, refuses a bare summary."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from estimator.faketensor import (
    FakeTensor,
    fake_mode,
    fake_model,
    first_sum,
    live_bytes_mode,
    own_inputs,
    peak_mib,
    plain_inputs,
    with_labels,
)
from estimator.parsers import parse_summary
from estimator.types import SummaryError, Workload

TEXT = "Linear(in_features=2048, out_features=2048, bias=False)"
MIB_OF_WEIGHTS = 2048 * 2048 * 4 / 2**20


def _build() -> nn.Module:
    return nn.Linear(2048, 2048, bias=False)


def _inputs(model: Any, batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.zeros(batch, 2048, dtype=model.weight.dtype),), {}


@pytest.mark.parametrize(("optimizer", "copies"), [("sgd", 2), ("sgd_momentum", 3), ("adam", 4)])
def test_weights_gradients_and_state_are_counted(optimizer: Any, copies: int) -> None:
    found = peak_mib(_build, _inputs, first_sum, Workload(1, optimizer=optimizer))
    assert copies * MIB_OF_WEIGHTS <= found <= (copies + (2.2 if optimizer == "adam" else 1.2)) * MIB_OF_WEIGHTS


def test_inference_keeps_weights_only_and_bf16_halves_them() -> None:
    plain = peak_mib(_build, _inputs, first_sum, Workload(1, kind="infer"))
    half = peak_mib(_build, _inputs, first_sum, Workload(1, kind="infer", precision="bf16"))
    assert plain == pytest.approx(MIB_OF_WEIGHTS, abs=0.1)
    # The fp32 weights that were cast are gone when the steps begin, but the peak has seen both.
    assert half <= 1.5 * MIB_OF_WEIGHTS


def test_activations_grow_with_the_batch() -> None:
    small, large = (peak_mib(_build, _inputs, first_sum, Workload(b, optimizer="sgd")) for b in (64, 1024))
    assert large - small > 1.5 * (1024 - 64) * 2048 * 4 / 2**20


class ReadsValues(nn.Module):
    """Looks into a tensor while it is built, as stochastic depth does."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = torch.linspace(0, 1, 3)[1].item()
        self.line = nn.Linear(2048, 2048, bias=False)

    @property
    def weight(self) -> torch.Tensor:
        return self.line.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.line(x) * self.rate


def test_a_model_that_reads_values_while_it_is_built_is_copied() -> None:
    found = peak_mib(ReadsValues, _inputs, first_sum, Workload(1, kind="infer"))
    assert found == pytest.approx(MIB_OF_WEIGHTS, abs=0.1)


def test_layers_that_a_model_copies_are_of_its_own_mode() -> None:
    fake = fake_mode()
    layers = fake_model(lambda: copy.deepcopy(nn.ModuleList([_build()])), fake)  # as a TransformerEncoder makes them
    assert [tensor.fake_mode for tensor in layers.parameters()] == [fake]


def test_live_bytes_forget_what_is_gone() -> None:
    mode = live_bytes_mode()
    with mode:
        one = torch.zeros(1000)
        two = one.view(10, 100)  # the same storage
        three = torch.zeros(500)
        assert mode.live == 6000
        del three
        assert (mode.live, mode.peak) == (4000, 6000)
        del one
        assert mode.live == 4000
        del two
        assert mode.live == 0
        mode.reset()
        assert mode.peak == 0


def test_the_method_predicts_with_code_and_refuses_without() -> None:
    summary = parse_summary(TEXT)
    found = FakeTensor(_build, _inputs).predict(summary, Workload(4))
    assert found.expected_mib == found.upper_mib >= 4 * MIB_OF_WEIGHTS
    assert (found.method, found.family) == ("faketensor", "mlp")
    assert len(found.fingerprint) >= 8
    with pytest.raises(SummaryError, match=r"only a summary .*radctl estimate takes it as --model MODULE:FACTORY"):
        FakeTensor().predict(summary, Workload(4))


def test_plain_inputs_are_numbers_or_tokens() -> None:
    ((numbers,), _) = plain_inputs((3, 4), None)(nn.Linear(1, 1).bfloat16(), 2)
    ((tokens,), _) = plain_inputs(None, 7)(nn.Linear(1, 1), 2)
    assert (tuple(numbers.shape), numbers.dtype) == ((2, 3, 4), torch.bfloat16)
    assert (tuple(tokens.shape), tokens.dtype) == ((2, 7), torch.long)
    with pytest.raises(ValueError, match="must know what goes in"):
        plain_inputs(None, None)


class Labelled(nn.Linear):
    """Takes labels, of which any number will do."""

    def forward(self, x: Any, labels: Any = None) -> Any:
        logits = super().forward(x)
        return SimpleNamespace(logits=logits, loss=None if labels is None else logits.sum() + labels.sum())


def test_labels_are_given_where_the_users_own_function_gives_none() -> None:
    def none(batch: int) -> dict[str, Any]:
        return {"x": torch.zeros(batch, 4)}

    def some(batch: int) -> dict[str, Any]:
        return {**none(batch), "labels": torch.zeros(batch, 7)}

    model = Labelled(4, 3)
    found = [with_labels(model, own_inputs(fed))(model, 2)[1]["labels"].shape for fed in (none, some)]
    assert found == [(2,), (2, 7)]


def test_a_loss_is_found_in_what_models_return() -> None:
    assert float(first_sum((None, torch.ones(2)))) == 2
    assert float(first_sum({"ids": torch.ones(2, dtype=torch.long), "logits": torch.ones(3)})) == 3
    with pytest.raises(TypeError, match="without a floating-point tensor"):
        first_sum(["nothing"])


def test_importing_the_module_imports_no_torch() -> None:
    code = "import sys, estimator.faketensor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
