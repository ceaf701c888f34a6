"""A machine that lacks nothing, and what tests take away from it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from slurm_hooks.config import Config, Partition
from slurm_hooks.doctor.examine import Role, examine
from slurm_hooks.doctor.facts import COMMANDS, LUA_MODULES, Facts, FileFact
from slurm_hooks.doctor.findings import Finding
from slurm_hooks.doctor.look import slurm as slurm_facts
from slurm_hooks.node.kept import Kept

RECORDED = Path(__file__).parents[1] / "recorded"
CONFIG_TEXT = (RECORDED / "scontrol_config_22.05.txt").read_text()
NODE_TEXT = (RECORDED / "scontrol_node_22.05.txt").read_text()
PARTITION_TEXT = """PartitionName=gpu AllowGroups=ALL PreemptMode=REQUEUE TRESBillingWeights=CPU=0,GRES/gpu=1.0
PartitionName=cpu AllowGroups=ALL PreemptMode=OFF OverSubscribe=EXCLUSIVE
"""
KEPT = Kept("/nowhere/kept")
CONFIG = Config(partitions={"gpu": Partition(gpu_model="h200")})
HOOK = 'local ok, rad = pcall(require, "rad"); if ok then rad.wrap() end\n'
GRES_CONF = "Name=gpu Type=g0 File=/dev/nvidia0\nName=mps Type=g0 Count=100 File=/dev/nvidia0 Flags=all_sharing\n"
SCRIPT = FileFact("file", 0o755, 0, 0)
FOLDER = FileFact("directory", 0o755, 0, 0)
# A machine that lacks nothing; each case takes something away.
SETTINGS = {
    **slurm_facts.parse_settings(CONFIG_TEXT),
    "JobSubmitPlugins": "lua",
    "CliFilterPlugins": "lua",
    "Prolog": "/opt/rad/prolog.sh",
    "TaskProlog": "/opt/rad/task_prolog.sh",
    "Epilog": "/opt/rad/epilog.sh",
    "PrologFlags": "Alloc",
    "JobFileAppend": "1",
    "SLURM_VERSION": "24.11.5",
}
WELL = Facts(
    settings=SETTINGS,
    partitions=frozenset({"gpu", "cpu"}),
    nodes=tuple(slurm_facts.parse_nodes(NODE_TEXT)),
    gres_conf=GRES_CONF,
    scripts={"job_submit.lua": HOOK, "cli_filter.lua": HOOK},
    lua_version="5.1",
    lua_modules={
        **{name: f"/usr/local/share/lua/5.1/{name}.lua" for name in LUA_MODULES},
        "socket.unix": "/usr/lib/lua/5.1/socket/unix.so",
        "posix": "/usr/share/lua/5.1/posix/init.lua",
    },
    files={
        "/run/rad/radd.sock": FileFact("socket", 0o660, 991, 64030),
        "/run/rad/jobs": FOLDER,
        "/run/rad/mps": FOLDER,
        "/var/spool/rad": FileFact("directory", 0o700, 0, 0),
        "/var/cache/rad": FOLDER,
        "/usr/bin/nvidia-cuda-mps-control": SCRIPT,
        "/usr/bin/nvidia-smi": SCRIPT,
        "rad.toml": FileFact("file", 0o644, 0, 0),
        "/opt/rad/prolog.sh": SCRIPT,
        "/opt/rad/task_prolog.sh": SCRIPT,
        "/opt/rad/epilog.sh": SCRIPT,
    },
    users={"slurm": (64030, 64030)},
    radd_user="rad",
    radd_rights="Operator",
    monitor_error="",
    kept="/var/cache/rad",
    gpus=4,
    programs={name: f"/usr/bin/{name}" for name in COMMANDS},
    host="vm",
)


def problems(role: Role, facts: Facts, config: Config = CONFIG) -> list[Finding]:
    return [finding for finding in examine(role, facts, config) if not finding.ok]


def only(role: Role, config: Config = CONFIG, **changes: Any) -> Finding:
    (finding,) = problems(role, dataclasses.replace(WELL, **changes), config)
    return finding


def with_setting(name: str, value: str) -> dict[str, Any]:
    return {"settings": {**SETTINGS, name: value}}


def with_node(**changes: Any) -> dict[str, Any]:
    return {"nodes": (dataclasses.replace(WELL.nodes[0], **changes),)}


def with_gres(gres: str) -> dict[str, Any]:
    return with_node(gres=gres)


def with_file(path: str, fact: FileFact) -> dict[str, Any]:
    return {"files": {**WELL.files, path: fact}}
