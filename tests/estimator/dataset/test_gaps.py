"""More configurations of measured models lie where little was measured."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import get_args

from estimator.dataset.catalogues.draws import generate_real
from estimator.dataset.catalogues.first import entries
from estimator.dataset.catalogues.gaps import few, fill
from estimator.dataset.specs import PRECISIONS, Spec
from estimator.types import Kind

ENTRY = next(entry for entry in entries() if entry.name == "resnet50" and entry.source == "torchvision")
OTHER = next(entry for entry in entries() if entry.name == "vgg11" and entry.source == "torchvision")
SPEC = replace(next(generate_real(1, 0, [ENTRY])), kind="train", precision="fp32", batch_size=64)


def _filled(measured: list[Spec], workloads: int = 3, seed: int = 1) -> list[Spec]:
    return list(fill([OTHER, ENTRY], measured, workloads, seed, 0.3))


def test_what_is_far_from_what_was_measured_comes_first() -> None:
    ways = [(spec.kind, spec.precision) for spec in _filled([SPEC], 5)]
    assert {kind for kind, _ in ways} == {"infer", "train"}
    assert len({precision for _, precision in ways}) == 3
    assert ways.count(("train", "fp32")) <= 1
    trained = [replace(SPEC, precision=precision) for precision in ("fp32", "amp", "bf16")]
    assert next(iter(_filled(trained, 1))).kind == "infer"


def test_models_samples_and_runs_that_were_measured_are_kept_to() -> None:
    drawn = _filled([SPEC], 40)
    assert {(spec.name, str(spec.arch), spec.seq_len) for spec in drawn} == {("resnet50", str(SPEC.arch), SPEC.seq_len)}
    assert len(drawn) == len({spec.id for spec in drawn}) > 20
    assert not {spec.id for spec in _filled([SPEC, *drawn], 40)} & {spec.id for spec in (SPEC, *drawn)}


def test_equal_seeds_draw_the_same() -> None:
    assert _filled([SPEC]) == _filled([SPEC])
    assert _filled([SPEC]) != _filled([SPEC], seed=2)
    assert _filled([]) == []


def test_precisions_and_kinds_that_were_never_measured_are_drawn_first() -> None:
    twice = [replace(SPEC, batch_size=size) for size in (64, 32)]
    other = replace(next(generate_real(1, 0, [OTHER])), kind="train", precision="amp")
    every = [replace(other, precision=p, kind=k, batch_size=5) for p in PRECISIONS for k in get_args(Kind)]
    drawn = list(few([OTHER, ENTRY], [*twice, *every], 1, 1, set()))
    assert Counter((spec.name, spec.precision, spec.kind) for spec in drawn) == {
        (name, precision, kind): 1
        for name in ("resnet50", "vgg11")
        for precision in PRECISIONS
        for kind in get_args(Kind)
        if name == "vgg11" or (precision, kind) != ("fp32", "train")
    }
    assert [spec.name for spec in drawn] == ["resnet50"] * 5 + ["vgg11"] * 6
    assert [spec.name for spec in few([OTHER, ENTRY], [*twice, *every], 0, 1, set())] == ["resnet50"] * 5


def test_what_is_taken_is_not_drawn() -> None:
    first = list(few([ENTRY], [SPEC], 0, 1, set()))
    second = list(few([ENTRY], [SPEC], 0, 1, {spec.id for spec in first}))
    assert len(first) == len(second) == 5
    assert not {spec.id for spec in first} & {spec.id for spec in second}
