"""The decision: from request, directives, estimate and view to a share, a pin and reasons. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from estimator.input_size import written
from estimator.types import Estimate
from predictor.types import Prediction, Profile
from slurm_hooks import mig
from slurm_hooks.amounts import gib
from slurm_hooks.cluster import ClusterView, Gpu, partition_of
from slurm_hooks.config import Mps, Partition
from slurm_hooks.directives import Directives
from slurm_hooks.gpus import types_of
from slurm_hooks.interference import Interference, typical
from slurm_hooks.memory import memory_of
from slurm_hooks.placement import Need, candidates, choose
from slurm_hooks.reach import instances_for, limit_s, need_of, reachable
from slurm_hooks.records import Record
from slurm_hooks.request import GpuRequest, LeftAlone, Submission
from slurm_hooks.shares import FULL_THREADS, WHOLE_GPU, cap_of, share_of
from slurm_hooks.starts import why_not_at_once

_SHARED: Final = Mps(users="multi")
_NOBODY: Final = "?"  # no user: stands for one whose name is not known


class Demand(NamedTuple):
    """What is known of a job's needs.

    Attributes:
        estimate: memory of the job, or None for a job that wants the whole GPU.
        smact: compute demand as measured in earlier runs, 0 to 1, or None for the partition's default.
        profile: exclusive profile, measured or estimated, or None.
        activity: the profile's numbers as `interference.pack` makes them, for the record; empty where there is none.
    """

    estimate: Estimate | None
    smact: float | None = None
    profile: Profile | None = None
    activity: tuple[float, ...] = ()


class Job(NamedTuple):
    """What is decided on: a job's fields, the GPU that it asks for, what its `#RAD` lines say, what is known of it."""

    submission: Submission
    request: GpuRequest
    directives: Directives
    demand: Demand


class Situation(NamedTuple):
    """What a decision rests on beside the job and its partition.

    Attributes:
        view: the cluster, with the decisions that Slurm does not show yet.
        now: clock reading in seconds, of the same clock as `view.taken`.
        stale_s: a view older than this pins nothing.
        interference: predictor, or None where none is installed.
        last: node and type of the GPU that round robin chose last.
        mps: whether users have MPS servers of their own or share one, and what follows where they would meet.
    """

    view: ClusterView
    now: float
    stale_s: float
    interference: Interference | None = None
    last: tuple[str, str] | None = None
    mps: Mps = _SHARED


class Decision(NamedTuple):
    """What becomes of a request.

    Attributes:
        share: shares of one GPU; 100 for the whole of it. Of a MIG instance: its part of the GPU.
        pin: the GPU that was chosen, or None where Slurm is to choose.
        feature: node feature that the request gains, or the empty string.
        cap_mib: memory cap in MiB, or None for no cap.
        thread_percentage: MPS thread percentage.
        smact: compute demand that was reckoned with, 0 to 1.
        prediction: progress beside the residents of the pinned GPU, or None where nothing was predicted.
        reasons: sentences for the record.
        instance: the MIG instance that it gets, as Slurm's device type, or the empty string.
        larger: those that recovery may take, in their order.
    """

    share: int
    pin: Gpu | None
    feature: str
    cap_mib: int | None
    thread_percentage: int
    smact: float
    prediction: Prediction | None
    reasons: tuple[str, ...]
    instance: str = ""
    larger: tuple[str, ...] = ()


def decide(job: Job, partition: Partition, situation: Situation) -> Decision:
    """Share, pin and cap of a job in a partition of these settings."""
    submission, request, directives, demand = job
    view, now, stale_s, interference, last, mps = situation
    smact = _smact(demand, partition)
    share, why = _share(directives, demand.estimate, smact, partition)
    reasons = [why]
    gpu_type, feature = types_of(request, partition, view)
    if feature:
        reasons.append(f"GPU type {request.type} became the node feature {feature}")
    apart = mps.users == "single" and partition.method == "mps"
    need = need_of(submission, share, partition, gpu_type, feature, (submission.user or _NOBODY) if apart else "")
    by_user = submission.by_user or partition_of(view, submission.partition).by_user
    need = need._replace(until=now + limit_s(submission, view), owner=submission.user, by_user=by_user)
    why_unpinned = why_not_at_once(submission, view, age_s=now - view.taken, stale_s=stale_s, now=now)
    if why_unpinned:
        place = _Place(None, None, f"not pinned: {why_unpinned}")
    elif partition.placement == "kace" and interference is not None and share != WHOLE_GPU:
        place = _by_outlook(view, need, demand, interference)
    else:
        place = _by_policy(view, need, "exclusive" if share == WHOLE_GPU else partition.placement, last)
        place = _with_outlook(place, demand, interference, partition)
    if place.alone:
        share = WHOLE_GPU
        reasons.insert(0, place.reason)
        place = _by_policy(view, need._replace(share=share), "exclusive", last)
    if place.gpu is None and need.user and share != WHOLE_GPU and mps.meet == "wait":
        share = WHOLE_GPU
        reasons.insert(0, "it waits for a whole GPU, as it could not be kept apart from other users' jobs otherwise")
    reasons.append(place.reason)
    threads, place = _limited(place, demand, interference, partition)
    if threads != FULL_THREADS:
        reasons.append(f"{threads} % of the threads: {place.reason}")
    cap_mib = cap_of(share, memory_of(partition))
    return Decision(share, place.gpu, feature, cap_mib, threads, smact, place.prediction, tuple(reasons))


def decide_instance(job: Job, partition: Partition, view: ClusterView) -> Decision | LeftAlone:
    """The MIG instance of a job: the smallest profile that holds its memory, and its compute where that was measured.

    Slurm chooses among the instances of a profile; what shares a GPU is kept apart by the GPU itself, so nothing is
    pinned, capped or predicted.
    """
    submission, request, directives, demand = job
    if mig.instance(request.type):
        return LeftAlone(request.text, "the request names a MIG profile")
    feature = types_of(request, partition, view)[1]
    found = mig.instances(instances_for(submission, feature, view))
    if not found:
        return LeftAlone(request.text, "no node with MIG instances is known where the job may run")
    largest, estimate, fitting = found[-1], demand.estimate, None
    if _is_exclusive(directives, partition):
        reason = "policy exclusive: the largest MIG profile"
    elif estimate is None:
        reason = "nothing is known of the job's memory: the largest MIG profile"
    else:
        fitting = mig.smallest(found, estimate.upper_mib, min(1.0, (demand.smact or 0.0) / partition.smact_cap))
        needs = f"{estimate.upper_mib} MiB"
        if demand.smact is not None:
            needs += f" and a measured SMACT of {demand.smact:.2f}"
        if fitting is None:
            reason = f"no MIG profile is known to hold {needs}: the largest"
        else:
            reason = f"{fitting.type} with {fitting.memory_mib} MiB is the smallest MIG profile for {needs}"
    chosen = fitting or largest
    larger = tuple(p.type for p in found if p.memory_mib > chosen.memory_mib)
    reasons = (reason, *([f"GPU type {request.type} became the node feature {feature}"] if feature else []))
    smact = _smact(demand, partition)
    return Decision(
        chosen.share, None, feature, None, FULL_THREADS, smact, None, reasons, instance=chosen.type, larger=larger
    )


def _smact(demand: Demand, partition: Partition) -> float:
    return partition.default_smact if demand.smact is None else demand.smact


def _is_exclusive(directives: Directives, partition: Partition) -> bool:
    return (directives.policy or partition.policy) == "exclusive" or partition.placement == "exclusive"


class _Place(NamedTuple):
    """A GPU, what is predicted there, and why; `alone` where no colocation is worth it."""

    gpu: Gpu | None
    prediction: Prediction | None
    reason: str
    alone: bool = False


def _by_policy(view: ClusterView, need: Need, policy: str, last: tuple[str, str] | None) -> _Place:
    gpu = choose(view, need, policy, last)
    if gpu is not None:
        return _Place(gpu, None, f"{policy} chose {gpu.type} of {gpu.node}")
    return _Place(None, None, f"not pinned: {_why_none(view, need, policy, last)}")


def _why_none(view: ClusterView, need: Need, policy: str, last: tuple[str, str] | None) -> str:
    """Why `choose` finds no GPU."""
    here = (node for node in view.nodes if need.partition in node.partitions and node.shares and node.gpus)
    first = next(here, None)
    if first is None:
        return f"no GPU of partition {need.partition} has a Type and shares of its own"
    if need.user and choose(view, need._replace(user=""), policy, last) is not None:
        return "no GPU without other users' jobs has room now"
    untold = next(
        (n.name for n in view.nodes if n.opaque and n.shares and n.gpus and need.partition in n.partitions), ""
    )
    if untold:
        why = "AccountingStorageTRES lacks their Types, or radd may not see jobs"
        return f"which GPUs of {untold} are free is not told: {why}"
    return "no GPU has room now"


def _with_outlook(place: _Place, demand: Demand, interference: Interference | None, partition: Partition) -> _Place:
    """`place` with what is predicted there, for the record."""
    if interference is None or place.gpu is None or not place.gpu.residents:
        return place
    job = _profile(demand, partition.default_smact)
    return place._replace(prediction=interference.beside(job, place.gpu, partition.default_smact))


def _profile(demand: Demand, default_smact: float) -> Profile:
    return demand.profile or typical(default_smact if demand.smact is None else demand.smact)


def _limited(
    place: _Place, demand: Demand, interference: Interference | None, partition: Partition
) -> tuple[int, _Place]:
    """The thread percentage of a job at `place`, and the place with what is predicted then, and why."""
    goal, before = partition.threads, place.prediction
    if goal == "all" or partition.method != "mps" or interference is None or place.gpu is None or before is None:
        return FULL_THREADS, place
    job = _profile(demand, partition.default_smact)
    threads, said = interference.limit(job, place.gpu, partition.default_smact, before, goal)
    worst = [f"{min(one.candidate, one.worst_resident):.2f}" for one in (said, before)]
    total = [f"{one.throughput_sum:.2f}" for one in (said, before)]
    why = f"predicted progress of the slowest {worst[0]} instead of {worst[1]}, sum {total[0]} instead of {total[1]}"
    return threads, place._replace(prediction=said, reason=why)


def _by_outlook(view: ClusterView, need: Need, demand: Demand, interference: Interference) -> _Place:
    """The colocation with the highest predicted throughput sum, if one is worth it."""
    shared = [gpu for gpu in candidates(view, need) if gpu.used_shares]
    best = interference.best(_profile(demand, need.smact_default), shared, need.smact_default)
    if best is None:
        return _by_policy(view, need, "magm", None)
    said = best.prediction
    if not best.worth_it:
        why = f"the best colocation is predicted to give {said.throughput_sum:.2f} with progress "
        return _Place(None, None, why + f"{min(said.candidate, said.worst_resident):.2f} of the slowest", alone=True)
    reason = f"kace chose {best.gpu.type} of {best.gpu.node}: predicted throughput sum {said.throughput_sum:.2f}"
    return _Place(best.gpu, said, reason)


def _share(directives: Directives, estimate: Estimate | None, smact: float, partition: Partition) -> tuple[int, str]:
    """Shares of a job, and why so many."""
    if _is_exclusive(directives, partition):
        return WHOLE_GPU, "policy exclusive"
    if estimate is None:
        return WHOLE_GPU, "nothing is known of the job's memory"
    usable = memory_of(partition)
    share = share_of(estimate.upper_mib, smact, usable, partition)
    return share, _share_reason(share, estimate, smact, usable, partition)


def _share_reason(share: int, estimate: Estimate, smact: float, usable: int, partition: Partition) -> str:
    if usable <= 0:
        return "neither gpu_memory_mib nor a known gpu_model is configured"
    if estimate.upper_mib >= usable:
        return f"{gib(estimate.upper_mib)} GiB are needed, {gib(usable)} GiB can be given away"
    if share == WHOLE_GPU:
        return f"more than {partition.share_limit} shares"
    by_memory = estimate.upper_mib / usable >= smact / partition.smact_cap
    ground = f"{estimate.upper_mib} of {usable} MiB" if by_memory else f"SMACT {smact:.2f} of {partition.smact_cap:.2f}"
    return f"{share} shares for {ground}"


def no_shares(submission: Submission, request: GpuRequest, partition: Partition, situation: Situation) -> str:
    """Why Slurm would refuse the request, or hold the job, if it asked for shares; the empty string if it would not.

    Slurm 22.05 knows no shares of a node that runs jobs from slurmctld's start until that node has registered. Slurm
    21.08 does neither: slurmctld ends over the request.
    """
    view = situation.view
    if not view.counts_shares:
        return "slurmctld is older than 22.05, and would crash over shares of a GPU"
    since = submission.slurmctld_since
    just = since is not None and view.taken < since and abs(situation.now - since) < situation.stale_s
    if just and not view.keeps_shares:
        return "slurmctld has just started: what shares its nodes have is not known yet"
    reserved = view.without_shares.intersection(submission.reservation.split(","))
    if reserved:
        return f"no job for shares starts in reservation {min(reserved)}, as it holds GPUs themselves"
    names = frozenset(submission.partition.split(","))
    if not names & view.lacking:
        return ""
    feature = types_of(request, partition, view)[1]
    here = [
        node
        for node in view.nodes
        if node.has_gpus and names & node.partitions and (not feature or feature in node.features)
    ]
    may_go = reachable(submission, here)
    if may_go is None:
        lacks = not all(node.shares for node in here)
    else:
        lacks = bool(may_go) and not any(node.shares for node in may_go)
    return "no node where the job may run has shares of its GPUs (gres/mps) now" if lacks else ""


def record_of(job: Job, decision: Decision, partition: Partition) -> Record:
    """The record of a decision."""
    submission, request, directives, demand = job
    estimate, pin, said = demand.estimate, decision.pin, decision.prediction
    action = {"enforce": "share", "advise": "advised", "shadow": "shadowed"}[partition.mode]
    if action == "share" and decision.share == WHOLE_GPU:
        action = "exclusive"
    return Record(
        action=action,  # type: ignore[arg-type]
        asked=request.text,
        asked_nodes=submission.req_nodes,
        mode=partition.mode,
        job_policy=directives.policy or partition.policy,
        policy=partition.placement,
        model=(directives.model or "")[:200],
        batch_size=directives.batch_size,
        input_size=written(directives.input_size or ()),
        seq_len=directives.seq_len,
        optimizer=directives.optimizer or "",
        precision=directives.precision or "",
        kind=directives.kind or "",
        expected_mib=estimate.expected_mib if estimate else None,
        upper_mib=estimate.upper_mib if estimate else None,
        method=estimate.method if estimate else "",
        family=estimate.family if estimate else "",
        fingerprint=estimate.fingerprint if estimate else "",
        note=estimate.note if estimate else "",
        gpu=partition.gpu_model,
        smact=decision.smact,
        share=decision.share,
        pin=pin.type if pin else "",
        node=pin.node if pin else "",
        cap_mib=decision.cap_mib,
        profile=decision.instance,
        larger=decision.larger,
        thread_percentage=decision.thread_percentage,
        residents=tuple(r.job_id for r in pin.residents) if pin else (),
        activity=demand.activity,
        progress=round(said.candidate, 3) if said else None,
        residents_progress=tuple(round(value, 3) for value in said.residents) if said else (),
        reasons=decision.reasons,
    )
