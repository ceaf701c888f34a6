"""What a site can set: every key of rad.toml, its type, default and meaning, in this one place.

`load` reads and checks a file; the reference page and etc/rad.toml.example are made from the same classes
(`slurm_hooks.config_reference`). Touches nothing but the file it is given.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import os
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from estimator import files

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PATH = Path("/etc/rad/rad.toml")
_MOST_BYTES = files.MIB
_LARGEST = 2**63  # what TOML can hold
_WORDS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}
_MISSPELT = 0.8  # as alike as two words must be for one to be meant by the other
_FEW = 2  # keys that have a part of their name in common

Mode = Literal["enforce", "advise", "shadow"]
SharingMethod = Literal["mps", "streams", "mig", "off"]
PlacementPolicy = Literal["magm", "lug", "mug", "rr", "kace", "exclusive"]
EstimatorMethod = Literal["horus", "gpumemnet", "rad"]
Threads = Literal["all", "sum", "max-min"]
JobPolicy = Literal["collocation", "exclusive"]
MpsUsers = Literal["single", "multi"]
MpsMeet = Literal["turns", "wait"]
MonitorBackend = Literal["auto", "dcgm", "gpm", "nvml"]
OverAllotment = Literal["record", "warn", "end"]
MeasurementSource = Literal["none", "monitors", "prometheus"]


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names file, key and cure."""


class ConfigAbsentError(ConfigError):
    """There is no such file. One behind a link that leads nowhere is one that cannot be read."""


def _key(default: Any, doc: str, *, low: float | None = None, high: float | None = None, path: bool = False) -> Any:
    """A documented key with its default and, for numbers, the range that is accepted.

    A path must be absolute: the hooks run in folders of Slurm's and of users'.
    """
    return field(default=default, metadata={"doc": doc, "low": low, "high": high, "path": path})


@dataclass(frozen=True)
class Radd:
    """[radd]: the decision service on the controller."""

    socket: str = _key(
        "/run/rad/radd.sock",
        "Unix socket on which job_submit.lua asks, where it says so (rad.socket); radd's unit must let it write there "
        "(ReadWritePaths).",
        path=True,
    )
    slurm_user: str = _key(
        "slurm", "User that slurmctld runs as: the only one, beside root, who may write to the socket."
    )
    max_request_kib: int = _key(
        1024,
        "Longest request that is read; a longer one is dropped; job_submit.lua sends none over 1,000 KB.",
        low=64,
        high=65536,
    )
    max_connections: int = _key(64, "Connections served at once; more are closed at once.", low=1, high=4096)
    read_timeout_s: float = _key(
        2.0, "A client that has not sent its whole request by then is dropped.", low=0.1, high=60
    )
    decide_s: float = _key(
        0.03,
        "A decision that takes longer is given up and its job goes through as written; "
        "keep it below job_submit.lua's deadline of 0.05.",
        low=0.001,
        high=10,
    )
    poll_s: float = _key(5.0, "Time between two looks at Slurm's nodes and jobs.", low=1, high=600)
    stale_s: float = _key(30.0, "A view of the cluster older than this pins no job.", low=2, high=3600)
    recent_s: float = _key(15.0, "How long a decision counts as resident before Slurm shows the job.", low=1, high=600)
    command_timeout_s: float = _key(20.0, "A Slurm command that takes longer is given up.", low=1, high=300)
    unpin_after_s: float = _key(
        60.0,
        "A pinned job that still waits after this is unpinned, where Slurm allows that.",
        low=5,
        high=86400,
    )
    learn_s: float = _key(300.0, "Time between two looks at the records of ended jobs.", low=5, high=86400)
    learn_days: int = _key(90, "How far back radd learns from ended jobs when it starts.", low=0, high=3650)


@dataclass(frozen=True)
class EstimatorSettings:
    """[estimator]: how memory is estimated."""

    method: EstimatorMethod = _key("rad", "Method by name; faketensor is not among them: it needs the model's code.")
    models_dir: str = _key(
        "/var/lib/rad/models",
        "Where retrained models lie; those shipped with RAD serve where it is empty.",
        path=True,
    )
    max_summary_kib: int = _key(512, "Longest summary that is read.", low=1, high=16384)


@dataclass(frozen=True)
class PredictorSettings:
    """[predictor]: how jobs on one GPU are predicted to slow each other down."""

    model: Literal["rad", "kace", "off"] = _key("rad", "Which predictor is asked; off: none, placement kace is magm.")
    models_dir: str = _key(
        "/var/lib/rad/predictors", "Where retrained ones lie; those shipped with RAD serve else.", path=True
    )
    min_gain: float = _key(
        1.1, "Placement kace shares a GPU only for at least this sum of relative progress.", low=1, high=10
    )
    min_progress: float = _key(
        0.5, "Placement kace shares a GPU only if each job keeps this progress, relative to alone.", low=0, high=1
    )


@dataclass(frozen=True)
class Partition:
    """[defaults] and [partitions.NAME]: how GPUs are shared; a partition overrides what [defaults] says."""

    mode: Mode = _key("enforce", "enforce: rewrite requests; advise: tell the user only; shadow: record only.")
    method: SharingMethod = _key(
        "mps", "How jobs share a GPU: mps, streams (plain time slicing), mig (an instance for each job), or off."
    )
    placement: PlacementPolicy = _key("magm", "Which GPU is best: magm, lug, mug, rr, kace or exclusive (no sharing).")
    threads: Threads = _key(
        "all",
        "MPS thread percentage of a job that comes beside others: all: 100; else what the predictor expects to give "
        "the highest sum of progress (sum), or the highest progress of the slowest job (max-min).",
    )
    policy: JobPolicy = _key("collocation", "What a job that names no policy gets: collocation or exclusive.")
    gpu_model: str = _key(
        "",
        "Model of the partition's GPUs (h200, a100-40gb), of several the one with least memory; a user's GPU type must "
        "be this. Empty: any.",
    )
    gpu_memory_mib: int = _key(0, "Memory of one GPU in MiB; 0: as known for gpu_model.", low=0, high=10_000_000)
    margin_mib: int = _key(2048, "Memory of each GPU that RAD never gives away.", low=0, high=1_000_000)
    share_limit: int = _key(90, "A job that needs more shares than this gets the whole GPU.", low=1, high=100)
    smact_cap: float = _key(
        0.8,
        "Sum of SMACT (part of the time that SMs are busy) that is put on one GPU; above 1 oversubscribes it.",
        low=0.05,
        high=10,
    )
    default_smact: float = _key(0.25, "SMACT of a job of which nothing is known.", low=0, high=1)
    feature: str = _key("", "Node feature that stands for gpu_model; empty: its name, as users write it.")


@dataclass(frozen=True)
class Recovery:
    """[recovery]: jobs that ran out of GPU memory."""

    enabled: bool = _key(True, "Requeue such jobs with a larger share.")
    step_mib: int = _key(5120, "Memory is grown by at least this.", low=1, high=1_000_000)
    factor: float = _key(1.5, "Memory is grown to at least this times what it was.", low=1, high=10)
    log_tail_kib: int = _key(
        1024, "How much of the end of a job's log is searched for the framework's error.", low=1, high=16384
    )


@dataclass(frozen=True)
class Mps:
    """[mps]: the MPS daemons of a node."""

    run_dir: str = _key("/run/rad/mps", "Pipe and log directories, one of each for every GPU.", path=True)
    control: str = _key("/usr/bin/nvidia-cuda-mps-control", "The control daemon's program.")
    users: MpsUsers = _key(
        "single",
        "single: an MPS server serves one user, and radd pins no job to a GPU that holds jobs of another; multi: "
        "clients of several users share one server.",
    )
    meet: MpsMeet = _key(
        "turns",
        "With users = single, a job that cannot be pinned goes where Slurm puts it. turns: perhaps beside jobs of "
        "other users, where the servers take turns; wait: it asks for a whole GPU, and waits in the queue for one.",
    )
    nvidia_smi: str = _key("/usr/bin/nvidia-smi", "The program that tells UUID and memory of a node's GPUs.")
    grace_s: float = _key(30.0, "A daemon that no job has used for this long is ended.", low=0, high=600)
    command_timeout_s: float = _key(2.0, "A daemon that has not answered by then is replaced.", low=0.1, high=30)
    log_mib: int = _key(
        8,
        "Size of the tmpfs that holds each daemon's logs, and of the one that holds its pipes: in both are files to "
        "which its users may write; 0: no file systems of their own, and they can fill run_dir's.",
        low=0,
        high=1024,
    )


@dataclass(frozen=True)
class Node:
    """[node]: Prolog, TaskProlog and Epilog."""

    state_dir: str = _key(
        "/run/rad/jobs",
        "What Prolog notes of a job for its Epilog; rad-monitor's unit must let it write there (ReadWritePaths).",
        path=True,
    )
    spool_dir: str = _key("/var/spool/rad", "Records that wait for slurmdbd.", path=True)
    command_timeout_s: float = _key(3.0, "A Slurm command that takes longer is given up.", low=0.5, high=60)
    send_for_s: float = _key(
        300.0,
        "How long an Epilog's background process tries to reach slurmdbd; the next one, or rad-spool.timer, goes on.",
        low=0,
        high=3600,
    )
    log: str = _key("/var/log/rad/node.log", "What the hooks of a node have to say.", path=True)


@dataclass(frozen=True)
class Monitor:
    """[monitor]: rad-monitor on the nodes, and how radd reads what it measures."""

    backend: MonitorBackend = _key(
        "auto",
        "Who counts: dcgm, gpm (NVML, Hopper and later), nvml (memory and power alone); auto: the first that works.",
    )
    interval_s: float = _key(1.0, "Time between two looks at the GPUs.", low=0.1, high=60)
    window_s: float = _key(90.0, "What is told of a GPU or job is the mean over this time.", low=1, high=3600)
    write_s: float = _key(
        30.0,
        "A job's counters are kept for its Epilog this often, and oftener in its first minutes.",
        low=1,
        high=600,
    )
    listen: str = _key("127.0.0.1", "Address on which Prometheus and radd may read; empty for none.")
    port: int = _key(
        336,
        "Port of it. Below 1024 only root can listen there: no user can take the place of a monitor that is down.",
        low=1,
        high=65535,
    )
    max_connections: int = _key(
        16, "Readers served at once; for one more the one that is there longest is dropped.", low=1, high=1024
    )
    over_allotment: OverAllotment = _key(
        "warn",
        "What becomes of a job whose processes use more GPU memory than its cap: record it, warn its user too, "
        "or end the largest process as well.",
    )
    slack_mib: int = _key(
        1024,
        "Memory over its cap that a job is let pass: MPS does not count all that NVML counts.",
        low=0,
        high=1_000_000,
    )
    dcgmi: str = _key("/usr/bin/dcgmi", "DCGM's command.")
    source: MeasurementSource = _key(
        "none", "Where radd learns what jobs use: nowhere, from each node's monitor, or from a Prometheus server."
    )
    url: str = _key("http://{node}:336", "A node's monitor as radd reads it; {node} is Slurm's name of the node.")
    prometheus_url: str = _key("http://127.0.0.1:9090", "The Prometheus server that radd asks.")
    read_s: float = _key(10.0, "Time between two readings by radd.", low=1, high=600)
    read_timeout_s: float = _key(2.0, "An answer that is not there by then is done without.", low=0.1, high=60)
    stale_s: float = _key(
        60.0,
        "A reading older than this counts no more; a monitor whose last look is older shows no GPUs and no jobs.",
        low=2,
        high=3600,
    )


@dataclass(frozen=True)
class Config:
    """All settings of a site; a partition that it does not name is none of RAD's business."""

    radd: Radd = Radd()
    estimator: EstimatorSettings = EstimatorSettings()
    predictor: PredictorSettings = PredictorSettings()
    defaults: Partition = Partition()
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    recovery: Recovery = Recovery()
    mps: Mps = Mps()
    node: Node = Node()
    monitor: Monitor = Monitor()


def load(path: Path) -> Config:
    """Read a configuration.

    Raises:
        ConfigError: if the file cannot be read or a key or value is wrong; the message names file, key and cure.
    """
    return loads(read(path), str(path))


def read(path: Path) -> bytes:
    """What a configuration's file holds.

    Raises:
        ConfigAbsentError: if there is none.
        ConfigError: if it cannot be read, or is no file of a configuration's length.
    """
    try:
        return files.read(path, _MOST_BYTES)
    except files.FileRefusedError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        kind = ConfigAbsentError if isinstance(error, FileNotFoundError) and _is_absent(path) else ConfigError
        raise kind(f"{path}: cannot be read: {error.strerror}") from error


def _is_absent(path: Path) -> bool:
    """Whether a file that cannot be found is not there, rather than behind a link that leads nowhere."""
    there = next(place for place in (path, *path.absolute().parents) if os.path.lexists(place))
    return os.path.exists(there)  # noqa: PTH110 - pathlib starts slowly


def loads(text: bytes, source: str) -> Config:
    """The configuration that a file's text makes; `source` names it in messages.

    Raises:
        ConfigError: if it is no TOML, or a key or value is wrong.
    """
    try:
        data = tomllib.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number of thousands of digits
        hint = " (a word as a value needs quotes)" if str(error).startswith("Invalid value") else ""
        raise ConfigError(f"{source}: not TOML: {error}{hint}") from error
    return parse(data, source)


def parse(data: Mapping[str, Any], source: str) -> Config:
    """Check what a file holds; `source` names it in messages.

    Raises:
        ConfigError: one line for each thing that is wrong.
    """
    sections = {f.name: f for f in dataclasses.fields(Config)}
    hints = typing.get_type_hints(Config)
    problems = [_unknown(name, value, sections, hints) for name, value in data.items() if name not in sections]
    tables = {name: _table(data.get(name, {}), name, problems) for name in sections}
    made = {name: _section(hints[name](), tables[name], name, problems) for name in sections if name != "partitions"}
    partitions = {
        name: _section(made["defaults"], _table(value, f"partitions.{name}", problems), f"partitions.{name}", problems)
        for name, value in tables["partitions"].items()
    }
    if problems:
        raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems))
    return Config(partitions=types.MappingProxyType(partitions), **made)


def _unknown(name: str, value: Any, sections: typing.Iterable[str], hints: Mapping[str, Any]) -> str:
    """What is wrong with a section that RAD does not know, or with a key outside of all sections."""
    if isinstance(value, Mapping):
        return f"[{name}]: no such section{_nearest(name, sections)}"
    homes = [f"[{section}]" for section in sections if name in getattr(hints[section], "__dataclass_fields__", ())]
    cure = f"write it below {' or '.join(homes)}" if homes else "no section has such a key"
    return f"{name}: stands in no section: {cure}"


def _table(value: Any, name: str, problems: list[str]) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    problems.append(f"{name}: is a section: write [{name}]")
    return {}


def _section(base: Any, values: Mapping[str, Any], name: str, problems: list[str]) -> Any:
    hints = typing.get_type_hints(type(base))
    fields = {f.name: f for f in dataclasses.fields(base)}
    checked = {}
    for key, value in values.items():
        try:
            if key not in fields:
                raise ConfigError(f"no such key{_nearest(key, fields)}")
            checked[key] = _value(hints[key], fields[key].metadata, value)
        except ConfigError as error:
            problems.append(f"[{name}] {key}: {error}")
    return dataclasses.replace(base, **checked)


def _value(hint: Any, meta: Mapping[str, Any], value: Any) -> Any:
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            near = difflib.get_close_matches(str(value), choices, n=1)
            guess = f": did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{value!r} must be one of {', '.join(choices)}{guess}")
        return value
    if type(value) is int and abs(value) >= _LARGEST:
        raise ConfigError("the number is too large")
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint:
        raise ConfigError(f"{value!r} must be {_WORDS[hint]}")
    if hint is str and "\0" in value:
        raise ConfigError(f"{value!r} must hold no NUL")
    if meta["path"] and not value.startswith("/"):
        raise ConfigError(f"{value!r} must be an absolute path")
    low, high = meta["low"], meta["high"]
    if low is not None and not low <= value <= high:
        raise ConfigError(f"{value!r} must lie between {low} and {high}")
    return value


def _nearest(word: str, known: typing.Iterable[str]) -> str:
    """The known word that somebody has misspelt, or that looks alike, and those with a part of it that few have."""
    known = tuple(known)
    if misspelt := difflib.get_close_matches(word, known, n=1, cutoff=_MISSPELT):
        return f": did you mean {misspelt[0]!r}?"
    parts = collections.Counter(part for name in known for part in name.split("_"))
    rare = {part for part in word.split("_") if parts[part] <= _FEW}
    near = [*difflib.get_close_matches(word, known, n=1), *(n for n in known if rare.intersection(n.split("_")))]
    return (
        f": did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else f": known are {', '.join(known)}"
    )
