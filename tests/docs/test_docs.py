"""Every page's links lead somewhere, and every command that it names exists."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from slurm_hooks.radctl.main import cli
from slurm_hooks.report import Row

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_COMMAND = re.compile(r"\bradctl((?: +[^\s`#|;>]+)*)")
_PATH = re.compile(r"(?<![\w/.-])(?:\.ci|docs|estimator|etc|predictor|scripts|slurm_hooks|tests)/[\w./-]*")
_WORD = re.compile(r"[a-z][a-z-]*")
_SCRIPT = re.compile(r"(?:python -m (scripts(?:\.\w+)+)|(?<![\w/])(scripts/[\w/-]+))((?: +[^\s`#|;>()]+)*)")


def _links(page: Path) -> Iterator[str]:
    for target in _LINK.findall(_CODE.sub("", page.read_text())):
        if not re.match(r"[a-z]+:", target):
            yield target


def _anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in _titles(page)}


def _titles(page: Path) -> list[str]:
    return re.findall(
        r"^#+ (.+)$", _CODE.sub(lambda code: "" if "\n" in code[0] else code[0], page.read_text()), re.MULTILINE
    )


def _commands(page: Path) -> Iterator[list[str]]:
    for code in _CODE.findall(page.read_text()):
        for words in _COMMAND.findall(code):
            yield words.split()


def _problem(words: list[str]) -> str:
    """Why `radctl WORDS` is no command line, or the empty string."""
    command: click.Command = cli
    known = {option for parameter in cli.params for option in parameter.opts} | {"-h", "--help"}
    for word in words:
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            if name not in known:
                return f"{command.name} has no option {name}"
        elif isinstance(command, click.Group) and _WORD.fullmatch(word):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return f"{command.name} has no command {word}"
            command = found
            known |= {option for parameter in command.params for option in parameter.opts}
            if command.context_settings.get("ignore_unknown_options"):
                return ""
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in _anchors(target), f"{page.name}: {link}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_heading_has_an_anchor_of_its_own(page: Path) -> None:
    assert sorted(_titles(page)) == sorted(set(_titles(page)))


def _source(command: str) -> str:
    """Text of a script and of the modules of scripts/ that it names, or of a module and those that it imports whole."""
    path = ROOT / command.replace(".", "/")
    files = [path] if path.is_file() else [path.with_suffix(".py"), *path.glob("*.py")]
    text = "".join(file.read_text() for file in files if file.is_file())
    if path.is_file():
        named = set(re.findall(r"\bscripts(?:\.\w+)+", text))
    else:
        named = {f"scripts.{name}" for name in re.findall(r"^from scripts import (\w+)", text, re.MULTILINE)}
    return "".join([text, *map(_source, named - {command})])


def _unknown_options(text: str) -> list[str]:
    """Options of commands of scripts/ that these do not know."""
    found = []
    for code in _CODE.findall(text):
        for module, script, rest in _SCRIPT.findall(code):
            options = [word.partition("=")[0] for word in rest.split() if re.match("--[a-z]", word)]
            source = _source(module or script)
            found += [f"{module or script} {name}" for name in options if not re.search(rf"{name}(?![\w-])", source)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_scripts(page: Path) -> None:
    assert _unknown_options(page.read_text()) == []


def test_this_test_finds_options_that_no_script_has() -> None:
    text = "`python -m scripts.check_parts --modles 80` `scripts/demo --donw` `scripts/gpu-cluster run all --ot DIR`"
    assert len(_unknown_options(text)) == 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands(page: Path) -> None:
    assert [problem for words in _commands(page) if (problem := _problem(words))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths(page: Path) -> None:
    named = {path.rstrip("./") for code in _CODE.findall(page.read_text()) for path in _PATH.findall(code)}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs/radctl.md").read_text()
    for name in cli.list_commands(click.Context(cli)):
        assert f"`radctl {name}" in text, name


def test_every_column_of_a_report_is_documented() -> None:
    text = (ROOT / "docs/radctl.md").read_text()
    assert [field.name for field in fields(Row) if f"`{field.name}`" not in text and field.name != "group"] == []


def _leaves(group: click.Group) -> Iterator[click.Command]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield from _leaves(command) if isinstance(command, click.Group) else (command,)


def test_every_command_tells_its_options_and_gives_examples_that_exist() -> None:
    for command in _leaves(cli):
        assert [option.name for option in command.params if isinstance(option, click.Option) and not option.help] == []
        examples = [words.split() for words in _COMMAND.findall((command.epilog or "").replace("Examples:", ""))]
        assert [problem for words in examples if (problem := _problem(words))] == []


@pytest.mark.parametrize("script", ["demo", "install", "test", "bench/run"])
def test_scripts_tell_their_use_and_install_nothing(script: str, tmp_path: Path) -> None:
    for name in ("dpkg-query", "apt-get"):  # nothing is there, and nothing can be had
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(ROOT / "scripts" / script), "--help"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"scripts/{script}" in done.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("report --csv", ""),
        ("--config FILE report", ""),
        ("config check rad.toml", ""),
        ("decide job.sh --partition=gpu", ""),
        ("reprot", "radctl has no command reprot"),
        ("config chek", "config has no command chek"),
        ("report --cvs", "report has no option --cvs"),
    ],
)
def test_this_test_finds_problems(words: str, problem: str) -> None:
    assert _problem(words.split()).replace("cli ", "radctl ") == problem
