"""The raw results of a collection: files of JSON lines, appended one by one, and read again. Imports no torch."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from estimator import files
from estimator.dataset.specs import spec_from_json

T = TypeVar("T")

ROWS, TRACES, FAILURES = "rows.jsonl", "traces.jsonl", "failures.jsonl"
PROFILES, ISOLATED = "profiles.jsonl", "isolated.jsonl"
"""Rows with counters, and rows of processes of their own, which a person puts beside."""


class LineError(ValueError):
    """A line that is no JSON, or no row; the message names it and the cure."""


class CollectError(RuntimeError):
    """A collection that cannot go on; the message says what to look at."""


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines; a last line that was cut off is left out.

    Raises:
        LineError: another line is no JSON object.
    """
    return read_each(path, dict)


def read_each(path: Path, read: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Yield what `read` makes of each object of a file of JSON lines; a last line that was cut off is left out.

    Raises:
        LineError: another line is no JSON object, or not such a one.
    """
    if not path.exists():
        return
    lines = files.read_text(path, files.MAX_DATA_BYTES).split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return  # no newline: the writer was interrupted
            raise _unread(path, number, str(error)) from None
        try:
            found = read(item)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise _unread(path, number, f"{type(error).__name__} {error}") from None
        yield found


def _unread(path: Path, number: int, why: str) -> LineError:
    return LineError(f"{path}:{number}: {why}; delete the line to go on without it")


def done_ids(folder: Path) -> set[str]:
    """Return ids of configurations that a folder of raw results already holds, failures too."""
    ids = set(read_each(folder / ROWS, lambda row: spec_from_json(row["spec"]).id))
    return ids | set(read_each(folder / FAILURES, lambda row: str(row["id"])))


def _end_last_line(path: Path) -> None:
    """Take away a last line that was cut off, which `read_jsonl` leaves out: what is appended would stand behind it."""
    data = path.read_bytes() if path.exists() else b""
    last = data[data.rfind(b"\n") + 1 :]
    if not last:
        return
    with path.open("r+b") as file:
        try:
            json.loads(last)
        except ValueError:
            file.truncate(len(data) - len(last))
        else:
            file.seek(0, os.SEEK_END)
            file.write(b"\n")


class RawFiles:
    """The raw results, appended line by line."""

    def __init__(self, folder: Path) -> None:
        """Open them, and keep other collections away from them.

        Raises:
            CollectError: another collection writes there: each would hand out all of the GPU's memory.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {name: (folder / name).open("a", encoding="utf-8") for name in (ROWS, TRACES, FAILURES)}
        try:
            fcntl.flock(self._files[ROWS], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise CollectError(f"{folder}: another collection writes there: wait for its end") from None
        for name in self._files:
            _end_last_line(folder / name)

    def write(self, name: str, item: dict[str, Any]) -> None:
        """Append one line to the file of that name."""
        self._files[name].write(json.dumps(item, separators=(",", ":")) + "\n")
        self._files[name].flush()

    def close(self) -> None:
        """Close them, for others to write."""
        for file in self._files.values():
            file.close()
