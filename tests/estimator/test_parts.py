"""Trainings of a part of a model: what is frozen keeps nothing that only its gradient would need."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.adapters import DROPS, RANK, TRAINABLE, without_adapters
from estimator.fingerprint import fingerprint
from estimator.layer import Layer
from estimator.methods.rad import Rad
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.known import LEVELS, run_of, tabulate
from estimator.methods.rad.liveness import CUBLAS, Memory, measure_part
from estimator.methods.rad.own_code import NOTHING
from estimator.methods.rad.program import Part, compile_program, part_of
from estimator.methods.rad.program.steps import Adapter
from estimator.methods.rad.workspace import Workspaces
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import Workload
from estimator.walk import layers
from tests.estimator.accounts import LM, NO_WORKSPACE, account, plain

# Two convolutions of 8 channels and a head; what torchinfo puts into parentheses is frozen.
CNN = """Layer (type:depth-idx)                   Output Shape              Param #
==========
Net                                      [2, 10]                   --
├─Conv2d: 1-1                            [2, 8, 16, 16]            {0}
├─ReLU: 1-2                              [2, 8, 16, 16]            --
├─Conv2d: 1-3                            [2, 8, 16, 16]            {1}
├─ReLU: 1-4                              [2, 8, 16, 16]            --
├─AdaptiveAvgPool2d: 1-5                 [2, 8, 1, 1]              --
├─Linear: 1-6                            [2, 10]                   90
==========
Total params: 898
Trainable params: {2}
Non-trainable params: {3}
"""
FROZEN = CNN.format("(224)", "(584)", 90, 808)
LAST = CNN.format("(224)", "584", 674, 224)
MLP = """Net(
  (one): Linear(in_features=8, out_features=16, bias=True)
  (two): Linear(in_features=16, out_features=16, bias=True)
  (head): Linear(in_features=16, out_features=4, bias=True)
)
"""
HEAD = "Trainable params: 68\nNon-trainable params: 416\n"


def adapted(type_: str = "lora.Linear", rank: int = 2, dropout: str = "Dropout(p=0.1, inplace=False)") -> str:
    return f"""PeftModel(
  (base_model): LoraModel(
    (model): Net(
      (one): Linear(in_features=8, out_features=16, bias=True)
      (two): {type_}(
        (base_layer): Linear(in_features=16, out_features=16, bias=True)
        (lora_dropout): ModuleDict(
          (default): {dropout}
        )
        (lora_A): ModuleDict(
          (default): Linear(in_features=16, out_features={rank}, bias=False)
        )
        (lora_B): ModuleDict(
          (default): Linear(in_features={rank}, out_features=16, bias=False)
        )
        (lora_embedding_A): ParameterDict()
        (lora_magnitude_vector): ModuleDict()
      )
      (act): GELU(approximate='none')
      (head): Linear(in_features=16, out_features=4, bias=True)
    )
  )
)
"""


def part(text: str, **workload: Any) -> tuple[Part, Memory]:
    run = Workload(**{"batch_size": 2, **workload})
    shaped = with_shapes(without_adapters(parse_summary(text)), run)
    found = part_of(compile_program(shaped), shaped.total_params - shaped.frozen_params, run.precision)
    return found, measure_part(found, shaped, run, Workspaces(NO_WORKSPACE), NOTHING)


def by_name(root: Layer) -> dict[str, Layer]:
    return {layer.name: layer for layer in layers(root)}


def test_before_the_first_layer_that_is_trained_nothing_is_kept() -> None:
    _, whole = part(CNN.format("224", "584", 898, 0))
    first, memory = part(FROZEN)
    assert (first.first, first.adapted) == (5, False)
    assert memory.kept == 2 * 4 * 8  # what goes into the head, of two samples
    assert whole.kept > 50 * memory.kept
    assert (memory.weights, memory.gradients, memory.states) == (4 * 898, 4 * 90, 8 * 90)
    assert memory.fixed == memory.weights + memory.gradients + memory.states


def test_what_is_frozen_still_works_with_what_it_reads_and_gives_out() -> None:
    _, memory = part(FROZEN)
    assert memory.peak == memory.forward >= memory.fixed - 4 * 90 + 2 * 4 * 2 * 8 * 256 + 2 * CUBLAS
    assert memory.backward < memory.forward


def test_a_convolution_keeps_its_input_behind_what_is_trained() -> None:
    one, memory = part(LAST)
    assert one.first == 2
    picture = 8 * 256
    # the second convolution's input, its ReLU's output, the head's input
    assert memory.kept == 2 * 4 * (2 * picture + 8)


def test_the_last_layers_are_trained_that_have_as_many_parameters() -> None:
    found, memory = part(MLP + HEAD)
    assert (found.first, memory.kept) == (2, 2 * 4 * 16)
    assert part(MLP + "Trainable params: 340\nNon-trainable params: 144\n")[0].first == 1
    # these are no last layers, and nobody knows which they are: each counts as if it were trained
    unknown, cautious = part(MLP + "Trainable params: 144\nNon-trainable params: 340\n")
    assert (unknown.first, cautious.kept) == (0, 2 * 4 * (8 + 16 + 16))
    assert cautious.gradients == 4 * 144


def test_a_table_does_not_say_whether_what_a_block_owns_itself_is_frozen() -> None:
    rows = "├─Block: 1-1                             [2, 16, 8]                24\n"
    rows += "│    └─Linear: 2-1                       [2, 16, 8]                (72)\n"
    rows += "├─Linear: 1-2                            [2, 16, 4]                36\n"
    text = f"Layer (type:depth-idx)    Output Shape    Param #\n==========\nNet    [2, 16, 4]    --\n{rows}==========\n"
    said = "Total params: 132\nTrainable params: 36\nNon-trainable params: 96\n"
    found, memory = part(text + said)
    assert [op.params for op in found.program.ops[found.first :]] == [36]
    assert memory.kept == 2 * 4 * 16 * 8


def test_a_head_that_is_the_word_embedding_begins_with_it() -> None:
    text = LM + "Total params: {:,}\n"
    summary = parse_summary(LM)
    words = 64 * 1000
    said = f"Trainable params: {words:,}\nNon-trainable params: {summary.total_params - words:,}\n"
    found, _ = part(text.format(summary.total_params) + said, seq_len=8)
    ops = found.program.ops
    assert found.program.shared == words
    assert ops[found.first].kind is Kind.EMBEDDING


def test_adapters_are_taken_out_and_noted() -> None:
    summary = parse_summary(adapted())
    root = without_adapters(summary).root
    found = by_name(root)
    assert (root.type, [child.type for child in root.children]) == ("Net", ["Linear", "Linear", "GELU", "Linear"])
    assert (found["two"].said(RANK), found["two"].said(DROPS)) == ("2", "True")
    assert [found[name].said(TRAINABLE) for name in ("one", "two", "head")] == ["False"] * 3
    assert by_name(without_adapters(parse_summary(adapted(dropout="Identity()"))).root)["two"].said(DROPS) == "False"


def test_a_model_without_adapters_stays_what_it_is() -> None:
    for text in (MLP, MLP + HEAD, FROZEN):
        summary = parse_summary(text)
        assert without_adapters(summary) is summary


def test_what_is_saved_with_the_adapters_is_trained() -> None:
    saved = """      (head): ModulesToSaveWrapper(
        (original_module): Linear(in_features=16, out_features=4, bias=True)
        (modules_to_save): ModuleDict(
          (default): Linear(in_features=16, out_features=4, bias=True)
        )
      )
"""
    text = adapted().replace("      (head): Linear(in_features=16, out_features=4, bias=True)\n", saved)
    head = by_name(without_adapters(parse_summary(text)).root)["head"]
    assert (head.type, head.params, head.said(TRAINABLE)) == ("Linear", 68, "")


@pytest.mark.parametrize(
    "text",
    [
        adapted("ia3.Linear"),
        adapted().replace(
            "(lora_magnitude_vector): ModuleDict()",
            "(lora_magnitude_vector): ModuleDict(\n          (default): lora.dora.DoraLinearLayer()\n        )",
        ),
    ],
    ids=["another adapter", "DoRA"],
)
def test_a_layer_with_another_adapter_counts_as_trained(text: str) -> None:
    found, memory = part(text)
    assert not found.adapted
    assert found.program.ops[found.first].kind is Kind.LINEAR
    assert memory.kept >= 2 * 4 * 16


@pytest.mark.parametrize(
    ("precision", "dropout", "kept"),
    [
        # of 16 numbers that go into the adapted layer: a copy, what is between, a mask; and GELU's input
        ("fp32", "Dropout(p=0.1, inplace=False)", 16 * 4 + 2 * 4 + 16 + 16 * 4),
        ("fp32", "Identity()", 16 * 4 + 2 * 4 + 16 * 4),
        ("bf16", "Dropout(p=0.1, inplace=False)", 16 * 4 + 2 * 4 + 16 + 16 * 2),
        ("amp", "Dropout(p=0.1, inplace=False)", 16 * 2 + 2 * 2 + 16 + 16 * 2),
    ],
)
def test_an_adapter_keeps_its_input_and_the_layers_around_it_only_what_they_need(
    precision: str, dropout: str, kept: int
) -> None:
    found, memory = part(adapted(dropout=dropout), precision=precision)
    assert (found.first, found.adapted) == (1, True)
    assert found.program.ops[1].adapter == Adapter(2, dropout.startswith("Dropout"))
    assert [op.kind for op in found.program.ops] == [
        Kind.LINEAR,
        Kind.FROZEN_LINEAR,
        Kind.KEEPS_INPUT,
        Kind.FROZEN_LINEAR,
    ]
    assert memory.kept == 2 * kept


def test_adapters_are_in_fp32_beside_weights_in_half_precision() -> None:
    _, memory = part(adapted(), precision="bf16")
    base, trained = 144 + 272 + 68, 64
    assert memory.weights == 2 * base + 4 * trained
    assert (memory.gradients, memory.states) == (4 * trained, 8 * trained)


def test_a_table_of_an_adapted_model_shows_no_names() -> None:
    rows = """├─LoraModel: 1-1                         [2, 4]                    --
│    └─Net: 2-1                          [2, 4]                    --
│    │    └─Linear: 3-1                  [2, 16]                   --
│    │    │    └─Conv1D: 4-1             [2, 16]                   (272)
│    │    │    └─ModuleDict: 4-2         --                        --
│    │    │    │    └─Dropout: 5-1       [2, 16]                   --
│    │    │    └─ModuleDict: 4-3         --                        --
│    │    │    │    └─Linear: 5-2        [2, 2]                    32
│    │    │    └─ModuleDict: 4-4         --                        --
│    │    │    │    └─Linear: 5-3        [2, 16]                   32
│    │    └─Linear: 3-2                  [2, 4]                    (68)
"""
    head = "Layer (type:depth-idx)    Output Shape    Param #\n==========\nPeftModel    [2, 4]    --\n"
    said = "==========\nTotal params: 404\nTrainable params: 64\nNon-trainable params: 340\n"
    root = without_adapters(parse_summary(head + rows + said)).root
    assert (root.type, [child.type for child in root.children]) == ("Net", ["Conv1D", "Linear"])
    assert (root.children[0].said(RANK), root.children[0].said(DROPS)) == ("2", "True")
    found, _ = part(head + rows + said)
    assert [op.kind for op in found.program.ops[found.first :]] == [Kind.FROZEN_LINEAR, Kind.FROZEN_LINEAR]


def test_a_frozen_norm_in_several_steps_does_not_keep_what_its_weight_is_multiplied_with() -> None:
    text = adapted().replace("(act): GELU(approximate='none')", "(norm): LlamaRMSNorm((16,), eps=1e-06)")
    found, memory = part(text, seq_len=8)
    assert [op.kind for op in found.program.ops[1:3]] == [Kind.FROZEN_LINEAR, Kind.FROZEN_RMS_NORM]
    tokens, width, rank = 8, 16, 2
    assert memory.kept == 2 * tokens * ((4 + 1 + 4) * width + 4 * rank)


def test_a_part_takes_less_than_all_and_no_less_than_an_inference() -> None:
    rad = Rad(plain())
    run = Workload(4000)
    whole, head = (rad.predict(parse_summary(text), run) for text in (CNN.format("224", "584", 898, 0), FROZEN))
    infers = rad.predict(parse_summary(FROZEN), Workload(4000, kind="infer"))
    assert infers.expected_mib <= head.expected_mib < whole.expected_mib
    assert head.expected_mib * 1.14 <= head.upper_mib
    assert head.reasons[0].startswith("90 of 898 parameters are trained")


def test_the_bound_of_a_part_of_what_was_never_measured_is_as_wide_as_that_of_all() -> None:
    bounds = {**dict.fromkeys(map(str, LEVELS), 3.0), "measured": 0.1}
    run, summary = Workload(4000), parse_summary(LAST)
    new = Rad(plain(bounds=bounds))
    shaped, program, _, _ = new.account(summary, run)
    known = Rad(plain(bounds=bounds, measured=tabulate([(run_of(program, shaped, Workload(3900)), 0.0)])))
    wide, narrow = new.predict(summary, run), known.predict(summary, run)
    assert wide.upper_mib > 1.5 * narrow.upper_mib
    assert narrow.upper_mib == pytest.approx(1.15 * narrow.expected_mib, rel=0.01)
    assert "nothing like this model was measured" in wide.reasons[0]
    assert "nothing like" not in narrow.reasons[0]


def test_what_was_measured_of_all_corrects_a_part() -> None:
    run, summary = Workload(4000), parse_summary(LAST)
    shaped, program, _, _ = Rad(plain()).account(summary, run)
    more = Rad(plain(measured=tabulate([(run_of(program, shaped, Workload(3900)), 0.5)])))
    assert more.predict(summary, run).expected_mib > 1.1 * Rad(plain()).predict(summary, run).expected_mib


def test_a_table_of_positions_that_is_frozen_makes_no_part_of_a_model() -> None:
    text = MLP.replace("(one)", "(words): Embedding(100, 8)\n  (one)")
    positions = text.replace("(one)", "(places): Embedding(50, 8)\n  (one)")
    said = "Trainable params: 1,284\nNon-trainable params: 400\n"
    rad = Rad(plain(bounds=dict.fromkeys(map(str, LEVELS), 0.02)))
    estimate = rad.predict(parse_summary(positions + said), Workload(64, 32))
    assert estimate.upper_mib < 1.05 * estimate.expected_mib
    assert estimate.reasons[0].startswith("nothing like this model was measured")


def test_an_inference_knows_no_frozen_parameters() -> None:
    rad, run = Rad(plain()), Workload(64, kind="infer")
    frozen, trained = (rad.predict(parse_summary(text), run) for text in (FROZEN, CNN.format("224", "584", 898, 0)))
    assert (frozen.expected_mib, frozen.upper_mib) == (trained.expected_mib, trained.upper_mib)


def test_a_part_is_another_job_than_all_of_a_model() -> None:
    marks = {fingerprint(parse_summary(text), Workload(2)) for text in (MLP, MLP + HEAD)}
    assert len(marks) == 2


def test_the_whole_of_a_model_is_no_part() -> None:
    _, program, memory = account(CNN.format("224", "584", 898, 0))
    found, same = part(CNN.format("224", "584", 898, 0))
    assert (found.first, len(found.program.ops), found.whole) == (0, len(program.ops), True)
    assert same == memory
