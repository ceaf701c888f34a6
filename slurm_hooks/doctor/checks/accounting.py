"""What slurmdbd keeps, and what it holds users to: a job that shares holds no gres/gpu. Pure."""

from __future__ import annotations

from slurm_hooks import mig
from slurm_hooks.config import Config
from slurm_hooks.doctor.facts import Facts
from slurm_hooks.doctor.findings import Finding, enforcing, sharing, some, when
from slurm_hooks.gres import counted


def accounting(facts: Facts, config: Config) -> list[Finding]:
    """Whether records are kept in slurmdbd, and shares accounted for."""
    storage = facts.settings.get("AccountingStorageType", "")
    flags = facts.settings.get("AccountingStoreFlags", "")
    cure = "set AccountingStorageType=accounting_storage/slurmdbd: records are kept there"
    kept_there = storage == "accounting_storage/slurmdbd"
    findings = [Finding("AccountingStorageType", kept_there, storage or "not set", cure)]
    if kept_there:
        cure = "start slurmdbd: until then outcomes wait on the nodes, and nobody gets a report"
        findings.append(Finding("slurmdbd", not facts.slurmdbd_error, facts.slurmdbd_error or "answers", cure))
    cure = "add job_comment to AccountingStoreFlags in slurm.conf: records are kept there"
    findings.append(Finding("AccountingStoreFlags", "job_comment" in flags.lower(), flags or "not set", cure))
    lacking = _lacking(facts, config)
    found = f"lacks {lacking}" if lacking else "shares are accounted for"
    cure = f"add {lacking} to AccountingStorageTRES in slurm.conf"
    acts = bool(enforcing(config)) or "gres/gpu" in lacking
    return [*findings, *when(acts, [Finding("AccountingStorageTRES", not lacking, found, cure)])]


def _lacking(facts: Facts, config: Config) -> str:
    """What AccountingStorageTRES must name and does not."""
    tracked = set(facts.settings.get("AccountingStorageTRES", "").split(","))
    devices = {device for node in facts.nodes for kind, device, _ in counted(node.gres) if kind == "mps"}
    wanted = {"gres/gpu", *(f"gres/mps:{device}" for device in devices if device)}
    wanted |= {"gres/mps"} if sharing(config) else set()
    kinds = {kind for node in facts.nodes for _, kind, _ in counted(node.gres)}
    wanted |= {f"gres/gpu:{instance.type}" for instance in mig.instances(kinds)}
    return ",".join(sorted(wanted - tracked))


def limits(facts: Facts, config: Config) -> list[Finding]:
    """What counts GPUs and not shares: a job that shares holds no gres/gpu."""
    shared = sharing(config)
    acts = not enforcing(config).isdisjoint(shared)
    findings: list[Finding] = []
    for name in shared:
        if _without_shares(facts.billing.get(name, "")):
            cure = (
                f"add GRES/mps=0.01 for each GRES/gpu=1 to TRESBillingWeights of partition {name}: shares cost nothing"
            )
            finding = Finding(f"billing of {name}", False, facts.billing[name], cure, needed=False)
            findings += when(name in enforcing(config), [finding])
    whose = [name for name, lists in facts.limits.items() if any(map(_without_shares, lists))]
    if shared and whose:
        cure = "add gres/mps=100 for each gres/gpu=1 with sacctmgr: users who share are not held to these limits"
        findings += when(acts, [Finding("limits on gres/gpu", False, some(whose), cure, needed=False)])
    least = [name for name, resources in facts.least.items() if "gres/gpu" in resources]
    if shared and least:
        cure = "take gres/gpu out of MinTRESPerJob with sacctmgr: a job that shares has none and would wait for ever"
        findings += when(acts, [Finding("MinTRESPerJob", False, f"gres/gpu, in QOS {some(least)}", cure)])
    return findings


def _without_shares(resources: str) -> bool:
    """Whether a list of resources counts GPUs and not their shares."""
    names = [item.partition("=")[0].partition(":")[0] for item in resources.lower().split(",")]
    return "gres/gpu" in names and "gres/mps" not in names
