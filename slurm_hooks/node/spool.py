"""Records on their way to slurmdbd: written to disk by Epilog, sent by a background process or rad-spool.timer.

A run's outcome waits as ``JOB-RESTART.json`` until slurmdbd shows that the job has ended for good: before that
slurmctld's own messages would write over it. Then it is merged into what AdminComment holds, so sending it again
changes nothing: it is sent once more a while later, as a slurmctld that starts soon after a job's end writes what it
holds of the job over that. A requeue that was begun waits as ``JOB-RESTART.requeue.json`` until the job has its new
request.

Where the spool folder takes nothing (a full disk), both wait in memory, in a folder below [node].state_dir, which
outlives everything but a boot.

22.05's sacctmgr makes every letter of a comment small. Our own record survives that; what other tools keep beside
it (jobstats: base64) may not, and then it is left alone and our outcome stays here, under another name.

Touches these two folders, and Slurm through `commands`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from slurm_hooks.config import Node
from slurm_hooks.node import commands, recovery, state
from slurm_hooks.record_text import MAX_ITEMS
from slurm_hooks.records import Run, decode, merge, run_from, strip
from slurm_hooks.slurm.squeue import LIVE

_NAME = re.compile(r"(\d+)-(\d+)(\.requeue)?\.json")
_PLAIN = ("COMPLETED", "FAILED")
MAX_DAYS = 60  # a job that slurmdbd has not known for so long was never there or is purged
BATCH = 200  # jobs in one question to slurmdbd
FIRST_WAIT_S = 0.5
LAST_WAIT_S = 30.0  # between two rounds, where slurmdbd does not answer
LAST_LOOK_S = 5.0  # where it answers, and has not heard of a job's end yet
LOOK_S = 0.5  # between two looks at the spool folder
_PATIENCE = 4  # slurmdbd may take this many times as long as slurmctld
_ROW_COMES_S = 3600.0  # slurmdbd hears of a requeued job's next run sooner, or never
_HOOK_S = 60.0  # no hook runs for longer, and slurmdbd is not behind for longer: what is older is not news
# A requeued job that starts within two seconds after slurmd should have forgotten its last run may start without a
# Prolog, where another job has begun or ended on the node meanwhile: Slurm itself lets it wait for one second only.
_FORGOTTEN_S = 4
_SENT = "sent"  # behind the name of an outcome that is to be sent once more
_AGAIN_S = 900.0  # by then slurmctld has mostly forgotten the job (MinJobAge), and writes over its record no more
_LETTERS = ".letters.json"  # whether sacctmgr was seen to keep letters as they are
_SMALL_LETTERS_UNTIL = (22, 5)


@dataclass(frozen=True)
class Item:
    """One outcome that waits.

    Attributes:
        path: its file.
        job, restart: whose outcome it is.
        run: the outcome.
        at: when it was written, Unix time in seconds.
    """

    path: str
    job: int
    restart: int
    run: Run
    at: float


@dataclass(frozen=True)
class Requeue:
    """A requeue that was begun.

    Attributes:
        job, restart: the run that ended.
        target: how commands name the job.
        gres: its new request.
        admin_comment: its new record.
    """

    job: int
    restart: int
    target: str
    gres: str
    admin_comment: str


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


def put(settings: Node, job: int, restart: int, run: Run) -> str:
    """Keep an outcome for sending; why it is not on disk, or the empty string.

    Raises:
        StateError, OSError: if it can be kept nowhere.
    """
    return _keep(settings, f"{job}-{restart}.json", {"at": time.time(), "run": dataclasses.asdict(run)})[1]


def begin(settings: Node, requeue: Requeue) -> str:
    """Note a requeue before it is begun; returns the path of the note.

    Raises:
        StateError, OSError: if it can be kept nowhere.
    """
    return _keep(settings, f"{requeue.job}-{requeue.restart}.requeue.json", dataclasses.asdict(requeue))[0]


def _keep(settings: Node, name: str, data: dict[str, Any]) -> tuple[str, str]:
    """Write a file to disk, or into memory where that cannot be; its path, and why it is not on disk."""
    try:
        path = f"{state.folder(settings.spool_dir, 0o700)}/{name}"
        state.write(path, data, durable=True)
    except (state.StateError, OSError) as error:
        state.folder(settings.state_dir)
        path = f"{state.folder(_in_memory(settings), 0o700)}/{name}"
        state.write(path, data)
        return path, f"{error}: {path} waits in memory, until it is sent or the node boots"
    return path, ""


def _let_go(path: str) -> None:
    """Take a file away; where its disk takes no changes any more it stays, and keeps nothing else from being sent."""
    with contextlib.suppress(OSError):
        state.remove(path)


def _put_aside(path: str, why: str) -> None:
    """Give a file another name, under which it is not read; where that cannot be it stays as it is."""
    with contextlib.suppress(OSError):
        os.rename(path, f"{path}.{why}")  # noqa: PTH104


def _in_memory(settings: Node) -> str:
    return f"{settings.state_dir}/.spool"


def _folders(settings: Node) -> tuple[str, str]:
    return settings.spool_dir, _in_memory(settings)


def items(settings: Node) -> list[Item]:
    """All outcomes that wait; a file that is broken is put aside, under another name."""
    found = []
    for path, job, restart in _files(settings, requeues=False):
        data = state.read(path) or {}
        run, at = run_from(data.get("run")), data.get("at")
        if run is None or not isinstance(at, (int, float)):
            _put_aside(path, "broken")
            continue
        found.append(Item(path, job, restart, run, at))
    return found


def sweep(settings: Node, say: Callable[[str], None]) -> None:
    """Let go of what lies in the folder under other names: after a killed writer soon, after MAX_DAYS in any case."""
    for path, name in _names(settings):
        with contextlib.suppress(FileNotFoundError):
            age_s = state.age_s(path)
            if name.endswith(".new") and age_s > _HOOK_S:
                _let_go(path)
            elif name.endswith((".kept", ".broken")) and age_s > MAX_DAYS * 86400:
                _let_go(path)
                say(f"{path}: kept for {MAX_DAYS} days, and now let go")


def _names(settings: Node) -> list[tuple[str, str]]:
    """Paths and names of all files in the two folders; what others could put into one does not count."""
    found = []
    for folder in _folders(settings):
        with contextlib.suppress(OSError):  # a disk that is broken keeps nothing in memory from being sent
            names = sorted(os.listdir(folder)) if state.is_ours(folder) else []  # noqa: PTH208
            found += [(f"{folder}/{name}", name) for name in names]
    return found


def _files(settings: Node, *, requeues: bool) -> Iterator[tuple[str, int, int]]:
    for path, name in _names(settings):
        found = _NAME.fullmatch(name)
        if found and (found.group(3) is not None) == requeues:
            yield path, int(found.group(1)), int(found.group(2))


def send(settings: Node) -> Sent:
    """One round: go on with requeues, and send every outcome that can be sent, as long as slurmdbd answers."""
    _send_again(settings)
    begun = [_resume(settings, path) for path, _, _ in list(_files(settings, requeues=True))]
    waits = [problem for problem in begun if problem is not None]
    total = Sent(soon=len(waits), problems=tuple(filter(None, waits)))
    waiting = _latest(items(settings))
    for first in range(0, len(waiting), BATCH):
        total = _added(total, _send_batch(settings, waiting[first : first + BATCH]))
        if total.silent:
            break
    return total


def _latest(waiting: list[Item]) -> list[Item]:
    """Those for which the records have room; others go, as a user may queue a job again for ever."""
    of_job: dict[int, list[Item]] = {}
    for item in sorted(waiting, key=lambda item: item.restart, reverse=True):
        of_job.setdefault(item.job, []).append(item)
    for item in itertools.chain.from_iterable(several[MAX_ITEMS:] for several in of_job.values()):
        _let_go(item.path)
    return [item for job in sorted(of_job) for item in of_job[job][:MAX_ITEMS]]


def _send_again(settings: Node) -> None:
    """Let outcomes wait again that were sent a while ago."""
    for path, name in _names(settings):
        if name.endswith(f".{_SENT}"):
            with contextlib.suppress(OSError):
                if state.age_s(path) >= _AGAIN_S:
                    os.rename(path, path.removesuffix(f".{_SENT}"))  # noqa: PTH104


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
        row = _row_of(newest.run, rows)
        behind = row is last or (row is None and _young(newest))
        if last.end is None or abs(time.time() - newest.at) < _ROW_COMES_S or not _is_over(settings, newest.job):
            return Sent(soon=len(mine)) if behind else Sent(later=len(mine))
    if any(_too_early(item, rows) for item in mine):
        return Sent(soon=len(mine))
    if _comes_back(settings, newest):
        return Sent(soon=len(mine)) if _young(newest) else Sent(later=len(mine))
    before = decode(last.admin_comment)
    if before is None:  # it is a job that RAD had nothing to do with
        for item in mine:
            _let_go(item.path)
        return Sent()
    record = before
    for item in mine:
        record = recovery.with_run(record, _told_by_slurm(item.run, rows))
    text = merge(last.admin_comment, record)
    if decode(text) != before and (trouble := _write(settings, mine, last, text)) is not None:
        return trouble
    for item in mine:
        if abs(time.time() - item.at) < _AGAIN_S:
            _put_aside(item.path, _SENT)
        else:
            _let_go(item.path)
    return Sent(sent=len(mine))


def _unknown(mine: list[Item]) -> Sent:
    """Let outcomes of a job that slurmdbd does not know wait, but not for ever."""
    old = [item for item in mine if time.time() - item.at > MAX_DAYS * 86400]
    for item in old:
        _let_go(item.path)
    fresh = [item for item in mine if _young(item)]
    gone = (f"job {mine[0].job}: slurmdbd has not known it for {MAX_DAYS} days: its outcome is let go",) if old else ()
    return Sent(soon=len(fresh), later=len(mine) - len(old) - len(fresh), problems=gone)


def _write(settings: Node, mine: list[Item], row: commands.Row, text: str) -> Sent | None:
    """Write a row's AdminComment; why that could not be done, or None."""
    if _would_harm(settings, strip(row.admin_comment)):
        for item in mine:
            _put_aside(item.path, "kept")
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


def _belongs(run: Run, row: commands.Row) -> bool:
    """Whether a row is that run's: Prolog starts at or after the time that Slurm notes, and before it ends."""
    begin = row.end if row.start is None else row.start  # of a requeued run slurmdbd may have lost the start
    if begin is None or run.end is None or begin > run.end + 1:
        return False
    if run.start is None:
        return True
    return begin >= run.start - 600 and (row.end is None or row.end >= run.start - 1)


def _row_of(run: Run, rows: list[commands.Row]) -> commands.Row | None:
    mine = [row for row in reversed(rows) if _belongs(run, row)]
    # A job that is cancelled as soon as it was queued again has a row without a start, as has a run that lost it.
    return next((row for row in mine if row.start is not None), mine[0] if mine else None)


def _young(item: Item) -> bool:
    return abs(time.time() - item.at) < _HOOK_S  # set back, a clock must not make it young for years


def _too_early(item: Item, rows: list[commands.Row]) -> bool:
    """Whether the job's last run may not be the last for long.

    An Epilog may just now be requeueing it; or slurmdbd is behind and shows another job, which had the number before.
    """
    row = _row_of(item.run, rows)
    return _young(item) and (row is None or (item.run.outcome in recovery.REQUEUED and row is rows[-1]))


def _told_by_slurm(run: Run, rows: list[commands.Row]) -> Run:
    """`run`, with Slurm's own word where the run ended neither well nor by its own failure."""
    row = _row_of(run, rows)
    if run.outcome in recovery.REQUEUED and row is not None and row is rows[-1] and row.state != "REQUEUED":
        kind = run.outcome.partition("_")[0]
        return dataclasses.replace(run, outcome=f"{kind}_told")  # the requeue did not come about
    if row is None or row.state in _PLAIN or run.outcome.startswith(("oom_", "mps_")):
        return run
    return dataclasses.replace(run, outcome=row.state.lower())


def _resume(settings: Node, path: str) -> str | None:
    """Go on with a requeue that was begun; why it must wait (empty: no trouble), or None where nothing is left."""
    data = state.read(path)
    age_s = 0.0
    with contextlib.suppress(FileNotFoundError):
        age_s = state.age_s(path)
    try:
        requeue = Requeue(**(data or {}))
    except TypeError:
        _let_go(path)
        return None
    shown, problem = commands.show_job(requeue.job, settings.command_timeout_s)
    if shown is None:
        if "Invalid job id" not in problem:
            return problem
    elif shown.restarts == requeue.restart + 1 and shown.state in ("PENDING", "COMPLETING"):
        return finish(settings, _with_what_is_there(requeue, shown.admin_comment), path, age_s) or None
    elif shown.restarts == requeue.restart and (age_s < _HOOK_S or shown.state == "COMPLETING"):
        return ""  # its Epilog is about to requeue it
    _let_go(path)  # it was never requeued, or runs again, or is gone
    return None


def _with_what_is_there(requeue: Requeue, admin_comment: str) -> Requeue:
    """`requeue` with its record merged into what AdminComment holds by now; as it was where that cannot be read."""
    record = decode(requeue.admin_comment)
    if record is None or not admin_comment:
        return requeue
    return dataclasses.replace(requeue, admin_comment=merge(admin_comment, record))


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
    _let_go(path)
    return ""


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
        seen = _state(settings)
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
        if _state(settings) != seen:
            return True
        time.sleep(min(left, LOOK_S))
    return _state(settings) != seen


def _state(settings: Node) -> int:
    """Changes when a file comes into one of the two folders, or goes."""
    times = 0
    for folder in _folders(settings):
        with contextlib.suppress(OSError):  # not there yet, or on a disk that is broken
            times += os.stat(folder).st_mtime_ns  # noqa: PTH116
    return times
