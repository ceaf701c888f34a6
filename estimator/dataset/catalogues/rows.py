"""Rows of tables become models: of libraries, and of what transformers has in forms of its own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues.entries import Entry, Feed, named
from estimator.types import Family

LibraryRow = tuple[str, str, str, Mapping[str, Any]]
"""Architecture family, class (or ``class:variant``), what goes in, what the class is built with."""
TransformersRow = tuple[str, str, str, str, Mapping[str, Any]]
"""Architecture family, ``model_type``, class (or ``class:variant``), what goes in, what differs from the defaults."""

_LONGEST = 512
_LENGTH = re.compile(r"[:x]L\b")

GET = "pytorchcv.model_provider.get_model"
"""What makes any of pytorchcv's models."""


def made(
    name: str,
    group: str,
    head: str,
    config: Mapping[str, Any],
    *,
    family: Family = "cnn",
    feed: Feed = "image",
    size: int = 0,
    given: str = "",
    target: str = "",
) -> Entry:
    """Make the entry of a library's model: see `Entry`; it takes long sequences where its input has length ``L``."""
    told = {"head": head, "config": dict(config), "longest": _longest(given), "given": given, "target": target}
    return Entry("library", name, group, family, feed, size, **told)  # type: ignore[arg-type]


def of_library(library: str, rows: Iterable[LibraryRow], family: Family, feed: Feed, target: str) -> Iterator[Entry]:
    """Yield the models of a table whose classes stand in one library, or anywhere where none is named."""
    for group, key, given, config in rows:
        path, _, variant = key.partition(":")
        head = f"{library}.{path}" if library else path
        parts = head.split(".")
        name = f"{parts[0]}/{parts[-1]}{'-' * bool(variant)}{variant}"
        yield made(name, group, head, config, family=family, feed=feed, given=given, target=target)


def of_diffusers(rows: Iterable[LibraryRow]) -> Iterator[Entry]:
    """Yield diffusers' models; those that are no transformers by their names convolve."""
    for row in rows:
        attends = any(mark in row[1] for mark in ("Transformer", "DiT", "UVit"))
        yield from of_library("diffusers", (row,), "transformer" if attends else "cnn", "volume", "mean")


def of_graphs(layers: Mapping[str, Mapping[str, Any]]) -> Iterator[Entry]:
    """Yield networks of PyTorch Geometric that `convolved` describes, by family."""
    rows = [(group, f"Sequential:{group}", "graph", config) for group, config in layers.items()]
    yield from of_library("torch_geometric.nn", rows, "mlp", "given", "class")


def of_pytorchcv(groups: Mapping[str, str], *, sides: bool = False, **config: Any) -> Iterator[Entry]:
    """Yield pytorchcv's models of pictures.

    Args:
        groups: names by family; a name may say its pictures' side.
        sides: they are told their pictures' sides.
        config: what they are told besides.
    """
    for group, name, side in named(groups):
        told = {"name": name, **config, **({"in_size": (side, side)} if sides else {})}
        yield made(f"pytorchcv/{name}", group, GET, told, size=side)


def of_segmenters(groups: Mapping[str, str]) -> Iterator[Entry]:
    """Yield models of segmentation_models_pytorch, ``class:encoder`` by family, for pictures of 256 x 256."""
    library = "segmentation_models_pytorch"
    for group, names in groups.items():
        for name, _, encodes in (item.partition(":") for item in names.split()):
            told = {"encoder_name": encodes, "encoder_weights": None, "classes": 8}
            yield made(f"{library}/{name}-{encodes}", group, f"{library}.{name}", told, size=256)


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
