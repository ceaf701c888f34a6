"""Command line of the measurements: `scripts/bench/run NAME ...|all [--count N] [--compiled] [--page FILE]`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path

from scripts.bench import exchange, hooks, jobs, latency, poll, throughput
from scripts.bench.common import Table, compiled
from scripts.devcluster import ClusterError

BENCHES = {
    "latency": (latency.run, 1000, "time that RAD adds to a submit inside slurmctld"),
    "exchange": (exchange.run, 1000, "one exchange with radd, beside the least that it could take"),
    "throughput": (throughput.run, 2000, "submits a second from four clients, with and without RAD"),
    "jobs": (jobs.run, 300, "jobs through Prolog and Epilog: nodes, states, records"),
    "hooks": (hooks.run, 50, "what Prolog, TaskProlog and Epilog take"),
    "poll": (poll.run, 10_000, "processor time of radd's look at a long queue"),
}
PAGE = """# What RAD costs Slurm

Made by `scripts/bench/run {which}` on {date}: {cores} cores, Python {python}, load {load:.1f}
when it began. Slurm, its clients, its database and radd share these cores: what one of them takes, the others lack.
GPUs are stand-in devices; the estimator runs {build}.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one measurement, or all; returns the exit status."""
    listed = "\n".join(f"  {name:11} {text} (--count {count})" for name, (_, count, text) in BENCHES.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench/run", description=listed, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="+", choices=[*BENCHES, "all"])
    parser.add_argument("--count", type=int, help="submits, jobs or runs, in place of the default")
    parser.add_argument(
        "--compiled", action="store_true", help="with the estimator compiled (needs mypy, a C compiler)"
    )
    parser.add_argument("--page", type=Path, help="write the tables as a page too")
    args = parser.parse_args(arguments)
    option = ["--compiled"] if args.compiled else []
    page = PAGE.format(
        which=" ".join([*args.which, *(["--count", str(args.count)] if args.count else []), *option]),
        date=datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        cores=os.cpu_count(),
        python=platform.python_version(),
        load=os.getloadavg()[0],
        build="compiled" if args.compiled else "in plain Python",
    )
    try:
        with compiled() if args.compiled else nullcontext():
            _measure(args, page)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _measure(args: argparse.Namespace, page: str) -> None:
    """Make the measurements that are asked for, print their tables, and add them to the page."""
    for name in BENCHES if "all" in args.which else args.which:
        function, count, _ = BENCHES[name]
        found: Table = function(args.count or count)
        print(found.text(), flush=True)
        page += f"\n## {found.title}\n\n`scripts/bench/run {name}`\n\n{found.markdown()}"
        if args.page:  # what is known is kept, whatever becomes of the next
            args.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
