"""What a cluster stands on: users, folders, settings, RAD's hooks, an empty database. Made before anything starts."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.devcluster import settings
from scripts.devcluster.interpreter import Interpreter, closed, for_everybody
from scripts.devcluster.layout import MARKER, ClusterError, Layout, Rad, require_ours

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

USERS = ("alice", "bob")
NVIDIA_MAJOR = 195


def make_users() -> None:
    """The users of the cluster's jobs, and radd's, where the machine lacks them."""
    for user in (*USERS, "rad"):
        try:
            pwd.getpwnam(user)
        except KeyError:
            kind = ["--system"] if user == "rad" else []
            shell = "/usr/sbin/nologin" if user == "rad" else "/bin/bash"
            # One after the other: of two at once neither finds the name, and the second gives the user another
            # number, while files of the first lie there already.
            argv = ["flock", "/etc", "useradd", *kind, "--no-create-home", "--user-group", "--shell", shell, user]
            try:
                plain(argv)
            except ClusterError:
                pwd.getpwnam(user)  # another cluster made it at the same moment


def make_folders(layout: Layout) -> None:
    """The cluster's folders, each its owner's, munge's key, and stand-ins for GPUs.

    Raises:
        ClusterError: ordinary users cannot come to the folder, others can write there, or no device can be made.
    """
    wall = closed(layout.directory.resolve().parent)
    if wall is not None:
        raise ClusterError(f"{layout.directory}: ordinary users cannot enter {wall}: choose another --dir")
    layout.directory.mkdir(parents=True, exist_ok=True)
    require_ours(layout.directory)
    owners = {
        "": "root",
        "etc": "root",
        "dev": "root",
        "bin": "root",
        "home": "root",
        "log": "root",
        "run": "root",
        "spool": "root",
        "run/munge": "root",
        "run/mps": "root",
        "spool/rad": "root",
        "state": "slurm",
        "log/slurmctld": "slurm",
        "run/slurmctld": "slurm",
        "log/slurmdbd": "slurm",
        "run/slurmdbd": "slurm",
        "run/db": "mysql",
        "db": "mysql",
        "models": "rad",
        "run/rad": "rad",
        **{f"home/{user}": user for user in USERS},
        **{f"spool/{name}": "root" for name in layout.slurmds},
    }
    for name, owner in owners.items():
        path = layout.directory / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
        entry = pwd.getpwnam(owner)
        os.chown(path, entry.pw_uid, entry.pw_gid)
    key = layout.etc / "munge.key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
    for index in range(len(layout.real_gpus), layout.gpus + len(layout.instances)):
        _make_device(Path(layout.device(index)), index)


def write_settings(layout: Layout, rad: Rad | None) -> None:
    """Configuration of Slurm, and of RAD where it takes part."""
    texts: dict[str, str] = {
        "slurm.conf": settings.slurm_conf(layout, rad=rad is not None),
        "gres.conf": settings.gres_conf(layout),
        "slurmdbd.conf": settings.slurmdbd_conf(layout),
        "cgroup.conf": settings.cgroup_conf(_slurm_version()),
    }
    if rad is not None:
        base: Mapping[str, Any] = {}
        if rad.config is not None:
            base = tomllib.loads(rad.config.read_text(encoding="utf-8"))
        texts["rad.toml"] = settings.toml(settings.rad_settings(layout, base))
        _write_hooks(layout, rad)
    for name, text in texts.items():
        path = layout.etc / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # by its time doctor knows a new rad.toml
            path.write_text(text, encoding="utf-8")
    secret = layout.etc / "slurmdbd.conf"
    secret.chmod(0o600)
    os.chown(secret, pwd.getpwnam("slurm").pw_uid, -1)


def _write_hooks(layout: Layout, rad: Rad) -> None:
    """What an admin copies, each behind lines that say where this cluster has its things."""
    code = _code(layout, rad)
    if code != rad.checkout:
        for name in ("slurm_hooks", "estimator", "predictor", "etc"):
            shutil.copytree(rad.checkout / name, code / name, dirs_exist_ok=True)
    for name in ("job_submit.lua", "cli_filter.lua"):
        begin = f'package.path = "{code}/slurm_hooks/lua/?.lua;" .. package.path\n'
        begin += f'require("rad").socket = "{layout.run}/rad/radd.sock"\n'
        begin += "".join(f'require("rad").{key} = {value}\n' for key, value in rad.hook)
        (layout.etc / name).write_text(begin + (code / "etc" / name).read_text(encoding="utf-8"), encoding="utf-8")
    chosen = for_everybody(rad.python)
    env = {
        MARKER: layout.directory,
        "RAD_CONFIG": layout.rad_toml,
        "RAD_KEPT": layout.kept,
        "RAD_PYTHON": chosen.python,
        "PYTHONPATH": python_path(layout, rad, chosen),
    }
    exports = "".join(f"export {name}='{value}'\n" for name, value in env.items())
    commands = {layout.etc / name: f"'{code}/etc/{name}'" for name in ("prolog.sh", "task_prolog.sh", "epilog.sh")}
    commands[layout.bin / "radctl"] = f"'{chosen.python}' -m slurm_hooks.radctl"
    for path, command in commands.items():
        path.write_text(f'#!/bin/sh\n{exports}exec {command} "$@"\n', encoding="utf-8")
        path.chmod(0o755)


def python_path(layout: Layout, rad: Rad, chosen: Interpreter) -> str:
    """Where RAD's interpreter finds its code and packages."""
    return ":".join(str(folder) for folder in (_code(layout, rad), chosen.packages) if folder is not None)


def _code(layout: Layout, rad: Rad) -> Path:
    """The checkout, or, where ordinary users cannot come to it, a copy of what of it runs."""
    return rad.checkout if closed(rad.checkout) is None else layout.directory / "code"


def make_database_folder(layout: Layout) -> None:
    """An empty database, for the first start of MariaDB."""
    plain(
        [
            "mariadb-install-db",
            "--no-defaults",
            "--user=mysql",
            f"--datadir={layout.directory}/db",
            f"--tmpdir={layout.run}/db",  # in a common one each that starts removes the others' files
            "--auth-root-authentication-method=socket",
            "--skip-test-db",
            "--force",  # also where neither this machine's name nor localhost resolves
        ]
    )


def plain(argv: Sequence[str]) -> None:
    """Run a command of the machine's.

    Raises:
        ClusterError: it failed.
    """
    done = subprocess.run(list(argv), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{argv[0]}: exit status {done.returncode}: {done.stdout}{done.stderr}")


def _slurm_version() -> tuple[int, int]:
    """Version of the Slurm of this machine, for example (22, 5)."""
    said = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _make_device(path: Path, index: int) -> None:
    """A stand-in for a GPU's device file: Slurm wants a character device, and nothing ever opens it."""
    if path.exists():
        return
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(NVIDIA_MAJOR, index))
    except PermissionError as error:
        raise ClusterError(f"{path}: device nodes cannot be made here: run with CAP_MKNOD") from error
