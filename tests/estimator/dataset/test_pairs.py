"""Runs measured again on another GPU: which, and what the page makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from estimator.dataset.specs import FITTED
from estimator.dataset.store import committed
from estimator.methods import load_method
from scripts.collect_pairs import chosen, small
from scripts.memory_other import Pair, reached, read


def test_what_nothing_is_fitted_to_is_measured_again() -> None:
    rows = committed().rows
    by_id = {row.spec.id: row for row in rows}
    specs = chosen(rows, 20_000)
    assert {by_id[spec.id].split for spec in specs} == {"known", "kin"}
    assert all(spec.source != "library" and (by_id[spec.id].memory_mib or 0) < 20_000 for spec in specs)
    assert len(specs) < len(chosen(rows, 60_000))
    parts = [(spec.kind, by_id[spec.id].libraries) for spec in small(rows)]
    assert set(parts) == {(spec.kind, by_id[spec.id].libraries) for spec in chosen(rows, 4096)}
    assert max(map(parts.count, parts)) == 6


def test_a_pair_has_the_context_of_its_kind_and_libraries(tmp_path: Path) -> None:
    row = next(row for row in committed().rows if row.split == "known" and row.memory_mib)
    first = row.spec
    lines = ["id,name,kind,family,status,reserved_mib,context_mib"]
    lines += [f"{first.id},a,{first.kind},{first.family},ok,400,{context}" for context in (600, 640, 720)]
    lines += [f"{first.id},a,{first.kind},{first.family},ok,1000,", f"x,b,{first.kind},{first.family},oom,1,"]
    lines.append(f"y,c,{first.kind},{first.family},ok,{row.peak_reserved_mib},")
    (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n")
    other = replace(row, libraries="none")  # no process of its own told of these: it has the context that it has here
    pairs, contexts = read(tmp_path / "pairs.csv", {first.id: row, "y": other})
    assert contexts == {(first.kind, row.libraries): 640}
    pair, like_here = pairs
    assert (like_here.same, like_here.ratio) == (True, 0)
    assert pair.there_mib == 1640
    assert pair.ratio == pytest.approx(1640 / (row.memory_mib or 1) - 1)
    assert not pair.same


def test_runs_that_were_fitted_to_since_are_judged_apart() -> None:
    data = committed()
    rows = {
        split: next(r for r in data.rows if r.split == split and r.memory_mib and r.spec.kind == "train")
        for split in ("kin", FITTED[0])
    }
    pairs = [Pair(row, float(row.memory_mib or 0), float(row.memory_mib or 0), same=True) for row in rows.values()]
    lines = list(reached(data, pairs, load_method("rad", None), "h100-80gb"))
    assert [line[0].split()[0] for line in lines] == [
        "models",
        "models",
        "runs",
        "runs",
    ]  # and none for what is not there
    assert [line[1] for line in lines] == ["h100-80gb", "NVIDIA H200"] * 2
    assert all(int(line[2]) > 0 for line in lines)
