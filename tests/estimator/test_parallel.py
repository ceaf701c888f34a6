"""What PyTorch's ways to train on several GPUs add to an estimate. What they take was measured on an H100: of a model
of 418 MiB of parameters, DistributedDataParallel held 420 MiB more and FSDP 622, beside 564 MiB of NCCL's context."""

from __future__ import annotations

import pytest

from estimator.fingerprint import fingerprint
from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.types import Estimate, ModelSummary, Workload

NET = """Net(
  (up): Linear(in_features=1024, out_features=8192, bias=False)
  (act): ReLU()
  (down): Linear(in_features=8192, out_features=1024, bias=False)
)
"""
PARAMS_MIB = 64
DDP, FSDP = "DistributedDataParallel", "FullyShardedDataParallel"
TRAIN = Workload(16)


def around(wrapper: str, text: str = NET) -> str:
    return f"{wrapper}(\n  (module): " + text.replace("\n", "\n  ").rstrip() + "\n)\n"


def more(rad: Rad, text: str, workload: Workload = TRAIN, bare: str = NET) -> tuple[int, int]:
    """Give how much larger an estimate and its bound are than those of the bare model."""
    wrapped, alone = (rad.predict(parse_summary(each), workload) for each in (text, bare))
    return wrapped.expected_mib - alone.expected_mib, wrapped.upper_mib - alone.upper_mib


def read(text: str) -> ModelSummary:
    return parse_summary(text)


@pytest.mark.parametrize(
    ("text", "parallel"),
    [
        (NET, ""),
        (around("DataParallel"), ""),
        (around(DDP), DDP),
        (around(FSDP), FSDP),
        (around(DDP, around("OptimizedModule")), DDP),
        (around("OptimizedModule", around(DDP)), DDP),
        (NET.replace("Net", "FSDPNet"), "fully_shard"),
        (NET.replace("Net", "FSDPNet").replace("Linear", "FSDPLinear"), "fully_shard of blocks"),
        (around(FSDP, NET.replace("(act): ReLU()", f"(act): {FSDP}(\n    (module): ReLU()\n  )")), f"{FSDP} of blocks"),
    ],
)
def test_what_stands_around_is_taken_off_and_named(text: str, parallel: str) -> None:
    summary = read(text)
    assert summary.parallel == parallel
    assert summary.root.but(name="") == read(NET).root


@pytest.mark.parametrize(
    ("text", "parallel"),
    [
        (NET.replace("(up): Linear", "(up): FSDPLinear"), "fully_shard"),
        (NET.replace("(act): ReLU()", f"(act): {FSDP}(\n    (_fsdp_wrapped_module): ReLU()\n  )"), FSDP),
        ("Tuner(\n  (net): FSDP" + NET.replace("\n", "\n  ").rstrip() + "\n)\n", "fully_shard"),
    ],
)
def test_what_stands_around_parts_alone_is_named_too(text: str, parallel: str) -> None:
    summary = read(text)
    bare = read(text.replace("FSDPLinear", "Linear").replace("FSDPNet", "Net"))
    assert (summary.parallel, summary.total_params) == (parallel, read(NET).total_params)
    assert summary.root == (read(NET).root if parallel == FSDP else bare.root)


def test_a_name_that_begins_alike_stays() -> None:
    summary = read(NET.replace("Net", "FSDPnet"))
    assert (summary.root.type, summary.parallel) == ("FSDPnet", "")


@pytest.mark.parametrize(
    ("text", "expected", "upper"),
    [
        (around("DataParallel"), 0, 0),
        (around(DDP), 560 + PARAMS_MIB, 560 + 2 * PARAMS_MIB),
        (around(FSDP), 560 + 2.5 * PARAMS_MIB, 560 + 3.5 * PARAMS_MIB),
        (NET.replace("Net", "FSDPNet"), 70 + 2.5 * PARAMS_MIB, 70 + 3.5 * PARAMS_MIB),
        (around(FSDP, around(FSDP)), 560 + 1.2 * PARAMS_MIB, 560 + 2.5 * PARAMS_MIB),
        (NET.replace("Net", "FSDPNet").replace("Linear", "FSDPLinear"), 70 + 1.2 * PARAMS_MIB, 70 + 2.5 * PARAMS_MIB),
    ],
)
def test_copies_and_context_are_counted(rad: Rad, text: str, expected: float, upper: float) -> None:
    assert more(rad, text) == pytest.approx((expected, upper), abs=1)


def test_halves_are_half_as_large(rad: Rad) -> None:
    assert more(rad, around(DDP), Workload(16, precision="bf16")) == pytest.approx((592, 624), abs=1)


def test_an_inference_has_the_context_alone(rad: Rad) -> None:
    assert more(rad, around(DDP), Workload(16, kind="infer")) == pytest.approx((560, 560), abs=1)


def test_only_what_is_trained_is_there_again(rad: Rad) -> None:
    said = "Trainable params: 8,388,608\nNon-trainable params: 8,388,608\n"
    grown = more(rad, around(DDP) + said, bare=NET + said)
    assert grown == pytest.approx((560 + PARAMS_MIB / 2, 560 + PARAMS_MIB), abs=1)


def test_the_estimate_says_why_and_has_a_history_of_its_own(rad: Rad) -> None:
    estimate: Estimate = rad.predict(read(around(DDP)), TRAIN)
    assert f"624 to 688 MiB for {DDP} around the model" in estimate.reasons
    assert estimate.fingerprint == fingerprint(read(around(DDP)), TRAIN) != fingerprint(read(NET), TRAIN)


def test_deepspeed_is_taken_off_and_said() -> None:
    summary = read(around("DeepSpeedEngine"))
    assert summary.root.but(name="") == read(NET).root
    assert "what DeepSpeed holds beside the model is not counted" in summary.inferred


@pytest.mark.parametrize(
    ("convolution", "norm"), [("Conv1d", "BatchNorm1d"), ("Conv2d", "BatchNorm2d"), ("Conv3d", "BatchNorm3d")]
)
def test_synchronised_norms_are_those_of_the_convolutions(convolution: str, norm: str) -> None:
    text = f"Net(\n  (c): {convolution}(3, 8, kernel_size=3)\n  (n): {{}}(8, eps=1e-05, momentum=0.1)\n)\n"
    assert read(text.format("SyncBatchNorm")) == read(text.format(norm))


def test_synchronised_norms_of_a_table_have_its_axes() -> None:
    rule = "-" * 64
    rows = [("Conv3d-1", "[-1, 8, 4, 4, 4]", "656"), ("SyncBatchNorm-2", "[-1, 8, 4, 4, 4]", "16")]
    rows += [("Linear-3", "[-1, 8]", "4,104"), ("SyncBatchNorm-4", "[-1, 8]", "16")]
    body = "\n".join(f"{name:>20} {shape:>26} {params:>15}" for name, shape, params in rows)
    head = "        Layer (type)               Output Shape         Param #"
    summary = read(f"{rule}\n{head}\n{'=' * 64}\n{body}\n{'=' * 64}\nTotal params: 4,792\n{rule}\n")
    assert [layer.type for layer in summary.root.children] == ["Conv3d", "BatchNorm3d", "Linear", "BatchNorm1d"]


@pytest.mark.parametrize("outer", [(), ("Tuner",)])
def test_a_table_shows_it_too(outer: tuple[str, ...]) -> None:
    rule = "=" * 90
    names = [*outer, DDP, "Net"]
    rows = [("", names[0])]
    rows += [("│    " * (depth - 1) + "├─", f"{name}: {depth}-1") for depth, name in enumerate(names[1:], 1)]
    rows += [("│    " * (len(names) - 1) + "└─", f"Linear: {len(names)}-{number}") for number in (1, 2)]
    body = "\n".join(
        f"{before + name:<45} {'[4, 8]':<25} {'72' if 'Linear' in name else '--':<15}" for before, name in rows
    )
    head = f"{'Layer (type:depth-idx)':<45} {'Output Shape':<25} {'Param #':<15}"
    summary = read(f"{rule}\n{head}\n{rule}\n{body}\n{rule}\nTotal params: 144\n{rule}\n")
    root = summary.root if not outer else summary.root.children[0]
    assert (summary.parallel, root.type, len(root.children)) == (DDP, "Net", 2)
