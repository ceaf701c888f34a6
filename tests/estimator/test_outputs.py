"""What layers that say their sizes give out."""

from __future__ import annotations

import pytest

from estimator import outputs
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import Workload
from estimator.walk import layers

Shape = tuple[int, ...]
PATCHES = "'b c (h p1) (w p2) -> b (h w) (p1 p2 c)'"


@pytest.mark.parametrize(
    ("pattern", "sides", "before", "after"),
    [
        (PATCHES, {"p1": "16", "p2": "16"}, (3, 224, 224), (196, 768)),
        ("'b n (h d) -> b h n d'", {"h": "8"}, (196, 512), (8, 196, 64)),
        ("'b c h w -> b c'", {"1": "'mean'"}, (64, 7, 7), (64,)),
        ("'b d (x w1) (y w2) -> b x y w1 w2 d'", {"w1": "7", "w2": "7"}, (96, 56, 28), (8, 4, 7, 7, 96)),
        ("'b d (x w1) (y w2) -> (b x y) (w1 w2) d'", {"w1": "7", "w2": "7"}, (96, 56, 28), (32, 49, 96)),
        ("'b ... d -> b d ...'", {}, (4, 5, 6), (6, 4, 5)),
        ("'b c -> b c 1 1'", {}, (64,), (64, 1, 1)),
        ("'b () n -> b n'", {}, (1, 9), (9,)),
    ],
)
def test_patterns_of_einops(pattern: str, sides: dict[str, str], before: Shape, after: Shape) -> None:
    assert outputs.rearranged({"0": pattern, **sides}, before) == after


@pytest.mark.parametrize(
    ("pattern", "before"),
    [
        (PATCHES, (196, 768)),
        (PATCHES, (3, 225, 224)),
        ("'(b t) c -> b t c'", (8, 8)),
        ("'b c'", (8,)),
        ("'-> b'", (8,)),
    ],
)
def test_patterns_that_do_not_fit_are_said_so(pattern: str, before: Shape) -> None:
    with pytest.raises((ValueError, IndexError)):
        outputs.rearranged({"0": pattern, "p1": "16", "p2": "16"}, before)


def test_unfolding_gives_a_row_for_each_place() -> None:
    args = {"kernel_size": "7", "dilation": "1", "padding": "2", "stride": "4"}
    assert outputs.unfolded(args, (3, 224, 224)) == (147, 56 * 56)


@pytest.mark.parametrize(
    ("type_", "args", "after"),
    [
        ("Upsample", {"scale_factor": "(2.0, 4.0)"}, (64, 16, 32)),
        ("InterpolationBlock", {"scale_factor": "2", "out_size": "None", "up": "False"}, (64, 4, 4)),
        ("InterpolationBlock", {"scale_factor": "None", "out_size": "(32, 16)"}, (64, 32, 16)),
        ("InterpolationBlock", {"scale_factor": "None", "out_size": "None"}, (64, 8, 8)),
        ("MaxUnpool2d", {"kernel_size": "(2, 2)", "stride": "(2, 2)", "padding": "(0, 0)"}, (64, 16, 16)),
        ("ZeroPad2d", {"0": "(1, 2, 3, 4)"}, (64, 15, 11)),
        ("ReLU", {"0": "2"}, (64, 8, 8)),
    ],
)
def test_what_makes_pictures_larger_or_smaller(type_: str, args: dict[str, str], after: Shape) -> None:
    assert outputs.resized(type_, args, (64, 8, 8)) == after


def test_tokens_in_rows_are_a_picture_for_what_resizes_it() -> None:
    assert outputs.resized("Upsample", {"scale_factor": "2.0"}, (8, 8, 64)) == (64, 16, 16)


def test_a_row_that_moves_axes_takes_what_makes_it_fit_the_layer_behind_it() -> None:
    text = f"""Net(
  (stem): Conv2d(3, 32, kernel_size=(4, 4), stride=(4, 4))
  (regions): Sequential(
    (0): Rearrange({PATCHES.replace("b (h w) (p1 p2 c)", "b (c p1 p2) h w")}, p1=28, p2=28)
    (1): Conv2d(2352, 64, kernel_size=(1, 1), stride=(1, 1))
  )
)
"""
    summary = with_shapes(parse_summary(text), Workload(2))
    assert next(layer.output_shape for layer in layers(summary.root) if layer.name == "1") == (64, 8, 8)


def test_channels_become_squares_of_pixels_and_these_channels() -> None:
    assert outputs.shuffled("PixelShuffle", {"upscale_factor": "3"}, (36, 20, 30)) == (4, 60, 90)
    assert outputs.shuffled("PixelUnshuffle", {"downscale_factor": "2"}, (3, 20, 31)) == (12, 10, 15)
    for before in ((35, 20, 30), (36, 20)):
        with pytest.raises(ValueError, match=r"channels|picture"):
            outputs.shuffled("PixelShuffle", {"upscale_factor": "3"}, before)
