"""What autograd keeps in each call, of small models on the CPU."""

from __future__ import annotations

import json
import lzma
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from estimator.dataset.packing import add_rehearsed, add_saved
from estimator.dataset.store import DEFAULT, committed, load
from estimator.methods.rad.convolutions import Workspace
from estimator.rehearsals.lines import of_workload
from estimator.types import Point

torch = pytest.importorskip("torch")
from estimator.dataset import rehearsed as runner  # noqa: E402
from estimator.dataset.collect import Collector, Options  # noqa: E402
from estimator.dataset.feeds import Fed  # noqa: E402
from estimator.dataset.raw import ROWS  # noqa: E402
from estimator.dataset.rehearsed import main as rehearsing  # noqa: E402
from estimator.dataset.rehearsed import rehearsed  # noqa: E402
from estimator.dataset.saved import main, saved_by_calls  # noqa: E402
from scripts.collect_saved import runs, shared, specs  # noqa: E402


class Gate(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Linear(8, 8)
        self.two = torch.nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.one(x) * torch.sigmoid(self.two(x))


def test_each_storage_counts_once_for_the_innermost_call() -> None:
    calls, saved = saved_by_calls(Gate(), ((torch.zeros(4, 8),), {}), nullcontext())
    assert [call.module for call in calls] == [0, 1, 2]
    # Both layers take one input; the gate multiplies two tensors, of which sigmoid keeps one.
    assert saved == [2 * 4 * 8 * 4, 4 * 8 * 4, 0]


def test_a_share_has_all_runs_of_a_model_whatever_else_is_wanted() -> None:
    wanted = specs(row.spec for row in committed().rows)[:600]
    one, other = (shared(wanted, share, 2) for share in range(2))
    assert len(one) + len(other) == len(wanted)
    assert not {spec.name for spec in one} & {spec.name for spec in other}
    assert min(len(one), len(other)) > 200
    assert shared(wanted[:300], 0, 2) == [spec for spec in one if spec in wanted[:300]]


def part_of_the_data_set(folder: Path, names: tuple[str, ...], models: set[str]) -> None:
    """Write the rows of those names and the traces of those models; reading all takes seconds."""
    folder.mkdir()
    for name in ("meta.json", "isolated.jsonl.xz"):
        (folder / name).symlink_to(DEFAULT / name)
    found = tuple(f'"name":"{name}"' for name in names)
    rows = "rows.jsonl.xz"
    with lzma.open(DEFAULT / rows, "rt", encoding="utf-8") as whole, lzma.open(folder / rows, "wt") as part:
        part.writelines(line for line in whole if any(name in line for name in found))
    with lzma.open(folder / "traces.jsonl.xz", "wt") as part:
        part.writelines(f'{{"model":"{model}","trace":{committed().traces[model]}}}\n' for model in sorted(models))


def test_a_collection_is_packed_and_read_back(tmp_path: Path) -> None:
    whole, names = committed(), ("lenet", "vae64")
    rows = [row.spec for row in whole.rows if row.spec.source == "plain" and row.spec.name in names]
    wanted = specs(rows)
    assert {spec.precision for spec in wanted} == {"fp32", "amp", "bf16"}
    Collector([s for s in wanted if s.precision == "fp32"], tmp_path, Options(1, 1.0, "cpu"), main).run(lambda _: None)
    packed = tmp_path / "packed.xz"
    packed.write_bytes(lzma.compress((tmp_path / ROWS).read_bytes()))
    folder = tmp_path / "set"
    models = {spec.model_id for spec in wanted}
    part_of_the_data_set(folder, names, models)
    assert add_saved(packed, folder) == {"new": len(models), "other calls": 0, "all": len(models)}
    assert add_saved(packed, folder)["all"] == len(models)
    read = load(folder)
    assert {model for model, _ in read.saved} == models
    for (model, precision), saved in read.saved.items():
        assert len(saved) == len(json.loads(read.traces[model])["calls"])
        assert sum(saved) > 0
        assert precision == "fp32"
        # A GPU keeps as much of such models.
        assert sum(saved) == pytest.approx(sum(whole.saved[model, "fp32"]), rel=0.1)


def test_rehearsals_are_packed_and_read_back(tmp_path: Path) -> None:
    names = ("text_cnn", "vae64")
    rows = (row for row in committed().rows if row.spec.name in names and row.memory_mib)
    measured = [row for row in rows if row.spec.seq_len in (None, 64) and row.spec.precision == "fp32"]
    wanted = runs(row.spec for row in measured)
    assert {spec.name for spec in wanted} == set(names)
    Collector(wanted, tmp_path, Options(1, 1.0, "cpu"), rehearsing).run(lambda _: None)
    packed = tmp_path / "packed.xz"
    packed.write_bytes(lzma.compress((tmp_path / ROWS).read_bytes()))
    folder = tmp_path / "set"
    part_of_the_data_set(folder, names, {spec.model_id for spec in wanted})
    assert load(folder).rehearsed == {}
    counts = add_rehearsed(packed, folder)
    assert counts["new"] == len(wanted) >= counts["all"]  # inferences are alike whatever their optimizer
    assert add_rehearsed(packed, folder) == counts
    read = load(folder)
    assert read.rehearsed.keys() == {spec.model_id for spec in wanted}
    apart = []
    for row in measured:
        found = of_workload(read.rehearsed[row.spec.model_id], row.workload)
        if found is not None and not found.apart:
            apart.append(abs(row.peak_reserved_mib / found.held_mib - 1))
    assert len(apart) > len(read.rehearsed)
    assert median(apart) < 0.1  # what a GPU took
    for rehearsals in read.rehearsed.values():
        assert any({16, 32} <= {point.batch for point in item.points} for item in rehearsals)


def test_the_most_is_written_where_it_is_more(tmp_path: Path) -> None:
    row = next(row for row in committed().rows if row.spec.name == "vae64" and row.spec.kind == "train")
    part_of_the_data_set(tmp_path / "set", ("vae64",), {row.spec.model_id})
    specs_ = [replace(row.spec, batch_size=batch) for batch in (8, 16)]
    sizes = ([10.4, 20.0, 20.0], [15.0, 30.0, 40.6])
    lines = [json.dumps({"spec": spec.to_json(), "rehearsed": mib}) for spec, mib in zip(specs_, sizes, strict=True)]
    (tmp_path / "new.xz").write_bytes(lzma.compress("\n".join(lines).encode()))
    assert add_rehearsed(tmp_path / "new.xz", tmp_path / "set") == {"new": 2, "all": 2}
    (item,) = load(tmp_path / "set").rehearsed[row.spec.model_id]
    assert item.points == (Point(8, 10, 20, 20), Point(16, 15, 30, 41))
    stored = lzma.decompress((tmp_path / "set" / "rehearsed.jsonl.xz").read_bytes()).decode()
    assert "8,10,10]" in stored.replace(" ", "")
    assert "16,15,15,11]" in stored.replace(" ", "")


def no_work(*_: object) -> Workspace:
    return Workspace((0.0,), (0.0,), (0.0,))


def test_runs_of_one_model_with_other_lengths_are_told_apart() -> None:
    spec_of = {row.spec.seq_len: row.spec for row in committed().rows if row.spec.name == "text_cnn"}
    few, many = (replace(spec_of[length], batch_size=4, precision="fp32", optimizer="sgd") for length in (64, 1024))
    asked = [replace(many, kind="train"), replace(few, kind="train"), replace(few, kind="infer")]
    found = {spec.id: point for spec, point in rehearsed(asked, no_work) if isinstance(point, Point)}
    more, less, least = (found[spec.id].used_mib for spec in asked)
    assert least < less < more


def test_one_model_of_each_family_comes_first() -> None:
    groups = [spec.group for spec in specs((row.spec for row in committed().rows), ("fp32",))]
    families = len(set(groups))
    assert len(set(groups[:families])) == families


def test_a_mask_that_masks_nothing_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    class Words(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(10, 4)

        def forward(self, input_ids: Any, **more: Any) -> Any:
            given.append(set(more))
            return self.words(input_ids)

    def inputs(batch: int) -> tuple[tuple[()], dict[str, Any]]:
        ids = torch.zeros(batch, 8, dtype=torch.long)
        return (), {"input_ids": ids, "attention_mask": torch.ones_like(ids), "places": ids}

    monkeypatch.setattr(runner, "build_model", lambda _: Words())
    monkeypatch.setattr(runner, "feed", lambda _, model: Fed(model, inputs, lambda *_: torch.zeros(())))
    spec = next(row.spec for row in committed().rows if row.spec.name == "text_cnn")
    ((_, found),) = rehearsed([replace(spec, kind="infer")], no_work)
    assert isinstance(found, Point)
    assert given == [{"places"}] * 2
