"""Epilog: end a run. Leave its MPS daemon, find out how it ended, recover it, keep its outcome for slurmdbd.

Touches the state and spool folders, the job's logs (as its user), the GPU's daemon through `mps`, and, where a run
did not end well, the controller through `commands`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_hooks.memory import memory_here
from slurm_hooks.monitor import counters
from slurm_hooks.monitor.counters import JobCounters
from slurm_hooks.node import (
    background,
    commands,
    context,
    evidence,
    gpus,
    loglist,
    logs,
    mps,
    recovery,
    requeues,
    sharedlogs,
    spool,
    state,
)
from slurm_hooks.node.commands import ShownJob
from slurm_hooks.node.context import Context
from slurm_hooks.node.loglist import Log
from slurm_hooks.node.next_gres import asks_for_instance, asks_for_shares, next_gres
from slurm_hooks.node.recovery import Site, Verdict
from slurm_hooks.records import Counters, Record, Run, decode, merge
from slurm_hooks.shares import WHOLE_GPU
from slurm_hooks.slurm.versions import RETYPE_SINCE

_BUSY_S = 12.0  # asked again, slurmctld may take at least so long: most of Epilog's time is left then


def hook(env: Mapping[str, str]) -> None:
    """Slurm's Epilog."""
    scene = context.of_job("epilog", env)
    if scene is None:
        return
    try:
        end(scene)
    except Exception as error:  # a hook fails open
        scene.say(f"{type(error).__name__}: {error}")
    config = scene.config
    background.detach(lambda: background.background(config, context.speaker(config, "flush")))


def end(scene: Context) -> None:
    """End a run.

    Raises:
        StateError, OSError: if the outcome can be kept neither on disk nor in memory.
    """
    note = state.read(scene.note) or {}
    begun = _whole(note.get("restart"))
    if begun is not None and begun < scene.job.restart:  # queued again by its user: Slurm counts the next run already
        scene = dataclasses.replace(scene, job=dataclasses.replace(scene.job, restart=begun))
    job = scene.job
    left = True
    server_log, beside = b"", dict[int, float]()
    try:
        if job.exit_status != 0 or job.exit_signal != 0:
            server_log, beside = mps.server_log(scene.config.mps, job.id), mps.beside(scene.config.mps, job.id)
        mps.leave(scene.config.mps, job.id)
    except Exception as error:  # a daemon that hangs may take all of Epilog's time: the outcome is kept all the same
        left = False
        scene.say(f"its use of MPS stays noted until rad-spool.timer looks: {error}")
    task = state.read(scene.task_note) or {}
    if begun != job.restart:  # Prolog did not come so far
        note = task = {}
    counted = counters.read(scene.config.node.state_dir, job.id, job.restart) or JobCounters()
    run = Run(
        share=job.share,
        cap_mib=_whole(task.get("cap_mib")),
        start=_whole(note.get("start")),
        end=int(time.time()),
        node=job.node,
        restart=job.restart,
        **{field.name: getattr(counted, field.name) for field in dataclasses.fields(Counters)},
    )
    _close(scene, run, _Clues(note, counted.evidence, server_log, beside))
    # By the note rad-spool.timer finds a job that has gone and still uses MPS.
    sharedlogs.forget(scene)
    paths = [scene.task_note, counters.path(scene.config.node.state_dir, job.id)]
    paths += [scene.note, scene.kept.of_job(job.id)] if left else []
    for path in paths:
        state.remove(path)


@dataclass(frozen=True)
class _Clues:
    """What is known of how a run ended, beside its logs and Slurm's word.

    Attributes:
        note: what Prolog noted of it.
        by_monitor: what rad-monitor did about a process of it, or the empty string.
        server_log: the end of what its MPS server wrote.
        beside: when the server's other jobs left it, as `mps.beside` tells.
    """

    note: Mapping[str, Any]
    by_monitor: str
    server_log: bytes
    beside: Mapping[int, float]


@dataclass(frozen=True)
class _Signs:
    """What a run's logs show; the attributes are those of `recovery.Ended`."""

    evidence: str
    lost_mps: str
    fault: str
    left_kernels: bool
    doubt: str


@dataclass(frozen=True)
class _Judged:
    """A run with its outcome, what follows from it, where its logs are, and what the site has."""

    run: Run
    verdict: Verdict
    paths: list[str]
    site: Site


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _close(scene: Context, run: Run, clues: _Clues) -> None:
    """Find out how a run ended, and do what follows from it."""
    job = scene.job
    status, signal = job.exit_status, job.exit_signal
    shown = record = None
    if status != 0 or signal != 0:  # a run that ended well costs the controller nothing
        shown = _asked(scene)
        if shown is not None:
            if status is None or signal is None:
                status, signal = shown.exit_status, shown.exit_signal
            record = decode(shown.admin_comment)
    code = 128 + signal if signal else status
    run = dataclasses.replace(run, exit_code=code, outcome="completed" if code == 0 else "failed")
    found = None
    if shown is not None and record is not None and shown.restarts == job.restart:
        try:
            found = _judge(scene, shown, record, run, clues)
        except Exception as error:  # whatever a job's log made of this, its outcome is kept
            scene.say(f"not recovered: {type(error).__name__}: {error}")
    kept = spool.put(scene.config.node, job.id, job.restart, run if found is None else found.run)
    if kept:
        scene.say(kept)
    if shown is None or record is None or found is None:
        return
    verdict = found.verdict
    gres = None if verdict.share is None else next_gres(shown.tres_per_node, verdict.share, verdict.instance)
    if verdict.share is None or gres is None:
        _tell(scene, found.paths, verdict.message)
    else:
        after = recovery.requeued(record, found.run, verdict.share, found.site, verdict.instance)
        comment = merge(shown.admin_comment, after)
        _requeue(scene, spool.Requeue(job.id, job.restart, shown.target, gres, comment), verdict, found.paths)


def _asked(scene: Context) -> ShownJob | None:
    """The job as slurmctld knows it; one that is only busy for a while must not cost a job its recovery."""
    job, limit = scene.job.id, scene.config.node.command_timeout_s
    try:
        shown, problem = commands.show_job(job, limit)
        if shown is None:
            shown, problem = commands.show_job(job, max(limit, _BUSY_S))
    except Exception as error:  # Epilog's time is up: the outcome is kept all the same
        shown, problem = None, f"{type(error).__name__}: {error}"
    if shown is None:
        scene.say(f"not recovered: {problem}")
    return shown


def _judge(scene: Context, shown: ShownJob, record: Record, run: Run, clues: _Clues) -> _Judged:
    """How a run ended, and what follows from it. Changes nothing."""
    job, found = scene.job, loglist.of_job(scene.job, shown)
    signs = _signs(scene, found, run, clues)
    # Since 24.11 a user may turn the shares of a job that waits back into a GPU.
    share = run.share if asks_for_shares(shown.tres_per_node) else WHOLE_GPU
    ended = recovery.Ended(
        job=commands.called(job.id, shown.array_job, shown.array_task),
        restart=job.restart,
        exit_status=shown.exit_status if job.exit_status is None else job.exit_status,
        exit_signal=shown.exit_signal if job.exit_signal is None else job.exit_signal,
        reason=shown.reason,
        share=share,
        cap_mib=run.cap_mib,
        by_monitor=bool(clues.by_monitor),
        may_requeue=shown.requeue and shown.batch,
        **vars(signs),
    )
    site = _site(scene, may_retype=bool(signs.evidence) and asks_for_instance(shown.tres_per_node))
    verdict = recovery.judge(record, ended, site)
    shows = signs.evidence or signs.lost_mps or signs.fault
    run = dataclasses.replace(run, evidence=shows, outcome=verdict.outcome)
    return _Judged(run, verdict, [log.path for log in found], site)


def _signs(scene: Context, found: Sequence[Log], run: Run, clues: _Clues) -> _Signs:
    """What a run wrote to its logs that tells how it ended, and what its MPS server's log makes of it."""
    written, doubt = _written(scene, found, clues.note), ""
    if evidence.of_memory(written) or evidence.of_lost_mps(written) or evidence.of_fault(written):
        doubt = sharedlogs.others(scene, found, _whole(clues.note.get("start")) or 0)
    if doubt:
        written = _written(scene, [log for log in found if log.own], clues.note)
    fault, together = evidence.of_fault(written), None
    if fault:
        together = evidence.broken_together(clues.server_log, run.start or 0, run.end or 0)
        if together is None or not any(left >= together.at for left in clues.beside.values()):
            fault = ""  # its own, whoever else was there
    return _Signs(
        evidence=evidence.of_memory(written) or clues.by_monitor,
        lost_mps=evidence.of_lost_mps(written),
        fault=fault,
        left_kernels=bool(fault and together and together.ended),
        doubt=doubt,
    )


def _site(scene: Context, *, may_retype: bool) -> Site:
    """What the site has and wants; which Slurm it is, is asked only of a job that may get another device type."""
    measured = gpus.least_memory_mib(f"{scene.config.mps.run_dir}/gpus.json")
    can_retype = may_retype and commands.version(scene.config.node.command_timeout_s) >= RETYPE_SINCE
    return Site(scene.partition, memory_here(scene.partition, measured), scene.config.recovery, can_retype=can_retype)


def _written(scene: Context, found: Sequence[Log], note: Mapping[str, Any]) -> bytes:
    """What this run wrote to its logs, as far as that is known."""
    job = scene.job
    known = {mark.path: mark for mark in map(logs.mark_from, note.get("logs", [])) if mark and mark.known}
    # Where no mark was made, only a log that nobody else writes to is this run's, and only in the first run.
    sure = [log.path for log in found if log.path in known or (log.own and job.restart == 0)]
    marks = [known.get(path, logs.LogMark(path)) for path in sure]
    limit = scene.config.recovery.log_tail_kib * 1024
    return scene.with_user(lambda: logs.written(job, marks, limit), b"") if marks else b""


def _tell(scene: Context, paths: list[str], message: str) -> None:
    """Tell the admin in the node's log, and the user at the end of the job's."""
    if message:
        scene.say(message)
        if paths:
            scene.with_user(lambda: logs.append(scene.job, paths[0], message), unknown=False)


def _requeue(scene: Context, requeue: spool.Requeue, verdict: Verdict, paths: list[str]) -> None:
    """Requeue a job with another request; what cannot be done now is done by `sending` later.

    The job is not held: slurmctld does not start it before this Epilog has ended, and if this node dies between the
    two messages, the job runs again as it was instead of waiting for somebody to release it.
    """
    settings = scene.config.node
    path = spool.begin(settings, requeue)
    done = commands.requeue(requeue.target, settings.command_timeout_s)
    if done.code is None:
        scene.say(f"whether it was requeued is looked at later: {done.problem}")
    elif not done.ok:
        state.remove(path)
        _tell(scene, paths, f"{verdict.message.partition(';')[0]}; Slurm refused to requeue it: {done.problem}")
    else:
        problem = requeues.finish(settings, requeue, path, told=lambda: _tell(scene, paths, verdict.message))
        if problem:
            scene.say(f"it is requeued, and gets its new request later: {problem}")
