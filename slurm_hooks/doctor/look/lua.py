"""Slurm's Lua: its version, and where its modules lie. Reads only."""

from __future__ import annotations

import re
from pathlib import Path

import slurm_hooks
from slurm_hooks.doctor.look.files import text_of

_LUA_DIRS = ("/usr/local/share/lua", "/usr/local/lib/lua", "/usr/share/lua", "/usr/lib/lua", "/usr/lib64/lua")


def version(plugin_dir: str) -> str:
    """Version of Lua that Slurm's plugin was built with: the library's name stands in its file."""
    try:
        data = (Path(plugin_dir) / "job_submit_lua.so").read_bytes()
    except OSError:
        return ""
    found = re.search(rb"liblua-?(5\.\d)", data)
    return found.group(1).decode() if found else ""


def module(root: Path, lua: str, name: str) -> str:
    """Where a module of this Lua lies; of any Lua where its version is not known."""
    folders = [root / folder.lstrip("/") for folder in _LUA_DIRS]
    folders += sorted((root / "usr/lib").glob("*-linux-gnu/lua"))
    found = (path for folder in folders for path in sorted(folder.glob(f"{lua or '5.*'}/{name}")))
    return str(next(found, ""))


def is_ours(name: str, path: str) -> bool:
    """Whether a Lua module is the one that came with this RAD, or cannot be compared with it."""
    ours, other = text_of(Path(slurm_hooks.__file__).with_name("lua") / f"{name}.lua"), text_of(Path(path))
    return None in (ours, other) or ours == other
