"""Submits a second from four clients, with and without RAD, in turn."""

from __future__ import annotations

import re
from collections.abc import Callable

from scripts.bench.common import cluster, inline_summary, note, script, submit, table
from scripts.devcluster import Cluster

CLIENTS = 4
ROUNDS = 10


def run(count: int) -> None:
    """Measure and print."""
    cases: tuple[tuple[str, Callable[[int], str]], ...] = (
        ("no #RAD line", lambda _: script("")),
        ("#RAD, 100 layers", lambda n: script(inline_summary(n))),
    )
    with cluster(rad=False) as plain, cluster(rad=True) as rad:
        rows = []
        for name, text_of in cases:
            seconds: dict[bool, list[float]] = {False: [], True: []}
            before = {False: _rpc(plain), True: _rpc(rad)}
            for number in range(ROUNDS):
                note(f"{name}: round {number + 1} of {ROUNDS}")
                # In turn, and each the first as often as the other.
                for which in (False, True) if number % 2 else (True, False):
                    target = rad if which else plain
                    scripts = [text_of(number * count + n) for n in range(count // ROUNDS)]
                    seconds[which].append(submit(target, scripts, CLIENTS, "--hold"))
            speed = {which: count // ROUNDS * ROUNDS / sum(seconds[which]) for which in seconds}
            inside = {which: _mean_us(before[which], _rpc(rad if which else plain)) for which in seconds}
            for which in (False, True):
                rows.append(
                    [
                        name,
                        "with RAD" if which else "without",
                        str(count // ROUNDS * ROUNDS),
                        f"{speed[which]:.0f}",
                        f"{100 * (speed[which] / speed[False] - 1):+.1f} %",
                        f"{inside[which]:.0f}",
                    ]
                )
        table(
            f"Submits from {CLIENTS} clients, {ROUNDS} rounds in turn",
            ("script", "cluster", "submits", "per second", "change", "us in slurmctld"),
            rows,
        )


def _rpc(target: Cluster) -> tuple[int, int]:
    """Number and total microseconds of batch submissions, as sdiag counts them."""
    found = re.search(
        r"REQUEST_SUBMIT_BATCH_JOB\s.*count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", target.run(["sdiag"]).out
    )
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _mean_us(before: tuple[int, int], after: tuple[int, int]) -> float:
    return (after[1] - before[1]) / max(1, after[0] - before[0])
