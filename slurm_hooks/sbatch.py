"""What sbatch would tell slurmctld of a script: its options as the fields of a job descriptor. Pure.

For trying a script without submitting it (`radctl decide`). Options come from `#SBATCH` lines, from `SBATCH_` variables
and from the command line. Those that cannot matter to RAD are passed over; Slurm alone knows whether values are right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from slurm_hooks.directives import leading_block
from slurm_hooks.gres import DEVICE_TYPE
from slurm_hooks.hook import sent
from slurm_hooks.request import NODE_OPTIONS, UNLIMITED
from slurm_hooks.slurm.view import expand_hostlist, seconds

_SHORT = {
    "a": "array", "A": "account", "b": "begin", "B": "extra-node-info", "C": "constraint", "c": "cpus-per-task",
    "D": "chdir", "d": "dependency", "e": "error", "F": "nodefile", "G": "gpus", "H": "hold", "h": "help", "i": "input",
    "J": "job-name", "k": "no-kill", "L": "licenses", "M": "clusters", "m": "distribution", "N": "nodes",
    "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition", "Q": "quiet", "q": "qos", "S": "core-spec",
    "s": "oversubscribe", "t": "time", "V": "version", "v": "verbose", "W": "wait", "w": "nodelist", "x": "exclude",
}  # fmt: skip
# These take no value, or one behind = alone.
_FLAGS = frozenset((
    "hold", "exclusive", "contiguous", "get-user-env", "help", "ignore-pbs", "nice", "no-kill", "no-requeue",
    "overcommit", "oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue", "resv-ports", "spread-job",
    "stepmgr", "test-only", "usage", "use-min-nodes", "verbose", "version", "wait", "consolidate-segments",
    "spread-segments",
))  # fmt: skip
_TEXT = {
    "array": "array_inx", "constraint": "features", "dependency": "dependency", "job-name": "name",
    "partition": "partition", "nodelist": "req_nodes", "exclude": "exc_nodes", "reservation": "reservation",
    "gpu-bind": "tres_bind", "gpu-freq": "tres_freq", "tres-bind": "tres_bind", "tres-per-task": "tres_per_task",
    "licenses": "licenses", "bbf": "burst_buffer", **NODE_OPTIONS,
}  # fmt: skip
_NUMBER = {
    "cpus-per-task": "cpus_per_task", "ntasks": "num_tasks", "ntasks-per-gpu": "ntasks_per_tres",
    "mincpus": "pn_min_cpus",
}  # fmt: skip
_OF_SOCKETS = ("sockets_per_node", "cores_per_socket", "threads_per_core")
_EXCLUSIVE = {"": "0", "exclusive": "0", "user": "2", "mcs": "3", "topo": "4"}
_GPUS = {
    "gpus": "tres_per_job", "gpus-per-node": "tres_per_node", "gpus-per-task": "tres_per_task",
    "gpus-per-socket": "tres_per_socket", "cpus-per-gpu": "cpus_per_tres",
}  # fmt: skip
_MEMORY = {"mem": "min_mem_per_node", "mem-per-cpu": "min_mem_per_cpu", "mem-per-gpu": "mem_per_tres"}
_MATTER = {
    *_TEXT, *_NUMBER, *_GPUS, *_MEMORY, "hold", "exclusive", "oversubscribe", "spread-job", "gres",
    "nodes", "begin", "time", "hint", "extra-node-info", "core-spec", "thread-spec",
}  # fmt: skip
# All others of Slurm 22.05 to 26.05.
_OTHERS = frozenset((
    "account", "acctg-freq", "batch", "chdir", "cluster-constraint", "clusters", "comment", "container",
    "container-id", "container-type", "cpu-freq", "deadline", "delay-boot",
    "distribution", "error", "export", "export-file", "extra", "gid", "gres-flags", "input",
    "kill-on-invalid-dep", "mail-type", "mail-user", "mcs-label", "mem-bind", "network", "nodefile",
    "ntasks-per-node", "oom-kill-step", "open-mode", "output", "power", "priority",
    "profile", "qos", "segment", "signal", "switches",
    "time-min", "uid", "wait-all-nodes", "wckey", "wrap",
))  # fmt: skip
_ALL = _MATTER | _FLAGS | _OTHERS
# Names that sbatch takes and does not list.
_ALSO = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}
# Variables by which sbatch takes an option that matters here; it has none for the others.
_VARIABLES = {
    "SLURM_CLUSTERS": "clusters",
    "SLURM_HINT": "hint",
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_BURST_BUFFER": "bb",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_TIMELIMIT": "time",
    **{f"SBATCH_{name.upper().replace('-', '_')}": name for name in (
        "clusters", "constraint", "core-spec", "cpus-per-gpu", "exclusive", "export", "gpu-bind", "gpu-freq", "gpus",
        "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "hint", "mem-per-cpu", "mem-per-gpu", "partition",
        "reservation", "spread-job", "thread-spec", "threads-per-core", "tres-bind", "tres-per-task",
    )},
}  # fmt: skip
_UNKNOWN = "?"
_HETJOB = "a word between options"
_BLANKS = " \t\v\f\r"
_SPACES = f"{_BLANKS}\n"
_FOREIGN = re.compile(r"^#(PBS|BSUB)", re.MULTILINE)
_MIB = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_A_DAY_S = 86_400
_TYPED = re.compile(rf"(?:gres[:/])?(?:gpu|mps):({DEVICE_TYPE})")
_COUNT = re.compile(r"[0-9]{1,9}")
_YES = re.compile(r"|yes|\s*[+-]?0*[1-9]\d*", re.IGNORECASE)
_NO_VARIABLES: Mapping[str, str] = {}


def fields_of(
    script: str,
    options: Sequence[str] = (),
    now: int = 0,
    separator: str = ":",
    environment: Mapping[str, str] = _NO_VARIABLES,
) -> dict[str, str]:
    """The fields of a submission, as job_submit.lua sends them to radd.

    Args:
        script: text of the batch script.
        options: sbatch's options on the command line; they override the environment's, and these the script's.
        now: Unix time in seconds.
        separator: what stands behind ``gres`` in a request: ``:`` on 22.05, ``/`` on later versions.
        environment: variables that sbatch would see.
    """
    gres = f"gres{separator}"
    fields = {"script": sent(script)}
    per_node = ""
    of_nodes: dict[str, str] = {}
    for name, value in _said(leading_block(script), options, environment):
        if name == "ntasks-per-node":
            per_node = value
        elif name in ("gpus-per-node", "gres"):
            of_nodes.update({name: _fields(name, value, now, gres)["tres_per_node"]})
        elif name in _MATTER or name == _HETJOB:
            fields.update(_fields(name, value, now, gres))
    if of_nodes:  # sbatch adds the one to the other
        both = (of_nodes.get(name, "") for name in ("gpus-per-node", "gres"))
        fields["tres_per_node"] = ",".join(filter(None, both))
    if "max_nodes" in fields and "tres_per_job" in fields:  # a job has no more nodes than GPUs
        fields["max_nodes"] = _least(fields["max_nodes"], _gpus(fields["tres_per_job"]))
    # Later versions count tasks of nodes for GPUs that each task has.
    counts = separator == ":" or "tres_per_task" in fields
    return {**_implied(fields, per_node if counts else ""), **fields}


def parted(words: Sequence[str]) -> tuple[str, list[str]]:
    """The script of a command line, its first word that is neither an option nor the value of one, and all others.

    The empty string where no word is left for it.
    """
    rest = list(words)
    while rest:
        at = len(words) - len(rest)
        if rest[0] != ":" and not rest[0].startswith("-"):
            return rest[0], [*words[:at], *words[at + 1 :]]
        _next_option(rest)
    return "", list(words)


def unknown(script: str, options: Sequence[str] = ()) -> list[str]:
    """Words among the options of a script and of a command line that are no options of sbatch."""
    found = _said(leading_block(script), options, _NO_VARIABLES)
    return [word for name, word in found if name == _UNKNOWN]


def refused(script: str) -> str:
    """Why sbatch itself takes no such script, in its words for it; the empty string where it takes it."""
    if not script.strip(_SPACES):
        return "it is empty, or holds only whitespace"
    if script.startswith("\ufeff"):
        return "it starts with a byte order mark, which editors do not show: save it as UTF-8 without one (BOM)"
    if not script.startswith("#!"):
        return "its first line must start with #! followed by the path to an interpreter"
    if "\r\n" in script:
        return r"it contains DOS line breaks (\r\n): dos2unix cures that"
    return ""


def refused_by_slurm(fields: Mapping[str, str], partitions: Collection[str]) -> str:
    """Why Slurm takes no such job whatever RAD does, in words; the empty string where it may take it.

    Args:
        fields: of the submission, as `fields_of` makes them, with a partition.
        partitions: names of Slurm's; none where they are not known.
    """
    for name in fields["partition"].split(","):
        if partitions and name not in partitions:
            return f"there is no partition {name}, only {', '.join(sorted(partitions))}"
    per_task = fields.get("tres_per_task", "")
    # sbatch counts a task for each node where it is told of nodes and not of processors.
    nodes = "min_nodes" in fields or "sockets_per_node" in fields
    counted = "num_tasks" in fields or (nodes and "cpus_per_task" not in fields)
    if "gpu" in per_task and _gpus(per_task) and "tres_per_job" not in fields and not counted:
        return "--gpus-per-task goes with --ntasks or --gpus: add --ntasks=1"
    return ""


def gpu_types(tres: str) -> list[str]:
    """The types of GPUs, or of shares of them, in generic resources as Slurm writes them."""
    return [found for item in tres.split(",") if (found := (_TYPED.match(item) or ("", ""))[1])]


def foreign(script: str, options: Sequence[str], environment: Mapping[str, str]) -> str:
    """The first mark of another batch system in a script, ``#PBS`` or ``#BSUB``: sbatch follows such lines too.

    The empty string where there is none, or where sbatch is told to pass them over.
    """
    if "SBATCH_IGNORE_PBS" in environment or any(
        name == "ignore-pbs" for name, _ in _said(leading_block(script), options, _NO_VARIABLES)
    ):
        return ""
    found = _FOREIGN.search(script)
    return found.group() if found else ""


def exports_all(script: str, options: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a job is given the variables of sbatch's environment: also what cli_filter.lua has put there."""
    said = _last("export", script, options, environment)
    return said is None or "ALL" in said.upper().split(",")


def clusters(script: str, options: Sequence[str], environment: Mapping[str, str]) -> str:
    """The clusters of which one is to get the job; the empty string where none is named."""
    return _last("clusters", script, options, environment) or ""


def _last(option: str, script: str, options: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The value of an option that counts, or None where nobody has said it."""
    said = [value for name, value in _said(leading_block(script), options, environment) if name == option]
    return said[-1] if said else None


def _said(block: str, options: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Options of a script's leading block, of the environment and of the command line: later ones count."""
    yield from _in_script(block.split("\n"))
    for variable, name in _VARIABLES.items():
        value = environment.get(variable)
        if value is not None and (name != "spread-job" or _YES.fullmatch(value)):  # the others take a value
            yield name, value
    yield from _options(options)


def _implied(fields: Mapping[str, str], per_node: str) -> dict[str, str]:
    """What sbatch takes from other options where nodes and tasks are not told."""
    made = {}
    named = len(expand_hostlist(fields.get("req_nodes", "")))
    if named > 1:
        made["min_nodes"] = str(named)
    if _COUNT.fullmatch(per_node):
        nodes = fields.get("min_nodes", "")
        made["num_tasks"] = str(int(per_node) * (int(nodes) if _COUNT.fullmatch(nodes) else max(named, 1)))
    return made


def _gpus(items: str) -> int:
    """How many GPUs a job asks for; those whose number is not told are one."""
    numbers = [item.rpartition(":")[2] for item in items.split(",")]
    return sum(int(number) if _COUNT.fullmatch(number) else 1 for number in numbers)


def _least(text: str, most: int) -> str:
    """A number of an option's, or `most` where it is more."""
    return str(min(int(text), most)) if _COUNT.fullmatch(text) else text


def _in_script(block: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options of the job, or of a heterogeneous job's first component: the others are given no script."""
    for line in block:
        if not line.startswith("#SBATCH"):
            continue
        try:
            words = _words(line[len("#SBATCH") :])
        except ValueError:
            continue  # an open quote: sbatch says so itself
        if words[:1] in (["hetjob"], ["packjob"]):
            yield _HETJOB, ""
            return
        yield from _options(words)


def _words(line: str) -> list[str]:
    """What sbatch takes for words: a backslash stands before any character, a # ends the line wherever it is bare.

    Raises:
        ValueError: if a quote stays open.
    """
    words, word, quote = [], "", ""
    characters = iter(line)
    for character in characters:
        if character == "\\":
            word += next(characters, "")
        elif quote:
            word, quote = (word, "") if character == quote else (word + character, quote)
        elif character in "'\"":
            quote = character
        elif character == "#":
            break
        elif character in _BLANKS:
            words.append(word)
            word = ""
        else:
            word += character
    if quote:
        raise ValueError(f"an open {quote}")
    return [one for one in (*words, word) if one]


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names in full and values of options, up to those of another component; ``?`` and the word where it is none."""
    rest = list(words)
    while rest:
        name, value = _next_option(rest)
        yield name, value
        if name == _HETJOB:
            return


def _next_option(rest: list[str]) -> tuple[str, str]:
    """Take the first option out of `rest`, and its value, which may stand in the next word."""
    word = rest.pop(0)
    value: str | None
    if found := re.fullmatch(r"--([\w-]+)(?:=(.*))?", word, re.DOTALL):
        name, value = _in_full(found.group(1)), found.group(2)
    elif found := re.fullmatch(r"-([A-Za-z])=?(.*)", word, re.DOTALL):
        name, value = _SHORT.get(found.group(1), ""), found.group(2) or None
        if name in _FLAGS and value is not None:  # -HN2 is -H -N2
            rest.insert(0, f"-{value}")
            value = None
    else:
        name, value = _HETJOB if word == ":" else "", word
    if not name:
        if value is None and rest and not rest[0].startswith("-"):
            rest.pop(0)  # its value, most likely
        return _UNKNOWN, word
    if value is None:
        value = "" if name in _FLAGS or not rest else rest.pop(0)
    return name, value


def _in_full(name: str) -> str:
    """An option's name; sbatch takes as much of it as no other begins with. The empty string where there is none."""
    found = [name] if name in _ALL or name in _ALSO else [known for known in (*_ALL, *_ALSO) if known.startswith(name)]
    return _ALSO.get(found[0], found[0]) if len(found) == 1 else ""


def _fields(name: str, value: str, now: int, gres: str) -> Mapping[str, str]:
    if name in _TEXT:
        return {_TEXT[name]: value}
    if name in _NUMBER:
        return {_NUMBER[name]: value}
    if name in _GPUS:
        return {_GPUS[name]: ",".join(f"{gres}gpu:{item}" for item in value.split(",") if item)}
    if name in _MEMORY:
        mib = _mib(value)
        return {_MEMORY[name]: f"{gres}gpu:{mib}" if name == "mem-per-gpu" else str(mib)} if mib is not None else {}
    if name == "gres":
        items = (item.removeprefix("gres:") for item in value.split(","))
        return {"tres_per_node": ",".join(f"{gres}{item}" for item in items if item and item != "none")}
    if name == "nodes":
        least, _, most = value.partition("-")
        return {"min_nodes": least, "max_nodes": most or least}
    if name == "begin":
        return {} if value == "now" else {"begin_time": str(now + _A_DAY_S)}  # when does not matter, that it waits does
    if name == "time":
        limit = seconds(value)
        return {"time_limit": str(-int(-limit // 60)) if limit else UNLIMITED}
    return {
        "hold": {"priority": "0"},
        "exclusive": {"shared": _EXCLUSIVE[value]} if value in _EXCLUSIVE else {},
        "oversubscribe": {"shared": "1"},
        "hint": {} if value in ("multithread", "none") else {"threads_per_core": "1"},
        "extra-node-info": dict(zip(_OF_SOCKETS, value.split(":"), strict=False)),
        "spread-job": {"spread_job": "1"},
        "core-spec": {"core_spec": "1"},
        "thread-spec": {"core_spec": "1"},
        _HETJOB: {"het_job_offset": "0"},
    }[name]


def _mib(text: str) -> int | None:
    found = re.fullmatch(r"(\d{1,12})([KMGT]?)B?", text, re.IGNORECASE)
    return math.ceil(int(found.group(1)) * _MIB[found.group(2).lower() or "m"]) if found else None
