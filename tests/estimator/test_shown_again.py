"""Prints: what stands in them twice, and what goes into parts that their code connects."""

from __future__ import annotations

import pytest

from estimator.layer import Layer
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import ModelSummary, Workload
from estimator.walk import layers

UNIT = """{pad}(conv): Conv2d({0}, {1}, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)){2}
{pad}(act): ReLU()
{pad}(all): Sequential(
{pad}  (0): Conv2d({0}, {1}, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)){2}
{pad}  (1): ReLU()
{pad})
"""


def shaped(text: str, size: tuple[int, ...]) -> ModelSummary:
    return with_shapes(parse_summary(text), Workload(4, input_size=size))


def leaf(summary: ModelSummary, name: str) -> Layer:
    return next(layer for layer in layers(summary.root) if layer.name == name)


@pytest.mark.parametrize("counts", ["", ", 224 params"])
def test_a_row_of_the_parts_before_it_is_these_parts(counts: str) -> None:
    end = ", 448 params" if counts else ""
    text = "Block(\n" + UNIT.format(3, 8, counts, pad="  ") + f"  (last): ReLU()\n){end}\n"
    summary = parse_summary(text)
    assert [part.name for part in summary.root.children] == ["conv", "act", "last"]
    assert summary.total_params == 224 == sum(layer.params for layer in layers(summary.root))


def test_a_row_of_other_layers_stays() -> None:
    text = "Block(\n" + UNIT.format(3, 8, "", pad="  ").replace("(0): Conv2d(3, 8", "(0): Conv2d(8, 8") + ")\n"
    assert len(parse_summary(text).root.children) == 3


def test_a_decoder_that_holds_its_encoder_shows_it_again() -> None:
    encoder = (
        "(encoder): Encoder(\n{0}  (conv): Conv2d(1, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))\n{0})\n"
    )
    up = "    (up): ConvTranspose2d(8, 2, kernel_size=(2, 2), stride=(2, 2))\n"
    text = f"UNet(\n  {encoder.format('  ')}  (decoder): Decoder(\n    {encoder.format('    ')}{up}  )\n)\n"
    summary = shaped(text, (1, 64, 64))
    assert summary.total_params == 80 + 66
    assert [part.name for part in summary.root.children[1].children] == ["up"]
    other = parse_summary(text.replace("(decoder)", "(teacher)"))
    assert other.total_params == 2 * 80 + 66


def test_a_codebook_gives_out_the_picture_that_it_took() -> None:
    text = """VQ(
  (encode): Conv2d(3, 16, kernel_size=(4, 4), stride=(4, 4))
  (codes): Embedding(256, 16)
  (decode): ConvTranspose2d(16, 3, kernel_size=(4, 4), stride=(4, 4))
)
"""
    found = shaped(text, (3, 64, 64))
    assert leaf(found, "codes").output_shape == (16, 16, 16)
    assert found.root.output_shape == (3, 64, 64)


def test_convolutions_padded_in_code_along_time_keep_the_moments() -> None:
    conv = "Conv3d({0}, 8, kernel_size=(3, 3, 3), stride=({1}, {1}, {1}), padding={2})"
    for step, padding, moments in ((1, "(0, 1, 1)", 9), (2, "(0, 1, 1)", 5), (1, "(0, 0, 0)", 7)):
        text = f"Net(\n  (first): {conv.format(3, step, padding)}\n)\n"
        assert (leaf(shaped(text, (3, 9, 16, 16)), "first").output_shape or ())[1] == moments


def test_a_row_that_pools_first_takes_as_many_channels_as_its_convolution() -> None:
    text = """Net(
  (stem): Conv2d(3, 16, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
  (block): Block(
    (wide): Conv2d(16, 64, kernel_size=(1, 1), stride=(1, 1))
    (choose): Sequential(
      (0): AdaptiveAvgPool2d(output_size=1)
      (1): Conv2d(16, 4, kernel_size=(1, 1), stride=(1, 1))
    )
  )
)
"""
    chosen = leaf(shaped(text, (3, 32, 32)), "choose").children
    assert [part.output_shape for part in chosen] == [(16, 1, 1), (4, 1, 1)]


def test_heads_of_several_stages_take_the_pictures_of_these() -> None:
    text = """Net(
  (down): Conv2d(3, 48, kernel_size=(3, 3), stride=(4, 4), padding=(1, 1))
  (up): ConvTranspose2d(48, 16, kernel_size=(4, 4), stride=(4, 4))
  (heads): ModuleList(
    (0): Conv2d(48, 2, kernel_size=(1, 1), stride=(1, 1))
    (1): Conv2d(16, 2, kernel_size=(1, 1), stride=(1, 1))
  )
)
"""
    assert [part.output_shape for part in leaf(shaped(text, (3, 64, 64)), "heads").children] == [
        (2, 16, 16),
        (2, 64, 64),
    ]
