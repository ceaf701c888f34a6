"""Gathers what `slurm_hooks.doctor` judges: Slurm's configuration, files, Lua modules, radd's socket, NVML.

Reads only, but for one connection each to radd and rad-monitor that it closes at once, and TaskProlog, which it runs
without a job and, for root, as nobody.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from estimator.methods import load_method
from predictor import nvml
from slurm_hooks.config import Config
from slurm_hooks.doctor import COMMANDS, HOOKS, LUA_MODULES, Facts, FileFact, NodeFact
from slurm_hooks.node.kept import Kept
from slurm_hooks.search import take_path
from slurm_hooks.slurm.commands import Runner, SlurmError, run

_SETTING = re.compile(r"^(\S+)\s+= (.*)$")
_LUA_DIRS = ("/usr/local/share/lua", "/usr/local/lib/lua", "/usr/share/lua", "/usr/lib/lua", "/usr/lib64/lua")
_TEXT_LIMIT = 1024 * 1024
_CONNECT_TIMEOUT_S = 1.0
_OF_HOOKS = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"  # where etc/prolog.sh and etc/epilog.sh look for commands
_SAID = r"^[ \t]*(?:export[ \t]+)?(?:\w+=\S*[ \t]+)*{}=([\"']?)(?!\${{RAD_)([^\s\"'#;]+)\1"
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
_NAMES_RAD = re.compile(r"slurm_hooks|\brad\b|/(?:prolog|epilog)\.sh\b")
_INCLUDE = re.compile(r"^[ \t]*include[ \t]+(\S+).*$", re.IGNORECASE | re.MULTILINE)
_INCLUDES = 4  # of includes within includes
_NOBODY = 65534
_TASK_PROLOG_S = 10.0
# What RAD's TaskProlog does without a job: an MPS daemon's pipes that are not the job's it takes away.
_TASK = {"PATH": os.defpath, "SLURM_JOB_GPUS": "0", "CUDA_MPS_PIPE_DIRECTORY": "/g0/u0/pipe"}
_TASK_ANSWER = "unset CUDA_MPS_PIPE_DIRECTORY"


def gather(
    config: Config, path: Path, kept: Kept, unusable: str = "", runner: Runner = run, root: Path = Path("/")
) -> Facts:
    """All facts of this machine.

    Args:
        config: names the paths and users to look at.
        path: the configuration's file.
        kept: where this machine keeps a copy of it.
        unusable: why `config` is that copy's; else empty.
        runner: starts Slurm's commands.
        root: folder below which Lua modules and systemd are looked for.
    """
    settings, partitions, nodes, error = _slurm(runner, config.radd.command_timeout_s)
    hooks = {name: _scripts(settings[name]) for name in HOOKS if settings.get(name)}
    settings = {**settings, **{name: ",".join(paths) for name, paths in hooks.items()}}
    billing, modes, sharing = (
        _by_partition(partitions, what) for what in ("TRESBillingWeights", "PreemptMode", "OverSubscribe")
    )
    folder = _folder(settings.get("SLURM_CONF", ""), root)
    lua_version = _lua_version(settings.get("PluginDir", ""))
    folders = (config.node.state_dir, config.node.spool_dir, config.mps.run_dir, kept.path)
    paths = (
        config.radd.socket,
        config.mps.control,
        *(path for paths in hooks.values() for path in paths),
    )
    users = _users((config.radd.slurm_user,))
    lua_modules = {name: _lua_module(root, lua_version, f"{name}.lua") for name in LUA_MODULES}
    of_hooks, smi = _path_of_hooks(settings), config.mps.nvidia_smi
    slurmdbd_error = _slurmdbd(runner, config.radd.command_timeout_s)
    answers = not slurmdbd_error  # else each question would wait for its whole time
    limits, least = _limits(runner, config.radd.command_timeout_s) if answers else ({}, {})
    radd_user = _owner(config.radd.socket)
    gpus, memory_mib, instances, nvml_error = _gpus()
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
        unnamed=frozenset(name for name in ("Prolog", "Epilog") if not _name_rad(hooks.get(name, ()))),
        task_prolog=next(map(_task_prolog, hooks.get("TaskProlog", ())), ""),
        gres_conf=_with_included(folder / "gres.conf") if folder else None,
        scripts={name: _text(folder / name) if folder else None for name in ("job_submit.lua", "cli_filter.lua")},
        lua_version=lua_version,
        lua_modules={
            **lua_modules,
            "socket.unix": _lua_module(root, lua_version, "socket/unix.so"),
            "posix": _lua_module(root, lua_version, "posix/init.lua"),
        },
        lua_other=next((at for name, at in lua_modules.items() if at and not _is_ours(name, at)), ""),
        files={
            **{path: _file(path, follow=path not in folders) for path in (*paths, *folders)},
            smi: _file(shutil.which(smi, path=of_hooks) or smi, follow=True),
            "rad.toml": _file(str(path), follow=True),
        },
        users=users,
        radd_error=_connect(config.radd.socket),
        model_error=_model(config),
        radd_user=radd_user,
        radd_rights=_rights(runner, radd_user, config.radd.command_timeout_s) if radd_user and answers else None,
        timer=_timer(runner, root, config.radd.command_timeout_s),
        monitor_error=_reach(config.monitor.listen, config.monitor.port) if config.monitor.listen else None,
        gpus=gpus,
        memory_mib=memory_mib,
        instances=instances,
        nvml_error=nvml_error,
        programs={name: shutil.which(name, path=of_hooks) or "" for name in COMMANDS},
        elsewhere={
            name: shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}") or "" for name in COMMANDS
        },
        host=socket.gethostname().partition(".")[0],
        absent="" if path.exists() else str(path),
        read=read if (read := _said_to_hooks(settings, "RAD_CONFIG")) and not _is_same(path, read) else "",
        closed=_all_closed(config, path, folder, lua_modules.values(), users),
        changed=_changed_at(path) > _changed_at(Path(config.radd.socket)) > 0,
        unusable=unusable,
        kept=kept.path,
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
                    fields.get("State", ""),
                    reason.group(1) if (reason := re.search(r" Reason=(.*?)(?: \[|$)", line)) else "",
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


def _folder(slurm_conf: str, root: Path) -> Path | None:
    """Where slurm.conf and the files beside it lie here; slurmctld names its own, which a configless node lacks."""
    cache = root / "run/slurm/conf"
    seen = os.path.exists(slurm_conf)  # noqa: PTH110 - Path's raises where a folder is closed to whoever asks
    if slurm_conf and not seen and (cache / "slurm.conf").exists():
        return cache
    return Path(slurm_conf).parent if slurm_conf else None


def _with_included(path: Path, depth: int = _INCLUDES) -> str | None:
    """A text file of Slurm's with those that it includes."""
    text = _text(path)
    if text is None or not depth:
        return text
    return _INCLUDE.sub(lambda found: _with_included(path.parent / found.group(1), depth - 1) or "", text)


def _scripts(setting: str) -> list[str]:
    """The scripts that Prolog= and its like name: paths, or patterns of paths; a pattern that fits nothing stays."""
    named = [path for path in setting.split(",") if path]
    return [found for path in named for found in sorted(glob.glob(path)) or [path]]  # noqa: PTH207 - no root is known


def _name_rad(scripts: Iterable[str]) -> bool:
    """Whether one of some scripts names something of RAD's, or may, as none can be read."""
    texts = [_text(Path(path)) for path in scripts]
    return None in texts or not texts or any(_NAMES_RAD.search(text or "") for text in texts)


def _task_prolog(path: str) -> str:
    """Why a TaskProlog does not come to RAD when an ordinary user runs it; the empty string where it does."""
    user: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        done = subprocess.run(
            [path],
            env=_TASK,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TASK_PROLOG_S,
            check=False,
            start_new_session=True,  # nobody is to have no terminal of root's
            **user,
        )
        said = done.stderr.decode(errors="replace").split("\n")
        if _TASK_ANSWER in done.stdout.decode(errors="replace").splitlines():
            return ""
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [str(error)]
    closed = _closed(Path(path)) or _closed(Path(__file__))
    return f"{closed}: not for everybody to use" if closed else next(filter(None, said), "RAD does not answer")


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


def _is_ours(name: str, path: str) -> bool:
    """Whether a Lua module is the one that came with this RAD, or cannot be compared with it."""
    ours, other = _text(Path(__file__).with_name("lua") / f"{name}.lua"), _text(Path(path))
    return None in (ours, other) or ours == other


def _file(path: str, *, follow: bool) -> FileFact:
    try:
        found = Path(path).stat(follow_symlinks=follow)
    except OSError:
        return FileFact()
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link"))
    kind = next((name for test, name in kinds if test(found.st_mode)), "other")
    return FileFact(kind, found.st_mode & 0o7777, found.st_uid, found.st_gid)  # type: ignore[arg-type]


def _closed(path: Path, uid: int = _NOBODY, gids: Collection[int] = ()) -> str:
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


def _all_closed(
    config: Config, path: Path, folder: Path | None, lua_modules: Iterable[str], users: Mapping[str, tuple[int, int]]
) -> dict[str, str]:
    """What those who need it may not use, by subject: the first thing on the way to it that is closed to them."""
    found = {
        "rad.toml": _closed(path),
        "[node] state_dir": _closed(Path(config.node.state_dir)),
        "[mps] run_dir": _closed(Path(config.mps.run_dir)),
        "Lua module rad": next(filter(None, (_closed(Path(at)) for at in lua_modules if at)), ""),
    }
    if folder and not _closed(folder / "slurm.conf"):  # else no user can run a command of Slurm's here
        found["cli_filter.lua"] = _closed(folder / "cli_filter.lua")
    for user, (uid, gid) in users.items():
        gids = os.getgrouplist(user, gid)
        found["radd socket"] = _closed(Path(config.radd.socket).parent, uid, gids)
        found["job_submit.lua"] = _closed(folder / "job_submit.lua", uid, gids) if folder else ""
    return {what: closed for what, closed in found.items() if closed}


def _said_to_hooks(settings: Mapping[str, str], name: str) -> str:
    """A variable as Prolog and Epilog, or rad.env beside them or where RAD is installed, set it; else nothing."""
    hooks = [Path(path) for hook in HOOKS for path in settings.get(hook, "").split(",") if path]
    files = [*hooks, *(hook.with_name("rad.env") for hook in hooks), Path(sys.prefix, "etc", "rad.env")]
    found = (re.findall(_SAID.format(name), _text(file) or "", re.MULTILINE) for file in files)
    return next((str(said[-1][1]) for said in found if said), "")  # the last one holds, as in a shell


def _is_same(path: Path, other: str) -> bool:
    """Whether a path is the same file as another, or may be, as that has a variable in it."""
    return "$" in other or os.path.realpath(path) == os.path.realpath(other)


def _path_of_hooks(settings: Mapping[str, str]) -> str:
    """Where Prolog and Epilog look for commands."""
    env = {"PATH": _OF_HOOKS, "RAD_PATH": _said_to_hooks(settings, "RAD_PATH")}
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
    """Why radd serves no connection; the empty string where it does, None where only its own users may try."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_CONNECT_TIMEOUT_S)
        try:
            client.connect(path)
            client.shutdown(socket.SHUT_WR)
            client.recv(1)  # it ends what asks nothing, where it does not hang
        except PermissionError:
            return None
        except OSError as error:
            return f"{path}: {error.strerror or error}"
    return ""


def _model(config: Config) -> str:
    """Why the estimator's model cannot be used, or the empty string."""
    try:
        load_method(config.estimator.method, Path(config.estimator.models_dir))
    except (ValueError, ImportError, OSError) as error:
        return str(error)
    return ""


def _reach(listen: str, port: int) -> str:
    """Why nothing takes connections at an address; the empty string where something does."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)  # noqa: S104 - compared, not bound
    try:
        socket.create_connection((host, port), _CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    except UnicodeError:
        return f"{host}: no address"
    return ""


def _gpus() -> tuple[int | None, int, tuple[tuple[str, int], ...], str]:
    """Number and least memory of the GPUs not in MIG mode, or None and why NVML does not tell; and MIG instances."""
    try:
        pynvml = nvml.load()
    except nvml.NvmlMissingError as error:
        return None, 0, (), str(error)
    try:
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            found = [nvml.instances(pynvml, handle) for handle in handles]
            whole = [handle for handle, several in zip(handles, found, strict=True) if several is None]
            told = filter(None, (nvml.quiet(pynvml, "nvmlDeviceGetMemoryInfo", handle) for handle in whole))
            memory_mib = min((int(memory.total) // nvml.MIB for memory in told), default=0)
            return len(whole), memory_mib, tuple(one for several in found for one in several or ()), ""
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return None, 0, (), str(error)
