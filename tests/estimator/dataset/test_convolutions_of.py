"""Convolutions of traced models are listed as GPUs run them."""

from __future__ import annotations

from estimator.dataset.convolutions import Seen, convolutions_of
from estimator.dataset.tree import Call, Module, Shape, Trace
from estimator.methods.rad.program import Extents, Three


def traced(kind: str, text: str, given: Shape, gives: Shape, times: int = 1) -> Trace:
    module = Module("one", kind, text, 9)
    calls = [Call(1, 1, given, gives)] * times
    return Trace(Module("", "Net", "", 0, (module,)), (Call(0, 0, given, gives), *calls), 9)


def extents(kernel: Three, sides: Three, dilation: int = 1, *, padded: bool = False) -> Extents:
    return Extents(kernel, sides, dilation, padded, last=False)


def test_each_is_listed_once_as_its_layer_says() -> None:
    picture = traced(
        "Conv2d", "3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3)", ("B", 3, 224, 224), ("B", 64, 112, 112), 2
    )
    frames = traced(
        "Conv2dSame",
        "8, 8, kernel_size=(3, 1), stride=(1, 1), groups=8, bias=False",
        ("4*B", 8, 9, 5),
        ("4*B", 8, 7, 5),
    )
    series = traced("Conv1d", "16, 32, kernel_size=(3,), stride=(1,), dilation=(4,)", ("B", 16, 99), ("B", 32, 91))
    film = traced("Conv3d", "1, 2, kernel_size=(3, 3, 3), stride=(1, 1, 1)", ("B", 1, 8, 9, 10), ("B", 2, 6, 7, 8))
    assert convolutions_of([film, series, frames, picture, picture]) == sorted(
        [
            Seen(1, 3, 64, 2, 1, extents((1, 7, 7), (1, 224, 224), padded=True)),
            Seen(4, 8, 8, 1, 8, extents((1, 3, 1), (1, 9, 5))),
            Seen(1, 16, 32, 1, 1, extents((1, 1, 3), (1, 1, 99), 4)),
            Seen(1, 1, 2, 1, 1, extents((3, 3, 3), (8, 9, 10))),
        ]
    )


def test_padding_to_the_same_size_is_padding() -> None:
    text = "8, 8, kernel_size=(3,), stride=(1,)"
    plain, same = (traced("Conv1d", text + more, ("B", 8, 9), ("B", 8, 9)) for more in ("", ", padding=same"))
    assert [seen.extents.padded for seen in convolutions_of([plain])] == [False]
    assert [seen.extents.padded for seen in convolutions_of([same])] == [True]


def test_a_transposed_one_is_the_one_whose_gradient_it_is() -> None:
    trace = traced("ConvTranspose2d", "64, 32, kernel_size=(2, 2), stride=(2, 2)", ("B", 64, 8, 8), ("B", 32, 16, 16))
    assert convolutions_of([trace]) == [Seen(1, 32, 64, 2, 1, extents((1, 2, 2), (1, 16, 16)))]


def test_what_is_no_convolution_or_was_not_called_as_one_is_left_out() -> None:
    linear = traced("Linear", "in_features=3, out_features=4, bias=True", ("B", 3), ("B", 4))
    other = traced("Conv2d", "3, 64, kernel_size=(7, 7), stride=(2, 2)", ("B", 9, 224, 224), ("B", 64, 112, 112))
    pool = traced("MaxPool2d", "kernel_size=3, stride=2, padding=1", ("B", 3, 8, 8), ("B", 3, 4, 4))
    flat = traced("Conv2d", "3, 64, kernel_size=(7, 7), stride=(2, 2)", ("B", 3, 224), ("B", 64, 112, 112))
    assert convolutions_of([linear, other, pool, flat]) == []
