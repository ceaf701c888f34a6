"""What becomes of a run that has ended: was it GPU memory, and is it tried again? Pure.

Nothing here can be stretched by a user: what was tried before stands in AdminComment, which users cannot write,
and Slurm counts the restarts.
"""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass

from slurm_hooks import mig
from slurm_hooks.config import Partition, Recovery
from slurm_hooks.records import Record, Run
from slurm_hooks.shares import WHOLE_GPU, cap_of, share_of

MAX_RETRIES = 2  # once with a larger share, once with the whole GPU
MAX_RESTARTS = 10  # however the record looks: after this many restarts for any reason a job is left to its user
# Reasons that Slurm gives for a job whose script ended by itself; others (TimeLimit, Preempted) are no failure of it.
_OWN_FAILURES = re.compile(r"NonZeroExitCode|JobLaunchFailure|RaisedSignal.*")
_SIGABRT = 6  # how a C++ program dies of an exception
OOM_REQUEUED = ("oom_requeued", "oom_exclusive")
REGROWN = (*OOM_REQUEUED, "mps_suspect")  # requeued with another share
REQUEUED = (*REGROWN, "mps_victim")
MAX_VICTIMS = 3  # a job that loses its MPS server again and again is left to its user


@dataclass(frozen=True)
class Ended:
    """A run that has ended.

    Attributes:
        job: what the user calls the job: ``4711`` or ``4711_3``.
        restart: number of the run, from 0.
        exit_status, exit_signal: how the batch script ended.
        reason: Slurm's reason, such as ``NonZeroExitCode``.
        share: shares held, or None where it held none.
        cap_mib: cap in this run, or None where there was none.
        evidence: the framework's error in what the run wrote, or what rad-monitor did about a process over its
            allotment, or the empty string.
        by_monitor: whether rad-monitor did something about such a process.
        lost_mps: CUDA's error that shows that its MPS server was lost, or the empty string.
        fault: CUDA's error that shows a fatal fault which broke all processes of its MPS server, or the empty string.
        left_kernels: whether another process of the server ended as that fault came: the kernels that it left may have
            made it.
        doubt: who else wrote to a log that holds such an error, which therefore is no evidence; or the empty string.
        may_requeue: whether Slurm would requeue the job.
    """

    job: str
    restart: int
    exit_status: int
    exit_signal: int
    reason: str
    share: int | None
    cap_mib: int | None
    evidence: str
    by_monitor: bool
    lost_mps: str
    fault: str
    left_kernels: bool
    doubt: str
    may_requeue: bool


@dataclass(frozen=True)
class Verdict:
    """What to do.

    Attributes:
        outcome: for the record, see `slurm_hooks.records.Run`.
        share: shares to requeue the job with, or None to leave it.
        message: a line for the user, or the empty string.
        instance: MIG instance to requeue a job with that had another, or the empty string.
    """

    outcome: str
    share: int | None = None
    message: str = ""
    instance: str = ""


@dataclass(frozen=True)
class Site:
    """What a site has and wants.

    Attributes:
        partition: settings of the job's partition.
        usable: memory of one GPU that may be given away, in MiB; 0 where it is not known.
        settings: [recovery].
        can_retype: whether this Slurm can move the job to another device type while it is pending, and it names one.
    """

    partition: Partition
    usable: int
    settings: Recovery
    can_retype: bool


def judge(record: Record | None, ended: Ended, site: Site) -> Verdict:
    """Tell what becomes of a run."""
    if ended.exit_status == 0 and ended.exit_signal == 0:
        return Verdict("completed")
    if record is None or not record.is_rewritten:
        return Verdict("failed")
    if not died_of_memory(ended):
        if not _under_mps(ended):
            return Verdict("failed", message=_doubtful(ended))
        if ended.lost_mps or (ended.left_kernels and not _victims(record)):
            return _victim(record, ended, site)
        return _suspect(record, ended, site) if ended.fault else Verdict("failed", message=_doubtful(ended))
    if record.profile:
        return _of_instance(record, ended, site)
    share = ended.share if ended.share is not None else record.share
    held = f"{share} of {WHOLE_GPU} shares" + (f", {ended.cap_mib} MiB" if ended.cap_mib else "")
    died = f"rad: job {ended.job} ran out of GPU memory ({held})"
    if share is None or share >= WHOLE_GPU:
        return Verdict("oom_final", message=f"{died}: it had a whole GPU and is not tried again")
    memory, larger = grown(share, record, site)
    ask = f"ask for more: #RAD memory={math.ceil(memory / 1024)}G"
    if record.retries >= MAX_RETRIES or ended.restart >= MAX_RESTARTS:
        return Verdict("oom_final", message=f"{died}: it was tried {ended.restart + 1} times; {ask}")
    if not site.settings.enabled or not ended.may_requeue:
        return Verdict("oom_told", message=f"{died} and may not be requeued; {ask}")
    if record.retries > 0:
        larger = WHOLE_GPU
    outcome = "oom_exclusive" if larger >= WHOLE_GPU else "oom_requeued"
    new = "the whole GPU" if larger >= WHOLE_GPU else f"{larger} shares, {cap_of(larger, site.usable)} MiB"
    return Verdict(outcome, larger, f"{died}; requeued with {new}")


def _doubtful(ended: Ended) -> str:
    if not ended.doubt or _OWN_FAILURES.fullmatch(ended.reason) is None:
        return ""
    return (
        f"rad: job {ended.job} failed and is not tried again: {ended.doubt} wrote to its log too, so the error there "
        "may be the other's; a log of its own (--output=%j.log) tells them apart"
    )


def _of_instance(record: Record, ended: Ended, site: Site) -> Verdict:
    """A job that ran out of its MIG instance's memory: tried again with a larger one, then with the largest."""
    died = f"rad: job {ended.job} ran out of GPU memory (MIG instance {record.profile})"
    larger, had = mig.instances(record.larger), mig.instance(record.profile)
    if not larger or had is None:
        return Verdict("oom_final", message=f"{died}: there is no larger one and it is not tried again")
    memory = _more(had.memory_mib, site)
    ask = f"ask for more: #RAD memory={math.ceil(memory / 1024)}G"
    if record.retries >= MAX_RETRIES or ended.restart >= MAX_RESTARTS:
        return Verdict("oom_final", message=f"{died}: it was tried {ended.restart + 1} times; {ask}")
    if not site.settings.enabled or not ended.may_requeue or not site.can_retype:
        return Verdict("oom_told", message=f"{died} and may not be requeued; {ask}")
    fitting = mig.smallest(larger, memory) if record.retries == 0 else None
    new = fitting or larger[-1]
    outcome = "oom_exclusive" if new is larger[-1] else "oom_requeued"
    return Verdict(outcome, new.share, f"{died}; requeued with {new.type}", new.type)


def _victim(record: Record, ended: Ended, site: Site) -> Verdict:
    """A job that lost its MPS server, or that the kernels of an ended process broke: the node's or another's fault."""
    server = "lost its GPU's MPS server"
    what = server if ended.lost_mps else "was broken as another process on its GPU ended with kernels running"
    lost = f"rad: job {ended.job} {what}, through no fault of its own"
    bounded = _victims(record) < MAX_VICTIMS and ended.restart < MAX_RESTARTS
    if not bounded or not site.settings.enabled or not ended.may_requeue:
        return Verdict("mps_told", message=f"{lost}; it may not be requeued (again): submit it anew")
    return Verdict("mps_victim", ended.share, f"{lost}; requeued as it was")


def _victims(record: Record) -> int:
    return sum(run.outcome == "mps_victim" for run in record.runs)


def _suspect(record: Record, ended: Ended, site: Site) -> Verdict:
    """A job broken by a fatal fault together with others: MPS does not say whose it was.

    It gets the GPU to itself, once: there a victim runs through, and whoever made the fault makes it alone and fails.
    """
    broken = f"rad: job {ended.job} was broken together with others on its GPU by one process's fatal fault"
    before = any(run.outcome == "mps_suspect" for run in record.runs)
    if before or ended.restart >= MAX_RESTARTS or not site.settings.enabled or not ended.may_requeue:
        return Verdict("failed", message=f"{broken}; if it was not its own, submit it anew")
    return Verdict("mps_suspect", WHOLE_GPU, f"{broken}; requeued with the whole GPU")


def _under_mps(ended: Ended) -> bool:
    """Whether a run under MPS is believed to have died by itself, which its server may have caused."""
    shared = ended.share is not None and ended.share < WHOLE_GPU
    return shared and _OWN_FAILURES.fullmatch(ended.reason) is not None


def died_of_memory(ended: Ended) -> bool:
    """Whether a run is believed to have died of GPU memory: it failed by itself, and its log shows the error.

    So has one of which rad-monitor ended a process, whatever it died of then: that program may be the script itself.

    A measured peak never speaks against it: the monitor looks once a second, and what a program allocates between its
    last look and its death can be all of its cap.
    """
    by_itself = ended.by_monitor or ended.exit_status != 0 or ended.exit_signal == _SIGABRT
    return bool(ended.evidence) and by_itself and _OWN_FAILURES.fullmatch(ended.reason) is not None


def grown(share: int, record: Record, site: Site) -> tuple[int, int]:
    """Memory in MiB and shares for the next try: the configured step more than the run's share was good for."""
    larger = _more(cap_of(share, site.usable) or record.upper_mib or 0, site)
    return larger, share_of(larger, 0.0, site.usable, site.partition)


def _more(memory_mib: int, site: Site) -> int:
    return math.ceil(max(memory_mib + site.settings.step_mib, memory_mib * site.settings.factor))


def with_run(record: Record, run: Run) -> Record:
    """`record` with a run added, or put in the place of the same run told before."""
    same = (run.restart, run.start)
    runs = tuple(r for r in record.runs if (r.restart, r.start) != same)
    changes = record.user_changes
    change = f"mps:{run.share}"
    is_new = len(runs) == len(record.runs)  # a later change is not undone by telling of an earlier run again
    if is_new and _changed_by_user(record, run) and (not changes or changes[-1] != change):
        changes = (*changes, change)
    runs = tuple(sorted((*runs, run), key=lambda r: (r.restart or 0, r.start or 0)))
    return dataclasses.replace(record, runs=runs, user_changes=changes)


def _changed_by_user(record: Record, run: Run) -> bool:
    """Whether a run held other shares than decided; the record's share is that of the latest decision."""
    if run.share is None or record.share is None or not record.is_rewritten:
        return False
    later = any((r.restart or 0) >= (run.restart or 0) and r.outcome in REGROWN for r in record.runs)
    return run.share != record.share and not later


def requeued(record: Record, run: Run, share: int, site: Site, instance: str = "") -> Record:
    """The record of a job that goes into its next run with `share`, or with a MIG instance."""
    if run.outcome not in REGROWN:
        return with_run(record, run)
    first = record.first_share is None
    had = mig.instance(instance)
    return dataclasses.replace(
        with_run(record, run),
        share=share,
        cap_mib=cap_of(share, site.usable) if had is None else None,
        first_share=record.share if first else record.first_share,
        first_cap_mib=record.cap_mib if first else record.first_cap_mib,
        profile=instance,
        first_profile=record.profile if first else record.first_profile,
        larger=tuple(p.type for p in mig.instances(record.larger) if had and p.memory_mib > had.memory_mib),
        retries=record.retries + (run.outcome in OOM_REQUEUED),
    )
