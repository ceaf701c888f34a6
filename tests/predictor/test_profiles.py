from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from estimator.gpus import GPUS
from estimator.layer import Layer
from estimator.types import ModelSummary, Workload
from predictor.profile_files import dumps, load, loads
from predictor.profiles import (
    CHIPS,
    KERNEL_S,
    LAUNCH_S,
    Work,
    Worker,
    chip_of,
    corrected,
    estimate_profile,
    leaves,
    raw_profile,
)
from predictor.types import Profile, ProfileError, Shape
from tests.predictor.synthetic import profile


def mlp(width: int, depth: int = 4) -> ModelSummary:
    layers = []
    for _ in range(depth):
        layers += [Layer("Linear", width * width, (width,)), Layer("ReLU", 0, (width,))]
    return ModelSummary("torchinfo", Layer("Sequential", 0, None, tuple(layers)), None, depth * width * width)


def raw(summary: ModelSummary, **how: object):  # type: ignore[no-untyped-def]
    return raw_profile(summary, Workload(**{"batch_size": 64, **how}), "h200")  # type: ignore[arg-type]


def layer_work(layer: Layer, workload: Workload) -> Work:
    return Work(*Worker(workload).of(layer.type, layer.params, layer.output_shape))


def test_linear_work_is_two_operations_a_weight_and_sample() -> None:
    work = layer_work(Layer("Linear", 1000, (10,)), Workload(batch_size=8, kind="infer"))
    assert work == Work(flops=16000.0, moved=8 * 10 * 8 + 4000.0, kernels=1.0, elements=80.0, dense=True)


def test_training_does_three_times_the_work() -> None:
    layer = Layer("Conv2d", 9408, (64, 112, 112))
    infer = layer_work(layer, Workload(batch_size=4, kind="infer"))
    train = layer_work(layer, Workload(batch_size=4))
    assert train.flops == 3 * infer.flops == 3 * 4 * 2 * 9408 * 112 * 112
    assert train.kernels == 3


def test_tables_are_looked_up_not_multiplied() -> None:
    layer = Layer("Embedding", 10_000_000, (128, 64))
    work = layer_work(layer, Workload(batch_size=4, kind="infer"))
    assert work.flops < 1e6 and work.moved < 1e6 and not work.dense


def test_sequence_length_stands_in_where_no_shape_is_shown() -> None:
    layer = Layer("Linear", 1000)
    short = layer_work(layer, Workload(batch_size=1, seq_len=16))
    long = layer_work(layer, Workload(batch_size=1, seq_len=512))
    assert long.flops == 32 * short.flops
    assert (
        layer_work(Layer("Conv2d", 1000), Workload(batch_size=1)).flops
        > layer_work(layer, Workload(batch_size=1)).flops
    )


def test_a_layer_with_children_counts_once() -> None:
    tree = Layer("Block", 5, None, (Layer("Linear", 10, (3,)), Layer("Sequential", 0, None, (Layer("ReLU", 0),))))
    assert [(leaf.type, leaf.params) for leaf in leaves(tree)] == [("Block", 5), ("Linear", 10), ("ReLU", 0)]


def test_small_work_is_bound_by_the_host_and_large_work_fills_the_gpu() -> None:
    small, large = raw(mlp(64)), raw(mlp(8192), batch_size=16384)
    assert small.busy < 0.5 and small.smact < 0.01
    assert large.busy == 1.0 and large.smact > 0.9
    assert large.seconds > 10 * small.seconds and large.turn_us > 10 * small.turn_us


@pytest.mark.parametrize(
    ("precision", "width", "launches"),
    [("fp32", 4, (3, 2, 12.25)), ("amp", 2, (5, 2, 12.25))],  # with amp two more casts, for matrices
)
def test_the_account_of_a_step(precision: str, width: int, launches: tuple[float, ...]) -> None:
    batch, features = 4096, 4096
    weights, outputs = features * features, batch * features
    found = raw(mlp(features, 1), batch_size=batch, precision=precision)
    chip = CHIPS["h200"]
    matrix_rate = chip.tensor_flops if precision == "amp" else chip.fp32_flops
    # Of the matrix, of the activation, of Adam's step: operations, their rate, bytes moved, elements of a launch.
    work = [
        (6 * batch * weights, matrix_rate, 3 * width * (2 * outputs + weights), outputs),
        (12 * outputs, chip.fp32_flops, 6 * width * outputs, outputs),
        (10 * weights, chip.fp32_flops, 28 * weights, weights / 12.25),
    ]
    spent = [max(ops / (rate / 2), moved / (chip.bytes_per_s / 2)) for ops, rate, moved, _ in work]
    assert (
        min(one / count for one, count in zip(spent, launches, strict=True)) > KERNEL_S and sum(spent) > 18 * LAUNCH_S
    )
    threads = [elements / 8 for *_, elements in work]
    filled = sum(one * min(1.0, each / chip.threads) for one, each in zip(spent, threads, strict=True))
    assert found.seconds == pytest.approx(sum(spent))
    assert (found.busy, found.launches) == (1.0, sum(launches))
    assert found.smact == pytest.approx(filled / sum(spent))
    assert found.dram == pytest.approx(sum(moved for *_, moved, _ in work) / chip.bytes_per_s / sum(spent))
    assert found.tensor == pytest.approx(work[0][0] / matrix_rate / sum(spent) if precision == "amp" else 0.0)
    assert found.threads == pytest.approx(sum(map(math.prod, zip(spent, threads, strict=True))) / sum(spent))
    turns = sum(one * one / count for one, count in zip(spent, launches, strict=True)) / sum(spent)
    assert found.turn_us == pytest.approx(1e6 * turns)
    assert found.mean_us == pytest.approx(1e6 * sum(spent) / sum(launches))
    assert found.blocking_us == pytest.approx(1e6 * filled / sum(launches))


def test_the_least_that_kernels_and_the_host_take() -> None:
    found = raw(ModelSummary("module", Layer("ReLU", 0, (1,)), None, 0), batch_size=1, kind="infer")
    assert found.seconds == LAUNCH_S
    assert (found.busy, found.launches, found.threads) == (pytest.approx(KERNEL_S / LAUNCH_S), 1.0, 32.0)
    assert (found.mean_us, found.turn_us) == (pytest.approx(1e6 * KERNEL_S),) * 2


def test_bandwidth_and_tensor_cores() -> None:
    fp32 = raw(mlp(4096), batch_size=4096)
    amp = raw(mlp(4096), batch_size=4096, precision="amp")
    assert fp32.tensor == 0.0 < amp.tensor <= 1.0
    assert amp.seconds < fp32.seconds
    assert raw(mlp(4096), optimizer="adam").dram > 0.1


def test_estimated_profiles_are_profiles() -> None:
    found = estimate_profile(mlp(1024), Workload(batch_size=256), "H200", memory_mib=900.0, correction={})
    assert found.origin == "estimated" and found.memory_mib == 900.0
    assert 0.0 < found.smact <= 1.0 and found.throughput > 0.0
    assert math.isnan(found.power_w)
    larger = estimate_profile(mlp(1024), Workload(batch_size=16384), "h200", correction={})
    assert larger.smact > found.smact


def test_corrections_shift_logarithms() -> None:
    it = raw(mlp(1024))
    found = corrected(it, {"smact": (0.5, math.log(2.0))})
    assert found["smact"] == pytest.approx(2.0 * math.sqrt(it.smact))
    assert found["dram"] == pytest.approx(it.dram)


def test_unknown_gpus_are_named() -> None:
    assert chip_of("A100-40GB") is CHIPS["a100-40gb"]
    assert chip_of("NVIDIA H100 80GB HBM3") is chip_of("h100") is chip_of("h100-80gb-hbm3")
    with pytest.raises(ProfileError, match="'tpu' is not known; known are h200"):
        chip_of("tpu")


def test_each_gpu_whose_memory_is_known_is_known_here_too() -> None:
    assert [gpu.name for gpu in GPUS] == list(CHIPS)
    assert all(chip_of(gpu.name).tensor_flops > chip_of(gpu.name).fp32_flops for gpu in GPUS)


def test_an_empty_summary_still_makes_a_profile() -> None:
    empty = ModelSummary("module", Layer("Model", 0), None, 0)
    assert 0.0 < estimate_profile(empty, Workload(batch_size=1, kind="infer"), "h200", correction={}).busy <= 1.0


def same(one: Profile, other: Profile) -> bool:
    return dumps(one) == dumps(other)


def test_profiles_survive_the_disk(tmp_path: Path) -> None:
    it = dataclasses.replace(profile("bert"), power_w=math.nan, origin="estimated")
    shapes = (Shape(10.0, 128.0, 32.0, math.nan, 3.0, 2.5), Shape(1.0, 64.0, 8.0, 0.0, 1.0, 1.0))
    it = dataclasses.replace(it, kernel=dataclasses.replace(it.kernel, shapes=shapes))
    path = tmp_path / "bert.json"
    path.write_text(dumps(it), encoding="utf-8")
    assert same(load(path), it)
    assert "NaN" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "x"}, "profile it again"),
        ({"smact": 1.5}, "smact is 1.5"),
        ({"smact": None}, "smact is nan"),
        ({"dram": "much"}, "dram is 'much'"),
        ({"dram": True}, "dram is True"),
        ({"throughput": -1}, "throughput is -1"),
        ({"throughput": 10**400}, r"a\.json: not a profile"),
        ({"busy": 1e300}, "busy is 1e\\+300"),
        ({"busy": -0.5}, "busy is -0.5"),
        ({"kernel": []}, "not a profile"),
        ({"kernel": {"shapes": 3}}, "not a profile"),
        ({"kernel": {"shapes": [{"grid": 1}]}}, "not a profile"),
        ({"kernel": {"shapes": [dict.fromkeys(Shape._fields, "x")]}}, "grid is 'x'"),
        ({"origin": "dreamt"}, "origin 'dreamt'"),
    ],
)
def test_wrong_profiles_are_refused(change: dict[str, object], says: str) -> None:
    content = {**json.loads(dumps(profile("a"))), **change}
    with pytest.raises(ProfileError, match=says):
        loads(json.dumps(content), "a.json")


def test_files_that_are_no_profiles(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(ProfileError, match=r"p\.json: not a profile"):
        load(path)
    path.write_bytes(b" " * 70_000)
    with pytest.raises(ProfileError, match="longer than 64 KiB: no profile"):
        load(path)
    path.write_bytes(b"[" * 60_000)
    with pytest.raises(ProfileError, match=r"p\.json: not a profile"):
        load(path)
    path.write_bytes(b"\xff")
    with pytest.raises(ProfileError, match="cannot be read"):
        load(path)
    with pytest.raises(ProfileError, match="cannot be read"):
        load(tmp_path / "absent.json")
