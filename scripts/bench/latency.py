"""Time that RAD adds to a submit inside slurmctld, taken by a clock around the hook itself."""

from __future__ import annotations

import re
import signal

from scripts.bench.common import cluster, inline_summary, note, percentile, script, submit, table, write
from scripts.devcluster import Cluster, ClusterError

# Put before the site's script: the hook is wrapped once more, by one that logs the microseconds that it took.
CLOCK = """
local rad, socket = require("rad"), require("socket")
local wrap = rad.wrap
rad.wrap = function(settings)
    wrap(settings)
    local inner = slurm_job_submit
    slurm_job_submit = function(job_desc, part_list, submit_uid)
        local begin = socket.gettime()
        local result = inner(job_desc, part_list, submit_uid)
        slurm.log_info("rad-bench %.1f", (socket.gettime() - begin) * 1e6)
        return result
    end
end
"""
WHILE_STOPPED = 20


def install_clock(target: Cluster) -> None:
    """Have slurmctld log how long each call of the hook takes."""
    path = target.layout.etc / "job_submit.lua"
    first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    path.write_text(f"{first}\n{CLOCK}{rest}", encoding="utf-8")
    target.stop("slurmctld")
    target.start("slurmctld")


def times(target: Cluster) -> list[float]:
    """Microseconds of all calls so far."""
    log = (target.layout.logs / "slurmctld" / "slurmctld.log").read_text(encoding="utf-8", errors="replace")
    return [float(found) for found in re.findall(r"rad-bench ([\d.]+)", log)]


def measured(target: Cluster, text: str, count: int) -> list[float]:
    """Microseconds of `count` submits, one after the other.

    Raises:
        ClusterError: if the log does not hold them.
    """
    before = len(times(target))
    submit(target, write(target, "job.sh", text), count, 1, "--hold")
    new = times(target)[before:]
    if len(new) != count:
        raise ClusterError(f"{len(new)} times in slurmctld's log for {count} submits")
    return new


def run(count: int) -> None:
    """Measure and print."""
    with cluster(rad=True) as target:
        install_clock(target)
        rows = []
        cases = (
            ("no #RAD line", script("")),
            ("no #RAD line, 100 KB script", script("", "# a long comment, after the first command\n" * 2500)),
            ("#RAD memory=12G", script("#RAD memory=12G\n")),
            ("#RAD with a summary of 100 layers, inline", script(inline_summary())),
        )
        for name, text in cases:
            note(f"{count} submits: {name}")
            measured(target, text, count // 10)  # what comes first warms caches up
            rows.append(_row(name, measured(target, text, count)))
        target.signal("radd", signal.SIGSTOP)
        try:
            hung = measured(target, script("#RAD memory=12G\n"), WHILE_STOPPED)
        finally:
            target.signal("radd", signal.SIGCONT)
        rows += [_row("radd hung: the first three", hung[:3]), _row("radd hung: those after them", hung[3:])]
        table(
            "Time in the hook inside slurmctld, in microseconds",
            ("submit", "n", "p50", "p95", "p99", "max"),
            rows,
        )


def _row(name: str, values: list[float]) -> list[str]:
    return [name, str(len(values)), *(f"{percentile(values, p):.0f}" for p in (50, 95, 99)), f"{max(values):.0f}"]
