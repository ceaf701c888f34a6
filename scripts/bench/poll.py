"""Processor time that a look at Slurm costs radd, its commands included, with a long queue."""

from __future__ import annotations

import os
import time
from pathlib import Path

from scripts.bench.common import Table, cluster, note, script, submit
from scripts.devcluster import Cluster, processes

CLIENTS = 4
POLL_S = 5.0
LOOKS = 6
TICKS = os.sysconf("SC_CLK_TCK")


def run(count: int) -> Table:
    """Measure."""
    with cluster(rad=True, poll_s=POLL_S) as target:
        rows = [_row(target, 0)]
        text = script("#RAD memory=140G\n", "sleep 100000")
        for waiting in (count // 10, count):
            have = int(rows[-1][0].replace(",", ""))
            note(f"filling the queue up to {waiting} jobs")
            seconds = submit(target, [text] * (waiting - have), CLIENTS)
            note(f"{(waiting - have) / seconds:.0f} submits a second")
            rows.append(_row(target, waiting))
        return Table(
            f"One look of radd at Slurm, the mean of {LOOKS}",
            ("jobs in the queue", "CPU s of radd", "CPU s of its commands", "together"),
            rows,
        )


def _row(target: Cluster, queued: int) -> list[str]:
    own, children = _cpu(target)
    time.sleep(LOOKS * POLL_S)
    own_after, children_after = _cpu(target)
    mine, theirs = (own_after - own) / LOOKS, (children_after - children) / LOOKS
    return [f"{queued:,}", f"{mine:.3f}", f"{theirs:.3f}", f"{mine + theirs:.3f}"]


def _cpu(target: Cluster) -> tuple[float, float]:
    """Processor seconds of radd and of its children that have ended."""
    pid = processes.running(target.layout.directory, "radd")
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    user, system, children_user, children_system = (int(field) / TICKS for field in fields[11:15])
    return user + system, children_user + children_system
