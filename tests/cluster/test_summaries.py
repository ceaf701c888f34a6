"""The summary on its way from the user's folder to radd, and what users put in its place."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.demo_data import mlp, resnet50
from scripts.devcluster import Cluster
from tests.cluster.conftest import ONE_GPU, need_record, output, record_of, shares

SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:1
#RAD model={model} batch_size=64 optimizer=adam
env | grep -c '^RAD_SUMMARY=.' ; env | grep -c '^RAD_SUMMARY_[0-9]*=.'
"""


@pytest.fixture
def summary(cluster: Cluster) -> Path:
    path = cluster.home("alice") / "resnet50.txt"
    path.write_text(resnet50())
    return path


def test_a_summary_is_read_on_the_login_node_and_leaves_no_trace_in_the_job(cluster: Cluster, summary: Path) -> None:
    said = cluster.submit(SCRIPT.format(model=summary.name))
    assert "GiB expected" in said.err
    assert "resnet50.txt, batch 64, adam, fp32" in said.err
    assert cluster.wait_state(said.job_id) == "FAILED"  # grep finds nothing and says so
    assert output(cluster, said.job_id).split() == ["0", "0"]
    record = need_record(cluster, said.job_id)
    assert (record.action, record.model, record.batch_size) == ("share", "resnet50.txt", 64)
    assert record.expected_mib is not None
    assert record.upper_mib is not None
    assert 2000 < record.expected_mib <= record.upper_mib < 60000
    assert record.fingerprint


def test_a_path_is_relative_to_the_submit_directory(cluster: Cluster, summary: Path) -> None:
    folder = cluster.home("alice") / "runs"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    said = cluster.submit(SCRIPT.format(model="../resnet50.txt"), "--hold", cwd=folder)
    assert "GiB expected" in said.err


def test_without_an_environment_the_message_names_the_cure_and_the_cure_works(cluster: Cluster, summary: Path) -> None:
    said = cluster.submit(SCRIPT.format(model=summary.name), "--hold", "--export=NONE")
    assert "radctl embed" in said.err
    assert cluster.job(said.job_id)["TresPerNode"] in ONE_GPU
    record = need_record(cluster, said.job_id)
    assert record.action == "left_alone"
    assert "radctl embed" in record.reasons[0]
    embedded = cluster.run(["radctl", "embed", "job.sh"], user="alice").require().out
    said = cluster.submit(embedded, "--hold", "--export=NONE")
    assert "GiB expected" in said.err
    assert shares(cluster.job(said.job_id)["TresPerNode"]) == need_record(cluster, said.job_id).share


def test_an_embedded_summary_counts_the_same_as_a_file(cluster: Cluster, summary: Path) -> None:
    from_file = need_record(cluster, cluster.submit(SCRIPT.format(model=summary.name), "--hold").job_id)
    text = cluster.run(["radctl", "embed", "job.sh"], user="alice").require().out
    inline = need_record(cluster, cluster.submit(text, "--hold").job_id)
    assert inline.upper_mib == from_file.upper_mib
    assert inline.fingerprint == from_file.fingerprint


def test_a_script_on_standard_input_works_with_an_embedded_summary(cluster: Cluster, summary: Path) -> None:
    cluster.submit(SCRIPT.format(model=summary.name), "--hold")
    text = cluster.run(["radctl", "embed", "job.sh"], user="alice").require().out
    said = cluster.run(["sbatch", "--hold"], user="alice", stdin=text.encode())
    assert "GiB expected" in said.err
    assert shares(cluster.job(said.job_id)["TresPerNode"]) is not None


def _missing(path: Path) -> None:
    assert not path.exists()


def _directory(path: Path) -> None:
    path.mkdir()


def _shadow(path: Path) -> None:
    path.symlink_to("/etc/shadow")


def _fifo(path: Path) -> None:
    os.mkfifo(path, 0o666)


def _fifty_megabytes(path: Path) -> None:
    path.write_bytes(resnet50().encode())
    os.truncate(path, 50_000_000)


def _of_another(path: Path) -> None:
    path.write_text(resnet50())
    os.chown(path, pwd.getpwnam("bob").pw_uid, -1)
    path.chmod(0o600)


def _nuls(path: Path) -> None:
    path.write_bytes(b"\0" * 4096)


def _one_line(path: Path) -> None:
    path.write_text("hello")


def _empty(path: Path) -> None:
    path.write_text("")


def _100_000_layers(path: Path) -> None:
    path.write_text(mlp(100_000))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_missing, "No such file"),
        (_directory, "not a regular file"),
        (_shadow, "Permission denied"),
        (_fifo, "not a regular file"),
        (_fifty_megabytes, "longer than 512 KiB"),
        (_of_another, "Permission denied"),
        (_nuls, "not text"),
        (_one_line, ""),
        (_empty, ""),
        (_100_000_layers, "longer than 512 KiB"),
        (_device, "not a regular file"),
    ],
)
def test_a_summary_that_cannot_be_used_leaves_the_job_alone(
    cluster: Cluster, make: Callable[[Path], None], reason: str
) -> None:
    path = cluster.home("alice") / "model.txt"
    make(path)
    try:
        said = cluster.submit(SCRIPT.format(model=path.name), "--hold")
        assert said.err.startswith("sbatch: rad: left as written: ") or "rad: left as written: " in said.err
        assert reason in said.err
        assert cluster.job(said.job_id)["TresPerNode"] in ONE_GPU
        record = need_record(cluster, said.job_id)
        assert record.action == "left_alone"
        assert reason in record.reasons[0]
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    assert cluster.is_up("radd")


def test_the_users_file_is_opened_by_nobody_but_the_user(cluster: Cluster, summary: Path) -> None:
    """A summary that only alice can read works: it is read as alice, before the job leaves the login node."""
    os.chown(summary, pwd.getpwnam("alice").pw_uid, -1)
    summary.chmod(0o600)
    said = cluster.submit(SCRIPT.format(model=summary.name), "--hold")
    assert "GiB expected" in said.err
    summary.unlink()


FORGED = (
    ("RAD_SUMMARY=error \x1b[31mred", "left as written: summary resnet50.txt: ?[31mred\n"),
    ("RAD_SUMMARY=error " + "x" * 100_000, "left as written: summary resnet50.txt: " + "x" * 300 + "\n"),
    ("RAD_SUMMARY=error %s%n RAD1:eyJhY3Rpb24iOiJzaGFyZSJ9", "left as written: summary resnet50.txt: %s%n RAD1:"),
    ("RAD_SUMMARY=ok 17", "left as written: summary resnet50.txt: it was not handed on"),
    ("RAD_SUMMARY=ok " + "9" * 400, "left as written: summary resnet50.txt: it was not handed on"),
    ("RAD_SUMMARY=ok -1", "left as written: summary resnet50.txt: ok -1"),
    ("RAD_SUMMARY=ok 0", "left as written: the summary is empty"),
    ("RAD_SUMMARY=ok 16,RAD_SUMMARY_1=(", "left as written: summary "),
    ("RAD_SUMMARY_1=\x1b[2J\xff", "left as written: summary "),
    (
        "RAD_SUMMARY=ok 7," + ",".join(f"RAD_SUMMARY_{piece}=" + "x" * 95_000 for piece in range(1, 8)),
        "script, summary and options are longer than 1000 KB together",
    ),
    ("RAD_SHARE=1,RAD_THREAD_PERCENTAGE=0,RAD_TEST_ONLY=yes,RAD_CORE_SPEC=,RAD_COUNTED=x", "GiB expected"),
)
"""What a user may have put into the job's environment by --export, and what he is told of it."""


def test_a_forged_environment_is_its_own_jobs_loss(cluster: Cluster, summary: Path) -> None:
    for export, told in FORGED:
        script = (
            SCRIPT.format(model=summary.name)
            .encode()
            .replace(b"#RAD", f"#SBATCH --hold --export='ALL,{export}'\n#RAD".encode("latin-1"), 1)
        )
        said = cluster.submit(script)
        assert told in said.err, export[:40]
        assert "\x1b" not in said.err, export[:40]
        forged = record_of(cluster, said.job_id)
        assert forged is None or "RAD1" not in forged.model
        assert (shares(cluster.job(said.job_id)["TresPerNode"]) is None) == ("GiB expected" not in told)
        others = cluster.submit("#!/bin/sh\n#SBATCH --gres=gpu:1 --hold\n#RAD memory=48G\ntrue\n", user="bob")
        assert shares(cluster.job(others.job_id)["TresPerNode"]) == 35, export[:40]
