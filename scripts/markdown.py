"""Tables of the results pages, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, right: bool = False) -> str:
    """Return a table.

    Args:
        heads: of the columns.
        rows: cells, in the order of the columns.
        right: whether all columns but the first are aligned to the right, as numbers are.
    """
    rule = ["---", *["---:" if right else "---"] * (len(heads) - 1)]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in (heads, rule, *rows))
