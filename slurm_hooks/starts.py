"""Whether a job may start as soon as there is room: if not, a pin could hold it back. Pure."""

from __future__ import annotations

from slurm_hooks.cluster import ClusterView, partition_of
from slurm_hooks.columns import columns_in
from slurm_hooks.request import Submission, generic_resources


def why_not_at_once(submission: Submission, view: ClusterView, *, age_s: float, stale_s: float, now: float) -> str:
    """Why the job may not start at once, so that a pin could hold it back; the empty string if it may.

    Nor may a pin name a node on which the job cannot run at all: Slurm refuses such a job.
    """
    if abs(age_s) > stale_s:  # the clock may have been set back
        return "the view of the cluster is stale"
    return _of_job(submission, now) or _of_nodes(submission) or _of_partition(submission, view)


def waits_for_itself(submission: Submission, now: float) -> bool:
    """Whether a job cannot start now however much is free."""
    later = submission.begin_time is not None and submission.begin_time > now
    return submission.held or bool(submission.dependency) or later


def _of_job(submission: Submission, now: float) -> str:
    """What a job may wait for however much is free, or the empty string."""
    if "," in submission.partition:
        return "the job names several partitions"
    if submission.array:
        return "the tasks of an array go where there is room"
    if waits_for_itself(submission, now):
        return "the job is held, waits for others, or is to begin later"
    if submission.reservation:
        return "the job uses a reservation"
    return "the job needs licenses" if submission.licenses else ""


def _of_nodes(submission: Submission) -> str:
    """What a job asks of its node of which the view says nothing, or the empty string."""
    if any(c in submission.req_nodes or c in submission.exc_nodes for c in "[,"):
        return "the job names several nodes"
    if submission.features:
        return "the job names node features"
    if submission.node_options:
        return f"which nodes will do for {', '.join(submission.node_options)} is not known"
    if len(generic_resources(submission)) > 1:
        return "which nodes have the other generic resources that the job asks for is not known"
    return ""


def _of_partition(submission: Submission, view: ClusterView) -> str:
    """What a job may wait for in its partition, or the empty string."""
    slurm = partition_of(view, submission.partition)
    if not slurm.up:
        return "the partition is not up"
    if slurm.limits_nodes:
        return "how much of a node its partition's jobs may still take is not known"
    if submission.time_limit_min is not None and submission.time_limit_min * 60.0 > slurm.longest_s:
        return "the job may run for longer than the partition lets it"
    if submission.user in view.at_limit:
        return "a job of the user waits for a limit of association or QOS"
    if view.enforces_limits and not view.can_retype and submission.user in columns_in(view).users:
        return "the user's jobs hold GPUs already, and one more may have to wait for a limit of association or QOS"
    return who_waits(submission.partition, view)


def who_waits(partition: str, view: ClusterView) -> str:
    """Which jobs, waiting, Slurm would start before one more of a partition, or the empty string."""
    waiting = view.waiting.get(partition, 0)
    if waiting == 1:
        return "a job of the partition waits already"
    if waiting:
        return f"{waiting} jobs of the partition wait already"
    slurm = partition_of(view, partition)
    keep = (name for name in slurm.beside if name in view.waiting and partition_of(view, name).tier >= slurm.tier)
    name = min(keep, default="")
    return f"jobs of partition {name}, which has nodes of this one, wait already" if name else ""
