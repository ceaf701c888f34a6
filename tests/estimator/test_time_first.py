"""Which axis of a table's series holds the batch."""

from __future__ import annotations

import pytest

from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import ModelSummary, Workload

_FORM = """=====
Layer (type:depth-idx)                   Output Shape              Param #
=====
{rows}
=====
Total params: {params:,}
=====
"""
WORDS = """Tagger                                   [{0}, 100]                --
├─Embedding: 1-1                         [{0}, 32]                 3,200
├─LSTM: 1-2                              [{0}, 64]                 24,832
├─Linear: 1-3                            [{0}, 100]                6,500"""
SENSORS = """Series                                   [{0}, 64]                 --
├─GRU: 1-1                               [{0}, 64]                 14,592
├─Linear: 1-2                            [{0}, 64]                 4,160"""
LAYERS = """Series                                   [{0}, 64]                 --
├─TransformerEncoderLayer: 1-1           [{0}, 64]                 281,152"""

EPISODES = """Agent                                    [{0}, 6]                 --
├─Conv2d: 1-1                            [{0}, 32, 20, 20]        8,224
├─Linear: 1-2                            [{0}, 64]                819,264
{1}├─Linear: 1-4                            [{0}, 6]                 390"""
STEP = "├─LSTM: 1-3                              [{0}, 64]                 33,280\n"
CELL = "├─LSTMCell: 1-3                          [{0}, 64]                 33,280\n"


def _table(rows: str, first: int, second: int, more: str = "") -> str:
    return _FORM.format(rows=rows.format(f"{first}, {second}") + more, params=36_000)


def _read(text: str, batch_size: int, seq_len: int | None = None) -> ModelSummary:
    return with_shapes(parse_summary(text), Workload(batch_size, seq_len=seq_len))


def _last(summary: ModelSummary) -> tuple[int, ...] | None:
    return summary.root.children[-1].output_shape


@pytest.mark.parametrize("rows", [WORDS, SENSORS, LAYERS])
def test_a_series_of_one_step_is_a_batch_of_one(rows: str) -> None:
    found = _read(_table(rows, 64, 1), 512)
    assert found.batch_size == 1
    assert (_last(found) or ())[0] == 64
    assert "batch" not in found.note


def test_two_words_are_a_batch_of_two_and_two_steps_of_sensors_may_be() -> None:
    assert (_last(_read(_table(WORDS, 64, 2), 512)) or ())[0] == 64
    assert (_last(_read(_table(WORDS, 64, 2), 64)) or ())[0] == 2
    assert (_last(_read(_table(WORDS, 64, 1), 64)) or ())[0] == 64
    assert (_last(_read(_table(SENSORS, 64, 1), 64)) or ())[0] == 1
    assert (_last(_read(_table(SENSORS, 64, 2), 512)) or ())[0] == 2


def test_what_all_of_a_batch_of_one_gives_out_may_stand_in_one_row() -> None:
    found = _read(_table(WORDS, 64, 1).replace("Tagger                                   [64, 1,", "Tagger  [64,"), 512)
    assert found.root.output_shape == (64, 100)


@pytest.mark.parametrize(
    ("batch_size", "seq_len", "steps", "unsure"),
    [
        (512, None, 20, True),
        (512, 48, 48, False),
        (512, 20, 20, False),
        (48, None, 20, False),
        (20, None, 48, False),
    ],
)
def test_batch_and_length_tell_which_axis_is_which(
    batch_size: int, seq_len: int | None, steps: int, unsure: bool
) -> None:
    found = _read(_table(WORDS, 48, 20), batch_size, seq_len)
    assert (_last(found) or ())[0] == steps
    assert ("say seq_len=48 (else seq_len=20)" in found.note) == unsure


def test_the_bound_holds_for_both_readings_where_nobody_knows(rad: Rad) -> None:
    summary = parse_summary(_table(SENSORS, 48, 20))
    unsure = rad.predict(summary, Workload(4096))
    first, second = (rad.predict(summary, Workload(4096, seq_len=steps)) for steps in (48, 20))
    assert unsure.expected_mib == second.expected_mib < first.expected_mib
    assert unsure.upper_mib == first.upper_mib > second.upper_mib
    assert unsure.note
    assert unsure.note in unsure.reasons
    assert not first.note
    assert not second.note


@pytest.mark.parametrize(
    ("first", "second", "more"),
    [
        (20, 48, ""),
        (1, 48, ""),
        (48, 20, "\n├─Linear: 1-4                            [48, 10]                  650"),
        (48, 20, "\n├─Conv2d: 1-4                            [48, 8, 9, 9]             80"),
        (48, 20, "\n├─Linear: 1-4                            [48, 7, 10]               650"),
    ],
)
def test_rows_of_samples_and_short_first_axes_say_that_the_batch_is_first(first: int, second: int, more: str) -> None:
    found = _read(_table(WORDS, first, second, more), 512)
    assert found.root.children[1].output_shape == (second, 64)
    assert not found.note


def test_what_becomes_one_row_for_each_sample_has_the_batch_first() -> None:
    text = _table(SENSORS, 48, 20).replace("Series                                   [48, 20,", "Series  [48,")
    assert not _read(text, 512).note


def test_other_layers_than_pytorchs_have_the_batch_first() -> None:
    found = _read(_table(LAYERS.replace("TransformerEncoderLayer", "BertLayer"), 48, 1), 512)
    assert _last(found) == (1, 64)


def test_axes_as_long_as_each_other_leave_nothing_open(rad: Rad) -> None:
    found = rad.predict(parse_summary(_table(WORDS, 64, 64)), Workload(512))
    assert "the bound holds for both" not in found.note


@pytest.mark.parametrize(
    ("first", "pair", "batch"),
    [
        (256, "Transformer", 8),
        (200, "Transformer", 8),  # which takes as many of both
        (256, "Pair", 8),
        (200, "Pair", 100),
    ],
)
def test_series_of_several_lengths_that_share_the_second_axis_have_the_steps_first(
    first: int, pair: str, batch: int
) -> None:
    rows = """Translator                               [100, 8, 64]              --
├─Linear: 1-1                            [{0}, 8, 64]              1,088
├─{1}: 1-2                       [100, 8, 64]              --
│    └─TransformerEncoder: 2-1           [{0}, 8, 64]              281,152
│    └─TransformerDecoder: 2-2           [100, 8, 64]              281,152"""
    found = parse_summary(_FORM.format(rows=rows.format(first, pair), params=563_392))
    assert found.batch_size == batch
    if batch == 8:
        assert [layer.output_shape for layer in found.root.children] == [(first, 64), (100, 64)]


@pytest.mark.parametrize(
    ("steps", "batch_size", "samples"),
    [
        (STEP.format("8, 20"), 8, 8),
        (STEP.format("20, 8"), 16, 8),
        (STEP.format("8, 20"), 20, 20),
        (STEP.format("1, 8") * 20, 16, 8),
        (STEP.format("8, 1") * 40, 16, 8),  # of two layers
        (CELL.format("8") * 20, 16, 8),
        (STEP.format("8, 20"), 160, 160),  # each step is a sample of that job
        (STEP.format("1, 8") * 3, 16, 160),  # some other series
        (STEP.format("8, 30"), 16, 160),
        (STEP.format("1, 8") * 20 + STEP.format("1, 4") * 40, 16, 160),
    ],
)
def test_the_first_axis_may_hold_all_steps_of_all_samples(steps: str, batch_size: int, samples: int) -> None:
    text = _FORM.format(rows=EPISODES.format(160, steps), params=3_000_000)
    found = _read(text, batch_size)
    assert found.batch_size == samples
    if samples < 160:
        first, second, step, *_, last = found.root.children
        each = (160 // samples,)
        assert (first.output_shape, second.output_shape) == ((*each, 32, 20, 20), (*each, 64))
        assert (last.output_shape, found.root.output_shape) == ((*each, 6), (*each, 6))
        shown = 1 if "[1, " in steps or ", 1, " in steps else each[0]
        assert step.output_shape == ((64,) if step.type == "LSTMCell" else (shown, 64))


def test_pictures_of_all_steps_before_a_series_tell_nothing_of_its_axes() -> None:
    rows = EPISODES.format(160, STEP.format("20, 8")).replace("160, 6", "20, 8, 6")
    text = _FORM.format(rows=rows, params=3_000_000)
    assert _read(text, 8).batch_size == 8
    assert _read(text, 8).root.children[0].output_shape == (20, 32, 20, 20)
    assert _read(text, 16).batch_size == 20


@pytest.mark.parametrize("batch_size", [160, 16])
def test_what_goes_into_such_a_model_is_that_of_its_steps(batch_size: int) -> None:
    rows = EPISODES.format(160, STEP.format("8, 20")).splitlines()
    rows = [f"{row}  {'[8, 20, 4, 84, 84]' if not at else '--'}" for at, row in enumerate(rows)]
    text = _FORM.format(rows="\n".join(rows), params=3_000_000).replace("Param #", "Param #  Input Shape")
    steps = (20,) if batch_size == 16 else ()
    assert _read(text, batch_size).root.input_shape == (*steps, 4, 84, 84)
