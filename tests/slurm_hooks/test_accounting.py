"""What sacct and squeue print, recorded from a real Slurm 22.05, and how both are put together."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks.records import Record, decode, encode
from slurm_hooks.slurm import accounting
from slurm_hooks.slurm.accounting import AccountingError, JobRun, SlurmAccounting, parse_sacct, parse_squeue
from slurm_hooks.slurm.commands import SlurmError

RECORDED = Path(__file__).parent / "recorded"
SACCT = (RECORDED / "sacct_22.05.txt").read_text()
SQUEUE = gzip.decompress((RECORDED / "squeue_22.05.txt.gz").read_bytes()).decode()
DELIMITER = "<0123456789abcdef>"
HOSTILE_NAME = "we|ird\nname RAD1:e30="


class Recorded:
    """Answers as the recorded commands did; `broken` names one that fails, and how; `newer` makes a 26.05 of it."""

    def __init__(self, broken: dict[str, str] | None = None, squeue: str = SQUEUE, *, newer: bool = False) -> None:
        self.broken = broken or {}
        self.squeue = squeue
        self.newer = newer
        self.refused = 0
        self.asked: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], timeout_s: float) -> str:
        asks_restarts = any(word.endswith(",Restarts") for word in command)
        if asks_restarts and not self.newer and "sacct" not in self.broken:
            self.refused += 1
            raise SlurmError('sacct -n -X: sacct: fatal: Invalid field requested: "Restarts"')
        self.asked.append(command)
        for name, message in self.broken.items():
            if name in command:
                raise SlurmError(f"{name}: {message}")
        if "squeue" in command:
            return self.squeue
        delimiter = next(word for word in command if word.startswith("--delimiter=")).partition("=")[2]
        if asks_restarts:
            rows = SACCT.split(f"{DELIMITER}\n")
            return "".join(f"{row}{DELIMITER}{n}{DELIMITER}\n" for n, row in enumerate(rows[:-1])).replace(
                DELIMITER, delimiter
            )
        return SACCT.replace(DELIMITER, delimiter)


def test_sacct_rows() -> None:
    runs = parse_sacct(SACCT, DELIMITER)
    assert [(run.shown_id, run.job_id, run.state) for run in runs] == [
        ("1", 1, "REQUEUED"),
        ("4", 4, "COMPLETED"),
        ("2_0", 5, "FAILED"),
        ("2_1", 6, "FAILED"),
        ("2_2", 7, "FAILED"),
        ("2_3", 2, "FAILED"),
        ("1", 1, "COMPLETED"),
        ("8_0", 9, "COMPLETED"),
        ("8_1", 10, "COMPLETED"),
        ("8_2", 11, "RUNNING"),
    ]
    first = runs[0]
    assert first.name == HOSTILE_NAME
    assert decode(first.admin_comment) is not None
    assert (first.submit, first.start, first.end, first.elapsed_s) == (1795201212, 1795201213, 1795201216, 3)
    assert first.allocated == {"billing": 1, "cpu": 1, "gres/mps": 38, "gres/mps:g2": 38, "node": 1}
    assert first.gpus == 0.38
    assert (runs[2].exit_code, runs[2].gpus, runs[2].user, runs[2].account) == (3, 1.0, "alice", "research")
    assert runs[9].end is None


@pytest.mark.parametrize("piece", [1, 50, 100_000])
def test_rows_of_many_jobs_are_read_in_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = parse_sacct(SACCT, DELIMITER)
    monkeypatch.setattr("slurm_hooks.slurm.squeue.PIECE", piece)
    assert parse_sacct(SACCT, DELIMITER) == expected


def test_the_sizes_of_a_job_share_no_time() -> None:
    """Rows as 22.05 has them of a job of two nodes whose user let go of one after 4 s."""
    rows = [
        ["59", "59", "bob", "", "gpu", "RESIZING", "100", "101", "105", "4", "gres/gpu=2", "", "0:0", "n[0-1]", "", ""],
        ["59", "59", "bob", "", "gpu", "COMPLETED", "105", "101", "121", "20", "gres/gpu=1", "", "0:0", "n0", "", ""],
    ]
    runs = parse_sacct("".join("".join(f"{cell}<x>" for cell in row) + "\n" for row in rows), "<x>")
    assert [(run.start, run.end, run.elapsed_s, run.gpus) for run in runs] == [(101, 105, 4, 2.0), (105, 121, 16, 1.0)]


def test_squeue_rows() -> None:
    runs = {run.shown_id: run for run in parse_squeue(SQUEUE)}
    assert len(runs) == 10
    waiting = runs["3"]
    assert (waiting.state, waiting.reason, waiting.name) == ("PENDING", "BeginTime", "blocked")
    assert (waiting.start, waiting.gpus, waiting.requested["gres/gpu"]) == (None, 0.0, 2)
    assert waiting.admin_comment == "JS1:abc= RAD1:eyJhY3Rpb24iOiJzaGFyZSJ9 é"
    running = runs["12"]
    assert (running.name, running.start, running.end, running.gpus) == ("naïve name", 1795201769, None, 0.4)
    assert runs["8_0"].elapsed_s == 40
    assert runs["8_0"].end == 1795201713


@given(st.text())
def test_a_name_forges_no_row(name: str) -> None:
    cells = ["7", "7", "eve", "", "", "COMPLETED", "1", "1", "2", "1", "", "", "0:0", "n", name, ""]
    assert [run.name for run in parse_sacct("<x>".join([*cells, "\n"]), "<x>")] in ([name], [])
    assert [run.user for run in parse_squeue(_squeue_row(7, "", name) * 2)] == ["eve", "eve"]


def _squeue_row(job: int, comment: str, name: str) -> str:
    given = {"JobID": str(job), "JobArrayID": str(job), "UserName": "eve", "State": "RUNNING", "StartTime": "1"}
    given |= {"admin_comment": comment, "Name": name}
    given["EndTime"] = "9"
    cells = ((given.get(column, "").encode(), width) for column, width in accounting.SQUEUE_COLUMNS)
    return b"".join(cell[:width].ljust(width) for cell, width in cells).decode(errors="surrogateescape") + "\n"


@pytest.mark.parametrize("lines", ["JS1:x\nline two", "a\n", "\n17", "\n\n", "1\n2\n3"])
def test_lines_of_another_tools_comment_lose_no_job(lines: str) -> None:
    record = encode(Record("share", share=40))
    rows = (
        _squeue_row(7, f"{lines} {record}", "a\nb")
        + _squeue_row(8, f"{record} {lines}", "\n9")
        + _squeue_row(9, "", "c")
    )
    runs = parse_squeue(rows)
    assert [(run.job_id, run.name) for run in runs] == [(7, "a\nb"), (8, "\n9"), (9, "c")]
    assert {run.user for run in runs} == {"eve"}
    assert [decode(run.admin_comment) is not None for run in runs] == [True, True, False]


def test_a_job_that_its_user_has_stopped_has_not_ended() -> None:
    (run,) = parse_squeue(_squeue_row(7, "", "a").replace("RUNNING", "STOPPED"))
    assert (run.state, run.end) == ("STOPPED", None)
    asked = Recorded()
    SlurmAccounting(runner=asked).runs(0, 10, live=True)
    assert any("STOPPED" in word.split(",") for command in asked.asked if "squeue" in command for word in command)


def test_a_users_name_is_the_same_whoever_tells_it() -> None:
    """slurmdbd keeps small letters, slurmctld says what the system says."""
    (queued,) = parse_squeue(_squeue_row(7, "", "a").replace("eve", "Eve"))
    (kept, *_) = parse_sacct(SACCT.replace("alice", "Alice"), DELIMITER)
    assert (queued.user, kept.user) == ("eve", "alice")


def test_a_delimiter_is_never_the_same() -> None:
    ask = Recorded()
    for _ in range(2):
        assert len(SlurmAccounting(runner=ask).runs(0, 10)) == 10
    first, second = (next(w for w in command if w.startswith("--delim")) for command in ask.asked if "sacct" in command)
    assert first != second


def test_how_often_a_job_was_queued_again() -> None:
    older, newer = Recorded(), Recorded(newer=True)
    asked_once = SlurmAccounting(runner=older)
    for _ in range(2):
        assert {run.restarts for run in asked_once.runs(0, 10)} == {0}
    assert (older.refused, len(older.asked)) == (1, 2)
    runs = SlurmAccounting(runner=newer).runs(0, 10)
    assert [run.restarts for run in runs] == list(range(10))
    assert [replace(run, restarts=0) for run in runs] == parse_sacct(SACCT, DELIMITER)
    told = {run.shown_id: run.restarts for run in SlurmAccounting(runner=newer).runs_of("8")}
    assert told["8_2"] == 9  # the controller's row in the place of slurmdbd's


def test_a_running_jobs_record_comes_from_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    row = next(line for line in SQUEUE.split("\n") if line.startswith("11 "))
    start = sum(width for name, width in accounting.SQUEUE_COLUMNS if name not in ("admin_comment", "Name"))
    token = encode(Record(action="share"))
    squeue = row[:start] + token.ljust(16_384) + row[start + 16_384 :] + "\n"
    for said in (squeue, squeue.replace("alice ", "nobody", 1)):  # where a host does not know its users
        runs = {run.shown_id: run for run in SlurmAccounting(runner=Recorded(squeue=said)).runs(0, 10, live=True)}
        assert runs["8_2"].admin_comment == token
        assert runs["8_1"].admin_comment == ""
    assert not caplog.text
    without = SlurmAccounting(runner=Recorded({"squeue": "down"})).runs(0, 10, live=True)
    assert len(without) == 10
    assert "squeue: down; what RAD decided of jobs that have not ended is not known" in caplog.text
    ask = Recorded(squeue=squeue)
    SlurmAccounting(runner=ask).runs(0, 10)
    assert len(ask.asked) == 1


@pytest.mark.parametrize(
    ("user", "later_s", "is_lost"),
    [("", 0, True), ("alice", 0, False), ("alice", 9, False), ("nobody", 0, False), ("bob", 9, True)],
)
def test_a_job_that_runs_in_slurmdbd_alone_is_named(
    user: str, later_s: int, is_lost: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """One that has ended meanwhile is not, nor one whose user this host does not know; whose number another got is."""
    lines = SQUEUE.split("\n")
    (row,) = (line for line in lines if line.startswith("11 "))
    submit = next(run.submit for run in parse_sacct(SACCT, DELIMITER) if run.job_id == 11) or 0
    told = row.replace("RUNNING  ", "COMPLETED", 1).replace("alice ", user.ljust(6), 1)
    told = told.replace(str(submit), str(submit + later_s), 1)

    class Slurm(Recorded):
        def __call__(self, command: Sequence[str], timeout_s: float) -> str:
            if "squeue" not in command:
                return super().__call__(command, timeout_s)
            if "11" not in command:
                return "\n".join(line for line in lines if line != row)
            if not user:
                raise SlurmError("squeue: slurm_load_jobs error: Invalid job id specified")
            return f"{told}\n"

    SlurmAccounting(runner=Slurm()).runs(0, 10, live=True)
    assert ("slurmdbd says that 1 jobs run which slurmctld does not show (11)" in caplog.text) == is_lost
    assert ("where PrivateData does not hide them from you, their end was lost" in caplog.text) == is_lost


def test_the_record_of_a_job_that_waits_to_run_again_comes_from_the_controller() -> None:
    """Of others that wait nobody asks: there may be very many."""
    rows = SACCT.split(f"{DELIMITER}\n")
    again = rows[0].replace("REQUEUED", "PENDING").split(DELIMITER)
    assert again[7].isdigit() and again[8].isdigit()
    again[6:9], again[-1] = [str(2**31), "Unknown", "Unknown"], ""
    never = ["99", "99", *again[2:]]
    row = next(line for line in SQUEUE.split("\n") if "PENDING" in line)
    start = sum(width for name, width in accounting.SQUEUE_COLUMNS if name not in ("admin_comment", "Name"))
    token = encode(Record(action="share"))
    waits = "1".ljust(20) + row[20:start] + token.ljust(16_384) + "again".ljust(256) + "\n"

    class Slurm(Recorded):
        def __call__(self, command: Sequence[str], timeout_s: float) -> str:
            said = super().__call__(command, timeout_s)
            if "squeue" in command:
                return waits if "PD" in command else ""
            delimiter = next(word for word in command if word.startswith("--delimiter=")).partition("=")[2]
            return said + "".join(delimiter.join([*cells, "\n"]) for cells in shown)

    shown, ask = [again, never], Slurm()
    runs = SlurmAccounting(runner=ask).runs(0, 10, live=True)
    assert [run.admin_comment for run in runs if run.job_id == 1][-1] == token
    assert [run.admin_comment for run in runs if run.job_id == 99] == [""]
    (asked,) = (command for command in ask.asked if "PD" in command)
    assert asked[asked.index("-j") + 1] == "1"
    # Of one that was preempted slurmdbd does not know that it waits.
    shown = [[*again[:5], "PREEMPTED", again[6], "5", "9", *again[9:]]]
    runs = [run for run in SlurmAccounting(runner=Slurm()).runs(0, 10, live=True) if run.job_id == 1]
    assert [(run.state, run.admin_comment) for run in runs][-2:] == [("PREEMPTED", ""), ("PENDING", token)]


def test_later_runs_of_jobs_that_were_queued_again() -> None:
    rows = SACCT.split(f"{DELIMITER}\n")

    class Slurm(Recorded):
        def __call__(self, command: Sequence[str], timeout_s: float) -> str:
            said = super().__call__(command, timeout_s)
            if "sacct" not in command or "-S" not in command:
                return said
            delimiter = next(word for word in command if word.startswith("--delimiter=")).partition("=")[2]
            return f"{rows[0]}{DELIMITER}\n{rows[2]}{DELIMITER}\n".replace(DELIMITER, delimiter)

    ask = Slurm()
    runs = SlurmAccounting(runner=ask).runs(0, 10, later=True)
    assert [(run.job_id, run.state) for run in runs] == [(1, "REQUEUED"), (5, "FAILED"), (1, "COMPLETED")]
    assert list(ask.asked[-1][-2:]) == ["-j", "1"]
    assert [run.state for run in SlurmAccounting(runner=ask).runs(0, 10)] == ["REQUEUED", "FAILED"]


def test_no_later_run_is_told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an array sacct tells all tasks, whose own numbers may stand in another question."""
    monkeypatch.setattr(accounting, "_JOBS_AT_ONCE", 1)

    def ask(command: Sequence[str], timeout_s: float) -> str:
        delimiter = next(word for word in command if word.startswith("--delimiter=")).partition("=")[2]

        def rows(*jobs: int, at: int) -> str:
            cells = ([str(job), f"2_{job}", "", "", "", "REQUEUED", *3 * [str(at)], *8 * [""], "\n"] for job in jobs)
            return "".join(map(delimiter.join, cells))

        asked = command[command.index("-j") + 1] if "-j" in command else ""
        return {"": rows(2, 3, at=10), "2": rows(2, 3, at=10) + rows(2, 3, at=20), "3": rows(3, at=20)}[asked]

    runs = SlurmAccounting(runner=ask).runs(0, 10, later=True)
    assert sorted((run.job_id, run.submit) for run in runs) == [(2, 10), (2, 20), (3, 10), (3, 20)]


def test_runs_of_a_time() -> None:
    ask = Recorded()
    SlurmAccounting(runner=ask).runs(2_000_005, 2_000_010, "alice")
    SlurmAccounting(runner=ask).runs(2_000_005, 2_000_010)
    by_user, of_all = (command for command in ask.asked if "sacct" in command)
    assert list(by_user[-8:]) == ["-u", "alice", "-s", "PD,R", "-S", "uts2000005", "-E", "uts2000010"]
    assert "-a" in of_all
    SlurmAccounting(runner=ask).runs(0, 10)
    assert "uts1000000" in ask.asked[-1]  # sacct takes none before


def test_what_slurmdbd_has_not_heard_of_a_job_that_ended_comes_from_the_controller() -> None:
    queued = parse_squeue(SQUEUE)[-1]
    kept = replace(parse_sacct(SACCT, DELIMITER)[1], job_id=queued.job_id, partition="", name="allocation", exit_code=3)
    (run,) = accounting._newest([kept], [replace(queued, state="FAILED", shown_id="8_1")])
    assert (run.shown_id, run.partition, run.name, run.exit_code) == ("8_1", queued.partition, queued.name, 3)
    assert accounting._newest([kept], []) == [kept]
    started = replace(kept, state="RUNNING", end=None, admin_comment="")
    ended = replace(queued, state="COMPLETED", end=kept.end, admin_comment="what RAD did")
    assert accounting._newest([started], [ended]) == [ended]


def test_the_controller_has_the_last_word_on_live_jobs() -> None:
    runs = SlurmAccounting(runner=Recorded()).runs_of("8")
    by_id = {run.shown_id: run for run in runs}
    assert by_id["8_2"].elapsed_s == 17  # sacct said 16
    assert by_id["2_0"].exit_code == 3  # sacct's row: squeue knows no exit code here
    assert by_id["3"].state == "PENDING"  # only squeue knows it
    assert [run.state for run in runs if run.job_id == 1] == ["REQUEUED", "COMPLETED"]


def test_an_earlier_run_stays_beside_the_live_one() -> None:
    again = parse_squeue(SQUEUE)[-1]
    kept = parse_sacct(SACCT, DELIMITER)[0]
    live = JobRun(**{**vars(again), "job_id": 1})
    assert accounting._newest([kept], [live]) == [kept, live]


@pytest.mark.parametrize("job", ["1", "2_3"])
def test_tasks_are_asked_for_one_by_one(job: str) -> None:
    ask = Recorded()
    SlurmAccounting(runner=ask).runs_of(job)
    assert ("-r" in ask.asked[1]) == ("_" in job)


@pytest.mark.parametrize("job", ["", "0", "0_1", "x", "1;2", "-1", "1_", "4711_[1-3]", "1 2", "1" * 30, "1\n"])
def test_what_is_no_job_id(job: str) -> None:
    with pytest.raises(AccountingError, match="no job id"):
        SlurmAccounting(runner=Recorded()).runs_of(job)


def test_a_part_of_a_heterogeneous_job_is_told_alone() -> None:
    """Recorded from an array: sacct's and squeue's rows look the same but for the sign."""
    parts = SQUEUE.replace("8_1", "8+1").replace("8_2", "8+2")
    assert {run.shown_id for run in SlurmAccounting(runner=Recorded(squeue=parts)).runs_of("8+2")} == {"8+2"}


@pytest.mark.parametrize("state", ["SPECIAL_EXIT", "RESV_DEL_HOLD"])
def test_a_job_that_slurm_holds_waits(state: str) -> None:
    held = SQUEUE.replace("PENDING".ljust(len(state)), state, 1)
    assert held != SQUEUE
    assert parse_squeue(held) == parse_squeue(SQUEUE)


def test_one_of_both_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    without_dbd = SlurmAccounting(runner=Recorded({"sacct": "Connection refused"})).runs_of("3")
    assert "3" in {run.shown_id for run in without_dbd}
    monkeypatch.setitem(
        globals(), "SACCT", SACCT.partition(f"{DELIMITER}\n")[0] + f"{DELIMITER}\n"
    )  # one that has ended
    without_ctld = SlurmAccounting(runner=Recorded({"squeue": "Unable to contact slurm controller"})).runs_of("1")
    assert [run.shown_id for run in without_ctld] == ["1"]


def test_a_running_job_is_not_told_without_the_record_that_the_controller_alone_has() -> None:
    ask = Recorded({"squeue": "Unable to contact slurm controller"})
    with pytest.raises(SlurmError, match="contact"):
        SlurmAccounting(runner=ask).runs_of("8_2")


@pytest.mark.parametrize("squeue", [{"squeue": "slurm_load_jobs error: Invalid job id specified"}, {}])
def test_nothing_is_said_of_a_running_job_that_slurmctld_does_not_show(squeue: dict[str, str]) -> None:
    with pytest.raises(SlurmError, match="job 8_2 has not ended, slurmctld does not show it: where PrivateData"):
        SlurmAccounting(runner=Recorded(squeue, squeue="")).runs_of("8_2")


def test_none_of_both_is_an_error() -> None:
    with pytest.raises(SlurmError, match="refused"):
        SlurmAccounting(runner=Recorded({"sacct": "Connection refused", "squeue": "down"})).runs_of("1")
    with pytest.raises(SlurmError, match="refused"):
        SlurmAccounting(runner=Recorded({"sacct": "Connection refused"}, squeue="")).runs_of("1")


def test_an_unknown_job_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SACCT", "")
    unknown = Recorded({"squeue": "slurm_load_jobs error: Invalid job id specified"})
    assert SlurmAccounting(runner=unknown).runs_of("77") == []
    with pytest.raises(SlurmError, match="contact"):
        SlurmAccounting(runner=Recorded({"squeue": "Unable to contact slurm controller"})).runs_of("77")


@pytest.mark.parametrize(
    ("text", "seconds"), [("0:40", 40), ("1:02:03", 3723), ("2-00:00:01", 172801), ("INVALID", 0), ("", 0)]
)
def test_clock(text: str, seconds: int) -> None:
    assert accounting._clock(text) == seconds


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    parse_sacct(text, "<x>")
    parse_squeue(text)
    accounting._tres(text)
