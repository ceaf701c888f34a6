"""All facts of this machine that `radctl doctor` judges.

Reads only, but for one connection each to radd and rad-monitor that it closes at once, and TaskProlog, which it runs
without a job and, for root, as nobody.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from slurm_hooks.config import Config
from slurm_hooks.doctor.facts import COMMANDS, HOOKS, LUA_MODULES, LUA_SCRIPTS, Facts, FileFact
from slurm_hooks.doctor.look import daemons, files, gpus, hooks, lua, slurm
from slurm_hooks.node.kept import Kept
from slurm_hooks.slurm.commands import Runner, run

_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


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
    limit_s = config.radd.command_timeout_s
    settings, partitions, nodes, slurm_error = slurm.controller(runner, limit_s)
    scripts = {name: hooks.scripts(settings[name]) for name in HOOKS if settings.get(name)}
    settings = {**settings, **{name: ",".join(paths) for name, paths in scripts.items()}}
    billing = slurm.by_partition(partitions, "TRESBillingWeights")
    modes, sharing = (slurm.by_partition(partitions, what) for what in ("PreemptMode", "OverSubscribe"))
    slurmdbd_error = slurm.slurmdbd(runner, limit_s)
    answers = not slurmdbd_error  # else each question would wait for its whole time
    limits, least = slurm.limits(runner, limit_s) if answers else ({}, {})
    folder = files.folder_of(settings.get("SLURM_CONF", ""), root)
    lua_version = lua.version(settings.get("PluginDir", ""))
    lua_modules = {name: lua.module(root, lua_version, f"{name}.lua") for name in LUA_MODULES}
    others = {"socket.unix": "socket/unix.so", "posix": "posix/init.lua"}
    users = files.users_named((config.radd.slurm_user,))
    radd_user = files.owner(config.radd.socket)
    of_hooks, of_shell = hooks.path_of_hooks(settings), f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"
    read = hooks.said_to_hooks(settings, "RAD_CONFIG")
    count, memory_mib, instances, nvml_error = gpus.gpus()
    return Facts(
        slurm_error=slurm_error,
        settings=settings,
        partitions=frozenset(billing),
        preempted=frozenset(name for name, mode in modes.items() if mode not in ("", "OFF")),
        whole=frozenset(name for name, mode in sharing.items() if mode == "EXCLUSIVE"),
        billing=billing,
        slurmdbd_error=slurmdbd_error,
        limits=limits,
        least=least,
        nodes=tuple(nodes),
        unnamed=frozenset(name for name in ("Prolog", "Epilog") if not hooks.name_rad(scripts.get(name, ()))),
        task_prolog=next(map(hooks.task_prolog, scripts.get("TaskProlog", ())), ""),
        gres_conf=files.with_included(folder / "gres.conf") if folder else None,
        scripts={name: files.text_of(folder / name) if folder else None for name in LUA_SCRIPTS},
        lua_version=lua_version,
        lua_modules={**lua_modules, **{name: lua.module(root, lua_version, file) for name, file in others.items()}},
        lua_other=next((at for name, at in lua_modules.items() if at and not lua.is_ours(name, at)), ""),
        files=_files(config, path, kept, [script for paths in scripts.values() for script in paths], of_hooks),
        users=users,
        radd_error=daemons.connect(config.radd.socket),
        model_error=daemons.model(config),
        radd_user=radd_user,
        radd_rights=slurm.rights(runner, radd_user, limit_s) if radd_user and answers else None,
        timer=daemons.timer(runner, root, limit_s),
        monitor_error=daemons.reach(config.monitor.listen, config.monitor.port) if config.monitor.listen else None,
        gpus=count,
        memory_mib=memory_mib,
        instances=instances,
        nvml_error=nvml_error,
        programs={name: shutil.which(name, path=of_hooks) or "" for name in COMMANDS},
        elsewhere={name: shutil.which(name, path=of_shell) or "" for name in COMMANDS},
        host=socket.gethostname().partition(".")[0],
        absent="" if path.exists() else str(path),
        read=read if read and not _is_same(path, read) else "",
        closed=files.all_closed(config, path, folder, lua_modules.values(), users),
        changed=files.changed_at(path) > files.changed_at(Path(config.radd.socket)) > 0,
        unusable=unusable,
        kept=kept.path,
    )


def _files(config: Config, path: Path, kept: Kept, scripts: Sequence[str], of_hooks: str) -> dict[str, FileFact]:
    """What lies at the paths that the configurations name; where the hooks follow no link, none is followed."""
    folders = (config.node.state_dir, config.node.spool_dir, config.mps.run_dir, kept.path)
    paths, smi = (config.radd.socket, config.mps.control, *scripts), config.mps.nvidia_smi
    return {
        **{at: files.fact_of(at, follow=at not in folders) for at in (*paths, *folders)},
        smi: files.fact_of(shutil.which(smi, path=of_hooks) or smi, follow=True),
        "rad.toml": files.fact_of(str(path), follow=True),
    }


def _is_same(path: Path, other: str) -> bool:
    """Whether a path is the same file as another, or may be, as that has a variable in it."""
    return "$" in other or os.path.realpath(path) == os.path.realpath(other)
