"""Models whose weights are packed into 4 or 8 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from estimator.adapters import without_adapters
from estimator.fingerprint import fingerprint
from estimator.methods.rad import Rad
from estimator.methods.rad.liveness import Memory, measure_part
from estimator.methods.rad.own_code import NOTHING
from estimator.methods.rad.program import compile_program, part_of
from estimator.methods.rad.workspace import Workspaces
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import Packed, SummaryError, Workload
from estimator.walk import layers
from tests.estimator.accounts import NO_WORKSPACE, account

WIDE = 4096
WORKLOAD = Workload(batch_size=2, precision="bf16")


def adapted(type_: str) -> str:
    """A print as peft's users have it: a block of two wide layers with LoRA beside the first, and a head."""
    return f"""PeftModel(
  (base_model): LoraModel(
    (model): Net(
      (one): lora.{type_}(
        (base_layer): {type_}(in_features={WIDE}, out_features={WIDE}, bias=False)
        (lora_dropout): ModuleDict(
          (default): Identity()
        )
        (lora_A): ModuleDict(
          (default): Linear(in_features={WIDE}, out_features=8, bias=False)
        )
        (lora_B): ModuleDict(
          (default): Linear(in_features=8, out_features={WIDE}, bias=False)
        )
      )
      (act): ReLU()
      (two): {type_}(in_features={WIDE}, out_features={WIDE}, bias=True)
      (head): Linear(in_features={WIDE}, out_features=16, bias=True)
    )
  )
)
"""


TABLE = """Layer (type:depth-idx)                   Output Shape              Param #
==========
Net                                      [2, 16]                   --
├─{0}: 1-1                        [2, 64]                   {1}
├─ReLU: 1-2                              [2, 64]                   --
├─{0}: 1-3                        [2, 128]                  {2}
├─Linear: 1-4                            [2, 16]                   2,064
==========
Total params: {3}
Trainable params: {4}
Non-trainable params: {5}
"""


@pytest.mark.parametrize(
    ("type_", "packed"), [("Linear4bit", Packed(2 * WIDE**2, 0)), ("Linear8bitLt", Packed(0, 2 * WIDE**2))]
)
def test_a_print_says_how_large_weights_were_before_they_were_packed(type_: str, packed: Packed) -> None:
    summary, whole = parse_summary(adapted(type_)), parse_summary(adapted("Linear"))
    assert summary.packed == packed
    assert (summary.total_params, summary.frozen_params) == (whole.total_params, whole.frozen_params)
    assert {layer.type for layer in layers(summary.root) if layer.params} == {"Linear"}
    assert fingerprint(summary, WORKLOAD) != fingerprint(whole, WORKLOAD)


def training(text: str, **workload: Any) -> Memory:
    run = Workload(batch_size=2, precision="bf16", **workload)
    shaped = with_shapes(without_adapters(parse_summary(text)), run)
    found = part_of(compile_program(shaped), shaped.total_params - shaped.frozen_params, run.precision)
    return measure_part(found, shaped, run, Workspaces(NO_WORKSPACE), NOTHING)


def test_packed_weights_take_what_holds_them() -> None:
    whole, four, eight = (training(adapted(type_)) for type_ in ("Linear", "Linear4bit", "Linear8bitLt"))
    assert whole.weights - four.weights == 2 * WIDE**2 * (2 - 0.5 - 4 / 64)
    assert whole.weights - eight.weights == 2 * WIDE**2
    assert (four.gradients, four.states) == (whole.gradients, whole.states)


def test_weights_in_8_bits_keep_what_they_are_multiplied_with() -> None:
    whole, four, eight = (training(adapted(type_)) for type_ in ("Linear", "Linear4bit", "Linear8bitLt"))
    assert four.kept == whole.kept
    assert eight.kept == whole.kept + 2 * WIDE * 2  # what goes into the second, which LoRA does not keep


def test_a_total_of_packed_numbers_behind_a_print_is_none_of_its_parameters() -> None:
    counted = parse_summary(adapted("Linear4bit")).total_params
    said = parse_summary(f"{adapted('Linear4bit')}Total params: {counted - WIDE**2:,}\n")
    assert said.total_params == counted
    other = parse_summary(f"{adapted('Linear4bit')}Total params: {2 * counted:,}\n")
    assert other.total_params == 2 * counted


def test_a_total_of_packed_numbers_may_count_a_tied_head_once() -> None:
    head = "      (head): Linear(in_features=4096, out_features=16, bias=True)\n"
    words = WIDE * 10_000
    tied = f"      (words): Embedding(10000, {WIDE})\n      (head): Linear({WIDE}, 10000, bias=False)\n"
    text = adapted("Linear4bit").replace(head, tied)
    counted = parse_summary(text).total_params
    said = parse_summary(f"{text}Total params: {counted - words - WIDE**2:,}\n")
    assert said.total_params == counted - words


def test_a_model_has_no_less_parameters_than_are_packed() -> None:
    said = parse_summary(f"{adapted('Linear8bitLt')}Total params: 100,000\n")
    assert said.total_params == said.packed.eight == 2 * WIDE**2


@pytest.mark.parametrize(
    ("type_", "rows", "total", "packed"),
    [
        ("Linear4bit", ("(512)", "(4,096)"), 4608 + 2064, Packed(1024 + 8192, 0)),
        ("Linear4bit", ("576", "4,224"), 4800 + 2064, Packed(1024 + 8192, 0)),  # with a bias each
        ("Linear8bitLt", ("(1,024)", "(8,192)"), 9216 + 2064, Packed(0, 1024 + 8192)),
        ("Linear8bitLt", ("1,088", "8,320"), 9408 + 2064, Packed(0, 1024 + 8192)),
    ],
)
def test_a_table_counts_the_numbers_that_hold_weights(
    type_: str, rows: tuple[str, str], total: int, packed: Packed
) -> None:
    bias = 0 if "(" in rows[0] else 64 + 128
    frozen = total - 2064 - bias
    summary = parse_summary(TABLE.format(type_, *rows, f"{total:,}", f"{total - frozen:,}", f"{frozen:,}"))
    assert summary.packed == packed
    assert summary.total_params == 1024 + 8192 + bias + 2064
    assert summary.frozen_params == 1024 + 8192


def test_an_inference_unpacks_one_layer_after_the_other() -> None:
    _, _, whole = account(adapted("Linear"), kind="infer", precision="bf16")
    _, _, four = account(adapted("Linear4bit"), kind="infer", precision="bf16")
    spared = 2 * WIDE**2 * (2 - 0.5 - 4 / 64)
    assert whole.weights - four.weights == spared
    assert whole.peak - four.peak == pytest.approx(spared - 2 * WIDE**2, rel=0.01)


def test_under_autocast_products_give_out_what_they_took(rad: Rad) -> None:
    summary = parse_summary(adapted("Linear4bit"))
    amp, fp32 = (rad.predict(summary, replace(WORKLOAD, precision=precision)) for precision in ("amp", "fp32"))
    assert (amp.expected_mib, amp.upper_mib) == (fp32.expected_mib, fp32.upper_mib)
    assert amp.fingerprint != fp32.fingerprint


DEEP = f"""Net(
  (layers): Sequential(
    (0-23): 24 x {{}}(in_features={WIDE}, out_features={WIDE}, bias=False)
  )
  (head): Linear(in_features={WIDE}, out_features=16, bias=True)
)
"""


@pytest.mark.parametrize(("type_", "spared"), [("Linear4bit", 2 - 0.5 - 4 / 64), ("Linear8bitLt", 1.0)])
def test_estimates_of_inferences_are_less_by_what_packing_spares(type_: str, spared: float, rad: Rad) -> None:
    workload = replace(WORKLOAD, kind="infer")
    whole = rad.predict(parse_summary(DEEP.format("Linear")), workload)
    packed = rad.predict(parse_summary(DEEP.format(type_)), workload)
    assert whole.expected_mib - packed.expected_mib == pytest.approx(24 * WIDE**2 * spared / 2**20, rel=0.2)


def test_before_what_is_trained_weights_are_unpacked_as_in_an_inference() -> None:
    text = DEEP.format("Linear4bit")
    whole, packed = (
        training(f"{part}Trainable params: 65,552\n{frozen}")
        for part, frozen in (
            (DEEP.format("Linear"), f"Non-trainable params: {24 * WIDE**2:,}\n"),
            (text, ""),
        )
    )
    assert packed.forward - packed.weights == pytest.approx(whole.forward - whole.weights + 2 * WIDE**2)


def test_a_rehearsal_of_packed_weights_does_not_count() -> None:
    rehearsed = "Rehearsed adam bf16 size (batch 1, 2): 70.5 in 86 MiB, 71.0 in 86 MiB\n"
    assert parse_summary(f"{TABLE.format('Linear', '1,024', '8,192', '11,280', '11,280', '0')}{rehearsed}").rehearsals
    summary = parse_summary(f"{TABLE.format('Linear4bit', '(512)', '(4,096)', '6,672', '2,064', '4,608')}{rehearsed}")
    assert summary.rehearsals == ()
    assert "what the rehearsal took does not count" in summary.inferred[-1]


def test_what_peft_counts_is_the_total_where_a_print_shows_no_sizes_of_experts() -> None:
    text = adapted("Linear4bit").replace("(act): ReLU()", "(experts): MixtralExperts()")
    with pytest.raises(SummaryError, match="how large 'MixtralExperts' are"):
        parse_summary(text)
    summary = parse_summary(f"{text}trainable params: 65,536 || all params: 500,000,000 || trainable%: 0.0131\n")
    assert (summary.total_params, summary.frozen_params) == (500_000_000, 499_934_464)
