from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from predictor.trace import Gpu, kernel_metrics, kernel_shapes, read_trace
from predictor.types import ProfileError


def kernel(duration: float, grid: int = 10, block: int = 128, registers: int = 32, shared: int = 0) -> dict[str, Any]:
    args = {
        "grid": [grid, 1, 1],
        "block": [block, 1, 1],
        "registers per thread": registers,
        "shared memory": shared,
    }
    return {"cat": "kernel", "dur": duration, "args": args, "name": "k"}


def write(path: Path, events: list[Any]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return path


def test_metrics_are_weighted_by_duration(tmp_path: Path) -> None:
    events = [kernel(1.0, grid=1), kernel(3.0, grid=5, registers=64, shared=100), {"cat": "cpu_op", "dur": 9}, "x"]
    found = kernel_metrics(read_trace(write(tmp_path / "t.json", events)))
    assert found["launches"] == 2 and found["busy_us"] == 4.0 and found["mean_us"] == 2.0
    assert found["turn_us"] == pytest.approx((1 + 9) / 4)
    assert found["threads"] == pytest.approx((128 + 3 * 640) / 4)
    assert found["registers"] == pytest.approx((128 * 32 + 3 * 640 * 64) / 4)
    assert found["static_shared_bytes"] == pytest.approx(75.0)
    assert found["long_ratio"] == 0.0


def test_launches_of_one_shape_are_one_group(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "t.json", [kernel(2.0), kernel(4.0), kernel(50.0, grid=7, shared=9)]))
    assert kernel_shapes(trace.kernels) == ((7.0, 128.0, 32.0, 9.0, 1.0, 50.0), (10.0, 128.0, 32.0, 0.0, 2.0, 3.0))


def test_a_launch_blocks_as_far_as_it_fills_the_gpu(tmp_path: Path) -> None:
    # 132 SMs; 32 registers and 128 threads: 16 blocks an SM at once by their threads.
    assert Gpu().waves(132 * 16, 128, 32, math.nan) == 1.0
    assert Gpu().waves(132 * 16 * 3, 128, 32, 0.0) == 3.0
    assert Gpu().waves(132, 256, 255, 0.0) == 1.0, "one block's registers are all that fit"
    assert Gpu().waves(132 * 2, 64, 32, 100_000.0) == 1.0, "two blocks an SM by their shared memory"
    assert Gpu().waves(132, 1024, 255, 300_000.0) == 1.0, "what does not fit at all still runs, one by one"
    events = [kernel(30.0, grid=132 * 16), kernel(10.0, grid=132 * 16 * 4), {"cat": "kernel", "dur": 5.0, "args": {}}]
    found = kernel_metrics(read_trace(write(tmp_path / "t.json", events)))
    assert found["blocking_us"] == pytest.approx((30.0 / 2 + 10.0 * 0.8) / 2)
    assert math.isnan(kernel_metrics(read_trace(write(tmp_path / "t.json", events[2:])))["blocking_us"])


# As PyTorch's profiler writes it.
T4 = {
    "id": 1,
    "name": "Tesla T4",
    "computeMajor": 7,
    "computeMinor": 5,
    "maxThreadsPerMultiprocessor": 1024,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 65536,
    "numSms": 40,
}


def _traced(path: Path, devices: Any) -> Gpu:
    launch = kernel(1.0)
    launch["args"]["device"] = 1
    path.write_text(json.dumps({"traceEvents": [launch], "deviceProperties": devices}), encoding="utf-8")
    return read_trace(path).gpu


def test_the_gpu_is_that_of_the_trace(tmp_path: Path) -> None:
    gpu = _traced(tmp_path / "t.json", [{"id": 0}, T4])
    assert gpu == Gpu(sms=40, threads=1024, blocks=16, shared_bytes=65536, reserved_bytes=0)
    assert gpu.waves(40 * 8, 128, 32, 0.0) == 1.0, "by their threads"
    assert gpu.waves(40 * 16, 32, 32, 0.0) == 1.0, "no more than 16 blocks an SM"
    assert gpu.waves(40 * 2, 32, 32, 32768.0) == 1.0, "all of an SM's shared memory"
    a100 = {**T4, "computeMajor": 8, "computeMinor": 0, "maxThreadsPerMultiprocessor": 2048, "numSms": 108}
    assert _traced(tmp_path / "t.json", [{**a100, "sharedMemPerMultiprocessor": 167936}]) == Gpu(
        sms=108, shared_bytes=167936
    )


@pytest.mark.parametrize(
    "devices",
    [None, [], 3, [3], [{"id": 1}], [{**T4, "id": 0}], [{**T4, "numSms": 0}], [{**T4, "numSms": "x"}], {"id": 1}],
)
def test_without_its_properties_it_is_taken_for_a_hopper(tmp_path: Path, devices: Any) -> None:
    assert _traced(tmp_path / "t.json", devices) == Gpu()


def test_long_kernels_are_those_over_a_millisecond(tmp_path: Path) -> None:
    found = kernel_metrics(read_trace(write(tmp_path / "t.json", [kernel(1500.0), kernel(10.0), kernel(10.0)])))
    assert found["long_ratio"] == 0.5


def test_a_kernel_without_a_grid_is_left_out_of_the_mean(tmp_path: Path) -> None:
    events = [kernel(1.0, grid=2), {"cat": "kernel", "dur": 5.0, "args": {}}]
    assert kernel_metrics(read_trace(write(tmp_path / "t.json", events)))["threads"] == 256


def test_no_kernel(tmp_path: Path) -> None:
    assert kernel_metrics(read_trace(write(tmp_path / "t.json", []))) == {"launches": 0.0, "busy_us": 0.0}


@pytest.mark.parametrize(
    "text", ["", "[" * 99_999, "[]", "{}", '{"traceEvents": 3}', '{"traceEvents": [{"cat": "kernel"}]}']
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError, match="not a profiler trace"):
        kernel_metrics(read_trace(path))


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="not a profiler trace"):
        kernel_metrics(read_trace(tmp_path / "absent.json"))
