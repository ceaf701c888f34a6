"""Which numbers are known where tensors have no data."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.nn import functional

from estimator.faketensor import own_inputs
from estimator.parsers import parse_summary
from estimator.rehearsals.fake_mode import Mode
from estimator.summarize import table_of

CUBLAS = 32  # MiB of its workspace
UNKNOWN = (DataDependentOutputException, DynamicOutputShapeException)


def test_whole_numbers_that_code_makes_are_known() -> None:
    with Mode():
        words = torch.ones(4, 8, dtype=torch.long)
        words_shown = words.view(-1)
        mask = (words == 1) & (torch.arange(8) < 5)
        assert isinstance(mask, FakeTensor)
        assert mask.sum().item() == 20
        assert mask.nonzero().shape == (20, 2)
        assert torch.randn(4, 8, 3)[mask].shape == (20, 3)
        assert torch.equal(words_shown, torch.ones_like(words_shown))
        assert torch.unique(words).tolist() == [1]
        assert words.cumsum(1).max() == 8
        assert torch.tensor([[True, False], [True, True]]).all().item() is False


def test_what_was_written_to_and_what_weights_decide_is_not_known() -> None:
    with Mode():
        words = torch.zeros(4, 8, dtype=torch.long)
        part = words[:, 1:]
        words[:, 2] = 1
        for written in (words, part):
            with pytest.raises(UNKNOWN):
                bool(written.any())
        weights = torch.randn(8, 8)
        for asks in (
            lambda: bool(weights.sum() > 0),
            lambda: weights[weights > 0],
            lambda: weights.argmax(1).nonzero(),
        ):
            with pytest.raises(UNKNOWN):
                asks()
        many = torch.ones(2**21, dtype=torch.bool)
        with pytest.raises(UNKNOWN):
            bool(many.all())
        elsewhere = torch.ones(4, dtype=torch.long, device="meta")
        with pytest.raises((*UNKNOWN, RuntimeError)):
            bool(elsewhere.all())
        scale = nn.Parameter(torch.ones(1))
        with pytest.raises(UNKNOWN):
            bool(scale > 0)


def test_single_numbers_are_drawn_and_always_the_same() -> None:
    state = torch.get_rng_state()
    with Mode():
        one, other, among = torch.rand(1).item(), torch.rand(()).item(), torch.randint(7, 9, (1,)).item()
        assert one == other > 0.3
        assert among in (7, 8)
        assert isinstance(torch.randn(1).item(), float)
        with pytest.raises(UNKNOWN):
            bool((torch.rand(2) > 0.5).all())
    assert torch.equal(torch.get_rng_state(), state)


class Masked(nn.Module):
    """Goes on with the tokens that count, as a masked language model's head does."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(100, 64), nn.Linear(64, 5000)

    def forward(self, words: Any, counts: Any) -> Any:
        found = self.words(words)
        return self.head(found if counts.all() else found[counts])


@pytest.mark.usefixtures("shortly")
@pytest.mark.parametrize("share", [4, 1])
def test_tokens_that_count_decide_how_much_a_model_takes(share: int) -> None:
    def fed(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        counts = (torch.arange(64) % share == 0).expand(batch, 64)
        return torch.zeros(batch, 64, dtype=torch.long), counts

    text = table_of(Masked, own_inputs(fed), 16)
    assert "not rehearsed" not in text
    (run,) = (run for run in parse_summary(text).rehearsals if (run.kind, run.precision) == ("infer", "fp32"))
    outputs = 2 * 4 * (16 * 64 // share) * 5000  # of two inferences
    weights = 4 * (100 * 64 + 65 * 5000)
    assert run.points[0].used_mib == pytest.approx((outputs + weights) / 2**20 + CUBLAS, abs=2)


class Reads(nn.Module):
    """Gives out the loss of CTC, as models that hear do.

    Targets lie in rows, with lists of lengths, or behind each other, with tensors of them.
    """

    def __init__(self, *, in_rows: bool) -> None:
        super().__init__()
        self.head, self.in_rows = nn.Linear(64, 32), in_rows

    def forward(self, sound: Any, targets: Any) -> Any:
        scores = self.head(sound).log_softmax(-1).transpose(0, 1)
        steps, batch, _ = scores.shape
        given, lengths = [steps] * batch, [targets.shape[1]] * batch
        if self.in_rows:
            return functional.ctc_loss(scores, targets, given, lengths, zero_infinity=True)
        of_each = torch.tensor(given), torch.tensor(lengths)
        return functional.ctc_loss(scores, targets.flatten(), *of_each, zero_infinity=True)


@pytest.mark.parametrize("in_rows", [True, False])
def test_ctc_keeps_a_likelihood_for_each_place_of_the_targets(monkeypatch: pytest.MonkeyPatch, in_rows: bool) -> None:
    monkeypatch.setattr("estimator.summarize._BATCHES", (1,))

    def fed(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(batch, 512, 64), torch.ones(batch, 500, dtype=torch.long)

    text = table_of(lambda: Reads(in_rows=in_rows), own_inputs(fed), 16)
    (run,) = (run for run in parse_summary(text).rehearsals if (run.optimizer, run.precision) == ("sgd", "fp32"))
    likelihoods = 2 * (2 * 500 + 1)  # in the backward pass from behind, too
    numbers = 64 + 2 * 32 + likelihoods  # and what comes in, scores and their gradients
    assert run.points[0].used_mib == pytest.approx(4 * 16 * 512 * numbers / 2**20 + 2 * CUBLAS, rel=0.02)
