"""What users and admins read back from a real Slurm: `radctl decide`, `explain`, `report`, `doctor`, `top`."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest

from scripts.devcluster import Cluster
from slurm_hooks.sbatch import unknown
from tests.cluster.conftest import UNTIL_TOLD, need_record, tell

SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#RAD memory=48G\n"
SHARE = 35
# A name that would forge a row of sacct's or a record, were it taken for one.
HOSTILE = "a|b\n4711|root JobState=FAILED RAD1:e30= \x1b[2J"


def radctl(cluster: Cluster, *args: str, user: str | None = "alice") -> str:
    """What the command prints for a user (None: root)."""
    return cluster.run(["radctl", *args], user=user).require().out


def report_of(cluster: Cluster, user: str) -> dict[str, Any]:
    """Total of the user's jobs."""
    made: dict[str, Any] = json.loads(radctl(cluster, "report", "--json", "--user", user, "--since", "1h", user=user))
    return dict(made["total"])


def kept(cluster: Cluster, job: int) -> bool:
    """Whether slurmdbd has the outcome of an ended job."""
    return "; completed" in radctl(cluster, "explain", str(job))


def test_a_job_from_decision_to_report(cluster: Cluster) -> None:
    cluster.wait_until_radd_sees()
    before = report_of(cluster, "alice")
    (cluster.home("alice") / "tried.sh").write_text(SCRIPT)
    decided = json.loads(radctl(cluster, "decide", "tried.sh", "--json"))
    assert (decided["action"], decided["share"], decided["method"]) == ("share", SHARE, "claim")

    job = cluster.submit(SCRIPT + UNTIL_TOLD + "sleep 1\n").job_id  # Slurm counts whole seconds
    asked = cluster.job(job)["TresPerNode"]
    assert asked == decided["request"]["tres_per_node"]
    cluster.wait_state(job, "RUNNING")
    running = radctl(cluster, "explain", str(job))
    assert running.startswith(f"job {job} job.sh, alice, partition gpu\n")
    assert f"now      running on {decided['node']} with mps:{decided['pin']}:{SHARE}" in running
    shown = json.loads(radctl(cluster, "top", "--json"))
    (held,) = [gpu for gpu in shown["gpus"] if (gpu["node"], gpu["gpu"]) == (decided["node"], decided["pin"])]
    assert [job, "alice", SHARE, 48 * 1024] in held["residents"]

    # It is not to start again: such a job was never eligible, to slurmdbd.
    cluster.run(["scontrol", "hold", str(job)], user="alice").require()
    tell(cluster, job)
    cluster.wait_state(job)
    cluster.wait_for("slurmdbd has the outcome", lambda: kept(cluster, job))
    ended = radctl(cluster, "explain", str(job))
    assert "estimate 48.0 GiB expected, 48.0 GiB upper (as the script claims)" in ended
    # Until slurmdbd has heard of its end, the job counts without its record.
    cluster.wait_for("slurmdbd has the run", lambda: report_of(cluster, "alice")["shared"] == before["shared"] + 1)
    after = report_of(cluster, "alice")
    assert after["jobs"] == before["jobs"] + 1
    assert after["gpu_hours_saved"] > before["gpu_hours_saved"]


def test_every_option_that_sbatch_lists_is_known(cluster: Cluster) -> None:
    listed = re.findall(r"^ .{0,8}(--[a-z-]+)", cluster.run(["sbatch", "--help"]).require().out, re.MULTILINE)
    assert {"--gres", "--hold", "--ntasks"} < set(listed)
    assert unknown("#!/bin/bash\n", [f"{option}=1" for option in listed]) == []


def test_what_becomes_of_a_job_is_what_was_told(cluster: Cluster) -> None:
    (cluster.home("alice") / "job.sh").write_text(SCRIPT)
    for options in (
        ["--gres=none", "--gpus-per-task=g1:1", "-n1"],
        ["--ntasks-per-node=2"],
        ["--tasks-per-node=2", "-w", "node1"],
        ["--ntasks-per-node=2", "--nodes=1"],
        ["--gres=none", "--gpus-per-task=1", "--ntasks-per-node=2", "--nodes=1"],
    ):
        decided = json.loads(radctl(cluster, "decide", "job.sh", "--hold", *options, "--json"))
        record = need_record(cluster, cluster.run(["sbatch", "--hold", *options, "job.sh"], user="alice").job_id)
        told = (decided["action"], decided["asked"], decided["share"], tuple(decided["reasons"]))
        assert told == (record.action, record.asked, record.share, record.reasons)


@pytest.mark.parametrize(
    "head",
    [
        "  # indented\n#SBATCH --gres=gpu:1\n\t#SBATCH --gres=gpu:2\n#RAD memory=48G\n",
        "#RAD memory=48G\n#SBATCH --gres=gpu:1 \\\n",
        "#RAD memory=48G\n#SBATCH -p g'p'u#,plain\n#SBATCH --gpus=1#2\n",
        "#RAD memory=48G\n#SBATCH --job-name='a\\' --gres=gpu:2' --gres=g\\pu:1\n",
        "#RAD memory=48G\n#SBATCH --gpus-per-node=g1:1\n#SBATCH --gres=none\n",
        "#RAD memory=48G\n#SBATCH --gres=gpu:1\n#SBATCH --gpus-per-node=1\n",
        "#RAD memory=48G\n\u00a0\n#SBATCH --gres=gpu:1\n",
        "#RAD memory=48G\n#SBATCH --gres=gpu:1 -n1\n#SBATCH -n2 # a hetjob\n#SBATCH --gres=gpu:2\n",
        "#RAD memory=48G\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH --gres=gpu:1\n",
    ],
    ids=ascii,
)
def test_a_head_says_what_it_says_to_sbatch(cluster: Cluster, head: str) -> None:
    said = cluster.submit("#!/bin/bash\n" + head + "true\n", "--hold")
    if "--gpus-per-node and --gres=gpu are mutually exclusive" in said.err:
        pytest.skip("sbatch of Slurm 26.05 refuses both")
    decided = json.loads(radctl(cluster, "decide", "job.sh", "--hold", "--json"))
    record = need_record(cluster, said.job_id)
    told = (decided["action"], decided["asked"], decided["share"], tuple(decided["reasons"]))
    assert told == (record.action, record.asked, record.share, record.reasons)


def test_a_name_is_a_name(cluster: Cluster) -> None:
    job = cluster.submit(SCRIPT, "--hold", "--job-name", HOSTILE).job_id
    first, *rest = radctl(cluster, "explain", str(job)).splitlines()
    assert first.startswith(f"job {job} a|b")
    assert first.endswith(", alice, partition gpu")
    assert "\x1b" not in first
    assert any(line.startswith("  now      waits") for line in rest)
    assert any(line.startswith(f"  decision mps:{SHARE}") for line in rest)


def test_tasks_of_an_array(cluster: Cluster) -> None:
    job = cluster.submit(SCRIPT + "sleep 300\n", "--array=0-2%1").job_id
    cluster.wait_state(f"{job}_0", "RUNNING")
    assert "mps:" in radctl(cluster, "explain", f"{job}_0")
    waiting = radctl(cluster, "explain", f"{job}_2")
    assert waiting.startswith(f"job {job}_2 ")
    assert "now      waits" in waiting
    several = cluster.run(["radctl", "explain", str(job)], user="alice")
    assert several.code == 2
    assert "name one of them" in several.err


def test_jobs_that_rad_leaves_alone(cluster: Cluster) -> None:
    plain = cluster.submit("#!/bin/bash\ntrue\n", "--gres=gpu:1").job_id
    two = cluster.submit(SCRIPT + "true\n", "--gres=gpu:2", "--hold").job_id
    waits = cluster.submit(SCRIPT, "--hold").job_id
    assert "RAD did nothing with this job" in radctl(cluster, "explain", str(plain))
    assert "left as written: the job asks for more than one GPU" in radctl(cluster, "explain", str(two))
    assert "waits (JobHeldUser)" in radctl(cluster, "explain", str(waits))
    assert "neither slurmdbd nor slurmctld knows it" in cluster.run(["radctl", "explain", "999999"]).err


def test_slurmdbd_down(cluster: Cluster) -> None:
    job = cluster.submit(SCRIPT + "sleep 300\n").job_id
    cluster.wait_state(job, "RUNNING")
    cluster.stop("slurmdbd")
    assert "now      running" in radctl(cluster, "explain", str(job))
    failed = cluster.run(["radctl", "report"])
    assert failed.code == 2
    assert failed.err.startswith("radctl: ")
    assert "Traceback" not in failed.err


def test_the_page(cluster: Cluster) -> None:
    page = radctl(cluster, "report", "--since", "1h", "--html", user=None)
    assert page.endswith("</html>\n")
    assert "GPUs over time" in page


def test_doctor(cluster: Cluster) -> None:
    found = json.loads(cluster.run(["radctl", "doctor", "controller", "--json"]).out)["controller"]
    assert [finding["subject"] for finding in found if finding["needed"] and not finding["ok"]] == []
    cluster.stop("radd")
    socket = next(f for f in json.loads(cluster.run(["radctl", "doctor", "controller", "--json"]).out)["controller"]
                  if f["subject"] in ("radd", "radd socket") and not f["ok"])  # fmt: skip
    assert socket["cure"]
    cluster.stop("slurmdbd")
    found = json.loads(cluster.run(["radctl", "doctor", "controller", "--json"]).out)["controller"]
    assert [finding["ok"] for finding in found if finding["subject"] == "slurmdbd"] == [False]


@pytest.mark.parametrize("command", ["explain 1; id", "explain $(id)"])
def test_nothing_reaches_a_shell(cluster: Cluster, command: str) -> None:
    done = cluster.run(["radctl", *command.split(" ", 1)])
    assert done.code == 2
    assert "is no job id" in done.err
    assert f"uid={os.getuid()}" not in done.out + done.err
