"""The demonstration's parts that need no cluster; the rest is what the other tests of this folder try."""

from __future__ import annotations

import builtins
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from estimator.parsers import parse_summary
from scripts import demonstration
from scripts.demo_data import bert_base, resnet50
from scripts.devcluster import ending, processes
from scripts.devcluster.layout import MARKER, ClusterError
from scripts.devcluster.processes import wait_for
from slurm_hooks.directives import DirectiveError, parse_script
from slurm_hooks.node.evidence import of_memory


def _raise(error: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise error

    return command


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


def test_scripts_run_from_a_checkout_whose_path_has_blanks(tmp_path: Path) -> None:
    python = tmp_path / "my rad" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho $2\n")
    python.chmod(0o755)
    for job in demonstration.jobs(str(python), 143771):
        done = subprocess.run(["bash", "-c", job.script()], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, f"{job.name}\n")


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


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (lambda: 0, 0, ""),
        (_raise(ClusterError("no port is free")), 1, "error: no port is free\n"),
        (_raise(KeyboardInterrupt()), 130, "\ninterrupted: end it so\n"),
    ],
    ids=["well", "error", "Ctrl-C"],
)
def test_a_command_ends_with_a_line_and_its_status(
    command: Callable[[], int], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending.status(command, "end it so") == code
    assert capsys.readouterr().err == said


def test_a_command_whose_reader_has_gone_says_what_to_do() -> None:
    told = "from scripts.devcluster.ending import status; import sys; sys.exit(status(lambda: print('x' * 9999), 'so'))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", told], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "nobody reads any more: so\n")


def test_without_a_standard_output_titles_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it where the file is closed
    demonstration.Show.title(demonstration.Show.__new__(demonstration.Show), "a step")


def test_ctrl_c_while_nvml_is_imported_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str, *rest: Any) -> Any:
        if name == "pynvml":
            raise KeyboardInterrupt
        return imported(name, *rest)

    imported = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demonstration.find_gpus()


def test_down_ends_what_a_set_up_left_that_was_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    monkeypatch.setattr(demonstration, "DIRECTORY", folder)
    assert demonstration.main(["--down"]) == 0
    assert "does not run" in capsys.readouterr().out
    folder.mkdir(mode=0o755)
    (folder / "site.toml").touch()
    with subprocess.Popen(["sleep", "60"], env={MARKER: str(folder)}) as daemon:
        wait_for("it is a member", lambda: daemon.pid in processes.members(folder), 10)
        assert demonstration.main(["--down"]) == 0
        assert daemon.wait(10) != 0
    assert not folder.exists()


def test_what_is_no_folder_of_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo").touch()
    monkeypatch.setattr(demonstration, "DIRECTORY", tmp_path / "demo")
    for arguments in ([], ["--down"]):
        assert demonstration.main(arguments) == 1
        assert "remove it, or choose another" in capsys.readouterr().err
    assert (tmp_path / "demo").is_file()


@pytest.mark.parametrize("command", ["kill -INT 0; sleep 60", "kill -TERM 0; sleep 60", "exit 3", "true"])
@pytest.mark.parametrize("there", [False, True])
def test_packages_may_start_services_again_however_an_installation_ends(
    tmp_path: Path, command: str, there: bool
) -> None:
    policy = tmp_path / "policy-rc.d"
    if there:
        policy.write_text("the site's own")
    command = f"cp {policy} {tmp_path}/seen; {command}"
    script = f". {TRAIN.parents[1]}/lib.sh; policy={policy}; without_services bash -c '{command}'"
    # Its output ends when the last of its shells has.
    subprocess.run(["bash", "-c", script], start_new_session=True, timeout=30, capture_output=True, check=False)
    assert (tmp_path / "seen").read_text() == ("the site's own" if there else "#!/bin/sh\nexit 101\n")
    assert policy.exists() == there
    assert not there or policy.read_text() == "the site's own"


@pytest.mark.parametrize("name", ["lib.sh", "dev-cluster", "gpu-cluster"])
def test_what_root_makes_users_can_run(tmp_path: Path, name: str) -> None:
    """Also where root's own umask lets nobody else read what it makes."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(TRAIN.parents[1] / name, tmp_path / "scripts")
    (tmp_path / "python3").write_text("#!/bin/sh\numask\n")
    (tmp_path / "python3").chmod(0o755)
    run = f"umask 077; . {tmp_path}/scripts/{name}; umask"
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RAD_GPU_PYTHON": f"{tmp_path}/python3"}
    script = ["bash", "-c", run, f"{tmp_path}/scripts/{name}"]
    assert subprocess.run(script, env=env, capture_output=True, text=True, check=True).stdout == "0022\n"


def test_ctrl_c_ends_a_script_also_where_a_failure_is_forgiven() -> None:
    patient = "import os, signal, sys; signal.signal(2, lambda *_: sys.exit(1)); os.kill(0, 2); signal.pause()"
    script = f". {TRAIN.parents[1]}/lib.sh; {sys.executable} -S -c '{patient}' || true; echo it goes on"
    done = subprocess.run(["bash", "-c", script], start_new_session=True, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (130, b"")
