"""What measured runs say of requests like them."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from dataclasses import replace
from math import log2
from typing import Any

import pytest

from estimator.methods.rad.known import (
    KNOWLEDGE,
    NOTHING,
    Known,
    Run,
    blocks_of,
    run_of,
    shift_of,
    shifted,
    tabulate,
)
from estimator.methods.rad.program import compile_program
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import PRECISIONS, Workload

BASE = Run("blocks", 20.0, 24.0, 6.0, 5.0, 0, 1, 3)


def known(*runs: tuple[Run, float]) -> Known:
    """As a model keeps it: written as JSON and read again."""
    return Known(json.loads(json.dumps(tabulate(runs))))


def at(**changes: Any) -> Run:
    return BASE._replace(**changes)


def test_the_same_architecture_in_another_configuration_is_measured() -> None:
    found = known((at(log_batch=3.0), 0.2), (at(log_batch=7.0), 0.4), (at(training=0, optimizer=0), 1.0)).about(BASE)
    assert (found.level, found.runs, found.alike) == ("measured", 3, 2)
    assert 0.25 < found.shift < 0.32
    assert len(found.features(0.5)) == len(KNOWLEDGE)


def test_a_head_for_other_classes_is_the_same_architecture_and_another_width_is_kin() -> None:
    table = known((BASE, 0.3))
    assert table.about(at(log_params=20.03, log_batch=6.0)).level == "measured"
    kin = table.about(at(log_params=21.0))
    assert (kin.level, kin.runs) == ("kin", 0)
    assert 0 < kin.shift < 0.3


@pytest.mark.parametrize("changes", [{"blocks": "others"}, {"log_params": 30.0}, {"log_steps": 10.0}])
def test_what_is_too_far_away_is_new(changes: dict[str, Any]) -> None:
    assert known((BASE, 0.3)).about(at(**changes)) == NOTHING


def test_what_was_measured_in_the_same_configuration_is_followed_alone() -> None:
    table = known((BASE, 0.31), (at(log_batch=4.0), 0.9), (at(log_batch=6.0), 0.9), (at(optimizer=1), -0.5))
    for run in (BASE, at(log_params=20.03, log_elements=24.001)):
        found = table.about(run)
        assert (found.level, found.runs) == ("repeated", 4)
        assert found.shift == pytest.approx(0.31, abs=0.001)
    for batch_size in (1, 3, 12, 24, 48, 96, 1000):  # as the table rounds them
        run = at(log_batch=log2(batch_size))
        assert known((run, 0.3)).about(run).level == "repeated"


@pytest.mark.parametrize(
    "changes",
    [
        {"log_batch": 5.05},
        {"log_elements": 24.1},
        {"log_params": 20.1},
        {"log_steps": 6.01},
        {"precision": 1},
        {"training": 0, "optimizer": 0},
        {"optimizer": 2},
    ],
)
def test_what_differs_in_anything_is_not_repeated(changes: dict[str, Any]) -> None:
    found = known((BASE, 0.3)).about(at(**changes))
    assert found.level in ("measured", "kin")
    assert found.shift < 0.3


def test_runs_of_models_of_other_sizes_are_kept_apart() -> None:
    small, large = at(log_params=10.0), at(log_params=30.0)
    table = known((small, -0.5), (BASE, 0.3), (at(log_batch=6.0), 0.3), (large, 0.9))
    assert [table.about(run).runs for run in (small, BASE, large)] == [1, 2, 1]
    assert [round(table.about(run).shift, 2) for run in (small, BASE, large)] == [-0.5, 0.3, 0.9]


def test_of_models_that_look_the_same_the_larger_is_followed() -> None:
    for smaller, larger in ((0.1, 0.4), (0.4, 0.1)):
        table = known((BASE, smaller), (at(log_params=20.01), larger))
        assert table.about(BASE).shift == pytest.approx(0.4, abs=0.001)


def test_how_near_the_nearest_run_is_and_how_much_runs_differ() -> None:
    batches = known(*((at(log_batch=5.0 + place), shift) for place, shift in ((-2.0, 0.2), (1.0, 0.6), (3.0, 0.2))))
    assert batches.about(BASE).nearest == pytest.approx(0.4)
    for held, asked, apart in ((0, 3, 0.2), (1, 3, 0.1), (3, 0, 0.2), (1, 2, 0.0)):  # by what optimizers hold more
        assert known((at(optimizer=held), 0.3)).about(at(optimizer=asked)).nearest == pytest.approx(apart)
    two = known((at(log_batch=4.0), 0.2), (at(log_batch=6.0), 0.6))
    assert two.about(BASE).scatter == pytest.approx(0.2, abs=0.001)


@pytest.mark.parametrize(
    ("changes", "runs"), [({"log_params": 23.5}, 0), ({"training": 0, "optimizer": 0, "log_batch": 10.0}, 1)]
)
def test_what_is_hardly_like_anything_measured_is_new(changes: dict[str, Any], runs: int) -> None:
    found = known((BASE, 0.3)).about(at(**changes))
    assert (found.level, found.runs) == ("new", runs)
    assert 0 < found.weight < 0.05


def test_a_training_says_little_of_inference() -> None:
    table = known((BASE, 0.5), (at(log_batch=2.0), 0.5))
    alike, other = table.about(at(log_batch=4.0)), table.about(at(training=0, optimizer=0))
    assert other.shift < alike.shift
    assert other.weight < 0.1 * alike.weight
    assert other.alike == 0


def test_near_runs_count_more() -> None:
    table = known((at(log_batch=0.0), 0.0), (at(log_batch=10.0), 1.0))
    shifts = [table.about(at(log_batch=float(place))).shift for place in (0, 3, 7, 10)]
    assert shifts == sorted(shifts)
    assert shifts[0] < 0.1
    assert shifts[-1] > 0.9


def test_what_changes_with_the_batch_size_is_followed_but_not_far() -> None:
    table = known(*((at(log_batch=float(place)), 0.1 * place) for place in (2, 3, 4, 6, 7)))
    shifts = {place: table.about(at(log_batch=float(place))).shift for place in (0, 5, 8, 20)}
    assert shifts[5] == pytest.approx(0.5, abs=0.02)
    assert 0.65 < shifts[8] < 0.8
    assert shifts[0] < 0.15
    assert shifts[20] < 1.0
    level = known(*((at(log_batch=float(place)), 0.3) for place in (2, 3, 6)))
    assert level.about(at(log_batch=9.0)).shift == pytest.approx(0.3, abs=0.02)


def test_one_run_near_by_outweighs_several_far_away() -> None:
    far = [(at(log_batch=5.0 + place, precision=1), 1.0) for place in (-2, -1, 0, 1, 2)]
    assert known((at(log_batch=5.5), 0.0), *far).about(BASE).shift < 0.2


def test_equal_runs_become_the_largest_and_what_is_never_compared_is_left_out() -> None:
    packed = [struct.pack("<IIII", 200_000, 240_000, 60_000, 1), struct.pack("<hBh", 500, 7, 3200)]
    for shifts in ((0.2, 0.4), (0.4, 0.2)):
        runs = tabulate([*((BASE, shift) for shift in shifts), (Run(), 0.9)])["runs"]
        assert runs == {"blocks": [b64encode(part).decode() for part in packed]}


def test_the_widest_runs_can_be_written() -> None:
    run = at(log_batch=300.0, precision=len(PRECISIONS) - 1)
    for shift in (-4.0, 4.0):
        assert known((run, shift)).about(run).shift == pytest.approx(shift, abs=0.02)


def test_a_shift_says_the_measured_run_again() -> None:
    for measured, corrected, fixed in ((9000.0, 5000.0, 1200.0), (3000.0, 5000.0, 1200.0), (1300.0, 1250.0, 1200.0)):
        made, share = shifted(corrected, fixed, shift_of(measured, corrected, fixed))
        assert made == pytest.approx(measured)
        assert 0 < share < 1
    assert shifted(5000.0, 1200.0, 0.0)[0] == 5000.0
    assert shifted(900.0, 1200.0, -2.5)[0] > 0


def held(*types: str, holder: str) -> Run:
    return at(blocks="", around=("module", frozenset(types), holder))


def test_a_model_that_a_class_of_the_users_holds_is_found() -> None:
    inner = frozenset({"ResNet", "Conv2d", "Linear"})
    table = known((at(blocks=blocks_of("module", inner)), 0.3))
    assert table.about(held("Net", *inner, holder="Net")).level == "repeated"
    assert table.about(held("Net", "Dropout", "Identity", *inner, holder="Net")).level == "repeated"
    assert table.about(held("Net", "Conv3d", *inner, holder="Net")) == NOTHING
    assert table.about(held("Net", *inner, holder="ResNet")) == NOTHING
    assert table.about(held("Net", *inner, holder="")) == NOTHING
    assert table.about(held("Dropout", *inner, holder="")) == NOTHING
    plain = frozenset({"Sequential", "Conv2d", "Linear"})
    table = known((at(blocks=blocks_of("module", plain)), 0.3))
    assert table.about(held("Net", *plain, holder="Net")) == NOTHING


def of(*types: str, format_: str = "module", **changes: Any) -> Run:
    return at(blocks=blocks_of(format_, frozenset(types)), around=(format_, frozenset(types), ""), **changes)


def test_the_order_of_types_and_letters_that_are_none_change_nothing() -> None:
    assert blocks_of("module", frozenset({"ResNet", "Linear", "Conv2d"})) == "c9e615447c205381"
    assert blocks_of("module", frozenset({"caf\udce9"})) != blocks_of("module", frozenset({"caf"}))


def test_a_detector_is_known_by_prints_that_show_its_two_steps_and_by_those_that_do_not() -> None:
    shown, hidden = (("FCOS", "GeneralizedRCNNTransform", *steps) for steps in (("Normalize", "Resize"), ()))
    table = known((of(*hidden), 0.5), (of(*shown, log_batch=9.0), 0.7))
    for types in (shown, hidden):
        assert table.about(of(*types)).level == "repeated"
        assert table.about(of(*types)).shift == pytest.approx(0.5, abs=0.001)
    other = known((of("FCOS"), 0.5))
    assert other.about(of("FCOS", "Normalize", "Resize")).level == "new"  # no detector of torchvision's


@pytest.mark.parametrize("larger", [2.6, -2.6])
def test_a_detector_that_resizes_to_another_side_is_known_by_its_own_prints_alone(larger: float) -> None:
    types = ("FasterRCNN", "GeneralizedRCNNTransform")
    table = known((of(*types), 0.5))
    other = of(*types, "Normalize", "Resize", log_elements=at().log_elements + larger)
    assert (table.about(other).level, table.about(other).runs) == ("new", 0)


def test_models_of_almost_the_same_types_say_less_than_kin_and_more_than_nothing() -> None:
    types = ("Net", "Block", "Conv2d", "Linear", "Dropout")
    table = known((of(*types), 0.3))
    similar = table.about(of(*types, "Own"))
    assert similar.level == "similar"
    assert similar.resemblance == pytest.approx(5 / 6)
    assert 0 < similar.shift < table.about(of(*types)).shift
    assert len(similar.features(0.5)) == len(KNOWLEDGE)
    assert table.about(of(*types)).resemblance == 1.0
    assert table.about(of(*types, "Own", "Other")).nearest > similar.nearest > table.about(of(*types)).nearest
    both = known((of(*types), 0.3), (of(*types, "Own"), -0.5))
    assert both.about(of(*types)).level == "repeated", "one's own runs count, not what resembles"


@pytest.mark.parametrize(
    ("run", "resemblance"),
    [
        (of("Net", "Block", "Conv2d", "Own", "Other", "Another"), 0.0),
        (of("Net", "Block", "Conv2d", "Linear", "Dropout", "Own", format_="torchinfo"), 0.0),
        (of("Net", "Block", "Conv2d", "Linear", "Dropout", log_params=30.0), 0.0),
        (of("Net", "Block", "Conv2d", "Linear", "Dropout", "Own", log_params=30.0), 5 / 6),
    ],
    ids=["few in common", "another format", "the same, too large", "similar, too large"],
)
def test_what_resembles_too_little_or_is_too_far_away_is_new(run: Run, resemblance: float) -> None:
    found = known((of("Net", "Block", "Conv2d", "Linear", "Dropout"), 0.3)).about(run)
    assert (found.level, found.shift) == ("new", 0.0)
    assert found.resemblance == pytest.approx(resemblance)


def test_the_models_that_resemble_most_are_asked_and_those_only_by_types_that_few_have() -> None:
    common = ("Conv2d", "Linear", "ReLU", "Dropout")
    table = known(*((of(*common, f"Net{place}", f"Block{place}"), 0.1 * (place % 7)) for place in range(200)))
    assert table.about(of(*common)).level == "new"
    assert table.about(of(*common, "Own")).level == "new"
    found = table.about(of(*common, "Net3", "Block3", "Own"))
    assert found.level == "similar"
    assert found.shift == pytest.approx(0.3, abs=0.02)


def test_the_same_architecture_is_told_from_another_that_is_printed_with_as_many_steps() -> None:
    table = known((BASE, 0.3), (at(log_elements=25.0), 0.3))
    assert [table.about(at(log_elements=size)).unlike for size in (24.0, 24.1, 25.0)] == pytest.approx([0, 0.06, 0])
    assert table.about(at(log_params=21.0)).unlike == NOTHING.unlike


TABLE = "Layer (type)  Output Shape  Param #\n===\n"
LINEAR = [f"Linear-{at} [-1, 8] 72\n" for at in range(2, 8)]


def test_a_request_is_described_by_its_sizes_and_by_how_it_runs() -> None:
    summary = parse_summary(f"{TABLE}Linear-1 [-1, 8] 72\nReLU-2 [-1, 8] 0\n===\n")

    def described(made_anew: int = 0, **changes: Any) -> Run:
        workload = Workload(8, **changes)
        shaped = replace(with_shapes(summary, workload), made_anew=made_anew)
        program = compile_program(shaped)
        run = run_of(program, shaped, workload)
        assert run.log_elements == log2(sum(program.tensors) + 1)
        assert run.log_steps == log2(len(program.ops) + 1)
        return run

    trained = described(optimizer="sgd_momentum", precision="bf16")
    assert (trained.log_params, trained.log_batch) == (log2(72 + 1), 3.0)
    assert (trained.precision, trained.training, trained.optimizer) == (PRECISIONS.index("bf16"), 1, 1)
    assert described(optimizer="adam").optimizer == described(optimizer="adamw").optimizer == 3
    inferred = described(kind="infer", optimizer="adam")
    assert (inferred.training, inferred.optimizer) == (0, 0)
    assert described(made_anew=72).log_params == log2(2 * 72 + 1)  # no model that was measured


@pytest.mark.parametrize(
    ("text", "holder"),
    [
        ("Net(\n  (body): Own(\n    (0): Linear(in_features=8, out_features=8, bias=True)\n  )\n)\n", "Net"),
        (
            f"{TABLE}Linear-1 [-1, 8] 72\nOwn-2 [-1, 8] 0\nLinear-3 [-1, 8] 72\n===\n",
            "Own",
        ),
        (f"{TABLE}Linear-1 [-1, 8] 72\nFlatten-2 [-1, 8] 0\n===\n", ""),
        (f"{TABLE}Linear-1 [-1, 8] 72\nOwn-2 [-1, 8] 72\n===\n", ""),
        (f"{TABLE}Linear-1 [-1, 8] 72\nOwn-2 [-1, 8] 0\nNet-3 [-1, 8] 0\nReLU-4 [-1, 8] 0\n===\n", "Net"),
        ("".join([TABLE, "Own-1 [-1, 8] 0\n", *LINEAR[:5], "===\n"]), "Own"),
        ("".join([TABLE, "Own-1 [-1, 8] 0\n", *LINEAR, "===\n"]), ""),
    ],
)
def test_the_class_around_a_model_is_named(text: str, holder: str) -> None:
    workload = Workload(2)
    shaped = with_shapes(parse_summary(text), workload)
    run = run_of(compile_program(shaped), shaped, workload)
    assert run.around is not None
    assert run.around[2] == holder
