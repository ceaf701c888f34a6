"""Batch scripts that nobody should write; slurmctld and radd live through all of them."""

from __future__ import annotations

import pytest

from scripts.devcluster import Cluster
from tests.cluster.conftest import ONE_GPU, need_record, record_of, shares

HEAD = "#!/bin/bash\n#SBATCH --hold --gres=gpu:1\n"
DIRECTIVE = "#RAD memory=48G\n"
LONGEST = 4 * 1024 * 1024  # what slurmctld takes


@pytest.mark.parametrize(
    "script",
    [b"", b"\0\1\2" * 1000, b"\x7fELF" + bytes(range(256)) * 100, b"#!/bin/bash\n#RAD memory=48G\n\0true\n"],
    ids=["empty", "NULs", "binary", "a NUL after a directive"],
)
def test_what_is_no_script_is_refused_by_slurm_as_ever(cluster: Cluster, script: bytes) -> None:
    said = cluster.submit(script)
    assert said.code != 0
    assert "rad:" not in said.err
    assert cluster.is_up("slurmctld")


def filled(head: str, line: str, size: int) -> str:
    return head + line * ((size - len(head)) // len(line))


def test_a_script_of_4_mb_is_fine(cluster: Cluster) -> None:
    said = cluster.submit(filled(HEAD + DIRECTIVE, "echo one line of a long script\n", LONGEST - 1024))
    assert shares(cluster.job(said.job_id)["TresPerNode"]) == 35


def test_4_mb_of_comments_go_through_as_written(cluster: Cluster) -> None:
    said = cluster.submit(filled(HEAD + DIRECTIVE, "# one line of a long comment\n", LONGEST - 1024))
    assert "goes through as written" in said.err
    assert cluster.job(said.job_id)["TresPerNode"] in ONE_GPU


@pytest.mark.parametrize("line", ["true\n", "#\n"], ids=["commands", "comments"])
def test_100_000_lines_are_fine(cluster: Cluster, line: str) -> None:
    said = cluster.submit(HEAD + DIRECTIVE + line * 100_000)
    assert shares(cluster.job(said.job_id)["TresPerNode"]) == 35


def test_a_directive_at_the_end_of_100_000_comments_counts(cluster: Cluster) -> None:
    said = cluster.submit(HEAD + "#\n" * 100_000 + DIRECTIVE + "true\n")
    assert shares(cluster.job(said.job_id)["TresPerNode"]) == 35


def test_40_000_directives_are_refused_at_the_second(cluster: Cluster) -> None:
    said = cluster.submit(HEAD + DIRECTIVE * 40_000)
    assert said.code != 0
    assert "line 4: memory is already set in line 3" in said.err
    assert len(said.err) < 1000


def test_directives_after_the_first_command_have_no_effect_and_the_user_is_told(cluster: Cluster) -> None:
    said = cluster.submit(HEAD + "true\n" + DIRECTIVE)
    assert "after the first command" in said.err
    assert "move them up" in said.err
    assert cluster.job(said.job_id)["TresPerNode"] in ONE_GPU
    assert record_of(cluster, said.job_id) is None


@pytest.mark.parametrize("end", ["", "\n", "\n" + "# one more\n" * 100_000, "\ntrue\n" * 500_000], ids=len)
@pytest.mark.parametrize("line", ["# RAD memory=48G", "#rad memory=48G", "#RADmemory=48G", "\t#RAD memory=48G"])
def test_a_comment_that_looks_like_a_directive_is_told_of_and_nothing_changed(
    cluster: Cluster, line: str, end: str
) -> None:
    said = cluster.submit(HEAD + line + end)
    assert "rad: line 3 looks like a directive and is a comment: write #RAD memory=..., from the first" in said.err
    assert said.err.count("\n") == 1
    assert cluster.job(said.job_id)["TresPerNode"] in ONE_GPU
    assert record_of(cluster, said.job_id) is None


@pytest.mark.parametrize(
    "text", ["$(touch /tmp/rad-was-here)", "`id`", "'; true", "%s%n%d", "\x1b[31mred", "\u00e9" * 50], ids=ascii
)
def test_text_of_users_is_text(cluster: Cluster, text: str) -> None:
    said = cluster.submit(HEAD + f"#RAD memory=48G model={text}\ntrue\n")
    assert "\x1b" not in said.err
    if said.code == 0:
        assert need_record(cluster, said.job_id).share == 35
    else:
        assert "line 3" in said.err
