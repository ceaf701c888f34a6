"""`radctl report` and `radctl explain`: read jobs back from Slurm. Asks `sacct` and `squeue`, writes stdout."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import re
import time
from datetime import datetime
from pathlib import Path
from typing import get_args

import click

from slurm_hooks import report as reporting
from slurm_hooks.amounts import gib
from slurm_hooks.explain import explain as story
from slurm_hooks.radctl.main import at_most_one
from slurm_hooks.radctl.options import CSV, JSON, examples
from slurm_hooks.radctl.times import UNTIL, since_option, span
from slurm_hooks.report import By, Job, Report, Row
from slurm_hooks.report_html import page
from slurm_hooks.slurm.accounting import SlurmAccounting
from slurm_hooks.slurm.commands import SlurmError

MAX_NEIGHBOURS = 8
_NAME_WIDTH = 9  # of a table's names, where the terminal is too narrow for more
_ANY_WIDTH = 10_000


class JobError(ValueError):
    """A job that cannot be told of; the message says why."""


@click.command(
    epilog=examples(
        "radctl report --user alice --since 30d",
        "radctl report --by account --since 2026-01-01 --until 2026-02-01",
        "radctl report --by time --html page.html",
    )
)
@since_option("7d")
@UNTIL
@click.option("--by", type=click.Choice(get_args(By)), default="user", show_default=True, help="What a row is.")
@click.option("--user", default="", help="Only this user's jobs.")
@JSON
@CSV
@click.option(
    "--html",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write a page to FILE, or print it.",
)
def report(*, since: str, until: str, by: By, user: str, as_json: bool, as_csv: bool, html: str | None) -> None:
    """Tell what sharing did: jobs, GPU-hours saved, memory."""
    at_most_one(json=as_json, csv=as_csv, html=html is not None)
    now = int(time.time())
    first, last = span(since, until, now)
    gc.disable()  # nothing of many jobs is garbage, and to look for some takes a third of the time
    click.get_current_context().call_on_close(gc.enable)
    runs = SlurmAccounting().runs(first, last, user, live=True, later=True)
    jobs = reporting.within(reporting.jobs_of(runs), first, last)
    made = reporting.make(jobs, first, last, by)
    if html is not None:
        _html(page(made, jobs, now), html)
    elif as_json:
        click.echo(json.dumps(dataclasses.asdict(made), indent=2))
    elif as_csv:
        click.echo(reporting.as_csv(made), nl=False)
    else:
        _table(made)


@click.command(
    epilog=examples(
        "radctl explain 4711",
        "radctl explain 4711_3     a task of an array",
        "radctl explain 4711+1     a part of a heterogeneous job",
    )
)
@click.argument("job_id")
def explain(job_id: str) -> None:
    """Tell one job's story: asked, estimated, decided, run."""
    accounting = SlurmAccounting()
    # Of several jobs that had one number the last one is meant.
    jobs = list({job.last.job_id: job for job in reporting.put_together(accounting.runs_of(job_id))}.values())
    if not jobs:
        raise JobError(f"job {job_id}: neither slurmdbd nor slurmctld knows it")
    jobs = [job for job in jobs if job.last.shown_id == job_id] or jobs  # a number that an array had before
    if len(jobs) > 1:
        shown = sorted(job.last.shown_id for job in jobs)
        # Tasks that wait are shown as one, 4711_[2-9%4]: the first of them stands for all.
        names = ", ".join(re.sub(r"_\[(\d+).*", r"_\1", name) for name in shown[:5])
        raise JobError(f"job {job_id} has several tasks or parts: name one of them: {names}")
    job = jobs[0]
    residents = [number for number in job.record.residents if number > 0] if job.record is not None else []
    neighbours: dict[int, Job] = {}
    for number in residents[:MAX_NEIGHBOURS]:
        # A neighbour that Slurm has forgotten, or will not tell of, is told by its number alone.
        with contextlib.suppress(SlurmError):
            found = reporting.put_together(accounting.runs_of(str(number)))
            neighbours.update((match.last.job_id, match) for match in found if match.last.job_id == number)
    click.echo(story(job, neighbours, int(time.time())))


def _html(text: str, target: str) -> None:
    if target == "-":
        click.echo(text, nl=False)
    else:
        Path(target).write_text(text, encoding="utf-8")
        click.echo(f"wrote {target}")


def _table(made: Report) -> None:
    # Imported here: rich costs as much time as the rest of the command.
    from rich import box  # noqa: PLC0415
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    begin, end = (datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M") for at in (made.since, made.until))
    click.echo(f"GPU sharing from {begin} to {end}, by {made.by}")
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0), pad_edge=False)
    table.add_column(made.by, overflow="fold")  # the only column that gives way: numbers are never cut
    for name in ("jobs", "shared", "whole", "other", *(f"GPU h\n{word}" for word in ("asked", "held", "saved"))):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("GiB\nest.", "GiB\nused", "OOM", "ended\nwell"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = [*made.rows, made.total] if made.rows else []
    for row in rows:
        last = row is made.total
        table.add_row(*map(Text, _cells(row)), style="bold" if last else "", end_section=row is made.rows[-1])
    console = Console(highlight=False)
    whole = console.measure(table, options=console.options.update_width(_ANY_WIDTH)).maximum
    spare = max((cell_len(row.group) - _NAME_WIDTH for row in rows), default=0)
    console.width = max(console.width, whole - max(0, spare))
    console.print(table)
    if not rows:
        click.echo("no job asked for a GPU in that time")


def _cells(row: Row) -> list[str]:
    return [
        row.group or "-",
        *(str(n) for n in (row.jobs, row.shared, row.exclusive, row.left_alone + row.unseen)),
        *(f"{round(hours, 2) + 0.0:.2f}" for hours in (row.gpu_hours_asked, row.gpu_hours_held, row.gpu_hours_saved)),
        gib(row.estimated_mib),
        gib(row.used_mib),
        str(row.ooms),
        f"{row.oom_finished}/{row.oom_finished + row.oom_failed + row.oom_open}" if row.ooms else "-",
    ]


COMMANDS = [explain, report]
