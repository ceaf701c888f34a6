"""The whole measurement, rehearsed on the processor with tiny stand-ins."""

from __future__ import annotations

import json
import math
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from predictor.artifact import ArtifactError
from predictor.collection import conductor, solo
from predictor.collection.conductor import Collector
from predictor.collection.plan import PARTITIONS, Plan
from predictor.collection.resident import Worker, cores_of, mps, workers
from predictor.collection.sessions import NEAR, Course, finish
from predictor.collection.specs import BESIDE_FRESH, FRESH, PARTITIONED, SPECS, Spec, spec_of
from predictor.collection.workloads import build, build_model
from predictor.counters import Counters, NoCounters
from predictor.measurements import family, load_profiles, load_runs, shared
from predictor.types import ProfileError

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("mlp_batch64-train", "bert_batch1-infer")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("spec", (*SPECS, *FRESH), ids=lambda spec: spec.name)
def test_every_workload_takes_a_step(spec: Spec) -> None:
    step = build(spec, "cpu", tiny=True)
    step()
    step()


def test_the_set_is_as_wide_as_it_says() -> None:
    assert len(SPECS) >= 24 and len({spec.name for spec in SPECS}) == len(SPECS)
    assert {spec.kind for spec in SPECS} == {"train", "infer"}
    assert set(PARTITIONED) <= {spec.name for spec in SPECS}
    assert len(PARTITIONED) * (len(PARTITIONED) - 1) // 2 >= 30
    assert all(family(spec.name) == spec.family for spec in SPECS)
    with pytest.raises(ValueError, match="family 'none'"):
        build_model(Spec("none_batch1-train", "none", "train", 1))


def test_fresh_workloads_are_of_families_of_their_own() -> None:
    assert not {spec.family for spec in SPECS} & {spec.family for spec in FRESH}
    assert len({spec.family for spec in FRESH}) >= 4
    assert {spec.name for spec in SPECS} >= set(BESIDE_FRESH)
    with pytest.raises(ProfileError, match="no workload is called 'none'"):
        spec_of("none")


def test_plan_covers_every_pair_once_and_the_rest_as_asked() -> None:
    fresh = tuple(spec.name for spec in FRESH)
    plan = Plan(fresh=fresh, first=("lstm_batch16-train",))
    jobs = plan.colocations()
    count = len(plan.names)
    pairs = [frozenset(group) for kind, group, repeat in jobs if kind == "pair" and not repeat]
    assert len(pairs) == len(set(pairs))
    assert sum(not pair & set(fresh) for pair in pairs) == count * (count - 1) // 2
    assert sum(pair <= set(fresh) for pair in pairs) == len(fresh) * (len(fresh) - 1) // 2
    assert sum(bool(pair & set(fresh)) for pair in pairs) == 28 + len(fresh) * len(BESIDE_FRESH)
    assert sorted(group[0] for kind, group, _ in jobs if kind == "self") == sorted(plan.every)
    assert sum(1 for kind, _, _ in jobs if kind == "triple") == 60
    assert sum(repeat for _, _, repeat in jobs) == 20
    assert len(plan.chosen_pairs()) == 30
    urgent = [bool({*fresh, "lstm_batch16-train"} & set(group)) for kind, group, _ in jobs if kind != "self"]
    assert urgent == sorted(urgent, reverse=True), "what comes first by the plan comes first"
    sides = [group[0] for kind, group, _ in jobs if kind == "pair"]
    assert len(set(sides)) == len(plan.every), "any workload may be the first side"


def test_a_rate_counts_iterations_under_way_in_part() -> None:
    course = Course(10.0, (11.0, 12.0, 12.5, 13.0))
    assert course.rate(11.0, 12.0) == pytest.approx(1.0)
    assert course.rate(10.5, 11.5) == pytest.approx(1.0)
    assert course.rate(11.5, 12.75) == pytest.approx(2.0 / 1.25)
    assert Course(10.0, ()).rate(11.0, 12.0) == 0.0


def test_sides_are_bound_to_cores_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(2, 18)))
    assert [cores_of(side) for side in range(3)] == [[2, 3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13]]
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1})
    assert cores_of(0) == []


def test_a_worker_loads_and_drops_keeps_its_threads_on_its_cores_and_is_not_waited_for_for_ever() -> None:
    kept = sorted(os.sched_getaffinity(0))
    with workers([()], "cpu", tiny=True) as (worker,):

        def moments(length_s: float) -> list[float]:
            worker.send(do="window", name=NAMES[0], begin=0.0, end=time.monotonic() + length_s, cores=kept[:1])
            found: list[float] = worker.receive(60)["moments"]
            return found

        worker.send(do="load", name=NAMES[0])
        assert worker.receive(60) == {"ready": {NAMES[0]: 0.0}}
        assert any(map(moments, (0.05, 0.5, 5.0, 30.0)))  # on a busy machine a short window is over before it begins
        threads = Path(f"/proc/{worker.process.pid}/task").iterdir()
        assert all(os.sched_getaffinity(int(thread.name)) == {kept[0]} for thread in threads)
        worker.send(do="kernels", name=NAMES[0], iterations=2)
        assert worker.receive(60)["launches"] == 0.0
        worker.send(do="drop", name=NAMES[0])
        assert worker.receive(60) == {"dropped": NAMES[0]}
        begin = time.monotonic()
        with pytest.raises(ProfileError, match="no answer within"):
            worker.receive(0.2)
        assert time.monotonic() - begin < 5
        with pytest.raises(ProfileError, match="no answer"):
            worker.require()


def test_time_taken_by_other_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stat_file = tmp_path / "stat"
    monkeypatch.setattr(conductor, "STAT", stat_file)
    stat_file.write_text("cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n", encoding="ascii")
    assert conductor.stolen_s() == pytest.approx(250 / os.sysconf("SC_CLK_TCK"))
    stat_file.unlink()
    assert conductor.stolen_s() == 0.0


def test_a_workload_as_a_program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    here = ("--device", "cpu", "--tiny")
    solo.main([NAMES[0], *here, "--say", "line", "--iterations", "3"])
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["step 1", "step 2", "step 3"]
    monkeypatch.setenv("RAD_PROFILE_MARKER", "1")
    solo.main([NAMES[0], *here, "--iterations", "2"])
    assert capsys.readouterr().out == "rad: iteration\n" * 2
    with pytest.raises(RuntimeError, match="as it was told to"):
        solo.main([NAMES[0], *here, "--say", "nothing", "--fail-after-s", "0"])
    assert capsys.readouterr().out == ""


class Fixed(NoCounters):
    """A processor has no counters of a GPU."""

    def stop(self) -> Counters:
        return Counters(**COUNTERS)


def test_rehearsal_from_processes_to_tables(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    plan = Plan(window_s=0.15, names=NAMES, partitioned=NAMES, triples=1, pairs_again=1, repeats=1)
    said: list[str] = []
    collector = Collector(plan, "cpu", Fixed(), raw, tiny=True, say=said.append)
    collector.shared({})
    rows = [json.loads(line) for line in raw.read_text(encoding="utf-8").splitlines()]
    kinds = [row["kind"] for row in rows]
    assert "failed" not in kinds
    assert kinds.count("alone") == 4 and kinds.count("pair") == 2 + len(NAMES)
    assert all(rate > 0 for row in rows for rate in row.get("rates", ()))
    assert finish([[raw]], tmp_path) == (2, 4)
    pairs = [row for repeat in (0, 1) for row in shared(load_runs(tmp_path), 2, repeat)]
    assert len(pairs) == 4 and all(side.progress > 0 for row in pairs for side in row.sides)
    assert any("workers ready" in text for text in said)


def test_partitions_and_slicing_need_a_process_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "raw.jsonl"
    asked: list[tuple[tuple[str, ...], str]] = []

    class Instant(Worker):
        def __init__(self, names: object, device: str, tiny: bool, environment: dict[str, str]) -> None:
            asked.append((tuple(names), environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "")))  # type: ignore[arg-type]
            self.names, self.failure = tuple(names), ""  # type: ignore[arg-type]
            self.reserved_mib, self.sent = dict.fromkeys(self.names, 1.0), []  # type: ignore[var-annotated]
            self.ready = False

        def send(self, **command: object) -> None:
            self.sent.append(command["do"])

        def receive(self, timeout_s: float) -> dict[str, object]:
            if not self.sent:
                return {"ready": self.reserved_mib}
            if self.sent[-1] == "kernels":
                return {"launches": 4.0, "iterations": 2, "threads": 100.0, "busy_us": 1.0, "elapsed_s": 1.0}
            return {"begun": 0.0, "moments": [1e9]}

        def dismiss(self) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr("predictor.collection.resident.Worker", Instant)
    plan = Plan(window_s=0.01, names=NAMES, partitioned=NAMES, pairs_again=1)
    collector = Collector(plan, "cpu", NoCounters(), raw)
    collector.partitioned({"A": "b"})
    shares = {share for partition in PARTITIONS for share in partition}
    assert sorted(asked) == sorted(((name,), str(share)) for name in NAMES for share in shares)
    collector.sliced()
    collector.traced()
    asked.clear()
    three = (*NAMES, "dlrm_batch512-train")
    pairs = ((three[0], three[1]),), ((three[0], three[2]), (three[1], three[2]))
    swept = Collector(replace(plan, swept=pairs[0], newcomers=pairs[1]), "cpu", NoCounters(), tmp_path / "swept")
    monkeypatch.setattr(conductor, "MAX_CLIENTS", 16)
    swept.swept({})
    every, few = {"10", "30", "50", "70", "90", "100"}, {"30", "50", "70", "100"}
    assert len(asked) == 16
    assert all(share in (every if set(names) <= set(NAMES) else few) for names, share in asked)
    asked.clear()
    monkeypatch.setattr(conductor, "MAX_CLIENTS", 12)
    swept.swept({})
    assert len(asked) == 12 + 12, "the pairs that one batch has no room for are swept in another"
    lines = [json.loads(line) for line in (tmp_path / "swept").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 2 * (12 + 7 + 7)
    assert {tuple(row["shares"]) for row in lines if row["workloads"] == list(pairs[1][0])} == {
        (100, 100), (100, 30), (30, 100), (100, 50), (50, 100), (100, 70), (70, 100),
    }  # fmt: skip
    assert {row["method"] for row in lines} == {"swept"} and all(len(row["alone"]) == 2 for row in lines)
    rows = [json.loads(line) for line in raw.read_text(encoding="utf-8").splitlines()]
    assert [row["shares"] for row in rows if row["kind"] == "pair" and "shares" in row] == [list(p) for p in PARTITIONS]
    assert [row["method"] for row in rows if row["kind"] == "pair"][-1] == "slicing"
    assert sum(row["kind"] == "kernels" for row in rows) == len(NAMES)


def test_a_worker_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    with workers([("no_such_workload",), (NAMES[0],)], "cpu", tiny=True) as (bad, good):
        collector = Collector(Plan(window_s=0.1), "cpu", NoCounters(), raw, tiny=True)
        now = time.monotonic()
        with pytest.raises(ProfileError, match="no workload is called 'no_such_workload'"):
            collector.together([(good, NAMES[0], now, now + 0.1), (bad, "no_such_workload", now, now + 0.1)])
        now = time.monotonic()
        (course,) = collector.together([(good, NAMES[0], now, now + 0.1)])
        assert course.rate(now, now + 0.1) > 0
        good.process.kill()
        good.process.wait()
        with pytest.raises(ProfileError):
            collector.together([(good, NAMES[0], now, now + 0.1)])


def test_a_plan_whose_time_is_over_leaves_colocations_out(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    plan = Plan(window_s=0.05, names=NAMES[:1], triples=0, repeats=0, budget_s=0.0)
    said: list[str] = []
    Collector(plan, "cpu", NoCounters(), raw, tiny=True, say=said.append).shared({})
    assert "time is over after 0 of 1 colocations" in said
    assert {json.loads(line)["kind"] for line in raw.read_text(encoding="utf-8").splitlines()} == {"alone"}


def test_mps_daemon_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "calls"
    fake = tmp_path / "nvidia-cuda-mps-control"
    fake.write_text(f'#!/bin/sh\necho "$1 $CUDA_MPS_PIPE_DIRECTORY" >> {log}\n[ "$1" = -d ] || cat >> {log}\n', "utf-8")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with mps(tmp_path / "daemon") as environment:
        assert Path(environment["CUDA_MPS_PIPE_DIRECTORY"]).is_dir()
    lines = log.read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"-d {environment['CUDA_MPS_PIPE_DIRECTORY']}" and lines[-1] == "quit"


COUNTERS = {"smact": 0.5, "smocc": 0.2, "tensor": 0.1, "dram": 0.3, "pcie": 0.01, "busy": 0.7, "power_w": 300.0}


def raw_file(path: Path) -> Path:
    rows: list[dict[str, object]] = []
    for name in NAMES:
        row = {"kind": "alone", "workloads": [name], "method": "mps"}
        rows.append({**row, "rates": [10.0], "counters": {**COUNTERS, "used_mib": 1.0}, "reserved_mib": 256.0})
        rows.append({**row, "rates": [12.0], "counters": COUNTERS, "reserved_mib": 256.0, "repeat": 1})
        rows.append({**row, "rates": [4.0], "counters": COUNTERS, "reserved_mib": 256.0, "share": 30})
        metrics = {"launches": 50.0, "iterations": 5, "threads": 1e5, "mean_us": 3.0, "turn_us": 7.0}
        rows.append({"kind": "kernels", "workloads": [name], "metrics": metrics})
    pair = {"kind": "pair", "workloads": list(NAMES), "method": "mps"}
    rows.append({**pair, "rates": [5.0, 9.0], "repeat": 0})
    rows.append({**pair, "rates": [5.5, 8.0], "repeat": 1})
    rows.append({**pair, "rates": [3.0, 7.0], "shares": [30, 70]})
    rows.append({**pair, "rates": [0.0, 7.0], "repeat": 2, "window_s": 0.25})
    rows.append({**pair, "rates": [4.0, 6.0], "method": "slicing"})
    rows.append({"kind": "triple", "workloads": [*NAMES, NAMES[0]], "rates": [1.0, 2.0, 3.0], "method": "mps"})
    rows.append({"kind": "failed", "what": "x", "why": "y"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_crossed_pair_is_reckoned_from_what_each_did_alone_in_the_same_run(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    alone = {"kind": "alone", "method": "mps", "counters": COUNTERS, "reserved_mib": 100.0, "rates": [50.0]}
    # The first: 100/s alone, 50/s beside the other, then a slower host. The second comes at 300 ms: 40/s, alone 80/s.
    first = [0.0, *range(10, 301, 10), *range(320, 701, 20), *range(750, 851, 50)]
    second = [300.0, *range(325, 851, 25), *(850 + 12.5 * turn for turn in range(1, 17))]
    spans = {"alone_ms": [100.0, 300.0], "met_ms": [350.0, 850.0], "end_ms": 1050.0}
    pair = {"kind": "pair", "method": "mps", "workloads": list(NAMES), "moments_ms": [first, second], **spans}
    rows = [{**alone, "workloads": [name]} for name in NAMES]
    rows += [pair, {**pair, "workloads": [NAMES[1], NAMES[0]], "moments_ms": [[*first, 1000.0], second], "repeat": 1}]
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    finish([[raw]], tmp_path)
    one, two = shared(load_runs(tmp_path), 2)[0].sides
    assert NEAR == 0.7, "of 500 ms, the 350 ms at either end"
    assert (one.profile.throughput, two.profile.throughput) == pytest.approx((100.0, 80.0))
    assert (one.progress, two.progress) == pytest.approx((0.5, 0.5))
    typical = load_profiles(tmp_path)[NAMES[0]]
    assert one.profile.smact == pytest.approx(min(typical.smact * 100.0 / typical.throughput, 1.0), rel=1e-4)
    (late,) = shared(load_runs(tmp_path), 2, repeat=1)
    assert late.sides[1].profile.throughput == typical.throughput, "never alone long enough: what it is otherwise"


def test_tables_hold_what_was_measured(tmp_path: Path) -> None:
    assert finish([[raw_file(tmp_path / "raw.jsonl")]], tmp_path / "data") == (2, 8)
    found = load_profiles(tmp_path / "data")[NAMES[0]]
    assert found.throughput == 11.0
    # What an iteration keeps busy, at the typical pace.
    pace = (11.0 / 10.0 + 11.0 / 12.0) / 2.0
    assert (found.smact, found.busy) == pytest.approx((0.5 * pace, 0.7 * pace), rel=1e-5)
    assert found.power_w == 300.0
    assert found.memory_mib == 256.0 + 744.0
    assert found.kernel.launches_per_s == 110.0 and found.kernel.turn_us == 7.0
    assert math.isnan(found.kernel.registers)
    runs = load_runs(tmp_path / "data")
    assert [side.throughput for side in shared(runs, 2)[0].sides] == [5.0, 9.0]
    assert len(shared(runs, 2)) == len(shared(runs, 2, repeat=1)) == len(shared(runs, 3)) == 1
    assert [run.threads for run in runs if run.method == "mps" and len(run.threads) == 2][2] == (30, 70)
    assert sum(run.method == "slicing" for run in runs) == 1
    assert [side.throughput for side in shared(runs, 2, repeat=2)[0].sides] == [2.0, 7.0], "half an iteration"


def test_a_later_session_takes_the_place_of_what_it_measured_again(tmp_path: Path) -> None:
    first, then = raw_file(tmp_path / "first.jsonl"), tmp_path / "then.jsonl"
    new = "swin_batch1-infer"
    alone = {"kind": "alone", "method": "mps", "counters": {**COUNTERS, "smact": 0.25}, "reserved_mib": 100.0}
    pair = {"kind": "pair", "method": "mps", "repeat": 0, "window_s": 0.5}
    rows: list[dict[str, object]] = [{**alone, "workloads": [name], "rates": [20.0]} for name in (*NAMES, new)]
    second = {**pair, "repeat": 1}  # the first was cut away
    rows.append({**second, "workloads": [NAMES[1], NAMES[0]], "rates": [6.0, 10.0], "alone": [24.0, None]})
    rows.append({**pair, "workloads": [new, NAMES[0]], "rates": [5.0, 5.0], "alone": [20.0, 20.0]})
    then.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert finish([[first], [then]], tmp_path, {new}) == (3, 10)
    found, runs = load_profiles(tmp_path), load_runs(tmp_path)
    assert new not in found and found[NAMES[1]].throughput == 22.0, "between what it reached alone at two moments"
    assert found[NAMES[0]].smact == 0.25 and found[NAMES[0]].kernel.turn_us == 7.0, "traced in the first session only"
    (again,) = shared(runs, 2)
    assert not shared(runs, 2, repeat=1), "its repeat was of the earlier session"
    assert sum(run.session == 0 and set(run.threads) == {100} and len(run.threads) == 2 for run in runs) == 4
    assert [side.progress for side in again.sides] == pytest.approx([6.0 / 24.0, 10.0 / 20.0])
    (three,) = shared(runs, 3)
    assert [side.progress for side in three.sides] == pytest.approx([1 / 11, 2 / 11, 3 / 11]), "of its own session"
    judged = shared(load_runs(tmp_path / "fresh"), 2)
    assert [row.workloads for row in judged] == [(new, NAMES[0])]
    assert set(load_profiles(tmp_path / "fresh")) == {*NAMES, new}


def test_tables_that_do_not_fit_together(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ArtifactError, match="line 1: not a measurement"):
        finish([[raw]], tmp_path)
    with pytest.raises(ArtifactError, match="cannot be read"):
        finish([[tmp_path / "absent"]], tmp_path)
    finish([[raw_file(raw)]], tmp_path)
    table = tmp_path / "workloads.csv"
    table.write_text("\n".join(table.read_text(encoding="utf-8").splitlines()[:2]) + "\n", encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"not in workloads\.csv"):
        load_runs(tmp_path)


@pytest.mark.parametrize(
    ("table", "old", "new", "says"),
    [
        ("workloads.csv", "infer,11,", "infer,0,", "'throughput': 0, it must be above 0"),
        ("workloads.csv", "mlp_batch64-train,", "bert_batch1-infer,", "stands in an earlier line, too"),
        ("workloads.csv", "smact", "busyness", "smact is nan, it must lie between 0 and 1"),
        ("workloads.csv", "workload", "name", "column 'workload' is missing"),
        ("colocations.csv", "method", "way", "column 'method' is missing"),
        ("colocations.csv", "30,,,4,", "30,,,0,", "'throughput1': 0, it must be above 0"),
        ("colocations.csv", "30,,,4,", "0,,,4,", "'threads1': 0, it must be a whole percentage from 1 to 100"),
        ("colocations.csv", "30,,,4,", "30.5,,,4,", "'threads1': 30.5, it must be a whole percentage"),
    ],
)
def test_measurements_that_cannot_be_are_named(tmp_path: Path, table: str, old: str, new: str, says: str) -> None:
    finish([[raw_file(tmp_path / "raw.jsonl")]], tmp_path)
    path = tmp_path / table
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ArtifactError, match=says) as caught:
        load_runs(tmp_path)
    assert str(caught.value).startswith(f"{path}: line ")
    path.write_text(f"\ufeff{text}", encoding="utf-8")  # as a spreadsheet saves it
    assert load_runs(tmp_path)
