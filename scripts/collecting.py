"""What collections on a lent GPU have in common: options, copies of raw results as they come, what failed."""

from __future__ import annotations

import argparse
import lzma
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from estimator.dataset.raw import FAILURES, ROWS, TRACES, read_jsonl


def parser(about: str | None, *, minutes: float, capacity_gib: float | None = None) -> argparse.ArgumentParser:
    """Make a parser of the options that all of them have.

    Args:
        about: what the command does.
        minutes: time to measure, unless another is asked for.
        capacity_gib: memory for all of the workers, unless another is asked for; None where they claim none.
    """
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--out", type=Path, required=True, help="folder of compressed results")
    made.add_argument("--minutes", type=float, default=minutes, help="hand out nothing new after that")
    made.add_argument("--workers", type=int, default=14, help="processes at a time")
    if capacity_gib is not None:
        made.add_argument("--capacity-gib", type=float, default=capacity_gib, help="GPU memory for all of them")
    made.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    made.add_argument("--pack", action="store_true", help="run nothing: add what OUT holds to RAD's data set")
    return made


def add_share(to: argparse.ArgumentParser, says: str) -> None:
    """Add the option that divides models among GPUs; its value is a pair of whole numbers."""
    to.add_argument("--share", type=share, default=(0, 1), metavar="K/N", help=says)


def share(text: str) -> tuple[int, int]:
    """Read ``K/N``."""
    one, all_ = map(int, text.split("/"))
    return one, all_


@contextmanager
def copied(raw: Path, out: Path, every: float = 30.0) -> Iterator[None]:
    """Copy raw results, compressed, to another folder after so many seconds again and again, and at the end."""
    out.mkdir(parents=True, exist_ok=True)
    over = threading.Event()

    def again() -> None:
        while not over.wait(every):
            _copy(raw, out, 1)

    copier = threading.Thread(target=again, daemon=True)
    copier.start()
    try:
        yield
    finally:
        over.set()
        copier.join()
        _copy(raw, out, 6)


def _copy(raw: Path, out: Path, preset: int) -> None:
    for part in ("main", "isolated", "quiet"):
        for name in (ROWS, TRACES, FAILURES) if part == "main" else (ROWS,):
            source = raw / part / name
            if source.exists():
                (out / f"{part}-{name}.xz").write_bytes(lzma.compress(source.read_bytes(), preset=preset))


def tell_failures(folder: Path) -> None:
    """Print why configurations failed, what failed most first."""
    for why, count in Counter(item["why"][:150] for item in read_jsonl(folder / FAILURES)).most_common(40):
        print(f"{count:4} x {why}", flush=True)
