"""Reads the published GPUMemNet data (CSV, plain or gzip). Reads the file that it is given, nothing else.

Source: itu-rad/GPUMemNet, data set under CC-BY-4.0; RAD does not ship it.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

from estimator.gpumemnet.described import from_published
from estimator.gpumemnet.train import Example

_LARGEST_FIELD = 10_000_000


def read(path: Path, *, with_oom: bool = True) -> list[Example]:
    """Return the runs of a file of the published data.

    Args:
        path: ``mlp_a100.csv.gz``, ``cnn_a100.csv.gz``, or the like.
        with_oom: keep runs that ran out of memory, at the peak that was seen before they died.

    Raises:
        ValueError: a column is missing, or a row is not understood; the message names file and line.
    """
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    before = csv.field_size_limit(_LARGEST_FIELD)
    try:
        return list(_examples(path, csv.DictReader(io.StringIO(raw.decode("utf-8"))), with_oom))
    finally:
        csv.field_size_limit(before)


def _examples(path: Path, reader: csv.DictReader[str], with_oom: bool) -> Iterator[Example]:
    for row in reader:
        try:
            memory = float(row["Max GPU Memory (MiB)"])
            model = from_published(row)
            failed = row.get("Status", "SUCCESSFUL") != "SUCCESSFUL"
            if memory <= 0 or not model.layers or (failed and not with_oom):
                continue  # died before anything was recorded, or not wanted
            yield Example(model, int(row["Batch Size"]), memory)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}:{reader.line_num}: {error}; is this the published GPUMemNet data?") from None
