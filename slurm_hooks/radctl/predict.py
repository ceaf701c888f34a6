"""radctl's commands around the predictor: profile a workload, judge a model, fit it again.

Reads the files that the user names, runs the command that the user gives, writes where the user says.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import click

from estimator import files
from predictor import load_predictor
from predictor.artifact import ArtifactError, Colocation
from predictor.counters import nvml_counters
from predictor.evaluation import NAMES
from predictor.evaluation import evaluate as evaluate_files
from predictor.profile_files import dumps
from predictor.profiling import Kernels, Request, profile_command
from predictor.training import (
    TRAINERS,
    SideErrors,
    families_left_out,
    load_groups,
    load_measured,
    weights_text,
)
from predictor.types import WeightsError
from slurm_hooks.radctl.groups import OWN_MODELS, evaluate, retrain
from slurm_hooks.radctl.main import Site
from slurm_hooks.radctl.options import FILE, JSON, NEW_FILE, Number, Whole, examples

LEAST_COLOCATIONS = 30  # a judgement: a handful says little of which weights are better


@evaluate.command(
    "interference", epilog=examples("radctl evaluate interference --train training.csv --test testing.csv")
)
@click.option("--train", type=FILE, required=True, help="Measured colocations to fit to (CSV).")
@click.option("--test", type=FILE, required=True, help="Measured colocations to be judged on (CSV).")
@click.option("--model", type=click.Choice(NAMES), default="rad", show_default=True, help="What chooses.")
@JSON
def evaluate_interference(train: Path, test: Path, model: str, as_json: bool) -> None:
    """Judge how well a model chooses a job's neighbours.

    Told is what part of the best possible throughput sum its choices reach.
    """
    result = evaluate_files(train, test, model)
    r2 = None if math.isnan(result.r2) else round(result.r2, 6)
    if as_json:
        answer = {"model": model, "n_targets": result.n_targets}
        click.echo(json.dumps({**answer, "oracle_fraction": round(result.oracle_fraction, 6), "r2": r2}))
        return
    fit = "predicts no sums" if r2 is None else f"R2 {r2:.3f}"
    click.echo(f"{model}: {result.oracle_fraction:.3f} of the oracle over {result.n_targets} targets, {fit}")


@retrain.command("interference", epilog=examples("radctl retrain interference --data measurements"))
@click.option(
    "--data",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="Folder of measurements (scripts/collect_interference finish), or a CSV in the artifact's columns.",
)
@click.option("--model", type=click.Choice(list(TRAINERS)), default="rad", show_default=True, help="What is fitted.")
@OWN_MODELS
@JSON
@click.pass_obj
def retrain_interference(site: Site, *, data: Path, model: str, models_dir: Path | None, as_json: bool) -> None:
    """Fit the predictor to measured colocations.

    It is installed only if it is no worse than the installed one on families of models that are left out. Fewer than 30
    colocations are refused: so few say little of which is better.
    """
    models_dir = models_dir or Path(site.load().predictor.models_dir)
    colocations = load_measured(data)
    if len(colocations) < LEAST_COLOCATIONS:
        told = f"{len(colocations)} colocations are too few to compare by: measure {LEAST_COLOCATIONS} or more"
        raise ArtifactError(f"{data}: {told}")
    files.make_room(models_dir)  # all that follows takes minutes
    fresh, _ = families_left_out(colocations, TRAINERS[model])
    path, text = models_dir / f"{model}.json", ""
    while True:
        seen = _stamp(path)
        installed = _installed(model, models_dir, colocations)
        better = installed is None or fresh.mean_abs <= installed.mean_abs
        if better and not text:
            note = f"{len(colocations)} colocations; mean absolute error on families left out {fresh.mean_abs:.4f}"
            text = weights_text(model, colocations, note, load_groups(data))
        if not better or _stamp(path) == seen:
            break
        click.echo("radctl: other weights were installed meanwhile: comparing with those", err=True)
    if better:
        _install(path, text)
    answer = {
        "model": model,
        "colocations": len(colocations),
        "new": asdict(fresh),
        "installed": None if installed is None else asdict(installed),
        "replaced": better,
    }
    if as_json:
        click.echo(json.dumps(answer))
        return
    was = "none" if installed is None else f"{installed.mean_abs:.3f}"
    click.echo(
        f"{model}: mean absolute error of a side's progress {fresh.mean_abs:.3f} on families left out "
        f"(installed: {was}): {'installed the new one' if better else 'kept the installed one'}"
    )


def _installed(model: str, models_dir: Path, colocations: Sequence[Colocation]) -> SideErrors | None:
    """Judge what is installed; None where it cannot be used."""
    try:
        known = load_predictor(model, models_dir)
    except WeightsError as error:
        click.echo(f"radctl: {error}; there is nothing to compare with", err=True)
        return None
    # A pair of two families is left out twice: so it counts on both sides of the comparison.
    return families_left_out(colocations, lambda _: known)[0]


def _stamp(path: Path) -> tuple[int, int] | None:
    """Tell what changes when another file is put there; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _install(path: Path, text: str) -> None:
    """Put a file in place at once, so that a reader sees the old one or the new one."""
    with files.for_all_to_read():
        path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(handle, 0o644)  # not by its name: the folder may be another user's
        Path(name).replace(path)
    except OSError as error:
        error.filename = error.filename or str(path)  # of a full disk none is named
        raise
    finally:
        Path(name).unlink(missing_ok=True)


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "radctl profile --output net.json python train.py",
        'radctl profile --marker "^step" --seconds 10 python -u train.py',
    ),
)
@click.option("--output", type=NEW_FILE, help="File for the profile [default: standard output].")
@click.option("--seconds", type=Number(1, 600), default=20.0, show_default=True, help="Measured time.")
@click.option("--warm-up", type=Number(0, 3600), default=60.0, show_default=True, help="Longest wait before it.")
@click.option("--marker", help="Regular expression; each line of output in which it is found is one iteration.")
@click.option(
    "--kernels",
    type=click.Choice(["none", "torch", "ncu"]),
    default="none",
    show_default=True,
    help="Who looks at kernels.",
)
@click.option("--gpu", type=Whole(0), default=0, show_default=True, help="NVML index of the GPU.")
@click.option("--name", default="", help="What the profile is called [default: the program].")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def profile(
    *,
    output: Path | None,
    seconds: float,
    warm_up: float,
    marker: str | None,
    kernels: str,
    gpu: int,
    name: str,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND alone on a GPU and write its profile.

    COMMAND calls predictor.hook.iteration() once an iteration, or prints a line that --marker finds. It is ended when
    the measured time is over.
    """
    request = Request(
        command, seconds=seconds, warm_up_s=warm_up, kernels=cast("Kernels", kernels), name=name
    ).with_marker(marker)
    with nvml_counters(gpu) as counters:
        found = profile_command(request, counters, say=lambda text: click.echo(f"radctl: {text}", err=True))
    if output is None:
        click.echo(dumps(found), nl=False)
    else:
        _install(output, dumps(found))
        click.echo(f"radctl: profile of {found.name} in {output}", err=True)


COMMANDS: list[click.Command] = [evaluate, retrain, profile]
