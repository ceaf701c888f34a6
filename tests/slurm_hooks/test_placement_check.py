"""Predicted progress beside what jobs did, from records made up here."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_hooks import placement_check as checking
from slurm_hooks.placement_check import Check, Side
from slurm_hooks.radctl import placement as command
from slurm_hooks.radctl.main import cli
from slurm_hooks.records import Record, Run
from slurm_hooks.report import jobs_of
from slurm_hooks.slurm.accounting import JobRun
from tests.slurm_hooks.jobs import HOUR, NOON, job_run

DAY = (NOON - 24 * HOUR, NOON + 24 * HOUR)


def _record(
    name: str = "bert",
    residents: Sequence[int] = (),
    progress: float | None = None,
    theirs: Sequence[float] = (),
    **more: Any,
) -> Record:
    return Record(
        **{
            "action": "share",
            "asked": "gpu:1",
            "policy": "magm",
            "fingerprint": f"of {name}",
            "share": 40,
            "pin": "g2",
            "node": "node07",
            "residents": tuple(residents),
            "progress": progress,
            "residents_progress": tuple(theirs),
            **more,
        }
    )


def _run(number: int, record: Record | None, start: int, length: int, **more: Any) -> JobRun:
    """Job `number`, from `start` seconds after noon; its name is its work's, its neighbours' device g2."""
    name = record.fingerprint if record is not None else "plain"
    times = {"start": NOON + start, "end": NOON + start + length, "elapsed_s": length, "submit": NOON + start - 1}
    return job_run(record, **{"job_id": number, "name": name, **times, **more})


def _alone(number: int, name: str = "bert", length: int = 1000, **more: Any) -> JobRun:
    """A run long before noon."""
    return _run(number, _record(name), -20 * HOUR + number * 4000, length, **more)


def _check(*runs: JobRun, least: float = 0.5) -> Check:
    return checking.check(jobs_of(runs), *DAY, least)


NEWCOMER = _record("bert", [1], 0.8, [0.7])


def _pair(record: Record = NEWCOMER, length: int = 2000, **more: Any) -> list[JobRun]:
    """Job 2 beside job 1, which was there before and stays longer."""
    return [_run(1, _record("gpt"), -100, 2300), _run(2, record, 0, length, **more)]


def test_both_sides_of_a_pair() -> None:
    made = _check(_alone(11), _alone(12, "gpt", 1300), *_pair())
    # Job 2: 1000 s of work took 2000 s. Job 1: of 2300 s it was alone in 300; 1000 s of work took the other 2000.
    assert made.sides == (Side(2, (1,), "magm", 0.8, 0.5), Side(1, (2,), "magm", 0.7, 0.5))
    (row,) = made.rows
    assert (row.placement, row.placed, row.sides, row.compared) == ("magm", 1, 2, 2)
    assert (row.predicted, row.measured, row.error, row.bias) == (0.75, 0.5, 0.25, 0.25)
    assert (row.under, row.compared_under, row.measured_under) == (0, 0, 0)
    assert not made.not_compared
    assert [(b.low, b.high, b.sides, b.predicted, b.measured) for b in made.bins] == [
        (0.7, 0.8, 1, 0.7, 0.5),
        (0.8, 0.9, 1, 0.8, 0.5),
    ]


def test_under_the_least_progress() -> None:
    made = _check(_alone(11), _alone(12, "gpt", 1300), *_pair(_record("bert", [1], 0.55, [0.9])), least=0.6)
    assert (made.total.under, made.total.compared_under, made.total.measured_under) == (1, 1, 2)


def test_policies_apart_and_together() -> None:
    other = _record("vit", [3], 1.0, [1.0], policy="kace")
    more = [_run(3, _record("gpt"), 5 * HOUR, 1300), _run(4, other, 5 * HOUR, 1000)]
    made = _check(_alone(11), _alone(12, "gpt", 1300), _alone(13, "vit"), *_pair(), *more)
    assert [(row.placement, row.placed, row.compared, row.error) for row in made.rows] == [
        ("kace", 1, 2, 0.0),
        ("magm", 1, 2, 0.25),
    ]
    assert (made.total.placed, made.total.compared, made.total.error) == (2, 4, 0.125)
    assert made.bins[-1] == checking.Bin(0.9, 1.0, 2, 1.0, 1.0)


def test_three_on_one_gpu() -> None:
    third = _record("vit", [1, 2], 0.5, [0.4, 0.45])
    runs = [_run(1, _record("gpt"), 0, 2000), _run(2, _record("bert"), 0, 2000), _run(3, third, 0, 2000)]
    made = _check(*(_alone(n, name) for n, name in ((11, "gpt"), (12, "bert"), (13, "vit"))), *runs)
    assert [(side.job, side.neighbours, side.measured) for side in made.sides] == [
        (3, (1, 2), 0.5),
        (1, (3, 2), 0.5),
        (2, (3, 1), 0.5),
    ]


def _why(*runs: JobRun) -> str:
    """Why the newcomer, job 2, could not be compared."""
    made = _check(*runs)
    (side,) = (side for side in made.sides if side.job == 2)
    assert side.measured is None
    assert sum(made.not_compared.values()) == sum(one.measured is None for one in made.sides)
    return side.why


def test_no_run_alone() -> None:
    assert _why(*_pair()) == checking.NEVER_ALONE
    assert _why(_alone(11, "vit"), *_pair()) == checking.NEVER_ALONE


@pytest.mark.parametrize(
    "other",
    [
        {"user": "bob"},
        {"name": "another"},
        {"partition": "big"},
        {"state": "FAILED"},
        {"elapsed_s": 900},
        {"length": 30},
    ],
)
def test_a_run_alone_of_other_work_is_none(other: dict[str, Any]) -> None:
    assert _why(_alone(11, **other), *_pair()) == checking.NEVER_ALONE


@pytest.mark.parametrize("other", [{"batch_size": 8}, {"gpu": "a100"}, {"optimizer": "sgd"}, {"fingerprint": "x"}])
def test_other_settings_are_other_work(other: dict[str, Any]) -> None:
    alone = _run(11, _record("bert", **other), -20 * HOUR, 1000, name="of bert")
    assert _why(alone, *_pair()) == checking.NEVER_ALONE


def test_alone_is_what_slurm_and_the_monitor_say() -> None:
    beside = _run(12, _record("vit"), -20 * HOUR + 11 * 4000, 1000)
    assert _why(_alone(11), beside, *_pair()) == checking.NEVER_ALONE
    apart = _run(12, _record("vit"), -20 * HOUR + 11 * 4000, 1000, allocated={"gres/mps:g1": 40})
    assert _check(_alone(11), apart, *_pair()).total.compared == 1
    # Nobody knows which GPU of the node that one had.
    unknown = _run(12, _record("vit", pin=""), -20 * HOUR + 11 * 4000, 1000, allocated={"gres/mps": 40})
    assert _why(_alone(11), unknown, *_pair()) == checking.NEVER_ALONE
    plain = _run(12, None, -20 * HOUR + 11 * 4000, 1000, allocated={"gres/mps": 40})
    assert _why(_alone(11), plain, *_pair()) == checking.NEVER_ALONE
    begin = NOON - 20 * HOUR + 11 * 4000
    seen = _record("bert", runs=(Run(start=begin, end=begin + 1000, neighbours=(77,)),))
    assert _why(_run(11, seen, -20 * HOUR + 11 * 4000, 1000), *_pair()) == checking.NEVER_ALONE


def test_runs_alone_that_differ_are_no_measure() -> None:
    assert _why(_alone(11), _alone(12, length=1300), *_pair()) == checking.UNSTEADY
    steady = _check(_alone(11), _alone(12, length=1100), *_pair())
    assert steady.sides[0].measured == 1050 / 2000


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"state": "FAILED"}, checking.NOT_ENDED),
        ({"state": "RUNNING", "end": None}, checking.NOT_ENDED),
        ({"elapsed_s": 1500}, checking.SUSPENDED),
        ({"length": 50}, checking.SHORT),
        ({"length": 800}, checking.NOT_THE_SAME),
        ({"nodes": "node08"}, checking.ELSEWHERE),
        ({"allocated": {"gres/mps:g1": 40}}, checking.ELSEWHERE),
        ({"allocated": {"gres/gpu": 1}, "nodes": ""}, checking.NOT_ENDED),
    ],
)
def test_a_newcomer_whose_time_tells_nothing(given: dict[str, Any], why: str) -> None:
    assert _why(_alone(11), *_pair(**given)) == why


def test_a_little_faster_than_alone_is_as_fast() -> None:
    assert _check(_alone(11), *_pair(length=950)).sides[0].measured == 1.0


def test_work_that_nothing_names() -> None:
    assert _why(_alone(11), *_pair(_record("bert", [1], 0.8, [0.7], fingerprint=""))) == checking.NO_WORK


def test_neighbours_other_than_predicted() -> None:
    assert _why(_alone(11), *_pair(_record("bert", [1, 0], 0.8, [0.7, 0.6]))) == checking.UNKNOWN_NEIGHBOUR
    third = _run(5, _record("vit"), 500, 1000)
    assert _why(_alone(11), third, *_pair()) == checking.OTHERS
    gone = [_run(1, _record("gpt"), -2000, 2500), _run(2, NEWCOMER, 0, 2000)]
    assert _why(_alone(11), *gone) == checking.OTHERS
    seen = (Run(start=NOON, end=NOON + 2000, neighbours=(1, 77)),)
    assert _why(_alone(11), *_pair(_record("bert", [1], 0.8, [0.7], runs=seen))) == checking.UNKNOWN_NEIGHBOUR


def test_how_much_may_differ_from_what_was_predicted() -> None:
    def why(*runs: JobRun) -> str:
        return next(side.why for side in _check(*runs).sides if side.job == 2)

    def passing(begin: int, length: int) -> JobRun:
        return _run(5, _record("vit"), begin, length)

    def resident(end: int) -> list[JobRun]:
        return [_run(1, _record("gpt"), -100, 100 + end), _run(2, NEWCOMER, 0, 1800)]

    alone = -20 * HOUR + 11 * 4000  # when job 11 begins
    assert why(_alone(11), passing(500, 200), *_pair()) == ""
    assert why(_alone(11), passing(500, 201), *_pair()) == checking.OTHERS
    assert why(_alone(11), *resident(900)) == ""
    assert why(_alone(11), *resident(899)) == checking.OTHERS
    assert why(_alone(11), passing(alone + 500, 49), *_pair()) == ""
    assert why(_alone(11), passing(alone + 500, 51), *_pair()) == checking.NEVER_ALONE
    assert why(_alone(11), _alone(12, length=1200), *_pair()) == ""
    assert why(_alone(11), _alone(12, length=1201), *_pair()) == checking.UNSTEADY
    assert why(_alone(11), *_pair(elapsed_s=1999)) == ""


def test_slurm_that_accounts_for_no_types_of_devices() -> None:
    untyped = {"allocated": {"gres/mps": 40}}
    runs = [_run(1, _record("gpt"), -100, 2300, **untyped), _run(2, NEWCOMER, 0, 2000, **untyped)]
    assert _check(_alone(11), *runs).sides[0].measured == 0.5
    whole = _run(5, None, 0, 2000, allocated={"gres/gpu": 1})
    assert _check(_alone(11), whole, *runs).sides[0].measured == 0.5
    # A job whose GPU nobody knows may be beside any of the node's.
    unknown = _run(11, _record("bert", pin=""), -20 * HOUR, 1000, **untyped)
    assert _check(unknown, *runs).sides[0].measured == 0.5
    apart = _run(12, _record("vit"), -20 * HOUR, 1000, allocated={"gres/mps:g1": 40})
    assert _why(unknown, apart, *runs) == checking.NEVER_ALONE


def test_residents_that_cannot_be_compared() -> None:
    def why(*runs: JobRun) -> str:
        return next(side.why for side in _check(*runs).sides if side.job == 1)

    assert why(_alone(12, "gpt", 1300), _pair()[1]) == checking.UNKNOWN_NEIGHBOUR
    early = _run(1, _record("gpt"), -3000, 2000)
    assert why(_alone(12, "gpt", 1300), early, _pair()[1]) == checking.OTHERS


@pytest.mark.parametrize("start", [NOON - 9000, None])
def test_a_requeued_resident_is_meant_as_it_ran_there(start: int | None) -> None:
    first = dataclasses.replace(_run(1, None, -9000, 500, state="REQUEUED"), start=start)
    made = _check(_alone(12, "gpt", 1300), first, *_pair())
    assert made.sides[1].measured == 0.5


@pytest.mark.parametrize("action", ["advised", "shadowed", "exclusive"])
def test_what_was_not_placed_so_is_not_counted(action: str) -> None:
    made = _check(*_pair(_record("bert", [1], 0.8, [0.7], action=action)))
    assert made.total.placed == 0
    assert made.rows == ()
    assert made.total.error is None


def test_the_activity_that_the_predictor_was_given() -> None:
    def given(activity: tuple[float, ...] = (0.7, 0.1), smact: float | None = 0.5, **more: Any) -> JobRun:
        kept = Run(start=NOON, end=NOON + 1000, smact_mean=smact)
        return _run(9, _record("bert", activity=activity, runs=(kept,)), 0, 1000, **more)

    assert _check(given()).activity == checking.Activity(1, 0.2)
    assert _check(given((0.3, 0.1))).activity == checking.Activity(1, 0.2)
    for telling_nothing in (given(()), given(smact=None), given(state="FAILED")):
        assert _check(telling_nothing).activity == checking.Activity(0, None)
    beside = _run(8, _record("gpt"), 0, 1000)
    assert _check(given(), beside).activity == checking.Activity(0, None)


class _Slurm:
    """Stands in for Slurm: what it knows."""

    known: Sequence[JobRun] = ()

    def runs(self, since: int, until: int, user: str = "", *, live: bool = False) -> list[JobRun]:
        assert live
        return list(self.known)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> type[_Slurm]:
    monkeypatch.setattr(command, "SlurmAccounting", _Slurm)
    monkeypatch.setattr(_Slurm, "known", ())
    return _Slurm


def _radctl(*options: str) -> Result:
    return CliRunner().invoke(cli, ["evaluate", "placement", "--since", "2025-12-01", *options])


def test_the_table(slurm: type[_Slurm]) -> None:
    slurm.known = (_alone(11), *_pair(_record("bert", [1], 0.4, [0.7], policy="ma\x1bgm")))
    shown = _radctl()
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.output.splitlines()]
    assert lines[1][:3] == ["placement", "placed", "sides"]
    assert ["ma?gm", "1", "2", "1", "1", "0.40", "0.50", "0.10", "-0.10", "0"] in lines
    assert ["total", "1", "2", "1", "1", "0.40", "0.50", "0.10", "-0.10", "0"] in lines
    assert ["0.0-0.5", "1", "0.40", "0.50"] in lines
    assert f"not compared: 1, {checking.NEVER_ALONE}" in shown.output
    assert "SMACT" not in shown.output
    assert max(map(len, shown.output.splitlines())) <= 100


def test_the_table_tells_of_activity(slurm: type[_Slurm]) -> None:
    kept = Run(start=NOON - 10 * HOUR, end=NOON - 10 * HOUR + 1000, smact_mean=0.5)
    alone = _run(9, _record("bert", activity=(0.7, 0.1), runs=(kept,)), -10 * HOUR, 1000)
    slurm.known = (alone, *_pair())
    assert "SMACT given to the predictor was off by 0.20 (1 runs alone)" in _radctl().output


def test_json_and_csv(slurm: type[_Slurm]) -> None:
    slurm.known = (_alone(11), *_pair(_record("bert", [1], 0.4, [0.7], policy="=x")))
    made = json.loads(_radctl("--json").output)
    assert made["total"]["compared"] == 1
    assert made["min_progress"] == 0.5
    assert made["not_compared"] == {checking.NEVER_ALONE: 1}
    assert made["sides"][0] == {
        "job": 2, "neighbours": [1], "placement": "=x", "predicted": 0.4, "measured": 0.5, "why": "",
    }  # fmt: skip
    (row,) = csv.DictReader(io.StringIO(_radctl("--csv").output))
    assert (row["placement"], row["placed"], row["measured"]) == ("'=x", "1", "0.5")


def test_nothing_to_tell(slurm: type[_Slurm]) -> None:
    assert "no job was placed beside others with a prediction" in _radctl().output
    failed = _radctl("--until", "2025-11-01")
    assert failed.stderr == "radctl: --since 2025-12-01 is not before --until 2025-11-01\n"


def test_shorter_runs_count_if_asked_for(slurm: type[_Slurm]) -> None:
    slurm.known = (_alone(11, length=10), *_pair(length=20))
    assert json.loads(_radctl("--json").output)["total"]["compared"] == 0
    assert json.loads(_radctl("--json", "--min-seconds", "5").output)["total"]["compared"] == 1


class Compared(int):
    """A moment that counts how often it is set against another."""

    times = 0

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < other


def test_a_month_of_jobs_is_compared_with_those_of_its_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compared, "times", 0)
    runs = []
    for number in range(1, 301):
        run = _run(number, _record(), number * 600, 900)
        runs.append(dataclasses.replace(run, start=Compared(run.start or 0)))
    long = _run(400, _record("gpt"), -100, 300 * 600 + 1100)
    made = checking.check(jobs_of([*runs, long]), NOON - HOUR, NOON + 100 * HOUR, 0.5)
    assert made.total.sides == 0
    # Each with the jobs of its own hour, one before and one behind; the long one with all.
    assert 300 <= Compared.times <= 300 * 30
