"""Jobs that share a GPU and lose it to one that may preempt them: what becomes of them, what is kept and told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scripts.devcluster import Cluster
from slurm_hooks.monitor import counters
from tests.cluster.conftest import need_record, outcome_of, output_so_far, shares, tell, whole
from tests.cluster.test_recovery import ERROR

SHARE = 35
# Who is told to go complains of memory, as frameworks do that are interrupted.
SCRIPT = f"""#!/bin/bash
#SBATCH --nodelist=node0 --open-mode=append
#RAD memory=48G
trap 'echo "{ERROR}"; exit 1' TERM
echo "run ${{SLURM_RESTART_COUNT:-0}}"
until [ -e "go-$SLURM_JOB_ID" ]; do sleep 0.1; done
"""
BEFORE_IT = SCRIPT.replace("48G", "80G")  # beside one of the others there is room for it, beside two there is none
PEAK_MIB = 30 * 1024
# By what Slurm preempts, and how those are asked for that go first, are requeued, are cancelled.
KINDS = {
    "partition_prio": ("--partition=pack", "--partition=gpu", "--partition=limited"),
    "qos": ("--qos=first", "--qos=normal", "--qos=short"),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, rad_cluster: Cluster) -> Iterator[str]:
    """By what the cluster preempts."""
    cluster, chosen = whole(rad_cluster), str(request.param)
    conf = cluster.layout.slurm_conf
    was = conf.read_text()
    if chosen == "qos":
        for words in (
            ("add", "qos", "first,short"),
            ("modify", "qos", "short", "set", "preemptmode=cancel"),
            ("modify", "qos", "normal", "set", "preemptmode=requeue"),
            ("modify", "qos", "first", "set", "preempt=normal,short", "priority=10"),
            ("modify", "user", "alice,bob", "set", "qos=normal,first,short"),
        ):
            done = cluster.run(["sacctmgr", "-i", *words])
            assert done.code == 0 or "Nothing" in done.out + done.err, done
    cluster.stop("slurmctld")
    conf.write_text(f"{was}PreemptType=preempt/{chosen}\nPreemptMode=REQUEUE\n")
    cluster.start("slurmctld")
    if chosen == "partition_prio":
        for change in ("pack prioritytier=10", "limited preemptmode=cancel"):
            cluster.run(["scontrol", "update", *f"partitionname={change}".split()]).require()
    cluster.wait_for("nodes idle", lambda: set(cluster.run(["sinfo", "-h", "-N", "-o", "%T"]).out.split()) == {"idle"})
    cluster.wait_until_radd_sees()
    yield chosen
    cluster.cancel_all()
    cluster.stop("slurmctld")
    conf.write_text(was)
    whole(cluster)


def _report(cluster: Cluster) -> dict[str, Any]:
    """What the report says of bob's jobs."""
    told = cluster.run(["radctl", "report", "--json", "--user", "bob", "--since", "1h"]).require().out
    return dict(json.loads(told)["total"])


def _pair(cluster: Cluster, *options: str) -> list[int]:
    """Two jobs that share a GPU, of which the monitor has counted something."""
    jobs = [cluster.submit(SCRIPT, *options, user="bob").job_id for _ in range(2)]
    for job in jobs:
        cluster.wait_for(f"job {job} writes", lambda job=job: "run 0" in _written(cluster, job))  # type: ignore[misc]
        counters.write(str(cluster.layout.run / "jobs"), job, counters.Account(0, peak_mib=PEAK_MIB))
    return jobs


def _written(cluster: Cluster, job: int) -> str:
    return output_so_far(cluster, job, "bob")


def _waits(cluster: Cluster, job: int) -> bool:
    return cluster.sacct(job, "State")[-1]["State"] == "PENDING"


def _story(cluster: Cluster, job: int) -> list[str]:
    told = cluster.run(["radctl", "explain", str(job)], user="bob").require().out
    return [line for line in told.splitlines() if line.startswith(("  ran ", "  run ", "  now "))]


def test_a_preempted_run_is_no_failure_and_its_job_keeps_its_share(cluster: Cluster, kind: str) -> None:
    before = _report(cluster)
    first, requeued, cancelled = KINDS[kind]
    pairs = [_pair(cluster, requeued, "--gres=gpu:g0:1"), _pair(cluster, cancelled, "--gres=gpu:g1:1")]
    urgent = [cluster.submit(BEFORE_IT, first, f"--gres=gpu:g{gpu}:1").job_id for gpu in range(2)]
    for job in urgent:
        cluster.wait_state(job, "RUNNING")
    gone = [[job for job in pair if cluster.state(job) != "RUNNING"] for pair in pairs]
    assert [len(jobs) for jobs in gone] == [1, 1]
    (again,), (never,) = gone
    cluster.wait_state(never, "PREEMPTED")
    cluster.wait_state(again, "PENDING")
    # Its first outcome reaches slurmdbd now, where Slurm does not count it as waiting there; else with the second.
    cluster.wait_for("slurmdbd has the first run", lambda: outcome_of(cluster, again)() or _waits(cluster, again))
    assert shares(cluster.job(again)["TresPerNode"]) == SHARE
    ended, waits = _story(cluster, again)
    assert ended.endswith("; preempted")
    assert waits.startswith("  now      waits (")
    for job in (*pairs[0], *pairs[1], *urgent):
        tell(cluster, job, "alice" if job in urgent else "bob")
    for job in (*pairs[0], *urgent, *(set(pairs[1]) - {never})):
        assert cluster.wait_state(job) == "COMPLETED"
    assert _written(cluster, again).splitlines()[-1] == "run 1"
    for job in (*pairs[0], *pairs[1]):
        cluster.wait_for("slurmdbd has all outcomes", outcome_of(cluster, job, restart=int(job == again)))

    used = f"peak {PEAK_MIB / 1024:.1f} GiB"
    one, two = _story(cluster, again)
    assert one.endswith(f" on node0 with mps:g0:{SHARE}; {used}; preempted")
    assert two.endswith(f" on node0 with mps:g0:{SHARE}; completed")
    (only,) = _story(cluster, never)
    assert only.endswith(f" on node0 with mps:g1:{SHARE}; {used}; preempted")
    assert need_record(cluster, again).retries == 0
    assert "rad:" not in _written(cluster, again) + _written(cluster, never)

    rows = [row for job in (*pairs[0], *pairs[1]) for row in cluster.sacct(job, "State", "ElapsedRaw", duplicates=True)]
    assert sorted(row["State"] for row in rows) == ["COMPLETED"] * 3 + ["PREEMPTED"] * 2
    after = _report(cluster)
    assert after["jobs"] == before["jobs"] + 4
    assert (after["ooms"], after["measured"]) == (before["ooms"], before["measured"] + 4)
    held = sum(int(row["ElapsedRaw"]) for row in rows) * SHARE / 100 / 3600
    assert after["gpu_hours_held"] - before["gpu_hours_held"] == pytest.approx(held, abs=2e-4)  # it is rounded
