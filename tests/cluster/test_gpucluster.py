"""What the scenarios of scripts/gpu-cluster stand on, with stand-in GPUs and payloads."""

from __future__ import annotations

import pytest

from scripts.demonstration import Gpus
from scripts.devcluster import Cluster, ClusterError
from scripts.gpucluster.machine import Machine
from scripts.gpucluster.scenarios import services_killed, two_users
from scripts.gpucluster.sharing import partitioned
from scripts.gpucluster.stage import Stage


def test_a_scenario_with_jobs_of_two_users(cluster: Cluster) -> None:
    stage = Stage(Machine(cluster, Gpus((), "h200", 143771)))
    facts = two_users(stage, seconds=2)
    assert facts["checks"]["both completed"], facts
    assert {result["stand_in"] for result in facts["results"].values()} == {True}
    cluster.wait_for("the record is in slurmdbd", lambda: "policy collocation" in _story(stage, "of-bob", "bob"))
    with pytest.raises(ClusterError, match="said no result"):
        stage.result("never-submitted")


def test_services_that_are_killed_cost_no_job(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.gpucluster.scenarios.RESTART_S", 0.0)
    facts = services_killed(Stage(Machine(cluster, Gpus((), "h200", 143771))), seconds=4)
    assert [row["killed"] for row in facts["table"]] == ["radd", "slurmd-node0", "slurmd-node1"]
    assert all(facts["checks"].values()), facts


def test_a_job_gets_the_thread_percentage_that_the_predictor_chooses(cluster: Cluster) -> None:
    stage = Stage(Machine(cluster, Gpus((), "h200", 143771)))
    facts = partitioned(stage, seconds=0.5)
    assert all(facts["checks"].values()), facts
    free, limited = facts["table"]
    assert free["threads"] == 100 > limited["threads"]
    assert f'"RAD_THREAD_PERCENTAGE": "{limited["threads"]}@node' in stage.text("limited")
    assert min(limited["predicted_newcomer"], limited["predicted_resident"]) > 0.4
    assert limited["newcomer_progress"] == pytest.approx(1.0, abs=0.3)


def _story(stage: Stage, name: str, user: str) -> str:
    rows = stage.cluster.run(["sacct", "-X", "-n", "-o", "JobID", f"--name={name}"]).require().out.split()
    return stage.explain(int(rows[-1]), user) if rows else ""
