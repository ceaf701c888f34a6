"""Texts, kinds and owners of files, and to whom they are closed. Reads only."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from slurm_hooks.config import Config
from slurm_hooks.doctor.facts import FileFact

_TEXT_LIMIT = 1024 * 1024
_INCLUDE = re.compile(r"^[ \t]*include[ \t]+(\S+).*$", re.IGNORECASE | re.MULTILINE)
_INCLUDES = 4  # of includes within includes
NOBODY = 65534
_LITTLE = 64 * 1024  # bytes that are as good as none


def text_of(path: Path) -> str | None:
    """What a text file holds, or None where it cannot be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_TEXT_LIMIT)
    except OSError:
        return None


def folder_of(slurm_conf: str, root: Path) -> Path | None:
    """Where slurm.conf and the files beside it lie here; slurmctld names its own, which a configless node lacks."""
    cache = root / "run/slurm/conf"
    seen = os.path.exists(slurm_conf)  # noqa: PTH110 - Path's raises where a folder is closed to whoever asks
    if slurm_conf and not seen and (cache / "slurm.conf").exists():
        return cache
    return Path(slurm_conf).parent if slurm_conf else None


def with_included(path: Path, depth: int = _INCLUDES) -> str | None:
    """A text file of Slurm's with those that it includes."""
    text = text_of(path)
    if text is None or not depth:
        return text
    return _INCLUDE.sub(lambda found: with_included(path.parent / found.group(1), depth - 1) or "", text)


def fact_of(path: str, *, follow: bool) -> FileFact:
    """What lies at a path, or where a link there leads."""
    try:
        found = Path(path).stat(follow_symlinks=follow)
    except OSError:
        return FileFact()
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link"))
    kind = next((name for test, name in kinds if test(found.st_mode)), "other")
    full = kind == "directory" and _is_full(path)
    return FileFact(kind, found.st_mode & 0o7777, found.st_uid, found.st_gid, full)  # type: ignore[arg-type]


def _is_full(folder: str) -> bool:
    """Whether not even root can put anything into a folder; some file systems count no files, or nothing."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    no_room = found.f_bfree * found.f_frsize < _LITTLE and found.f_blocks > 0
    return no_room or (found.f_ffree == 0 and found.f_files > 0)


def changed_at(path: Path) -> float:
    """When a file was last written, or a socket made; 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def owner(path: str) -> str:
    """Name of the user that a path belongs to; the empty string where there is none."""
    try:
        return Path(path).owner()
    except (OSError, KeyError):
        return ""


def users_named(names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Numbers of users and of their groups; users whom the system does not know are left out."""
    found = {}
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        found[name] = (entry.pw_uid, entry.pw_gid)
    return found


def closed(path: Path, uid: int = NOBODY, gids: Collection[int] = ()) -> str:
    """The first of a path's folders, or what lies there, that a user may not use; the empty string where he may."""
    if uid == 0:  # nothing is closed to root
        return ""
    with contextlib.suppress(OSError, RuntimeError):  # absent, or links in a circle
        for place in (path.absolute(), path.resolve()):
            for part in (*reversed(place.parents), place):
                found = part.stat()
                classes = 0o100 * (found.st_uid == uid) | 0o10 * (found.st_gid in gids) | 0o1
                bit = stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else stat.S_IROTH
                if not found.st_mode & classes * bit:
                    return str(part)
    return ""


def all_closed(
    config: Config, path: Path, folder: Path | None, lua_modules: Iterable[str], users: Mapping[str, tuple[int, int]]
) -> dict[str, str]:
    """What those who need it may not use, by subject: the first thing on the way to it that is closed to them."""
    found = {
        "rad.toml": closed(path),
        "[node] state_dir": closed(Path(config.node.state_dir)),
        "[mps] run_dir": closed(Path(config.mps.run_dir)),
        "Lua module rad": next(filter(None, (closed(Path(at)) for at in lua_modules if at)), ""),
    }
    if folder and not closed(folder / "slurm.conf"):  # else no user can run a command of Slurm's here
        found["cli_filter.lua"] = closed(folder / "cli_filter.lua")
    for user, (uid, gid) in users.items():
        gids = os.getgrouplist(user, gid)
        found["radd socket"] = closed(Path(config.radd.socket).parent, uid, gids)
        found["job_submit.lua"] = closed(folder / "job_submit.lua", uid, gids) if folder else ""
    return {what: closed for what, closed in found.items() if closed}
