"""The second collection: what is drawn, what is measured again alone, and what survives a break."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from estimator.dataset.catalogues.fresh import (
    ELEVENTH,
    FIFTH,
    FOURTH,
    NINTH,
    SECOND,
    SEVENTH,
    SIXTH,
    TENTH,
    THIRD,
    TWELFTH,
)
from estimator.dataset.collect import Options
from estimator.dataset.packing import pack
from estimator.dataset.plans import plan_of, trace_of
from estimator.dataset.raw import ISOLATED, ROWS, TRACES
from estimator.dataset.specs import FITTED, Spec, generate_synthetic
from estimator.dataset.store import committed, load
from estimator.dataset.tree import to_json
from scripts import collect_later as module
from scripts import collecting
from scripts.parts import PARTS, mixed, specs

EARLIER = {
    "fresh2": "0b32698d000d",
    "more2": "77a7ced6fdc6",
    "infer1": "3512fb26c2d0",
    "fresh3": "049a2dcaa295",
    "new3": "fd02dfda9edb",
    "more3": "c47d2c11dd15",
    "again1": "1d79ac02a9a4",
    "again2": "33888af3f2f7",
    "fresh4": "7da339c37151",
    "kin4": "540333f73df4",
    "known4": "8ef4f8977441",
    "again3": "fb8816c9906f",
    "again4": "08e5cbdc6146",
    "fresh5": "75f1e77473d8",
    "kin5": "eec4fe784db2",
    "known5": "7f5c7726ac67",
    "fresh6": "04c94ccd1adb",
    "kin6": "38dc9bbdacfb",
    "known6": "1aab319d9fcd",
    "fresh7": "7a20bc554534",
    "kin7": "49b36f028fde",
    "known7": "688b920a9a78",
}
SEVENTH_PARTS = ("fresh7", "kin7", "known7")
NINTH_PARTS = ("fresh9", "kin9", "known9")
TENTH_PARTS = ("fresh10", "kin10", "known10")
ELEVENTH_PARTS = ("fresh11", "kin11", "known11", "more11")
TWELFTH_PARTS = ("fresh12", "kin12", "known12", "more12")
# The draws of measured models, and the seed that each was measured with.
KNOWN = {
    "known4": 41,
    "known5": 53,
    "known6": 71,
    "known7": 91,
    "known8": 97,
    "known9": 103,
    "known10": 107,
    "known11": 113,
    "known12": 127,
    "known13": 137,
    "known14": 139,
    "known15": 149,
    "known18": 163,
    "all18": 163,
}


specs_of = cache(specs)  # to draw again gives the same, and takes seconds


def _row(spec: Spec, **changes: Any) -> str:
    row = {"spec": spec.to_json(), "status": "ok", "step_seconds": 0.1, "peak_reserved_mib": 900.0, **changes}
    return json.dumps(row) + "\n"


def test_fresh_families_are_in_their_own_part() -> None:
    # Not those that fill gaps: they draw from what is in the data set.
    drawn = [part for part, about in PARTS.items() if not about.gaps and about.few is None]
    groups = {part: {spec.group for spec in specs_of(part)} for part in drawn}
    assert groups["fresh3"] == THIRD
    assert groups["fresh2"] == SECOND
    assert groups["fresh4"] == FOURTH
    assert groups["fresh5"] == FIFTH
    sixth = ("fresh6", "kin6", "known6")
    since = ("fresh4", "fresh5", *sixth, *SEVENTH_PARTS)
    assert not FIFTH & set().union(*(groups[part] for part in EARLIER if part not in since))
    assert groups["fresh6"] == SIXTH
    before = set().union(*(groups[part] for part in EARLIER if part not in SEVENTH_PARTS))
    assert groups["fresh7"] == SEVENTH
    assert not SEVENTH & before
    assert groups["kin7"] | groups["known7"] | groups["known8"] <= before
    before |= SEVENTH
    assert groups["fresh9"] == NINTH
    assert not NINTH & before
    assert groups["kin9"] | groups["known9"] <= before
    before |= NINTH
    assert groups["fresh10"] == TENTH
    assert not TENTH & before
    assert groups["kin10"] | groups["known10"] <= before
    assert groups["fresh11"] == ELEVENTH
    assert not ELEVENTH & before
    assert groups["kin11"] | groups["known11"] | groups["more11"] <= before
    before |= TENTH | ELEVENTH
    assert groups["fresh12"] == TWELFTH
    assert not TWELFTH & before
    assert groups["kin12"] | groups["known12"] | groups["more12"] <= before
    later = ("fresh4", "kin4", "known4", "fresh5", "kin5", "known5", "again3", "again4", *sixth, *SEVENTH_PARTS)
    assert not FOURTH & set().union(*(groups[part] for part in EARLIER if part not in later))
    assert not THIRD & set().union(*(groups[part] for part in EARLIER if part not in ("fresh3", *later)))
    assert not groups["new3"] & (groups["again1"] | groups["again2"])
    assert groups["more3"] <= groups["again1"] | groups["again2"]
    assert specs_of("new3") == specs_of("new3") != specs_of("new3", 12)


def test_earlier_collections_draw_what_they_drew() -> None:
    """The committed rows come from these draws: their order and content must not change."""
    drawn = {part: "".join(spec.id for spec in specs_of(part)) for part in EARLIER}
    assert {part: sha256(ids.encode()).hexdigest()[:12] for part, ids in drawn.items()} == EARLIER


def test_known_models_were_measured_and_their_kin_were_not() -> None:
    def named(*parts: str) -> set[tuple[str, str]]:
        return {(spec.source, spec.name) for part in parts for spec in specs_of(part)}

    before = named(*(part for part in EARLIER if part not in SEVENTH_PARTS))
    assert named("known7") | named("known8") <= before
    assert not (named("kin7") | named("fresh7")) & before
    before |= named(*SEVENTH_PARTS)
    assert named("known9") <= before
    assert not (named("kin9") | named("fresh9")) & before
    before |= named(*NINTH_PARTS)
    assert named("known10") <= before
    assert not (named("kin10") | named("fresh10")) & before
    before |= named("kin10")
    assert named("known11") <= before
    assert not (named("kin11") | named("more11")) & (before | named("fresh10"))
    assert not named("kin11") & named("more11")
    assert not named("known12") & named("known11")
    before |= named("fresh10", *ELEVENTH_PARTS)
    assert named("known12") <= before
    assert not named("kin12", "fresh12") & before
    assert named("more12") == named("kin11") - named("known12")
    before |= named(*TWELFTH_PARTS)
    assert named("usual13") == named("known13") <= before
    assert not named("usual14") & named("usual13")
    assert named("usual14") | named("known14") | named("all18") <= before
    assert named("known18") <= named("usual13")


def test_rows_that_are_drawn_for_measured_models_are_of_these_draws() -> None:
    rows = [row for row in committed().rows if row.drawn]
    draws = {part: {spec.id for spec in specs_of(part, seed)} for part, seed in KNOWN.items()}
    assert {row.spec.id for row in rows} <= set().union(*draws.values())
    found = {part: sum(row.spec.id in ids for row in rows) for part, ids in draws.items()}
    measured = {"known4": 356, "known5": 588, "known6": 440, "known7": 985, "known8": 1000}
    assert all(found[part] >= count for part, count in measured.items())


def test_usual_configurations_are_fitted_to_though_one_is_drawn_too() -> None:
    usual = {spec.id for spec in specs_of("usual13", 137)}
    rows = {row.spec.id: row for row in committed().rows}
    there = usual & rows.keys()
    assert len(there) > 5000
    # What this draw holds beside them is no draw.
    later = [rows[id_] for id_ in there & {spec.id for spec in specs_of("known13", 137)}]
    assert len(later) > 30
    assert all(row.split in FITTED for row in later)


def test_the_eighth_draw_has_a_configuration_of_a_model_and_none_is_drawn_to_fill_gaps_too() -> None:
    drawn = specs_of("known8", 97)
    assert len({(spec.source, spec.name) for spec in drawn}) == len(drawn) == 1094
    more = specs_of("again10", 97)
    assert not {spec.id for spec in (*drawn, *(row.spec for row in committed().rows))} & {spec.id for spec in more}


def test_the_ninth_draw_has_a_configuration_of_each_model_that_it_takes() -> None:
    drawn = specs_of("known9", 103)
    assert len({(spec.source, spec.name) for spec in drawn}) == len(drawn) == 596
    there = {row.spec.model_id for row in committed().rows if row.split in FITTED}
    assert {spec.model_id for spec in specs_of("again11", 103)} <= there


def test_the_tenth_draw_has_a_configuration_of_each_model_that_it_takes() -> None:
    drawn = specs_of("known10", 107)
    assert len({(spec.source, spec.name) for spec in drawn}) == len(drawn) == 475
    there = {row.spec.model_id for row in committed().rows if row.split in FITTED}
    assert {spec.model_id for spec in specs_of("again12", 107)} <= there


def test_the_eleventh_draw_has_a_configuration_of_each_model_that_it_takes() -> None:
    drawn = specs_of("known11", 113)
    assert len({(spec.source, spec.name) for spec in drawn}) == len(drawn) == 335
    assert {spec.group for spec in drawn}.isdisjoint(TENTH)


def test_usual_configurations_are_such_that_the_model_can_run_in() -> None:
    specs = specs_of("usual14", 139)
    of_pictures = [spec for spec in specs if spec.name == "deeplabv3_resnet50"]
    assert {(spec.arch["classes"], spec.arch["size"], spec.seq_len) for spec in of_pictures} == {(21, 224, None)}
    lengths = {name: {spec.seq_len for spec in specs if spec.name == name} for name in {spec.name for spec in specs}}
    assert lengths["mpnet-base-SequenceClassification"] == {128}  # its positions begin at two and end at 511
    assert lengths["roberta-large-MaskedLM"] == {128, 512}
    assert lengths["mt5-base-Seq2SeqLM"] == {128}


def test_usual_models_run_on_other_inputs_than_most_were_measured_with() -> None:
    elsewhere = specs_of("usual15", 149)
    assert {spec.arch["size"] for spec in elsewhere if spec.seq_len is None} == {32, 64, 384}
    assert {spec.seq_len for spec in elsewhere if spec.seq_len} == {64, 256}
    assert {spec.arch["size"] for spec in specs_of("dense16", 151)} == {256, 512}
    assert {spec.arch["classes"] for spec in specs_of("dense16", 151)} == {21}
    assert {spec.arch["size"] for spec in specs_of("small16", 151)} == {32, 64}
    assert {spec.seq_len for spec in specs_of("heard16", 151)} == {10, 15, 30}
    long = specs_of("long16", 151)
    assert {spec.seq_len for spec in long} == {1024, 2048}
    assert max(spec.batch_size * spec.seq_len for spec in long if spec.seq_len) <= 16384
    drawn = specs_of("known15", 149)
    assert {spec.arch["size"] for spec in drawn} <= {32, 48, 64, 96, 128, 320, 384, 448, 512}
    assert len({_model(spec) for spec in drawn}) == 76
    less = {(spec.source, spec.name) for spec in specs_of("again17", 157)}
    usual = {(spec.source, spec.name) for part in ("usual13", "usual14") for spec in specs_of(part)}
    assert {source for source, _ in less} == {"torchvision", "timm", "transformers"}
    assert not less & usual


def test_the_fourteenth_draw_has_a_configuration_of_each_model_that_it_takes() -> None:
    drawn = specs_of("known14", 139)
    assert len({(spec.source, spec.name) for spec in drawn}) == len(drawn) == 499
    rows = {row.spec.id: row for row in committed().rows}
    assert len([spec for spec in drawn if spec.id in rows and rows[spec.id].drawn]) > 400


def test_the_eighteenth_draws_judge() -> None:
    widely, others = specs_of("known18", 163), specs_of("all18", 163)
    assert len({(spec.source, spec.name) for spec in others}) == len(others) == 475
    ids = {spec.id for spec in (*widely, *others)}
    judging = {row.spec.id for row in committed().rows if row.split == "known"}
    assert judging <= ids
    assert len(judging) > 500
    assert all(row.drawn for row in committed().rows if row.spec.id in judging)


def test_a_third_of_the_sizes_of_one_s_own_judges() -> None:
    fitted, judging = (specs_of(part, 191) for part in ("sized19", "kin19"))
    names = [{(spec.source, spec.name) for spec in specs} for specs in (fitted, judging)]
    assert not names[0] & names[1]
    assert (len(names[0]), len(names[1])) == (181, 95)
    rows = {row.spec.id: row for row in committed().rows}
    splits = [{rows[spec.id].split for spec in specs if spec.id in rows} for specs in (fitted, judging)]
    assert splits == [{"train", "val", "test"}, {"kin"}]


def test_the_twelfth_draw_has_a_configuration_of_each_model_that_it_takes() -> None:
    drawn = specs_of("known12", 127)
    assert len({(spec.source, spec.name) for spec in drawn}) == len(drawn) == 355


def test_a_part_of_a_mix_has_its_share_of_all() -> None:
    parts = TWELFTH_PARTS
    mix = mixed(parts, 41)
    counts = [len(specs_of(part, 41)) for part in parts]
    assert len({spec.id for spec in mix}) == len(mix) == sum(counts)
    third = {spec.id for spec in mix[: len(mix) // 3]}
    for part, count in zip(parts, counts, strict=True):
        assert sum(spec.id in third for spec in specs_of(part, 41)) == pytest.approx(count / 3, rel=0.15)


def test_a_run_is_added_to_the_packed_rows(tmp_path: Path) -> None:
    kin, fresh = specs_of("kin12", 41)[0], specs_of("fresh12", 41)[0]
    measured = {"device": "cuda", "peak_allocated_mib": 800.0, "steps": 2}
    lines = _row(kin, **measured) + _row(fresh, **measured)
    trace = to_json(trace_of(*plan_of("mlp", next(generate_synthetic("mlp", 1, 0)).arch)))
    traces = "".join(json.dumps({"model": spec.model_id, "trace": trace}) + "\n" for spec in (kin, fresh))
    own = _row(fresh, **measured, nvml_mib=1600.0, reserved_mib=900.0)
    for name, text in (("main-rows", lines), ("main-traces", traces), ("isolated-rows", own)):
        (tmp_path / f"{name}.jsonl.xz").write_bytes(lzma.compress(text.encode()))
    raw, folder = tmp_path / "raw", tmp_path / "packed"
    raw.mkdir()
    old = next(generate_synthetic("mlp", 1, 0))
    (raw / ROWS).write_text(_row(old, **measured), "utf-8")
    (raw / ISOLATED).write_text(_row(old, **measured, nvml_mib=1600.0, reserved_mib=900.0), "utf-8")
    pack(raw, folder, {"gpu": "X"})
    before = load(folder)
    assert module.pack(tmp_path, folder, ("fresh12", "kin12"), 41)["added"] == 2
    assert module.pack(tmp_path, folder, ("fresh12", "kin12"), 41)["added"] == 0
    after = load(folder)
    found = {row.spec.id: row for row in after.rows}
    assert (found[kin.id].split, found[kin.id].apart) == ("kin", "kin")
    assert (found[fresh.id].split, found[fresh.id].apart) == (fresh.split, None)
    assert found[kin.id].memory_mib == 900.0 + after.meta["context_mib"][kin.kind][found[kin.id].libraries]
    assert after.trace(kin).total_params == after.trace(fresh).total_params > 0
    assert after.checks[-1].spec == fresh
    assert len(after.checks) == len(before.checks) + 1
    assert after.meta == before.meta
    assert [row for row in after.rows if row.spec.id not in (kin.id, fresh.id)] == list(before.rows)


def test_a_draw_of_measured_models_says_so_for_good(tmp_path: Path) -> None:
    """Also once it is fitted to, as ``known11`` and ``known12`` are."""
    judges, did = specs_of("known12", 127)[0], specs_of("known11", 113)[0]
    others = [spec for spec in specs_of("known12", 127) if spec.name not in (judges.name, did.name)]
    never, plain = others[0], specs_of("again1")[0]
    fitted = [replace(spec, batch_size=3) for spec in (judges, did)]
    measured = {"device": "cuda", "peak_allocated_mib": 800.0, "steps": 2}
    raw, folder = tmp_path / "raw", tmp_path / "packed"
    raw.mkdir()
    (raw / ROWS).write_text("".join(_row(spec, **measured) for spec in fitted), "utf-8")
    (raw / ISOLATED).write_text(_row(fitted[0], **measured, nvml_mib=1600.0, reserved_mib=900.0), "utf-8")
    pack(raw, folder, {"gpu": "X"})
    lines = "".join(_row(spec, **measured) for spec in (judges, did, never, plain))
    (tmp_path / "main-rows.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    assert module.pack(tmp_path, folder, ("known12",), 127)["added"] == 4
    found = {row.spec.id: (row.apart, row.drawn) for row in load(folder).rows}
    assert found == {
        **{spec.id: (None, False) for spec in (*fitted, did, plain)},
        judges.id: ("known", True),
        never.id: ("kin", False),
    }
    for spec in (judges, did):
        alone = tmp_path / spec.name
        pack(raw, alone, {"gpu": "X"})
        module.pack(tmp_path, alone, ("known11",), 113)
        assert {row.spec.id: row.drawn for row in load(alone).rows}[spec.id] == (spec == did)


def test_what_is_a_usual_configuration_too_is_fitted_to_and_each_is_checked_once(tmp_path: Path) -> None:
    drawn, usual = (specs_of(part, 137) for part in ("known13", "usual13"))
    ids = {spec.id for spec in usual}
    both, alone = (next(spec for spec in drawn if (spec.id in ids) == there) for there in (True, False))
    measured = {"device": "cuda", "peak_allocated_mib": 800.0, "steps": 2}
    raw, folder = tmp_path / "raw", tmp_path / "packed"
    raw.mkdir()
    before = [replace(spec, batch_size=3) for spec in (both, alone)]
    (raw / ROWS).write_text("".join(_row(spec, **measured) for spec in before), "utf-8")
    (raw / ISOLATED).write_text(_row(before[0], **measured, nvml_mib=1600.0, reserved_mib=900.0), "utf-8")
    pack(raw, folder, {"gpu": "X"})
    lines = "".join(_row(spec, **measured) for spec in (both, alone))
    (tmp_path / "main-rows.jsonl.xz").write_bytes(lzma.compress(lines.encode()))
    assert module.pack(tmp_path, folder, ("known13", "usual13"), 137)["added"] == 2
    rows = {row.spec.id: (row.apart, row.drawn) for row in load(folder).rows}
    assert (rows[both.id], rows[alone.id]) == ((None, False), ("known", True))
    again = "".join(_row(spec, **measured, nvml_mib=1600.0, reserved_mib=900.0) for spec in (before[0], both))
    (tmp_path / "isolated-rows.jsonl.xz").write_bytes(lzma.compress(again.encode()))
    assert module.pack(tmp_path, folder, ("known13",), 137)["checks"] == 1
    assert [check.spec for check in load(folder).checks] == [before[0], both]


def test_a_share_has_each_model_once() -> None:
    listed = mixed(("fresh2", "known6"))
    shares = [module.shared(listed, share, 3, backwards=False) for share in range(3)]
    assert Counter(spec.id for share in shares for spec in share) == Counter(spec.id for spec in listed)
    assert not set(map(_model, shares[0])) & set(map(_model, (*shares[1], *shares[2])))
    assert module.shared(listed, 0, 1, backwards=True)[0].name == listed[-1].name


def _model(spec: Spec) -> tuple[str, str, str]:
    return spec.source, spec.name, str(spec.arch)


def test_processes_of_their_own_are_of_small_runs_one_of_a_kind() -> None:
    chosen = module.isolated(("fresh2", "more2", "fresh3"))
    assert len({(spec.group, spec.kind) for spec in chosen}) == len(chosen) > 10
    assert all(spec.batch_size * (spec.seq_len or 1) <= 2048 for spec in chosen)
    assert module.isolated(("known13",), 137) == specs_of("known13", 137)


def test_quiet_runs_are_short_ones_of_different_models(tmp_path: Path) -> None:
    one, other, slow, large = [spec for spec in specs_of("fresh2") if spec.batch_size > 1][:40:10]
    lines = [
        _row(one),
        _row(one, peak_reserved_mib=800.0),
        _row(other, status="oom"),
        _row(slow, step_seconds=3.0),
        _row(large, peak_reserved_mib=60000.0),
    ]
    (tmp_path / ROWS).write_text("".join(lines), "utf-8")
    assert module.quiet(tmp_path) == [one]


def test_what_is_there_is_copied_while_it_grows(tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    (raw / "main").mkdir(parents=True)
    out.mkdir()
    (raw / "main" / ROWS).write_text("first\n", "utf-8")
    with pytest.raises(KeyboardInterrupt), collecting.copied(raw, out, 3600.0):
        (raw / "main" / TRACES).write_text("second\n", "utf-8")
        raise KeyboardInterrupt
    assert {path.name for path in out.iterdir()} == {"main-rows.jsonl.xz", "main-traces.jsonl.xz"}
    assert lzma.decompress((out / "main-traces.jsonl.xz").read_bytes()) == b"second\n"


def test_a_collection_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    class Collector:
        replaced = 2

        def __init__(self, specs: list[Spec], folder: Path, options: Options) -> None:
            seen.append((len(specs), folder, options.workers))

        def run(self, say: Any) -> None:
            say("1 of 2 measured")
            say("2 of 2 measured")

    monkeypatch.setattr(module, "Collector", Collector)
    monkeypatch.setattr("time.monotonic", iter((100.0, 130.0, 131.0)).__next__)
    module.collect(tmp_path / "main", specs_of("fresh2")[:2], Options(3, 10.0))
    assert seen == [(2, tmp_path / "main", 3)]
    told = "   30 s main: 1 of 2 measured\nmain: 2 workers could not give memory back and were replaced\n"
    assert capsys.readouterr().out == told
