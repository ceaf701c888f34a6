from __future__ import annotations

import dataclasses
import json
import math
import os
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from predictor import rad
from predictor.artifact import Colocation
from predictor.contention import Fit, Settings, log_metrics
from predictor.fitting import fit
from predictor.measure import score
from predictor.measurements import load_profiles
from predictor.rad import (
    Rad,
    RadPredictor,
    choose_settings,
    from_json,
    held_out_error,
    to_json,
)
from predictor.threads import Law
from predictor.types import KernelMetrics, Profile, WeightsError, offsets_of
from predictor.weights import BUNDLED, load_predictor
from tests.predictor.synthetic import colocate, every_pair, profile, truth, workloads

FOUND = workloads(15)
PAIRS = every_pair(FOUND)
MODEL = fit(PAIRS, Settings())
PREDICTOR = RadPredictor(MODEL, "test")


def progress(model: Fit, profiles: Sequence[Profile]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return model.sides(profiles, offsets_of([len(profiles)]))[0]


def test_learns_the_law_from_few_pairs_and_ranks_by_it() -> None:
    model = Rad().fit(PAIRS[::4])
    held = [row for index, row in enumerate(PAIRS) if index % 4]
    found = score(held, model.predict(held))
    assert found.oracle_fraction > 0.97
    assert found.r2 > 0.95


def test_unseen_workloads_are_predicted_from_their_profiles() -> None:
    strangers = list(workloads(30, seed=11).values())
    errors = [
        abs(progress(MODEL, [one, two])[0] - truth(one, [two]))
        for one, two in zip(strangers[:15], strangers[15:], strict=True)
    ]
    assert np.mean(errors) < 0.06


def test_pairs_teach_triples() -> None:
    chance = random.Random(2)
    errors = []
    for _ in range(40):
        three = chance.sample(list(FOUND.values()), 3)
        errors.append(abs(progress(MODEL, three)[0] - truth(three[0], three[1:])))
    assert np.mean(errors) < 0.06


def test_triples_can_be_learned_from() -> None:
    chance = random.Random(4)
    triples = [colocate(chance.sample(list(FOUND.values()), 3), 0.02, chance) for _ in range(60)]
    model = fit(triples, Settings())
    assert model.throughput_sums(triples) == pytest.approx([row.throughput_sum for row in triples], rel=0.25)


def test_a_wrong_exclusive_throughput_is_found_out() -> None:
    name = next(iter(FOUND))
    wrong = dataclasses.replace(FOUND[name], throughput=FOUND[name].throughput * 4)
    rows = []
    for row in PAIRS:
        sides = tuple(dataclasses.replace(side, profile=wrong) if side.workload == name else side for side in row.sides)
        rows.append(dataclasses.replace(row, sides=sides))
    model = fit(rows, Settings())
    assert model.alone_factor(name) == pytest.approx(0.25, rel=0.15)
    assert model.alone_factor("never seen") == 1.0


busy = st.floats(0.0, 1.0)
grown = st.floats(0.0, 0.5)
threads = st.floats(1.0, 1e8)


@settings(max_examples=60, deadline=None)
@given(own=busy, first=busy, second=busy, more=grown, size=threads, larger=st.floats(1.0, 1e3))
def test_a_busier_neighbour_never_helps(
    own: float, first: float, second: float, more: float, size: float, larger: float
) -> None:
    me, other = profile("me", busy=own), profile("other", busy=second)
    calm = profile("calm", busy=first, threads=size)
    wild = profile("wild", busy=min(first + more, 1.0), threads=size * larger)
    for rest in ([], [other]):
        before = PREDICTOR.predict(me, [calm, *rest])
        after = PREDICTOR.predict(me, [wild, *rest])
        assert after.candidate <= before.candidate + 1e-12
        if rest:
            assert after.residents[1] <= before.residents[1] + 1e-12


MEASURED = tuple(load_profiles(BUNDLED).values())
SHIPPED = load_predictor("rad")
FRACTIONS_OF = ("smact", "smocc", "tensor", "dram", "pcie", "busy")
KERNELS_OF = ("threads", "registers", "turn_us", "mean_us", "blocking_us")


@settings(max_examples=300, deadline=None)
@given(
    me=st.sampled_from(MEASURED),
    other=st.sampled_from(MEASURED),
    third=st.sampled_from((None, *MEASURED)),
    keys=st.sets(st.sampled_from(FRACTIONS_OF + KERNELS_OF), min_size=1),
    factor=st.floats(1.0, 4.0),
    scale=st.floats(0.3, 1.0),
)
def test_shipped_weights_are_monotone_and_in_range(
    me: Profile, other: Profile, third: Profile | None, keys: set[str], factor: float, scale: float
) -> None:
    calm = dataclasses.replace(other, smact=other.smact * scale)
    kernel = {key: getattr(calm.kernel, key) * factor for key in keys & set(KERNELS_OF)}
    busier = {key: min(getattr(calm, key) * factor, 1.0) for key in keys & set(FRACTIONS_OF)}
    wild = dataclasses.replace(calm, **busier, kernel=dataclasses.replace(calm.kernel, **kernel))
    rest = [] if third is None else [third]
    before, after = SHIPPED.predict(me, [calm, *rest]), SHIPPED.predict(me, [wild, *rest])
    assert after.candidate <= before.candidate + 1e-12
    assert after.residents[1:] <= tuple(value + 1e-12 for value in before.residents[1:])
    assert SHIPPED.predict(me, [calm]).candidate >= before.candidate - 1e-12, "one more neighbour never helps"
    for said in (before, after):
        assert all(0.0 < value <= 1.0 for value in (said.candidate, *said.residents))
        assert 0.0 <= said.uncertainty < 1.0


@settings(max_examples=60, deadline=None)
@given(sides=st.lists(st.tuples(busy, threads), min_size=1, max_size=6))
def test_everything_stays_in_range(sides: list[tuple[float, float]]) -> None:
    profiles = [profile(str(index), busy=b, threads=t) for index, (b, t) in enumerate(sides)]
    found = PREDICTOR.predict(profiles[0], profiles[1:])
    values = [found.candidate, *found.residents]
    assert len(found.residents) == len(sides) - 1
    assert all(0.0 < value <= 1.0 for value in values)
    assert 0.0 <= found.uncertainty < 1.0
    assert found.throughput_sum == pytest.approx(sum(values))
    assert found.worst_resident == min(found.residents, default=1.0)


def test_one_more_neighbour_never_helps() -> None:
    listed = list(FOUND.values())
    for count in range(1, 6):
        fewer = PREDICTOR.predict(listed[0], listed[1 : 1 + count])
        more = PREDICTOR.predict(listed[0], listed[1 : 2 + count])
        assert more.candidate < fewer.candidate
        assert all(a < b for a, b in zip(more.residents, fewer.residents, strict=False))


def test_many_groups_agree_with_one_at_a_time() -> None:
    listed = list(FOUND.values())
    groups: list[list[Profile]] = [[], listed[1:2], listed[2:5], [], listed[5:6]]
    many = PREDICTOR.predict_many(listed[0], groups)
    assert len(many) == len(groups)
    for group, found in zip(groups, (many[index] for index in range(len(groups))), strict=True):
        alone = PREDICTOR.predict(listed[0], group)
        assert found.candidate == pytest.approx(alone.candidate)
        assert found.residents == pytest.approx(alone.residents)
        assert found.uncertainty == pytest.approx(alone.uncertainty)
    assert many.throughput_sum == pytest.approx([many[index].throughput_sum for index in range(len(groups))])
    assert many.worst_resident == pytest.approx([many[index].worst_resident for index in range(len(groups))])
    assert many[0].candidate == 1.0 and many[0].uncertainty == 0.0
    assert many[-1] == many[4]
    with pytest.raises(IndexError):
        many[5]
    assert len(PREDICTOR.predict_many(listed[0], [])) == 0


def test_uncertainty_is_larger_where_nothing_like_it_was_measured() -> None:
    def logit_deviation(one: Profile, two: Profile) -> float:
        found = PREDICTOR.predict(one, [two])
        return found.uncertainty / (found.candidate * (1.0 - found.candidate))

    known = logit_deviation(profile("a"), profile("b"))
    strange = logit_deviation(profile("a", busy=0.006, threads=1e2), profile("b", busy=0.9, threads=1e9))
    assert strange > 1.2 * known > 0.0


def test_uncertainty_covers_held_out_errors() -> None:
    model = fit(PAIRS, choose_settings(PAIRS))
    strangers = list(workloads(40, seed=12).values())
    inside = 0
    for one, two in zip(strangers[:20], strangers[20:], strict=True):
        found = RadPredictor(model).predict(one, [two])
        inside += abs(found.candidate - truth(one, [two])) <= 2 * found.uncertainty
    assert inside >= 17


def test_a_missing_metric_counts_as_average() -> None:
    bare = dataclasses.replace(profile("bare"), kernel=KernelMetrics(), busy=math.nan)
    logs = log_metrics([bare], ("busy", "threads"))
    assert logs[0, 0] == pytest.approx(math.log(bare.smact))
    assert math.isnan(logs[0, 1])
    assert 0.0 < PREDICTOR.predict(bare, [bare]).candidate < 1.0
    assert log_metrics([], ("busy",)).shape == (0, 1)


def test_a_metric_that_no_workload_has_gets_no_say() -> None:
    model = fit(PAIRS, Settings(turns=("turn_us", "registers")))
    bare = [
        dataclasses.replace(
            row,
            sides=tuple(
                dataclasses.replace(side, profile=dataclasses.replace(side.profile, kernel=KernelMetrics(threads=1e5)))
                for side in row.sides
            ),
        )
        for row in PAIRS
    ]
    assert np.isfinite(model.theta).all()
    assert np.isfinite(fit(bare, Settings(turns=("turn_us", "registers"))).theta).all()


class Memory:
    """A model that has learnt its rows by heart, and is wrong by a factor about all others."""

    def __init__(self, rows: Sequence[Colocation], wrong: float) -> None:
        self.known, self.wrong = {tuple(side.workload for side in row.sides) for row in rows}, wrong

    def sides(self, _: object, offsets: Sequence[int], names: Sequence[str]) -> tuple[list[float], None]:
        pairs = [tuple(names[begin:end]) for begin, end in pairwise(offsets)]
        actual = {tuple(side.workload for side in row.sides): [side.progress for side in row.sides] for row in PAIRS}
        factors = [1.0 if pair in self.known else self.wrong for pair in pairs]
        return [value * factor for pair, factor in zip(pairs, factors, strict=True) for value in actual[pair]], None

    def alone_factor(self, _: str) -> float:
        return 1.0


@pytest.mark.parametrize("folds", [4, 100])
def test_the_error_is_that_of_colocations_that_were_left_out(folds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def learns(rows: Sequence[Colocation], settings: Settings) -> Memory:
        return Memory(rows, math.exp(settings.noise))

    monkeypatch.setattr(rad, "fit", learns)
    candidates = [Settings(noise=noise) for noise in (0.5, 0.2, 3.0)]
    found = [held_out_error(PAIRS[:10], candidate, folds) for candidate in candidates]
    assert found == pytest.approx([0.25, 0.04, 1.0]), "squares, of which one error is worth no more than 1"
    assert choose_settings(PAIRS[:10], candidates) == candidates[1]
    assert held_out_error(PAIRS[:1], Settings(), folds) == 0.0


def test_weights_survive_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "rad.json"
    path.write_text(to_json(MODEL, "synthetic pairs"), encoding="utf-8")
    loaded = load_predictor("rad", tmp_path)
    listed = list(FOUND.values())
    assert loaded.predict(listed[0], listed[1:3]).candidate == pytest.approx(
        PREDICTOR.predict(listed[0], listed[1:3]).candidate, abs=1e-4
    )
    assert len(loaded.version) == 12 and loaded.name == "rad"


def test_broken_weights_are_refused(tmp_path: Path) -> None:
    good = json.loads(to_json(MODEL, ""))
    cases = {
        "text": "no json",
        "list": "[]",
        "format": json.dumps({**good, "format": "other"}),
        "shape": json.dumps({**good, "theta": [1.0]}),
        "nan": json.dumps({**good, "theta": [math.nan] * len(good["theta"])}),
        "setting": json.dumps({**good, "settings": {"activity": ["busy"], "turns": [], "colour": 1}}),
        "metric": json.dumps({**good, "settings": {**good["settings"], "press": ["blood"]}}),
        "known": json.dumps({**good, "known": {**good["known"], "press": [0.0]}}),
        "stranger": json.dumps({**good, "known": {**good["known"], "places": [[math.inf]]}}),
        **{
            f"limits {scale} {remains}": json.dumps({**good, "threads": {"scale": scale, "remains": remains}})
            for scale, remains in ((1.0, 1.1), (1.0, -0.1), (-0.1, 0.5), (101.0, 0.5))
        },
        "sharpness": json.dumps({**good, "settings": {**good["settings"], "slack": math.nan}}),
        "word": json.dumps({**good, "settings": {**good["settings"], "slack": "sharp"}}),
        "scalar": json.dumps({**good, "known": {**good["known"], "suffer": 1.0}}),
        "huge": json.dumps({**good, "theta": [10**400]}),
        "deep": "[" * 100_000,
        "half": json.dumps({**good, "threads": {"scale": 1.0}}),
        "missing": json.dumps({key: value for key, value in good.items() if key != "centre"}),
    }
    for name, text in cases.items():
        with pytest.raises(WeightsError, match=f"{name}.*retrain"):
            from_json(text, name)
    with pytest.raises(WeightsError, match="unknown metrics blood: retrain"):
        from_json(cases["metric"], "it")
    assert from_json(json.dumps(good), "good").threads is None
    assert from_json(to_json(MODEL, "", Law(1.25, 0.5)), "good").threads == Law(1.25, 0.5)
    (tmp_path / "rad.json").write_bytes(b" " * (2 << 20))
    with pytest.raises(WeightsError, match="longer"):
        load_predictor("rad", tmp_path)
    (tmp_path / "rad.json").unlink()
    os.mkfifo(tmp_path / "rad.json")
    with pytest.raises(WeightsError, match=r"rad\.json: not a regular file: .*retrain"):
        load_predictor("rad", tmp_path)
    (tmp_path / "rad.json").unlink()
    (tmp_path / "rad.json").write_bytes(b"\xff\xfe")
    with pytest.raises(WeightsError, match="cannot be read"):
        load_predictor("rad", tmp_path)
    with pytest.raises(WeightsError, match="no predictor 'oracle'"):
        load_predictor("oracle")
