"""Which Python runs RAD in a cluster: radd, the hooks and the users' radctl run as users that cannot enter /root.

Reads the file system's permissions and asks interpreters for their version and folders.
"""

from __future__ import annotations

import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from scripts.devcluster.layout import ClusterError

SYSTEM_PYTHON = Path("/usr/bin/python3")
_ASK = "import sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_path('purelib'))"


@dataclass(frozen=True)
class Interpreter:
    """A Python that everybody may start, and the folder of its packages where it does not find them by itself."""

    python: Path
    packages: Path | None = None


def closed(path: Path) -> Path | None:
    """The outermost folder on the way to `path`, itself included, that ordinary users cannot enter, or None."""
    way = [*reversed(path.parents), path]
    return next((folder for folder in way if not folder.stat().st_mode & stat.S_IXOTH), None)


def for_everybody(python: Path) -> Interpreter:
    """`python` where users can start it; else the system's Python with the packages of `python`.

    Raises:
        ClusterError: if there is none, or users can use neither; the message says what to do.
    """
    python = python.absolute()  # not resolved: that of a virtual environment is a link out of it
    if not python.is_file():
        raise ClusterError(f"{python}: no such file")
    if closed(python.parent) is None and closed(python.resolve().parent) is None:
        return Interpreter(python)
    version, packages = _ask(python)
    if SYSTEM_PYTHON.exists() and _ask(SYSTEM_PYTHON)[0] == version and closed(packages) is None:
        return Interpreter(SYSTEM_PYTHON, packages)
    raise ClusterError(
        f"{python}: ordinary users cannot start this Python {version}, nor use its packages with {SYSTEM_PYTHON}: "
        f"make a virtual environment outside {closed(packages) or closed(python.resolve().parent)}"
    )


def _ask(python: Path) -> tuple[str, Path]:
    said = subprocess.run([str(python), "-c", _ASK], capture_output=True, text=True, check=True).stdout
    version, packages = said.strip().split(" ", 1)
    return version, Path(packages)
