"""What autograd keeps of activations and poolings, beside the account of their print and of their table."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from tests.estimator.accounts import account, tree

BATCH, CHANNELS, SIDE = 2, 8, 16
# A buffer that is empty on a GPU, and on a CPU as large as the input; and what a layer keeps that it does not save.
_OTHERWISE = {"LogSigmoid": -1, "CrossMapLRN2d": 1}
LAYERS = (
    nn.Softshrink(),
    nn.Hardshrink(),
    nn.Threshold(0.1, 0.0),
    nn.Threshold(0.1, 0.0, inplace=True),
    nn.Tanhshrink(),
    nn.RReLU(),
    nn.RReLU(inplace=True),
    nn.LogSigmoid(),
    nn.Softsign(),
    nn.LPPool2d(2, 2),
    nn.LPPool2d(1, 3, stride=1),
    nn.LocalResponseNorm(1),
    nn.CrossMapLRN2d(5),
    nn.GLU(1),
    nn.GLU(-1),
    nn.LeakyReLU(),
    nn.ReLU(),
    nn.Sigmoid(),
)


def _model(layer: nn.Module) -> nn.Sequential:
    channels = layer(torch.randn(1, CHANNELS, SIDE, SIDE)).shape[1]
    return nn.Sequential(nn.Conv2d(3, CHANNELS, 1), layer, nn.Conv2d(channels, 4, 1))


def _kept(model: nn.Module) -> int:
    """Count the bytes that autograd keeps of a model, each tensor once, without its weights."""
    own = {param.untyped_storage().data_ptr() for param in model.parameters()}
    found: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and storage.nbytes() > 8:  # a number is no activation
            found[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        _ = model(torch.randn(BATCH, 3, SIDE, SIDE))
    return sum(storage.nbytes() for storage in found.values())


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_what_autograd_keeps_of_a_layer_is_counted(layer: nn.Module) -> None:
    model = _model(layer)
    name = type(layer).__name__
    kept = _kept(model) + _OTHERWISE.get(name, 0) * BATCH * CHANNELS * SIDE * SIDE * 4
    given = list(layer(torch.randn(BATCH, CHANNELS, SIDE, SIDE)).shape)
    _, program, memory = account(f"{model}\n", batch_size=BATCH, input_size=(3, SIDE, SIDE))
    assert list(program.shapes[program.ops[-1].x]) == given[1:]
    assert memory.kept == kept
    shown = tree(
        f"Sequential [{BATCH}, 4, {given[2]}, {given[3]}] --",
        f"├─Conv2d: 1-1 [{BATCH}, {CHANNELS}, {SIDE}, {SIDE}] 32",
        f"├─{name}: 1-2 {given} --",
        f"├─Conv2d: 1-3 [{BATCH}, 4, {given[2]}, {given[3]}] {4 * given[1] + 4}",
    )
    if not getattr(layer, "inplace", False):  # which no table shows
        assert account(shown, batch_size=BATCH)[2].kept == kept


def test_a_norm_before_leaves_nothing_to_keep_of_what_an_activation_takes() -> None:
    """A table whose shapes are all alike takes another way than `keep`."""
    rows = [f"[{BATCH}, {CHANNELS}, {SIDE}, {SIDE}]"] * 3
    plain, more = (
        account(tree(f"Net {rows[0]} --", f"├─BatchNorm2d: 1-1 {rows[0]} 16", f"├─{type_}: 1-2 {rows[0]} --"))[2].kept
        for type_ in ("Softplus", "Softsign")
    )
    assert more - plain == BATCH * CHANNELS * SIDE * SIDE * 4


@pytest.mark.parametrize("said", ["dim=3", "dim=-4", "dim=2", ""])
def test_a_gate_over_no_axis_or_an_odd_one_changes_no_shape(said: str) -> None:
    text = f"Net(\n  (0): Linear(in_features=6, out_features=9, bias=True)\n  (1): GLU({said})\n)\n"
    shaped, _, _ = account(text, batch_size=BATCH, seq_len=5)
    assert shaped.root.children[1].output_shape == shaped.root.children[0].output_shape
