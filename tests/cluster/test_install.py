"""scripts/install into a folder of its own, and what an admin copies from etc/."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from scripts.devcluster import Layout, settings
from tests.cluster.conftest import CHECKOUT


def install(
    folder: Path, *more: str, how: tuple[str, ...] = ("--plain",), **env: str
) -> subprocess.CompletedProcess[str]:
    argv = [str(CHECKOUT / "scripts" / "install"), "--prefix", f"{folder}/opt", "--etc", f"{folder}/etc"]
    argv += ["--lua-dir", f"{folder}/lua", "--system", f"{folder}/system", "--no-deps", *how, *more]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=300, umask=0o077, env={**os.environ, **env}
    )


def test_install_puts_everything_in_place_and_keeps_the_admins_settings(tmp_path: Path) -> None:
    done = install(tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Prolog={tmp_path}/opt/etc/prolog.sh" in done.stdout
    assert f"RAD_CONFIG={tmp_path}/etc/rad.toml" in done.stdout  # radctl would look in /etc/rad
    assert 'pcall(require, "rad")' in done.stdout
    assert "apt-get install lua-socket lua-posix" in done.stdout
    hooks, restart = done.stdout.index(f"{tmp_path}/opt/etc/prolog.sh || true"), done.stdout.index("stop slurmctld")
    assert (
        f"everywhere: cp {tmp_path}/opt/etc/cli_filter.lua DIR" in done.stdout
    )  # else no sbatch and srun starts there
    assert hooks < restart < done.stdout.index("start slurmctld")  # in another order Slurm drains nodes
    assert "touch DIR/job_submit.lua" in done.stdout  # slurmctld goes on with the Lua files that it has read
    assert all(f"systemctl restart {unit}" in done.stdout for unit in ("radd", "rad-spool.timer rad-monitor"))
    assert "/opt/rad/" not in (tmp_path / "opt" / "etc" / "slurm.conf.rad").read_text()
    assert (tmp_path / "system" / "logrotate.d" / "rad").exists()
    for module in (CHECKOUT / "slurm_hooks" / "lua").iterdir():
        assert (tmp_path / "lua" / module.name).read_text() == module.read_text()
    unit = (tmp_path / "system" / "systemd" / "system" / "radd.service").read_text()
    assert f"ExecStart={tmp_path}/opt/bin/radd --config {tmp_path}/etc/rad.toml" in unit
    for name in ("prolog.sh", "task_prolog.sh", "epilog.sh"):
        hook = subprocess.run([str(tmp_path / "opt" / "etc" / name)], env={}, capture_output=True, check=False)
        assert (hook.returncode, hook.stdout, hook.stderr) == (0, b"", b"")
    usage = subprocess.run(
        [str(tmp_path / "opt" / "bin" / "python"), "-I", "-m", "slurm_hooks.node.main"],
        capture_output=True,
        check=False,
    )
    assert b"usage: main.py" in usage.stderr
    paths = [path for top in ("opt", "etc", "lua", "system") for path in (tmp_path / top, *(tmp_path / top).rglob("*"))]
    closed = [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o044 != 0o044]
    assert closed == []  # whatever root's umask: TaskProlog runs as the users
    (tmp_path / "etc" / "rad.toml").write_text("# mine\n")
    env = tmp_path / "opt" / "etc" / "rad.env"
    made = env.read_text()
    older = "# ours\nRAD_CONFIG=/elsewhere/rad.toml\nexport RAD_PYTHON=/elsewhere/python\n"
    env.write_text(f"{older}{made}RAD_PATH=/opt/slurm/bin:/usr/bin\nSLURM_CONF=/a/b\n")
    (packages,) = (tmp_path / "opt" / "lib").glob("python3.*")
    packages.rename(packages.with_name("python3.0"))  # as after an update of the system's Python
    again = install(tmp_path, how=(), PATH=without_compiler(tmp_path / "bin"))
    assert again.returncode == 0, again.stderr
    assert "runs in plain Python: to have it compiled, install a C compiler as cc" in again.stdout
    assert (tmp_path / "etc" / "rad.toml").read_text() == "# mine\n"
    assert env.read_text() == f"{made}# ours\nRAD_PATH=/opt/slurm/bin:/usr/bin\nSLURM_CONF=/a/b\n"


def without_compiler(folder: Path) -> str:
    """A PATH with all that is in /usr/bin, but for the C compiler."""
    folder.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "cc":
            (folder / program.name).symlink_to(program)
    return str(folder)


def lose_network(folder: Path, pip: Path, over: threading.Event) -> None:
    """Take pip's registry away as soon as RAD is installed in plain Python."""
    while not list((folder / "opt").glob("lib/python*/site-packages/slurm_hooks/top.py")):
        if over.wait(0.01):
            return
    pip.write_text("[global]\nno-index = true\n")


def test_what_cannot_be_compiled_runs_in_plain_python(tmp_path: Path) -> None:
    none, pip, over = tmp_path / "no-such-mypy", tmp_path / "pip.conf", threading.Event()
    none.write_text("mypy==0.0.0.1\n")
    compiler = tmp_path / "bin"
    without_compiler(compiler)
    (compiler / "cc").symlink_to("/bin/false")
    watcher = threading.Thread(target=lose_network, args=(tmp_path, pip, over))
    watcher.start()
    try:
        done = install(tmp_path, how=(), PIP_CONSTRAINT=str(none), PIP_CONFIG_FILE=str(pip), PATH=str(compiler))
    finally:
        over.set()
        watcher.join()
    assert done.returncode == 0, done.stderr
    assert pip.exists()
    if "Python.h" not in done.stdout:
        assert "runs in plain Python, it could not be compiled: ERROR: " in done.stdout, done.stdout
    said = subprocess.run(
        [
            str(tmp_path / "opt" / "bin" / "python"),
            "-I",
            "-c",
            "from estimator.compiled import *; print(is_compiled())",
        ],
        capture_output=True,
        check=True,
    )
    assert said.stdout == b"False\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bogus"], "unknown option --bogus"),
        (["--prefix"], "--prefix needs a value"),
        (["--prefix", "here"], "give an absolute path"),
        (["--etc", "/etc/r a d"], "choose a path without blanks"),
        (["--prefix", str(CHECKOUT)], "holds something that is not RAD's"),
        (["--python", "/bin/false"], "needs Python 3.10 or newer"),
        (["--etc", "/proc/rad"], "cannot be written"),
    ],
)
def test_install_refuses_with_a_cure_and_touches_nothing(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = install(tmp_path, *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert not (tmp_path / "opt").exists() or not any((tmp_path / "opt").iterdir())


def test_install_leaves_what_is_there_where_the_disk_has_no_room(tmp_path: Path) -> None:
    prefix = tmp_path / "opt"
    prefix.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=50m", "rad-test", str(prefix)], check=True)
    try:
        (prefix / ".rad").touch()
        for needed in (500, 100):
            done = install(tmp_path)
            assert (done.returncode, done.stderr) == (1, f"error: {prefix} needs {needed} MiB free: make room there\n")
            (prefix / "bin").mkdir(exist_ok=True)
            (prefix / "bin" / "radd").write_text("#!/bin/sh\n")
        assert sorted(path.name for path in prefix.rglob("*")) == [".rad", "bin", "radd"]
    finally:
        subprocess.run(["umount", str(prefix)], check=True)


def _settings(text: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.split()[0]: value for key, value in pairs}


def test_the_snippets_say_what_the_development_cluster_uses(tmp_path: Path) -> None:
    layout = Layout(tmp_path, 1)
    ours = settings.gres_conf(layout).replace(f"{tmp_path}/dev", "/dev").replace("NodeName=node0 ", "")
    snippet = (CHECKOUT / "etc" / "gres.conf.rad").read_text()
    assert [line for line in snippet.splitlines() if not line.startswith("#")] == ours.splitlines()
    tried = _settings(settings.slurm_conf(layout, rad=True))
    wanted = _settings((CHECKOUT / "etc" / "slurm.conf.rad").read_text())
    for key in (
        "JobSubmitPlugins",
        "CliFilterPlugins",
        "PrologFlags",
        "SelectType",
        "GresTypes",
        "AccountingStoreFlags",
    ):
        assert tried[key] == wanted[key]
    for key in ("Prolog", "TaskProlog", "Epilog"):
        assert Path(tried[key]).name == Path(wanted[key]).name
    assert wanted["AuthInfo"] in tried["AuthInfo"]
    assert set(wanted["AccountingStorageTRES"].split(",")) <= set(tried["AccountingStorageTRES"].split(","))
