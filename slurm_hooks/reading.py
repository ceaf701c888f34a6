"""What a submission says by itself, whatever the cluster is like. Pure: a message's fields in, values out."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from slurm_hooks.directives import DirectiveError, Directives, parse_script
from slurm_hooks.request import NODE_OPTIONS, UNLIMITED, GpuRequest, LeftAlone, Submission, understand

TRES: Final = ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket")
_IMPLIED_BINDING: Final = re.compile(r"gres[:/]gpu:per_task:1")
_PER_GPU: Final = re.compile(r"gres[:/]gpu[:=](\d{1,9})")
_NOBODY_ELSE: Final = ("0", "3", "4")  # --exclusive; of the same MCS label; of a segment of nodes, since 24.11
_ONE_USER: Final = "2"  # --exclusive=user
_UNSET_FROM: Final = 0xFFFFFFFE
_UNSET_16: Final = (0xFFFE, 0xFFFF)


class Reading(NamedTuple):
    """What a submission says by itself, whatever the cluster is like.

    Attributes:
        directives: what its `#RAD` lines say, or None where it has none that can be followed.
        wrong: what is wrong with them, or the empty string.
        request: the GPU that it asks for, or why it is left alone.
    """

    submission: Submission
    directives: Directives | None
    wrong: str
    request: GpuRequest | LeftAlone


def read(fields: Mapping[str, str]) -> Reading:
    """What the fields of a message say."""
    submission = submission_from(fields)
    directives, wrong = None, ""
    try:
        directives = parse_script(submission.script)
    except DirectiveError as error:
        wrong = f"{error}"
    return Reading(submission, directives, wrong, understand(submission))


def submission_from(fields: Mapping[str, str]) -> Submission:
    """The submission in a message's fields; what cannot be read counts as unset."""
    text = fields.get
    # --gpus-per-task implies a binding from 23.11 on; with one GPU for one task it says nothing.
    binding = text("tres_bind", "")
    implied = bool(binding) and _IMPLIED_BINDING.fullmatch(binding) is not None
    per_gpu: list[str] = []
    if _number(text("ntasks_per_tres")) is not None:
        per_gpu.append("--ntasks-per-gpu")
    if binding and not implied:
        per_gpu.append("--gpu-bind")
    if text("tres_freq"):
        per_gpu.append("--gpu-freq")
    return Submission(
        script=text("script", ""),
        user=text("user_name", ""),
        partition=text("partition", ""),
        tres={name: text(name, "") for name in TRES},
        min_nodes=_number(text("min_nodes")),
        max_nodes=_number(text("max_nodes")),
        num_tasks=_number(text("num_tasks")),
        cpus_per_task=_number(text("cpus_per_task")),
        min_cpus=_number(text("min_cpus")),
        min_cpus_per_node=_number(text("pn_min_cpus")),
        memory_per_node_mib=_number(text("min_mem_per_node")),
        memory_per_cpu_mib=_number(text("min_mem_per_cpu")),
        exclusive=text("shared") in _NOBODY_ELSE,
        core_spec=bool(text("core_spec")),
        spread=bool(text("spread_job")),
        time_limit_min=math.inf if text("time_limit") == UNLIMITED else _number(text("time_limit")),
        slurmctld_since=_number(text("slurmctld_since")),
        test_only=bool(text("test_only")),
        array=text("array_inx", ""),
        het_job=_number(text("het_job_offset")) is not None,
        held=text("priority") == "0",
        dependency=text("dependency", ""),
        begin_time=_number(text("begin_time")) or None,
        reservation=text("reservation", ""),
        licenses=text("licenses", ""),
        features=text("features", ""),
        prefer=text("prefer", ""),
        req_nodes=text("req_nodes", ""),
        exc_nodes=text("exc_nodes", ""),
        cpus_per_gpu=_per_gpu(text("cpus_per_tres")),
        memory_per_gpu_mib=_per_gpu(text("mem_per_tres")),
        implied_binding=implied,
        per_gpu_options=tuple(per_gpu),
        node_options=tuple([f"--{option}" for option, name in NODE_OPTIONS.items() if text(name, "0") != "0"]),
        by_user=text("shared") == _ONE_USER,
        admin_comment=text("admin_comment", ""),
        handed_summary=text("summary"),
        handed_error=text("summary_error", "")[:300],
    )


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        value = int(float(text))
    except (ValueError, OverflowError):
        return None
    return None if value < 0 or value >= _UNSET_FROM or value in _UNSET_16 else value


def _per_gpu(text: str | None) -> int | None:
    found = _PER_GPU.fullmatch(text) if text else None
    return int(found.group(1)) if found else None
