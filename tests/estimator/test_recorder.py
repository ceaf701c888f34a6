"""Tensors are written down in the order in which a GPU's allocator is asked for them, as its traces show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from estimator.methods.rad.convolutions import Workspace
from estimator.methods.rad.recurrences import Recurrence, workspace_bytes
from estimator.rehearsals.as_on_a_gpu import as_on_a_gpu
from estimator.rehearsals.autocast import autocasting
from estimator.rehearsals.recorder import GONE, Recorder
from tests.estimator.test_rehearse import CUBLAS

WORKS = Workspace((700.0,), (800.0,), (900.0,))


def events(run: Callable[[], Any], *, backward: bool = False, gathers: Callable[[], Any] | None = None) -> list[int]:
    """Sizes in bytes as they come, and negative as they go; of the backward pass alone where that is wanted."""
    with FakeTensorMode(), Recorder(lambda *_: WORKS) as recorder, as_on_a_gpu():
        if gathers:
            recorder.gather(gathers())
        kept = run()
        if backward:
            kept = kept.sum()
            recorder.backward = True
            kept.backward()
    coming = {number: size for number, size in recorder.part if size != GONE}
    said = [-coming[number] if size == GONE else size for number, size in recorder.part if number in coming]
    return [size for size in said if abs(size) > 256]


def ones(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.ones(*shape, requires_grad=grad)


def test_gradients_are_added_up_in_the_place_of_the_first() -> None:
    def forks() -> torch.Tensor:
        x = ones(100, 10, grad=True)
        return torch.cat([x * 2.0, x * 3.0, x * 4.0])

    found = events(forks, backward=True)
    # Ones, three products and what they are put together in; then the gradients of the three products, no sums.
    assert [size for size in found if size > 0] == [4000, 4000, 4000, 4000, 12000, 4000, 4000, 4000]


def test_a_gradient_that_is_a_view_is_no_place_to_add_to() -> None:
    def forks() -> torch.Tensor:
        x = ones(100, 10, grad=True) * 1.0
        return x * 2.0 + (x.t() * 3.0).t()

    found = events(forks, backward=True)
    # Both forks' gradients and their sum, before any of them goes.
    assert found[9:14] == [4000, 4000, 4000, -4000, -4000]


def test_a_group_norm_copies_what_lies_otherwise() -> None:
    def norms() -> torch.Tensor:
        return functional.group_norm(ones(8, 10, 10, 64).permute(0, 3, 1, 2), 2, torch.ones(64), torch.zeros(64))

    assert events(norms).count(8 * 10 * 10 * 64 * 4) == 3  # the input, its copy, the output


@pytest.mark.parametrize("loss", [functional.mse_loss, functional.smooth_l1_loss])
def test_the_room_of_all_numbers_stays_with_a_loss(loss: Callable[..., Any]) -> None:
    each = 100 * 10 * 4
    # What is compared, the room of the loss, what each number adds; that goes, then what was compared.
    assert events(lambda: loss(ones(100, 10), ones(100, 10))) == [*[each] * 4, *[-each] * 3]
    apart = events(lambda: loss(ones(100, 10), ones(100, 10), reduction="none"))
    assert apart.count(each) == 3


def test_attention_gives_its_products_back_before_it_sums_up() -> None:
    def attends() -> torch.Tensor:
        x = ones(2, 4, 64, 32, grad=True)
        return functional.scaled_dot_product_attention(x, x, x)

    found = events(attends, backward=True)
    each, rows, blocks = 2 * 4 * 64 * 32 * 4, 2 * 4 * 64 * 4, 2 * 4 * (64 * 64 + 4) * 4
    at = found.index(blocks)
    assert found[at - 3 : at] == [each, rows, -each]


def test_a_gradient_that_is_one_number_everywhere_is_no_place_to_add_to() -> None:
    def sums() -> torch.Tensor:
        x = ones(100, 10, grad=True)
        return (x * 2.0).sum() + x.sum() * 3.0 + x.sum() * 4.0

    found = events(sums, backward=True)
    # What it is made of; then the product's gradient, and the sum of two that are one number each.
    assert [size for size in found if size > 0] == [4000, 4000, 4000, 4000]


def test_what_is_kept_beyond_its_sum_was_not_added_to_in_its_place() -> None:
    class Adds(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            first = gradient * 1.0
            total = first + gradient
            last = total * 2.0
            del first
            return last

    found = events(lambda: Adds.apply(ones(100, 10, grad=True)) * 1.0, backward=True)
    # Before, both products, what came back, the copy, the sum, and what is made of it; then what the copy took goes.
    assert [size for size in found if size > 0] == [4000] * 7


def test_a_sum_of_a_users_own_is_a_tensor_of_its_own() -> None:
    def adds() -> torch.Tensor:
        x = ones(100, 10) * 2.0
        for _ in range(2):
            x = x + 1.0 + ones(10)
        return x

    assert [size for size in events(adds) if size > 0].count(4000) == 6


@pytest.mark.parametrize("turned", [False, True])
def test_linear_layers_add_to_their_product(turned: bool) -> None:
    def runs() -> torch.Tensor:
        x = ones(50, 20, 30).transpose(0, 1) if turned else ones(20, 50, 30)
        return functional.linear(x, ones(40, 30), ones(40))

    out = 20 * 50 * 40 * 4
    assert [size for size in events(runs) if size > 0].count(out) == 1


def test_the_workspace_of_products_comes_behind_the_first() -> None:
    found = events(lambda: [ones(100, 10) @ ones(10, 100) for _ in range(2)])
    assert found.index(40_000) < found.index(CUBLAS)
    assert found.count(CUBLAS) == 1


def test_a_norm_copies_before_it_takes_what_it_gives_out() -> None:
    found = events(lambda: functional.layer_norm(ones(8, 64, 100).transpose(1, 2), (64,)))
    each, rows = 8 * 64 * 100 * 4, 8 * 100 * 4
    assert [size for size in found if abs(size) in (each, rows)][:6] == [each, each, each, rows, rows, -each]


def test_a_norms_gradient_and_input_are_copied_apart() -> None:
    def norms() -> torch.Tensor:
        x = ones(8, 64, 100, grad=True)
        return functional.layer_norm(x.transpose(1, 2), (64,)).transpose(1, 2) * ones(8, 64, 100)

    each = 8 * 64 * 100 * 4
    found = events(norms, backward=True)
    assert 2 * each not in found
    # Copies of the product's gradient and of the input, and the input's gradient; then the copies go. A weight's
    # gradient is to lie as the weight does: it is copied, too.
    assert [size for size in found if abs(size) == each][-8:] == [each, each, each, -each, -each, -each, each, -each]


@pytest.mark.parametrize(
    ("kind", "weights", "copies"),
    [
        (torch.float32, torch.float32, 1),
        (torch.float16, torch.float32, 1),
        (torch.float16, torch.float16, 0),
        (torch.bfloat16, torch.float32, 0),
        (torch.bfloat16, torch.bfloat16, 0),
    ],
)
def test_batch_norms_of_cudnn_work_on_one_piece(kind: torch.dtype, weights: torch.dtype, copies: int) -> None:
    def norms(x: torch.Tensor) -> torch.Tensor:
        state = [torch.ones(64) for _ in range(4)]
        return functional.batch_norm(x, state[0], state[1], state[2].to(weights), state[3].to(weights), training=True)

    def given() -> torch.Tensor:
        return torch.ones(8, 100, 64, dtype=kind)

    each = 8 * 100 * 64 * kind.itemsize
    assert events(lambda: norms(given().transpose(1, 2))).count(each) == 2 + copies  # the input, its copy, the output
    assert events(lambda: norms(given().view(8, 64, 100))).count(each) == 2
    assert events(lambda: norms(given().view(8, 10, 10, 64).permute(0, 3, 1, 2))).count(each) == 2  # channels together
    with FakeTensorMode(), as_on_a_gpu():
        assert norms(given().transpose(1, 2)).is_contiguous() == bool(copies)


@pytest.mark.parametrize(
    "taken",
    [
        lambda x: x.max(0)[0],
        lambda x: x[torch.zeros(3, dtype=torch.long)],
        lambda x: x.gather(0, torch.zeros(3, 100, dtype=torch.long)),
        lambda x: x.index_select(0, torch.zeros(3, dtype=torch.long)),
    ],
    ids=["maximum", "index", "gather", "select"],
)
def test_gradients_of_what_was_taken_are_put_into_zeros(
    taken: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    found = events(lambda: taken(ones(50, 100, grad=True)) * 2.0, backward=True)
    assert found.count(50 * 100 * 4) == 2  # what was taken of, and its gradient


def test_what_is_written_to_where_it_was_asked_for_is_there_before_a_copy() -> None:
    def resizes() -> torch.Tensor:
        wide = functional.interpolate(ones(4, 8, 100, grad=True), scale_factor=2.0)
        return wide.transpose(1, 2) * ones(4, 200, 8)

    x, wide = 4 * 8 * 100 * 4, 4 * 8 * 200 * 4
    found = events(resizes, backward=True)
    at = len(found) - found[::-1].index(x) - 1
    assert found[at + 1 : at + 3] == [wide, -wide]


def test_what_is_added_to_places_is_sorted_in_pieces() -> None:
    """As a trace of an H100 shows it, but for a little of the sorting."""

    def adds() -> torch.Tensor:
        places = torch.zeros(5000, dtype=torch.long)
        return torch.ones(700, 8).index_put_((places,), torch.ones(5000, 8), accumulate=True)

    place = 5000 * 8
    found = events(adds)
    at = found.index(-place)
    assert found[at - 2 : at + 4] == [place, place, -place, place, place, place]
    assert found[at + 4] > 2 * place


def test_pools_copy_what_came_in_before_its_gradient() -> None:
    def pools() -> torch.Tensor:
        return functional.avg_pool2d(ones(4, 8, 32, 32, grad=True).transpose(2, 3), 2) * ones(4, 8, 16, 16).transpose(
            2, 3
        )

    x, less = 4 * 8 * 32 * 32 * 4, 4 * 8 * 16 * 16 * 4
    found = events(pools, backward=True)
    at = len(found) - 1 - found[::-1].index(-less)
    while found[at - 1] != less:
        at -= 1
    assert found[at - 3 : at + 2] == [x, x, less, -less, -x]


def test_narrow_layers_stay_on_the_chip_in_the_forward_pass_alone() -> None:
    one = Recurrence("lstm", 1, 1, 64, 50, 8, 150, "fp32", first=False, drops=False, trains=True)
    forward, backward = workspace_bytes(one), workspace_bytes(one, backward=True)
    found = events(lambda: nn.LSTM(8, 150)(ones(50, 64, 8, grad=True))[0] * 1.0, backward=True)
    assert forward > backward
    assert (found.count(forward), found.count(backward)) == (1, 2)


def test_classes_are_written_into_zeros() -> None:
    assert events(lambda: functional.one_hot(torch.zeros(100, dtype=torch.long), 50)) == [800, 100 * 50 * 8, -800]


def test_words_that_lie_apart_are_copied() -> None:
    def looks_up() -> torch.Tensor:
        return functional.embedding(torch.ones(40, 100, dtype=torch.long).t(), ones(700, 8, grad=True)) * 1.0

    words, found = 40 * 100 * 8, 40 * 100 * 8 * 4
    came = events(looks_up)
    assert came[came.index(found) - 1 : came.index(found) + 2] == [words, found, -words]


def test_embeddings_copy_before_and_sort_behind() -> None:
    def looks_up() -> torch.Tensor:
        words = torch.ones(40, 100, dtype=torch.long)
        found = functional.embedding(words, ones(700, 8, grad=True)).transpose(0, 1)
        return found * ones(100, 40, 8)

    copy, gradient, place, rows = 40 * 100 * 8 * 4, 700 * 8 * 4, 4000 * 8, 700 * 8
    apart = 400 + 700  # every tenth word, and every row
    sorting = 2 * place + 2 * 4000 // 9 + 16896
    found = events(looks_up, backward=True)
    at = found.index(gradient, found.index(copy))
    # As a trace of an H100 shows it.
    assert found[at - 7 : at] == [copy, place, place, place, sorting, -sorting, -place]
    assert found[at + 1 : at + 8] == [place, place, -place, rows, rows, apart * 8, apart * 8 * 4]
    assert found[at + 8 : at + 16] == [-apart * 8 * 4, -apart * 8, -rows, -rows, -place, -place, -place, -copy]


def test_a_mask_comes_before_what_is_dropped_out_of() -> None:
    assert events(lambda: functional.dropout(ones(100, 10), 0.5))[1:3] == [1000, 4000]


def test_a_convolutions_gradients_come_one_after_the_other() -> None:
    def convolves() -> torch.Tensor:
        return functional.conv1d(ones(4, 16, 100, grad=True), ones(16, 16, 3, grad=True), ones(16, grad=True))

    found = events(convolves, backward=True)
    x, w, y = 4 * 16 * 100 * 4, 16 * 16 * 3 * 4, 4 * 16 * 98 * 4
    assert found[:5] == [x, w, y, 700, -700]
    # What came out goes with its sum, whose gradient is one number: a copy of it stands in each place.
    assert found[5:] == [-y, y, x, 800, -800, w, 900, -900, -y]


@pytest.mark.parametrize("last", [False, True])
def test_convolutions_copy_what_does_not_lie_as_they_want_it(last: bool) -> None:
    def convolves() -> torch.Tensor:
        x = ones(4, 32, 9, 9)
        x = x.to(memory_format=torch.channels_last) if last else x
        return functional.conv2d(x[:, :16], ones(16, 16, 1, 1))

    each = 4 * 16 * 81 * 4
    found = [size for size in events(convolves) if abs(size) in (each, 700)]
    assert found == [each, each, 700, -700, -each]  # the copy, what comes out, the work; the copy goes


@pytest.mark.parametrize(("x", "weight", "copies"), [(True, False, 0), (False, True, 1), (False, False, 0)])
def test_one_of_both_whose_channels_lie_together_decides(x: bool, weight: bool, copies: int) -> None:
    def convolves() -> torch.Tensor:
        given, kernel = (
            ones(*shape).to(memory_format=torch.channels_last if last else torch.contiguous_format)
            for shape, last in (((4, 16, 9, 9), x), ((16, 16, 3, 3), weight))
        )
        return functional.conv2d(given, kernel, padding=1)

    each = 4 * 16 * 81 * 4
    found = [size for size in events(convolves) if abs(size) in (each, 700)]
    assert found[found.index(700) - 1 - copies : found.index(700)] == [each] * (1 + copies)
    assert found[found.index(700) + 2 :].count(-each) >= copies
    assert found.count(each) == 2 + copies + x  # the input, which is laid out anew where it is to lie so; the output


def test_convolutions_copy_what_they_were_given_on_the_way_back_too() -> None:
    def convolves(width: int) -> Callable[[], torch.Tensor]:
        return lambda: functional.conv2d(ones(4, width, 9, 9)[:, :16], ones(16, 16, 1, 1, grad=True)) * 1.0

    each = 4 * 16 * 81 * 4
    whole, part = (events(convolves(width), backward=True) for width in (16, 32))
    assert part.count(each) == whole.count(each) + (2 - 1)  # a copy in each pass; the input itself is larger
    assert part[part.index(900) - 2 :][:2] == [each, 16 * 16 * 4]


@pytest.mark.parametrize("first", [False, True])
def test_recurrent_layers_take_what_cudnn_takes_in_its_order(first: bool) -> None:
    layer = nn.LSTM(8, 32, batch_first=first)
    flat = sum(weight.numel() for weight in layer.parameters()) * 4

    def runs() -> torch.Tensor:
        given = nn.LSTM(8, 32, batch_first=first)
        return given(ones(*((64, 50) if first else (50, 64)), 8, grad=True))[0] * 1.0

    x, y = 64 * 50 * 8 * 4, 64 * 50 * 32 * 4
    found = events(runs, backward=True)
    kept = 5 * y + 16
    work = workspace_bytes(Recurrence("lstm", 1, 1, 64, 50, 8, 32, "fp32", first=first, drops=False, trains=True))
    forward, back = found[: found.index(-work)], found[found.index(-work) + 1 :]
    copy = [x] if first else []
    assert [size for size in forward if size in (x, y, work, kept)] == [x, *copy, y, work, kept]
    assert back[: len(copy)] == [-size for size in copy]
    # The product's gradient is copied where the batch is first; then the input's comes, and the weights' in one piece.
    steps = [size for size in back[back.index(x) :] if abs(size) in (x, y, work, flat)]
    if first:
        assert steps[:11] == [x, y, x, work, -work, -y, -x, x, flat, work, -work]
    else:
        assert steps[:6] == [x, work, -work, flat, work, -work]
    assert back.count(work) == 2
    assert found.count(flat) == 1


@pytest.mark.parametrize("both", [False, True])
def test_cudnn_keeps_a_bit_for_each_number_that_may_be_dropped_between_layers(both: bool) -> None:
    def runs(dropout: float) -> Callable[[], torch.Tensor]:
        return lambda: nn.GRU(8, 32, 3, dropout=dropout, bidirectional=both)(ones(50, 64, 8))[0] * 1.0

    whole, dropped = (sum(size for size in events(runs(dropout)) if size > 0) for dropout in (0.0, 0.5))
    directions = 2 if both else 1
    assert dropped - whole == 2 * directions * (50 * 64 * 32 * directions) // 8


def test_series_come_out_as_they_lie_step_by_step() -> None:
    with FakeTensorMode(), as_on_a_gpu():
        turned, plain = (nn.LSTM(8, 32, batch_first=first)(ones(50, 64, 8))[0] for first in (True, False))
    assert plain.is_contiguous()
    assert turned.shape == (50, 64, 32)
    assert turned.transpose(0, 1).is_contiguous()


def test_autocast_casts_states_before_series_and_the_last_weights_gradient_first() -> None:
    """As a trace of an H100 shows it."""

    def runs() -> torch.Tensor:
        layer = nn.LSTM(8, 64)
        x, states = ones(50, 40, 8, grad=True), (ones(1, 40, 64), ones(1, 40, 64))
        with autocasting():
            return layer(x, states)[0] * 1.0

    state, x, wide, narrow, bias = 40 * 64 * 2, 50 * 40 * 8 * 2, 256 * 64 * 4, 256 * 8 * 4, 256 * 4
    forward = [size for size in events(runs) if size in (state, x)]
    assert forward[:3] == [state, state, x]
    back = [size for size in events(runs, backward=True) if size in (wide, narrow, bias)]
    assert back[-4:] == [bias, bias, wide, narrow]


def test_autocast_casts_recurrent_weights_into_one_piece() -> None:
    def runs() -> torch.Tensor:
        layer = nn.LSTM(8, 32)
        with autocasting():
            return layer(ones(50, 60, 8))[0] * 1.0

    each = [weight.numel() * 2 for weight in nn.LSTM(8, 32).parameters()]
    found = events(runs, backward=True)
    assert found.count(sum(each)) == 2  # the weights, and their gradients
    assert not set(each) & set(found)
    last = found[len(found) - found[::-1].index(sum(each)) :]
    assert [last.count(2 * size) for size in each[:2]] == [1, 1]  # which are cast one by one


def test_weights_that_moved_into_one_piece_leave_theirs() -> None:
    with FakeTensorMode(), Recorder(lambda *_: WORKS) as recorder:
        tensors = [torch.ones(100), torch.ones(200)]
        recorder.gather(tensors)
        found = list(recorder.part)
        tensors.clear()
    assert [size for _, size in found] == [400, 800, 1200, GONE, GONE]
    assert {number for number, size in recorder.part[5:]} == {found[2][0]}
