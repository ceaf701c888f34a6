"""What a controller or a node lacks for RAD: which checks there are for each. Pure: facts in, findings out."""

from __future__ import annotations

from typing import Literal

from slurm_hooks.config import Config
from slurm_hooks.doctor.checks import accounting, daemons, files, gpus, gres, hooks, lua, partitions, slurm
from slurm_hooks.doctor.facts import Facts
from slurm_hooks.doctor.findings import Finding, enforcing, when

Role = Literal["controller", "node"]


def roles_of(facts: Facts) -> tuple[Role, ...]:
    """What this machine is to Slurm; a node where Slurm does not say."""
    hosts = {value.partition("(")[0] for name, value in facts.settings.items() if name.startswith("SlurmctldHost")}
    controller: tuple[Role, ...] = ("controller",) if facts.host in hosts else ()
    node: tuple[Role, ...] = ("node",) if facts.here or not controller else ()
    return controller + node


def examine(role: Role, facts: Facts, config: Config) -> list[Finding]:
    """All findings for a machine in its role."""
    found = _controller(facts, config) if role == "controller" else _node(facts, config)
    return [*_unusable(role, facts), *found]


def _unusable(role: Role, facts: Facts) -> list[Finding]:
    """Whether all that follows is judged by an older rad.toml than the one that is there."""
    if not facts.unusable:
        return []
    goes_on = (
        "until then radd does not start anew" if role == "controller" else "jobs are served by the copy until then"
    )
    cure = f"radctl config check names each error: {goes_on}; what follows here is judged by the copy"
    return [Finding("rad.toml", False, facts.unusable, cure)]


def _controller(facts: Facts, config: Config) -> list[Finding]:
    radd, acts = daemons.radd(facts, config), bool(enforcing(config))
    if facts.slurm_error:
        return [slurm.answers(facts), *radd]
    return [
        slurm.answers(facts),
        *lua.plugins(facts),
        *radd,
        *when(acts, daemons.rights(facts)),
        *partitions.partitions(facts, config),
        *gres.gres(facts, config),
        *accounting.accounting(facts, config),
        *accounting.limits(facts, config),
        *when(acts, [*hooks.named(facts), *hooks.requeue(facts)]),
    ]


def _node(facts: Facts, config: Config) -> list[Finding]:
    findings, acts = [slurm.answers(facts)], bool(enforcing(config))
    if not facts.slurm_error:
        findings += [*slurm.slurmd(facts), *hooks.scripts(facts, acts), *lua.steps(facts, acts)]
        findings += when(acts, gres.gres_conf(facts))
    return [
        *findings,
        *files.absent(facts),
        *files.closed(facts),
        *files.other(facts),
        *files.directories(facts, config),
        *hooks.commands(facts),
        *gpus.driver(facts, config),
        *gpus.instances(facts),
        *gpus.memory(facts, config),
        *daemons.timer(facts, acts),
        *daemons.monitor(facts),
        *gpus.control(facts, config, acts),
    ]
