"""What tables leave out of shapes."""

from __future__ import annotations

import pytest

from estimator.layer import Layer
from estimator.methods.rad.kinds import Kind
from estimator.parsers import parse_summary
from tests.estimator.accounts import account, table, tree


def test_windows_that_torchsummary_drops_are_put_back() -> None:
    rows = table(
        "Conv2d-# [-1, 96, 56, 56] 4,704",
        "LayerNorm-# [-1, 56, 56, 96] 192",
        "Linear-# [-1, 49, 288] 27,936",
        "Softmax-# [-1, 3, 49, 49] 0",
        "Linear-# [-1, 49, 96] 9,312",
        "WindowAttention-# [-1, 49, 96] 0",
        "LayerNorm-# [-1, 3136, 96] 192",
    )
    shapes = [layer.output_shape for layer in account(rows)[0].root.children]
    assert shapes[2:6] == [(64, 49, 288), (64, 3, 49, 49), (64, 49, 96), (64, 49, 96)]
    assert shapes[6] == (3136, 96)


def test_windows_of_a_volume_that_was_filled_up_are_put_back() -> None:
    rows = table(
        "Conv3d-# [-1, 24, 32, 32, 32] 216",
        "LayerNorm-# [-1, 32, 32, 32, 24] 48",
        "Linear-# [-1, 343, 72] 1,800",
        "Linear-# [-1, 343, 24] 600",
        "WindowAttention-# [-1, 343, 24] 0",
    )
    shapes = [layer.output_shape for layer in account(rows)[0].root.children]
    assert shapes[2:] == [(125, 343, 72), (125, 343, 24), (125, 343, 24)]


def test_a_matrix_of_weights_is_no_picture_cut_into_windows() -> None:
    def kept(tokens: int, width: int) -> tuple[list[tuple[int, int]], float]:
        rows = table(
            f"Embedding-# [-1, {tokens}, {width}] {50_000 * width:,}",
            *(f"Linear-# [-1, {tokens}, {width}] {width * width:,}",) * 3,
            f"Dropout-# [-1, 16, {tokens}, {tokens}] 0",
            f"Linear-# [-1, {tokens}, {width}] {width * width:,}",
            f"GPTJAttention-# [-1, {tokens}, {width}] 0",
            f"Linear-# [-1, {tokens}, {4 * width}] {4 * width * width + 4 * width:,}",
        )
        _, program, memory = account(rows)
        sizes = [(program.tensors[op.x], program.tensors[op.y]) for op in program.ops if op.kind is Kind.LINEAR]
        return sizes, memory.kept

    same, kept_same = kept(256, 256)
    other, kept_other = kept(256, 264)
    assert same[3] == (256 * 256, 256 * 256)
    assert other[3] == (256 * 264, 256 * 264)
    assert kept_same == pytest.approx(kept_other, rel=0.05)


FILM = """        Layer (type)               Output Shape         Param #
======
         Timesteps-1                   [-1, 64]               0
            Linear-2                   [-1, 64]           4,160
            Conv2d-3           [-1, 16, 32, 32]             592
              SiLU-4           [-1, 16, 32, 32]               0
         GroupNorm-5        [-1, 16, 8, 32, 32]              32
            Linear-6                [-1, {0}, 16]             272
            Linear-7             [-1, 1024, 16]             272
            Conv2d-8            [-1, 4, 32, 32]             580
======
Total params: 5,908
------
Input size (MB): {1}
------
"""


def test_pictures_that_torchsummary_folds_into_the_batch_are_put_back() -> None:
    shapes = [layer.output_shape for layer in account(FILM.format(8, 0.12))[0].root.children]
    assert shapes[1:4] == [(64,), (8, 16, 32, 32), (8, 16, 32, 32)]
    assert shapes[4:] == [(16, 8, 32, 32), (1024, 8, 16), (8, 1024, 16), (8, 4, 32, 32)]


@pytest.mark.parametrize(("row", "size"), [(8, 0.02), (5, 0.12)])
def test_a_picture_by_itself_is_no_film(row: int, size: float) -> None:
    text = FILM.format(row, size).replace("[-1, 16, 8, 32, 32]", "[-1, 16, 32, 32]")
    shapes = [layer.output_shape for layer in account(text)[0].root.children]
    assert shapes[2:4] == [(16, 32, 32), (16, 32, 32)]


def test_a_bag_of_pictures_is_joined_by_its_last_layers() -> None:
    rows = (
        "Conv2d-# [-1, 8, 32, 32] 1,184",
        "AdaptiveAvgPool2d-# [-1, 8, 1, 1] 0",
        "Net-# [-1, 8] 0",
        "Linear-# [-1, 6, 4] 36",
        "Linear-# [-1, 2] 18",
    )
    text = table(*rows) + "Total params: 1,238\n------\nInput size (MB): 0.28\n------\n"
    shapes = [layer.output_shape for layer in account(text)[0].root.children]
    assert shapes == [(6, 8, 32, 32), (6, 8, 1, 1), (6, 8), (1, 6, 4), (2,)]


def test_attention_over_time_and_over_pictures_with_a_class_token() -> None:
    rows = (
        "Conv2d-# [-1, 8, 16, 16] 1,544",
        "Linear-# [-1, 6, 8] 72",
        "Dropout-# [-1, 2, 6, 6] 0",
        "Linear-# [-1, 6, 8] 72",
        "Linear-# [-1, 257, 8] 72",
        "Linear-# [-1, 2] 18",
    )
    text = table(*rows) + "Total params: 1,778\n------\nInput size (MB): 1.12\n------\n"
    shapes = [layer.output_shape for layer in account(text)[0].root.children]
    assert [shapes[at] for at in (1, 3, 4)] == [(256, 6, 8), (256, 6, 8), (6, 257, 8)]


@pytest.mark.parametrize(
    ("gathers", "kept"),
    [
        ("SumAggregation: 2-2 [64, 4, 8]", 3),
        ("SoftmaxAggregation: 2-2 [64, 32]", 3),
        ("MeanAggregation: 2-2 [64, 32]", 0),
    ],
)
def test_messages_of_neighbours_are_made_for_each_edge(gathers: str, kept: int) -> None:
    text = tree(
        "Graph [64, 8] --",
        "├─Conv: 1-1 [64, 8] --",
        "│    └─Linear: 2-1 [64, 32] 544",
        f"│    └─{gathers} --",
        "├─Linear: 1-2 [64, 8] 264",
    )
    _, program, memory = account(text, batch_size=4)
    each = 8 * 32 * 16  # edges for each node, features, nodes of a graph
    assert max(program.tensors) == each
    assert memory.kept // (each * 4 * 4) == kept


def test_messages_that_a_layer_has_made_are_not_made_again() -> None:
    text = tree(
        "Graph [64, 32] --",
        "├─Linear: 1-1 [64, 32] 544",
        "├─Linear: 1-2 [640, 32] 1,056",
        "├─SumAggregation: 1-3 [64, 32] --",
    )
    _, program, _ = account(text, batch_size=4)
    assert max(program.tensors) == 10 * 32 * 16


def test_a_stem_that_moves_its_large_kernel_by_four_sees_one_picture() -> None:
    rows = (
        "Conv2d-# [-1, 24, 56, 56] 3,552",
        "LayerNorm-# [-1, 16, 24] 48",
        "Linear-# [-1, 16, 48] 1,200",
    )
    text = table(*rows) + "Total params: 4,800\n------\nInput size (MB): 0.57\n------\n"
    shapes = [layer.output_shape for layer in account(text)[0].root.children]
    assert shapes == [(24, 56, 56), (16, 24), (16, 48)]


def test_fewer_keys_than_queries_are_no_windows() -> None:
    rows = table(
        "LayerNorm-# [-1, 3136, 64] 128",
        "Linear-# [-1, 3136, 64] 4,160",
        "Linear-# [-1, 784, 64] 4,160",
        "Linear-# [-1, 784, 64] 4,160",
        "CvtSelfAttention-# [-1, 3136, 64] 0",
    )
    summary, program, _ = account(rows)
    assert [layer.output_shape for layer in summary.root.children][2:4] == [(784, 64), (784, 64)]
    assert [op.matrix for op in program.ops if op.kind is Kind.ATTENTION] == [3136 * 784]


def packed(batch: int) -> str:
    return tree(
        "Vision [1, 784, 64] --",
        f"├─Conv2d: 1-1 [{batch}, 64, 14, 14] 49,152",
        "├─Rotary: 1-2 [784, 64] --",
        "├─Linear: 1-3 [1, 784, 256] 16,640",
    )


def test_tokens_of_the_whole_batch_in_one_row_are_divided() -> None:
    summary, _, _ = account(packed(4), batch_size=4)
    assert [layer.output_shape for layer in summary.root.children] == [(64, 14, 14), (196, 64), (196, 256)]
    assert (summary.root.output_shape, summary.batch_size) == ((196, 64), 4)
    assert "the table is taken to be of 4 samples" in summary.inferred
    # Of one sample with so many channels, or of a job with another batch, they are one sample's.
    for text, batch_size in ((packed(1), 64), (packed(4), 8)):
        summary, _, _ = account(text, batch_size=batch_size)
        assert summary.root.children[2].output_shape == (784, 256)
        assert summary.batch_size == 1


@pytest.mark.parametrize("batch_size", [1, 4, 8])
@pytest.mark.parametrize("printed", [2, 4, 8])
def test_rows_of_a_model_that_is_known_for_it_hold_as_many_samples_as_it_shows(printed: int, batch_size: int) -> None:
    text = packed(printed).replace("Vision ", "PixtralVisionModel ").replace("784", str(196 * printed))
    summary, _, _ = account(text, batch_size=batch_size)
    assert [layer.output_shape for layer in summary.root.children] == [(64, 14, 14), (196, 64), (196, 256)]
    assert (summary.root.output_shape, summary.batch_size) == ((196, 64), printed)


def codes(samples: int) -> str:
    return tree(
        f"EncodecModel [1, {samples}, 2, 26] --",
        f"├─EncodecEncoder: 1-1 [{samples}, 128, 26] --",
        f"│    └─Conv1d: 2-1 [{samples}, 32, 8192] 256",
        f"│    └─LSTM: 2-2 [26, {samples}, 512] 2,101,248",
        f"├─EncodecDecoder: 1-2 [{samples}, 1, 8192] --",
        f"│    └─Conv1d: 2-3 [{samples}, 1, 8192] 225",
    )


@pytest.mark.parametrize("printed", [1, 2, 4, 16, 26, 64])
def test_codes_of_other_sounds_than_the_jobs_are_read_as_those_of_the_jobs_are(printed: int) -> None:
    asked, _, of_job = account(codes(8), batch_size=8)
    summary, _, memory = account(codes(printed), batch_size=8)
    assert (summary.root, memory) == (asked.root, of_job)
    assert summary.batch_size == printed
    (encoder, decoder) = summary.root.children
    assert (summary.root.output_shape, encoder.output_shape) == ((1, 2, 26), (128, 26))
    assert decoder.output_shape == (1, 8192)
    assert [layer.output_shape for layer in encoder.children] == [(32, 8192), (26, 512)]
    # Of another model the second axis may be channels.
    other = codes(2).replace("EncodecModel", "Separator")
    assert account(other, batch_size=8)[0].batch_size == 1


@pytest.mark.parametrize("batch_size", [2, 8, 64])
def test_a_film_that_is_printed_alone_has_its_pictures_second(batch_size: int) -> None:
    text = tree("Film [1, 8, 512] --", "├─Conv2d: 1-1 [8, 64, 56, 56] 9,408", "├─Linear: 1-2 [8, 512] 262,656")
    summary, _, _ = account(text, batch_size=batch_size)
    assert (summary.batch_size, summary.root.output_shape) == (1, (8, 512))
    assert [layer.output_shape for layer in summary.root.children] == [(8, 64, 56, 56), (8, 512)]


def test_pictures_of_a_film_that_are_as_many_as_the_jobs_samples_are_those_of_one() -> None:
    text = tree(
        "Film [1, 8, 512] --",
        "├─Resize: 1-1 [1, 24, 112, 112] --",
        "├─Conv2d: 1-2 [8, 64, 56, 56] 9,408",
        "├─LSTM: 1-3 [1, 8, 512] 1,183,744",
        "├─Linear: 1-4 [1, 8, 512] 262,656",
    )
    summary, _, _ = account(text, batch_size=8)
    assert (summary.batch_size, summary.root.output_shape) == (1, (8, 512))
    assert summary.root.children[1].output_shape == (8, 64, 56, 56)


def test_each_sample_may_be_several_pictures_in_all_rows_but_the_model_s_own() -> None:
    text = tree(
        "Prototypes [64, 75, 5] --",
        "├─Conv2d: 1-1 [6400, 64, 21, 21] 1,728",
        "├─BatchNorm2d: 1-2 [6400, 64, 21, 21] 128",
        "├─Flatten: 1-3 [6400, 28224] --",
    )
    summary, _, _ = account(text, batch_size=64)
    assert [layer.output_shape for layer in summary.root.children] == [(100, 64, 21, 21)] * 2 + [(100, 28224)]
    assert (summary.root.output_shape, summary.batch_size) == ((75, 5), 64)
    assert account(text, batch_size=32)[0].batch_size == 6400


@pytest.mark.parametrize(
    "rows",
    [
        ("Net [8, 4, 100] --", "├─Embedding: 1-1 [8, 4, 64] 6,400", "├─Linear: 1-2 [8, 4, 100] 6,500"),
        ("Codec [8, 4, 30] --", "├─Conv1d: 1-1 [8, 64, 480] 512", "├─Block: 1-2 [8, 1, 480] 65"),
        ("Video [8, 10] --", "├─Conv2d: 1-1 [128, 64, 14, 14] 49,152", "├─Linear: 1-2 [8, 10] 650"),
    ],
    ids=["words", "channels", "pictures of a film"],
)
def test_what_is_as_many_as_the_job_s_samples_in_the_model_s_own_row_is_no_batch(rows: tuple[str, ...]) -> None:
    small, large = (account(tree(*rows), batch_size=size)[0] for size in (4, 3))
    assert small == large


def test_boxes_are_no_witness_of_the_batch() -> None:
    text = tree(
        "FasterRCNN [100, 4] --",
        "├─Conv2d: 1-1 [8, 64, 100, 100] 9,408",
        "├─BatchNorm2d: 1-2 [8, 64, 100, 100] 128",
        "├─ReLU: 1-3 [8, 64, 100, 100] --",
        "├─RoIHeads: 1-4 [100, 4] --",
        "│    └─Linear: 2-1 [800, 1024] 12,846,080",
    )
    rows: list[Layer] = list(account(text, batch_size=8)[0].root.children)
    assert [row.output_shape for row in rows[:2]] == [(64, 100, 100)] * 2


@pytest.mark.parametrize("batch_size", [1, 8])
def test_boxes_of_one_picture_are_no_batch_where_masks_are_made_for_each(batch_size: int) -> None:
    text = tree(
        "MaskRCNN [100, 4] --",
        "├─GeneralizedRCNNTransform: 1-1 [5, 4] --",
        "├─Conv2d: 1-2 [1, 64, 200, 200] 9,408",
        *(f"├─Conv2d: 1-{at} [1, {16 * at}, 100, 100] 4,160" for at in (3, 4, 5)),
        "├─RoIHeads: 1-6 [100, 4] --",
        "│    └─Linear: 2-1 [1000, 1024] 12,846,080",
        "│    └─Conv2d: 2-2 [100, 256, 14, 14] 590,080",
    )
    summary = account(text, batch_size=batch_size)[0]
    stem, heads = summary.root.children[1], summary.root.children[-1]
    assert (summary.batch_size, stem.output_shape) == (1, (64, 200, 200))
    assert [layer.output_shape for layer in heads.children] == [(1000, 1024), (100, 256, 14, 14)]


@pytest.mark.parametrize("samples", [1, 100])
def test_samples_with_four_answers_each_are_a_batch(samples: int) -> None:
    rows = [f"├─Conv2d: 1-{at} [31, {8 * at}, 9, 9] 224" for at in (2, 3, 4)]
    text = tree(f"Net [{samples}, 4] --", f"├─Conv2d: 1-1 [{samples}, 8, 9, 9] 224", *rows)
    assert account(text, batch_size=8)[0].batch_size == samples


def test_all_tokens_of_a_batch_in_one_row_and_pieces_of_its_sounds_are_those_of_samples() -> None:
    """As encoders of sound work that cut it: ten pieces of each sample are 130 tokens behind the convolutions."""
    text = tree(
        "Encoder [520, 384] --",
        "├─Conv2d: 1-1 [40, 480, 16, 13] 4,800",
        "├─Linear: 1-2 [40, 13, 384] 2,949,120",
        "├─LayerNorm: 1-3 [520, 384] 768",
        "├─Linear: 1-4 [520, 384] 147,840",
    )
    summary = account(text, batch_size=4)[0]
    shapes = [layer.output_shape for layer in summary.root.children]
    assert shapes == [(10, 480, 16, 13), (10, 13, 384), (130, 384), (130, 384)]
    assert "the table is taken to be of 4 samples" in summary.inferred
    assert account(text, batch_size=3)[0].batch_size == 520


def patches(pictures: int, merged: int = 4) -> str:
    rows = 256 * pictures
    return tree(
        f"Glm4vVisionModel [{rows // merged}, 48] --",
        f"├─Glm4vVisionPatchEmbed: 1-1 [{rows}, 48] --",
        f"│    └─Conv3d: 2-1 [{rows}, 48, 1, 1, 1] 56,496",
        f"├─Glm4vVisionBlock: 1-2 [{rows}, 48] --",
        f"│    └─Glm4vVisionAttention: 2-2 [{rows}, 48] --",
        f"│    │    └─Linear: 3-1 [{rows}, 144] 6,912",
        f"│    │    └─Linear: 3-2 [{rows}, 48] 2,304",
        f"├─Conv2d: 1-3 [{rows // merged}, 48, 1, 1] 9,264",
        f"├─Merger: 1-4 [{rows // merged}, 48] 9,216",
    )


@pytest.mark.parametrize(
    ("pictures", "merged", "batch_size", "samples"),
    [(1, 4, 1, 1), (4, 4, 4, 4), (8, 4, 4, 4), (1, 1, 1, 1), (4, 1, 4, 4), (1, 4, 3, 1), (1, 4, 32, 1), (1, 1, 3, 1)],
)
def test_patches_of_pictures_in_one_row_are_those_of_the_jobs(
    pictures: int, merged: int, batch_size: int, samples: int
) -> None:
    """As Glm4v's tower for pictures works: each patch is convolved by itself, and four become one."""
    summary, program, _ = account(patches(pictures, merged), batch_size=batch_size)
    rows = 256 * pictures // samples
    embed, block, last, merger = summary.root.children
    assert embed.children[0].output_shape == (rows, 48, 1, 1, 1)
    assert block.children[0].children[0].output_shape == (rows, 144)
    assert [layer.output_shape for layer in (last, merger)] == [(rows // merged, 48, 1, 1), (rows // merged, 48)]
    assert (summary.root.output_shape, summary.batch_size) == ((rows // merged, 48), samples)
    assert f"it is taken to be of {samples} samples of {rows} each" in summary.inferred[-1]
    assert max(program.tensors) == 144 * rows


def test_rows_without_attention_between_them_are_samples() -> None:
    text = patches(4).replace("Attention", "Perceptron")
    assert account(text, batch_size=4)[0].batch_size == 256
    words = (
        patches(4)
        .replace("144] 6,912", "7, 144] 6,912")
        .replace("Attention: 2-2 [1024, 48]", "Attention: 2-2 [1024, 7, 48]")
    )
    assert account(words, batch_size=4)[0].batch_size == 256


@pytest.mark.parametrize(
    ("tiles", "batch_size"),
    [
        ("Conv3d: 1-1 [128, 64, 1, 1, 1]", 128),
        ("Conv3d: 1-1 [4, 64, 1, 1, 1]", 4),
        ("Conv2d: 1-1 [4, 64, 14, 14]", 4),
    ],
)
def test_parts_of_a_picture_that_are_as_many_as_the_jobs_samples_are_those_of_one(tiles: str, batch_size: int) -> None:
    text = tree(
        "Chat [1, 128, 320] --",
        f"├─{tiles} 49,152",
        f"├─Linear: 1-2 [{batch_size}, 64] 4,160",
        "├─Embedding: 1-3 [1, 128, 64] 20,480",
        "├─Linear: 1-4 [1, 128, 320] 20,800",
    )
    summary = account(text, batch_size=batch_size)[0]
    assert (summary.batch_size, summary.root.output_shape) == (1, (128, 320))


def test_graphs_are_known_where_what_gathers_messages_is_hidden() -> None:
    text = tree(
        "GAT [1024, 40] --",
        "├─GATConv: 1-1 [1024, 64] 4,224",
        "├─MultiheadAttention: 1-2 [1, 1024, 64] 16,640",
        "├─GATConv: 1-3 [1024, 40] 2,640",
    )
    summary, _, _ = account(text, batch_size=8)
    assert summary.batch_size == 8
    assert [layer.output_shape for layer in summary.root.children] == [(128, 64), (128, 1, 64), (128, 40)]
    pictures = tree("Net [1024, 40] --", "├─MBConv: 1-1 [1024, 8, 4, 4] 4,224", "├─Linear: 1-2 [1024, 40] 5,160")
    assert account(pictures, batch_size=8)[0].batch_size == 1024


SHOWN = "Layer (type:depth-idx)  Input Shape  Output Shape  Param #\n=====\nNet [2, 30, 64] [2, 30, 8] --\n"


@pytest.mark.parametrize(
    ("before", "row", "taken"),
    [
        ("[2, 30, 128] 8,320", "[2, 30, 192] [2, 30, 8] 1,544", (30, 192)),  # joined with something
        ("[2, 30, 384] 24,960", "[2, 30, 128] [2, 30, 8] 1,032", (30, 128)),  # queries, keys and values, without layers
        ("[2, 30, 128] 8,320", "[2, 30, 20, 128] [2, 30, 20, 8] 1,032", (30, 20, 128)),  # one row for each pair
        ("[2, 30, 128] 8,320", "[2, 128] [2, 8] 1,032", (30, 128)),  # its mean, which keeps nothing of its own
    ],
)
def test_a_linear_layer_takes_what_a_table_shows(before: str, row: str, taken: tuple[int, ...]) -> None:
    text = f"{SHOWN}├─Linear: 1-1 [2, 30, 64] {before}\n├─Linear: 1-2 {row}\n=====\n"
    program = account(text)[1]
    assert program.shapes[program.ops[-1].x] == taken


def test_a_row_for_each_pair_may_hold_both_and_their_product() -> None:
    rows = ("Net [2, 100, 2] --", "├─Embedding: 1-1 [2, 100, 64] 64,000", "├─Embedding: 1-2 [2, 20, 64] (recursive)")
    program = account(tree(*rows, "├─Linear: 1-3 [2, 100, 20, 1] 193"))[1]
    assert program.shapes[program.ops[-1].x] == (100, 20, 192)


def seq2seq(root: str) -> str:
    return f"""Layer (type:depth-idx)                   Output Shape              Param #
==========
MarianMTModel                            {root}                --
├─MarianModel: 1-1                       [2, 16, 32]               --
│    └─Embedding: 2-1                    [2, 16, 32]               160,000
│    └─Linear: 2-2                       [2, 16, 32]               1,056
├─Linear: 1-2                            [2, 16, 5000]             160,000
==========
Total params: 321,056
Trainable params: 321,056
Non-trainable params: 0
"""


def test_a_row_that_shows_what_an_encoder_gave_hides_no_logits() -> None:
    shown = parse_summary(seq2seq("[2, 16, 32]"))
    assert shown.root.output_shape == (16, 5000)
    assert shown == parse_summary(seq2seq("[2, 16, 5000]"))


def test_a_models_own_output_counts_where_no_words_are_told_behind_it() -> None:
    other = parse_summary(seq2seq("[2, 16, 32]").replace("[2, 16, 5000]", "[2, 16, 500] "))
    assert other.root.output_shape == (16, 32)
    part = parse_summary(seq2seq("[2, 16]    "))  # no part of it gives that
    assert part.root.output_shape == (16,)
