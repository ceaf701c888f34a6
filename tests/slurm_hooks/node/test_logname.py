"""Expected names are those of the files that Slurm 22.05.8, 24.11.5 and 26.05.5 made."""

from __future__ import annotations

import dataclasses

import pytest

from slurm_hooks.node.commands import OtherLogs, parse_job
from slurm_hooks.node.loglist import HOST, before_start, of_job, of_others
from slurm_hooks.node.logname import LogNames, expand, names_job
from tests.slurm_hooks.node.conftest import JOB, shown

PLAIN = LogNames(22, user="alice", name="n m", node="node0")
TASK = LogNames(30, user="alice", name="nm", node="node0", array_job=30, array_task=7)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("", "slurm-22.out"),
        ("a%j", "a22"),
        ("%%j", "%j"),
        ("%%%j", "%22"),
        ("%10j-%011j-%0j", "0000000022-0000000022-22"),
        ("%q-%", "%q-%"),
        ("%A-%a-%2a", "22-4294967294-4294967294"),
        ("%J-%N-%n-%s-%t-%4t-%3s", "22-node0-0-batch-0-0000-batch"),
        ("%j%", "22%"),
        ("%b-%3b", "4-004"),  # 24.11 and 26.05
        ("%5%j-%10%%j-%123%%-%5q-%10q-%3r-%5%", "522-0%j-3%-5q-0q-3r-5%"),
        ("%r-%S", "%r-%S"),
        ("%u %x", "alice n m"),
        ("d1\\a", "d1a"),
        ("d2\\\\a", "d2\\a"),
        ("d4\\a%j\\b%j", "d4a%jb%j"),
        ("d5a\\\\\\b", "d5a\\b"),
        ("d7\\%\\%", "d7%%"),
        ("logs/../x", "logs/../x"),
    ],
)
def test_names_of_a_job(pattern: str, name: str) -> None:
    assert expand(pattern, PLAIN, "/home/alice") == f"/home/alice/{name}"


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("", "slurm-30_7.out"),
        ("%A-%5A-%a-%3a-%j-%J-%x-%N-%n-%s-%t", "30-00030-7-007-30-30-nm-node0-0-batch-0"),
    ],
)
def test_names_of_a_task(pattern: str, name: str) -> None:
    assert expand(pattern, TASK, "/home/alice") == f"/home/alice/{name}"


def test_names_of_a_run_that_has_an_identifier() -> None:
    names = dataclasses.replace(TASK, restart=2, sluid="s26DM83WWPNT00")
    assert expand("%r-%3r-%S-%4S-%b", names, "/") == "/2-002-s26DM83WWPNT00-s26DM83WWPNT00-7"


def test_an_absolute_name_stays() -> None:
    assert expand("/scratch/%j", PLAIN, "/home/alice") == "/scratch/22"


@pytest.mark.parametrize("pattern", ["%x.out", "%u-%j"])
def test_what_is_not_known_gives_no_name(pattern: str) -> None:
    assert expand(pattern, LogNames(22), "/") is None


@pytest.mark.parametrize(
    ("pattern", "own"),
    [
        ("", True),
        ("%j.out", True),
        ("%4A_%a", True),
        ("%A.out", False),  # tasks of an array share it
        ("%x_%a.out", False),
        ("%x.out", False),
        ("%%j", False),
        ("%5%j", True),
        ("%5%%j", False),
        ("\\%j", False),
        ("log", False),
    ],
)
def test_names_of_its_own(pattern: str, own: bool) -> None:
    assert names_job(pattern) is own


@pytest.mark.parametrize(
    ("restart", "out", "err", "paths"),
    [
        (0, "", "", ["/slurm-4711.out"]),
        (0, "%j.out", "%j.err", ["/4711.out", "/4711.err"]),
        (0, "%x-%j.out", "", []),  # its own, and its name is not known: nothing to look at
        (0, "log", "", ["/log"]),
        (0, "%x.out", "", None),
        (0, "log", "%x.err", None),
        (0, "%j.out", "%x.err", None),
        (0, "log", "%A.err", None),
        (0, "%A.out", "", None),
        (0, "log_%a", "", None),
        (0, "%A_%a.out", "", ["/4711_4294967294.out"]),  # its own: nothing to look at, whatever its name
        (0, "", "log", ["/slurm-4711.out", "/log"]),
        (1, "", "log", None),
        (1, "", "", None),  # perhaps a task of an array
        (1, "%A_%a.out", "", None),
        (1, "%x-%j.out", "", None),
        (1, "%j.out", "log", ["/4711.out", "/log"]),
    ],
)
def test_what_a_prolog_knows(restart: int, out: str, err: str, paths: list[str] | None) -> None:
    job = dataclasses.replace(JOB, restart=restart, stdout=out, stderr=err)
    logs = before_start(job)
    assert (None if logs is None else [log.path for log in logs]) == paths


@pytest.mark.parametrize(
    ("out", "err", "told", "paths"),
    [
        ("", "", {}, ["/slurm-4711.out"]),
        ("", "", {"ArrayJobId": "4700", "ArrayTaskId": "3"}, ["/slurm-4700_3.out"]),
        ("%x.out", "%x.err", {"JobName": "a b"}, ["/a b.out", "/a b.err"]),
        ("%x.out", "", {"JobName": " a  b  "}, ["/ a  b  .out"]),
        ("%x.out", "", {"JobName": "(null)"}, ["/(null).out"]),
        ("%5j", "", {}, ["/04711"]),
        ("%N", "", {}, [f"/{HOST}"]),  # which need not be the node's name in Slurm
        ("", "", {"StdOut": "/home/alice/my log"}, ["/home/alice/my log"]),  # Slurm before 22.05
    ],
)
def test_what_slurmctld_knows(out: str, err: str, told: dict[str, str], paths: list[str]) -> None:
    job = dataclasses.replace(JOB, stdout=out, stderr=err)
    answer = parse_job(f"{shown(4711, **told)}\n", 4711)
    assert answer is not None
    assert [log.path for log in of_job(job, answer)] == paths


def test_where_slurmctld_names_the_logs_a_node_has_its_name_in_slurm() -> None:
    job = dataclasses.replace(JOB, restart=1, sluid="s26DM83WWPNT00", stdout="%N-%r-%x", stderr="%S")
    answer = parse_job(f"{shown(4711, JobName='a')}\n", 4711)
    assert answer is not None
    assert of_job(job, answer) == [("/node0-1-a", False), ("/s26DM83WWPNT00", False)]
    logs = before_start(dataclasses.replace(job, restart=0, stdout="%N-%r"))
    assert logs == [("/node0-0", False), ("/s26DM83WWPNT00", False)]


def test_which_logs_are_the_jobs_alone() -> None:
    answer = parse_job(f"{shown(4711, ArrayJobId='4700', ArrayTaskId='3')}\n", 4711)
    assert answer is not None
    job = dataclasses.replace(JOB, stdout="%A.out", stderr="%A_%a.err")
    assert of_job(job, answer) == [("/4700.out", False), ("/4700_3.err", True)]
    assert of_job(dataclasses.replace(job, stdout="", stderr="log"), answer) == [
        ("/slurm-4700_3.out", True),
        ("/log", False),
    ]


def test_logs_of_others() -> None:
    plain = OtherLogs(12, None, None, "/home/alice", "n", "../alice/train.log", "")
    task = OtherLogs(14, 13, 2, "/data", "n", "/data/%A.log", "/data/%x-%u-%a.err")
    unknown = OtherLogs(15, None, None, "/data", "n", "", "")
    assert of_others(dataclasses.replace(JOB, user="alice"), [plain, task, unknown]) == {
        "/home/alice/train.log": "12",
        "/data/13.log": "13_2",
        "/data/n-alice-2.err": "13_2",
    }


def test_a_path_that_slurmctld_has_cut_is_the_default() -> None:
    job = dataclasses.replace(JOB, stdout="", work_dir="/home/" + "d" * 1100)
    answer = parse_job(shown(4711, StdOut=f"{job.work_dir}/slurm-4711.out"[:1023]) + "\n", 4711)
    assert answer is not None
    assert of_job(dataclasses.replace(job, id=4711), answer) == [(f"{job.work_dir}/slurm-4711.out", True)]
