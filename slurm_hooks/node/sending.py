"""Sends what waits in the spool to slurmdbd: as a background process of Epilog's, or of rad-spool.timer's.

An outcome is merged into what AdminComment holds, so sending it again changes nothing.

22.05's sacctmgr makes every letter of a comment small. Our own record survives that; what other tools keep beside
it (jobstats: base64) may not, and then it is left alone and our outcome stays here, under another name.

Touches the spool's folders, and Slurm through `commands`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from slurm_hooks.config import Node
from slurm_hooks.node import commands, recovery, requeues, spool, state
from slurm_hooks.node.rows import row_of, told_by_slurm
from slurm_hooks.node.spool import Item
from slurm_hooks.records import decode, merge, strip
from slurm_hooks.slurm.squeue import LIVE

BATCH = 200  # jobs in one question to slurmdbd
FIRST_WAIT_S = 0.5
LAST_WAIT_S = 30.0  # between two rounds, where slurmdbd does not answer
LAST_LOOK_S = 5.0  # where it answers, and has not heard of a job's end yet
LOOK_S = 0.5  # between two looks at the spool folder
_PATIENCE = 4  # slurmdbd may take this many times as long as slurmctld
_ROW_COMES_S = 3600.0  # slurmdbd hears of a requeued job's next run sooner, or never
_LETTERS = ".letters.json"  # whether sacctmgr was seen to keep letters as they are
_SMALL_LETTERS_UNTIL = (22, 5)


@dataclass(frozen=True)
class Sent:
    """What a round did.

    Attributes:
        sent: outcomes that slurmdbd has now.
        soon: outcomes and requeues that are worth another try in a moment.
        later: outcomes of jobs that Slurm still has to do with.
        problems: what went wrong, one line each.
        silent: whether slurmdbd did not answer; the outcomes that were left are not looked at then.
    """

    sent: int = 0
    soon: int = 0
    later: int = 0
    problems: tuple[str, ...] = ()
    silent: bool = False


def send_all(settings: Node, until: float, idle: Callable[[], float | None], say: Callable[[str], None]) -> None:
    """Send until nothing is left that can be sent soon; between rounds look after idle daemons.

    Args:
        settings: [node].
        until: when to give up, on the monotonic clock.
        idle: looks after idle daemons; seconds until it wants to be called again, or None.
        say: takes problems.
    """
    wait, said = FIRST_WAIT_S, ""
    while True:
        round_ = send(settings)
        seen = spool.stamp(settings)
        problem = round_.problems[0] if round_.problems else ""
        if problem and problem != said:
            say(problem)
            said = problem
        due = idle()
        trying = round_.soon > 0 and time.monotonic() < until
        if not trying and due is None:
            return
        pause = min(w for w in (wait if trying else None, due) if w is not None)
        if _pause(settings, max(0.05, pause), seen):
            wait = FIRST_WAIT_S
        elif trying:
            wait = min(wait * 2, LAST_WAIT_S if problem else LAST_LOOK_S)


def _pause(settings: Node, seconds: float, seen: int) -> bool:
    """Sleep, but wake when an Epilog has written something; whether one has."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if spool.stamp(settings) != seen:
            return True
        time.sleep(min(left, LOOK_S))
    return spool.stamp(settings) != seen


def send(settings: Node) -> Sent:
    """One round: go on with requeues, and send every outcome that can be sent, as long as slurmdbd answers."""
    spool.wait_again(settings)
    begun = [requeues.resume(settings, path) for path in spool.requeues(settings)]
    waits = [problem for problem in begun if problem is not None]
    total = Sent(soon=len(waits), problems=tuple(filter(None, waits)))
    waiting = spool.latest(spool.items(settings))
    for first in range(0, len(waiting), BATCH):
        total = _added(total, _send_batch(settings, waiting[first : first + BATCH]))
        if total.silent:
            break
    return total


def _added(one: Sent, other: Sent) -> Sent:
    return Sent(
        one.sent + other.sent,
        one.soon + other.soon,
        one.later + other.later,
        one.problems + other.problems,
        one.silent or other.silent,
    )


def _send_batch(settings: Node, batch: list[Item]) -> Sent:
    found, problem = commands.rows(sorted({item.job for item in batch}), _PATIENCE * settings.command_timeout_s)
    if found is None:
        return Sent(soon=len(batch), problems=(problem,), silent=True)
    total = Sent()
    for job, rows in found.items():
        mine = [item for item in batch if item.job == job]
        total = _added(total, _send_job(settings, mine, rows))
        if total.silent:
            break
    return total


def _send_job(settings: Node, mine: list[Item], rows: list[commands.Row]) -> Sent:
    """Send the outcomes of one job's runs: into the row of its last run, once that has ended."""
    if not rows:
        return _unknown(mine)
    last, newest = rows[-1], max(mine, key=lambda item: item.restart)
    if last.end is None or last.state in LIVE:
        # Slurm has requeued the job, or slurmdbd is behind: it has not heard of the run's end yet, or of its start.
        row = row_of(newest.run, rows)
        behind = row is last or (row is None and newest.is_young)
        if last.end is None or abs(time.time() - newest.at) < _ROW_COMES_S or not _is_over(settings, newest.job):
            return Sent(soon=len(mine)) if behind else Sent(later=len(mine))
    if any(_too_early(item, rows) for item in mine):
        return Sent(soon=len(mine))
    if _comes_back(settings, newest):
        return Sent(soon=len(mine)) if newest.is_young else Sent(later=len(mine))
    before = decode(last.admin_comment)
    if before is None:  # it is a job that RAD had nothing to do with
        for item in mine:
            spool.let_go(item.path)
        return Sent()
    record = before
    for item in mine:
        record = recovery.with_run(record, told_by_slurm(item.run, rows))
    text = merge(last.admin_comment, record)
    if decode(text) != before and (trouble := _write(settings, mine, last, text)) is not None:
        return trouble
    for item in mine:
        spool.mark_sent(item)
    return Sent(sent=len(mine))


def _unknown(mine: list[Item]) -> Sent:
    """Let outcomes of a job that slurmdbd does not know wait, but not for ever."""
    old = [item for item in mine if time.time() - item.at > spool.MAX_DAYS * 86400]
    for item in old:
        spool.let_go(item.path)
    fresh = [item for item in mine if item.is_young]
    gone = (
        (f"job {mine[0].job}: slurmdbd has not known it for {spool.MAX_DAYS} days: its outcome is let go",)
        if old
        else ()
    )
    return Sent(soon=len(fresh), later=len(mine) - len(old) - len(fresh), problems=gone)


def _write(settings: Node, mine: list[Item], row: commands.Row, text: str) -> Sent | None:
    """Write a row's AdminComment; why that could not be done, or None."""
    if _would_harm(settings, strip(row.admin_comment)):
        for item in mine:
            spool.put_aside(item.path, "kept")
        return Sent(problems=(f"job {row.id}: kept here: sacctmgr would spoil what other tools keep with it",))
    stored = _store(settings, mine[0].job, row, text)
    return Sent(soon=len(mine), problems=(stored.problem,), silent=stored.silent) if stored.problem else None


def _comes_back(settings: Node, item: Item) -> bool:
    """Whether Slurm itself has queued a job again whose run failed (RequeueExit), and will write over its record.

    On 24.11 and 26.05 slurmdbd shows such a run as ended until it hears of the next one.
    """
    recent = abs(time.time() - item.at) < _ROW_COMES_S
    return recent and bool(item.run.exit_code) and not _is_over(settings, item.job)


def _is_over(settings: Node, job: int) -> bool:
    """Whether a job whose last run was requeued runs no more: slurmdbd may never hear that it was cancelled then."""
    shown, problem = commands.show_job(job, settings.command_timeout_s)
    return "Invalid job id" in problem if shown is None else shown.state not in LIVE


def _too_early(item: Item, rows: list[commands.Row]) -> bool:
    """Whether the job's last run may not be the last for long.

    An Epilog may just now be requeueing it; or slurmdbd is behind and shows another job, which had the number before.
    """
    row = row_of(item.run, rows)
    return item.is_young and (row is None or (item.run.outcome in recovery.REQUEUED and row is rows[-1]))


class _Stored(NamedTuple):
    """What went wrong with a comment that was to be written, or the empty string; whether slurmdbd was silent."""

    problem: str = ""
    silent: bool = False


def _store(settings: Node, job: int, row: commands.Row, text: str) -> _Stored:
    """Write a row's AdminComment and read it back.

    Another node may tell of an earlier run of the job at the same moment: who finds the other's text in the place
    of its own merges again.
    """
    wanted, limit = decode(text), _PATIENCE * settings.command_timeout_s
    done = commands.store_comment(row.id, text, limit)
    if not done.ok:
        return _Stored(done.problem, silent=done.code is None)
    again, problem = commands.rows([job], limit)
    if again is None:
        return _Stored(problem, silent=True)
    now = again[job][-1] if again[job] else None
    if now is None or (now.id, now.start) != (row.id, row.start) or decode(now.admin_comment) != wanted:
        return _Stored(f"job {row.id}: AdminComment reads back otherwise than written")
    _learn(settings, now.admin_comment == text)
    return _Stored()


def _learn(settings: Node, keeps: bool) -> None:
    path = f"{settings.spool_dir}/{_LETTERS}"
    if (state.read(path) or {}).get("kept") != keeps:
        with contextlib.suppress(OSError):  # a full disk: it is learnt again next time
            state.write(path, {"kept": keeps})


def _would_harm(settings: Node, others: str) -> bool:
    """Whether writing through sacctmgr would change other tools' text: it may know small letters and no quotes."""
    if others == others.lower() and not set(others) & set("'\""):
        return False
    learnt = (state.read(f"{settings.spool_dir}/{_LETTERS}") or {}).get("kept")
    if isinstance(learnt, bool):
        return not learnt
    return commands.version(settings.command_timeout_s) <= _SMALL_LETTERS_UNTIL
