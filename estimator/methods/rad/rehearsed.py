"""The estimate of a model whose own code was rehearsed: what the allocator held for it there is the account. Pure.

What is left to say is what a rehearsal does not know: the user's loss, and what libraries work with. That varies from
run to run, but far less than what no summary shows of a model that nothing like was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import Any, Final, NamedTuple

from estimator.methods.rad.errors import bounded, size_of
from estimator.methods.rad.features import FEATURES, MIB
from estimator.methods.rad.known import finite
from estimator.methods.rad.liveness import Memory
from estimator.methods.rad.trees import Trees
from estimator.rehearsals.lines import Found

REHEARSED: Final = ("over_summary", "over_used", "most", "apart")
"""What trees are told of a rehearsal beside the features of the request."""
_WIDTH: Final = len(FEATURES) + len(REHEARSED)
APART: Final = len(FEATURES) + REHEARSED.index("apart")
_SMALLEST: Final = 0.01


class Account(NamedTuple):
    """What a job takes by a rehearsal.

    Attributes:
        mib: what the allocator holds, without the context.
        fixed: what of that is certain: weights, gradients and optimizer state.
        row: features of the request, and `REHEARSED`.
    """

    mib: float
    fixed: float
    row: list[float]


def account(found: Found, row: list[float], memory: Memory) -> Account:
    """Account for a request.

    Args:
        found: what the rehearsal says of it.
        row: features of the request.
        memory: what the summary alone says of it.
    """
    said = memory.peak / MIB
    mib = max(found.held_mib, memory.step / MIB)
    over_summary = log(max(mib, _SMALLEST) / max(said, _SMALLEST))
    over_used = log(max(found.held_mib, _SMALLEST) / max(found.used_mib, _SMALLEST))
    most = log(max(found.most_mib, found.held_mib, _SMALLEST) / max(found.held_mib, _SMALLEST))
    return Account(mib, memory.fixed / MIB, [*row, over_summary, over_used, most, found.apart])


class Rehearsed:
    """What was learned of measured runs whose models were rehearsed."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Read what `estimator.methods.rad.fit.rehearsals` made.

        Raises:
            ModelError, LookupError, TypeError, ValueError: it is damaged.
        """
        self._correction = Trees(model["correction"], _WIDTH)
        self._spread = Trees(model["spread"], _WIDTH)
        self._bound, self._bound_apart = finite(model["bound"]), finite(model["bound_apart"])

    def of(self, found: Account, context: float) -> tuple[float, float]:
        """Give expectation and bound in MiB, the context included.

        Args:
            found: the account.
            context: the CUDA context in MiB.
        """
        expected = (found.mib + context) * exp(self._correction.predict(found.row))
        size = size_of(self._spread.predict(found.row), share_of(found, expected, context))
        bound = self._bound_apart if found.row[APART] else self._bound
        return expected, bounded(expected, size * bound)


def share_of(found: Account, expected: float, context: float) -> float:
    """Tell which share of what is expected may be wrong; all in MiB."""
    return max(1.0 - (found.fixed + context) / max(expected, 1.0), 0.0)
