"""The second collection: what is drawn, what is measured again alone, and what survives a break."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from estimator.dataset.collect import ROWS, TRACES, Options
from estimator.dataset.fresh import SECOND, THIRD
from estimator.dataset.specs import Spec
from scripts import collect_later as module


def _row(spec: Spec, **changes: Any) -> str:
    row = {"spec": spec.to_json(), "status": "ok", "step_seconds": 0.1, "peak_reserved_mib": 900.0, **changes}
    return json.dumps(row) + "\n"


def test_fresh_families_are_in_their_own_part() -> None:
    groups = {part: {spec.group for spec in module.specs(part)} for part in module.PARTS}
    assert groups["fresh3"] == THIRD
    assert groups["fresh2"] == SECOND
    assert not THIRD & set().union(*(found for part, found in groups.items() if part != "fresh3"))
    assert not groups["new3"] & (groups["again1"] | groups["again2"])
    assert groups["more3"] <= groups["again1"] | groups["again2"]
    assert module.specs("new3") == module.specs("new3") != module.specs("new3", 12)


def test_processes_of_their_own_are_of_small_runs_one_of_a_kind() -> None:
    chosen = module.isolated(("fresh2", "more2", "fresh3"))
    assert len({(spec.group, spec.kind) for spec in chosen}) == len(chosen) > 10
    assert all(spec.batch_size * (spec.seq_len or 1) <= 2048 for spec in chosen)


def test_quiet_runs_are_short_ones_of_different_models(tmp_path: Path) -> None:
    one, other, slow, large = [spec for spec in module.specs("fresh2") if spec.batch_size > 1][:40:10]
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
    copier = module.Copier(raw, out, 3600.0)
    copier.start()
    (raw / "main" / TRACES).write_text("second\n", "utf-8")
    copier.end()
    assert not copier.is_alive()
    assert {path.name for path in out.iterdir()} == {"main-rows.jsonl.xz", "main-traces.jsonl.xz"}
    assert lzma.decompress((out / "main-traces.jsonl.xz").read_bytes()) == b"second\n"


def test_a_collection_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    class Collector:
        def __init__(self, specs: list[Spec], folder: Path, options: Options) -> None:
            seen.append((len(specs), folder, options.workers))

        def run(self, say: Any) -> None:
            say("1 of 2 measured")
            say("2 of 2 measured")

    monkeypatch.setattr(module, "Collector", Collector)
    monkeypatch.setattr("time.monotonic", iter((100.0, 130.0, 131.0)).__next__)
    module.collect(tmp_path / "main", module.specs("fresh2")[:2], Options(3, 10.0))
    assert seen == [(2, tmp_path / "main", 3)]
    assert capsys.readouterr().out == "   30 s main: 1 of 2 measured\n"
