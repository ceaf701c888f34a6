"""Embeddings whose gradients are sparse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from estimator.methods.rad import Rad
from estimator.parsers import SummaryError, parse_summary
from estimator.types import OPTIMIZERS, Kind, Optimizer, Workload
from tests.estimator.accounts import plain

_ROWS, _WIDTH = 100, 8
_MAKE: dict[Optimizer, Any] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    "sgd_momentum": lambda params, lr: torch.optim.SGD(params, lr, momentum=0.9),
    "rmsprop": torch.optim.RMSprop,
}


def _printed(*, is_sparse: bool) -> str:
    return f"{nn.Sequential(nn.Embedding(_ROWS, _WIDTH, sparse=is_sparse), nn.Linear(_WIDTH, 4))}\n"


def _reasons(text: str, optimizer: Optimizer = "sgd", kind: Kind = "train") -> tuple[str, ...]:
    asked = Workload(batch_size=2, seq_len=16, optimizer=optimizer, kind=kind)
    return Rad(plain()).predict(parse_summary(text), asked).reasons


def _held(optimizer: Optimizer) -> list[int] | None:
    """Train on other words in each step, and give how many rows the buffer has after each; None where it refuses."""
    torch.manual_seed(0)
    words = nn.Embedding(_ROWS, _WIDTH, sparse=True)
    steps = _MAKE[optimizer](words.parameters(), 0.1)
    held = []
    for _ in range(50):
        words(torch.randperm(_ROWS)[:10]).sum().backward()
        try:
            steps.step()
        except RuntimeError as error:
            assert "not support sparse gradients" in str(error)
            return None
        steps.zero_grad()
        held.append(sum(buffer._nnz() for buffer in steps.state[words.weight].values() if buffer is not None))
    return held


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [("sgd_momentum", "SGD's momentum keeps the rows of every step"), ("rmsprop", "RMSprop refuses")],
)
def test_optimizers_that_work_on_no_sparse_gradients_are_refused(optimizer: Optimizer, why: str) -> None:
    held = _held(optimizer)
    assert (held is None) == (optimizer == "rmsprop")
    assert held is None or held[-1] > 2 * _ROWS
    with pytest.raises(SummaryError, match=rf"Embedding\(\.\., sparse=True\): {why}.*#RAD memory=12G"):
        _reasons(_printed(is_sparse=True), optimizer)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_sparse_gradients_are_counted_as_full_ones(optimizer: Optimizer) -> None:
    full, found = (_reasons(_printed(is_sparse=is_sparse), optimizer) for is_sparse in (False, True))
    (said,) = set(found) - set(full)
    assert said.startswith("sparse gradients of embeddings are counted as if they had all rows")
    assert ("SparseAdam" in said) == (_held(optimizer) is None) == (optimizer != "sgd")


def test_sparse_adam_holds_as_much_as_adam() -> None:
    words = nn.Embedding(_ROWS, _WIDTH, sparse=True)
    steps = torch.optim.SparseAdam(words.parameters())
    words(torch.arange(10)).sum().backward()
    steps.step()
    states = [state for state in steps.state[words.weight].values() if torch.is_tensor(state)]
    assert [(tuple(state.shape), state.is_sparse) for state in states] == [((_ROWS, _WIDTH), False)] * 2


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_nothing_is_said_of_embeddings_whose_gradients_nobody_makes(optimizer: Optimizer) -> None:
    text = _printed(is_sparse=True)
    frozen = f"{text}Trainable params: 36\nNon-trainable params: {_ROWS * _WIDTH}\n"
    other = text.replace("(1): Linear(", "(1): Linear(sparse=True, ").replace("8, sparse=True)", "8)")
    prints = (_printed(is_sparse=False), frozen, other)
    assert not any("sparse" in said for found in prints for said in _reasons(found, optimizer))
    assert not any("sparse" in said for said in _reasons(text, optimizer, "infer"))
