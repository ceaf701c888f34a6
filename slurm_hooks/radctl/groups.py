"""How groups of commands show their help, groups that several parts add commands to, and numbers; touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

_WHOLE = 200  # longer than any command's first sentence


class Whole(click.IntRange):
    """Whole numbers within bounds, and called so where a word is none."""

    name = "whole number"


class Number(click.FloatRange):
    """The same for any numbers."""

    name = "number"


class Group(click.Group):
    """A group whose help shows the first sentence of each command whole."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' part of the help; click itself cuts sentences."""
        commands = sorted(self.commands.items())
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(_WHOLE)) for name, command in commands])


@click.group(cls=Group)
def evaluate() -> None:
    """Compare what RAD said with what was measured."""


@click.group(cls=Group, invoke_without_command=True)
@click.option(
    "--data",
    "data_dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of measured rows; without a subcommand, `radctl retrain --data DIR` means `retrain memory`.",
)
@click.option(
    "--models-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of your own models [default: models_dir of rad.toml's estimator, where radd looks].",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def retrain(ctx: click.Context, data_dir: Path | None, models_dir: Path | None, as_json: bool) -> None:
    """Fit a model again and install it only if it is no worse."""
    if ctx.invoked_subcommand is not None:
        if data_dir is not None or models_dir is not None or as_json:
            raise click.UsageError("put the options after the subcommand: radctl retrain memory --data DIR")
        return
    memory = retrain.get_command(ctx, "memory")
    if data_dir is None or memory is None:
        raise click.UsageError("missing --data DIR, or a subcommand")
    ctx.invoke(memory, data_dir=data_dir, models_dir=models_dir, as_json=as_json)
