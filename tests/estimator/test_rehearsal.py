"""What `radctl summarize` writes below a table is read again, and says what no summary shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.methods.rad import Rad
from estimator.methods.rad.features import MIB
from estimator.methods.rad.liveness import Memory
from estimator.methods.rad.rehearsed import account, wanted
from estimator.parsers import parse_summary
from estimator.rehearsal import at_batch, line_of
from estimator.store import SHIPPED, ModelError, Store
from estimator.types import Rehearsal, SummaryError, Workload

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
FP32 = Rehearsal("train", "fp32", ((16, 1000.5), (32, 2000.0)))
RUNS = (FP32, Rehearsal("infer", "fp32", ((16, 100.0), (32, 200.0))))


def said(text: str, runs: tuple[Rehearsal, ...] = RUNS) -> str:
    return text + "\n".join(map(line_of, runs)) + "\n"


def test_a_rehearsal_below_a_table_is_read_as_it_was_written() -> None:
    assert parse_summary(said(TABLE)).rehearsals == tuple(sorted(RUNS, key=lambda run: run.kind != "train"))
    assert parse_summary(TABLE).rehearsals == ()
    assert line_of(FP32) == "Rehearsed train fp32 size (MiB at batch 16, 32): 1000.5, 2000.0"


@pytest.mark.parametrize(
    "sizes",
    [
        "(MiB at batch 16, 32): 1, nan",
        "(MiB at batch 16, 32): -1, 2",
        "(MiB at batch 32, 16): 1, 2",
        "(MiB at batch 0, 16): 1, 2",
        "(MiB at batch 16, 32): 1.2.3, 2",
        "(MiB at batch 16, 32): 1, 99999999999",
        "(MiB at batch 16): 1",
        ": 5",
    ],
)
def test_what_is_no_rehearsal_is_refused_with_its_line(sizes: str) -> None:
    with pytest.raises(SummaryError, match="are no sizes of a rehearsal: let radctl summarize"):
        parse_summary(f"{TABLE}Rehearsed train fp32 size {sizes}\n")


def test_other_batches_lie_on_a_line_through_both() -> None:
    found = [at_batch(RUNS, "train", "fp32", batch) for batch in (1, 16, 24, 32, 64)]
    assert found == [pytest.approx(value) for value in (1000.5 - 15 * 62.46875, 1000.5, 1500.25, 2000.0, 3999.0)]
    assert at_batch((replace(FP32, points=((16, 500.0), (32, 2000.0))),), "train", "fp32", 1) == 0
    assert at_batch(RUNS, "train", "bf16", 16) is None
    half = (replace(FP32, precision="bf16"),)
    assert at_batch(half, "train", "fp16", 16) == 1000.5


def test_autocast_is_told_from_fp32_and_nothing_from_what_was_not_rehearsed() -> None:
    summary = parse_summary(said(TABLE, (FP32,)))
    amp = Workload(8, precision="amp")
    assert wanted(summary, amp) == replace(amp, precision="fp32")
    assert wanted(summary, Workload(8)) == Workload(8)
    assert wanted(summary, Workload(8, kind="infer")) is None
    assert wanted(parse_summary(TABLE), Workload(8)) is None


def test_a_rehearsal_makes_the_estimate_of_what_nothing_like_was_measured() -> None:
    method = Rad.load()
    plain = method.predict(parse_summary(TABLE), Workload(32))
    found = method.predict(parse_summary(said(TABLE)), Workload(32))
    assert found.reasons[0].startswith("its own code was rehearsed on tensors without data")
    assert found.fingerprint == plain.fingerprint  # a run that is measured later is found by either
    assert plain.expected_mib < 1500 < 2400 < found.expected_mib < found.upper_mib < 2 * found.expected_mib
    assert found.upper_mib / found.expected_mib < plain.upper_mib / plain.expected_mib
    halved = method.predict(parse_summary(said(TABLE)), Workload(16))
    assert 1400 < halved.expected_mib < 0.7 * found.expected_mib
    amp = method.predict(parse_summary(said(TABLE)), Workload(32, precision="amp"))
    assert plain.expected_mib < amp.expected_mib < found.expected_mib
    assert method.predict(parse_summary(said(TABLE)), Workload(32, kind="infer")).expected_mib < halved.expected_mib


def test_optimizer_states_come_on_top_and_weights_are_always_there() -> None:
    wide = TABLE.replace("2,320", "200,002,320").replace("2,768", "200,002,768")
    none = (Rehearsal("train", "fp32", ((16, 0.0), (32, 0.0))),)
    states = 200e6 * 4 / 2**20
    found = [
        Rad.load().predict(parse_summary(said(wide, none)), Workload(32, optimizer=optimizer)).expected_mib
        for optimizer in ("sgd", "adam")
    ]
    assert found[0] > 2 * states
    assert found[1] - found[0] > 1.5 * states


def test_an_account_has_states_and_the_optimizers_step_and_autocast_in_proportion() -> None:
    method = Rad.load()
    large = (Rehearsal("train", "fp32", ((16, 40_000.0), (32, 80_000.0))),)
    none = (Rehearsal("train", "fp32", ((16, 0.0), (32, 0.0))),)

    def accounted(runs: tuple[Rehearsal, ...], workload: Workload) -> tuple[float, Memory]:
        summary = parse_summary(said(TABLE.replace("2,320", "200,002,320").replace("2,768", "200,002,768"), runs))
        shaped, program, memory, _ = method.account(summary, workload)
        like = wanted(shaped, workload)
        assert like is not None
        other = method.account(summary, like)[2]
        return account(shaped, program, like, [], (memory, other)).mib, memory

    adam, sgd = (accounted(large, Workload(32, optimizer=optimizer)) for optimizer in ("adam", "sgd"))
    for mib, memory in (adam, sgd):
        assert mib == pytest.approx(80_000 + (memory.states + memory.at_peak) / MIB)
    assert adam[1].states > 1e9 > sgd[1].states == 0
    least, memory = accounted(none, Workload(32))
    assert least == pytest.approx(memory.step / MIB)
    amp, memory = accounted(large, Workload(32, optimizer="sgd", precision="amp"))
    weights = memory.weights / MIB
    beside, other = (
        max(each.forward, each.loss, each.backward) - each.weights - each.states for each in (memory, sgd[1])
    )
    assert amp - weights - memory.at_peak / MIB == pytest.approx((80_000 - weights) * beside / other)
    assert beside != pytest.approx(other, rel=0.01)


def test_recurrent_layers_take_no_less_than_the_table_says() -> None:
    table = (
        "Layer (type:depth-idx)                   Output Shape             Param #\n" + "=" * 74 + "\n"
        "Hears                                    [32, 8]                  --\n"
        "├─OwnEars: 1-1                           [32, 512, 512]           --\n"
        "│    └─LSTM: 2-1                         [32, 512, 512]           1,183,744\n"
        "├─Linear: 1-2                            [32, 8]                  4,104\n" + "=" * 74 + "\n"
        "Total params: 1,187,848\n"
    )
    least = (Rehearsal("train", "fp32", ((16, 10.0), (32, 20.0))),)
    alone = said(table.replace("LSTM", "Mixes"), least)
    found, other = (Rad.load().predict(parse_summary(text), Workload(32)) for text in (said(table, least), alone))
    assert found.reasons[0] == other.reasons[0]
    assert "rehearsed" in found.reasons[0]
    assert found.expected_mib > other.expected_mib + 100


def test_a_model_without_rehearsals_says_what_it_says_of_the_table() -> None:
    model = Store(SHIPPED, "rad").load()
    method = Rad({**model, "rehearsed": None})
    with_it, without = (method.predict(parse_summary(text), Workload(32)) for text in (said(TABLE), TABLE))
    assert with_it == without
    with pytest.raises(ModelError, match="damaged"):
        Rad({**model, "rehearsed": {"bound": "wide"}})


def test_what_was_measured_of_the_architecture_says_more() -> None:
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
    method = Rad.load()
    with_it, without = (method.predict(parse_summary(each), Workload(64)) for each in (said(text), text))
    assert with_it == without
    assert "was measured" in without.reasons[0]
