"""Which of slurmdbd's rows is a run's, and what it tells of the run. Pure."""

from __future__ import annotations

import dataclasses

from slurm_hooks.node import recovery
from slurm_hooks.node.commands import Row
from slurm_hooks.records import Run

_PLAIN = ("COMPLETED", "FAILED")


def row_of(run: Run, rows: list[Row]) -> Row | None:
    """The row of a run, or None where slurmdbd has none yet."""
    mine = [row for row in reversed(rows) if _belongs(run, row)]
    # A job that is cancelled as soon as it was queued again has a row without a start, as has a run that lost it.
    return next((row for row in mine if row.start is not None), mine[0] if mine else None)


def _belongs(run: Run, row: Row) -> bool:
    """Whether a row is that run's: Prolog starts at or after the time that Slurm notes, and before it ends."""
    begin = row.end if row.start is None else row.start  # of a requeued run slurmdbd may have lost the start
    if begin is None or run.end is None or begin > run.end + 1:
        return False
    if run.start is None:
        return True
    return begin >= run.start - 600 and (row.end is None or row.end >= run.start - 1)


def told_by_slurm(run: Run, rows: list[Row]) -> Run:
    """`run`, with Slurm's own word where the run ended neither well nor by its own failure."""
    row = row_of(run, rows)
    if run.outcome in recovery.REQUEUED and row is not None and row is rows[-1] and row.state != "REQUEUED":
        kind = run.outcome.partition("_")[0]
        return dataclasses.replace(run, outcome=f"{kind}_told")  # the requeue did not come about
    if row is None or row.state in _PLAIN or run.outcome.startswith(("oom_", "mps_")):
        return run
    return dataclasses.replace(run, outcome=row.state.lower())
