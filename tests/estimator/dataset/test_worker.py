"""A worker measures what it is handed; rehearsed on the CPU with a pipe that answers at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from estimator.dataset import worker as workers
from estimator.dataset.feeds import Fed, feed
from estimator.dataset.measure import Cpu, Cuda, Measured, measure
from estimator.dataset.models import build_model
from estimator.dataset.specs import LIMIT_MIB, Spec, generate_synthetic, spec_from_json
from estimator.dataset.worker import Worker, extrapolate, too_slow

MLP = {
    "shape": "uniform",
    "inp": 16,
    "width": 16,
    "out": 4,
    "depth": 1,
    "act": "ReLU",
    "bn": False,
    "drop": 0.0,
    "softmax": False,
}
SPEC = Spec("synthetic", "mlp", "uniform", "mlp:x", MLP, 4, None, "adam", "fp32", "train")


def spec(**changes: Any) -> Spec:
    return spec_from_json({**SPEC.to_json(), **changes})


class Answers:
    """A pipe whose other end hands out bundles and grants everything."""

    def __init__(self, *given: list[Spec]) -> None:
        self._given = [[item.to_json() for item in bundle] for bundle in given]
        self.messages: list[tuple[Any, ...]] = []

    def send(self, obj: Any, /) -> None:
        self.messages.append(obj)

    def recv(self) -> Any:
        if self.messages[-1][0] == "claim":
            return "granted"
        return self._given.pop(0) if self._given else None

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [message[1:] for message in self.messages if message[0] == kind]


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "sgd_momentum", "rmsprop"])
def test_optimizer_state_is_part_of_the_peak(optimizer: str) -> None:
    wide = {**MLP, "width": 1024, "inp": 1024, "depth": 2}
    pipe = Answers([spec(arch=wide, optimizer=optimizer)])
    Worker(pipe, Cpu()).run()
    row = pipe.of("row")[0][0]
    weights = (1024 * 1024 * 2 + 2048 + 4 * 1024 + 4) * 4 / 2**20
    copies = {"adam": 4, "adamw": 4, "sgd": 2, "sgd_momentum": 3, "rmsprop": 3}[optimizer]
    assert row["status"] == "ok"
    assert copies * weights <= row["peak_allocated_mib"] < (copies + 1.5) * weights


def test_a_worker_that_cannot_give_memory_back_says_so() -> None:
    class Holding(Cpu):
        def left(self) -> float:
            return 1028.0 if len(pipe.of("row")) > 1 else 20.0

    pipe = Answers([SPEC], [spec(batch_size=8)])
    Worker(pipe, Holding()).run()
    assert pipe.of("next") == [(0.0,), (0.0,), (1028.0,)]
    assert [row["before_reserved_mib"] for (row,) in pipe.of("row")] == [20.0, 20.0]


@pytest.mark.parametrize(("precision", "kind"), [("amp", "train"), ("bf16", "train"), ("fp32", "infer")])
def test_precisions_and_kinds_run(precision: str, kind: str) -> None:
    pipe = Answers([spec(precision=precision, kind=kind)])
    Worker(pipe, Cpu()).run()
    assert pipe.of("failed") == []
    assert pipe.of("row")[0][0]["steps"] >= 2


@pytest.mark.parametrize("family", ["cnn", "transformer"])
def test_other_families_run(family: Any) -> None:
    base = next(generate_synthetic(family, 1, 0))
    small: dict[str, Any] = {"size": 32, "base": 16, "depth": 2, "classes": 10, "k": 3, "every": 0}
    if family == "transformer":
        small = {"vocab": 50, "width": 16, "ff": 32, "heads": 2, "depth": 1, "seq": 8, "lm": True}
    made = spec_from_json({**base.to_json(), "arch": {**base.arch, **small}, "batch_size": 2, "precision": "fp32"})
    pipe = Answers([made])
    Worker(pipe, Cpu()).run()
    assert pipe.of("failed") == []
    assert len(pipe.of("row")) == 1


def test_a_model_that_cannot_run_is_reported_with_its_place_and_others_go_on() -> None:
    norm = {**MLP, "bn": True}
    pipe = Answers([spec(arch=norm, batch_size=1)], [SPEC])
    Worker(pipe, Cpu()).run()
    (identity, why) = pipe.of("failed")[0]
    assert identity == spec(arch=norm, batch_size=1).id
    assert "more than 1 value per channel" in why
    assert "functional.py" in why
    assert len(pipe.of("row")) == 1


def test_an_unknown_library_fails_all_workloads_of_the_model() -> None:
    real = spec(source="timm", name="resnet26d", group="resnet", arch={"size": 224, "classes": 10})
    pipe = Answers([real, spec_from_json({**real.to_json(), "batch_size": 8})])
    Worker(pipe, Cpu()).run()
    assert len(pipe.of("failed")) == 2
    assert "timm" in pipe.of("failed")[0][1]


def test_counters_are_taken_while_steps_go_on() -> None:
    pipe = Answers([SPEC])
    Worker(pipe, Cpu(), seconds=0.01).run()
    activity = pipe.of("row")[0][0]["activity"]
    assert activity["steps_per_s"] > 0
    assert activity["smact"] is None


class Net(torch.nn.Module):
    """A real model's stand-in: a convolution and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.head = torch.nn.Linear(4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.conv(x).mean((2, 3)))


def _real(**changes: Any) -> Spec:
    base = {"source": "torchvision", "name": "alexnet", "group": "alexnet", "family": "cnn"}
    return spec(**{**base, "arch": {"size": 16, "classes": 10}, **changes})


def test_a_real_model_is_built_once_and_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build(made: Spec) -> Net:
        built.append(made.name)
        return Net()

    monkeypatch.setattr(workers, "build_model", build)
    jobs = [_real(batch_size=2), _real(batch_size=4), _real(batch_size=2, precision="bf16")]
    pipe = Answers(jobs)
    Worker(pipe, Cpu()).run()
    assert built == ["alexnet"]
    assert len(pipe.of("row")) == 3
    (model, trace) = pipe.of("trace")[0]
    assert model == jobs[0].model_id
    assert trace["root"][1] == "Net"
    assert [list(shape) for shape in trace["calls"][1][2:]] == [["B", 3, 16, 16], ["B", 4, 16, 16]]


def test_a_model_that_cannot_be_built_on_the_device_is_built_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def build(_: Spec) -> Net:
        tries.append(1)
        if len(tries) == 1:
            raise TypeError("needs numpy")
        return Net()

    monkeypatch.setattr(workers, "build_model", build)
    pipe = Answers([_real(batch_size=2)])
    Worker(pipe, Cpu()).run()
    assert len(tries) == 2
    assert len(pipe.of("row")) == 1


def test_out_of_memory_counts_only_after_a_try_with_the_whole_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "measure", lambda *_, **__: Measured("oom", 1.0, 2.0, 1, 0.0))
    pipe = Answers([SPEC])
    Worker(pipe, Cpu()).run()
    assert [claim[1] >= LIMIT_MIB for claim in pipe.of("claim")] == [False, True, True]
    assert pipe.of("row")[0][0]["status"] == "oom"


def test_out_of_memory_while_building_is_tried_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(_: Spec) -> Net:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(workers, "build_model", build)
    pipe = Answers([SPEC])
    Worker(pipe, Cpu()).run()
    assert len(pipe.of("claim")) == 2
    assert pipe.of("failed")[0][1].startswith("OutOfMemoryError: full")


@pytest.mark.parametrize(("held", "rows"), [(10.0, 1), (900.0, 0)])
def test_nothing_is_measured_beside_what_failed_and_is_still_held(
    monkeypatch: pytest.MonkeyPatch, held: float, rows: int
) -> None:
    def fail_first(given: Spec, *_: Any, **__: Any) -> Measured:
        if given.batch_size == 4:
            raise RuntimeError("no")
        return Measured("ok", 1.0, 2.0, 2, 0.0)

    class Holding(Cpu):
        def allocated(self) -> float:
            return held if pipe.of("failed") else 0.0

    monkeypatch.setattr(workers, "measure", fail_first)
    pipe = Answers([SPEC, spec(batch_size=8)])
    Worker(pipe, Holding()).run()
    assert len(pipe.of("row")) == rows
    assert [why.split(":")[0] for _, why in pipe.of("failed")] == ["RuntimeError"] * (2 - rows)


def test_running_out_of_memory_is_a_measurement() -> None:
    def explode(out: Any, batch: int) -> torch.Tensor:
        raise torch.OutOfMemoryError("full")

    fed = feed(SPEC, build_model(SPEC))
    found = measure(SPEC, Fed(fed.model, fed.inputs, explode), Cpu())
    assert (found.status, found.steps) == ("oom", 1)


def test_extrapolation_looks_at_the_same_precision_and_kind() -> None:
    small = Measured("ok", 900.0, 1000.0, 3, 0.1)
    assert extrapolate(_real(batch_size=8), [(_real(batch_size=4), small)]) == pytest.approx(2900)
    assert extrapolate(_real(batch_size=8, precision="bf16"), [(_real(batch_size=4), small)]) == 0
    longer = extrapolate(_real(batch_size=4, seq_len=64), [(_real(batch_size=4, seq_len=32), small)])
    assert longer == pytest.approx(4 * 1200 + 500)
    out = Measured("oom", 1.0, 1.0, 1, 0.0)
    assert extrapolate(_real(batch_size=8), [(_real(batch_size=4), out)]) == 2 * LIMIT_MIB
    assert extrapolate(_real(batch_size=2), [(_real(batch_size=4), out)]) == 0


def test_slow_workloads_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Measured("ok", 1.0, 1.0, 3, 2.0)
    assert too_slow(_real(batch_size=8), [(_real(batch_size=4), slow)])
    assert not too_slow(_real(batch_size=4), [(_real(batch_size=4), slow)])
    monkeypatch.setattr(workers, "build_model", lambda _: Net())
    monkeypatch.setattr(workers, "measure", lambda *_, **__: slow)
    pipe = Answers([_real(batch_size=4), _real(batch_size=64)])
    Worker(pipe, Cpu()).run()
    assert pipe.of("failed") == [(_real(batch_size=64).id, "left out: would take too long or too much")]


def test_a_lost_context_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []
    monkeypatch.setattr("os._exit", ends.append)

    def build(_: Spec) -> Net:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(workers, "build_model", build)
    Worker(Answers([SPEC]), Cpu()).run()
    assert ends == [3]


def test_the_gpu_is_limited_and_its_caches_are_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Properties:
        total_memory = 160 * 2**30

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", calls.append)
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda name=name: calls.append(name))
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: calls.append("cublas"), raising=False)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 2**20)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 2**21)
    device = Cuda()
    device.clean()
    device.finish()
    with device.context():
        assert device.peaks() == (1.0, 2.0)
    assert calls == [0.5, "synchronize", "cublas", "empty_cache", "reset_peak_memory_stats", "synchronize"]
