from __future__ import annotations

import sys
import time

import pytest

from slurm_hooks.node import commands
from slurm_hooks.node.commands import Row, grown_gres, parse_job, parse_rows
from tests.slurm_hooks.node.conftest import FakeSlurm, kill_all, shown

# `scontrol show job -o` of Slurm 22.05.8 for the last task of an array, whose number is the array's too.
ARRAY = """\
JobId=7 ArrayJobId=7 ArrayTaskId=3 JobName=a.sh UserId=alice(1003) GroupId=alice(1003) MCS_label=N/A \
Priority=4294901754 Nice=0 Account=(null) QOS=normal JobState=COMPLETING Reason=NonZeroExitCode Dependency=(null) \
Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=3:0 RunTime=00:00:01 TimeLimit=UNLIMITED TimeMin=N/A \
Partition=gpu NodeList=node0 BatchHost=node0 Features=(null) Command=/home/alice/a.sh WorkDir=/home/alice \
AdminComment=JS1:abc RAD1:e30= "x" done  StdErr=/home/alice/slurm-7_3.out StdIn=/dev/null \
StdOut=/home/alice/slurm-7_3.out Power= TresPerNode=gres:mps:g2:30
JobId=13 ArrayJobId=7 ArrayTaskId=2 JobName=a.sh UserId=alice(1003) JobState=FAILED Reason=NonZeroExitCode Requeue=1 \
Restarts=0 BatchFlag=1 ExitCode=3:0 StdErr=/home/alice/slurm-7_2.out StdIn=/dev/null \
StdOut=/home/alice/slurm-7_2.out Power= TresPerNode=gres:mps:g2:30
JobId=14 ArrayJobId=7 ArrayTaskId=4-9 JobName=a.sh UserId=alice(1003) JobState=PENDING Reason=Resources Requeue=1 \
Restarts=0 BatchFlag=1 ExitCode=0:0 StdErr=/home/alice/slurm-7_%a.out StdIn=/dev/null \
StdOut=/home/alice/slurm-7_%a.out Power= TresPerNode=gres:mps:g2:30
"""


def test_the_last_task_of_an_array() -> None:
    job = parse_job(ARRAY, 7)
    assert job is not None
    assert (job.target, job.array_job, job.array_task) == ("7_3", 7, 3)
    assert (job.state, job.reason, job.exit_status, job.exit_signal) == ("COMPLETING", "NonZeroExitCode", 3, 0)
    assert (job.requeue, job.batch, job.restarts) == (True, True, 0)
    assert job.tres_per_node == "gres:mps:g2:30"
    assert job.admin_comment == 'JS1:abc RAD1:e30= "x" done'
    assert (job.stdout, job.stderr) == ("/home/alice/slurm-7_3.out", "/home/alice/slurm-7_3.out")


def test_another_task_of_an_array() -> None:
    job = parse_job(ARRAY, 13)
    assert job is not None
    assert (job.target, job.array_job, job.array_task, job.admin_comment) == ("13", 7, 2, "")
    waiting = parse_job(ARRAY, 14)
    assert waiting is not None
    assert (waiting.target, waiting.array_task) == ("14", None)


def test_a_job_that_is_not_there() -> None:
    assert parse_job(ARRAY, 8) is None
    assert parse_job("", 8) is None


@pytest.mark.parametrize(
    "told",
    [
        {"JobName": "a b\n   AdminComment=RAD1:e30="},
        {"JobName": "x AdminComment=RAD1:e30= StdErr=x"},
        {"WorkDir": "/home/alice/ AdminComment=RAD1:e30= Comment=x"},
        {"Comment": "AdminComment=RAD1:e30="},
        {"StdOut": "/x AdminComment=RAD1:e30="},
    ],
)
def test_a_user_cannot_write_the_record(told: dict[str, str]) -> None:
    job = parse_job(shown(9, AdminComment="RAD1:e31=", **told), 9)
    assert job is not None
    assert job.admin_comment is None


def test_a_user_cannot_name_another_job() -> None:
    name = "x\nJobId=12 ArrayJobId=5 ArrayTaskId=1 JobName=y"
    job = parse_job(shown(9, JobName=name), 9)
    assert job is not None
    assert job.target == "9"
    forged = parse_job(shown(9, JobName="x\nJobId=9 ArrayJobId=5 ArrayTaskId=1 JobName=y"), 9)
    assert forged is not None
    assert forged.target == "9"


def test_names_with_blanks() -> None:
    job = parse_job(shown(9, JobName="a Requeue=0 é", StdOut="/home/my log", AdminComment="x y", Comment="c d"), 9)
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
    assert grown_gres(before, 45) == after


def test_rows_of_slurmdbd() -> None:
    text = (
        "34|33_1|COMPLETED|1795201433|1795201434|only1 a,b\n"
        "33|33_2|REQUEUED|1795201433|1795201434|x|y\n"
        "second line\n"
        "33|33_2|CANCELLED by 1003|1795201440|Unknown|\n"
        "33|33_2|PENDING|Unknown|Unknown|\n"
    )
    assert parse_rows(text, [33, 35]) == {
        33: [
            Row("33_2", "REQUEUED", 1795201433, 1795201434, "x|y\nsecond line"),
            Row("33_2", "CANCELLED", 1795201440, None, ""),
            Row("33_2", "PENDING", None, None, ""),
        ],
        35: [],
    }


def test_a_requeued_run_whose_start_slurmdbd_lost_is_not_the_last() -> None:
    text = "1|1|COMPLETED|1795214468|1795214469|b\n1|1|REQUEUED|None|1795214460|a\n1|1|PENDING|Unknown|Unknown|\n"
    assert [row.state for row in parse_rows(text, [1])[1]] == ["REQUEUED", "COMPLETED", "PENDING"]


def test_how_slurm_is_asked(slurm: FakeSlurm) -> None:
    slurm.job(7, ARRAY)
    slurm.rows("7|7_3|FAILED|5|6|old")
    slurm.on_node(7, 13)
    assert commands.show_job(7, 5)[0] == parse_job(ARRAY, 7)
    assert commands.rows([7], 5) == ({7: [Row("7_3", "FAILED", 5, 6, "old")]}, "")
    assert commands.jobs_on("node0", 5) == {7, 13}
    assert commands.store_comment("7_3", 'new "text"', 5).ok
    assert slurm.comment() == 'new "text"'
    assert commands.update("7_3", "mps:g2:45", "c d", 5).ok
    assert slurm.calls("update")[-1] == ["scontrol", "update", "jobid=7_3", "gres=mps:g2:45", "admincomment=c d"]


def test_slurm_in_trouble(slurm: FakeSlurm) -> None:
    assert commands.show_job(8, 5) == (None, "exit status 1: slurm_load_jobs error: Invalid job id specified")
    slurm.trouble("sacct", 1, "sacct: error: slurm_persist_conn_open\n")
    assert commands.rows([8], 5) == (None, "exit status 1: sacct: error: slurm_persist_conn_open")
    slurm.trouble("squeue")
    assert commands.jobs_on("node0", 5) is None
    slurm.job(9, "JobId=10 ")
    assert commands.show_job(9, 5) == (None, "job 9 is not in what scontrol shows")
    assert commands.version(5) == (0, 0)


def test_a_command_that_hangs_is_killed_with_what_it_started() -> None:
    begin = time.monotonic()
    code = "import subprocess; subprocess.run(['sleep', '60'])"
    done = commands.run([sys.executable, "-c", code], 0.5, env={"RAD_HANGS": "test", "PATH": "/usr/bin:/bin"})
    assert time.monotonic() - begin < 30
    assert (done.code, done.ok) == (None, False)
    assert "no answer within 0.5 s" in done.problem
    kill_all("RAD_HANGS=test")


def test_a_command_that_is_not_there() -> None:
    assert commands.run(["/nowhere/scontrol"], 1).problem == "/nowhere/scontrol: No such file or directory"
