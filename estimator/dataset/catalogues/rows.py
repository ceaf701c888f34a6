"""What the tables of the seventh, ninth and tenth collection are made of: rows become models. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues.entries import Entry, Feed, decoder
from estimator.types import Family

LibraryRow = tuple[str, str, str, Mapping[str, Any]]
"""Architecture family, class (or ``class:variant``), what goes in, what the class is built with."""
TransformersRow = tuple[str, str, str, str, Mapping[str, Any]]
"""Architecture family, ``model_type``, class (or ``class:variant``), what goes in, what differs from the defaults."""

_LONGEST = 512
_LENGTH = re.compile(r"[:x]L\b")

WIDTHS: Mapping[str, Any] = {"in_channels": 256, "out_channels": 256}
"""Of graph convolutions."""
# What configurations of transformers' models share: sizes of what reads, of what looks at patches, of what continues.
WORDS: Mapping[str, Any] = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "intermediate_size": 1536,
}
PATCHES: Mapping[str, Any] = {**WORDS, "image_size": 224, "patch_size": 16}
CHAT = decoder(512, 1536, 6, 8, 4, 32000)


def of_library(library: str, rows: Iterable[LibraryRow], family: Family, feed: Feed, target: str) -> Iterator[Entry]:
    """Yield the models of a table whose classes stand in one library, or anywhere where none is named."""
    for group, key, given, config in rows:
        path, _, variant = key.partition(":")
        head = f"{library}.{path}" if library else path
        parts = head.split(".")
        yield Entry(
            "library",
            f"{parts[0]}/{parts[-1]}{'-' * bool(variant)}{variant}",
            group,
            family,
            feed,
            0,
            head=head,
            config=dict(config),
            longest=_longest(given),
            given=given,
            target=target,
        )


def of_transformers(rows: Iterable[TransformersRow], feed: Feed, family: Family = "transformer") -> Iterator[Entry]:
    """Yield the models of a table of transformers'; those whose output has a loss are trained with it."""
    for group, kind, key, given, config in rows:
        head, _, variant = key.partition(":")
        yield Entry(
            "transformers",
            f"{kind}-{variant}" if variant else kind,
            group,
            family,
            feed,
            model_type=kind,
            head=head,
            config=dict(config),
            longest=_longest(given),
            given=given,
            target="own" if "labels@" in given or "return_loss" in given else "mean",
            size=0,
        )


def _longest(given: str) -> int:
    return _LONGEST if _LENGTH.search(given) else 0


def convolved(kind: str, *, given: str = "x, edge_index", same: bool = True, **more: Any) -> dict[str, Any]:
    """Describe three graph convolutions of PyTorch Geometric and what classifies, as its Sequential is written.

    Args:
        kind: class of the convolutions.
        given: what they take.
        same: whether they are told how wide their input and their output are.
        more: what else they are made with.
    """
    layers: list[Any] = [[{"class": "torch_geometric.nn.Linear", "in_channels": 128, "out_channels": 256}, "x -> x"]]
    widths = WIDTHS if same else {}
    for _ in range(3):
        layers.append([{"class": f"torch_geometric.nn.{kind}", **widths, **more}, f"{given} -> x"])
        layers.append({"class": "torch.nn.ReLU", "inplace": True})
    layers.append({"class": "torch_geometric.nn.Linear", "in_channels": 256, "out_channels": 40})
    return {"input_args": "x, edge_index", "modules": layers}
