"""Packing and reading the data set; what the committed one promises."""

from __future__ import annotations

import json
import lzma
import os
from pathlib import Path
from typing import Any, get_args

import pytest

from estimator import files
from estimator.dataset import coverage, packing, store
from estimator.dataset.catalogues.fresh import FRESH
from estimator.dataset.plans import plan_of, trace_of
from estimator.dataset.printers import module_text
from estimator.dataset.raw import FAILURES, ISOLATED, PROFILES, ROWS, TRACES, LineError, done_ids
from estimator.dataset.specs import FITTED, Split, generate_synthetic, spec_from_json
from estimator.dataset.tree import to_json
from estimator.types import Kind, Libraries

META = {"gpu": "X", "limit_mib": 81920}


def _raw(folder: Path, device: str = "cuda") -> list[Any]:
    folder.mkdir()
    specs = list(generate_synthetic("mlp", 3, 0))
    real = {**specs[0].to_json(), "source": "timm", "name": "net", "group": "net"}
    measured = {"peak_allocated_mib": 10.126, "peak_reserved_mib": 20.0, "steps": 3, "step_seconds": 0.1}
    rows = [
        {"spec": specs[0].to_json(), "status": "ok", "device": device, **measured},
        {"spec": specs[1].to_json(), "status": "oom", "device": device, **measured},
        {"spec": real, "status": "ok", "device": device, **measured},
    ]
    activity = {"smact": 0.51234, "smocc": None, "dram": 0.25, "steps_per_s": 12.0}
    profiles = [{"spec": real, "activity": activity}, {"spec": specs[2].to_json(), "activity": activity}]
    trace = to_json(trace_of(*plan_of("mlp", specs[0].arch)))
    model = spec_from_json(real).model_id
    traces = [{"model": model, "trace": trace}, {"model": "not needed", "trace": trace}]
    for name, items in (
        (ROWS, rows),
        (PROFILES, profiles),
        (TRACES, traces),
        (FAILURES, [{"id": "x", "why": "y"}]),
        (ISOLATED, [{**rows[0], "nvml_mib": 722.0, "reserved_mib": 18.0}, {**rows[1], "status": "oom"}]),
    ):
        (folder / name).write_text("".join(json.dumps(item) + "\n" for item in items), "utf-8")
    return specs


def test_packing_and_reading_give_back_the_rows(tmp_path: Path) -> None:
    specs = _raw(tmp_path / "raw")
    counts = packing.pack(tmp_path / "raw", tmp_path / "packed", META)
    assert counts == {"rows": 3, "traces": 1, "profiles": 1, "checks": 1, "failures": 1}
    data = store.load(tmp_path / "packed")
    contexts = dict.fromkeys(("none", "cublas", "cudnn", "both"), 704.0)
    assert data.meta == {**META, "context_mib": {"train": contexts, "infer": contexts}}
    by_name = {(row.spec.source, row.status): row for row in data.rows}
    plain, dead, real = by_name["synthetic", "ok"], by_name["synthetic", "oom"], by_name["timm", "ok"]
    assert plain.spec == specs[0]
    assert (plain.memory_mib, plain.peak_allocated_mib, plain.peak_reserved_mib) == (724.0, 10.13, 20.0)
    assert plain.smact is None
    assert dead.memory_mib is None
    assert (real.smact, real.smocc, real.steps_per_s) == (0.5123, None, 12.0)
    assert real.workload.batch_size == specs[0].batch_size
    (check,) = data.checks
    assert (check.spec, check.long_lived_mib, check.own_mib, check.own_context_mib) == (specs[0], 724.0, 724.0, 704.0)
    assert module_text(data.trace(real.spec)) == module_text(data.trace(plain.spec))


def test_rows_keep_their_marks_when_others_are_added(tmp_path: Path) -> None:
    first, second, third = _raw(tmp_path / "raw")
    packing.pack(tmp_path / "raw", tmp_path / "packed", META)
    measured = {"status": "ok", "device": "cuda", "peak_allocated_mib": 10.0, "peak_reserved_mib": 20.0}
    (tmp_path / "raw" / ROWS).write_text(json.dumps({"spec": third.to_json(), **measured}) + "\n", "utf-8")
    marks = {third.id, first.id}
    assert packing.add(tmp_path / "raw", tmp_path / "packed", {third.id: "known"}, marks)["added"] == 1
    before = store.load(tmp_path / "packed")
    found = {row.spec.id: (row.apart, row.drawn) for row in before.rows}
    assert (found[first.id], found[second.id], found[third.id]) == ((None, False), (None, False), ("known", True))
    assert packing.add(tmp_path / "raw", tmp_path / "packed", {})["added"] == 0
    assert store.load(tmp_path / "packed") == before


def test_a_rehearsal_is_not_packed(tmp_path: Path) -> None:
    _raw(tmp_path / "raw", device="cpu")
    with pytest.raises(ValueError, match="rehearsal on cpu"):
        packing.pack(tmp_path / "raw", tmp_path / "packed", META)


@pytest.mark.parametrize("line", ["{}", "[1]", '{"spec":3,"device":"cuda"}'])
def test_lines_that_are_no_rows_are_named(tmp_path: Path, line: str) -> None:
    _raw(tmp_path / "raw")
    rows = tmp_path / "raw" / ROWS
    rows.write_text(f"{line}\n", "utf-8")
    for reading in (done_ids, lambda raw: coverage.raw_rows(raw / ROWS), lambda raw: packing.pack(raw, tmp_path, META)):
        with pytest.raises(LineError, match=r"rows\.jsonl:1: .*delete the line"):
            reading(tmp_path / "raw")


@pytest.mark.parametrize("name", [TRACES, PROFILES, ISOLATED])
def test_lines_beside_the_rows_are_named_too(tmp_path: Path, name: str) -> None:
    _raw(tmp_path / "raw")
    for line in ('{"model":"x"}', '{"model":"x","trace":[]}', "3"):
        (tmp_path / "raw" / name).write_text(f"{line}\n", "utf-8")
        with pytest.raises(LineError, match=rf"{name}:1: .*delete the line"):
            packing.pack(tmp_path / "raw", tmp_path / "packed", META)
    assert not (tmp_path / "packed").exists()


def test_a_data_set_that_cannot_be_packed_anew_stays_as_it_was(tmp_path: Path) -> None:
    _raw(tmp_path / "raw")
    packing.pack(tmp_path / "raw", tmp_path / "packed", META)
    before = store.load(tmp_path / "packed")
    (tmp_path / "raw" / ROWS).write_text("", "utf-8")
    with pytest.raises(TypeError):
        packing.pack(tmp_path / "raw", tmp_path / "packed", {"gpu": object()})  # the last file fails, as on a full disk
    assert store.load(tmp_path / "packed") == before
    assert not [path for path in (tmp_path / "packed").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("meta.json", b"x"),
        ("meta.json", b"[]"),
        ("meta.json", b"{}"),
        ("rows.jsonl.xz", b"no archive"),
        ("rows.jsonl.xz", lzma.compress(b'{"spec":1}\n')),
        ("rows.jsonl.xz", lzma.compress(b"no JSON")),
        ("rows.jsonl.xz", lzma.compress(b"{}\n" * 99)[:-20]),
        ("traces.jsonl.xz", lzma.compress(b"no trace")),
        ("saved.jsonl.xz", lzma.compress(b"[" * 100_000)),
    ],
)
def test_a_damaged_data_set_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    _raw(tmp_path / "raw")
    packing.pack(tmp_path / "raw", tmp_path / "packed", META)
    (tmp_path / "packed" / name).write_bytes(data)
    with pytest.raises(store.DataError, match=r"packed is no whole data set .*: pack it anew"):
        store.load(tmp_path / "packed")


def test_a_few_bytes_that_stand_for_very_many_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _raw(tmp_path / "raw")
    packing.pack(tmp_path / "raw", tmp_path / "packed", META)
    (tmp_path / "packed" / "traces.jsonl.xz").write_bytes(lzma.compress(b"x" * 3 * files.MIB))
    monkeypatch.setattr(files, "MAX_DATA_BYTES", 2 * files.MIB)
    with pytest.raises(store.DataError, match=r"traces\.jsonl\.xz: longer than 2 MiB unpacked"):
        store.load(tmp_path / "packed")


def test_a_pipe_in_a_data_set_is_not_waited_for(tmp_path: Path) -> None:
    _raw(tmp_path / "raw")
    packing.pack(tmp_path / "raw", tmp_path / "packed", META)
    for name in ("traces.jsonl.xz", "meta.json"):
        (tmp_path / "packed" / name).unlink()
        os.mkfifo(tmp_path / "packed" / name)
        with pytest.raises(store.DataError, match="not a regular file"):
            store.load(tmp_path / "packed")


def test_labels_need_a_measured_context(tmp_path: Path) -> None:
    _raw(tmp_path / "raw")
    (tmp_path / "raw" / ISOLATED).write_text("", "utf-8")
    with pytest.raises(ValueError, match="with --isolated first"):
        packing.pack(tmp_path / "raw", tmp_path / "packed", META)


def test_contexts_are_medians_by_kind_and_libraries_and_of_the_kind_where_one_is_missing() -> None:
    runs: list[tuple[Kind, Libraries, float]] = [
        ("train", "both", 760.0),
        ("train", "both", 758.0),
        ("train", "both", 774.0),
        ("train", "cudnn", 632.0),
        ("train", "cublas", 742.0),
    ]
    train = {"none": 758.0, "cublas": 742.0, "cudnn": 632.0, "both": 760.0}
    assert packing.contexts_of(runs) == {"train": train, "infer": dict.fromkeys(train, 758.0)}


@pytest.mark.parametrize(
    ("types", "libraries"),
    [
        (("Embedding", "LayerNorm"), "none"),
        (("Embedding", "Linear", "GCNConv"), "cublas"),
        (("ConvBnAct", "Conv2d", "AttentionGate"), "cudnn"),
        (("ConvTranspose1d",), "cudnn"),
        (("LSTM",), "both"),
        (("Conv1d", "NonDynamicallyQuantizableLinear"), "both"),
        (("LinearBottleneck", "Conv2d"), "cudnn"),
    ],
)
def test_layers_tell_the_libraries(types: tuple[str, ...], libraries: str) -> None:
    assert store.libraries_of(json.dumps({"root": [["", type_, "", 0, []] for type_ in types]})) == libraries


def test_runs_in_processes_of_their_own_are_added_and_correct_the_labels(tmp_path: Path) -> None:
    first, _, third = _raw(tmp_path / "raw")
    packing.pack(tmp_path / "raw", tmp_path / "packed", META)
    run = {"device": "cuda", "peak_reserved_mib": 20.0, "reserved_mib": 18.0, "status": "ok"}
    again = {"spec": first.to_json(), **run, "nvml_mib": 698.0}
    lines = [again, {**again, "device": "cpu"}, {**again, "spec": third.to_json(), "status": "oom"}]
    results = tmp_path / "isolated.xz"
    results.write_bytes(lzma.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    assert packing.add_checks(results, tmp_path / "packed") == {"new": 1, "checks": 1}
    data = store.load(tmp_path / "packed")
    assert data.meta["context_mib"][first.kind]["cublas"] == 680.0
    assert [check.own_mib for check in data.checks] == [700.0]
    assert next(row.memory_mib for row in data.rows if row.spec == first) == 700.0


def test_coverage_of_raw_rows(tmp_path: Path) -> None:
    _raw(tmp_path / "raw")
    rows = coverage.raw_rows(tmp_path / "raw" / ROWS)
    table = coverage.table(rows)
    assert table["mlp"]["rows"] == 2
    assert table["mlp"]["oom"] == 1
    assert table["real"]["rows"] == table["timm"]["rows"] == 1
    assert coverage.text(table).splitlines()[1].startswith("mlp ")
    only_oom = [row for row in rows if row.status == "oom"]
    assert "-" in coverage.text(coverage.table(only_oom))


def test_coverage_is_drawn(tmp_path: Path) -> None:
    _raw(tmp_path / "raw")
    coverage.plot(coverage.raw_rows(tmp_path / "raw" / ROWS), tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text("utf-8").count("<svg") == 1


@pytest.fixture(scope="module")
def committed() -> store.Dataset:
    return store.committed()


def test_the_committed_data_set_has_its_size(committed: store.Dataset) -> None:
    found = coverage.table(committed.rows)
    assert found["mlp"]["rows"] >= 3000
    assert found["cnn"]["rows"] >= 3000
    assert found["transformer"]["rows"] >= 2000
    assert found["real"]["rows"] >= 400
    assert found["real"]["oom"] > 0
    assert found["cnn"]["most_mib"] > 40 * 1024
    assert sum(path.stat().st_size for path in store.DEFAULT.iterdir()) < 5 * 2**20


def test_no_architecture_family_is_in_two_splits_but_for_rows_that_only_judge(committed: store.Dataset) -> None:
    splits: dict[str, set[str]] = {}
    for row in committed.rows:
        assert row.apart is None or row.spec.group not in FRESH
        if row.apart is None:
            splits.setdefault(row.spec.group, set()).add(row.split)
    assert all(len(found) == 1 for found in splits.values())
    assert len({row.spec.id for row in committed.rows}) == len(committed.rows)
    real = [row for row in committed.rows if row.spec.source != "synthetic"]
    assert set(FITTED) <= {row.split for row in real} <= set(get_args(Split))
    assert {row.spec.group for row in real if row.split == "fresh"} <= FRESH


def test_what_judges_was_measured_before_as_far_as_its_split_says(committed: store.Dataset) -> None:
    found: dict[str, set[tuple[str, str]]] = {part: set() for part in ("fitted", "fresh", "kin", "known")}
    for row in committed.rows:
        part = "fitted" if row.split in FITTED else row.split
        found[part].add((row.spec.source, row.spec.name))
    assert found["known"] <= found["fitted"]
    assert not found["kin"] & found["fitted"]
    assert not found["fresh"] & (found["fitted"] | found["kin"])
    families = {row.spec.group for row in committed.rows if row.split in FITTED}
    assert {row.spec.group for row in committed.rows if row.apart} <= families


def test_what_is_drawn_for_measured_models_is_fitted_to_or_known(committed: store.Dataset) -> None:
    drawn = [row for row in committed.rows if row.drawn]
    assert len(drawn) >= 3369
    assert {row.split for row in drawn} <= {*FITTED, "known"}
    assert all(row.drawn for row in committed.rows if row.split == "known")
    fitted = {(row.spec.source, row.spec.name) for row in committed.rows if row.split in FITTED and not row.drawn}
    assert {(row.spec.source, row.spec.name) for row in drawn} <= fitted


def test_no_small_run_of_a_real_model_holds_what_an_earlier_one_left_behind(committed: store.Dataset) -> None:
    """Raw rows say since the fifth collection what their process held before: 6 MiB in those of cifar_dense."""
    real = [row for row in committed.rows if row.spec.source not in ("synthetic", "library")]
    small = [row for row in real if row.peak_allocated_mib < 400]
    assert len(small) > 700
    assert {row.spec.name for row in small if row.peak_reserved_mib >= 800} == {"cifar_dense"}


def test_every_real_row_has_its_trace(committed: store.Dataset) -> None:
    real = {row.spec.model_id for row in committed.rows if row.spec.source != "synthetic"}
    assert real <= committed.traces.keys()
    assert all('"calls":[[' in committed.traces[model] for model in real)


def test_labels_are_reserved_memory_and_context(committed: store.Dataset) -> None:
    for row in committed.rows:
        assert row.peak_allocated_mib <= row.peak_reserved_mib + 1
        if row.status == "ok":
            context = committed.meta["context_mib"][row.spec.kind][row.libraries]
            assert row.memory_mib == row.peak_reserved_mib + context
            assert row.peak_reserved_mib <= committed.meta["limit_mib"]


def test_the_page_counts_what_is_there(committed: store.Dataset) -> None:
    page = " ".join((Path(__file__).parents[3] / "docs/dataset.md").read_text("utf-8").split())
    assert f"`isolated.jsonl.xz` holds {len(committed.checks):,} configurations" in page
