"""Networks that make pictures of a vector."""

from __future__ import annotations

import pytest

from tests.estimator.accounts import account, table
from tests.estimator.test_prints import block, conv, shapes

UP = "Upsample(scale_factor=2.0, mode='nearest')"
GROWS = "ConvTranspose2d({}, {}, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1))"


def linear(taken: int, given: int) -> str:
    return f"Linear(in_features={taken}, out_features={given}, bias=True)"


@pytest.mark.parametrize(
    "rest",
    [
        {"norm": "BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)", "up": UP},
        {"up": UP},
        {"view": "Unflatten(dim=1, unflattened_size=(32, 8, 8))", "up": UP},
        {"view": "Unflatten(dim=-1, unflattened_size=(32, 8, -1))", "up": UP},
        {"up": GROWS.format(32, 32)},
    ],
    ids=["norm", "upsample", "unflatten", "unflatten the rest", "transposed"],
)
def test_code_makes_a_picture_of_what_a_linear_layer_gives_out(rest: dict[str, str]) -> None:
    text = block("Net", fc=linear(100, 32 * 64), **rest, conv=conv(32, 16), up2=UP, last=conv(16, 3), end="Tanh()")
    assert shapes(text, "Conv2d") == [(16, 16, 16), (3, 32, 32)]
    assert shapes(text, "Linear") == [(2048,)]
    assert account(text)[2].kept == 2 * 4 * (100 + ("norm" in rest) * 2048 + _made(rest) + 16 * 32 * 32 + 3 * 32 * 32)


def _made(rest: dict[str, str]) -> int:
    return 32 * 16 * 16 + (32 * 8 * 8 if "Transpose" in rest["up"] else 0)


@pytest.mark.parametrize("size", [None, (64,), (64, 1, 1)])
def test_a_latent_is_a_picture_of_one_pixel(size: tuple[int, ...] | None) -> None:
    first = "ConvTranspose2d(64, 32, kernel_size=(4, 4), stride=(1, 1), bias=False)"
    text = block("Net", a=first, b=GROWS.format(32, 3))
    assert shapes(text, "ConvTranspose2d", input_size=size) == [(32, 4, 4), (3, 8, 8)]


def test_a_network_behind_one_that_makes_pictures_of_a_latent_takes_these() -> None:
    first = "ConvTranspose2d(64, 32, kernel_size=(4, 4), stride=(1, 1), bias=False)"
    narrows = "Conv2d({}, {}, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1))"
    made = block("Generator", a=first, b=GROWS.format(32, 16), c=GROWS.format(16, 3), end="Tanh()")
    told = block("Discriminator", a=narrows.format(3, 16), act="ReLU()", b=narrows.format(16, 32))
    text = block("Both", made=made, told=told)
    for size in (None, (64,), (64, 1, 1)):
        assert shapes(text, "ConvTranspose2d", input_size=size) == [(32, 4, 4), (16, 8, 8), (3, 16, 16)]
        assert shapes(text, "Conv2d", input_size=size) == [(16, 8, 8), (32, 4, 4)]


def test_a_picture_that_is_learned_is_small_and_styles_are_made_of_the_latent() -> None:
    def stage(taken: int, given: int) -> str:
        return block("Stage", up=UP, conv=conv(taken, given), style=linear(64, 2 * given))

    text = block("Net", mapping=linear(64, 64), a=stage(96, 32), b=stage(32, 16), rgb=conv(16, 3, kernel=1))
    assert shapes(text, "Conv2d") == [(32, 8, 8), (16, 16, 16), (3, 16, 16)]
    assert shapes(text, "Linear") == [(64,), (64,), (32,)]


@pytest.mark.parametrize("view", [("Unflatten-# [-1, 64, 7, 7] 0",), ()], ids=["a layer", "a function"])
def test_a_table_of_a_vector_that_becomes_a_picture(view: tuple[str, ...]) -> None:
    rows = (
        f"Linear-# [-1, {64 * 49}] {64 * 49 * 65}",
        *view,
        f"ConvTranspose2d-# [-1, 32, 14, 14] {64 * 32 * 16 + 32}",
    )
    _, program, memory = account(table(*rows))
    (conv_,) = [op.conv for op in program.ops if op.conv is not None]
    assert (conv_.channels_in, conv_.area, conv_.size_in) == (64, 16, 49)
    assert memory.kept == 2 * 4 * (64 + 64 * 49)


def test_an_axis_that_does_not_become_others_is_as_it_was() -> None:
    for view in ("dim=1, unflattened_size=(5, 7)", "dim=3, unflattened_size=(2, 2)", "dim=-4, unflattened_size=(2, 2)"):
        text = block("Net", fc=linear(100, 64), view=f"Unflatten({view})", last=linear(64, 8))
        assert shapes(text, "Unflatten") == [(64,)]


def test_what_looks_up_words_makes_no_pictures_of_a_vector() -> None:
    convs = block("ModuleList", _0="Conv2d(1, 100, kernel_size=(3, 300), stride=(1, 1))")
    text = block("TextCnn", words="Embedding(3000, 300)", convs=convs, fc="Linear(in_features=100, out_features=5)")
    found = [op.conv for op in account(text, seq_len=64)[1].ops if op.conv is not None]
    assert [conv.channels_in for conv in found] == [1]  # not one for each word
