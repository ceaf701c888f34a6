"""Command line of the measurements: `scripts/bench/run latency|throughput|jobs|poll|all [--count N]`."""

from __future__ import annotations

import argparse
import sys

from scripts.bench import jobs, latency, poll, throughput
from scripts.devcluster import ClusterError

BENCHES = {
    "latency": (latency.run, 1000, "time that RAD adds to a submit inside slurmctld"),
    "throughput": (throughput.run, 2000, "submits a second from four clients, with and without RAD"),
    "jobs": (jobs.run, 300, "jobs through Prolog and Epilog: nodes, states, records"),
    "poll": (poll.run, 10_000, "processor time of radd's look at a long queue"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one measurement, or all; returns the exit status."""
    listed = "\n".join(f"  {name:11} {text} (--count {count})" for name, (_, count, text) in BENCHES.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench/run", description=listed, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", choices=[*BENCHES, "all"])
    parser.add_argument("--count", type=int, help="submits or jobs, in place of the default")
    args = parser.parse_args(arguments)
    try:
        for name in BENCHES if args.which == "all" else [args.which]:
            function, count, _ = BENCHES[name]
            function(args.count or count)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
