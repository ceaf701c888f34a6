"""Which configuration holds on a node: rad.toml, the last one that could be used, and what a job's Prolog went by.

A rad.toml that cannot be used must not start jobs without caps beside jobs that have theirs. So the hooks keep a copy
of it in a folder of the node's own, which outlives a boot, and go on with that. And Prolog keeps there where it noted
each job and by which MPS settings: TaskProlog and Epilog go by these, whatever has become of rad.toml since.

Touches rad.toml and that folder, in which only root writes.
"""

from __future__ import annotations

import _thread
import contextlib
import dataclasses
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from slurm_hooks import config as configuration
from slurm_hooks.config import Config, ConfigAbsentError, ConfigError
from slurm_hooks.node import notes, state

FOLDER = "/var/cache/rad"
READ_S = 2.0  # a network's file system that is away may take for ever
_OLD_S = 120.0
_SWITCH = "where no disk was full as it was written, remove it or write a comment there, which switches RAD off"
_OFF = "RAD does nothing on this node"


@dataclass(frozen=True)
class Found:
    """A configuration that can be used.

    Attributes:
        config: all settings.
        text: what rad.toml holds; None where these are not its settings but the copy's.
        problem: why they are not, and the cure; else the empty string.
    """

    config: Config
    text: bytes | None
    problem: str = ""


@dataclass(frozen=True)
class Kept:
    """What a node keeps.

    Attributes:
        path: its folder.
    """

    path: str = FOLDER

    @staticmethod
    def of(env: Mapping[str, str]) -> Kept:
        """The folder that the environment names, or the usual one."""
        return Kept(env.get("RAD_KEPT") or FOLDER)

    @property
    def copy(self) -> str:
        """The last rad.toml that could be used; for root alone, as rad.toml may be."""
        return f"{self.path}/rad.toml"

    def read(self, rad_toml: Path) -> Found:
        """The configuration that holds here.

        Raises:
            ConfigAbsentError: if there is no rad.toml: RAD is switched off here.
            ConfigError: if it cannot be used, and no copy can.
        """
        try:
            text = _in_time(rad_toml)
            config = configuration.loads(text, str(rad_toml))
            if not text.strip() and (last := self.last()) is not None and last.partitions:
                raise ConfigError(f"{rad_toml}: is empty: {_SWITCH}")
            return Found(config, text)
        except ConfigAbsentError as error:
            raise ConfigAbsentError(f"{_OFF}: {error}") from error
        except ConfigError as error:
            last = self.last()
            if last is None:
                raise ConfigError(f"{_OFF} (see radctl config check): {error}") from error
            written = datetime.fromtimestamp(Path(self.copy).stat().st_mtime)
            goes_on = f"this node goes on with {self.copy} of {written:%Y-%m-%d %H:%M}"
            return Found(last, None, f"{goes_on}, as rad.toml cannot be used (see radctl config check): {error}")

    def last(self) -> Config | None:
        """The last configuration that could be used, or None where none was kept, or others could have changed it."""
        try:
            about = os.lstat(self.path)
            if not stat.S_ISDIR(about.st_mode) or about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o022:
                return None
            return configuration.load(Path(self.copy))
        except (OSError, ConfigError):
            return None

    def keep(self, text: bytes) -> str:
        """Keep what rad.toml holds, where that is new; why it could not be kept, or the empty string."""
        try:
            with open(self.copy, "rb") as file:  # noqa: PTH123 - pathlib starts slowly
                if file.read(len(text) + 1) == text:
                    return ""
        except OSError:
            pass
        try:
            state.write_bytes(f"{state.folder(self.path)}/rad.toml", text, durable=True)
        except (state.StateError, OSError) as error:
            where = f"{self.path} (RAD_KEPT in rad.env beside the hooks names another folder)"
            return (
                f"no copy of rad.toml is kept in {where}: jobs get neither MPS nor caps if it cannot be used: {error}"
            )
        return ""

    def of_job(self, job: int) -> str:
        """Where it is kept by what a job's Prolog went."""
        return f"{self.path}/{job}.json"

    def begin(self, job: int, config: Config) -> None:
        """Keep by what a job's Prolog goes; TaskProlog, which runs as the user, is to read it.

        Raises:
            StateError, OSError: if nothing can be kept.
        """
        state.remove(self.of_job(job))  # of an earlier run
        node = {"state_dir": config.node.state_dir, "command_timeout_s": config.node.command_timeout_s}
        state.folder(self.path)
        state.write(self.of_job(job), {"mps": dataclasses.asdict(config.mps), "node": node}, 0o644)

    def begun(self, job: int) -> Config | None:
        """[mps] and the folder of the notes by which a job's Prolog went, all else by default; None if not kept."""
        data = state.read(self.of_job(job))
        if data is None:
            return None
        try:
            return configuration.parse(data, self.of_job(job))
        except ConfigError:  # of another RAD
            return None

    def tidy(self) -> None:
        """Forget jobs that have no note any more: their Epilog never came."""
        try:
            names = os.listdir(self.path)  # noqa: PTH208
        except OSError:
            return
        for name in names:
            job, _, rest = name.partition(".")
            path = f"{self.path}/{name}"
            with contextlib.suppress(OSError):  # it has gone, or its disk takes no changes: the timer has more to do
                if state.age_s(path) <= _OLD_S:
                    continue
                if name.endswith(".new") or (job.isdigit() and rest == "json" and not self._is_noted(int(job))):
                    state.remove(path)

    def _is_noted(self, job: int) -> bool:
        begun = self.begun(job)
        return begun is not None and os.path.exists(notes.of_job(begun.node.state_dir, job))  # noqa: PTH110


def as_begun(config: Config, begun: Config) -> Config:
    """`config` with what is of a job's Prolog: where it noted the job, and which daemon it gave it."""
    return dataclasses.replace(
        config, mps=begun.mps, node=dataclasses.replace(config.node, state_dir=begun.node.state_dir)
    )


def _in_time(path: Path) -> bytes:
    """What rad.toml holds. The thread that waits for it ends with the process.

    Raises:
        ConfigError: if it cannot be read, or not in time.
    """
    done = _thread.allocate_lock()
    done.acquire()
    got: list[bytes] = []
    failed: list[ConfigError] = []

    def read() -> None:
        try:
            got.append(configuration.read(path))
        except ConfigError as error:
            failed.append(error)
        done.release()

    _thread.start_new_thread(read, ())
    if not done.acquire(timeout=READ_S):
        raise ConfigError(f"{path}: cannot be read within {READ_S:g} s: its file system hangs")
    for error in failed:
        raise error
    return got[0]
