"""The queue through pyslurm, where the package is installed for exactly this Slurm; one call instead of two commands.

pyslurm is bound to one major version of Slurm. Written to the interface of pyslurm 25.11; anything unexpected makes
`SlurmCommands` go back to squeue.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any, Protocol

from slurm_hooks.slurm.squeue import HOLDING
from slurm_hooks.slurm.view import JobRow, ResidentRow, reasons_in


class Pyslurm(Protocol):
    """The part of pyslurm that is used."""

    __version__: str
    Jobs: Any


def matching(slurm_version: tuple[int, int]) -> Pyslurm | None:
    """The pyslurm package, or None where it is not installed or belongs to another Slurm."""
    try:
        # Its import talks to Slurm's library, which can fail in ways of its own.
        package: Any = importlib.import_module("pyslurm")
        found = re.match(r"(\d+)\.(\d+)\.", package.__version__)
    except Exception:
        return None
    return package if found and (int(found.group(1)), int(found.group(2))) == slurm_version else None


def read(pyslurm: Pyslurm, partitions: tuple[str, ...]) -> tuple[list[JobRow], list[ResidentRow]]:
    """The waiting jobs of some partitions (of all, if none is named) and all jobs that hold resources."""
    waiting, holding = [], []
    for job in pyslurm.Jobs.load().values():
        where = job.partition or ""
        if job.state == "PENDING" and (not partitions or set(partitions) & set(where.split(","))):
            asked = _as_text(job.requested_tres, "{name}:{count}")
            array = bool(getattr(job, "array_tasks", None))
            nodes, reasons = job.required_nodes or "", reasons_in(job.state_reason or "")
            waiting.append(JobRow(int(job.id), where, str(job.user_name), asked, nodes, reasons, array))
        elif job.state in HOLDING:
            held = _as_text(job.allocated_tres, "gres/{name}={count}")
            nodes, comment = job.allocated_nodes or "", job.admin_comment or ""
            holding.append(ResidentRow(int(job.id), nodes, held, str(job.user_name), comment))
    return waiting, holding


def _as_text(tres: Any, form: str) -> str:
    gres: Mapping[str, Any] = tres.gres if tres else {}
    return ",".join(form.format(name=name, count=int(found.count)) for name, found in gres.items())
