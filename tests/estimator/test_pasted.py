"""What people paste: several summaries in one text, other libraries' words, tables that leave sizes open."""

from __future__ import annotations

import json
import re

import pytest

from estimator.methods.rad import Rad
from estimator.parsers import module, parse_summary
from estimator.shapes import with_shapes
from estimator.types import ModelSummary, SummaryError, Workload

NET = "Net(\n  (fc): Linear(in_features=7, out_features=5, bias=True)\n)\n"
LARGER = "Critic(\n  (fc): Linear(in_features=70, out_features=50, bias=True)\n)\n"
RULE = "=" * 64


def rows_of(*rows: str, total: int) -> str:
    """Write torchsummary's table of layers, a linear one each."""
    lines = "".join(f"            Linear-{at}              {row}\n" for at, row in enumerate(rows, 1))
    head = f"        Layer (type)               Output Shape         Param #\n{RULE}\n"
    return f"{head}{lines}{RULE}\nTotal params: {total:,}\n"


TABLE = rows_of("[-1, 3, 5]             40", total=40)
LARGER_TABLE = rows_of("[-1, 50]             3,550", total=3_550)


def keras_of(*rows: tuple[str, str, int], total: bool = True) -> str:
    """Write the table of Keras 2."""
    lines = [f"{f'x{at} ({type_})':31}{shape:27}{params}" for at, (type_, shape, params) in enumerate(rows)]
    head = [f"{'Layer (type)':31}{'Output Shape':27}Param #", RULE]
    end = [RULE, f"Total params: {sum(row[2] for row in rows):,}"] if total else []
    return "\n".join([*head, *lines, *end]) + "\n"


@pytest.mark.parametrize("text", [NET + TABLE, TABLE + NET, NET + TABLE + NET])
def test_of_one_model_the_table_counts_as_it_shows_the_input(text: str) -> None:
    assert parse_summary(text) == parse_summary(TABLE)


def test_a_model_that_is_printed_twice_is_one() -> None:
    assert parse_summary(f"{NET}moved to the GPU\n{NET}") == parse_summary(NET)
    assert parse_summary(TABLE + TABLE) == parse_summary(TABLE)


def test_a_class_of_its_own_is_the_same_model_whatever_its_print_does_not_show() -> None:
    table = (
        "Layer (type:depth-idx)   Output Shape   Param #\n=====\nNet   [8, 5]   30\n"
        "├─Linear: 1-1   [8, 5]   40\n=====\nTotal params: 70\n"
    )
    assert parse_summary(NET + table) == parse_summary(table)


def test_a_print_without_its_bare_weights_is_the_model_of_a_table() -> None:
    table = rows_of("[-1, 3, 5]             41", total=41)
    assert parse_summary(NET + table) == parse_summary(table)


@pytest.mark.parametrize("text", [NET + LARGER, LARGER + NET, TABLE + LARGER_TABLE, NET + LARGER_TABLE])
def test_the_larger_of_two_models_counts_and_the_other_is_named(text: str, rad: Rad) -> None:
    summary = parse_summary(text)
    assert summary.total_params == 3_550
    estimate = rad.predict(summary, Workload(8))
    assert "another model of 40 parameters beside it is not counted" in estimate.note
    assert any("another model of 40 parameters" in reason for reason in estimate.reasons)


def test_the_others_are_named_beside_sizes_that_do_not_count() -> None:
    pictures = LARGER_TABLE.replace(" Linear-1", " Conv2d-1").replace("[-1, 50]        ", "[-1, 8, 30, 30]")
    summary = parse_summary(f"{TABLE}{pictures}Input size (MB): 0.01\n")
    for workload in (Workload(8, seq_len=77), Workload(8, input_size=(3, 640, 640))):
        said = with_shapes(summary, workload).note.split("; ")
        assert len(said) == 2
        assert said[1] == "another model of 40 parameters beside it is not counted"


def test_so_many_models_of_a_text_are_read() -> None:
    text = "".join(f"Net{at}(\n  (fc): Linear(in_features={10**at}, out_features=1)\n)\n" for at in range(12))
    summary = parse_summary(text)
    assert summary.total_params == 10**8 + 1
    assert summary.note == "8 other models of 11,111,119 parameters beside it are not counted"


def test_what_is_no_model_beside_one_is_not_mentioned() -> None:
    text = f"{NET}Loss(\n  (inner): BCELoss()\n)\nAdam (\nParameter Group 0\n    lr: 0.1\n)\nBroken(\n  (fc): Linear(\n"
    assert parse_summary(text) == parse_summary(NET)


def test_a_table_behind_a_print_that_cannot_be_read_is_not_taken_for_it() -> None:
    with pytest.raises(SummaryError, match="left out"):
        parse_summary(f"Big(\n  (fc): Linear(in_features=4096, out_features=4096)\n  ...\n)\n{TABLE}")


def test_two_models_of_a_class_are_two() -> None:
    larger = LARGER.replace("Critic", "Net")
    assert parse_summary(NET + larger).note == "another model of 40 parameters beside it is not counted"


def test_the_larger_of_two_that_are_about_as_large() -> None:
    adapted = NET.replace("out_features=5, bias=True)", "out_features=5, bias=True), 40 params")
    larger = adapted.replace("40 params", "41 params")
    assert parse_summary(adapted + larger).total_params == 41


def test_prints_without_parameters_behind_a_model_are_not_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    parse = module.parse

    def counted(lines: list[str], start: int) -> tuple[ModelSummary, int]:
        read.append(start)
        return parse(lines, start)

    monkeypatch.setattr(module, "parse", counted)
    parse_summary(NET + "Loss(\n  (inner): BCELoss()\n)\n" * 100)
    assert len(read) <= 21


def test_a_layer_of_the_name_that_peft_gives_is_no_adapter() -> None:
    text = "Seg(\n  (enc): DLA(\n    (base_layer): Linear(3, 16)\n  )\n  (head): Linear(9, 9)\n)\n"
    assert parse_summary(text).frozen_params == 0


@pytest.mark.parametrize("before", ['{"msg": "start\\n"}\n', '"C:\\new\\train.py"\n'])
def test_what_begins_like_json_and_is_none(before: str) -> None:
    assert parse_summary(before + NET) == parse_summary(NET)


def test_the_print_behind_a_table_that_cannot_be_read() -> None:
    cut = TABLE.replace("[-1, 3, 5] ", "[-1, three]")
    assert parse_summary(cut + NET) == parse_summary(NET)
    with pytest.raises(SummaryError, match="three"):  # a part of it, perhaps, but not that model
        parse_summary(cut + LARGER)
    with pytest.raises(SummaryError, match="three"):
        parse_summary(cut.partition("Total")[0] + NET)


@pytest.mark.parametrize("lines", [NET.splitlines(keepends=True), [NET]], ids=["a list of lines", "one string"])
@pytest.mark.parametrize("indent", [1, None])
def test_notebooks_hold_lines_or_one_string(lines: list[str], indent: int | None) -> None:
    output = {"name": "stdout", "text": lines if len(lines) > 1 else lines[0]}
    cells = [{"cell_type": "code", "outputs": [output], "source": ['print("net\\n")\n', "net"]}]
    assert parse_summary(json.dumps({"cells": cells}, indent=indent)) == parse_summary(NET)
    assert parse_summary(json.dumps(output, indent=indent)[1:-1]) == parse_summary(NET)


def test_a_notebook_of_one_long_line() -> None:
    cells = [{"outputs": [{"text": NET.rstrip()}], "source": "# " + "x" * 9_000}]
    assert parse_summary(json.dumps({"cells": cells})) == parse_summary(NET)


def test_a_notebook_that_breaks_off_inside_of_a_string() -> None:
    with pytest.raises(SummaryError, match="no end"):
        parse_summary(json.dumps(["Net(\n", "  (fc): Linear(in_features=7, out_features=5)\n", ")"])[:-3] + '\\"')


@pytest.mark.parametrize(
    ("layer", "params"),
    [
        ("Linear(in_features = 7, out_features = 5, bias = False)", 35),
        ("QKVParallelLinear(in_features=7, output_features=5, bias=False, tp_size=1, gather_output=False)", 35),
        ("RowParallelLinear(input_features=7, output_features=5, bias=False, tp_size=1)", 35),
        ("ColumnParallelLinear(input_size=7, output_size=5, bias=True)", 40),
        ("ParallelLMHead(num_embeddings=7, embedding_dim=5, org_vocab_size=7, tp_size=1)", 35),
        ("RMSNorm(hidden_size=9, eps=1e-06)", 9),
    ],
)
def test_sizes_as_other_libraries_write_them(layer: str, params: int) -> None:
    assert parse_summary(f"Net(\n  (a): {layer}\n  (b): Linear(1, 1)\n)\n").total_params == params + 2


def test_packed_layers_with_sizes_behind_colons_are_refused() -> None:
    with pytest.raises(SummaryError, match=r"how large 'npu.QLinearPerGroup' are"):
        parse_summary(
            "Net(\n  (a): npu.QLinearPerGroup(in_features:7, out_features:5, w_bit:4)\n  (b): Linear(1, 1)\n)\n"
        )


ADAPTED = (
    "PeftModel(\n  (model): Net(\n"
    "    (words): Embedding(100, 8)\n"
    "    (proj): lora.Linear(\n"
    "      (base_layer): Linear(in_features=8, out_features=8, bias=False)\n"
    "      (lora_dropout): ModuleDict(\n        (default): Identity()\n      )\n"
    "      (lora_A): ModuleDict(\n        (default): Linear(in_features=8, out_features=2, bias=False)\n      )\n"
    "      (lora_B): ModuleDict(\n        (default): Linear(in_features=2, out_features=8, bias=False)\n      )\n"
    "      (lora_embedding_A): ParameterDict()\n"
    "    )\n{more}  )\n)\n"
)
HEAD = (
    "    (head): ModulesToSaveWrapper(\n"
    "      (original_module): Linear(in_features=8, out_features=3, bias=False)\n"
    "      (modules_to_save): ModuleDict(\n"
    "        (default): Linear(in_features=8, out_features=3, bias=False)\n      )\n    )\n"
)


@pytest.mark.parametrize(("more", "trained", "total"), [("", 32, 896), (HEAD, 56, 944)])
def test_adapters_are_trained_and_all_else_is_frozen(more: str, trained: int, total: int) -> None:
    summary = parse_summary(ADAPTED.replace("{more}", more))
    assert (summary.total_params, summary.frozen_params) == (total, total - trained)
    assert f"peft's adapters are trained, {trained} parameters, and all else is frozen" in summary.inferred


def test_adapters_that_are_bare_parameters_are_counted() -> None:
    vectors = "ParameterDict(  (default): Parameter containing: [torch.FloatTensor of size {}])"
    summary = parse_summary(
        "Net(\n  (proj): adalora.SVDLinear(\n    (base_layer): Linear(in_features=8, out_features=8, bias=False)\n"
        f"    (lora_A): {vectors.format('6x8')}\n    (lora_E): {vectors.format('6x1 (cuda:0)')}\n"
        "    (lora_embedding_A): ParameterDict()\n  )\n)\n"
    )
    assert (summary.total_params, summary.frozen_params) == (118, 64)


def test_an_adapter_that_prints_the_class_of_what_it_adapts() -> None:
    summary = parse_summary(
        "PeftModel(\n  (base_model): IA3Model(\n    (model): Net(\n      (proj): Linear(\n"
        "        (base_layer): Linear(in_features=8, out_features=4, bias=False)\n"
        "        (ia3_l): ParameterDict(  (default): Parameter containing: [torch.FloatTensor of size 4x1])\n"
        "      )\n    )\n  )\n)\n"
    )
    assert (summary.total_params, summary.frozen_params) == (36, 32)


def test_prompts_that_peft_learns_are_trained_and_the_words_beside_them_are_the_models() -> None:
    text = (
        "PeftModelForCausalLM(\n  (base_model): Net(\n    (words): Embedding(100, 8)\n    (fc): Linear(8, 8)\n  )\n"
        "  (prompt_encoder): ModuleDict(\n    (default): PromptEmbedding(\n      (embedding): Embedding(5, 8)\n    )\n"
        "  )\n  (word_embeddings): Embedding(100, 8)\n)\n"
    )
    summary = parse_summary(text)
    assert (summary.total_params, summary.frozen_params) == (912, 872)
    said = "trainable params: 40 || all params: 912 || trainable%: 4.3860\n"
    assert (parse_summary(text + said).total_params, parse_summary(text + said).frozen_params) == (912, 872)


@pytest.mark.parametrize(
    ("said", "frozen"),
    [
        ("trainable params: 10 || all params: 40 || trainable%: 25.0\n", 30),
        ("Total params: 40\nTrainable params: 5\nNon-trainable params: 35\n", 35),
        ("trainable params: some\n", 0),
        ("trainable params: 99\n", 0),
        ("Trainable params: 1 k\nNon-trainable params: 39\n", 0),
        ("Trainable params: 11\n", 0),
        ("trainable params: 10 || all params: 400 || trainable%: 2.5\n", 0),
    ],
)
def test_what_a_print_is_followed_by_tells_what_is_frozen(said: str, frozen: int) -> None:
    assert parse_summary(NET + said).frozen_params == frozen


def test_what_stands_behind_adapters_knows_better() -> None:
    said = "Total params: 896\nTrainable params: 16\nNon-trainable params: 880\n"
    assert parse_summary(ADAPTED.replace("{more}", "") + said).frozen_params == 880


SERIES = (
    ("InputLayer", "[(None, None)]", 0),
    ("Embedding", "(None, None, 30)", 3_000),
    ("LSTM", "(None, 20)", 4_080),
    ("Dense", "(None, 10)", 210),
)


def test_a_length_that_keras_leaves_open_is_the_users() -> None:
    summary = parse_summary(keras_of(*SERIES))
    shaped = with_shapes(summary, Workload(8, seq_len=50))
    assert [layer.output_shape for layer in shaped.root.children] == [(50,), (50, 30), (50, 20), (20,), (10,)]
    assert shaped.note == ""
    with pytest.raises(SummaryError, match="leaves open how long its series are: say `seq_len=N`"):
        with_shapes(summary, Workload(8))


def test_sizes_that_keras_leaves_open_are_one_where_few_parameters_depend_on_them() -> None:
    few = (("Embedding", "(None, None, 4)", 40), ("Dense", "(None, 10)", 410))
    assert with_shapes(parse_summary(keras_of(*few)), Workload(8)).root.children[0].output_shape == (1, 4)


def test_nothing_is_open_in_tables_of_other_libraries_that_show_empty_outputs() -> None:
    text = TABLE.replace("[-1, 3, 5]", "[-1, 0, 5]")
    assert with_shapes(parse_summary(text), Workload(8)).root.children[0].output_shape == (0, 5)


def test_a_name_of_keras_whose_type_is_on_the_next_line() -> None:
    text = keras_of(("Dense", "(None, 20)", 220), total=False)
    wrapped = text.replace(f"{'x0 (Dense)':31}(None, 20)", f"{'x0':31}(None, 20)") + "(Dense)\n"
    assert wrapped != text
    assert parse_summary(wrapped) == parse_summary(text)


def test_sides_of_pictures_that_keras_leaves_open_are_asked_for() -> None:
    text = keras_of(("InputLayer", "[(None, None, None, 3)]", 0), ("Conv2D", "(None, None, None, 8)", 224))
    with pytest.raises(SummaryError, match=r"line 4: 'x1 \(Conv2D\).*Input\(shape=\(224, 224, 3\)\).*memory=12G"):
        parse_summary(text)


def test_text_behind_a_table_of_keras_that_is_not_closed() -> None:
    rows = (("Dense", "(None, 20)", 220), ("Dense", "(None, 10)", 210))
    closed = parse_summary(keras_of(*rows))
    for behind in (
        "done\n",
        "This is the model that we train, as the table above shows\n",
        "\nAs before.\nLast line\n",
    ):
        assert parse_summary(keras_of(*rows, total=False) + behind).root == closed.root
    between = keras_of(rows[0], total=False) + "WARNING: slow\n" + keras_of(rows[1]).partition(f"{RULE}\n")[2]
    with pytest.raises(SummaryError, match=r"'WARNING: slow': this is no row of the table"):
        parse_summary(between)
    with pytest.raises(SummaryError, match=r"left out"):
        parse_summary(keras_of(*rows, total=False) + "...\n")
    twice = keras_of(*rows, total=False) + "And the other:\n" + keras_of(("Dense", "(None, 10)", 110))
    assert parse_summary(twice).note == "another model of 110 parameters beside it is not counted"


def test_a_column_of_keras_without_its_number_sign() -> None:
    text = keras_of(*SERIES[2:])
    assert parse_summary(text.replace("Param #", "Param")) == parse_summary(text)


def test_an_output_of_transformers_in_a_table_of_keras() -> None:
    with pytest.raises(SummaryError, match=r"TFBertModel.*inside, and Keras opens no such layer"):
        parse_summary(keras_of(("TFBertModel", "TFBaseModelOutputWit", 900), ("Dense", "(None, 10)", 210)))


def test_totals_on_one_line_with_others() -> None:
    text = keras_of(("Dense", "(None, 200)", 2_200)).replace(
        "Total params: 2,200", "Total params: 2,220 | Trainable params: 2,220"
    )
    assert parse_summary(text).total_params == 2_220


@pytest.mark.parametrize("count", ["36928", "36,928"])
@pytest.mark.parametrize("taken", [1, 3, 5])
def test_numbers_that_moved_out_of_their_column(count: str, taken: int) -> None:
    text = keras_of(("Dense", "(None, 64)", 36_928)).replace("36928", count, 1)
    assert parse_summary(text.replace(" " * taken + count, count, 1)) == parse_summary(text)


def test_a_collection_of_torchmetrics_ends_its_last_metric_with_a_comma() -> None:
    metrics = (
        "  (metrics): MetricCollection(\n    (MulticlassAccuracy): MulticlassAccuracy()\n"
        "    (MulticlassF1Score): MulticlassF1Score(),\n    prefix=val_,\n    postfix=/x\n  )\n"
    )
    summary = parse_summary(NET.replace("\n)", f"\n{metrics})"))
    assert summary.total_params == 40
    assert [part.type for part in summary.root.children] == ["Linear", "MetricCollection"]


def test_a_name_of_keras_that_is_cut_before_its_axes_has_those_of_its_shape() -> None:
    rows = (("SeparableConv…", "(None, 32, 32, 8)", 59), ("SeparableConv…", "(None, 32, 8)", 59))
    pictures, series = (parse_summary(keras_of(row)).root.children for row in rows)
    assert [part.type for part in pictures] == ["DepthwiseConv2D", "Conv2D"]
    assert [part.type for part in series] == ["SeparableConv1D"]
    narrow = keras_of(rows[0]).replace("59", "2,359,…", 1)
    with pytest.raises(SummaryError, match=r"'2,359,…' is not a number of parameters: print it .* COLUMNS=120"):
        parse_summary(narrow)
    (unknown,) = parse_summary(keras_of(("MyOwnLay…", "(None, 8)", 59))).root.children
    assert unknown.type == "MyOwnLay"


@pytest.mark.parametrize("text", [NET, TABLE])
@pytest.mark.parametrize("prefix", ["[rank{}]: ", "{}: "])
def test_what_several_processes_print_at_once_is_one_model(text: str, prefix: str) -> None:
    lines = text.splitlines()
    ranks = [f"{prefix.format(rank)}{line}" for line in lines for rank in range(3)]
    assert parse_summary("\n".join(ranks)) == parse_summary(text)
    assert parse_summary("\n".join(["started", *ranks, "epoch 1"])).root == parse_summary(text).root


def test_what_is_written_behind_what_several_processes_print_counts() -> None:
    lines = ["Net(", "  (fc): Linear(in_features=8, out_features=8)", "  (alpha): Scale()", ")"]
    ranks = [f"{rank}: {line}" for line in lines for rank in range(2)]
    assert parse_summary("\n".join([*ranks, "Total params: 74"])).total_params == 74


def test_a_number_that_keras_cuts_in_two_is_one() -> None:
    """As Keras 2 does in its own table of Xception."""
    table = """Layer (type)                   Output Shape         Param #     Connected to
==================================================================================
input_1 (InputLayer)           [(None, 147, 147, 6  0           []
                               4)]
block2_sepconv1 (SeparableConv (None, 147, 147, 12  8768        ['input_1[0][0]']
2D)                            8)
block3_conv (Conv2D)           (None, 147, 147,     16512       ['block2_sepconv1[0][0]']
                               128)
==================================================================================
"""
    shapes = [part.output_shape for part in parse_summary(table).root.children]
    assert shapes == [(64, 147, 147), (64, 147, 147), (128, 147, 147), (128, 147, 147)]


def test_what_trains_for_quantisation_is_refused() -> None:
    text = """Net(
  (conv): ConvBnReLU2d(
    3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False
    (bn): BatchNorm2d(64, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
    (activation_post_process): FusedMovingAvgObsFakeQuantize(
      fake_quant_enabled=tensor([1]), observer_enabled=tensor([1]), scale=tensor([1.])
      (activation_post_process): MovingAverageMinMaxObserver(min_val=inf, max_val=-inf)
    )
  )
  (fc): Linear(in_features=64, out_features=10, bias=True)
)
"""
    with pytest.raises(SummaryError, match=r"FakeQuantize layers .* claim"):
        parse_summary(text)
    assert parse_summary("# a FakeQuantize in a log\n" + text.replace("FakeQuantize", "")).total_params > 0


@pytest.mark.parametrize("before", ["Namespace(lr=0.1)\n", "CrossEntropyLoss()\n", "Loss(\n  (inner): BCELoss()\n)\n"])
def test_a_total_is_that_of_the_model_before_it_and_not_of_a_loss_or_arguments(before: str) -> None:
    said = "Total params: 40\n"
    assert parse_summary(before + NET + said) == parse_summary(NET + said)


def test_a_total_behind_the_second_of_two_prints_is_not_the_firsts() -> None:
    summary = parse_summary(f"{LARGER}{NET}Total params: 40\n")
    assert summary.total_params == 3_550
    assert summary.note == "another model of 40 parameters beside it is not counted"


@pytest.mark.parametrize("between", ["Loss(\n  (inner): BCELoss()\n)\n", "Adam (\nParameter Group 0\n    lr: 0.1\n)\n"])
def test_a_total_may_stand_behind_a_loss_and_an_optimizer(between: str) -> None:
    assert parse_summary(f"{NET}{between}Total params: 41\n").total_params == 41


@pytest.mark.parametrize("said", ["1.05", "1", "1.05 (M)", "1.0"])
def test_a_total_in_millions_that_does_not_say_so_does_not_count(said: str) -> None:
    text = "Net(\n  (fc): Linear(in_features=1023, out_features=1024)\n)\n"
    assert parse_summary(f"{text}Total params: {said}\n").total_params == 1024**2


def test_arguments_with_a_total_behind_them_are_no_model() -> None:
    with pytest.raises(SummaryError, match=r"line 1: 'Namespace\(lr=0.1\)': nothing in this print has parameters"):
        parse_summary("Namespace(lr=0.1)\nTotal params: 40\n")


@pytest.mark.parametrize(("behind", "line"), [("  (b2): Block(\n  )\n)\n", 7), ("), 120 params\n", 7)])
def test_a_print_whose_middle_is_gone_is_refused(behind: str, line: int) -> None:
    layer = "  (fc): Linear(in_features=7, out_features=5), 40 params\n"
    text = f"Net(\n  (b0): Block(\n  {layer}  ), 40 params\n{layer}), 80 params\n"
    assert parse_summary(text).total_params == 80
    with pytest.raises(SummaryError, match=f"line {line}: .*: lines before this one are missing"):
        parse_summary(text + behind)


def test_a_table_of_keras_that_was_cut_at_80_columns_says_how_it_is_not() -> None:
    cut = (
        "┏━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━\n┃ Layer (type)           ┃ Output Shape     \n"
        "┡━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━\n│ dense (Dense)          │ (None, 10)       \n"
        "└────────────────────────┴──────────────────\n Total params: 110 (440.00 B)\n"
    )
    with pytest.raises(SummaryError, match=r"line 2: .*right of this table is cut off: .* COLUMNS=120"):
        parse_summary(cut)


BOXED = (
    "┏━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━┓\n┃ Layer (type)   ┃ Output Shape ┃ Param # ┃\n"
    "┡━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━┩\n│ one            │ (None, 10)   │   1,110 │\n{}"
    "│ (Dense)        │              │         │\n"
    "├────────────────┼──────────────┼─────────┤\n│ two (Dense)    │ (None, 10)   │     110 │\n"
    "└────────────────┴──────────────┴─────────┘\n Total params: 1,220 (4.77 KB)\n"
)


def test_text_between_the_rows_of_a_frame_is_refused() -> None:
    assert parse_summary(BOXED.format("")).total_params == 1_220
    with pytest.raises(SummaryError, match="line 5: '<output truncated>': this is no row of the table"):
        parse_summary(BOXED.format("<output truncated>\n"))


def test_titles_of_keras_in_two_lines() -> None:
    narrow = BOXED.format("").replace("┃ Layer", "┃                ┃ Output       ┃ Param   ┃\n┃ Layer")
    narrow = narrow.replace("┃ Output Shape ┃ Param # ┃", "┃ Shape        ┃ #       ┃")
    assert parse_summary(narrow) == parse_summary(BOXED.format(""))


def test_a_header_that_is_cut_before_its_first_title_ends() -> None:
    with pytest.raises(SummaryError, match=r"line 3: '\| one \(Dense\)': expected `name \(Type\)"):
        parse_summary("Layer (type (var_nam\n=====\n| one (Dense)\nNone (None\n")


@pytest.mark.parametrize(
    "said", ["<output truncated>", "*** WARNING: skipped 12345 bytes of output ***", "-- snip --", "[12 lines omitted]"]
)
def test_words_that_tell_that_lines_were_left_out(said: str) -> None:
    with pytest.raises(SummaryError, match=r"line 3: .*lines were left out here"):
        parse_summary(NET.replace("\n)", f"\n  {said}\n)"))
    assert parse_summary(NET.replace("\n)", "\n  Truncated=3, omitted=True\n)")).total_params == 40


def test_a_layer_of_keras_that_is_not_built_yet_is_refused() -> None:
    table = (
        "Layer (type)          Output Shape      Param #\n=====\nfc (Dense)            (None, 9)         90\n{}=====\n"
    )
    unused = "act (ReLU)            ?                 0 (unbuilt)\n"
    assert parse_summary(table.format(unused)).total_params == 90
    with pytest.raises(SummaryError, match=r"line 4: .*this layer has no parameters yet: build the model"):
        parse_summary(table.format("out (Dense)           ?                 0 (unbuilt)\n") + "Total params: 190\n")


def test_blanks_between_thousands_are_no_end_of_a_number() -> None:
    with pytest.raises(SummaryError, match=r"line 4: .*: '1 110' is not a number of parameters"):
        parse_summary(BOXED.format("").replace("  1,110", "  1 110"))


@pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
def test_a_print_that_ends_further_in_than_its_layers_lacks_lines(indent: str) -> None:
    lines = ["Net(", "{0}(b): Linear(7, 5)", "{0}(a): Block(", "{0}{0}(fc): Linear(1, 1)", "{0})", ")"]
    text = "\n".join(lines).format(indent)
    assert parse_summary(text).total_params == 42
    assert parse_summary(text.replace(f"\n{indent}", f"\n    {indent}").replace("\n)", "\n    )")).total_params == 42
    assert parse_summary(text.replace(indent, "")).total_params == 42
    with pytest.raises(SummaryError, match=r"line 3: '\)': lines before this one are missing"):
        parse_summary("\n".join([*lines[:2], *lines[4:]]).format(indent))


# Two blocks, of which the second holds what PyTorch does not indent: a class that prints its part itself.
TWO = """Net(
  (a): Block(
    (one): Linear(7, 5)
    (two): Linear(5, 5)
  )
  (b): Own(
  (one): Linear(7, 5)
  )
  (c): Linear(5, 1)
)
"""


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (
            "    (two): Linear(5, 5)\n  )\n  (b): Own(\n",
            "line 4: '(one): Linear(7, 5)': lines before this one are missing",
        ),
        ("  (a): Block(\n", "line 5: '(b): Own(': lines before this one are missing"),
        ("  )\n  (b): Own(\n  (one): Linear(7, 5)\n", None),
        ("  (one): Linear(7, 5)\n", None),
    ],
)
def test_a_layer_that_stands_in_another_column_than_those_beside_it_lacks_lines(lost: str, said: str | None) -> None:
    assert lost in TWO
    if said is None:  # nothing tells that a line is missing
        assert parse_summary(TWO.replace(lost, "")).total_params > 0
        return
    with pytest.raises(SummaryError, match=re.escape(said)):
        parse_summary(TWO.replace(lost, ""))


def test_columns_that_numbers_of_lines_move_are_no_levels() -> None:
    text = TWO.replace("    (two)", "     (two)")
    assert parse_summary(text) == parse_summary(TWO)


def test_blanks_that_a_terminal_broke_off_are_no_other_column() -> None:
    for name in ("two", "b"):
        assert parse_summary(TWO.replace(f"({name})", f"\n({name})")) == parse_summary(TWO)


def test_a_block_that_holds_two_layers_of_one_name_is_refused() -> None:
    twice = TWO.replace("  (c): Linear(5, 1)\n", "  (c): Linear(5, 1)\n" * 2)
    with pytest.raises(SummaryError, match=r"line 11: '\)': two layers of the block that ends here have one name"):
        parse_summary(twice)
    assert parse_summary(twice.replace("(c)", "(d)", 1)).total_params > 0


def test_a_name_may_be_a_pair_of_numbers() -> None:
    grid = TWO.replace("(a)", "((0, 1))").replace("(b)", "((1, 1))")
    assert [layer.name for layer in parse_summary(grid).root.children] == ["(0, 1)", "(1, 1)", "c"]


@pytest.mark.parametrize("left", ["", " "])
def test_a_block_that_lost_its_name_is_refused(left: str) -> None:
    lost = TWO.replace("  (a): Block(", f"{left}Block(")
    with pytest.raises(SummaryError, match=r"line 2: 'Block\(': expected `\(name\): Type"):
        parse_summary(lost)


_SEVEN = "Linear(in_features=7, out_features=7)"


@pytest.mark.parametrize(
    ("places", "layers"),
    [
        ({"3": _SEVEN, "4": _SEVEN, "5": _SEVEN}, 3),  # a part of another list
        ({"3": _SEVEN, "5": _SEVEN}, 0),
        ({"3": _SEVEN, "4": "None", "5": _SEVEN}, 2),
        ({"3": _SEVEN, "4-5": "2 x None", "6": _SEVEN}, 2),
        ({"3": _SEVEN, "4-5": f"2 x {_SEVEN}", "6": _SEVEN}, 4),
        ({"3-5": f"3 x {_SEVEN}", "7": _SEVEN}, 0),
        ({"3": _SEVEN, "norm": "ReLU()", "5": _SEVEN}, 2),
    ],
)
def test_a_list_whose_numbers_show_that_layers_are_missing_is_refused(places: dict[str, str], layers: int) -> None:
    text = "Sequential(\n" + "".join(f"  ({name}): {layer}\n" for name, layer in places.items()) + ")\n"
    if layers:
        assert parse_summary(text).total_params == layers * 56
        return
    with pytest.raises(SummaryError, match=r"line 4: '\)': of the layers 3 to [57] of the block that ends here \d are"):
        parse_summary(text)
    assert parse_summary(text.replace("Sequential", "ModuleDict")).total_params


@pytest.mark.parametrize(
    "parts",
    [
        "Embedding(500, 128)\nLSTM(128, 256, batch_first=True)\nLinear(in_features=256, out_features=20)\n",
        f"{NET}AdaptiveAvgPool2d(output_size=1)\nLinear(in_features=5, out_features=3)\n",
        f"{LARGER}{NET}Linear(in_features=5, out_features=3)\n{NET}",
    ],
)
def test_parts_of_a_model_that_are_printed_one_by_one_are_not_taken_for_it(parts: str) -> None:
    with pytest.raises(SummaryError, match=r"'(LSTM|Linear)\(.*: this layer stands beside the one before, in no model"):
        parse_summary(parts)


def test_a_layer_of_a_model_that_is_printed_again_behind_it_is_a_part_of_it() -> None:
    again = NET + "Linear(in_features=7, out_features=5, bias=True)\nCrossEntropyLoss()\n"
    assert parse_summary(again) == parse_summary(NET)


CODE = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels=3, out_channels=64, kernel_size=3),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 8, kernel_size=3)
        )
        self.head = Linear(
            in_features=5,
            out_features=6,
        )
        self.last = [
            nn.Linear(in_features=5, out_features=6)
        ]
"""


def test_code_is_no_print() -> None:
    with pytest.raises(SummaryError, match=r"nothing in this print has parameters|no model summary starts here"):
        parse_summary(CODE)
    assert parse_summary(CODE + NET) == parse_summary(NET)
