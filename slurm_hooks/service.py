"""From a submission to radd's answer: the whole pipeline in memory, for radd and for `radctl decide`.

Holds the view of the cluster and the decisions of the last seconds; reads nothing itself, so an answer never waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from estimator.history import from_history
from estimator.types import Estimate, Method, SummaryError
from predictor.types import Predictor
from slurm_hooks import decision as rules
from slurm_hooks import estimating
from slurm_hooks.answer import Answer, answer_to, left_as_written
from slurm_hooks.cluster import Arrival, ClusterView, Gpu, Resident, partition_of, with_arrivals
from slurm_hooks.columns import with_columns
from slurm_hooks.config import Config, Partition
from slurm_hooks.directives import LATE, Directives
from slurm_hooks.experience import Experience, runs_of
from slurm_hooks.gpus import unknown_type
from slurm_hooks.interference import Interference, pack
from slurm_hooks.reach import gives_whole_nodes, need_of
from slurm_hooks.reading import Reading, read, submission_from
from slurm_hooks.request import LeftAlone, Submission, asked_of, with_defaults
from slurm_hooks.shares import WHOLE_GPU
from slurm_hooks.starts import waits_for_itself, who_waits

log: Final = logging.getLogger("rad.service")

# A job shows up in Slurm right after its decision: a look that began this much later has seen it, in seconds.
_SETTLING_S: Final = 1.0
# Between two answers decisions are forgotten this often at most, and half as often while somebody waits, in seconds.
_REBUILD_S: Final = 1.0
_NO_FILE: Final = "No such file"
_NO_DIRECTIVES: Final = Directives()


class _Recent(NamedTuple):
    at: float
    arrival: Arrival


class _Decided(NamedTuple):
    """A decision that is not in the view yet; `names` of the partitions that it may go to, of those that RAD serves."""

    at: float
    submission: Submission
    gpu: Gpu | None
    resident: Resident
    partition: Partition
    names: frozenset[str]

    def arrival(self) -> Arrival:
        """The job as the view will show it; the tasks of an array may fill any GPU."""
        need = need_of(self.submission, self.resident.share, self.partition)
        resident = replace(self.resident, share=WHOLE_GPU) if self.submission.array else self.resident
        return Arrival(resident, self.gpu, self.names, need.cpus, need.memory_mib, self.submission.by_user)


class Service:
    """Answers submissions from memory."""

    def __init__(
        self,
        config: Config,
        method: Method,
        clock: Callable[[], float] = time.time,
        predictor: Predictor | None = None,
    ) -> None:
        self.config = config
        self.method = method
        self.experience: Experience = {}
        self.predict_with(predictor)
        self._clock = clock
        self._lock = threading.Lock()
        self._view = self._expected = ClusterView()
        self._rebuilt = float("-inf")
        self._recent: list[_Recent] = []
        self._decided: list[_Decided] = []
        self._last: tuple[str, str] | None = None

    def predict_with(self, predictor: Predictor | None) -> None:
        """Take a predictor, or a newer one; None for no predictions."""
        settings = self.config.predictor
        self._interference = (
            Interference(predictor, settings.min_gain, settings.min_progress) if predictor is not None else None
        )

    @property
    def view(self) -> ClusterView:
        """The cluster as Slurm last showed it, with the decisions that it does not show yet."""
        with self._lock:
            self._freshen(2 * _REBUILD_S)
            return self._expected

    def _freshen(self, pause_s: float) -> None:
        """Forget decisions that Slurm should show by now; where that was done less than `pause_s` ago, later.

        While Slurm does not answer, the oldest of thousands has its time behind it at each decision.
        """
        self._settle()
        now, oldest = self._clock(), self._recent[0].at if self._recent else None
        if oldest is None or 0 <= now - oldest < self.config.radd.recent_s:
            return
        if oldest > now or not 0 <= now - self._rebuilt < pause_s:
            self._rebuild()

    @property
    def unplaced(self) -> bool:
        """Whether the view waits to show where Slurm has put a job that was not pinned, so that others may be.

        Where jobs wait already nobody would be pinned: that is no reason to ask Slurm more often.
        """
        with self._lock:
            self._freshen(_REBUILD_S)
            view = self._view
            concerned = {
                name for recent in self._recent if recent.arrival.gpu is None for name in recent.arrival.partitions
            }
            concerned.update(*(partition_of(view, name).beside for name in concerned))
            return any(not who_waits(name, view) for name in concerned)

    def settle(self) -> None:
        """Put the last decisions into the view; who has the time does it before the next decision has to."""
        with self._lock:
            self._freshen(_REBUILD_S)

    def _settle(self) -> None:
        while self._decided:
            decided = self._decided.pop(0)  # first: what is cut short by the time limit or fails is not done again
            arrival = decided.arrival()
            self._recent.append(_Recent(decided.at, arrival))
            self._expected = with_columns(with_arrivals(self._expected, (arrival,)))

    def update(self, view: ClusterView) -> None:
        """Take a new look at the cluster; called from the poller's thread."""
        view = with_columns(view)
        with self._lock:
            self._settle()
            self._view = view
            self._rebuild()

    def _rebuild(self) -> None:
        """Put the decisions that the last look cannot have seen on top of it; none of a time that is still to come."""
        now = self._rebuilt = self._clock()
        taken = self._view.taken
        kept = self.config.radd.recent_s
        self._recent = [r for r in self._recent if r.at + _SETTLING_S > taken and 0 <= now - r.at < kept]
        self._expected = with_columns(with_arrivals(self._view, (recent.arrival for recent in self._recent)))

    def answer(self, fields: Mapping[str, str]) -> Answer:
        """What becomes of the submission in a message's fields."""
        return self.decide(read(fields))

    def give_up(self, fields: Mapping[str, str], reason: str) -> Answer:
        """The answer to a submission on which nothing could be decided."""
        submission = submission_from(fields)
        partition = self.config.partitions.get(submission.partition.split(",")[0])
        if partition is None or partition.method == "off":
            return Answer()
        answer = self._left_alone(submission, _NO_DIRECTIVES, partition, LeftAlone(asked_of(submission), reason))
        return answer._replace(message="") if partition.mode == "shadow" else answer

    def too_late(self, fields: Mapping[str, str]) -> Answer:
        """The answer to a submission whose decision takes longer than `radd.decide_s`."""
        limit = self.config.radd.decide_s * 1000
        return self.give_up(fields, f"no decision within {limit:.0f} ms: shorten the summary, or claim memory=12G, say")

    def warm_up(self) -> None:
        """Estimate a model once, so that the first job does not wait for what is loaded when it is first used."""
        estimating.warm_up(self.method)

    def decide(self, reading: Reading) -> Answer:
        """What becomes of a submission that was read."""
        submission = reading.submission
        names = submission.partition.split(",")
        partitions = [p for p in map(self.config.partitions.get, names) if p is not None and p.method != "off"]
        if not partitions:
            why = "RAD does not serve it: the job goes through as written"
            return Answer(message=f"partition {submission.partition}: {why}")
        first = partitions[0]
        if len(partitions) < len(names) or any(p is not first and p != first for p in partitions):
            reason = f"RAD does not serve the partitions {submission.partition} alike"
            asked = asked_of(submission)
            answer = self._left_alone(submission, reading.directives or _NO_DIRECTIVES, first, LeftAlone(asked, reason))
        else:
            answer = self._decide(reading, first)
        if reading.directives is not None and reading.directives.late:
            answer = answer._replace(message="\n".join(filter(None, (answer.message, LATE))))
        if all(partition.mode == "shadow" for partition in partitions):
            return answer._replace(message="")
        return answer

    def _decide(self, reading: Reading, partition: Partition) -> Answer:
        submission, directives, request = reading.submission, reading.directives, reading.request
        if reading.wrong and partition.mode == "enforce":
            return Answer(reject=True, message=reading.wrong)
        if reading.wrong:
            wrong = LeftAlone(asked_of(submission), reading.wrong)
            return self._left_alone(submission, _NO_DIRECTIVES, partition, wrong)
        if directives is None:
            return Answer()
        if isinstance(request, LeftAlone):
            return self._left_alone(submission, directives, partition, request)
        situation = self._situation()
        view = situation.view
        why = gives_whole_nodes(submission, view) or unknown_type(request, partition, view)
        if not why and partition.mode == "enforce" and partition.method != "mig":
            why = rules.no_shares(submission, request, partition, situation)
        if why:
            return self._left_alone(submission, directives, partition, LeftAlone(request.text, why))
        try:
            demand = self._demand(submission, directives, partition)
        except SummaryError as error:
            return self._left_alone(submission, directives, partition, LeftAlone(request.text, str(error)))
        if partition.method == "mig":
            job = rules.Job(submission, request, directives, demand)
            instance = rules.decide_instance(job, partition, view)
            if isinstance(instance, LeftAlone):
                return self._left_alone(submission, directives, partition, instance)
            return answer_to(job, instance, partition, view)
        submission = with_defaults(submission, partition_of(view, submission.partition.split(",")[0]))
        job = rules.Job(submission, request, directives, demand)
        decision = rules.decide(job, partition, situation)
        answer = answer_to(job, decision, partition, view)
        # From here on nothing breathes: it stays decided.
        if partition.mode == "enforce":
            self._remember(submission, decision.pin, _resident(job, decision), partition)
        else:
            self._remember(submission, None, Resident(0, submission.user, WHOLE_GPU), partition)
        return answer

    def _situation(self) -> rules.Situation:
        radd, mps = self.config.radd, self.config.mps
        return rules.Situation(self.view, self._clock(), radd.stale_s, self._interference, self._last, mps)

    def _left_alone(
        self, submission: Submission, directives: Directives, partition: Partition, left: LeftAlone
    ) -> Answer:
        if left.asked:
            self._remember(submission, None, Resident(0, submission.user, WHOLE_GPU), partition)
        return left_as_written(submission, directives, partition, left)

    def _remember(self, submission: Submission, gpu: Gpu | None, resident: Resident, partition: Partition) -> None:
        """Keep a job until Slurm shows it, so that the next decision is not made as if it were not there."""
        now = self._clock()
        if submission.test_only or waits_for_itself(submission, now):
            return
        # Users may name thousands, and Slurm looks at them after RAD.
        names = frozenset(name for name in submission.partition.split(",") if name in self.config.partitions)
        with self._lock:
            self._decided.append(_Decided(now, submission, gpu, resident, partition, names))
        if gpu is not None:
            self._last = (gpu.node, gpu.type)

    def _demand(self, submission: Submission, directives: Directives, partition: Partition) -> rules.Demand:
        """What is known of the job's needs; no memory where the whole GPU is wanted and nothing is known.

        Raises:
            SummaryError: if there is no estimate; the message says why and what to do.
        """
        claim = directives.memory_mib
        if claim is not None:
            return rules.Demand(Estimate(claim, claim, "claim", "cnn", "", ("memory as the script claims",)))
        try:
            known = self._known(submission, directives, partition)
        except SummaryError:
            if (directives.policy or partition.policy) == "exclusive":
                return rules.Demand(None)
            raise
        estimate, profile, activity = known if self._interference else known._replace(profile=None, activity=())
        earlier = runs_of(self.experience, submission.user, estimate.fingerprint)
        if not earlier:
            return rules.Demand(estimate, None, profile, activity)
        estimate = from_history(estimate, {estimate.fingerprint: [m.peak_mib for m in earlier]})
        last = next((m for m in reversed(earlier) if m.smact is not None), None)
        if last is not None and profile is not None:
            counted = {"smact": last.smact, "busy": last.smact, "smocc": last.smocc, "dram": last.dram}
            profile = replace(profile, **{k: v for k, v in counted.items() if v is not None})  # type: ignore[arg-type]
            activity = pack(profile)
        return rules.Demand(estimate, last.smact if last else None, profile, activity)

    def _known(self, submission: Submission, directives: Directives, partition: Partition) -> estimating.Known:
        text = directives.summary
        if text is None and directives.model is not None:
            text = submission.handed_summary
        if text is None:
            raise SummaryError(_no_summary(submission, directives))
        if len(text) > self.config.estimator.max_summary_kib * 1024:
            raise SummaryError(f"the summary is longer than {self.config.estimator.max_summary_kib} KiB")
        d = directives
        asked = estimating.Asked(d.batch_size, d.input_size, d.seq_len, d.optimizer, d.precision, d.kind)
        try:
            return estimating.know(self.method, text, asked, partition.gpu_model or "unknown", partition.gpu_memory_mib)
        except SummaryError:
            raise
        except Exception as error:
            # A summary that trips the estimator is a bug of ours: its job goes through, and radd goes on.
            log.exception("an estimate failed")
            raise SummaryError(f"the estimate failed ({type(error).__name__})") from error


def _resident(job: rules.Job, decision: rules.Decision) -> Resident:
    """What a job will be on the GPU that it gets."""
    estimate = job.demand.estimate
    return Resident(
        0,
        job.submission.user,
        decision.share,
        estimate.upper_mib if estimate else None,
        decision.smact,
        activity=job.demand.activity,
        threads=decision.thread_percentage,
    )


def _no_summary(submission: Submission, directives: Directives) -> str:
    if directives.model is None:
        return "nothing tells the job's memory: add #RAD model=SUMMARY or #RAD memory=12G"
    why = submission.handed_error
    if not why:
        why = "it was not handed on (--export without ALL, script from a pipe, no cli_filter.lua)"
        why += "; `radctl embed` writes it into the script"
    elif directives.model.startswith(("~", "$")):
        why += " (no shell reads this line: ~ and $ stay as they are)"
    elif _NO_FILE in why:
        why += " (a path is relative to the directory in which sbatch runs)"
    return f"summary {directives.model}: {why}"
