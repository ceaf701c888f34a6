"""Fitting RAD's estimate: on runs whose law is known, and the rule for installing."""

from __future__ import annotations

import lzma
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import exp, prod
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from estimator.dataset.convolutions import Seen
from estimator.dataset.specs import Split
from estimator.dataset.store import committed
from estimator.methods.rad import Rad
from estimator.methods.rad.convolutions import outputs
from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.fit import blank, fit, processes
from estimator.methods.rad.fit.bounds import SETTINGS, bounds_of, calibrating, learned
from estimator.methods.rad.fit.examples import Example
from estimator.methods.rad.fit.holdout import WAYS, HeldOut, held_out
from estimator.methods.rad.fit.judge import Held, judge, no_worse
from estimator.methods.rad.fit.learners import boosted, fit_workspaces, spreading
from estimator.methods.rad.known import KNOWLEDGE, Level, Run, blocks_of
from estimator.methods.rad.measure_workspaces import SMALL_SIDES, Drawn, draw, draw_near, draw_other, seen_of
from estimator.methods.rad.measured_convolutions import Measured, read, write
from estimator.methods.rad.program import Conv, Extents
from estimator.methods.rad.trees import Trees
from estimator.methods.rad.workspace import Workspaces, total_bytes
from tests.estimator.accounts import CONTEXTS, NO_WORKSPACE

BASE = blank(NO_WORKSPACE, CONTEXTS, "h200")
LAW = FEATURES.index("kept")
NOISE = 0.05
_AT_MOST = {"recurrent": 0.0, "weights": 0.1, "gradients": 0.1, "states": 0.1}
_FIXED = ("weights", "gradients", "states", "module")


def examples(count: int, seed: int) -> list[Example]:
    """Runs whose true memory is 20 % above the account where much is kept, and varies by 5 %."""
    rng = random.Random(seed)
    made = []
    for index in range(count):
        row = [rng.random() * _AT_MOST.get(name, 1.0) for name in FEATURES]
        accounted = 500 + 5000 * rng.random()
        law = 0.2 if row[LAW] > 0.5 else 0.0
        measured = (accounted + 750) * exp(law + rng.uniform(-NOISE, NOISE))
        made.append(Example(row, accounted, measured, f"group{seed}-{index % 10}", 1.0, True, context=750.0))
    return made


def test_a_fit_finds_the_law_and_bounds_the_rest() -> None:
    known, held = examples(400, 1), examples(200, 2)
    model = fit(known, BASE, trees=25).model
    before, after = judge(BASE, held), judge(model, held)
    assert after.median_abs_rel_error < 0.8 * before.median_abs_rel_error
    assert after.under_rate <= 0.08
    assert after.mean_over_fraction < 0.15
    expected, upper, level = Rad(model).from_account(held[0].row, held[0].accounted, 750.0, Run())
    assert level == "new"
    assert upper > expected


def test_a_bound_is_judged_as_it_is_given_out() -> None:
    wide = {**BASE, "bounds": dict.fromkeys(BASE["bounds"], 1000.0)}
    held = [replace(item, accounted=70_000.0, measured=70_000.0) for item in examples(4, 3)]
    assert Rad(wide).from_account(held[0].row, held[0].accounted, 750.0, Run())[1] > 200_000
    assert judge(wide, held).mean_over_fraction == pytest.approx(143_771 / 70_000 - 1)


def test_strange_layers_widen_the_bound() -> None:
    known = [replace(item, names=frozenset(("Linear", "Conv2d"))) for item in examples(300, 5)]
    rng = random.Random(6)
    strange = [
        replace(
            item,
            names=frozenset((f"Odd{index}", "Linear")),
            group=f"odd{index}",
            measured=item.measured * exp(rng.uniform(-0.4, 0.4)),
            weight=0.01,
        )
        for index, item in enumerate(examples(300, 7))
    ]
    model = fit(known + strange, BASE, trees=25).model
    assert set(model["known"]) >= {"Linear", "Conv2d", "Odd1"}
    method, names = Rad(model), frozenset(model["known"])

    def width(item: Example) -> float:
        expected, upper, _ = method.from_account(item.seen_by(names), item.accounted, 750.0, Run())
        return upper / expected

    usual = [width(item) for item in known[:50]]
    odd = [width(replace(item, names=frozenset(("New",)))) for item in known[:50]]
    assert sum(odd) > sum(usual) + 1


def measured_often() -> list[Example]:
    """60 architectures in 20 families, each with its own error, three runs of each."""
    rng = random.Random(8)
    own = [rng.uniform(-0.25, 0.25) for _ in range(60)]
    made = []
    for index, item in enumerate(examples(180, 9)):
        which = index // 3
        run = Run(f"blocks{which // 3}", 20.0 + which % 3, 24.0, 6.0, float(index % 3), 0, 1, 2)
        row = [0.0 if name in _FIXED else value for name, value in zip(FEATURES, item.row, strict=True)]
        measured = (item.accounted + 750) * exp(own[which] + rng.uniform(-0.01, 0.01))
        about = replace(item, row=row, measured=measured, group=f"g{which // 3}", run=run)
        made.append(replace(about, model=f"m{which}", id=f"r{index}"))
    return made


def test_what_was_measured_is_known_of_each_run_as_if_it_had_not_been() -> None:
    items = measured_often()
    _, held = held_out(items, 5)
    assert set(held.ways) == set(WAYS)
    assert {level for level, way in zip(held.levels, held.ways, strict=True) if way == "family"} == {"new"}
    errors = {way: np.mean([abs(r) for r, w in zip(held.residual, held.ways, strict=True) if w == way]) for way in WAYS}
    assert errors["run"] < 0.6 * errors["model"]
    # Hardly more than the run itself is left out: the other two of its model are known nearly always.
    others = held.rows[held.without("run"), len(FEATURES) + KNOWLEDGE.index("runs")]
    assert np.mean(others == 2) > 0.9
    # A run's own label changes nothing of what is told of it.
    _, other = held_out([replace(items[0], measured=3 * items[0].measured), *items[1:]], 5)
    for before, after, item in zip(held.rows, other.rows, held.items, strict=True):
        if item.id == "r0":
            assert list(before) == list(after)


def test_the_bound_of_a_measured_architecture_is_narrow() -> None:
    items = measured_often()
    model = fit(items, BASE, trees=5).model
    assert set(model["measured"]["runs"]) == {f"blocks{index}" for index in range(20)}
    method, item = Rad(model), items[0]
    row = item.seen_by(frozenset())
    other = item.run._replace(log_batch=item.run.log_batch + 0.1)
    expected, upper, level = method.from_account(row, item.accounted, 750.0, other)
    unknown = method.from_account(row, item.accounted, 750.0, Run())
    assert (level, unknown[2]) == ("measured", "new")
    assert expected == pytest.approx(item.measured, rel=0.1)
    assert upper / expected < unknown[1] / unknown[0]
    assert len(model["features"]) == len(FEATURES) + len(KNOWLEDGE)


def judged(count: int, level: str, **about: Any) -> HeldOut:
    """Errors up to 0.2, as a model says them that knew so much."""
    rng = random.Random(count)
    rows = np.array([[rng.random() for _ in (*FEATURES, *KNOWLEDGE)] for _ in range(count)])
    rows[:, len(FEATURES) + KNOWLEDGE.index("share")] = 1.0
    items = [Example([], 1.0, 1.0, f"{level}{index % 10}", 1.0, True, **about) for index in range(count)]
    residual = np.array([rng.uniform(0.0, 0.2) for _ in items])
    folds = np.array([index % 5 for index in range(count)])
    ones = np.ones(count)
    return HeldOut(items, ["run"] * count, [cast("Level", level)] * count, rows, residual, ones > 0, ones, folds)


def joined(one: HeldOut, other: HeldOut) -> HeldOut:
    return HeldOut(
        one.items + other.items,
        one.ways + other.ways,
        one.levels + other.levels,
        np.concatenate([one.rows, other.rows]),
        np.concatenate([one.residual, other.residual]),
        np.concatenate([one.sound, other.sound]),
        np.concatenate([one.weights, other.weights]),
        np.concatenate([one.folds, other.folds]),
    )


def test_errors_of_a_level_are_learned_from_its_own_runs() -> None:
    near, far = judged(200, "measured"), judged(201, "new")
    wild = replace(far, residual=far.residual + 0.5)
    (_, alone), (spreads, beside) = learned(near, 6), learned(joined(near, wild), 6)
    assert list(beside[:200]) == list(alone)
    assert min(beside[200:]) > max(alone)
    assert set(spreads) == set(SETTINGS)


def test_bounds_of_what_was_measured_are_set_by_configurations_that_were_drawn() -> None:
    usual, gaps = judged(200, "measured", drawn=True), judged(201, "measured")
    held = joined(usual, replace(gaps, residual=3 * gaps.residual))
    assert list(calibrating(held)["measured"]) == [True] * 200 + [False] * 201
    sizes = np.full(401, 0.1)
    assert bounds_of(held, sizes)["measured"] == pytest.approx(np.quantile(usual.residual, 0.994) / 0.1, rel=0.02)
    few = joined(judged(20, "measured", drawn=True), gaps)
    assert calibrating(few)["measured"].all()


def test_bounds_of_what_is_repeated_are_set_by_runs_of_the_same_model() -> None:
    def of(count: int, blocks: str, way: str) -> HeldOut:
        held = judged(count, "repeated", run=Run(blocks))
        return replace(held, ways=[way] * count)

    # Those of the second sort are repeated without their model, too: another looks the same.
    held = joined(joined(of(200, "own", "run"), of(201, "other", "run")), of(30, "other", "model"))
    assert list(calibrating(held)["repeated"]) == [True] * 200 + [False] * 231


def test_bounds_of_relatives_are_set_by_models_that_were_left_out() -> None:
    for level in ("kin", "similar"):
        held = joined(judged(200, level), judged(201, level))
        held = replace(held, ways=["model"] * 200 + ["family"] * 201)
        assert list(calibrating(held)[level]) == [True] * 200 + [False] * 201


def test_a_variant_of_measured_models_is_told_from_what_resembles_nothing() -> None:
    items = []
    for item in measured_often():
        names = frozenset({"Linear", f"Net{item.group}", f"Block{item.group}"})
        around = ("module", names, "")
        items.append(replace(item, names=names, run=item.run._replace(blocks=blocks_of(*around[:2]), around=around)))
    method, item = Rad(fit(items, BASE, trees=5).model), items[0]
    row = item.seen_by(frozenset())

    def known(*more: str) -> tuple[float, str]:
        names = item.names | {*more}
        run = item.run._replace(blocks=blocks_of("module", names), around=("module", names, ""))
        expected, _, level = method.from_account(row, item.accounted, 750.0, run)
        return abs(expected - item.measured), level

    same, variant, other = known(), known("Own"), known("Own", "Another", "Third")
    assert [level for _, level in (same, variant, other)] == ["repeated", "similar", "new"]
    assert same[0] < variant[0] < other[0]


def test_equal_data_makes_an_equal_model_in_any_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    known = examples(80, 3)
    alone = fit(known, BASE, trees=5)
    monkeypatch.setattr(processes, "cores", lambda: 2)
    assert fit(known, BASE, trees=5) == alone


def test_levels_without_measurements_get_the_widest_bound() -> None:
    bounds = fit(examples(80, 4), BASE, trees=5).model["bounds"]
    assert 0 < bounds["new"] == bounds["kin"] == bounds["measured"] < 10.0
    assert set(fit(examples(15, 4), BASE, trees=5).model["bounds"].values()) == {10.0}


def test_nothing_held_out_is_an_error() -> None:
    with pytest.raises(ValueError, match="held-out"):
        judge(BASE, [])


@pytest.mark.parametrize(
    ("new", "old", "allowed"),
    [
        ((0.05, 0.01), (0.06, 0.01), True),
        ((0.05, 0.01), (0.05, 0.01), True),
        ((0.07, 0.00), (0.06, 0.01), False),
        ((0.05, 0.02), (0.06, 0.01), False),
        ((0.05, 0.01), (0.06, 0.00), True),
        ((0.0504, 0.0274), (0.0496, 0.0266), True),
        ((0.0504, 0.0274), (0.0494, 0.0266), False),
        ((0.0504, 0.0276), (0.0496, 0.0266), False),
    ],
)
def test_a_model_is_installed_only_if_it_is_no_worse(
    new: tuple[float, float], old: tuple[float, float], allowed: bool
) -> None:
    assert no_worse(Held(9, new[1], new[0], 0.1), Held(9, old[1], old[0], 0.1)) is allowed


def measured_picture(kernel: int, side: int, inputs: int, outputs: int, batch: int) -> Measured:
    return Measured(1, 1, kernel, kernel, 1, 1, 1, 0, "fp32", 1, side, side, inputs, outputs, batch, 0, 0, 0)


def test_workspaces_are_learned_from_measured_convolutions(tmp_path: Path) -> None:
    measured = []
    for batch in range(8, 320, 8):
        plain = measured_picture(3, 16, 16, 32, batch)
        for item, times in ((plain, 0), (plain._replace(precision="bf16"), 1)):
            size = int(total_bytes(item.conv, batch, item.precision))
            measured.append(item._replace(forward=times * size, weight=2 * size))
        for side in (16, 32):  # the gradients of larger pictures are not apart for each sample
            item = measured_picture(1, side, 256, 512, batch)
            measured.append(item._replace(weight=batch * 4 * 256 * 512 if side == 16 else 0))
    path = tmp_path / "w.csv.xz"
    write(path, measured)
    assert read(path) == sorted(measured)
    spaces = Workspaces(fit_workspaces(path))
    conv = Conv(16, 32, 9, 1, 1, 256, 256)
    assert spaces.of(conv, 64, "fp32") == pytest.approx((0.0, 2 * total_bytes(conv, 64, "fp32")))
    assert spaces.of(conv, 64, "bf16")[0] == pytest.approx(total_bytes(conv, 64, "bf16"))
    pixels = Conv(256, 512, 1, 1, 1, 256, 256)
    assert spaces.of(pixels, 100, "fp32") == (0.0, 100 * 4 * 256 * 512)
    assert spaces.of(pixels._replace(size_in=1024, size_out=1024), 100, "fp32") == (0.0, 0.0)


def test_what_is_no_file_of_convolutions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.csv.xz"
    path.write_bytes(lzma.compress(b"precision,fp32\nbatch,3\n"))
    with pytest.raises(ValueError, match="no columns of measured convolutions"):
        read(path)
    with pytest.raises(ValueError, match="multiple of 512"):
        write(path, [measured_picture(1, 16, 256, 512, 8)._replace(input=100)])


JUDGES: tuple[Split, ...] = ("fresh", "kin", "known")
SEEN = [
    Seen(4, 64, 128, 2, 1, Extents((1, 3, 3), (1, 56, 56), 1, padded=True, last=False)),
    Seen(1, 64, 64, 1, 64, Extents((1, 1, 7), (1, 1, 400), 1, padded=True, last=False)),
]


@pytest.mark.parametrize(
    "draws", [draw, partial(draw, sides=SMALL_SIDES), draw_other, lambda rng: draw_near(rng, SEEN)]
)
def test_drawn_convolutions_are_possible(draws: Callable[[random.Random], Drawn | None]) -> None:
    rng = random.Random(5)
    drawn = [found for found in (draws(rng) for _ in range(300)) if found is not None]
    assert len(drawn) > 100
    for batch, inputs, channels, stride, groups, extents in drawn:
        assert inputs % groups == channels % groups == 0
        assert min(outputs(extents, stride)) >= 1
        assert 4 * batch * inputs * prod(extents.sides) <= 3e9
    assert len({found.batch for found in drawn}) > 5
    assert np.mean([found.groups > 1 for found in drawn]) > 0.05


def test_models_that_judge_are_not_convolved_like() -> None:
    row = next(row for row in committed().rows if row.spec.name == "alexnet" and row.split == "train")
    assert [seen.extents.kernel[2] for seen in seen_of(replace(committed(), rows=(row,)))] == [11, 5, 3, 3, 3]
    for apart in JUDGES:
        assert seen_of(replace(committed(), rows=(replace(row, apart=apart),))) == []


def test_convolutions_of_models_are_drawn_as_they_are_and_in_other_sizes() -> None:
    rng = random.Random(5)
    drawn = [found for found in (draw_near(rng, SEEN) for _ in range(2000)) if found is not None]
    plain = [(seen.inputs, seen.outputs, seen.extents.sides) for seen in SEEN]
    same = [(found.inputs, found.outputs, found.extents.sides) in plain for found in drawn]
    assert 0.4 < np.mean(same) < 0.7
    assert {found.batch % 4 for found in drawn if found.groups == 1} == {0}  # so many pictures a sample
    assert {(found.stride, found.groups, found.extents.kernel) for found in drawn} == {
        (2, 1, (1, 3, 3)),
        (1, 64, (1, 1, 7)),
    }
    assert {found.extents.last for found in drawn if found.extents.sides[1] > 1} == {False, True}
    assert {found.extents.last for found in drawn if found.extents.sides[1] == 1} == {False}


def test_all_sorts_of_convolutions_are_drawn() -> None:
    rng = random.Random(5)
    drawn = [found.extents for found in (draw_other(rng) for _ in range(2000)) if found is not None]
    sorts = {
        "series": [item for item in drawn if item.sides[:2] == (1, 1) and item.sides[2] > 1],
        "films": [item for item in drawn if item.sides[0] > 1],
        "dilated": [item for item in drawn if item.dilation > 1],
        "rows as a whole": [item for item in drawn if not item.padded and item.kernel[2] == item.sides[2] > 7],
        "channels together": [item for item in drawn if item.last],
        "unlike sides": [item for item in drawn if item.sides[1] != item.sides[2]],
    }
    assert {name: len(found) > 50 for name, found in sorts.items()} == dict.fromkeys(sorts, True)


@pytest.mark.parametrize("learner", [boosted(20), spreading(20, 0.95)])
def test_what_was_learned_is_written_down_as_it_was(learner: Any) -> None:
    drawn = np.random.default_rng(0)
    rows = drawn.random((2000, 5))
    model = learner.fit(rows, rows[:, 0] * 3 + np.sin(9 * rows[:, 1]) + drawn.random(2000))
    trees = Trees(model.written())
    assert [trees.predict(list(row)) for row in rows] == pytest.approx(model.predict(rows), abs=1e-4)


def test_a_process_that_dies_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "cores", lambda: 2)
    with pytest.raises(processes.ProcessDiedError, match=r"one of 2 processes died, .*taskset"):
        processes.forked([lambda: os._exit(9)] * 2)


def test_processes_end_with_a_command_that_is_killed() -> None:
    """What they print to is closed only when the last of them is gone."""
    code = (
        "import os, threading\n"
        "from estimator.methods.rad.fit import processes\n"
        "processes.cores = lambda: 2\n"
        "def stuck():\n"
        "    os.write(1, f'{os.getpid()}\\n'.encode())\n"
        "    threading.Event().wait()\n"
        "processes.forked([stuck, stuck])\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        try:
            workers = [int(command.stdout.readline()) for _ in range(2)]
        finally:
            command.kill()
        ended = bool(select.select([command.stdout], [], [], 60)[0])
        if not ended:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
    assert ended, "they go on without the command"


def test_processes_fit_behind_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP's threads are not there in a process forked from one that used them."""
    monkeypatch.setattr(processes, "cores", lambda: 2)
    rows = np.random.default_rng(0).random((2000, 5))
    with threadpool_limits(4):
        model = boosted(5).fit(rows, rows[:, 0])
        again = processes.forked([lambda: boosted(5).fit(rows, rows[:, 0]).predict(rows)] * 2)
    assert np.array_equal(again[0], model.predict(rows))
