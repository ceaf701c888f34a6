"""Fitting for decisions, partitions and the page, on colocations whose law is known."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from predictor import bundled, kace, load_predictor, weights
from predictor.artifact import ArtifactError, Colocation, load_colocations
from predictor.collection.specs import SPECS
from predictor.contention import Settings, slacken
from predictor.evaluation import MODELS
from predictor.fitting import fit
from predictor.measurements import FRESH_FOLDER, Run, load_runs
from predictor.partition import (
    Partitioned,
    PartitionModel,
    alone,
    chosen,
    compare,
    differences,
    newcomers,
    partitioned_pairs,
    sliced_pairs,
)
from predictor.rad import RadPredictor, from_json
from predictor.threads import Law, demand
from predictor.training import (
    clipped,
    errors_of,
    families_left_out,
    fit_correction,
    fit_rad,
    load_groups,
    load_measured,
    summarise,
    weights_text,
)
from predictor.types import Prediction, Predictor, Profile, WeightsError
from scripts import interference_artifact, interference_measured, interference_page, interference_results
from tests.predictor.synthetic import colocate, every_pair, profile, workloads, write_csv

BUNDLED = weights.BUNDLED
FOUND = workloads(12)
PAIRS = every_pair(FOUND, noise=0.02)


def simple(rows: object) -> Predictor:
    return RadPredictor(fit(rows, Settings()))  # type: ignore[arg-type]


def test_bundled_weights_load_and_make_sense() -> None:
    light, heavy = profile("light", busy=0.1, threads=1e4), profile("heavy", busy=1.0, threads=1e6)
    for name in weights.READERS:
        predictor = load_predictor(name)
        assert predictor.name == name and len(predictor.version) == 12
        found = predictor.predict(light, [heavy])
        assert 0.0 < found.candidate <= 1.0 and found.uncertainty > 0.0
    rad = load_predictor("rad")
    assert rad.predict(heavy, [light]).throughput_sum > rad.predict(heavy, [heavy]).throughput_sum


def test_bundled_rad_never_gains_from_a_busier_neighbour() -> None:
    rad = load_predictor("rad")
    me, calm = profile("me", busy=0.6), profile("calm", busy=0.3)
    before = rad.predict(me, [calm]).candidate
    for change in ({"smact": 0.9}, {"dram": 1.0}, {"busy": 1.0}, {"smocc": 0.9}, {"tensor": 0.9}, {"pcie": 1.0}):
        assert rad.predict(me, [dataclasses.replace(calm, **change)]).candidate <= before + 1e-12  # type: ignore[arg-type]
    longer = dataclasses.replace(calm, kernel=dataclasses.replace(calm.kernel, mean_us=900.0, blocking_us=800.0))
    assert rad.predict(me, [longer]).candidate < before


def test_families_left_out_are_predicted() -> None:
    total, each = families_left_out(PAIRS, simple)
    assert set(each) == {f"model{index}" for index in range(4)}
    assert total.mean_abs < 0.08 and abs(total.bias) < 0.05 and total.covered > 0.8
    assert total.count == sum(one.count for one in each.values())
    with pytest.raises(ArtifactError, match="too few model families"):
        families_left_out(every_pair(workloads(2)), simple)


def test_settings_are_chosen_within_the_training_data() -> None:
    predictor = fit_rad(PAIRS)
    assert predictor.model.settings.slack == 8.0
    assert summarise(*errors_of(predictor, PAIRS)).mean_abs < 0.08


def test_measurements_without_kernel_durations_are_fitted_with_what_they_have(tmp_path: Path) -> None:
    predictor = fit_rad(load_colocations(write_csv(tmp_path / "a.csv", PAIRS)))
    assert predictor.model.settings.turns == ("threads",)


def test_kernel_durations_that_nobody_traced_are_guessed_from_the_pace() -> None:
    def paced(it: Profile) -> Profile:
        return dataclasses.replace(it, throughput=1e5 / it.kernel.turn_us)

    found = {name: paced(it) for name, it in FOUND.items()}
    settings = Settings(activity=("busy",), turns=("turn_us",))
    model = RadPredictor(fit(every_pair(found), settings))
    one, two = list(found.values())[:2]
    bare = dataclasses.replace(two, kernel=dataclasses.replace(two.kernel, turn_us=math.nan))
    assert model.predict(one, [bare]).candidate == pytest.approx(model.predict(one, [two]).candidate, abs=0.03)


def test_nobody_is_faster_than_alone() -> None:
    one = colocate(list(FOUND.values())[:2])
    fast = dataclasses.replace(one.sides[0], throughput=one.sides[0].profile.throughput * 2)
    found = clipped([Colocation((fast, one.sides[1]))])[0]
    assert found.sides[0].progress == 1.0 and found.sides[1] == one.sides[1]


def test_slack_hides_contention_behind_the_host() -> None:
    contention = np.array([0.0, 0.5, 1.0, 20.0])
    launch_bound, _ = slacken(contention, np.full(4, 0.2), 8.0)
    saturating, _ = slacken(contention, np.ones(4), 8.0)
    none, _ = slacken(contention, np.ones(4), 0.0)
    assert launch_bound[0] == saturating[0] == none[0] == 0.0
    assert launch_bound[2] < 0.01 < saturating[2] < none[2]
    assert launch_bound[3] == pytest.approx(math.log(0.2 * 21), abs=0.02)
    step = 1e-6
    for sharpness in (0.0, 4.0):
        at, slope = slacken(contention[1:], np.full(3, 0.6), sharpness)
        after, _ = slacken(contention[1:] * math.exp(step), np.full(3, 0.6), sharpness)
        assert (after - at) / step == pytest.approx(slope, rel=1e-3)


def test_kace_behind_the_seam() -> None:
    predictor = kace.fit_predictor(PAIRS)
    listed = list(FOUND.values())
    many = predictor.predict_many(listed[0], [[], listed[1:2], listed[1:4]])
    assert many.candidate[0] == 1.0 and many.uncertainty[0] == 0.0
    assert many[1] == predictor.predict(listed[0], listed[1:2])
    assert len(many[2].residents) == 3 and len(predictor.predict_many(listed[0], [])) == 0
    assert all(0.0 < value <= 1.0 for value in (*many.candidate, *many.residents))
    sums = np.array([predictor.predict(row.sides[0].profile, [row.sides[1].profile]).throughput_sum for row in PAIRS])
    actual = np.array([sum(side.progress for side in row.sides) for row in PAIRS])
    assert np.corrcoef(sums, actual)[0, 1] > 0.7
    bare = dataclasses.replace(listed[1], kernel=dataclasses.replace(listed[1].kernel, threads=math.nan))
    assert 0.0 < predictor.predict(listed[0], [bare]).candidate <= 1.0


def test_kace_weights_survive_and_broken_ones_do_not() -> None:
    text = weights_text("kace", PAIRS, "synthetic")
    one, two = list(FOUND.values())[:2]
    back = kace.from_json(text, "x")
    assert back.predict(one, [two]).candidate == pytest.approx(kace.fit_predictor(PAIRS).predict(one, [two]).candidate)
    good = json.loads(text)
    for broken in ("no", "[]", json.dumps({**good, "format": 1}), json.dumps({**good, "fill": [1]})):
        with pytest.raises(WeightsError, match="retrain"):
            kace.from_json(broken, "x")


def test_corrections_carry_raw_to_measured() -> None:
    raws = [{"dram": 0.01 * 2**power} for power in range(6)]
    found = fit_correction(raws * 20, [{"dram": 3.0 * row["dram"]} for row in raws] * 20)
    slope, offset = found["dram"]
    assert slope == pytest.approx(1.0, abs=0.1)
    assert slope * math.log(0.05) + offset == pytest.approx(math.log(0.15), abs=0.1)
    assert fit_correction([{"x": 1.0}], [{"x": math.nan}]) == {"x": [1.0, 0.0]}


class Fixed:
    """A predictor that always says the same."""

    name, version, threads = "fixed", "1", None

    def predict(self, candidate: Profile, residents: object) -> Prediction:
        return Prediction(0.8, (0.8,), 0.1)

    def predict_many(self, candidate: Profile, groups: object) -> None: ...


def under(law: Law, pair: list[Profile], shares: tuple[int, int], method: str = "mps", session: int = 0) -> Run:
    progress = law.progress(pair, np.array([0.8, 0.8]), [shares])[0]
    row = colocate(pair)
    sides = tuple(
        dataclasses.replace(side, throughput=side.profile.throughput * value)
        for side, value in zip(row.sides, progress, strict=True)
    )
    return Run(method, 0, shares, Colocation(sides), session)


def test_partitions_are_learned_and_chosen() -> None:
    law = Law(0.9, 0.4)
    wide = [dataclasses.replace(profile(f"wide{n}_batch1-train", busy=0.9), busy=0.95) for n in range(3)]
    thin = [dataclasses.replace(profile(f"thin{n}_batch1-train", busy=0.1), busy=0.9) for n in range(3)]
    runs = []
    for one, two in zip(wide, thin, strict=True):
        runs.append(Run("mps", 0, (100, 100), colocate([two, one])))
        runs += [under(law, [one, two], shares) for shares in ((10, 90), (50, 50), (90, 10))]
        runs.append(Run("slicing", 0, (100, 100), colocate([one, two])))
    groups = partitioned_pairs(runs)
    assert [len(group.shares) for group in groups] == [3, 3, 3]
    assert groups[0].default.sides[0].workload == "wide0_batch1-train"
    fitted = PartitionModel().fit(groups, Fixed())  # type: ignore[arg-type]
    assert fitted.law.scale == pytest.approx(0.9, abs=0.15) and fitted.law.remains == pytest.approx(0.4, abs=0.15)
    result = compare(groups, [], lambda _rows: Fixed())  # type: ignore[arg-type, return-value]
    assert result.mean_abs < 0.05
    assert result.choices["predicted, by sum"] == pytest.approx(result.choices["best measured, by sum"])
    assert result.choices["best measured, by max-min"][1] >= result.choices["half each"][1]
    both = sliced_pairs(runs)
    assert len(both) == 3 and both[0].mps_sum == pytest.approx(both[0].sliced_sum)
    assert demand(dataclasses.replace(wide[0], busy=math.nan)) == 1.0
    assert demand(dataclasses.replace(wide[0], busy=0.0)) == 0.0


def test_a_newcomers_limit_is_measured_and_chosen() -> None:
    law = Law(0.9, 0.4)
    runs = []
    for index in range(3):
        wide = dataclasses.replace(profile(f"wide{index}_batch1-train", busy=0.9), busy=0.95)
        thin = dataclasses.replace(profile(f"thin{index}_batch1-train", busy=0.1), busy=0.9)
        every = ((100, 100), (50, 50), (100, 30), (30, 100), (100, 70), (70, 100))
        runs += [under(law, [wide, thin], shares, "swept", 2) for shares in every]
        runs += [under(law, [wide, thin], shares, "mps", 1) for shares in ((100, 100), (50, 50))]
        one = colocate([wide, thin]).sides[0]
        alone_at_half = dataclasses.replace(one, throughput=0.7 * one.profile.throughput)
        runs.append(Run("mps", 0, (50,), Colocation((alone_at_half,))))
    groups = partitioned_pairs(runs)
    assert [group.shares for group in groups] == [((50, 50),)] * 3, "each pair once, as its last session measured it"
    assert differences(runs) == pytest.approx([0.0] * 6)
    assert alone(runs) == {50: pytest.approx(0.7)}
    cases = newcomers(runs)
    assert len(cases) == 6
    assert {group.shares for group in cases} == {((100, 100), (30, 100), (70, 100))}
    wide_first, thin_first = cases[:2]
    assert [side.workload[:4] for side in thin_first.default.sides] == ["thin", "wide"]
    assert wide_first.progress[1, 0] < thin_first.progress[1, 0], "a job that fills the GPU suffers from a limit"
    result = compare(cases, [], lambda _rows: Fixed())  # type: ignore[arg-type, return-value]
    assert result.mean_abs < 0.05
    best, picked = result.choices["best measured, by max-min"], result.choices["predicted, by max-min"]
    assert picked[1] == pytest.approx(best[1], abs=0.05)
    assert "half each" not in result.choices


@pytest.mark.parametrize(("gain", "place"), [(0.02, 0), (0.03, 1)])
def test_a_newcomer_is_limited_only_where_it_is_worth_it(gain: float, place: int) -> None:
    measured = np.array([[0.4, 0.4], [0.6, 0.6]])
    group = Partitioned(colocate(list(FOUND.values())[:2]), ((100, 100), (70, 100)), measured)
    found = chosen(group, np.array([[0.5, 0.5], [0.5 + gain, 0.5 + gain]]))
    assert found["predicted, by sum"].tolist() == measured[place].tolist()
    assert found["best measured, by sum"].tolist() == measured[1].tolist()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our measurements of some workloads, a repeated pair and a triple among them."""
    folder = tmp_path_factory.mktemp("few")
    kept = {"resnet50_batch64-train", "bert_batch64-infer", "gpt_batch1-infer", "dlrm_batch16384-train"}
    kept |= {"whisper_batch4-train", "mlp_batch64-train"}
    runs = load_runs(BUNDLED)
    for run in (next(run for run in runs if run.repeat), next(run for run in runs if len(run.threads) == 3)):
        kept |= {side.workload for side in run.colocation.sides}
    for name in ("ways.json", "tried.json"):
        (folder / name).write_text((BUNDLED / name).read_text(encoding="utf-8"), encoding="utf-8")
    for name in ("workloads.csv", "colocations.csv"):
        head, *rows = (BUNDLED / name).read_text(encoding="utf-8").splitlines()
        chosen = [row for row in rows if {cell for cell in row.split(",") if "_batch" in cell} <= kept]
        (folder / name).write_text("\n".join([head, *chosen]) + "\n", encoding="utf-8")
        # Two of them under another name are families that no model is fitted to.
        fresh = folder / FRESH_FOLDER / name
        fresh.parent.mkdir(exist_ok=True)
        text = "\n".join([head, *(row for row in chosen if name == "workloads.csv" or "bert_batch64" in row)])
        fresh.write_text(text.replace("bert_batch64", "new_batch64") + "\n", encoding="utf-8")
    return folder


def test_the_page_is_written_from_measurements_and_artifact(
    tmp_path: Path, few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interference_artifact, "SIZES", (3, 10))
    monkeypatch.setattr(interference_artifact, "SEEDS", (10,))
    monkeypatch.setattr(interference_artifact, "AUTOREGRESSIVE", ("model1",))
    monkeypatch.setattr(interference_artifact, "MODELS", {"rad": MODELS["rad"], "kace": MODELS["kace"]})
    monkeypatch.setattr(interference_measured, "TRAINERS", {"rad": simple, "kace": kace.fit_predictor})
    monkeypatch.setattr(interference_measured, "fit_rad", simple)
    monkeypatch.setattr(interference_measured, "compare", lambda groups, pairs, _train: compare(groups, pairs, simple))
    artifact = tmp_path / "artifact"
    (artifact / "splits").mkdir(parents=True)
    for size in (3, 10):
        write_csv(artifact / "splits" / f"n{size}_r10_training.csv", PAIRS[::2])
        write_csv(artifact / "splits" / f"n{size}_r10_testing.csv", PAIRS[1::2])
    pairs = write_csv(artifact / "pairs_v100.csv", PAIRS)
    monkeypatch.setattr(interference_artifact, "load_xu", lambda _path: load_colocations(pairs))
    monkeypatch.setattr(interference_artifact, "Xu", kace.Kace)
    monkeypatch.setattr(
        interference_artifact, "load_colocations", lambda path: load_colocations(path if path.exists() else pairs)
    )
    path = interference_results.write_page(artifact, few, tmp_path / "results", quick=True)
    text = path.read_text(encoding="utf-8")
    for heading in (
        "Training sizes",
        "Policies at N=3",
        "| xu (N=4) | ",
        "Unseen",
        "Four workloads",
        "One H200",
        "Families that came after",
        "time slicing",
        "Speed",
        "counted in several ways",
        "Profiles by `radctl profile`",
        "A limit for the job that comes",
    ):
        assert heading in text
    kace_at_3 = re.search(r"\| kace \| (\S+) \| \S+ \| \S+ \| \S+ s \|", text)
    assert kace_at_3 and f"| kace | {kace_at_3[1]} | 0.906 |" in text, "the published policies are of this size"
    assert "nan" not in text and "| rad | 0." in text
    assert "1 workloads of 1 families" in text and "| new | 0." in text
    assert not (tmp_path / "results" / "interference").exists()
    interference_page.Page(tmp_path / "figures").bars("b", "title", ["x", "y"], {"s": [1, 2], "t": [2, 1]})
    interference_page.Page(tmp_path / "figures").points("p", "title", ("x", "y"), {"s": ([0.1], [0.2])})
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"b.png", "p.png"}


def test_weights_are_fitted_where_they_are_told(tmp_path: Path, few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "BUNDLED", tmp_path)
    monkeypatch.setattr(bundled, "TRAINERS", {"kace": kace.fit_predictor})
    chosen = ("mlp_batch64-train", "dlrm_batch512-train", "bert_batch1-infer")
    monkeypatch.setattr(bundled, "SPECS", tuple(spec for spec in SPECS if spec.name in chosen))
    assert bundled.fit_bundled(few)[0].startswith("kace.json: one H200")
    assert load_predictor("kace", tmp_path).name == "kace"
    assert bundled.fit_estimates(BUNDLED) == "estimate.json: 3 workloads"
    content = json.loads((tmp_path / "estimate.json").read_text(encoding="utf-8"))
    shipped = json.loads((BUNDLED / "estimate.json").read_text(encoding="utf-8"))
    assert set(content["correction"]) == set(shipped["correction"]) == set(content["factors"])


def test_the_law_of_threads_is_fitted_with_the_weights(few: Path, tmp_path: Path) -> None:
    groups = load_groups(few)
    assert groups and load_groups(write_csv(tmp_path / "pairs.csv", PAIRS)) == ()
    measured = load_measured(few)
    law = from_json(weights_text("rad", measured, "", groups), "new").threads
    assert law is not None and 0.4 <= law.scale <= 1.6 and 0.0 <= law.remains <= 1.0
    assert from_json(weights_text("rad", measured, ""), "new").threads is None
    assert load_predictor("rad").threads is not None, "the shipped weights have one"


def test_our_measurements_are_as_many_as_the_page_says() -> None:
    data = BUNDLED
    runs = load_runs(data)
    assert len({side.workload for run in runs for side in run.colocation.sides}) >= 24
    assert len(load_measured(data)) >= 410
    assert len(partitioned_pairs(runs)) == len(sliced_pairs(runs)) == 30
    assert {len(group.shares) for group in partitioned_pairs(runs)} == {5}
    assert len(newcomers(runs)) == 38
    assert sum(file.stat().st_size for file in data.rglob("*") if file.is_file()) < 2_000_000
