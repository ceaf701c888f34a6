"""What a table of Keras shows in its own way: recurrent layers, layers that are called again."""

from __future__ import annotations

import pytest

from estimator.parsers import parse_summary, text
from estimator.shapes import with_shapes
from estimator.types import SummaryError, Workload
from tests.estimator.accounts import account

RULE = "=" * 96


def table(*rows: tuple[str, str, int, str]) -> str:
    """Write the table of Keras 2 with the column that says what goes into a layer."""
    lines = [f"{name:31}{shape:27}{params:<13}{takes}".rstrip() for name, shape, params, takes in rows]
    head = [f"{'Layer (type)':31}{'Output Shape':27}{'Param #':13}Connected to", RULE]
    return "\n".join([*head, *lines, RULE, f"Total params: {sum(row[2] for row in rows):,}\n"])


WORDS = ("words (Embedding)", "(None, 100, 128)", 2_560_000, "")
HEAD = ("head (Dense)", "(None, 5)", 1_285, "")


@pytest.mark.parametrize(
    ("layer", "params", "type_", "inside"),
    [
        ("LSTM", 4 * 256 * (128 + 256 + 1), "LSTM", "256"),
        ("CuDNNLSTM", 4 * 256 * (128 + 256 + 2), "LSTM", "256"),
        ("GRU", 3 * 256 * (128 + 256 + 2), "GRU", "256"),
        ("GRU", 3 * 256 * (128 + 256 + 1), "GRU", "256"),
        ("SimpleRNN", 256 * (128 + 256 + 1), "RNN", "256"),
        ("Bidirectional", 2 * 4 * 128 * (128 + 128 + 1), "LSTM", "of both"),
        ("Bidirectional", 2 * 3 * 128 * (128 + 128 + 2), "GRU", "of both"),
        ("Bidirectional", 2 * 128 * (128 + 128 + 1), "RNN", "of both"),
        ("Bidirectional", 2 * 4 * 256 * (128 + 256 + 1), "LSTM", "added up"),
    ],
)
def test_a_recurrent_layer_works_on_all_steps_whatever_it_gives_out(
    layer: str, params: int, type_: str, inside: str
) -> None:
    last = table(WORDS, (f"r ({layer})", "(None, 256)", params, ""), HEAD)
    every = table(WORDS, (f"r ({layer})", "(None, 100, 256)", params, ""), HEAD)
    rows = parse_summary(last).root.children
    assert [(row.type, row.output_shape) for row in rows[1:3]] == [(type_, (100, 256)), ("Lambda", (256,))], inside
    assert parse_summary(every).root.children[1] == rows[1]
    kept = account(last, batch_size=64)[2].kept
    assert 64 * 100 * 256 * 4 * 6 <= kept <= account(every, batch_size=64)[2].kept <= 1.2 * kept


def test_what_a_recurrent_layer_takes_is_as_wide_as_its_weights_say() -> None:
    rows = (WORDS, ("beside (Dense)", "(None, 20, 7)", 8, ""), ("r (LSTM)", "(None, 256)", 394_240, ""), HEAD)
    assert parse_summary(table(*rows)).root.children[2].output_shape == (100, 256)
    assert parse_summary(table(rows[1], rows[0], rows[2], HEAD)).root.children[2].output_shape == (100, 256)


def test_a_recurrent_layer_whose_steps_no_row_shows_needs_their_number() -> None:
    summary = parse_summary(table(("r (LSTM)", "(None, 256)", 394_240, ""), HEAD))
    assert with_shapes(summary, Workload(8, seq_len=50)).root.children[0].output_shape == (50, 256)
    with pytest.raises(SummaryError, match="leaves open how long its series are: say `seq_len=N`"):
        with_shapes(summary, Workload(8))


def test_what_works_in_both_directions_and_is_no_recurrent_layer_stays_as_it_is() -> None:
    odd = ("b (Bidirectional)", "(None, 100, 256)", 263_167, "")
    assert parse_summary(table(WORDS, odd, HEAD)).root.children[1].type == "Bidirectional"


def test_convolutions_that_recur_stay_as_they_are() -> None:
    rows = (("c (ConvLSTM2D)", "(None, 8, 8, 16)", 11_584, ""), ("r (LSTM)", "(None, 4, 4, 3)", 11, ""))
    assert [row.type for row in parse_summary(table(*rows)).root.children] == ["ConvLSTM2D", "LSTM"]


TWINS = """\
┃ Layer (type)         ┃ Output Shape        ┃ Param # ┃ Connected to ┃
┡━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━━━━┩
│ a (InputLayer)       │ (None, 64, 64, 3)   │       0 │ -            │
├──────────────────────┼─────────────────────┼─────────┼──────────────┤
│ e (Functional)       │ (None, 32)          │   1,024 │ a[0][0],     │
│                      │                     │         │ b[0][0]      │
├──────────────────────┼─────────────────────┼─────────┼──────────────┤
│    └ c (Conv2D)      │ (None, 62, 62, 32)  │     896 │ -            │
├──────────────────────┼─────────────────────┼─────────┼──────────────┤
│    └ n (BatchNormal… │ (None, 62, 62, 32)  │     128 │ -            │
├──────────────────────┼─────────────────────┼─────────┼──────────────┤
│    └ p (GlobalAvera… │ (None, 32)          │       0 │ -            │
├──────────────────────┼─────────────────────┼─────────┼──────────────┤
│ s (Subtract)         │ (None, 32)          │       0 │ e[1][0],     │
│                      │                     │         │ e[2][0]      │
├──────────────────────┼─────────────────────┼─────────┼──────────────┤
│ d (Dense)            │ (None, 1)           │      33 │ s[0][0]      │
└──────────────────────┴─────────────────────┴─────────┴──────────────┘
 Total params: 1,057 (4.13 KB)
"""


def test_what_keras_calls_again_is_kept_again_and_weighs_once() -> None:
    twice = parse_summary(TWINS)
    assert [row.type for row in twice.root.children].count("Conv2D") == 2
    assert [row.params for row in twice.root.children if row.type == "Conv2D"] == [896, 0]
    assert twice.total_params == 1_057
    once = TWINS.replace("e[2][0]", "e[1][0]")
    conv = 64 * 62 * 62 * 32 * 4
    more = account(TWINS, batch_size=64)[2].kept - account(once, batch_size=64)[2].kept
    assert conv <= more <= 1.2 * conv + 64 * 3 * 64 * 64 * 4


def test_calls_of_keras_are_no_more_than_a_model_may_have_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_LAYERS", 11)
    assert len(parse_summary(TWINS).root.children) == 11
    monkeypatch.setattr(text, "MAX_LAYERS", 10)
    with pytest.raises(SummaryError, match=r"line 17: .*: more than 10 layers"):
        parse_summary(TWINS)
