"""Generic resources: what Slurm knows of GPUs, shares and MIG instances, and does with jobs for them. Pure."""

from __future__ import annotations

import re

from slurm_hooks import mig
from slurm_hooks.config import Config
from slurm_hooks.doctor.facts import Facts
from slurm_hooks.doctor.findings import Finding, enforcing, sharing, some, when
from slurm_hooks.gres import counted
from slurm_hooks.shares import SHARES_PER_GPU
from slurm_hooks.slurm.versions import PREEMPTS_ALL_SINCE, SHARES_COUNTED_SINCE, WHOLE_IS_ALONE_SINCE


def gres(facts: Facts, config: Config) -> list[Finding]:
    """Whether Slurm knows GPUs, and their shares where jobs hold some."""
    shared, acts = _shared(config), bool(_acting(config))
    types = facts.settings.get("GresTypes", "").split(",")
    wanted = ["gpu", "mps"] if shared else ["gpu"]
    cure = f"set GresTypes={','.join(wanted)} in slurm.conf"
    found = ",".join(types) or "not set"
    findings = when("gpu" not in types or acts, [Finding("GresTypes", {*wanted} <= {*types}, found, cure)])
    select = facts.settings.get("SelectType", "")
    cure = "set SelectType=select/cons_tres in slurm.conf: shares need it"
    findings += when(bool(enforcing(config)), [Finding("SelectType", select == "select/cons_tres", select, cure)])
    for node in facts.nodes:
        if not node.partitions.isdisjoint(shared):
            problem = _gres_problem(node.gres)
            cure = "give each device a Type of its own, for gpu and for mps: see etc/gres.conf.rad"
            finding = Finding(f"GRES of {node.name}", not problem, problem or node.gres, cure)
            findings += when(not node.partitions.isdisjoint(_acting(config)), [finding])
    findings += [*_whole_gpus(facts, config), *_preemption(facts, config)]
    findings += [
        found for name, part in config.partitions.items() if part.method == "mig" for found in _mig(name, facts)
    ]
    return [*findings, *when(acts, gres_conf(facts))]


def _shared(config: Config) -> list[str]:
    return sorted(sharing(config))


def _acting(config: Config) -> list[str]:
    """Partitions whose jobs get shares; in the others it would be of use only once they do."""
    return [name for name in _shared(config) if name in enforcing(config)]


def _whole_gpus(facts: Facts, config: Config) -> list[Finding]:
    shared, acting = _shared(config), _acting(config)
    if not shared or not SHARES_COUNTED_SINCE <= facts.version < WHOLE_IS_ALONE_SINCE:
        return []
    where = some(acting or shared)
    found = f"in {where} they may start on a GPU that others share, once one of these has ended"
    cure = (
        "update Slurm (24.11 is right), or give jobs without #RAD lines, and those for several GPUs, a partition "
        "with nodes of its own; all others ask for shares, which Slurm counts right"
    )
    return when(bool(acting), [Finding("jobs for whole GPUs", False, found, cure, needed=False)])


def _preemption(facts: Facts, config: Config) -> list[Finding]:
    if facts.version >= PREEMPTS_ALL_SINCE:
        return []
    cure = (
        "set PreemptMode=OFF for it in slurm.conf, or, with preempt/qos, let no QOS preempt its jobs', or let who "
        "preempts ask for shares (--gres=mps:100, or #RAD lines), for which Slurm makes room as it should. For "
        "one that asks for the whole GPU Slurm 22.05 and 23.11 preempt one of its jobs, and start it beside the "
        "others; 24.11 preempts one after the other while it waits; 25.11 is right"
    )
    findings: list[Finding] = []
    for name in sorted(facts.preempted.intersection(sharing(config))):
        finding = Finding(f"preemption in {name}", False, "its jobs may be preempted", cure, needed=False)
        findings += when(name in enforcing(config), [finding])
    return findings


def _mig(name: str, facts: Facts) -> list[Finding]:
    """Whether a partition has MIG instances, and nothing that Slurm does not take beside them."""
    here = [node for node in facts.nodes if name in node.partitions]
    found = ", ".join(p.type for p in mig.instances({kind for node in here for _, kind, _ in counted(node.gres)}))
    cure = "make instances (nvidia-smi mig -cgi) with Types named after their profiles, as AutoDetect=nvml does"
    both = [node.name for node in here if "mps:" in node.gres]
    beside = "leave mps out of their Gres in slurm.conf and gres.conf: 26.05 drains a node that has MIG and mps"
    return [
        Finding(f"MIG profiles of {name}", bool(found), found or "none", cure),
        Finding(f"mps in {name}", not both, f"nodes with mps: {some(both)}" if both else "none", beside),
    ]


def gres_conf(facts: Facts) -> list[Finding]:
    """Whether all GPUs of a node are shared, where gres.conf can be read."""
    if facts.gres_conf is None:
        return []
    lines = [line.split("#")[0].strip() for line in facts.gres_conf.replace("\\\n", " ").splitlines()]
    lacking = [
        line for line in lines if re.search(r"\bName=mps\b", line, re.IGNORECASE) and "all_sharing" not in line.lower()
    ]
    cure = "add Flags=all_sharing to every line with Name=mps: without it one GPU of a node is shared"
    return [Finding("gres.conf", not lacking, lacking[0] if lacking else "mps lines have all_sharing", cure)]


def _gres_problem(gres: str) -> str:
    """What is wrong with a node's GRES, or the empty string."""
    counts: dict[tuple[str, str], int] = {}
    for kind, device, count in counted(gres):
        counts[kind, device] = counts.get((kind, device), 0) + count
    gpus = {device: count for (kind, device), count in counts.items() if kind == "gpu"}
    shares = {device: count for (kind, device), count in counts.items() if kind == "mps"}
    checks = (
        (not gpus, "no GPU"),
        ("" in gpus, "GPUs without a Type: 22.05 would book a shared GPU twice"),
        (any(count > 1 for count in gpus.values()), "several GPUs of one Type: shares cannot be pinned to one of them"),
        (not shares, "no mps"),
        ("" in shares, "mps without a Type: job steps of typed jobs fail on 22.05"),
        (set(gpus) != set(shares), "gpu and mps name different Types"),
        ("shard:" in gres, "shard beside mps: Slurm gives a GPU away through both"),
        (any(count != SHARES_PER_GPU for count in shares.values()), f"mps of a device is not {SHARES_PER_GPU}"),
    )
    problem = next((text for wrong, text in checks if wrong), "")
    return f"{problem}: {gres or 'nothing set'}" if problem else ""
