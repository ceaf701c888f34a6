"""What goes on after an Epilog: records are sent and idle MPS daemons ended, in a process of its own.

rad-spool.timer starts the same (``main.py flush``), for what was left over and for jobs whose Epilog never came.
Touches the spool and state folders, Slurm through `sending` and `commands`, daemons through `mps`.
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import time
from collections.abc import Callable, Mapping

from slurm_hooks.config import Config, ConfigAbsentError
from slurm_hooks.node import commands, context, mps, notes, sending, spool, state
from slurm_hooks.node.context import Say
from slurm_hooks.node.kept import Kept

_OLD_NOTE_S = 120.0


def hook(env: Mapping[str, str]) -> None:
    """What rad-spool.timer does."""
    kept = Kept.of(env)
    try:
        config = context.load("flush", env)
    except ConfigAbsentError:
        last = kept.last()  # RAD is switched off here: what it has begun is ended all the same
        if last is None:
            raise
        config = last
    say = context.speaker(config, "flush")
    steps: tuple[Callable[[], None], ...] = (
        lambda: tidy(config, say),
        kept.tidy,
        lambda: mps.revive(config.mps, say),
        lambda: spool.sweep(config.node, say),
        lambda: background(config, say, patient=False),
    )
    for step in steps:
        try:
            step()
        except (state.StateError, OSError) as error:  # one that cannot be done keeps it from none of the others
            say(str(error))


def detach(work: Callable[[], None]) -> None:
    """Do `work` in a process of its own that outlives the hook; slurmd waits for neither it nor its output."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # for a hook it means that its time is up
        if os.fork() == 0:
            os.chdir("/")
            nothing = os.open(os.devnull, os.O_RDWR)
            for file in (0, 1, 2):
                os.dup2(nothing, file)
            os.closerange(3, 256)
            work()
    finally:
        os._exit(0)


def background(config: Config, say: Say, *, patient: bool = True) -> None:
    """Send records and end idle daemons until there is nothing to do soon. One process at a time does it.

    A second one waits for the first, since the first may have looked before the second's record was there; a
    third need not. One that is not patient, as it comes again, waits neither for another nor for slurmdbd: while it
    does, it would start no dead daemon anew.
    """
    gc.enable()
    folder = state.folder(config.node.state_dir)  # in memory: a full disk must not keep what waits from being sent
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    queue, running = (os.open(f"{folder}/.{name}", flags, 0o600) for name in ("next", "now"))
    try:
        fcntl.flock(queue if patient else running, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    try:
        fcntl.flock(running, fcntl.LOCK_EX)
        fcntl.flock(queue, fcntl.LOCK_UN)
        until = time.monotonic() + (config.node.send_for_s if patient else 0.0)
        sending.send_all(config.node, until, lambda: mps.reap(config.mps, time.time()), say)
    except Exception as error:  # the last words of a process without a terminal
        say(f"{type(error).__name__}: {error}")
    finally:
        os.close(queue)
        os.close(running)


def tidy(config: Config, say: Say) -> None:
    """Forget jobs whose Epilog never came: their notes, and their use of MPS daemons."""
    noted: dict[int, str] = {}
    try:
        names = os.listdir(config.node.state_dir)  # noqa: PTH208
    except FileNotFoundError:
        return
    for name in names:
        job, _, rest = name.partition(".")
        path = f"{config.node.state_dir}/{name}"
        if not job.isdigit() or not _is_old(path):
            continue
        if rest == "json":
            noted[int(job)] = str((state.read(path) or {}).get("node", ""))
        elif f"{job}.json" not in names or rest.endswith(".new"):
            state.remove(path)  # of a job that has gone, whose number another may get; or a writer was killed
    here = {node: commands.jobs_on(node, config.node.command_timeout_s) for node in sorted(set(noted.values())) if node}
    for number, node in sorted(noted.items()):
        running = here.get(node)
        if running is None or number in running:
            continue
        try:
            mps.leave(config.mps, number)
        except (state.StateError, OSError) as error:  # the others need not wait for this one's GPU
            say(f"job {number} has gone, and its use of MPS stays noted: {error}")
            continue
        state.remove(notes.of_tasks(config.node.state_dir, number))
        state.remove(notes.of_job(config.node.state_dir, number))
        say(f"job {number} has gone without an Epilog")


def _is_old(path: str) -> bool:
    """Whether a note lies there for a while; one that has gone is not old."""
    try:
        return state.age_s(path) > _OLD_NOTE_S
    except FileNotFoundError:
        return False
