"""From what Slurm's commands print to the view of the cluster. Pure: text in, values out.

Nodes come from ``scontrol show node -o``, which has no JSON on 22.05. What is taken of each device comes from the
running jobs' AllocTRES, because 22.05's ``GresUsed`` counts the jobs of an MPS device and not their shares. Jobs come
from ``squeue`` with chosen columns: its ``--json`` ignores filters on 22.05 and costs far more for a long queue
(scripts/bench).
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from slurm_hooks import mig
from slurm_hooks.cluster import (
    Arrival,
    ClusterView,
    Gpu,
    Node,
    PerGpu,
    PinnedJob,
    Resident,
    SlurmPartition,
    with_arrivals,
)
from slurm_hooks.gres import counted
from slurm_hooks.records import decode
from slurm_hooks.shares import FULL_THREADS, SHARES_PER_GPU
from slurm_hooks.slurm import squeue

# Columns of squeue's -o, joined by SEPARATOR; the reason comes last because it is free text.
JOB_COLUMNS = ("%i", "%P", "%u", "%b", "%n", "%r")
SEPARATOR = "\x1f"
# Columns and widths of squeue's -O for jobs that hold GPUs. A longer AdminComment is cut and then counts as unknown.
RESIDENT_COLUMNS = (("JobID", 20), ("NodeList", 512), ("tres-alloc", 512), ("UserName", 64), ("admin_comment", 4096))

# Of jobs in whose place Slurm lets one of a partition with a higher PriorityTier wait; the only reason with commas that
# stands in a list of several.
_FOR_OTHERS = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
_WAITING_REASONS = ("Resources", "Priority", _FOR_OTHERS)
_NO_NODE_COULD = "BadConstraints"
_NOT_SEEN = "None"  # of jobs that Slurm has not looked at yet: at each as it comes, or, with `defer`, later at all
# How the reasons of jobs begin that take nothing, whatever comes free. Of any other a pin may hold its job up.
_NOT_FOR_ROOM = re.compile(
    r"Job(Held|Hold|ArrayTaskLimit)|launch failed|Dependency|BeginTime|BadConstraints|Licenses|Reservation"
    r"|Partition(Node|Time)Limit|Invalid|AccountNotAllowed"
)
_USABLE_STATES = ("IDLE", "MIXED", "ALLOCATED")
_UNUSABLE_FLAGS = ("DRAIN", "DOWN", "NOT_RESPONDING", "MAINT", "FAIL", "REBOOT", "POWER", "RESERVED", "PLANNED_DRAIN")
_HOSTS = re.compile(r"([^,\[\]]*)(?:\[([\d,-]+)\])?([^,\[\]]*)(?:,|$)")
_MOST_HOSTS = 10_000
_ASKED_GPU = re.compile(r"(?:^|[,:/])gpu(?:$|[,:=])")
_JOB_DEFAULTS = re.compile(r"^JobDefaults\s+= (.*)$", re.MULTILINE)
_CLI_FILTERS = re.compile(r"^CliFilterPlugins\s+= (.*)$", re.MULTILINE)
_AT_LIMIT = re.compile(r"QOS|Assoc|Max\w{1,20}PerAccount")  # how the reasons of jobs begin that wait for a limit
_COUNTED = re.compile(r"^SelectTypeParameters\s+= (.*)$", re.MULTILINE)
_LIMITS_OF_MEMORY = re.compile(r"^(DefMemPer(?:CPU|Node)|MaxMemPerCPU)\s+= (\d{1,15})$", re.MULTILINE)
_MEMORY_FIELDS = ("DefMemPerCPU", "DefMemPerNode")
_NODE_LIMITS = ("MaxCPUsPerNode", "MaxCPUsPerSocket")
_NO_LIMIT = "UNLIMITED"
_NEVER = float("inf")
_PRIVATE = re.compile(r"^PrivateData\s+= (.*)$", re.MULTILINE)
_ENFORCED = re.compile(r"^AccountingStorageEnforce\s+= (.*)$", re.MULTILINE)
_DEFAULT = re.compile(r"(DefCpuPerGPU|DefMemPerGPU)=(\d{1,15})", re.IGNORECASE)
_TIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?")
_FIELD = re.compile(r"(?:^| )([A-Za-z][A-Za-z_]*)=(\S*)")


@dataclass(frozen=True)
class JobRow:
    """One job that waits, `array` where it stands for several tasks; `nodes` those that it names.

    Tasks of an array may wait for different reasons: squeue tells all of them.
    """

    job_id: int
    partition: str
    user: str
    asked: str
    nodes: str
    reasons: frozenset[str]
    array: bool = False


@dataclass(frozen=True)
class ResidentRow:
    """One running job and what it holds."""

    job_id: int
    nodes: str
    allocated: str
    user: str
    admin_comment: str


def parse_jobs(text: str) -> list[JobRow]:
    """Lines of squeue in JOB_COLUMNS, of jobs that wait; a line that is not such a row is passed over."""
    rows = []
    for line in text.splitlines():
        parts = line.split(SEPARATOR, len(JOB_COLUMNS) - 1)
        if len(parts) != len(JOB_COLUMNS):
            continue
        number = re.match(r"\d+", parts[0])
        if number:
            name, partition, user, asked, nodes, reason = parts
            nodes = nodes.replace("(null)", "")
            rows.append(JobRow(int(number.group()), partition, user, asked, nodes, reasons_in(reason), "[" in name))
    return rows


def reasons_in(text: str) -> frozenset[str]:
    """The reasons for which a job waits, or the tasks of an array."""
    known = (_FOR_OTHERS,) if _FOR_OTHERS in text else ()
    return frozenset((*known, *filter(None, text.replace(_FOR_OTHERS, "").split(",")))) or frozenset((text,))


def parse_residents(text: str) -> list[ResidentRow]:
    """Rows of squeue in RESIDENT_COLUMNS."""
    names = [name for name, _ in RESIDENT_COLUMNS]
    cells = ([row[name].decode(errors="replace") for name in names] for row in squeue.rows(text, RESIDENT_COLUMNS))
    return [ResidentRow(int(number), *rest) for number, *rest in cells if number.isdecimal()]


def parse_nodes(text: str, reserved: Mapping[str, float] = MappingProxyType({})) -> list[Node]:
    """Lines of ``scontrol show node -o``; nodes without GPUs are left out. `reserved` is `parse_reservations`'."""
    nodes = []
    for line in text.splitlines():
        fields = _fields(line)
        node = _node(fields)
        if node.has_gpus or node.instances:
            nodes.append(replace(node, reserved_from=reserved[node.name]) if node.name in reserved else node)
    return nodes


def beside(nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
    """The other partitions that have nodes of a partition, by its name."""
    found: dict[str, set[str]] = {}
    for names in {node.partitions for node in nodes}:
        for name in names:
            found.setdefault(name, set()).update(names)
    return {name: frozenset(names - {name}) for name, names in found.items()}


def parse_partitions(
    partitions: str, settings: str, others: Mapping[str, frozenset[str]] = MappingProxyType({})
) -> dict[str, SlurmPartition]:
    """What Slurm says of its partitions, by name.

    Args:
        partitions: lines of ``scontrol show partition -o``.
        settings: what ``scontrol show config`` prints; it holds where a partition says nothing.
        others: what `beside` found.
    """
    found = _JOB_DEFAULTS.search(settings)
    everywhere = _per_gpu(found.group(1) if found else "", PerGpu())
    counted = _COUNTED.search(settings)
    counts_memory = counted is not None and "MEMORY" in counted.group(1).upper()
    by_default = dict(_LIMITS_OF_MEMORY.findall(settings))
    made = {}
    for line in partitions.splitlines():
        fields = _fields(line)
        longest = seconds(fields.get("MaxTime", ""))
        limit = seconds(fields.get("DefaultTime", "")) or longest
        own = {name: amount for name, amount in fields.items() if name in _MEMORY_FIELDS and amount.isdigit()}
        memory = own or by_default
        name = fields.get("PartitionName", "")
        made[name] = SlurmPartition(
            up=fields.get("State", "UP") == "UP",
            by_user=fields.get("ExclusiveUser") == "YES",
            whole_nodes=fields.get("OverSubscribe") == "EXCLUSIVE",
            limits_nodes=any(fields.get(name, _NO_LIMIT) != _NO_LIMIT for name in _NODE_LIMITS),
            per_gpu=_per_gpu(fields.get("JobDefaults", ""), everywhere),
            limit_s=_NEVER if limit is None else limit,
            longest_s=_NEVER if longest is None else longest,
            counts_memory=counts_memory,
            memory_per_cpu_mib=_int(memory.get("DefMemPerCPU")) or None,
            memory_per_node_mib=_int(memory.get("DefMemPerNode")) or None,
            most_memory_per_cpu_mib=_most_memory_per_cpu(fields, by_default),
            tier=_int(fields.get("PriorityTier")),
            beside=others.get(name, frozenset()),
        )
    return made


def _most_memory_per_cpu(fields: Mapping[str, str], by_default: Mapping[str, str]) -> int | None:
    """MaxMemPerCPU of a partition; one that limits memory of a node has none, whatever holds by default."""
    own = fields if "MaxMemPerCPU" in fields or fields.get("MaxMemPerNode", "").isdigit() else by_default
    return _int(own.get("MaxMemPerCPU")) or None


def parse_reservations(text: str) -> dict[str, float]:
    """When the first reservation of each node begins, in Unix time: lines of ``scontrol show reservation -o``.

    It shows times as seconds since 1970.
    """
    made: dict[str, float] = {}
    for line in text.splitlines():
        fields = _fields(line)
        begin = fields.get("StartTime", "")
        if not begin.isdecimal():
            continue
        for name in expand_hostlist(fields.get("Nodes", "")):
            made[name] = min(float(begin), made.get(name, _NEVER))
    return made


def reservations_of_gpus(text: str) -> frozenset[str]:
    """Names of the reservations that hold GPUs, or shares: lines of ``scontrol show reservation -o``."""
    shown = map(_fields, text.splitlines())
    return frozenset(fields.get("ReservationName", "") for fields in shown if counted(fields.get("TRES", "")))


def seconds(text: str) -> float | None:
    """A time limit as Slurm reads and writes it (``90``, ``1:30:00``, ``2-12``), or None for no limit."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, first, second, third = (int(part) if part else 0 for part in found.groups())
    if found.group(1) is not None or found.group(4) is not None:
        return ((days * 24 + first) * 60 + second) * 60.0 + third
    return (first * 60.0 + second) or None


def filters_steps(settings: str) -> bool:
    """Whether srun runs cli_filter.lua, by what ``scontrol show config`` prints; so where that does not say."""
    found = _CLI_FILTERS.search(settings)
    return found is None or "lua" in re.split(r"[,/]", found.group(1).strip())


def enforces_limits(settings: str) -> bool:
    """Whether jobs wait for limits of associations and QOS, by what ``scontrol show config`` prints."""
    found = _ENFORCED.search(settings)
    return found is not None and not {"limits", "safe", "all"}.isdisjoint(found.group(1).strip().split(","))


def hides_jobs(settings: str) -> bool:
    """Whether Slurm shows jobs to their users and its operators alone, by what ``scontrol show config`` prints."""
    found = _PRIVATE.search(settings)
    return found is not None and "jobs" in found.group(1).strip().split(",")


def _per_gpu(text: str, otherwise: PerGpu) -> PerGpu:
    said = {name.lower(): int(amount) for name, amount in _DEFAULT.findall(text)}
    return PerGpu(said.get("defcpupergpu", otherwise.cpus), said.get("defmempergpu", otherwise.memory_mib))


def _node(fields: Mapping[str, str]) -> Node:
    gpus, whole, several, instances = _gpus(fields)
    state = fields.get("State", "")
    base = re.split(r"[^A-Z_]", state)[0]
    flags = state[len(base) :]
    available = base in _USABLE_STATES and not any(flag in flags for flag in _UNUSABLE_FLAGS) and "*" not in state
    total = _int(fields.get("RealMemory")) - _int(fields.get("MemSpecLimit"))
    features = fields.get("ActiveFeatures") or fields.get("AvailableFeatures", "")
    return Node(
        name=fields.get("NodeName", ""),
        available=available,
        partitions=frozenset(filter(None, fields.get("Partitions", "").split(","))),
        features=frozenset(filter(None, features.replace("(null)", "").split(","))),
        free_cpus=_int(fields.get("CPUEfctv") or fields.get("CPUTot")) - _int(fields.get("CPUAlloc")),
        free_memory_mib=total - _int(fields.get("AllocMem")),
        gpus=gpus,
        instances=instances,
        shares=any(kind == "mps" and count for kind, _, count in counted(fields.get("Gres", ""))),
        memory_mib=total,
        threads=_cpus_per_core(fields),
        owner=fields.get("Owner", "").partition("(")[0].replace("N/A", ""),
        idle=not _int(fields.get("CPUAlloc")),
        whole=whole,
        several=several,
    )


def _cpus_per_core(fields: Mapping[str, str]) -> int:
    """Processors of a core: its threads, or one where slurm.conf counts cores (CPUs= no more than there are)."""
    cores = _int(fields.get("Sockets")) * _int(fields.get("CoresPerSocket"))
    return 1 if _int(fields.get("CPUTot")) <= cores else _int(fields.get("ThreadsPerCore")) or 1


def _gpus(
    fields: Mapping[str, str],
) -> tuple[tuple[Gpu, ...], tuple[Gpu, ...], frozenset[str], frozenset[str]]:
    """One GPU for each device type, those without shares beside others that have some, and two sets of device types.

    The first set is of GPUs that cannot be told apart, as a type has several, or they have none: the empty string. The
    second is of MIG instances. A GPU without shares stands by itself: Slurm refuses a job that is pinned there.
    """
    name = fields.get("NodeName", "")
    counts: dict[str, int] = {}
    first: dict[str, int] = {}
    shares: set[str] = set()
    number = 0
    for kind, device, count in counted(fields.get("Gres", "")):
        if kind == "gpu":
            first.setdefault(device, number)
            counts[device] = counts.get(device, 0) + count
            if not mig.instance(device):  # how many GPUs have instances is not told
                number += count
        elif device and count >= SHARES_PER_GPU:
            shares.add(device)
    instances = frozenset(device for device in counts if mig.instance(device))
    alone = [device for device, count in counts.items() if device and count == 1 and device not in instances]
    several = frozenset(device for device, count in counts.items() if count and device not in (*alone, *instances))
    gpus = tuple(Gpu(name, device, 0, number=first[device]) for device in alone if not shares or device in shares)
    whole = tuple(Gpu(name, device, 0, number=first[device]) for device in alone if shares and device not in shares)
    return gpus, whole, several, instances


def build(
    nodes: Iterable[Node],
    jobs: Iterable[JobRow],
    residents: Iterable[ResidentRow],
    *,
    taken: float,
    can_retype: bool,
    jobs_hidden: bool = False,
) -> ClusterView:
    """Put nodes, queue and running jobs together.

    Where Slurm hides jobs from those who are no operators (`jobs_hidden`) and shows none at all though there are some,
    nobody can tell what is free on any node.
    """
    nodes, residents = list(nodes), list(residents)
    blind = jobs_hidden and not residents and not all(node.idle for node in nodes)
    holders, opaque = _holders(residents)
    waiting_jobs = [job for job in jobs if not job.reasons.isdisjoint(_WAITING_REASONS)]
    waiting = Counter(partition for job in waiting_jobs for partition in job.partition.split(","))
    at_limit = {job.job_id: job.user for job in jobs if any(map(_AT_LIMIT.match, job.reasons))}
    pinned = tuple(
        PinnedJob(job.job_id, device, count, job.nodes, _NOT_SEEN not in job.reasons)
        for job in jobs
        if not all(map(_NOT_FOR_ROOM.match, job.reasons))
        for device, count in _shares(job)
        if device
    )
    stuck = tuple(job.job_id for job in jobs if job.reasons == {_NO_NODE_COULD} and _shares(job))
    spoken_for: Counter[tuple[str, str]] = Counter()
    for pin in pinned:
        if pin.job_id in at_limit:  # it takes nothing, whatever comes free
            continue
        # One that does not name one node will take its shares on whichever comes free: it counts on each.
        name = "" if any(c in pin.nodes for c in "[,") else pin.nodes
        spoken_for[name, pin.type] += pin.share
    made = []
    for node in nodes:
        gpus, whole = (
            tuple(_held(gpu, holders.get((gpu.node, gpu.type), ()), spoken_for) for gpu in several)
            for several in (node.gpus, node.whole)
        )
        untold = blind or node.name in opaque
        made.append(replace(node, gpus=gpus, whole=whole, available=node.available and not untold, opaque=untold))
    lacking = frozenset(name for node in made if node.has_gpus and not node.shares for name in node.partitions)
    view = ClusterView(taken, tuple(made), waiting, len(waiting_jobs), pinned, lacking, stuck, can_retype=can_retype)
    view = replace(view, at_limit=frozenset(at_limit.values()))
    return with_arrivals(view, filter(None, map(_about_to_start, jobs)))


def _shares(job: JobRow) -> list[tuple[str, int]]:
    """Shares that a job asks for, by device type."""
    return [(device, count) for kind, device, count in counted(job.asked) if kind == "mps"]


def _holders(residents: Iterable[ResidentRow]) -> tuple[dict[tuple[str, str], list[Resident]], set[str]]:
    """Jobs that hold a GPU, by its node and type, and nodes that run jobs of which nobody can tell which they hold."""
    holders: dict[tuple[str, str], list[Resident]] = {}
    opaque: set[str] = set()
    for row in residents:
        held = counted(row.allocated)
        typed = [item for item in held if item[1]]
        if held and not typed:  # AccountingStorageTRES names no types
            opaque.update(expand_hostlist(row.nodes))
        for kind, device, count in typed:
            share = SHARES_PER_GPU if kind == "gpu" else count
            for name in expand_hostlist(row.nodes):
                holders.setdefault((name, device), []).append(_resident(row, share))
    return holders, opaque


def _held(gpu: Gpu, holders: Sequence[Resident], spoken_for: Mapping[tuple[str, str], int]) -> Gpu:
    """A GPU with the jobs that hold it, and what is spoken for on it."""
    used = sum(resident.share for resident in holders)
    used += spoken_for.get(("", gpu.type), 0) + spoken_for.get((gpu.node, gpu.type), 0)
    return replace(gpu, residents=tuple(holders), used_shares=min(SHARES_PER_GPU, used))


def _about_to_start(job: JobRow) -> Arrival | None:
    """A job that Slurm has not looked at yet, as it may start at any moment on any GPU; None for others.

    The tasks of an array may fill any GPU.
    """
    if _NOT_SEEN not in job.reasons:
        return None
    untyped = sum(count for device, count in _shares(job) if not device)
    share = untyped or (SHARES_PER_GPU if _ASKED_GPU.search(job.asked) else 0)
    if share and job.array:
        share = SHARES_PER_GPU
    partitions = frozenset(job.partition.split(","))
    return Arrival(Resident(job.job_id, job.user, share), None, partitions, 0, 0) if share else None


def expand_hostlist(text: str) -> list[str]:
    """Names in a host list such as ``n[01-03,7],login``; at most 10,000."""
    names: list[str] = []
    for prefix, ranges, suffix in _HOSTS.findall(text):
        if not ranges:
            names += [prefix] if prefix else []
            continue
        for part in ranges.split(","):
            low, _, high = part.partition("-")
            if not low.isdigit() or not (high or low).isdigit():
                continue
            for number in range(int(low), min(int(high or low), int(low) + _MOST_HOSTS) + 1):
                names.append(f"{prefix}{number:0{len(low)}d}{suffix}")
    return names[:_MOST_HOSTS]


def _resident(row: ResidentRow, share: int) -> Resident:
    return Resident(row.job_id, row.user, share, *_said(row.admin_comment))


# Of thousands of jobs that run, few are new since the last look. Bounded in number, as comments are in length.
@functools.lru_cache(maxsize=16_384)
def _said(admin_comment: str) -> tuple[int | None, float | None, tuple[float, ...], int]:
    """Memory in MiB, SMACT, activity and thread percentage of a resident, as its job's comment tells them."""
    record = decode(admin_comment)
    if record is None:
        return None, None, (), FULL_THREADS
    return record.upper_mib, record.smact, record.activity, record.thread_percentage or FULL_THREADS


def _fields(line: str) -> dict[str, str]:
    """The fields of a line of scontrol's. What people write, as a node's Reason, comes last, and changes no other."""
    return dict(reversed(_FIELD.findall(line)))


def _int(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
