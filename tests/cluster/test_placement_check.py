"""`radctl evaluate placement` reads back what a real Slurm keeps."""

from __future__ import annotations

import json
from typing import Any

from scripts.demo_data import resnet50
from scripts.devcluster import Cluster
from slurm_hooks.embed import embed
from tests.cluster.conftest import need_record, outcome_of

SCRIPT = embed("#!/bin/bash\n#SBATCH --gres=gpu:1\n#RAD batch_size=64 optimizer=adam\nsleep 4\n", resnet50())
RESIDENT = "#!/bin/bash\n#RAD memory=48G\nsleep 300\n"


def checked(cluster: Cluster) -> dict[int, dict[str, Any]]:
    """What is said of each job that was predicted for."""
    options = ["--since", "1h", "--min-seconds", "1", "--json"]
    made = json.loads(cluster.run(["radctl", "evaluate", "placement", *options]).require().out)
    assert made["total"]["sides"] == len(made["sides"])
    return {side["job"]: side for side in made["sides"]}


def test_a_job_beside_another_is_compared_with_its_run_alone(cluster: Cluster) -> None:
    cluster.wait_until_radd_sees()
    alone = cluster.submit(SCRIPT, "--partition=pack").job_id
    assert cluster.wait_state(alone) == "COMPLETED"
    resident = cluster.submit(RESIDENT, "--gres=gpu:1", "--partition=pack").job_id
    cluster.wait_state(resident, "RUNNING")
    cluster.wait_until_radd_sees()
    job = cluster.submit(SCRIPT, "--partition=pack").job_id
    record = need_record(cluster, job)
    assert record.residents == (resident,)
    assert cluster.wait_state(job) == "COMPLETED"
    for ended in (alone, job):
        cluster.wait_for("slurmdbd has the end", outcome_of(cluster, ended), 120)
    sides = checked(cluster)
    side = sides[job]
    assert (side["neighbours"], side["placement"], side["predicted"]) == ([resident], "mug", record.progress)
    # Both runs took as long; where starting one took a second more, that is as if it had done other work.
    assert side["measured"] or side["why"].startswith("was faster than alone")
    assert sides[resident]["measured"] is None
