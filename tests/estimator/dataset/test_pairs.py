"""Runs measured again on another GPU: which, and what the page makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from estimator.dataset.store import committed
from scripts.collect_pairs import chosen, small
from scripts.memory_other import read


def test_what_nothing_is_fitted_to_is_measured_again() -> None:
    rows = committed().rows
    by_id = {row.spec.id: row for row in rows}
    specs = chosen(rows, 20_000)
    assert {by_id[spec.id].split for spec in specs} == {"known", "kin"}
    assert all(spec.source != "library" and (by_id[spec.id].memory_mib or 0) < 20_000 for spec in specs)
    assert len(specs) < len(chosen(rows, 60_000))
    alone = small(rows)
    assert {(spec.kind, spec.family) for spec in alone} == {(spec.kind, spec.family) for spec in chosen(rows, 4096)}


def test_a_pair_has_the_context_of_its_kind(tmp_path: Path) -> None:
    row = next(row for row in committed().rows if row.split == "known" and row.memory_mib)
    first = row.spec
    lines = ["id,name,kind,family,status,reserved_mib,context_mib"]
    lines += [f"{first.id},a,{first.kind},{first.family},ok,400,{context}" for context in (600, 640, 720)]
    lines += [f"{first.id},a,{first.kind},{first.family},ok,1000,", f"x,b,{first.kind},{first.family},oom,1,"]
    (tmp_path / "pairs.csv").write_text("\n".join(lines) + "\n")
    pairs, contexts = read(tmp_path / "pairs.csv", {first.id: row})
    assert contexts == {(first.kind, first.family): 640}
    (pair,) = pairs
    assert pair.there_mib == 1640
    assert pair.ratio == pytest.approx(1640 / (row.memory_mib or 1) - 1)
    assert not pair.same
