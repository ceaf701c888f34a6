"""Records on their way to slurmdbd, against stand-ins of Slurm's commands."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.config import Node
from slurm_hooks.node import commands, requeues, sending, spool, state
from slurm_hooks.node.sending import Sent
from slurm_hooks.node.spool import Requeue
from slurm_hooks.records import Record, Run, decode, merge
from tests.slurm_hooks.node.conftest import FakeSlurm, shown

NOW = int(time.time())
RUN = Run(share=30, cap_mib=23961, start=NOW - 60, end=NOW, exit_code=0, outcome="completed", node="node0", restart=0)
RECORD = Record(action="share", share=30, asked="gpu:1")
OURS = merge("", RECORD)
REQUEUE = Requeue(7, 0, "7_3", "mps:g1:45", merge("js1:abc", dataclasses.replace(RECORD, share=45, retries=1)))


@pytest.fixture
def node(place: Path) -> Node:
    return Node(spool_dir=str(place / "spool"), state_dir=str(place / "jobs"), command_timeout_s=2)


def _row(
    state_: str = "COMPLETED", comment: str = OURS, *, name: str = "7", start: Any = NOW - 61, end: Any = NOW
) -> str:
    return f"7|{name}|{state_}|{start}|{end}|{comment}"


def _kept(node: Node) -> list[str]:
    """What waits; what was sent and is to be sent once more does not count."""
    names = (path.name for path in Path(node.spool_dir).iterdir())
    return sorted(name for name in names if not name.startswith(".") and not name.endswith(".sent"))


def _age(node: Node, name: str, seconds: float) -> None:
    path = f"{node.spool_dir}/{name}"
    data = state.read(path) or {}
    state.write(path, {**data, "at": time.time() - seconds} if "run" in data else data)
    os.utime(path, (time.time() - seconds, time.time() - seconds))


def test_what_waits_is_for_root_alone(node: Node) -> None:
    spool.put(node, 7, 0, RUN)
    assert stat.S_IMODE(Path(node.spool_dir).stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(f"{node.spool_dir}/7-0.json").stat().st_mode) == 0o600
    assert [(item.job, item.restart, item.run) for item in spool.items(node)] == [(7, 0, RUN)]


def test_an_outcome_is_sent_once(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row(comment=merge("JS1:H4sI", RECORD)))
    slurm.trouble("version")
    state.folder(node.spool_dir, 0o700)
    state.write(f"{node.spool_dir}/.letters.json", {"kept": True})
    spool.put(node, 7, 0, RUN)
    assert sending.send(node) == Sent(sent=1)
    assert slurm.comment().startswith("JS1:H4sI RAD1:")
    assert decode(slurm.comment()) == dataclasses.replace(RECORD, runs=(RUN,))
    assert _kept(node) == []
    spool.put(node, 7, 0, RUN)  # told again, as after a crash
    before = len(slurm.calls("sacctmgr"))
    assert sending.send(node) == Sent(sent=1)
    assert len(slurm.calls("sacctmgr")) == before


def test_what_slurmctld_wrote_over_is_sent_once_more(node: Node, slurm: FakeSlurm) -> None:
    """22.05 writes its own records of jobs that it still knows when it starts."""
    slurm.rows(_row())
    spool.put(node, 7, 0, RUN)
    assert sending.send(node) == Sent(sent=1)
    slurm.rows(_row())
    assert sending.send(node) == Sent()
    _age(node, "7-0.json.sent", 1000)
    assert sending.send(node) == Sent(sent=1)
    assert decode(slurm.comment()) == dataclasses.replace(RECORD, runs=(RUN,))
    assert not list(Path(node.spool_dir).glob("7-0*"))


def test_what_is_sent_once_more_is_left_alone_where_it_stands(node: Node, slurm: FakeSlurm) -> None:
    slurm.small_letters()
    slurm.rows(_row())
    spool.put(node, 7, 0, RUN)
    assert sending.send(node) == Sent(sent=1)
    slurm.rows(_row(comment=merge("JS1:H4sI", dataclasses.replace(RECORD, runs=(RUN,)))))
    _age(node, "7-0.json.sent", 1000)
    before = len(slurm.calls("sacctmgr"))
    assert sending.send(node) == Sent(sent=1)
    assert len(slurm.calls("sacctmgr")) == before
    assert not list(Path(node.spool_dir).glob("7-0*"))


def test_small_letters_do_our_record_no_harm(node: Node, slurm: FakeSlurm) -> None:
    slurm.small_letters()
    slurm.rows(_row(comment=merge("js1:abc", RECORD)))
    spool.put(node, 7, 0, RUN)
    assert sending.send(node) == Sent(sent=1)
    assert slurm.comment().startswith("js1:abc rad1:")
    assert decode(slurm.comment()) == dataclasses.replace(RECORD, runs=(RUN,))


@pytest.mark.parametrize("others", ["JS1:H4sI", 'note="x"'])
def test_other_tools_are_not_spoiled(node: Node, slurm: FakeSlurm, others: str) -> None:
    slurm.small_letters()
    (slurm.folder / "answer-sacctmgr").write_text("slurm 25.11.2")  # which should not
    slurm.rows(_row())
    spool.put(node, 7, 0, RUN)
    assert sending.send(node) == Sent(sent=1)  # from this one it is learnt what sacctmgr does
    slurm.rows(_row(comment=merge(others, RECORD)))
    spool.put(node, 7, 1, RUN)
    sent = sending.send(node)
    assert (sent.sent, sent.soon) == (0, 0)
    assert "sacctmgr would spoil" in sent.problems[0]
    assert slurm.comment() == merge(others, RECORD)
    assert _kept(node) == ["7-1.json.kept"]
    assert sending.send(node) == Sent()


@pytest.mark.parametrize(("version", "sent"), [("slurm-wlm 22.05.8", 0), ("slurm 25.11.2", 1)])
def test_what_sacctmgr_does_where_nothing_was_learnt(node: Node, slurm: FakeSlurm, version: str, sent: int) -> None:
    (slurm.folder / "answer-sacctmgr").write_text(version)
    slurm.rows(_row(comment=merge("JS1:H4sI", RECORD)))
    spool.put(node, 7, 0, RUN)
    assert sending.send(node).sent == sent


def test_jobs_without_a_record_are_forgotten(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row(comment="JS1:H4sI"))
    spool.put(node, 7, 0, RUN)
    assert sending.send(node) == Sent()
    assert _kept(node) == []
    assert slurm.calls("modify") == slurm.calls("sacctmgr") == []


def test_a_task_is_named_so_that_its_array_is_left_alone(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row(name="7_3"), "8|7_2|COMPLETED|1|2|")
    spool.put(node, 7, 0, RUN)
    assert sending.send(node).sent == 1
    assert "jobid=7_3" in slurm.calls("sacctmgr")[-1]


@pytest.mark.parametrize(
    ("rows", "soon", "later"),
    [
        ([_row("RUNNING", end="Unknown")], 1, 0),  # slurmdbd has not heard of the end yet
        ([_row("PENDING", end="Unknown")], 1, 0),
        ([_row("REQUEUED")], 1, 0),
        ([_row("REQUEUED"), _row("PENDING", start="Unknown", end="Unknown")], 0, 1),
        ([_row("REQUEUED"), _row("RUNNING", start=NOW + 60, end="Unknown")], 0, 1),
        # nor of this run's start: the requeued row is an earlier run's
        ([_row("REQUEUED", end=NOW - 62), _row("PENDING", start="Unknown", end="Unknown")], 1, 0),
        ([], 1, 0),
    ],
)
def test_what_cannot_be_sent_yet(node: Node, slurm: FakeSlurm, rows: list[str], soon: int, later: int) -> None:
    slurm.rows(*rows)
    spool.put(node, 7, 0, RUN)
    assert sending.send(node) == Sent(soon=soon, later=later)
    assert _kept(node) == ["7-0.json"]


def test_what_nobody_tells_more_of_is_waited_for(node: Node, slurm: FakeSlurm) -> None:
    spool.put(node, 7, 0, RUN)
    _age(node, "7-0.json", 2 * 3600)
    slurm.rows(_row("RUNNING", end="Unknown"))  # and slurmctld has forgotten it
    assert sending.send(node) == Sent(soon=1)
    slurm.rows(_row("REQUEUED", end=NOW - 62), _row("PENDING", start="Unknown", end="Unknown"))
    assert sending.send(node) == Sent(later=1)
    slurm.rows(_row("RUNNING", start=NOW - 10**7, end="Unknown"))  # an earlier job's, which slurmdbd has lost
    assert sending.send(node) == Sent(later=1)


@pytest.mark.parametrize(
    ("state_", "outcome", "told"),
    [
        ("CANCELLED", "failed", "requeued"),
        ("CANCELLED", "oom_requeued", "oom_requeued"),
        (None, "failed", "requeued"),
        ("PENDING", "failed", None),
        ("SPECIAL_EXIT", "failed", None),
        ("RESV_DEL_HOLD", "oom_requeued", None),
    ],
)
def test_a_requeued_job_that_is_cancelled_before_slurmdbd_hears_of_it(
    node: Node, slurm: FakeSlurm, state_: str | None, outcome: str, told: str | None
) -> None:
    slurm.rows(_row("REQUEUED"))
    if state_ is not None:
        slurm.job(7, shown(7, JobState=state_))
    spool.put(node, 7, 0, dataclasses.replace(RUN, outcome=outcome))
    assert sending.send(node) == Sent(soon=1)
    _age(node, "7-0.json", 2 * 3600)
    assert sending.send(node).sent == (told is not None)
    record = decode(slurm.comment())
    assert record is not None
    assert [run.outcome for run in record.runs] == ([told] if told else [])


def test_a_failed_job_that_slurm_itself_queues_again(node: Node, slurm: FakeSlurm) -> None:
    """RequeueExit: since 24.11 slurmdbd shows its run as ended until the next one starts."""
    failed = dataclasses.replace(RUN, exit_code=7, outcome="failed")
    slurm.rows(_row("FAILED"))
    slurm.job(7, shown(7, JobState="PENDING"))
    spool.put(node, 7, 0, failed)
    assert sending.send(node) == Sent(soon=1)
    _age(node, "7-0.json", 90)
    assert sending.send(node) == Sent(later=1)
    _age(node, "7-0.json", 2 * 3600)
    assert sending.send(node) == Sent(sent=1)
    spool.put(node, 7, 0, failed)
    slurm.job(7, shown(7, JobState="FAILED"))
    assert sending.send(node) == Sent(sent=1)
    spool.put(node, 7, 0, RUN)  # of one that ended well slurmctld is not asked
    before = len(slurm.calls("squeue"))
    assert sending.send(node) == Sent(sent=1)
    assert len(slurm.calls("squeue")) == before


def test_jobs_that_slurmdbd_does_not_know(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows()
    spool.put(node, 7, 0, RUN)
    _age(node, "7-0.json", 3600)
    assert sending.send(node) == Sent(later=1)
    _age(node, "7-0.json", 61 * 86400)
    gone = "job 7: slurmdbd has not known it for 60 days: its outcome is let go"
    assert sending.send(node) == Sent(problems=(gone,))
    assert _kept(node) == []


def test_all_runs_of_a_job_come_to_its_last(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row("PREEMPTED", start=NOW - 500, end=NOW - 400), _row("TIMEOUT"))
    first = dataclasses.replace(RUN, start=NOW - 499, end=NOW - 400, exit_code=143, outcome="failed")
    second = dataclasses.replace(RUN, restart=1, outcome="failed")
    spool.put(node, 7, 1, second)
    spool.put(node, 7, 0, first)
    assert sending.send(node) == Sent(sent=2)
    record = decode(slurm.comment())
    assert record is not None
    assert [(run.restart, run.outcome) for run in record.runs] == [(0, "preempted"), (1, "timeout")]
    assert slurm.comment(0) == OURS


def test_a_job_that_is_queued_again_for_ever_fills_no_disk(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row("RUNNING", end="Unknown"))
    for restart in (*range(15), 100):
        spool.put(node, 7, restart, dataclasses.replace(RUN, restart=restart))
        spool.put(node, 8, restart, dataclasses.replace(RUN, restart=restart))
    assert sending.send(node).sent == 0
    assert sorted(int(name[2:-5]) for name in _kept(node) if name.startswith("7-")) == [*range(4, 15), 100]


def test_a_run_whose_start_nobody_noted_is_sent(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row("NODE_FAIL"))
    spool.put(node, 7, 0, dataclasses.replace(RUN, start=None, outcome="failed"))
    assert sending.send(node) == Sent(sent=1)
    record = decode(slurm.comment())
    assert record is not None
    assert [run.outcome for run in record.runs] == ["node_fail"]


def test_a_run_whose_start_slurmdbd_lost_holds_nothing_up(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row("REQUEUED", start="None", end=NOW - 90), _row(start=NOW - 61))
    first = dataclasses.replace(RUN, start=NOW - 91, end=NOW - 90, exit_code=1, outcome="oom_requeued")
    spool.put(node, 7, 0, first)
    spool.put(node, 7, 1, dataclasses.replace(RUN, restart=1))
    assert sending.send(node) == Sent(sent=2)
    record = decode(slurm.comment())
    assert record is not None
    assert [run.outcome for run in record.runs] == ["oom_requeued", "completed"]


@pytest.mark.parametrize(
    ("rows", "outcome", "told"),
    [
        ([_row("FAILED")], "failed", "failed"),
        ([_row("CANCELLED by 1003")], "completed", "cancelled"),
        ([_row("TIMEOUT", end=NOW + 30)], "failed", "timeout"),  # Epilog looked before slurmctld did
        ([_row("NODE_FAIL", start=NOW - 9000, end=NOW - 8000)], "failed", "failed"),  # not this run's row
        ([_row("COMPLETED")], "failed", "failed"),
        ([_row("FAILED")], "oom_final", "oom_final"),
        ([_row("FAILED"), _row("COMPLETED", start=NOW + 9, end=NOW + 10)], "oom_requeued", "oom_requeued"),
        ([_row("FAILED")], "oom_requeued", "oom_told"),  # Slurm did not requeue it after all
        ([_row("FAILED")], "mps_victim", "mps_told"),
        ([_row("REQUEUED"), _row("COMPLETED", start=NOW + 9, end=NOW + 10)], "oom_requeued", "oom_requeued"),
        # cancelled in the second in which it was queued again
        ([_row("REQUEUED"), _row("CANCELLED by 1003", start="None", end=NOW)], "oom_requeued", "oom_requeued"),
        ([_row("REQUEUED", start="None"), _row("TIMEOUT", start=NOW + 9, end=NOW + 10)], "completed", "requeued"),
    ],
)
def test_slurms_word_for_how_it_ended(node: Node, slurm: FakeSlurm, rows: list[str], outcome: str, told: str) -> None:
    slurm.rows(*rows)
    spool.put(node, 7, 0, dataclasses.replace(RUN, outcome=outcome))
    _age(node, "7-0.json", 120)
    assert sending.send(node).sent == 1
    record = decode(slurm.comment())
    assert record is not None
    assert [run.outcome for run in record.runs] == [told]


def test_a_run_that_is_just_being_requeued_is_waited_for(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row("FAILED"))
    spool.put(node, 7, 0, dataclasses.replace(RUN, outcome="oom_requeued"))
    assert sending.send(node) == Sent(soon=1)
    assert slurm.comment() == OURS
    slurm.rows(_row("REQUEUED", start=NOW - 500, end=NOW - 400), _row("FAILED"))
    spool.put(node, 7, 1, dataclasses.replace(RUN, restart=1, outcome="oom_requeued"))
    spool.put(node, 7, 0, dataclasses.replace(RUN, start=NOW - 499, end=NOW - 400, outcome="oom_requeued"))
    assert sending.send(node) == Sent(soon=2)


@pytest.mark.parametrize("verb", ["sacct", "sacctmgr"])
def test_slurmdbd_is_down_and_comes_back(node: Node, slurm: FakeSlurm, verb: str) -> None:
    slurm.rows(_row())
    spool.put(node, 7, 0, RUN)
    slurm.trouble(verb, 1, "slurm_persist_conn_open: Connection refused\n")
    sent = sending.send(node)
    assert (sent.sent, sent.soon) == (0, 1)
    assert "Connection refused" in sent.problems[0]
    assert _kept(node) == ["7-0.json"]
    slurm.well(verb)
    assert sending.send(node) == Sent(sent=1)
    assert _kept(node) == []


@pytest.mark.parametrize("asks", ["sacct", "sacctmgr"])
def test_a_slurmdbd_that_hangs_is_not_asked_for_each_job(
    node: Node, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    slurm.rows(*(_row(name=str(job)).replace("7|", f"{job}|", 1) for job in range(1, 6)))
    monkeypatch.setattr(sending, "BATCH", 2)
    for job in range(1, 6):
        spool.put(node, job, 0, RUN)
    asked, through = [], commands.run

    def run(argv: Sequence[str], *args: Any, **more: Any) -> commands.Done:
        asked.append(argv[0])
        return commands.Done(None, "", f"{argv[0]}: no answer") if argv[0] == asks else through(argv, *args, **more)

    monkeypatch.setattr(commands, "run", run)
    sent = sending.send(node)
    assert (sent.sent, sent.silent, sent.problems) == (0, True, (f"{asks}: no answer",))
    assert sent.soon > 0  # so that it is tried again in a moment
    assert asked.count(asks) == 1


def test_who_finds_another_nodes_text_merges_again(
    node: Node, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.rows(_row())
    spool.put(node, 7, 1, dataclasses.replace(RUN, restart=1))
    theirs = merge("", dataclasses.replace(RECORD, runs=(dataclasses.replace(RUN, restart=0),)))
    store = commands.store_comment

    def overtaken(row: str, text: str, limit: float) -> Any:
        done = store(row, text, limit)
        slurm.rows(_row(comment=theirs))
        return done

    with monkeypatch.context() as patch:
        patch.setattr(commands, "store_comment", overtaken)
        assert "reads back otherwise" in sending.send(node).problems[0]
    assert sending.send(node) == Sent(sent=1)
    record = decode(slurm.comment())
    assert record is not None
    assert [run.restart for run in record.runs] == [0, 1]


@pytest.mark.parametrize("becomes", ["requeued", "requeued, with the text", "gone", "not told"])
def test_a_job_that_changes_between_reading_and_writing(
    node: Node, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, becomes: str
) -> None:
    slurm.rows(_row())
    spool.put(node, 7, 0, RUN)

    def store(_row_id: str, text: str, _limit: float) -> commands.Done:
        if becomes == "not told":
            slurm.trouble("sacct", 1, "slurmdbd is down\n")
        elif becomes == "gone":
            slurm.rows()
        else:
            comment = text if becomes.endswith("text") else OURS
            slurm.rows(_row("REQUEUED"), _row("PENDING", comment, start="Unknown", end="Unknown"))
        return commands.Done(0, "", "")

    monkeypatch.setattr(commands, "store_comment", store)
    sent = sending.send(node)
    assert (sent.sent, sent.soon, sent.silent) == (0, 1, becomes == "not told")
    assert _kept(node) == ["7-0.json"]


def test_broken_files_are_put_aside(node: Node, slurm: FakeSlurm) -> None:
    state.folder(node.spool_dir, 0o700)
    for name, text in (
        ("7-0.json", "{"),
        ("7-1.json", '{"run": {"share": "x"}, "at": 1}'),
        ("7-2.json", '{"run": {}, "at": "x"}'),
        ("x.json", "{}"),
    ):
        (Path(node.spool_dir) / name).write_text(text)
    (Path(node.spool_dir) / "8-0.json").write_text("[" * 99_999)
    (Path(node.spool_dir) / "9-0.requeue.json").mkdir()
    assert sending.send(node) == Sent()
    assert _kept(node) == [
        "7-0.json.broken",
        "7-1.json.broken",
        "7-2.json.broken",
        "8-0.json.broken",
        "9-0.requeue.json",
        "x.json",
    ]


def test_a_row_of_an_earlier_job_with_the_same_number_is_not_this_ones(node: Node, slurm: FakeSlurm) -> None:
    slurm.rows(_row(start=NOW - 10**7, end=NOW - 10**7 + 60))
    spool.put(node, 7, 0, RUN)
    assert sending.send(node) == Sent(soon=1)
    assert decode(slurm.comment()) == RECORD
    slurm.rows(_row(start=NOW - 10**7, end=NOW - 10**7 + 60), _row())
    assert sending.send(node) == Sent(sent=1)


def test_what_is_kept_under_other_names_is_let_go_in_the_end(node: Node) -> None:
    spool.put(node, 7, 0, RUN)
    names = ("7-0.json", "8-0.json.kept", "9-0.json.broken", "9-1.json.1234.new")
    said: list[str] = []
    for name in names[1:]:
        (Path(node.spool_dir) / name).touch()
    for days, left in ((0, names), (1, names[:3]), (59, names[:3]), (61, names[:1])):
        for name in _kept(node):
            os.utime(f"{node.spool_dir}/{name}", (time.time() - days * 86400,) * 2)
        spool.sweep(node, said.append)
        assert _kept(node) == sorted(left)
    assert [Path(line.split(": ")[0]).name for line in said] == ["8-0.json.kept", "9-0.json.broken"]


@pytest.mark.parametrize("broken", ["unlink rename", "listdir", "stat"])
def test_a_disk_that_takes_no_changes_any_more_keeps_nothing_in_memory(
    node: Node, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    slurm.rows(_row())
    spool.put(node, 7, 0, RUN)
    for name in ("6-0.json", "7-1.json.1234.new"):
        (Path(node.spool_dir) / name).write_text("x")
        os.utime(f"{node.spool_dir}/{name}", (1, 1))

    def failing(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: str, *more: Any, **others: Any) -> Any:
            if str(path).startswith(node.spool_dir):
                raise OSError(errno.EROFS, "Read-only file system", path)
            return function(path, *more, **others)

        return call

    for name in broken.split():
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    written = failing(lambda path, data: Path(path).write_text(json.dumps(data)))
    with monkeypatch.context() as patch:
        patch.setattr(state, "write", lambda path, data, **_: written(path, data))
        assert "waits in memory" in spool.put(node, 7, 1, dataclasses.replace(RUN, restart=1))
    spool.sweep(node, pytest.fail)
    sending.send(node)
    told = decode(slurm.comment())
    assert told is not None
    assert [run.restart for run in told.runs][-1] == 1
    assert [path.name for path in Path(f"{node.state_dir}/.spool").iterdir()] == ["7-1.json.sent"]


def test_no_folder_nothing_to_do(node: Node) -> None:
    assert sending.send(node) == Sent()


def test_what_others_could_have_put_there_is_not_read(node: Node, slurm: FakeSlurm) -> None:
    spool.put(node, 7, 0, RUN)
    Path(node.spool_dir).chmod(0o777)
    assert spool.items(node) == []


def _begun(node: Node, age: float = 120) -> str:
    path = spool.begin(node, REQUEUE)
    _age(node, "7-0.requeue.json", age)
    return path


def test_a_requeue_that_was_begun_is_ended(node: Node, slurm: FakeSlurm) -> None:
    _begun(node)
    slurm.job(7, shown(7, JobState="PENDING", Restarts="1"))
    assert sending.send(node) == Sent()
    (call,) = slurm.calls("update")
    comment = f"admincomment={REQUEUE.admin_comment}"
    assert call[:5] == ["scontrol", "update", "jobid=7_3", "gres=mps:g1:45", comment]
    assert 0 < int(call[5].removeprefix("starttime=now+")) <= 4  # slurmd forgets the run 124 s after its end
    assert _kept(node) == []


def test_a_requeue_that_is_ended_late_keeps_what_others_wrote_meanwhile(node: Node, slurm: FakeSlurm) -> None:
    _begun(node, age=125)  # slurmd has forgotten the run: the start time may be the user's own
    slurm.job(7, shown(7, JobState="PENDING", Restarts="1", AdminComment=f"js1:newer {OURS}"))
    assert sending.send(node) == Sent()
    ours = decode(REQUEUE.admin_comment)
    assert ours is not None
    assert slurm.calls("update") == [
        ["scontrol", "update", "jobid=7_3", "gres=mps:g1:45", f"admincomment={merge('js1:newer', ours)}"]
    ]


def test_a_requeue_of_an_epilog_at_work_is_left_to_it(node: Node, slurm: FakeSlurm) -> None:
    _begun(node, age=5)
    slurm.job(7, shown(7, JobState="FAILED", Restarts="0"))  # what it shows may be old by a moment
    assert sending.send(node) == Sent(soon=1)
    assert slurm.calls("update") == []


@pytest.mark.parametrize("state_", ["PENDING", "COMPLETING"])
def test_a_requeued_job_gets_its_request_before_it_starts(node: Node, slurm: FakeSlurm, state_: str) -> None:
    _begun(node, age=5)
    slurm.job(7, shown(7, JobState=state_, Restarts="1"))
    assert sending.send(node) == Sent()
    assert len(slurm.calls("update")) == 1


def test_a_clock_that_was_set_back_keeps_nobody_waiting(node: Node, slurm: FakeSlurm) -> None:
    _begun(node, age=-1e9)
    slurm.job(7, shown(7, JobState="PENDING", Restarts="1"))
    slurm.rows(_row())
    spool.put(node, 7, 0, dataclasses.replace(RUN, exit_code=1, outcome="oom_requeued"))
    _age(node, "7-0.json", -1e9)
    assert sending.send(node) == Sent(sent=1)
    assert len(slurm.calls("update")) == 1


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"JobState": "PENDING", "Restarts": "0"}, False),  # it never was requeued
        ({"JobState": "RUNNING", "Restarts": "1"}, False),
        ({"JobState": "CANCELLED", "Restarts": "1"}, False),
        ({"JobState": "COMPLETING", "Restarts": "0"}, True),
    ],
)
def test_a_requeue_that_is_no_more(node: Node, slurm: FakeSlurm, told: dict[str, str], kept: bool) -> None:
    _begun(node)
    slurm.job(7, shown(7, **told))
    assert sending.send(node) == Sent(soon=int(kept))
    assert slurm.calls("update") == []
    assert bool(_kept(node)) is kept


def test_a_requeue_of_a_job_that_is_gone(node: Node, slurm: FakeSlurm) -> None:
    _begun(node)
    assert sending.send(node) == Sent()
    assert _kept(node) == []


def test_a_broken_note_of_a_requeue(node: Node, slurm: FakeSlurm) -> None:
    Path(_begun(node)).write_text("{}")
    _age(node, "7-0.requeue.json", 120)
    assert sending.send(node) == Sent()
    assert _kept(node) == []


@pytest.mark.parametrize("verb", ["show", "update"])
def test_the_controller_is_away_during_a_requeue(node: Node, slurm: FakeSlurm, verb: str) -> None:
    _begun(node)
    slurm.job(7, shown(7, JobState="PENDING", Restarts="1"))
    slurm.trouble(verb, 1, "Unable to contact slurm controller (connect failure)\n")
    sent = sending.send(node)
    assert sent.soon == 1
    assert "Unable to contact" in sent.problems[0]
    assert _kept(node) == ["7-0.requeue.json"]
    slurm.well(verb)
    assert sending.send(node) == Sent()
    assert len(slurm.calls("update")) == (2 if verb == "update" else 1)
    assert _kept(node) == []


def test_a_request_that_slurm_refuses_leaves_the_record(node: Node, slurm: FakeSlurm) -> None:
    path = spool.begin(node, REQUEUE)
    slurm.trouble("update", 1, "Invalid generic resource (gres) specification for job 7\n")
    told: list[str] = []
    assert requeues.finish(node, REQUEUE, path, told=lambda: told.append("told")) == ""
    assert [len(call) for call in slurm.calls("update")] == [
        6,
        5,
        4,
    ]  # with request and delay, without delay, the record alone
    assert told == []
    assert _kept(node) == []


@pytest.mark.parametrize(("takes_request", "told"), [(True, ["told"]), (False, [])])
def test_a_user_is_told_of_a_request_that_was_taken(
    node: Node, monkeypatch: pytest.MonkeyPatch, takes_request: bool, told: list[str]
) -> None:
    def update(_target: str, gres: str | None, *_: object) -> commands.Done:
        return commands.Done(0 if takes_request or gres is None else 1, "", "")

    monkeypatch.setattr(commands, "update", update)
    monkeypatch.setattr(commands, "credential_s", lambda _: 120)
    said: list[str] = []
    assert requeues.finish(node, REQUEUE, spool.begin(node, REQUEUE), told=lambda: said.append("told")) == ""
    assert (said, _kept(node)) == (told, [])


def test_a_controller_that_hangs_during_a_requeue(node: Node, slurm: FakeSlurm) -> None:
    node = dataclasses.replace(node, command_timeout_s=0.5)
    path = spool.begin(node, REQUEUE)
    slurm.trouble("update", "hang")
    assert "no answer within" in requeues.finish(node, REQUEUE, path)
    assert _kept(node) == ["7-0.requeue.json"]


class Clock:
    """A clock that goes on by sleeping only; at given moments something happens."""

    def __init__(self, at: dict[float, Callable[[], None]]) -> None:
        self.now, self.at = 0.0, at
        self.time = time.time

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()


def _rounds(
    node: Node, monkeypatch: pytest.MonkeyPatch, at: dict[float, Callable[[], None]], *, until: float = 1000
) -> tuple[list[float], list[str]]:
    """When rounds began, and what was said."""
    clock = Clock(at)
    begun: list[float] = []
    said: list[str] = []
    send = sending.send

    def noted(settings: Node) -> Sent:
        begun.append(round(clock.now, 2))
        return send(settings)

    with monkeypatch.context() as patch:
        patch.setattr(sending, "time", clock)
        patch.setattr(sending, "send", noted)
        sending.send_all(node, until, lambda: None, said.append)
    return begun, said


def test_sending_goes_on_until_nothing_is_left(node: Node, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm.rows(_row("RUNNING", end="Unknown"))
    spool.put(node, 7, 0, RUN)
    begun, said = _rounds(node, monkeypatch, {13: lambda: slurm.rows(_row())})
    assert begun == [0, 0.5, 1.5, 3.5, 7.5, 12.5, 17.5]
    assert _kept(node) == []
    assert said == []


def test_a_new_record_is_not_kept_waiting(node: Node, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm.rows(_row("RUNNING", end="Unknown"))
    spool.put(node, 7, 0, RUN)

    def another() -> None:
        slurm.rows(_row("REQUEUED"), _row("COMPLETED", start=NOW + 9, end=NOW + 10))
        spool.put(node, 7, 1, dataclasses.replace(RUN, restart=1, start=NOW + 9, end=NOW + 10))

    begun, _ = _rounds(node, monkeypatch, {8.4: another})
    assert begun == [0, 0.5, 1.5, 3.5, 7.5, 8.5]
    record = decode(slurm.comment())
    assert record is not None
    assert len(record.runs) == 2


def test_sending_is_given_up_for_the_next(node: Node, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm.trouble("sacct", 1, "down\n")
    spool.put(node, 7, 0, RUN)
    begun, said = _rounds(node, monkeypatch, {}, until=100)
    assert begun == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5, 121.5]
    assert said == ["exit status 1: down"]  # once
    assert _kept(node) == ["7-0.json"]


def test_idle_daemons_are_looked_after_meanwhile(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock({})
    calls: list[float] = []

    def idle() -> float | None:
        calls.append(clock.now)
        return 7.0 if len(calls) < 3 else None

    monkeypatch.setattr(sending, "time", clock)
    sending.send_all(node, 0, idle, pytest.fail)
    assert calls == [0, 7, 14]


def test_idle_daemons_are_looked_after_where_the_spools_disk_is_broken(
    node: Node, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str, *more: Any, **others: Any) -> os.stat_result:
        if str(path).startswith(node.spool_dir):
            raise OSError(errno.EIO, "Input/output error", path)
        return stat_of(path, *more, **others)

    stat_of, waits = os.stat, [0.01, None]
    monkeypatch.setattr(os, "stat", broken)
    sending.send_all(node, 0, lambda: waits.pop(0), pytest.fail)
    assert waits == []
