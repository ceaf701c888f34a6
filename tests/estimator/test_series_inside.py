"""What convolutions of series take, and attention among the tokens of a window: as prints and tables tell."""

from __future__ import annotations

import pytest

from estimator.methods.rad import Rad
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program.steps import Conv
from estimator.parsers import parse_summary
from estimator.types import Workload

_HEAD = "=====\nLayer (type:depth-idx)    Output Shape    Param #\n=====\n"


def _convs(rad: Rad, text: str, batch: int, length: int | None = None) -> list[Conv]:
    program = rad.account(parse_summary(text), Workload(batch, input_size=None if length is None else (8, length)))[1]
    return [op.conv for op in program.ops if op.conv is not None]


@pytest.mark.parametrize(("kernel", "area"), [("(7,)", 7), ("(1,)", 1)])
def test_a_print_of_a_kernel_along_one_axis_has_as_many_places(kernel: str, area: int, rad: Rad) -> None:
    pad = f", padding=({area // 2},)"
    text = f"Net(\n  (a): Conv1d(8, 16, kernel_size={kernel}, stride=(1,){pad})\n  (b): ReLU()\n)\n"
    assert [conv[:3] for conv in _convs(rad, text, 4, 100)] == [(8, 16, area)]


def _table(rows: list[tuple[str, str, int]], input_mb: float) -> str:
    body = "".join(
        f"├─{type_}: 1-{at}    {shape}    {params or '--'}\n" for at, (type_, shape, params) in enumerate(rows, 1)
    )
    total = sum(params for _, _, params in rows)
    own = f"Net    {rows[-1][1]}    --\n"
    return f"{_HEAD}{own}{body}=====\nTotal params: {total:,}\n=====\nInput size (MB): {input_mb:.2f}\n=====\n"


@pytest.mark.parametrize(("channels", "kernel"), [(1, 15), (3, 5), (5, 3)])
def test_the_printed_size_of_a_series_tells_its_channels(channels: int, kernel: int, rad: Rad) -> None:
    """24 kernels of 15 weights are of one channel, of three or of five."""
    rows = [("Conv1d", "[32, 24, 16384]", 384), ("ReLU", "[32, 24, 16384]", 0)]
    (conv,) = _convs(rad, _table(rows, 32 * channels * 16384 * 4 / 1e6), 32)
    assert (conv.channels_in, conv.area, conv.stride, conv.size_in) == (channels, kernel, 1, 16384)


def test_what_code_makes_larger_is_joined_with_what_came_far_before(rad: Rad) -> None:
    """The second half of a U-Net without layers that make series larger: its kernels ask for both."""
    widths = [(24, 1, 4096), (48, 24, 2048), *[(72, 48, 1024)], *[(72, 72, 1024)] * 6, (48, 72 + 48, 2048)]
    rows: list[tuple[str, str, int]] = []
    for outputs, inputs, length in widths:
        shape = f"[4, {outputs}, {length}]"
        rows += [("Conv1d", shape, outputs * (inputs * 5 + 1)), ("BatchNorm1d", shape, 2 * outputs), ("ReLU", shape, 0)]
    last = _convs(rad, _table(rows, 4 * 4096 * 4 / 1e6), 4)[-1]
    assert (last.channels_in, last.area, last.stride, last.size_in) == (120, 5, 1, 2048)


def test_attention_of_swin_2_is_among_the_tokens_of_a_window(rad: Rad) -> None:
    linear = "Linear: 2-{}    [8, 49, 64]    4,160\n"
    rows = "".join(f"│    └─{linear.format(at)}" for at in (1, 2, 3))
    text = f"{_HEAD}Net    [2, 196, 64]    --\n├─Swinv2SelfAttention: 1-1    [8, 49, 64]    2\n{rows}"
    text += "├─LayerNorm: 1-2    [2, 196, 64]    128\n=====\nTotal params: 12,610\n=====\n"
    program = rad.account(parse_summary(text), Workload(2))[1]
    (attention,) = [op for op in program.ops if op.kind is Kind.ATTENTION]
    assert attention.matrix == 2 * 4 * 49 * 49  # two heads
