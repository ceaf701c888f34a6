"""What `radctl summarize` writes below a table is read again, and says what no summary shows."""

from __future__ import annotations

import re
from dataclasses import replace
from math import log

import pytest

from estimator.fingerprint import fingerprint
from estimator.methods.rad import Rad
from estimator.methods.rad.features import FEATURES, MIB
from estimator.methods.rad.rehearsed import REHEARSED, Account, Rehearsed, account
from estimator.parsers import parse_summary
from estimator.rehearsals.lines import (
    OPTIMIZERS,
    PRECISIONS,
    Found,
    line_of,
    line_of_beside,
    line_of_libraries,
    of_workload,
)
from estimator.store import SHIPPED, ModelError, Store
from estimator.types import Libraries, Point, Rehearsal, SummaryError, Workload

TABLE = """==========================================================================
Layer (type:depth-idx)                   Output Shape             Param #
==========================================================================
Hidden                                   [32, 16, 64, 64]         --
├─OwnStem: 1-1                           [32, 16, 64, 64]         --
│    └─Conv2d: 2-1                       [32, 16, 64, 64]         448
├─OwnMixer: 1-2                          [32, 16, 64, 64]         --
│    └─Conv2d: 2-2                       [32, 16, 64, 64]         2,320
==========================================================================
Total params: 2,768
"""
ADAM = Rehearsal("train", "fp32", "adam", (Point(16, 1000.5, 1100.0, 1100.0), Point(32, 2000.0, 2300.0, 2500.0)))
INFERENCE = Rehearsal("infer", "fp32", None, (Point(16, 100.0, 120.0, 120.0), Point(32, 200.0, 240.0, 240.0)))
RUNS = (ADAM, INFERENCE)


def said(text: str, runs: tuple[Rehearsal, ...] = RUNS) -> str:
    return text + "\n".join(map(line_of, runs)) + "\n"


def test_a_rehearsal_below_a_table_is_read_as_it_was_written() -> None:
    assert parse_summary(said(TABLE)).rehearsals == RUNS
    assert parse_summary(TABLE).rehearsals == ()
    assert line_of(ADAM) == "Rehearsed adam fp32 size (batch 16, 32): 1000.5 in 1100 MiB, 2000.0 in 2300 to 2500 MiB"
    assert line_of(INFERENCE).startswith("Rehearsed inference fp32 size (batch 16, 32): ")
    many = tuple(
        Rehearsal("train" if optimizer else "infer", precision, optimizer, ADAM.points[:1])
        for precision in PRECISIONS
        for optimizer in (*OPTIMIZERS, None)
    )
    assert parse_summary(said(TABLE, many)).rehearsals == many


@pytest.mark.parametrize(
    "sizes",
    [
        "(batch 16, 32): 1 in 2 MiB, nan in 2 MiB",
        "(batch 16, 32): -1 in 2 MiB, 2 in 2 MiB",
        "(batch 32, 16): 1 in 2 MiB, 2 in 2 MiB",
        "(batch 16, 16): 1 in 2 MiB, 2 in 2 MiB",
        "(batch 0, 16): 1 in 2 MiB, 2 in 2 MiB",
        "(batch 16, 32): 1.2.3 in 2 MiB, 2 in 2 MiB",
        "(batch 16, 32): 1 in 2 MiB, 2 in 99999999999 MiB",
        "(batch 16, 32): 1 in 2 to 99999999999 MiB, 2 in 2 MiB",
        "(batch 16, 32): 1 in 2 to x MiB, 2 in 2 MiB",
        "(batch 16, 32): 1 in 2 MiB",
        "(batch 16, 32): 1 in 2 MiB, 9 in 7 MiB",
        "(batch 16, 32): 1 in 2 to 1 MiB, 2 in 3 MiB",
        "(batch 16): 1 in 2 MiB, 2 in 2 MiB",
        "(batch 16, x): 1 in 2 MiB, 2 in 2 MiB",
        "(MiB at batch 16, 32): 1, 2",
        ": 5",
    ],
)
def test_what_is_no_rehearsal_is_refused_with_its_line(sizes: str) -> None:
    with pytest.raises(SummaryError, match="are no sizes of a rehearsal: let radctl summarize"):
        parse_summary(f"{TABLE}Rehearsed adam fp32 size {sizes}\n")


@pytest.mark.parametrize(
    "line",
    [
        "Rehearsed adamw fp32 size (batch 16): 1 in 2 MiB",
        "Rehearsed adam fp64 size (batch 16): 1 in 2 MiB",
        "Rehearsed adam fp32 size (batch 16):",
        "Rehearsed sgd_momentum fp32\nsize (batch 16): 1 in 2 MiB",
    ],
)
def test_a_line_that_names_nothing_rehearsed_is_refused(line: str) -> None:
    with pytest.raises(SummaryError, match="are no sizes of a rehearsal: let radctl summarize"):
        parse_summary(f"{TABLE}{line}\n")


def test_large_batches_make_no_line_too_long() -> None:
    points = tuple(Point(batch, 1.0, 2.0, 2.0) for batch in (500_000, 1_000_000, 4_000_000))
    runs = (replace(ADAM, optimizer="sgd_momentum", points=points),)
    assert parse_summary(said(TABLE, runs)).rehearsals == runs


def test_what_is_used_at_other_batches_lies_on_a_line_and_the_nearest_says_how_much_is_held_for_it() -> None:
    def at(batch: int, points: tuple[Point, ...] = ADAM.points) -> tuple[float, ...] | None:
        found = of_workload((replace(ADAM, points=points),), Workload(batch))
        return found and tuple(found)

    assert at(16) == (1000.5, 1100, 1100, 0)
    assert at(24) == pytest.approx((1500.25, 1500.25 * 1.15, 1500.25 * 1.25, log(32 / 24)))
    assert at(64) == pytest.approx((3999, 3999 * 1.15, 3999 * 1.25, log(2)))
    assert at(8) == pytest.approx((500.75, 500.75 * 1100 / 1000.5, 500.75 * 1100 / 1000.5, log(2)))
    three = (*ADAM.points, Point(64, 5000.0, 5000.0, 5000.0))
    assert at(48, three) == pytest.approx((3500, 3500, 3500, log(64 / 48)))
    # Both sides, not the nearest two.
    uneven = Point(8, 1.0, 1.0, 1.0), Point(10, 100.0, 200.0, 200.0), Point(60, 600.0, 1200.0, 1200.0)
    assert at(20, uneven) == pytest.approx((200, 400, 400, log(2)))
    few = Point(16, 500.0, 500.0, 500.0), Point(32, 2000.0, 2000.0, 2000.0)
    assert at(1, few) == pytest.approx((0, 0, 0, log(16)))
    # Less is held at the larger of two, as pieces happen to fit.
    falling = Point(16, 68.2, 90.0, 90.0), Point(32, 72.4, 86.0, 92.0)
    used = 72.4 + 4.2 * (4096 - 32) / 16
    assert at(4096, falling) == pytest.approx((used, used * 86 / 72.4, used * 92 / 72.4, log(128)))
    assert at(64, (Point(16, 0.0, 0.0, 0.0), Point(32, 0.0, 2.0, 2.0))) == pytest.approx((0, 0, 0, log(2)))
    assert at(16, ADAM.points[:1]) == (1000.5, 1100, 1100, 0)
    assert at(17, ADAM.points[:1]) is None


def test_a_workload_is_told_from_what_takes_as_much() -> None:
    assert of_workload(RUNS, Workload(16, optimizer="adamw")) == of_workload(RUNS, Workload(16)) is not None
    assert of_workload(RUNS, Workload(16, kind="infer", optimizer="sgd")) == (100, 120, 120, 0)
    assert of_workload(RUNS, Workload(16, optimizer="sgd")) is None
    assert of_workload(RUNS, Workload(16, precision="amp")) is None
    assert of_workload((), Workload(16)) is None
    half = (replace(ADAM, precision="bf16"),)
    assert of_workload(half, Workload(16, precision="fp16")) == of_workload(half, Workload(16, precision="bf16"))
    assert of_workload(half, Workload(16, precision="fp16")) is not None


def test_a_rehearsal_makes_the_estimate_of_what_nothing_like_was_measured(rad: Rad) -> None:
    plain = rad.predict(parse_summary(TABLE), Workload(32))
    found = rad.predict(parse_summary(said(TABLE)), Workload(32))
    assert found.reasons[0].startswith("its own code was rehearsed on tensors without data")
    assert found.fingerprint == plain.fingerprint  # a run that is measured later is found by either
    assert plain.expected_mib < 1500 < 2700 < found.expected_mib < found.upper_mib < 1.5 * found.expected_mib
    assert found.upper_mib / found.expected_mib < plain.upper_mib / plain.expected_mib
    halved = rad.predict(parse_summary(said(TABLE)), Workload(16))
    assert 1500 < halved.expected_mib < 0.7 * found.expected_mib
    far = rad.predict(parse_summary(said(TABLE)), Workload(256))
    assert far.upper_mib / far.expected_mib > found.upper_mib / found.expected_mib
    assert ["--batch-size" in estimate.reasons[0] for estimate in (found, halved, far)] == [False, False, True]
    assert rad.predict(parse_summary(said(TABLE)), Workload(32, kind="infer")).expected_mib < halved.expected_mib


def test_weights_and_the_optimizers_step_are_always_there(rad: Rad) -> None:
    wide = parse_summary(TABLE.replace("2,320", "200,002,320").replace("2,768", "200,002,768"))
    none = Found(0.0, 0.0, 0.0, 0.0)
    memory = rad.account(wide, Workload(32))[2]
    assert account(none, [], memory).mib == memory.step / MIB > 4 * 200e6 * 4 / MIB
    large = account(Found(70_000.0, 80_000.0, 88_000.0, 0.5), [7.0], memory)
    assert large.mib == 80_000
    assert large.fixed == (memory.weights + memory.gradients + memory.states) / MIB
    said_by_summary = log(80_000 / (memory.peak / MIB))
    assert large.row == [7.0, pytest.approx(said_by_summary), pytest.approx(log(8 / 7)), pytest.approx(log(1.1)), 0.5]


def test_a_model_without_rehearsals_says_what_it_says_of_the_table() -> None:
    model = Store(SHIPPED, "rad").load()
    method = Rad({**model, "rehearsed": None})
    with_it, without = (method.predict(parse_summary(text), Workload(32)) for text in (said(TABLE), TABLE))
    assert with_it == without
    with pytest.raises(ModelError, match="damaged"):
        Rad({**model, "rehearsed": {"bound": "wide"}})


def test_a_batch_size_that_was_not_rehearsed_has_a_bound_of_its_own() -> None:
    nothing = {"start": 0.0, "trees": []}
    method = Rehearsed({"correction": nothing, "spread": nothing, "bound": 1.0, "bound_apart": 2.0})
    row = [0.0] * (len(FEATURES) + len(REHEARSED))
    (expected, near), (same, apart) = (method.of(Account(900.0, 0.0, [*row[:-1], far]), 100.0) for far in (0.0, 0.5))
    assert expected == same == pytest.approx(1000)
    assert log(apart / expected) == pytest.approx(2 * log(near / expected))


def test_what_was_measured_of_the_architecture_says_more(rad: Rad) -> None:
    text = "\n".join(
        [
            "Layer (type:depth-idx)                   Output Shape             Param #",
            "=" * 74,
            "AlexNet                                  [8, 1000]                --",
            "├─Sequential: 1-1                        [8, 256, 6, 6]           --",
            "│    └─Conv2d: 2-1                       [8, 64, 55, 55]          23,296",
            "│    └─ReLU: 2-2                         [8, 64, 55, 55]          --",
            "│    └─MaxPool2d: 2-3                    [8, 64, 27, 27]          --",
            "│    └─Conv2d: 2-4                       [8, 192, 27, 27]         307,392",
            "│    └─ReLU: 2-5                         [8, 192, 27, 27]         --",
            "│    └─MaxPool2d: 2-6                    [8, 192, 13, 13]         --",
            "│    └─Conv2d: 2-7                       [8, 384, 13, 13]         663,936",
            "│    └─ReLU: 2-8                         [8, 384, 13, 13]         --",
            "│    └─Conv2d: 2-9                       [8, 256, 13, 13]         884,992",
            "│    └─ReLU: 2-10                        [8, 256, 13, 13]         --",
            "│    └─Conv2d: 2-11                      [8, 256, 13, 13]         590,080",
            "│    └─ReLU: 2-12                        [8, 256, 13, 13]         --",
            "│    └─MaxPool2d: 2-13                   [8, 256, 6, 6]           --",
            "├─AdaptiveAvgPool2d: 1-2                 [8, 256, 6, 6]           --",
            "├─Sequential: 1-3                        [8, 1000]                --",
            "│    └─Dropout: 2-14                     [8, 9216]                --",
            "│    └─Linear: 2-15                      [8, 4096]                37,752,832",
            "│    └─ReLU: 2-16                        [8, 4096]                --",
            "│    └─Dropout: 2-17                     [8, 4096]                --",
            "│    └─Linear: 2-18                      [8, 4096]                16,781,312",
            "│    └─ReLU: 2-19                        [8, 4096]                --",
            "│    └─Linear: 2-20                      [8, 1000]                4,097,000",
            "=" * 74,
            "Total params: 61,100,840",
            "",
        ]
    )
    with_it, without = (rad.predict(parse_summary(each), Workload(64)) for each in (said(text), text))
    assert with_it == without
    assert "was measured" in without.reasons[0]
    frozen = re.sub(r"(Conv2d.*\]  +)([\d,]+)", r"\1(\2)", text)
    frozen += "Trainable params: 58,631,144\nNon-trainable params: 2,469,696\n"
    part, rehearsed = (rad.predict(parse_summary(each), Workload(64)) for each in (frozen, said(frozen)))
    assert part.reasons[0].startswith("58,631,144 of 61,100,840 parameters are trained")
    assert rehearsed.reasons[0].startswith("its own code was rehearsed")
    more = rad.predict(parse_summary(said(text) + line_of_beside(512)), Workload(64))
    assert more.reasons[0].startswith("its own code was rehearsed"), "the measured runs had nothing beside the model"


@pytest.mark.parametrize(("loads", "more"), [("none", 0), ("cudnn", 0), ("cublas", 64), ("both", 64)])
def test_libraries_that_the_code_loads_beside_those_of_its_layers_are_counted(loads: Libraries, more: int) -> None:
    """Attention by ``@`` in a network of convolutions loads cuBLAS, too, which no layer shows."""
    rad, workload = Rad.load(), Workload(32, kind="infer")
    before = rad.predict(parse_summary(said(TABLE)), workload)
    found = rad.predict(parse_summary(f"{said(TABLE)}{line_of_libraries(loads)}\n"), workload)
    assert found.expected_mib - before.expected_mib == pytest.approx(more, rel=0.2)
    assert found.upper_mib >= before.upper_mib + more * 0.8


def test_libraries_that_are_none_are_refused() -> None:
    with pytest.raises(SummaryError, match="'cutlass' are none: let radctl summarize"):
        parse_summary(f"{said(TABLE)}Rehearsed libraries: cutlass\n")


def test_what_is_beside_a_model_counts_once(rad: Rad) -> None:
    """In what was rehearsed it is; to any other estimate it is added. Runs with it are not those without."""
    beside = f"{line_of_beside(512)}\n"
    rehearsed, table = parse_summary(said(TABLE)), parse_summary(TABLE)
    workload = Workload(batch_size=32, optimizer="adam")
    with_runs, alone = parse_summary(said(TABLE) + beside), parse_summary(TABLE + beside)
    assert (with_runs.beside_mib, table.beside_mib) == (512, 0)
    assert rad.predict(with_runs, workload).expected_mib == rad.predict(rehearsed, workload).expected_mib
    plain, more = rad.predict(table, workload), rad.predict(alone, workload)
    assert more.expected_mib - plain.expected_mib == pytest.approx(512, abs=1)
    assert more.upper_mib - plain.upper_mib == pytest.approx(512, abs=1)
    assert set(more.reasons) - set(plain.reasons) == {"512 MiB of what the job holds beside the model"}
    assert fingerprint(with_runs, workload) != fingerprint(rehearsed, workload)


@pytest.mark.parametrize("size", ["512", "-1 MiB", "nan MiB", "1.2.3 MiB", "99999999999 MiB", "MiB"])
def test_what_is_no_size_beside_a_model_is_refused(size: str) -> None:
    with pytest.raises(SummaryError, match="let radctl summarize print the table anew"):
        parse_summary(f"{said(TABLE)}Rehearsed beside size: {size}\n")
