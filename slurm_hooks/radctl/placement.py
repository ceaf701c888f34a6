"""`radctl evaluate placement`: what placements promised beside what came of them. Asks `sacct`, writes stdout."""

from __future__ import annotations

import dataclasses
import json
import time
from datetime import datetime

import click

from slurm_hooks import placement_check as checking
from slurm_hooks.placement_check import Check, Row
from slurm_hooks.radctl.groups import evaluate
from slurm_hooks.radctl.main import Site, at_most_one
from slurm_hooks.radctl.options import CSV, JSON, Whole, examples
from slurm_hooks.radctl.times import UNTIL, since_option, span
from slurm_hooks.record_text import printable
from slurm_hooks.report import jobs_of
from slurm_hooks.slurm.accounting import SlurmAccounting


@evaluate.command(
    "placement",
    epilog=examples(
        "radctl evaluate placement", "radctl evaluate placement --since 2026-01-01 --until 2026-02-01 --csv"
    ),
)
@since_option("30d")
@UNTIL
@click.option(
    "--min-seconds",
    type=Whole(1),
    default=checking.MIN_RUN_S,
    show_default=True,
    help="Shorter runs tell nothing.",
)
@JSON
@CSV
@click.pass_obj
def evaluate_placement(site: Site, *, since: str, until: str, min_seconds: int, as_json: bool, as_csv: bool) -> None:
    """Compare predicted with measured progress of jobs."""
    at_most_one(json=as_json, csv=as_csv)
    first, last = span(since, until, int(time.time()))
    least = site.load().predictor.min_progress
    jobs = jobs_of(SlurmAccounting().runs(first, last, live=True))
    made = checking.check(jobs, first, last, least, min_seconds)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(made), indent=2))
    elif as_csv:
        click.echo(checking.as_csv(made), nl=False)
    else:
        _tell(made)


def _tell(made: Check) -> None:
    begin, end = (datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M") for at in (made.since, made.until))
    click.echo(f"predicted and measured progress from {begin} to {end}, least progress wanted {made.min_progress:g}")
    if not made.sides:
        click.echo("no job was placed beside others with a prediction in that time")
        return
    _line("placement", "placed", "sides", "under", "compared", "said", "made", "error", "bias", "were under")
    for row in (*made.rows, made.total):
        _line(*_cells(row))
    if made.bins:
        click.echo("calibration")
        _line("predicted", "", "", "", "sides", "said", "made")
        for one in made.bins:
            _line(f"{one.low:.1f}-{one.high:.1f}", "", "", "", one.sides, _two(one.predicted), _two(one.measured))
    for why, count in made.not_compared.items():
        click.echo(f"not compared: {count}, {why}")
    if made.activity.error is not None:
        click.echo(
            f"SMACT given to the predictor was off by {made.activity.error:.2f} ({made.activity.jobs} runs alone)"
        )


def _cells(row: Row) -> tuple[str, ...]:
    means = (row.predicted, row.measured, row.error, row.bias)
    # Of a control character in a placement's name nothing is left: records are text that others can write.
    name = printable(row.placement[:9]) or "-"
    counts = (row.placed, row.sides, row.under, row.compared)
    return (name, *map(str, counts), *map(_two, means), str(row.measured_under))


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _line(name: str, *cells: object) -> None:
    widths = (6, 6, 6, 9, 6, 6, 6, 6, 11)
    columns = "".join(f"{cell!s:>{width}}" for cell, width in zip(cells, widths, strict=False))
    click.echo(f"{name:<10}{columns}".rstrip())


COMMANDS: list[click.Command] = [evaluate]
