"""What a job asks Slurm for, and whether RAD may rewrite it. Pure.

A request comes as strings from job_submit.lua (Slurm's job descriptor). 22.05 writes ``gres:gpu:h200:1``,
later versions ``gres/gpu:h200:1``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from estimator.breath import OFTEN, breathe
from slurm_hooks.cluster import ALL_MEMORY, SlurmPartition
from slurm_hooks.gres import DEVICE_TYPE

UNLIMITED: Final = "unlimited"  # a time limit
_OF_GPUS: Final = ("--gres", "--gpus", "-per-gpu", " -G", "--gpu-bind", "gres/gpu", "gres:gpu")
_CPUS: Final = re.compile(r"cpu[:=]")
_COUNTS: Final = re.compile(r"\*(\d{1,9})")  # of nodes that are to have a feature
_GRES: Final = re.compile(rf"^(?:gres[:/])?([A-Za-z_][\w-]*)(?::({DEVICE_TYPE}))?(?:[:=](\d{{1,20}}))?$")

# Options by which users say which nodes will do and of which the view of the cluster tells nothing, and the job
# descriptor's fields that hold them.
NODE_OPTIONS: Final[Mapping[str, str]] = {
    "tmp": "pn_min_tmp_disk",
    "sockets-per-node": "sockets_per_node",
    "cores-per-socket": "cores_per_socket",
    "threads-per-core": "threads_per_core",
    "ntasks-per-core": "ntasks_per_core",
    "ntasks-per-socket": "ntasks_per_socket",
    "bb": "burst_buffer",
    "prefer": "prefer",
}


class Submission(NamedTuple):
    """The fields of a job descriptor that matter here; None where unset.

    A named tuple, as what else is made for each submit: a frozen dataclass takes three times as long to make.

    Attributes:
        script: the batch script, or as much of it as its leading comment block.
        tres: ``tres_per_node``, ``tres_per_job``, ``tres_per_task``, ``tres_per_socket`` as Slurm writes them.
        min_cpus, min_cpus_per_node: processors of all tasks, and ``--mincpus``.
        cpus_per_gpu, memory_per_gpu_mib: ``--cpus-per-gpu`` and ``--mem-per-gpu``.
        implied_binding: whether the descriptor holds a binding that the request for a GPU implied.
        core_spec: whether processors of its node are to be left to the system, which may give it the node whole.
        spread: whether the job is to take as many nodes as it can.
        prefer: features in whose place Slurm takes `features` only where no node has them.
        time_limit_min: how long it may run, in minutes; infinity for ``--time=UNLIMITED``.
        slurmctld_since: Unix time in seconds from which on slurmctld runs.
        test_only: whether nothing is to run: its user asks when it would.
        per_gpu_options: other options that go by GPU, as users write them.
        node_options: options that say which nodes will do in other ways than the fields above, as users write them.
        by_user: whether its node is to run no other user's jobs meanwhile.
        handed_summary: summary text that cli_filter.lua handed on, or None.
        handed_error: why cli_filter.lua handed on none, or the empty string.
    """

    script: str
    user: str = ""
    partition: str = ""
    tres: Mapping[str, str] | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    num_tasks: int | None = None
    cpus_per_task: int | None = None
    min_cpus: int | None = None
    min_cpus_per_node: int | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    exclusive: bool = False
    core_spec: bool = False
    spread: bool = False
    time_limit_min: float | None = None
    slurmctld_since: int | None = None
    test_only: bool = False
    array: str = ""
    het_job: bool = False
    held: bool = False
    dependency: str = ""
    begin_time: int | None = None
    reservation: str = ""
    licenses: str = ""
    features: str = ""
    prefer: str = ""
    req_nodes: str = ""
    exc_nodes: str = ""
    cpus_per_gpu: int | None = None
    memory_per_gpu_mib: int | None = None
    implied_binding: bool = False
    per_gpu_options: tuple[str, ...] = ()
    node_options: tuple[str, ...] = ()
    by_user: bool = False
    admin_comment: str = ""
    handed_summary: str | None = None
    handed_error: str = ""


class GpuRequest(NamedTuple):
    """One GPU on one node.

    Attributes:
        text: the request in a user's words, for example ``gpu:h200:1``.
        type: the type that the user named, or the empty string.
        field: which of the descriptor's fields held it.
        others: other generic resources of that field, as written.
        separator: ``:`` or ``/`` after ``gres``, as this Slurm writes it.
    """

    text: str
    type: str
    field: str
    others: tuple[str, ...]
    separator: str


class LeftAlone(NamedTuple):
    """Why RAD does not touch a request."""

    asked: str
    reason: str


def with_defaults(submission: Submission, slurm: SlurmPartition) -> Submission:
    """A submission with what Slurm gives where it says nothing, as it would to a job that holds a GPU."""
    cpus, memory_mib = submission.cpus_per_gpu, submission.memory_per_gpu_mib
    per_gpu = slurm.per_gpu
    if submission.cpus_per_task is None and cpus is None and per_gpu.cpus is not None:
        tasks = submission.num_tasks or 1
        cpus = -(-per_gpu.cpus // tasks) * tasks  # each task gets as many
    per_node, per_cpu = submission.memory_per_node_mib, submission.memory_per_cpu_mib
    if per_node is None and per_cpu is None and memory_mib is None:
        memory_mib = per_gpu.memory_mib
    if slurm.counts_memory:
        if 0 in (per_node, per_cpu, memory_mib):  # so users write that they want all of it
            per_node, per_cpu = ALL_MEMORY, None
        elif per_node is None and per_cpu is None and memory_mib is None:
            per_node, per_cpu = slurm.memory_per_node_mib, slurm.memory_per_cpu_mib
            per_node = ALL_MEMORY if per_node is None and per_cpu is None else per_node
    made = (cpus, memory_mib, per_node, per_cpu)
    if made != (
        submission.cpus_per_gpu,
        submission.memory_per_gpu_mib,
        submission.memory_per_node_mib,
        submission.memory_per_cpu_mib,
    ):  # seldom: a copy of so many fields takes as long as the choice of a GPU
        submission = submission._replace(
            cpus_per_gpu=cpus, memory_per_gpu_mib=memory_mib, memory_per_node_mib=per_node, memory_per_cpu_mib=per_cpu
        )
    most = slurm.most_memory_per_cpu_mib
    return submission if most is None else _with_cpus_for_memory(submission, most)


def _with_cpus_for_memory(submission: Submission, most_mib: int) -> Submission:
    """A submission with the processors that Slurm gives it where one of them may have `most_mib` of memory."""
    least, per_cpu = submission.min_cpus_per_node or 1, submission.memory_per_cpu_mib
    memory = submission.memory_per_node_mib or submission.memory_per_gpu_mib or 0
    if memory:
        least = least if memory >= ALL_MEMORY else max(least, -(-memory // most_mib))
    elif per_cpu:
        times = -(-per_cpu // most_mib)
        of_tasks = (submission.num_tasks or 1) * (submission.cpus_per_task or 1)
        least, per_cpu = times * max(least, of_tasks, submission.cpus_per_gpu or 1), -(-per_cpu // times)
    return submission._replace(min_cpus_per_node=least, memory_per_cpu_mib=per_cpu)


def steps_ask(script: str) -> bool:
    """Whether a script has a step that asks for GPUs, or for something by GPU."""
    if "srun " not in script:
        return False
    for at, line in enumerate(script.replace("\\\n", " ").split("\n")):
        if not at & OFTEN:
            breathe()
        command = line.partition("#")[0].partition("srun ")[2]
        if command and any(option in command for option in _OF_GPUS):
            return True
    return False


def in_words(tres: str) -> str:
    """Generic resources as users write them; what is asked for each task 24.11 writes as ``gres/gpu:h200=1``."""
    return tres.replace("gres:", "").replace("gres/", "").replace("=", ":")


def generic_resources(submission: Submission) -> list[str]:
    """Each generic resource that a job asks for, as Slurm writes it.

    Later versions than 22.05 write the processors of each task (``cpu=4``) beside them.
    """
    items = ",".join(filter(None, (submission.tres or {}).values())).split(",")
    return [item for item in items if item and not _CPUS.match(item)]


def asked_of(submission: Submission) -> str:
    """What a job asks of generic resources, in its user's words."""
    return in_words(",".join(generic_resources(submission)))


def understand(submission: Submission) -> GpuRequest | LeftAlone:
    """The one-GPU request in a submission, or why it is left alone."""
    tres = {k: v for k, v in (submission.tres or {}).items() if v}
    found: list[tuple[str, str, str, int]] = []
    others: dict[str, list[str]] = {}
    for where, text in tres.items():
        for at, item in enumerate(text.split(",")):
            if not at & OFTEN:
                breathe()
            match = _GRES.match(item)
            if match is None:
                return LeftAlone(asked_of(submission), f"the request {item[:60]!r} is not understood")
            name, kind, count = match.groups()
            if name in ("mps", "shard"):
                return LeftAlone(asked_of(submission), f"the request already names {name}")
            if name == "gpu":
                found.append((where, kind or "", item, int(count or 1)))
            else:
                others.setdefault(where, []).append(item)
    reason = _why_not(submission, found)
    if reason:
        return LeftAlone(asked_of(submission), reason)
    where, kind, item, _ = found[0]
    separator = "/" if item.startswith("gres/") else ":"
    return GpuRequest(in_words(item), kind, where, tuple(others.get(where, ())), separator)


def _why_not(submission: Submission, found: list[tuple[str, str, str, int]]) -> str:
    tasks = submission.num_tasks or 1
    if not any(count for *_, count in found):
        return "the job asks for no GPU"
    if len(found) > 1:
        return "GPUs are asked for in more than one way: keep one of them"
    where, _, _, count = found[0]
    if count != 1:
        return "the job asks for more than one GPU"
    if where == "tres_per_socket":
        return "GPUs are asked for per socket"
    if submission.het_job:
        return "the job is heterogeneous"
    if submission.exclusive:
        return "the job asks for its nodes exclusively"
    if submission.core_spec:
        return "the job may get its node whole by --core-spec or --thread-spec: leave them out"
    if tasks > 1 and where == "tres_per_task":
        return "the job asks for one GPU for each of several tasks"
    nodes = _several_nodes(submission)
    if nodes:
        return nodes
    if tasks > 1 and submission.cpus_per_gpu is not None:
        return "the job uses --cpus-per-gpu for several tasks: write --cpus-per-task instead"
    if submission.per_gpu_options:
        instead = " and write --ntasks" if "--ntasks-per-gpu" in submission.per_gpu_options else ""
        return f"the job uses {', '.join(submission.per_gpu_options)}: leave that out{instead}"
    return ""


def _several_nodes(submission: Submission) -> str:
    """Why a job may get more than one node, and a GPU on each; the empty string where it gets one."""
    if (submission.min_nodes or 1) > 1:
        return "the job asks for several nodes"
    if (submission.max_nodes or 1) > 1:
        return "the job may take several nodes: ask for --nodes=1"
    if submission.spread and submission.max_nodes != 1:
        return "the job may take several nodes by --spread-job: leave it out"
    if sum(map(int, _COUNTS.findall(submission.features))) > 1 and submission.max_nodes != 1:
        return "the job may take several nodes by the numbers in --constraint: ask for --nodes=1"
    if (submission.num_tasks or 1) > 1 and submission.max_nodes != 1:
        return "several tasks without --nodes=1 may spread over several nodes"
    return ""
