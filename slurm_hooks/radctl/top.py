"""`radctl top`: GPUs, residents and shares, live. Asks Slurm and the monitors again and again, writes the terminal."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slurm_hooks import top as view_of
from slurm_hooks.cluster import ClusterView
from slurm_hooks.config import Config
from slurm_hooks.monitor import client
from slurm_hooks.radctl.main import Site
from slurm_hooks.radctl.options import JSON, Number, examples
from slurm_hooks.slurm.commands import SlurmCommands, SlurmError
from slurm_hooks.top import Line

WIDE = 100  # columns from which on bars have their full length
_NARROWEST = 80  # columns that a table gets where it may run over the terminal's edge


class PartitionError(ValueError):
    """A partition that Slurm does not have; the message says which it has."""


@click.command(epilog=examples("radctl top --partition gpu", "radctl top --once"))
@click.option("--partition", default="", help="Only this partition's GPUs.")
@click.option("--interval", type=Number(1, 3600), default=5, show_default=True, help="Seconds between looks.")
@click.option("--once", is_flag=True, help="Look once and end.")
@JSON
@click.pass_obj
def top(site: Site, partition: str, interval: float, once: bool, as_json: bool) -> None:
    """Show GPUs, the jobs on them and their shares, live.

    Ctrl-C ends it. Where there is no terminal, and with --json, it looks once.
    """
    config = site.load()
    slurm = SlurmCommands(config.radd.command_timeout_s)
    served = (partition,) if partition else tuple(config.partitions)
    console = Console(highlight=False)
    if as_json or once or not console.is_terminal or console.is_dumb_terminal:
        view = slurm.look(served)
        shown = _lines(view, config, partition)
        if as_json:
            click.echo(json.dumps({"gpus": list(map(dataclasses.asdict, shown)), "waiting": dict(view.waiting)}))
        else:
            console.width = max(console.width, _NARROWEST)  # names and numbers are never cut
            console.print(_screen(shown, view, console, partition))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(_look(slurm, served, config, partition, console), refresh=True)
                time.sleep(interval)
        except KeyboardInterrupt:
            sys.exit(0)


def _look(
    slurm: SlurmCommands, served: tuple[str, ...], config: Config, partition: str, console: Console
) -> Group | Text:
    """The screen now; where Slurm does not answer, why: the next look may find it again."""
    try:
        view = slurm.look(served)
    except SlurmError as error:
        return Text(f"Slurm does not answer: {error}", style="red")
    return _screen(_lines(view, config, partition), view, console, partition)


def _lines(view: ClusterView, config: Config, partition: str) -> list[Line]:
    """The GPUs, with what monitors measured where [monitor] source names them.

    Raises:
        PartitionError: if Slurm has no such partition.
    """
    if partition not in ("", *view.partitions):
        raise PartitionError(f"no partition {partition}: Slurm has {', '.join(sorted(view.partitions))}")
    seen, _ = asyncio.run(client.read(config.monitor, [node.name for node in view.nodes]))
    return view_of.lines(view, seen, partition)


def _screen(shown: list[Line], view: ClusterView, console: Console, partition: str) -> Group:
    width = view_of.BAR_WIDTH if console.width >= WIDE else view_of.BAR_WIDTH // 2
    marks = view_of.PLAIN_MARKS if console.options.ascii_only else view_of.MARKS
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("node", "GPU"):
        table.add_column(name, no_wrap=True)
    table.add_column("shares", no_wrap=True)
    for name in ("SMACT", "GiB used /\nreserved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("job, user, shares, memory", overflow="fold")
    for line in shown:
        table.add_row(
            Text(line.node, style="" if line.available else "red"),
            Text(line.gpu),
            Text(f"{view_of.bar(line.used_shares, width, marks)} {line.used_shares:>3}"),
            Text(view_of.smact(line)),
            Text(view_of.memory(line)),
            Text(view_of.residents(line)),
        )
    return Group(Text(view_of.summary(shown, view, partition)), table)


COMMANDS = [top]
