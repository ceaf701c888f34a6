"""What checks of estimates against a GPU do alike: work in processes of its own, rows in a file, figures."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import mean, median
from typing import Any, TypeVar

T = TypeVar("T")


def in_processes(work: Callable[[T], dict[str, Any]], items: Iterable[T], most: int) -> Iterator[dict[str, Any]]:
    """Do each piece of work in a new process, forked from this one, which has imported torch and never touched a GPU.

    Args:
        work: gives a row; where its process dies, an error stands for that.
        items: what is to be worked on.
        most: processes at a time.

    Returns:
        What each gave, as it comes.
    """
    context = multiprocessing.get_context("fork")
    left, running = list(reversed(list(items))), dict[Connection, Any]()
    while left or running:
        while left and len(running) < most:
            item = left.pop()
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(work, item, theirs))
            process.start()
            theirs.close()
            running[ours] = process, item
        for ready in wait(list(running)):
            assert isinstance(ready, Connection)
            process, item = running.pop(ready)
            try:
                row = ready.recv()
            except EOFError:
                row = {"name": str(item), "error": "its process died"}
            process.join()
            yield row


def _work(work: Callable[[T], dict[str, Any]], item: T, pipe: Connection) -> None:
    pipe.send(work(item))


def written(rows: Iterable[dict[str, Any]], path: Path) -> Iterator[dict[str, Any]]:
    """Give rows on as they come, each written to a file as a line of JSON before."""
    with path.open("w") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")
            out.flush()
            yield row


def figures(ratios: Sequence[tuple[float, float]]) -> str:
    """Say how far estimates were off, from their expectations and bounds as shares of what was taken."""
    off = median(abs(expected - 1) for expected, _ in ratios)
    low, over = mean(upper < 1 for _, upper in ratios), mean(max(upper - 1, 0.0) for _, upper in ratios)
    return f"median error {off:.1%}, {low:.1%} too low, {over:.1%} over"
