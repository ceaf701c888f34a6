"""What came of placements: predicted progress beside what jobs then did. Pure: runs and records in, numbers out.

Slurm knows how long a job ran, not how much it did: progress is measured only where the same work ran alone too.
The same work is the same user's, with the same name, model and settings, on the same GPU model. A run that completed
and was alone in `alone_s` seconds, and took `together_s` beside the neighbours that were predicted and `apart_s`
without any, made progress (alone_s - apart_s) / together_s beside them. What cannot be known so is counted, with why.

The monitor's counters are no second measure of progress: where drivers do not tell processes apart, the jobs of a GPU
get equal parts of its activity. They do tell whether the predictor was given the right activity of a job alone.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from slurm_hooks.records import Record
from slurm_hooks.report import ENDED_WELL, Job, table
from slurm_hooks.slurm.accounting import JobRun

MIN_RUN_S = 60  # Slurm counts whole seconds
BINS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9)
_ALONE = 0.05  # part of a run alone that neighbours may be there
_TOGETHER = 0.5  # part of a run that the predicted neighbours must be there
_OTHERS = 0.1  # part of a run that others may be there
_ALIKE = 1.2  # longest over shortest run alone
_NOISE = 1.1  # progress over this is no noise

NOT_ENDED = "has not completed"
ELSEWHERE = "ran elsewhere than placed"
SHORT = "ran too short"
SUSPENDED = "was suspended"
UNKNOWN_NEIGHBOUR = "a neighbour had no number yet, or Slurm does not show it"
OTHERS = "had other neighbours than predicted"
NO_WORK = "names no model: nothing tells what the same work is"
NEVER_ALONE = "the same work never ran alone"
UNSTEADY = "the same work took different times alone"
NOT_THE_SAME = "was faster than alone: not the same work"


@dataclass(frozen=True)
class Side:
    """One job of a colocation, the newcomer or a resident.

    Attributes:
        job: its id.
        neighbours: ids of the jobs that it was predicted beside.
        placement: what put the newcomer there.
        predicted: progress relative to running alone, 0 to 1.
        measured: what it made, at most 1, or None.
        why: why it could not be measured, or the empty string.
    """

    job: int
    neighbours: tuple[int, ...]
    placement: str
    predicted: float
    measured: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Row:
    """One placement's numbers.

    Attributes:
        placement: its name.
        placed: jobs placed beside others with a prediction.
        sides: jobs predicted for, newcomers and residents.
        under: sides predicted under the least progress that the site wants.
        compared: sides of which progress was measured.
        predicted, measured: means over these, or None if there are none.
        error: mean absolute error over these.
        bias: mean of predicted less measured over these.
        compared_under: of these, sides predicted under the least progress.
        measured_under: of these, sides that were under it.
    """

    placement: str
    placed: int
    sides: int
    under: int
    compared: int
    predicted: float | None
    measured: float | None
    error: float | None
    bias: float | None
    compared_under: int
    measured_under: int


@dataclass(frozen=True)
class Bin:
    """Sides whose predicted progress lies between two values: well calibrated means that the means agree."""

    low: float
    high: float
    sides: int
    predicted: float
    measured: float


@dataclass(frozen=True)
class Activity:
    """SMACT as the predictor was given it, beside what the monitor measured of runs alone of the same job.

    Attributes:
        jobs: jobs that ran alone and were measured.
        error: mean absolute error, or None if there are none.
    """

    jobs: int
    error: float | None


@dataclass(frozen=True)
class Check:
    """What came of the placements of a time.

    Attributes:
        since, until: Unix times in seconds.
        min_progress: least progress that the site wants of each job.
        rows: one for each placement, sorted by name.
        total: all policies together.
        bins: calibration, lowest first; empty ones are left out.
        not_compared: sides by why they could not be compared.
        activity: what the predictor was given.
        sides: all that was predicted, in the order of the newcomers.
    """

    since: int
    until: int
    min_progress: float
    rows: tuple[Row, ...]
    total: Row
    bins: tuple[Bin, ...]
    not_compared: Mapping[str, int]
    activity: Activity
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class _Stay:
    """One run on one GPU; `device` is empty where nobody tells which of the node's it was."""

    job: Job
    run: JobRun
    device: str
    begin: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.begin

    @property
    def hours(self) -> range:
        return range(self.begin // 3600, self.end // 3600 + 1)


_Work = tuple[object, ...]


def check(jobs: Sequence[Job], since: int, until: int, min_progress: float, min_run_s: int = MIN_RUN_S) -> Check:
    """Compare what was predicted for `jobs` with what they did.

    Args:
        jobs: as `report.jobs_of` puts them together; all users', or neighbours are missing.
        since: start of the time that they are from, in Unix seconds.
        until: its end; what still runs ran until then.
        min_progress: least progress that the site wants of each job, 0 to 1.
        min_run_s: shorter runs, in seconds, tell nothing.
    """
    stays = [stay for job in jobs for run in job.runs if (stay := _stay(job, run, until)) is not None]
    yard = _Yard(stays, min_run_s)
    known = {job.last.job_id: job for job in jobs}
    placed = [job for job in jobs if job.is_shared and job.record is not None and job.record.progress is not None]
    sides = [side for job in placed for side in _sides(job, known, yard)]
    placements = sorted({side.placement for side in sides})
    count = Counter(job.record.policy for job in placed if job.record is not None)
    rows = tuple(_row(p, count[p], [side for side in sides if side.placement == p], min_progress) for p in placements)
    return Check(
        since=since,
        until=until,
        min_progress=min_progress,
        rows=rows,
        total=_row("total", len(placed), sides, min_progress),
        bins=_bins(sides),
        not_compared=dict(Counter(side.why for side in sides if side.why).most_common()),
        activity=_activity(jobs, yard),
        sides=tuple(sides),
    )


def _stay(job: Job, run: JobRun, until: int) -> _Stay | None:
    """The run as a stay on a GPU, or None for one that holds no shares of any."""
    if run.start is None or not run.nodes:
        return None
    typed = sorted(name for name in run.allocated if name.startswith("gres/mps:"))
    if typed:
        device = typed[0].rpartition(":")[2]
    elif job.is_shared and job.record is not None:
        device = job.record.pin
    elif "gres/mps" in run.allocated:
        device = ""
    else:
        return None
    return _Stay(job, run, device, run.start, until if run.end is None else run.end)


class _Yard:
    """All stays, and what they tell of each other."""

    def __init__(self, stays: Iterable[_Stay], min_run_s: int) -> None:
        self.min_run_s = min_run_s
        # By node, device and hour: a month has many stays, and few at a time.
        self.on: dict[str, dict[str, dict[int, list[_Stay]]]] = {}
        self.of: dict[int, list[_Stay]] = {}
        for stay in stays:
            hours = self.on.setdefault(stay.run.nodes, {}).setdefault(stay.device, {})
            for hour in stay.hours:
                hours.setdefault(hour, []).append(stay)
            self.of.setdefault(stay.run.job_id, []).append(stay)
        self.alone: dict[_Work, list[int]] = {}
        for each in self.of.values():
            for stay in each:
                work = _work(stay.job, stay.run)
                if work is not None and not self.unfit(stay) and self.was_alone(stay):
                    self.alone.setdefault(work, []).append(stay.length)

    def unfit(self, stay: _Stay) -> str:
        """Why the time that a stay took tells nothing, or the empty string."""
        if stay.run.state != ENDED_WELL or stay.run.end is None:
            return NOT_ENDED
        if stay.length < self.min_run_s:
            return SHORT
        if stay.run.elapsed_s < stay.length - 1:
            return SUSPENDED
        return ""

    def beside(self, stay: _Stay) -> dict[frozenset[int], float]:
        """Seconds of an ended stay beside each set of neighbours; the empty set is alone."""
        node = self.on[stay.run.nodes]
        devices = {stay.device, ""} if stay.device else set(node)  # where a device is not known it may be this one
        near = {
            id(other): other
            for device in devices & set(node)
            for hour in stay.hours
            for other in node[device].get(hour, ())
        }
        others = [
            other
            for other in near.values()
            if other.begin < stay.end and other.end > stay.begin and other.run.job_id != stay.run.job_id
        ]
        ends = (at for other in others for at in (other.begin, other.end))
        cuts = sorted({stay.begin, stay.end, *(at for at in ends if stay.begin <= at <= stay.end)})
        found: dict[frozenset[int], float] = {}
        for first, last in itertools.pairwise(cuts):
            there = frozenset(o.run.job_id for o in others if o.begin <= first and o.end >= last)
            found[there] = found.get(there, 0.0) + last - first
        return found

    def was_alone(self, stay: _Stay) -> bool:
        """Whether a stay had the GPU to itself, as Slurm and the monitor saw it."""
        beside = self.beside(stay)
        return beside.get(frozenset(), 0.0) >= (1 - _ALONE) * stay.length and not _unseen(stay, beside)


def _unseen(stay: _Stay, beside: Mapping[frozenset[int], float]) -> bool:
    """Whether the monitor saw a neighbour that Slurm does not show."""
    kept = stay.job.kept(stay.run)
    return kept is not None and not set(kept.neighbours) <= frozenset().union(*beside)


def _work(job: Job, run: JobRun) -> _Work | None:
    """What must be alike for two runs to do the same, or None where nothing tells."""
    record = job.record
    if record is None or not record.fingerprint:
        return None
    settings = (record.batch_size, record.seq_len, record.optimizer, record.precision, record.kind, record.gpu)
    return (run.user, run.name, run.partition, record.fingerprint, record.model, *settings)


def _sides(job: Job, known: Mapping[int, Job], yard: _Yard) -> list[Side]:
    """The newcomer and its residents, each with what was predicted and what can be said of it."""
    record = job.record
    assert record is not None
    assert record.progress is not None
    me = job.last.job_id
    group = (me, *record.residents)
    predicted = (record.progress, *record.residents_progress)
    sides = []
    for place, (number, progress) in enumerate(zip(group, predicted, strict=False)):
        neighbours = group[:place] + group[place + 1 :]
        measured = _measure(number, frozenset(neighbours), record, me, known, yard)
        why = measured if isinstance(measured, str) else ""
        value = None if isinstance(measured, str) else measured
        sides.append(Side(number, neighbours, record.policy, progress, value, why))
    return sides


def _measure(
    number: int, neighbours: frozenset[int], record: Record, newcomer: int, known: Mapping[int, Job], yard: _Yard
) -> float | str:
    """Progress of a job beside `neighbours`, or why it cannot be known."""
    if number not in known or 0 in neighbours:
        return UNKNOWN_NEIGHBOUR
    stays = yard.of.get(number, [])
    there = [stay for stay in stays if (stay.run.nodes, stay.device) == (record.node, record.pin)]
    if not there:
        return ELSEWHERE if stays else NOT_ENDED
    # A requeued job has several runs: the one that met the newcomer is meant, of the newcomer the first.
    meeting = (stay for stay in there if number == newcomer or _meets(stay, yard.of.get(newcomer, [])))
    stay = next(meeting, None)
    if stay is None:
        return OTHERS
    work = _work(stay.job, stay.run)
    if work is None:
        return NO_WORK
    if unfit := yard.unfit(stay):
        return unfit
    beside = yard.beside(stay)
    if _unseen(stay, beside):
        return UNKNOWN_NEIGHBOUR
    together, apart = beside.get(neighbours, 0.0), beside.get(frozenset(), 0.0)
    others = stay.length - together - apart
    if together < _TOGETHER * stay.length or others > _OTHERS * stay.length:
        return OTHERS
    alone = yard.alone.get(work)
    if not alone:
        return NEVER_ALONE
    if max(alone) > _ALIKE * min(alone):
        return UNSTEADY
    # While others are there the job is taken to be as fast as beside the predicted ones.
    progress = (median(alone) - apart) / (together + others)
    if not 0.0 < progress <= _NOISE:
        return NOT_THE_SAME
    return min(progress, 1.0)


def _meets(stay: _Stay, others: Sequence[_Stay]) -> bool:
    return any(other.begin < stay.end and other.end > stay.begin for other in others)


def _row(placement: str, placed: int, sides: Sequence[Side], min_progress: float) -> Row:
    pairs = _compared(sides)
    return Row(
        placement=placement,
        placed=placed,
        sides=len(sides),
        under=sum(side.predicted < min_progress for side in sides),
        compared=len(pairs),
        predicted=_mean([said for said, _ in pairs]),
        measured=_mean([found for _, found in pairs]),
        error=_mean([abs(said - found) for said, found in pairs]),
        bias=_mean([said - found for said, found in pairs]),
        compared_under=sum(said < min_progress for said, _ in pairs),
        measured_under=sum(found < min_progress for _, found in pairs),
    )


def _compared(sides: Iterable[Side]) -> list[tuple[float, float]]:
    return [(side.predicted, side.measured) for side in sides if side.measured is not None]


def _bins(sides: Iterable[Side]) -> tuple[Bin, ...]:
    pairs = _compared(sides)
    found = []
    for low, high in zip(BINS, (*BINS[1:], 1.0), strict=True):
        inside = [pair for pair in pairs if low <= pair[0] < high or (high == 1.0 and pair[0] >= high)]
        if inside:
            said, made = (round(fmean(column), 4) for column in zip(*inside, strict=True))
            found.append(Bin(low, high, len(inside), said, made))
    return tuple(found)


def _activity(jobs: Iterable[Job], yard: _Yard) -> Activity:
    errors = []
    for job in jobs:
        if job.record is None or not job.record.activity:
            continue
        for stay in yard.of.get(job.last.job_id, ()):
            kept = job.kept(stay.run)
            if kept is not None and kept.smact_mean is not None and not yard.unfit(stay) and yard.was_alone(stay):
                errors.append(abs(job.record.activity[0] - kept.smact_mean))
    return Activity(len(errors), _mean(errors))


def _mean(values: Sequence[float]) -> float | None:
    return round(fmean(values), 4) if values else None


def as_csv(made: Check) -> str:
    """The policies' rows as CSV."""
    return table(Row, made.rows)
