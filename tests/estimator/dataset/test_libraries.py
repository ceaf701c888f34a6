"""Models of other libraries: how tables are read, what goes in, and what they are trained with. Needs torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from estimator.dataset import libraries, printers
from estimator.dataset.catalogues import ninth, seventh, sixth, tenth, twelfth
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.trace import trace
from estimator.dataset.tree import from_json, to_json
from estimator.parsers import parse_summary


def _entry(head: str, given: str = "", target: str = "mean", **config: Any) -> Entry:
    return Entry("library", "x/y", "y", "mlp", "given", 0, head=head, config=config, given=given, target=target)


def _labels(below: int, *shape: int) -> torch.Tensor:
    return torch.full(shape, below - 1)


def test_what_a_table_describes_is_built_from_the_inside_out() -> None:
    inner = {"class": "torch.nn.Linear", "in_features": 4, "out_features": 2}
    model = libraries.build(_entry("torch.nn.TransformerEncoder", encoder_layer=_layer(), num_layers=2))
    assert len(model.layers) == 2
    assert isinstance(libraries._made([inner])[0], nn.Linear)
    assert libraries._made(({"named": "torch.nn.Linear"}, 3)) == (nn.Linear, 3)
    with pytest.raises(ImportError):
        libraries.build(_entry("no_such_library.Net"))


def _layer() -> dict[str, Any]:
    return {"class": "torch.nn.TransformerEncoderLayer", "d_model": 8, "nhead": 2, "batch_first": True}


def test_what_goes_in_is_as_the_text_says() -> None:
    made, named = libraries.inputs("3x4 1000:L 7: =9 #50:2", 2, 6, lambda *shape: torch.zeros(shape), _labels)
    assert not named
    assert [tuple(item.shape) for item in made] == [(2, 3, 4), (2, 6), (2,), (2,), (2, 2)]
    assert [item.is_floating_point() for item in made] == [True, False, False, False, True]
    assert [item.flatten()[0].item() for item in made] == [0, 999, 6, 9, 49]
    (nodes, edges), _ = libraries.inputs("graph", 2, 0, lambda *shape: torch.zeros(shape), _labels)
    assert (tuple(nodes.shape), tuple(edges.shape)) == ((1024, 128), (2, 8192))


def test_what_goes_in_may_have_names() -> None:
    text = ".user@10: .seen@10:4 3 mask@=1:5 ids@!6x3 frames@~8"
    made, named = libraries.inputs(text, 2, 0, lambda *shape: torch.zeros(shape), _labels)
    mapping, numbers = made
    assert {name: tuple(item.shape) for name, item in mapping.items()} == {"user": (2,), "seen": (2, 4)}
    assert tuple(numbers.shape) == (2, 3)
    assert (tuple(named["ids"].shape), named["frames"]) == ((6, 3), 8)
    assert named["mask"].tolist() == [[1] * 5] * 2


def test_what_goes_in_may_be_several_things_in_a_row_or_nothing() -> None:
    made, named = libraries.inputs("=9:2|7:L past@~", 3, 4, lambda *shape: torch.zeros(shape), _labels)
    assert made[0].tolist() == [[9, 9, 6, 6, 6, 6]] * 3
    assert named == {"past": None}


def test_every_number_that_comes_out_counts() -> None:
    out = {"a": torch.ones(2, 3), "b": [torch.full((2, 3), 2.0), torch.tensor([1, 2])], "loss": torch.tensor(0.5)}
    assert libraries.loss(_entry("x.Y"), out, _labels).item() == 1 + 4 + 0.5
    assert libraries.loss(_entry("x.Y", target="own"), torch.tensor([1.0, 3.0]), _labels).item() == 2
    assert libraries.loss(_entry("x.Y", target="pixels"), torch.zeros(1, 2, 4, 4), _labels).item() == pytest.approx(
        0.6931, abs=1e-4
    )


def test_every_model_is_named_once_and_says_what_goes_in() -> None:
    found = [*sixth.entries(), *seventh.entries(), *ninth.entries(), *tenth.entries(), *twelfth.entries()]
    assert len({(entry.source, entry.name) for entry in found}) == len(found) > 1000
    own = [entry for entry in found if entry.feed not in ("gridded", "tokens", "seq2seq", "audio", "speech_seq2seq")]
    assert all(bool(entry.given) != bool(entry.size) for entry in own)
    assert all(entry.source in ("library", "timm") or entry.model_type for entry in found)
    assert all(entry.target in ("class", "pixels", "mean", "own") for entry in found if entry.given)


class _Named(nn.Sequential):
    """A Sequential by another name."""


class _Own(nn.Module):
    """Prints itself, and has parameters of two names."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.scale = nn.Parameter(torch.ones(2))
        self.inner = _Named(nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)

    def __repr__(self) -> str:
        return "Own(4)"


def test_texts_follow_what_a_trace_says_of_classes() -> None:
    model = nn.Sequential(_Own(), _Named(nn.ReLU()))
    traced = from_json(to_json(trace(model, lambda batch: ((torch.ones(batch, 4),), {}))))
    assert printers.module_text(traced) == str(model)
    rows = [line.split() for line in printers.torchsummary_text(traced).splitlines()]
    assert [(row[0], row[-1]) for row in rows if row[0][-1].isdecimal()] == [
        ("Linear-1", "20"),
        ("_Own-2", "3"),
        ("ReLU-3", "0"),
    ]


class _Shared(nn.Module):
    """Calls one layer twice, a table without a batch, and lists in turns."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.once = nn.Linear(4, 4)
        self.ups = nn.ModuleList([nn.Linear(4, 4), None, nn.Linear(4, 4)])
        self.downs = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.once(self.once(x)) + self.table(torch.arange(5)).sum()
        for up, down in zip((self.ups[0], self.ups[2]), self.downs, strict=True):
            x = down(up(x))
        return x


def test_repeated_rows_and_empty_places_are_as_the_tools_write_them() -> None:
    model = _Shared()
    traced = trace(model, lambda batch: ((torch.ones(batch, 4),), {}))
    assert printers.module_text(traced) == str(model)
    rows = [line.split() for line in printers.torchinfo_text(traced, 2).splitlines()]
    assert [(row[0].lstrip("├─"), row[1], row[-1]) for row in rows if row[0].startswith(("├─", "│"))] == [
        ("Linear:", "1-1", "20"),
        ("Linear:", "1-2", "(recursive)"),
        ("Embedding:", "1-3", "20"),
        ("ModuleList:", "1-6", "(recursive)"),
        ("│", "└─Linear:", "20"),
        ("ModuleList:", "1-7", "(recursive)"),
        ("│", "└─Linear:", "20"),
        ("ModuleList:", "1-6", "(recursive)"),
        ("│", "└─Linear:", "20"),
        ("ModuleList:", "1-7", "(recursive)"),
        ("│", "└─Linear:", "20"),
    ]
    assert "[-1, 4]" in printers.torchsummary_text(traced).split("Embedding-3")[1].splitlines()[0]
    assert parse_summary(printers.module_text(traced, with_params=True)).total_params == traced.total_params


class _Listed(nn.Module):
    """Keeps parameters in a list, which prints a line of each."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4, 4))])
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x * self.scales[0]) @ self.scales[1]


def test_lines_of_a_list_of_parameters_are_lines() -> None:
    model = _Listed()
    traced = trace(model, lambda batch: ((torch.ones(batch, 4),), {}))
    assert printers.module_text(traced) == str(model)
    assert parse_summary(printers.module_text(traced)).total_params == 4 + 16 + 20
