"""Time that RAD adds to a submit inside slurmctld, taken by a clock around the hook itself."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

from scripts.bench.common import Table, cluster, inline_summary, note, percentile, script, submit
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
    target.wait_until_radd_sees()  # before, jobs go through as written


def times(target: Cluster) -> list[float]:
    """Microseconds of all calls so far."""
    log = (target.layout.logs / "slurmctld" / "slurmctld.log").read_text(encoding="utf-8", errors="replace")
    return [float(found) for found in re.findall(r"rad-bench ([\d.]+)", log)]


def measured(target: Cluster, text_of: Callable[[int], str], first: int, count: int) -> list[float]:
    """Microseconds of the submits of `count` scripts, one after the other, from the `first` on.

    Raises:
        ClusterError: if the log does not hold them.
    """
    before = len(times(target))
    submit(target, [text_of(first + n) for n in range(count)], 1, "--hold")
    new = times(target)[before:]
    if len(new) != count:
        raise ClusterError(f"{len(new)} times in slurmctld's log for {count} submits")
    return new


def run(count: int) -> Table:
    """Measure."""
    with cluster(rad=True) as target:
        install_clock(target)
        rows = []
        long = script("", "# a long comment, after the first command\n" * 2500)
        cases: tuple[tuple[str, Callable[[int], str]], ...] = (
            ("no #RAD line", lambda _: script("")),
            ("no #RAD line, 100 KB script", lambda _: long),
            ("#RAD memory=12G", _claim),
            ("#RAD with a summary of 100 layers, inline, the same", lambda _: script(inline_summary(0))),
            ("#RAD with a summary of 100 layers, inline, each new", lambda n: script(inline_summary(n))),
        )
        for name, text_of in cases:
            note(f"{count} submits: {name}")
            measured(target, text_of, count, count // 10)  # what comes first warms caches up
            rows.append(_row(name, measured(target, text_of, 0, count)))
        target.signal("radd", signal.SIGSTOP)
        try:
            hung = measured(target, _claim, 0, WHILE_STOPPED)
        finally:
            target.signal("radd", signal.SIGCONT)
        rows += [_row("radd hung: the first three", hung[:3]), _row("radd hung: those after them", hung[3:])]
        return Table(
            "Time in the hook inside slurmctld, in microseconds",
            ("submit", "n", "p50", "p95", "p99", "max"),
            rows,
        )


def _claim(_: int) -> str:
    return script("#RAD memory=12G\n")


def _row(name: str, values: list[float]) -> list[str]:
    return [name, str(len(values)), *(f"{percentile(values, p):.0f}" for p in (50, 95, 99)), f"{max(values):.0f}"]
