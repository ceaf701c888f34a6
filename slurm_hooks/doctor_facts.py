"""Gathers what `slurm_hooks.doctor` judges: Slurm's configuration, files, Lua modules, radd's socket, NVML.

Reads only, but for one connection each to radd and rad-monitor that it closes at once.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import socket
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from predictor import nvml
from slurm_hooks.config import Config
from slurm_hooks.doctor import COMMANDS, HOOKS, LUA_MODULES, Facts, FileFact, NodeFact
from slurm_hooks.search import take_path
from slurm_hooks.slurm.commands import Runner, SlurmError, run

_SETTING = re.compile(r"^(\S+)\s+= (.*)$")
_LUA_DIRS = ("/usr/local/share/lua", "/usr/local/lib/lua", "/usr/share/lua", "/usr/lib/lua", "/usr/lib64/lua")
_TEXT_LIMIT = 1024 * 1024
_CONNECT_TIMEOUT_S = 1.0
_OF_HOOKS = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"  # where etc/prolog.sh and etc/epilog.sh look for commands
_RAD_PATH = re.compile(r"^[ \t]*(?:export[ \t]+)?(?:\w+=\S*[ \t]+)*RAD_PATH=([\"']?)([^\s\"'#;]+)\1", re.MULTILINE)
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


def gather(config: Config, path: Path, runner: Runner = run, root: Path = Path("/")) -> Facts:
    """All facts of this machine.

    Args:
        config: names the paths and users to look at.
        path: the configuration's file.
        runner: starts Slurm's commands.
        root: folder below which Lua modules and systemd are looked for.
    """
    settings, partitions, nodes, error = _slurm(runner, config.radd.command_timeout_s)
    billing, modes, sharing = (
        _by_partition(partitions, what) for what in ("TRESBillingWeights", "PreemptMode", "OverSubscribe")
    )
    folder = Path(settings["SLURM_CONF"]).parent if settings.get("SLURM_CONF") else None
    lua_version = _lua_version(settings.get("PluginDir", ""))
    folders = (config.node.state_dir, config.node.spool_dir, config.mps.run_dir)
    paths = (
        config.radd.socket,
        config.mps.control,
        *(path for name in HOOKS for path in settings.get(name, "").split(",") if path),
    )
    of_hooks, smi = _path_of_hooks(settings), config.mps.nvidia_smi
    slurmdbd_error = _slurmdbd(runner, config.radd.command_timeout_s)
    answers = not slurmdbd_error  # else each question would wait for its whole time
    limits, least = _limits(runner, config.radd.command_timeout_s) if answers else ({}, {})
    radd_user = _owner(config.radd.socket)
    gpus, instances, nvml_error = _gpus()
    return Facts(
        slurm_error=error,
        settings=settings,
        partitions=frozenset(billing),
        preempted=frozenset(name for name, mode in modes.items() if mode not in ("", "OFF")),
        whole=frozenset(name for name, mode in sharing.items() if mode == "EXCLUSIVE"),
        billing=billing,
        slurmdbd_error=slurmdbd_error,
        limits=limits,
        least=least,
        nodes=tuple(nodes),
        gres_conf=_text(folder / "gres.conf") if folder else None,
        scripts={name: _text(folder / name) if folder else None for name in ("job_submit.lua", "cli_filter.lua")},
        lua_version=lua_version,
        lua_modules={
            **{name: _lua_module(root, lua_version, f"{name}.lua") for name in LUA_MODULES},
            "socket.unix": _lua_module(root, lua_version, "socket/unix.so"),
            "posix": _lua_module(root, lua_version, "posix/init.lua"),
        },
        files={
            **{path: _file(path, follow=path not in folders) for path in (*paths, *folders)},
            smi: _file(shutil.which(smi, path=of_hooks) or smi, follow=True),
        },
        users=_users((config.radd.slurm_user,)),
        radd_error=_connect(config.radd.socket),
        radd_user=radd_user,
        radd_rights=_rights(runner, radd_user, config.radd.command_timeout_s) if radd_user and answers else None,
        timer=_timer(runner, root, config.radd.command_timeout_s),
        monitor_error=_reach(config.monitor.listen, config.monitor.port) if config.monitor.listen else None,
        gpus=gpus,
        instances=instances,
        nvml_error=nvml_error,
        programs={name: shutil.which(name, path=of_hooks) or "" for name in COMMANDS},
        elsewhere={
            name: shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}") or "" for name in COMMANDS
        },
        host=socket.gethostname().partition(".")[0],
        absent="" if path.exists() else str(path),
        closed=_closed(path),
        changed=_changed_at(path) > _changed_at(Path(config.radd.socket)) > 0,
    )


def parse_settings(text: str) -> dict[str, str]:
    """What ``scontrol show config`` prints; ``(null)`` becomes the empty string.

    Later versions number hooks, of which there may be several: ``Prolog[0] = ...``; they are joined by commas.
    """
    settings: dict[str, str] = {}
    for line in text.splitlines():
        if found := _SETTING.match(line):
            name, value = found.group(1), found.group(2).strip().replace("(null)", "")
            hook = re.fullmatch(r"(\w*(?:Prolog|Epilog)\w*)\[\d+\]", name)
            name = hook.group(1) if hook else name
            settings[name] = f"{settings[name]},{value}" if hook and settings.get(name) else value
    return settings


def parse_nodes(text: str) -> list[NodeFact]:
    """Lines of ``scontrol show node -o``."""
    nodes = []
    for line in text.splitlines():
        fields = dict(re.findall(r"(?:^| )([A-Za-z]+)=(\S*)", line))
        fields = {name: "" if value == "(null)" else value for name, value in fields.items()}
        if fields.get("NodeName"):
            nodes.append(
                NodeFact(
                    fields["NodeName"],
                    fields.get("NodeHostName", ""),
                    fields.get("Gres", ""),
                    frozenset(filter(None, fields.get("Partitions", "").split(","))),
                    frozenset(filter(None, fields.get("AvailableFeatures", "").split(","))),
                )
            )
    return nodes


def _slurm(runner: Runner, timeout_s: float) -> tuple[Mapping[str, str], str, list[NodeFact], str]:
    try:
        settings = parse_settings(runner(["scontrol", "show", "config"], timeout_s))
        partitions = runner(["scontrol", "show", "partition", "-o"], timeout_s)
        return settings, partitions, parse_nodes(runner(["scontrol", "show", "node", "-o"], timeout_s)), ""
    except SlurmError as error:
        return {}, "", [], str(error)


def _by_partition(shown: str, what: str) -> dict[str, str]:
    """What ``scontrol show partition -o`` says of each partition; the empty string where it says nothing."""
    return dict(re.findall(rf"^PartitionName=(\S+)(?:.* {what}=(\S+))?", shown, re.M))


def _text(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_TEXT_LIMIT)
    except OSError:
        return None


def _lua_version(plugin_dir: str) -> str:
    """Version of Lua that Slurm's plugin was built with: the library's name stands in its file."""
    try:
        data = (Path(plugin_dir) / "job_submit_lua.so").read_bytes()
    except OSError:
        return ""
    found = re.search(rb"liblua-?(5\.\d)", data)
    return found.group(1).decode() if found else ""


def _lua_module(root: Path, version: str, name: str) -> str:
    """Where a module of this Lua lies; of any Lua where its version is not known."""
    folders = [root / folder.lstrip("/") for folder in _LUA_DIRS]
    folders += sorted((root / "usr/lib").glob("*-linux-gnu/lua"))
    found = (path for folder in folders for path in sorted(folder.glob(f"{version or '5.*'}/{name}")))
    return str(next(found, ""))


def _file(path: str, *, follow: bool) -> FileFact:
    try:
        found = Path(path).stat(follow_symlinks=follow)
    except OSError:
        return FileFact()
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link"))
    kind = next((name for test, name in kinds if test(found.st_mode)), "other")
    return FileFact(kind, found.st_mode & 0o7777, found.st_uid, found.st_gid)  # type: ignore[arg-type]


def _closed(path: Path) -> str:
    """The first of a path's folders, or its file, that not everybody may use; the empty string where all may."""
    with contextlib.suppress(OSError):
        *folders, file = [*reversed(path.absolute().parents), path]
        for folder in folders:
            if not folder.stat().st_mode & stat.S_IXOTH:
                return str(folder)
        if not file.stat().st_mode & stat.S_IROTH:
            return str(file)
    return ""


def _path_of_hooks(settings: Mapping[str, str]) -> str:
    """Where Prolog and Epilog look for commands: what they, or rad.env beside them or where RAD is installed, say."""
    hooks = [Path(path) for name in HOOKS for path in settings.get(name, "").split(",") if path]
    files = [*hooks, *(hook.with_name("rad.env") for hook in hooks), Path(sys.prefix, "etc", "rad.env")]
    found = (list(_RAD_PATH.finditer(_text(file) or "")) for file in files)
    env = {"PATH": _OF_HOOKS, "RAD_PATH": next((said[-1].group(2) for said in found if said), "")}  # as a shell does
    take_path(env)
    return env["PATH"]


def _changed_at(path: Path) -> float:
    """When a file was last written, or a socket made; 0 where there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _owner(path: str) -> str:
    """Name of the user that a path belongs to; the empty string where there is none."""
    try:
        return Path(path).owner()
    except (OSError, KeyError):
        return ""


def _rights(runner: Runner, user: str, timeout_s: float) -> str | None:
    """A user's AdminLevel in slurmdbd; the empty string for a user that it does not know, None where it is silent."""
    try:
        shown = runner(["sacctmgr", "-n", "-P", "show", "user", user, "format=AdminLevel"], timeout_s)
    except SlurmError:
        return None
    return shown.strip()


def _timer(runner: Runner, root: Path, timeout_s: float) -> str | None:
    """The state of rad-spool.timer, or None where no systemd runs or it does not tell."""
    if not (root / "run/systemd/system").is_dir():
        return None
    try:
        return runner(["systemctl", "show", "--property=ActiveState", "--value", "rad-spool.timer"], timeout_s).strip()
    except SlurmError:
        return None


def _slurmdbd(runner: Runner, timeout_s: float) -> str:
    """Why slurmdbd does not answer, or the empty string."""
    try:
        runner(["sacctmgr", "-n", "-P", "show", "cluster", "format=Cluster"], timeout_s)
    except SlurmError as error:
        return str(error)
    return ""


def _limits(runner: Runner, timeout_s: float) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Limits of QOSs and of associations by whose they are, and what QOSs want at least; those that slurmdbd tells."""

    def rows(what: str, columns: str) -> list[list[str]]:
        try:
            shown = runner(["sacctmgr", "-n", "-P", "show", what, f"format={columns}"], timeout_s)
        except SlurmError:
            return []
        return [line.split("|") for line in shown.splitlines()]

    found: dict[str, tuple[str, ...]] = {}
    least: dict[str, str] = {}
    for name, *lists in rows("qos", "Name,GrpTRES,MaxTRES,MaxTRESPU,MaxTRESPA,MinTRES"):
        least[name] = lists.pop() if lists else ""
        found[f"QOS {name}"] = tuple(lists)
    for whose, *lists in rows("assoc", "Account,GrpTRES,MaxTRES,User"):
        user = lists.pop() if lists else ""
        found[f"user {user} of {whose}" if user else f"account {whose}"] = tuple(lists)
    return found, least


def _users(names: Iterable[str]) -> dict[str, tuple[int, int]]:
    found = {}
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        found[name] = (entry.pw_uid, entry.pw_gid)
    return found


def _connect(path: str) -> str | None:
    """Why radd takes no connection; the empty string where it does, None where only its own users may try."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_CONNECT_TIMEOUT_S)
        try:
            client.connect(path)
        except PermissionError:
            return None
        except OSError as error:
            return f"{path}: {error.strerror or error}"
    return ""


def _reach(listen: str, port: int) -> str:
    """Why nothing takes connections at an address; the empty string where something does."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)  # noqa: S104 - compared, not bound
    try:
        socket.create_connection((host, port), _CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return ""


def _gpus() -> tuple[int | None, tuple[tuple[str, int], ...], str]:
    """Number of GPUs that are not in MIG mode, or None and why NVML does not tell; and the MIG instances."""
    try:
        pynvml = nvml.load()
    except nvml.NvmlMissingError as error:
        return None, (), str(error)
    try:
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            found = [nvml.instances(pynvml, handle) for handle in handles]
            return found.count(None), tuple(one for several in found if several is not None for one in several), ""
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return None, (), str(error)
