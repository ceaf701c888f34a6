"""radctl's commands around the estimator: estimate, judge, fit again, list and roll back models, print a summary.

Reads the summaries and folders that the user names; `retrain` and `models rollback` write into the models' folder.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import click

import estimator
import slurm_hooks
from estimator import files
from estimator.evaluate import Score, read_cases
from estimator.evaluate import evaluate as evaluate_cases
from estimator.faketensor import FakeTensor, Inputs, is_lazy, own_inputs, plain_inputs
from estimator.input_size import InputSizeError, read
from estimator.methods import DEFAULT, METHODS, load_method
from estimator.parsers import parse_summary
from estimator.store import SHIPPED, ModelError, Store, store_for
from estimator.summarize import summary_of, table_of
from estimator.types import (
    KINDS,
    OPTIMIZERS,
    PRECISIONS,
    Estimate,
    Kind,
    ModelSummary,
    Optimizer,
    Precision,
    Workload,
)
from slurm_hooks.radctl.groups import Group, Whole, evaluate, retrain
from slurm_hooks.radctl.main import Site

_LEARNED = ("rad", "gpumemnet")
_NO_MODEL = "name a function without arguments that returns the model, in a module that does nothing when imported"
_NO_TABLE = (
    "is what goes in as --input-size, --seq-len or --inputs says? A model that takes more than one thing is fed by the "
    "last; one that looks at values can be printed without these options, or by torchinfo in your own program"
)
_NO_INPUTS = (
    "name a function that takes a batch size and returns what the model takes: a tensor, a tuple of arguments, or a "
    "dict of named ones"
)
_NO_PRINT = "print(model) of your own program makes a summary too, or torchinfo in it"
_LAZY = (
    "lazy layers know their sizes once something has gone in: add --input-size 3x224x224, --seq-len 512 or --inputs, "
    "or let the factory call the model once"
)
_NO_GPU = "radctl runs this code without a GPU: let it make its tensors on the device of its input or its parameters"
_RELATIVE = "name the module with its package, from the folder that holds that: package.module:factory"
_WANTS_GPU = re.compile(r"cuda|nvidia", re.IGNORECASE)
# Where code lies that is not the user's own: what calls it, what it calls, and what is no file.
_NOT_OWN = (
    *(str(Path(module.__file__ or "").parent) for module in (estimator, slurm_hooks, click)),
    *site.getsitepackages(),
    site.getusersitepackages(),
    sysconfig.get_path("stdlib"),
)
_ELSEWHERE = ("<", *(f"{folder}{os.sep}" for folder in _NOT_OWN))
_MOST = 300  # characters of an error that are shown
_FOLDER = click.Path(file_okay=False, path_type=Path)

INPUTS = click.option(
    "--inputs", "fed", metavar="MODULE:FUNCTION", help="Makes what goes into the model's code, of a batch size."
)
METHOD = click.option(
    "--method", type=click.Choice(METHODS), default=DEFAULT, show_default=True, help="What estimates."
)
MODELS_DIR = click.option(
    "--models-dir",
    type=_FOLDER,
    help="Folder of learned models (default: those that come with RAD).",
)
OWN_MODELS = click.option(
    "--models-dir",
    type=_FOLDER,
    help="Folder of your own models [default: models_dir of rad.toml's estimator, where radd looks].",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command()
@click.argument("summary", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--batch-size", type=Whole(1, 10**9), help="May be left out where the summary shows it.")
@click.option("--optimizer", type=click.Choice(OPTIMIZERS, case_sensitive=False), default="adam", show_default=True)
@click.option("--precision", type=click.Choice(PRECISIONS, case_sensitive=False), default="fp32", show_default=True)
@click.option("--input-size", metavar="3x224x224", help="One sample, where the summary does not show it.")
@click.option("--seq-len", type=Whole(1, 10**8), help="Tokens of one sample.")
@click.option("--kind", type=click.Choice(KINDS), default="train", show_default=True)
@click.option("--gpu", default="h200", show_default=True, help="Model of the GPU, as gpu_model of rad.toml.")
@click.option("--model", "code", metavar="MODULE:FACTORY", help="The model's code: what faketensor runs.")
@INPUTS
@METHOD
@MODELS_DIR
@JSON
def estimate(
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
    """Estimate the GPU memory of a model from its SUMMARY (a file, or - for stdin)."""
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
        input_size=_size(input_size),
    )
    found = _load(method, models_dir).predict(parsed, workload) if code is None else _run(code, fed, parsed, workload)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "expected_mib": found.expected_mib,
                    "upper_mib": found.upper_mib,
                    "method": found.method,
                    "family": found.family,
                    "fingerprint": found.fingerprint,
                    "reasons": list(found.reasons),
                }
            )
        )
        return
    click.echo(
        f"{found.expected_mib / 1024:.1f} GiB expected, {found.upper_mib / 1024:.1f} GiB upper "
        f"({found.method}, {found.family})"
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
    with _apart(code, _NO_TABLE):
        model = FakeTensor(_maker(code), _inputs(fed, workload.input_size, workload.seq_len))
        return model.predict(parsed, workload)


def _load(method: str, models_dir: Path | None) -> Any:
    try:
        return load_method(method, models_dir)
    except ImportError as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def _apart(place: str, cure: str) -> Iterator[None]:
    """Run a user's own code: what it and programs that it starts print is no answer, and our options are none of its.

    They print to the standard error. What it raises becomes a message, with this cure.
    """
    given, out = sys.argv, os.dup(1)
    sys.argv = [place.partition(":")[0]]
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    except click.ClickException:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(place, error, cure) from error
    finally:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        os.dup2(out, 1)
        os.close(out)
        sys.argv = given


def _factory(place: str) -> Any:
    """Import MODULE:FACTORY from the working directory or the path."""
    module_name, colon, factory_name = place.partition(":")
    parts = module_name.split(".")
    if not colon or not factory_name or parts[-1] == "py" or not all(part.isidentifier() for part in parts):
        named = ".".join(part for part in module_name.removesuffix(".py").split("/") if part.strip("."))
        is_path = "/" in module_name or parts[-1] == "py"
        example = f"{named}:{factory_name}" if is_path else "torchvision.models:resnet50"
        raise click.UsageError(f"expected MODULE:FACTORY as in an import, for example {example}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
        if not hasattr(module, factory_name) and _is_hidden(module, parts[0]):
            raise _hidden(place, parts[0])
        return getattr(module, factory_name)
    except click.ClickException:
        raise
    except AttributeError as error:
        raise click.ClickException(f"{place} cannot be loaded: {error}") from None
    except ImportError as error:
        hides = sys.modules.get(parts[0])
        if (error.name or "").startswith(f"{parts[0]}.") and hides is not None and _is_hidden(hides, parts[0]):
            raise _hidden(place, parts[0]) from None
        cure = "install that for radctl, or let your own program print(model), which makes a summary too"
        if "attempted relative import" in str(error):
            cure = _RELATIVE
        raise click.ClickException(f"{place} cannot be loaded: {error}; {cure}") from None
    except (Exception, SystemExit) as error:
        raise _failed(place, error) from error


def _hidden(place: str, name: str) -> click.ClickException:
    why = f"RAD or Python has a module {name} of its own; give your file or folder another name"
    return click.ClickException(f"{place} cannot be loaded: {why}")


def _is_hidden(module: ModuleType, name: str) -> bool:
    """Tell whether the working directory has such a module, too, that was not imported."""
    here = Path.cwd()
    taken = Path(module.__file__ or "/").resolve()
    return any((here / own).exists() for own in (name, f"{name}.py")) and not taken.is_relative_to(here.resolve())


def _maker(place: str) -> Callable[[], Any]:
    """Return what makes the model of MODULE:FACTORY, which may be that model itself."""
    found = _factory(place)
    if hasattr(found, "named_children") and not isinstance(found, type):
        return partial(_model, place, lambda: found)
    if not callable(found):
        raise click.ClickException(f"{place} is no function and no torch.nn.Module, but a {type(found).__name__}")

    def make() -> Any:
        return _model(place, found)

    return make


def _model(place: str, factory: Callable[[], Any]) -> Any:
    try:
        model = factory()
    except (Exception, SystemExit) as error:
        raise _failed(place, error) from error
    if not hasattr(model, "named_children"):
        raise click.ClickException(f"{place} returns no torch.nn.Module, but a {type(model).__name__}")
    if not any(True for _ in model.parameters()):
        raise click.ClickException(f"{place} returns a model without parameters: there is nothing to train")
    return model


def _inputs(fed: str | None, size: tuple[int, ...] | None, seq_len: int | None) -> Inputs:
    """Return what makes the model's arguments: the function of MODULE:FUNCTION, or one sample's size."""
    if fed is None:
        return plain_inputs(size, seq_len)
    found = _factory(fed)
    if not callable(found):
        raise click.ClickException(f"{fed} is no function, but a {type(found).__name__}; {_NO_INPUTS}")

    def make(batch: int) -> Any:
        try:
            return found(batch)
        except (Exception, SystemExit) as error:
            raise _failed(fed, error, _NO_INPUTS) from error

    return own_inputs(make)


def _failed(place: str, error: BaseException, cure: str = _NO_MODEL) -> click.ClickException:
    """Say in one line what went wrong in the user's own code, and where."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in reversed(frames) if not frame.filename.startswith(_ELSEWHERE)), frames[-1])
    # A syntax error names its file and line itself.
    where = "" if frame.filename.startswith(("<", __file__)) else f" ({Path(frame.filename).name}, line {frame.lineno})"
    said = "".join(str(error).strip().splitlines()[:1])[:_MOST]
    if _WANTS_GPU.search(said):
        cure = _NO_GPU
    return click.ClickException(f"{place} failed with {type(error).__name__}: {said}{where}; {cure}")


def _size(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else read(text)
    except InputSizeError as error:
        raise click.UsageError(f"--input-size: {error}".replace("input_size=", "--input-size ")) from None


def score_json(method: str, score: Score) -> dict[str, Any]:
    """Make the answer of `radctl evaluate memory --json`."""
    return {
        "method": method,
        "n": score.n,
        "failed": score.failed,
        "under_rate": round(score.under_rate, 6),
        "median_abs_rel_error": round(score.median_abs_rel_error, 6),
        "p90_abs_rel_error": round(score.p90_abs_rel_error, 6),
        "mean_over_mib": round(score.mean_over_mib, 3),
        "mean_over_fraction": round(score.mean_over_fraction, 6),
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


@evaluate.command("memory")
@click.option(
    "--cases",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="Folder with labels.csv and the summaries that it names.",
)
@METHOD
@MODELS_DIR
@JSON
def evaluate_memory(*, cases: Path, method: str, models_dir: Path | None, as_json: bool) -> None:
    """Compare estimates with measured memory."""
    score = evaluate_cases(read_cases(cases), _load(method, models_dir))
    if as_json:
        click.echo(json.dumps(score_json(method, score)))
        return
    for outcome in score.outcomes:
        case = outcome.case
        if outcome.expected_mib is None or outcome.upper_mib is None:
            click.echo(f"  {case.file}: {outcome.error}")
            continue
        click.echo(
            f"  {case.file}, batch {case.workload.batch_size}: measured {case.memory_mib:.0f}, "
            f"expected {outcome.expected_mib}, upper {outcome.upper_mib} MiB"
        )
    click.echo(
        f"{method}: {score.n} cases, {score.failed} not answered; upper too low in {score.under_rate:.1%}; "
        f"median error of expected {score.median_abs_rel_error:.1%}; "
        f"upper over by {score.mean_over_mib:.0f} MiB ({score.mean_over_fraction:.1%}) on average"
    )


@retrain.command("memory")
@click.option(
    "--data",
    "data_dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    help="A packed data set, or a folder of your own cases with labels.csv.",
)
@OWN_MODELS
@JSON
@click.pass_obj
def retrain_memory(site: Site, *, data_dir: Path, models_dir: Path | None, as_json: bool) -> None:
    """Fit the memory estimate to measured runs; install it only if it is no worse on models left out."""
    from estimator.methods.rad.fit.reached import ALL, DRAWN  # noqa: PLC0415 - scikit-learn takes seconds to load
    from estimator.methods.rad.retrain import retrain as fit_again  # noqa: PLC0415

    done = fit_again(data_dir, _own(site, models_dir), say=lambda text: click.echo(f"radctl: {text}", err=True))
    if as_json:
        click.echo(json.dumps({**asdict(done), "installed": done.version is not None}))
        return
    was = "none" if done.old is None else f"{done.old.median_abs_rel_error:.1%}, {done.old.under_rate:.1%} too low"
    what = "kept the installed one" if done.version is None else f"installed version {done.version}"
    click.echo(
        f"rad: median error {done.new.median_abs_rel_error:.1%}, upper too low in {done.new.under_rate:.1%} of "
        f"{done.new.n} held-out summaries (installed: {was}): {what}"
    )
    for way, parts in done.left_out.ways.items():
        for name in (name for name in (DRAWN, ALL) if name in parts):
            click.echo(
                f"  fitted without a {way}, {name}: median error {parts[name].error:.1%}, upper too low in "
                f"{parts[name].under:.1%}, too high by {parts[name].over:.0%} on average"
            )


def _own(site: Site, models_dir: Path | None) -> Path:
    """Give the folder of a site's own models: the one that was named, or the one in which radd looks."""
    return models_dir or Path(site.load().estimator.models_dir)


@click.group(cls=Group)
def models() -> None:
    """List learned models, or go back to the version before."""


@models.command("list")
@OWN_MODELS
@JSON
@click.pass_obj
def models_list(site: Site, models_dir: Path | None, as_json: bool) -> None:
    """List the versions of every learned method: those that come with RAD, and your own."""
    own = _own(site, models_dir)
    used = {}
    for method in _LEARNED:
        store = store_for(method, own)
        used[method] = store.folder
        try:
            store.load()
        except ModelError as error:
            click.echo(f"radctl: {method} cannot be used: {error}", err=True)
    rows = [
        {
            "method": method,
            "version": version.number,
            "current": version.current and store.folder == used[method],
            "folder": str(folder),
            "about": version.about,
        }
        for folder in (SHIPPED, own)
        for method in _LEARNED
        for store in (Store(folder, method),)
        for version in store.versions()
    ]
    if as_json:
        click.echo(json.dumps({"models": rows}))
        return
    for row in rows:
        about = cast("dict[str, Any]", row["about"])
        mark = "*" if row["current"] else " "
        click.echo(f"{mark} {row['method']} {row['version']}  {about.get('note', '')}  ({row['folder']})")


@models.command("rollback")
@click.argument("method", type=click.Choice(_LEARNED), default="rad")
@OWN_MODELS
@click.pass_obj
def models_rollback(site: Site, method: str, models_dir: Path | None) -> None:
    """Make the version before the current one current again; from your first, the one that comes with RAD."""
    number = Store(_own(site, models_dir), method).rollback()
    which = "the version that comes with RAD" if number is None else f"version {number}"
    click.echo(f"{method}: {which} is current")


@click.command()
@click.argument("place", metavar="MODULE:FACTORY")
@click.option("--input-size", metavar="3x224x224", help="One sample of numbers, as the model takes it.")
@click.option("--seq-len", type=Whole(1, 10**8), help="One sample is so many token ids.")
@INPUTS
@click.option("--batch-size", type=Whole(2, 10**6), default=32, show_default=True, help="Of the table.")
def summarize(place: str, *, input_size: str | None, seq_len: int | None, fed: str | None, batch_size: int) -> None:
    """Print a summary of the model that MODULE:FACTORY returns (needs the torch extra; runs that code).

    MODULE is as in an import: mynet for mynet.py of this directory. FACTORY takes no arguments; a model does too.

    The output can be named by a #RAD line. With --input-size, --seq-len or --inputs it is a table of every call with
    its shapes, which says most: steps of it run on tensors without data. Without them it is a module's print with the
    parameters of every layer.

    --inputs names a function as FACTORY is named, for what takes more than one thing. It takes a batch size and returns
    what goes in: a tensor, a tuple of arguments, or a dict of named ones, with labels where the model takes them.
    """
    size = _size(input_size)
    said = [each is not None for each in (size, seq_len, fed)]
    if sum(said) > 1:
        raise click.UsageError("give one of --input-size, --seq-len and --inputs: each says all that goes in")
    with _apart(place, _NO_TABLE if any(said) else _NO_PRINT):
        make = _maker(place)
        text = table_of(make, _inputs(fed, size, seq_len), batch_size) if any(said) else _printed(place, make())
    click.echo(text)


def _printed(place: str, model: Any) -> str:
    if is_lazy(model):
        raise click.ClickException(f"{place} cannot be printed: {_LAZY}")
    return summary_of(model)


COMMANDS: list[click.Command] = [estimate, evaluate, retrain, models, summarize]
