"""`radctl doctor`: what it prints, and its exit code."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_hooks.config import Config
from slurm_hooks.doctor.facts import Facts, FileFact
from slurm_hooks.node.kept import Kept
from slurm_hooks.radctl import doctor as command
from slurm_hooks.radctl.main import cli
from tests.slurm_hooks.doctor.machine import (
    WELL,
    only,
    with_file,
    with_setting,
)


def test_a_configuration_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Config] = []

    def gather(config: Config, path: Path, kept: Kept, unusable: str) -> Facts:
        asked.append(config)
        return dataclasses.replace(WELL, unusable=unusable, kept=kept.path)

    monkeypatch.setattr(command, "gather", gather)
    monkeypatch.setenv("RAD_KEPT", f"{tmp_path}/kept")
    toml, kept = tmp_path / "rad.toml", Kept(f"{tmp_path}/kept")
    toml.write_text("[")
    shown = CliRunner().invoke(cli, ["--config", str(toml), "doctor"])
    assert (shown.exit_code, shown.output) == (2, f"radctl: {toml}: not TOML: {shown.output.partition('TOML: ')[2]}")
    kept.keep(b"[partitions.gpu]\ngpu_model = 'h200'\n")
    shown = CliRunner().invoke(cli, ["--config", str(toml), "doctor"])
    assert shown.exit_code == 1
    assert shown.output.count("goes on with") == shown.output.count("rad.toml of 2") == 2
    assert "until then radd does not start anew" in shown.output
    assert "jobs are served by the copy until then" in shown.output
    assert [list(config.partitions) for config in asked] == [["gpu"]]
    link = with_file("/var/cache/rad", FileFact("link", 0o777, 0, 0))
    assert "as RAD_KEPT in rad.env beside the hooks" in only("node", **link).cure


@pytest.mark.parametrize(
    ("facts", "args", "code"),
    [
        (WELL, [], 0),
        (WELL, ["controller"], 0),
        (dataclasses.replace(WELL, **with_setting("AuthInfo", "")), ["controller"], 0),
        (dataclasses.replace(WELL, gpus=None), ["node"], 1),
    ],
)
def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: Facts, args: list[str], code: int) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("[partitions.gpu]\ngpu_model = 'h200'\n")
    monkeypatch.setattr(command, "gather", lambda *_: facts)
    shown = CliRunner().invoke(cli, ["--config", str(path), "doctor", *args])
    assert shown.exit_code == code
    assert "  ok       Slurm                    version 24.11.5\n" in shown.output
    assert ("controller:\n" in shown.output) == (args != ["node"])
    assert ("missing" in shown.output) == (code == 1)
    assert "later" not in shown.output
    data = json.loads(CliRunner().invoke(cli, ["--config", str(path), "doctor", "--json", *args]).output)
    assert set(data) == set(args or ["controller", "node"])


def test_command_where_nothing_is_changed_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("[partitions.gpu]\ngpu_model = 'h200'\nmode = 'shadow'\n")
    monkeypatch.setattr(command, "gather", lambda *_: dataclasses.replace(WELL, **with_setting("Prolog", "")))
    shown = CliRunner().invoke(cli, ["--config", str(path), "doctor"])
    assert shown.exit_code == 0
    assert shown.output.count("  later    Prolog                   not set\n") == 2
    assert shown.output.count('  "later": for mode = "enforce"; advise and shadow do without\n') == 2
