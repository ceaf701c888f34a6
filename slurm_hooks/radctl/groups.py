"""Groups that several parts add commands to; touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

from slurm_hooks.radctl.options import FOLDER, JSON, THERE

OWN_MODELS = click.option(
    "--models-dir", type=FOLDER, help="Folder of your own models [default: where radd looks, as rad.toml says]."
)


@click.group()
def evaluate() -> None:
    """Compare what RAD said with what was measured."""


@click.group(invoke_without_command=True)
@click.option("--data", "data_dir", type=THERE, help="Without a subcommand: as for `radctl retrain memory`.")
@OWN_MODELS
@JSON
@click.pass_context
def retrain(ctx: click.Context, data_dir: Path | None, models_dir: Path | None, as_json: bool) -> None:
    """Fit a model again, and install it if it is no worse."""
    if ctx.invoked_subcommand is not None:
        if data_dir is not None or models_dir is not None or as_json:
            raise click.UsageError("put the options after the subcommand: radctl retrain memory --data DIR")
        return
    memory = retrain.get_command(ctx, "memory")
    if data_dir is None or memory is None:
        raise click.UsageError("missing --data DIR, or a subcommand")
    ctx.invoke(memory, data_dir=data_dir, models_dir=models_dir, as_json=as_json)
