"""A job's record: what RAD decided, what was measured, how it ended. Pure: text in, text out.

Stored in Slurm's AdminComment as ``RAD1:`` + base64 of JSON, beside what other tools keep there.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

PREFIX = "RAD1:"
_TOKEN = re.compile(r"RAD1:[A-Za-z0-9+/]*={0,2}")
MAX_BYTES = 32_768

Action = Literal["share", "exclusive", "left_alone", "advised", "shadowed"]


@dataclass(frozen=True)
class Run:
    """One run of a job (a requeued job has several).

    Attributes:
        share: shares held in this run.
        cap_mib: memory cap in MiB, or None where none was set.
        start, end: Unix times in seconds.
        exit_code: as a shell sees it, or None where unknown.
        outcome: ``completed``, ``failed``, ``oom_requeued``, ``oom_exclusive`` (requeued with the whole GPU),
            ``oom_final`` (no more tries) or ``oom_told`` (may not be requeued; the user was told what to ask for).
        evidence: the line of the log that shows an out-of-memory error, or the empty string.
        peak_mib: measured peak of GPU memory in MiB, or None where not measured.
    """

    share: int | None = None
    cap_mib: int | None = None
    start: int | None = None
    end: int | None = None
    exit_code: int | None = None
    outcome: str = ""
    evidence: str = ""
    peak_mib: int | None = None
    node: str = ""


@dataclass(frozen=True)
class Record:
    """What RAD stores with a job.

    Attributes:
        action: what was done with the request.
        asked: the request as the user wrote it, for example ``gpu:1``.
        model, batch_size, seq_len, optimizer, precision, kind: what the directives said.
        expected_mib, upper_mib, method, family, fingerprint: the estimate, where there is one.
        share, pin, node, cap_mib, thread_percentage: the decision. ``pin`` is a device type such as ``g2``.
        policy: placement policy that chose the GPU.
        residents: ids of the jobs that held shares of the pinned GPU at decision time.
        reasons: sentences that tell why.
        retries: how often RAD has requeued the job for want of GPU memory.
        user_changes: requests that the user made later (``scontrol update``), as Slurm shows them.
        runs: one entry for each ended run.
    """

    action: Action
    asked: str = ""
    mode: str = "enforce"
    job_policy: str = "collocation"
    policy: str = ""
    model: str = ""
    batch_size: int | None = None
    seq_len: int | None = None
    optimizer: str = ""
    precision: str = ""
    kind: str = ""
    expected_mib: int | None = None
    upper_mib: int | None = None
    method: str = ""
    family: str = ""
    fingerprint: str = ""
    gpu: str = ""
    smact: float | None = None
    share: int | None = None
    pin: str = ""
    node: str = ""
    cap_mib: int | None = None
    thread_percentage: int | None = None
    residents: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    retries: int = 0
    user_changes: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()


def encode(record: Record) -> str:
    """The token that stands in AdminComment; fields that say nothing are left out."""
    data = _compact(record)
    data["runs"] = [_compact(run) for run in record.runs]
    if not record.runs:
        del data["runs"]
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return PREFIX + base64.b64encode(text.encode()).decode()


def decode(admin_comment: str) -> Record | None:
    """The record in an AdminComment, or None where there is none that can be read."""
    found = _TOKEN.search(admin_comment)
    if found is None or len(found.group()) > MAX_BYTES:
        return None
    try:
        data = json.loads(base64.b64decode(found.group()[len(PREFIX) :], validate=True))
        return _record(data)
    except (ValueError, TypeError, KeyError, binascii.Error, RecursionError):
        return None


def merge(admin_comment: str, record: Record) -> str:
    """`admin_comment` with our token replaced or added; other tools' text stays as it is, before ours."""
    others = strip(admin_comment)
    token = encode(record)
    return f"{others} {token}" if others else token


def strip(admin_comment: str) -> str:
    """What other tools keep in `admin_comment`."""
    return _TOKEN.sub("", admin_comment).strip()


def _compact(value: Record | Run) -> dict[str, Any]:
    return {
        f.name: getattr(value, f.name)
        for f in dataclasses.fields(value)
        if getattr(value, f.name) != f.default or f.default is dataclasses.MISSING
    }


def _record(data: dict[str, Any]) -> Record:
    known = {f.name for f in dataclasses.fields(Record)}
    run_known = {f.name for f in dataclasses.fields(Run)}
    fields = {k: v for k, v in data.items() if k in known and k != "runs"}
    for name in ("residents", "reasons", "user_changes"):
        if name in fields:
            fields[name] = tuple(fields[name])
    runs = tuple(Run(**{k: v for k, v in run.items() if k in run_known}) for run in data.get("runs", ()))
    return Record(runs=runs, **fields)
