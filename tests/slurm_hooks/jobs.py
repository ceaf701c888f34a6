"""Jobs as tests need them: one run with the fields that matter, the rest ordinary."""

from __future__ import annotations

from typing import Any

from slurm_hooks.records import Record, encode
from slurm_hooks.slurm.accounting import JobRun

HOUR = 3600
NOON = 1_767_268_800  # 2026-01-01 12:00 UTC
DAY = (NOON - 12 * HOUR, NOON + 12 * HOUR)


def job_run(record: Record | None = None, **given: Any) -> JobRun:
    """A run of job 1 that held 40 shares of g2 for an hour, from noon."""
    fields: dict[str, Any] = {
        "job_id": 1,
        "user": "alice",
        "account": "research",
        "partition": "gpu",
        "state": "COMPLETED",
        "submit": NOON - 60,
        "start": NOON,
        "end": NOON + HOUR,
        "elapsed_s": HOUR,
        "allocated": {"cpu": 4, "gres/mps": 40, "gres/mps:g2": 40},
        "requested": {"cpu": 4, "gres/mps": 40},
        "exit_code": 0,
        "signal": 0,
        "nodes": "node07",
        "name": "train.sh",
        "admin_comment": encode(record) if record else "",
        **given,
    }
    return JobRun(**{"shown_id": str(fields["job_id"]), **fields})
