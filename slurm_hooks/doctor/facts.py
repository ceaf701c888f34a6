"""What can be known of a machine. Frozen values, between those who look and those who judge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slurm_hooks.slurm.versions import Version

HOOKS = ("Prolog", "TaskProlog", "Epilog")
COMMANDS = ("scontrol", "squeue", "sacct", "sacctmgr")
LUA_MODULES = ("rad", "rad_submit", "rad_script", "rad_step", "rad_summary")
LUA_SCRIPTS = ("job_submit.lua", "cli_filter.lua")


@dataclass(frozen=True)
class FileFact:
    """What lies at a path: its kind, permission bits and owners (ids), of a folder whether its file system is full."""

    kind: Literal["absent", "file", "directory", "socket", "link", "other"] = "absent"
    mode: int = 0
    uid: int = -1
    gid: int = -1
    full: bool = False

    @property
    def others_write(self) -> bool:
        """Whether everybody may write to it."""
        return bool(self.mode & 0o002)

    @property
    def group_writes(self) -> bool:
        """Whether its group may."""
        return bool(self.mode & 0o020)

    @property
    def described(self) -> str:
        """What is wrong with it, in words."""
        return "absent" if self.kind == "absent" else f"{self.kind} of user {self.uid} with mode {self.mode & 0o7777:o}"


@dataclass(frozen=True)
class NodeFact:
    """A node as Slurm describes it."""

    name: str
    host: str = ""
    gres: str = ""
    partitions: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    state: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Facts:
    """What was found on a machine.

    Attributes:
        slurm_error: why Slurm did not answer, or the empty string.
        settings: Slurm's configuration, names to values, ``(null)`` as the empty string.
        partitions: names of Slurm's partitions.
        preempted: partitions whose jobs Slurm may preempt.
        whole: partitions that give each job its nodes whole.
        billing: what the resources of a partition cost (TRESBillingWeights), where it says.
        slurmdbd_error: why slurmdbd did not answer, or the empty string.
        limits: by whose they are, lists of resources to which slurmdbd holds jobs.
        least: by name, what a QOS wants each job to ask for.
        nodes: Slurm's nodes.
        unnamed: which of Prolog and Epilog are scripts that name nothing of RAD's.
        task_prolog: why TaskProlog does not come to RAD when an ordinary user runs it, or the empty string.
        gres_conf: text of gres.conf and of what it includes, or None where there is none to read.
        scripts: texts of the Lua scripts beside slurm.conf by file name, None for those that are absent.
        lua_version: version of Lua that slurmctld runs, for example ``5.1``, or the empty string if unknown.
        lua_modules: where a Lua module was found; the empty string for nowhere.
        lua_other: one of RAD's Lua modules that is not as it came with this RAD; else the empty string.
        files: what lies at the paths that the configurations name, and rad.toml.
        users: user and group id of users that the configuration names.
        radd_error: why radd serves no connection, or the empty string; None where it could not be tried.
        model_error: why the estimator's model cannot be used, or the empty string.
        radd_user: name of the user that radd runs as, or the empty string.
        radd_rights: that user's AdminLevel in slurmdbd, or None where it could not be asked.
        timer: what systemd says of rad-spool.timer, ``active`` where it is well; None where no systemd runs.
        monitor_error: why rad-monitor takes no connection, or the empty string; None where it is not to listen.
        gpus: number of GPUs that NVML sees, or None where it does not work; without those in MIG mode.
        memory_mib: memory of the smallest of them, in MiB; 0 where it is not known.
        instances: the MIG instances that it sees: profile and memory in MiB.
        nvml_error: why NVML does not tell, or the empty string.
        programs: where the hooks find one of Slurm's commands; the empty string for nowhere.
        elsewhere: where this shell finds one that the hooks do not; likewise.
        host: this machine's name.
        absent: rad.toml, where there is none; else the empty string.
        read: the rad.toml that the hooks are told to read, where it is another; else the empty string.
        closed: what those who need it may not use, by subject: it, or the folder above it that is closed to them.
        changed: whether rad.toml was changed after radd had started.
        unusable: why rad.toml cannot be used, where this machine goes on with the copy that it keeps; else empty.
        kept: the folder of that copy.
    """

    slurm_error: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    partitions: frozenset[str] = frozenset()
    preempted: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    billing: Mapping[str, str] = field(default_factory=dict)
    slurmdbd_error: str = ""
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[NodeFact, ...] = ()
    unnamed: frozenset[str] = frozenset()
    task_prolog: str = ""
    gres_conf: str | None = None
    scripts: Mapping[str, str | None] = field(default_factory=dict)
    lua_version: str = ""
    lua_modules: Mapping[str, str] = field(default_factory=dict)
    lua_other: str = ""
    files: Mapping[str, FileFact] = field(default_factory=dict)
    users: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    radd_error: str | None = ""
    model_error: str = ""
    radd_user: str = ""
    radd_rights: str | None = None
    timer: str | None = None
    monitor_error: str | None = None
    gpus: int | None = None
    memory_mib: int = 0
    instances: tuple[tuple[str, int], ...] = ()
    nvml_error: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    absent: str = ""
    read: str = ""
    closed: Mapping[str, str] = field(default_factory=dict)
    changed: bool = False
    unusable: str = ""
    kept: str = ""

    @property
    def here(self) -> NodeFact | None:
        """This machine among Slurm's nodes."""
        return next((node for node in self.nodes if self.host and self.host in (node.name, node.host)), None)

    @property
    def version(self) -> Version:
        """Slurm's major version; (0, 0) where it is not known."""
        found = re.match(r"(\d+)\.(\d+)", self.settings.get("SLURM_VERSION", ""))
        return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
