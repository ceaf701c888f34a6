"""`radctl embed` and `radctl convert`: write batch scripts. Reads the files named, writes stdout or the script."""

from __future__ import annotations

from pathlib import Path

import click

from estimator import files
from estimator.parsers import parse_summary
from estimator.types import SummaryError
from slurm_hooks import embed as embedding
from slurm_hooks import rad_file
from slurm_hooks.directives import (
    LATE,
    DirectiveError,
    Directives,
    has_late_directives,
    looks_like_directives,
    parse_script,
)
from slurm_hooks.radctl.main import Site
from slurm_hooks.radctl.options import examples

_PATH = click.Path(path_type=Path)


@click.command(epilog=examples("radctl embed job.sh | sbatch", "radctl embed --in-place --summary net.txt job.sh"))
@click.argument("script", type=_PATH)
@click.option("--summary", type=_PATH, help="The summary [default: what the script's model= names].")
@click.option("-i", "--in-place", is_flag=True, help="Change SCRIPT itself instead of printing the new one.")
@click.pass_obj
def embed(site: Site, script: Path, summary: Path | None, in_place: bool) -> None:
    """Print SCRIPT with the model's summary inside.

    The summary stands between #RAD summary-begin and #RAD summary-end; one that is there already is replaced. A path is
    relative to the current directory, as it is for sbatch.
    """
    text = files.read_text(script, files.MAX_SCRIPT_BYTES)
    try:
        directives = parse_script(text)
        if directives is None and (why := looks_like_directives(text) or (LATE if has_late_directives(text) else "")):
            raise embedding.EmbedError(why)
        path = summary or _named(directives)
        summary_text = files.read_text(path, site.load().estimator.max_summary_kib * 1024)
        made = embedding.embed(text, summary_text)
    except (DirectiveError, embedding.EmbedError) as error:
        raise embedding.EmbedError(f"{script}: {error}") from error
    try:
        parse_summary(summary_text)
    except SummaryError as error:
        raise SummaryError(f"{path}: {error}") from error
    if len(made.encode(errors="surrogateescape")) > files.MAX_SCRIPT_BYTES:
        raise embedding.EmbedError(f"{script}: longer than Slurm takes with the summary inside")
    if in_place:
        files.replace(script, text, made)
    else:
        _print(made)


@click.command(epilog=examples("radctl convert task.rad > task.sh"))
@click.argument("task", type=_PATH)
def convert(task: Path) -> None:
    """Print RAD-RM's task file TASK as a batch script."""
    try:
        made = rad_file.convert(files.read_text(task, files.MAX_SCRIPT_BYTES), task.stem)
    except rad_file.RadFileError as error:
        raise rad_file.RadFileError(f"{task}: {error}") from error
    _print(made)


def _named(directives: Directives | None) -> Path:
    if directives is None or directives.model is None:
        raise embedding.EmbedError("no #RAD model= names a summary: add one, or give --summary FILE")
    return Path(directives.model)


def _print(text: str) -> None:
    click.echo(text.encode(errors="surrogateescape"), nl=False)


COMMANDS = [embed, convert]
