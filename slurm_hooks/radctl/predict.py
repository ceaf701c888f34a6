"""radctl's commands around the predictor: profile a workload, judge a model, fit it again.

Reads the files that the user names, runs the command that the user gives, writes where the user says.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import click

from predictor.evaluation import NAMES
from predictor.evaluation import evaluate as evaluate_files
from slurm_hooks.radctl.groups import evaluate

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@evaluate.command("interference")
@click.option("--train", type=FILE, required=True, help="Measured colocations to fit to (CSV).")
@click.option("--test", type=FILE, required=True, help="Measured colocations to be judged on (CSV).")
@click.option("--model", type=click.Choice(NAMES), default="rad", show_default=True, help="What chooses.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate_interference(train: Path, test: Path, model: str, as_json: bool) -> None:
    """Fraction of the best possible throughput sum that a model's choice of neighbours reaches."""
    result = evaluate_files(train, test, model)
    r2 = None if math.isnan(result.r2) else round(result.r2, 6)
    if as_json:
        answer = {"model": model, "n_targets": result.n_targets}
        click.echo(json.dumps({**answer, "oracle_fraction": round(result.oracle_fraction, 6), "r2": r2}))
        return
    fit = "predicts no sums" if r2 is None else f"R2 {r2:.3f}"
    click.echo(f"{model}: {result.oracle_fraction:.3f} of the oracle over {result.n_targets} targets, {fit}")


COMMANDS: list[click.Command] = [evaluate]
