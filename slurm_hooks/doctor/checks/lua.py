"""Slurm's Lua plugins, the scripts beside slurm.conf, and the modules that these need. Pure."""

from __future__ import annotations

import re

from slurm_hooks.config import Radd
from slurm_hooks.doctor.facts import LUA_MODULES, Facts
from slurm_hooks.doctor.findings import Finding, when

_LOADS = "loads RAD"
_LOADED_ANEW = "touch job_submit.lua beside slurm.conf"  # slurmctld goes on with the Lua modules that it has read
_REQUIRES = re.compile(r"""require[\s(,]+["']rad["']""")
_CALLS = re.compile(r"\.wrap\b")
_FUNCTIONS = re.compile(r"\bslurm_(?:job_submit|cli_pre_submit)\b")  # those behind which rad.wrap() puts RAD
_COMMENTS = re.compile(r"--\[(=*)\[.*?\]\1\]|^[ \t]*--[^\n]*", re.DOTALL | re.MULTILINE)  # of Lua
_SAYS_SOCKET = re.compile(r"\.socket\s*=[^=]")
_SOCKET = re.compile(r"""\.socket\s*=\s*["']([^"']+)["']""")
# Scripts, the settings by which Slurm runs them, whether RAD needs them, and what is not there without them.
_PLUGINS = (
    ("job_submit.lua", "JobSubmitPlugins", True, "no job is shared"),
    (
        "cli_filter.lua",
        "CliFilterPlugins",
        False,
        "users need `radctl embed`, and no step of a job that shares may ask for its GPU",
    ),
)
# Others' modules, Debian's packages of them, and the same.
_OTHERS = (
    ("socket.unix", "lua-socket", True, f", then {_LOADED_ANEW}: without it no job is shared"),
    (
        "posix",
        "lua-posix",
        False,
        ": without it sbatch hands no summaries on; jobs that share lose SLURM_CPUS_PER_GPU",
    ),
)


def plugins(facts: Facts) -> list[Finding]:
    """What slurmctld needs to ask radd, and sbatch to hand summaries on."""
    findings = []
    for script, setting, needed, without in _PLUGINS:
        names = _named(facts, setting)
        cure = f"set {setting}=lua in slurm.conf and restart slurmctld: without it {without}"
        findings.append(Finding(setting, "lua" in names, ",".join(names) or "not set", cure, needed))
        findings.append(_script(facts, script, needed))
    findings.append(_modules(facts))
    for module, package, needed, without in _OTHERS:
        at = facts.lua_modules.get(module, "")
        cure = f"install Debian's {package}{without}"
        findings.append(
            Finding(
                f"Lua module {module}", bool(at), at or f"not found for Lua {facts.lua_version or '5.x'}", cure, needed
            )
        )
    return findings


def steps(facts: Facts, acts: bool) -> list[Finding]:
    """What steps of jobs that share need: where Slurm is told of the script, a node without it starts none at all."""
    absent = facts.scripts.get("cli_filter.lua") is None
    told = "lua" in _named(facts, "CliFilterPlugins")
    why = "no srun starts here" if absent and told else "jobs that share cannot start `srun --gres=gpu:1`"
    script = _script(facts, "cli_filter.lua", absent and told, f": without it {why}")
    return [*when(acts or script.needed, [script]), *([_modules(facts)] if told else [])]


def _script(facts: Facts, name: str, needed: bool, why: str = "") -> Finding:
    """Whether one of Slurm's Lua scripts loads RAD."""
    if name in facts.closed and "lua" in _named(facts, dict(row[:2] for row in _PLUGINS)[name]):
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


def _named(facts: Facts, setting: str) -> list[str]:
    """Names of plugins, which Slurm takes with their kind before them too (``job_submit/lua``)."""
    return [name.rpartition("/")[2] for name in facts.settings.get(setting, "").split(",")]


def _modules(facts: Facts) -> Finding:
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


def asked(facts: Facts) -> str | None:
    """The socket at which job_submit.lua asks; None where it cannot be read, or is not seen through."""
    text = facts.scripts.get("job_submit.lua")
    if text is None:
        return None
    code = _COMMENTS.sub("", text)
    told, said = _SOCKET.findall(code), _SAYS_SOCKET.search(code)
    return told[-1] if told else None if said else Radd().socket
