"""Command line of the development cluster: `scripts/dev-cluster up|down|status|shell`."""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from scripts.devcluster import processes
from scripts.devcluster.cluster import Cluster
from scripts.devcluster.ending import status
from scripts.devcluster.ground import USERS
from scripts.devcluster.layout import Layout, Rad, free_base_port
from slurm_hooks import config as configuration

DEFAULT_DIRECTORY = Path("/tmp/rad-dev-cluster")  # noqa: S108  (a folder of root's, made with mode 0755)
CHECKOUT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="scripts/dev-cluster", description="A real Slurm on this machine.")
    parser.add_argument("command", choices=("up", "down", "status", "shell"))
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, help="the cluster's folder (%(default)s)")
    parser.add_argument("--nodes", type=_at_least(1), default=1, help="number of slurmds (%(default)s)")
    parser.add_argument("--gpus", type=_at_least(0), default=4, help="stand-in GPUs of each node (%(default)s)")
    parser.add_argument("--partitions", default="gpu", help="names, comma-separated (%(default)s)")
    parser.add_argument("--port", type=int, help="first port (default: one from which on enough are free)")
    parser.add_argument(
        "--rad", metavar="CONFIG", type=_readable, help="with RAD, from this rad.toml; 'default' for its defaults"
    )
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter for RAD (%(default)s)")
    parser.add_argument("--user", choices=USERS, default="alice", help="whose shell (%(default)s)")
    args = parser.parse_args(arguments)
    return status(lambda: _run(args), f"scripts/dev-cluster down{_dir(args.dir)} ends what runs")


def _dir(directory: Path) -> str:
    return "" if directory == DEFAULT_DIRECTORY else f" --dir {directory}"


def _run(args: argparse.Namespace) -> int:
    directory = args.dir.parent.resolve() / args.dir.name
    layout = Layout.load(directory)
    if args.command == "up":
        if layout is None or not processes.members(directory):
            layout = Layout(directory, args.port or free_base_port(directory, args.nodes))
        layout = dataclasses.replace(
            layout, nodes=args.nodes, gpus=args.gpus, partitions=tuple(args.partitions.split(","))
        )
    elif layout is None:
        print(f"no cluster was brought up in {directory}")
        return 0 if args.command == "down" else 1
    rad = None
    if args.rad is not None:
        rad = Rad(CHECKOUT, args.python, None if args.rad == "default" else Path(args.rad))
    elif args.command != "up" and layout.rad_toml.exists():
        rad = Rad(CHECKOUT, args.python)
    begin = time.monotonic()
    cluster = Cluster(layout, rad, lambda line: print(f"{time.monotonic() - begin:6.1f} s  {line}", flush=True))
    return _do(cluster, args.command, args.user)


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return number


def _readable(config: str) -> str:
    """The name of a rad.toml, or ``default``."""
    if config != "default":
        try:
            configuration.load(Path(config))
        except configuration.ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    return config


def _do(cluster: Cluster, command: str, user: str) -> int:
    if command == "up":
        cluster.up()
        print(f"export SLURM_CONF={cluster.layout.slurm_conf}")
    elif command == "down":
        cluster.down()
    elif command == "status":
        for name in cluster.daemons():
            print(f"{name:16} {'runs' if cluster.is_up(name) else 'does not run'}")
        print(cluster.run(["sinfo"]).out + cluster.run(["squeue"]).out, end="")
    else:
        env = {**cluster.env(), "HOME": str(cluster.home(user)), "TERM": os.environ.get("TERM", "dumb")}
        return subprocess.run(
            ["bash", "-i"], env=env, cwd=cluster.home(user), user=user, group=user, extra_groups=[], check=False
        ).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
