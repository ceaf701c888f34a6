"""What squeue is asked and prints. Pure, no heavy imports.

`squeue -O` has columns of fixed widths, so that no text of a user's can pass for another column or another job. Slurm
pads to bytes, and free text may hold whatever its user likes, line ends too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

HOLDING = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "STAGE_OUT")
"""States of jobs that hold what they were given; stopped is one whose user has sent it SIGSTOP."""

HELD = frozenset(("SPECIAL_EXIT", "RESV_DEL_HOLD"))
"""States of jobs that wait until somebody releases them: for RequeueExitHold, or as their reservation is over."""

LIVE = frozenset((*HOLDING, *HELD, "SIGNALING", "RESIZING", "PENDING", "REQUEUED", "REQUEUE_HOLD"))
"""States of jobs that run, or may run again."""

PIECE = 65_536
"""Of what a command says, as much is read at one go: no thread can do anything meanwhile."""

Columns = Sequence[tuple[str, int]]
"""Slurm's names of columns and their widths in bytes; a dot before the name has it end at the column's end."""


def wanted(columns: Columns) -> str:
    """What `squeue -O` is asked."""
    return ",".join(f"{name[1:]}:.{width}" if name[0] == "." else f"{name}:{width}" for name, width in columns)


def rows(text: str, columns: Columns) -> Iterator[dict[str, bytes]]:
    """The rows of `squeue -O`, each cell by its column's name, without the blanks that fill it.

    A cell as long as its column is wide was cut, or fills it.
    """
    length = sum(width for _, width in columns) + 1  # and the line's end
    data = b""
    for at in range(0, len(text), PIECE):
        data += text[at : at + PIECE].encode(errors="surrogateescape")
        rest = len(data) - len(data) % length
        for start in range(0, rest, length):
            cells, place = {}, start
            for name, width in columns:
                cell = data[place : place + width]
                cells[name] = cell.lstrip(b" ") if name[0] == "." else cell.rstrip(b" ")
                place += width
            if data[place : place + 1] == b"\n":
                yield cells
        data = data[rest:]
