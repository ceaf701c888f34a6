"""The estimate of a model whose own code was rehearsed: what its tensors took there is the account. Pure.

What is left to say is what libraries and the allocator take beside the tensors. That varies from run to run, but far
less than what no summary shows of a model that nothing like was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log
from typing import Any, Final, NamedTuple

from estimator.methods.rad.errors import bounded, size_of
from estimator.methods.rad.features import FEATURES, MIB
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.known import finite
from estimator.methods.rad.liveness import CUBLAS, Memory
from estimator.methods.rad.program import Program
from estimator.methods.rad.trees import Trees
from estimator.rehearsal import at_batch
from estimator.types import ModelSummary, Workload

_RECURRENT: Final = Kind.RECURRENT
_WIDTH: Final = len(FEATURES) + 1
_SMALLEST: Final = 0.01


class Account(NamedTuple):
    """What a step takes by a rehearsal.

    Attributes:
        mib: tensors, workspaces and what the libraries take from the allocator, without the context.
        fixed: what of that is certain: weights, gradients and optimizer state.
        row: features of the request, and by how much the account made of the summary alone is exceeded.
    """

    mib: float
    fixed: float
    row: list[float]


def wanted(summary: ModelSummary, workload: Workload) -> Workload | None:
    """Give the workload whose rehearsal tells of this one; None where there is none.

    Under autocast nothing can be rehearsed: what fp32 takes more than its account, autocast does.
    """
    like = replace(workload, precision="fp32") if workload.precision == "amp" else workload
    if at_batch(summary.rehearsals, like.kind, like.precision, like.batch_size) is None:
        return None
    return like


def account(
    summary: ModelSummary,
    program: Program,
    like: Workload,
    row: list[float],
    memories: tuple[Memory, Memory],
) -> Account:
    """Account for a request.

    Args:
        summary: with the rehearsal of ``like``.
        program: what was made of it.
        like: what `wanted` gives.
        row: features of the request.
        memories: what the summary alone says of the request, and of ``like``.
    """
    own, other = memories
    rehearsed = at_batch(summary.rehearsals, like.kind, like.precision, like.batch_size) or 0.0
    # What both take beside weights is to each other as the summary's accounts are.
    beside = max(rehearsed - other.weights / MIB, 0.0)
    if own is not other:
        beside *= _beside(own) / max(_beside(other), 1.0)
    if any(op.kind is _RECURRENT for op in program.ops):  # cuDNN keeps gates and states, of which code shows nothing
        beside = max(beside, _beside(own) / MIB)
    library = CUBLAS * (2 if like.kind == "train" else 1) if program.multiplies else 0.0
    step = own.weights / MIB + beside + (own.states + library + own.at_peak) / MIB
    mib = max(step, own.step / MIB)
    fixed = (own.weights + own.gradients + own.states) / MIB
    return Account(mib, fixed, [*row, log(max(mib, _SMALLEST) / max(own.peak / MIB, _SMALLEST))])


def _beside(memory: Memory) -> float:
    """Give the bytes of a step beside weights and the optimizer's state."""
    return max(memory.forward, memory.loss, memory.backward) - memory.weights - memory.states


class Rehearsed:
    """What was learned of measured runs whose models were rehearsed."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        """Read what `estimator.methods.rad.fit.rehearsals` made.

        Raises:
            ModelError, LookupError, TypeError, ValueError: it is damaged.
        """
        self._correction = Trees(model["correction"], _WIDTH)
        self._spread = Trees(model["spread"], _WIDTH)
        self._bound = finite(model["bound"])

    def of(self, found: Account, context: float) -> tuple[float, float]:
        """Give expectation and bound in MiB, the context included.

        Args:
            found: the account.
            context: the CUDA context in MiB.
        """
        expected = (found.mib + context) * exp(self._correction.predict(found.row))
        size = size_of(self._spread.predict(found.row), share_of(found, expected, context))
        return expected, bounded(expected, size * self._bound)


def share_of(found: Account, expected: float, context: float) -> float:
    """Tell which share of what is expected may be wrong; all in MiB."""
    return max(1.0 - (found.fixed + context) / max(expected, 1.0), 0.0)
