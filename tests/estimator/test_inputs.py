"""What a print's layers tell of the input, where the print itself shows none."""

from __future__ import annotations

import pytest

from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import ModelSummary, SummaryError, Workload
from estimator.walk import layers

CLASSES = "  (head): Linear(in_features=64, out_features=10, bias=True), 650 params\n"


def shaped(text: str, seq_len: int | None = None) -> ModelSummary:
    return with_shapes(parse_summary(text), Workload(8, seq_len))


def vit(rows: int, patch: int = 16, root: str = "Net") -> str:
    """Print a vision transformer that owns so many rows of 64 beside its layers."""
    conv, block = 64 * (3 * patch * patch + 1), 64 * 192
    return (
        f"{root}(\n"
        f"  (proj): Conv2d(3, 64, kernel_size=({patch}, {patch}), stride=({patch}, {patch})), {conv:,} params\n"
        "  (attention): SelfAttention(\n"
        f"    (qkv): Linear(in_features=64, out_features=192, bias=False), {block:,} params\n"
        f"  ), {block:,} params\n{CLASSES}), {conv + block + 650 + 64 * rows:,} params\n"
    )


def film(rows: int, kernel: str = "(2, 16, 16)", root: str = "Net") -> str:
    conv, block = 64 * (3 * 512 + 1), 64 * 192
    return (
        f"{root}(\n  (proj): Conv3d(3, 64, kernel_size={kernel}, stride={kernel}), {conv:,} params\n"
        "  (attention): SelfAttention(\n"
        f"    (qkv): Linear(in_features=64, out_features=192, bias=False), {block:,} params\n"
        f"  ), {block:,} params\n{CLASSES}), {conv + block + 650 + 64 * rows:,} params\n"
    )


@pytest.mark.parametrize(
    ("text", "taken", "ground"),
    [
        (vit(14 * 14 + 2), (3, 224, 224), "follows from its table of positions"),
        (vit(24 * 24 + 2), (3, 384, 384), "follows from its table of positions"),
        (vit(8 * 8 + 4, 4), (3, 32, 32), "follows from its table of positions"),
        (vit(0), (3, 224, 224), "was taken"),
        (vit(14 * 14 + 2 + 12), (3, 224, 224), "follows from its table of positions"),
        (vit(14 * 14 + 20), (3, 224, 224), "was taken"),
        (vit(14 * 14 + 2 + 4, root="TimesformerNet"), (3, 4 * 224, 224), "follows from its table of positions"),
        (vit(0, root="TimesformerNet"), (3, 8 * 224, 224), "was taken"),
        (film(16 * 14 * 14 + 2), (3, 32, 224, 224), "follows from its table of positions"),
        (film(0), (3, 16, 224, 224), "was taken"),
        (film(0, "(3, 7, 7)", "VideoResNet"), (3, 16, 112, 112), "was taken"),
        (film(4 * 14 * 14, "(-2, 16, 16)"), (3, 4, 224, 224), "follows from its table of positions"),
        (film(10_000 * 14 * 14), (3, 16, 224, 224), "was taken"),
    ],
)
def test_a_table_of_positions_tells_the_size(text: str, taken: tuple[int, ...], ground: str) -> None:
    found = shaped(text)
    assert found.root.input_shape == taken
    assert len(found.inferred) == 1
    assert ground in found.inferred[0]
    assert "`input_size` says another" in found.inferred[0]


def detector(transform: str, root: str = "RetinaNet") -> str:
    return (
        f"{root}(\n  (backbone): Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False)\n"
        f"  (transform): GeneralizedRCNNTransform({transform})\n)\n"
    )


@pytest.mark.parametrize(
    ("text", "side"),
    [
        (detector("\n    Resize(min_size=(640, 672), max_size=1333, mode='bilinear')\n  "), 672),
        (detector("\n    Resize(min_size=(99999999,), max_size=1333, mode='bilinear')\n  "), 2048),
        (detector(""), 800),
        (detector("", "SSD"), 300),
    ],
)
def test_detectors_say_to_what_they_resize_pictures(text: str, side: int) -> None:
    assert shaped(text).root.input_shape == (3, side, side)


def test_windows_of_a_film_keep_its_axis_of_time() -> None:
    text = """SwinTransformer3d(
  (patch_embed): PatchEmbed3d(
    (proj): Conv3d(3, 32, kernel_size=(2, 4, 4), stride=(2, 4, 4))
    (norm): LayerNorm((32,), eps=1e-05, elementwise_affine=True)
  )
  (attn): ShiftedWindowAttention3d(
    (qkv): Linear(in_features=32, out_features=96, bias=True)
    (proj): Linear(in_features=32, out_features=32, bias=True)
  )
)
"""
    norm, attention = (next(x for x in layers(shaped(text).root) if x.name == name) for name in ("norm", "attn"))
    assert norm.output_shape == attention.output_shape == (8, 56, 56, 32)


CIFAR = """CifarResnet(
  (conv1): Conv2d(3, 64, kernel_size=(3, 3), stride=({stem}, {stem}), padding=(1, 1), bias=False)
  (layers): Sequential(
    (0): Conv2d(64, 128, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False)
    (1): Conv2d(128, 256, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), bias=False)
    (2): Conv2d(256, 512, kernel_size=(3, 3), stride=({last}, {last}), padding=(1, 1), bias=False)
  )
  (linear): Linear(in_features=512, out_features=10, bias=True)
)
"""


@pytest.mark.parametrize(("stem", "last", "side"), [(1, 2, 32), (2, 2, 224), (1, 4, 224)])
def test_a_stem_that_keeps_the_size_and_three_halvings_are_for_small_pictures(stem: int, last: int, side: int) -> None:
    assert shaped(CIFAR.format(stem=stem, last=last)).root.input_shape == (3, side, side)


@pytest.mark.parametrize(("flatten", "side"), [("  (flat): Flatten(start_dim=1, end_dim=-1)\n", 32), ("", 224)])
def test_one_pixel_that_is_flattened_tells_the_size(flatten: str, side: int) -> None:
    pool = "MaxPool2d(kernel_size=4, stride=4, padding=0, dilation=1, ceil_mode=False)"
    text = (
        "Sequential(\n  (0): Conv2d(3, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
        f"  (1): {pool}\n  (2): {pool}\n"
        "  (3): Conv2d(64, 64, kernel_size=(2, 2), stride=(2, 2))\n"
        f"{flatten}  (4): Linear(in_features=64, out_features=10, bias=True)\n)\n"
    )
    assert shaped(text).root.input_shape == (3, side, side)


def unet(stride: int = 1, ups: int = 2, dims: str = "2d", widths: tuple[int, ...] = (1, 8, 16, 32)) -> str:
    def block(at: int, taken: int, given: int, step: int) -> str:
        conv = f"Conv{dims}({taken}, {given}, kernel_size=3, stride={step}, padding=1)"
        return f"    ({at}): Sequential(\n      (0): {conv}\n    )\n"

    downs = "".join(block(at, widths[at], widths[at + 1], stride) for at in range(len(widths) - 1))
    grown = "".join(
        f"    ({at}): ConvTranspose{dims}({32 >> at}, {16 >> at}, kernel_size=2, stride=2)\n" for at in range(ups)
    )
    decoders = "".join(block(at, 32 >> at, 16 >> at, 1) for at in range(ups))
    lists = (("encoders", downs), ("ups", grown), ("decoders", decoders))
    return "Net(\n" + "".join(f"  ({name}): ModuleList(\n{text}  )\n" for name, text in lists) + ")\n"


@pytest.mark.parametrize(
    ("text", "pooled"),
    [
        (unet(), 2),
        (unet(dims="3d"), 2),
        (unet(ups=3), 3),
        (unet(stride=2), 0),  # its convolutions halve
        (unet(ups=1), 0),
        (unet(widths=(1, 32, 16, 32)), 0),
        (unet(ups=4), 0),
    ],
)
def test_a_u_net_that_pools_by_a_function_halves_between_its_stages(text: str, pooled: int) -> None:
    found = shaped(text)
    encoders = found.root.children[0]
    assert sum(part.type.startswith("MaxPool") for part in encoders.children) == pooled
    if pooled == 2:
        side = (found.root.input_shape or (0,))[-1]
        assert encoders.output_shape is not None
        assert encoders.output_shape[-1] == side // 4


POOL = "  (pool): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)\n"
POOL_OF_PAIRS = POOL.replace("=2", "=(2, 2)")
UP = "  (up): Upsample(scale_factor=2.0, mode='bilinear')\n"


def block(name: str, taken: int, given: int) -> str:
    convs = (
        f"    ({at}): Conv2d({width}, {given}, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
        for at, width in enumerate((taken, given))
    )
    return f"  ({name}): Sequential(\n{''.join(convs)}  )\n"


def larger(name: str, taken: int) -> str:
    return f"  ({name}): ConvTranspose2d({taken}, {taken // 2}, kernel_size=(2, 2), stride=(2, 2))\n"


STAGES = block("a", 3, 8) + block("b", 8, 16) + block("c", 16, 32)
SECOND = larger("u2", 32) + block("d2", 32, 16) + larger("u1", 16) + block("d1", 16, 8)
DOWNS = f"  (downs): ModuleList(\n{block('0', 3, 8)}{block('1', 8, 16)}  )\n"
UPS = f"  (ups): ModuleList(\n{larger('0', 32)}{block('1', 32, 16)}{larger('2', 16)}{block('3', 16, 8)}  )\n"
AGAIN = block("d2", 48, 16) + block("d1", 24, 8)


def part(name: str, type_: str, inside: str) -> str:
    return f"  ({name}): {type_}(\n{inside}  )\n"


INNER = block("a", 3, 8) + part("downs", "ModuleList", block("0", 8, 16) + block("1", 16, 32))
LISTED = part("listed", "ModuleList", block("0", 48, 16) + block("1", 24, 8))
ENCODER = part("list", "ModuleList", block("0", 3, 8) + block("1", 8, 16) + block("2", 16, 32))
GROWS = part("grows", "ModuleList", larger("0", 32) + larger("1", 16))
JOINS = part("joins", "ModuleList", block("0", 32, 16) + block("1", 16, 8))


@pytest.mark.parametrize(
    "parts",
    [
        STAGES + POOL + SECOND,
        POOL + STAGES + SECOND,
        STAGES + POOL_OF_PAIRS + SECOND,
        DOWNS + POOL + block("c", 16, 32) + UPS,
        UPS + DOWNS + POOL + block("c", 16, 32),
        DOWNS + UPS + POOL + block("c", 16, 32),
        STAGES + POOL + UP + AGAIN,
        STAGES + POOL + AGAIN,  # a function makes pictures larger
        STAGES + AGAIN,  # and smaller
        STAGES + SECOND,
        STAGES + UP + block("d2", 48, 16) + UP.replace("up", "up2") + block("d1", 24, 8),
        STAGES + larger("u1", 16) + larger("u2", 32) + block("d2", 32, 16) + block("d1", 16, 8),
        STAGES + POOL + larger("u2", 32) + larger("u1", 16) + block("d2", 32, 16) + block("d1", 16, 8),
        INNER + LISTED,
        INNER + POOL + LISTED,
        INNER + POOL + UP + LISTED,
        INNER + UP + LISTED,
        INNER + GROWS + JOINS,
        part("encoder", "Encoder", ENCODER + POOL) + part("decoder", "Decoder", GROWS + JOINS),
        part("encoder", "Encoder", ENCODER) + part("decoder", "Decoder", GROWS + JOINS),
        part("backbone", "UNet", STAGES + SECOND),
    ],
)
def test_the_one_pool_of_a_u_net_is_called_between_all_its_stages(parts: str) -> None:
    text = f"UNet(\n{parts}  (last): Conv2d(8, 1, kernel_size=(1, 1), stride=(1, 1))\n)\n"
    found = with_shapes(parse_summary(text), Workload(8, input_size=(3, 96, 64)))
    made = [layer.output_shape for layer in layers(found.root) if layer.type == "Conv2d" and layer.output_shape]
    assert made == [
        *[(8, 96, 64)] * 2,
        *[(16, 48, 32)] * 2,
        *[(32, 24, 16)] * 2,
        *[(16, 48, 32)] * 2,
        *[(8, 96, 64)] * 2,
        (1, 96, 64),
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_the_one_layer_that_grows_pictures_in_a_neck_is_called_before_each_part_that_joins_them(inside: bool) -> None:
    def conv(name: str, taken: int, given: int, step: int) -> str:
        sizes = f"kernel_size=(3, 3), stride=({step}, {step}), padding=(1, 1)"
        return f"    ({name}): Conv2d({taken}, {given}, {sizes})\n"

    up = "    (up): Upsample(scale_factor=2.0, mode='nearest')\n"
    before = conv("p3", 3, 8, 2) + conv("p4", 8, 16, 2) + conv("p5", 16, 32, 2)
    first = "" if inside else conv("l5", 32, 16, 1)
    grown = first + conv("n1", 48 if inside else 32, 16, 1) + conv("n2", 24, 8, 1)
    smaller = conv("d1", 8, 8, 2) + conv("n3", 24, 16, 1) + conv("d2", 16, 16, 2) + conv("n4", 48, 32, 1)
    parts = f"{before}  )\n  (neck): Neck(\n{up}{grown}{smaller}" if inside else f"{before}{up}{grown}{smaller}"
    text = f"Net(\n  (body): Body(\n{parts}  )\n)\n"
    found = with_shapes(parse_summary(text), Workload(8, input_size=(3, 96, 64)))
    made = {layer.name: layer.output_shape for layer in layers(found.root) if layer.type == "Conv2d"}
    assert [made[name] for name in ("n1", "n2", "d1", "d2")] == [(16, 24, 16), (8, 48, 32), (8, 24, 16), (16, 12, 8)]
    if not inside:
        assert made["l5"] == (16, 12, 8)
    found = with_shapes(parse_summary(text.replace("(24, 8", "(16, 8")), Workload(8))
    assert sum(layer.type == "Upsample" for layer in layers(found.root)) == 1  # it joins nothing there


def test_inner_blocks_of_a_nested_u_net_work_on_the_pictures_of_their_stages() -> None:
    nested = block("n01", 24, 8) + block("n11", 48, 16)
    last = block("n02", 32, 8) + "  (last): Conv2d(8, 1, kernel_size=(1, 1), stride=(1, 1))\n"
    text = f"Nested(\n{POOL}{UP}{STAGES}{nested}{last})\n"
    found = with_shapes(parse_summary(text), Workload(8, input_size=(3, 96, 64)))
    made = {layer.name: layer.output_shape for layer in found.root.children}
    assert [made[name] for name in ("a", "b", "c")] == [(8, 96, 64), (16, 48, 32), (32, 24, 16)]
    assert [made[name] for name in ("n01", "n11", "n02")] == [(8, 96, 64), (16, 48, 32), (8, 96, 64)]
    assert made["last"] == (1, 96, 64)
    # Widths that tell of nothing nested.
    found = with_shapes(parse_summary(text.replace("32, 8,", "40, 8,")), Workload(8, input_size=(3, 96, 64)))
    assert [layer.type for layer in found.root.children[:2]] == ["MaxPool2d", "Upsample"]


@pytest.mark.parametrize(
    "parts",
    [
        STAGES + POOL.replace("=2", "=3") + SECOND,
        STAGES + POOL + POOL.replace("pool", "pool2") + SECOND,
        block("a", 3, 8) + block("b", 8, 16) + POOL + SECOND,
        block("a", 3, 8) + block("b", 8, 8) + block("c", 8, 32) + POOL + SECOND,
        STAGES + POOL + UP + block("d2", 32, 16) + block("d1", 16, 8),
        STAGES + POOL + UP + block("d2", 48, 16),
        STAGES + POOL,
        STAGES + block("d2", 48, 16) + block("d1", 40, 8),
        block("a", 3, 8) + block("b", 8, 16) + block("d1", 24, 8),
        STAGES + larger("u2", 32) + larger("u1", 16),
        STAGES + AGAIN + "  (last): Conv2d(8, 8, kernel_size=(2, 2), stride=(2, 2))\n",
    ],
)
def test_a_pool_of_what_is_no_u_net_stays_where_it_is(parts: str) -> None:
    names = [line[3] for line in parts.splitlines() if line.startswith("  (")]
    assert [part.name[0] for part in shaped(f"Net(\n{parts})\n").root.children] == names


@pytest.mark.parametrize("head", ["", block("e", 3, 3)])
def test_what_undoes_the_one_pool_goes_before_each_stage_of_the_second_half(head: str) -> None:
    unpool = "  (unpool): MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))\n"
    halves = block("a", 3, 8) + block("b", 8, 8) + block("c", 8, 8) + block("d", 8, 3) + head
    text = f"SegNet(\n{halves}{POOL}{unpool})\n"
    found = with_shapes(parse_summary(text), Workload(8, input_size=(3, 96, 64)))
    made = [layer.output_shape for layer in found.root.children if layer.type == "Sequential"]
    assert made[:4] == [(8, 96, 64), (8, 48, 32), (8, 48, 32), (3, 96, 64)]
    assert len(found.root.children) == 8 + len(made[4:])
    # Parts that do not take what the one before gives out.
    other = text.replace(block("c", 8, 8), block("c", 16, 8))
    found = with_shapes(parse_summary(other), Workload(8, input_size=(3, 96, 64)))
    assert [layer.name for layer in found.root.children[-2:]] == ["pool", "unpool"]


def test_a_generator_begins_with_one_pixel() -> None:
    text = (
        "Sequential(\n  (0): ConvTranspose2d(100, 64, kernel_size=(4, 4), stride=(1, 1), bias=False)\n"
        "  (1): ConvTranspose2d(64, 3, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1), bias=False)\n)\n"
    )
    found = shaped(text)
    assert [layer.output_shape for layer in found.root.children] == [(64, 4, 4), (3, 8, 8)]


def test_squares_of_pixels_become_channels() -> None:
    conv = "Conv2d(48, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))"
    text = f"TResNet(\n  (s2d): SpaceToDepth()\n  (conv): {conv}\n)\n"
    assert shaped(text).root.input_shape == (48, 56, 56)


@pytest.mark.parametrize(("channels", "taken"), [(4, (4, 224, 224)), (256, (128,))])
def test_a_time_step_before_a_picture_is_not_the_input(channels: int, taken: tuple[int, ...]) -> None:
    text = (
        "Net(\n  (embed): Linear(in_features=128, out_features=512, bias=True)\n"
        f"  (conv): Conv2d({channels}, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n)\n"
    )
    assert shaped(text).root.input_shape == taken


@pytest.mark.parametrize(
    ("root", "side"),
    [("SegformerForSemanticSegmentation", 512), ("SegformerForImageClassification", 224), ("MyYoloV5", 640)],
)
def test_names_that_tell_the_usual_size(root: str, side: int) -> None:
    text = f"{root}(\n  (conv): Conv2d(3, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n)\n"
    assert shaped(text).root.input_shape == (3, side, side)


def test_moments_of_a_film_stand_side_by_side() -> None:
    found = shaped(film(8 * 14 * 14 + 1))
    assert layers(found.root)[1].output_shape == (64, 8 * 14, 14)
    assert next(layer.output_shape for layer in layers(found.root) if layer.name == "qkv") == (8 * 14, 14, 192)


def test_blocks_that_work_on_time_keep_its_axis() -> None:
    text = film(8 * 14 * 14 + 1).replace("SelfAttention(", "SelfAttention3d(")
    assert layers(shaped(text).root)[1].output_shape == (64, 8, 14, 14)


def test_several_branches_have_a_table_each() -> None:
    second = "  (proj2): Conv2d(3, 64, kernel_size=(12, 12), stride=(12, 12)), 27,712 params\n"
    text = vit(24 * 24 + 2).replace("  (attention)", second + "  (attention)")
    assert shaped(text).root.input_shape == (3, 224, 224)


def test_other_volumes_are_no_films() -> None:
    text = "Net(\n  (conv): Conv3d({}, 8, kernel_size=(3, 3, 3), stride=(1, 1, 1))\n)"
    assert shaped(text.format(4)).root.input_shape == (4, 128, 128, 128)
    assert shaped(text.format(1)).root.input_shape == (1, 96, 96, 96)


def flat(features: int, channels: int = 3, more: str = "") -> str:
    return (
        f"Net(\n  (conv1): Conv2d({channels}, 6, kernel_size=(5, 5), stride=(1, 1))\n"
        f"  (pool): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)\n{more}"
        "  (conv2): Conv2d(6, 16, kernel_size=(5, 5), stride=(1, 1))\n"
        f"  (fc1): Linear(in_features={features}, out_features=120, bias=True)\n"
        "  (fc2): Linear(in_features=120, out_features=10, bias=True)\n)"
    )


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (flat(16 * 10 * 10), (3, 32, 32)),
        (flat(16 * 5 * 5), (3, 32, 32)),  # pooled once more, in no layer
        (flat(16 * 26 * 26), (3, 64, 64)),
        (flat(16 * 8 * 8, 1), (1, 28, 28)),
        (flat(16 * 10 * 10 + 1), (3, 224, 224)),
        (flat(16 * 7 * 7), (3, 224, 224)),
        (flat(16 * 10 * 10, more="  (gap): AdaptiveAvgPool2d(output_size=(10, 10))\n"), (3, 224, 224)),
        (flat(16 * 10 * 10).replace("Conv2d(6", "Conv2d(9"), (3, 224, 224)),
        (flat(16 * 10 * 10).replace("kernel_size=2", "size=2"), (3, 224, 224)),
    ],
)
def test_a_flattened_picture_tells_its_size(text: str, taken: tuple[int, ...]) -> None:
    assert shaped(text).root.input_shape == taken


def small(*strides: int, more: str = "") -> str:
    rows = "".join(
        f"  (conv{index}): Conv2d({3 if not index else 8 * index}, {8 * index + 8}, kernel_size=(3, 3), "
        f"stride=({stride}, {stride}), padding=(1, 1))\n"
        for index, stride in enumerate(strides)
    )
    width = 8 * len(strides)
    return f"Net(\n{rows}{more}  (fc): Linear(in_features={width}, out_features=10, bias=True)\n)"


@pytest.mark.parametrize(
    ("text", "side"),
    [
        (small(1, 2, 2), 32),
        (small(1, 1, 1), 224),
        (small(2, 2, 2, 2), 224),
        (small(1, 2, 2, more="  (pool): MaxPool2d(kernel_size=3, stride=2)\n"), 224),
        (small(1, 2, 2, more="  (pool): AdaptiveAvgPool2d(output_size=1)\n"), 32),
        (small(1, 2, 2, more="  (up): ConvTranspose2d(24, 24, kernel_size=(2, 2), stride=(2, 2))\n"), 224),
        (small(1, 2, 2, more="  (time_mlp): Linear(in_features=24, out_features=24, bias=True)\n"), 64),
    ],
)
def test_networks_that_seldom_halve_are_for_small_pictures(text: str, side: int) -> None:
    found = shaped(text)
    assert found.root.input_shape == (3, side, side)
    assert "the print shows no input" in found.inferred[-1]


def patches(features: int, rows: int = 0) -> str:
    first, block = 64 * (features + 1), 64 * 192
    return (
        f"Net(\n  (patch): Linear(in_features={features}, out_features=64, bias=True), {first:,} params\n"
        "  (attention): SelfAttention(\n"
        f"    (qkv): Linear(in_features=64, out_features=192, bias=False), {block:,} params\n"
        f"  ), {block:,} params\n{CLASSES}), {first + block + 650 + 64 * rows:,} params\n"
    )


@pytest.mark.parametrize(
    ("text", "seq_len", "tokens", "ground"),
    [
        (patches(768), None, 196, "196 tokens were taken, patches of a picture of 224x224"),
        (patches(768, 24 * 24 + 2), None, 576, "576 tokens follow from its table of positions"),
        (patches(100, 120), None, 120, "120 tokens follow from its table of positions"),
        (patches(100), None, 512, "512 tokens were taken: say `seq_len=N`"),
        (patches(768), 50, 50, ""),
    ],
)
def test_a_transformer_of_features_takes_more_than_one_token(
    text: str, seq_len: int | None, tokens: int, ground: str
) -> None:
    found = shaped(text, seq_len)
    assert (found.root.input_shape or ())[0] == tokens
    assert ground in " ".join(found.inferred)
    assert bool(ground) is bool(found.inferred)


def test_what_a_print_cannot_tell_is_an_error_with_a_cure() -> None:
    with pytest.raises(SummaryError, match=r"a print of Net shows neither its latent array .*: paste what torchinfo"):
        shaped("Net(\n  (conv): Conv2d(3, 8, kernel_size=(3, 3))\n  (embeddings): PerceiverEmbeddings()\n)")


EEG = """EEG(
  (temporal): Conv2d({first}, 8, kernel_size={kernel}, stride=(1, 1), bias=False)
  (norm): BatchNorm2d(8, eps=1e-05)
  (spatial): Conv2d(8, 16, kernel_size={other}, stride=(1, 1))
  (fc): Linear(in_features=16, out_features=4, bias=True)
)
"""


@pytest.mark.parametrize(
    ("first", "kernel", "other", "seen"),
    [
        (1, (1, 64), (22, 1), (1, 22, 1000)),
        (1, (64, 1), (1, 22), (1, 1000, 22)),
        (1, (22, 1), (1, 25), (1, 22, 1000)),
        (22, (1, 64), (1, 16), (22, 1, 1000)),
    ],
)
def test_series_side_by_side_are_no_picture(
    first: int, kernel: tuple[int, int], other: tuple[int, int], seen: tuple[int, ...]
) -> None:
    text = EEG.format(first=first, kernel=kernel, other=other)
    with pytest.raises(SummaryError, match=r"temporal.*does not show what it takes.*input_size"):
        with_shapes(parse_summary(text), Workload(4))
    shaped = with_shapes(parse_summary(text), Workload(4, input_size=(22, 1000)))
    assert shaped.root.input_shape == seen


@pytest.mark.parametrize(
    "conv", ["GCNConv(7, 64)", "SAGEConv(7, 64, aggr=mean)", "GINConv(nn=Sequential(\n    (0): Linear(7, 64)\n  ))"]
)
@pytest.mark.parametrize("counts", ["", ", 130 params"])
def test_a_print_of_a_graph_network_shows_no_nodes(conv: str, counts: str) -> None:
    text = f"Net(\n  (conv): {conv}\n  (head): Linear(in_features=64, out_features=2, bias=True){counts}\n)\n"
    with pytest.raises(SummaryError, match=rf"'{conv.partition('(')[0]}' works on nodes.*torchinfo"):
        shaped(text)


def test_a_convolution_without_a_kernel_tells_no_picture() -> None:
    text = (
        "Net(\n  (conv): RelationConvLayer(3, 64, relations=5)\n  (head): Linear(in_features=64, out_features=2)\n)\n"
    )
    with pytest.raises(SummaryError, match=r"RelationConvLayer.*shows no kernel.*torchinfo"):
        shaped(text)
    convs = text.replace("RelationConvLayer(3, 64, relations=5)", "MBConv(3, 64, kernel_size=3)")
    assert shaped(convs).root.input_shape == (3, 32, 32)


def test_more_channels_than_a_picture_has_tell_no_size() -> None:
    text = "Net(\n  (0): Conv2d(40, 8, kernel_size=(3, 3), stride=(1, 1))\n  (1): ReLU()\n)"
    with pytest.raises(SummaryError, match="takes no picture of a usual size"):
        with_shapes(parse_summary(text), Workload(4))
    cut = "  (patch): Rearrange('b c (h p1) (w p2) -> b (c p1 p2) h w', p1=2, p2=2)\n"
    folded = with_shapes(parse_summary(text.replace("(40", "(12").replace("  (0)", f"{cut}  (0)")), Workload(4))
    assert folded.root.input_shape == (12, 112, 112)


def test_grey_pictures_are_small_only_where_the_network_leaves_something_of_them() -> None:
    conv = "  ({0}): Conv2d({1}, {2}, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))\n"
    small = "".join(conv.format(at, 2 * at or 1, 2 * at + 2) for at in range(3))
    large = small + conv.format(3, 6, 8)
    sides = [with_shapes(parse_summary(f"Net(\n{rows})"), Workload(4)).root.input_shape for rows in (small, large)]
    assert sides == [(1, 28, 28), (1, 224, 224)]


def test_films_that_an_autoencoder_made_small_are_no_volumes() -> None:
    text = """Video(
  (patch): Conv3d(16, 64, kernel_size=(1, 2, 2), stride=(1, 2, 2))
  (blocks): ModuleList(
    (0): Block(
      (attn): Attention(
        (to_q): Linear(in_features=64, out_features=64, bias=True)
      )
      (norm): LayerNorm((64,), eps=1e-06)
    )
  )
)
"""
    shaped = with_shapes(parse_summary(text), Workload(4))
    assert shaped.root.input_shape == (16, 4, 64, 64)


def test_projections_of_an_attention_are_no_table_of_positions() -> None:
    text = """Net(
  (mha): MultiheadAttention(
    (out_proj): NonDynamicallyQuantizableLinear(in_features=64, out_features=64, bias=True), 4,160 params
  ), 16,640 params
  (norm): LayerNorm((64,), eps=1e-05, elementwise_affine=True), 128 params
), 16,768 params
"""
    assert with_shapes(parse_summary(text), Workload(4)).root.input_shape == (512, 64)
