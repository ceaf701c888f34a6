"""radctl's commands around estimates of memory: make one, judge them. Reads the summaries and folders named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import click

from estimator import files
from estimator.evaluate import Score, read_cases
from estimator.evaluate import evaluate as evaluate_cases
from estimator.faketensor import FakeTensor
from estimator.methods import DEFAULT, METHODS, load_method
from estimator.parsers import parse_summary
from estimator.store import ModelError
from estimator.types import (
    KINDS,
    OPTIMIZERS,
    PRECISIONS,
    Estimate,
    Kind,
    Method,
    ModelSummary,
    Optimizer,
    Precision,
    Workload,
)
from slurm_hooks.amounts import gib
from slurm_hooks.radctl.groups import evaluate
from slurm_hooks.radctl.main import Site, say
from slurm_hooks.radctl.options import JSON, THERE, Whole, examples
from slurm_hooks.radctl.own_code import INPUT_SIZE, INPUTS, NO_TABLE, SEQ_LEN, apart, inputs_of, maker, size_of

_SHOWN = ("expected_mib", "upper_mib", "method", "family", "fingerprint", "reasons")  # of an estimate, as JSON

METHOD = click.option(
    "--method", type=click.Choice(METHODS), default=DEFAULT, show_default=True, help="What estimates."
)
MODELS_DIR = click.option(
    "--models-dir", type=THERE, help="Folder of your own models [default: where radd looks, as rad.toml says]."
)


@click.command(
    epilog=examples(
        "radctl estimate net.txt --batch-size 64",
        "radctl estimate bert.txt --batch-size 8 --seq-len 512 --precision amp --gpu a100-40gb",
        "python net.py | radctl estimate - --batch-size 64",
    )
)
@click.argument("summary", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--batch-size", type=Whole(1, 10**9), help="May be left out where the summary shows it.")
@click.option(
    "--optimizer",
    type=click.Choice(OPTIMIZERS, case_sensitive=False),
    default="adam",
    show_default=True,
    help="Of the training.",
)
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS, case_sensitive=False),
    default="fp32",
    show_default=True,
    help="amp: autocast.",
)
@INPUT_SIZE
@SEQ_LEN
@click.option("--kind", type=click.Choice(KINDS), default="train", show_default=True, help="infer: without gradients.")
@click.option("--gpu", default="h200", show_default=True, help="Model of the GPU, as gpu_model of rad.toml.")
@click.option("--model", "code", metavar="MODULE:FACTORY", help="The model's code: what faketensor runs.")
@INPUTS
@METHOD
@MODELS_DIR
@JSON
@click.pass_obj
def estimate(
    site: Site,
    *,
    summary: Path,
    code: str | None,
    fed: str | None,
    batch_size: int | None,
    input_size: str | None,
    optimizer: str,
    precision: str,
    seq_len: int | None,
    kind: str,
    gpu: str,
    method: str,
    models_dir: Path | None,
    as_json: bool,
) -> None:
    """Estimate the GPU memory of a model from its SUMMARY.

    SUMMARY is a file, or - for standard input.
    """
    if code is not None and method != "faketensor":
        raise click.UsageError(f"--model is what --method faketensor runs; {method} reads the summary alone")
    if fed is not None and code is None:
        raise click.UsageError("--inputs feeds the model's code: add --model MODULE:FACTORY")
    parsed = parse_summary(_summary(summary))
    batch_size = batch_size or parsed.batch_size
    if batch_size is None:
        raise click.UsageError("the summary does not tell the batch size: add --batch-size 64, say")
    workload = Workload(
        batch_size,
        seq_len,
        cast("Optimizer", optimizer),
        cast("Precision", precision),
        cast("Kind", kind),
        gpu,
        input_size=size_of(input_size),
    )
    if code is None:
        found = _load(site, method, models_dir).predict(parsed, workload)
    else:
        found = _run(code, fed, parsed, workload)
    if as_json:
        click.echo(json.dumps({name: getattr(found, name) for name in _SHOWN}))
        return
    click.echo(
        f"{gib(found.expected_mib)} GiB expected, {gib(found.upper_mib)} GiB upper ({found.method}, {found.family})"
    )
    for reason in found.reasons:
        click.echo(f"  {reason}")


def _summary(path: Path) -> str:
    if str(path) == "-":
        if sys.stdin is None:
            raise files.FileRefusedError("stdin: closed")
        with click.open_file("-", "rb") as stream:
            return files.text_of(stream, files.MAX_SUMMARY_BYTES, "stdin")
    return files.read_text(path, files.MAX_SUMMARY_BYTES)


def _run(code: str, fed: str | None, parsed: ModelSummary, workload: Workload) -> Estimate:
    """Let faketensor run the user's own code."""
    if fed is None and workload.input_size is None and workload.seq_len is None:
        raise click.UsageError(
            "faketensor must know what goes into the model: add --input-size 3x224x224, --seq-len or --inputs"
        )
    with apart(code, NO_TABLE):
        model = FakeTensor(maker(code), inputs_of(fed, workload.input_size, workload.seq_len))
        return model.predict(parsed, workload)


def _load(site: Site, method: str, models_dir: Path | None) -> Method:
    """The method with the folder's model, or with the one that radd has: the site's, or what comes with RAD."""
    try:
        if models_dir is not None:
            return load_method(method, models_dir)
        try:
            return load_method(method, Path(site.load().estimator.models_dir))
        except ModelError as error:
            say(f"radctl: {error}; the model that comes with RAD answers instead", err=True)
            return load_method(method)
    except ImportError as error:
        raise click.ClickException(str(error)) from None


def score_json(method: str, score: Score) -> dict[str, Any]:
    """Make the answer of `radctl evaluate memory --json`."""
    errors = score.errors
    return {
        "method": method,
        "n": errors.n,
        "failed": score.failed,
        "under_rate": round(errors.under_rate, 6),
        "median_abs_rel_error": round(errors.median_abs_rel_error, 6),
        "p90_abs_rel_error": round(errors.p90_abs_rel_error, 6),
        "mean_over_mib": round(errors.mean_over_mib, 3),
        "mean_over_fraction": round(errors.mean_over_fraction, 6),
        "cases": [
            {
                "file": outcome.case.file,
                "batch_size": outcome.case.workload.batch_size,
                "gpu_memory_mib": outcome.case.memory_mib,
                "expected_mib": outcome.expected_mib,
                "upper_mib": outcome.upper_mib,
                "family": outcome.family,
                "error": outcome.error,
            }
            for outcome in score.outcomes
        ],
    }


@evaluate.command("memory", epilog=examples("radctl evaluate memory --cases cases"))
@click.option("--cases", type=THERE, required=True, help="Folder with labels.csv and the summaries that it names.")
@METHOD
@MODELS_DIR
@JSON
@click.pass_obj
def evaluate_memory(site: Site, *, cases: Path, method: str, models_dir: Path | None, as_json: bool) -> None:
    """Compare estimates with measured memory."""
    score = evaluate_cases(read_cases(cases), _load(site, method, models_dir))
    if as_json:
        click.echo(json.dumps(score_json(method, score)))
        return
    for outcome in score.outcomes:
        case = outcome.case
        if outcome.expected_mib is None or outcome.upper_mib is None:
            say(f"  {case.file}: {outcome.error}")
            continue
        say(
            f"  {case.file}, batch {case.workload.batch_size}: measured {case.memory_mib:.0f}, "
            f"expected {outcome.expected_mib}, upper {outcome.upper_mib} MiB"
        )
    errors = score.errors
    click.echo(
        f"{method}: {errors.n} cases, {score.failed} not answered; upper too low in {errors.under_rate:.1%}; "
        f"median error of expected {errors.median_abs_rel_error:.1%}; "
        f"upper over by {errors.mean_over_mib:.0f} MiB ({errors.mean_over_fraction:.1%}) on average"
    )


COMMANDS: list[click.Command] = [estimate, evaluate]
