"""More configurations of measured models lie where little was measured."""

from __future__ import annotations

from dataclasses import replace

from estimator.dataset.catalogue import entries, generate_real
from estimator.dataset.gaps import fill
from estimator.dataset.specs import Spec

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
