"""Where a node notes what it must know of a job: files in [node].state_dir. Pure."""

from __future__ import annotations


def of_job(state_dir: str, job: int) -> str:
    """What Prolog notes for Epilog, and for rad-monitor; for root alone."""
    return f"{state_dir}/{job}.json"


def of_tasks(state_dir: str, job: int) -> str:
    """What Prolog notes for TaskProlog, which runs as the user."""
    return f"{state_dir}/{job}.task.json"


def of_logs(state_dir: str, job: int) -> str:
    """Which other job writes to its logs; for root alone."""
    return f"{state_dir}/{job}.shared.json"
