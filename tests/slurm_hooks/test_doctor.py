"""`radctl doctor`: each thing that can be missing, and what is said of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pwd
import re
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from click.testing import CliRunner

import slurm_hooks
from predictor import nvml
from slurm_hooks.config import Config, EstimatorSettings, Mps, Node, Partition, PredictorSettings, Radd
from slurm_hooks.doctor.checks.hooks import EPILOG_S, PROLOG_S
from slurm_hooks.doctor.examine import Role, examine, roles_of
from slurm_hooks.doctor.facts import COMMANDS, LUA_MODULES, Facts, FileFact, NodeFact
from slurm_hooks.doctor.findings import Finding
from slurm_hooks.doctor.look import daemons, files, gpus, hooks, lua
from slurm_hooks.doctor.look import slurm as slurm_facts
from slurm_hooks.doctor.look.gather import gather
from slurm_hooks.node.kept import Kept
from slurm_hooks.radctl import doctor as command
from slurm_hooks.radctl.main import cli
from slurm_hooks.slurm.commands import SlurmError

RECORDED = Path(__file__).parent / "recorded"
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


def _problems(role: Role, facts: Facts, config: Config = CONFIG) -> list[Finding]:
    return [finding for finding in examine(role, facts, config) if not finding.ok]


def _only(role: Role, config: Config = CONFIG, **changes: Any) -> Finding:
    (finding,) = _problems(role, dataclasses.replace(WELL, **changes), config)
    return finding


def _setting(name: str, value: str) -> dict[str, Any]:
    return {"settings": {**SETTINGS, name: value}}


def _node(**changes: Any) -> dict[str, Any]:
    return {"nodes": (dataclasses.replace(WELL.nodes[0], **changes),)}


def _gres(gres: str) -> dict[str, Any]:
    return _node(gres=gres)


def _file(path: str, fact: FileFact) -> dict[str, Any]:
    return {"files": {**WELL.files, path: fact}}


@pytest.mark.parametrize(
    ("plugins", "script", "needed", "cure"),
    [
        ("lua", None, True, "without it no srun starts here"),
        ("lua", "return slurm.SUCCESS", False, "without it jobs that share cannot start"),
        ("(null)", None, False, "without it jobs that share cannot start"),
    ],
)
def test_what_steps_need_of_a_node(plugins: str, script: str | None, needed: bool, cure: str) -> None:
    scripts = {**WELL.scripts, "cli_filter.lua": script}
    finding = _only("node", scripts=scripts, **_setting("CliFilterPlugins", plugins))
    assert (finding.subject, finding.needed) == ("cli_filter.lua", needed)
    assert cure in finding.cure


@pytest.mark.parametrize("role", ["controller", "node"])
def test_a_machine_that_lacks_nothing(role: Role) -> None:
    assert _problems(role, WELL) == []
    own = _file("/run/rad/radd.sock", FileFact("socket", 0o600, 64030, 991))  # slurmctld's user's own
    assert _problems(role, dataclasses.replace(WELL, **own)) == []


@pytest.mark.parametrize(
    ("lacking", "own_path", "found"),
    [
        ((), False, "/usr/local/share/lua/5.1/rad.lua"),
        (LUA_MODULES[1:2], False, f"not found: {LUA_MODULES[1]}"),
        (LUA_MODULES, False, "not found"),
        (LUA_MODULES, True, "a script names its own path"),
    ],
)
def test_which_of_rads_lua_files_are_there(lacking: Sequence[str], own_path: bool, found: str) -> None:
    scripts = {**WELL.scripts, "job_submit.lua": f"package.path = '/x'\n{HOOK}" if own_path else HOOK}
    facts = dataclasses.replace(WELL, lua_modules={**WELL.lua_modules, **dict.fromkeys(lacking, "")}, scripts=scripts)
    (finding,) = (finding for finding in examine("controller", facts, CONFIG) if finding.subject == "Lua module rad")
    assert (finding.ok, finding.found) == (not lacking or own_path, found)


@pytest.mark.parametrize(
    ("changes", "subject", "cure"),
    [
        (_setting("SLURM_VERSION", "21.08.5"), "Slurm", "update Slurm: RAD needs 22.05 or newer"),
        (_setting("SLURM_VERSION", ""), "Slurm", "22.05 or newer"),
        (_setting("JobSubmitPlugins", "all_partitions"), "JobSubmitPlugins", "JobSubmitPlugins=lua"),
        (_setting("GresTypes", "gpu"), "GresTypes", "GresTypes=gpu,mps"),
        (_setting("SelectType", "select/linear"), "SelectType", "cons_tres"),
        (_setting("AccountingStorageType", ""), "AccountingStorageType", "slurmdbd"),
        (_setting("AccountingStoreFlags", "job_env"), "AccountingStoreFlags", "job_comment"),
        (_setting("AccountingStorageTRES", "cpu,gres/gpu,gres/mps,gres/mps:g0,gres/mps:g1,gres/mps:g3"),
         "AccountingStorageTRES", "add gres/mps:g2 to"),
        (_setting("Epilog", ""), "Epilog", "set Epilog"),
        (_setting("PrologFlags", "X11"), "PrologFlags", "PrologFlags=Alloc"),
        (_setting("PrologFlags", "Alloc,Contain,RunInJob"), "PrologFlags", "leave RunInJob out"),
        (_setting("PrologEpilogTimeout", "30"), "PrologEpilogTimeout", "to 50 at least"),
        (_setting("PrologTimeout", "10 sec"), "PrologTimeout", "to 30 at least"),
        (_setting("EpilogTimeout", "45 sec"), "EpilogTimeout", "to 50 at least"),
        (_setting("SlurmUser", "slurmadm(77)"), "[radd] slurm_user", 'slurm_user = "slurmadm"'),
        ({"scripts": {**WELL.scripts, "job_submit.lua": None}}, "job_submit.lua", "copy etc/job_submit.lua"),
        ({"scripts": {**WELL.scripts, "job_submit.lua": "-- rad\n"}}, "job_submit.lua", "add its line"),
        ({"lua_modules": {**WELL.lua_modules, "rad": ""}}, "Lua module rad", "/usr/local/share/lua/5.1/"),
        ({"lua_modules": {**WELL.lua_modules, "rad_script": ""}}, "Lua module rad", "copy slurm_hooks/lua/*.lua to "),
        ({"lua_modules": {**WELL.lua_modules, "socket.unix": ""}}, "Lua module socket.unix",
         "lua-socket, then touch job_submit.lua"),
        (_file("/run/rad/radd.sock", FileFact()), "radd socket", "systemctl restart radd"),
        (_file("/run/rad/radd.sock", FileFact("file", 0o660, 991, 64030)), "radd socket", "systemctl restart radd"),
        (_file("/run/rad/radd.sock", FileFact("socket", 0o666, 991, 64030)), "radd socket", "everybody may write"),
        (_file("/run/rad/radd.sock", FileFact("socket", 0o660, 991, 991)), "radd socket", "slurm may not write"),
        (_file("/run/rad/radd.sock", FileFact("socket", 0o640, 991, 64030)), "radd socket", "slurm may not write"),
        ({"users": {}}, "radd socket", "there is no user 'slurm'"),
        ({"radd_error": "Connection refused"}, "radd", "restart radd"),
        ({"slurmdbd_error": "sacctmgr: Connection refused"}, "slurmdbd", "start slurmdbd"),
        ({"partitions": frozenset({"big"})}, "partition gpu", "Slurm has big"),
        ({"partitions": frozenset()}, "partition gpu", "Slurm has none"),
        (_gres(""), "GRES of node0", "etc/gres.conf.rad"),
        ({"least": {"normal": "cpu=1,gres/gpu=1"}}, "MinTRESPerJob", "take gres/gpu out"),
        ({"gres_conf": "Name=MPS Type=g0 Count=100 # all_sharing\n"}, "gres.conf", "Flags=all_sharing"),
        ({"gres_conf": "Name=mps \\\n Count=100\nName=gpu Flags=all_sharing\n"}, "gres.conf", "Flags=all_sharing"),
        ({"closed": {"radd socket": "/run/rad"}}, "radd socket", "chmod o+x /run/rad: without it no job is shared"),
        ({"closed": {"job_submit.lua": "/etc/slurm"}}, "job_submit.lua", "chmod o+rX /etc/slurm"),
        ({"closed": {"cli_filter.lua": "/etc/slurm"}}, "cli_filter.lua", "chmod o+rX /etc/slurm"),
        ({"closed": {"Lua module rad": "/a/rad.lua"}}, "Lua module rad", "chmod o+rX /a/rad.lua"),
        ({"lua_other": "/a/rad.lua"}, "Lua module rad", "as scripts/install does, then touch job_submit.lua"),
        ({"scripts": {**WELL.scripts, "job_submit.lua": f"require('rad').socket = '/a/b'\n{HOOK}"}},
         "[radd] socket", 'rad.socket = "/run/rad/radd.sock"'),
    ],
)  # fmt: skip
def test_what_a_controller_can_lack(changes: dict[str, Any], subject: str, cure: str) -> None:
    finding = _only("controller", **changes)
    assert finding.subject == subject
    assert finding.needed
    assert cure in finding.cure


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        (_setting("CliFilterPlugins", ""), "CliFilterPlugins"),
        ({"lua_modules": {**WELL.lua_modules, "posix": ""}}, "Lua module posix"),
        ({"radd_rights": "None"}, "rights of radd"),
        ({"radd_rights": ""}, "rights of radd"),
        ({"model_error": "this model was fitted to other features"}, "[estimator] method"),
        (_setting("AuthInfo", "socket=/run/munge.socket"), "AuthInfo"),
        (_setting("JobRequeue", "0"), "JobRequeue"),
        (_setting("JobFileAppend", "0"), "JobFileAppend"),
        (_node(features=frozenset()), "feature h200"),
        ({"billing": {"gpu": "CPU=0,GRES/gpu=1.0"}}, "billing of gpu"),
        ({"limits": {"QOS normal": ("", "cpu=4,gres/gpu=2")}}, "limits on gres/gpu"),
        ({"limits": {"QOS normal": ("gres/gpu:g0=2",)}}, "limits on gres/gpu"),
    ],
)
def test_advice(changes: dict[str, Any], subject: str) -> None:
    finding = _only("controller", **changes)
    assert (finding.subject, finding.needed) == (subject, False)


def _as(mode: Any, **others: Any) -> Config:
    return Config(partitions={"gpu": Partition(gpu_model="h200", mode=mode), **others})


@pytest.mark.parametrize("mode", ["shadow", "advise"])
@pytest.mark.parametrize(
    ("role", "changes", "subject"),
    [
        ("controller", _setting("GresTypes", "gpu"), "GresTypes"),
        ("controller", _setting("SelectType", "select/linear"), "SelectType"),
        ("controller", _gres("gpu:4"), "GRES of node0"),
        ("controller", _setting("AccountingStorageTRES", "cpu,gres/gpu"), "AccountingStorageTRES"),
        ("controller", _setting("Prolog", ""), "Prolog"),
        ("controller", _setting("PrologFlags", ""), "PrologFlags"),
        ("controller", _setting("PrologEpilogTimeout", "30"), "PrologEpilogTimeout"),
        ("controller", _setting("JobFileAppend", "0"), "JobFileAppend"),
        ("controller", _setting("SLURM_VERSION", "22.05.8"), "jobs for whole GPUs"),
        ("controller", {"preempted": frozenset({"gpu"})}, "preemption in gpu"),
        ("controller", {"gres_conf": "Name=mps Count=100\n"}, "gres.conf"),
        ("controller", {"billing": {"gpu": "GRES/gpu=1.0"}}, "billing of gpu"),
        ("controller", {"limits": {"QOS normal": ("gres/gpu=2",)}}, "limits on gres/gpu"),
        ("controller", {"least": {"normal": "gres/gpu=1"}}, "MinTRESPerJob"),
        ("controller", {"radd_rights": "None"}, "rights of radd"),
        ("controller", _node(features=frozenset()), "feature h200"),
        ("node", _setting("Epilog", ""), "Epilog"),
        ("node", {"unnamed": frozenset({"Prolog"})}, "RAD's Prolog"),
        ("node", {"scripts": {"job_submit.lua": HOOK, "cli_filter.lua": "return 0\n"}}, "cli_filter.lua"),
        ("node", {"gres_conf": "Name=mps Count=100\n"}, "gres.conf"),
        ("node", {"timer": "inactive"}, "rad-spool.timer"),
        ("node", _file("/usr/bin/nvidia-cuda-mps-control", FileFact()), "MPS control program"),
    ],
)
def test_what_is_of_use_only_once_requests_are_changed(
    mode: Any, role: Role, changes: dict[str, Any], subject: str
) -> None:
    finding = _only(role, _as(mode), **changes)
    assert (finding.subject, finding.needed, finding.later) == (subject, False, True)
    now = _only(role, _as("enforce"), **changes)
    assert (now.subject, now.found, now.later) == (subject, finding.found, False)


@pytest.mark.parametrize(
    ("role", "changes", "subject"),
    [
        ("controller", _setting("JobSubmitPlugins", ""), "JobSubmitPlugins"),
        ("controller", _setting("AccountingStoreFlags", ""), "AccountingStoreFlags"),
        ("controller", _setting("GresTypes", ""), "GresTypes"),
        ("controller", _setting("AccountingStorageTRES", "cpu"), "AccountingStorageTRES"),
        ("controller", {"radd_error": "Connection refused"}, "radd"),
        ("controller", {"whole": frozenset({"gpu"})}, "OverSubscribe of gpu"),
        ("node", {"task_prolog": "RAD does not answer"}, "TaskProlog"),
        ("node", {"scripts": {"job_submit.lua": HOOK, "cli_filter.lua": None}}, "cli_filter.lua"),
        ("node", {"gpus": None}, "NVML"),
    ],
)
def test_what_is_missing_in_shadow_too(role: Role, changes: dict[str, Any], subject: str) -> None:
    finding = _only(role, _as("shadow"), **changes)
    assert (finding.subject, finding.needed, finding.later) == (subject, True, False)


def test_partitions_of_several_modes() -> None:
    config = _as("shadow", cpu=Partition(gpu_model="h200", feature="big"))
    assert _only("controller", config, **_gres("gpu:4")).later
    assert not _only("controller", config, **_setting("Prolog", "")).later
    assert _only("controller", config, preempted=frozenset({"gpu"})).later
    assert not _only("controller", config, preempted=frozenset({"cpu"})).later
    assert _only("controller", config, **_setting("SLURM_VERSION", "22.05.8")).found.startswith("in cpu they may start")
    off = _as("shadow", cpu=Partition(method="off"))
    assert _only("controller", off, **_setting("Prolog", "")).later


def test_limits_and_weights_that_count_shares_too() -> None:
    billing = {"gpu": "GRES/gpu=1,GRES/mps=0.01", "cpu": "GRES/gpu=1"}
    limits = {"QOS normal": ("", "gres/gpu=1,gres/mps=100")}
    assert _problems("controller", dataclasses.replace(WELL, billing=billing, limits=limits)) == []


def test_limits_and_weights_where_nothing_is_shared_by_shares() -> None:
    facts = dataclasses.replace(WELL, billing={"gpu": "GRES/gpu=1"}, limits={"QOS normal": ("gres/gpu=2",)})
    facts = dataclasses.replace(facts, least={"normal": "gres/gpu=1"})
    assert _problems("controller", facts, Config(partitions={"gpu": Partition(method="off")})) == []


@pytest.mark.parametrize(
    ("gres", "problem"),
    [
        ("gpu:4,mps:400", "GPUs without a Type"),
        ("gpu:h200:4,mps:h200:400", "several GPUs of one Type"),
        ("gpu:g0:1,gpu:g1:2,mps:g0:100,mps:g1:200", "several GPUs of one Type"),
        ("gpu:g0:1", "no mps"),
        ("gpu:g0:1,mps:100", "mps without a Type"),
        ("gpu:g0:1,mps:g1:100", "gpu and mps name different Types"),
        ("gpu:g0:1,mps:g0:50", "mps of a device is not 100"),
        ("gpu:g0:1,gpu:g1:1,mps:g0:100,mps:g1:50", "mps of a device is not 100"),
        ("tmpfs:3", "no GPU: tmpfs:3"),
        ("gpu:g0:1,mps:g0:100,shard:g0:10", "shard beside mps"),
    ],
)
def test_gres(gres: str, problem: str) -> None:
    tres = "gres/gpu,gres/mps,gres/mps:g0,gres/mps:g1,gres/mps:h200"
    finding = _only("controller", **_gres(gres), **_setting("AccountingStorageTRES", tres))
    assert finding.found.startswith(problem)


def test_nodes_of_other_partitions_are_none_of_our_business() -> None:
    other = NodeFact("node1", gres="gpu:8", partitions=frozenset({"cpu"}))
    assert _problems("controller", dataclasses.replace(WELL, nodes=(*WELL.nodes, other))) == []


def test_many_nodes_are_not_all_named() -> None:
    nodes = tuple(dataclasses.replace(WELL.nodes[0], name=f"n{n}", features=frozenset()) for n in range(9))
    assert _only("controller", nodes=nodes).found == "nodes without it: n0, n1, n2 and 6 more"


def test_a_script_with_a_path_of_its_own() -> None:
    scripts = {"job_submit.lua": f"package.path = '/opt/?.lua'\n{HOOK}", "cli_filter.lua": HOOK}
    modules = {**WELL.lua_modules, "rad": ""}
    assert _problems("controller", dataclasses.replace(WELL, scripts=scripts, lua_modules=modules)) == []


@pytest.mark.parametrize("off", ["-- ", "--[[ of\n", "  --[==[ ]] "])
def test_a_script_whose_line_is_a_comment(off: str) -> None:
    ends = {"--[[ of\n": "]]\n", "  --[==[ ]] ": "]==]\n"}.get(off, "")
    scripts = {**WELL.scripts, "job_submit.lua": f"local a = 1\n{off}{HOOK}{ends}return 0\n"}
    assert _only("controller", scripts=scripts).found == "does not load RAD"
    after = {**WELL.scripts, "job_submit.lua": f"-- notes ]]\n{HOOK}"}
    assert _problems("controller", dataclasses.replace(WELL, scripts=after)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('local rad = require("rad")\n', "loads RAD, but calls no rad.wrap()"),
        (f"{HOOK}function slurm_job_submit(job, parts, uid)\nend\n", "calls rad.wrap() before its functions"),
        (f"{HOOK}slurm_job_submit = function(job, parts, uid) end\n", "calls rad.wrap() before its functions"),
        (f"function slurm_job_submit(job, parts, uid)\nend\n{HOOK}return slurm.SUCCESS\n", "loads RAD"),
        ('local ok, rad = pcall(require, "rad"); if ok then pcall(rad.wrap) end\n', "loads RAD"),
        (f"slurm_job_submit = ours\n{HOOK}local rads = slurm_job_submit\nslurm_job_submit = logged\n", "loads RAD"),
    ],
)
def test_a_script_that_loads_rad_but_wraps_nothing(text: str, found: str) -> None:
    made = examine("controller", dataclasses.replace(WELL, scripts={**WELL.scripts, "job_submit.lua": text}), CONFIG)
    (finding,) = (finding for finding in made if finding.subject == "job_submit.lua")
    assert (finding.found, finding.ok) == (found, found == "loads RAD")


def test_a_configuration_without_partitions() -> None:
    assert _only("controller", Config()).subject == "rad.toml"


@pytest.mark.parametrize(
    ("part", "found"),
    [
        (Partition(), "memory of its GPUs is not told"),
        (Partition(gpu_model="h2000", feature="h200"), "gpu_model 'h2000' is not known"),
        (Partition(gpu_memory_mib=80), "margin_mib = 2048 leaves nothing of a GPU's 80 MiB"),
    ],
)
def test_gpus_of_unknown_memory(part: Partition, found: str) -> None:
    finding = _only("controller", Config(partitions={"gpu": part}))
    assert (finding.subject, finding.found) == ("GPU memory of gpu", found)
    told = Config(partitions={"gpu": dataclasses.replace(part, gpu_memory_mib=40_960, margin_mib=2048)})
    assert [(p.subject, p.needed) for p in _problems("controller", WELL, told)] == [("GPU model of gpu", False)]
    known = Config(partitions={"gpu": dataclasses.replace(part, gpu_model="h200", gpu_memory_mib=0)})
    assert _problems("controller", WELL, known) == []
    mig = Config(partitions={"gpu": dataclasses.replace(part, method="mig", gpu_memory_mib=40_960)})
    assert "GPU model of gpu" not in [p.subject for p in _problems("controller", WELL, mig)]
    assert _problems("controller", WELL, Config(partitions={"gpu": Partition(method="off")})) == []


@pytest.mark.parametrize("changes", [{"radd_rights": None}, {"radd_rights": "None", "radd_user": "slurm"}])
def test_rights_that_are_enough_or_not_known(changes: dict[str, Any]) -> None:
    assert _problems("controller", dataclasses.replace(WELL, **changes)) == []


def test_a_user_who_may_not_try_the_socket() -> None:
    assert _problems("controller", dataclasses.replace(WELL, radd_error=None)) == []


def test_slurm_down() -> None:
    down = dataclasses.replace(
        WELL, slurm_error="scontrol: no controller", settings={}, partitions=frozenset(), nodes=(), scripts={}
    )
    for role in ("controller", "node"):
        assert [finding.subject for finding in _problems(role, down)] == ["Slurm"]


@pytest.mark.parametrize(
    ("changes", "subject", "found"),
    [
        (_file("/opt/rad/prolog.sh", FileFact("file", 0o644, 0, 0)), "Prolog", "file of user 0 with mode 644"),
        (_file("/opt/rad/epilog.sh", FileFact()), "Epilog", "/opt/rad/epilog.sh: absent"),
        (_setting("TaskProlog", ""), "TaskProlog", "not set"),
        (_file("/run/rad/jobs", FileFact("directory", 0o777, 0, 0)), "[node] state_dir", "mode 777"),
        (_file("/var/spool/rad", FileFact("directory", 0o755, 7, 0)), "[node] spool_dir", "of user 7"),
        (_file("/run/rad/mps", FileFact("other", 0o755, 0, 0)), "[mps] run_dir", "other of user 0"),
        (_file("/var/spool/rad", FileFact("link", 0o777, 0, 0)), "[node] spool_dir", "/var/spool/rad: a link"),
        (_file("/usr/bin/nvidia-smi", FileFact()), "nvidia-smi", "absent"),
        ({"programs": {**WELL.programs, "sacct": ""}}, "sacct", "not found"),
        (
            {"programs": {**WELL.programs, "squeue": ""}, "elsewhere": {"squeue": "/opt/slurm/bin/squeue"}},
            "squeue",
            "/opt/slurm/bin/squeue, where the hooks do not look",
        ),
        ({"gpus": None}, "NVML", "does not answer"),
        ({"gpus": None, "nvml_error": "Driver Not Loaded"}, "NVML", "Driver Not Loaded"),
        ({"gpus": 3}, "NVML", "3 GPUs, Slurm lists 4"),
        (_file("/usr/bin/nvidia-cuda-mps-control", FileFact()), "MPS control program", "absent"),
        (_file("/opt/rad/prolog.sh", FileFact("file", 0o757, 0, 0)), "Prolog", "file of user 0 with mode 757"),
        (_file("rad.toml", FileFact("file", 0o666, 0, 0)), "rad.toml", "mode 666"),
        ({"task_prolog": "RAD does not answer"}, "TaskProlog", "as a user runs it: RAD does not answer"),
        ({"closed": {"[node] state_dir": "/run/rad"}}, "[node] state_dir", "/run/rad: users cannot enter it"),
        ({"closed": {"[mps] run_dir": "/run/rad/mps"}}, "[mps] run_dir", "/run/rad/mps: users cannot enter it"),
        (_file("/var/cache/rad", FileFact("directory", 0o757, 0, 0)), "RAD_KEPT", "of user 0 with mode 757"),
        ({"unusable": "this node goes on with a copy"}, "rad.toml", "this node goes on with a copy"),
        ({"closed": {"cli_filter.lua": "/etc/slurm"}}, "cli_filter.lua", "/etc/slurm: not to be read"),
        ({"lua_modules": {**WELL.lua_modules, "rad_step": ""}}, "Lua module rad", "not found: rad_step"),
        ({"gres_conf": "Name=mps Type=g0 Count=100\n"}, "gres.conf", "Name=mps Type=g0 Count=100"),
        ({"read": "/a/rad.toml"}, "RAD_CONFIG", "the hooks read /a/rad.toml"),
        (_node(state="UNKNOWN"), "slurmd", "UNKNOWN"),
        (_node(state="DOWN*"), "slurmd", "DOWN*"),
        (_node(state="IDLE+DRAIN", reason="Prolog error"), "slurmd", "IDLE+DRAIN: Prolog error"),
    ],
)
def test_what_a_node_can_lack(changes: dict[str, Any], subject: str, found: str) -> None:
    finding = _only("node", **changes)
    assert finding.subject == subject
    assert found in finding.found
    assert finding.cure


@pytest.mark.parametrize("name", ["Prolog", "Epilog"])
def test_a_hook_that_may_be_another_tools(name: str) -> None:
    finding = _only("node", unnamed=frozenset({name}))
    assert (finding.subject, finding.needed) == (f"RAD's {name}", False)
    assert f"let it run RAD's etc/{name.lower()}.sh" in finding.cure


def test_a_node_that_its_admin_drains() -> None:
    assert _problems("node", dataclasses.replace(WELL, **_node(state="MIXED+DRAIN", reason="new disk"))) == []


@pytest.mark.parametrize("settings", [{"JobSubmitPlugins": "job_submit/lua"}, {"CliFilterPlugins": "cli_filter/lua"}])
def test_plugins_that_are_named_with_their_kind(settings: dict[str, str]) -> None:
    facts = dataclasses.replace(WELL, settings={**SETTINGS, **settings})
    assert _problems("controller", facts) == _problems("node", facts) == []


def test_sockets_that_job_submit_lua_asks_at() -> None:
    config = Config(radd=Radd(socket="/a/b"), partitions=CONFIG.partitions)
    files = {**WELL.files, "/a/b": WELL.files["/run/rad/radd.sock"]}
    for line, found in (
        ("", ["[radd] socket"]),
        ('-- require("rad").socket = "/a/b"\n', ["[radd] socket"]),
        ('require("rad").socket = "/a/b"\n', []),
        ('require("rad").socket = os.getenv("OURS")\n', []),
    ):
        scripts = {**WELL.scripts, "job_submit.lua": f"{line}{HOOK}"}
        facts = dataclasses.replace(WELL, scripts=scripts, files=files)
        assert [finding.subject for finding in _problems("controller", facts, config)] == found
    unread = dataclasses.replace(WELL, scripts={**WELL.scripts, "job_submit.lua": None}, files=files)
    assert [finding.subject for finding in _problems("controller", unread, config)] == ["job_submit.lua"]


def test_a_cli_filter_that_slurm_is_not_told_of_may_be_closed() -> None:
    changes = {"closed": {"cli_filter.lua": "/etc/slurm"}, **_setting("CliFilterPlugins", "")}
    assert _problems("node", dataclasses.replace(WELL, **changes)) == []


def test_a_timer_that_nobody_has_started() -> None:
    finding = _only("node", timer="inactive")
    assert (finding.subject, finding.found, finding.needed) == ("rad-spool.timer", "inactive", False)
    assert "systemctl enable --now rad-spool.timer" in finding.cure
    assert _problems("node", dataclasses.replace(WELL, timer="active")) == []


def test_what_systemd_says_of_the_timer(tmp_path: Path) -> None:
    def run(command: Sequence[str], timeout_s: float) -> str:
        assert (command[0], command[-1]) == ("systemctl", "rad-spool.timer")
        return "active\n"

    def fails(command: Sequence[str], timeout_s: float) -> str:
        raise SlurmError("systemctl: Failed to connect to bus")

    assert daemons.timer(run, tmp_path, 1.0) is None
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert daemons.timer(run, tmp_path, 1.0) == "active"
    assert daemons.timer(fails, tmp_path, 1.0) is None


def test_folders_are_made_when_needed() -> None:
    assert _problems("node", dataclasses.replace(WELL, **_file("/run/rad/jobs", FileFact()))) == []


def test_a_partition_without_mps_needs_no_control_program() -> None:
    config = Config(partitions={"gpu": Partition(method="streams", gpu_model="h200")})
    changed = dataclasses.replace(WELL, **_file("/usr/bin/nvidia-cuda-mps-control", FileFact()))
    assert _problems("node", changed, config) == []


@pytest.mark.parametrize(
    ("method", "model", "heeded"), [("mps", "rad", True), ("streams", "rad", False), ("mps", "kace", False)]
)
def test_thread_percentages_that_nobody_chooses(method: Any, model: Any, heeded: bool) -> None:
    part = Partition(method=method, gpu_model="h200", threads="max-min")
    config = Config(partitions={"gpu": part}, predictor=PredictorSettings(model=model))
    found = [finding.subject for finding in _problems("controller", WELL, config)]
    assert found == ([] if heeded else ["threads of gpu"])


MIG = Config(partitions={"gpu": Partition(method="mig")})
MIG_GRES = "gpu:1g.18gb:2(S:0),gpu:nvidia_h200_3g.71gb:1,gpu:g3:1"
INSTANCES = (("1g.18gb", 16_384), ("1g.18gb", 16_384), ("3g.71gb", 71_424))


def _mig(**changes: Any) -> dict[str, Any]:
    tracked = "gres/gpu,gres/mps,gres/gpu:1g.18gb,gres/gpu:nvidia_h200_3g.71gb"
    return {
        **_gres(MIG_GRES),
        **_setting("AccountingStorageTRES", tracked),
        "gpus": 1,
        "instances": INSTANCES,
        **changes,
    }


def test_mig_instances_as_nvml_and_slurm_both_have_them() -> None:
    for role in ("controller", "node"):
        assert _problems(role, dataclasses.replace(WELL, **_mig()), MIG) == []
    seen = {finding.subject: finding.found for finding in examine("node", dataclasses.replace(WELL, **_mig()), MIG)}
    assert (seen["NVML"], seen["MIG instances"]) == ("1 GPUs and 3 MIG instances", "1g.18gb, 3g.71gb")
    seen = {
        finding.subject: finding.found for finding in examine("controller", dataclasses.replace(WELL, **_mig()), MIG)
    }
    assert seen["MIG profiles of gpu"] == "1g.18gb, nvidia_h200_3g.71gb"
    nodes = (dataclasses.replace(WELL.nodes[0], gres=f"{MIG_GRES},mps:g3:100"),)
    both = _problems("controller", dataclasses.replace(WELL, **_mig(nodes=nodes)), MIG)
    assert ("mps in gpu", "nodes with mps: node0") in [(finding.subject, finding.found) for finding in both]


def test_where_all_jobs_get_mig_instances_slurm_needs_no_shares() -> None:
    settings = {**SETTINGS, "GresTypes": "gpu", "AccountingStorageTRES": _mig()["settings"]["AccountingStorageTRES"]}
    settings["AccountingStorageTRES"] = settings["AccountingStorageTRES"].replace("gres/mps,", "")
    facts = dataclasses.replace(WELL, **_mig(settings=settings))
    assert _problems("controller", facts, MIG) == []
    both = Config(partitions={**MIG.partitions, "other": Partition(method="streams", gpu_model="h200")})
    cures = {finding.subject: finding.cure for finding in _problems("controller", facts, both)}
    assert cures["GresTypes"] == "set GresTypes=gpu,mps in slurm.conf"
    assert cures["AccountingStorageTRES"] == "add gres/mps to AccountingStorageTRES in slurm.conf"


def test_what_mig_instances_can_lack() -> None:
    less = _only("node", MIG, **_mig(instances=(*INSTANCES[:2], ("2g.35gb", 33_280))))
    assert (less.subject, "NVML has 1g.18gb, 2g.35gb" in less.found) == ("MIG instances", True)
    small = _only("node", MIG, **_mig(instances=(*INSTANCES[:2], ("3g.71gb", 60_000))))
    assert (small.subject, small.needed, small.found) == (
        "MIG memory",
        False,
        "3g.71gb has 60000 MiB, its name says 64325",
    )
    fewer = _problems("node", dataclasses.replace(WELL, **_mig(instances=INSTANCES[:2])), MIG)
    assert [finding.found for finding in fewer] == [
        "1 GPUs and 2 MIG instances, Slurm lists 4",
        f"NVML has 1g.18gb; Slurm's Types are {MIG_GRES}",
    ]
    none = _problems("controller", dataclasses.replace(WELL, gpus=1), MIG)
    assert [finding.subject for finding in none] == ["MIG profiles of gpu", "mps in gpu"]
    untold = _only("controller", MIG, **{**_mig(), **_setting("AccountingStorageTRES", "gres/gpu,gres/mps")})
    assert untold.found == "lacks gres/gpu:1g.18gb,gres/gpu:nvidia_h200_3g.71gb"


def test_a_node_that_slurm_does_not_list() -> None:
    assert _problems("node", dataclasses.replace(WELL, host="login1", gpus=7)) == []


@pytest.mark.parametrize(
    ("host", "nodes", "roles"),
    [
        ("vm", WELL.nodes, ("controller", "node")),
        ("vm", (), ("controller",)),
        ("node0", WELL.nodes, ("node",)),
        ("login1", WELL.nodes, ("node",)),
    ],
)
def test_roles(host: str, nodes: tuple[NodeFact, ...], roles: tuple[Role, ...]) -> None:
    assert roles_of(dataclasses.replace(WELL, host=host, nodes=nodes)) == roles


@pytest.mark.parametrize("value", ["65534", "60", "UNLIMITED"])
def test_limits_of_the_hooks_that_are_long_enough(value: str) -> None:
    settings = {**SETTINGS, "PrologEpilogTimeout": value, "PrologTimeout": value, "EpilogTimeout": value}
    assert _problems("controller", dataclasses.replace(WELL, settings=settings)) == []


def test_the_hooks_end_before_slurm_ends_them() -> None:
    etc = Path(__file__).parents[2] / "etc"
    for name, most in (("prolog.sh", PROLOG_S), ("epilog.sh", EPILOG_S)):
        found = re.findall(r"/usr/bin/timeout (?:-k (\d+) )?(\d+) ", (etc / name).read_text())
        assert sum(map(int, filter(None, itertools.chain(*found)))) < most


def test_slurms_own_words() -> None:
    assert SETTINGS["AuthInfo"] == "socket=/srv/slurm/run/munge/munge.socket,cred_expire=5"
    assert slurm_facts.parse_settings(CONFIG_TEXT)["JobSubmitPlugins"] == ""
    (node,) = WELL.nodes
    assert (node.name, node.host, node.partitions, node.features) == (
        "node0",
        "vm",
        frozenset({"gpu"}),
        frozenset({"h200"}),
    )
    assert node.gres.startswith("gpu:g0:1,gpu:g1:1,")
    assert node.state == "IDLE"
    assert slurm_facts.parse_nodes("NodeName=x Gres=(null)\nNodeHostName=y\n") == [NodeFact("x")]
    text = "NodeName=x State=IDLE+DRAIN Reason=gres/gpu count low (3 < 4) [slurm@2026-11-28T01:00:00] Comment=a\n"
    assert slurm_facts.parse_nodes(text) == [NodeFact("x", state="IDLE+DRAIN", reason="gres/gpu count low (3 < 4)")]


def test_several_hooks() -> None:
    text = "Prolog[0]               = /opt/rad/prolog.sh\nProlog[1]  = /etc/site.sh\nSlurmctldHost[0] = vm(127.0.0.1)\n"
    settings = slurm_facts.parse_settings(text)
    assert settings == {"Prolog": "/opt/rad/prolog.sh,/etc/site.sh", "SlurmctldHost[0]": "vm(127.0.0.1)"}
    finding = _only("node", settings={**SETTINGS, **settings})
    assert (finding.subject, finding.found) == ("Prolog", "/etc/site.sh: absent")


def _slurm_says(folder: Path) -> dict[str, str]:
    config = CONFIG_TEXT.replace("/srv/slurm/etc/slurm.conf", str(folder / "slurm.conf"))
    plugins = config.replace("/usr/lib/x86_64-linux-gnu/slurm-wlm", str(folder))
    return {"config": plugins, "partition": PARTITION_TEXT, "node": NODE_TEXT}


def _end_one(server: socket.socket) -> None:
    """What radd does with a connection that asks nothing."""
    peer, _ = server.accept()
    with peer:
        assert peer.recv(1) == b""


def test_facts_of_a_machine(tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text(GRES_CONF)
    (tmp_path / "job_submit.lua").write_text(HOOK)
    (tmp_path / "job_submit_lua.so").write_bytes(b"\x7fELF\0liblua5.1.so.0\0")
    module = tmp_path / "usr/local/share/lua/5.1/rad.lua"
    module.parent.mkdir(parents=True)
    module.touch()
    for name in ("rad_submit", "rad_summary"):
        module.with_name(f"{name}.lua").touch()
    other = tmp_path / "usr/lib/x86_64-linux-gnu/lua/5.3/socket/unix.so"
    other.parent.mkdir(parents=True)
    other.touch()
    control = tmp_path / "fifo"
    os.mkfifo(control)
    moved = tmp_path / "mps"
    moved.symlink_to(tmp_path)
    says = _slurm_says(tmp_path)
    qos, assoc = "normal||gres/gpu=4|cpu=8,gres/gpu:g0=1||gres/gpu=1\n", "root|||\nml|gres/gpu=1||alice\n"
    sacctmgr_says = {"user": "Administrator\n", "cluster": "rad\n", "qos": qos, "assoc": assoc}

    def run(command: Sequence[str], timeout_s: float) -> str:
        if command[0] == "sacctmgr":
            if command[4] == "user":
                assert command[5] == "root"
            return sacctmgr_says[command[4]]
        return says[command[2]]

    path = str(tmp_path / "radd.sock")
    toml = tmp_path / "rad.toml"
    toml.touch()
    os.utime(toml, (1, 1))
    config = Config(
        radd=Radd(socket=path, slurm_user="nobody-of-that-name"),
        node=Node(state_dir=str(tmp_path), spool_dir=str(control)),
        mps=Mps(run_dir=str(moved), nvidia_smi="sh"),
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        radd = threading.Thread(target=_end_one, args=(server,))
        radd.start()
        facts = gather(config, toml, KEPT, runner=run, root=tmp_path)
        radd.join()
    assert facts.slurm_error == facts.slurmdbd_error == ""
    assert not facts.changed
    os.utime(toml, (2**32, 2**32))
    assert gather(config, toml, KEPT, runner=run, root=tmp_path).changed
    assert facts.partitions == {"gpu", "cpu"}
    assert facts.preempted == {"gpu"}
    assert facts.whole == {"cpu"}
    assert facts.billing == {"gpu": "CPU=0,GRES/gpu=1.0", "cpu": ""}
    assert facts.limits["QOS normal"] == ("", "gres/gpu=4", "cpu=8,gres/gpu:g0=1", "")
    assert facts.least == {"normal": "gres/gpu=1"}
    assert set(facts.limits) == {"QOS normal", "account root", "user alice of ml"}
    assert facts.gres_conf == GRES_CONF
    assert facts.scripts == {"job_submit.lua": HOOK, "cli_filter.lua": None}
    assert facts.lua_version == "5.1"
    there = {name: str(module.with_name(f"{name}.lua")) for name in ("rad", "rad_submit", "rad_summary")}
    assert facts.lua_modules == {**there, "rad_script": "", "rad_step": "", "socket.unix": "", "posix": ""}
    assert facts.files[path].kind == "socket"
    assert facts.files[str(tmp_path)].kind == "directory"
    assert facts.files[str(control)].kind == "other"
    assert facts.files[str(moved)].kind == "link"
    assert facts.files["sh"].kind == "file"
    assert facts.users == {}
    assert facts.radd_error == ""
    assert (facts.radd_user, facts.radd_rights) == ("root", "Administrator")
    assert gather(config, toml, KEPT, runner=run, root=tmp_path).radd_error == f"{path}: Connection refused"


def test_a_slurmdbd_that_hangs_is_asked_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def run(command: Sequence[str], timeout_s: float) -> str:
        if command[0] == "sacctmgr":
            asked.append(command[4])
            raise SlurmError(f"no answer within {timeout_s:g} s")
        return ""

    there = tmp_path / "radd.sock"
    there.touch()  # radd's user has rights to ask for
    facts = gather(Config(radd=Radd(socket=str(there))), tmp_path / "rad.toml", KEPT, runner=run, root=tmp_path)
    assert (facts.slurmdbd_error, asked) == ("no answer within 20 s", ["cluster"])
    assert (facts.radd_rights, facts.limits, facts.least) == (None, {}, {})


@pytest.mark.parametrize(
    ("file", "text", "path"),
    [
        ("rad.env", "RAD_PYTHON=/opt/rad/bin/python\nRAD_PATH=/opt/slurm/bin:/bin\n", "/opt/slurm/bin:/bin"),
        ("rad.env", "export RAD_CONFIG=/a/rad.toml RAD_PATH='/opt/slurm/bin' # ours\n", "/opt/slurm/bin"),
        ("rad.env", 'RAD_PATH="/opt/slurm/bin:$PATH"\n', f"/opt/slurm/bin:{hooks.OF_HOOKS}"),
        ("rad.env", "RAD_PATH=/opt/older/bin\nRAD_PATH=/opt/slurm/bin\n", "/opt/slurm/bin"),
        ("rad.env", "#RAD_PATH=/opt/slurm/bin\n", hooks.OF_HOOKS),
        ("prolog.sh", "#!/bin/sh\nRAD_PATH=/opt/slurm/bin\n", "/opt/slurm/bin"),
    ],
)
def test_where_the_hooks_look_for_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, path: str
) -> None:
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    hook = (Path(__file__).parents[2] / "etc" / "prolog.sh").read_text()
    (tmp_path / "prolog.sh").write_text(hook)
    assert hooks.path_of_hooks({"Prolog": f"{tmp_path}/prolog.sh"}) == hooks.OF_HOOKS
    assert f"${{RAD_PATH:-{hooks.OF_HOOKS}}}" in hook
    (tmp_path / file).write_text(text)
    assert hooks.path_of_hooks({"Prolog": f"{tmp_path}/prolog.sh"}) == path


def test_which_configuration_the_hooks_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    shutil.copy(Path(__file__).parents[2] / "etc" / "prolog.sh", tmp_path)
    toml, link = tmp_path / "rad.toml", tmp_path / "link.toml"
    link.symlink_to(toml)

    def run(command: Sequence[str], timeout_s: float) -> str:
        return f"Prolog = {tmp_path}/prolog.sh\n" if command[2] == "config" else ""

    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).read == ""
    (tmp_path / "rad.env").write_text(f"RAD_PYTHON=/a/python\nRAD_CONFIG={link}\n")
    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).read == ""
    assert gather(Config(), tmp_path / "other.toml", KEPT, runner=run, root=tmp_path).read == str(link)
    (tmp_path / "rad.env").write_text(f"OURS={tmp_path}\nRAD_CONFIG=$OURS/rad.toml\n")
    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).read == ""


def test_facts_without_slurm(tmp_path: Path) -> None:
    def run(command: Sequence[str], timeout_s: float) -> str:
        raise SlurmError("scontrol: Unable to contact slurm controller")

    config = Config(radd=Radd(socket=str(tmp_path / "none"), slurm_user="root"))
    facts = gather(config, tmp_path / "rad.toml", KEPT, runner=run, root=tmp_path)
    assert not facts.changed
    assert facts.slurm_error == facts.slurmdbd_error == "scontrol: Unable to contact slurm controller"
    assert (facts.settings, facts.nodes, facts.gres_conf, facts.lua_version) == ({}, (), None, "")
    assert facts.users == {"root": (0, 0)}
    assert (facts.radd_user, facts.radd_rights) == ("", None)
    assert slurm_facts.rights(run, "rad", 1.0) is None
    assert "No such file" in (facts.radd_error or "")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_what_users_cannot_read(open_folder: Path) -> None:
    toml = open_folder / "rad.toml"
    toml.touch(0o644)
    assert files.closed(toml) == files.closed(open_folder / "absent") == ""
    open_folder.chmod(0o711)
    assert files.closed(toml) == files.closed(open_folder) == ""
    toml.chmod(0o640)
    assert files.closed(toml) == str(toml)
    assert files.closed(toml, os.geteuid()) == files.closed(toml, 7, [toml.stat().st_gid]) == ""
    toml.chmod(0o604)
    inner = open_folder / "inner"
    inner.mkdir(0o755)
    (inner / "link").symlink_to(toml)
    open_folder.chmod(0o700)
    assert files.closed(inner / "link") == str(open_folder)
    circle = open_folder / "circle"
    circle.symlink_to(circle)
    assert files.closed(circle, os.geteuid()) == ""
    finding = _only("node", closed={"rad.toml": "/etc/rad"})
    assert (finding.subject, finding.found) == ("rad.toml", "/etc/rad: not for everybody to read")
    assert not finding.needed
    assert "chmod o+rX /etc/rad" in finding.cure


def test_what_is_closed_to_whom(open_folder: Path, tmp_path: Path) -> None:
    for name in ("rad.toml", "job_submit.lua", "cli_filter.lua", "rad.lua", "radd.sock"):
        (open_folder / name).touch(0o600)
    user = pwd.getpwuid(os.geteuid())
    config = Config(
        radd=Radd(socket=str(open_folder / "radd.sock"), slurm_user=user.pw_name),
        node=Node(state_dir=str(tmp_path)),
        mps=Mps(run_dir=str(open_folder)),
    )
    users = {user.pw_name: (user.pw_uid, user.pw_gid)}
    toml, modules = open_folder / "rad.toml", [str(open_folder / "rad.lua"), ""]
    closed = files.all_closed(config, toml, open_folder, modules, users)
    assert set(closed) == {"rad.toml", "[node] state_dir", "Lua module rad", "cli_filter.lua"}
    assert Path(closed["[node] state_dir"]) in (tmp_path, *tmp_path.parents)
    (open_folder / "slurm.conf").touch(0o640)
    assert "cli_filter.lua" not in files.all_closed(config, toml, open_folder, modules, users)
    (open_folder / "slurm.conf").chmod(0o644)
    assert "cli_filter.lua" in files.all_closed(config, toml, open_folder, modules, users)
    open_folder.chmod(0o700)
    assert "cli_filter.lua" not in files.all_closed(config, toml, open_folder, modules, users)
    others = files.all_closed(config, toml, open_folder, modules, {user.pw_name: (4711, user.pw_gid)})
    assert (others["radd socket"], others["job_submit.lua"]) == (str(open_folder), str(open_folder))
    assert "job_submit.lua" not in files.all_closed(config, toml, None, modules, {})
    open_folder.chmod(0o600)
    for_root = files.all_closed(config, toml, open_folder, modules, {"root": (0, 0)})
    assert not {"radd socket", "job_submit.lua"} & set(for_root)
    open_folder.chmod(0o755)


def test_which_scripts_the_hooks_are(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours.sh", tmp_path / "other.sh"
    ours.write_text("#!/bin/sh\n/opt/rad/etc/prolog.sh\n")
    other.write_text("#!/bin/sh\nscratch --gradual\n")
    assert hooks.scripts(f"{tmp_path}/*.sh,/no/such/*") == [str(other), str(ours), "/no/such/*"]
    assert hooks.name_rad([str(other), str(ours)])
    assert hooks.name_rad([str(tmp_path / "absent")])
    assert hooks.name_rad([])
    assert not hooks.name_rad([str(other)])
    for name in ("prolog.sh", "epilog.sh"):
        assert hooks.name_rad([str(Path(__file__).parents[2] / "etc" / name)])


def test_a_gres_conf_that_includes_others(tmp_path: Path) -> None:
    (tmp_path / "gres.conf").write_text("AutoDetect=off\n Include mps.conf # ours\ninclude absent.conf\n")
    (tmp_path / "mps.conf").write_text("Name=mps Count=100\ninclude mps.conf\n")
    text = files.with_included(tmp_path / "gres.conf") or ""
    assert text.startswith("AutoDetect=off\nName=mps Count=100\n")
    assert _only("node", gres_conf=text).found == "Name=mps Count=100"


def test_models_that_cannot_be_used(tmp_path: Path) -> None:
    config = Config(estimator=EstimatorSettings(models_dir=str(tmp_path)))
    assert daemons.model(config) == ""
    (tmp_path / "rad").mkdir()
    (tmp_path / "rad" / "current").write_text("none\n")
    assert f"{tmp_path}/rad/current names no version" in daemons.model(config)


def test_a_node_without_a_slurm_conf_of_its_own(tmp_path: Path) -> None:
    conf, cache = tmp_path / "etc" / "slurm.conf", tmp_path / "run/slurm/conf"
    assert files.folder_of("", tmp_path) is None
    assert files.folder_of(str(conf), tmp_path) == conf.parent
    cache.mkdir(parents=True)
    (cache / "slurm.conf").touch()
    assert files.folder_of(str(conf), tmp_path) == cache
    closed = tmp_path / ("x" * 256) / "slurm.conf"  # cannot be looked at, as what lies in another's closed folder
    assert files.folder_of(str(closed), tmp_path) == cache
    conf.parent.mkdir()
    conf.touch()
    assert files.folder_of(str(conf), tmp_path) == conf.parent


def test_lua_modules_of_another_version(tmp_path: Path) -> None:
    other = tmp_path / "rad.lua"
    shutil.copy(Path(slurm_hooks.__file__).with_name("lua") / "rad.lua", other)
    assert lua.is_ours("rad", str(other))
    other.write_text("return {}\n")
    assert not lua.is_ours("rad", str(other))
    assert lua.is_ours("rad", str(tmp_path / "absent"))


@pytest.mark.parametrize("role", ["controller", "node"])
def test_no_configuration_at_all(role: Role, tmp_path: Path) -> None:
    finding = _only(role, Config(), absent="/etc/rad/rad.toml")
    assert (finding.subject, finding.found, finding.needed) == ("rad.toml", "/etc/rad/rad.toml: absent", True)
    assert "Prolog and Epilog do nothing" in finding.cure

    def run(argv: Sequence[str], timeout_s: float) -> str:
        raise SlurmError(f"{argv[0]} {timeout_s}")

    toml = tmp_path / "rad.toml"
    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).absent == str(toml)
    toml.touch()
    assert gather(Config(), toml, KEPT, runner=run, root=tmp_path).absent == ""


def test_partitions_that_give_whole_nodes() -> None:
    finding = _only("controller", whole=frozenset({"gpu", "cpu"}))
    assert (finding.subject, finding.found, finding.needed) == ("OverSubscribe of gpu", "EXCLUSIVE", True)


def test_jobs_that_share_and_may_be_preempted() -> None:
    finding = _only("controller", preempted=frozenset({"gpu", "cpu"}))
    assert (finding.subject, finding.needed) == ("preemption in gpu", False)
    assert "PreemptMode=OFF" in finding.cure
    for version, advised in (("24.11.5", True), ("25.05.1", True), ("25.11.2", False), ("26.05.5", False)):
        facts = dataclasses.replace(WELL, preempted=frozenset({"gpu"}), **_setting("SLURM_VERSION", version))
        found = [finding.subject for finding in _problems("controller", facts)]
        assert found == (["preemption in gpu"] if advised else [])


@pytest.mark.parametrize("version", ["22.05.8", "23.11.4"])
def test_jobs_for_whole_gpus_beside_those_that_share(version: str) -> None:
    finding = _only("controller", **_setting("SLURM_VERSION", version))
    assert (finding.subject, finding.needed) == ("jobs for whole GPUs", False)
    assert "in gpu they may start on a GPU that others share" in finding.found
    nobody_shares = Config(partitions={"gpu": Partition(gpu_model="h200", method="off")})
    assert not _problems("controller", dataclasses.replace(WELL, **_setting("SLURM_VERSION", version)), nobody_shares)


def test_a_configuration_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Config] = []

    def gather(config: Config, path: Path, kept: Kept, unusable: str) -> Facts:
        asked.append(config)
        return dataclasses.replace(WELL, unusable=unusable, kept=kept.path)

    monkeypatch.setattr(command, "gather", gather)
    monkeypatch.setenv("RAD_KEPT", f"{tmp_path}/kept")
    toml, kept = tmp_path / "rad.toml", Kept(f"{tmp_path}/kept")
    toml.write_text("[")
    shown = CliRunner().invoke(cli, ["--config", str(toml), "doctor"])
    assert (shown.exit_code, shown.output) == (2, f"radctl: {toml}: not TOML: {shown.output.partition('TOML: ')[2]}")
    kept.keep(b"[partitions.gpu]\ngpu_model = 'h200'\n")
    shown = CliRunner().invoke(cli, ["--config", str(toml), "doctor"])
    assert shown.exit_code == 1
    assert shown.output.count("goes on with") == shown.output.count("rad.toml of 2") == 2
    assert "until then radd does not start anew" in shown.output
    assert "jobs are served by the copy until then" in shown.output
    assert [list(config.partitions) for config in asked] == [["gpu"]]
    link = _file("/var/cache/rad", FileFact("link", 0o777, 0, 0))
    assert "as RAD_KEPT in rad.env beside the hooks" in _only("node", **link).cure


def test_a_configuration_that_radd_has_not_read() -> None:
    finding = _only("controller", changed=True)
    assert (finding.subject, finding.found) == ("rad.toml", "changed since radd started")
    assert "systemctl restart radd" in finding.cure


def test_a_radd_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes connections for it all the same."""
    monkeypatch.setattr(daemons, "_CONNECT_TIMEOUT_S", 0.01)
    path = str(tmp_path / "radd.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        assert daemons.connect(path) == f"{path}: timed out"


def test_a_socket_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: socket.socket, path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert daemons.connect("/run/rad/radd.sock") is None


def test_the_monitor() -> None:
    finding = _only("node", monitor_error="127.0.0.1:336: Connection refused")
    assert (finding.subject, finding.needed) == ("rad-monitor", False)
    assert _problems("node", dataclasses.replace(WELL, monitor_error=None)) == []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert daemons.reach("0.0.0.0", port) == ""
    assert daemons.reach("é..x", port) == "é..x: no address"
    assert daemons.reach("127.0.0.1", port) == f"127.0.0.1:{port}: Connection refused"


def test_gpus_with_less_memory_than_their_partitions() -> None:
    finding = _only("node", memory_mib=81_559)
    assert (finding.subject, finding.needed) == ("GPU memory", False)
    assert finding.found == "81559 MiB, less than rad.toml says of gpu: jobs are held to their parts of that"
    assert _problems("node", dataclasses.replace(WELL, memory_mib=143_771)) == []
    elsewhere = Config(partitions={"other": Partition(gpu_model="h200")})
    assert _problems("node", dataclasses.replace(WELL, memory_mib=81_559), elsewhere) == []


def test_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    assert gpus.gpus() == (None, 0, (), "NVML Shared Library Not Found")
    ended: list[bool] = []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 4)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
    monkeypatch.setattr(nvml, "instances", lambda _, index: [("1g.18gb", 16_384)] if index else None)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: ended.append(True))
    assert gpus.gpus() == (1, 0, 3 * (("1g.18gb", 16_384),), "")
    monkeypatch.setattr(nvml, "instances", lambda *_: None)
    told = {0: 81_559, 1: 40_960, 2: 81_559}  # of the fourth the driver does not tell
    monkeypatch.setattr(
        nvml, "quiet", lambda *asked: told.get(asked[-1]) and SimpleNamespace(total=told[asked[-1]] << 20)
    )
    assert gpus.gpus() == (4, 40_960, (), "")
    assert ended == [True, True]
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpus.gpus() == (None, 0, (), "NVML's Python binding is missing: pip install nvidia-ml-py")


@pytest.mark.parametrize(
    ("facts", "args", "code"),
    [
        (WELL, [], 0),
        (WELL, ["controller"], 0),
        (dataclasses.replace(WELL, **_setting("AuthInfo", "")), ["controller"], 0),
        (dataclasses.replace(WELL, gpus=None), ["node"], 1),
    ],
)
def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: Facts, args: list[str], code: int) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("[partitions.gpu]\ngpu_model = 'h200'\n")
    monkeypatch.setattr(command, "gather", lambda *_: facts)
    shown = CliRunner().invoke(cli, ["--config", str(path), "doctor", *args])
    assert shown.exit_code == code
    assert "  ok       Slurm                    version 24.11.5\n" in shown.output
    assert ("controller:\n" in shown.output) == (args != ["node"])
    assert ("missing" in shown.output) == (code == 1)
    assert "later" not in shown.output
    data = json.loads(CliRunner().invoke(cli, ["--config", str(path), "doctor", "--json", *args]).output)
    assert set(data) == set(args or ["controller", "node"])


def test_command_where_nothing_is_changed_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("[partitions.gpu]\ngpu_model = 'h200'\nmode = 'shadow'\n")
    monkeypatch.setattr(command, "gather", lambda *_: dataclasses.replace(WELL, **_setting("Prolog", "")))
    shown = CliRunner().invoke(cli, ["--config", str(path), "doctor"])
    assert shown.exit_code == 0
    assert shown.output.count("  later    Prolog                   not set\n") == 2
    assert shown.output.count('  "later": for mode = "enforce"; advise and shadow do without\n') == 2
