"""What goes into the layers of a print whose code connects them otherwise than they are listed."""

from __future__ import annotations

import pytest

from estimator.methods.rad.kinds import Kind
from estimator.parsers import parse_summary
from estimator.types import SummaryError
from estimator.walk import layers
from tests.estimator.accounts import account


def conv(taken: int, given: int, *, kernel: int = 3, step: int = 1) -> str:
    pad = kernel // 2 if kernel % 2 else 0
    return (
        f"Conv2d({taken}, {given}, kernel_size=({kernel}, {kernel}), stride=({step}, {step}), padding=({pad}, {pad}))"
    )


def block(type_: str, **parts: str) -> str:
    """Print a block; numbered parts are called ``_0``, ``_1``, .."""
    lines = [f"({name.removeprefix('_')}): {text}" for name, text in parts.items()]
    body = "\n".join(lines).replace("\n", "\n  ")
    return f"{type_}(\n  {body}\n)"


def shapes(text: str, type_: str, **workload: object) -> list[tuple[int, ...] | None]:
    root = account(text, **workload)[0].root
    return [layer.output_shape for layer in layers(root) if layer.type == type_]


def test_a_network_that_looks_at_points_one_by_one_takes_no_pictures() -> None:
    text = block("PointNet", first=conv(6, 64, kernel=1), second=conv(64, 128, kernel=1))
    with pytest.raises(SummaryError, match=r"takes no picture of a usual size.*input_size"):
        account(text)
    assert shapes(text, "Conv2d", input_size=(6, 1024, 32)) == [(64, 1024, 32), (128, 1024, 32)]
    grown = block("Net", first=conv(6, 64, kernel=1), second=conv(64, 128))
    assert shapes(grown, "Conv2d")[0] == (64, 224, 224)


def test_convolutions_in_a_list_that_take_one_another_s_output_are_a_chain() -> None:
    embeds = block("ModuleList", _0=conv(3, 32, kernel=7, step=4), _1=conv(32, 64, step=2), _2=conv(64, 160, step=2))
    found = shapes(block("Net", embeds=embeds), "Conv2d", input_size=(3, 256, 256))
    assert found == [(32, 64, 64), (64, 32, 32), (160, 16, 16)]
    heads = block("ModuleList", _0=conv(32, 8), _1=conv(32, 8))
    found = shapes(block("Net", stem=conv(3, 32), heads=heads), "Conv2d", input_size=(3, 64, 64))
    assert found[1:] == [(8, 64, 64), (8, 64, 64)]


def test_a_norm_in_a_list_takes_the_earlier_picture_of_its_channels() -> None:
    stages = block("Stages", a=conv(3, 32), b=conv(32, 64, step=2), c=conv(64, 128, step=2))
    norms = block("ModuleList", _0="LayerNorm2d((64,), eps=1e-06)", _1="LayerNorm2d((128,), eps=1e-06)")
    text = block("Net", stages=stages, again=conv(3, 16), norms=norms)
    found = shapes(text, "LayerNorm2d", input_size=(3, 80, 80))
    assert found == [(64, 40, 40), (128, 20, 20)]


def test_a_stage_that_is_listed_before_what_makes_its_picture_smaller() -> None:
    stages = [block("Block", conv=conv(width, width)) for width in (32, 64, 128)]
    encoders = block("ModuleList", _0=stages[0], _1=stages[1], _2=stages[2])
    ending = conv(32, 3)
    downs = block("ModuleList", _0=conv(32, 64, kernel=2, step=2), _1=conv(64, 128, kernel=2, step=2))
    text = block("Net", intro=conv(3, 32), encoders=encoders, ending=ending, downs=downs)
    found = shapes(text, "Block", input_size=(3, 64, 64))
    assert found == [(32, 64, 64), (64, 32, 32), (128, 16, 16)]


def test_equal_blocks_of_a_row_are_followed_once() -> None:
    inner = [block("Block", one=conv(32, 32), two=conv(32, 32)), block("Block", one=conv(32, 64), two=conv(64, 32))]
    row = block("Sequential", _0=inner[0], _1=inner[0], _2=inner[1], _3=inner[0])
    text = block(
        "Net", stem=conv(3, 32), row=row, norms=block("Sequential", _0="BatchNorm2d(32)", _1="BatchNorm2d(32)")
    )
    root = account(text, input_size=(3, 64, 64))[0].root
    first, second, third, fourth = root.children[1].children
    assert first is second is fourth
    assert [layer.output_shape for layer in third.children] == [(64, 64, 64), (32, 64, 64)]
    # Layers that are looked for among pictures are not.
    assert [layer.name for layer in root.children[2].children] == ["0", "1"]


def test_a_block_that_looks_at_the_whole_picture_again_takes_it_as_small_as_the_one_at_hand() -> None:
    inner = block("Reinforce", conv=conv(3, 3), widen=conv(3, 64, kernel=1))
    down = block("Down", conv=conv(32, 64, step=2), reinforce=inner)
    text = block("Net", stem=conv(3, 32, step=2), stage=block("Stage", down=down), last=conv(64, 64))
    assert shapes(text, "Conv2d", input_size=(3, 64, 64))[-1] == (64, 16, 16)
    branch = text.replace(conv(3, 3), conv(3, 3, step=2))  # it makes the picture smaller itself
    assert shapes(branch, "Conv2d", input_size=(3, 64, 64))[-1] == (64, 32, 32)


@pytest.mark.parametrize(("words", "seconds"), [("", 100), ("Embedding(30522, 64), 1953408 params", 5)])
def test_the_length_of_a_text_is_no_length_of_sound(words: str, seconds: int) -> None:
    attention = "LayerNorm((64,), eps=1e-05), 128 params"
    attend = block("SelfAttention", q="Linear(in_features=64, out_features=64, bias=True), 4160 params")
    parts = {
        "conv": "Conv1d(1, 64, kernel_size=(10,), stride=(5,)), 704 params",
        "norm": attention,
        "attention": attend,
    }
    if words:
        parts["words"] = words
    root = account(block("Net", **parts), seq_len=100)[0].root
    assert root.input_shape == (1, seconds * 16_000)


@pytest.mark.parametrize(("own", "matrix"), [(225, 1024 * 64), (675, 3 * 1024 * 64), (100, 1024 * 1024)])
def test_a_table_for_each_way_between_two_tokens_says_how_large_a_window_is(own: int, matrix: int) -> None:
    lines = [f"({name}): Linear(in_features=48, out_features=48, bias=True), 2352 params" for name in ("q", "k", "v")]
    text = (
        "SwinModel(\n  (patch): Conv2d(3, 48, kernel_size=(4, 4), stride=(4, 4)), 2352 params\n"
        "  (attention): WindowAttention(\n    "
        + "\n    ".join(lines)
        + "\n    (proj): Linear(in_features=48, out_features=48, bias=True), 2352 params\n"
        f"    (softmax): Softmax(dim=-1)\n  ), {4 * 2352 + own} params\n), {5 * 2352 + own} params\n"
    )
    _, program, _ = account(text.replace("WindowAttention", "EagerWindowAttention"), input_size=(3, 128, 128))
    assert [op.matrix for op in program.ops if op.kind is Kind.ATTENTION] == [matrix]


def test_what_scales_a_block_from_a_time_step_is_not_what_its_attention_takes() -> None:
    """512 tokens of 512 numbers stay that many, though 3,072 numbers that scale them are listed before them."""

    def linear(taken: int, given: int) -> str:
        return f"Linear(in_features={taken}, out_features={given}, bias=True)"

    scales = block("AdaLayerNormZero", silu="SiLU()", linear=linear(512, 3072), norm="LayerNorm((512,), eps=1e-06)")
    attention = block("Attention", **{name: linear(512, 512) for name in ("to_q", "to_k", "to_v", "to_out")})
    layer = block("Block", norm1=scales, norm1_context=scales, attn=attention)
    blocks = block("ModuleList", _0=layer, _1=layer)
    text = block("Net", embed=linear(64, 512), transformer_blocks=blocks, proj_out=linear(512, 64))
    each = [(512, 3072)] * 2 + [(512, 512)] * 4
    assert shapes(text, "Linear") == [(512, 512), *each, *each, (512, 64)]


def test_a_network_that_makes_pictures_larger_by_their_channels() -> None:
    ups = block("Sequential", _0=conv(64, 256), _1="PixelShuffle(upscale_factor=2)", _2=conv(64, 3))
    text = block("Net", head=conv(3, 64), up=ups)
    assert shapes(text, "PixelShuffle", input_size=(3, 48, 64)) == [(64, 96, 128)]
    assert shapes(text, "Conv2d", input_size=(3, 48, 64))[-1] == (3, 96, 128)
    assert account(text, input_size=(3, 48, 64))[2].kept == 2 * 4 * (3 * 48 * 64 + 64 * 48 * 64 + 64 * 96 * 128)


def test_pixels_that_become_channels_are_copied_and_the_first_time_are_those_that_go_in() -> None:
    text = block(
        "Net", _0="PixelUnshuffle(downscale_factor=2)", _1=conv(12, 8), _2="PixelUnshuffle(downscale_factor=2)"
    )
    assert shapes(text, "PixelUnshuffle", input_size=(3, 64, 64)) == [(12, 32, 32), (32, 16, 16)]
    program = account(text, input_size=(3, 64, 64))[1]
    assert [op.kind for op in program.ops] == [Kind.NEW, Kind.CONV, Kind.NEW]


def csp(inner: int, blocks: str, joined: int) -> str:
    return block("C2f", cv1=conv(32, 2 * inner, kernel=1), cv2=conv(joined, 32, kernel=1), m=blocks)


def test_half_of_a_picture_goes_through_blocks_and_all_is_joined_then() -> None:
    bottleneck = block("Bottleneck", cv1=conv(16, 16), cv2=conv(16, 16))
    twice = block("ModuleList", _0=bottleneck, _1=bottleneck)
    text = block("Net", stem=conv(3, 32, step=2), csp=csp(16, twice, 4 * 16))
    found = account(text, input_size=(3, 64, 64))
    taken = [layer.input_shape for layer in layers(found[0].root) if layer.type == "Conv2d"]
    assert taken[2:] == [*[(16, 32, 32)] * 4, (64, 32, 32)]
    # What the halves are of is kept once, whole: the stem's input and output, both halves, three more, and all joined.
    assert found[2].kept == 2 * 4 * (3 * 64 * 64 + (32 + 32 + 3 * 16 + 64) * 32 * 32)
    row = block("Net", stem=conv(3, 32, step=2), csp=csp(16, block("Sequential", _0=bottleneck), 2 * 16))
    taken = [layer.input_shape for layer in layers(account(row, input_size=(3, 64, 64))[0].root)][-3:]
    assert taken == [(16, 32, 32), (16, 32, 32), (32, 32, 32)]


def test_a_way_around_a_block_takes_no_half_of_what_is_in_it() -> None:
    wide = block("Block", conv1=conv(16, 32), conv2=conv(32, 32), shortcut=conv(16, 32, kernel=1))
    program = account(block("Net", stem=conv(3, 16), wide=wide), input_size=(3, 8, 8))[1]
    assert [op.conv.channels_in for op in program.ops if op.conv is not None] == [3, 16, 32, 16]
    assert program.tensors[program.ops[-1].x] == 16 * 8 * 8


@pytest.mark.parametrize(
    ("change", "side"),
    [
        (("Net", "Net"), 16),
        (("Transition(", "Block("), 32),
        (("kernel_size=(1, 1)", "kernel_size=(3, 3)"), 30),
        (("16, 8,", "16, 16,"), 32),
        (("(conv)", "(pool): AvgPool2d(kernel_size=4, stride=4)\n    (conv)"), 8),
    ],
    ids=["transition", "of another name", "of another kernel", "as wide", "that pools itself"],
)
def test_between_the_stages_of_a_densenet_code_pools(change: tuple[str, str], side: int) -> None:
    norm = "BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)"
    between = block("Transition", bn=norm, conv=conv(16, 8, kernel=1))
    text = block("Net", stem=conv(3, 16), trans=between, last=conv(8, 4)).replace(*change)
    text = text if "16, 16," not in change[1] else text.replace("Conv2d(8, 4", "Conv2d(16, 4")
    assert shapes(text, "Conv2d", input_size=(3, 32, 32))[-1] == (4, side, side)


def test_some_axes_of_a_picture_become_tokens() -> None:
    parts = {
        "proj": conv(3, 64, kernel=8, step=8),
        "flat": "Flatten(start_dim=2, end_dim=-1)",
        "norm": "LayerNorm((64,))",
    }
    text = block("Net", **parts, mlp="Linear(in_features=64, out_features=256, bias=True)")
    assert shapes(text, "Flatten", input_size=(3, 80, 80)) == [(64, 100)]
    assert shapes(text, "Linear", input_size=(3, 80, 80)) == [(100, 256)]
    joined = text.replace("end_dim=-1", "end_dim=3")
    assert shapes(joined, "Flatten", input_size=(3, 80, 80)) == [(64, 100)]
    whole = text.replace("start_dim=2", "start_dim=1")
    assert shapes(whole, "Flatten", input_size=(3, 80, 80)) == [(6400,)]


def test_a_gate_of_linear_layers_gives_back_the_picture() -> None:
    fewer = block(
        "Sequential", _0="Linear(in_features=64, out_features=4)", _1="Linear(in_features=4, out_features=64)"
    )
    gate = block("SELayer", avg_pool="AdaptiveAvgPool2d(output_size=1)", fc=fewer)
    text = block("Net", stem=conv(3, 64), gate=gate, conv=conv(64, 64))
    assert shapes(text, "SELayer", input_size=(3, 80, 80)) == [(64, 80, 80)]
    # What makes more of the channels is no gate.
    more = text.replace("out_features=4)", "out_features=256)").replace("in_features=4,", "in_features=256,")
    assert shapes(more, "SELayer", input_size=(3, 80, 80)) == [(64,)]


@pytest.mark.parametrize("way", ["Sequential()", "LambdaLayer()"])
def test_an_empty_way_around_a_block_that_makes_another_picture_is_not_called(way: str) -> None:
    inner = block("Block", conv1=conv(32, 64, step=2), bn1="BatchNorm2d(64)", shortcut=way)
    text = block("Net", stem=conv(3, 32), block=inner, last=conv(64, 64))
    assert shapes(text, "Conv2d", input_size=(3, 80, 80)) == [(32, 80, 80), (64, 40, 40), (64, 40, 40)]


def test_pooling_that_is_listed_before_all_layers_goes_before_the_classifier() -> None:
    parts = {"pool": "AdaptiveAvgPool2d(output_size=1)", "features": block("Sequential", _0=conv(3, 32, step=2))}
    head = block("Sequential", _0="Dropout(p=0.2)", _1="Linear(in_features=32, out_features=10)")
    text = block("Net", **parts, classifier=head)
    assert shapes(text, "Conv2d", input_size=(3, 80, 80)) == [(32, 40, 40)]
    assert shapes(text, "AdaptiveAvgPool2d", input_size=(3, 80, 80)) == [(32, 1, 1)]
    # A gate's layers, of one place each, do look at one pixel.
    gate = block("Gate", pool="AdaptiveAvgPool2d(output_size=1)", a=conv(32, 8, kernel=1), b=conv(8, 32, kernel=1))
    text = block("Net", stem=conv(3, 32), gate=gate)
    assert shapes(text, "Conv2d", input_size=(3, 80, 80))[1:] == [(8, 1, 1), (32, 1, 1)]


def test_what_was_pooled_to_several_sizes_is_as_large_as_the_picture_again() -> None:
    pooled = [
        block("Sequential", _0=f"AdaptiveAvgPool2d(output_size={size})", _1=conv(32, 32, kernel=1))
        for size in (1, 2, 6)
    ]
    stages = block("ModuleList", _0=pooled[0], _1=pooled[1], _2=pooled[2])
    text = block("Net", stem=conv(3, 32), psp=block("PSP", stages=stages, last=conv(128, 8)))
    assert shapes(text, "Conv2d", input_size=(3, 80, 80))[-1] == (8, 80, 80)
    alike = text.replace("output_size=2", "output_size=6").replace("output_size=1", "output_size=6")
    assert shapes(alike, "Conv2d", input_size=(3, 80, 80))[-1] == (8, 6, 6)


@pytest.mark.parametrize("step", [2, 4])
def test_what_makes_pictures_smaller_before_each_stage_may_be_listed_before_all_stages(step: int) -> None:
    stem = block("Sequential", _0=conv(3, 32, kernel=step, step=step), _1="LayerNorm()")
    down = block("Sequential", _0="LayerNorm()", _1=conv(32, 64, kernel=2, step=2))
    stages = [block("Sequential", _0=block("Block", dw=conv(width, width))) for width in (32, 64)]
    lists = {"a": block("ModuleList", _0=stem, _1=down), "b": block("ModuleList", _0=stages[0], _1=stages[1])}
    found = shapes(block("Net", **lists), "Block", input_size=(3, 64, 64))
    assert found == [(32, 64 // step, 64 // step), (64, 32 // step, 32 // step)]


def test_pooling_that_is_listed_behind_a_sigmoid_goes_before_the_layers_of_its_gate() -> None:
    gate = {"conv1": conv(32, 32, kernel=1), "relu": "ReLU()", "conv2": conv(32, 32, kernel=1)}
    ending = {"sigmoid": "Sigmoid()", "avgpool": "AdaptiveAvgPool2d(output_size=(1, 1))"}
    fusion = block("Fusion", convblock=block("ConvBlock", conv=conv(64, 32)), **gate, **ending)
    text = block("Net", stem=conv(3, 64), fusion=fusion, last=conv(32, 8))
    places = [(64, 80, 80), (32, 80, 80), (32, 1, 1), (32, 1, 1), (8, 80, 80)]
    assert shapes(text, "Conv2d", input_size=(3, 80, 80)) == places
    # Behind anything else it pools what that gives out.
    other = text.replace("Sigmoid()", "ReLU()")
    assert shapes(other, "Conv2d", input_size=(3, 80, 80))[2:4] == [(32, 80, 80)] * 2


def parameters(*sizes: str) -> str:
    lines = [f"      ({at}): Parameter containing: [torch.float32 of size {size}]" for at, size in enumerate(sizes)]
    return "\n".join(["ParameterList(", *lines, "  )"])


def test_bare_matrices_as_wide_as_what_is_at_hand_are_products() -> None:
    head = "Linear(in_features=64, out_features=10, bias=True)"
    for sizes in (["64x64"] * 5, ["64x128", "128x64", "64x64"]):
        own = parameters(*sizes, "64", "7x7", "1x64", "64x3x3", "64x99999999")
        text = f"Net(\n  (ws): {own}\n  (head): {head}\n)\n"
        _, program, memory = account(text)
        assert [op.kind for op in program.ops] == [Kind.LINEAR] * (len(sizes) + 1)
        wide = sum(int(size.partition("x")[2]) for size in sizes)
        assert memory.kept == 2 * 4 * (64 + wide)  # what goes into each


def test_what_prints_itself_in_words_is_a_layer_without_parameters() -> None:
    body = "  (conv): Conv2d(3, 8, kernel_size=(3, 3))\n"
    matcher = "  (matcher): Matcher MaskFormerHungarianMatcher\n      cost_class: 1.0\n      cost_mask: 20.0\n"
    loss = f"  (criterion): MaskFormerLoss(\n  {matcher}  )\n"
    summary = parse_summary(f"Net(\n{body}{matcher}{loss})\n")
    assert [layer.type for layer in summary.root.children] == ["Conv2d", "MaskFormerHungarianMatcher", "MaskFormerLoss"]
    assert summary.total_params == 224
