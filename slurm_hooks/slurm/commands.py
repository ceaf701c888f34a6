"""Slurm through its commands: the only module that starts them for the controller side.

Every command has a time limit and never goes through a shell.
"""

from __future__ import annotations

import codecs
import contextlib
import logging
import os
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from slurm_hooks.cluster import ClusterView
from slurm_hooks.records import Record, decode
from slurm_hooks.slurm import pyslurm_queue, squeue
from slurm_hooks.slurm import view as parsing
from slurm_hooks.slurm.versions import (
    RETYPE_SINCE,
    SHARES_COUNTED_SINCE,
    SHARES_KEPT_SINCE,
    SHARES_NOT_RESERVED_SINCE,
    Version,
)

log = logging.getLogger("rad.slurm")


class SlurmError(RuntimeError):
    """A Slurm command that failed or took too long; the message names the command."""


_RECORD_COLUMNS = (("JobID", 20), ("admin_comment", 16_384))
_TASTES = ("SQUEUE_", "SACCT_", "SCONTROL_", "SINFO_", "SLURM_CLUSTERS")
# Where slurm.conf says fed_display, jobs of a federation's other clusters would stand among those of this one, on nodes
# that may have the names of its own; and where one of these clusters is down, each question would wait for it.
_HERE = {f"{command}_LOCAL": "1" for command in ("SQUEUE", "SACCT", "SCONTROL", "SINFO")}
_CLIENTS = ("squeue", "sacct", "scontrol", "sacctmgr", "sinfo")
_NO_UTF8 = re.compile("[\udc80-\udcff]")  # as Python keeps a byte that is none
_SETTINGS_S = 60.0  # Slurm's configuration changes seldom

Runner = Callable[[Sequence[str], float], str]


def run(command: Sequence[str], timeout_s: float) -> str:
    """Standard output of a command of Slurm's; it shows times as seconds since 1970.

    Raises:
        SlurmError: if it cannot be started, fails, or takes longer than `timeout_s`.
    """
    pipe = subprocess.PIPE
    named = " ".join(command[:3])
    settings = os.environ.get("SLURM_CONF") if command[0] in _CLIENTS else None
    if settings and not Path(settings).exists():
        raise SlurmError(f"{named}: SLURM_CONF names {settings}, which is not there")  # it would wait for it a minute
    try:
        with subprocess.Popen(list(command), stdout=pipe, stderr=pipe, env=_environment()) as process:
            _stand_back(process.pid)
            try:
                out, said = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    except subprocess.TimeoutExpired as error:
        raise SlurmError(f"{named}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise SlurmError(f"{command[0]}: {error}") from error
    if process.returncode != 0:
        detail = _text(said).strip().splitlines()[-1:] or [f"exit status {process.returncode}"]
        raise SlurmError(f"{named}: {detail[0]}")
    return _text(out)


def _text(data: bytes) -> str:
    """What a command said, in as many bytes, so that no column moves, whatever users and other tools wrote.

    Piece by piece: each is read at one go, for which nobody gets an answer of radd's, and ten thousand jobs are 50 MB.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    texts = [decoder.decode(data[at : at + squeue.PIECE]) for at in range(0, len(data), squeue.PIECE)]
    texts.append(decoder.decode(b"", final=True))
    return "".join([text if text.isascii() else _NO_UTF8.sub("?", text) for text in texts])


def _environment() -> dict[str, str]:
    """Ours without what its user likes to see, and no change of the clock is to count.

    squeue would leave out jobs, or tell of another cluster's, of which sacct tells nothing.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_TASTES)}
    return kept | _HERE | {"SLURM_TIME_FORMAT": "%s"}


def _stand_back(pid: int) -> None:
    """Take from a command the precedence that radd has over slurmctld: it is for answers alone."""
    with contextlib.suppress(OSError):  # it has ended, or the system lets nobody ask
        if os.getpriority(os.PRIO_PROCESS, 0) < 0:
            os.setpriority(os.PRIO_PROCESS, pid, 0)


class SlurmCommands:
    """Looks at the cluster through squeue (or pyslurm) and scontrol, and takes pins back through scontrol."""

    def __init__(self, timeout_s: float, runner: Runner = run, clock: Callable[[], float] = time.time) -> None:
        self._timeout_s = timeout_s
        self._run = runner
        self._clock = clock
        self._version: Version | None = None
        self._settings, self._settings_until = "", float("-inf")

    def version(self) -> Version:
        """Slurm's major version, for example (22, 5)."""
        if self._version is None:
            self._version = self._ask_version("squeue", "--version")
        return self._version

    def unseen(self) -> ClusterView:
        """What can be told of the cluster before the first look at it: what its slurmctld here is."""
        try:
            return ClusterView(counts_shares=self._ask_version("slurmctld", "-V") >= SHARES_COUNTED_SINCE)
        except SlurmError as error:
            log.warning("which Slurm this is will be known after a look at it: %s", error)
            return ClusterView()

    def _ask_version(self, *command: str) -> Version:
        found = re.search(r"(\d+)\.(\d+)", self._run(command, self._timeout_s))
        return (int(found.group(1)), int(found.group(2))) if found else (0, 0)

    def look(self, partitions: Sequence[str]) -> ClusterView:
        """The cluster as it is now.

        Raises:
            SlurmError: if Slurm does not answer.
        """
        taken = self._clock()
        have = self._run(["scontrol", "show", "node", "-o"], self._timeout_s)
        reserved = self._run(["scontrol", "show", "reservation", "-o"], self._timeout_s)
        nodes = parsing.parse_nodes(have, parsing.parse_reservations(reserved))
        others = parsing.beside(nodes)
        concerned = set(partitions).union(*(others.get(name, ()) for name in partitions))
        jobs, residents = self._queue(tuple(sorted(concerned)))
        shown = self._run(["scontrol", "show", "partition", "-o", "-a"], self._timeout_s)  # hidden ones too
        if taken >= self._settings_until or self._settings_until > taken + _SETTINGS_S:  # a clock may be set back
            self._settings = self._run(["scontrol", "show", "config"], self._timeout_s)
            self._settings_until = taken + _SETTINGS_S
        hidden, can_retype = parsing.hides_jobs(self._settings), self.version() >= RETYPE_SINCE
        view = parsing.build(nodes, jobs, residents, taken=taken, can_retype=can_retype, jobs_hidden=hidden)
        return replace(
            view,
            counts_shares=self.version() >= SHARES_COUNTED_SINCE,
            keeps_shares=self.version() >= SHARES_KEPT_SINCE,
            partitions=parsing.parse_partitions(shown, self._settings, others),
            filters_steps=parsing.filters_steps(self._settings),
            without_shares=parsing.reservations_of_gpus(reserved)
            if self.version() >= SHARES_NOT_RESERVED_SINCE
            else frozenset(),
            enforces_limits=parsing.enforces_limits(self._settings),
        )

    def _queue(self, partitions: tuple[str, ...]) -> tuple[list[parsing.JobRow], list[parsing.ResidentRow]]:
        pyslurm = pyslurm_queue.matching(self.version())
        if pyslurm is not None:
            try:
                return pyslurm_queue.read(pyslurm, partitions)
            except Exception as error:
                # A binding that broke must not blind radd: the commands say the same.
                log.warning("pyslurm cannot read the queue, squeue does: %r", error)
        where = ["-p", ",".join(partitions)] if partitions else []
        shown = parsing.SEPARATOR.join(parsing.JOB_COLUMNS)
        jobs = self._run(["squeue", "-h", "-a", "-t", "PD", *where, "-o", shown], self._timeout_s)
        wide = squeue.wanted(parsing.RESIDENT_COLUMNS)
        residents = self._run(["squeue", "-h", "-a", "-t", ",".join(squeue.HOLDING), "-O", wide], self._timeout_s)
        return parsing.parse_jobs(jobs), parsing.parse_residents(residents)

    def record(self, job_id: int) -> Record | None:
        """The record of a job that is not yet done.

        Raises:
            SlurmError: if Slurm does not know the job.
        """
        # Nothing of the user's stands in these columns; scontrol shows the job's name and comment before the record.
        wide = squeue.wanted(_RECORD_COLUMNS)
        text = self._run(["squeue", "-h", "-a", "-t", "all", "-O", wide, "-j", str(job_id)], self._timeout_s)
        rows = squeue.rows(text, _RECORD_COLUMNS)
        found = (row["admin_comment"].decode(errors="replace") for row in rows if row["JobID"] == b"%d" % job_id)
        return decode(next(found, ""))

    def unpin(self, job_id: int, share: int | None, *, node: bool) -> None:
        """Let a pending job go to any GPU, with `share` shares of it, and to any node. Needs Slurm's operator rights.

        Raises:
            SlurmError: if Slurm refuses.
        """
        changes = [f"gres=mps:{share}"] if share is not None else []
        changes += ["reqnodelist="] if node else []
        self._run(["scontrol", "update", f"jobid={job_id}", *changes], self._timeout_s)

    def release(self, job_id: int) -> None:
        """Let a held job start. Needs Slurm's operator rights.

        Raises:
            SlurmError: if Slurm refuses.
        """
        self._run(["scontrol", "release", str(job_id)], self._timeout_s)
