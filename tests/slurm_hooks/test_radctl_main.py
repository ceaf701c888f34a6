"""The frame of `radctl`: lazy commands, their one line of help, errors as one line."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from estimator.types import SummaryError
from slurm_hooks import __version__, config
from slurm_hooks.monitor import main as monitor_main
from slurm_hooks.radctl import main
from slurm_hooks.radd import main as radd_main


def _group(error: Exception) -> click.Command:
    @click.command()
    def broken() -> None:
        raise error

    group = main.LazyGroup(name="radctl", table={"broken": main.Entry(main.JOBS, ("x",), "Break.")})
    group.get_command = lambda ctx, cmd_name: broken  # type: ignore[method-assign]
    return group


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SummaryError("line 3: no layer"), "radctl: line 3: no layer\n"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "radctl: a.txt: No such file or directory\n"),
        (OSError("the disk is full"), "radctl: the disk is full\n"),
        (OSError(28, "No space left on device"), "radctl: No space left on device\n"),
        (FileNotFoundError(2, "No such file", "\x1b[31m\x9b\u202ea"), "radctl: ?[31m??a: No such file\n"),
    ],
)
def test_errors_for_the_user_are_one_line(error: Exception, message: str) -> None:
    result = CliRunner().invoke(_group(error), ["broken"], color=True)
    assert result.exit_code == 2
    assert result.stderr == message


@pytest.mark.parametrize("option", ["--help", "--version", "report --help"])
def test_help_on_a_full_disk_is_one_line_too(option: str) -> None:
    command = [sys.executable, "-m", "slurm_hooks.radctl", *option.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "radctl: No space left on device\n")


def test_defects_are_not_hidden() -> None:
    result = CliRunner().invoke(_group(ValueError("a defect")), ["broken"])
    assert isinstance(result.exception, ValueError)


def test_a_closed_pipe_is_left_to_click() -> None:
    result = CliRunner().invoke(_group(BrokenPipeError(32, "Broken pipe")), ["broken"])
    assert result.stderr == ""


def test_table_is_what_the_modules_say() -> None:
    for name, entry in main.TABLE.items():
        command = main.cli.get_command(click.Context(main.cli), name)
        assert command is not None, name
        assert command.get_short_help_str(200) == entry.help, name


def test_every_command_of_a_module_is_in_the_table() -> None:
    for path in Path(main.__file__).parent.glob("[a-z]*.py"):
        module = importlib.import_module(f"slurm_hooks.radctl.{path.stem}")
        for command in getattr(module, "COMMANDS", ()):
            assert path.stem in main.TABLE[command.name].modules


@pytest.mark.parametrize("name", ["bench", "config", "dataset", "evaluate", "models", "retrain"])
def test_help_of_a_group_cuts_no_sentence(name: str) -> None:
    shown = " ".join(CliRunner().invoke(main.cli, [name, "--help"]).stdout.split())
    group = main.cli.get_command(click.Context(main.cli), name)
    assert isinstance(group, click.Group) and group.commands
    for command in group.commands.values():
        assert f"{command.name} {command.get_short_help_str(200)}" in shown
    assert "..." not in shown.replace("[ARGS]...", "")


@pytest.mark.parametrize("program", [main.cli, monitor_main.main, radd_main.main], ids=["radctl", "monitor", "radd"])
def test_every_program_tells_its_options(program: click.Command) -> None:
    short, long = (CliRunner().invoke(program, [option]) for option in ("-h", "--help"))
    assert short.exit_code == 0 and short.output == long.output
    assert all(option.help for option in program.params if isinstance(option, click.Option))


def test_unknown_command() -> None:
    result = CliRunner().invoke(main.cli, ["reprot"])
    assert result.exit_code == 2
    assert "no such command 'reprot': did you mean 'report'?" in result.stderr
    assert "'xyzzy'" in CliRunner().invoke(main.cli, ["xyzzy"]).stderr
    assert "-x" in CliRunner().invoke(main.cli, ["-x"]).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["estimate", "x", "--batch-size", "1.5"], "'1.5' is not a valid whole number."),
        (["top", "--interval", "fast"], "'fast' is not a valid number."),
    ],
)
def test_a_word_in_the_place_of_a_number(words: list[str], said: str) -> None:
    result = CliRunner().invoke(main.cli, words)
    assert (result.exit_code, result.stderr.splitlines()[-1].partition(": ")[2].partition(": ")[2]) == (2, said)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from slurm_hooks.radctl.main import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "print(sorted({'numpy', 'torch', 'sklearn', 'joblib', 'rich'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    for name, entry in main.TABLE.items():
        assert name in done.stdout
        assert entry.help.split()[0] in done.stdout


def test_version() -> None:
    assert CliRunner().invoke(main.cli, ["--version"]).output == f"radctl, version {__version__}\n"


def test_what_needs_no_configuration_runs_where_users_cannot_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = tmp_path / "rad.toml"
    private.touch(0o600)
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for a user: root may read everything
    result = CliRunner().invoke(main.cli, ["config", "reference"], env={"RAD_CONFIG": str(private)})
    assert result.exit_code == 0, result.stderr


def test_site(tmp_path: Path) -> None:
    absent = tmp_path / "rad.toml"
    assert main.Site(absent).load() == config.Config()
    with pytest.raises(config.ConfigError, match="cannot be read"):
        main.Site(absent, named=True).load()
    absent.write_text("[radd]\npoll_s = 7\n")
    assert main.Site(absent).load().radd.poll_s == 7.0
