"""A job that recovery queues again: its new request and record. Touches its note, and Slurm through `commands`."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable

from slurm_hooks.config import Node
from slurm_hooks.node import commands, spool, state
from slurm_hooks.node.spool import Requeue
from slurm_hooks.records import decode, merge

# A requeued job that starts within two seconds after slurmd should have forgotten its last run may start without a
# Prolog, where another job has begun or ended on the node meanwhile: Slurm itself lets it wait for one second only.
_FORGOTTEN_S = 4


def finish(
    settings: Node, requeue: Requeue, path: str, age_s: float = 0.0, told: Callable[[], None] | None = None
) -> str:
    """Give a requeued job its new request and record; one whose request Slurm refuses for good gets its record alone.

    Args:
        settings: [node].
        requeue: what was begun.
        path: its note.
        age_s: how long ago. Once slurmd has forgotten the run, the start time is left alone: a user may have set it.
        told: called where the request was taken.

    Returns:
        Why it must be tried again, or the empty string.
    """
    limit = settings.command_timeout_s
    delay_s = max(0, commands.credential_s(limit) + _FORGOTTEN_S - int(age_s))
    # A start so much later may be refused (a deadline), and so may the request.
    for gres, later_s in dict.fromkeys([(requeue.gres, delay_s), (requeue.gres, 0), (None, 0)]):
        done = commands.update(requeue.target, gres, requeue.admin_comment, limit, later_s)
        if done.code is None or "Unable to contact" in done.err:
            return done.problem
        if done.ok:
            break
    if told is not None and done.ok and gres is not None:
        told()
    spool.let_go(path)
    return ""


def resume(settings: Node, path: str) -> str | None:
    """Go on with a requeue that was begun; why it must wait (empty: no trouble), or None where nothing is left."""
    data = state.read(path)
    age_s = 0.0
    with contextlib.suppress(FileNotFoundError):
        age_s = state.age_s(path)
    try:
        requeue = Requeue(**(data or {}))
    except TypeError:
        spool.let_go(path)
        return None
    shown, problem = commands.show_job(requeue.job, settings.command_timeout_s)
    if shown is None:
        if "Invalid job id" not in problem:
            return problem
    elif shown.restarts == requeue.restart + 1 and shown.state in ("PENDING", "COMPLETING"):
        return finish(settings, _with_what_is_there(requeue, shown.admin_comment), path, age_s) or None
    elif shown.restarts == requeue.restart and (age_s < spool.HOOK_S or shown.state == "COMPLETING"):
        return ""  # its Epilog is about to requeue it
    spool.let_go(path)  # it was never requeued, or runs again, or is gone
    return None


def _with_what_is_there(requeue: Requeue, admin_comment: str) -> Requeue:
    """`requeue` with its record merged into what AdminComment holds by now; as it was where that cannot be read."""
    record = decode(requeue.admin_comment)
    if record is None or not admin_comment:
        return requeue
    return dataclasses.replace(requeue, admin_comment=merge(admin_comment, record))
