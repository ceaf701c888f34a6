"""The size of one sample where a user says it: its text, what it means to a model, and what wins."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.fingerprint import fingerprint
from estimator.history import from_history
from estimator.input_size import LARGEST, InputSizeError, read, sides, written
from estimator.methods import load_method
from estimator.methods.rad import Rad
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import ModelSummary, SummaryError, Workload
from estimator.walk import layers

CNN = """Net(
  (stem): Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3))
  (block): Conv2d(64, 128, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
  (again): Conv2d(128, 256, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
  (last): Conv2d(256, 512, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))
  (pool): AdaptiveAvgPool2d(output_size=(1, 1))
  (fc): Linear(in_features=512, out_features=10, bias=True)
)
"""
FILM = "Net(\n  (stem): Conv3d(3, 64, kernel_size=(3, 7, 7), stride=(1, 2, 2), padding=(1, 3, 3))\n)\n"
VOLUME = "Net(\n  (stem): Conv3d(1, 16, kernel_size=(3, 3, 3), padding=(1, 1, 1))\n)\n"
TWO_VOLUMES = VOLUME.replace("(1, 16", "(2, 16")
SOUND = "Net(\n  (stem): Conv1d(1, 16, kernel_size=(80,), stride=(4,))\n)\n"
LSTM = "Net(\n  (rnn): LSTM(64, 128, batch_first=True)\n  (fc): Linear(in_features=128, out_features=2, bias=True)\n)\n"
MLP = "Net(\n  (fc): Linear(in_features=784, out_features=10, bias=True)\n)\n"
PATCHES = """ViT(
  (patches): Linear(in_features=768, out_features=64, bias=True)
  (attention): SelfAttention(
    (qkv): Linear(in_features=64, out_features=192, bias=False)
  )
)
"""
TOKENS = "Net(\n  (words): Embedding(1000, 64)\n  (attention): SelfAttention(\n    (qkv): Linear(in_features=64, "
TOKENS += "out_features=192, bias=False)\n  )\n)\n"
TWO_TOWERS = TOKENS[:-2] + "  (look): Conv2d(3, 64, kernel_size=(16, 16), stride=(16, 16))\n)\n"
FOLDED = "Net(\n  (stem): Conv2d(48, 64, kernel_size=(3, 3), padding=(1, 1))\n)\n"
DETECTOR = """FasterRCNN(
  (transform): GeneralizedRCNNTransform(
    Resize(min_size=(800,), max_size=1333, mode='bilinear')
  )
  (backbone): Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False)
)
"""


def shaped(text: str, said: str, batch: int = 8) -> ModelSummary:
    return with_shapes(parse_summary(text), Workload(batch, input_size=read(said) if said else None))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("3x512x1024", (3, 512, 1024)),
        ("512X1024", (512, 1024)),
        ("512", (512,)),
        ("3x16x112x112", (3, 16, 112, 112)),
        (f"1x{LARGEST}", (1, LARGEST)),
    ],
)
def test_a_size_is_numbers_with_x_between_them(text: str, size: tuple[int, ...]) -> None:
    assert read(text) == size
    assert read(written(size)) == size


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("(3, 224, 224)", "write input_size=3x224x224"),
        ("[3,224,224]", "write input_size=3x224x224"),
        ("3*224*224", "write input_size=3x224x224"),
        ("3\u00d7224\u00d7224", "write input_size=3x224x224"),
        ("(3", "write input_size=3x224x224, for example"),
        ("3]", "write input_size=3x224x224, for example"),
        ("3x224x", "write input_size=3x224x224, for example"),
        ("x", "for example"),
        ("", "for example"),
        ("-3x224x224", "for example"),
        ("1e30", "for example"),
        ("224.0", "for example"),
        ("\u0663x\u0662\u0662\u0664", "for example"),
        ("3x\u00b2", "for example"),
        ("9" * 5000, "for example"),
        ("9999999999", "for example"),
        ("0x224x224", "between 1 and"),
        ("3x99999999x1", "between 1 and"),
        ("10000000x10000000", "their product"),
        ("8x3x16x112x112", "without the batch"),
        ("x".join("9" * 10), "more than 4 numbers"),
        ("1x" * 4000 + "1", "more than 4 numbers"),
        ("1," * 4000, "for example"),
    ],
)
def test_anything_else_is_refused_with_its_cure(text: str, cure: str) -> None:
    with pytest.raises(InputSizeError, match=r"input_size|between") as refused:
        read(text)
    assert cure in str(refused.value)
    assert len(str(refused.value)) < 150


@given(st.text(max_size=200))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    with suppress(InputSizeError):
        assert all(1 <= number <= LARGEST for number in read(text))


@pytest.mark.parametrize(
    ("text", "said", "taken", "note"),
    [
        (CNN, "", (3, 224, 224), "input_size=3x224x224 was taken"),
        (CNN, "3x512x1024", (3, 512, 1024), ""),
        (CNN, "512x1024", (3, 512, 1024), ""),
        (CNN, "512", (3, 512, 512), ""),
        (CNN, "512x1024x3", (3, 512, 1024), ""),
        (CNN, "1x28x28", (3, 28, 28), "the first layer takes 3 channels: 3x28x28"),
        (CNN, "16x3x112x112", (3, 16 * 112, 112), "input_size has 16 pictures a sample"),
        (FILM, "", (3, 16, 224, 224), "input_size=3x16x224x224 was taken"),
        (FILM, "3x32x112x112", (3, 32, 112, 112), ""),
        (FILM, "32x3x112x112", (3, 32, 112, 112), ""),
        (FILM, "32x112x112", (3, 32, 112, 112), ""),
        (FILM, "112", (3, 16, 112, 112), "input_size=3x16x112x112 was taken"),
        (FILM, "3x112x112", (3, 16, 112, 112), "input_size=3x16x112x112 was taken"),
        (VOLUME, "64", (1, 64, 64, 64), ""),
        (VOLUME, "1x64x64x32", (1, 64, 64, 32), ""),
        (VOLUME, "64x32", (1, 96, 64, 32), "input_size=1x96x64x32 was taken"),
        (TWO_VOLUMES, "1x64x64x64", (2, 64, 64, 64), "the first layer takes 2 channels: 2x64x64x64"),
        (SOUND, "1x16000", (1, 16000), ""),
        (SOUND, "16000", (1, 16000), ""),
        (LSTM, "100x64", (100, 64), ""),
        (LSTM, "100", (100, 64), ""),
        (MLP, "1x28x28", (784,), ""),
        (MLP, "50x784", (50, 784), ""),
        (MLP, "1x28", (784,), "input_size=1x28 does not count: the first layer takes 784 features"),
        (MLP, "8x8x784", (8, 8, 784), ""),
        (PATCHES, "", (196, 768), "seq_len=196 was taken"),
        (PATCHES, "3x384x384", (576, 768), ""),
        (PATCHES, "50", (9, 768), ""),
        (PATCHES, "10", (10, 768), ""),
        (FOLDED, "3x256x256", (48, 64, 64), ""),
        (DETECTOR, "3x480x640", (3, 800, 1088), ""),
        (DETECTOR, "3x400x4000", (3, 160, 1344), ""),
        (DETECTOR, "1x10000000", (3, 32, 1344), ""),
        (TOKENS, "", (512,), "seq_len=512 was taken"),
        (
            TOKENS,
            "3x224x224",
            (512,),
            "input_size=3x224x224 does not count: the first layer takes tokens",
        ),
    ],
)
def test_what_is_said_comes_first(text: str, said: str, taken: tuple[int, ...], note: str) -> None:
    found = shaped(text, said)
    assert found.root.input_shape == taken
    assert found.note[: len(note) or None] == note
    if said:
        assert any(f"input_size={said}" in sentence for sentence in found.inferred)


def test_a_second_tower_looks_at_what_is_said() -> None:
    for said, taken in (("", 14), ("3x448x448", 28)):
        last = layers(shaped(TWO_TOWERS, said).root)[-1]
        assert last.output_shape == (64, taken, taken)


def test_more_than_the_first_linear_layer_takes_is_refused() -> None:
    pairs = "Net(\n  (g): Linear(in_features=32, out_features=128, bias=True)\n  (f): Linear(128, 10)\n)\n"
    assert shaped(pairs, "50x32").root.input_shape == (50, 32)
    for said in ("50x16", "3x64x64"):
        with pytest.raises(SummaryError, match=f"input_size={said} cannot go into the first layer, which takes 32"):
            shaped(pairs, said)


def test_one_row_that_was_taken_is_named_where_blocks_are_the_users_own() -> None:
    linear = "Linear(in_features=32, out_features=32, bias=True)"
    own = f"Net(\n  (a): GraphLayer(\n    (linear): {linear}\n  )\n  (out): {linear}\n)\n"
    assert (shaped(own, "").root.input_shape, shaped(own, "").note) == ((32,), "input_size=32 was taken")
    assert any("one row of 32 numbers was taken" in said for said in shaped(own, "").inferred)
    assert shaped(own, "100x32").note == ""
    assert shaped(own.replace("GraphLayer", "Sequential"), "").note == ""


def test_a_series_that_the_first_layer_does_not_take_is_refused() -> None:
    for text, said in ((SOUND, "3x224x224"), (LSTM, "80x400")):
        with pytest.raises(SummaryError, match=r"is no series of \d+ features.*write input_size=\d+xLENGTH"):
            shaped(text, said)


def test_functions_that_pool_are_found_for_the_size_that_is_said() -> None:
    text = """Net(
  (conv1): Conv2d(3, 6, kernel_size=(5, 5), stride=(1, 1))
  (conv2): Conv2d(6, 16, kernel_size=(5, 5), stride=(1, 1))
  (fc): Linear(in_features=SIZE, out_features=10, bias=True)
)
"""
    for said, size in (("3x60x100", 16 * 12 * 22), ("3x48x48", 16 * 9 * 9)):
        pools = [x for x in layers(shaped(text.replace("SIZE", str(size)), said).root) if "Pool" in x.type]
        assert len(pools) == 2
        assert (pools[1].output_shape or ())[0] == 16


def torchinfo(shown: str, size_mb: str, first: str = "3, 64, 112, 112") -> str:
    rule = "=" * 90
    return f"""{rule}
Layer (type:depth-idx)                   {shown}              Param #
{rule}
Net                                      [8, 10]                   --
├─Conv2d: 1-1                            [8, 64, 112, 112]         9,472
├─Linear: 1-2                            [8, 10]                   650
{rule}
Total params: 10,122
{rule}
Input size (MB): {size_mb}
Forward/backward pass size (MB): 51.38
{rule}
"""


@pytest.mark.parametrize("said", ["3x224x224", "224x224", "224", ""])
def test_a_summary_that_agrees_stays_as_it_is(said: str) -> None:
    found = shaped(torchinfo("Output Shape", "4.82"), said)
    assert (found.note, found.inferred) == ("", ())


@pytest.mark.parametrize("said", ["3x512x512", "1x224x224", "512", "3x16x112x112", "200x200"])
def test_a_summary_that_shows_another_input_wins_and_says_so(said: str) -> None:
    found = shaped(torchinfo("Output Shape", "4.82"), said)
    assert found.note == f"the summary counts: it is for another input than input_size={said}"
    assert found.note in found.inferred
    assert found.root == parse_summary(torchinfo("Output Shape", "4.82")).root


def test_a_summary_that_does_not_tell_its_input_says_nothing() -> None:
    text = torchinfo("Output Shape", "4.82").replace("Input size (MB): 4.82\n", "")
    assert shaped(text, "3x512x512").note == ""


def test_a_summary_for_another_number_of_tokens_wins_and_says_so(rad: Rad) -> None:
    rows = "Net [4, 128, 100] --\n├─Embedding: 1-1 [4, 128, 64] 6,400\n├─Linear: 1-2 [4, 128, 100] 6,500\n"
    text = f"Layer (type:depth-idx)  Output Shape  Param #\n===\n{rows}===\n"
    shown = with_shapes(parse_summary(text), Workload(16, seq_len=512))
    assert shown.note == "the summary counts: it is for 128 tokens, not seq_len=512"
    assert shown.root == parse_summary(text).root
    assert shown.note in rad.predict(parse_summary(text), Workload(16, seq_len=512)).reasons
    assert with_shapes(parse_summary(text), Workload(16, seq_len=128)).note == ""
    assert with_shapes(parse_summary(text), Workload(16)).note == ""
    linear = text.replace("├─Embedding: 1-1 [4, 128, 64] 6,400\n", "").replace(
        "1-2", "1-1"
    )  # what it takes may be no words
    assert with_shapes(parse_summary(linear), Workload(16, seq_len=512)).note == ""


def test_a_length_that_a_model_of_pictures_does_not_take_is_said(rad: Rad) -> None:
    table, why = (
        torchinfo("Output Shape", "4.82"),
        "seq_len=512 does not count: the first layer, Conv2d, takes no tokens",
    )
    for text, before in ((table, ""), (CNN, "input_size=3x224x224 was taken; ")):
        asked = Workload(16, seq_len=512)
        found = rad.predict(parse_summary(text), asked)
        assert found.note == before + why
        assert found.reasons.count(why) == 1
        without = rad.predict(parse_summary(text), Workload(16))
        assert (without.expected_mib, without.upper_mib) == (found.expected_mib, found.upper_mib)
        assert why not in without.reasons
    words = CNN.rstrip().removesuffix(")") + "  (words): Embedding(100, 8)\n)\n"
    assert "seq_len" not in with_shapes(parse_summary(words), Workload(16, seq_len=512)).note
    assert with_shapes(parse_summary(table), Workload(16, seq_len=112)).note == ""  # a size that it shows


def test_keras_shows_its_input() -> None:
    rule = "_" * 70
    rows = "input_1 (InputLayer)         [(None, 64, 64, 3)]       0         \nconv (Conv2D)                "
    rows += "(None, 62, 62, 8)         224       "
    head = "Layer (type)                Output Shape              Param #   "
    text = f'Model: "m"\n{rule}\n {head}\n{rule}\n{rows}\n{rule}\n'
    text += f"Total params: 224\n{rule}\n"
    assert shaped(text, "64x64x3").note == ""
    assert "another input" in shaped(text, "3x224x224").note


@pytest.mark.parametrize("method", ["rad", "horus"])
def test_estimates_follow_the_size_and_tell_what_was_taken(method: str) -> None:
    found = load_method(method)
    summary = parse_summary(CNN)
    usual, same, large = (
        found.predict(summary, Workload(64, input_size=size)) for size in (None, (3, 224, 224), (3, 896, 896))
    )
    assert (usual.expected_mib, usual.upper_mib) == (same.expected_mib, same.upper_mib)
    assert large.expected_mib > 3 * usual.expected_mib
    assert (usual.note, same.note) == ("input_size=3x224x224 was taken", "")
    assert len({usual.fingerprint, same.fingerprint, large.fingerprint}) == 3
    measured = from_history(usual, {usual.fingerprint: [2000.0]})
    assert (measured.method, measured.note) == ("history", "")


def test_without_a_size_fingerprints_stay_the_same() -> None:
    assert fingerprint(parse_summary(CNN), Workload(64)) == "c0eb73e33f9709b2fb6b5441763f42ab"


def test_channels_may_stand_anywhere() -> None:
    assert sides((224, 224, 3), 3, 2) == sides((3, 224, 224), 3, 2) == (224, 224)
    assert sides((3, 3, 3), 3, 3) == (3, 3)
