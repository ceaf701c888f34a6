"""One job's story in plain words, as `radctl explain` prints it. Pure: runs and records in, text out."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_hooks.amounts import duration, gib
from slurm_hooks.experience import learn
from slurm_hooks.record_text import printable
from slurm_hooks.records import NO_JOB, Record, Run, strip
from slurm_hooks.report import JOULES_PER_KWH, Job
from slurm_hooks.shares import FULL_THREADS, SHARES_PER_GPU
from slurm_hooks.slurm.accounting import JobRun
from slurm_hooks.slurm.squeue import LIVE

_LABEL_WIDTH = 9
_LEAST_KWH = 0.01  # of less, a short run's energy, two digits say nothing
_NOT_SEEN = (
    "RAD did nothing with this job: its script has no #RAD line, RAD does not serve its partition, or radd did not "
    "answer when it was submitted"
)
_HETEROGENEOUS = "RAD leaves heterogeneous jobs as written"  # Slurm shows the script with the first part alone
_UNREADABLE = "RAD's record of this job is damaged: what was decided is not known"
_OUTCOMES = {
    "completed": "completed",
    "failed": "failed",
    "oom_requeued": "ran out of GPU memory and was queued again with {share}",
    "oom_exclusive": "ran out of GPU memory and was queued again with {share}",
    "oom_final": "ran out of GPU memory and was not tried again",
    "mps_victim": "lost what it had on its GPU through no fault of its own and was queued again as it was",
    "mps_told": "lost what it had on its GPU through no fault of its own and was not queued again",
    "mps_suspect": "was broken together with others by one process's fault and was queued again with {share}",
    "oom_told": "ran out of GPU memory and may not be queued again: ask for more with #RAD memory=",
}


def explain(job: Job, neighbours: Mapping[int, Job], now: int) -> str:
    """The story of a job.

    Args:
        job: the job, with all its runs.
        neighbours: jobs that the record names as residents, where they could be found.
        now: Unix time in seconds, for a job that still runs.
    """
    run, record = job.last, job.record
    lines = [printable(f"job {run.shown_id} {run.name}, {run.user}, partition {run.partition}")]
    if record is None:
        lines.append(_line("record", _nothing_known(job)))
    else:
        lines += _decided(record, neighbours)
    lines += _happened(job, now)
    lines += _next(job)
    return "\n".join(lines)


def _nothing_known(job: Job) -> str:
    """Why nothing is told of a job's decision."""
    if any(strip(run.admin_comment) != run.admin_comment for run in job.runs):
        return _UNREADABLE
    return _HETEROGENEOUS if "+" in job.last.shown_id else _NOT_SEEN


def _decided(record: Record, neighbours: Mapping[int, Job]) -> list[str]:
    asked = f"{record.asked} on {record.asked_nodes}" if record.asked_nodes else record.asked
    lines = [_line("asked", ", ".join(filter(None, (asked, f"policy {record.job_policy}", _workload(record)))))]
    if record.action == "left_alone":
        return [*lines, _line("decision", f"left as written: {'; '.join(record.reasons)}")]
    if record.expected_mib is not None:
        upper = f", {gib(record.upper_mib)} GiB upper" if record.upper_mib is not None else ""
        note = f"; {record.note}" if record.note else ""
        lines.append(_line("estimate", f"{gib(record.expected_mib)} GiB expected{upper}{_origin(record)}{note}"))
    lines.append(_line("decision", _decision(record, neighbours)))
    if record.reasons:
        lines.append(_line("why", "; ".join(record.reasons)))
    lines += [_line("changed", f"after that: {change}") for change in record.user_changes]
    return lines


def _origin(record: Record) -> str:
    known = {"": "", "history": " (measured in earlier runs of this model)", "claim": " (as the script claims)"}
    return known.get(record.method, f" ({record.method}; no earlier run of this model)")


def _next(job: Job) -> list[str]:
    """What the next run of the same model will be estimated from, if this job was measured."""
    peaks = [max(run.peak_mib for run in runs) for runs in learn({}, job.runs).values()]
    return [
        _line("next", f"this model's next run is estimated from what this job used: {gib(round(p))} GiB") for p in peaks
    ]


def _workload(record: Record) -> str:
    parts = [
        record.model,
        f"batch {record.batch_size}" if record.batch_size else "",
        f"input {record.input_size}" if record.input_size else "",
        f"length {record.seq_len}" if record.seq_len else "",
        record.optimizer,
        record.precision,
        "inference" if record.kind == "infer" else "",
    ]
    return ", ".join(filter(None, parts))


def _decision(record: Record, neighbours: Mapping[int, Job]) -> str:
    share, cap_mib = record.share, record.cap_mib
    if record.first_share is not None:
        share, cap_mib = record.first_share, record.first_cap_mib
    share = share if share is not None else SHARES_PER_GPU
    where = f"mps:{record.pin}:{share}" if record.pin else f"mps:{share}"
    text = f"the whole GPU ({where})" if share >= SHARES_PER_GPU else where
    if record.profile:
        text = f"MIG instance {record.first_profile or record.profile}"
    text += f" on {record.node}" if record.node else ""
    if record.residents:
        known = [_neighbour(number, neighbours.get(number)) for number in record.residents if number]
        text += ", beside " + ", ".join([*known, *_unseen(record.residents.count(0))])
    elif record.pin:
        text += ", alone there when it was placed"
    if record.progress is not None:
        shown = " / ".join(f"{value:.2f}" for value in (record.progress, *record.residents_progress))
        text += f"; predicted progress {shown} of running alone"
    if cap_mib is not None:
        text += f"; capped at {gib(cap_mib)} GiB"
    if record.thread_percentage is not None and record.thread_percentage < FULL_THREADS:
        text += f"; {record.thread_percentage} % of the GPU's threads"
    if record.action == "advised":
        return f"advice only, the request stayed as written: {text}"
    if record.action == "shadowed":
        return f"recorded only, the request stayed as written: {text}"
    return text


def _unseen(count: int) -> list[str]:
    """Jobs whose ids were not known yet when the decision was made."""
    if not count:
        return []
    return ["a job submitted just before" if count == 1 else f"{count} jobs submitted just before"]


def _neighbour(number: int, job: Job | None) -> str:
    if job is None or job.record is None:
        return str(number)
    what = [job.record.model or job.last.name]
    if job.record.share is not None:
        what.append(f"{job.record.share} shares")
    return f"{job.last.shown_id} ({', '.join(what)})"


def _happened(job: Job, now: int) -> list[str]:
    lines = []
    ended = [run for run in job.runs if run.state not in LIVE or run.end is not None]
    for number, run in enumerate(ended, start=1):
        label = "ran" if len(job.runs) == 1 else f"run {number}"
        lines.append(_line(label, _ended(job, run)))
    if job.last not in ended:
        lines.append(_line("now", _live(job.last, now)))
        lines += _pinned(job.last, job.record)
    return lines


def _pinned(run: JobRun, record: Record | None) -> list[str]:
    """What a job may wait for that it need not: the GPU that RAD chose when there was room on it."""
    held_up = run.start is None and run.reason.startswith(
        ("Resources", "Priority", "ReqNodeNotAvail", "Nodes required")
    )
    if record is None or not held_up or f"gres/mps:{record.pin}" not in run.requested:
        return []
    if record.pin in record.asked.split(":"):
        return []
    return [
        _line(
            "pinned",
            f"it waits for a GPU {record.pin}, chosen at submit; Slurm before 23.11 cannot take that back: where other "
            "GPUs are free, cancel it and submit it anew",
        )
    ]


def _ended(job: Job, run: JobRun) -> str:
    if not run.nodes:
        return f"never: {run.state.lower()}"
    kept = job.kept(run)
    lasted = run.elapsed_s
    if run.start is None and kept is not None and kept.start is not None and kept.end is not None:  # slurmdbd lost it
        lasted = kept.end - kept.start
    facts = [f"{duration(lasted)} on {run.nodes}{_held(run)}"]
    facts += _measured(kept) if kept is not None else []
    if kept is not None and kept.outcome in _OUTCOMES:
        status = _status(run) if kept.outcome == "failed" else ""
        facts.append(_OUTCOMES[kept.outcome].format(share=_next_share(job, kept)) + status)
        if kept.evidence:
            facts.append(f"its log says: {kept.evidence}")
    else:
        facts.append(run.state.lower().replace("_", " ") + _status(run))
    return "; ".join(facts)


def _status(run: JobRun) -> str:
    if run.signal:
        return f", signal {run.signal}"
    return f", exit status {run.exit_code}" if run.exit_code else ""


def _next_share(job: Job, kept: Run) -> str:
    """What recovery queued a job again with after one of its runs."""
    if job.record is not None and job.record.profile:
        return "a larger MIG instance"
    runs = job.record.runs if job.record is not None else ()
    later = [run.share for run in runs[runs.index(kept) + 1 :] if run.share is not None]
    share = later[0] if later else job.record.share if job.record is not None else None
    if share is None:
        return "a larger share"
    return "the whole GPU" if share >= SHARES_PER_GPU else f"{share} shares"


def _measured(kept: Run) -> list[str]:
    cap = f" of a cap of {gib(kept.cap_mib)} GiB" if kept.cap_mib is not None else ""
    facts = [f"peak {gib(kept.peak_mib)} GiB{cap}"] if kept.peak_mib is not None else []
    if kept.smact_mean is not None:
        facts.append(f"SMACT {kept.smact_mean:.0%}")
    if kept.energy_j is not None:
        facts.append(_energy(kept.energy_j))
    if kept.neighbours:
        known = (str(number) if number != NO_JOB else "processes of no job" for number in kept.neighbours)
        facts.append(f"beside {', '.join(known)}")
    return [", ".join(facts)] if facts else []


def _energy(joules: float) -> str:
    kwh = joules / JOULES_PER_KWH
    return f"{kwh:.2f} kWh" if kwh >= _LEAST_KWH else f"{joules / 1000:.1f} kJ"


def _live(run: JobRun, now: int) -> str:
    if run.start is None:
        return f"waits{f' ({run.reason})' if run.reason else ''}{_since(run.submit, now)}"
    return f"{run.state.lower()} on {run.nodes}{_held(run)}{_since(run.start, now)}"


def _held(run: JobRun) -> str:
    """What Slurm gave, for example `` with mps:g2:38``; the untyped sum is left out where types tell more."""
    given = [
        (kind, device, count)
        for name, count in sorted(run.allocated.items())
        for kind, _, device in [name.removeprefix("gres/").partition(":")]
        if kind in ("gpu", "mps")
    ]
    typed = [item for item in given if item[1]] or given
    names = [":".join(filter(None, (kind, device, str(count)))) for kind, device, count in typed]
    return f" with {', '.join(names)}" if names else ""


def _since(start: int | None, now: int) -> str:
    return "" if start is None else f", for {duration(max(0, now - start))}"


def _line(label: str, text: str) -> str:
    return f"  {label:<{_LABEL_WIDTH}}{printable(text)}"
