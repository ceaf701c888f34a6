"""Collections: who gets memory when, what is kept, going on after a break, workers that die."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from estimator.dataset.collect import Collector, Ledger, Options, bundles
from estimator.dataset.raw import FAILURES, ROWS, TRACES, CollectError, LineError, done_ids, read_jsonl
from estimator.dataset.specs import generate_synthetic, spec_from_json


def test_the_ledger_grants_in_order_and_lets_small_claims_pass_for_a_while() -> None:
    ledger = Ledger(100, patience=6)
    ledger.ask(1, 70, now=0)
    assert ledger.grant(0) == [1]
    ledger.ask(2, 60, now=1)
    ledger.ask(3, 20, now=2)
    assert ledger.grant(2) == [3]  # passes worker 2, which has not waited long
    assert ledger.waits(2)
    ledger.ask(4, 5, now=9)
    assert ledger.grant(9) == []  # now worker 2 comes first
    ledger.drop(1)
    assert ledger.grant(9) == [2, 4]


def test_a_new_claim_gives_back_the_old_one_and_nobody_asks_for_more_than_there_is() -> None:
    ledger = Ledger(100)
    ledger.ask(1, 90, now=0)
    ledger.grant(0)
    ledger.ask(1, 1e9, now=1)
    assert ledger.grant(1) == [1]
    assert ledger.held == {1: 100}
    ledger.drop(1)
    assert ledger.held == {}


def test_workloads_of_a_real_model_stay_together() -> None:
    specs = list(generate_synthetic("mlp", 3, 0))
    real = [{**specs[0].to_json(), "source": "timm", "name": "net", "batch_size": b} for b in (1, 2)]
    made = bundles([*specs, *map(spec_from_json, real)])
    assert [len(bundle) for bundle in made] == [1, 1, 1, 2]


def test_a_line_that_was_cut_off_is_left_out_and_a_damaged_one_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a":1}\n\n{"a":2}\n{"a":', "utf-8")
    assert list(read_jsonl(path)) == [{"a": 1}, {"a": 2}]
    path.write_text('{"a":1}\n{"a\n{"a":2}\n', "utf-8")
    with pytest.raises(ValueError, match=r"rows\.jsonl:2: .*delete the line"):
        list(read_jsonl(path))
    for line in ("[" * 100_000, "9" * 5000):  # Python's own limits
        path.write_text(f"{line}\n", "utf-8")
        with pytest.raises(LineError, match=r"rows\.jsonl:1: .*delete the line"):
            list(read_jsonl(path))
    assert list(read_jsonl(tmp_path / "absent")) == []


def answering(pipe: Any, device: str, seconds: float, traces: bool) -> None:
    """Stand in for a worker: every batch size is its result; 13 kills the process, 7 fails, 5 uses it up."""
    left = 0.0
    while True:
        pipe.send(("next", left))
        specs = pipe.recv()
        if specs is None:
            return
        for item in specs:
            spec = spec_from_json(item)
            left = 1028.0 if spec.batch_size == 5 else left
            pipe.send(("claim", spec.id, 50.0))
            assert pipe.recv() == "granted"
            if spec.batch_size == 13:
                os._exit(9)
            if spec.batch_size == 7:
                pipe.send(("failed", spec.id, "seven"))
                continue
            pipe.send(("trace", spec.model_id, {"x": 1}))
            pipe.send(("row", {"spec": item, "status": "ok", "device": device}))


def mute(pipe: Any, device: str, seconds: float, traces: bool) -> None:
    """Stand in for a worker that cannot start."""
    os._exit(1)


def _specs(batches: tuple[int, ...]) -> list[Any]:
    base = next(generate_synthetic("mlp", 1, 0)).to_json()
    return [spec_from_json({**base, "batch_size": b}) for b in batches]


def test_a_collection_survives_failures_and_goes_on_where_it_was(tmp_path: Path) -> None:
    said: list[str] = []
    options = Options(2, 100, "cpu")
    Collector(_specs((1, 7, 13, 2, 3)), tmp_path, options, answering).run(said.append)
    rows = {row["spec"]["batch_size"] for row in read_jsonl(tmp_path / ROWS)}
    assert rows == {1, 2, 3}
    assert {row["why"] for row in read_jsonl(tmp_path / FAILURES)} == {"seven", "the process ended"}
    assert len(list(read_jsonl(tmp_path / TRACES))) == 3
    assert said[-1].startswith("3 of 5 measured, 2 failed")
    assert len(done_ids(tmp_path)) == 5
    again = Collector(_specs((1, 7, 13, 2, 3, 4)), tmp_path, options, answering)
    assert again.total == 1
    again.run(said.append)
    assert {row["spec"]["batch_size"] for row in read_jsonl(tmp_path / ROWS)} == {1, 2, 3, 4}


def test_two_collections_do_not_share_a_folder(tmp_path: Path) -> None:
    options = Options(1, 100, "cpu")
    first = Collector(_specs((1, 2)), tmp_path, options, answering)
    with pytest.raises(CollectError, match="another collection writes there"):
        Collector(_specs((1, 2)), tmp_path, options, answering)
    first.run(lambda _: None)
    after = Collector(_specs((1, 2, 3)), tmp_path, options, answering)
    after.run(lambda _: None)
    assert (after.total, after.done) == (1, 1)


def test_a_collection_goes_on_behind_a_line_that_was_cut_off(tmp_path: Path) -> None:
    options = Options(1, 100, "cpu")
    Collector(_specs((1, 2)), tmp_path, options, answering).run(lambda _: None)
    first, second = (tmp_path / ROWS).read_text("utf-8").splitlines()
    (tmp_path / ROWS).write_text(f"{first}\n{second[:50]}", "utf-8")  # as a kill or a full disk leaves it
    traces = (tmp_path / TRACES).read_text("utf-8")
    (tmp_path / TRACES).write_text(traces.removesuffix("\n"), "utf-8")  # whole, but for its end
    Collector(_specs((1, 2, 3)), tmp_path, options, answering).run(lambda _: None)
    assert {row["spec"]["batch_size"] for row in read_jsonl(tmp_path / ROWS)} == {1, 2, 3}
    assert len(list(read_jsonl(tmp_path / TRACES))) == 4


def test_what_was_being_measured_when_a_collection_was_interrupted_is_measured_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(1, 100, "cpu")
    collector = Collector(_specs((1, 2)), tmp_path, options, answering)
    write = collector._files.write

    def interrupted(name: str, item: dict[str, Any]) -> None:
        if name == ROWS:
            raise KeyboardInterrupt
        write(name, item)

    monkeypatch.setattr(collector._files, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        collector.run(lambda _: None)
    assert done_ids(tmp_path) == set()
    Collector(_specs((1, 2)), tmp_path, options, answering).run(lambda _: None)
    assert {row["spec"]["batch_size"] for row in read_jsonl(tmp_path / ROWS)} == {1, 2}


def test_isolated_takes_a_new_process_for_each_configuration_of_a_model_too(tmp_path: Path) -> None:
    real = [spec_from_json({**spec.to_json(), "source": "timm", "name": "net"}) for spec in _specs((1, 2, 3))]
    collector = Collector(real, tmp_path, Options(1, 100, "cpu", isolated=True), answering)
    collector.run(lambda _: None)
    assert collector.done == 3
    assert collector._next >= 3


def test_what_an_ended_worker_holds_is_free_when_its_process_is_gone_and_it_waits_for_no_more() -> None:
    ledger = Ledger(100)
    ledger.ask(1, 90, now=0)
    assert ledger.grant(0) == [1]
    ledger.ask(2, 20, now=1)
    ledger.ask(3, 20, now=1)
    ledger.leave(1)
    ledger.leave(2)
    assert ledger.grant(2) == []
    ledger.drop(1)
    assert ledger.grant(3) == [3]


def test_a_worker_that_is_used_up_is_replaced(tmp_path: Path) -> None:
    collector = Collector(_specs((1, 5, 2, 3)), tmp_path, Options(1, 100, "cpu"), answering)
    collector.run(lambda _: None)
    assert (collector.done, collector.failed, collector._next) == (4, 0, 2)


def test_workers_that_cannot_start_end_the_collection(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="ended before they began"):
        Collector(_specs((1, 2)), tmp_path, Options(1, 100, "cpu"), mute).run(lambda _: None)


def test_nothing_new_is_handed_out_when_time_is_up(tmp_path: Path) -> None:
    Collector(_specs((1, 2)), tmp_path, Options(1, 100, "cpu", minutes=0), answering).run(lambda _: None)
    assert json.dumps(list(read_jsonl(tmp_path / ROWS))) == "[]"
