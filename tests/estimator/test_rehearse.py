"""A model's own code is rehearsed: what functions keep is counted, as a GPU's kernels keep it."""

from __future__ import annotations

import copy
import re
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import functional

from estimator.faketensor import fake_beside, fake_mode, fake_model, own_inputs, plain_inputs, unseen_values
from estimator.methods.rad import Rad
from estimator.methods.rad.convolutions import DRAWS, Convolves, Workspace
from estimator.methods.rad.program import Conv, Extents, Three
from estimator.methods.rad.recurrences import Recurrence
from estimator.parsers import parse_summary
from estimator.rehearsals.as_on_a_gpu import as_on_a_gpu
from estimator.rehearsals.lines import OPTIMIZERS, PRECISIONS
from estimator.rehearsals.recorder import GONE, Recorder
from estimator.rehearsals.rehearse import Subject, beside_mib, followed, points_of, rehearse
from estimator.summarize import summary_of, table_of
from estimator.types import Optimizer, Point, Precision, Workload
from slurm_hooks.radctl.main import cli

MIB = 2**20
CUBLAS = 32 * MIB  # its workspace
NO_WORK = Workspace((0.0,), (0.0,), (0.0,))


@dataclass
class Out:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


class Gate(nn.Module):
    """Keeps in functions what no layer shows."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.line = nn.Linear(256, 256)
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.line(x)
        for _ in range(self.steps):
            x = x * torch.exp(x)
        return x


Run = tuple[Optimizer | None, Precision]


def points(
    model: nn.Module,
    shape: tuple[int, ...],
    batches: tuple[int, ...] = (32,),
    convolution: Convolves = lambda *_: NO_WORK,
) -> dict[Run, tuple[Point, ...]]:
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    subject = Subject(fake_model(lambda: model, fake), fake, plain_inputs(shape, None), convolution)
    return {(run.optimizer, run.precision): run.points for run in rehearse(subject, batches).runs}


Works = Callable[[Callable[[Recurrence], int]], None]


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Works:
    """Set what cuDNN works with in the forward pass of recurrent layers; nothing in the backward pass."""

    def put(count: Callable[[Recurrence], int]) -> None:
        def of(one: Recurrence, *, backward: bool = False) -> int:
            return 0 if backward else count(one)

        monkeypatch.setattr("estimator.rehearsals.recurrent.workspace_bytes", of)

    return put


class Last(nn.Module):
    """Takes a recurrent layer's series."""

    def forward(self, x: tuple[torch.Tensor, Any]) -> torch.Tensor:
        return x[0]


def sizes(model: nn.Module, shape: tuple[int, ...]) -> dict[Run, float]:
    """The most that tensors take at batch 32."""
    return {run: point.used_mib for run, (point,) in points(model, shape).items()}


def used(
    model: nn.Module, shape: tuple[int, ...], optimizer: Optimizer | None = "sgd", precision: Precision = "fp32"
) -> float:
    """The most that tensors take at batch 32; without an optimizer in an inference."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    subject = Subject(fake_model(lambda: model, fake), fake, plain_inputs(shape, None), lambda *_: NO_WORK)
    if optimizer is None:
        return points_of(subject, "infer", precision, 32)[None].used_mib
    return points_of(subject, "train", precision, 32, (optimizer,))[optimizer].used_mib


def test_what_functions_keep_grows_the_training_alone() -> None:
    few, many = (points(Gate(steps), (1024, 256), (16, 32)) for steps in (1, 9))
    each = 32 * 1024 * 256 * 4 / MIB
    half, whole = (point.used_mib for point in many["sgd", "fp32"])
    more = whole - few["sgd", "fp32"][1].used_mib
    assert 8 * 2 * each == pytest.approx(more, rel=0.1)  # a factor and the exponential of each
    assert many[None, "fp32"] == few[None, "fp32"]
    library = 2 * CUBLAS / MIB  # of the loop and of the backward pass
    assert whole - library == pytest.approx(2 * (half - library), rel=0.05)
    assert many["sgd", "bf16"][1].used_mib == pytest.approx(whole / 2, rel=0.15)


def test_attention_and_dropout_keep_what_they_do_on_a_gpu() -> None:
    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.line(x).unsqueeze(1)
            x = functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)
            return functional.dropout(x, 0.1, self.training)

    found = used(Attends(), (2048, 64))
    matrix = 32 * 2048 * 2048 * 4 / MIB
    assert found < matrix / 2


def test_dropout_keeps_a_byte_for_each_number() -> None:
    class Drops(nn.Module):
        def __init__(self, *, drops: bool) -> None:
            super().__init__()
            self.line = nn.Linear(256, 256)
            self.drops = drops

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.line(x)
            for _ in range(4):
                x = functional.dropout(x, 0.1, self.training) if self.drops else x * 1.0
            return x.sum(1)

    dropping, plain = (used(Drops(drops=drops), (1024, 256)) for drops in (True, False))
    assert dropping - plain == pytest.approx(4 * 32 * 1024 * 256 / MIB, rel=0.05)


def test_code_that_makes_numbers_in_fp32_is_not_rehearsed_in_bf16() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Conv1d(4, 8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.kernel(x.float() + torch.ones(8))

    assert {precision for _, precision in sizes(Mixed(), (4, 8))} == {"fp32", "amp"}
    missing = [line for line in table_of(Mixed, plain_inputs((4, 8), None), 4).splitlines() if "not rehearsed" in line]
    assert [line.split(": ")[0] for line in missing] == [
        "training in bf16 not rehearsed",
        "inference in bf16 not rehearsed",
    ]


def test_of_what_cannot_run_the_first_reason_is_told() -> None:
    class Fails(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype == torch.bfloat16:
                raise ValueError("in bf16")
            raise LookupError("in fp32")

    with pytest.raises(LookupError, match="in fp32"):
        points(Fails(8, 8), (8,))


def test_a_batch_size_that_cannot_train_costs_no_other() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))  # which takes no single sample
    found = points(model, (8,), (1, 2))
    assert [point.batch for point in found["sgd", "fp32"]] == [2]
    assert [point.batch for point in found[None, "fp32"]] == [1, 2]


def test_code_in_inference_mode_is_followed_as_a_gpu_runs_it() -> None:
    class Attends(nn.Module):
        """Heads that are 15 wide no kernel of a GPU fuses in fp32, while the CPU's does."""

        def __init__(self, without: Any) -> None:
            super().__init__()
            self.line = nn.Linear(60, 60)
            self.without = without

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            heads = x.unflatten(-1, (4, 15)).transpose(1, 2)
            with self.without():
                assert not torch.is_grad_enabled()
                other = functional.scaled_dot_product_attention(heads, heads, heads)
                with torch.inference_mode(False):
                    assert not other.is_inference()
            assert torch.is_grad_enabled() == self.training
            return self.line(x + other.transpose(1, 2).flatten(2))

    before = torch.inference_mode.__enter__
    infers, none = (sizes(Attends(without), (512, 60)) for without in (torch.inference_mode, torch.no_grad))
    assert infers == none
    assert infers["sgd", "fp32"] > 32 * 4 * 512 * 512 * 4 / MIB, "there is a matrix"
    assert torch.inference_mode.__enter__ is before


def test_an_rms_norm_keeps_its_input_alone() -> None:
    def norms(count: int, **more: Any) -> float:
        layers = [nn.Linear(256, 256), *(nn.RMSNorm(256, **more) for _ in range(count))]
        return used(nn.Sequential(*layers), (1024, 256))

    each = 32 * 1024 * (256 + 1) * 4 / MIB
    assert norms(9) - norms(1) == pytest.approx(8 * each, rel=0.02)
    assert norms(9, elementwise_affine=False) - norms(1, elementwise_affine=False) == pytest.approx(8 * each, rel=0.02)


def test_an_rms_norm_of_two_types_works_step_by_step() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.scale = nn.Linear(256, 256), nn.Parameter(torch.ones(256))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.rms_norm(self.line(x), (256,), self.scale.float())

    whole, mixed = (used(Mixed(), (1024, 256), "sgd", precision) for precision in ("fp32", "bf16"))
    assert mixed > whole, "it keeps two numbers in fp32 for each that comes in"


def test_torch_is_as_before_where_the_code_raises() -> None:
    class Raises(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.line(x).dtype != torch.float32:
                raise ValueError("not in half precision")
            return self.line(x)

    def state() -> tuple[Any, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            autocast = functional.layer_norm(torch.ones(2, 4, dtype=torch.bfloat16), (4,)).dtype
        x = torch.ones(1, 1, 2, 4, requires_grad=True)
        drops = functional.dropout(x, 0.5).grad_fn.name()
        attends = functional.scaled_dot_product_attention(x, x, x).grad_fn.name()
        hears = nn.LSTM(4, 4)(x[0])[0].grad_fn.name()
        return drops, attends, hears, autocast, torch.is_autocast_enabled("cpu"), torch.is_grad_enabled()

    before = state()
    assert {precision for _, precision in sizes(Raises(), (8,))} == {"fp32"}
    assert state() == before


def test_a_model_that_was_built_in_bf16_is_rehearsed_in_fp32_too() -> None:
    built, whole = (sizes(nn.Linear(2048, 2048, dtype=kind), (64, 2048)) for kind in (torch.bfloat16, torch.float32))
    assert built == whole


def test_a_number_that_code_writes_down_is_cast_as_all_weights_are() -> None:
    class Scaled(nn.Linear):
        def __init__(self) -> None:
            super().__init__(512, 512)
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.scale.exp()

    fake = FakeTensorMode()
    subject = Subject(fake_model(Scaled, fake), fake, plain_inputs((64, 512), None), lambda *_: NO_WORK)
    used = {(run.optimizer, run.precision): run.points[0].used_mib for run in rehearse(subject, (32,)).runs}
    assert used["adam", "bf16"] < used["adam", "fp32"]


def test_what_is_not_fused_keeps_its_matrix() -> None:
    class Attends(nn.Module):
        def __init__(self, heads: int, *, flat: bool = False) -> None:
            super().__init__()
            self.line = nn.Linear(64, 64)
            self.heads, self.flat = heads, flat

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.line(x)
            if self.flat:
                return functional.scaled_dot_product_attention(x, x, x)
            x = x.unflatten(-1, (4, 16)).transpose(1, 2)
            few = x[:, : self.heads]
            whole = x.to(self.line.weight.dtype)
            x = functional.scaled_dot_product_attention(whole, few, few, enable_gqa=self.heads != 4)
            assert x.dtype == few.dtype, "autocast casts what comes in"
            return x

    matrix = 32 * 1024 * 1024 * 4 / MIB  # of one head
    fused, shared, flat = (sizes(model, (1024, 64)) for model in (Attends(4), Attends(2), Attends(4, flat=True)))
    assert ("sgd", "amp") in fused
    assert fused["sgd", "fp32"] < 1.4 * matrix < flat["sgd", "fp32"]
    assert shared["sgd", "fp32"] > 4 * matrix
    assert shared["sgd", "bf16"] < 1.1 * matrix  # flash attention knows keys that several heads share


class Hears(nn.Module):
    def __init__(self, kind: type[nn.Module], dropout: float = 0.0) -> None:
        super().__init__()
        self.start = nn.Linear(8, 64)
        self.layers = kind(8, 64, 2, batch_first=True, dropout=dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.tanh(self.start(x[:, 0])).expand(2, -1, -1)
        states = (start, start) if isinstance(self.layers, nn.LSTM) else start
        return self.layers(x, states)[0]


def test_recurrent_layers_keep_what_cudnn_keeps(works: Works) -> None:
    works(lambda _: 0)
    output = 32 * 512 * 64 * 4 / MIB
    for kind, kept in ((nn.LSTM, 11), (nn.GRU, 13), (nn.RNN, 3)):  # of two layers, in outputs
        found = sizes(Hears(kind), (512, 8))
        library = 2 * CUBLAS / MIB  # of the loop and of the backward pass
        training, autocast = (found["sgd", precision] - library for precision in ("fp32", "amp"))
        inference = found[None, "fp32"] - library / 2
        # the output comes twice, with that of the step before, and as many logarithms and gradients of it in the loss
        assert (kept + 2) * output < training < (kept + 7) * output
        assert output < inference < 4 * output
        assert autocast < 0.65 * training  # the logarithms are fp32
    # The encoder's states lead back to what made them.
    model = Hears(nn.LSTM)
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    made = fake_model(lambda: model, fake)
    with fake, as_on_a_gpu():
        made(torch.zeros(4, 512, 8)).sum().backward()
    assert all(parameter.grad is not None for parameter in made.parameters())


def test_recurrent_weights_are_put_together_in_half_precision(works: Works) -> None:
    works(lambda _: 1000 * MIB)
    found = points(nn.Sequential(nn.LSTM(1024, 1024), Last()), (1, 1024), (32,))
    weights = 2 * 4 * 1024 * 1025 * 4 / MIB  # in fp32 they lie together
    whole, half = (found[None, precision][0].used_mib - 1000 for precision in ("fp32", "bf16"))
    assert whole == pytest.approx(weights, rel=0.1)
    assert half == pytest.approx(2 * weights / 2, rel=0.1)


def test_recurrent_layers_have_their_workspace_while_they_run(works: Works) -> None:
    asked: list[Recurrence] = []

    def recurrence(one: Recurrence) -> int:
        asked.append(one)
        return 1000 * MIB

    works(recurrence)
    runs = points(Hears(nn.LSTM, 0.5), (512, 8), (2,))
    trains = Recurrence("lstm", 2, 1, 2, 512, 8, 64, "fp32", first=True, drops=True, trains=True)
    infers = trains._replace(drops=False, trains=False)
    halves = [one._replace(precision=half) for half in ("fp16", "bf16") for one in (trains, trains, infers, infers)]
    assert asked == [trains, trains, infers, infers, *halves]
    for run in ((None, "fp32"), ("sgd", "bf16")):
        (point,) = runs[run]
        assert 1000 < point.used_mib < 1200
    asked.clear()
    layer = nn.RNN(8, 64, bidirectional=True)
    layer.dropout = 0.5  # there is nothing behind the only layer to drop from
    points(nn.Sequential(layer, Last()), (4, 8), (2,))
    assert asked[0] == Recurrence("rnn", 1, 2, 4, 2, 8, 64, "fp32", first=False, drops=False, trains=True)


def test_weights_come_to_the_gpu_module_by_module_the_inner_ones_first(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[tuple[str, int]] = []

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.register_buffer("places", torch.ones(5))
            self.hears, self.says = nn.GRU(8, 16), nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.says(self.hears(x)[0]) * self.scale.sum() * self.places.sum()

    watches = Recorder.watch

    def watch(recorder: Recorder, tensor: torch.Tensor, room: int = 0) -> None:
        moved.append(("moved", tensor.numel()))
        watches(recorder, tensor, room)

    monkeypatch.setattr(Recorder, "watch", watch)
    monkeypatch.setattr(Recorder, "gather", lambda _, tensors: moved.append(("put together", len(tensors))))
    points(Own(), (4, 8), (2,))
    weights = [("moved", size) for size in (48 * 8, 48 * 16, 48, 48)]
    assert moved[:9] == [*weights, ("put together", 4), ("moved", 64), ("moved", 4), ("moved", 3), ("moved", 5)]


def test_recurrent_weights_move_into_one_piece_where_the_gpu_takes_their_type_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved: list[int] = []
    monkeypatch.setattr(Recorder, "gather", lambda _, tensors: moved.append(len(tensors)))
    points(nn.Sequential(nn.Linear(8, 8), nn.GRU(8, 16, 2), Last()), (4, 8))
    assert moved == [8] * (2 * 2)  # in fp32 and amp, trainings and inferences


def test_an_lstm_works_with_all_of_its_states_whatever_it_gives_out() -> None:
    whole, less = (used(nn.Sequential(nn.LSTM(64, 512, 2, proj_size=out), Last()), (512, 64)) for out in (0, 16))
    states = 32 * 512 * 512 * 4 / MIB
    assert whole - less == pytest.approx(5 * states, abs=1.5 * states)  # outputs, their gradients, the loss


def test_autocast_puts_recurrent_weights_together_as_it_casts_them(works: Works) -> None:
    works(lambda _: 1000 * MIB)
    found = points(nn.Sequential(nn.LSTM(2048, 2048), Last()), (1, 2048), (32,))
    weights = 2 * 4 * 2048 * 2049 * 4 / MIB
    whole, half = (found[None, precision][0].used_mib for precision in ("amp", "bf16"))
    assert whole - half == pytest.approx(weights / 2, rel=0.05)  # those in fp32, too


def test_layers_that_are_whole_kernels_multiply_too() -> None:
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    assert used(layer, (16, 32), None) > CUBLAS / MIB


def test_sparse_gradients_are_counted() -> None:
    class Words(nn.Module):
        def __init__(self, *, sparse: bool) -> None:
            super().__init__()
            self.words = nn.Embedding(100_000, 64, sparse=sparse)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.words((x * 0).long())

    dense, sparse = (used(Words(sparse=sparse), (8,)) for sparse in (False, True))
    assert dense - sparse == pytest.approx(100_000 * 64 * 4 / MIB, rel=0.1)


@pytest.mark.parametrize(("cell", "gates"), [(nn.LSTMCell, 4), (nn.GRUCell, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_cells_keep_their_products_and_gates(cell: type[nn.Module], gates: int, *, bias: bool) -> None:
    class Loops(nn.Module):
        def __init__(self, steps: int) -> None:
            super().__init__()
            self.cell = cell(64, 512, bias=bias)
            self.steps = steps

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = x.new_zeros(len(x), 512)
            both = (state, state)
            for _ in range(self.steps):
                both = self.cell(x, both) if cell is nn.LSTMCell else (self.cell(x, both[0]), state)
            return both[0]

    few, many = (used(Loops(steps), (64,)) for steps in (2, 18))
    # two products, what the kernel keeps (four or five states), and the states
    kept = 2 * gates + {4: 4 + 2, 3: 5 + 1}[gates]
    assert (many - few) / 16 == pytest.approx(kept * 32 * 512 * 4 / MIB, rel=0.1)


class Grows(nn.Module):
    """Trains more layers the larger a batch is."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for line in self.lines[: len(x) // 8]:
            x = line(x)
        return x


def test_batch_sizes_that_share_what_optimizers_take_are_as_each_alone() -> None:
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    subject = Subject(fake_model(Grows, fake), fake, plain_inputs((64,), None), lambda *_: NO_WORK)
    batches = (16, 24, 64)
    together = rehearse(subject, batches).runs
    alone = zip(*(rehearse(subject, (batch,)).runs for batch in batches), strict=True)
    for found, of_each in zip(together, alone, strict=True):
        assert {(run.optimizer, run.precision) for run in of_each} == {(found.optimizer, found.precision)}
        assert found.points == tuple(run.points[0] for run in of_each)


def test_dropout_keeps_nothing_in_inference() -> None:
    net = nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.5))
    without = used(nn.Linear(256, 256), (4096, 256), None)
    assert used(net, (4096, 256), None) == without


def test_optimizers_take_their_states_and_what_they_work_with() -> None:
    found = sizes(nn.Linear(2048, 2048), (2048,))
    weights = 2048 * 2048 * 4 / MIB
    took = {optimizer: found[optimizer, "fp32"] / weights for optimizer in OPTIMIZERS}
    assert took["sgd"] == pytest.approx(2, abs=0.1 + CUBLAS * 2 / MIB / weights)
    assert took["sgd_momentum"] - took["sgd"] == pytest.approx(1, abs=0.1)
    assert took["rmsprop"] - took["sgd"] == pytest.approx(2, abs=0.1)
    assert took["adam"] - took["sgd"] == pytest.approx(3, abs=0.1)


def test_optimizers_count_their_steps_on_the_cpu() -> None:
    layers, block = 16, 512 / MIB
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))
    assert used(model, (4,), "adam") - used(model, (4,)) == pytest.approx(3 * 2 * layers * block, rel=0.05)


def test_convolutions_have_their_workspaces_while_they_run() -> None:
    asked: list[tuple[Conv, int, Precision]] = []

    def convolution(conv: Conv, batch: int, precision: Precision) -> Workspace:
        asked.append((conv, batch, precision))
        return Workspace((100.0 * MIB,), (300.0 * MIB,), (200.0 * MIB,))

    model = nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, groups=2), nn.ConvTranspose2d(8, 4, 2))
    (point,) = points(model, (4, 9, 9), (2,), convolution)["sgd", "fp32"]
    (infers,) = points(model, (4, 9, 9), (2,), convolution)[None, "fp32"]
    assert 300 < point.used_mib < 301
    assert 100 < infers.used_mib < 101
    (first,) = points(nn.Conv2d(4, 8, 3), (4, 9, 9), (2,), convolution)["sgd", "fp32"]
    assert 200 < first.used_mib < 201  # nobody asks for the gradient of a picture
    assert infers.held_mib == 102
    assert set(asked[:2]) == {
        (Conv(4, 8, 9, 2, 2, 81, 16, False, extents((1, 3, 3), (1, 9, 9))), 2, "fp32"),
        # a transposed one is the gradient of one that leads back
        (Conv(4, 8, 4, 1, 1, 25, 16, True, extents((1, 2, 2), (1, 5, 5))), 2, "fp32"),
    }
    assert {precision for _, _, precision in asked} == {"fp32", "fp16", "bf16"}


def extents(kernel: Three, sides: Three, *, dilation: int = 1, padded: bool = False, last: bool = False) -> Extents:
    return Extents(kernel, sides, dilation, padded, last)


@pytest.mark.parametrize(
    ("model", "shape", "said"),
    [
        (nn.Conv1d(4, 8, 5, dilation=2), (4, 20), extents((1, 1, 5), (1, 1, 20), dilation=2)),
        (nn.Conv2d(4, 8, (3, 5), padding=1), (4, 20, 30), extents((1, 3, 5), (1, 20, 30), padded=True)),
        (nn.Conv3d(4, 8, (1, 3, 3)), (4, 6, 7, 8), extents((1, 3, 3), (6, 7, 8))),
        (nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last), (4, 9, 9), extents((1, 3, 3), (1, 9, 9), last=True)),
    ],
    ids=["series", "picture", "film", "channels together"],
)
def test_all_of_a_convolution_is_known(model: nn.Module, shape: tuple[int, ...], said: Extents) -> None:
    asked: set[Extents | None] = set()

    def convolution(conv: Conv, *_: Any) -> Workspace:
        asked.add(conv.extents)
        return NO_WORK

    points(model, shape, (2,), convolution)
    assert asked == {said}


def test_sums_have_their_buffers_while_they_run() -> None:
    class Sums(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(0)

    (point,) = points(nn.Sequential(nn.Linear(8, 256), Sums()), (8,), (32768,))[None, "fp32"]
    rows = 32768 * 256 * 4 / MIB
    assert point.used_mib == pytest.approx(rows + 64 + CUBLAS / MIB + 1, abs=0.2)


def test_more_is_held_than_used() -> None:
    class Grows(nn.Module):
        def __init__(self, rates: tuple[int, ...]) -> None:
            super().__init__()
            self.line = nn.Linear(1024, 1024)
            self.rates = rates

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.line(x)
            for rate in self.rates:
                x.repeat(1, rate).sum()
            return x

    (point,) = points(Grows((1, 2, 3)), (1024,), (8192,))[None, "fp32"]
    each = 8192 * 1024 * 4 / MIB
    assert point.used_mib == pytest.approx(6 * each + 4 + CUBLAS / MIB, abs=1)
    assert point.held_mib > point.used_mib + 2 * each  # blocks that are too small for what comes are of no use to it


def test_what_is_held_in_other_orders_of_addresses_is_said_too() -> None:
    """Of two free blocks of 40 MiB one lies beside 24 that go: there 64 fit again, unless the other was taken."""
    mib = [(1, 64), (2, 40), (1, GONE), (3, 24), (2, GONE), (4, 40), (3, GONE), (5, 64)]
    parts = [[(number, size if size == GONE else size * MIB)] for number, size in mib]
    assert followed(parts, {}) == (104, 104, 168)
    assert followed(parts[:4], {}) == (104, 104, 104)


def test_what_is_held_with_other_workspaces_is_said_too() -> None:
    """A workspace of 30 MiB fits where 40 lay; in one of the other processes it takes 60, which need a new piece."""
    mib = [(1, 40), (1, GONE), (2, 30), (2, GONE)]
    parts = [[(number, size if size == GONE else size * MIB)] for number, size in mib]
    assert followed(parts, {2: (30 * MIB,) * (DRAWS - 1) + (60 * MIB,)}) == (40, 40, 100)
    assert followed(parts, {2: (30 * MIB,) * DRAWS}) == (40, 40, 40)


def test_a_workspace_that_others_alone_need_is_in_what_they_hold() -> None:
    rare = Workspace(*[(0.0,) * DRAWS + (100.0 * MIB,)] * 3)
    model = nn.Conv2d(4, 8, 3)
    (point,) = points(model, (4, 9, 9), (2,), lambda *_: rare)[None, "fp32"]
    assert point.held_mib < 30
    assert point.most_mib == pytest.approx(point.held_mib + 100, abs=2)


def test_a_model_has_its_own_loss_or_one_for_each_output() -> None:
    class Gives(nn.Module):
        def __init__(self, what: str) -> None:
            super().__init__()
            self.line = nn.Linear(64, 64)
            self.what = what

        def forward(self, x: torch.Tensor) -> Any:
            x = self.line(x)
            wide = x.repeat(1, 4096)
            return {
                "loss": {"wide": wide, "loss": x.sum()},
                "of a class": Out(wide, loss=x.sum()),
                "losses": {"x": x, "loss": wide},
                "named": {"x": x, "more": [wide]},
                "own": UserDict(x=x, more=[wide]),
                "both": (x, wide),
                "ids": x.argmax(),
            }[self.what]

    kinds = ("loss", "of a class", "losses", "named", "own", "both")
    took = {what: used(Gives(what), (64,)) for what in kinds}
    wide = 32 * 64 * 4096 * 4 / MIB
    # The last step's output is there until the next one is done; and logarithms and gradients of this one.
    assert took["both"] == pytest.approx(5 * wide + 2 * CUBLAS / MIB, abs=1)
    assert took["named"] == took["losses"] == took["own"] == pytest.approx(took["both"], abs=1)
    assert took["loss"] == took["of a class"] == pytest.approx(2 * wide + 2 * CUBLAS / MIB, abs=1)
    assert {optimizer for optimizer, _ in sizes(Gives("ids"), (64,))} == {None}  # nothing to train


def test_autocast_casts_the_logarithms_of_a_classifiers_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a trace of ``cross_entropy`` on an H100 shows: logarithms in fp16 are kept, and once more in fp32."""
    kept: list[Any] = []

    def follow(parts: Any, _: Any) -> tuple[float, float, float]:
        kept.append(parts)
        return 0.0, 0.0, 0.0

    monkeypatch.setattr("estimator.rehearsals.rehearse.followed", follow)
    points(nn.Sequential(nn.Linear(8, 8192)), (8,), (4096,))
    half = 4096 * 8192 * 2
    steps = {precision: kept[at * (len(OPTIMIZERS) + 1)][1] for at, precision in enumerate(PRECISIONS)}
    took = {name: [size / half for _, size in step if size >= half] for name, step in steps.items()}
    # What is given out, its logarithms, these once more, the gradient of that, the same cast, and that of what came in.
    assert took["amp"][:6] == [1, 1, 2, 2, 1, 1]
    assert took["bf16"][:4] == [1, 1, 1, 1]
    assert took["fp32"][:4] == [2, 2, 2, 2]


class Attends(nn.Module):
    """Multiplies pictures with themselves, which no layer shows."""

    def __init__(self, *, multiplies: bool) -> None:
        super().__init__()
        self.kernel, self.multiplies = nn.Conv2d(3, 8, 3), multiplies

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.kernel(x).flatten(2)
        return (x @ x.transpose(1, 2)).sum(2) if self.multiplies else x.sum(2)


@pytest.mark.usefixtures("shortly")
@pytest.mark.parametrize(("multiplies", "loads"), [(False, "cudnn"), (True, "both")])
def test_a_table_says_which_libraries_the_code_loads(multiplies: bool, loads: str) -> None:
    text = table_of(lambda: Attends(multiplies=multiplies), plain_inputs((3, 16, 16), None), 4)
    assert f"\nRehearsed libraries: {loads}" in text
    assert parse_summary(text).loads == loads


def test_own_inputs_are_cast_where_the_model_is() -> None:
    """Who trains in bf16 casts the batch; whole numbers stay."""

    def fed(batch: int) -> dict[str, Any]:
        return {"x": [torch.ones(batch, 256)], "at": torch.zeros(batch, dtype=torch.long)}

    class Takes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = Gate(3)

        def forward(self, x: list[torch.Tensor], at: torch.Tensor) -> torch.Tensor:
            assert at.dtype == torch.long
            gated: torch.Tensor = self.gate(x[0])
            return gated

    own = parse_summary(table_of(Takes, own_inputs(fed), 4096)).rehearsals
    plain = parse_summary(table_of(lambda: Gate(3), plain_inputs((256,), None), 4096)).rehearsals
    assert {run.precision for run in own} == {"fp32", "amp", "bf16"}
    for one, other in zip(own, plain, strict=True):
        assert one.points[1].used_mib == pytest.approx(other.points[1].used_mib, abs=0.2)


def test_a_loss_of_ones_own_is_rehearsed() -> None:
    """It stands for a classifier's, and for the model's own."""

    def heavy(out: torch.Tensor) -> torch.Tensor:
        return (out.sin() * out.cos() * out.exp()).mean()

    def used(loss: Callable[[Any], Any] | None) -> dict[str, float]:
        runs = parse_summary(table_of(lambda: nn.Linear(8, 1024), plain_inputs((8,), None), 1024, loss)).rehearsals
        return {run.kind: run.points[1].used_mib for run in runs if run.optimizer in ("sgd", None)}

    own, classifiers = used(heavy), used(None)
    out = 2.0  # MiB in bf16, the last that was rehearsed
    assert own["train"] - classifiers["train"] == pytest.approx(2 * out, abs=0.2)
    assert own["infer"] == classifiers["infer"]


def test_what_the_job_holds_beside_the_model_is_rehearsed() -> None:
    """A copy of the weights stays; a network that the loss goes through keeps its inputs, and is trained."""

    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(256, 1024), nn.BatchNorm1d(1024))

    def used(loss: Callable[..., Any] | None = None, beside: Callable[[Any], Any] | None = None) -> dict[str, float]:
        summary = parse_summary(table_of(net, plain_inputs((256,), None), 1024, loss, beside))
        runs = [run for run in summary.rehearsals if run.precision == "fp32" and run.optimizer in ("adam", None)]
        return {**{run.kind: run.points[1].used_mib for run in runs}, "beside": summary.beside_mib}

    def judged(out: torch.Tensor, judge: nn.Module) -> torch.Tensor:
        return judge(out).mean()

    alone = used(lambda out: out.mean())
    weights = 1.0
    copied = used(lambda out, _: out.mean(), lambda model: {"average": copy.deepcopy(model), "step": 3})
    for kind in ("train", "infer"):
        assert copied[kind] - alone[kind] == pytest.approx(weights, abs=0.1)
    assert [alone["beside"], copied["beside"]] == pytest.approx([0, weights], abs=0.1)
    data = used(None, lambda _: [torch.empty(1024, 1024, 4), torch.zeros(1024)])
    assert data["beside"] == pytest.approx(16, abs=0.1)
    assert data["infer"] - alone["infer"] == pytest.approx(16, abs=0.1)
    second = used(judged, lambda _: nn.Sequential(nn.Linear(1024, 2048, bias=False), nn.Tanh()))
    assert second["beside"] == 8
    # The second network's weights, gradients, Adam's two states, and what Adam's step works with.
    assert second["train"] - alone["train"] == pytest.approx(5 * 8, abs=1.5)
    assert second["infer"] - alone["infer"] == pytest.approx(8, abs=0.1)


def _beside(make: Callable[[Any], Any], dtype: torch.dtype = torch.float32) -> Subject:
    fake = fake_mode()
    model = fake_model(lambda: nn.Linear(256, 1024).to(dtype), fake)
    return Subject(model, fake, plain_inputs((256,), None), lambda *_: NO_WORK, beside=fake_beside(make, model, fake))


def _read(module: nn.Module) -> nn.Module:
    """Look at a number of a copy, as what draws weights may."""
    copied = copy.deepcopy(module)
    assert next(copied.parameters()).max().item() < 1
    return copied


_THERE_BEFORE = nn.Sequential(nn.Linear(256, 1024), nn.BatchNorm1d(1024))


@pytest.mark.parametrize(
    ("make", "mib"),
    [
        (lambda _: _THERE_BEFORE, 1),
        (lambda model: nn.Linear(256, 1024).to(model.weight.device), 1),
        (lambda model: copy.deepcopy(model).to(model.weight.device), 1),
        (lambda model: (copy.deepcopy(model).half(), _read(nn.Linear(256, 1024)).half()), 1),
        (lambda _: nn.Linear(256, 1024).half(), 0.5),
        (lambda model: nn.ModuleList([_read(nn.Linear(256, 1024)), copy.deepcopy(model)]), 2),
        (lambda model: nn.ModuleList([model, _THERE_BEFORE, nn.Linear(256, 1024)]), 2),  # holds what is there
        (lambda model: [model, model.weight, list(model.parameters())], 0),
    ],
)
def test_what_is_beside_a_model_is_made_of_tensors_without_data(make: Callable[[Any], Any], mib: float) -> None:
    subject = _beside(make)
    assert beside_mib(subject) == pytest.approx(mib, abs=0.05)
    assert all(isinstance(tensor, FakeTensor) for tensor in subject.modules().parameters())
    assert not any(isinstance(tensor, FakeTensor) for tensor in _THERE_BEFORE.parameters())


def test_a_bare_parameter_beside_a_model_is_trained_with_it() -> None:
    subject = _beside(lambda _: {"prototypes": nn.Parameter(torch.ones(64, 128)), "queue": torch.ones(64, 128)})

    def taken(name: str) -> float:
        one = subject.beside[name]
        alone = subject._replace(beside=one, loss=lambda out: out.mean() * one.sum())
        return points_of(alone, "train", "fp32", 4, ("adam",))["adam"].used_mib

    more = 4 * 64 * 128 * 4 / 2**20  # its gradient, Adam's two states, and what Adam's step works with
    assert taken("prototypes") - taken("queue") == pytest.approx(more)


def test_what_is_beside_a_model_in_another_precision_stays_in_it() -> None:
    half, own = torch.float16, torch.bfloat16
    subject = _beside(lambda model: (copy.deepcopy(model), nn.Linear(2, 2).half()), own)
    for dtype in (torch.float32, own, own):
        subject.cast(dtype)
        copied, teacher = subject.beside
        assert (subject.model.weight.dtype, copied.weight.dtype, teacher.weight.dtype) == (dtype, dtype, half)


def test_a_teacher_may_hold_the_tensors_of_a_file_themselves(tmp_path: Path) -> None:
    torch.save(nn.BatchNorm1d(2**18).state_dict(), tmp_path / "teacher.pt")

    def teacher(_: Any) -> nn.Module:
        net = nn.BatchNorm1d(2**18)
        net.load_state_dict(torch.load(tmp_path / "teacher.pt"), assign=True)
        return net.eval()

    subject = _beside(teacher)
    assert beside_mib(subject) == pytest.approx(4, abs=0.1)
    subject.cast(torch.float32)


def test_what_a_loss_of_ones_own_raises_is_said() -> None:
    with pytest.raises(RuntimeError, match="scalar"):
        table_of(lambda: Gate(3), plain_inputs((256,), None), 4, lambda out: out)


def test_a_table_shows_all_layers_with_the_rehearsal_below() -> None:
    text = table_of(lambda: nn.Sequential(Gate(3), nn.Sequential(nn.ReLU())), plain_inputs((7, 256), None), 8)
    summary = parse_summary(text)
    assert summary.batch_size == 8
    assert [layer.type for layer in summary.root.children] == ["Gate", "Sequential"]
    assert summary.root.children[0].children[0].output_shape == (7, 256)
    runs = {(run.optimizer, run.precision) for run in summary.rehearsals}
    assert runs == {(optimizer, precision) for optimizer in (*OPTIMIZERS, None) for precision in PRECISIONS}
    assert {tuple(point.batch for point in run.points) for run in summary.rehearsals} == {(4, 8, 32)}


class Looks(nn.Module):
    """Wants its input's values, in training or always."""

    def __init__(self, *, always: bool) -> None:
        super().__init__()
        self.line = nn.Linear(8, 8)
        self.always = always

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if (self.training or (self.always and torch.is_autocast_enabled())) and x.sum() > 0:
            return x
        return self.line(x)


def test_inference_is_rehearsed_where_a_training_step_cannot_be() -> None:
    text = table_of(lambda: Looks(always=False), plain_inputs((8,), None), 4)
    assert [(run.kind, run.precision) for run in parse_summary(text).rehearsals] == [
        ("infer", precision) for precision in PRECISIONS
    ]
    text = table_of(lambda: Looks(always=True), plain_inputs((8,), None), 4)
    assert {run.precision for run in parse_summary(text).rehearsals} == {"fp32", "bf16"}


def test_a_table_is_made_where_nothing_can_be_rehearsed() -> None:
    class Picks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(8, 8)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            if self.calls <= 2:  # as the table is made
                return self.line(x)
            return self.line(x) if x.sum() > 0 else x

    text = table_of(Picks, plain_inputs((8,), None), 4)
    assert "not rehearsed, as its code needs values or a GPU: DataDependentOutputException: aten" in text
    assert parse_summary(text).rehearsals == ()


class Gives(nn.Module):
    """Gives out an object of its own, which may lead to no parameters."""

    def __init__(self, *, detached: bool) -> None:
        super().__init__()
        self.line = nn.Linear(8, 8)
        self.detached = detached

    def forward(self, x: torch.Tensor) -> Out:
        found = self.line(x)
        return Out(found.detach() if self.detached else found)


@pytest.mark.usefixtures("shortly")
def test_what_a_class_of_ones_own_holds_is_trained() -> None:
    text = table_of(lambda: Gives(detached=False), plain_inputs((8,), None), 4)
    assert {run.kind for run in parse_summary(text).rehearsals} == {"train", "infer"}


def test_a_kind_of_run_that_was_not_rehearsed_is_named_with_the_reason(rad: Rad) -> None:
    text = table_of(lambda: Gives(detached=True), plain_inputs((8,), None), 4)
    line = "training not rehearsed: TypeError: the model returned Out without a tensor that depends on its parameters"
    assert text.endswith(f"\n{line}")
    summary = parse_summary(text)
    assert {run.kind for run in summary.rehearsals} == {"infer"}
    reasons = rad.predict(summary, Workload(4)).reasons
    assert reasons[0].startswith("nothing like this model was measured, and no such run of it was rehearsed")


def test_a_pytorch_that_is_too_old_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.compiler, "set_stance")
    with pytest.raises(ImportError, match="or newer"):
        table_of(lambda: nn.Linear(8, 8), plain_inputs((8,), None), 8)


@pytest.mark.usefixtures("shortly")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's own, as it imports its compiler
def test_what_would_be_compiled_runs_as_it_is_written() -> None:
    class Compiled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(8, 8)

        @torch.compile  # type: ignore[untyped-decorator]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.line(x).relu()

    for factory in (Compiled, lambda: torch.compile(nn.Linear(8, 8))):
        assert "Rehearsed adam fp32" in table_of(factory, plain_inputs((8,), None), 4)


def test_a_wrong_shape_is_told_in_one_line_alone(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError, match="reduction dim"):
        table_of(lambda: nn.Sequential(nn.Flatten(), nn.Linear(8, 8)), plain_inputs((4, 4), None), 4)
    assert not caplog.records


@pytest.mark.parametrize("first", [torch.complex64, torch.uint8])
def test_what_goes_in_is_of_the_first_parameter_that_is_a_real_number(first: torch.dtype) -> None:
    class Spectrum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.zeros(4, dtype=first), requires_grad=first.is_complex)
            self.line = nn.Linear(8, 8)

    ((given,), _) = plain_inputs((8,), None)(Spectrum(), 2)
    assert given.dtype == torch.float32
    ((given,), _) = plain_inputs((8,), None)(nn.Linear(8, 8).to(torch.float64), 2)
    assert given.dtype == torch.float64
    ((given,), _) = plain_inputs((8,), None)(nn.ReLU(), 2)
    assert given.dtype == torch.float32


def test_summarize_makes_a_table_or_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def net(): return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())\n"
        "def words(): return nn.Sequential(nn.Embedding(100, 16), nn.Linear(16, 100))\n"
        "def head():\n"
        "    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(7200, 4))\n"
        "    model[0].requires_grad_(False)\n"
        "    return model\n"
        "class Looks(nn.Linear):\n"
        "    def __init__(self): super().__init__(4, 4)\n"
        "    def forward(self, x): return x if x.sum() > 0 else super().forward(x)\n"
    )
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    done = runner.invoke(cli, ["summarize", "tiny:net", "--input-size", "3x32x32", "--batch-size", "4"])
    assert done.exit_code == 0, done.output
    assert "Conv2d: 1-1                            [4, 8, 30, 30]           224" in done.stdout
    assert "Rehearsed adam fp32 size (batch 2, 4, 16): " in done.stdout
    done = runner.invoke(cli, ["summarize", "tiny:head", "--input-size", "3x32x32", "--batch-size", "4"])
    assert "[4, 8, 30, 30]           (224)" in done.stdout
    assert "Trainable params: 28,804\nNon-trainable params: 224\n" in done.stdout
    assert not done.stderr
    done = runner.invoke(cli, ["summarize", "tiny:words", "--seq-len", "64"], env={"FORCE_COLOR": "1"})  # a terminal
    assert "[32, 64, 100]" in done.stdout
    # A step is shown where it takes a tenth of a second, the last one in any case.
    assert "rehearsing inference in bf16 at batch size 128 (18 of 18)" in done.stderr
    assert "of 18)" not in done.stdout
    for wrong, why in (
        (["tiny:Looks", "--input-size", "4"], "DataDependentOutputException"),
        (["tiny:net", "--input-size", "5x32x32"], "RuntimeError"),
        (["tiny:net", "--input-size", "3,32"], "write --input-size 3x32"),
    ):
        done = runner.invoke(cli, ["summarize", *wrong])
        assert done.exit_code == 2
        assert why in done.stderr


_TWO_INPUTS = """import torch
from torch import nn
class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.picture, self.head = nn.Embedding(100, 16), nn.Linear(8, 16), nn.Linear(16, 4)
    def forward(self, words, picture, labels=None):
        logits = self.head(self.words(words).mean(1) + self.picture(picture))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"logits": logits, "loss": loss}
def named(batch):
    return {"picture": torch.zeros(batch, 8), "words": torch.zeros(batch, 12, dtype=torch.long)}
def with_labels(batch):
    return {**named(batch), "labels": torch.zeros(batch, dtype=torch.long)}
def in_order(batch):
    return torch.zeros(batch, 12, dtype=torch.long), torch.zeros(batch, 8)
def alone(batch):
    return torch.zeros(batch, 8)
def net():
    return nn.Sequential(nn.Linear(8, 4))
number = 3
def summed(out):
    return out["logits"].repeat(1, 40_000).exp().sum()
def whole(out):
    return out
def held(model):
    return [torch.empty(1024, 1024), model.head]
def nothing(model):
    return [torch.nn.Linear]
def hidden(model):
    return torch.zeros(1), torch.optim.Adam(model.parameters())
def sparse(model):
    return torch.zeros(3, 3).to_sparse()
def lazy(model):
    return [torch.nn.LazyLinear(3)]
def both(out, held):
    return summed(out) * held[0].mean()
"""


@pytest.mark.usefixtures("shortly")
def test_a_function_of_ones_own_makes_what_goes_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "both.py").write_text(_TWO_INPUTS)
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    options = ["summarize", "both:Both", "--batch-size", "8"]
    ways = ("named", "in_order", "with_labels")
    named, ordered, labelled = (runner.invoke(cli, [*options, "--inputs", f"both:{way}"]).stdout for way in ways)
    assert "Rehearsed adam fp32 size (batch 8): " in named
    assert ordered == named
    assert "not rehearsed" not in labelled
    assert "[8, 12, 16]" in labelled
    summed = runner.invoke(cli, [*options, "--inputs", "both:named", "--loss", "both:summed"]).stdout
    assert "Rehearsed inference fp32" in summed
    assert summed != named
    whole = runner.invoke(cli, [*options, "--inputs", "both:named", "--loss", "both:whole"])
    assert (whole.exit_code, whole.stdout) == (2, "")
    assert whole.stderr.startswith("radctl: both:whole returned no single number, but a dict; name a function that")
    strange = runner.invoke(cli, [*options, "--inputs", "both:named", "--loss", "both:number"])
    assert "both:number is no function, but a int; name a function that takes what the model returns" in strange.stderr
    asked = runner.invoke(cli, ["summarize", "both:net", "--loss", "both:summed"])
    assert "--loss is for a table: say what goes in by" in asked.stderr
    beside = ["--inputs", "both:named", "--loss", "both:both", "--beside"]
    assert "\nRehearsed beside size: 4.0 MiB\n" in runner.invoke(cli, [*options, *beside, "both:held"]).stdout
    none = runner.invoke(cli, [*options, *beside, "both:nothing"])
    assert (none.exit_code, none.stdout) == (2, "")
    assert none.stderr.startswith("radctl: both:nothing returned no module or tensor, but a list; name a function that")
    unseen = runner.invoke(cli, [*options, *beside, "both:hidden"])
    assert "both:hidden returned a Adam among others, and what that holds is not seen; name" in unseen.stderr
    sparse = runner.invoke(cli, [*options, *beside, "both:sparse"])
    assert "both:sparse returned a sparse tensor, whose size is not known: torch.empty" in sparse.stderr
    lazy = runner.invoke(cli, [*options, *beside, "both:lazy"])
    assert "both:lazy returned lazy layers, which have no sizes yet: let it call each module once" in lazy.stderr
    asked = runner.invoke(cli, ["summarize", "both:net", "--beside", "both:held"])
    assert "--beside is for a table: say what goes in by" in asked.stderr
    one = runner.invoke(cli, ["summarize", "both:net", "--inputs", "both:alone"])
    assert one.stdout == runner.invoke(cli, ["summarize", "both:net", "--input-size", "8"]).stdout
    fed = ["estimate", "-", "--method", "faketensor", "--inputs", "both:named", "--batch-size", "8", "--model"]
    done = runner.invoke(cli, [*fed, "both:Both"], input=named)
    assert "GiB expected" in done.stdout, done.output
    done = runner.invoke(cli, [*fed[:2], *fed[4:-1]], input=named)
    assert "--inputs feeds the model's code: add --model MODULE:FACTORY" in done.stderr
    for wrong, why in (
        (["--inputs", "both:Both"], "both:Both failed with TypeError"),
        (["--inputs", "both:number"], "both:number is no function, but a int"),
        (["--inputs", "both:alone"], "both:Both failed with TypeError"),
        (["--inputs", "both:named", "--seq-len", "12"], "give one of --input-size, --seq-len and --inputs"),
    ):
        done = runner.invoke(cli, [*options, *wrong])
        assert done.exit_code == 2
        assert why in done.stderr


@pytest.mark.parametrize("number", [1, 2, 20])
@pytest.mark.parametrize("named", [True, False])
def test_lists_of_parameters_are_printed_as_they_are_read(number: int, named: bool) -> None:
    weights = [nn.Parameter(torch.zeros(8, 8)) for _ in range(number)]
    own = nn.ParameterDict({f"w{at}": each for at, each in enumerate(weights)}) if named else nn.ParameterList(weights)
    model = nn.Sequential(own, nn.Linear(8, 10))
    assert parse_summary(summary_of(model)).total_params == number * 64 + 90


def test_a_layer_with_several_names_is_printed_under_each_as_pytorch_does() -> None:
    layer, act = nn.Linear(8, 8), nn.ReLU()
    model = nn.Sequential(layer, act, nn.Sequential(layer, act), layer)
    text = summary_of(model)
    assert re.sub(r", \d+ params", "", text) == str(model)
    assert parse_summary(text).total_params == 72


class Resizes(nn.Module):
    """Writes itself, as torchvision's transform of detectors does."""

    def __repr__(self) -> str:
        return "Resizes(\n    Resize(min_size=(320,), max_size=640, mode='bilinear')\n)"


def test_what_a_class_writes_of_itself_is_printed_as_pytorch_does() -> None:
    model = nn.Sequential(Resizes(), nn.Linear(8, 8))
    text = summary_of(model)
    assert re.sub(r", \d+ params", "", text) == str(model)
    assert "  ), 0 params\n" in text


class Reads(nn.Module):
    """Writes on what it reads, each word with those before it; no padding is read."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, 16)
        self.inside = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = self.inside.generate_square_subsequent_mask(x.shape[1])
        words = self.words(x)
        out: torch.Tensor = self.inside(words, words, tgt_mask=mask, src_key_padding_mask=x == 0)
        return out


@pytest.mark.usefixtures("shortly")
def test_masks_of_transformers_need_no_values() -> None:
    from torch.nn.modules import transformer  # noqa: PLC0415

    looks = transformer._detect_is_causal_mask, torch._nested_tensor_from_mask_left_aligned
    text = table_of(Reads, plain_inputs(None, 8), 4)
    assert "not rehearsed" not in text
    read = parse_summary(text).rehearsals
    assert {run.kind for run in read} == {"train", "infer"}
    assert (transformer._detect_is_causal_mask, torch._nested_tensor_from_mask_left_aligned) == looks


class Draws(nn.Module):
    """Skips a layer by a number that it draws, and draws from a distribution that looks at what it is given."""

    def __init__(self, share: float = 0.1) -> None:
        super().__init__()
        self.one, self.two, self.share = nn.Linear(64, 64), nn.Linear(64, 128), share

    def forward(self, x: Any) -> Any:
        if torch.rand([]) >= self.share:
            x = self.one(x).relu()
        mean, wide = self.two(x).chunk(2, -1)
        return torch.distributions.Normal(mean, wide.exp()).rsample()


@pytest.mark.usefixtures("shortly")
def test_code_that_draws_a_number_or_from_a_distribution_is_rehearsed() -> None:
    checks = torch.distributions.Distribution._validate_args
    some, none = (table_of(partial(Draws, share), plain_inputs((512, 64), None), 8) for share in (0.1, 1.0))
    assert torch.distributions.Distribution._validate_args is checks
    assert "not rehearsed" not in some + none
    more, less = (
        next(run for run in parse_summary(text).rehearsals if run.kind == "train").points[-1].used_mib
        for text in (some, none)
    )
    assert more - less == pytest.approx(
        2 * 8 * 512 * 64 * 4 / MIB, rel=0.1
    )  # what the layer gave out, and its gradient


def test_a_pytorch_that_looks_at_masks_otherwise_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn.modules import transformer  # noqa: PLC0415

    monkeypatch.delattr(transformer, "_detect_is_causal_mask")
    nests = torch._nested_tensor_from_mask_left_aligned
    with unseen_values():
        assert torch._nested_tensor_from_mask_left_aligned is not nests
    assert torch._nested_tensor_from_mask_left_aligned is nests
    assert not hasattr(transformer, "_detect_is_causal_mask")


def test_a_mask_that_is_called_causal_or_not_is_what_it_is_called() -> None:
    from torch.nn.modules import transformer  # noqa: PLC0415

    square, other = torch.zeros(4, 4), torch.zeros(4, 6)
    with unseen_values():
        says = transformer._detect_is_causal_mask
        assert [says(square), says(square, False), says(other, True)] == [True, False, True]
        assert [says(other), says(None), says(square, None, 6)] == [False, False, False]


def _lazy() -> nn.Module:
    return nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(4))


@pytest.mark.usefixtures("shortly")
def test_lazy_layers_take_their_sizes_from_the_input() -> None:
    text = table_of(_lazy, plain_inputs((3, 8, 8), None), 4)
    known = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 4))
    assert text == table_of(lambda: known, plain_inputs((3, 8, 8), None), 4)


@pytest.mark.usefixtures("shortly")
def test_a_lazy_model_is_asked_for_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late.py").write_text("from torch import nn\ndef net(): return nn.Sequential(nn.LazyLinear(4))\n")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["summarize", "late:net"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "late:net cannot be printed: lazy layers know their sizes once something has gone in: add" in done.stderr
    done = CliRunner().invoke(cli, ["summarize", "late:net", "--input-size", "8"])
    assert "Linear: 1-1                            [32, 4]                  36" in done.stdout


def test_what_fails_is_told_with_a_line_of_the_users_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.line = nn.Linear(4, 4)\n"
        "    def forward(self, x):\n"
        "        return self.line(x)\n"
        "class Own(Net):\n"
        "    def extra_repr(self): return self.nothing\n"
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["summarize", "wrong:Net", "--input-size", "5"])
    assert "(wrong.py, line 7); is what goes in as --input-size, --seq-len or --inputs says?" in done.stderr
    done = CliRunner().invoke(cli, ["summarize", "wrong:Own"])
    assert "(wrong.py, line 9); print(model) of your own program makes a summary too" in done.stderr


class Says(nn.Module):
    """Gives out logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(512, 16)
        self.head = nn.Linear(16, 512)

    def forward(self, x: torch.Tensor) -> Out:
        return Out(self.head(self.words(x)))


class Learns(Says):
    """Makes a loss of them in fp32 where it is given labels, as models of transformers do."""

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Out:
        out = super().forward(x)
        if labels is not None:
            out.loss = functional.cross_entropy(out.logits.float().flatten(0, 1), labels.flatten())
        return out


class Picky(Says):
    """Wants labels of another kind."""

    def forward(self, x: torch.Tensor, labels: Any = None) -> Out:
        if labels is not None:
            raise TypeError("a dictionary of labels is wanted")
        return super().forward(x)


def test_a_model_that_takes_labels_makes_its_own_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("estimator.summarize._BATCHES", (0.5,))
    own, other, picky = (
        {
            (run.kind, run.precision, run.optimizer): run.points[0].used_mib
            for run in parse_summary(table_of(model, plain_inputs(None, 256), 64)).rehearsals
        }
        for model in (Learns, Says, Picky)
    )
    logits = 32 * 256 * 512 * 4 / MIB
    assert own["infer", "bf16", None] > other["infer", "bf16", None] + logits
    assert own["train", "bf16", "sgd"] > other["train", "bf16", "sgd"] + logits / 4
    assert picky == other  # as it cannot take them


class Paints(nn.Module):
    """Says of what class each pixel is, in fewer pixels than came in."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Conv2d(3, 5, 4, stride=4)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> Out:
        out = Out(self.see(x))
        if labels is not None:
            whole = functional.interpolate(out.logits, size=labels.shape[-2:], mode="bilinear")
            out.loss = functional.cross_entropy(whole, labels)
        return out


def test_a_picture_has_a_label_for_each_pixel_that_comes_in() -> None:
    points = parse_summary(table_of(Paints, plain_inputs((3, 256, 256), None), 64)).rehearsals[0].points
    whole = points[0].batch * 5 * 256 * 256 * 4 / MIB
    assert points[0].used_mib > 2 * whole
