"""A job's record: what RAD decided, what was measured, how it ended. Pure: text in, text out.

Stored in Slurm's AdminComment as ``RAD1:`` + base64 of JSON, beside what other tools keep there. A record is
read by people's terminals and by reports, and parts of it come from users (a model's name, a line of a log):
so both ways it is bounded, typed and free of characters that a terminal would obey.

22.05's ``sacctmgr modify job``, the only way to write into a job that has ended, turns every letter of the comment
into a small one. So behind the base64 stands a ``.`` and, in hexadecimal, which of its letters are capitals.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from slurm_hooks.record_text import MAX_ITEMS, capitals, clean, compact

PREFIX = "RAD1:"
# Not IGNORECASE, with which the long classes take several times as long.
_TOKEN = re.compile(r" ?(?<![A-Za-z0-9])([Rr][Aa][Dd]1:)([A-Za-z0-9+/]*={0,2})(?:\.([0-9A-Fa-f]*))?")
MAX_BYTES = 60_000  # slurmdbd's column holds 65,535, and other tools want some of it
MAX_NUMBER = 2**53
NO_JOB = 0  # the number of a neighbour that is none

_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode

Action = Literal["share", "exclusive", "left_alone", "advised", "shadowed"]


@dataclass(frozen=True)
class Counters:
    """What a node's monitor measured of a run.

    Attributes:
        peak_mib: peak over time of NVML's used memory summed over the job's processes, in MiB, or None where not
            measured.
        smact_mean, smact_p95, smocc_mean, smocc_p95, dram_mean, dram_p95: the job's part of its GPU's activity, 0 to
            1, over the time in which it had processes there, the mean of its GPUs where it had several; or None.
        energy_j: the job's part of its GPUs' energy, in joules.
        neighbours: ids of the jobs that had processes on the same GPU at the same time, `NO_JOB` for processes of none.
    """

    peak_mib: int | None = None
    smact_mean: float | None = None
    smact_p95: float | None = None
    smocc_mean: float | None = None
    smocc_p95: float | None = None
    dram_mean: float | None = None
    dram_p95: float | None = None
    energy_j: float | None = None
    neighbours: tuple[int, ...] = ()


@dataclass(frozen=True)
class Run(Counters):
    """One run of a job (a requeued job has several).

    Attributes:
        share: shares held in this run.
        cap_mib: memory cap in MiB, or None where none was set.
        start, end: Unix times in seconds.
        exit_code: as a shell sees it, or None where unknown.
        outcome: ``completed``, ``failed``, ``oom_requeued``, ``oom_exclusive`` (requeued with the whole GPU),
            ``oom_final`` (no more tries) or ``oom_told`` (may not be requeued; the user was told what to ask for).
            ``mps_victim``: it lost its MPS server, or was broken as another process there ended, and was requeued as
            it was; ``mps_told``: the same, not requeued.
            ``mps_suspect``: a fault broke all jobs of its MPS server, and it was requeued with the whole GPU.
            A run that ended otherwise has Slurm's word for it in small letters: ``cancelled``, ``timeout``,
            ``preempted``, ``node_fail``, ``requeued``.
        evidence: the line of the log that shows an out-of-memory error, or the empty string.
        node: where it ran.
        restart: number of the run, from 0.
    """

    share: int | None = None
    cap_mib: int | None = None
    start: int | None = None
    end: int | None = None
    exit_code: int | None = None
    outcome: str = ""
    evidence: str = ""
    node: str = ""
    restart: int | None = None


@dataclass(frozen=True)
class Record:
    """What RAD stores with a job.

    Attributes:
        action: what was done with the request.
        asked: the request as the user wrote it, for example ``gpu:1``; asked_nodes: the nodes that it named.
        model, batch_size, input_size, seq_len, optimizer, precision, kind: what the directives said.
        expected_mib, upper_mib, method, family, fingerprint, note: the estimate, where there is one.
        share, pin, node, cap_mib, thread_percentage: the decision. ``pin`` is a device type such as ``g2``. Recovery
            puts the share and the cap of the job's next run in their places.
        profile: the MIG profile that was chosen, as Slurm's device type; ``larger`` those that recovery may take, in
            their order. ``share`` is then the instance's part of a GPU.
        first_share, first_cap_mib, first_profile: what they were at submit, where recovery has put others in their
            places.
        policy: placement policy that chose the GPU.
        residents: ids of the jobs that held shares of the pinned GPU at decision time; 0 for one that was submitted
            so shortly before that its id was not known yet.
        activity: the job's profile as the predictor was given it (`interference.pack`), or empty.
        progress: predicted progress of the job relative to running alone, 0 to 1, or None where not predicted.
        residents_progress: the same of each resident, in the order of ``residents``.
        reasons: sentences that tell why.
        retries: how often RAD has requeued the job for want of GPU memory.
        user_changes: requests that the user made later (``scontrol update``), as Slurm shows them.
        runs: one entry for each ended run.
    """

    action: Action
    asked: str = ""
    asked_nodes: str = ""
    mode: str = "enforce"
    job_policy: str = "collocation"
    policy: str = ""
    model: str = ""
    batch_size: int | None = None
    input_size: str = ""
    seq_len: int | None = None
    optimizer: str = ""
    precision: str = ""
    kind: str = ""
    expected_mib: int | None = None
    upper_mib: int | None = None
    method: str = ""
    family: str = ""
    fingerprint: str = ""
    note: str = ""
    gpu: str = ""
    smact: float | None = None
    share: int | None = None
    first_share: int | None = None
    first_cap_mib: int | None = None
    profile: str = ""
    first_profile: str = ""
    larger: tuple[str, ...] = ()
    pin: str = ""
    node: str = ""
    cap_mib: int | None = None
    thread_percentage: int | None = None
    residents: tuple[int, ...] = ()
    activity: tuple[float, ...] = ()
    progress: float | None = None
    residents_progress: tuple[float, ...] = ()
    reasons: tuple[str, ...] = ()
    retries: int = 0
    user_changes: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()

    @property
    def is_rewritten(self) -> bool:
        """Whether RAD rewrote the request."""
        return self.action in ("share", "exclusive")


# Jobs of a burst mostly get equal records; those that do not are not many. Bounded in number, as records are in size.
@functools.lru_cache(maxsize=64)
def encode(record: Record) -> str:
    """The token that stands in AdminComment.

    Fields that say nothing are left out; texts and lists longer than the record's bounds are cut.
    """
    data = compact(vars(record), _DEFAULTS[Record])
    if record.runs:
        data["runs"] = [compact(vars(run), _DEFAULTS[Run]) for run in record.runs[-MAX_ITEMS:]]
    body = base64.b64encode(_to_json(data).encode())
    return f"{PREFIX}{body.decode()}.{capitals(body)}"


def decode(admin_comment: str) -> Record | None:
    """The record in an AdminComment, or None where there is none that can be read.

    Other tools' text stands before ours, and may look like one.
    """
    for found in reversed(list(_TOKEN.finditer(admin_comment))):
        if (record := _record_in(found)) is not None:
            return record
    return None


def _record_in(found: re.Match[str]) -> Record | None:
    if len(found.group()) > MAX_BYTES:
        return None
    try:
        prefix, body, capitals = found.groups()
        whole = body if prefix == PREFIX else _with_capitals(body, capitals or "")
        data = json.loads(base64.b64decode(whole, validate=True))
        return typing.cast(Record, _typed(Record, data))
    except (ValueError, TypeError, RecursionError):  # TypeError: no action
        return None


def run_from(data: Any) -> Run | None:
    """The run that `data` (as `dataclasses.asdict` gives it) tells of, or None where it is something else."""
    try:
        return typing.cast(Run, _typed(Run, data))
    except (ValueError, TypeError):
        return None


def merge(admin_comment: str, record: Record) -> str:
    """`admin_comment` with our token replaced or added; other tools' text stays as it is, before ours."""
    others = strip(admin_comment) if admin_comment else ""
    token = encode(record)
    return f"{others} {token}" if others else token


def strip(admin_comment: str) -> str:
    """What other tools keep in `admin_comment`."""
    return _TOKEN.sub("", admin_comment)


def with_earlier(record: Record, earlier: Record) -> Record:
    """`record` with what `earlier`, the same job's, has beside it.

    The outcome of a run that was preempted, or whose node failed, may reach slurmdbd before its job starts again; then
    the row of that run alone has it.
    """
    known = {(run.restart, run.start) for run in record.runs}
    before = [run for run in earlier.runs if (run.restart, run.start) not in known]
    if not before:
        return record
    runs = sorted((*before, *record.runs), key=lambda run: (run.restart or 0, run.start or 0))
    changes = (*(change for change in earlier.user_changes if change not in record.user_changes), *record.user_changes)
    return dataclasses.replace(record, runs=tuple(runs), user_changes=changes)


def _with_capitals(body: str, capitals: str) -> str:
    """`body` as it was before its letters became small; ValueError where `capitals` are not its own."""
    bits = f"{int(capitals, 16):b}"[1:]
    return "".join(c.upper() if bit == "1" else c for c, bit in zip(body, bits, strict=True))


def _typed(cls: type[Record] | type[Run], data: Any) -> Record | Run:
    """Make a `cls` from what JSON gave; a field that is unknown is left out, one of the wrong type is an error."""
    if not isinstance(data, dict):
        raise ValueError("not an object")
    checks = _CHECKS[cls]
    return cls(**{key: checks[key](value) for key, value in data.items() if key in checks})


def _check_for(hint: Any) -> Callable[[Any], Any]:
    """What turns a value from JSON into one of type `hint`, or raises ValueError."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        inner = _check_for(args[0])
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        item = _check_for(args[0])
        return lambda value: tuple(item(entry) for entry in _list(value))
    if origin is Literal:
        return lambda value: _choice(value, args)
    if hint is Run:
        return lambda value: _typed(Run, value)
    return {str: _text, int: _whole, float: _number}[hint]


def _list(value: Any) -> list[Any]:
    if isinstance(value, list) and len(value) <= MAX_ITEMS:
        return value
    raise ValueError("not a list, or too long")


def _choice(value: Any, choices: tuple[Any, ...]) -> Any:
    if value in choices:
        return value
    raise ValueError(f"{value!r} is none of {choices}")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return clean(value)
    raise ValueError("not a text")


def _whole(value: Any) -> int:
    if type(value) is int and abs(value) <= MAX_NUMBER:
        return value
    raise ValueError("not a whole number, or too large")


def _number(value: Any) -> float:
    if type(value) in (int, float) and abs(value) <= MAX_NUMBER:  # so neither NaN nor what is too large for a float
        return float(value)
    raise ValueError("not a number, or too large")


_CHECKS = {cls: {name: _check_for(hint) for name, hint in typing.get_type_hints(cls).items()} for cls in (Record, Run)}
_DEFAULTS = {cls: {f.name: f.default for f in dataclasses.fields(cls) if f.name != "runs"} for cls in (Record, Run)}
"""Names and defaults of what a record keeps as it is; `dataclasses.MISSING` equals nothing."""
