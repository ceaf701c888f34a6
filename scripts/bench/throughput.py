"""Submits a second from four clients, without RAD, with its job_submit.lua, and with its cli_filter.lua too, in turn.

Everything runs on this machine: where its cores are busy, what counts is processor time, sbatch's included.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scripts.bench.common import Table, cluster, inline_summary, note, script, submit
from scripts.devcluster import Cluster

CLIENTS = 4
ROUNDS = 10


@dataclass
class _Way:
    """A cluster, the environment of its clients, and what their submits took."""

    name: str
    target: Cluster
    env: Mapping[str, str]
    seconds: float = 0.0
    cpu_s: float = 0.0  # of the clients
    calls: int = 0
    inside_us: int = 0  # in slurmctld

    def submit(self, scripts: list[str]) -> None:
        calls, inside, cpu = *_rpc(self.target), _children_s()
        self.seconds += submit(self.target, scripts, CLIENTS, "--hold", env=self.env)
        calls_after, inside_after = _rpc(self.target)
        self.cpu_s += _children_s() - cpu
        self.calls += calls_after - calls
        self.inside_us += inside_after - inside


def run(count: int) -> Table:
    """Measure."""
    cases: tuple[tuple[str, Callable[[int], str]], ...] = (
        ("no #RAD line", lambda _: script("")),
        ("#RAD memory=12G", lambda _: script("#RAD memory=12G\n")),
        ("#RAD, 100 layers, the same", lambda _: script(inline_summary(0))),
        ("#RAD, 100 layers, each new", lambda n: script(inline_summary(n))),
    )
    each = count // ROUNDS
    with cluster(rad=False) as plain, cluster(rad=True) as rad:
        rows = []
        for name, text_of in cases:
            ways = [
                _Way("without RAD", plain, {}),
                _Way("job_submit.lua", rad, _without_filter(rad)),
                _Way("and cli_filter.lua", rad, {}),
            ]
            for number in range(ROUNDS):
                note(f"{name}: round {number + 1} of {ROUNDS}")
                for place in range(len(ways)):  # in turn, and each the first as often as the others
                    scripts = [text_of(number * each + n) for n in range(each)]
                    ways[(number + place) % len(ways)].submit(scripts)
            rows += [_row(name, way, ways[0], each * ROUNDS) for way in ways]
        return Table(
            f"Submits from {CLIENTS} clients, {ROUNDS} rounds in turn",
            ("script", "cluster", "submits", "per second", "change", "us in slurmctld", "CPU ms of a sbatch"),
            rows,
        )


def _row(name: str, way: _Way, first: _Way, count: int) -> list[str]:
    return [
        name,
        way.name,
        str(count),
        f"{count / way.seconds:.0f}",
        f"{100 * (first.seconds / way.seconds - 1):+.1f} %",
        f"{way.inside_us / max(1, way.calls):.0f}",
        f"{1000 * way.cpu_s / count:.2f}",
    ]


def _without_filter(target: Cluster) -> dict[str, str]:
    """The environment of a client on a machine without cli_filter.lua."""
    etc = target.layout.etc
    lines = (etc / "slurm.conf").read_text(encoding="utf-8").splitlines(keepends=True)
    path = etc / "slurm-no-filter.conf"
    path.write_text("".join(line for line in lines if not line.startswith("CliFilterPlugins=")), encoding="utf-8")
    return {"SLURM_CONF": str(path)}


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _rpc(target: Cluster) -> tuple[int, int]:
    """Number and total microseconds of batch submissions, as sdiag counts them."""
    found = re.search(
        r"REQUEST_SUBMIT_BATCH_JOB\s.*count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", target.run(["sdiag"]).out
    )
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
