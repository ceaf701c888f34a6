"""What job_submit.lua is to do about a job: from a decision to radd's answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from estimator.input_size import written
from estimator.types import Estimate, Precision
from slurm_hooks.amounts import gib
from slurm_hooks.cluster import ClusterView
from slurm_hooks.config import Partition
from slurm_hooks.decision import Decision, Job, record_of
from slurm_hooks.directives import Directives
from slurm_hooks.record_text import printable
from slurm_hooks.records import Record, merge
from slurm_hooks.request import LeftAlone, Submission, steps_ask
from slurm_hooks.shares import FULL_THREADS, WHOLE_GPU

_STEPS_ASK: Final = (
    "srun asks for the GPU again in this script, and without cli_filter.lua Slurm refuses such a step here: leave "
    "--gres, --gpus, --gpu-bind and what is per GPU out behind srun, its tasks see the job's GPU"
)


class Answer(NamedTuple):
    """What job_submit.lua is to do.

    Attributes:
        reject: whether the job is refused; `message` then says why.
        message: lines for the user, without prefix; empty for none.
        fields: new values of the job descriptor's fields.
        environment: variables that the job gains.
        record: what is stored with the job, or None for nothing.
    """

    reject: bool = False
    message: str = ""
    fields: Mapping[str, str] | None = None
    environment: Mapping[str, str] | None = None
    record: Record | None = None

    def to_fields(self) -> dict[str, str]:
        """The answer as the fields of a message; no user's text in it moves a terminal."""
        fields = {"status": "reject" if self.reject else "pass", "message": printable(self.message, keep="\n")}
        fields.update({f"set.{name}": value for name, value in (self.fields or {}).items()})
        fields.update({f"env.{name}": value for name, value in (self.environment or {}).items()})
        return fields


def answer_to(job: Job, decision: Decision, partition: Partition, view: ClusterView) -> Answer:
    """The answer to a submission that was decided on."""
    record = record_of(job, decision, partition)
    message = _message(job.directives, job.demand.estimate, decision)
    kept = _record_field(job.submission, record)
    if partition.mode != "enforce":
        return Answer(message=f"advice: {message}", fields=kept, record=record)
    if decision.instance:
        return Answer(message=message, fields={**_instance_fields(job, decision), **kept}, record=record)
    if not view.filters_steps and steps_ask(job.submission.script):
        message += f"\n{_STEPS_ASK}"
    return Answer(
        message=message,
        fields={**_request_fields(job, decision, view), **kept},
        environment={"RAD_SHARE": str(decision.share), "RAD_THREAD_PERCENTAGE": _threads(decision)},
        record=record,
    )


def left_as_written(submission: Submission, directives: Directives, partition: Partition, left: LeftAlone) -> Answer:
    """The answer to a submission that is left alone."""
    record = Record(
        action="left_alone",
        asked=left.asked,
        mode=partition.mode,
        job_policy=directives.policy or partition.policy,
        model=(directives.model or "")[:200],
        reasons=(left.reason[:500],),
    )
    return Answer(message=f"left as written: {left.reason}", fields=_record_field(submission, record), record=record)


def _threads(decision: Decision) -> str:
    """The thread percentage as TaskProlog reads it: a limit holds for the GPU that it was chosen for."""
    if decision.pin is None or decision.thread_percentage == FULL_THREADS:
        return str(FULL_THREADS)
    return f"{decision.thread_percentage}@{decision.pin.node}:{decision.pin.type}"


def _record_field(submission: Submission, record: Record) -> dict[str, str]:
    return {"admin_comment": merge(submission.admin_comment, record)}


def _instance_fields(job: Job, decision: Decision) -> dict[str, str]:
    """The descriptor's fields that turn a GPU into a MIG instance; to Slurm it is a GPU like any other."""
    request = job.request
    item = f"gres{request.separator}gpu:{decision.instance}:1"
    return {request.field: ",".join((*request.others, item)), **_feature_field(job.submission, decision)}


def _request_fields(job: Job, decision: Decision, view: ClusterView) -> dict[str, str]:
    """The descriptor's fields that turn a GPU into shares of one."""
    submission, request = job.submission, job.request
    fields = {request.field: ",".join(request.others)}
    rest = request.others
    if request.field != "tres_per_node":
        rest = tuple(filter(None, [(submission.tres or {}).get("tres_per_node", "")]))
    device = decision.pin.type if decision.pin else "" if decision.feature else request.type
    shares = ":".join(filter(None, (f"gres{request.separator}mps", device, str(decision.share))))
    fields["tres_per_node"] = ",".join((*rest, shares))
    # With the GPU go what was asked for each of it.
    if submission.cpus_per_gpu is not None:
        fields["cpus_per_tres"] = ""
        tasks = submission.num_tasks or 1
        fields["cpus_per_task"] = str(submission.cpus_per_gpu // tasks)
        if tasks > 1:  # sbatch has counted one for each
            fields["min_cpus"] = str(submission.cpus_per_gpu)
    if submission.memory_per_gpu_mib is not None:
        fields["mem_per_tres"] = ""
        fields["min_mem_per_node"] = str(submission.memory_per_gpu_mib)
    if submission.implied_binding:
        fields["tres_bind"] = ""
    fields.update(_feature_field(submission, decision))
    if decision.pin and _several(view, submission.partition):
        fields["req_nodes"] = decision.pin.node
    return fields


def _several(view: ClusterView, partition: str) -> bool:
    """Whether a partition has more than one node."""
    here = (node for node in view.nodes if partition in node.partitions)
    return next(here, None) is not None and next(here, None) is not None


def _feature_field(submission: Submission, decision: Decision) -> dict[str, str]:
    if not decision.feature:
        return {}
    fields = {"features": _both(submission.features, decision.feature)}
    if submission.prefer:
        fields["prefer"] = _both(submission.prefer, decision.feature)
    return fields


def _both(old: str, feature: str) -> str:
    """A constraint on features, and one more feature."""
    # Slurm takes no counts in parentheses, and none in others; without them it reads from left to right.
    if any(c in old for c in "|[") and not any(c in old for c in "*("):
        old = f"({old})"
    return f"{old}&{feature}" if old else feature


# Who trains with Trainer's bf16=True may well say bf16: that is autocast, and takes more.
_PRECISION_SAID: Final[Mapping[Precision, str]] = {
    "bf16": "weights in bf16 (for autocast say precision=amp)",
    "fp16": "weights in fp16 (for autocast say precision=amp)",
}


def _message(directives: Directives, estimate: Estimate | None, decision: Decision) -> str:
    share = f"{decision.share} of 100 shares of one GPU"
    if decision.instance:
        share = f"MIG instance {decision.instance}"
    elif decision.share == WHOLE_GPU:
        share = f"the whole GPU ({decision.reasons[0]})"
    if estimate is None:
        return share
    if estimate.method == "claim":
        return f"{gib(estimate.upper_mib)} GiB claimed: {share}"
    facts = [directives.model or "summary in the script"]
    if directives.batch_size:
        facts.append(f"batch {directives.batch_size}")
    if directives.input_size:
        facts.append(f"input {written(directives.input_size)}")
    if directives.seq_len:
        facts.append(f"length {directives.seq_len}")
    precision = directives.precision or "fp32"
    facts += [directives.optimizer or "adam", _PRECISION_SAID.get(precision, precision)]
    if directives.kind == "infer":
        facts.append("inference")
    note = f"; {estimate.note}" if estimate.note else ""
    return (
        f"{gib(estimate.expected_mib)} GiB expected, {gib(estimate.upper_mib)} GiB reserved "
        f"({', '.join(facts)}{note}): {share}"
    )
