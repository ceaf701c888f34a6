"""The `radctl` command itself: its global options, its table of commands and how errors are shown.

A command's module is imported when the command runs, not before: `radctl --help` must not wait for numpy or
torch. So the table below carries each command's name, the modules that make it and its one line of help;
a test holds it against the modules. To add a command, give its module a list ``COMMANDS`` and add a line here.
"""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from slurm_hooks import __version__, config
from slurm_hooks.record_text import printable

PACKAGES = frozenset({"estimator", "predictor", "slurm_hooks"})


SECTIONS = JOBS, SITE, MODELS = "Your jobs", "The cluster", "What RAD has learned"


@dataclass(frozen=True)
class Entry:
    """One command of `radctl`.

    Attributes:
        section: where it stands in `radctl --help`.
        modules: modules of this package to import; one of them lists the command in ``COMMANDS``. A group that
            several parts add commands to names them all.
        help: the command's line in `radctl --help`.
    """

    section: str
    modules: tuple[str, ...]
    help: str


TABLE: Mapping[str, Entry] = {
    "bench": Entry(SITE, ("bench",), "Measure RAD on this machine."),
    "config": Entry(SITE, ("config",), "Check rad.toml; print all its keys, or an example."),
    "convert": Entry(JOBS, ("script",), "Print RAD-RM's task file TASK as a batch script."),
    "dataset": Entry(MODELS, ("dataset",), "Draw configurations, measure them, show what they cover."),
    "decide": Entry(JOBS, ("decide",), "Tell what would become of SCRIPT if it were submitted now."),
    "doctor": Entry(SITE, ("doctor",), "Tell what RAD lacks on a controller or node, and the cure."),
    "embed": Entry(JOBS, ("script",), "Print SCRIPT with the model's summary inside."),
    "estimate": Entry(JOBS, ("estimate",), "Estimate the GPU memory of a model from its SUMMARY."),
    "evaluate": Entry(MODELS, ("predict", "estimate", "placement"), "Compare what RAD said with what was measured."),
    "explain": Entry(JOBS, ("jobs",), "Tell one job's story: asked, estimated, decided, run."),
    "models": Entry(MODELS, ("models",), "List learned models, or go back to the version before."),
    "profile": Entry(MODELS, ("predict",), "Run COMMAND alone on a GPU and write its profile."),
    "report": Entry(SITE, ("jobs",), "Tell what sharing did: jobs, GPU-hours saved, memory."),
    "retrain": Entry(MODELS, ("predict", "models"), "Fit a model again, and install it if it is no worse."),
    "summarize": Entry(JOBS, ("summarize",), "Print a summary of a PyTorch model, for #RAD model=."),
    "top": Entry(SITE, ("top",), "Show GPUs, the jobs on them and their shares, live."),
}


@dataclass(frozen=True)
class Site:
    """What every command gets (`click.pass_obj`): where the configuration lies.

    Attributes:
        path: the configuration file.
        named: whether the user named it; then it must be there.
    """

    path: Path = config.DEFAULT_PATH
    named: bool = False

    def load(self) -> config.Config:
        """Read the configuration; RAD's defaults where the default file is absent (a login node, a laptop).

        Raises:
            ConfigError: if the file is wrong, or named by the user and absent.
        """
        if not self.named and not self.path.exists():
            return config.Config()
        return config.load(self.path)


def say(text: str, *, err: bool = False, file: Any = None) -> None:
    """Print what may hold words of a script's or a summary's: whoever looks at another's is not to obey them.

    Args:
        text: what a terminal would obey in it is shown as question marks.
        err: to stderr.
        file: to there instead.
    """
    click.echo(printable(text, keep="\n\t"), err=err, file=file)


class Failure(click.ClickException):
    """An error that the user can cure: one line, no traceback."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Write the message to stderr, starting with the program's name."""
        say(f"radctl: {self.message}", err=True, file=file)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def __init__(self, *args: Any, table: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted."""
        return sorted(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, or None where there is none of that name."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        found = None
        for module in entry.modules:
            for command in importlib.import_module(f"slurm_hooks.radctl.{module}").COMMANDS:
                found = command if command.name == cmd_name else found
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; the nearest one is named where there is none of that name."""
        near = difflib.get_close_matches(args[0], self.table, n=1, cutoff=0.5)
        if near and args[0] not in self.table:
            raise click.UsageError(f"no such command {args[0]!r}: did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' part of the help from the table, without importing them."""
        for section in SECTIONS:
            with formatter.section(section):
                names = [name for name in self.list_commands(ctx) if self.table[name].section == section]
                formatter.write_dl([(name, self.table[name].help) for name in names])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line; --help and --version write here already."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except BrokenPipeError:
            raise
        except OSError as error:
            fail(error)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of RAD's own or of the file system becomes one line on stderr, exit code 2."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click ends quietly when the reader of a pipe has gone
        except (click.UsageError, Failure):
            raise
        except click.ClickException as error:
            raise Failure(error.message) from error
        except (ValueError, OSError, RuntimeError) as error:
            fail(error)


def fail(error: Exception) -> NoReturn:
    """Show `error` as a message if it is meant for the user, else let it through as the defect that it is."""
    if isinstance(error, OSError):
        named = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror or str(error)
        _give_up_output()
        raise Failure(named) from error
    if type(error).__module__.partition(".")[0] in PACKAGES:
        raise Failure(str(error)) from error
    raise error


def _give_up_output() -> None:
    """Drop what the standard output did not take: Python would try again at its end, and exit with 120 for it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def at_most_one(**given: bool) -> None:
    """Refuse options that exclude each other, where more than one of them is given."""
    named = [f"--{name}" for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} exclude each other")


@click.group(cls=LazyGroup, table=TABLE, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path, dir_okay=False, readable=False),  # not every command reads it
    default=None,
    envvar="RAD_CONFIG",
    help=f"Configuration of the site [default: {config.DEFAULT_PATH}; environment: RAD_CONFIG].",
)
@click.version_option(__version__, prog_name="radctl")
@click.pass_context
def cli(ctx: click.Context, path: Path | None) -> None:
    """Share GPUs safely under Slurm: estimate, decide, explain, report."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names and bars may hold what the terminal's encoding lacks
    ctx.obj = Site(config.DEFAULT_PATH, named=False) if path is None else Site(path, named=True)
