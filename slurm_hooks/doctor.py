"""What a controller or a node lacks for RAD. Pure: facts in, findings with cures out (`doctor_facts` gathers)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from slurm_hooks import mig
from slurm_hooks.config import Config, Radd
from slurm_hooks.gpus import unknown_gpu
from slurm_hooks.gres import counted
from slurm_hooks.memory import is_smaller, memory_of, without_memory
from slurm_hooks.shares import SHARES_PER_GPU
from slurm_hooks.slurm.versions import PREEMPTS_ALL_SINCE, SHARES_COUNTED_SINCE, WHOLE_IS_ALONE_SINCE

Role = Literal["controller", "node"]
HOOKS = ("Prolog", "TaskProlog", "Epilog")
COMMANDS = ("scontrol", "squeue", "sacct", "sacctmgr")
LUA_MODULES = ("rad", "rad_submit", "rad_script", "rad_step", "rad_summary")
# How long a requeued job waits with Slurm's default, in seconds.
_SLOW_REQUEUE_S = 121
# What Slurm must grant the hooks, in seconds: more than etc/prolog.sh and etc/epilog.sh allow themselves.
_PROLOG_S, _EPILOG_S = 30, 50
_LOADS = "loads RAD"
_LOADED_ANEW = "touch job_submit.lua beside slurm.conf"  # slurmctld goes on with the Lua modules that it has read
_REQUIRES = re.compile(r"""require[\s(,]+["']rad["']""")
_CALLS = re.compile(r"\.wrap\b")
_FUNCTIONS = re.compile(r"\bslurm_(?:job_submit|cli_pre_submit)\b")  # those behind which rad.wrap() puts RAD
_COMMENTS = re.compile(r"--\[(=*)\[.*?\]\1\]|^[ \t]*--[^\n]*", re.DOTALL | re.MULTILINE)  # of Lua
_SAYS_SOCKET = re.compile(r"\.socket\s*=[^=]")
_SOCKET = re.compile(r"""\.socket\s*=\s*["']([^"']+)["']""")
_DOWN = re.compile(r"DOWN|FAIL|INVAL|UNKNOWN")
_DRAINED = re.compile(r"gres|prolog|epilog", re.IGNORECASE)  # for reasons that Slurm itself gives
_SETTINGS = {"job_submit.lua": "JobSubmitPlugins", "cli_filter.lua": "CliFilterPlugins"}
_GROUP_WRITE = 0o020
_OTHER_WRITE = 0o002


@dataclass(frozen=True)
class FileFact:
    """What lies at a path: its kind, permission bits and owners (ids)."""

    kind: Literal["absent", "file", "directory", "socket", "link", "other"] = "absent"
    mode: int = 0
    uid: int = -1
    gid: int = -1


@dataclass(frozen=True)
class NodeFact:
    """A node as Slurm describes it."""

    name: str
    host: str = ""
    gres: str = ""
    partitions: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    state: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Facts:
    """What was found on a machine.

    Attributes:
        slurm_error: why Slurm did not answer, or the empty string.
        settings: Slurm's configuration, names to values, ``(null)`` as the empty string.
        partitions: names of Slurm's partitions.
        preempted: partitions whose jobs Slurm may preempt.
        whole: partitions that give each job its nodes whole.
        billing: what the resources of a partition cost (TRESBillingWeights), where it says.
        slurmdbd_error: why slurmdbd did not answer, or the empty string.
        limits: by whose they are, lists of resources to which slurmdbd holds jobs.
        least: by name, what a QOS wants each job to ask for.
        nodes: Slurm's nodes.
        unnamed: which of Prolog and Epilog are scripts that name nothing of RAD's.
        task_prolog: why TaskProlog does not come to RAD when an ordinary user runs it, or the empty string.
        gres_conf: text of gres.conf and of what it includes, or None where there is none to read.
        scripts: texts of the Lua scripts beside slurm.conf by file name, None for those that are absent.
        lua_version: version of Lua that slurmctld runs, for example ``5.1``, or the empty string if unknown.
        lua_modules: where a Lua module was found; the empty string for nowhere.
        lua_other: one of RAD's Lua modules that is not as it came with this RAD; else the empty string.
        files: what lies at the paths that the configurations name, and rad.toml.
        users: user and group id of users that the configuration names.
        radd_error: why radd serves no connection, or the empty string; None where it could not be tried.
        model_error: why the estimator's model cannot be used, or the empty string.
        radd_user: name of the user that radd runs as, or the empty string.
        radd_rights: that user's AdminLevel in slurmdbd, or None where it could not be asked.
        timer: what systemd says of rad-spool.timer, ``active`` where it is well; None where no systemd runs.
        monitor_error: why rad-monitor takes no connection, or the empty string; None where it is not to listen.
        gpus: number of GPUs that NVML sees, or None where it does not work; without those in MIG mode.
        memory_mib: memory of the smallest of them, in MiB; 0 where it is not known.
        instances: the MIG instances that it sees: profile and memory in MiB.
        nvml_error: why NVML does not tell, or the empty string.
        programs: where the hooks find one of Slurm's commands; the empty string for nowhere.
        elsewhere: where this shell finds one that the hooks do not; likewise.
        host: this machine's name.
        absent: rad.toml, where there is none; else the empty string.
        read: the rad.toml that the hooks are told to read, where it is another; else the empty string.
        closed: what those who need it may not use, by subject: it, or the folder above it that is closed to them.
        changed: whether rad.toml was changed after radd had started.
        unusable: why rad.toml cannot be used, where this machine goes on with the copy that it keeps; else empty.
        kept: the folder of that copy.
    """

    slurm_error: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    partitions: frozenset[str] = frozenset()
    preempted: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    billing: Mapping[str, str] = field(default_factory=dict)
    slurmdbd_error: str = ""
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[NodeFact, ...] = ()
    unnamed: frozenset[str] = frozenset()
    task_prolog: str = ""
    gres_conf: str | None = None
    scripts: Mapping[str, str | None] = field(default_factory=dict)
    lua_version: str = ""
    lua_modules: Mapping[str, str] = field(default_factory=dict)
    lua_other: str = ""
    files: Mapping[str, FileFact] = field(default_factory=dict)
    users: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    radd_error: str | None = ""
    model_error: str = ""
    radd_user: str = ""
    radd_rights: str | None = None
    timer: str | None = None
    monitor_error: str | None = None
    gpus: int | None = None
    memory_mib: int = 0
    instances: tuple[tuple[str, int], ...] = ()
    nvml_error: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    host: str = ""
    absent: str = ""
    read: str = ""
    closed: Mapping[str, str] = field(default_factory=dict)
    changed: bool = False
    unusable: str = ""
    kept: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what it is, for example ``JobSubmitPlugins``.
        ok: whether it is as RAD needs it.
        found: what was found.
        cure: what to do about it; the empty string where nothing is to be done.
        needed: False for advice: RAD works without it.
        later: whether it is of use only once RAD changes requests, which it does not yet.
    """

    subject: str
    ok: bool
    found: str
    cure: str = ""
    needed: bool = True
    later: bool = False


def roles_of(facts: Facts) -> tuple[Role, ...]:
    """What this machine is to Slurm; a node where Slurm does not say."""
    hosts = {value.partition("(")[0] for name, value in facts.settings.items() if name.startswith("SlurmctldHost")}
    controller: tuple[Role, ...] = ("controller",) if facts.host in hosts else ()
    node: tuple[Role, ...] = ("node",) if _here(facts) or not controller else ()
    return controller + node


def _when(acts: bool, findings: Sequence[Finding]) -> list[Finding]:
    """`findings`, as hints for later where RAD does not act yet."""
    return [f if acts or f.ok else replace(f, needed=False, later=True) for f in findings]


def _enforcing(config: Config) -> frozenset[str]:
    """Partitions whose jobs' requests RAD changes; `advise` and `shadow` leave them as they are."""
    return frozenset(n for n, part in config.partitions.items() if part.mode == "enforce" and part.method != "off")


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
    radd, acts = _radd(facts, config), bool(_enforcing(config))
    if facts.slurm_error:
        return [_slurm(facts), *radd]
    return [
        _slurm(facts),
        *_hooks(facts),
        *radd,
        *_when(acts, _rights(facts)),
        *_partitions(facts, config),
        *_gres(facts, config),
        *_accounting(facts, config),
        *_limits(facts, config),
        *_when(acts, [*_prologs(facts), *_requeue(facts)]),
    ]


def _node(facts: Facts, config: Config) -> list[Finding]:
    findings, acts = [_slurm(facts)], bool(_enforcing(config))
    if not facts.slurm_error:
        findings += [*_slurmd(facts), *_scripts(facts, acts), *_steps(facts, acts), *_when(acts, _gres_conf(facts))]
    findings += [*_absent(facts), *_closed(facts)]
    if facts.read:
        cure = f"radctl --config {facts.read} doctor, or give the hooks yours: RAD_CONFIG= in rad.env beside them"
        findings.append(Finding("RAD_CONFIG", False, f"the hooks read {facts.read}", cure))
    for subject, path in (
        ("[node] state_dir", config.node.state_dir),
        ("[node] spool_dir", config.node.spool_dir),
        ("[mps] run_dir", config.mps.run_dir),
        ("RAD_KEPT", facts.kept),
    ):
        findings.append(_directory(subject, path, facts))
    findings += [_command(program, facts) for program in COMMANDS]
    cure = "install NVIDIA's driver, or set [mps] nvidia_smi in rad.toml"
    findings.append(_program("nvidia-smi", config.mps.nvidia_smi, facts, cure))
    findings.append(_nvml(facts))
    findings += _instances(facts)
    findings += _memory(facts, config)
    if facts.timer is not None:
        cure = (
            "start it: systemctl enable --now rad-spool.timer; without it outcomes that slurmdbd has not taken wait "
            "for the next job's end, and jobs whose MPS daemon dies for the next job's start"
        )
        findings += _when(acts, [Finding("rad-spool.timer", facts.timer == "active", facts.timer, cure, needed=False)])
    if facts.monitor_error is not None:
        found = facts.monitor_error or "takes connections"
        cure = "start rad-monitor: systemctl start rad-monitor; without it nothing is measured"
        findings.append(Finding("rad-monitor", not facts.monitor_error, found, cure, needed=False))
    if any(part.method == "mps" for part in config.partitions.values()):
        cure = "install it with NVIDIA's driver, or set [mps] control in rad.toml"
        findings += _when(acts, [_program("MPS control program", config.mps.control, facts, cure)])
    return findings


def _slurmd(facts: Facts) -> list[Finding]:
    """Whether Slurm may use this node, but for what an admin may want."""
    here = _here(facts)
    if here is None:
        return []
    ours = "DRAIN" in here.state and _DRAINED.search(here.reason) is not None
    cure = (
        "look into slurmd's log: it ends where slurm.conf, gres.conf and the GPUs do not agree, and Slurm drains a "
        f"node for that, or for a Prolog or Epilog that fails; then: scontrol update nodename={here.name} state=resume"
    )
    found = f"{here.state}: {here.reason}" if here.reason else here.state
    return [Finding("slurmd", not ours and _DOWN.match(here.state) is None, found, cure)]


def _scripts(facts: Facts, acts: bool) -> list[Finding]:
    """Whether slurmd and jobs can run the hooks, and come to RAD by them."""
    findings = []
    for name in HOOKS:
        paths = [path for path in facts.settings.get(name, "").split(",") if path]
        several = [_program(name, path, facts, f"put RAD's script there: chmod 755 {path}") for path in paths]
        if not paths:
            cure = f"set {name} in slurm.conf, see etc/slurm.conf.rad"
            several = _when(acts, [Finding(name, False, "not set", cure)])
        elif name in facts.unnamed:
            cure = (
                f"let it run RAD's etc/{name.lower()}.sh, if it does not: without it jobs get neither MPS nor records"
            )
            found = f"{', '.join(paths)}: names nothing of RAD's"
            several += _when(acts, [Finding(f"RAD's {name}", False, found, cure, needed=False)])
        elif name == "TaskProlog" and facts.task_prolog and all(finding.ok for finding in several):
            cure = (
                "let everybody come to it, to rad.env beside it and to RAD's Python, or, where it is yours, let it run "
                "RAD's etc/task_prolog.sh and print what that prints: tasks whose user cannot run it end at once, and "
                "without RAD's jobs get neither MPS nor caps"
            )
            several = [Finding(name, False, f"{paths[0]}, as a user runs it: {facts.task_prolog}", cure)]
        findings += several
    return findings


def _program(subject: str, path: str, facts: Facts, cure: str) -> Finding:
    """Whether a file can be run."""
    fact = facts.files.get(path, FileFact())
    if fact.mode & _OTHER_WRITE and fact.kind == "file":
        return Finding(subject, False, f"{path}: {_seen(fact, False)}", f"root runs it: chmod o-w {path}")
    runs = fact.kind == "file" and bool(fact.mode & 0o111)
    return Finding(subject, runs, f"{path}: {_seen(fact, runs)}", cure)


def _command(name: str, facts: Facts) -> Finding:
    """Whether the hooks find one of Slurm's commands, wherever this shell does."""
    at, other = facts.programs.get(name, ""), facts.elsewhere.get(name, "")
    if at or not other:
        return Finding(name, bool(at), at or "not found", "install Slurm's client commands")
    cure = f"add RAD_PATH={other.rpartition('/')[0]}:/usr/bin:/bin to rad.env beside Prolog"
    return Finding(name, False, f"{other}, where the hooks do not look", cure)


def _slurm(facts: Facts) -> Finding:
    if facts.slurm_error:
        return Finding("Slurm", False, facts.slurm_error, "start slurmctld, or set SLURM_CONF to its slurm.conf")
    text = facts.settings.get("SLURM_VERSION", "")
    cure = (
        "update Slurm: RAD needs 22.05 or newer. slurmctld 21.08 crashes when a job asks for shares (gres/mps) of GPUs "
        "with Types, so RAD shares none, and jobs go through as written; until then leave mps out of Gres and GresTypes"
        ": any user's `sbatch --gres=mps:1` ends it"
    )
    return Finding("Slurm", _version(facts) >= SHARES_COUNTED_SINCE, f"version {text}", cure)


def _version(facts: Facts) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", facts.settings.get("SLURM_VERSION", ""))
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _script(facts: Facts, name: str, needed: bool, why: str = "") -> Finding:
    """Whether one of Slurm's Lua scripts loads RAD."""
    if name in facts.closed and "lua" in _plugins(facts, _SETTINGS[name]):
        cure = f"chmod o+rX {facts.closed[name]}: slurmctld ends, or users cannot submit, where they may not read it"
        return Finding(name, False, f"{facts.closed[name]}: not to be read by those who need it", cure)
    text = facts.scripts.get(name)
    found = "absent" if text is None else _loaded(_COMMENTS.sub("", text))
    cure = f"copy etc/{name} beside slurm.conf, or add its line with `require` to yours, before the final return{why}"
    return Finding(name, found == _LOADS, found, cure, needed)


def _loaded(code: str) -> str:
    """Whether a Lua script without its comments puts RAD behind its functions, in words."""
    if _REQUIRES.search(code) is None:
        return "does not load RAD"
    called = _CALLS.search(code)
    if called is None:
        return "loads RAD, but calls no rad.wrap()"
    first = _FUNCTIONS.search(code)
    return _LOADS if first is None or first.start() < called.start() else "calls rad.wrap() before its functions"


def _plugins(facts: Facts, setting: str) -> list[str]:
    """Names of plugins, which Slurm takes with their kind before them too (``job_submit/lua``)."""
    return [name.rpartition("/")[2] for name in facts.settings.get(setting, "").split(",")]


def _steps(facts: Facts, acts: bool) -> list[Finding]:
    """What steps of jobs that share need: where Slurm is told of the script, a node without it starts none at all."""
    absent = facts.scripts.get("cli_filter.lua") is None
    told = "lua" in _plugins(facts, "CliFilterPlugins")
    why = "no srun starts here" if absent and told else "jobs that share cannot start `srun --gres=gpu:1`"
    script = _script(facts, "cli_filter.lua", absent and told, f": without it {why}")
    return [*_when(acts or script.needed, [script]), *([_lua(facts)] if told else [])]


def _hooks(facts: Facts) -> list[Finding]:
    findings = []
    for setting, script, needed, why in (
        ("JobSubmitPlugins", "job_submit.lua", True, "without it no job is shared"),
        (
            "CliFilterPlugins",
            "cli_filter.lua",
            False,
            "without it users need `radctl embed`, and no step of a job that shares may ask for its GPU",
        ),
    ):
        plugins = _plugins(facts, setting)
        findings.append(
            Finding(
                setting,
                "lua" in plugins,
                ",".join(plugins) or "not set",
                f"set {setting}=lua in slurm.conf and restart slurmctld: {why}",
                needed,
            )
        )
        findings.append(_script(facts, script, needed))
    findings.append(_lua(facts))
    for module, package, needed in (("socket.unix", "lua-socket", True), ("posix", "lua-posix", False)):
        at = facts.lua_modules.get(module, "")
        found, cure = at or f"not found for Lua {facts.lua_version or '5.x'}", f"install Debian's {package}"
        cure += (
            f", then {_LOADED_ANEW}: without it no job is shared"
            if needed
            else ": without it sbatch hands no summaries on; jobs that share lose SLURM_CPUS_PER_GPU"
        )
        findings.append(Finding(f"Lua module {module}", bool(at), found, cure, needed))
    return findings


def _lua(facts: Facts) -> Finding:
    """Whether all of RAD's Lua modules are where Slurm's Lua looks, for everybody to read."""
    subject = "Lua module rad"
    if closed := facts.closed.get(subject):
        cure = f"chmod o+rX {closed}, then {_LOADED_ANEW}: without it no job is shared, no summary handed on"
        return Finding(subject, False, f"{closed}: not for everybody to read", cure)
    if facts.lua_other:
        cure = f"copy this RAD's slurm_hooks/lua/*.lua there, as scripts/install does, then {_LOADED_ANEW}"
        return Finding(subject, False, f"{facts.lua_other}: another version, or damaged", cure)
    version = facts.lua_version or "5.x"
    own_path = any("package.path" in (text or "") for text in facts.scripts.values())
    at, lacking = facts.lua_modules.get("rad", ""), [name for name in LUA_MODULES if not facts.lua_modules.get(name)]
    missing = "not found" if len(lacking) == len(LUA_MODULES) else f"not found: {', '.join(lacking)}"
    return Finding(
        subject,
        not lacking or own_path,
        at if not lacking else "a script names its own path" if own_path else missing,
        f"copy slurm_hooks/lua/*.lua to /usr/local/share/lua/{version}/, then {_LOADED_ANEW}",
    )


def _radd(facts: Facts, config: Config) -> list[Finding]:
    path, user = config.radd.socket, config.radd.slurm_user
    fact = facts.files.get(path, FileFact())
    findings = []
    if facts.model_error:
        cure = (
            f"radctl models rollback {config.estimator.method}, or radctl retrain: the model that comes with RAD "
            "serves instead; where a package is missing radd does not start"
        )
        findings.append(Finding("[estimator] method", False, facts.model_error, cure, needed=False))
    if fact.kind != "socket":
        cure = "start radd, anew where it runs: systemctl restart radd; journalctl -u radd says why it does not stay"
        return [*findings, Finding("radd socket", False, f"{path}: {_seen(fact, False)}", cure)]
    uid, gid = facts.users.get(user, (-1, -1))
    may = fact.uid == uid or (fact.gid == gid and bool(fact.mode & _GROUP_WRITE))
    closed = not fact.mode & _OTHER_WRITE
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
    findings.append(Finding("radd socket", may and closed and not way, bits, cure))
    asked = _asked(facts)
    if asked not in (None, path):
        cure = f'write in job_submit.lua: if ok then rad.socket = "{path}"; rad.wrap() end; without it no job is shared'
        findings.append(Finding("[radd] socket", False, f"{path}, job_submit.lua asks at {asked}", cure))
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


def _asked(facts: Facts) -> str | None:
    """The socket at which job_submit.lua asks; None where it cannot be read, or is not seen through."""
    text = facts.scripts.get("job_submit.lua")
    if text is None:
        return None
    code = _COMMENTS.sub("", text)
    told, said = _SOCKET.findall(code), _SAYS_SOCKET.search(code)
    return told[-1] if told else None if said else Radd().socket


def _absent(facts: Facts) -> list[Finding]:
    """Whether there is no rad.toml: radctl takes defaults then, radd and the hooks do not."""
    cure = "put it there (radctl config example): without it radd does not start, and Prolog and Epilog do nothing"
    return [Finding("rad.toml", False, f"{facts.absent}: absent", cure)] if facts.absent else []


def _closed(facts: Facts) -> list[Finding]:
    """Whether users may not read rad.toml, or may change it, and with it what root runs."""
    findings, fact = [], facts.files.get("rad.toml", FileFact())
    if closed := facts.closed.get("rad.toml"):
        cure = f"chmod o+rX {closed}: else radctl tells users nothing"
        findings.append(Finding("rad.toml", False, f"{closed}: not for everybody to read", cure, needed=False))
    if fact.mode & _OTHER_WRITE:
        cure = "chmod o-w it: it names programs that root runs"
        findings.append(Finding("rad.toml", False, _seen(fact, False), cure))
    return findings


def _rights(facts: Facts) -> list[Finding]:
    user = facts.radd_user
    if facts.radd_rights is None or user in ("", "root", facts.settings.get("SlurmUser", "").partition("(")[0]):
        return []
    enough = facts.radd_rights in ("Operator", "Administrator")
    cure = f"make {user} an operator: sacctmgr modify user {user} set adminlevel=operator; else pins are not taken back"
    return [Finding("rights of radd", enough, f"{user}: {facts.radd_rights or 'none'}", cure, needed=False)]


def _partitions(facts: Facts, config: Config) -> list[Finding]:
    if facts.absent:
        return _absent(facts)
    if not config.partitions:
        return [Finding("rad.toml", False, "names no partition", "add [partitions.NAME], see radctl config example")]
    findings = []
    for name, part in config.partitions.items():
        known = name in facts.partitions
        cure = f"rename [partitions.{name}] in rad.toml: Slurm has {', '.join(sorted(facts.partitions)) or 'none'}"
        findings.append(Finding(f"partition {name}", known, f"{part.mode}, {part.method}", cure))
        if part.method != "off" and name in facts.whole:
            cure = f"take OverSubscribe=EXCLUSIVE of partition {name} out of slurm.conf: nothing of a node is shared so"
            findings.append(Finding(f"OverSubscribe of {name}", False, "EXCLUSIVE", cure))
        if part.method not in ("off", "mig") and not memory_of(part):
            found, _, what = without_memory(part).partition(": ")
            cure = f"{what} in [partitions.{name}]: else every job gets a whole GPU"
            findings.append(Finding(f"GPU memory of {name}", False, found, cure))
        if unknown := unknown_gpu(part):
            found, _, what = unknown.partition(": ")
            cure = (
                f"set gpu_model in [partitions.{name}] to a name of theirs that RAD knows, if it knows one: else {what}"
            )
            findings.append(Finding(f"GPU model of {name}", False, found, cure, needed=False))
        if part.threads != "all" and (part.method != "mps" or config.predictor.model != "rad"):
            found = (
                f"{part.threads}, with method {part.method} and predictor {config.predictor.model}: every job gets 100"
            )
            cure = f'set method = "mps" in [partitions.{name}] and model = "rad" in [predictor], or threads = "all"'
            findings.append(Finding(f"threads of {name}", False, found, cure, needed=False))
        feature = part.feature or part.gpu_model
        without = [node.name for node in facts.nodes if name in node.partitions and feature not in node.features]
        if known and feature and without:
            cure = f"add Feature={feature} to them in slurm.conf, so that requests for gpu:{feature}:1 find them"
            found = f"nodes without it: {_some(without)}"
            feature_finding = Finding(f"feature {feature}", False, found, cure, needed=False)
            findings += _when(name in _enforcing(config), [feature_finding])
    return findings


def _gres(facts: Facts, config: Config) -> list[Finding]:
    types = facts.settings.get("GresTypes", "").split(",")
    sharing, enforcing = sorted(_sharing(config)), _enforcing(config)
    acting = [name for name in sharing if name in enforcing]
    wanted = ["gpu", "mps"] if sharing else ["gpu"]
    cure = f"set GresTypes={','.join(wanted)} in slurm.conf"
    found = ",".join(types) or "not set"
    findings = _when("gpu" not in types or bool(acting), [Finding("GresTypes", {*wanted} <= {*types}, found, cure)])
    select = facts.settings.get("SelectType", "")
    cure = "set SelectType=select/cons_tres in slurm.conf: shares need it"
    findings += _when(bool(enforcing), [Finding("SelectType", select == "select/cons_tres", select, cure)])
    for node in facts.nodes:
        if not node.partitions.isdisjoint(sharing):
            problem = _gres_problem(node.gres)
            cure = "give each device a Type of its own, for gpu and for mps: see etc/gres.conf.rad"
            finding = Finding(f"GRES of {node.name}", not problem, problem or node.gres, cure)
            findings += _when(not node.partitions.isdisjoint(acting), [finding])
    if sharing and SHARES_COUNTED_SINCE <= _version(facts) < WHOLE_IS_ALONE_SINCE:
        where = _some(acting or sharing)
        found = f"in {where} they may start on a GPU that others share, once one of these has ended"
        cure = (
            "update Slurm (24.11 is right), or give jobs without #RAD lines, and those for several GPUs, a partition "
            "with nodes of its own; all others ask for shares, which Slurm counts right"
        )
        findings += _when(bool(acting), [Finding("jobs for whole GPUs", False, found, cure, needed=False)])
    for name in sorted(facts.preempted.intersection(sharing)) if _version(facts) < PREEMPTS_ALL_SINCE else ():
        cure = (
            "set PreemptMode=OFF for it in slurm.conf, or, with preempt/qos, let no QOS preempt its jobs', or let who "
            "preempts ask for shares (--gres=mps:100, or #RAD lines), for which Slurm makes room as it should. For "
            "one that asks for the whole GPU Slurm 22.05 and 23.11 preempt one of its jobs, and start it beside the "
            "others; 24.11 preempts one after the other while it waits; 25.11 is right"
        )
        finding = Finding(f"preemption in {name}", False, "its jobs may be preempted", cure, needed=False)
        findings += _when(name in acting, [finding])
    for name, part in config.partitions.items():
        if part.method == "mig":
            kinds = {kind for node in facts.nodes if name in node.partitions for _, kind, _ in counted(node.gres)}
            found = ", ".join(p.type for p in mig.profiles(kinds))
            cure = "make instances (nvidia-smi mig -cgi) with Types named after their profiles, as AutoDetect=nvml does"
            findings.append(Finding(f"MIG profiles of {name}", bool(found), found or "none", cure))
            both = [node.name for node in facts.nodes if name in node.partitions and "mps:" in node.gres]
            cure = "leave mps out of their Gres in slurm.conf and gres.conf: 26.05 drains a node that has MIG and mps"
            findings.append(
                Finding(f"mps in {name}", not both, f"nodes with mps: {_some(both)}" if both else "none", cure)
            )
    return [*findings, *_when(bool(acting), _gres_conf(facts))]


def _gres_conf(facts: Facts) -> list[Finding]:
    if facts.gres_conf is None:
        return []
    lines = [line.split("#")[0].strip() for line in facts.gres_conf.replace("\\\n", " ").splitlines()]
    lacking = [
        line for line in lines if re.search(r"\bName=mps\b", line, re.IGNORECASE) and "all_sharing" not in line.lower()
    ]
    cure = "add Flags=all_sharing to every line with Name=mps: without it one GPU of a node is shared"
    return [Finding("gres.conf", not lacking, lacking[0] if lacking else "mps lines have all_sharing", cure)]


def _sharing(config: Config) -> list[str]:
    """Partitions whose jobs hold shares (gres/mps)."""
    return [name for name, part in config.partitions.items() if part.method in ("mps", "streams")]


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


def _accounting(facts: Facts, config: Config) -> list[Finding]:
    storage = facts.settings.get("AccountingStorageType", "")
    flags = facts.settings.get("AccountingStoreFlags", "")
    tracked = set(facts.settings.get("AccountingStorageTRES", "").split(","))
    devices = {device for node in facts.nodes for kind, device, _ in counted(node.gres) if kind == "mps"}
    wanted = {"gres/gpu", *(f"gres/mps:{device}" for device in devices if device)}
    wanted |= {"gres/mps"} if _sharing(config) else set()
    kinds = {kind for node in facts.nodes for _, kind, _ in counted(node.gres)}
    wanted |= {f"gres/gpu:{profile.type}" for profile in mig.profiles(kinds)}
    lacking = ",".join(sorted(wanted - tracked))
    kept_there = storage == "accounting_storage/slurmdbd"
    answers = Finding(
        "slurmdbd",
        not facts.slurmdbd_error,
        facts.slurmdbd_error or "answers",
        "start slurmdbd: until then outcomes wait on the nodes, and nobody gets a report",
    )
    return [
        Finding(
            "AccountingStorageType",
            kept_there,
            storage or "not set",
            "set AccountingStorageType=accounting_storage/slurmdbd: records are kept there",
        ),
        *([answers] if kept_there else []),
        Finding(
            "AccountingStoreFlags",
            "job_comment" in flags.lower(),
            flags or "not set",
            "add job_comment to AccountingStoreFlags in slurm.conf: records are kept there",
        ),
        *_when(
            bool(_enforcing(config)) or "gres/gpu" in lacking,
            [
                Finding(
                    "AccountingStorageTRES",
                    not lacking,
                    f"lacks {lacking}" if lacking else "shares are accounted for",
                    f"add {lacking} to AccountingStorageTRES in slurm.conf",
                )
            ],
        ),
    ]


def _limits(facts: Facts, config: Config) -> list[Finding]:
    """What counts GPUs and not shares: a job that shares holds no gres/gpu."""
    shared = _sharing(config)
    acts = not _enforcing(config).isdisjoint(shared)
    findings: list[Finding] = []
    for name in shared:
        if _without_shares(facts.billing.get(name, "")):
            cure = (
                f"add GRES/mps=0.01 for each GRES/gpu=1 to TRESBillingWeights of partition {name}: shares cost nothing"
            )
            finding = Finding(f"billing of {name}", False, facts.billing[name], cure, needed=False)
            findings += _when(name in _enforcing(config), [finding])
    whose = [name for name, lists in facts.limits.items() if any(map(_without_shares, lists))]
    if shared and whose:
        cure = "add gres/mps=100 for each gres/gpu=1 with sacctmgr: users who share are not held to these limits"
        findings += _when(acts, [Finding("limits on gres/gpu", False, _some(whose), cure, needed=False)])
    least = [name for name, resources in facts.least.items() if "gres/gpu" in resources]
    if shared and least:
        cure = "take gres/gpu out of MinTRESPerJob with sacctmgr: a job that shares has none and would wait for ever"
        findings += _when(acts, [Finding("MinTRESPerJob", False, f"gres/gpu, in QOS {_some(least)}", cure)])
    return findings


def _without_shares(resources: str) -> bool:
    """Whether a list of resources counts GPUs and not their shares."""
    names = [item.partition("=")[0].partition(":")[0] for item in resources.lower().split(",")]
    return "gres/gpu" in names and "gres/mps" not in names


def _prologs(facts: Facts) -> list[Finding]:
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
    for name, least in (("PrologEpilogTimeout", _EPILOG_S), ("PrologTimeout", _PROLOG_S), ("EpilogTimeout", _EPILOG_S)):
        limit = re.match(r"\d+", facts.settings.get(name, ""))  # else there is none
        if limit and int(limit.group()) < least:
            cure = (
                f"set {name} in slurm.conf to {least} at least, or leave it out: Slurm drains a node whose Prolog or "
                "Epilog it has to end; RAD's end by themselves before"
            )
            findings.append(Finding(name, False, f"{limit.group()} s", cure))
    return findings


def _requeue(facts: Facts) -> list[Finding]:
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


def _directory(subject: str, path: str, facts: Facts) -> Finding:
    fact = facts.files.get(path, FileFact())
    safe = fact.kind == "directory" and fact.uid == 0 and not fact.mode & (_GROUP_WRITE | _OTHER_WRITE)
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
    found = f"{path}: {_seen(fact, safe)}"
    return Finding(subject, safe, found, f"make it root's alone: chown root {path}; chmod 755 {path}")


def _seen(fact: FileFact, ok: bool) -> str:
    if fact.kind == "absent":
        return "absent"
    return fact.kind if ok else f"{fact.kind} of user {fact.uid} with mode {fact.mode & 0o7777:o}"


def _nvml(facts: Facts) -> Finding:
    here = _here(facts)
    listed = sum(count for kind, _, count in counted(here.gres) if kind == "gpu") if here else None
    if facts.gpus is None:
        found = facts.nvml_error or "does not answer"
        return Finding("NVML", False, found, "install NVIDIA's driver; then check: nvidia-smi -L")
    agree = listed is None or listed == facts.gpus + len(facts.instances)
    found = f"{facts.gpus} GPUs" + (f" and {len(facts.instances)} MIG instances" if facts.instances else "")
    found += "" if agree else f", Slurm lists {listed}"
    return Finding("NVML", agree, found, "make Gres in slurm.conf and gres.conf match nvidia-smi -L")


def _memory(facts: Facts, config: Config) -> list[Finding]:
    """Partitions of this node of whose GPUs rad.toml says more memory than they have."""
    here = _here(facts)
    less = [
        name
        for name, part in config.partitions.items()
        if here is not None and name in here.partitions and is_smaller(part, facts.memory_mib)
    ]
    cure = "name the model with least memory as gpu_model, or its memory as gpu_memory_mib: a job may need more here"
    found = f"{facts.memory_mib} MiB, less than rad.toml says of {_some(less)}: jobs are held to their parts of that"
    return [Finding("GPU memory", False, found, cure, needed=False)] if less else []


def _instances(facts: Facts) -> list[Finding]:
    """Whether the node's MIG instances are those that Slurm lists, and have the memory that RAD reckons with."""
    here = _here(facts)
    if not facts.instances or here is None:
        return []
    listed: dict[tuple[int, int], int] = {}  # instances by slices and memory, as their profiles' names tell
    for kind, device, count in counted(here.gres):
        profile = mig.profile(device) if kind == "gpu" else None
        if profile is not None:
            key = (profile.slices, profile.memory_mib)
            listed[key] = listed.get(key, 0) + count
    small = []
    for name, memory_mib in facts.instances:
        profile = mig.profile(name)
        if profile is not None:
            key = (profile.slices, profile.memory_mib)
            listed[key] = listed.get(key, 0) - 1
            if memory_mib < profile.memory_mib:
                small.append(f"{name} has {memory_mib} MiB, its name says {profile.memory_mib}")
    names = ", ".join(sorted({name for name, _ in facts.instances}))
    agree = not any(listed.values())
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


def _here(facts: Facts) -> NodeFact | None:
    return next((node for node in facts.nodes if facts.host and facts.host in (node.name, node.host)), None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
