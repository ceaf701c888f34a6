"""Whatever a summary says, work on it ends soon after it is told to: no loop over users' text is without a breath."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from unittest.mock import patch

import pytest

from estimator import breath
from estimator.breath import OFTEN
from estimator.gpumemnet.described import from_summary, totals
from estimator.layer import Layer
from estimator.methods import load_method
from estimator.parsers import module, parse_summary, torchinfo
from estimator.parsers.text import MAX_LINE, _split
from estimator.types import SummaryError, Workload
from predictor.profiles import estimate_profile

RAD = load_method("rad")
MANY = 3200
SOME = 640
NET = "Net(\n  (a): Linear(in_features=8, out_features=4, bias=True)\n)\n"
TORCHINFO = "Layer (type:depth-idx)  Output Shape  Param #\n=====\n"
TORCHSUMMARY = "Layer (type) Output Shape Param #\n=====\n"
KERAS = "┃ Layer (type) ┃ Output Shape ┃ Param # ┃\n"
LOOP = "GRU-1 [-1, 1, 8] 0\nLinear-2 [-1, 1, 8] 72\n" * 9


def rows(text: str, count: int = MANY) -> str:
    return "".join(text.replace("#", str(number + 1)) for number in range(count))


def net(inner: str, type_: str = "Net") -> str:
    return f"{type_}(\n(c): Conv2d(3, 8, kernel_size=3)\n{inner})\n"


@pytest.fixture
def breaths() -> Iterator[Callable[[str], Counter[str]]]:
    """Tells how often each function has breathed while a text was worked on."""
    counts: Counter[str] = Counter()

    def breathe() -> None:
        counts[sys._getframe(1).f_code.co_name] += 1

    def of(text: str) -> Counter[str]:
        with suppress(SummaryError):
            summary = parse_summary(text)
            RAD.predict(summary, Workload(8))
            estimate_profile(summary, Workload(8), "h200")
            totals(from_summary(summary), 8)
        return counts

    with ExitStack() as stack:
        for one in list(sys.modules.values()):
            if one is not breath and getattr(one, "breathe", None) is breath.breathe:
                stack.enter_context(patch.object(one, "breathe", breathe))
        yield of


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("clean", "\tx\n" * MANY),
        ("first_line", "\n" * MANY),
        ("first_line", TORCHSUMMARY + "=\n\n" * MANY),
        ("from_notebook", '"x\\n",\n' * MANY),
        ("_without", "1: Net(\n" + "2: x\n" * MANY),
        ("read_totals", NET + "size: 1\n" * MANY),
        ("_rows", TORCHINFO + "\n" * MANY),
        ("_rows", TORCHINFO + "├─Linear: 1-1  [1, 8]  72\n" * MANY),
        ("_unindented", " " + TORCHINFO + "├─Linear: 1-1  [1, 8]  72\n" * MANY),
        ("_shapes", TORCHINFO + rows("├─Linear: 1-1  [1, #]  72\n")),
        ("batch_of", TORCHINFO + rows("├─Linear: 1-1  [1, #]  72\n")),
        ("nest", TORCHINFO + "├─Linear: 1-1  [1, 8]  72\n" * MANY),
        ("_channels_last", KERAS + rows("│ a (Dense) │ (1, #) │ 72 │\n")),
        ("unrolled", KERAS + rows("│ a (LSTM) │ (1, #, 8) │ 72 │\n")),
        ("_calls", KERAS.replace("# ┃", "# ┃ Connected to ┃") + rows("│ a (Dense) │ (1, 8) │ 72 │ a[0][0] │\n")),
        ("_unseen", TORCHSUMMARY + rows("Attention-# [-1, 8, 8] 9\n")),
        ("sort_of", TORCHSUMMARY + rows("T#-# [-1, 5] 1\n")),
        ("_alone", TORCHSUMMARY + rows("U#-# [-1, 5] 1\n")),
        ("_turns", TORCHSUMMARY + LOOP + rows("GRU-# [-1, 1, #] 0\n") + f"ReLU-{MANY + 19} [-1, 8] 0\n"),
        ("weighed", TORCHSUMMARY + rows("LSTM-# [-1, #, 8] 0\n")),
        ("around", TORCHINFO + "BertModel [1, 8, 8] --\n" + rows("├─ModuleList: 1-#  [1, 8, 8]  72\n")),
        (
            "in_turn",
            net(rows("(b#): Linear(in_features=8, out_features=8)\n") + rows("(n#): BatchNorm1d(8)\n", 2)),
        ),
        ("_zipped", net(rows("(b#): ModuleList(\n(0): ReLU()\n)\n"))),
        ("_counted_again", TORCHSUMMARY + rows("LSTMCell-# [-1, 8] 9\n")),
        ("windows", TORCHSUMMARY + rows("Attention-# [-1, 8, 8] 9\n")),
        ("_parts", net(f"(b): Block(\n(d): {MANY} x Linear(8, 8)\n)\n")),
        ("_chained", net(f"(b): ModuleList(\n(0): {MANY} x Conv2d(3, 8, kernel_size=1)\n)\n")),
        ("_merged", net(f"(b): PatchMerging(\n(d): {MANY} x Linear(8, 8)\n)\n")),
        ("of", net(rows("(b#): Block(\n(d): Linear(8, 8)\n)\n", MANY // 2))),
        ("from_summary", net(f"(b): {MANY} x Linear(8, 8)\n")),
        ("layer_type", net(rows("(b#): A#()\n"))),
        ("packed", net(rows("(b#): A#()\n"))),
        ("leaves", net(f"(b): Sequential(\n(d): {MANY} x Linear(8, 8)\n)\n")),
    ],
)
def test_a_long_text_is_given_up_in_time(breaths: Callable[[str], Counter[str]], place: str, text: str) -> None:
    assert breaths(text)[place] >= MANY // (OFTEN + 1)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("_whole", net(rows("(b#): A((c\n))\n", SOME))),
        ("_is_head", net("(b): Embedding(9, 8)\n" + rows("(b#): Linear(8, 9)\n", SOME), "BertLMHeadModel")),
        ("shrinks", net(f"(b): {SOME} x Conv2d(3, 8, kernel_size=1, stride=1)\n")),
        ("_bare", net(f"(a): AlbertTransformer(\n(b): ModuleList(\n(0): A(\n(d): {SOME} x Linear(8, 8)\n)\n)\n)\n")),
        ("of", net("(b): ConvBNReLU()\n" + rows("(b#): Linear(#, 8)\n", SOME))),
        ("_holding", net(f"(b): DepthwiseSeparableConv(\n(c): {SOME} x BatchNorm2d(3)\n)\n", "EfficientNet")),
    ],
)
def test_what_takes_longer_breathes_each_time(breaths: Callable[[str], Counter[str]], place: str, text: str) -> None:
    assert breaths(text)[place] >= SOME


def test_a_wrapped_line_is_no_longer_than_a_line(breaths: Callable[[str], Counter[str]]) -> None:
    half = "x" * (MAX_LINE // 2) + "\n"
    for row in (NET + "A((", TORCHSUMMARY + "A-1 ", TORCHINFO + "├─A: 1-1 "):
        before = breaths("")["_whole"] + breaths("")["_row"]
        after = breaths(row + half * 50)
        assert after["_whole"] + after["_row"] - before <= 8


@pytest.mark.parametrize(
    "end", ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\n\r"]
)
def test_a_text_is_split_in_pieces_as_in_one(breaths: Callable[[str], Counter[str]], end: str) -> None:
    for shift in range(4):
        text = "x" * shift + f"ab{end}" * 60_000 + "last"
        assert _split(text) == text.splitlines()
    assert breaths(text)["_split"] > 1


def test_arguments_are_divided_in_one_pass() -> None:
    """Looking ahead from each of these commas, or joining piece by piece, would take minutes."""
    inside = "0, " * 500_000
    assert module._parts(f"1, [{inside}0], 2") == ["1", f"[{inside}0]", "2"]
    assert module._parts(f"1, (({inside}0)), 2") == ["1", f"(({inside}0))", "2"]
    assert torchinfo._cells(f"a [{inside}0] 2") == ["a", f"[{inside}0]", "2"]


@pytest.mark.parametrize(
    "text", ["1", "1, 2", "1, (2, 3), 4", "(1, 2)", "a=[(1, 2), (3, 4)], b=2", "), 1, 2", "[1, 2]"]
)
def test_long_arguments_are_divided_as_short_ones(text: str) -> None:
    more = "x" * 600
    assert module._parts(f"{text}, {more}") == [*module._parts(text), more]


def test_parts_of_halves_are_gone_through_once(breaths: Callable[[str], Counter[str]]) -> None:
    counts = breaths(net(rows("(encoder_#): Block(\n(a): ReLU()\n)\n(decoder_#): Block(\n(a): ReLU()\n)\n", SOME)))
    assert 0 < counts["_shown_again"] < 4 * SOME


def test_paddings_of_a_long_row_are_not_compared_with_all_before(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    same = Layer.__eq__

    def count(one: Layer, other: object) -> bool:
        nonlocal compared
        compared += 1
        return same(one, other)

    monkeypatch.setattr(Layer, "__eq__", count)
    pads = "(p#): ZeroPad2d((0, 0, 1, #))\n(c#): Conv2d(8, 8, kernel_size=(3, 3), stride=(1, 1))\n"
    RAD.predict(parse_summary(net(rows(pads, SOME))), Workload(8))
    assert compared < 100 * SOME
