"""Prolog, TaskProlog and Epilog: whether Slurm runs them, and they find RAD and Slurm's commands. Pure."""

from __future__ import annotations

import re

from slurm_hooks.doctor.checks.files import program
from slurm_hooks.doctor.facts import COMMANDS, HOOKS, Facts
from slurm_hooks.doctor.findings import Finding, when

# How long a requeued job waits with Slurm's default, in seconds.
_SLOW_REQUEUE_S = 121
# What Slurm must grant the hooks, in seconds: more than etc/prolog.sh and etc/epilog.sh allow themselves.
PROLOG_S, EPILOG_S = 30, 50


def named(facts: Facts) -> list[Finding]:
    """Whether slurm.conf names them, and lets them run when they must."""
    findings = []
    for name in HOOKS:
        path = facts.settings.get(name, "")
        cure = f"set {name} in slurm.conf, see etc/slurm.conf.rad"
        findings.append(Finding(name, bool(path), path or "not set", cure))
    flags = facts.settings.get("PrologFlags", "")
    alloc, in_job = "alloc" in flags.lower(), "runinjob" in flags.lower()
    cure = (
        "leave RunInJob out of PrologFlags in slurm.conf: an MPS daemon would be held to the memory of the job whose "
        "Prolog starts it, also when that has ended and others use it"
        if in_job
        else "set PrologFlags=Alloc in slurm.conf: Prolog must run before the job's first process"
    )
    findings.append(Finding("PrologFlags", alloc and not in_job, flags or "not set", cure))
    return [*findings, *_timeouts(facts)]


def _timeouts(facts: Facts) -> list[Finding]:
    """Slurm's own limits of the hooks; later versions have one for each of them."""
    findings = []
    for name, least in (("PrologEpilogTimeout", EPILOG_S), ("PrologTimeout", PROLOG_S), ("EpilogTimeout", EPILOG_S)):
        limit = re.match(r"\d+", facts.settings.get(name, ""))  # else there is none
        if limit and int(limit.group()) < least:
            cure = (
                f"set {name} in slurm.conf to {least} at least, or leave it out: Slurm drains a node whose Prolog or "
                "Epilog it has to end, and what RAD's leave undone to end before is lost"
            )
            findings.append(Finding(name, False, f"{limit.group()} s", cure))
    return findings


def requeue(facts: Facts) -> list[Finding]:
    """What becomes of a job that ran out of GPU memory."""
    found = re.search(r"cred_expire=(\d+)", facts.settings.get("AuthInfo", ""))
    cure = f"add cred_expire=5 to AuthInfo in slurm.conf: else a requeued job waits {_SLOW_REQUEUE_S} s"
    findings = [
        Finding("AuthInfo", found is not None, found.group() if found else "no cred_expire", cure, needed=False)
    ]
    for name, without in (
        ("JobRequeue", "no job that runs out of GPU memory is tried again but those with --requeue"),
        ("JobFileAppend", "Slurm empties a requeued job's log, and its user never reads why it ran again"),
    ):
        value = facts.settings.get(name, "")
        cure = f"set {name}=1 in slurm.conf: else {without}"
        findings.append(Finding(name, value != "0", value or "not told", cure, needed=False))
    return findings


def scripts(facts: Facts, acts: bool) -> list[Finding]:
    """Whether slurmd and jobs can run the hooks, and come to RAD by them."""
    findings = []
    for name in HOOKS:
        paths = [path for path in facts.settings.get(name, "").split(",") if path]
        several = [program(name, path, facts, f"put RAD's script there: chmod 755 {path}") for path in paths]
        if not paths:
            cure = f"set {name} in slurm.conf, see etc/slurm.conf.rad"
            several = when(acts, [Finding(name, False, "not set", cure)])
        elif name in facts.unnamed:
            cure = (
                f"let it run RAD's etc/{name.lower()}.sh, if it does not: without it jobs get neither MPS nor records"
            )
            found = f"{', '.join(paths)}: names nothing of RAD's"
            several += when(acts, [Finding(f"RAD's {name}", False, found, cure, needed=False)])
        elif name == "TaskProlog" and facts.task_prolog and all(finding.ok for finding in several):
            cure = (
                "let everybody come to it, to rad.env beside it and to RAD's Python, or, where it is yours, let it run "
                "RAD's etc/task_prolog.sh and print what that prints: tasks whose user cannot run it end at once, and "
                "without RAD's jobs get neither MPS nor caps"
            )
            several = [Finding(name, False, f"{paths[0]}, as a user runs it: {facts.task_prolog}", cure)]
        findings += several
    return findings


def commands(facts: Facts) -> list[Finding]:
    """Whether the hooks find Slurm's commands."""
    return [_command(name, facts) for name in COMMANDS]


def _command(name: str, facts: Facts) -> Finding:
    """Whether the hooks find one of Slurm's commands, wherever this shell does."""
    at, other = facts.programs.get(name, ""), facts.elsewhere.get(name, "")
    if at or not other:
        return Finding(name, bool(at), at or "not found", "install Slurm's client commands")
    cure = f"add RAD_PATH={other.rpartition('/')[0]}:/usr/bin:/bin to rad.env beside Prolog"
    return Finding(name, False, f"{other}, where the hooks do not look", cure)
