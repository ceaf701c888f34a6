"""The demonstration's parts that need no cluster; the rest is what the other tests of this folder try."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from estimator.parsers import parse_summary
from scripts import demonstration
from scripts.demo_data import bert_base, resnet50
from slurm_hooks.directives import DirectiveError, parse_script
from slurm_hooks.node.evidence import of_memory

TRAIN = Path(demonstration.__file__).with_name("demo_data") / "train.py"


def test_one_script_is_wrong_on_purpose_and_one_has_no_directive() -> None:
    said = {}
    for job in demonstration.jobs("python3", 143771):
        try:
            said[job.name] = "none" if parse_script(job.script()) is None else "right"
        except DirectiveError:
            said[job.name] = "wrong"
    right = dict.fromkeys(("resnet50", "bert", "alone", "greedy"), "right")
    assert said == {**right, "plain": "none", "misspelt": "wrong"}


def test_the_summaries_have_the_published_sizes() -> None:
    assert parse_summary(resnet50()).total_params == 25_557_032
    assert parse_summary(bert_base()).total_params == pytest.approx(110e6, rel=0.25)


@pytest.mark.parametrize("option", ["-h", "--help", "--down", "--foo"])
def test_help_the_end_and_a_mistake_install_nothing(tmp_path: Path, option: str) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name in ("demo", "lib.sh"):
        shutil.copy(Path(demonstration.__file__).with_name(name), scripts)
    (scripts / "demonstration.py").write_text("import sys\nprint(sys.argv[1:])\n")
    for name in ("dpkg-query", "apt-get"):  # nothing is there, and nothing can be had
        tool = tmp_path / name
        tool.write_text("#!/bin/sh\nexit 1\n")
        tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run([scripts / "demo", option], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"['{option}']\n")
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(("run", "code", "dies"), [("0", 1, True), ("1", 0, False)])
def test_the_stand_in_says_that_it_is_one_and_dies_as_pytorch_would(run: str, code: int, dies: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-S", str(TRAIN), "greedy", "0", "1"],
        env={**os.environ, "SLURM_RESTART_COUNT": run},
        capture_output=True,
        check=False,
    )
    assert done.returncode == code
    assert b"stand-in" in done.stdout
    assert bool(of_memory(done.stdout)) == dies
