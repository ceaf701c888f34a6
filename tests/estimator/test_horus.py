"""Horus, families, fingerprints, GPUs and the measured history: small pure parts."""

from __future__ import annotations

import dataclasses

import pytest

from estimator.family import family_of
from estimator.fingerprint import fingerprint
from estimator.gpus import GPUS, UNKNOWN, canonical, lookup, most_memory_mib
from estimator.history import from_history
from estimator.layer import Layer
from estimator.methods import METHODS, load_method
from estimator.methods.horus import Horus
from estimator.parsers import parse_summary
from estimator.types import SummaryError, Workload
from estimator.walk import layers

TABLE = """\
        Layer (type)               Output Shape         Param #
================================================================
            Conv2d-1         [-1, 16, 32, 32]             448
              ReLU-2         [-1, 16, 32, 32]               0
            Linear-3                   [-1, 10]         163,850
================================================================
"""
MIB = 2**20


def test_horus_is_the_formula() -> None:
    summary = parse_summary(TABLE)
    estimate = Horus().predict(summary, Workload(4096, gpu="h200"))
    activations, params = 2 * 16 * 32 * 32 + 10, 164_298
    count = (4096 * activations + params) + 4096 * params
    assert estimate.expected_mib == estimate.upper_mib == -(-count * 4 // MIB) + 752
    assert (estimate.method, estimate.family) == ("horus", "cnn")


@pytest.mark.parametrize("method", ["horus", "gpumemnet", "rad"])
def test_no_method_reckons_with_no_channels(method: str) -> None:
    text = "Net(\n  (a): Conv2d(3, 8, kernel_size=(3, 3))\n  (b): Conv2d(0, 8, kernel_size=(3, 3))\n)\n"
    with pytest.raises(SummaryError, match="zero or negative ones, cannot be reckoned with"):
        load_method(method).predict(parse_summary(text), Workload(8))


def test_horus_counts_no_gradients_in_inference_and_two_bytes_in_half_precision() -> None:
    summary = parse_summary(TABLE)
    train = Horus().predict(summary, Workload(64))
    infer = Horus().predict(summary, Workload(64, kind="infer"))
    half = Horus().predict(summary, Workload(64, precision="bf16"))
    assert infer.expected_mib < train.expected_mib
    assert half.expected_mib - 752 == pytest.approx((train.expected_mib - 752) / 2, abs=1)


@pytest.mark.parametrize(
    ("types", "family"),
    [
        (("Sequential", "Linear", "ReLU"), "mlp"),
        (("EmbeddingBag", "Linear"), "mlp"),
        (("Conv2d", "BatchNorm2d", "Linear"), "cnn"),
        (("Conv2D", "Dense"), "cnn"),
        (("Conv2d", "MultiheadAttention"), "transformer"),
        (("Embedding", "Linear"), "transformer"),
        (("GPT2Block", "Conv1D"), "transformer"),
        (("BertLayer", "Linear"), "transformer"),
    ],
)
def test_families(types: tuple[str, ...], family: str) -> None:
    assert family_of(Layer(type_, 0) for type_ in types) == family


def test_a_fingerprint_is_equal_for_equal_runs_only() -> None:
    summary = parse_summary(TABLE)
    run = Workload(64, None, "adam", "fp32", "train", "NVIDIA H200")
    same = fingerprint(parse_summary(TABLE.replace("-1,", "64,") + "\ntrailing text\n"), run)
    assert fingerprint(summary, run) == same
    assert len(same) == 32
    others = {
        fingerprint(summary, dataclasses.replace(run, batch_size=65)),
        fingerprint(summary, dataclasses.replace(run, seq_len=128)),
        fingerprint(summary, dataclasses.replace(run, optimizer="sgd")),
        fingerprint(summary, dataclasses.replace(run, precision="bf16")),
        fingerprint(summary, dataclasses.replace(run, kind="infer")),
        fingerprint(summary, dataclasses.replace(run, gpu="a100")),
        fingerprint(parse_summary(TABLE.replace("16, 32", "16, 33")), run),
        fingerprint(parse_summary(TABLE.replace("448", "449")), run),
        fingerprint(parse_summary(TABLE.replace("ReLU", "GELU")), run),
    }
    assert len(others) == 9
    assert same not in others


def test_the_optimizer_of_a_job_that_only_infers_does_not_count() -> None:
    summary = parse_summary(TABLE)
    assert fingerprint(summary, Workload(1, kind="infer")) == fingerprint(
        summary, Workload(1, None, "sgd", kind="infer")
    )


def test_repeated_blocks_and_written_out_blocks_have_one_fingerprint() -> None:
    block = "Block(\n (fc): Linear(in_features=4, out_features=4, bias=True)\n )\n"
    short = parse_summary(f"Net(\n (l): ModuleList(\n (0-1): 2 x {block})\n)\n")
    long = parse_summary(f"Net(\n (l): ModuleList(\n (0): {block}(1): {block})\n)\n")
    assert fingerprint(short, Workload(1)) == fingerprint(long, Workload(1))
    assert len(list(layers(short.root))) == 6


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("h200", 143_771),
        ("NVIDIA H200", 143_771),
        ("A100-SXM4-40GB", 40_960),
        ("nvidia_a100_80gb_pcie", 81_920),
        ("NVIDIA A100 80GB PCIe", 81_920),
        ("a100-40gb", 40_960),
        ("a100", 40_960),
        ("Tesla V100-SXM2-32GB", 32_768),
        ("gpu:h100", 81_559),
        ("NVIDIA GeForce RTX 4090", 24_564),
    ],
)
def test_gpus_are_known_by_many_names(name: str, memory: int) -> None:
    assert lookup(name).memory_mib == memory


def test_an_unknown_gpu_has_no_memory_and_keeps_its_name() -> None:
    assert lookup("quantum9000") is UNKNOWN


@pytest.mark.parametrize(
    ("name", "memory"),
    [("a100", 81_920), ("A100-SXM4-40GB", 40_960), ("l4", 23_034), ("NVIDIA H200", 143_771), ("quantum9000", 0)],
)
def test_a_name_may_mean_the_largest_variant(name: str, memory: int) -> None:
    assert most_memory_mib(name) == memory
    assert canonical("NVIDIA Quantum_9000") == "quantum-9000"
    assert len({gpu.name for gpu in GPUS}) == len(GPUS)
    assert all(canonical(gpu.name) == gpu.name for gpu in GPUS)


def test_history_wins_and_says_so() -> None:
    estimate = Horus().predict(parse_summary(TABLE), Workload(64))
    assert from_history(estimate, {}) is estimate
    assert from_history(estimate, {estimate.fingerprint: []}) is estimate
    assert from_history(estimate, {estimate.fingerprint: [float("nan"), -1.0, 1e12]}) is estimate
    once = from_history(estimate, {estimate.fingerprint: [5000.0]})
    assert (once.expected_mib, once.method, once.fingerprint) == (5000, "history", estimate.fingerprint)
    assert 5000 < once.upper_mib <= 5500
    often = from_history(estimate, {estimate.fingerprint: [4800.0, 5000.0, 4900.0]})
    assert (often.expected_mib, often.upper_mib) == (5000, 5150)
    assert "3 earlier runs" in often.reasons[0]


def test_methods_by_name() -> None:
    assert load_method("horus").name == "horus"
    assert METHODS == ("rad", "horus", "gpumemnet", "faketensor")
    with pytest.raises(ValueError, match="choose one of"):
        load_method("magic")
