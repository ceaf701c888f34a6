"""Models of words, series and sounds that users write themselves: what their code does between the layers."""

from __future__ import annotations

import pytest

from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.program import Scores
from tests.estimator.accounts import account, table, tree
from tests.estimator.test_listed import linear, norm, used
from tests.estimator.test_prints import block, shapes

WORDS = "Embedding(1000, 64)"
WIDE = "LayerNorm((64,), eps=1e-05)"


def series(taken: int, given: int, kernel: int = 3, **more: object) -> str:
    said = "".join(f", {key}={value}" for key, value in more.items())
    return f"Conv1d({taken}, {given}, kernel_size=({kernel},), stride=(1,), padding=({kernel // 2},){said})"


def test_what_narrows_again_comes_behind_both_layers_that_widen() -> None:
    feed = {"w1": linear(64, 160), "w2": linear(160, 64), "w3": linear(64, 160)}
    text = block("Net", words=WORDS, feed=block("Feed", **feed), norm=WIDE)
    assert [shape for _, shape in used(text, seq_len=16)][1:] == [(16, 160), (16, 160), (16, 64), (16, 64)]
    other = block("Net", words=WORDS, feed=block("Feed", **feed | {"w3": linear(64, 32)}))
    assert shapes(other, "Linear", seq_len=16)[1:] == [(16, 64), (16, 32)]


def test_a_function_between_two_that_widen_and_one_that_narrows_is_a_gate() -> None:
    rows = (
        "├─LayerNorm: 1-1 [2, 64, 96] 192",
        "├─Linear: 1-2 [2, 64, 256] 24,832",
        "├─Linear: 1-3 [2, 64, 256] 24,832",
        "├─Linear: 1-4 [2, 64, 96] 24,672",
    )
    _, program, memory = account(tree("Own [2, 64, 96] --", *rows))
    norm_, gate, widens, bends, narrows = program.ops
    assert gate.x == widens.x == norm_.y
    assert bends.x == gate.y
    assert program.kept == {gate.y, widens.y, bends.y}  # the product of both goes into the last
    assert narrows.x not in (widens.y, bends.y)
    assert memory.kept == 2 * 4 * 64 * (2 * 96 + 4 * 256)


@pytest.mark.parametrize(("answers", "shape"), [(1000, (16, 1000)), (9, (9,))])
def test_a_head_that_answers_with_words_does_so_for_each_token(answers: int, shape: tuple[int, ...]) -> None:
    attention = block("Attention", q=linear(64, 64), k=linear(64, 64), v=linear(64, 64), out=linear(64, 64))
    text = block("Net", words=WORDS, attention=attention, head=linear(64, answers))
    assert shapes(text, "Linear", seq_len=16)[-1] == shape


def test_no_head_takes_the_answer_of_another() -> None:
    attention = block("Attention", q=linear(64, 64), k=linear(64, 64), v=linear(64, 64), out=linear(64, 64))
    text = block("Bert", words=WORDS, attention=attention, classifier=linear(64, 2), transform=linear(64, 64))
    assert shapes(text, "Linear", seq_len=16)[-2:] == [(2,), (16, 64)]


def test_blocks_of_a_list_that_work_on_what_each_of_another_makes_larger() -> None:
    def up(taken: int, given: int) -> str:
        return f"ConvTranspose1d({taken}, {given}, kernel_size=(4,), stride=(2,), padding=(1,))"

    ups = block("ModuleList", _0=up(32, 16), _1=up(16, 8))
    inner = [block("Res", conv=series(width, width)) for width in (16, 16, 8, 8)]
    listed = block("ModuleList", **{f"_{at}": text for at, text in enumerate(inner)})
    text = block("Sounds", before=series(8, 32), ups=ups, blocks=listed, after=series(8, 1))
    found = [shape for _, shape in used(text, input_size=(8, 10))]
    assert found == [(32, 10), (16, 20), (16, 20), (16, 20), (8, 40), (8, 40), (8, 40), (1, 40)]
    alike = [block("Res", conv=series(8, 8))] * 4
    listed = block("ModuleList", **{f"_{at}": text for at, text in enumerate(alike)})
    text = block("Sounds", before=series(8, 32), ups=ups, blocks=listed)
    assert [shape for _, shape in used(text, input_size=(8, 10))][1:3] == [(16, 20), (8, 40)]


@pytest.mark.parametrize("normed", [False, True])
def test_each_channels_mean_and_deviation_go_into_a_linear_layer(normed: bool) -> None:
    parts = {"conv": series(8, 32), "out": linear(64, 5)}
    if normed:
        parts = {"conv": series(8, 32), "bn": norm(64, 1), "out": linear(64, 5)}
    text = block("Speaker", **parts)
    assert [shape for _, shape in used(text, input_size=(8, 30))][1:] == [*([(64,)] if normed else []), (5,)]
    joined = block("Net", conv=series(8, 32), bn=norm(64, 1), more=series(64, 16))  # with what was before
    assert [shape for _, shape in used(joined, input_size=(8, 30))][1:] == [(64, 30), (16, 30)]


def test_a_convolution_behind_a_linear_layer_looks_along_its_tokens() -> None:
    row = [linear(64, 256), "Dropout(p=0.1)", series(128, 128, 5, groups=128)]
    text = block("Net", words=WORDS, row=block("Mixer", one=row[0], drop=row[1], conv=row[2]))
    assert shapes(text, "Conv1d", seq_len=16) == [(128, 16)]


def test_a_recurrent_layer_takes_the_channels_of_a_series() -> None:
    text = block("Dna", conv=series(4, 32), lstm="LSTM(32, 16, batch_first=True)", out=linear(16 * 50, 9))
    assert [shape for _, shape in used(text, input_size=(4, 50))] == [(32, 50), (50, 16), (9,)]
    other = text.replace("LSTM(32", "LSTM(50")  # as wide as the series is long: it is not turned
    assert shapes(other, "LSTM", input_size=(4, 50)) == [(32, 16)]


def test_all_frequencies_of_a_moment_go_into_a_linear_layer() -> None:
    conv = "Conv2d({}, 16, kernel_size=(3, 3), stride=(2, 2))"
    text = block("Speech", one=conv.format(1), two=conv.format(16), out=linear(16 * 9, 64), norm=WIDE)
    assert shapes(text, "Linear", input_size=(1, 83, 39)) == [(20, 64)]


def test_a_state_space_model_keeps_its_states() -> None:
    rows = [
        "├─Linear: 1-1 [2, 50, 256] 16,384",
        "├─Conv1d: 1-2 [2, 128, 53] 640",
        "├─Linear: 1-3 [2, 50, 24] 3,072",
        "├─Linear: 1-4 [2, 50, 128] 1,152",
        "├─Linear: 1-5 [2, 50, 64] 8,192",
    ]
    _, program, _ = account(tree("Mamba [2, 50, 64] --", *rows))
    states = [op for op in program.ops if op.kind is Kind.KEEPS_INPUT]
    assert [op.extra for op in states] == [(3 * 8 + 4) * 50 * 128]
    assert program.ops[3].x == program.ops[2].y
    shown = [*rows[:4], "├─SiLU: 1-6 [2, 50, 128] --", rows[4]]  # of a library's own, which has a kernel for it
    _, program, _ = account(tree("Mamba [2, 50, 64] --", *shown))
    assert all(not op.extra for op in program.ops)
    rows[3] = "├─Linear: 1-4 [2, 50, 96] 864"  # not as wide as what the numbers were made of
    _, program, _ = account(tree("Mamba [2, 50, 64] --", *rows))
    assert all(not op.extra for op in program.ops)


def test_what_makes_sounds_keeps_both_sides_of_its_functions() -> None:
    rows = ["Conv1d-# [-1, 8, 50] 104", "ConvTranspose1d-# [-1, 4, 100] 132", "Conv1d-# [-1, 1, 100] 13"]
    _, program, memory = account(table(*rows))
    assert [program.tensors[op.x] for op in program.ops[1:]] == [400, 400]
    assert memory.kept == 2 * 4 * (program.tensors[0] + 2 * 400 + 2 * 400)
    plain = [row.replace("ConvTranspose1d", "Conv1d").replace("100]", "50]") for row in rows]
    for other in (plain, [*rows[:2], "ReLU-# [-1, 4, 100] 0", rows[2]], [*rows, "LayerNorm-# [-1, 1, 100] 200"]):
        _, program, _ = account(table(*other))
        assert not program.kept


def test_an_attention_that_shows_a_softmax_and_no_projections_makes_its_matrix() -> None:
    inner = {"softmax": "Softmax(dim=-1)", "dropout": "Dropout(p=0.1)"}
    outer = {"q": linear(128, 128), "k": linear(128, 128), "v": linear(128, 128)}

    def matrices(**parts: str) -> list[tuple[int, Scores]]:
        mine = block("Heads", **outer, attend=block("ScaledDotProductAttention", **parts), out=linear(128, 128))
        _, program, _ = account(block("Net", words="Embedding(1000, 128)", heads=mine), seq_len=32)
        return [(op.matrix, op.scores) for op in program.ops if op.kind is Kind.ATTENTION]

    assert matrices(**inner) == [(2 * 32 * 32, Scores.DROPPED)]
    assert matrices(softmax=inner["softmax"]) == [(2 * 32 * 32, Scores.PLAIN)]
    assert matrices(dropout=inner["dropout"]) == [(0, Scores.PLAIN)]


def test_a_norm_or_activation_that_says_no_arguments_is_computed_step_by_step() -> None:
    def steps(words: str, norm_: str, bends: str) -> list[tuple[Kind, int]]:
        text = block("Net", words=words, norm=norm_, act=bends)
        _, program, _ = account(text, seq_len=16)
        return [(op.kind, op.extra) for op in program.ops[-2:]]

    own = [(Kind.LAYER_NORM, 2 * 16 * 64), (Kind.MANY_STEPS, 0)]
    assert steps(WORDS, "LayerNorm()", "GELU()") == own
    assert steps(WORDS, WIDE, "GELU(approximate='none')") == [(Kind.LAYER_NORM, 0), (Kind.KEEPS_INPUT, 0)]
    assert steps(linear(8, 64), "LayerNorm()", "GELU()") == [(Kind.LAYER_NORM, 0), (Kind.KEEPS_INPUT, 0)]


@pytest.mark.parametrize("type_", ["Pointer", "PointerAttention"])
def test_additive_attention_has_a_row_for_each_pair(type_: str) -> None:
    rows = (
        "├─LSTM: 1-1 [2, 50, 64] 33,280",
        f"├─{type_}: 1-2 [2, 50, 50] --",
        "│    └─Linear: 2-1 [2, 50, 64] 4,096",
        "│    └─Linear: 2-2 [2, 50, 64] 4,096",
        "│    └─Linear: 2-3 [2, 50, 50, 1] 64",
    )
    _, program, memory = account(tree("Net [2, 50, 50] --", *rows))
    *_, last = [op for op in program.ops if op.kind is Kind.LINEAR]
    assert program.shapes[last.x] == (50, 50, 64)
    assert memory.kept > 2 * 4 * 50 * 50 * 64


@pytest.mark.parametrize(
    ("parts", "sizes"),
    [
        ({"query": linear(64, 32), "key": linear(64, 32), "v": linear(32, 1)}, [50 * 50 * 32]),
        ({"attn": linear(192, 32), "v": linear(32, 1)}, [50 * 50 * 192, 50 * 50 * 32]),
        ({"attn": linear(64, 32), "v": linear(32, 1)}, [50 * 32]),
        ({"query": linear(64, 32), "key": linear(64, 32), "act": "Tanh()", "v": linear(32, 1)}, [50 * 50 * 32]),
    ],
)
def test_a_decoder_compares_each_of_its_steps_with_all_that_was_read(parts: dict[str, str], sizes: list[int]) -> None:
    text = block("Net", words=WORDS, lstm="LSTM(64, 64)", attention=block("Attention", **parts))
    _, program, _ = account(text, seq_len=50)
    last = program.ops[-1]
    assert last.kind is Kind.LINEAR
    kept = [program.tensors[tensor] for tensor in sorted(program.kept - {last.x}) if program.shapes[tensor][-1] > 64]
    assert [*kept, program.tensors[last.x]] == sizes
    assert program.tensors[last.y] * 32 == sizes[-1]


def test_a_layer_that_is_the_function_of_additive_attention_gives_what_is_kept() -> None:
    rows = (
        "├─LSTM: 1-1 [2, 50, 64] 33,280",
        "├─Attention: 1-2 [2, 50] --",
        "│    └─Linear: 2-1 [2, 50, 32] 2,048",
        "│    └─Linear: 2-2 [2, 1, 32] 2,048",
        "│    └─ReLU: 2-3 [2, 50, 32] --",
        "│    └─Linear: 2-4 [2, 50, 1] 32",
    )
    _, program, _ = account(tree("Net [2, 50] --", *rows))
    *_, bends, last = program.ops
    assert bends.kind is Kind.KEEPS_OUTPUT
    assert last.x == bends.y
    _, program, _ = account(tree("Net [2, 50] --", *rows[:4], rows[5].replace("2-4", "2-3")))
    *_, query, last = program.ops
    assert program.shapes[last.x] == (50, 32)
    assert last.x != query.y
