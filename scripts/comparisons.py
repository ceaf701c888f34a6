"""What checks of estimates against a GPU do alike: work in processes of its own, rows in a file, figures."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from estimator.evaluate import Errors

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


def told(
    work: Callable[[T], dict[str, Any]], items: Sequence[T], most: int, path: Path, say: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    """Do all work `in_processes`; each row that comes is written to a file as a line of JSON, and printed.

    Args:
        work: as there.
        items: as there.
        most: as there.
        path: the file, which `read` reads again.
        say: tells of a row in a line.

    Returns:
        The rows.
    """
    rows = []
    with path.open("w", encoding="utf-8") as out:
        for row in in_processes(work, items, most):
            out.write(json.dumps(row) + "\n")
            out.flush()
            rows.append(row)
            print(f"{len(rows)}/{len(items)} {say(row)}", flush=True)
    return rows


def read(path: Path) -> list[dict[str, Any]]:
    """Give the rows that were written to a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def figures(ratios: Sequence[tuple[float, float]]) -> str:
    """Say how far estimates were off, from their expectations and bounds as shares of what was taken."""
    found = Errors.of([(*ratio, 1.0) for ratio in ratios])
    off, low, over = found.median_abs_rel_error, found.under_rate, found.mean_over_fraction
    return f"median error {off:.1%}, {low:.1%} too low, {over:.1%} over"
