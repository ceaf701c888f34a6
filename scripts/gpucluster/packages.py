"""Slurm on a machine without package sources: Debian's package files, fetched before and unpacked beside what is there.

`fetch` asks apt-get; `unpack` writes below / , but never over a file that exists, and never a library that the machine
has already in any version of the same name. Adds system users that the packages' scripts would have made.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from scripts.devcluster import ClusterError

PACKAGES = (
    "slurm-wlm",
    "slurmctld",
    "slurmd",
    "slurm-client",
    "slurmdbd",
    "slurm-wlm-mysql-plugin",
    "slurm-wlm-basic-plugins",
    "munge",
    "mariadb-server-core",
    "mariadb-client-core",
    "lua-socket",
    "lua-posix",
)
# What every Debian or Ubuntu has, or what only matters to a package manager.
LEFT_OUT = re.compile(
    r"libc6|gcc-.*|libgcc-s1|libstdc\+\+6|dpkg|tar|debconf|cdebconf|adduser|libpam.*|install-info|sensible-utils|ucf|"
    r"sysvinit-utils|lsb-base|.*-common|libdebian-installer4|libtextwrap1|libnewt.*|libslang2|libelogind0"
)
USERS = ("munge", "slurm", "mysql")
COMMANDS = ("slurmd", "slurmctld", "slurmdbd", "munged", "mariadbd", "mariadb-install-db", "sbatch", "sacctmgr")
# Where NVIDIA's driver may lie when a container or virtual machine brings it in.
DRIVER_FOLDERS = (Path("/usr/local/nvidia"), Path("/usr/lib/nvidia"), Path("/opt/nvidia"))
DRIVER_PROGRAMS = ("nvidia-smi", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")


class PackageError(ClusterError):
    """Package files that cannot be fetched or unpacked; the message says what to do."""


def fetch(folder: Path) -> list[Path]:
    """Download the package files with all that they depend on into `folder`, on a Debian with package sources.

    Raises:
        PackageError: if apt-get cannot.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked = ["--recurse", *(f"--no-{kind}" for kind in _KINDS)]
    names = _output(["apt-cache", "depends", *asked, *PACKAGES]).splitlines()
    wanted = sorted({name for name in names if re.match(r"[a-z0-9]", name)})
    wanted = [name for name in wanted if not LEFT_OUT.fullmatch(name)]
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        _output(["apt-get", "-qq", "download", *wanted], cwd=Path(fresh))
        for old in folder.glob("*.deb"):
            old.unlink()
        for deb in Path(fresh).glob("*.deb"):
            deb.rename(folder / deb.name)
    return sorted(folder.glob("*.deb"))


_KINDS = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")


def unpack(folder: Path) -> list[str]:
    """Put what the machine lacks in its place.

    Args:
        folder: holds package files.

    Returns:
        What was done, a line for each thing.

    Raises:
        PackageError: if a program is missing afterwards.
    """
    said = []
    if any(shutil.which(name) is None for name in COMMANDS):
        debs = sorted(folder.glob("*.deb"))
        if not debs:
            raise PackageError(f"{folder}: no package files: run scripts/gpu-cluster fetch on a Debian 12 before")
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch)
            for deb in debs:
                _output(["dpkg-deb", "-x", str(deb), scratch])
            said.append(f"{_merge(root, Path('/'))} files of {len(debs)} packages put beside what was there")
        for name in ("slurmctld", "slurmd", "slurmstepd"):
            link, target = Path("/usr/sbin") / name, Path("/usr/sbin") / f"{name}-wlm"
            if target.exists() and not link.exists():
                link.symlink_to(target.name)
    said += driver()
    _output(["ldconfig"])
    for user in USERS:
        try:
            pwd.getpwnam(user)
        except KeyError:
            _output(["useradd", "--system", "--no-create-home", "--user-group", "--shell", "/usr/sbin/nologin", user])
            said.append(f"user {user} made")
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise PackageError(f"not there after unpacking: {', '.join(missing)}")
    return said


def _merge(root: Path, target: Path) -> int:
    """Copy what is missing; the number of files."""
    have = libraries()
    count = 0
    for folder, folders, files in os.walk(root):
        below = Path(folder).relative_to(root)
        parts = below.parts
        if parts and parts[0] in ("bin", "sbin", "lib", "lib64"):  # all of today's systems have these in /usr
            below = Path("usr", *parts)
        known = {name for name in files if skipped(name, Path(folder), have)}
        for name in [*folders]:
            if not (Path(folder) / name).is_symlink():
                (target / below / name).mkdir(parents=True, exist_ok=True)
        for name in files + [name for name in folders if (Path(folder) / name).is_symlink()]:
            source, place = Path(folder) / name, target / below / name
            if name in known or os.path.lexists(place):
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)
            count += 1
    return count


def skipped(name: str, folder: Path, have: frozenset[str]) -> bool:
    """Whether a file is a library, or a link to one, that the machine has under the same name.

    `ldconfig` would else let the newest of both stand for all programs.
    """
    if not re.match(r"lib.*\.so\.", name):
        return False
    target = (folder / name).resolve()
    names = {name} | {link.name for link in folder.glob("lib*.so.*") if link.is_symlink() and link.resolve() == target}
    return bool(names & have)


def libraries() -> frozenset[str]:
    """Names of the libraries that the machine's loader finds."""
    return frozenset(re.findall(r"^\s+(\S+) \(", _output(["ldconfig", "-p"]), re.MULTILINE))


def driver() -> list[str]:
    """Let users and daemons, whose environment is bare, find a driver that lies outside the system's folders."""
    said = []
    places = [folder for top in DRIVER_FOLDERS for folder in (top, top / "bin", top / "lib64", top / "lib")]
    places += [
        Path(entry) for key in ("PATH", "LD_LIBRARY_PATH") for entry in os.environ.get(key, "").split(":") if entry
    ]
    for name in DRIVER_PROGRAMS:
        found = next((place / name for place in places if (place / name).is_file()), None)
        link = Path("/usr/bin") / name
        if found is not None and not os.path.lexists(link):
            link.symlink_to(found)
            said.append(f"{link} leads to {found}")
    if "libcuda.so.1" not in libraries():
        found = next((place for place in places if (place / "libcuda.so.1").exists()), None)
        if found is not None:
            Path("/etc/ld.so.conf.d/rad-gpu.conf").write_text(f"{found}\n", encoding="utf-8")
            said.append(f"libraries of {found} made known")
    return said


def _output(argv: Iterable[str], cwd: Path | None = None) -> str:
    words = list(argv)
    env = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    except FileNotFoundError as error:
        raise PackageError(f"{words[0]} is not on this machine") from error
    if done.returncode:
        raise PackageError(f"{' '.join(words[:4])}: exit status {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout
