"""The monitor's looks: from readings of GPUs to what each GPU and each job did in the window and in the run.

Reads the GPUs through a backend, jobs of processes through `processes`, and the notes that Prolog left in
[node].state_dir; writes each job's counters there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_hooks.config import Config
from slurm_hooks.monitor import counters
from slurm_hooks.monitor.counters import SERIES, Account
from slurm_hooks.monitor.guard import Guard, Notice
from slurm_hooks.monitor.metrics import ACTIVITIES, RATES, Backend, Reading
from slurm_hooks.monitor.processes import Processes
from slurm_hooks.monitor.split import parts
from slurm_hooks.monitor.views import GpuView, JobGpuView, JobView, View
from slurm_hooks.monitor.window import Window, mean_of
from slurm_hooks.node import notes, state
from slurm_hooks.records import NO_JOB

log = logging.getLogger("rad.monitor")

# A run's counters are written after this part of its time so far, so that what a short run loses is small too.
_WRITE_PART = 0.1
# Where the processes on the GPUs stay the same, looks are divided among the jobs this far apart, several at once: that
# costs a fraction of doing it in each. Jobs younger than that, and processes that have just come, are seen to in each.
_JOBS_S = 5.0
_YOUNG_S = 60.0
_NEW_S = 10.0
_STALE_LOOKS = 3
_POWER = "power_w"
_WINDOWED = (*ACTIVITIES, *RATES, _POWER)


@dataclass
class _Gpu:
    """A GPU, and what has not been divided among its jobs yet: the values of some looks, and their energy."""

    reading: Reading
    window: Window
    seen: float | None = None  # when it was looked at last
    energy_mj: float | None = None
    looks: list[Mapping[str, float]] = field(default_factory=list)
    joules: float | None = None
    residents: Mapping[int | None, Sequence[int]] = field(default_factory=dict)
    parts: Mapping[int | None, float] = field(default_factory=dict)
    met: frozenset[int | None] = frozenset()

    def look(self, reading: Reading, now: float, seconds: float) -> None:
        """Take a reading in, `seconds` after the one before."""
        self.reading, self.seen = reading, now
        joules = self._spent(seconds)
        if joules is not None:
            self.joules = (self.joules or 0.0) + joules
        counted = {key: reading.values[key] for key in _WINDOWED if key in reading.values}
        self.looks.append(counted)
        if seconds > 0:
            self.window.add(now, seconds, counted)

    def _spent(self, seconds: float) -> float | None:
        """Energy since the last look: the counter's growth, else power times time; None where neither is available."""
        before, self.energy_mj = self.energy_mj, self.reading.values.get("energy_mj")
        if before is not None and self.energy_mj is not None and self.energy_mj >= before:
            return (self.energy_mj - before) / 1e3
        power = self.reading.values.get(_POWER)
        return None if power is None or seconds <= 0 else power * seconds

    def view(self) -> GpuView:
        """What there is to be seen of it."""
        reading = self.reading
        return GpuView(
            index=reading.index,
            uuid=reading.uuid,
            name=reading.name,
            lost=reading.lost,
            values=reading.values,
            means=self.window.means(),
            processes=None if reading.processes is None else len(reading.processes),
            jobs=sum(job is not None for job in self.residents),
        )


@dataclass
class _Part:
    """A job on one GPU."""

    uuid: str
    window: Window
    mib: float | None = 0.0  # None where NVML does not tell it of a process
    processes: int = 0


@dataclass
class _Job:
    account: Account
    cap_mib: float | None
    seen: float
    parts: dict[int, _Part] = field(default_factory=dict)
    mib: float | None = 0.0
    active: bool = True
    over: int = 0
    dirty: bool = True
    written: float = float("-inf")

    def view(self, job: int) -> JobView:
        """What there is to be seen of it."""
        gpus = tuple(
            JobGpuView(index, part.uuid, part.window.means(), part.window.seconds, part.mib, part.processes)
            for index, part in sorted(self.parts.items())
            if part.processes or part.window.seconds > 0
        )
        account = self.account
        return JobView(job, gpus, account.peak_mib, self.cap_mib, account.energy_j, account.seconds, self.over)


@dataclass
class _Share:
    """What a job did on its GPUs in some looks: on each GPU its part of the values of each look."""

    mib: dict[int, float | None] = field(default_factory=dict)
    values: list[tuple[float, Sequence[Mapping[str, float]]]] = field(default_factory=list)
    joules: float | None = None


class Sampler:
    """Looks at all GPUs and keeps what came of it.

    Args:
        config: all settings; [monitor] and [node] are used.
        backend: who counts.
        proc: where /proc is.
        clock: Unix time in seconds, for others to see.
    """

    def __init__(
        self, config: Config, backend: Backend, proc: str = "/proc", clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = config.monitor
        self._state_dir = config.node.state_dir
        self._backend = backend
        self._clock = clock
        self.processes = Processes(self._is_users, proc)
        self._guard = Guard(self._settings.over_allotment, self._settings.slack_mib)
        self._lock = threading.Lock()
        self._gpus: dict[str, _Gpu] = {}
        self._jobs: dict[int, _Job] = {}
        self._last: float | None = None
        self._looks = 0
        self._taken = 0.0
        self._writable = True
        self._spans: list[float] = []
        self._jobs_s = min(_JOBS_S, self._settings.window_s / 4)
        self._divided = self._changed = float("-inf")
        self._young = False

    def replace_backend(self, backend: Backend) -> None:
        """Go on with another backend, after the old one has failed; what was counted stays."""
        self._backend = backend
        for gpu in self._gpus.values():
            gpu.energy_mj = None

    def look(self, now: float) -> list[Notice]:
        """Look once.

        Args:
            now: monotonic seconds.

        Returns:
            What is to be done about jobs over their allotments.

        Raises:
            BackendError: if nothing answers any more.
        """
        # Nothing is done to a job by a list that may be old.
        readings = self._backend.read(anew=self._guard.counts)
        changed = any(self._has_changed(reading) for reading in readings)
        self._changed = now if changed else self._changed
        soon = self._young or self._guard.counts or now - self._changed < _NEW_S
        due = soon or now - self._divided >= self._jobs_s - 1e-3
        shared = self._divide(readings) if due else {}
        with self._lock:
            seconds = 0.0 if self._last is None else max(0.0, now - self._last)
            notices = self._account(self._last) if changed and self._last is not None else []
            self._last, self._looks, self._taken = now, self._looks + 1, self._clock()
            self._spans.append(seconds)
            for reading in readings:
                known = self._gpus.setdefault(reading.uuid, _Gpu(reading, Window(self._settings.window_s)))
                known.look(reading, now, seconds)
            if due:
                for uuid, (residents, divided) in shared.items():
                    self._gpus[uuid].residents, self._gpus[uuid].parts = residents, divided
                self._divided = now
                notices += self._account(now)
                self._young = any(job.active and job.account.seconds < _YOUNG_S for job in self._jobs.values())
            return notices

    def _has_changed(self, reading: Reading) -> bool:
        """Whether other processes are on a GPU than before, or the same with other memory."""
        gpu = self._gpus.get(reading.uuid)
        return gpu is None or gpu.reading.processes != reading.processes

    def _divide(
        self, readings: Sequence[Reading]
    ) -> dict[str, tuple[dict[int | None, list[int]], dict[int | None, float]]]:
        """Residents of each GPU, and each one's part of it."""
        owners = self.processes.jobs([use.pid for reading in readings for use in reading.processes or ()])
        shared = {}
        for reading in readings:
            residents = _residents(reading, owners)
            known = [pid for pids in residents.values() for pid in pids] if len(residents) > 1 else []
            activity = self._backend.activity(reading.index, known) if known else {}
            shared[reading.uuid] = (residents, parts(residents, activity))
        return shared

    def _account(self, now: float) -> list[Notice]:
        """Divide what has been looked at since the last time among the jobs that were there."""
        spans, self._spans = self._spans, []
        if not spans:
            return []
        for part in (part for known in self._jobs.values() for part in known.parts.values()):
            part.mib, part.processes = 0.0, 0
        shares: dict[int, _Share] = {}
        for gpu in self._gpus.values():
            self._share_out(gpu, spans, now, shares)
        notices = [self._job(job, share, now, spans) for job, share in shares.items()]
        self._idle(shares, now)
        return [notice for notice in notices if notice is not None]

    def _share_out(self, gpu: _Gpu, spans: Sequence[float], now: float, shares: dict[int, _Share]) -> None:
        """Add to the shares of one GPU's jobs what has not been divided yet."""
        looks, gpu.looks = gpu.looks, []
        joules, gpu.joules = gpu.joules, None
        if len(looks) != len(spans):  # the backend has ceased to show it
            return
        seconds = sum(spans)
        counted = looks[0] if len(looks) == 1 else mean_of(looks, spans)
        memory = {use.pid: use.mib for use in gpu.reading.processes or ()}
        met, gpu.met = gpu.met != gpu.residents.keys(), frozenset(gpu.residents)
        for job, pids in gpu.residents.items():
            if job is None:
                continue
            known = self._jobs.get(job)
            if known is None or not known.active:
                known = self._begin(job, known, now)
            mine = {pid: memory.get(pid, 0.0) for pid in pids}
            part = known.parts.setdefault(gpu.reading.index, _Part(gpu.reading.uuid, Window(self._settings.window_s)))
            part.mib, part.processes = _sum(mine.values()), len(pids)
            fraction = gpu.parts[job]
            if seconds > 0:
                part.window.add(now, seconds, {key: value * fraction for key, value in counted.items()})
            share = shares.setdefault(job, _Share())
            for pid, mib in mine.items():
                share.mib[pid] = _sum((share.mib.get(pid, 0.0), mib))
            share.values.append((fraction, looks))
            if joules is not None:
                share.joules = (share.joules or 0.0) + joules * fraction
            if met:
                for other in gpu.residents:
                    if other != job:
                        known.account.meet(other or NO_JOB)

    def _begin(self, job: int, known: _Job | None, now: float) -> _Job:
        """A job appears, or appears again: perhaps in a new run, as Prolog's note tells."""
        note = state.read(notes.of_job(self._state_dir, job)) or {}
        restart = note.get("restart")
        restart = restart if type(restart) is int else 0
        if known is None or known.account.restart != restart:
            account = counters.load(self._state_dir, job, restart) or Account(restart)
            known = self._jobs[job] = _Job(account, None, now)
            self._guard.forget(job)
        task = state.read(notes.of_tasks(self._state_dir, job)) or {}
        caps = [cap for cap in (task.get("cap_mib"), note.get("allotment_mib")) if type(cap) is int and cap > 0]
        known.cap_mib = float(caps[0]) if caps else None
        known.active = True
        return known

    def _job(self, job: int, share: _Share, now: float, spans: Sequence[float]) -> Notice | None:
        """Take some looks' share of a job in."""
        known = self._jobs[job]
        account = known.account
        known.seen, known.dirty = now, True
        known.mib = _sum(share.mib.values())
        rose = known.mib is not None and (account.peak_mib is None or known.mib >= account.peak_mib + 1)
        if known.mib is not None:
            account.peak_mib = max(account.peak_mib or 0.0, known.mib)
        for place, seconds in enumerate(spans):
            if seconds > 0:
                account.seconds += seconds
                for key in SERIES:
                    found = [fraction * looks[place][key] for fraction, looks in share.values if key in looks[place]]
                    if found:
                        account.series[key].add(sum(found) / len(found), seconds)
        if share.joules is not None:
            account.energy_j = (account.energy_j or 0.0) + share.joules
        told = {pid: mib for pid, mib in share.mib.items() if mib is not None}
        notice = self._guard.look(job, known.cap_mib, told)
        if notice is not None:
            known.over += 1
            account.evidence = f"rad-monitor: {notice.message}" if notice.pid is not None else account.evidence
        due = min(self._settings.write_s, max(self._settings.interval_s, _WRITE_PART * account.seconds))
        if rose or notice is not None or now - known.written >= due - 1e-3:
            self._write(job, known, now)
        return notice

    def _idle(self, shares: Mapping[int, _Share], now: float) -> None:
        """Jobs without processes: the last counters are written, and a job that has ended is forgotten."""
        for job, known in list(self._jobs.items()):
            for part in known.parts.values():
                if not part.processes:  # else this look's values have made room for themselves
                    part.window.drop(now)
            if job in shares:
                continue
            known.active, known.mib = False, 0.0
            if known.dirty:
                self._write(job, known, now)
            note = notes.of_job(self._state_dir, job)
            if now - known.seen > self._settings.window_s and not os.path.exists(note):  # noqa: PTH110
                del self._jobs[job]
                self._guard.forget(job)
                with contextlib.suppress(OSError):
                    state.remove(counters.path(self._state_dir, job))

    def _write(self, job: int, known: _Job, now: float) -> None:
        known.written, known.dirty = now, False
        try:
            counters.write(self._state_dir, job, known.account)
        except (state.StateError, OSError) as error:
            if self._writable:
                log.warning("counters are not kept for Epilog: %s", error)
            self._writable = False
        else:
            self._writable = True

    def _is_users(self, job: int, uid: int) -> bool:
        """Whether Prolog noted a job as this user's."""
        note = state.read(notes.of_job(self._state_dir, job)) or {}
        return note.get("uid") == uid

    def view(self) -> View:
        """Everything as it is now: nothing that the last look has not seen, or where it was too long ago."""
        with self._lock:
            age = abs(self._clock() - self._taken)
            if age > max(self._settings.stale_s, _STALE_LOOKS * self._settings.interval_s):
                return View(self._backend.name, (), (), self._looks, self._taken)
            gpus = tuple(gpu.view() for gpu in self._gpus.values() if gpu.seen == self._last)
            jobs = tuple(known.view(job) for job, known in sorted(self._jobs.items()) if known.active)
            return View(self._backend.name, gpus, jobs, self._looks, self._taken)


def _sum(amounts: Iterable[float | None]) -> float | None:
    """Their sum, or None where one of them is not known."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _residents(reading: Reading, owners: Mapping[int, int | None]) -> dict[int | None, list[int]]:
    residents: dict[int | None, list[int]] = {}
    for use in reading.processes or ():
        if use.pid in owners:
            residents.setdefault(owners[use.pid], []).append(use.pid)
    return residents
