"""The node's GPUs, MIG instances and MPS, beside what Slurm and rad.toml say of them. Pure."""

from __future__ import annotations

from collections import Counter

from slurm_hooks import mig
from slurm_hooks.config import Config
from slurm_hooks.doctor.checks.files import program
from slurm_hooks.doctor.facts import Facts
from slurm_hooks.doctor.findings import Finding, some, when
from slurm_hooks.gres import counted
from slurm_hooks.memory import is_smaller


def driver(facts: Facts, config: Config) -> list[Finding]:
    """Whether nvidia-smi and NVML tell of GPUs, and of those that Slurm lists."""
    cure = "install NVIDIA's driver, or set [mps] nvidia_smi in rad.toml"
    return [program("nvidia-smi", config.mps.nvidia_smi, facts, cure), _nvml(facts)]


def control(facts: Facts, config: Config, acts: bool) -> list[Finding]:
    """Whether the program of MPS's daemons is there, where jobs share by MPS."""
    if all(part.method != "mps" for part in config.partitions.values()):
        return []
    cure = "install it with NVIDIA's driver, or set [mps] control in rad.toml"
    return when(acts, [program("MPS control program", config.mps.control, facts, cure)])


def _nvml(facts: Facts) -> Finding:
    here = facts.here
    listed = sum(count for kind, _, count in counted(here.gres) if kind == "gpu") if here else None
    if facts.gpus is None:
        found = facts.nvml_error or "does not answer"
        return Finding("NVML", False, found, "install NVIDIA's driver; then check: nvidia-smi -L")
    agree = listed is None or listed == facts.gpus + len(facts.instances)
    found = f"{facts.gpus} GPUs" + (f" and {len(facts.instances)} MIG instances" if facts.instances else "")
    found += "" if agree else f", Slurm lists {listed}"
    return Finding("NVML", agree, found, "make Gres in slurm.conf and gres.conf match nvidia-smi -L")


def instances(facts: Facts) -> list[Finding]:
    """Whether the node's MIG instances are those that Slurm lists, and have the memory that RAD reckons with."""
    here = facts.here
    if not facts.instances or here is None:
        return []
    balance = Counter[tuple[int, int]]()  # by slices and memory, as their profiles' names tell
    for kind, device, count in counted(here.gres):
        if kind == "gpu" and (listed := mig.instance(device)):
            balance[listed.slices, listed.memory_mib] += count
    small = []
    for name, memory_mib in facts.instances:
        if seen := mig.instance(name):
            balance[seen.slices, seen.memory_mib] -= 1
            if memory_mib < seen.memory_mib:
                small.append(f"{name} has {memory_mib} MiB, its name says {seen.memory_mib}")
    names = ", ".join(sorted({name for name, _ in facts.instances}))
    agree = not any(balance.values())
    return [
        Finding(
            "MIG instances",
            agree,
            names if agree else f"NVML has {names}; Slurm's Types are {here.gres}",
            "make Gres in slurm.conf and gres.conf match nvidia-smi -L",
        ),
        Finding(
            "MIG memory",
            not small,
            small[0] if small else "as the profiles' names say",
            "jobs may not fit: users can claim more with #RAD memory=",
            needed=False,
        ),
    ]


def memory(facts: Facts, config: Config) -> list[Finding]:
    """Partitions of this node of whose GPUs rad.toml says more memory than they have."""
    here = facts.here
    less = [
        name
        for name, part in config.partitions.items()
        if here is not None and name in here.partitions and is_smaller(part, facts.memory_mib)
    ]
    cure = "name the model with least memory as gpu_model, or its memory as gpu_memory_mib: a job may need more here"
    found = f"{facts.memory_mib} MiB, less than rad.toml says of {some(less)}: jobs are held to their parts of that"
    return [Finding("GPU memory", False, found, cure, needed=False)] if less else []
