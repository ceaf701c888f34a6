"""What radd learns from ended jobs, and that it learns it once, in the background, from the right ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from slurm_hooks.config import Config, parse
from slurm_hooks.experience import KEPT_MODELS, KEPT_RUNS, Measured, learn
from slurm_hooks.radd.learner import Learner
from slurm_hooks.records import Record, Run, encode
from slurm_hooks.service import Service
from slurm_hooks.slurm.accounting import JobRun
from slurm_hooks.slurm.commands import SlurmError

RUN = Run(start=100, end=200, outcome="completed", peak_mib=5000, smact_mean=0.5, dram_mean=0.2)
RECORD = Record("share", fingerprint="f", runs=(RUN,))


def job(record: Record | None, job_id: int = 7, user: str = "alice") -> JobRun:
    comment = encode(record) if record else "JS1:x"
    return JobRun(
        job_id, str(job_id), user, "a", "gpu", "COMPLETED", 0, 100, 200, 100, {}, {}, 0, 0, "n1", "j", comment
    )


def test_runs_that_tell() -> None:
    known = learn({}, [job(RECORD), job(None), job(replace(RECORD, fingerprint=""))])
    assert known == {("alice", "f"): (Measured((7, 200), 5000.0, 0.5, None, 0.2),)}
    assert learn(known, [job(RECORD)]) == known


@pytest.mark.parametrize("user", ["", "nobody"])
def test_users_of_whom_nothing_is_known_learn_nothing_from_each_other(user: str) -> None:
    assert learn({}, [job(RECORD, user=user)]) == {}


@pytest.mark.parametrize(
    ("run", "counts"),
    [
        (replace(RUN, outcome="failed", start=1000, end=1299), False),
        (replace(RUN, outcome="failed", start=1000, end=1300), True),
        (replace(RUN, outcome="oom_requeued", end=500), False),
        (replace(RUN, peak_mib=None), False),
        (replace(RUN, end=None), False),
        (replace(RUN, start=None, outcome="failed"), False),
    ],
)
def test_which_runs_count(run: Run, counts: bool) -> None:
    assert bool(learn({}, [job(replace(RECORD, runs=(run,)))])) is counts


def test_activity_beside_neighbours_is_not_the_jobs_own() -> None:
    known = learn({}, [job(replace(RECORD, runs=(replace(RUN, neighbours=(9,)),)))])
    assert known["alice", "f"][0].smact is None


def test_activity_beyond_all_of_a_gpu_is_all_of_it() -> None:
    known = learn({}, [job(replace(RECORD, runs=(replace(RUN, smact_mean=1.02, dram_mean=-0.01),)))])
    assert (known["alice", "f"][0].smact, known["alice", "f"][0].dram) == (1.0, 0.0)


def test_the_latest_runs_are_kept() -> None:
    jobs = [job(replace(RECORD, runs=(replace(RUN, end=200 + n),)), job_id=n) for n in range(KEPT_RUNS + 5)]
    kept = learn({}, reversed(jobs))["alice", "f"]
    assert [m.key[0] for m in kept] == list(range(5, KEPT_RUNS + 5))


def test_nobody_fills_radds_memory_with_models() -> None:
    known = learn({}, [job(RECORD, user="bob")])
    for n in reversed(range(KEPT_MODELS + 5)):
        record = replace(RECORD, fingerprint=f"f{n}", runs=(replace(RUN, end=200 + n),))
        known = learn(known, [job(record, job_id=n)])
    assert len(known) == KEPT_MODELS + 1
    assert ("bob", "f") in known, "another user's is let alone"
    assert ("alice", "f4") not in known and ("alice", "f5") in known, "the latest are kept"


class Books:
    """An accounting that keeps what it was asked."""

    def __init__(self, *answers: list[JobRun] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []

    def runs(self, since: int, until: int, user: str = "") -> list[JobRun]:
        self.asked.append((since, until))
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer

    def runs_of(self, job: str) -> list[JobRun]:
        return []


class Nothing:
    name = "nothing"


CONFIG: Config = parse({"partitions": {"gpu": {}}, "radd": {"learn_days": 2}}, "test")
DAY = 86_400


def test_a_day_at_a_time_then_what_is_new(caplog: pytest.LogCaptureFixture) -> None:
    now = [10 * DAY + 0.5]
    books = Books([job(RECORD)], SlurmError("sacct: no"), SlurmError("sacct: no"))
    service = Service(CONFIG, Nothing())  # type: ignore[arg-type]
    learner = Learner(CONFIG, service, books, lambda: now[0])
    assert [learner.once() for _ in range(4)] == [True, False, False, False]
    now[0] += 300
    assert learner.once() is False
    assert books.asked == [
        (8 * DAY, 9 * DAY),
        (9 * DAY, 10 * DAY),
        (9 * DAY, 10 * DAY),
        (9 * DAY, 10 * DAY),
        (10 * DAY - 3600, 10 * DAY + 300),
    ]
    assert [r.message for r in caplog.records] == ["slurmdbd does not answer, nothing is learned meanwhile: sacct: no"]
    assert service.experience["alice", "f"][0].peak_mib == 5000.0


def test_a_clock_that_was_ahead_and_is_set_right() -> None:
    now = [13.0 * DAY]
    books = Books([], [], [], [])
    learner = Learner(CONFIG, Service(CONFIG, Nothing()), books, lambda: now[0])  # type: ignore[arg-type]
    assert [learner.once(), learner.once()] == [True, False]
    now[0] = 10.0 * DAY
    assert [learner.once(), learner.once()] == [False, False]
    assert books.asked[2:] == [(10 * DAY - 3600, 10 * DAY)] * 2


def test_what_ended_while_slurmdbd_was_away_is_looked_at_once_more() -> None:
    now = [10.0 * DAY]
    books = Books([], [], SlurmError("sacct: no"), SlurmError("sacct: no"))
    learner = Learner(CONFIG, Service(CONFIG, Nothing()), books, lambda: now[0])  # type: ignore[arg-type]
    learner.once()
    for passed in (0, 300, 9000, 300, 300, 300):
        now[0] += passed
        assert learner.once() is False
    since = [asked[0] - 10 * DAY for asked in books.asked[2:]]
    assert since == [-3600, -3600, -3600, 300 - 3600, 9900 - 3600]


def test_learning_goes_on_whatever_a_look_met(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(CONFIG, Nothing())  # type: ignore[arg-type]
    config = replace(CONFIG, radd=replace(CONFIG.radd, learn_s=0.0))
    learner = Learner(config, service, Books(ZeroDivisionError("a fault of ours"), [job(RECORD)]), lambda: 10.0 * DAY)

    async def run() -> None:
        task = asyncio.create_task(learner.run())
        while not service.experience and not task.done():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert service.experience["alice", "f"][0].peak_mib == 5000.0
    assert "records could not be learned from" in caplog.text


def test_slurmdbd_is_asked_as_often_as_the_site_says_once_all_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise asyncio.CancelledError

    monkeypatch.setattr("slurm_hooks.radd.learner.asyncio.sleep", sleep)
    config = replace(CONFIG, radd=replace(CONFIG.radd, learn_days=2, learn_s=300.0))
    books = Books([], [], SlurmError("sacct: no"), [])
    learner = Learner(config, Service(CONFIG, Nothing()), books, lambda: 10.0 * DAY)  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(learner.run())
    assert pauses == [1.0, 300.0, 300.0, 300.0]
