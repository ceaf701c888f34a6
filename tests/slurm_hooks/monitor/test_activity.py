"""The micro-benchmark of activity, on a GPU that only reckons."""

from __future__ import annotations

import sys

import pytest

from predictor.counters import Counters
from scripts.bench import activity
from scripts.bench.activity import Shape, expected, launches, main, measure, show

H200 = Shape(132, 2048, 1024)


class Reckoning:
    """A GPU and its counters that do what the launch says."""

    shape = H200

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.launch = (0, 0)

    def spin(self, blocks: int, threads: int, seconds: float) -> None:
        assert seconds == pytest.approx(1.0 + 2 * activity.SETTLE_S)
        self.launch = (blocks, threads)
        self.steps.append("spin")

    def wait(self) -> None:
        self.steps.append("wait")

    def start(self) -> None:
        self.steps.append("start")

    def stop(self) -> Counters:
        self.steps.append("stop")
        smact, smocc = expected(self.shape, *self.launch)
        return Counters(busy=1.0, smact=smact, smocc=smocc)


def test_blocks_grow_then_threads_then_both() -> None:
    assert launches(H200) == [
        *((blocks, 32) for blocks in (1, 16, 33, 66, 99, 132)),
        *((132, threads) for threads in (128, 256, 512, 1024)),
        (264, 1024),
    ]
    assert launches(Shape(1, 1024, 32)) == [(1, 32), (32, 32)]


@pytest.mark.parametrize(
    ("launch", "smact", "smocc"),
    [((1, 32), 1 / 132, 1 / 8448), ((132, 33), 1.0, 264 / 8448), ((264, 1024), 1.0, 1.0), ((999, 1024), 1.0, 1.0)],
)
def test_what_follows_from_a_launch(launch: tuple[int, int], smact: float, smocc: float) -> None:
    assert expected(H200, *launch) == pytest.approx((smact, smocc))


def test_windows_lie_within_the_kernels() -> None:
    gpu, pauses = Reckoning(), list[float]()
    rows = measure(gpu, gpu, 1.0, pauses.append)
    assert gpu.steps == ["spin", "start", "stop", "wait"] * len(rows)
    assert pauses == [activity.SETTLE_S, 1.0] * len(rows)
    assert all((row.smact, row.smocc) == (row.smact_expected, row.smocc_expected) for row in rows)
    assert show(rows).splitlines()[2] == "       16       32    100.0     12.1     12.1      0.2      0.2"


def test_a_machine_without_a_gpu_is_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert main([]) == 1
    assert "error: NVML's Python binding is missing" in capsys.readouterr().err
