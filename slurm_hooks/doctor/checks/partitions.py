"""What rad.toml says of each partition, beside what Slurm does. Pure."""

from __future__ import annotations

from slurm_hooks.config import Config
from slurm_hooks.doctor.checks.files import absent
from slurm_hooks.doctor.facts import Facts
from slurm_hooks.doctor.findings import Finding, enforcing, some, when
from slurm_hooks.gpus import unknown_gpu
from slurm_hooks.memory import memory_of, without_memory


def partitions(facts: Facts, config: Config) -> list[Finding]:
    """Whether there is a rad.toml, and what it says of each partition fits it."""
    if facts.absent:
        return absent(facts)
    if not config.partitions:
        return [Finding("rad.toml", False, "names no partition", "add [partitions.NAME], see radctl config example")]
    return [found for name in config.partitions for found in _partition(name, facts, config)]


def _partition(name: str, facts: Facts, config: Config) -> list[Finding]:
    part = config.partitions[name]
    known = name in facts.partitions
    cure = f"rename [partitions.{name}] in rad.toml: Slurm has {', '.join(sorted(facts.partitions)) or 'none'}"
    findings = [Finding(f"partition {name}", known, f"{part.mode}, {part.method}", cure)]
    if part.method != "off" and name in facts.whole:
        cure = f"take OverSubscribe=EXCLUSIVE of partition {name} out of slurm.conf: nothing of a node is shared so"
        findings.append(Finding(f"OverSubscribe of {name}", False, "EXCLUSIVE", cure))
    if part.method not in ("off", "mig") and not memory_of(part):
        found, _, what = without_memory(part).partition(": ")
        cure = f"{what} in [partitions.{name}]: else every job gets a whole GPU"
        findings.append(Finding(f"GPU memory of {name}", False, found, cure))
    if unknown := unknown_gpu(part):
        found, _, what = unknown.partition(": ")
        cure = f"set gpu_model in [partitions.{name}] to a name of theirs that RAD knows, if it knows one: else {what}"
        findings.append(Finding(f"GPU model of {name}", False, found, cure, needed=False))
    if part.threads != "all" and (part.method != "mps" or config.predictor.model != "rad"):
        found = f"{part.threads}, with method {part.method} and predictor {config.predictor.model}: every job gets 100"
        cure = f'set method = "mps" in [partitions.{name}] and model = "rad" in [predictor], or threads = "all"'
        findings.append(Finding(f"threads of {name}", False, found, cure, needed=False))
    feature = part.feature or part.gpu_model
    without = [node.name for node in facts.nodes if name in node.partitions and feature not in node.features]
    if known and feature and without:
        cure = f"add Feature={feature} to them in slurm.conf, so that requests for gpu:{feature}:1 find them"
        found = f"nodes without it: {some(without)}"
        feature_finding = Finding(f"feature {feature}", False, found, cure, needed=False)
        findings += when(name in enforcing(config), [feature_finding])
    return findings
