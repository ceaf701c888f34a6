"""Each thing that can be missing, and what is said of it."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.config import Config, Partition, PredictorSettings, Radd
from slurm_hooks.doctor.checks.hooks import EPILOG_S, PROLOG_S
from slurm_hooks.doctor.examine import Role, examine, roles_of
from slurm_hooks.doctor.facts import LUA_MODULES, FileFact, NodeFact
from tests.slurm_hooks.doctor.machine import (
    CONFIG,
    HOOK,
    SETTINGS,
    WELL,
    only,
    problems,
    with_file,
    with_gres,
    with_node,
    with_setting,
)

MIG = Config(partitions={"gpu": Partition(method="mig")})
MIG_GRES = "gpu:1g.18gb:2(S:0),gpu:nvidia_h200_3g.71gb:1,gpu:g3:1"
INSTANCES = (("1g.18gb", 16_384), ("1g.18gb", 16_384), ("3g.71gb", 71_424))


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
    finding = only("node", scripts=scripts, **with_setting("CliFilterPlugins", plugins))
    assert (finding.subject, finding.needed) == ("cli_filter.lua", needed)
    assert cure in finding.cure


@pytest.mark.parametrize("role", ["controller", "node"])
def test_a_machine_that_lacks_nothing(role: Role) -> None:
    assert problems(role, WELL) == []
    own = with_file("/run/rad/radd.sock", FileFact("socket", 0o600, 64030, 991))  # slurmctld's user's own
    assert problems(role, dataclasses.replace(WELL, **own)) == []


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
        (with_setting("SLURM_VERSION", "21.08.5"), "Slurm", "update Slurm: RAD needs 22.05 or newer"),
        (with_setting("SLURM_VERSION", ""), "Slurm", "22.05 or newer"),
        (with_setting("JobSubmitPlugins", "all_partitions"), "JobSubmitPlugins", "JobSubmitPlugins=lua"),
        (with_setting("GresTypes", "gpu"), "GresTypes", "GresTypes=gpu,mps"),
        (with_setting("SelectType", "select/linear"), "SelectType", "cons_tres"),
        (with_setting("AccountingStorageType", ""), "AccountingStorageType", "slurmdbd"),
        (with_setting("AccountingStoreFlags", "job_env"), "AccountingStoreFlags", "job_comment"),
        (with_setting("AccountingStorageTRES", "cpu,gres/gpu,gres/mps,gres/mps:g0,gres/mps:g1,gres/mps:g3"),
         "AccountingStorageTRES", "add gres/mps:g2 to"),
        (with_setting("Epilog", ""), "Epilog", "set Epilog"),
        (with_setting("PrologFlags", "X11"), "PrologFlags", "PrologFlags=Alloc"),
        (with_setting("PrologFlags", "Alloc,Contain,RunInJob"), "PrologFlags", "leave RunInJob out"),
        (with_setting("PrologEpilogTimeout", "30"), "PrologEpilogTimeout", "to 50 at least"),
        (with_setting("PrologTimeout", "10 sec"), "PrologTimeout", "to 30 at least"),
        (with_setting("EpilogTimeout", "45 sec"), "EpilogTimeout", "to 50 at least"),
        (with_setting("SlurmUser", "slurmadm(77)"), "[radd] slurm_user", 'slurm_user = "slurmadm"'),
        ({"scripts": {**WELL.scripts, "job_submit.lua": None}}, "job_submit.lua", "copy etc/job_submit.lua"),
        ({"scripts": {**WELL.scripts, "job_submit.lua": "-- rad\n"}}, "job_submit.lua", "add its line"),
        ({"lua_modules": {**WELL.lua_modules, "rad": ""}}, "Lua module rad", "/usr/local/share/lua/5.1/"),
        ({"lua_modules": {**WELL.lua_modules, "rad_script": ""}}, "Lua module rad", "copy slurm_hooks/lua/*.lua to "),
        ({"lua_modules": {**WELL.lua_modules, "socket.unix": ""}}, "Lua module socket.unix",
         "lua-socket, then touch job_submit.lua"),
        (with_file("/run/rad/radd.sock", FileFact()), "radd socket", "systemctl restart radd"),
        (with_file("/run/rad/radd.sock", FileFact("file", 0o660, 991, 64030)), "radd socket", "systemctl restart radd"),
        (with_file("/run/rad/radd.sock", FileFact("socket", 0o666, 991, 64030)), "radd socket", "everybody may write"),
        (with_file("/run/rad/radd.sock", FileFact("socket", 0o660, 991, 991)), "radd socket", "slurm may not write"),
        (with_file("/run/rad/radd.sock", FileFact("socket", 0o640, 991, 64030)), "radd socket", "slurm may not write"),
        ({"users": {}}, "radd socket", "there is no user 'slurm'"),
        ({"radd_error": "Connection refused"}, "radd", "restart radd"),
        ({"slurmdbd_error": "sacctmgr: Connection refused"}, "slurmdbd", "start slurmdbd"),
        ({"partitions": frozenset({"big"})}, "partition gpu", "Slurm has big"),
        ({"partitions": frozenset()}, "partition gpu", "Slurm has none"),
        (with_gres(""), "GRES of node0", "etc/gres.conf.rad"),
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
    finding = only("controller", **changes)
    assert finding.subject == subject
    assert finding.needed
    assert cure in finding.cure


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        (with_setting("CliFilterPlugins", ""), "CliFilterPlugins"),
        ({"lua_modules": {**WELL.lua_modules, "posix": ""}}, "Lua module posix"),
        ({"radd_rights": "None"}, "rights of radd"),
        ({"radd_rights": ""}, "rights of radd"),
        ({"model_error": "this model was fitted to other features"}, "[estimator] method"),
        (with_setting("AuthInfo", "socket=/run/munge.socket"), "AuthInfo"),
        (with_setting("JobRequeue", "0"), "JobRequeue"),
        (with_setting("JobFileAppend", "0"), "JobFileAppend"),
        (with_node(features=frozenset()), "feature h200"),
        ({"billing": {"gpu": "CPU=0,GRES/gpu=1.0"}}, "billing of gpu"),
        ({"limits": {"QOS normal": ("", "cpu=4,gres/gpu=2")}}, "limits on gres/gpu"),
        ({"limits": {"QOS normal": ("gres/gpu:g0=2",)}}, "limits on gres/gpu"),
    ],
)
def test_advice(changes: dict[str, Any], subject: str) -> None:
    finding = only("controller", **changes)
    assert (finding.subject, finding.needed) == (subject, False)


def _as(mode: Any, **others: Any) -> Config:
    return Config(partitions={"gpu": Partition(gpu_model="h200", mode=mode), **others})


@pytest.mark.parametrize("mode", ["shadow", "advise"])
@pytest.mark.parametrize(
    ("role", "changes", "subject"),
    [
        ("controller", with_setting("GresTypes", "gpu"), "GresTypes"),
        ("controller", with_setting("SelectType", "select/linear"), "SelectType"),
        ("controller", with_gres("gpu:4"), "GRES of node0"),
        ("controller", with_setting("AccountingStorageTRES", "cpu,gres/gpu"), "AccountingStorageTRES"),
        ("controller", with_setting("Prolog", ""), "Prolog"),
        ("controller", with_setting("PrologFlags", ""), "PrologFlags"),
        ("controller", with_setting("PrologEpilogTimeout", "30"), "PrologEpilogTimeout"),
        ("controller", with_setting("JobFileAppend", "0"), "JobFileAppend"),
        ("controller", with_setting("SLURM_VERSION", "22.05.8"), "jobs for whole GPUs"),
        ("controller", {"preempted": frozenset({"gpu"})}, "preemption in gpu"),
        ("controller", {"gres_conf": "Name=mps Count=100\n"}, "gres.conf"),
        ("controller", {"billing": {"gpu": "GRES/gpu=1.0"}}, "billing of gpu"),
        ("controller", {"limits": {"QOS normal": ("gres/gpu=2",)}}, "limits on gres/gpu"),
        ("controller", {"least": {"normal": "gres/gpu=1"}}, "MinTRESPerJob"),
        ("controller", {"radd_rights": "None"}, "rights of radd"),
        ("controller", with_node(features=frozenset()), "feature h200"),
        ("node", with_setting("Epilog", ""), "Epilog"),
        ("node", {"unnamed": frozenset({"Prolog"})}, "RAD's Prolog"),
        ("node", {"scripts": {"job_submit.lua": HOOK, "cli_filter.lua": "return 0\n"}}, "cli_filter.lua"),
        ("node", {"gres_conf": "Name=mps Count=100\n"}, "gres.conf"),
        ("node", {"timer": "inactive"}, "rad-spool.timer"),
        ("node", with_file("/usr/bin/nvidia-cuda-mps-control", FileFact()), "MPS control program"),
    ],
)
def test_what_is_of_use_only_once_requests_are_changed(
    mode: Any, role: Role, changes: dict[str, Any], subject: str
) -> None:
    finding = only(role, _as(mode), **changes)
    assert (finding.subject, finding.needed, finding.later) == (subject, False, True)
    now = only(role, _as("enforce"), **changes)
    assert (now.subject, now.found, now.later) == (subject, finding.found, False)


@pytest.mark.parametrize(
    ("role", "changes", "subject"),
    [
        ("controller", with_setting("JobSubmitPlugins", ""), "JobSubmitPlugins"),
        ("controller", with_setting("AccountingStoreFlags", ""), "AccountingStoreFlags"),
        ("controller", with_setting("GresTypes", ""), "GresTypes"),
        ("controller", with_setting("AccountingStorageTRES", "cpu"), "AccountingStorageTRES"),
        ("controller", {"radd_error": "Connection refused"}, "radd"),
        ("controller", {"whole": frozenset({"gpu"})}, "OverSubscribe of gpu"),
        ("node", {"task_prolog": "RAD does not answer"}, "TaskProlog"),
        ("node", {"scripts": {"job_submit.lua": HOOK, "cli_filter.lua": None}}, "cli_filter.lua"),
        ("node", {"gpus": None}, "NVML"),
    ],
)
def test_what_is_missing_in_shadow_too(role: Role, changes: dict[str, Any], subject: str) -> None:
    finding = only(role, _as("shadow"), **changes)
    assert (finding.subject, finding.needed, finding.later) == (subject, True, False)


def test_partitions_of_several_modes() -> None:
    config = _as("shadow", cpu=Partition(gpu_model="h200", feature="big"))
    assert only("controller", config, **with_gres("gpu:4")).later
    assert not only("controller", config, **with_setting("Prolog", "")).later
    assert only("controller", config, preempted=frozenset({"gpu"})).later
    assert not only("controller", config, preempted=frozenset({"cpu"})).later
    assert only("controller", config, **with_setting("SLURM_VERSION", "22.05.8")).found.startswith(
        "in cpu they may start"
    )
    off = _as("shadow", cpu=Partition(method="off"))
    assert only("controller", off, **with_setting("Prolog", "")).later


def test_limits_and_weights_that_count_shares_too() -> None:
    billing = {"gpu": "GRES/gpu=1,GRES/mps=0.01", "cpu": "GRES/gpu=1"}
    limits = {"QOS normal": ("", "gres/gpu=1,gres/mps=100")}
    assert problems("controller", dataclasses.replace(WELL, billing=billing, limits=limits)) == []


def test_limits_and_weights_where_nothing_is_shared_by_shares() -> None:
    facts = dataclasses.replace(WELL, billing={"gpu": "GRES/gpu=1"}, limits={"QOS normal": ("gres/gpu=2",)})
    facts = dataclasses.replace(facts, least={"normal": "gres/gpu=1"})
    assert problems("controller", facts, Config(partitions={"gpu": Partition(method="off")})) == []


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
    finding = only("controller", **with_gres(gres), **with_setting("AccountingStorageTRES", tres))
    assert finding.found.startswith(problem)


def test_nodes_of_other_partitions_are_none_of_our_business() -> None:
    other = NodeFact("node1", gres="gpu:8", partitions=frozenset({"cpu"}))
    assert problems("controller", dataclasses.replace(WELL, nodes=(*WELL.nodes, other))) == []


def test_many_nodes_are_not_all_named() -> None:
    nodes = tuple(dataclasses.replace(WELL.nodes[0], name=f"n{n}", features=frozenset()) for n in range(9))
    assert only("controller", nodes=nodes).found == "nodes without it: n0, n1, n2 and 6 more"


def test_a_script_with_a_path_of_its_own() -> None:
    scripts = {"job_submit.lua": f"package.path = '/opt/?.lua'\n{HOOK}", "cli_filter.lua": HOOK}
    modules = {**WELL.lua_modules, "rad": ""}
    assert problems("controller", dataclasses.replace(WELL, scripts=scripts, lua_modules=modules)) == []


@pytest.mark.parametrize("off", ["-- ", "--[[ of\n", "  --[==[ ]] "])
def test_a_script_whose_line_is_a_comment(off: str) -> None:
    ends = {"--[[ of\n": "]]\n", "  --[==[ ]] ": "]==]\n"}.get(off, "")
    scripts = {**WELL.scripts, "job_submit.lua": f"local a = 1\n{off}{HOOK}{ends}return 0\n"}
    assert only("controller", scripts=scripts).found == "does not load RAD"
    after = {**WELL.scripts, "job_submit.lua": f"-- notes ]]\n{HOOK}"}
    assert problems("controller", dataclasses.replace(WELL, scripts=after)) == []


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
    assert only("controller", Config()).subject == "rad.toml"


@pytest.mark.parametrize(
    ("part", "found"),
    [
        (Partition(), "memory of its GPUs is not told"),
        (Partition(gpu_model="h2000", feature="h200"), "gpu_model 'h2000' is not known"),
        (Partition(gpu_memory_mib=80), "margin_mib = 2048 leaves nothing of a GPU's 80 MiB"),
    ],
)
def test_gpus_of_unknown_memory(part: Partition, found: str) -> None:
    finding = only("controller", Config(partitions={"gpu": part}))
    assert (finding.subject, finding.found) == ("GPU memory of gpu", found)
    told = Config(partitions={"gpu": dataclasses.replace(part, gpu_memory_mib=40_960, margin_mib=2048)})
    assert [(p.subject, p.needed) for p in problems("controller", WELL, told)] == [("GPU model of gpu", False)]
    known = Config(partitions={"gpu": dataclasses.replace(part, gpu_model="h200", gpu_memory_mib=0)})
    assert problems("controller", WELL, known) == []
    mig = Config(partitions={"gpu": dataclasses.replace(part, method="mig", gpu_memory_mib=40_960)})
    assert "GPU model of gpu" not in [p.subject for p in problems("controller", WELL, mig)]
    assert problems("controller", WELL, Config(partitions={"gpu": Partition(method="off")})) == []


@pytest.mark.parametrize(
    ("private", "hidden"), [("jobs", "jobs"), ("users,nodes,jobs", "nodes and jobs"), ("usage", "")]
)
def test_rights_without_which_radd_sees_nothing(private: str, hidden: str) -> None:
    finding = only("controller", **with_setting("PrivateData", private), radd_rights="None")
    assert (finding.subject, finding.needed) == ("rights of radd", bool(hidden))
    assert (f"no job is pinned, as PrivateData hides {hidden}" in finding.cure) == bool(hidden)


@pytest.mark.parametrize("changes", [{"radd_rights": None}, {"radd_rights": "None", "radd_user": "slurm"}])
def test_rights_that_are_enough_or_not_known(changes: dict[str, Any]) -> None:
    assert problems("controller", dataclasses.replace(WELL, **changes)) == []


def test_a_user_who_may_not_try_the_socket() -> None:
    assert problems("controller", dataclasses.replace(WELL, radd_error=None)) == []


def test_slurm_down() -> None:
    down = dataclasses.replace(
        WELL, slurm_error="scontrol: no controller", settings={}, partitions=frozenset(), nodes=(), scripts={}
    )
    for role in ("controller", "node"):
        assert [finding.subject for finding in problems(role, down)] == ["Slurm"]


@pytest.mark.parametrize(
    ("changes", "subject", "found"),
    [
        (with_file("/opt/rad/prolog.sh", FileFact("file", 0o644, 0, 0)), "Prolog", "file of user 0 with mode 644"),
        (with_file("/opt/rad/epilog.sh", FileFact()), "Epilog", "/opt/rad/epilog.sh: absent"),
        (with_setting("TaskProlog", ""), "TaskProlog", "not set"),
        (with_file("/run/rad/jobs", FileFact("directory", 0o777, 0, 0)), "[node] state_dir", "mode 777"),
        (with_file("/run/rad/jobs", FileFact("directory", 0o755, 0, 0, full=True)), "[node] state_dir", "is full"),
        (with_file("/var/spool/rad", FileFact("directory", 0o755, 7, 0)), "[node] spool_dir", "of user 7"),
        (with_file("/run/rad/mps", FileFact("other", 0o755, 0, 0)), "[mps] run_dir", "other of user 0"),
        (with_file("/var/spool/rad", FileFact("link", 0o777, 0, 0)), "[node] spool_dir", "/var/spool/rad: a link"),
        (with_file("/usr/bin/nvidia-smi", FileFact()), "nvidia-smi", "absent"),
        ({"programs": {**WELL.programs, "sacct": ""}}, "sacct", "not found"),
        (
            {"programs": {**WELL.programs, "squeue": ""}, "elsewhere": {"squeue": "/opt/slurm/bin/squeue"}},
            "squeue",
            "/opt/slurm/bin/squeue, where the hooks do not look",
        ),
        ({"gpus": None}, "NVML", "does not answer"),
        ({"gpus": None, "nvml_error": "Driver Not Loaded"}, "NVML", "Driver Not Loaded"),
        ({"gpus": 3}, "NVML", "3 GPUs, Slurm lists 4"),
        (with_file("/usr/bin/nvidia-cuda-mps-control", FileFact()), "MPS control program", "absent"),
        (with_file("/opt/rad/prolog.sh", FileFact("file", 0o757, 0, 0)), "Prolog", "file of user 0 with mode 757"),
        (with_file("rad.toml", FileFact("file", 0o666, 0, 0)), "rad.toml", "mode 666"),
        ({"task_prolog": "RAD does not answer"}, "TaskProlog", "as a user runs it: RAD does not answer"),
        ({"closed": {"[node] state_dir": "/run/rad"}}, "[node] state_dir", "/run/rad: users cannot enter it"),
        ({"closed": {"[mps] run_dir": "/run/rad/mps"}}, "[mps] run_dir", "/run/rad/mps: users cannot enter it"),
        (with_file("/var/cache/rad", FileFact("directory", 0o757, 0, 0)), "RAD_KEPT", "of user 0 with mode 757"),
        ({"unusable": "this node goes on with a copy"}, "rad.toml", "this node goes on with a copy"),
        ({"closed": {"cli_filter.lua": "/etc/slurm"}}, "cli_filter.lua", "/etc/slurm: not to be read"),
        ({"lua_modules": {**WELL.lua_modules, "rad_step": ""}}, "Lua module rad", "not found: rad_step"),
        ({"gres_conf": "Name=mps Type=g0 Count=100\n"}, "gres.conf", "Name=mps Type=g0 Count=100"),
        ({"read": "/a/rad.toml"}, "RAD_CONFIG", "the hooks read /a/rad.toml"),
        (with_node(state="UNKNOWN"), "slurmd", "UNKNOWN"),
        (with_node(state="DOWN*"), "slurmd", "DOWN*"),
        (with_node(state="IDLE+DRAIN", reason="Prolog error"), "slurmd", "IDLE+DRAIN: Prolog error"),
    ],
)
def test_what_a_node_can_lack(changes: dict[str, Any], subject: str, found: str) -> None:
    finding = only("node", **changes)
    assert finding.subject == subject
    assert found in finding.found
    assert finding.cure


@pytest.mark.parametrize("name", ["Prolog", "Epilog"])
def test_a_hook_that_may_be_another_tools(name: str) -> None:
    finding = only("node", unnamed=frozenset({name}))
    assert (finding.subject, finding.needed) == (f"RAD's {name}", False)
    assert f"let it run RAD's etc/{name.lower()}.sh" in finding.cure


def test_a_node_that_its_admin_drains() -> None:
    assert problems("node", dataclasses.replace(WELL, **with_node(state="MIXED+DRAIN", reason="new disk"))) == []


@pytest.mark.parametrize("settings", [{"JobSubmitPlugins": "job_submit/lua"}, {"CliFilterPlugins": "cli_filter/lua"}])
def test_plugins_that_are_named_with_their_kind(settings: dict[str, str]) -> None:
    facts = dataclasses.replace(WELL, settings={**SETTINGS, **settings})
    assert problems("controller", facts) == problems("node", facts) == []


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
        assert [finding.subject for finding in problems("controller", facts, config)] == found
    unread = dataclasses.replace(WELL, scripts={**WELL.scripts, "job_submit.lua": None}, files=files)
    assert [finding.subject for finding in problems("controller", unread, config)] == ["job_submit.lua"]


def test_a_cli_filter_that_slurm_is_not_told_of_may_be_closed() -> None:
    changes = {"closed": {"cli_filter.lua": "/etc/slurm"}, **with_setting("CliFilterPlugins", "")}
    assert problems("node", dataclasses.replace(WELL, **changes)) == []


def test_a_timer_that_nobody_has_started() -> None:
    finding = only("node", timer="inactive")
    assert (finding.subject, finding.found, finding.needed) == ("rad-spool.timer", "inactive", False)
    assert "systemctl enable --now rad-spool.timer" in finding.cure
    assert problems("node", dataclasses.replace(WELL, timer="active")) == []


def test_folders_are_made_when_needed() -> None:
    assert problems("node", dataclasses.replace(WELL, **with_file("/run/rad/jobs", FileFact()))) == []


def test_a_partition_without_mps_needs_no_control_program() -> None:
    config = Config(partitions={"gpu": Partition(method="streams", gpu_model="h200")})
    changed = dataclasses.replace(WELL, **with_file("/usr/bin/nvidia-cuda-mps-control", FileFact()))
    assert problems("node", changed, config) == []


@pytest.mark.parametrize(
    ("method", "model", "heeded"), [("mps", "rad", True), ("streams", "rad", False), ("mps", "kace", False)]
)
def test_thread_percentages_that_nobody_chooses(method: Any, model: Any, heeded: bool) -> None:
    part = Partition(method=method, gpu_model="h200", threads="max-min")
    config = Config(partitions={"gpu": part}, predictor=PredictorSettings(model=model))
    found = [finding.subject for finding in problems("controller", WELL, config)]
    assert found == ([] if heeded else ["threads of gpu"])


def _mig(**changes: Any) -> dict[str, Any]:
    tracked = "gres/gpu,gres/mps,gres/gpu:1g.18gb,gres/gpu:nvidia_h200_3g.71gb"
    return {
        **with_gres(MIG_GRES),
        **with_setting("AccountingStorageTRES", tracked),
        "gpus": 1,
        "instances": INSTANCES,
        **changes,
    }


def test_mig_instances_as_nvml_and_slurm_both_have_them() -> None:
    for role in ("controller", "node"):
        assert problems(role, dataclasses.replace(WELL, **_mig()), MIG) == []
    seen = {finding.subject: finding.found for finding in examine("node", dataclasses.replace(WELL, **_mig()), MIG)}
    assert (seen["NVML"], seen["MIG instances"]) == ("1 GPUs and 3 MIG instances", "1g.18gb, 3g.71gb")
    seen = {
        finding.subject: finding.found for finding in examine("controller", dataclasses.replace(WELL, **_mig()), MIG)
    }
    assert seen["MIG profiles of gpu"] == "1g.18gb, nvidia_h200_3g.71gb"
    nodes = (dataclasses.replace(WELL.nodes[0], gres=f"{MIG_GRES},mps:g3:100"),)
    both = problems("controller", dataclasses.replace(WELL, **_mig(nodes=nodes)), MIG)
    assert ("mps in gpu", "nodes with mps: node0") in [(finding.subject, finding.found) for finding in both]


def test_where_all_jobs_get_mig_instances_slurm_needs_no_shares() -> None:
    settings = {**SETTINGS, "GresTypes": "gpu", "AccountingStorageTRES": _mig()["settings"]["AccountingStorageTRES"]}
    settings["AccountingStorageTRES"] = settings["AccountingStorageTRES"].replace("gres/mps,", "")
    facts = dataclasses.replace(WELL, **_mig(settings=settings))
    assert problems("controller", facts, MIG) == []
    both = Config(partitions={**MIG.partitions, "other": Partition(method="streams", gpu_model="h200")})
    cures = {finding.subject: finding.cure for finding in problems("controller", facts, both)}
    assert cures["GresTypes"] == "set GresTypes=gpu,mps in slurm.conf"
    assert cures["AccountingStorageTRES"] == "add gres/mps to AccountingStorageTRES in slurm.conf"


def test_what_mig_instances_can_lack() -> None:
    less = only("node", MIG, **_mig(instances=(*INSTANCES[:2], ("2g.35gb", 33_280))))
    assert (less.subject, "NVML has 1g.18gb, 2g.35gb" in less.found) == ("MIG instances", True)
    small = only("node", MIG, **_mig(instances=(*INSTANCES[:2], ("3g.71gb", 60_000))))
    assert (small.subject, small.needed, small.found) == (
        "MIG memory",
        False,
        "3g.71gb has 60000 MiB, its name says 64325",
    )
    fewer = problems("node", dataclasses.replace(WELL, **_mig(instances=INSTANCES[:2])), MIG)
    assert [finding.found for finding in fewer] == [
        "1 GPUs and 2 MIG instances, Slurm lists 4",
        f"NVML has 1g.18gb; Slurm's Types are {MIG_GRES}",
    ]
    none = problems("controller", dataclasses.replace(WELL, gpus=1), MIG)
    assert [finding.subject for finding in none] == ["MIG profiles of gpu", "mps in gpu"]
    untold = only("controller", MIG, **{**_mig(), **with_setting("AccountingStorageTRES", "gres/gpu,gres/mps")})
    assert untold.found == "lacks gres/gpu:1g.18gb,gres/gpu:nvidia_h200_3g.71gb"


def test_a_node_that_slurm_does_not_list() -> None:
    assert problems("node", dataclasses.replace(WELL, host="login1", gpus=7)) == []


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
    assert problems("controller", dataclasses.replace(WELL, settings=settings)) == []


def test_the_hooks_end_before_slurm_ends_them() -> None:
    etc = Path(__file__).parents[3] / "etc"
    for name, most in (("prolog.sh", PROLOG_S), ("epilog.sh", EPILOG_S)):
        found = re.findall(r"^most=(\d+)|timeout -k (\d+)|timeout (\d+)", (etc / name).read_text(), re.MULTILINE)
        assert len(found) == 3
        assert sum(map(int, filter(None, itertools.chain(*found)))) < most


def test_partitions_that_give_whole_nodes() -> None:
    finding = only("controller", whole=frozenset({"gpu", "cpu"}))
    assert (finding.subject, finding.found, finding.needed) == ("OverSubscribe of gpu", "EXCLUSIVE", True)


def test_jobs_that_share_and_may_be_preempted() -> None:
    finding = only("controller", preempted=frozenset({"gpu", "cpu"}))
    assert (finding.subject, finding.needed) == ("preemption in gpu", False)
    assert "PreemptMode=OFF" in finding.cure
    for version, advised in (("24.11.5", True), ("25.05.1", True), ("25.11.2", False), ("26.05.5", False)):
        facts = dataclasses.replace(WELL, preempted=frozenset({"gpu"}), **with_setting("SLURM_VERSION", version))
        found = [finding.subject for finding in problems("controller", facts)]
        assert found == (["preemption in gpu"] if advised else [])


@pytest.mark.parametrize("version", ["22.05.8", "23.11.4"])
def test_jobs_for_whole_gpus_beside_those_that_share(version: str) -> None:
    finding = only("controller", **with_setting("SLURM_VERSION", version))
    assert (finding.subject, finding.needed) == ("jobs for whole GPUs", False)
    assert "in gpu they may start on a GPU that others share" in finding.found
    nobody_shares = Config(partitions={"gpu": Partition(gpu_model="h200", method="off")})
    assert not problems(
        "controller", dataclasses.replace(WELL, **with_setting("SLURM_VERSION", version)), nobody_shares
    )


def test_a_configuration_that_radd_has_not_read() -> None:
    finding = only("controller", changed=True)
    assert (finding.subject, finding.found) == ("rad.toml", "changed since radd started")
    assert "systemctl restart radd" in finding.cure


def test_gpus_with_less_memory_than_their_partitions() -> None:
    finding = only("node", memory_mib=81_559)
    assert (finding.subject, finding.needed) == ("GPU memory", False)
    assert finding.found == "81559 MiB, less than rad.toml says of gpu: jobs are held to their parts of that"
    assert problems("node", dataclasses.replace(WELL, memory_mib=143_771)) == []
    elsewhere = Config(partitions={"other": Partition(gpu_model="h200")})
    assert problems("node", dataclasses.replace(WELL, memory_mib=81_559), elsewhere) == []
