"""From a submission to radd's answer: the whole pipeline in memory, for radd and for `radctl decide`.

Holds the view of the cluster and the decisions of the last seconds; reads nothing itself, so an answer never waits.
"""

from __future__ import annotations

import functools
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, cast

from estimator.history import from_history
from estimator.input_size import written
from estimator.parsers import parse_summary
from estimator.types import Estimate, Kind, Method, ModelSummary, Optimizer, Precision, SummaryError, Workload
from predictor.profiles import estimate_profile
from predictor.types import Predictor, Profile, ProfileError
from slurm_hooks import decision as rules
from slurm_hooks.cluster import Arrival, ClusterView, Gpu, Resident, partition_of, with_arrivals
from slurm_hooks.config import Config, Partition
from slurm_hooks.directives import LATE, DirectiveError, Directives, parse_script
from slurm_hooks.experience import Experience, runs_of
from slurm_hooks.interference import Interference, pack
from slurm_hooks.record_text import printable
from slurm_hooks.records import Record, merge
from slurm_hooks.request import (
    NODE_OPTIONS,
    UNLIMITED,
    GpuRequest,
    LeftAlone,
    Submission,
    asked_of,
    steps_ask,
    understand,
    with_defaults,
)
from slurm_hooks.shares import FULL_THREADS, WHOLE_GPU

log: Final = logging.getLogger("rad.service")

MIB_PER_GIB: Final = 1024
# A job shows up in Slurm right after its decision: a look that began this much later has seen it, in seconds.
_SETTLING_S: Final = 1.0
_NO_FILE: Final = "No such file"
_SHORT_SUMMARY: Final = 65_536
_ANY_SUMMARY: Final = """Net(
  (conv): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
  (norm): BatchNorm2d(8, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  (fc): Linear(in_features=8, out_features=4, bias=True)
)
"""
_STEPS_ASK: Final = (
    "srun asks for the GPU again in this script, and without cli_filter.lua Slurm refuses such a step here: leave "
    "--gres, --gpus, --gpu-bind and what is per GPU out behind srun, its tasks see the job's GPU"
)
_NO_DIRECTIVES: Final = Directives()
TRES: Final = ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket")
_IMPLIED_BINDING: Final = re.compile(r"gres[:/]gpu:per_task:1")
_PER_GPU: Final = re.compile(r"gres[:/]gpu[:=](\d{1,9})")
_NOBODY_ELSE: Final = ("0", "3", "4")  # --exclusive; of the same MCS label; of a segment of nodes, since 24.11
_ONE_USER: Final = "2"  # --exclusive=user
_UNSET_FROM: Final = 0xFFFFFFFE
_UNSET_16: Final = (0xFFFE, 0xFFFF)


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
        need = rules.need_of(self.submission, self.resident.share, self.partition)
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
            self._freshen()
            return self._expected

    def _freshen(self) -> None:
        self._settle()
        oldest = self._recent[0].at if self._recent else None
        if oldest is not None and not 0 <= self._clock() - oldest < self.config.radd.recent_s:
            self._rebuild()

    @property
    def unplaced(self) -> bool:
        """Whether the view waits to show where Slurm has put a job that was not pinned."""
        with self._lock:
            self._freshen()
            return any(recent.arrival.gpu is None for recent in self._recent)

    def settle(self) -> None:
        """Put the last decisions into the view; who has the time does it before the next decision has to."""
        with self._lock:
            self._settle()

    def _settle(self) -> None:
        while self._decided:
            decided = self._decided.pop(0)  # first: what is cut short by the time limit or fails is not done again
            arrival = decided.arrival()
            self._recent.append(_Recent(decided.at, arrival))
            self._expected = with_arrivals(self._expected, (arrival,))

    def update(self, view: ClusterView) -> None:
        """Take a new look at the cluster; called from the poller's thread."""
        with self._lock:
            self._settle()
            self._view = view
            self._rebuild()

    def _rebuild(self) -> None:
        """Put the decisions that the last look cannot have seen on top of it; none of a time that is still to come."""
        now, taken = self._clock(), self._view.taken
        kept = self.config.radd.recent_s
        self._recent = [r for r in self._recent if r.at + _SETTLING_S > taken and 0 <= now - r.at < kept]
        self._expected = with_arrivals(self._view, (recent.arrival for recent in self._recent))

    def answer(self, fields: Mapping[str, str]) -> Answer:
        """What becomes of the submission in a message's fields."""
        return self.decide(read(fields))

    def give_up(self, fields: Mapping[str, str], reason: str) -> Answer:
        """The answer to a submission on which nothing could be decided."""
        submission = submission_from(fields)
        partition = self.config.partition(submission.partition.split(",")[0])
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
        _know.__wrapped__(self.method, _ANY_SUMMARY, _Asked(8), "unknown", 0)

    def decide(self, reading: Reading) -> Answer:
        """What becomes of a submission that was read."""
        submission = reading.submission
        names = submission.partition.split(",")
        partitions = [p for p in map(self.config.partition, names) if p is not None and p.method != "off"]
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
        view = self.view
        unknown = rules.gives_whole_nodes(submission, view) or rules.unknown_type(request, partition, view)
        if not unknown and partition.mode == "enforce" and partition.method != "mig":
            unknown = rules.no_shares(
                submission, request, partition, view, now=self._clock(), stale_s=self.config.radd.stale_s
            )
        if unknown:
            return self._left_alone(submission, directives, partition, LeftAlone(request.text, unknown))
        try:
            demand = self._demand(submission, directives, partition)
        except SummaryError as error:
            return self._left_alone(submission, directives, partition, LeftAlone(request.text, str(error)))
        if partition.method == "mig":
            return self._instance(submission, request, directives, demand, partition, view)
        submission = with_defaults(submission, partition_of(view, submission.partition.split(",")[0]))
        decision = rules.decide(
            submission,
            request,
            directives,
            demand,
            partition,
            view,
            now=self._clock(),
            stale_s=self.config.radd.stale_s,
            interference=self._interference,
            last=self._last,
            mps=self.config.mps,
        )
        record = rules.record_of(submission, request, directives, demand, decision, partition)
        message = _message(directives, demand.estimate, decision)
        if partition.mode != "enforce":
            self._remember(submission, None, Resident(0, submission.user, WHOLE_GPU), partition)
            return Answer(message=f"advice: {message}", fields=_record_field(submission, record), record=record)
        resident = Resident(
            0,
            submission.user,
            decision.share,
            record.upper_mib,
            decision.smact,
            activity=record.activity,
            threads=decision.thread_percentage,
        )
        if not view.filters_steps and steps_ask(submission.script):
            message += f"\n{_STEPS_ASK}"
        self._remember(submission, decision.pin, resident, partition)  # from here on nothing breathes: it stays decided
        fields = _request_fields(submission, request, decision, view)
        fields.update(_record_field(submission, record))
        return Answer(
            message=message,
            fields=fields,
            environment={
                "RAD_SHARE": str(decision.share),
                "RAD_THREAD_PERCENTAGE": _threads(decision),
            },
            record=record,
        )

    def _instance(
        self,
        submission: Submission,
        request: GpuRequest,
        directives: Directives,
        demand: rules.Demand,
        partition: Partition,
        view: ClusterView,
    ) -> Answer:
        """The answer to a submission to a partition whose GPUs are shared by MIG."""
        decision = rules.decide_instance(submission, request, directives, demand, partition, view)
        if isinstance(decision, LeftAlone):
            return self._left_alone(submission, directives, partition, decision)
        record = rules.record_of(submission, request, directives, demand, decision, partition)
        message = _message(directives, demand.estimate, decision)
        fields = _record_field(submission, record)
        if partition.mode != "enforce":
            return Answer(message=f"advice: {message}", fields=fields, record=record)
        return Answer(
            message=message, fields={**_instance_fields(submission, request, decision), **fields}, record=record
        )

    def _left_alone(
        self, submission: Submission, directives: Directives, partition: Partition, left: LeftAlone
    ) -> Answer:
        if left.asked:
            self._remember(submission, None, Resident(0, submission.user, WHOLE_GPU), partition)
        return _left_alone(submission, directives, partition, left)

    def _remember(self, submission: Submission, gpu: Gpu | None, resident: Resident, partition: Partition) -> None:
        """Keep a job until Slurm shows it, so that the next decision is not made as if it were not there."""
        now = self._clock()
        if submission.test_only or rules.waits_for_itself(submission, now):
            return
        # Users may name thousands, and Slurm looks at them after RAD.
        names = frozenset(name for name in submission.partition.split(",") if self.config.partition(name))
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

    def _known(self, submission: Submission, directives: Directives, partition: Partition) -> _Known:
        text = directives.summary
        if text is None and directives.model is not None:
            text = submission.handed_summary
        if text is None:
            raise SummaryError(_no_summary(submission, directives))
        if len(text) > self.config.estimator.max_summary_kib * 1024:
            raise SummaryError(f"the summary is longer than {self.config.estimator.max_summary_kib} KiB")
        d = directives
        asked = _Asked(d.batch_size, d.input_size, d.seq_len, d.optimizer, d.precision, d.kind)
        remember = len(text) <= _SHORT_SUMMARY
        try:
            know = _know if remember else _know.__wrapped__
            return cast("_Knower", know)(
                self.method, text, asked, partition.gpu_model or "unknown", partition.gpu_memory_mib
            )
        except SummaryError:
            raise
        except Exception as error:
            # A summary that trips the estimator is a bug of ours: its job goes through, and radd goes on.
            log.exception("an estimate failed")
            raise SummaryError(f"the estimate failed ({type(error).__name__})") from error


class _Known(NamedTuple):
    """What a summary tells of a job; `activity` is its profile as records keep it."""

    estimate: Estimate
    profile: Profile | None
    activity: tuple[float, ...]


class _Asked(NamedTuple):
    """What the directives say of how a model is run; None where they say nothing."""

    batch_size: int | None
    input_size: tuple[int, ...] | None = None
    seq_len: int | None = None
    optimizer: Optimizer | None = None
    precision: Precision | None = None
    kind: Kind | None = None


_Knower = Callable[[Method, str, _Asked, str, int], _Known]


# Sweeps submit the same summary over and over. Bounded in length and number: whoever submits fills this memory.
@functools.lru_cache(maxsize=16)
def _layers(text: str) -> ModelSummary:
    """The layers of a summary, which batch size, precision and optimizer do not change."""
    return parse_summary(text)


@functools.lru_cache(maxsize=64)
def _know(method: Method, text: str, asked: _Asked, gpu: str, memory_mib: int) -> _Known:
    """Estimate and profile of a summary run as `asked`.

    Raises:
        SummaryError: if there is no estimate.
    """
    summary = _layers(text) if len(text) <= _SHORT_SUMMARY else parse_summary(text)
    batch_size = asked.batch_size or summary.batch_size
    if batch_size is None:
        raise SummaryError("neither the script nor the summary tells the batch size: add #RAD batch_size=64, say")
    workload = Workload(
        batch_size,
        asked.seq_len,
        asked.optimizer or "adam",
        asked.precision or "fp32",
        asked.kind or "train",
        gpu,
        memory_mib,
        asked.input_size,
    )
    estimate = method.predict(summary, workload)
    if asked.batch_size is None:
        taken = f"batch_size={batch_size} of the summary was taken"
        estimate = replace(estimate, note=f"{taken}; {estimate.note}" if estimate.note else taken)
    profile = _profile(summary, workload, estimate)
    return _Known(estimate, profile, pack(profile) if profile else ())


def _profile(summary: ModelSummary, workload: Workload, estimate: Estimate) -> Profile | None:
    """The profile that the summary suggests, or None for a GPU of which nothing is known."""
    try:
        return estimate_profile(summary, workload, workload.gpu, memory_mib=estimate.upper_mib)
    except ProfileError:
        return None


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


def _left_alone(submission: Submission, directives: Directives, partition: Partition, left: LeftAlone) -> Answer:
    record = Record(
        action="left_alone",
        asked=left.asked,
        mode=partition.mode,
        job_policy=directives.policy or partition.policy,
        model=(directives.model or "")[:200],
        reasons=(left.reason[:500],),
    )
    return Answer(message=f"left as written: {left.reason}", fields=_record_field(submission, record), record=record)


def _threads(decision: rules.Decision) -> str:
    """The thread percentage as TaskProlog reads it: a limit holds for the GPU that it was chosen for."""
    if decision.pin is None or decision.thread_percentage == FULL_THREADS:
        return str(FULL_THREADS)
    return f"{decision.thread_percentage}@{decision.pin.node}:{decision.pin.type}"


def _record_field(submission: Submission, record: Record) -> dict[str, str]:
    return {"admin_comment": merge(submission.admin_comment, record)}


def _instance_fields(submission: Submission, request: GpuRequest, decision: rules.Decision) -> dict[str, str]:
    """The descriptor's fields that turn a GPU into a MIG instance; to Slurm it is a GPU like any other."""
    item = f"gres{request.separator}gpu:{decision.profile}:1"
    return {request.field: ",".join((*request.others, item)), **_feature_field(submission, decision)}


def _request_fields(
    submission: Submission, request: GpuRequest, decision: rules.Decision, view: ClusterView
) -> dict[str, str]:
    """The descriptor's fields that turn a GPU into shares of one."""
    fields = {request.field: ",".join(request.others)}
    rest = request.others
    if request.field != "tres_per_node":
        rest = tuple(filter(None, [(submission.tres or {}).get("tres_per_node", "")]))
    kind = (
        f"{decision.pin.type}:"
        if decision.pin
        else (f"{request.type}:" if request.type and not decision.feature else "")
    )
    fields["tres_per_node"] = ",".join((*rest, f"gres{request.separator}mps:{kind}{decision.share}"))
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


def _feature_field(submission: Submission, decision: rules.Decision) -> dict[str, str]:
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


def _message(directives: Directives, estimate: Estimate | None, decision: rules.Decision) -> str:
    share = f"{decision.share} of 100 shares of one GPU"
    if decision.profile:
        share = f"MIG instance {decision.profile}"
    elif decision.share == WHOLE_GPU:
        share = f"the whole GPU ({decision.reasons[0]})"
    if estimate is None:
        return share
    if estimate.method == "claim":
        return f"{_gib(estimate.upper_mib)} GiB claimed: {share}"
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
        f"{_gib(estimate.expected_mib)} GiB expected, {_gib(estimate.upper_mib)} GiB reserved "
        f"({', '.join(facts)}{note}): {share}"
    )


def _gib(mib: int) -> str:
    return f"{mib / MIB_PER_GIB:.1f}"


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
