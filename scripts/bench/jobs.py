"""Jobs through Prolog and Epilog: does a node drain, does a job get stuck, is every record in slurmdbd?"""

from __future__ import annotations

import time

from scripts.bench.common import USER, Table, cluster, note, script, submit
from scripts.devcluster import Cluster
from slurm_hooks.records import decode

DEADLINE_S = 600.0
RECORDS_DEADLINE_S = 180.0
HEALTHY = {"idle", "mixed", "allocated", "completing"}


def run(count: int) -> Table:
    """Measure."""
    with cluster(rad=True) as target:
        note(f"submitting {count} jobs")
        begin = time.monotonic()
        submit(target, [script("#RAD memory=8G\n")] * count, 4)
        submitted = time.monotonic() - begin
        bad_states: set[str] = set()

        def done() -> bool:
            # A minus after the state says that the scheduler has plans for the node.
            seen = {state.rstrip("-") for state in target.run(["sinfo", "-h", "-o", "%T"]).out.split()}
            bad_states.update(seen - HEALTHY)
            return not target.run(["squeue", "-h"]).out.strip()

        target.wait_for("all jobs have ended", done, DEADLINE_S)
        ended = time.monotonic() - begin
        complete = _records(target)
        while complete[1] < count and time.monotonic() - begin < ended + RECORDS_DEADLINE_S:
            time.sleep(1.0)
            complete = _records(target)
        recorded = time.monotonic() - begin
        return Table(
            f"{count} jobs through Prolog and Epilog on one node with {target.layout.gpus} GPUs",
            ("what", "value"),
            [
                ["submitted after, s", f"{submitted:.1f}"],
                ["all ended after, s", f"{ended:.1f}"],
                ["all records in slurmdbd after, s", f"{recorded:.1f}"],
                ["jobs a second", f"{count / ended:.1f}"],
                ["jobs completed", str(complete[0])],
                ["records with an outcome", str(complete[1])],
                ["jobs stuck", str(count - complete[0])],
                ["other node states seen", ", ".join(sorted(bad_states)) or "none"],
            ],
        )


def _records(target: Cluster) -> tuple[int, int]:
    """Completed jobs, and those of them whose record has the outcome of their run."""
    argv = ["sacct", "-X", "-n", "-P", "-u", USER, "-S", "now-1day", "-o", "State,AdminComment"]
    rows = [line.split("|") for line in target.run(argv).require().out.splitlines()]
    completed = [row for row in rows if row[0] == "COMPLETED"]
    records = [decode(row[1]) for row in completed]
    return len(completed), sum(1 for record in records if record and record.runs and record.runs[-1].outcome)
