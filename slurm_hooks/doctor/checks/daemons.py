"""radd, its rights in slurmdbd, rad-monitor and rad-spool.timer: whether they run, and do what they are to. Pure."""

from __future__ import annotations

from typing import Final

from slurm_hooks.config import Config
from slurm_hooks.doctor.checks.lua import asked
from slurm_hooks.doctor.facts import Facts, FileFact
from slurm_hooks.doctor.findings import Finding, when

_PRIVATE: Final = ("jobs", "nodes")  # of PrivateData: what radd looks at


def radd(facts: Facts, config: Config) -> list[Finding]:
    """Whether radd runs, as rad.toml says, and slurmctld can ask it."""
    findings = []
    if facts.model_error:
        cure = (
            f"radctl models rollback {config.estimator.method}, or radctl retrain: the model that comes with RAD "
            "serves instead; where a package is missing radd does not start"
        )
        findings.append(Finding("[estimator] method", False, facts.model_error, cure, needed=False))
    path, user = config.radd.socket, config.radd.slurm_user
    if facts.files.get(path, FileFact()).kind != "socket":
        cure = "start radd, anew where it runs: systemctl restart radd; journalctl -u radd says why it does not stay"
        described = facts.files.get(path, FileFact()).described
        return [*findings, Finding("radd socket", False, f"{path}: {described}", cure)]
    findings.append(_socket(facts, path, user))
    asks_at = asked(facts)
    if asks_at not in (None, path):
        cure = f'write in job_submit.lua: if ok then rad.socket = "{path}"; rad.wrap() end; without it no job is shared'
        findings.append(Finding("[radd] socket", False, f"{path}, job_submit.lua asks at {asks_at}", cure))
    slurm_user = facts.settings.get("SlurmUser", "").partition("(")[0]
    if slurm_user:
        cure = f'set slurm_user = "{slurm_user}" in section [radd] of rad.toml'
        findings.append(Finding("[radd] slurm_user", slurm_user == user, f"{user}, SlurmUser is {slurm_user}", cure))
    if facts.radd_error is not None:
        found = facts.radd_error or "takes connections"
        findings.append(Finding("radd", not facts.radd_error, found, "restart radd: systemctl restart radd"))
    if facts.changed:
        cure = "restart radd, which reads it when it starts: systemctl restart radd"
        findings.append(Finding("rad.toml", False, "changed since radd started", cure))
    return findings


def _socket(facts: Facts, path: str, user: str) -> Finding:
    """Whether slurmctld's user, and no other, may write to radd's socket."""
    fact = facts.files[path]
    uid, gid = facts.users.get(user, (-1, -1))
    may = fact.uid == uid or (fact.gid == gid and fact.group_writes)
    closed = not fact.others_write
    bits = f"{path}: mode {fact.mode & 0o777:o}, user {fact.uid}, group {fact.gid}"
    if user not in facts.users:
        cure = f"there is no user {user!r}: set [radd] slurm_user in rad.toml to SlurmUser"
    elif not closed:
        cure = "everybody may write to it: restart radd, which makes it anew with mode 660"
    else:
        cure = f"{user} may not write to it: run radd with the group of {user} (SupplementaryGroups)"
    way = facts.closed.get("radd socket", "")
    if way and user in facts.users:
        bits, cure = f"{path}: {user} cannot enter {way}", f"chmod o+x {way}: without it no job is shared"
    return Finding("radd socket", may and closed and not way, bits, cure)


def rights(facts: Facts) -> list[Finding]:
    """Whether radd may look at jobs and nodes, and take back pins."""
    user = facts.radd_user
    if facts.radd_rights is None or user in ("", "root", facts.settings.get("SlurmUser", "").partition("(")[0]):
        return []
    enough = facts.radd_rights in ("Operator", "Administrator")
    hidden = [what for what in facts.settings.get("PrivateData", "").split(",") if what in _PRIVATE]
    else_ = f"no job is pinned, as PrivateData hides {' and '.join(hidden)}" if hidden else "pins are not taken back"
    cure = f"make {user} an operator: sacctmgr modify user {user} set adminlevel=operator; else {else_}"
    return [Finding("rights of radd", enough, f"{user}: {facts.radd_rights or 'none'}", cure, needed=bool(hidden))]


def timer(facts: Facts, acts: bool) -> list[Finding]:
    """Whether systemd starts what sends outcomes that were left over."""
    if facts.timer is None:
        return []
    cure = (
        "start it: systemctl enable --now rad-spool.timer; without it outcomes that slurmdbd has not taken wait "
        "for the next job's end, and jobs whose MPS daemon dies for the next job's start"
    )
    return when(acts, [Finding("rad-spool.timer", facts.timer == "active", facts.timer, cure, needed=False)])


def monitor(facts: Facts) -> list[Finding]:
    """Whether rad-monitor takes connections, where it is to."""
    if facts.monitor_error is None:
        return []
    found = facts.monitor_error or "takes connections"
    cure = "start rad-monitor: systemctl start rad-monitor; without it nothing is measured"
    return [Finding("rad-monitor", not facts.monitor_error, found, cure, needed=False)]
