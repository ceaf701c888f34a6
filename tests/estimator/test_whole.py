"""Tables of torchinfo that hide calls, or that somebody cut."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from contextlib import suppress

import pytest

from estimator.layer import Layer
from estimator.methods.rad import Rad
from estimator.parsers import SummaryError, parse_summary
from estimator.parsers.text import pass_mb, read_totals
from estimator.shapes import with_shapes
from estimator.types import ModelSummary, Workload

_HEAD = """=====
Layer (type:depth-idx)                   Output Shape              Param #
=====
"""
_TOTALS = """=====
Total params: {0:,}
Trainable params: {0:,}
=====
Input size (MB): {2:.2f}
Forward/backward pass size (MB): {1:.2f}
Params size (MB): {3:.2f}
=====
"""
SHARED = """Shared                                   [4, 10]                   --
├─Linear: 1-1                            [4, 64, 256]              16,640
├─Block: 1-2                             [4, 64, 256]              --
│    └─Linear: 2-1                       [4, 64, 512]              131,584
│    └─ReLU: 2-2                         [4, 64, 512]              --
├─LayerNorm: 1-3                         [4, 64, 256]              512
├─Linear: 1-{last}                            [4, 10]                   2,570
"""
_EACH = 4 * 64 * 256
_PARAMS = 16_640 + 131_584 + 512 + 2_570


def _table(rows: str = SHARED, last: int = 4, elements: int = 0, params: int = _PARAMS, *, share: float = 1.0) -> str:
    sizes = (elements * 8 / 1e6 * share, 4 * 64 * 64 * 4 / 1e6 * share, _PARAMS * 4 / 1e6 * share)
    return _HEAD + rows.format(last=last) + _TOTALS.format(params, *sizes)


def _types(summary: ModelSummary) -> list[str]:
    return [layer.type for layer in summary.root.children]


def _leaves(layer: Layer) -> int:
    return sum(map(_leaves, layer.children)) or 1


@pytest.mark.parametrize(
    ("last", "outputs", "types"),
    [
        (4, 4, []),
        (5, 5, ["LayerNorm"]),
        (10, 13, ["Block", "LayerNorm"] * 3),
        (10, 10, ["LayerNorm"] * 6),
    ],
)
def test_hidden_calls_are_those_that_make_up_the_printed_pass(last: int, outputs: int, types: list[str]) -> None:
    found = parse_summary(_table(last=last, elements=outputs * _EACH + 40))
    assert _types(found) == ["Linear", "Block", "LayerNorm", *types, "Linear"]
    assert found.total_params == _PARAMS
    assert sum(layer.params for layer in found.root.children) == _PARAMS - 131_584
    assert bool(types) == any("hides calls" in said for said in found.inferred)


def test_an_estimate_of_a_table_that_hides_calls_is_that_of_the_whole_one(rad: Rad) -> None:
    again = "".join(
        f"├─Block: 1-{1 + 2 * turn}                             [4, 64, 256]              (recursive)\n"
        f"│    └─Linear: 2-{1 + 2 * turn}                       [4, 64, 512]              (recursive)\n"
        f"│    └─ReLU: 2-{2 + 2 * turn}                         [4, 64, 512]              --\n"
        f"├─LayerNorm: 1-{2 + 2 * turn}                         [4, 64, 256]              (recursive)\n"
        for turn in range(1, 4)
    )
    *rows, last = SHARED.splitlines(keepends=True)
    whole = parse_summary(_table("".join(rows) + again + last, 10, 13 * _EACH + 40))
    hidden = parse_summary(_table(last=10, elements=13 * _EACH + 40))
    first, second = (rad.predict(each, Workload(256)).expected_mib for each in (whole, hidden))
    assert first == pytest.approx(second, rel=0.02)
    assert first > rad.predict(parse_summary(_table(elements=4 * _EACH + 40)), Workload(256)).expected_mib + 100


def test_a_model_that_is_called_again_as_a_whole_leaves_no_gap() -> None:
    found = parse_summary(_table(elements=3 * (4 * _EACH + 40)))
    assert _leaves(found.root) == 3 * 5
    assert found.total_params == _PARAMS
    assert _leaves(parse_summary(_table(elements=6 * _EACH)).root) == 5  # nothing tells


def test_calls_of_what_has_no_parameters_change_nothing() -> None:
    found = parse_summary(_table(last=6, elements=4 * _EACH + 40))
    assert _leaves(found.root) == 5
    assert "the table hides calls of layers that have no parameters, which are not counted" in found.inferred


def test_hidden_calls_that_nothing_explains_are_refused_with_the_cure() -> None:
    with pytest.raises(SummaryError, match=r"line 10: '├─Linear: 1-5 .*print the model without hide_recursive_layers"):
        parse_summary(_table(last=5, elements=9 * _EACH))


def test_where_blocks_hide_layers_a_note_says_that_calls_are_hidden() -> None:
    rows = SHARED.replace("├─LayerNorm: 1-3 ", "├─OwnBlock: 1-3  ")
    found = with_shapes(parse_summary(_table(rows, 5, 7 * _EACH)), Workload(16))
    assert "without hide_recursive_layers" in found.note
    assert not parse_summary(_table(rows, 4, 7 * _EACH)).note


def test_a_table_without_its_printed_pass_says_that_hidden_blocks_are_a_guess() -> None:
    hiding = _table(SHARED.replace("--\n│    └─Linear: 2-1", "131,584\n│    └─Linear: 2-1"), elements=3 * _EACH)
    hiding = "\n".join(line for line in hiding.splitlines() if "2-" not in line)
    cut = hiding.replace("Forward/backward", "")
    said = 'the line "Forward/backward pass size" is missing below the table'
    assert not parse_summary(hiding).note
    assert parse_summary(cut).note.startswith(said)
    assert parse_summary(cut).inferred[-1].startswith(said)
    assert not parse_summary(cut.replace("Block", "Linear")).note  # nothing is hidden


def test_lists_of_layers_that_repeat_their_numbers_leave_no_gap() -> None:
    block = "├─ModuleList: 1-{0}                        --                        (recursive)\n│    └─Linear: 2-{1}"
    block += "                       [4, 64, 256]              65,792\n"
    rows = "Listed                                   [4, 64, 256]              --\n"
    rows += "".join(block.format(4, number) for number in range(1, 5))
    found = parse_summary(_table(rows, elements=4 * _EACH, params=4 * 65_792))
    assert _leaves(found.root) == 4
    assert not found.inferred


@pytest.mark.parametrize("totals", [True, False])
def test_a_table_whose_middle_is_gone_is_refused(totals: bool) -> None:
    text = _table(last=9, elements=9 * _EACH, params=10 * _PARAMS)
    text = text if totals else text.partition("=====\nTotal")[0] + "=====\n"
    with pytest.raises(SummaryError, match=r"'├─Linear: 1-9 .*rows before this one are missing: paste the whole table"):
        parse_summary(text)


def test_a_table_whose_end_is_gone_is_refused() -> None:
    whole = _HEAD + SHARED.format(last=4)
    assert parse_summary(whole).total_params == _PARAMS  # without a rule and totals, and whole
    short = whole.rpartition("├─Linear")[0]
    assert parse_summary(short + "=====\n").total_params == _PARAMS - 2_570  # code makes what it gives out
    assert parse_summary(short.partition("=====\n")[2]).total_params == _PARAMS - 2_570  # selected without rules
    with pytest.raises(
        SummaryError, match=r"line 9: '├─LayerNorm: 1-3 .*ends before what the model gives out, \[4, 10\]"
    ):
        parse_summary(short)


@pytest.mark.parametrize("kept", ["Total", "Trainable", "Input size"])
def test_a_table_that_holds_less_than_half_of_what_its_totals_say_is_refused(kept: str) -> None:
    """Whichever of these lines are left."""
    text = _table(params=_PARAMS)
    before, totals = text.partition("Total")[0], kept + text.rpartition(kept)[2]
    assert parse_summary(before + totals).total_params == _PARAMS
    short = before.replace("│    └─Linear: 2-1                       [4, 64, 512]              131,584\n", "")
    with pytest.raises(SummaryError, match=r"rows before this one are missing"):
        parse_summary(short + totals)
    short = f"{before.partition('├─Block')[0]}=====\n"
    with pytest.raises(SummaryError, match=r"ends before what the model gives out, \[4, 10\]"):
        parse_summary(short + totals)
    bare = short.replace(
        "Shared                                   [4, 10]    ", "Shared                     [4, 64, 256]    "
    )
    assert parse_summary(bare + totals).total_params == pytest.approx(_PARAMS, rel=0.03)  # of bare parameters


def test_a_table_that_was_pasted_in_pieces_which_overlap_is_refused() -> None:
    text = _table()
    assert parse_summary(text).total_params == _PARAMS
    for end, start in (("├─LayerNorm", "│    └─Linear: 2-1"), ("├─Linear: 1-4", "├─Linear: 1-1")):
        with pytest.raises(SummaryError, match=f"{start} .*rows stand there twice"):
            parse_summary(text[: text.index(end)] + text[text.index(start) :])


def test_blocks_that_give_out_what_the_model_does_are_no_end_of_a_table() -> None:
    blocks = "".join(f"├─Linear: 1-{at}    [4, 10]    110\n" for at in range(1, 7))
    text = f"{_HEAD}Net    [4, 10]    --\n{blocks}"
    assert parse_summary(text + "=====\n").total_params == 660
    short = text.partition("├─Linear: 1-4")[0]
    with pytest.raises(SummaryError, match=r"line 7: '├─Linear: 1-3 .*the table ends here without a rule"):
        parse_summary(short)
    assert parse_summary(short.rpartition("├─Linear")[0]).total_params == 220


def test_a_table_of_no_samples_and_one_of_other_parameters_than_stated_are_refused() -> None:
    with pytest.raises(SummaryError, match=r"line 4: 'Shared .*no samples.*batch of one"):
        parse_summary(_table().replace("[4,", "[0,"))
    with pytest.raises(SummaryError, match=r"line 12: 'Total params: 15,130': .*add up to 151,306 .* and 15,130 are"):
        parse_summary(_table(params=15_130))
    assert parse_summary(_table(params=15_131)).total_params == 15_131


def test_a_table_in_half_precision_is_of_the_same_input() -> None:
    rows = SHARED.replace("16,640", "1,000,000")
    text = (_HEAD + rows.format(last=4) + _TOTALS).format
    params = _PARAMS - 16_640 + 1_000_000
    single, half = (
        text(params, 3 * _EACH * 2 * size / 1e6, 4 * 64 * 64 * size / 1e6, params * size / 1e6) for size in (4, 2)
    )
    asked = Workload(16, input_size=(64, 64))
    one, other = (with_shapes(parse_summary(each), asked) for each in (single, half))
    assert one.note == other.note == ""
    assert one.pass_mb == pytest.approx(other.pass_mb, abs=0.02)
    wrong = with_shapes(parse_summary(single), Workload(16, input_size=(64, 48)))
    assert "another input than input_size=64x48" in wrong.note


def test_a_table_half_of_which_is_never_called_is_not_in_half_precision() -> None:
    """As of GoogLeNet in eval mode: its other heads stand in the model's own row, and not in the size of parameters."""
    rows = SHARED.replace("16,640", "1,000,000").format(last=4)
    params = _PARAMS - 16_640 + 1_000_000
    totals = _TOTALS.format(2 * params, 3 * _EACH * 4 * 2 / 1e6, 4 * 64 * 64 * 4 / 1e6, params * 4 / 1e6)
    own = rows.replace("--", f"{params:,}", 1)
    assert own.splitlines()[0].startswith("Shared")
    summary = parse_summary(_HEAD + own + totals)
    assert (summary.total_params, summary.inferred) == (2 * params, ())
    assert summary.pass_mb == pytest.approx(3 * _EACH * 4 * 2 / 1e6, abs=0.01)


_TORCHSUMMARY = """----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Linear-1                   [-1, 32]             320
              ReLU-2                   [-1, 32]               0
            Linear-3                   [-1, 10]             330
================================================================
Total params: 650
"""
_TORCH_SUMMARY = """==========================================================================================
Layer (type:depth-idx)                   Output Shape              Param #
==========================================================================================
├─Linear: 1-1                            [-1, 32]                  320
├─ReLU: 1-2                              [-1, 32]                  --
├─Linear: 1-3                            [-1, 10]                  330
==========================================================================================
Total params: 650
"""
_KERAS_2 = """_________________________________________________________________
Layer (type)                 Output Shape              Param #
=================================================================
dense (Dense)                (None, 32)                320
_________________________________________________________________
re_lu (ReLU)                 (None, 32)                0
_________________________________________________________________
dense_1 (Dense)              (None, 10)                330
=================================================================
Total params: 650
"""
_KERAS_3 = """┏━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━┓
┃ Layer (type)            ┃ Output Shape           ┃     Param # ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━┩
│ dense (Dense)           │ (None, 32)             │         320 │
├─────────────────────────┼────────────────────────┼─────────────┤
│ re_lu (ReLU)            │ (None, 32)             │           0 │
├─────────────────────────┼────────────────────────┼─────────────┤
│ dense_1 (Dense)         │ (None, 10)             │         330 │
└─────────────────────────┴────────────────────────┴─────────────┘
 Total params: 650
"""


@pytest.mark.parametrize("text", [_TORCHSUMMARY, _TORCH_SUMMARY, _KERAS_2, _KERAS_3])
def test_a_table_that_begins_with_a_rule_and_ends_without_one_was_cut(text: str) -> None:
    lines = text.splitlines()
    whole = parse_summary(text)
    assert whole.total_params == 650
    assert parse_summary("\n".join(lines[:-1])) == whole
    assert parse_summary("\n".join(lines[1:-2])).root == whole.root  # selected without its outer rules
    for end in range(4, len(lines) - 2):
        with pytest.raises(SummaryError, match="the table ends here without a rule and its totals: paste all of it"):
            parse_summary("\n".join(lines[:end]) + "\n\n")


_KERAS_ROWS = (
    "input (InputLayer) │ (None, 32, 32, 3) │ 0",
    "base (Functional) │ (None, 8, 8, 16) │ 2,816",
    "   └ conv (Conv2D) │ (None, 16, 16, 16) │ 448",
    "   └ again (Functional) │ (None, 8, 8, 16) │ 2,352",
    "      └ deep (Conv2D) │ (None, 8, 8, 16) │ 2,320",
    "      └ norm (BatchNormalization) │ (None, 8, 8, 16) │ 32",
    "   └ last (Normalization) │ (None, 8, 8, 16) │ 16",
    "dense (Dense) │ (None, 10) │ 10,250",
    "head (Dense) │ (None, 200) │ 2,200",
)
_KERAS_TOTAL = 2_816 + 10_250 + 2_200


def _keras_3(rows: Sequence[str], total: int | None = _KERAS_TOTAL, more: str = "") -> str:
    body = "├────┼────┼────┤\n".join(f"│ {row} │\n" for row in rows)
    said = "" if total is None else f" Total params: {total:,} (59.63 KB)\n{more}"
    return f"┃ Layer (type) ┃ Output Shape ┃ Param # ┃\n┡━━╇━━╇━━┩\n{body}└──┴──┴──┘\n{said}"


def _without(*missing: int) -> list[str]:
    return [row for at, row in enumerate(_KERAS_ROWS) if at not in missing]


@pytest.mark.parametrize(
    ("missing", "quoted", "shown"),
    [
        ((8,), r"dense \(Dense\).* up to this one", "13,066"),
        ((7,), r"head \(Dense\).* up to this one", "5,016"),
        ((1, 2, 3, 4, 5, 6), r"head \(Dense\).* up to this one", "12,450"),
        ((2,), r"base \(Functional\).* inside of this one", "2,368"),
        ((4,), r"again \(Functional\).* inside of this one", "32"),
        ((3, 4, 5, 6), r"base \(Functional\).* inside of this one", "448"),
    ],
)
def test_a_table_of_keras_that_lacks_rows_is_refused(missing: tuple[int, ...], quoted: str, shown: str) -> None:
    why = rf"line \d+: '│ +(└ )?{quoted} add up to {shown} .*paste the whole table .*#RAD memory=12G"
    with pytest.raises(SummaryError, match=why):
        parse_summary(_keras_3(_without(*missing)))
    parts = f" Trainable params: {_KERAS_TOTAL - 32:,} (59.50 KB)\n Non-trainable params: 32 (128.00 B)\n"
    assert parse_summary(_keras_3(_KERAS_ROWS, None) + parts).total_params == _KERAS_TOTAL
    with pytest.raises(SummaryError, match=why):
        parse_summary(_keras_3(_without(*missing), None) + parts)


def test_inner_rows_of_keras_are_missed_without_a_total_too() -> None:
    assert parse_summary(_keras_3(_KERAS_ROWS, None)).total_params == _KERAS_TOTAL
    with pytest.raises(SummaryError, match=r"again \(Functional\).* inside of this one add up to 32 "):
        parse_summary(_keras_3(_without(4), None))


def test_a_table_of_keras_is_whole_without_few_weights_of_its_own_and_with_an_optimizers() -> None:
    whole = parse_summary(_keras_3(_KERAS_ROWS))
    own = parse_summary(_keras_3(_KERAS_ROWS, _KERAS_TOTAL + 150))  # as a class token has
    assert (own.root, own.total_params) == (whole.root, _KERAS_TOTAL + 150)
    assert parse_summary(_keras_3(_without(6))).root.children[1].type == "Functional"
    adam = _keras_3(_KERAS_ROWS, 3 * _KERAS_TOTAL + 2, f" Optimizer params: {2 * _KERAS_TOTAL + 2:,} (119.27 KB)\n")
    assert parse_summary(adam) == whole
    frozen = f" Trainable params: 10,250 (40.04 KB)\n Non-trainable params: {_KERAS_TOTAL - 10_250:,} (19.59 KB)\n"
    assert parse_summary(_keras_3(_KERAS_ROWS, more=frozen)).frozen_params == _KERAS_TOTAL - 10_250


def test_layers_that_two_inner_models_of_keras_share_are_shown_twice() -> None:
    rows = (
        "one (Sequential) │ (None, 32) │ 462",
        "   └ shared (Dense) │ (None, 10) │ 110",
        "   └ own (Dense) │ (None, 32) │ 352",
        "two (Sequential) │ (None, 16) │ 286",
        "   └ shared (Dense) │ (None, 10) │ 110",
        "   └ other (Dense) │ (None, 16) │ 176",
    )
    assert parse_summary(_keras_3(rows, 638)).total_params == 638


def _table_1_6(attention: str, total: int) -> str:
    """Write the table of torchinfo 1.6, which shows nothing of what the model itself gives out."""
    return f"""Layer (type:depth-idx)                   Output Shape              Param #
==========================================================================================
Net                                      --                        --
├─MultiheadAttention: 1-1                [4, 20, 16]               --
{attention}├─Linear: 1-2                            [4, 20, 10]               170
==========================================================================================
Total params: {total}
"""


def test_attention_in_tables_of_torchinfo_1_6_is_one_layer_as_later() -> None:
    shown = "│    └─NonDynamicallyQuantizableLinear: 2-1  --                    272\n"
    hidden, open_ = (parse_summary(table) for table in (_table_1_6("", 170), _table_1_6(shown, 442)))
    assert (open_.root, open_.total_params) == (hidden.root, hidden.total_params)
    assert [(part.type, part.params) for part in open_.root.children] == [
        ("MultiheadAttention", 4 * 16 * 17),
        ("Linear", 170),
    ]


def test_weights_that_torchinfo_does_not_count_are_refused() -> None:
    table = """Layer (type:depth-idx)                   Output Shape              Param #
=====
Net                                      [4, 10]                   --
├─ParametrizedConv2d: 1-1                [4, 8, 3, 3]              {own}
│    └─ModuleDict: 2-1                   --                        --
│    │    └─ParametrizationList: 3-1     [8, 3, 4, 4]              {made}
├─Linear: 1-2                            [4, 10]                   90
=====
Total params: {total}
"""
    assert parse_summary(table.format(own="8", made="384", total=482)).total_params == 482
    with pytest.raises(SummaryError, match=r"line 6: .*ParametrizationList.*parametrized weights: take torchinfo 1\.8"):
        parse_summary(table.format(own="--", made="--", total=90))


@pytest.mark.parametrize("blanks", ["    ", " ", ""])
def test_rows_without_numbers_are_as_deep_as_their_bars_are_many(blanks: str) -> None:
    table = """Layer (type (var_name))   Output Shape   Param #
=====
Net (Net)   [4, 10]   --
├─Sequential (body)   [4, 10]   --
│{0}└─Sequential (0)   [4, 10]   --
│{0}│{0}└─Linear (0)   [4, 10]   40
├─ReLU (act)   [4, 10]   --
=====
"""
    body, act = parse_summary(table.format(blanks)).root.children
    assert (body.children[0].children[0].params, act.type) == (40, "ReLU")


@pytest.mark.parametrize("cut", [60, 70, 72, 73, 89, 97, 110])
def test_rows_that_a_terminal_wraps_anywhere_between_or_in_numbers_of_a_shape(cut: int) -> None:
    table = """Layer (type:depth-idx)                   Input Shape               Output Shape              Param #
=======
Net                                      [4, 3, 128, 128]          [4, 1, 128, 128]          --
├─Conv2d: 1-1                            [4, 3, 128, 128]          [4, 1, 128, 128]          28
├─ReLU: 1-2                              [4, 1, 128, 128]          [4, 1, 128, 128]          --
=======
Total params: 28
"""
    lines = table.splitlines()
    wrapped = [part for line in lines[1:] for part in (line[:cut], line[cut:]) if part]
    assert parse_summary("\n".join([lines[0], *wrapped])) == parse_summary(table)


_UNLIKE_LAYERS = [
    ("", "Net", " (Net)", "", "--"),
    ("├─", "_Block", " (a)", ": 1-1", "--"),
    ("│    └─", "conv_block", " (b)", ": 2-1", "--"),
    ("│    │    └─", "Linear", " (fc)", ": 3-1", "1,240"),
    ("├─", "ReLU", " (act)", ": 1-2", "--"),
]
_ASCII = {"│": "|", "└─": "+ ", "├─": "+ "}


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("depths", [True, False])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("width", [34, 37, 52, 57, 90])  # inside of Output, at its end, inside and at the end of Param
def test_classes_that_are_written_as_weights_are_layers(
    *, names: bool, depths: bool, ascii_only: bool, width: int
) -> None:
    title = f"Layer (type{' (var_name)' if names else ''}{':depth-idx' if depths else ''})"
    rows = [f"{title:32}Output Shape        Param #", "=======\n"]
    for drawn, type_, name, depth, params in _UNLIKE_LAYERS:
        label = f"{drawn}{type_}{name if names else ''}{depth if depths else ''}"
        rows.append(f"{label:32}[4, 10]             {params}")
    text = "\n".join([*rows, "=======", "Total params: 1,240"])
    for drawn, plain in _ASCII.items() if ascii_only else ():
        text = text.replace(drawn, plain)
    wrapped = "\n".join([part for line in text.splitlines() for part in (line[:width], line[width:])])
    summary = parse_summary(wrapped)
    assert summary.total_params == 1_240
    block, act = summary.root.children
    (inner,) = block.children
    (layer,) = inner.children
    assert (block.type, inner.type, layer.type, act.type) == ("_Block", "conv_block", "Linear", "ReLU")
    assert (layer.params, layer.output_shape) == (1_240, (10,))


def test_weights_with_capitals_are_no_layers() -> None:
    table = """Layer (type)             Output Shape        Param #
=======
Net                      [4, 10]             21
├─W                                          ├─20
├─D                                          └─1
├─Linear                 [4, 10]             40
=======
"""
    (layer,) = parse_summary(table).root.children
    assert layer.type == "Linear"


@pytest.mark.parametrize("totals", ["", "Non-trainable params (Units.MEGABYTES): 0.00\n"])
def test_frozen_rows_are_frozen_where_no_total_says_it(totals: str) -> None:
    table = (
        "Layer (type:depth-idx)  Output Shape  Param #\n=====\nNet  [4, 10]  --\n"
        f"├─Linear: 1-1  [4, 3]  (50)\n├─Linear: 1-2  [4, 10]  40\n=====\n{totals}"
    )
    assert parse_summary(table).frozen_params == 50


def test_columns_that_show_nothing_may_stand_on_a_line_of_their_own() -> None:
    table = """Layer (type:depth-idx)  Output Shape  Param #  Mult-Adds
=======
Net                      [4, 10]{0}--   --
├─Linear: 1-1            [4, 10]{0}40   160
├─ReLU: 1-2              [4, 10]{0}--   --
=======
"""
    assert parse_summary(table.format("\n      ")) == parse_summary(table.format("   "))


def test_torch_summary_counts_nothing_of_a_block_that_holds_a_list() -> None:
    block = "|    └─MaxVitBlock: 2-1                 [-1, 64]                  {}\n"
    table = _TORCH_SUMMARY.replace("├─ReLU", "├─ModuleList: 1                          []              --\n{}├─ReLU")
    assert parse_summary(table.format(block.format(9))).total_params == 650
    opened = block.format("--") + "|    |    └─Linear: 3-1                 [-1, 64]                  99\n"
    assert parse_summary(table.format(opened)).total_params == 650
    with pytest.raises(SummaryError, match=r"MaxVitBlock.*print the model with depth=20"):
        parse_summary(table.format(block.format("--")))
    for type_ in ("DropBlock", "ShuffleBlock", "PositionalEncoder"):
        assert parse_summary(table.format(block.format("--").replace("MaxVitBlock", type_))).total_params == 650


def test_torch_summary_of_depth_1_hides_what_it_does_not_count() -> None:
    row = "├─Sequential: 1-9                        [-1, 64]                  {}\n├─ReLU"
    assert parse_summary(_TORCH_SUMMARY.replace("├─ReLU", row.format("9"))).total_params == 650
    with pytest.raises(SummaryError, match=r"Sequential: 1-9.*print the model with depth=20"):
        parse_summary(_TORCH_SUMMARY.replace("├─ReLU", row.format("999")))


def test_norms_without_mult_adds_have_their_usual_parameters_where_no_column_shows_them() -> None:
    table = """Layer (type:depth-idx)  Output Shape      Mult-Adds
=====
Net                      [4, 8, 30, 30]    --
├─Conv2d: 1-1            [4, 8, 30, 30]    806,400
├─BatchNormAct2d: 1-2    [4, 8, 30, 30]    --
│    └─Identity: 2-1     [4, 8, 30, 30]    --
├─Scale: 1-3             [4, 8, 30, 30]    --
=====
Total params: 248
"""
    assert [part.params for part in parse_summary(table).root.children] == [224, 16, 8]


@pytest.mark.parametrize("prefix", ["| ", "+", "|"])
@pytest.mark.parametrize("text", [_table(), _TORCH_SUMMARY, _TORCHSUMMARY])
def test_a_prefix_that_looks_like_a_branch_is_none(prefix: str, text: str) -> None:
    assert parse_summary("".join(prefix + line for line in text.splitlines(keepends=True))) == parse_summary(text)


_ROW = "├─Linear: {}            [2, 10]     110\n"


@pytest.mark.parametrize(
    ("rows", "outputs"),
    [
        (_ROW.format("1-1") + _ROW.format("1-2"), 40 * 100_000),
        # The block before the gap, with all that it holds, so many times more.
        (
            "├─Block: 1-1            [2, 10]     --\n│    └─Linear: 2-1       [2, 10]     110\n"
            + "".join(f"│    └─ReLU: 2-{n}         [2, 10]     --\n" for n in range(2, 50))
            + _ROW.format("1-5002"),
            20 * 5_002,
        ),
    ],
)
def test_more_calls_than_a_model_may_have_are_never_listed(rows: str, outputs: int) -> None:
    table = f"{_HEAD}Net                      [2, 10]     --\n{rows}=====\nTotal params: 220\n"
    text = f"{table}Forward/backward pass size (MB): {outputs * 8 / 1e6}\n"
    tracemalloc.start()
    with suppress(SummaryError):
        assert len(parse_summary(text).root.children) == 2
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10**6


_LISTS = """Net                                      [4, 10]                   --
├─Conv2d: 1-1                            [4, 8, 16, 16]            224
├─ModuleList: 1-2                        --                        --
│    └─Linear: 2-1                       [4, 16]                   32,784
│    └─Linear: 2-2                       [4, 10]                   170
"""


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (_LISTS.splitlines()[:3], r"line 6: '├─ModuleList: 1-2 .*ends before what the model gives out, \[4, 10\]"),
        ([*_LISTS.splitlines()[:3], "│    └─Lin"], r"line 7: '│    └─Lin'.*ends before what the model gives out"),
        ([*_LISTS.splitlines()[:2], "├─"], r"line 6: '├─': the table ends before what the model gives out"),
        ([*_LISTS.splitlines()[:3], "│"], r"line 7: '│': expected a layer"),
        (_LISTS.splitlines()[:1], r"line 4: 'Net .*ends before what the model gives out, \[4, 10\]"),
        (
            [_LISTS.splitlines()[0].replace("[4, 10]", "--     "), *_LISTS.splitlines()[1:4]],
            r"line 7: '│    └─Linear: 2-1 .*ends before what the model gives out, which it does not show",
        ),
    ],
)
def test_a_table_that_was_cut_behind_what_shows_no_size_is_refused(rows: list[str], why: str) -> None:
    assert parse_summary(_HEAD + _LISTS).total_params == 224 + 32_784 + 170
    with pytest.raises(SummaryError, match=why):
        parse_summary(_HEAD + "\n".join(rows))
    assert parse_summary(f"{_HEAD}Linear  [4, 10]  110").total_params == 110


_NAMED = """=====
Layer (type (var_name))                  Output Shape              Param #
=====
Net (Net)                                [4, 10]                   --
├─Block (block)                          [4, 16]                   --
│    └─Linear (line)                     [4, 16]                   272
├─Linear (head)                          [4, 10]                   170
=====
Total params: 442
=====
"""


def test_a_table_whose_tree_is_lost_is_refused() -> None:
    assert parse_summary(_NAMED).total_params == 442
    blank, without = (_NAMED.translate(dict.fromkeys(map(ord, "├└│─"), instead)) for instead in (" ", ""))
    for text in (blank, without):
        with pytest.raises(SummaryError, match=r"line [56]: '(Block|Linear) .*: expected a layer and 2 columns"):
            parse_summary(text)
    flat = "".join(line for line in without.splitlines(keepends=True) if not line.startswith("    Linear"))
    with pytest.raises(SummaryError, match=r"line 5: 'Block .*: what is drawn before layers is lost"):
        parse_summary(flat)


def test_totals_in_a_frame_are_those_without() -> None:
    text = _table()
    framed = text.replace("\n", " |\n").replace("Total params", "| Total params")
    assert read_totals(framed.splitlines(), 10) == read_totals(text.splitlines(), 10)
    assert pass_mb(read_totals(framed.splitlines(), 10)) is not None
