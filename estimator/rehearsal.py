"""What a step of a model's own code takes on tensors without data, as `radctl summarize` writes it below a table. Pure.

A rehearsal knows what no summary shows: what functions between the layers keep. It counts tensors alone, not what the
GPU's libraries and the allocator take beside them. `estimator.rehearse` makes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from estimator.types import KINDS, Kind, Precision, Rehearsal, SummaryError

PRECISIONS: Final[tuple[Precision, ...]] = ("fp32", "bf16")
"""Those that can be rehearsed: autocast works on a GPU's tensors alone."""
_SAID: Final = re.compile(r"([0-9.]{1,20}), ([0-9.]{1,20}) mib at batch ([0-9]{1,9}), ([0-9]{1,9})")
_MOST_MIB: Final = 1e9
# Names of the lines, as `estimator.parsers.text.read_totals` gives them.
_LABELS: Final[Mapping[str, tuple[Kind, Precision]]] = {
    f"rehearsed {kind} {precision} size": (kind, precision) for kind in KINDS for precision in PRECISIONS
}


def line_of(found: Rehearsal) -> str:
    """Write one rehearsal as a line below a table."""
    (few, less), (many, more) = found.points
    return f"Rehearsed {found.kind} {found.precision} size (MiB at batch {few}, {many}): {less:.1f}, {more:.1f}"


def read(totals: Mapping[str, str]) -> tuple[Rehearsal, ...]:
    """Read the rehearsals among the lines below a table.

    Raises:
        SummaryError: a line that begins like one holds no sizes.
    """
    return tuple([Rehearsal(*of, _points(totals[name])) for name, of in _LABELS.items() if name in totals])


def _points(said: str) -> tuple[tuple[int, float], tuple[int, float]]:
    match = _SAID.fullmatch(said)
    if match is not None:
        try:
            few, many, less, more = int(match[3]), int(match[4]), float(match[1]), float(match[2])
        except ValueError:  # several points in one number
            few = many = 0
        if 0 < few < many and less <= _MOST_MIB and more <= _MOST_MIB:
            return (few, less), (many, more)
    raise SummaryError(f"{said[:60]!r} are no sizes of a rehearsal: let radctl summarize print the table anew")


def at_batch(rehearsals: Iterable[Rehearsal], kind: Kind, precision: Precision, batch: int) -> float | None:
    """Give the most that tensors take in a step, in MiB; None where that was not rehearsed.

    Args:
        rehearsals: of one model.
        kind: of the step.
        precision: of the step.
        batch: its samples; between and beyond the two that were rehearsed it follows a line through them.
    """
    wanted: Precision = "bf16" if precision == "fp16" else precision
    for found in rehearsals:
        if (found.kind, found.precision) == (kind, wanted):
            (few, less), (many, more) = found.points
            return max(less + (more - less) * (batch - few) / (many - few), 0.0)
    return None
