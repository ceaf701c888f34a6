"""Configurations: within the dissertation's ranges, the same for the same seed, split by architecture."""

from __future__ import annotations

import json

import pytest

from estimator.dataset.catalogues import (
    eleventh,
    fifth,
    fourth,
    ninth,
    second,
    seventh,
    sixth,
    sized,
    tenth,
    third,
    twelfth,
)
from estimator.dataset.catalogues.catalogue import entry_of
from estimator.dataset.catalogues.draws import generate_real
from estimator.dataset.catalogues.first import entries
from estimator.dataset.catalogues.fresh import (
    ELEVENTH,
    FIFTH,
    FOURTH,
    FRESH,
    NINTH,
    SECOND,
    SEVENTH,
    SIXTH,
    TENTH,
    THIRD,
    TWELFTH,
)
from estimator.dataset.plans import params_of, plan_of, trace_of
from estimator.dataset.specs import (
    CNN_SHAPES,
    LIMIT_MIB,
    MLP_SHAPES,
    Spec,
    claim_mib,
    costs,
    generate_synthetic,
    spec_from_json,
    split_of,
)
from estimator.types import OPTIMIZERS


def test_equal_seeds_draw_equal_configurations() -> None:
    one, same = list(generate_synthetic("cnn", 20, 5)), list(generate_synthetic("cnn", 20, 5))
    other = list(generate_synthetic("cnn", 20, 6))
    assert one == same
    assert one != other
    assert len({spec.id for spec in one}) == 20


def test_mlps_are_within_table_5_2() -> None:
    specs = list(generate_synthetic("mlp", 400, 0))
    assert {s.name for s in specs} == set(MLP_SHAPES)
    assert all(4 <= s.arch["inp"] <= 4096 and 1 <= s.arch["out"] <= 1024 for s in specs)
    assert all(2 <= s.arch["depth"] + 1 <= 12 for s in specs)
    assert {s.optimizer for s in specs} == set(OPTIMIZERS)
    assert {s.precision for s in specs} == {"fp32", "amp", "bf16"}
    assert {s.kind for s in specs} == {"train", "infer"}


@pytest.fixture(scope="module")
def cnns() -> list[Spec]:
    return list(generate_synthetic("cnn", 600, 0))


def test_cnns_are_within_table_5_4(cnns: list[Spec]) -> None:
    assert {s.name for s in cnns} == set(CNN_SHAPES)
    assert all(1 <= s.arch["depth"] <= 29 and s.arch["chans"] in (1, 3) for s in cnns)
    assert all(16 <= s.arch["base"] <= 512 and 2 <= s.arch["classes"] <= 22000 for s in cnns)
    assert {s.arch["k"] for s in cnns} == {3, 5, 7}


def test_transformers_are_within_table_5_6() -> None:
    specs = list(generate_synthetic("transformer", 300, 0))
    assert all(128 <= s.arch["width"] <= 2048 and s.seq_len in (128, 256, 512, 1024) for s in specs)
    assert max(s.arch["depth"] for s in specs) > 30
    assert max(s.arch["vocab"] for s in specs if not s.arch["lm"]) > 500_000
    assert all(s.arch["width"] % s.arch["heads"] == 0 for s in specs)


def test_batches_reach_the_limit_and_claims_follow_them(cnns: list[Spec]) -> None:
    claims = [claim_mib(spec) for spec in cnns]
    assert max(claims) > LIMIT_MIB
    assert min(claims) < 1024


def test_costs_count_outputs_and_operations_of_leaves() -> None:
    arch = {"shape": "uniform", "inp": 10, "width": 8, "out": 3, "depth": 1, "act": "ReLU", "bn": False}
    plan = plan_of("mlp", {**arch, "drop": 0.0, "softmax": False})
    found = costs(trace_of(*plan))
    assert found.numbers == 8 + 8 + 3
    assert found.flops == 2 * params_of(plan[0])


def test_a_group_is_in_one_split_and_splits_have_their_sizes() -> None:
    names = [f"group {i}" for i in range(2000)]
    shares = {part: sum(split_of(n) == part for n in names) / 2000 for part in ("train", "val", "test")}
    assert shares["train"] == pytest.approx(0.65, abs=0.04)
    assert shares["test"] == pytest.approx(0.25, abs=0.04)
    # In every process alike: else what judges a model would be learnt from.
    assert [split_of(name) for name in ("resnet", "bert", "vit")] == ["train", "val", "test"]


def test_json_keeps_a_configuration() -> None:
    for spec in list(generate_real(1, 0, entries()))[::40]:
        assert spec_from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("change", "message"),
    [({"kind": "guess"}, "kind='guess'"), ({"source": "net"}, "source='net'"), ({"more": 1}, "not a configuration")],
)
def test_a_wrong_configuration_is_refused(change: dict[str, object], message: str) -> None:
    spec = next(generate_synthetic("mlp", 1, 0)).to_json()
    with pytest.raises(ValueError, match=message):
        spec_from_json({**spec, **change})


def test_real_models_cover_libraries_and_heads_and_share_families() -> None:
    found = list(entries())
    assert len({(e.source, e.name, e.attention) for e in found}) == len(found)
    assert {e.source for e in found} == {"torchvision", "timm", "transformers"}
    groups = {e.name: e.group for e in found}
    assert groups["resnet50"] == groups["resnext50_32x4d"] == groups["hf-resnet-50"] == groups["seresnet50"]
    assert groups["bert-base-MaskedLM"] == groups["roberta-base-MaskedLM"]
    assert {"AutoModelForMaskedLM", "AutoModelForCausalLM", "AutoModelForSequenceClassification"} <= {
        e.head for e in found
    }


def test_workloads_of_a_real_model_come_small_batches_first_within_a_precision() -> None:
    last: Spec | None = None
    for spec in generate_real(4, 1, entries()):
        same = last is not None and (last.source, last.name, last.arch) == (spec.source, spec.name, spec.arch)
        if last is not None and same and last.precision == spec.precision:
            assert last.batch_size * (last.seq_len or 1) <= spec.batch_size * (spec.seq_len or 1)
        assert entry_of(spec).group == spec.group
        last = spec


def test_an_unknown_model_is_named() -> None:
    spec = next(generate_real(1, 0, entries()))
    with pytest.raises(KeyError, match="nothing_net"):
        entry_of(Spec(**{**spec.to_json(), "name": "nothing_net"}))


def test_fresh_families_are_in_no_other_part_of_the_data_set() -> None:
    first = {e.group for e in entries()}
    found = [entry for module in (second, third, fourth, fifth) for entry in module.entries()]
    found += [*sixth.entries(), *seventh.entries(), *ninth.entries(), *tenth.entries(), *eleventh.entries()]
    found += [*twelfth.entries(), *sized.entries()]
    groups = {e.group for e in found}
    assert groups >= SECOND | THIRD | FOURTH | FIFTH | SIXTH | SEVENTH | NINTH | TENTH | ELEVENTH | TWELFTH
    assert not SECOND & first
    third_groups = {e.group for e in third.entries()}
    second_groups = {e.group for e in second.entries()}
    assert not THIRD & (first | second_groups)
    assert {e.group for e in fourth.entries()} - (first | second_groups | third_groups) == FOURTH
    before = first | {e.group for module in (second, third, fourth) for e in module.entries()}
    assert {e.group for e in fifth.entries()} - before == FIFTH - FOURTH
    before |= {e.group for e in fifth.entries()}
    assert {e.group for e in sixth.entries()} - before == SIXTH - before
    before |= {e.group for e in sixth.entries()}
    assert {e.group for e in seventh.entries()} - before == SEVENTH
    before |= SEVENTH
    assert {e.group for e in ninth.entries()} - before == NINTH
    before |= NINTH
    assert {e.group for e in tenth.entries()} - before == TENTH
    before |= TENTH
    assert {e.group for e in eleventh.entries()} - before == ELEVENTH
    before |= ELEVENTH
    assert {e.group for e in twelfth.entries()} - before == TWELFTH
    assert {e.group for e in sized.entries()} <= before
    assert all(split_of(group) == "fresh" for group in FRESH)
    assert "fresh" not in {split_of(group) for group in first | (groups - FRESH)}
    assert len({(e.source, e.name) for e in (*entries(), *found) if not e.attention}) == len(found) + len(
        [e for e in entries() if not e.attention]
    )


def test_sizes_of_one_s_own_are_drawn_once_and_are_the_same_again() -> None:
    found = list(sized.entries())
    assert found == list(sized.entries())
    assert len({(e.model_type or e.head, e.name.partition("-sized-")[0], str(e.config)) for e in found}) == len(found)
    for entry in found:
        heads = entry.config.get("num_attention_heads")
        assert heads is None or entry.config["hidden_size"] % heads == 0, entry.name
        groups = entry.config.get("num_key_value_heads")
        assert groups is None or heads % groups == 0, entry.name


def test_chosen_models_are_drawn_with_lengths_that_fit_them() -> None:
    drawn = list(generate_real(6, 0, [*second.entries(), *third.entries(), *fourth.entries()], infer=0.5))
    assert {s.kind for s in drawn} == {"train", "infer"}
    for spec in drawn:
        entry = entry_of(spec)
        assert spec.seq_len is None if not entry.longest else 0 < (spec.seq_len or 0) <= entry.longest
        assert spec.batch_size * (spec.seq_len or 1) <= 65536
    assert {s.seq_len for s in drawn if s.name == "patchtst"} == {512}
