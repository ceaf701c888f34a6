"""rad.toml, the folders of the hooks, and programs: whether they are there, for whom they must be. Pure."""

from __future__ import annotations

from slurm_hooks.config import Config
from slurm_hooks.doctor.facts import Facts, FileFact
from slurm_hooks.doctor.findings import Finding


def absent(facts: Facts) -> list[Finding]:
    """Whether there is no rad.toml: radctl takes defaults then, radd and the hooks do not."""
    cure = "put it there (radctl config example): without it radd does not start, and Prolog and Epilog do nothing"
    return [Finding("rad.toml", False, f"{facts.absent}: absent", cure)] if facts.absent else []


def closed(facts: Facts) -> list[Finding]:
    """Whether users may not read rad.toml, or may change it, and with it what root runs."""
    findings, fact = [], facts.files.get("rad.toml", FileFact())
    if closed := facts.closed.get("rad.toml"):
        cure = f"chmod o+rX {closed}: else radctl tells users nothing"
        findings.append(Finding("rad.toml", False, f"{closed}: not for everybody to read", cure, needed=False))
    if fact.others_write:
        cure = "chmod o-w it: it names programs that root runs"
        findings.append(Finding("rad.toml", False, fact.described, cure))
    return findings


def other(facts: Facts) -> list[Finding]:
    """Whether the hooks are told to read another rad.toml."""
    if not facts.read:
        return []
    cure = f"radctl --config {facts.read} doctor, or give the hooks yours: RAD_CONFIG= in rad.env beside them"
    return [Finding("RAD_CONFIG", False, f"the hooks read {facts.read}", cure)]


def directories(facts: Facts, config: Config) -> list[Finding]:
    """Whether the folders of the hooks are root's alone, and have room."""
    named = {
        "[node] state_dir": config.node.state_dir,
        "[node] spool_dir": config.node.spool_dir,
        "[mps] run_dir": config.mps.run_dir,
        "RAD_KEPT": facts.kept,
    }
    return [_directory(subject, path, facts) for subject, path in named.items()]


def _directory(subject: str, path: str, facts: Facts) -> Finding:
    fact = facts.files.get(path, FileFact())
    safe = fact.kind == "directory" and fact.uid == 0 and not (fact.group_writes or fact.others_write)
    if fact.kind == "absent":
        return Finding(subject, True, f"{path}: made when it is needed")
    if fact.kind == "link":
        file = "rad.env beside the hooks" if subject == "RAD_KEPT" else "rad.toml"
        cure = f"name the folder that it leads to as {subject} in {file}: the hooks follow no link there"
        return Finding(subject, False, f"{path}: a link", cure)
    if safe and subject in facts.closed:
        way = facts.closed[subject]
        return Finding(
            subject, False, f"{way}: users cannot enter it", f"chmod o+x {way}: else jobs get no MPS, no caps"
        )
    if safe and fact.full:
        cure = "make room there: else jobs lose what cannot be noted: MPS and caps, their recovery or their record"
        return Finding(subject, False, f"{path}: its file system is full", cure)
    found = f"{path}: {fact.kind if safe else fact.described}"
    return Finding(subject, safe, found, f"make it root's alone: chown root {path}; chmod 755 {path}")


def program(subject: str, path: str, facts: Facts, cure: str) -> Finding:
    """Whether a file can be run."""
    fact = facts.files.get(path, FileFact())
    if fact.others_write and fact.kind == "file":
        return Finding(subject, False, f"{path}: {fact.described}", f"root runs it: chmod o-w {path}")
    runs = fact.kind == "file" and bool(fact.mode & 0o111)
    return Finding(subject, runs, f"{path}: {fact.kind if runs else fact.described}", cure)
