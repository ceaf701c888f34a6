"""radd stopped, hung, restarted, and clients that talk nonsense: jobs go through as written, users are told so."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.devcluster import Cluster
from slurm_hooks.slurm.versions import SHARES_KEPT_SINCE
from tests.cluster.conftest import ONE_GPU, need_record, record_of, shares, version, whole

SCRIPT = "#!/bin/bash\n#SBATCH --hold --gres=gpu:1\n#RAD memory=48G\ntrue\n"
RUNS = SCRIPT.replace("--hold ", "").replace("true", "sleep 300")
AS_WRITTEN = "RAD does not answer: the job goes through as written"
ANSWERS = 3  # failures in a row that open the breaker


@pytest.fixture(autouse=True)
def _closed_breaker(cluster: Cluster) -> Iterator[None]:
    """Each test begins and ends with a hook that asks radd."""
    yield
    wait_until_decided(whole(cluster))


def wait_until_decided(cluster: Cluster) -> None:
    cluster.wait_for("RAD decides again", lambda: decided(cluster), 120)


def decided(cluster: Cluster) -> bool:
    said = cluster.submit(SCRIPT)
    return shares(cluster.job(said.job_id)["TresPerNode"]) is not None


def must_go_through(cluster: Cluster) -> None:
    said = cluster.submit(SCRIPT)
    assert said.err.count("rad: ") == 1
    assert AS_WRITTEN in said.err
    job = cluster.job(said.job_id)
    assert job["TresPerNode"] in ONE_GPU
    assert record_of(cluster, said.job_id) is None


def log_of_controller(cluster: Cluster) -> str:
    return (cluster.layout.logs / "slurmctld" / "slurmctld.log").read_text()


def test_radd_stopped_and_started_again(cluster: Cluster) -> None:
    cluster.stop("radd")
    before = len(log_of_controller(cluster))
    for _ in range(ANSWERS + 1):
        must_go_through(cluster)
    log = log_of_controller(cluster)[before:]
    assert "radd is not asked for 2 s" in log
    assert "radd did not answer before" in log
    # One line for each job, no more.
    assert log.count("rad: a job goes through as written") == ANSWERS + 1
    cluster.start("radd")
    wait_until_decided(cluster)


def test_radd_hung_and_woken(cluster: Cluster) -> None:
    cluster.signal("radd", signal.SIGSTOP)
    before = log_of_controller(cluster).count("no answer in 600 ms")
    for _ in range(ANSWERS):
        must_go_through(cluster)
    assert log_of_controller(cluster).count("no answer in 600 ms") == before + ANSWERS
    # Other users' commands are served meanwhile.
    assert cluster.run(["sinfo", "-h"]).code == 0
    cluster.signal("radd", signal.SIGCONT)
    wait_until_decided(cluster)


def test_radd_killed_leaves_a_socket_that_the_next_one_replaces(cluster: Cluster) -> None:
    cluster.signal("radd", signal.SIGKILL)
    cluster.wait_for("radd is dead", lambda: not cluster.is_up("radd"))
    assert (cluster.layout.run / "rad" / "radd.sock").is_socket()
    must_go_through(cluster)
    wait_until_decided(whole(cluster))


def _garbage(connection: socket.socket) -> None:
    connection.sendall(bytes(range(256)) * 64)


def _half(connection: socket.socket) -> None:
    connection.sendall(b"RAD1 100\nscript 50\n")
    connection.shutdown(socket.SHUT_WR)


def _huge(connection: socket.socket) -> None:
    connection.sendall(b"RAD1 99999999999\n" + b"x" * 65536)


def _silent(connection: socket.socket) -> None:
    connection.setblocking(False)


@pytest.mark.parametrize("abuse", [_garbage, _half, _huge, _silent])
def test_clients_that_talk_nonsense_cost_radd_nothing(cluster: Cluster, abuse: Callable[[socket.socket], None]) -> None:
    path = str(cluster.layout.run / "rad" / "radd.sock")
    connections = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    for connection in connections:
        connection.connect(path)
        try:
            abuse(connection)
        except OSError:  # radd has hung up already
            continue
    assert decided(cluster)
    assert cluster.is_up("radd")
    for connection in connections:
        connection.close()


def test_only_slurmctld_may_ask_radd(cluster: Cluster) -> None:
    path = cluster.layout.run / "rad" / "radd.sock"
    ask = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    for user, code in (("alice", 1), ("slurm", 0), ("rad", 0)):
        assert cluster.run(["/usr/bin/python3", "-c", ask, str(path)], user=user, cwd=Path("/")).code == code


def test_slurmctld_starts_without_radd(cluster: Cluster) -> None:
    cluster.stop("radd")
    cluster.stop("slurmctld")
    cluster.start("slurmctld")
    must_go_through(cluster)


def test_jobs_share_from_slurmctlds_start_on_where_it_knows_its_nodes_shares(cluster: Cluster) -> None:
    if version(cluster) < SHARES_KEPT_SINCE:
        pytest.skip("this Slurm would refuse jobs for shares, or hold them")
    cluster.wait_state(cluster.submit(RUNS).job_id, "RUNNING")
    cluster.stop("slurmctld")
    cluster.start("slurmctld")
    job = cluster.submit(RUNS).job_id
    assert need_record(cluster, job).action == "share"
    cluster.wait_state(job, "RUNNING")


def test_job_submit_lua_taken_anew_is_no_start_of_slurmctld(cluster: Cluster) -> None:
    (cluster.layout.etc / "job_submit.lua").touch()
    assert need_record(cluster, cluster.submit(SCRIPT, "--hold").job_id).action == "share"


def test_a_decision_outlives_radd(cluster: Cluster) -> None:
    said = cluster.submit(SCRIPT)
    cluster.stop("radd")
    cluster.run(["scontrol", "release", str(said.job_id)], user="alice")
    assert cluster.wait_state(said.job_id) == "COMPLETED"
    assert need_record(cluster, said.job_id).action == "share"


def test_a_radd_that_slurm_shows_no_jobs_pins_none(cluster: Cluster) -> None:
    """slurm.conf has PrivateData=jobs, and radd's user is no operator: it took every GPU for free."""
    conf = cluster.layout.slurm_conf
    before = conf.read_text()

    def set_up(text: str, level: str) -> None:
        cluster.run(["sacctmgr", "-i", "modify", "user", "rad", "set", f"adminlevel={level}"]).require()
        conf.write_text(text)
        for name in ("radd", "slurmctld"):  # radd asks for Slurm's settings once a minute
            cluster.stop(name)
        cluster.start("slurmctld")
        cluster.start("radd")
        cluster.wait_for("nodes are ready", cluster._nodes_ready)

    try:
        set_up(before + "PrivateData=jobs\n", "none")
        cluster.wait_state(cluster.submit(RUNS).job_id, "RUNNING")
        cluster.wait_until_radd_sees()
        record = need_record(cluster, cluster.submit(RUNS, user="bob").job_id)
    finally:
        set_up(before, "operator")
    assert (record.action, record.pin) == ("share", "")
    assert record.reasons[-1].endswith("or radd may not see jobs")
