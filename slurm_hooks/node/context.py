"""What a hook works with: its job, the settings that hold for it, and a voice in the node's log."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from slurm_hooks import config as configuration
from slurm_hooks.config import Config, ConfigError, Partition
from slurm_hooks.node import notes, state
from slurm_hooks.node.job import NodeJob, from_environment
from slurm_hooks.node.kept import Kept, as_begun
from slurm_hooks.record_text import printable

Say = Callable[[str], None]
Answer = TypeVar("Answer")
_LOOKS_AT_ONCE = 16  # of jobs of one user that start or end together
_OTHERS_LOOK_S = 4.0


@dataclass(frozen=True)
class Context:
    """A hook's surroundings.

    Attributes:
        job: the job that slurmd tells of.
        partition: settings of its partition.
        config: all settings.
        kept: what the node keeps of them.
        say: writes a line to the node's log.
    """

    job: NodeJob
    partition: Partition
    config: Config
    kept: Kept
    say: Say

    @property
    def note(self) -> str:
        """What Prolog notes for Epilog; for root alone."""
        return notes.of_job(self.config.node.state_dir, self.job.id)

    @property
    def task_note(self) -> str:
        """What Prolog notes for TaskProlog, which runs as the user."""
        return notes.of_tasks(self.config.node.state_dir, self.job.id)

    def with_user(self, ask: Callable[[], Answer], unknown: Answer) -> Answer:
        """What `ask` says, which looks at the user's files; `unknown` where that cannot be asked now.

        So it is where other looks at them do not end, or the node has no room for a lock or a process left.

        One that hangs in a file system of the user's cannot be killed. It holds its lock until it is gone, so that
        there are few of each user, however many jobs this one has.
        """
        try:
            folder = state.folder(self.config.node.state_dir)
            with state.locked(f"{folder}/.user-{self.job.uid}-{self.job.id % _LOOKS_AT_ONCE}", _OTHERS_LOOK_S):
                return ask()
        except (state.StateError, OSError) as error:
            self.say(f"its user's files are not looked at: {error}")
            return unknown

    def say_once(self, key: str, text: str) -> None:
        """Say something that holds for the node rather than the job: once until it boots."""
        with contextlib.suppress(FileExistsError):
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            os.close(os.open(f"{self.config.node.state_dir}/.said-{key}", flags, 0o600))
            self.say(text)


def rad_toml(env: Mapping[str, str]) -> Path:
    """Where the site's configuration lies."""
    return Path(env.get("RAD_CONFIG") or configuration.DEFAULT_PATH)


def load(hook: str, env: Mapping[str, str]) -> Config:
    """The site's configuration, of which a copy is kept; where it cannot be used the copy, and the log says so.

    Raises:
        ConfigAbsentError: if there is none.
        ConfigError: if it cannot be used, and nothing was kept.
    """
    kept = Kept.of(env)
    found = kept.read(rad_toml(env))
    problem = found.problem if found.text is None else kept.keep(found.text)
    if _is_news(found.config, problem):
        speaker(found.config, hook)(problem)
    return found.config


def _is_news(config: Config, problem: str) -> bool:
    """Whether a problem is to be told: once, until it is another, or has gone."""
    told = f"{config.node.state_dir}/.told"
    try:
        if not problem:
            state.remove(told)
            return False
        state.folder(config.node.state_dir)
        if (state.read(told) or {}).get("problem") == problem:
            return False
        state.write(told, {"problem": problem})
    except (state.StateError, OSError):
        pass
    return bool(problem)


def of_job(hook: str, env: Mapping[str, str]) -> Context | None:
    """The context of a Prolog or Epilog, or None where the job is none of RAD's business.

    Raises:
        ConfigError: if the configuration cannot be used.
    """
    job = from_environment(env)
    if job is None:
        return None
    kept = Kept.of(env)
    begun = kept.begun(job.id) if hook == "epilog" else None
    if begun is not None and not job.gpus:
        job = _as_noted(job, begun)
    if not job.gpus:
        return None
    try:
        config = load(hook, env)
    except ConfigError:
        last = kept.last() if begun is not None else None  # RAD was switched off here while the job ran
        if last is None:
            raise
        config = last
    config = as_begun(config, begun) if begun is not None else config
    partition = config.partitions.get(job.partition)
    if job.share is not None and (partition is None or partition.method == "off") and _moved(hook, job, config):
        partition = config.defaults
    return Context(job, partition, config, kept, speaker(config, f"{hook}: job {job.id}")) if partition else None


def _as_noted(job: NodeJob, begun: Config) -> NodeJob:
    """A job of whose GPU Slurm does not tell its Epilog, with what its Prolog noted of that."""
    note = state.read(notes.of_job(begun.node.state_dir, job.id)) or {}
    gpus, share = note.get("gpus"), note.get("share")
    if note.get("uid") != job.uid or not isinstance(gpus, list):
        return job
    return dataclasses.replace(job, gpus=tuple(gpus), share=share)


def _moved(hook: str, job: NodeJob, config: Config) -> bool:
    """Whether a job with shares has them from RAD, and its user has moved it to a partition without RAD since."""
    if hook != "prolog":
        return os.path.exists(notes.of_job(config.node.state_dir, job.id))  # noqa: PTH110 - pathlib starts slowly
    from slurm_hooks.node import commands  # noqa: PLC0415 - seldom needed
    from slurm_hooks.records import decode  # noqa: PLC0415

    shown, _ = commands.show_job(job.id, config.node.command_timeout_s)
    record = decode(shown.admin_comment) if shown is not None else None
    return record is not None and record.is_rewritten


def speaker(config: Config, who: str) -> Say:
    """A voice in the node's log."""
    return lambda text: _log(config.node.log, f"{who}: {text}")


def _log(path: str, text: str) -> None:
    """Write a line to the log, or where it takes none to standard error, which slurmd may keep. It never fails."""
    shown = printable(text.replace("\n", "; "))  # no user's name moves a terminal
    line = f"{datetime.now().isoformat(' ', 'milliseconds')} rad[{os.getpid()}] {shown}\n"
    try:
        Path(path).parent.mkdir(0o755, parents=True, exist_ok=True)  # slurmd's umask may let everybody write
        with open(path, "a", encoding="utf-8", opener=_for_all_to_read) as file:  # closing it writes, and may fail too
            file.write(line)
    except OSError:
        with contextlib.suppress(OSError, AttributeError):  # AttributeError: who started the hook has closed it
            sys.stderr.write(line)


def _for_all_to_read(path: str, flags: int) -> int:
    return os.open(path, flags, 0o644)
