from __future__ import annotations

import subprocess
import sys
import time

import pytest

from slurm_hooks.node import commands
from slurm_hooks.node.commands import (
    OtherLogs,
    Row,
    other_logs,
    parse_ends,
    parse_job,
    parse_logs,
    parse_rows,
)
from slurm_hooks.node.next_gres import asks_for_shares, next_gres
from tests.slurm_hooks.node.conftest import FakeSlurm, end_row, kill_all, log_row, shown

# What squeue shows for the last task of an array, whose number is the array's too: all its tasks.
ARRAY = "\n".join(
    (
        shown(
            7,
            ArrayJobId="7",
            ArrayTaskId="3",
            ExitCode="768",
            TresPerNode="gres:mps:g2:30",
            AdminComment='JS1:abc RAD1:e30= "x" done',
            StdOut="/home/alice/slurm-7_3.out",
        ),
        shown(13, ArrayJobId="7", ArrayTaskId="2", JobState="FAILED", AdminComment=""),
        shown(14, ArrayJobId="7", ArrayTaskId="4-9", JobState="PENDING", Reason="Resources", ExitCode="0"),
    )
)
# How Slurm 22.05.8 shows a job whose user gave it a name with a line end: cells and the bytes that they fill,
# the last one once more from its end on.
NAMED = (
    ("1", 20), ("1", 20), ("N/A", 20), ("1", 4), ("1", 4), ("0", 12), ("RUNNING", 32), ("None", 128), ("0", 16),
    ("gres:mps:20", 512), ("(null)", 16_384), ("/tmp/a b%j.out", 4_224),
    ("x\nJobId=1 TresPerNode=gres:mps:g0:30,gres:gpu:g1:1 AdminComment=RAD1:abc é)", 1_088),
)  # fmt: skip


def test_the_last_task_of_an_array() -> None:
    job = parse_job(f"{ARRAY}\n", 7)
    assert job is not None
    assert (job.target, job.array_job, job.array_task) == ("7_3", 7, 3)
    assert (job.state, job.reason, job.exit_status, job.exit_signal) == ("COMPLETING", "NonZeroExitCode", 3, 0)
    assert (job.requeue, job.batch, job.restarts) == (True, True, 0)
    assert job.tres_per_node == "gres:mps:g2:30"
    assert job.admin_comment == 'JS1:abc RAD1:e30= "x" done'
    assert job.stdout == "/home/alice/slurm-7_3.out"


def test_another_task_of_an_array() -> None:
    job = parse_job(f"{ARRAY}\n", 13)
    assert job is not None
    assert (job.target, job.array_job, job.array_task, job.admin_comment) == ("13", 7, 2, "")
    waiting = parse_job(f"{ARRAY}\n", 14)
    assert waiting is not None
    assert (waiting.target, waiting.array_task) == ("14", None)


def test_logs_of_a_users_other_jobs() -> None:
    rows = [
        log_row(7, "200", "own.log"),
        log_row(8, "99", "ended.log"),
        log_row(9, "100", "train.log", "train.err"),
        log_row(10, "N/A", "%A.log", ArrayJobID="6", ArrayTaskID="4"),
        log_row(11, "N/A", "x" * 5_000, Name="n\n12  train.log"),
    ]
    assert parse_logs("".join(f"{row}\n" for row in rows), 7, 100) == [
        OtherLogs(9, None, None, "/home/alice", "n", "train.log", "train.err"),
        OtherLogs(10, 6, 4, "/home/alice", "n", "%A.log", ""),
        OtherLogs(11, None, None, "/home/alice", "n\n12  train.log", "", ""),
    ]


def test_which_of_a_users_other_jobs_are_asked_for_their_logs() -> None:
    rows = [
        end_row(11, "N/A"),
        end_row(7, "200"),
        end_row(8, "99"),
        end_row(9, "100"),
        end_row(10, "N/A", ArrayJobID="6", ArrayTaskID="4"),
    ]
    assert parse_ends("".join(f"{row}\n" for row in rows), 7, 100) == ["9", "6_4", "11"]


def test_names_of_logs_are_asked_of_the_latest_jobs(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_hooks.node.commands._MOST_OTHERS", 2)
    (slurm.folder / "answer-squeue").write_text("".join(f"{end_row(job, 'N/A')}\n" for job in (7, 8, 9, 10)))
    (slurm.folder / "job-9,10").write_text("".join(f"{log_row(job, 'N/A', 'x.log')}\n" for job in (9, 10)))
    found, problem = other_logs(7, 1000, 100, 20)
    assert ([other.job for other in found or ()], problem) == ([9, 10], "")
    (slurm.folder / "answer-squeue").write_text(f"{end_row(7, 'N/A')}\n")
    assert other_logs(7, 1000, 100, 20) == ([], "")  # its own: nothing more is asked
    slurm.trouble("show", 1, "Unable to contact slurm controller\n")
    (slurm.folder / "answer-squeue").write_text(f"{end_row(9, 'N/A')}\n")
    assert other_logs(7, 1000, 100, 20)[0] is None


def test_a_job_that_is_not_there() -> None:
    assert parse_job(f"{ARRAY}\n", 8) is None
    assert parse_job("", 8) is None


def test_how_slurm_shows_a_job() -> None:
    name, width = NAMED[-1]
    row = b"".join(text.encode().ljust(width) for text, width in NAMED) + name.encode().rjust(width) + b"\n"
    job = parse_job(row.decode(), 1)
    assert job is not None
    assert (job.target, job.array_job, job.requeue, job.batch, job.state) == ("1", None, True, True, "RUNNING")
    assert (job.tres_per_node, job.admin_comment, job.stdout) == ("gres:mps:20", "", "/tmp/a b%j.out")
    assert job.name == name


@pytest.mark.parametrize(
    "name",
    [
        "x AdminComment=RAD1:e30= TresPerNode=gres:gpu:8 Requeue=0 ExitCode=0:0",
        "x\nJobId=9 ArrayJobId=5 ArrayTaskId=1 JobName=y",
        "\n" + shown(9, AdminComment="RAD1:e30=", TresPerNode="gres:gpu:8"),
        "é \udcff\udc80 \udcff",  # no UTF-8
        "x" * 5000,
    ],
)
@pytest.mark.parametrize("told", [{}, {"AdminComment": "RAD1:e31="}])
def test_a_user_can_write_no_other_column_and_no_other_job(name: str, told: dict[str, str]) -> None:
    told = {"JobName": name, "ArrayJobId": "9", **told}
    job = parse_job("".join(f"{shown(8 + task, ArrayTaskId=str(1 + task), **told)}\n" for task in (0, 1)), 9)
    assert job is not None
    assert (job.target, job.array_task, job.requeue, job.exit_status) == ("9_2", 2, True, 1)
    assert (job.tres_per_node, job.admin_comment) == ("gres:mps:g1:30", told.get("AdminComment", ""))
    assert job.name in name


def test_carriage_returns_in_a_users_text_move_no_column(slurm: FakeSlurm) -> None:
    told = {"JobName": "a\r\nb\r", "ArrayJobId": "9"}
    slurm.job(9, "".join(f"{shown(8 + task, ArrayTaskId=str(1 + task), **told)}\n" for task in (0, 1)))
    job, problem = commands.show_job(9, 5)
    assert job is not None, problem
    assert (job.target, job.name) == ("9_2", "a\r\nb\r")


def test_rows_that_are_longer_than_their_columns_are_none() -> None:
    assert parse_job(f"{shown(9)} \n", 9) is None
    assert parse_job(shown(9), 9) is None  # cut


def test_what_is_too_long_for_its_column_is_not_known() -> None:
    job = parse_job(shown(9, AdminComment="RAD1:" + "a" * 20_000, TresPerNode="gres:mps:g1:30," * 40) + "\n", 9)
    assert job is not None
    assert (job.admin_comment, job.tres_per_node) == ("", "")


def test_names_with_blanks() -> None:
    job = parse_job(shown(9, JobName="a Requeue=0 é", StdOut="/home/my log", AdminComment="x y") + "\n", 9)
    assert job is not None
    assert (job.name, job.stdout, job.admin_comment) == ("a Requeue=0 é", "/home/my log", "x y")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gres:mps:g2:30", "mps:g2:45"),
        ("gres/mps:g2:30", "mps:g2:45"),
        ("gres:mps:30", "mps:45"),
        ("gres/mps:30", "mps:45"),
        ("gres:mps", "mps:45"),
        ("gres:mps:g2:30,gres:license:2", "mps:g2:45,license:2"),
        ("gres:gpu:1", None),
        ("", None),
    ],
)
def test_a_larger_request_keeps_its_type(before: str, after: str | None) -> None:
    assert next_gres(before, 45) == after
    assert asks_for_shares(before) == (after is not None)


def test_rows_of_slurmdbd() -> None:
    text = (
        "34|33_1|COMPLETED|1795201433|1795201434|only1 a,b\n"
        "33|33_2|REQUEUED|1795201433|1795201434|x|y\n"
        "second line\n"
        "33|33_2|CANCELLED by 1003|1795201440|Unknown|\n"
        "33|33_2|PENDING|Unknown|Unknown|\n"
        "37|36+1|COMPLETED|1795201433|1795201434|\n"
    )
    assert parse_rows(text, [33, 35, 37]) == {
        33: [
            Row("33_2", "REQUEUED", 1795201433, 1795201434, "x|y\nsecond line"),
            Row("33_2", "CANCELLED", 1795201440, None, ""),
            Row("33_2", "PENDING", None, None, ""),
        ],
        35: [],
        37: [Row("36+1", "COMPLETED", 1795201433, 1795201434, "")],
    }


def test_a_requeued_run_whose_start_slurmdbd_lost_is_not_the_last() -> None:
    text = "1|1|COMPLETED|1795214468|1795214469|b\n1|1|REQUEUED|None|1795214460|a\n1|1|PENDING|Unknown|Unknown|\n"
    assert [row.state for row in parse_rows(text, [1])[1]] == ["REQUEUED", "COMPLETED", "PENDING"]


def test_how_slurm_is_asked(slurm: FakeSlurm) -> None:
    slurm.job(7, ARRAY)
    slurm.rows("7|7_3|FAILED|5|6|old")
    slurm.on_node(7, 13)
    assert commands.show_job(7, 5)[0] == parse_job(f"{ARRAY}\n", 7)
    assert commands.rows([7], 5) == ({7: [Row("7_3", "FAILED", 5, 6, "old")]}, "")
    assert commands.jobs_on("node0", 5) == {7, 13}
    assert commands.store_comment("7_3", 'new "text"', 5).ok
    assert slurm.comment() == 'new "text"'
    assert commands.update("7_3", "mps:g2:45", "c d", 5).ok
    assert slurm.calls("update")[-1] == ["scontrol", "update", "jobid=7_3", "gres=mps:g2:45", "admincomment=c d"]
    commands.other_logs(7, 1000, 0, 5)
    told_of_jobs = [call for name in ("squeue", "sacct") for call in slurm.calls(name)]
    assert len(told_of_jobs) >= 4
    assert all("--local" in call for call in told_of_jobs)  # not of other clusters' of a federation


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("JobContainerType        = job_container/none", False),
        ("JobContainerType        = (null)", False),
        ("JobCompUser             = root", False),
        ("JobContainerType        = job_container/tmpfs", True),
        ("NamespaceType           = namespace/linux", True),
        ("NamespaceType           = namespace/none", False),
    ],
)
def test_whether_jobs_have_name_spaces_of_their_own(slurm: FakeSlurm, line: str, own: bool) -> None:
    assert commands.jobs_have_name_spaces(5)  # Slurm does not tell
    slurm.config(f"AuthInfo                = (null)\n{line}\nLaunchParameters        = (null)\n")
    assert commands.jobs_have_name_spaces(5) == own


def test_how_long_slurmd_remembers_a_job(slurm: FakeSlurm) -> None:
    assert commands.credential_s(5) == 120
    slurm.config("AccountingStorageUser   = N/A\nAuthInfo                = socket=/run/munge,cred_expire=5\n")
    assert commands.credential_s(5) == 5
    slurm.config("AuthInfo                = (null)\n")
    assert commands.credential_s(5) == 120


def test_slurm_in_trouble(slurm: FakeSlurm) -> None:
    assert commands.show_job(8, 5) == (None, "exit status 1: slurm_load_jobs error: Invalid job id specified")
    slurm.trouble("sacct", 1, "sacct: error: slurm_persist_conn_open\n")
    assert commands.rows([8], 5) == (None, "exit status 1: sacct: error: slurm_persist_conn_open")
    slurm.trouble("squeue")
    assert commands.jobs_on("node0", 5) is None
    slurm.job(9, shown(10))
    assert commands.show_job(9, 5) == (None, "job 9 is not in what squeue shows")
    assert commands.version(5) == (0, 0)


def test_a_command_that_hangs_is_killed_with_what_it_started() -> None:
    begin = time.monotonic()
    code = "import subprocess; subprocess.run(['sleep', '60'])"
    done = commands.run([sys.executable, "-c", code], 0.5, env={"RAD_HANGS": "test", "PATH": "/usr/bin:/bin"})
    assert time.monotonic() - begin < 30
    assert (done.code, done.ok) == (None, False)
    assert "no answer within 0.5 s" in done.problem
    kill_all("RAD_HANGS=test")


def test_a_command_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = subprocess.Popen.wait

    def stuck(process: subprocess.Popen[str], timeout: float | None = None) -> int:
        assert timeout is not None, "nvidia-smi in a driver that hangs: this would wait for ever"
        wait(process, timeout)
        raise subprocess.TimeoutExpired("nvidia-smi", timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", stuck)
    assert "no answer within 0.1 s" in commands.run(["sleep", "60"], 0.1).problem


def test_a_command_that_is_not_there() -> None:
    assert commands.run(["/nowhere/scontrol"], 1).problem == "/nowhere/scontrol: No such file or directory"
