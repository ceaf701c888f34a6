"""Trainings of a part of a model: what is frozen keeps nothing that only its gradient would need."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.adapters import DROPS, NORMS, RANK, TRAINABLE, without_adapters
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
from estimator.types import KINDS, Workload
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


def table(rows: str, total: int, trained: int, own: str = "--") -> str:
    head = f"Layer (type:depth-idx)    Output Shape    Param #\n==========\nNet    [2, 16, 4]    {own}\n"
    said = f"Total params: {total}\nTrainable params: {trained}\nNon-trainable params: {total - trained}\n"
    return f"{head}{rows}==========\n{said}"


BLOCKS = """├─Block: 1-1                             [2, 16, 8]                24
│    └─Linear: 2-1                       [2, 16, 8]                {0}
├─Block: 1-2                             [2, 16, 8]                24
│    └─Linear: 2-2                       [2, 16, 8]                {1}
├─Linear: 1-3                            [2, 16, 4]                36
"""


@pytest.mark.parametrize(
    ("rows", "own", "trained", "first"),
    [
        (("(72)", "(72)"), "--", 36, 2),  # what the blocks own is frozen
        (("(72)", "(72)"), "--", 60, 1),  # of the last one it is trained
        (("(72)", "(72)"), "--", 84, 0),
        (("72", "(72)"), "--", 108, 0),  # layers that are trained count, whatever as many others are
        (("(72)", "(72)"), "16", 52, 0),  # of the model's own, as a token that is learned
        (("(72)", "(72)"), "16", 44, 0),  # a part of something
        (("(72)", "72"), "--", 40, 0),  # biases, of anything
    ],
)
def test_a_table_does_not_say_whether_what_a_block_owns_itself_is_frozen(
    rows: tuple[str, str], own: str, trained: int, first: int
) -> None:
    total = 48 + 144 + 36 + (16 if own != "--" else 0)
    found, _ = part(table(BLOCKS.format(*rows), total, trained, own))
    assert found.first == first


def test_what_no_row_shows_may_be_trained_anywhere() -> None:
    rows = "├─Linear: 1-1                            [2, 16, 8]                (72)\n"
    rows += "├─Linear: 1-2                            [2, 16, 4]                36\n"
    assert part(table(rows, 113, 41))[0].first == 0
    assert part(table(rows, 108, 36))[0].first == 1


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("(body): Linear(in_features=8, out_features=16, bias=True)", "(prompt): Embedding(20, 8)"),
        (
            "(body): Linear(in_features=8, out_features=16, bias=True)",
            "(sees): Linear(in_features=8, out_features=20, bias=False)",
        ),
        ("(body): Linear(in_features=8, out_features=16, bias=True)", "(entry): Conv2d(5, 3, kernel_size=(1, 1))"),
        ("(body): Conv2d(3, 8, kernel_size=(3, 3))", "(entry): Conv2d(5, 3, kernel_size=(1, 1))"),
        (
            "(one): Linear(in_features=9, out_features=9, bias=True)",
            "(two): Linear(in_features=9, out_features=9, bias=True)",
        ),
    ],
    ids=["a prompt", "another way in", "pictures behind words", "an entry", "one of two"],
)
def test_the_last_that_a_print_shows_may_run_first(first: str, last: str) -> None:
    text = f"Net(\n  {first}\n  {last}\n)\n"
    summary = parse_summary(text)
    trained = summary.root.children[-1].params
    said = f"Trainable params: {trained}\nNon-trainable params: {summary.total_params - trained}\n"
    assert part(text + said, seq_len=8)[0].first == 0


def test_a_head_that_is_the_word_embedding_is_counted_once() -> None:
    shown = parse_summary(LM)
    twice = sum(layer.params for layer in layers(shown.root))
    said = "Trainable params: {:,}\nNon-trainable params: {:,}\n"
    for total in (shown.total_params, twice):  # by what counts it once, and twice
        summary = parse_summary(LM + said.format(16_448, total - 16_448))
        assert (summary.total_params, summary.total_params - summary.frozen_params) == (shown.total_params, 16_448)


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
        adapted().replace("LoraModel", "HRAModel"),
    ],
    ids=["another adapter", "another tuner"],
)
def test_a_model_with_other_adapters_counts_as_if_all_were_trained(text: str) -> None:
    found, memory = part(text)
    assert (found.first, found.adapted, found.whole) == (0, False, True)
    assert memory.kept >= 2 * 4 * (8 + 16 + 16)


def dora(dropout: str = "Identity()") -> str:
    magnitude = "(lora_magnitude_vector): ModuleDict(\n          (default): lora.dora.DoraLinearLayer()\n        )"
    return adapted(dropout=dropout).replace("(lora_magnitude_vector): ModuleDict()", magnitude)


@pytest.mark.parametrize(
    ("precision", "dropout", "each"),
    [
        ("fp32", "Dropout(p=0.1, inplace=False)", 4 + 4),
        ("amp", "Identity()", 2 + 2),
        ("bf16", "Identity()", 4 + 2),
        ("bf16", "Dropout(p=0.1, inplace=False)", 4 + 4),
    ],
)
def test_dora_keeps_both_products(precision: str, dropout: str, each: int) -> None:
    found, memory = part(dora(dropout=dropout), precision=precision)
    lora, plain = part(adapted(dropout=dropout), precision=precision)
    assert found.adapted
    assert not any(op.adapter and op.adapter.norms for op in lora.program.ops)
    assert memory.kept - plain.kept == 2 * 16 * each


def test_dora_works_with_copies_of_weights() -> None:
    wide = "(base_layer): Linear(in_features=16, out_features=16, bias=True)"
    (_, memory), (_, plain) = (
        part(text.replace(wide, wide.replace("out_features=16", "out_features=4096")))
        for text in (dora(), adapted(dropout="Identity()"))
    )
    assert memory.forward - plain.forward >= 4 * 3 * 16 * 4096


def test_dora_of_an_embedding_counts_as_if_all_were_trained() -> None:
    text = dora().replace("lora.Linear", "lora.Embedding").replace("DoraLinearLayer", "DoraEmbeddingLayer")
    text = text.replace("Linear(in_features=16, out_features=16, bias=True)", "Embedding(16, 16)")
    assert not part(text)[0].adapted


def test_a_table_of_dora_shows_each_matrix_twice() -> None:
    rows = """├─LoraModel: 1-1                         [3, 4]                    --
│    └─Net: 2-1                          [3, 4]                    --
│    │    └─Linear: 3-1                  [3, 16]                   --
│    │    │    └─Linear: 4-1             [3, 16]                   (272)
│    │    │    └─ModuleDict: 4-2         --                        --
│    │    │    │    └─DoraLinearLayer: 5-1 [3, 16]                 16
│    │    │    └─ModuleDict: 4-3         --                        --
│    │    │    │    └─Linear: 5-2        [16, 2]                   32
│    │    │    └─ModuleDict: 4-4         --                        --
│    │    │    │    └─Linear: 5-3        [16, 16]                  32
│    │    │    └─ModuleDict: 4-3         --                        (recursive)
│    │    │    │    └─Linear: 5-4        [3, 2]                    (recursive)
│    │    │    └─ModuleDict: 4-4         --                        (recursive)
│    │    │    │    └─Linear: 5-5        [3, 16]                   (recursive)
│    │    └─Linear: 3-2                  [3, 4]                    (68)
"""
    head = "Layer (type:depth-idx)    Output Shape    Param #\n==========\nPeftModel    [3, 4]    --\n"
    said = "==========\nTotal params: 420\nTrainable params: 80\nNon-trainable params: 340\n"
    first = without_adapters(parse_summary(head + rows + said)).root.children[0]
    assert (first.type, first.said(RANK), first.said(NORMS)) == ("Linear", "2", "True")


ONE_MATRIX = """│    └─ModuleDict: 2-2                   --                        --
│    │    └─Linear: 3-1                  [2, 4]                    64
"""
TWO_MATRICES = (
    ONE_MATRIX
    + """│    └─ModuleDict: 2-3                   --                        --
│    │    └─Linear: 3-2                  [2, 16]                   64
"""
)


@pytest.mark.parametrize(
    ("own", "beside", "trained", "whole"),
    [
        ("64", "", 64, True),
        ("16", TWO_MATRICES, 144, True),
        ("--", ONE_MATRIX, 64, True),
        ("--", TWO_MATRICES, 128, False),
    ],
    ids=["bare parameters", "a vector beside LoRA", "one matrix", "LoRA"],
)
def test_tables_of_other_adapters_count_as_if_all_were_trained(
    own: str, beside: str, trained: int, whole: bool
) -> None:
    rows = f"├─Linear: 1-1                            [2, 16]                   {own}\n"
    rows += f"│    └─Linear: 2-1                       [2, 16]                   (272)\n{beside}"
    rows += "├─Linear: 1-2                            [2, 4]                    (68)\n"
    assert part(table(rows, 340 + trained, trained))[0].whole is whole


def test_of_several_adapters_the_largest_counts() -> None:
    text = adapted(rank=2)
    for one, other in (
        ("in_features=16, out_features=2", "in_features=16, out_features=9"),
        ("in_features=2", "in_features=9"),
    ):
        line = next(line for line in text.splitlines() if f"(default): Linear({one}" in line)
        text = text.replace(line, f"{line}\n{line.replace('default', 'other').replace(one, other)}")
    assert part(text)[0].program.ops[1].adapter == Adapter(9, drops=True, norms=False)


@pytest.mark.parametrize(
    "words",
    [
        "(words): lora.Embedding(\n  (base_layer): Embedding(50, 8)\n  (lora_dropout): ModuleDict()\n)",
        "(words): TrainableTokensWrapper(\n  (original_module): Embedding(50, 8)\n  (token_adapter): "
        "TrainableTokensLayer(\n    (base_layer): Embedding(50, 8)\n  )\n)",
    ],
)
def test_an_embedding_with_an_adapter_is_where_gradients_end(words: str) -> None:
    text = adapted().replace("(one)", f"{words}\n      (one)")
    found, _ = part(text + "Trainable params: 100\nNon-trainable params: 884\n", seq_len=4)
    assert (found.first, found.program.ops[0].kind, found.adapted) == (0, Kind.EMBEDDING, True)


def test_an_adapter_whose_matrices_are_not_shown_keeps_a_copy_all_the_same() -> None:
    program = compile_program(with_shapes(without_adapters(parse_summary(adapted())), Workload(2)))
    extras = []
    for rank in (2, 0):
        program.ops[1].adapter = Adapter(rank, drops=True, norms=False)
        extras.append(part_of(program, 64, "fp32").program.ops[1].extra)
    assert extras == [16 + 2 + 16 // 4, 16 + 16 // 4]


def test_a_print_cannot_say_what_only_the_reader_notes() -> None:
    said = MLP.replace(
        "out_features=4, bias=True", "out_features=4, bias=True, trainable=False, rank=x, adapter_rank=-9"
    )
    assert part(said + HEAD)[1] == part(MLP + HEAD)[1]


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
    assert found.program.ops[1].adapter == Adapter(2, drops=dropout.startswith("Dropout"), norms=False)
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
    for precision in ("fp32", "amp"):
        assert part(adapted(), precision=precision)[1].weights == 4 * (base + trained)


def test_autocast_keeps_copies_of_frozen_weights_behind_what_is_trained() -> None:
    _, memory = part(adapted(), precision="amp")
    inputs, logits, copies = 2 * 8 * 4, 2 * 4 * 4, 2 * (272 + 68)
    assert memory.loss == memory.weights + memory.states + inputs + 2 * CUBLAS + copies + memory.kept + 3.65 * logits


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
    shaped, program, _ = new.account(summary, run)
    known = Rad(plain(bounds=bounds, measured=tabulate([(run_of(program, shaped, Workload(3900)), 0.0)])))
    wide, narrow = new.predict(summary, run), known.predict(summary, run)
    assert wide.upper_mib > 1.5 * narrow.upper_mib
    assert narrow.upper_mib == pytest.approx(1.15 * narrow.expected_mib, rel=0.01)
    assert "nothing like this model was measured" in wide.reasons[0]
    assert "nothing like" not in narrow.reasons[0]


def test_what_was_measured_of_all_corrects_a_part() -> None:
    run, summary = Workload(4000), parse_summary(LAST)
    shaped, program, _ = Rad(plain()).account(summary, run)
    more = Rad(plain(measured=tabulate([(run_of(program, shaped, Workload(3900)), 0.5)])))
    assert more.predict(summary, run).expected_mib > 1.1 * Rad(plain()).predict(summary, run).expected_mib


def test_a_table_of_positions_that_is_frozen_makes_no_part_of_a_model() -> None:
    text = MLP.replace("(one)", "(words): Embedding(100, 8)\n  (one)")
    positions = text.replace("(one)", "(places): Embedding(50, 8)\n  (one)")
    said = "Trainable params: 1,284\nNon-trainable params: 400\n"
    rad = Rad(plain(bounds=dict.fromkeys(map(str, LEVELS), 0.02)))
    estimate = rad.predict(parse_summary(positions + said), Workload(64, 32))
    assert estimate.expected_mib < estimate.upper_mib < 1.05 * estimate.expected_mib
    assert estimate.reasons[0].startswith("nothing like this model was measured")


def test_the_bound_is_no_less_than_that_of_an_inference() -> None:
    bounds = {**dict.fromkeys(map(str, LEVELS), 0.5), "measured": 0.5}
    run, infers = Workload(4000), Workload(4000, kind="infer")
    summary = parse_summary(FROZEN)
    shaped, program, _ = Rad(plain()).account(summary, run)
    known = [(run_of(program, shaped, Workload(3900, kind=kind)), float(kind == "infer")) for kind in KINDS]
    rad = Rad(plain(bounds=bounds, measured=tabulate(known)))
    head, inference = rad.predict(summary, run), rad.predict(summary, infers)
    assert head.upper_mib >= inference.upper_mib > 1.2 * inference.expected_mib
    assert head.expected_mib >= inference.expected_mib


def test_a_convolution_with_an_adapter() -> None:
    text = """Net(
  (one): lora.Conv2d(
    (base_layer): Conv2d(8, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
    (lora_dropout): ModuleDict(
      (default): Identity()
    )
    (lora_A): ModuleDict(
      (default): Conv2d(8, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
    )
    (lora_B): ModuleDict(
      (default): Conv2d(2, 8, kernel_size=(1, 1), stride=(1, 1), bias=False)
    )
  )
)
"""
    found, memory = part(text, input_size=(8, 16, 16))
    assert (found.program.ops[0].kind, found.program.ops[0].adapter) == (
        Kind.CONV,
        Adapter(2, drops=False, norms=False),
    )
    # what the convolution keeps, a copy of it, and two channels between the matrices
    assert memory.kept == 2 * 4 * 256 * (8 + 8 + 2)


def test_frozen_norms_give_out_fp32_under_autocast_too() -> None:
    text = adapted().replace(
        "(act): GELU(approximate='none')", "(norm): LlamaRMSNorm((16,), eps=1e-06)\n      (act): SiLU()"
    )
    found, memory = part(text, seq_len=8, precision="amp")
    tokens, width, rank = 8, 16, 2
    # the adapter's in half precision, the norm's input, and SiLU's: what the norm gives out
    assert memory.kept == 2 * tokens * ((2 + 1 + 4 + 4) * width + 2 * rank)
    assert found.adapted


def test_more_may_be_said_to_be_frozen_than_there_is() -> None:
    said = FROZEN.replace("Non-trainable params: 808", "Non-trainable params: 99,999")
    estimate = Rad(plain()).predict(parse_summary(said), Workload(64))
    assert estimate.reasons[0].startswith("0 of 898 parameters are trained")
    assert 750 < estimate.expected_mib <= estimate.upper_mib


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
